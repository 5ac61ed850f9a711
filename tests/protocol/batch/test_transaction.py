"""What became of transactional records, by the markers behind them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.protocol.batch.transaction import TransactionIndex
from tests.columnar import log_writer as log
from tests.columnar.log_writer import Plain

ABORT, COMMIT = 0, 1


def index_of(*batches: bytes) -> TransactionIndex:
    index = TransactionIndex()
    for batch in read_batches(b"".join(batches)):
        assert isinstance(batch, RecordBatch)
        index.add(batch)
    return index


def data(offset: int, producer_id: int, epoch: int = 0) -> bytes:
    return log.batch(
        [Plain(offset, 1000, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        flags=log.TRANSACTIONAL,
    )


def test_a_marker_decides_what_stands_before_it() -> None:
    index = index_of(
        data(0, 7), data(1, 7), log.marker(2, 7, COMMIT), data(3, 7), log.marker(4, 7, ABORT)
    )
    assert [index.status(7, offset) for offset in range(6)] == [
        "committed",
        "committed",
        "committed",
        "aborted",
        "aborted",
        "open",
    ]


def test_transactions_in_flight_at_once() -> None:
    index = index_of(
        data(0, 7), data(1, 8), data(2, 9), log.marker(3, 8, ABORT), log.marker(4, 7, COMMIT)
    )
    assert index.status(7, 0) == "committed"
    assert index.status(8, 1) == "aborted"
    assert index.status(9, 2) == "open"


def test_no_marker_at_all() -> None:
    assert TransactionIndex().status(7, 0) == "open"
    assert index_of(data(0, 7)).status(7, 0) == "open"


def test_a_log_that_ends_before_markers_that_a_broker_knows() -> None:
    """Producer 7 aborts from 0 and, behind this log, from 5; 8 aborts from 2; 9 commits."""
    index = TransactionIndex([(7, 0), (7, 5), (8, 2)])
    for batch in read_batches(data(0, 7) + log.marker(1, 7, ABORT) + data(2, 8) + data(5, 7)):
        assert isinstance(batch, RecordBatch)
        index.add(batch)
    assert index.status(7, 0) == index.status(8, 2) == index.status(7, 5) == "aborted"
    assert index.status(8, 1) == index.status(7, 4) == index.status(9, 3) == "committed"


def test_fenced_producer_is_aborted_with_another_epoch() -> None:
    index = index_of(data(0, 7, epoch=4), log.marker(1, 7, ABORT, epoch=5), data(2, 7, epoch=5))
    assert index.status(7, 0) == "aborted"
    assert index.status(7, 2) == "open"


def test_marker_whose_records_compaction_removed() -> None:
    index = index_of(log.marker(10, 7, ABORT), data(20, 7), log.marker(30, 7, COMMIT))
    assert index.status(7, 20) == "committed"


def test_marker_that_compaction_emptied_says_nothing() -> None:
    empty = log.batch(
        [], base_offset=5, producer_id=7, producer_epoch=0, flags=log.TRANSACTIONAL | log.CONTROL
    )
    assert index_of(empty).status(7, 0) == "open"


def test_a_log_read_in_any_order_and_twice() -> None:
    parts = [log.marker(offset, 7, offset // 10 % 2) for offset in range(0, 200, 10)]
    shuffled = parts + parts[:5]
    random.Random(3).shuffle(shuffled)
    index, sorted_index = index_of(*shuffled), index_of(*parts)
    statuses = [index.status(7, offset) for offset in range(210)]
    assert statuses == [sorted_index.status(7, offset) for offset in range(210)]
    assert statuses[0:22:10] == ["aborted", "committed", "aborted"]
    assert statuses[191] == "open"


@pytest.mark.parametrize(
    "key",
    [None, b"", b"\x00\x00\x00", b"\x00\x00\x00\x02", b"\x00\x00\xff\xff", b"\xff\xff\x00\x01"],
)
def test_other_control_records_end_no_transaction(key: bytes | None) -> None:
    other = log.batch(
        [Plain(5, 1000, key, b"")],
        producer_id=7,
        producer_epoch=0,
        flags=log.TRANSACTIONAL | log.CONTROL,
    )
    assert index_of(data(0, 7), other).status(7, 0) == "open"


def test_newer_versions_of_the_key_are_read_as_the_known_one() -> None:
    """As Kafka does (`ControlRecordType.parseTypeId`): fields may be added behind the type."""
    newer = log.batch(
        [Plain(5, 1000, b"\x00\x01\x00\x01and more", b"")],
        producer_id=7,
        producer_epoch=0,
        flags=log.TRANSACTIONAL | log.CONTROL,
    )
    assert index_of(data(0, 7), newer).status(7, 0) == "committed"


def test_a_record_that_looks_like_a_marker_is_none() -> None:
    fake = log.batch(
        [Plain(5, 1000, b"\x00\x00\x00\x01", b"")], producer_id=7, flags=log.TRANSACTIONAL
    )
    assert index_of(data(0, 7), fake).status(7, 0) == "open"


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["data", "commit", "abort"]))))
def test_against_a_replay(events: list[tuple[int, str]]) -> None:
    """The state that a broker keeps: what each producer has open, ended by its marker."""
    batches = []
    expected = {}
    pending: dict[int, list[int]] = {}
    for offset, (producer_id, kind) in enumerate(events):
        if kind == "data":
            batches.append(data(offset, producer_id))
            pending.setdefault(producer_id, []).append(offset)
            expected[producer_id, offset] = "open"
        else:
            batches.append(log.marker(offset, producer_id, COMMIT if kind == "commit" else ABORT))
            for ended in pending.pop(producer_id, []):
                expected[producer_id, ended] = "committed" if kind == "commit" else "aborted"
    index = index_of(*batches)
    assert {key: index.status(*key) for key in expected} == expected
