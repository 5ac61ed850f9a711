"""Update the table `assignments`: end and begin assignments according to new records.

If all new records of a partition follow those from which assignments were derived before,
`ownership.derive` continues with the current owners. If older records arrive late, for example
from a replica that was not compacted, or if a topic's name arrives late, the partition is derived
again from all of its records.

Partitions are divided among tasks by the amount to read. Small partitions, which often share files,
share a task that reads each file once. A large partition is divided among tasks by group: what a
group owned depends on its own records only. A task reads the current assignments of a partition; it
writes those that have ended and, if they have changed, all that are current. The files that had
them are then replaced by their rows of other partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroup.history.build.cluster_update import ClusterUpdate
from kgroup.history.build.task import Job, JobRunner
from kgroup.history.ownership.ownership import NEEDED, OwnershipState, derive
from kgroup.history.warehouse.state import PartitionBase, PartitionState
from kgroup.history.warehouse.store import Location, file_at, location_of, open_output, written_as
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import (
    FactWriter,
    WrittenFile,
    by_partition,
    read_parquet,
    read_rows,
    unique_stem,
)
from kgroup.history.warehouse.warehouse import WarehouseWriter

TASK_BYTES = 4 << 20
"""Maximum bytes of files that several partitions of one task have."""

PIECE_BYTES = 32 << 20
"""Bytes of files to read at once: uncompressed they may be a hundred times as large."""

SHARE_BYTES = 8 << 20
"""Minimum bytes of files for each task of a divided partition: some 100 MiB of a log."""

MOST_SHARES = 8
"""Maximum number of tasks of a partition: each reads all of it, which is 6 % of the whole work."""


@dataclass(frozen=True, slots=True)
class GroupShare:
    """The groups of a partition that one task derives.

    Attributes:
        number: number of the share, from 0.
        count: number of shares of the partition.
    """

    number: int = 0
    count: int = 1

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of its groups, in their order; group ids may be dictionary-encoded."""
        return rows.filter(
            pa.chunked_array(map(self._are_own, rows["group_id"].chunks), pa.bool_())
        )

    def _are_own(self, group_ids: pa.Array) -> pa.Array:
        coded = group_ids.dictionary_encode()
        are_own = [
            group_id is not None and crc32(group_id.encode()) % self.count == self.number
            for group_id in coded.dictionary.to_pylist()
        ]
        return pc.fill_null(pa.array(are_own, pa.bool_()).take(coded.indices), self.number == 0)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A partition whose assignments are to be derived.

    Attributes:
        offsets_partition: partition of `__consumer_offsets`.
        is_anew: whether earlier results are discarded.
        members: file with the members before these records; None if there were none.
        base: ownership before the retained records, if earlier results are discarded; None if all
            records are retained.
        opened: files with open assignments of the partition.
        files: files with the records.
        share: the groups to derive.
    """

    offsets_partition: int
    is_anew: bool
    members: str | None
    base: PartitionBase | None
    opened: tuple[WrittenFile, ...]
    files: tuple[WrittenFile, ...]
    share: GroupShare = GroupShare()

    @property
    def size(self) -> int:
        """Approximate number of bytes that the files have of the groups."""
        files = (*self.opened, *self.files)
        return sum(file.size // len(file.partitions) for file in files) // self.share.count

    def divided(self) -> list[Derivation]:
        """Return a derivation for each share of the groups: itself if the partition is small."""
        count = max(1, min(self.size // SHARE_BYTES, MOST_SHARES))
        return [replace(self, share=GroupShare(number, count)) for number in range(count)]


@dataclass(frozen=True, slots=True)
class DerivationTask(Job):
    """Derivations for some partitions of one cluster.

    Attributes:
        topic_names: topic names by topic id.
        derivations: one derivation per partition.
    """

    topic_names: Mapping[str, str]
    derivations: tuple[Derivation, ...]

    @property
    def size(self) -> int:
        """Approximate number of bytes to read."""
        return sum(derivation.size for derivation in self.derivations)


@dataclass(frozen=True, slots=True)
class DerivationResult:
    """Result of a derivation task.

    Attributes:
        cluster: name of the cluster.
        files: files with assignments.
        changed: partitions whose open assignments are all in these files.
        members: current members, by partition.
    """

    cluster: str
    files: tuple[WrittenFile, ...]
    changed: tuple[int, ...]
    members: Mapping[int, pa.Table]


def run_derivation(task: DerivationTask) -> DerivationResult:
    """Derive the assignments of some partitions.

    Raises:
        OSError: a file cannot be written.
        InputError: a file of the warehouse cannot be read.
    """
    warehouse = location_of(task.warehouse)
    reader = _Reader(warehouse, task.derivations)
    changed: list[int] = []
    members: dict[int, pa.Table] = {}
    with task.facts() as writer:
        for derivation in task.derivations:
            number, share = derivation.offsets_partition, derivation.share
            now, end = OwnershipState.none(), -1
            if derivation.is_anew and derivation.base is not None:
                now, end = read_base(warehouse, derivation.base, task.topic_names)
                now = OwnershipState(share.of(now.open), share.of(now.members))
            elif not derivation.is_anew:
                opened = reader.rows("assignments", derivation.opened, number)
                now = OwnershipState(opened, share.of(_read_members(warehouse, derivation.members)))
            # Of a divided partition all shares write, or none: the old files have rows of all.
            is_changed = derivation.is_anew or share.count > 1
            for files in pieces(derivation.files, number, share):
                records = {
                    name: after(reader.rows(name, files, number, columns), end)
                    for name, columns in NEEDED.items()
                }
                derived = derive(number, now, records, task.topic_names)
                if len(derived.closed):
                    writer.add({"assignments": derived.closed})
                is_changed |= derived.is_changed
                now = derived.now
            members[number] = now.members
            if is_changed:
                changed.append(number)
                if len(now.open):
                    writer.add({"assignments": now.open}, is_open=True)
        return DerivationResult(task.cluster, writer.finish(), tuple(changed), members)


class _Reader:
    """Reads rows by partition; a file with rows of several partitions is read once."""

    def __init__(self, warehouse: Location, derivations: Sequence[Derivation]) -> None:
        self._warehouse = warehouse
        self._partitions = {derivation.offsets_partition for derivation in derivations}
        # a divided partition has its tasks to itself
        (self._share,) = {derivation.share for derivation in derivations}
        self._kept: dict[str, dict[int, pa.Table]] = {}

    def rows(
        self, table: str, files: Iterable[WrittenFile], partition: int, columns: Sequence[str] = ()
    ) -> pa.Table:
        """Return the rows of a table; call once for each partition. By default with all columns."""
        names = columns or TABLES[table].schema.names
        tables = [self._of(file, names, partition) for file in files if file.table == table]
        return pa.concat_tables([TABLES[table].schema.empty_table().select(names), *tables])

    def _of(self, file: WrittenFile, names: Sequence[str], partition: int) -> pa.Table:
        if file.path not in self._kept:
            wanted = self._partitions.intersection(file.partitions)
            columns = tuple(dict.fromkeys(["offsets_partition", *names]))
            select = self._share.of if self._share.count > 1 else None
            rows = read_rows(self._warehouse, file, columns, partitions=wanted, select=select)
            self._kept[file.path] = {
                number: part.select(names) for number, part in by_partition(rows).items()
            }
        none = TABLES[file.table].schema.empty_table().select(names)
        return self._kept[file.path].pop(partition, none)


def derive_assignments(
    writer: WarehouseWriter, changes: Sequence[ClusterUpdate], run: JobRunner
) -> None:
    """Update the assignments of clusters with the files that tasks have written.

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
        intervals = results.get(change.cluster, [])
        with FactWriter(writer.root, change.cluster, writer.build + 1) as facts:
            old = without(
                writer.root,
                change.files.values(),
                {number for result in intervals for number in result.changed},
                anew[change.cluster],
                change.partitions,
                facts,
            )
            written = [file for result in intervals for file in result.files]
            change.replace_files(old, [*facts.finish(), *written])
        for number in sorted({number for result in intervals for number in result.members}):
            shares = [result.members[number] for result in intervals if number in result.members]
            path = write_state(writer, pa.concat_tables(shares))
            change.partitions[number] = replace(change.partition(number), members=path)


def _derivations(warehouse: Location, change: ClusterUpdate) -> tuple[list[Derivation], set[int]]:
    """Return the derivations, and the partitions that are derived again from all records."""
    needed = [file for file in change.files.values() if file.table in NEEDED and not file.is_open]
    new = [file for file in needed if file.path in change.new]
    names = change.topic_names.keys() - change.before.topic_names.keys()
    anew = _unnamed_partitions(warehouse, change.files.values(), names) if names else set()
    for number, (first, last) in change.limits.items():
        state = change.partition(number)
        if state.derived_end is not None and first <= state.derived_end:
            anew.add(number)
        end = max(last, -1 if state.derived_end is None else state.derived_end)
        change.partitions[number] = replace(state, derived_end=end)
    opened = [
        file for file in change.files.values() if file.table == "assignments" and file.is_open
    ]
    derivations = [
        Derivation(
            number,
            number in anew,
            change.partition(number).members,
            change.partition(number).base,
            _of_partition(opened, number),
            _of_partition(needed if number in anew else new, number),
        )
        for number in sorted(change.limits.keys() | anew)
    ]
    return derivations, anew


def pieces(
    files: Iterable[WrittenFile], number: int, share: GroupShare = GroupShare()
) -> Iterator[list[WrittenFile]]:
    """Divide files of a partition into pieces, in log order, to limit the memory used."""
    piece: list[WrittenFile] = []
    size = end = 0
    for file in sorted(files, key=lambda file: file.offsets):
        first, last = file.offsets
        if size >= PIECE_BYTES and first > end:
            yield piece
            piece, size = [], 0
        piece.append(file)
        size += file.size // len(file.partitions) // share.count
        end = max(end, last)
    if piece:
        yield piece


def _of_partition(files: Iterable[WrittenFile], number: int) -> tuple[WrittenFile, ...]:
    return tuple(file for file in files if number in file.partitions)


def _tasks(
    writer: WarehouseWriter, change: ClusterUpdate, derivations: Iterable[Derivation]
) -> Iterator[DerivationTask]:
    """Divide partitions among tasks."""

    def task(some: Iterable[Derivation]) -> DerivationTask:
        return DerivationTask(
            written_as(writer.root),
            change.cluster,
            writer.build + 1,
            change.topic_names,
            tuple(some),
        )

    some: list[Derivation] = []
    size = 0
    for derivation in derivations:
        shares = derivation.divided()
        if len(shares) > 1:
            yield from (task([share]) for share in shares)
            continue
        if some and size + derivation.size > TASK_BYTES:
            yield task(some)
            some, size = [], 0
        some.append(derivation)
        size += derivation.size
    if some:
        yield task(some)


def _read_members(warehouse: Location, path: str | None) -> pa.Table:
    none = OwnershipState.none().members
    return none if path is None else read_parquet(file_at(warehouse, path), none.schema)


def read_base(
    warehouse: Location, base: PartitionBase, topic_names: Mapping[str, str]
) -> tuple[OwnershipState, int]:
    """Return the ownership before the retained records, and the offset of the last record.

    Args:
        warehouse: its folder.
        base: where it is.
        topic_names: topic names by topic id, of which some may have been unknown.

    Raises:
        InputError: a file cannot be read.
    """
    opened = OwnershipState.none().open
    if base.opened is not None:
        opened = read_parquet(file_at(warehouse, base.opened), opened.schema)
        ids = pa.array(topic_names, pa.string())
        names = pa.array(topic_names.values(), pa.string())
        known = names.take(pc.index_in(opened["topic_id"], ids))
        at = opened.schema.get_field_index("topic")
        opened = opened.set_column(at, opened.schema.field(at), pc.coalesce(opened["topic"], known))
    return OwnershipState(opened, _read_members(warehouse, base.members)), base.end


def after(rows: pa.Table, end: int) -> pa.Table:
    """Return the rows whose records follow an offset."""
    return rows if end < 0 else rows.filter(pc.greater(rows["log_offset"], end))


def write_state(writer: WarehouseWriter, rows: pa.Table) -> str | None:
    """Write members or assignments into a file; return its path, None if there are no rows."""
    if not len(rows):
        return None
    path = f"_kgroup/members/{unique_stem(writer.build + 1)}.parquet"
    with open_output(writer.root / path) as file:
        pq.write_table(rows, file)
    return path


def without(
    warehouse: Location,
    files: Iterable[WrittenFile],
    changed: Collection[int],
    anew: Collection[int],
    partitions: Mapping[int, PartitionState],
    writer: FactWriter,
) -> list[str]:
    """Rewrite files with assignments, without those that are no longer valid.

    Args:
        warehouse: its folder.
        files: files of one cluster, without those that the derivation wrote.
        changed: partitions whose open assignments are no longer valid.
        anew: partitions whose ended assignments are no longer valid either, unless they ended
            before the retained records.
        partitions: states of the partitions.
        writer: writer for the rows that stay.

    Returns:
        Paths of the replaced files, which are no longer valid.
    """
    replaced: list[str] = []
    for file in files:
        gone = set(changed if file.is_open else anew).intersection(file.partitions)
        if file.table == "assignments" and gone:
            replaced.append(file.path)
            bases = {number: partitions[number].base for number in gone}
            if gone.issuperset(file.partitions) and not any(bases.values()):
                continue
            rows = read_rows(warehouse, file)
            stays = pc.invert(pc.is_in(rows["offsets_partition"], pa.array(gone, pa.int32())))
            for number, base in bases.items():
                if base is not None:
                    is_own = pc.equal(rows["offsets_partition"], number)
                    is_past = pc.fill_null(pc.less_equal(rows["to_log_offset"], base.end), False)
                    stays = pc.or_(stays, pc.and_(is_own, is_past))
            writer.add({"assignments": rows.filter(stays)}, is_open=file.is_open)
    return replaced


def _unnamed_partitions(
    warehouse: Location, files: Iterable[WrittenFile], names: Collection[str]
) -> set[int]:
    """Return the partitions with assignments that have one of these topic ids and no topic name."""
    columns = ("offsets_partition", "topic", "topic_id")
    matching: set[int] = set()
    ids = pa.array(names, pa.string())
    for file in files:
        if file.table == "assignments" and not matching.issuperset(file.partitions):
            rows = read_rows(warehouse, file, columns)
            is_one = pc.and_(pc.is_null(rows["topic"]), pc.is_in(rows["topic_id"], ids))
            matching.update(pc.unique(rows["offsets_partition"].filter(is_one)).to_pylist())
    return matching
