"""Small segments that are read together give what each gives that is read alone."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar import log_reader
from kgroup.columnar.log_reader import FileLogs, LogReader, logs_of
from kgroup.columnar.scan import BatchKind
from kgroup.columnar.small_segment import stretches
from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.model.segment import Segment
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.source.log.segment_file import find_segments
from tests.columnar.log_writer import TRANSACTIONAL, Plain, batch, marker
from tests.columnar.random_log import logs
from tests.examples import examples, some_of
from tests.operation.log_files import commit
from tests.source.scenarios import SCENARIOS, scenario

_Answer = tuple[list[dict[str, object]], tuple[Problem, ...], list[tuple[BatchKind, int, int]]]


def segments_of(folder: Path, files: list[bytes]) -> list[Segment]:
    """Write the segments of a partition, and find them."""
    root = folder / "__consumer_offsets-0"
    root.mkdir()
    for number, data in enumerate(files):
        (root / f"{number:020}.log").write_bytes(data)
    return find_segments([folder])


def read(segments: list[Segment], *, compiled: bool | None, last_only: bool = False) -> _Answer:
    log = LogReader(
        FileLogs(logs_of(segments)),
        compiled=compiled,
        last_only=last_only,
        for_replay=last_only,
        with_batches=True,
    )
    rows = [row for rows in log.map(pa.RecordBatch.to_pylist) for row in rows]
    assert log.files_read == len(segments)
    problems = sorted(log.problems, key=lambda problem: (problem.path or "", problem.position or 0))
    return rows, tuple(problems), log.batch_counts()


def assert_same(segments: list[Segment]) -> None:
    for last_only in (False, True):
        alone = read(segments, compiled=False, last_only=last_only)
        assert read(segments, compiled=True, last_only=last_only) == alone
        assert read(segments, compiled=None, last_only=last_only) == alone


def commits(first: int, count: int = 3) -> bytes:
    return batch([commit(first + n, f"g-{n}", committed=first) for n in range(count)])


SOUND = [commits(10 * n) for n in range(20)]


def together(segments: list[Segment]) -> list[int]:
    """Count the segments of each stretch."""
    with ExitStack() as stack:
        return [len(part.segments) for part in stretches(segments, stack, compiled=True)]


def test_sound_neighbours_are_read_together(tmp_path: Path) -> None:
    segments = segments_of(tmp_path, [*SOUND, b"", *SOUND])
    size = len(SOUND[0])

    def damage(position: int, size: int) -> Damage:
        return Damage(position, size, ProblemKind.BAD_RECORD, "Why.")

    with ExitStack() as stack:
        (part,) = stretches(segments, stack, compiled=True)
        assert part.path.read_bytes() == b"".join(SOUND) * 2
        assert part.place(damage(0, 9)) == (segments[0], 0)
        assert part.place(damage(size + 5, 1)) == (segments[1], 5)
        assert part.place(damage(size, 0)) == (segments[0], size)
        assert part.place(damage(20 * size, 9)) == (segments[21], 0), "the one before is empty"
    assert not part.path.parent.exists()
    assert_same(segments)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(SOUND[0][:-1], [2, 1, 2], id="cut off"),
        pytest.param(SOUND[0] + bytes(100), [2, 1, 2], id="zeros at the end"),
        pytest.param(batch([commit(1, "g")], codec="gzip"), [2, 1, 2], id="compressed"),
        pytest.param(bytes(2 << 20), [2, 1, 2], id="large"),
        pytest.param(SOUND[0][:-1] + b"\xff", [1, 1, 1, 1, 1], id="wrong checksum"),
    ],
)
def test_others_are_read_alone(tmp_path: Path, other: bytes, expected: list[int]) -> None:
    segments = segments_of(tmp_path, [*SOUND[:2], other, *SOUND[2:4]])
    assert together(segments) == expected
    assert_same(segments)


def test_a_stretch_has_four_mebibytes_at_most(tmp_path: Path) -> None:
    data = commits(0, 20_000)
    assert 4 * len(data) < 4 << 20 < 5 * len(data)
    assert together(segments_of(tmp_path, [data] * 7)) == [4, 3]


@pytest.mark.parametrize(
    ("count", "compiled", "expected"),
    [(15, None, 15 * [1]), (16, None, [16]), (16, False, 16 * [1]), (2, True, [2])],
)
def test_few_bytes_are_put_together_where_they_are_many_files(
    tmp_path: Path, count: int, compiled: bool | None, expected: list[int]
) -> None:
    segments = segments_of(tmp_path, SOUND[:count])
    with ExitStack() as stack:
        parts = stretches(segments, stack, compiled=compiled)
        assert [len(part.segments) for part in parts] == expected
    assert_same(segments)


def test_a_batch_in_two_files_is_damage_in_both(tmp_path: Path) -> None:
    """Though it would be sound if they were one."""
    data = b"".join(SOUND)
    segments = segments_of(tmp_path, [data[:1000], data[1000:]])
    _, problems, _ = read(segments, compiled=True)
    assert {problem.path for problem in problems} == {str(segment.path) for segment in segments}
    assert_same(segments)


@pytest.mark.parametrize("count", [-1, 0, 2])
def test_damage_in_a_batch_is_told_of_its_file(tmp_path: Path, count: int) -> None:
    bad = batch([commit(5, "g")], count=count)
    segments = segments_of(tmp_path, [*SOUND[:2], SOUND[2] + bad, SOUND[3]])
    assert together(segments) == [4]
    _, (problem,), _ = read(segments, compiled=True)
    assert problem.kind is ProblemKind.BAD_RECORD
    assert problem.path == str(segments[2].path)
    assert problem.position is not None
    assert len(SOUND[2]) < problem.position <= len(SOUND[2] + bad)
    assert_same(segments)


def test_records_without_a_key_are_counted_for_each_file(tmp_path: Path) -> None:
    keyless = batch([Plain(1, -1, None, b"x"), Plain(2, -1, None, b"y")])
    segments = segments_of(tmp_path, [SOUND[0], keyless, SOUND[1], keyless])
    _, problems, _ = read(segments, compiled=True, last_only=True)
    expected = [(str(segments[n].path), "2 records without a key left out.") for n in (1, 3)]
    assert [(problem.path, problem.reason) for problem in problems] == expected
    assert_same(segments)


def test_a_transaction_ends_in_a_later_file(tmp_path: Path) -> None:
    opened = [
        batch([commit(n, "g")], producer_id=n, producer_epoch=0, flags=TRANSACTIONAL)
        for n in (1, 2, 3)
    ]
    files = [*opened, SOUND[1], marker(20, 1, 1), marker(21, 2, 0)]
    segments = segments_of(tmp_path, files)
    assert together(segments) == [6]
    rows, _, _ = read(segments, compiled=True)
    assert [row["transaction"] for row in rows[:3]] == ["committed", "aborted", "open"]
    assert_same(segments)


@pytest.mark.slow
@settings(max_examples=examples(10), deadline=None)
@given(st.data())
def test_any_segments(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Sound ones, damaged ones, and logs that are cut anywhere."""
    files = []
    for log in data.draw(st.lists(logs() | st.sampled_from(SOUND), min_size=1, max_size=8)):
        cuts = data.draw(st.lists(st.integers(0, len(log)), max_size=2) | st.just([]))
        files += [log[start:end] for start, end in pairwise([0, *sorted(cuts), len(log)])]
    assert_same(segments_of(tmp_path_factory.mktemp("log"), files))


@pytest.mark.parametrize("name", some_of(SCENARIOS, 3))
def test_recorded_logs_batch_by_batch(tmp_path: Path, name: str) -> None:
    """Each batch becomes a segment."""
    data = max((p.read_bytes() for p in scenario(name).log_dir.glob("__cons*/*.log")), key=len)
    batches = [item for item in read_batches(data) if isinstance(item, RecordBatch)]
    assert batches
    assert_same(segments_of(tmp_path, [bytes(item.data) for item in batches]))


def test_a_folder_is_listed_once_for_all_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    monkeypatch.setattr(log_reader, "newest_segment", lambda path: listed.append(path))
    segments = segments_of(tmp_path, [data + bytes(100) for data in SOUND])
    read(segments, compiled=False)
    assert listed == [segments[0].path.parent]
