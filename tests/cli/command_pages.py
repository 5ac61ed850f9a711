"""Write a page for each command, and what docs have from the code.

`python -m tests.cli.command_pages` writes all of them.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from kgroup.cli.command_group import Block, option_blocks
from kgroup.cli.option.common import ColumnsOption
from kgroup.cli.output.context import columns_named
from kgroup.operation.check.rule import RuleDescription, describe_rules
from kgroup.operation.top import FollowedGroup
from kgroup.operation.watch import Change
from tests.cli.commands import EVERY_COMMAND, context_of, write_folder
from tests.cli.json_schemas import ROWS
from tests.render.field_table import field_tables, with_meanings

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "command"
OPTIONS = DOCS / "options.md"
FINDINGS = DOCS / "reference" / "findings.md"
SITE = DOCS.parent / "mkdocs.yml"
WITH_MEANINGS = [DOCS / name for name in ("output.md", "snapshot.md", "reference/problems.md")]
"""Pages with tables of fields that belong to no command, or to all."""
MARK = re.compile(r"<!-- options: (.*) -->\n")
TABLE = re.compile(r"(?<=-->\n)\n\| option .*\n(?:\|.*\n)*")
_METAVAR = re.compile(r" [^-].*")
OF_THE_PAGE = (Block.OWN, Block.SPARK)
"""Blocks that a command's page explains itself: texts of the others are the same everywhere."""


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    return {
        "README.md": "\n".join(_index()) + "\n",
        **{
            f"{name.replace(' ', '-')}.md": "\n".join(_page(name, command)) + "\n"
            for name, command in EVERY_COMMAND.items()
        },
    }


def _index() -> Iterator[str]:
    yield "# Commands\n"
    yield "The help of each command, and the fields and columns of its output."
    yield "[options.md](../options.md) explains the options that commands share,"
    yield "[output.md](../output.md) the formats and what all outputs have in common.\n"
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
    blocks = option_blocks(command, ctx)
    yield from _table(record for block in OF_THE_PAGE for record in blocks.get(block, ()))
    if others := [block for block in blocks if block not in OF_THE_PAGE]:
        yield ""
    for block in others:
        names = ", ".join(f"`{_METAVAR.sub('', name)}`" for name, _ in blocks[block])
        yield f"* [{block}](../options.md#{block.lower().replace(' ', '-')}): {names}"
    _, _, examples = (command.epilog or "").partition("Examples:\n")
    if examples:
        yield "\n## Examples\n"
        yield from (f"    {line.strip()}" for line in examples.splitlines() if line.strip())
    rows_of = {**ROWS, "describe --watch": (Change,), "top": (FollowedGroup,)}
    yield from field_tables(
        {words: rows for words, rows in rows_of.items() if words.partition(" --")[0] == name}
    )
    yield from _columns(command)
    topic = DOCS / f"{name.split()[0]}.md"
    if topic.exists():
        yield f"\nMore of it: [{topic.name}](../{topic.name})."


def _table(records: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from ("| option | meaning |", "| --- | --- |")
    for name, text in records:
        yield f"| `{_cell(name)}` | {_cell(text)} |"


def options_page(page: str) -> str:
    """Write the tables of `docs/options.md` behind the marks that say where they are."""

    def table(mark: re.Match[str]) -> str:
        records: dict[str, str] = {}
        for name, command in EVERY_COMMAND.items():
            blocks = option_blocks(command, click.Context(command, parent=context_of(name)))
            for option, text in blocks.get(Block(mark[1]), ()):
                assert records.setdefault(option, text) == text, f"{name}: two texts of {option}"
        return f"{mark[0]}\n" + "".join(f"{line}\n" for line in _table(records.items()))

    return MARK.sub(table, TABLE.sub("", page))


def findings_page() -> str:
    """Return a page with a section for each rule."""
    return (
        "# Findings\n\nThe codes of [kgroup check](../check.md): what each one means, what to do,\n"
        "and the command to run next.\n" + "".join(map(_rule, describe_rules()))
    )


def _rule(rule: RuleDescription) -> str:
    text = f"*{rule.severity.capitalize()}.* {rule.sentence} {rule.advice}"
    lines = textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
    commands = "".join(f"    {command}\n" for command in rule.commands)
    return f"\n## {rule.code}\n\n{lines}\n" + (f"\n{commands}" if commands else "")


def site_settings(text: str) -> str:
    """Write the pages of commands into the navigation of `mkdocs.yml`."""
    lines = "".join(f"          - command/{name}\n" for name in pages())
    head = "# commands, written by `make generated`\n      - Commands:\n"
    before, _, rest = text.partition(head)
    _, end, after = rest.partition("      # end\n")
    return before + head + lines + end + after


def _columns(command: click.Command) -> Iterator[str]:
    """Say what the columns have that `--columns` chooses from."""
    for option in command.params:
        if isinstance(option, ColumnsOption) and option.declared:
            yield "\n## Columns\n"
            yield "Of csv, tsv and tables; [output.md](../output.md#forms) has their kinds."
            for words, name in option.declared.items():
                yield f"\nWith `{words}`:\n" if words else ""
                yield from ("| column | kind | meaning |", "| --- | --- | --- |")
                for column in columns_named(name):
                    yield f"| `{column.name}` | {column.kind} | {_cell(column.description)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    write_folder(FOLDER, pages())
    OPTIONS.write_text(options_page(OPTIONS.read_text("utf-8")), "utf-8")
    SITE.write_text(site_settings(SITE.read_text("utf-8")), "utf-8")
    FINDINGS.write_text(findings_page(), "utf-8")
    for path in WITH_MEANINGS:
        path.write_text(with_meanings(path.read_text("utf-8")), "utf-8")
