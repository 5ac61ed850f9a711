"""Plans of changes of offsets for people: each group below its name, and what it all comes to."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from kgroup.operation.offsets.plan import PlannedOffset, Result
from kgroup.render.cell import Kind, cell
from kgroup.render.group.offsets import PLAN_COLUMNS
from kgroup.render.sheet import Sheet, sheet_text, title_text

__all__ = ["counted", "plan_text", "plan_totals", "record_totals"]

_LEFT_OUT = frozenset({"group_id", "log_start_offset", "log_end_offset"})
"""What people are not shown in a plan's tables: it is in their titles, or `mark` says enough."""
_SHOWN = tuple(column for column in PLAN_COLUMNS if column.name not in _LEFT_OUT)
_OWN = frozenset({"partition", "committed_offset", "target_offset"})
"""Columns that stay in a plan's tables also where all rows have the same value."""


def plan_text(
    rows: Iterable[PlannedOffset], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write a plan for people, as table or one of `MARKUPS`: each group below its name."""
    for number, (group_id, own) in enumerate(groupby(rows, key=attrgetter("group_id"))):
        yield "\n" if number else ""
        sheet, common = Sheet.of(_SHOWN, own).without_blank().without_common(_OWN)
        title = f"Group {cell(group_id, Kind.NAME)}"
        title = f"{title} (all: {', '.join(common)})" if common else title
        yield from title_text(title, form, level=2, terminal=terminal)
        yield from sheet_text(sheet, form, headers=headers, terminal=terminal)


def plan_totals(rows: Sequence[PlannedOffset]) -> str:
    """Sum up a plan, or what became of it: partitions, groups without any, results, and records."""
    counts = Counter(row.result for row in rows)
    results = ", ".join(f"{counts[each]} {each}" for each in Result if counts[each])
    records = record_totals(rows)
    bare = sum(row.topic is None for row in rows)
    what = [counted(len(rows) - bare, "partition")] if len(rows) > bare else []
    what += [f"{counted(bare, 'group')} without offsets"] if bare else []
    return f"{' and '.join(what)}: {results}{records and f'; {records}'}"


def record_totals(rows: Iterable[PlannedOffset]) -> str:
    """Sum up which records are skipped and read again by what is changed; "" where none tells."""
    results = (Result.PLANNED, Result.DONE)
    changed = [row for row in rows if row.topic is not None and row.result in results]
    known = [row for row in changed if row.skipped is not None and row.read_again is not None]
    if not known:
        return ""
    skipped = sum(row.skipped or 0 for row in known)
    again = sum(row.read_again or 0 for row in known)
    left = len(changed) - len(known)
    unknown = f", not known of {counted(left, 'partition')}" if left else ""
    return f"{counted(skipped, 'record')} skipped, {again} read again{unknown}"


def counted(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
