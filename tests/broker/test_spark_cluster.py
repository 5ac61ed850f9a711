"""A standalone cluster does the same as an embedded Spark, also where executors are lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import kgroup.__main__
from kgroup.spark.data_source import KgroupDataSource
from kgroup.spark.session import run_on, spark_session
from tests.broker.killed_task import run_and_kill
from tests.broker.quick_spark import OPTIONS, QUICK
from tests.broker.spark_cluster import SparkCluster, spark_cluster
from tests.history.build_file import files_on_disk, files_that_count
from tests.history.builds import RECORDED, SAMPLE, build
from tests.history.recorded import log_of
from tests.history.table_oracle import read_tables
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
ONE_EXECUTOR = [*OPTIONS, "--spark-conf", "spark.cores.max=1"]
PLACES = [path for path in RECORDED if path.name in ("kafka-4.3.1", "kafka-1.1.1")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that was built in this process: a cluster for each place."""
    root = tmp_path_factory.mktemp("expected") / "w"
    for place in PLACES:
        build(root, place, cluster=place.name)
    return root


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> list[str]:
    """Run a command line of `history build`; give the clusters that it has built."""
    python = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | python | environment,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # spark-submit sends to standard output what the program writes to standard error.
    document, _ = json.JSONDecoder().raw_decode(done.stdout)
    return [each["cluster"] for each in document["data"]]


def applications(cluster: SparkCluster) -> int:
    """Count those that executors have worked for."""
    return len({path.name for path in cluster.folder.glob("worker-*/app-*")})


class TestOneApplication:
    """Tests that share a session, and with it executors; while it lasts no other has cores."""

    @pytest.fixture(scope="class")
    def session(self, cluster: SparkCluster) -> Iterator[SparkSession]:
        with spark_session(cluster.master, QUICK) as session:
            yield session

    def test_executors_of_both_workers_do_the_work(self, session: SparkSession) -> None:
        def where(number: int) -> tuple[int, str]:
            import time

            time.sleep(2)
            return number, os.environ["SPARK_EXECUTOR_DIRS"]

        def do_both_work() -> bool:  # one may start later
            done = list(run_on(session, where, range(4)))
            assert [number for number, _ in done] == [0, 1, 2, 3]
            return len({place for _, place in done}) == 2

        until(do_both_work)
        session.dataSource.register(KgroupDataSource)
        rows = session.read.format("kgroup").load(str(SAMPLE))
        assert rows.count() == sum(map(len, log_of(SAMPLE).values()))

    def test_executors_that_are_killed(
        self, session: SparkSession, expected: Path, tmp_path: Path
    ) -> None:
        for is_executor in (False, True):
            root, marker = tmp_path / str(is_executor), tmp_path / f"killed-{is_executor}"
            run = run_and_kill(session, marker, executor=is_executor)
            for place in PLACES:
                build(root, place, cluster=place.name, run=run)
            assert marker.exists()
            for place in PLACES:
                tables = read_tables(root, place.name)
                assert tables == read_tables(expected, place.name)
            assert files_on_disk(root) == files_that_count(root)
        again = build(root, *PLACES[:1], cluster=PLACES[0].name, run=partial(run_on, session))
        assert again.data[0].segments_read == 0


SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def command(
    cluster: SparkCluster, place: Path, options: Sequence[str], *, is_submitted: bool
) -> list[str | Path]:
    """Return the command line that builds "w" from "log", by one way to start Spark."""
    build_it: list[str | Path] = ["history", "build", "--from", "log", "--to", "w"]
    build_it += ["--cluster", place.name, "-o", "json"]
    if not is_submitted:
        return [sys.executable, "-m", "kgroup", *build_it, "--master", cluster.master, *options]
    settings = ["--conf" if part == "--spark-conf" else part for part in options]
    program: list[str | Path] = [
        SUBMIT,
        "--master",
        cluster.master,
        *settings,
        kgroup.__main__.__file__,
    ]
    # A setting makes even a little go to Spark.
    return [*program, *build_it, "--spark-conf", "spark.app.name=kgroup"]


@pytest.mark.parametrize("is_submitted", [False, True], ids=["--master", "spark-submit"])
def test_the_command_line(
    cluster: SparkCluster, expected: Path, tmp_path: Path, is_submitted: bool
) -> None:
    before = applications(cluster)
    (place, *_) = PLACES
    (tmp_path / "log").symlink_to(place)  # both as seen from here, not from the executors
    line = command(cluster, place, ONE_EXECUTOR, is_submitted=is_submitted)
    assert run(line, tmp_path) == [place.name]
    assert applications(cluster) == before + 1
    assert read_tables(tmp_path / "w", place.name) == read_tables(expected, place.name)


_PYTHON = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/lib:$PYTHONPATH" exec {python} "$@"
"""

_LOSE_MACHINE = """
import os, signal
from pathlib import Path
import kgroup
from kgroup.history.warehouse.table_file import _File

write = _File.write

def parent(pid):
    status = Path(f"/proc/{{pid}}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])

def write_or_die(self, rows):
    write(self, rows)
    try:
        with open({marker!r}, "x") as file:
            file.write(kgroup.__file__)
    except FileExistsError:
        return
    executor = parent(os.getppid())  # of Python's daemon, that workers are forked from
    worker = parent(executor)
    for pid in (worker, executor):
        assert Path(f"/proc/{{pid}}/comm").read_text().strip() == "java"
    for pid in (worker, executor, os.getpid()):
        os.kill(pid, signal.SIGKILL)

_File.write = write_or_die
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An environment for executors, with a kgroup of its own; the first task loses its machine."""
    environment = tmp_path / "environment"
    shutil.copytree(
        ROOT / "kgroup",
        environment / "lib" / "kgroup",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    marker = str(tmp_path / "lost")
    (environment / "lib" / "sitecustomize.py").write_text(_LOSE_MACHINE.format(marker=marker))
    python = environment / "bin" / "python"
    python.parent.mkdir()
    python.write_text(_PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    return Path(shutil.make_archive(str(tmp_path / "environment"), "gztar", environment))


@pytest.mark.parametrize("is_submitted", [False, True], ids=["--master", "spark-submit"])
def test_a_machine_that_is_lost(
    archive: Path, expected: Path, tmp_path: Path, is_submitted: bool
) -> None:
    """A worker and its executor are killed while they write; executors come with an archive."""
    (place, *_) = PLACES
    (tmp_path / "log").symlink_to(place)
    options = [*OPTIONS, "--spark-conf", f"spark.archives={archive}#env"]
    with spark_cluster(tmp_path / "spark") as cluster:
        line = command(cluster, place, options, is_submitted=is_submitted)
        python = {"PYSPARK_PYTHON": "env/bin/python", "PYSPARK_DRIVER_PYTHON": sys.executable}
        assert run(line, tmp_path, **python) == [place.name]
    loaded = Path((tmp_path / "lost").read_text())
    assert loaded.parts[-4:-2] == ("env", "lib")
    assert read_tables(tmp_path / "w", place.name) == read_tables(expected, place.name)
    assert files_on_disk(tmp_path / "w") == files_that_count(tmp_path / "w")
