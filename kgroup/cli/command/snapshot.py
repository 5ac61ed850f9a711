"""`kgroup snapshot`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import click

from kgroup.atomic_file import FileKind
from kgroup.cli.command_group import Command
from kgroup.cli.option.common import check_choice, examples, log_budget_option, regex_option
from kgroup.cli.option.file import OutputFile, output_file_option
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import warn, warn_saved, write
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern


@click.command(
    "snapshot",
    cls=Command,
    epilog=examples(
        "kgroup snapshot --sample --all -f -",
        "kgroup snapshot -b kafka-1:9092 --all -f monday.json.gz",
        "kgroup snapshot -C prod billing shipping -f incident.json",
        "kgroup describe --snapshot incident.json billing",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Select every group.")
@regex_option
@output_file_option(
    "-f",
    "--file",
    kind=FileKind.SNAPSHOT,
    text="Write to this file, compressed if its name ends in .gz; - for standard output.",
    stdout=True,
)
@source_options(required=True, formats=False)
@log_budget_option
def command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    target: OutputFile,
    source: Source,
    log_budget: int,
) -> ExitStatus:
    """Save groups and offsets to a file, to inspect them offline.

    The file contains groups, committed offsets, log end offsets, coordinators, topics and brokers,
    and says what could not be read. Every command that reads groups accepts it as --snapshot FILE.
    It contains no passwords, and no other connection settings. An existing snapshot is replaced
    once the new one is complete; replacing any other file requires --force.
    """
    check_choice(groups, regex, every=every)
    from kgroup.operation.take_snapshot import take_snapshot
    from kgroup.render.offsets import counted
    from kgroup.source.snapshot.file import snapshot_lines, write_gzip

    def save(output: BinaryIO | None) -> tuple[ExitStatus, str]:
        chosen = source.that_has(groups)
        with chosen.open(of_silence=True) as opened:
            report = take_snapshot(
                opened,
                chosen.origin,
                groups,
                regex=regex,
                log_budget=log_budget,
                taken_ms=chosen.instant_ms(opened),
            )
        status = warn_saved(report, "save", target.path)
        (snapshot,) = report.data
        lines = snapshot_lines(snapshot)
        if output is None:
            write(lines)
        elif target.path.suffix == ".gz":
            write_gzip(output, lines)
        else:
            output.writelines(lines)
        return status, counted(len(snapshot.group_ids), "group")

    if target.is_stdout:
        return save(None)[0]
    with target.open() as output:
        status, count = save(output)
    warn(f"note: {count} written to {target.path}")
    return status
