"""`kgroup check` as it is typed: forms, statuses, what is refused, limits of a profile."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kgroup.cli.command import check as check_command
from kgroup.cli.option.source import Source
from kgroup.history.query import check as past_check
from kgroup.operation.check.look import LIMITS, Past
from kgroup.operation.check.rule import Rule
from kgroup.operation.printed_command import Reach, reaching
from kgroup.render.check import FINDING_COLUMNS
from kgroup.sample import sample_log_dir
from kgroup.source.snapshot.file import snapshot_lines
from tests.cli.command_line import Cli, Result
from tests.cli.fake_cluster import FakeCluster
from tests.cli.loaded import loaded_by
from tests.cli.suggested import suggested
from tests.history.builds import SAMPLE, build
from tests.history.recorded import Built
from tests.recorded_tree import recorded_snapshot


def test_json_and_rows(cli: Cli) -> None:
    result = cli("check", "--sample", "--no-past", "-o", "json")
    assert (result.status, result.err) == (5, "")
    document = json.loads(result.out)
    assert (document["command"], document["errors"]) == ("check", [])
    rows = cli(
        "check", "--sample", "--no-past", "-o", "tsv", "--columns", "group_id,code", "--no-headers"
    )
    assert [tuple(line.split("\t")) for line in rows.out.splitlines()] == [
        (row["group_id"], row["code"]) for row in document["data"]
    ]
    named = cli("check", "--sample", "ledger", "-o", "json")
    assert json.loads(named.out)["data"] == [
        row for row in document["data"] if row["group_id"] == "ledger"
    ]


def test_statuses(cli: Cli, tmp_path: Path) -> None:
    assert cli("check", "--sample", "payment-service").status == 0, "an info is no trouble"
    assert cli("check", "--sample", "payment-service", "--fail-on", "info").status == 5
    assert cli("check", "--sample", "pricing", "--fail-on", "error").status == 0
    assert cli("check", "--sample", "pricing", "--rule", "no-owner").status == 0
    assert cli("check", "--sample", "nobody").status == 3
    some = cli("check", "--sample", "nobody", "order-service")
    assert (some.status, some.out) == (4, "Group order-service: no findings\n"), "all was read"
    known = tmp_path / "known.json"
    known.write_text(cli("check", "--sample", "-o", "json").out, "utf-8")
    result = cli("check", "--sample", "--baseline", known)
    assert result.status == 0
    assert re.fullmatch(r"\d+ groups without new findings\n", result.out)
    assert " known findings are not shown\n" in result.err
    assert cli("check", "--sample", "--baseline", tmp_path / "no.json").status == 1


def test_nagios_has_statuses_of_its_own(cli: Cli) -> None:
    for groups, status, word in (
        (["ledger"], 2, "CRITICAL"),
        (["pricing"], 1, "WARNING"),
        (["payment-service"], 0, "OK"),
        (["nobody"], 3, "UNKNOWN"),
    ):
        result = cli("check", "--sample", *groups, "--nagios")
        assert (result.status, result.out.partition(" - ")[0]) == (status, f"KGROUP {word}")
    result = cli("check", "-b", "127.0.0.1:1", "--timeout", "1", "--nagios")
    assert result.status == 3
    assert result.out.startswith("KGROUP UNKNOWN - ")
    assert result.out.count("\n") == 1


def test_nagios_has_one_mark_after_an_error(cli: Cli) -> None:
    line = cli("check", "--sample", "nobody", "--nagios").out
    assert "lists all groups; 0 groups checked" in line


def test_nagios_has_an_error_in_one_line_without_figures(cli: Cli, tmp_path: Path) -> None:
    result = cli("check", "--sample", "--baseline", tmp_path / "a|b\nc.json", "--nagios")
    assert result.status == 3
    assert "a/b\\nc.json" in result.out
    assert result.out.count("\n") == 1


def test_a_group_that_does_not_exist_is_not_said_to_be_sound(cli: Cli) -> None:
    result = cli("check", "--sample", "nosuch")
    assert result.status == 3
    text = "group 'nosuch': not-found: The group does not exist; 'kgroup list' lists all groups.\n"
    assert result.err == f"kgroup: {text}"
    assert cli("assign", "--sample", "nosuch").err == f"kgroup: error: {text}"


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--sample", "--no-such-option"],
        ["--sample", "--limit", "old=1h"],
        ["--sample", "--prometheus"],
        ["--sample", "-o", "csv"],
        ["--zookeeper", ":"],
        ["--sample", "--interval"],
    ],
)
def test_nagios_takes_nothing_for_critical_that_makes_no_sense(cli: Cli, args: list[str]) -> None:
    """3 is UNKNOWN in the guidelines for plugins of Nagios: "invalid command line arguments"."""
    result = cli("check", "--nagios", *args)
    assert (result.status, result.err) == (3, "")
    assert result.out.startswith("KGROUP UNKNOWN - ")
    assert result.out.count("\n") == 1


def test_prometheus(cli: Cli) -> None:
    result = cli("check", "--sample", "ledger", "--prometheus")
    assert result.status == 5
    sample = 'kgroup_check_findings{group="ledger",code="nobody-reads",severity="error"} 1'
    assert sample in result.out.splitlines()


def test_rules(cli: Cli) -> None:
    result = cli("check", "--rules", "-o", "json")
    assert result.status == 0
    rows = json.loads(result.out)["data"]
    assert [row["code"] for row in rows] == list(Rule)
    page = Path("docs/check.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.M) == list(LIMITS)
    assert suggested(cli, "kgroup check --rule no-o") == ("plain", ["no-owner"])


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--sample", "--rule", "no-such-rule"],
        ["--sample", "--limit", "old-commit"],
        ["--sample", "--limit", "old=1h"],
        ["--sample", "--limit", "uneven=x"],
        ["--sample", "--prometheus", "-o", "json"],
        ["--sample", "--all", "ledger"],
        ["--snapshot", "no.json", "--interval", "5"],
        ["--sample", "--cluster", "prod"],
        ["--sample", "--warehouse", "no", "--limit", "past=x"],
        ["--sample", "--warehouse", "no", "--no-past"],
    ],
)
def test_what_makes_no_sense(cli: Cli, args: list[str]) -> None:
    result = cli("check", *args)
    assert (result.status, result.out) == (2, "")
    assert len(result.err.splitlines()) == 2


def test_limits_of_a_profile(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("KGROUP_CONFIG", str(file))
    start = '[profiles.prod]\nbootstrap-server = "127.0.0.1:1"\n[profiles.prod.check]\n'
    for line, said in (
        ('old-commit = "x"', "old-commit: expected a duration"),
        ('old = "1h"', "expected one of old-commit, "),
        ("old-commit = 3", "check: old-commit: expected a duration"),
        ("old-commit = [1]", "check: old-commit: expected "),
    ):
        file.write_text(start + line, "utf-8")
        result = cli("check", "-C", "prod", "--timeout", "1")
        assert (result.status, result.out) == (2, "")
        assert "prod" in result.err
        assert said in result.err
    file.write_text(f'{start}old-commit = "1h"', "utf-8")
    assert cli("check", "-C", "prod", "--timeout", "1").status == 1, "no broker is there"


def test_limits_of_groups_in_a_profile(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("KGROUP_CONFIG", str(file))
    start = '[profiles.prod]\nbootstrap-server = "127.0.0.1:1"\n[profiles.prod.check.groups'
    for line, said in (
        (
            ".live]\npast = '1d'",
            "check: groups: live: past: this limit cannot be set for single groups",
        ),
        (".live]\nlag = 'x'", "check: groups: live: lag: expected a number of at least 0"),
        (".live]\nlag = [1]", "check: groups: live: lag: expected "),
        ("]\nlive = 1", "check: groups: live: expected a table of limits"),
        (".live]\nlags = 1", "check: groups: live: expected one of old-commit, "),
    ):
        file.write_text(start + line, "utf-8")
        result = cli("check", "-C", "prod")
        assert (result.status, result.out) == (2, ""), line
        assert said in result.err
    file.write_text(f'{start}."li.*"]\nlag = 0\ntime-lag = "5m"', "utf-8")
    typed = ("check", "-C", "prod", "--rule", "lag")
    assert cli(*typed).status == 0
    assert cli(*typed, "--limit", "lag=1,time-lag=5m").status == 0
    assert cli(*typed, "--limit", "lag=1,").status == 2
    assert len(cluster.made) == 2


def test_the_past(cli: Cli, recorded_warehouse: Built, tmp_path: Path) -> None:
    """What the sample's groups did within a minute, at less than what is too much."""
    where = ("--sample", "order-service", "--warehouse", recorded_warehouse(sample_log_dir()))
    sound = cli("check", *where)
    assert (sound.status, sound.out) == (0, "Group order-service: no findings\n")
    assert sound.err.startswith(
        "kgroup: note: Checked the past of cluster c from 2026-11-29T19:50:4"
    )
    found = cli("check", *where, "--cluster", "c", "--limit", "generations=4", "-o", "json")
    assert found.status == 5
    (row,) = json.loads(found.out)["data"]
    assert (row["code"], row["basis"]) == ("generation-churn", "warehouse")
    options = f"{shlex.join(map(str, where[2:]))} --cluster c --sample"
    assert row["commands"] == [f"kgroup history rebalances order-service {options}"]
    assert json.loads(cli(*shlex.split(row["commands"][0])[1:], "-o", "json").out)["data"]
    assert row["reason"].startswith("5 rebalances within 1 day, up to generation 5; 5 are ")
    assert row["evidence_from_ms"] < row["since_ms"] + 1000 < row["evidence_to_ms"]
    assert cli("check", *where, "--cluster", "d").status == 3
    assert cli("check", "--sample", "--warehouse", tmp_path).status == 1
    result = cli("check", "--sample", "--warehouse", tmp_path, "--nagios")
    assert (result.status, result.out.partition(" - ")[0]) == (3, "KGROUP UNKNOWN")


@pytest.mark.parametrize(
    "args",
    [
        ["--no-past"],
        ["--log-budget", "0"],
        ["--rule", "no-owner", "--rule", "lag"],
        ["--nagios"],
        ["--prometheus"],
    ],
    ids=" ".join,
)
def test_the_past_is_not_loaded_where_nobody_asks_for_it(args: list[str]) -> None:
    loaded = loaded_by("check", "--sample", "order-service", *args)
    assert "kgroup.operation.check.check" in loaded
    heavy = {"duckdb", "pyarrow", "pyspark", "kgroup.history", "kgroup.operation.plan"}
    assert not loaded & heavy


def test_zookeeper_has_no_past(cli: Cli) -> None:
    old = cli("check", "--sample", "click-stats")
    assert (old.status, old.err) == (5, ""), "ZooKeeper has no records of the past"


def test_the_past_of_all_groups_of_a_small_log(cli: Cli) -> None:
    result = cli("check", "--sample")
    assert result.err.startswith("kgroup: note: The past was checked from ")
    named = cli("check", "--sample", "billing", "-o", "json")
    everything = cli("check", "--sample", "--all", "-o", "json")
    rows = [row for row in json.loads(everything.out)["data"] if row["group_id"] == "billing"]
    assert rows == json.loads(named.out)["data"]
    assert [row["code"] for row in rows] == ["late-poll", "eager-strategy"]


def test_a_named_group_gets_advice_and_the_lag_of_its_slow_member(cli: Cli) -> None:
    named = cli("why", "--sample", "billing").out
    verdict = cli("describe", "--sample", "billing").out.splitlines()[0]
    (lag,) = re.findall(r"lag (\d+) in 2 of 6", verdict)
    assert f"it started 11 of 12 rebalances. Its partitions have a lag of {lag} now." in named
    assert "\n    kgroup assign billing --remove-member billing-2 --sample\n" in named
    advice = named.partition("\nWhat to do\n")[2]
    assert advice.startswith("late-poll  Find out why the member is slow: ")
    assert len(advice.splitlines()) == 1, "no advice about info"
    assert "What to do" not in cli("check", "--sample").out
    shown = cli("assign", "billing", "--remove-member", "billing-2", "--sample")
    assert shown.status == 0


def test_a_snapshot_has_no_past(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    cli("snapshot", "--sample", "--all", "-f", str(file))
    named = cli("why", "billing", "--snapshot", str(file))
    assert named.err == (
        "kgroup: note: A snapshot has no past: only the state in it was checked.\n"
    )
    for words in (["billing", "--no-past"], ["--all"]):
        assert cli("why", *words, "--snapshot", str(file)).err == "", words


def test_a_plugin_lists_the_worst_first(cli: Cli) -> None:
    lines = cli("check", "--sample", "--nagios").out.splitlines()[1:]
    severities = [line.partition(":")[0] for line in lines]
    assert severities == ["error"] * 4 + ["warning"] + ["info"] * 3


def test_a_plugin_checks_the_past_if_a_rule_needs_it(cli: Cli) -> None:
    now = cli("check", "--sample", "billing", "--nagios")
    assert (now.status, "late-poll" in now.out) == (0, False)
    past = cli("check", "--sample", "billing", "--nagios", "--rule", "late-poll")
    assert (past.status, "late-poll" in past.out) == (1, True)
    metrics = cli("check", "--sample", "billing", "--prometheus", "--rule", "late-poll")
    assert 'group="billing",code="late-poll"' in metrics.out


@pytest.mark.parametrize("limit", ["past=1d", "rebalances=5", "generations=100,past=1d"])
def test_monitoring_checks_the_past_if_a_threshold_needs_it(cli: Cli, limit: str) -> None:
    past = cli("check", "--sample", "billing", "--nagios", "--limit", limit)
    assert (past.status, "late-poll" in past.out) == (1, True)
    metrics = cli("check", "--sample", "billing", "--prometheus", "--limit", limit)
    assert 'group="billing",code="late-poll"' in metrics.out
    assert "The past was not checked" not in past.err + metrics.err


def test_monitoring_says_that_it_does_not_check_the_past(cli: Cli) -> None:
    note = "kgroup: note: The past was not checked; for named groups, --limit past=1h checks it "
    for form in ("--nagios", "--prometheus"):
        for args, is_said in (
            (["billing"], True),
            (["billing", "--limit", "old-commit=1h"], True),
            (["billing", "--no-past"], False),
            (["billing", "--rule", "lag"], False),
            (["click-stats"], False),  # ZooKeeper has no records of the past
        ):
            result = cli("check", "--sample", *args, form)
            assert (note in result.err) == is_said, (form, args)


def test_the_present_is_checked_without_a_past(cli: Cli, tmp_path: Path) -> None:
    """As of log directories of two clusters, of which one has a copy without its id."""
    folder = "__consumer_offsets-2"
    (tmp_path / folder).mkdir()
    log = next((SAMPLE / folder).glob("*.log"))
    (tmp_path / folder / log.name).write_bytes(log.read_bytes())
    result = cli("check", "--log-dir", SAMPLE, "--log-dir", tmp_path, "-o", "json")
    assert result.status == 5
    assert json.loads(result.out)["data"]
    assert "The log was not checked: " in result.err
    full = OSError(28, "No space left on device")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgroup.history.warehouse.table_file.open_output", Mock(side_effect=full))
        result = cli("check", "--sample")
    assert result.status == 5
    assert "The log was not checked: [Errno 28] No space left on device" in result.err


def test_a_check_of_all_groups_names_the_command_that_checks_the_past(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.cli.command.check.SMALL_LOG", 100)
    note = (
        "kgroup: note: The past is checked only for named groups. To see what led to the state of "
        "search-index, run: kgroup why search-index --sample\n"
    )
    for args, is_said in (
        (["--regex", "s.*"], True),
        (["--regex", "s.*", "--rule", "nobody-reads", "--rule", "rebalance-storm"], True),
        (["--regex", "s.*", "--rule", "nobody-reads"], False),
        (["--regex", "s.*", "--no-past"], False),
        (["--regex", "s.*", "-o", "json"], False),
        (["--regex", "s.*", "--prometheus"], False),
        (["--regex", "order.*"], False),
        (["search-index", "--rule", "nobody-reads"], False),
    ):
        result = cli("check", "--sample", *args)
        assert (note in result.err) == is_said, args
        assert (result.status == 5) == ("order.*" not in args)


def test_the_past_in_the_log(cli: Cli) -> None:
    """The log of the sample is a minute long: what was before that is unknown."""
    sound = cli("check", "--sample", "order-service")
    assert (sound.status, sound.out) == (0, "Group order-service: no findings\n")
    assert re.fullmatch(
        r"kgroup: note: The past of order-service was checked from 2026-11-29T19:50:4\S+ to "
        r"2026-11-29T19:52:2\S+: no older record was read.\n",
        sound.err,
    )
    assert cli("check", "--sample", "order-service", "--no-past").err == ""
    found = cli("check", "--sample", "order-service", "--limit", "generations=4", "-o", "json")
    assert found.status == 5
    (row,) = json.loads(found.out)["data"]
    assert (row["code"], row["basis"]) == ("generation-churn", "log")
    assert row["reason"].startswith("5 rebalances within 1 day, up to generation 5; 5 are ")
    assert row["commands"] == ["kgroup history rebalances order-service --sample"]
    both = cli("check", "--sample", "order-service", "ledger", "--rule", "rebalance-storm")
    assert [line[:22] for line in both.err.splitlines()] == ["kgroup: note: The past"] * 2


def test_without_duckdb_the_state_is_checked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB comes with an extra. That the past is unknown is no reason to fail."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = cli("check", "--sample", "pricing")
    assert (result.status, result.out) == (5, cli("check", "--sample", "pricing", "--no-past").out)
    assert result.err == (
        "kgroup: note: The past was not checked: this needs DuckDB; install the extra "
        "[history] (docs/install.md), or leave it out: --no-past\n"
    )


NO_KAFKA = (
    "kgroup: note: this source does not have the offsets that groups of ZooKeeper consumers have "
    "committed to Kafka\n"
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
def test_explain_says_what_to_do_once_for_each_code(check: Any, form: str) -> None:
    result = check("-o", form, "--explain")
    assert result.status == 5
    table, _, rest = result.out.partition(" groups without findings")
    for row in json.loads(check("-o", "json").out)["data"]:
        (line,) = [line for line in table.splitlines() if row["reason"] in line]
        assert {row["group_id"], row["code"], row["severity"]} <= set(line.split())
        assert row["path"] in line
        assert rest.count(Rule(row["code"]).sentence) == 1
        assert row["advice"] in rest
        assert row["advice"] not in table
    assert "What to do" not in check("-o", form).out


def test_groups_may_be_named(check: Any) -> None:
    sound = check("billing", "web")
    assert (sound.status, sound.out) == (0, "2 groups without findings\n")
    assert sound.err == NO_KAFKA
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


def test_commands_about_the_past_name_the_cluster_if_there_are_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(engine: object, evidence: object, cluster: object) -> Past:
        return Past((), notes=tuple(reaching(Reach.RECORDS)))

    monkeypatch.setattr(past_check, "look_back", answer)
    evidence: Any = SimpleNamespace(cluster=SimpleNamespace(cluster_id="east"))
    for cluster, words in (("east", []), ("west", ["--cluster", "east"])):
        build(tmp_path, SAMPLE, cluster=cluster)
        with check_command._past(Source(), tmp_path, None, None, at_once=True) as look_back:
            assert look_back is not None
            assert [*look_back(evidence).notes] == ["--warehouse", str(tmp_path), *words]
