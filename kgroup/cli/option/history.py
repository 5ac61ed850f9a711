"""Arguments and options that several commands about the past have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import click

from kgroup.cli.option.common import ID, OutputFolder, parsed
from kgroup.cli.option.parameter import parse_duration, parse_time
from kgroup.cli.option.suggestion import suggest_groups

_Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

group_argument: _Decorator = click.argument(
    "group_id", metavar="GROUP", type=ID, shell_complete=suggest_groups
)
"""The group that is asked about, as ``group_id``."""

any_group_argument: _Decorator = click.argument(
    "group_id", metavar="[GROUP]", type=ID, required=False, shell_complete=suggest_groups
)
"""The same, or None: all groups."""

topic_option: _Decorator = click.option("--topic", type=ID, help="Only of this topic.")


to_option: _Decorator = click.option(
    "--to",
    "root",
    metavar="DIR",
    type=OutputFolder(),
    required=True,
    help="The warehouse: a new folder, or one that was made so before.",
)
"""Where tables are written, as ``root``."""


def at_option(text: str) -> _Decorator:
    """Add `--at`, one time; the command takes ``at_ms``.

    Args:
        text: its help.
    """
    return _time_option("at", text)


def length_option(name: str, parameter: str, default: str, text: str) -> _Decorator:
    """Add an option that takes a length of time.

    Args:
        name: of the option.
        parameter: what the command takes it as, in milliseconds.
        default: as it would be typed.
        text: its help.
    """
    return click.option(
        name,
        parameter,
        metavar="TIME",
        default=default,
        show_default=True,
        callback=parsed(parse_duration),
        help=text,
    )


def time_options(since: str, until: str) -> _Decorator:
    """Add `--since` and `--until`; the command takes ``since_ms`` and ``until_ms``.

    Args:
        since: help of the first,
        until: and of the second.
    """

    def add(asked: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(asked)
        def command(*, since_ms: int | None, until_ms: int | None, **rest: Any) -> Any:
            if since_ms is not None and until_ms is not None and since_ms > until_ms:
                raise click.UsageError("--since wants an earlier time than --until")
            return asked(since_ms=since_ms, until_ms=until_ms, **rest)

        return _time_option("since", since)(_time_option("until", until)(command))

    return add


def _time_option(name: str, text: str) -> _Decorator:
    return click.option(
        f"--{name}", f"{name}_ms", metavar="TIME", callback=parsed(parse_time), help=text
    )
