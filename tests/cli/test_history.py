"""The commands of `kgroup history` that ask: options, forms and exit statuses."""

from __future__ import annotations

import importlib.util
import json
import re
import resource
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from kgroup.cli.command import history
from kgroup.cli.main import status_of
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.columnar.log_writer import Plain, batch
from tests.examples import some_of
from tests.history.builds import build
from tests.history.owner_story import STORY, T, generation, interval
from tests.history.recorded import Built, log_of, time_of
from tests.history.warehouse_files import make_warehouse
from tests.operation.log_files import Log, commit, group_metadata, tombstone


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = {
        "assignments": STORY,
        "group_generations": [generation(5), generation(90)],
        "offset_commits": [
            generation(second)
            | {"topic": "orders", "partition": 3, "committed_offset": offset, "log_offset": second}
            for second, offset in ((100, 10), (420, 50), (430, 20))
        ],
    }
    other = {
        "assignments": [interval("z", 0, None, group_id="only-west", partition=5)],
        "group_generations": [generation(0), generation(0, "only-west")],
    }
    root = tmp_path_factory.mktemp("history") / "warehouse"
    return str(make_warehouse(root, {"east": rows, "west": other}))


@pytest.mark.slow
def test_owner_as_a_table_and_as_json(cli: Cli, warehouse: str) -> None:
    args = ("history", "owner", "--warehouse", warehouse, "orders", "3", "--at", str(T + 20_000))
    result = cli(*args)
    assert result.status == 0
    head, row = result.out.splitlines()
    assert head.split()[:5] == ["cluster", "group_id", "topic", "partition", "status"]
    assert row.split()[:6] == ["east", "g", "orders", "3", "owned", "b"]
    assert "2023-11-14T22:13:40.000Z" in row
    document = json.loads(cli(*args, "-o", "json").out)
    assert (document["command"], document["errors"]) == ("history owner", [])
    (data,) = document["data"]
    assert data | {"member_id": "b", "since_ms": T + 20_000, "reason": None} == data
    columns = cli(*args, "-o", "csv", "--columns", "member_id,until", "--no-headers").out
    assert columns == f"b,{T + 30_000}\n"


def test_owner_is_the_one_of_now(cli: Cli, warehouse: str) -> None:
    args = ("history", "owner", "--warehouse", warehouse, "orders", "3")
    result = cli(*args)
    assert result.status == 0
    assert result.out == cli(*args, "--at", "now").out


def test_owner_over_time(cli: Cli, warehouse: str) -> None:
    result = cli(
        *("history", "owner", "--warehouse", warehouse, "orders", "3", "-o", "jsonl"),
        *("--between", str(T + 25_000), "2023-11-14T22:14:05Z"),
    )
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["status"] for row in rows] == ["owned", "nobody", "owned"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "status", "reason"),
    [
        (("owner", "orders", "3", "--at", "1d", "--between", "2d", "1d"), 2, "choose one of them"),
        (("owner", "orders", "3", "--between", "2h", "3h"), 2, "the earlier time first"),
        (("owner", "orders", "3", "--at", "tomorrow"), 2, "'tomorrow' is not a time"),
        (("owner", "payments", "3", "--at", "1d"), 3, "'payments' is not in the records; choose"),
        (("owner", "oders", "3", "--at", "1d"), 3, "did you mean 'orders'?"),
        (("owner", "orders", "9", "--at", "1d"), 3, "owned partition 9 of topic orders; the high"),
        (("owner", "orders", "3", "--at", "1d", "--cluster", "north"), 3, "are: east, west"),
        (("timeline", "g"), 2, "in several clusters: east, west; choose one with --cluster"),
        (("timeline", "h"), 3, "group 'h' is not in the records. To list the groups"),
        (("lag", "only-wets"), 3, "'only-wets' is not in the records; did you mean 'only-west'?"),
        (("lag", "h", "--cluster", "west"), 3, "'h' is not in the records of cluster west."),
        (("timeline", "only-west", "--topic", "ordres"), 3, "did you mean 'orders'?"),
        (("commits", "only-west", "--topic", "x"), 3, "'x' is not in the records of cluster west"),
        (("lag", "only-west", "--topic", "x"), 3, "choose one of orders\n"),
        (("timeline", "g\udcff"), 2, r"expected UTF-8, found 'g\udcff'"),
        (("owner", "t\udcff", "0", "--at", "now"), 2, r"expected UTF-8, found 't\udcff'"),
        (("sql", "SELECT '\udcff'"), 2, "expected UTF-8"),
        (("show", "--groups", "--partitions"), 2, "choose one of them"),
        (
            ("sql", "SELECT * FROM nothing"),
            2,
            "no table nothing; the tables are: offset_commits, group_",
        ),
        (("sql", "SELECT"), 2, "without selection list"),
        (("sql", "SELECT * FROM commits"), 2, "try 'kgroup history sql --help'"),
        (("sql", "SELECT 1 AS a, 2 AS a"), 2, "two columns are called a"),
        (("sql", "DROP TABLE members"), 2, "expected one query"),
    ],
)
def test_what_cannot_be_answered(
    cli: Cli, warehouse: str, args: tuple[str, ...], status: int, reason: str
) -> None:
    result = cli("history", *args, "--warehouse", warehouse)
    assert (result.status, result.out) == (status, "")
    assert reason in result.err
    assert "Traceback" not in result.err


@pytest.mark.slow
@pytest.mark.parametrize("question", ["timeline", "commits", "lag"])
def test_a_topic_that_is_not_there_is_a_document_too(
    cli: Cli, warehouse: str, question: str
) -> None:
    args = ("history", question, "only-west", "--warehouse", warehouse, "-o", "json")
    result = cli(*args, "--topic", "ordrs")
    assert result.status == 3
    document = json.loads(result.out)
    assert (document["command"], document["data"]) == (f"history {question}", [])
    (error,) = document["errors"]
    assert (error["kind"], error["topic"]) == ("not-found", "ordrs")
    result = cli(*args, "--topic", "orders", "--until", "2001-01-01")
    assert (result.status, json.loads(result.out)["errors"]) == (0, [])


def test_warehouse_comes_from_the_environment(
    cli: Cli, warehouse: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "--warehouse" in cli("history", "timeline", "g").err
    monkeypatch.setenv("KGROUP_WAREHOUSE", warehouse)
    result = cli("history", "timeline", "g", "--cluster", "east", "-o", "jsonl")
    assert len(result.out.splitlines()) == len(STORY)
    monkeypatch.setenv("KGROUP_WAREHOUSE", str(tmp_path))
    result = cli("history", "timeline", "g", "-o", "json")
    assert result.status == 1
    assert "expected a warehouse, found an empty folder" in result.err
    assert json.loads(result.out)["errors"][0]["kind"] == "unreadable"
    monkeypatch.setenv("KGROUP_WAREHOUSE", "hdfs://bucket/w")
    result = cli("history", "timeline", "g")
    assert result.status == 2
    assert "hdfs://bucket/w: expected the folder of a warehouse" in result.err


def test_one_cluster_needs_no_choice(cli: Cli, warehouse: str) -> None:
    args = ("--warehouse", warehouse, "-o", "jsonl")
    result = cli("history", "timeline", "only-west", *args)
    assert json.loads(result.out)["cluster"] == "west"
    result = cli("history", "owner", "orders", "5", "--at", "1h", *args)
    assert json.loads(result.out)["group_id"] == "only-west"
    assert "later records, if any, are unknown" in result.err


@pytest.mark.slow
def test_sql_in_every_form(cli: Cli, warehouse: str) -> None:
    query = (
        "SELECT member_id, from_ms, to_ms - from_ms AS length_ms, NULL AS nothing, "
        "CAST(1 AS DECIMAL(38, 0)) AS whole, 0.5 AS half, [1, 2] AS many, {'a': date} AS one "
        "FROM assignments WHERE cluster = 'east' ORDER BY from_ms LIMIT 1"
    )
    args = ("history", "sql", "--warehouse", warehouse, query)
    begin = T + 10_000
    expected = {
        "member_id": "a",
        "from_ms": begin,
        "length_ms": 10_000,
        "nothing": None,
        "whole": 1,
        "half": 0.5,
        "many": [1, 2],
        "one": {"a": "2023-11-14"},
    }
    document = json.loads(cli(*args, "-o", "json").out)
    assert document == {
        "command": "history sql",
        "schema_version": 1,
        "data": [expected],
        "errors": [],
    }
    assert json.loads(cli(*args, "-o", "jsonl").out) == expected
    lines = cli(*args, "-o", "tsv").out.splitlines()
    assert lines[0].split("\t") == list(expected)
    assert lines[1].split("\t")[:3] == ["a", str(begin), "10000"]
    table = cli(*args).out.splitlines()
    assert table[0].split() == [name.removesuffix("_ms") for name in expected]
    assert table[1].split()[:2] == ["a", "2023-11-14T22:13:30.000Z"]
    assert "10 s" in table[1]
    assert "'2023-11-14'" not in table[1]


def test_values_that_json_does_not_have(cli: Cli, warehouse: str) -> None:
    query = (
        "SELECT CAST('a~' AS BLOB) AS b, CAST('nan' AS DOUBLE) AS n, [CAST('inf' AS DOUBLE)] AS i, "
        "TIME '01:02:03' AS t, CAST(1.50 AS DECIMAL(9, 2)) AS d, "
        "CAST('7c0f5a0e-0000-4000-8000-000000000001' AS UUID) AS u"
    )
    result = cli("history", "sql", "--warehouse", warehouse, query, "-o", "jsonl")
    assert json.loads(result.out) == {
        "b": "YX4=",
        "n": None,
        "i": [None],
        "t": "01:02:03",
        "d": 1.5,
        "u": "7c0f5a0e-0000-4000-8000-000000000001",
    }
    columns = cli("history", "sql", "--warehouse", warehouse, query, "-o", "csv", "--no-headers")
    assert columns.out.startswith("YX4=,,[null],01:02:03,1.5,")


def test_sql_without_rows_has_its_columns(cli: Cli, warehouse: str) -> None:
    result = cli("history", "sql", "--warehouse", warehouse, "SELECT * FROM damage")
    assert result.status == 0
    assert len(result.out.splitlines()) == 1
    assert result.out.split()[0] == "offsets_partition"


def test_cluster_that_is_named_is_all_that_sql_sees(cli: Cli, warehouse: str) -> None:
    query = "SELECT DISTINCT cluster FROM group_generations"
    args = ("history", "sql", "--warehouse", warehouse, query, "--no-headers")
    assert cli(*args, "--cluster", "west").out == "west\n"


def test_name_of_a_cluster_is_utf8_whatever_the_locale(cli: Cli, tmp_path: Path) -> None:
    root = make_warehouse(tmp_path / "w", {"é": {"group_generations": [generation(0)]}})
    args = ("history", "show", "--groups", "--warehouse", root, "-o", "jsonl")
    result = cli(*args, "--cluster", "é".encode().decode("ascii", "surrogateescape"))
    assert json.loads(result.out)["cluster"] == "é"


def test_missing_engine_is_said(cli: Cli, warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    result = cli("history", "sql", "--warehouse", warehouse, "SELECT 1", "--engine", "duckdb")
    assert result.status == 1
    assert "install the extra [history] (docs/install.md)" in result.err


@pytest.mark.slow
def test_ids_that_are_not_utf8_are_as_kafka_shows_them(cli: Cli, tmp_path: Path) -> None:
    def in_bytes(record: Plain) -> Plain:
        assert record.key is not None
        return replace(record, key=record.key.replace(b"XX", b"\xff\xfe"))

    records = [
        commit(0, "gXX", "tXX", committed=7, time_ms=T),
        group_metadata(1, "gXX", generation=3, time_ms=T + 1),
        tombstone(2, "gXX", "uXX", time_ms=T + 2),
    ]
    (tmp_path / "log").mkdir()
    Log(tmp_path / "log").add(0, batch([in_bytes(record) for record in records]), partition=1)
    built = cli(
        "history", "build", "--from", tmp_path / "log", "--to", tmp_path / "w", "--cluster", "c"
    )
    assert built.status == 0
    args = ("--warehouse", tmp_path / "w", "-o", "jsonl")
    (group,) = (
        json.loads(line) for line in cli("history", "show", "--groups", *args).out.splitlines()
    )
    assert group | {"group_id": "g\ufffd\ufffd", "record_count": 3} == group
    then = json.loads(cli("history", "as-of", "now", group["group_id"], *args).out)
    assert [(offset["topic"], offset["committed_offset"]) for offset in then["offsets"]] == [
        ("t\ufffd\ufffd", 7)
    ]


# --- as-of, on recorded groups -------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample(recorded_warehouse: Built) -> str:
    return str(recorded_warehouse(sample_log_dir()))


END_MS = 1_790_000_000_000 + 10**12


@pytest.mark.slow
@pytest.mark.parametrize("sections", [(), ("--state",), ("--members", "--offsets")])
def test_as_of_the_end_says_what_describe_says(
    cli: Cli, sample: str, sections: tuple[str, ...]
) -> None:
    described = cli("describe", "--sample", "order-service", *sections)
    found = cli("history", "as-of", "--warehouse", sample, END_MS, "order-service", *sections)
    assert found.status == described.status == 0
    # The ends of the logs are in the sample, but not in the tables; and ages are as of then.
    ours, theirs = (result.out.splitlines() for result in (found, described))
    assert ours[0].split("  ")[:3] == theirs[0].split("  ")[:3]
    if "--state" in sections:
        assert [line.partition(" for ")[0] for line in ours[1:]] == [
            line.partition(" for ")[0] for line in theirs[1:]
        ]
    assert "later records, if any, are unknown" in found.err


@pytest.mark.slow
def test_as_of_the_end_has_what_describe_has(cli: Cli, sample: str) -> None:
    args = ("history", "as-of", "--warehouse", sample, END_MS, "order-service")
    ours = json.loads(cli(*args, "-o", "jsonl").out)
    theirs = json.loads(cli("describe", "--sample", "order-service", "-o", "jsonl").out)
    assert (ours.pop("cluster"), ours.pop("time_ms")) == ("c", END_MS)
    assert ours.keys() == theirs.keys()
    names = ("log_end_offset", "lag", "waiting", "log_start_offset", "mark")
    unknown = dict.fromkeys(names)
    theirs["offsets"] = [offset | unknown for offset in theirs["offsets"]]
    ours["offsets"] = [offset | unknown for offset in ours["offsets"]]
    assert ours | {"total_lag": None} == theirs | {"total_lag": None}


@pytest.mark.slow
def test_owner_tells_in_order_how_far_partitions_are_known(cli: Cli, sample: str) -> None:
    result = cli("history", "owner", "--warehouse", sample, "orders", "2", "--at", "now")
    numbers = [line.split()[5] for line in result.err.splitlines()]
    assert numbers == ["1", "2", "6"], result.err
    assert all(
        "of __consumer_offsets in cluster c are known" in line for line in result.err.splitlines()
    )


def test_as_of_names_its_time(cli: Cli, sample: str) -> None:
    for time, note in (
        ("2026-11-29T19:51:23Z", "Group 'order-service' as of 2026-11-29T19:51:23.000Z."),
        ("1790000000000", None),
        ("2999-01-01", " as of 2999-01-01T00:00:00.000Z, which is in the future: it may have"),
    ):
        result = cli("history", "as-of", "--warehouse", sample, time, "order-service")
        assert result.status == (3 if note is None else 0)
        assert note is None or note in result.err
    swapped = cli("history", "as-of", "--warehouse", sample, "order-service", "now")
    assert (swapped.status, "The time comes first, then the group" in swapped.err) == (2, True)
    assert "future" not in cli("history", "as-of", "--warehouse", sample, "now", "ledger").err


def test_what_found_nothing_says_so(cli: Cli, sample: str) -> None:
    where = ("--warehouse", sample)
    storms = cli("history", "storms", *where, "order-service", "--rate", "50/90s")
    note = "kgroup: note: No storm: no 50 rebalances of a group within 90 seconds are recorded.\n"
    assert (storms.status, storms.out, storms.err) == (0, "", note)
    ages = ("--at", "2026-11-29T19:52:15Z", "--for", "10d", "--expiring", "1s")
    stale = cli("history", "stale", *where, *ages)
    assert (stale.status, stale.out) == (0, "")
    assert stale.err == (
        "kgroup: note: No offset is known to have been without a commit for 10 days, or to "
        "expire within 1 second.\n"
    )
    for command in (["storms", "--rate", "50/90s"], ["stale", *ages]):
        document = json.loads(cli("history", *command, *where, "-o", "json").out)
        assert document["data"] == []


def test_as_of_a_time_before_the_group(cli: Cli, sample: str) -> None:
    result = cli("history", "as-of", "--warehouse", sample, "2001-01-01", "order-service")
    assert (result.status, result.out) == (3, "")
    assert "its first record is from 20" in result.err


def test_sections_of_as_of_are_those_of_describe(cli: Cli, sample: str) -> None:
    args = ("history", "as-of", "--warehouse", sample, "now", "order-service")
    result = cli(*args, "--members", "--offsets", "-o", "csv")
    assert (result.status, result.out) == (2, "")
    result = cli(*args, "--members", "-o", "csv", "--columns", "member_id,client_id")
    assert result.out.splitlines()[0] == "member_id,client_id"


# --- commits, on recorded groups -----------------------------------------------------------------


@pytest.mark.slow
def test_commits_as_page_and_as_columns(cli: Cli, warehouse: str) -> None:
    args = ("history", "commits", "--warehouse", warehouse, "g", "--cluster", "east")
    page = cli(*args).out
    first, *rest = page.split("\n\n")
    assert [line.split()[2:5] for line in first.splitlines()[1:]] == [["orders", "3", "3"]]
    assert [part.splitlines()[0] for part in rest] == ["Pauses", "Backward jumps"]
    assert "5 min 20 s" in rest[0]
    jumps = cli(*args, "--jumps", "-o", "csv", "--columns", "from_offset,to_offset,member_id").out
    assert jumps.splitlines() == ["from_offset,to_offset,member_id", "50,20,"]
    for part in ("--pauses", "--jumps"):
        head, row = cli(*args, part, "-o", "csv").out.splitlines()
        assert (head.split(",")[:2], row.split(",")[:2]) == (["cluster", "group_id"], ["east", "g"])
    pauses = cli(*args, "--pauses", "--longer-than", "6m", "-o", "tsv", "--no-headers").out
    assert pauses == ""
    result = cli(*args, "--pauses", "--jumps")
    assert (result.status, result.out) == (2, "")
    (row,) = (json.loads(line) for line in cli(*args, "-o", "jsonl").out.splitlines())
    assert (row["commit_count"], len(row["jumps"]), len(row["pauses"])) == (3, 1, 1)


def test_length_of_time_that_is_none(cli: Cli, warehouse: str) -> None:
    result = cli("history", "commits", "--warehouse", warehouse, "g", "--longer-than", "soon")
    assert result.status == 2
    assert "'soon' is not a duration" in result.err


def test_since_and_until_may_be_one_instant(cli: Cli, warehouse: str) -> None:
    instant = ("--since", str(T + 20_000), "--until", str(T + 20_000))
    result = cli(
        *("history", "timeline", "g", "--cluster", "east", "--warehouse", warehouse, *instant),
        *("-o", "csv", "--columns", "member_id", "--no-headers"),
    )
    assert (result.status, result.out) == (0, "b\n")


@pytest.mark.parametrize("question", ["timeline", "commits", "lag", "rebalances"])
def test_an_end_before_the_begin_is_wrong_usage(cli: Cli, warehouse: str, question: str) -> None:
    args = ("history", question, "--warehouse", warehouse, "--cluster", "east", "g")
    result = cli(*args, "--since", "now", "--until", "2h")
    assert (result.status, result.out) == (2, "")
    assert "--since must be earlier than --until" in result.err


# --- lag -----------------------------------------------------------------------------------------


def test_lag_from_a_snapshot_is_that_of_describe(cli: Cli, sample: str, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    assert cli("snapshot", "--sample", "--all", "-f", file).status == 0
    args = ("history", "lag", "--warehouse", sample, "order-service", "--snapshot", file)
    result = cli(*args, "-o", "jsonl")
    described = json.loads(cli("describe", "--sample", "order-service", "-o", "jsonl").out)
    names = ("topic", "partition", "committed_offset", "log_end_offset", "lag")
    assert [[json.loads(line)[name] for name in names] for line in result.out.splitlines()] == [
        [offset[name] for name in names]
        for offset in described["offsets"]
        if offset["committed_offset"] is not None
    ]
    result = cli(*args[:-2], "-o", "csv", "--columns", "lag", "--no-headers")
    assert set(result.out.split()) <= {""}
    assert "they come from builds" in result.err
    assert cli(*args, "--at", "now", "--since", "1d").status == 2


# --- show ----------------------------------------------------------------------------------------


def test_what_a_warehouse_has(cli: Cli, sample: str, warehouse: str) -> None:
    log = log_of(sample_log_dir())
    times = [time_of(record) for records in log.values() for record in records]
    known = [time for time in times if time is not None]
    (row,) = (
        json.loads(line)
        for line in cli("history", "show", "--warehouse", sample, "-o", "jsonl").out.splitlines()
    )
    assert (row["cluster"], row["build"], row["damage_count"]) == ("c", 1, 0)
    assert (row["first_ms"], row["last_ms"]) == (min(known), max(known))
    assert row["record_count"] == sum(map(len, log.values()))
    assert [
        (each["offsets_partition"], each["first_offset"], each["last_offset"])
        for each in row["partitions"]
        if each["record_count"]
    ] == [
        (partition, records[0].offset, records[-1].offset)
        for partition, records in sorted(log.items())
        if records
    ]
    table = cli("history", "show", "--warehouse", warehouse).out.splitlines()
    assert [line.split()[0] for line in table[1:]] == ["east", "west"]
    result = cli("history", "show", "--warehouse", sample, "--partitions", "-o", "csv")
    assert len(result.out.splitlines()) == 1 + len(row["partitions"])


def test_what_of_a_compacted_and_damaged_log_is_missing(cli: Cli, tmp_path: Path) -> None:
    kept = [commit(offset, "g", time_ms=T + offset) for offset in (3, 4, 7)]
    (tmp_path / "log").mkdir()
    whole = batch(kept[:2])
    Log(tmp_path / "log").add(0, whole, b"\xff" * 70, batch(kept[2:]), partition=4)
    places = ("--from", tmp_path / "log", "--to", tmp_path / "w", "--cluster", "c")
    assert cli("history", "build", *places).status == 4
    result = cli("history", "show", "--warehouse", tmp_path / "w", "-o", "jsonl")
    row = json.loads(result.out)
    (part,) = row["partitions"]
    assert (part["record_count"], part["first_offset"], part["last_offset"]) == (3, 3, 7)
    assert (part["missing_count"], part["damage_count"], row["damage_count"]) == (2, 1, 1)
    assert (part["first_ms"], part["last_ms"]) == (T + 3, T + 7)
    result = cli("history", "commits", "--warehouse", tmp_path / "w", "g")
    assert result.status == 0
    assert result.err.startswith("kgroup: note: records may be missing: 1 problem with the")


@pytest.mark.slow
@pytest.mark.parametrize(("named", "there"), [((), 3), (("--cluster", "west"), 2)])
@pytest.mark.parametrize("question", [("lag",), ("as-of", "now"), ("rebalances",)])
def test_the_command_that_lists_groups_can_be_pasted(
    cli: Cli, warehouse: str, question: tuple[str, ...], named: tuple[str, ...], there: int
) -> None:
    result = cli("history", *question, "only-wets", "--warehouse", warehouse, *named)
    assert result.status == 3
    program, *args = shlex.split(result.err.partition("'only-west'? To list the groups, run: ")[2])
    assert program == "kgroup"
    told = cli(*args, "-o", "jsonl")
    assert (told.status, len(told.out.splitlines())) == (0, there)


@pytest.mark.slow
@pytest.mark.parametrize("named", [(), ("--cluster", "it's")])
def test_the_command_that_tells_of_damage_can_be_pasted(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    (tmp_path / "log").mkdir()
    Log(tmp_path / "log").add(0, batch([commit(3, "g", time_ms=T)]), b"\xff" * 70, partition=4)
    root = tmp_path / "my warehouse"
    built = cli("history", "build", "--from", tmp_path / "log", "--to", root, "--cluster", "it's")
    assert built.status == 4
    monkeypatch.setenv("KGROUP_WAREHOUSE", str(root))
    note = cli("history", "commits", "g", *named).err
    monkeypatch.delenv("KGROUP_WAREHOUSE")
    program, *args = shlex.split(note.partition("to list them, run: ")[2])
    assert program == "kgroup"
    told = cli(*args, "-o", "jsonl")
    assert (told.status, told.err) == (0, note)
    (damage,) = map(json.loads, told.out.splitlines())
    assert (damage["offsets_partition"], damage["kind"]) == (4, "garbage")


def test_rebalances_are_a_table_for_each_group(cli: Cli, sample: str) -> None:
    rows = json.loads(cli("history", "rebalances", "--warehouse", sample, "-o", "json").out)
    groups = list(dict.fromkeys(row["group_id"] for row in rows["data"]))
    assert len(groups) > 4
    tables = cli("history", "rebalances", "--warehouse", sample).out.split("\n\n")
    assert [table.split(" (")[0] for table in tables] == groups
    for group, table in zip(groups, tables, strict=True):
        title, head, *lines = table.splitlines()
        of_group = [row for row in rows["data"] if row["group_id"] == group]
        types = ", then ".join(dict.fromkeys(row["group_type"] for row in of_group))
        assert title == f"{group} ({types}, cluster {of_group[0]['cluster']})"
        assert head.split()[:2] == ["time", "generation_id"]
        assert head.split()[-3:] == ["cause", "certainty", "evidence"]
        assert [line.split()[1] for line in lines] == [
            str(row["generation_id"]) for row in of_group
        ]
    one = cli("history", "rebalances", "--warehouse", sample, "--columns", "group_id,cause").out
    assert [line.split()[0] for line in one.splitlines()[1:]] == [
        r["group_id"] for r in rows["data"]
    ]


@pytest.mark.slow
def test_which_groups_a_warehouse_has(cli: Cli, sample: str, warehouse: str) -> None:
    records = defaultdict(list)
    for record in (record for of_log in log_of(sample_log_dir()).values() for record in of_log):
        if record.key is not None and not record.type.startswith("Control"):
            key = record.key["data"]
            records[key.get("group", key.get("groupId"))].append(time_of(record))
    result = cli("history", "show", "--warehouse", sample, "--groups", "-o", "jsonl")
    assert [json.loads(line) for line in result.out.splitlines()] == [
        {
            "cluster": "c",
            "group_id": group_id,
            "record_count": len(times),
            "first_ms": min(filter(None, times)),
            "last_ms": max(filter(None, times)),
        }
        for group_id, times in sorted(records.items())
    ]
    args = ("history", "show", "--warehouse", warehouse, "--groups", "--no-headers")
    assert [line.split()[:3] for line in cli(*args).out.splitlines()] == [
        ["east", "g", "5"],
        ["west", "g", "1"],
        ["west", "only-west", "1"],
    ]
    assert cli(*args, "--cluster", "east", "-o", "csv").out.splitlines() == [
        f"east,g,5,{T + 5000},{T + 430_000}"
    ]


# --- stale ---------------------------------------------------------------------------------------


def test_stale_offsets_of_the_sample(cli: Cli, sample: str) -> None:
    args = ("history", "stale", "--warehouse", sample)
    result = cli(*args, "--for", "0s", "-o", "jsonl")
    rows = [json.loads(line) for line in result.out.splitlines()]
    listed = cli("describe", "--sample", "--all", "-o", "jsonl").out.splitlines()
    committed = [
        (group["group_id"], offset["topic"], offset["partition"])
        for group in map(json.loads, listed)
        if group["type"] != "zookeeper"
        for offset in group["offsets"]
        if offset["commit_timestamp_ms"] is not None
    ]
    assert [(row["group_id"], row["topic"], row["partition"]) for row in rows] == committed
    assert {row["group_id"]: (row["group_type"], row["state"]) for row in rows} == {
        group["group_id"]: (group["type"], group["state"])
        for group in map(json.loads, listed)
        if any(group["group_id"] == name for name, _, _ in committed)
    }
    assert "as of its last known record" in result.err
    assert {row["expires_by"] for row in rows} >= {"subscribed", "empty"}
    nothing = cli(*args, "--for", "1000d", "--expiring", "0s", "-o", "csv", "--no-headers")
    assert (nothing.status, nothing.out) == (0, "")


ASKED = ("history", "sql", "SELECT COUNT(*) AS n FROM transactions", "-o", "csv")


def test_without_any_engine_both_extras_are_named(
    cli: Cli, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in ("duckdb", "pyspark") else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    result = cli(*ASKED, "--warehouse", sample)
    assert (result.status, result.out) == (1, "")
    assert "the extra [history] or [spark] (docs/install.md)" in result.err


@pytest.mark.parametrize("option", [("--master", "local[1]"), ("--spark-conf", "spark.x=1")])
def test_settings_of_spark_are_not_for_duckdb(
    cli: Cli, sample: str, option: tuple[str, str]
) -> None:
    result = cli(*ASKED, "--warehouse", sample, "--engine", "duckdb", *option)
    assert (result.status, result.out) == (2, "")
    assert "--master and --spark-conf require --engine spark" in result.err


def test_a_setting_of_spark_asks_for_spark(
    cli: Cli, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.spark.session.is_installed", lambda: False)
    assert cli(*ASKED, "--warehouse", sample).out == "n\n3\n"
    result = cli(*ASKED, "--warehouse", sample, "--spark-conf", "spark.x=1")
    assert (result.status, result.out) == (1, "")
    assert "install the extra [spark] (docs/install.md)" in result.err


@pytest.mark.parametrize("setting", ["=1", "spark.x"])
def test_a_setting_has_a_name_and_a_value(cli: Cli, sample: str, setting: str) -> None:
    result = cli(*ASKED, "--warehouse", sample, "--spark-conf", setting)
    assert (result.status, result.out) == (2, "")
    assert f"expected NAME=VALUE, found '{setting}'" in result.err


@pytest.mark.slow
def test_a_page_with_nothing_on_it_is_said_to_be_so(cli: Cli, tmp_path: Path, sample: str) -> None:
    args = ("history", "report", "--warehouse", sample, "order-service")
    result = cli(*args, "--html", tmp_path / "page.html", "--until", "2020-01-01")
    assert result.status == 0
    assert "'order-service' neither rebalanced nor committed in this period" in result.err
    page = tmp_path / "page.html"
    assert cli(*args, "--html", page).err == f"kgroup: note: page written to {page}\n"


def test_unknown_group_makes_no_file(cli: Cli, tmp_path: Path, sample: str) -> None:
    page = tmp_path / "page.html"
    result = cli("history", "report", "--warehouse", sample, "no-such-group", "--html", page)
    assert (result.status, page.exists()) == (3, False)
    assert "no-such-group" in result.err


@pytest.mark.slow
def test_a_page_needs_a_file_and_room_for_it(cli: Cli, tmp_path: Path, sample: str) -> None:
    args = ("history", "report", "--warehouse", sample, "order-service", "--html")
    result = cli(*args, "-")
    assert result.status == 2
    assert "--html needs the name of a file" in result.err

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))

    page = tmp_path / "page.html"
    full = subprocess.run(
        [sys.executable, "-m", "kgroup", *args, page], capture_output=True, preexec_fn=limit
    )
    assert full.returncode == 1
    assert full.stderr.decode() == f"kgroup: error: {page}: File too large\n"
    assert not list(tmp_path.glob("*.html*"))


PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text("utf-8")
ASKING = PAGE.split("## Asking\n")[1].split("\n## ")[0]
QUESTIONS = (
    *(
        "owner",
        "timeline",
        "commits",
        "rebalances",
        "storms",
        "report",
        "stale",
        "lag",
        "as-of",
        "show",
    ),
    "sql",
)


def help_lines() -> Iterator[str]:
    for name in QUESTIONS:
        epilog = history.command.commands[name].epilog or ""
        yield from (line.strip() for line in epilog.splitlines() if "kgroup " in line)


LINES = sorted({*help_lines(), *re.findall(r"^kgroup .*", ASKING, re.MULTILINE)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    build(folder / "warehouse", sample_log_dir(), cluster="prod")
    assert status_of(["snapshot", "--sample", "--all", "-f", str(folder / "snapshot.json")]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("line", some_of(LINES, 3))
def test_example(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(folder)
    line = line.replace(" billing", " order-service")
    line = re.sub(r" 03:12\b", " 2026-11-29T19:52:00Z", line)
    line = re.sub("-b kafka-1:9092|--log-dir /var/lib/kafka/data", "--sample", line)
    program, *args = shlex.split(line)
    assert program == "kgroup"
    result = cli(*args)
    assert result.status == 0, result.err
    says_why = result.err.startswith("kgroup: note: ")  # instead of a table without rows
    assert result.out or says_why or args[0] == "snapshot" or args[1] == "report"


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_in_the_page(name: str) -> None:
    assert f"### {name}\n" in ASKING
    assert any(line.startswith(f"kgroup history {name} ") for line in LINES)


def test_metrics_of_a_build(cli: Cli, tmp_path: Path) -> None:
    """They are the numbers of the JSON document; the records those of the log."""
    metrics = tmp_path / "build.prom"
    built = ["history", "build", "--sample", "--to", tmp_path / "w", "--cluster", 'c"1']
    for new in (True, False):
        (row,) = json.loads(cli(*built, "--metrics", metrics, "-o", "json").out)["data"]
        records = sum(map(len, log_of(sample_log_dir()).values()))
        assert row["new_record_count"] == (records if new else 0)
        lines = metrics.read_text().splitlines()
        samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        cluster = 'cluster="c\\"1"'
        for name, value in (
            ("records", row["new_record_count"]),
            ("read_bytes", row["bytes_read"]),
            ("segments", row["segments_read"]),
            ("damage", 0),
        ):
            assert samples.pop(f"kgroup_build_{name}{{{cluster}}}") == str(value)
        for table in row["tables"]:
            for name, key in (
                ("new_rows", "new_row_count"),
                ("rows", "row_count"),
                ("files", "file_count"),
                ("file_bytes", "file_bytes"),
            ):
                labels = f'{{{cluster},table="{table["table"]}"}}'
                assert samples.pop(f"kgroup_build_table_{name}{labels}") == str(table[key])
        for stage in ("read", "derive", "merge", "commit"):
            sample = samples.pop(f'kgroup_build_stage_seconds{{stage="{stage}"}}')
            assert float(sample) == row["seconds"][stage] >= 0
        assert (row["seconds"]["commit"] > 0) >= new
        assert samples.pop("kgroup_build_errors") == "0"
        assert float(samples.pop("kgroup_build_timestamp_seconds")) > 1.7e9
        assert not samples


def test_views_for_duckdb(cli: Cli, tmp_path: Path) -> None:
    """They have the rows of the tables, times as timestamps, and the data dictionary."""
    import duckdb

    most_ms = (1 << 63) - 1
    times = [T, -1, most_ms, -most_ms, None, 253_402_300_799_999, 253_402_300_800_000]
    rows: list[dict[str, object]] = [
        {"time_ms": T, "partition": number, "commit_timestamp_ms": ms}
        for number, ms in enumerate(times)
    ]
    root = make_warehouse(tmp_path / "it's", {"c": {"offset_commits": rows}})
    shown = cli("history", "show", "--warehouse", root, "--views")
    assert (shown.status, shown.err) == (0, "")
    views = duckdb.connect()
    views.execute(shown.out)
    found = views.execute(
        "SELECT commit_timestamp_ms, CAST(commit_timestamp AS TEXT) FROM offset_commits "
        "ORDER BY partition"
    )
    assert found.fetchall() == [
        (T, "2023-11-14 22:13:20"),
        (-1, "1969-12-31 23:59:59.999"),
        (most_ms, None),
        (-most_ms, None),
        (None, None),
        (253_402_300_799_999, "9999-12-31 23:59:59.999"),
        (253_402_300_800_000, None),
    ]
    listed = cli("history", "show", "--warehouse", root, "--tables", "-o", "json")
    data = json.loads(listed.out)["data"]
    columns = views.execute(
        "SELECT table_name, column_name, replace(data_type, '\"', ''), comment "
        "FROM duckdb_columns() WHERE data_type <> 'TIMESTAMP' AND NOT internal"
    ).fetchall()
    dictionary = [tuple(row[key] for key in ("table", "column", "type", "meaning")) for row in data]
    assert sorted(columns) == sorted(dictionary)
    for table in {row["table"] for row in data}:
        names = views.execute(f"SELECT * FROM {table}").description
        assert len({name for name, *_ in names}) == len(names)
    assert cli("history", "show", "--warehouse", root, "--views", "-o", "json").status == 2
    assert cli("history", "show", "--warehouse", root, "--views", "--tables").status == 2


@pytest.mark.slow
@pytest.mark.parametrize("words", ["rebalances", "storms --rate 2/1h", "stale --for 1s"])
def test_answers_in_parts_look_the_same_in_every_form(
    words: str, cli: Cli, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of many groups are packed; here those of each group are a part."""
    args = ("history", *words.split(), "--warehouse", sample)
    forms = ("table", "json", "jsonl", "yaml", "csv", "markdown")
    expected = {form: cli(*args, "-o", form) for form in forms}
    assert expected["csv"].out.count("\n") > 3
    monkeypatch.setattr("kgroup.history.rebalance.query._MOST_GROUPS", 1)
    monkeypatch.setattr("kgroup.history.query.stale._MOST_GROUPS", 1)
    monkeypatch.setattr("kgroup.history.sql.engine.FEW_JOBS", 1_000)  # in this process
    assert {form: cli(*args, "-o", form) for form in forms} == expected
