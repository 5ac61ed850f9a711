"""Resolve records of transactions by markers that were read elsewhere, or later.

Rows whose transaction was open when they were read lie in files of their own. The first marker of
their producer behind them in their partition decides (`protocol.batch.transaction`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.history.warehouse.coverage import Offsets
from kgroup.history.warehouse.fact_file import FactWriter, WrittenFile
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import read_rows

_TRANSACTIONAL = ("offset_commits", "tombstones", "other_records")
"""Tables with the column `transaction`."""

_KEY = ("offsets_partition", "producer_id", "log_offset")


def resolve_transactions(
    warehouse: Path, files: Iterable[WrittenFile], new: Collection[str], writer: FactWriter
) -> set[str]:
    """Write rows anew whose transaction has come to its end.

    Args:
        warehouse: its folder.
        files: of one cluster.
        new: paths of those that were written since this was done last.
        writer: takes the rows.

    Returns:
        Paths of the files whose rows were written anew; they count no more.
    """
    files = list(files)
    # What was open before was compared with the markers that there were.
    replaced: set[str] = set()
    markers = [file for file in files if file.table == "transactions"]
    new_markers = [file for file in markers if file.path in new]
    for is_new, candidates in ((True, markers), (False, new_markers)):
        is_open = [
            file
            for file in files
            if file.is_open and file.table in _TRANSACTIONAL and (file.path in new) == is_new
        ]
        ends = _markers(warehouse, is_open, candidates)
        if len(ends):
            replaced |= {
                file.path for file in is_open if _resolve_file(warehouse, file, ends, writer)
            }
    return replaced


def _markers(
    warehouse: Path, is_open: Iterable[WrittenFile], candidates: Iterable[WrittenFile]
) -> pa.Table:
    """Read the markers that may be behind rows of open files."""
    firsts: dict[int, int] = {}
    for file in is_open:
        for partition, (first, _) in file.offsets.items():
            firsts[partition] = min(first, firsts.get(partition, first))
    columns = [*_KEY, "outcome"]
    found = [
        read_rows(warehouse, file, columns)
        for file in candidates
        if any(last > firsts.get(number, last) for number, (_, last) in file.offsets.items())
    ]
    if not found:
        return TABLES["transactions"].schema.empty_table().select(columns)
    markers = pa.concat_tables(found)
    return markers.filter(pc.is_valid(markers["producer_id"]))


def _resolve_file(
    warehouse: Path, file: WrittenFile, markers: pa.Table, writer: FactWriter
) -> bool:
    rows = read_rows(warehouse, file)
    outcome = _outcomes(rows, markers)
    is_resolved = pc.is_valid(outcome)
    if not pc.any(is_resolved).as_py():
        return False
    at = rows.schema.get_field_index("transaction")
    resolved = rows.set_column(at, "transaction", outcome).filter(is_resolved)
    writer.add({file.table: resolved})
    rest = rows.filter(pc.invert(is_resolved))
    if len(rest):
        writer.add({file.table: rest}, is_open=True)
    return True


def _outcomes(rows: pa.Table, markers: pa.Table) -> pa.Array:
    """Tell what became of records, null where no marker follows.

    Both have the columns offsets_partition, producer_id and log_offset.
    """
    count = len(rows)
    partition, producer, offset = (
        np.concatenate([_ints(rows[name]), _ints(markers[name])]) for name in _KEY
    )
    order = np.lexsort((offset, producer, partition))
    # Index, in this order, of the next marker from each on; the length where there is none.
    at = np.where(order >= count, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(at[::-1])[::-1]
    has_one = following < len(order)
    ends = order[np.where(has_one, following, 0)]
    has_one &= (partition[ends] == partition[order]) & (producer[ends] == producer[order])
    marker = np.full(len(order), -1, np.int64)
    marker[order] = np.where(has_one, ends - count, -1)
    marker = marker[:count]
    return markers["outcome"].combine_chunks().take(pa.array(marker, mask=marker < 0))


def _ints(column: pa.ChunkedArray) -> Offsets:
    return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)
