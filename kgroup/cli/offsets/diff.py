"""`kgroup offsets diff`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kgroup.cli.option.common import ID, check_choice, examples, output_options, regex_option
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.store import (
    GROUP_OPTION,
    SqlNames,
    check_new_name,
    check_two,
    names_options,
    parse_store,
)
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern


@click.command(
    "diff",
    epilog=examples(
        "kgroup offsets diff zookeeper:zk-1:2181/kafka kafka:kafka-1:9092 --group billing",
        "kgroup offsets diff sample sample --group order-service --as shipping",
        "kgroup offsets diff offsets.json kafka -b kafka-1:9092 --all",
        "kgroup offsets diff kafka kafka -b kafka-1:9092 --group billing --as billing-2",
    ),
)
@click.argument("first", metavar="STORE")
@click.argument("second", metavar="STORE")
@GROUP_OPTION
@click.option("--all", "every", is_flag=True, help="Every group of both.")
@regex_option
@click.option(
    "--as", "second_id", metavar="GROUP", type=ID, help="What the group is called in the second."
)
@click.option(
    "--times",
    is_flag=True,
    help="Find out when the records were made that would be read next, where one is a cluster.",
)
@connection_options
@names_options
@output_options
def command(
    first: str,
    second: str,
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    second_id: str | None,
    times: bool,
    connection: Connection,
    names: SqlNames,
    output: Output,
) -> ExitStatus:
    """Compare two stores.

    A row for each partition for which they have not the same offset; the exit status is 5 where
    there are any. Stores are named as for 'kgroup offsets copy'.
    """
    check_choice(groups, regex, every=every)
    check_two(first, second)
    check_new_name(second_id, groups, regex, "choose it with one --group")
    from kgroup.operation.offsets.diff import diff_offsets
    from kgroup.render.offsets import difference_sheet
    from kgroup.source.base import NextRecordSource

    name = "offsets diff"
    named = tuple(groups)
    with (
        documented(name, output),
        parse_store(first, connection, names).open(named) as one,
        parse_store(second, connection, names).open(named) as other,
    ):
        clusters = [each for each in (one, other) if isinstance(each, NextRecordSource)]
        if times and not clusters:
            raise click.UsageError("--times asks a cluster, and neither of the two is one")
        # What is no cluster is about the other one's records.
        report = diff_offsets(
            one,
            other,
            groups,
            regex,
            second_id=second_id,
            first_log=clusters[0] if times else None,
            second_log=clusters[-1] if times else None,
        )
    return show(name, report, output, difference_sheet)
