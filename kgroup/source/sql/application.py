"""Offsets stored with an application's results, in one transaction, fenced by generation.

    store = OffsetStore(engine, table="t_offset", generation="generation")
    listener = store.listener(consumer, "orders")
    consumer.subscribe(["orders"], listener=listener)
    while True:
        for partition, records in consumer.poll(timeout_ms=1000).items():
            with engine.begin() as connection:
                ...                                                     # results
                listener.save({partition: records[-1].offset + 1}, connection)

Results and offset are committed atomically, so each record takes effect exactly once, whichever
process fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar

from kgroup.errors import InputError, UsageError, named_group
from kgroup.model.cluster import TopicPartition
from kgroup.source.sql.address import parse_address
from kgroup.source.sql.engine import open_engine, transaction
from kgroup.source.sql.fencing import FencedError
from kgroup.source.sql.layout import KEY_ROLES, TableLayout, parse_table_name
from kgroup.source.sql.table import check_table, read_facts, sql_table

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Engine, Table

    from kgroup.source.sql.listener import OffsetListener


_ATTEMPTS = 5

_T = TypeVar("_T")


class OffsetStore:
    """Offsets of an application's consumers, in a table that `kgroup offsets` can read and write.

    Errors of the database are raised as SQLAlchemy's own, because the application controls its
    transaction.

    Args:
        engine_or_url: the application's engine, or the URL of its database.
        table: name of the table, optionally with a schema: `"app.t_offset"`; or all names.
        generation: column for fencing, if the table has one; see `claim`.
        timeout_s: maximum wait, in seconds, of connections created from a URL.

    Raises:
        UsageError: the URL is invalid, or its driver is missing.
    """

    def __init__(
        self,
        engine_or_url: Engine | str,
        table: str | TableLayout = "t_offset",
        *,
        generation: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        if isinstance(table, str):
            schema, name = parse_table_name(table, "table")
            table = TableLayout(name, schema)
        self._layout = table if generation is None else replace(table, generation=generation)
        self._owns_engine = isinstance(engine_or_url, str)
        self._engine = (
            open_engine(parse_address(engine_or_url), timeout_s)
            if isinstance(engine_or_url, str)
            else engine_or_url
        )
        self._table = sql_table(self._layout)
        self._is_checked = False

    @property
    def fences(self) -> bool:
        """Whether the table has a column for the generation."""
        return self._layout.generation is not None

    def listener(
        self,
        consumer: Any,
        group: str,
        pending: Callable[[], Mapping[Any, Any]] | None = None,
        committed: Callable[[Collection[Any]], Mapping[Any, Any]] | None = None,
    ) -> OffsetListener:
        """Return a listener for `consumer.subscribe` that seeks on assign and stores on revoke.

        Args:
            consumer: consumer of kafka-python 3 or later.
            group: group of the consumer.
            pending: returns the offsets, by partition, whose results are already saved but which
                have not been stored; called when partitions are revoked. None if there are never
                any, because each transaction stores results and offsets.
            committed: returns the offsets that the group has committed to Kafka for partitions;
                called when they are assigned. It must not use the consumer, which waits for the
                listener. The listener starts at these offsets, and stores them, if they are higher
                than the stored ones: use it while some members commit only to Kafka. None if there
                are no such members.

        Raises:
            InputError: the table does not exist, or is unsuitable. This is checked here instead of
                during a rebalance.
        """
        from kgroup.source.sql.listener import OffsetListener

        self._run(lambda _: None, None, write=False)
        return OffsetListener(self, consumer, group, pending, committed)

    def load(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        connection: Connection | None = None,
    ) -> dict[TopicPartition, int]:
        """Return the stored offsets by partition: the offset of the next record to process.

        Partitions without a stored offset are left out.
        """
        from sqlalchemy import select

        table = self._table
        wanted = {(topic, partition): (topic, partition) for topic, partition in partitions}
        topics = sorted({topic for topic, _ in wanted})
        statement = select(
            table.c.group_id, table.c.topic, table.c.partition, table.c.offset
        ).where(table.c.group_id == group, table.c.topic.in_(topics), table.c.offset.is_not(None))

        def read(connection: Connection) -> dict[TopicPartition, int]:
            return {
                wanted[topic, partition]: int(offset)
                for group_id, topic, partition, offset in connection.execute(statement)
                if group_id == group and (topic, partition) in wanted
            }

        return self._run(read, connection, write=False)

    def save(
        self,
        group: str,
        offsets: Mapping[TopicPartition, Any],
        connection: Connection | None = None,
        generation: int | None = None,
    ) -> None:
        """Store the offsets of the next records to process.

        Args:
            group: group of the consumer.
            offsets: offsets by partition: whole numbers, or kafka-python's `OffsetAndMetadata`.
            connection: connection with the application's transaction, which commits or rolls back;
                None to commit immediately.
            generation: generation with which the partitions were claimed; for a table with fencing.

        Raises:
            FencedError: a newer generation has claimed one of the partitions, or it is not claimed;
                nothing was stored.
            UsageError: a generation for a table without the column, or none for one with it.
        """
        if self.fences != (generation is not None):
            raise UsageError(
                "expected the generation that the partitions were claimed with, found none"
                if self.fences
                else "expected a table with a column for the generation, found none; name it: "
                "OffsetStore(…, generation='generation')"
            )
        rows = [self._row(group, key, offsets[key]) for key in sorted(offsets)]
        if not rows:
            return

        def write(connection: Connection) -> None:
            if generation is None:
                for row in rows:
                    if not update_row(connection, self._table, row, None):
                        connection.execute(self._table.insert().values(row))
                return
            lost = guard_rows(connection, self._table, group, sorted(offsets), generation)
            if lost is not None:
                raise fenced(self._layout.shown, group, lost[0], generation, lost[1])
            for row in rows:
                update_row(connection, self._table, row | {"generation": generation}, generation)

        self._run(write, connection, write=True)

    def claim(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        generation: int,
        connection: Connection | None = None,
    ) -> dict[TopicPartition, int]:
        """Write the generation to the rows of newly assigned partitions, and return their offsets.

        From then on, no older generation can store offsets for them. For a table without the
        column, it only returns the offsets: previous owners can still overwrite them.

        Raises:
            FencedError: a newer generation has claimed one of the partitions; nothing was written.
        """
        ordered = sorted((topic, partition) for topic, partition in partitions)

        def take(connection: Connection) -> dict[TopicPartition, int]:
            for key in ordered:
                row = dict(zip(KEY_ROLES, (group, *key), strict=True)) | {"generation": generation}
                if update_row(connection, self._table, row, generation):
                    continue
                holder = holder_of(connection, self._table, group, key)
                if holder is None:
                    connection.execute(self._table.insert().values(row))
                elif holder > generation or not update_row(  # an older one was just inserted
                    connection, self._table, row, generation
                ):
                    raise fenced(self._layout.shown, group, key, generation, holder)
            return self.load(group, ordered, connection)

        if not self.fences:
            return self.load(group, ordered, connection)
        return self._run(take, connection, write=True)

    def forget_generations(self, group: str) -> None:
        """Reset a group's stored generations after Kafka's restarted at 1; keep its offsets.

        Kafka deletes a group, and its generation, when it has been empty for some minutes and has
        no offsets committed to Kafka. After that, each `claim` is fenced. Stop all consumers before
        this call.
        """
        if not self.fences:
            return

        def forget(connection: Connection) -> None:
            table = self._table
            statement = table.update().where(table.c.group_id == group).values(generation=0)
            connection.execute(statement)

        self._run(forget, None, write=True)

    def _run(
        self, work: Callable[[Connection], _T], connection: Connection | None, *, write: bool
    ) -> _T:
        """Run `work` in the application's transaction, or in a new one, which may be retried."""
        if connection is not None:
            self._check(connection)
            return work(connection)
        from sqlalchemy.exc import DBAPIError

        from kgroup.source.sql.engine import is_conflict

        for _ in range(_ATTEMPTS - 1):
            try:
                with self._transaction(write=write) as own:
                    self._check(own)
                    return work(own)
            except DBAPIError as error:
                if not is_conflict(error):
                    raise
        with self._transaction(write=write) as own:
            return work(own)

    def _check(self, connection: Connection) -> None:
        if not self._is_checked:
            check_owned(connection, self._layout)
            self._is_checked = True

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Connection]:
        opened = transaction(self._engine, write=write) if self._owns_engine else None
        with opened or self._engine.begin() as connection:
            yield connection

    def _row(self, group: str, key: TopicPartition, value: Any) -> dict[str, Any]:
        topic, partition = key
        row: dict[str, Any] = {"group_id": group, "topic": topic, "partition": partition}
        row["offset"] = getattr(value, "offset", value)
        if self._layout.metadata is not None:
            row["metadata"] = getattr(value, "metadata", None) or ""
        if self._layout.leader_epoch is not None:
            epoch = getattr(value, "leader_epoch", None)
            row["leader_epoch"] = None if epoch is None or epoch < 0 else epoch
        if self._layout.updated_at is not None:
            row["updated_at"] = time_ns() // 1_000_000
        return row


def check_owned(connection: Connection, layout: TableLayout) -> None:
    """Verify that a table is suitable for applications, whose updates would mix up equal keys.

    Raises:
        InputError: the table is not suitable.
    """
    shown = str(connection.engine.url.set(query={}))  # which hides the password
    facts = read_facts(connection, layout, shown)
    where = f"{shown}, table {layout.shown}"
    check_table(facts, layout, connection.dialect, where)
    offset = facts.columns["offset"]
    if layout.generation is not None and not offset.nullable:
        raise InputError(
            f"{where}: expected column {offset.name} to take NULL, for partitions that are claimed "
            "before anything is stored; found NOT NULL"
        )
    collations = {facts.columns[role].collation for role in ("group_id", "topic")}
    inexact = sorted(c for c in collations if c is not None and not c.endswith("_bin"))
    if inexact:
        raise InputError(
            f"{where}: expected columns of ids that compare bytes (as utf8mb4_bin does), found the "
            f"collation {inexact[0]}, which takes some groups for one"
        )


def update_row(
    connection: Connection, table: Table, row: Mapping[str, Any], generation: int | None
) -> bool:
    """Update a row unless a newer generation has claimed it; return whether a row was updated."""
    values = {role: value for role, value in row.items() if role not in KEY_ROLES}
    condition = [table.c[role] == row[role] for role in KEY_ROLES]
    if generation is not None:
        condition.append(_allows(table, generation))
    return bool(connection.execute(table.update().where(*condition).values(values)).rowcount)


def guard_rows(
    connection: Connection,
    table: Table,
    group: str,
    partitions: Sequence[TopicPartition],
    generation: int,
) -> tuple[TopicPartition, int | None] | None:
    """Lock rows by writing their current values; return one that may not be stored, if any.

    This prevents a partial store when one row is fenced, even if the application then commits. A
    savepoint would serve too, but Python's SQLite driver starts none inside a transaction.

    Returns:
        None, or a partition and the generation that has claimed it, None if it has no row.
    """
    from sqlalchemy import and_, or_

    keys = or_(*(and_(table.c.topic == t, table.c.partition == p) for t, p in partitions))
    statement = (
        table.update()
        .where(table.c.group_id == group, keys, _allows(table, generation))
        .values({table.c.generation: table.c.generation})
    )
    if connection.execute(statement).rowcount == len(partitions):
        return None
    for partition in partitions:
        holder = holder_of(connection, table, group, partition)
        if holder is None or holder > generation:
            return partition, holder
    return None


def holder_of(
    connection: Connection, table: Table, group: str, partition: TopicPartition
) -> int | None:
    """Return the generation that has claimed a partition, and lock its row; None without a row.

    If the row was inserted just now, the lock keeps newer generations out until the next statement.
    """
    from sqlalchemy import func, select

    key = dict(zip(KEY_ROLES, (group, *partition), strict=True))
    statement = select(func.coalesce(table.c.generation, 0)).with_for_update()
    row = connection.execute(
        statement.where(*(table.c[role] == value for role, value in key.items()))
    ).scalar()
    return None if row is None else int(row)


def fenced(
    table: str, group: str, partition: TopicPartition, generation: int, holder: int | None
) -> FencedError:
    """Return the error of a consumer that has lost a partition."""
    owner = "no row of it: claim it first" if holder is None else f"generation {holder}"
    return FencedError(
        f"{named_group(group)}, topic {partition[0]}, partition {partition[1]}, table {table}: "
        "expected a "
        f"generation up to {generation}, found {owner}. This consumer does not own the partition "
        "any more. (If Kafka has forgotten the group and counts from 1 again: stop its consumers "
        "and call forget_generations.)",
        group_id=group,
        topic=partition[0],
    )


def _allows(table: Table, generation: int) -> ColumnElement[bool]:
    from sqlalchemy import func

    allowed: ColumnElement[bool] = func.coalesce(table.c.generation, 0) <= generation
    return allowed
