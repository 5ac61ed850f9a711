"""A cluster around coordinators and consumers: brokers, topics, the network between, the records.

What a broker answers is noted in the timeline; what only shows that all is well is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import uuid_text
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.clock import Timer
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.message import AnyAnswer as Answer
from kgroup.simulation.consumer.message import AnyRequest as Request
from kgroup.simulation.consumer.message import ConsumerHeartbeatAnswer, IdPartition
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
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
    TopicPartition,
)
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings
from kgroup.simulation.subscription import decode_assignment
from kgroup.simulation.world import OPERATOR, World

COORDINATOR = "coordinator"
"""Who acts where a group's coordinator does something by itself."""

_COMMIT_TIMEOUT_MS = 5_000
"""`offsets.commit.timeout.ms`."""
_BEGINS_MS = 500
"""From when brokers name a new coordinator until it begins to load; on a busy one up to 1 s."""


class SimulatedCluster(World):
    """Brokers, one of which coordinates the group; topics; and the network.

    Args:
        group_id: of the group whose timeline is recorded.
        settings: of the brokers.
        consumer_settings: likewise, for consumer groups.
        brokers: their ids; the first coordinates.
        topics: number of partitions by topic.
        rate: records a second that come to each partition.
        delay_ms: least and most that a message takes from one to the other.
        load_ms: how long a new coordinator reads before it knows the groups.
        random: what chance decides.
        topic_ids: Kafka's base64url text, of topics that have one already.

    Attributes:
        topics: a new image when they change.
        log: what the coordinator has written.
        coordinator: the broker that leads the groups' partition; None: none does.
        names: of members, by their ids.
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
        """Brokers that have crashed and are still in sync, until the controller misses them."""
        self._held: list[tuple[int, Request]] = []
        """Commits that are not replicated, and the brokers that have them."""
        self._waiting: dict[Request, tuple[str, int, Callable[[Answer | None], None]]] = {}
        self.names: dict[str, str] = {}
        self._asking = ""
        self._beats: dict[str, tuple[ErrorCode, int]] = {}
        self.set_partitions(topics)

    def begin(self) -> None:
        """Have the first broker load what is in the log, and coordinate."""
        self._elect(next(iter(self._coordinators)), 0)
        self.clock.run(self.clock.now_ms)

    # --- topics ---------------------------------------------------------------------------------

    def set_partitions(self, counts: Mapping[str, int]) -> None:
        """Create topics, or give them more partitions."""
        topics = {each.name: each for each in self.topics}
        for topic, count in counts.items():
            before = topics.get(topic) or KnownTopic(
                topic, self._topic_ids.get(topic) or _topic_id(topic), 0
            )
            for number in range(before.partitions, count):
                self.logs.create((topic, number))
                self.timeline.owners.exists((topic, number))
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
        """Have another broker lead the groups' partition."""
        before = self._depose()
        self.note(OPERATOR, "move_coordinator", f"to broker {broker}")
        if before is not None:
            before.resign()
        self._elect(broker, self._load_ms)

    def _depose(self) -> GroupCoordinatorShard | None:
        """Have nobody know the group until another broker has read it; return who did."""
        before, self.coordinator = self.coordinator, None
        self.timeline.gone()
        return None if before is None else self._coordinators[before]

    def is_up(self, broker: int) -> bool:
        """Return whether a broker runs."""
        return broker not in self._down

    def another_broker(self) -> int | None:
        """Return a broker that runs and does not coordinate."""
        others = (
            coordinator for coordinator in self._coordinators if coordinator not in self._down
        )
        return next((each for each in others if each != self.coordinator), None)

    def stop_broker(self, broker: int, failover_ms: int) -> None:
        """Have a broker crash; another one leads after a while, if there is one.

        Until then no partition can be read: each is taken to have a replica on every broker, and a
        record can be read when all replicas that are in sync have it.
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
        """Do the next step of a failover, in place of the one that was next."""
        if self._failover is not None:
            self._failover.cancel()
        self._failover = self.clock.after(delay_ms, action)

    def _fail_over(self) -> None:
        """Name another coordinator; it refuses what it is asked until it begins to load."""
        broker = self.another_broker()
        if broker is not None:
            self.coordinator = broker
            self.note(f"broker {broker}", "elected")
            self._schedule(_BEGINS_MS, lambda: self._elect(broker, self._load_ms))

    def _miss(self, broker: int) -> None:
        """Take a broker for dead: others lead, and do not wait for it any more."""
        self._awaited.pop(broker).cancel()
        self._hold()

    def _hold(self) -> None:
        """Stop what needs all replicas while one is missed, and let it go on afterwards."""
        is_held = bool(self._awaited) or len(self._down) == len(self._coordinators)
        self.logs.hold(is_held=is_held)
        self.timeline.owners.hold(is_held=is_held)
        if not is_held:
            held, self._held = self._held, []
            for broker, request in held:
                if broker not in self._down:
                    self._coordinators[broker].handle(request)

    def start_broker(self, broker: int) -> None:
        """Have a broker come back; it leads nothing, unless nobody does."""
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
        """The group, as far as its coordinator knows it now."""
        if self.coordinator is None:
            return None
        return self._coordinators[self.coordinator].group(self._group_id)

    # --- the network ----------------------------------------------------------------------------

    def find_coordinator(self, on_found: Callable[[int | None], None]) -> None:
        """Answer who coordinates; None: nobody does now."""
        self.clock.after(self.delay() + self.delay(), lambda: on_found(self.coordinator))

    def metadata(self, on_known: Callable[[TopicImage], None]) -> None:
        """Answer which topics there are."""
        self.clock.after(self.delay() + self.delay(), lambda: on_known(self.topics))

    def send(
        self, actor: str, broker: int, request: Request, on_answer: Callable[[Any], None]
    ) -> None:
        """Bring a request to a broker, and its answer back; None: the connection broke."""
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

    # --- what coordinators need -----------------------------------------------------------------

    def answer(self, request: Request, answer: Answer) -> None:
        """Bring an answer back."""
        if (found := self._waiting.pop(request, None)) is None:
            return  # its connection broke before
        actor, _, on_answer = found
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

    def new_member_id(self, prefix: str) -> str:
        """Make an id as brokers do, for who asks now."""
        made = f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"
        self.names[made] = self._asking
        return made

    def new_uuid(self) -> str:
        """Make an id as brokers do for those of the consumer protocol."""
        return uuid_text(self._random.randbytes(16))

    def moved(self, group: ClassicGroup | ConsumerGroup, cause: RebalanceCause | None) -> None:
        """Note that a group has come to another state, or that it was read from the log."""
        if self.coordinator is None:
            return  # it is forgotten by who does not coordinate any more
        self.timeline.moved(group.state, group.generation_id, cause)
        if cause is not None:
            self.note(COORDINATOR, "rebalance", str(cause))
        elif group.state in (GroupState.EMPTY, GroupState.DEAD) and group is self.group:
            self.note(COORDINATOR, str(group.state).lower())

    def removed(
        self, group: ClassicGroup | ConsumerGroup, member_id: str, cause: RebalanceCause
    ) -> None:
        """Note that a member was removed."""
        if cause is not RebalanceCause.MEMBER_LEFT:
            name = self.names.get(member_id, member_id)
            self.note(COORDINATOR, "member removed", f"{name}: {cause}")

    # --- the timeline ---------------------------------------------------------------------------

    @property
    def standing(self) -> tuple[GroupState | None, int | None]:
        """The group's state, and its generation or epoch."""
        group = self.group
        return (None, None) if group is None else (group.state, group.generation_id)

    def _is_routine(self, actor: str, request: Request, answer: Answer) -> bool:
        """Return whether an answer only shows that all is well, or says what was said before."""
        if isinstance(request, Heartbeat) and isinstance(answer, HeartbeatAnswer):
            is_same = self._says_again(actor, (answer.error, request.generation_id))
            return not answer.error or is_same
        if isinstance(answer, ConsumerHeartbeatAnswer):
            is_same = self._says_again(actor, (answer.error, answer.member_epoch))
            return is_same and answer.assignment is None
        return isinstance(answer, CommitAnswer | FetchAnswer) and not _error(answer)

    def _says_again(self, actor: str, said: tuple[ErrorCode, int]) -> bool:
        """Return whether a member's last heartbeat was answered in the same way."""
        before, self._beats[actor] = self._beats.get(actor), said
        return said == before

    def _told(self, answer: Answer) -> tuple[str | None, tuple[TopicPartition, ...] | None]:
        """Say an answer for people, and which partitions it is about."""
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
            return f"epoch {answer.member_epoch}", self._named(answer.assignment)
        return "done", None

    def _named(self, partitions: Iterable[IdPartition] | None) -> tuple[TopicPartition, ...] | None:
        if partitions is None:
            return None
        names = {topic.topic_id: topic.name for topic in self.topics}
        return tuple(sorted((names[topic_id], number) for topic_id, number in partitions))


def _topic_id(topic: str) -> str:
    """Return an id that a topic has in all simulations."""
    return uuid_text(uuid5(NAMESPACE_URL, topic).bytes)


def _error(answer: Answer) -> ErrorCode:
    """Return the error of an answer: of several the first."""
    if isinstance(answer, CommitAnswer):
        return next((code for code in answer.errors.values() if code), ErrorCode.NONE)
    if isinstance(answer, LeaveAnswer) and not answer.error:
        return next((code for _, code in answer.members if code), ErrorCode.NONE)
    return answer.error
