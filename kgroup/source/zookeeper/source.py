"""Groups of the ZooKeeper consumer, from a live ZooKeeper; reading changes nothing there.

Log start and end offsets, and records, are requested from the registered brokers; if they do not
answer, the data of ZooKeeper are returned nevertheless.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import ClusterView, Placement, TopicPartition
from kgroup.model.group import Group, GroupType, Image, server_text
from kgroup.model.log_range import GONE, LogReading, NextReading, OffsetMark, Position
from kgroup.model.offset import OffsetChange, StoreName
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of
from kgroup.source.base import (
    EVERYTHING,
    GroupSource,
    KafkaOffsets,
    OffsetReading,
    Question,
    Reading,
)
from kgroup.source.deadline import Deadline
from kgroup.source.zookeeper.address import ZookeeperAddress
from kgroup.source.zookeeper.client import ZookeeperClient
from kgroup.source.zookeeper.nodes import read_group_ids, read_subtree, read_topics, read_tree
from kgroup.source.zookeeper.view import (
    ZOOKEEPER_CAPABILITIES,
    cluster_view,
    placements,
    reading_of,
)

if TYPE_CHECKING:
    from kgroup.source.broker.source import LiveCluster

T = TypeVar("T")


class Zookeeper(GroupSource):
    """A source of groups and a store of their committed offsets; a context manager."""

    capabilities = ZOOKEEPER_CAPABILITIES
    keeps_metadata = False
    keeps_leader_epochs = False

    def __init__(
        self,
        address: ZookeeperAddress,
        *,
        timeout_s: float = 10.0,
        of_silence: bool = False,
        context: ssl.SSLContext | None = None,
        digest: str | None = None,
        brokers: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the source, without a connection.

        Args:
            address: address of ZooKeeper.
            timeout_s: time limit, in seconds, for everything done with this object; with
                `of_silence`, for the time in which no server answers.
            of_silence: see `timeout_s`.
            context: SSL context for TLS to ZooKeeper.
            digest: ``user:password`` for ZooKeeper.
            brokers: kafka-python's options for brokers; `bootstrap_servers` in them replaces the
                registered brokers.
        """
        self._address = address
        deadline = Deadline(timeout_s, of_silence=of_silence)
        self._client = ZookeeperClient(address, deadline, context=context, digest=digest)
        self._broker_options = dict(brokers or {})
        self._nodes: ZookeeperTree | None = None
        self._cluster: LiveCluster | None = None
        self._silence: BrokerError | None = None

    def __enter__(self) -> Zookeeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def store_name(self) -> StoreName:
        """The name of the store."""
        return StoreName(f"ZooKeeper {self._address}")

    def close(self) -> None:
        """Close all connections."""
        self._client.close()
        self._close_cluster()

    def renew(self, *, after_failure: bool = False) -> None:
        """Prepare another round; see `GroupSource.renew`."""
        self._client.deadline.restart()
        self._silence = None
        if after_failure:
            self.close()
        elif self._cluster is not None:
            self._cluster.renew()

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Read groups from nodes; see `GroupSource.read`.

        Raises:
            BrokerError: no server answers.
            InputError: there are no nodes of Kafka.
        """
        if not (question.state or question.members or question.offsets or question.nodes):
            return self._names(group_ids, question)
        self._nodes = read_tree(self._client, group_ids, question)
        return reading_of(self._nodes, group_ids, question)

    def log_ranges(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> LogReading:
        """Return log start and end offsets from the brokers; see `GroupSource.log_ranges`."""
        if not partitions:
            return LogReading({})
        reading, problems = self._of_brokers(
            "log end offsets are unknown",
            lambda cluster: cluster.log_ranges(partitions, committed=committed),
        )
        return LogReading({}, problems) if reading is None else self._of_known_topics(reading)

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        """Return next records from the brokers; see `GroupSource.next_records`."""
        if not positions:
            return NextReading({})
        reading, problems = self._of_brokers(
            "times of records are unknown",
            lambda cluster: cluster.next_records(positions, committed=committed),
        )
        return NextReading({}, problems) if reading is None else reading

    def offsets_at(self, partitions: Collection[TopicPartition], time_ms: int) -> LogReading:
        """Return offsets of a time from the brokers; see `GroupSource.offsets_at`."""
        if not partitions:
            return LogReading({})
        reading, problems = self._of_brokers(
            "offsets at a time are unknown", lambda cluster: cluster.offsets_at(partitions, time_ms)
        )
        return LogReading({}, problems) if reading is None else reading

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return partition sizes from the brokers; see `GroupSource.log_sizes`.

        It does not report that no broker answers; `log_ranges` does.
        """
        if not partitions:
            return {}
        sizes, _ = self._of_brokers(
            "sizes of partitions are unknown", lambda cluster: cluster.log_sizes(partitions)
        )
        return sizes or {}

    def kafka_offsets(self, group_ids: Collection[str]) -> KafkaOffsets:
        """Return commits to Kafka from the brokers; see `GroupSource.kafka_offsets`."""
        question = Question(log_budget=0, commit_times=False)
        reading, problems = self._of_brokers(
            "commits to Kafka are unknown", lambda cluster: cluster.read(group_ids, question)
        )
        if reading is None:
            return KafkaOffsets(None, problems)
        offsets = {
            (group_id, offset.topic, offset.partition): offset.committed_offset
            for group_id, group in reading.image.groups.items()
            for offset in group.offsets
        }
        failed = {problem.group_id for problem in reading.problems}
        members = dict.fromkeys(() if None in failed else {*group_ids} - failed, 0)
        members |= {name: len(group.members) for name, group in reading.image.groups.items()}
        return KafkaOffsets(offsets, reading.problems, members)

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        """Return the leaders of the partitions of `__consumer_offsets` that groups belong to.

        The brokers' own answers are unknown, and so are coordinators of transactions.
        """
        if transactional:
            return {}
        return placements(decode_tree(read_topics(self._client, [OFFSETS_TOPIC])), keys)

    def view(self, topics: Collection[str]) -> ClusterView:
        """Return the brokers and topics registered in ZooKeeper; see `GroupSource.view`."""
        return cluster_view(decode_tree(read_topics(self._client, topics)), topics)

    def unreachable(self) -> Mapping[int, Problem]:
        """Connect to the registered brokers; see `GroupSource.unreachable`."""
        unreachable, problems = self._of_brokers(
            "log end offsets are unknown", lambda cluster: cluster.unreachable()
        )
        return (
            dict.fromkeys(self.view(()).brokers, problems[0])
            if unreachable is None
            else unreachable
        )

    def subtree(self, path: str, depth: int | None = None) -> ZookeeperTree:
        """Read any nodes; see `GroupSource.subtree`."""
        return read_subtree(self._client, path, depth)

    def _names(self, group_ids: Collection[str] | None, question: Question) -> Reading:
        """Return only the ids of the groups."""
        names = [name for name in read_group_ids(self._client) if question.names(name, group_ids)]
        return Reading(Image({name: Group(name, GroupType.ZOOKEEPER, None) for name in names}))

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        """Read the offsets committed to ZooKeeper; see `GroupSource.read_offsets`.

        Raises:
            BrokerError: no server answers.
            InputError: there are no nodes of Kafka.
        """
        question = Question(regex=regex, state=False, members=False)
        reading = reading_of(read_tree(self._client, group_ids, question), group_ids, question)
        offsets = {
            group_id: group.offsets
            for group_id, group in sorted(reading.image.groups.items())
            if group.offsets
        }
        return OffsetReading(offsets, reading.problems, reading.notes)

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        """Write, create and delete nodes, in one transaction per group.

        See `GroupSource.write_offsets`. ZooKeeper stores only offsets: no metadata, no leader
        epochs. A group of more than about 6,000 partitions takes several transactions.

        Raises:
            BrokerError: no server answers, and nothing was changed.
            InputError: there are no nodes of Kafka.
        """
        from kgroup.source.zookeeper.writer import write_offsets

        return write_offsets(self._client, changes, on_done)

    def delete_groups(
        self, group_ids: Collection[str], on_done: Callable[[str], object] = lambda group_id: None
    ) -> tuple[Problem, ...]:
        """Delete groups with all their nodes; see `GroupSource.delete_groups`.

        Raises:
            BrokerError: no server answers, and nothing was deleted.
        """
        from kgroup.source.zookeeper.writer import delete_groups

        return delete_groups(self._client, group_ids, on_done)

    def _of_brokers(
        self, loss: str, ask: Callable[[LiveCluster], T]
    ) -> tuple[T | None, tuple[Problem, ...]]:
        """Query the brokers; if none answers, return a problem that says what is lost.

        After one failure it does not wait for brokers again.
        """
        try:
            if self._silence is not None:
                raise self._silence
            if self._cluster is None:
                self._cluster = self._open_cluster()
            return ask(self._cluster), ()
        except BrokerError as error:
            self._silence = error
            self._close_cluster()
            text = f"{error}; {loss}."
            reason = f"{text[:1].upper()}{text[1:]}"
            return None, (Problem(error.kind, reason, broker=error.broker_id),)

    def _of_known_topics(self, reading: LogReading) -> LogReading:
        """Return the reading with topics that exist in ZooKeeper but are not yet known to brokers.

        Brokers report such topics as missing; here they have no answer, and a problem.
        """
        gone = [at for at, log in reading.ranges.items() if log.mark in GONE]
        if not gone or self._nodes is None:
            return reading
        topics = decode_tree(self._part("/brokers/topics/")).topics
        unknown = {
            (topic, partition)
            for topic, partition in gone
            if topic in topics and partition in topics[topic].partitions
        }
        ranges = {
            at: replace(log, mark=OffsetMark.NO_ANSWER) if at in unknown else log
            for at, log in reading.ranges.items()
        }
        problems = tuple(
            Problem(
                ProblemKind.INCONSISTENT,
                f"ZooKeeper has the topic, and brokers do not know {count} of its partitions yet.",
                topic=topic,
            )
            for topic, count in sorted(Counter(topic for topic, _ in unknown).items())
        )
        return LogReading(ranges, reading.problems + problems)

    def _part(self, prefix: str) -> ZookeeperTree:
        """Return those of the last read nodes whose paths start with a prefix."""
        nodes = self._nodes or read_topics(self._client, [])
        return tree_of(node for path, node in nodes.nodes.items() if path.startswith(prefix))

    def _open_cluster(self) -> LiveCluster:
        options = dict(self._broker_options)
        servers = options.pop("bootstrap_servers", None) or self._registered(
            options.get("security_protocol", "PLAINTEXT")
        )
        from kgroup.source.broker.source import LiveCluster

        return LiveCluster(servers, deadline=self._client.deadline, **options)

    def _registered(self, protocol: str) -> list[str]:
        """Return the brokers' addresses with this security protocol.

        Raises:
            BrokerError: no broker has it.
        """
        brokers = decode_tree(self._part("/brokers/ids/")).brokers.values()
        servers = [
            server_text(endpoint.host, endpoint.port)
            for broker in brokers
            for endpoint in broker.endpoints
            if endpoint.security_protocol == protocol and endpoint.host
        ]
        if not servers:
            raise BrokerError(
                ProblemKind.UNREACHABLE,
                f"none of the {len(brokers)} brokers in ZooKeeper listens with security.protocol "
                f"{protocol} (-X security.protocol=…)"
                if brokers
                else "no broker is registered in ZooKeeper",
            )
        return servers

    def _close_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
