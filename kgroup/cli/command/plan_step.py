"""`kgroup plan apply` and `kgroup plan verify`: steps of a saved plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import PATH, examples, output_options, parsed
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.parameter import parse_seconds
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.store import SQL_OPTION, copied_stores, open_copied
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import Output, json_errors, show, warn
from kgroup.errors import BrokerError, ExitStatus, InputError, UsageError

if TYPE_CHECKING:
    from kgroup.operation.plan.plan import Plan
    from kgroup.operation.plan.plan_file import PlanFile
    from kgroup.operation.plan.verify import OpenStores, StepCheck
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource


_STALE = (
    "the last copy must read the cluster as it is now, but --sample, --snapshot and --log-dir have "
    "the offsets of an earlier time: choose the cluster instead, by -b HOST:PORT or -C PROFILE"
)


@click.command(
    "apply",
    cls=Command,
    epilog=examples(
        "kgroup plan apply plan.json --step 3 -b kafka-1:9092",
        "kgroup plan apply plan.json --step 3 -b kafka-1:9092 --sql @offsets.url --execute",
    ),
)
@click.argument("path", metavar="PLAN.json", type=PATH)
@groups_argument
@click.option(
    "--step", metavar="N", type=click.IntRange(1), required=True, help="Number of the step."
)
@source_options(required=False)
@SQL_OPTION
@execution_options()
@output_options("offsets.PLAN_COLUMNS")
def apply_command(
    path: Path,
    groups: Sequence[str],
    step: int,
    source: Source,
    sql: str | None,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Copy the offsets that a step of a plan copies.

    PLAN.json is the output of 'kgroup plan ... -o json'. kgroup carries out nothing else of a plan:
    for any other step, it says what to do by hand. The last copy requires groups without members,
    and a cluster as the source. As with 'kgroup offsets copy', only the plan is shown without
    --execute.
    """
    from kgroup.operation.plan.offset_copy import copy_of_step, plan_copy
    from kgroup.operation.plan.plan_file import read_plan_file
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource

    with json_errors(output):
        copy = copy_of_step(read_plan_file(path).data, step, groups)
        if copy.copy is None:
            return show(Report((), (), copy.notes), output)
        with open_copied(copy.copy, copy.group_ids, source, sql) as (origin, goal):
            notes = copy.notes
            # Commits of a read-only store may be outdated; members would start there.
            if copy.copy.is_last and not origin.can(GroupSource.write_offsets):
                if execution.is_wanted:
                    raise UsageError(f"--execute: {_STALE}")
                notes = (*notes, f"with --execute {_STALE}")
            plan = plan_copy(origin, goal, copy.copy, copy.group_ids, notes)
            chosen = copied_stores(copy.copy, source, sql)[1]
            cluster = None
            if copy.copy.is_last and origin.can(GroupSource.read):
                cluster = origin
            return execution.run(plan, goal, chosen, output, cluster)


_PAUSE_S = 1.0


@click.command(
    "verify",
    cls=Command,
    epilog=examples(
        "kgroup plan verify plan.json --step 1 -b kafka-1:9092",
        "kgroup plan verify plan.json --step 2 -b kafka-1:9092 --wait 600",
        "kgroup plan verify plan.json billing --step 1 -b kafka-1:9092 -o json",
    ),
)
@click.argument("path", metavar="PLAN.json", type=PATH)
@groups_argument
@click.option(
    "--step", metavar="N", type=click.IntRange(1), required=True, help="Number of the step."
)
@click.option(
    "--wait",
    metavar="SECONDS",
    callback=parsed(parse_seconds),
    help="Check repeatedly until the step is done, for at most SECONDS.",
)
@source_options(required=True)
@SQL_OPTION
@output_options("plan.CHECK_COLUMNS")
def verify_command(
    path: Path,
    groups: Sequence[str],
    step: int,
    wait: float | None,
    source: Source,
    sql: str | None,
    output: Output,
) -> ExitStatus:
    """Check whether a step of a plan is done.

    PLAN.json is the output of 'kgroup plan ... -o json'. The exit status is 0 if the step is done
    in all groups of the plan, or in the named ones, and 5 if not. When a step is done, its members
    are recorded in the file, as the next step restarts them. A step that copies offsets is done
    when both stores have the same offsets.
    """
    from kgroup.operation.plan.plan_file import read_plan_file
    from kgroup.render.plan import checks_page, checks_sheet

    with json_errors(output):
        file = read_plan_file(path)
        with source.that_has([plan.group_id for plan in file.data]).open() as opened:
            stores = partial(open_copied, source=source, sql=sql)
            report = look(opened, file, step, groups, stores, wait)
    note_members(path, file, report)
    return show(report, output, checks_page, sheet=checks_sheet)


def look(
    source: GroupSource,
    file: PlanFile,
    step: int,
    groups: Sequence[str],
    open_stores: OpenStores,
    wait_s: float | None,
    pause_s: float = _PAUSE_S,
) -> Report[StepCheck]:
    """Verify a step once, or until it is done; ignore a broker's outage after its first answer.

    Raises:
        BrokerError: no broker answers at first, or at the end.
    """
    from kgroup.operation.plan.verify import verify_step

    end_s = time.monotonic() + (wait_s or 0)
    has_answered = False
    while True:
        has_failed = False
        try:
            report = verify_step(source, file.data, step, groups, open_stores=open_stores)
            has_answered = True
            if report.exit_status is ExitStatus.DONE or time.monotonic() >= end_s:
                return report
        except BrokerError:
            if not has_answered or time.monotonic() >= end_s:
                raise
            has_failed = True
        time.sleep(min(pause_s, max(end_s - time.monotonic(), 0)))
        source.renew(after_failure=has_failed)


def note_members(path: Path, file: PlanFile, report: Report[StepCheck]) -> None:
    """Record in the file the members when a step was done, and those that joined before."""
    from kgroup.operation.plan.plan_file import note_in_plan_file
    from kgroup.operation.plan.verify import with_members_seen

    checks = {check.group_id: check for check in report.data}

    def note(plan: Plan) -> Plan:
        check = checks.get(plan.group_id)
        return plan if check is None else with_members_seen(plan, check)

    if all(note(plan) == plan for plan in file.data):
        return
    try:
        note_in_plan_file(path, file, note)
    except (OSError, InputError) as error:
        reason = f"{path}: {error.strerror}" if isinstance(error, OSError) else error
        warn(
            f"note: {reason}: the members could not be recorded in the plan, so the next step "
            "cannot recognize restarted members by their ids"
        )
