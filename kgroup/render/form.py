"""Output formats, and the function that writes a page in each of them.

The command line imports this module at its start, so each writer is imported only when it
is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kgroup.render.markup import MARKUPS

if TYPE_CHECKING:
    from kgroup.render.sheet import Part, Sheet

Block: TypeAlias = bytes | memoryview


def _json(command: str, lines: Iterable[Block], errors: Iterable[object]) -> Iterable[Block]:
    from kgroup.render.json_document import json_document

    return json_document(command, lines, errors)


def _lines(command: str, lines: Iterable[Block], errors: Iterable[object]) -> Iterable[Block]:
    return lines


def _yaml(command: str, lines: Iterable[Block], errors: Iterable[object]) -> Iterable[Block]:
    from kgroup.render.yaml_document import yaml_document

    return yaml_document(command, lines, errors)


OBJECTS: Mapping[str, Callable[[str, Iterable[Block], Iterable[object]], Iterable[Block]]] = {
    "json": _json,
    "jsonl": _lines,
    "yaml": _yaml,
}
"""Formats of whole objects. Each function takes the name of the command, blocks of JSON lines, and
the errors, which it reads after all lines."""
SEPARATED = ("csv", "tsv")
"""Formats of rows without headings, written by `kgroup.render.delimited`."""
FORMS: Mapping[str, str] = {
    "table": "For people: colored on a terminal, plain in a pipe.",
    "json": "One JSON document with rows and errors.",
    "jsonl": "One JSON object per line.",
    "yaml": "The JSON document as YAML.",
    "csv": "Rows for programs (RFC 4180).",
    "tsv": "Rows for shells: no field contains a tab or a line break.",
    **{form: f"For documents: {markup.name}." for form, markup in MARKUPS.items()},
}
"""All output formats, each with its meaning."""


def page_text(
    parts: Iterable[Part], form: str = "table", *, headers: bool = True, terminal: bool = False
) -> Iterator[str]:
    """Yield the parts of a page as text.

    Args:
        parts: parts in order; only sheets if the form is one of `SEPARATED`.
        form: "table", one of `SEPARATED` or one of `MARKUPS`.
        headers: whether sheets have heads, except those that decide this themselves (`Head`).
        terminal: whether the output is a terminal.
    """
    from kgroup.render.sheet import Either, Head, Sheet, Title

    is_document = form in MARKUPS
    heads = {Head.CHOSEN: headers, Head.IN_DOCUMENTS: is_document, Head.ALWAYS: True}
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Either):
            own = part.document if is_document else part.table
            yield from page_text(own, form, headers=headers, terminal=terminal)
        elif isinstance(part, Sheet):
            yield from _sheet_text(part, form, headers=heads[part.head], terminal=terminal)
        elif is_document and isinstance(part, Title):
            from kgroup.render.markup import markup_title

            yield markup_title(form, part.text, part.level)
        else:
            from kgroup.render.table import line_text

            yield line_text(part, terminal=terminal)


def _sheet_text(sheet: Sheet, form: str, *, headers: bool, terminal: bool) -> Iterator[str]:
    if form in SEPARATED:
        from kgroup.render.delimited import delimited, delimited_table

        style = delimited(form, terminal=terminal)
        return delimited_table(style, sheet.columns, sheet.rows, headers=headers)
    from kgroup.render.cell import cells

    columns = sheet.columns
    texts = zip(
        *(
            cells(values, column.kind)
            for column, values in zip(columns, zip(*sheet.rows, strict=True), strict=False)
        ),
        strict=True,
    )
    if form in MARKUPS:
        from kgroup.render.markup import markup_table

        return markup_table(form, columns, texts, headers=headers)
    from kgroup.render.table import plain_table, rich_table

    if terminal:
        return rich_table(columns, texts, headers=headers, commands=sheet.commands)
    return iter([plain_table(columns, texts, headers=headers, commands=sheet.commands)])
