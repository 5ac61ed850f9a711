"""A Kafka 0.8 cluster with its ZooKeeper: brokers, partition leaders, topics, and the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.world import World
from kgroup.simulation.zookeeper.config import read_registration
from kgroup.simulation.zookeeper.server import Server, Session
from kgroup.simulation.zookeeper.thread import Wait

ZOOKEEPER = "zookeeper"
"""Actor of events that ZooKeeper causes by itself."""
BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
_OWN_PART = re.compile(r"-\d{13}-[0-9a-f]{1,8}$")
"""The end of an id that Kafka has generated: start time and random part."""
_LATER_MS = 2_000_000_000_000
"""A time after all existing members' starts, with as many digits: ids are sorted as strings."""


class ZookeeperCluster(World):
    """Brokers that lead partitions; one of them is the offset manager of the group.

    Args:
        group_id: the group whose timeline is recorded.
        brokers: broker ids; the first one is the offset manager.
        topics: number of partitions by topic; brokers lead them in turn.
        tick_ms: `tickTime` of ZooKeeper.
        rate: records per second and partition.
        delay_ms: shortest and longest network delay of a message.
        random: source of random numbers.

    Attributes:
        group_id: id of the group.
        server: ZooKeeper.
        topics: number of partitions by topic, as the brokers know it.
        leaders: leaders of partitions; None for a partition without a leader.
        names: names of members by session.
        offsets: offsets that the group has committed to Kafka.
    """

    def __init__(
        self,
        group_id: str,
        brokers: tuple[int, ...],
        topics: Mapping[str, int],
        tick_ms: int,
        rate: float,
        delay_ms: tuple[int, int],
        random: Random,
    ) -> None:
        super().__init__(rate, delay_ms, random)
        self.group_id = group_id
        self.server = Server(self.clock, tick_ms, self._expired)
        self.topics: dict[str, int] = {}
        self.leaders: dict[TopicPartition, int | None] = {}
        self.names: dict[Session, str] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self._brokers = brokers
        self._up = dict.fromkeys(brokers)
        self._offset_manager: int | None = brokers[0]
        self._rebalancing: dict[object, None] = {}
        for broker in brokers:
            self.server.create(f"{BROKERS}/{broker}", "")
        self.set_partitions(topics)

    def path(self, *names: object) -> str:
        """Return the path of a node below the group's node."""
        return "/".join(map(str, ("/consumers", self.group_id, *names)))

    def consumer_uuid(self, host: str) -> str:
        """Return the unique part of a new consumer id.

        A member of an existing group is named by its old id, which starts with the host. Its new id
        sorts after all existing ids of that host, as it would with a later start time.
        """
        name, of_old = _OWN_PART.subn("", re.sub(r"[^A-Za-z0-9.-]", "-", host))
        now_ms = self.clock.now_ms + (_LATER_MS if of_old else 0)
        return f"{name}-{now_ms}-{self._random.getrandbits(32):08x}"

    # --- topics and brokers ---------------------------------------------------------------------

    def set_partitions(self, counts: Mapping[str, int]) -> None:
        """Create topics, or add partitions to them."""
        for topic, count in counts.items():
            new = [(topic, number) for number in range(self.topics.get(topic, 0), count)]
            self.leaders.update(zip(new, map(self._preferred, new), strict=True))
            self.timeline.owners.exist(self.logs.create(new))
            self.topics[topic] = count
            self.server.write(f"{TOPICS}/{topic}", str(count))

    def _preferred(self, partition: TopicPartition) -> int | None:
        """Return the preferred leader of a partition: its first running replica, of all brokers."""
        first = partition[1] % len(self._brokers)
        replicas = (*self._brokers[first:], *self._brokers[:first])
        return next((broker for broker in replicas if broker in self._up), None)

    def is_up(self, broker: int) -> bool:
        """Return whether a broker is running."""
        return broker in self._up

    def stop_broker(self, broker: int, failover_ms: int) -> None:
        """Crash a broker; others lead its partitions after its ZooKeeper session expires."""
        self.note(f"broker {broker}", "stop_broker")
        self._up.pop(broker, None)
        for partition, leader in self.leaders.items():
            if leader == broker:
                self.leaders[partition] = None
        if self._offset_manager == broker:
            self._offset_manager = None
        self.clock.after(failover_ms, lambda: self._fail_over(broker))

    def _fail_over(self, broker: int) -> None:
        if broker in self._up:
            return
        if self.server.exists(f"{BROKERS}/{broker}"):
            self.server.delete(f"{BROKERS}/{broker}")
        self._elect()

    def _elect(self) -> None:
        """Elect running replicas for partitions without a leader."""
        for partition, leader in self.leaders.items():
            if leader is None:
                self.leaders[partition] = self._preferred(partition)
        if self._offset_manager is None:
            self._offset_manager = next(iter(self._up), None)

    def start_broker(self, broker: int, failover_ms: int) -> None:
        """Restart a broker; it leads its preferred partitions again after `failover_ms`."""
        self.note(f"broker {broker}", "start_broker")
        self._up[broker] = None
        self.server.write(f"{BROKERS}/{broker}", "")
        self._elect()
        self.clock.after(failover_ms, lambda: self._prefer(broker))

    def _prefer(self, broker: int) -> None:
        for partition in self.leaders:
            if broker in self._up and self._preferred(partition) == broker:
                self.leaders[partition] = broker

    # --- requests to brokers ----------------------------------------------------------------------

    def _request(self, name: str, answer: Callable[[], object]) -> Wait:
        """Send a request to a broker, and send the answer back."""

        def begin(on_answer: Callable[[Any], None]) -> None:
            def arrive() -> None:
                self.timeline.answered(name)
                response = answer()
                self.clock.after(self.delay(), lambda: on_answer(response))

            self.clock.after(self.delay(), arrive)

        return begin

    def metadata(self, topics: Iterable[str]) -> Wait:
        """Request the leaders of topics, by partition; empty if no broker is running."""
        asked = set(topics)

        def answer() -> dict[TopicPartition, int]:
            return {
                at: leader
                for at, leader in self.leaders.items()
                if at[0] in asked and leader is not None and self._up
            }

        return self._request("Metadata", answer)

    def fetch(self, broker: int, offsets: Mapping[TopicPartition, int], wait_ms: int) -> Wait:
        """Request records from these offsets on.

        The answer has an error or the next offset for each partition; it is None if the connection
        broke. A broker waits if there are no new records.
        """

        def begin(on_answer: Callable[[Any], None]) -> None:
            def arrive() -> None:
                if broker not in self._up or any(
                    self._refused(broker, at, offsets) or self._end_offset(at) > offset
                    for at, offset in offsets.items()
                ):
                    reply()
                    return
                now_ms = self.clock.now_ms
                written = [
                    self.logs.written_ms(self.logs.row(at), offset)
                    for at, offset in offsets.items()
                ]
                due_ms = min(
                    (time_ms for time_ms in written if time_ms is not None),
                    default=now_ms + wait_ms,
                )
                self.clock.after(min(max(due_ms - now_ms, 1), wait_ms), reply)

            def reply() -> None:
                answer = None
                if broker in self._up:
                    self.timeline.answered("Fetch")
                    answer = {
                        at: self._refused(broker, at, offsets) or self._end_offset(at)
                        for at in offsets
                    }
                self.clock.after(self.delay(), lambda: on_answer(answer))

            self.clock.after(self.delay(), arrive)

        return begin

    def _refused(
        self, broker: int, at: TopicPartition, offsets: Mapping[TopicPartition, int]
    ) -> ErrorCode | None:
        if self.leaders[at] != broker:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_in_range = self.logs.has(self.logs.row(at), offsets[at])
        return None if is_in_range else ErrorCode.OFFSET_OUT_OF_RANGE

    def _end_offset(self, at: TopicPartition) -> int:
        return self.logs.end_offset(self.logs.row(at))

    def list_offset(self, broker: int, at: TopicPartition, reset: str) -> Wait:
        """Request the log start or end offset of a partition; None unless the broker leads it."""

        def answer() -> int | None:
            if broker not in self._up or self.leaders[at] != broker:
                return None
            if reset == "smallest":
                return self.logs.start_offset(self.logs.row(at))
            return self._end_offset(at)

        return self._request("ListOffsets", answer)

    def offset_manager(self) -> Wait:
        """Request the group's offset manager; None if there is none."""
        return self._request("FindCoordinator", lambda: self._offset_manager)

    def _refused_by(self, broker: int) -> ErrorCode | None:
        """Return why a broker refuses to act as offset manager; None if it does not."""
        if broker not in self._up:
            return ErrorCode.NETWORK_EXCEPTION
        return None if broker == self._offset_manager else ErrorCode.NOT_COORDINATOR

    def commit(self, broker: int, offsets: Mapping[TopicPartition, int]) -> Wait:
        """Commit offsets to Kafka; the answer is an error, or None if successful."""

        def answer() -> ErrorCode | None:
            if (error := self._refused_by(broker)) is None:
                self.offsets.update(offsets)
            return error

        return self._request("OffsetCommit", answer)

    def committed(self, broker: int, partitions: Iterable[TopicPartition]) -> Wait:
        """Request committed offsets from Kafka: by partition, or an error."""
        asked = tuple(partitions)

        def answer() -> dict[TopicPartition, int] | ErrorCode:
            if (error := self._refused_by(broker)) is not None:
                return error
            return {at: self.offsets[at] for at in asked if at in self.offsets}

        return self._request("OffsetFetch", answer)

    def registered(self) -> dict[str, Mapping[str, int]]:
        """Return the registered consumers: number of streams by topic, by consumer id."""
        ids = self.path("ids")
        names = self.server.children(ids) if self.server.exists(ids) else []
        topics = self.server.children(TOPICS) if self.topics else []
        return {
            name: read_registration(self.server.read(f"{ids}/{name}")).streams(topics)
            for name in names
        }

    # --- the timeline ---------------------------------------------------------------------------

    def _expired(self, session: Session) -> None:
        self.note(ZOOKEEPER, "session expired", self.names[session])

    def rebalance_begins(self, consumer: object, cause: str) -> None:
        """Record that a consumer rebalances, or will as soon as possible."""
        if not self._rebalancing:
            self.timeline.rebalance_begins(cause)
        self._rebalancing[consumer] = None

    def rebalance_ends(self, consumer: object) -> None:
        """Record that a consumer has ended its rebalance: it succeeded, failed or stopped."""
        if consumer in self._rebalancing:
            del self._rebalancing[consumer]
            if not self._rebalancing:
                self.timeline.rebalance_ends(None)

    @property
    def is_resting(self) -> bool:
        """Whether no consumer rebalances, and all partitions have their preferred leaders."""
        return not self._rebalancing and all(
            leader == self._preferred(at) for at, leader in self.leaders.items()
        )
