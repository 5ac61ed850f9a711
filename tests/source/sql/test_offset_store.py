"""What applications use: offsets in their own transactions, fenced by generation."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata
from sqlalchemy import Engine, create_engine, text

from kgroup.errors import InputError, UsageError
from kgroup.source.sql import FencedError, OffsetStore, TableLayout, generation_of
from kgroup.source.sql.store import SqlOffsetStore
from tests.source.sql.stored import change, execute, query

FENCING = TableLayout(generation="generation")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def engine(file: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{file}")
    yield engine
    engine.dispose()


@pytest.fixture
def plain(file: Path, engine: Engine) -> OffsetStore:
    SqlOffsetStore(str(file)).create_table()
    return OffsetStore(engine)


@pytest.fixture
def fencing(file: Path, engine: Engine) -> OffsetStore:
    SqlOffsetStore(str(file), FENCING).create_table()
    return OffsetStore(engine, generation="generation")


class FakeConsumer:
    """A consumer as far as the listener sees it."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.sought: list[tuple[Any, int]] = []

    def group_metadata(self) -> SimpleNamespace:
        return SimpleNamespace(generation_id=self.generation)

    def seek(self, partition: Any, offset: int) -> None:
        self.sought.append((partition, offset))


def test_offsets_are_stored_and_loaded(plain: OffsetStore, file: Path) -> None:
    plain.save("g", {P0: 5, ("t", 1): 2**63 - 1})
    plain.save("g", {P0: OffsetAndMetadata(6, "m", None)})
    plain.save("g", {})
    assert plain.load("g", [P0, P1, TopicPartition("t", 2)]) == {P0: 6, P1: 2**63 - 1}
    assert plain.load("other", [P0]) == {}
    assert query(file) == [("g", "t", 0, 6), ("g", "t", 1, 2**63 - 1)]


def test_results_and_offsets_are_committed_together(
    plain: OffsetStore, engine: Engine, file: Path
) -> None:
    execute(file, "CREATE TABLE result (x)")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO result VALUES (1)"))
        plain.save("g", {P0: 5}, connection)
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO result VALUES (2)"))
        plain.save("g", {P0: 6}, connection)
        connection.rollback()
    assert query(file, "SELECT * FROM result") == [(1,)]
    assert query(file) == [("g", "t", 0, 5)]


def test_a_url_is_enough(plain: OffsetStore, file: Path) -> None:
    store = OffsetStore(str(file), "main.t_offset")
    store.save("g", {P0: 5})
    assert store.load("g", [P0]) == {P0: 5}


def test_a_paused_consumer_overwrites_the_new_owner_in_the_plain_table(plain: OffsetStore) -> None:
    """Why the column is there: A stops in generation 1, B takes over in 2, A wakes up."""
    plain.claim("g", [P0], 1)
    plain.save("g", {P0: 10})
    assert plain.claim("g", [P0], 2) == {P0: 10}  # B goes on at 10
    plain.save("g", {P0: 500})
    plain.save("g", {P0: 11})  # A stores what it had read before
    assert plain.load("g", [P0]) == {P0: 11}  # 489 records will be processed again


def test_the_column_keeps_a_paused_consumer_out(fencing: OffsetStore, file: Path) -> None:
    assert fencing.claim("g", [P0], 1) == {}
    fencing.save("g", {P0: 10}, generation=1)
    assert fencing.claim("g", [P0], 2) == {P0: 10}
    with pytest.raises(FencedError, match="expected a generation up to 1, found generation 2"):
        fencing.save("g", {P0: 11}, generation=1)  # also before B stores anything
    fencing.save("g", {P0: 500}, generation=2)
    with pytest.raises(FencedError, match="topic t, partition 0"):
        fencing.save("g", {P0: 11}, generation=1)
    with pytest.raises(FencedError):
        fencing.claim("g", [P1, P0], 1)
    assert query(file) == [("g", "t", 0, 500, 2)]


def test_what_is_fenced_takes_its_neighbours_along(
    fencing: OffsetStore, engine: Engine, file: Path
) -> None:
    """Nothing of it is stored, even by an application that commits all the same."""
    fencing.claim("g", [P0, P1], 1)
    fencing.save("g", {P0: 1, P1: 1}, generation=1)
    fencing.claim("g", [P1], 2)
    with engine.begin() as connection, pytest.raises(FencedError, match="partition 1"):
        fencing.save("g", {P0: 7, P1: 7}, connection, generation=1)
    assert query(file) == [("g", "t", 0, 1, 1), ("g", "t", 1, 1, 2)]


def test_who_has_not_claimed_cannot_store(fencing: OffsetStore, file: Path) -> None:
    with pytest.raises(FencedError, match="found no row of it: claim it first"):
        fencing.save("g", {P0: 7}, generation=3)
    assert query(file) == []


def test_a_group_that_kafka_has_forgotten_begins_anew(fencing: OffsetStore) -> None:
    fencing.claim("g", [P0], 57)
    fencing.save("g", {P0: 7}, generation=57)
    with pytest.raises(FencedError, match="call forget_generations"):
        fencing.claim("g", [P0], 1)
    fencing.forget_generations("g")
    assert fencing.claim("g", [P0], 1) == {P0: 7}


def test_generations_and_tables_must_fit(fencing: OffsetStore, engine: Engine) -> None:
    plain = OffsetStore(engine)
    with pytest.raises(UsageError, match=r"name it: OffsetStore\(…, generation='generation'\)"):
        plain.save("g", {P0: 1}, generation=1)
    with pytest.raises(UsageError, match=r"expected the generation .*, found none"):
        fencing.save("g", {P0: 1})


def test_two_claims_at_once(fencing: OffsetStore, file: Path) -> None:
    """Two consumers of a group claim different partitions, and the same, and none is lost."""
    partitions = [TopicPartition("t", number) for number in range(20)]
    threads = [
        threading.Thread(
            target=lambda generation=generation: OffsetStore(str(file), FENCING).claim(
                "g", partitions, generation
            )
        )
        for generation in (1, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert query(file) == [("g", "t", number, None, 1) for number in range(20)]


def test_tables_that_are_not_fit(file: Path, engine: Engine) -> None:
    store = OffsetStore(engine)
    with pytest.raises(InputError, match="expected the table t_offset, found none"):
        store.load("g", [P0])
    execute(
        file,
        "CREATE TABLE t_offset (group_id TEXT COLLATE NOCASE, topic TEXT, partition INT, "
        '"offset" INT NOT NULL, generation INT, PRIMARY KEY (group_id, topic, partition))',
    )
    with pytest.raises(InputError, match="collation NOCASE, which takes some groups for one"):
        store.save("g", {P0: 1})
    with pytest.raises(InputError, match="expected column offset to take NULL"):
        OffsetStore(engine, FENCING).claim("g", [P0], 1)


def test_the_generation_of_a_consumer() -> None:
    assert generation_of(FakeConsumer(7)) == 7
    with pytest.raises(UsageError, match="joined a group, found generation -1"):
        generation_of(FakeConsumer(-1))
    with pytest.raises(UsageError, match=r"kafka-python 3 or later, .* found builtins.object"):
        generation_of(object())


def test_an_offset_that_is_removed_and_comes_back_is_as_fenced_as_before(
    fencing: OffsetStore, file: Path
) -> None:
    """A consumer that was paused all the time must not write because of a change and its undo."""
    fencing.claim("g", [P0], 7)
    fencing.save("g", {P0: 5}, generation=7)
    store = SqlOffsetStore(str(file), FENCING)
    assert store.write_offsets({"g": [change("t", 0, 5, None)]}) == ()
    assert store.read_offsets().offsets == {}
    assert fencing.load("g", [P0]) == {}
    assert store.write_offsets({"g": [change("t", 0, None, 5)]}) == ()
    with pytest.raises(FencedError, match="found generation 7"):
        fencing.save("g", {P0: 3}, generation=6)
    assert query(file) == [("g", "t", 0, 5, 7)]


def test_a_listener_of_a_table_that_is_not_fit(
    plain: OffsetStore, file: Path, engine: Engine
) -> None:
    """It is told before the first rebalance."""
    with pytest.raises(InputError, match="expected a column generation; it has group_id, topic,"):
        OffsetStore(engine, generation="generation").listener(FakeConsumer(1), "g")
    with pytest.raises(InputError, match="expected the table other, found none"):
        OffsetStore(engine, "other").listener(FakeConsumer(1), "g")


def test_a_listener_seeks_and_stores(fencing: OffsetStore, file: Path) -> None:
    fencing.claim("g", [P0], 1)
    fencing.save("g", {P0: 10}, generation=1)
    consumer = FakeConsumer(2)
    pending = {P0: 12, P1: 3}
    listener = fencing.listener(consumer, "g", lambda: pending)
    listener.on_partitions_assigned({P0, P1})
    assert consumer.sought == [(P0, 10)]
    listener.save({P0: 11})
    listener.on_partitions_revoked({P0})
    assert query(file) == [("g", "t", 0, 12, 2), ("g", "t", 1, None, 2)]
    with pytest.raises(FencedError, match="one that it has given up"):
        listener.save({P0: 13, P1: 4})
    listener.save({P1: 4})
    listener.on_partitions_lost({P1})
    assert query(file) == [("g", "t", 0, 12, 2), ("g", "t", 1, 4, 2)]


def test_a_listener_keeps_what_a_cooperative_rebalance_leaves(
    fencing: OffsetStore, file: Path
) -> None:
    consumer = FakeConsumer(1)
    listener = fencing.listener(consumer, "g")
    listener.on_partitions_assigned([P0])
    consumer.generation = 3
    listener.on_partitions_assigned([])
    listener.on_partitions_assigned([P1])
    listener.save({P0: 5, P1: 6})
    assert query(file) == [("g", "t", 0, 5, 3), ("g", "t", 1, 6, 3)]


def test_a_listener_of_a_plain_table(plain: OffsetStore, file: Path) -> None:
    consumer = FakeConsumer(1)
    listener = plain.listener(consumer, "g")
    listener.on_partitions_assigned([P0])
    listener.save({P0: 5})
    listener.on_partitions_revoked([P0])
    assert query(file) == [("g", "t", 0, 5)]


def test_a_listener_begins_at_the_later_of_both_stores(fencing: OffsetStore, file: Path) -> None:
    fencing.claim("g", [P0, P1, ("t", 2)], 1)
    fencing.save("g", {P0: 10, P1: 20}, generation=1)
    consumer = FakeConsumer(2)
    asked = []

    def committed(partitions: Collection[object]) -> dict[object, object]:
        asked.append(partitions)
        return {P0: OffsetAndMetadata(15, "", -1), P1: 5, ("t", 2): 0, ("t", 3): None, ("u", 0): 9}

    listener = fencing.listener(consumer, "g", committed=committed)
    assigned = [P0, P1, ("t", 2), ("t", 3)]
    listener.on_partitions_assigned(assigned)
    assert asked == [assigned]
    assert consumer.sought == [(P0, 15), (P1, 20), (("t", 2), 0)]
    assert query(file) == [
        ("g", "t", 0, 15, 2),
        ("g", "t", 1, 20, 2),
        ("g", "t", 2, 0, 2),
        ("g", "t", 3, None, 2),
    ]


def test_a_revoked_partition_that_was_lost_stores_nothing(fencing: OffsetStore, file: Path) -> None:
    listener = fencing.listener(FakeConsumer(1), "g", lambda: {P0: 5})
    listener.on_partitions_assigned([P0])
    fencing.claim("g", [P0], 2)
    with pytest.raises(FencedError):
        listener.on_partitions_revoked([P0])
    assert query(file) == [("g", "t", 0, None, 2)]


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, kgroup.source.sql\n"
        "from kgroup.source.sql import OffsetStore\n"
        "import kgroup.source.sql.store, kgroup.source.sql.address\n"
        "assert OffsetStore.__name__ == 'OffsetStore'\n"
        "heavy = {'sqlalchemy', 'sqlite3', 'psycopg', 'pymysql', 'kafka'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
