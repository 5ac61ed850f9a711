"""What client libraries can do, how their settings are called, and their defaults.

Sources: Kafka's `ConsumerConfig`; `CONFIGURATION.md` of librdkafka; `config.go` of franz-go and
Sarama; `ConsumerGroupConfig` of kafka-go; `KafkaConsumer` of kafka-python; `Kafka.consumer` of
KafkaJS; `options.ts` of @platformatic/kafka. Refused joins: `AbstractCoordinator` of Java and
`BaseCoordinator` of kafka-python, `rd_kafka_cgrp_handle_JoinGroup`, `groupConsumer.manage` of
franz-go, `consumerGroup.joinSync` of Sarama, `ConsumerGroup.run` of kafka-go, `onCrash` of KafkaJS,
`#performJoinGroup` of @platformatic/kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgroup.model.client_library import (
    FRANZ_GO,
    KAFKA_CLIENTS,
    KAFKA_GO,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    PLATFORMATIC,
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
        separator: text between several of them.
        cooperative_since: first version with `cooperative-sticky`; None: no version has it.
        mixes: whether a member may list eager strategies with `cooperative-sticky`.
        static_setting: setting for the instance id; None without static members.
        static_since: first version with static members (KIP-345).
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
        when_refused: what happens in a member when the coordinator refuses its JoinGroup, as with
            INCONSISTENT_GROUP_PROTOCOL or GROUP_AUTHORIZATION_FAILED; continues "then".
        leaves_if_late: whether a member leaves when the time between two polls is over; members
            of other libraries send heartbeats as long as their process lives.
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
    when_refused: str
    reset_to_first: str = "earliest"
    reset_to_end: str = "latest"
    separator: str = ","
    mixes: bool = True
    static_setting: str | None = None
    static_since: str | None = None
    consumer_setting: str | None = None
    consumer_since: str | None = None

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
        when_refused="poll() throws an exception, which ends the application unless it is handled",
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
        when_refused="the application gets an error, and the client tries again",
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
        when_refused="polls return ErrGroupSession, and the client tries again after a backoff",
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
        when_refused="Consume() returns the error; applications may call it again",
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
        when_refused="the client reports the error, and tries again after JoinGroupBackoff (5 s)",
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
        when_refused="poll() raises an exception, which ends the application unless it is handled",
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
        when_refused="the consumer crashes, and does not restart: the error is not retriable",
    ),
    PLATFORMATIC: ClientFacts(
        strategies={"roundrobin": "{ name: 'roundrobin', version: 1 }"},
        strategy_setting="protocols",
        default_strategies=("roundrobin",),
        separator=", ",
        cooperative_since=None,
        static_setting="groupInstanceId",
        static_since="1.26",
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
        when_refused="consume() rejects its promise with the error",
    ),
}
"""The facts of each library whose assignors are implemented, by name."""
