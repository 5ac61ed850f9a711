"""The files of a warehouse, those that count and those that lie there."""

from __future__ import annotations

from pathlib import Path

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
