"""Operations on ZooKeeper nodes: consumer registrations, owner nodes, and the tree itself."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kgroup.errors import ProblemKind, UsageError, near_names
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import (
    GroupNodes,
    Node,
    RegistrationNode,
    SubscriptionPattern,
    ZookeeperView,
)
from kgroup.operation.report import Report
from kgroup.operation.select_groups import select_groups
from kgroup.protocol.zookeeper.topic_filter import subscribed_topics
from kgroup.protocol.zookeeper.tree import decode_tree, path_parts
from kgroup.source.base import GroupSource, Question

_WHO_IS_THERE = Question(offsets=False, log_budget=0)
_ABSENCE = "ZooKeeper has no such group ('kgroup describe' shows those in Kafka)"


@dataclass(frozen=True, slots=True)
class RegisteredConsumer:
    """A registered consumer: ``/consumers/<group>/ids/<consumer>``.

    Attributes:
        group_id: group id.
        consumer_id: consumer id.
        host: host name in the consumer id; None if the id has another form.
        pattern: how the consumer selects topics: `static`, `white_list` or `black_list`.
        streams: number of streams by topic; for a white or black list, by its regular expression as
            the consumer wrote it.
        topics: subscribed topics, sorted; for a white or black list, the existing topics that it
            allows; None if the list cannot be evaluated.
        owned_count: number of partitions that the consumer owns.
        version: version of the node's data format; None before Kafka 0.8.
        registered_ms: when the consumer registered, by ZooKeeper's clock.
        timestamp_ms: when the consumer registered, by its own clock; None before Kafka 0.8.0.
        session_id: id of the session that owns the node, such as `0x1008f3a2b410000`.
    """

    group_id: str
    consumer_id: str
    host: str | None
    pattern: SubscriptionPattern
    streams: Mapping[str, int]
    topics: tuple[str, ...] | None
    owned_count: int
    version: int | None
    registered_ms: int | None
    timestamp_ms: int | None
    session_id: str | None


@dataclass(frozen=True, slots=True)
class OwnedPartition:
    """The owner of a partition: ``/consumers/<group>/owners/<topic>/<partition>``.

    Attributes:
        group_id: group id.
        topic: topic name.
        broker: id of the broker that has the partition in Kafka 0.7, which numbers partitions per
            broker; else None.
        partition: partition number.
        thread_id: consumer thread id, as stored in the node.
        consumer_id: consumer id.
        thread: number of the consumer's thread that reads the partition; from 0; None if the node
            contains only the consumer id.
        registered: whether the consumer is registered in the group.
        since_ms: when the consumer claimed the partition.
        session_id: as in `RegisteredConsumer`.
    """

    group_id: str
    topic: str
    broker: int | None
    partition: int
    thread_id: str
    consumer_id: str
    thread: int | None
    registered: bool
    since_ms: int | None
    session_id: str | None


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A ZooKeeper node and its decoded data.

    Attributes:
        path: path of the node, below the chroot.
        kind: what Kafka stores in the node; None if the node has no data of its own, is not
            Kafka's, or could not be decoded.
        value: decoded data; None if the node has no data of its own, is not Kafka's, or could not
            be decoded.
        text: data as text, if it is UTF-8; None without data, and for credentials (`/config/users`,
            `/delegation_token`), which are not read.
        raw: data in base64, if it is not UTF-8.
        error: why the data could not be decoded.
        ctime_ms: when the node was created.
        mtime_ms: when the node's data was last written.
        version: number of writes to the node's data since it was created.
        children: number of child nodes.
        session_id: id of the session that owns an ephemeral node; None for a persistent node.
    """

    path: str
    kind: str | None
    value: Any
    text: str | None
    raw: str | None
    error: str | None
    ctime_ms: int | None
    mtime_ms: int | None
    version: int | None
    children: int | None
    session_id: str | None


@dataclass(frozen=True, slots=True)
class FoundGroups:
    """Selected groups, as nodes.

    Attributes:
        view: decoded contents of all nodes that were read.
        groups: selected groups that exist, sorted by id.
        problems: what could not be read, and selected groups that do not exist.
        notes: assumptions and limits, for people.
    """

    view: ZookeeperView
    groups: tuple[GroupNodes, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def read_groups(
    source: GroupSource, group_ids: Collection[str], question: Question = _WHO_IS_THERE
) -> FoundGroups:
    """Read the nodes of these groups, or of all if none is given, as far as the question requires.

    Raises:
        UsageError: the source has no nodes of ZooKeeper.
        InputError: the source has nothing to read.
        BrokerError: ZooKeeper does not answer.
    """
    reading, missing = select_groups(source, group_ids, question, _ABSENCE)
    view = reading.view
    if view is None:
        raise _no_nodes()
    groups = tuple(
        nodes for group_id, nodes in view.groups.items() if not group_ids or group_id in group_ids
    )
    return FoundGroups(view, groups, reading.problems + missing, reading.notes)


def _no_nodes() -> UsageError:
    return UsageError(
        "this source has no nodes of ZooKeeper; choose --zookeeper HOST:PORT/CHROOT, a --snapshot "
        "that was taken of one, or --sample"
    )


def list_consumers(
    source: GroupSource, group_ids: Collection[str] = ()
) -> Report[RegisteredConsumer]:
    """Return the registered consumers, by group and consumer id; raises as `read_groups`."""
    groups = read_groups(source, group_ids)
    rows = []
    for group in groups.groups:
        owned: dict[str, int] = {}
        owned_topics = frozenset(owner.topic for owner in group.owners)
        for owner in group.owners:
            owned[owner.consumer_id] = owned.get(owner.consumer_id, 0) + 1
        for registration in sorted(group.registrations, key=lambda node: node.consumer_id):
            rows.append(
                RegisteredConsumer(
                    group_id=registration.group_id,
                    consumer_id=registration.consumer_id,
                    host=registration.host,
                    pattern=registration.pattern,
                    streams=registration.subscription,
                    topics=_topics(registration, groups.view, owned_topics),
                    owned_count=owned.get(registration.consumer_id, 0),
                    version=registration.version,
                    registered_ms=registration.stat.ctime_ms,
                    timestamp_ms=registration.timestamp_ms,
                    session_id=registration.stat.ephemeral_owner,
                )
            )
    return Report(tuple(rows), groups.problems, groups.notes)


def list_owners(source: GroupSource, group_ids: Collection[str] = ()) -> Report[OwnedPartition]:
    """Return the owner nodes, by group, topic and partition; raises as `read_groups`."""
    groups = read_groups(source, group_ids)
    rows = []
    for group in groups.groups:
        registered = {registration.consumer_id for registration in group.registrations}
        for owner in group.owners:
            rows.append(
                OwnedPartition(
                    group_id=owner.group_id,
                    topic=owner.topic,
                    broker=owner.broker,
                    partition=owner.partition,
                    thread_id=owner.thread_id,
                    consumer_id=owner.consumer_id,
                    thread=owner.thread,
                    registered=owner.consumer_id in registered,
                    since_ms=owner.stat.ctime_ms,
                    session_id=owner.stat.ephemeral_owner,
                )
            )
    return Report(tuple(rows), groups.problems, groups.notes)


def list_nodes(source: GroupSource, path: str = "/", depth: int | None = None) -> Report[TreeNode]:
    """Return a node and its descendants, parents first.

    Args:
        source: ZooKeeper, or a snapshot of it.
        path: path of the top node.
        depth: number of levels below it; None for all.

    Raises:
        UsageError: the source has no nodes of ZooKeeper.
        BrokerError: ZooKeeper does not answer.
    """
    if not source.can(GroupSource.subtree):
        raise _no_nodes()
    top = tuple(filter(None, path_parts(path)))
    root = "/" + "/".join(top)
    tree = source.subtree(root, depth)
    view = decode_tree(tree)
    decoded = _decoded(view)
    problems = tuple(problem for problem in view.problems if _lies_in(problem.path, root))
    errors = {problem.path: problem.reason for problem in problems}
    rows = tuple(
        _tree_node(node, decoded.get(node.path), errors.get(node.path))
        for node in tree.nodes.values()
        if _lies_in(node.path, root)
        if depth is None or len(path_parts(node.path)) - len(top) <= depth
    )
    if not rows and not problems:
        text = f"The node does not exist{_near_nodes(source, top) or '.'}"
        problems = (Problem(ProblemKind.NOT_FOUND, text, path=root),)
    return Report(rows, problems)


def _near_nodes(source: GroupSource, top: Sequence[str]) -> str:
    """Return a suggestion of nodes with names similar to the first missing one of a path."""
    for at, name in enumerate(top):
        above = tuple(top[:at])
        paths = map(path_parts, source.subtree("/" + "/".join(above), 1).nodes)
        names = {path[at] for path in paths if len(path) > at and path[:at] == above}
        if name not in names:
            return near_names(name, sorted(names))
    return ""


def _lies_in(path: str | None, root: str) -> bool:
    return path is not None and (root == "/" or path == root or path.startswith(f"{root}/"))


def _tree_node(node: Node, decoded: tuple[str, Any] | None, error: str | None) -> TreeNode:
    kind, value = decoded or (None, None)
    text = raw = None
    if node.data is not None:
        try:
            text = node.data.decode()
        except UnicodeDecodeError:
            raw = b64encode(node.data).decode()
    return TreeNode(
        path=node.path,
        kind=kind,
        value=value,
        text=text,
        raw=raw,
        error=error,
        ctime_ms=node.stat.ctime_ms,
        mtime_ms=node.stat.mtime_ms,
        version=node.stat.version,
        children=node.stat.children,
        session_id=node.stat.ephemeral_owner,
    )


def _decoded(view: ZookeeperView) -> dict[str, tuple[str, Any]]:
    """Return kind and value of the decoded nodes, by path."""
    decoded: dict[str, tuple[str, Any]] = {}

    def put(kind: str, nodes: Collection[Any]) -> None:
        decoded.update((node.path, (kind, _value(node))) for node in nodes)

    for group in view.groups.values():
        put("registration", group.registrations)
        put("owner", group.owners)
        put("offset", group.offsets)
    put("broker", view.brokers.values())
    put("topic", view.topics.values())
    put("legacy-topic", view.legacy_topics)
    put("partition-state", view.partition_states.values())
    put("controller", [view.controller] if view.controller else [])
    put("config", view.configs.values())
    if view.controller_epoch is not None:
        decoded["/controller_epoch"] = ("controller-epoch", view.controller_epoch)
    if view.cluster_id is not None:
        decoded["/cluster/id"] = ("cluster-id", view.cluster_id)
    if view.reassigning:
        decoded["/admin/reassign_partitions"] = (
            "reassignment",
            [
                {"topic": topic, "partition": partition, "replicas": replicas}
                for (topic, partition), replicas in view.reassigning.items()
            ],
        )
    if view.electing:
        decoded["/admin/preferred_replica_election"] = (
            "election",
            [{"topic": topic, "partition": partition} for topic, partition in view.electing],
        )
    return decoded


def _value(node: Any) -> dict[str, Any]:
    """Return a decoded node's fields except path and stat, with string keys as in JSON."""
    values = {field.name: getattr(node, field.name) for field in fields(node)}
    return {
        name: {str(key): item for key, item in value.items()}
        if isinstance(value, Mapping)
        else value
        for name, value in values.items()
        if name not in ("path", "stat")
    }


def _topics(
    node: RegistrationNode, view: ZookeeperView, owned: Collection[str]
) -> tuple[str, ...] | None:
    try:
        return subscribed_topics(node, view.topics, owned)
    except ValueError:
        return None
