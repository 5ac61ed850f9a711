"""What is to be simulated: a cluster, members, and what happens to them when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kgroup.model.group import MemberState
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.message import TopicPartition
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings
from kgroup.simulation.zookeeper.config import ZookeeperConfig
from kgroup.word import Word

QUIET_MS = 60_000
"""How long a scenario goes on behind its last step, if it does not say so."""


class Action(Word):
    """What may happen in a scenario."""

    START = ("start", "The member's program starts.")
    STOP = ("stop", "It ends in order: it commits, gives up its partitions and leaves.")
    CRASH = ("crash", "It ends without a word.")
    RESTART = ("restart", "It stops, and starts again after a while, perhaps configured anew.")
    REMOVE = ("remove", "Somebody removes it from its group, as `kgroup members remove` does.")
    PAUSE = ("pause", "It stands still: a long garbage collection, or long processing.")
    RESUME = ("resume", "It goes on.")
    COMMIT = ("commit", "It commits what it has read, perhaps as a member of an older generation.")
    ADD_PARTITIONS = ("add_partitions", "A topic gets more partitions.")
    ADD_TOPIC = ("add_topic", "There is a new topic.")
    DELETE_RECORDS = ("delete_records", "All records of a partition go, as by retention.")
    POISON = ("poison", "The next record of a partition keeps whoever reads it busy.")
    MOVE_COORDINATOR = ("move_coordinator", "Another broker becomes the group's coordinator.")
    STOP_BROKER = ("stop_broker", "A broker crashes; another one takes over what it led.")
    START_BROKER = ("start_broker", "It comes back.")
    COPY_OFFSETS = (
        "copy_offsets",
        "What one store of offsets has comes to the other; to Kafka, if the group has no members.",
    )


class Paused(Word):
    """What a pause is of."""

    PROCESS = ("process", "The whole process stands still, heartbeats too.")
    PROCESSING = ("processing", "The program does not ask for records; heartbeats go on.")
    ZOOKEEPER = ("zookeeper", "The consumer is cut off from ZooKeeper, but not from brokers.")


class KeptIn(Word):
    """Where a member keeps offsets."""

    KAFKA = ("kafka", "It begins at what is committed, and commits.")
    EXTERNAL = (
        "external",
        "It begins at what a store of its own has, or else at what is committed, and stores there.",
    )
    BOTH = ("both", "It begins at the later of the two, and stores there as well as it commits.")


@dataclass(frozen=True, slots=True)
class ZookeeperMemberPlan:
    """A consumer that lives on ZooKeeper, as it is when it starts.

    Attributes:
        config: of the consumer.
        processing_ms: that its program takes for the records of a fetch.
    """

    config: ZookeeperConfig
    processing_ms: int = 50


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A member as it is when it starts.

    Attributes:
        config: of its consumer.
        processing_ms: from one poll() to the next, where it has given records.
        auto_offset_reset: "latest" or "earliest".
        offsets: where they are kept; it commits to Kafka too, if it is configured so.
    """

    config: ConsumerConfig
    processing_ms: int = 500
    auto_offset_reset: str = "latest"
    offsets: KeptIn = KeptIn.KAFKA


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens at one time.

    Attributes:
        member: to whom it happens; None where it happens to no member.
        for_ms: how long it lasts; None where it does not end by itself, or lasts no time.
        plan: of a member that restarts configured anew.
        paused: of a pause: what does not go on.
        generation_id: of a commit: that it claims.
        topic: with `count`: its partitions from then on; of what happens to a partition: which.
        broker: which; None where any other will do.
        told: what people are told of it; None: nothing more.
        to: of offsets that are copied: where to, Kafka or the external store.
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
    """Return when all steps have happened at the latest, and what they begin is over."""
    return max((step.at_ms + (step.for_ms or 0) for step in steps), default=0) + jitter_ms


@dataclass(frozen=True, slots=True)
class StartMember:
    """Where a member stands when a scenario begins; in a classic group it has all that is its own.

    Attributes:
        owned: what it may read, those included that it is to give up.
        target: what it shall have in the end.
        revoking: what it is to give up.
        epoch: that it has reached.
        previous_epoch: before.
        state: on the way to its target.
        is_away: whether its program does not run: a static member that may come back.
        threads: on ZooKeeper: number of the stream that reads each partition.
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


@dataclass(frozen=True, slots=True)
class InitialGroup:
    """A group that is there already when a scenario begins; a classic one is stable, or empty.

    One on ZooKeeper has members, offsets and ends, and nothing else of this.

    Attributes:
        is_consumer_group: whether it is one of the consumer protocol.
        protocol: name of the strategy, which members of a classic group agreed on.
        leader_id: id of the member that has assigned; "" of a consumer group, and of an empty one.
        members: by name, in the coordinator's order.
        offsets: that it has committed.
        stored: what an external store has.
        ends: offset of the next record that a partition gets, as far as it is known.
        topic_ids: Kafka's base64url text by name, as far as they are known.
        assignment_epoch: of a consumer group: for which its target assignment is.
        first_beat_ms: when all members' first heartbeats are due; None: as chance decides.
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
    """What is to be simulated.

    Attributes:
        title: a sentence; None where there is none.
        about: what there is to see; likewise.
        topics: partitions by topic.
        members: by name.
        connectors: members in their place that live on ZooKeeper, by name.
        steps: in order of time.
        duration_ms: when it ends.
        jitter_ms: by how much each step may be late, as chance decides.
        settings: of the brokers.
        consumer_settings: likewise, for consumer groups.
        brokers: how many; the first coordinates.
        rate: records a second that come to each partition.
        delay_ms: least and most that a message takes.
        load_ms: how long a new coordinator reads before it answers.
        start: the group that is there already; None: there is none.
        tick_ms: of ZooKeeper: on which sessions expire.
        failover_ms: until another broker leads what a broker led that crashed: the controller
            misses it for `broker.session.timeout.ms` (KRaft), or ZooKeeper its session.
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
        """How long it may take until a member that is gone is missed and the others know it."""
        sessions = [connector.config.session_timeout_ms for connector in self.connectors.values()]
        for config in (member.config for member in self.members.values()):
            is_classic = config.group_protocol == "classic"
            theirs, brokers = config.session_timeout_ms, self.consumer_settings.session_timeout_ms
            sessions.append(theirs if is_classic else brokers)
        return max(sessions, default=0) + QUIET_MS
