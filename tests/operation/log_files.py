"""Segments of `__consumer_offsets` for tests, written from the layouts alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from kgroup.model.segment import Segment
from kgroup.source.log.segment_file import find_segments
from tests.columnar.log_writer import TRANSACTIONAL, Plain, batch, marker
from tests.fresh_file import write_fresh


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def commit_key(group: str, topic: str = "t", partition: int = 0) -> bytes:
    """Type 1, group, topic, partition."""
    return struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)


def commit(
    offset: int,
    group: str,
    topic: str = "t",
    partition: int = 0,
    *,
    committed: int = 0,
    metadata: str = "",
    time_ms: int = -1,
) -> Plain:
    """A commit in value version 3: offset, leader epoch, metadata, time."""
    value = struct.pack(">hqi", 3, committed, -1) + text(metadata) + struct.pack(">q", time_ms)
    return Plain(offset, time_ms, commit_key(group, topic, partition), value)


def tombstone(
    offset: int, group: str, topic: str = "t", partition: int = 0, *, time_ms: int = -1
) -> Plain:
    return Plain(offset, time_ms, commit_key(group, topic, partition), None)


def group_metadata(offset: int, group: str, *, generation: int, time_ms: int = -1) -> Plain:
    """Value version 0: protocol type, generation, no protocol, no leader, no members."""
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">ihhi", generation, -1, -1, 0)
    return Plain(offset, time_ms, struct.pack(">h", 2) + text(group), value)


class Log:
    """A folder that segments are added to."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, base_offset: int, *batches: bytes, partition: int | None = 0) -> Path:
        """Write a segment; without a partition in a folder of another name."""
        name = "copies" if partition is None else f"__consumer_offsets-{partition}"
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        path = folder / f"{base_offset:020}.log"
        write_fresh(path, b"".join(batches))
        return path

    def segments(self) -> list[Segment]:
        copies = self.root / "copies"
        return find_segments([copies if copies.exists() else self.root])


def transaction(records: Sequence[Plain], producer_id: int) -> bytes:
    return batch(records, producer_id=producer_id, producer_epoch=0, flags=TRANSACTIONAL)


def end(offset: int, producer_id: int, *, commits: bool) -> bytes:
    """A marker; its time is 1000 ms."""
    return marker(offset, producer_id, 1 if commits else 0)
