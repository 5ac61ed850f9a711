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
    parsed_time,
    regex_option,
)
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.file import OutputFile, output_file_option
from kgroup.cli.option.parameter import parse_some_time, parse_topics
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
    """Show, reset, export (back up), import (undo), copy, diff and delete offsets.

    Offsets are stored in Kafka, in ZooKeeper (by consumers of 0.8), in a SQL table (by applications
    that commit them with their results), or in files. Commands that change offsets only show the
    plan unless --execute is given. They first save the current offsets to a file.
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
@click.option("--all", "every", is_flag=True, help="Select every group.")
@regex_option
@store_options
@output_options("offsets.STORED_COLUMNS")
def show_command(
    groups: Sequence[str], every: bool, regex: Pattern | None, store: StoreChoice, output: Output
) -> ExitStatus:
    """Show committed offsets.

    Unlike 'kgroup describe', this requests only committed offsets, and also reads SQL tables and
    files. 'kgroup offsets import' reads its output in JSON or JSON lines.
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
@click.option("--all", "every", is_flag=True, help="Select every group.")
@regex_option
@output_file_option(
    "-f",
    "--to",
    kind=FileKind.OFFSETS,
    text="Write to this file; - for standard output.",
    stdout=True,
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["kafka-csv", "json", "jsonl"]),
    help="Format of the file.  [default: from the file extension]",
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
    """Back up committed offsets to a file.

    JSON and JSON lines have all fields. CSV has the format of kafka-consumer-groups
    --reset-offsets: topic,partition,offset if a single group is named, else
    group,topic,partition,offset. An existing JSON file of offsets is replaced once the new one is
    complete. Replacing any other file requires --force; so does replacing CSV, which does not say
    who wrote it.

    If something could not be read, the exit status is 4. JSON then lists it under "errors", and
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
@click.option("--all", "every", is_flag=True, help="Import every group in the file.")
@regex_option
@topic_option
@click.option(
    "--as", "new_id", metavar="GROUP", type=ID, help="Commit the offsets for this group instead."
)
@click.option(
    "--without-epochs",
    is_flag=True,
    help="Leave out leader epochs; use it for a file from another cluster.",
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
    """Commit the offsets in a file, or undo a change with its backup.

    The file is JSON, JSON lines or CSV as 'kgroup offsets export' writes them, JSON of 'kgroup
    history as-of', or a plan of kafka-consumer-groups; - is standard input. For a file without
    group ids (topic,partition,offset), name one group. For a file with several groups, name groups
    or use --all. Offsets out of a partition's range are rejected (or use --clamp), unless the file
    was saved from this very store. Groups with members are not changed. Without --execute, only the
    plan is shown.
    """
    check_all(groups, regex, every=every)
    check_new_name(new_id, groups, regex, "name the group of the file (import FILE GROUP --as NEW)")
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
        group_ids = {row.group_id for row in plan.rows}
        if len(group_ids) > 1 and not (groups or every or regex is not None):
            raise click.UsageError(
                f"the file has {len(group_ids)} groups: name the groups to import, or use --all"
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
@click.option("--all", "every", is_flag=True, help="Compare every group of both stores.")
@regex_option
@click.option(
    "--as", "second_id", metavar="GROUP", type=ID, help="Id of the group in the second store."
)
@click.option(
    "--times",
    is_flag=True,
    help="Also show the timestamps of the next records to read, if one of the stores is a cluster.",
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
    """Compare the committed offsets in two stores.

    Prints a row for each partition whose offsets differ; the exit status is 5 if there are any.
    STORE is as for 'kgroup offsets copy'.
    """
    check_choice(groups, regex, every=every)
    check_two(first, second)
    check_new_name(second_id, groups, regex, "choose it with one --group")
    from kgroup.operation.offsets.diff import diff_offsets
    from kgroup.source.base import GroupSource

    named = tuple(groups)
    with (
        json_errors(output),
        parse_store(first, connection, names).open(named) as origin,
        parse_store(second, connection, names).open(named) as other,
    ):
        clusters = [source for source in (origin, other) if source.can(GroupSource.next_records)]
        if times and not clusters:
            raise click.UsageError("--times reads records from a cluster, and neither store is one")
        # Offsets of a store without records refer to the other store's cluster.
        report = diff_offsets(
            origin,
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
@click.option("--all", "every", is_flag=True, help="Copy every group.")
@regex_option
@topic_option
@click.option(
    "--as", "new_id", metavar="GROUP", type=ID, help="Commit the offsets for this group instead."
)
@clamp_option
@click.option(
    "--by-time",
    is_flag=True,
    help="Commit the offset of the record with the same timestamp; use it for mirrored topics.",
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
    """Copy committed offsets to another cluster or store.

    A store is kafka:HOST:PORT (or kafka: the cluster of -b, -C or the environment),
    zookeeper:HOST:PORT/CHROOT, sql:URL (or sql: the database of the profile or the environment), or
    a file; FROM can also be log-dir:PATH, snapshot:FILE or sample. Leader epochs are not copied, as
    they belong to a cluster. Offsets that only TO has are kept. Offsets out of the range of a
    partition in TO are rejected; use --clamp or --by-time. Without --execute, only the plan is
    shown.
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
        "--to-earliest", is_flag=True, help="Reset to the earliest available offset."
    ),
    "to_latest": click.option("--to-latest", is_flag=True, help="Reset to the log end offset."),
    "to_offset": click.option(
        "--to-offset", metavar="N", type=click.IntRange(0, _MOST), help="Reset to this offset."
    ),
    "to_time": click.option(
        "--to-time",
        metavar="TIME",
        callback=parsed_time(),
        help="Reset to the first record with this timestamp or a later one: 03:12, RFC "
        "3339, epoch milliseconds, or an age (2h).",
    ),
    "shift_by": click.option(
        "--shift-by",
        metavar="N",
        type=click.IntRange(-_MOST, _MOST),
        help="Move by N records (negative: back).",
    ),
    "to_current": click.option(
        "--to-current",
        is_flag=True,
        help="Reset to the committed offset, or to the log end offset if there is none.",
    ),
    "to_group": click.option(
        "--to-group", metavar="GROUP", type=ID, help="Reset to the committed offsets of this group."
    ),
    "to_file": click.option(
        "--to-file", metavar="FILE", type=PATH, help="Reset to the offsets in this file."
    ),
}
"""Options for the target of a reset, by parameter name; exactly one is given."""


def _goal(**given: Any) -> tuple[str, Any]:
    chosen = [  # compare by identity: 0 is a valid offset
        (name, value) for name, value in given.items() if value is not None and value is not False
    ]
    if len(chosen) != 1:
        names = ", ".join("--" + name.replace("_", "-") for name in _GOALS)
        goals = " and ".join("--" + name.replace("_", "-") for name, _ in chosen) or "none"
        raise click.UsageError(f"expected one of {names}; found {goals}")
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
@click.option("--all", "every", is_flag=True, help="Reset every group that has committed offsets.")
@regex_option
@_goal_options
@click.option(
    "--topic",
    "topics",
    metavar="NAME[:P,...]",
    multiple=True,
    callback=parsed(parse_topics),
    shell_complete=suggest_topics,
    help="Reset all partitions of this topic, or only the listed ones. Repeatable.  [default: "
    "partitions with a committed offset]",
)
@click.option(
    "--topic-regex",
    metavar="RE",
    callback=parsed(parse_regex),
    help="Reset topics with committed offsets whose whole name matches this regular expression.",
)
@click.option(
    "--uncommitted", is_flag=True, help="Reset only partitions without a committed offset."
)
@click.option(
    "--times",
    is_flag=True,
    help="Also show the timestamps of the next records to read, before and after, and how many "
    "bytes lie between them, if that is the whole partition.",
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
    """Reset committed offsets to a time, an offset, or another group's.

    Without --topic, reset all partitions that the group has committed. An offset out of a
    partition's range is replaced by the log start or end offset, and marked. Groups with members
    are not changed: stop them first. Without --execute, only the plan is shown. If the plan skips
    unread records, its first line says so, and it needs a separate confirmation; scripts need
    --allow-skip.
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
        "kgroup offsets delete --sample --idle-for 10s",
        "kgroup offsets delete -b kafka-1:9092 --idle-for 30d",
    ),
)
@groups_argument
@regex_option
@topic_option
@click.option(
    "--idle-for",
    "idle_for_ms",
    metavar="DURATION",
    callback=parsed(parse_some_time),
    help="Delete all groups, or those of --regex, that have had no member and no commit for this "
    "long (30d, 12h), as 'kgroup list --idle-for' lists them. Groups whose last commit is unknown "
    "stay.",
)
@click.option(
    "--log-budget",
    "log_budget_mib",
    metavar="MIB",
    type=click.IntRange(min=0, max=2**31 - 1),
    help="With --idle-for: read at most this many MiB back from the end of each "
    "__consumer_offsets partition of a cluster, for the times of last commits.  [default: 32]",
)
@click.option(
    "--delete-hidden",
    is_flag=True,
    help="Also delete groups that have, or may have, committed offsets for topics that you may "
    "not describe; the backup lacks these offsets.",
)
@store_options
@execution_options()
@output_options("offsets.PLAN_COLUMNS")
def delete_command(
    groups: Sequence[str],
    regex: Pattern | None,
    topics: Topics,
    idle_for_ms: int | None,
    log_budget_mib: int | None,
    delete_hidden: bool,
    store: StoreChoice,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Delete groups, all that are idle (for 30d, say), or offsets for topics.

    Without --topic, delete whole groups; --regex selects groups with committed offsets. Groups with
    members are not deleted. With --topic, a consumer group with members loses only offsets for
    topics that no member subscribes to. Share groups, which cannot be backed up, and groups with
    offsets that you may not see are not deleted. Without --execute, only the plan is shown.
    """
    if idle_for_ms is None and log_budget_mib is not None:
        raise click.UsageError("--log-budget is for --idle-for")
    if idle_for_ms is not None and (groups or topics or delete_hidden):
        raise click.UsageError(
            "--idle-for deletes whole groups, chosen by their last commit: leave out group names, "
            "--topic and --delete-hidden (--regex selects groups)"
        )
    if not groups and regex is None and idle_for_ms is None:
        raise click.UsageError(
            "no groups selected: name groups, or use --regex RE or --idle-for DURATION"
        )
    from kgroup.operation.offsets.deletion import plan_deletion, plan_idle_deletion
    from kgroup.operation.offsets.plan import IdleSince
    from kgroup.source.base import DEFAULT_LOG_BUDGET, GroupSource

    with json_errors(output), store.open(tuple(groups)) as target:
        if idle_for_ms is None:
            plan = plan_deletion(target, groups, regex, topics=topics, hidden=delete_hidden)
        elif target.can(GroupSource.read):
            budget = DEFAULT_LOG_BUDGET if log_budget_mib is None else log_budget_mib << 20
            since_ms = store.source.instant_ms(target) - idle_for_ms
            plan = plan_idle_deletion(target, IdleSince(since_ms, budget), regex)
        else:
            raise click.UsageError("--idle-for needs a source that knows the members of groups")
        return execution.run(plan, target, store, output)
