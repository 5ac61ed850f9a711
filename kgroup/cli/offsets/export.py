"""`kgroup offsets export`."""

from collections.abc import Sequence
from pathlib import Path

import click

from kgroup.cli.option.common import PATH, check_choice, examples, regex_option
from kgroup.cli.option.execution import FORM_OPTION, save_offsets
from kgroup.cli.option.store import Store, store_options
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import warn_saved, write
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern

__all__ = ["command"]


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
@click.option(
    "-f",
    "--to",
    "path",
    metavar="FILE",
    type=PATH,
    required=True,
    help="File to write; - is standard output.",
)
@FORM_OPTION
@store_options
def command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    path: Path,
    form: str | None,
    store: Store,
) -> ExitStatus:
    """Write what groups have committed to a file.

    JSON and JSON lines have all of it. CSV is that of kafka-consumer-groups --reset-offsets:
    topic,partition,offset where one group is named, else the group before that. An existing file is
    replaced when the new one is whole.

    Where something could not be read, the exit status is 4. JSON then lists it under "errors", and
    import and diff report that the file is incomplete.
    """
    check_choice(groups, regex, every=every)
    from kgroup.operation.offsets.read import show_offsets
    from kgroup.render.group.offsets import file_form, file_lines
    from kgroup.source.base import WritableOffsetStore

    form = form or ("json" if path == Path("-") else file_form(path))
    with store.open(tuple(groups)) as found:
        report = show_offsets(found, groups, regex)
        name = found.store_name if isinstance(found, WritableOffsetStore) else None
    status = warn_saved(report, "export", path)
    with_group = len(groups) != 1 or regex is not None
    if path == Path("-"):
        lines = file_lines(
            report.data, form, with_group=with_group, store=name, errors=report.errors
        )
        write(lines)
    else:
        save_offsets(
            path, report.data, form, with_group=with_group, store=name, errors=report.errors
        )
    return status
