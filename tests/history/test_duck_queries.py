"""What `history sql` lets DuckDB do: every kind of statement, every function, every way around."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from kgroup.errors import UsageError
from kgroup.history.sql.allowed import FUNCTIONS, TABLE_FUNCTIONS
from kgroup.history.sql.engine import DuckEngine
from tests.history.warehouse_files import write_rows

STATEMENTS = {
    "ALTER": "ALTER VIEW members RENAME TO m",
    "ANALYZE": None,
    "ATTACH": "ATTACH '{folder}/x.db'",
    "CALL": "CALL enable_logging(storage = 'file', storage_path = '{folder}')",
    "COPY": "COPY (SELECT 1) TO '{folder}/x.csv'",
    "COPY_DATABASE": None,
    "CREATE": "CREATE TABLE t AS SELECT 1",
    "CREATE_FUNC": None,
    "DELETE": "DELETE FROM members",
    "DETACH": "DETACH memory",
    "DROP": "DROP VIEW members",
    "EXECUTE": "EXECUTE p",
    "EXPLAIN": "EXPLAIN ANALYZE SELECT 1",
    "EXPORT": "EXPORT DATABASE '{folder}'",
    "INSERT": "INSERT INTO members SELECT * FROM members",
    "LOAD": "INSTALL httpfs",
    "LOGICAL_PLAN": None,
    "MERGE_INTO": "MERGE INTO members USING damage ON TRUE WHEN MATCHED THEN DELETE",
    "MULTI": "PIVOT members ON member_id USING COUNT(*)",
    "PRAGMA": "PRAGMA database_list",
    "PREPARE": "PREPARE p AS SELECT 1",
    "RELATION": None,
    "SET": "SET enable_external_access = true",
    "TRANSACTION": "BEGIN",
    "UPDATE": "UPDATE members SET member_id = 'x'",
    "VACUUM": "VACUUM",
    "VARIABLE_SET": None,
}
"""A text of each kind of statement, by DuckDB's name of it; None: no text is of that kind."""

OTHER_STATEMENTS = (
    "SET VARIABLE v = 1",
    "CREATE FUNCTION f(x) AS x + 1",
    "COPY FROM DATABASE memory TO memory",
    "ANALYZE",
    "",
    ";",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW members",
    "LOAD httpfs",
    "RESET lock_configuration",
    "USE memory",
    "IMPORT DATABASE '{folder}'",
    "CREATE SECRET (TYPE s3)",
    "CREATE VIEW v AS SELECT 1",
    "DROP SECRET s",
    "CHECKPOINT",
    "DESCRIBE (DELETE FROM members RETURNING *)",
)

QUERIES_THAT_DO_MORE = (
    "WITH x AS (INSERT INTO members SELECT * FROM members RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM members RETURNING *) SELECT * FROM x",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('{own}')",
    "SELECT * FROM read_parquet('{own}')",
    "SELECT * FROM parquet_metadata('{own}')",
    "FROM '/etc/passwd'",
    "FROM '{own}'",
    'FROM "{own}"',
    "FROM glob('/etc/*')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM read_csv('http://127.0.0.1:9/x.csv')",
    "SELECT getenv('PATH')",
    "SELECT current_setting('temp_directory')",
    "SELECT Current_Setting('temp_directory')",
    "SELECT main.current_setting('temp_directory')",
    "SELECT system.main.current_setting('temp_directory')",
    "SELECT 'temp_directory'.current_setting()",
    "SELECT (SELECT current_setting('temp_directory'))",
    "SELECT list_transform(['threads'], lambda x: current_setting(x))",
    "SELECT [current_setting(x) FOR x IN ['threads']]",
    "SELECT COUNT(*) FILTER (WHERE current_setting('threads') = 1) FROM members",
    "SELECT SUM(1) OVER (ORDER BY current_setting('threads')) FROM members",
    "SELECT * FROM members ORDER BY current_setting('threads')",
    "SELECT * FROM members LIMIT current_setting('threads')::INT",
    "SELECT * FROM members GROUP BY ALL HAVING current_setting('threads') = 1",
    "SELECT * FROM members QUALIFY current_setting('threads') = 1",
    "SELECT * FROM members m JOIN damage d ON current_setting('threads') = 1",
    "SELECT * FROM (PIVOT members ON member_id IN ('m') USING MAX(current_setting('threads')))",
    "SELECT * REPLACE (current_setting('threads') AS member_id) FROM members",
    "VALUES (current_setting('threads'))",
    "SELECT * FROM range(current_setting('threads')::INT)",
    "WITH RECURSIVE x AS (SELECT 1 UNION SELECT current_setting('threads')::INT FROM x) FROM x",
    "DESCRIBE SELECT current_setting('threads')",
    "SUMMARIZE SELECT current_setting('threads')",
    "FROM duckdb_settings()",
    "FROM duckdb_settings",
    "FROM duckdb_secrets()",
    "FROM which_secret('s3://x', 's3')",
    "FROM pragma_database_size()",
    "FROM query('SELECT 1')",
    "FROM query_table('members')",
    "FROM histogram('members', 'member_id')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT json_serialize_plan('SELECT 1')",
    "FROM checkpoint()",
    "FROM enable_logging(storage = 'file', storage_path = '{folder}')",
    "FROM enable_profiling(save_location = '{folder}')",
    "SELECT write_log('x')",
    "SELECT setseed(0.5)",
    "SELECT nextval('s')",
    "SELECT sleep_ms(1)",
    "SELECT pg_sleep(1)",
    "SELECT error('x')",
    "SELECT getvariable('v')",
    "FROM arrow_scan(1, 1, 1)",
    "FROM python_map_function(1)",
    "FROM create_external_resource('a', 'b')",
    "FROM information_schema.tables",
    "FROM pg_catalog.pg_tables",
    "FROM sqlite_master",
    "FROM kgroup.x",
    "SHOW DATABASES",
    "SHOW ALL TABLES",
    "SELECT no_such_function(1)",
    "SELECT ?",
    f"SELECT {'(' * 5000}1{')' * 5000}",
    f"SELECT {'1 + ' * 5000}1",
)

ALLOWED = (
    "WITH a (x) AS (SELECT 1) SELECT * FROM a WHERE x = (SELECT MAX(x) FROM a)",
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
    "FROM members SELECT member_id",
    "SELECT * FROM main.members m JOIN Damage d USING (cluster) SEMI JOIN damage USING (cluster)",
    "SELECT * FROM range(3) t (i) WHERE i IN (SELECT 1) OR EXISTS (SELECT 1 FROM members)",
    "SELECT member_id, UNNEST(subscribed_topics) FROM members",
    "SELECT * FROM members m, LATERAL (SELECT m.time_ms + 1 AS next)",
    "SELECT * FROM (PIVOT members ON member_id IN ('m') USING COUNT(*))",
    "PIVOT members ON member_id IN ('m') USING COUNT(*)",
    "UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b",
    "SELECT cluster, COUNT(*) FROM members GROUP BY ROLLUP (cluster) HAVING COUNT(*) >= 0",
    "SELECT SUM(time_ms) OVER (ORDER BY time_ms ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s "
    "FROM members QUALIFY s IS NOT NULL",
    "SELECT list_transform([1], lambda x: x + 1), [x FOR x IN [1]], {'a': 1}.a, MAP {'a': 1}['a']",
    "SELECT 1 UNION SELECT 2 EXCEPT SELECT 3 INTERSECT SELECT 4 ORDER BY ALL LIMIT 50 PERCENT",
    "SELECT CAST('1' AS INT), '1'::INT, TRY_CAST('x' AS INT), TRY(1 / 0), CASE 1 WHEN 1 THEN 2 END",
    "SELECT date_trunc('hour', to_timestamp(time_ms / 1000)), current_date, now() FROM members",
    "SELECT EXTRACT(YEAR FROM DATE '2026-01-01'), INTERVAL 1 DAY, TRIM(BOTH 'x' FROM 'xax')",
    "SELECT 'A' COLLATE NOCASE = 'a', 'a' LIKE 'a' ESCAPE '!', 'a' ~ 'a', X'00', 'a'[1], 5!",
    "SELECT DISTINCT ON (cluster) COLUMNS(*) FROM members TABLESAMPLE 10 PERCENT",
    "SELECT '{\"a\":1}'::JSON ->> '$.a', json_extract('{\"a\":1}', '$.a'), random() < 2",
    "SELECT histogram(member_id), STRING_AGG(member_id, ',' ORDER BY time_ms) FROM members",
    "SELECT #1 FROM members",
    "TABLE members",
    "VALUES (1), (2)",
    "DESCRIBE members",
    "SUMMARIZE members",
    "SHOW TABLES",
)
"""Queries with every operator that is allowed; a check that is too strict refuses one."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("queries")
    return write_rows(folder, {"members": [{"time_ms": 1, "member_id": "m"}]})


@pytest.fixture(scope="module")
def engine(files: dict[str, list[Path]]) -> Iterator[DuckEngine]:
    with DuckEngine(files) as opened:
        yield opened


def test_every_kind_of_statement_has_a_text() -> None:
    kinds = set(duckdb.StatementType.__members__) - {"SELECT", "INVALID", "EXTENSION"}
    assert kinds == STATEMENTS.keys()
    with duckdb.connect() as connection:
        for kind, text in STATEMENTS.items():
            found = [statement.type.name for statement in connection.extract_statements(text or "")]
            assert found == ([kind] if text else [])


def test_only_queries_that_read_the_tables_are_answered(
    engine: DuckEngine, files: dict[str, list[Path]], tmp_path: Path
) -> None:
    own = files["members"][0]
    before = own.read_bytes()
    answered = []
    for text in (*STATEMENTS.values(), *OTHER_STATEMENTS, *QUERIES_THAT_DO_MORE):
        if text is not None:
            sql = text.replace("{folder}", f"{tmp_path}/written").replace("{own}", str(own))
            with suppress(UsageError):
                answered.append((text, engine.query(sql).to_pylist()))
    assert not answered
    assert not list(tmp_path.iterdir())
    assert own.read_bytes() == before
    assert engine.query("SELECT member_id FROM members").to_pylist() == [{"member_id": "m"}]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("COPY (SELECT 1) TO 'x'", "found COPY"),
        ("WITH x AS (DELETE FROM members RETURNING *) FROM x", "found DELETE_QUERY_NODE"),
        ("FROM glob('*')", "function glob is not allowed: it reads, writes or lists files"),
        ("SELECT no_such(1)", "function no_such is not allowed: kgroup does not know it"),
        (
            "FROM information_schema.tables",
            "no table information_schema.tables; the tables are: offset",
        ),
    ],
)
def test_what_is_refused_is_named(engine: DuckEngine, sql: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        engine.query(sql)
    assert reason in str(caught.value)


def test_queries_that_read_the_tables_are_answered(engine: DuckEngine) -> None:
    answers = {sql: engine.query(sql).to_pylist() for sql in ALLOWED}
    assert answers[ALLOWED[0]] == [{"x": 1}]
    assert answers[ALLOWED[1]] == [{"i": 1}, {"i": 2}, {"i": 3}]
    assert answers[ALLOWED[2]] == [{"member_id": "m"}]


def test_every_function_is_on_one_list() -> None:
    rows = duckdb.sql(
        "SELECT DISTINCT function_name, function_type LIKE 'table%' FROM duckdb_functions() "
        "WHERE function_type <> 'pragma'"
    ).fetchall()
    names = {name for name, is_table in rows if not is_table} - {"IS DISTINCT FROM"}
    names -= {"IS NOT DISTINCT FROM"}  # syntax, as this one
    unlisted = {name for name in names - FUNCTIONS.allowed if FUNCTIONS.reason(name) is None}
    tables = {name for name, is_table in rows if is_table}
    unlisted |= {name for name in tables - TABLE_FUNCTIONS if FUNCTIONS.reason(name) is None}
    assert not unlisted
    assert FUNCTIONS.allowed <= names | tables | {"->"}
    both = {name for name in FUNCTIONS.allowed if FUNCTIONS.reason(name) is not None}
    assert both == {"histogram"}  # of a column; the one of a table is refused
