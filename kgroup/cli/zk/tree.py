"""`kgroup zk tree`."""

from __future__ import annotations

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.source import Source, zookeeper_source_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
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
    help="How many levels below PATH; 0 is that node alone.  [default: all]",
)
@zookeeper_source_options
@output_options
def command(path: str, depth: int | None, source: Source, output: Output) -> ExitStatus:
    """Show nodes of ZooKeeper, decoded.

    PATH is below the chroot; without it, the whole tree. Nodes that Kafka writes are decoded, in
    every form that it has written. What cannot be decoded is shown as it is, with the reason, and
    the exit status is 4. A snapshot has the nodes of its groups and of the cluster only.
    """
    from kgroup.operation.zookeeper.nodes import list_nodes
    from kgroup.render.zookeeper import node_sheet

    with documented("zk tree", output), source.open() as found:
        report = list_nodes(found, path, depth)
    return show("zk tree", report, output, node_sheet)
