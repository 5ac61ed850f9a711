"""`kgroup plan` as it is typed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from shutil import rmtree
from threading import Thread
from typing import Any

import pytest

from tests.cli.command_line import Cli, Result

KAFKAJS = Path(__file__).parents[1] / "data" / "field" / "kafkajs-group.json"
UNPLAYED = (
    "expected a strategy of kafka-clients 4.3.1 (range, roundrobin, sticky, cooperative-sticky), "
    "found 'RoundRobinAssigner' of kafkajs 2.2.4; the simulator plays members as Java's consumers"
)
STICKY = ("plan", "assignor", "cooperative-sticky", "payment-service", "--sample")


def ended(cli: Cli, status: int, *arguments: object) -> Result:
    """Run a command that ends with this status."""
    found = cli(*arguments)
    assert found.status == status, found
    return found


def rows(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["data"]
    return found


@pytest.fixture
def saved(cli: Cli, tmp_path: Path) -> Path:
    """Save a plan for two groups of the sample."""
    path = tmp_path / "plan.json"
    path.write_text(cli(*STICKY[:-1], "order-service", "--sample", "-o", "json").out)
    return path


def test_a_plan_is_a_page(cli: Cli) -> None:
    out = cli(*STICKY).out
    for part in ("Preconditions", "Step 1: Restart every member", "Step 2:", "Forecast"):
        assert part in out
    assert (
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeSticky" in out
    )
    assert "without the plan  One rolling restart, with cooperative-sticky alone." in out


def test_a_plan_says_what_it_assumes_and_no_file_of_a_scenario(cli: Cli) -> None:
    found = cli(*STICKY)
    assert "all is played as in Kafka 4.3.1" in found.out
    assert "assumed of the members" in found.out
    assert "file" not in found.out + found.err


def test_a_plan_without_steps_assumes_nothing(cli: Cli) -> None:
    found = ended(cli, 0, *STICKY[:2], "range", *STICKY[3:])
    assert "Nothing is to be done" in found.out
    assert "played" not in found.out
    assert "assumed" not in found.out


@pytest.mark.parametrize("number", ["0", "100001", "9999999", "9" * 5000])
def test_numbers_of_partitions_that_are_none(cli: Cli, number: str) -> None:
    found = ended(cli, 2, "plan", "partitions", f"orders={number}", "--sample")
    assert "expected 1 to 100000 partitions" in found.err


def test_rows_are_steps(cli: Cli) -> None:
    found = [*csv.DictReader(io.StringIO(cli(*STICKY, "-o", "csv").out))]
    assert [(each["group_id"], each["step"]) for each in found] == [
        ("payment-service", "1"),
        ("payment-service", "2"),
    ]
    (plan,) = rows(cli(*STICKY, "-o", "json").out)
    forecasts = [step["forecast"] for step in plan["steps"]]
    assert [int(each["moved"]) for each in found] == [forecast["moved"] for forecast in forecasts]


def test_a_runbook_in_markdown(cli: Cli) -> None:
    out = cli(*STICKY, "-o", "markdown").out
    assert out.startswith("## payment-service: assignor cooperative-sticky\n")
    assert "### Step 2: Restart every member with cooperative-sticky alone" in out


def test_a_diagram(cli: Cli) -> None:
    out = cli(*STICKY, "--diagram").out
    assert out.startswith("```mermaid\nflowchart TD\n")
    assert "verify --step 2" in out
    assert "--diagram writes a drawing" in ended(cli, 2, *STICKY, "--diagram", "-o", "json").err


def test_a_group_that_is_not_there(cli: Cli) -> None:
    found = ended(cli, 4, *STICKY[:-1], "nosuch", "--sample", "-o", "json")
    assert [row["group_id"] for row in rows(found.out)] == ["payment-service"]
    assert [each["kind"] for each in json.loads(found.out)["errors"]] == ["not-found"]
    ended(cli, 3, "plan", "assignor", "sticky", "nosuch", "--sample")


def test_what_is_said_of_a_member_that_nobody_is(cli: Cli) -> None:
    found = ended(cli, 3, *STICKY, "--settings", "nobody=range")
    assert "found none that is called 'nobody'" in found.err


def test_programs_that_would_end_are_told_at_once(cli: Cli) -> None:
    line = ("plan", "consumer-protocol", "payment-service", "--sample", "--assignor", "nope")
    found = ended(cli, 5, *line, "-o", "json")
    (plan,) = rows(found.out)
    assert "UNSUPPORTED_ASSIGNOR" in plan["summary"]
    assert set(plan["forecast"]["failed"].values()) == {"UNSUPPORTED_ASSIGNOR"}


def test_a_refused_plan_has_a_row(cli: Cli) -> None:
    found = ended(cli, 5, *STICKY, "--settings", "roundrobin", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(found.out))
    assert (row["group_id"], row["step"]) == ("payment-service", "")
    assert "Every member supports range" in row["title"]


def test_groups_that_are_read_by_way_of_zookeeper_are_named(cli: Cli) -> None:
    found = ended(cli, 0, "plan", "partitions", "clicks=8", "--sample")
    assert "by way of ZooKeeper clicks is read by click-stats" in found.err


def test_a_plan_that_cannot_be_carried_out(cli: Cli) -> None:
    found = ended(cli, 5, *STICKY, "--settings", "roundrobin", "-o", "json")
    (plan,) = rows(found.out)
    assert plan["steps"] == []
    assert "refuted" in {each["verdict"] for each in plan["preconditions"]}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fair", "payment-service", "--sample"], "expected a strategy"),
        (["sticky", "payment-service"], "no source of groups given"),
        (["sticky", "payment-service", "--sample", "--settings", "a=fair"], "strategies of range"),
        (["sticky", "payment-service", "--sample", "--settings", "=range"], "strategies of range"),
        (["sticky", "payment-service", "--sample", "--at-once", "0"], "--at-once"),
        (["sticky", "payment-service", "--sample", "--restart-time", "soon"], "not a duration"),
        (["sticky", "payment-service", "--sample", "--restart-time", "2d"], "at most a day (1d)"),
        (["sticky", "payment-service", "--sample", "--poll-interval", "0s"], "some time"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], told: str) -> None:
    assert told in ended(cli, 2, "plan", "assignor", *arguments).err


def test_notes_tell_what_was_said(cli: Cli) -> None:
    assert "a poll() every 2000 ms" in cli(*STICKY, "--poll-interval", "2s", "-o", "json").out
    assert "leave the group again" in cli(*STICKY, "--poll-interval", "5m", "-o", "csv").err
    growth = ("plan", "partitions", "payments=9", "payment-service", "--sample")
    assert (
        "expected a duration greater than 0"
        in ended(cli, 2, *growth, "--metadata-max-age", "0s").err
    )


def test_a_step_that_is_not_done(cli: Cli, saved: Path) -> None:
    before = saved.read_bytes()
    found = ended(cli, 5, "plan", "verify", str(saved), "--step", "1", "--sample", "-o", "json")
    # What order-service is to become it is already; payment-service has not begun.
    assert [(row["group_id"], row["progress"]) for row in rows(found.out)] == [
        ("payment-service", "not-begun")
    ]
    assert saved.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected more, found the end of the file"),
        ("{}", "expected a field schema_version, found none"),
        ('{"schema_version":2,"command":"plan assignor","data":[]}', "expected 1, found 2"),
        ('{"schema_version":1,"command":"list","data":[]}', "expected a plan, found 'list'"),
        ('{"schema_version":1,"command":"plan x","data":[{}]}', "$.data[0]: expected a field"),
        ('{"schema_version":1,"command":"plan x","data":[]}', "expected a plan of a group"),
        ('{"x":' * 100_000, "found JSON of too many levels"),
    ],
)
def test_what_is_no_plan(cli: Cli, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    found = ended(cli, 1, "plan", "verify", str(path), "--step", "1", "--sample")
    assert told in found.err


def test_a_step_that_expects_nothing_is_no_step(cli: Cli, saved: Path) -> None:
    document = json.loads(saved.read_text())
    del document["data"][0]["steps"][0]["expected"]
    saved.write_text(json.dumps(document))
    found = ended(cli, 1, "plan", "verify", str(saved), "--step", "1", "--sample")
    assert "$.data[0].steps[0]: expected a field expected, found none" in found.err


def test_no_such_file_step_or_group(cli: Cli, saved: Path) -> None:
    assert (
        "No such file" in ended(cli, 1, "plan", "verify", "x.json", "--step", "1", "--sample").err
    )
    line = ("plan", "verify", str(saved))
    assert (
        "expected --step of 2 at most, as the plan has, found 9"
        in ended(cli, 2, *line, "--step", "9", "--sample").err
    )
    assert "no plan for x" in ended(cli, 2, *line, "x", "--step", "1", "--sample").err


def test_a_plan_that_nobody_can_write_to(cli: Cli, saved: Path, tmp_path: Path) -> None:
    """A step is done, and only who was there cannot be noted: of a pipe, say."""
    document = json.loads(saved.read_text())
    (plan,) = (each for each in document["data"] if each["group_id"] == "payment-service")
    plan["steps"][0]["expected"]["assignor"] = plan["assignor"]
    for each in plan["members"]:
        each["member_id"] = "that-of-before"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = json.dumps({**document, "data": [plan]})
    writer = Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    found = ended(cli, 0, "plan", "verify", str(pipe), "--step", "1", "--sample")
    writer.join()
    assert "payment-service: step 1 is done" in found.out
    assert "the members could not be recorded in the plan" in found.err
    gone = tmp_path / "gone"
    gone.mkdir()
    (gone / "plan.json").write_text(text)
    with (gone / "plan.json").open() as file:
        rmtree(gone)
        path = f"/proc/self/fd/{file.fileno()}"
        found = ended(cli, 0, "plan", "verify", path, "--step", "1", "--sample")
    assert f"note: {path}: No such file or directory: the members could not" in found.err


_ASKING = re.compile(
    r"kgroup (?=(?:describe|check|zk \w+|members \w+|offsets (?:copy|diff|reset)"
    r"|plan (?:static-membership|external-offsets)) )"
)
_WHOM = re.compile(r" -b HOST:PORT\b| --zookeeper HOST:PORT\b| zookeeper:HOST:PORT\b")


@pytest.mark.parametrize(
    "line",
    [
        "assignor sticky payment-service",
        "assignor cooperative-sticky payment-service --client librdkafka",
        "consumer-protocol order-service",
        "consumer-protocol order-service --stop",
        "consumer-protocol fraud-check --back",
        "static-membership order-service",
        "static-membership payment-service --back",
        "partitions orders=8 order-service",
        "partitions payments=8 invoice-batch",
        "external-offsets order-service --sql x.db",
        "external-offsets order-service --sql x.db --rolling",
        "external-offsets invoice-batch --sql x.db",
        "kafka-offsets stock-sync",
        "kafka-offsets returns-desk",
    ],
)
def test_commands_say_whom_they_ask(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """They are pasted where no environment names a cluster."""
    monkeypatch.chdir(tmp_path)
    (plan,) = rows(cli("plan", *line.split(), "--sample", "-o", "json").out)
    told = [text for step in plan["steps"] for key in step for text in _texts(step[key])]
    told += [text for each in plan["preconditions"] for text in _texts(each["check"])]
    commands = [found for text in told for found in _ASKING.split(text)[1:]]
    assert commands
    for command in commands:
        assert _WHOM.search(command), command


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    "target",
    [
        ["assignor", "sticky"],
        ["consumer-protocol"],
        ["static-membership"],
        ["partitions", "orders=8"],
        ["external-offsets", "--sql", "x.db"],
    ],
)
def test_groups_of_both_kinds_are_looked_for_where_they_are(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: list[str]
) -> None:
    """The sample has its ZooKeeper apart."""
    monkeypatch.chdir(tmp_path)
    line = ["plan", *target, "stock-sync", "order-service", "--sample"]
    found = ended(cli, 4, *line, "-o", "json")
    assert [row["group_id"] for row in rows(found.out)] == ["order-service"]
    (error,) = json.loads(found.out)["errors"]
    assert (error["group_id"], error["kind"]) == ("stock-sync", "unfit")
    assert error["reason"].endswith("found one of type zookeeper")
    assert not error["reason"].startswith("expected a group of type")


def test_groups_of_both_kinds_are_advised(cli: Cli) -> None:
    found = ended(cli, 0, "plan", "stock-sync", "order-service", "--sample", "-o", "json")
    assert {row["group_id"] for row in rows(found.out)} == {"stock-sync", "order-service"}


@pytest.mark.parametrize("group_id", ["notifications", "order-totals"])
def test_what_a_target_takes_is_said(cli: Cli, group_id: str) -> None:
    found = ended(cli, 1, "plan", "assignor", "sticky", group_id, "--sample")
    assert "expected a classic group, whose members assign, found one of type s" in found.err


@pytest.mark.parametrize(
    ("line", "status", "meant"),
    [
        ("assignor stiky order-service", 2, "'sticky'"),
        ("assignor sticky order-service --settings rnge", 2, "'range'"),
        ("assignor sticky order-service --settings order-servce-1=range", 3, "'order-service-1'"),
        ("partitions ordes=8", 3, "'orders'"),
        ("partitions ordes=8 order-service", 1, "'orders'"),
        ("consumer-protocol pricing --back --assignor rangee", 2, "'range'"),
    ],
)
def test_who_misspells_a_name_is_asked_which_was_meant(
    cli: Cli, line: str, status: int, meant: str
) -> None:
    found = ended(cli, status, "plan", *line.split(), "--sample")
    assert f"; did you mean {meant}" in found.err


def test_a_misspelt_assignor_of_brokers_is_asked_about(cli: Cli) -> None:
    """Brokers may have others; by default they have uniform and range (KIP-848)."""
    line = ("plan", "consumer-protocol", "order-service", "--sample", "--assignor")
    assert "cluster tells; did you mean 'uniform'?" in cli(*line, "unform").out
    assert "did you mean" not in cli(*line, "range").out


def test_notes_name_their_groups_where_they_are_not_of_all(cli: Cli) -> None:
    note = "this source does not tell how many partitions topics have"
    # Nothing is to be simulated of a group that nobody is in.
    line = ("plan", "assignor", "sticky", "--sample")
    found = ended(cli, 0, *line, "order-service", "invoice-batch", "payment-service")
    assert f"note: order-service, payment-service: {note}" in found.err
    found = ended(cli, 0, *line, "order-service", "payment-service")
    assert f"note: {note}" in found.err


@pytest.fixture
def with_kafkajs(cli: Cli, tmp_path: Path) -> Path:
    """A snapshot of a group of the sample and of one of KafkaJS."""
    path = tmp_path / "snapshot.json"
    ended(cli, 0, "snapshot", "payment-service", "--sample", "-f", path)
    both = json.loads(path.read_text())
    theirs = json.loads(KAFKAJS.read_text())
    both["groups"] += theirs["groups"]
    both["choice"]["group_ids"] += theirs["choice"]["group_ids"]
    path.write_text(json.dumps(both))
    return path


@pytest.mark.parametrize(
    "target",
    [
        ("assignor", "cooperative-sticky"),
        ("static-membership",),
        ("consumer-protocol",),
        ("partitions", "payments=12"),
        ("external-offsets", "--sql", "sqlite:///offsets.db"),
    ],
)
def test_a_group_that_cannot_be_simulated_is_told_and_the_others_are_planned(
    cli: Cli, with_kafkajs: Path, target: tuple[str, ...]
) -> None:
    groups = ("g2-kafkajs", "payment-service")
    found = cli("plan", *target, *groups, "--snapshot", with_kafkajs, "-o", "json")
    document = json.loads(found.out)
    assert [each["group_id"] for each in document["data"]] == ["payment-service"]
    problems = [each for each in document["errors"] if each["group_id"] == "g2-kafkajs"]
    assert [(problem["kind"], problem["reason"]) for problem in problems] == [("unfit", UNPLAYED)]
    assert found.status == 4


def test_advice_for_all_groups_tells_the_one_that_cannot_be_simulated(
    cli: Cli, with_kafkajs: Path
) -> None:
    found = ended(cli, 0, "plan", "--all", "--snapshot", with_kafkajs, "-o", "json")
    summaries = {row["group_id"]: row["summary"] for row in rows(found.out)}
    assert summaries["g2-kafkajs"] == f"Nothing can be planned: {UNPLAYED}."
    assert "Nothing can be planned" not in summaries["payment-service"]


def test_a_group_that_cannot_be_simulated_is_told_by_simulate(cli: Cli) -> None:
    found = ended(cli, 1, "simulate", "--from", "g2-kafkajs", "--snapshot", KAFKAJS)
    assert found.err == f"kgroup: error: group g2-kafkajs: {UNPLAYED}\n"
