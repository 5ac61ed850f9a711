"""Files of a warehouse with the rows that a test gives, written by pyarrow alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kgroup.history.warehouse.state import ClusterState
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import WrittenFile, limits_of
from kgroup.history.warehouse.warehouse import write_warehouse

NO_DAY = "none"


def escaped(name: str) -> str:
    """Return the name of a cluster as the name of a folder."""
    return "".join(
        letter
        if letter.isascii() and (letter.isalnum() or letter == "-")
        else "".join(f"_{byte:02X}" for byte in letter.encode())
        for letter in name
    )


def write_rows(
    folder: Path, rows: Mapping[str, Iterable[Mapping[str, object]]], *, cluster: str = "test"
) -> dict[str, list[Path]]:
    """Write rows of tables under a folder, by the days of their times.

    Args:
        folder: the warehouse.
        rows: of each table; columns that are left out are null.
        cluster: whose they are.

    Returns:
        The files of each table.
    """
    files: dict[str, list[Path]] = {}
    for name, of_table in rows.items():
        table = TABLES[name]
        by_day: dict[str, list[Mapping[str, object]]] = {}
        for row in of_table:
            assert set(row) <= set(table.columns), sorted(row)
            time_ms = row.get(table.day)
            day = NO_DAY
            if isinstance(time_ms, int):
                day = datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()
            by_day.setdefault(day, []).append(row)
        for day, of_day in by_day.items():
            place = folder / name / escaped(cluster) / day
            place.mkdir(parents=True, exist_ok=True)
            path = place / "1-1-1.parquet"
            date = None if day == NO_DAY else datetime.fromisoformat(day).date()
            full = [
                {column: row.get(column) for column in table.columns}
                | {"cluster": cluster, "date": date}
                for row in of_day
            ]
            pq.write_table(pa.Table.from_pylist(full, schema=table.full_schema), path)
            files.setdefault(name, []).append(path)
    return files


def make_warehouse(
    root: Path, rows: Mapping[str, Mapping[str, Iterable[Mapping[str, object]]]]
) -> Path:
    """Make a warehouse with rows of tables, by cluster."""
    states = {}
    for cluster, of_tables in rows.items():
        with write_warehouse(root) as writer:
            files = write_rows(root, of_tables, cluster=cluster)
            states[cluster] = ClusterState(
                tuple(
                    WrittenFile(
                        table=name,
                        cluster=cluster,
                        path=path.relative_to(root).as_posix(),
                        rows=pq.read_metadata(path).num_rows,
                        size=path.stat().st_size,
                        limits=limits_of(pq.read_metadata(path)),
                    )
                    for name, paths in files.items()
                    for path in paths
                ),
                {},
                {},
            )
            writer.commit(states, {})
    return root
