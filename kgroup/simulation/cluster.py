"""The simulated cluster around coordinators and consumers: brokers, topics, network, partitions.

Answers of brokers are recorded in the timeline; answers without news are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from kgroup.model.cluster import TopicPartition, partitions_of
from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import uuid_text
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.clock import Timer
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.message import AnyAnswer as Answer
from kgroup.simulation.consumer.message import AnyRequest as Request
from kgroup.simulation.consumer.message import ConsumerHeartbeatAnswer
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage, in_order, named
from kgroup.simulation.coordinator_log import CoordinatorLog, Data
from kgroup.simulation.group_coordinator import GroupCoordinatorShard
from kgroup.simulation.message import (
    CommitAnswer,
    FetchAnswer,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    OffsetCommit,
    SyncAnswer,
)
from kgroup.simulation.position_commit import PositionCommits
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings
from kgroup.simulation.subscription import decode_assignment
from kgroup.simulation.world import OPERATOR, World

COORDINATOR = "coordinator"
"""Actor of events that a group's coordinator causes by itself."""

_COMMIT_TIMEOUT_MS = 5_000
"""`offsets.commit.timeout.ms`."""
_BEGINS_MS = 500
"""Time between the election of a coordinator and the start of its loading; up to 1 s if busy."""


class SimulatedCluster(World):
    """Brokers, one of which coordinates the group, topics, and the network.

    Args:
        group_id: the group whose timeline is recorded.
        settings: settings of the brokers for classic groups and offsets.
        consumer_settings: settings of the brokers for consumer groups.
        brokers: broker ids; the first one is the coordinator.
        topics: number of partitions by topic.
        rate: records per second and partition.
        delay_ms: shortest and longest network delay of a message.
        load_ms: time that a new coordinator needs to load the groups.
        random: source of random numbers.
        topic_ids: ids (base64url) of topics that already have one.

    Attributes:
        topics: current topics; replaced when they change.
        log: records that the coordinator has written.
        coordinator: the broker that leads the groups' partition; None if there is no leader.
        names: names of members by member id.
    """

    def __init__(
        self,
        group_id: str,
        settings: BrokerSettings,
        consumer_settings: ConsumerSettings,
        brokers: tuple[int, ...],
        topics: Mapping[str, int],
        rate: float,
        delay_ms: tuple[int, int],
        load_ms: int,
        random: Random,
        topic_ids: Mapping[str, str],
    ) -> None:
        super().__init__(rate, delay_ms, random)
        self.topics = TopicImage()
        self.log = CoordinatorLog()
        self.coordinator: int | None = None
        self._group_id = group_id
        self._load_ms = load_ms
        self._topic_ids = topic_ids
        self._coordinators = {
            broker: GroupCoordinatorShard(settings, self, consumer_settings) for broker in brokers
        }
        self._down: set[int] = set()
        self._failover: Timer | None = None
        self._awaited: dict[int, Timer] = {}
        """Crashed brokers that are still in the ISR, with the time until the controller fences
        them.
        """
        self._held: list[tuple[int, Request]] = []
        """Commits that are not replicated yet, and the broker of each."""
        self._waiting: dict[Request, tuple[str, int, Callable[[Answer | None], None]]] = {}
        self.names: dict[str, str] = {}
        self._asking = ""
        self._beats: dict[str, tuple[ErrorCode, int]] = {}
        self.set_partitions(topics)

    def begin(self) -> None:
        """Elect the first broker as coordinator, and let it load the log."""
        self._elect(next(iter(self._coordinators)), 0)
        self.clock.run(self.clock.now_ms)

    # --- topics ---------------------------------------------------------------------------------

    def set_partitions(self, counts: Mapping[str, int]) -> None:
        """Create topics, or add partitions to them."""
        topics = {topic.name: topic for topic in self.topics}
        for topic, count in counts.items():
            before = topics.get(topic) or KnownTopic(
                topic, self._topic_ids.get(topic) or _topic_id(topic), 0
            )
            new = [*partitions_of([(topic, range(before.partitions, count))])]
            self.timeline.owners.exist(self.logs.create(new))
            topics[topic] = replace(before, partitions=count)
        self.topics = TopicImage(topics.values())
        for coordinator in self._coordinators.values():
            coordinator.update_topics(self.topics)

    # --- brokers --------------------------------------------------------------------------------

    def _elect(self, broker: int, load_ms: int) -> None:
        if self._failover is not None:
            self._failover.cancel()
        self.coordinator = broker
        self._coordinators[broker].elect(self.log, load_ms)

    def move_coordinator(self, broker: int) -> None:
        """Move the leadership of the groups' partition to another broker."""
        before = self._depose()
        self.note(OPERATOR, "move_coordinator", f"to broker {broker}")
        if before is not None:
            before.resign()
        self._elect(broker, self._load_ms)

    def _depose(self) -> GroupCoordinatorShard | None:
        """Remove the coordinator, so that no broker knows the group; return it."""
        before, self.coordinator = self.coordinator, None
        self.timeline.gone()
        return None if before is None else self._coordinators[before]

    def is_up(self, broker: int) -> bool:
        """Return whether a broker is running."""
        return broker not in self._down

    def another_broker(self) -> int | None:
        """Return a running broker that is not the coordinator; None if there is none."""
        others = (
            coordinator for coordinator in self._coordinators if coordinator not in self._down
        )
        return next((other for other in others if other != self.coordinator), None)

    def stop_broker(self, broker: int, failover_ms: int) -> None:
        """Crash a broker; another broker becomes leader after `failover_ms`, if there is one.

        Until then no partition can be read: every broker is assumed to have a replica of each
        partition, and a record is readable when all in-sync replicas have it.
        """
        self._down.add(broker)
        self._awaited[broker] = self.clock.after(failover_ms, lambda: self._miss(broker))
        self._hold()
        before = self._depose() if self.coordinator == broker else None
        self.note(f"broker {broker}", "stop_broker")
        for request, (_, at, _) in list(self._waiting.items()):
            if at == broker:
                self._break(request)
        if before is not None:
            before.resign()
            self._schedule(failover_ms, self._fail_over)

    def _schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Schedule the next step of the failover, and cancel the previous one."""
        if self._failover is not None:
            self._failover.cancel()
        self._failover = self.clock.after(delay_ms, action)

    def _fail_over(self) -> None:
        """Elect another coordinator; it refuses requests until it starts to load."""
        broker = self.another_broker()
        if broker is not None:
            self.coordinator = broker
            self.note(f"broker {broker}", "elected")
            self._schedule(_BEGINS_MS, lambda: self._elect(broker, self._load_ms))

    def _miss(self, broker: int) -> None:
        """Remove a crashed broker from the ISR."""
        self._awaited.pop(broker).cancel()
        self._hold()

    def _hold(self) -> None:
        """Stop replication while a crashed broker is in the ISR, or resume it."""
        is_held = bool(self._awaited) or len(self._down) == len(self._coordinators)
        self.logs.hold(is_held=is_held)
        self.timeline.owners.hold(is_held=is_held)
        if not is_held:
            held, self._held = self._held, []
            for broker, request in held:
                if broker not in self._down:
                    self._coordinators[broker].handle(request)

    def start_broker(self, broker: int) -> None:
        """Restart a broker; it becomes coordinator only if there is none."""
        self.note(f"broker {broker}", "start_broker")
        self._down.discard(broker)
        self._coordinators[broker].start()
        if broker in self._awaited:
            self._miss(broker)
        else:
            self._hold()
        if self.coordinator is None:
            self._elect(broker, self._load_ms)

    @property
    def group(self) -> ClassicGroup | ConsumerGroup | None:
        """The group in the coordinator's memory; None if it is not loaded or does not exist."""
        if self.coordinator is None:
            return None
        return self._coordinators[self.coordinator].group(self._group_id)

    # --- the network ----------------------------------------------------------------------------

    def find_coordinator(self, on_found: Callable[[int | None], None]) -> None:
        """Call back with the coordinator's broker id; None if there is none."""
        self.clock.after(self.delay() + self.delay(), lambda: on_found(self.coordinator))

    def metadata(self, on_known: Callable[[TopicImage], None]) -> None:
        """Call back with the topics of the cluster."""
        self.clock.after(self.delay() + self.delay(), lambda: on_known(self.topics))

    def send(
        self, actor: str, broker: int, request: Request, on_answer: Callable[[Any], None]
    ) -> None:
        """Send a request to a broker; call back with the answer, or None if disconnected."""
        self.clock.after(self.delay(), lambda: self._arrive(actor, broker, request, on_answer))

    def _arrive(
        self, actor: str, broker: int, request: Request, on_answer: Callable[[Any], None]
    ) -> None:
        self._waiting[request] = (actor, broker, on_answer)
        self._asking = actor
        if broker in self._down:
            self._break(request)
            return
        if isinstance(request, OffsetCommit) and self.logs.is_held and broker == self.coordinator:
            refusal = dict.fromkeys(request.offsets, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._held.append((broker, request))
            self.clock.after(
                _COMMIT_TIMEOUT_MS, lambda: self.answer(request, CommitAnswer(refusal))
            )
            return
        self._coordinators[broker].handle(request)
        if request in self._waiting:
            self.note(actor, type(request).__name__, "waits")

    def _break(self, request: Request) -> None:
        actor, _, on_answer = self._waiting.pop(request)
        self.note(actor, type(request).__name__, "connection broken")
        self.clock.after(self.delay(), lambda: on_answer(None))

    # --- the coordinators' runtime ---------------------------------------------------------------

    def answer(self, request: Request, answer: Answer) -> None:
        """Send an answer back to the client."""
        if (waiting := self._waiting.pop(request, None)) is None:
            return  # the connection broke before
        actor, _, on_answer = waiting
        refused = _error(answer) if isinstance(answer, CommitAnswer) else None
        self.timeline.answered(type(request).__name__, refused)
        if isinstance(answer, JoinAnswer | ConsumerHeartbeatAnswer) and answer.member_id:
            self.names[answer.member_id] = actor
        if not self._is_routine(actor, request, answer):
            text, partitions = self._told(answer)
            error = _error(answer).name if _error(answer) else None
            self.note(actor, type(request).__name__, text, error, partitions)
        self.clock.after(self.delay(), lambda: on_answer(answer))

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        """Write a record."""
        self.log.append(type_, key, value, self.clock.now_ms)

    def append_positions(self, commits: PositionCommits, count: int) -> int:
        """Write records that are made of the commits when they are read; return their offset."""
        return self.log.append_positions(commits, count)

    def new_member_id(self, prefix: str) -> str:
        """Return a new member id for the client whose request is being handled."""
        made = f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"
        self.names[made] = self._asking
        return made

    def new_uuid(self) -> str:
        """Return a new id as brokers generate them for the consumer protocol."""
        return uuid_text(self._random.randbytes(16))

    def moved(self, group: ClassicGroup | ConsumerGroup, cause: RebalanceCause | None) -> None:
        """Record that a group changed its state or was loaded."""
        if self.coordinator is None:
            return  # a former coordinator drops its groups
        self.timeline.moved(group.state, group.generation_id, cause)
        if isinstance(group, ClassicGroup):
            self.timeline.note_record(group.record_bytes)
        if cause is not None:
            self.note(COORDINATOR, "rebalance", str(cause))
        elif group.state in (GroupState.EMPTY, GroupState.DEAD) and group is self.group:
            self.note(COORDINATOR, str(group.state).lower())

    def removed(
        self, group: ClassicGroup | ConsumerGroup, member_id: str, cause: RebalanceCause
    ) -> None:
        """Record that a member was removed."""
        if cause is not RebalanceCause.MEMBER_LEFT:
            name = self.names.get(member_id, member_id)
            self.note(COORDINATOR, "member removed", f"{name}: {cause}")

    # --- the timeline ---------------------------------------------------------------------------

    @property
    def standing(self) -> tuple[GroupState | None, int | None]:
        """State and generation (or epoch) of the group."""
        group = self.group
        return (None, None) if group is None else (group.state, group.generation_id)

    def _is_routine(self, actor: str, request: Request, answer: Answer) -> bool:
        """Return whether an answer has no news: no error, or the same as before."""
        if isinstance(request, Heartbeat) and isinstance(answer, HeartbeatAnswer):
            is_same = self._says_again(actor, (answer.error, request.generation_id))
            return not answer.error or is_same
        if isinstance(answer, ConsumerHeartbeatAnswer):
            is_same = self._says_again(actor, (answer.error, answer.member_epoch))
            return is_same and answer.assignment is None
        return isinstance(answer, CommitAnswer | FetchAnswer) and not _error(answer)

    def _says_again(self, actor: str, response: tuple[ErrorCode, int]) -> bool:
        """Return whether a member's previous heartbeat had the same answer."""
        before, self._beats[actor] = self._beats.get(actor), response
        return response == before

    def _told(self, answer: Answer) -> tuple[str | None, tuple[TopicPartition, ...] | None]:
        """Return a description of an answer, and the partitions in it."""
        error = _error(answer)
        if error is not ErrorCode.NONE:
            return None, None
        if isinstance(answer, JoinAnswer):
            if answer.members:
                return f"{answer.protocol}, leads {len(answer.members)}", None
            if not answer.leader_id:
                return answer.protocol, None
            return f"{answer.protocol}, {self.names.get(answer.leader_id, '?')} leads", None
        if isinstance(answer, SyncAnswer):
            return "assigned", decode_assignment(answer.assignment) or ()
        if isinstance(answer, ConsumerHeartbeatAnswer) and answer.member_epoch >= 0:
            partitions = None
            if answer.assignment is not None and self.timeline.lists_assigned:
                partitions = in_order(named(self.topics, answer.assignment))
            return f"epoch {answer.member_epoch}", partitions
        return "done", None


def _topic_id(topic: str) -> str:
    """Return the id of a topic, which is the same in all simulations."""
    return uuid_text(uuid5(NAMESPACE_URL, topic).bytes)


def _error(answer: Answer) -> ErrorCode:
    """Return the error of an answer; the first one if it has several."""
    if isinstance(answer, CommitAnswer):
        return answer.first_error
    if isinstance(answer, LeaveAnswer) and not answer.error:
        return next((code for _, code in answer.members if code), ErrorCode.NONE)
    return answer.error
