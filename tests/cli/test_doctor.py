from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroup import __version__
from tests.cli.command_line import Cli
from tests.cli.loaded import loaded_by


def test_it_says_what_is_installed_and_asks_nobody(cli: Cli) -> None:
    result = cli("doctor", "-o", "json")
    assert (result.status, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["command"], document["errors"]) == ("doctor", [])
    rows = {row["name"]: row for row in document["data"]}
    assert rows["kgroup"]["version"] == __version__
    assert {row["kind"] for row in rows.values()} == {"part", "program"}
    assert {"numpy", "kafka", "kazoo", "pyspark", "numba"}.isdisjoint(loaded_by("doctor"))


def test_without_java(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = cli("doctor", "-o", "tsv", "--no-headers", "--columns", "name,condition,advice")
    assert result.status == 0
    said = f"java\tmissing\tSpark needs Java, and JAVA_HOME={tmp_path} has no bin/java"
    assert said in result.out.splitlines()


def test_a_page_has_what_is_installed_what_is_missing_and_what_was_asked(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kgroup.operation.doctor.installed_version", lambda name: None if name == "duckdb" else "9"
    )
    result = cli("doctor", "-b", "127.0.0.1:1", "--timeout", "1")
    installed, missing, asked = (part.splitlines() for part in result.out.split("\n\n"))
    assert (installed[0], missing[0], asked[0]) == ("Installed", "Missing", "Asked")
    assert any(line.split()[:2] == ["pyarrow", "9"] for line in installed)
    assert "duckdb" not in "".join(installed)
    assert missing[2].split()[0] == "duckdb"
    assert missing[2].endswith("pip install 'kgroup[history]'")
    assert "cannot be reached" in asked[2]


@pytest.mark.parametrize("option", ["-b", "--zookeeper"])
def test_what_is_asked_for_and_cannot_be_reached(cli: Cli, option: str) -> None:
    result = cli("doctor", option, "127.0.0.1:1", "--timeout", "1", "-o", "jsonl")
    assert (result.status, result.err) == (5, "")
    last = json.loads(result.out.splitlines()[-1])
    assert (last["kind"], last["condition"]) == ("source", "unreachable")
    assert "127.0.0.1:1 cannot be reached" in last["reason"]


def test_a_cluster_that_the_environment_names(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert cli("doctor", "--timeout", "1").status == 5


def test_two_sources(cli: Cli) -> None:
    result = cli("doctor", "-b", "127.0.0.1:1", "--zookeeper", "127.0.0.1:1")
    assert (result.status, result.out) == (2, "")
    assert "two sources" in result.err
