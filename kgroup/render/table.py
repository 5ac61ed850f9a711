"""Tables for people: rich on a terminal, plain text in a pipe, markdown for documents.

Tables are written page by page, so that a long one needs little memory and its first lines come at
once. The columns of a pipe keep the widths that the first pages needed and have one head; on a
terminal every page has its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from kgroup.render.cell import Column, Kind, cell

__all__ = ["markdown_table", "plain_table", "rich_table"]

Row = Sequence[object]

PLAIN_PAGE = 2000
"""Rows; about what widths can be judged from."""
RICH_PAGE = 500

_RIGHT = (Kind.NUMBER, Kind.DURATION)
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


def plain_table(
    columns: Sequence[Column], rows: Iterable[Row], *, headers: bool = True
) -> Iterator[str]:
    """Write aligned text without lines, for pipes.

    Args:
        columns: of the table, in order.
        rows: a value for each column.
        headers: whether a line with the titles comes first, also where there are no rows.

    Yields:
        Text that ends in a newline.
    """
    from tabulate import tabulate

    align = ["right" if column.kind in _RIGHT else "left" for column in columns]
    head = [[column.title for column in columns]] if headers else []
    widths = [0] * len(columns)
    for page in _pages(columns, rows, PLAIN_PAGE, head):
        widths = [
            max(width, *map(len, texts))
            for width, texts in zip(widths, zip(*page, strict=True), strict=True)
        ]
        page[0] = [
            text.rjust(width) if side == "right" else text.ljust(width)
            for text, width, side in zip(page[0], widths, align, strict=True)
        ]
        text = tabulate(
            page,
            tablefmt="plain",
            disable_numparse=True,
            preserve_whitespace=True,
            colalign=align,
        )
        yield "".join(f"{line.rstrip()}\n" for line in text.split("\n"))


def markdown_table(
    columns: Sequence[Column], rows: Iterable[Row], *, headers: bool = True
) -> Iterator[str]:
    """Write a GitHub table; as `plain_table`, and without `headers` the rows alone."""
    if headers:
        yield _markdown_line([column.title for column in columns])
        yield _markdown_line(["--:" if c.kind in _RIGHT else "---" for c in columns])
    for row in rows:
        yield _markdown_line(_texts(columns, row))


def rich_table(
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    headers: bool = True,
    width: int | None = None,
) -> Iterator[str]:
    """Write a table for a terminal `width` characters wide, None: as wide as the terminal is."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    for page in _pages(columns, rows, RICH_PAGE, []):
        table = Table(box=None, pad_edge=False, show_header=headers, header_style="bold")
        for column in columns:
            side: Literal["left", "right"] = "right" if column.kind in _RIGHT else "left"
            table.add_column(column.title, justify=side, overflow="fold")
        for texts in page:
            table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in texts))
        text = StringIO()
        Console(file=text, force_terminal=True, width=width).print(table)
        yield text.getvalue()


def _pages(
    columns: Sequence[Column], rows: Iterable[Row], size: int, head: list[list[str]]
) -> Iterator[list[list[str]]]:
    rest = iter(rows)
    page = head
    while page := page + [_texts(columns, row) for row in islice(rest, size)]:
        yield page
        page = []


def _texts(columns: Sequence[Column], row: Row) -> list[str]:
    return [cell(value, column.kind) for column, value in zip(columns, row, strict=True)]


def _markdown_line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |\n"
