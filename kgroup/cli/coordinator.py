"""`kgroup coordinator`."""

from collections.abc import Sequence

import click

from kgroup.cli.context import documented, show
from kgroup.cli.options import Output, examples, output_options
from kgroup.cli.source import Source, source_options
from kgroup.errors import ExitStatus

__all__ = ["command"]


@click.command(
    "coordinator",
    epilog=examples(
        "kgroup coordinator billing shipping",
        "kgroup coordinator billing --offsets-partitions 10 -o json",
        "kgroup coordinator --sample billing",
        "kgroup coordinator billing -b kafka-1:9092",
    ),
)
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@source_options(required=False)
@click.option(
    "--offsets-partitions",
    metavar="N",
    type=click.IntRange(min=1, max=2**31 - 1),
    help="Number of partitions of __consumer_offsets, to compute without a cluster; 50 is Kafka's "
    "default.",
)
@output_options
def command(
    groups: Sequence[str], source: Source, offsets_partitions: int | None, output: Output
) -> ExitStatus:
    """Find a group's coordinator and its __consumer_offsets partition.

    The leader of that partition is the group's coordinator. The partition is computed from the
    name, so the group need not exist. A cluster tells who leads the partition, and which broker
    answers for the group; a log directory, where the group was really found. Without a source the
    partition is computed only.
    """
    from kgroup.operation.locate import locate, locate_live
    from kgroup.render.group import location_sheet

    connection = source.connection
    if offsets_partitions is not None and connection is not None:
        if connection.chosen_by:
            raise click.UsageError(
                "--offsets-partitions is for computing without a cluster, which knows the number"
            )
        connection = None
    with documented("coordinator", output):
        if connection is not None:
            with connection.open() as cluster:
                report = locate_live(groups, cluster)
        elif source.paths:
            with source.open() as found:
                report = locate(groups, partition_count=offsets_partitions, source=found)
        else:
            report = locate(groups, partition_count=offsets_partitions)
    return show("coordinator", report, output, location_sheet)
