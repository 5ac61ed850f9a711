"""`kgroup history stream` on a live broker: every record once, whenever it is ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from kgroup.errors import InputError
from tests.broker.maven import die_with_parent
from tests.broker.proxy import RecordingProxy, why_not_harmless
from tests.broker.quick_spark import OPTIONS
from tests.broker.servers import CLUSTER_ID, Broker
from tests.history.build_file import files_on_disk, files_that_count
from tests.history.paused_command import await_paused, paused_command
from tests.history.recorded import open_engine
from tests.record.raw import commit_each
from tests.waiting import PATIENCE_S

DEADLINE_S = 400.0
ROOT = Path(__file__).parents[2]
KGROUP = [sys.executable, "-m", "kgroup"]
STREAM = ["history", "stream", "--every", "1", "--master", "local[1]", *OPTIONS]


def commits(server: Broker, offsets: range) -> None:
    for number in range(3):
        commit_each(server.version, server.bootstrap, f"stream-{number}", offsets[number::3])


@contextmanager
def running(command: Sequence[str | Path], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
    try:
        yield process
    except AssertionError:
        print(log.read_text()[-3000:])
        raise
    finally:
        process.kill()
        process.wait()


def ask(warehouse: Path, sql: str) -> list[dict[str, Any]]:
    try:
        with open_engine(warehouse) as engine:
            rows: list[dict[str, Any]] = engine.query(sql).to_pylist()
            return rows
    except InputError:  # it is not there yet
        return []


def await_commits(warehouse: Path, offsets: range, process: subprocess.Popen[bytes]) -> None:
    """Wait until the tables have these, each once."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := committed(warehouse)) != list(offsets):
        assert time.monotonic() < deadline, found
        assert process.poll() is None, found
        assert len(found) == len(set(found))
        time.sleep(0.5)


def await_progress(log: Path, records: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until Spark has counted as many records in its batches."""
    deadline = time.monotonic() + DEADLINE_S
    pattern = re.compile(r"^kgroup: batch \d+: ([\d,]+) records in ", re.MULTILINE)
    while True:
        counts = [int(count.replace(",", "")) for count in pattern.findall(log.read_text())]
        if sum(counts) == records:
            return
        assert time.monotonic() < deadline, (counts, records)
        assert process.poll() is None
        time.sleep(0.5)


def written(warehouse: Path) -> int:
    """Count the records in the tables; each is a row of one of these."""
    tables = ("offset_commits", "group_generations", "consumer_group_epochs", "tombstones")
    counts = [
        f"(SELECT COUNT(*) FROM {table})" for table in (*tables, "transactions", "other_records")
    ]
    ((count,),) = [row.values() for row in ask(warehouse, f"SELECT {' + '.join(counts)} AS n")]
    return int(count)


def uncommitted(warehouse: Path) -> set[str]:
    """Files of a table that executors have written, and no commit names."""
    found = files_on_disk(warehouse) - files_that_count(warehouse)
    return {path for path in found if path.startswith("offset_commits/")}


def committed(warehouse: Path) -> list[int]:
    sql = "SELECT committed_offset FROM offset_commits WHERE group_id LIKE 'stream-%' ORDER BY 1"
    return [row["committed_offset"] for row in ask(warehouse, sql)]


def unfinished(warehouse: Path) -> set[str]:
    """Batches that Spark has begun, and does not know to be done."""
    checkpoint = warehouse / "_kgroup" / "stream" / CLUSTER_ID
    begun, done = (
        {path.name for path in (checkpoint / name).iterdir() if path.name.isdecimal()}
        for name in ("offsets", "commits")
    )
    return begun - done


def log_ranges(server: Broker) -> list[tuple[int, int, int]]:
    """Ask for start and end of each partition of the topic "orders", which nobody writes to."""
    with closing(KafkaConsumer(bootstrap_servers=server.bootstrap)) as consumer:
        places = [
            TopicPartition("orders", number)
            for number in sorted(consumer.partitions_for_topic("orders"))
        ]
        starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    return [(place.partition, starts[place], ends[place]) for place in places]


@pytest.fixture
def proxy(orders_broker: Broker) -> Iterator[RecordingProxy]:
    with RecordingProxy([orders_broker.port]) as proxy:
        yield proxy
        flaws = [why_not_harmless(request, orders_broker.version) for request in proxy.requests]
        assert (len(flaws) > 0, [flaw for flaw in flaws if flaw]) == (True, [])


def test_every_record_is_in_the_tables_once(
    orders_broker: Broker, proxy: RecordingProxy, tmp_path: Path
) -> None:
    """By requests that only read."""
    warehouse, log = tmp_path / "warehouse", tmp_path / "log"
    source = ["-b", proxy.bootstrap]
    stream = [*STREAM, *source, "--to", "warehouse"]  # a path as most people write it
    build: list[str | Path] = ["history", "build", *source, "--to"]
    commits(orders_broker, range(10))
    with running([*KGROUP, *stream], log) as process:
        await_commits(warehouse, range(10), process)
        commits(orders_broker, range(10, 15))
        await_commits(warehouse, range(15), process)
        await_progress(log, written(warehouse), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
    assert "Traceback" not in log.read_text()
    rows = ask(warehouse, "SELECT 1 FROM offset_commits")  # other tests have committed, too
    assert sum(map(int, re.findall(r"(\d+) offset_commits", log.read_text()))) == len(rows) >= 15
    ends = (
        "SELECT DISTINCT partition, log_start_offset, log_end_offset FROM log_ends "
        "WHERE topic = 'orders' ORDER BY 1"
    )
    assert [tuple(row.values()) for row in ask(warehouse, ends)] == log_ranges(orders_broker)

    # one that is killed behind its commit, of which Spark is told nothing
    commits(orders_broker, range(15, 20))
    with running(paused_command(*stream, die=True), log) as process:
        await_paused(process)
        refused = subprocess.run([*KGROUP, *build, warehouse], capture_output=True, text=True)
        assert refused.returncode == 1
        assert f"process {process.pid} on" in refused.stderr
        assert committed(warehouse) == list(range(15))
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert committed(warehouse) == list(range(20))
    assert len(unfinished(warehouse)) == 1

    # one that is killed before its commit, when executors have written their files
    commits(orders_broker, range(20, 22))
    with running(paused_command(*stream), log) as process:
        await_paused(process)
        while not (left := uncommitted(warehouse)):  # a batch that is repeated has nothing new
            process.send_signal(signal.SIGCONT)
            await_paused(process)
    assert committed(warehouse) == list(range(20))

    # a build that is at work while it begins, and another one while it runs
    with running(paused_command(*build, warehouse), log) as first:
        await_paused(first)
        with running([*KGROUP, *stream], log) as process:
            commits(orders_broker, range(22, 24))
            first.send_signal(signal.SIGCONT)
            assert first.wait(PATIENCE_S) == 0
            await_commits(warehouse, range(24), process)
            with running(paused_command(*build, warehouse), log) as second:
                await_paused(second)
                commits(orders_broker, range(24, 26))
                second.send_signal(signal.SIGCONT)
                assert second.wait(PATIENCE_S) == 0
            await_commits(warehouse, range(26), process)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 130
    assert "Traceback" not in log.read_text()

    assert not left & uncommitted(warehouse)

    # a build from the same log finds the same, and nothing new after the stream
    command = [*KGROUP, *build]
    subprocess.run([*command, tmp_path / "other"], check=True, capture_output=True)
    done = subprocess.run([*command, warehouse, "-o", "json"], check=True, capture_output=True)
    document = json.loads(done.stdout)
    assert document["errors"] == []
    tables = [table for row in document["data"] for table in row["tables"]]
    news = {table["table"]: table["new_row_count"] for table in tables}
    assert news.pop("log_ends") > 0
    assert set(news.values()) == {0}
    for table in ("offset_commits", "group_generations", "members", "assignments", "tombstones"):
        sql = f"SELECT * FROM {table} ORDER BY offsets_partition, 2"
        assert ask(warehouse, sql) == ask(tmp_path / "other", sql)
