"""What compiled decoding spends: how much is read at once, and where a log is damaged all over."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgroup.columnar import chunk_reader, column_chunk, log_chunk
from kgroup.columnar.batch_key import Limits
from kgroup.columnar.buffer import ColumnBuffer
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.last_record import last_records
from kgroup.columnar.segment import decode_chunks
from kgroup.kernel.memory import LOCATOR_SHIFT
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches
from kgroup.protocol.batch.transaction import TransactionIndex
from tests.columnar.log_writer import Plain, batch, record
from tests.columnar.work import cut
from tests.operation.log_files import commit, text


def noted_starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the reference reader begins, as it does."""
    begun: list[int] = []
    read = read_file_batches

    def noted(*args: Any, **options: Any) -> Any:
        begun.append(options["part"].start)
        return read(*args, **options)

    monkeypatch.setattr(chunk_reader, "read_file_batches", noted)
    return begun


def test_damage_beside_damage_is_read_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin anew has its cost: not once for every damage."""
    sound = [batch([commit(offset, "g")]) for offset in range(1200)]
    log = [
        data[:-1] + bytes([data[-1] ^ 1]) if offset < 300 and offset % 2 else data
        for offset, data in enumerate(sound)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    begun = noted_starts(monkeypatch)
    parts = list(decode_chunks(path, compiled=True))
    assert sum(isinstance(part, Damage) for part in parts) == 150
    assert sum(part.num_rows for part in parts if not isinstance(part, Damage)) == 1050
    assert begun == [len(log[0]), path.stat().st_size]  # and whether the end is one


@pytest.mark.slow
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

    def noted(partition: Any, state: Any, block: Any, rows: int) -> ColumnBuffer:
        rooms.append(rows)
        return ColumnBuffer(partition, state, block, rows)

    monkeypatch.setattr(column_chunk, "ColumnBuffer", noted)
    parts = list(decode_chunks(path, compiled=True))
    assert sum(isinstance(part, Damage) for part in parts) == 1000
    assert sum(part.num_rows for part in parts if not isinstance(part, Damage)) == 2000
    assert len(rooms) == 1  # up to the first damage; the reference reads what is behind it


@pytest.mark.slow
def test_the_wanted_rows_of_a_chunk_take_one_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its cost: columns, dictionaries, a row group of what is written."""
    log = [batch([commit(offset, "g"), commit(offset + 1, "h")]) for offset in range(0, 20000, 2)]
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    positions = np.arange(len(log)) * len(log[0])
    parts = list(decode_chunks(path, len, locators=positions << LOCATOR_SHIFT | 1, compiled=True))
    assert parts == [len(log)]


def test_batches_behind_damage_are_rows_together(tmp_path: Path) -> None:
    """As many batches of rows as pieces of damage, not as batches of the log."""
    log = damaged(20, 1000)
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    parts = list(decode_chunks(path, compiled=True))
    rows = [part.num_rows for part in parts if not isinstance(part, Damage)]
    assert sum(rows) == 950
    assert len(parts) - len(rows) == 50
    assert len(rows) <= 60


def metadata_value(protocol: str) -> bytes:
    """Of a group without members; the protocol is as long as it is."""
    return (
        struct.pack(">h", 0)
        + text("consumer")
        + struct.pack(">i", 1)
        + text(protocol)
        + struct.pack(">hi", -1, 0)
    )


def test_room_for_texts_is_made_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that needs more, up to gigabytes, is left to the reference reader."""
    monkeypatch.setattr(SIZES, "texts", (100, 200))
    enlarged: list[int] = []
    enlarge = ColumnBuffer.enlarge

    def noted(buffer: ColumnBuffer, rows: int) -> None:
        enlarged.append(rows)
        enlarge(buffer, rows)

    monkeypatch.setattr(ColumnBuffer, "enlarge", noted)
    sizes = (700, 700, 30_000, 700)
    path = tmp_path / "log"
    path.write_bytes(
        b"".join(
            batch([Plain(offset, 0, b"\0\x02\0\1g", metadata_value("c" * size))])
            for offset, size in enumerate(sizes)
        )
    )
    parts = list(decode_chunks(path, compiled=True))
    assert sum(part.num_rows for part in parts if not isinstance(part, Damage)) == 4
    assert len(enlarged) == 2 + 2 + 3 + 2


def restarts(
    log: list[bytes], path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int, list[int]]:
    """How often a chunk was decoded, how many batches were read without, and where that began."""
    path.write_bytes(b"".join(log))
    begun = noted_starts(monkeypatch)
    walked: list[int] = []
    slow: list[int] = []

    def in_chunk(chunk: log_chunk.Chunk) -> tuple[list[int], int | None]:
        walked.append(chunk.position)
        items, stop = column_chunk.decode_chunk(chunk, None, TransactionIndex)
        return [0 for _ in items], stop

    def in_batches(items: Iterator[RecordBatch | Damage]) -> Iterator[int | Damage]:
        for item in items:
            if isinstance(item, Damage):
                yield item
            else:
                slow.append(item.position)
                yield 0

    assert sum(
        isinstance(item, Damage) for item in chunk_reader.read_chunks(path, in_chunk, in_batches)
    )
    return len(walked), len(slow), begun


def damaged(distance: int, count: int = 6000) -> list[bytes]:
    """Batches of which every so many-th has a wrong checksum."""
    sound = batch([commit(0, "g")])
    broken = sound[:-1] + bytes([sound[-1] ^ 1])
    return [broken if at % distance == distance - 1 else sound for at in range(count)]


def test_little_is_read_slowly_behind_rare_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kilobyte each; and nothing is decoded ahead of what may be damaged again."""
    log = damaged(1000)
    walked, slow, begun = restarts(log, tmp_path / "log", monkeypatch)
    assert len(begun) == 6
    assert slow < 6 * (2 + 1024 // len(log[0]))
    assert walked <= 6


def test_more_is_read_slowly_behind_frequent_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some new starts, and then all is read in one go."""
    log = damaged(2000, 2000) + damaged(80)
    assert 80 * len(log[0]) > 8 * 1024
    _, _, begun = restarts(log, tmp_path / "log", monkeypatch)
    assert 4 <= len(begun) <= 8


@pytest.mark.slow
def test_wrong_checksums_cost_a_log_so_much_and_no_more(tmp_path: Path) -> None:
    """However often compiled code begins anew between them: 256 MiB, and some for each byte."""
    size = 1_000_000
    header = bytearray(batch([commit(0, "g")])[:61])
    header[8:12] = size.to_bytes(4, "big")  # all of these bytes are summed, if any
    sound = batch([commit(1, "g")]) * 700
    path = tmp_path / "log"
    path.write_bytes((bytes(header) * 100 + bytes(99) + sound) * 5 + b"\xff" * size)
    damages = []
    for compiled in (True, False):
        parts = list(decode_chunks(path, compiled=compiled))
        assert sum(part.num_rows for part in parts if not isinstance(part, Damage)) == 5 * 700
        damages.append([part for part in parts if isinstance(part, Damage)])
    assert damages[0] == damages[1]
    passed = ["passed over" in damage.reason for damage in damages[0]]
    assert passed == [False, False, True, True, True, False]


def test_runs_that_cannot_be_unpacked_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every ten batches one has records that end too soon; in each piece there is such a one."""
    lying = gzip.compress(record(commit(3, "g"), 3, 0)[:-1], mtime=0)
    log = [
        batch([commit(offset, "g")], codec="gzip", body=lying if offset % 10 == 3 else None)
        for offset in range(400)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    monkeypatch.setattr(SIZES, "piece", 20 * len(log[0]))
    read: list[int] = []
    read_bad_batch = log_chunk.ChunkWalk.read_bad_batch

    def noted(walk: log_chunk.ChunkWalk, *args: Any) -> bool:
        read.append(walk.position)
        return read_bad_batch(walk, *args)

    monkeypatch.setattr(log_chunk.ChunkWalk, "read_bad_batch", noted)
    (last,) = last_records([path], Limits(TransactionIndex), compiled=True)
    assert len(last.damages) == 40
    positions = np.cumsum([0, *map(len, log)]).tolist()
    assert (last.locators >> LOCATOR_SHIFT).tolist() == [positions[399]]
    assert read == sorted(set(read))


@pytest.mark.parametrize("first", [2, 100])
def test_chunks_begin_small(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many batches fit into the first one, twice as many into the next, ten at most."""
    batches = [batch([commit(offset, "g")]) for offset in range(40)]
    size = len(batches[0])
    monkeypatch.setattr(SIZES, "first_chunk", first * size)
    monkeypatch.setattr(SIZES, "chunk", 10 * size)
    path = tmp_path / "log"
    path.write_bytes(b"".join(batches))
    sizes = [2, 4, 8, 10, 10, 6] if first == 2 else [10, 10, 10, 10]
    assert [chunk.size for chunk in cut(path)] == [size * count for count in sizes]


def test_chunks_are_smaller_where_records_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [batch([commit(offset, "g"), commit(offset + 1, "g")]) for offset in range(0, 40, 2)]
    size = len(batches[0])
    monkeypatch.setattr(SIZES, "chunk_records", 8)
    monkeypatch.setattr(SIZES, "first_chunk", size)
    monkeypatch.setattr(SIZES, "smallest_chunk", 1)
    path = tmp_path / "log"
    path.write_bytes(b"".join(batches))
    assert [chunk.size for chunk in cut(path)] == [size * count for count in (1, 2, 4, 4, 4, 4, 1)]
    monkeypatch.setattr(SIZES, "smallest_chunk", 10 * size)
    assert [chunk.size for chunk in cut(path)] == [size * count for count in (1, 2, 4, 8, 5)]


# ---- what the system says about the pages of a process


def test_the_system_gives_small_pages() -> None:
    program = (
        "from kgroup.columnar.chunk_reader import refuse_huge_pages; refuse_huge_pages(); "
        "print(open('/proc/self/status').read())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"THP_enabled:\t0\n" in done.stdout
