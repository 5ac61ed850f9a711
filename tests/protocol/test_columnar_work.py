"""What compiled decoding spends: how much is read at once, and where a log is damaged all over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgroup.protocol import column_chunk, columnar, log_chunk
from kgroup.protocol.batch import Damage
from kgroup.protocol.column_buffer import ColumnBuffer
from kgroup.protocol.columnar import decode_chunks
from kgroup.protocol.record_batch import read_file_batches
from tests.operation.log_files import commit
from tests.protocol.log_writer import batch


def test_damage_beside_damage_is_read_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin anew costs as much as some 100 KB of reading: not once for every damage."""
    sound = [batch([commit(offset, "g")]) for offset in range(1200)]
    log = [
        data[:-1] + bytes([data[-1] ^ 1]) if offset < 300 and offset % 2 else data
        for offset, data in enumerate(sound)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    begun: list[int] = []
    read = read_file_batches

    def counted(*args: Any, **options: Any) -> Any:
        begun.append(options["part"].start)
        return read(*args, **options)

    monkeypatch.setattr(columnar, "read_file_batches", counted)
    parts = list(decode_chunks(path, compiled=True))
    assert sum(isinstance(part, Damage) for part in parts) == 150
    assert sum(part.num_rows for part in parts if not isinstance(part, Damage)) == 1050
    assert begun == [len(log[0]), path.stat().st_size]  # and whether the end is one


def test_damage_in_many_batches_takes_no_buffer_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffers are made for all rows of a chunk, and kept until the chunk is done."""
    lying = [
        batch([commit(offset, "g"), commit(offset + 1, "g")], count=3)
        for offset in range(0, 2000, 2)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(lying))
    rooms: list[int] = []

    def noted(partition: Any, state: Any, rows: int) -> ColumnBuffer:
        rooms.append(rows)
        return ColumnBuffer(partition, state, rows)

    monkeypatch.setattr(column_chunk, "ColumnBuffer", noted)
    parts = list(decode_chunks(path, compiled=True))
    assert sum(isinstance(part, Damage) for part in parts) == 1000
    assert sum(part.num_rows for part in parts if not isinstance(part, Damage)) == 2000
    assert len(rooms) == 1  # up to the first damage; the reference reads what is behind it


def cut(path: Path) -> list[log_chunk.Chunk]:
    with path.open("rb", buffering=0) as file:
        return list(iter(log_chunk.Cutter(file).next, None))


@pytest.mark.parametrize("first", [2, 100])
def test_chunks_begin_small(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many batches fit into the first one, twice as many into the next, ten at most."""
    batches = [batch([commit(offset, "g")]) for offset in range(40)]
    size = len(batches[0])
    monkeypatch.setattr(log_chunk, "_FIRST_CHUNK", first * size)
    monkeypatch.setattr(log_chunk, "_CHUNK_SIZE", 10 * size)
    path = tmp_path / "log"
    path.write_bytes(b"".join(batches))
    sizes = [2, 4, 8, 10, 10, 6] if first == 2 else [10, 10, 10, 10]
    assert [chunk.size for chunk in cut(path)] == [size * count for count in sizes]


def test_chunks_are_smaller_where_records_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [batch([commit(offset, "g"), commit(offset + 1, "g")]) for offset in range(0, 40, 2)]
    size = len(batches[0])
    monkeypatch.setattr(log_chunk, "_CHUNK_RECORDS", 8)
    monkeypatch.setattr(log_chunk, "_FIRST_CHUNK", size)
    monkeypatch.setattr(log_chunk, "_SMALLEST_CHUNK", 1)
    path = tmp_path / "log"
    path.write_bytes(b"".join(batches))
    assert [chunk.size for chunk in cut(path)] == [size * count for count in (1, 2, 4, 4, 4, 4, 1)]
