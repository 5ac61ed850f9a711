"""Input of the rules: descriptions of groups from one or two looks, and thresholds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from kgroup.errors import InputError, near_names
from kgroup.model.cluster import ClusterView, TopicPartition
from kgroup.model.group import Group
from kgroup.model.instant import duration_ms
from kgroup.model.log_range import EpochPosition
from kgroup.model.pattern import Pattern, parse_regex
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.operation.describe import GroupDescription, OffsetDescription
from kgroup.operation.report import Report, joined

_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of findings; durations in milliseconds.

    Attributes:
        old_commit_ms: age of a commit while there are records to read.
        expiring_ms: time until a commit expires.
        rebalance_ms: duration of a rebalance, from one look to the next.
        transaction_ms: age of an open transaction, or of a commit in one.
        stuck_ms: minimum time between two looks without progress of a commit or transaction.
        past_ms: how far back the log or a warehouse is searched.
        rebalances: number of rebalances within ten minutes that is too many.
        generations: largest allowed number of generations within `past_ms`.
        uneven: largest allowed ratio of the partitions of two members.
        coordinated: largest allowed ratio of the groups that a broker coordinates to the mean.
        lag: largest allowed number of records left to read by a group; None: unlimited.
        time_lag_ms: longest allowed time that a record waits to be read; None: unlimited.
    """

    old_commit_ms: int = 180_000
    expiring_ms: int = 86_400_000
    rebalance_ms: int = 60_000
    transaction_ms: int = 900_000
    stuck_ms: int = 60_000
    past_ms: int = 86_400_000
    rebalances: float = 5.0
    generations: float = 100.0
    uneven: float = 2.0
    coordinated: float = 2.0
    lag: float | None = None
    time_lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupThresholds:
    """Thresholds of some groups.

    Attributes:
        name: a group id, or a regular expression that matches whole ids.
        pattern: compiled regular expression; None for a group id.
        changes: attributes of `Thresholds` with their values.
    """

    name: str
    pattern: Pattern | None
    changes: Mapping[str, float]

    def are_of(self, group_id: str) -> bool:
        """Return whether the thresholds apply to this group."""
        return group_id == self.name or (
            self.pattern is not None and self.pattern.fullmatch(group_id) is not None
        )


@dataclass(frozen=True, slots=True)
class Look:
    """State of the groups at one time.

    Attributes:
        time_ms: time of the look, in epoch milliseconds.
        groups: groups by id.
        stable_ends: last stable offset of partitions with an open transaction.
        open_since: time of the first record of the oldest open transaction of these partitions, if
            known.
        epoch_ends: where the leader epochs of commits end in today's log; None if it has no such
            epoch.
        is_clock: whether the time is that of a clock; otherwise it is the latest time in a log,
            possibly of the commit in question, so that no commit can be called recent.
        unread: groups that could not be read completely.
    """

    time_ms: int
    groups: Mapping[str, GroupDescription]
    stable_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    open_since: Mapping[TopicPartition, int] = field(default_factory=dict)
    epoch_ends: Mapping[EpochPosition, int | None] = field(default_factory=dict)
    is_clock: bool = True
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that rules evaluate.

    Attributes:
        now: the last look.
        before: the first look; None if there was only one.
        between: a look between these two, if there was one.
        limits: thresholds of findings for all groups.
        group_limits: thresholds of some groups instead, for findings from one look or two; see
            `limits_of`.
        retention_ms: how long brokers keep commits of groups without members; None if unknown.
        cluster: brokers and `__consumer_offsets` of the cluster; None if the source is not a
            cluster.
        offsets_policy: `cleanup.policy` of `__consumer_offsets`; None if unknown.
        record_limit: `max.message.bytes` of `__consumer_offsets`; None if unknown, or if every
            group's record is smaller than any limit.
        record_codecs: `offsets.topic.compression.codec` by broker id; empty if unknown, or if no
            group's record is near the limit.
    """

    now: Look
    before: Look | None = None
    between: Look | None = None
    limits: Thresholds = field(default_factory=Thresholds)
    group_limits: Sequence[GroupThresholds] = ()
    retention_ms: int | None = None
    cluster: ClusterView | None = None
    offsets_policy: str | None = None
    record_limit: int | None = None
    record_codecs: Mapping[int, str] = field(default_factory=dict)

    def limits_of(self, group_id: str) -> Thresholds:
        """Return a group's thresholds: later ones win, and those of its id win over patterns."""
        changes: dict[str, Any] = {}
        for limit in sorted(self.group_limits, key=lambda limits: limits.name == group_id):
            if limit.are_of(group_id):
                changes |= limit.changes
        return replace(self.limits, **changes)


@dataclass(frozen=True, slots=True)
class Past(Report[Finding]):
    """What records show about the past of groups.

    Attributes:
        emptied_ms: when the last member left, in epoch milliseconds, of groups whose newest record
            has no members.
    """

    emptied_ms: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def joined(pasts: Sequence[Past]) -> Past:
        """Return the past of all groups, given that of some groups each."""
        report = joined(pasts)
        emptied_ms = {group_id: ms for past in pasts for group_id, ms in past.emptied_ms.items()}
        return Past(report.data, report.errors, report.notes, emptied_ms=emptied_ms)


def finding_of(
    code: Rule,
    reason: str,
    group_id: str | None = None,
    *,
    basis: Basis = Basis.LOOK,
    severity: Severity | None = None,
    **more: Any,
) -> Finding:
    """Return a finding with its rule's texts; some cases are less severe than the rule."""
    return Finding(code, severity or code.severity, basis, group_id, reason, code.advice, **more)


def about_offset(
    code: Rule, reason: str, group: Group, offset: OffsetDescription, basis: Basis = Basis.LOOK
) -> Finding:
    """Return a finding about a partition, with its offsets and owner."""
    return finding_of(
        code,
        reason,
        group.group_id,
        basis=basis,
        topic=offset.topic,
        partition=offset.partition,
        member_id=offset.member_id,
        offset=offset.committed_offset,
        log_start_offset=offset.log_start_offset,
        log_end_offset=offset.log_end_offset,
        since_ms=offset.commit_timestamp_ms,
    )


def ago(then_ms: int, now_ms: int) -> str:
    """Return how long ago a time was, in the largest unit."""
    return f"{length(now_ms - then_ms)} ago"


def length(duration_ms: int) -> str:
    """Return a duration in its largest unit."""
    for size, unit in _UNITS:
        if duration_ms >= size:
            return _counted(duration_ms // size, unit)
    return "less than a second"


def length_rounded_up(duration_ms: int) -> str:
    """Return a period that a duration fits in, in the largest unit that it has two of."""
    size, unit = next((each for each in _UNITS if duration_ms >= 2 * each[0]), (1000, "second"))
    return _counted(max(1, -(-duration_ms // size)), unit)


def exact_length(duration_ms: int) -> str:
    """Return a duration in the largest unit in which it is a whole number."""
    for size, unit in _UNITS:
        count, rest = divmod(duration_ms, size)
        if not rest and count:
            return _counted(count, unit)
    return f"{duration_ms} ms"


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


LIMITS: Mapping[str, str] = {
    "old-commit": "old_commit_ms",
    "expiring": "expiring_ms",
    "rebalance": "rebalance_ms",
    "transaction": "transaction_ms",
    "stuck": "stuck_ms",
    "past": "past_ms",
    "rebalances": "rebalances",
    "generations": "generations",
    "uneven": "uneven",
    "coordinated": "coordinated",
    "lag": "lag",
    "time-lag": "time_lag_ms",
}
"""Attribute of `Thresholds` by name of the threshold."""
PAST_LIMITS = frozenset({"past_ms", "rebalances", "generations"})
"""Thresholds, as attributes of `Thresholds`, that only a check of the past uses."""
_OF_GROUPS = frozenset(LIMITS) - {"past", "rebalances", "generations", "coordinated"}
"""Thresholds that a group may override; the others apply to the past or to the cluster."""


def parse_limit(name: str, text: str) -> tuple[str, float]:
    """Parse a threshold: a duration, or a factor or count.

    Returns:
        Attribute of `Thresholds`, and its value.

    Raises:
        ValueError: the name is unknown, or the value is invalid.
    """
    if name not in LIMITS:
        raise ValueError(
            f"expected one of {', '.join(LIMITS)}, found {name!r}{near_names(name, LIMITS)}"
        )
    field = LIMITS[name]
    if field.endswith("_ms"):
        value = duration_ms(text)
        if value is None:
            raise ValueError(f"{name}: expected a duration (10m, 1d, 90s), found {text!r}")
        return field, value
    try:
        times = float(text)
    except ValueError:
        times = -1.0
    least, most = (0, 1e18) if name == "lag" else (1, 1e9)
    if not least <= times < most:
        raise ValueError(f"{name}: expected a number of at least {least}, found {text!r}")
    return field, times


def parse_group_limits(
    name: str, texts: Mapping[str, str], strongest: Collection[str] = ()
) -> GroupThresholds:
    """Parse thresholds of some groups.

    Args:
        name: group id, or regular expression that matches the whole group id.
        texts: values by name of the threshold.
        strongest: attributes of `Thresholds` to skip, as a setting with precedence has them.

    Raises:
        ValueError: a name is unknown, a group cannot override it, or a value is invalid.
    """
    changes: dict[str, float] = {}
    for key, text in texts.items():
        field, value = parse_limit(key, text)
        if key not in _OF_GROUPS:
            raise ValueError(
                f"{key}: this limit cannot be set for single groups; set it for all groups"
            )
        if field not in strongest:
            changes[field] = value
    try:
        pattern = parse_regex(name)
    except ValueError:
        pattern = None  # a group id need not be a regular expression
    return GroupThresholds(name, pattern, changes)


def with_limits(limits: Thresholds, changes: Iterable[tuple[str, float]]) -> Thresholds:
    """Return thresholds with changes; of several changes, the last one wins."""
    named: dict[str, Any] = dict(changes)
    return replace(limits, **named)


def read_baseline(text: bytes, path: str) -> frozenset[tuple[str | None, ...]]:
    """Read the keys of findings from the JSON or JSON lines of an earlier check.

    Args:
        text: contents of the file.
        path: name of the file, for errors.

    Raises:
        InputError: the file has no findings.
    """
    keys = set()
    for at, row in enumerate(_rows(text, path), 1):
        try:
            keys.add(_key(row))
            keys |= {
                _key({**each, "group_id": row["group_id"]}) for each in row.get("consequences", ())
            }
        except (TypeError, KeyError, ValueError):
            raise InputError(
                f"{path}: finding {at}: expected an object with code and group_id, as kgroup check "
                "-o json writes it",
                path=path,
            ) from None
    return frozenset(keys)


def _rows(text: bytes, path: str) -> Iterable[Any]:
    try:
        if text.lstrip().startswith(b"{") and b'"command"' in text[:200]:
            document = orjson.loads(text)
            if document.get("command") == "check" and isinstance(document["data"], list):
                return document["data"]
        else:
            return [orjson.loads(line) for line in text.splitlines() if line.strip()]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(
        f"{path}: expected findings, as kgroup check -o json or -o jsonl writes them", path=path
    )


def _key(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return the key of a finding in JSON form, as `Finding.key` returns it."""
    code = Rule(row["code"])
    values = [row["group_id"]]
    who = "member_id" if row.get("client_id") is None else "client_id"
    values += (row.get(name) for name in ("topic", "partition", who, "broker", "path"))
    if not all(value is None or isinstance(value, str | int) for value in values):
        raise TypeError
    return code, *(None if value is None else str(value) for value in values)
