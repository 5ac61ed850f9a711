"""The result of `kgroup check` as sheets and pages, and for monitoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, TypeVar

from kgroup.operation.check.rule import Severity
from kgroup.operation.describe import OffsetDescription, ShareOffsetDescription
from kgroup.operation.report import first_names
from kgroup.render.cell import Column, Kind, cell, columns_of, harmless, problem_line
from kgroup.render.prometheus import metric
from kgroup.render.sheet import Either, Part, Sheet, facts, section, summary

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.check.check import Audit
    from kgroup.operation.check.rule import Consequence, Finding
    from kgroup.operation.describe import GroupDescription

    _Found = TypeVar("_Found", Finding, Consequence)

_COMMANDS = Column("commands", Kind.TEXT, value=lambda item: "; ".join(item.commands))
FINDING_COLUMNS = columns_of(
    "kgroup.operation.check.rule.Finding",
    Column("group_id", Kind.NAME),
    Column("severity", Kind.TEXT),
    Column("code", Kind.TEXT, may_go_below=True),
    Column("reason", Kind.TEXT, may_go_below=True),
    Column("advice", Kind.TEXT),
    Column("basis", Kind.TEXT),
    Column("topic", Kind.NAME),
    Column("partition", Kind.NUMBER),
    Column("member_id", Kind.NAME),
    Column("member_ids", Kind.TEXT, value=lambda item: "; ".join(item.member_ids)),
    Column("client_id", Kind.NAME),
    Column("client_host", Kind.NAME),
    Column("timeout_ms", Kind.DURATION),
    Column("event_count", Kind.NUMBER),
    Column("broker", Kind.NUMBER),
    Column("offset", Kind.NUMBER),
    Column("log_start_offset", Kind.NUMBER),
    Column("log_end_offset", Kind.NUMBER),
    Column("path", Kind.NAME),
    Column("kafka_offset", Kind.NUMBER),
    Column("record_bytes", Kind.NUMBER),
    Column("record_limit_bytes", Kind.NUMBER),
    Column("since_ms", Kind.TIME),
    Column("evidence_from_ms", Kind.TIME),
    Column("evidence_to_ms", Kind.TIME),
    Column("evidence_count", Kind.NUMBER),
    Column("caused_by", Kind.TEXT),
    _COMMANDS,
)
RULE_COLUMNS = columns_of(
    "kgroup.operation.check.rule.RuleDescription",
    Column("code", Kind.TEXT),
    Column("severity", Kind.TEXT),
    Column("sentence", Kind.TEXT),
    Column("advice", Kind.TEXT),
    _COMMANDS,
)
_ADVICE_COLUMNS = (
    Column("code", Kind.TEXT),
    Column("meaning", Kind.TEXT, may_go_below=True),
    Column("advice", Kind.TEXT, may_go_below=True),
)

_STATUS: Mapping[str, int] = {"error": 2, "warning": 1, "info": 0}
"""Status that Nagios and Icinga expect from a plugin, by severity."""
_STATUS_NAMES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
PLUGIN_UNKNOWN = 3
"""Status of a plugin without a result, for Nagios and Icinga."""


_PAGE_COLUMNS = (
    FINDING_COLUMNS[1],
    Column("group_id", Kind.NAME, "", lambda item: _subject(item)),
    *FINDING_COLUMNS[2:4],
    Column("evidence", Kind.TEXT, "", lambda item: _evidence(item), may_go_below=True),
)


_RECORD_COLUMNS = (
    Column("group_id", Kind.NAME),
    Column("code", Kind.TEXT),
    Column("time", Kind.TIME),
    Column("offsets_partition", Kind.NUMBER),
    Column("log_offset", Kind.NUMBER),
    Column("shows", Kind.TEXT, may_go_below=True),
)
_FOLLOWS = "follows"
"""Stands instead of the severity of a consequence."""
_MOST_ALIKE = 5
"""Largest number of findings of a group with one code that have a row each."""
_FIRST = 3
"""Number of those that are shown if there are more."""


def findings_page(
    findings: Sequence[Finding],
    groups: Collection[str] = (),
    *,
    errors: Sequence[Problem] = (),
    is_new: bool = False,
    explain: bool = False,
    advise: bool = False,
) -> Iterator[Part]:
    """Yield the findings as a table, worst first, and the number of groups without any.

    Args:
        findings: the findings.
        groups: ids of the checked groups.
        errors: what could not be read.
        is_new: whether known findings are left out.
        explain: also show the evidence of each finding, its records, the meaning of its code, and
            what to do.
        advise: also show what to do about errors and warnings.
    """
    findings = sorted(findings, key=lambda finding: finding.severity.rank)
    if findings:
        shown = findings if explain else list(_abridged(findings))
        yield _findings(shown, _PAGE_COLUMNS if explain else _PAGE_COLUMNS[:-1])
    sound = {*groups} - {finding.group_id for finding in findings}
    if sound:
        alone = len(groups) == 1
        name = f"Group {cell(next(iter(sound)), Kind.NAME)}"
        who = f"{name}: no" if alone else f"{_groups(len(sound))} without"
        is_partial = any(error.group_id is None or error.group_id in sound for error in errors)
        unread = ", as far as it could be read" if is_partial else ""
        text = summary(f"{who} {'new ' if is_new else ''}findings{unread}")
        yield from ("\n", text) if findings else (text,)
    records = [row for finding in findings for row in _records(finding)]
    if explain and records:
        yield from section("Evidence", Sheet(_RECORD_COLUMNS, records), level=2)
    if explain and findings:
        kinds = dict.fromkeys((finding.code, finding.advice) for finding in findings)
        rows = [(code, code.sentence, advice) for code, advice in kinds]
        yield from section("What to do", Sheet(_ADVICE_COLUMNS, rows), level=2)
    elif advise:
        urgent = [finding for finding in findings if finding.severity is not Severity.INFO]
        advice = dict.fromkeys((str(finding.code), finding.advice) for finding in urgent)
        if advice:
            yield from section("What to do", facts(advice, _ADVICE_COLUMNS[::2]), level=2)


def _records(finding: Finding) -> Iterator[Sequence[object]]:
    about = _subject(finding), finding.code
    more = (finding.evidence_count or 0) - len(finding.evidence)
    if more > 0:
        yield *about, None, None, None, f"{more} earlier records are not shown"
    for record in finding.evidence:
        place = record.time_ms, record.offsets_partition, record.log_offset
        yield *about, *place, record.shows


def _groups(count: int) -> str:
    return f"{count} group{'' if count == 1 else 's'}"


def _abridged(findings: Sequence[_Found]) -> Iterator[_Found]:
    """Yield the first of many findings of a group with one code, and one with their number."""
    for _, run in groupby(
        findings, lambda each: (each.severity, getattr(each, "group_id", None), each.code)
    ):
        alike = list(run)
        if len(alike) <= _MOST_ALIKE or any(getattr(each, "consequences", ()) for each in alike):
            yield from alike
            continue
        yield from alike[:_FIRST]
        rest = alike[_FIRST:]
        changes: dict[str, Any] = {
            "reason": f"{len(rest)} more findings like these: {first_names(rest, _place)}; "
            "--explain shows all."
        }
        if len({getattr(each, "commands", ()) for each in alike}) > 1:
            changes["commands"] = ()  # they are about single partitions
        yield replace(rest[0], **changes)


def _place(found: Finding | Consequence) -> str:
    """Return what a finding is about."""
    if found.partition is not None:
        return f"{found.topic}-{found.partition}"
    names = (found.topic, found.member_id, getattr(found, "path", None))
    return next((name for name in names if name), "(cluster)")


def _findings(findings: Sequence[Finding], columns: tuple[Column, ...]) -> Part:
    """Return the table; commands of several findings in a row stand below the last of them.

    Consequences of a finding are rows below its own.
    """
    after = (*(finding.commands for finding in findings[1:]), ())
    rows: list[Sequence[object]] = []
    commands: list[Sequence[str]] = []
    for finding, following in zip(findings, after, strict=True):
        rows += Sheet.of(columns, [finding]).rows
        rest = [""] * (len(columns) - 4)
        own = list(_abridged(finding.consequences))
        rows += [[_FOLLOWS, _subject(finding), each.code, each.reason, *rest] for each in own]
        commands += [()] * len(own)
        commands.append(() if finding.commands == following else finding.commands)
    sheet = Sheet(columns, rows)
    runs = [("run", command) for command in dict.fromkeys(chain.from_iterable(commands))]
    listed = section("Commands", facts(runs)) if runs else ()
    return Either((replace(sheet, commands=commands),), (sheet, *listed))


def _subject(finding: Finding) -> str:
    return "(cluster)" if finding.group_id is None else finding.group_id


def _evidence(finding: Finding) -> str:
    """Return what a finding is based on, and the fields that its reason may not name."""
    times = (finding.evidence_from_ms, finding.evidence_to_ms, finding.since_ms)
    start, end, since = (None if ms is None else cell(ms, Kind.TIME) for ms in times)
    values = (
        (f"from {start} to {end}", start and end),
        (f"since {since}", since),
        (f"committed offset {finding.offset}", finding.offset),
        (f"log start offset {finding.log_start_offset}", finding.log_start_offset),
        (f"log end offset {finding.log_end_offset}", finding.log_end_offset),
        (f"offset in Kafka {finding.kafka_offset}", finding.kafka_offset),
        (f"member {finding.member_id}", finding.member_id),
        (f"members {first_names(finding.member_ids)}", finding.member_ids[1:] or None),
        (f"node {finding.path}", finding.path),
    )
    basis = finding.basis.sentence.removesuffix(".")
    return "; ".join([basis, *(text for text, value in values if value is not None)])


def nagios_status(audit: Audit) -> int:
    """Return the exit status of a plugin: 0 to 2 for the worst finding, 3 if unknown."""
    worst = max((_STATUS[finding.severity] for finding in audit.report.data), default=0)
    return worst or (PLUGIN_UNKNOWN if audit.report.errors else 0)


def nagios_lines(audit: Audit) -> Iterator[str]:
    """Yield the output of a Nagios or Icinga plugin: a line with the status, then findings."""
    findings = audit.report.data
    counts: Counter[str] = Counter(finding.severity for finding in findings)
    summary = ", ".join(f"{counts[status]} {status}" for status in _STATUS if counts[status])
    if errors := audit.report.errors:  # the reason too: monitoring drops standard error
        first = harmless(problem_line(errors[0])).replace("|", "/").removesuffix(".")
        summary = f"{summary}{', ' if summary else ''}{len(errors)} could not be read: {first}"
    data = " ".join(f"{status}={counts[status]}" for status in _STATUS)
    lag = _lag([offset for group in audit.groups for offset in _committed(group)])
    if lag is not None:
        data += f" lag={lag}"
    name = _STATUS_NAMES[nagios_status(audit)]
    groups = _groups(len(audit.groups))
    yield f"KGROUP {name} - {summary or 'nothing found'}; {groups} checked | {data}\n"
    for finding in sorted(findings, key=lambda finding: finding.severity.rank):
        where = "cluster" if finding.group_id is None else finding.group_id
        yield plugin_line(f"{finding.severity}: {where}: {finding.code}: {finding.reason}")


def plugin_line(text: str) -> str:
    """Return a line of a plugin's output without bars, after which performance data would begin."""
    return harmless(text).replace("|", "/") + "\n"


def prometheus_lines(audit: Audit) -> Iterator[str]:
    """Yield a check in Prometheus' text format, for node-exporter's textfile collector.

    An unknown value has no line, and neither has a sum with an unknown part. Consequences count as
    findings, as alerts may name their codes.
    """
    counts = Counter[tuple[str, str, str]]()
    for finding in audit.report.data:
        both: tuple[Finding | Consequence, ...] = (finding, *finding.consequences)
        for each in both:
            counts[finding.group_id or "", str(each.code), str(each.severity)] += 1
    yield from metric(
        "check_findings",
        "Number of findings of kgroup check.",
        (
            ({"group": group_id, "code": code, "severity": severity}, count)
            for (group_id, code, severity), count in sorted(counts.items())
        ),
        is_kept=True,
    )
    yield from metric("check_groups", "Number of checked groups.", [({}, len(audit.groups))])
    yield from _errors(len(audit.report.errors))
    time_s = audit.time_ms / 1000 or None  # 0: the source has no time
    yield from metric("check_timestamp_seconds", "Time of the check.", [({}, time_s)], is_kept=True)
    groups = [description.group for description in audit.groups]
    yield from metric(
        "group_state",
        "1 for the current state of the group.",
        (
            ({"group": group.group_id, "type": str(group.type), "state": str(group.state)}, 1)
            for group in groups
            if group.state is not None
        ),
    )
    yield from metric(
        "group_members",
        "Number of members of the group.",
        (
            ({"group": group.group_id}, len(group.members))
            for group in groups
            if group.state is not None  # else only committed offsets are known
        ),
    )
    age = partial(_commit_age, now_ms=audit.time_ms)
    for name, help_text, level, measure in (
        ("group_lag_records", "Lag of the group in offsets.", 0, _lag),
        ("topic_lag_records", "Lag of the group in a topic, in offsets.", 1, _lag),
        ("partition_lag_records", "Lag of the group in a partition, in offsets.", 2, _own_lag),
        ("group_time_lag_seconds", "Age of the oldest unread record of the group.", 0, _wait),
        ("topic_time_lag_seconds", "Age of the oldest unread record in a topic.", 1, _wait),
        ("partition_time_lag_seconds", "Age of the oldest unread record in a partition.", 2, _wait),
        ("group_commit_age_seconds", "Age of the last commit of the group.", 0, age),
        ("partition_commit_age_seconds", "Age of the last commit in a partition.", 2, age),
    ):
        samples = (
            ({"group": description.group.group_id, **labels}, measure(rows))
            for description in audit.groups
            for labels, rows in _places(_committed(description), level)
        )
        yield from metric(name, help_text, samples)


def prometheus_failure() -> Iterator[str]:
    """Yield the lines that report a failed check."""
    return _errors(1)


def _errors(count: int) -> Iterator[str]:
    return metric("check_errors", "Number of errors: things that could not be read.", [({}, count)])


_Rows = Sequence[OffsetDescription | ShareOffsetDescription]


def _committed(description: GroupDescription) -> _Rows:
    """Return the partitions of a group with a committed offset."""
    shared = description.share_offsets or ()
    return [
        *(offset for offset in description.offsets if offset.committed_offset is not None),
        *(offset for offset in shared if offset.start_offset is not None),
    ]


def _places(rows: _Rows, level: int) -> Iterator[tuple[dict[str, str], _Rows]]:
    """Group partitions by neither, one or both of topic and number; yield labels with each part."""
    if not level:
        yield {}, rows
        return
    named = [row for row in rows if row.topic is not None]
    for topic, of_topic in groupby(named, key=lambda row: row.topic or ""):
        if level == 1:
            yield {"topic": topic}, list(of_topic)
            continue
        for offset in of_topic:
            yield {"topic": topic, "partition": str(offset.partition)}, [offset]


def _lag(rows: _Rows) -> int | None:
    """Return the total lag; None if there is no lag, or one is unknown."""
    known = [max(row.lag, 0) for row in rows if row.lag is not None]
    return sum(known) if known and len(known) == len(rows) else None


def _own_lag(rows: _Rows) -> int | None:
    """Return the lag of a partition: negative if the commit is past the log end offset."""
    (row,) = rows
    return row.lag


def _wait(rows: _Rows) -> float | None:
    """Return the largest lag in time, in seconds; None if there is none, or one is unknown."""
    known = [row.time_lag_ms for row in rows if row.time_lag_ms is not None]
    return max(known) / 1000 if known and len(known) == len(rows) else None


def _commit_age(rows: _Rows, now_ms: int) -> float | None:
    """Return the time since the last commit, in seconds; None if no commit has a time."""
    times = [
        row.commit_timestamp_ms
        for row in rows
        if isinstance(row, OffsetDescription) and row.commit_timestamp_ms
    ]
    return (now_ms - max(times)) / 1000 if times else None
