"""`kgroup offsets export`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kgroup.atomic_file import FileKind
from kgroup.cli.option.common import check_choice, examples, regex_option
from kgroup.cli.option.output_file import OutputFile, output_file_option
from kgroup.cli.option.store import Store, store_options
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import warn, warn_saved, write
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern


@click.command(
    "export",
    epilog=examples(
        "kgroup offsets export --sample order-service -f -",
        "kgroup offsets export -b kafka-1:9092 --all -f offsets.json",
        "kgroup offsets export -b kafka-1:9092 billing -f plan.csv",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group.")
@regex_option
@output_file_option(
    "-f", "--to", kind=FileKind.OFFSETS, text="File to write; - is standard output.", stdout=True
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["kafka-csv", "json", "jsonl"]),
    help="Form of the file.  [default: what its name ends in]",
)
@store_options
def command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    target: OutputFile,
    form: str | None,
    store: Store,
) -> ExitStatus:
    """Write what groups have committed to a file.

    JSON and JSON lines have all of it. CSV is that of kafka-consumer-groups --reset-offsets:
    topic,partition,offset where one group is named, else the group before that. A JSON file of
    offsets of that name is replaced when the new one is whole, another file only with --force; so
    is CSV, which does not tell who wrote it.

    Where something could not be read, the exit status is 4. JSON then lists it under "errors", and
    import and diff report that the file is incomplete.
    """
    check_choice(groups, regex, every=every)
    from kgroup.operation.offsets.read import show_offsets
    from kgroup.render.offsets import counted, file_form, file_lines
    from kgroup.source.base import WritableOffsetStore

    form = form or ("json" if target.is_stdout else file_form(target.path))
    with store.open(tuple(groups)) as found:
        report = show_offsets(found, groups, regex)
        name = found.store_name if isinstance(found, WritableOffsetStore) else None
    status = warn_saved(report, "export", target.path)
    with_group = len(groups) != 1 or regex is not None
    lines = file_lines(report.data, form, with_group=with_group, store=name, errors=report.errors)
    if target.is_stdout:
        write(lines)
    else:
        with target.open() as output:
            output.writelines(lines)
        groups_count = len({row.group_id for row in report.data})
        count = f"{counted(len(report.data), 'offset')} of {counted(groups_count, 'group')}"
        warn(f"note: {count} written to {target.path}")
    return status
