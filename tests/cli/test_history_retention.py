"""`history expire`, `delete` and `vacuum`: what they say, and what they do only with --execute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Cli, Result
from tests.history.builds import SAMPLE, build


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for cluster in ("east", "west"):
        build(tmp_path / "w", SAMPLE, cluster=cluster)
    return tmp_path / "w"


def rows_of(result: Result) -> Any:
    return json.loads(result.out)["data"]


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words", [("expire", "--older-than", "1s"), ("delete", "--group", "shipping"), ("vacuum",)]
)
def test_nothing_changes_without_execute(cli: Cli, root: Path, words: tuple[str, ...]) -> None:
    before = contents(root)
    chosen = () if words[0] == "vacuum" else ("--cluster", "west")
    result = cli("history", *words, *chosen, "--warehouse", root)
    assert (result.status, len(result.out.splitlines()) > 1) == (0, True)
    assert "nothing was changed; --execute carries it out" in result.err
    assert contents(root) == before


def test_old_days_of_a_cluster(cli: Cli, root: Path) -> None:
    words = ("history", "expire", "--warehouse", root)
    none = cli(*words, "--older-than", "3000d")
    assert (none.status, none.out) == (0, "")
    assert "nothing is older than " in none.err
    done = cli(*words, "--older-than", "1s", "--cluster", "west", "--execute", "-o", "json")
    rows = rows_of(done)
    assert {row["cluster"] for row in rows} == {"west"}
    [commits] = [row for row in rows if row["table"] == "offset_commits"]
    records = rows_of(cli("decode-offsets", "--sample", "--type", "OffsetCommit", "-o", "json"))
    all_count = sum(record["value"] is not None for record in records)
    assert commits["removed_row_count"] + commits["row_count"] == all_count
    assert commits["removed_row_count"]
    assert "history vacuum --warehouse" in done.err
    asked = cli("history", "owner", "orders", "0", "--warehouse", root, "--cluster", "west")
    assert "note: records before " in asked.err
    assert "have expired; answers about earlier times are incomplete" in asked.err
    both = cli("history", "stale", "--warehouse", root)
    assert "records of cluster west before " in both.err
    east = cli("history", "owner", "orders", "0", "--warehouse", root, "--cluster", "east")
    assert "expired" not in east.err
    assert "owned" in asked.out  # who owns it has not changed since


def test_a_group(cli: Cli, root: Path) -> None:
    words = ("history", "delete", "--warehouse", root, "--group")
    unknown = cli(*words, "ships")
    assert (unknown.status, unknown.out) == (3, "")
    assert "the warehouse has no rows of group 'ships'" in unknown.err
    assert "did you mean 'shipping'?" in cli(*words, "shiping").err
    several = cli(*words, "shipping")
    assert (several.status, several.out) == (2, "")
    assert "several clusters have the group 'shipping': east, west; choose one" in several.err
    named = (*words, "shipping", "--group", "pricing", "--cluster", "east")
    assert cli(*named, "--execute").status == 0
    listed = cli("history", "show", "--groups", "--warehouse", root, "-o", "json")
    found = {(row["cluster"], row["group_id"]) for row in rows_of(listed)}
    assert {("west", "shipping"), ("west", "pricing"), ("east", "order-service")} <= found
    assert not {("east", "shipping"), ("east", "pricing")} & found


def test_what_is_not_needed(cli: Cli, root: Path) -> None:
    changed = ("--warehouse", root, "--group", "shipping", "--cluster", "east", "--execute")
    assert cli("history", "delete", *changed).status == 0
    words = ("history", "vacuum", "--warehouse", root, "-o", "json")
    [kept] = rows_of(cli(*words))
    assert kept["file_count"] == 0
    [due] = rows_of(cli(*words, "--keep", "0s"))
    assert due["file_count"] > 6
    assert due["file_bytes"] > 1000
    assert rows_of(cli(*words, "--keep", "0s", "--execute")) == [due]
    [rest] = rows_of(cli(*words, "--keep", "0s"))
    assert rest["file_count"] == 0


@pytest.mark.parametrize(
    "words", [("expire", "--older-than", "1s"), ("delete", "--group", "shipping"), ("vacuum",)]
)
def test_what_is_refused(
    cli: Cli, root: Path, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KGROUP_WAREHOUSE", raising=False)
    missing = cli("history", *words, "--warehouse", tmp_path / "none", "--execute")
    assert missing.status == 1
    assert "expected a warehouse, found nothing" in missing.err
    assert not (tmp_path / "none").exists()
    nothing_older = cli("history", "expire", "--older-than", "0s", "--warehouse", root)
    assert (nothing_older.status, "greater than 0" in nothing_older.err) == (2, True)
    unnamed = cli("history", *words)
    assert (unnamed.status, "no warehouse given" in unnamed.err) == (2, True)
    other = cli("history", *words, "--warehouse", root, "--cluster", "north")
    if words[0] == "vacuum":
        assert (other.status, "--cluster" in other.err) == (2, True)
    else:
        assert other.status == 3
        assert "the warehouse has no cluster north; its clusters are: east, west" in other.err
