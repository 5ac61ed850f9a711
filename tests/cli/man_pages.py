"""Manual pages of the commands, generated from their help: `python -m tests.cli.man_pages`.

roff: a line that begins with a dot is a request, and a dot of a text there has nothing, `\\&`,
before it; what would become another character in print (a dash a hyphen) is written by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from kgroup import __version__
from kgroup.cli.command_group import CommandGroup, DefaultGroup, option_blocks
from kgroup.cli.main import kgroup
from tests.cli.commands import write_folder

FOLDER = Path(__file__).parents[2] / "man"
_NAMED = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
)


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    ctx = click.Context(kgroup, info_name="kgroup", **kgroup.context_settings)
    return dict(_pages(ctx))


def _pages(ctx: click.Context) -> Iterator[tuple[str, str]]:
    name = ctx.command_path.replace(" ", "-")
    yield f"{name}.1", "\n".join(_page(ctx, name)) + "\n"
    for each, command in _below(ctx):
        yield from _pages(click.Context(command, info_name=each, parent=ctx))


def _below(ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of a group, with their names."""
    group = ctx.command
    if isinstance(group, CommandGroup):
        for name in group.help_lines():
            command = group.get_command(ctx, name)
            assert command is not None
            yield name, command


def _page(ctx: click.Context, name: str) -> Iterator[str]:
    command = ctx.command
    line, _, rest = (command.help or "").partition("\n")
    # what a line takes that names none of the group's commands
    default = command.default if isinstance(command, DefaultGroup) else None
    yield f'.TH "{_text(name.upper())}" 1 "" "kgroup {__version__}"'
    yield from (".SH NAME", _text(f"{name} - {line.rstrip('.')}"))
    yield ".SH SYNOPSIS"
    yield rf"\fB{_text(ctx.command_path)}\fR {_text(' '.join(command.collect_usage_pieces(ctx)))}"
    if rest.strip():
        yield ".SH DESCRIPTION"
        yield from _paragraphs(rest)
    for title, records in option_blocks(default or command, ctx).items():
        yield f".SH {title.upper()}"
        for record in records:
            yield from _entry(*record)
    below = [(each, found.help or "") for each, found in _below(ctx)]
    if below:
        yield ".SH COMMANDS"
    for each, text in below:
        yield from _entry(f"{name}-{each}(1)", text.partition("\n")[0])
    epilog = (default or command).epilog or ""
    if "Examples:\n" in epilog:
        yield ".SH EXAMPLES"
        yield from _as_it_is(epilog.partition("Examples:\n")[2])
    if ctx.parent is not None:
        parent = ctx.parent.command_path.replace(" ", "-")
        yield from (".SH SEE ALSO", rf"\fB{_text(parent)}\fR(1)")


def _entry(term: str, text: str) -> tuple[str, str, str]:
    """Write what is explained, and its explanation."""
    broken = _text(term).replace("|", r"|\:")  # lists of choices may be longer than a line
    return ".TP", rf"\fB{broken}\fR", _text(text)


def _paragraphs(text: str) -> Iterator[str]:
    """Write paragraphs; click leaves the lines of one as they are that begins with a \\b."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield ".PP"
        if paragraph.startswith("\b"):
            yield from _as_it_is(paragraph.removeprefix("\b").strip("\n"))
        else:
            yield _text(paragraph)


def _as_it_is(text: str) -> Iterator[str]:
    yield ".nf"
    yield from (_text(line) for line in text.splitlines() if line)
    yield ".fi"


def _text(text: str) -> str:
    """Write a text, on one line."""
    line = " ".join(part.strip() for part in text.strip().splitlines()).translate(_NAMED)
    return rf"\&{line}" if line.startswith(".") else line


if __name__ == "__main__":
    write_folder(FOLDER, pages())
