"""The picture of who owned what, in letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.history.query.owner import timeline
from kgroup.history.sql.engine import DuckEngine
from kgroup.render.history import MOST_MEMBERS, MOST_ROWS, picture_text
from tests.history.owner_story import T, interval
from tests.history.warehouse_files import write_rows


def drawn(
    folder: Path,
    *rows: dict[str, object],
    width: int = 80,
    since: int | None = None,
    until: int | None = None,
    last: int | None = None,
) -> list[str]:
    since_ms, until_ms, last_ms = (
        None if second is None else T + second * 1000 for second in (since, until, last)
    )
    with DuckEngine(
        write_rows(
            folder,
            {"assignments": rows, "tombstones": [{"group_id": "g", "type": "GroupMetadata"}]},
        )
    ) as engine:
        intervals = timeline(engine, "g", since_ms=since_ms, until_ms=until_ms).data
        drawing = picture_text(
            intervals, width, since_ms=since_ms, until_ms=until_ms, last_ms=last_ms
        )
        return "".join(drawing).splitlines()


def test_letters_follow_the_owners(tmp_path: Path) -> None:
    lines = drawn(
        tmp_path,
        interval("a", 0, 50, "moved"),
        interval("b", 50, 100, "gone"),
        interval("a", 0, None, partition=4),
        width=51,
    )
    first, second = (line.partition(" |")[2] for line in lines[:2])
    assert [line.partition(" |")[0] for line in lines[:2]] == ["orders-3", "orders-4"]
    assert len(first) == len(second) == 40
    assert second == "A" * 40
    # 40 cells of 105 s: one of 2.625 s has 50 s in it, and another the last 0.25 s of "b".
    assert first == "A" * 19 + "B" * 20 + "."
    assert any(line.startswith("A  a  client of a  /10.0.0.1") for line in lines)


def test_only_the_time_that_is_asked_for_is_drawn(tmp_path: Path) -> None:
    """What "c" had later is not among the stretches then, and "nobody" would be untrue."""
    rows = (
        interval("a", 0, 50, "moved"),
        interval("b", 50, 100, "moved"),
        interval("c", 100, None),
        interval("a", 0, None, partition=4),
    )
    lines = drawn(tmp_path, *rows, width=51, since=40, until=80)
    assert [line.partition(" |")[2] for line in lines[:2]] == ["A" * 10 + "B" * 30, "A" * 40]
    assert [line.split() for line in lines[2:4]] == [
        ["2023-11-14T22:14:00.000Z"],
        ["2023-11-14T22:14:40.000Z"],
    ]
    # behind all that is known: as the last rebalance left it
    lines = drawn(tmp_path / "late", *rows, width=51, since=900, last=500)
    assert [line.partition(" |")[2] for line in lines[:2]] == ["A" * 40, "B" * 40]


def test_what_goes_on_is_drawn_up_to_the_last_record(tmp_path: Path) -> None:
    rows = (interval("a", 0, 50, "moved"), interval("b", 50, None))
    line = drawn(tmp_path, *rows, width=51, last=200)[0].partition(" |")[2]
    assert (line.count("A"), line.count("B")) == (10, 30)  # 50 of 210 s


def test_several_at_once(tmp_path: Path) -> None:
    lines = drawn(tmp_path, interval("a", 0, 100, "gone"), interval("b", 0, None))
    assert lines[0].partition(" |")[2].startswith("++++")


def test_nothing_is_wider_than_the_terminal(tmp_path: Path) -> None:
    lines = drawn(tmp_path, interval("m" * 90, 0, None, topic="t" * 90), width=60)
    assert max(map(len, lines[:1])) <= 60
    assert max(map(len, lines)) <= 60
    lines = drawn(tmp_path / "narrow", interval("m" * 90, 0, None), width=40)
    assert max(map(len, lines)) <= 40
    names = lines[lines.index("A  " + "m" * 37) :]
    assert names[1] == "   " + "m" * 37
    assert names[2].startswith("   " + "m" * 16 + "  client of")
    assert names[-2].endswith("m  /10.0.0.1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "told"),
    [(1, "1 more partition or task is not shown."), (3, "3 more partitions or tasks are not")],
)
def test_so_many_partitions_are_drawn(tmp_path: Path, more: int, told: str) -> None:
    rows = [interval("a", 0, 9, "gone", partition=number) for number in range(MOST_ROWS + more)]
    lines = drawn(tmp_path, *rows)
    assert sum(" |" in line for line in lines) == MOST_ROWS
    assert [line for line in lines if line.startswith(told)]


@pytest.mark.parametrize(("more", "told"), [(1, "*  1 more member"), (2, "*  2 more members")])
def test_so_many_members_have_a_letter(tmp_path: Path, more: int, told: str) -> None:
    rows = [interval(f"m{n}", n, n + 1, "moved") for n in range(MOST_MEMBERS + more)]
    assert drawn(tmp_path, *rows)[-2] == told
