"""What `history sql` lets Spark do: every kind of statement, every function, every way around."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.spark.engine import FUNCTIONS, SparkEngine
from tests.cli.command_line import Cli
from tests.history.damaged_warehouse import DAMAGES, LOG_DIR, check_every_question, drop_columns
from tests.history.recorded import Built
from tests.history.warehouse_files import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENTS = {
    "AddTableColumns": "ALTER TABLE t ADD COLUMNS (a INT)",
    "AddTableConstraint": "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)",
    "AddTablePartition": "ALTER TABLE t ADD PARTITION (a = 1)",
    "AlterClusterBy": "ALTER TABLE t CLUSTER BY (a)",
    "AlterTableAlterColumn": "ALTER TABLE t ALTER COLUMN a TYPE BIGINT",
    "AlterTableCollation": "ALTER TABLE t DEFAULT COLLATION utf8_lcase",
    "AlterViewQuery": "ALTER VIEW members AS SELECT 1",
    "AlterViewSchemaBinding": "ALTER VIEW members WITH SCHEMA BINDING",
    "Analyze": "ANALYZE TABLE members COMPUTE STATISTICS",
    "AnalyzeTables": "ANALYZE TABLES COMPUTE STATISTICS",
    "CacheTable": "CACHE TABLE members",
    "Call": "CALL c.p(1)",
    "ClearCache": "CLEAR CACHE",
    "CloseCursorStatement": "CLOSE c",
    "CommentNamespace": "COMMENT ON DATABASE d IS 'x'",
    "CommentTable": "COMMENT ON TABLE t IS 'x'",
    "CreateFunction": "CREATE TEMPORARY FUNCTION f AS 'java.lang.Math'",
    "CreateIndex": "CREATE INDEX i ON TABLE t (a)",
    "CreateMetricView": "CREATE VIEW v WITH METRICS LANGUAGE YAML AS $$x$$",
    "CreateNamespace": "CREATE DATABASE d LOCATION '{folder}'",
    "CreatePipelineDataset": "CREATE MATERIALIZED VIEW v AS SELECT 1",
    "CreatePipelineInsertIntoFlow": "CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1",
    "CreateTable": "CREATE TABLE t USING csv LOCATION '{folder}' AS SELECT 1 AS a",
    "CreateTableLike": "CREATE TABLE t LIKE members",
    "CreateTempViewUsing": "CREATE TEMPORARY VIEW v USING text OPTIONS (path '/etc/passwd')",
    "CreateUserDefinedFunction": "CREATE TEMPORARY FUNCTION f() RETURNS INT RETURN 1",
    "CreateVariable": "DECLARE VARIABLE v INT DEFAULT 1",
    "CreateView": "CREATE TEMPORARY VIEW v AS SELECT 1",
    "DeclareCursorStatement": "DECLARE c CURSOR FOR SELECT 1",
    "DescribeFunction": "DESCRIBE FUNCTION abs",
    "DescribeNamespace": "DESCRIBE DATABASE default",
    "DescribeProcedure": "DESCRIBE PROCEDURE p",
    "DescribeQuery": "DESCRIBE QUERY SELECT 1",
    "DmlStatement": "INSERT INTO members SELECT * FROM members",
    "DropFunction": "DROP TEMPORARY FUNCTION f",
    "DropIndex": "DROP INDEX i ON TABLE t",
    "DropNamespace": "DROP DATABASE d",
    "DropTable": "DROP TABLE members",
    "DropTableColumns": "ALTER TABLE t DROP COLUMN a",
    "DropTableConstraint": "ALTER TABLE t DROP CONSTRAINT c",
    "DropTablePartitions": "ALTER TABLE t DROP PARTITION (a = 1)",
    "DropVariable": "DROP TEMPORARY VARIABLE v",
    "DropView": "DROP VIEW members",
    "Explain": "EXPLAIN SELECT 1",
    "FailNativeCommand": "GRANT a TO b",
    "FetchCursorStatement": "FETCH c INTO v",
    "HiveChangeColumn": "ALTER TABLE t CHANGE COLUMN a b INT",
    "HiveReplaceColumns": "ALTER TABLE t REPLACE COLUMNS (a INT)",
    "LoadData": "LOAD DATA INPATH '/etc/passwd' INTO TABLE t",
    "ManageResource": "ADD JAR '{folder}/x.jar'",
    "OpenCursorStatement": "OPEN c",
    "RecoverPartitions": "ALTER TABLE t RECOVER PARTITIONS",
    "RefreshFunction": "REFRESH FUNCTION f",
    "RefreshResource": "REFRESH '/etc'",
    "RefreshTable": "REFRESH TABLE t",
    "RenameTable": "ALTER TABLE t RENAME TO u",
    "RenameTableColumn": "ALTER TABLE t RENAME COLUMN a TO b",
    "RenameTablePartition": "ALTER TABLE t PARTITION (a = 1) RENAME TO PARTITION (a = 2)",
    "RepairTable": "MSCK REPAIR TABLE t",
    "ReplaceTable": "REPLACE TABLE t AS SELECT 1 AS a",
    "SetCatalog": "SET CATALOG c",
    "SetNamespaceCollation": "ALTER DATABASE d DEFAULT COLLATION utf8_lcase",
    "SetNamespaceLocation": "ALTER DATABASE d SET LOCATION '{folder}'",
    "SetNamespaceProperties": "ALTER DATABASE d SET DBPROPERTIES ('a' = 'b')",
    "SetTableLocation": "ALTER TABLE t SET LOCATION '{folder}'",
    "SetTableProperties": "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
    "SetTableSerDe": "ALTER TABLE t SET SERDE 'x'",
    "ShowCatalogs": "SHOW CATALOGS",
    "ShowCollations": "SHOW COLLATIONS",
    "ShowColumns": "SHOW COLUMNS IN members",
    "ShowCreateTable": "SHOW CREATE TABLE members",
    "ShowCurrentNamespace": "SHOW CURRENT DATABASE",
    "ShowFunctions": "SHOW FUNCTIONS",
    "ShowNamespaces": "SHOW DATABASES",
    "ShowPartitions": "SHOW PARTITIONS members",
    "ShowProcedures": "SHOW PROCEDURES",
    "ShowTableExtended": "SHOW TABLE EXTENDED LIKE 'm*'",
    "ShowTables": "SHOW TABLES",
    "ShowTblProperties": "SHOW TBLPROPERTIES members",
    "ShowViews": "SHOW VIEWS",
    "TruncateTable": "TRUNCATE TABLE members",
    "UncacheTable": "UNCACHE TABLE members",
    "UnsetNamespaceProperties": "ALTER DATABASE d UNSET DBPROPERTIES ('a')",
    "UnsetTableProperties": "ALTER TABLE t UNSET TBLPROPERTIES ('a')",
    "Use": "USE c",
    "UseNamespace": "USE DATABASE d",
    "VisitExecuteImmediate": (
        "EXECUTE IMMEDIATE 'CREATE TABLE t USING csv LOCATION ''{folder}'' AS SELECT 1 AS a'"
    ),
}
"""A text to be refused of each kind of statement, by its name in Spark's grammar."""

QUERIES = {"StatementDefault", "DescribeRelation"}
"""Kinds that may be queries."""

OTHER_STATEMENTS = (
    "INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1",
    "INSERT OVERWRITE LOCAL DIRECTORY '{folder}' STORED AS textfile SELECT 1",
    "INSERT OVERWRITE TABLE members SELECT * FROM members",
    "INSERT INTO members REPLACE WHERE TRUE SELECT * FROM members",
    "WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT * FROM a",
    "FROM members INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1",
    "FROM members INSERT INTO t SELECT 1 INSERT INTO u SELECT 2",
    "DELETE FROM members",
    "UPDATE members SET member_id = 'x'",
    "MERGE INTO members m USING damage d ON TRUE WHEN MATCHED THEN DELETE",
    "SET spark.sql.runSQLOnFiles = true",
    "SET spark.sql.runSQLOnFiles",
    "SET",
    "SET `spark.sql.runSQLOnFiles` = `true`",
    "SET PATH = DEFAULT_PATH",
    "SET TIME ZONE 'Asia/Tokyo'",
    "SET VAR v = 1",
    "SET ROLE admin",
    "RESET",
    "RESET spark.sql.runSQLOnFiles",
    "ADD FILE '/etc/passwd'",
    "ADD ARCHIVE '/etc/passwd'",
    "LIST JARS",
    "BEGIN SELECT 1; END",
    "BEGIN DECLARE v INT; SET v = 1; SELECT v; END",
    "SELECT 1; DROP VIEW members",
    "DESCRIBE EXTENDED members AS JSON",
    "EXPLAIN EXTENDED INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1",
    "CACHE LAZY TABLE x AS SELECT 1",
    "CREATE OR REPLACE TEMPORARY VIEW members AS SELECT 1",
    "EXECUTE IMMEDIATE 'SELECT 1' INTO v",
)

QUERIES_THAT_DO_MORE = (
    "SELECT TRANSFORM(1) USING 'touch {folder}' AS (a)",
    "SELECT * FROM (SELECT TRANSFORM(member_id) USING 'touch {folder}' AS (a) FROM members)",
    "WITH a AS (SELECT TRANSFORM(1) USING 'touch {folder}' AS (a)) SELECT * FROM a",
    "SELECT (SELECT TRANSFORM(1) USING 'touch {folder}' AS (a))",
    "SELECT 1 WHERE EXISTS (FROM members MAP member_id USING 'touch {folder}' AS a)",
    "SELECT * FROM members WHERE member_id IN (SELECT TRANSFORM(1) USING 'touch {folder}' AS (a))",
    "SELECT * FROM members, LATERAL (SELECT TRANSFORM(member_id) USING 'touch {folder}' AS (a))",
    "SELECT java_method('java.lang.System', 'getenv', 'PATH')",
    "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
    "SELECT try_reflect('java.lang.System', 'getenv', 'PATH')",
    "SELECT `Java_Method`('java.lang.System', 'getenv', 'PATH')",
    "SELECT builtin.java_method('java.lang.System', 'getenv', 'PATH')",
    "SELECT system.builtin.java_method('java.lang.System', 'getenv', 'PATH')",
    "SELECT IDENTIFIER('java_method')('java.lang.System', 'getenv', 'PATH')",
    "SELECT IDENTIFIER('java_' || 'method')('java.lang.System', 'getenv', 'PATH')",
    "VALUES (java_method('java.lang.System', 'getenv', 'PATH'))",
    "SELECT 1 LIMIT length(java_method('java.lang.System', 'getenv', 'PATH'))",
    "SELECT * FROM range(length(java_method('java.lang.System', 'getenv', 'PATH')))",
    "SELECT * FROM members ORDER BY reflect('java.lang.System', 'getenv', 'PATH')",
    "SELECT COUNT(*) FILTER (WHERE reflect('java.lang.System', 'exit', 0) = '') FROM members",
    "SELECT SUM(1) OVER (ORDER BY reflect('java.lang.System', 'getenv', 'PATH')) FROM members",
    "SELECT SUM(1) OVER w FROM members WINDOW w AS (ORDER BY reflect('a', 'b'))",
    "SELECT transform(array(1), x -> reflect('java.lang.System', 'getenv', 'PATH'))",
    "SELECT * FROM members PIVOT (MAX(reflect('a', 'b')) FOR member_id IN ('a'))",
    "SELECT * FROM members LATERAL VIEW explode(array(reflect('a', 'b'))) t AS c",
    "SELECT /*+ REPARTITION(reflect('a', 'b')) */ * FROM members",
    "SELECT * FROM members TABLESAMPLE (1 ROWS) |> SELECT reflect('a', 'b')",
    "SELECT 1 GROUP BY GROUPING SETS ((reflect('a', 'b')))",
    "SELECT CASE WHEN reflect('a', 'b') = '' THEN 1 END",
    "SELECT element_at(map('a', reflect('a', 'b')), 'a')",
    "SELECT * FROM members m JOIN damage d ON reflect('a', 'b') = ''",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT from_avro(X'00', '{{}}')",
    "SELECT from_protobuf(X'00', 'M', '/etc/passwd')",
    "SELECT xpath_string('<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/hosts\">]><a>&x;</a>', 'a')",
    "SELECT * FROM parquet.`/etc`",
    "SELECT * FROM csv.`/etc/passwd`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM binaryFile.`/etc/passwd`",
    "SELECT * FROM json.`/etc/passwd` LIMIT 0",
    "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM default.members",
    "SELECT * FROM spark_catalog.default.t",
    "SELECT * FROM global_temp.members",
    "SELECT * FROM kgroup.x",
    "TABLE t",
    "SELECT * FROM STREAM members",
    "SELECT * FROM STREAM(members)",
    "SELECT * FROM members TIMESTAMP AS OF '2020-01-01'",
    "SELECT * FROM f(TABLE(members))",
    "SELECT * FROM python_worker_logs()",
    "SELECT * FROM sql_keywords()",
    "SELECT * FROM collations()",
    "SELECT current_user()",
    "SELECT current_user",
    "SELECT user, session_user",
    "SELECT current_catalog()",
    "SELECT version()",
    "SELECT input_file_name() FROM members",
    "SELECT raise_error('x')",
    "SELECT no_such_function(1)",
    "SELECT a.b(1)",
    "SELECT ?",
    "SELECT :x",
    "SELECT `_metadata` FROM members",
    "DESCRIBE text.`/etc/passwd`",
)

ALLOWED = (
    "WITH a (x) AS (SELECT 1) SELECT * FROM a WHERE x = (SELECT MAX(x) FROM a)",
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
    "FROM members |> WHERE time_ms > 0 |> AGGREGATE COUNT(*) AS n GROUP BY member_id |> LIMIT 1",
    "SELECT /*+ BROADCAST(m), REPARTITION(1) */ * FROM members m JOIN damage USING (cluster)",
    "SELECT * FROM range(3) WHERE id IN (SELECT 1) OR EXISTS (SELECT 1 FROM members)",
    "SELECT m.member_id, t FROM Members m LATERAL VIEW OUTER explode(subscribed_topics) AS t",
    "SELECT * FROM members m, LATERAL (SELECT m.time_ms + 1 AS next)",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t (n, s) PIVOT (SUM(n) FOR s IN ('a', 'b'))",
    "SELECT * FROM (SELECT 1 AS a, 2 AS b) UNPIVOT (v FOR n IN (a, b))",
    "SELECT cluster, COUNT(*) FROM members GROUP BY ROLLUP (cluster) HAVING COUNT(*) >= 0",
    "SELECT ROW_NUMBER() OVER w FROM members WINDOW w AS (PARTITION BY date ORDER BY time_ms)",
    "SELECT SUM(time_ms) OVER (ORDER BY time_ms ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) "
    "FROM members",
    "SELECT transform(filter(array(1, 2), x -> x > 1), (x, i) -> x + i), map('a', 1)['a']",
    "SELECT 1 UNION SELECT 2 EXCEPT SELECT 3 INTERSECT SELECT 4",
    "SELECT DISTINCT named_struct('a', 1).a, CAST('1' AS INT), '1'::INT, TRY_CAST('x' AS INT)",
    "SELECT date_trunc('HOUR', timestamp_millis(time_ms)), current_timestamp, now() FROM members",
    "SELECT EXTRACT(YEAR FROM DATE '2026-01-01'), INTERVAL 1 DAY, TRIM(BOTH 'x' FROM 'xax')",
    "SELECT 'A' COLLATE UTF8_LCASE = 'a', 'a' LIKE ANY ('a', 'b'), 'a' RLIKE 'a', X'00'",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY time_ms), any_value(cluster), "
    "FIRST(cluster IGNORE NULLS), LAST(cluster), date_from_unix_date(2147483646) FROM members",
    "SELECT * FROM members TABLESAMPLE (10 PERCENT) ORDER BY ALL LIMIT 1 OFFSET 0",
    "SELECT get_json_object('{\"a\":1}', '$.a'), from_json('{\"a\":1}', 'a INT').a, rand() < 2",
    "SELECT * FROM members CLUSTER BY time_ms",
    "TABLE members",
    "VALUES (1), (2)",
    "DESCRIBE TABLE EXTENDED members",
    "SELECT '${env:HOME}' AS same",
)
"""Queries with every operator that is allowed; a check that is too strict refuses one."""


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    folder = tmp_path_factory.mktemp("queries")
    return SparkEngine(spark, write_rows(folder, {"members": [{"time_ms": 1, "member_id": "m"}]}))


def kind_of(spark: SparkSession, sql: str) -> str:
    """Name the kind of a statement by Spark's own parser, without building a plan."""
    java: Any = spark.sparkContext._jvm
    antlr, parser = java.org.antlr.v4.runtime, java.org.apache.spark.sql.catalyst.parser
    lexer = parser.SqlBaseLexer(antlr.CharStreams.fromString(sql.upper()))
    tree = parser.SqlBaseParser(antlr.CommonTokenStream(lexer)).singleStatement().statement()
    name: str = tree.getClass().getSimpleName()
    return name.removesuffix("Context")


def test_every_kind_of_statement_has_a_text(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    parser = "org.apache.spark.sql.catalyst.parser.SqlBaseParser"
    kinds = {
        getClass.getSimpleName().removesuffix("Context")
        for getClass in java.java.lang.Class.forName(parser).getClasses()
        if getClass.getSuperclass().getSimpleName() == "StatementContext"
    }
    assert kinds == STATEMENTS.keys() | QUERIES
    assert {kind: kind_of(spark, text) for kind, text in STATEMENTS.items()} == {
        kind: kind for kind in STATEMENTS
    }


def test_only_queries_that_read_the_tables_are_answered(
    engine: SparkEngine, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "written"
    before = spark.sql("SHOW TABLES").collect()
    answered = []
    for text in (*STATEMENTS.values(), *OTHER_STATEMENTS, *QUERIES_THAT_DO_MORE):
        with suppress(UsageError):
            answered.append((text, engine.query(text.format(folder=folder)).to_pylist()))
    assert not answered
    assert not list(tmp_path.iterdir())
    assert spark.sql("SHOW TABLES").collect() == before
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "false"
    assert engine.query("SELECT member_id FROM members").to_pylist() == [{"member_id": "m"}]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT TRANSFORM(1) USING 'id' AS (a)", "found ScriptTransformation"),
        ("SELECT reflect('a', 'b')", "function reflect is not allowed: it runs code of the JVM"),
        ("SELECT current_user", "found CurrentUser"),
        ("SELECT no_such(1)", "function no_such is not allowed: kgroup does not know it"),
        ("SELECT * FROM csv.`/etc`", "no table csv./etc; the tables are: offset_commits"),
    ],
)
def test_what_is_refused_is_named(engine: SparkEngine, sql: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        engine.query(sql)
    assert reason in str(caught.value)


def test_queries_that_read_the_tables_are_answered(engine: SparkEngine) -> None:
    answers: dict[str, Any] = {}
    for sql in ALLOWED:
        try:
            answers[sql] = engine.query(sql)
        except KgroupError as error:
            answers[sql] = f"{type(error)} {error}"
    assert not {k: v for k, v in answers.items() if isinstance(v, str)}
    assert answers[ALLOWED[0]].to_pylist() == [{"x": 1}]
    assert answers[ALLOWED[1]].to_pylist() == [{"i": 1}, {"i": 2}, {"i": 3}]
    assert answers[ALLOWED[2]].to_pylist() == [{"member_id": "m", "n": 1}]
    assert answers[ALLOWED[-1]].to_pylist() == [{"same": "${env:HOME}"}]


def test_every_function_is_on_one_list(spark: SparkSession) -> None:
    rows = spark.sql("SHOW FUNCTIONS").collect()
    # Operators that the parser takes apart: no function has such a name.
    names = {row.function for row in rows} - {"!=", "<>", "case", "||"}
    assert not {
        name for name in names if name not in FUNCTIONS.allowed and not FUNCTIONS.reason(name)
    }
    assert FUNCTIONS.allowed <= names
    assert not {name for name in FUNCTIONS.allowed if FUNCTIONS.reason(name)}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    rows = [{"time_ms": day * 86_400_000, "group_id": f"g{day}"} for day in (0, 1)]
    files = write_rows(tmp_path, {"offset_commits": rows})
    damage(files["offset_commits"][1])
    with pytest.raises(InputError) as caught:
        SparkEngine(spark, files).query("SELECT * FROM offset_commits")
    assert str(files["offset_commits"][1]) in str(caught.value)
    assert "warehouse in another folder" in str(caught.value)


def test_every_question_names_a_damaged_file(
    spark: SparkSession, recorded_warehouse: Built, cli: Cli, tmp_path: Path
) -> None:
    """Spark would take the columns that are missing for nulls."""
    check_every_question(recorded_warehouse(LOG_DIR), cli, tmp_path, drop_columns, "spark")


VALUES = (
    ("timestamp_millis(1784000000000 * 1000)", "58502-09-17T03:33:20+00:00"),
    ("array(map('a', date_from_unix_date(2147483646)))", [[["a", "5881580-07-10"]]]),
    ("timestamp_micros(9223372036854775807)", "294247-01-10T04:00:54.775807+00:00"),
    ("timestamp_micros(-9223372036854775807)", "-290308-12-21T19:59:05.224193+00:00"),
    ("date_from_unix_date(2147483647)", "5881580-07-11"),
    ("make_dt_interval(1, 0, 0, 0.5)", "PT86400.5S"),
    ("CAST('NaN' AS DOUBLE)", None),
    ("X'AA'", "qg=="),
    ("CAST(1 AS DECIMAL(38, 10))", 1),
    ("NULL", None),
)


def test_values_are_written(spark: SparkSession, recorded_warehouse: Built, cli: Cli) -> None:
    columns = ", ".join(f"{text} AS v{at}" for at, (text, _) in enumerate(VALUES))
    asked = ("history", "sql", f"SELECT {columns}", "--warehouse", recorded_warehouse(LOG_DIR))
    found = cli(*asked, "--engine", "spark", "-o", "json")
    assert list(json.loads(found.out)["data"][0].values()) == [value for _, value in VALUES]
    for refused in ("make_interval(1)", "INTERVAL 1 MONTH", "named_struct('a', 1, 'a', 2)"):
        found = cli(*asked[:2], f"SELECT {refused}", *asked[3:], "--engine", "spark")
        assert found.status == 2, found
        assert "bug" not in found.err
