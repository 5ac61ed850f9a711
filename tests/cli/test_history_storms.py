"""Storms of rebalances: cases by hand, and a recorded group."""

from __future__ import annotations

from pathlib import Path

from kgroup.history.rebalance.query import rebalances, storms_of
from kgroup.render.history import STORM_COLUMNS
from kgroup.render.sheet import Sheet
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.history.rebalance_case import ALONE, STATIC, A, B, T, ask, ask_cases, classic, member
from tests.history.recorded import Ask, Built

CASES = [
    ([1, 2, 3], [(1, 3, 3)]),
    ([1, 2, 11], [(1, 11, 3)]),  # ten seconds are in time
    ([1, 2, 12], []),
    ([1, 2], []),
    ([1, 5, 9, 13, 17], [(1, 17, 5)]),  # overlapping ones are one
    ([1, 2, 3, 50, 51, 52], [(1, 3, 3), (50, 52, 3)]),
    ([1, 30, 60, 61, 62, 90], [(60, 62, 3)]),
]
"""Times of rebalances, in seconds; and from when to when there were how many too often."""


def test_when(tmp_path: Path) -> None:
    cases = {
        str(times): [classic(number, at_s, ALONE) for number, at_s in enumerate(times, start=1)]
        for times, _ in CASES
    }
    found = ask_cases(tmp_path, cases)
    for times, storms in CASES:
        assert len(found[str(times)]) == len(times)
        assert [
            ((storm.from_ms - T) // 1000, (storm.to_ms - T) // 1000, storm.rebalance_count)
            for storm in storms_of(found[str(times)], 3, 10_000)
        ] == storms


def test_who(tmp_path: Path) -> None:
    found = ask(
        tmp_path,
        classic(1, 1, ALONE),
        classic(2, 2, A, B),
        classic(3, 3, ALONE),
        classic(4, 4, A, member("b2", "23")),
        classic(5, 5, A, member("b2", "23")),
    )
    (storm,) = storms_of(found, 5, 10_000)
    assert [(who.client_id, who.cause_count, who.member_count) for who in storm.started_by] == [
        ("client-b", 3, 2),
        ("client-a", 1, 1),
    ]
    assert storm.without_member_count == 1


def test_static_members_are_named_by_their_instance(tmp_path: Path) -> None:
    static = classic(2, 2, A, B | STATIC)
    (storm,) = storms_of(ask(tmp_path, classic(1, 1, ALONE), static, classic(3, 3, ALONE)), 3, 9000)
    (cells,) = Sheet.of(STORM_COLUMNS, [storm]).rows
    told = {column.name: cell for column, cell in zip(STORM_COLUMNS, cells, strict=True)}
    assert told["started_by"] == "pod-1 (2), client-a (1)"


def test_recorded_group(cli: Cli, recorded_engine: Ask, recorded_warehouse: Built) -> None:
    """Three members joined within 12 seconds, with a second rebalance each (see the manifest)."""
    found = rebalances(recorded_engine(sample_log_dir()), "order-service").data
    (storm,) = storms_of(found, 5, 15_000)
    assert [who.client_id for who in storm.started_by] == [
        f"order-service-{number}" for number in (1, 2, 3)
    ]
    args = (
        "history",
        "storms",
        "--warehouse",
        recorded_warehouse(sample_log_dir()),
        "order-service",
    )
    result = cli(*args, "--rate", "5/15s", "-o", "csv")
    assert result.status == 0
    assert "order-service-1 (1), order-service-2 (1), order-service-3 (1)" in result.out
    for wrong in ("5", "1/10m", "x/10m", "5/", "5/soon"):
        result = cli(*args, "--rate", wrong)
        assert result.status == 2
        assert "Invalid value for '--rate': " in result.err
