"""Output of commands: data to standard output, everything else to standard error."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import IO, TYPE_CHECKING, Any, TypeAlias

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
from kgroup.render.form import OBJECTS, SEPARATED, page_text

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.report import Report
    from kgroup.render.cell import Column
    from kgroup.render.sheet import Part, Sheet


@dataclass(frozen=True, slots=True)
class Output:
    """Values of the output options.

    Attributes:
        form: one of `FORMS`.
        columns: selected column names, in order; empty: the default columns of the format.
        headers: whether tables, csv and tsv have a header row.
        command: name of the command in the JSON document.
        declared: columns of the rows to write, by their name in `kgroup.render`; None: those of the
            answer.
        is_paged: whether long tables on a terminal are shown by a pager.
    """

    form: str
    columns: tuple[str, ...]
    headers: bool
    command: str
    declared: str | None = None
    is_paged: bool = True

    def check_drawing(self, option: str) -> None:
        """Check that an option that requests a drawing is not combined with a format."""
        if self.form != "table" or self.columns:
            raise click.UsageError(
                f"{option} writes a drawing; leave out {option}, or -o and --columns"
            )


def columns_named(name: str) -> tuple[Column, ...]:
    """Import columns by their name in `kgroup.render`: ``group.LIST_COLUMNS``."""
    module, _, attribute = name.partition(".")
    columns: tuple[Column, ...] = getattr(import_module(f"kgroup.render.{module}"), attribute)
    return columns


_PIPE_WIDTH = 80
MAX_LINES = 20
"""Maximum number of notes, and of problems, to print one by one on standard error."""


Page: TypeAlias = "Callable[[Any], Iterable[Part]]"
"""Returns the page of a report's rows: tables with headings."""


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


COLORS = ("auto", "always", "never")
"""When tables have colors: values of `--color`."""
_COLOR = "kgroup.color"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def choose_color(ctx: click.Context, color: str) -> None:
    """Set when the output of a command has colors, one of `COLORS`."""
    ctx.meta[_COLOR] = color
    if color == "always":  # rich reads both
        os.environ.pop("NO_COLOR", None)
        if os.environ.get("TERM") in (None, "", "dumb", "unknown"):
            os.environ["TERM"] = "ansi"


def _color() -> str:
    ctx = click.get_current_context(silent=True)
    return "auto" if ctx is None else ctx.meta.get(_COLOR, "auto")


def is_styled() -> bool:
    """Return whether tables are written as for a terminal."""
    return is_terminal() or _color() == "always"


def check_reader() -> None:
    """Check that standard output is still read, if nothing is written for a long time.

    Raises:
        BrokenPipeError: standard output is a pipe whose reading end was closed.
    """
    import select

    with suppress(ValueError):  # standard output without file descriptor
        pipe = select.poll()
        pipe.register(sys.stdout, 0)
        if any(event & select.POLLERR for _, event in pipe.poll(0)):
            raise BrokenPipeError


def write(
    blocks: Iterable[str | bytes | memoryview],
    out: IO[bytes] | None = None,
    *,
    at_once: bool = False,
) -> None:
    """Write blocks of data in UTF-8.

    Args:
        blocks: texts; or bytes: JSON, or csv and tsv without terminal control characters.
        out: the output; None for standard output.
        at_once: whether to flush each block.
    """
    out = out or sys.stdout.buffer
    terminal, is_plain = is_terminal(), _color() == "never"
    for block in blocks:
        if terminal and not isinstance(block, str):
            from kgroup.render.json_document import json_on_terminal

            block = json_on_terminal(block)
        if is_plain and isinstance(block, str):
            block = _STYLE.sub("", block)
        data = block.encode(errors="backslashreplace") if isinstance(block, str) else block
        rest = memoryview(data)
        with naming("standard output"):
            while rest:  # unbuffered output (PYTHONUNBUFFERED) may write only a part
                rest = rest[out.write(rest) :]
            if at_once:
                out.flush()


def write_or_page(
    blocks: Iterable[str | bytes | memoryview], output: Output, *, at_once: bool = False
) -> bool:
    """Write a table, a document, or rows; on a terminal through a pager if it is long.

    Returns:
        Whether all blocks were written; not if the user quits the pager before.
    """
    is_for_people = output.form not in OBJECTS and output.form not in SEPARATED
    if output.is_paged and is_for_people and not at_once and is_terminal():
        from kgroup.cli.output.pager import write_paged

        return write_paged(blocks, write)
    write(blocks, at_once=at_once)
    return True


def flush() -> None:
    """Flush standard output."""
    with naming("standard output"):
        sys.stdout.flush()


def discard() -> None:
    """Discard buffered and later data of standard output, which cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the name of the output to write errors, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = name
        raise


def warn(text: str) -> None:
    """Write a line to standard error, without secrets; ignore errors of writing."""
    from kgroup.redaction import redact
    from kgroup.render.cell import harmless

    with suppress(OSError):
        print(f"kgroup: {harmless(redact(text))}", file=sys.stderr, flush=True)


def warn_notes(notes: Sequence[str]) -> None:
    """Print the first notes, and the number of the others."""
    for note in notes[:MAX_LINES]:
        warn(f"note: {note}")
    if len(notes) > MAX_LINES:
        warn(f"and {len(notes) - MAX_LINES} more notes")


def warn_of(problems: Sequence[Problem]) -> None:
    """Print the first problems, and the number of the others."""
    from kgroup.render.cell import problem_texts

    lines = problem_texts(problems)
    for line in lines[:MAX_LINES]:
        warn(line)
    if len(lines) > MAX_LINES:
        last = problems[-1]
        left_out = f"; {last.reason}" if last.kind is ProblemKind.MORE else ""
        warn(f"and {len(lines) - MAX_LINES} more{left_out}")


def warn_report(report: Report[Any]) -> None:
    """Print the notes and problems of a report."""
    warn_notes(report.notes)
    warn_of(report.errors)


def warn_saved(report: Report[Any], verb: str, path: Path) -> ExitStatus:
    """Print notes and problems of a report to be written to a file; return its exit status.

    Raises:
        NotFoundError: nothing in the report exists.
        InputError: nothing in the report could be read.
    """
    warn_report(report)
    if (error := unsaved(report.exit_status, verb, path)) is not None:
        raise error
    return report.exit_status


def unsaved(status: ExitStatus, verb: str, path: Path) -> KgroupError | None:
    """Return the error that there is nothing to write to a file; None if there is."""
    if status not in (ExitStatus.NOT_FOUND, ExitStatus.FAILED):
        return None
    error = NotFoundError if status is ExitStatus.NOT_FOUND else InputError
    unwritten = "" if path == Path("-") else f"; {path} was not written"
    return error(f"nothing to {verb}{unwritten}")


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable garbage collection while millions of objects without cycles are created."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def json_errors(output: Output) -> Iterator[None]:
    """Write the JSON document also if an error occurs; re-raise the error."""
    try:
        yield
    except UsageError:
        raise
    except KgroupError as error:
        if output.form in OBJECTS:
            from kgroup.model.problem import Problem

            problem = Problem(
                error.kind,
                str(error),
                group_id=error.group_id,
                path=error.path,
                topic=error.topic,
                broker=error.broker_id if isinstance(error, BrokerError) else None,
            )
            write(OBJECTS[output.form](output.command, [], [problem]))
        raise


def show(
    report: Report[Any],
    output: Output,
    page: Page | None = None,
    *,
    sheet: Callable[[Sequence[Any]], Sheet] | None = None,
    row: Callable[[Any], object] | None = None,
    always: bool = False,
) -> ExitStatus:
    """Write a report in the selected format.

    Args:
        report: rows, errors and notes.
        output: format, columns and headers.
        page: renders tables instead of the sheet, if no columns are selected.
        sheet: returns rows and columns for the report's data; None: a row of the declared columns
            for each item.
        row: returns the JSON object of a row, if it is not the row itself.
        always: whether the page says something without rows, even beside errors and notes.

    Returns:
        The exit status of the report.
    """
    if output.form in OBJECTS:
        from kgroup.render.json_document import json_rows

        lines = json_rows(map(row, report.data) if row else report.data)
        write(OBJECTS[output.form](output.command, lines, report.errors))
    elif (
        output.form == "table"
        and not (report.data or output.columns or always)
        and (report.errors or report.notes)
    ):
        pass  # no headers without rows; errors and notes follow
    else:
        if page is not None and output.form not in SEPARATED and not output.columns:
            parts = page(report.data)
        else:
            table = (sheet or _declared_sheet(output))(report.data)
            chosen = table.chosen(output.columns)
            is_short = output.form == "table" and not output.columns
            parts = [chosen.without_blank() if is_short else chosen]
        write_or_page(
            page_text(parts, output.form, headers=output.headers, terminal=is_styled()), output
        )
    flush()
    warn_report(report)
    return report.exit_status


def _declared_sheet(output: Output) -> Callable[[Sequence[Any]], Sheet]:
    from kgroup.render.sheet import Sheet

    assert output.declared is not None
    return partial(Sheet.of, columns_named(output.declared))


def draw(report: Report[Any], blocks: Iterable[str]) -> ExitStatus:
    """Write a drawing of a report; return the report's exit status."""
    write(blocks)
    flush()
    warn_report(report)
    return report.exit_status


def drawing_width() -> int:
    """Return the maximum width of a drawing: that of the terminal, or else the usual one."""
    return get_terminal_size().columns if is_terminal() else _PIPE_WIDTH
