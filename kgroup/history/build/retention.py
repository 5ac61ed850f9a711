"""Remove old days, or groups, from a warehouse.

A day goes once it is past entirely: files whose records are all too old, except for the last one of
each key, so that what held at that time is still known, as in a compacted topic. Records of open
transactions stay. An assignment is as old as its end; one that has not ended stays. Ownership at
the end of the expired records is kept as the base of each partition: if assignments must be derived
anew, they are derived from there.

Offsets of removed records stay known: builds do not read them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from kgroup.errors import UnknownGroupError, UsageError, near_names
from kgroup.history.build.build import next_markers
from kgroup.history.build.derivation import after, pieces, read_base, write_state
from kgroup.history.ownership.ownership import NEEDED, OwnershipState, derive
from kgroup.history.warehouse.state import ClusterState, PartitionBase, PartitionState
from kgroup.history.warehouse.store import Location
from kgroup.history.warehouse.table import TABLES, TRANSACTIONAL
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, read_parquet, read_rows
from kgroup.history.warehouse.warehouse import Warehouse, WarehouseWriter
from kgroup.model.record import TransactionStatus

_TYPES = {"offset_commits": "OffsetCommit", "group_generations": "GroupMetadata"}
"""Type of the records of a table, where it has no such column."""

_KEYED = (*_TYPES, "consumer_group_epochs", "tombstones")
"""Tables of records with keys: the last record of a key tells what still holds."""

_KEY: Mapping[str, tuple[pa.DataType, str | int]] = {
    "offsets_partition": (pa.int32(), -1),
    "type": (pa.string(), ""),
    "group_id": (pa.string(), ""),
    "member_id": (pa.string(), ""),
    "topic": (pa.string(), ""),
    "partition": (pa.int32(), -1),
}
"""Columns of a key, with their types and what stands for null."""

_PLACE = ["offsets_partition", "log_offset"]
"""Columns that identify a record."""

_COLUMNS = (*_KEY, "log_offset", "transaction")

_NO_LASTS = pa.schema(
    [*((name, kind) for name, (kind, _) in _KEY.items()), ("log_offset_max", pa.int64())]
).empty_table()

_MOST_KEYS = 1 << 20
"""Keys of several files that are collected before they are joined."""

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
        for state in (warehouse.state(name),)
        for removal in _removals(name, state, _expired(warehouse.root, state, before_ms))
    )


def expire(
    writer: WarehouseWriter, before_ms: int, cluster: str | None = None
) -> tuple[TableRemoval, ...]:
    """Remove older rows; see `expired_rows`.

    Raises:
        OSError: a file cannot be written.
        InputError: the warehouse is damaged.
    """
    removals: list[TableRemoval] = []
    states: dict[str, ClusterState] = {}
    for name in _clusters(writer, cluster):
        writer.check(name)
        before = writer.state(name)
        expired = _expired(writer.root, before, before_ms)
        if not expired:
            continue
        removals += _removals(name, before, expired)
        paths = {file.path for file, _ in expired}
        written = rewritten(writer, name, expired)
        kept = (file for file in before.files if file.path not in paths)
        states[name] = replace(
            before,
            files=(*kept, *written),
            partitions={
                **before.partitions,
                **_bases(writer, before, [file for file, _ in expired]),
            },
            retained_ms=max(before_ms, before.retained_ms or before_ms),
        )
    if states:
        writer.commit(states, {})
    return tuple(removals)


def rewritten(
    writer: WarehouseWriter, cluster: str, rests: Iterable[tuple[WrittenFile, pa.Table]]
) -> list[WrittenFile]:
    """Write what stays of files, one after the other: there may be very many."""
    written: list[WrittenFile] = []
    for file, rest in rests:
        with FactWriter(writer.root, cluster, writer.build + 1) as facts:
            facts.add({file.table: rest}, is_open=file.is_open)
            written += facts.finish()
    return written


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
    root: Location, files: Iterable[WrittenFile], table: str, columns: Sequence[str], number: int
) -> pa.Table:
    own = [
        read_rows(root, file, columns, partitions=[number]) for file in files if file.table == table
    ]
    return pa.concat_tables([TABLES[table].schema.empty_table().select(columns), *own])


def _up_to(rows: pa.Table, end: int) -> pa.Table:
    return rows.filter(pc.less_equal(rows["log_offset"], end))


def _needed(files: Iterable[WrittenFile]) -> list[WrittenFile]:
    return [file for file in files if file.table in NEEDED and not file.is_open]


def _expired(
    root: Location, state: ClusterState, before_ms: int
) -> list[tuple[WrittenFile, pa.Table]]:
    """Return the files all of whose rows are older than a time, and what stays of each."""
    old = [file for file in state.files if _is_old(file, before_ms)]
    lasts = _last_records(root, old)
    # Tombstones stay until a later time expires, because a retained record may come before them.
    retained_ms = state.retained_ms
    gone = [
        file
        for file in old
        if file.table == "tombstones"
        and retained_ms is not None
        and retained_ms < before_ms
        and _is_old(file, retained_ms)
    ]
    rests = [
        (file, TABLES[file.table].schema.empty_table())
        if file in gone
        else (file, _still_valid(root, file, lasts))
        for file in old
        if file.table not in ("transactions", "members")
    ]
    kept = [file for file in state.files if file.table in TRANSACTIONAL and file not in old]
    rests += _needed_markers(
        root, [file for file in old if file.table == "transactions"], rests, _first_ms(kept)
    )
    rests += _without_members(
        root, [file for file in state.files if file.table == "members"], rests
    )
    return [(file, rest) for file, rest in rests if len(rest) < file.rows]


def _needed_markers(
    root: Location,
    files: Iterable[WrittenFile],
    rests: Iterable[tuple[WrittenFile, pa.Table]],
    kept_ms: float,
) -> list[tuple[WrittenFile, pa.Table]]:
    """Return the markers that end the transactions of records that stay.

    Files that are kept whole have no records before `kept_ms`: later markers may end theirs.
    """
    columns = ["offsets_partition", "producer_id", "log_offset"]
    records = [
        rest.filter(pc.field("transaction") == TransactionStatus.COMMITTED).select(columns)
        for file, rest in rests
        if file.table in TRANSACTIONAL
    ]
    markers = [(file, read_rows(root, file)) for file in files]
    none = TABLES["transactions"].schema.empty_table()
    every = pa.concat_tables([none, *(rows for _, rows in markers)])
    ends = next_markers(pa.concat_tables([none.select(columns), *records]), every.select(columns))
    is_needed = pc.or_kleene(
        pc.is_in(pa.array(range(len(every)), pa.int64()), ends.drop_null()),
        pc.fill_null(pc.greater_equal(every["time_ms"].combine_chunks(), kept_ms), True),
    )
    needed: list[tuple[WrittenFile, pa.Table]] = []
    begin = 0
    for file, rows in markers:
        needed.append((file, rows.filter(is_needed.slice(begin, len(rows)))))
        begin += len(rows)
    return needed


def _first_ms(files: Iterable[WrittenFile]) -> float:
    """Return the time before which files have no rows: infinity without files."""
    times = [file.limits.get("time_ms") for file in files]
    if any(each is None or each.lowest is None or each.null_count for each in times):
        return -inf
    return min((each.lowest for each in times if each and each.lowest is not None), default=inf)


def _is_old(file: WrittenFile, before_ms: int) -> bool:
    times = file.limits.get("to_ms" if file.table == "assignments" else "time_ms")
    if file.table in _KEPT or file.is_open:
        return False
    if times is None or times.highest is None or times.null_count:
        return False
    return times.highest < before_ms


def _last_records(root: Location, files: Iterable[WrittenFile]) -> pa.Table:
    """Return the last record of each key in files: its key, and its offset as log_offset_max."""
    parts: list[pa.Table] = []
    count = 0
    for file in files:
        if file.table in _KEYED:
            parts.append(_last(_keys(root, file)))
            count += len(parts[-1])
            if count > _MOST_KEYS:
                parts = [_last(_renamed(pa.concat_tables(parts)))]
                count = 0
    return _last(_renamed(pa.concat_tables([_NO_LASTS, *parts])))


def _last(keys: pa.Table) -> pa.Table:
    return keys.group_by(list(_KEY), use_threads=False).aggregate([("log_offset", "max")])


def _renamed(lasts: pa.Table) -> pa.Table:
    return lasts.rename_columns([*_KEY, "log_offset"])


def _keys(root: Location, file: WrittenFile) -> pa.Table:
    """Return the keys and offsets of a file's records that took effect."""
    names = [name for name in _COLUMNS if name in TABLES[file.table].columns]
    rows = read_rows(root, file, names)
    if "transaction" in names:
        is_done = pc.equal(rows["transaction"], TransactionStatus.COMMITTED)
        rows = rows.filter(pc.fill_null(is_done, True))
    columns = {name: rows[name] for name in names}
    if file.table in _TYPES:
        columns["type"] = pa.repeat(_TYPES[file.table], len(rows))
    columns["type"] = pc.replace_substring(columns["type"], "LegacyOffset", "Offset")
    full = {
        name: pc.fill_null(columns[name], nothing)
        if name in columns
        else pa.repeat(pa.scalar(nothing, kind), len(rows))
        for name, (kind, nothing) in _KEY.items()
    }
    # the tables do not have the whole key of these records, so each of them may be the last one
    is_regex = pc.equal(full["type"], "ConsumerGroupRegularExpression")
    full["topic"] = pc.if_else(is_regex, columns["log_offset"].cast(pa.string()), full["topic"])
    return pa.table({**full, "log_offset": columns["log_offset"]})


def _still_valid(root: Location, file: WrittenFile, lasts: pa.Table) -> pa.Table:
    """Return the rows of a file that belong to the last record of a key."""
    rows = read_rows(root, file)
    if file.table not in _KEYED:
        return rows.slice(0, 0)
    own = _last(_keys(root, file))
    found = own.join(lasts, [*_KEY, "log_offset_max"], join_type="inner")
    valid = found.select(["offsets_partition", "log_offset_max"]).rename_columns(_PLACE)
    return _joined(rows, valid, "left semi")


def _joined(rows: pa.Table, places: pa.Table, how: str) -> pa.Table:
    """Return the rows whose record is one of those at some places, or is not, in their order."""
    at = rows.select(_PLACE).append_column("row", pa.array(range(len(rows)), pa.int64()))
    return rows.take(at.join(places, _PLACE, join_type=how)["row"].sort())


def _without_members(
    root: Location, files: Iterable[WrittenFile], rests: Iterable[tuple[WrittenFile, pa.Table]]
) -> list[tuple[WrittenFile, pa.Table]]:
    """Return what stays of the members in records: those of records that stay."""
    none = TABLES["members"].schema.empty_table().select(_PLACE)
    gone = pa.concat_tables(
        [none]
        + [
            _joined(read_rows(root, file, _PLACE), rest.select(_PLACE), "left anti")
            for file, rest in rests
            if file.table in ("group_generations", "consumer_group_epochs")
        ]
    )
    if not len(gone):
        return []
    return [(file, _joined(read_rows(root, file), gone, "left anti")) for file in files]


def _clusters(warehouse: Warehouse, cluster: str | None) -> tuple[str, ...]:
    return warehouse.clusters if cluster is None else (cluster,)


def _removals(
    cluster: str, state: ClusterState, removed: Sequence[tuple[WrittenFile, pa.Table]]
) -> Iterable[TableRemoval]:
    for table in TABLES:
        count = sum(file.rows - len(rest) for file, rest in removed if file.table == table)
        if count:
            rows = sum(file.rows for file in state.files if file.table == table)
            yield TableRemoval(cluster, table, count, rows - count)


def rows_of_groups(
    warehouse: Warehouse, group_ids: Collection[str], cluster: str | None = None
) -> tuple[TableRemoval, ...]:
    """Return what `delete_groups` would remove; see `expired_rows`.

    Raises:
        UnknownGroupError: there are no rows of a group.
        UsageError: several clusters have one of the groups, and none is chosen.
        InputError: the warehouse is damaged.
    """
    removals, _ = _with_groups(warehouse, group_ids, cluster)
    return removals


def _with_groups(
    warehouse: Warehouse, group_ids: Collection[str], cluster: str | None
) -> tuple[tuple[TableRemoval, ...], Mapping[str, Sequence[WrittenFile]]]:
    """Return what `rows_of_groups` does, and the files with such rows by cluster."""
    removals: list[TableRemoval] = []
    files: dict[str, list[WrittenFile]] = {}
    clusters: dict[str, set[str]] = {group_id: set() for group_id in group_ids}
    for name in _clusters(warehouse, cluster):
        state = warehouse.state(name)
        for table in TABLES:
            count = rows = 0
            for file in state.files:
                if file.table == table:
                    rows += file.rows
                    found = _group_ids(warehouse.root, file).filter(_is_one(group_ids))
                    if len(found):
                        count += len(found)
                        files.setdefault(name, []).append(file)
                    for group_id in pc.unique(found["group_id"]).to_pylist():
                        clusters[group_id].add(name)
            if count:
                removals.append(TableRemoval(name, table, count, rows - count))
    for group_id, names in clusters.items():
        if not names:
            meant = near_names(group_id, _every_group(warehouse, cluster))
            raise UnknownGroupError(
                f"{warehouse.root}: the warehouse has no rows of group {group_id!r}{meant}",
                group_id=group_id,
            )
        if len(names) > 1:
            raise UsageError(
                f"several clusters have the group {group_id!r}: {', '.join(sorted(names))}; choose "
                "one with --cluster"
            )
    return tuple(removals), files


def _every_group(warehouse: Warehouse, cluster: str | None) -> list[str]:
    found: set[str] = set()
    for name in _clusters(warehouse, cluster):
        for file in warehouse.state(name).files:
            found |= {*pc.unique(_group_ids(warehouse.root, file)["group_id"]).to_pylist()}
    return sorted(group_id for group_id in found if group_id is not None)


def delete_groups(
    writer: WarehouseWriter, group_ids: Collection[str], cluster: str | None = None
) -> tuple[TableRemoval, ...]:
    """Remove all rows of groups, and what is known of their members; see `rows_of_groups`.

    Raises:
        OSError: a file cannot be written.
    """
    removals, files = _with_groups(writer, group_ids, cluster)
    states: dict[str, ClusterState] = {}
    for name, changed in files.items():
        writer.check(name)
        before = writer.state(name)
        rests = ((file, _without(read_rows(writer.root, file), group_ids)) for file in changed)
        written = rewritten(writer, name, rests)
        replaced = {file.path for file in changed}
        kept = (file for file in before.files if file.path not in replaced)
        partitions = {
            number: _without_groups(writer, partition, group_ids)
            for number, partition in before.partitions.items()
        }
        states[name] = replace(before, files=(*kept, *written), partitions=partitions)
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
    """Return the files that `WarehouseWriter.vacuum` would delete.

    Args:
        warehouse: the warehouse.
        kept_ms: how long replaced files are kept.

    Raises:
        InputError: the warehouse is damaged.
    """
    sizes = [path.stat().st_size for path in warehouse.unneeded(kept_ms)]
    return UnneededFiles(len(sizes), sum(sizes))


def _without_groups(
    writer: WarehouseWriter, partition: PartitionState, group_ids: Collection[str]
) -> PartitionState:
    none = OwnershipState.none()

    def rewritten(path: str | None, schema: pa.Schema) -> str | None:
        if path is None:
            return None
        rows = read_parquet(writer.root / path, schema)
        rest = _without(rows, group_ids)
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


def _group_ids(root: Location, file: WrittenFile) -> pa.Table:
    if "group_id" not in TABLES[file.table].columns:
        return pa.table({"group_id": pa.array([], pa.string())})
    return read_rows(root, file, ["group_id"])


def _is_one(group_ids: Collection[str]) -> pc.Expression:
    return pc.field("group_id").isin(list(group_ids))


def _without(rows: pa.Table, group_ids: Collection[str]) -> pa.Table:
    is_one = pc.is_in(rows["group_id"], pa.array(group_ids, pa.string()))
    return rows.filter(pc.invert(is_one))
