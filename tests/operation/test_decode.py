from __future__ import annotations

import json
import re
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar import input_size, log_reader
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.log_reader import AsOf
from kgroup.columnar.segment_check import LARGEST_TYPE
from kgroup.errors import ProblemKind, UsageError
from kgroup.kernel import compiled
from kgroup.model.problem import Problem
from kgroup.model.segment import Log as ReadLog
from kgroup.model.segment import Segment
from kgroup.operation.decode import (
    NOT_COMMITTED,
    Count,
    Decoding,
    Selection,
    count_records,
    decode,
    decode_message,
)
from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import LogDir
from tests.columnar.log_writer import Plain, batch, message_set
from tests.examples import examples
from tests.operation.log_files import (
    Log,
    commit,
    commit_key,
    end,
    group_metadata,
    tombstone,
    transaction,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def rows(decoding: Decoding) -> list[dict[str, Any]]:
    return [row for found in decoding.map(lambda batch: batch.to_pylist()) for row in found]


def places(decoding: Decoding) -> list[tuple[int | None, int]]:
    return [(row["partition"], row["offset"]) for row in rows(decoding)]


def offsets(decoding: Decoding) -> list[int]:
    return [row["offset"] for row in rows(decoding)]


def select(log: Log, **wanted: Any) -> list[int]:
    return offsets(decode(log.segments(), Selection(**wanted)))


def test_rows_come_by_partition_and_in_the_order_of_the_log(log: Log) -> None:
    log.add(2, batch([commit(2, "a")]), batch([commit(5, "a")]), partition=3)
    log.add(0, batch([commit(0, "a"), commit(1, "b")]), partition=3)
    log.add(0, batch([commit(0, "c")]), partition=0)
    assert places(decode(log.segments(), Selection())) == [(0, 0), (3, 0), (3, 1), (3, 2), (3, 5)]


@pytest.fixture
def mixed(log: Log) -> Log:
    log.add(
        0,
        batch([commit(0, "orders", "t", 0, time_ms=100), commit(1, "orders", "u", 1, time_ms=200)]),
        batch([group_metadata(2, "orders", generation=1, time_ms=300)]),
        batch([commit(3, "payments", "t", 1, time_ms=400)]),
        batch([tombstone(4, "orders", "t", 0, time_ms=500)]),
        batch([Plain(5, 600, struct.pack(">h", 99) + b"?", b"x")]),
    )
    return log


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"groups": frozenset({"orders"})}, [0, 1, 2, 4]),
        ({"groups": frozenset({"orders", "payments"})}, [0, 1, 2, 3, 4]),
        ({"groups": frozenset({"order"})}, []),
        ({"group_pattern": re.compile("p.*")}, [3]),
        ({"group_pattern": re.compile("order")}, []),
        ({"group_pattern": re.compile("p.*"), "groups": frozenset({"orders"})}, [0, 1, 2, 3, 4]),
        ({"topics": frozenset({"t"})}, [0, 3, 4]),
        ({"topic_partitions": frozenset({1})}, [1, 3]),
        ({"topics": frozenset({"t"}), "topic_partitions": frozenset({1})}, [3]),
        ({"types": frozenset({"GroupMetadata"})}, [2]),
        ({"types": frozenset({"OffsetCommit", "Unknown"})}, [0, 1, 3, 4, 5]),
        ({"from_offset": 3}, [3, 4, 5]),
        ({"since_ms": 300}, [2, 3, 4, 5]),
        ({"until_ms": 300}, [0, 1]),
        ({"since_ms": 200, "until_ms": 500}, [1, 2, 3]),
        ({"groups": frozenset({"orders"}), "since_ms": 300}, [2, 4]),
    ],
)
def test_filters(mixed: Log, wanted: dict[str, Any], expected: list[int]) -> None:
    assert select(mixed, **wanted) == expected


def test_a_record_without_a_timestamp_has_the_time_of_its_commit(log: Log) -> None:
    old = [commit(0, "g", time_ms=100), commit(1, "g", time_ms=300), tombstone(2, "g")]
    log.add(0, message_set(old, magic=0))
    assert [row["timestamp_ms"] for row in rows(decode(log.segments(), Selection()))] == [None] * 3
    assert select(log, since_ms=200) == [1]
    assert select(log, until_ms=200) == [0]


def test_segments_before_the_first_offset_are_not_even_opened(log: Log) -> None:
    log.add(0, b"damaged")
    log.add(10, batch([commit(10, "g"), commit(11, "g")]))
    log.add(20, batch([commit(20, "g")]))
    decoding = decode(log.segments(), Selection(from_offset=11))
    assert offsets(decoding) == [11, 20]
    assert decoding.problems() == ()
    assert decode(log.segments(), Selection(from_offset=10)).log.file_count == 2
    assert decode(log.segments(), Selection(from_offset=9)).log.file_count == 3
    assert decode(log.segments(), Selection(from_offset=25)).log.file_count == 1


@pytest.fixture
def transactions(log: Log) -> Log:
    """Producer 7 commits, 8 aborts, 9 is open; markers stand in the next segment."""
    log.add(
        0,
        batch([commit(0, "g", "t", 0, committed=1), commit(1, "g", "t", 1, committed=1)]),
        transaction([commit(2, "g", "t", 0, committed=2)], 7),
        transaction([commit(3, "g", "t", 1, committed=3)], 8),
    )
    log.add(
        4,
        end(4, 7, commits=True),
        end(5, 8, commits=False),
        transaction([commit(6, "g", "t", 0, committed=6)], 9),
    )
    return log


def test_the_fate_of_a_transaction_stands_in_a_later_segment(transactions: Log) -> None:
    found = rows(decode(transactions.segments(), Selection()))
    assert [(row["offset"], row["transaction"], row["type"]) for row in found] == [
        (0, None, "OffsetCommit"),
        (1, None, "OffsetCommit"),
        (2, "committed", "OffsetCommit"),
        (3, "aborted", "OffsetCommit"),
        (4, "committed", "ControlCommit"),
        (5, "aborted", "ControlAbort"),
        (6, "open", "OffsetCommit"),
    ]


def test_read_committed(transactions: Log) -> None:
    assert select(transactions, without_statuses=NOT_COMMITTED) == [0, 1, 2]


def test_latest_passes_over_aborted_records_and_shows_open_ones_beside(transactions: Log) -> None:
    decoding = decode(transactions.segments(), Selection(), last_only=True)
    assert offsets(decoding) == [1, 2, 6]
    read_committed = Selection(without_statuses=NOT_COMMITTED)
    assert offsets(decode(transactions.segments(), read_committed, last_only=True)) == [1, 2]


@pytest.mark.parametrize(
    ("cut", "expected"),
    [(0, [0]), (1, [0, 1]), (2, [0, 1]), (3, [0, 1]), (4, [1, 2]), (5, [1, 2]), (6, [1, 2])],
)
def test_as_of_an_offset_a_transaction_counts_from_its_marker_on(
    transactions: Log, cut: int, expected: list[int]
) -> None:
    decoding = decode(transactions.segments(), Selection(), as_of=AsOf(offset=cut))
    assert offsets(decoding) == expected


def test_as_of_a_time(log: Log) -> None:
    log.add(
        0,
        batch([commit(0, "g", committed=1, time_ms=500)]),
        transaction([commit(1, "g", committed=2, time_ms=600)], 7),
        end(2, 7, commits=True),  # at 1000
        batch([tombstone(3, "g", time_ms=2000)]),
        batch([commit(4, "h", committed=4, time_ms=3000)]),
    )

    def at(time_ms: int) -> list[int]:
        return offsets(decode(log.segments(), Selection(), as_of=AsOf(time_ms=time_ms)))

    assert [at(t) for t in (499, 500, 600, 999, 1000, 1999)] == [[], [0], [0], [0], [1], [1]]
    assert [at(t) for t in (2000, 2999, 3000)] == [[], [], [4]]


def test_as_of_an_offset_wants_one_partition(log: Log) -> None:
    log.add(0, batch([commit(0, "a")]), partition=0)
    log.add(0, batch([commit(0, "b")]), partition=1)
    with pytest.raises(UsageError, match="within a partition of __consumer_offsets, found 2"):
        decode(log.segments(), Selection(), as_of=AsOf(offset=0))


def test_latest_keeps_tombstones_and_tells_partitions_and_types_apart(log: Log) -> None:
    legacy = Plain(2, -1, struct.pack(">h", 0) + commit_key("g")[2:], None)
    log.add(0, batch([commit(0, "g"), tombstone(1, "g"), legacy, commit(3, "h")]), partition=0)
    log.add(0, batch([commit(0, "g"), commit(1, "h"), commit(2, "h")]), partition=1)
    decoding = decode(log.segments(), Selection(), last_only=True)
    assert places(decoding) == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2)]


def test_latest_takes_a_key_for_the_same_whatever_its_value_is(log: Log) -> None:
    damaged = Plain(1, -1, commit_key("g"), struct.pack(">h", 3) + b"short")
    log.add(0, batch([commit(0, "g"), damaged]))
    assert offsets(decode(log.segments(), Selection(), last_only=True)) == [1]
    log.add(0, batch([damaged, commit(2, "g")]))
    assert offsets(decode(log.segments(), Selection(), last_only=True)) == [2]


def test_times_choose_from_what_a_view_gives(log: Log) -> None:
    log.add(0, batch([commit(0, "a", time_ms=1), commit(1, "b", time_ms=2)]))
    log.add(2, batch([commit(2, "a", time_ms=9)]))
    decoding = decode(log.segments(), Selection(until_ms=5), last_only=True)
    assert offsets(decoding) == [1]


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[str, int, str]]:
    """What happens, record by record: (what, producer or -1, group)."""
    what = st.sampled_from(["commit", "commit", "tombstone", "metadata", "committed", "aborted"])
    return draw(st.lists(st.tuples(what, st.integers(-1, 2), st.sampled_from("abc")), min_size=1))


def write(events: list[tuple[str, int, str]]) -> Iterator[bytes]:
    for offset, (what, producer, group) in enumerate(events):
        if what in ("committed", "aborted"):
            yield end(offset, max(producer, 0), commits=what == "committed")
            continue
        if what == "commit":
            record = commit(offset, group, committed=offset)
        elif what == "tombstone":
            record = tombstone(offset, group)
        else:
            record = group_metadata(offset, group, generation=offset)
        yield batch([record]) if producer < 0 else transaction([record], producer)


def statuses(events: list[tuple[str, int, str]]) -> list[str | None]:
    """What became of each record, marker by marker."""
    found: list[str | None] = []
    for what, producer, _ in events:
        if what in ("committed", "aborted"):
            for index, (other, owner, _) in enumerate(events[: len(found)]):
                if found[index] == "open" and owner == max(producer, 0):
                    assert other not in ("committed", "aborted")
                    found[index] = what
            found.append("marker")
        else:
            found.append(None if producer < 0 else "open")
    return found


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(events=logs(), data=st.data())
def test_views_of_random_logs(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, int, str]],
    data: st.DataObject,
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    split = data.draw(st.integers(0, len(events)))
    cut = data.draw(st.integers(0, len(events) - 1))
    batches = list(write(events))
    log.add(0, *batches[:split])
    log.add(split, *batches[split:])

    last: dict[tuple[str, str], int] = {}
    shown = set()
    for offset, (status, (what, _, group)) in enumerate(zip(statuses(events), events, strict=True)):
        if status == "open":
            shown.add(offset)
        elif status not in ("aborted", "marker"):
            last["metadata" if what == "metadata" else "commit", group] = offset
    decoding = decode(log.segments(), Selection(), last_only=True)
    assert offsets(decoding) == sorted(shown | set(last.values()))

    current: dict[tuple[str, str], int] = {}
    before = events[: cut + 1]
    for offset, (status, (what, _, group)) in enumerate(zip(statuses(before), before, strict=True)):
        if status in (None, "committed"):
            current["metadata" if what == "metadata" else "commit", group] = offset
    expected = sorted(offset for offset in current.values() if events[offset][0] != "tombstone")
    assert offsets(decode(log.segments(), Selection(), as_of=AsOf(offset=cut))) == expected


def test_damage_is_told_and_passed_over(log: Log) -> None:
    bad = bytearray(batch([commit(1, "g")]))
    bad[-1] ^= 1
    first = batch([commit(0, "g")])
    path = log.add(0, first, bytes(bad), batch([commit(2, "g")]))
    decoding = decode(log.segments(), Selection())
    assert offsets(decoding) == [0, 2]
    (problem,) = decoding.problems()
    assert (problem.kind, problem.position) == ("bad-crc", len(first))
    assert (problem.path, problem.offsets_partition) == (str(path), 0)
    assert decoding.log.damage_kinds == {"bad-crc": 1}


def test_a_strict_run_stops_at_the_first_damage(log: Log) -> None:
    log.add(0, batch([commit(0, "g")]), b"\x01" * 100, batch([commit(1, "g")]))
    log.add(2, b"\x02" * 100, batch([commit(2, "g")]))
    decoding = decode(log.segments(), Selection(), strict=True)
    assert offsets(decoding) == [0]
    assert len(decoding.problems()) == 1


@pytest.mark.slow
def test_many_problems_are_counted_and_not_kept(log: Log) -> None:
    piece = batch([commit(0, "g")]) + b"\xff" * 60
    log.add(0, piece * 1200)
    decoding = decode(log.segments(), Selection())
    assert len(offsets(decoding)) == 1200
    problems = decoding.problems()
    assert len(problems) == 1001
    assert problems[-1].kind == "more"
    assert problems[-1].reason.startswith("200 ")


def test_a_text_file_is_no_segment(log: Log, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    path = tmp_path / "notes" / "readme.log"
    path.write_text("Dear reader, this is no segment at all, and long enough to look at.\n")
    log.add(0, batch([commit(0, "g")]))
    decoding = decode(find_segments([path, tmp_path / "__consumer_offsets-0"]), Selection())
    assert offsets(decoding) == [0]
    (problem,) = decoding.problems()
    assert (problem.kind, problem.path) == ("not-a-segment", str(path))
    assert "b'Dear reader, thi'" in problem.reason
    assert (decoding.log.rejected_count, decoding.log.file_count) == (1, 2)


def test_a_segment_of_another_topic_is_refused(tmp_path: Path) -> None:
    folder = ROOT / "kgroup/sample/log-dir/orders-0"
    decoding = decode(find_segments([folder]), Selection())
    assert rows(decoding) == []
    assert [problem.kind for problem in decoding.problems()] == ["other-topic"]
    assert decoding.log.rejected_count == 1


@pytest.mark.parametrize("number", [24, 42, LARGEST_TYPE])
def test_keys_of_types_to_come_are_not_taken_for_another_topic(log: Log, number: int) -> None:
    log.add(0, batch([Plain(0, -1, struct.pack(">h", number) + b"new", b"\0\0")]), partition=None)
    decoding = decode(log.segments(), Selection())
    (row,) = rows(decoding)
    assert (row["type"], row["key_type"]) == ("Unknown", number)
    assert decoding.problems() == ()


@pytest.mark.parametrize("key", [None, b"", b"k", b"key", b"\xff\xffkey", b"\0\0\0\0\0\0\0\x2a"])
def test_keys_of_other_topics(log: Log, key: bytes | None) -> None:
    """No key, texts, and the number 42 as Kafka's own serializers write it."""
    log.add(0, batch([Plain(0, -1, key, b"value")]), partition=None)
    decoding = decode(log.segments(), Selection())
    assert rows(decoding) == []
    assert [problem.kind for problem in decoding.problems()] == ["other-topic"]


def test_what_lies_in_the_right_folder_is_decoded_whatever_it_is(log: Log) -> None:
    log.add(0, batch([Plain(0, -1, b"text", b"text"), Plain(1, -1, None, b"text")]))
    assert [row["type"] for row in rows(decode(log.segments(), Selection()))] == ["Unknown"] * 2


def test_an_empty_file_has_no_rows_and_no_problem(log: Log) -> None:
    log.add(0, partition=None)
    decoding = decode(log.segments(), Selection())
    assert (rows(decoding), decoding.problems()) == ([], ())


def test_a_file_that_goes_away_is_a_problem(log: Log) -> None:
    log.add(0, batch([commit(0, "g")]), partition=0)
    path = log.add(0, batch([commit(0, "g")]), partition=1)
    segments = log.segments()
    path.unlink()
    decoding = decode(segments, Selection())
    assert places(decoding) == [(0, 0)]
    assert [problem.kind for problem in decoding.problems()] == ["unreadable"]


def test_without_the_keys_of_all_files_none_is_known_to_be_the_last(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file goes away between the look at it and the search."""
    paths = [log.add(at, batch([commit(at, "g")]), partition=0) for at in (0, 1)]
    log.add(0, batch([commit(0, "g")]), partition=1)
    decoding = decode(log.segments(), Selection(), last_only=True)
    monkeypatch.setattr(log_reader, "check_segment", lambda _: paths[1].unlink(missing_ok=True))
    assert places(decoding) == [(1, 0)]
    (problem,) = decoding.problems()
    assert (problem.kind, problem.offsets_partition) == ("unreadable", 0)


def test_names_that_the_log_does_not_have(mixed: Log) -> None:
    wanted = Selection(groups=frozenset({"orders", "nobody"}), topics=frozenset({"t", "none"}))
    decoding = decode(mixed.segments(), wanted)
    assert offsets(decoding) == [0, 4]
    assert {problem.group_id for problem in decoding.problems()} == {"nobody", None}
    assert all(problem.kind == "not-found" for problem in decoding.problems())
    assert not decoding.nothing_named_exists


@pytest.mark.parametrize(
    ("wanted", "nothing"),
    [
        ({}, False),
        ({"types": frozenset({"ControlCommit"})}, False),
        ({"groups": frozenset({"nobody"})}, True),
        ({"groups": frozenset({"nobody", "orders"})}, False),
        ({"groups": frozenset({"orders"}), "since_ms": 10_000}, False),
        ({"topics": frozenset({"none"})}, True),
        ({"group_pattern": re.compile("no.*")}, True),
        ({"group_pattern": re.compile("or.*")}, False),
        ({"group_pattern": re.compile("no.*"), "groups": frozenset({"orders"})}, False),
    ],
)
def test_nothing_named_exists(mixed: Log, wanted: dict[str, Any], nothing: bool) -> None:
    decoding = decode(mixed.segments(), Selection(**wanted))
    rows(decoding)
    assert decoding.nothing_named_exists is nothing


def test_files_of_no_partition_are_logs_of_their_own(tmp_path: Path) -> None:
    """Two copies that happen to lie in one folder do not decide about each other."""
    (tmp_path / "a.log").write_bytes(transaction([commit(0, "g")], 7))
    (tmp_path / "b.log").write_bytes(end(1, 7, commits=True))
    found = rows(decode(find_segments([tmp_path]), Selection()))
    assert [row["transaction"] for row in found] == ["open", "committed"]


def test_one_message() -> None:
    report = decode_message(commit_key("g", "t", 3), commit(0, "g", committed=7).value)
    assert report.errors == ()
    (row,) = report.data[0].to_pylist()
    assert (row["group"], row["topic"], row["topic_partition"]) == ("g", "t", 3)
    assert (row["committed_offset"], row["offset"], row["partition"]) == (7, None, None)


def test_as_of_the_end_agrees_with_the_state_of_the_groups() -> None:
    folder = ROOT / "kgroup/sample/log-dir"
    decoding = decode(
        find_segments([folder]),
        Selection(types=frozenset({"OffsetCommit"})),
        as_of=AsOf(time_ms=2**62),
    )
    current = {
        (row["group"], row["topic"], row["topic_partition"], row["committed_offset"])
        for row in rows(decoding)
    }
    groups = LogDir([folder]).read().image.groups
    assert current == {
        (group.group_id, offset.topic, offset.partition, offset.committed_offset)
        for group in groups.values()
        for offset in group.offsets
    }
    assert len(current) > 20


class Stretches:
    """What a broker was asked for: a stretch of a log, then the news that another has no leader."""

    log_count = file_count = 2
    is_sought = True

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments

    def __iter__(self) -> Iterator[ReadLog | Problem]:
        yield ReadLog(tuple(replace(s, broker=3) for s in self.segments), frozenset({(7, 4)}))
        yield Problem(ProblemKind.NO_LEADER, "It has no leader.", offsets_partition=1)


def test_logs_from_elsewhere(log: Log) -> None:
    """What was fetched has no file that means anything to a user, but offsets."""
    damaged = bytearray(batch([commit(3, "a")]))
    damaged[-1] ^= 1
    parts = [batch([commit(2, "a")]), bytes(damaged), transaction([commit(4, "b")], 7)]
    log.add(2, *parts, transaction([commit(5, "c")], 8))
    problems: list[Problem] = []
    wanted = Selection(groups=frozenset({"b", "c", "d"}), without_statuses=NOT_COMMITTED)
    decoding = decode(Stretches(log.segments()), wanted, on_problem=problems.append)
    assert offsets(decoding) == [5]
    assert decoding.problems() == tuple(problems)
    damage, no_leader = problems
    assert (damage.kind, damage.offsets_partition, damage.offset) == ("bad-crc", 0, 3)
    assert (damage.path, damage.position, damage.broker) == (None, None, 3)
    assert (no_leader.kind, no_leader.offsets_partition) == ("no-leader", 1)
    assert (decoding.nothing_named_exists, decoding.unseen) == (False, ("d",))


@pytest.mark.parametrize(
    ("key", "name"),
    [  # org.apache.kafka.common.record.ControlRecordType of 4.3.1
        ("00000000", "ControlAbort"),
        ("00000001", "ControlCommit"),
        ("00000002", "ControlLeaderChange"),
        ("00000003", "ControlSnapshotHeader"),
        ("00000004", "ControlSnapshotFooter"),
        ("00000005", "ControlKRaftVersion"),
        ("00000006", "ControlKRaftVoters"),
    ],
)
def test_a_key_of_four_bytes_is_that_of_a_control_record(key: str, name: str) -> None:
    report = decode_message(bytes.fromhex(key), bytes.fromhex("000000000005"))
    (row,) = report.data[0].to_pylist()
    assert (row["type"], report.errors) == (name, ())
    assert json.loads(row["key_json"])["data"] == {"version": 0, "type": int(key)}
    if name == "ControlCommit":
        assert json.loads(row["value_json"]) == {"version": 0, "data": {"coordinatorEpoch": 5}}


@pytest.mark.parametrize("key", ["00020000", "00000007", "0000ffff", "00010001", "0000000100"])
def test_other_short_keys_are_none(key: str) -> None:
    (row,) = decode_message(bytes.fromhex(key), None).data[0].to_pylist()
    assert not row["type"].startswith("Control")


RECORDED = [
    ROOT / "kgroup/sample/log-dir",
    *sorted(path.parent for path in ROOT.glob("tests/data/kafka-*/manifest.json")),
]


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)
def test_bytes_are_those_of_the_stored_keys_and_values(folder: Path) -> None:
    segments = [segment for segment in find_segments([folder]) if segment.is_loaded]
    stored = [
        len(record.key or b"") + len(record.value or b"")
        for segment in segments
        for found in read_batches(segment.path.read_bytes())
        if isinstance(found, RecordBatch)
        for record in read_records(found)
        if isinstance(record, Record)
    ]
    measured = decode(segments, Selection()).map(lambda rows: rows["size"].to_pylist())
    assert [size for sizes in measured for size in sizes] == stored
    assert stored


@pytest.mark.parametrize("length", [0, 126, 127, 128, 16382, 16383, 16384, 32767])
def test_bytes_of_long_metadata(log: Log, length: int) -> None:
    record = commit(0, "g", metadata="é" * (length // 2) + "x" * (length % 2))
    assert record.key is not None
    assert record.value is not None
    log.add(0, batch([record]))
    (sizes,) = decode(log.segments(), Selection()).map(lambda rows: rows["size"].to_pylist())
    assert sizes == [len(record.key) + len(record.value)]


@pytest.mark.parametrize("topic_id", [b"", b"\x00\x10" + bytes(range(1, 17))])
@pytest.mark.parametrize("length", [0, 126, 127, 128, 16382, 16383, 16384])
def test_bytes_of_long_metadata_in_version_4(log: Log, length: int, topic_id: bytes) -> None:
    """Offset, leader epoch, metadata with a varint of its length and one, time, tags."""
    size = length + 1
    varint = bytearray()
    while size >= 0x80:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    varint.append(size)
    tags = (b"\x01" if topic_id else b"\x00") + topic_id
    value = struct.pack(">hqi", 4, 7, 3) + varint + b"x" * length + struct.pack(">q", 9) + tags
    log.add(0, batch([Plain(0, -1, commit_key("g"), value)]))
    (found,) = decode(log.segments(), Selection()).map(lambda rows: rows)
    assert found["key_json"].null_count == 1
    assert found["size"].to_pylist() == [len(commit_key("g")) + len(value)]


@pytest.fixture
def damaged_log(log: Log) -> Log:
    log.add(
        0,
        batch([commit(0, "a"), commit(1, "b"), tombstone(2, "a")]),
        b"\xff" * 80,
        transaction([commit(3, "a")], 7),
        transaction([commit(4, "b")], 8),
        end(5, 7, commits=True),
        batch([commit(6, "a")], codec="gzip"),
    )
    return log


KEY = len(commit_key("a"))
VALUE = 2 + 8 + 4 + 2 + 8
"""Version, offset, leader epoch, length of no metadata, time."""


def test_counts(damaged_log: Log) -> None:
    decoding = decode(damaged_log.segments(), Selection(), with_batches=True)
    counts = count_records(decoding).data
    data = damaged_log.segments()[0].path.read_bytes()
    sizes: Counter[str] = Counter()
    for found in read_batches(data):
        if isinstance(found, RecordBatch):
            sizes[found.compression] += found.size
    assert counts == (
        Count("type", "OffsetCommit", 3, 5, 5 * (KEY + VALUE)),
        Count("type", "ControlCommit", 0, 1, 4 + 6),
        Count("type", "OffsetCommit", None, 1, KEY),
        Count("transaction", "committed", None, 2, KEY + VALUE + 10),
        Count("transaction", "open", None, 1, KEY + VALUE),
        Count("group", "a", None, 4, 4 * KEY + 3 * VALUE),
        Count("group", "b", None, 2, 2 * (KEY + VALUE)),
        Count("batch", "none", 2, 4, sizes["none"]),
        Count("batch", "gzip", 2, 1, sizes["gzip"]),
        Count("damage", "garbage", None, 1, None),
    )
    assert sum(sizes.values()) == len(data) - 80


def test_counts_of_a_selection(damaged_log: Log) -> None:
    decoding = decode(damaged_log.segments(), Selection(groups=frozenset({"b"})), with_batches=True)
    counts = count_records(decoding).data
    assert [(count.by, count.name, count.count) for count in counts] == [
        ("type", "OffsetCommit", 2),
        ("transaction", "open", 1),
        ("group", "b", 2),
        ("batch", "none", 4),
        ("batch", "gzip", 1),
        ("damage", "garbage", 1),
    ]


@pytest.mark.parametrize("size", [0, 1 << 40])
def test_as_many_batches_of_one_kind_as_of_another(
    size: int, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the log counts as large or as small."""
    monkeypatch.setattr(input_size, "LARGE", size)
    codecs = ["zstd", "none", "none", "lz4", "gzip", "gzip"]
    log.add(0, *(batch([commit(at, "g")], codec=codec) for at, codec in enumerate(codecs)))
    log.add(6, message_set([commit(6, "g")], magic=0, codec="lz4"))
    decoding = decode(log.segments(), Selection(), with_batches=True)
    counts = count_records(decoding).data
    assert [(count.name, count.version) for count in counts if count.by == "batch"] == [
        ("gzip", 2),
        ("none", 2),
        ("lz4", 0),
        ("lz4", 2),
        ("zstd", 2),
    ]


def test_whatever_compiles_first_says_so(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def load(on_compile: Callable[[], None] | None = None) -> compiled.Functions:
        assert on_compile is not None
        on_compile()
        return loaded

    loaded = compiled.load()
    monkeypatch.setattr(compiled, "load", load)
    monkeypatch.setattr(input_size, "LARGE", 0)
    log.add(0, batch([commit(0, "g")]))
    decoding = decode(
        log.segments(), Selection(), with_batches=True, on_compile=lambda: said.append("compiling")
    )
    assert len(count_records(decoding).data) == 3
    assert set(said) == {"compiling"}


def test_counts_of_many_rows_add_up_over_batches(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SIZES, "plain_rows", 1000)
    count = 4000
    log.add(
        0,
        *(
            batch([commit(n, f"g{n % 7}") for n in range(at, at + 100)])
            for at in range(0, count, 100)
        ),
    )
    decoding = decode(log.segments(), Selection(), with_batches=True)
    counts = count_records(decoding).data
    assert counts[0] == Count("type", "OffsetCommit", 3, count, count * (KEY + 1 + VALUE))
    groups = {found.name: found.count for found in counts if found.by == "group"}
    assert groups == {f"g{n}": len(range(n, count, 7)) for n in range(7)}


COMPACTED = sorted(
    folder
    for folder in ROOT.glob("tests/data/compacted-*/__consumer_offsets-*")
    if any(folder.glob("*.log.deleted"))
)
"""Beside the segment that the cleaner wrote: those that it read, renamed to `.log.deleted`."""


def kept_by_the_cleaner(segment: Path) -> list[int]:
    """Offsets of the records in a compacted segment, without markers."""
    return [
        record.offset
        for found in read_batches(segment.read_bytes())
        if isinstance(found, RecordBatch) and not found.is_control
        for record in read_records(found)
        if isinstance(record, Record)
    ]


@pytest.mark.parametrize(
    "folder", COMPACTED, ids=lambda path: f"{path.parent.name}-{path.name[-1]}"
)
def test_latest_is_what_the_cleaner_keeps(folder: Path, tmp_path: Path) -> None:
    before = tmp_path / folder.name
    before.mkdir()
    for segment in folder.glob("*.log.deleted"):
        shutil.copy(segment, before / segment.name.removesuffix(".deleted"))
    latest = offsets(decode(find_segments([tmp_path]), Selection(), last_only=True))
    everything = decode(find_segments([tmp_path]), Selection())
    compacted = kept_by_the_cleaner(min(folder.glob("*.log")))
    assert latest == compacted
    assert 5 < len(latest) < sum(everything.map(len))


def test_there_is_something_to_compare_with() -> None:
    assert len(COMPACTED) >= 4
