"""Segments are cut where batches begin, whatever their index says."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.schema import records
from kgroup.history.input import segment_source
from kgroup.history.input.segment_source import SegmentSource, cut_by_index, find_sources
from kgroup.history.input.split import FileRange, read_split
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from tests.columnar.log_writer import Plain, batch
from tests.examples import some_of
from tests.history.cut_log import BASE, BATCHES, STARTS, index_of
from tests.operation.log_files import Log, commit, commit_key


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SIZES, "chunk", 1000)
    monkeypatch.setattr(SIZES, "sound", (500, 500))
    monkeypatch.setattr(segment_source, "WALK", 3000)


@pytest.fixture
def only_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("the index was not taken")

    monkeypatch.setattr(segment_source, "cut_by_lengths", refuse)


def segment(root: Path, data: bytes, index: bytes | None = None) -> SegmentSource:
    path = Log(root).add(BASE, data)
    if index is not None:
        path.with_suffix(".index").write_bytes(index)
    (source,) = find_sources([str(root)], "c").segments
    return source


def begins(source: SegmentSource, split_size: int, start: int = 0) -> list[int]:
    """Where the splits begin, after checking that each begins where the one before ends."""
    ranges = [split.location for split in source.splits(start, split_size)]
    assert all(isinstance(place, FileRange) for place in ranges)
    bounds = [(place.start, place.end) for place in ranges]
    assert [first for first, _ in bounds[1:]] == [last for _, last in bounds[:-1]]
    assert bounds[-1][1] == source.size
    return [first for first, _ in bounds]


def content(source: SegmentSource, split_size: int, start: int = 0) -> list[object]:
    """Records and damage of all splits."""
    return [
        item
        for split in source.splits(start, split_size)
        for part in read_split(split)
        for item in ([part] if isinstance(part, Damage) else records(part))
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """What is in the log, read at once."""
    source = segment(tmp_path_factory.mktemp("whole"), b"".join(BATCHES))
    found = content(source, 1 << 30)
    assert len(found) == 3 * len(BATCHES)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("only_index")
@pytest.mark.parametrize("allocated", [0, 10 << 20])
def test_by_index(allocated: int, tmp_path: Path, whole: list[object]) -> None:
    entries = index_of(BATCHES)
    source = segment(tmp_path, b"".join(BATCHES), entries.ljust(allocated, b"\0"))
    found = begins(source, 10_000)
    assert len(found) == -(-source.size // 10_000)
    positions = {position for _, position in struct.iter_unpack(">ii", entries)}
    assert positions.issuperset(found[1:])
    assert set(STARTS).issuperset(found)
    sizes = [last - first for first, last in zip(found, [*found[1:], source.size], strict=True)]
    assert max(sizes) < 11_500
    assert content(source, 10_000) == whole


def test_what_is_small_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = segment(tmp_path, b"".join(BATCHES), b"")
    monkeypatch.setattr(segment_source, "cut_by_index", None)
    monkeypatch.setattr(segment_source, "cut_by_lengths", None)
    assert begins(source, source.size) == [0]


def garbage(size: int) -> bytes:
    return random.Random(3).randbytes(size)


def off_by(distance: int) -> bytes:
    return b"".join(
        struct.pack(">ii", offset, position + distance)
        for offset, position in struct.iter_unpack(">ii", index_of(BATCHES))
    )


BAD_INDEXES: dict[str, bytes | None] = {
    "none": None,
    "empty": b"",
    "zeros": bytes(80),
    "garbage": garbage(8000),
    "garbage, not in eights": garbage(8003),
    "positions within the segment": b"".join(
        struct.pack(">ii", n, random.Random(n).randrange(100_000)) for n in range(2000)
    ),
    "of another state of the segment": index_of([data + bytes(7) for data in BATCHES]),
    "one byte off": off_by(1),
    "negative": off_by(-(1 << 30)),
    "offsets that are too small": b"".join(
        struct.pack(">ii", -1, position) for _, position in struct.iter_unpack(">ii", off_by(0))
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD_INDEXES)
def test_without_an_index_that_is_right(name: str, tmp_path: Path, whole: list[object]) -> None:
    source = segment(tmp_path, b"".join(BATCHES), BAD_INDEXES[name])
    found = begins(source, 10_000)
    assert len(found) == -(-source.size // 10_000)
    assert set(STARTS).issuperset(found)
    assert content(source, 10_000) == whole


@pytest.mark.usefixtures("only_index")
def test_a_few_wrong_entries_are_passed_over(tmp_path: Path) -> None:
    entries = [*struct.iter_unpack(">ii", index_of(BATCHES))]
    wrong = [(offset, position + number % 3) for number, (offset, position) in enumerate(entries)]
    index = b"".join(struct.pack(">ii", *entry) for entry in wrong)
    source = segment(tmp_path, b"".join(BATCHES), index)
    found = begins(source, 20_000)
    assert len(found) == -(-source.size // 20_000)
    assert set(STARTS).issuperset(found)


def cuts(data: bytes, *entries: tuple[int, int]) -> list[int]:
    index = b"".join(struct.pack(">ii", *entry) for entry in entries)
    return cut_by_index(io.BytesIO(data), index, BASE, 0, len(data), 2)[1:]


def test_a_batch_inside_of_a_record_is_none() -> None:
    """A sound batch may stand in what somebody committed; an index may point there."""
    inner = batch([commit(BASE, "inner")])
    outer = batch([Plain(BASE + 1200, -1, commit_key("g"), bytes(20) + inner + bytes(20))])
    data = b"".join([*BATCHES[:220], outer, *BATCHES[220:]])
    inside = (1200, data.index(inner, STARTS[210]))
    right = [(3 * number, len(outer) + STARTS[number]) for number in (230, 250)]
    assert cuts(data, (540, STARTS[180]), inside, *right) == [right[0][1]]
    assert cuts(data, (540, STARTS[180]), inside) == []


def test_offsets_of_a_batch_fit_its_entry() -> None:
    data = b"".join(BATCHES)
    entries = [(3 * number, STARTS[number]) for number in range(0, 400, 10)]
    assert cuts(data, *entries)
    assert not cuts(data, *((offset - 1, position) for offset, position in entries))


Harm = Callable[[bytearray], None]


def flip(data: bytearray) -> None:
    for start in STARTS[1::9]:
        data[start + 70] ^= 1


def lengths(data: bytearray) -> None:
    for start in STARTS[5::40]:
        data[start + 8 : start + 12] = struct.pack(">i", 1 << 20)


def holes(data: bytearray) -> None:
    for start in STARTS[3::60]:
        data[start + 100 : start + 3000] = bytes(2900)


def tail(data: bytearray) -> None:
    del data[-40:]


HARMS = [flip, lengths, holes, tail]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "is_indexed", "split_size"),
    some_of(list(product(HARMS, (False, True), (2000, 9000))), 5),  # each once at least
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_damaged(harm: Harm, is_indexed: bool, split_size: int, tmp_path: Path) -> None:
    data = bytearray(b"".join(BATCHES))
    harm(data)
    source = segment(tmp_path, bytes(data), index_of(BATCHES) if is_indexed else None)
    found = begins(source, split_size)
    assert len(found) > len(data) / split_size / 3
    sound = {item.position for item in read_batches(bytes(data)) if isinstance(item, RecordBatch)}
    assert sound.issuperset(found)
    whole = content(source, 1 << 30)
    assert any(isinstance(item, Damage) for item in whole)
    assert content(source, split_size) == whole


@pytest.mark.slow
@pytest.mark.parametrize("index", [None, index_of(BATCHES)], ids=["lengths", "index"])
def test_only_what_is_new(index: bytes | None, tmp_path: Path, whole: list[object]) -> None:
    source = segment(tmp_path, b"".join(BATCHES), index)
    assert begins(source, 10_000, STARTS[300])[0] == STARTS[300]
    new = content(source, 10_000, STARTS[300])
    assert new == whole[900:]
    assert source.splits(source.size) == []


@pytest.mark.parametrize("index", [None, index_of(BATCHES)], ids=["lengths", "index"])
def test_a_start_within_a_batch_that_was_just_being_written(
    index: bytes | None, tmp_path: Path, whole: list[object]
) -> None:
    source = segment(tmp_path, b"".join(BATCHES), index)
    start = STARTS[300] + 50
    first = begins(source, 10_000, start)[0]
    assert STARTS[300] - 4000 < first <= STARTS[300]
    assert first in STARTS
    new = content(source, 10_000, start)
    assert new == whole[-len(new) :]
    assert len(new) >= 300
