"""`kgroup doctor`."""

from __future__ import annotations

from contextlib import nullcontext

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.output.context import Output, json_errors, show
from kgroup.errors import ExitStatus


@click.command(
    "doctor",
    cls=Command,
    epilog=examples(
        "kgroup doctor",
        "kgroup doctor -b kafka-1:9092",
        "kgroup doctor -C prod -o json",
        "kgroup doctor --zookeeper zk-1:2181/kafka",
    ),
)
@source_options(required=False, files=False)
@output_options("doctor.DIAGNOSIS_COLUMNS")
def command(source: Source, output: Output) -> ExitStatus:
    """Check the installation, and the connection to a cluster.

    Prints what is wrong first, with what to do, then what works. Checks each package that kgroup
    uses, Java, which Spark needs, and, if a cluster or ZooKeeper is given, it and each of its
    brokers. The exit status is 5 if one of these does not answer. Nothing is changed.
    """
    from kgroup.operation.doctor import examine
    from kgroup.render.doctor import diagnoses_page
    from kgroup.spark.session import java_trouble

    with json_errors(output), nullcontext() if source == Source() else source.open() as opened:
        report = examine(opened, java_trouble())
    return show(report, output, diagnoses_page)
