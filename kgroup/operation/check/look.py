"""What rules judge: groups as they are described, once or twice, and what their cluster says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.model.cluster import ClusterView
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.operation.description import GroupDescription

__all__ = ["At", "Evidence", "Limits", "Look", "ago", "finding_of", "length"]

At = tuple[str, int]
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond what something is a finding; durations in milliseconds.

    Attributes:
        old_commit_ms: age of a commit while there are records to read.
        expiring_ms: time until a commit is forgotten.
        rebalance_ms: duration of a rebalance, from one look to the next.
        transaction_ms: age of a commit in a transaction that is still open.
        stuck_ms: for how long, from one look to the next, a commit or a transaction must stand
            still.
        past_ms: how far a warehouse is looked back on.
        rebalances: so many within ten minutes are too many, in a warehouse.
        generations: more of them within `past_ms` are too many, likewise.
        uneven: how many times as many partitions one member may have as another.
        coordinated: how many times as many groups as the mean one broker may coordinate.
    """

    old_commit_ms: int = 600_000
    expiring_ms: int = 86_400_000
    rebalance_ms: int = 60_000
    transaction_ms: int = 900_000
    stuck_ms: int = 60_000
    past_ms: int = 86_400_000
    rebalances: float = 5.0
    generations: float = 100.0
    uneven: float = 2.0
    coordinated: float = 2.0


@dataclass(frozen=True, slots=True)
class Look:
    """Groups at one time.

    Attributes:
        time_ms: when, in epoch milliseconds.
        groups: by id.
        stable_ends: of partitions with an open transaction, where the first one begins.
    """

    time_ms: int
    groups: Mapping[str, GroupDescription]
    stable_ends: Mapping[At, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that rules may judge.

    Attributes:
        now: the last look.
        before: the one before it; None where there was one only.
        limits: beyond what something is a finding.
        retention_ms: for how long brokers keep commits of groups without members; None where they
            do not tell.
        cluster: its brokers and `__consumer_offsets`; None where the source is no cluster.
        offsets_policy: `cleanup.policy` of that topic; None where it is not told.
    """

    now: Look
    before: Look | None = None
    limits: Limits = field(default_factory=Limits)
    retention_ms: int | None = None
    cluster: ClusterView | None = None
    offsets_policy: str | None = None


def finding_of(
    code: Rule,
    reason: str,
    group_id: str | None = None,
    *,
    basis: Basis = Basis.LOOK,
    severity: Severity | None = None,
    **more: Any,
) -> Finding:
    """Make a finding with what its rule says; some cases are less severe than the rule."""
    return Finding(code, severity or code.severity, basis, group_id, reason, code.advice, **more)


def ago(then_ms: int, now_ms: int) -> str:
    """Say how long ago something was, in its largest unit."""
    return f"{length(now_ms - then_ms)} ago"


def length(duration_ms: int) -> str:
    """Say how long something takes, in its largest unit."""
    for size, unit in _UNITS:
        if duration_ms >= size:
            count = duration_ms // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "less than a second"
