"""Read groups once or twice, and apply all rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import join

from kgroup.errors import BrokerError, ExitStatus, ProblemKind
from kgroup.model.cluster import ClusterView, TopicPartition
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.log_range import EpochPosition
from kgroup.model.member_name import called, name_of
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.operation.check.commit import check_commits, check_lag, needs_retention
from kgroup.operation.check.group_record import codec_of, record_bytes
from kgroup.operation.check.look import (
    Evidence,
    GroupThresholds,
    Look,
    Past,
    Thresholds,
    finding_of,
)
from kgroup.operation.check.membership import check_membership, replaced_members, subscribed
from kgroup.operation.check.rule import Basis, Consequence, Finding, NextCommand, Rule, Severity
from kgroup.operation.check.zookeeper import check_zookeeper
from kgroup.operation.describe import GroupDescription, describe, with_records_seen
from kgroup.operation.printed_command import UNKNOWN_ADDRESS, kafka_words, kgroup_command, reaching
from kgroup.operation.record_limit import (
    RECORD_CODEC,
    RECORD_LIMIT,
    SMALL_RECORD,
    is_worth_a_warning,
)
from kgroup.operation.report import Report, first_names, outcome
from kgroup.source.base import DEFAULT_LOG_BUDGET, Capability, GroupSource

_PLACE = re.compile(r"\b(?:GROUP|TOPIC|PARTITION|MEMBER|INSTANCE)\b")


def with_commands(finding: Finding, group: Group | None) -> Finding:
    """Return a finding with the next commands, if it has none yet.

    Args:
        finding: the finding.
        group: current state of its group; None for a finding about the cluster.
    """
    if finding.commands:
        return finding
    return replace(finding, commands=tuple(dict.fromkeys(_commands(finding, group))))


def _commands(finding: Finding, group: Group | None) -> Iterator[str]:
    values = _values(finding, group)
    for command in finding.code.commands:
        if any(place not in values for place in _PLACE.findall(command.text)):
            continue
        yield _written(command, values, group)


def _values(finding: Finding, group: Group | None) -> dict[str, str]:
    """Return the known values of the placeholders in commands."""
    instances = {member.member_id: member.instance_id for member in group.members} if group else {}
    topic, partition = finding.topic, finding.partition
    if finding.code is Rule.OPEN_TRANSACTION and finding.basis is Basis.LOG:
        # It is the pending commits whose transaction is open.
        topic, partition = OFFSETS_TOPIC, group.offsets_partition if group else None
    values = {
        "GROUP": finding.group_id,
        "TOPIC": topic,
        "PARTITION": None if partition is None else str(partition),
        "MEMBER": _name_of(finding.member_id, group),
        "INSTANCE": instances.get(finding.member_id or ""),
    }
    return {place: value for place, value in values.items() if value is not None}


def _name_of(member_id: str | None, group: Group | None) -> str | None:
    """Return the shortest text that names a current member of the group in options."""
    names = [name_of(member) for member in (group.members if group else ())]
    own = next((name for name in names if name.member_id == member_id), None)
    if own is None:
        return None
    short = (text for text in (own.instance_id, own.client_id) if text)
    return next((text for text in short if called(text, names) == [own]), own.member_id)


def _written(command: NextCommand, values: dict[str, str], group: Group | None) -> str:
    coordinator = group.coordinator if group else None
    servers = coordinator.address if coordinator else None
    words = [_PLACE.sub(lambda place: values[place[0]], word) for word in command.text.split()]
    if command.is_of_kafka:
        return join((words[0], *kafka_words(servers or UNKNOWN_ADDRESS), *words[1:]))
    at = command.text.split().index("GROUP")
    options = (*words[at + 1 :], *reaching(command.reach, servers))
    return kgroup_command(" ".join(words[:at]), (words[at],), options)


_FEW_GROUPS = 20
"""Smallest number of groups for which the distribution over coordinators is checked."""


def check_cluster(evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about the cluster, after all its groups were read."""
    yield from _coordinators(evidence)
    yield from _offsets_topic(evidence)


def _coordinators(evidence: Evidence) -> Iterator[Finding]:
    cluster = evidence.cluster
    groups = evidence.now.groups.values()
    coordinators = (description.group.coordinator for description in groups)
    coordinated = Counter(coordinator.id for coordinator in coordinators if coordinator)
    total = sum(coordinated.values())
    if cluster is None or len(cluster.brokers) < 2 or total < _FEW_GROUPS:
        return
    mean = total / len(cluster.brokers)
    for broker, count in coordinated.items():
        if count > mean * evidence.limits.coordinated:
            yield finding_of(
                Rule.COORDINATOR_LOAD,
                f"Broker {broker} coordinates {count} of {total} groups; the mean of "
                f"{len(cluster.brokers)} brokers is {mean:.0f}.",
                broker=broker,
            )


def _offsets_topic(evidence: Evidence) -> Iterator[Finding]:
    topic = evidence.cluster and evidence.cluster.topics.get(OFFSETS_TOPIC)
    if not topic or not topic.partitions or evidence.cluster is None:
        return
    parts = topic.partitions
    headless = sorted(number for number, partition in parts.items() if partition.leader is None)
    behind = sorted(
        number
        for number, partition in parts.items()
        if len(partition.isr) < len(partition.replicas)
    )
    if headless:
        yield _of_topic(f"Partitions without a leader: {first_names(headless)}.")
    if behind:
        yield _of_topic(f"Partitions with out-of-sync replicas: {first_names(behind)}.")
    policy = evidence.offsets_policy
    if policy is not None and policy != "compact":
        yield _of_topic(f"cleanup.policy is {policy}, which deletes commits.")
    if len(evidence.cluster.brokers) < 2:
        return
    if all(len(part.replicas) == 1 for part in parts.values()):
        text = f"One replica only, although there are {len(evidence.cluster.brokers)} brokers."
        yield _of_topic(text, Severity.WARNING)
    if len(parts) == 1:
        text = "One partition only: one broker coordinates all groups."
        yield _of_topic(text, Severity.WARNING)


def _of_topic(reason: str, severity: Severity = Severity.ERROR) -> Finding:
    return finding_of(Rule.OFFSETS_TOPIC, reason, severity=severity, topic=OFFSETS_TOPIC)


_RETENTION = "offsets.retention.minutes"
_POLICY = "cleanup.policy"
_OUTAGES = (
    ProblemKind.SILENT,
    ProblemKind.UNREACHABLE,
    ProblemKind.DISCONNECTED,
    ProblemKind.THROTTLED,
    ProblemKind.REFUSED,
)
"""Transient errors, which may differ between two checks."""


@dataclass(frozen=True, slots=True)
class Request:
    """The groups and rules to check.

    Attributes:
        group_ids: group ids; without ids and regex: all groups, and the cluster.
        regex: matches whole group ids.
        rules: rules to check; empty: all.
        limits: thresholds of findings.
        fail_on: lowest severity for which the exit status is 5.
        known: accepted findings, by `Finding.key`.
        log_budget: see `Question`.
        strategy: `partition.assignment.strategy` of ZooKeeper consumers; None: the one that fits.
        group_limits: thresholds of some groups instead; see `Evidence`.
        time_lags: whether lags in time are needed although no threshold requires them; the next
            records to read are then fetched.
    """

    group_ids: Collection[str] = ()
    regex: Pattern | None = None
    rules: frozenset[Rule] = frozenset()
    limits: Thresholds = field(default_factory=Thresholds)
    fail_on: Severity = Severity.WARNING
    known: frozenset[tuple[str | None, ...]] = frozenset()
    strategy: str | None = None
    log_budget: int = DEFAULT_LOG_BUDGET
    group_limits: Sequence[GroupThresholds] = ()
    time_lags: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all groups and the cluster are checked."""
        return not self.group_ids and self.regex is None

    @property
    def needs_time_lags(self) -> bool:
        """Whether a rule needs the time lag."""
        return (
            self.time_lags
            or self.limits.time_lag_ms is not None
            or any("time_lag_ms" in limit.changes for limit in self.group_limits)
        )

    @property
    def shortest_ms(self) -> float:
        """The smallest age at which a commit of any group can be a finding."""
        limits = self.limits.old_commit_ms, self.limits.stuck_ms
        own = (
            limit.changes[name]
            for limit in self.group_limits
            for name in ("old_commit_ms", "stuck_ms")
            if name in limit.changes
        )
        return min(*limits, *own)


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of a check.

    Attributes:
        report: findings by group, those about the cluster first; worst first within a group.
        groups: checked groups, as of the last look.
        time_ms: time of the last look, in epoch milliseconds.
    """

    report: Report[Finding]
    groups: Sequence[GroupDescription]
    time_ms: int


def check(
    source: GroupSource,
    request: Request,
    instant_ms: Callable[[], int | None],
    pause: Callable[[], object] | None = None,
    look_back: Callable[[Evidence], Past] | None = None,
) -> Audit:
    """Check groups, and the cluster if all groups are checked.

    Args:
        source: source of groups.
        request: groups and rules to check.
        instant_ms: returns the time of the source's data in epoch milliseconds; None for logs,
            which may be an old copy: then their newest timestamp is used.
        pause: waits before a second look; None for one look only. If a static member was replaced
            in between, a third look follows after another pause.
        look_back: evaluates the history of the groups; None to skip it. A finding of the last look
            replaces the same finding in the past.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    report, look = _look(source, request, instant_ms)
    before = between = None
    if pause is not None:
        before = look
        report, look = _look_again(source, request, instant_ms, pause)
        if replaced_members(before, look):  # one restart, or repeated replacement?
            between = look
            report, look = _look_again(source, request, instant_ms, pause)
    evidence, gaps = _evidence(source, request, look, before, between)
    past = Past(()) if look_back is None else look_back(evidence)
    findings = list(_judged(_with_times(evidence, past), is_whole=request.is_whole))
    notes, problems = (*report.notes, *gaps.notes), tuple(gaps.problems)
    groups = {description.group.group_id: description.group for description in report.data}
    ids = [name for name, group in groups.items() if group.type is GroupType.ZOOKEEPER]
    if ids:
        audit = check_zookeeper(source, ids, now_ms=look.time_ms, strategy=request.strategy)
        findings += audit.data
        problems += audit.errors
        notes += audit.notes
    seen = {_place(finding) for finding in findings}
    findings += (finding for finding in past.data if _place(finding) not in seen)
    problems += past.errors
    notes += past.notes
    if Rule.CONSUMER_PROTOCOL in request.rules:
        from kgroup.operation.check.readiness import check_readiness  # imports the simulator

        of_groups, unread_groups = check_readiness(source, report.data)
        findings += of_groups
        problems += tuple(unread_groups)
    if Rule.EAGER_STRATEGY in request.rules:
        from kgroup.operation.check.readiness import judge_strategies

        findings, unread_groups = judge_strategies(source, findings)
        problems += tuple(unread_groups)
    findings = _with_causes(findings, look)
    asked = [finding for finding in findings if not request.rules or finding.code in request.rules]
    new = [
        with_commands(finding, groups.get(finding.group_id or ""))
        for finding in asked
        if finding.key not in request.known
    ]
    if len(new) < len(asked):
        count = len(asked) - len(new)
        notes += (f"{count} known finding{' is' if count == 1 else 's are'} not shown",)
    new = sorted(with_consequences(new), key=_order)
    paths = {finding.path for finding in findings} - {None}
    unread = (error for error in report.errors if error.path not in paths)
    errors = tuple(dict.fromkeys((*unread, *problems)))
    is_bad = any(finding.severity.rank <= request.fail_on.rank for finding in new)
    # Base the exit status on the groups that were read, not on the findings.
    verdict = ExitStatus.PROBLEM if is_bad else outcome(report.data, errors)
    audited = Report(tuple(new), errors, tuple(dict.fromkeys(notes)), verdict)
    return Audit(audited, report.data, look.time_ms)


def _with_times(evidence: Evidence, past: Past) -> Evidence:
    """Return the evidence with the times since which groups are empty, where the log shows them."""
    groups = dict(evidence.now.groups)
    for group_id, time_ms in past.emptied_ms.items():
        group = groups[group_id].group
        if group.state is GroupState.EMPTY and group.state_timestamp_ms is None:
            known = replace(group, state_timestamp_ms=time_ms)
            groups[group_id] = replace(groups[group_id], group=known)
    return replace(evidence, now=replace(evidence.now, groups=groups))


def _place(finding: Finding) -> tuple[Rule, str | None, str | None, int | None]:
    """Return rule and place of a finding, without owner, which may have changed since."""
    return finding.code, finding.group_id, finding.topic, finding.partition


_STILL_MS = 600_000
"""Time after its last occurrence in which a cause may explain the current state."""
_OF_GROUP = frozenset({Rule.LONG_REBALANCE})
_OF_MEMBER = frozenset({Rule.OLD_COMMIT, Rule.STUCK_PARTITION})
"""Findings about the current state that follow from a member that rebalances the group."""


def _with_causes(findings: Sequence[Finding], look: Look) -> list[Finding]:
    """Add the causes, which the past shows, of findings about the current state."""
    causes: dict[str | None, list[Finding]] = {}
    for finding in findings:
        is_recent = finding.event_count is not None and (
            look.time_ms - (finding.evidence_to_ms or 0) <= _STILL_MS + (finding.timeout_ms or 0)
        )
        if is_recent or (
            finding.code is Rule.LARGE_GROUP_RECORD and finding.severity is Severity.ERROR
        ):
            causes.setdefault(finding.group_id, []).append(finding)
    return [
        replace(finding, caused_by=next(_causing(finding, causes, look), finding.caused_by))
        for finding in findings
    ]


def _causing(
    finding: Finding, causes: Mapping[str | None, Sequence[Finding]], look: Look
) -> Iterator[Rule]:
    for cause in causes.get(finding.group_id, ()):
        if finding.code in _OF_GROUP:
            yield cause.code
        elif finding.code in _OF_MEMBER and finding.member_id is not None:
            members = look.groups[finding.group_id or ""].group.members
            if any(
                (member.client_id, member.client_host) == (cause.client_id, cause.client_host)
                for member in members
                if member.member_id == finding.member_id
            ):
                yield cause.code


def with_consequences(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings, with those that another one explains as its consequences.

    A cause is at least as severe as its consequences.
    """
    findings = list(findings)
    found = {(finding.group_id, finding.code) for finding in findings}
    consequences: dict[tuple[str | None, Rule], list[Finding]] = {}
    for finding in findings:
        cause = finding.caused_by
        if cause is not None and (finding.group_id, cause) in found:
            consequences.setdefault((finding.group_id, cause), []).append(finding)
    for finding in findings:
        if (finding.group_id, finding.caused_by) in consequences:
            continue
        own = sorted(consequences.get((finding.group_id, finding.code), ()), key=_order)
        severities = [each.severity for each in (finding, *own)]
        yield replace(
            finding,
            severity=min(severities, key=lambda severity: severity.rank),
            consequences=tuple(
                Consequence(
                    *(each.code, each.severity, each.reason, each.topic, each.partition),
                    *(each.member_id, each.since_ms),
                )
                for each in own
            ),
        )


def _order(finding: Finding) -> tuple[str, int, int, str, str, int]:
    """Return the sort key: causes are first, those with the most events before others."""
    return (
        finding.group_id or "",
        finding.severity.rank,
        -(finding.event_count or 0),
        finding.code,
        finding.topic or "",
        -1 if finding.partition is None else finding.partition,
    )


def _look_again(
    source: GroupSource,
    request: Request,
    instant_ms: Callable[[], int | None],
    pause: Callable[[], object],
) -> tuple[Report[GroupDescription], Look]:
    pause()
    source.renew()
    return _look(source, request, instant_ms)


def _look(
    source: GroupSource, request: Request, instant_ms: Callable[[], int | None]
) -> tuple[Report[GroupDescription], Look]:
    tells_times = source.can(GroupSource.next_records)
    times = source if request.needs_time_lags and tells_times else None
    report = describe(
        source, request.group_ids, regex=request.regex, log_budget=request.log_budget, times=times
    )
    clock_ms = time_ms = instant_ms()
    if time_ms is None:
        time_ms = max((at for group in report.data for at in _times(group)), default=0)
    if times is None and tells_times:
        before_ms = time_ms - request.shortest_ms
        report = with_records_seen(
            report,
            source,
            lambda description, offset: (
                description.group.state is GroupState.EMPTY
                or (offset.member_id is not None and (offset.commit_timestamp_ms or 0) < before_ms)
            ),
        )
    elif times is None and request.needs_time_lags:
        note = "Time lags are unknown: they require a live cluster (--bootstrap-server)."
        report = replace(report, notes=(*report.notes, note))
    groups = {description.group.group_id: description for description in report.data}
    stable = _stable_ends(source, groups.values())
    unread = frozenset(_unread(report))
    opened = _open_since(source, stable) if tells_times else {}
    ends: Mapping[EpochPosition, int | None] = {}
    if not request.rules or Rule.DIVERGED_COMMIT in request.rules:
        ends = source.epoch_ends(_commit_epochs(groups.values()))
    is_clock = clock_ms is not None
    return report, Look(time_ms, groups, stable, opened, ends, is_clock=is_clock, unread=unread)


def _unread(report: Report[GroupDescription]) -> Iterator[str]:
    """Yield the groups that a problem may affect: one group, those of a broker, or all."""
    for problem in report.errors:
        for group in (description.group for description in report.data):
            if problem.group_id is not None:
                is_about = problem.group_id == group.group_id
            elif problem.broker is not None:
                is_about = group.coordinator is None or group.coordinator.id == problem.broker
            else:
                is_about = problem.topic is None
            if is_about:
                yield group.group_id


def _times(description: GroupDescription) -> Iterator[int]:
    of_commits = [offset.commit_timestamp_ms for offset in description.offsets]
    of_pending = [offset.commit_timestamp_ms for offset in description.group.pending_offsets]
    times = (description.group.state_timestamp_ms, *of_commits, *of_pending)
    return (time for time in times if time is not None)


def _stable_ends(
    source: GroupSource, groups: Iterable[GroupDescription]
) -> dict[TopicPartition, int]:
    """Return last stable offsets of partitions where they are before the log end offset."""
    if Capability.LAST_STABLE_OFFSETS not in source.capabilities:
        return {}
    ends = {
        (offset.topic, offset.partition): offset.log_end_offset
        for group in groups
        for offset in group.offsets
        if offset.topic is not None and offset.log_end_offset is not None
    }
    stable = source.log_ranges(ends, committed=True).ranges
    return {
        at: stable[at].end  # type: ignore[misc]  # compared with a number
        for at, end in ends.items()
        if at in stable and stable[at].end is not None and stable[at].end < end  # type: ignore[operator]
    }


def _open_since(
    source: GroupSource, stable_ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the times of the records at the last stable offsets, where they can be read."""
    if not stable_ends:
        return {}
    reading = source.next_records({(*at, offset) for at, offset in stable_ends.items()})
    return {
        (topic, partition): record.timestamp_ms
        for (topic, partition, _), record in reading.records.items()
        if record.timestamp_ms is not None
    }


def _commit_epochs(groups: Iterable[GroupDescription]) -> set[EpochPosition]:
    """Return the leader epochs of commits that are within their log."""
    return {
        (row.topic, row.partition, row.leader_epoch)
        for group in groups
        for row in group.offsets
        if row.topic is not None and row.leader_epoch is not None
        if row.committed_offset is not None and row.mark is None
    }


def _judged(evidence: Evidence, *, is_whole: bool) -> Iterable[Finding]:
    if is_whole:
        yield from check_cluster(evidence)
    for group_id, description in evidence.now.groups.items():
        own = replace(evidence, limits=evidence.limits_of(group_id))
        if description.group.type is GroupType.ZOOKEEPER:
            yield from check_lag(description, own)
            continue
        for finding in (*check_membership(description, own), *check_commits(description, own)):
            yield _with_looks(finding, evidence)


def _with_looks(finding: Finding, evidence: Evidence) -> Finding:
    """Add the times of the looks that a finding is based on."""
    if finding.basis is not Basis.LOOKS or evidence.before is None:
        return finding
    return replace(
        finding, evidence_from_ms=evidence.before.time_ms, evidence_to_ms=evidence.now.time_ms
    )


def _evidence(
    source: GroupSource, request: Request, look: Look, before: Look | None, between: Look | None
) -> tuple[Evidence, _Gaps]:
    """Read what rules need besides groups; rules skip what the cluster does not report."""
    cluster = retention_ms = None
    gaps = _Gaps(request.rules)
    if source.can(GroupSource.view) and not _is_of_zookeeper(look):
        topics = {
            topic for description in look.groups.values() for topic in subscribed(description.group)
        }
        cluster = source.view(sorted({OFFSETS_TOPIC, *topics}))
    of_topic: Mapping[str, str] = {}
    limit: int | None = None
    codecs: Mapping[int, str] = {}
    if source.can(GroupSource.broker_settings):
        if needs_retention(look.groups.values()):
            retention_ms = _retention_ms(source, gaps)
        needed = {_POLICY: Rule.OFFSETS_TOPIC} if request.is_whole else {}
        groups = [description.group for description in look.groups.values()]
        sizes = {group.group_id: record_bytes(group) or 0 for group in groups}
        is_asked = not request.rules or Rule.LARGE_GROUP_RECORD in request.rules
        if is_asked and max(sizes.values(), default=0) > SMALL_RECORD:
            needed[RECORD_LIMIT] = Rule.LARGE_GROUP_RECORD
        of_topic = _offsets_topic_settings(source, cluster, gaps, needed)
        if (text := of_topic.get(RECORD_LIMIT, "")).isdigit():
            limit = int(text)
            large = [group for group in groups if is_worth_a_warning(sizes[group.group_id], limit)]
            codecs = _record_codecs(source, gaps, large)
    evidence = Evidence(
        *(look, before, between, request.limits, request.group_limits, retention_ms, cluster),
        *(of_topic.get(_POLICY), limit, codecs),
    )
    return evidence, gaps


@dataclass(slots=True)
class _Gaps:
    """Data that brokers do not report, so that a rule is skipped in whole or in part.

    A gap is a note if the brokers do not support the request or deny it, because every check would
    repeat it. It is a problem if the rule was selected explicitly, or a broker cannot be reached.
    """

    rules: frozenset[Rule]
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, rule: Rule, kind: ProblemKind, reason: str, broker: int | None = None) -> None:
        """Add a rule that is skipped in whole or in part, and the reason."""
        text = f"{rule} is not fully checked: {reason}"
        if rule in self.rules or kind in _OUTAGES:
            self.problems.append(Problem(kind, text, broker=broker))
        elif not self.rules:
            self.notes.append(text)


def _retention_ms(source: GroupSource, gaps: _Gaps) -> int | None:
    """Return how long brokers keep committed offsets of groups without members."""
    try:
        reading = source.broker_settings([_RETENTION])
    except BrokerError as error:
        gaps.add(Rule.EXPIRING_OFFSET, error.kind, str(error), error.broker_id)
        return None
    settings = reading.brokers.values()
    minutes = {int(values[_RETENTION]) for values in settings if _RETENTION in values}
    if minutes:
        return min(minutes) * 60_000
    if reading.problems:
        first = reading.problems[0]
        gaps.add(Rule.EXPIRING_OFFSET, first.kind, first.reason, first.broker)
    else:
        reason = f"no broker reports its {_RETENTION}"
        gaps.add(Rule.EXPIRING_OFFSET, ProblemKind.UNSUPPORTED, reason)
    return None


def _offsets_topic_settings(
    source: GroupSource, cluster: ClusterView | None, gaps: _Gaps, needed: Mapping[str, Rule]
) -> Mapping[str, str]:
    """Return settings of `__consumer_offsets`, given the rules that need them."""
    topic = cluster and cluster.topics.get(OFFSETS_TOPIC)
    if not needed:
        return {}
    if cluster is not None and (not topic or not topic.partitions):
        error = f" ({topic.error})" if topic and topic.error else ""
        reason = f"the cluster does not show {OFFSETS_TOPIC}{error}"
        for rule in needed.values():
            gaps.add(rule, ProblemKind.UNUSABLE, reason)
        return {}
    try:
        return source.topic_settings(OFFSETS_TOPIC, list(needed))
    except BrokerError as error:
        for name, rule in needed.items():
            of = "its" if rule is Rule.OFFSETS_TOPIC else f"{OFFSETS_TOPIC}:"
            gaps.add(rule, error.kind, f"{of} {name} is unknown: {error}", error.broker_id)
        return {}


def _record_codecs(source: GroupSource, gaps: _Gaps, groups: Sequence[Group]) -> Mapping[int, str]:
    """Return how brokers compress the records of these groups, which are large."""
    if not groups:
        return {}
    rule, what = Rule.LARGE_GROUP_RECORD, "whether brokers compress records of large groups"
    try:
        reading = source.broker_settings([RECORD_CODEC])
    except BrokerError as error:
        gaps.add(rule, error.kind, f"{what} is unknown: {error}", error.broker_id)
        return {}
    codecs = {broker: values.get(RECORD_CODEC, "") for broker, values in reading.brokers.items()}
    compressed = [group for group in groups if codec_of(group, codecs) not in (None, "none")]
    if compressed:
        names = first_names([group.group_id for group in compressed])
        gaps.add(
            rule,
            ProblemKind.UNSUPPORTED,
            f"the compressed size of the records of large groups is unknown: {names}",
        )
    unknown = [group for group in groups if codec_of(group, codecs) is None]
    if unknown:
        brokers = {None, *(group.coordinator.id for group in unknown if group.coordinator)}
        first = next(
            (problem for problem in reading.problems if problem.broker in brokers),
            Problem(ProblemKind.UNSUPPORTED, f"the coordinator does not report {RECORD_CODEC}"),
        )
        names = first_names([group.group_id for group in unknown])
        gaps.add(rule, first.kind, f"{what} is unknown ({names}): {first.reason}", first.broker)
    return codecs


def _is_of_zookeeper(look: Look) -> bool:
    return any(
        description.group.type is GroupType.ZOOKEEPER for description in look.groups.values()
    )
