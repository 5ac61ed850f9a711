"""`kgroup history stream`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import ID, examples, parsed
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.history import to_option
from kgroup.cli.option.parameter import parse_seconds
from kgroup.cli.option.spark import SparkChoice, spark_options
from kgroup.cli.option.warehouse import explain_write_errors
from kgroup.cli.output.context import warn
from kgroup.errors import ExitStatus

if TYPE_CHECKING:
    from kgroup.history.build.build import ClusterReport
    from kgroup.operation.report import Report


@click.command(
    "stream",
    epilog=examples(
        "kgroup history stream -b kafka-1:9092 --to warehouse",
        "kgroup history stream -b kafka-1:9092 --to warehouse --every 10 --cluster prod",
    ),
)
@to_option
@click.option("--cluster", metavar="NAME", type=ID, help="Name of the cluster.  [default: its id]")
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    default="60",
    show_default=True,
    callback=parsed(parse_seconds),
    help="From the begin of a batch to that of the next.",
)
@spark_options("local[*]")
@connection_options
def command(
    root: Path, cluster: str | None, every_s: float, spark: SparkChoice, connection: Connection
) -> ExitStatus:
    """Keep a warehouse current from a cluster, until interrupted.

    Batch after batch, what has come into __consumer_offsets is written into the tables, each record
    once; a line on standard error tells of each batch. The first begins with what the warehouse
    does not have yet. A batch that runs when the command is interrupted comes to its end.

    Nothing is written to the cluster. Other builds may use the warehouse between two batches.
    """
    if cluster == "":
        raise click.UsageError("--cluster: expected a name, found an empty text")
    from kgroup.history.input.live_source import ask_live
    from kgroup.spark.session import check_installed, spark_session

    check_installed()
    config = connection.client_config()
    # before Spark, which takes long to start
    name = ask_live(config, cluster, connection.timeout_s).cluster
    with (
        explain_write_errors(root, "The tables have what the batches before have written."),
        spark_session(spark.master, spark.settings, only_tasks=True) as session,
    ):
        from kgroup.spark.stream import stream_history  # there is PySpark

        warn(f"note: Spark has started. What comes is written every {every_s:g} s.")
        stream_history(session, config, name, root, every_s=every_s, on_report=_show)
    return ExitStatus.DONE


def _show(report: Report[ClusterReport]) -> None:
    from kgroup.render.history import build_line

    for each in report.data:
        warn(build_line(each))
    for problem in report.errors:
        warn(f"error: {problem.reason}")
