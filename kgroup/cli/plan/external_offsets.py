"""`kgroup plan external-offsets`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.plan import DIAGRAM_OPTION, habit_options, write_plans
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.store import SqlNames, planned_copy, planned_table, table_options
from kgroup.cli.option.suggestion import named_groups_argument
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

if TYPE_CHECKING:
    from kgroup.operation.plan.forecast import ProgramBehavior
    from kgroup.operation.plan.plan import Plan
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource


@click.command(
    "external-offsets",
    epilog=examples(
        "kgroup plan external-offsets order-service --sample --sql offsets.db",
        "kgroup plan external-offsets billing -b kafka-1:9092 --sql @offsets.url -o json",
        "kgroup plan external-offsets billing -C prod --rolling -o markdown",
        "kgroup plan external-offsets billing -b kafka-1:9092 --sql @offsets.url --to-kafka",
    ),
)
@named_groups_argument
@click.option("--to-kafka", is_flag=True, help="Back: from the table to Kafka.")
@click.option(
    "--rolling",
    is_flag=True,
    help="Without stopping the group, by way of a version that keeps offsets in both.",
)
@source_options(required=True)
@table_options
@habit_options
@DIAGRAM_OPTION
@output_options
def command(
    groups: Sequence[str],
    to_kafka: bool,
    rolling: bool,
    source: Source,
    sql: str | None,
    names: SqlNames,
    habits: ProgramBehavior,
    diagram: bool,
    output: Output,
) -> ExitStatus:
    """Move offsets from Kafka to a table beside the application's results, or back.

    The listener of the application is the switch: it seeks to what the table has. The group is
    stopped while offsets are copied, or goes in two rolling restarts. A plan has no password: it
    names the database as sql, that of $KGROUP_SQL_URL or of the profile, where its URL has one.
    """
    from kgroup.operation.plan.external_offsets import plan_external_offsets
    from kgroup.operation.plan.running import plan_each

    def plans(opened: GroupSource, groups: Sequence[str]) -> Report[Plan]:
        make = partial(
            plan_external_offsets,
            source=opened,
            table=planned_table(source, sql, names),
            copy=planned_copy(sql, names),
            habits=habits,
            to_kafka=to_kafka,
            rolling=rolling,
        )
        return plan_each(opened, groups, make, habits)

    name = "plan external-offsets"
    return write_plans(name, source, groups, plans, output, diagram=diagram)
