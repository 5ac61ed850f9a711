"""The table `damage`: what of it stays, what goes, and what counts as new."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kgroup.cli.command import history
from kgroup.errors import InputError, ProblemKind
from kgroup.history.build import task
from kgroup.history.build.build import Build, build_from_files
from kgroup.history.build.cluster_update import DamageRow, damage_row, damage_rows, replace_damage
from kgroup.history.build.divergence import Divergence
from kgroup.history.build.task import SplitRead, SplitWork
from kgroup.history.input.split import OffsetRange, Split
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.sql.view import view_statements
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.table import ADDED, TABLES, WarehouseTable
from kgroup.history.warehouse.table_file import OWN, FactWriter, WrittenFile, read_rows
from kgroup.history.warehouse.warehouse import LARGEST, read_warehouse, write_warehouse
from kgroup.model.problem import Problem
from kgroup.protocol.batch.batch import Damage, RecordBatch
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
        "first_offset": None,
        "last_offset": None,
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
    diverging = Divergence(60, 80, "Expected this, found that.", is_lasting=False)
    read = SplitRead(
        SplitWork(split, Coverage()),
        Coverage(),
        (damage,),
        7,
        "there is no leader",
        divergences=(diverging,),
    )
    rows = damage_rows(read)
    assert [(each["kind"], each["position"], each["size"]) for each in rows] == [
        ("bad-crc", None, 5),
        ("more", None, None),
        ("diverging", None, 0),
        ("unreadable", None, None),
    ]
    files = written(tmp_path, rows)
    with FactWriter(tmp_path, "c", 2) as writer:
        replace_damage(tmp_path, files, [], [(name, 90, 95)], writer)
        (left,) = writer.finish()
    assert read_rows(tmp_path, left)["kind"].to_pylist() == ["bad-crc", "diverging"]


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


# ---- damage that heals


def damaged_copy(folder: Path, batches: Sequence[RecordBatch], *numbers: int) -> Path:
    """Write a log directory whose partition 2 has a bad checksum in some batches."""
    write_log(folder, {2: batches})
    (path,) = (folder / "__consumer_offsets-2").iterdir()
    data = bytearray(path.read_bytes())
    for number in numbers:
        data[sum(batch.size for batch in batches[:number]) + 30] ^= 0xFF
    path.write_bytes(data)
    return path


def damage_of(root: Path) -> list[tuple[str, int | None, int | None]]:
    """Give kind and offsets of the rows."""
    with read_warehouse(root) as warehouse, DuckEngine(warehouse.files()) as engine:
        rows = engine.query("SELECT kind, first_offset, last_offset FROM damage ORDER BY 2, 3")
    return [tuple(each.values()) for each in rows.to_pylist()]


def lost_in(batches: Sequence[RecordBatch], number: int) -> tuple[str, int, int]:
    following = batches[number + 1].base_offset
    assert following is not None
    return "bad-crc", batches[number - 1].last_offset + 1, following - 1


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("is_sound_first", [False, True])
def test_another_copy_heals(tmp_path: Path, is_compacted: bool, is_sound_first: bool) -> None:
    """Whichever is read first, by the offsets around, also if compaction removed records there."""
    batches = read_log(SAMPLE)[2]
    damaged_copy(tmp_path / "a", batches, 3, 7)
    damaged_copy(
        tmp_path / "b", [batch for at, batch in enumerate(batches) if at != 3 or not is_compacted]
    )
    one, other = ("b", "a") if is_sound_first else ("a", "b")
    build(tmp_path / "w", tmp_path / one)
    expected = [] if is_sound_first else [lost_in(batches, 3), lost_in(batches, 7)]
    assert damage_of(tmp_path / "w") == expected
    (report,) = build(tmp_path / "w", tmp_path / other).data
    assert damage_of(tmp_path / "w") == []
    assert report.damage_count == (2 if is_sound_first else 0)  # it was found all the same


def test_a_copy_with_damage_there_does_not_heal(tmp_path: Path) -> None:
    batches = read_log(SAMPLE)[2]
    damaged_copy(tmp_path / "a", batches, 3, 7)
    damaged_copy(tmp_path / "b", batches, 7, 9)
    for _ in range(2):
        build(tmp_path / "w", tmp_path / "a", tmp_path / "b")
        found = damage_of(tmp_path / "w")
        assert found == [lost_in(batches, 7), lost_in(batches, 7)]


def test_a_copy_that_lacks_a_segment_does_not_heal(tmp_path: Path) -> None:
    """The segment before seems to reach up to the one behind, with a gap by compaction."""
    batches = read_log(SAMPLE)[2]
    damaged_copy(tmp_path / "a", batches, 7)
    path = damaged_copy(tmp_path / "b", [*batches[:2], *batches[3:6]])
    (path.parent / f"{batches[9].base_offset:020}.log").write_bytes(
        b"".join(batch.data for batch in batches[9:])
    )
    build(tmp_path / "w", tmp_path / "a", tmp_path / "b")
    assert damage_of(tmp_path / "w") == [lost_in(batches, 7)]


def test_what_is_lost_at_the_end_of_a_log_is_unknown(tmp_path: Path) -> None:
    batches = read_log(SAMPLE)[2]
    damaged_copy(tmp_path / "a", batches[:5], 4)
    damaged_copy(tmp_path / "b", batches[:4])
    build(tmp_path / "w", tmp_path / "a", tmp_path / "b")
    assert damage_of(tmp_path / "w") == [("bad-crc", batches[3].last_offset + 1, None)]


def test_a_repaired_file_is_not_passed_over(tmp_path: Path) -> None:
    """Its size and both its ends are as before, and its path is another one."""
    batches = read_log(SAMPLE)[2]
    middle = next(at for at, batch in enumerate(batches) if batch.position > 4096)
    path = damaged_copy(tmp_path / "a", batches, middle)
    assert batches[middle + 1].position < path.stat().st_size - 4096
    for skipped in (0, 1):
        (report,) = build(tmp_path / "w", tmp_path / "a").data
        assert (report.segments_skipped, len(damage_of(tmp_path / "w"))) == (skipped, 1)
    (tmp_path / "a").rename(tmp_path / "b")
    damaged_copy(tmp_path / "b", batches)
    (report,) = build(tmp_path / "w", tmp_path / "b").data
    assert report.new_record_count == batches[middle].record_count
    assert damage_of(tmp_path / "w") == []


def test_damage_before_new_records_still_identifies_a_file(tmp_path: Path) -> None:
    batches = read_log(SAMPLE)[2]
    damaged_copy(tmp_path / "a", batches[:30], 5)
    build(tmp_path / "w", tmp_path / "a")
    damaged_copy(tmp_path / "a", batches, 5)
    (report,) = build(tmp_path / "w", tmp_path / "a").data
    assert report.bytes_read == sum(batch.size for batch in batches[30:])
    damaged_copy(tmp_path / "a", batches)
    build(tmp_path / "w", tmp_path / "a")
    assert damage_of(tmp_path / "w") == []


def test_a_folder_that_cannot_be_read_is_damage_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the cluster of its log directory, or of the one that was named."""
    log = read_log(SAMPLE)
    write_log(tmp_path / "log", {2: log[2], 3: log[2]})
    hidden = tmp_path / "log" / "__consumer_offsets-3"
    with monkeypatch.context() as patch:
        _hide(patch, hidden)
        with write_warehouse(tmp_path / "w") as writer:
            report = build_from_files([str(tmp_path / "log")], "c")(Build(writer))
    (error,) = report.errors
    assert (error.path, error.offsets_partition) == (str(hidden), 3)
    assert damage_of(tmp_path / "w") == [("unreadable", None, None)]
    build(tmp_path / "w", tmp_path / "log")
    assert damage_of(tmp_path / "w") == []


def _hide(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    listed = os.scandir

    def scandir(path: str | Path) -> Any:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_table_without_offsets_is_read_and_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version wrote it: all its readers find nulls, and the next build adds columns."""
    batches = read_log(SAMPLE)[2]
    damaged_copy(tmp_path / "a", batches, 3)
    root = tmp_path / "w"
    table = TABLES["damage"]
    columns = {name: column for name, column in table.columns.items() if name not in ADDED}
    with monkeypatch.context() as patch:
        patch.setitem(
            cast("dict[str, WarehouseTable]", TABLES), "damage", replace(table, columns=columns)
        )
        build(root, tmp_path / "a")
    with read_warehouse(root) as warehouse:
        (file,) = warehouse.files()["damage"]
        assert "first_offset" not in pq.read_schema(file).names
        statements = "\n".join(view_statements(1, warehouse.files()))
    assert damage_of(root) == [("bad-crc", None, None)]
    rows = duckdb.sql(f"{statements}SELECT kind, last_offset FROM damage").fetchall()
    assert rows == [("bad-crc", None)]
    damaged_copy(tmp_path / "b", batches[:9], 3)
    build(root, tmp_path / "b")
    found = sorted(damage_of(root), key=str)
    assert found == [lost_in(batches, 3), ("bad-crc", None, None)]
    delta = DeltaTable(root / "damage").to_pyarrow_table()["first_offset"]
    assert sorted(delta.to_pylist(), key=str) == [found[0][1], None]
