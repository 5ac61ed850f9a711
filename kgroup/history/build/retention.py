"""Remove old days, or a group, from a warehouse.

Files are removed as a whole if all their records are too old, so a day goes once it is past
entirely. An assignment is as old as its end; one that has not ended stays. Ownership at the end of
the expired records is kept as the base of each partition: if assignments must be derived anew, they
are derived from there.

Offsets of removed records stay known: builds do not read them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kgroup.history.build.derivation import after, pieces, read_base, write_state
from kgroup.history.ownership.ownership import NEEDED, OwnershipState, derive
from kgroup.history.warehouse.state import ClusterState, PartitionBase, PartitionState
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, read_parquet, read_rows
from kgroup.history.warehouse.warehouse import Warehouse, WarehouseWriter

_KEPT = ("damage",)
"""Tables that do not expire: what they say is not about the time in them."""


@dataclass(frozen=True, slots=True)
class TableRemoval:
    """Rows of a table that are removed, for one cluster.

    Attributes:
        cluster: name of the cluster in the warehouse.
        table: table name.
        removed_row_count: number of rows removed.
        row_count: number of rows after that.
    """

    cluster: str
    table: str
    removed_row_count: int
    row_count: int


def expired_rows(
    warehouse: Warehouse, before_ms: int, cluster: str | None = None
) -> tuple[TableRemoval, ...]:
    """Return what `expire` would remove, by cluster and table; other tables are omitted.

    Args:
        warehouse: the warehouse.
        before_ms: time before which rows expire.
        cluster: only this cluster; None: all.

    Raises:
        InputError: the warehouse is damaged.
    """
    return tuple(
        removal
        for name in _clusters(warehouse, cluster)
        for removal in _removals(
            name, warehouse.state(name), _expired(warehouse.state(name), before_ms)
        )
    )


def expire(
    writer: WarehouseWriter, before_ms: int, cluster: str | None = None
) -> tuple[TableRemoval, ...]:
    """Remove the files all of whose rows are older; see `expired_rows`.

    Raises:
        OSError: a file cannot be written.
        InputError: the warehouse is damaged.
    """
    removals = expired_rows(writer, before_ms, cluster)
    states: dict[str, ClusterState] = {}
    for name in dict.fromkeys(removal.cluster for removal in removals):
        writer.check(name)
        before = writer.state(name)
        expired = _expired(before, before_ms)
        paths = {file.path for file in expired}
        retained_ms = max(before_ms, before.retained_ms or before_ms)
        states[name] = replace(
            before,
            files=tuple(file for file in before.files if file.path not in paths),
            partitions={**before.partitions, **_bases(writer, before, expired)},
            retained_ms=retained_ms,
        )
    if states:
        writer.commit(states, {})
    return removals


def _bases(
    writer: WarehouseWriter, state: ClusterState, expired: Sequence[WrittenFile]
) -> dict[int, PartitionState]:
    """Return the states of the partitions whose ownership depends on expired records."""
    ends: dict[int, int] = {}
    for file in _needed(expired):
        rows = read_rows(writer.root, file, ("offsets_partition", "log_offset"))
        last = rows.group_by("offsets_partition").aggregate([("log_offset", "max")])
        for number, end in zip(*(column.to_pylist() for column in last.columns), strict=True):
            ends[number] = max(end, ends.get(number, -1))
    changed: dict[int, PartitionState] = {}
    for number, end in ends.items():
        partition = state.partitions[number]
        now, begin = OwnershipState.none(), -1
        if partition.base is not None:
            now, begin = read_base(writer.root, partition.base, state.topic_names)
        # those of retained files, too, as far as they come before
        files = [
            file
            for file in _needed(state.files)
            if number in file.partitions and file.offsets[0] <= end
        ]
        for some in pieces(files, number):
            records = {
                name: after(_up_to(_rows(writer.root, some, name, columns, number), end), begin)
                for name, columns in NEEDED.items()
            }
            now = derive(number, now, records, state.topic_names).now
        base = PartitionBase(
            max(begin, end), write_state(writer, now.open), write_state(writer, now.members)
        )
        changed[number] = replace(partition, base=base)
    return changed


def _rows(
    root: Path, files: Iterable[WrittenFile], table: str, columns: Sequence[str], number: int
) -> pa.Table:
    own = [
        read_rows(root, file, columns, partitions=[number]) for file in files if file.table == table
    ]
    return pa.concat_tables([TABLES[table].schema.empty_table().select(columns), *own])


def _up_to(rows: pa.Table, end: int) -> pa.Table:
    return rows.filter(pc.less_equal(rows["log_offset"], end))


def _needed(files: Iterable[WrittenFile]) -> list[WrittenFile]:
    return [file for file in files if file.table in NEEDED and not file.is_open]


def _expired(state: ClusterState, before_ms: int) -> list[WrittenFile]:
    """Return the files all of whose rows are older than a time."""
    expired = []
    for file in state.files:
        times = file.limits.get("to_ms" if file.table == "assignments" else "time_ms")
        if file.table in _KEPT or times is None or times.highest is None or times.null_count:
            continue
        if times.highest < before_ms:
            expired.append(file)
    return expired


def _clusters(warehouse: Warehouse, cluster: str | None) -> tuple[str, ...]:
    return warehouse.clusters if cluster is None else (cluster,)


def _removals(
    cluster: str, state: ClusterState, removed: Sequence[WrittenFile]
) -> Iterable[TableRemoval]:
    for table in TABLES:
        count = sum(file.rows for file in removed if file.table == table)
        if count:
            rows = sum(file.rows for file in state.files if file.table == table)
            yield TableRemoval(cluster, table, count, rows - count)


def rows_of_group(
    warehouse: Warehouse, group_id: str, cluster: str | None = None
) -> tuple[TableRemoval, ...]:
    """Return what `delete_group` would remove; see `expired_rows`.

    Raises:
        InputError: the warehouse is damaged.
    """
    removals = []
    for name in _clusters(warehouse, cluster):
        state = warehouse.state(name)
        for table in TABLES:
            files = [file for file in state.files if file.table == table]
            count = sum(_count(warehouse.root, file, group_id) for file in files)
            if count:
                rows = sum(file.rows for file in files)
                removals.append(TableRemoval(name, table, count, rows - count))
    return tuple(removals)


def delete_group(
    writer: WarehouseWriter, group_id: str, cluster: str | None = None
) -> tuple[TableRemoval, ...]:
    """Remove all rows of a group, and what is known of its members.

    Raises:
        OSError: a file cannot be written.
        InputError: the warehouse is damaged.
    """
    removals = rows_of_group(writer, group_id, cluster)
    states: dict[str, ClusterState] = {}
    for name in _clusters(writer, cluster):
        writer.check(name)
        before = writer.state(name)
        replaced: set[str] = set()
        with FactWriter(writer.root, name, writer.build + 1) as facts:
            for file in before.files:
                if _count(writer.root, file, group_id):
                    rows = read_rows(writer.root, file)
                    facts.add({file.table: _without(rows, group_id)}, is_open=file.is_open)
                    replaced.add(file.path)
            written = facts.finish()
        kept = (file for file in before.files if file.path not in replaced)
        partitions = {
            number: _without_group(writer, partition, group_id)
            for number, partition in before.partitions.items()
        }
        after_it = replace(before, files=(*kept, *written), partitions=partitions)
        if after_it != before:
            states[name] = after_it
    if states:
        writer.commit(states, {})
    return removals


@dataclass(frozen=True, slots=True)
class UnneededFiles:
    """Files that are not needed any more.

    Attributes:
        file_count: number of files.
        file_bytes: total size of the files in bytes.
    """

    file_count: int
    file_bytes: int


def unneeded_files(warehouse: Warehouse, kept_ms: int) -> UnneededFiles:
    """Return the files that `vacuum` would delete.

    Args:
        warehouse: the warehouse.
        kept_ms: how long replaced files are kept.

    Raises:
        InputError: the warehouse is damaged.
    """
    sizes = [path.stat().st_size for path in warehouse.unneeded(kept_ms)]
    return UnneededFiles(len(sizes), sum(sizes))


def vacuum(writer: WarehouseWriter, kept_ms: int) -> UnneededFiles:
    """Delete files that were replaced so long ago, or that a killed build left.

    Raises:
        OSError: a file cannot be written.
        InputError: the warehouse is damaged.
    """
    found = unneeded_files(writer, kept_ms)
    writer.vacuum(kept_ms)
    return found


def _without_group(
    writer: WarehouseWriter, partition: PartitionState, group_id: str
) -> PartitionState:
    none = OwnershipState.none()

    def rewritten(path: str | None, schema: pa.Schema) -> str | None:
        if path is None:
            return None
        rows = read_parquet(writer.root / path, schema)
        rest = _without(rows, group_id)
        return path if len(rest) == len(rows) else write_state(writer, rest)

    base = partition.base
    if base is not None:
        base = PartitionBase(
            base.end,
            rewritten(base.opened, none.open.schema),
            rewritten(base.members, none.members.schema),
        )
    members = rewritten(partition.members, none.members.schema)
    return replace(partition, members=members, base=base)


def _count(root: Path, file: WrittenFile, group_id: str) -> int:
    """Return the number of rows of a group in a file."""
    if "group_id" not in TABLES[file.table].columns:
        return 0
    rows = read_rows(root, file, ["group_id"])
    return int(pc.sum(pc.equal(rows["group_id"], group_id)).as_py() or 0)


def _without(rows: pa.Table, group_id: str) -> pa.Table:
    return rows.filter(pc.fill_null(pc.not_equal(rows["group_id"], group_id), True))
