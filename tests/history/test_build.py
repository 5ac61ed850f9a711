"""A build's tables, compared with plain Python; and that it may be done bit by bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgroup.columnar.segment import decode_chunks
from kgroup.errors import InputError
from kgroup.history.build import build as module
from kgroup.history.build import derivation, fact, task
from kgroup.history.build.build import LARGE, MANY, Build, merge_tasks, run_merge
from kgroup.history.input.live_source import LiveSource
from kgroup.history.input.segment_source import SegmentSource, find_sources
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.state import ClusterState, PartitionState
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, read_rows
from kgroup.history.warehouse.warehouse import read_warehouse, write_warehouse
from kgroup.protocol.batch.batch import Damage
from kgroup.source.config.client_config import client_config
from kgroup.source.log.folder import read_topic_names
from tests.examples import examples, some_of
from tests.history.build_file import files_on_disk, files_that_count, write_halves
from tests.history.builds import RECORDED, ROOT, SAMPLE, build
from tests.history.killed_build import COMMITTED, STAGES
from tests.history.log_copy import Replica, read_log, write_log
from tests.history.paused_command import await_paused, paused_command
from tests.history.random_history import RandomHistory
from tests.history.table_oracle import Tables, differences, expected_tables, read_tables


def assert_same(root: Path, directory: Path, cluster: str = "c") -> Tables:
    """Compare the tables of a warehouse with what is in a log directory, and return them."""
    tables = read_tables(root, cluster)
    expected = expected_tables(read_log(directory), read_topic_names([directory]))
    assert differences(tables, expected) == []
    assert tables == expected
    return tables


def test_a_system_that_does_not_tell_which_processors_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS: Python's documentation has sched_getaffinity for "some Unix platforms" alone."""
    monkeypatch.delattr(os, "sched_getaffinity")
    build(tmp_path, SAMPLE)
    with DuckEngine({}) as engine:
        assert engine.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]
    log = next(SAMPLE.glob("__consumer_offsets-1/*.log"))
    assert len(list(decode_chunks(log, compiled=True))) == 1


@pytest.mark.parametrize("directory", some_of(RECORDED, 8), ids=lambda path: path.name)
def test_recorded_logs(directory: Path, tmp_path: Path) -> None:
    report = build(tmp_path / "w", directory)
    assert not report.errors
    tables = assert_same(tmp_path / "w", directory)
    (again,) = build(tmp_path / "w", directory).data
    with read_warehouse(tmp_path / "w") as warehouse:
        assert warehouse.build == 1  # there was nothing to commit
    assert again.segments_read == 0
    assert all(table.new_row_count == 0 for table in again.tables)
    assert read_tables(tmp_path / "w", "c") == tables


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 6)))
def test_assignments_are_derived_in_pieces(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    history = RandomHistory(seed)
    history.write(log)
    monkeypatch.setattr(module, "TASK_BYTES", 1)  # so that each segment gets files of its own
    tables = []
    for size in (1 << 30, 1):
        monkeypatch.setattr(derivation, "PIECE_BYTES", size)
        root = tmp_path / str(size)
        build(root, log)
        tables.append(read_tables(root, "c"))
    assert tables[0] == tables[1]
    assert tables[0]["assignments"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 6)))
def test_a_large_partition_is_divided_by_group(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was not divided before, or not among as many tasks."""
    history = RandomHistory(seed, partitions=1)
    history.write(tmp_path / "log")
    ((number, batches),) = read_log(tmp_path / "log").items()
    cuts = sorted(random.Random(seed).sample(range(1, len(batches)), 3))
    parts = list(zip([*cuts, len(batches)], [1, 3, 5, 1], strict=True))
    shares: list[derivation.GroupShare] = []

    def run(function: Callable[[Any], Any], jobs: Sequence[Any], /) -> Iterator[Any]:
        if function is derivation.run_derivation:
            shares.extend(job.derivations[0].share for job in jobs)
        yield from map(function, jobs)

    for is_divided in (True, False):
        monkeypatch.setattr(derivation, "SHARE_BYTES", 1 if is_divided else 1 << 30)
        for end, count in parts:
            monkeypatch.setattr(derivation, "MOST_SHARES", count)
            shares.clear()
            write_log(tmp_path / "part", {number: batches[:end]})
            with write_warehouse(tmp_path / str(is_divided)) as writer:
                made = Build(writer, run)
                made.add_topic_names("c", history.topic_names)
                made.read(find_sources([str(tmp_path / "part")], "c").segments)
                made.commit()
            assert len(shares) == (count if is_divided else 1)
    found, expected = (read_tables(tmp_path / str(each), "c") for each in (True, False))
    assert differences(found, expected) == []
    assert found == expected
    assert found["assignments"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 8)))
@pytest.mark.parametrize(
    "name", some_of(["log-dir", "kafka-4.3.1", "compacted-4.3.1", "kafka-1.1.1"], 2)
)
def test_bit_by_bit(name: str, seed: int, tmp_path: Path) -> None:
    directory = next(path for path in RECORDED if path.name == name)
    log = read_log(directory)
    random_ = random.Random(f"{name} {seed}")
    replicas = [Replica(log, random_.randrange(1 << 32)) for _ in range(random_.choice([1, 2, 3]))]
    seen: dict[int, set[int]] = {partition: set() for partition in log}
    steps: list[list[Path]] = []
    for step in range(random_.choice([2, 4, 6])):
        steps.append([])
        for replica in random_.sample(replicas, random_.randint(1, len(replicas))):
            copy = replica.grown()
            place = tmp_path / str(step) / str(replica.seed)
            write_log(place, copy, replica.seed)
            steps[-1].append(place)
            for partition, batches in copy.items():
                seen[partition] |= {batch.last_offset for batch in batches}
    if random_.random() < 0.3:
        random_.shuffle(steps)
    for places in steps:
        build(tmp_path / "w", *places)
    write_log(
        tmp_path / "seen",
        {
            partition: [batch for batch in batches if batch.last_offset in seen[partition]]
            for partition, batches in log.items()
        },
    )
    assert_same(tmp_path / "w", tmp_path / "seen")


@pytest.mark.parametrize("enough_rows", [10, 1_000_000])
def test_small_segments_are_sorted_into_tables_together(
    enough_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch of a log is a segment; rows are the same, though they wait for each other."""
    sizes: list[int] = []

    def facts_of(batch: pa.RecordBatch) -> dict[str, pa.Table]:
        sizes.append(len(batch))
        return fact.facts_of(batch)

    monkeypatch.setattr(task, "facts_of", facts_of)
    monkeypatch.setattr(task, "ENOUGH_ROWS", enough_rows)
    directory = next(path for path in RECORDED if path.name == "kafka-4.3.1")
    count = 0
    for partition, batches in read_log(directory).items():
        folder = tmp_path / "log" / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True)
        for batch in batches:
            (folder / f"{batch.base_offset:020}.log").write_bytes(batch.data)
            count += 1
    (report,) = build(tmp_path / "w", tmp_path / "log").data
    assert report.segments_read == count > 100
    assert len(sizes) < (count / 3 if enough_rows == 10 else 3)
    assert_same(tmp_path / "w", tmp_path / "log")


DAMAGED = sorted((ROOT / "tests" / "data" / "damaged").glob("*/__consumer_offsets-*"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", DAMAGED[:: examples(32, 2)], ids=lambda p: p.parent.name)
def test_damage_among_sound_records(folder: Path, tmp_path: Path) -> None:
    """A damaged log beside a sound one: of all that can be read nothing is missing."""
    log = tmp_path / "log"
    number = int(folder.name.rpartition("-")[2])
    shutil.copytree(folder, log / folder.name)
    found = [
        part
        for path in sorted(folder.glob("*.log"))
        for part in decode_chunks(path, partition=number, compiled=False)
    ]
    damage = [part for part in found if isinstance(part, Damage) and not part.is_unwritten]
    write_log(log, {number + 1: read_log(SAMPLE)[2]})
    report = build(tmp_path / "w", log)
    assert [(error.kind, error.position) for error in report.errors] == [
        (part.kind, part.position) for part in damage
    ]
    tables = assert_same(tmp_path / "w", log)
    again = build(tmp_path / "w", log)
    assert sum(table.new_row_count for table in again.data[0].tables) == 0
    assert read_tables(tmp_path / "w", "c") == tables


@pytest.mark.slow
def test_names_of_topics_may_come_late(tmp_path: Path) -> None:
    """Groups of Kafka 4 name topics by their ids; what lies beside the segments has the names."""
    directory = ROOT / "tests" / "data" / "kafka-4.1.1"
    log = read_log(directory)
    write_log(tmp_path / "log", log)
    assert expected_tables(log, {}) != expected_tables(log, read_topic_names([directory]))
    build(tmp_path / "w", tmp_path / "log")
    assert_same(tmp_path / "w", tmp_path / "log")
    build(tmp_path / "w", directory)
    assert_same(tmp_path / "w", directory)


def test_segments_that_are_as_large_are_told_apart(tmp_path: Path) -> None:
    batches = read_log(SAMPLE)[2]
    one, other = next(
        (one, other)
        for one, other in combinations(batches[1:-1], 2)
        if one.size == other.size and bytes(one.data) != bytes(other.data)
    )
    for name, missing in (("a", one), ("b", other)):
        write_log(tmp_path / name, {2: [batch for batch in batches if batch is not missing]})
        build(tmp_path / "w", tmp_path / name)
    write_log(tmp_path / "all", {2: batches})
    assert_same(tmp_path / "w", tmp_path / "all")


@pytest.mark.slow
def test_a_segment_that_has_grown_is_read_from_where_it_ended(tmp_path: Path) -> None:
    batches = read_log(SAMPLE)[2]
    write_log(tmp_path / "log", {2: batches[:-3]})
    build(tmp_path / "w", tmp_path / "log")
    (path,) = (tmp_path / "log" / "__consumer_offsets-2").iterdir()
    torn = bytes(batches[-3].data)[:40]
    with path.open("ab") as file:
        file.write(torn)
    (error,) = build(tmp_path / "w", tmp_path / "log").errors
    assert (error.kind, error.position) == ("torn-tail", path.stat().st_size - len(torn))
    with path.open("ab") as file:
        file.write(bytes(batches[-3].data)[40:])
        file.writelines(bytes(batch.data) for batch in batches[-2:])
    report = build(tmp_path / "w", tmp_path / "log")
    assert report.errors == ()
    assert report.data[0].bytes_read == sum(batch.size for batch in batches[-3:])
    with read_warehouse(tmp_path / "w") as warehouse:
        assert not warehouse.files()["damage"]  # what was torn has come
    assert_same(tmp_path / "w", tmp_path / "log")


@pytest.mark.slow
def test_a_cluster_that_has_lost_a_file_takes_no_more(tmp_path: Path) -> None:
    for cluster in ("a", "b"):
        build(tmp_path / "w", SAMPLE, cluster=cluster)
    (lost,) = (tmp_path / "w" / "members" / "a").glob("*/*.parquet")
    lost.unlink()
    with pytest.raises(InputError, match="No such file") as error:
        build(tmp_path / "w", SAMPLE, cluster="a")
    assert error.value.path == str(lost)
    build(tmp_path / "w", SAMPLE, cluster="b")


@pytest.mark.slow
def test_many_small_files_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = examples(4, module.MANY)
    monkeypatch.setattr(module, "MANY", many)
    batches = read_log(SAMPLE)[2][: 2 * many + 1]
    for end in range(1, len(batches) + 1):
        write_log(tmp_path / "log", {2: batches[:end]})
        build(tmp_path / "w", tmp_path / "log")
        with read_warehouse(tmp_path / "w") as warehouse:
            assert all(len(paths) < 2 * many for paths in warehouse.files().values())
    assert len(batches) > 2 * many
    assert_same(tmp_path / "w", tmp_path / "log")


@pytest.mark.slow
def test_what_is_owned_is_written_anew_where_it_has_changed(tmp_path: Path) -> None:
    """Each partition has a file; only some of them get records."""

    def owned() -> dict[int, Path]:
        with read_warehouse(tmp_path / "w") as warehouse:
            files = [
                file
                for file in warehouse.state("c").files
                if file.table == "assignments" and file.is_open
            ]
        found = {number: tmp_path / "w" / file.path for file in files for number in file.partitions}
        assert len(found) == len(files)
        return found

    log = read_log(SAMPLE)
    write_log(tmp_path / "log", {number: batches[:-1] for number, batches in log.items()})
    build(tmp_path / "w", tmp_path / "log")
    before = owned()
    assert len(before) > 1
    # the last records there: a commit, a group that stays empty, one whose last member has left
    for number, is_same in ((0, True), (2, True), (6, False)):
        write_log(tmp_path / "log", {number: log[number]})
        build(tmp_path / "w", tmp_path / "log")
        after = owned()
        assert (after == before) == is_same
        assert all(after[other] == path for other, path in before.items() if other != number)
        assert all(path.exists() for path in after.values())
    write_log(tmp_path / "log", log)
    build(tmp_path / "w", tmp_path / "log")
    assert_same(tmp_path / "w", tmp_path / "log")


@pytest.mark.slow
@pytest.mark.parametrize("task_bytes", [1, 1 << 20])
def test_segments_of_one_folder_that_overlap(
    task_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker has such; copies that were put together may. Tasks do not know of one another."""
    monkeypatch.setattr("kgroup.history.build.build.TASK_BYTES", task_bytes)
    batches = read_log(SAMPLE)[2]
    folder = tmp_path / "log" / "__consumer_offsets-2"
    folder.mkdir(parents=True)
    for base, some in ((0, batches[:20]), (3, batches[10:25]), (4, batches[5:]), (9, batches[:2])):
        (folder / f"{base:020}.log").write_bytes(b"".join(bytes(batch.data) for batch in some))
    write_log(tmp_path / "whole", {2: batches})
    report = build(tmp_path / "w", tmp_path / "log")
    assert report.errors == ()
    assert_same(tmp_path / "w", tmp_path / "whole")
    with read_warehouse(tmp_path / "w") as warehouse:
        listed = {path for paths in warehouse.files().values() for path in paths}
    assert set((tmp_path / "w").glob("*/*/*/*.parquet")) == listed


def test_a_segment_may_be_replaced_while_it_is_read(tmp_path: Path) -> None:
    """The cleaner puts one file in the place of two, whatever is being read meanwhile."""
    batches = read_log(SAMPLE)[2]
    one, other = next(
        (one, other) for one, other in combinations(batches, 2) if one.size == other.size
    )
    write_log(tmp_path / "log", {2: [one]})
    (path,) = (tmp_path / "log" / "__consumer_offsets-2").iterdir()
    kept = batches[batches.index(other) :]

    def read_and_replace(function: Callable[[Any], Any], jobs: Sequence[Any], /) -> Iterator[Any]:
        found = [function(job) for job in jobs]
        path.write_bytes(b"".join(bytes(batch.data) for batch in kept))
        yield from found

    with write_warehouse(tmp_path / "w") as writer:
        made = Build(writer, read_and_replace)
        made.read(find_sources([str(tmp_path / "log")], "c").segments)
        made.commit()
    build(tmp_path / "w", tmp_path / "log")
    write_log(tmp_path / "all", {2: [one, *kept]})
    assert_same(tmp_path / "w", tmp_path / "all")


def test_a_live_partition_that_has_become_shorter_is_told(tmp_path: Path) -> None:
    """The topic was made again: its records would be taken for those that are known."""
    config = client_config(environment={}, bootstrap_server="127.0.0.1:9")
    live = LiveSource("c", {7: (0, 40), 8: (0, 40)}, {}, (), config)
    with write_warehouse(tmp_path) as writer:
        states = {
            number: PartitionState(None, (), end, None, None, None)
            for number, end in ((7, 120), (8, 40))
        }
        writer.commit({"c": ClusterState((), states, {})}, {})
    for _ in range(2):
        with write_warehouse(tmp_path) as writer:
            made = Build(writer)
            made.read_live(live)
            (error,) = made.commit().errors
        assert (error.kind, error.offsets_partition) == ("shorter", 7)
        assert "120" in error.reason
        assert "ends at 40" in error.reason
    with read_warehouse(tmp_path) as warehouse:
        assert sum(file.rows for file in warehouse.state("c").files) == 1


def test_a_segment_that_could_not_be_read_is_read_by_the_next_build(tmp_path: Path) -> None:
    write_log(tmp_path / "log", {2: read_log(SAMPLE)[2]})
    (path,) = (tmp_path / "log" / "__consumer_offsets-2").iterdir()

    def read_nothing(function: Callable[[Any], Any], jobs: Sequence[Any], /) -> Iterator[Any]:
        path.rename(tmp_path / "away")
        found = [function(job) for job in jobs]
        (tmp_path / "away").rename(path)
        yield from found

    with write_warehouse(tmp_path / "w") as writer:
        made = Build(writer, read_nothing)
        made.read(find_sources([str(tmp_path / "log")], "c").segments)
        report = made.commit()
    (error,) = report.errors
    assert (error.kind, error.path) == ("unreadable", str(path))
    (row,) = report.data
    assert (row.segments_read, row.segments_skipped, row.bytes_read) == (0, 0, 0)
    assert build(tmp_path / "w", tmp_path / "log").errors == ()
    assert_same(tmp_path / "w", tmp_path / "log")
    with read_warehouse(tmp_path / "w") as warehouse:
        assert not warehouse.files()["damage"]


def test_a_segment_that_can_be_opened_again_is_damage_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is nothing new in it: nothing of it is missing."""
    write_log(tmp_path / "log", {2: read_log(SAMPLE)[2]})
    build(tmp_path / "w", tmp_path / "log")

    def refuse(source: SegmentSource, position: int, size: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    for count in (1, 0):  # the second build finds what is known
        with monkeypatch.context() as patch:
            patch.setattr(SegmentSource, "read", refuse)
            report = build(tmp_path / "w", tmp_path / "log")
        (row,) = report.data
        assert [error.kind for error in report.errors] == ["unreadable"]
        assert (row.segments_read, row.segments_skipped, row.damage_count) == (0, 0, 1)
        assert {table.table: table.new_row_count for table in row.tables}["damage"] == count
    (row,) = build(tmp_path / "w", tmp_path / "log").data
    assert (row.segments_read, row.segments_skipped) == (0, 1)
    with read_warehouse(tmp_path / "w") as warehouse:
        assert not warehouse.files()["damage"]


# ---- A build that is killed changes nothing, and the next one completes


@pytest.mark.slow
def test_killed_at_every_stage(tmp_path: Path) -> None:
    early, late, base = tmp_path / "early", tmp_path / "late", tmp_path / "base"
    write_halves(early, late)
    build(base, early)
    before = read_tables(base, "c")
    stages = some_of(list(STAGES), 4)
    for name in stages:
        shutil.copytree(base, tmp_path / "w" / name)
    run = subprocess.run(
        [sys.executable, "-m", "tests.history.killed_build", late, tmp_path / "w", *stages],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(run.stdout.splitlines()) == {f"{name} -9" for name in stages}, run.stderr
    build(base, late)
    after = read_tables(base, "c")
    assert after != before
    for name in stages:
        root = tmp_path / "w" / name
        assert read_tables(root, "c") == (after if name in COMMITTED else before), name
        assert files_on_disk(root) >= files_that_count(root), name
        build(root, late)
        assert read_tables(root, "c") == after, name
        if name not in COMMITTED:  # behind it the files go when something changes again
            assert files_on_disk(root) == files_that_count(root), name


@pytest.mark.slow
def test_two_builds_at_once(tmp_path: Path) -> None:
    """The later one is refused, whatever it was to write, and changes nothing; both can be run."""
    early, late, root = tmp_path / "early", tmp_path / "late", tmp_path / "w"
    write_halves(early, late)
    build(root, early)
    before = read_tables(root, "c")
    args: list[str | Path] = ["history", "build", "--cluster", "c", "--to", root, "--from"]
    first = subprocess.Popen(
        paused_command(*args, late), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with first:
        try:
            await_paused(first)
            second: list[str | Path] = [sys.executable, "-m", "kgroup", *args, SAMPLE]
            refused = subprocess.run(second, capture_output=True, text=True)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert f"{root}: process {first.pid} on " in refused.stderr
            assert "is changing this warehouse" in refused.stderr
            assert read_tables(root, "c") == before
            first.send_signal(signal.SIGCONT)
            out, err = first.communicate(timeout=100)
        finally:
            first.kill()
    assert (first.returncode, "offset_commits" in out) == (0, True), err
    build(tmp_path / "alone", late)
    assert read_tables(root, "c") == read_tables(tmp_path / "alone", "c") != before
    assert files_on_disk(root) == files_that_count(root)
    subprocess.run(second, check=True, capture_output=True)
    build(tmp_path / "alone", SAMPLE)
    assert read_tables(root, "c") == read_tables(tmp_path / "alone", "c")


# ---- which files are merged, and what becomes of them


DAY = "tombstones/c/2026-01-01"


def file(number: int, *, folder: str = DAY, size: int = 5000, is_open: bool = False) -> WrittenFile:
    path = f"{folder}{'-open' if is_open else ''}/1-{number}.parquet"
    return WrittenFile(folder.partition("/")[0], "c", path, 1, size, {})


def merged(files: Sequence[WrittenFile]) -> list[list[WrittenFile]]:
    return [list(task.files) for task in merge_tasks("w", "c", 9, files)]


@pytest.mark.parametrize("is_open", [False, True])
def test_open_rows_and_others_stay_apart(is_open: bool) -> None:
    """A later build replaces files with open rows as a whole, once their markers have come."""
    some = [file(number, is_open=is_open) for number in range(MANY)]
    others = [file(number, is_open=not is_open) for number in range(MANY - 1)]
    assert merged([*others, *some]) == [some]
    assert merged([*others, *some[1:]]) == []


def test_open_assignments_are_not_merged() -> None:
    """Each partition has a file of its own, which builds without new records of it keep."""
    folder = DAY.replace("tombstones", "assignments")
    assert merged([file(number, folder=folder, is_open=True) for number in range(MANY)]) == []
    assert len(merged([file(number, folder=folder) for number in range(MANY)])) == 1


def test_files_of_other_days_and_tables_stay_apart() -> None:
    folders = (DAY, DAY[:-1] + "2", DAY.replace("tombstones", "transactions"))
    files = [[file(number, folder=folder) for number in range(MANY)] for folder in folders]
    assert merged([each for some in files for each in some]) == files
    assert merged([each for some in files for each in some[1:]]) == []


def test_files_of_other_sizes_stay_apart() -> None:
    """So that a row is not written anew with each build."""
    small = [file(number, size=1000 * number) for number in range(1, MANY)]
    assert merged([*small, file(0, size=LARGE // 2)]) == []
    assert merged([*small, file(0, size=30_000)]) == [[*small, file(0, size=30_000)]]
    varied = [file(number, size=20_000 * number) for number in range(1, MANY + 1)]
    assert merged(varied) == [varied]
    assert merged([file(number, size=LARGE) for number in range(2 * MANY)]) == []
    assert len(merged([file(number, size=LARGE - 1) for number in range(2 * MANY)])) == 1


@pytest.mark.parametrize("is_open", [False, True])
def test_all_rows_are_in_the_new_file(tmp_path: Path, is_open: bool) -> None:
    schema = TABLES["tombstones"].schema
    files: list[WrittenFile] = []
    for number in range(MANY):
        row = dict.fromkeys(schema.names) | {"offsets_partition": number % 3, "log_offset": number}
        with FactWriter(tmp_path, "c", 1) as writer:
            writer.add(
                {"tombstones": schema.empty_table().from_pylist([row], schema)}, is_open=is_open
            )
            files += writer.finish()
    (task,) = merge_tasks(str(tmp_path), "c", 2, files)
    given, (found,) = run_merge(task)
    assert given is task
    assert (found.table, found.rows, found.is_open) == ("tombstones", MANY, is_open)
    assert (found.partitions, found.offsets) == (range(3), (0, MANY - 1))
    offsets = read_rows(tmp_path, found)["log_offset"].to_pylist()
    assert sorted(offsets) == list(range(MANY))
    assert Path(found.path).name.startswith("2-")
