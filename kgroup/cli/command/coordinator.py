"""`kgroup coordinator`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import ID, examples, output_options
from kgroup.cli.option.connection import Connection
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import Output, json_errors, show
from kgroup.errors import ExitStatus

_COUNT = click.IntRange(min=1, max=2**31 - 1)


@click.command(
    "coordinator",
    cls=Command,
    epilog=examples(
        "kgroup coordinator billing shipping",
        "kgroup coordinator billing --offsets-partitions 10 -o json",
        "kgroup coordinator --sample billing",
        "kgroup coordinator billing -b kafka-1:9092",
        "kgroup coordinator --type transaction billing-producer-1 -b kafka-1:9092",
        "kgroup coordinator --type transaction billing-producer-1 --transaction-partitions 50",
    ),
)
@click.argument(
    "names", metavar="ID...", nargs=-1, type=ID, required=True, shell_complete=suggest_groups
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(["group", "transaction"]),
    default="group",
    show_default=True,
    help="Kind of the ids: group ids, or transactional.ids of producers.",
)
@source_options(required=False)
@click.option(
    "--offsets-partitions",
    metavar="N",
    type=_COUNT,
    help="Compute with N partitions of __consumer_offsets instead of asking a cluster; Kafka's "
    "default is 50.",
)
@click.option(
    "--transaction-partitions",
    metavar="N",
    type=_COUNT,
    help="Compute with N partitions of __transaction_state instead of asking a cluster.",
)
@output_options("group.LOCATION_COLUMNS", {"--type transaction": "group.TRANSACTION_COLUMNS"})
def command(
    names: Sequence[str],
    kind: str,
    source: Source,
    offsets_partitions: int | None,
    transaction_partitions: int | None,
    output: Output,
) -> ExitStatus:
    """Find a group's coordinator, and whether it answers.

    The coordinator is the leader of the group's partition of __consumer_offsets. The partition is
    computed from the group id, so the group need not exist. A cluster reports the leader of the
    partition, and which broker coordinates the group; one request about the group is sent to that
    broker, to see whether it answers and how fast. A log directory reports where the group was
    actually found; a snapshot, what its source reported. Without a source, only the partition is
    computed.

    With --type transaction, the same for transactional ids and __transaction_state; the only source
    is a cluster.
    """
    if kind == "transaction":
        if offsets_partitions is not None:
            raise click.UsageError(
                "--offsets-partitions applies to groups; use --transaction-partitions"
            )
        return _transactions(names, source, transaction_partitions, output)
    if transaction_partitions is not None:
        raise click.UsageError(
            "--transaction-partitions requires --type transaction; use --offsets-partitions for "
            "groups"
        )
    return _groups(names, source, offsets_partitions, output)


def _groups(
    group_ids: Sequence[str], source: Source, count: int | None, output: Output
) -> ExitStatus:
    from kgroup.operation.locate import locate

    source = source.that_has(group_ids)
    is_asked = _connection(source, count, "--offsets-partitions") or source.paths or source.file
    with json_errors(output), source.open() if is_asked else nullcontext() as opened:
        report = locate(group_ids, opened, partition_count=count)
    return show(report, output)


def _transactions(
    transactional_ids: Sequence[str], source: Source, count: int | None, output: Output
) -> ExitStatus:
    from kgroup.operation.locate import locate_transactions

    if source.paths or source.file is not None or source.zookeeper is not None:
        raise click.UsageError(
            "--type transaction needs a cluster (--bootstrap-server, --profile) or "
            "--transaction-partitions N; other sources do not know the coordinators of "
            "transactions"
        )
    connection = _connection(source, count, "--transaction-partitions")
    with json_errors(output), connection.open() if connection else nullcontext() as cluster:
        report = locate_transactions(transactional_ids, cluster, partition_count=count)
    return show(report, output)


def _connection(source: Source, count: int | None, option: str) -> Connection | None:
    """Return the connection; None if a number of partitions is given for the computation."""
    connection = source.connection
    if count is not None and connection is not None:
        if connection.chosen_by or source.zookeeper is not None:
            raise click.UsageError(
                f"{option} is for computing without a cluster; leave it out, as the cluster knows "
                "the number"
            )
        return None
    return connection
