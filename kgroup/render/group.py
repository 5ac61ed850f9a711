"""Lists, descriptions and locations of groups as sheets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kgroup.render.cell import GROUP, PARTITION, TOPIC, Column, Kind, columns_of, ranges
from kgroup.render.sheet import Sheet

if TYPE_CHECKING:  # each command has its own, and takes time to load
    from kgroup.model.group import AssignedPartition, Broker, Subscription, Task, TaskAssignment
    from kgroup.operation.describe import GroupDescription


def _broker_column(name: str) -> Column:
    """A column of brokers."""
    return Column(name, Kind.TEXT, value=lambda item: _broker(item, name), form="as host:port (id)")


def _list_column(name: str) -> Column:
    """A column of lists, whose texts stand with commas between."""
    return Column(
        name,
        Kind.TEXT,
        value=lambda item: ",".join(getattr(item, name)) or None,
        form="with commas between",
    )


def _ids_column(name: str) -> Column:
    """A column of brokers' ids."""
    return Column(
        name, Kind.TEXT, value=lambda item: _ids(getattr(item, name)), form="with commas between"
    )


_GROUP_ID = Column("group_id", Kind.NAME)
_TYPE = Column("type", Kind.TEXT)
_STATE = Column("state", Kind.TEXT)
_PROTOCOL_TYPE = Column("protocol_type", Kind.TEXT)
_ASSIGNOR = Column("assignor", Kind.TEXT)
_COORDINATOR = _broker_column("coordinator")
_OFFSETS_PARTITION = Column("offsets_partition", Kind.NUMBER)
_PARTITION_COUNT = Column("partition_count", Kind.NUMBER)
_AGREES = Column("agrees", Kind.FLAG)
_TIME_LAG = Column(
    "time_lag_ms", Kind.AGE, "how long ago the next record to read was made (--time-lag)"
)
_REPLICA_COLUMNS = (_broker_column("leader"), _ids_column("replicas"), _ids_column("isr"))

LIST_COLUMNS = columns_of(
    "kgroup.operation.list_groups.ListedGroup",
    _GROUP_ID,
    _TYPE,
    _STATE,
    _PROTOCOL_TYPE,
    _ASSIGNOR,
    _COORDINATOR,
    _OFFSETS_PARTITION,
    Column("member_count", Kind.NUMBER),
    Column(
        "topics",
        Kind.TEXT,
        value=lambda item: None if item.topics is None else ",".join(item.topics),
        form="with commas between",
    ),
)
list_sheet = partial(Sheet.of, LIST_COLUMNS)  # one row a group
LOCATION_COLUMNS = columns_of(
    "kgroup.operation.locate.GroupLocation",
    _GROUP_ID,
    _OFFSETS_PARTITION,
    _PARTITION_COUNT,
    Column("found_in", Kind.NUMBER),
    _AGREES,
    _COORDINATOR,
    *_REPLICA_COLUMNS,
)
location_sheet = partial(Sheet.of, LOCATION_COLUMNS)  # one row a group
TRANSACTION_COLUMNS = columns_of(
    "kgroup.operation.locate.TransactionLocation",
    Column("transactional_id", Kind.NAME),
    Column("transaction_partition", Kind.NUMBER),
    _PARTITION_COUNT,
    _AGREES,
    _COORDINATOR,
    *_REPLICA_COLUMNS,
)
transaction_sheet = partial(Sheet.of, TRANSACTION_COLUMNS)  # one row a transactional id
STATE_COLUMNS = columns_of(
    "kgroup.model.group.Group",
    _GROUP_ID,
    _TYPE,
    _STATE,
    _PROTOCOL_TYPE,
    _ASSIGNOR,
    Column("generation_id", Kind.NUMBER),
    Column("group_epoch", Kind.NUMBER),
    Column("assignment_epoch", Kind.NUMBER),
    Column("leader_id", Kind.NAME),
    _COORDINATOR,
    _OFFSETS_PARTITION,
    Column("state_timestamp_ms", Kind.TIME),
    Column("member_count", Kind.NUMBER, "number of members", lambda item: len(item.members)),
    Column("total_lag", Kind.NUMBER, "sum of the lags that are known and above 0"),
    Column("max_time_lag_ms", Kind.AGE, "largest of the lags in time (--time-lag)"),
)
state_sheet = partial(Sheet.of, STATE_COLUMNS)  # one row a group
MEMBER_COLUMNS = (
    GROUP,
    Column("member_id", Kind.NAME, "id of the member"),
    Column("instance_id", Kind.NAME, "group.instance.id of a static member"),
    Column("client_id", Kind.NAME, "as the client calls itself"),
    Column("client_host", Kind.TEXT, "address that the broker saw"),
    Column("rack_id", Kind.TEXT, "client.rack"),
    Column("session_timeout_ms", Kind.DURATION, "classic: silence after which it is removed"),
    Column("rebalance_timeout_ms", Kind.DURATION, "time it has to join a rebalance"),
    Column("member_epoch", Kind.NUMBER, "epoch that it has reached (not classic)"),
    Column("state", Kind.TEXT, "where it stands in a reconciliation (not classic)"),
    Column(
        "subscription",
        Kind.TEXT,
        "topics with commas between, or /regular expression/; zookeeper: with its streams",
        lambda item: _subscription(item.subscription),
    ),
    Column(
        "assignment",
        Kind.TEXT,
        "what it owns: orders 0-3,7; payments 1, or tasks subtopology_0",
        lambda item: _owned(item.assignment, item.tasks),
    ),
    Column(
        "target_assignment",
        Kind.TEXT,
        "what it shall own in the end (not classic)",
        lambda item: _owned(item.target_assignment, item.target_tasks),
    ),
    Column(
        "threads",
        Kind.NUMBER,
        "zookeeper: number of its threads",
        lambda item: _threads(item.subscription),
    ),
    Column("session_id", Kind.TEXT, "zookeeper: session with which its registration goes"),
    Column("registered_ms", Kind.TIME, "zookeeper: when it registered"),
    Column("client_library", Kind.TEXT, "classic: library that the client is made of"),
    Column("client_library_certainty", Kind.TEXT, "certain, or inferred from the client id"),
)
OFFSET_COLUMNS = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("committed_offset", Kind.NUMBER, "offset of the next record to read"),
    Column("log_end_offset", Kind.NUMBER, "offset that the next record written there gets"),
    Column("lag", Kind.NUMBER, "log_end_offset minus committed_offset"),
    _TIME_LAG,
    Column("leader_epoch", Kind.NUMBER, "epoch of the last record read"),
    Column("metadata", Kind.TEXT, "text stored with the offset"),
    Column("commit_timestamp_ms", Kind.TIME, "when the coordinator took the commit"),
    Column("committed_in", Kind.TEXT, "zookeeper: where the commit is: zookeeper, kafka or both"),
    Column("expire_timestamp_ms", Kind.TIME, "only of a commit with a retention of its own"),
    Column("member_id", Kind.NAME, "member that owns the partition", is_reference=True),
    Column("owner_thread", Kind.NUMBER, "zookeeper: number of its thread that reads it"),
    Column("owned_since_ms", Kind.TIME, "zookeeper: when it took the partition"),
    Column("owned_since_epoch", Kind.NUMBER, "epoch in which that member got it (Kafka 4.3)"),
    Column("topic_id", Kind.TEXT, "id of the topic"),
    Column("log_start_offset", Kind.NUMBER, "offset of the first record that is still there"),
    Column("mark", Kind.TEXT, "what is wrong with the partition or the commit"),
    Column("next_timestamp_ms", Kind.TIME, "time of the next record to read (--time-lag)"),
)
_PENDING_COLUMNS = (
    TOPIC,
    PARTITION,
    Column("committed_offset", Kind.NUMBER, "offset that counts when the transaction commits"),
    Column("metadata", Kind.TEXT, "text stored with the offset"),
    Column("commit_timestamp_ms", Kind.TIME, "when the coordinator took the commit"),
    Column("producer_id", Kind.NUMBER, "producer whose transaction is open"),
    Column("producer_epoch", Kind.NUMBER, "its epoch"),
)
_SHARE_COLUMNS = (
    TOPIC,
    PARTITION,
    Column("state", Kind.TEXT, "initialized, initializing or deleting"),
    Column("start_offset", Kind.NUMBER, "first offset that the group has not finished"),
    Column("delivery_complete_count", Kind.NUMBER, "records from there on that are finished"),
    Column("log_end_offset", Kind.NUMBER, "offset that the next record written there gets"),
    Column("lag", Kind.NUMBER, "records that the group has not finished"),
    _TIME_LAG,
    Column("leader_epoch", Kind.NUMBER, "epoch of the partition's leader"),
    Column("state_epoch", Kind.NUMBER, "group epoch in which it was initialized last"),
    Column("topic_id", Kind.TEXT, "id of the topic"),
)
_TOPOLOGY_COLUMNS = (
    Column("subtopology_id", Kind.TEXT, "id of the subtopology"),
    Column(
        "source_topics",
        Kind.TEXT,
        "topics it reads, with commas between",
        lambda item: ",".join(item.source_topics + item.repartition_source_topics),
    ),
    _list_column("repartition_sink_topics"),
    _list_column("state_changelog_topics"),
)


def members_sheet(groups: Sequence[GroupDescription]) -> Sheet:
    """One row a member."""
    return _part_sheet(MEMBER_COLUMNS, ((group, group.members) for group in groups))


def offsets_sheet(groups: Sequence[GroupDescription]) -> Sheet:
    """One row a partition that is committed or owned."""
    return _part_sheet(OFFSET_COLUMNS, ((group, group.offsets) for group in groups))


def last_stable_sheet(group: GroupDescription) -> Sheet:
    """One row a member of the group before the rebalance that is in flight."""
    members = group.last_stable.members if group.last_stable else ()
    return _part_sheet(MEMBER_COLUMNS, [(group, members)])


def connect_sheet(group: GroupDescription) -> Sheet:
    """One row a worker of a Kafka Connect cluster: what it runs."""
    rows = []
    for member in group.members:
        given = member.protocol_assignment or {}
        if group.protocol_type == "connect" and "assignment" in given:
            owned = _connect_work(member.protocol_metadata or {}, given)
            connectors = [name for name, number in owned if number == _CONNECTOR]
            tasks = ranges(partition for partition in owned if partition[1] != _CONNECTOR)
            delay_ms = given.get("delay") or None
            rows.append((member.member_id, ", ".join(connectors) or None, tasks or None, delay_ms))
    return Sheet(_CONNECT_COLUMNS, rows)


_CONNECTOR = -1
"""The number that stands for the connector itself among its tasks."""
_CONNECT_COLUMNS = (
    Column("member_id", Kind.NAME, "the worker"),
    Column("connectors", Kind.NAME, "connectors that it runs"),
    Column("tasks", Kind.NAME, "tasks that it runs"),
    Column("delay_ms", Kind.DURATION, "until the leader assigns what is lost now"),
)


def _connect_work(
    metadata: Mapping[str, Any], assignment: Mapping[str, Any]
) -> list[tuple[str, int]]:
    """Give connectors and tasks as a worker has them: it adds to what it said that it has.

    Source: `WorkerCoordinator.onJoinComplete`. Before version 1 workers give up everything first.
    """
    owned: set[tuple[str, int]] = set()
    allocation = metadata.get("allocation") or {}
    for part, change in (
        (allocation.get("assignment"), owned.update),
        (assignment.get("revoked"), owned.difference_update),
        (assignment.get("assignment"), owned.update),
    ):
        for each in part or ():
            change((each["connector"], task) for task in each["tasks"])
    return sorted(owned)


def pending_sheet(group: GroupDescription) -> Sheet:
    """One row a commit of an open transaction."""
    return Sheet.of(_PENDING_COLUMNS, group.pending_offsets)


def share_sheet(group: GroupDescription) -> Sheet:
    """One row a partition that a share group works on."""
    return Sheet.of(_SHARE_COLUMNS, group.share_offsets or ())


def topology_sheet(group: GroupDescription) -> Sheet:
    """One row a subtopology of a streams group."""
    return Sheet.of(_TOPOLOGY_COLUMNS, group.topology.subtopologies if group.topology else ())


def _part_sheet(
    columns: tuple[Column, ...], groups: Iterable[tuple[GroupDescription, Iterable[object]]]
) -> Sheet:
    """Make a row of each part of each group; the first column is the group's id."""
    values = [column.value or attrgetter(column.name) for column in columns[1:]]
    rows = [
        [group.group_id, *[value(part) for value in values]]
        for group, parts in groups
        for part in parts
    ]
    return Sheet(columns, rows)


def _broker(item: object, name: str) -> str | None:
    broker: Broker | None = getattr(item, name)
    return None if broker is None else broker.label


def _ids(ids: Iterable[int] | None) -> str | None:
    return None if ids is None else ",".join(map(str, ids))


def _subscription(subscription: Subscription | None) -> str | None:
    if subscription is None:
        return None
    if subscription.streams is not None:
        asked = [f"{_listed(subscription, of)}:{n}" for of, n in subscription.streams.items()]
        return ",".join(asked)
    topics = list(subscription.topics or ())
    return ",".join([*topics, f"/{subscription.regex}/"] if subscription.regex else topics)


def _listed(subscription: Subscription, topic: str) -> str:
    """Write what a ZooKeeper consumer has streams of: a topic, a white or a black list."""
    if subscription.regex is None:
        return topic
    return f"{'not ' if subscription.pattern == 'black_list' else ''}/{subscription.regex}/"


def _threads(subscription: Subscription | None) -> int | None:
    """Count threads: those with the same number read several topics."""
    streams = subscription.streams if subscription else None
    return None if streams is None else max(streams.values(), default=0)


def _owned(
    partitions: Sequence[AssignedPartition] | None, tasks: TaskAssignment | None
) -> str | None:
    if tasks is not None:
        kinds = (("", tasks.active), ("standby ", tasks.standby), ("warmup ", tasks.warmup))
        return " ".join(f"{word}{_task(task)}" for word, tasks_ in kinds for task in tasks_)
    if partitions is None:
        return None
    ordered = sorted(partitions, key=attrgetter("sort_key"))
    return ranges(
        (partition.topic or partition.topic_id or "?", partition.partition) for partition in ordered
    )


def _task(task: Task) -> str:
    return f"{task.subtopology_id}_{task.partition}"
