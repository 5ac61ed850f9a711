"""`kgroup plan` without a target: which ones there are, and which make sense for groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.lazy_group import DefaultCommand, meant
from kgroup.cli.option.common import check_all, examples, given_options, output_options
from kgroup.cli.option.plan import habit_options
from kgroup.cli.option.source import Source, missing_source, source_options, with_sample_zookeeper
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus, ProblemKind

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.plan.forecast import ProgramBehavior

_OWN = ("every", "lists", "form", "columns", "no_headers")
"""Options that the commands of targets do not have, or that are of this output alone."""
_CONNECTION = ("bootstrap_server", "command_config", "overrides", "profile", "timeout_s")
"""Options that are written as all commands are that kgroup prints."""


@click.command(
    "plan",
    cls=DefaultCommand,
    epilog=examples(
        "kgroup plan --list",
        "kgroup plan order-service --sample",
        "kgroup plan --all --sample",
        "kgroup plan billing -b kafka-1:9092 --restart-time 40s",
    ),
)
@groups_argument
@click.option("--list", "lists", is_flag=True, help="Name every target in a line.")
@click.option("--all", "every", is_flag=True, help="Every group.")
@source_options(required=False)
@habit_options
@output_options
def command(
    groups: Sequence[str],
    lists: bool,
    every: bool,
    source: Source,
    habits: ProgramBehavior,
    output: Output,
) -> ExitStatus:
    """Tell which migrations make sense for groups, and what each would save.

    The simulator plays a rolling restart of the group as it is, and as it would be. Each target
    that makes sense comes with the command that plans it.
    """
    from kgroup.cli.command.plan import COMMANDS
    from kgroup.operation.plan.advice import advise, every_target
    from kgroup.operation.report import joined
    from kgroup.render import plan as render

    if lists:
        given = [text for name, text in given_options().items() if name not in _OWN]
        if groups or every or given:
            raise click.UsageError("--list names all targets; leave out groups and what is of them")
        return show("plan", every_target(), output, render.targets_sheet)
    check_all(groups, None, every=every)
    text = meant(groups[0], COMMANDS) if groups else None
    if source == Source():
        raise click.UsageError(text) if text else missing_source()
    if not (groups or every):
        raise click.UsageError("which groups? Name them, or choose --all; --list names targets")
    sources = [*source.divided(groups)]
    if every and (zookeeper := with_sample_zookeeper(source)) is not source:
        sources.append((zookeeper, groups))
    reports = []
    with documented("plan", output):
        for each, names in sources:
            address = None if each.zookeeper is None else str(each.zookeeper)
            with each.open(of_silence=every) as opened:
                found = advise(opened, names, habits, options=_typed_options(), zookeeper=address)
            reports.append(found)
    report = joined(reports)
    if text and any(_is_missing(each, groups[0]) for each in report.errors):
        raise click.UsageError(text)
    return show("plan", report, output, render.advice_sheet, render.advice_text)


def _is_missing(problem: Problem, group_id: str) -> bool:
    return problem.group_id == group_id and problem.kind is ProblemKind.NOT_FOUND


def _typed_options() -> Sequence[str]:
    """Give the options that the command of a target is to have too: as typed, without secrets."""
    from kgroup.operation.printed_command import connection_words

    ctx = click.get_current_context()
    assert isinstance(ctx.command, DefaultCommand)
    typed: Mapping[str, Any] = ctx.command.typed(ctx)
    words: list[str] = []
    for option in ctx.command.params:
        name = option.name or ""
        if not isinstance(option, click.Option) or name not in typed:
            continue
        if name in _OWN or name in _CONNECTION:
            continue
        if option.is_flag:
            words.append(option.opts[0])
            continue
        for value in typed[name] if option.multiple else [typed[name]]:
            words += (option.opts[0], value)
    return [*connection_words(None), *words]
