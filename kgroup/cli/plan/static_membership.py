"""`kgroup plan static-membership`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import examples, given_options, output_options
from kgroup.cli.option.plan import DIAGRAM_OPTION, habit_options, write_plans
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import named_groups_argument
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

if TYPE_CHECKING:
    from kgroup.operation.plan.forecast import ProgramBehavior
    from kgroup.operation.plan.plan import Plan
    from kgroup.operation.plan.running import RunningGroup
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource


@click.command(
    "static-membership",
    epilog=examples(
        "kgroup plan static-membership order-service --sample",
        "kgroup plan static-membership order-service --sample --restart-time 40s",
        "kgroup plan static-membership shipping --sample --instance-id '{client}-{number}'",
        "kgroup plan static-membership billing -b kafka-1:9092 --back -o markdown",
    ),
)
@named_groups_argument
@source_options(required=True)
@click.option(
    "--instance-id",
    "template",
    metavar="TEMPLATE",
    help="What members are called: {client}, {host} and {number} stand for client id, host and a "
    "number from 1.  [default: the shortest that tells members apart]",
)
@click.option("--back", is_flag=True, help="Plan the way back to dynamic members.")
@habit_options
@DIAGRAM_OPTION
@output_options
def command(
    groups: Sequence[str],
    source: Source,
    template: str | None,
    back: bool,
    habits: ProgramBehavior,
    diagram: bool,
    output: Output,
) -> ExitStatus:
    """Give members of groups names that outlive restarts.

    A static member (group.instance.id) that is back before its session ends gets its partitions
    back, and nothing moves. What a rolling restart costs before and after stands side by side.
    """
    if back and template is not None:
        raise click.UsageError("--back leaves no instance ids; leave it out, or --instance-id")
    from kgroup.operation.plan.running import plan_each
    from kgroup.operation.plan.static_membership import (
        plan_dynamic_membership,
        plan_static_membership,
    )

    is_measured = "restart_time" in given_options()

    def plans(opened: GroupSource, groups: Sequence[str]) -> Report[Plan]:
        def make(running: RunningGroup) -> Plan:
            if back:
                return plan_dynamic_membership(running, habits)
            return plan_static_membership(
                running, habits, template=template, is_measured=is_measured
            )

        return plan_each(opened, groups, make, habits)

    name = "plan static-membership"
    return write_plans(name, source, groups, plans, output, diagram=diagram)
