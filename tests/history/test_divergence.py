"""Copies of a partition that contradict each other: leader epochs, and timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.warehouse import read_warehouse
from kgroup.protocol.batch.batch import RecordBatch
from tests.history.builds import SAMPLE, build
from tests.history.log_copy import read_log, write_log

BATCHES = read_log(SAMPLE)[2]


def of_epoch(batches: Iterable[RecordBatch], epoch: int) -> list[RecordBatch]:
    """Give batches another leader epoch; their checksum does not cover it."""
    found = []
    for batch in batches:
        data = bytearray(batch.data)
        data[12:16] = epoch.to_bytes(4, "big")
        found.append(replace(batch, data=memoryview(bytes(data))))
    return found


def copy(folder: Path, *parts: Sequence[RecordBatch]) -> str:
    """Write a copy of partition 2; give the path of its segment."""
    write_log(folder, {2: [batch for part in parts for batch in part]})
    return str(folder / "__consumer_offsets-2" / f"{0:020}.log")


def epochs_in(root: Path) -> dict[int, int]:
    """Give the leader epoch of each record in the tables, by offset."""
    tables = ("offset_commits", "group_generations", "consumer_group_epochs", "tombstones")
    sql = " UNION ALL ".join(f"SELECT log_offset, log_leader_epoch FROM {name}" for name in tables)
    with read_warehouse(root) as warehouse, DuckEngine(warehouse.files()) as engine:
        rows = engine.query(sql).to_pylist()
    return {row["log_offset"]: row["log_leader_epoch"] for row in rows}


def damage(root: Path) -> list[tuple[str, str, int, int]]:
    with read_warehouse(root) as warehouse, DuckEngine(warehouse.files()) as engine:
        rows = engine.query("SELECT kind, path, first_offset, last_offset FROM damage ORDER BY 2")
    return [tuple(row.values()) for row in rows.to_pylist()]


def test_a_diverging_tail_is_reported_and_not_taken(tmp_path: Path) -> None:
    """It ends after the other copy, which has these offsets later: no record of it is lost."""
    common, own, tail = BATCHES[:10], BATCHES[10:14], BATCHES[10:20]
    root = tmp_path / "w"
    leader = copy(tmp_path / "leader", of_epoch(common, 4), of_epoch(own, 5))
    follower = copy(tmp_path / "follower", of_epoch(common, 4), of_epoch(tail, 4))
    build(root, tmp_path / "leader")
    report = build(root, tmp_path / "follower")
    start = own[0].base_offset
    assert damage(root) == [("diverging", follower, start, tail[-1].last_offset)]
    (error,) = report.errors
    for text in (leader, f"leader epoch 5 from offset {start}", "epoch 4", "not in the tables"):
        assert text in error.reason
    assert error.path == follower
    copy(tmp_path / "leader", of_epoch(common, 4), of_epoch(BATCHES[10:], 5))
    assert not build(root, tmp_path / "leader").errors
    found = epochs_in(root)
    assert sorted(found) == list(range(BATCHES[-1].last_offset + 1))
    assert {offset for offset, epoch in found.items() if epoch == 4} == set(range(start or 0))
    copy(tmp_path / "follower", of_epoch(common, 4), of_epoch(BATCHES[10:], 5))
    build(root, tmp_path / "follower")  # truncated, and fetched again
    assert damage(root) == []


def test_a_newer_epoch_at_known_offsets_is_reported(tmp_path: Path) -> None:
    """The records that were read first are in the tables: the row stays."""
    root = tmp_path / "w"
    common, tail = BATCHES[:10], BATCHES[10:14]
    follower = copy(tmp_path / "follower", of_epoch(common, 4), of_epoch(tail, 4))
    leader = copy(tmp_path / "leader", of_epoch(common, 4), of_epoch(BATCHES[10:], 5))
    build(root, tmp_path / "follower")
    report = build(root, tmp_path / "leader")
    row = ("diverging", leader, tail[0].base_offset, tail[-1].last_offset)
    assert damage(root) == [row]
    assert follower in report.errors[0].reason
    assert report.errors[0].reason.endswith("build another warehouse, first from this copy alone.")
    for _ in range(2):
        build(root, tmp_path / "leader", tmp_path / "follower")
        assert damage(root) == [row]


def test_a_known_segment_with_another_epoch_is_read(tmp_path: Path) -> None:
    """All its offsets are known, so else it would be passed over."""
    root = tmp_path / "w"
    folder = tmp_path / "other" / "__consumer_offsets-2"
    build(root, Path(copy(tmp_path / "one", of_epoch(BATCHES, 5))).parents[1])
    copy(tmp_path / "other", of_epoch(BATCHES[:10], 4))
    end = BATCHES[10].base_offset
    (folder / f"{end:020}.log").write_bytes(b"")
    (report,) = build(root, tmp_path / "other").data
    assert report.segments_read == 1
    assert [row[0] for row in damage(root)] == ["diverging"]


@pytest.mark.parametrize("number", [2, 6])
def test_logs_of_two_clusters_are_noticed_by_timestamps(tmp_path: Path, number: int) -> None:
    """Their leader epochs are the same, and none has topic ids."""
    log = read_log(SAMPLE)
    other = [batch for batch in log[6 if number == 2 else 2] if batch.magic == 2]
    root = tmp_path / "w"
    write_log(tmp_path / "one", {2: log[number]})
    write_log(tmp_path / "other", {2: other})
    build(root, tmp_path / "one")
    report = build(root, tmp_path / "other")
    assert [error.kind for error in report.errors] == ["diverging"]
    assert "different logs" in report.errors[0].reason


def test_copies_of_one_log_do_not_diverge(tmp_path: Path) -> None:
    root = tmp_path / "w"
    parts = of_epoch(BATCHES[:5], 0), of_epoch(BATCHES[5:12], 3), of_epoch(BATCHES[12:], 7)
    copy(tmp_path / "one", *parts)
    copy(tmp_path / "compacted", parts[0], parts[1][::2], parts[2][1::2])
    copy(tmp_path / "behind", parts[0], parts[1][:3])
    for order in (("compacted", "behind", "one"), ("one", "compacted", "behind")):
        for name in order:
            assert not build(root, tmp_path / name).errors
    assert damage(root) == []
