from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.columnar import input_size
from kgroup.columnar.chunk_size import SIZES
from kgroup.kernel import compiled
from kgroup.operation.decode import Count, Selection, count_records, decode
from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.source.log.segment_file import find_segments
from tests.columnar.log_writer import Plain, batch, message_set
from tests.operation.log_files import Log, commit, commit_key, end, tombstone, transaction

ROOT = Path(__file__).parents[2]
FOLDERS = [
    ROOT / "kgroup/sample/log-dir",
    *sorted(path.parent for path in ROOT.glob("tests/data/kafka-*/manifest.json")),
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_bytes_are_those_of_the_stored_keys_and_values(folder: Path) -> None:
    segments = [segment for segment in find_segments([folder]) if segment.is_loaded]
    stored = [
        len(record.key or b"") + len(record.value or b"")
        for segment in segments
        for found in read_batches(segment.path.read_bytes())
        if isinstance(found, RecordBatch)
        for record in read_records(found)
        if isinstance(record, Record)
    ]
    measured = decode(segments, Selection()).map(lambda rows: rows["size"].to_pylist())
    assert [size for sizes in measured for size in sizes] == stored
    assert stored


@pytest.mark.parametrize("length", [0, 126, 127, 128, 16382, 16383, 16384, 32767])
def test_bytes_of_long_metadata(tmp_path: Path, length: int) -> None:
    log = Log(tmp_path)
    record = commit(0, "g", metadata="é" * (length // 2) + "x" * (length % 2))
    assert record.key is not None
    assert record.value is not None
    log.add(0, batch([record]))
    (sizes,) = decode(log.segments(), Selection()).map(lambda rows: rows["size"].to_pylist())
    assert sizes == [len(record.key) + len(record.value)]


@pytest.mark.parametrize("topic_id", [b"", b"\x00\x10" + bytes(range(1, 17))])
@pytest.mark.parametrize("length", [0, 126, 127, 128, 16382, 16383, 16384])
def test_bytes_of_long_metadata_in_version_4(tmp_path: Path, length: int, topic_id: bytes) -> None:
    """Offset, leader epoch, metadata with a varint of its length and one, time, tags."""
    size = length + 1
    varint = bytearray()
    while size >= 0x80:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    varint.append(size)
    tags = (b"\x01" if topic_id else b"\x00") + topic_id
    value = struct.pack(">hqi", 4, 7, 3) + varint + b"x" * length + struct.pack(">q", 9) + tags
    log = Log(tmp_path)
    log.add(0, batch([Plain(0, -1, commit_key("g"), value)]))
    (found,) = decode(log.segments(), Selection()).map(lambda rows: rows)
    assert found["key_json"].null_count == 1
    assert found["size"].to_pylist() == [len(commit_key("g")) + len(value)]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    log.add(
        0,
        batch([commit(0, "a"), commit(1, "b"), tombstone(2, "a")]),
        b"\xff" * 80,
        transaction([commit(3, "a")], 7),
        transaction([commit(4, "b")], 8),
        end(5, 7, commits=True),
        batch([commit(6, "a")], codec="gzip"),
    )
    return log


KEY = len(commit_key("a"))
VALUE = 2 + 8 + 4 + 2 + 8
"""Version, offset, leader epoch, length of no metadata, time."""


def test_counts(log: Log) -> None:
    decoding = decode(log.segments(), Selection(), with_batches=True)
    counts = count_records(decoding).data
    data = log.segments()[0].path.read_bytes()
    sizes: Counter[str] = Counter()
    for found in read_batches(data):
        if isinstance(found, RecordBatch):
            sizes[found.compression] += found.size
    assert counts == (
        Count("type", "OffsetCommit", 3, 5, 5 * (KEY + VALUE)),
        Count("type", "ControlCommit", 0, 1, 4 + 6),
        Count("type", "OffsetCommit", None, 1, KEY),
        Count("transaction", "committed", None, 2, KEY + VALUE + 10),
        Count("transaction", "open", None, 1, KEY + VALUE),
        Count("group", "a", None, 4, 4 * KEY + 3 * VALUE),
        Count("group", "b", None, 2, 2 * (KEY + VALUE)),
        Count("batch", "none", 2, 4, sizes["none"]),
        Count("batch", "gzip", 2, 1, sizes["gzip"]),
        Count("damage", "garbage", None, 1, None),
    )
    assert sum(sizes.values()) == len(data) - 80


def test_counts_of_a_selection(log: Log) -> None:
    decoding = decode(log.segments(), Selection(groups=frozenset({"b"})), with_batches=True)
    counts = count_records(decoding).data
    assert [(count.by, count.name, count.count) for count in counts] == [
        ("type", "OffsetCommit", 2),
        ("transaction", "open", 1),
        ("group", "b", 2),
        ("batch", "none", 4),
        ("batch", "gzip", 1),
        ("damage", "garbage", 1),
    ]


@pytest.mark.parametrize("size", [0, 1 << 40])
def test_as_many_batches_of_one_kind_as_of_another(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the log counts as large or as small."""
    monkeypatch.setattr(input_size, "LARGE", size)
    log = Log(tmp_path)
    codecs = ["zstd", "none", "none", "lz4", "gzip", "gzip"]
    log.add(0, *(batch([commit(at, "g")], codec=codec) for at, codec in enumerate(codecs)))
    log.add(6, message_set([commit(6, "g")], magic=0, codec="lz4"))
    decoding = decode(log.segments(), Selection(), with_batches=True)
    counts = count_records(decoding).data
    assert [(count.name, count.version) for count in counts if count.by == "batch"] == [
        ("gzip", 2),
        ("none", 2),
        ("lz4", 0),
        ("lz4", 2),
        ("zstd", 2),
    ]


def test_whatever_compiles_first_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def load(on_compile: Callable[[], None] | None = None) -> compiled.Functions:
        assert on_compile is not None
        on_compile()
        return loaded

    loaded = compiled.load()
    monkeypatch.setattr(compiled, "load", load)
    monkeypatch.setattr(input_size, "LARGE", 0)
    log = Log(tmp_path)
    log.add(0, batch([commit(0, "g")]))
    decoding = decode(
        log.segments(), Selection(), with_batches=True, on_compile=lambda: said.append("compiling")
    )
    assert len(count_records(decoding).data) == 3
    assert set(said) == {"compiling"}


def test_counts_of_many_rows_add_up_over_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SIZES, "plain_rows", 1000)
    log = Log(tmp_path)
    count = 4000
    log.add(
        0,
        *(
            batch([commit(n, f"g{n % 7}") for n in range(at, at + 100)])
            for at in range(0, count, 100)
        ),
    )
    decoding = decode(log.segments(), Selection(), with_batches=True)
    counts = count_records(decoding).data
    assert counts[0] == Count("type", "OffsetCommit", 3, count, count * (KEY + 1 + VALUE))
    groups = {found.name: found.count for found in counts if found.by == "group"}
    assert groups == {f"g{n}": len(range(n, count, 7)) for n in range(7)}
