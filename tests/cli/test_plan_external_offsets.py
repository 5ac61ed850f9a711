"""`kgroup plan external-offsets` and `kgroup plan apply` on recorded data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.source.sql.stored import query

ORDERS = {0: 10, 1: 11, 2: 12, 3: 9, 4: 4, 5: 15}
"""What order-service has committed, as the sample's manifest says."""

NAME = ("plan", "external-offsets", "order-service", "--sample")


def saved(cli: Cli, path: Path, *options: str | Path) -> Any:
    result = cli(*NAME, *options, "-o", "json")
    path.write_text(result.out)
    return json.loads(result.out)["data"][0]


def test_a_copy_is_applied(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, file = Path("plan.json"), Path("x.db")
    plan = saved(cli, path, "--sql", file, "--sql-table", "t")
    assert plan["steps"][0]["copies"]["table"] == "t"
    where = ("--step", "1", "--sample")
    assert cli("plan", "verify", path, *where).status == 5
    shown = cli("plan", "apply", path, *where)
    assert (shown.status, file.exists()) == (0, False)
    assert "--execute" in shown.err
    assert cli("plan", "apply", path, *where, "--execute", "-o", "csv").status == 0
    assert query(file, "SELECT partition, offset FROM t") == list(ORDERS.items())
    assert cli("plan", "verify", path, *where).status == 0
    again = cli("plan", "apply", path, *where, "--execute", "-o", "json")
    assert {row["result"] for row in json.loads(again.out)["data"]} == {"unchanged"}
    # It is the command's own database, where another one is named.
    assert cli("plan", "verify", path, *where, "--sql", "other.db").status == 5


def test_what_is_not_for_a_tool_is_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what was there is saved
    path = tmp_path / "plan.json"
    saved(cli, path, "--sql", tmp_path / "x.db")
    stop = cli("plan", "apply", path, "--step", "2", "--execute")
    assert stop.status == 0
    assert "step 2 for order-service copies no offsets" in stop.err
    assert "Stop all members. Stop all members in order" in stop.err
    assert cli("plan", "apply", path, "--step", "1", "--sample", "--execute").status == 0
    running = cli("plan", "apply", path, "--step", "3", "--sample")
    assert (running.status, "stop its members first" in running.err) == (4, True)
    missing = cli("plan", "apply", path, "--step", "3")
    assert (missing.status, "no source of groups given" in missing.err) == (2, True)
    assert cli("plan", "apply", path, "--step", "5", "--sample").status == 2


def test_a_plan_has_no_password(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database does not answer, which is told without it too."""
    url = "postgresql://app:hush@127.0.0.1:1/db"
    result = cli(*NAME, "--sql", url)
    assert (result.status, "hush" in result.err + result.out) == (1, False)
    from kgroup.cli.option.store import SqlNames, planned_copy

    def goal(text: str | None) -> str:
        names = SqlNames("t", ("offset=next",))
        copy = planned_copy(text, names)
        assert (copy.origin, copy.table, copy.columns) == ("kafka", "t", ("offset=next",))
        return copy.goal

    assert goal(url) == "sql"
    assert goal("postgresql://app@127.0.0.1:1/db?sslpassword=hush") == "sql"
    assert goal("postgresql://app@127.0.0.1:1/db") == "sql:postgresql://app@127.0.0.1:1/db"
    assert goal("x.db") == "sql:x.db"
    file = tmp_path / "url"
    file.write_text(url)
    assert goal(f"@{file}") == f"sql:@{file}"
    monkeypatch.setenv("KGROUP_SQL_URL", url)
    assert goal(None) == goal("profile") == "sql"


def test_a_step_before_makes_what_is_not_there(cli: Cli, tmp_path: Path) -> None:
    """`plan apply` has no --create-table to be named."""
    path = tmp_path / "plan.json"
    path.write_text(cli(*NAME, "--sql", tmp_path / "x.db", "-o", "json").out)
    applied = cli("plan", "apply", path, "--step", "3", "--sample")
    assert (applied.status, "an earlier step of the plan creates it" in applied.err) == (1, True)
    verified = cli("plan", "verify", path, "--step", "3", "--sample")
    assert (verified.status, "an earlier step of the plan creates it" in verified.out) == (5, True)
    assert "--create-table" not in applied.err + verified.out


def test_which_database_must_be_said(cli: Cli) -> None:
    result = cli(*NAME)
    assert (result.status, "no database given" in result.err) == (2, True)


def test_every_form(cli: Cli, tmp_path: Path) -> None:
    options = ("--sql", tmp_path / "x.db", "--rolling")
    runbook = cli(*NAME, *options, "-o", "markdown").out
    assert "### Step 2: Restart every member with the version that keeps offsets in both" in runbook
    assert cli(*NAME, *options, "--diagram").out.startswith("```mermaid\n")
    rows = cli(*NAME, *options, "-o", "csv", "--columns", "step,restarted").out
    assert rows.splitlines() == ["step,restarted", "1,0", "2,3", "3,3"]
    unknown = cli("plan", "external-offsets", "nobody", "--sample", "--sql", tmp_path / "x.db")
    assert unknown.status == 3
    empty = cli("plan", "external-offsets", "invoice-batch", "--sample", "--sql", tmp_path / "x.db")
    assert (empty.status, "From Kafka to the table, as the group is stopped." in empty.out) == (
        0,
        True,
    )


@pytest.mark.parametrize("kind", ["sample", "snapshot", "log-dir"])
def test_the_last_copy_is_of_no_past(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Members would begin at what was committed when the snapshot was taken."""
    monkeypatch.chdir(tmp_path)
    path, file = Path("plan.json"), Path("x.db")
    path.write_text(
        cli("plan", "external-offsets", "search-index", "--sample", "--sql", file, "-o", "json").out
    )
    assert cli("snapshot", "search-index", "--sample", "-f", "taken").status == 0
    where = {
        "sample": ("--sample",),
        "snapshot": ("--snapshot", "taken"),
        "log-dir": ("--log-dir", sample_log_dir()),
    }[kind]
    line = ("plan", "apply", path, "--step", "1", *where)
    found = cli(*line, "--execute", "--yes")
    assert (found.status, found.out) == (2, "")
    assert "choose the cluster instead, by -b HOST:PORT or -C PROFILE" in found.err
    assert not file.exists()
    shown = cli(*line)
    assert shown.status == 0
    assert "with --execute the last copy must read the cluster" in shown.err
