"""Rules of group coordination by broker version, and the broker settings that affect them.

The rules come from the coordinator's source of 1.1, 2.0 to 2.8, 3.0 to 3.9 and 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kgroup.described_enum import DescribedEnum


class MigrationPolicy(DescribedEnum):
    """Which groups may change their protocol while they have members."""

    DISABLED = (
        "disabled",
        ("No group changes its protocol; members must use the protocol of the group."),
    )
    UPGRADE = (
        "upgrade",
        ("A classic group becomes a consumer group; members may use either protocol."),
    )
    DOWNGRADE = (
        "downgrade",
        ("A consumer group whose members all use the classic protocol becomes a classic group."),
    )
    BIDIRECTIONAL = ("bidirectional", "Groups change their protocol in both directions.")

    @property
    def upgrades(self) -> bool:
        """Whether classic groups may become consumer groups."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether consumer groups may become classic groups."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Consumer group settings of a broker of 4.3, with Kafka's defaults.

    Attributes:
        session_timeout_ms: `group.consumer.session.timeout.ms`.
        heartbeat_interval_ms: `group.consumer.heartbeat.interval.ms`.
        max_size: `group.consumer.max.size`.
        assignors: `group.consumer.assignors`, the default first.
        assignment_interval_ms: `group.consumer.assignment.interval.ms`.
        regex_refresh_interval_ms: `group.consumer.regex.refresh.interval.ms`.
        migration_policy: `group.consumer.migration.policy`.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


Version: TypeAlias = tuple[int, ...]

SESSION_ENDS: Version = (2, 0)
"""The session of a member that did not join in time ends at once; before, it timed out later and
caused one more rebalance.
"""
SYNC_WHILE_LOADING: Version = (2, 0)
"""A member that syncs while the coordinator loads the group must rejoin."""
RETENTION_WHEN_EMPTY: Version = (2, 1)
"""The retention of offsets begins when the group becomes empty instead of at the commit
(KIP-211).
"""
MEMBER_ID_REQUIRED: Version = (2, 2)
"""A new member receives an id first (KIP-394), waits at most five minutes for others, and joins a
group with a maximum size (KIP-389).
"""
STATIC_MEMBERS: Version = (2, 3)
"""Static membership: a member with an instance id may return (KIP-345)."""
BATCHED_LEAVE: Version = (2, 4)
"""One request may remove several members, also by instance id (KIP-345)."""
COOPERATIVE: Version = (2, 4)
"""Consumers may keep their partitions while they rejoin (KIP-429)."""
GENERATION_SENT: Version = (3, 4)
"""Consumers send the generation of their owned partitions (KIP-792), and their rack (KIP-881)."""
SUBSCRIPTION_KNOWN: Version = (2, 4)
"""The coordinator decodes subscriptions, and keeps offsets of subscribed topics (KIP-496). Commits
between JoinGroup and SyncGroup are checked before they are refused.
"""
LARGER_MESSAGES: Version = (2, 5)
"""The default of `message.max.bytes` is 1 MiB instead of 1 MB (KAFKA-4203)."""
SCALA_2_13: Version = (2, 6)
"""Hash tables of Scala 2.13, which Kafka recommends since 2.6."""
LIVELY_HEARTBEAT: Version = (2, 6)
"""A heartbeat between JoinGroup and SyncGroup keeps the member alive (KAFKA-9932)."""
UNREAD_TOPICS_EXPIRE: Version = (2, 8)
"""Offsets of topics to which a stable group does not subscribe any more expire."""
PENDING_SYNC: Version = (2, 8, 1)
"""Members that joined must sync within the rebalance timeout (KAFKA-12890)."""
SAME_CHECKS: Version = (3, 0)
"""All requests check static members in the same way (KAFKA-12914 and others)."""
SKIPPED_ASSIGNMENT: Version = (3, 2)
"""A static leader that returns is told to skip the assignment (KIP-814)."""
NEW_TIMEOUTS: Version = (3, 3)
"""A rejoining member may change its timeouts (KAFKA-13982)."""
JAVA: Version = (4, 0)
"""The coordinator was rewritten in Java (KIP-848)."""
CONSUMER_PROTOCOL: Version = (4, 3)
"""The simulated version of the consumer protocol; 4.0 to 4.2 have it with other rules (KIP-848,
KIP-1263).
"""
NEWEST: Version = (4, 3, 1)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Broker settings for classic groups and offsets, with the defaults of Kafka 4.3.1.

    Attributes:
        version: version of the broker.
        min_session_timeout_ms: `group.min.session.timeout.ms`.
        max_session_timeout_ms: `group.max.session.timeout.ms`.
        initial_rebalance_delay_ms: `group.initial.rebalance.delay.ms`.
        max_size: `group.max.size`.
        message_max_size: `message.max.bytes`, which limits a group's record with all its members.
        is_limit_assumed: whether `message_max_size` stands for a limit that no cluster told.
        may_compress: whether the cluster may compress its records, unlike the simulated one.
        offset_metadata_max_size: `offset.metadata.max.bytes`, in UTF-16 code units.
        offsets_retention_ms: `offsets.retention.minutes`.
        offsets_retention_check_interval_ms: `offsets.retention.check.interval.ms`.
    """

    version: Version = NEWEST
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    message_max_size: int = 1_048_588
    is_limit_assumed: bool = False
    may_compress: bool = False
    offset_metadata_max_size: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000

    @classmethod
    def of(cls, version: Version) -> BrokerSettings:
        """Return the defaults of a broker version."""
        return cls(
            version,
            max_session_timeout_ms=1_800_000 if version >= STATIC_MEMBERS else 300_000,
            message_max_size=1_048_588 if version >= LARGER_MESSAGES else 1_000_012,
            offsets_retention_ms=(7 if version >= SESSION_ENDS else 1) * 24 * 60 * 60 * 1000,
        )
