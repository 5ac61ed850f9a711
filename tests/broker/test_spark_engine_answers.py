"""Every question of `kgroup history`, asked by DuckDB and by Spark: the same answers."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from kgroup.cli.command import history
from kgroup.history.sql.engine import DuckEngine, Engine
from kgroup.spark.engine import SparkEngine
from tests.cli.command_line import Cli
from tests.examples import in_depth
from tests.history.builds import RECORDED, build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Lines = list[tuple[str, ...]]

GROUPS = (
    ("log-dir", "pricing"),
    ("kafka-4.3.1", "inventory-upgraded"),
    ("kafka-4.3.1", "notifications-share"),
    ("kafka-4.3.1", "order-totals-streams"),
    ("log-dir", "ledger"),
    ("kafka-0.10.2.2", "orders-python"),
)
"""Of every type: classic and then consumer, share, streams, with transactions, without epochs."""
END = "2100-01-01T00:00:00Z"

WRITING = ("build", "stream", "expire", "delete", "vacuum")
"""Commands that ask nothing."""
QUESTIONS = [name for name in history.command.commands if name not in WRITING]

QUERIES = (
    "SELECT group_id, COUNT(*) AS commits, COUNT(DISTINCT topic) AS topics FROM offset_commits "
    "GROUP BY group_id ORDER BY commits DESC, group_id",
    "SELECT cluster, SUM(committed_offset) AS total, AVG(committed_offset) AS mean, "
    "MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM offset_commits "
    "WHERE committed_offset < 1000000000000 GROUP BY cluster "
    "ORDER BY cluster",
    "SELECT cluster, date, group_id, partition / 2 AS half, partition % 2 AS rest, "
    "FLOOR(time_ms / 60000) AS minute "
    "FROM offset_commits ORDER BY cluster, offsets_partition, log_offset LIMIT 50",
    "SELECT * FROM members ORDER BY cluster, offsets_partition, log_offset, member_id",
    "SELECT * FROM assignments ORDER BY cluster, offsets_partition, from_log_offset, member_id, "
    "topic, topic_id, subtopology, role, partition LIMIT 100",
    "SELECT instance_id, expire_timestamp_ms FROM members LEFT JOIN offset_commits "
    "USING (cluster, offsets_partition, log_offset) ORDER BY instance_id DESC LIMIT 20",
    "WITH ranked AS (SELECT cluster, group_id, generation_id, LAG(generation_id) OVER (PARTITION "
    "BY cluster, group_id ORDER BY offsets_partition, log_offset) AS before FROM "
    "group_generations) SELECT cluster, group_id, generation_id - before AS step, COUNT(*) AS n "
    "FROM ranked WHERE before IS NULL OR generation_id > before GROUP BY 1, 2, 3 "
    "ORDER BY 1, 2, 3",
    "SELECT type, COALESCE(member_id, '-') AS member, UPPER(group_id) AS name, "
    "LENGTH(value_json) AS size FROM consumer_group_epochs WHERE group_id LIKE 'o%' "
    "ORDER BY cluster, offsets_partition, log_offset",
    "SELECT outcome, COUNT(*) AS n FROM transactions GROUP BY outcome HAVING COUNT(*) > 0 "
    "ORDER BY outcome",
    "SELECT NULL AS nothing, TRUE AS yes, 0.5 AS half, 1e300 AS large, 'é''s' AS text, "
    "CAST(1 AS DECIMAL(38, 0)) AS whole, DATE '2026-01-01' AS day, 7 / 2 AS ratio",
    "SELECT * FROM damage ORDER BY 1",
    "SELECT nothing FROM members",
    "SELEC 1",
    "DROP TABLE members",
    "SELECT 1 AS a, 2 AS a",
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("history") / "warehouse"
    for directory in RECORDED:
        if directory.name in {cluster for cluster, _ in GROUPS}:
            build(root, directory, cluster=directory.name)
    return root


def lines_of(name: str, folder: Path) -> Lines:
    """Ask of each group, with each option of time, by the names of the command's parameters.

    The first group is asked with every option, each other one with one of them. In `make test` a
    question is asked of every third group, of the others by the next questions.
    """
    if name == "sql":
        return [(query,) for query in QUERIES]
    values: dict[str, Callable[[str], str]] = {
        "group_id": lambda group: group,
        "at_ms": lambda group: END,
        "topic": lambda group: "orders",
        "partition": lambda group: "0",
    }
    command = history.command.commands[name]
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    options = {option: param for param in command.params for option in param.opts}
    extra: list[tuple[str, ...]] = [("--at", END)] if "--at" in options else [()]
    if "--between" in options:
        extra.append(("--between", "2000-01-01T00:00:00Z", END))
    if "--html" in options:
        extra = [("--html", str(folder / "page.html"))]
    groups = [("--cluster", cluster) for cluster, _ in GROUPS]
    if any(argument.name == "group_id" and argument.required for argument in arguments):
        asked = in_depth(GROUPS, GROUPS[QUESTIONS.index(name) % 3 :: 3])
        chosen = [(group, extra[at % len(extra)]) for at, group in enumerate(asked)]
        chosen += [(asked[0], line) for line in extra[1:]]
    elif any(argument.name == "topic" and argument.required for argument in arguments):
        chosen = [(("log-dir", ""), line) for line in extra]
    else:
        return extra + [(*groups[0], *line) for line in extra]
    return [
        (
            *(values[argument.name or ""](group) for argument in arguments),
            "--cluster",
            cluster,
            *line,
        )
        for (cluster, group), line in chosen
    ]


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_the_same_answer(
    spark: SparkSession, warehouse: Path, cli: Cli, name: str, tmp_path: Path
) -> None:
    answered = 0
    page = tmp_path / "page.html"
    for line in lines_of(name, tmp_path):
        form = () if "--html" in line else ("-o", "json")
        asked = ("history", name, *line, "--warehouse", warehouse, *form)
        duck = cli(*asked, "--engine", "duckdb")
        drawn = page.read_text() if page.exists() else ""
        page.unlink(missing_ok=True)
        other = cli(*asked, "--engine", "spark")
        if name == "sql" and duck.status == 2:
            assert (other.status, other.out) == (2, ""), line
            continue
        assert duck.status != 2, (line, duck.err)
        assert (other.status, other.err) == (duck.status, duck.err), line
        if not form:
            assert page.read_text() == drawn, line
            answered += bool(drawn)
            continue
        assert json.loads(other.out or "null") == json.loads(duck.out or "null"), line
        answered += bool(duck.out and json.loads(duck.out)["data"])
    assert answered


def test_spark_answers_where_duckdb_is_not_installed(
    spark: SparkSession, warehouse: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    engines: list[type[Engine]] = []

    def without_duckdb(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "duckdb" else find_spec(name, package)

    def noted(kind: type[DuckEngine] | type[SparkEngine]) -> None:
        begin = kind.__init__

        def noting(self: Engine, *args: object) -> None:
            engines.append(kind)
            begin(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(kind, "__init__", noting)

    noted(DuckEngine)
    noted(SparkEngine)
    asked = ("history", "sql", "SELECT COUNT(*) AS n FROM members", "--warehouse", warehouse)
    past = ("--warehouse", warehouse, "--cluster", "log-dir", "--limit", "generations=2")
    checked = ("check", "--sample", *past, "-o", "json")
    first, found = cli(*asked), cli(*checked)
    assert '"basis":"warehouse"' in found.out
    monkeypatch.setattr(importlib.util, "find_spec", without_duckdb)
    assert (cli(*asked), cli(*checked)) == (first, found)
    monkeypatch.undo()
    assert engines == [DuckEngine] * 2 + [SparkEngine] * 2
