"""A table of offsets as a store: read in batches, changed in one transaction, compared before."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.offset import OffsetChange, StoreName
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem, ProblemLog
from kgroup.source.base import OffsetReading
from kgroup.source.sql.address import SqlAddress, check_file, parse_address
from kgroup.source.sql.compare import work_of
from kgroup.source.sql.engine import open_engine, transaction
from kgroup.source.sql.fit import check_collisions, check_table, check_values
from kgroup.source.sql.layout import TableLayout
from kgroup.source.sql.row_reader import Found, read_rows
from kgroup.source.sql.rows import delete_rows, insert_rows, select_rows, update_rows
from kgroup.source.sql.sql_error import is_conflict, sql_errors
from kgroup.source.sql.table import (
    TableFacts,
    check_names,
    create_statement,
    exact_collation,
    sql_table,
)
from kgroup.source.sql.table_facts import read_facts

if TYPE_CHECKING:
    from sqlalchemy import Connection

_ATTEMPTS = 5
"""Times that a transaction is begun anew because another one was in its way."""
_CUT_OFF = frozenset({ProblemKind.DISCONNECTED, ProblemKind.SILENT, ProblemKind.UNREACHABLE})
"""Kinds of errors behind which the server may have done what it was told last: a COMMIT."""


class SqlOffsetStore:
    """Offsets in a table of SQLite, PostgreSQL, MySQL or MariaDB; a `WritableOffsetStore`.

    Args:
        url: of SQLAlchemy, or the path of an SQLite file.
        layout: names of table and columns.
        timeout_s: the longest that a connection, a statement or a lock is waited for.
        creates: whether a table that is missing is an empty one, which the first change makes.

    Raises:
        UsageError: the URL is none, or what it needs is missing.
    """

    def __init__(
        self,
        url: str,
        layout: TableLayout | None = None,
        *,
        timeout_s: float = 10.0,
        creates: bool = False,
    ) -> None:
        self._address = parse_address(url)
        self._layout = layout or TableLayout()
        check_names(self._layout, self._address.backend)
        self._engine = open_engine(self._address, timeout_s)
        self._timeout_s = timeout_s
        self._creates = creates
        self._table = sql_table(self._layout)

    def __repr__(self) -> str:
        return f"SqlOffsetStore({self.where!r})"

    @property
    def address(self) -> SqlAddress:
        """Where the database is."""
        return self._address

    @property
    def where(self) -> str:
        """Database and table, for people: without secrets."""
        return f"{self._address.shown}, table {self._layout.shown}"

    @property
    def store_name(self) -> StoreName:
        """What to call it: a file by its whole path, as another folder may have one of its name."""
        path = self._address.path
        database = self._address.shown if path is None else f"sqlite:///{path.absolute()}"
        return StoreName(f"{database}, table {self._layout.shown}")

    @property
    def keeps_metadata(self) -> bool:
        """Whether the table has a column for them; see `WritableOffsetStore`."""
        return self._layout.metadata is not None

    @property
    def keeps_leader_epochs(self) -> bool:
        """Likewise for them."""
        return self._layout.leader_epoch is not None

    @property
    def fences(self) -> bool:
        """Whether the table has a column for the generation."""
        return self._layout.generation is not None

    def has_table(self) -> bool:
        """Tell whether there is a table; see `OffsetTable`."""
        if self._address.is_missing:
            return False
        with self._errors(), transaction(self._engine) as connection:
            if not self._has_table(connection):
                return False
            self._facts(connection, write=True)
        return True

    def create_table(self) -> None:
        """Make the table, where there is none; one that is there must be fit to be written.

        Raises:
            BrokerError: the server cannot be asked, or does not let us.
            InputError: there is one that cannot be used.
        """
        engine = open_engine(self._address, self._timeout_s, create=True)
        with self._errors(), transaction(engine, write=True) as connection:
            if self._has_table(connection):
                self._facts(connection, write=True)
                return
            collation = exact_collation(connection)
            text = create_statement(self._layout, connection.dialect, collation)
            connection.exec_driver_sql(text)

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        """Read what is stored; see `OffsetStore`. Rows that are no offsets are problems."""
        if self._creates and self._address.is_missing:
            return OffsetReading({})
        check_file(self._address)
        problems = ProblemLog()
        with self._errors(), transaction(self._engine) as connection:
            if self._creates and not self._has_table(connection):
                return OffsetReading({})
            facts = self._facts(connection)
            wanted = self._wanted(connection, group_ids, regex)
            names = None if wanted is None else sorted(wanted)
            rows = select_rows(connection, self._table, names, texts=self._cut(facts))
            found = read_rows(rows, self._table.c.keys(), wanted, self.where, problems)
        offsets = {
            group_id: tuple(rows[key] for key in sorted(rows))
            for group_id, rows in sorted(found.offsets.items())
        }
        return OffsetReading(offsets, problems.problems())

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        """Change what is stored, in one transaction; see `WritableOffsetStore`.

        A group of which anything else is stored than was expected is left out as a whole.

        Raises:
            BrokerError: the server cannot be asked, or others are in the way; nothing was changed,
                unless the connection broke at the end (`was_sent`).
            InputError: the table is not fit for this, or cannot hold a value; nothing was changed.
        """
        if self._creates:
            self.create_table()
        check_file(self._address)

        def change(connection: Connection) -> tuple[Problem, ...]:
            facts = self._facts(connection, write=True)
            check_values(facts, changes, self._address.backend, self.where)
            found = self._lock(connection, changes, facts)
            wanted = [(group, c.topic) for group, every in changes.items() for c in every]
            check_collisions(connection, facts, set(wanted), found.names, self.where)
            work = work_of(changes, found, facts, now_ms=time.time_ns() // 1_000_000)
            delete_rows(connection, self._table, work.deleted)
            update_rows(connection, self._table, work.updated, is_plain=facts.is_plain)
            insert_rows(connection, self._table, work.inserted)
            return work.problems

        return self._retried(change, changes, on_done)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with sql_errors(self._address, self._layout.shown):
            yield

    def _retried(
        self,
        work: Callable[[Connection], tuple[Problem, ...]],
        group_ids: Iterable[str],
        on_done: Callable[[str], object],
    ) -> tuple[Problem, ...]:
        """Run a transaction; begin it anew, from its comparison, where another was in its way."""
        from sqlalchemy.exc import DBAPIError

        is_at_the_end = False
        try:
            with self._errors():
                for attempt in range(1, _ATTEMPTS + 1):
                    is_at_the_end = False
                    try:
                        with transaction(self._engine, write=True) as connection:
                            problems = work(connection)
                            is_at_the_end = True
                        for group_id in set(group_ids) - {each.group_id for each in problems}:
                            on_done(group_id)
                        return problems
                    except DBAPIError as error:
                        if attempt == _ATTEMPTS or not is_conflict(error):
                            raise
                        time.sleep(0.02 * attempt)
        except BrokerError as error:
            # Else the server, or the library, has taken the transaction back.
            error.was_sent = is_at_the_end and error.kind in _CUT_OFF
            raise
        raise AssertionError("the last attempt returns or raises")

    def _has_table(self, connection: Connection) -> bool:
        from sqlalchemy import inspect

        layout = self._layout
        return inspect(connection).has_table(layout.table, schema=layout.schema)

    def _facts(self, connection: Connection, *, write: bool = False) -> TableFacts:
        facts = read_facts(connection, self._layout, self._address.shown)
        if write:
            check_table(facts, self._layout, connection.dialect, self.where)
        return facts

    def _cut(self, facts: TableFacts) -> frozenset[str]:
        """Name the columns whose texts are cut by the database, so that they are not held whole.

        SQLite would end a text at a NUL there; its rows have a limit of their own.
        """
        return frozenset() if self._address.backend == "sqlite" else facts.texts

    def _wanted(
        self, connection: Connection, group_ids: Collection[str] | None, regex: Pattern | None
    ) -> frozenset[str] | None:
        """Give the ids of the groups that are asked for; None: all."""
        if regex is None:
            return None if group_ids is None else frozenset(group_ids)
        from sqlalchemy import select

        every = connection.execute(select(self._table.c.group_id).distinct()).scalars()
        matching = {group_id for group_id in every if regex.fullmatch(group_id)}
        return frozenset(matching.union(group_ids or ()))

    def _lock(
        self,
        connection: Connection,
        changes: Mapping[str, Sequence[OffsetChange]],
        facts: TableFacts,
    ) -> Found:
        names = sorted(changes)
        rows = select_rows(connection, self._table, names, texts=self._cut(facts), lock=True)
        return read_rows(rows, self._table.c.keys(), None, self.where, ProblemLog())
