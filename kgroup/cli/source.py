"""Where groups come from: one choice among the options, the same for every command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.connection import Connection, connection_options
from kgroup.cli.options import log_dir_options

if TYPE_CHECKING:
    from kgroup.source.base import GroupSource

__all__ = ["Source", "source_options"]


@dataclass(frozen=True, slots=True)
class Source:
    """What was chosen: log directories, or a cluster, or neither where that is allowed.

    Attributes:
        paths: log directories, empty without.
        connection: to a cluster, None without.
    """

    paths: tuple[Path, ...]
    connection: Connection | None

    @contextmanager
    def open(self, *, of_silence: bool = False) -> "Iterator[GroupSource]":
        """Give the source, for as long as the context lasts.

        Args:
            of_silence: see `Connection.open`.
        """
        if self.connection is None:
            from kgroup.cli.progress import Progress
            from kgroup.source.log_dir import LogDir

            progress = Progress(writes_rows=False)
            yield LogDir(
                self.paths,
                announce=progress.announce_compiling,
                watch=progress.tell_bytes,
            )
            progress.clear()
        else:
            with self.connection.open(of_silence=of_silence) as cluster:
                yield cluster


def source_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the choice of a source; the command takes ``source: Source``.

    The environment may name a cluster; it is the source where no option chooses one.

    Args:
        required: whether it is wrong usage to choose none.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_source(*, paths: tuple[Path, ...], connection: Connection, **rest: Any) -> Any:
            return command(source=_source(paths, connection, required), **rest)

        return connection_options(log_dir_options(with_source))

    return decorate


def _source(paths: tuple[Path, ...], connection: Connection, required: bool) -> Source:
    option = connection.chosen_by
    if paths and option:
        raise click.UsageError(
            f"{option} (a cluster) and --log-dir or --sample are two sources; choose one of them"
        )
    if paths:
        return Source(paths, None)
    if option or connection.is_default:
        return Source((), connection)
    if required:
        raise click.UsageError(
            "where do the groups come from? Choose --bootstrap-server HOST:PORT or --profile NAME "
            "(a cluster), --log-dir PATH (a broker's log directory) or --sample (recorded data "
            "inside the package)"
        )
    return Source((), None)
