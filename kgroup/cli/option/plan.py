"""Options of every plan: how it is shown, and what no source tells of a group's programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import PATH, add_options, parsed
from kgroup.cli.option.parameter import parse_duration, parse_some_time
from kgroup.cli.option.source import Source, sample_cluster
from kgroup.cli.output.context import documented, flush, show, warn_report, write
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus, near_names

if TYPE_CHECKING:
    from kgroup.operation.plan.plan import Plan
    from kgroup.operation.plan.zookeeper_group import OldGroup
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource

CONSUMER_CONFIG_OPTION = click.option(
    "--consumer-config",
    metavar="FILE",
    type=PATH,
    help="Settings of the members (consumer.properties), which nothing in ZooKeeper tells.",
)


_LONGEST_MS = 86_400_000


def _parse_played(text: str) -> int:
    """Read a length of time that is played.

    Raises:
        ValueError: it is none, or longer than a day.
    """
    if (length_ms := parse_duration(text)) > _LONGEST_MS:
        raise ValueError(f"expected a day (1d) at most, as all of it is played, found {text!r}")
    return length_ms


def habit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what the simulator needs to know; the command takes ``habits: Habits``."""

    @wraps(command)
    def with_habits(
        *, poll_interval: int, restart_time: int, seed: int, at_once: int | None, **rest: Any
    ) -> Any:
        from kgroup.operation.plan.forecast import ProgramBehavior

        return command(habits=ProgramBehavior(poll_interval, restart_time, seed, at_once), **rest)

    return add_options(
        with_habits,
        click.option(
            "--poll-interval",
            metavar="TIME",
            default="500ms",
            show_default=True,
            callback=parsed(parse_some_time),
            help="How long a member takes for what a poll() has given, until the next.",
        ),
        click.option(
            "--restart-time",
            metavar="TIME",
            default="5s",
            show_default=True,
            callback=parsed(_parse_played),
            help="How long a restart takes, from the end of a program to its next start.",
        ),
        click.option(
            "--at-once",
            metavar="N",
            type=click.IntRange(1),
            help="How many members are restarted at a time.  [default: 1; of more than 20 members "
            "a twentieth]",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**63 - 1),
            default=0,
            show_default=True,
            help="Of everything that chance decides in the forecast.",
        ),
    )


DIAGRAM_OPTION = click.option(
    "--diagram", is_flag=True, help="Write a Mermaid diagram of the steps."
)


def _consumer_config(path: Path) -> tuple[Mapping[str, str], list[str]]:
    """Read settings of a group's members, with notes on those that none of theirs is.

    Raises:
        InputError: the file cannot be read.
        UsageError: it is malformed.
    """
    from kgroup.operation.plan.zookeeper_group import BECOMES
    from kgroup.source.config.client_setting import JAVA_BLANK
    from kgroup.source.config.properties_file import read_properties

    settings = read_properties(path)
    notes = [
        f"{each.where} is no setting of consumers of Kafka 0.8; they pass it over"
        f"{near_names(each.key, BECOMES)}"
        for each in settings
        if each.key not in BECOMES
    ]
    return {each.key: each.value.strip(JAVA_BLANK) for each in settings}, notes


def write_plans(
    command: str,
    source: Source,
    groups: Sequence[str],
    make: Callable[[GroupSource, Sequence[str]], Report[Plan]],
    output: Output,
    *,
    diagram: bool,
) -> ExitStatus:
    """Make plans of what a source says, and write them in the form that the user chose, or drawn.

    Args:
        command: name for the JSON document.
        source: of groups.
        groups: names; what none comes to, `make` knows.
        make: plans for them, from the source that has them.
        output: form, columns and heads.
        diagram: draw them.

    Raises:
        UsageError: click's, of a drawing in another form.
    """
    if diagram and (output.form != "table" or output.columns):
        raise click.UsageError("--diagram is a drawing; leave it out, or -o and --columns")
    reports = []
    with documented(command, output):
        for chosen, names in source.divided(groups):
            with chosen.open() as opened:
                reports.append(make(opened, names))
    from kgroup.operation.report import joined
    from kgroup.render import plan as render

    report = joined(reports)

    if not diagram:
        return show(command, report, output, render.steps_sheet, render.plans_text)
    for each in report.data:
        write(render.diagram_text(each))
    flush()
    warn_report(report)
    return report.exit_status


def write_old_plans(
    command: str,
    source: Source,
    groups: Sequence[str],
    make: Callable[[OldGroup], Plan],
    consumer_config: Path | None,
    output: Output,
    *,
    diagram: bool,
) -> ExitStatus:
    """Do the same for groups on ZooKeeper.

    Args:
        command: name for the JSON document.
        source: of groups.
        groups: names.
        make: makes a plan for one of them.
        consumer_config: file with settings of their members; None: nobody tells them.
        output: form, columns and heads.
        diagram: draw the plans.
    """

    def made(opened: GroupSource, groups: Sequence[str]) -> Report[Plan]:
        from kgroup.operation.plan.zookeeper_group import plan_old

        address = None if source.zookeeper is None else str(source.zookeeper)
        settings, notes = ({}, []) if consumer_config is None else _consumer_config(consumer_config)
        with sample_cluster(source) as cluster:
            report = plan_old(opened, groups, settings, address, make, cluster)
        return replace(report, notes=(*notes, *report.notes))

    return write_plans(command, source, groups, made, output, diagram=diagram)
