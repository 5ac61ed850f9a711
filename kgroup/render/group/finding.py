"""What `kgroup check` found: as sheets and pages, for monitoring too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kgroup.render.cell import Column, Kind, cell, harmless
from kgroup.render.sheet import Sheet, sheet_text, title_text

if TYPE_CHECKING:
    from kgroup.operation.check.check import Audit
    from kgroup.operation.check.rule import Finding

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
)
finding_sheet = partial(Sheet.of, FINDING_COLUMNS)  # one row a finding
_SHOWN = ("severity", "code", "reason")

RULE_COLUMNS = (
    Column("code", Kind.TEXT, "what it is called"),
    Column("severity", Kind.TEXT, "how bad it is"),
    Column("sentence", Kind.TEXT, "what it means"),
    Column("advice", Kind.TEXT, "what to do"),
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
        title = "Cluster" if group_id is None else f"Group {cell(group_id, Kind.NAME)}"
        yield from title_text(title, form, level=2, terminal=terminal)
        shown = finding_sheet(list(own)).select(_SHOWN)
        yield from sheet_text(shown, form, headers=headers, terminal=terminal)
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
    name = _STATUS_NAMES[nagios_status(audit)]
    yield f"KGROUP {name} - {said or 'nothing found'}; {audit.groups} groups checked | {data}\n"
    for each in findings:
        where = "cluster" if each.group_id is None else each.group_id
        yield plugin_line(f"{each.severity}: {where}: {each.code}: {each.reason}")


def plugin_line(text: str) -> str:
    """Write one line of what a plugin says, in which no bar begins figures."""
    return harmless(text).replace("|", "/") + "\n"


def prometheus_lines(audit: Audit) -> Iterator[str]:
    """Write a check as node-exporter's textfile collector reads it."""
    yield "# HELP kgroup_check_findings Findings of kgroup check.\n"
    yield "# TYPE kgroup_check_findings gauge\n"
    keys = ((each.group_id or "", each.code, each.severity) for each in audit.report.data)
    for (group_id, code, severity), count in sorted(Counter(keys).items()):
        labels = f'group="{_label(group_id)}",code="{code}",severity="{severity}"'
        yield f"kgroup_check_findings{{{labels}}} {count}\n"
    for name, what, value in (
        ("groups", "Groups that were checked.", str(audit.groups)),
        ("errors", "What could not be read.", str(len(audit.report.errors))),
        ("timestamp_seconds", "When it was checked.", f"{audit.time_ms / 1000:.3f}"),
    ):
        yield f"# HELP kgroup_check_{name} {what}\n# TYPE kgroup_check_{name} gauge\n"
        yield f"kgroup_check_{name} {value}\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
