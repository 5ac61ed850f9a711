"""Columns that each command declares, against those that its csv has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.cli.option.common import ColumnsOption
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND
from tests.cli.suggested import suggested
from tests.history.recorded import Built

PLAN = "plan external-offsets order-service --sample --sql sqlite:///o.db"
LINES: dict[tuple[str, str], str] = {
    ("list", ""): "--sample",
    ("describe", ""): "--sample --all",
    ("describe", "--state"): "--sample --all",
    ("describe", "--members"): "--sample --all",
    ("coordinator", ""): "--offsets-partitions 50 billing",
    ("coordinator", "--type transaction"): "--transaction-partitions 50 billing",
    ("assign", ""): "order-service --sample --dry-run",
    ("assign", "--compare"): "order-service --sample --dry-run",
    ("assign", "--bounce"): "order-service --sample --dry-run",
    ("assign", "--may-join"): "java order-service --sample",
    ("check", ""): "--sample --all",
    ("check", "--rules"): "",
    ("simulate", ""): "member-crashes",
    ("simulate", "--list"): "",
    ("plan", ""): "order-service --sample",
    ("plan", "--list"): "",
    ("plan assignor", ""): "range order-service --sample",
    ("plan kafka-offsets", ""): "stock-sync --sample",
    ("plan new-consumer", ""): "stock-sync --sample",
    ("plan static-membership", ""): "order-service --sample",
    ("plan partitions", ""): "orders=24 order-service --sample",
    ("plan consumer-protocol", ""): "order-service --sample",
    ("plan external-offsets", ""): PLAN.partition("offsets ")[2],
    ("plan apply", ""): "plan.json --step 1 --sample",
    ("plan verify", ""): "plan.json --step 1 --sample",
    ("offsets show", ""): "--sample order-service",
    ("offsets import", ""): "offsets.json --sample",
    ("offsets diff", ""): "sample sample --group order-service --as shipping",
    ("offsets copy", ""): "sample sample --group order-service --as shipping",
    ("offsets reset", ""): "--sample order-service --to-earliest",
    ("offsets delete", ""): "--sample order-service",
    ("members remove", ""): "--sample order-service --all",
    ("decode-offsets", ""): "--sample",
    ("decode-offsets", "--stats"): "--sample",
    ("profile list", ""): "",
    ("profile show", ""): "p",
    ("doctor", ""): "",
    ("zk ids", ""): "--sample",
    ("zk owners", ""): "--sample",
    ("zk tree", ""): "--sample",
    ("zk fetchers", ""): "--sample price-feed",
    ("history build", ""): "--sample --to built",
    ("history show", ""): "",
    ("history show", "--partitions"): "",
    ("history show", "--groups"): "",
    ("history show", "--tables"): "",
    ("history owner", ""): "orders 2 --at now",
    ("history timeline", ""): "order-service",
    ("history commits", ""): "order-service",
    ("history commits", "--pauses"): "order-service",
    ("history commits", "--jumps"): "order-service",
    ("history expire", ""): "--older-than 1s",
    ("history delete", ""): "--group order-service",
    ("history vacuum", ""): "",
    ("history stale", ""): "",
    ("history lag", ""): "order-service",
    ("history rebalances", ""): "",
    ("history storms", ""): "",
    ("history as-of", ""): "now order-service",
    ("history as-of", "--state"): "now order-service",
    ("history as-of", "--members"): "now order-service",
}
"""Arguments with which a command writes rows, by its words and those that choose the rows."""


def declared() -> Iterator[tuple[str, str]]:
    """Yield the commands with `--columns`, and the words by which each chooses rows."""
    for name, command in EVERY_COMMAND.items():
        for option in command.params:
            if isinstance(option, ColumnsOption):
                yield from ((name, words) for words in option.declared)


def test_every_set_of_columns_is_tried() -> None:
    assert {*declared()} == {*LINES}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), LINES)
def test_suggested_columns_are_those_of_the_output(
    cli: Cli,
    recorded_warehouse: Built,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KGROUP_WAREHOUSE", str(recorded_warehouse(sample_log_dir())))
    monkeypatch.setenv("KGROUP_CONFIG", "config.toml")
    (tmp_path / "config.toml").write_text('[profiles.p]\nbootstrap-server = "a"\n')
    if "plan.json" in LINES[name, words]:
        (tmp_path / "plan.json").write_text(cli(*shlex.split(PLAN), "-o", "json").out)
    if "offsets.json" in LINES[name, words]:
        cli("offsets", "export", "--sample", "order-service", "-f", "offsets.json")
    line = " ".join(filter(None, (name, words, LINES[name, words])))
    result = cli(*shlex.split(line), "-o", "csv", "--columns", "absent")
    there = re.search(r"no column absent.*: ([a-z_]+(?:, [a-z_]+)+)[;\n]", result.err)
    assert there is not None, result.err
    kind, names = suggested(cli, f"kgroup {line} --columns ")
    assert (kind, names) == ("part", there[1].split(", "))


def test_the_list_of_columns(cli: Cli) -> None:
    """It needs nothing else on the line; `suggested` has checked the names."""
    result = cli("offsets", "show", "--columns", "help")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "Columns:"
    assert [line.split()[0] for line in lines[1:]] == suggested(
        cli, "kgroup offsets show --columns "
    )[1]
    titles = [
        line for line in cli("describe", "--columns", "help").out.splitlines() if line[:1] != " "
    ]
    assert titles == ["Columns:", "", "Columns with --state:", "", "Columns with --members:"]
    assert "those of the query" in cli("history", "sql", "--columns", "help").out
    assert suggested(cli, "kgroup history sql --columns ") == ("plain", [])


def test_the_list_of_output_formats(cli: Cli) -> None:
    result = cli("describe", "-o", "help")
    assert (result.status, result.err) == (0, "")
    head, *lines = result.out.splitlines()
    assert head == "Output formats:"
    listed = [line.split()[0] for line in lines]
    assert listed == suggested(cli, "kgroup list --sample -o ")[1]
    for form in listed:
        assert cli("list", "--sample", "-o", form).out
