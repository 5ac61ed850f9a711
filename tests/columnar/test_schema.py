"""Rows by the reference decoder: given out in pieces, and alike for a whole batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.segment import decode_chunks
from kgroup.protocol.batch.batch import Damage
from tests.columnar.log_writer import (
    TRANSACTIONAL,
    Plain,
    batch,
    compress,
    marker,
    message,
    message_set,
)
from tests.operation.log_files import commit, commit_key


def parts_of(path: Path, *, compiled: bool) -> list[pa.RecordBatch]:
    parts = list(decode_chunks(path, compiled=compiled))
    assert not any(isinstance(part, Damage) for part in parts)
    return parts


def rows_of(path: Path, *, compiled: bool) -> list[dict[str, object]]:
    return [row for part in parts_of(path, compiled=compiled) for row in part.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_rows_of_one_batch_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    """A few bytes, compressed, can be millions of rows: they are never all there at once."""
    monkeypatch.setattr(SIZES, "plain_rows", 16)
    monkeypatch.setattr(SIZES, "rows", 16)
    path = tmp_path / "log"
    path.write_bytes(batch([commit(offset, "g") for offset in range(1000)], codec=codec))
    for compiled in (False, True):
        parts = parts_of(path, compiled=compiled)
        assert max(part.num_rows for part in parts) <= 64
        assert [row["offset"] for part in parts for row in part.to_pylist()] == [*range(1000)]


def test_rows_of_many_old_batches_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reference reads for compiled code is given as soon as there are enough rows."""
    monkeypatch.setattr(SIZES, "rows", 16)
    wrapped = [
        message_set([commit(offset, "g"), commit(offset + 1, "g")], magic=1, codec="gzip")
        for offset in range(0, 100, 2)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(wrapped))
    parts = parts_of(path, compiled=True)
    assert [part.num_rows for part in parts] == [16] * 6 + [4]
    assert [row["offset"] for part in parts for row in part.to_pylist()] == [*range(100)]


def test_large_records_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SIZES, "plain_bytes", 10_000)
    path = tmp_path / "log"
    path.write_bytes(batch([Plain(n, 0, b"\0\x63", b"v" * 4000) for n in range(20)], codec="zstd"))
    assert [part.num_rows for part in parts_of(path, compiled=False)] == [3] * 6 + [2]


def test_a_chunk_that_becomes_too_large_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes behind is read by the reference, and then by the next chunk."""
    path = tmp_path / "log"
    log = [batch([Plain(n, 0, b"\0\x63", b"v" * 90_000)], codec="zstd") for n in range(6)]
    path.write_bytes(b"".join(log))
    monkeypatch.setattr(SIZES, "columns", 200_000)
    monkeypatch.setattr(SIZES, "texts", (40_000, 240_000))
    monkeypatch.setattr(SIZES, "sound", (0, 0))
    rows = [(part.num_rows, part["offset"].to_pylist()) for part in parts_of(path, compiled=True)]
    assert [offset for _, offsets in rows for offset in offsets] == [*range(6)]
    assert len(rows) > 2


@pytest.mark.parametrize("compiled", [False, True])
def test_a_batch_is_part_of_one_transaction(tmp_path: Path, compiled: bool) -> None:
    """Its first offset decides, also where an offset inside lies beyond the marker."""
    plains = [Plain(offset, 0, commit_key("g"), None) for offset in (0, 7)]
    path = tmp_path / "log"
    path.write_bytes(
        batch(plains, producer_id=1, producer_epoch=0, flags=TRANSACTIONAL) + marker(2, 1, 1)
    )
    assert [row["transaction"] for row in rows_of(path, compiled=compiled)] == ["committed"] * 3


@pytest.mark.parametrize("compiled", [False, True])
def test_offsets_inside_an_old_message_wrap_as_in_java(tmp_path: Path, compiled: bool) -> None:
    inside = message(2**63 - 1, b"k", b"v", magic=1, timestamp=5)
    inside += message(0, b"k", b"v", magic=1, timestamp=5)
    path = tmp_path / "log"
    path.write_bytes(message(9, None, compress("gzip", inside), magic=1, attributes=1, timestamp=5))
    assert [row["offset"] for row in rows_of(path, compiled=compiled)] == [-(2**63) + 8, 9]
