"""`kgroup plan` as it is typed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from threading import Thread
from typing import Any, NoReturn, cast

import pytest

from kgroup import sample
from kgroup.cli.command import plan_step
from kgroup.errors import BrokerError, ExitStatus, ProblemKind
from kgroup.model.problem import Problem
from kgroup.operation.plan.assignor import plan_assignor
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.plan import MigrationTarget, OffsetCopy
from kgroup.operation.plan.plan_file import PlanFile, read_plan_file
from kgroup.operation.plan.verify import verify_step
from kgroup.render.json_document import json_document, json_rows
from kgroup.sample import sample_log_dir
from kgroup.source.base import EVERYTHING, Question, Reading
from tests.cli.command_line import Cli, Result
from tests.cli.suggested import suggested
from tests.operation.plan.fake_cluster import group_of, running
from tests.operation.sources import FakeSource
from tests.source.sql.stored import query

KAFKAJS = Path(__file__).parents[1] / "data" / "field" / "kafkajs-group.json"
UNPLAYED = (
    "expected a strategy of kafka-clients 4.3.1 (range, roundrobin, sticky, "
    "cooperative-sticky), found 'own-assignor'"
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
    assert "without the plan  One rolling restart, with cooperative-sticky only." in out


def test_a_plan_says_what_it_assumes_and_no_file_of_a_scenario(cli: Cli) -> None:
    found = cli(*STICKY)
    assert "everything is simulated as in Kafka 4.3.1" in found.out
    assert "assumed for the members" in found.out
    assert "file" not in found.out + found.err


def test_a_plan_without_steps_assumes_nothing(cli: Cli) -> None:
    found = ended(cli, 0, *STICKY[:2], "range", *STICKY[3:])
    assert "Nothing to do" in found.out
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
    assert "### Step 2: Restart every member with cooperative-sticky only" in out


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
    assert "click-stats read clicks with ZooKeeper consumers" in found.err


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
        (["sticky", "payment-service", "--sample", "--poll-interval", "0s"], "greater than 0"),
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


OVERVIEW = '{"schema_version":1,"command":"plan","data":[{"proposals":[]}]}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected more, found the end of the file"),
        ("{}", "expected a field schema_version, found none"),
        ('{"schema_version":2,"command":"plan assignor","data":[]}', "expected 1, found 2"),
        ('{"schema_version":1,"command":"list","data":[]}', "expected a plan, found 'list'"),
        (OVERVIEW, "a plan for a target ('kgroup plan TARGET ... -o json'), found the over"),
        ('{"schema_version":1,"command":"plan","data":3}', "$.data: expected array, found int"),
        ('{"schema_version":"","command":"plan","data":' + "[" * 9_999, "expected int, found str"),
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
        "expected --step of at most 2, the last step of the plan, found 9"
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
    assert "live cluster; did you mean 'uniform'?" in cli(*line, "unform").out
    assert "did you mean" not in cli(*line, "range").out


def test_notes_name_their_groups_where_they_are_not_of_all(cli: Cli) -> None:
    note = "this source does not know how many partitions topics have"
    # Nothing is to be simulated of a group that nobody is in.
    line = ("plan", "assignor", "sticky", "--sample")
    found = ended(cli, 0, *line, "order-service", "invoice-batch", "payment-service")
    assert f"note: order-service, payment-service: {note}" in found.err
    found = ended(cli, 0, *line, "order-service", "payment-service")
    assert f"note: {note}" in found.err


@pytest.fixture
def with_own_assignor(cli: Cli, tmp_path: Path) -> Path:
    """A snapshot of a group of the sample and of one with an assignor of its own."""
    path = tmp_path / "snapshot.json"
    ended(cli, 0, "snapshot", "payment-service", "--sample", "-f", path)
    both = json.loads(path.read_text())
    theirs = json.loads(KAFKAJS.read_text().replace("RoundRobinAssigner", "own-assignor"))
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
    cli: Cli, with_own_assignor: Path, target: tuple[str, ...]
) -> None:
    groups = ("g2-kafkajs", "payment-service")
    found = cli("plan", *target, *groups, "--snapshot", with_own_assignor, "-o", "json")
    document = json.loads(found.out)
    assert [each["group_id"] for each in document["data"]] == ["payment-service"]
    problems = [each for each in document["errors"] if each["group_id"] == "g2-kafkajs"]
    assert [(problem["kind"], problem["reason"]) for problem in problems] == [("unfit", UNPLAYED)]
    assert found.status == 4


def test_advice_for_all_groups_tells_the_one_that_cannot_be_simulated(
    cli: Cli, with_own_assignor: Path
) -> None:
    found = ended(cli, 0, "plan", "--all", "--snapshot", with_own_assignor, "-o", "json")
    summaries = {row["group_id"]: row["summary"] for row in rows(found.out)}
    assert summaries["g2-kafkajs"] == f"Nothing can be planned: {UNPLAYED}."
    assert "Nothing can be planned" not in summaries["payment-service"]


def test_a_group_that_cannot_be_simulated_is_told_by_simulate(
    cli: Cli, with_own_assignor: Path
) -> None:
    found = ended(cli, 1, "simulate", "--from", "g2-kafkajs", "--snapshot", with_own_assignor)
    assert f"kgroup: error: group g2-kafkajs: {UNPLAYED}\n" in found.err


def test_a_group_of_kafkajs_is_planned_and_simulated(cli: Cli) -> None:
    """The leader plays its own assignor; what KafkaJS cannot do, kafka-ts may do.

    Both send the same bytes, and only KafkaJS is known to have no static members.
    """
    found = ended(
        cli, 0, "simulate", "--from", "g2-kafkajs", "--snapshot", KAFKAJS, "--stop", "svc-js-2"
    )
    assert "orders 0-5" in found.out
    assert "taken to use kafkajs, whose assignor RoundRobinAssigner is played" in found.err
    assert "fromBeginning false" in found.err
    for target, what in (
        ("static-membership", "static members that stay when they close"),
        ("consumer-protocol", "the consumer protocol"),
    ):
        line = ("plan", target, "g2-kafkajs", "--snapshot", KAFKAJS, "-o", "json")
        (plan,) = rows(ended(cli, 0, *line).out)
        (condition,) = (each for each in plan["preconditions"] if each["code"] == "client-library")
        assert condition["verdict"] == "unknown"
        assert condition["found"] == f"members use kafka-ts or kafkajs; without {what}: kafkajs"
    (advice,) = rows(ended(cli, 0, "plan", "g2-kafkajs", "--snapshot", KAFKAJS, "-o", "json").out)
    assert advice["summary"].startswith("No migration is recommended now.")


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "tsv", "markdown", "table", "html"])
def test_the_list_names_every_target_in_every_form(cli: Cli, form: str) -> None:
    found = cli("plan", "--list", "-o", form)
    assert (found.status, found.err) == (0, "")
    for target in MigrationTarget:
        assert str(target) in found.out
        assert target.sentence.partition("'")[0] in found.out


def test_the_list_is_of_no_group(cli: Cli) -> None:
    assert cli("plan", "--list", "order-service").status == 2
    assert cli("plan", "--list", "--sample").status == 2
    assert len(cli("plan", "--list", "--no-headers").out.splitlines()) == len(MigrationTarget)


def test_each_proposal_has_a_command_that_plans_it(cli: Cli) -> None:
    found = cli("plan", "order-service", "--sample", "--restart-time", "7s", "-o", "json")
    assert found.status == 0
    (row,) = rows(found.out)
    assert [each["target"] for each in row["proposals"]] == [
        "consumer-protocol",
        "static-membership",
    ]
    for each in row["proposals"]:
        program, *words = each["command"].split()
        assert program == "kgroup"
        assert words[-3:] == ["--sample", "--restart-time", "7s"]
        (plan,) = rows(cli(*words, "-o", "json").out)
        assert (plan["target"], plan["group_id"]) == (each["target"], "order-service")
        assert plan["steps"]


def test_the_saving_of_static_membership_is_that_of_its_plan(cli: Cli) -> None:
    (row,) = rows(cli("plan", "order-service", "--sample", "-o", "json").out)
    (proposed,) = [each for each in row["proposals"] if each["target"] == "static-membership"]
    (plan,) = rows(cli("plan", "static-membership", "order-service", "--sample", "-o", "json").out)
    assert proposed["now"]["forecast"] == plan["naive"]["forecast"]
    assert proposed["then"]["forecast"] == plan["steps"][-1]["forecast"]


def test_every_group_is_advised_those_on_zookeeper_too(cli: Cli) -> None:
    found = cli("plan", "--all", "--sample", "-o", "csv")
    assert found.status == 0
    advised = [*csv.DictReader(io.StringIO(found.out))]
    by_group = {each["group_id"]: each for each in advised}
    assert by_group["search-index"]["why"].startswith("The group has no members")
    assert by_group["stock-sync"]["target"] == "kafka-offsets"
    assert by_group["notifications"]["target"] == ""
    old = cli("plan", "stock-sync", "--sample", "-o", "json")
    assert [each["target"] for each in rows(old.out)[0]["proposals"]] == ["kafka-offsets"]


def test_a_target_that_is_misspelt(cli: Cli) -> None:
    for words in (
        ["asignor", "x"],
        ["asignor", "sticky", "payment-service", "--sample"],
        ["asignor", "x", "--settings", "range", "--sample"],
        ["asignor", "x", "--sample", "-o", "json"],
    ):
        found = cli("plan", *words)
        assert (found.status, found.out) == (2, "")
        assert "No such command 'asignor'. Did you mean assignor?" in found.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "range billing --sample",
            "No such command 'range'. Did you mean: kgroup plan assignor range billing",
        ),
        ("sticky", "No such command 'sticky'. Did you mean: kgroup plan assignor sticky GROUP"),
        (
            "assignor billing sticky --sample",
            "STRATEGY comes before GROUP. Did you mean: kgroup plan assignor sticky billing",
        ),
    ],
)
def test_a_strategy_in_the_wrong_place(cli: Cli, words: str, told: str) -> None:
    found = cli("plan", *words.split())
    assert (found.status, found.out) == (2, "")
    assert f"{told}\n" in found.err


def test_a_group_that_is_called_like_a_target(cli: Cli) -> None:
    found = cli("plan", "--sample", "--", "assignor")
    assert found.status == 3
    assert "group 'assignor': not-found" in found.err


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 2, "Usage: kgroup plan"),
        (["--sample"], 2, "no groups selected"),
        (["order-service"], 2, "no source of groups given"),
        (["--all", "order-service", "--sample"], 2, "--all selects every group"),
        (["nosuch", "--sample"], 3, "The group does not exist; "),
        (["nosuch", "order-service", "--sample"], 4, "The group does not exist; "),
        (["order-service", "--sample", "--step", "1"], 2, "No such option '--step'"),
    ],
)
def test_other_lines(cli: Cli, words: list[str], status: int, told: str) -> None:
    found = cli("plan", *words)
    assert (found.status, told in found.err) == (status, True), found.err


def test_passwords_are_not_repeated(cli: Cli) -> None:
    """A command to type next names settings of the connection, and not what they are."""
    line = ["plan", "billing", "-b", "127.0.0.1:1", "-X", "sasl.password=secret", "--timeout", "1"]
    found = cli(*line, "-o", "json")
    assert "secret" not in found.out + found.err


def test_help_has_options_of_lines_without_a_target(cli: Cli) -> None:
    found = cli("plan", "--help")
    assert found.status == 0
    for text in ("--list", "--restart-time", "static-membership", "kgroup plan --all --sample"):
        assert text in found.out


def test_completion_suggests_targets_and_groups(cli: Cli) -> None:
    _, words = suggested(cli, "kgroup plan as")
    assert words == ["assignor"]
    _, words = suggested(cli, "kgroup plan --sample order-")
    assert words == ["order-service", "order-totals"]
    _, words = suggested(cli, "kgroup plan --res")
    assert words == ["--restart-time"]
    _, words = suggested(cli, "kgroup plan order-service --sample --columns targ")
    assert words == ["target"]


BEFORE, AFTER = group_of(), group_of(strategy="sticky", incarnation=2)
SILENCE = BrokerError(ProblemKind.UNREACHABLE, "nobody answers")


class Rounds(FakeSource):
    """Another group each time that it is read, or nobody who answers."""

    def __init__(self, *rounds: FakeSource | BrokerError) -> None:
        super().__init__()
        self._rounds = [*rounds]
        self.renewed: list[bool] = []

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        broker_error = self._rounds.pop(0)
        if isinstance(broker_error, BrokerError):
            raise broker_error
        return broker_error.read(group_ids, question)

    def renew(self, *, after_failure: bool = False) -> None:
        self.renewed.append(after_failure)


def no_stores(copy: OffsetCopy, group_ids: tuple[str, ...]) -> NoReturn:
    raise AssertionError


def look(source: FakeSource, wait_s: float) -> ExitStatus:
    file = PlanFile(
        1, "plan assignor", [plan_assignor(running(BEFORE), "sticky", {}, ProgramBehavior())]
    )
    return plan_step.look(source, file, 1, (), no_stores, wait_s, 0).exit_status


def test_a_broker_that_goes_away_is_waited_for() -> None:
    source = Rounds(FakeSource(BEFORE), SILENCE, SILENCE, FakeSource(AFTER))
    assert look(source, 600) is ExitStatus.DONE
    assert source.renewed == [False, True, True]


@pytest.mark.parametrize(
    ("rounds", "wait_s"), [((SILENCE,), 600), ((SILENCE,), 0), ((FakeSource(BEFORE), SILENCE), 0.1)]
)
def test_who_does_not_answer(rounds: tuple[FakeSource | BrokerError, ...], wait_s: float) -> None:
    """At first, or at the end."""
    source = Rounds(*rounds[:-1], *[rounds[-1]] * 1_000_000)
    with pytest.raises(BrokerError, match="nobody answers"):
        look(source, wait_s)


def test_several_may_wait_for_groups_of_a_plan(tmp_path: Path) -> None:
    """Each has read the file before the other one has noted something in it."""
    groups = [replace(BEFORE, group_id=name) for name in "xy"]
    plans = [plan_assignor(running(group), "sticky", {}, ProgramBehavior()) for group in groups]
    path = tmp_path / "plan.json"
    path.write_bytes(b"".join(json_document("plan assignor", json_rows(plans), [])))
    files = [read_plan_file(path) for _ in "xy"]
    there = FakeSource(*(replace(AFTER, group_id=name) for name in "xy"))
    for name, file in zip("xy", files, strict=True):
        plan_step.note_members(path, file, verify_step(there, file.data, 1, [name]))
    assert all(plan.steps[0].seen for plan in read_plan_file(path).data)


def test_a_plan_that_another_one_has_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    plan = plan_assignor(running(BEFORE), "sticky", {}, ProgramBehavior())
    path.write_bytes(b"".join(json_document("plan assignor", json_rows([plan]), [])))
    file = read_plan_file(path)
    other = plan_assignor(running(AFTER), "range", {}, ProgramBehavior())
    path.write_bytes(b"".join(json_document("plan assignor", json_rows([other]), [])))
    plan_step.note_members(path, file, verify_step(FakeSource(AFTER), file.data, 1))
    assert read_plan_file(path).data == [other]
    assert "found another one" in capsys.readouterr().err


def test_a_note_changes_nothing_else_in_the_file(tmp_path: Path) -> None:
    """Errors of other groups stay, and what people or later versions have written beside plans."""
    plan = plan_assignor(running(BEFORE), "sticky", {}, ProgramBehavior())
    problem = Problem(ProblemKind.NOT_FOUND, "there is none", group_id="h")
    path = tmp_path / "plan.json"
    path.write_bytes(b"".join(json_document("plan assignor", json_rows([plan]), [problem])))
    before = json.loads(path.read_bytes())
    before["ticket"] = "OPS-1"
    before["data"][0]["steps"][1]["remark"] = {"by": ["us", None, 2**63]}
    path.write_text(json.dumps(before))
    file = read_plan_file(path)
    plan_step.note_members(path, file, verify_step(FakeSource(AFTER), file.data, 1))
    after = json.loads(path.read_bytes())
    seen = after["data"][0]["steps"][0].pop("seen")
    assert [each["member_id"] for each in seen] == ["a-2", "b-2", "c-2"]
    assert before["data"][0]["steps"][0].pop("seen") is None
    assert after == before
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


COMMITS = ("plan", "kafka-offsets", "--sample")


@pytest.mark.parametrize("target", ["kafka-offsets", "new-consumer"])
def test_a_group_that_is_in_kafka_alone(cli: Cli, target: str) -> None:
    found = cli("plan", target, "order-service", "--sample")
    assert (found.status, "found the group only in Kafka" in found.err) == (1, True)
    missing = cli("plan", target, "nosuch", "--sample")
    assert (missing.status, "does not exist" in missing.err) == (3, True)


def test_where_members_commit_is_read_from_their_settings(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text("offsets.storage = kafka \nrebalance.backoff.ms=100\n")
    found = cli(*COMMITS, "stock-sync", "--consumer-config", str(path), "-o", "json")
    assert found.status == 0
    (plan,) = json.loads(found.out)["data"]
    (step,) = plan["steps"]
    assert [(each["name"], each["after"]) for each in step["settings"]] == [
        ("dual.commit.enabled", "false")
    ]
    assert any("offsets.storage kafka and dual.commit.enabled" in each for each in plan["assumed"])


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("group.id=other\n", 2, "expected group.id stock-sync, found other"),
        ("offsets.storage=disk\n", 2, "offsets.storage: expected zookeeper or kafka, found 'disk'"),
        ("#\ngroup.id=a\0\n", 2, ".properties:2: expected text, found a NUL byte"),
        ("a=\\u12\n", 2, "expected four hexadecimal digits after \\u"),
        (None, 1, "consumer.properties"),
    ],
)
def test_settings_that_are_none(
    cli: Cli, tmp_path: Path, text: str | None, status: int, message: str
) -> None:
    path = tmp_path / "consumer.properties"
    if text is not None:
        path.write_text(text)
    found = cli(*COMMITS, "stock-sync", "--consumer-config", str(path))
    assert (found.status, found.out) == (status, "")
    assert message in found.err


def test_a_setting_that_no_consumer_has_is_told(cli: Cli, tmp_path: Path) -> None:
    """Kafka 0.8.2's `VerifiableProperties.verify` warns of it: "Property … is not valid"."""
    path = tmp_path / "consumer.properties"
    path.write_text("group.id=stock-sync\nrebalance.backof.ms=100\nx=1\n")
    found = cli(*COMMITS, "stock-sync", "--consumer-config", str(path))
    assert found.status == 0
    assert (
        f"note: rebalance.backof.ms ({path}:2) is not a setting of consumers of Kafka 0.8, "
        "which ignore it; did you mean 'rebalance.backoff.ms'" in found.err
    )
    assert f"note: x ({path}:3) is not a setting" in found.err
    assert "note: group.id" not in found.err


def test_groups_elsewhere_than_in_zookeeper(cli: Cli) -> None:
    found = cli("plan", "new-consumer", "order-service", "-b", "127.0.0.1:1")
    assert found.status == 2
    assert "this command needs a source with ZooKeeper nodes: use --zookeeper" in found.err
    found = cli(*COMMITS, "order-service")
    assert (found.status, found.out) == (1, "")
    found = cli(*COMMITS, "stock-sync", "nobody")
    assert found.status == 4
    assert "stock-sync: kafka-offsets" in found.out


def test_one_commit_is_counted_as_one(cli: Cli) -> None:
    assert "1 commit in ZooKeeper, none in Kafka" in cli(*COMMITS, "click-stats").out
    assert "1 has one" in cli("plan", "new-consumer", "--sample", "click-stats").out


def test_a_step_on_zookeeper_is_looked_at(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(cli(*COMMITS, "stock-sync", "-o", "json").out)
    found = cli("plan", "verify", str(path), "--step", "1", "--sample")
    assert found.status == 5
    assert "stock-sync: step 1 is not-begun" in found.out
    found = cli("plan", "verify", str(path), "--step", "1", "-b", "127.0.0.1:1")
    assert found.status == 2
    assert "step 1 is verified in ZooKeeper: expected --zookeeper" in found.err


def test_old_brokers_refuse_new_consumers(cli: Cli) -> None:
    found = cli("plan", "new-consumer", "stock-sync", "--sample", "-o", "json")
    assert found.status == 5
    (plan,) = json.loads(found.out)["data"]
    assert plan["steps"] == []


@pytest.mark.parametrize("form", [("-o", "markdown"), ("--diagram",), ("-o", "csv")])
def test_forms(cli: Cli, form: tuple[str, ...]) -> None:
    found = cli(*COMMITS, "stock-sync", *form)
    assert found.status == 0
    assert "Restart every member with commits to Kafka only" in found.out


@pytest.mark.parametrize(
    "target",
    [
        ("assignor", "sticky"),
        ("consumer-protocol",),
        ("static-membership",),
        ("partitions", "orders=9"),
        ("external-offsets", "--sql", "offsets.db"),
    ],
)
def test_what_only_a_coordinator_can_do(cli: Cli, target: tuple[str, ...]) -> None:
    path = Path(sample.__file__).parent / "zookeeper" / "snapshot.json"
    found = cli("plan", *target, "stock-sync", "--snapshot", str(path))
    assert found.status == 1
    assert "found one of type zookeeper" in found.err


ORDERS = {0: 10, 1: 11, 2: 12, 3: 9, 4: 4, 5: 15}
"""What order-service has committed, as the sample's manifest says."""

NAME = ("plan", "external-offsets", "order-service", "--sample")


def saved_plan(cli: Cli, path: Path, *options: str | Path) -> Any:
    result = cli(*NAME, *options, "-o", "json")
    path.write_text(result.out)
    return json.loads(result.out)["data"][0]


def test_a_copy_is_applied(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, file = Path("plan.json"), Path("x.db")
    plan = saved_plan(cli, path, "--sql", file, "--sql-table", "t")
    assert plan["steps"][0]["copies"]["table"] == "t"
    where = ("--step", "1", "--sample")
    assert cli("plan", "verify", path, *where).status == 5
    shown = cli("plan", "apply", path, *where)
    assert (shown.status, file.exists()) == (0, False)
    assert "--execute" in shown.err
    assert cli("plan", "apply", path, *where, "--execute", "-o", "csv").status == 0
    assert query(file, "SELECT partition, offset FROM t") == list(ORDERS.items())
    assert cli("plan", "verify", path, *where).status == 0
    again = cli("plan", "apply", path, *where, "--execute", "-o", "json")
    assert {row["result"] for row in json.loads(again.out)["data"]} == {"unchanged"}
    # It is the command's own database, where another one is named.
    assert cli("plan", "verify", path, *where, "--sql", "other.db").status == 5


def test_what_is_not_for_a_tool_is_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what was there is saved
    path = tmp_path / "plan.json"
    saved_plan(cli, path, "--sql", tmp_path / "x.db")
    stop = cli("plan", "apply", path, "--step", "2", "--execute")
    assert stop.status == 0
    assert "step 2 for order-service copies no offsets" in stop.err
    assert "Stop all members. Shut down all members cleanly" in stop.err
    assert cli("plan", "apply", path, "--step", "1", "--sample", "--execute").status == 0
    running = cli("plan", "apply", path, "--step", "3", "--sample")
    assert (running.status, "stop its members first" in running.err) == (4, True)
    missing = cli("plan", "apply", path, "--step", "3")
    assert (missing.status, "no source of groups given" in missing.err) == (2, True)
    assert cli("plan", "apply", path, "--step", "5", "--sample").status == 2


def test_a_plan_has_no_password(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database does not answer, which is told without it too."""
    url = "postgresql://app:hush@127.0.0.1:1/db"
    result = cli(*NAME, "--sql", url)
    assert (result.status, "hush" in result.err + result.out) == (1, False)
    from kgroup.cli.option.store import SqlNames, planned_copy

    def goal(text: str | None) -> str:
        names = SqlNames("t", ("offset=next",))
        copy = planned_copy(text, names)
        assert (copy.origin, copy.table, copy.columns) == ("kafka", "t", ("offset=next",))
        return copy.goal

    assert goal(url) == "sql"
    assert goal("postgresql://app@127.0.0.1:1/db?sslpassword=hush") == "sql"
    assert goal("postgresql://app@127.0.0.1:1/db") == "sql:postgresql://app@127.0.0.1:1/db"
    assert goal("x.db") == "sql:x.db"
    file = tmp_path / "url"
    file.write_text(url)
    assert goal(f"@{file}") == f"sql:@{file}"
    monkeypatch.setenv("KGROUP_SQL_URL", url)
    assert goal(None) == goal("profile") == "sql"


def test_a_step_before_makes_what_is_not_there(cli: Cli, tmp_path: Path) -> None:
    """`plan apply` has no --create-table to be named."""
    path = tmp_path / "plan.json"
    path.write_text(cli(*NAME, "--sql", tmp_path / "x.db", "-o", "json").out)
    applied = cli("plan", "apply", path, "--step", "3", "--sample")
    assert (applied.status, "an earlier step of the plan creates it" in applied.err) == (1, True)
    verified = cli("plan", "verify", path, "--step", "3", "--sample")
    assert (verified.status, "an earlier step of the plan creates it" in verified.out) == (5, True)
    assert "--create-table" not in applied.err + verified.out


def test_which_database_must_be_said(cli: Cli) -> None:
    result = cli(*NAME)
    assert (result.status, "no database given" in result.err) == (2, True)


def test_every_form(cli: Cli, tmp_path: Path) -> None:
    options = ("--sql", tmp_path / "x.db", "--rolling")
    runbook = cli(*NAME, *options, "-o", "markdown").out
    assert "### Step 2: Restart every member with the version that keeps offsets in both" in runbook
    assert cli(*NAME, *options, "--diagram").out.startswith("```mermaid\n")
    rows = cli(*NAME, *options, "-o", "csv", "--columns", "step,restarted").out
    assert rows.splitlines() == ["step,restarted", "1,0", "2,3", "3,3"]
    unknown = cli("plan", "external-offsets", "nobody", "--sample", "--sql", tmp_path / "x.db")
    assert unknown.status == 3
    empty = cli("plan", "external-offsets", "invoice-batch", "--sample", "--sql", tmp_path / "x.db")
    assert (empty.status, "From Kafka to the table, as the group is stopped." in empty.out) == (
        0,
        True,
    )


@pytest.mark.parametrize("kind", ["sample", "snapshot", "log-dir"])
def test_the_last_copy_is_of_no_past(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Members would begin at what was committed when the snapshot was taken."""
    monkeypatch.chdir(tmp_path)
    path, file = Path("plan.json"), Path("x.db")
    path.write_text(
        cli("plan", "external-offsets", "search-index", "--sample", "--sql", file, "-o", "json").out
    )
    assert cli("snapshot", "search-index", "--sample", "-f", "taken").status == 0
    where = {
        "sample": ("--sample",),
        "snapshot": ("--snapshot", "taken"),
        "log-dir": ("--log-dir", sample_log_dir()),
    }[kind]
    line = ("plan", "apply", path, "--step", "1", *where)
    found = cli(*line, "--execute", "--yes")
    assert (found.status, found.out) == (2, "")
    assert "choose the cluster instead, by -b HOST:PORT or -C PROFILE" in found.err
    assert not file.exists()
    shown = cli(*line)
    assert shown.status == 0
    assert "with --execute the last copy must read the cluster" in shown.err


GO_CLIENTS = KAFKAJS.parent / "go-clients-snapshot.json"


def planned(cli: Cli, *args: str) -> dict[str, Any]:
    shown = cli("plan", *args, "--snapshot", str(GO_CLIENTS), "-o", "json")
    (found,) = json.loads(shown.out)["data"]
    return cast("dict[str, Any]", found)


def test_static_membership_is_planned_in_the_words_of_the_library(cli: Cli) -> None:
    shown = cli("plan", "static-membership", "g14-sarama", "--snapshot", str(GO_CLIENTS))
    assert "Consumer.Group.InstanceId=sar-1" in shown.out
    assert "Brokers allow Consumer.Group.Session.Timeout=10000." in shown.out
    assert "Restart the members without Consumer.Group.InstanceId" in shown.out
    for name in ("group.instance.id", "max.poll.interval.ms", "Brokers allow session.timeout.ms"):
        assert name not in shown.out


@pytest.mark.parametrize(
    ("target", "group", "code"),
    [
        (("assignor", "cooperative-sticky"), "g13-kafkago", "known-strategies"),
        (("assignor", "sticky"), "g13-kafkago", "known-strategies"),
        (("static-membership",), "g13-kafkago", "client-version"),
        (("consumer-protocol",), "g13-kafkago", "client-version"),
        (("consumer-protocol",), "g14-sarama", "client-version"),
    ],
)
def test_what_the_client_library_cannot_do_is_refused(
    target: tuple[str, ...], group: str, code: str, cli: Cli
) -> None:
    found = planned(cli, *target, group)
    assert found["steps"] == []
    refuted = [each["code"] for each in found["preconditions"] if each["verdict"] == "refuted"]
    assert refuted == [code]


def settings_of(found: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(each["name"], each["after"]) for step in found["steps"] for each in step["settings"]]


def test_settings_have_the_names_of_the_client_library(cli: Cli) -> None:
    cooperative = planned(cli, "assignor", "cooperative-sticky", "g14-sarama")
    name = "Consumer.Group.Rebalance.GroupStrategies"
    assert settings_of(cooperative) == [
        (name, "sarama.NewBalanceStrategyCooperativeSticky(), sarama.NewBalanceStrategyRange()"),
        (name, "sarama.NewBalanceStrategyCooperativeSticky()"),
    ]
    static = planned(cli, "static-membership", "g14-sarama")
    assert {name for name, _ in settings_of(static)} == {"Consumer.Group.InstanceId"}
    of_franz_go = planned(cli, "consumer-protocol", "g12-kgo")
    assert {name for name, _ in settings_of(of_franz_go)} == {
        "kgo.ServerSideBalancer",
        "kgo.Balancers",
    }


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("g12-kgo", "looks for new partitions every 300 s (kgo.MetadataMaxAge)"),
        ("g13-kafkago", "kafka-go never looks for new partitions by default"),
        ("g14-sarama", "looks for new partitions every 600 s (Metadata.RefreshFrequency)"),
    ],
)
def test_members_look_for_new_partitions_as_their_library_does(
    group: str, expected: str, cli: Cli
) -> None:
    found = planned(cli, "partitions", "orders=12", group)
    assert expected in json.dumps(found["steps"])
    codes = {each["code"] for each in found["preconditions"]}
    assert ("refresh" in codes) == (group == "g13-kafkago")
