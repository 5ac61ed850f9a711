"""Options of history commands: warehouse, source, engine, Spark, groups, topics and times."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

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
    source_option,
)
from kgroup.cli.option.execution import execute_option
from kgroup.cli.option.parameter import parse_duration
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import warn
from kgroup.cli.output.progress import ProgressLine
from kgroup.errors import (
    KgroupError,
    NotFoundError,
    UnknownGroupError,
    UsageError,
    install_advice,
    near_names,
)
from kgroup.model.instant import shown_time

if TYPE_CHECKING:
    from kgroup.history.build.build import BuildFrom
    from kgroup.history.sql.engine import Engine
    from kgroup.history.sql.question import LogEnd
    from kgroup.history.warehouse.store import Location
    from kgroup.history.warehouse.warehouse import Warehouse, WarehouseWriter
    from kgroup.operation.report import Report
    from kgroup.source.config.client_config import ClientConfig


_ENGINES = ("duckdb", "spark")


@dataclass(frozen=True, slots=True)
class WarehouseChoice:
    """The selected warehouse and engine.

    Attributes:
        root: where the warehouse is.
        cluster: cluster to query; None: all clusters.
        engine: "duckdb" or "spark"; None: the installed one.
        spark: options of Spark.
    """

    root: Location
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
            self._warn_of_gaps(warehouse)
            yield engine

    def warn_of_gaps(self) -> None:
        """Print a note if records may be missing from the tables."""
        from kgroup.history.warehouse.warehouse import read_warehouse

        with read_warehouse(self.root) as warehouse:
            self._warn_of_gaps(warehouse)

    def _warn_of_gaps(self, warehouse: Warehouse) -> None:
        clusters = warehouse.clusters if self.cluster is None else (self.cluster,)
        for cluster in clusters:
            retained_ms = warehouse.retained_ms(cluster)
            if retained_ms is not None:
                of_cluster = f" of cluster {cluster}" if len(clusters) > 1 else ""
                warn(
                    f"note: records{of_cluster} before {shown_time(retained_ms)} have expired; "
                    "answers about earlier times are incomplete"
                )
        count = warehouse.row_count("damage", self.cluster)
        if count:
            asking = self.command("sql", "SELECT * FROM damage")
            warn(
                f"note: records may be missing: {count:,} problem{'s' * (count > 1)} with the log "
                f"(damage, or copies of a partition that differ); to list them, run: {asking}"
            )

    def command(self, question: str, *names: str, options: Sequence[str] = ()) -> str:
        """Return another command for the same warehouse, to paste into a shell."""
        from kgroup.operation.printed_command import kgroup_command

        return kgroup_command(f"history {question}", names, (*options, *self.words))

    @property
    def words(self) -> tuple[str, ...]:
        """The options as given."""
        from kgroup.history.warehouse.store import as_typed

        cluster = () if self.cluster is None else ("--cluster", self.cluster)
        engine = () if self.engine is None else ("--engine", self.engine)
        return ("--warehouse", as_typed(self.root), *cluster, *engine, *self.spark.words)

    @contextmanager
    def open_both(self, opened: Warehouse | None = None) -> Iterator[tuple[Warehouse, Engine]]:
        """Yield the warehouse and an engine; otherwise as `open`.

        Args:
            opened: the warehouse, if it is open already.

        The error about a missing group also says how to list all groups.
        """
        from kgroup.history.warehouse.warehouse import read_warehouse

        with read_warehouse(self.root) if opened is None else nullcontext(opened) as warehouse:
            check_cluster(warehouse, self.cluster)
            with self._engine(warehouse.files(self.cluster)) as engine:
                try:
                    yield warehouse, engine
                except UnknownGroupError as error:
                    listing = self.command("show", options=["--groups"])
                    text = f"{error} To list the groups, run: {listing}"
                    raise UnknownGroupError(text, group_id=error.group_id) from None

    @contextmanager
    def _engine(self, files: Mapping[str, Sequence[Location]]) -> Iterator[Engine]:
        if (self.engine or _default_engine()) == "duckdb":
            from kgroup.history.sql.engine import DuckEngine

            with DuckEngine(files) as duck:
                yield duck
        else:
            from kgroup.history.warehouse.store import RemotePath
            from kgroup.spark.engine import SparkEngine
            from kgroup.spark.session import spark_session

            if any(isinstance(path, RemotePath) for paths in files.values() for path in paths):
                raise UsageError(
                    "Spark answers questions about warehouses in folders, not in object stores; "
                    "use --engine duckdb"
                )
            with spark_session(self.spark.master, self.spark.settings) as session:
                yield SparkEngine(session, files)


def check_cluster(warehouse: Warehouse, cluster: str | None) -> None:
    """Raise NotFoundError if a warehouse does not have a cluster."""
    if cluster is not None and cluster not in warehouse.clusters:
        known = ", ".join(warehouse.clusters) or "none yet"
        raise NotFoundError(
            f"{warehouse.root}: the warehouse has no cluster {cluster}; its clusters are: {known}"
        )


def _default_engine() -> str:
    from importlib.util import find_spec

    for name, module in zip(_ENGINES, ("duckdb", "pyspark"), strict=True):
        if find_spec(module) is not None:
            return name
    raise KgroupError(
        "a query of a warehouse needs DuckDB or Spark, and neither is installed; "
        f"{install_advice('history', 'spark')}"
    )


def _warehouse(
    root: Location, cluster: str | None, engine: str | None, spark: SparkChoice
) -> WarehouseChoice:
    if spark.master is not None or spark.settings:
        if engine == "duckdb":
            raise click.UsageError("--master and --spark-conf require --engine spark")
        engine = "spark"
    return WarehouseChoice(root, cluster, engine, spark)


DEFAULT_LOG_BUDGET_MIB = 1024
"""Default of `--log-budget`."""

_DEFAULT_AGE_MS = 24 * 3_600_000
"""Age from which on the records of a cluster are read by default."""

_Answer = TypeVar("_Answer", bound="Report[Any]")
_Planned = TypeVar("_Planned")


@dataclass(frozen=True, slots=True)
class HistoryChoice:
    """The records that a question is about: those of a warehouse, of a source, or of both.

    Attributes:
        warehouse: options of the warehouse, for the engine even without one.
        has_warehouse: whether there is one.
        source: log directories or a cluster.
        locations: paths and URIs of `--from`.
        log_budget: bytes to read of a cluster.
        is_open: whether the command has opened the source, too, and warned of its settings.
    """

    warehouse: WarehouseChoice
    has_warehouse: bool
    source: Source
    locations: tuple[str, ...]
    log_budget: int
    is_open: bool = False

    @property
    def cluster(self) -> str | None:
        """Cluster to query; None: the only one."""
        return self.warehouse.cluster

    @property
    def _has_source(self) -> bool:
        """Whether there is a source; the cluster of the environment counts without a warehouse."""
        return bool(self.source.is_named or self.locations or not self.has_warehouse)

    def ask(
        self,
        question: Callable[[Engine], _Answer],
        group_id: str | None,
        since_ms: int | None = None,
        *,
        needs_all: bool = False,
        with_others: bool = False,
        with_log_ends: bool = False,
    ) -> _Answer:
        """Ask a question; records that could not be read are added to the answer's errors.

        Args:
            question: called with the engine.
            group_id: the only group that the question is about; None: all groups.
            since_ms: time from which records are wanted; None: for 24 hours.
            needs_all: whether older records are needed in any case.
            with_others: keep also what is read of other groups, such as the names of topics.
            with_log_ends: also record where the logs of the group's partitions end in a cluster.

        Raises:
            InputError: there is no record to read, or a file cannot be read.
            BrokerError: no broker answers.
            NotFoundError: there are no records of the group.
        """
        if not self._has_source:
            with self.warehouse.open() as engine:
                return question(engine)
        from kgroup.history.build.recorded import recorded
        from kgroup.spark.runner import runner

        base = self.warehouse.root if self.has_warehouse else None
        connection = self.source.connection
        config = None if connection is None else connection.client_config(warns=not self.is_open)
        progress = ProgressLine(writes_rows=False)
        with (
            self._printed(config),
            runner(None, {}, lambda text: None, progress.on_compile) as run,
            recorded(
                self._build_from(
                    config, group_id, since_ms, needs_all=needs_all, with_log_ends=with_log_ends
                ),
                run,
                group_id=None if with_others else group_id,
                base=base,
                on_progress=progress.show_share,
            ) as (warehouse, report),
        ):
            progress.finish()
            if base is not None and not self.is_open:
                self.warehouse.warn_of_gaps()
            choice = replace(self.warehouse, root=warehouse.root, cluster=None)
            try:
                # damage of the source is in the report
                with choice.open_both(warehouse) as (_, engine):
                    answer = question(engine)
            except UnknownGroupError as error:
                raise self._no_records(error.group_id, report) from None
            except NotFoundError as error:
                unread = " ".join((*(problem.reason for problem in report.errors), *report.notes))
                if not unread:
                    raise
                raise NotFoundError(f"{error}. {unread}", topic=error.topic) from None
        return replace(
            answer, errors=(*report.errors, *answer.errors), notes=(*report.notes, *answer.notes)
        )

    def log_ends(self, engine: Engine, group_id: str) -> Sequence[LogEnd]:
        """Return where the logs of a group's committed partitions end in the log directories.

        Empty for a cluster, whose log ends are recorded with its records.
        """
        if self.locations or not self._has_source or self.source.connection is not None:
            return ()
        from kgroup.history.sql.question import LogEnd, committed_partitions

        partitions = committed_partitions(engine, group_id)
        with self.source.open() as source:
            ranges = source.log_ranges(partitions).ranges
            time_ms = self.source.instant_ms(source)
        return [LogEnd(*at, log.start, log.end, time_ms) for at, log in sorted(ranges.items())]

    def _build_from(
        self,
        config: ClientConfig | None,
        group_id: str | None,
        since_ms: int | None,
        *,
        needs_all: bool,
        with_log_ends: bool,
    ) -> BuildFrom:
        from kgroup.history.build.build import build_from_files
        from kgroup.history.build.recorded import UNNAMED, build_from_recent

        connection = self.source.connection
        if connection is None or config is None:
            locations = (*self.locations, *map(str, self.source.paths))
            return build_from_files(locations, self.cluster, unnamed=UNNAMED, is_summed=False)
        if since_ms is None and not self.has_warehouse:  # a warehouse is continued from its end
            since_ms = time.time_ns() // 1_000_000 - _DEFAULT_AGE_MS
        return build_from_recent(
            config,
            group_id,
            cluster=self.cluster,
            timeout_s=connection.timeout_s,
            since_ms=None if needs_all else since_ms,
            budget=self.log_budget,
            with_log_ends=with_log_ends,
        )

    @contextmanager
    def _printed(self, config: ClientConfig | None) -> Iterator[None]:
        """Have printed commands read the same source."""
        connection = self.source.connection
        if connection is None or config is None:
            from kgroup.operation.printed_command import connected_by

            with connected_by(source=self.source.words):
                yield
        else:
            with connection.printed(config):
                yield

    def _no_records(self, group_id: str | None, report: Report[Any]) -> UnknownGroupError:
        from kgroup.operation.printed_command import Reach, kgroup_command, reaching

        if self.locations:
            return UnknownGroupError(f"group {group_id!r} has no record there", group_id=group_id)
        meant = near_names(group_id or "", sorted(self.source.group_ids())) or "."
        what = "what was read of " if report.errors or report.notes else ""
        listing = kgroup_command("list", (), reaching(Reach.SOURCE))
        return UnknownGroupError(
            f"group {group_id!r} has no record in {what}__consumer_offsets{meant} To list the "
            f"groups, run: {listing}",
            group_id=group_id,
        )


def is_below(path: Path, root: Location) -> bool:
    """Return whether a path is in the folder of a warehouse."""
    return isinstance(root, Path) and path.resolve().is_relative_to(root.resolve())


def _required_warehouse(
    root: Location | None, cluster: str | None, engine: str | None, spark: SparkChoice
) -> WarehouseChoice:
    return _warehouse(_required_root(root), cluster, engine, spark)


def _required_root(root: Location | None) -> Location:
    if root is None:
        raise click.UsageError(
            "no warehouse given: use --warehouse DIR, a folder that 'kgroup history build' wrote"
        )
    return root


@contextmanager
def explain_write_errors(
    root: Location, outcome: str = "The tables are unchanged."
) -> Iterator[None]:
    """Add the effect on the tables to write errors, such as a full disk."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        place = "" if reason.startswith(f"{root}/") else f"{error.filename or root}: "
        raise KgroupError(f"{place}{reason}. {outcome}") from None


group_argument: Decorator = click.argument(
    "group_id", metavar="GROUP", type=ID, shell_complete=suggest_groups
)
"""Group id, as ``group_id``."""

any_group_argument: Decorator = click.argument(
    "group_id", metavar="[GROUP]", type=ID, required=False, shell_complete=suggest_groups
)
"""Group id, as ``group_id``; None for all groups."""

topic_option: Decorator = click.option(
    "--topic", metavar="NAME", type=TOPIC, help="Select this topic."
)


to_option: Decorator = click.option(
    "--to",
    "root",
    metavar="DIR",
    type=OutputFolder(),
    required=True,
    help="Folder of the warehouse, or s3://BUCKET/PATH or gs://BUCKET/PATH: a new place, or an "
    "existing warehouse.",
)
"""Where to write the tables, as ``root``."""


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


def _history(
    source: Source,
    root: Location | None,
    cluster: str | None,
    engine: str | None,
    spark: SparkChoice,
    locations: Sequence[str],
    log_budget_mib: int,
) -> HistoryChoice:
    if locations and source.is_named:
        raise click.UsageError("--from and another source are two sources; choose one of them")
    if root is None and not locations and source == Source():
        raise click.UsageError(
            "no records given: use --bootstrap-server HOST:PORT or --profile NAME (a cluster), "
            "--log-dir PATH or --from PATH (files), --sample, or --warehouse DIR (a folder that "
            "'kgroup history build' wrote)"
        )
    warehouse = _warehouse(root or Path(), cluster, engine, spark)
    budget = log_budget_mib << 20
    return HistoryChoice(warehouse, root is not None, source, tuple(locations), budget)


_option = partial(click.option, cls=BlockOption, block=Block.WAREHOUSE)
_WAREHOUSE_OPTION = _option(
    "--warehouse",
    "root",
    metavar="DIR",
    type=FOLDER,
    envvar="KGROUP_WAREHOUSE",
    show_envvar=True,
    help="Folder, s3:// or gs:// URI of the warehouse that 'kgroup history build' wrote.",
)
_CHOICE_OPTIONS: Sequence[Decorator] = (
    _option(
        "--cluster",
        metavar="NAME",
        type=ID,
        help="Select this cluster; required if several clusters have the group or topic.",
    ),
    _option(
        "--engine",
        type=CaseInsensitiveChoice(_ENGINES),
        help="Engine that runs the query; results are the same.  [default: duckdb, or spark if "
        "only Spark is installed]",
    ),
    spark_options("local[*] with --engine spark"),
)
warehouse_options = options_into(
    "warehouse", _required_warehouse, _WAREHOUSE_OPTION, *_CHOICE_OPTIONS
)
"""Adds the options for a warehouse and engine; the command takes ``warehouse``."""


@dataclass(frozen=True, slots=True)
class StoredChoice:
    """What to change in a warehouse.

    Attributes:
        root: where the warehouse is.
        cluster: the cluster to change; None: all clusters.
        execute: whether to carry out the change.
    """

    root: Location
    cluster: str | None
    execute: bool

    def plan(
        self, plan: Callable[[Warehouse], _Planned], change: Callable[[WarehouseWriter], _Planned]
    ) -> _Planned:
        """Return what is to be changed, or has been.

        Args:
            plan: finds what is to be changed.
            change: does it.

        Raises:
            InputError: the folder is not a warehouse, or is damaged.
            NotFoundError: the warehouse does not have the cluster.
            KgroupError: another process is changing it, or a file cannot be written.
        """
        from kgroup.history.warehouse.warehouse import read_warehouse, write_warehouse

        with read_warehouse(self.root) as warehouse:
            check_cluster(warehouse, self.cluster)
            if not self.execute:
                return plan(warehouse)
        with explain_write_errors(self.root), write_warehouse(self.root) as writer:
            return change(writer)


def _stored(root: Location | None, cluster: str | None, execute: bool) -> StoredChoice:
    return StoredChoice(_required_root(root), cluster, execute)


stored_options = options_into(
    "stored", _stored, _WAREHOUSE_OPTION, _CHOICE_OPTIONS[0], execute_option
)
"""Adds the options for a change of a warehouse; the command takes ``stored``."""

whole_stored_options = options_into(
    "stored", partial(_stored, cluster=None), _WAREHOUSE_OPTION, execute_option
)
"""Adds them for a change that concerns all clusters; the command takes ``stored``."""

history_options = options_into(
    "records",
    _history,
    source_options(required=False, formats=False, zookeeper=False),
    source_option(
        "--from",
        "locations",
        metavar="PATH",
        multiple=True,
        help="Read a folder of segments, a segment of __consumer_offsets, or a URI such as "
        "s3://bucket/folder. Repeatable. With --warehouse, a source continues the warehouse.",
    ),
    click.option(
        "--log-budget",
        "log_budget_mib",
        metavar="MIB",
        type=click.IntRange(min=1),
        default=DEFAULT_LOG_BUDGET_MIB,
        show_default=True,
        help="Read at most this many MiB of __consumer_offsets of a cluster, back from the end of "
        "the group's partition, or of all partitions.",
    ),
    _WAREHOUSE_OPTION,
    *_CHOICE_OPTIONS,
)
"""Adds the options for the records of a question; the command takes ``records``."""
