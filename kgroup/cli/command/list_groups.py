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
    help=f"Groups in this state: {', '.join(GroupState)}. Repeat it for more.",
)
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    type=CaseInsensitiveChoice(type_.value for type_ in GroupType),
    help=f"Groups of this type: {', '.join(GroupType)}. Repeat it for more.",
)
@regex_option
@click.option(
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    type=ID,
    shell_complete=suggest_topics,
    help="Groups that subscribe to the topic, own a part of it or have committed. "
    "Repeat it for more.",
)
@click.option(
    "--members",
    is_flag=True,
    help="Ask a cluster also for assignors, members and topics. The other sources tell them "
    "anyway; so does a cluster where --columns has one of them, or --topic is given.",
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

    A group is listed that passes every filter given.
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
