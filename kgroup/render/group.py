"""Lists, descriptions and locations of groups as sheets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kgroup.render.cell import GROUP, PARTITION, TOPIC, Column, Kind, columns_of, ranges
from kgroup.render.sheet import Sheet

if TYPE_CHECKING:  # each command has its own module, which takes time to load
    from kgroup.model.group import (
        AssignedPartition,
        Broker,
        Group,
        Member,
        Subscription,
        Task,
        TaskAssignment,
    )
    from kgroup.operation.describe import GroupDescription
    from kgroup.operation.list_groups import ListedGroup
    from kgroup.operation.watch import Change


def _broker_column(name: str) -> Column:
    """Return a column with a broker."""
    return Column(name, Kind.TEXT, value=lambda item: _broker(item, name), form="as host:port (id)")


def _topics_column(title: str, *names: str) -> Column:
    """Return a column with topics of a subtopology, written with commas between them."""
    topics = attrgetter(*names)

    def text(item: object) -> str | None:
        of_kinds = topics(item) if len(names) > 1 else [topics(item)]
        return ",".join(topic for of_kind in of_kinds for topic in of_kind) or None

    return Column(title, Kind.TEXT, value=text, is_reference=True)


def _ids_column(name: str) -> Column:
    """Return a column with broker ids."""
    return Column(
        name, Kind.TEXT, value=lambda item: _ids(getattr(item, name)), form="comma-separated"
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
_TIME_LAG = Column("time_lag_ms", Kind.ROUGH_AGE, is_alarm=True)
_REPLICA_COLUMNS = (_broker_column("leader"), _ids_column("replicas"), _ids_column("isr"))
_WORST = Column(
    "worst",
    Kind.TEXT,
    "partition with the largest lag, and that lag; as orders-3: 812",
    lambda item: _worst(item),
    is_reference=True,
)
_LAST_COMMIT_AGE = Column(
    "last_commit_age_ms",
    Kind.ROUGH_AGE,
    "time since the last commit",
    lambda item: None,  # see `list_sheet`
)

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
        form="comma-separated",
    ),
    Column("total_lag", Kind.NUMBER),
    Column("unknown_count", Kind.NUMBER),
    _WORST,
    Column("worst_topic", Kind.TEXT),
    Column("worst_partition", Kind.NUMBER),
    Column("worst_lag", Kind.NUMBER),
    _LAST_COMMIT_AGE,
    Column("last_commit_timestamp_ms", Kind.TIME),
    Column("max_time_lag_ms", Kind.ROUGH_AGE),
)
_LISTED = ("group_id", "type", "state", "member_count")
_LISTED_LAG = ("total_lag", "worst", "last_commit_age_ms")
LOCATION_COLUMNS = columns_of(
    "kgroup.operation.locate.GroupLocation",
    _GROUP_ID,
    _OFFSETS_PARTITION,
    _PARTITION_COUNT,
    Column("found_in", Kind.NUMBER),
    _AGREES,
    _COORDINATOR,
    *_REPLICA_COLUMNS,
    Column("answer_ms", Kind.DURATION),
    Column("answer_error", Kind.TEXT, is_prose=True),
)
TRANSACTION_COLUMNS = columns_of(
    "kgroup.operation.locate.TransactionLocation",
    Column("transactional_id", Kind.NAME),
    Column("transaction_partition", Kind.NUMBER),
    _PARTITION_COUNT,
    _AGREES,
    _COORDINATOR,
    *_REPLICA_COLUMNS,
)
STATE_COLUMNS = columns_of(
    "kgroup.operation.describe.GroupDescription",
    *columns_of(
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
    ),
    Column("member_count", Kind.NUMBER, "number of members", lambda item: len(item.members)),
    Column("total_lag", Kind.NUMBER, is_alarm=True),
    Column("max_time_lag_ms", Kind.ROUGH_AGE, is_alarm=True),
)
MEMBER_COLUMNS = columns_of(
    "kgroup.model.group.Member",
    GROUP,
    Column("member_id", Kind.NAME),
    Column("instance_id", Kind.NAME),
    Column("client_id", Kind.NAME),
    Column("client_host", Kind.TEXT),
    Column("rack_id", Kind.TEXT),
    Column("session_timeout_ms", Kind.DURATION),
    Column("rebalance_timeout_ms", Kind.DURATION),
    Column("member_epoch", Kind.NUMBER),
    Column("state", Kind.TEXT),
    Column(
        "subscription",
        Kind.TEXT,
        value=lambda item: subscribed(item.subscription),
        form="as topics or /regular expression/, of zookeeper with streams",
    ),
    Column(
        "assignment",
        Kind.TEXT,
        value=lambda item: owned(item.assignment, item.tasks),
        form="as orders 0-3,7; payments 1, or its tasks as subtopology_0",
    ),
    Column(
        "target_assignment",
        Kind.TEXT,
        value=lambda item: owned(item.target_assignment, item.target_tasks),
        form="likewise",
    ),
    Column(
        "threads",
        Kind.NUMBER,
        "zookeeper: number of its threads",
        lambda item: _threads(item.subscription),
    ),
    Column("session_id", Kind.TEXT),
    Column("registered_ms", Kind.TIME),
    Column("client_library", Kind.TEXT),
    Column("client_library_certainty", Kind.TEXT),
    Column("client_library_evidence", Kind.TEXT),
)
OFFSET_COLUMNS = columns_of(
    "kgroup.operation.describe.OffsetDescription",
    GROUP,
    TOPIC,
    PARTITION,
    Column("committed_offset", Kind.NUMBER),
    Column("log_end_offset", Kind.NUMBER),
    Column("lag", Kind.NUMBER, is_alarm=True),
    _TIME_LAG,
    Column("leader_epoch", Kind.NUMBER),
    Column("metadata", Kind.TEXT),
    Column("commit_timestamp_ms", Kind.TIME),
    Column("committed_in", Kind.TEXT),
    Column("expire_timestamp_ms", Kind.TIME),
    Column("member_id", Kind.NAME, is_reference=True),
    Column("owner_thread", Kind.NUMBER),
    Column("owned_since_ms", Kind.TIME),
    Column("owned_since_epoch", Kind.NUMBER),
    Column("topic_id", Kind.TEXT),
    Column("log_start_offset", Kind.NUMBER),
    Column("mark", Kind.TEXT),
    Column("next_timestamp_ms", Kind.TIME),
)
_TOPOLOGY_COLUMNS = (
    Column("subtopology", Kind.TEXT, value=attrgetter("subtopology_id"), is_reference=True),
    *(
        _topics_column(title, *names)
        for title, names in (
            ("source_topics", ("source_topics", "repartition_source_topics")),
            ("sink_topics", ("repartition_sink_topics",)),
            ("changelog_topics", ("state_changelog_topics",)),
        )
    ),
)


DESCRIPTION_KEYS = (
    *("group_id", "type", "state", "protocol_type", "assignor", "generation_id", "group_epoch"),
    *("assignment_epoch", "leader_id", "coordinator", "offsets_partition", "state_timestamp_ms"),
    *("members", "offsets", "pending_offsets", "total_lag", "topology", "share_offsets"),
    *("last_stable", "max_time_lag_ms"),
)
"""Keys of a description in JSON, in order: those of the group and of the description itself."""


def description_object(description: GroupDescription) -> dict[str, Any]:
    """Return the JSON object of a description: the group's fields next to its own."""
    own = {field.name: getattr(description, field.name) for field in fields(description)}
    group = own.pop("group")
    names = DESCRIPTION_KEYS
    return {name: own[name] if name in own else getattr(group, name) for name in names} | own


def change_object(change: Change) -> Change:
    """Return the JSON object of a change: for a group that was found, that of its description."""
    from kgroup.operation.describe import GroupDescription

    if isinstance(change.after, GroupDescription):
        return replace(change, after=description_object(change.after))
    return change


def list_sheet(groups: Iterable[ListedGroup], *, now_ms: int, whole: bool = True) -> Sheet:
    """Return a sheet with one row per group.

    Args:
        groups: groups, in order.
        now_ms: current time in epoch milliseconds, for the age of commits.
        whole: with the columns that are made of others.
    """

    def age_ms(group: ListedGroup) -> int | None:
        since_ms = group.last_commit_timestamp_ms
        return None if since_ms is None else max(now_ms - since_ms, 0)

    columns = (
        replace(column, value=age_ms) if column is _LAST_COMMIT_AGE else column
        for column in LIST_COLUMNS
        if whole or column not in (_WORST, _LAST_COMMIT_AGE)
    )
    return Sheet.of(tuple(columns), groups)


def list_page(
    groups: Sequence[ListedGroup], *, now_ms: int, lag: bool = True, time_lag: bool = False
) -> Iterable[Sheet]:
    """Yield the table of a list, with the same columns on a terminal and in a pipe.

    Args:
        groups: groups, in order.
        now_ms: current time in epoch milliseconds.
        lag: whether their lag was read.
        time_lag: whether their time lags were read.
    """
    names = [*_LISTED, *(_LISTED_LAG if lag else ())]
    if time_lag:
        names.insert(names.index("worst"), "max_time_lag_ms")
    if any(group.unknown_count for group in groups):
        names.insert(names.index("total_lag") + 1, "unknown_count")
    if all(group.member_count is None for group in groups) and not lag:
        names.remove("member_count")
    yield list_sheet(groups, now_ms=now_ms).select(names)


def _worst(group: ListedGroup) -> str | None:
    if not group.worst_lag:
        return None
    return f"{group.worst_topic}-{group.worst_partition}: {group.worst_lag}"


def state_sheet(groups: Sequence[GroupDescription]) -> Sheet:
    """Return a sheet with one row per group."""
    return Sheet.of(STATE_COLUMNS, (SimpleNamespace(**description_object(of)) for of in groups))


def members_sheet(groups: Sequence[GroupDescription]) -> Sheet:
    """Return a sheet with one row per member."""
    parts = (((of.group.group_id,), of.group.members) for of in groups)
    return Sheet.of_parts(MEMBER_COLUMNS, parts)


def offsets_sheet(groups: Sequence[GroupDescription]) -> Sheet:
    """Return a sheet with one row per partition that has a committed offset or an owner."""
    parts = (((of.group.group_id,), of.offsets) for of in groups)
    return Sheet.of_parts(OFFSET_COLUMNS, parts)


_CONNECTOR = -1
"""Task number that represents the connector itself."""


def connect_work(member: Member) -> tuple[list[str], list[tuple[str, int]]] | None:
    """Return the connectors and tasks of a worker: the new ones, in addition to those it reported.

    None if the member is no worker of Kafka Connect. Source: `WorkerCoordinator.onJoinComplete`.
    Before version 1 workers give up everything first.
    """
    assignment = member.protocol_assignment
    if not isinstance(assignment, Mapping) or "assignment" not in assignment:
        return None
    own: set[tuple[str, int]] = set()
    allocation = (member.protocol_metadata or {}).get("allocation") or {}
    for part, change in (
        (allocation.get("assignment"), own.update),
        (assignment.get("revoked"), own.difference_update),
        (assignment.get("assignment"), own.update),
    ):
        for connector in part or ():
            change((connector["connector"], task) for task in connector["tasks"])
    return (
        sorted(name for name, task in own if task == _CONNECTOR),
        sorted(partition for partition in own if partition[1] != _CONNECTOR),
    )


def topology_sheet(group: Group) -> Sheet:
    """Return a sheet with one row per subtopology of a streams group."""
    return Sheet.of(_TOPOLOGY_COLUMNS, group.topology.subtopologies if group.topology else ())


def _broker(item: object, name: str) -> str | None:
    broker: Broker | None = getattr(item, name)
    return None if broker is None else broker.label


def _ids(ids: Iterable[int] | None) -> str | None:
    return None if ids is None else ",".join(map(str, ids))


def subscribed(subscription: Subscription | None) -> str | None:
    """Return the topics and the regular expression of a subscription."""
    if subscription is None:
        return None
    if subscription.streams is not None:
        asked = [f"{_listed(subscription, of)}:{n}" for of, n in subscription.streams.items()]
        return ",".join(asked)
    topics = list(subscription.topics or ())
    return ",".join([*topics, f"/{subscription.regex}/"] if subscription.regex else topics)


def _listed(subscription: Subscription, topic: str) -> str:
    """Return what the streams of a ZooKeeper consumer read: a topic, a white or a black list."""
    if subscription.regex is None:
        return topic
    return f"{'not ' if subscription.pattern == 'black_list' else ''}/{subscription.regex}/"


def _threads(subscription: Subscription | None) -> int | None:
    """Return the number of threads; threads with the same number read several topics."""
    streams = subscription.streams if subscription else None
    return None if streams is None else max(streams.values(), default=0)


def owned(
    partitions: Sequence[AssignedPartition] | None, tasks: TaskAssignment | None
) -> str | None:
    """Return an assignment of partitions, or of tasks."""
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
