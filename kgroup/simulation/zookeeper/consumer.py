"""An application whose consumer coordinates through ZooKeeper: it registers, rebalances, commits.

There is no coordinator: each consumer reads from ZooKeeper which others exist, computes the
assignment, and takes its partitions as soon as they have no owner.

Source: `ZookeeperConsumerConnector`, `AssignmentContext`, `TopicCount` and `ZkUtils` of Kafka
0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kgroup.assignor.base import AssignorError, TopicMetadata
from kgroup.assignor.strategy import assignor_of
from kgroup.assignor.zookeeper import Consumers, ThreadAssignment
from kgroup.described_enum import DescribedEnum
from kgroup.model.cluster import TopicPartition
from kgroup.simulation.clock import Process
from kgroup.simulation.zookeeper.client import Client
from kgroup.simulation.zookeeper.cluster import BROKERS, TOPICS, ZookeeperCluster
from kgroup.simulation.zookeeper.config import Registered, ZookeeperConfig, read_registration
from kgroup.simulation.zookeeper.fetcher import FetcherManager, PartitionTopicInfo, Stream
from kgroup.simulation.zookeeper.offset_store import ConsumerOffsetStore
from kgroup.simulation.zookeeper.server import NodeExistsError, NoNodeError, Watched
from kgroup.simulation.zookeeper.thread import ConditionVariable, Lock, Routine, Thread, sleep


def read_cluster(zookeeper: Client) -> Routine[None]:
    """Read all brokers (`getCluster`).

    Raises:
        NoNodeError: a broker disappeared in the meantime.
    """
    for name in (yield from zookeeper.children(BROKERS)):
        if (yield from zookeeper.read(f"{BROKERS}/{name}")) is None:
            raise NoNodeError(name)


def streams_of(
    zookeeper: Client, cluster: ZookeeperCluster, consumer_id: str
) -> Routine[Mapping[str, int]]:
    """Return a consumer's number of streams by topic (`constructTopicCount`).

    Raises:
        NoNodeError: the consumer is not registered.
    """
    data = yield from zookeeper.read(cluster.path("ids", consumer_id))
    if data is None:
        raise NoNodeError(consumer_id)
    registration = read_registration(data)
    if registration.is_static:
        return registration.subscription
    return registration.streams((yield from zookeeper.children(TOPICS)))


def assignment_context(
    zookeeper: Client, cluster: ZookeeperCluster, consumer_id: str
) -> Routine[tuple[Consumers, dict[str, TopicMetadata]]]:
    """Return all consumers with their streams, and the topics of one consumer.

    The topics and their partitions are read first.

    Raises:
        NoNodeError: a consumer disappeared in the meantime.
    """
    topics = {}
    for topic in (yield from streams_of(zookeeper, cluster, consumer_id)):
        data = yield from zookeeper.read(f"{TOPICS}/{topic}")
        if data is not None:
            topics[topic] = TopicMetadata(int(data))
    consumers = {}
    for other_id in (yield from zookeeper.children(cluster.path("ids"))):
        consumers[other_id] = yield from streams_of(zookeeper, cluster, other_id)
    yield from zookeeper.children(cluster.path("ids"))
    return consumers, topics


class Trigger(DescribedEnum):
    """Why a consumer rebalances."""

    STARTED = ("consumer started", "The consumer has registered.")
    CONSUMERS = (
        "consumers changed",
        "A consumer of the group joined or left, or may have done so before a new session.",
    )
    PARTITIONS = (
        "partitions changed",
        "A topic that it reads was created or got partitions, or may have done so before a new "
        "session.",
    )
    TOPICS = ("topics changed", "A topic that its filter allows was created or deleted.")
    SESSION = (
        "session expired",
        ("The session of the consumer expired, and the consumer registers again."),
    )
    BROKERS = (
        "brokers changed",
        "A broker started or stopped; only consumers that have found no broker once watch this.",
    )


class ZookeeperConsumerState(DescribedEnum):
    """State of a consumer, in or between rebalances."""

    NEW = ("new", "The consumer has not rebalanced yet.")
    LOOKING = ("looking", "The consumer reads its registration, and the list of brokers.")
    CLOSING = ("closing", "The consumer stops its fetchers, discards fetched records, and commits.")
    RELEASING = ("releasing", "The consumer deletes its owner nodes.")
    ASSIGNING = (
        "assigning",
        ("The consumer reads the consumers and partitions, and computes the assignment."),
    )
    READING_OFFSETS = (
        "reading offsets",
        ("The consumer reads the offsets of its assigned partitions."),
    )
    OWNING = ("owning", "The consumer writes its owner nodes.")
    BACKING_OFF = ("backing off", "The attempt failed; the consumer waits before it retries.")
    FETCHING = ("fetching", "The consumer owns its partitions and fetches.")
    WAITING = ("waiting", "There is no broker; the consumer waits for one.")
    FAILED = ("failed", "The consumer has used up its retries, and reads nothing.")
    CLOSED = ("closed", "The consumer is closed.")


_S = ZookeeperConsumerState
_BETWEEN = frozenset({_S.LOOKING, _S.CLOSED})
FOLLOWS: Mapping[ZookeeperConsumerState, frozenset[ZookeeperConsumerState]] = {
    _S.NEW: _BETWEEN | {_S.FAILED},
    _S.LOOKING: frozenset({_S.CLOSING, _S.WAITING, _S.BACKING_OFF}),
    _S.CLOSING: frozenset({_S.RELEASING}),
    _S.RELEASING: frozenset({_S.ASSIGNING}),
    _S.ASSIGNING: frozenset({_S.READING_OFFSETS, _S.BACKING_OFF}),
    _S.READING_OFFSETS: frozenset({_S.OWNING, _S.BACKING_OFF}),
    _S.OWNING: frozenset({_S.FETCHING, _S.BACKING_OFF}),
    _S.BACKING_OFF: frozenset({_S.LOOKING, _S.FAILED}),
    _S.FETCHING: _BETWEEN | {_S.FAILED},
    _S.WAITING: _BETWEEN | {_S.FAILED},
    _S.FAILED: _BETWEEN | {_S.FAILED},
    _S.CLOSED: frozenset(),
}
"""Valid next states of each state."""


@dataclass(slots=True)
class _Rebalance:
    """The state of a rebalance.

    Attributes:
        trigger: why it began.
        tries: number of attempts.
        threads: number of the stream that will read each assigned partition.
        offsets: committed offsets of these partitions, where they exist.
    """

    trigger: Trigger
    tries: int = 0
    threads: Mapping[TopicPartition, int] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int | None] = field(default_factory=dict)


class _RebalanceFailedError(Exception):
    """`ConsumerRebalanceFailedException`."""


class ZookeeperConsumer(Process):
    """A running application with a `ZookeeperConsumerConnector`.

    Args:
        name: name in the timeline.
        config: configuration of the consumer.
        processing_ms: time to process the records of a fetch.
        cluster: the simulated cluster.
        poison: slow records: offset and extra processing time in ms, by partition.
        registered: registration at the start; None if it is not registered.

    Attributes:
        consumer_id: registered id.
        state: current state; `FOLLOWS` has the transitions.
        topics: subscribed topics; for a filter, those that it allowed when last checked.
        registry: assigned partitions (`topicRegistry`).
        fetchers: fetcher threads.
    """

    def __init__(
        self,
        name: str,
        config: ZookeeperConfig,
        processing_ms: int,
        cluster: ZookeeperCluster,
        poison: Mapping[TopicPartition, tuple[int, int]],
        registered: Registered | None = None,
    ) -> None:
        super().__init__(cluster.clock)
        self.name = name
        self.consumer_id = f"{config.group_id}_{config.consumer_id or cluster.consumer_uuid(name)}"
        self.state = ZookeeperConsumerState.NEW
        self.registry: dict[TopicPartition, PartitionTopicInfo] = {}
        self._config = config
        self._processing_ms = processing_ms
        self._cluster = cluster
        self._poison = poison
        self._streams: dict[tuple[str, int], Stream] = {}
        self._reading: dict[TopicPartition, Stream] = {}
        self.topics: list[str] = []
        self._is_stopping = False
        self._commits = 0
        """Number of the operator's commits that are not done."""
        self._cut_until_ms = 0
        self._rebalance_lock = Lock()
        self._scheduler = Lock()
        """Held by a scheduled commit, and permanently by the shutdown."""
        self._trigger: Trigger | None = None
        self._is_triggered = ConditionVariable()
        self._zookeeper = Client(
            self, name, cluster, config.session_timeout_ms, self._handle_new_session
        )
        self.fetchers = FetcherManager(name, self, cluster, self._zookeeper, config)
        self._offsets = ConsumerOffsetStore(
            name, self, cluster, config, self._zookeeper, self._positions, lambda: self._is_stopping
        )
        if registered is None:
            Thread(self, self._consume())
        else:
            self._resume(registered)
        Thread(self, self._watch_executor())

    def _resume(self, registered: Registered) -> None:
        """Start with an existing registration and owned partitions."""
        config, client = self._config, self._zookeeper
        self.consumer_id = registered.consumer_id
        topics = self._cluster.topics
        self.topics = list(config.registration.streams(topics))
        client.hold(self._cluster.path("ids", self.consumer_id), config.registration.text(0))
        for at, number in sorted(registered.threads.items()):
            client.hold(self._cluster.path("owners", *at), f"{self.consumer_id}-{number}")
        self.after(0, self._listen)  # after all others are registered
        self._offsets.know(registered.offsets)
        offsets = {at: registered.offsets.get(at) for at in registered.threads}
        self._fetch(registered.threads, offsets)
        self.state = ZookeeperConsumerState.FETCHING
        self._start_auto_commit()

    def _start_auto_commit(self) -> None:
        if self._config.auto_commit:
            Thread(self, self._auto_commit())

    def _listen(self) -> None:
        client = self._zookeeper
        client.listen(Watched.CHILDREN, self._cluster.path("ids"), self._on(Trigger.CONSUMERS))
        for topic in self.topics:
            client.listen(Watched.DATA, f"{TOPICS}/{topic}", self._on(Trigger.PARTITIONS))
        if not self._config.registration.is_static:
            client.listen(Watched.CHILDREN, TOPICS, self._handle_topics)

    # --- operator actions -------------------------------------------------------------------------

    def crash(self) -> None:
        """End the application without closing the consumer."""
        self._stop_fetchers()
        self._zookeeper.cut()
        self._cluster.rebalance_ends(self)
        self.end()

    def stop(self) -> None:
        """Shut down: commit, and close the session (`shutdown`)."""
        self._is_stopping = True
        Thread(self, self._shut_down())

    def _shut_down(self) -> Routine[None]:
        yield self._rebalance_lock.acquire
        yield self._scheduler.acquire
        self._stop_fetchers()
        if self._config.auto_commit:
            yield from self._offsets.commit()
        self._zookeeper.close()
        self._go(ZookeeperConsumerState.CLOSED)
        self._cluster.rebalance_ends(self)
        self.end()

    def pause(self, duration_ms: int | None = None) -> None:
        """Pause the process with all threads."""
        super().pause(duration_ms)
        self._zookeeper.cut()

    def resume(self) -> None:
        """Resume; the connection still exists unless the session has expired."""
        if self._zookeeper.has_expired:
            self.after(self._cluster.delay(), self._heal)
        else:
            self._heal()
        super().resume()

    def cut(self, duration_ms: int) -> None:
        """Lose the connection to ZooKeeper for this duration, but not to brokers."""
        self._cut_until_ms = max(self._cut_until_ms, self.clock.now_ms + duration_ms)
        self._zookeeper.cut()

        def end() -> None:
            if not self.is_paused:
                self._heal()

        self.clock.after(duration_ms, end)

    def _heal(self) -> None:
        """Restore the connection to ZooKeeper if possible."""
        if not self.is_running or self.clock.now_ms < self._cut_until_ms:
            return
        if self._cut_until_ms:
            self._cut_until_ms = 0
            self._cluster.note(self.name, "connected again")
        self._zookeeper.heal()

    def process(self, duration_ms: int) -> None:
        """Make all streams busy for this duration."""
        for stream in dict.fromkeys(self._streams.values()):
            stream.be_busy(duration_ms)

    def standing_changed(self) -> None:
        """Record which partitions are not being read: those of busy streams, or all in a pause."""
        for at, stream in self._reading.items():
            is_still = self.is_paused or stream.is_late
            row = self._cluster.logs.row(at)
            self._cluster.timeline.owners.stand(self.name, (row,), is_still=is_still)

    def commit(self) -> None:
        """Commit the current positions."""
        self._commits += 1
        Thread(self, self._commit_once())

    def _commit_once(self) -> Routine[None]:
        is_done = yield from self._offsets.commit()
        self._commits -= 1
        if is_done:
            self._cluster.note(self.name, "committed", partitions=tuple(self.registry))

    def is_settled(self, consumers: Consumers) -> bool:
        """Return whether the consumer fetches its whole assignment among these consumers."""
        topics = {topic: TopicMetadata(count) for topic, count in self._cluster.topics.items()}
        own = self._part_of(consumers, topics)
        is_late = any(stream.is_late for stream in self._streams.values())
        is_reading = self._reading.keys() == own.keys() and self.fetchers.is_settled
        return is_reading and not is_late and not self._is_stopping and not self._commits

    def _part_of(
        self, consumers: Consumers, topics: Mapping[str, TopicMetadata]
    ) -> dict[TopicPartition, int]:
        """Compute the assignment; return this consumer's part, with stream numbers."""
        assignor = assignor_of("zookeeper", self._config.strategy, group_id=self._config.group_id)
        threads: ThreadAssignment = assignor(consumers, topics)
        return {
            at: number
            for (consumer_id, number), partitions in threads.items()
            if consumer_id == self.consumer_id
            for at in partitions
        }

    # --- registration ---------------------------------------------------------------------------

    def _consume(self) -> Routine[None]:
        """Register and rebalance (`createMessageStreams`, `…ByFilter`)."""
        yield from self._offsets.connect()
        self._start_auto_commit()
        try:
            self.topics = yield from self._own_topics()
            yield from self._register()
            yield from self._reinitialize(Trigger.STARTED)
        except _RebalanceFailedError as error:
            self._cluster.note(self.name, "failed", str(error))
            self.crash()
            return
        if not self._config.registration.is_static:
            yield from self._zookeeper.subscribe(Watched.CHILDREN, TOPICS, self._handle_topics)
            yield from self._handle_topics()

    def _register(self) -> Routine[None]:
        """Create this consumer's node; wait while a node of an older session exists."""
        config = self._config
        while True:
            data = config.registration.text(self.clock.now_ms)
            try:
                yield from self._zookeeper.create_ephemeral(
                    self._cluster.path("ids", self.consumer_id), data
                )
            except NodeExistsError:
                yield sleep(self, config.session_timeout_ms)
            else:
                self._cluster.note(self.name, "registered", self.consumer_id)
                return

    def _reinitialize(self, trigger: Trigger) -> Routine[None]:
        """Subscribe to changes, and rebalance (`reinitializeConsumer`)."""
        self._cluster.rebalance_begins(self, trigger)
        subscribe = self._zookeeper.subscribe
        yield from subscribe(
            Watched.CHILDREN, self._cluster.path("ids"), self._on(Trigger.CONSUMERS)
        )
        for topic in self.topics:
            yield from subscribe(Watched.DATA, f"{TOPICS}/{topic}", self._on(Trigger.PARTITIONS))
        yield from self._synced_rebalance(trigger)

    def _own_topics(self) -> Routine[list[str]]:
        registration = self._config.registration
        if registration.is_static:
            return list(registration.subscription)
        return list(registration.streams((yield from self._zookeeper.children(TOPICS))))

    def _handle_topics(self) -> Routine[None]:
        """Rebalance if the filter allows other topics than before (`handleTopicEvent`)."""
        before, self.topics = self.topics, (yield from self._own_topics())
        if set(before) != set(self.topics):
            yield from self._logged(self._reinitialize(Trigger.TOPICS))

    # --- triggers -------------------------------------------------------------------------------

    def _handle_new_session(self) -> Routine[None]:
        """Register again, and rebalance (`ZKSessionExpireListener`)."""
        self._cluster.note(self.name, "new session")
        self._cluster.rebalance_begins(self, Trigger.SESSION)
        self.registry = {}
        yield from self._register()
        yield from self._logged(self._synced_rebalance(Trigger.SESSION))

    def _on(self, trigger: Trigger) -> Callable[[], Routine[None]]:
        def listener() -> Routine[None]:
            self._trigger = trigger
            self._cluster.rebalance_begins(self, trigger)
            self._is_triggered.signal()
            return
            yield

        return listener

    def _watch_executor(self) -> Routine[None]:
        """Rebalance after events; several events cause one rebalance."""
        while True:
            while (trigger := self._trigger) is None:
                yield self._is_triggered.wait
            self._trigger = None
            yield from self._logged(self._synced_rebalance(trigger))

    def _logged(self, routine: Routine[None]) -> Routine[None]:
        """Run a routine and record its failure; the consumer continues without partitions."""
        try:
            yield from routine
        except _RebalanceFailedError as error:
            self._cluster.note(self.name, "failed", f"{error}; it reads nothing")

    # --- the rebalance --------------------------------------------------------------------------

    def _synced_rebalance(self, trigger: Trigger) -> Routine[None]:
        """Run a rebalance until it succeeds or the retries are used up.

        Raises:
            _RebalanceFailedError: all `rebalance.max.retries` attempts failed.
        """
        yield self._rebalance_lock.acquire
        try:
            if self._is_stopping:
                return
            rebalance = _Rebalance(trigger)
            self._go(self._try(rebalance))
            while self.state in STEPS:
                self._go((yield from self._step(rebalance)))
        finally:
            self._rebalance_lock.release()
            if self._trigger is None:
                self._cluster.rebalance_ends(self)
        if self.state is ZookeeperConsumerState.FAILED:
            tries = self._config.rebalance_max_retries
            raise _RebalanceFailedError(f"can't rebalance after {tries} retries")

    def _go(self, state: ZookeeperConsumerState) -> None:
        assert state in FOLLOWS[self.state], (self.state, state)
        self.state = state

    def _try(self, rebalance: _Rebalance) -> ZookeeperConsumerState:
        """Start another attempt if retries are left."""
        rebalance.tries += 1
        if rebalance.tries > self._config.rebalance_max_retries:
            return ZookeeperConsumerState.FAILED
        text = str(rebalance.trigger) if rebalance.tries == 1 else f"try {rebalance.tries}"
        self._cluster.note(self.name, "rebalance", text)
        return ZookeeperConsumerState.LOOKING

    def _step(self, rebalance: _Rebalance) -> Routine[ZookeeperConsumerState]:
        """Run the step of the current state; back off if ZooKeeper has changed in the meantime."""
        try:
            return (yield from STEPS[self.state](self, rebalance))
        except NoNodeError:
            self._cluster.note(self.name, "missed", "a node was deleted during the read")
        except AssignorError as error:
            self._cluster.note(self.name, "missed", error.type)
        return ZookeeperConsumerState.BACKING_OFF

    def _look(self, _: _Rebalance) -> Routine[ZookeeperConsumerState]:
        yield from read_cluster(self._zookeeper)
        yield from streams_of(self._zookeeper, self._cluster, self.consumer_id)
        if (yield from self._zookeeper.brokers()):
            return ZookeeperConsumerState.CLOSING
        listener = self._on(Trigger.BROKERS)
        yield from self._zookeeper.subscribe(Watched.CHILDREN, BROKERS, listener)
        return ZookeeperConsumerState.WAITING

    def _close(self, _: _Rebalance) -> Routine[ZookeeperConsumerState]:
        yield from self._close_fetchers()
        return ZookeeperConsumerState.RELEASING

    def _release(self, _: _Rebalance) -> Routine[ZookeeperConsumerState]:
        for at in sorted(self.registry):
            yield from self._zookeeper.delete(self._cluster.path("owners", *at))
            self.registry.pop(at, None)
        return ZookeeperConsumerState.ASSIGNING

    def _assign(self, rebalance: _Rebalance) -> Routine[ZookeeperConsumerState]:
        consumers, topics = yield from assignment_context(
            self._zookeeper, self._cluster, self.consumer_id
        )
        rebalance.threads = self._part_of(consumers, topics)
        return ZookeeperConsumerState.READING_OFFSETS

    def _read_offsets(self, rebalance: _Rebalance) -> Routine[ZookeeperConsumerState]:
        offsets = yield from self._offsets.fetch(rebalance.threads)
        if self._is_stopping or offsets is None:
            return ZookeeperConsumerState.BACKING_OFF
        rebalance.offsets = offsets
        self._offsets.know(offsets)
        return ZookeeperConsumerState.OWNING

    def _own(self, rebalance: _Rebalance) -> Routine[ZookeeperConsumerState]:
        if not (yield from self._owned(rebalance.threads)):
            return ZookeeperConsumerState.BACKING_OFF
        self._fetch(rebalance.threads, rebalance.offsets)
        return ZookeeperConsumerState.FETCHING

    def _fetch(
        self, threads: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int | None]
    ) -> None:
        """Start to fetch partitions, each for one of the streams."""
        self.registry = {
            at: PartitionTopicInfo(at, self._stream(at[0], number), offsets[at], offsets[at])
            for at, number in threads.items()
        }
        self._reading = {at: self.registry[at].stream for at in sorted(threads)}
        self._cluster.note(self.name, "assigned", partitions=tuple(self._reading))
        rows = self._cluster.logs.rows(tuple(self._reading))
        self._cluster.timeline.owners.begin(self.name, rows)
        self.standing_changed()
        self.fetchers.start(self.registry.values())

    def _back_off(self, rebalance: _Rebalance) -> Routine[ZookeeperConsumerState]:
        yield from self._close_fetchers()
        yield sleep(self, self._config.rebalance_backoff_ms)
        return self._try(rebalance)

    def _owned(self, threads: Mapping[TopicPartition, int]) -> Routine[bool]:
        """Write owner nodes; delete them if a partition has an owner (`reflectPartition…`)."""
        owned = []
        conflicts = []
        for at, number in sorted(threads.items()):
            path = self._cluster.path("owners", *at)
            text = f"{self.consumer_id}-{number}"
            try:
                yield from self._zookeeper.create_ephemeral(path, text)
            except NodeExistsError:
                if (yield from self._zookeeper.read(path)) != text:
                    conflicts.append(at)
                    continue
            owned.append(at)
        if conflicts:
            self._cluster.note(
                self.name, "conflict", ("another consumer owns them"), None, tuple(conflicts)
            )
            for at in reversed(owned):
                yield from self._zookeeper.delete(self._cluster.path("owners", *at))
        return not conflicts

    def _stream(self, topic: str, number: int) -> Stream:
        """Return a stream; streams of a filter read all its topics."""
        key = (topic if self._config.registration.is_static else ""), number
        if key not in self._streams:
            self._streams[key] = Stream(
                self,
                self._config.queued_chunks,
                self._processing_ms,
                self._poison,
                self._poisoned,
                self.standing_changed,
            )
        return self._streams[key]

    def _poisoned(self, at: TopicPartition, busy_ms: int) -> None:
        detail = f"busy for {busy_ms / 1000:,g} s"
        self._cluster.note(self.name, "poison", detail, partitions=(at,))

    def _close_fetchers(self) -> Routine[None]:
        """Stop fetching, drop unread chunks, and commit."""
        self._stop_fetchers()
        if self._config.auto_commit:
            yield from self._offsets.commit()

    def _stop_fetchers(self) -> None:
        self.fetchers.stop()
        for stream in self._streams.values():
            stream.clear()
        if self._reading:
            self._cluster.note(self.name, "revoked", partitions=tuple(self._reading))
            rows = self._cluster.logs.rows(tuple(self._reading))
            self._cluster.timeline.owners.end(self.name, rows)
            self._reading = {}

    # --- offsets --------------------------------------------------------------------------------

    def _positions(self) -> dict[TopicPartition, int]:
        positions = ((at, info.offset) for at, info in self.registry.items())
        return {at: offset for at, offset in positions if offset is not None}

    def _auto_commit(self) -> Routine[None]:
        """Commit at a fixed rate: a late commit does not delay the next one (`KafkaScheduler`)."""
        due_ms = self.clock.now_ms
        while True:
            due_ms += self._config.auto_commit_interval_ms
            yield sleep(self, due_ms - self.clock.now_ms)
            yield self._scheduler.acquire
            yield from self._offsets.commit(may_retry=False)
            self._scheduler.release()


STEPS: Mapping[
    ZookeeperConsumerState,
    Callable[[ZookeeperConsumer, _Rebalance], Routine[ZookeeperConsumerState]],
] = {
    ZookeeperConsumerState.LOOKING: ZookeeperConsumer._look,
    ZookeeperConsumerState.CLOSING: ZookeeperConsumer._close,
    ZookeeperConsumerState.RELEASING: ZookeeperConsumer._release,
    ZookeeperConsumerState.ASSIGNING: ZookeeperConsumer._assign,
    ZookeeperConsumerState.READING_OFFSETS: ZookeeperConsumer._read_offsets,
    ZookeeperConsumerState.OWNING: ZookeeperConsumer._own,
    ZookeeperConsumerState.BACKING_OFF: ZookeeperConsumer._back_off,
}
"""The step of each state of a rebalance, which returns the next state (`rebalance`)."""
