"""--zookeeper as one choice of source, beside the others and the environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kgroup.protocol.zookeeper.tree import tree_of
from tests.cli.command_line import Cli
from tests.recorded_tree import recorded_tree
from tests.source.fake_zookeeper import FakeZookeeper, fake_zookeeper
from tests.source.refusal import refused


@pytest.fixture
def server() -> Iterator[FakeZookeeper]:
    """The recorded tree, whose brokers are not there."""
    host, port = refused().split(":")
    nodes = [
        replace(node, data=b'{"version":1,"host":"%s","port":%s}' % (host.encode(), port.encode()))
        if node.path.startswith("/brokers/ids/")
        else node
        for node in recorded_tree().nodes.values()
    ]
    with fake_zookeeper(tree_of(nodes)) as server:
        yield server


def test_the_environment_names_another_source(
    cli: Cli, server: FakeZookeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "elsewhere:9092")
    monkeypatch.setenv("KGROUP_PROFILE", "no such profile")
    result = cli("list", "--zookeeper", server.connect, "-o", "jsonl")
    assert (result.status, result.err) == (0, "")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert {row["type"] for row in rows} == {"zookeeper"}
    assert all(row["member_count"] is not None for row in rows)
    assert all(row["topics"] is None for row in rows)
    described = cli("describe", "billing", "--zookeeper", server.connect)
    assert "elsewhere" not in described.err
    assert "ends of partitions are not known" in described.err


@pytest.mark.parametrize(
    "other", [["--sample"], ["-b", "a"], ["--log-dir", "x"], ["--snapshot", "x"]]
)
def test_two_sources(cli: Cli, other: list[str]) -> None:
    result = cli("list", "--zookeeper", "zk", *other)
    assert (result.status, result.out) == (2, "")
    assert "are two sources; choose one of them" in result.err
    assert "--zookeeper" in result.err


def test_brokers_that_a_setting_names_are_asked_instead(cli: Cli, server: FakeZookeeper) -> None:
    named = refused()
    settings = ["-X", f"bootstrap.servers={named}", "-X", "client.id=me"]
    result = cli("describe", "billing", "--zookeeper", server.connect, *settings, "-o", "json")
    assert result.status == 4
    errors = json.loads(result.out)["errors"]
    assert all(named in error["reason"] for error in errors)
    assert [error["reason"].rpartition("; ")[2] for error in errors] == [
        "commits to Kafka are not known.",
        "ends of partitions are not known.",
    ]


def test_coordinators_are_computed_and_their_leaders_known(cli: Cli, server: FakeZookeeper) -> None:
    result = cli("coordinator", "billing", "nobody", "--zookeeper", server.connect, "-o", "json")
    assert result.status == 0
    for row in json.loads(result.out)["data"]:
        assert row["partition_count"] == 4
        assert row["leader"]["id"] in row["isr"]
        assert row["coordinator"] is None
    for line in (
        ["coordinator", "x", "--type", "transaction"],
        ["coordinator", "x", "--offsets-partitions", "5"],
    ):
        assert cli(*line, "--zookeeper", server.connect).status == 2


@pytest.mark.slow
def test_a_snapshot_answers_as_its_source(cli: Cli, server: FakeZookeeper, tmp_path: Path) -> None:
    file = tmp_path / "zookeeper.json.gz"
    source = ["--zookeeper", server.connect]
    assert cli("snapshot", "--all", *source, "-f", file).status == 4  # no broker answers
    for line in (
        ["list", "--columns", "group_id,type,state,member_count,topics"],
        ["describe", "--all", "--members", "-o", "json"],
        ["describe", "web", "nobody", "-o", "json"],
        ["coordinator", "web", "-o", "json"],
    ):
        direct, through = cli(*line, *source), cli(*line, "--snapshot", file)
        assert (through.status, through.out) == (direct.status, direct.out), line
    named = tmp_path / "named.json"
    assert cli("snapshot", "web", *source, "-f", named).status == 4
    assert cli("list", "--snapshot", named, "-o", "tsv").out.splitlines()[1].startswith("web\t")
    assert cli("snapshot", "nobody", *source, "-f", tmp_path / "none.json").status == 3
    assert not (tmp_path / "none.json").exists()


def test_a_page_of_a_group(cli: Cli, server: FakeZookeeper) -> None:
    page = cli("describe", "warehouse", "--zookeeper", server.connect).out
    assert "type     zookeeper: Consumers of Kafka 0.7 and 0.8 register in ZooKeeper" in page
    assert "coordinator" not in page
    members = cli("describe", "warehouse", "--zookeeper", server.connect, "--members", "-o", "tsv")
    heads, *rows = (line.split("\t") for line in members.out.splitlines())
    shown = {tuple(row[heads.index(name)] for name in ("subscription", "threads")) for row in rows}
    assert shown == {("/ship.*|returns/:2", "2"), ("/ship.*|returns/:1", "1")}
    black = cli("describe", "audit", "--zookeeper", server.connect, "--members", "-o", "tsv").out
    assert "not /clicks|orders/:3" in black
