"""The table `damage`: what could not be read, and still cannot."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.errors import ProblemKind
from kgroup.history.build.task import SplitRead
from kgroup.history.input.location import FileRange
from kgroup.history.warehouse.fact_file import FactWriter, WrittenFile
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import read_rows
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem


class DamageRow(TypedDict):
    """A row of the table."""

    offsets_partition: int | None
    path: str
    position: int | None
    size: int | None
    kind: str
    reason: str
    time_ms: int


def damage_rows(read: SplitRead) -> list[DamageRow]:
    """Give the rows for what of a split could not be read."""
    split = read.work.split
    name, number = split.name, split.offsets_partition
    is_file = isinstance(split.location, FileRange)  # else positions are those in a temporary copy
    rows = [
        _row(name, number, each.kind, each.reason, each.position if is_file else None, each.size)
        for each in read.damage
    ]
    if read.more_damage:
        reason = f"{read.more_damage} further places in these bytes cannot be read."
        begin = read.damage[-1].position + read.damage[-1].size
        where = (begin, split.location.end - begin) if is_file else (None, None)
        rows.append(_row(name, number, ProblemKind.MORE, reason, *where))
    if read.error is not None:
        rows.append(unreadable_row(name, number, read.error))
    return rows


def unreadable_row(name: str, partition: int, error: str) -> DamageRow:
    """Give the row for a segment that cannot be read, or not to its end."""
    return _row(name, partition, ProblemKind.UNREADABLE, f"It cannot be read: {error}.")


def damage_row(problem: Problem) -> DamageRow:
    """Give the row for a live partition, or several, that cannot be read now."""
    partition = problem.offsets_partition
    name = OFFSETS_TOPIC if partition is None else f"{OFFSETS_TOPIC}-{partition}"
    return _row(name, partition, problem.kind, problem.reason)


def shorter_row(partition: int, before: int, end: int) -> DamageRow:
    """Give the row for a live partition that ends before what was read of it."""
    reason = (
        f"Expected it to go on at offset {before}, up to where it was read before; found that it "
        f"ends at {end}. It has lost records, or the topic was made again: records that come to "
        "offsets which are known already are not taken. Build another warehouse, or give the "
        "cluster another name with --cluster."
    )
    return _row(f"{OFFSETS_TOPIC}-{partition}", partition, ProblemKind.SHORTER, reason)


def problem_of(row: DamageRow) -> Problem:
    """Give a row as a value that travels beside others."""
    return Problem(
        ProblemKind(row["kind"]),
        row["reason"],
        path=row["path"],
        position=row["position"],
        offsets_partition=row["offsets_partition"],
    )


def replace_damage(
    warehouse: Path,
    files: Iterable[WrittenFile],
    rows: Iterable[DamageRow],
    reread: Iterable[tuple[str, int, int]],
    writer: FactWriter,
) -> tuple[set[str], int]:
    """Add rows, and leave out old ones of bytes that were read again and are sound by now.

    What is found again has its row already, with the time when it was found first. Damage in what
    was fetched from a live partition stays: that is not read again.

    Args:
        warehouse: its folder.
        files: of one cluster.
        rows: for what was found.
        reread: name of each file, or live partition, of which something was read, with begin and
            end of the bytes. Rows without a size, which are of the whole, go in any case.
        writer: takes the rows.

    Returns:
        Paths of the files that count no more, and how many rows were added.
    """
    found = {_identity(row): row for row in rows}
    parts: dict[str, list[tuple[int, int]]] = {}
    for name, start, end in reread:
        parts.setdefault(name, []).append((start, end))

    def stays(row: DamageRow) -> bool:
        if found.pop(_identity(row), None) is not None:
            return True
        position, again = row["position"], parts.get(row["path"], [])
        if row["size"] is None:
            return not again
        return position is None or not any(start <= position < end for start, end in again)

    names = pa.array({*parts, *(row["path"] for row in found.values())}, pa.string())
    replaced: set[str] = set()
    for file in files:
        if file.table != "damage":
            continue
        old = read_rows(warehouse, file)
        is_kept = np.ones(len(old), np.bool_)
        asked = np.flatnonzero(pc.is_in(old["path"], names).to_numpy())
        is_kept[asked] = [stays(cast("DamageRow", row)) for row in old.take(asked).to_pylist()]
        if not is_kept.all():
            replaced.add(file.path)
            writer.add({"damage": old.filter(pa.array(is_kept))})
    if found:
        schema = TABLES["damage"].schema
        writer.add({"damage": pa.Table.from_pylist(list(found.values()), schema)})
    return replaced, len(found)


def _identity(row: DamageRow) -> frozenset[tuple[str, object]]:
    """What tells rows apart: all but their times."""
    return frozenset(row.items() - {("time_ms", row["time_ms"])})


def _row(
    name: str,
    partition: int | None,
    kind: str,
    reason: str,
    position: int | None = None,
    size: int | None = None,
) -> DamageRow:
    return {
        "offsets_partition": partition,
        "path": name,
        "position": position,
        "size": size,
        "kind": kind,
        "reason": reason,
        "time_ms": time.time_ns() // 1_000_000,
    }
