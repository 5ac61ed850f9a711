"""Where offsets are kept: what a source of groups is, and also a SQL table or a file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import PATH, add_options
from kgroup.cli.option.connection import Connection
from kgroup.cli.option.source import Source, missing_source, source_options

if TYPE_CHECKING:
    from kgroup.operation.offsets.read import AnyStore

__all__ = ["Store", "parse_store", "store_options"]


@dataclass(frozen=True, slots=True)
class Store:
    """One of the three.

    Attributes:
        source: of groups.
        sql: URL of a database, @ and a file that has it, or empty: the profile or the environment
            has it.
        file: of offsets.
    """

    source: Source = field(default_factory=Source)
    sql: str | None = None
    file: Path | None = None

    @property
    def has_cluster(self) -> bool:
        """Whether it is a cluster that can tell about records, too."""
        return self.source.connection is not None

    @contextmanager
    def open(self, group_ids: tuple[str, ...] = ()) -> "Iterator[AnyStore]":
        """Give the store, for as long as the context lasts.

        Raises:
            InputError: there is none.
            UsageError: something that is needed to open it is missing, or is not as it should be.
        """
        if self.file is not None:
            from kgroup.source.offset_file import OffsetFile

            yield OffsetFile(self.file)
        else:
            with self.source.that_has(group_ids).open(of_silence=True) as source:
                yield source


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the choice of a store; the command takes ``store: Store``."""

    @wraps(command)
    def with_store(
        *, source: Source, sql: str | None = None, file: Path | None, **rest: Any
    ) -> Any:
        chosen = ["--sql"] if sql is not None else []
        chosen += ["--file"] if file is not None else []
        if len(chosen) > 1 or (chosen and source.is_named):
            raise click.UsageError(
                f"{' and '.join(chosen)} and where groups come from are two stores; choose one"
                if len(chosen) == 1
                else "--sql and --file are two stores; choose one"
            )
        if not chosen and source == Source():
            raise missing_source()
        return command(store=Store(source if not chosen else Source(), sql, file), **rest)

    return source_options(required=False)(add_options(with_store, *_OPTIONS))


def parse_store(text: str, connection: Connection) -> Store:
    """Read how a store is named where two are.

    Args:
        text: ``kafka`` (the cluster of the connection), ``kafka:HOST:PORT``,
            ``zookeeper:HOST:PORT/CHROOT``, ``sql`` (of profile or environment), ``sql:URL``,
            ``log-dir:PATH``, ``snapshot:FILE``, ``sample``, or the path of a file.
        connection: with which to ask a cluster.

    Raises:
        click.UsageError: it is none of these.
    """
    kind, colon, rest = text.partition(":")
    match kind:
        case "kafka":
            server = rest if colon else connection.bootstrap_server
            return Store(Source(connection=replace(connection, bootstrap_server=server)))
        case "zookeeper" if colon:
            from kgroup.source.zookeeper.address import parse_address

            return Store(Source(connection=connection, zookeeper=parse_address(rest)))
        case "log-dir" if colon:
            return Store(Source(paths=(Path(rest),)))
        case "snapshot" if colon:
            return Store(Source(snapshot=Path(rest)))
        case "sample" if not colon:
            from kgroup.sample import sample_log_dir

            return Store(Source(paths=(sample_log_dir(),)))
        case "sql":
            return Store(sql=rest)
        case "file" if colon:
            return Store(file=Path(rest))
    if "://" in text:
        return Store(sql=text)
    if not text:
        raise click.UsageError("expected a store, found an empty text")
    return Store(file=Path(text))


_OPTIONS = (
    click.option(
        "--file", metavar="FILE", type=PATH, help="A file of offsets; - is standard input."
    ),
)
