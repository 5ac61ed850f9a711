"""Where a command's output goes: data to standard output, everything else to standard error."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Protocol

import click

from kgroup.errors import (
    BrokerError,
    ExitStatus,
    InputError,
    KgroupError,
    NotFoundError,
    ProblemKind,
    UsageError,
)

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.report import Report
    from kgroup.render.cell import Column
    from kgroup.render.sheet import Sheet


FORMS = (
    *("table", "json", "jsonl", "csv", "tsv"),
    *("markdown", "github", "html", "rst", "latex", "jira", "mediawiki", "asciidoc", "grid"),
)
"""Tables of the second row are for documents; see `kgroup.render.markup.MARKUPS`."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the output options say.

    Attributes:
        form: one of `FORMS`.
        columns: names chosen, in order; empty: those that the form has by default.
        headers: whether tables, csv and tsv begin with the names of their columns.
        command: name of the command in the JSON document.
    """

    form: str
    columns: tuple[str, ...]
    headers: bool
    command: str

    def check_drawing(self, option: str) -> None:
        """Make sure that no other form is chosen beside an option that asks for a drawing."""
        if self.form != "table" or self.columns:
            raise click.UsageError(f"{option} is a drawing; leave it out, or -o and --columns")


def columns_named(name: str) -> Sequence[Column]:
    """Import columns by their name in `kgroup.render`: ``group.LIST_COLUMNS``."""
    module, _, attribute = name.partition(".")
    columns: Sequence[Column] = getattr(import_module(f"kgroup.render.{module}"), attribute)
    return columns


_PIPE_WIDTH = 80
MAX_LINES = 20
"""Problems of one kind of trouble told one by one on standard error."""


class Page(Protocol):
    """Writes rows for people, as one of the forms that have titles between tables."""

    def __call__(self, rows: Any, form: str, /, *, headers: bool, terminal: bool) -> Iterable[str]:
        """Write them, with the names of columns or without, for a terminal or not."""
        ...


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def check_reader() -> None:
    """See whether somebody still reads standard output, where nothing is written for long.

    Raises:
        BrokenPipeError: it is a pipe whose other end was closed.
    """
    import select

    with suppress(ValueError):  # a standard output without a number
        pipe = select.poll()
        pipe.register(sys.stdout, 0)
        if any(event & select.POLLERR for _, event in pipe.poll(0)):
            raise BrokenPipeError


def write(blocks: Iterable[str | bytes | memoryview], *, at_once: bool = False) -> None:
    """Write blocks of data to standard output, as UTF-8, and perhaps each of them at once.

    Blocks of bytes are JSON or, without what could drive a terminal, csv and tsv.
    """
    out = sys.stdout.buffer
    terminal = is_terminal()
    for block in blocks:
        if terminal and not isinstance(block, str):
            from kgroup.render.document import json_on_terminal

            block = json_on_terminal(block)
        data = block.encode(errors="backslashreplace") if isinstance(block, str) else block
        rest = memoryview(data)
        with naming("standard output"):
            while rest:  # an unbuffered standard output (PYTHONUNBUFFERED) may take a part only
                rest = rest[out.write(rest) :]
            if at_once:
                out.flush()


def flush() -> None:
    """Write what standard output holds back."""
    with naming("standard output"):
        sys.stdout.flush()


def discard() -> None:
    """Give up what standard output holds back, and what comes yet: it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Give errors of writing, such as a full disk, the name of what was written."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = name
        raise


def warn(text: str) -> None:
    """Write a line to standard error, without secrets; a closed one is no reason to fail."""
    from kgroup.redaction import redact
    from kgroup.render.cell import harmless

    with suppress(OSError):
        print(f"kgroup: {harmless(redact(text))}", file=sys.stderr, flush=True)


def warn_notes(notes: Sequence[str]) -> None:
    """Tell the first notes one by one, and how many more there are."""
    for note in notes[:MAX_LINES]:
        warn(f"note: {note}")
    if len(notes) > MAX_LINES:
        warn(f"and {len(notes) - MAX_LINES} more notes")


def warn_of(problems: Sequence[Problem]) -> None:
    """Tell the first problems one by one, and how many more there are."""
    from kgroup.render.cell import problem_line

    for problem in problems[:MAX_LINES]:
        warn(problem_line(problem))
    rest = problems[MAX_LINES:]
    if rest:
        left_out = f"; {rest[-1].reason}" if rest[-1].kind is ProblemKind.MORE else ""
        warn(f"and {len(rest)} more{left_out}")


def warn_report(report: Report[Any]) -> None:
    """Tell the notes of a report, and the problems."""
    warn_notes(report.notes)
    warn_of(report.errors)


def warn_saved(report: Report[Any], verb: str, path: Path) -> ExitStatus:
    """Tell likewise of a report that is to be written to a file, and give what it comes to.

    Raises:
        NotFoundError: it says that nothing of it exists.
        InputError: it says that nothing of it could be read.
    """
    warn_report(report)
    if (error := unsaved(report.exit_status, verb, path)) is not None:
        raise error
    return report.exit_status


def unsaved(status: ExitStatus, verb: str, path: Path) -> KgroupError | None:
    """Return the error of a file for which there is nothing; None where there is something."""
    if status not in (ExitStatus.NOT_FOUND, ExitStatus.FAILED):
        return None
    error = NotFoundError if status is ExitStatus.NOT_FOUND else InputError
    unwritten = "" if path == Path("-") else f"; {path} is not written"
    return error(f"nothing to {verb}{unwritten}")


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles in garbage: where millions of objects are made, and no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def documented(output: Output) -> Iterator[None]:
    """Write the JSON document also where an error leaves nothing to show; raise it again."""
    try:
        yield
    except UsageError:
        raise
    except KgroupError as error:
        if output.form == "json":
            from kgroup.model.problem import Problem
            from kgroup.render.document import document

            problem = Problem(
                error.kind,
                str(error),
                group_id=error.group_id,
                path=error.path,
                topic=error.topic,
                broker=error.broker_id if isinstance(error, BrokerError) else None,
            )
            write(document(output.command, [], [problem]))
        raise


def show(
    report: Report[Any],
    output: Output,
    sheet: Callable[[tuple[Any, ...]], Sheet],
    page: Page | None = None,
    row: Callable[[Any], object] | None = None,
) -> ExitStatus:
    """Write a report in the form that the user chose.

    Args:
        report: rows, errors and notes.
        output: form, columns and heads.
        sheet: makes rows and columns of the report's data.
        page: writes tables instead of the sheet, where no columns are chosen.
        row: makes the object of a row for JSON, where the row is not that itself.

    Returns:
        What the report comes to.
    """
    if output.form in ("json", "jsonl"):
        from kgroup.render.document import document, json_rows

        lines = json_rows(map(row, report.data) if row else report.data)
        write(lines if output.form == "jsonl" else document(output.command, lines, report.errors))
    elif (
        output.form == "table"
        and not (report.data or output.columns)
        and (report.errors or report.notes)
    ):
        pass  # heads over nothing say less than what is told below
    elif page is not None and output.form not in ("csv", "tsv") and not output.columns:
        write(page(report.data, output.form, headers=output.headers, terminal=is_terminal()))
    else:
        from kgroup.render.sheet import sheet_text

        chosen = sheet(report.data)
        if output.columns:
            chosen = chosen.select(output.columns)
        elif output.form == "table":
            chosen = chosen.without_blank()
        write(sheet_text(chosen, output.form, headers=output.headers, terminal=is_terminal()))
    flush()
    warn_report(report)
    return report.exit_status


def draw(report: Report[Any], blocks: Iterable[str]) -> ExitStatus:
    """Write a drawing of a report's rows, and give what the report comes to."""
    write(blocks)
    flush()
    warn_report(report)
    return report.exit_status


def drawing_width() -> int:
    """Tell how wide a drawing may be: as the terminal, or as most are where there is none."""
    return get_terminal_size().columns if is_terminal() else _PIPE_WIDTH
