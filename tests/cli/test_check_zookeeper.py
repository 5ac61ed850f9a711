"""`kgroup check --zookeeper` on the recorded tree, in every form, with its exit statuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from kgroup.operation.check.rule import Rule
from kgroup.render.check import FINDING_COLUMNS
from kgroup.source.snapshot.file import snapshot_lines
from tests.cli.command_line import Cli, Result
from tests.cli.suggested import suggested
from tests.recorded_tree import recorded_snapshot

NO_KAFKA = (
    "kgroup: note: this source does not tell what groups of ZooKeeper consumers have committed to "
    "Kafka\n"
)
CODES = [
    ("clickstream", "before-start"),
    ("clickstream", "past-end"),
    ("nightly-report", "no-consumers"),
    ("typo", "no-topic"),
]
"""What was done to the groups when the tree was recorded."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("check") / "snapshot.json"
    path.write_bytes(b"".join(snapshot_lines(recorded_snapshot())))
    return path


@pytest.fixture
def check(cli: Cli, file: Path) -> Any:
    def run(*args: str) -> Result:
        return cli("check", *args, "--snapshot", file)

    return run


def test_json(check: Any) -> None:
    result = check("-o", "json")
    assert (result.status, result.err) == (5, NO_KAFKA)
    document = json.loads(result.out)
    assert (document["command"], document["errors"]) == ("check", [])
    assert [(row["group_id"], row["code"]) for row in document["data"]] == CODES
    for row in document["data"]:
        assert row["path"].startswith(f"/consumers/{row['group_id']}")
        assert row["reason"]
    lines = [json.loads(line) for line in check("-o", "jsonl").out.splitlines()]
    assert lines == document["data"]


def test_rows(check: Any) -> None:
    result = check("-o", "csv")
    assert result.status == 5
    head, *rows = csv.reader(io.StringIO(result.out))
    assert head == [column.name for column in FINDING_COLUMNS]
    assert [(row[0], row[2]) for row in rows] == CODES
    result = check("--columns", "code,topic", "-o", "tsv", "--no-headers", "typo")
    assert (result.status, result.out) == (5, "no-topic\torderz\n")


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_the_page_says_what_to_do_once_for_each_kind(check: Any, form: str) -> None:
    result = check("-o", form)
    assert result.status == 5
    findings, _, advice = result.out.partition("What to do")
    for row in json.loads(check("-o", "json").out)["data"]:
        assert f"Group {row['group_id']}" in findings
        assert row["code"] in findings
        told = [line for line in advice.splitlines() if row["code"] in line.split()]
        assert len(told) == 1
        assert Rule(row["code"]).sentence in told[0]
        assert row["advice"] in told[0]


def test_groups_may_be_named(check: Any) -> None:
    sound = check("billing", "web")
    assert (sound.status, sound.out) == (0, "")
    assert sound.err == f"{NO_KAFKA}kgroup: note: 2 groups checked, nothing found\n"
    assert check("nobody").status == 3
    assert check("nobody", "billing").status == 4
    assert check("nobody", "typo", "-o", "json").status == 5


def test_a_strategy(check: Any) -> None:
    assert check("pricing").status == 0
    result = check("pricing", "--strategy", "range", "-o", "json")
    assert result.status == 5
    assert {row["code"] for row in json.loads(result.out)["data"]} == {"other-owner"}
    result = check("--strategy", "sticky")
    assert (result.status, result.out) == (2, "")


def test_completion(cli: Cli, file: Path) -> None:
    assert suggested(cli, f"kgroup check --snapshot {file} bil") == ("plain", ["billing"])
