"""`kgroup snapshot`."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from kgroup.cli.option.common import PATH, check_choice, examples, log_budget_option, regex_option
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import warn_saved, write
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern

__all__ = ["command"]

_STDOUT = (Path("-"), Path("/dev/stdout"))


@click.command(
    "snapshot",
    epilog=examples(
        "kgroup snapshot --sample --all -f -",
        "kgroup snapshot -b kafka-1:9092 --all -f monday.json.gz",
        "kgroup snapshot -C prod billing shipping -f incident.json",
        "kgroup describe --snapshot incident.json billing",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group.")
@regex_option
@click.option(
    "-f",
    "--file",
    "path",
    metavar="FILE",
    type=PATH,
    required=True,
    help="File to write, compressed where its name ends in .gz; - is standard output.",
)
@source_options(required=True, snapshots=False)
@log_budget_option
def command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    path: Path,
    source: Source,
    log_budget: int,
) -> ExitStatus:
    """Save what a source says, to work on it offline.

    The file has groups, offsets, the ends of their partitions, coordinators, topics and brokers,
    and what could not be learnt. Every command that reads groups takes it by --snapshot. It holds
    no password and no other setting of the connection. An existing file is replaced when the new
    one is whole.
    """
    check_choice(groups, regex, every=every)
    from kgroup.atomic_file import atomic_file
    from kgroup.operation.take_snapshot import take_snapshot
    from kgroup.source.snapshot.file import snapshot_lines, write_gzip

    def save(unfinished: Path | None) -> ExitStatus:
        chosen = source.that_has(groups)
        with chosen.open(of_silence=True) as found:
            report = take_snapshot(
                found,
                chosen.origin,
                groups,
                regex=regex,
                log_budget=log_budget,
                taken_ms=chosen.instant_ms(found),
            )
        status = warn_saved(report, "save", path)
        (snapshot,) = report.data
        lines = snapshot_lines(snapshot)
        if unfinished is None:
            write(lines)
        else:
            with unfinished.open("wb") as file:
                if path.suffix == ".gz":
                    write_gzip(file, lines)
                else:
                    file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
        return status

    if path in _STDOUT:
        return save(None)
    with atomic_file(path) as unfinished:
        return save(unfinished)
