"""`kgroup plan partitions`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import examples, output_options, parsed
from kgroup.cli.option.parameter import parse_some_time
from kgroup.cli.option.plan import DIAGRAM_OPTION, habit_options, write_plans
from kgroup.cli.option.source import Source, source_options, with_sample_zookeeper
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

if TYPE_CHECKING:
    from kgroup.operation.plan.forecast import ProgramBehavior
    from kgroup.operation.plan.plan import Plan
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource

_MOST = 100_000
_RESETS = ("earliest", "latest", "none", "by_duration:")


def _parse_growth(text: str) -> tuple[str, int]:
    topic, equals, number = text.rpartition("=")
    if not equals or not topic or not re.fullmatch(r"[0-9]+", number):
        raise ValueError(f"expected TOPIC=NUMBER, found {text!r}")
    if len(number) > len(str(_MOST)) or not 1 <= int(number) <= _MOST:
        raise ValueError(f"expected 1 to {_MOST} partitions, found {number}")
    return topic, int(number)


def _parse_reset(text: str) -> str:
    from kgroup.operation.plan.partitions import reset_duration_ms

    reset_duration_ms(text)
    return text


@click.command(
    "partitions",
    epilog=examples(
        "kgroup plan partitions orders=8 order-service --sample",
        "kgroup plan partitions orders=12 pricing --sample --auto-offset-reset earliest",
        "kgroup plan partitions orders=24 -b kafka-1:9092 -o json",
        "kgroup plan partitions orders=24 billing -b kafka-1:9092 --metadata-max-age 1m",
    ),
)
@click.argument("growth", metavar="TOPIC=N", callback=parsed(_parse_growth))
@groups_argument
@source_options(required=True)
@click.option(
    "--auto-offset-reset",
    "reset",
    metavar="RESET",
    callback=parsed(_parse_reset),
    shell_complete=lambda *given: [each for each in _RESETS if each.startswith(given[-1])],
    help="What members have for auto.offset.reset, which no cluster tells: earliest, latest, none, "
    "or by_duration:PnDTnHnMn.nS.  [default: unknown; the forecast is for latest]",
)
@click.option(
    "--metadata-max-age",
    metavar="TIME",
    default="5m",
    show_default=True,
    callback=parsed(parse_some_time),
    help="What members have for metadata.max.age.ms: how often they look for partitions.",
)
@habit_options
@DIAGRAM_OPTION
@output_options
def command(
    growth: tuple[str, int],
    groups: Sequence[str],
    source: Source,
    reset: str | None,
    metadata_max_age: int,
    habits: ProgramBehavior,
    diagram: bool,
    output: Output,
) -> ExitStatus:
    """Give a topic more partitions, and lose no record of it.

    Says for each group that reads the topic, or each that is named, who joins again and when, what
    moves, which keys change their partition, and what becomes of records that are written to new
    partitions before anybody owns them.
    """
    from kgroup.operation.plan.partitions import plan_partitions

    topic, count = growth
    zookeeper = with_sample_zookeeper(source)

    def plans(opened: GroupSource, groups: Sequence[str]) -> Report[Plan]:
        return plan_partitions(
            opened,
            topic,
            count,
            tuple(groups),
            habits,
            reset=reset,
            max_age_ms=metadata_max_age,
            zookeeper=None if zookeeper is source else zookeeper.open_snapshot(),
        )

    return write_plans("plan partitions", source, groups, plans, output, diagram=diagram)
