"""Ends of logs, on every recorded segment, against the reader of whole batches."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.source.log.segment_file import log_end
from tests.fresh_file import write_fresh
from tests.source.scenarios import SCENARIOS, scenario

SEGMENTS = sorted(
    path for name in SCENARIOS for path in scenario(name).log_dir.glob("*/[0-9]*.log")
)
OFFSETS = next(
    path for path in SEGMENTS if path.parent.name == "__consumer_offsets-0" and path.stat().st_size
)


def batches(data: bytes) -> list[RecordBatch]:
    return [batch for batch in read_batches(data) if isinstance(batch, RecordBatch)]


def test_every_recorded_segment() -> None:
    assert len(SEGMENTS) > 20
    for path in SEGMENTS:
        found = batches(path.read_bytes())
        expected = found[-1].last_offset + 1 if found else int(path.stem)
        assert log_end(path, int(path.stem)) == expected, path


def test_empty_segment_ends_where_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000042.log"
    path.write_bytes(b"")
    assert log_end(path, 42) == 42


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """What is cut off does not count, and nothing makes it fail."""
    data = OFFSETS.read_bytes()
    first, second = batches(data)[:2]
    path = tmp_path / OFFSETS.name
    for size in range(second.position + second.size):
        write_fresh(path, data[:size])
        assert log_end(path, 0) == (first.last_offset + 1 if size >= first.size else 0), size


def test_zeros_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / OFFSETS.name
    path.write_bytes(OFFSETS.read_bytes() + bytes(10_000))
    assert log_end(path, 0) == log_end(OFFSETS, 0)


@pytest.mark.parametrize("entries", [1, 2, 5])
@pytest.mark.parametrize("spare", [0, 1, 1000])
def test_index_says_where_to_begin(tmp_path: Path, entries: int, spare: int) -> None:
    """An active segment's index has room for more entries, all zeros."""
    data = OFFSETS.read_bytes()
    found = batches(data)
    indexed = found[-entries:]
    path = tmp_path / OFFSETS.name
    # Bytes before the first indexed batch are made unreadable, to see that they are not read.
    path.write_bytes(b"\xff" * indexed[0].position + data[indexed[0].position :])
    index = b"".join(pack(">ii", batch.last_offset, batch.position) for batch in indexed)
    path.with_suffix(".index").write_bytes(index + bytes(8 * spare))
    assert log_end(path, 0) == found[-1].last_offset + 1


def test_index_of_another_segment_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / OFFSETS.name
    path.write_bytes(OFFSETS.read_bytes())
    for entry in (pack(">ii", 3, 7), pack(">ii", 3, 1 << 30), b"\x00\x00\x01"):
        path.with_suffix(".index").write_bytes(entry)
        assert log_end(path, 0) == log_end(OFFSETS, 0)
