"""`kgroup snapshot`, and the commands on what it saved."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.sample import LOG_DIR_TIME_MS, sample_log_dir
from tests.cli.command_line import Cli, Result
from tests.cli.fake_cluster import FakeCluster
from tests.examples import some_of

DATA = Path(__file__).parents[1] / "data"
DAMAGED = [  # what problem is saved does not depend on where, and in what codec, it was met
    *("cut-in-body", "flipped-bit-in-body", "garbage-at-end", "hole-of-zeros", "length-huge"),
    *("magic-3", "missing-piece", "record-count-too-high", "two-batches-damaged"),
]
LOGS = [
    *sorted(path for path in DATA.glob("*") if any(path.glob("__consumer_offsets-*"))),
    *(DATA / f"damaged/v2-{name}" for name in DAMAGED),
]

CHECKED = ("check", "--no-past", "--columns", "group_id,code,reason,since_ms")
"""A check without the commands, which name the source."""


def same(cli: Cli, origin: Sequence[object], file: Path, *command: str) -> Result:
    """Run a command on a source and on its snapshot, and expect the same of both."""
    direct = cli(command[0], *origin, *command[1:])
    saved = cli(command[0], "--snapshot", file, *command[1:])
    assert ageless(saved.out) == ageless(direct.out)
    assert saved.status == direct.status
    assert saved.err == direct.err
    return direct


def ageless(text: str) -> str:
    """Return a page without ages, which grow while the two commands run."""
    return re.sub(r" +", " ", re.sub(r"\b\d+ (d|h|min|s)\b", "0", text))


def ids(result: Result) -> list[str]:
    return [group["group_id"] for group in json.loads(result.out)["data"]]


@pytest.mark.slow
@pytest.mark.parametrize("log_dir", some_of(LOGS, 4), ids=lambda path: path.name)
def test_a_round_trip_changes_nothing(cli: Cli, log_dir: Path, tmp_path: Path) -> None:
    file, origin = tmp_path / "all.json", ["--log-dir", log_dir]
    taken = cli("snapshot", *origin, "--all", "-f", file)
    assert taken.out == ""
    listed = same(cli, origin, file, "list", "-o", "json")
    assert taken.status == listed.status
    described = same(cli, origin, file, "describe", "--all", "-o", "json")
    names = ids(listed)
    assert names == ids(described)
    same(cli, origin, file, "describe", "--all")
    same(cli, origin, file, *CHECKED)
    same(cli, origin, file, "coordinator", "no such group", *names, "-o", "json")
    if names:
        same(cli, origin, file, "describe", names[0], "no such group", "-o", "json")
        same(cli, origin, file, "describe", "--isolation", "read-committed", names[-1])
    assert same(cli, origin, file, "describe", "no such group", "-o", "json").status in (3, 4)


def test_a_check_of_a_log_and_of_its_snapshot_has_the_same_findings(
    cli: Cli, tmp_path: Path
) -> None:
    """Neither knows what time it was: the newest record may be the commit in question."""
    for number, origin in enumerate((["--sample"], ["--log-dir", str(sample_log_dir())])):
        file = tmp_path / f"{number}.json"
        assert cli("snapshot", *origin, "--all", "-f", file).status == 0
        assert "nobody-reads" in same(cli, origin, file, *CHECKED).out


def test_only_what_is_chosen_as_the_sample_has_its_zookeeper_too(cli: Cli) -> None:
    for source, kind, status in (
        (["--sample"], "sample", 0),
        (["--log-dir", str(sample_log_dir())], "log-dir", 3),
    ):
        saved = json.loads(cli("snapshot", *source, "ledger", "-f", "-").out)
        assert saved["origin"]["kind"] == kind
        assert cli("describe", *source, "stock-sync").status == status


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["list", "--type", "share", "-o", "jsonl"],
        ["list", "--state", "Stable", "--topic", "orders", "-o", "csv"],
        ["describe", "--regex", "order.*", "-o", "json"],
        ["describe", "--all", "--members", "-o", "tsv"],
        ["coordinator", "ledger", "--offsets-partitions", "3"],
        ["coordinator", "ledger", "-o", "json"],
        ["assign", "--dry-run", "order-service", "-o", "json"],
        ["assign", "--dry-run", "order-service", "--strategy", "range", "-o", "json"],
    ],
)
def test_a_round_trip_of_the_sample(cli: Cli, command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "sample.json.gz"
    written = f"kgroup: note: 14 groups written to {file}\n"
    assert cli("snapshot", "--sample", "--all", "-f", file) == Result(0, "", written)
    assert same(cli, ["--sample"], file, *command).status == 0


def test_groups_that_are_named(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    assert cli("snapshot", "--sample", "ledger", "order-service", "-f", file).status == 0
    for names in (["ledger"], ["order-service"], ["order-service", "ledger"]):
        same(cli, ["--sample"], file, "describe", *names, "-o", "json")
    listed = cli("list", "--snapshot", file, "-o", "json")
    assert ids(listed) == ["ledger", "order-service"]
    assert "('ledger', 'order-service')" in listed.err
    other = cli("describe", "--snapshot", file, "shipping", "-o", "json")
    assert other.status == 1
    (error,) = json.loads(other.out)["errors"]
    assert (error["kind"], error["group_id"]) == ("not-in-snapshot", "shipping")


def test_ages_are_those_of_then(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    cli("snapshot", "--sample", "ledger", "-f", file)
    tree = json.loads(file.read_text())
    before = {"generation_id": 7, "leader_id": "m", "assignor": "range", "members": []}
    before["recorded_ms"] = tree["taken_ms"] - 5000
    tree["groups"][0]["last_stable"] = before
    file.write_text(json.dumps(tree))
    page = cli("describe", "--snapshot", file, "ledger", "--state").out
    assert page.endswith("last complete generation 7, 5 s ago\n")


def test_groups_that_match(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    assert cli("snapshot", "--sample", "--regex", "order.*", "-f", file).status == 0
    described = same(cli, ["--sample"], file, "describe", "--regex", "order.*", "-o", "json")
    assert ids(described)
    assert same(cli, ["--sample"], file, "describe", "order-none", "-o", "json").status == 3
    assert cli("snapshot", "--sample", "--regex", r"(?i)\pLEDGE\pL", "-f", file).status == 0
    assert ids(cli("list", "--snapshot", file, "-o", "json")) == ["ledger"]
    other = cli("describe", "--snapshot", file, "--regex", "l.*")
    assert "--regex '(?i)" in other.err


def test_groups_that_do_not_exist(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text("as it was")
    none = cli("snapshot", "--sample", "nobody", "-f", file, "--force")
    assert none.status == 3
    assert none.err.splitlines() == [
        "kgroup: group 'nobody': not-found: The group does not exist; 'kgroup list' lists all "
        "groups.",
        f"kgroup: error: nothing to save; {file} was not written",
    ]
    assert cli("snapshot", "--sample", "--regex", "nobody", "-f", file, "--force").status == 3
    for command, to_do in (("snapshot", "save"), ("offsets export", "export")):
        told = cli(*command.split(), "--sample", "nobody", "-f", "-")
        assert told.err.splitlines()[1:] == [f"kgroup: error: nothing to {to_do}"]
    assert [(path, path.read_text()) for path in tmp_path.iterdir()] == [(file, "as it was")]
    some = cli("snapshot", "--sample", "nobody", "ledger", "-f", file, "--force")
    assert some.status == 4
    assert ids(cli("list", "--snapshot", file, "-o", "json")) == ["ledger"]
    assert cli("describe", "--snapshot", file, "nobody").status == 3


def test_standard_output_and_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    result = cli("snapshot", "--sample", "ledger", "-f", "-")
    assert result.status == 0
    assert json.loads(result.out)["groups"][0]["group_id"] == "ledger"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(result.out.encode())))
    assert ids(cli("describe", "--snapshot", "-", "ledger", "-o", "json")) == ["ledger"]


def test_the_same_bytes_each_time(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_004_000_000)
    files = [tmp_path / name for name in ("a.json", "b.json", "a.json.gz", "b.json.gz")]
    for file in files:
        assert cli("snapshot", "--sample", "--all", "-f", file).status == 0
    plain, again, *compressed = (file.read_bytes() for file in files)
    assert plain == again
    assert compressed[0] == compressed[1]
    assert gzip.decompress(compressed[0]) == plain
    assert json.loads(plain)["taken_ms"] == LOG_DIR_TIME_MS


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o400])
def test_a_file_that_is_replaced_lets_nobody_else_read_it(
    cli: Cli, tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "s.json"
    file.touch()
    file.chmod(mode)
    assert cli("snapshot", "--sample", "--all", "-f", file).status == 0
    assert file.read_bytes().startswith(b"{")
    assert file.stat().st_mode & 0o777 == mode | 0o200


def test_a_file_is_replaced_only_by_a_whole_one(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link = tmp_path / "old.json", tmp_path / "link.json"
    file.write_text("as it was")
    link.symlink_to(file)

    def fail(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fail)
        result = cli("snapshot", "--sample", "--all", "-f", link, "--force")
    assert (result.status, result.err) == (1, f"kgroup: error: {link}: No space left on device\n")
    assert file.read_text() == "as it was"
    assert cli("snapshot", "--sample", "--all", "-f", link, "--force").status == 0
    assert link.is_symlink()
    assert file.read_text().startswith('{"command":"snapshot",\n"schema_version":2,')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "old.json"]


def test_a_place_that_cannot_be_written_to(cli: Cli, tmp_path: Path) -> None:
    result = cli("snapshot", "--sample", "--all", "-f", tmp_path / "none" / "a.json")
    assert result.status == 1
    assert "No such file or directory" in result.err
    assert cli("snapshot", "--sample", "--all", "-f", tmp_path).status == 2
    assert cli("snapshot", "--sample", "--all", "-f", "/dev/null").status == 2


def test_usage(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert cli("snapshot", "--sample", "--all").status == 2
    assert cli("snapshot", "--sample", "-f", file).status == 2
    assert cli("snapshot", "--sample", "--all", "g", "-f", file).status == 2
    nowhere = cli("snapshot", "--all", "-f", file)
    assert (nowhere.status, "--snapshot" in nowhere.err) == (2, False)
    assert "--snapshot" in cli("list").err
    assert cli("snapshot", "--snapshot", file, "--all", "-f", file).status == 2
    both = cli("list", "--sample", "--snapshot", file)
    assert both.status == 2
    assert "two sources" in both.err
    watch = cli("describe", "--all", "--snapshot", file, "--watch", "1")
    assert watch.status == 2
    assert "does not change" in watch.err
    decode = cli("decode-offsets", "--snapshot", file)
    assert decode.status == 2
    assert "no records" in decode.err
    transactions = cli("coordinator", "--type", "transaction", "t", "--snapshot", file)
    assert transactions.status == 2
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    result = cli("list", "--snapshot", file)
    assert result == Result(1, "", f"kgroup: error: {file}: No such file or directory\n")


def test_the_environment_does_not_matter(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    cli("snapshot", "--sample", "--all", "-f", file)
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert cli("list", "--snapshot", file).status == 0
    assert cli("coordinator", "ledger", "--snapshot", file).status == 0


# --- a cluster ---


def test_of_a_cluster(cli: Cli, cluster: FakeCluster, tmp_path: Path) -> None:
    file, origin = tmp_path / "a.json", ["-b", "h:1", "-X", "zookeeper.digest=a:hush-hush"]
    result = cli("snapshot", *origin, "--all", "-f", file)
    assert (result.status, result.out) == (0, "")
    count = len(json.loads(file.read_text())["groups"])
    said = f"kgroup: note: {count} group{'' if count == 1 else 's'} written to {file}\n"
    assert result.err == said
    assert cluster.made[-1]["of_silence"] is True
    assert "hush-hush" not in file.read_text()
    assert json.loads(file.read_text())["origin"] == {"kind": "cluster", "paths": []}
    for command in (["list", "--log-budget", "0"], ["describe", "--all"], ["coordinator", "live"]):
        same(cli, origin, file, *command, "-o", "json")
    (row,) = json.loads(cli("coordinator", "--snapshot", file, "x", "-o", "json").out)["data"]
    assert (row["coordinator"], row["agrees"]) == (None, None)
    assert (row["offsets_partition"], row["leader"]["id"], row["replicas"]) == (0, 7, [7, 8])


def test_how_much_of_the_log_is_read(cli: Cli, cluster: FakeCluster, tmp_path: Path) -> None:
    file, origin = tmp_path / "a.json", ["-b", "h:1"]
    for words, budget in ((["--all"], 0), (["live"], 32), (["--all", "--log-budget", "7"], 7)):
        cluster.asked.clear()
        assert cli("snapshot", *origin, *words, "-f", file).status == 0
        assert cluster.asked[0].log_budget == budget << 20
        capabilities = json.loads(file.read_text())["capabilities"]
        assert ("generation" in capabilities) == bool(budget)
        described = cli("describe", "--snapshot", file, "live")
        assert ("--log-budget" in described.err) == (not budget)


def test_what_could_not_be_learnt(cli: Cli, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.problems = (Problem(ProblemKind.SILENT, "Broker 3 did not answer.", broker=3),)
    file, origin = tmp_path / "a.json", ["-b", "h:1"]
    result = cli("snapshot", *origin, "--all", "-f", file)
    assert (result.status, result.out) == (4, "")
    assert result.err.splitlines()[0] == "kgroup: silent: Broker 3 did not answer."
    assert same(cli, origin, file, "describe", "--all", "-o", "json").status == 4
    assert same(cli, origin, file, "list", "--log-budget", "0", "-o", "json").status == 4


def test_nothing_could_be_learnt(cli: Cli, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.problems = (Problem(ProblemKind.DENIED, "The cluster returned no.", group_id="g"),)
    file = tmp_path / "a.json"
    result = cli("snapshot", "-b", "h:1", "g", "-f", file)
    assert result.status == 1
    assert result.err.splitlines()[-1] == f"kgroup: error: nothing to save; {file} was not written"
    assert not list(tmp_path.iterdir())


def test_a_cluster_that_does_not_answer(cli: Cli, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.error = BrokerError(ProblemKind.SILENT, "h:1 did not answer within 10 s")
    file = tmp_path / "a.json"
    result = cli("snapshot", "-b", "h:1", "--all", "-f", file)
    assert result == Result(1, "", "kgroup: error: h:1 did not answer within 10 s\n")
    assert not list(tmp_path.iterdir())


def test_standard_output_by_its_other_name(cli: Cli) -> None:
    result = cli("snapshot", "--sample", "order-service", "-f", "/dev/stdout")
    assert (result.status, result.err) == (0, "")
    assert json.loads(result.out)["command"] == "snapshot"
