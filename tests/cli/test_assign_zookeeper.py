"""`kgroup assign` on a snapshot of the recorded ZooKeeper."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kgroup.model.log_range import LogRange
from kgroup.model.snapshot import Origin
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.source.snapshot.file import snapshot_lines
from tests.cli.command_line import Cli
from tests.operation.sources import TreeSource
from tests.recorded_tree import recorded, recorded_tree

FIRST, SECOND = (recorded()["consumers"][name] for name in ("billing-1", "billing-2"))


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> str:
    ranges = {}
    for name, ends in recorded()["log_ranges"].items():
        topic, _, partition = name.rpartition("-")
        ranges[topic, int(partition)] = LogRange(ends["start"], ends["end"])
    source = TreeSource(recorded_tree(), ranges)
    report = take_snapshot(source, Origin("zookeeper"), taken_ms=1)
    file: Path = tmp_path_factory.mktemp("zookeeper") / "snapshot.json"
    file.write_bytes(b"".join(snapshot_lines(report.data[0])))
    return str(file)


def test_a_consumer_leaves(cli: Cli, snapshot: str) -> None:
    """What the second consumer owned goes to the first; lags are those of Kafka's own tool."""
    args = ["assign", "billing", "--dry-run", "--snapshot", snapshot, "--remove-member", SECOND]
    result = cli(*args, "-o", "json")
    assert result.status == 0
    assert "Kafka's default; it gives what is owned now" in result.err
    (row,) = json.loads(result.out)["data"]
    checked = recorded()["checked"]["billing"]
    left = {
        (each["topic"], each["partition"]): (each["owner"], each["lag"])
        for each in checked
        if each["owner"].startswith(SECOND)
    }
    assert len(left) == 3
    assert {
        (each["topic"], each["partition"]): (each["from_thread"], each["lag"])
        for each in row["moves"]
        if each["from"] == SECOND
    } == left
    # six partitions of orders, two threads: the third one goes from the second to the first
    assert [
        (each["topic"], each["partition"], each["from_thread"], each["to_thread"])
        for each in row["moves"]
        if each["from"] == FIRST
    ] == [("orders", 2, f"{FIRST}-1", f"{FIRST}-0")]
    assert row["owners"][-1] == {
        "topic": "payments",
        "partition": 2,
        "owner": f"{SECOND}-0",
        "given": f"{FIRST}-0",
        "is_as_given": False,
    }


def test_the_page(cli: Cli, snapshot: str) -> None:
    args = ["assign", "pricing", "--dry-run", "--snapshot", snapshot]
    page = cli(*args, "--strategy", "range").out
    assert "rebalance together  all consumers: their topics overlap" in page
    assert "\nThreads\n" in page
    assert "\nMoves\n" in page
    settled = cli(*args).out  # by roundrobin, as they do
    assert "moves               0" in settled
    assert "\nMoves\n" not in settled
    assert "nobody owns" not in settled
    added = cli(*args, "--strategy", "roundrobin", "--add-topic", "new=2").out
    assert re.search(r"\nPartitions that nobody owns now\n.*\nnew +0 +pricing_.*\nnew +1 ", added)


def test_both_strategies_compared(cli: Cli, snapshot: str) -> None:
    args = ["assign", "pricing", "--dry-run", "--compare", "--snapshot", snapshot]
    head, *rows = (line.split("\t") for line in cli(*args, "-o", "tsv").out.splitlines())
    assert [row[head.index("strategy")] for row in rows] == ["roundrobin", "range"]
    assert rows[0][head.index("moves")] == "0"


def test_the_sample_has_the_example_that_everybody_knows(cli: Cli) -> None:
    """Five partitions, two consumers with two threads each; a third one takes from the second."""
    args = ["assign", "stock-sync", "--sample", "--dry-run"]
    (row,) = json.loads(cli(*args, "-o", "json").out)["data"]
    places = {name: at for at, name in enumerate(sorted(row["assignment"]), 1)}
    assert {
        f"C{places[thread.rpartition('-')[0]]}-{thread.rpartition('-')[2]}": [n for _, n in got]
        for thread, got in row["threads"].items()
    } == {"C1-0": [0, 1], "C1-1": [2], "C2-0": [3], "C2-1": [4]}
    assert row["moves"] == []
    (row,) = json.loads(cli(*args, "--add-member", "1:host=zzz,streams=1", "-o", "json").out)[
        "data"
    ]
    assert row["threads"]["new-1-0"] == [[row["moves"][0]["topic"], 4]]
