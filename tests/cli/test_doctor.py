from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroup import __version__
from tests.cli.command_line import Cli
from tests.cli.fake_cluster import FakeCluster
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


def test_what_is_wrong_comes_first_and_packages_last(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = ("duckdb", "kazoo")
    monkeypatch.setattr(
        "kgroup.operation.doctor.installed_version", lambda name: None if name in missing else "9"
    )
    result = cli("doctor", "-b", "127.0.0.1:1", "--timeout", "1")
    wrong, optional, installed = (part.splitlines() for part in result.out.split("\n\n"))
    assert (wrong[0], optional[0], installed[0]) == ("Problems", "Not installed", "Installed")
    kazoo, cluster = wrong[2:]
    assert kazoo.split()[0] == "kazoo"
    assert kazoo.split()[1:] == ["not", "installed", "install", "kgroup", "again"]
    assert "127.0.0.1:1 cannot be reached" in cluster
    assert cluster.endswith("check host and port, that the server runs, and firewalls")
    assert any(line.split()[:2] == ["pyarrow", "9"] for line in installed)
    assert "duckdb" not in "".join(installed)
    assert optional[2].split()[0] == "duckdb"
    assert optional[2].endswith("install the extra [history] (docs/install.md)")


def test_nothing_is_wrong(
    cli: Cli, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cli("doctor").out.splitlines()[0]
    assert first == ("Nothing is wrong. No cluster was asked: name one with -b, -C or --zookeeper.")
    config = tmp_path / "config.toml"
    config.write_text('current = "prod"\n[profiles.prod]\nbootstrap-server = "kafka-7"\n')
    monkeypatch.setenv("KGROUP_CONFIG", str(config))
    result = cli("doctor")
    nothing, profile, reached, *_ = result.out.split("\n\n")
    assert (result.status, nothing, profile) == (
        0, "Nothing is wrong.", "Profile prod (kafka-7:9092)"
    )  # fmt: skip
    assert [line.split()[-1] for line in reached.splitlines()[2:]] == ["ok", "ok"]


@pytest.mark.parametrize("option", ["-b", "--zookeeper"])
def test_what_is_asked_for_and_cannot_be_reached(cli: Cli, option: str) -> None:
    result = cli("doctor", option, "127.0.0.1:1", "--timeout", "1", "-o", "jsonl")
    assert (result.status, result.err) == (5, "")
    last = json.loads(result.out.splitlines()[-1])
    assert (last["kind"], last["condition"]) == ("source", "unreachable")
    assert "127.0.0.1:1 cannot be reached" in last["reason"]
    assert last["advice"] == "check host and port, that the server runs, and firewalls"


def test_a_cluster_that_the_environment_names(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert cli("doctor", "--timeout", "1").status == 5


def test_two_sources(cli: Cli) -> None:
    result = cli("doctor", "-b", "127.0.0.1:1", "--zookeeper", "127.0.0.1:1")
    assert (result.status, result.out) == (2, "")
    assert "two sources" in result.err
