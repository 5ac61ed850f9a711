"""Groups come out the same, whichever way a log is replayed.

Every record, as a coordinator does that loads a log which no compaction has touched; the last
record of each key, in one pass; and those found and decoded by compiled code.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar.chunk_size import SIZES
from kgroup.model.delta import Delta
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.segment import Segment
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import read_segment, replay_groups
from tests.columnar.log_writer import Plain, batch
from tests.columnar.random_log import logs
from tests.examples import examples, some_of
from tests.fresh_file import write_fresh
from tests.operation.log_files import (
    Log,
    commit,
    commit_key,
    end,
    group_metadata,
    tombstone,
    transaction,
)
from tests.source.scenarios import SCENARIOS, scenario

DATA = Path(__file__).parents[1] / "data"
DAMAGED = sorted(path for path in (DATA / "damaged").rglob("*.log"))


def every_record(segments: list[Segment]) -> Delta:
    delta = Delta(0)
    for segment in segments:
        for record in read_segment(segment, ProblemLog()):
            delta.replay(record)
    return delta


def last_records(
    segments: list[Segment], *, compiled: bool
) -> tuple[Delta, tuple[Problem, ...], tuple[Problem, ...]]:
    delta, damage = Delta(0), ProblemLog()
    replay_groups(segments, delta, damage, compiled=compiled)
    return delta, delta.problems(), tuple(sorted(damage.problems(), key=repr))


def assert_same(segments: list[Segment]) -> Delta:
    """Compare the two ways of replaying last records; give what they give."""
    small, *troubles = last_records(segments, compiled=False)
    large, *other_troubles = last_records(segments, compiled=True)
    assert large.groups() == small.groups()
    assert large.topic_names == small.topic_names
    assert other_troubles == troubles
    return small


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(SCENARIOS, 3))
def test_recorded_logs(name: str) -> None:
    by_partition: dict[tuple[int | None, Path], list[Segment]] = {}
    for segment in find_segments([scenario(name).log_dir]):
        if segment.is_loaded:
            place = (segment.partition, segment.path.parent)
            by_partition.setdefault(place, []).append(segment)
    for segments in by_partition.values():
        whole = every_record(segments)
        assert assert_same(segments).groups(whole.topic_names) == whole.groups()


@pytest.mark.slow
@pytest.mark.parametrize("path", some_of(DAMAGED, 6), ids=lambda path: path.parent.parent.name)
def test_damaged_logs(path: Path) -> None:
    assert_same(find_segments([path]))


@settings(max_examples=examples(12))
@given(log=logs(), size=st.integers(200, 3000))
def test_any_log(log: bytes, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "__consumer_offsets-0"
    folder.mkdir(exist_ok=True)
    path = folder / f"{0:020}.log"
    write_fresh(path, log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SIZES, "chunk", size)
        assert_same(find_segments([path]))


changes = st.tuples(
    st.sampled_from(["commit", "commit", "remove", "group", "no group", "begin", "end"]),
    st.sampled_from(["a", "b"]),  # the group
    st.integers(0, 1),  # its partition, or the producer
    st.booleans(),  # whether the transaction commits
)


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(events=st.lists(changes, max_size=40))
def test_any_course_of_events(
    events: list[tuple[str, str, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Commits, their tombstones, transactions and classic groups as brokers may write them."""
    batches = []
    for offset, (what, group, number, commits) in enumerate(events):
        if what == "end":
            batches.append(end(offset, number, commits=commits))
        elif what == "begin":
            batches.append(transaction([commit(offset, group, committed=offset)], number))
        elif what == "commit":
            batches.append(batch([commit(offset, group, partition=number, committed=offset)]))
        elif what == "remove":
            batches.append(batch([tombstone(offset, group, partition=number)]))
        else:
            written = group_metadata(offset, group, generation=offset)
            value = written.value if what == "group" else None
            batches.append(batch([Plain(offset, -1, written.key, value)]))
    root = tmp_path_factory.getbasetemp() / "course"
    root.mkdir(exist_ok=True)
    log = Log(root)
    log.add(0, *batches)
    segments = log.segments()
    assert assert_same(segments).groups() == every_record(segments).groups()


def test_what_an_open_transaction_committed_ends_with_its_key(tmp_path: Path) -> None:
    """The tombstone comes between, and a later commit takes its place as the last of the key."""
    log = Log(tmp_path)
    log.add(
        0,
        transaction([commit(0, "g", committed=1), commit(1, "g", partition=1, committed=2)], 7),
        batch([tombstone(2, "g")]),
        batch([commit(3, "g", committed=3)]),
    )
    group = assert_same(log.segments()).groups()["g"]
    assert [(o.partition, o.committed_offset) for o in group.offsets] == [(0, 3)]
    assert [(o.partition, o.committed_offset) for o in group.pending_offsets] == [(1, 2)]


def test_a_topic_id_of_zeros_is_none(tmp_path: Path) -> None:
    """Value version 4: offset, leader epoch, metadata (compact), time, tag 0 of 16 bytes."""
    value = struct.pack(">hqi", 4, 7, -1) + b"\1" + bytes(8) + b"\1\0\x10" + bytes(16)
    log = Log(tmp_path)
    log.add(0, batch([Plain(0, -1, commit_key("g"), value)]))
    delta = assert_same(log.segments())
    assert [offset.topic_id for offset in delta.groups()["g"].offsets] == [None]
    assert delta.topic_names == {}


def test_records_without_a_key_are_counted(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.add(0, batch([commit(0, "g"), Plain(1, 0, None, b"x"), Plain(2, 0, None, None)]))
    for compiled in (False, True):
        _, _, (problem,) = last_records(log.segments(), compiled=compiled)
        assert (problem.kind, problem.offsets_partition) == ("unknown-record", 0)
        assert problem.reason == "2 records without a key left out."


def test_how_far_it_has_come(tmp_path: Path) -> None:
    log = Log(tmp_path)
    path = log.add(0, batch([commit(0, "g")]), batch([commit(1, "h")]))
    told: list[int] = []
    segments = log.segments()
    replay_groups(segments, Delta(0), ProblemLog(), compiled=True, on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == path.stat().st_size
