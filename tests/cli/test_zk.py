"""`kgroup zk` on the recorded tree, in every form."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgroup.cli.command import zk as zk_commands
from kgroup.model.snapshot import Snapshot, SnapshotNode
from kgroup.render.zookeeper import FETCH_COLUMNS
from kgroup.sample import sample_zookeeper
from kgroup.source.snapshot.file import snapshot_lines
from tests.cli.command_line import Cli, Result
from tests.cli.suggested import suggested
from tests.recorded_tree import consumer_names, recorded, recorded_nodes, recorded_snapshot


def saved(snapshot: Snapshot, folder: Path) -> Path:
    path = folder / "snapshot.json"
    with path.open("wb") as file:
        file.writelines(snapshot_lines(snapshot))
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(recorded_snapshot(), tmp_path_factory.mktemp("zk"))


@pytest.fixture
def zk(cli: Cli, file: Path) -> Any:
    def run(*args: str) -> Result:
        return cli("zk", *args, "--snapshot", file)

    return run


def rows(result: Result) -> list[dict[str, Any]]:
    assert (result.status, result.err) == (0, "")
    data: list[dict[str, Any]] = json.loads(result.out)["data"]
    return data


def test_ids(zk: Any) -> None:
    found = {consumer_names()[row["consumer_id"]]: row for row in rows(zk("ids", "-o", "json"))}
    assert found.keys() == recorded()["consumers"].keys()
    assert (found["warehouse-1"]["pattern"], found["warehouse-1"]["streams"]) == (
        "white_list",
        {"ship.*|returns": 2},
    )
    assert found["warehouse-1"]["topics"] == ["returns", "shipments"]
    assert {row["group_id"] for row in rows(zk("ids", "web", "-o", "json"))} == {"web"}
    table = zk("ids", "warehouse", "--columns", "streams,topics", "--no-headers")
    assert [line.split() for line in table.out.splitlines()] == [
        ["/ship.*|returns/(2)", "returns,shipments"],
        ["/ship.*|returns/(1)", "returns,shipments"],
    ]


def test_owners(zk: Any) -> None:
    result = zk("owners", "-o", "csv")
    assert (result.status, result.err) == (0, "")
    found = list(csv.DictReader(io.StringIO(result.out)))
    nodes = {node["path"]: node for node in recorded_nodes() if "/owners/" in node["path"]}
    leaves = {path: node for path, node in nodes.items() if node["text"]}
    assert {
        f"/consumers/{row['group_id']}/owners/{row['topic']}/{row['partition']}": (
            row["thread_id"],
            row["since_ms"],
        )
        for row in found
    } == {path: (node["text"], str(node["stat"]["ctime"])) for path, node in leaves.items()}


def test_tree(zk: Any) -> None:
    found = rows(zk("tree", "-o", "json"))
    assert {row["path"]: row["text"] for row in found} == {
        node["path"]: node["text"] for node in recorded_nodes()
    }
    (row,) = rows(zk("tree", "/controller", "-o", "json"))
    told = next(node for node in recorded_nodes() if node["path"] == "/controller")
    assert row["kind"] == "controller"
    assert row["value"]["broker"] == json.loads(told["text"])["brokerid"]
    lines = zk("tree", "brokers/", "--depth", "1", "-o", "tsv", "--columns", "path").out
    assert lines.splitlines() == ["path", "/brokers", "/brokers/ids", "/brokers/topics"]


def test_fetchers(zk: Any) -> None:
    for group_id, more in [("pricing", ["--num-consumer-fetchers", "2"]), ("warehouse", [])]:
        found = rows(zk("fetchers", group_id, *more, "-o", "json"))
        assert {
            (row["consumer_id"], row["topic"], row["partition"]): row["fetcher"] for row in found
        } == {
            (consumer_id, fetch["topic"], fetch["partition"]): fetch["thread"]
            for consumer_id, fetches in recorded()["fetches"].items()
            if consumer_id.startswith(f"{group_id}_")
            for fetch in fetches
        }
    for reset in ("smallest", "largest"):
        found = rows(zk("fetchers", "clickstream", "--reset", reset, "-o", "json"))
        (row,) = (row for row in found if row["topic"] == "clicks")
        assert (row["committed_offset"], row["reset"]) == (3, "before-start")
        end = {"smallest": "start", "largest": "end"}[reset]
        assert row["fetch_offset"] == recorded()["log_ranges"]["clicks-0"][end]


def test_fetchers_of_older_consumers(zk: Any) -> None:
    """31 times the hash of "payments" is -86518157 as an int, and 2060965491 without its sign."""
    for version, expected in [("0.8.2.2", 86518157 % 5), ("0.8.1.1", 2060965491 % 5), ("0.8.0", 0)]:
        args = ("fetchers", "billing", "--num-consumer-fetchers", "5", "--kafka-version", version)
        found = rows(zk(*args, "-o", "json"))
        at = ("payments", 0)
        (row,) = (row for row in found if (row["topic"], row["partition"]) == at)
        assert row["fetcher_id"] == expected


def test_what_waits_comes_last(zk: Any) -> None:
    found = rows(zk("fetchers", "warehouse", "-o", "json"))
    assert [(row["topic"], row["partition"]) for row in found if row["state"] != "fetching"] == [
        ("returns", 0)
    ]
    by_consumer = [row for row in found if row["consumer_id"] == found[0]["consumer_id"]]
    assert by_consumer[-1]["topic"] == "returns"
    assert by_consumer[-1]["broker"] is None


@pytest.mark.parametrize(
    ("args", "status", "problem"),
    [
        (["ids", "nobody"], 3, "group 'nobody': not-found"),
        (["ids", "nobody", "web"], 4, "group 'nobody': not-found"),
        (["owners", "nobody"], 3, "group 'nobody': not-found"),
        (["fetchers", "nobody"], 3, "group 'nobody': not-found"),
        (["tree", "/consumers/nobody"], 3, "/consumers/nobody: not-found"),
    ],
)
def test_what_does_not_exist(zk: Any, args: list[str], status: int, problem: str) -> None:
    result = zk(*args, "-o", "tsv")
    assert result.status == status
    assert result.err.startswith(f"kgroup: {problem}: ")
    document = json.loads(zk(*args, "-o", "json").out)
    assert document["command"] == f"zk {args[0]}"
    assert [error["kind"] for error in document["errors"]] == ["not-found"]


def test_a_group_without_owners(zk: Any) -> None:
    assert rows(zk("fetchers", "nightly-report", "-o", "json")) == []
    assert rows(zk("ids", "nightly-report", "-o", "json")) == []


def test_a_consumer_that_owns_nothing(cli: Cli, tmp_path: Path) -> None:
    nodes = recorded_snapshot().zookeeper or ()
    idle = "/consumers/typo/ids/typo_idle-1700000000000-aaaaaaaa"
    (like,) = (node for node in nodes if node.path.startswith("/consumers/typo/ids/"))
    more = (*nodes, replace(like, path=idle))
    file = saved(replace(recorded_snapshot(), zookeeper=more), tmp_path)
    result = cli("zk", "fetchers", "typo", "--snapshot", file)
    assert result.status == 0
    assert result.err == (
        "kgroup: note: typo_idle-1700000000000-aaaaaaaa owns no partitions, and fetches nothing.\n"
    )


def test_bad_data(cli: Cli, tmp_path: Path) -> None:
    nodes = (
        *(recorded_snapshot().zookeeper or ()),
        SnapshotNode("/consumers/web/owners/orders/9", base64="/w=="),
        SnapshotNode("/consumers/web/offsets/orders/9", data="many"),
    )
    file = saved(replace(recorded_snapshot(), zookeeper=nodes), tmp_path)
    result = cli("zk", "owners", "web", "--snapshot", file, "-o", "tsv", "--no-headers")
    assert result.status == 4
    assert len(result.out.splitlines()) == 6
    assert "/consumers/web/owners/orders/9" in result.err
    result = cli("zk", "tree", "/consumers/web", "--snapshot", file, "-o", "json")
    assert result.status == 4
    wrong = {row["path"]: row for row in json.loads(result.out)["data"] if row["error"]}
    assert {path: (row["text"], row["raw"]) for path, row in wrong.items()} == {
        "/consumers/web/owners/orders/9": (None, "/w=="),
        "/consumers/web/offsets/orders/9": ("many", None),
    }
    assert wrong["/consumers/web/offsets/orders/9"]["error"].endswith(", found 'many'.")
    healthy = cli("zk", "tree", "/consumers/billing", "--snapshot", file, "-o", "json")
    assert (healthy.status, json.loads(healthy.out)["errors"]) == (0, [])


@pytest.mark.parametrize("command", [["ids"], ["owners"], ["tree"], ["fetchers", "g"]])
def test_a_source_that_is_no_zookeeper(cli: Cli, tmp_path: Path, command: list[str]) -> None:
    other = tmp_path / "other.json"
    assert cli("snapshot", "--sample", "--all", "-f", other).status == 0
    result = cli("zk", *command, "--snapshot", other)
    assert (result.status, result.out) == (2, "")
    assert "this source has no nodes of ZooKeeper; choose --zookeeper HOST:PORT" in result.err
    for source in ([], ["-b", "127.0.0.1:1"], ["--log-dir", tmp_path]):
        result = cli("zk", *command, *source)
        assert (result.status, result.out) == (2, "")
        assert "this command needs a source with ZooKeeper nodes: use --zook" in result.err


def test_the_sample(cli: Cli) -> None:
    """The example that everybody knows: 5 partitions, 2 consumers with 2 threads each."""
    result = cli("zk", "owners", "stock-sync", "--sample", "-o", "json")
    numbers = {row["consumer_id"]: 0 for row in rows(result)}
    numbers = {consumer_id: place for place, consumer_id in enumerate(sorted(numbers), 1)}
    assert [f"C{numbers[row['consumer_id']]}-{row['thread']}" for row in rows(result)] == [
        *("C1-0", "C1-0", "C1-1", "C2-0", "C2-1")
    ]
    assert {row["partition"] for row in rows(result)} == set(range(5))


def test_commands_of_all_sources_know_the_zookeeper_of_the_sample(cli: Cli, tmp_path: Path) -> None:
    """They say of it what they say of the snapshot that it is."""
    file = sample_zookeeper()
    groups = sorted(recorded("sample-zookeeper")["checked"])
    listed = cli("list", "--sample", "--type", "zookeeper", "--no-lag", "-o", "json")
    assert [row["group_id"] for row in rows(listed)] == groups
    assert cli("list", "--sample", "-o", "tsv").out.count("zookeeper") == 0
    for command in (
        ["describe", "stock-sync", "returns-desk", "-o", "json"],
        ["coordinator", "stock-sync", "-o", "json"],
    ):
        through = cli(*command, "--snapshot", file)
        assert through.status in (0, 4)
        assert cli(*command, "--sample") == through
    # Groups of both are not in one place.
    mixed = cli("describe", "--sample", "stock-sync", "order-service", "-o", "json")
    assert mixed.status == 4
    assert [row["group_id"] for row in json.loads(mixed.out)["data"]] == ["order-service"]

    saved_file = tmp_path / "two.json"
    assert cli("snapshot", "--sample", "stock-sync", "price-feed", "-f", saved_file).status == 0
    document = json.loads(saved_file.read_text())
    assert document["origin"]["kind"] == "sample"
    assert document["taken_ms"] == json.loads(file.read_text())["taken_ms"]
    there = {node["path"] for node in document["zookeeper"]}
    assert {path.split("/")[2] for path in there if path.startswith("/consumers/")} == {
        *("stock-sync", "price-feed")
    }
    described = cli("describe", "stock-sync", "-o", "json", "--snapshot", saved_file)
    assert described == cli("describe", "stock-sync", "-o", "json", "--sample")


@pytest.mark.parametrize(
    "args",
    [
        ["fetchers"],
        ["fetchers", "a", "b"],
        ["fetchers", "a", "--reset", "earliest"],
        ["fetchers", "a", "--num-consumer-fetchers", "0"],
        ["tree", "/", "--depth", "-1"],
    ],
)
def test_wrong_usage(zk: Any, args: list[str]) -> None:
    result = zk(*args)
    assert (result.status, result.out) == (2, "")
    assert "try 'kgroup zk" in result.err


@pytest.mark.parametrize("command", ["ids", "owners", "fetchers"])
def test_a_group_that_is_not_in_zookeeper(cli: Cli, command: str) -> None:
    result = cli("zk", command, "order-service", "--sample")
    assert (result.status, result.out.count("\n")) == (3, 0)
    assert "not-found: ZooKeeper has no such group ('kgroup describe' shows those" in result.err
    result = cli("zk", command, "stock-snyc", "--sample")
    assert "in Kafka); did you mean 'stock-sync'?" in result.err


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/consumrs/stock-sync", "The node does not exist; did you mean 'consumers'?"),
        ("/consumers/stok-sync/ids", "The node does not exist; did you mean 'stock-sync'?"),
        ("/xyz", "The node does not exist."),
    ],
)
def test_a_node_that_is_not_there(cli: Cli, path: str, text: str) -> None:
    result = cli("zk", "tree", path, "--sample")
    assert (result.status, result.err) == (3, f"kgroup: {path}: not-found: {text}\n")


@pytest.mark.parametrize("command", list(zk_commands.command.commands))
def test_the_help_offers_only_sources_that_have_nodes(cli: Cli, command: str) -> None:
    text = cli("zk", command, "--help").out
    assert all(option in text for option in ("--zookeeper ", "--snapshot ", "--sample ", "-X KEY"))
    assert not any(option in text for option in ("--log-dir", "--bootstrap-server"))
    assert "--log-dir" in cli("describe", "--help").out


def test_without_a_command_the_help_goes_to_standard_error(cli: Cli) -> None:
    result = cli("zk")
    assert (result.status, result.out) == (2, "")
    assert "Commands:" in result.err


def test_completion(cli: Cli, file: Path) -> None:
    assert suggested(cli, "kgroup zk f") == ("plain", ["fetchers"])
    line = f"kgroup zk fetchers --snapshot {file} "
    assert suggested(cli, line)[1] == sorted(recorded()["checked"])
    sample = recorded("sample-zookeeper")["checked"]
    assert suggested(cli, "kgroup zk owners --sample ")[1] == sorted(sample)
    assert suggested(cli, f"{line} --reset ")[1] == ["largest", "smallest"]
    assert suggested(cli, f"{line} --columns ") == (
        "part",
        [column.name for column in FETCH_COLUMNS],
    )
