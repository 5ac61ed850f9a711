r"""Tables and titles in document formats; tabulate writes the tables.

Texts are those that `cell` makes for people, so that none contains a line break or another
control character. Here the special characters of each format are escaped so that its reader
shows the text; blanks at the ends of a cell, and repeated ones, may be lost. `grid` is a
drawing, not a document format: texts are not escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgroup.render.cell import Column
    from kgroup.render.table import Row

_FILL = "\ue000"
"""Stands for a terminal cell in texts that are not ASCII, while tabulate aligns them."""
_NO_LETTER = r"(?![^\W_])"


@dataclass(frozen=True, slots=True)
class _Markup:
    """A document format.

    Attributes:
        name: name of the format.
        table: tabulate's name of the format.
        escape: escapes a text.
        titles: templates of a heading of level 2, and of one below it.
        of_one: tabulate's name for tables with one column, if they need another one.
        needs_row: whether a table must have a row.
    """

    name: str
    table: str
    escape: Callable[[str], str]
    titles: tuple[str, str]
    of_one: str | None = None
    needs_row: bool = False


def markup_table(
    form: str, columns: Sequence[Column], rows: Iterable[Row], *, headers: bool
) -> Iterator[str]:
    """Yield a table.

    Args:
        form: one of `MARKUPS`.
        columns: columns of the table, in order.
        rows: texts for each column, see `cell`.
        headers: whether the table has a head; in markdown, where a table needs one, rows
            without a head are written without a table.
    """
    from tabulate import tabulate

    from kgroup.render.table import RIGHT

    markup = MARKUPS[form]
    head, *body = [
        [markup.escape(text.strip()) for text in line]
        for line in ([column.title for column in columns], *rows)
    ]
    if markup.needs_row and not body:
        body.append([""] * len(head))
    lines = [head, *body] if headers else body
    wide = iter([text for line in lines for text in line if not text.isascii()])
    table = tabulate(
        [map(_filled, line) for line in body],
        [*map(_filled, head)] if headers else (),
        tablefmt=(len(columns) == 1 and markup.of_one) or markup.table,
        disable_numparse=True,
        colalign=["right" if column.kind in RIGHT else "left" for column in columns],
    )
    if not headers and markup.table == "pipe":
        table = table.partition("\n")[2]
    if table:
        yield re.sub(f"{_FILL}+", lambda _: next(wide), table) + "\n"


def markup_title(form: str, title: str, level: int) -> str:
    """Return the heading of a part, of level 2 or 3."""
    markup = MARKUPS[form]
    text = markup.escape(title.strip())
    return markup.titles[level - 2].format(text, "", line=_width(text))


def _filled(text: str) -> str:
    """Return a text padded to its width, for tabulate, which uses its length."""
    return text if text.isascii() else _FILL * max(1, _width(text))


def _width(text: str) -> int:
    """Return the number of terminal cells that a text takes."""
    from unicodedata import combining, east_asian_width

    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)


def _with(pattern: str, replace: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that escapes what a pattern finds, one character at a time."""
    # compiled at the first use: the command line needs only the names of formats
    return lambda text: re.sub(pattern, lambda match: "".join(map(replace, match[0])), text)


def _backslash(character: str) -> str:
    return f"\\{character}"


def _entity(character: str) -> str:
    return f"&#{ord(character)};"


_markdown = _with(rf"[\\`*\[<&|~$]|_++{_NO_LETTER}|#++$", _backslash)
"""Underscores that cannot end an emphasis are not escaped, because then there is none."""

_inline_rst = _with(rf"[\\`*|]|_++{_NO_LETTER}|(?<=:):$", _backslash)
_RST_BLOCK = r"[^\w\s\\]|\w+[.)](?=\s|$)|\\+$"
"""The start of a list or another block; a line of the same character is one."""


def _rst(text: str) -> str:
    if not text:
        return ".."  # a comment: texts determine the width of a column
    escaped = _inline_rst(text)
    block = re.match(_RST_BLOCK, escaped)
    if block is None:
        return escaped
    return f"\\{escaped}" if len(block[0]) == 1 else f"\\ {escaped}"


def _html(text: str) -> str:
    from html import escape

    return escape(text)


_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # this and the next could be an option of the previous row's end
    "*": "{*}",
    "-": "-{}",  # two of them are a dash
    ",": ",{}",
}
_latex = _with(
    r"[\\^~<>|'`\[&%$#_{}]|^\*|-(?=-)|,(?=,)",
    lambda character: _LATEX.get(character, f"\\{character}"),
)

_jira = _with(
    rf"[\\|{{}}\[*+^~!<>&]|_{_NO_LETTER}|-(?=-)|(?<=\S)-{_NO_LETTER}|^[-#](?=[-#]*\s)|\?(?=\?)"
    r"|\((?=[^\s()]{1,7}\))|(?<=\S)(?<![^\W_])\)|:(?=[DPp])|(?<=^h[1-6])\.|(?<=^bq)\.",
    _entity,
)
_mediawiki = _with(r"[<&\[{|'~]|_(?=_)|!(?=!)", _entity)
_asciidoc = _with(
    rf"[\\|*`#^~{{<>&+'\[$]|_{_NO_LETTER}|-(?=-)|\.(?=\.\.)|\((?=\(|C\)|R\)|TM\))", _entity
)

_MARKDOWN = _Markup("Markdown", "pipe", _markdown, ("## {}\n\n", "### {}\n\n"))
MARKUPS: Mapping[str, _Markup] = {
    "markdown": _MARKDOWN,
    "github": _MARKDOWN,
    "html": _Markup("HTML", "unsafehtml", _html, ("<h2>{}</h2>\n", "<h3>{}</h3>\n")),
    "rst": _Markup(
        "reStructuredText",
        "rst",
        _rst,
        ("{0}\n{1:=<{line}}\n\n", "{0}\n{1:-<{line}}\n\n"),
        of_one="grid",
        needs_row=True,
    ),
    "latex": _Markup(
        "LaTeX",
        "latex_raw",
        _latex,
        ("\\section*{{{}}}\n\n", "\\subsection*{{{}}}\n\n"),
        needs_row=True,
    ),
    "jira": _Markup("Jira and Confluence", "jira", _jira, ("h2. {}\n\n", "h3. {}\n\n")),
    "mediawiki": _Markup("MediaWiki", "mediawiki", _mediawiki, ("== {} ==\n\n", "=== {} ===\n\n")),
    "asciidoc": _Markup("AsciiDoc", "asciidoc", _asciidoc, ("== {}\n\n", "=== {}\n\n")),
    "grid": _Markup("a drawing in plain text", "grid", str, ("{}\n\n", "{}\n\n")),
}
"""Document formats by name."""
