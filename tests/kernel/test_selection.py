"""Batches without records of a group are left out; none that has one, or may have one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.kernel import entry
from kgroup.kernel.memory import FOREVER, PADDING
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.protocol.record.coordinator_record import decode_record
from tests.columnar.log_writer import LOG_APPEND, Plain, batch, marker, message_set
from tests.columnar.random_log import logs
from tests.examples import examples
from tests.operation.log_files import commit, commit_key, group_metadata, text, tombstone

BEHIND = bytes(PADDING)
"""The last bytes of a response are left to the reference reader."""


def select(
    data: bytes, group: str, until: int = FOREVER, high: int | None = None
) -> tuple[bytes, int, int]:
    selected, size, following = entry.select_group(data + BEHIND, 0, until, high, text(group))
    return bytes(selected), size, following


def whole(data: bytes) -> list[RecordBatch]:
    """The batches at the start that are sound, of message format v2, and in order."""
    found: list[RecordBatch] = []
    at = 0
    for item in read_batches(data):
        if isinstance(item, Damage) or item.magic != 2 or item.position != at:
            break
        if found and item.last_offset <= found[-1].last_offset:
            break
        found.append(item)
        at += item.size
    return found


def is_about(found: RecordBatch, group: str) -> bool:
    """Whether the group has a record in it, or it says more than its records."""
    if found.is_control or found.compression != "none":
        return True
    for record in read_records(found):
        if isinstance(record, Damage) or record.headers:
            return True
        _, key, _ = decode_record(record.key, record.value)
        data = (key or {}).get("data") or {}
        if group in (data.get("group"), data.get("groupId")):
            return True
    return False


@settings(max_examples=examples(150, 300))
@given(logs(), st.sampled_from(["g", "group-1", "grüppe", "", "a" * 40]))
def test_all_batches_of_a_group_are_selected(data: bytes, group: str) -> None:
    selected, size, following = select(data, group)
    batches = whole(data)
    assert size == sum(found.size for found in batches)
    assert following == (batches[-1].last_offset + 1 if batches else 0)
    left = selected
    for found in batches:
        if left.startswith(found.data):
            left = left[found.size :]
        else:
            assert not is_about(found, group)
    assert left == b""


OTHER = commit(1, "other", time_ms=1000)


@pytest.mark.parametrize(
    ("made", "is_selected"),
    [
        (batch([OTHER, commit(2, "g", time_ms=1000)]), True),
        (batch([group_metadata(1, "g", generation=1, time_ms=1000)]), True),
        (batch([tombstone(1, "g", time_ms=1000)]), True),
        (batch([OTHER], codec="gzip"), True),
        (batch([OTHER]), False),
        (batch([commit(1, "gg", time_ms=1000)]), False),
        (batch([commit(1, "", time_ms=1000)]), False),
        (batch([commit(1, "other", topic="g", time_ms=1000)]), False),
        (batch([Plain(1, 1000, None, b"value")]), False),
        (batch([Plain(1, 1000, commit_key("other"), None, [("g", b"")])]), True),
        (batch([OTHER], count=2), True),
        (marker(1, 7, 1), True),
    ],
)
def test_a_batch(made: bytes, is_selected: bool) -> None:
    """Between others, of which the first and the last one have the earliest and latest time."""
    first = batch([Plain(0, 0, commit_key("other"), None)])
    last = batch([Plain(9, 9000, commit_key("other"), None)])
    data = first + made + last
    assert select(data, "g") == ((data if is_selected else first + last), len(data), 10)


def test_the_earliest_and_the_latest_batch_are_selected() -> None:
    times = [2000, 1000, 3000, 9000, 4000]
    made = [batch([Plain(n, time, commit_key("other"), None)]) for n, time in enumerate(times)]
    assert select(b"".join(made), "g")[0] == made[1] + made[3]
    late = batch(
        [Plain(5, 5000, commit_key("other"), None)], flags=LOG_APPEND, max_timestamp=10_000
    )
    assert select(b"".join(made) + late, "g")[0] == made[1] + late


@pytest.mark.parametrize(
    "odd",
    [
        batch([commit(1, "g")])[:-20],
        batch([commit(1, "g")])[:-1] + b"\xff",
        batch([commit(0, "g")]),
        batch([commit(5, "g")]),
        message_set([commit(1, "g")], magic=1),
    ],
    ids=["cut off", "wrong checksum", "known offset", "above the high watermark", "old format"],
)
def test_what_the_reference_reader_must_judge_ends_the_selection(odd: bytes) -> None:
    first = batch([commit(0, "g")])
    assert select(first + odd + batch([commit(2, "g")]), "g", high=5) == (first, len(first), 1)


def test_no_more_than_is_there() -> None:
    assert entry.select_group(b"", 0, 9, None, text("g"))[1:] == (0, 0)
    one = batch([commit(0, "g")])
    assert entry.select_group(one + BEHIND[:-1], 0, 9, None, text("g"))[1:] == (0, 0)


def test_no_more_than_wanted() -> None:
    """The batch with the last wanted offset is whole."""
    first, second = batch([commit(0, "g"), commit(1, "g")]), batch([commit(2, "g")])
    assert select(first + second, "g", until=1) == (first, len(first), 2)
    assert select(first + second, "g", until=2) == (first, len(first), 2)
    assert select(first + second, "g", until=3) == (first + second, len(first + second), 3)
