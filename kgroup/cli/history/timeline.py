"""`kgroup history timeline`."""

from __future__ import annotations

from collections.abc import Iterator
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.history import group_argument, time_options, topic_option
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, is_terminal, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

if TYPE_CHECKING:
    from kgroup.history.sql.question import Interval


@click.command(
    "timeline",
    epilog=examples(
        "kgroup history timeline --warehouse warehouse order-service",
        "kgroup history timeline --warehouse warehouse fraud-check --topic orders "
        "--since 2026-11-21 -o csv",
    ),
)
@group_argument
@topic_option
@time_options("Leave out what ended by then.", "Leave out what began then or later.")
@warehouse_options
@output_options
def command(
    group_id: str,
    topic: str | None,
    since_ms: int | None,
    until_ms: int | None,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Show who owned what in a group, over time.

    A row for each stretch of time in which a member owned a partition, or ran a task; on a
    terminal a picture instead, unless columns are chosen.
    """
    from kgroup.history.query.owner import timeline
    from kgroup.render.history import interval_sheet, picture_text

    is_drawn = is_terminal() and output.form == "table"
    with documented("history timeline", output), warehouse.open() as engine:
        report = timeline(
            engine,
            group_id,
            since_ms=since_ms,
            until_ms=until_ms,
            topic=topic,
            cluster=warehouse.cluster,
            with_last=is_drawn,
        )

    def picture(rows: tuple[Interval, ...], form: str, /, **_: bool) -> Iterator[str]:
        span = {"since_ms": since_ms, "until_ms": until_ms, "last_ms": report.last_ms}
        return picture_text(rows, get_terminal_size().columns, **span)

    return show("history timeline", report, output, interval_sheet, picture if is_drawn else None)
