"""`kgroup zk` and its commands."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kgroup.cli.command_group import CommandGroup
from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.source import Source, zookeeper_source_options
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import Output, json_errors, show
from kgroup.errors import ExitStatus

command = CommandGroup(
    "kgroup zk",
    """Inspect the nodes and fetchers of ZooKeeper consumers.

    Kafka 0.7 and 0.8 keep the members and owners of a group, and usually its committed offsets, in
    ZooKeeper. 'kgroup list', 'describe', 'snapshot' and 'assign' read these groups like all others;
    these commands show what only they have.
    """,
)


@command.command(
    "ids",
    epilog=examples(
        "kgroup zk ids --sample",
        "kgroup zk ids --sample stock-sync -o json",
        "kgroup zk ids --zookeeper zk-1:2181,zk-2:2181/kafka billing",
    ),
)
@click.argument("groups", metavar="[GROUP...]", nargs=-1, shell_complete=suggest_groups)
@zookeeper_source_options
@output_options("zookeeper.CONSUMER_COLUMNS")
def ids_command(groups: Sequence[str], source: Source, output: Output) -> ExitStatus:
    """List the consumers that are registered in ZooKeeper.

    Reads /consumers/GROUP/ids/*: the topics of each consumer with the number of streams, since when
    it is registered, and how many partitions it owns. A consumer that crashed is listed until its
    session expires. Without GROUP, lists all groups.
    """
    from kgroup.operation.zookeeper.nodes import list_consumers

    with json_errors(output), source.open() as opened:
        report = list_consumers(opened, groups)
    return show(report, output)


@command.command(
    "owners",
    epilog=examples(
        "kgroup zk owners --sample stock-sync",
        "kgroup zk owners --sample -o tsv --no-headers --columns topic,partition,thread_id",
        "kgroup zk owners --zookeeper zk-1:2181/kafka billing shipping",
    ),
)
@click.argument("groups", metavar="[GROUP...]", nargs=-1, shell_complete=suggest_groups)
@zookeeper_source_options
@output_options("zookeeper.OWNER_COLUMNS")
def owners_command(groups: Sequence[str], source: Source, output: Output) -> ExitStatus:
    """List which consumer thread owns which partition, and since when.

    Reads /consumers/GROUP/owners/TOPIC/PARTITION. A partition without a node has no owner; 'kgroup
    check' finds problems with owners. Without GROUP, lists all groups.
    """
    from kgroup.operation.zookeeper.nodes import list_owners

    with json_errors(output), source.open() as opened:
        report = list_owners(opened, groups)
    return show(report, output)


@command.command(
    "tree",
    epilog=examples(
        "kgroup zk tree /consumers/stock-sync --sample",
        "kgroup zk tree /brokers --sample --depth 2",
        "kgroup zk tree /config/topics --zookeeper zk-1:2181/kafka -o jsonl",
    ),
)
@click.argument("path", default="/", metavar="[PATH]")
@click.option(
    "--depth",
    metavar="N",
    type=click.IntRange(min=0, max=2**31 - 1),
    help="Show N levels below PATH; 0 shows only PATH itself.  [default: all]",
)
@zookeeper_source_options
@output_options("zookeeper.NODE_COLUMNS")
def tree_command(path: str, depth: int | None, source: Source, output: Output) -> ExitStatus:
    """Show nodes of ZooKeeper, decoded.

    PATH is relative to the chroot; without PATH, shows the whole tree. Nodes that Kafka writes are
    decoded, in every format that Kafka has used. A node that cannot be decoded is shown as it is,
    with the reason, and the exit status is 4. A snapshot has only the nodes of its groups and of
    the cluster.
    """
    from kgroup.operation.zookeeper.nodes import list_nodes

    with json_errors(output), source.open() as opened:
        report = list_nodes(opened, path, depth)
    return show(report, output)


_VERSIONS = ("0.8.0", "0.8.1.1", "0.8.2.2")


@command.command(
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
    help="num.consumer.fetchers of the consumers: fetcher threads per broker.",
)
@click.option(
    "--reset",
    type=click.Choice(["largest", "smallest"]),
    default="largest",
    show_default=True,
    help="auto.offset.reset of the consumers: where a fetcher without a usable offset starts.",
)
@click.option(
    "--kafka-version",
    type=click.Choice(_VERSIONS),
    default=_VERSIONS[-1],
    show_default=True,
    help="Kafka version of the consumers: 0.8.1 numbers fetchers differently, and 0.8.0 has one "
    "per broker.",
)
@zookeeper_source_options
@output_options("zookeeper.FETCH_COLUMNS")
def fetchers_command(
    group: str, count: int, reset: str, kafka_version: str, source: Source, output: Output
) -> ExitStatus:
    """Show what the fetcher threads of a group read, and from where.

    Prints a row for each partition that is owned: the consumer and its stream, the Java thread that
    should be fetching it, the broker it fetches from, and the offset at which a fetcher would start
    now. Partitions without a live leader wait for one. If offsets are committed to both ZooKeeper
    and Kafka, the larger one counts. ZooKeeper does not have the settings of the consumers, so they
    are options.
    """
    from kgroup.operation.zookeeper.fetcher import OffsetReset, list_fetches

    with json_errors(output), source.open() as opened:
        report = list_fetches(
            opened, group, count=count, reset=OffsetReset(reset), kafka_version=kafka_version
        )
    return show(report, output)
