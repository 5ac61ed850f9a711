"""Scanning batches with compiled code gives what the reference reader gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.columnar.batch_scan import scan_transactions
from kgroup.columnar.scan import BatchKind, Marker
from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from tests.columnar.equality import scanned
from tests.columnar.log_writer import batch
from tests.examples import some_of
from tests.operation.log_files import commit, end, transaction

FILES = sorted(
    path for path in (Path(__file__).parents[1] / "data").rglob("*.log*") if path.is_file()
)


@pytest.mark.slow
def test_recorded_and_damaged_files() -> None:
    markers = 0
    for path in some_of(FILES, 3):
        scan = scanned(path, compiled=True)
        assert scan == scanned(path, compiled=False), path
        batches = [b for b in read_batches(path.read_bytes()) if isinstance(b, RecordBatch)]
        assert sum(scan.batches.values()) == len(batches)
        assert sum(scan.bytes.values()) == sum(b.size for b in batches)
        assert len(scan.markers) == sum(b.is_control and b.record_count == 1 for b in batches)
        markers += len(scan.markers)
    assert markers > 20


@pytest.mark.parametrize("compiled", [False, True])
def test_kinds_and_markers(compiled: bool, tmp_path: Path) -> None:
    path = tmp_path / "log"
    plain, packed = batch([commit(0, "g")]), batch([commit(1, "g")], codec="zstd")
    inside = transaction([commit(2, "g")], 7)
    path.write_bytes(plain + packed + inside + end(3, 7, commits=True) + end(4, 8, commits=False))
    scan = scanned(path, compiled=compiled)
    assert scan.batches == {("none", 2): 4, ("zstd", 2): 1}
    assert scan.bytes[BatchKind("zstd", 2)] == len(packed)
    assert scan.markers == [Marker(7, 3, True, 3, 1000), Marker(8, 4, False, 4, 1000)]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_batch_without_an_offset_does_not_count(compiled: bool, tmp_path: Path) -> None:
    """Its checksum is right: that is of what follows."""
    sound = batch([commit(0, "g")])
    path = tmp_path / "log"
    path.write_bytes(sound + b"\x80" + sound[1:] + sound)
    assert scanned(path, compiled=compiled).batches == {("none", 2): 2}


@pytest.mark.parametrize("compiled", [False, True])
def test_only_some_markers_count(compiled: bool, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        transaction([commit(0, "g")], 7)
        + transaction([commit(1, "g")], 8)
        + end(2, 7, commits=True)
        + end(3, 8, commits=True)
    )
    index = scan_transactions([path], counts=lambda m: m.offset < 3, compiled=compiled)
    assert [index.status(7, 0), index.status(8, 1)] == ["committed", "open"]
