"""One round of a watch as a page on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kgroup.model.instant import rfc3339
from kgroup.model.problem import Problem
from kgroup.operation.describe import GroupDescription
from kgroup.operation.watch import Change, ChangeKind
from kgroup.render.cell import harmless
from kgroup.render.group.change import change_line
from kgroup.render.group.description import description_text
from kgroup.render.problem import problem_line
from kgroup.render.table import rich_title

EVENTS = 5
"""Of the last changes of groups and members so many stay on the page."""
_MAX_PROBLEMS = 5
_STEADY = frozenset(
    {ChangeKind.COMMITTED_OFFSET, ChangeKind.START_OFFSET, ChangeKind.LAG, ChangeKind.TIME_LAG}
)
"""What changes all the time where records are read: marks in the tables are enough."""


def is_event(change: Change) -> bool:
    """Tell whether a change is worth a line."""
    return change.change not in _STEADY


def watch_text(
    groups: Collection[GroupDescription],
    changes: Collection[Change],
    events: Sequence[Change],
    problems: Sequence[Problem],
    *,
    sections: Collection[str],
    interval_s: float,
    now_ms: int,
    headers: bool,
) -> str:
    """Write the page: when it is from, what went wrong, what happened last, and the groups.

    Args:
        groups: as they are known now.
        changes: since the last round, to be marked.
        events: the last ones, the newest last.
        problems: of this round.
        sections: see `description_text`.
        interval_s: time between rounds.
        now_ms: epoch milliseconds of this round.
        headers: whether the tables have heads.
    """
    parts = [rich_title(f"{rfc3339(now_ms)}, every {interval_s:g} s; * has changed since the last")]
    parts += [f"! {harmless(problem_line(problem))}\n" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        parts.append(f"! and {len(problems) - _MAX_PROBLEMS} more\n")
    parts += [f"{change_line(event)}\n" for event in reversed(events)]
    parts += "\n" if groups else ""
    parts += description_text(
        groups,
        "table",
        sections=sections,
        now_ms=now_ms,
        headers=headers,
        terminal=True,
        changes=changes,
    )
    return "".join(parts)
