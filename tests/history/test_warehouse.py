"""What counts in a warehouse, and what others at work there are kept from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from socket import gethostname
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kgroup.errors import BusyError, InputError, KgroupError, UsageError
from kgroup.history.warehouse import warehouse as module
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.delta_log import DeltaLog
from kgroup.history.warehouse.state import ClusterState, PartitionState, SeenSegment
from kgroup.history.warehouse.store import Location, RemotePath
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import Limits, WrittenFile
from kgroup.history.warehouse.warehouse import (
    TemporaryWarehouse,
    WarehouseWriter,
    read_warehouse,
    write_warehouse,
)
from tests.history import builds
from tests.history.build_file import change_state, state_file
from tests.history.warehouse_files import escaped

COVERAGE = Coverage.of(np.array([3, 4, 9], np.int64))
SEEN = SeenSegment(0, 4711, "ab" * 16)


def made(root: Path, name: str, cluster: str = "east") -> WrittenFile:
    """Make a file that looks like one of a table."""
    path = f"tombstones/{escaped(cluster)}/2026-01-01/{name}.parquet"
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(b"rows")
    limits = {"offsets_partition": Limits(7, 7, 0), "log_offset": Limits(3, 9, 0)}
    return WrittenFile("tombstones", cluster, path, 1, 4, {**limits, "time_ms": NO_TIME})


NO_TIME = Limits(None, None, 1)


@pytest.fixture
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove replaced files at once."""
    monkeypatch.setattr(module, "KEPT_MS", 0)


def build(root: Path, *names: str, cluster: str = "east") -> ClusterState:
    """Let files of these names be all that a cluster has."""
    with write_warehouse(root) as writer:
        writer.check(cluster)
        state = ClusterState(
            tuple(made(root, name, cluster) for name in names),
            {7: PartitionState(None, (SEEN,), 12, None, None, None)},
            {},
        )
        writer.commit({cluster: state}, {(cluster, 7): COVERAGE})
        return writer.state(cluster)


def paths(files: Iterable[Location]) -> list[Path]:
    return [path for path in files if isinstance(path, Path)]


def tables_on_disk(root: Path) -> list[str]:
    return sorted(path.stem for path in root.glob("*/*/*/*.parquet"))


def own_files(root: Path) -> list[str]:
    return sorted(
        path.relative_to(root / "_kgroup").as_posix()
        for path in (root / "_kgroup").rglob("*")
        if path.is_file()
    )


def test_what_was_committed_is_read_again(tmp_path: Path) -> None:
    state = build(tmp_path / "new", "1-a")
    with read_warehouse(tmp_path / "new") as warehouse:
        assert warehouse.build == 1
        assert warehouse.clusters == ("east",)
        assert warehouse.state("east") == state
        assert warehouse.state("east").partitions[7].seen == (SEEN,)
        assert warehouse.coverage("east", 7) == COVERAGE
        assert warehouse.coverage("east", 8) == Coverage()
        files = warehouse.files()
    assert files.keys() == TABLES.keys()
    assert [path.stem for path in paths(files["tombstones"])] == ["1-a"]
    assert not files["members"]


def test_clusters_lie_side_by_side(tmp_path: Path) -> None:
    build(tmp_path, "1-a", cluster="east")
    build(tmp_path, "2-a", cluster="west")
    with read_warehouse(tmp_path) as warehouse:
        assert warehouse.clusters == ("east", "west")
        assert [path.stem for path in paths(warehouse.files()["tombstones"])] == ["1-a", "2-a"]
        assert [path.stem for path in paths(warehouse.files("west")["tombstones"])] == ["2-a"]
        assert warehouse.coverage("east", 7) == COVERAGE


def test_what_is_replaced_is_kept_for_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For those who are reading it; what is still valid is kept longer."""
    build(tmp_path, "1-a", "1-b")
    with read_warehouse(tmp_path) as before:
        build(tmp_path, "1-b", "2-a")
        assert [path.stem for path in paths(before.files()["tombstones"])] == ["1-a", "1-b"]
        assert before.coverage("east", 7) == COVERAGE
        assert before.state("east").partitions[7].seen == (SEEN,)
        with read_warehouse(tmp_path) as after:
            assert [path.stem for path in paths(after.files()["tombstones"])] == ["1-b", "2-a"]
    assert tables_on_disk(tmp_path) == ["1-a", "1-b", "2-a"]
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + module.KEPT_MS * 1_000_000)
    build(tmp_path, "1-b", "3-a")
    assert tables_on_disk(tmp_path) == ["1-b", "2-a", "3-a"]
    with read_warehouse(tmp_path) as warehouse:
        kept = warehouse.listed()
    own = {f"_kgroup/{name}" for name in own_files(tmp_path) if name.endswith((".npy", ".parquet"))}
    assert {path for path in kept if path.startswith("_kgroup/")} == own
    assert len(own) == 6  # of the cluster and of the warehouse, and a coverage, by the last two


@pytest.mark.usefixtures("nothing_is_kept")
def test_what_is_replaced_is_removed(tmp_path: Path) -> None:
    build(tmp_path, "1-a", "1-b")
    build(tmp_path, "1-b", "2-a")
    assert tables_on_disk(tmp_path) == ["1-b", "2-a"]
    assert [re.sub("[0-9a-f]{32}", "*", name) for name in own_files(tmp_path)] == [
        "coverage/2-*.npy",
        "lock",
        "state/2-*.parquet",
        "state/2-*.parquet",
        "state/_delta_log/00000000000000000000.json",
        "state/_delta_log/00000000000000000001.json",
    ]


def test_an_error_leaves_the_old_state(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    before = own_files(tmp_path)

    def fail() -> None:
        with write_warehouse(tmp_path):
            made(tmp_path, "2-a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert tables_on_disk(tmp_path) == ["1-a"]
    # what remains to be done is to look again whether executors wrote on
    assert own_files(tmp_path) == sorted([*before, "unfinished"])
    made(tmp_path, "2-b")
    build(tmp_path, "1-a")
    assert tables_on_disk(tmp_path) == ["1-a"]
    assert "unfinished" not in own_files(tmp_path)


@pytest.mark.parametrize("of_table", [True, False])
def test_a_commit_that_fails_counts_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_table: bool
) -> None:
    """Whether it is that of a table or, after all of these, that of the state."""
    build(tmp_path, "1-a")
    commit = DeltaLog.commit

    def full(log: DeltaLog, *args: Any) -> bool:
        if of_table or log.path.name == "state":
            raise OSError(28, "No space left on device")
        return commit(log, *args)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", full)
        with pytest.raises(OSError, match="No space"):
            build(tmp_path, "2-a")
    with read_warehouse(tmp_path) as warehouse:
        assert [path.stem for path in paths(warehouse.files()["tombstones"])] == ["1-a"]
        assert warehouse.coverage("east", 7) == COVERAGE
    # as long as the state cannot be written, files stay
    assert tables_on_disk(tmp_path) == (["1-a"] if of_table else ["1-a", "2-a"])
    assert newest(tmp_path) == ["1-a"]
    build(tmp_path, "1-a", "2-b")
    assert newest(tmp_path) == ["1-a", "2-b"]


def test_a_first_build_that_fails_between_commits_leaves_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next build may be of another cluster, which replaces none of its files."""
    commit = DeltaLog.commit
    failures = [OSError(28, "No space left on device")]

    def full_once(log: DeltaLog, *args: Any) -> bool:
        if log.path.name == "state" and failures:
            raise failures.pop()
        return commit(log, *args)

    monkeypatch.setattr(DeltaLog, "commit", full_once)
    with pytest.raises(OSError, match="No space"):
        builds.build(tmp_path, builds.SAMPLE, cluster="east")
    builds.build(tmp_path, builds.SAMPLE, cluster="west")
    with read_warehouse(tmp_path) as warehouse:
        for name, files in warehouse.files().items():
            assert all(path.exists() for path in files)
            assert warehouse.row_count(name) == warehouse.row_count(name, "west")


def test_why_a_log_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, without the colours and the stack trace of delta-rs."""
    build(tmp_path, "1-a")

    def fail(*args: Any, **options: Any) -> None:
        raise OSError(
            "Generic error\n   \x1b[31m↳\x1b[0m Unable to open file x\n   \x1b[31m↳\x1b[0m No "
            "space left\n   0: <unknown>\n"
        )

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fail)
    log = tmp_path / "tombstones" / "_delta_log"
    with pytest.raises(
        OSError, match=f"^{log}: Generic error: Unable to open file x: No space left$"
    ):
        build(tmp_path, "2-a")


def newest(root: Path) -> list[str]:
    """What other engines find in a table."""
    table = DeltaTable(root / "tombstones")
    return sorted(Path(path).stem for path in table.file_uris())


def test_an_interrupt_behind_the_commit_point_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, "1-a")
    commit = DeltaLog.commit

    def interrupted(log: DeltaLog, *args: Any) -> bool:
        is_first = commit(log, *args)
        if log.path.name == "state":
            raise KeyboardInterrupt
        return is_first

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path, "2-a")
    with read_warehouse(tmp_path) as warehouse:
        assert [path.stem for path in paths(warehouse.files()["tombstones"])] == ["2-a"]
        assert all(path.exists() for path in paths(warehouse.files()["tombstones"]))
        assert warehouse.coverage("east", 7) == COVERAGE
    build(tmp_path, "3-a")
    assert newest(tmp_path) == ["3-a"]


def test_tables_that_are_ahead_of_the_state_are_set_right_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other engines would look for files that are gone; also after a build that was killed."""
    build(tmp_path, "1-a")
    commit = DeltaLog.commit

    def interrupted(log: DeltaLog, *args: Any) -> bool:
        if log.path.name == "state":
            patch.undo()
            raise KeyboardInterrupt
        return commit(log, *args)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path, "2-a")
    assert newest(tmp_path) == tables_on_disk(tmp_path) == ["1-a"]
    build_alone(tmp_path, "3-a")
    log = DeltaLog(tmp_path / "tombstones", TABLES["tombstones"].full_schema, "")
    assert log.read()
    assert log.commit(4, {}, {"east/2026-01-01/3-a.parquet": 4})
    (tmp_path / "_kgroup" / "unfinished").touch()
    with write_warehouse(tmp_path):
        assert newest(tmp_path) == ["3-a"]


@pytest.mark.parametrize("cluster", [".", "..", "a.b", "_", "%", "é"])
@pytest.mark.parametrize("folder", ["w", "a b#?ü%2"])
def test_names_of_clusters_and_folders(tmp_path: Path, cluster: str, folder: str) -> None:
    root = tmp_path / folder
    build(root, "1-a", cluster=cluster)
    build(root, "1-a", "2-a", cluster=cluster)
    with read_warehouse(root) as warehouse:
        found = paths(warehouse.files(cluster)["tombstones"])
        assert [path.read_bytes() for path in found] == [b"rows", b"rows"]
        assert all(path.parents[2] == root / "tombstones" for path in found)
    assert newest(root) == ["1-a", "2-a"]


def test_logs_are_summarized_and_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only behind the commit of the state, and on the disk before the next one."""
    state = build(tmp_path, "1-a")
    synced: list[str] = []
    fsync = os.fsync

    def watched(number: int) -> None:
        fsync(number)
        synced.append(os.readlink(f"/proc/self/fd/{number}"))

    monkeypatch.setattr(os, "fsync", watched)
    for _ in range(100):
        with write_warehouse(tmp_path) as writer:
            writer.commit({"east": replace(state, topic_names={"id": str(writer.build)})}, {})
    log = tmp_path / "_kgroup" / "state" / "_delta_log"
    names = [path.name for path in log.iterdir() if path.suffix != ".json"]
    assert sorted(names) == [f"{100:020}.checkpoint.parquet", "_last_checkpoint"]
    assert {str(log / name) for name in names} <= set(synced)
    assert DeltaTable(log.parent).metadata().configuration == {
        "delta.logRetentionDuration": "interval 1 day"
    }


def test_a_commit_of_somebody_else_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an object store, which has no lock: the table is right again with the next build."""
    build(tmp_path, "1-a")
    read = DeltaLog.read

    def late(log: DeltaLog, version: int | None = None) -> bool:
        is_there = read(log, version)
        if version is None and log.path.name == "tombstones":
            patch.undo()
            build_alone(tmp_path, "2-b")
        return is_there

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "read", late)
        with pytest.raises(BusyError, match="another build was committed at the same time"):
            build(tmp_path, "2-a")
    with read_warehouse(tmp_path) as warehouse:
        assert [path.stem for path in paths(warehouse.files()["tombstones"])] == ["2-b"]
    build(tmp_path, "2-b", "3-a")
    assert newest(tmp_path) == ["2-b", "3-a"]


def build_alone(root: Path, name: str) -> None:
    """Let this be the only file, without the lock."""
    writer = WarehouseWriter(root)
    writer.commit({"east": replace(writer.state("east"), files=(made(root, name),))}, {})


def test_each_table_says_what_it_has(tmp_path: Path) -> None:
    """Other engines skip files by these limits."""
    build(tmp_path, "1-a", cluster="eu/1 ö")
    for name, table in TABLES.items():
        delta = DeltaTable(tmp_path / name)
        assert delta.metadata().partition_columns == []
        assert delta.metadata().description == table.row
        schema = pa.schema(delta.schema())
        assert schema.names == [*table.schema.names, "cluster", "date"]
        assert [field.type for field in schema][:-2] == [field.type for field in table.schema]
    [row] = pa.table(DeltaTable(tmp_path / "tombstones").get_add_actions(flatten=True)).to_pylist()
    assert row["path"] == "eu_2F1_20_C3_B6/2026-01-01/1-a.parquet"
    assert (row["min.cluster"], row["max.cluster"]) == ("eu/1 ö", "eu/1 ö")
    assert (row["min.date"], row["max.date"]) == (date(2026, 1, 1), date(2026, 1, 1))
    assert (row["num_records"], row["min.log_offset"], row["max.log_offset"]) == (1, 3, 9)
    assert (row["min.time_ms"], row["null_count.time_ms"]) == (None, 1)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    (tmp_path / "notes.txt").write_text("mine")
    other = made(tmp_path, "mine").path
    (tmp_path / "_kgroup" / "unfinished").touch()
    made(tmp_path, "2-left")
    build(tmp_path, "1-a")
    assert tables_on_disk(tmp_path) == ["1-a", "mine"]
    assert (tmp_path / other).exists()
    assert (tmp_path / "notes.txt").exists()


def test_what_lost_executors_left_is_removed_by_the_build_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tasks were done again. Folders of other clusters are not looked through for that."""
    build(tmp_path, "1-a", cluster="west")
    build(tmp_path, "2-a", cluster="prod/1")
    looked: list[str] = []
    scandir = os.scandir

    def watched(path: str) -> object:
        looked.append(str(path))
        return scandir(path)

    with monkeypatch.context() as patch, write_warehouse(tmp_path) as writer:
        patch.setattr(os, "scandir", watched)
        files = (*writer.state("prod/1").files, made(tmp_path, "3-a", "prod/1"))
        for name in ("3-lost", "mine"):
            made(tmp_path, name, "prod/1")
        writer.commit({"prod/1": ClusterState(files, {}, {})}, {})
    assert tables_on_disk(tmp_path) == ["1-a", "2-a", "3-a", "mine"]
    assert any("/prod_2F1" in path for path in looked)
    assert not [path for path in looked if "/west" in path]


def test_what_executors_of_a_killed_build_write_on_is_removed(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    (tmp_path / "_kgroup" / "unfinished").touch()
    made(tmp_path, "2-left", "west")
    with write_warehouse(tmp_path):
        assert tables_on_disk(tmp_path) == ["1-a"]
        made(tmp_path, "2-late", "west")
    assert tables_on_disk(tmp_path) == ["1-a"]
    assert not (tmp_path / "_kgroup" / "unfinished").exists()


def test_the_mark_of_a_build_is_on_the_disk_before_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "_kgroup"
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watched(number: int) -> None:
        fsync(number)
        synced.append((os.readlink(f"/proc/self/fd/{number}"), (own / "unfinished").exists()))

    monkeypatch.setattr(os, "fsync", watched)
    with write_warehouse(tmp_path):
        assert synced == [(str(own), True)]


def test_all_that_a_state_needs_is_on_the_disk_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so are the folders that name these files. What lies above is not ours."""
    root = tmp_path / "w"
    build(root, "1-a")
    synced: list[str] = []
    fsync, commit = os.fsync, DeltaLog.commit

    def watched(number: int) -> None:
        fsync(number)
        path = os.readlink(f"/proc/self/fd/{number}").removeprefix(f"{root}/")
        synced.append(re.sub("[0-9a-f]{32}", "*", path))

    def committed(log: DeltaLog, *args: Any) -> bool:
        synced.append(f"to commit {log.path.name}")
        return commit(log, *args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", watched)
        patch.setattr(DeltaLog, "commit", committed)
        build(root, "2-a")
    day = "tombstones/east/2026-01-01"
    of_table, of_state = synced.index("to commit tombstones"), synced.index("to commit state")
    assert set(synced[:of_table]) == {
        *(f"{day}/2-a.parquet", day, "tombstones/east", "tombstones"),
        *("_kgroup/coverage/2-*.npy", "_kgroup/coverage", "_kgroup", str(root)),
    }
    log = "_delta_log/00000000000000000001.json"
    assert set(synced[of_table + 1 : of_state]) == {
        *(f"tombstones/{log}", "tombstones/_delta_log", "tombstones"),
        *("_kgroup/state/2-*.parquet", "_kgroup/state", "_kgroup", str(root)),
    }
    assert synced[of_state + 1] == f"_kgroup/state/{log}"


def with_members(root: Path, name: str) -> ClusterState:
    """Let a partition have no table but a file with members."""
    path = root / "_kgroup" / "members" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"members")
    partition = PartitionState(None, (), None, 3, path.relative_to(root).as_posix(), None)
    return ClusterState((), {7: partition}, {})


@pytest.mark.usefixtures("nothing_is_kept")
def test_files_of_members_count_as_others_do(tmp_path: Path) -> None:
    for name in ("1-a", "2-a"):
        with write_warehouse(tmp_path) as writer:
            writer.commit({"east": with_members(tmp_path, name)}, {})
    own = tmp_path / "_kgroup"
    assert [path.name for path in (own / "members").iterdir()] == ["2-a.parquet"]
    (own / "unfinished").touch()
    with_members(tmp_path, "3-left")
    with write_warehouse(tmp_path):
        pass
    assert [path.name for path in (own / "members").iterdir()] == ["2-a.parquet"]


def test_the_coverage_of_each_partition_counts(tmp_path: Path) -> None:
    other = Coverage.of(np.array([1, 2], np.int64))
    with write_warehouse(tmp_path) as writer:
        state = ClusterState((), {7: PartitionState(None, (SEEN,), 12, 4, None, None)}, {})
        known = {("east", 7): COVERAGE, ("east", 8): other}
        writer.commit({"east": state}, known)
        assert writer.coverage("east", 8) == other
    with read_warehouse(tmp_path) as warehouse:
        assert warehouse.coverage("east", 7) == COVERAGE
        assert warehouse.coverage("east", 8) == other
        partition = warehouse.state("east").partitions[7]
    assert (partition.seen, partition.live_end, partition.derived_end) == ((SEEN,), 12, 4)


@pytest.mark.parametrize("name", ["pct%20x", "50%ab/w"])
def test_a_path_that_delta_rs_would_decode_is_refused(tmp_path: Path, name: str) -> None:
    for opened in (write_warehouse, read_warehouse):
        with (
            pytest.raises(UsageError, match=r"expected a folder without %(20|ab) in its path"),
            opened(tmp_path / name),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [b"w\xff", b"p\xff/w"])
def test_a_path_that_is_not_utf_8_is_refused_before_anything_is_made(
    tmp_path: Path, name: bytes
) -> None:
    """DuckDB and pyarrow take paths for UTF-8."""
    with (
        pytest.raises(UsageError, match=r"\udcff.*: expected a folder with a UTF-8 path"),
        write_warehouse(tmp_path / os.fsdecode(name)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_removes_nothing_that_somebody_may_be_reading(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    with read_warehouse(tmp_path) as before:
        build(tmp_path, "2-a")
        (tmp_path / "_kgroup" / "unfinished").touch()
        with write_warehouse(tmp_path):
            pass
        assert [path.read_bytes() for path in paths(before.files()["tombstones"])] == [b"rows"]


@pytest.mark.usefixtures("nothing_is_kept")
def test_what_is_gone_by_itself_need_not_be_removed(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    with write_warehouse(tmp_path) as writer:
        for path in tmp_path.glob("*/*/*/1-a.parquet"):
            path.unlink()
        writer.commit({"east": ClusterState((made(tmp_path, "2-a"),), {}, {})}, {})
    assert tables_on_disk(tmp_path) == ["2-a"]


def test_a_table_that_has_lost_a_file_takes_no_more(tmp_path: Path) -> None:
    build(tmp_path, "1-a", "1-b")
    (path,) = tmp_path.glob("*/*/*/1-a.parquet")
    for damage, reason in (
        (lambda: path.write_bytes(b"row"), "expected 4 bytes, found 3"),
        (path.unlink, "No such file or directory"),
    ):
        damage()
        with pytest.raises(InputError, match=reason) as error:
            build(tmp_path, "2-a")
        assert error.value.path == str(path)
        assert str(error.value).startswith(f"{path}: not as the build wrote it; ")
    assert tables_on_disk(tmp_path) == ["1-b"]


@pytest.mark.usefixtures("nothing_is_kept")
def test_folders_without_files_are_removed(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    with write_warehouse(tmp_path) as writer:
        writer.commit({"east": ClusterState((), {}, {})}, {})
    assert [path.name for path in (tmp_path / "tombstones").iterdir()] == ["_delta_log"]


def test_executors_may_have_another_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with write_warehouse(Path("w")) as writer:
        assert writer.root == tmp_path / "w"


def test_an_error_is_told_though_the_state_is_damaged_too(tmp_path: Path) -> None:
    build(tmp_path, "1-a")

    def fail() -> None:
        with write_warehouse(tmp_path):
            state_file(tmp_path).write_text("{")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_other_files_beside_the_state_do_no_harm(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    (tmp_path / "_kgroup" / "state" / "notes.json").write_text("mine")
    with read_warehouse(tmp_path) as warehouse:
        assert warehouse.build == 1


def test_a_file_of_the_state_that_is_missing_is_told(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    state_file(tmp_path, "east").unlink()
    with (
        pytest.raises(InputError, match=r"wrote it; No such file or directory\. .* restore it"),
        read_warehouse(tmp_path) as warehouse,
    ):
        warehouse.state("east")


def test_who_may_not_write_can_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, "1-a")
    open_ = os.open

    def refused(path: Path, flags: int, *args: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", str(path))
        return open_(path, flags, *args)

    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        with pytest.raises(PermissionError), write_warehouse(tmp_path):
            pass
        with read_warehouse(tmp_path) as warehouse:
            assert [path.stem for path in paths(warehouse.files()["tombstones"])] == ["1-a"]
    assert sorted(tmp_path.rglob("*")) == before


HOLDER = """
import os, sys
from pathlib import Path
from kgroup.history.warehouse.warehouse import write_warehouse
with write_warehouse(Path(sys.argv[1])):
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_one_build_works_at_a_time(tmp_path: Path) -> None:
    build(tmp_path / "w", "1-a")
    (tmp_path / "w" / "_kgroup" / "lock").write_text("process 1234567890 on a host of a long name")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "w"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        refused = (
            rf"w: process {pid} on {re.escape(gethostname())} is changing this warehouse; .* wait"
        )
        with pytest.raises(KgroupError, match=refused), write_warehouse(tmp_path / "w"):
            pass
        holder.kill()
    build(tmp_path / "w", "1-a")  # a lock ends with who holds it


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root, found in ((tmp_path, "a folder with other files"), (tmp_path / "file", "a file")):
        with pytest.raises(InputError, match=f"an empty folder .* found {found}"):
            build(root)
        with pytest.raises(
            InputError, match=f"a warehouse, found {found}; create one with .* --to FOLDER"
        ):
            read_warehouse(root).__enter__()
    with pytest.raises(
        InputError, match="found nothing; create one with kgroup history build --from"
    ):
        read_warehouse(tmp_path / "none").__enter__()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=f"found an empty folder; .* --to {tmp_path}/empty$"):
        read_warehouse(tmp_path / "empty").__enter__()
    build(tmp_path / "empty", "1-a")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    change_state(tmp_path, None, lambda state: {"format": 3, "versions": "?"})
    with pytest.raises(InputError, match="expected format 2, found 3: a newer version"):
        read_warehouse(tmp_path).__enter__()


@pytest.mark.parametrize("name", ["state/*.parquet", "coverage/*.npy"])
def test_damage_of_the_state_is_told(tmp_path: Path, name: str) -> None:
    build(tmp_path, "1-a")
    for path in (tmp_path / "_kgroup").glob(name):
        path.write_bytes(path.read_bytes()[:-2])
    with (
        pytest.raises(InputError, match=r"_kgroup/\S+: not as the build wrote it; .") as error,
        read_warehouse(tmp_path) as warehouse,
    ):
        warehouse.coverage("east", 7)
    assert not re.search(r"\n|\.\.|\. \.", str(error.value))  # whatever the library's words


def test_a_log_of_others_is_told(tmp_path: Path) -> None:
    """Builds go by the statistics; without them, rows would be overlooked."""
    build(tmp_path, "1-a")
    log = tmp_path / "tombstones" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('offsets_partition\\":7', 'other\\":7'))
    with read_warehouse(tmp_path) as warehouse:
        assert warehouse.state("east").files[0].offsets == (3, 9)
    log.write_text(log.read_text().replace("offsets_partition", "other"))
    with (
        pytest.raises(InputError, match="the table tombstones has no statistics of this file"),
        read_warehouse(tmp_path) as warehouse,
    ):
        warehouse.state("east")
    log.write_text(log.read_text().replace("cluster", "other2"))
    with (
        pytest.raises(InputError, match="the table tombstones has no statistics of this file"),
        read_warehouse(tmp_path) as warehouse,
    ):
        warehouse.files("east")


@pytest.mark.parametrize("number", [3, 102])
def test_logs_that_were_summarized_say_the_same(tmp_path: Path, number: int) -> None:
    """delta-rs writes a checkpoint every hundred versions; then older commits may be removed."""
    state = build(tmp_path, "1-a")
    for _ in range(number):
        with write_warehouse(tmp_path) as writer:
            writer.commit({"east": replace(state, topic_names={"id": str(writer.build)})}, {})
    tables = [tmp_path / "tombstones", tmp_path / "_kgroup" / "state"]
    for table in tables:
        DeltaTable(table).create_checkpoint()
    with read_warehouse(tmp_path) as warehouse:
        before = warehouse.state("east")
        listed = warehouse.listed()
    for table in tables:
        for path in sorted((table / "_delta_log").glob("*.json"))[:-1]:
            path.unlink()
    with read_warehouse(tmp_path) as warehouse:
        assert warehouse.state("east") == before
        assert warehouse.listed() == listed
    build(tmp_path, "1-a", "9-b")
    assert newest(tmp_path) == ["1-a", "9-b"]


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"[]\n", b'{"add": 7}\n'])
@pytest.mark.parametrize("table", ["_kgroup/state", "tombstones"])
def test_a_damaged_log_is_told(tmp_path: Path, table: str, damage: bytes) -> None:
    build(tmp_path, "1-a")
    log = tmp_path / table / "_delta_log" / f"{0:020}.json"
    log.write_bytes(damage)
    told = rf"^{tmp_path / table}: its Delta log cannot be read; .*or build a new warehouse"
    with pytest.raises(InputError, match=told), read_warehouse(tmp_path) as warehouse:
        warehouse.files()
    with pytest.raises(InputError, match=told):
        build(tmp_path, "2-a")


@pytest.mark.parametrize(
    "field", ["seen", "live_end", "derived_end", "members", "coverage", "base"]
)
def test_a_field_of_a_partition_that_is_missing_is_damage(tmp_path: Path, field: str) -> None:
    """Taken for nothing known, it would let records be read twice."""
    build(tmp_path, "1-a")

    def remove(state: Any) -> Any:
        del state["partitions"]["7"][field]
        return state

    path = change_state(tmp_path, "east", remove)
    with (
        pytest.raises(InputError, match=rf"{path}: not as .*`{field}`.* restore it, or build"),
        read_warehouse(tmp_path) as warehouse,
    ):
        warehouse.state("east")


@pytest.mark.parametrize("cluster", [None, "east"])
@pytest.mark.parametrize("table", [pa.table({"other": [1]}), pa.table({"state": ["", ""]})])
def test_a_state_that_is_no_row_of_text_is_told(
    tmp_path: Path, cluster: str | None, table: pa.Table
) -> None:
    build(tmp_path, "1-a")
    path = state_file(tmp_path, cluster)
    pq.write_table(table, path)
    with (
        pytest.raises(InputError, match=rf"{path}: not as the build wrote it"),
        read_warehouse(tmp_path) as warehouse,
    ):
        warehouse.state("east")


@pytest.mark.parametrize("cluster", [None, "east"])
@pytest.mark.parametrize("state", [{}, {"format": 2}, [], None])
def test_a_file_without_its_fields_is_no_empty_state(
    tmp_path: Path, cluster: str | None, state: object
) -> None:
    build(tmp_path, "1-a")
    path = change_state(tmp_path, cluster, lambda _: state)
    told = rf"{path}: not as the build wrote it; .*restore it, or build a new warehouse"
    with pytest.raises(InputError, match=told), read_warehouse(tmp_path) as warehouse:
        warehouse.state("east")
    with pytest.raises(InputError, match=told):
        build(tmp_path, "2-a")


def test_a_damaged_coverage_is_told_plainly(tmp_path: Path) -> None:
    build(tmp_path, "1-a")
    [path] = (tmp_path / "_kgroup" / "coverage").iterdir()
    path.write_bytes(b"something else")
    with read_warehouse(tmp_path) as warehouse, pytest.raises(InputError) as raised:
        warehouse.coverage("east", 7)
    assert str(raised.value) == (
        f"{path}: not as the build wrote it; expected "
        "intervals of offsets, found 14 bytes that are not a complete .npy file. A "
        "warehouse cannot be read without this file: restore it, or build a new warehouse in "
        "another folder."
    )


def test_a_missing_file_of_an_object_store_is_named_without_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "w", "1-a")
    monkeypatch.setattr(RemotePath, "stat", Mock(side_effect=AssertionError("asked for each file")))
    monkeypatch.setattr(RemotePath, "glob", Mock(return_value=iter(())))
    with read_warehouse(tmp_path / "w") as base:
        (file,) = base.state("east").files
        base.root = RemotePath.of("s3://KEY:swordfish@bucket/w?region=x")
        continued = TemporaryWarehouse(tmp_path / "t", base)
        with pytest.raises(InputError, match=f"^s3://bucket/w/{file.path}: ") as caught:
            continued.check("east")
    assert caught.value.path == f"s3://bucket/w/{file.path}"
