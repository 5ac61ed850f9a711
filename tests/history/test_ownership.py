"""Who owned what: derived from tables, compared with a coordinator asked after each record."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from kgroup.columnar.schema import records
from tests.examples import examples, some_of
from tests.history.derived import decoded, derived, in_order, tables, topic_names
from tests.history.owner_oracle import assignments
from tests.history.random_history import RandomHistory

ROOT = Path(__file__).parents[2]
LOGS = sorted(
    {
        path.parent
        for pattern in (
            "kgroup/sample/log-dir/__consumer_offsets-*/*.log",
            "tests/data/*/__consumer_offsets-*/*.log",
        )
        for path in ROOT.glob(pattern)
    }
)


def by_time(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Rows that may have been written at once; in `make check` those of three instants."""
    times = batch["timestamp_ms"].to_pylist()
    cuts = [
        here
        for here in range(1, len(times))
        if times[here] is None or times[here] != times[here - 1]
    ]
    return [
        batch.slice(start, end - start)
        for start, end in pairwise([0, *some_of(cuts, 3), len(times)])
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", some_of(LOGS, 8), ids=lambda folder: f"{folder.parent.name}/{folder.name}"
)
def test_recorded_groups(folder: Path) -> None:
    check(folder)


def check(folder: Path, names: Mapping[str, str] | None = None) -> None:
    """All at once and in parts it is what a coordinator says."""
    partition = int(folder.name.split("-")[-1])
    batches = decoded(folder)
    log = [record for batch in batches for record in records(batch)]
    names = topic_names(log) if names is None else names
    expected = in_order(assignments(log, names))
    assert in_order(derived(partition, [tables(batches)], names)) == expected
    parts = [tables([part]) for batch in batches for part in by_time(batch)]
    assert in_order(derived(partition, parts, names)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 8)))
def test_random_groups(seed: int, tmp_path: Path) -> None:
    history = RandomHistory(seed)
    history.write(tmp_path)
    for folder in sorted(tmp_path.glob("__consumer_offsets-*")):
        check(folder, history.topic_names)
