"""SQL of views for DuckDB: the tables of a warehouse with timestamps and comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kgroup.history.sql.engine import in_order, parquet_rows, quoted, sql_type
from kgroup.history.warehouse.store import Location
from kgroup.history.warehouse.table import PLACE_MEANINGS, TABLES, WarehouseTable

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Years 1 to 9999: what other programs can show."""


def view_statements(build: int, files: Mapping[str, Sequence[Location]]) -> Iterator[str]:
    """Yield SQL that creates a view of each table, for DuckDB without extensions.

    Args:
        build: number of the build that the files belong to.
        files: Parquet files of each table.
    """
    yield (
        f"-- Views of the tables after build {build}. Print them again after later builds: files\n"
        "-- that a build replaces are removed an hour later at the earliest.\n"
    )
    for table in TABLES.values():
        yield _view(table, [str(path) for path in in_order(files.get(table.name, ()))])
        yield f"COMMENT ON VIEW {table.name} IS {quoted(table.row)};\n"
        for name, meaning in column_meanings(table).items():
            yield f"COMMENT ON COLUMN {table.name}.{name} IS {quoted(meaning)};\n"


def column_meanings(table: WarehouseTable) -> dict[str, str]:
    """Return the meaning of each column of a view, by name and in order."""
    times = {
        time: f"{name} as a timestamp in UTC; null if unknown, and outside of the years 1 to 9999"
        for name, time in table.times.items()
    }
    own = {name: meaning for name, (_, meaning) in table.columns.items()}
    return {**own, **PLACE_MEANINGS, **times}


def _view(table: WarehouseTable, paths: Sequence[str]) -> str:
    columns = [
        *table.full_schema.names,
        *(
            f"CASE WHEN {name} BETWEEN {_FIRST_MS} AND {_LAST_MS} THEN epoch_ms({name}) END "
            f"AS {time}"
            for name, time in table.times.items()
        ),
    ]
    select = ",\n  ".join(columns)
    if paths:
        source = parquet_rows(table, paths)
    else:
        empty = (f"NULL::{sql_type(field.type)} AS {field.name}" for field in table.full_schema)
        source = f"(SELECT {', '.join(empty)} WHERE false)"
    return f"\nCREATE OR REPLACE VIEW {table.name} AS SELECT\n  {select}\nFROM {source};\n"
