"""SQL over the tables of a warehouse on Spark, for those that one machine does not answer soon."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from kgroup.errors import KgroupError, UsageError
from kgroup.history.sql.allowed import missing_table
from kgroup.history.sql.engine import FOLDERS, Parameter, check_texts, table_schema, unreadable_file
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import check_columns, damaged_file
from kgroup.spark.plan_check import PlanCheck
from kgroup.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine:
    """An engine on a session of Spark; see `history.sql.engine.Engine`.

    Args:
        session: to ask; it gets a view of each table.
        files: Parquet files of each table, by its name, in folders as `table` has them; tables
            without files are empty. Executors see them under the same names.
    """

    has_infinities = False

    def __init__(self, session: SparkSession, files: Mapping[str, Sequence[Path]]) -> None:
        self._session = session
        own = {
            name: sorted(os.path.abspath(path) for path in files.get(name, ())) for name in TABLES
        }
        self._paths = [path for paths in own.values() for path in paths]
        self._unchecked = dict(own)
        self._check = PlanCheck(session)
        session.conf.set("spark.sql.runSQLOnFiles", "false")
        session.conf.set("spark.sql.variable.substitute", "false")  # ${env:HOME} in any text
        with self._errors():
            for name, paths in own.items():
                self._make_view(name, paths)

    def query(
        self, sql: str, parameters: Sequence[Parameter] = (), *, is_trusted: bool = False
    ) -> pa.Table:
        """Answer one query; see `Engine.query`."""
        check_texts(sql, *parameters)
        is_query = False
        if not is_trusted:
            with self._errors(UsageError):
                is_query = self._check.is_query(sql)
        with self._errors():
            for name in [name for name in self._unchecked if name in sql.lower()]:
                for path in self._unchecked[name]:
                    check_columns(path, TABLES[name].schema)
                del self._unchecked[name]
            found: Any = self._session.sql(sql, args=list(parameters))
            if is_query:
                self._check.check_analyzed(found._jdf.queryExecution().analyzed())
            answer: pa.Table = found.toArrow()
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

    @contextmanager
    def _errors(self, otherwise: type[KgroupError] = KgroupError) -> Iterator[None]:
        """Turn errors of Spark, and of what it uses, into those of `Engine.query`.

        Args:
            otherwise: the error to raise where Spark does not say that the query is wrong.
        """
        from pyspark import errors

        of_the_query = (
            errors.AnalysisException,
            errors.ArithmeticException,
            errors.ArrayIndexOutOfBoundsException,
            errors.DateTimeException,
            errors.IllegalArgumentException,
            errors.NumberFormatException,
            errors.ParseException,
            errors.PySparkNotImplementedError,
            errors.PySparkTypeError,
            errors.UnsupportedOperationException,
        )
        try:
            yield
        except (KgroupError, MemoryError):
            raise
        except Exception as error:  # also those of py4j, pyarrow and pandas
            reason = re.sub(r"^\[([A-Z_.]+)\] ", "", first_line(error))
            for path in self._paths:
                if (unreadable := unreadable_file(path)) is not None:
                    raise unreadable from error
                if path in unquote(str(error)):  # a URI, where the error names a file
                    raise damaged_file(path, reason) from error
            if missing := re.match(r"The table or view (.*?) cannot be found", reason):
                raise missing_table(missing[1].replace("`", "")) from error
            kind = UsageError if isinstance(error, of_the_query) else otherwise
            raise kind(reason) from error


def _escaped(path: str) -> str:
    """Write a path where Spark expects a pattern."""
    return re.sub(r"([][*?{}\\])", r"\\\1", path)
