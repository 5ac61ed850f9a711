"""Which record comes next, of partitions whose broker is made up; it sends what Kafka would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.log_range import NextRecord
from kgroup.source.broker.source import LiveCluster
from tests.columnar.log_writer import (
    CODECS,
    LOG_APPEND,
    TRANSACTIONAL,
    Plain,
    batch,
    marker,
    message_set,
)
from tests.source.broker_answers import metadata, topic
from tests.source.fake_broker import FakeBroker, fake_broker
from tests.source.fake_log import FakeLog, fetched, records

NOTHING = NextRecord()
KIB = 1 << 10


Logs = dict[int, FakeLog]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with fake_broker() as fake:
        fake.newest = {"Metadata": 4, "Fetch": 4}
        yield fake


def serve(broker: FakeBroker, logs: Mapping[int, FakeLog]) -> None:
    """Lead these partitions of the topic "orders"."""
    broker.handlers = {
        "Metadata": metadata(broker, topic("orders", *(1 for _ in logs))),
        "Fetch": lambda request: fetched(request, logs.__getitem__),
    }


def following(
    broker: FakeBroker, log: FakeLog, offset: int, *, committed: bool = False
) -> NextRecord:
    serve(broker, {0: log})
    with LiveCluster(broker.bootstrap) as source:
        reading = source.next_records([("orders", 0, offset)], committed=committed)
    assert reading.problems == ()
    return reading.records["orders", 0, offset]


def part_of(producer_id: int, *offsets: int) -> bytes:
    """A batch of a transaction."""
    return batch(records(*offsets), producer_id=producer_id, producer_epoch=0, flags=TRANSACTIONAL)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_the_record_at_an_offset_inside_a_batch(broker: FakeBroker, codec: str) -> None:
    log = FakeLog([(4, batch(records(2, 3, 4), codec=codec)), (6, batch(records(5, 6)))])
    for offset in range(2, 7):
        assert following(broker, log, offset) == NextRecord(offset, 1000 * offset)
    assert following(broker, log, 7) == NOTHING


@pytest.mark.parametrize("codec", CODECS[:-1])  # zstd came later
@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats(broker: FakeBroker, magic: int, codec: str) -> None:
    log = FakeLog([(4, message_set(records(2, 3, 4), magic=magic, codec=codec))])
    assert following(broker, log, 3) == NextRecord(3, 3000 if magic else None)


def test_append_time_is_the_time_of_all_records(broker: FakeBroker) -> None:
    log = FakeLog([(1, batch(records(0, 1), flags=LOG_APPEND, max_timestamp=77))])
    assert following(broker, log, 1) == NextRecord(1, 77)


def test_a_partition_that_is_left_out_of_an_answer(broker: FakeBroker) -> None:
    """Else nobody would say that its record is missing."""
    serve(broker, {0: FakeLog([(1, batch(records(0, 1)))])})
    broker.handlers["Fetch"] = lambda _: {"responses": []}
    with LiveCluster(broker.bootstrap, timeout_s=2) as source:
        (problem,) = source.next_records([("orders", 0, 0)]).problems
    assert problem.kind is ProblemKind.UNUSABLE
    assert "answered Fetch without orders-0" in problem.reason


def test_holes_of_compaction_are_passed_over(broker: FakeBroker) -> None:
    holey = batch(records(2), last_offset_delta=5)  # 3 to 7 are gone
    empty = batch([], base_offset=8, last_offset_delta=3, count=0)
    log = FakeLog([(7, holey), (11, empty), (20, batch(records(15, 20)))])
    for offset, found in ((2, 2), (3, 15), (8, 15), (12, 15), (16, 20)):
        assert following(broker, log, offset) == NextRecord(found, 1000 * found)
    assert following(broker, FakeLog([(7, holey), (11, empty)]), 3) == NOTHING


def test_nothing_but_markers_is_nothing_to_read(broker: FakeBroker) -> None:
    log = FakeLog([(0, part_of(7, 0)), (1, marker(1, 7, 1)), (2, marker(2, 7, 1))])
    assert following(broker, log, 0) == NextRecord(0, 0)
    assert following(broker, log, 1) == NOTHING


@pytest.mark.parametrize(("committed", "found"), [(False, 0), (True, 2)])
def test_aborted_records_are_not_there_for_readers_of_committed_ones(
    broker: FakeBroker, committed: bool, found: int
) -> None:
    """Producer 7 aborts 0 and 1, then commits 4; producer 8 commits 2 in between."""
    log = FakeLog(
        [(1, part_of(7, 0, 1)), (2, part_of(8, 2)), (3, marker(3, 7, 0)), (4, part_of(7, 4))],
        aborted=[(7, 0, 3)],
    )
    assert following(broker, log, 0, committed=committed) == NextRecord(found, 1000 * found)
    assert following(broker, log, 3, committed=committed) == NextRecord(4, 4000)


def test_records_of_an_open_transaction_are_not_to_be_read_yet(broker: FakeBroker) -> None:
    log = FakeLog([(1, batch(records(0, 1)))], stable=0)
    assert following(broker, log, 0, committed=True) == NOTHING
    assert following(broker, log, 0) == NextRecord(0, 0)


def test_batches_larger_than_what_is_asked_for(broker: FakeBroker) -> None:
    """Whatever their order, partitions with large batches get more room, and small ones none."""
    logs: Logs = {
        number: FakeLog([(9, batch([Plain(9, 9000 + number, None, b"x" * size)], base_offset=0))])
        for number, size in enumerate((KIB, 30 * KIB, 400 * KIB, KIB, 40 * KIB, 500 * KIB, 7))
    }
    serve(broker, logs)
    with LiveCluster(broker.bootstrap) as source:
        reading = source.next_records([("orders", number, 0) for number in logs])
    assert reading.problems == ()
    assert {at[1]: record.timestamp_ms for at, record in reading.records.items()} == {
        number: 9000 + number for number in logs
    }
    fetches = [request for name, _, request in broker.asked if name == "Fetch"]
    assert len(fetches) < 8
    assert len(fetches[0].topics[0].partitions) == len(logs)


def test_many_partitions_are_one_request(broker: FakeBroker) -> None:
    logs: Logs = {number: FakeLog([(2, batch(records(1, 2)))]) for number in range(300)}
    serve(broker, logs)
    with LiveCluster(broker.bootstrap) as source:
        reading = source.next_records([("orders", number, 2) for number in logs])
    assert len(reading.records) == 300
    assert broker.names.count("Fetch") == 1


def test_several_offsets_of_one_partition(broker: FakeBroker) -> None:
    serve(broker, {0: FakeLog([(3, batch(records(1, 2, 3)))])})
    with LiveCluster(broker.bootstrap) as source:
        reading = source.next_records([("orders", 0, offset) for offset in (1, 3, 4, 3)])
    assert reading.records == {
        ("orders", 0, 1): NextRecord(1, 1000),
        ("orders", 0, 3): NextRecord(3, 3000),
        ("orders", 0, 4): NOTHING,
    }


@pytest.mark.parametrize(
    ("log", "kind", "says"),
    [
        (FakeLog([(3, b"")], error=29), "not-authorized", "READ on the topic"),
        (FakeLog([(3, b"")], error=1), "denied", "OFFSET_OUT_OF_RANGE"),
        (FakeLog([(3, batch(records(1))[:-1] + b"?")]), "denied", "CORRUPT_MESSAGE"),
    ],
)
def test_what_cannot_be_read_is_told_and_the_rest_shown(
    broker: FakeBroker, log: FakeLog, kind: str, says: str
) -> None:
    serve(broker, {0: log, 1: FakeLog([(3, batch(records(3)))])})
    with LiveCluster(broker.bootstrap) as source:
        reading = source.next_records([("orders", 0, 1), ("orders", 1, 3)])
    assert reading.records == {("orders", 1, 3): NextRecord(3, 3000)}
    (problem,) = reading.problems
    assert (problem.kind, problem.topic) == (kind, "orders")
    assert says in problem.reason
