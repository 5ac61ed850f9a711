r"""Tables and titles in the languages of documents; tabulate writes the tables.

Texts come as cells show them to people, see `cell`, so that none holds a line break or another
control character. Here each language's own characters are escaped where they would mean something,
so that its reader shows the text; blanks at the ends of a cell, and several in a row, may be lost.
`grid` is no language but a drawing: texts stand there as they are.
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
"""Stands for a cell that a text takes, in texts that are not ASCII, while tabulate aligns them."""
_NO_LETTER = r"(?![^\W_])"


@dataclass(frozen=True, slots=True)
class _Markup:
    """One language.

    Attributes:
        name: what it is called.
        table: likewise by tabulate.
        escape: writes a text so that it means itself.
        titles: templates of a heading of level 2, and of one below it.
        of_one: likewise for a table of one column, where it needs another.
        needs_row: whether there is no table without one.
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
    """Write a table.

    Args:
        form: one of `MARKUPS`.
        columns: of the table, in order.
        rows: texts for each column, see `cell`.
        headers: whether the table has a head; in markdown, which has no table without one, the
            rows stand alone else.
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
    """Write the heading of a part, of level 2 or 3."""
    markup = MARKUPS[form]
    text = markup.escape(title.strip())
    return markup.titles[level - 2].format(text, "", line=_width(text))


def _filled(text: str) -> str:
    """Make a text as long as it is wide, for tabulate, which goes by length."""
    return text if text.isascii() else _FILL * max(1, _width(text))


def _width(text: str) -> int:
    """Count the cells that a text takes, as readers of drawn tables do."""
    from unicodedata import combining, east_asian_width

    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)


def _with(pattern: str, replace: Callable[[str], str]) -> Callable[[str], str]:
    """Make a function that escapes what a pattern finds, a character at a time."""
    # re compiles it at the first use: the command line needs no more than the names of forms
    return lambda text: re.sub(pattern, lambda match: "".join(map(replace, match[0])), text)


def _backslash(character: str) -> str:
    return f"\\{character}"


def _entity(character: str) -> str:
    return f"&#{ord(character)};"


_markdown = _with(rf"[\\`*\[<&|~$]|_++{_NO_LETTER}|#++$", _backslash)
"""Underscores that cannot end an emphasis are left, since then there is none."""

_inline_rst = _with(rf"[\\`*|]|_++{_NO_LETTER}|(?<=:):$", _backslash)
_RST_BLOCK = r"[^\w\s\\]|\w+[.)](?=\s|$)|\\+$"
"""How a list or another block begins; a line of the same character is one."""


def _rst(text: str) -> str:
    if not text:
        return ".."  # a comment: the width of a column is that of its texts
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
    "[": "{[}",  # this and the next could be an option of the end of the row before
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
"""By the name of the form."""
