"""One choice of source for `list`, `describe` and `coordinator`: options, and the environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.protocol.zookeeper.tree import tree_of
from kgroup.source.base import DEFAULT_LOG_BUDGET
from tests.cli.command_line import Cli
from tests.cli.fake_cluster import FakeCluster
from tests.recorded_tree import recorded_tree
from tests.source.fake_zookeeper import FakeZookeeper, fake_zookeeper
from tests.source.refusal import refused


def groups_listed(cli: Cli, *args: object) -> list[str]:
    result = cli("list", "-o", "tsv", "--no-headers", "--columns", "group_id", *args)
    assert result.status == 0, result.err
    return result.out.splitlines()


@pytest.mark.parametrize(
    "options",
    [
        ["-b", "kafka-7"],
        ["--bootstrap-server", "kafka-7:9092"],
        ["-X", "bootstrap.servers=kafka-7"],
    ],
)
def test_options_choose_a_cluster(cli: Cli, cluster: FakeCluster, options: list[str]) -> None:
    assert groups_listed(cli, *options) == ["live"]
    (made,) = cluster.made
    assert made["bootstrap"] == ["kafka-7:9092"]
    assert (made["timeout_s"], made["of_silence"]) == (10.0, False)
    assert made["security_protocol"] == "PLAINTEXT"
    assert cluster.closed == 1


def test_a_file_or_a_profile_chooses_a_cluster(
    cli: Cli, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=me\n")
    assert groups_listed(cli, "--command-config", file) == ["live"]
    config = tmp_path / "config.toml"
    config.write_text('[profiles.prod]\nbootstrap-server = "prod:2"\n')
    monkeypatch.setenv("KGROUP_CONFIG", str(config))
    assert groups_listed(cli, "-C", "prod") == ["live"]
    monkeypatch.setenv("KGROUP_PROFILE", "prod")
    assert groups_listed(cli) == ["live"]
    assert [made["bootstrap"] for made in cluster.made] == [["file:1"], ["prod:2"], ["prod:2"]]
    assert cluster.made[0]["client_id"] == "me"


def test_the_environment_is_a_default_that_every_option_overrules(
    cli: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "environment:1")
    assert groups_listed(cli) == ["live"]
    assert groups_listed(cli, "-b", "option:2") == ["live"]
    assert [made["bootstrap"] for made in cluster.made] == [["environment:1"], ["option:2"]]
    assert "order-service" in groups_listed(cli, "--sample")
    sample = Path(__file__).parents[2] / "kgroup/sample/log-dir"
    assert "order-service" in groups_listed(cli, "--log-dir", sample)
    assert cli("describe", "--sample", "order-service").status == 0
    assert len(cluster.made) == 2
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "")
    assert cli("list").status == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-b", "a"], "--bootstrap-server"),
        (["-b", ""], "--bootstrap-server"),
        (["-C", "prod"], "--profile"),
        (["-X", "client.id=x"], "-X"),
        (["--command-config", "f"], "--command-config"),
    ],
)
@pytest.mark.parametrize("command", [["list"], ["describe", "--all"], ["coordinator", "g"]])
@pytest.mark.parametrize("other", [["--sample"], ["--log-dir", "d"]])
def test_two_sources(
    cli: Cli,
    cluster: FakeCluster,
    command: list[str],
    options: list[str],
    named: str,
    other: list[str],
) -> None:
    result = cli(*command, *options, *other)
    assert (result.status, result.out, cluster.made) == (2, "", [])
    assert result.err.startswith(f"kgroup: error: {named} (a cluster) and {other[0]} are")


@pytest.mark.parametrize("command", [["list"], ["describe", "g"]])
def test_no_source(cli: Cli, command: list[str]) -> None:
    result = cli(*command, "--timeout", "3")
    assert (result.status, result.out) == (2, "")
    for option in ("--bootstrap-server", "--profile", "--log-dir", "--sample"):
        assert option in result.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-b", ""], "--bootstrap-server"),
        (["-b", "host:port"], "--bootstrap-server"),
        (["-X", "client.id=x"], "choose --bootstrap-server HOST:PORT"),
        (["-b", "a", "-X", "security.protocol=TLS"], "security.protocol"),
    ],
)
def test_wrong_settings(cli: Cli, cluster: FakeCluster, options: list[str], expected: str) -> None:
    result = cli("list", *options)
    assert (result.status, result.out, cluster.made) == (2, "", [])
    assert expected in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--command-config", "{}"],
        ["-X", "security.protocol=SSL", "-X", "ssl.truststore.location={}"],
    ],
)
def test_files_of_settings_that_cannot_be_read(
    cli: Cli, cluster: FakeCluster, options: list[str], tmp_path: Path
) -> None:
    result = cli("list", "-b", "a", *(option.format(tmp_path / "gone") for option in options))
    assert (result.status, result.out, cluster.made) == (1, "", [])
    assert f"{tmp_path / 'gone'}" in result.err
    assert result.err.endswith("cannot read it: No such file or directory\n")


def test_settings_without_effect_are_told_and_secrets_are_not(
    cli: Cli, cluster: FakeCluster
) -> None:
    result = cli("list", "-b", "a", "-X", "no.such.key=1", "-X", "ssl.key.password=s3kret")
    assert result.status == 0
    assert result.err.startswith("kgroup: note: ")
    assert "no.such.key" in result.err
    assert "s3kret" not in result.err + result.out


@pytest.mark.parametrize(
    ("args", "of_silence", "committed", "log_budget"),
    [
        (["live"], False, False, DEFAULT_LOG_BUDGET),
        (["--all"], True, False, 0),
        (["--regex", "l.*"], True, False, DEFAULT_LOG_BUDGET),
        (["--all", "--log-budget", "1"], True, False, 1 << 20),
        (["live", "--log-budget", "0"], False, False, 0),
        (["live", "--isolation", "read-committed"], False, True, DEFAULT_LOG_BUDGET),
        (["live", "--isolation", "read-uncommitted"], False, False, DEFAULT_LOG_BUDGET),
    ],
)
def test_describe(
    cli: Cli,
    cluster: FakeCluster,
    args: list[str],
    of_silence: bool,
    committed: bool,
    log_budget: int,
) -> None:
    result = cli("describe", "-b", "a", "--timeout", "2.5", *args, "-o", "json")
    assert (result.status, result.err) == (0, "")
    (row,) = json.loads(result.out)["data"]
    assert row["coordinator"] == {"id": 7, "host": "kafka-7", "port": 9092, "rack": None}
    assert [made["timeout_s"] for made in cluster.made] == [2.5]
    assert [made["of_silence"] for made in cluster.made] == [of_silence]
    question, asked_committed = cluster.asked
    assert (question.log_budget, asked_committed) == (log_budget, committed)


def test_isolation_of_files_is_a_note(cli: Cli) -> None:
    result = cli("describe", "--sample", "order-service", "--isolation", "read-committed")
    assert result.status == 0
    assert "does not know open transactions" in result.err


def test_coordinator(cli: Cli, cluster: FakeCluster) -> None:
    result = cli("coordinator", "-b", "a", "b", "a", "-o", "json")
    assert (result.status, result.err) == (0, "")
    rows = json.loads(result.out)["data"]
    assert [row["group_id"] for row in rows] == ["b", "a"]
    assert [row["offsets_partition"] for row in rows] == [ord("b") % 5, ord("a") % 5]
    assert rows[0]["leader"] == rows[0]["coordinator"] == {
        "id": 7, "host": "kafka-7", "port": 9092, "rack": None,
    }  # fmt: skip
    assert (rows[0]["agrees"], rows[0]["replicas"], rows[0]["isr"]) == (True, [7, 8], [7])


def test_coordinator_computes_where_a_number_is_given(
    cli: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = cli("coordinator", "a", "-b", "a", "--offsets-partitions", "5")
    assert (result.status, result.out) == (2, "")
    assert "--offsets-partitions" in result.err
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "environment:1")
    assert cli("coordinator", "a", "--offsets-partitions", "5").status == 0
    assert cluster.made == []
    assert cli("coordinator", "a").status == 0
    assert len(cluster.made) == 1


def test_exit_statuses(cli: Cli, cluster: FakeCluster) -> None:
    assert cli("describe", "-b", "a", "other").status == 3
    assert cli("describe", "-b", "a", "live", "other").status == 4
    cluster.problems = (Problem(ProblemKind.SILENT, "Broker 8 did not answer.", broker=8),)
    result = cli("list", "-b", "a", "-o", "json")
    assert result.status == 4
    assert json.loads(result.out)["errors"][0]["broker"] == 8
    cluster.error = BrokerError(ProblemKind.UNREACHABLE, "a:9092 cannot be reached")
    result = cli("list", "-b", "a")
    assert (result.status, result.out) == (1, "")
    assert result.err == "kgroup: error: a:9092 cannot be reached\n"
    assert cluster.closed == len(cluster.made)


@pytest.mark.parametrize("command", [["list"], ["describe", "g"], ["coordinator", "g"]])
def test_a_failure_is_a_document_too(cli: Cli, cluster: FakeCluster, command: list[str]) -> None:
    cluster.error = BrokerError(ProblemKind.SILENT, "broker 7 does not answer", broker_id=7)
    result = cli(*command, "-b", "a", "-o", "json")
    document = json.loads(result.out)
    assert (result.status, document["command"], document["data"]) == (1, command[0], [])
    (error,) = document["errors"]
    assert (error["kind"], error["broker"]) == ("silent", 7)
    assert error["reason"] == "broker 7 does not answer"
    assert result.err == "kgroup: error: broker 7 does not answer\n"
    assert cli(*command, "-b", "a", "-o", "jsonl").out == ""


@pytest.mark.parametrize(
    "command",
    [
        ["list", "--log-dir"],
        ["describe", "--all", "--log-dir"],
        ["coordinator", "g", "--log-dir"],
        ["decode-offsets"],
    ],
)
def test_nothing_to_read_is_a_document_too(cli: Cli, command: list[str], tmp_path: Path) -> None:
    result = cli(*command, tmp_path / "gone", "-o", "json")
    document = json.loads(result.out)
    assert (result.status, document["command"], document["data"]) == (1, command[0], [])
    (error,) = document["errors"]
    assert (error["kind"], error["reason"]) == (
        "unreadable",
        f"{tmp_path / 'gone'}: No such file or directory",
    )


def test_wrong_usage_is_no_document(cli: Cli, cluster: FakeCluster) -> None:
    result = cli("list", "-b", "host:port", "-o", "json")
    assert (result.status, result.out) == (2, "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("stock-snyc", "did you mean 'stock-sync'"),  # in the sample's ZooKeeper
        ("ledgr", "did you mean 'ledger'"),  # in its log
        ("fraud-chek", "did you mean 'fraud-check'"),  # the other one has fraud-scan
        ("xyz", "The group does not exist; 'kgroup list' lists all groups.\n"),
    ],
)
def test_a_group_of_the_sample_that_is_misspelt(cli: Cli, name: str, meant: str) -> None:
    result = cli("describe", "--sample", name)
    assert (result.status, result.out) == (3, "")
    assert meant in result.err


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
    result = cli("list", "--zookeeper", server.connect, "--no-lag", "-o", "jsonl")
    assert (result.status, result.err) == (0, "")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert {row["type"] for row in rows} == {"zookeeper"}
    assert all(row["member_count"] is not None for row in rows)
    assert all(row["topics"] is None for row in rows)
    described = cli("describe", "billing", "--zookeeper", server.connect)
    assert "elsewhere" not in described.err
    assert "log end offsets are unknown" in described.err


@pytest.mark.parametrize(
    "other", [["--sample"], ["-b", "a"], ["--log-dir", "x"], ["--snapshot", "x"]]
)
def test_zookeeper_and_another_source(cli: Cli, other: list[str]) -> None:
    result = cli("list", "--zookeeper", "zk", *other)
    assert (result.status, result.out) == (2, "")
    assert "are two sources; choose one of them" in result.err
    assert f"--zookeeper and {other[0]}" in result.err or other[0] == "-b"


def test_brokers_that_a_setting_names_are_asked_instead(cli: Cli, server: FakeZookeeper) -> None:
    named = refused()
    settings = ["-X", f"bootstrap.servers={named}", "-X", "client.id=me"]
    result = cli("describe", "billing", "--zookeeper", server.connect, *settings, "-o", "json")
    assert result.status == 4
    errors = json.loads(result.out)["errors"]
    assert all(named in error["reason"] for error in errors)
    assert [error["reason"].rpartition("; ")[2] for error in errors] == [
        "commits to Kafka are unknown.",
        "log end offsets are unknown.",
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
    assert page.startswith("warehouse  Stable  2 members  lag unknown in 6 partitions")
    assert "\nprotocol  zookeeper\n" in page
    assert "coordinator" not in page
    members = cli("describe", "warehouse", "--zookeeper", server.connect, "--members", "-o", "tsv")
    heads, *rows = (line.split("\t") for line in members.out.splitlines())
    shown = {tuple(row[heads.index(name)] for name in ("subscription", "threads")) for row in rows}
    assert shown == {("/ship.*|returns/:2", "2"), ("/ship.*|returns/:1", "1")}
    black = cli("describe", "audit", "--zookeeper", server.connect, "--members", "-o", "tsv").out
    assert "not /clicks|orders/:3" in black
