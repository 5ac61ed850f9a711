"""Groups whose rebalances are known, and the questions about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgroup.history.rebalance.query import find_storms, rebalances, storms_of
from kgroup.history.rebalance.rebalance import Rebalance
from kgroup.history.sql.engine import DuckEngine, Engine
from tests.history.warehouse_files import write_rows

T = 1_700_000_000_000

Row = dict[str, Any]


# --- cases by hand -------------------------------------------------------------------------------


def member(name: str, owned: str | None = "", **more: object) -> Row:
    """A member of a classic group; it owns partitions of "orders" by their digits."""
    assigned: list[Row] | None = None
    if owned is not None:
        numbers = [int(digit) for digit in owned]
        nothing = {"topic_id": None, "subtopology": None, "role": None}
        assigned = [{"topic": "orders", "partitions": numbers, **nothing}]
    return {
        "member_id": name,
        "client_id": f"client-{name[0]}",
        "client_host": "/10.0.0.1",
        "group_type": "classic",
        "subscribed_topics": ["orders"],
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "assignment": assigned,
    } | more


def classic(number: int, at_s: float, *members: Row, **more: object) -> tuple[Row, list[Row]]:
    """A generation, complete 5 ms after all members had joined; log offsets are seconds."""
    place: Row = {
        "offsets_partition": 7,
        "log_offset": int(at_s * 10),
        "time_ms": T + int(at_s * 1000),
        "log_leader_epoch": more.pop("log_leader_epoch", 0),
        "group_id": "g",
    }
    row = place | {
        "generation_id": number,
        "protocol": "range" if members else None,
        "state_timestamp_ms": place["time_ms"] - 5,
        "member_count": len(members),
    }
    return row | more, [place | {"generation_id": number} | each for each in members]


def commits(partition: int, *at_s: float) -> list[Row]:
    return [
        {
            "offsets_partition": 7,
            "log_offset": int(each * 10) + 1,
            "time_ms": T + int(each * 1000),
            "group_id": "g",
            "topic": "orders",
            "partition": partition,
            "committed_offset": int(each),
        }
        for each in at_s
    ]


def ask(
    folder: Path, *generations: tuple[Row, list[Row]], **tables: Iterable[Row]
) -> Sequence[Rebalance]:
    return ask_report(folder, *generations, **tables)[0]


def ask_report(
    folder: Path, *generations: tuple[Row, list[Row]], **tables: Iterable[Row]
) -> tuple[Sequence[Rebalance], tuple[str, ...]]:
    """Return the rebalances of a group, and the notes."""
    rows: dict[str, Iterable[Row]] = {
        "group_generations": [row for row, _ in generations],
        "members": [each for _, members in generations for each in members],
        **tables,
    }
    with DuckEngine(write_rows(folder, rows)) as engine:
        check_storms(engine, (2, 5_000), (4, 30_000))
        report = rebalances(engine, "g")
        return report.data, report.notes


def check_storms(engine: Engine, *rates: tuple[int, int], **span: Any) -> None:
    """Check that storms and notes of all groups are those in the rebalances of all groups."""
    every = rebalances(engine, **span)
    for count, within_ms in rates:
        found = find_storms(engine, count=count, within_ms=within_ms, **span)
        assert found.data == tuple(storms_of(every.data, count, within_ms))
        nothing = "" if found.data else found.notes[0]
        assert nothing.startswith("No storm") is not bool(found.data)
        assert found.notes == ((nothing, *every.notes) if nothing else every.notes)


def ask_cases(
    folder: Path, cases: Mapping[str, Iterable[tuple[Row, list[Row]] | list[Row]]]
) -> Mapping[str, Sequence[Rebalance]]:
    """Ask once about many groups: each has the generations and commits of a case, and its name."""
    rows = defaultdict[str, list[Row]](list)
    for number, (case, given) in enumerate(cases.items()):
        place = {"group_id": case, "offsets_partition": number}
        for each in given:
            if isinstance(each, list):
                rows["offset_commits"] += [row | place for row in each]
            else:
                rows["group_generations"].append(each[0] | place)
                rows["members"] += [row | place for row in each[1]]
    found = defaultdict[str, list[Rebalance]](list)
    with DuckEngine(write_rows(folder, rows)) as engine:
        for rebalance in rebalances(engine).data:
            found[rebalance.group_id].append(rebalance)
    return found


A, B = member("a1", "01"), member("b1", "23")
ALONE = member("a1", "0123")
STATIC = {"instance_id": "pod-1"}
