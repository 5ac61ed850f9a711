"""Offset stores: sources of groups, SQL tables and files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import Block, BlockOption
from kgroup.cli.option.common import ID, PATH, Decorator, options_into, parsed
from kgroup.cli.option.connection import DEFAULT_TIMEOUT_S, Connection
from kgroup.cli.option.parameter import parse_topics
from kgroup.cli.option.source import (
    FILE_FORMATS,
    Source,
    SourceFile,
    missing_source,
    source_options,
)
from kgroup.cli.option.suggestion import suggest_groups, suggest_topics
from kgroup.errors import AbsentTableError, InputError, UsageError
from kgroup.model.pattern import Pattern

if TYPE_CHECKING:
    from kgroup.operation.plan.plan import OffsetCopy
    from kgroup.source.base import GroupSource
    from kgroup.source.sql.store import SqlOffsetStore

_KINDS = ("kafka", "zookeeper", "sql", "log-dir", *FILE_FORMATS, "file")
"""Prefixes of store names, for commands with two stores."""

PROFILE = "profile"
"""Value for the database URL of the environment or a profile."""


@dataclass(frozen=True, slots=True)
class SqlNames:
    """Options of a table: its name, its columns by meaning, and whether to create it."""

    table: str | None = None
    columns: tuple[str, ...] = ()
    creates: bool = False


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """The selected store: a source of groups, a database or a file.

    Attributes:
        source: source of groups; for a database, the cluster that the groups read from, if it has a
            connection.
        sql: URL of a database, @ followed by a file with the URL, or `PROFILE`.
        file: file of offsets.
        names: names of the table.
    """

    source: Source = field(default_factory=Source)
    sql: str | None = field(default=None, repr=False)
    file: Path | None = None
    names: SqlNames = field(default_factory=SqlNames)

    @contextmanager
    def open(self, group_ids: tuple[str, ...] = ()) -> Iterator[GroupSource]:
        """Yield the store while the context is open.

        Raises:
            InputError: the store does not exist.
            UsageError: a required setting is missing or invalid.
        """
        if self.file is not None:
            from kgroup.source.offset_file import OffsetFile

            yield OffsetFile(self.file)
        elif self.sql is not None:
            yield self.open_table(self.sql)
        else:
            with self.source.that_has(group_ids).open(of_silence=True) as source:
                yield source

    @contextmanager
    def open_cluster(self, store: GroupSource) -> Iterator[GroupSource | None]:
        """Yield the source of log start and end offsets: the store, or the cluster of a database.

        Raises:
            UsageError: the cluster's configuration is invalid.
        """
        from kgroup.source.base import GroupSource

        connection = self.source.connection
        if store.can(GroupSource.read):
            yield store
        elif connection is None or not _names_server(connection):
            yield None
        else:
            with connection.open(of_silence=True) as cluster:
                yield cluster

    def words(self) -> tuple[list[str], list[str]]:
        """Return the options that select this store, to print in a command; without secrets.

        Returns:
            Words of a command line, and instructions for the secrets.
        """
        connection = self.source.connection
        if self.sql is not None:
            from kgroup.source.sql.address import parse_address

            if self.sql == PROFILE:
                is_secret = bool(os.environ.get("KGROUP_SQL_URL"))
            else:
                is_secret = self.sql[:1] != "@" and parse_address(self.sql).has_secrets
            words = ["--sql", PROFILE if is_secret else self.sql]
            if self.names.table is not None:
                words += ["--sql-table", self.names.table]
            for column in self.names.columns:
                words += ["--sql-column", column]
            profile = _profile(connection)
            words += ["-C", profile] if profile else []
            return words, ["the URL in $KGROUP_SQL_URL"] if is_secret else []
        if connection is None:
            return [], []
        where, zookeeper = [], self.source.zookeeper
        if zookeeper is not None:
            where = ["--zookeeper", str(zookeeper)]
            connection = replace(connection, bootstrap_server=None)
        words, keys = connection.words(with_environment=zookeeper is None)
        return where + words, [f"{key} in a file (--command-config)" for key in keys]

    def open_table(self, text: str) -> SqlOffsetStore:
        """Return the table of a database.

        Args:
            text: as `sql`.

        Raises:
            InputError: a file with the URL cannot be read.
            UsageError: no database is given, or a setting is invalid.
        """
        from kgroup.source.config.profile import config_file, read_sql_profile
        from kgroup.source.sql.address import parse_sql_profile, sql_settings
        from kgroup.source.sql.layout import renamed
        from kgroup.source.sql.store import SqlOffsetStore

        environment = dict(os.environ)
        connection = self.source.connection
        name = _profile(connection)
        file = config_file(environment)
        section = read_sql_profile(name, file) if name else None
        profile = None if section is None else parse_sql_profile(*section, file.parent, environment)
        settings = sql_settings(None if text == PROFILE else text, environment, profile)
        if settings.url is None:
            raise UsageError(
                "no database given: use --sql URL, $KGROUP_SQL_URL, or a profile (-C) with a "
                "section [profiles.NAME.sql]"
            )
        layout = renamed(settings.layout, self.names.table, self.names.columns)
        timeout_s = (connection or self.source).timeout_s
        return SqlOffsetStore(settings.url, layout, timeout_s=timeout_s, creates=self.names.creates)


def _store(source: Source, sql: str | None, file: Path | None, names: SqlNames) -> StoreChoice:
    if sql is not None and file is not None:
        raise click.UsageError("--sql and --file are two stores; choose one of them")
    if sql is None and file is None and source == Source():
        raise missing_source()
    is_cluster = source.connection is not None and source.zookeeper is None
    if (sql is not None and source != Source() and not is_cluster) or (
        file is not None and source.is_named
    ):
        option = "--file" if sql is None else "--sql"
        raise click.UsageError(
            f"{option} and a source of groups are two stores; choose one of them"
        )
    return StoreChoice(source, sql, file, names)


def _names(
    sql_table: str | None, sql_columns: tuple[str, ...], create_table: bool = False
) -> SqlNames:
    return SqlNames(sql_table, sql_columns, create_table)


def parse_store(text: str, connection: Connection, names: SqlNames) -> StoreChoice:
    """Parse the name of a store, for commands with two stores.

    Args:
        text: ``kafka`` (the cluster of the connection), ``kafka:HOST:PORT``,
            ``zookeeper:HOST:PORT/CHROOT``, ``sql`` (of profile or environment), ``sql:URL``, ``log-
            dir:PATH``, ``snapshot:FILE``, ``sample``, or the path of a file.
        connection: connection settings of a cluster.
        names: names of the table of a database.

    Raises:
        UsageError: the text is invalid; also click's UsageError.
    """
    from kgroup.redaction import keep_userinfo

    if not os.path.exists(text):
        keep_userinfo(text)
    kind, colon, rest = text.partition(":")
    match kind:
        case "kafka":
            server = rest if colon else connection.bootstrap_server
            return StoreChoice(Source(connection=replace(connection, bootstrap_server=server)))
        case "zookeeper" if colon:
            from kgroup.source.zookeeper.address import parse_address

            return StoreChoice(Source(connection=connection, zookeeper=parse_address(rest)))
        case "log-dir" if colon:
            return StoreChoice(Source(paths=(_path(rest, text),)))
        case name if colon and name in FILE_FORMATS:
            return StoreChoice(Source(file=SourceFile(FILE_FORMATS[name], _path(rest, text))))
        case "sample" if not colon:
            return StoreChoice(Source.sample())
        case "sql":
            return _beside(connection, rest if colon else PROFILE, names)
        case "file" if colon:
            return StoreChoice(file=_path(rest, text))
    if "://" in text:
        return _beside(connection, text, names)
    if not text:
        raise click.UsageError("expected a store, found an empty string")
    from difflib import get_close_matches

    path = _path(text, text)
    is_there = os.path.exists(path)  # Path.exists raises for names that are too long
    close = get_close_matches(kind, (*_KINDS, "sample"), 1, 0.75)
    if (colon or close) and not is_there:
        suggestion = (
            f"; did you mean {close[0]}{colon}{rest}?" if close and close[0] != kind else ""
        )
        raise click.UsageError(
            f"{text}: expected {', '.join(f'{kind}:…' for kind in _KINDS)}, sample, or the path of "
            f"a file; found no such file{suggestion}"
        )
    return StoreChoice(file=path)


def copied_stores(
    copy: OffsetCopy, source: Source, sql: str | None
) -> tuple[StoreChoice, StoreChoice]:
    """Return the two stores between which a plan step copies offsets.

    Args:
        copy: the copy, with the names of the stores.
        source: source that the plan calls ``kafka``.
        sql: database that the plan calls ``sql``; None: that of the profile or the environment.

    Raises:
        UsageError: no source is given.
    """
    names = SqlNames(copy.table, copy.columns, copy.creates_table)
    return _copied(copy.origin, source, sql, names), _copied(copy.goal, source, sql, names)


@contextmanager
def open_copied(
    copy: OffsetCopy, group_ids: tuple[str, ...], source: Source, sql: str | None
) -> Iterator[tuple[GroupSource, GroupSource]]:
    """Open the two stores of a plan step; raises as `StoreChoice.open`."""
    first, second = copied_stores(copy, source, sql)
    try:
        with first.open(group_ids) as origin, second.open(group_ids) as goal:
            yield origin, goal
    except AbsentTableError as error:
        raise InputError(f"{error.what}; an earlier step of the plan creates it") from None


def _copied(text: str, source: Source, sql: str | None, names: SqlNames) -> StoreChoice:
    if text == "kafka":
        if source == Source():
            raise missing_source()
        return StoreChoice(source)
    if text == "sql" or (sql is not None and text.startswith("sql:")):
        return StoreChoice(source, sql or PROFILE, names=names)
    connection = source.connection or Connection(None, None, (), None, source.timeout_s)
    return parse_store(text, connection, names)


def planned_table(source: Source, sql: str | None, names: SqlNames) -> SqlOffsetStore:
    """Return the table of a plan; a missing table counts as empty. Raises as `open_table`."""
    names = replace(names, creates=True)
    return StoreChoice(source, names=names).open_table(sql or PROFILE)


def planned_copy(sql: str | None, names: SqlNames) -> OffsetCopy:
    """Return the copy from Kafka to a table for a plan, without secrets."""
    from kgroup.operation.plan.plan import OffsetCopy

    (_, url, *_), _ = StoreChoice(sql=sql or PROFILE).words()
    goal = "sql" if url == PROFILE else f"sql:{url}"
    return OffsetCopy("kafka", goal, table=names.table, columns=names.columns)


def check_new_name(
    new_id: str | None, groups: Sequence[str], regex: Pattern | None, advice: str
) -> None:
    """Check that a new group id is given for one group only.

    Args:
        new_id: new group id; None: unchanged.
        groups: named groups.
        regex: pattern that selects further groups.
        advice: how to select a single group.
    """
    if new_id is not None and (len(groups) != 1 or regex is not None):
        raise click.UsageError(f"--as renames a single group: {advice}")


def check_two(first: str, second: str) -> None:
    """Check that not both stores are standard input."""
    if {first, second} <= {"-", "file:-"}:
        raise click.UsageError(
            "both stores are standard input, which can be read only once: use a file for one of "
            "them"
        )


def _path(text: str, store: str) -> Path:
    """Return a path; expand what the shell does not expand within a store name.

    Raises:
        UsageError: the path is empty or invalid.
    """
    from kgroup.source.config.user_file import user_path

    if not text:
        raise click.UsageError(f"{store} expected a path, found an empty string")
    return user_path(text, store)


def _profile(connection: Connection | None) -> str | None:
    """Return the name of the profile that has the database."""
    return (connection or Connection(None, None, (), None, DEFAULT_TIMEOUT_S)).profile_name()


def _names_server(connection: Connection) -> bool:
    return bool(connection.client_config(needs_server=False).bootstrap_servers)


def _beside(connection: Connection, sql: str, names: SqlNames) -> StoreChoice:
    """Return a database store, with the connection's profile."""
    return StoreChoice(Source(connection=connection), sql, names=names)


topic_option: Decorator = click.option(
    "--topic",
    "topics",
    metavar="NAME[:P,...]",
    multiple=True,
    callback=parsed(parse_topics),
    shell_complete=suggest_topics,
    help="Select this topic, or only these partitions of it. Repeatable.",
)
"""Adds `--topic`; the command takes ``topics``: partition numbers by topic, None for all."""

clamp_option: Decorator = click.option(
    "--clamp",
    is_flag=True,
    help="If an offset is out of the partition's range, commit the log start or end offset "
    "instead.",
)

GROUP_OPTION: Decorator = click.option(
    "--group",
    "groups",
    metavar="NAME",
    multiple=True,
    type=ID,
    shell_complete=suggest_groups,
    help="Select this group. Repeatable.",
)
_option = partial(click.option, cls=BlockOption, block=Block.STORE)
SQL_OPTION: Decorator = _option(
    "--sql",
    metavar="URL",
    help="Use a SQL table: postgresql://…, mysql://…, sqlite:///FILE, the path of an SQLite file, "
    "@FILE (a file with the URL), or 'profile' (the URL of $KGROUP_SQL_URL or the profile).",
)
_NAME_OPTIONS = (
    _option(
        "--sql-table",
        metavar="NAME",
        help="Name of the table, with its schema if needed.  [default: t_offset]",
    ),
    _option(
        "--sql-column",
        "sql_columns",
        metavar="WHAT=NAME",
        multiple=True,
        help="Name of a column of the table. WHAT is group-id, topic, partition or offset, or an "
        "optional column: metadata, leader-epoch, updated-at or generation. Repeatable.",
    ),
)
table_options = options_into("names", _names, SQL_OPTION, *_NAME_OPTIONS)
"""Adds the options for a table; the command takes ``sql: str | None`` and ``names: SqlNames``."""

names_options = options_into(
    "names",
    _names,
    *_NAME_OPTIONS,
    _option(
        "--create-table", is_flag=True, help="Treat a missing table as empty; --execute creates it."
    ),
)
"""Adds the options for names of a table; the command takes ``names: SqlNames``."""

store_options = options_into(
    "store",
    _store,
    source_options(required=False),
    _option(
        "--file", metavar="FILE", type=PATH, help="Use a file of offsets; - for standard input."
    ),
    SQL_OPTION,
    names_options,
)
"""Adds the options for a store; the command takes ``store: StoreChoice``."""
