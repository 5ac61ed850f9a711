"""`kgroup plan kafka-offsets`."""

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
    "kafka-offsets",
    epilog=examples(
        "kgroup plan kafka-offsets stock-sync --sample",
        "kgroup plan kafka-offsets billing --zookeeper zk-1:2181/kafka -o json",
        "kgroup plan kafka-offsets billing --zookeeper zk-1:2181 --consumer-config old.properties",
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
    """Move commits of consumers on ZooKeeper to Kafka.

    Consumers of 0.8.2 go on to read meanwhile: they are restarted one after another with commits to
    both stores, and then with commits to Kafka alone.
    """
    from kgroup.operation.plan.kafka_offsets import plan_kafka_offsets

    make = partial(plan_kafka_offsets, habits=habits)
    name = "plan kafka-offsets"
    return write_old_plans(name, source, groups, make, consumer_config, output, diagram=diagram)
