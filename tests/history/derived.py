"""Who owned what, derived from records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgroup.columnar.segment import decode_chunks
from kgroup.history.build.fact import facts_of
from kgroup.history.ownership.ownership import NEEDED, OwnershipState, derive
from kgroup.history.warehouse.table import TABLES
from kgroup.model.delta import Delta
from kgroup.model.record import DecodedRecord

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
                *(fact[name].cast(TABLES[name].schema) for fact in facts if name in fact),
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


def derived(
    partition: int, parts: Iterable[dict[str, pa.Table]], topic_names: Mapping[str, str]
) -> list[Row]:
    """All rows of `assignments`, part after part."""
    owned, rows = OwnershipState.none(), list[Row]()
    for part in parts:
        found = derive(partition, owned, part, topic_names)
        rows += found.closed.to_pylist()
        before, now = (in_order(state.open.to_pylist()) for state in (owned, found.now))
        assert found.is_changed == (now != before)
        owned = found.now
    rows += owned.open.to_pylist()
    return rows


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: repr(sorted(row.items(), key=lambda item: item[0])))
