"""Which warehouse is asked, by which engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import FOLDER, ID, Word
from kgroup.cli.option.spark import SparkChoice, spark_options
from kgroup.cli.output.context import warn
from kgroup.errors import KgroupError, NotFoundError, UnknownGroupError

if TYPE_CHECKING:
    from kgroup.history.sql.engine import Engine
    from kgroup.history.warehouse.warehouse import Warehouse

_ENGINES = ("duckdb", "spark")


@dataclass(frozen=True, slots=True)
class WarehouseChoice:
    """What the options say.

    Attributes:
        root: the warehouse's folder.
        cluster: to look in only; None: in all.
        engine: "duckdb" or "spark"; None: what is installed.
        spark: which one that is.
    """

    root: Path
    cluster: str | None
    engine: str | None
    spark: SparkChoice

    @contextmanager
    def open(self) -> Iterator[Engine]:
        """Give an engine for the tables, and say where records may be missing from them.

        Raises:
            InputError: the folder is no warehouse, or cannot be read.
            NotFoundError: it has no such cluster.
            KgroupError: what the engine needs is not installed.
        """
        with self.open_both() as (warehouse, engine):
            count = warehouse.row_count("damage", self.cluster)
            if count:
                asking = self.command("sql", "SELECT * FROM damage")
                warn(
                    f"note: {count:,} place{'s' * (count > 1)} of the log could not be read, so "
                    f"records may be missing; to see where: {asking}"
                )
            yield engine

    def command(self, question: str, *names: str, options: Sequence[str] = ()) -> str:
        """Write a command that asks the same warehouse something, to be pasted into a shell."""
        from kgroup.operation.printed_command import kgroup_command

        return kgroup_command(f"history {question}", names, (*options, *self.words))

    @property
    def words(self) -> tuple[str, ...]:
        """The options, as they were given."""
        cluster = () if self.cluster is None else ("--cluster", self.cluster)
        engine = () if self.engine is None else ("--engine", self.engine)
        return ("--warehouse", str(self.root), *cluster, *engine, *self.spark.words)

    @contextmanager
    def open_both(self) -> Iterator[tuple[Warehouse, Engine]]:
        """Give the warehouse too; otherwise as `open`.

        To what is said of a group that is not there it adds how to list those that are.
        """
        from kgroup.history.warehouse.warehouse import read_warehouse

        with read_warehouse(self.root) as warehouse:
            if self.cluster is not None and self.cluster not in warehouse.clusters:
                there = ", ".join(warehouse.clusters) or "none yet"
                raise NotFoundError(
                    f"{self.root}: no cluster {self.cluster} in this warehouse; there are: {there}"
                )
            with self._engine(warehouse.files(self.cluster)) as engine:
                try:
                    yield warehouse, engine
                except UnknownGroupError as error:
                    listing = self.command("show", options=["--groups"])
                    text = f"{error} To see which there are: {listing}"
                    raise UnknownGroupError(text, group_id=error.group_id) from None

    @contextmanager
    def _engine(self, files: Mapping[str, Sequence[Path]]) -> Iterator[Engine]:
        if (self.engine or _default_engine()) == "duckdb":
            from kgroup.history.sql.engine import DuckEngine

            with DuckEngine(files) as duck:
                yield duck
        else:
            from kgroup.spark.engine import SparkEngine
            from kgroup.spark.session import spark_session

            with spark_session(self.spark.master, self.spark.settings) as session:
                yield SparkEngine(session, files)


def _default_engine() -> str:
    from importlib.util import find_spec

    for name, module in zip(_ENGINES, ("duckdb", "pyspark"), strict=True):
        if find_spec(module) is not None:
            return name
    raise KgroupError(
        "questions to a warehouse are answered by DuckDB or by Spark, and neither is installed; "
        "pip install 'kgroup[history]' or pip install 'kgroup[spark]'"
    )


def warehouse_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--warehouse`, `--cluster` and what chooses the engine.

    The command takes ``warehouse: WarehouseChoice``.
    """

    @wraps(command)
    def with_warehouse(
        *, root: Path, cluster: str | None, engine: str | None, spark: SparkChoice, **rest: Any
    ) -> Any:
        if spark.master is not None or spark.settings:
            if engine == "duckdb":
                raise click.UsageError("--master and --spark-conf are for --engine spark")
            engine = "spark"
        return command(warehouse=WarehouseChoice(root, cluster, engine, spark), **rest)

    root = click.option(
        "--warehouse",
        "root",
        metavar="DIR",
        type=FOLDER,
        envvar="KGROUP_WAREHOUSE",
        show_envvar=True,
        required=True,
        help="The folder that 'kgroup history build' made.",
    )
    cluster = click.option(
        "--cluster",
        metavar="NAME",
        type=ID,
        help="Only of this cluster; needed where several have what is asked for.",
    )
    engine = click.option(
        "--engine",
        type=Word(_ENGINES),
        help="What answers; the answers are the same.  [default: duckdb, or spark where only that "
        "is installed]",
    )
    spark = spark_options("local[*], where Spark answers")
    return root(cluster(engine(spark(with_warehouse))))


@contextmanager
def explain_write_errors(
    root: Path, outcome: str = "Nothing has changed: the tables are as they were."
) -> Iterator[None]:
    """Say of errors of writing, such as a full disk, what they mean for the tables."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise KgroupError(f"{error.filename or root}: {reason}. {outcome}") from None
