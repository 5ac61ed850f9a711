"""`kgroup offsets show`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kgroup.cli.option.common import check_choice, examples, output_options, regex_option
from kgroup.cli.option.store import Store, store_options
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern


@click.command(
    "show",
    epilog=examples(
        "kgroup offsets show --sample order-service",
        "kgroup offsets show -b kafka-1:9092 --all -o jsonl",
        "kgroup offsets show --zookeeper zk-1:2181/kafka billing",
        "kgroup offsets show --file offsets.json billing",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group.")
@regex_option
@store_options
@output_options
def command(
    groups: Sequence[str], every: bool, regex: Pattern | None, store: Store, output: Output
) -> ExitStatus:
    """Show what groups have committed.

    Unlike 'kgroup describe' it asks for nothing else, and also reads SQL tables and files. What it
    writes as JSON or JSON lines 'kgroup offsets import' reads.
    """
    check_choice(groups, regex, every=every)
    from kgroup.operation.offsets.read import show_offsets
    from kgroup.render.offsets import stored_sheet

    with documented("offsets show", output), store.open(tuple(groups)) as found:
        report = show_offsets(found, groups, regex)
    return show("offsets show", report, output, stored_sheet)
