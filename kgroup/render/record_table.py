"""Decoded records as tables for people, made of Arrow columns like all large output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.operation.decode import NOT_COMMITTED
from kgroup.render.cell import UNKNOWN, Column, Kind, cell, visible
from kgroup.render.markup import markup_table
from kgroup.render.table import RIGHT, Row, rich_table
from kgroup.render.text_column import (
    TEXT,
    as_text,
    as_times,
    escape_where,
    join_lines,
    shorten,
    text,
)

MAX_DETAIL = 160
"""Characters of a record's contents in a table; csv, tsv and json have all of it."""
PAGE = 10_000
"""Rows from which the widths of columns are judged at a time."""

DETAIL = Column("detail", Kind.TEXT, "tables only: what else there is to say")

_SPECIAL = {Kind.TEXT: r"[^ -\[\]-~]", Kind.NAME: r"[^ -\[\]-~]|^-?$|^ | $"}
"""What `cell` may change, of the texts of a kind."""

Fields = list[pa.Array]
"""A column of texts for each column of the table; null is unknown."""


def page_fields(batch: pa.RecordBatch, columns: Sequence[Column]) -> Fields:
    """Write the columns of a batch of `DECODED` for people."""
    return [_field(batch, column) for column in columns]


def _field(batch: pa.RecordBatch, column: Column) -> pa.Array:
    if column is DETAIL:
        return _details(batch)
    if column.kind is Kind.TIME:
        return as_times(batch[column.name])
    if column.kind is Kind.NUMBER:
        return as_text(batch[column.name])
    return as_text(batch[column.name], _SPECIAL[column.kind], partial(cell, kind=column.kind))


def plain_page(
    pages: Iterable[Fields], columns: Sequence[Column], *, headers: bool, at_once: bool
) -> Iterator[str | memoryview]:
    """Write aligned text; columns grow wider where later rows need it.

    With `at_once` no row waits for others.
    """
    is_right = [column.kind in RIGHT for column in columns]
    titles = [column.title for column in columns]
    widths = [len(title) if headers else 0 for title in titles]
    for fields in _slices(pages) if at_once else _together(_slices(pages)):
        widths = [max(width, _longest(field)) for width, field in zip(widths, fields, strict=True)]
        if headers:
            yield _head(titles, widths, is_right)
            headers = False
        pads = [*widths[:-1], widths[-1] if is_right[-1] else 0]  # nothing behind the last text
        padded = [_pad(*column) for column in zip(fields, pads, is_right, strict=True)]
        yield join_lines(padded, "  ", unknown=UNKNOWN)
    if headers:
        yield _head(titles, widths, is_right)


def markup_page(
    form: str, pages: Iterable[Fields], columns: Sequence[Column], *, headers: bool, at_once: bool
) -> Iterator[str]:
    """Write tables of a document: they are not made a row at a time, and memory has an end.

    With `at_once` no row waits for others, but those that come together have a table.
    """
    gap = ""
    for fields in _slices(pages) if at_once else _together(_slices(pages)):
        yield gap
        yield from markup_table(form, columns, _rows(fields), headers=headers)
        gap = "\n"
    if not gap:
        yield from markup_table(form, columns, [], headers=headers)


def terminal_page(
    pages: Iterable[Fields], columns: Sequence[Column], *, headers: bool
) -> Iterator[str]:
    """Write tables for a terminal."""
    return rich_table(columns, chain.from_iterable(map(_rows, _slices(pages))), headers=headers)


def _rows(fields: Fields) -> Iterable[Row]:
    return zip(*(pc.fill_null(field, UNKNOWN).to_pylist() for field in fields), strict=True)


def _slices(pages: Iterable[Fields]) -> Iterator[Fields]:
    for fields in pages:
        for start in range(0, len(fields[0]), PAGE):
            yield [field.slice(start, PAGE) for field in fields]


def _together(pages: Iterable[Fields]) -> Iterator[Fields]:
    """Put short pages together, so that the widths of columns fit many rows."""
    waiting: list[Fields] = []
    rows = 0
    for fields in pages:
        waiting.append(fields)
        rows += len(fields[0])
        if rows >= PAGE:
            yield _one(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _one(waiting)


def _one(pages: Sequence[Fields]) -> Fields:
    if len(pages) == 1:
        return pages[0]
    return [pa.concat_arrays(parts) for parts in zip(*pages, strict=True)]


def _longest(field: pa.Array) -> int:
    return max(pc.max(pc.utf8_length(field)).as_py() or 0, len(UNKNOWN) if field.null_count else 0)


def _head(titles: Iterable[str], widths: Iterable[int], is_right: Iterable[bool]) -> str:
    columns = zip(titles, widths, is_right, strict=True)
    texts = (title.rjust(width) if right else title.ljust(width) for title, width, right in columns)
    return f"{'  '.join(texts).rstrip()}\n"


def _pad(field: pa.Array, width: int, right: bool) -> pa.Array:
    known = pc.fill_null(field, UNKNOWN)
    is_ascii = pc.all(pc.string_is_ascii(known)).as_py()
    if is_ascii:  # the functions for all of Unicode are far slower
        return pc.ascii_lpad(known, width) if right else pc.ascii_rpad(known, width)
    return pc.utf8_lpad(known, width) if right else pc.utf8_rpad(known, width)


def _details(batch: pa.RecordBatch) -> pa.Array:
    """Say in a line what the other columns of a table do not; null where there is nothing."""
    transaction_status = as_text(batch["transaction"])
    is_undecided = pc.is_in(transaction_status, pa.array(sorted(NOT_COMMITTED), TEXT))
    json = batch["value_json"].cast(TEXT)
    metadata = as_text(batch["metadata"], _SPECIAL[Kind.TEXT], visible)
    is_tombstone = pc.and_(pc.is_null(batch["value_version"]), pc.is_null(json))
    parts = (
        pc.if_else(is_undecided, _joined(transaction_status, text(" transaction")), None),
        pc.if_else(is_tombstone, text("tombstone"), None),
        pc.if_else(pc.equal(metadata, ""), None, _joined(text("metadata="), metadata)),
        escape_where(pc.is_valid(json), json, _summary),
        _joined(text("expires "), as_times(batch["expire_timestamp_ms"])),
    )
    spaced = [pc.fill_null(_joined(text(" "), part), "") for part in parts]
    details = pc.utf8_slice_codeunits(_joined(*spaced), 1)
    return shorten(pc.if_else(pc.equal(details, ""), None, details), MAX_DETAIL)


def _joined(*parts: pa.Array) -> pa.Array:
    """Put texts behind one another; null where any is null (to skip these, Arrow drops rows)."""
    return pc.binary_join_element_wise(*parts, text(""))


def _summary(json: str) -> str:
    """Say in a line what the value of a record is that has no columns of its own."""
    value: Mapping[str, Any] = orjson.loads(json)
    data = value.get("data")
    if data is None:
        return visible(f"version {value.get('version')}: {value.get('error', 'not known')}")
    return visible(
        " ".join(
            f"{name}[{len(field)}]" if isinstance(field, list | dict) else f"{name}={field}"
            for name, field in data.items()
            if field is not None
        )
    )
