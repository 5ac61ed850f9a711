from __future__ import annotations

from collections.abc import Collection

from kgroup.errors import ProblemKind
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.log_range import LogRange, NextReading, NextRecord, Position
from kgroup.model.offset import CommittedOffset, ShareOffset
from kgroup.model.problem import Problem
from kgroup.operation.describe import describe, with_time_lags
from kgroup.source.base import GroupSource
from tests.operation.sources import FakeSource

NOW_MS = 1_700_000_000_000
PROBLEM = Problem(ProblemKind.NOT_AUTHORIZED, "Why.", topic="secret")


class FakeRecords(GroupSource):
    """Records with their timestamps."""

    def __init__(self, **timestamps: int | None) -> None:
        self.asked: list[Position] = []
        self._timestamps = timestamps

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        self.asked = sorted(positions)
        records = {at: NextRecord(at[2], self._timestamps[at[0]]) for at in positions}
        return NextReading(records, (PROBLEM,))


def test_time_lags() -> None:
    rows = {
        "behind": (CommittedOffset("behind", 0, 3), LogRange(0, 5)),
        "done": (CommittedOffset("done", 0, 5), LogRange(0, 5)),
        "timeless": (CommittedOffset("timeless", 0, 4), LogRange(0, 5)),
        "past": (CommittedOffset("past", 0, 6), LogRange(0, 5)),
        "before": (CommittedOffset("before", 0, 1), LogRange(2, 5)),
        "unknown": (CommittedOffset("unknown", 0, 1), LogRange()),
    }
    group = Group(
        "g",
        GroupType.CLASSIC,
        GroupState.EMPTY,
        offsets=tuple(commit for commit, _ in rows.values()),
    )
    source = FakeSource(group, ranges={(name, 0): log for name, (_, log) in rows.items()})
    records = FakeRecords(behind=NOW_MS - 70, timeless=None)
    report = with_time_lags(describe(source), records, now_ms=NOW_MS)
    assert records.asked == [("behind", 0, 3), ("timeless", 0, 4)]
    (row,) = report.data
    assert {o.topic: (o.next_timestamp_ms, o.time_lag_ms) for o in row.offsets} == {
        "behind": (NOW_MS - 70, 70),
        "done": (None, 0),
        "timeless": (None, None),
        "past": (None, None),
        "before": (None, None),
        "unknown": (None, None),
    }
    assert row.max_time_lag_ms == 70
    assert report.errors == (PROBLEM,)


def test_only_what_consumers_never_see_is_left() -> None:
    class Markers(FakeRecords):
        def next_records(
            self, positions: Collection[Position], *, committed: bool = False
        ) -> NextReading:
            return NextReading(dict.fromkeys(positions, NextRecord()))

    group = Group(
        "g", GroupType.CLASSIC, GroupState.EMPTY, offsets=(CommittedOffset("orders", 0, 4),)
    )
    source = FakeSource(group, ends={("orders", 0): 5})
    (row,) = with_time_lags(describe(source), Markers(), now_ms=NOW_MS).data
    assert [(o.lag, o.next_timestamp_ms, o.time_lag_ms) for o in row.offsets] == [(1, None, 0)]
    assert row.max_time_lag_ms == 0


def test_share_groups_by_the_first_record_that_is_not_finished() -> None:
    shared = (
        ShareOffset("id", "orders", 0, start_offset=2, delivery_complete_count=1),
        ShareOffset("id", "orders", 1, start_offset=2, delivery_complete_count=3),
        ShareOffset("id", "orders", 2),
    )
    group = Group("g", GroupType.SHARE, GroupState.EMPTY, share_offsets=shared)
    source = FakeSource(group, ends={("orders", number): 5 for number in range(3)})
    records = FakeRecords(orders=NOW_MS - 9)
    (row,) = with_time_lags(describe(source), records, now_ms=NOW_MS).data
    assert records.asked == [("orders", 0, 2)]
    assert [(o.lag, o.time_lag_ms) for o in row.share_offsets or ()] == [
        (2, 9),
        (0, 0),
        (None, None),
    ]
    assert row.max_time_lag_ms == 9


def test_nothing_is_known_of_nothing() -> None:
    group = Group("g", GroupType.CLASSIC, GroupState.EMPTY)
    (row,) = with_time_lags(describe(FakeSource(group)), FakeRecords(), now_ms=NOW_MS).data
    assert row.max_time_lag_ms is None
