"""Questions about the past that read a source instead of a warehouse, or both."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import InputError
from kgroup.history.build import recorded
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.history.builds import RECORDED, build
from tests.history.log_copy import read_log, write_log
from tests.history.past_log import LOGS
from tests.history.recorded import Built

AT = "2026-11-29T19:51:33Z"
QUESTIONS = [
    ("rebalances", "GROUP"),
    ("timeline", "GROUP"),
    ("commits", "GROUP"),
    ("storms", "GROUP", "--rate", "2/1h"),
    ("as-of", AT, "GROUP"),
    ("owner", "orders", "1", "--at", AT, "--group", "GROUP"),
]
GROUPS = ("order-service", "pricing", "order-totals", "payment-service")


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question[0])
def test_a_source_gives_the_answers_of_a_warehouse(
    cli: Cli, recorded_warehouse: Built, question: tuple[str, ...]
) -> None:
    root = str(recorded_warehouse(sample_log_dir()))
    for group_id in GROUPS:
        args = ["history", *(group_id if word == "GROUP" else word for word in question)]
        stored = cli(*args, "--warehouse", root, "--cluster", "c", "-o", "json")
        read = cli(*args, "--log-dir", str(sample_log_dir()), "--cluster", "c", "-o", "json")
        assert (read.status, read.out) == (stored.status, stored.out)
        if group_id != GROUPS[0]:
            continue
        # the sample has an id, which is the name of its cluster
        assert json.loads(cli(*args, "--sample", "-o", "json").out)["data"] == [
            row | {"cluster": "a2dyb3VwLXRlc3RzLTAwMQ"} if "cluster" in row else row
            for row in json.loads(read.out)["data"]
        ]


@pytest.mark.slow
@pytest.mark.parametrize("recorded", LOGS, ids=lambda path: path.name)
def test_a_check_finds_in_a_log_what_it_finds_in_its_warehouse(
    cli: Cli, recorded_warehouse: Built, recorded: Path
) -> None:
    """With limits so low that nearly every group has findings."""
    source = ("--log-dir", str(recorded), "--limit", "rebalances=2,generations=1", "-o", "json")
    stored = ("--warehouse", str(recorded_warehouse(recorded)), "--log-budget", "0")
    listed = cli("list", "--log-dir", str(recorded), "--no-lag", "-o", "json")
    groups = [row["group_id"] for row in json.loads(listed.out)["data"]]
    seen = 0
    for group_id in groups[:5]:
        rows = []
        for past in ((), stored):
            result = cli("check", *source, *past, "--", group_id)
            assert result.status in (0, 4, 5), result.err
            rows.append([without_source(row) for row in json.loads(result.out)["data"]])
            seen += any(row["evidence"] for row in rows[-1])
        assert rows[0] == rows[1], group_id
    assert bool(seen) is (recorded.name not in ("kafka-0.9.0.1", "compacted-4.3.1")), "no times"


def without_source(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out where the records of a finding come from, and from when to when there are any."""
    others = ("basis", "commands", "evidence_from_ms", "evidence_to_ms")
    return {key: value for key, value in row.items() if key not in others}


@pytest.mark.slow
@pytest.mark.parametrize("recorded", RECORDED[:6:2], ids=lambda path: path.name)
def test_a_source_continues_a_warehouse(cli: Cli, tmp_path: Path, recorded: Path) -> None:
    log = read_log(recorded)
    write_log(tmp_path / "begun", {number: log[number][: len(log[number]) // 2] for number in log})
    build(tmp_path / "begun-warehouse", tmp_path / "begun")
    build(tmp_path / "whole", recorded)
    before = sorted((tmp_path / "begun-warehouse").rglob("*"))
    source = ("--from", str(recorded), "--cluster", "c", "-o", "json")
    for question in ("rebalances", "storms"):
        whole = cli("history", question, "--warehouse", str(tmp_path / "whole"), "-o", "json")
        warehouse = ("--warehouse", str(tmp_path / "begun-warehouse"))
        assert cli("history", question, *warehouse, *source).out == whole.out
        assert json.loads(whole.out)["data"] or question == "storms"
    assert sorted((tmp_path / "begun-warehouse").rglob("*")) == before


@pytest.mark.slow
def test_the_part_of_a_log_that_is_there_invents_no_cause(cli: Cli, tmp_path: Path) -> None:
    """Without the records before, a cause is that of the whole log, or unknown."""
    recorded = sample_log_dir()
    log = read_log(recorded)
    args = ("history", "rebalances", "--cluster", "c", "-o", "json", "--from")
    whole = {
        (row["group_id"], row["generation_id"]): row
        for row in json.loads(cli(*args, str(recorded)).out)["data"]
    }
    seen = 0
    for part in (3, 2):
        kept = {number: batches[len(batches) // part :] for number, batches in log.items()}
        write_log(tmp_path / str(part), kept)
        for row in json.loads(cli(*args, str(tmp_path / str(part))).out)["data"]:
            other = whole[row["group_id"], row["generation_id"]]
            seen += 1
            causes = {other["cause"], "unknown"}
            if other["cause"] == "polled_late":
                causes.add("joined")  # what it did before is not known
            assert row["cause"] in causes
            if (
                row["group_type"] == "classic"
            ):  # its records are whole, those of others tell changes
                assert row["members"] == other["members"]
            if row["members_before"] is None:
                assert row["cause"] == "unknown"
    assert seen > 20


def test_lag_has_the_log_ends_of_the_source(cli: Cli) -> None:
    args = ("--sample", "-o", "json")
    described = json.loads(cli("describe", "ledger", *args).out)["data"][0]["offsets"]
    (*rows,) = json.loads(cli("history", "lag", "ledger", *args).out)["data"]
    assert [(row["partition"], row["lag"]) for row in rows] == [
        (row["partition"], row["lag"]) for row in described
    ]
    assert all(row["lag"] for row in rows)


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("lag", "ledgr", "--sample"), 3, "did you mean 'ledger'? To list the groups, run: kgroup"),
        (("lag", "ledger"), 2, "no records given: use --bootstrap-server HOST:PORT or --profile"),
        (("lag", "ledger", "--sample", "--from", "."), 2, "--from and another source are two"),
        (("lag", "ledger", "-b", "x:1", "--sample"), 2, "(a cluster) and --sample are two sources"),
        (("owner", "a-b-3", "--sample"), 2, "Missing argument 'PARTITION'. Did you mean a-b 3?"),
        (("owner", "orders", "--sample"), 2, "Missing argument 'PARTITION'.\n"),
        (
            ("stream", "--sample", "--to", "w"),
            2,
            "stream reads a cluster (-b, -C); 'kgroup history",
        ),
        (("lag", "ledger", "--from", "nowhere"), 1, "nowhere: "),
        (("lag", "ledger", "-b", "127.0.0.1:1", "--timeout", "1"), 1, "127.0.0.1:1"),
        (("storms", "--sample", "--log-budget", "0"), 2, "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_asked(cli: Cli, args: tuple[str, ...], status: int, words: str) -> None:
    result = cli("history", *args)
    assert (result.status, result.out) == (status, "")
    assert words in result.err


@pytest.mark.parametrize("group", [("billing",), ()], ids=["one group", "all groups"])
def test_a_cluster_continues_a_warehouse_without_a_gap(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, recorded_warehouse: Built, group: tuple[str, ...]
) -> None:
    """Alone it is read for a day; a warehouse may have ended long before."""
    asked: list[int | None] = []

    def build_from_recent(*_: object, since_ms: int | None, **__: object) -> None:
        asked.append(since_ms)
        raise InputError("that is enough")

    monkeypatch.setattr(recorded, "build_from_recent", build_from_recent)
    root = str(recorded_warehouse(sample_log_dir()))
    line = ("history", "rebalances", *group, "-b", "127.0.0.1:1")
    since = time.time_ns() // 1_000_000 - 24 * 3_600_000
    for args in ((), ("--warehouse", root), ("--warehouse", root, "--since", "1795000000000")):
        assert "that is enough" in cli(*line, *args).err
    (of_day, *others) = asked
    assert of_day is not None
    assert since <= of_day <= since + 60_000
    assert others == [None, 1795000000000]


def test_damage_of_a_source_is_not_said_to_be_in_a_warehouse(cli: Cli, tmp_path: Path) -> None:
    """The tables of the question are gone when it has been answered."""
    damaged = Path(__file__).parents[1] / "data/damaged/v2-cut-in-body"
    result = cli("history", "rebalances", "--log-dir", damaged)
    assert result.status == 4
    assert "torn-tail: Expected a batch of 292 bytes" in result.err
    assert "--warehouse" not in result.err
    root = tmp_path / "warehouse"
    cli("history", "build", "--from", damaged, "--to", root, "--cluster", "c")
    both = cli("history", "rebalances", "--warehouse", root, "--cluster", "c", "--sample")
    command = f"kgroup history sql 'SELECT * FROM damage' --warehouse {root} --cluster c\n"
    assert both.err.startswith("kgroup: note: records may be missing: 1 problem with the ")
    assert command in both.err


def test_a_warehouse_may_have_a_relative_path(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("history", "build", "--sample", "--to", "w").status == 0
    asked = cli("history", "rebalances", "order-service", "--sample", "--warehouse", "w")
    assert (asked.status, "order-service" in asked.out) == (0, True), asked.err


def test_pauses_that_are_too_short_to_be_listed_are_noted(cli: Cli) -> None:
    args = ("history", "commits", "billing", "--sample")
    rows = csv.DictReader(io.StringIO(cli(*args, "-o", "csv").out))
    longest = max(int(row["longest_pause_ms"] or 0) for row in rows)
    listed = cli(*args, "--longer-than", f"{(longest - 1) // 1000}s")
    assert "No pause is longer" not in listed.err
    short = cli(*args, "--longer-than", f"{-(-longest // 1000)}s")
    assert "(--longer-than); the longest is " in short.err
    assert "No pause is longer" not in cli(*args, "--jumps").err
