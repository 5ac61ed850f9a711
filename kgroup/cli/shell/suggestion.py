"""What a word on a command line may become: functions for click's `shell_complete`.

They are called while somebody waits for the tab key, and ask nobody; what goes wrong is passed
over: then there is nothing to suggest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from kgroup.render.cell import Column

Items: TypeAlias = "list[CompletionItem[str]]"  # older versions of click have no type arguments
_PARTS_OF_HISTORY = ("partitions", "of_groups", "pauses", "jumps")
"""Options of questions of history that choose other rows."""
PART = "part"
"""Type of a suggestion after which the word may go on: one of several with commas between."""


def suggest_strategies(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest names of assignors, of whatever protocol."""
    from kgroup.assignor.strategy import strategies
    from kgroup.operation.assign.client import software

    protocols = ("classic", "consumer", "share", "zookeeper")
    client = ctx.params.get("client")
    own = strategies("classic", software(client)) if client else ()
    every = (name for protocol in protocols for name in strategies(protocol))
    names = dict.fromkeys(own or every)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def suggest_clients(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest client libraries, and their versions behind an @."""
    from kgroup.assignor.strategy import CLIENTS

    names = [*CLIENTS, *(f"{each.name}@{v}" for each in CLIENTS.values() for v in each.versions)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def suggest_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest codes of findings."""
    from kgroup.operation.check.rule import Rule

    return [CompletionItem(rule) for rule in Rule if rule.startswith(incomplete)]


def suggest_scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest the scenarios that come with kgroup."""
    from kgroup.operation.simulate import scenario_names

    return [CompletionItem(name) for name in scenario_names() if name.startswith(incomplete)]


def suggest_choices(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest the choices of a parameter as they are written; click's own are in lower case."""
    assert isinstance(param.type, click.Choice)
    return [
        CompletionItem(str(choice))
        for choice in param.type.choices
        if str(choice).lower().startswith(incomplete.lower())
    ]


def suggest_columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest columns of the tables that the command writes, after those that stand there."""
    from kgroup.render import group as of_groups

    name, params = ctx.command.name, ctx.params
    columns: Sequence[Column]
    if name == "decode-offsets":
        from kgroup.render.record import RECORD_COLUMNS

        columns = RECORD_COLUMNS
    elif name == "list":
        columns = of_groups.LIST_COLUMNS
    elif name == "coordinator":
        is_group = params.get("kind") != "transaction"
        columns = of_groups.LOCATION_COLUMNS if is_group else of_groups.TRANSACTION_COLUMNS
    elif name == "simulate":
        from kgroup.render import simulation

        is_list = params.get("lists")
        columns = simulation.SCENARIO_COLUMNS if is_list else simulation.EVENT_COLUMNS
    elif name == "assign":
        from kgroup.render import assignment

        columns = (
            assignment.COMPARE_COLUMNS
            if params.get("compare")
            else assignment.BOUNCE_COLUMNS
            if params.get("bounce")
            else assignment.MOVE_COLUMNS
        )
    elif name == "plan":
        from kgroup.render import plan

        columns = plan.TARGET_COLUMNS if params.get("lists") else plan.ADVICE_COLUMNS
    elif ctx.parent is not None and ctx.parent.command.name == "plan" and name != "apply":
        from kgroup.render import plan

        columns = plan.CHECK_COLUMNS if name == "verify" else plan.STEP_COLUMNS
    elif ctx.parent is not None and ctx.parent.command.name == "history" and name != "as-of":
        columns = _history_columns(name or "", params)
    elif name == "check":
        from kgroup.render.check import FINDING_COLUMNS, RULE_COLUMNS

        columns = RULE_COLUMNS if params.get("lists_rules") else FINDING_COLUMNS
    elif name in ("ids", "owners", "tree", "fetchers"):
        from kgroup.render import zookeeper as of_zookeeper

        columns = {
            "ids": of_zookeeper.CONSUMER_COLUMNS,
            "owners": of_zookeeper.OWNER_COLUMNS,
            "tree": of_zookeeper.NODE_COLUMNS,
            "fetchers": of_zookeeper.FETCH_COLUMNS,
        }[name]
    elif params.get("members"):
        columns = of_groups.MEMBER_COLUMNS
    elif params.get("state"):
        columns = of_groups.STATE_COLUMNS
    else:
        columns = of_groups.OFFSET_COLUMNS
    return _parts({column.name: column.meaning for column in columns}, incomplete)


def _history_columns(name: str, params: Mapping[str, Any]) -> Sequence[Column]:
    from kgroup.render import history

    part = next((option for option in _PARTS_OF_HISTORY if params.get(option)), name)
    columns: Mapping[str, Sequence[Column]] = {
        "build": history.BUILD_COLUMNS,
        "show": history.CLUSTER_INVENTORY_COLUMNS,
        "partitions": history.PARTITION_INVENTORY_COLUMNS,
        "of_groups": history.GROUP_INVENTORY_COLUMNS,
        "owner": history.OWNER_COLUMNS,
        "timeline": history.INTERVAL_COLUMNS,
        "commits": history.COMMIT_COLUMNS,
        "pauses": history.PAUSE_COLUMNS,
        "jumps": history.JUMP_COLUMNS,
        "stale": history.STALE_COLUMNS,
        "lag": history.LAG_COLUMNS,
        "rebalances": history.REBALANCE_COLUMNS,
        "storms": history.STORM_COLUMNS,
    }
    return columns.get(part, ())  # those of sql are what the query says


def suggest_record_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest types of records, after those that stand there."""
    from kgroup.protocol.record.coordinator_record import RECORD_TYPES

    return _parts(dict.fromkeys(RECORD_TYPES), incomplete)


def suggest_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest profiles of kgroup's configuration file."""
    from kgroup.source.config.profile import config_file, profile_names

    names: Iterable[str] = ()
    with suppress(Exception):
        names = profile_names(config_file(os.environ))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _parts(meanings: Mapping[str, str | None], incomplete: str) -> Items:
    """Suggest names for the last part of a text with commas, those that are not there yet."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{name}", PART, meaning)
        for name, meaning in meanings.items()
        if name.lower().startswith(last.lower()) and name not in given
    ]
