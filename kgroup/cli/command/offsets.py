"""`kgroup offsets` and its commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.atomic_file import FileKind
from kgroup.cli.command_group import CommandGroup
from kgroup.cli.option.common import (
    ID,
    PATH,
    check_all,
    check_choice,
    examples,
    options_into,
    output_options,
    parsed,
    regex_option,
)
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.file import OutputFile, output_file_option
from kgroup.cli.option.parameter import parse_time, parse_topics
from kgroup.cli.option.store import (
    GROUP_OPTION,
    SqlNames,
    StoreChoice,
    check_new_name,
    check_two,
    clamp_option,
    names_options,
    parse_store,
    store_options,
    topic_option,
)
from kgroup.cli.option.suggestion import groups_argument, suggest_topics
from kgroup.cli.output.context import Output, json_errors, show, warn, warn_saved, write
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern, parse_regex

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.offsets.plan import Topics
    from kgroup.operation.offsets.reset import ResetTo
    from kgroup.source.base import GroupSource


command = CommandGroup(
    "kgroup offsets",
    """Show, compare and change what groups have committed.

    Offsets are kept in Kafka, in ZooKeeper (by consumers of 0.8), in a SQL table (by applications
    that commit them with their results), or in files. What changes any of them shows its plan, and
    does it with --execute only. What was there before is saved first.
    """,
)


@command.command(
    "show",
    epilog=examples(
        "kgroup offsets show --sample order-service",
        "kgroup offsets show -b kafka-1:9092 --all -o jsonl",
        "kgroup offsets show --zookeeper zk-1:2181/kafka billing",
        "kgroup offsets show --file offsets.json billing",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group.")
@regex_option
@store_options
@output_options("offsets.STORED_COLUMNS")
def show_command(
    groups: Sequence[str], every: bool, regex: Pattern | None, store: StoreChoice, output: Output
) -> ExitStatus:
    """Show what groups have committed.

    Unlike 'kgroup describe' it asks for nothing else, and also reads SQL tables and files. What it
    writes as JSON or JSON lines 'kgroup offsets import' reads.
    """
    check_choice(groups, regex, every=every)
    from kgroup.operation.offsets.read import show_offsets

    with json_errors(output), store.open(tuple(groups)) as source:
        report = show_offsets(source, groups, regex)
    return show(report, output)


@command.command(
    "export",
    epilog=examples(
        "kgroup offsets export --sample order-service -f -",
        "kgroup offsets export -b kafka-1:9092 --all -f offsets.json",
        "kgroup offsets export -b kafka-1:9092 billing -f plan.csv",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group.")
@regex_option
@output_file_option(
    "-f", "--to", kind=FileKind.OFFSETS, text="File to write; - is standard output.", stdout=True
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["kafka-csv", "json", "jsonl"]),
    help="Form of the file.  [default: what its name ends in]",
)
@store_options
def export_command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    target: OutputFile,
    form: str | None,
    store: StoreChoice,
) -> ExitStatus:
    """Write what groups have committed to a file.

    JSON and JSON lines have all of it. CSV is that of kafka-consumer-groups --reset-offsets:
    topic,partition,offset where one group is named, else the group before that. A JSON file of
    offsets of that name is replaced when the new one is whole, another file only with --force; so
    is CSV, which does not tell who wrote it.

    Where something could not be read, the exit status is 4. JSON then lists it under "errors", and
    import and diff report that the file is incomplete.
    """
    check_choice(groups, regex, every=every)
    from kgroup.operation.offsets.read import show_offsets
    from kgroup.render.offsets import counted, file_form, file_lines

    form = form or ("json" if target.is_stdout else file_form(target.path))
    with store.open(tuple(groups)) as source:
        report = show_offsets(source, groups, regex)
        name = source.store_name
    status = warn_saved(report, "export", target.path)
    with_group = len(groups) != 1 or regex is not None
    lines = file_lines(report.data, form, with_group=with_group, store=name, errors=report.errors)
    if target.is_stdout:
        write(lines)
    else:
        with target.open() as output:
            output.writelines(lines)
        groups_count = len({row.group_id for row in report.data})
        count = f"{counted(len(report.data), 'offset')} of {counted(groups_count, 'group')}"
        warn(f"note: {count} written to {target.path}")
    return status


@command.command(
    "import",
    epilog=examples(
        "kgroup offsets import -b kafka-1:9092 offsets.json",
        "kgroup offsets import -b kafka-1:9092 plan.csv billing --execute",
        "kgroup offsets import --zookeeper zk-1:2181/kafka offsets.json billing --execute --yes",
    ),
)
@click.argument("path", metavar="FILE", type=PATH)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group of the file.")
@regex_option
@topic_option
@click.option(
    "--as", "new_id", metavar="GROUP", type=ID, help="Commit them for a group of another name."
)
@click.option(
    "--without-epochs",
    is_flag=True,
    help="Leave out epochs of leaders: for a file that comes from another cluster.",
)
@clamp_option
@store_options
@execution_options()
@output_options("offsets.PLAN_COLUMNS")
def import_command(
    path: Path,
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    topics: Topics,
    new_id: str | None,
    without_epochs: bool,
    clamp: bool,
    store: StoreChoice,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Commit what a file has, or undo a change by its backup.

    The file is JSON, JSON lines or CSV as 'kgroup offsets export' writes them, or a plan of
    kafka-consumer-groups. One without groups (topic,partition,offset) wants the name of one. - is
    standard input. A file of one group needs no name of it, one of several wants names, or --all.
    Offsets that the partitions do not have are refused (or choose --clamp), unless the file was
    saved from this very store. Groups with members are left alone. Without --execute only the plan
    is shown.
    """
    check_all(groups, regex, every=every)
    check_new_name(
        new_id, groups, regex, "name the one of the file that is meant (import FILE GROUP --as NEW)"
    )
    from kgroup.operation.offsets.transfer import OutOfRange, plan_transfer
    from kgroup.source.offset_file import OffsetFile

    with (
        json_errors(output),
        store.open(tuple(groups)) as target,
        store.open_cluster(target) as cluster,
    ):
        plan = plan_transfer(
            OffsetFile(path),
            target,
            cluster,
            groups,
            regex,
            new_id=new_id,
            topics=topics,
            leader_epochs=not without_epochs,
            fit=OutOfRange.CLAMP if clamp else OutOfRange.REFUSE,
        )
        found = {row.group_id for row in plan.rows}
        if len(found) > 1 and not (groups or every or regex is not None):
            raise click.UsageError(
                f"the file has {len(found)} groups: name those that are meant, or choose --all"
            )
        return execution.run(plan, target, store, output)


@command.command(
    "diff",
    epilog=examples(
        "kgroup offsets diff zookeeper:zk-1:2181/kafka kafka:kafka-1:9092 --group billing",
        "kgroup offsets diff sample sample --group order-service --as shipping",
        "kgroup offsets diff offsets.json kafka -b kafka-1:9092 --all",
        "kgroup offsets diff kafka kafka -b kafka-1:9092 --group billing --as billing-2",
    ),
)
@click.argument("first", metavar="STORE")
@click.argument("second", metavar="STORE")
@GROUP_OPTION
@click.option("--all", "every", is_flag=True, help="Every group of both.")
@regex_option
@click.option(
    "--as", "second_id", metavar="GROUP", type=ID, help="What the group is called in the second."
)
@click.option(
    "--times",
    is_flag=True,
    help="Find out when the records were made that would be read next, where one is a cluster.",
)
@connection_options
@names_options
@output_options("offsets.DIFFERENCE_COLUMNS")
def diff_command(
    first: str,
    second: str,
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    second_id: str | None,
    times: bool,
    connection: Connection,
    names: SqlNames,
    output: Output,
) -> ExitStatus:
    """Compare two stores.

    A row for each partition for which they have not the same offset; the exit status is 5 where
    there are any. Stores are named as for 'kgroup offsets copy'.
    """
    check_choice(groups, regex, every=every)
    check_two(first, second)
    check_new_name(second_id, groups, regex, "choose it with one --group")
    from kgroup.operation.offsets.diff import diff_offsets
    from kgroup.source.base import GroupSource

    named = tuple(groups)
    with (
        json_errors(output),
        parse_store(first, connection, names).open(named) as one,
        parse_store(second, connection, names).open(named) as other,
    ):
        clusters = [source for source in (one, other) if source.can(GroupSource.next_records)]
        if times and not clusters:
            raise click.UsageError("--times asks a cluster, and neither of the two is one")
        # Offsets of a store without records refer to the other store's cluster.
        report = diff_offsets(
            one,
            other,
            groups,
            regex,
            second_id=second_id,
            first_log=clusters[0] if times else None,
            second_log=clusters[-1] if times else None,
        )
    return show(report, output)


@command.command(
    "copy",
    epilog=examples(
        "kgroup offsets copy zookeeper:zk-1:2181/kafka kafka:kafka-1:9092 --group billing",
        "kgroup offsets copy sample sample --group order-service --as order-service-2",
        "kgroup offsets copy kafka kafka -b kafka-1:9092 --group billing --as billing-2 --execute",
    ),
)
@click.argument("origin", metavar="FROM")
@click.argument("goal", metavar="TO")
@GROUP_OPTION
@click.option("--all", "every", is_flag=True, help="Of every group.")
@regex_option
@topic_option
@click.option(
    "--as", "new_id", metavar="GROUP", type=ID, help="Commit them for a group of another name."
)
@clamp_option
@click.option(
    "--by-time",
    is_flag=True,
    help="Commit the offset of the record with the same time: for a mirror of the partitions.",
)
@connection_options
@names_options
@execution_options()
@output_options("offsets.PLAN_COLUMNS")
def copy_command(
    origin: str,
    goal: str,
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    topics: Topics,
    new_id: str | None,
    clamp: bool,
    by_time: bool,
    connection: Connection,
    names: SqlNames,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Commit in one store what another one has.

    A store is kafka:HOST:PORT (or kafka: the cluster of -b, -C or the environment),
    zookeeper:HOST:PORT/CHROOT, sql:URL (or sql: of the profile or the environment), a file, or, to
    copy from, log-dir:PATH, snapshot:FILE or sample. Epochs of leaders stay behind: they are the
    cluster's. What only the second store has stays. Offsets that the partitions there do not have
    are refused: choose --clamp, or --by-time. Without --execute only the plan is shown.
    """
    check_choice(groups, regex, every=every)
    check_two(origin, goal)
    check_new_name(new_id, groups, regex, "choose it with one --group")
    if clamp and by_time:
        raise click.UsageError("--clamp and --by-time are two ways to find an offset: choose one")
    from kgroup.operation.offsets.transfer import OutOfRange, plan_transfer

    store = parse_store(goal, connection, names)
    if store.file is not None and not os.path.exists(store.file):
        raise click.UsageError(
            f"{goal}: expected a store, found no such file; 'kgroup offsets export' writes files"
        )
    with (
        json_errors(output),
        parse_store(origin, connection, names).open(tuple(groups)) as source,
        store.open() as target,
        store.open_cluster(target) as cluster,
    ):
        plan = plan_transfer(
            source,
            target,
            cluster,
            groups,
            regex,
            new_id=new_id,
            topics=topics,
            leader_epochs=False,
            fit=OutOfRange.BY_TIME if by_time else OutOfRange.CLAMP if clamp else OutOfRange.REFUSE,
        )
        return execution.run(plan, target, store, output)


_MOST = (1 << 63) - 1
_GOALS: Mapping[str, Callable[[Any], Any]] = {
    "to_earliest": click.option(
        "--to-earliest", is_flag=True, help="To the first record of each partition."
    ),
    "to_latest": click.option("--to-latest", is_flag=True, help="Past the last record."),
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
        help="To the committed offset, or past the last record where nothing is committed.",
    ),
    "to_group": click.option(
        "--to-group", metavar="GROUP", type=ID, help="To where another group is."
    ),
    "to_file": click.option("--to-file", metavar="FILE", type=PATH, help="To what a file has."),
}
"""Options for the target of a reset, by parameter name; exactly one is given."""


def _goal(**given: Any) -> tuple[str, Any]:
    chosen = [  # compare by identity: 0 is a valid offset
        (name, value) for name, value in given.items() if value is not None and value is not False
    ]
    if len(chosen) != 1:
        names = ", ".join("--" + name.replace("_", "-") for name in _GOALS)
        found = " and ".join("--" + name.replace("_", "-") for name, _ in chosen) or "none"
        raise click.UsageError(f"where to? Choose one of {names}; found {found}")
    return chosen[0]


_goal_options = options_into("goal", _goal, *_GOALS.values(), names=tuple(_GOALS))
"""Adds the target options; the command takes ``goal: tuple[str, value]``."""


@command.command(
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
@output_options("offsets.PLAN_COLUMNS")
def reset_command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    goal: tuple[str, Any],
    topics: dict[str, frozenset[int] | None],
    topic_regex: Pattern | None,
    uncommitted: bool,
    times: bool,
    store: StoreChoice,
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

    selection = PartitionSelection(topics, topic_regex, uncommitted)
    with (
        json_errors(output),
        store.open(tuple(groups)) as target,
        store.open_cluster(target) as cluster,
    ):
        to = _reset_to(goal, groups, regex, target)
        plan = plan_reset(target, cluster, groups, to, selection, regex=regex, with_times=times)
        return execution.run(plan, target, store, output, cluster)


def _reset_to(
    goal: tuple[str, Any], groups: Sequence[str], regex: Pattern | None, store: GroupSource
) -> ResetTo:
    """Return the target of a reset, with the offsets of another group or a file."""
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
        stored = read_stored(OffsetFile(value), groups, regex)
        _refuse(stored.problems)
        return ResetTo(ResetTarget.OTHER, offsets=stored.offsets)
    if name == "to_group":
        stored = read_stored(store, [value])
        _refuse(stored.problems)
        return ResetTo(ResetTarget.OTHER, same=stored.offsets.get(value, ()))
    numbers = {
        "to_offset": ResetTarget.OFFSET,
        "to_time": ResetTarget.TIME,
        "shift_by": ResetTarget.SHIFT,
    }
    return ResetTo(numbers[name], value)


def _refuse(problems: Sequence[Problem]) -> None:
    """Raise the first problem of reading the offsets for a reset."""
    from kgroup.errors import KgroupError, NotFoundError, ProblemKind
    from kgroup.render.cell import problem_line

    for problem in problems:
        error = NotFoundError if problem.kind is ProblemKind.NOT_FOUND else KgroupError
        raise error(problem_line(problem), group_id=problem.group_id)


@command.command(
    "delete",
    epilog=examples(
        "kgroup offsets delete --sample invoice-batch --topic payments",
        "kgroup offsets delete -b kafka-1:9092 billing --execute",
    ),
)
@groups_argument
@regex_option
@topic_option
@click.option(
    "--delete-hidden",
    is_flag=True,
    help="Also delete groups that have, or may have, committed offsets for topics that you may not "
    "describe: the backup lacks them.",
)
@store_options
@execution_options()
@output_options("offsets.PLAN_COLUMNS")
def delete_command(
    groups: Sequence[str],
    regex: Pattern | None,
    topics: Topics,
    delete_hidden: bool,
    store: StoreChoice,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Delete groups, or what they have committed for topics.

    Without --topic groups go as a whole; --regex takes those that have committed something. Groups
    with members are left alone, but for topics that none of them subscribes to, if they are
    consumers; so are share groups, which cannot be saved, and groups with offsets that you may not
    see. Without --execute only the plan is shown.
    """
    if not groups and regex is None:
        raise click.UsageError("which groups? Name them, or choose --regex RE")
    from kgroup.operation.offsets.deletion import plan_deletion

    with json_errors(output), store.open(tuple(groups)) as target:
        plan = plan_deletion(target, groups, regex, topics=topics, hidden=delete_hidden)
        return execution.run(plan, target, store, output)
