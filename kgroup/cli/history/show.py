"""`kgroup history show`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "show",
    epilog=examples(
        "kgroup history show --warehouse warehouse",
        "kgroup history show --warehouse warehouse --groups",
        "kgroup history show --warehouse warehouse --cluster prod --partitions",
    ),
)
@click.option(
    "--partitions", is_flag=True, help="A row for each partition of __consumer_offsets instead."
)
@click.option("--groups", "of_groups", is_flag=True, help="A row for each group instead.")
@warehouse_options
@output_options
def command(
    partitions: bool, of_groups: bool, warehouse: WarehouseChoice, output: Output
) -> ExitStatus:
    """Show what a warehouse has: clusters, records, from when to when, damage.

    json always has the partitions of a cluster too.
    """
    if partitions and of_groups:
        raise click.UsageError("--partitions and --groups have different rows; choose one of them")
    from kgroup.history.query.inventory import groups_of, inventory_of
    from kgroup.render.history import (
        cluster_inventory_sheet,
        group_inventory_sheet,
        partition_inventory_sheet,
    )

    if of_groups:
        with documented("history show", output), warehouse.open() as engine:
            found = groups_of(engine, warehouse.cluster)
        return show("history show", found, output, group_inventory_sheet)
    with documented("history show", output), warehouse.open_both() as (opened, engine):
        report = inventory_of(opened, engine, warehouse.cluster)
    sheet = partition_inventory_sheet if partitions else cluster_inventory_sheet
    return show("history show", report, output, sheet)
