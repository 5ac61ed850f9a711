"""`kgroup offsets copy`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import ID, check_choice, examples, output_options, regex_option
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.store import (
    GROUP_OPTION,
    SqlNames,
    check_new_name,
    check_two,
    fit_options,
    names_options,
    parse_store,
    topic_option,
)
from kgroup.cli.output.context import documented
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern

if TYPE_CHECKING:
    from kgroup.operation.offsets.plan import Topics


@click.command(
    "copy",
    epilog=examples(
        "kgroup offsets copy zookeeper:zk-1:2181/kafka kafka:kafka-1:9092 --group billing",
        "kgroup offsets copy sample sample --group order-service --as order-service-2",
        "kgroup offsets copy kafka kafka -b kafka-1:9092 --group billing --as billing-2 --execute",
    ),
)
@click.argument("origin", metavar="FROM")
@click.argument("goal", metavar="TO")
@GROUP_OPTION
@click.option("--all", "every", is_flag=True, help="Of every group.")
@regex_option
@topic_option
@click.option(
    "--as", "new_id", metavar="GROUP", type=ID, help="Commit them for a group of another name."
)
@fit_options
@click.option(
    "--by-time",
    is_flag=True,
    help="Commit the offset of the record with the same time: for a mirror of the partitions.",
)
@connection_options
@names_options
@execution_options()
@output_options
def command(
    origin: str,
    goal: str,
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    topics: Topics,
    new_id: str | None,
    clamp: bool,
    by_time: bool,
    connection: Connection,
    names: SqlNames,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Commit in one store what another one has.

    A store is kafka:HOST:PORT (or kafka: the cluster of -b, -C or the environment),
    zookeeper:HOST:PORT/CHROOT, sql:URL (or sql: of the profile or the environment), a file, or, to
    copy from, log-dir:PATH, snapshot:FILE or sample. Epochs of leaders stay behind: they are the
    cluster's. What only the second store has stays. Offsets that the partitions there do not have
    are refused: choose --clamp, or --by-time. Without --execute only the plan is shown.
    """
    check_choice(groups, regex, every=every)
    check_two(origin, goal)
    check_new_name(new_id, groups, regex, "choose it with one --group")
    if clamp and by_time:
        raise click.UsageError("--clamp and --by-time are two ways to find an offset: choose one")
    from kgroup.operation.offsets.transfer import OutOfRange, plan_transfer

    name = "offsets copy"
    store = parse_store(goal, connection, names)
    if store.file is not None and not os.path.exists(store.file):
        raise click.UsageError(
            f"{goal}: expected a store, found no such file; 'kgroup offsets export' writes files"
        )
    with (
        documented(name, output),
        parse_store(origin, connection, names).open(tuple(groups)) as source,
        store.open() as target,
        store.open_cluster(target) as cluster,
    ):
        plan = plan_transfer(
            source,
            target,
            cluster,
            groups,
            regex,
            new_id=new_id,
            topics=topics,
            leader_epochs=False,
            fit=OutOfRange.BY_TIME if by_time else OutOfRange.CLAMP if clamp else OutOfRange.REFUSE,
        )
        return execution.run(name, plan, target, store, output)
