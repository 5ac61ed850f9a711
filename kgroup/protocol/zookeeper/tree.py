"""Decoding of a tree of ZooKeeper nodes; see `node` for single nodes.

A node with unexpected content becomes a problem with its path, and so does a node under
``/consumers`` that no consumer of Kafka writes; the descendants of the latter are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kgroup.errors import ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.zookeeper import (
    BrokerNode,
    ConfigNode,
    ControllerNode,
    GroupNodes,
    LegacyTopicNode,
    Node,
    OffsetNode,
    OwnerNode,
    PartitionStateNode,
    RegistrationNode,
    Stat,
    TopicNode,
    ZookeeperTree,
    ZookeeperView,
)
from kgroup.protocol.zookeeper import node as decoder

T = TypeVar("T")


def path_parts(path: str) -> tuple[str, ...]:
    """Return the names in a path; none for the root."""
    return tuple(path.strip("/").split("/")) if path.strip("/") else ()


def tree_of(nodes: Iterable[Node], problems: Iterable[Problem] = ()) -> ZookeeperTree:
    """Return the tree of the nodes, sorted by path."""
    in_order = sorted(nodes, key=lambda node: path_parts(node.path))
    return ZookeeperTree({node.path: node for node in in_order}, tuple(problems))


def decode_tree(tree: ZookeeperTree) -> ZookeeperView:
    """Decode all nodes of Kafka in a tree; unknown nodes outside ``/consumers`` are ignored."""
    return _View(tree).view()


class _Group:
    """The nodes of one group, collected one by one."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.stat = Stat()
        self.has_ids = False
        self.registrations: list[RegistrationNode] = []
        self.consumer_ids: set[str] = set()
        self.owners: list[tuple[str, str, Node]] = []
        self.offsets: list[OffsetNode] = []


class _View:
    """One pass over a tree."""

    def __init__(self, tree: ZookeeperTree) -> None:
        self._tree = tree
        self._problems = ProblemLog()
        self._groups: dict[str, _Group] = {}
        self._brokers: dict[int, BrokerNode] = {}
        self._topics: dict[str, TopicNode] = {}
        self._legacy_topics: list[LegacyTopicNode] = []
        self._states: dict[TopicPartition, PartitionStateNode] = {}
        self._controller: ControllerNode | None = None
        self._controller_epoch: int | None = None
        self._cluster_id: str | None = None
        self._configs: dict[str, ConfigNode] = {}
        self._deleting: list[str] = []
        self._reassigning: Mapping[TopicPartition, tuple[int, ...]] = {}
        self._electing: tuple[TopicPartition, ...] = ()

    def view(self) -> ZookeeperView:
        """Decode all nodes, then the owners, which are unambiguous once all consumers are known."""
        foreign = None
        for node in self._tree.nodes.values():
            if foreign is not None and node.path.startswith(foreign):
                continue
            foreign = None
            parts = path_parts(node.path)
            if parts[:1] == ("consumers",):
                if not self._group_node(node, parts[1:]):
                    foreign = f"{node.path}/"
                    self._foreign(node.path, parts[1])
            else:
                self._cluster_node(node, parts)
        for problem in self._tree.problems:
            match path_parts(problem.path or ""):
                case ("consumers", group_id, "ids", consumer_id) if group_id in self._groups:
                    self._groups[group_id].consumer_ids.add(consumer_id)
        groups = {group_id: self._finish(group) for group_id, group in sorted(self._groups.items())}
        return ZookeeperView(
            groups=groups,
            brokers=dict(sorted(self._brokers.items())),
            topics=self._topics,
            legacy_topics=tuple(self._legacy_topics),
            partition_states=dict(sorted(self._states.items())),
            controller=self._controller,
            controller_epoch=self._controller_epoch,
            cluster_id=self._cluster_id,
            configs=self._configs,
            deleting=tuple(self._deleting),
            reassigning=self._reassigning,
            electing=self._electing,
            problems=self._tree.problems + self._problems.problems(),
        )

    def _group_node(self, node: Node, parts: tuple[str, ...]) -> bool:
        """Add a node below ``/consumers``; return False if no consumer writes such a node."""
        if not parts:
            return True
        group_id = parts[0]
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _Group(group_id)
        match parts[1:]:
            case ():
                group.stat = node.stat
            case ("ids",):
                group.has_ids = True
            case ("ids", consumer_id):
                group.has_ids = True
                group.consumer_ids.add(consumer_id)
                registration = self._decode(
                    node, decoder.decode_registration, group_id, consumer_id, of_group=group_id
                )
                if registration is not None:
                    group.registrations.append(registration)
            case ("owners" | "offsets",) | ("owners" | "offsets", _):
                pass
            case ("owners", topic, partition):
                group.owners.append((topic, partition, node))
            case ("offsets", topic, partition):
                offset = self._decode(
                    node, decoder.decode_offset, group_id, topic, partition, of_group=group_id
                )
                if offset is not None:
                    group.offsets.append(offset)
            case _:
                return False
        return True

    def _finish(self, group: _Group) -> GroupNodes:
        consumer_ids = frozenset(group.consumer_ids)
        owners: list[OwnerNode] = []
        for topic, partition, node in group.owners:
            owner = self._decode(
                node,
                decoder.decode_owner,
                group.group_id,
                topic,
                partition,
                consumer_ids,
                of_group=group.group_id,
            )
            if owner is not None:
                owners.append(owner)
        return GroupNodes(
            group.group_id,
            group.stat,
            group.has_ids,
            tuple(group.registrations),
            tuple(sorted(owners, key=_place)),
            tuple(sorted(group.offsets, key=_place)),
            tuple(
                sorted(
                    consumer_ids
                    - {registration.consumer_id for registration in group.registrations}
                )
            ),
        )

    def _cluster_node(self, node: Node, parts: tuple[str, ...]) -> None:
        match parts:
            case ("brokers", "ids", name):
                broker = self._decode(node, decoder.decode_broker, name)
                if broker is not None:
                    self._brokers[broker.id] = broker
            case ("brokers", "topics", name) if node.data is not None:  # 0.7 has no data
                topic = self._decode(node, decoder.decode_topic, name)
                if topic is not None:
                    self._topics[name] = topic
            case ("brokers", "topics", name, broker_id) if broker_id.isdecimal():
                part = self._decode(node, decoder.decode_legacy_topic, name, broker_id)
                if part is not None:
                    self._legacy_topics.append(part)
            case ("brokers", "topics", name, "partitions", partition, "state"):
                state = self._decode(node, decoder.decode_partition_state, name, partition)
                if state is not None:
                    self._states[name, state.partition] = state
            case ("controller",):
                self._controller = self._decode(node, decoder.decode_controller)
            case ("controller_epoch",):
                self._controller_epoch = self._decode(
                    node, decoder.decode_number, "controller's epoch"
                )
            case ("cluster", "id"):
                self._cluster_id = self._decode(node, decoder.decode_cluster_id)
            case ("config", "topics", name):
                config = self._decode(node, decoder.decode_config, name)
                if config is not None:
                    self._configs[name] = config
            case ("admin", "delete_topics", name):
                self._deleting.append(name)
            case ("admin", "reassign_partitions") if node.data is not None:
                self._reassigning = self._decode(node, decoder.decode_reassignment) or {}
            case ("admin", "preferred_replica_election") if node.data is not None:
                self._electing = self._decode(node, decoder.decode_election) or ()

    def _decode(
        self, node: Node, decode: Callable[..., T], *more: object, of_group: str | None = None
    ) -> T | None:
        """Decode one node; on failure, record a problem (of a group, if given) and return None."""
        try:
            return decode(node, *more)
        except ValueError as error:
            text = str(error)
            reason = f"{text[:1].upper()}{text[1:]}."
            self._problems.add(
                Problem(ProblemKind.BAD_NODE, reason, group_id=of_group, path=node.path)
            )
            return None

    def _foreign(self, path: str, group_id: str) -> None:
        self._problems.add(
            Problem(
                ProblemKind.FOREIGN_NODE,
                "Not a node that a consumer of Kafka writes.",
                group_id=group_id,
                path=path,
            )
        )


def _place(node: OwnerNode | OffsetNode) -> tuple[str, int, int]:
    return (node.topic, -1 if node.broker is None else node.broker, node.partition)
