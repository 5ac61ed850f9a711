"""Options for the time that a question is about."""

from collections.abc import Callable
from typing import Any

import click

from kgroup.cli.options import parsed
from kgroup.cli.parameter import parse_time

__all__ = ["time_options"]


def time_options(since: str, until: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--since` and `--until`; the command takes ``since_ms`` and ``until_ms``.

    Args:
        since: help of the first,
        until: and of the second.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, text in (("until", until), ("since", since)):
            option = click.option(
                f"--{name}",
                f"{name}_ms",
                metavar="TIME",
                callback=parsed(parse_time),
                help=text,
            )
            command = option(command)
        return command

    return add
