"""Recorded logs, and engines that ask the warehouses of logs; see `recorded_engine`, a fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.warehouse import read_warehouse
from kgroup.model.problem import ProblemLog
from kgroup.model.record import DecodedRecord
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import read_segment
from tests.history.builds import build

Ask = Callable[[Path], DuckEngine]
"""Gives the engine of a recorded log."""

Built = Callable[[Path], Path]
"""Gives the warehouse of a recorded log, to be read only."""


@contextmanager
def open_engine(root: Path) -> Iterator[DuckEngine]:
    """Ask a warehouse."""
    with read_warehouse(root) as warehouse, DuckEngine(warehouse.files()) as engine:
        yield engine


@contextmanager
def engine_of_log(directory: Path, root: Path) -> Iterator[DuckEngine]:
    """Build a warehouse of cluster "c", and ask it."""
    build(root, directory)
    with open_engine(root) as engine:
        yield engine


@cache
def log_of(directory: Path) -> dict[int, list[DecodedRecord]]:
    """Decode all records of a log directory, by partition; transactional ones are all "open"."""
    log: dict[int, list[DecodedRecord]] = {}
    for segment in find_segments([directory], on_problem=lambda problem: None):
        assert segment.partition is not None
        if segment.path.suffix != ".log" or segment.path.parent.parent != directory:
            continue  # what the log cleaner left, in copies of the folder too
        records = read_segment(segment, ProblemLog())
        log.setdefault(segment.partition, []).extend(records)
    return {
        partition: sorted(log[partition], key=lambda record: record.offset) for partition in log
    }


def time_of(record: DecodedRecord) -> int | None:
    """The time of a record, as the tables have it."""
    if record.timestamp_ms is None and record.value and record.type.endswith("OffsetCommit"):
        return (record.value["data"] or {}).get("commitTimestamp")
    return record.timestamp_ms
