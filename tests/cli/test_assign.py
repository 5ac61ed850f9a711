"""`kgroup assign` from the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from kgroup.assignor.group_spec import CLIENTS, versions
from kgroup.cli.command.assign import _OF_DRY_RUNS, command
from kgroup.model.log_range import LogRange
from kgroup.model.snapshot import Origin
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.render.assignment_object import BounceObject, PlanObject
from kgroup.source.snapshot.file import snapshot_lines
from tests.cli.command_line import Cli
from tests.operation.sources import TreeSource
from tests.recorded_tree import recorded, recorded_tree

SPEC = {
    "id": "g",
    "strategy": "range",
    "topics": {"t": {"partitions": 3}},
    "members": [{"member_id": "a", "topics": ["t"]}, {"member_id": "b", "topics": ["t"]}],
}
STREAMS = Path(__file__).parents[1] / "data" / "streams-3.9.2"
PAGE = (Path(__file__).parents[2] / "docs" / "assign.md").read_text("utf-8")


@pytest.mark.parametrize("more", [["-o", "json"], ["--compare"], ["--remove-member", "nope"]])
def test_dry_run_makes_no_difference(cli: Cli, more: list[str]) -> None:
    result = cli("assign", "order-service", "--sample", *more)
    assert result == cli("assign", "order-service", "--sample", "--dry-run", *more)
    assert result.status == (3 if "nope" in more else 0)


def test_a_recorded_group_stays_as_it_is(cli: Cli) -> None:
    result = cli("assign", "order-service", "--sample", "--dry-run", "-o", "json")
    assert result.status == 0
    (row,) = json.loads(result.out)["data"]
    assert (row["strategy"], row["moves"], row["kept"]) == ("cooperative-sticky", [], 6)
    described = cli("describe", "order-service", "--sample", "-o", "json")
    (group,) = json.loads(described.out)["data"]
    assert {
        member["member_id"]: sorted([p["topic"], p["partition"]] for p in member["assignment"])
        for member in group["members"]
    } == {member: sorted(partitions) for member, partitions in row["assignment"].items()}


def test_the_fields_are_those_of_the_page_in_its_order(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--dry-run", "--add-member", "--settle"]
    (row,) = json.loads(cli(*args, "-o", "json").out)["data"]
    assert [*get_type_hints(PlanObject), "following"] == list(row)
    assert row["following"]
    (row,) = json.loads(cli(*args[:-2], "--bounce", "-o", "json").out)["data"]
    assert [*get_type_hints(BounceObject)] == list(row)
    assert row["with_static_members"] == {"rebalances": 0, "moves": 0}
    assert row["moves"] == sum(
        len(plan["moves"]) for step in row["steps"] for plan in (step, *step.get("following", ()))
    )
    assert row["steps"][0]["what"] == "order-service-1 leaves"


def test_the_page_tells_from_which_version_on_each_that_was_compared_stands() -> None:
    rows = re.findall(r"^\| ([@a-z/-]+) \| (\d[^|]*) \|", PAGE, re.MULTILINE)
    told = {name: re.findall(r"([\d.]+)(?: \(([\d.]+)\))?", versions) for name, versions in rows}
    assert told == {
        library.name: [(version, library.since.get(version, "")) for version in library.versions]
        for library in CLIENTS.values()
    }


def test_every_version_of_kafkas_own_assignors_can_be_chosen(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps(SPEC), "utf-8")
    (row,) = re.findall(r"^\| `kafka_version` \| (.*) \|", PAGE, re.MULTILINE)
    for version in (*versions("classic"), *versions("zookeeper")):
        result = cli("assign", "--spec", str(path), "--kafka-version", version, "-o", "json")
        assert f"`{version}`" in row
        if version in versions("classic"):
            (plan,) = json.loads(result.out)["data"]
            assert plan["computed_as"] == f"kafka-clients {version}"
        else:
            assert "classic groups are not imitated for Kafka" in result.err


def test_a_rolling_restart_is_summed_up_with_and_without_static_members(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--dry-run", "--bounce"]
    result = cli(*args)
    assert "members   3 leave and come back, one after the other\n" in result.out
    assert re.search(r"as it is +\d+ rebalances, \d+ moves\n", result.out)
    assert "static    0 rebalances, 0 moves, if all members had an instance id" in result.out
    rows = cli(*args, "-o", "csv").out.splitlines()
    assert rows[0] == "id,rebalance,what,members,moves,kept"
    assert rows[1].startswith("order-service,1,order-service-1 leaves,2,2,4")


@pytest.mark.parametrize("group", ["billing", "order-service", "payment-service", "pricing"])
def test_all_members_may_be_removed_and_replaced(cli: Cli, group: str) -> None:
    members = json.loads(cli("describe", group, "--sample", "-o", "json").out)["data"][0]["members"]
    remove = [word for each in members for word in ("--remove-member", each["member_id"])]
    args = ["assign", group, "--sample", *remove]
    for more in ([], ["--compare"], ["--bounce"]):
        nobody = cli(*args, *more)
        assert "error: no member is left to assign to; omit a --remove-member" in nobody.err
        assert cli(*args, *more, "--add-member").status == 0


def test_what_depends_on_an_unknown_id_is_marked(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(SPEC | {"topics": {"t": {"partitions": 4}}}))
    args = ["assign", "--dry-run", "--spec", str(file), "--add-member"]
    result = cli(*args, "2:client=z")
    (head,) = [line for line in result.out.splitlines() if line.startswith("member_id")]
    marked = [line for line in result.out.splitlines() if line.startswith("new-")]
    assert all(line[head.index("depends_on_id") :].startswith("yes") for line in marked)
    assert len(marked) == 2
    assert "warning    The result for 2 of 4 members depends on the ids of new" in result.out
    assert "depends_on_id" not in cli(*args, "1:client=z").out


def test_ranks_begin_anew_with_each_group(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "spec.jsonl"
    file.write_text("".join(json.dumps(SPEC | {"id": name}) + "\n" for name in "xy"))
    args = ["assign", "--dry-run", "--spec", str(file), "--compare", "-o", "csv"]
    result = cli(*args, "--columns", "id,rank", "--no-headers")
    assert result.out.split() == [f"{name},{rank}" for name in "xy" for rank in range(1, 5)]


def test_nobody_left_to_assign_to(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(SPEC))
    args = ["assign", "--dry-run", "--spec", str(file)]
    args += ["--remove-member", "a", "--remove-member", "b"]
    result = cli(*args)
    assert (result.status, result.out) == (2, "")
    assert "no member is left to assign to; omit a --remove-member" in result.err
    result = cli(*args, "--add-member", "-o", "json")
    (row,) = json.loads(result.out)["data"]
    assert row["assignment"] == {"new-1": [["t", 0], ["t", 1], ["t", 2]]}


@pytest.mark.slow
def test_specs_from_standard_input_keep_their_order() -> None:
    lines = "".join(json.dumps(SPEC | {"id": str(number)}) + "\n" for number in range(3))
    command = [sys.executable, "-m", "kgroup", "assign", "--dry-run", "--spec", "-", "-o", "jsonl"]
    done = subprocess.run(command, input=lines.encode(), capture_output=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in rows] == ["0", "1", "2"]
    assert rows[0]["assignment"] == {"a": [["t", 0], ["t", 1]], "b": [["t", 2]]}


def test_a_bad_spec_costs_its_own_result_only(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "groups.jsonl"
    file.write_text(json.dumps(SPEC) + '\n{"members": [], "topics": {}}\n')
    result = cli("assign", "--dry-run", "--spec", str(file), "-o", "json")
    assert result.status == 4
    document = json.loads(result.out)
    assert len(document["data"]) == 1
    assert document["errors"][0]["reason"].startswith("line 2: members: expected at least one")
    assert cli("assign", "--dry-run", "--spec", str(tmp_path / "none")).status == 1


def test_a_spec_without_the_named_member_costs_its_own_result_only(
    cli: Cli, tmp_path: Path
) -> None:
    """As other commands do with several groups, and this one with a strategy that one lacks."""
    file = tmp_path / "groups.jsonl"
    alone = SPEC | {"id": "other", "members": [{"member_id": "x", "topics": ["t"]}]}
    file.write_text(f"{json.dumps(SPEC)}\n{json.dumps(alone)}\n")
    line = ("assign", "--dry-run", "--spec", str(file), "-o", "json", "--remove-member")
    result = cli(*line, "b")
    assert result.status == 4
    document = json.loads(result.out)
    assert [list(row["assignment"]) for row in document["data"]] == [["a"]]
    (error,) = document["errors"]
    assert error["kind"] == "bad-spec"
    assert error["reason"] == "line 2: group other has no member 'b'; it has: x."
    nobody = cli(*line, "nobody")
    assert nobody.status == 3
    assert "line 1: " in nobody.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "ü"}'.encode("latin-1"), "Expected UTF-8, found the byte 0xfc at position 8."),
        (json.dumps(SPEC).encode("utf-16"), "Expected UTF-8, found the byte 0xff at position 0."),
        (json.dumps([SPEC]).encode(), "; write several groups one to a line"),
    ],
)
def test_files_that_are_no_specs(cli: Cli, tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "groups.json"
    file.write_bytes(content)
    result = cli("assign", "--dry-run", "--spec", str(file))
    assert result.status == 1
    assert message in result.err


def test_a_library_that_cannot_lead_the_group_is_told(cli: Cli) -> None:
    line = ("assign", "--dry-run", "billing", "--sample", "--add-member")
    note = "--add-member: when a member of kafka-go leads later, its assignor fails with wrapError"
    assert note in cli(*line, "1:library=kafka-go").err
    assert "leads later" not in cli(*line, "1:library=java").err


def test_a_group_changes_before_its_members_restart(cli: Cli) -> None:
    line = ("assign", "--dry-run", "order-service", "--sample", "--bounce", "-o", "tsv")
    change = ("--remove-member", "order-service-1", "--columns", "rebalance,what,moves")
    first, second, *_ = cli(*line, *change).out.splitlines()[1:]
    assert first == "1\tthe group changes\t2"  # what it owned
    assert second.startswith("2\torder-service-2 leaves\t")
    assert "changes" not in cli(*line, "--leader", "order-service-2").out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "name one group, or give --spec FILE; found neither"),
        (["g", "--spec", "f"], "name one group, or give --spec FILE; found both"),
        (["--spec", "f", "--sample"], "--spec replaces a source of groups"),
        (["--spec", "f", "-b", "h:1"], "--spec replaces a source of groups"),
        (["g"], "no source of groups given: use --bootstrap-server"),
        (["g", "--sample", "--add-member", "0"], "expected a number from 1 to 10000, found '0'"),
        (["g", "--sample", "--add-member", "2:x=1"], "expected client=, instance=, rack=, "),
        (["g", "--sample", "--add-member", "1:regex="], "expected client=, instance=, rack=, "),
        (["g", "--sample", "--add-member", "strategies=a,b"], "+ between several, as in strategie"),
        (["g", "--sample", "--add-member", "2:topics=a+b,c,d"], "as in topics=a+b+c; found a comm"),
        (["g", "--sample", "--add-member", "client=a,client=b"], "client= once, found it twice"),
        (
            ["billing", "--sample", "--add-member", "protocol=consumer", "--strategy", "range"],
            "with protocol=consumer, the coordinator assigns: omit --strategy",
        ),
        (["g", "--sample", "--partitions", "t"], "expected NAME=NUMBER, found 't'"),
        (["g", "--sample", "--partitions", "t=10000001"], "expected NAME=NUMBER up to 10000000"),
        (["g", "--sample", "--add-topic", "a b=1"], "expected a topic name (letters, digits,"),
        (["g", "--sample", "--subscribe", "t"], "expected MEMBER=TOPIC,..., found 't'"),
        (["g", "--sample", "--grid", "-o", "json"], "--grid writes a drawing; leave out --grid"),
        (["g", "--sample", "--grid", "-o", "markdown"], "--grid writes a drawing"),
        (["g", "--sample", "--grid", "--columns", "topic"], "--grid writes a drawing"),
        (["g", "--sample", "--grid", "--bounce"], "--grid draws one assignment; leave out"),
        (["g", "--sample", "--compare", "--settle"], "--compare runs all strategies"),
        (["g", "--sample", "--leader", "a", "--leader", "b"], "only one assigns; found a, b"),
        (["g", "--sample", "--may-join", "jva"], "one of kafka-clients, "),
        (["g", "--sample", "--may-join", "java", "--settle"], "--may-join asks about a group"),
        (["g", "--sample", "--may-join", "java", "--fresh"], "as it is; leave out --fresh"),
        (["order-service", "--sample", "--strategy", "uniform"], "no strategy 'uniform'; known"),
    ],
)
def test_wrong_usage(cli: Cli, args: list[str], message: str) -> None:
    result = cli("assign", "--dry-run", *args)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_moves_of_connect_and_streams_are_called_so(cli: Cli) -> None:
    connect = cli(
        "assign", "warehouse-sync", "--sample", "--add-member", "--connector", "new=2"
    ).out
    assert re.search(r"\nMoves\nconnector +task +from_member", connect)
    assert "start                   1: new\n" in connect
    line = ("assign", "order-totals", "--sample", "--add-member")
    assert re.search(r"\nMoves\nsubtopology +partition +from_member", cli(*line).out)
    assert "moves active tasks member by member" in cli(*line).out
    assert "subtopology 0  subtopology 1\n" in cli(*line, "--grid").out
    # Scripts find the same names for every kind of group.
    assert cli(*line, "-o", "csv").out.startswith("id,rebalance,topic,partition,")


@pytest.mark.parametrize(
    ("group", "client", "answer", "error"),
    [
        ("order-service", "java", True, None),
        ("billing", "librdkafka:roundrobin", None, None),
        ("order-service", "librdkafka:range", False, "INCONSISTENT_GROUP_PROTOCOL"),
        ("order-service", "kafkajs", False, "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_whether_a_client_may_join(
    cli: Cli, group: str, client: str, answer: bool | None, error: str | None
) -> None:
    line = ("assign", group, "--sample", "--may-join", client)
    result = cli(*line, "-o", "json")
    assert result.status == 0
    (row,) = json.loads(result.out)["data"]
    assert (row["can_join"], row["answer"]) == (answer, error)
    assert (row["then"] is not None) == (answer is True)
    shown = cli(*line)
    assert shown.status == 0
    word = {True: "yes", False: "no", None: "unknown"}[answer]
    assert f"answer{' ' * (2 if error is None else 8)}{word}\n" in shown.out
    assert (cli(*line, "-o", "csv").status, "Moves" in shown.out) == (0, answer is True)


def test_every_option_of_a_dry_run_is_refused_with_may_join() -> None:
    """Except for the group, its source and the output."""
    params = {param.name for param in command.params if getattr(param, "block", None) is None}
    assert params - _OF_DRY_RUNS <= {"group", "dry_run", "may_join", "help"}, params - _OF_DRY_RUNS


def test_missing_groups_members_and_topics(cli: Cli) -> None:
    result = cli("assign", "order-service", "--sample", "--dry-run", "--drop-topic", "nope")
    assert result.status == 3
    assert "--drop-topic: group order-service has no topic nope; it has: orders" in result.err
    result = cli("assign", "nope", "--sample", "--dry-run")
    assert (result.status, result.out) == (3, "")
    result = cli("assign", "nope", "--sample", "--dry-run", "-o", "json")
    (error,) = json.loads(result.out)["errors"]
    assert (result.status, error["kind"], error["group_id"]) == (3, "not-found", "nope")
    result = cli("assign", "order-service", "--sample", "--dry-run", "--partitions", "order=12")
    assert (result.status, result.out) == (3, "")
    assert "--partitions: group order-service has no topic order; it has: orders." in result.err
    result = cli("assign", "order-service", "--sample", "--dry-run", "--remove-member", "nope")
    assert result.status == 3
    assert "group order-service has no member 'nope'; it has: order-service-1 at " in result.err


def test_a_topic_that_the_dry_run_deletes_needs_no_warning(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--drop-topic", "orders", "--settle"]
    row = json.loads(cli(*args, "-o", "jsonl").out)
    plans = [row, *row["following"]]
    assert [plan["warnings"] for plan in plans] == [[], []]


def test_a_topic_that_is_subscribed_to_and_not_known(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--dry-run", "-o", "jsonl"]
    args += ["--subscribe", "order-service-1=orders,payments"]
    (warning,) = json.loads(cli(*args).out)["warnings"]
    assert warning.startswith("Subscribed topics without known partitions: payments. ")
    result = cli(*args, "--partitions", "payments=2")
    row = json.loads(result.out)
    assert (result.status, row["warnings"]) == (0, [])
    given = {member.split("-")[2]: parts for member, parts in row["assignment"].items()}
    assert [part for part in given["1"] if part[0] == "payments"] == [
        ["payments", 0],
        ["payments", 1],
    ]


@pytest.mark.parametrize(
    ("group", "message"),
    [("search-index", "expected members that subscribe, found none (state Empty)")],
)
def test_groups_that_nobody_assigns_partitions_in(cli: Cli, group: str, message: str) -> None:
    result = cli("assign", group, "--sample", "--dry-run")
    assert (result.status, result.out) == (1, "")
    assert message in result.err


def test_streams_with_the_classic_protocol(cli: Cli) -> None:
    """In the recorded group a probing rebalance is due, which may move active tasks."""
    args = ["assign", "order-totals-classic", "--log-dir", str(STREAMS)]
    row = json.loads(cli(*args, "-o", "jsonl").out)
    assert (row["protocol"], row["strategy"]) == ("classic-streams", "stream")
    assert row["computed_as"] == "kafka-streams 4.3.1"
    assert row["streams"] == {
        "after_ms": 0,
        "delay_ms": 0,
        "is_at_once": True,
        "waiting": [[move["topic"], move["partition"]] for move in row["moves"]],
    }
    tasks = sorted(task for own in row["assignment"].values() for task in own)
    assert sorted(tasks + row["streams"]["waiting"]) == [[s, n] for s in "01" for n in range(4)]
    more = ("--streams-config", "probing.rebalance.interval.ms=120000", "--add-member", "--settle")
    result = cli(*args, *more)
    page = result.out
    assert "in 120 s, a probing rebalance" in page
    note = "probing.rebalance.interval.ms is unknown; 600000 is assumed"
    assert note not in result.err
    assert note in cli(*args, "--add-member", "--settle").err
    assert "run nowhere until then" in page
    wrong = cli(*args, "--strategy", "range")
    assert (wrong.status, wrong.out) == (2, "")
    assert "known for classic-streams groups of kafka-streams 4.3.1: stream, sticky" in wrong.err
    for text in ("num.standby.replicas=1", "max.warmup.replicas=x", "max.warmup.replicas"):
        assert "expected NAME=N, where NAME is" in cli(*args, "--streams-config", text).err


def test_connect(cli: Cli) -> None:
    """A second worker gets what the first one has too much of, after that has stopped it."""
    args = ["assign", "warehouse-sync", "--sample", "--add-member", "--settle"]
    row = json.loads(cli(*args, "-o", "jsonl").out)
    (worker,) = (member for member in row["assignment"] if member != "new-1")
    connector = "shipments-warehouse"
    assert (row["protocol"], row["computed_as"]) == ("connect", "connect-runtime 4.3.1")
    assert row["assignment"] == {worker: [[connector, None], [connector, 1]], "new-1": []}
    assert row["connect"] == {"after_ms": 0, "delay_ms": 0, "waiting": [[connector, 0]]}
    (after,) = row["following"]
    assert after["assignment"]["new-1"] == [[connector, 0]]
    page = cli(*args).out
    assert "run nowhere until then  1: shipments-warehouse-0" in page
    assert f"{connector}; tasks {connector} 1" in page
    leaves = ["assign", "warehouse-sync", "--sample", "--restart-member", worker]
    rows = cli(*leaves, "-o", "csv").out.splitlines()
    assert [line.split(",")[3] for line in rows] == ["partition", "", "0", "1"]
    result = cli(*args, "--grid")
    assert (result.status, "not connectors and tasks" in result.err) == (2, True)
    result = cli("assign", "order-service", "--sample", "--max-delay", "1m")
    assert (result.status, "have no connectors" in result.err) == (2, True)
    result = cli("assign", "connect-shipments-warehouse", "--sample", "--connector", "a=2")
    assert result.status == 2
    assert (
        "group connect-shipments-warehouse has the consumers of the sink connector "
        "shipments-warehouse; connectors belong to the group of the workers"
    ) in result.err


def test_moves_as_rows(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--dry-run", "--remove-member"]
    result = cli(*args, "order-service-1", "-o", "tsv")
    head, *rows = [line.split("\t") for line in result.out.splitlines()]
    assert ",".join(head) == (
        "id,rebalance,topic,partition,from_member,to_member,lag,depends_on_id,from_thread,to_thread"
    )
    assert {tuple(row[:4]) for row in rows} == {
        ("order-service", "1", "orders", "0"),
        ("order-service", "1", "orders", "1"),
    }
    result = cli(*args, "order-service-1")
    assert "moves      2, with a lag of 0" in result.out


def test_an_error_of_kafka_is_a_row_and_status_4(cli: Cli, tmp_path: Path) -> None:
    owned = [["t", 3], ["t", 1], ["t", 5]]
    member = {"member_id": "a", "topics": ["t"], "owned": owned, "generation": 2}
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(SPEC | {"members": [member]}))
    assert cli("assign", "--dry-run", "--spec", file, "-o", "jsonl").status == 0
    spec = SPEC | {"strategy": "sticky", "members": [member], "topics": {"t": {"partitions": 2}}}
    file.write_text(json.dumps(spec))
    result = cli("assign", "--dry-run", "--spec", file, "-o", "jsonl")
    assert result.status == 4
    row = json.loads(result.out)
    assert row["error"]["type"] == "IllegalStateException"
    assert row["assignment"] is None
    result = cli("assign", "--dry-run", "--spec", file)
    assert "warning    The group's leader fails with IllegalStateException" in result.out


def test_a_drawing(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--dry-run", "--remove-member"]
    args += ["order-service-1", "--grid"]
    result = cli(*args)
    assert result.status == 0
    page = PAGE.partition("## Drawn")[2].partition("\n## ")[0]
    drawing = [line[4:] for line in page.splitlines() if line.startswith("    ")][1:]
    text = "".join(f"{line}\n" for line in drawing)
    assert text.rstrip() in result.out.replace("\n\n= keeps", "\n= keeps")
    assert "Members" not in result.out


def test_a_drawing_of_each_rebalance_and_each_group(cli: Cli, tmp_path: Path) -> None:
    owned = [["t", number] for number in range(3)]
    members = [{"member_id": "a", "topics": ["t"], "owned": owned, "generation": 1}]
    spec = SPEC | {"strategy": "cooperative-sticky", "members": members}
    file = tmp_path / "spec.jsonl"
    file.write_text("".join(json.dumps(spec | {"id": name}) + "\n" for name in "xy"))
    args = ["assign", "--dry-run", "--spec", str(file), "--add-member", "--grid"]
    once, settled = cli(*args), cli(*args, "--settle")
    assert once.out.count("= keeps") == 2
    assert settled.out.count("= keeps") > 2
    assert settled.out.count("The rebalance after it") == settled.out.count("= keeps") - 2
    assert re.search(r"^a +==-$", settled.out, re.MULTILINE)
    assert re.search(r"^new-1 +\.\.\+$", settled.out, re.MULTILINE)


def test_a_run_that_no_rebalance_follows(cli: Cli) -> None:
    note = "kgroup: note: no rebalance follows\n"
    for words, is_said in (
        (["--settle"], True),
        ([], False),
        (["--settle", "--add-member"], False),
    ):
        found = cli("assign", "order-service", "--sample", *words)
        assert (note in found.err) == is_said, words


def test_a_rolling_restart_of_one_member(cli: Cli) -> None:
    page = cli("assign", "warehouse-sync", "--sample", "--bounce").out
    assert re.search(r"^members +1 leaves and comes back$", page, re.M), page


def test_threads_of_zookeeper_consumers(cli: Cli, tmp_path: Path) -> None:
    """The example of the page: five partitions, two consumers with two threads each."""
    example = "".join(re.findall(r'^    (.*(?:"C1"|"C2"|"zookeeper").*)$', PAGE, re.MULTILINE))
    file = tmp_path / "spec.json"
    file.write_text(example)
    result = cli("assign", "--dry-run", "--spec", str(file), "-o", "json")
    (row,) = json.loads(result.out)["data"]
    assert (row["protocol"], row["strategy"]) == ("zookeeper", "range")
    assert row["threads"] == {
        "C1-0": [["orders", 0], ["orders", 1]],
        "C1-1": [["orders", 2]],
        "C2-0": [["orders", 3]],
        "C2-1": [["orders", 4]],
    }
    assert row["overlaps"] == [{"members": ["C1", "C2"], "topics": ["orders"]}]
    added = ("--add-member", "1:host=z,streams=3", "--partitions", "orders=6")
    page = cli("assign", "--dry-run", "--spec", str(file), *added).out
    assert "idle threads        1: new-1-2" in page
    assert "new-1-1        1  orders 5" in page


def test_a_file_with_a_byte_order_mark_and_files_with_nothing(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(SPEC).encode())
    result = cli("assign", "--dry-run", "--spec", file, "-o", "jsonl")
    assert (result.status, json.loads(result.out)["id"]) == (0, "g")
    for nothing in (b"", b" \n", b"\xef\xbb\xbf"):
        file.write_bytes(nothing)
        result = cli("assign", "--dry-run", "--spec", file)
        assert (result.status, result.out) == (1, "")
        assert "Expected JSON, found nothing." in result.err


def test_a_comparison_of_one_group_does_not_repeat_its_name(cli: Cli, tmp_path: Path) -> None:
    """It would leave too little room for the rest on a terminal of 80 columns."""
    compare = ["assign", "order-service", "--sample", "--dry-run", "--compare"]
    assert cli(*compare).out.split()[0] == "rank"
    assert cli(*compare, "-o", "csv").out.startswith("id,rank,")
    assert cli(*compare, "--columns", "id,rank").out.split()[:2] == ["id", "rank"]
    file = tmp_path / "specs.jsonl"
    file.write_text(f"{json.dumps(SPEC)}\n{json.dumps(SPEC | {'id': 'h'})}\n")
    assert cli("assign", "--dry-run", "--spec", file, "--compare").out.split()[0] == "id"


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
    assert "Kafka's default; it gives the current assignment" in result.err
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


def test_a_new_member_says_what_it_lists_and_which_library_it_uses(
    cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "g.json"
    members = [{"member_id": name, "topics": ["t-1"], "client": "sarama"} for name in "ab"]
    spec = {"strategy": "range", "topics": {"t-1": {"partitions": 9}}, "members": members}
    file.write_text(json.dumps(spec))
    args = ("assign", "--dry-run", "--spec", str(file))
    assert cli(*args, "--add-member", "1:strategies=sticky+range,library=java@3.9").status == 0
    newer = cli(*args, "--add-member", "1:library=java@99.0")
    assert "kafka-clients 99.0 is newer than the versions that were tested" in newer.err
    refused = cli(*args, "--add-member", "1:library=kafkajs")
    assert "strategy of the group, range, found RoundRobinAssigner" in refused.err
    assert refused.status == 2
    file.write_text(json.dumps({**spec, "strategy": "uniform", "protocol": "consumer"}))
    (row,) = json.loads(cli(*args, "--add-member", "1:topics=u,regex=t-1{1,2}", "-o", "json").out)[
        "data"
    ]
    assert row["members"][-1]["after"] == 3
