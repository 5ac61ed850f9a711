"""Other engines read the tables by their Delta logs, also while a build is at work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.delta_log import DeltaLog
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.warehouse import read_warehouse
from tests.history.build_file import write_halves
from tests.history.builds import build

CLUSTERS = ("eu/1 ö", "007", "a=b%20_2F", "__HIVE_DEFAULT_PARTITION__")
"""Names that some engines would take for numbers, nulls, or parts of paths."""


def by_duckdb(path: Path) -> pa.Table:
    dataset = DeltaTable(path).to_pyarrow_dataset()  # noqa: F841  (DuckDB finds it by its name)
    return duckdb.sql("SELECT * FROM dataset").to_arrow_table()


READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    "duckdb": by_duckdb,
    "polars": lambda path: polars.read_delta(str(path)).to_arrow(),
    "pyarrow": lambda path: DeltaTable(path).to_pyarrow_table(),
}


def in_order(rows: pa.Table) -> list[str]:
    names = sorted(rows.column_names)
    return sorted(repr([row[name] for name in names]) for row in rows.to_pylist())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of several clusters and builds."""
    folder = tmp_path_factory.mktemp("readers")
    early, late = folder / "early", folder / "late"
    write_halves(early, late)
    for cluster in CLUSTERS:
        for source in (early, late):
            build(folder / "w", source, cluster=cluster)
    return folder / "w"


@pytest.mark.parametrize("reader", READERS)
def test_each_row_is_there_with_its_cluster_and_day(root: Path, reader: str) -> None:
    with read_warehouse(root) as warehouse, DuckEngine(warehouse.files()) as engine:
        for name in TABLES:
            expected = engine.query(f"SELECT * FROM {name}", is_trusted=True)
            assert in_order(READERS[reader](root / name)) == in_order(expected), name
            if name in ("offset_commits", "assignments"):
                assert set(expected["cluster"].to_pylist()) == set(CLUSTERS)


def test_conditions_skip_no_row(root: Path) -> None:
    """Engines pass over files by the limits in the log."""
    rows = READERS["pyarrow"](root / "assignments")  # noqa: F841
    expected = duckdb.sql("SELECT cluster, to_ms, from_log_offset FROM rows").fetchall()
    for condition, meets in (
        ("to_ms IS NULL", lambda row: row[1] is None),
        ("to_ms IS NOT NULL AND cluster = '007'", lambda row: row[1] and row[0] == "007"),
        ("from_log_offset > 9", lambda row: row[2] > 9),
        ("date IS NULL", lambda row: row[1] is None),
    ):
        wanted = sum(1 for row in expected if meets(row))
        assert 0 < wanted < len(expected), condition
        dataset = DeltaTable(root / "assignments").to_pyarrow_dataset()  # noqa: F841
        found = duckdb.sql(f"SELECT COUNT(*) FROM dataset WHERE {condition}").fetchall()
        assert found == [(wanted,)], condition
        lazy = polars.scan_delta(str(root / "assignments"))
        assert polars.SQLContext(t=lazy).execute(
            f"SELECT COUNT(*) AS n FROM t WHERE {condition}"
        ).collect()["n"].to_list() == [wanted], condition


def test_a_table_is_whole_between_two_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that takes apart and merges files is watched from another thread."""
    early, late = tmp_path / "early", tmp_path / "late"
    write_halves(early, late)
    build(tmp_path / "w", early)
    build(tmp_path / "after", early)
    build(tmp_path / "after", late)
    states = [
        {name: in_order(DeltaTable(root / name).to_pyarrow_table()) for name in TABLES}
        for root in (tmp_path / "w", tmp_path / "after")
    ]
    seen: list[tuple[str, int]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for name in TABLES:
                rows = in_order(DeltaTable(tmp_path / "w" / name).to_pyarrow_table())
                seen.append((name, [state[name] for state in states].index(rows)))

    commit = DeltaLog.commit

    def slow(log: DeltaLog, *args: Any) -> bool:
        count = len(seen) + len(TABLES)
        while len(seen) < count and watcher.is_alive():
            ended.wait(0.01)
        return commit(log, *args)

    monkeypatch.setattr(DeltaLog, "commit", slow)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        build(tmp_path / "w", late)
    finally:
        ended.set()
        watcher.join()
    assert {("offset_commits", 0), ("offset_commits", 1), ("assignments", 1)} <= set(seen)
    assert len(seen) > 3 * len(TABLES)
