"""`kgroup coordinator`."""

from collections.abc import Sequence
from pathlib import Path

import click

from kgroup.cli.context import show
from kgroup.cli.options import Output, examples, output_options, source_options
from kgroup.errors import ExitStatus

__all__ = ["command"]


@click.command(
    "coordinator",
    epilog=examples(
        "kgroup coordinator billing shipping",
        "kgroup coordinator billing --offsets-partitions 10 -o json",
        "kgroup coordinator --sample billing",
    ),
)
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@source_options(required=False)
@click.option(
    "--offsets-partitions",
    metavar="N",
    type=click.IntRange(min=1, max=2**31 - 1),
    help="Number of partitions of __consumer_offsets; 50 is Kafka's default.",
)
@output_options
def command(
    groups: Sequence[str], paths: Sequence[Path], offsets_partitions: int | None, output: Output
) -> ExitStatus:
    """Find the __consumer_offsets partition of a group.

    The leader of that partition is the group's coordinator. The partition is computed from the
    name, so the group need not exist, and no source is needed; with one, it is said where the
    group was really found.
    """
    from kgroup.operation.locate import locate
    from kgroup.render.group import location_sheet
    from kgroup.source.log_dir import LogDir

    report = locate(
        groups, partition_count=offsets_partitions, source=LogDir(paths) if paths else None
    )
    return show("coordinator", report, output, location_sheet)
