"""`kgroup zk check`."""

from collections.abc import Sequence

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.source import Source, zookeeper_source_options
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

__all__ = ["command"]


@click.command(
    "check",
    epilog=examples(
        "kgroup zk check --sample",
        "kgroup zk check --sample click-stats -o json",
        "kgroup zk check --zookeeper zk-1:2181/kafka",
        "kgroup zk check --zookeeper zk-1:2181/kafka billing --strategy roundrobin",
    ),
)
@click.argument("groups", metavar="[GROUP...]", nargs=-1, shell_complete=suggest_groups)
@click.option(
    "--strategy",
    metavar="NAME",
    type=click.Choice(["range", "roundrobin"]),
    help="The consumers' partition.assignment.strategy.  [default: the one that fits what they "
    "own, or else range]",
)
@zookeeper_source_options
@output_options
def command(
    groups: Sequence[str], strategy: str | None, source: Source, output: Output
) -> ExitStatus:
    """Find what is wrong with groups: owners, topics, offsets.

    A row for each finding, with the node concerned and what to do. Owners are compared with the
    consumers and with what the assignor gives, commits with the logs and with what is committed
    to Kafka. Without a group, all groups. The exit status is 5 where something was found.
    """
    from kgroup.operation.zookeeper.check import check_groups
    from kgroup.render.group.zookeeper import finding_sheet, findings_text

    with documented("zk check", output), source.open() as found:
        now_ms = source.instant_ms(found)
        report = check_groups(found, groups, now_ms=now_ms, strategy=strategy)
    return show("zk check", report, output, finding_sheet, findings_text)
