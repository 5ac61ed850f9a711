"""What people are shown of a plan: tables that fit a terminal, and totals."""

from __future__ import annotations

import pytest

from kgroup.model.log_range import OffsetMark
from kgroup.operation.offsets.plan import PlannedOffset, Result
from kgroup.render.form import page_text
from kgroup.render.offsets import plan_page, plan_totals, record_totals


def row(
    partition: int,
    now: int | None,
    then: int | None,
    result: Result = Result.PLANNED,
    *,
    group_id: str = "billing",
    mark: OffsetMark | None = None,
) -> PlannedOffset:
    known = now is not None and then is not None
    return PlannedOffset(
        group_id,
        "orders",
        partition,
        now,
        then,
        max((then or 0) - (now or 0), 0) if known else None,
        max((now or 0) - (then or 0), 0) if known else None,
        None,
        0,
        1_000_000_000_000,
        None,
        None,
        mark,
        result,
    )


ROWS = (
    row(0, 1_000_000_000, 7),
    row(1, 3, 3, Result.UNCHANGED),
    row(2, None, 5),
    row(3, 1, 3, mark=OffsetMark.PAST_END),
    row(4, 9, 1, Result.REFUSED),
    row(0, 5, 6, group_id="shipping"),
    row(1, 6, 7, group_id="shipping"),
)


def test_groups_have_tables_of_their_own() -> None:
    text = "".join(page_text(plan_page(ROWS)))
    assert text == (
        "Skips 4 unread records in 3 partitions of 2 groups: billing orders-3 (2), "
        "shipping orders-0 (1), shipping orders-1 (1)\n"
        "\n"
        "Group billing\n"
        "topic   partition  committed_offset  target_offset  skipped  read_again  mark      "
        "result\n"
        "orders          0        1000000000              7        0   999999993  -         "
        "planned\n"
        "orders          1                 3              3        0           0  -         "
        "unchanged\n"
        "orders          2                 -              5        -           -  -         "
        "planned\n"
        "orders          3                 1              3        2           0  past-end  "
        "planned\n"
        "orders          4                 9              1        0           8  -         "
        "refused\n"
        "\n"
        "Group shipping (all: skipped 1, read_again 0, result planned)\n"
        "topic   partition  committed_offset  target_offset\n"
        "orders          0                 5              6\n"
        "orders          1                 6              7\n"
    )


def test_skipped_records_are_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    first = next(iter(page_text(plan_page([row(0, 3, 9)]), terminal=True)))
    assert first == "\x1b[1;31mSkips 6 unread records in 1 partition: orders-0 (6)\x1b[0m\n"
    markdown = next(iter(page_text(plan_page([row(0, 3, 9)]), "markdown")))
    assert "Skips 6 unread records in 1 partition: orders-0 (6)" in markdown


def test_totals() -> None:
    assert plan_totals(ROWS) == (
        "7 partitions: 5 planned, 1 unchanged, 1 refused; 4 records skipped, 999999993 read again, "
        "not known of 1 partition"
    )
    assert plan_totals(ROWS[1:2]) == "1 partition: 1 unchanged"
    assert record_totals([row(0, 5, 6, Result.DONE)]) == "1 record skipped, 0 read again"
    assert record_totals([row(0, 5, None)]) == ""


def test_groups_that_have_committed_nothing_are_no_partitions() -> None:
    idle = PlannedOffset.of_group("idle", Result.PLANNED)
    assert plan_totals([idle]) == "1 group without offsets: 1 planned"
    rows = [idle, row(1, 3, None, Result.DONE)]
    assert plan_totals(rows) == "1 partition and 1 group without offsets: 1 planned, 1 done"
    text = "".join(page_text(plan_page([idle])))
    assert text == "Group idle\nresult\nplanned\n"
