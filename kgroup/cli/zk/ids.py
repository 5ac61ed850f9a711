"""`kgroup zk ids`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.source import Source, zookeeper_source_options
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus


@click.command(
    "ids",
    epilog=examples(
        "kgroup zk ids --sample",
        "kgroup zk ids --sample stock-sync -o json",
        "kgroup zk ids --zookeeper zk-1:2181,zk-2:2181/kafka billing",
    ),
)
@click.argument("groups", metavar="[GROUP...]", nargs=-1, shell_complete=suggest_groups)
@zookeeper_source_options
@output_options
def command(groups: Sequence[str], source: Source, output: Output) -> ExitStatus:
    """List the consumers that are registered in ZooKeeper.

    Their nodes are /consumers/GROUP/ids/*: what each reads with how many streams, since when it is
    there, and how many partitions it owns. A consumer that crashed is listed until its session
    expires. Without a group, all groups.
    """
    from kgroup.operation.zookeeper.nodes import list_consumers
    from kgroup.render.zookeeper import consumer_sheet

    with documented("zk ids", output), source.open() as found:
        report = list_consumers(found, groups)
    return show("zk ids", report, output, consumer_sheet)
