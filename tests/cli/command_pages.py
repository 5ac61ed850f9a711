"""A page for each command, made of its help: `python -m tests.cli.command_pages`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from kgroup.cli.option.common import ColumnsOption
from kgroup.cli.output.context import columns_named
from tests.cli.commands import EVERY_COMMAND, context_of

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "command"


def pages() -> dict[str, str]:
    """Give the text of each page by the name of its file."""
    return {
        "README.md": "\n".join(_index()) + "\n",
        **{
            f"{name.replace(' ', '-')}.md": "\n".join(_page(name, command)) + "\n"
            for name, command in EVERY_COMMAND.items()
        },
    }


def _index() -> Iterator[str]:
    yield "# Commands\n"
    yield "What `kgroup COMMAND --help` says; [output.md](../output.md) has what they write.\n"
    yield from ("| command | |", "| --- | --- |")
    for name, command in EVERY_COMMAND.items():
        first = inspect.cleandoc(command.help or "").partition("\n")[0]
        yield f"| [kgroup {name}]({name.replace(' ', '-')}.md) | {_cell(first)} |"


def _page(name: str, command: click.Command) -> Iterator[str]:
    ctx = click.Context(command, info_name=name.split()[-1], parent=context_of(name))
    yield f"# kgroup {name}\n"
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        is_as_it_is = paragraph.startswith("\b")
        lines = paragraph.removeprefix("\b").strip("\n").splitlines()
        yield "\n".join([f"    {line}" for line in lines] if is_as_it_is else lines) + "\n"
    yield f"    kgroup {name} {' '.join(command.collect_usage_pieces(ctx))}\n"
    yield from ("| option | meaning |", "| --- | --- |")
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if isinstance(parameter, click.Option) and record is not None:
            yield f"| `{_cell(record[0])}` | {_cell(record[1])} |"
    yield from _columns(command)
    _, _, examples = (command.epilog or "").partition("Examples:\n")
    if examples:
        yield "\n## Examples\n"
        yield from (f"    {line.strip()}" for line in examples.splitlines() if line.strip())
    topic = DOCS / f"{name.split()[0]}.md"
    if topic.exists():
        yield f"\nMore of it: [{topic.name}](../{topic.name})."


def _columns(command: click.Command) -> Iterator[str]:
    """List the columns that `--columns` chooses from."""
    for option in command.params:
        if isinstance(option, ColumnsOption) and option.declared:
            yield "\n## Columns\n"
            for words, name in option.declared.items():
                names = ", ".join(f"`{column.name}`" for column in columns_named(name))
                yield f"* with `{words}`: {names}" if words else f"* {names}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Let a folder have these files, by name, and no others."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write_folder(FOLDER, pages())
