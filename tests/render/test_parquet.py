from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar.schema import DECODED, ColumnBuilder
from kgroup.columnar.segment import decode_chunks
from kgroup.errors import UsageError
from kgroup.protocol.batch.batch import Damage
from kgroup.render import parquet
from kgroup.render.record import RECORD_COLUMNS, RecordBatches
from tests.columnar.random_log import logs
from tests.examples import examples
from tests.fresh_file import write_fresh
from tests.operation.log_files import commit

T = TypeVar("T")

NAMES = [column.name for column in RECORD_COLUMNS]
SAMPLE = Path(__file__).parents[2] / "kgroup/sample/log-dir"


def rows(*groups: str) -> pa.RecordBatch:
    builder = ColumnBuilder()
    for offset, group in enumerate(groups):
        record = commit(offset, group)
        builder.add(record.key, record.value, offset=offset)
    return builder.finish()


def write_parquet(path: Path, rows: RecordBatches, names: Sequence[str]) -> int:
    with path.open("wb") as file:
        return parquet.write_parquet(file, rows, names)


def of(*batches: pa.RecordBatch) -> RecordBatches:
    return lambda function: map(function, batches)


def group_sizes(file: pq.ParquetFile) -> list[int]:
    groups = range(file.metadata.num_row_groups)
    return [file.metadata.row_group(group).num_rows for group in groups]


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(log=logs(), compiled=st.booleans(), cut=st.integers(0, 9))
def test_any_log_is_read_back(
    log: bytes, compiled: bool, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whole batches, and such as are put together, as pyarrow and DuckDB read them."""
    path = tmp_path_factory.getbasetemp() / "any.log"
    target = path.with_suffix(".parquet")
    write_fresh(path, log)
    for part in decode_chunks(path, partition=7, compiled=compiled):
        if isinstance(part, Damage):
            continue
        target.unlink(missing_ok=True)  # see `write_fresh`
        assert write_parquet(target, of(part.slice(0, cut), part.slice(cut)), ()) == len(part)
        file = pq.ParquetFile(target)
        given = part.select(NAMES).to_pylist()
        assert file.read().to_pylist() == given
        assert file.schema_arrow.equals(pa.schema([DECODED.field(name) for name in NAMES]))
        found = duckdb.sql(f"SELECT * FROM '{target}'")
        assert found.columns == NAMES
        assert found.fetchall() == [tuple(row.values()) for row in given]
        for index, name in enumerate(NAMES):
            cells = [row[name] for row in given]
            known = [cell for cell in cells if isinstance(cell, int)]
            limits = file.metadata.row_group(0).column(index).statistics
            if known:
                assert (limits.min, limits.max) == (min(known), max(known))
                assert limits.null_count == cells.count(None)


@pytest.mark.slow
def test_small_batches_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    large = pa.concat_batches([rows("a", "b", "c", "d")] * (1 << 15))
    small = [rows("e")] * 50
    write_parquet(path, of(rows(), large, *small, rows(), large, *small), ())
    file = pq.ParquetFile(path)
    assert group_sizes(file) == [1 << 17, 50, 1 << 17, 50]
    assert file.read_row_group(2)["group"].to_pylist() == ["a", "b", "c", "d"] * (1 << 15)


def test_what_is_put_together_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    some = rows(*(f"group-{number}-{'x' * 1000}" for number in range(1000)))
    write_parquet(path, of(*[some] * 10), ())
    assert group_sizes(pq.ParquetFile(path)) == [3000, 3000, 3000, 1000]


def test_what_few_rows_do_not_have_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    chosen = rows(*(f"group-{number}" for number in range(1000)))
    write_parquet(path, of(chosen.slice(3, 1), chosen.slice(5, 1)), ())
    assert b"group-3" in path.read_bytes()
    assert b"group-4" not in path.read_bytes()


@pytest.mark.slow
def test_long_names_that_come_again_and_offsets_that_rise_take_little(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    names = rows(*(f"group-{number}-{'x' * 100}" for number in range(1 << 14)))
    write_parquet(path, of(pa.concat_batches([names] * 5)), ("group", "offset"))
    assert path.stat().st_size < (120 << 14) + 4 * 5 * (1 << 14)


def test_only_what_shrinks_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    segment = max(SAMPLE.glob("__consumer_offsets-*/*.log"), key=lambda file: file.stat().st_size)
    batches = [part for part in decode_chunks(segment) if not isinstance(part, Damage)]
    write_parquet(path, of(*batches), ())
    group = pq.ParquetFile(path).metadata.row_group(0)
    codecs = {name: group.column(index).compression for index, name in enumerate(NAMES)}
    assert {name for name in NAMES if codecs[name] == "SNAPPY"} == {"key_json", "value_json"}
    assert set(codecs.values()) == {"SNAPPY", "UNCOMPRESSED"}


def test_batches_with_dictionaries_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert write_parquet(path, of(rows("a", "b"), rows(), rows("c")), ()) == 3
    table = pq.read_table(path)
    assert table["group"].to_pylist() == ["a", "b", "c"]
    assert table.schema.names == [column.name for column in RECORD_COLUMNS]
    assert table.schema.field("commit_timestamp_ms").type == pa.int64()


def test_a_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert write_parquet(path, of(), ("offset", "group")) == 0
    assert pq.read_table(path).schema.names == ["offset", "group"]


def test_unknown_columns_are_told_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with pytest.raises(UsageError, match="no column detail; there are: partition, offset,"):
        write_parquet(path, of(), ("detail",))
    assert path.read_bytes() == b""
