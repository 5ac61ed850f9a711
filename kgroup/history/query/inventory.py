"""Contents of a warehouse: its clusters, partitions and groups, and the times that it covers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kgroup.history.sql.engine import Engine, sql_type
from kgroup.history.sql.question import GROUP_TABLES, RECORD_TABLES, rows_of, times_by, where
from kgroup.history.sql.view import column_meanings
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.warehouse import Warehouse
from kgroup.operation.report import Report


@dataclass(frozen=True, slots=True)
class PartitionInventory:
    """Contents of a warehouse for a partition of `__consumer_offsets`.

    Attributes:
        offsets_partition: partition of `__consumer_offsets`.
        record_count: number of records read, also those that have expired or were deleted since.
        first_offset: lowest offset read; None if no record was read.
        last_offset: highest offset read; None if no record was read.
        missing_count: number of offsets between the two that were not read; compacted away, or
            never seen; None if no record was read.
        first_ms: time of the earliest readable record; None if no readable record has a time.
        last_ms: time of the latest readable record; None if no readable record has a time.
        damage_count: number of byte ranges that could not be read.
    """

    offsets_partition: int
    record_count: int
    first_offset: int | None
    last_offset: int | None
    missing_count: int | None
    first_ms: int | None
    last_ms: int | None
    damage_count: int


@dataclass(frozen=True, slots=True)
class ClusterInventory:
    """Contents of a warehouse for a cluster.

    Attributes:
        cluster: name of the cluster in the warehouse.
        build: number of the warehouse's last build.
        record_count, first_ms, last_ms, damage_count: as in `PartitionInventory`.
        file_count: number of table files.
        file_bytes: total size of the table files in bytes.
        partitions: partitions of `__consumer_offsets`; by number; tables have `partition_count`
            instead.
    """

    cluster: str
    build: int
    record_count: int
    first_ms: int | None
    last_ms: int | None
    damage_count: int
    file_count: int
    file_bytes: int
    partitions: tuple[PartitionInventory, ...]


@dataclass(frozen=True, slots=True)
class GroupInventory:
    """Contents of a warehouse for a group.

    Attributes:
        cluster: name of the cluster in the warehouse.
        group_id: group id.
        record_count: number of readable records about the group.
        first_ms, last_ms: as in `PartitionInventory`.
    """

    cluster: str
    group_id: str
    record_count: int
    first_ms: int | None
    last_ms: int | None


def groups_of(engine: Engine, cluster: str | None = None) -> Report[GroupInventory]:
    """Return the groups in a warehouse, by cluster and id; of one cluster, or of all."""
    condition, parameters = where(("cluster = ?", cluster))
    condition += " AND group_id IS NOT NULL"
    found = times_by(engine, "cluster, group_id", GROUP_TABLES, condition, parameters)
    notes = () if found else ("The warehouse has no records of groups.",)
    return Report(tuple(GroupInventory(**row) for row in found), notes=notes)


def inventory_of(
    warehouse: Warehouse, engine: Engine, cluster: str | None = None
) -> Report[ClusterInventory]:
    """Return the contents of a warehouse by cluster; of one cluster, or of all."""
    names = warehouse.clusters if cluster is None else (cluster,)
    notes = () if names else ("The warehouse has no clusters yet.",)
    return Report(tuple(_cluster(warehouse, engine, name) for name in names), notes=notes)


def _cluster(warehouse: Warehouse, engine: Engine, cluster: str) -> ClusterInventory:
    state = warehouse.state(cluster)
    times = {
        row["offsets_partition"]: (row["first_ms"], row["last_ms"])
        for row in times_by(engine, "offsets_partition", RECORD_TABLES, "cluster = ?", [cluster])
    }
    damaged = "SELECT offsets_partition FROM damage WHERE cluster = ?"
    damages = Counter(row["offsets_partition"] for row in rows_of(engine, damaged, [cluster]))
    partitions = []
    for number in sorted({*state.partitions, *times, *damages} - {None}):
        coverage = warehouse.coverage(cluster, number)
        first = int(coverage.firsts[0]) if coverage else None
        last = int(coverage.lasts[-1]) if coverage else None
        count = coverage.count
        missing = None if first is None or last is None else last - first + 1 - count
        time = times.get(number, (None, None))
        partitions.append(
            PartitionInventory(number, count, first, last, missing, *time, damages[number])
        )
    return ClusterInventory(
        cluster=cluster,
        build=warehouse.build,
        record_count=sum(partition.record_count for partition in partitions),
        first_ms=min((p.first_ms for p in partitions if p.first_ms is not None), default=None),
        last_ms=max((p.last_ms for p in partitions if p.last_ms is not None), default=None),
        damage_count=sum(damages.values()),
        file_count=len(state.files),
        file_bytes=sum(file.size for file in state.files),
        partitions=tuple(partitions),
    )


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a warehouse's tables.

    Attributes:
        table: table name.
        row: meaning of a row of the table.
        column: column name.
        type: SQL type.
        meaning: meaning of a value; null means unknown or absent.
    """

    table: str
    row: str
    column: str
    type: str
    meaning: str


def table_columns() -> Report[TableColumn]:
    """Return the data dictionary: all columns of all tables, in order."""
    return Report(
        tuple(
            TableColumn(
                table.name, table.row, field.name, sql_type(field.type), meanings[field.name]
            )
            for table in TABLES.values()
            for meanings in [column_meanings(table)]
            for field in table.full_schema
        )
    )
