"""Convert decoded records to rows of the record tables and of `members`.

Works on whole Arrow batches. Offset commits have typed columns and keep them. The other records,
which are few, are JSON texts, read by Arrow's JSON reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kgroup.columnar.schema import COMMIT_TYPES
from kgroup.history.warehouse.table import ASSIGNED, TABLES
from kgroup.model.group import GroupType
from kgroup.model.group_log import EFFECTS
from kgroup.model.record import TransactionStatus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Mask = NDArray[np.bool_]

_GROUP_TYPES = {
    name: effect.group_type.value
    for name, effect in EFFECTS.items()
    if effect.group_type is not GroupType.CLASSIC
}
"""Types of groups with epochs, by record type."""

_COMMIT, _GENERATION, _EPOCH, _MARKER, _OTHER = range(5)
_KINDS: Mapping[str, int] = {
    **dict.fromkeys(COMMIT_TYPES, _COMMIT),
    "GroupMetadata": _GENERATION,
    **dict.fromkeys(_GROUP_TYPES, _EPOCH),
    "ControlCommit": _MARKER,
    "ControlAbort": _MARKER,
}

_RECORD = {
    "partition": "offsets_partition",
    "offset": "log_offset",
    "time_ms": "time_ms",
    "leader_epoch": "log_leader_epoch",
}
_GROUP = {**_RECORD, "group": "group_id"}
_PRODUCER = {name: name for name in ("producer_id", "producer_epoch", "transaction")}
_COMMIT_COLUMNS = {
    **_GROUP,
    "topic": "topic",
    "topic_partition": "partition",
    "committed_offset": "committed_offset",
    "committed_leader_epoch": "leader_epoch",
    "metadata": "metadata",
    "commit_timestamp_ms": "commit_timestamp_ms",
    "expire_timestamp_ms": "expire_timestamp_ms",
    "topic_id": "topic_id",
    **_PRODUCER,
}
"""Names in the tables, by the decoder's column names."""

_TEXTS = pa.list_(pa.string())
_ROLES = ("active", "standby", "warmup")
_REVOKED = "PendingRevocation"
_BY_TOPIC, _BY_ID, _TASKS = (
    pa.list_(pa.struct([(name, pa.string()), ("partitions", pa.list_(pa.int32()))]))
    for name in ("topic", "topicId", "subtopologyId")
)


def _data(**fields: pa.DataType) -> pa.Schema:
    return pa.schema([("data", pa.struct(list(fields.items())))])


_KEY = _data(groupId=pa.string(), memberId=pa.string())
_MARKER_VALUE = _data(coordinatorEpoch=pa.int32())
_GENERATION_VALUE = _data(
    protocolType=pa.string(),
    generation=pa.int32(),
    protocol=pa.string(),
    leader=pa.string(),
    currentStateTimestamp=pa.int64(),
    members=pa.list_(
        pa.struct(
            [
                ("memberId", pa.string()),
                ("groupInstanceId", pa.string()),
                ("clientId", pa.string()),
                ("clientHost", pa.string()),
                ("rebalanceTimeout", pa.int32()),
                ("sessionTimeout", pa.int32()),
                ("subscription", pa.struct([("topics", _TEXTS), ("rackId", pa.string())])),
                (
                    "assignment",
                    pa.struct([("assignedPartitions", _BY_TOPIC), ("raw", pa.string())]),
                ),
            ]
        )
    ),
)
_EPOCH_VALUE = _data(
    epoch=pa.int32(),
    assignmentEpoch=pa.int32(),
    memberEpoch=pa.int32(),
    previousMemberEpoch=pa.int32(),
    state=pa.int16(),
    assignedPartitions=_BY_ID,
    partitionsPendingRevocation=_BY_ID,
    topicPartitions=_BY_ID,
    **{f"{role}Tasks{ending}": _TASKS for role in _ROLES for ending in ("", _REVOKED)},
    instanceId=pa.string(),
    clientId=pa.string(),
    clientHost=pa.string(),
    rackId=pa.string(),
    rebalanceTimeoutMs=pa.int32(),
    subscribedTopicNames=_TEXTS,
    subscribedTopicRegex=pa.string(),
    serverAssignor=pa.string(),
    classicMemberMetadata=pa.struct([("sessionTimeoutMs", pa.int32())]),
)
_NO_STATE_TIMESTAMP = -1


def facts_of(batch: pa.RecordBatch) -> dict[str, pa.Table]:
    """Sort decoded records into tables.

    Args:
        batch: rows of `columnar.schema.DECODED`.

    Returns:
        Rows by table name, in the batch's order, with the columns of the table's schema; text may
        be dictionary-encoded. Tables without rows are left out.
    """
    times = pc.coalesce(batch["timestamp_ms"], batch["commit_timestamp_ms"])
    rows = pa.Table.from_batches([batch.append_column("time_ms", times)])
    kinds = _kinds(batch["type"])
    has_group = _valid(batch["group"])
    has_text = _valid(batch["value_json"])
    is_tombstone = (kinds <= _EPOCH) & has_group & ~has_text & ~_valid(batch["value_version"])
    is_commit = (kinds == _COMMIT) & has_group & _valid(batch["committed_offset"])
    is_other = ~(is_tombstone | is_commit)
    tables: list[tuple[str, pa.Table]] = []
    if is_commit.any():
        tables.append(("offset_commits", _where(_columns(rows, _COMMIT_COLUMNS), is_commit)))
    if is_tombstone.any():
        tables.append(("tombstones", _tombstones(_where(rows, is_tombstone))))
    for kind, schema, tables_of in _READERS:
        mask = is_other & has_text & (kinds == kind) & (has_group | (kind == _MARKER))
        if mask.any():
            some = _where(rows, mask)
            values = _read(some["value_json"], schema)
            is_read = _valid(values) | (kind == _MARKER)
            if is_read.any():
                tables += tables_of(_where(some, is_read), _where(values, is_read)).items()
                is_other[np.flatnonzero(mask)[is_read]] = False
    if is_other.any():
        names = {**_GROUP, "type": "type", "key_json": "key_json", "value_json": "value_json"}
        others = _columns(rows, {**names, **_PRODUCER})
        tables.append(("other_records", _where(others, is_other)))
    facts: dict[str, pa.Table] = {}
    for name, table in tables:
        table = table.select(TABLES[name].schema.names)
        if name in facts:  # members of classic groups, and of the others
            table = pa.concat_tables([facts[name], table]).sort_by("log_offset")
        if len(table):
            facts[name] = table
    return facts


def _tombstones(rows: pa.Table) -> pa.Table:
    table = _columns(
        rows,
        {
            **_GROUP,
            "type": "type",
            "topic": "topic",
            "topic_partition": "partition",
            "key_json": "key_json",
            **_PRODUCER,
        },
    )
    members = _read(rows["key_json"], _KEY)
    return table.append_column("member_id", pc.struct_field(members, "memberId"))


def _generations(rows: pa.Table, values: pa.Array) -> dict[str, pa.Table]:
    group = _columns(rows, {**_GROUP, "value_version": "value_version", "value_json": "value_json"})
    members = pc.struct_field(values, "members")
    state_ms = pc.struct_field(values, "currentStateTimestamp")
    generations = _with(
        group,
        generation_id=pc.struct_field(values, "generation"),
        protocol_type=pc.struct_field(values, "protocolType"),
        protocol=pc.struct_field(values, "protocol"),
        leader_id=pc.struct_field(values, "leader"),
        state_timestamp_ms=_unless(state_ms, _NO_STATE_TIMESTAMP),
        member_count=pc.list_value_length(members).cast(pa.int32()),
    )
    facts = {"group_generations": generations}
    owners = pc.list_parent_indices(members)
    flatten = pc.list_flatten(members)
    if len(flatten):
        kinds = pc.take(pc.struct_field(values, "protocolType"), owners)
        given = pc.struct_field(flatten, "assignment")
        facts["members"] = _with(
            group.select(list(_GROUP.values())).take(owners),
            group_type=_constant("classic", len(flatten)),
            generation_id=pc.take(pc.struct_field(values, "generation"), owners),
            member_id=pc.struct_field(flatten, "memberId"),
            instance_id=pc.struct_field(flatten, "groupInstanceId"),
            client_id=pc.struct_field(flatten, "clientId"),
            client_host=pc.struct_field(flatten, "clientHost"),
            rack_id=pc.struct_field(flatten, ["subscription", "rackId"]),
            session_timeout_ms=pc.struct_field(flatten, "sessionTimeout"),
            rebalance_timeout_ms=pc.struct_field(flatten, "rebalanceTimeout"),
            subscribed_topics=pc.struct_field(flatten, ["subscription", "topics"]),
            subscribed_regex=_constant(None, len(flatten)),
            server_assignor=_constant(None, len(flatten)),
            assignment=_assigned(
                pc.struct_field(given, "assignedPartitions"),
                topic="topic",
                # zero bytes are an empty assignment
                is_empty=pc.and_(
                    pc.equal(kinds, "consumer"),
                    pc.fill_null(pc.equal(pc.struct_field(given, "raw"), ""), False),
                ),
            ),
        )
    return facts


def _epochs(rows: pa.Table, values: pa.Array) -> dict[str, pa.Table]:
    types = _plain(rows["type"])
    group_types = pa.array([_GROUP_TYPES[name] for name in types.to_pylist()], pa.string())
    member_ids = _read(rows["key_json"], _KEY)
    group = _columns(rows, {**_GROUP, "value_json": "value_json"})
    epochs = _with(
        group,
        group_type=group_types,
        type=types,
        member_id=pc.struct_field(member_ids, "memberId"),
        epoch=_first(values, "epoch", "assignmentEpoch", "memberEpoch"),
        previous_epoch=pc.struct_field(values, "previousMemberEpoch"),
        state=pc.struct_field(values, "state"),
        assignment=pc.coalesce(
            _assigned(_first(values, "assignedPartitions", "topicPartitions"), topic_id="topicId"),
            _tasks(values, ""),
        ),
        pending_revocation=pc.coalesce(
            _assigned(pc.struct_field(values, "partitionsPendingRevocation"), topic_id="topicId"),
            _tasks(values, _REVOKED),
        ),
    )
    facts = {"consumer_group_epochs": epochs}
    is_member = np.array([name.endswith("MemberMetadata") for name in types.to_pylist()], bool)
    if is_member.any():
        members = epochs.select([*_GROUP.values(), "group_type", "member_id"])
        member_values = _where(values, is_member)
        facts["members"] = _with(
            _where(members, is_member),
            generation_id=pa.nulls(len(member_values), pa.int32()),
            instance_id=pc.struct_field(member_values, "instanceId"),
            client_id=pc.struct_field(member_values, "clientId"),
            client_host=pc.struct_field(member_values, "clientHost"),
            rack_id=pc.struct_field(member_values, "rackId"),
            session_timeout_ms=pc.struct_field(
                member_values, ["classicMemberMetadata", "sessionTimeoutMs"]
            ),
            rebalance_timeout_ms=_unless(pc.struct_field(member_values, "rebalanceTimeoutMs"), -1),
            subscribed_topics=pc.struct_field(member_values, "subscribedTopicNames"),
            subscribed_regex=pc.struct_field(member_values, "subscribedTopicRegex"),
            server_assignor=pc.struct_field(member_values, "serverAssignor"),
            assignment=pa.nulls(len(member_values), ASSIGNED),
        )
    return facts


def _markers(rows: pa.Table, values: pa.Array) -> dict[str, pa.Table]:
    is_commit = pc.equal(_plain(rows["type"]), "ControlCommit")
    table = _with(
        _columns(rows, {**_RECORD, **_PRODUCER}).drop(["transaction"]),
        outcome=pc.if_else(is_commit, TransactionStatus.COMMITTED, TransactionStatus.ABORTED),
        coordinator_epoch=pc.struct_field(values, "coordinatorEpoch"),
    )
    return {"transactions": table}


_READERS = (
    (_GENERATION, _GENERATION_VALUE, _generations),
    (_EPOCH, _EPOCH_VALUE, _epochs),
    (_MARKER, _MARKER_VALUE, _markers),
)
"""Kind of record, the schema of its value, and the function that makes its rows."""


def _kinds(types: pa.DictionaryArray) -> NDArray[np.int8]:
    by_code = [_KINDS.get(name, _OTHER) for name in types.dictionary.to_pylist()]
    kinds = np.array(by_code, np.int8)
    code_numbers: NDArray[np.int8] = kinds[types.indices.to_numpy(zero_copy_only=False)]
    return code_numbers


def _read(texts: pa.Array, schema: pa.Schema) -> pa.Array:
    """Parse JSON objects; return their field `data`, null if it is null or there is no text."""
    lines = pc.fill_null(_one(texts), "{}")
    [joined] = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    json = pyarrow.json.read_json(
        pa.BufferReader(joined.as_buffer()),
        pyarrow.json.ReadOptions(use_threads=False, block_size=joined.as_buffer().size + 1),
        pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return _one(json["data"])


def _assigned(given: pa.Array, *, is_empty: pa.Array | None = None, **names: str) -> pa.Array:
    """Return assigned partitions as `ASSIGNED`; `names` maps its fields to those of `given`."""
    given = _one(given)
    is_unknown = pc.is_null(given)
    if is_empty is not None:
        is_unknown = pc.and_not(is_unknown, is_empty)
    lengths = pc.fill_null(pc.list_value_length(given), 0)
    return _lists(lengths, _owned(pc.list_flatten(given), names), is_unknown)


def _tasks(values: pa.Array, ending: str) -> pa.Array:
    """Return the tasks of all roles as `ASSIGNED`, from the fields whose names end in `ending`."""
    given = [pc.struct_field(values, f"{role}Tasks{ending}") for role in _ROLES]
    owned = [
        _owned(items, {"subtopology": "subtopologyId"}, {"role": role})
        for role, items in zip(_ROLES, map(pc.list_flatten, given), strict=True)
    ]
    owners = pa.concat_arrays([pc.list_parent_indices(lists) for lists in given])
    order = np.argsort(owners.to_numpy(), kind="stable")
    lengths = np.bincount(owners.to_numpy(), minlength=len(values)).astype(np.int32)
    in_order = pa.concat_arrays(owned).take(pa.array(order))
    return _lists(pa.array(lengths), in_order, pc.is_null(given[0]))


def _owned(
    items: pa.Array, names: Mapping[str, str], constant: Mapping[str, str] | None = None
) -> pa.Array:
    constant = constant or {}
    fields = [
        pc.struct_field(items, names.get(field.name, field.name))
        if field.name in names or field.name == "partitions"
        else _constant(constant.get(field.name), len(items))
        for field in ASSIGNED.value_type
    ]
    return pa.StructArray.from_arrays(fields, fields=list(ASSIGNED.value_type))


def _lists(lengths: pa.Array, owned: pa.Array, is_null: pa.Array) -> pa.Array:
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(starts, owned, type=ASSIGNED, mask=_one(is_null))


def _columns(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Select and rename columns."""
    return rows.select(list(names)).rename_columns(list(names.values()))


def _with(table: pa.Table, **columns: Any) -> pa.Table:
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _where(rows: pa.Table | pa.Array, mask: _Mask) -> Any:
    return rows if mask.all() else rows.filter(pa.array(mask))


def _valid(column: pa.Array) -> _Mask:
    valid: _Mask = np.asarray(pc.is_valid(_one(column)).to_numpy(zero_copy_only=False), bool)
    return valid


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return _one(column).cast(pa.string())


def _unless(column: pa.Array, unknown: int) -> pa.Array:
    return pc.if_else(pc.equal(column, unknown), pa.scalar(None, column.type), column)


def _first(values: pa.Array, *names: str) -> pa.Array:
    """Return the first field that is not null."""
    return pc.coalesce(*(pc.struct_field(values, name) for name in names))


def _constant(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)
