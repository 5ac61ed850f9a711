"""`kgroup plan assignor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.plan import DIAGRAM_OPTION, habit_options, write_plans
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import named_groups_argument
from kgroup.cli.output.form import Output
from kgroup.cli.shell.suggestion import suggest_strategies
from kgroup.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from kgroup.operation.plan.forecast import ProgramBehavior


def _parse_settings(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    """Read what members support: MEMBER=STRATEGY,…, or only strategies, of every member."""
    from kgroup.operation.plan.assignor import CLASSES, strategy_named

    told: dict[str, tuple[str, ...]] = {}
    for text in values:
        member, equals, rest = text.rpartition("=")
        meant = ""
        try:
            names = tuple(strategy_named(each.strip()) for each in rest.split(","))
        except UsageError as error:
            names, meant = (), "".join(str(error).partition("; did you mean")[1:])
        if (equals and not member) or not names:
            raise click.BadParameter(
                f"expected MEMBER=STRATEGY,… with strategies of {', '.join(CLASSES)}, found "
                f"{text!r}{meant}",
                ctx,
                param,
            )
        told[member] = names
    return told


@click.command(
    "assignor",
    epilog=examples(
        "kgroup plan assignor cooperative-sticky payment-service --sample",
        "kgroup plan assignor range order-service --sample --restart-time 30s -o markdown",
        "kgroup plan assignor cooperative-sticky billing -b kafka-1:9092 -o json",
        "kgroup plan assignor cooperative-sticky billing -b kafka-1:9092 --client librdkafka",
    ),
)
@click.argument("strategy", metavar="STRATEGY", shell_complete=suggest_strategies)
@named_groups_argument
@source_options(required=True)
@click.option(
    "--settings",
    metavar="[MEMBER=]STRATEGY,...",
    multiple=True,
    callback=_parse_settings,
    help="What a member supports, or every member, which no cluster tells. Repeat it for more.  "
    "[default: the group's strategy]",
)
@click.option(
    "--client",
    type=click.Choice(["java", "librdkafka"]),
    help="Library of the members' clients; that of librdkafka (also of Python, Go, .NET, Node) "
    "cannot mix strategies.",
)
@habit_options
@DIAGRAM_OPTION
@output_options
def command(
    strategy: str,
    groups: Sequence[str],
    source: Source,
    settings: Mapping[str, tuple[str, ...]],
    client: str | None,
    habits: ProgramBehavior,
    diagram: bool,
    output: Output,
) -> ExitStatus:
    """Move groups to another strategy of their members.

    STRATEGY is range, roundrobin, sticky or cooperative-sticky, or its class. From an eager
    strategy to the cooperative one, and back, a group goes in two rolling restarts; how many others
    take hangs on what members support already.
    """
    from kgroup.operation.plan.assignor import plan_assignors, strategy_named

    plans = partial(
        plan_assignors,
        strategy=strategy_named(strategy),
        told=settings,
        habits=habits,
        library=client,
    )
    return write_plans("plan assignor", source, groups, plans, output, diagram=diagram)
