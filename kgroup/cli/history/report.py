"""`kgroup history report`."""

from __future__ import annotations

import click

from kgroup.atomic_file import FileKind
from kgroup.cli.option.common import examples
from kgroup.cli.option.history import group_argument, time_options
from kgroup.cli.option.output_file import OutputFile, output_file_option
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import warn_notes
from kgroup.errors import ExitStatus


@click.command(
    "report",
    epilog=examples(
        "kgroup history report --warehouse warehouse billing --html billing.html",
        "kgroup history report --warehouse warehouse billing --since 2d --html billing.html",
    ),
)
@group_argument
@output_file_option("--html", kind=FileKind.PAGE, text="Where the page is written.")
@time_options("Only from then on.", "Only before then.")
@warehouse_options
def command(
    group_id: str,
    target: OutputFile,
    since_ms: int | None,
    until_ms: int | None,
    warehouse: WarehouseChoice,
) -> ExitStatus:
    """Draw a group's history as one page of HTML, which needs no network.

    It shows who owned what, rebalances with their causes, when members were there, how often the
    group committed, and its lag where log end offsets were recorded. A page of kgroup of that name
    is replaced when the new one is whole, another file only with --force.
    """
    from kgroup.history.query.group_page import group_page
    from kgroup.render.history_page import group_html

    with warehouse.open() as engine:
        report = group_page(
            engine, group_id, since_ms=since_ms, until_ms=until_ms, cluster=warehouse.cluster
        )
    (page,) = report.data
    with target.open() as output:
        output.writelines(text.encode() for text in group_html(page))
    warn_notes(report.notes)
    return report.exit_status
