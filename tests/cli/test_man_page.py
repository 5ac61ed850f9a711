"""Manual pages say what the commands' help says, and formatters take them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.commands import EVERY_COMMAND, context_of
from tests.cli.man_pages import FOLDER, pages

PAGES = pages()
REQUESTS = {".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}
NAMED = {r"\-": "-", r"\e": "\\", r"\&": "", r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~"}


def shown(text: str) -> Iterator[str]:
    """Yield the lines of a page as they are read, without requests."""
    for line in text.splitlines():
        if line.startswith("."):
            assert line.split()[0] in REQUESTS, line
            continue
        # printed they would be hyphens and curved quotes, which no shell takes
        assert not re.search(r"(?<!\\)[-'`^~]", line), line
        line = re.sub(r"\\f[BR]", "", line)
        yield re.sub(r"\\(?:\(..|.)", lambda escape: NAMED[escape[0]], line)


def squeezed(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def test_pages_are_what_the_commands_say() -> None:
    written = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    assert written == PAGES, "run: python -m tests.cli.man_pages"


def test_every_command_and_group_has_a_page() -> None:
    groups = {name.rpartition(" ")[0] for name in EVERY_COMMAND} - {""}
    commands = {f"kgroup {name}" for name in EVERY_COMMAND.keys() | groups}
    assert set(PAGES) == {f"{name.replace(' ', '-')}.1" for name in {"kgroup", *commands}}


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_it_says_what_the_help_says(name: str) -> None:
    command = EVERY_COMMAND[name]
    lines = [*shown(PAGES[f"kgroup-{name.replace(' ', '-')}.1"])]
    text = squeezed(" ".join(lines))
    parent = context_of(name)
    ctx = click.Context(command, info_name=name.split()[-1], parent=parent)
    for parameter in command.get_params(ctx):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            record = parameter.get_help_record(ctx)
            assert record is not None
            assert squeezed(f"{record[0]} {parameter.help}") in text
    assert isinstance(parent.command, click.Group)
    typed = parent.command.get_command(parent, name.split()[-1])  # the group, of its default
    assert typed is not None
    for paragraph in (typed.help or "").partition("\n")[2].split("\n\n"):
        assert squeezed(paragraph) in text
    examples = (command.epilog or "").partition("Examples:\n")[2].splitlines()
    assert examples
    assert {line.strip() for line in examples} <= set(lines)


def test_formatters_take_them(tmp_path: Path) -> None:
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, "utf-8")
    linters = {"groff": ["-Kutf8", "-man", "-Tutf8", "-ww", "-z"], "mandoc": ["-Tlint", "-Werror"]}
    for program, options in linters.items():
        if shutil.which(program) is not None:  # neither is needed for anything else
            command = [program, *options, *sorted(PAGES)]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
