"""The tables of a warehouse: the meaning of a row of each, and its columns.

There are two kinds. A row of a *record table* comes from one record of `__consumer_offsets`, and
every readable record is in exactly one of them; cluster, `offsets_partition` and `log_offset`
identify it. The other tables are derived: `members` has a row for each member in a record,
`assignments` a row for each interval during which a member owned a partition.

Files are in ``<table>/cluster=<name>/date=<day>/``: when a table is read, `cluster` and `date` (UTC
day of the row's time) are columns of it too.
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

_INT16, _INT32, _INT64 = pa.int16(), pa.int32(), pa.int64()
_TEXT = pa.string()

_Columns = Mapping[str, tuple[pa.DataType, str]]

_RECORD: _Columns = {
    "offsets_partition": (_INT32, "partition of __consumer_offsets"),
    "log_offset": (_INT64, "offset of the record in it"),
    "time_ms": (
        _INT64,
        "timestamp of the record; of a commit without one (message format v0) the commit's; else "
        "null",
    ),
    "log_leader_epoch": (
        _INT32,
        "epoch of the partition's leader that appended the record: it grows when the coordinator "
        "moves; null before message format v2",
    ),
}
_GROUP: _Columns = {**_RECORD, "group_id": (_TEXT, "group that the record is about")}
_PRODUCER: _Columns = {
    "producer_id": (_INT64, "of a transactional or idempotent producer"),
    "producer_epoch": (_INT16, "its epoch"),
    "transaction": (
        _TEXT,
        "null outside of transactions; committed, aborted, or open: no marker seen yet",
    ),
}


@dataclass(frozen=True, slots=True)
class WarehouseTable:
    """A table of a warehouse.

    Attributes:
        name: name of the table and of its folder.
        row: meaning of a row, as a sentence.
        columns: type and meaning of each column, by name; null means unknown or absent.
        day: column whose UTC day determines the folder of a row.
    """

    name: str
    row: str
    columns: _Columns
    day: str = "time_ms"

    @property
    def schema(self) -> pa.Schema:
        """Columns in the files, without those of the folders' names."""
        return pa.schema([(name, kind) for name, (kind, _) in self.columns.items()])


_ALL = (
    WarehouseTable(
        "offset_commits",
        "A committed offset: an OffsetCommit record with a value.",
        {
            **_GROUP,
            "topic": (_TEXT, "topic of the user"),
            "partition": (_INT32, "its partition"),
            "committed_offset": (_INT64, "as stored"),
            "leader_epoch": (_INT32, "of the last consumed record; null where not stored"),
            "metadata": (_TEXT, "as stored"),
            "commit_timestamp_ms": (_INT64, "when it was committed, as stored"),
            "expire_timestamp_ms": (_INT64, "null where not stored"),
            "topic_id": (_TEXT, "base64url as Kafka prints it; null where not stored"),
            **_PRODUCER,
        },
    ),
    WarehouseTable(
        "group_generations",
        "A classic group's GroupMetadata record with a value: a generation, or a change within it.",
        {
            **_GROUP,
            "generation_id": (_INT32, "as stored"),
            "protocol_type": (_TEXT, "consumer, connect, ...; empty for a group without members"),
            "protocol": (_TEXT, "the assignor that the members agreed on"),
            "leader_id": (_TEXT, "id of the member that assigned"),
            "state_timestamp_ms": (_INT64, "currentStateTimestamp; null where not stored"),
            "member_count": (_INT32, "how many members the record has"),
            "value_version": (_INT16, "of the record's value"),
            "value_json": (_TEXT, "all of the value, as decode-offsets prints it"),
        },
    ),
    WarehouseTable(
        "members",
        "A member as a record tells of it: each member in a GroupMetadata record, or the "
        "MemberMetadata record of a consumer, share or streams group.",
        {
            **_GROUP,
            "group_type": (_TEXT, "classic, consumer, share or streams"),
            "generation_id": (_INT32, "of a classic group, else null"),
            "member_id": (_TEXT, "id of the member"),
            "instance_id": (_TEXT, "group.instance.id of a static member"),
            "client_id": (_TEXT, "as the client calls itself"),
            "client_host": (_TEXT, "as stored: /10.0.0.1"),
            "rack_id": (_TEXT, "null where unknown"),
            "session_timeout_ms": (_INT32, "null where not stored"),
            "rebalance_timeout_ms": (_INT32, "null where not stored"),
            "subscribed_topics": (pa.list_(_TEXT), "null where it could not be decoded"),
            "subscribed_regex": (_TEXT, "of a consumer group's member"),
            "server_assignor": (_TEXT, "that a consumer group's member asks for"),
            "assignment": (
                ASSIGNED,
                "of a classic member, decoded; null where it could not be, and for other groups",
            ),
        },
    ),
    WarehouseTable(
        "consumer_group_epochs",
        "Any record with a value of a consumer, share or streams group.",
        {
            **_GROUP,
            "group_type": (_TEXT, "consumer, share or streams"),
            "type": (_TEXT, "of the record, as decode-offsets prints it"),
            "member_id": (_TEXT, "of the member that it is about; null for the group itself"),
            "epoch": (
                _INT32,
                "of the group, of its target assignment, of the member or of the topology, by "
                "type; else null",
            ),
            "previous_epoch": (_INT32, "of a CurrentMemberAssignment"),
            "state": (_INT16, "of the member, as stored"),
            "assignment": (
                ASSIGNED,
                "of a CurrentMemberAssignment or TargetAssignmentMember; of tasks the active ones",
            ),
            "pending_revocation": (ASSIGNED, "what the member still has to give up"),
            "value_json": (_TEXT, "all of the value, as decode-offsets prints it"),
        },
    ),
    WarehouseTable(
        "tombstones",
        "A record without a value: what its key stood for is gone.",
        {
            **_GROUP,
            "type": (_TEXT, "of the record: OffsetCommit, GroupMetadata, ..."),
            "member_id": (_TEXT, "of the member that it is about"),
            "topic": (_TEXT, "of an offset commit"),
            "partition": (_INT32, "of an offset commit"),
            "key_json": (
                _TEXT,
                "all of the key, as decode-offsets prints it; null where the columns have it all",
            ),
            **_PRODUCER,
        },
    ),
    WarehouseTable(
        "transactions",
        "The end of a transaction of a producer: a control record.",
        {
            **_RECORD,
            "producer_id": (_INT64, ""),
            "producer_epoch": (_INT16, ""),
            "outcome": (_TEXT, "committed or aborted"),
            "coordinator_epoch": (_INT32, "of the transaction's coordinator"),
        },
    ),
    WarehouseTable(
        "other_records",
        "Any other record: of a type that is not known, or whose value cannot be read.",
        {
            **_GROUP,
            "type": (_TEXT, "as decode-offsets prints it"),
            "key_json": (_TEXT, "as decode-offsets prints it"),
            "value_json": (_TEXT, "as decode-offsets prints it; null for a tombstone"),
            **_PRODUCER,
        },
    ),
    WarehouseTable(
        "assignments",
        "A stretch of time in which a member owned a partition (or a task).",
        {
            "offsets_partition": (_INT32, "partition of __consumer_offsets that told it"),
            "group_id": (_TEXT, "id of the group"),
            "group_type": (_TEXT, "classic, consumer, share or streams: when it began"),
            "topic": (_TEXT, "null where only its id is known, and for tasks"),
            "topic_id": (_TEXT, "null where not stored"),
            "subtopology": (_TEXT, "of a task of a streams group"),
            "partition": (_INT32, "of the topic, or number of the task"),
            "role": (_TEXT, "of a task: active, standby or warmup; else null"),
            "member_id": (_TEXT, "id of the member"),
            "instance_id": (_TEXT, "group.instance.id of a static member"),
            "client_id": (_TEXT, "as the client calls itself"),
            "client_host": (_TEXT, "as stored: /10.0.0.1"),
            "generation_id": (_INT32, "generation, or epoch of the member, in which it began"),
            "from_ms": (_INT64, "time of the record that gave it; null where that has none"),
            "from_log_offset": (_INT64, "offset of that record"),
            "to_ms": (_INT64, "time of the record that took it away; null: not yet, or unknown"),
            "to_log_offset": (_INT64, "offset of that record; null: the member has it still"),
            "ended_by": (
                _TEXT,
                "deleted (the group was), gone (the member left the group), moved (the same record "
                "gave it to another member), released (it did not: nobody has it now, or who had "
                "it beside); null: the member has it still, or what it has now cannot be read",
            ),
        },
        day="from_ms",
    ),
    WarehouseTable(
        "log_ends",
        "Where a partition of a user's topic began and ended, as a snapshot recorded it.",
        {
            "topic": (_TEXT, ""),
            "partition": (_INT32, ""),
            "log_start_offset": (_INT64, "null where unknown"),
            "log_end_offset": (_INT64, "null where unknown"),
            "time_ms": (_INT64, "when the snapshot was taken"),
        },
    ),
    WarehouseTable(
        "damage",
        "Bytes that could not be read.",
        {
            "offsets_partition": (_INT32, ""),
            "path": (_TEXT, "file, or topic and partition of a live cluster"),
            "position": (
                _INT64,
                "of the first byte in the file; null for a whole file, and of a live partition",
            ),
            "size": (_INT64, "how many bytes; null where the whole is meant"),
            "kind": (_TEXT, "short word, as decode-offsets gives it"),
            "reason": (_TEXT, "what was expected, what was found"),
            "time_ms": (_INT64, "when it was found first"),
        },
    ),
)

TABLES: Mapping[str, WarehouseTable] = {table.name: table for table in _ALL}
"""All tables by name."""
