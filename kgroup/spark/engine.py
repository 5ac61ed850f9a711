"""SQL over the tables of a warehouse on Spark, for those that one machine does not answer soon."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgroup.errors import KgroupError, UsageError
from kgroup.history.sql.engine import (
    FOLDERS,
    Parameter,
    check_texts,
    missing_table,
    table_schema,
    unreadable_file,
)
from kgroup.history.warehouse.table import TABLES
from kgroup.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine"]

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


class SparkEngine:
    """An engine on a session of Spark; see `history.sql.engine.Engine`.

    Args:
        session: to ask; it gets a view of each table.
        files: Parquet files of each table, by its name, in folders as `table` has them; tables
            without files are empty. Executors see them under the same names.
    """

    def __init__(self, session: SparkSession, files: Mapping[str, Sequence[Path]]) -> None:
        self._session = session
        self._paths = [str(path) for name in TABLES for path in files.get(name, ())]
        session.conf.set("spark.sql.runSQLOnFiles", "false")
        with self._errors():
            for name in TABLES:
                self._make_view(name, sorted(os.path.abspath(path) for path in files.get(name, ())))

    def query(self, sql: str, parameters: Sequence[Parameter] = ()) -> pa.Table:
        """Answer one query; see `Engine.query`."""
        check_texts(sql, *parameters)
        with self._errors():
            self._check(sql)
            answer: pa.Table = self._session.sql(sql, args=list(parameters)).toArrow()
        return answer

    def _make_view(self, name: str, paths: Sequence[str]) -> None:
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.types import from_arrow_schema

        columns = TABLES[name].schema
        if not paths:
            empty = self._session.createDataFrame([], from_arrow_schema(table_schema(TABLES[name])))
            empty.createOrReplaceTempView(name)
            return
        rows = self._session.read.schema(from_arrow_schema(columns)).parquet(*map(_escaped, paths))
        path = f.url_decode(f.col("_metadata.file_path"))  # it is a URI, the names in it are quoted
        rows.select(
            *columns.names,
            f.url_decode(f.regexp_extract(path, FOLDERS, 1)).alias("cluster"),
            f.regexp_extract(path, FOLDERS, 2).try_cast("date").alias("date"),
        ).createOrReplaceTempView(name)

    def _check(self, sql: str) -> None:
        """See to it that a text only asks.

        Raises:
            UsageError: it does something else.
        """
        from py4j.java_gateway import is_instance_of

        java: Any = self._session
        plan = java._jsparkSession.sessionState().sqlParser().parsePlan(sql)
        gateway = self._session.sparkContext._gateway
        is_command = any(
            is_instance_of(gateway, plan, f"{_LOGICAL}.{kind}")
            for kind in ("Command", "ParsedStatement", "InsertIntoDir")
        )
        if is_command and not is_instance_of(gateway, plan, f"{_LOGICAL}.DescribeRelation"):
            raise UsageError("expected one query: SELECT ..., WITH ... or DESCRIBE a table")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of Spark into those of `Engine.query`."""
        from py4j.protocol import Py4JError
        from pyspark import errors

        of_the_query = (
            errors.AnalysisException,
            errors.ArithmeticException,
            errors.IllegalArgumentException,
            errors.NumberFormatException,
            errors.ParseException,
        )
        try:
            yield
        except (errors.PySparkException, Py4JError) as error:
            reason = re.sub(r"^\[([A-Z_.]+)\] ", "", first_line(error))
            for path in self._paths:
                if (unreadable := unreadable_file(path)) is not None:
                    raise unreadable from error
            if missing := re.match(r"The table or view (.*?) cannot be found", reason):
                raise missing_table(missing[1].replace("`", "")) from error
            kind = UsageError if isinstance(error, of_the_query) else KgroupError
            raise kind(reason) from error


def _escaped(path: str) -> str:
    """Write a path where Spark expects a pattern."""
    return re.sub(r"([][*?{}\\])", r"\\\1", path)
