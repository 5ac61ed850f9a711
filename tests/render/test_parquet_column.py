"""What is encoded for Parquet is what Arrow's own reader finds in it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar.schema import DECODED
from kgroup.columnar.segment import decode_chunks
from kgroup.kernel.compiled import kernels
from kgroup.kernel.memory import PADDING
from kgroup.protocol.batch.batch import Damage
from kgroup.render.record import parquet, parquet_column
from kgroup.render.record.parquet import write_parquet
from kgroup.render.record.record import RECORD_COLUMNS
from tests.columnar.random_log import logs
from tests.examples import examples, some_of
from tests.fresh_file import write_fresh

NAMES = [column.name for column in RECORD_COLUMNS]
SIZES = (1, 7, 8, 9, 127, 128, 129, 130, 160, 161, 257, 400)
"""Around those of a block, its parts, and a byte of bits."""


def written(batch: pa.RecordBatch, path: Path, *, as_it_is: bool, compiled: bool) -> pq.ParquetFile:
    """Write a batch as a row group of its own, or as one of the small ones put together."""
    path.unlink(missing_ok=True)  # see `write_fresh`
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_ROWS", 0 if as_it_is else 1 << 20)
        patch.setattr(parquet_column, "loaded", kernels if compiled else lambda: None)
        parts = [batch] if as_it_is else [batch.slice(0, 5), batch.slice(5)]
        write_parquet(path, lambda function: map(function, parts), batch.schema.names)
    return pq.ParquetFile(path)


def check(cells: list[Any], name: str, path: Path) -> None:
    column = pa.array([None, *cells], DECODED.field(name).type)[1:]  # which has an offset
    expected = pa.array(cells, getattr(column.type, "value_type", column.type))
    batch = pa.RecordBatch.from_arrays([column], schema=pa.schema([DECODED.field(name)]))
    for as_it_is, compiled in product((True, False), repeat=2):
        file = written(batch, path, as_it_is=as_it_is, compiled=compiled)
        assert file.schema_arrow.field(name).type == DECODED.field(name).type
        found = file.read()[name]
        assert found.cast(expected.type).equals(pa.chunked_array([expected])), found
        chunk = file.metadata.row_group(0).column(0)
        assert (file.metadata.num_rows, chunk.num_values) == (len(cells), len(cells))
        statistics = chunk.statistics
        assert statistics.null_count == cells.count(None)
        known = [cell for cell in cells if cell is not None]
        if pa.types.is_integer(column.type) and known:
            assert (statistics.min, statistics.max) == (min(known), max(known))


@pytest.mark.parametrize("name", ["committed_offset", "topic_partition", "key_type"])
@settings(max_examples=examples(12))
@given(data=st.data())
def test_any_integers(name: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    bits = DECODED.field(name).type.bit_width
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    kinds = [st.integers(low, high), st.integers(-3, 4), st.integers(-200, 200)]
    cell = data.draw(st.sampled_from([*kinds, st.sampled_from([low, high, 0])]))
    some = data.draw(st.lists(data.draw(st.sampled_from([cell, cell | st.none()])), min_size=1))
    size = data.draw(st.sampled_from(SIZES))
    check((some * size)[:size], name, tmp_path_factory.getbasetemp() / "integers.parquet")


@pytest.mark.parametrize("step", [0, 1, 255, 256, 257, 65_536, 1 << 31, 1 << 33])
def test_integers_that_rise(step: int, tmp_path: Path) -> None:
    random = np.random.default_rng(step)
    for size in some_of(SIZES, 2):
        numbers = np.cumsum(random.integers(0, step + 1, size)) + (1 << 40)
        check(numbers.tolist(), "offset", tmp_path / "x.parquet")


@pytest.mark.parametrize("name", ["transaction", "value_version", "topic_partition", "offset"])
def test_what_is_not_null_is_picked(name: str, tmp_path: Path) -> None:
    """Numbers of each size (the first column's are one byte), few, half and most of them null."""
    random = np.random.default_rng(5)
    texts = ["committed", "aborted", "open"]
    for size, nulls in some_of(list(product(SIZES, (0.02, 0.5, 0.98))), 5):
        numbers = random.integers(0, 3 if name == "transaction" else 300, size).tolist()
        cells = [texts[number] if name == "transaction" else number for number in numbers]
        is_null = (random.random(size) < nulls).tolist()
        some = [None if null else cell for cell, null in zip(cells, is_null, strict=True)]
        check(some, name, tmp_path / "x.parquet")


@settings(max_examples=examples(12))
@given(data=st.data())
def test_runs(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Runs of like and of unlike numbers, of any length, follow one another."""
    length = st.sampled_from([1, 7, 8, 9, 16, 63, 64, 503, 504, 505, 1000])
    runs = data.draw(st.lists(st.tuples(length, st.booleans()), min_size=1, max_size=6))
    cells = [index if unlike else 3 for size, unlike in runs for index in range(size)]
    check(
        [cell % 200 for cell in cells],
        "topic_partition",
        tmp_path_factory.getbasetemp() / "runs.parquet",
    )
    check(
        [f"text {cell}" for cell in cells],
        "group",
        tmp_path_factory.getbasetemp() / "runs.parquet",
    )


@pytest.mark.parametrize("name", ["group", "value_json"])
@settings(max_examples=examples(12))
@given(data=st.data())
def test_any_texts(name: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    cell = data.draw(
        st.sampled_from([st.text(), st.text() | st.none(), st.sampled_from(["", "é"])])
    )
    some = data.draw(st.lists(cell, min_size=1))
    size = data.draw(st.sampled_from(SIZES))
    check((some * size)[:size], name, tmp_path_factory.getbasetemp() / "texts.parquet")


@pytest.mark.parametrize("most", [1, 200, 60_000, 1 << 31, 1 << 62])
def test_nothing_that_memory_held_gets_into_a_page(most: int) -> None:
    """What fills up a block is read by nobody, and would be parts of other records."""
    for count in (2, 30, 33, 130):
        numbers = np.random.default_rng(count).integers(0, most, count, np.int64)
        pages = []
        for held in (0, 255):
            out = np.full(9 * (count + 128) + PADDING, held, np.uint8)
            start = out.ctypes.data
            end = kernels().pack_differences(numbers.ctypes.data, count, start)
            pages.append(out[: end - start].tobytes())
        assert pages[0] == pages[1]


@pytest.mark.parametrize("nulls", [{0}, {1}, {3}, {0, 1}, {1, 2}, {0, 3}])
def test_a_text_behind_null_is_left_out(nulls: set[int], tmp_path: Path) -> None:
    texts = ["one", "", "three", "four"]
    is_known = np.array([index not in nulls for index in range(4)], np.uint8)
    column = pa.array(texts).buffers()
    column[0] = pa.py_buffer(np.packbits(is_known, bitorder="little"))
    batch = pa.RecordBatch.from_arrays(
        [pa.StringArray.from_buffers(4, column[1], column[2], column[0])], names=["value_json"]
    )
    file = written(batch, tmp_path / "x.parquet", as_it_is=True, compiled=True)
    cells = [None if index in nulls else text for index, text in enumerate(texts)]
    assert file.read()["value_json"].to_pylist() == cells


@pytest.mark.parametrize("count", [1, 255, 256, 257, 65_535, 65_536, 65_537])
def test_dictionaries_of_every_size(count: int, tmp_path: Path) -> None:
    check([f"text {number}" for number in range(count)], "group", tmp_path / "x.parquet")


@settings(max_examples=examples(4))
@given(log=logs(), as_it_is=st.booleans(), compiled=st.booleans())
def test_any_log(
    log: bytes, as_it_is: bool, compiled: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.log"
    write_fresh(path, log)
    for part in decode_chunks(path, partition=7, compiled=False):
        if not isinstance(part, Damage):
            rows = part.select(NAMES)
            target = path.with_suffix(".parquet")
            file = written(rows, target, as_it_is=as_it_is, compiled=compiled)
            assert file.read().to_pylist() == rows.to_pylist()


def test_only_what_shrinks_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    sample = Path(__file__).parents[2] / "kgroup/sample/log-dir"
    segment = max(sample.glob("__consumer_offsets-*/*.log"), key=lambda found: found.stat().st_size)
    rows = next(part for part in decode_chunks(segment) if not isinstance(part, Damage))
    file = written(rows.select(NAMES), path, as_it_is=True, compiled=True)
    group = file.metadata.row_group(0)
    chunks = [group.column(index) for index in range(len(NAMES))]
    codecs = {chunk.path_in_schema: chunk.compression for chunk in chunks}
    assert {name for name in NAMES if codecs[name] == "SNAPPY"} == {"key_json", "value_json"}
    assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)


@pytest.mark.parametrize(("width", "out_width"), [(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (4, 4)])
def test_nothing_that_stands_behind_numbers_gets_into_runs(width: int, out_width: int) -> None:
    for count in (1, 7, 9, 20):
        numbers = np.random.default_rng(count).integers(3, 100, count).astype(f"i{width}")
        pages = []
        for held in (-128, 127):
            behind = np.concatenate([numbers, np.full(8, held, numbers.dtype)])
            out = np.full(out_width * (count + 8) + count + 2 * PADDING, held & 0xFF, np.uint8)
            address, start = behind.ctypes.data, out.ctypes.data
            end = kernels().pack_runs(address, width, 3, count, start, out_width)
            pages.append(out[: end - start].tobytes())
        assert pages[0] == pages[1]
