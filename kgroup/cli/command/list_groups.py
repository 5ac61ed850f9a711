"""`kgroup list`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import (
    ID,
    CaseInsensitiveChoice,
    examples,
    output_options,
    regex_option,
)
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import suggest_topics
from kgroup.cli.output.context import Output, json_errors, show
from kgroup.cli.shell.suggestion import suggest_choices
from kgroup.errors import ExitStatus
from kgroup.model.group import GroupState, GroupType
from kgroup.model.pattern import Pattern

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
@click.option(
    "--state",
    "states",
    metavar="STATE",
    multiple=True,
    type=CaseInsensitiveChoice(state.value for state in GroupState),
    shell_complete=suggest_choices,
    help=f"Only groups in this state: {', '.join(GroupState)}. Repeatable.",
)
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    type=CaseInsensitiveChoice(type_.value for type_ in GroupType),
    help=f"Only groups of this type: {', '.join(GroupType)}. Repeatable.",
)
@regex_option
@click.option(
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    type=ID,
    shell_complete=suggest_topics,
    help="Only groups that subscribe to this topic, own partitions of it, or have committed "
    "offsets for it. Repeatable.",
)
@click.option(
    "--members",
    is_flag=True,
    help="Also request assignors, members and topics from a cluster; implied by --topic, and by "
    "their columns in --columns. Other sources always have them.",
)
@output_options("group.LIST_COLUMNS")
def command(
    source: Source,
    states: Sequence[str],
    types: Sequence[str],
    regex: Pattern | None,
    topics: Sequence[str],
    members: bool,
    output: Output,
) -> ExitStatus:
    """List groups with their type, state, protocol and coordinator.

    With several filters, lists the groups that match all of them.
    """
    from kgroup.operation.list_groups import list_groups

    if set(types) == {GroupType.ZOOKEEPER}:
        source = source.of_zookeeper
    tells_all = members or source.connection is None
    with json_errors(output), source.open() as groups:
        report = list_groups(
            groups,
            states=[GroupState(state) for state in states],
            types=[GroupType(type_) for type_ in types],
            regex=regex,
            topics=topics,
            members=tells_all
            or source.zookeeper is not None  # its states depend on the members
            or not MEMBER_COLUMNS.isdisjoint(output.columns),
            with_topics=tells_all or "topics" in output.columns,
        )
    return show(report, output)
