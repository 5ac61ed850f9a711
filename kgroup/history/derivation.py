"""Keep the table `assignments` current: what new records end, and what they begin.

Where the new records of a partition are all behind those that assignments were derived from,
`ownership.derive` goes on from what was owned there. Where older ones came late, from a replica
that compaction had not been at, say, or where the name of a topic came late, the partition is done
anew from all of its records.

Partitions are divided among tasks by how much there is to read. What has ended they write
themselves. What is owned now comes back and is compared with what was owned before: of the files
with open assignments only those are replaced in which something has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroup.history.change import Change
from kgroup.history.fact_file import FactWriter, WrittenFile
from kgroup.history.ownership import NEEDED, Ownership, derive
from kgroup.history.table import TABLES
from kgroup.history.table_file import read_parquet, read_rows
from kgroup.history.task import Run
from kgroup.history.warehouse import WarehouseWriter

__all__ = ["DerivationResult", "DerivationTask", "derive_assignments", "run_derivation"]

TASK_BYTES = 4 << 20
"""Bytes of files from which on a task gets no further partition."""

PIECE_BYTES = 32 << 20
"""Bytes of files that are read at once: of what is in them there may be a hundred times as much."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """A partition of which assignments are to be derived.

    Attributes:
        offsets_partition: its number.
        before: what was owned before the records.
        files: that have the records.
    """

    offsets_partition: int
    before: Ownership
    files: tuple[WrittenFile, ...]

    @property
    def size(self) -> int:
        """Bytes of what the files have of the partition, about."""
        return sum(file.size // len(file.offsets) for file in self.files)


@dataclass(frozen=True, slots=True)
class DerivationTask:
    """Some partitions of one cluster.

    Attributes:
        warehouse: its folder, as it is called wherever tasks are done.
        cluster: its name.
        build: number of the build.
        topic_names: by topic id.
        derivations: one for each partition.
    """

    warehouse: str
    cluster: str
    build: int
    topic_names: Mapping[str, str]
    derivations: tuple[Derivation, ...]

    @property
    def size(self) -> int:
        """Bytes to read, about."""
        return sum(each.size for each in self.derivations)


@dataclass(frozen=True, slots=True)
class DerivationResult:
    """What was derived.

    Attributes:
        cluster: its name.
        files: with assignments that have ended.
        now: what is owned now, by partition.
    """

    cluster: str
    files: tuple[WrittenFile, ...]
    now: Mapping[int, Ownership]


def run_derivation(task: DerivationTask) -> DerivationResult:
    """Derive assignments of some partitions.

    Raises:
        OSError: a file cannot be written.
        InputError: a file of the warehouse cannot be read.
    """
    warehouse = Path(task.warehouse)
    now: dict[int, Ownership] = {}
    with FactWriter(warehouse, task.cluster, f"{task.build}-{uuid4().hex}") as writer:
        for each in task.derivations:
            number = each.offsets_partition
            now[number] = each.before
            for files in _pieces(each.files, number):
                records = {
                    name: _rows(warehouse, name, files, columns, number)
                    for name, columns in NEEDED.items()
                }
                derived = derive(number, now[number], records, task.topic_names)
                if len(derived.closed):
                    writer.add({"assignments": derived.closed})
                now[number] = derived.now
        return DerivationResult(task.cluster, writer.finish(), now)


def derive_assignments(writer: WarehouseWriter, changes: Sequence[Change], run: Run) -> None:
    """Bring the assignments of clusters up to date with what tasks have written.

    Raises:
        OSError: a file cannot be written.
        InputError: a file of the warehouse cannot be read.
    """
    tasks: list[DerivationTask] = []
    anew: dict[str, set[int]] = {}
    for change in changes:
        derivations, anew[change.cluster] = _derivations(writer.root, change)
        tasks += _tasks(writer, change, derivations)
    now: dict[str, dict[int, Ownership]] = {}
    written: dict[str, list[WrittenFile]] = {}
    for result in run(run_derivation, tasks):
        now.setdefault(result.cluster, {}).update(result.now)
        written.setdefault(result.cluster, []).extend(result.files)
    for change in changes:
        owned = now.get(change.cluster, {})
        if owned:
            with FactWriter(writer.root, change.cluster, _stem(writer)) as facts:
                old = _replace_assignments(
                    writer.root, change.files.values(), owned, anew[change.cluster], facts
                )
                change.replace_files(old, [*facts.finish(), *written[change.cluster]])
            for number, ownership in owned.items():
                members = _write_members(writer, ownership.members)
                state = change.partition(number)
                change.partitions[number] = replace(state, members=members)


def _derivations(warehouse: Path, change: Change) -> tuple[list[Derivation], set[int]]:
    """Find what is to be derived, and in which partitions it is derived anew."""
    needed = [file for file in change.files.values() if file.table in NEEDED and not file.is_open]
    new = [file for file in needed if file.path in change.new]
    limits: dict[int, tuple[int, int]] = {}
    for file in new:
        for number, (first, last) in file.offsets.items():
            before = limits.get(number, (first, last))
            limits[number] = min(first, before[0]), max(last, before[1])
    names = change.topic_names.keys() - change.before.topic_names.keys()
    anew = _unnamed_partitions(warehouse, change.files.values(), names) if names else set()
    for number, (first, last) in limits.items():
        state = change.partition(number)
        if state.derived_end is not None and first <= state.derived_end:
            anew.add(number)
        end = max(last, -1 if state.derived_end is None else state.derived_end)
        change.partitions[number] = replace(state, derived_end=end)
    going_on = limits.keys() - anew
    opened = _open_assignments(warehouse, change.files.values(), going_on)
    derivations = [
        Derivation(number, Ownership.none(), _of_partition(needed, number)) for number in anew
    ]
    for number in going_on:
        members = _read_members(warehouse, change.partition(number).members)
        derivations.append(
            Derivation(number, Ownership(opened[number], members), _of_partition(new, number))
        )
    return sorted(derivations, key=lambda each: each.offsets_partition), anew


def _pieces(files: Iterable[WrittenFile], number: int) -> Iterator[list[WrittenFile]]:
    """Divide files of a partition, in the log's order, so that no more than that is in memory."""
    piece: list[WrittenFile] = []
    size = end = 0
    for file in sorted(files, key=lambda file: file.offsets[number]):
        first, last = file.offsets[number]
        if size >= PIECE_BYTES and first > end:
            yield piece
            piece, size = [], 0
        piece.append(file)
        size += file.size // len(file.offsets)
        end = max(end, last)
    if piece:
        yield piece


def _of_partition(files: Iterable[WrittenFile], number: int) -> tuple[WrittenFile, ...]:
    return tuple(file for file in files if number in file.offsets)


def _tasks(
    writer: WarehouseWriter, change: Change, derivations: Iterable[Derivation]
) -> Iterator[DerivationTask]:
    """Divide partitions among tasks."""

    def task() -> DerivationTask:
        return DerivationTask(
            str(writer.root), change.cluster, writer.build + 1, change.topic_names, tuple(some)
        )

    some: list[Derivation] = []
    size = 0
    for each in derivations:
        some.append(each)
        size += each.size
        if size >= TASK_BYTES:
            yield task()
            some, size = [], 0
    if some:
        yield task()


def _read_members(warehouse: Path, path: str | None) -> pa.Table:
    if path is None:
        return Ownership.none().members
    return read_parquet(warehouse / path, Ownership.none().members.schema)


def _write_members(writer: WarehouseWriter, members: pa.Table) -> str | None:
    if not len(members):
        return None
    path = f"_kgroup/members/{_stem(writer)}.parquet"
    (writer.root / path).parent.mkdir(exist_ok=True)
    pq.write_table(members, writer.root / path)
    return path


def _stem(writer: WarehouseWriter) -> str:
    return f"{writer.build + 1}-{uuid4().hex}"


def _open_assignments(
    warehouse: Path, files: Iterable[WrittenFile], partitions: Collection[int]
) -> dict[int, pa.Table]:
    """Read what is owned now in some partitions, by their numbers."""
    schema = TABLES["assignments"].schema
    found = [
        read_rows(warehouse, file, partitions=partitions)
        for file in files
        if _is_open(file) and not file.offsets.keys().isdisjoint(partitions)
    ]
    rows = pa.concat_tables([schema.empty_table(), *found])
    return {
        number: rows.filter(pc.equal(rows["offsets_partition"], number)) for number in partitions
    }


def _replace_assignments(
    warehouse: Path,
    files: Iterable[WrittenFile],
    now: Mapping[int, Ownership],
    anew: Collection[int],
    writer: FactWriter,
) -> set[str]:
    """Write what is owned now in some partitions; leave what is written already where it is.

    Args:
        warehouse: its folder.
        files: of one cluster, without those that the derivation wrote.
        now: what is owned, by partition.
        anew: those partitions of which all assignments were derived anew.
        writer: takes the rows.

    Returns:
        Paths of the files that count no more.
    """
    rows = pa.concat_tables([each.open for each in now.values()])
    texts = _texts(rows)
    is_written = np.zeros(len(rows), np.bool_)
    replaced: set[str] = set()
    for file in files:
        if file.table != "assignments":
            continue
        changing = now.keys() if file.is_open else anew
        if file.offsets.keys().isdisjoint(changing):
            continue
        old = read_rows(warehouse, file)
        stays = pc.invert(pc.is_in(old["offsets_partition"], pa.array(changing, pa.int32())))
        if file.is_open:
            old_texts = _texts(old)
            is_written |= pc.is_in(texts, old_texts).to_numpy(zero_copy_only=False)
            stays = pc.or_(stays, pc.is_in(old_texts, texts))
        if not pc.all(stays).as_py():
            replaced.add(file.path)
            kept = old.filter(stays)
            if len(kept):
                writer.add({"assignments": kept}, is_open=file.is_open)
    new = rows.filter(pa.array(~is_written))
    if len(new):
        writer.add({"assignments": new}, is_open=True)
    return replaced


def _unnamed_partitions(
    warehouse: Path, files: Iterable[WrittenFile], names: Collection[str]
) -> set[int]:
    """Find partitions with assignments of topics of which only the id was known, of these ids."""
    columns = ("offsets_partition", "topic", "topic_id")
    found: set[int] = set()
    ids = pa.array(names, pa.string())
    for file in files:
        if file.table == "assignments" and not found.issuperset(file.offsets):
            rows = read_rows(warehouse, file, columns)
            is_one = pc.and_(pc.is_null(rows["topic"]), pc.is_in(rows["topic_id"], ids))
            found.update(pc.unique(rows["offsets_partition"].filter(is_one)).to_pylist())
    return found


def _is_open(file: WrittenFile) -> bool:
    return file.table == "assignments" and file.is_open


def _rows(
    warehouse: Path,
    table: str,
    files: Iterable[WrittenFile],
    columns: Sequence[str],
    partition: int,
) -> pa.Table:
    found = [
        read_rows(warehouse, file, columns, partitions=(partition,))
        for file in files
        if file.table == table
    ]
    return pa.concat_tables(found or [TABLES[table].schema.empty_table().select(columns)])


def _texts(rows: pa.Table) -> pa.ChunkedArray:
    """Give each row as a text."""
    columns = [rows[name].cast(pa.string()) for name in rows.column_names]
    return pc.binary_join_element_wise(
        *columns, "\0", null_handling="replace", null_replacement="\1"
    )
