from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from kgroup.errors import ProblemKind
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.operation.describe import describe
from kgroup.operation.top import FollowedGroup, SeenRebalance, TopRow
from kgroup.render.cell import HARMFUL
from kgroup.render.top import (
    KEYS,
    SORTS,
    TopScreen,
    count_text,
    fields_for,
    fit,
    for_terminal,
    growth_text,
    short_age,
    sparkline,
)
from tests.operation.sources import FakeSource

NOW_MS = 1_700_000_000_000


def row(group_id: str, lag: int | None = 0, **more: Any) -> TopRow:
    values: dict[str, Any] = {
        "group_id": group_id,
        "type": GroupType.CLASSIC,
        "state": GroupState.STABLE,
        "member_count": 1,
        "total_lag": lag,
        "unknown_count": 0,
        "worst_topic": "orders",
        "worst_partition": 4,
        "worst_lag": lag,
        "last_commit_timestamp_ms": None,
        "time_ms": NOW_MS,
    }
    trend = more.pop("trend", (lag,))
    rebalances = more.pop("rebalances", ())
    return TopRow(FollowedGroup(**values | more), trend, rebalances)


def screen(*rows: TopRow, **more: Any) -> TopScreen:
    made = TopScreen("-b kafka-1:9092", 5, rows, read_ms=NOW_MS, **more)
    made.arrange()
    return made


def texts(made: TopScreen, width: int = 80, height: int = 24, now_ms: int = NOW_MS) -> list[str]:
    lines = made.lines(width, height, now_ms)
    return ["".join(text for text, _ in line) for line in lines]


def shown(made: TopScreen) -> list[str]:
    return [each.group.group_id for each in made.shown]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (9_999_999, "9,999,999"),
        (10_000_000, "10.0M"),
        (999_949_999, "999.9M"),
        (1_234_567_890, "1.2G"),
        (9_223_372_036_854_775_807, "9.2E"),
        (-9_999_999, "-9,999,999"),
    ],
)
def test_counts(number: int | None, text: str) -> None:
    assert count_text(number) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.01, "+0.0"),
        (-0.01, "-0.0"),
        (35.24, "+35.2"),
        (-999.94, "-999.9"),
        (1000.0, "+1.0k"),
        (-12_345_678.0, "-12.3M"),
    ],
)
def test_growth(per_s: float | None, text: str) -> None:
    assert growth_text(per_s) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (-5, "0 s"),
        (52_000, "52 s"),
        (99_499, "99 s"),
        (99_500, "2 min"),
        (12 * 60_000, "12 min"),
        (2 * 3_600_000, "2.0 h"),
        (47 * 3_600_000, "47.0 h"),
        (48 * 3_600_000, "2 d"),
        (400 * 86_400_000, "400 d"),
        (1 << 62, "99999 d"),
    ],
)
def test_ages(ms: int | None, text: str) -> None:
    assert short_age(ms) == text


def test_no_number_overflows_its_column() -> None:
    """Otherwise the columns behind it would stand under the wrong heads."""
    for power in range(63):
        for number in (1 << power, (1 << power) - 1, -(1 << power)):
            assert len(count_text(number)) <= 11
            assert len(count_text(abs(number))) <= 9
            assert len(growth_text(number)) <= 8
            assert len(short_age(number)) <= 7
            assert len(short_age(min(number, 99_999 * 86_400_000))) <= 7


def test_sparkline() -> None:
    assert sparkline((0, 5, 10, None, 10), 8) == "▁▅█ █"
    assert sparkline((0, 0), 8) == "▁▁"
    assert sparkline((), 8) == ""
    assert sparkline(range(0, 100, 10), 3) == "▆▇█"


def test_a_terminal_without_bars() -> None:
    bars = sparkline(range(8), 8)
    assert for_terminal(bars, "UTF-8") == bars == "▁▂▃▄▅▆▇█"
    for encoding in ("ANSI_X3.4-1968", "ISO-8859-1", "cp1252"):
        assert for_terminal(f"{bars} ≥ 3", encoding) == "_.-:=+*# > 3"
    assert for_terminal("naïve-groüp", "ISO-8859-1") == "naïve-groüp"
    assert for_terminal("naïve-グ", "ANSI_X3.4-1968") == "na?ve-?"


@pytest.mark.parametrize(
    ("text", "width", "options", "fitted"),
    [
        ("abc", 5, {}, "abc  "),
        ("abc", 5, {"right": True}, "  abc"),
        ("abcdefghij", 5, {}, "abcd…"),
        ("abcdefghijkl", 9, {"middle": True}, "abcd…ijkl"),
        ("日本語日本語", 5, {}, "日本…"),
        ("日本語", 1, {}, " "),
        ("abc", 0, {}, ""),
    ],
)
def test_fit(text: str, width: int, options: dict[str, bool], fitted: str) -> None:
    found = fit(text, width, **options)
    assert (found, cell_len(found)) == (fitted, width)


def test_columns_at_common_widths() -> None:
    """The narrower the screen, the fewer columns; the group id keeps its 20 characters."""
    at = {width: [field.name for field in fields_for(width, 60)] for width in (40, 60, 80, 200)}
    assert at[40] == ["name", "lag"]
    assert at[60] == ["name", "lag", "growth", "time-lag", "state"]
    every = ["name", "lag", "growth", "time-lag", "state", "members", "rebalances", "trend"]
    assert at[80] == every
    assert at[200] == [*every, "worst", "type"]
    assert fields_for(80, 60)[0].width == 22
    assert fields_for(200, 60)[0].width == 60
    assert [field.name for field in fields_for(120, 60)] == every  # an id before more columns
    assert [field.name for field in fields_for(120, 27)] == [*every, "worst"]


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (20, 5), (40, 4), (80, 24), (200, 50)])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"page": "help"},
        {"page": "problems"},
        {"opened_id": "billing"},
        {"opened_id": "gone"},
        {"is_typing": True, "text_filter": "bill" * 30},
        {"trouble": "x " * 100},
    ],
)
def test_every_size_is_filled_and_not_exceeded(size: tuple[int, int], more: dict[str, Any]) -> None:
    width, height = size
    many = [row(f"team-{n}-日本語\x1b[31m\n{'x' * n}", n) for n in range(80)]
    made = screen(row("billing", 7), *many, **more)
    made.move(70)
    lines = made.lines(width, height, NOW_MS + 5_000)
    assert len(lines) == height
    for line in lines:
        text = "".join(text for text, _ in line)
        assert cell_len(text) <= width
        assert not HARMFUL.search(text)


def test_the_list_at_80_columns() -> None:
    growing = row(
        "billing",
        1_234_567,
        growth_per_s=35.2,
        max_time_lag_ms=52_000,
        rebalance_count=2,
        trend=(0, 600_000, 1_234_567),
    )
    idle = row("a-very-long-name-of-a-consumer-group", None, state=None, member_count=0)
    found = texts(screen(idle, growing), now_ms=NOW_MS + 2_000)
    assert found[0].startswith("-b kafka-1:9092  2 groups")
    assert "2 groups, lag 1,234,567" in found[0]
    assert found[0].endswith("2 s ago, every 5 s")
    assert found[1].rstrip() == "sorted by lag"
    assert found[2:5] == [
        "  GROUP                        LAG GROWTH/s BEHIND STATE       MEM  REB TREND   ",
        "> billing                1,234,567    +35.2   52 s Stable        1   ≥2 ▁▄█     ",
        "  a-very-long…umer-group         -        -      - -             0    0         ",
    ]
    assert found[5:23] == [""] * 18
    assert found[23] == KEYS
    assert len(KEYS) <= 80


def test_a_lag_with_unknown_parts_has_a_question_mark() -> None:
    found = texts(screen(row("g", 7, unknown_count=1)))
    assert "1 group, lag 7?" in found[0]
    assert " 7? " in found[3]


def test_an_exact_number_of_rebalances_has_no_sign() -> None:
    exact = row("g", rebalance_count=3, is_rebalance_count_exact=True)
    assert "≥" not in texts(screen(exact))[3]


ROWS = (
    row("a", 5, growth_per_s=1.0, max_time_lag_ms=None, member_count=3),
    row("b", None, growth_per_s=None, max_time_lag_ms=9, state=GroupState.EMPTY),
    row("c", 70, growth_per_s=-4.0, max_time_lag_ms=4, rebalance_count=2),
)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("lag", "cab"),
        ("growth", "acb"),
        ("time-lag", "bca"),
        ("name", "abc"),
        ("state", "bac"),
        ("members", "abc"),
        ("rebalances", "cab"),
    ],
)
def test_sort_and_reverse(sort: str, order: str) -> None:
    """What is not known comes last, in both directions; equal ones by name."""
    assert "".join(shown(screen(*ROWS, sort=sort))) == order
    reversed_ = "".join(shown(screen(*ROWS, sort=sort, is_reversed=True)))
    unknown = {"lag": "b", "growth": "b", "time-lag": "a"}.get(sort, "")
    assert reversed_.endswith(unknown)
    key = SORTS[sort].key
    by_id = {each.group.group_id: key(each.group) for each in ROWS}
    known = [by_id[each] for each in order if each not in unknown]
    assert [by_id[each] for each in reversed_ if each not in unknown] == known[::-1]


def test_filter_ignores_case() -> None:
    made = screen(row("Billing"), row("shipping"), text_filter="bILL")
    assert shown(made) == ["Billing"]
    assert "2 groups, 1 shown" in texts(made)[0]
    made.text_filter = "nothing"
    made.arrange()
    assert "no group matches the filter" in texts(made)[3]


def test_the_cursor_stays_with_its_group_and_in_view() -> None:
    rows = [row(f"g{n:03}", 1000 - n) for n in range(100)]
    made = screen(*rows)
    made.move(50)
    assert [line for line in texts(made) if line.startswith("> g050")]
    made.rows = [row("g050", 5000), *(each for each in rows if each.group.group_id != "g050")]
    made.arrange()
    assert texts(made)[3].startswith("> g050")
    made.rows = rows[:10]  # its group is gone
    made.arrange()
    assert texts(made)[3].startswith("> g000")
    made.move(1 << 30)
    assert texts(made)[12].startswith("> g009")
    made.move(-5)
    assert made.cursor_id is None  # the first place, whoever has it


def test_stale_numbers_say_since_when() -> None:
    made = screen(row("g", 5), trouble="broker 1 (kafka-1:9092) did not answer")
    line = texts(made, width=120, now_ms=NOW_MS + 37_000)[1]
    assert line.startswith("! stale since ")
    assert "(37 s): broker 1 (kafka-1:9092) did not answer" in line


def test_a_row_of_an_older_reading_is_dim() -> None:
    made = screen(row("old", 5, time_ms=NOW_MS - 5_000), row("new", 4))
    made.move(1)  # the cursor's row is a bar of its own
    old, new = made.lines(80, 24, NOW_MS)[3:5]
    assert {style for text, style in old[1:] if text.strip()} == {"dim"}
    assert "dim" not in {style for _, style in new}


def test_what_could_not_be_read() -> None:
    problems = [Problem(ProblemKind.UNREACHABLE, f"Broker {n} is away.") for n in (3, 4)]
    made = screen(row("g"), problems=problems, notes=("A note.",))
    assert texts(made)[1].rstrip() == "! (e: all 2) unreachable: Broker 3 is away."
    made.page = "problems"
    assert texts(made)[2:5] == [
        "! unreachable: Broker 3 is away.",
        "! unreachable: Broker 4 is away.",
        "note: A note.",
    ]


def opened(rebalances: Sequence[SeenRebalance] = ()) -> TopScreen:
    members = tuple(
        Member(
            f"{name}-id",
            client_id=name,
            client_host="/10.0.0.7",
            assignment=tuple(AssignedPartition(None, "orders", n) for n in own),
        )
        for name, own in (("web-1", (0,)), ("web-2", (1, 2)))
    )
    offsets = tuple(CommittedOffset("orders", n, n) for n in range(3))
    group = Group(
        "billing",
        GroupType.CLASSIC,
        GroupState.STABLE,
        assignor="range",
        members=members,
        offsets=offsets,
    )
    source = FakeSource(group, ends={("orders", n): 10 * n + 1 for n in range(3)})
    made = screen(row("billing", 30, rebalances=rebalances), opened_id="billing")
    made.opened = describe(source).data[0]
    return made


def test_an_open_group() -> None:
    rebalance = SeenRebalance(NOW_MS, 1, False, True, ("web-3",), ("web-1", "web-0"), 2)
    found = "\n".join(line.rstrip() for line in texts(opened([rebalance]), height=30))
    assert "billing\nclassic  Stable  1 member  lag 30  -/s  - behind  rebalances 0" in found
    assert (
        "MEMBERS (2)\n"
        "  member  host      partitions  lag\n"
        "  web-2   10.0.0.7           2   29\n"
        "  web-1   10.0.0.7           1    1\n"
    ) in found
    assert (
        "PARTITIONS (3), worst first\n"
        "  partition  offset  end  lag  behind  owner\n"
        "  orders-2        2   21   19       -  web-2\n"
        "  orders-1        1   11   10       -  web-2\n"
        "  orders-0        0    1    1       -  web-1\n"
    ) in found
    assert "at least 1; joined: web-3; left: web-1, web-0; 2 partitions\n    moved" in found


def test_an_open_group_scrolls() -> None:
    made = opened()
    made.first_line = 1 << 30
    found = texts(made, height=10)
    assert found[8].strip() == "none"
    assert made.first_line < 30


def test_an_open_group_that_is_gone() -> None:
    made = replace(opened(), rows=())
    assert "The group is gone" in "\n".join(texts(made))
