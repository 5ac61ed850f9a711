"""Every record is in the tables, with every field: compared with plain Python."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings

from kgroup.columnar.schema import records
from kgroup.columnar.segment import decode_chunks
from kgroup.history.build.fact import facts_of
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter
from tests.columnar.random_log import logs
from tests.examples import examples, some_of
from tests.history.brute_force import facts_of_record

ROOT = Path(__file__).parents[2]
RECORDED = sorted(
    {
        *(ROOT / "kgroup" / "sample" / "log-dir").glob("__consumer_offsets-*/*.log"),
        *(ROOT / "tests" / "data").glob("*/__consumer_offsets-*/*.log"),
        *(ROOT / "tests" / "data").glob("*/*/__consumer_offsets-*/*.log"),
    }
)

Rows = dict[str, list[dict[str, Any]]]


def decoded(path: Path, *, compiled: bool) -> list[pa.RecordBatch]:
    chunks = decode_chunks(path, partition=3, compiled=compiled)
    return [part for part in chunks if isinstance(part, pa.RecordBatch)]


def rows_of(facts: Iterable[dict[str, pa.Table]]) -> Rows:
    found: Rows = {}
    for tables in facts:
        for name, table in tables.items():
            assert table.schema.names == TABLES[name].schema.names
            found.setdefault(name, []).extend(table.cast(TABLES[name].schema).to_pylist())
    return {name: [_parsed(row) for row in rows] for name, rows in found.items()}


def expected(batches: Iterable[pa.RecordBatch]) -> Rows:
    rows: Rows = {}
    for batch in batches:
        for record in records(batch):
            for name, row in facts_of_record(record):
                assert row.keys() == set(TABLES[name].schema.names)
                rows.setdefault(name, []).append(row)
    return rows


def limits(rows: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    offsets = [row["log_offset"] for row in rows]
    assert {row["offsets_partition"] for row in rows} == {3}
    return {3: (min(offsets), max(offsets))}


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: orjson.loads(cell) if name.endswith("_json") and cell is not None else cell
        for name, cell in row.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_recorded_records_are_in_the_tables(compiled: bool) -> None:
    assert len(RECORDED) > 100
    seen: set[str] = set()
    for path in some_of(RECORDED, 8):
        batches = decoded(path, compiled=compiled)
        rows = rows_of(map(facts_of, batches))
        assert rows == expected(batches), path
        seen |= rows.keys()
    assert seen == {
        "offset_commits",
        "group_generations",
        "members",
        "consumer_group_epochs",
        "tombstones",
        "transactions",
    }


@pytest.mark.slow
@given(log=logs())
@settings(max_examples=examples(5, 40), deadline=None)
def test_random_records_are_in_the_tables(log: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.log"
        path.write_bytes(log)
        batches = decoded(path, compiled=False)
        assert rows_of(map(facts_of, batches)) == expected(batches)
        with FactWriter(Path(folder) / "tables", "eu/1", 7) as writer:
            for batch in batches:
                writer.add(facts_of(batch))
            files = writer.finish()
        written: Rows = {}
        for file in files:
            table = ds.dataset(Path(folder) / "tables" / file.path).to_table()
            assert table.schema.equals(TABLES[file.table].schema)
            assert len(table) == file.rows
            assert file.offsets == limits(table.to_pylist())
            written.setdefault(file.table, []).extend(map(_parsed, table.to_pylist()))
        assert {name: sorted(rows, key=repr) for name, rows in written.items()} == {
            name: sorted(rows, key=repr) for name, rows in expected(batches).items()
        }
