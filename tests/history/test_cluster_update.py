"""What a build remembers of what it has read, and from where it reads on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgroup.history.build import cluster_update
from kgroup.history.build.build import Build
from kgroup.history.build.task import SplitRead, TaskResult
from kgroup.history.input import live_source
from kgroup.history.input.live_source import LiveSource
from kgroup.history.input.segment_source import SegmentSource
from kgroup.history.input.split import OffsetRange
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.state import ClusterState, PartitionState
from kgroup.history.warehouse.warehouse import read_warehouse, write_warehouse
from kgroup.protocol.batch.batch import RecordBatch
from kgroup.source.config.client_config import client_config
from tests.history.builds import SAMPLE, build
from tests.history.log_copy import read_log, write_log

CONFIG = client_config(environment={}, bootstrap_server="127.0.0.1:9")


class Leader:
    """Does the tasks of a live topic: reads nothing, and notes what it should have read."""

    def __init__(self, *refused: int) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self._refused = refused

    def __call__(self, function: Callable[[Any], Any], jobs: Sequence[Any], /) -> Iterator[Any]:
        for job in reversed(jobs):  # results may come in any order
            if not isinstance(job.works[0].split.location, OffsetRange):
                continue
            reads = []
            for work in job.works:
                place = work.split.location
                self.asked.append((work.split.offsets_partition, place.start, place.end))
                error = "there is no leader" if place.start in self._refused else None
                reads.append(SplitRead(work, Coverage(), (), error=error))
            yield TaskResult(job.cluster, (), tuple(reads), {}, {})


def read_live(
    root: Path, ranges: dict[int, tuple[int, int]], leader: Leader
) -> tuple[int, int, dict[int, int | None]]:
    """Build; give how many partitions were read and passed over, and how far each was read."""
    with write_warehouse(root) as writer:
        made = Build(writer, leader)
        made.read_live(LiveSource("c", ranges, {}, (), CONFIG))
        (row,) = made.commit().data
        states = writer.state("c").partitions
    ends = {number: state.live_end for number, state in states.items()}
    return row.segments_read, row.segments_skipped, ends


def test_a_live_partition_is_read_from_where_it_was_read_to(tmp_path: Path) -> None:
    """Compaction may have taken all records before that, so that no offset tells of it."""
    leader = Leader()
    assert read_live(tmp_path, {7: (5, 40)}, leader) == (1, 0, {7: 40})
    assert read_live(tmp_path, {7: (5, 40)}, leader) == (0, 1, {7: 40})
    assert read_live(tmp_path, {7: (5, 44), 8: (0, 9)}, leader) == (2, 0, {7: 44, 8: 9})
    assert read_live(tmp_path, {7: (60, 70)}, leader) == (1, 0, {7: 70, 8: 9})
    assert sorted(leader.asked) == [(7, 5, 40), (7, 40, 44), (7, 60, 70), (8, 0, 9)]


def test_what_is_behind_an_error_is_read_by_the_next_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_source.LiveSource.splits, "__defaults__", (None, None, 10))
    assert read_live(tmp_path, {7: (0, 40)}, Leader(20)) == (0, 0, {7: 20})
    leader = Leader()
    assert read_live(tmp_path, {7: (0, 40)}, leader) == (1, 0, {7: 40})
    assert sorted(leader.asked) == [(7, 20, 30), (7, 30, 40)]
    with read_warehouse(tmp_path) as warehouse:
        assert not warehouse.files()["damage"]


def test_nothing_is_remembered_of_a_live_partition_that_could_not_be_read(tmp_path: Path) -> None:
    assert read_live(tmp_path, {7: (0, 40)}, Leader(0)) == (0, 0, {})
    with read_warehouse(tmp_path) as warehouse:
        (file,) = warehouse.state("c").files
    assert (file.table, file.rows) == ("damage", 1)


def test_offsets_that_are_known_at_the_begin_are_not_read(tmp_path: Path) -> None:
    """From segments, say."""
    known = Coverage.of(np.array([*range(5, 25), *range(30, 40)], np.int64))
    with write_warehouse(tmp_path) as writer:
        writer.commit({"c": ClusterState((), {7: PartitionState.none()}, {})}, {("c", 7): known})
    leader = Leader()
    read_live(tmp_path, {7: (5, 50)}, leader)
    assert leader.asked == [(7, 25, 50)]


def bases_seen(root: Path) -> list[int | None]:
    with read_warehouse(root) as warehouse:
        return [seen.base_offset for seen in warehouse.state("c").partitions[2].seen]


def grow(root: Path, base: int, some: Sequence[RecordBatch]) -> int:
    """Let a segment grow, and build; give how many bytes were read."""
    folder = root / "log" / "__consumer_offsets-2"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{base:020}.log").open("ab") as file:
        file.writelines(bytes(batch.data) for batch in some)
    (row,) = build(root / "w", root / "log").data
    return row.bytes_read


def test_a_segment_whose_offsets_are_known_is_passed_over(tmp_path: Path) -> None:
    """Another broker's, which was compacted; the last one of a log may go on for ever."""
    batches = read_log(SAMPLE)[2]
    assert [batch.base_offset for batch in batches[:2]] == [0, batches[0].last_offset + 1]
    grow(tmp_path, 0, batches[:5])
    grow(tmp_path, batches[5].base_offset or 0, batches[5:7])
    folder = tmp_path / "other" / "__consumer_offsets-2"
    folder.mkdir(parents=True)
    for some in ((batches[0], *batches[2:5]), (batches[6],)):
        path = folder / f"{some[0].base_offset:020}.log"
        path.write_bytes(b"".join(bytes(batch.data) for batch in some))
    (row,) = build(tmp_path / "w", tmp_path / "other").data
    assert (row.segments_read, row.segments_skipped) == (1, 1)
    assert row.bytes_read == batches[6].size
    assert sum(table.new_row_count for table in row.tables) == 0


def test_copies_beside_a_segment_are_read_too(tmp_path: Path) -> None:
    """They have its base offset, and so the first of them ends where the next begins."""
    batches = read_log(SAMPLE)[2]
    folder = tmp_path / "log" / "__consumer_offsets-2"
    folder.mkdir(parents=True)
    paths = [folder / f"{0:020}.{end}" for end in ("backup", "log")]
    for path, some in zip(paths, (batches[:3], batches[3:5]), strict=True):
        path.write_bytes(b"".join(bytes(batch.data) for batch in some))
    (row,) = build(tmp_path / "w", *paths).data
    assert row.bytes_read == sum(batch.size for batch in batches[:5])
    with read_warehouse(tmp_path / "w") as warehouse:
        known = warehouse.coverage("c", 2)
    assert known.is_dense(0, batches[4].last_offset)


@pytest.mark.parametrize("size", [5_000, 8_192, 20_000])
def test_a_fingerprint_is_of_both_ends(tmp_path: Path, size: int) -> None:
    path = tmp_path / "segment"
    found = set()
    for changed in (None, 0, 4_095, size - 4_096, size - 1):
        data = bytearray(range(250)) * 100
        if changed is not None:
            data[changed] ^= 0xFF
        path.write_bytes(data)
        source = SegmentSource("c", 2, 0, str(path), len(data), "segment", "folder")
        found.add(cluster_update.fingerprint(source, size))
        path.write_bytes(data[:size])  # what follows is not part of it
        assert cluster_update.fingerprint(source, size) in found
    assert len(found) == len({None, 0, 4_095, size - 4_096, size - 1})


def test_a_segment_may_be_gone_when_it_has_been_read(tmp_path: Path) -> None:
    """Retention, or the cleaner, removes it; what was read of it counts."""
    write_log(tmp_path / "log", {2: read_log(SAMPLE)[2]})
    (path,) = (tmp_path / "log" / "__consumer_offsets-2").iterdir()

    def read_and_remove(function: Callable[[Any], Any], jobs: Sequence[Any], /) -> Iterator[Any]:
        found = [function(job) for job in jobs]
        path.unlink(missing_ok=True)
        yield from found

    report = build(tmp_path / "w", tmp_path / "log", run=read_and_remove)
    assert report.errors == ()
    assert report.data[0].segments_read == 1
    assert bases_seen(tmp_path / "w") == []
    with read_warehouse(tmp_path / "w") as warehouse:
        assert warehouse.coverage("c", 2)


def test_segments_that_were_read_first_are_forgotten_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_update, "MOST_SEEN", 3)
    batches = read_log(SAMPLE)[2]
    for number in (4, 2, 0, 6):  # what comes late is of another broker, say
        grow(tmp_path, batches[number].last_offset, batches[number : number + 1])
    expected = [batches[number].last_offset for number in (2, 0, 6)]
    assert bases_seen(tmp_path / "w") == expected
    grow(tmp_path, batches[4].last_offset, ())  # it is read again, and so it is the last
    assert bases_seen(tmp_path / "w") == [*expected[1:], batches[4].last_offset]


@pytest.mark.slow
def test_a_segment_that_grows_pushes_out_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_update, "MOST_SEEN", 4)
    batches = read_log(SAMPLE)[2]
    # With holes, as compaction leaves them: by their offsets alone they would be read again.
    for number in (0, 3):
        some = (batches[number], batches[number + 2])
        assert grow(tmp_path, batches[number].last_offset, some) == sum(each.size for each in some)
    base = batches[6].last_offset
    for batch in batches[6:14]:
        assert grow(tmp_path, base, (batch,)) == batch.size
    first, second = (batches[number].last_offset for number in (0, 3))
    assert bases_seen(tmp_path / "w") == [first, second, base, base]
