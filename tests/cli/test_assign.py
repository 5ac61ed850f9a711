"""`kgroup assign` from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

SPEC = {
    "id": "g",
    "strategy": "range",
    "topics": {"t": {"partitions": 3}},
    "members": [{"member_id": "a", "topics": ["t"]}, {"member_id": "b", "topics": ["t"]}],
}
PAGE = (Path(__file__).parents[2] / "docs" / "assign.md").read_text("utf-8")


def test_without_dry_run_it_says_who_assigns(cli: Cli) -> None:
    result = cli("assign", "order-service", "--sample")
    assert (result.status, result.out) == (2, "")
    assert "--dry-run shows what they would do" in result.err


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


def test_the_fields_are_those_of_the_page(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--dry-run", "--add-member", "--settle"]
    (row,) = json.loads(cli(*args, "-o", "json").out)["data"]
    table = PAGE.partition("## Result")[2]
    fields = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [name for name in fields if name != "what"] == list(row)
    assert row["following"]


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


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "name one group, or give --spec FILE"),
        (["g", "--spec", "f"], "name one group, or give --spec FILE"),
        (["g", "--sample", "--add-member", "0"], "expected a number from 1 to 10000, found '0'"),
        (["g", "--sample", "--add-member", "2:x=1"], "expected client=, instance=, rack= or"),
        (["g", "--sample", "--partitions", "t"], "expected TOPIC=NUMBER, found 't'"),
        (["g", "--sample", "--subscribe", "t"], "expected MEMBER=TOPIC,..., found 't'"),
        (["g", "--sample", "--compare", "--settle"], "--compare settles all strategies"),
        (["order-service", "--sample", "--strategy", "uniform"], "no strategy 'uniform'; known"),
    ],
)
def test_wrong_usage(cli: Cli, args: list[str], message: str) -> None:
    result = cli("assign", "--dry-run", *args)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_missing_groups_and_members(cli: Cli) -> None:
    result = cli("assign", "nope", "--sample", "--dry-run")
    assert (result.status, result.out) == (3, "")
    result = cli("assign", "order-service", "--sample", "--dry-run", "--remove-member", "nope")
    assert result.status == 3
    assert "the group has no member nope; there are: order-service-1-" in result.err


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("order-totals", "is a streams group"),
        ("warehouse-sync", "found 'connect' (protocol sessioned)"),
        ("search-index", "expected members that subscribe, found none (state Empty)"),
    ],
)
def test_groups_that_nobody_assigns_partitions_in(cli: Cli, group: str, message: str) -> None:
    result = cli("assign", group, "--sample", "--dry-run")
    assert (result.status, result.out) == (1, "")
    assert message in result.err


def test_moves_as_rows(cli: Cli) -> None:
    args = ["assign", "order-service", "--sample", "--dry-run", "--remove-member"]
    result = cli(*args, "order-service-1", "-o", "tsv")
    head, *rows = [line.split("\t") for line in result.out.splitlines()]
    assert head == ["topic", "partition", "from_member", "to_member", "lag"]
    assert {(row[0], row[1]) for row in rows} == {("orders", "0"), ("orders", "1")}
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
