"""Plans of `kgroup offsets` beside those of `kafka-consumer-groups --reset-offsets`, on one broker.

Each goal is asked of both, as a plan, and what both would commit is compared partition by
partition. Plans in files go both ways: what Kafka's tool exports is ours line by line, and it
carries out what we export.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.broker.group_tools import PATIENT
from tests.broker.maven import run_java, version_tuple
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.examples import in_depth
from tests.record.raw import await_coordinator, commit, create_topics
from tests.record.wire import Wire

VERSIONS = ("1.1.1", "2.8.2", *in_depth(("3.9.2",), ()), "4.3.1")
NAMES = (
    "billing",
    "a group, with a comma",
    "group-of-more-than-24-characters",
    'say "hi"',
    "back\\slash",
    '\\"both,',
)
"""Of groups; only the first can be asked of the tool of 1.1.1, which quotes nothing."""


@dataclass(frozen=True)
class Logs:
    """A broker whose topic "orders" has records of several times, three partitions of four.

    Attributes:
        server: the broker.
        middle_ms: epoch milliseconds between the older and the newer ones.
    """

    server: Broker
    middle_ms: int

    def plan(self, *goal: str, group: str = "billing", topics: str = "--all-topics") -> set[str]:
        """Ask Kafka's tool what it would commit: lines of its CSV."""
        line = ["--reset-offsets", "--group", group, *topics.split(), *goal]
        return set(self.tool(*line, "--export", "--dry-run").splitlines())

    def tool(self, *arguments: str) -> str:
        """Run `kafka-consumer-groups`; give its lines."""
        text = self.said(*arguments)
        return "\n".join(
            splitline
            for splitline in text.splitlines()
            if splitline and not splitline.startswith("Warn")
        )

    def said(self, *arguments: str) -> str:
        """Run `kafka-consumer-groups`; give all that it writes to standard output."""
        main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        if version_tuple(self.server.version) < (3, 8):
            main = "kafka.admin.ConsumerGroupCommand"
        line = ["--bootstrap-server", self.server.bootstrap, *arguments, *PATIENT]
        return run_java(self.server.version, main, line).stdout.decode()


@pytest.fixture(scope="module", params=VERSIONS)
def logs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Logs]:
    version: str = request.param
    with broker(version, tmp_path_factory.mktemp(f"plans-{version}")) as server:
        with Wire(version, server.bootstrap) as wire:
            create_topics(wire, {"orders": 4, "a-topic-of-26-characters_": 1})
            await_coordinator(wire)
            old_ms = (time.time_ns() // 1_000_000) - 3_600_000
            producer = KafkaProducer(bootstrap_servers=server.bootstrap)
            for partition in range(3):
                for number in range(10 + partition):
                    # None from 15 to 45 minutes after the first: so the time 40 minutes ago, 20
                    # after it when the tests begin, passes none while they run.
                    after_ms = number * 300_000 if number < 4 else 2_700_000 + number * 9_000
                    at_ms = old_ms + (number * 500 if partition == 2 else after_ms)
                    producer.send("orders", b"x", partition=partition, timestamp_ms=at_ms)
            producer.flush()
            producer.close()
            for name in NAMES:
                commit(wire, name, {("orders", 0): 4, ("orders", 1): 11, ("orders", 2): 99})
                commit(wire, name, {("a-topic-of-26-characters_", 0): 0})
        yield Logs(server, old_ms + 1_800_000)


def ours(cli: Cli, logs: Logs, *arguments: str) -> set[str]:
    """Ask kgroup for the same: what it would commit, in the form of Kafka's lines."""
    line = ["offsets", "reset", "-b", logs.server.bootstrap, "billing", *arguments, "-o", "json"]
    result = cli(*line)
    rows = json.loads(result.out)["data"]
    assert result.status == 0, result.err
    return {
        f"{name if len(name) < 25 else json.dumps(name)},{row['partition']},{row['target_offset']}"
        for row in rows
        for name in (row["topic"],)
    }


GOALS = {
    "--to-earliest": "--to-earliest",
    "--to-latest": "--to-latest",
    "--to-current": "--to-current",
    "--to-offset 7": "--to-offset 7",
    "--to-offset 500": "--to-offset 500",
    "--shift-by 3": "--shift-by 3",
    "--shift-by -6": "--shift-by -6",
    "--by-duration PT40M": "--to-time 40m",
}


@pytest.mark.parametrize("theirs", GOALS)
def test_goals_over_what_is_committed(cli: Cli, logs: Logs, theirs: str) -> None:
    found = logs.plan(*theirs.split())
    assert len(found) == 4
    assert unquoted(ours(cli, logs, *GOALS[theirs].split())) == unquoted(found)


@pytest.mark.parametrize("topic", ["orders", "orders:0,3"])
def test_goals_over_topics(cli: Cli, logs: Logs, topic: str) -> None:
    for theirs in ("--to-earliest", "--to-current", "--to-offset 11"):
        found = logs.plan(*theirs.split(), topics=f"--topic {topic}")
        assert ours(cli, logs, *theirs.split(), "--topic", topic) == found


def test_a_time(cli: Cli, logs: Logs) -> None:
    text = datetime.fromtimestamp(logs.middle_ms / 1000, UTC).isoformat(timespec="milliseconds")
    theirs = logs.plan("--to-datetime", text.removesuffix("+00:00"))
    if version_tuple(logs.server.version) < (2, 5):  # takes it for the local time
        theirs = logs.plan("--to-datetime", text.replace("+00:00", "+0000"))
    assert unquoted(ours(cli, logs, "--to-time", text)) == unquoted(theirs)


def test_lines_are_those_of_the_tool(cli: Cli, logs: Logs, tmp_path: Path) -> None:
    """What we export Kafka's tool would write, and reads; that of 1.1.1 knows no quotes."""
    quotes = version_tuple(logs.server.version) >= (2, 8)
    path = tmp_path / "plan.csv"
    names = in_depth(NAMES, (NAMES[0], NAMES[1], NAMES[-1]))
    for group in names if quotes else NAMES[:1]:
        path.unlink(missing_ok=True)
        shown = cli("offsets", "export", "-b", logs.server.bootstrap, group, "-f", path)
        assert shown.status == 0, shown.err
        committed = set(path.read_text("utf-8").splitlines())
        if quotes:
            assert committed == logs.plan("--to-current", group=group)
            within = {line.replace(",99", ",12") for line in committed}  # the end of the log
            assert within == logs.plan("--from-file", str(path), group=group)
        else:
            assert unquoted(committed) == logs.plan("--to-current", group=group)


def test_lines_of_several_groups_name_them(cli: Cli, logs: Logs, tmp_path: Path) -> None:
    if version_tuple(logs.server.version) < (2, 8):
        return  # whose tool takes one group only, and no quotes
    path = tmp_path / "plan.csv"
    line = ["offsets", "export", "-b", logs.server.bootstrap, "-f", path, "--force"]
    goal = ["--reset-offsets", "--all-topics", "--to-current", "--export", "--dry-run"]
    for ours, theirs in (
        (["--all"], ["--all-groups"]),
        (NAMES[:2], ["--group", NAMES[0], "--group", NAMES[1]]),
    ):
        assert cli(*line, *ours).status == 0
        committed = set(path.read_text("utf-8").splitlines())
        lines = logs.tool(*goal, *theirs)
        assert committed == set(lines.splitlines())
        path.write_text(lines)
        read = cli("offsets", "show", "--file", path, "--all", "-o", "json")
        groups = {row["group_id"] for row in json.loads(read.out)["data"]}
        assert groups == set(NAMES if ours == ["--all"] else ours)


@pytest.mark.parametrize("export", [["--export"], []])
def test_whatever_the_tool_says_is_read(
    cli: Cli, logs: Logs, tmp_path: Path, export: list[str]
) -> None:
    """Its CSV, its table, and between the lines what it says of partition 3, which is empty."""
    if not export and logs.server.version == "3.9.2":
        return  # which writes the whole table in one line
    goal = ["--topic", "orders", "--by-duration", "PT40M"]
    line = ["--reset-offsets", "--group", "billing", *goal, "--dry-run", *export]
    path = tmp_path / "plan"
    path.write_text(logs.said(*line))
    result = cli("offsets", "show", "--file", path, "billing", "-o", "json")
    assert result.status == 0, result.err
    found = {
        f"{row['topic']},{row['partition']},{row['committed_offset']}"
        for row in json.loads(result.out)["data"]
    }
    assert found == logs.plan(*goal[2:], topics="--topic orders")


def test_bytes_are_those_of_the_segments(cli: Cli, logs: Logs) -> None:
    line = ["offsets", "reset", "-b", logs.server.bootstrap, "billing", "--to-earliest", "--times"]
    found = {
        (row["topic"], row["partition"]): row["bytes"]
        for row in json.loads(cli(*line, "-o", "json").out)["data"]
    }
    segment = logs.server.log_dir / "orders-1" / f"{0:020}.log"
    assert found["orders", 1] == segment.stat().st_size  # from the end, 11, to the begin
    assert found["orders", 0] is None  # from 4, in the middle


def test_a_plan_of_the_tool_is_carried_out_and_undone(cli: Cli, logs: Logs, tmp_path: Path) -> None:
    plan, backup = tmp_path / "plan.csv", tmp_path / "backup.json"
    before, wanted = logs.plan("--to-current"), logs.plan("--to-offset", "3")
    assert before != wanted
    plan.write_text("\n".join(sorted(wanted)))
    where = ["-b", logs.server.bootstrap]
    more = ["--execute", "--backup"]
    done = cli("offsets", "import", *where, plan, "billing", *more, backup)
    assert done.status == 0, done.err
    assert logs.plan("--to-current") == wanted
    again = cli("offsets", "import", *where, plan, "billing", "-o", "csv")
    assert again.out.count("unchanged") == 4
    undone = cli("offsets", "import", *where, backup, *more, tmp_path / "other.json")
    assert undone.status == 0, undone.err
    assert logs.plan("--to-current") == before


def unquoted(lines: set[str]) -> set[str]:
    """Take the quotes away that older versions do not write."""
    return {line.replace('"', "") for line in lines}


def test_what_a_cluster_does_not_have(cli: Cli, logs: Logs, tmp_path: Path) -> None:
    line = ["offsets", "reset", "-b", logs.server.bootstrap, "billing", "--to-latest"]
    for topic, text in (
        ("nosuch", "nosuch: The topic does not exist."),
        ("orders:9999", "orders-9999: The topic exists, but has no partition with this number."),
    ):
        result = cli(*line, "--topic", topic, "-o", "json")
        assert result.status == 3, result.out
        assert text in {each["reason"] for each in json.loads(result.out)["errors"]}
    plan = tmp_path / "plan.csv"
    plan.write_text("orders,0,4\norders,9,1\nnosuch,0,1\n")
    result = cli("offsets", "import", "-b", logs.server.bootstrap, plan, "billing", "-o", "json")
    assert result.status == 4
    found = {
        (row["topic"], row["partition"]): row["mark"] for row in json.loads(result.out)["data"]
    }
    assert found == {
        ("nosuch", 0): "topic-gone",
        ("orders", 0): None,
        ("orders", 9): "partition-gone",
    }


def test_groups_in_zookeeper_go_to_the_same_places(cli: Cli, logs: Logs, tmp_path: Path) -> None:
    """Which ZooKeeper does not know: brokers are asked."""
    if logs.server.zookeeper is None:
        return
    connect, bootstrap = logs.server.zookeeper.connect, logs.server.bootstrap
    line = ["offsets", "copy", f"kafka:{bootstrap}", f"zookeeper:{connect}", "--group", "billing"]
    backup = tmp_path / "backup.json"
    copied = cli(*line, "-o", "json", "--clamp", "--execute", "--backup", backup)
    assert copied.status == 0
    rows = json.loads(copied.out)["data"]
    assert {row["partition"]: row["mark"] for row in rows} == {0: None, 1: None, 2: "past-end"}
    for theirs in ("--by-duration PT40M", "--to-earliest", "--to-latest"):
        line = ["offsets", "reset", "--zookeeper", connect, "billing", *GOALS[theirs].split()]
        result = cli(*line, "--times", "-o", "json")
        assert result.status == 0, result.err
        rows = json.loads(result.out)["data"]
        found = {f"{row['topic']},{row['partition']},{row['target_offset']}" for row in rows}
        assert found == unquoted(logs.plan(*theirs.split()))
    undone = cli(
        "offsets", "import", "--zookeeper", connect, backup, "--execute", "--backup", tmp_path / "u"
    )
    assert undone.status == 0
