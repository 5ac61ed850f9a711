"""Commits of transactions whose markers come with later builds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kgroup.protocol.record.coordinator_record import encode_key, encode_value
from tests.columnar.log_writer import TRANSACTIONAL, Plain, batch, marker
from tests.history.builds import build
from tests.history.table_oracle import read_tables


def committed(offset: int, producer_id: int) -> bytes:
    """A batch of a transaction that commits an offset, the same as its own."""
    value = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1}
    key = {"group": "g", "topic": "t", "partition": 0}
    record = Plain(
        offset, 1000, encode_key("OffsetCommit", key), encode_value("OffsetCommit", 3, value)
    )
    return batch(
        [record],
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        flags=TRANSACTIONAL,
    )


def grown(root: Path, more: Mapping[int, bytes]) -> dict[tuple[int, int], str]:
    """Let the logs of partitions grow, and build; give what became of each commit."""
    for partition, data in more.items():
        folder = root / "log" / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{0:020}.log").open("ab") as file:
            file.write(data)
    build(root / "w", root / "log")
    return statuses(root / "w")


def statuses(warehouse: Path) -> dict[tuple[int, int], str]:
    """Return what became of each commit; each is there once."""
    rows = read_tables(warehouse, "c")["offset_commits"]
    found = {(row["offsets_partition"], row["log_offset"]): row["transaction"] for row in rows}
    assert len(found) == len(rows)
    return found


def seen(root: Path, *segments: tuple[int, bytes]) -> dict[int, str]:
    """Build from a replica of partition 2 that has no more than these; tell what became of them."""
    number = len(list(root.glob("log-*")))
    folder = root / f"log-{number}" / "__consumer_offsets-2"
    folder.mkdir(parents=True)
    for base, data in segments:
        (folder / f"{base:020}.log").write_bytes(data)
    build(root / "w", folder)
    return {offset: status for (_, offset), status in statuses(root / "w").items()}


def test_markers_of_later_builds_settle(tmp_path: Path) -> None:
    first = {2: committed(0, 1) + committed(1, 5), 3: committed(0, 1)}
    assert set(grown(tmp_path, first).values()) == {"open"}
    # of one producer, and in one of the two partitions that it wrote into
    found = grown(tmp_path, {3: marker(1, 1, 1)})
    assert found == {(2, 0): "open", (2, 1): "open", (3, 0): "committed"}
    found = grown(tmp_path, {2: marker(2, 1, 1) + committed(3, 1)})
    assert found == {(2, 0): "committed", (2, 1): "open", (2, 3): "open", (3, 0): "committed"}
    found = grown(tmp_path, {2: marker(4, 5, 0) + marker(5, 1, 0)})
    assert found == {(2, 0): "committed", (2, 1): "aborted", (2, 3): "aborted", (3, 0): "committed"}


def test_markers_of_other_splits_settle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by other tasks of one build; what came behind a marker is not its."""
    monkeypatch.setattr("kgroup.history.build.build.TASK_BYTES", 1)
    assert seen(
        tmp_path, (0, committed(0, 1)), (1, marker(1, 1, 1)), (2, committed(2, 1) + marker(3, 9, 0))
    ) == {0: "committed", 2: "open"}


def test_records_may_come_behind_their_markers(tmp_path: Path) -> None:
    """From another replica, say."""
    assert seen(tmp_path, (0, committed(0, 1)), (1, marker(1, 1, 0))) == {0: "aborted"}
    seen(tmp_path, (4, marker(4, 1, 1)))
    found = seen(tmp_path, (2, committed(2, 1) + committed(3, 5)))
    assert found == {0: "aborted", 2: "committed", 3: "open"}


def test_markers_may_come_behind_later_records(tmp_path: Path) -> None:
    assert seen(tmp_path, (0, committed(0, 1))) == {0: "open"}
    assert seen(tmp_path, (9, committed(9, 5))) == {0: "open", 9: "open"}
    assert seen(tmp_path, (5, marker(5, 1, 1))) == {0: "committed", 9: "open"}


def test_markers_of_others_settle_nothing(tmp_path: Path) -> None:
    """And nothing is lost that they do not settle."""
    assert seen(tmp_path, (0, committed(0, 1))) == {0: "open"}
    found = seen(tmp_path, (1, committed(1, 5) + marker(2, 7, 1) + marker(3, -1, 1)))
    assert found == {0: "open", 1: "open"}
    assert seen(tmp_path, (4, marker(4, 1, 1))) == {0: "committed", 1: "open"}


def test_producers_are_told_apart_to_the_last_bit(tmp_path: Path) -> None:
    """Also beside a marker of no producer, whose null must not make fractions of the numbers."""
    large = 1 << 53
    assert seen(tmp_path, (0, committed(0, large))) == {0: "open"}
    assert seen(tmp_path, (1, marker(1, large + 1, 0) + marker(2, -1, 0))) == {0: "open"}
    assert seen(tmp_path, (3, marker(3, large, 1))) == {0: "committed"}
