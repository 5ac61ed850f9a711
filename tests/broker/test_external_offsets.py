"""The example of offsets beside results: a consumer is killed, nothing is lost or counted twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from kafka import KafkaProducer

from tests.broker.maven import die_with_parent
from tests.broker.servers import Broker
from tests.waiting import PATIENCE_S, until

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "external_offsets.py"

HALF = 400
"""Records that are there before the crash, and as many that come after it."""

PARTITIONS = 4


def test_a_consumer_is_killed_between_processing_and_storing(
    orders_broker: Broker, tmp_path: Path
) -> None:
    orders_broker.create_topic("counted", PARTITIONS)
    file = tmp_path / "counts.db"
    produce(orders_broker, range(HALF))
    with counting(orders_broker, file, "--pause", "0.1") as children:
        until(lambda: total(file) > 0)
        killed = until(lambda: stopped_in_transaction(file, children), every_s=0.005)
        os.kill(killed, signal.SIGKILL)
        produce(orders_broker, range(HALF, 2 * HALF))
        until(lambda: total(file) >= 2 * HALF)
    assert ask(file, "SELECT count(*), min(seen), max(seen) FROM word_count") == [(2 * HALF, 1, 1)]
    assert ask(file, "SELECT count(*), sum(offset) FROM t_offset") == [(PARTITIONS, 2 * HALF)]


@contextmanager
def counting(server: Broker, file: Path, *options: str) -> Iterator[list[int]]:
    """Run the example; give the ids of its two consumers."""
    command = [sys.executable, str(EXAMPLE), server.bootstrap, "counted", str(file), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent()
    )
    try:
        assert process.stdout is not None
        yield [int(word) for word in process.stdout.readline().split()]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()


def stopped_in_transaction(file: Path, children: Sequence[int]) -> int | None:
    """Stop a consumer that has the database locked for writing, and give its id.

    It has then begun to process a batch and has not committed it. One that has just done so when
    it is stopped goes on.
    """
    for child in children:
        if writes(file, child):
            os.kill(child, signal.SIGSTOP)
            until(lambda child=child: state(child) == "T", every_s=0.001)  # type: ignore[misc]
            if writes(file, child):
                return child
            os.kill(child, signal.SIGCONT)
    return None


def writes(file: Path, process: int) -> bool:
    """Return whether a process has a write lock on a file; the kernel lists them (Linux)."""
    inode = str(file.stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "WRITE" in fields and str(process) in fields and fields[-3].split(":")[-1] == inode:
            return True
    return False


def state(process: int) -> str:
    """Return the letter of a process's state."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def produce(server: Broker, numbers: range) -> None:
    """Send a record for each number, in turn to all partitions."""
    with closing(KafkaProducer(bootstrap_servers=server.bootstrap)) as producer:
        for number in numbers:
            producer.send("counted", f"word-{number}".encode(), partition=number % PARTITIONS)
        producer.flush()


def total(file: Path) -> int:
    """Count what was counted, and see that offsets say the same: they are committed together."""
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        (counted,) = connection.execute("SELECT coalesce(sum(seen), 0) FROM word_count").fetchone()
        (stored,) = connection.execute("SELECT coalesce(sum(offset), 0) FROM t_offset").fetchone()
    assert counted == stored
    return int(counted)


def ask(file: Path, statement: str) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        return connection.execute(statement).fetchall()
