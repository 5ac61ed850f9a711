from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from kgroup.render.group import LIST_COLUMNS
from tests.cli.command_line import Cli

ANSWERS = json.loads((Path(__file__).parents[1] / "data/sample/manifest.json").read_text("utf-8"))[
    "answers"
]
"""What the broker said about the groups of the sample."""


def test_names_types_and_states_are_those_that_the_broker_listed(cli: Cli) -> None:
    result = cli(
        "list", "--sample", "-o", "tsv", "--no-headers", "--columns", "group_id,type,state"
    )
    assert (result.status, result.err) == (0, "")
    listed = {tuple(line.split("\t")) for line in result.out.splitlines()}
    assert listed == {
        (group["group_id"], group["group_type"].lower(), group["group_state"])
        for group in ANSWERS["groups"]
    }


def test_json(cli: Cli) -> None:
    result = cli("list", "--sample", "-o", "json")
    document = json.loads(result.out)
    assert list(document) == ["command", "schema_version", "data", "errors"]
    assert (document["command"], document["schema_version"]) == ("list", 1)
    assert document["errors"] == []
    assert [row["group_id"] for row in document["data"]] == sorted(
        group["group_id"] for group in ANSWERS["groups"]
    )
    assert all(row["coordinator"] is None for row in document["data"])


def test_jsonl_has_the_data_of_json_a_line_each(cli: Cli) -> None:
    lines = cli("list", "--sample", "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == json.loads(
        cli("list", "--sample", "-o", "json").out
    )["data"]


def test_csv_has_every_column(cli: Cli) -> None:
    rows = list(csv.reader(io.StringIO(cli("list", "--sample", "-o", "csv").out)))
    derived = {"worst", "last_commit_age_ms"}  # of other columns: for people
    assert rows[0] == [column.name for column in LIST_COLUMNS if column.name not in derived]
    (order_service,) = [row for row in rows if row[0] == "order-service"]
    assert order_service[:5] == [
        "order-service", "classic", "Stable", "consumer", "cooperative-sticky",
    ]  # fmt: skip
    assert order_service[5] == ""


def test_a_table_has_the_same_columns_for_every_source(cli: Cli) -> None:
    columns = ["group_id", "type", "state", "member_count"]
    lag = ["total_lag", "worst", "last_commit_age"]
    assert cli("list", "--sample").out.splitlines()[0].split() == [*columns, *lag]
    zookeeper = cli("list", "--sample", "--type", "zookeeper").out.splitlines()[0].split()
    assert zookeeper == [*columns, "total_lag", "unknown_count", *lag[1:]]  # returns-1: no leader
    assert cli("list", "--sample", "--no-lag").out.splitlines()[0].split() == columns
    by_time = cli("list", "--sample", "--sort", "-time-lag").out.splitlines()[0].split()
    assert by_time == [*columns, "total_lag", "max_time_lag", *lag[1:]]
    wanted = cli("list", "--sample", "--columns", "coordinator,group_id").out.splitlines()
    assert wanted[0].split() == ["coordinator", "group_id"]
    assert wanted[1].split()[0] == "-"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--type", "share"], ["notifications"]),
        (["--type", "SHARE", "--type", "streams"], ["notifications", "order-totals"]),
        (["--type", "share", "--state", "empty"], []),
        (["--regex", "order-.*"], ["order-service", "order-totals"]),
        (["--regex", "order"], []),
        (["--regex", "order-.*", "--type", "streams"], ["order-totals"]),
        (["--topic", "shipments", "--type", "consumer"], None),
    ],
)
def test_filters(cli: Cli, options: list[str], expected: list[str] | None) -> None:
    result = cli("list", "--sample", "-o", "tsv", "--no-headers", *options)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert result.status == 0
    if expected is None:
        assert rows
        assert all("shipments" in row[8].split(",") and row[1] == "consumer" for row in rows)
    else:
        assert [row[0] for row in rows] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "use --bootstrap-server HOST:PORT or --profile NAME (a cluster), --log-dir PATH"),
        (["--sample", "--log-dir", "x"], "two sources"),
        (["--sample", "--state", "Sleepy"], "'Sleepy'"),
        (["--sample", "--regex", "("], "is no regular expression"),
        (["--sample", "--columns", "group,lag"], "no column group, lag; there are: group_id,"),
        (
            ["--sample", "--columns", "group_id", "-o", "json"],
            "--columns applies to tables, csv and tsv; -o json has no columns",
        ),
        (
            ["--sample", "--no-headers", "-o", "jsonl"],
            "--no-headers applies to tables, csv and tsv; -o jsonl has no columns",
        ),
        (["--sample", "--columns", ""], "expected column names separated by commas, found ''"),
        (["--sample", "--columns", "type,,state"], "found 'type,,state'"),
        (["--sample", "extra"], "extra"),
        (["--sample", "--sort", "lags"], "did you mean 'lag'?"),
        (["-b", "nowhere:1", "--columns", "total_lags"], "did you mean 'total_lag'"),
        (["--sample", "--idle-for", "30"], "'30' is not a duration"),
        *(
            (["--sample", "--no-lag", *words], f"error: {words[0]}")
            for words in (
                ["--min-lag", "1"],
                ["--idle-for", "1d"],
                ["--sort", "-last-commit"],
                ["--columns", "group_id,worst_lag"],
                ["--log-budget", "1"],
            )
        ),
        (["--sample", "--watch", "1", "-o", "csv"], "--watch writes tables on a terminal"),
    ],
)
def test_wrong_usage(cli: Cli, options: list[str], message: str) -> None:
    result = cli("list", *options)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_lag_is_what_the_broker_answered(cli: Cli) -> None:
    """The offsets that the broker of the sample returned, and where its logs ended."""
    document = json.loads(cli("list", "--sample", "-o", "json").out)
    rows = {row["group_id"]: row for row in document["data"]}
    for group_id, offsets in ANSWERS["offsets"].items():
        lags = {
            (at["topic"], at["partition"]): ANSWERS["log_end_offsets"][at["topic"]][at["partition"]]
            - at["offset"]
            for at in offsets
        }
        row = rows[group_id]
        if lags:
            assert row["total_lag"] == sum(lags.values())
            assert row["worst_lag"] == max(lags.values())
            assert lags[row["worst_topic"], row["worst_partition"]] == row["worst_lag"]
        elif row["type"] != "share":
            assert (row["total_lag"], row["worst_topic"], row["worst_lag"]) == (None, None, None)


def test_a_folder_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    result = cli("list", "--log-dir", tmp_path / "none")
    assert (result.status, result.out) == (1, "")
    assert result.err == f"kgroup: error: {tmp_path / 'none'}: No such file or directory\n"


def test_a_folder_without_segments(cli: Cli, tmp_path: Path) -> None:
    result = cli("list", "--log-dir", tmp_path)
    assert (result.status, result.out) == (1, "")
    assert "__consumer_offsets-N" in result.err


def test_a_file_of_which_nothing_is_learnt_is_a_failure(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.write_text("no log\n" * 100)
    for command in (["list", "--log-dir"], ["describe", "--all", "--log-dir"], ["decode-offsets"]):
        result = cli(*command, file)
        assert (result.status, "not-a-segment" in result.err) == (1, True)
