"""Tables for people: rich on a terminal, plain text in a pipe, markdown for documents.

Rows come as texts, see `cell`. On a terminal a long table is written page by page.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from kgroup.render.cell import Column, Kind

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "RIGHT",
    "markdown_table",
    "markdown_text",
    "plain_table",
    "rich_table",
    "rich_title",
]

Row = Sequence[str]

RICH_PAGE = 500
"""Rows that have their widths, and a head, together."""
LEAST_TEXT = 8
"""Characters to which a column of texts is shortened before one of numbers or times is."""

_GAP = 2
RIGHT = (Kind.NUMBER, Kind.DURATION, Kind.AGE)
_STYLES = {
    "Stable": "green",
    "Empty": "cyan",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "NotReady": "red",
    "Dead": "red",
    "aborted": "red",
    "open": "yellow",
}
"""Colours of words that catch the eye, on a terminal."""


def plain_table(columns: Sequence[Column], rows: Iterable[Row], *, headers: bool = True) -> str:
    """Write aligned text without lines, for pipes.

    Args:
        columns: of the table, in order.
        rows: texts for each column, see `cell`.
        headers: whether a line with the titles comes first, also where there are no rows.
    """
    from tabulate import tabulate

    lines = [[column.title for column in columns]] if headers else []
    lines += map(list, rows)
    if not lines:
        return ""
    align = ["right" if column.kind in RIGHT else "left" for column in columns]
    text = tabulate(
        lines, tablefmt="plain", disable_numparse=True, preserve_whitespace=True, colalign=align
    )
    return "".join(f"{line.rstrip()}\n" for line in text.split("\n"))


def markdown_table(
    columns: Sequence[Column], rows: Iterable[Row], *, headers: bool = True
) -> Iterator[str]:
    """Write a GitHub table; as `plain_table`, and without `headers` the rows alone."""
    if headers:
        yield _markdown_line([column.title for column in columns])
        yield _markdown_line(["--:" if column.kind in RIGHT else "---" for column in columns])
    for row in rows:
        yield _markdown_line([markdown_text(text) for text in row])


def markdown_text(text: str) -> str:
    """Keep a text within its cell."""
    return text.replace("|", "\\|")


def rich_table(
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    headers: bool = True,
    terminal_width: int | None = None,
) -> Iterator[str]:
    """Write a table for a terminal; a width of None is that of the terminal itself."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    room = (terminal_width or Console().width) - _GAP * (len(columns) - 1)
    titles = [column.title.replace("_", " ") for column in columns]  # broken between words only
    for page in _pages(rows):
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, _GAP, 0, 0),
            show_header=headers,
            header_style="bold",
        )
        needed = [
            max(map(cell_len, (*title.split(), *(row[index] for row in page))))
            for index, title in enumerate(titles)
        ]
        for column, title, width in zip(columns, titles, _fit(columns, needed, room), strict=True):
            side: Literal["left", "right"] = "right" if column.kind in RIGHT else "left"
            table.add_column(title, justify=side, overflow="fold", width=width)
        for row in page:
            table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
        yield _on_terminal(table, terminal_width)


def _fit(columns: Sequence[Column], needed: Sequence[int], room: int) -> list[int]:
    """Shorten the widest columns until all of them have room: texts first, short ones never."""
    widths = list(needed)
    for least, kinds in ((LEAST_TEXT, (Kind.TEXT, Kind.NAME)), (1, tuple(Kind))):
        limit = max(widths)
        while sum(widths) > room and limit > least:
            limit -= 1
            widths = [
                min(width, limit) if column.kind in kinds else width
                for column, width in zip(columns, widths, strict=True)
            ]
    return widths


def rich_title(title: str) -> str:
    """Write a line that stands out on a terminal."""
    from rich.text import Text

    return _on_terminal(Text(title, style="bold"), None)


def _on_terminal(renderable: "RenderableType", width: int | None) -> str:
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    Console(file=text, force_terminal=True, width=width).print(renderable)
    return text.getvalue()


def _pages(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield so many rows at a time; one empty page where there are none."""
    rest = iter(rows)
    page = list(islice(rest, RICH_PAGE))
    yield page
    while page := list(islice(rest, RICH_PAGE)):
        yield page


def _markdown_line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |\n"
