"""A table of offsets as a store: read in batches; compared and changed in one transaction.

Rows that other programs wrote are validated before use. A few statements handle thousands of rows,
on each kind of database.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kgroup.errors import BrokerError, InputError, ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import CommittedOffset, OffsetChange, StoreName
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem, ProblemLog
from kgroup.source.base import OffsetReading, OffsetTable
from kgroup.source.offset_change import conflict, place_of
from kgroup.source.sql.address import SqlAddress, check_file, parse_address
from kgroup.source.sql.engine import is_conflict, open_engine, sql_errors, transaction
from kgroup.source.sql.layout import KEY_ROLES, TableLayout
from kgroup.source.sql.table import (
    TableFacts,
    check_collisions,
    check_names,
    check_table,
    check_values,
    create_statement,
    exact_collation,
    read_facts,
    sql_table,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Delete, FromClause, Insert, Table, Update


_ATTEMPTS = 5
"""Maximum attempts of a transaction that conflicts with a concurrent one."""
_CUT_OFF = frozenset({ProblemKind.DISCONNECTED, ProblemKind.SILENT, ProblemKind.UNREACHABLE})
"""Kinds of errors after which the server may have executed the last statement, such as COMMIT."""


class SqlOffsetStore(OffsetTable):
    """Offsets in a table of SQLite, PostgreSQL, MySQL or MariaDB.

    Args:
        url: SQLAlchemy URL, or the path of an SQLite file.
        layout: names of table and columns.
        timeout_s: maximum wait, in seconds, for a connection, a statement or a lock.
        creates: whether a missing table counts as empty and is created by the first change.

    Raises:
        UsageError: the URL is invalid, or a required package is missing.
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
        """The address of the database."""
        return self._address

    @property
    def where(self) -> str:
        """Database and table, for people, without secrets."""
        return f"{self._address.shown}, table {self._layout.shown}"

    @property
    def store_name(self) -> StoreName:
        """The name of the store, with an absolute path, as file names are not unique."""
        path = self._address.path
        database = self._address.shown if path is None else f"sqlite:///{path.absolute()}"
        return StoreName(f"{database}, table {self._layout.shown}")

    @property
    def keeps_metadata(self) -> bool:
        """Whether the table has a column for metadata; see `GroupSource.keeps_metadata`."""
        return self._layout.metadata is not None

    @property
    def keeps_leader_epochs(self) -> bool:
        """Whether the table has a column for leader epochs."""
        return self._layout.leader_epoch is not None

    @property
    def fences(self) -> bool:
        """Whether the table has a column for the generation."""
        return self._layout.generation is not None

    def has_table(self) -> bool:
        """Return whether the table exists; see `OffsetTable.has_table`."""
        if self._address.is_missing:
            return False
        with self._errors(), transaction(self._engine) as connection:
            if not self._has_table(connection):
                return False
            self._facts(connection, write=True)
        return True

    def create_table(self) -> None:
        """Create the table if it does not exist; an existing one must be suitable for writing.

        Raises:
            BrokerError: the server does not answer, or denies access.
            InputError: the existing table is not suitable.
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
        """Read the stored offsets; rows that are not valid offsets are problems."""
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
            rows_read = read_rows(rows, self._table.c.keys(), wanted, self.where, problems)
        offsets = {
            group_id: tuple(rows[key] for key in sorted(rows))
            for group_id, rows in sorted(rows_read.offsets.items())
        }
        return OffsetReading(offsets, problems.problems())

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        """Change the stored offsets, in one transaction; see `GroupSource.write_offsets`.

        A group whose stored offsets differ from the expected ones is left out as a whole.

        Raises:
            BrokerError: the server does not answer, or concurrent transactions interfere; nothing
                was changed, unless the connection broke at the end (`was_sent`).
            InputError: the table is not suitable, or cannot hold a value; nothing was changed.
        """
        if self._creates:
            self.create_table()
        check_file(self._address)

        def change(connection: Connection) -> tuple[Problem, ...]:
            facts = self._facts(connection, write=True)
            check_values(facts, changes, self._address.backend, self.where)
            locked = self._lock(connection, changes, facts)
            wanted = [(group, c.topic) for group, every in changes.items() for c in every]
            check_collisions(connection, facts, set(wanted), locked.names, self.where)
            pending = table_changes(changes, locked, facts, now_ms=time.time_ns() // 1_000_000)
            delete_rows(connection, self._table, pending.deleted)
            update_rows(connection, self._table, pending.updated, is_plain=facts.is_plain)
            insert_rows(connection, self._table, pending.inserted)
            return pending.problems

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
        """Run a transaction; retry it, including the comparison, if a concurrent one interferes."""
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
                        for group_id in set(group_ids) - {problem.group_id for problem in problems}:
                            on_done(group_id)
                        return problems
                    except DBAPIError as error:
                        if attempt == _ATTEMPTS or not is_conflict(error):
                            raise
                        time.sleep(0.02 * attempt)
        except BrokerError as error:
            # Otherwise the server, or the library, has rolled the transaction back.
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
        """Return the columns whose texts the database truncates, so that they are not loaded whole.

        SQLite would end a truncated text at a NUL; its rows have their own limit.
        """
        return frozenset() if self._address.backend == "sqlite" else facts.texts

    def _wanted(
        self, connection: Connection, group_ids: Collection[str] | None, regex: Pattern | None
    ) -> frozenset[str] | None:
        """Return the ids of the requested groups; None for all."""
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


MOST_CHARACTERS = 1 << 20
"""Maximum characters of a text; Kafka accepts ids of 32,767 and, by default, metadata of 4,096
bytes.
"""
_SHOWN = 200
"""Maximum characters of a value in an error."""
_MOST_OFFSET = 2**63 - 1
_MOST_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """Contents of a table for groups.

    Attributes:
        offsets: offsets by group, then by topic and partition.
        claimed: group, topic and partition of rows without an offset.
        unusable: group, topic and partition of rows that are not valid offsets.
    """

    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    claimed: set[tuple[str, str, int]] = field(default_factory=set)
    unusable: set[tuple[str, str, int]] = field(default_factory=set)

    @property
    def names(self) -> set[tuple[str, str]]:
        """The groups and topics of all rows."""
        names = {(group_id, topic) for group_id, topic, _ in self.claimed | self.unusable}
        for group_id, stored in self.offsets.items():
            names.update((group_id, topic) for topic, _ in stored)
        return names


def read_rows(
    rows: Iterable[Sequence[Any]],
    roles: Sequence[str],
    wanted: Container[str] | None,
    where: str,
    problems: ProblemLog,
) -> Found:
    """Return the offsets in rows.

    Args:
        rows: values in the order of `roles`, which start with the key and the offset.
        roles: roles of the columns.
        wanted: group ids; rows of other groups are left out. None for all groups.
        where: the table, for people.
        problems: collects problems with rows.
    """
    rows_read = Found()
    extra = {role: roles.index(role) for role in roles[4:] if role != "generation"}
    metadata, epoch, time = (extra.get(k) for k in ("metadata", "leader_epoch", "updated_at"))
    offsets = rows_read.offsets
    for row in rows:
        group_id, topic, partition, offset = row[:4]
        if wanted is not None and not (isinstance(group_id, str) and group_id in wanted):
            continue
        if offset is None and "generation" in roles:
            rows_read.claimed.add(_key(row))
            continue
        # A fast path for valid rows, because there may be hundreds of thousands.
        if not (
            type(offset) is int
            and type(partition) is int
            and type(topic) is str
            and type(group_id) is str
            and 0 <= partition <= _MOST_PARTITION
            and offset >= 0
            and len(group_id) + len(topic) <= MOST_CHARACTERS
            and not extra
        ):
            complaint = _complaint(dict(zip(roles, row, strict=True)))
            if complaint:
                rows_read.unusable.add(_key(row))
                problems.add(_problem(group_id, topic, partition, where, complaint))
                continue
            offset = int(offset)
        if extra:
            leader_epoch = None if epoch is None or row[epoch] is None else int(row[epoch])
            if leader_epoch is not None and leader_epoch < 0:
                leader_epoch = None
            offsets[group_id][topic, partition] = CommittedOffset(
                topic,
                partition,
                offset,
                leader_epoch,
                None if metadata is None else row[metadata],
                None if time is None or row[time] is None else int(row[time]),
            )
        else:
            offsets[group_id][topic, partition] = CommittedOffset(topic, partition, offset)
    return rows_read


def _key(row: Sequence[Any]) -> tuple[str, str, int]:
    """Return the key of a row; values that cannot be hashed (arrays, documents) as their repr."""
    group_id, topic, partition = (
        value if isinstance(value, Hashable) else repr(value) for value in row[:3]
    )
    return cast("tuple[str, str, int]", (group_id, topic, partition))


def _problem(group_id: object, topic: object, partition: object, where: str, why: str) -> Problem:
    return Problem(
        ProblemKind.UNUSABLE,
        f"Row of group {_shown(group_id)}, topic {_shown(topic)}, partition {_shown(partition)} of "
        f"{where} left out: {why}.",
        group_id if isinstance(group_id, str) else None,
    )


def _complaint(values: dict[str, Any]) -> str:
    """Return what is wrong with a row; some databases do not enforce column types."""
    for role in ("group_id", "topic"):
        if not isinstance(values[role], str):
            return f"expected a text as {role}, found {_shown(values[role])}"
        if len(values[role]) > MOST_CHARACTERS:
            return f"expected at most {MOST_CHARACTERS:,} characters as {role}, found more"
    for role, most in (("partition", _MOST_PARTITION), ("offset", _MOST_OFFSET)):
        number = values[role]
        if not _is_whole(number) or not 0 <= number <= most:
            return f"expected a whole number from 0 to {most} as {role}, found {_shown(number)}"
    for role, most in (("leader_epoch", _MOST_PARTITION), ("updated_at", _MOST_OFFSET)):
        number = values.get(role)
        if number is not None and not (_is_whole(number) and -most <= number <= most):
            return f"expected a whole number as {role}, found {_shown(number)}"
    metadata = values.get("metadata")
    if metadata is not None and not isinstance(metadata, str):
        return f"expected a text as metadata, found {_shown(metadata)}"
    if metadata is not None and len(metadata) > MOST_CHARACTERS:
        return f"expected at most {MOST_CHARACTERS:,} characters as metadata, found more"
    return ""


def _shown(value: object) -> str:
    """Return the shortened repr of any value that a database can hold."""
    text = repr(value[:MOST_CHARACTERS] if isinstance(value, str | bytes) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _is_whole(number: Any) -> bool:
    """Return whether a value is whole; NUMERIC columns return decimals, also NaN and infinity."""
    if isinstance(number, Decimal):
        return number.is_finite() and number == number.to_integral_value()
    return isinstance(number, int)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Rows by role to delete, update and insert, sorted by key.

    Attributes:
        problems: problems of groups that are left out.
    """

    deleted: Sequence[Mapping[str, Any]]
    updated: Sequence[Mapping[str, Any]]
    inserted: Sequence[Mapping[str, Any]]
    problems: tuple[Problem, ...]


def table_changes(
    changes: Mapping[str, Sequence[OffsetChange]], locked: Found, facts: TableFacts, *, now_ms: int
) -> TableChanges:
    """Compare stored with expected offsets, and return the rows to change.

    Args:
        changes: changes by group.
        locked: stored offsets, which are locked until they are changed.
        facts: properties of the table.
        now_ms: time for rows whose commit time is unknown, in epoch milliseconds.

    Raises:
        InputError: a partition has two changes.
    """
    deleted: list[Mapping[str, Any]] = []
    updated: list[Mapping[str, Any]] = []
    inserted: list[Mapping[str, Any]] = []
    problems: list[Problem] = []
    # A row's generation fences as long as the group exists, even without an offset.
    keeps_claims = "generation" in facts.columns and facts.columns["offset"].nullable
    for group_id in sorted(changes):
        ordered = sorted(changes[group_id], key=place_of)
        _check_once(group_id, ordered)
        stored = locked.offsets.get(group_id, {})
        reason = _unusable(group_id, ordered, locked) or conflict(ordered, stored)
        if reason is not None:
            problems.append(Problem(ProblemKind.CHANGED, reason, group_id))
            continue
        for change in ordered:
            at = place_of(change)
            key = {"group_id": group_id, "topic": change.topic, "partition": change.partition}
            if change.after is None:
                if change.before is None:  # keep a claim without an offset
                    continue
                if keeps_claims:
                    updated.append(key | _values(None, facts, now_ms))
                else:
                    deleted.append(key)
            elif change.after != change.before:
                is_there = at in stored or (group_id, *at) in locked.claimed
                (updated if is_there else inserted).append(
                    key | _values(change.after, facts, now_ms)
                )
    return TableChanges(deleted, updated, inserted, tuple(problems))


def _check_once(group_id: str, ordered: Sequence[OffsetChange]) -> None:
    for change, other in pairwise(ordered):
        if place_of(change) == place_of(other):
            raise InputError(
                "expected one change of each partition, found two of "
                f"{change.topic}-{change.partition}",
                group_id=group_id,
                topic=change.topic,
            )


def _unusable(group_id: str, changes: Sequence[OffsetChange], locked: Found) -> str | None:
    """Return the first change whose row cannot be compared, as a sentence; None if none."""
    for change in changes if locked.unusable else ():
        if (group_id, *place_of(change)) in locked.unusable:
            return (
                f"{change.topic}-{change.partition}: expected an offset, found a row that is none."
            )
    return None


def _values(after: CommittedOffset | None, facts: TableFacts, now_ms: int) -> dict[str, Any]:
    """Return the values of a row; columns without NULL get Kafka's values for "none"."""
    values: dict[str, Any] = {"offset": after and after.committed_offset}
    if "metadata" in facts.columns:
        absent = None if facts.columns["metadata"].nullable else ""
        known = after and after.metadata
        values["metadata"] = absent if known is None else known
    if "leader_epoch" in facts.columns:
        absent_epoch = None if facts.columns["leader_epoch"].nullable else -1
        epoch = after and after.leader_epoch
        values["leader_epoch"] = absent_epoch if epoch is None else epoch
    if "updated_at" in facts.columns:
        time_ms = after and after.commit_timestamp_ms
        values["updated_at"] = now_ms if time_ms is None else time_ms
    return values


_NAMES = 500
"""Maximum group ids in a statement; SQLite before 3.32 accepts 999 parameters."""

_ROWS = 10_000
"""Maximum rows in a statement."""

_T = TypeVar("_T")


def batches(items: Iterable[_T], size: int = _NAMES) -> Iterator[list[_T]]:
    """Yield lists of at most `size` items."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def select_rows(
    connection: Connection,
    table: Table,
    group_ids: Iterable[str] | None,
    *,
    texts: Collection[str] = (),
    lock: bool = False,
) -> Iterator[Any]:
    """Yield the rows of groups, or of all groups; columns as in the table.

    The result may include rows of other ids that the database's collation considers equal.

    Args:
        connection: connection in a transaction.
        table: result of `sql_table`.
        group_ids: sorted ids, so that concurrent writers lock rows in the same order.
        texts: roles of text columns to truncate to `MOST_CHARACTERS` + 1 characters.
        lock: whether to lock the rows until the transaction ends.
    """
    from sqlalchemy import func, select

    statement = select(
        *(
            func.substr(column, 1, MOST_CHARACTERS + 1).label(role) if role in texts else column
            for role, column in table.c.items()
        )
    )
    if lock:  # SQLite has no FOR UPDATE; it locks the whole file
        statement = statement.order_by(*(table.c[role] for role in KEY_ROLES)).with_for_update()
    if group_ids is None:
        yield from connection.execute(statement).all()
        return
    for batch in batches(group_ids):
        yield from connection.execute(statement.where(table.c.group_id.in_(batch))).all()


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; a row that another transaction has inserted meanwhile is an IntegrityError."""
    from sqlalchemy import insert, select

    for batch in batches(rows, _ROWS):
        if connection.dialect.name == "postgresql":
            source = _unnested(table, batch)
            names = list(source.c.keys())
            connection.execute(insert(table).from_select(names, select(*source.c)))
        else:
            _execute_many(connection, insert(table).values(_open_values(table, batch[0])), batch)


def update_rows(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, is_plain: bool
) -> None:
    """Update existing, locked rows by their key; all have the same columns.

    MySQL's driver batches rows only for INSERT, and sends one statement per row otherwise; if the
    table `is_plain`, ON DUPLICATE KEY UPDATE does the same in an eighth of the time. (After VALUES,
    the driver does not unescape a doubled %, so no name may contain one.)
    """
    from sqlalchemy import update
    from sqlalchemy.dialects.mysql import insert

    is_plain &= connection.dialect.name != "sqlite" and not any("%" in c.name for c in table.c)
    for batch in batches(rows, _ROWS):
        names = [name for name in batch[0] if name not in KEY_ROLES]
        if connection.dialect.name == "postgresql":
            source = _unnested(table, batch)
            statement = update(table).values({name: source.c[name] for name in names})
            connection.execute(statement.where(*_same_key(table, source)))
        elif is_plain:
            inserting = insert(table).values(_open_values(table, batch[0]))
            changed = {name: inserting.inserted[name] for name in names}
            _execute_many(connection, inserting.on_duplicate_key_update(changed), batch)
        else:
            statement = update(table).values(_open_values(table, names))
            _execute_many(connection, statement.where(*_exact_key(connection, table)), batch)


def delete_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Delete rows by their key."""
    from sqlalchemy import delete, tuple_

    if connection.dialect.name not in ("postgresql", "sqlite"):
        columns = tuple_(*(table.c[role] for role in KEY_ROLES))
        for batch in batches(rows):
            keys = [tuple(row[role] for role in KEY_ROLES) for row in batch]
            connection.execute(delete(table).where(columns.in_(keys)))
        return
    for batch in batches(rows, _ROWS):
        if connection.dialect.name == "postgresql":
            source = _unnested(table, [{role: row[role] for role in KEY_ROLES} for row in batch])
            connection.execute(delete(table).where(*_same_key(table, source)))
        else:
            _execute_many(connection, delete(table).where(*_exact_key(connection, table)), batch)


def _open_values(table: Table, names: Iterable[str]) -> dict[ColumnElement[Any], Any]:
    """Return a parameter for each column, with a distinct name, as SQLAlchemy requires."""
    from sqlalchemy import bindparam

    return {table.c[name]: bindparam(f"given_{name}") for name in names}


def _execute_many(
    connection: Connection, statement: Insert | Update | Delete, batch: Iterable[Mapping[str, Any]]
) -> None:
    """Execute a statement for each row; SQLAlchemy's own batching takes longer than SQLite."""
    compiled = statement.compile(dialect=connection.dialect)
    given: list[Any]
    if compiled.positiontup:
        value = itemgetter(*(name.removeprefix("given_") for name in compiled.positiontup))
        given = [value(row) for row in batch]
    else:
        given = [{f"given_{name}": value for name, value in row.items()} for row in batch]
    connection.exec_driver_sql(str(compiled), given)


def _exact_key(connection: Connection, table: Table) -> list[ColumnElement[bool]]:
    """Return conditions for the exact key: an SQLite column's collation may not be the key's."""
    from sqlalchemy import bindparam, collate

    exact = connection.dialect.name == "sqlite"
    conditions: list[ColumnElement[bool]] = []
    for role in KEY_ROLES:
        column: Any = table.c[role]
        text = exact and role != "partition"
        conditions.append(
            (collate(column, "BINARY") if text else column) == bindparam(f"given_{role}")
        )
    return conditions


def _same_key(table: Table, source: FromClause) -> list[ColumnElement[bool]]:
    return [table.c[role] == source.c[role] for role in KEY_ROLES]


def _unnested(table: Table, batch: Sequence[Mapping[str, Any]]) -> FromClause:
    """Return rows for PostgreSQL as one array per column: one statement, few parameters."""
    from sqlalchemy import bindparam, column, func
    from sqlalchemy.dialects.postgresql import ARRAY

    names = list(batch[0])
    arrays = [
        bindparam(f"all_{name}", [row[name] for row in batch], ARRAY(table.c[name].type))
        for name in names
    ]
    columns = [column(name, table.c[name].type) for name in names]
    return func.unnest(*arrays).table_valued(*columns).render_derived(name="given")
