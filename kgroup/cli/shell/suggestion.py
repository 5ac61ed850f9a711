"""Completion of words without a source: functions for click's `shell_complete`.

The user is waiting after the tab key. Therefore, these functions send no requests and ignore
errors: there are no suggestions then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeAlias

import click
from click.shell_completion import CompletionItem

Items: TypeAlias = "list[CompletionItem[str]]"  # older versions of click are not generic
PART = "part"
"""Type of suggestions after which the word may continue, in a comma-separated list."""


def suggest_strategies(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest assignors of all protocols."""
    from kgroup.assignor.strategy import strategies
    from kgroup.operation.assign.client import software

    protocols = ("classic", "consumer", "share", "streams", "connect", "zookeeper")
    client = ctx.params.get("client")
    own = strategies("classic", software(client)) if client else ()
    every = (name for protocol in protocols for name in strategies(protocol))
    names = dict.fromkeys(own or every)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def suggest_clients(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest client libraries, with versions after @."""
    from kgroup.assignor.group_spec import CLIENTS

    names = [
        *CLIENTS,
        *(f"{library.name}@{v}" for library in CLIENTS.values() for v in library.versions),
    ]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def suggest_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest rules."""
    from kgroup.operation.check.rule import Rule

    return [CompletionItem(rule) for rule in Rule if rule.startswith(incomplete)]


def suggest_scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest the shipped scenarios."""
    from kgroup.operation.simulate import scenario_names

    return [CompletionItem(name) for name in scenario_names() if name.startswith(incomplete)]


def suggest_choices(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest the choices of a parameter as written; click's own are in lower case."""
    assert isinstance(param.type, click.Choice)
    return [
        CompletionItem(str(choice))
        for choice in param.type.choices
        if str(choice).lower().startswith(incomplete.lower())
    ]


def suggest_record_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest record types for a comma-separated list."""
    from kgroup.protocol.record.coordinator_record import RECORD_TYPES

    return suggest_parts(dict.fromkeys(RECORD_TYPES), incomplete)


def suggest_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest profiles of kgroup's configuration file."""
    from kgroup.source.config.profile import config_file, profile_names

    names: Iterable[str] = ()
    with suppress(Exception):
        names = profile_names(config_file(os.environ))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def suggest_parts(meanings: Mapping[str, str | None], incomplete: str) -> Items:
    """Suggest names for the last element of a comma-separated list, except those already typed."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{name}", PART, meaning)
        for name, meaning in meanings.items()
        if name.lower().startswith(last.lower()) and name not in given
    ]
