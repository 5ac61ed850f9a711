"""Groups of a cluster of franz-go's kfake, which shows no topic `__consumer_offsets`. Needs Go.

What is expected is what franz-go's admin client says of the same groups.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.client.program import kfake
from tests.broker.maven import die_with_parent
from tests.cli.command_line import Cli

pytestmark = pytest.mark.oracle_clients


@pytest.fixture(scope="module")
def told() -> Iterator[Any]:
    process = subprocess.Popen(
        [kfake()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as lines:
        yield json.loads(lines.readline())
        process.stdin.close()
        assert process.wait() == 0


@pytest.fixture
def ask(cli: Cli, told: Any) -> Any:
    def run(*words: str, status: int = 0) -> Any:
        result = cli(*words, "-b", ",".join(told["bootstrap"]), "-o", "json")
        assert result.status == status, result.err
        assert "the cluster has never had one" not in result.err
        document = json.loads(result.out)
        assert document["errors"] == []
        return document["data"]

    return run


def of(row: Any, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def test_list(ask: Any, told: Any) -> None:
    rows = {row["group_id"]: row for row in ask("list")}
    assert list(rows) == sorted(told["groups"])
    for group_id, group in told["groups"].items():
        row = rows[group_id]
        assert of(row, "type", "state") == of(group, "type", "state")
        assert row["coordinator"]["id"] == group["coordinator"]
        assert row["offsets_partition"] is None


def test_describe(ask: Any, told: Any) -> None:
    ends = {int(partition): end for partition, end in told["log_end_offsets"].items()}
    rows = {row["group_id"]: row for row in ask("describe", "--all")}
    assert rows.keys() == told["groups"].keys()
    for group_id, group in told["groups"].items():
        row = rows[group_id]
        assert of(row, "type", "state") == of(group, "type", "state")
        assert row["coordinator"]["id"] == group["coordinator"]
        members = {each["member_id"]: each for each in row["members"]}
        assert members.keys() == {each["member_id"] for each in group["members"]}
        for member in group["members"]:
            mine = members[member["member_id"]]
            assert mine["client_host"].removeprefix("/") == member["host"]
            assert of(mine, "client_id", "instance_id") == of(member, "client_id", "instance_id")
            owned: dict[str, list[int]] = {}
            for at in mine["assignment"]:
                owned.setdefault(at["topic"], []).append(at["partition"])
            assert owned == member["assigned"]
        committed = {int(partition): offset for partition, offset in group["committed"].items()}
        for at in row["offsets"]:
            assert at["topic"] == "orders"
            offset, end = committed.pop(at["partition"], None), ends[at["partition"]]
            assert (at["committed_offset"], at["log_end_offset"]) == (offset, end)
            assert at["lag"] == (None if offset is None else end - offset)
            assert at["mark"] is None
        assert committed == {}


def test_offsets(ask: Any, told: Any) -> None:
    for group_id in ("classic", "away"):
        committed = told["groups"][group_id]["committed"]
        rows = ask("offsets", "show", group_id)
        assert {str(row["partition"]): row["committed_offset"] for row in rows} == committed
    for row in ask("offsets", "reset", "away", "--to-latest"):
        assert row["committed_offset"] == committed[str(row["partition"])]
        end = told["log_end_offsets"][str(row["partition"])]
        assert row["target_offset"] == end
        assert row["result"] == ("unchanged" if row["committed_offset"] == end else "planned")


def test_coordinator(ask: Any, told: Any) -> None:
    for row in ask("coordinator", *told["groups"]):
        assert row["coordinator"]["id"] == told["groups"][row["group_id"]]["coordinator"]
        assert (row["leader"], row["agrees"]) == (None, None)


def test_check(ask: Any) -> None:
    """What is right is no finding: only the group whose members are away has one."""
    found = ask("check", status=5)
    assert [of(each, "code", "group_id") for each in found] == [
        {"code": "nobody-reads", "group_id": "away"}
    ]


def test_dry_run(ask: Any) -> None:
    for group_id in ("classic", "consumer"):
        (dry_run,) = ask("assign", group_id, "--dry-run")
        assert dry_run["moves"] == []


def test_what_has_no_records(cli: Cli, told: Any, tmp_path: Any) -> None:
    servers = ("-b", ",".join(told["bootstrap"]))
    for words in (("decode-offsets",), ("history", "build", "--to", str(tmp_path / "warehouse"))):
        result = cli(*words, *servers)
        assert result.status == 0
        assert "shows no topic __consumer_offsets" in result.err
    result = cli("coordinator", "classic", *servers)
    assert "unknown: the cluster does not report the topic" in result.err
