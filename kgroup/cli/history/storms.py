"""`kgroup history storms`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options, parsed
from kgroup.cli.option.history import any_group_argument, time_options
from kgroup.cli.option.parameter import parse_duration
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus
from kgroup.source.config.client_setting import MOST_LONG, whole_number


def _parse_rate(text: str) -> tuple[int, int]:
    """Read ``5/10m``: a number of rebalances, and a length of time in milliseconds."""
    count, _, length = text.partition("/")
    number = whole_number(count, MOST_LONG) if count.isascii() else None
    if number is None or number < 2 or not length:
        raise ValueError(f"expected a number of 2 or more and a time, like 5/10m; found {text!r}")
    return number, parse_duration(length)


@click.command(
    "storms",
    epilog=examples(
        "kgroup history storms --warehouse warehouse",
        "kgroup history storms --warehouse warehouse billing --rate 10/1h --since 7d",
    ),
)
@any_group_argument
@click.option(
    "--rate",
    metavar="N/TIME",
    default="5/10m",
    show_default=True,
    callback=parsed(_parse_rate),
    help="So many rebalances in that time are a storm.",
)
@time_options("Only rebalances from then on.", "Only rebalances before then.")
@warehouse_options
@output_options
def command(
    group_id: str | None,
    rate: tuple[int, int],
    since_ms: int | None,
    until_ms: int | None,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Find times when groups rebalanced too often, and who started it.

    A row for each storm: when it began and ended, how many rebalances it had, and the clients that
    joined, left or changed most often in it.
    """
    from kgroup.history.rebalance.query import find_storms
    from kgroup.render.history import storm_sheet

    with documented("history storms", output), warehouse.open() as engine:
        report = find_storms(
            engine,
            group_id,
            count=rate[0],
            within_ms=rate[1],
            since_ms=since_ms,
            until_ms=until_ms,
            cluster=warehouse.cluster,
        )
    return show("history storms", report, output, storm_sheet)
