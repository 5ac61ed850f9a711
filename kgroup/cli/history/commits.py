"""`kgroup history commits`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.history import group_argument, length_option, time_options, topic_option
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "commits",
    epilog=examples(
        "kgroup history commits --warehouse warehouse order-service",
        "kgroup history commits --warehouse warehouse order-service --longer-than 10s "
        "--pauses -o csv",
        "kgroup history commits --warehouse warehouse billing --since 2d --topic orders",
    ),
)
@group_argument
@topic_option
@time_options("Only commits from then on.", "Only commits before then.")
@length_option(
    "--longer-than", "pause_ms", "5m", "Tell pauses one by one that are longer than this."
)
@click.option("--pauses", is_flag=True, help="Columns of pauses in csv, tsv and with --columns.")
@click.option("--jumps", is_flag=True, help="Columns of backward jumps likewise.")
@warehouse_options
@output_options
def command(
    group_id: str,
    topic: str | None,
    since_ms: int | None,
    until_ms: int | None,
    pause_ms: int,
    pauses: bool,
    jumps: bool,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Show how a group committed: how often, where it paused, where it went back.

    A backward jump is a commit below the one before it: offsets were reset, or records are read
    again. Owners are those of the partition when the commits were written; where nobody is known to
    have owned it, somebody else committed: an administrator, say. Commits of transactions that were
    aborted, or are open, are left out.
    """
    if pauses and jumps:
        raise click.UsageError("--pauses and --jumps have different columns; choose one of them")
    from kgroup.history.query.commit_summary import commit_summaries
    from kgroup.render.history import commit_sheet, commit_text, jump_sheet, pause_sheet

    with documented("history commits", output), warehouse.open() as engine:
        report = commit_summaries(
            engine,
            group_id,
            pause_ms=pause_ms,
            since_ms=since_ms,
            until_ms=until_ms,
            topic=topic,
            cluster=warehouse.cluster,
        )
    sheet = pause_sheet if pauses else jump_sheet if jumps else commit_sheet
    page = None if pauses or jumps else commit_text
    return show("history commits", report, output, sheet, page)
