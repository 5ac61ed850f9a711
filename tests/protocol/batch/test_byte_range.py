"""The parts of a file, however it is cut between batches, say what the whole file says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar import chunk_reader
from kgroup.columnar.batch_scan import scan_batches, scan_transactions
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.schema import DECODED
from kgroup.columnar.segment import decode_chunks
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange
from kgroup.protocol.batch.record_batch import read_batches
from tests.columnar.log_writer import batch
from tests.columnar.random_log import logs
from tests.examples import examples, some_of
from tests.fresh_file import write_fresh
from tests.operation.log_files import commit, end, transaction

FILES = sorted(
    path for path in (Path(__file__).parents[2] / "data").rglob("*.log*") if path.is_file()
)
PLAIN = pa.schema(
    [
        pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
        for f in DECODED
    ]
)
Content = tuple[pa.Table, list[Damage]]


def content(path: Path, parts: Sequence[ByteRange], *, compiled: bool) -> Content:
    """All rows of some parts of a file, and the damage."""
    markers = scan_transactions([path])
    items = [
        item
        for part in parts
        for item in decode_chunks(
            path, part=part, transactions=lambda: markers, compiled=compiled, workers=1
        )
    ]
    rows = pa.Table.from_batches((i for i in items if not isinstance(i, Damage)), schema=DECODED)
    damages = [item for item in items if isinstance(item, Damage)]
    return rows.cast(PLAIN).combine_chunks(), damages


def cut(path: Path, choice: random.Random) -> list[ByteRange]:
    """Cut a file where some of its batches begin."""
    items = read_batches(path.read_bytes())
    begins = [item.position for item in items if isinstance(item, RecordBatch) and item.position]
    chosen = sorted(choice.sample(begins, choice.randint(0, len(begins))))
    return [ByteRange(*bounds) for bounds in pairwise([0, *chosen, None])]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_recorded_and_damaged_files(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SIZES, "chunk", 5000)
    choice = random.Random(11)
    cuts = damaged = 0
    for path in some_of(FILES, 8):
        parts = cut(path, choice)
        rows, damages = content(path, [WHOLE], compiled=compiled)
        found, found_damages = content(path, parts, compiled=compiled)
        assert found.equals(rows), path
        assert found_damages == damages, path
        cuts += len(parts) - 1
        damaged += bool(damages)
    assert cuts > examples(200, 1500)
    assert damaged > examples(12, 100)


@pytest.mark.slow
@settings(max_examples=examples(8, 60))
@given(log=logs(), size=st.integers(200, 3000), seed=st.integers(0, 1 << 32))
def test_any_log(
    log: bytes, size: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "range.log"
    write_fresh(path, log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SIZES, "chunk", size)
        parts = cut(path, random.Random(seed))
        rows, damages = content(path, [WHOLE], compiled=True)
        for compiled in (False, True):
            found, found_damages = content(path, parts, compiled=compiled)
            assert found.equals(rows)
            assert found_damages == damages


@pytest.mark.parametrize("compiled", [False, True])
def test_a_damaged_batch_that_claims_what_stands_behind_the_end(
    compiled: bool, tmp_path: Path
) -> None:
    first, second, third = (batch([commit(offset, "g")]) for offset in range(3))
    longer = second[:8] + (len(second) + 20).to_bytes(4, "big") + second[12:]
    path = tmp_path / "log"
    path.write_bytes(first + longer + third)
    position = len(first + longer)
    rows, damages = content(path, [ByteRange(0, position)], compiled=compiled)
    assert rows["offset"].to_pylist() == [0]
    (damage,) = damages
    assert (damage.position, damage.size, damage.kind) == (len(first), len(second), "bad-length")
    rows, damages = content(path, [ByteRange(position)], compiled=compiled)
    assert (rows["offset"].to_pylist(), damages) == ([2], [])


def test_a_part_that_goes_on_behind_much_damage_ends_where_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are cut from a place then that was not read up to before."""
    monkeypatch.setattr(SIZES, "chunk", 1000)
    monkeypatch.setattr(SIZES, "sound", (100, 100))
    batches = [batch([commit(offset, "g")]) for offset in range(12)]
    path = tmp_path / "log"
    path.write_bytes(batches[0] + b"\xff" * 5000 + b"".join(batches[1:]))
    position = 5000 + sum(map(len, batches[:9]))
    rows, damages = content(path, [ByteRange(0, position)], compiled=True)
    assert rows["offset"].to_pylist() == list(range(9))
    assert [damage.size for damage in damages] == [5000]


@pytest.mark.parametrize("compiled", [False, True])
def test_only_markers_of_the_part_count(compiled: bool, tmp_path: Path) -> None:
    open_part = transaction([commit(0, "g")], 7)
    closed = transaction([commit(1, "g")], 8) + end(2, 8, commits=False)
    path = tmp_path / "log"
    path.write_bytes(open_part + closed + end(3, 7, commits=True))
    bounds = (0, len(open_part), len(open_part + closed))
    tables = [
        pa.Table.from_batches(decode_chunks(path, part=ByteRange(*pair), compiled=compiled))
        for pair in pairwise(bounds)
    ]
    statuses = [table["transaction"].to_pylist() for table in tables]
    assert statuses == [["open"], ["aborted", "aborted"]]
    (scan,) = scan_batches(path, part=ByteRange(len(open_part + closed)), compiled=compiled)
    assert [marker.offset for marker in scan.markers] == [3]


def test_one_worker_is_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(workers: int) -> None:
        raise AssertionError(f"{workers} threads")

    monkeypatch.setattr(chunk_reader, "ThreadPoolExecutor", refuse)
    path = tmp_path / "log"
    path.write_bytes(transaction([commit(0, "g")], 7) + end(1, 7, commits=True))
    rows = pa.Table.from_batches(decode_chunks(path, compiled=True, workers=1))
    assert rows["transaction"].to_pylist() == ["committed", "committed"]
    with pytest.raises(AssertionError, match="2 threads"):
        list(decode_chunks(path, compiled=True, workers=2))
