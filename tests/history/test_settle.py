"""Commits of transactions whose markers come with later builds."""

from collections.abc import Mapping
from pathlib import Path

from kgroup.protocol.coordinator_record import encode_key, encode_value
from tests.history.table_oracle import read_tables
from tests.history.test_build import build
from tests.protocol.log_writer import TRANSACTIONAL, Plain, batch, marker


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
    """Let the logs of partitions grow, and build; give the fate of each commit."""
    for partition, data in more.items():
        folder = root / "log" / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{0:020}.log").open("ab") as file:
            file.write(data)
    build(root / "w", root / "log")
    rows = read_tables(root / "w", "c")["offset_commits"]
    return {(row["offsets_partition"], row["log_offset"]): row["transaction"] for row in rows}


def test_markers_of_later_builds_settle(tmp_path: Path) -> None:
    first = {2: committed(0, 1) + committed(1, 5), 3: committed(0, 1)}
    assert set(grown(tmp_path, first).values()) == {"open"}
    # of one producer, and in one of the two partitions that it wrote into
    found = grown(tmp_path, {3: marker(1, 1, 1)})
    assert found == {(2, 0): "open", (2, 1): "open", (3, 0): "committed"}
    found = grown(tmp_path, {2: marker(2, 1, 1) + committed(3, 1)})
    assert found == {(2, 0): "committed", (2, 1): "open", (2, 3): "open", (3, 0): "committed"}
    found = grown(tmp_path, {2: marker(4, 5, 0) + marker(5, 1, 0)})
    assert found == {
        (2, 0): "committed",
        (2, 1): "aborted",
        (2, 3): "aborted",
        (3, 0): "committed",
    }
