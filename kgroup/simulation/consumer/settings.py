"""What the configuration of a broker decides of consumer groups (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.word import Word


class MigrationPolicy(Word):
    """Which groups may change their protocol while they have members."""

    DISABLED = ("disabled", "No group changes its protocol, and members speak that of the group.")
    UPGRADE = ("upgrade", "A classic group becomes a consumer group; members may speak either.")
    DOWNGRADE = ("downgrade", "A consumer group whose members all speak classic becomes classic.")
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
    """Settings of a broker of 4.3; defaults are Kafka's.

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
