"""What `kgroup check` found: as sheets and pages, for monitoring too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kgroup.render.cell import Column, Kind, cell, harmless
from kgroup.render.column import PARTS
from kgroup.render.sheet import Sheet, sheet_text, title_text

if TYPE_CHECKING:
    from kgroup.operation.check.check import Audit
    from kgroup.operation.check.rule import Finding
    from kgroup.operation.description import GroupDescription, OffsetDescription

__all__ = [
    "FINDING_COLUMNS",
    "PLUGIN_UNKNOWN",
    "RULE_COLUMNS",
    "finding_sheet",
    "findings_text",
    "nagios_lines",
    "nagios_status",
    "plugin_line",
    "prometheus_lines",
    "rule_sheet",
]

FINDING_COLUMNS = (
    Column("group_id", Kind.NAME, "id of the group; empty where it is about the cluster"),
    Column("severity", Kind.TEXT, "how bad it is"),
    Column("code", Kind.TEXT, "what it is, for scripts"),
    Column("reason", Kind.TEXT, "what was found"),
    Column("advice", Kind.TEXT, "what to do"),
    Column("basis", Kind.TEXT, "on which evidence it rests"),
    Column("topic", Kind.NAME, "topic concerned"),
    Column("partition", Kind.NUMBER, "its partition"),
    Column("member_id", Kind.NAME, "member concerned"),
    Column("broker", Kind.NUMBER, "id of the broker concerned"),
    Column("offset", Kind.NUMBER, "offset that is committed"),
    Column("log_start_offset", Kind.NUMBER, "where auto.offset.reset=earliest leads"),
    Column("log_end_offset", Kind.NUMBER, "where auto.offset.reset=latest leads"),
    Column("path", Kind.NAME, "node of ZooKeeper concerned"),
    Column("kafka_offset", Kind.NUMBER, "of a ZooKeeper consumer, offset committed in Kafka"),
    Column("since_ms", Kind.TIME, "since when, as far as the source tells"),
    Column("evidence_from_ms", Kind.TIME, "first time of what it rests on; empty of one look"),
    Column("evidence_to_ms", Kind.TIME, "last time of that; likewise"),
    Column(
        "commands", Kind.TEXT, "what to run next", value=lambda finding: "; ".join(finding.commands)
    ),
)
finding_sheet = partial(Sheet.of, FINDING_COLUMNS)  # one row a finding
_SHOWN = ("severity", "code", "reason")

RULE_COLUMNS = (
    Column("code", Kind.TEXT, "what it is called"),
    Column("severity", Kind.TEXT, "how bad it is"),
    Column("sentence", Kind.TEXT, "what it means"),
    Column("advice", Kind.TEXT, "what to do"),
    Column("commands", Kind.TEXT, "what to run next", value=lambda rule: "; ".join(rule.commands)),
)
rule_sheet = partial(Sheet.of, RULE_COLUMNS)  # one row a rule
_ADVICE_COLUMNS = (
    Column("code", Kind.TEXT, "what it is"),
    Column("meaning", Kind.TEXT, "what it means"),
    Column("advice", Kind.TEXT, "what to do"),
)

_STATUS: Mapping[str, int] = {"error": 2, "warning": 1, "info": 0}
"""By severity, the status that Nagios and Icinga expect of a plugin."""
_STATUS_NAMES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
PLUGIN_UNKNOWN = 3
"""The status of a plugin that could not find out, for Nagios and Icinga."""


def findings_text(
    findings: Sequence[Finding], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write findings as a page: those of each group, then what to do about each kind of them."""
    for at, (group_id, own) in enumerate(groupby(findings, key=lambda each: each.group_id)):
        yield "\n" if at else ""
        of_group = list(own)
        title = "Cluster" if group_id is None else f"Group {cell(group_id, Kind.NAME)}"
        yield from title_text(title, form, level=2, terminal=terminal)
        shown = finding_sheet(of_group).select(_SHOWN)
        yield from sheet_text(shown, form, headers=headers, terminal=terminal)
        commands = dict.fromkeys(command for each in of_group for command in each.commands)
        if commands:
            yield "\n"
            parts = Sheet(PARTS, [("run", each) for each in commands])
            yield from sheet_text(parts, form, headers=form != "table", terminal=terminal)
    if findings:
        yield "\n"
        yield from title_text("What to do", form, level=2, terminal=terminal)
        kinds = {(each.code, each.advice): each for each in findings}
        rows = [(code, code.sentence, advice) for code, advice in kinds]
        advice = Sheet(_ADVICE_COLUMNS, rows)
        yield from sheet_text(advice, form, headers=headers, terminal=terminal)


def nagios_status(audit: Audit) -> int:
    """Give the exit status of a plugin: 0 to 2 by the worst finding, 3 where it is not known."""
    worst = max((_STATUS[each.severity] for each in audit.report.data), default=0)
    return worst or (PLUGIN_UNKNOWN if audit.report.errors else 0)


def nagios_lines(audit: Audit) -> Iterator[str]:
    """Write a check as a plugin of Nagios or Icinga does: a line with the status, then findings."""
    findings = audit.report.data
    counts: Counter[str] = Counter(each.severity for each in findings)
    said = ", ".join(f"{counts[each]} {each}" for each in _STATUS if counts[each])
    if audit.report.errors:
        said = f"{said}{', ' if said else ''}{len(audit.report.errors)} could not be read"
    data = " ".join(f"{each}={counts[each]}" for each in _STATUS)
    lags = [_total(group.offsets, _lag) for group in audit.groups]
    if lags and (lag := _sum(lags)) is not None:
        data += f" lag={lag:.0f}"
    name = _STATUS_NAMES[nagios_status(audit)]
    count = len(audit.groups)
    yield f"KGROUP {name} - {said or 'nothing found'}; {count} groups checked | {data}\n"
    for each in findings:
        where = "cluster" if each.group_id is None else each.group_id
        yield plugin_line(f"{each.severity}: {where}: {each.code}: {each.reason}")


def plugin_line(text: str) -> str:
    """Write one line of what a plugin says, in which no bar begins figures."""
    return harmless(text).replace("|", "/") + "\n"


def prometheus_lines(audit: Audit) -> Iterator[str]:
    """Write a check in Prometheus' text format, for node-exporter's textfile collector.

    A value that is not known has no line, nor has a sum of which a part is not known.
    """
    counts = Counter(
        (each.group_id or "", str(each.code), str(each.severity)) for each in audit.report.data
    )
    yield from _metric(
        "check_findings",
        "Findings of kgroup check.",
        (
            ({"group": group_id, "code": code, "severity": severity}, count)
            for (group_id, code, severity), count in sorted(counts.items())
        ),
    )
    yield from _metric("check_groups", "Groups that were checked.", [({}, len(audit.groups))])
    yield from _metric("check_errors", "What could not be read.", [({}, len(audit.report.errors))])
    time_s = audit.time_ms / 1000
    yield from _metric("check_timestamp_seconds", "When it was checked.", [({}, time_s)])
    for name, help_text, samples in (
        ("group_state", "1 for the state that the group is in.", _states),
        ("group_members", "Members of the group.", _members),
        ("group_lag_records", "Offsets from the commits of the group to the log ends.", _lags),
        ("topic_lag_records", "Likewise, of a topic.", _topic_lags),
        ("partition_lag_records", "Likewise, of a partition.", _partition_lags),
        ("group_time_lag_seconds", "Age of the oldest record that waits for the group.", _times),
        ("topic_time_lag_seconds", "Likewise, of a topic.", _topic_times),
        ("partition_time_lag_seconds", "Likewise, of a partition.", _partition_times),
        ("group_commit_age_seconds", "Age of the last commit of the group.", _ages),
        ("partition_commit_age_seconds", "Likewise, of a partition.", _partition_ages),
    ):
        found = (
            ({"group": group.group_id, **labels}, value)
            for group in audit.groups
            for labels, value in samples(group, audit.time_ms)
        )
        yield from _metric(name, help_text, found)


_Samples = Iterable[tuple[dict[str, str], float | None]]


def _metric(name: str, help_text: str, samples: _Samples) -> Iterator[str]:
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known and not name.startswith("check_"):
        return
    yield f"# HELP kgroup_{name} {help_text}\n# TYPE kgroup_{name} gauge\n"
    for labels, value in known:
        pairs = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
        shown = f"{value:.3f}" if isinstance(value, float) else str(value)
        yield f"kgroup_{name}{f'{{{pairs}}}' if pairs else ''} {shown}\n"


def _states(group: GroupDescription, _: int) -> _Samples:
    if group.state is not None:
        yield {"type": str(group.type), "state": str(group.state)}, 1


def _members(group: GroupDescription, _: int) -> _Samples:
    if group.state is not None:  # else only what it has committed is known
        yield {}, len(group.members)


def _lags(group: GroupDescription, _: int) -> _Samples:
    yield {}, _total(group.offsets, _lag)


def _topic_lags(group: GroupDescription, _: int) -> _Samples:
    for topic, offsets in _by_topic(group):
        yield {"topic": topic}, _total(offsets, _lag)


def _partition_lags(group: GroupDescription, _: int) -> _Samples:
    for topic, offsets in _by_topic(group):
        for each in offsets:
            yield {"topic": topic, "partition": str(each.partition)}, _lag(each)


def _times(group: GroupDescription, _: int) -> _Samples:
    yield {}, _longest(group.offsets)


def _topic_times(group: GroupDescription, _: int) -> _Samples:
    for topic, offsets in _by_topic(group):
        yield {"topic": topic}, _longest(offsets)


def _partition_times(group: GroupDescription, _: int) -> _Samples:
    for topic, offsets in _by_topic(group):
        for each in offsets:
            yield {"topic": topic, "partition": str(each.partition)}, _seconds(each.time_lag_ms)


def _ages(group: GroupDescription, now_ms: int) -> _Samples:
    times = [each.commit_timestamp_ms for each in group.offsets if each.commit_timestamp_ms]
    if times:
        yield {}, _seconds(now_ms - max(times))


def _partition_ages(group: GroupDescription, now_ms: int) -> _Samples:
    for topic, offsets in _by_topic(group):
        for each in offsets:
            then_ms = each.commit_timestamp_ms
            age_ms = None if then_ms is None else now_ms - then_ms
            yield {"topic": topic, "partition": str(each.partition)}, _seconds(age_ms)


def _by_topic(group: GroupDescription) -> Iterator[tuple[str, list[OffsetDescription]]]:
    named = [each for each in group.offsets if each.topic is not None]
    for topic, offsets in groupby(named, key=lambda each: each.topic or ""):
        yield topic, list(offsets)


def _lag(offset: OffsetDescription) -> int | None:
    return None if offset.lag is None else max(offset.lag, 0)


def _total(
    offsets: Sequence[OffsetDescription], of: Callable[[OffsetDescription], int | None]
) -> int | None:
    """Add up what is committed; None where nothing is, or a part is not known."""
    return _sum([of(each) for each in offsets if each.committed_offset is not None])


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _longest(offsets: Sequence[OffsetDescription]) -> float | None:
    times = [each.time_lag_ms for each in offsets if each.committed_offset is not None]
    known = [value for value in times if value is not None]
    return _seconds(max(known)) if known and len(known) == len(times) else None


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
