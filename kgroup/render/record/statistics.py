"""What a log holds, in numbers: one sheet, or a table for each thing that is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from kgroup.operation.decode import Count
from kgroup.render.cell import Column, Kind
from kgroup.render.sheet import Sheet, sheet_text, title_text

MAX_ROWS = 100
"""Groups and the like in a table; csv, tsv and json have all of them."""

STATS_COLUMNS = (
    Column("by", Kind.TEXT, "what is counted: type, transaction, group, batch or damage"),
    Column("name", Kind.NAME, "record type, fate, group id, compression or kind of damage"),
    Column("version", Kind.NUMBER, "version of the value, or message format of the batches"),
    Column("count", Kind.NUMBER, "records, batches or damaged places"),
    Column("bytes", Kind.NUMBER, "keys and values of the records, or batches as they lie there"),
)
stats_sheet = partial(Sheet.of, STATS_COLUMNS)  # one row a count
_TITLES = {
    "type": "Records by type and version of the value",
    "transaction": "Records in transactions",
    "group": "Records by group",
    "batch": "Batches by compression and message format",
    "damage": "Damage",
}


def stats_text(
    counts: Sequence[Count], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write a table for each thing that is counted."""
    for number, (by, found) in enumerate(groupby(counts, key=lambda count: count.by)):
        rows = list(found)
        yield "\n" if number else ""
        yield from title_text(_title(by, len(rows)), form, level=2, terminal=terminal)
        sheet = stats_sheet(rows[:MAX_ROWS]).without_blank()
        names = [column.name for column in sheet.columns if column.name != "by"]
        yield from sheet_text(sheet.select(names), form, headers=headers, terminal=terminal)


def _title(by: str, rows: int) -> str:
    return _TITLES[by] + (f" (the first {MAX_ROWS} of {rows})" if rows > MAX_ROWS else "")
