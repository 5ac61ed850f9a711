"""Keep the table `assignments` current: what new records end, and what they begin.

Where the new records of a partition are all behind those that assignments were derived from,
`ownership.derive` goes on from what was owned there. Where older ones came late, from a replica
that compaction had not been at, say, or where the name of a topic came late, the partition is done
anew from all of its records.

Partitions are divided among tasks by how much there is to read. These read what is owned, and write
what has ended and what is owned now, unless it is written already. What comes back is which rows of
the files with open assignments still are so: of these files only those are replaced in which
something has changed.
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
from kgroup.history.owned_set import flags
from kgroup.history.ownership import NEEDED, Ownership, derive
from kgroup.history.record_order import Flags
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
        is_anew: whether nothing counts that was derived before.
        members: file with what is known of members before the records; None where nothing is.
        own: files that have open assignments of it, and of no other.
        shared: files that have open assignments of it, and of others.
        files: that have the records.
    """

    offsets_partition: int
    is_anew: bool
    members: str | None
    own: tuple[WrittenFile, ...]
    shared: tuple[WrittenFile, ...]
    files: tuple[WrittenFile, ...]

    @property
    def size(self) -> int:
        """Bytes of what the files have of the partition, about."""
        files = (*self.own, *self.shared, *self.files)
        return sum(file.size // len(file.offsets) for file in files)


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
        files: with assignments.
        replaced: paths of the files that these take the place of.
        stays: by partition, of each of its rows in the files that it shares, one file after the
            other, whether it still is an open assignment.
        members: what is known of members now, by partition.
    """

    cluster: str
    files: tuple[WrittenFile, ...]
    replaced: tuple[str, ...]
    stays: Mapping[int, Flags]
    members: Mapping[int, pa.Table]


def run_derivation(task: DerivationTask) -> DerivationResult:
    """Derive assignments of some partitions.

    Raises:
        OSError: a file cannot be written.
        InputError: a file of the warehouse cannot be read.
    """
    warehouse = Path(task.warehouse)
    replaced: list[str] = []
    stays: dict[int, Flags] = {}
    members: dict[int, pa.Table] = {}
    with FactWriter(warehouse, task.cluster, f"{task.build}-{uuid4().hex}") as writer:
        for each in task.derivations:
            number = each.offsets_partition
            shared = _open_rows(warehouse, each.shared, number)
            own = _open_rows(warehouse, each.own, number)
            written = pa.concat_tables([shared, own])
            now = Ownership.none()
            if not each.is_anew:
                now = Ownership(written, _read_members(warehouse, each.members))
            has_closed = False
            for files in _pieces(each.files, number):
                records = {
                    name: _rows(warehouse, name, files, columns, number)
                    for name, columns in NEEDED.items()
                }
                derived = derive(number, now, records, task.topic_names)
                if len(derived.closed):
                    has_closed = True
                    writer.add({"assignments": derived.closed})
                now = derived.now
            members[number] = now.members
            opened = now.open
            if not has_closed and _are_same(opened, written):
                stays[number] = np.ones(len(shared), np.bool_)
                continue
            stays[number] = np.zeros(len(shared), np.bool_)
            if len(shared):
                texts, shared_texts = _texts(opened), _texts(shared)
                stays[number] = flags(pc.is_in(shared_texts, texts))
                opened = opened.filter(pc.invert(pc.is_in(texts, shared_texts)))
            replaced += [file.path for file in each.own]
            if len(opened):
                writer.add({"assignments": opened}, is_open=True)
        return DerivationResult(task.cluster, writer.finish(), tuple(replaced), stays, members)


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
    results: dict[str, list[DerivationResult]] = {}
    for result in run(run_derivation, tasks):
        results.setdefault(result.cluster, []).append(result)
    for change in changes:
        found = results.get(change.cluster, [])
        stays = {number: mask for result in found for number, mask in result.stays.items()}
        if not stays:
            continue
        with FactWriter(writer.root, change.cluster, _stem(writer)) as facts:
            change.replace_files([path for result in found for path in result.replaced], [])
            old = _replace_assignments(
                writer.root, change.files.values(), stays, anew[change.cluster], facts
            )
            written = [file for result in found for file in result.files]
            change.replace_files(old, [*facts.finish(), *written])
        for result in found:
            for number, members in result.members.items():
                path = _write_members(writer, members)
                change.partitions[number] = replace(change.partition(number), members=path)


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
    opened = [file for file in change.files.values() if _is_open(file)]
    derivations = [
        Derivation(
            number,
            number in anew,
            change.partition(number).members,
            tuple(file for file in _of_partition(opened, number) if len(file.offsets) == 1),
            tuple(file for file in _of_partition(opened, number) if len(file.offsets) > 1),
            _of_partition(needed if number in anew else new, number),
        )
        for number in sorted(limits.keys() | anew)
    ]
    return derivations, anew


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


def _are_same(rows: pa.Table, others: pa.Table) -> bool:
    return len(rows) == len(others) and bool(pc.all(pc.is_in(_texts(rows), _texts(others))).as_py())


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


def _open_rows(warehouse: Path, files: Iterable[WrittenFile], partition: int) -> pa.Table:
    """Read what is owned, as far as it is written, in a partition."""
    found = [read_rows(warehouse, file, partitions=(partition,)) for file in files]
    return pa.concat_tables([TABLES["assignments"].schema.empty_table(), *found])


def _replace_assignments(
    warehouse: Path,
    files: Iterable[WrittenFile],
    stays: Mapping[int, Flags],
    anew: Collection[int],
    writer: FactWriter,
) -> set[str]:
    """Write without what counts no more the files in which there is such a thing.

    Args:
        warehouse: its folder.
        files: of one cluster, without those that the derivation wrote.
        stays: see `DerivationResult`.
        anew: those partitions of which all assignments were derived anew.
        writer: takes the rows that stay.

    Returns:
        Paths of the files that count no more.
    """
    replaced: set[str] = set()
    done = dict.fromkeys(stays, 0)
    for file in files:
        changing = stays.keys() if _is_open(file) else anew
        if _is_open(file) and len(file.offsets) == 1:
            continue  # its task has seen to it
        if file.table != "assignments" or file.offsets.keys().isdisjoint(changing):
            continue
        rows = read_rows(warehouse, file)
        numbers = rows["offsets_partition"].to_numpy()
        stay = np.ones(len(rows), dtype=bool)
        for number in file.offsets.keys() & changing:
            is_of = numbers == number
            if file.is_open:
                begin = done[number]
                done[number] += int(is_of.sum())
                stay[is_of] = stays[number][begin : done[number]]
            else:
                stay[is_of] = False
        if not stay.all():
            replaced.add(file.path)
            kept = rows.filter(pa.array(stay))
            if len(kept):
                writer.add({"assignments": kept}, is_open=file.is_open)
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
