"""All tables of a warehouse in plain Python, record by record; and those that a build made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pyarrow.parquet as pq

from kgroup.columnar.schema import records
from kgroup.columnar.segment import decode_chunks
from kgroup.history.warehouse.store import Location, open_input
from kgroup.history.warehouse.warehouse import read_warehouse
from kgroup.model.delta import Delta
from kgroup.protocol.batch.batch import Damage
from tests.history.brute_force import facts_of_record
from tests.history.log_copy import Log, write_log
from tests.history.owner_oracle import assignments

LAST_MS = 253_402_300_800_000
"""The end of the year 9999."""

Tables = dict[str, list[dict[str, Any]]]
"""Rows of each table that has any, in one order."""


def expected_tables(log: Log, topic_names: dict[str, str]) -> Tables:
    """Return the tables that one cluster's log makes, but for the damage."""
    with TemporaryDirectory() as folder:
        write_log(Path(folder), log)
        logs = [
            [
                record
                for part in decode_chunks(path, partition=partition, compiled=False)
                if not isinstance(part, Damage)
                for record in records(part)
            ]
            for partition in log
            for path in (Path(folder) / f"__consumer_offsets-{partition}").iterdir()
        ]
    names = dict(topic_names)
    for one in logs:
        delta = Delta()
        for record in one:
            delta.replay(record)
        names |= delta.topic_names
    tables: Tables = {}
    for one in logs:
        for record in one:
            for name, row in facts_of_record(record):
                tables.setdefault(name, []).append(row)
        tables.setdefault("assignments", []).extend(assignments(one, names))
    return _in_order(tables)


def read_tables(root: Location, cluster: str) -> Tables:
    """Read the tables of a cluster from a warehouse, but for the damage."""
    tables: Tables = {}
    with read_warehouse(root) as warehouse:
        files = warehouse.files(cluster)
        for name, paths in files.items():
            for path in paths:
                for row in pq.ParquetFile(open_input(path)).read().to_pylist():
                    assert row.pop("cluster") == cluster
                    assert row.pop("date") == _date(name, row)
                    tables.setdefault(name, []).append(_parsed(row))
    tables.pop("damage", None)
    return _in_order(tables)


def _date(table: str, row: dict[str, Any]) -> date | None:
    """The day of a row's time; assignments that have not ended have none."""
    time_ms = row["from_ms" if table == "assignments" else "time_ms"]
    is_open = table == "assignments" and row["to_log_offset"] is None
    if time_ms is None or is_open or not 0 <= time_ms < LAST_MS:
        return None
    return datetime.fromtimestamp(time_ms // 1000, UTC).date()


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: orjson.loads(cell) if name.endswith("_json") and cell is not None else cell
        for name, cell in row.items()
    }


def _in_order(tables: Tables) -> Tables:
    def place(row: dict[str, Any]) -> str:
        return repr(sorted(row.items()))

    return {name: sorted(rows, key=place) for name, rows in tables.items() if rows}


def differences(found: Tables, expected: Tables) -> Sequence[object]:
    """Say what one has and the other has not, for people."""
    return [
        (name, [row for row in one.get(name, []) if row not in other.get(name, [])][:3])
        for one, other in ((found, expected), (expected, found))
        for name in one
        if one.get(name) != other.get(name)
    ]
