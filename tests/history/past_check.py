"""A group whose past is checked, by rows written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member, Subscription
from kgroup.model.log_range import LogRange
from kgroup.model.offset import CommittedOffset
from kgroup.operation.check.look import Evidence, Look, Thresholds
from kgroup.operation.describe import describe
from tests.history.past_log import T, commit
from tests.operation.sources import FakeSource

DAY_MS = 86_400_000
NOW_MS = T + DAY_MS // 2
Rows = Mapping[str, Iterable[Mapping[str, Any]]]


def group(committed: int | None = None) -> Group:
    """One member that owns all of "orders"; of partition 0 something may be committed."""
    owned = tuple(AssignedPartition(None, "orders", number) for number in range(2))
    subscription = Subscription(("orders",), None, (), None, None)
    there = Member("now", subscription=subscription, assignment=owned)
    offsets = () if committed is None else (CommittedOffset("orders", 0, committed),)
    return Group("g", GroupType.CLASSIC, GroupState.STABLE, members=(there,), offsets=offsets)


def evidence(
    *, end: int | None = None, committed: int | None = None, now_ms: int = NOW_MS, **limits: Any
) -> Evidence:
    ranges = {} if end is None else {("orders", 0): LogRange(0, end)}
    report = describe(FakeSource(group(committed), ranges=ranges), [])
    groups = {description.group.group_id: description for description in report.data}
    return Evidence(Look(now_ms, groups), limits=Thresholds(**limits))


def of_generations(*generations: tuple[Any, Sequence[Any]]) -> Rows:
    """A commit beside, so that the cluster is known."""
    return {
        "group_generations": [row for row, _ in generations],
        "members": [each for _, members in generations for each in members],
        "offset_commits": [commit(1, 1)],
    }
