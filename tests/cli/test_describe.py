from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click import Context

from kgroup.cli.command.describe import command
from kgroup.operation.describe import PARTITION_SORTS
from kgroup.render.group import MEMBER_COLUMNS, OFFSET_COLUMNS, STATE_COLUMNS
from kgroup.sample import LOG_DIR_TIME_MS
from tests.cli.command_line import Cli
from tests.render.read_markup import read

FIELDS = [
    "group_id",
    "type",
    "state",
    "protocol_type",
    "assignor",
    "generation_id",
    "group_epoch",
    "assignment_epoch",
    "leader_id",
    "coordinator",
    "offsets_partition",
    "state_timestamp_ms",
    "members",
    "offsets",
]
MEMBER_FIELDS = [
    "member_id",
    "instance_id",
    "client_id",
    "client_host",
    "rack_id",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "member_epoch",
    "subscription",
    "assignment",
    "target_assignment",
]
OFFSET_FIELDS = [
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "log_end_offset",
    "lag",
    "member_id",
]
"""As they were promised when the command was designed."""


def test_json_has_the_promised_fields_in_order(cli: Cli) -> None:
    result = cli("describe", "--sample", "order-service", "-o", "json")
    (group,) = json.loads(result.out)["data"]
    assert result.status == 0
    assert list(group)[: len(FIELDS)] == FIELDS
    assert list(group["members"][0])[: len(MEMBER_FIELDS)] == MEMBER_FIELDS
    assert list(group["offsets"][0])[: len(OFFSET_FIELDS)] == OFFSET_FIELDS
    assert list(group["members"][0]["subscription"])[:5] == [
        "topics", "regex", "owned", "generation_id", "user_data",
    ]  # fmt: skip
    assert list(group["members"][0]["assignment"][0])[:3] == ["topic_id", "topic", "partition"]
    assert group["coordinator"] is None
    assert group["generation_id"] > 0


def test_a_page_begins_with_the_verdict(cli: Cli) -> None:
    lines = cli("describe", "--sample", "order-service").out.splitlines()
    assert lines[0] == (
        "order-service  Stable  3 members  lag 14 in 2 of 6 partitions, 10 of it in orders-4 "
        "(order-service-2 at 127.0.0.1)"
    )
    assert re.fullmatch("protocol  classic, cooperative-sticky, generation [0-9]+ for .+", lines[1])
    titles = [line.split(" (")[0] for line in lines if line.startswith(("Members", "Partitions"))]
    assert titles == ["Members", "Partitions of orders, worst first"]


def test_the_verdict_of_every_group_of_the_sample_adds_up(cli: Cli) -> None:
    (groups,) = [json.loads(cli("describe", "--sample", "--all", "-o", "json").out)["data"]]
    out = cli("describe", "--sample", "--all", "--state").out
    verdicts = {line.split()[0]: line for line in out.splitlines() if "  " in line}
    for group in groups:
        verdict = verdicts[group["group_id"]]
        assert f"  {group['state']}  " in verdict
        count = len(group["members"]) or "no"
        assert re.search(f"  {count} (member|worker)s?  ", verdict)
        if group["total_lag"]:
            assert f"  lag {group['total_lag']}" in verdict


def test_the_worst_group_and_the_worst_partition_come_first(cli: Cli) -> None:
    lines = cli("describe", "--sample", "ledger", "order-service", "--offsets").out.splitlines()
    heads = [line.split()[0] for line in lines if "  lag " in line and "partition" in line]
    assert [head for head in heads if head != "partition"] == ["order-service", "ledger"]
    table = cli("describe", "--sample", "order-service", "--offsets", "--sort", "lag").out
    assert "by lag" in table
    rows = cli(
        *("describe", "--sample", "order-service", "--sort", "-lag", "-o", "csv"),
        *("--no-headers", "--columns", "lag"),
    ).out.split()
    assert rows == sorted(rows, key=int, reverse=True)
    unsorted = cli("describe", "--sample", "order-service", "-o", "csv", "--columns", "lag").out
    assert unsorted.split()[1:] != rows


def test_ages_of_the_sample_are_as_of_its_last_record(cli: Cli) -> None:
    rows = json.loads(cli("decode-offsets", "--sample", "-o", "json").out)["data"]
    assert max(row["timestamp_ms"] for row in rows) == LOG_DIR_TIME_MS
    committed = {
        row["value"]["data"]["commitTimestamp"]
        for row in rows
        if row["key"]["data"].get("group") == "order-service" and row["type"] == "OffsetCommit"
    }
    age_s = (LOG_DIR_TIME_MS - max(committed)) // 1000
    assert f"(all: committed {age_s} s ago, " in cli("describe", "--sample", "order-service").out


def test_keys_to_sort_by_are_those_of_partitions() -> None:
    (option,) = [option for option in command.params if option.name == "sort"]
    words = {item.value for item in option.shell_complete(Context(command), "")}
    assert words == {sign + key for sign in ("", "-") for key in PARTITION_SORTS}


def test_an_unknown_key_to_sort_by_gets_a_suggestion(cli: Cli) -> None:
    result = cli("describe", "--sample", "--all", "--sort", "-lagg")
    assert result.status == 2
    assert "found 'lagg'; did you mean 'lag'?" in result.err


def test_sections(cli: Cli) -> None:
    def page(*options: str) -> tuple[bool, bool, bool]:
        out = cli("describe", "--sample", "order-service", *options).out
        assert out.startswith("order-service  Stable")
        return "generation" in out, "\nMembers" in out, "\nPartitions" in out

    assert page() == (True, True, True)
    assert page("--state") == (True, False, False)
    assert page("--members") == (False, True, False)
    assert page("--offsets") == (False, False, True)
    assert page("--state", "--offsets") == (True, False, True)


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ([], OFFSET_COLUMNS),
        (["--offsets"], OFFSET_COLUMNS),
        (["--members"], MEMBER_COLUMNS),
        (["--state"], STATE_COLUMNS),
    ],
)
@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_csv_and_tsv_have_the_columns_of_a_section(
    cli: Cli, options: list[str], columns: tuple[object, ...], form: str
) -> None:
    result = cli("describe", "--sample", "--all", "-o", form, *options)
    head, *rows = result.out.splitlines()
    separator = "," if form == "csv" else "\t"
    assert head.split(separator) == [column.name for column in columns]  # type: ignore[attr-defined]
    assert len(rows) >= 8


def test_columns_of_a_table(cli: Cli) -> None:
    result = cli("describe", "--sample", "payment-service", "--members", "--columns", "instance_id")
    head, *rows = result.out.split()
    assert head == "instance_id"
    assert len(rows) == 2
    assert "-" not in rows


def test_what_all_members_have_in_common_is_said_once(cli: Cli) -> None:
    lines = cli("describe", "--sample", "shipping", "--members").out.splitlines()
    title = next(line for line in lines if line.startswith("Members"))
    assert title == "Members (all: host 127.0.0.1, subscription orders,shipments)"
    assert "subscription" not in cli("describe", "--sample", "shipping").out
    assert lines[lines.index(title) + 1].split() == ["client_id", "partitions", "rack_id"]


def test_streams_and_share_groups_show_what_only_they_have(cli: Cli) -> None:
    streams = cli("describe", "--sample", "order-totals").out
    assert "\nTopology" not in streams
    assert re.search(r"\nclient_id +active +standby +warmup\n", streams)
    assert "\nTopology" in cli("describe", "--sample", "order-totals", "--state").out
    assert " finished " in cli("describe", "--sample", "notifications").out
    assert " pending " in cli("describe", "--sample", "ledger").out


def test_explain_is_for_one_look(cli: Cli) -> None:
    assert "What it means" in cli("describe", "--sample", "ledger", "--explain").out
    result = cli("describe", "--sample", "ledger", "--explain", "--watch", "1")
    assert result.status == 2
    assert "--explain and --watch cannot be used together" in result.err


def test_markdown_has_heads_and_tables(cli: Cli) -> None:
    text = cli("describe", "--sample", "order-service", "-o", "markdown").out
    title, facts, members, *_ = read("markdown", text)
    assert (title, facts[0]) == ("Group order-service", ["property", "value"])
    assert str(members).startswith("Members")


def test_several_groups_one_of_them_missing(cli: Cli) -> None:
    result = cli("describe", "--sample", "shipping", "nobody", "-o", "json")
    document = json.loads(result.out)
    assert result.status == 4
    assert [group["group_id"] for group in document["data"]] == ["shipping"]
    (error,) = document["errors"]
    assert (error["kind"], error["group_id"]) == ("not-found", "nobody")
    assert result.err.startswith("kgroup: group 'nobody': not-found: The group does not exist; ")


def test_none_of_the_groups_exists(cli: Cli) -> None:
    result = cli("describe", "--sample", "nobody", "--regex", "nob.*")
    assert (result.status, result.out) == (3, "")
    assert "'nobody': not-found: The group does not exist; " in result.err
    assert "not-found: No group matches 'nob.*'; " in result.err


def test_the_document_of_groups_of_which_none_exists(cli: Cli) -> None:
    result = cli("describe", "--sample", "nobody", "--regex", "nob.*", "-o", "json")
    document = json.loads(result.out)
    assert (result.status, document["command"], document["data"]) == (3, "describe", [])
    assert [(error["kind"], error["group_id"]) for error in document["errors"]] == [
        ("not-found", "nobody"),
        ("not-found", None),
    ]


def test_regex_and_all(cli: Cli) -> None:
    def groups(*options: str) -> list[str]:
        out = cli("describe", "--sample", "-o", "jsonl", *options).out
        return [json.loads(line)["group_id"] for line in out.splitlines()]

    assert groups("--regex", "order-.*") == ["order-service", "order-totals"]
    assert groups("--regex", "order", "ledger") == ["ledger"]  # whole ids only
    assert groups("--regex", "order-.*", "ledger") == ["ledger", "order-service", "order-totals"]
    assert len(groups("--all")) > 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample"], "no groups selected"),
        (["--sample", "--all", "g"], "--all selects every group"),
        (["--sample", "--all", "--regex", "g"], "--all selects every group"),
        (["g"], "--log-dir PATH"),
        (["--sample", "--all", "--members", "--state", "-o", "csv"], "take one section"),
        (["--sample", "--all", "--members", "--state", "--columns", "type"], "take one section"),
        (["--sample", "--all", "--columns", "nothing"], "no column nothing"),
        (["--sample", "--all", "--time-lag"], "from a cluster"),
    ],
)
def test_wrong_usage(cli: Cli, options: list[str], message: str) -> None:
    result = cli("describe", *options)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_damage_is_an_error_beside_the_groups(cli: Cli, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "kgroup/sample/log-dir"
    folder = tmp_path / "__consumer_offsets-6"
    folder.mkdir()
    name = "00000000000000000000.log"
    data = (source / folder.name / name).read_bytes()
    (folder / name).write_bytes(data + b"\xff" * 70)
    result = cli("describe", "--log-dir", tmp_path, "order-service", "-o", "json")
    document = json.loads(result.out)
    assert result.status == 4
    assert [group["group_id"] for group in document["data"]] == ["order-service"]
    assert document["errors"][0]["position"] == len(data)
    assert f"{folder / name}, byte {len(data)}" in result.err


def test_columns_of_another_section_are_told(cli: Cli) -> None:
    """Before anybody is asked: nothing listens on that port."""
    for option, columns, message in (
        ("--offsets", "lag,state,client_id", "no column state, client_id in the section --offsets"),
        ("--state", "total_lag,lag", "no column lag in the section --state"),
    ):
        result = cli("describe", "-b", "127.0.0.1:1", "g", option, "--columns", columns)
        assert (result.status, result.out) == (2, "")
        assert message in result.err
    assert "; see --offsets\n" in result.err


def test_a_group_that_has_just_rebalanced_names_the_command_that_shows_why(cli: Cli) -> None:
    def note(*words: str) -> str:
        return cli("describe", "--sample", *words).err

    command = "kgroup history rebalances billing --sample"
    assert note("billing") == (
        f"kgroup: note: The group rebalanced 6 s ago. To see why, run: {command}\n"
    )
    assert "polled_late" in cli(*command.split()[1:]).out
    for words in (["billing", "-o", "json"], ["--all"], ["legacy-report"], ["click-stats"]):
        assert "To see why" not in note(*words), words
