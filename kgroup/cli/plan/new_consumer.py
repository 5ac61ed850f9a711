"""`kgroup plan new-consumer`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.plan import (
    CONSUMER_CONFIG_OPTION,
    DIAGRAM_OPTION,
    habit_options,
    write_old_plans,
)
from kgroup.cli.option.source import Source, zookeeper_source_options
from kgroup.cli.option.suggestion import named_groups_argument
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus

if TYPE_CHECKING:
    from kgroup.operation.plan.forecast import ProgramBehavior


@click.command(
    "new-consumer",
    epilog=examples(
        "kgroup plan new-consumer stock-sync --sample",
        "kgroup plan new-consumer billing --zookeeper zk-1:2181/kafka -o json",
        "kgroup plan new-consumer billing --zookeeper zk-1:2181 --consumer-config old.properties",
    ),
)
@named_groups_argument
@zookeeper_source_options
@CONSUMER_CONFIG_OPTION
@habit_options
@DIAGRAM_OPTION
@output_options
def command(
    groups: Sequence[str],
    source: Source,
    consumer_config: Path | None,
    habits: ProgramBehavior,
    diagram: bool,
    output: Output,
) -> ExitStatus:
    """Replace consumers on ZooKeeper by Java's consumer of 0.9 and later.

    Neither knows of the other, so that there is no rolling way: the old consumers are stopped,
    what they have committed is copied to Kafka, and new ones start with settings of other names.
    """
    from kgroup.operation.plan.new_consumer import plan_new_consumer

    make = partial(plan_new_consumer, habits=habits)
    name = "plan new-consumer"
    return write_old_plans(name, source, groups, make, consumer_config, output, diagram=diagram)
