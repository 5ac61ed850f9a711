"""Warehouses built from recorded logs."""

from __future__ import annotations

from pathlib import Path

from kgroup.history.build.build import Build, ClusterReport
from kgroup.history.build.task import JobRunner, run_here
from kgroup.history.input.segment_source import find_sources
from kgroup.history.warehouse.store import Location
from kgroup.history.warehouse.warehouse import write_warehouse
from kgroup.operation.report import Report

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "kgroup" / "sample" / "log-dir"
RECORDED = [
    SAMPLE,
    *sorted(
        {
            path.parent.parent
            for path in (ROOT / "tests" / "data").glob("*/__consumer_offsets-*/*.log")
        }
    ),
]


def build(
    root: Location, *places: Path, cluster: str = "c", run: JobRunner = run_here
) -> Report[ClusterReport]:
    with write_warehouse(root) as writer:
        made = Build(writer, run)
        sources = find_sources([str(place) for place in places], cluster)
        assert not sources.problems
        for name, names in sources.topic_names.items():
            made.add_topic_names(name, names)
        made.read(sources.segments)
        return made.commit()
