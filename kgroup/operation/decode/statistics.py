"""Count what a log holds, from its columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kgroup.operation.decode.decode import Decoding
from kgroup.operation.report import Report


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


def count_records(decoding: Decoding) -> Report[Count]:
    """Count the records that are wanted, and, at their end, the batches and the damage.

    Returns:
        Counts in the order of `Count.by`, the most first; batches and damage are of the whole run,
        whatever rows were passed on.
    """
    totals: dict[tuple[str, str, int | None], list[int]] = defaultdict(lambda: [0, 0])
    for batch in decoding.map(lambda batch: batch):
        for by, name, version in (
            ("type", "type", batch["value_version"]),
            ("transaction", "transaction", None),
            ("group", "group", None),
        ):
            for key, count, size in _count(batch[name], version, batch["size"]):
                total = totals[by, *key]
                total[0] += count
                total[1] += size
    order = ("type", "transaction", "group")
    counts = [Count(*key, *total) for key, total in totals.items()]
    counts.sort(key=lambda c: (order.index(c.by), -c.count, c.name, c.version is None, c.version))
    log = decoding.log
    counts += (Count("batch", *kind, count, size) for kind, count, size in log.batch_counts())
    counts += (Count("damage", kind, None, n, None) for kind, n in log.damage_kinds.most_common())
    return Report(tuple(counts), decoding.problems(), verdict=decoding.exit_status)


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
