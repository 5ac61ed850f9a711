"""`kgroup offsets reset`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import (
    ID,
    PATH,
    add_options,
    check_choice,
    examples,
    output_options,
    parsed,
    regex_option,
)
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.parameter import parse_time, parse_topics
from kgroup.cli.option.store import Store, store_options
from kgroup.cli.option.suggestion import groups_argument, suggest_topics
from kgroup.cli.output.context import documented
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern, parse_regex

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.offsets.read import AnyStore
    from kgroup.operation.offsets.reset import ResetTo

_MOST = (1 << 63) - 1
_GOALS: Mapping[str, Callable[[Any], Any]] = {
    "to_earliest": click.option(
        "--to-earliest", is_flag=True, help="To the first record that there is."
    ),
    "to_latest": click.option("--to-latest", is_flag=True, help="Behind the last record."),
    "to_offset": click.option(
        "--to-offset", metavar="N", type=click.IntRange(0, _MOST), help="To an offset."
    ),
    "to_time": click.option(
        "--to-time",
        metavar="TIME",
        callback=parsed(parse_time),
        help="To the first record of a time or later: RFC 3339, epoch milliseconds, or how long "
        "ago (2h).",
    ),
    "shift_by": click.option(
        "--shift-by", metavar="N", type=click.IntRange(-_MOST, _MOST), help="N on, or back with -N."
    ),
    "to_current": click.option(
        "--to-current",
        is_flag=True,
        help="To what is committed, and behind the last record where nothing is.",
    ),
    "to_group": click.option(
        "--to-group", metavar="GROUP", type=ID, help="To where another group is."
    ),
    "to_file": click.option("--to-file", metavar="FILE", type=PATH, help="To what a file has."),
}
"""Where to, by the names of the parameters; one of them is given."""


def _goal_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add where to; the command takes ``goal: tuple[str, value]``."""

    @wraps(command)
    def with_goal(**given: Any) -> Any:
        said = {name: given.pop(name) for name in _GOALS}
        chosen = [  # not by equality: 0 is a place, too
            (name, value)
            for name, value in said.items()
            if value is not None and value is not False
        ]
        if len(chosen) != 1:
            names = ", ".join("--" + name.replace("_", "-") for name in _GOALS)
            found = " and ".join("--" + name.replace("_", "-") for name, _ in chosen) or "none"
            raise click.UsageError(f"where to? Choose one of {names}; found {found}")
        return command(goal=chosen[0], **given)

    return add_options(with_goal, *_GOALS.values())


@click.command(
    "reset",
    epilog=examples(
        "kgroup offsets reset --sample invoice-batch --to-latest",
        "kgroup offsets reset -b kafka-1:9092 billing --topic orders:0,2 --to-time 2h --times",
        "kgroup offsets reset -b kafka-1:9092 billing --topic orders --shift-by -100 --execute",
        "kgroup offsets reset -b kafka-1:9092 billing-2 --to-group billing --execute --yes "
        "--allow-skip",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group that has committed something.")
@regex_option
@_goal_options
@click.option(
    "--topic",
    "topics",
    metavar="NAME[:P,...]",
    multiple=True,
    callback=parsed(parse_topics),
    shell_complete=suggest_topics,
    help="All partitions of this topic, or those of these numbers. Repeat it for more.  "
    "[default: what is committed]",
)
@click.option(
    "--topic-regex",
    metavar="RE",
    callback=parsed(parse_regex),
    help="Topics that the group has committed whose whole name matches.",
)
@click.option("--uncommitted", is_flag=True, help="Only partitions without a commit.")
@click.option(
    "--times",
    is_flag=True,
    help="Find out when the records were made that would be read next, before and after, and how "
    "many bytes lie between, where that is the whole partition.",
)
@store_options
@execution_options(skips=True)
@output_options
def command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    goal: tuple[str, Any],
    topics: dict[str, frozenset[int] | None],
    topic_regex: Pattern | None,
    uncommitted: bool,
    times: bool,
    store: Store,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Reset committed offsets.

    Without --topic, reset all partitions that the group has committed. An offset out of a
    partition's range becomes its start or end, and is marked. Groups with members are left alone:
    stop them first. Without --execute only the plan is shown. A plan that skips unread records says
    so in its first line and is confirmed separately; scripts need --allow-skip.
    """
    check_choice(groups, regex, every=every)
    from kgroup.operation.offsets.reset import PartitionSelection, plan_reset

    name = "offsets reset"
    selection = PartitionSelection(topics, topic_regex, uncommitted)
    with (
        documented(name, output),
        store.open(tuple(groups)) as target,
        store.open_cluster(target) as cluster,
    ):
        to = _reset_to(goal, groups, regex, target)
        plan = plan_reset(target, cluster, groups, to, selection, regex=regex, with_times=times)
        return execution.run(name, plan, target, store, output, cluster)


def _reset_to(
    goal: tuple[str, Any], groups: Sequence[str], regex: Pattern | None, store: AnyStore
) -> ResetTo:
    """Give where to, with the offsets of another group or a file."""
    from kgroup.operation.offsets.read import read_stored
    from kgroup.operation.offsets.reset import ResetTarget, ResetTo
    from kgroup.source.offset_file import OffsetFile

    name, value = goal
    simple = {
        "to_earliest": ResetTarget.EARLIEST,
        "to_latest": ResetTarget.LATEST,
        "to_current": ResetTarget.CURRENT,
    }
    if name in simple:
        return ResetTo(simple[name])
    if name == "to_file":
        found = read_stored(OffsetFile(value), groups, regex)
        _refuse(found.problems)
        return ResetTo(ResetTarget.OTHER, offsets=found.offsets)
    if name == "to_group":
        found = read_stored(store, [value])
        _refuse(found.problems)
        return ResetTo(ResetTarget.OTHER, same=found.offsets.get(value, ()))
    numbers = {
        "to_offset": ResetTarget.OFFSET,
        "to_time": ResetTarget.TIME,
        "shift_by": ResetTarget.SHIFT,
    }
    return ResetTo(numbers[name], value)


def _refuse(problems: Sequence[Problem]) -> None:
    """Raise what is missing of what a reset goes by."""
    from kgroup.errors import KgroupError, NotFoundError, ProblemKind
    from kgroup.render.cell import problem_line

    for problem in problems:
        error = NotFoundError if problem.kind is ProblemKind.NOT_FOUND else KgroupError
        raise error(problem_line(problem), group_id=problem.group_id)
