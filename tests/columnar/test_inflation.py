"""What becomes much larger when it is decompressed is read up to a sum, in the log's order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kgroup.columnar.batch_scan import scan_batches
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.segment import decode_chunks
from kgroup.protocol.batch import batch as protocol_batch
from kgroup.protocol.batch.batch import Damage
from tests.columnar.log_writer import CONTROL, TRANSACTIONAL, Plain, batch, compress, message
from tests.fuzz.check import check
from tests.operation.log_files import commit


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_records_that_grow_beyond_measure_are_read_up_to_a_sum(
    compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the log, whichever batches are read at once."""
    monkeypatch.setattr(protocol_batch, "MOST_INFLATED", 60_000)
    monkeypatch.setattr(SIZES, "sound", (0, 0))
    bomb = batch([commit(0, "g", metadata="m" * 32_000)], codec="zstd")
    sound = batch([commit(1, "g", metadata="".join(map(chr, range(32, 120))))], codec="zstd")
    assert 100 * len(bomb) < 32_000
    path = tmp_path / "log"
    for between in (1, 40):
        few = bomb + sound * between
        path.write_bytes(few * 5)
        for piece in (64, 1 << 19):
            monkeypatch.setattr(SIZES, "piece", piece)
            parts = list(decode_chunks(path, compiled=compiled))
            damages = [part for part in parts if isinstance(part, Damage)]
            assert [(damage.kind, damage.position) for damage in damages] == [
                ("too-large", number * len(few)) for number in (2, 3, 4)
            ]
            rows = [part["offset"].to_pylist() for part in parts if not isinstance(part, Damage)]
            offsets = [offset for row in rows for offset in row]
            assert offsets == [0, *[1] * between] * 2 + [1] * 3 * between


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_that_grow_beyond_measure(
    magic: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read one by one; after the sum what else is wrong with them is not looked at."""
    monkeypatch.setattr(protocol_batch, "MOST_INFLATED", 3 << 16)
    bomb = message(7, None, compress("lz4", bytes(1 << 16)), magic=magic, attributes=3)
    path = tmp_path / "log"
    path.write_bytes(bomb * 7)
    for compiled in (False, True):
        damages = list(decode_chunks(path, compiled=compiled))
        assert [damage.kind for damage in damages if isinstance(damage, Damage)] == [
            *["bad-record"] * 3,
            *["too-large"] * 4,
        ]
    for seed in range(4):
        check(bomb * 7, tmp_path, Random(seed))


def test_markers_that_grow_beyond_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan reads control batches only, and counts what it does not read into."""
    monkeypatch.setattr(protocol_batch, "MOST_INFLATED", 60_000)
    end = Plain(0, 5, b"\0\0\0\1", bytes(40_000))
    ends = [
        batch([end], codec="zstd", producer_id=number, flags=TRANSACTIONAL | CONTROL)
        for number in range(4)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(ends) + batch([commit(1, "g", metadata="m" * 32_000)], codec="zstd"))
    for compiled in (False, True):
        scans = list(scan_batches(path, compiled=compiled))
        markers = [marker.producer_id for scan in scans for marker in scan.markers]
        assert markers == [0, 1]
        assert sum(count for scan in scans for count in scan.batches.values()) == 5
