"""Chunks end where a batch seems to begin; what is made of them does not depend on that."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgroup.columnar import key_chunk, log_chunk
from kgroup.columnar.batch_key import Limits
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.last_record import last_records
from kgroup.kernel import entry, memory
from kgroup.kernel.memory import PADDING
from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.batch_v2 import HEADER_SIZE
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.protocol.batch.transaction import TransactionIndex
from tests.columnar.equality import check_equal
from tests.columnar.log_writer import Plain, batch
from tests.columnar.work import cut
from tests.examples import some_of
from tests.operation.log_files import commit, commit_key

RECORDED = sorted((Path(__file__).parents[1] / "data").glob("kafka-*/__consumer_offsets-*/*.log"))


def found_in(data: bytes) -> int | None:
    """Where the batch begins that is found, None if none is."""
    return entry.find_batch(np.frombuffer(data + bytes(PADDING), np.uint8), len(data))


def with_wrong_crc(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


SOUND = batch([commit(0, "g")])
CUT_OFF = SOUND[:40]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (SOUND, 0),
        (SOUND + SOUND, 0),
        (b"12345" + SOUND + CUT_OFF, 5),
        (b"\0" * 100 + SOUND, 100),
        (with_wrong_crc(SOUND) + SOUND, len(SOUND)),
        (SOUND + b"\xff" * 100 + SOUND, len(SOUND) + 100),
        (SOUND + b"\xff" * 100, None),
        (CUT_OFF, None),
        (with_wrong_crc(SOUND), None),
        (b"", None),
        (bytes(100), None),
    ],
)
def test_a_batch_is_found_that_others_follow(data: bytes, expected: int | None) -> None:
    assert found_in(data) == expected


def test_bytes_made_to_look_like_batches_are_not_summed_without_end() -> None:
    """Each header claims all that is behind it."""
    heads = 1000
    size = HEADER_SIZE * heads + 1000
    lying = b"".join(
        bytes(8)
        + (size - HEADER_SIZE * number - 12).to_bytes(4, "big")
        + bytes(4)
        + b"\2"
        + bytes(44)
        for number in range(heads)
    )
    assert found_in(lying + bytes(1000) + SOUND) is None
    assert found_in(lying[-HEADER_SIZE * 5 :] + bytes(20_000) + SOUND) == HEADER_SIZE * 5 + 20_000


@pytest.mark.parametrize("path", some_of(RECORDED, 3), ids=lambda path: path.parent.name)
def test_every_real_batch_is_found(path: Path) -> None:
    data = path.read_bytes()
    batches = [item for item in read_batches(data) if isinstance(item, RecordBatch)]
    assert batches
    for item in batches:
        assert found_in(data[item.position : item.position + item.size]) == 0


def test_large_batches_of_commits_are_cut_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are full of zeros, and of numbers that may be sizes."""
    log = [
        batch(
            [
                commit(
                    number * 500 + at, f"group-{at % 7}", f"topic-{at % 90}", at % 12, committed=at
                )
                for at in range(500)
            ]
        )
        for number in range(40)
    ]
    begins = np.cumsum([0, *map(len, log)]).tolist()
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    monkeypatch.setattr(SIZES, "chunk", 2 * len(log[0]) - 100)
    assert [chunk.position for chunk in cut(path)] == begins[:-1:2]


def test_chunks_end_in_front_of_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is found that stands in the same piece as zeros."""
    path = tmp_path / "log"
    path.write_bytes((SOUND * 20 + bytes(5000)) * 8)
    monkeypatch.setattr(SIZES, "chunk", 10 * len(SOUND))
    monkeypatch.setattr(SIZES, "searched", (1000,))
    assert cut(path)[0].end == 10 * len(SOUND)
    assert check_equal(path).num_rows == 160


def test_only_a_run_with_an_odd_batch_is_left_to_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here of two batches each; the record has a header, which no coordinator writes."""
    odd = Plain(10, 5, b"\0\1key", b"v", [("name", b"value")])
    log = [batch([odd if at == 10 else commit(at, f"g{at:02}")], codec="zstd") for at in range(20)]
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    monkeypatch.setattr(SIZES, "piece", 2 * len(log[0]) + 20)
    left: list[int] = []
    read = log_chunk.ChunkWalk.read_bad_batch

    def noted(walk: log_chunk.ChunkWalk, *arguments: Any) -> bool:
        left.append(walk.position)
        return read(walk, *arguments)

    monkeypatch.setattr(log_chunk.ChunkWalk, "read_bad_batch", noted)
    assert check_equal(path).num_rows == 20
    assert 0 < len(left) <= 2


def test_keys_of_many_records_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk is left where it has too many; the next one begins soon behind."""
    monkeypatch.setattr(SIZES, "keys", 4)
    monkeypatch.setattr(SIZES, "most_keys", 8)
    monkeypatch.setattr(SIZES, "sound", (0, 0))
    path = tmp_path / "log"
    path.write_bytes(b"".join(batch([commit(at, f"g{at % 50}")]) for at in range(200)))
    walks: list[int] = []
    follow = log_chunk.ChunkWalk.__init__

    def noted(
        walk: log_chunk.ChunkWalk, chunk: log_chunk.Chunk, *args: Any, **options: Any
    ) -> None:
        walks.append(chunk.position)
        follow(walk, chunk, *args, **options)

    monkeypatch.setattr(log_chunk.ChunkWalk, "__init__", noted)
    (found,) = last_records([path], Limits(TransactionIndex), compiled=True)
    (expected,) = last_records([path], Limits(TransactionIndex), compiled=False)
    assert found.locators.tolist() == expected.locators.tolist()
    assert len(found.locators) == 50
    assert len(walks) > 10


def test_a_chunk_that_ends_inside_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may hold batches, and the head of one that is cut off."""
    monkeypatch.setattr(SIZES, "chunk", 1500)
    monkeypatch.setattr(SIZES, "smallest_chunk", 1000)
    monkeypatch.setattr(SIZES, "searched", (1000,))
    inside = batch([commit(0, "not there")]) * 8 + bytes(10) + b"\x10\0" + bytes(4) + b"\2"
    log = []
    for offset in range(0, 60, 3):
        log.append(batch([commit(offset, f"g{offset}")]))
        log.append(batch([Plain(offset + 1, 5, b"\0\1key", inside), commit(offset + 2, "g")]))
    begins = np.cumsum([0, *map(len, log)])
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    assert any(chunk.position not in begins for chunk in cut(path))
    assert check_equal(path)["group"].to_pylist().count("g") == 20


def test_batches_larger_than_what_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is searched, and in the end the rest is one chunk."""
    log = [batch([commit(number * 50 + i, f"g{i}") for i in range(50)]) for number in range(9)]
    size = len(log[0])
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    monkeypatch.setattr(SIZES, "chunk", size // 2)
    for searched, chunks in (((100, size // 2, 3 * size), 9), ((100, size // 2), 1)):
        monkeypatch.setattr(SIZES, "searched", searched)
        assert len(cut(path)) == chunks
        assert check_equal(path).num_rows == 450


def test_a_log_that_is_shorter_than_it_was(tmp_path: Path) -> None:
    """A broker may cut a log off while it is read: what is there is walked over."""
    path = tmp_path / "log"
    path.write_bytes(SOUND * 10)
    with path.open("rb", buffering=0) as file:
        chunk = log_chunk.Cutter(file).next()
        assert chunk is not None
        path.write_bytes(SOUND * 3 + CUT_OFF)
        assert log_chunk.follow(chunk) == 3 * len(SOUND)
        assert log_chunk.Cutter(file).next().end == path.stat().st_size  # type: ignore[union-attr]


def commit_v4(offset: int, name: str, topic_id: bytes) -> Plain:
    """Group, topic and metadata have one name; the topic id is a tagged field."""
    value = struct.pack(">hqi", 4, 0, -1) + bytes([len(name) + 1]) + name.encode()
    return Plain(offset, 5, commit_key(name, name), value + bytes(8) + b"\1\0\x10" + topic_id)


def test_pieces_that_look_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a piece says first stands last in it too, where the one before has said another."""
    log = []
    for number in range(9):
        name, topic_id = f"g{number}", bytes([number + 1]) * 16
        names = ((name, topic_id), ("other", b"o" * 16), (name, topic_id))
        log.append(batch([commit_v4(3 * number + at, *each) for at, each in enumerate(names)]))
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    monkeypatch.setattr(SIZES, "piece", len(log[0]))
    table = check_equal(path)
    for column in ("group", "topic", "metadata"):
        assert table[column].to_pylist()[:4] == ["g0", "other", "g0", "g1"]
    assert len(set(table["topic_id"].to_pylist())) == 10


def test_codecs_that_change_are_unpacked_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch is left to the reference reader."""
    codecs = ["zstd", "zstd", "lz4", "none", "gzip", "snappy", "none"]
    path = tmp_path / "log"
    path.write_bytes(
        b"".join(batch([commit(at, f"g{at}")], codec=codec) for at, codec in enumerate(codecs))
    )
    monkeypatch.delattr(log_chunk.ChunkWalk, "read_bad_batch")
    assert check_equal(path).num_rows == len(codecs)


def test_batches_without_rows_take_no_room(tmp_path: Path) -> None:
    """There is room for as many batches as rows."""
    path = tmp_path / "log"
    path.write_bytes(b"".join(batch([Plain(offset, 5, None, b"v")]) for offset in range(9)) + SOUND)
    with path.open("rb", buffering=0) as file:
        chunk = log_chunk.Cutter(file).next()
        assert chunk is not None
        walk = log_chunk.ChunkWalk(chunk, entry.list_keys)
        buffer = key_chunk._Buffer(walk.state, 1)
        assert list(walk.steps()) == []
        assert walk.words["batches"] == 1
        limits = Limits(TransactionIndex)
        assert len(buffer.take(limits).hashes) == 1


def test_a_batch_of_too_many_records_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(batch([commit(0, "a"), commit(1, "b")], codec="zstd") + SOUND)
    with path.open("rb", buffering=0) as file:
        chunk = log_chunk.Cutter(file).next()
        assert chunk is not None
        walk = log_chunk.ChunkWalk(chunk, entry.list_keys)
        key_chunk._Buffer(walk.state, 9)
        assert next(walk.steps()) == memory.BAD  # compressed, and not unpacked
        read: list[RecordBatch] = []
        assert not walk.read_bad_batch(read.append, 1)
        assert (walk.position, walk.record_count, read) == (0, 2, [])
        assert walk.read_bad_batch(read.append, 2)
        assert [found.record_count for found in read] == [2]
        assert walk.position == chunk.end - len(SOUND)
