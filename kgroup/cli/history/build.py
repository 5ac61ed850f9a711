"""`kgroup history build`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kgroup.cli.option.common import ID, examples, output_options
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.history import to_option
from kgroup.cli.option.spark import SparkChoice, spark_options
from kgroup.cli.option.warehouse import explain_write_errors
from kgroup.cli.output.context import documented, show, warn
from kgroup.cli.output.form import Output
from kgroup.cli.output.progress import Progress
from kgroup.errors import ExitStatus


@click.command(
    "build",
    epilog=examples(
        "kgroup history build --sample --to warehouse",
        "kgroup history build --from /var/lib/kafka/data --to warehouse",
        "kgroup history build --from /backup/broker-1 /backup/broker-2 --to warehouse",
        "kgroup history build -b kafka-1:9092 --to warehouse --cluster prod",
        "kgroup history build --from s3://logs/kafka --to warehouse --master spark://spark-1:7077",
    ),
)
@click.option(
    "--from",
    "locations",
    metavar="PATH",
    multiple=True,
    help="A log directory, a folder of segments or a segment of __consumer_offsets; also a URI "
    "such as s3://bucket/folder. Or a snapshot, for the log end offsets that 'history lag' needs. "
    "Name more behind it, those of several brokers too.",
)
@click.argument("more", metavar="[PATH...]", nargs=-1)
@click.option("--sample", is_flag=True, help="Recorded data inside the package.")
@to_option
@click.option(
    "--cluster",
    metavar="NAME",
    type=ID,
    help="Name of the cluster.  [default: the id in meta.properties, or that the brokers tell]",
)
@spark_options("none where there is little to read, else local[*]")
@connection_options
@output_options
def command(
    locations: Sequence[str],
    more: Sequence[str],
    sample: bool,
    root: Path,
    cluster: str | None,
    spark: SparkChoice,
    connection: Connection,
    output: Output,
) -> ExitStatus:
    """Make a warehouse of what the records of __consumer_offsets say, or bring it up to date.

    What was read before is not read again, and what several brokers have is taken once: run it as
    often as new records are wanted, before compaction removes them. What one run writes counts as a
    whole when it ends. Nothing is written to the cluster.

    Without a cluster's name in --cluster, a warehouse takes as many clusters as there are.
    """
    if more and not locations:
        raise click.UsageError(f"{more[0]}: name it behind --from")
    locations = (*locations, *more)
    if "" in locations:
        raise click.UsageError("--from: expected a path, found an empty text")
    if cluster == "":
        raise click.UsageError("--cluster: expected a name, found an empty text")
    given = {"--from": locations, "--sample": sample, connection.chosen_by: connection.chosen_by}
    chosen = [option for option, is_given in given.items() if option and is_given]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} are two sources; choose one of them")
    if not (chosen or connection.is_default):
        raise click.UsageError(
            "what is to be read? Choose --from PATH... (files and folders), --bootstrap-server "
            "HOST:PORT or --profile NAME (a cluster), or --sample"
        )
    if sample:
        from kgroup.sample import sample_log_dir

        locations = (str(sample_log_dir()),)

    from kgroup.history.build.build import Build, build_from_cluster, build_from_files
    from kgroup.history.warehouse.warehouse import write_warehouse
    from kgroup.render.history import build_sheet
    from kgroup.spark.runner import runner

    progress = Progress(writes_rows=False)

    def note(text: str) -> None:
        progress.clear()
        warn(f"note: {text}")

    with documented("history build", output):
        if locations:
            build_from = build_from_files(locations, cluster)
        else:
            build_from = build_from_cluster(
                connection.client_config(), cluster, connection.timeout_s
            )
        with (
            explain_write_errors(root),
            write_warehouse(root) as writer,
            runner(spark.master, spark.settings, note, progress.on_compile) as run,
        ):
            report = build_from(Build(writer, run, progress.show_share))
        progress.finish()
    return show("history build", report, output, build_sheet)
