from __future__ import annotations

import json
import re

import pytest

from tests.cli.command_line import Cli


def test_computed_without_a_source(cli: Cli) -> None:
    """Java: "billing".hashCode() is -109829509."""
    result = cli("coordinator", "billing", "-o", "json")
    (row,) = json.loads(result.out)["data"]
    assert (row["group_id"], row["offsets_partition"], row["partition_count"]) == (
        "billing",
        109829509 % 50,
        50,
    )
    assert row["leader"] is None
    assert result.status == 0
    assert result.err.startswith("kgroup: note: Computed for 50 partitions of __consumer_offsets")


def test_partition_count(cli: Cli) -> None:
    result = cli("coordinator", "billing", "a", "--offsets-partitions", "7", "-o", "tsv")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert rows[0][:3] == ["group_id", "offsets_partition", "partition_count"]
    assert [row[:3] for row in rows[1:]] == [
        ["billing", str(109829509 % 7), "7"],
        ["a", str(97 % 7), "7"],
    ]
    assert result.err == ""


def test_a_source_says_where_the_group_is(cli: Cli) -> None:
    result = cli("coordinator", "--sample", "order-service", "nobody", "-o", "json")
    found, missing = json.loads(result.out)["data"]
    assert found["found_in"] == found["offsets_partition"]
    assert (found["agrees"], missing["agrees"], missing["found_in"]) == (True, None, None)
    assert result.status == 0


def test_table_and_markdown(cli: Cli) -> None:
    lines = cli("coordinator", "--sample", "order-service").out.splitlines()
    assert lines[0].split() == [
        "group_id", "offsets_partition", "partition_count", "found_in", "agrees",
    ]  # fmt: skip
    assert lines[1].split()[0::4] == ["order-service", "yes"]
    text = cli("coordinator", "a|b", "-o", "markdown").out
    assert re.search(r"\| a\\\|b +\|", text)


def test_transactional_id_computed(cli: Cli) -> None:
    """Java: "billing".hashCode() is -109829509."""
    result = cli("coordinator", "--type", "transaction", "billing", "-o", "json")
    (row,) = json.loads(result.out)["data"]
    assert row["transactional_id"] == "billing"
    assert (row["transaction_partition"], row["partition_count"]) == (109829509 % 50, 50)
    assert "__transaction_state" in result.err
    result = cli(
        *("coordinator", "--type", "transaction", "billing", "-o", "tsv"),
        *("--transaction-partitions", "7"),
    )
    head, values = (line.split("\t") for line in result.out.splitlines())
    assert dict(zip(head, values, strict=True))["transaction_partition"] == str(109829509 % 7)
    assert (result.status, result.err) == (0, "")


TRANSACTION = ["--type", "transaction", "t"]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["g", "--offsets-partitions", "0"],
        ["g", "--offsets-partitions", "x"],
        ["g", "--transaction-partitions", "7"],
        ["g", "--type", "share"],
        [*TRANSACTION, "--offsets-partitions", "7"],
        [*TRANSACTION, "--sample"],
        [*TRANSACTION, "-b", "kafka-1", "--transaction-partitions", "7"],
    ],
)
def test_wrong_usage(cli: Cli, options: list[str]) -> None:
    result = cli("coordinator", *options)
    assert (result.status, result.out) == (2, "")


def test_ids_that_could_be_taken_for_none(cli: Cli) -> None:
    """Alone, too: a column of empty names is not one in which nothing is known."""
    for group_id, shown in (("", "''"), ("-", "'-'"), (" a", "' a'")):
        result = cli("coordinator", "--offsets-partitions", "50", "--", group_id)
        assert result.out.splitlines()[0].startswith("group_id")
        assert result.out.splitlines()[1].startswith(f"{shown} ")


@pytest.mark.parametrize("options", [(), ("--type", "transaction"), ("--sample",)])
def test_names_that_are_too_long_for_the_protocol(cli: Cli, options: tuple[str, ...]) -> None:
    assert cli("coordinator", "x" * 32_767, *options).status == 0
    result = cli("coordinator", "x" * 32_766 + "ä", *options)
    assert result.status == 2
    assert "expected 32,767 bytes at most, which Kafka's protocol can carry, fou" in result.err
