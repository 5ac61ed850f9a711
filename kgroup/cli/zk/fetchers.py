"""`kgroup zk fetchers`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.source import Source, zookeeper_source_options
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

_VERSIONS = ("0.8.0", "0.8.1.1", "0.8.2.2")


@click.command(
    "fetchers",
    epilog=examples(
        "kgroup zk fetchers price-feed --sample",
        "kgroup zk fetchers click-stats --sample --reset smallest -o json",
        "kgroup zk fetchers billing --zookeeper zk-1:2181/kafka --num-consumer-fetchers 2",
    ),
)
@click.argument("group", shell_complete=suggest_groups)
@click.option(
    "--num-consumer-fetchers",
    "count",
    metavar="N",
    type=click.IntRange(min=1, max=2**31 - 1),
    default=1,
    show_default=True,
    help="The consumers' num.consumer.fetchers: fetcher threads for each broker.",
)
@click.option(
    "--reset",
    type=click.Choice(["largest", "smallest"]),
    default="largest",
    show_default=True,
    help="The consumers' auto.offset.reset: where a fetcher goes that has no usable offset.",
)
@click.option(
    "--kafka-version",
    type=click.Choice(_VERSIONS),
    default=_VERSIONS[-1],
    show_default=True,
    help="The consumers' version of Kafka: 0.8.1 numbers fetchers otherwise, and 0.8.0 has one for "
    "each broker.",
)
@zookeeper_source_options
@output_options
def command(
    group: str, count: int, reset: str, kafka_version: str, source: Source, output: Output
) -> ExitStatus:
    """Show what the fetcher threads of a group read, and from where.

    A row for each partition that is owned: the consumer and its stream, the Java thread that should
    be fetching it, the broker that is asked, and the offset at which a fetcher begins that is
    started now. Partitions without a leader that lives wait for one. Of commits to ZooKeeper and to
    Kafka the larger one counts. The settings of the consumers are not in ZooKeeper, hence the
    options.
    """
    from kgroup.operation.zookeeper.fetcher import OffsetReset, list_fetches
    from kgroup.render.zookeeper import fetch_sheet

    with documented("zk fetchers", output), source.open() as found:
        report = list_fetches(
            found, group, count=count, reset=OffsetReset(reset), kafka_version=kafka_version
        )
    return show("zk fetchers", report, output, fetch_sheet)
