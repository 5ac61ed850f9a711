"""`kgroup plan` without a target, as it is typed."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from kgroup.operation.plan.plan import MigrationTarget
from tests.cli.command_line import Cli
from tests.cli.suggested import suggested


def rows(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["data"]
    return found


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "tsv", "markdown", "table", "html"])
def test_the_list_names_every_target_in_every_form(cli: Cli, form: str) -> None:
    found = cli("plan", "--list", "-o", form)
    assert (found.status, found.err) == (0, "")
    for target in MigrationTarget:
        assert str(target) in found.out
        assert target.sentence.partition("'")[0] in found.out


def test_the_list_is_of_no_group(cli: Cli) -> None:
    assert cli("plan", "--list", "order-service").status == 2
    assert cli("plan", "--list", "--sample").status == 2
    assert len(cli("plan", "--list", "--no-headers").out.splitlines()) == len(MigrationTarget)


def test_each_proposal_has_a_command_that_plans_it(cli: Cli) -> None:
    found = cli("plan", "order-service", "--sample", "--restart-time", "7s", "-o", "json")
    assert found.status == 0
    (row,) = rows(found.out)
    assert [each["target"] for each in row["proposals"]] == [
        "consumer-protocol",
        "static-membership",
    ]
    for each in row["proposals"]:
        program, *words = each["command"].split()
        assert program == "kgroup"
        assert words[-3:] == ["--sample", "--restart-time", "7s"]
        (plan,) = rows(cli(*words, "-o", "json").out)
        assert (plan["target"], plan["group_id"]) == (each["target"], "order-service")
        assert plan["steps"]


def test_the_saving_of_static_membership_is_that_of_its_plan(cli: Cli) -> None:
    (row,) = rows(cli("plan", "order-service", "--sample", "-o", "json").out)
    (proposed,) = [each for each in row["proposals"] if each["target"] == "static-membership"]
    (plan,) = rows(cli("plan", "static-membership", "order-service", "--sample", "-o", "json").out)
    assert proposed["now"]["forecast"] == plan["naive"]["forecast"]
    assert proposed["then"]["forecast"] == plan["steps"][-1]["forecast"]


def test_every_group_is_advised_those_on_zookeeper_too(cli: Cli) -> None:
    found = cli("plan", "--all", "--sample", "-o", "csv")
    assert found.status == 0
    advised = [*csv.DictReader(io.StringIO(found.out))]
    by_group = {each["group_id"]: each for each in advised}
    assert by_group["search-index"]["why"].startswith("Nobody is in it")
    assert by_group["stock-sync"]["target"] == "kafka-offsets"
    assert by_group["notifications"]["target"] == ""
    old = cli("plan", "stock-sync", "--sample", "-o", "json")
    assert [each["target"] for each in rows(old.out)[0]["proposals"]] == ["kafka-offsets"]


def test_a_target_that_is_misspelt(cli: Cli) -> None:
    for words in (
        ["asignor", "x"],
        ["asignor", "sticky", "payment-service", "--sample"],
        ["asignor", "x", "--settings", "range", "--sample"],
        ["asignor", "x", "--sample", "-o", "json"],
    ):
        found = cli("plan", *words)
        assert (found.status, found.out) == (2, "")
        assert "No such command 'asignor'. Did you mean assignor?" in found.err


def test_a_group_that_is_called_like_a_target(cli: Cli) -> None:
    found = cli("plan", "--sample", "--", "assignor")
    assert found.status == 3
    assert "group 'assignor': not-found" in found.err


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 2, "Usage: kgroup plan"),
        (["--sample"], 2, "no groups selected"),
        (["order-service"], 2, "no source of groups given"),
        (["--all", "order-service", "--sample"], 2, "--all selects every group"),
        (["nosuch", "--sample"], 3, "The group does not exist."),
        (["nosuch", "order-service", "--sample"], 4, "The group does not exist."),
        (["order-service", "--sample", "--step", "1"], 2, "No such option '--step'"),
    ],
)
def test_other_lines(cli: Cli, words: list[str], status: int, told: str) -> None:
    found = cli("plan", *words)
    assert (found.status, told in found.err) == (status, True), found.err


def test_passwords_are_not_repeated(cli: Cli) -> None:
    """A command to type next names settings of the connection, and not what they are."""
    line = ["plan", "billing", "-b", "127.0.0.1:1", "-X", "sasl.password=secret", "--timeout", "1"]
    found = cli(*line, "-o", "json")
    assert "secret" not in found.out + found.err


def test_help_has_options_of_lines_without_a_target(cli: Cli) -> None:
    found = cli("plan", "--help")
    assert found.status == 0
    for text in ("--list", "--restart-time", "static-membership", "kgroup plan --all --sample"):
        assert text in found.out


def test_completion_suggests_targets_and_groups(cli: Cli) -> None:
    _, words = suggested(cli, "kgroup plan as")
    assert words == ["assignor"]
    _, words = suggested(cli, "kgroup plan --sample order-")
    assert words == ["order-service", "order-totals"]
    _, words = suggested(cli, "kgroup plan --res")
    assert words == ["--restart-time"]
    _, words = suggested(cli, "kgroup plan order-service --sample --columns targ")
    assert words == ["target"]
