"""`kgroup history stale`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.history import at_option, length_option
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "stale",
    epilog=examples(
        "kgroup history stale --warehouse warehouse --for 10s",
        "kgroup history stale --warehouse warehouse --for 3d --retention 14d -o csv",
    ),
)
@length_option("--for", "silent_ms", "1d", "Offsets that were not committed for so long.")
@length_option("--expiring", "expiring_ms", "1d", "Also those that expire within so long.")
@length_option("--retention", "retention_ms", "7d", "offsets.retention.minutes of the brokers.")
@at_option("As of then.  [default: the last record of each cluster]")
@warehouse_options
@output_options
def command(
    silent_ms: int,
    expiring_ms: int,
    retention_ms: int,
    at_ms: int | None,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Find offsets that nobody commits any more, or that are about to expire.

    A row for each partition: how long it was not committed, who owned it all the same, when the
    coordinator may remove the offset, and what decides that (Kafka 2.1 and later): a time stored
    with the offset, since when the group has been empty, or the commit; offsets of topics that the
    group subscribes to are kept.
    """
    from kgroup.history.query.stale import stale_offsets
    from kgroup.render.history import stale_sheet

    with documented("history stale", output), warehouse.open() as engine:
        report = stale_offsets(
            engine,
            silent_ms=silent_ms,
            expiring_ms=expiring_ms,
            retention_ms=retention_ms,
            at_ms=at_ms,
            cluster=warehouse.cluster,
        )
    return show("history stale", report, output, stale_sheet)
