"""The table `damage`: what of it stays, what goes, and what counts as new."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kgroup.cli.command import history
from kgroup.errors import InputError, ProblemKind
from kgroup.history.build import task
from kgroup.history.build.cluster_update import DamageRow, damage_row, damage_rows, replace_damage
from kgroup.history.build.task import SplitRead, SplitWork
from kgroup.history.input.split import OffsetRange, Split
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.table_file import OWN, FactWriter, WrittenFile, read_rows
from kgroup.history.warehouse.warehouse import LARGEST, read_warehouse
from kgroup.model.problem import Problem
from kgroup.protocol.batch.batch import Damage
from kgroup.source.config.client_config import client_config
from tests.cli.command_line import Cli
from tests.history.builds import SAMPLE, build
from tests.history.damaged_warehouse import DAMAGES, LOG_DIR, QUESTIONS, check_every_question
from tests.history.log_copy import read_log, write_log
from tests.history.recorded import Built
from tests.history.warehouse_files import write_rows


def row(position: int | None, kind: str = "bad-crc", path: str = "a.log") -> DamageRow:
    size = None if position is None else 5
    return {
        "offsets_partition": 2,
        "path": path,
        "position": position,
        "size": size,
        "kind": kind,
        "reason": "Expected this, found that.",
        "time_ms": 1000,
    }


def written(root: Path, rows: Sequence[DamageRow]) -> list[WrittenFile]:
    with FactWriter(root, "c", 1) as writer:
        replace_damage(root, [], rows, [], writer)
        return list(writer.finish())


def replaced(
    root: Path,
    files: Sequence[WrittenFile],
    rows: Sequence[DamageRow],
    reread: Sequence[tuple[str, int, int]],
) -> tuple[list[tuple[str, int | None, int]], int]:
    """Give path, position and time of the rows that there are then, and how many are new."""
    with FactWriter(root, "c", 2) as writer:
        gone, new = replace_damage(root, files, rows, reread, writer)
        now = [*(file for file in files if file.path not in gone), *writer.finish()]
    found = [each for file in now for each in read_rows(root, file).to_pylist()]
    return sorted((each["path"], each["position"] or -1, each["time_ms"]) for each in found), new


OLD = (row(10), row(20), row(30), row(None, "unreadable"), row(20, path="b.log"))


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (10, 11, [20, 30]),
        (11, 20, [10, 20, 30]),
        (11, 21, [10, 30]),
        (0, 40, []),
        (30, 40, [10, 20]),
        (0, 0, [10, 20, 30]),
    ],
)
def test_rows_go_where_bytes_were_read_again(
    tmp_path: Path, start: int, end: int, left: list[int]
) -> None:
    """Those of the whole file go, whatever was read of it; those of other files stay."""
    files = written(tmp_path, OLD)
    found, new = replaced(tmp_path, files, [], [("a.log", start, end)])
    assert found == [*(("a.log", at, 1000) for at in left), ("b.log", 20, 1000)]
    assert new == 0


def test_every_part_that_was_read_counts(tmp_path: Path) -> None:
    reread = [("b.log", 0, 9), ("a.log", 8, 12), ("a.log", 29, 31), ("c.log", 0, 99)]
    found, _ = replaced(tmp_path, written(tmp_path, OLD), [], reread)
    assert found == [("a.log", 20, 1000), ("b.log", 20, 1000)]


def test_damage_of_a_live_partition_has_no_position_and_stays(tmp_path: Path) -> None:
    """It was in a copy of what the leader gave, which goes on from there the next time."""
    config = client_config(environment={}, bootstrap_server="127.0.0.1:9")
    name = "__consumer_offsets-3"
    split = Split("c", 3, OffsetRange(0, 90, config), name, 0)
    damage = Damage(20, 5, ProblemKind.BAD_CRC, "Expected this, found that.")
    read = SplitRead(SplitWork(split, Coverage()), Coverage(), (damage,), 7, "there is no leader")
    rows = damage_rows(read)
    assert [(each["kind"], each["position"], each["size"]) for each in rows] == [
        ("bad-crc", None, 5),
        ("more", None, None),
        ("unreadable", None, None),
    ]
    files = written(tmp_path, rows)
    with FactWriter(tmp_path, "c", 2) as writer:
        replace_damage(tmp_path, files, [], [(name, 90, 95)], writer)
        (left,) = writer.finish()
    assert read_rows(tmp_path, left)["kind"].to_pylist() == ["bad-crc"]


def test_places_that_are_not_told_one_by_one_stay_as_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "MOST_DAMAGE", 2)
    batches = read_log(SAMPLE)[2]
    log = [bytearray(batch.data) for batch in batches[:10]]
    for number in (1, 3, 5, 7):
        log[number][30] ^= 0xFF
    folder = tmp_path / "log" / "__consumer_offsets-2"
    folder.mkdir(parents=True)
    path = folder / f"{0:020}.log"
    path.write_bytes(b"".join(log))
    begins = [sum(map(len, log[:number])) for number in range(11)]
    expected = [
        ("bad-crc", begins[1], len(log[1])),
        ("bad-crc", begins[3], len(log[3])),
        ("more", begins[4], begins[10] - begins[4]),
    ]
    sizes = {"read": begins[10], "passed over": 0, "read on": batches[10].size}
    for step, size in sizes.items():
        if step == "read on":
            path.write_bytes(path.read_bytes() + bytes(batches[10].data))
        (row,) = build(tmp_path / "w", tmp_path / "log").data
        assert row.bytes_read == size, step  # sound records behind damage: that stays as it is
        with read_warehouse(tmp_path / "w") as warehouse:
            (file,) = warehouse.files()["damage"]
            rows = pq.ParquetFile(file).read().to_pylist()
        assert [(each["kind"], each["position"], each["size"]) for each in rows] == expected, step
        assert rows[-1]["reason"] == "2 further places in these bytes cannot be read."


def test_what_is_found_again_is_not_new(tmp_path: Path) -> None:
    again = [each | {"time_ms": 2000} for each in (row(10), row(40), row(20, "torn-tail"))]
    files = written(tmp_path, OLD)
    found, new = replaced(tmp_path, files, again, [("a.log", 0, 99)])
    assert found == [
        ("a.log", 10, 1000),
        ("a.log", 20, 2000),
        ("a.log", 40, 2000),
        ("b.log", 20, 1000),
    ]
    assert new == 2


def test_what_cannot_be_read_for_long_is_one_row(tmp_path: Path) -> None:
    """A partition without a leader, say, of which nothing is read meanwhile."""
    problem = Problem(ProblemKind.NO_LEADER, "It has none.", offsets_partition=3)
    files = written(tmp_path, [damage_row(problem)])
    found, new = replaced(tmp_path, files, [damage_row(problem)], [])
    assert (len(found), new) == (1, 0)


def test_damage_that_stays_changes_nothing_and_what_is_repaired_is_not_counted(
    tmp_path: Path,
) -> None:
    write_log(tmp_path / "log", {2: read_log(SAMPLE)[2]})
    (path,) = (tmp_path / "log" / "__consumer_offsets-2").iterdir()
    sound = path.read_bytes()
    path.write_bytes(sound[:-10])
    for count in (1, 0):  # the end is looked at again by each build
        (report,) = build(tmp_path / "w", tmp_path / "log").data
        damage = next(table for table in report.tables if table.table == "damage")
        assert (report.damage_count, damage.new_row_count, damage.row_count) == (1, count, 1)
        with read_warehouse(tmp_path / "w") as warehouse:
            assert warehouse.build == 1
    path.write_bytes(sound)
    (report,) = build(tmp_path / "w", tmp_path / "log").data
    damage = next(table for table in report.tables if table.table == "damage")
    assert (report.damage_count, damage.new_row_count, damage.row_count) == (0, 0, 0)
    assert sum(table.new_row_count for table in report.tables) > 0  # of the record that was cut off


# ---- files of a warehouse that are not what a build wrote, and every question asked of it


def test_every_question_is_asked() -> None:
    others = {"build", "stream", "expire", "delete", "vacuum"}
    assert set(QUESTIONS) == set(history.command.commands) - others


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_question_names_a_damaged_file(
    recorded_warehouse: Built, cli: Cli, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    check_every_question(recorded_warehouse(LOG_DIR), cli, tmp_path, damage, "duckdb")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_behind_a_whole_one_is_named(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    rows = [{"time_ms": day * 86_400_000, "group_id": f"g{day}"} for day in (0, 1)]
    files = write_rows(tmp_path, {"offset_commits": rows})
    damage(files["offset_commits"][1])
    with pytest.raises(InputError) as caught, DuckEngine(files) as engine:
        engine.query("SELECT * FROM offset_commits")
    assert str(files["offset_commits"][1]) in str(caught.value)


@pytest.mark.parametrize("kind", ["state", "coverage"])
def test_a_file_that_is_too_large_is_not_read(
    recorded_warehouse: Built, tmp_path: Path, kind: str
) -> None:
    """In a folder that somebody else wrote a state may be of any size."""
    root = tmp_path / "warehouse"
    shutil.copytree(recorded_warehouse(LOG_DIR), root)
    files = sorted(path for path in (root / OWN / kind).iterdir() if path.is_file())
    for file in files:
        with file.open("r+b") as opened:
            opened.truncate(LARGEST + 1)
    with pytest.raises(InputError, match=f"at most {LARGEST:,} bytes, found") as exception_info:
        _read_all(root)
    assert any(str(file) in str(exception_info.value) for file in files)


def _read_all(root: Path) -> None:
    with read_warehouse(root) as warehouse:
        for cluster in warehouse.clusters:
            for partition in warehouse.state(cluster).partitions:
                warehouse.coverage(cluster, partition)
