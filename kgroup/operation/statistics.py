"""Count what a log holds, from its columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kgroup.operation.log_reader import LogReader

__all__ = ["Count", "count_records", "record_bytes"]


@dataclass(frozen=True, slots=True)
class Count:
    """How much there is of one thing.

    Attributes:
        by: what is counted: "type" (records by type and version of their values), "transaction"
            (records in transactions, by their fate), "group" (records by group), "batch" (batches
            by compression and message format) or "damage" (by kind).
        name: the type, fate, group id, compression or kind of damage.
        version: of the value, None where there is none (tombstones); or the message format.
        count: records, batches or damaged places.
        bytes: of the records' keys and values, or of the batches as they lie in the log; None for
            damage.
    """

    by: str
    name: str
    version: int | None
    count: int
    bytes: int | None


def count_records(batches: Iterable[pa.RecordBatch], log: LogReader) -> tuple[Count, ...]:
    """Count the records of batches of `DECODED`, and, at their end, the batches and the damage.

    Returns:
        Counts in the order of `Count.by`, the most first; batches and damage are of the whole run,
        whatever rows were passed on.
    """
    totals: dict[tuple[str, str, int | None], list[int]] = defaultdict(lambda: [0, 0])
    for batch in batches:
        sizes = record_bytes(batch)
        for by, name, version in (
            ("type", "type", batch["value_version"]),
            ("transaction", "transaction", None),
            ("group", "group", None),
        ):
            for key, count, size in _count(batch[name], version, sizes):
                total = totals[by, *key]
                total[0] += count
                total[1] += size
    order = ("type", "transaction", "group")
    counts = [Count(*key, *total) for key, total in totals.items()]
    counts.sort(key=lambda c: (order.index(c.by), -c.count, c.name, c.version is None, c.version))
    counts += (
        Count("batch", kind.compression, kind.magic, kind.batches, kind.bytes)
        for kind in log.count_batches()
    )
    counts += (Count("damage", kind, None, n, None) for kind, n in log.damage_kinds.most_common())
    return tuple(counts)


def _count(
    names: pa.Array, versions: pa.Array | None, sizes: pa.Array
) -> Iterator[tuple[tuple[str, int | None], int, int]]:
    """Yield name, version, rows and sum of sizes, of the rows that have a name."""
    columns = {"name": names, "size": sizes}
    keys = ["name"]
    if versions is not None:
        columns["version"] = versions
        keys.append("version")
    grouped = pa.table(columns).group_by(keys).aggregate([("size", "sum"), ([], "count_all")])
    for row in grouped.to_pylist():
        if row["name"] is not None:
            yield (row["name"], row.get("version")), row["count_all"], row["size_sum"]


def record_bytes(batch: pa.RecordBatch) -> pa.Array:
    """Tell the bytes of each record's key and value.

    Offset commits are measured by their layout, see `OffsetCommitKey` and `OffsetCommitValue`
    (bytes that were no UTF-8 count as what stands for them now); other records as they are.

        key      type int16, group string, topic string, partition int32
        value    version int16, offset int64, leaderEpoch int32 (3 and later), metadata string,
                 commitTimestamp int64, expireTimestamp int64 (1 only), tags (4 and later: their
                 number, and of a topic id its number, its size and 16 bytes)

    The length of a string is an int16, in version 4 and later a varint of one more.
    """
    version = pc.fill_null(batch["value_version"], -1)
    metadata = _text_bytes(batch["metadata"])
    flexible = pc.greater_equal(version, 4)
    length = pc.if_else(
        flexible,
        pc.add(
            1,
            pc.add(
                _as_int(pc.greater_equal(metadata, 127)), _as_int(pc.greater_equal(metadata, 16383))
            ),
        ),
        2,
    )
    value = pc.add(pc.add(2 + 8 + 8, length), metadata)
    value = pc.add(value, pc.if_else(pc.greater_equal(version, 3), 4, 0))
    value = pc.add(value, pc.if_else(pc.equal(version, 1), 8, 0))
    tags = pc.if_else(pc.is_valid(batch["topic_id"]), 1 + 1 + 1 + 16, 1)
    value = pc.add(value, pc.if_else(flexible, tags, 0))
    key = pc.add(2 + 2 + 2 + 4, pc.add(_text_bytes(batch["group"]), _text_bytes(batch["topic"])))
    commit = pc.add(key, pc.if_else(pc.equal(version, -1), 0, value))
    raw = pc.add(_binary_bytes(batch["key"]), _binary_bytes(batch["value"]))
    return pc.if_else(pc.is_valid(batch["key_json"]), raw, commit).cast(pa.int64())


def _text_bytes(column: pa.Array) -> pa.Array:
    lengths = pc.binary_length(column.dictionary)
    return pc.fill_null(lengths.take(column.indices), 0)


def _binary_bytes(column: pa.Array) -> pa.Array:
    return pc.fill_null(pc.binary_length(column), 0)


def _as_int(mask: pa.Array) -> pa.Array:
    return mask.cast(pa.int32())
