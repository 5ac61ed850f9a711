"""`kgroup history stream` on a live broker: every record once, whenever it is ended."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kgroup.history.build import Build
from kgroup.history.live_source import LiveSource
from kgroup.source.client_config import client_config
from kgroup.spark import stream as stream_module
from tests.broker.maven import die_with_parent
from tests.broker.servers import Broker, broker
from tests.record.raw import await_coordinator, commit, create_topics
from tests.record.wire import Wire

VERSION = "4.3.1"
DEADLINE_S = 400.0
KGROUP = [sys.executable, "-m", "kgroup"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(VERSION, tmp_path_factory.mktemp("kafka")) as found:
        with Wire(VERSION, found.bootstrap) as wire:
            create_topics(wire, {"orders": 3})
            await_coordinator(wire)
        yield found


def commits(server: Broker, offsets: range) -> None:
    with Wire(VERSION, server.bootstrap) as wire:
        for number in offsets:
            commit(wire, f"group-{number % 3}", {("orders", 0): number})


@contextmanager
def stream(server: Broker, warehouse: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as out:
        process = subprocess.Popen(
            [
                *KGROUP,
                *("history", "stream", "-b", server.bootstrap, "--to", str(warehouse)),
                *("--every", "1", "--master", "local[1]"),
            ],
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(warehouse: Path, sql: str) -> list[dict[str, Any]]:
    command = [*KGROUP, "history", "sql", "--warehouse", str(warehouse), sql, "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=False)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["data"] if done.returncode == 0 else []
    return rows


def await_commits(warehouse: Path, offsets: range, log: Path) -> None:
    """Wait until the tables have these, each once."""
    deadline = time.monotonic() + DEADLINE_S
    found: list[int] = []
    while found != list(offsets):
        assert time.monotonic() < deadline, f"found {found}\n{log.read_text()[-3000:]}"
        time.sleep(1)
        sql = "SELECT committed_offset FROM offset_commits ORDER BY committed_offset"
        found = [row["committed_offset"] for row in ask(warehouse, sql)]
        assert len(found) == len(set(found))


def test_every_record_is_in_the_tables_once(server: Broker, tmp_path: Path) -> None:
    warehouse, log = tmp_path / "warehouse", tmp_path / "log"
    commits(server, range(10))
    with stream(server, warehouse, log) as process:
        await_commits(warehouse, range(10), log)
        commits(server, range(10, 15))
        await_commits(warehouse, range(15), log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert "Traceback" not in log.read_text()
    assert "10 offset_commits" in log.read_text()
    commits(server, range(15, 20))
    with stream(server, warehouse, log) as process:
        await_commits(warehouse, range(20), log)
        process.kill()  # at any moment
        process.wait()
    commits(server, range(20, 22))
    with stream(server, warehouse, log) as process:
        await_commits(warehouse, range(22), log)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130

    # a build from the same log finds the same, and nothing new after the stream
    built = [*KGROUP, "history", "build", "-b", server.bootstrap, "--to"]
    subprocess.run([*built, str(tmp_path / "other")], check=True, capture_output=True)
    done = subprocess.run([*built, str(warehouse), "-o", "json"], check=True, capture_output=True)
    tables = [table for row in json.loads(done.stdout)["data"] for table in row["tables"]]
    assert {table["new_rows"] for table in tables} == {0}
    for table in ("offset_commits", "group_generations", "members", "assignments", "tombstones"):
        sql = f"SELECT * FROM {table} ORDER BY offsets_partition, 2"
        assert ask(warehouse, sql) == ask(tmp_path / "other", sql)


def test_a_batch_is_of_all_that_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that had no leader when its batch was written may be in no batch any more."""
    config = client_config(environment={}, bootstrap_server="127.0.0.1:9")
    live = LiveSource("c", {3: (0, 5), 4: (0, 5)}, {}, (), config)
    read: list[LiveSource] = []
    monkeypatch.setattr(stream_module, "ask_live", lambda config, cluster: live)
    monkeypatch.setattr(Build, "read_live", lambda self, source: read.append(source))
    rows = Mock(isEmpty=lambda: False)
    split = live.splits()[0]
    rows.collect.return_value = [{"split": pickle.dumps(split)}]
    stream_module._Batch(Mock(), config, "c", tmp_path, lambda report: None).write(rows, 1)
    assert [source.ranges for source in read] == [live.ranges]
