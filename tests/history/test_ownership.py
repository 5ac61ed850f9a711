"""Who owned what: derived from tables, compared with a coordinator asked after each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgroup.columnar.schema import records
from kgroup.columnar.segment import decode_chunks
from kgroup.history.build.fact import facts_of
from kgroup.history.ownership.ownership import NEEDED, Ownership, derive
from kgroup.history.warehouse.table import TABLES
from kgroup.model.delta import Delta
from kgroup.model.record import DecodedRecord
from tests.examples import examples, some_of
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

Row = dict[str, Any]


def decoded(folder: Path) -> list[pa.RecordBatch]:
    """All rows of a partition's segments, in order."""
    return [
        batch
        for path in sorted(folder.glob("*.log"))
        for batch in decode_chunks(path, partition=int(folder.name.split("-")[-1]), compiled=False)
        if isinstance(batch, pa.RecordBatch)
    ]


def tables(batches: Iterable[pa.RecordBatch]) -> dict[str, pa.Table]:
    """The tables that `derive` needs."""
    facts = [facts_of(batch) for batch in batches]
    return {
        name: pa.concat_tables(
            [
                TABLES[name].schema.empty_table(),
                *(each[name].cast(TABLES[name].schema) for each in facts if name in each),
            ]
        )
        for name in NEEDED
    }


def topic_names(log: Iterable[DecodedRecord]) -> dict[str, str]:
    """Names of topics by id, as far as records tell."""
    delta = Delta()
    for record in log:
        delta.replay(record)
    return delta.topic_names


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


def derived(
    partition: int, parts: Iterable[dict[str, pa.Table]], topic_names: Mapping[str, str]
) -> list[Row]:
    """All rows of `assignments`, part after part."""
    owned, rows = Ownership.none(), list[Row]()
    for part in parts:
        found = derive(partition, owned, part, topic_names)
        rows += found.closed.to_pylist()
        before, now = (in_order(each.open.to_pylist()) for each in (owned, found.now))
        assert found.is_changed == (now != before)
        owned = found.now
    rows += owned.open.to_pylist()
    return rows


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: repr(sorted(row.items(), key=lambda item: item[0])))


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


@pytest.mark.parametrize("seed", range(examples(1, 200)))
def test_random_groups(seed: int, tmp_path: Path) -> None:
    history = RandomHistory(seed)
    history.write(tmp_path)
    for folder in sorted(tmp_path.glob("__consumer_offsets-*")):
        check(folder, history.topic_names)
