from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from signal import SIGINT, SIGTERM, signal
from threading import Timer
from typing import Any

import duckdb
import pytest

from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.table import ASSIGNED, TABLES
from tests.history.warehouse_files import write_rows

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def empty() -> Iterator[DuckEngine]:
    with DuckEngine({}) as engine:
        yield engine


@pytest.mark.parametrize("name", sorted(TABLES))
def test_table_without_files_has_its_columns_and_no_rows(name: str, empty: DuckEngine) -> None:
    found = empty.query(f"SELECT * FROM {name}")
    assert found.schema.names == [*TABLES[name].columns, "cluster", "date"]
    assert found.schema.types == TABLES[name].full_schema.types
    assert found.num_rows == 0


def test_folders_give_cluster_and_date(tmp_path: Path) -> None:
    # What looks like a number stays a text, what a path cannot hold is restored, no time is null.
    first = write_rows(
        tmp_path / "cluster=wrong [1]'s *",
        {"offset_commits": [{"time_ms": 3 * DAY_MS + 5, "partition": 1}, {"partition": 2}]},
        cluster="007",
    )
    second = write_rows(
        tmp_path / "cluster=wrong [1]'s *",
        {"offset_commits": [{"time_ms": 4 * DAY_MS - 1, "partition": 3}]},
        cluster="a/b=c é%20",
    )
    files = {"offset_commits": first["offset_commits"] + second["offset_commits"]}
    with DuckEngine(files) as engine:
        found = engine.query(
            "SELECT partition, cluster, date FROM offset_commits ORDER BY partition"
        )
    assert found.to_pylist() == [
        {"partition": 1, "cluster": "007", "date": date(1970, 1, 4)},
        {"partition": 2, "cluster": "007", "date": None},
        {"partition": 3, "cluster": "a/b=c é%20", "date": date(1970, 1, 4)},
    ]


def test_nested_columns_and_types_come_back_as_they_are_in_the_files(tmp_path: Path) -> None:
    struct = ASSIGNED.value_type
    names = [struct.field(at).name for at in range(struct.num_fields)]
    member = {
        "time_ms": 5,
        "member_id": "m",
        "subscribed_topics": ["a", "b"],
        "assignment": [dict.fromkeys(names) | {"topic": "a", "partitions": [0, 2]}],
    }
    with DuckEngine(write_rows(tmp_path, {"members": [member]})) as engine:
        found = engine.query("SELECT * FROM members")
    assert found.schema.types == TABLES["members"].full_schema.types
    row = found.to_pylist()[0]
    assert {name: row[name] for name in member} == member


def test_parameters_stand_for_question_marks(tmp_path: Path) -> None:
    rows = [{"time_ms": time, "group_id": group} for time in (1, 2) for group in ("a", "it's")]
    with DuckEngine(write_rows(tmp_path, {"offset_commits": rows})) as engine:
        found = engine.query(
            "SELECT time_ms FROM offset_commits WHERE group_id = ? AND time_ms > ?", ["it's", 1]
        )
    assert found.to_pylist() == [{"time_ms": 2}]


def test_nulls_come_first_upwards_as_in_spark(tmp_path: Path) -> None:
    rows = [{"time_ms": 1, "partition": number} for number in (1, None, 0)]
    with DuckEngine(write_rows(tmp_path, {"offset_commits": rows})) as engine:
        up = engine.query("SELECT partition FROM offset_commits ORDER BY partition")
        down = engine.query("SELECT partition FROM offset_commits ORDER BY partition DESC")
    assert up["partition"].to_pylist() == [None, 0, 1]
    assert down["partition"].to_pylist() == [1, 0, None]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT grop_id FROM members", 'Referenced column "grop_id" not found in FROM clause; '),
        (
            "SELECT * FROM member",
            "no table member; the tables are: offset_commits, group_generations, ",
        ),
        ("SELECT 1 + ?", "Values were not provided"),
        ("", "expected one query"),
        ("SELECT 1; SELECT 2", "expected one query"),
        ("CREATE TABLE t AS SELECT 1", "expected one query"),
        ("INSTALL httpfs", "expected one query"),
        ("SET memory_limit = '1TB'", "expected one query"),
        ("SELECT CAST('a' AS INT)", "Could not convert string 'a' to INT32"),
    ],
)
def test_what_is_no_query_is_said_in_a_line(sql: str, reason: str, empty: DuckEngine) -> None:
    with pytest.raises(UsageError) as caught:
        empty.query(sql)
    text = str(caught.value)
    assert reason in text
    assert "\n" not in text
    assert "LINE" not in text


def test_nothing_but_the_tables_is_read_or_written(tmp_path: Path) -> None:
    files = write_rows(tmp_path, {"offset_commits": [{"time_ms": 1}]})
    own = files["offset_commits"][0]
    before = own.read_bytes()
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    variable = TABLES["members"].full_schema.empty_table()  # a name that a query could find
    assert variable.num_rows == 0
    with DuckEngine(files) as engine:
        for sql in (
            f"SELECT * FROM read_text('{secret}')",
            f"FROM '{secret}'",
            "SELECT * FROM variable",
            f"COPY (SELECT 1) TO '{own}'",
            f"COPY (SELECT 1) TO '{tmp_path}/new.csv'",
            "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
        ):
            with pytest.raises(KgroupError):
                engine.query(sql)
    assert own.read_bytes() == before
    assert not (tmp_path / "new.csv").exists()


def test_file_that_has_gone_is_an_unreadable_input(tmp_path: Path) -> None:
    files = write_rows(tmp_path, {"offset_commits": [{"time_ms": 1}, {"time_ms": DAY_MS}]})
    with DuckEngine(files) as engine:
        os.remove(files["offset_commits"][1])
        with pytest.raises(
            InputError, match=r"no such file\. Repeat the query if .*; else restore the file"
        ):
            engine.query("SELECT * FROM offset_commits")


def test_file_that_may_not_be_read_is_not_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read anything: the system's answer is made up."""
    files = write_rows(tmp_path, {"offset_commits": [{"time_ms": 1}, {"time_ms": DAY_MS}]})
    own = str(files["offset_commits"][1])

    def refuse(path: str, mode: str) -> object:
        if path == own:
            raise PermissionError(13, "Permission denied", path)
        return open(path, mode)

    with DuckEngine(files) as engine:
        Path(own).unlink()
        monkeypatch.setattr("kgroup.history.sql.engine.open", refuse, raising=False)
        with pytest.raises(InputError) as caught:
            engine.query("SELECT * FROM offset_commits")
    assert str(caught.value) == f"{own}: Permission denied"


def test_damaged_file_is_named(tmp_path: Path) -> None:
    files = write_rows(tmp_path, {"offset_commits": [{"time_ms": 1}, {"time_ms": DAY_MS}]})
    whole = files["offset_commits"][1].read_bytes()
    files["offset_commits"][1].write_bytes(whole[: len(whole) // 2])
    with (
        pytest.raises(InputError, match=r"/1970-01-02/1-1-1\.parquet"),
        DuckEngine(files) as engine,
    ):
        engine.query("SELECT * FROM offset_commits")
    files["offset_commits"][1].write_bytes(b"nothing")
    with pytest.raises(InputError) as caught, DuckEngine(files) as engine:
        engine.query("SELECT * FROM offset_commits")
    said = str(caught.value)
    assert said.count("1-1-1.parquet") == 1
    assert "not as the build wrote it" in said
    assert said.endswith("Restore the file, or build a new warehouse in another folder.")
    files["offset_commits"][0].write_bytes(b"")
    with pytest.raises(InputError, match=r"/1970-01-01/1-1-1\.parquet"):
        DuckEngine(files)


OF_A_MINUTE = "SELECT COUNT(*) FROM range(5000000) a, range(1000) b WHERE a.range * b.range % 7 = 3"


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "kind"), [(SIGINT, KeyboardInterrupt), (SIGTERM, SystemExit)])
def test_a_query_is_broken_off_by_a_signal(signum: int, kind: type[BaseException]) -> None:
    """DuckDB loses what a handler raises: it says 'Query interrupted', or goes on."""

    def leave(*_: object) -> None:
        raise kind

    def query(engine: DuckEngine) -> None:
        Timer(0.3, os.kill, (os.getpid(), signum)).start()
        engine.query(OF_A_MINUTE)

    before = signal(signum, leave)
    try:
        with DuckEngine({}) as engine, pytest.raises(kind):
            query(engine)
    finally:
        signal(signum, before)


def test_a_signal_that_comes_while_an_engine_is_made_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is raised in the middle of DuckDB's import ends in an abort of the process."""
    ended = []

    def connect(*arguments: Any, connect: Any = duckdb.connect, **options: Any) -> Any:
        os.kill(os.getpid(), SIGINT)
        found = connect(*arguments, **options)
        ended.append(found)
        return found

    monkeypatch.setattr("duckdb.connect", connect)
    with pytest.raises(KeyboardInterrupt):
        DuckEngine({})
    assert len(ended) == 1
