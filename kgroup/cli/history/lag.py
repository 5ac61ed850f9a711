"""`kgroup history lag`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kgroup.cli.option.common import PATH, examples, output_options
from kgroup.cli.option.history import at_option, group_argument, time_options, topic_option
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "lag",
    epilog=examples(
        "kgroup history lag --warehouse warehouse order-service --snapshot snapshot.json",
        "kgroup history lag --warehouse warehouse order-service --at 2026-11-21T22:12:30Z",
        "kgroup history lag --warehouse warehouse billing --since 7d -o csv",
    ),
)
@group_argument
@topic_option
@at_option("Then: with the log end offsets recorded last.  [default: the newest known]")
@time_options("Instead: each time from then on with log end offsets,", "and before then.")
@click.option(
    "--snapshot",
    "snapshots",
    metavar="FILE",
    multiple=True,
    type=PATH,
    help="Also take log end offsets from a file of 'kgroup snapshot'. Repeatable.",
)
@warehouse_options
@output_options
def command(
    group_id: str,
    topic: str | None,
    at_ms: int | None,
    since_ms: int | None,
    until_ms: int | None,
    snapshots: Sequence[Path],
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Show how far a group was behind, where log end offsets were recorded.

    __consumer_offsets has no log end offsets; snapshots have. A row compares a log end offset with
    the offset that was committed when it was recorded. Where no log end offset is known, the lag is
    unknown too.
    """
    if at_ms is not None and (since_ms is not None or until_ms is not None):
        raise click.UsageError("--at is one time; choose it, or --since and --until")
    from kgroup.history.query.lag import lags
    from kgroup.history.sql.log_ends import ends_of
    from kgroup.render.history import lag_sheet
    from kgroup.source.snapshot.file import read_snapshot

    with documented("history lag", output):
        given = [end for path in snapshots for end in ends_of(read_snapshot(path))]
        with warehouse.open() as engine:
            report = lags(
                engine,
                group_id,
                at_ms=at_ms,
                since_ms=since_ms,
                until_ms=until_ms,
                topic=topic,
                given=given,
                cluster=warehouse.cluster,
            )
    return show("history lag", report, output, lag_sheet)
