"""Warehouses in object stores, of servers on loopback that speak their protocols."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSystem

from kgroup.errors import BusyError, InputError
from kgroup.history.build import retention
from kgroup.history.warehouse import warehouse as warehouses
from kgroup.history.warehouse.delta_log import DeltaLog
from kgroup.history.warehouse.store import RemotePath, as_typed, delta_location
from kgroup.history.warehouse.warehouse import read_warehouse, write_warehouse
from kgroup.spark.session import run_on
from tests.broker.object_store import gcs_server, s3_server, server
from tests.broker.process import HOST, free_port
from tests.cli.command_line import Cli
from tests.history.build_file import write_halves
from tests.history.builds import SAMPLE, build
from tests.history.killed_build import COMMITTED
from tests.history.log_copy import read_log, write_log
from tests.history.table_oracle import read_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET = "warehouses"
NUMBERS = count()


@pytest.fixture(scope="module")
def parameters() -> Iterator[str]:
    """What follows the path in a URI, for a server of S3 that has the bucket."""
    with s3_server() as found:
        files, _ = FileSystem.from_uri(f"s3://{BUCKET}{found}&allow_bucket_creation=true")
        files.create_dir(BUCKET)
        yield found


@pytest.fixture
def s3(parameters: str) -> RemotePath:
    """A place without files in S3."""
    return RemotePath.of(f"s3://{BUCKET}/test-{next(NUMBERS)}/w{parameters}")


@pytest.fixture(scope="module")
def gcs() -> Iterator[str]:
    """What follows the path in a URI, for a server of GCS that has the bucket."""
    with gcs_server(BUCKET) as found:
        yield found


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest) -> RemotePath:
    """A place without files in S3, and one in GCS."""
    if request.param == "s3":
        place: RemotePath = request.getfixturevalue("s3")
        return place
    parameters = request.getfixturevalue("gcs")
    return RemotePath.of(f"gs://anonymous@{BUCKET}/test-{next(NUMBERS)}/w{parameters}")


def files_in(root: RemotePath) -> set[str]:
    """Parquet files, and coverages, outside of the Delta logs."""
    found = (path for stars in (2, 3, 4) for path in root.glob("/".join("*" * stars)))
    paths = (str(path.relative_to(root)) for path in found)
    return {path for path in paths if "_delta_log" not in path and not path.endswith("started")}


def check_newest(root: RemotePath) -> None:
    """Check that other engines, which read the newest versions, see the files of the state."""
    with read_warehouse(root) as warehouse:
        for name, files in warehouse.files().items():
            path, options = delta_location(root / name)
            table = DeltaTable(path, storage_options=options)
            assert sorted(table.file_uris()) == sorted(map(str, files))


QUESTIONS: Sequence[Sequence[str]] = (
    ("show", "--groups"),
    ("show", "--partitions"),
    ("owner", "orders", "2", "--at", "2026-11-29T19:51:23Z"),
    ("timeline", "fraud-check"),
    ("commits", "order-service"),
    ("stale", "--for", "1ms"),
    ("rebalances",),
    ("rebalances", "order-service"),
    ("storms", "--rate", "2/1m"),
    ("as-of", "2026-11-29T19:51:33Z", "order-service"),
    ("sql", "SELECT * FROM assignments WHERE to_ms IS NULL ORDER BY ALL"),
    ("sql", "SELECT group_id, count(*) n FROM offset_commits WHERE offsets_partition IN (1, 3) "
            "AND (committed_offset > 3 OR metadata <> '') GROUP BY ALL ORDER BY ALL"),
    ("sql", "SELECT * FROM members WHERE date = '2026-11-29' ORDER BY ALL"),
)  # fmt: skip


def test_questions_have_the_answers_of_a_folder(
    cli: Cli, store: RemotePath, tmp_path: Path
) -> None:
    local = tmp_path / "w"
    for place in (local, as_typed(store)):
        for name in ("east", "west"):
            built = cli("history", "build", "--sample", "--to", place, "--cluster", name)
            assert built.status == 0, built.err
    assert read_tables(store, "east") == read_tables(local, "east")
    check_newest(store)
    for name, *words in QUESTIONS:
        args = ("history", name, *words, "-o", "jsonl")
        if name not in ("show", "sql"):
            args += ("--cluster", "east")
        expected = cli(*args, "--warehouse", local)
        answer = cli(*args, "--warehouse", as_typed(store))
        assert expected.out.count("\n") > 0, args
        assert (answer.status, answer.out) == (expected.status, expected.out), args
    again = cli("history", "build", "--sample", "--to", as_typed(store), "--cluster", "east")
    assert "0 segments read" in again.err
    shown = cli("history", "show", "--warehouse", as_typed(store), "--views").out
    assert f"'{store}/offset_commits/east/2026-11-29/" in shown


def test_a_folder_that_was_copied_is_a_warehouse(
    cli: Cli, store: RemotePath, tmp_path: Path
) -> None:
    local = tmp_path / "w"
    for name in ("east", "west"):
        assert cli("history", "build", "--sample", "--to", local, "--cluster", name).status == 0
        for path in local.rglob("*"):
            if path.is_file():
                (store / str(path.relative_to(local))).write_bytes(path.read_bytes())
        question = ("history", "owner", "orders", "2", "--cluster", name, "--warehouse")
        answer = cli(*question, as_typed(store))
        assert (answer.status, answer.out) == (0, cli(*question, local).out)
    more = cli("history", "build", "--sample", "--to", as_typed(store), "--cluster", "east")
    assert (more.status, "0 segments read" in more.err) == (0, True)


def test_a_source_continues_it(cli: Cli, s3: RemotePath, tmp_path: Path) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    write_halves(early, late)
    build(tmp_path / "w", early, cluster="c")
    build(s3, early, cluster="c")
    words = ("history", "rebalances", "-o", "jsonl", "--cluster", "c", "--from", late)
    expected = cli(*words, "--warehouse", tmp_path / "w")
    before = files_in(s3)
    answer = cli(*words, "--warehouse", as_typed(s3))
    assert answer.status == expected.status == 0, answer.err
    assert answer.out == expected.out != ""
    assert files_in(s3) == before


def test_only_what_is_new(store: RemotePath, tmp_path: Path) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    write_halves(early, late)
    for root in (store, tmp_path / "w"):
        build(root, early)
        build(root, late)
        assert build(root, late).data[0].segments_read == 0
    assert read_tables(store, "c") == read_tables(tmp_path / "w", "c") != {}
    check_newest(store)


@pytest.mark.parametrize("is_new", [True, False])
def test_of_two_builds_at_once_one_wins(store: RemotePath, tmp_path: Path, is_new: bool) -> None:
    log = read_log(SAMPLE)
    sources: list[str] = []
    for number, batches in log.items():
        if len(sources) < 3 and len(batches) > 1:
            sources.append(str(tmp_path / f"source-{number}"))
            write_log(Path(sources[-1]), {number: batches}, 1)
    assert len(sources) == 3
    if not is_new:
        build(store, Path(sources.pop()))
    words = (sys.executable, "-m", "tests.history.rival_builds", store.uri, *sources)
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    outcomes = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    assert outcomes.keys() == {*sources}, run.stderr
    lost = [source for source in sources if outcomes[source] != "committed"]
    assert len(lost) == len(sources) - 1, outcomes
    for source in lost:
        assert outcomes[source].startswith(f"{store}: another build was committed at the same time")
    check_newest(store)
    for source in lost:
        build(store, Path(source))
    build(tmp_path / "w", *tmp_path.glob("source-*"))
    assert read_tables(store, "c") == read_tables(tmp_path / "w", "c") != {}
    check_newest(store)


def test_the_loser_after_the_winner(s3: RemotePath, tmp_path: Path) -> None:
    """It has committed tables last, and leaves them as the winner has them."""
    early, late = tmp_path / "early", tmp_path / "late"
    write_halves(early, late)
    build(s3, early)

    def rival() -> None:
        with write_warehouse(s3) as writer:
            state = writer.state("c")
            build(s3, late)
            writer.commit({"c": replace(state, files=state.files[1:])}, {})

    with pytest.raises(BusyError, match="another build was committed"):
        rival()
    check_newest(s3)
    build(tmp_path / "w", late)
    assert read_tables(s3, "c") == read_tables(tmp_path / "w", "c")


def test_files_of_another_build_are_kept(
    s3: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    write_halves(early, late)
    build(s3, early)
    (s3 / "offset_commits/c/2026-11-29/2-other-0.parquet").write_bytes(b"of another build")
    (s3 / "_kgroup/coverage/2-other.npy").write_bytes(b"likewise")
    build(s3, late)
    with write_warehouse(s3) as writer:
        writer.vacuum(0)
        assert files_in(s3) - writer.listed() == {
            "offset_commits/c/2026-11-29/2-other-0.parquet",
            "_kgroup/coverage/2-other.npy",
        }
    with write_warehouse(s3) as writer:
        state = writer.state("c")
        monkeypatch.setattr(warehouses, "UNCOMMITTED_S", -60)  # as if they were a day old
        assert retention.unneeded_files(writer, 0).file_count == 2
        lost = replace(state.files[0], path=f"{state.files[0].path}.gone")
        with pytest.raises(OSError, match=r"\.gone: .* which took more than a day"):
            writer.commit({"c": replace(state, files=(*state.files, lost))}, {})
        writer.sweep()
        assert files_in(s3) == writer.listed()


def test_a_build_of_more_than_a_day(
    s3: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "w", SAMPLE)
    monkeypatch.setattr(warehouses, "UNCOMMITTED_S", -60)  # as if it took that long
    build(s3, SAMPLE)
    assert read_tables(s3, "c") == read_tables(tmp_path / "w", "c")


def test_a_build_that_is_committed_does_not_fail(
    s3: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would if the store could not be asked for a moment."""
    lost = InputError("the connection was lost", path="s3://warehouses")
    monkeypatch.setattr(warehouses.WarehouseWriter, "repair", Mock(side_effect=lost))
    assert not build(s3, SAMPLE).errors


STAGES = ("file-written", "derived", "no-table", "some-tables", "all-tables", "state-written",
          "state-committed")  # fmt: skip


@pytest.mark.slow
def test_killed(s3: RemotePath, tmp_path: Path) -> None:
    early, late, base = tmp_path / "early", tmp_path / "late", tmp_path / "base"
    write_halves(early, late)
    build(base, early)
    for name in STAGES[1:]:  # the first one is new
        build(s3 / name, early)
    before = read_tables(base, "c")
    build(base, late)
    after = read_tables(base, "c")
    words = (sys.executable, "-m", "tests.history.killed_build", str(late), s3.uri, *STAGES)
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert set(run.stdout.splitlines()) == {f"{name} -9" for name in STAGES}, run.stderr
    for name in STAGES:
        root = s3 / name
        if name != STAGES[0]:
            left = after if name in COMMITTED else before
            assert read_tables(root, "c") == left, name
        build(root, late)
        assert read_tables(root, "c") == after, name
        check_newest(root)


def test_expire_delete_vacuum(cli: Cli, store: RemotePath, tmp_path: Path) -> None:
    local = tmp_path / "w"
    answers = []
    for place in (local, as_typed(store)):
        cli("history", "build", "--sample", "--to", place, "--cluster", "c")
        outs = []
        for words in (
            ("delete", "--group", "order-service"),
            ("delete", "--group", "order-service", "--execute"),
            ("expire", "--older-than", "1ms"),
            ("expire", "--older-than", "1ms", "--execute"),
            ("vacuum", "--keep", "1h"),
            ("vacuum", "--keep", "0s"),
            ("vacuum", "--keep", "0s", "--execute"),
            ("vacuum", "--keep", "0s"),
        ):
            result = cli("history", *words, "--warehouse", place, "-o", "jsonl")
            assert result.status == 0, result.err
            outs.append(result.out)
        answers.append(outs)
    assert [out.count("\n") for out in answers[0]] == [out.count("\n") for out in answers[1]]
    assert answers[0][:4] == answers[1][:4]
    assert '"file_count":0,' in answers[1][-1]
    assert '"file_count":0,' not in answers[1][-2]
    assert read_tables(store, "c") == read_tables(local, "c") != {}
    check_newest(store)
    with read_warehouse(store) as warehouse:
        assert files_in(store) == warehouse.listed()


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """Parameters of a server that refuses these credentials."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "kgroup")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "swordfish")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "2")
        with server(port, "moto.server", "-H", HOST, "-p", str(port)):
            found = f"?endpoint_override={HOST}%3A{port}&scheme=http&region=us-east-1"
            files, _ = FileSystem.from_uri(f"s3://{BUCKET}{found}&allow_bucket_creation=true")
            files.create_dir(BUCKET)
            yield found


def test_access_is_denied(cli: Cli, closed: str) -> None:
    place = f"s3://kgroup:swordfish@{BUCKET}/w{closed}"
    for words in (("build", "--sample", "--to"), ("show", "--warehouse"), ("stale", "--warehouse")):
        result = cli("history", *words, place)
        assert result.status == 1
        assert f"s3://{BUCKET}/w/" in result.err
        assert "AWS Error" in result.err
        assert "Check the name of the bucket" in result.err
        assert "swordfish" not in result.err
        assert "Traceback" not in result.err


def test_a_bucket_that_does_not_exist(cli: Cli, parameters: str) -> None:
    place = f"s3://no-such-bucket/w{parameters}"
    result = cli("history", "build", "--sample", "--to", place)
    assert (result.status, result.out) == (1, "")
    assert "NO_SUCH_BUCKET" in result.err
    assert "The tables are unchanged." in result.err
    result = cli("history", "show", "--warehouse", place)
    assert "s3://no-such-bucket/w: expected a warehouse, found nothing" in result.err


def test_no_server(cli: Cli, parameters: str) -> None:
    place = f"s3://{BUCKET}/w?endpoint_override={HOST}%3A{free_port()}&scheme=http&region=eu-west-1"
    result = cli("history", "show", "--warehouse", place)
    assert (result.status, result.out) == (1, "")
    assert f"s3://{BUCKET}/w/_kgroup: " in result.err
    assert "Check the name of the bucket, the endpoint" in result.err


def test_a_log_that_no_request_reaches(parameters: str) -> None:
    """That is no reason to restore anything."""
    port = f"endpoint_override={HOST}%3A{free_port()}"
    place = f"s3://{BUCKET}/w" + re.sub(r"endpoint_override=[^&]*", port, parameters)
    with pytest.raises(InputError, match=r"Check the credentials, .* is unchanged") as error:
        DeltaLog(RemotePath.of(place), pa.schema([]), "").read()
    assert "Restore" not in str(error.value)


def test_not_a_warehouse(cli: Cli, store: RemotePath) -> None:
    (store / "notes.txt").write_bytes(b"mine")
    for words in (("build", "--sample", "--to"), ("show", "--warehouse")):
        result = cli("history", *words, as_typed(store))
        assert result.status == 1
        assert f"{store}: expected a warehouse" in result.err
        assert "found other files" in result.err
    assert files_in(store / "..") == set()


def test_damage(store: RemotePath) -> None:
    build(store, SAMPLE)
    with read_warehouse(store) as warehouse:
        path = warehouse.files()["members"][0]
    path.unlink()
    with pytest.raises(InputError, match=f"{path}: not as the build wrote it; No such file"):
        build(store, SAMPLE)
    path.write_bytes(b"shorter")
    with pytest.raises(InputError, match="found 7"):
        build(store, SAMPLE)


def test_spark_refuses_it(cli: Cli, s3: RemotePath) -> None:
    build(s3, SAMPLE)
    result = cli("history", "stale", "--warehouse", as_typed(s3), "--engine", "spark")
    assert result.status == 2
    assert "use --engine duckdb" in result.err


def test_spark_writes_it(spark: SparkSession, s3: RemotePath, tmp_path: Path) -> None:
    """Executors write the files, and the driver commits; Spark's environment has no credentials."""
    s3 = replace(s3, user="kgroup:swordfish")
    early, late = tmp_path / "early", tmp_path / "late"
    write_halves(early, late)
    for source in (early, late):
        build(s3, source, run=partial(run_on, spark))
    build(tmp_path / "w", late)
    assert read_tables(s3, "c") == read_tables(tmp_path / "w", "c") != {}
    check_newest(s3)
