"""Options that choose groups by what they are; the command takes ``chosen: GroupFilter``."""

from __future__ import annotations

from typing import Any

import click

from kgroup.cli.option.common import TOPIC, CaseInsensitiveChoice, options_into, regex_option
from kgroup.cli.option.suggestion import suggest_topics
from kgroup.cli.shell.suggestion import suggest_choices
from kgroup.model.group import GroupState, GroupType


def _filter(**given: Any) -> Any:
    from kgroup.operation.group_filter import GroupFilter

    states = [GroupState(state) for state in given.pop("states")]
    return GroupFilter(states, [GroupType(type_) for type_ in given.pop("types")], **given)


group_filter_options = options_into(
    "chosen",
    _filter,
    click.option(
        "--state",
        "states",
        metavar="STATE",
        multiple=True,
        type=CaseInsensitiveChoice(state.value for state in GroupState),
        shell_complete=suggest_choices,
        help=f"Select groups in this state: {', '.join(GroupState)}. Repeatable.",
    ),
    click.option(
        "--type",
        "types",
        metavar="TYPE",
        multiple=True,
        type=CaseInsensitiveChoice(type_.value for type_ in GroupType),
        help=f"Select groups of this type: {', '.join(GroupType)}. Repeatable.",
    ),
    regex_option,
    click.option(
        "--topic",
        "topics",
        metavar="NAME",
        multiple=True,
        type=TOPIC,
        shell_complete=suggest_topics,
        help="Select groups that subscribe to this topic, own partitions of it, or have committed "
        "offsets for it. Repeatable.",
    ),
    names=("states", "types", "regex", "topics"),
)
"""Adds `--state`, `--type`, `--regex` and `--topic`; a group passes that meets all of them."""
