"""How a command shows groups that it describes: which sections, in which form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.output.context import show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus, near_names

if TYPE_CHECKING:
    from kgroup.operation.describe import GroupDescription
    from kgroup.operation.report import Report


def section_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--state`, `--members` and `--offsets`; the command takes ``sections``, those chosen."""

    @wraps(command)
    def with_sections(*, state: bool, members: bool, offsets: bool, **rest: Any) -> Any:
        chosen = {"state": state, "members": members, "offsets": offsets}
        sections = tuple(name for name, wanted in chosen.items() if wanted)
        return command(sections=sections, **rest)

    sections = {
        "--state": "state, generation or epochs, leader, lag.",
        "--members": "members and what they own.",
        "--offsets": "committed offsets and lag.",
    }
    for name, shown in reversed(sections.items()):
        with_sections = click.option(name, is_flag=True, help=f"Section: {shown}")(with_sections)
    return with_sections


def check_sections(sections: Sequence[str], output: Output) -> None:
    """Make sure that the form can show these sections, before anybody is asked."""
    if (output.columns or output.form in ("csv", "tsv")) and len(sections) > 1:
        raise click.UsageError(
            "csv, tsv and --columns take one section: choose --state, --members or --offsets"
        )
    _check_columns(output.columns, _one(sections))


def show_groups(
    command: str,
    report: Report[GroupDescription],
    output: Output,
    sections: Sequence[str],
    now_ms: int,
) -> ExitStatus:
    """Write descriptions in the form that the user chose.

    Args:
        command: name for the JSON document.
        report: groups, errors and notes.
        output: form, columns and heads.
        sections: of a table; none: all. Forms with columns have one, which is offsets by default.
        now_ms: epoch milliseconds, for the age of what is old.

    Returns:
        What the report comes to.
    """
    from kgroup.render.group import members_sheet, offsets_sheet, state_sheet
    from kgroup.render.group_page import SECTIONS, description_text

    page = partial(description_text, sections=sections or SECTIONS, now_ms=now_ms)
    sheets: dict[str, Callable[..., Any]]
    sheets = {"state": state_sheet, "members": members_sheet, "offsets": offsets_sheet}
    return show(command, report, output, sheets[_one(sections)], page)


def _one(sections: Sequence[str]) -> str:
    return sections[0] if sections else "offsets"


def _check_columns(names: Sequence[str], section: str) -> None:
    """Make sure that a section has the columns that are chosen, before anybody is asked."""
    if not names:
        return
    from kgroup.render.group import MEMBER_COLUMNS, OFFSET_COLUMNS, STATE_COLUMNS

    columns = {"state": STATE_COLUMNS, "members": MEMBER_COLUMNS, "offsets": OFFSET_COLUMNS}
    known = {
        name: {title for column in own for title in (column.name, column.title)}
        for name, own in columns.items()
    }
    missing = [name for name in names if name not in known[section]]
    if missing:
        there = ", ".join(column.name for column in columns[section])
        others = [f"--{other}" for other in known if known[other].issuperset(missing)]
        names_there = (column.name for column in columns[section])
        meant = f"; see {' and '.join(others)}" if others else near_names(missing[0], names_there)
        raise click.UsageError(
            f"no column {', '.join(missing)} in the section --{section}; it has: {there}{meant}"
        )
