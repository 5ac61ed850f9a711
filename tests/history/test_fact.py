"""Every record is in the tables, with every field: compared with plain Python."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from kgroup.columnar.schema import records
from kgroup.columnar.segment import decode_chunks
from kgroup.history.build.fact import facts_of
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter, Limits
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


def limits(rows: pa.Table) -> dict[str, Limits]:
    found = {}
    for name in {"offsets_partition", "log_offset", "time_ms", "partition"} & {*rows.column_names}:
        values = [value for value in rows[name].to_pylist() if value is not None]
        lowest, highest = min(values, default=None), max(values, default=None)
        found[name] = Limits(lowest, highest, len(rows) - len(values))
    return found


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
            assert table.schema.equals(TABLES[file.table].full_schema)
            assert table["cluster"].unique().to_pylist() == ["eu/1"]
            assert [str(day) for day in table["date"].unique().to_pylist()] == [str(file.date)]
            table = table.drop_columns(["cluster", "date"])
            assert len(table) == file.rows
            assert file.limits == limits(table)
            written.setdefault(file.table, []).extend(map(_parsed, table.to_pylist()))
        assert {name: sorted(rows, key=repr) for name, rows in written.items()} == {
            name: sorted(rows, key=repr) for name, rows in expected(batches).items()
        }


DAY_MS = 86_400_000


def tombstones(days: Sequence[int | None]) -> pa.Table:
    """Return a tombstone of a group of its own for each day; texts are dictionary-encoded."""
    names = [f"group-{number}" for number in range(len(days))]
    columns = {
        "offsets_partition": pa.array([7] * len(days), pa.int32()),
        "log_offset": pa.array(range(len(days)), pa.int64()),
        "time_ms": pa.array([None if day is None else day * DAY_MS for day in days], pa.int64()),
        "group_id": pa.array(names).dictionary_encode(),
        "type": pa.array(["GroupMetadata"] * len(days)).dictionary_encode(),
    }
    schema = TABLES["tombstones"].schema
    rest = {name: pa.nulls(len(days), schema.field(name).type) for name in schema.names}
    return pa.table({name: (rest | columns)[name] for name in schema.names})


def test_a_file_has_the_rows_of_its_day_and_only_their_texts(tmp_path: Path) -> None:
    days = [3, 1, None, 3, 2, 1, 3]
    with FactWriter(tmp_path, "c", 1) as writer:
        for _ in range(2):
            writer.add({"tombstones": tombstones(days)})
        files = writer.finish()
    found: dict[int | None, list[int]] = {}
    for file in files:
        read = pq.ParquetFile(tmp_path / file.path, read_dictionary=["group_id"]).read()
        group_ids = read["group_id"].combine_chunks()
        assert sorted(group_ids.dictionary.to_pylist()) == sorted({*group_ids.to_pylist()})
        offsets = read["log_offset"].to_pylist()
        assert group_ids.to_pylist() == [f"group-{offset}" for offset in offsets]
        time_ms = read["time_ms"][0].as_py()
        found[None if time_ms is None else time_ms // DAY_MS] = offsets
        assert (file.partitions, file.offsets) == (range(7, 8), (min(offsets), max(offsets)))
        day = None if time_ms is None else f"{datetime.fromtimestamp(time_ms / 1000, UTC):%F}"
        assert (file.date, file.is_open) == (day, False)
    assert found == {None: [2, 2], 1: [1, 5, 1, 5], 2: [4, 4], 3: [0, 3, 6, 0, 3, 6]}


def test_rows_of_one_day_join_those_of_several(tmp_path: Path) -> None:
    """Of one type, as the decoder has it: few texts have codes of a byte."""
    types = pa.array(["GroupMetadata"]).dictionary_encode()
    code = pa.array([0], pa.int8())
    with FactWriter(tmp_path, "c", 1) as writer:
        for days in ([1], [1, 2], [2]):
            rows = tombstones(days)
            codes = pa.concat_arrays([code] * len(days))
            short = pa.DictionaryArray.from_arrays(codes, types.dictionary)
            at = rows.schema.get_field_index("type")
            writer.add({"tombstones": rows.set_column(at, "type", short)})
        files = writer.finish()
    assert [file.rows for file in files] == [2, 2]


def test_assignments_that_have_not_ended_are_in_one_file(tmp_path: Path) -> None:
    schema = TABLES["assignments"].schema
    rows = [
        dict.fromkeys(schema.names)
        | {"offsets_partition": 7, "from_ms": day * DAY_MS, "from_log_offset": day}
        for day in (3, 1, 2)
    ]
    with FactWriter(tmp_path, "c", 1) as writer:
        given = pa.Table.from_pylist(rows, schema)
        writer.add({"assignments": given}, is_open=True)
        writer.add({"assignments": given})
        files = writer.finish()
    opened, *ended = files
    assert (opened.is_open, opened.rows, opened.date, opened.offsets) == (True, 3, None, (1, 3))
    assert "/none-open/" in opened.path
    assert [file.rows for file in ended] == [1, 1, 1]


def test_files_tell_which_groups_they_do_not_have(tmp_path: Path) -> None:
    """Bloom filters, by which engines pass over row groups."""
    with FactWriter(tmp_path, "c", 1) as writer:
        writer.add({"tombstones": tombstones([1] * 200)})
        (file,) = writer.finish()

    def excludes(group_id: str) -> bool:
        sql = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'group_id', ?)"
        ((answer,),) = duckdb.execute(sql, [str(tmp_path / file.path), group_id]).fetchall()
        return bool(answer)

    assert not any(excludes(f"group-{number}") for number in range(200))
    assert sum(excludes(f"other-{number}") for number in range(200)) > 180
