"""Options for the time that a question is about."""

from collections.abc import Callable
from functools import wraps
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

    def add(asked: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(asked)
        def command(*, since_ms: int | None, until_ms: int | None, **rest: Any) -> Any:
            if since_ms is not None and until_ms is not None and since_ms > until_ms:
                raise click.UsageError("--since wants an earlier time than --until")
            return asked(since_ms=since_ms, until_ms=until_ms, **rest)

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
