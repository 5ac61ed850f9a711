"""Views of a decoded log: what compaction keeps, and what was current at an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgroup.operation.log_reader import Cut
from kgroup.operation.selection import NOT_COMMITTED, Selection, row_time_ms
from kgroup.protocol.coordinator_record import KEY_TYPES, encode_key

__all__ = ["as_of", "latest"]

_NOT_ABORTED = Selection(without_fates=frozenset({"aborted"}))
_COMMITTED = Selection(without_fates=NOT_COMMITTED)


def latest(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep the last record of each key of each partition, tombstones too, in the log's order.

    That is what compaction keeps (tombstones until they come of age, `delete.retention.ms`).
    Records of aborted transactions do not count, nor do markers. A record of an open transaction
    does not take the place of an earlier one of its key: both are kept, since compaction does not
    come so far as that.
    """
    kept = [_NOT_ABORTED.by_fate(batch) for batch in batches]
    last: dict[object, tuple[int, int]] = {}
    open_rows: set[tuple[int, int]] = set()
    for number, batch in enumerate(kept):
        fates = batch["transaction"].to_pylist()
        for row, (key, fate) in enumerate(zip(_keys(batch), fates, strict=True)):
            if fate == "open":
                open_rows.add((number, row))
            else:
                last[key] = (number, row)
    places = sorted({*last.values(), *open_rows})
    for number, batch in enumerate(kept):
        yield batch.take(pa.array([row for at, row in places if at == number], pa.int64()))


def as_of(batches: Iterable[pa.RecordBatch], cut: Cut) -> Iterator[pa.RecordBatch]:
    """Keep the records that were current at a cut: the last of each key, tombstones left out.

    The batches have to be decoded with that cut, so that a transaction counts as open whose marker
    came later; its records were not current yet. A record without any time counts as older than
    every instant.
    """
    before = (_COMMITTED.by_fate(_before(batch, cut)) for batch in batches)
    for batch in latest(before):
        tombstone = pc.and_(pc.is_null(batch["value_version"]), pc.is_null(batch["value_json"]))
        yield batch.filter(pc.invert(tombstone))


def _keys(batch: pa.RecordBatch) -> Iterator[object]:
    """Yield what tells keys apart: the partition, and the key's bytes."""
    names = ("partition", "key", "key_type", "group", "topic", "topic_partition")
    for partition, raw, *parts in zip(*(batch[name].to_pylist() for name in names), strict=True):
        yield partition, raw if raw is not None else _commit_key(*parts)


def _commit_key(key_type: int, group: str, topic: str, partition: int) -> bytes:
    data = {"group": group, "topic": topic, "partition": partition}
    return encode_key(KEY_TYPES[key_type], data)


def _before(batch: pa.RecordBatch, cut: Cut) -> pa.RecordBatch:
    if cut.offset is not None:
        batch = batch.filter(pc.less_equal(batch["offset"], cut.offset))
    if cut.time_ms is not None:
        batch = batch.filter(pc.fill_null(pc.less_equal(row_time_ms(batch), cut.time_ms), True))
    return batch
