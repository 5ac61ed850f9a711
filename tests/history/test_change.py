"""What a build remembers of what it has read, and from where it reads on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgroup.history import live_source
from kgroup.history.build import Build
from kgroup.history.coverage import Coverage
from kgroup.history.live_source import LiveSource
from kgroup.history.place import OffsetRange
from kgroup.history.task import SplitRead, TaskResult
from kgroup.history.warehouse import ClusterState, PartitionState, read_warehouse, write_warehouse
from kgroup.source.client_config import client_config

CONFIG = client_config(environment={}, bootstrap_server="127.0.0.1:9")


class Leader:
    """Does the tasks of a live topic: reads nothing, and notes what it should have read."""

    def __init__(self, *refused: int) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self._refused = refused

    def __call__(self, function: Callable[[Any], Any], jobs: Sequence[Any], /) -> Iterator[Any]:
        for job in reversed(jobs):  # results may come in any order
            if not isinstance(job.works[0].split.place, OffsetRange):
                continue
            reads = []
            for work in job.works:
                place = work.split.place
                self.asked.append((work.split.offsets_partition, place.start, place.end))
                error = "there is no leader" if place.start in self._refused else None
                reads.append(SplitRead(work, Coverage(), (), error=error))
            yield TaskResult(job.cluster, (), tuple(reads), {})


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
