"""`kgroup check`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import (
    FOLDER,
    ID,
    PATH,
    check_all,
    examples,
    log_budget_option,
    output_options,
    parsed,
    regex_option,
)
from kgroup.cli.option.file import read_whole
from kgroup.cli.option.parameter import parse_seconds
from kgroup.cli.option.source import Source, missing_source, source_options
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import (
    Output,
    discard,
    flush,
    json_errors,
    show,
    warn,
    warn_report,
    write,
)
from kgroup.cli.shell.suggestion import suggest_rules
from kgroup.cli.usage import usage_message
from kgroup.errors import ExitStatus, KgroupError, UsageError, install_advice, near_names
from kgroup.model.pattern import Pattern

if TYPE_CHECKING:
    from kgroup.cli.option.warehouse import HistoryChoice
    from kgroup.history.sql.engine import Engine
    from kgroup.history.warehouse.store import Location
    from kgroup.operation.check.look import Evidence, GroupThresholds, Past, Thresholds
    from kgroup.operation.check.rule import Finding, Rule

    _LookBack = Callable[[Evidence], Past]

SMALL_LOG = 64 << 20
"""Maximum bytes of log directories of which the past of all groups is checked by default."""
_NO_PAST = (
    "The past was not checked; for named groups, --limit past=1h checks it (--no-past: omit this "
    "note)."
)


def _parse_rules(texts: Sequence[str]) -> frozenset[Rule]:
    from kgroup.operation.check.rule import Rule

    for text in texts:
        if text not in set(Rule):
            suggestion = near_names(text, map(str, Rule))
            raise ValueError(f"no rule {text!r}; kgroup check --rules lists them{suggestion}")
    return frozenset(map(Rule, texts))


def _parse_limits(texts: Sequence[str]) -> list[tuple[str, float]]:
    from kgroup.operation.check.look import parse_limit

    limits = []
    for text in (part for limit in texts for part in limit.split(",")):
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"expected NAME=VALUE, as in old-commit=1h, found {text!r}")
        limits.append(parse_limit(name, value))
    return limits


class _Plugin(Command):
    """With --nagios, errors are reported in the format of a monitoring plugin."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the command line."""
        with _unknown(is_plugin="--nagios" in args):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _unknown(is_plugin=ctx.params["nagios"]):
            return super().invoke(ctx)


@contextmanager
def _unknown(*, is_plugin: bool) -> Iterator[None]:
    try:
        yield
    except (KgroupError, click.UsageError) as error:
        if not is_plugin:
            raise
        from kgroup.render.check import PLUGIN_UNKNOWN, plugin_line

        message = usage_message(error) if isinstance(error, click.UsageError) else str(error)
        status = _tell_plugin([plugin_line(f"KGROUP UNKNOWN - {message}")], PLUGIN_UNKNOWN)
        raise click.exceptions.Exit(status) from None


@click.command(
    "check",
    cls=_Plugin,
    epilog=examples(
        "kgroup check --sample",
        "kgroup check --sample pricing --explain",
        "kgroup check --rules",
        "kgroup why -b kafka-1:9092 billing --explain",
        "kgroup check --sample click-stats -o json",
        "kgroup check -b kafka-1:9092 --interval 60",
        "kgroup check -C prod --warehouse warehouse --limit past=7d",
        "kgroup check -C prod billing --fail-on error --nagios",
        "kgroup check -b kafka-1:9092 billing --limit lag=10000,time-lag=5m",
        "kgroup check -C prod --baseline known.json --prometheus",
        "kgroup check --zookeeper zk-1:2181/kafka billing --strategy roundrobin",
    ),
)
@groups_argument
@click.option(
    "--all", "every", is_flag=True, help="Check every group; the default if no groups are named."
)
@regex_option
@source_options(required=False)
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    callback=parsed(parse_seconds),
    help="Look twice, SECONDS apart: detects backward commits, endless rebalances and, from 60 "
    "on, stuck partitions. The wait does not count toward --timeout.",
)
@click.option(
    "--no-past",
    is_flag=True,
    help="Check the current state only. By default, the recent records of __consumer_offsets are "
    "read to find what led to that state: those of named groups, of a cluster (up to --log-budget) "
    "or a log directory; those of all groups if the log directory has at most 64 MiB of them.",
)
@click.option(
    "--warehouse",
    metavar="DIR",
    type=FOLDER,
    help="Also check the past in a warehouse of 'kgroup history build'; for named groups, the "
    "log continues it.",
)
@click.option(
    "--cluster",
    metavar="NAME",
    type=ID,
    help="Check this cluster of the warehouse; required if it has several, and none of them is "
    "the checked cluster.",
)
@click.option(
    "--rule",
    "rules",
    metavar="CODE",
    multiple=True,
    callback=parsed(_parse_rules),
    shell_complete=suggest_rules,
    help="Check only this rule. Repeatable.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also show, in tables, the evidence of each finding, what it means and what to do.",
)
@click.option("--rules", "lists_rules", is_flag=True, help="List the rules, and check nothing.")
@click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE,...",
    multiple=True,
    callback=parsed(_parse_limits),
    help="Change thresholds. Defaults: old-commit=3m, expiring=1d, rebalance=1m, transaction=15m, "
    "stuck=1m, past=1d, rebalances=5, generations=100, uneven=2, coordinated=2; lag=RECORDS and "
    "time-lag=DURATION are off by default. A profile can set others, also for single groups.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info"]),
    default="warning",
    show_default=True,
    help="Lowest severity for which the exit status is 5.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    type=PATH,
    help="Leave out the findings in this file, which an earlier check wrote with -o json.",
)
@click.option(
    "--strategy",
    type=click.Choice(["range", "roundrobin"]),
    help="partition.assignment.strategy of ZooKeeper consumers.  [default: the strategy that "
    "matches the current owners, else range]",
)
@click.option(
    "--nagios",
    is_flag=True,
    help="Write the output and exit status of a Nagios or Icinga plugin. The past is checked only "
    "with --warehouse, or if --rule or --limit names a rule or threshold of the past (--limit "
    "past=1h).",
)
@click.option(
    "--prometheus",
    is_flag=True,
    help="Write metrics for node-exporter's textfile collector. The past is checked as with "
    "--nagios.",
)
@log_budget_option
@output_options("check.FINDING_COLUMNS", {"--rules": "check.RULE_COLUMNS"})
def command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    source: Source,
    interval_s: float | None,
    no_past: bool,
    warehouse: Location | None,
    cluster: str | None,
    rules: frozenset[Rule],
    explain: bool,
    lists_rules: bool,
    limits: list[tuple[str, float]],
    fail_on: str,
    baseline: Path | None,
    strategy: str | None,
    nagios: bool,
    prometheus: bool,
    log_budget: int,
    output: Output,
) -> ExitStatus | int:
    """Find problems, and what to do; also lag for Prometheus.

    Checks members, assignments, commits and lag and, if all groups are checked, the brokers that
    coordinate them. For named groups, and for all groups of a small log directory, the recent
    records of __consumer_offsets show what led to the current state (requires DuckDB). A table has
    a row for each finding, worst first, with the commands to run next below it, and the number of
    groups without findings. Consequences of a finding stand below it. For named groups, the
    advice about errors and warnings follows. The exit status is 5 if a finding has the severity of
    --fail-on or a higher one.

    'kgroup why' is another name of this command.
    """
    if lists_rules:
        return _list_rules(output)
    check_all(groups, regex, every=every)
    if nagios and prometheus:
        raise click.UsageError(
            "--nagios and --prometheus are two output formats; choose one of them"
        )
    if (nagios or prometheus) and (output.form != "table" or output.columns):
        raise click.UsageError(
            "--nagios and --prometheus are output formats; leave out -o and --columns"
        )
    if source == Source():
        raise missing_source()
    if interval_s is not None and source.file is not None:
        raise click.UsageError(
            f"--interval looks twice, but a {source.file.format.name} does not change"
        )
    if cluster is not None and warehouse is None:
        raise click.UsageError("--cluster requires --warehouse DIR")
    if no_past and warehouse is not None:
        raise click.UsageError(
            "--warehouse checks the past, --no-past does not; choose one of them"
        )
    from kgroup.model.group import GroupType
    from kgroup.operation.check.check import Request, check
    from kgroup.operation.check.look import PAST_LIMITS, read_baseline
    from kgroup.operation.check.rule import PAST_RULES, Severity
    from kgroup.render import check as render

    pause = None if interval_s is None else partial(time.sleep, interval_s)
    source = source.that_has(groups)
    known = frozenset() if baseline is None else read_baseline(read_whole(baseline), str(baseline))
    all_limits, group_limits = _all_limits(source, limits)
    for_monitoring = nagios or prometheus
    limits_past = any(field in PAST_LIMITS for field, _ in limits)
    asks_past = rules & PAST_RULES if rules else limits_past or not for_monitoring
    has_past = source.has_records and not no_past and bool(asks_past)
    reads_log = has_past and bool(
        log_budget if groups else warehouse is None and _is_small_log(source)
    )
    request = Request(
        groups,
        regex,
        rules,
        all_limits,
        Severity(fail_on),
        known,
        strategy,
        log_budget,
        group_limits,
        time_lags=prometheus,
    )
    with (
        json_errors(output),
        _past(
            source, warehouse, cluster, log_budget if reads_log else None, at_once=not groups
        ) as look_back,
        source.open(of_silence=not groups, in_rounds=pause is not None) as opened,
    ):
        try:
            audit = check(
                opened,
                request,
                lambda: None if opened.is_log else source.instant_ms(opened),
                pause,
                look_back,
            )
        except KgroupError:
            if prometheus:  # otherwise, an empty file would replace the last metrics
                write(render.prometheus_failure())
            raise
        report = audit.report
        has_kafka = any(each.group.type is not GroupType.ZOOKEEPER for each in audit.groups)
        if groups and has_kafka and source.file and not no_past and warehouse is None:
            note = "A snapshot has no past: only the state in it was checked."
            report = replace(report, notes=(*report.notes, note))
        is_unread = source.has_records and not no_past and not reads_log and warehouse is None
        if is_unread and for_monitoring and not rules:
            report = replace(report, notes=(*report.notes, _NO_PAST))
        elif is_unread and asks_past and output.form == "table":
            report = replace(report, notes=(*report.notes, *_next_look(report.data)))
    if not for_monitoring:
        page = partial(
            render.findings_page,
            groups=[description.group.group_id for description in audit.groups],
            errors=report.errors,
            is_new=bool(known),
            explain=explain,
            advise=bool(groups),
        )
        return show(report, output, page, always=bool(audit.groups))
    status = int(report.exit_status)
    if nagios:
        status = _tell_plugin(render.nagios_lines(audit), render.nagios_status(audit))
    else:
        write(render.prometheus_lines(audit))
        flush()
    warn_report(report)
    return status


def _is_small_log(source: Source) -> bool:
    """Return whether the source is log directories of which all records are read in seconds."""
    from kgroup.source.log.segment_file import find_segments

    if not source.paths:
        return False
    try:
        segments = find_segments(source.paths, on_problem=lambda problem: None)
        return sum(segment.path.stat().st_size for segment in segments) <= SMALL_LOG
    except (KgroupError, OSError):
        return False  # opening the source reports it


def _next_look(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a note that the past was not checked, with the command for the worst group."""
    from kgroup.operation.printed_command import Reach, kgroup_command, reaching

    of_groups = [finding for finding in findings if finding.group_id is not None]
    worst = min(of_groups, key=lambda finding: finding.severity.rank, default=None)
    if worst is not None and worst.group_id is not None:
        command = kgroup_command("why", (worst.group_id,), reaching(Reach.SOURCE))
        yield (
            "The past is checked only for named groups. To see what led to the state of "
            f"{worst.group_id}, run: {command}"
        )


def _tell_plugin(lines: Iterable[str], status: int) -> int:
    """Write the plugin output, and return its status: UNKNOWN if it cannot be written."""
    from kgroup.render.check import PLUGIN_UNKNOWN

    try:
        write(lines)
        flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        warn(f"error: {error.filename}: {error.strerror}")
        discard()
        return PLUGIN_UNKNOWN
    return status


@contextmanager
def _past(
    source: Source,
    root: Location | None,
    cluster: str | None,
    log_budget: int | None,
    *,
    at_once: bool,
) -> Iterator[_LookBack | None]:
    """Yield a function that checks the past; None without a warehouse or a budget for the log."""
    if root is None and log_budget is None:
        yield None
        return
    from kgroup.cli.option.warehouse import HistoryChoice, SparkChoice, WarehouseChoice
    from kgroup.history.query.check import cluster_checked, look_back
    from kgroup.history.sql.question import cluster_names
    from kgroup.operation.printed_command import connected_by

    choice = WarehouseChoice(root or Path(), cluster, None, SparkChoice(None, {}))
    records = HistoryChoice(choice, root is not None, source, (), log_budget or 0, is_open=True)
    if root is None:
        yield partial(_look_back_on_log, records, None, at_once=at_once)
        return
    with (
        choice.open() as engine,
        connected_by(warehouse=choice.words, is_continued=log_budget is not None),
        ExitStack() as stack,
    ):
        look = partial(look_back, engine, cluster=cluster)
        if log_budget is not None:
            look = partial(_look_back_on_log, records, engine, at_once=False)

        def look_back_on_cluster(evidence: Evidence) -> Past:
            if cluster is None and len(cluster_names(engine)) > 1:
                chosen = replace(choice, cluster=cluster_checked(engine, evidence))
                stack.enter_context(connected_by(warehouse=chosen.words))
            return look(evidence)

        yield look_back_on_cluster


def _look_back_on_log(
    records: HistoryChoice, engine: Engine | None, evidence: Evidence, *, at_once: bool
) -> Past:
    """Check the past of each group in the log, and in the warehouse of `engine` if there is one.

    With `at_once`, the log is read once for all groups, rather than the records of each.
    """
    from importlib.util import find_spec

    from kgroup.history.query.check import cluster_checked, look_back, look_back_on_groups
    from kgroup.operation.check.look import Past
    from kgroup.operation.check.rule import Basis
    from kgroup.render.cell import problem_line

    if engine is None and find_spec("duckdb") is None:
        reason = f"this needs DuckDB; {install_advice('history')}, or leave it out: --no-past"
        return Past((), notes=(f"The past was not checked: {reason}",))
    if engine is not None and records.cluster is None:
        cluster = cluster_checked(engine, evidence)
        records = replace(records, warehouse=replace(records.warehouse, cluster=cluster))

    def ask(question: Callable[[Engine], Past], group_id: str | None) -> Past:
        past = records.ask(question, group_id, evidence.now.time_ms - evidence.limits.past_ms)
        reasons = map(problem_line, past.errors)
        whose = "The log" if group_id is None else f"The log of {group_id}"
        unread = (f"{whose} was not fully checked: {reason}" for reason in reasons)
        return replace(past, errors=(), notes=(*past.notes, *unread))

    if at_once:
        try:
            return ask(partial(look_back, evidence=evidence, basis=Basis.LOG), None)
        except (KgroupError, OSError) as error:  # such as two clusters, or no temporary space
            return Past((), notes=(f"The log was not checked: {error}",))
    return look_back_on_groups(ask, evidence, stored=engine, cluster=records.cluster)


def _list_rules(output: Output) -> ExitStatus:
    from kgroup.operation.check.rule import describe_rules
    from kgroup.operation.report import Report

    return show(Report(tuple(describe_rules())), replace(output, command="check --rules"))


def _all_limits(
    source: Source, typed: Sequence[tuple[str, float]]
) -> tuple[Thresholds, tuple[GroupThresholds, ...]]:
    """Return the thresholds of all groups, and of some groups, from profile and command line.

    The command line takes precedence.
    """
    from kgroup.operation.check.look import Thresholds, parse_group_limits, parse_limit, with_limits

    connection = source.connection
    if connection is None:
        return with_limits(Thresholds(), typed), ()
    name = connection.profile_name(with_environment=source.zookeeper is None)
    if name is None:
        return with_limits(Thresholds(), typed), ()
    from kgroup.source.config.profile import config_file, read_check_profile

    profile = read_check_profile(name, config_file(dict(os.environ)))
    where, strongest = profile.origin, {field for field, _ in typed}
    try:
        limits = [parse_limit(key, value) for key, value in profile.limits.items()]
        groups = []
        for key, values in profile.group_limits.items():
            where = f"{profile.origin}: groups: {key}"
            groups.append(parse_group_limits(key, values, strongest))
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    return with_limits(Thresholds(), [*limits, *typed]), tuple(groups)
