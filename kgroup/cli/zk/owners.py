"""`kgroup zk owners`."""

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
    "owners",
    epilog=examples(
        "kgroup zk owners --sample stock-sync",
        "kgroup zk owners --sample -o tsv --no-headers --columns topic,partition,thread_id",
        "kgroup zk owners --zookeeper zk-1:2181/kafka billing shipping",
    ),
)
@click.argument("groups", metavar="[GROUP...]", nargs=-1, shell_complete=suggest_groups)
@zookeeper_source_options
@output_options
def command(groups: Sequence[str], source: Source, output: Output) -> ExitStatus:
    """List which consumer thread owns which partition, and since when.

    The nodes are /consumers/GROUP/owners/TOPIC/PARTITION. What has no node has no owner; whether
    something is wrong with the owners tells 'kgroup check'. Without a group, all groups.
    """
    from kgroup.operation.zookeeper.nodes import list_owners
    from kgroup.render.zookeeper import owner_sheet

    with documented("zk owners", output), source.open() as found:
        report = list_owners(found, groups)
    return show("zk owners", report, output, owner_sheet)
