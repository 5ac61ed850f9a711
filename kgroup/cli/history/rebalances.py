"""`kgroup history rebalances`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.history import any_group_argument, time_options
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "rebalances",
    epilog=examples(
        "kgroup history rebalances --warehouse warehouse billing",
        "kgroup history rebalances --warehouse warehouse billing --since 2d -o json",
        "kgroup history rebalances --warehouse warehouse --columns time,group_id,cause,evidence",
    ),
)
@any_group_argument
@time_options("Only from then on.", "Only before then.")
@warehouse_options
@output_options
def command(
    group_id: str | None,
    since_ms: int | None,
    until_ms: int | None,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Tell when a group rebalanced, or all groups, and why.

    A rebalance is a new generation of a classic group, or a new epoch of a consumer, share or
    streams group. Each has the members before and after, the partitions that moved, what the log
    shows of how long it took, and its cause with the evidence. 'certain' is what the records prove,
    'inferred' what they make likely.

    A table for each group shows what happened; --columns, csv and json have more.
    """
    from kgroup.history.rebalance.query import rebalances
    from kgroup.render.history import rebalance_sheet, rebalance_text

    with documented("history rebalances", output), warehouse.open() as engine:
        report = rebalances(
            engine, group_id, since_ms=since_ms, until_ms=until_ms, cluster=warehouse.cluster
        )
    page = rebalance_text if report.data else None
    return show("history rebalances", report, output, rebalance_sheet, page)
