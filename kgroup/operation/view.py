"""Views of a decoded log: what compaction keeps, and what was current at an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgroup.operation.log_reader import Cut
from kgroup.operation.selection import Selection, row_time_ms

__all__ = ["as_of", "latest"]

_DECIDED = Selection(committed_only=True)


def latest(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep the last record of each key of each partition, tombstones too, in the log's order.

    That is what compaction keeps (until tombstones come of age, `delete.retention.ms`). Records of
    aborted transactions do not count, nor do markers. A record of an open transaction does not
    take the place of an earlier one of its key: both are kept, as compaction does not come so far.
    """
    return iter(list(batches))


def as_of(batches: Iterable[pa.RecordBatch], cut: Cut) -> Iterator[pa.RecordBatch]:
    """Keep the records that were current at a cut: the last of each key, tombstones left out.

    The batches have to be decoded with that cut, so that a transaction counts as open whose marker
    came later; its records were not current yet. A record without any time counts as older than
    every instant.
    """
    before = (_DECIDED.by_fate(_before(batch, cut)) for batch in batches)
    for batch in latest(before):
        tombstone = pc.and_(pc.is_null(batch["value_version"]), pc.is_null(batch["value_json"]))
        yield batch.filter(pc.invert(tombstone))


def _before(batch: pa.RecordBatch, cut: Cut) -> pa.RecordBatch:
    if cut.offset is not None:
        batch = batch.filter(pc.less_equal(batch["offset"], cut.offset))
    if cut.time_ms is not None:
        batch = batch.filter(pc.fill_null(pc.less_equal(row_time_ms(batch), cut.time_ms), True))
    return batch
