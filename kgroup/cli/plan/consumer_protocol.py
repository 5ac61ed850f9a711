"""`kgroup plan consumer-protocol`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import ID, examples, output_options, parsed
from kgroup.cli.option.plan import DIAGRAM_OPTION, habit_options, write_plans
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import named_groups_argument
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

if TYPE_CHECKING:
    from kgroup.operation.plan.forecast import ProgramBehavior
    from kgroup.operation.plan.plan import Plan
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource


def _parse_version(text: str) -> tuple[int, ...]:
    if re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,3}", text) is None:
        raise ValueError(f"expected a version such as 4.1.0, found {text!r}")
    return tuple(map(int, text.split(".")))


@click.command(
    "consumer-protocol",
    epilog=examples(
        "kgroup plan consumer-protocol payment-service --sample",
        "kgroup plan consumer-protocol pricing --back --sample -o markdown",
        "kgroup plan consumer-protocol billing -b kafka-1:9092 -o json",
        "kgroup plan consumer-protocol billing -b kafka-1:9092 --stop",
        "kgroup plan consumer-protocol billing -b kafka-1:9092 --client java --client-version 4.1",
    ),
)
@named_groups_argument
@source_options(required=True)
@click.option("--back", is_flag=True, help="From the consumer protocol to the classic one.")
@click.option(
    "--assignor",
    metavar="NAME",
    type=ID,
    help="That the group shall have: one of the brokers, with --back a strategy of the members.  "
    "[default: the nearest one]",
)
@click.option("--stop", "stops", is_flag=True, help="Stop the group meanwhile.")
@click.option(
    "--client", type=click.Choice(["java", "librdkafka"]), help="Library of the members' clients."
)
@click.option(
    "--client-version",
    metavar="VERSION",
    callback=parsed(_parse_version),
    help="Version of it that the members will have.",
)
@habit_options
@DIAGRAM_OPTION
@output_options
def command(
    groups: Sequence[str],
    source: Source,
    back: bool,
    assignor: str | None,
    stops: bool,
    client: str | None,
    client_version: tuple[int, ...] | None,
    habits: ProgramBehavior,
    diagram: bool,
    output: Output,
) -> ExitStatus:
    """Move groups to the consumer protocol (KIP-848), or back.

    Members are restarted one after another with group.protocol=consumer, and the group reads on.
    The broker that coordinates it is asked whether it lets the group go.
    """
    if client_version is not None and client is None:
        raise click.UsageError("--client-version is of a library: say which with --client")
    from kgroup.operation.plan.consumer_protocol import plan_consumer_protocol
    from kgroup.operation.plan.running import plan_each

    def plans(opened: GroupSource, groups: Sequence[str]) -> Report[Plan]:
        make = partial(
            plan_consumer_protocol,
            habits=habits,
            back=back,
            assignor=assignor,
            stops=stops,
            library=client,
            version=client_version,
        )
        return plan_each(opened, groups, make, habits)

    name = "plan consumer-protocol"
    return write_plans(name, source, groups, plans, output, diagram=diagram)
