"""What the configuration of a broker decides of consumer groups (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ConsumerSettings"]


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
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
