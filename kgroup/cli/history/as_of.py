"""`kgroup history as-of`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options, parsed
from kgroup.cli.option.history import group_argument
from kgroup.cli.option.parameter import parse_time
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented
from kgroup.cli.output.described import check_sections, section_options, show_groups
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "as-of",
    epilog=examples(
        "kgroup history as-of --warehouse warehouse 2026-11-21T22:12:20Z order-service",
        "kgroup history as-of --warehouse warehouse now order-service --members -o csv",
    ),
)
@click.argument("at_ms", metavar="TIME", callback=parsed(parse_time))
@group_argument
@section_options
@warehouse_options
@output_options
def command(
    at_ms: int, group_id: str, sections: tuple[str, ...], warehouse: WarehouseChoice, output: Output
) -> ExitStatus:
    """Describe a group as it was at a time.

    Shows what 'kgroup describe' would have: the records up to then are replayed as a coordinator
    would. What no record tells is not known: a rebalance that went on, say. Lag is known where a
    snapshot recorded the log's end after the commit.
    """
    check_sections(sections, output)
    from kgroup.history.query.past_group import describe_past

    with documented("history as-of", output), warehouse.open() as engine:
        report = describe_past(engine, group_id, at_ms, cluster=warehouse.cluster)
    return show_groups("history as-of", report, output, sections, at_ms)
