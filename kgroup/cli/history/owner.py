"""`kgroup history owner`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import ID, examples, output_options, parsed
from kgroup.cli.option.history import at_option
from kgroup.cli.option.parameter import parse_time
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "owner",
    epilog=examples(
        "kgroup history owner --warehouse warehouse orders 2 --at 2026-11-21T22:12:20Z",
        "kgroup history owner --warehouse warehouse orders 2 --group order-service "
        "--between 2026-11-21 now",
        "kgroup history owner --warehouse warehouse orders 0 --at 2h --cluster prod -o json",
    ),
)
@click.argument("topic", type=ID)
@click.argument("partition", type=click.IntRange(0, 2**31 - 1))
@at_option("Then: RFC 3339, epoch milliseconds, or how long ago (2h).")
@click.option(
    "--between",
    metavar="FROM TO",
    nargs=2,
    callback=parsed(lambda times: tuple(map(parse_time, times)) if times else None),
    help="From then to then, with the times when nobody did.",
)
@click.option(
    "--group", "group_id", type=ID, shell_complete=suggest_groups, help="Only in this group."
)
@warehouse_options
@output_options
def command(
    topic: str,
    partition: int,
    at_ms: int | None,
    between: tuple[int, int] | None,
    group_id: str | None,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Tell who owned a partition at a time, or over time.

    A row for each group and owner: member, client, host, the generation in which it got the
    partition, and from when to when it had it. Where nobody had it, or nothing is known, a row says
    why.
    """
    if at_ms is not None and between is not None:
        raise click.UsageError("--at is one time, --between two; choose one of them")
    if at_ms is None and between is None:
        raise click.UsageError("when? Choose --at TIME or --between FROM TO")
    since_ms, until_ms = between or (at_ms or 0, at_ms or 0)
    if since_ms > until_ms:
        raise click.UsageError("--between wants the earlier time first")
    from kgroup.history.query.owner import owners
    from kgroup.render.history import owner_sheet

    with documented("history owner", output), warehouse.open() as engine:
        report = owners(
            engine,
            topic,
            partition,
            since_ms,
            until_ms,
            group_id=group_id,
            cluster=warehouse.cluster,
        )
    return show("history owner", report, output, owner_sheet)
