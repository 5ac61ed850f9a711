"""Which migrations make sense for groups: a part for each group, a row for each target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.operation.plan.advice import GroupAdvice, ListedTarget, Proposal
from kgroup.operation.plan.plan import Compared
from kgroup.render.cell import Column, Kind, age, cell, visible
from kgroup.render.column import GROUP, PARTS
from kgroup.render.group.plan import summary_lines
from kgroup.render.sheet import Sheet, sheet_text, title_text

TARGET_COLUMNS = (
    Column("target", Kind.TEXT, "where groups can be moved to"),
    Column("meaning", Kind.TEXT, "in a sentence"),
    Column("command", Kind.TEXT, "that plans it"),
)
_COMPARED = ("rebalances", "moved", "stopped_ms", "read_again", "skipped")
ADVICE_COLUMNS = (
    GROUP,
    Column("target", Kind.TEXT, "to which it can be moved for a reason; none where there is none"),
    Column("goal", Kind.TEXT, "which of the target"),
    Column("why", Kind.TEXT, "what is gained, or why nothing is"),
    Column("against", Kind.TEXT, "what becomes worse by the numbers; none where it makes sense"),
    Column("command", Kind.TEXT, "that plans it"),
    Column("rebalances_now", Kind.NUMBER, "generations or epochs that come without it"),
    Column("rebalances_then", Kind.NUMBER, "with it"),
    Column("moved_now", Kind.NUMBER, "how often a partition changes its owner without it"),
    Column("moved_then", Kind.NUMBER, "with it"),
    Column("stopped_ms_now", Kind.AGE, "how long partitions stand still, all together, without it"),
    Column("stopped_ms_then", Kind.AGE, "with it"),
    Column("read_again_now", Kind.NUMBER, "records that are read once more without it"),
    Column("read_again_then", Kind.NUMBER, "with it"),
    Column("skipped_now", Kind.NUMBER, "records that nobody reads without it"),
    Column("skipped_then", Kind.NUMBER, "with it"),
)
_FORECASTS = (
    Column("of", Kind.TEXT, ""),
    Column("rebalances", Kind.NUMBER, ""),
    Column("moved", Kind.NUMBER, ""),
    Column("stopped", Kind.NUMBER, ""),
    Column("longest stop", Kind.NUMBER, ""),
    Column("all stops", Kind.NUMBER, ""),
    Column("read again", Kind.NUMBER, ""),
    Column("skipped", Kind.NUMBER, ""),
)


def targets_sheet(targets: Sequence[ListedTarget]) -> Sheet:
    """Make a row for each target."""
    return Sheet.of(TARGET_COLUMNS, targets)


def advice_sheet(groups: Sequence[GroupAdvice]) -> Sheet:
    """Make a row for each target of each group, and one for a group without any."""
    blank = (None,) * len(ADVICE_COLUMNS[6:])
    rows: list[tuple[object, ...]] = []
    for group in groups:
        for each in group.proposals:
            named = (group.group_id, each.target, each.goal, each.why, each.against, each.command)
            rows.append((*named, *_numbers(each)))
        if not group.proposals:
            why = " ".join((group.summary, *group.reasons))
            rows.append((group.group_id, None, None, why, None, None, *blank))
    return Sheet(ADVICE_COLUMNS, rows)


def _numbers(proposal: Proposal) -> Iterator[object]:
    for name in _COMPARED:
        for side in (proposal.now, proposal.then):
            yield None if side is None else getattr(side.forecast, name)


def advice_text(
    groups: Sequence[GroupAdvice], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write a part for each group."""
    for number, group in enumerate(groups):
        if number:
            yield "\n"
        title = f"Group {cell(group.group_id, Kind.NAME)}"
        yield from title_text(title, form, level=2, terminal=terminal)
        yield from summary_lines(group.summary, form, terminal=terminal)
        for each in group.proposals:
            yield "\n"
            yield from _proposal(each, form, headers=headers, terminal=terminal)
        if group.reasons:
            yield "\n"
            rows = Sheet(PARTS, [("else", each) for each in group.reasons])
            yield from sheet_text(rows, form, headers=form != "table", terminal=terminal)


def _proposal(proposal: Proposal, form: str, *, headers: bool, terminal: bool) -> Iterator[str]:
    goal = "" if proposal.goal is None else f" {proposal.goal}"
    title = visible(f"{proposal.target}{goal}")
    yield from title_text(title, form, level=3, terminal=terminal)
    against = [] if proposal.against is None else [("but", f"{_sentence(proposal.against)}.")]
    parts = Sheet(PARTS, [("why", proposal.why), *against, ("run", proposal.command)])
    yield from sheet_text(parts, form, headers=form != "table", terminal=terminal)
    compared = [each for each in (proposal.now, proposal.then) if each is not None]
    if compared:
        if form != "table":
            yield "\n"
        sheet = Sheet(_FORECASTS, [_row(each) for each in compared])
        yield from sheet_text(sheet, form, headers=headers, terminal=terminal)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(compared: Compared) -> tuple[object, ...]:
    found = compared.forecast
    longest_ms = found.longest_stop_ms
    return (
        compared.text,
        found.rebalances,
        found.moved,
        found.stopped,
        None if longest_ms is None else age(longest_ms),
        age(found.stopped_ms),
        found.read_again,
        found.skipped,
    )
