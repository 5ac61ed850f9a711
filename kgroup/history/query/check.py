"""Findings of `kgroup check` from the history of groups: records of a log, or of a warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby, pairwise
from typing import Any

from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.history.query.commit_summary import (
    CommitSummary,
    Jump,
    commit_summaries,
    eventful_groups,
)
from kgroup.history.query.lag import Lag, lags
from kgroup.history.rebalance.cause import Recreation
from kgroup.history.rebalance.query import (
    Storm,
    missing_generations,
    missing_notes,
    rebalances,
    recreations,
    storms_of,
)
from kgroup.history.rebalance.rebalance import CauseKind, Participant, Rebalance
from kgroup.history.rebalance.repetition import Repetition, repetitions_of
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.question import (
    GROUP_TABLES,
    MEMBER_TABLES,
    RecordedTime,
    first_times,
    recorded_time,
    rows_of,
)
from kgroup.model.clients import Clients
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import GroupType
from kgroup.model.instant import shown_time
from kgroup.model.problem import Problem
from kgroup.operation.check.look import (
    Evidence,
    Past,
    exact_length,
    finding_of,
    length,
    length_rounded_up,
)
from kgroup.operation.check.membership import fenced_process
from kgroup.operation.check.rule import Basis, EvidenceRecord, Finding, Rule, Severity
from kgroup.operation.describe import GroupDescription, OffsetDescription
from kgroup.operation.report import first_names

_MOST_RECORDS = 10
"""Maximum number of records of evidence."""
_RULES: Mapping[CauseKind, Rule] = {
    CauseKind.INSTANCE_ID_USED_TWICE: Rule.SHARED_INSTANCE_ID,
    CauseKind.POLLED_LATE: Rule.LATE_POLL,
    CauseKind.RESTARTED: Rule.RESTARTING_MEMBER,
    CauseKind.EXPIRED: Rule.EXPIRING_SESSION,
    CauseKind.METADATA_CHANGED: Rule.CHANGING_METADATA,
    CauseKind.SUBSCRIPTION_CHANGED: Rule.CHANGING_SUBSCRIPTION,
}
"""Rule of a kind of cause, if a member causes it again and again; others are no finding."""
_WHAT: Mapping[Rule, str] = {
    Rule.SHARED_INSTANCE_ID: "{who} took its instance id from another process {count} times",
    Rule.LATE_POLL: "{who} polled too late {count} times",
    Rule.RESTARTING_MEMBER: "{who} came back as a new member {count} times",
    Rule.EXPIRING_SESSION: "The session of {who} expired {count} times",
    Rule.CHANGING_METADATA: "{who} changed its metadata {count} times",
    Rule.CHANGING_SUBSCRIPTION: "{who} changed its subscription {count} times",
}
_TIMEOUTS: Mapping[Rule, str] = {
    Rule.LATE_POLL: "max.poll.interval.ms",
    Rule.EXPIRING_SESSION: "session timeout",
}
_STALE_MS = 60_000
"""Maximum time in which a consumer commits its position of a topic that was recreated since."""
_STORM_MS = 600_000
"""Time in which `rebalances` rebalances are a storm; the default of `kgroup history storms`."""


def look_back(
    engine: Engine,
    evidence: Evidence,
    *,
    cluster: str | None = None,
    basis: Basis = Basis.WAREHOUSE,
) -> Past:
    """Return findings about the past of the groups in `evidence`.

    Args:
        engine: query engine of a warehouse.
        evidence: the groups, the thresholds and the cluster that were checked.
        cluster: cluster in the warehouse; None for the checked cluster, or the only one.
        basis: where the records of the warehouse come from: `LOG` for a temporary warehouse with
            the recent records of one group.

    Returns:
        Findings in no particular order, each with the part of the requested time that has records.

    Raises:
        InputError: the warehouse has no commits.
        UsageError: the warehouse has several clusters, none of which is the checked one.
    """
    name = cluster or cluster_checked(engine, evidence)
    if name is None and basis is Basis.WAREHOUSE:
        raise InputError("the warehouse has no commits yet; fill it with kgroup history build")
    known = RecordedTime(None, None) if name is None else recorded_time(engine, name)
    if name is None or known.first_ms is None or known.last_ms is None:
        note = f"No record of cluster {name} has a time; the past was not checked."
        if basis is Basis.LOG:
            only = first_names([*evidence.now.groups])
            note = f"The log has no record of {only} with a time: the past is unknown."
        return Past((), notes=(note,))
    now_ms = evidence.now.time_ms
    if not evidence.now.is_clock:  # it is the latest time of the groups' current state
        now_ms = max(now_ms, known.last_ms)
    since_ms, until_ms = now_ms - evidence.limits.past_ms, now_ms + 1
    span = max(since_ms, known.first_ms), min(now_ms, known.last_ms)
    if span[0] > span[1]:
        times = f"from {shown_time(known.first_ms)} to {shown_time(known.last_ms)}"
        text = f"Records of cluster {name} are known {times}; none is within the period to check"
        return Past((), notes=(f"{text} (--limit past).",))
    past = _Past(engine, evidence, name, since_ms, until_ms)
    findings = [
        replace(
            finding,
            basis=basis,
            evidence_from_ms=finding.evidence_from_ms or span[0],
            evidence_to_ms=finding.evidence_to_ms or span[1],
        )
        for finding in (*past.rebalances(), *past.shared_instance_ids(), *past.commits())
    ]
    times = f"from {shown_time(span[0])} to {shown_time(span[1])}"
    if basis is Basis.WAREHOUSE:
        notes = [f"Checked the past of cluster {name} {times}."]
    else:
        groups = [*evidence.now.groups]
        whose = f" of {groups[0]}" if len(groups) == 1 else ""
        is_short = known.first_ms > since_ms
        notes = [f"The past{whose} was checked {times}: no older record was read."] * is_short
        notes += past.notes
    emptied_ms = past.emptied_ms if basis is Basis.LOG else {}  # a warehouse may be old
    return Past(tuple(findings), notes=tuple(notes), emptied_ms=emptied_ms)


def look_back_on_groups(
    ask: Callable[[Callable[[Engine], Past], str], Past],
    evidence: Evidence,
    *,
    stored: Engine | None = None,
    cluster: str | None = None,
) -> Past:
    """Return findings about the past of the groups in `evidence`, each in its own records.

    Args:
        ask: calls `look_back` with an engine for the recent records of a group.
        evidence: see `look_back`.
        stored: query engine of a warehouse, which these records continue; it is asked alone if they
            cannot be read.
        cluster: see `look_back`.

    Returns:
        See `look_back`; a group whose log cannot be read is a note, and if a file of the warehouse
        cannot, an error.
    """
    basis = Basis.LOG if stored is None else Basis.WAREHOUSE
    pasts = []
    for group_id, description in evidence.now.groups.items():
        if description.group.type is GroupType.ZOOKEEPER:
            continue
        own = replace(evidence, now=replace(evidence.now, groups={group_id: description}))
        try:
            question = partial(look_back, evidence=own, cluster=cluster, basis=basis)
            pasts.append(ask(question, group_id))
        except KgroupError as error:
            if stored is not None:
                pasts.append(look_back(stored, own, cluster=cluster))
                if isinstance(error, InputError):  # such as a damaged file of the warehouse
                    reason = f"The past was not fully checked: {error}"
                    problem = Problem(error.kind, reason, group_id=group_id, path=error.path)
                    pasts.append(Past((), errors=(problem,)))
                    continue
            note = f"The log of {group_id} was not checked: {error}"
            pasts.append(Past((), notes=(note,)))
    return Past.joined(pasts)


def cluster_checked(engine: Engine, evidence: Evidence) -> str | None:
    """Return the cluster of a warehouse that was checked, or its only one; None if it has none.

    Raises:
        UsageError: the warehouse has several clusters, none of which is the checked one.
    """
    sql = " UNION ".join(f"SELECT cluster FROM {table}" for table in GROUP_TABLES)
    names: list[str] = sorted(row["cluster"] for row in rows_of(engine, sql))
    if evidence.cluster is not None and evidence.cluster.cluster_id in names:
        return evidence.cluster.cluster_id
    if len(names) > 1:
        there = ", ".join(names)
        raise UsageError(f"the warehouse has several clusters: {there}; choose one with --cluster")
    return names[0] if names else None


@dataclass(frozen=True)
class _Past:
    """The records of a warehouse about the groups in `evidence`, in a period of time."""

    engine: Engine
    evidence: Evidence
    cluster: str
    since_ms: int
    until_ms: int
    causes: dict[str, Sequence[Repetition]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    emptied_ms: dict[str, int] = field(default_factory=dict)

    @property
    def _when(self) -> dict[str, Any]:
        return {"since_ms": self.since_ms, "until_ms": self.until_ms, "cluster": self.cluster}

    def _rebalanced(self) -> list[str]:
        """Return the checked groups that rebalanced in the period."""
        sql = " UNION ".join(
            f"SELECT group_id FROM {table} WHERE cluster = ? AND time_ms >= ? AND time_ms < ?"
            for table in MEMBER_TABLES
        )
        rows = rows_of(self.engine, sql, self._asked * len(MEMBER_TABLES))
        found = {row["group_id"] for row in rows}
        return sorted(found & self.evidence.now.groups.keys())

    @property
    def _asked(self) -> list[Parameter]:
        return [self.cluster, self.since_ms, self.until_ms]

    def rebalances(self) -> Iterator[Finding]:
        """Find groups that rebalance too often, for a while or continually."""
        groups = self._rebalanced()
        if not groups:
            return
        only = groups[0] if len(groups) == 1 else None
        found = rebalances(self.engine, only, **self._when).data
        for group_id, of_group in groupby(found, key=lambda rebalance: rebalance.group_id):
            every = [rebalance for rebalance in of_group if rebalance.time_ms is not None]
            if group_id not in groups or not every:
                continue
            last = max(every, key=lambda rebalance: rebalance.time_ms or 0)
            if not last.members:
                self.emptied_ms[group_id] = last.time_ms or 0
            most = int(self.evidence.limits.rebalances)
            causes = repetitions_of(every, count=most, within_ms=_STORM_MS)
            self.causes[group_id] = causes
            self.notes.extend(missing_notes({group_id: missing_generations(every)}))
            now = self.evidence.now.groups[group_id]
            yield from (_cause(cause, every, now) for cause in causes)
            storms = [
                storm
                for storm in storms_of(every, most, _STORM_MS)
                if _is_more_than_restarts(storm, every, max(2, most - 1))
            ]
            if storms:
                yield _storm(storms, every, causes)
            else:
                yield from self._churn(every, causes)

    def shared_instance_ids(self) -> Iterator[Finding]:
        """Find static members that are replaced repeatedly within one generation.

        When a member takes over an instance id, the coordinator writes the group with its new
        member id.
        """
        sql = (
            "SELECT group_id, generation_id, instance_id, member_id, MIN(time_ms) AS time_ms, "
            "MIN(log_offset) AS log_offset, MIN(offsets_partition) AS offsets_partition, "
            "MAX(client_host) AS client_host FROM members WHERE cluster = ? AND time_ms >= ? AND "
            "time_ms < ? AND instance_id IS NOT NULL AND group_type = 'classic' "
            "GROUP BY group_id, generation_id, instance_id, member_id "
            "ORDER BY group_id, instance_id, generation_id, 5, member_id"
        )
        most = int(self.evidence.limits.rebalances)
        rows = rows_of(self.engine, sql, self._asked)
        for (group_id, instance_id), of_instance in groupby(
            rows, key=lambda row: (row["group_id"], row["instance_id"])
        ):
            if group_id not in self.evidence.now.groups or any(
                cause.kind is CauseKind.INSTANCE_ID_USED_TWICE
                for cause in self.causes.get(group_id, ())
            ):
                continue
            storms = [
                (first, last, generation_id, seen)
                for generation_id, each in groupby(of_instance, key=lambda r: r["generation_id"])
                for seen in [list(each)]
                for first, last in zip(seen, seen[most:], strict=False)
                if last["time_ms"] - first["time_ms"] <= _STORM_MS
            ]
            if not storms:
                continue
            _, _, generation_id, seen = storms[-1]
            first, last = seen[0], seen[-1]
            lasted = length_rounded_up(last["time_ms"] - first["time_ms"])
            hosts = dict.fromkeys((row["client_host"] or "").removeprefix("/") for row in seen)
            yield finding_of(
                Rule.SHARED_INSTANCE_ID,
                f"{instance_id} was replaced {len(seen) - 1} times within "
                f"{lasted} in generation {generation_id}, "
                f"since {shown_time(first['time_ms'])}, on {first_names([*hosts])}."
                f"{fenced_process(self.evidence.now.groups[group_id].group, instance_id)}",
                group_id,
                member_id=last["member_id"],
                since_ms=first["time_ms"],
                **_evidence_of(
                    EvidenceRecord(
                        row["offsets_partition"],
                        row["log_offset"],
                        row["time_ms"],
                        f"{instance_id} is {row['member_id']} in generation {generation_id}",
                    )
                    for row in seen
                ),
            )

    def _churn(self, every: Sequence[Rebalance], causes: Sequence[Repetition]) -> Iterator[Finding]:
        """Count generations by number, as compaction may have removed most records."""
        numbers = [rebalance.generation_id for rebalance in every]
        count = 1 + sum(max(1, after - before) for before, after in pairwise(numbers))
        if count > self.evidence.limits.generations:
            still = sum(rebalance.moved_count == 0 for rebalance in every)
            yield finding_of(
                Rule.GENERATION_CHURN,
                f"{count} rebalances within {length(self.evidence.limits.past_ms)}, up to "
                f"generation {numbers[-1]}; {len(every)} are recorded, and {still} of these moved "
                "nothing.",
                every[0].group_id,
                since_ms=every[0].time_ms,
                caused_by=_explaining(every, causes),
                **_evidence_of(map(_record, every)),
            )

    def commits(self) -> Iterator[Finding]:
        """Find backward commits, pauses while records were waiting, and stuck partitions."""
        pause_ms = self.evidence.limits.old_commit_ms
        paused = set(eventful_groups(self.engine, pause_ms=pause_ms, **self._when))
        behind = self._behind()
        for group_id in sorted(self.evidence.now.groups.keys() & (paused | behind.keys())):
            summaries: Sequence[CommitSummary] = ()
            if group_id in paused:
                asked = {"pause_ms": pause_ms, **self._when}
                summaries = commit_summaries(self.engine, group_id, **asked).data
            recreated = self._recreated(group_id) if any(each.jumps for each in summaries) else {}
            for summary in summaries:
                place = summary.topic, summary.offsets_partition
                yield from _jump(summary, recreated.get(place, ()))
            if self._has_ends and (
                group_id in behind or any(summary.pauses for summary in summaries)
            ):
                by_place = self._lags(group_id)
                for summary in summaries:
                    yield from _pause(summary, by_place, self.causes.get(group_id, ()))
                for at, offset in behind.get(group_id, {}).items():
                    yield from self._stuck(group_id, offset, by_place.get(at, ()))

    def _behind(self) -> Mapping[str, Mapping[TopicPartition, OffsetDescription]]:
        """Return the partitions with an owner and waiting records, of groups in the warehouse."""
        descriptions = {
            group_id: {
                (offset.topic, offset.partition): offset
                for offset in group.offsets
                if offset.topic is not None and offset.member_id is not None and offset.waiting
            }
            for group_id, group in self.evidence.now.groups.items()
        }
        descriptions = {group_id: offsets for group_id, offsets in descriptions.items() if offsets}
        if not descriptions or not self._has_ends:
            return {}
        known = first_times(self.engine, self.cluster, descriptions, ["offset_commits"])
        return {
            group_id: offsets for group_id, offsets in descriptions.items() if group_id in known
        }

    def _recreated(self, group_id: str) -> Mapping[tuple[str, int], Sequence[Recreation]]:
        """Return recreated topics by name and partition of `__consumer_offsets`."""
        condition = "cluster = ? AND group_id = ?"
        found: dict[tuple[str, int], list[Recreation]] = {}
        for key, of_group in recreations(self.engine, condition, [self.cluster, group_id]).items():
            for each in of_group:
                found.setdefault((each.topic, key[2]), []).append(each)
        return found

    @cached_property
    def _has_ends(self) -> bool:
        sql = "SELECT COUNT(*) AS ends FROM log_ends WHERE cluster = ? AND time_ms >= ? AND "
        (row,) = rows_of(self.engine, f"{sql}time_ms < ?", self._asked)
        return bool(row["ends"])

    def _lags(self, group_id: str) -> Mapping[TopicPartition, Sequence[Lag]]:
        found: dict[TopicPartition, list[Lag]] = {}
        for lag in lags(self.engine, group_id, **self._when).data:
            found.setdefault((lag.topic, lag.partition), []).append(lag)
        return found

    def _stuck(
        self, group_id: str, offset: OffsetDescription, before: Sequence[Lag]
    ) -> Iterator[Finding]:
        """Check whether the commit has not moved since a log end was recorded, but the log has."""
        first = None
        for lag in reversed(before):
            if lag.committed_offset != offset.committed_offset or not lag.waiting:
                break
            first = lag
        now_ms, end = self.evidence.now.time_ms, offset.log_end_offset
        if first is None or not offset.waiting or end is None or end <= (first.log_end_offset or 0):
            return
        clients = Clients(self.evidence.now.groups[group_id].group)
        if now_ms - first.time_ms >= self.evidence.limits.stuck_ms:
            yield finding_of(
                Rule.STUCK_PARTITION,
                f"{offset.topic}-{offset.partition}: the committed offset has been "
                f"{offset.committed_offset} for {length(now_ms - first.time_ms)}, and the lag "
                f"grew from {first.lag} to {offset.lag}; its owner is "
                f"{clients.label(offset.member_id)}.",
                group_id,
                topic=offset.topic,
                partition=offset.partition,
                member_id=offset.member_id,
                offset=offset.committed_offset,
                log_end_offset=end,
                since_ms=first.time_ms,
                evidence_from_ms=first.time_ms,
                evidence_to_ms=now_ms,
            )


def _is_more_than_restarts(storm: Storm, every: Sequence[Rebalance], normal: int) -> bool:
    """Return whether the storm is more than a deployment that is rolled back, which is normal.

    In a rolling restart each member causes at most two rebalances: when it leaves and when it
    rejoins. A rebalance without a known cause counts twice.

    Args:
        storm: the storm.
        every: rebalances of the group.
        normal: number of causes of one member that are normal: by default 4.
    """
    within = [
        rebalance for rebalance in every if storm.from_ms <= (rebalance.time_ms or 0) <= storm.to_ms
    ]
    there = [rebalance.members for rebalance in within]
    causes = sum(each.cause_count for each in storm.started_by)
    known = [rebalance for rebalance in within if rebalance.members_before is not None]
    causes += 2 * sum(rebalance.cause is CauseKind.UNKNOWN for rebalance in known)
    if causes > normal * max(map(len, there)):
        return True
    for starter in storm.started_by:
        who = starter.instance_id, starter.client_id, starter.client_host
        alike = (
            [(m.instance_id, m.client_id, m.client_host) for m in participants]
            for participants in there
        )
        if starter.cause_count > normal * max(1, *(each.count(who) for each in alike)):
            return True
    return False


def _cause(cause: Repetition, every: Sequence[Rebalance], now: GroupDescription) -> Finding:
    """Return the finding for a cause that repeats, with the member that causes it most often."""
    rule, last = _RULES[cause.kind], cause.occurrences[-1].cause
    first_ms, last_ms = cause.occurrences[0].time_ms, cause.occurrences[-1].time_ms
    main = cause.starters[0]
    timeout_ms = last.timeout_ms if rule in _TIMEOUTS else None
    text = _WHAT[rule].format(who=_who(main), count=cause.count)
    text += f" within {length_rounded_up(last_ms - first_ms)}, since {shown_time(first_ms)}"
    if timeout_ms:
        text += f" ({_TIMEOUTS[rule]}: {exact_length(timeout_ms)})"
    if others := cause.starters[1:]:
        text += f"; so did {first_names(others, _who)}, {cause.event_count - cause.count} times"
    they = "they" if others else "it"
    text += f"; {they} started {len(cause.explained)} of {len(every)} rebalances."
    lags_now = [each.lag for each in now.offsets if each.member_id == main.member_id]
    if (lag := sum(filter(None, lags_now))) and not others:
        least = "at least " if None in lags_now else ""
        text += f" Its partitions have a lag of {least}{lag} now."
    return finding_of(
        rule,
        text,
        every[0].group_id,
        member_id=main.member_id,
        client_id=main.client_id,
        client_host=main.client_host,
        timeout_ms=timeout_ms,
        event_count=cause.event_count,
        since_ms=first_ms,
        evidence_from_ms=first_ms,
        evidence_to_ms=last_ms,
        **_evidence_of(_record(each.rebalance, each.cause.evidence) for each in cause.occurrences),
    )


def _who(member: Participant) -> str:
    name = member.instance_id or member.client_id or member.member_id
    host = (member.client_host or "").removeprefix("/")
    return f"{name} at {host}" if host else name


def _record(rebalance: Rebalance, shows: str | None = None) -> EvidenceRecord:
    place = rebalance.offsets_partition, rebalance.log_offset, rebalance.time_ms
    return EvidenceRecord(*place, shows or rebalance.evidence)


def _evidence_of(records: Iterable[EvidenceRecord]) -> dict[str, Any]:
    """Return the fields of a finding for records in log order."""
    found = list(records)
    return {"evidence": tuple(found[-_MOST_RECORDS:]), "evidence_count": len(found)}


def _explaining(every: Sequence[Rebalance], causes: Sequence[Repetition]) -> Rule | None:
    """Return the rule of the cause that explains at least half of some rebalances."""
    offsets = {rebalance.log_offset for rebalance in every}
    for cause in causes:
        if len(offsets & cause.explained) * 2 >= len(offsets) > 0:
            return _RULES[cause.kind]
    return None


def _storm(
    storms: Sequence[Storm], every: Sequence[Rebalance], causes: Sequence[Repetition]
) -> Finding:
    """Return the finding for the largest storm, with the number of storms."""
    storm = max(storms, key=lambda each: each.rebalance_count)
    lasted = length_rounded_up(storm.to_ms - storm.from_ms)
    text = f"{storm.rebalance_count} rebalances within {lasted}, since {shown_time(storm.from_ms)}"
    if storm.started_by:
        first = storm.started_by[0]
        name = first.instance_id or first.client_id or first.client_host
        text += f"; {name} was among the causes of {first.cause_count} of them"
    if len(storms) > 1:
        text += f"; there were {len(storms)} such storms"
    within = [each for each in every if storm.from_ms <= (each.time_ms or 0) <= storm.to_ms]
    return finding_of(
        Rule.REBALANCE_STORM,
        f"{text}.",
        storm.group_id,
        since_ms=storm.from_ms,
        caused_by=_explaining(within, causes),
        **_evidence_of(map(_record, within)),
    )


def _jump(summary: CommitSummary, recreated: Sequence[Recreation]) -> Iterator[Finding]:
    """Yield a finding for the last backward commit, unless the offset had been deleted before.

    A running consumer may commit its old position to a topic that was created again, before it
    starts at the offsets of that topic. It does not read records again.
    """
    jumps = [jump for jump in summary.jumps if not jump.was_deleted]
    if not jumps:
        return
    # the first commit after a recreation; a later one goes back from an offset of the new topic
    following = [next((j for j in jumps if _follows(j, topic)), None) for topic in recreated]
    odd = [jump for jump in jumps if jump not in following]
    jumps = odd or jumps
    last = jumps[-1]
    when = "" if last.time_ms is None else f" at {shown_time(last.time_ms)}"
    who = last.member_id or "a client that did not own the partition"
    more = f"; it was the last of {len(jumps)} backward commits" if len(jumps) > 1 else ""
    if not odd:
        more += "; the topic was deleted and created again"
    yield finding_of(
        Rule.BACKWARD_COMMIT,
        f"{summary.topic}-{summary.partition}: {who} committed {last.to_offset}{when}, after "
        f"{last.from_offset}{more}.",
        summary.group_id,
        # whoever resets a group's offsets does not own its partitions
        severity=None if last.member_id and odd else Severity.INFO,
        topic=summary.topic,
        partition=summary.partition,
        member_id=last.member_id,
        offset=last.to_offset,
        since_ms=last.time_ms,
        **_evidence_of(
            EvidenceRecord(
                jump.offsets_partition,
                jump.log_offset,
                jump.time_ms,
                f"{summary.topic}-{summary.partition}: {jump.to_offset} was committed after "
                f"{jump.from_offset}",
            )
            for jump in jumps
        ),
    )


def _follows(jump: Jump, recreation: Recreation) -> bool:
    """Return whether a backward commit follows from it that the topic was created again."""
    if jump.log_offset <= recreation.last_offset:
        return False
    since_ms, from_ms = recreation.since_ms, jump.from_ms
    return since_ms is not None and from_ms is not None and from_ms <= since_ms + _STALE_MS


def _pause(
    summary: CommitSummary,
    by_place: Mapping[TopicPartition, Sequence[Lag]],
    causes: Sequence[Repetition],
) -> Iterator[Finding]:
    """Yield a finding for the longest pause in which the log end was ahead of the commit."""
    waiting = []
    for pause in summary.pauses:
        there = by_place.get((pause.topic, pause.partition), ())
        most = max(
            (lag.waiting or 0 for lag in there if pause.since_ms <= lag.time_ms < pause.until_ms),
            default=0,
        )
        if most > 0:
            waiting.append((pause.pause_ms, most, pause))
    if not waiting:
        return
    _, most, pause = max(waiting, key=lambda each: each[0])
    owner = pause.member_id or "nobody that is known"
    yield finding_of(
        Rule.COMMIT_PAUSE,
        f"{summary.topic}-{summary.partition}: nothing was committed for "
        f"{length(pause.pause_ms)}, since {shown_time(pause.since_ms)}, while up to {most} "
        f"record{'' if most == 1 else 's'} waited; its owner was {owner}.",
        summary.group_id,
        topic=summary.topic,
        partition=summary.partition,
        member_id=pause.member_id,
        since_ms=pause.since_ms,
        caused_by=next(
            (
                _RULES[cause.kind]
                for cause in causes
                if any(pause.since_ms <= at.time_ms <= pause.until_ms for at in cause.occurrences)
            ),
            None,
        ),
    )
