"""`kgroup list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.group_filter import group_filter_options
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.output.context import Output, json_errors, show
from kgroup.errors import ExitStatus
from kgroup.model.group import GroupType

if TYPE_CHECKING:
    from kgroup.operation.list_groups import GroupFilter

MEMBER_COLUMNS = frozenset({"assignor", "member_count", "topics"})
"""Columns for which a cluster must be asked about each group."""


@click.command(
    "list",
    cls=Command,
    epilog=examples(
        "kgroup list --sample",
        "kgroup list --sample --type classic --state Stable",
        "kgroup list --sample --type zookeeper",
        "kgroup list --sample --topic orders -o tsv --no-headers --columns group_id",
        "kgroup list -b kafka-1:9092,kafka-2:9092 --state Empty --state Dead",
        "kgroup list --log-dir /var/lib/kafka/data --regex 'billing-.*' -o json",
    ),
)
@source_options(required=True)
@group_filter_options
@click.option(
    "--members",
    is_flag=True,
    help="Also request assignors, members and topics from a cluster; implied by --topic, and by "
    "their columns in --columns. Other sources always have them.",
)
@output_options("group.LIST_COLUMNS")
def command(source: Source, chosen: GroupFilter, members: bool, output: Output) -> ExitStatus:
    """List groups with their type, state, protocol and coordinator.

    With several filters, lists the groups that match all of them.
    """
    from kgroup.operation.list_groups import list_groups

    if set(chosen.types) == {GroupType.ZOOKEEPER}:
        source = source.of_zookeeper
    tells_all = members or source.connection is None
    with json_errors(output), source.open() as groups:
        report = list_groups(
            groups,
            chosen,
            members=tells_all
            or source.zookeeper is not None  # its states depend on the members
            or not MEMBER_COLUMNS.isdisjoint(output.columns),
            with_topics=tells_all or "topics" in output.columns,
        )
    return show(report, output)
