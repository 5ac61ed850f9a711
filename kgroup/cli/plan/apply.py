"""`kgroup plan apply`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kgroup.cli.option.common import PATH, examples, output_options
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.store import SQL_OPTION, copied_stores, open_copied
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus, UsageError

_STALE = (
    "the last copy is expected to be of the cluster as it is now, found --sample, --snapshot or "
    "--log-dir, which tell what was committed then: choose the cluster in their place, by "
    "-b HOST:PORT or -C PROFILE"
)


@click.command(
    "apply",
    epilog=examples(
        "kgroup plan apply plan.json --step 3 -b kafka-1:9092",
        "kgroup plan apply plan.json --step 3 -b kafka-1:9092 --sql @offsets.url --execute",
    ),
)
@click.argument("path", metavar="PLAN.json", type=PATH)
@groups_argument
@click.option("--step", type=click.IntRange(1), required=True, help="Number of the step.")
@source_options(required=False)
@SQL_OPTION
@execution_options()
@output_options
def command(
    path: Path,
    groups: Sequence[str],
    step: int,
    source: Source,
    sql: str | None,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Copy the offsets that a step of a plan copies.

    PLAN.json is what 'kgroup plan ... -o json' wrote. Nothing else of a plan is ever carried out:
    of a step that copies nothing it is said what to do by hand. What both stores are to have in the
    end is copied only of groups without members, and only as the cluster itself tells it. Like
    'kgroup offsets copy' this shows what it would do, and does it with --execute only.
    """
    from kgroup.cli.option.plan_file import read_plan_file
    from kgroup.operation.plan.offset_copy import copy_of_step, plan_copy
    from kgroup.operation.report import Report
    from kgroup.render.offsets import plan_sheet
    from kgroup.source.base import GroupSource, WritableOffsetStore

    name = "plan apply"
    with documented(name, output):
        found = copy_of_step(read_plan_file(path).data, step, groups)
        if found.copy is None:
            return show(name, Report((), (), found.notes), output, plan_sheet)
        with open_copied(found.copy, found.group_ids, source, sql) as (origin, goal):
            notes = found.notes
            # What was committed once would be written, and members begin there.
            if found.copy.is_last and not isinstance(origin, WritableOffsetStore):
                if execution.is_wanted:
                    raise UsageError(f"--execute: {_STALE}")
                notes = (*notes, f"with --execute {_STALE}")
            plan = plan_copy(origin, goal, found.copy, found.group_ids, notes)
            chosen = copied_stores(found.copy, source, sql)[1]
            cluster = None
            if found.copy.is_last and isinstance(origin, GroupSource):
                cluster = origin
            return execution.run(name, plan, goal, chosen, output, cluster)
