"""The picture of who owned what, in letters."""

from pathlib import Path

from kgroup.history.engine import DuckEngine
from kgroup.history.timeline import timeline
from kgroup.render.history_picture import picture_text
from tests.history.test_owner import interval
from tests.history.warehouse_files import write_rows


def drawn(folder: Path, *rows: dict[str, object], width: int = 80) -> list[str]:
    with DuckEngine(
        write_rows(
            folder,
            {"assignments": rows, "tombstones": [{"group_id": "g", "type": "GroupMetadata"}]},
        )
    ) as engine:
        return "".join(picture_text(timeline(engine, "g").data, width)).splitlines()


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
    assert any(line.startswith("A  a  /10.0.0.1") for line in lines)


def test_several_at_once(tmp_path: Path) -> None:
    lines = drawn(tmp_path, interval("a", 0, 100, "gone"), interval("b", 0, None))
    assert lines[0].partition(" |")[2].startswith("++++")


def test_nothing_is_wider_than_the_terminal(tmp_path: Path) -> None:
    lines = drawn(tmp_path, interval("m" * 90, 0, None, topic="t" * 90), width=60)
    assert max(map(len, lines[:1])) <= 60
    assert max(len(line) for line in lines if line.startswith("A")) <= 60
