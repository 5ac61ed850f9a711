"""The files of a warehouse, those that count and those that lie there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from kgroup.history.warehouse.warehouse import read_warehouse
from tests.history.builds import SAMPLE
from tests.history.log_copy import read_log, write_log


def write_halves(early: Path, late: Path) -> None:
    """Write a part of the sample as it once was, and as it is, in some segments."""
    log = {number: batches for number, batches in read_log(SAMPLE).items() if number > 1}
    write_log(early, {number: batches[: len(batches) // 2] for number, batches in log.items()}, 1)
    write_log(late, log, 1)


def files_on_disk(root: Path) -> set[str]:
    paths = (path for path in root.rglob("*.parquet") if "_delta_log" not in path.parts)
    return {path.relative_to(root).as_posix() for path in paths}


def files_that_count(root: Path) -> set[str]:
    """The files that are valid, or kept for readers."""
    with read_warehouse(root) as warehouse:
        return {path for path in warehouse.listed() if path.endswith(".parquet")}


def state_file(root: Path, cluster: str | None = None) -> Path:
    """The file of the state of a cluster, or of the warehouse."""
    table = DeltaTable(root / "_kgroup" / "state")
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    [path] = [row["path"] for row in rows if row["min.cluster"] == cluster]
    return root / "_kgroup" / "state" / str(path)


def change_state(root: Path, cluster: str | None, change: Callable[[Any], Any]) -> Path:
    path = state_file(root, cluster)
    [text] = pq.read_table(path, partitioning=None)["state"].to_pylist()
    text = json.dumps(change(json.loads(text)))
    pq.write_table(pa.table({"state": [text]}), path)
    return path
