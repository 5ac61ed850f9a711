"""The definition of a scenario: a cluster, members, and timed steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kgroup.described_enum import DescribedEnum
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import MemberState
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings
from kgroup.simulation.zookeeper.config import ZookeeperConfig

QUIET_MS = 60_000
"""How long a scenario continues after its last step, by default."""


class Action(DescribedEnum):
    """Actions of steps."""

    START = ("start", "The member's application starts.")
    STOP = ("stop", "The member closes: it commits, gives up its partitions and leaves.")
    CRASH = ("crash", "The member crashes, without leaving.")
    RESTART = (
        "restart",
        ("The member stops, and starts again after a while, possibly with new settings."),
    )
    REMOVE = ("remove", "An administrator removes the member, as `kgroup members remove` does.")
    PAUSE = ("pause", "The member is paused: a long garbage collection, or long processing.")
    RESUME = ("resume", "The member continues.")
    COMMIT = ("commit", "The member commits its position, optionally with an older generation.")
    ADD_PARTITIONS = ("add_partitions", "Partitions are added to a topic.")
    ADD_TOPIC = ("add_topic", "A topic is created.")
    DELETE_RECORDS = ("delete_records", "All records of a partition are deleted, as by retention.")
    POISON = ("poison", "The next record of a partition takes a long time to process.")
    MOVE_COORDINATOR = ("move_coordinator", "Another broker becomes the coordinator of the group.")
    STOP_BROKER = (
        "stop_broker",
        ("A broker crashes; another broker becomes leader of its partitions."),
    )
    START_BROKER = ("start_broker", "A stopped broker starts again.")
    COPY_OFFSETS = (
        "copy_offsets",
        "Offsets are copied from one store to the other; to Kafka only if the group has no "
        "members.",
    )


class Paused(DescribedEnum):
    """What a pause stops."""

    PROCESS = ("process", "The whole process, including heartbeats.")
    PROCESSING = (
        "processing",
        ("Only processing: the application does not call poll(); heartbeats continue."),
    )
    ZOOKEEPER = ("zookeeper", "The connection to ZooKeeper, but not to brokers.")


class KeptIn(DescribedEnum):
    """Where a member stores its offsets."""

    KAFKA = ("kafka", "In Kafka: the member starts at the committed offset, and commits.")
    EXTERNAL = (
        "external",
        "In a store of the application: the member starts at the stored offset, else at the "
        "committed offset, and stores its position there.",
    )
    BOTH = (
        "both",
        "In both: the member starts at the later offset, and both stores and commits its position.",
    )


@dataclass(frozen=True, slots=True)
class ZookeeperMemberPlan:
    """A consumer that uses ZooKeeper, as of its start.

    Attributes:
        config: configuration of the consumer.
        processing_ms: time to process the records of a fetch.
    """

    config: ZookeeperConfig
    processing_ms: int = 50


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A member, as of its start.

    Attributes:
        config: configuration of its consumer.
        processing_ms: time from one poll() to the next, after a poll() that returned records.
        auto_offset_reset: "latest" or "earliest".
        offsets: where offsets are stored; it also commits to Kafka if auto-commit is enabled.
    """

    config: ConsumerConfig
    processing_ms: int = 500
    auto_offset_reset: str = "latest"
    offsets: KeptIn = KeptIn.KAFKA


@dataclass(frozen=True, slots=True)
class Step:
    """An action at a given time.

    Attributes:
        member: the member concerned; None for other actions.
        for_ms: duration; None if it has none or does not end by itself.
        plan: new configuration of a member that restarts.
        paused: what a pause stops.
        generation_id: generation to send with a commit.
        topic: the topic, with `count` as its new number of partitions; for an action on a
            partition, `count` is the partition.
        broker: broker id; None for any other broker.
        told: additional text for people; None if there is none.
        to: for copied offsets, the target: Kafka or the external store.
    """

    at_ms: int
    action: Action
    member: str | None = None
    for_ms: int | None = None
    plan: MemberPlan | ZookeeperMemberPlan | None = None
    paused: Paused = Paused.PROCESS
    generation_id: int | None = None
    topic: str | None = None
    count: int = 0
    broker: int | None = None
    told: str | None = None
    to: KeptIn | None = None


def last_ms(steps: Iterable[Step], jitter_ms: int) -> int:
    """Return the latest time at which all steps and what they start are over, in ms."""
    return max((step.at_ms + (step.for_ms or 0) for step in steps), default=0) + jitter_ms


@dataclass(frozen=True, slots=True)
class StartMember:
    """A member at the start of a scenario; in a classic group it owns its whole assignment.

    Attributes:
        owned: its partitions, including those that it must revoke.
        target: its target assignment.
        revoking: partitions that it must revoke.
        epoch: current epoch.
        previous_epoch: epoch before.
        state: state of the reconciliation.
        is_away: its application is not running: a static member that may return.
        threads: with ZooKeeper, the number of the stream that reads each partition.
        host: client address; None if unknown.
    """

    member_id: str
    owned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] = ()
    revoking: tuple[TopicPartition, ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    is_away: bool = False
    threads: Mapping[TopicPartition, int] = field(default_factory=dict)
    host: str | None = None


@dataclass(frozen=True, slots=True)
class InitialGroup:
    """A group that exists at the start of a scenario; a classic group is stable or empty.

    A group that uses ZooKeeper only has members, offsets and ends.

    Attributes:
        is_consumer_group: the group uses the consumer protocol.
        protocol: strategy of a classic group.
        leader_id: member id of the leader; "" for consumer groups and empty groups.
        members: members by name, in the coordinator's order.
        offsets: committed offsets.
        stored: offsets in the external store.
        ends: log end offsets, where known.
        topic_ids: topic ids (base64url) by name, where known.
        assignment_epoch: for consumer groups, the epoch of the target assignment.
        first_beat_ms: time of all members' first heartbeats; None for random times.
    """

    generation_id: int
    protocol: str
    leader_id: str
    members: Mapping[str, StartMember]
    offsets: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    is_consumer_group: bool = False
    assignment_epoch: int = 1
    stored: Mapping[TopicPartition, int] = field(default_factory=dict)
    first_beat_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """The definition of a scenario.

    Attributes:
        title: a sentence; None if there is none.
        about: what the scenario shows; None if there is no text.
        topics: number of partitions by topic.
        members: members by name.
        connectors: instead of `members`, members that use ZooKeeper, by name.
        steps: steps in order of time.
        duration_ms: end of the scenario.
        jitter_ms: longest random delay of a step.
        settings: settings of the brokers for classic groups and offsets.
        consumer_settings: settings of the brokers for consumer groups.
        brokers: number of brokers; the first one is the coordinator.
        rate: records per second and partition.
        delay_ms: shortest and longest network delay of a message.
        load_ms: time that a new coordinator needs to load the groups.
        start: group that exists at the start; None if there is none.
        tick_ms: tick time of ZooKeeper, at multiples of which sessions expire.
        failover_ms: time until another broker leads the partitions of a crashed broker:
            `broker.session.timeout.ms` (KRaft), or the session timeout of ZooKeeper.
    """

    group_id: str
    topics: Mapping[str, int]
    members: Mapping[str, MemberPlan]
    steps: tuple[Step, ...]
    duration_ms: int
    title: str | None = None
    about: str | None = None
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    consumer_settings: ConsumerSettings = field(default_factory=ConsumerSettings)
    brokers: int = 3
    rate: float = 10
    delay_ms: tuple[int, int] = (1, 5)
    load_ms: int = 200
    failover_ms: int = 9_000
    jitter_ms: int = 0
    start: InitialGroup | None = None
    connectors: Mapping[str, ZookeeperMemberPlan] = field(default_factory=dict)
    tick_ms: int = 2_000

    @property
    def settles_ms(self) -> int:
        """Time until a crashed member is removed and the others have reacted, at most."""
        sessions = [connector.config.session_timeout_ms for connector in self.connectors.values()]
        for config in (member.config for member in self.members.values()):
            is_classic = config.group_protocol == "classic"
            theirs, brokers = config.session_timeout_ms, self.consumer_settings.session_timeout_ms
            sessions.append(theirs if is_classic else brokers)
        return max(sessions, default=0) + QUIET_MS
