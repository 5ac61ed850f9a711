"""The tables of a warehouse: the meaning of a row of each, and its columns.

There are two kinds. A row of a *record table* comes from one record of `__consumer_offsets`, and
every readable record is in exactly one of them; cluster, `offsets_partition` and `log_offset`
identify it. The other tables are derived: `members` has a row for each member in a record,
`assignments` a row for each interval during which a member owned a partition.

Each table has two more columns, `PLACE`: the cluster, and the UTC day of the row's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

ASSIGNED = pa.list_(
    pa.struct(
        [
            pa.field("topic", pa.string()),
            pa.field("topic_id", pa.string()),
            pa.field("subtopology", pa.string()),
            pa.field("role", pa.string()),
            pa.field("partitions", pa.list_(pa.int32())),
        ]
    )
)
"""Assignment of a member: partitions by topic (name, id or both), or tasks by subtopology and role
(active, standby or warmup; null for partitions).
"""

PLACE = (pa.field("cluster", pa.string()), pa.field("date", pa.date32()))
"""Columns that are the same for all rows of a file. `date` is null if a row has no time, and for
assignments that have not ended.
"""
PLACE_MEANINGS = {
    "cluster": "name of the cluster in the warehouse",
    "date": "UTC day of the row's time; null without a time, and for open assignments",
}
"""Meanings of the columns of `PLACE`, by name."""

ADDED = frozenset({"first_offset", "last_offset"})
"""Columns that files of older versions lack; their values are null."""

_INT16, _INT32, _INT64 = pa.int16(), pa.int32(), pa.int64()
_TEXT = pa.string()

_Columns = Mapping[str, tuple[pa.DataType, str]]

_RECORD: _Columns = {
    "offsets_partition": (_INT32, "partition of __consumer_offsets"),
    "log_offset": (_INT64, "offset of the record in that partition"),
    "time_ms": (
        _INT64,
        "record timestamp; for a commit record without one (message format v0), the commit "
        "timestamp; else null",
    ),
    "log_leader_epoch": (
        _INT32,
        "leader epoch of the partition when the record was appended; it grows when the "
        "coordinator moves; null before message format v2",
    ),
}
_GROUP: _Columns = {**_RECORD, "group_id": (_TEXT, "group id")}
_PRODUCER: _Columns = {
    "producer_id": (_INT64, "producer id of a transactional or idempotent producer"),
    "producer_epoch": (_INT16, "producer epoch"),
    "transaction": (
        _TEXT,
        "outcome of the record's transaction: committed, aborted, or open (no marker seen yet); "
        "null outside of transactions",
    ),
}


@dataclass(frozen=True, slots=True)
class WarehouseTable:
    """A table of a warehouse.

    Attributes:
        name: name of the table and of its folder.
        row: meaning of a row, as a sentence.
        columns: type and meaning of each column, by name; null means unknown or absent.
        day: column whose UTC day is the date of a row.
        are_open_dayless: whether rows that may change have no date, so that those of a partition
            of `__consumer_offsets` share a file: builds with new records of it replace them.
    """

    name: str
    row: str
    columns: _Columns
    day: str = "time_ms"
    are_open_dayless: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Columns without `PLACE`."""
        return pa.schema([(name, kind) for name, (kind, _) in self.columns.items()])

    @property
    def times(self) -> Mapping[str, str]:
        """Columns that are points in time, and the names of these as timestamps."""
        names = [name for name in self.columns if name.endswith(("time_ms", "timestamp_ms"))]
        return {name: name.removesuffix("_ms") for name in names} | {
            name: f"{name.removesuffix('_ms')}_time"
            for name in ("from_ms", "to_ms")
            if name in self.columns
        }

    @property
    def full_schema(self) -> pa.Schema:
        """All columns, as they are in files and queries."""
        return pa.schema([*self.schema, *PLACE])


_ALL = (
    WarehouseTable(
        "offset_commits",
        "A committed offset: an OffsetCommit record with a value.",
        {
            **_GROUP,
            "topic": (_TEXT, "topic name"),
            "partition": (_INT32, "partition number"),
            "committed_offset": (_INT64, "committed offset"),
            "leader_epoch": (
                _INT32,
                "leader epoch of the last consumed record; null if not stored",
            ),
            "metadata": (_TEXT, "metadata of the commit"),
            "commit_timestamp_ms": (_INT64, "when the offset was committed, as stored"),
            "expire_timestamp_ms": (_INT64, "when the offset expires; null if not stored"),
            "topic_id": (_TEXT, "topic id, base64url as Kafka prints it; null if not stored"),
            **_PRODUCER,
        },
    ),
    WarehouseTable(
        "group_generations",
        "A GroupMetadata record of a classic group with a value: a generation, or a change in it.",
        {
            **_GROUP,
            "generation_id": (_INT32, "generation"),
            "protocol_type": (
                _TEXT,
                "protocol type: consumer, connect, ...; empty for a group without members",
            ),
            "protocol": (_TEXT, "strategy that the members agreed on"),
            "leader_id": (_TEXT, "member id of the leader, which computed the assignment"),
            "state_timestamp_ms": (
                _INT64,
                "currentStateTimestamp of the value; null if not stored",
            ),
            "member_count": (_INT32, "number of members in the record"),
            "value_version": (_INT16, "version of the record's value"),
            "value_json": (_TEXT, "the whole value, as decode-offsets prints it"),
        },
    ),
    WarehouseTable(
        "members",
        "A member in a record: each member in a GroupMetadata record, or the member of a "
        "MemberMetadata record of a consumer, share or streams group.",
        {
            **_GROUP,
            "group_type": (_TEXT, "group type: classic, consumer, share or streams"),
            "generation_id": (_INT32, "generation of a classic group; else null"),
            "member_id": (_TEXT, "member id"),
            "instance_id": (_TEXT, "group.instance.id of a static member; else null"),
            "client_id": (_TEXT, "client.id that the client sent"),
            "client_host": (_TEXT, "client address as seen by the broker: /10.0.0.1"),
            "rack_id": (_TEXT, "rack of the client; null if unknown"),
            "session_timeout_ms": (_INT32, "session timeout; null if not stored"),
            "rebalance_timeout_ms": (_INT32, "rebalance timeout; null if not stored"),
            "subscribed_topics": (pa.list_(_TEXT), "subscribed topics; null if not decodable"),
            "subscribed_regex": (_TEXT, "subscribed regular expression, in a consumer group"),
            "server_assignor": (_TEXT, "server-side assignor requested, in a consumer group"),
            "assignment": (
                ASSIGNED,
                "assignment of a classic member; null if not decodable, and for other groups",
            ),
        },
    ),
    WarehouseTable(
        "consumer_group_epochs",
        "A record of a consumer, share or streams group with a value, of any type.",
        {
            **_GROUP,
            "group_type": (_TEXT, "group type: consumer, share or streams"),
            "type": (_TEXT, "record type, as decode-offsets prints it"),
            "member_id": (_TEXT, "member id; null if the record is about the group itself"),
            "epoch": (
                _INT32,
                "epoch of the group, its target assignment, the member or the topology, depending "
                "on the type; else null",
            ),
            "previous_epoch": (_INT32, "previous member epoch, of a CurrentMemberAssignment"),
            "state": (_INT16, "member state, as stored: a number"),
            "assignment": (
                ASSIGNED,
                "assignment of a CurrentMemberAssignment or TargetAssignmentMember; of tasks, "
                "only the active ones",
            ),
            "pending_revocation": (
                ASSIGNED,
                "partitions or tasks that the member still has to revoke",
            ),
            "value_json": (_TEXT, "the whole value, as decode-offsets prints it"),
        },
    ),
    WarehouseTable(
        "tombstones",
        "A record without a value: it deletes what its key identifies.",
        {
            **_GROUP,
            "type": (_TEXT, "record type: OffsetCommit, GroupMetadata, ..."),
            "member_id": (_TEXT, "member id, of a member's record"),
            "topic": (_TEXT, "topic name, of an offset commit"),
            "partition": (_INT32, "partition number, of an offset commit"),
            "key_json": (
                _TEXT,
                "the whole key, as decode-offsets prints it; null if the columns contain all of it",
            ),
            **_PRODUCER,
        },
    ),
    WarehouseTable(
        "transactions",
        "A control record: the end of a producer's transaction.",
        {
            **_RECORD,
            "producer_id": (_INT64, "producer id"),
            "producer_epoch": (_INT16, "producer epoch"),
            "outcome": (_TEXT, "outcome of the transaction: committed or aborted"),
            "coordinator_epoch": (_INT32, "epoch of the transaction coordinator"),
        },
    ),
    WarehouseTable(
        "other_records",
        "Any other record: its type is unknown, or its value cannot be read.",
        {
            **_GROUP,
            "type": (_TEXT, "record type, as decode-offsets prints it"),
            "key_json": (_TEXT, "the whole key, as decode-offsets prints it"),
            "value_json": (
                _TEXT,
                "the whole value, as decode-offsets prints it; null for a tombstone",
            ),
            **_PRODUCER,
        },
    ),
    WarehouseTable(
        "assignments",
        "An interval in which a member owned a partition or a task.",
        {
            "offsets_partition": (_INT32, "partition of __consumer_offsets with the records"),
            "group_id": (_TEXT, "group id"),
            "group_type": (_TEXT, "group type at the start: classic, consumer, share or streams"),
            "topic": (_TEXT, "topic name; null if only the topic id is known, and for tasks"),
            "topic_id": (_TEXT, "topic id; null if not stored"),
            "subtopology": (_TEXT, "subtopology of a streams group's task; else null"),
            "partition": (_INT32, "partition number, or task number"),
            "role": (_TEXT, "role of a task: active, standby or warmup; else null"),
            "member_id": (_TEXT, "member id"),
            "instance_id": (_TEXT, "group.instance.id of a static member; else null"),
            "client_id": (_TEXT, "client.id that the client sent"),
            "client_host": (_TEXT, "client address as seen by the broker: /10.0.0.1"),
            "generation_id": (_INT32, "generation, or member epoch, at the start"),
            "from_ms": (_INT64, "time of the record that began the interval; null if it has none"),
            "from_log_offset": (_INT64, "offset of the record that began the interval"),
            "to_ms": (
                _INT64,
                "time of the record that ended the interval; null if not ended, or unknown",
            ),
            "to_log_offset": (
                _INT64,
                "offset of the record that ended the interval; null if not ended",
            ),
            "ended_by": (
                _TEXT,
                "moved (the same record assigned the partition to another member), released (no "
                "other member got it: it has no owner, or only the members that owned it at the "
                "same time), gone (the member left the group), deleted (the group was deleted); "
                "null if the member still owns it, or if its current assignment cannot be read",
            ),
        },
        day="from_ms",
        are_open_dayless=True,
    ),
    WarehouseTable(
        "log_ends",
        "Log start offset and log end offset of a partition, recorded by a snapshot or by a build "
        "of a live cluster. A build also records those of `__consumer_offsets`: all records before "
        "this end are in the tables.",
        {
            "topic": (_TEXT, "topic name"),
            "partition": (_INT32, "partition number"),
            "log_start_offset": (_INT64, "log start offset; null if unknown"),
            "log_end_offset": (_INT64, "log end offset; null if unknown"),
            "time_ms": (_INT64, "when it was recorded"),
        },
    ),
    WarehouseTable(
        "damage",
        "A range of bytes that could not be read, and whose records were not read from another "
        "copy.",
        {
            "offsets_partition": (_INT32, "partition of __consumer_offsets"),
            "path": (_TEXT, "path of the file, or topic and partition of a live cluster"),
            "position": (
                _INT64,
                "position of the first byte in the file; null for a whole file or a live partition",
            ),
            "size": (_INT64, "number of bytes; null for a whole file or partition"),
            "kind": (_TEXT, "kind of damage: a short word, as in decode-offsets"),
            "reason": (_TEXT, "what was expected and what was found"),
            "first_offset": (
                _INT64,
                "the offset after the last record before these bytes; null if unknown",
            ),
            "last_offset": (
                _INT64,
                "the offset before the first record after these bytes; null if unknown",
            ),
            "time_ms": (_INT64, "when the damage was first found"),
        },
    ),
)

TABLES: Mapping[str, WarehouseTable] = {table.name: table for table in _ALL}
"""All tables by name."""

TRANSACTIONAL = tuple(name for name, table in TABLES.items() if "transaction" in table.columns)
"""Tables of records that may be part of a transaction."""
