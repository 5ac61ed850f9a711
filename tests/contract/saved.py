"""Sources by way of a file."""

from __future__ import annotations

from pathlib import Path

from kgroup.model.snapshot import Origin
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.source.base import DEFAULT_LOG_BUDGET, GroupSource
from kgroup.source.snapshot.file import read_snapshot, snapshot_lines
from kgroup.source.snapshot.source import SnapshotSource, snapshot_source


def saved(
    source: GroupSource, folder: Path, *, log_budget: int = DEFAULT_LOG_BUDGET
) -> SnapshotSource:
    """Save all that a source says in a file, and read that."""
    report = take_snapshot(source, Origin("cluster"), log_budget=log_budget, taken_ms=1)
    file = folder / "snapshot.json"
    file.write_bytes(b"".join(snapshot_lines(report.data[0])))
    return snapshot_source(read_snapshot(file))
