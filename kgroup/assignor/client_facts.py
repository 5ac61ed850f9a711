"""What client libraries can do, how their settings are called, and their defaults.

Sources: Kafka's `ConsumerConfig`; `CONFIGURATION.md` of librdkafka; `config.go` of franz-go and
Sarama; `ConsumerGroupConfig` of kafka-go; `KafkaConsumer` of kafka-python; `AIOKafkaConsumer`;
`Kafka.consumer` of KafkaJS; `options.ts` of @platformatic/kafka.

What members do after errors, for the classic protocol: `AbstractCoordinator` and
`ConsumerCoordinator` of Java 4.0; `rdkafka_cgrp.c` of librdkafka 2.15; `consumer_group.go` of
franz-go 1.22.3 (`manage`, `manageFailWait`, `handleJoinResp`); `consumer_group.go` and
`consumer_group_session.go` of Sarama 1.61.1; `consumergroup.go` of kafka-go 0.4.51 (`run`);
`coordinator/base.py` and `coordinator/consumer.py` of kafka-python 3.0.12; `consumer/index.js`,
`runner.js` and `consumerGroup.js` of KafkaJS 2.2.4; `consumer.ts` and `messages-stream.ts` of
@platformatic/kafka 1.35; `consumer/group_coordinator.py` of aiokafka 0.14;
`consumerGroupRecovery.js` of kafka-node 5.0; `consumer.ts` of kafka-ts 1.5; `consumer.rb` and
`consumer_group.rb` of ruby-kafka 1.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from kgroup.model.client_library import (
    AIOKAFKA,
    FRANZ_GO,
    KAFKA_CLIENTS,
    KAFKA_GO,
    KAFKA_NODE,
    KAFKA_PYTHON,
    KAFKA_TS,
    KAFKAJS,
    LIBRDKAFKA,
    PLATFORMATIC,
    RUBY_KAFKA,
    SARAMA,
)

_COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """Facts about a client library; its newest version, unless there is a first version.

    Attributes:
        strategies: what an application configures for each strategy, by the strategy's name.
        strategy_setting: setting for them.
        default_strategies: names of those that members list by default, in order of preference.
        cooperative_by_default_since: first version that lists `cooperative-sticky` second by
            default; None: what it lists by default has not changed.
        separator: text between several of them.
        cooperative_since: first version with `cooperative-sticky`; None: no version has it.
        mixes: whether a member may list eager strategies with `cooperative-sticky`.
        static_setting: setting for the instance id; None without static members.
        static_since: first version with static members (KIP-345).
        static_leaves: whether static members leave when they close, as dynamic ones do
            (`performLeaveGroup` of @platformatic/kafka). Those of other libraries stay.
        consumer_setting: what selects the consumer protocol (KIP-848); None: it cannot be used.
        consumer_since: first version with production support of it.
        session_setting: setting for the session timeout.
        refresh_setting: setting for the time between two looks for new partitions; empty if members
            never look.
        refresh_ms: its default in milliseconds; None: members never look, unless told to.
        reset_setting: setting for where to start without a committed offset.
        reset: its default.
        reset_to_first: its value to start at the first record.
        reset_to_end: its value to start at the log end.
        poll_setting: setting for the longest time between two polls; if the library has none, for
            the time that a rebalance may take.
        poll_ms: its default in milliseconds.
        session_ms: default of `session_setting` in milliseconds.
        leaves_if_late: whether a member leaves when the time between two polls is over; members
            of other libraries send heartbeats as long as their process lives.
        rebalance_ms: default of the time that a rebalance may take, if it is not `poll_ms`.
    """

    strategies: Mapping[str, str]
    strategy_setting: str
    default_strategies: tuple[str, ...]
    cooperative_since: str | None
    session_setting: str
    refresh_setting: str
    refresh_ms: int | None
    reset_setting: str
    reset: str
    poll_setting: str
    poll_ms: int
    session_ms: int
    leaves_if_late: bool
    cooperative_by_default_since: str | None = None
    reset_to_first: str = "earliest"
    reset_to_end: str = "latest"
    separator: str = ","
    mixes: bool = True
    static_setting: str | None = None
    static_since: str | None = None
    static_leaves: bool = False
    consumer_setting: str | None = None
    consumer_since: str | None = None
    rebalance_ms: int | None = None

    def reset_set(self, reset: str) -> str:
        """Return the setting for where to start, with its value for "earliest" or "latest"."""
        value = self.reset_to_first if reset == "earliest" else self.reset_to_end
        return f"{self.reset_setting} {value}"

    def configured(self, names: tuple[str, ...]) -> str:
        """Return the value of `strategy_setting` for strategies."""
        return self.separator.join(self.strategies.get(name, name) for name in names)


def _named(*names: str) -> Mapping[str, str]:
    return {name: name for name in names}


FACTS: Mapping[str, ClientFacts] = {
    KAFKA_CLIENTS: ClientFacts(
        strategies={
            name: f"org.apache.kafka.clients.consumer.{word}Assignor"
            for name, word in (
                ("range", "Range"),
                ("roundrobin", "RoundRobin"),
                ("sticky", "Sticky"),
                (_COOPERATIVE, "CooperativeSticky"),
            )
        },
        strategy_setting="partition.assignment.strategy",
        default_strategies=("range", _COOPERATIVE),
        cooperative_since="2.4",
        cooperative_by_default_since="3.0",
        static_setting="group.instance.id",
        static_since="2.3",
        consumer_setting="group.protocol=consumer",
        consumer_since="4.0",
        session_setting="session.timeout.ms",
        refresh_setting="metadata.max.age.ms",
        refresh_ms=300_000,
        reset_setting="auto.offset.reset",
        reset="latest",
        poll_setting="max.poll.interval.ms",
        poll_ms=300_000,
        session_ms=45_000,
        leaves_if_late=True,
    ),
    LIBRDKAFKA: ClientFacts(
        strategies=_named("range", "roundrobin", _COOPERATIVE),
        strategy_setting="partition.assignment.strategy",
        default_strategies=("range", "roundrobin"),
        cooperative_since="1.6",
        mixes=False,
        static_setting="group.instance.id",
        static_since="1.4",
        consumer_setting="group.protocol=consumer",
        consumer_since="2.12",
        session_setting="session.timeout.ms",
        refresh_setting="topic.metadata.refresh.interval.ms",
        refresh_ms=300_000,
        reset_setting="auto.offset.reset",
        reset="latest",
        poll_setting="max.poll.interval.ms",
        poll_ms=300_000,
        session_ms=45_000,
        leaves_if_late=True,
    ),
    FRANZ_GO: ClientFacts(
        strategies={
            _COOPERATIVE: "kgo.CooperativeStickyBalancer()",
            "sticky": "kgo.StickyBalancer()",
            "range": "kgo.RangeBalancer()",
            "roundrobin": "kgo.RoundRobinBalancer()",
        },
        strategy_setting="kgo.Balancers",
        default_strategies=(_COOPERATIVE,),
        separator=", ",
        cooperative_since="1.0",
        static_setting="kgo.InstanceID",
        static_since="0.1",
        consumer_setting="kgo.ServerSideBalancer()",
        consumer_since="1.22",
        session_setting="kgo.SessionTimeout",
        refresh_setting="kgo.MetadataMaxAge",
        refresh_ms=300_000,
        reset_setting="kgo.ConsumeStartOffset",
        reset="earliest",
        reset_to_first="kgo.NewOffset().AtStart()",
        reset_to_end="kgo.NewOffset().AtEnd()",
        poll_setting="kgo.RebalanceTimeout",
        poll_ms=60_000,
        session_ms=45_000,
        leaves_if_late=False,
    ),
    SARAMA: ClientFacts(
        strategies={
            "range": "sarama.NewBalanceStrategyRange()",
            "roundrobin": "sarama.NewBalanceStrategyRoundRobin()",
            "sticky": "sarama.NewBalanceStrategySticky()",
            _COOPERATIVE: "sarama.NewBalanceStrategyCooperativeSticky()",
        },
        strategy_setting="Consumer.Group.Rebalance.GroupStrategies",
        default_strategies=("range",),
        separator=", ",
        cooperative_since="1.60.1",
        static_setting="Consumer.Group.InstanceId",
        static_since="1.34",
        session_setting="Consumer.Group.Session.Timeout",
        refresh_setting="Metadata.RefreshFrequency",
        refresh_ms=600_000,
        reset_setting="Consumer.Offsets.Initial",
        reset="latest",
        reset_to_first="sarama.OffsetOldest",
        reset_to_end="sarama.OffsetNewest",
        poll_setting="Consumer.Group.Rebalance.Timeout",
        poll_ms=60_000,
        session_ms=10_000,
        leaves_if_late=False,
    ),
    KAFKA_GO: ClientFacts(
        strategies={
            "range": "kafka.RangeGroupBalancer{}",
            "roundrobin": "kafka.RoundRobinGroupBalancer{}",
            "rack-affinity": "kafka.RackAffinityGroupBalancer{}",
        },
        strategy_setting="GroupBalancers",
        default_strategies=("range", "roundrobin"),
        separator=", ",
        cooperative_since=None,
        session_setting="SessionTimeout",
        refresh_setting="WatchPartitionChanges",
        refresh_ms=None,
        reset_setting="StartOffset",
        reset="earliest",
        reset_to_first="kafka.FirstOffset",
        reset_to_end="kafka.LastOffset",
        poll_setting="RebalanceTimeout",
        poll_ms=30_000,
        session_ms=30_000,
        leaves_if_late=False,
    ),
    KAFKA_PYTHON: ClientFacts(
        strategies={
            "range": "RangePartitionAssignor",
            "roundrobin": "RoundRobinPartitionAssignor",
            "sticky": "StickyPartitionAssignor",
            _COOPERATIVE: "CooperativeStickyAssignor",
        },
        strategy_setting="partition_assignment_strategy",
        default_strategies=("range", "roundrobin"),
        separator=", ",
        cooperative_since="3.0",
        mixes=False,
        static_setting="group_instance_id",
        static_since="2.3",
        session_setting="session_timeout_ms",
        refresh_setting="metadata_max_age_ms",
        refresh_ms=300_000,
        reset_setting="auto_offset_reset",
        reset="latest",
        poll_setting="max_poll_interval_ms",
        poll_ms=300_000,
        session_ms=45_000,
        leaves_if_late=True,
    ),
    AIOKAFKA: ClientFacts(
        strategies={
            "range": "RangePartitionAssignor",
            "roundrobin": "RoundRobinPartitionAssignor",
            "sticky": "StickyPartitionAssignor",
        },
        strategy_setting="partition_assignment_strategy",
        default_strategies=("roundrobin",),
        separator=", ",
        cooperative_since=None,
        static_setting="group_instance_id",
        static_since="0.10",
        session_setting="session_timeout_ms",
        refresh_setting="metadata_max_age_ms",
        refresh_ms=300_000,
        reset_setting="auto_offset_reset",
        reset="latest",
        poll_setting="max_poll_interval_ms",
        poll_ms=300_000,
        session_ms=10_000,
        leaves_if_late=True,
        rebalance_ms=10_000,
    ),
    KAFKAJS: ClientFacts(
        strategies={"RoundRobinAssigner": "PartitionAssigners.roundRobin"},
        strategy_setting="partitionAssigners",
        default_strategies=("RoundRobinAssigner",),
        separator=", ",
        cooperative_since=None,
        session_setting="sessionTimeout",
        refresh_setting="metadataMaxAge",
        refresh_ms=300_000,
        reset_setting="fromBeginning",
        reset="latest",
        reset_to_first="true",
        reset_to_end="false",
        poll_setting="rebalanceTimeout",
        poll_ms=60_000,
        session_ms=30_000,
        leaves_if_late=False,
    ),
    PLATFORMATIC: ClientFacts(
        strategies={"roundrobin": "{ name: 'roundrobin', version: 1 }"},
        strategy_setting="protocols",
        default_strategies=("roundrobin",),
        separator=", ",
        cooperative_since=None,
        static_setting="groupInstanceId",
        static_since="1.26",
        static_leaves=True,
        consumer_setting="groupProtocol: 'consumer'",
        consumer_since="1.18",
        session_setting="sessionTimeout",
        refresh_setting="",
        refresh_ms=None,
        reset_setting="fallbackMode",
        reset="latest",
        poll_setting="rebalanceTimeout",
        poll_ms=102_000,
        session_ms=60_000,
        leaves_if_late=False,
    ),
}
"""The facts of each library whose assignors are implemented, and of aiokafka, by name."""


class Retry(Enum):
    """How a member joins again after a refused join or a failed assignor."""

    SAME = auto()  # with its member id; a cooperative member keeps its partitions
    LOST = auto()  # with its member id and no partitions
    NEW = auto()  # as a new member; it leaves if it is in a generation
    RESTART = auto()  # as a new member; it leaves if it has had an assignment before

    def leaves(self, *, was_assigned: bool) -> bool:
        """Return whether a member in a generation leaves the group before it joins again."""
        return self is Retry.NEW or (self is Retry.RESTART and was_assigned)


@dataclass(frozen=True, slots=True)
class ErrorBehavior:
    """What a member of a classic group does after errors; the texts complete "after that, ...".

    Attributes:
        refused: the coordinator refuses its JoinGroup, as with INCONSISTENT_GROUP_PROTOCOL or
            GROUP_AUTHORIZATION_FAILED.
        removed: the coordinator has removed it, because its session expired or an administrator
            removed it (UNKNOWN_MEMBER_ID).
        assignor_failed: as leader, it cannot compute the assignment.
        fenced: another process has joined with its instance id (FENCED_INSTANCE_ID); None: the
            library has no static members.
        outdated: its generation is not the current one (ILLEGAL_GENERATION).
        retry: how it joins again by itself, where it does.
        refused_ms: time until it joins again after a refused JoinGroup or SyncGroup; None: not by
            itself. Doubled with each failure, up to `refused_most_ms`.
        assignor_failed_ms: time until it joins again after its assignor failed; None: not by
            itself, or the process ends: all known failures in librdkafka and franz-go crash it.
        removed_ms: time until it joins again after UNKNOWN_MEMBER_ID.
        fenced_by: requests whose answer FENCED_INSTANCE_ID ends its reading.
        renewed_by: requests after whose answer ILLEGAL_GENERATION it joins as a new member.
        is_named: whether heartbeats and commits have the instance id.
    """

    refused: str
    removed: str
    assignor_failed: str
    fenced: str | None = None
    outdated: str = "it joins again with its member id"
    retry: Retry = Retry.SAME
    refused_ms: int | None = None
    refused_most_ms: int = 0
    assignor_failed_ms: int | None = None
    removed_ms: int = 0
    fenced_by: frozenset[str] = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"})
    renewed_by: frozenset[str] = frozenset()
    is_named: bool = True


_POLL_THROWS = "poll() throws an exception, which ends the application unless it is handled"
_POLL_RAISES = "poll() raises an exception, which ends the application unless it is handled"

ON_ERROR: Mapping[str, ErrorBehavior] = {
    KAFKA_CLIENTS: ErrorBehavior(
        refused=_POLL_THROWS,
        removed="it joins again as a new member in the next poll()",
        assignor_failed=_POLL_THROWS,
        fenced="poll() throws FencedInstanceIdException",
    ),
    LIBRDKAFKA: ErrorBehavior(
        refused="the application gets an error, and the client tries again",
        removed="it joins again as a new member within a second",
        assignor_failed="it logs the error and joins again within a second; a crash ends the "
        "process",
        fenced="it gives up its partitions with a fatal error, and never joins again; the "
        "application must create another consumer",
        refused_ms=1_000,
        refused_most_ms=1_000,
    ),
    FRANZ_GO: ErrorBehavior(
        refused="polls return ErrGroupSession, and the client tries again after a backoff",
        removed="polls return ErrGroupSession, and it joins again as a new member after a backoff",
        assignor_failed="polls return ErrGroupSession, and it joins again after a backoff; a panic "
        "ends the process",
        fenced="it gives up its partitions, polls return ErrGroupSession, and its attempts to "
        "join fail until the client is restarted",
        outdated="polls return ErrGroupSession, and it joins again with its member id after a "
        "backoff",
        retry=Retry.LOST,
        refused_ms=250,
        refused_most_ms=5_000,
        removed_ms=250,
    ),
    SARAMA: ErrorBehavior(
        refused="Consume() returns the error; applications may call it again",
        removed="Consume() returns without an error; the next call joins again as a new member",
        assignor_failed="Consume() returns the error; applications may call it again",
        fenced="Consume() returns, and each further call returns the error until the application "
        "creates another ConsumerGroup",
        outdated="Consume() returns without an error; the next call joins again with its member "
        "id, but as a new member after a SyncGroup",
        renewed_by=frozenset({"SyncGroup"}),
    ),
    KAFKA_GO: ErrorBehavior(
        refused="the client reports the error, and tries again after JoinGroupBackoff (5 s)",
        removed="it is refused once more, and joins as a new member after JoinGroupBackoff (5 s)",
        assignor_failed="it leaves the group, and joins again as a new member after "
        "JoinGroupBackoff (5 s)",
        outdated="it joins again with its member id, but after a SyncGroup it leaves, and joins as "
        "a new member after JoinGroupBackoff (5 s)",
        renewed_by=frozenset({"SyncGroup"}),
        retry=Retry.NEW,
        refused_ms=5_000,
        refused_most_ms=5_000,
        assignor_failed_ms=5_000,
        removed_ms=5_000,
    ),
    KAFKA_PYTHON: ErrorBehavior(
        refused=_POLL_RAISES,
        removed="it joins again as a new member in the next poll()",
        assignor_failed=_POLL_RAISES,
        fenced="it sends no more heartbeats, but reads on; poll() raises an exception after the "
        "next automatic commit",
        fenced_by=frozenset({"JoinGroup", "SyncGroup", "OffsetCommit"}),
    ),
    KAFKAJS: ErrorBehavior(
        refused="the consumer crashes, and does not restart: the error is not retriable",
        removed="it joins again as a new member",
        assignor_failed="the consumer crashes; if the error is retriable, as for a missing topic, "
        "after 9 s of attempts, and it joins again as a new member 10 s later, if the topic exists",
        retry=Retry.RESTART,
        assignor_failed_ms=9_600,  # the time after its sixth attempt to read the topic's metadata
    ),
    PLATFORMATIC: ErrorBehavior(
        refused="consume() rejects its promise with the error",
        removed="it joins again as a new member; a refused automatic commit destroys the stream",
        assignor_failed="consume() rejects its promise with the error; in later rebalances, the "
        "consumer emits 'error'",
        fenced="it sends no more heartbeats, but reads on; its commits fail",
        outdated="it joins again with its member id; a refused automatic commit destroys the "
        "stream",
        fenced_by=frozenset({"JoinGroup", "SyncGroup"}),
    ),
    AIOKAFKA: ErrorBehavior(
        refused="start(), getone() or getmany() raises the error, which ends the application "
        "unless it is handled",
        removed="it joins again as a new member",
        assignor_failed="getone() or getmany() raises KafkaError, which ends the application "
        "unless it is handled",
        fenced="it takes the instance id back: its heartbeats do not send it, so the answer is "
        "UNKNOWN_MEMBER_ID, and it joins again",
        outdated="it joins again as a new member",
        fenced_by=frozenset({"JoinGroup", "SyncGroup"}),
        renewed_by=frozenset({"SyncGroup", "Heartbeat", "OffsetCommit"}),
        is_named=False,
    ),
    KAFKA_NODE: ErrorBehavior(
        refused="it emits 'error', and does not join again",
        removed="it joins again as a new member after retryMinTimeout (1 s)",
        assignor_failed="it emits 'error', and does not join again",
        outdated="it joins again with its member id after retryMinTimeout (1 s)",
    ),
    KAFKA_TS: ErrorBehavior(
        refused="the consumer restarts after 1 s, and is refused again",
        removed="it joins again as a new member",
        assignor_failed="the consumer restarts after 1 s, and joins again as a new member",
        fenced="the consumer closes",
        outdated="it joins again with its member id",
    ),
    RUBY_KAFKA: ErrorBehavior(
        refused="each_message and each_batch raise the error, which ends them",
        removed="it is refused once more, and joins as a new member after 1 s",
        assignor_failed="each_message and each_batch raise the error, and the member leaves",
    ),
}
"""What members of each known library do after errors, by name."""
