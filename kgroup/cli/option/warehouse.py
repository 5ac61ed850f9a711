"""Options of history commands: warehouse, engine, Spark, groups, topics and times."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from kgroup.cli.command_group import Block, BlockOption
from kgroup.cli.option.common import (
    FOLDER,
    ID,
    TOPIC,
    CaseInsensitiveChoice,
    Decorator,
    OutputFolder,
    options_into,
    parsed,
    parsed_time,
)
from kgroup.cli.option.parameter import parse_duration
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import warn
from kgroup.errors import KgroupError, NotFoundError, UnknownGroupError

if TYPE_CHECKING:
    from kgroup.history.sql.engine import Engine
    from kgroup.history.warehouse.warehouse import Warehouse


_ENGINES = ("duckdb", "spark")


@dataclass(frozen=True, slots=True)
class WarehouseChoice:
    """The selected warehouse and engine.

    Attributes:
        root: folder of the warehouse.
        cluster: cluster to query; None: all clusters.
        engine: "duckdb" or "spark"; None: the installed one.
        spark: options of Spark.
    """

    root: Path
    cluster: str | None
    engine: str | None
    spark: SparkChoice

    @contextmanager
    def open(self) -> Iterator[Engine]:
        """Yield an engine for the tables; print a note if records may be missing from them.

        Raises:
            InputError: the folder is not a warehouse, or cannot be read.
            NotFoundError: the warehouse does not have the cluster.
            KgroupError: the engine is not installed.
        """
        with self.open_both() as (warehouse, engine):
            count = warehouse.row_count("damage", self.cluster)
            if count:
                asking = self.command("sql", "SELECT * FROM damage")
                warn(
                    f"note: {count:,} place{'s' * (count > 1)} of the log could not be read, so "
                    f"records may be missing; to see where, run: {asking}"
                )
            yield engine

    def command(self, question: str, *names: str, options: Sequence[str] = ()) -> str:
        """Return another command for the same warehouse, to paste into a shell."""
        from kgroup.operation.printed_command import kgroup_command

        return kgroup_command(f"history {question}", names, (*options, *self.words))

    @property
    def words(self) -> tuple[str, ...]:
        """The options as given."""
        cluster = () if self.cluster is None else ("--cluster", self.cluster)
        engine = () if self.engine is None else ("--engine", self.engine)
        return ("--warehouse", str(self.root), *cluster, *engine, *self.spark.words)

    @contextmanager
    def open_both(self) -> Iterator[tuple[Warehouse, Engine]]:
        """Yield the warehouse and an engine; otherwise as `open`.

        The error about a missing group also says how to list all groups.
        """
        from kgroup.history.warehouse.warehouse import read_warehouse

        with read_warehouse(self.root) as warehouse:
            if self.cluster is not None and self.cluster not in warehouse.clusters:
                known = ", ".join(warehouse.clusters) or "none yet"
                raise NotFoundError(
                    f"{self.root}: the warehouse has no cluster {self.cluster}; its clusters are: "
                    f"{known}"
                )
            with self._engine(warehouse.files(self.cluster)) as engine:
                try:
                    yield warehouse, engine
                except UnknownGroupError as error:
                    listing = self.command("show", options=["--groups"])
                    text = f"{error} To list the groups, run: {listing}"
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
        "a query of a warehouse needs DuckDB or Spark, and neither is installed; run pip install "
        "'kgroup[history]' (DuckDB) or pip install 'kgroup[spark]'"
    )


def _warehouse(
    root: Path, cluster: str | None, engine: str | None, spark: SparkChoice
) -> WarehouseChoice:
    if spark.master is not None or spark.settings:
        if engine == "duckdb":
            raise click.UsageError("--master and --spark-conf require --engine spark")
        engine = "spark"
    return WarehouseChoice(root, cluster, engine, spark)


@contextmanager
def explain_write_errors(root: Path, outcome: str = "The tables are unchanged.") -> Iterator[None]:
    """Add the effect on the tables to write errors, such as a full disk."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise KgroupError(f"{error.filename or root}: {reason}. {outcome}") from None


group_argument: Decorator = click.argument(
    "group_id", metavar="GROUP", type=ID, shell_complete=suggest_groups
)
"""Group id, as ``group_id``."""

any_group_argument: Decorator = click.argument(
    "group_id", metavar="[GROUP]", type=ID, required=False, shell_complete=suggest_groups
)
"""Group id, as ``group_id``; None for all groups."""

topic_option: Decorator = click.option(
    "--topic", metavar="NAME", type=TOPIC, help="Only this topic."
)


to_option: Decorator = click.option(
    "--to",
    "root",
    metavar="DIR",
    type=OutputFolder(),
    required=True,
    help="Folder of the warehouse: a new folder, or an existing warehouse.",
)
"""Output folder of the tables, as ``root``."""


def at_option(text: str) -> Decorator:
    """Add `--at`, a time; the command takes ``at_ms``.

    Args:
        text: help text.
    """
    return _time_option("at", text)


def length_option(name: str, parameter: str, default: str, text: str) -> Decorator:
    """Add an option for a duration.

    Args:
        name: name of the option.
        parameter: name of the command's parameter, in milliseconds.
        default: default value, as typed.
        text: help text.
    """
    return click.option(
        name,
        parameter,
        metavar="TIME",
        default=default,
        show_default=True,
        callback=parsed(parse_duration),
        help=text,
    )


class TimeRange(TypedDict):
    """A time range; None: from the start, or to the end."""

    since_ms: int | None
    until_ms: int | None


def _span(since_ms: int | None, until_ms: int | None) -> TimeRange:
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise click.UsageError("--since must be earlier than --until")
    return {"since_ms": since_ms, "until_ms": until_ms}


def time_options(since: str, until: str) -> Decorator:
    """Add `--since` and `--until`; the command takes ``span: TimeRange``.

    Args:
        since: help text of `--since`, to which the formats of a time are added.
        until: help text of `--until`.
    """
    since = f"{since.removesuffix('.')}: 03:12, RFC 3339, epoch milliseconds, or an age (2h)."
    return options_into("span", _span, _time_option("since", since), _time_option("until", until))


def _time_option(name: str, text: str) -> Decorator:
    return click.option(
        f"--{name}", f"{name}_ms", metavar="TIME", callback=parsed_time(), help=text
    )


@dataclass(frozen=True, slots=True)
class SparkChoice:
    """Options of Spark.

    Attributes:
        master: URL of Spark's master; None: the default.
        settings: settings of Spark, by name.
    """

    master: str | None
    settings: Mapping[str, str]

    @property
    def words(self) -> Sequence[str]:
        """The options as given; secret values are "..."."""
        from kgroup.redaction import is_secret, redact

        words = [] if self.master is None else ["--master", self.master]
        for name, value in self.settings.items():
            shown = "..." if is_secret(name) or redact(value) != value else value
            words += ["--spark-conf", f"{name}={shown}"]
        return words


def spark_options(default: str) -> Decorator:
    """Add `--master` and `--spark-conf`; the command takes ``spark: SparkChoice``.

    Args:
        default: description of the default master, for the help.
    """
    option = partial(click.option, cls=BlockOption, block=Block.SPARK)
    return options_into(
        "spark",
        SparkChoice,
        option(
            "--master",
            metavar="URL",
            help="Run on this Spark master, such as local[4] or spark://host:7077.  [default: "
            f"{default}]",
        ),
        option(
            "--spark-conf",
            "settings",
            metavar="NAME=VALUE",
            multiple=True,
            callback=parsed(_parse_settings),
            help="Set a Spark setting. Repeatable.",
        ),
    )


def _parse_settings(texts: Sequence[str]) -> Mapping[str, str]:
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ValueError(f"expected NAME=VALUE, found {text!r}")
        settings[name] = value
    return settings


_option = partial(click.option, cls=BlockOption, block=Block.WAREHOUSE)
warehouse_options = options_into(
    "warehouse",
    _warehouse,
    _option(
        "--warehouse",
        "root",
        metavar="DIR",
        type=FOLDER,
        envvar="KGROUP_WAREHOUSE",
        show_envvar=True,
        required=True,
        help="Folder of the warehouse that 'kgroup history build' wrote.",
    ),
    _option(
        "--cluster",
        metavar="NAME",
        type=ID,
        help="Only this cluster; required if several clusters have the group or topic.",
    ),
    _option(
        "--engine",
        type=CaseInsensitiveChoice(_ENGINES),
        help="Engine that runs the query; results are the same.  [default: duckdb, or spark if "
        "only Spark is installed]",
    ),
    spark_options("local[*] with --engine spark"),
)
"""Adds the options for a warehouse and engine; the command takes ``warehouse``."""
