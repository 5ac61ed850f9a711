"""Decoded records as tables, csv and tsv, made from Arrow columns like all large output.

Columns become columns of text, and these become lines. Python handles a text only if it
needs escapes, and a text of a dictionary only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.model.instant import shown_time, shows_utc
from kgroup.operation.decode import NOT_COMMITTED
from kgroup.render.cell import UNKNOWN, Column, Kind, cell, visible
from kgroup.render.delimited import Delimited
from kgroup.render.markup import markup_table
from kgroup.render.table import RIGHT, Row, rich_table

MAX_DETAIL = 160
"""Maximum characters of a record's contents in a table; csv, tsv and json have all of it."""
PAGE = 10_000
"""Number of rows whose column widths are computed together."""

DETAIL = Column("detail", Kind.TEXT, "tables only: remaining contents of the record")

_SPECIAL = {Kind.TEXT: r"[^ -\[\]-~]", Kind.NAME: r"[^ -\[\]-~]|^-?$|^ | $"}
"""Texts that `cell` may change, by kind."""

_TEXT = pa.large_string()
"""Large, because a batch may contain more than 2 GiB of text."""

_TIMES_MS = (-62_135_596_800_000, 253_402_300_799_999)
"""Years 1 to 9999, the range of RFC 3339."""

Fields = list[pa.Array]
"""A column of texts for each column of the table; null is unknown."""


def page_fields(batch: pa.RecordBatch, columns: Sequence[Column]) -> Fields:
    """Return the columns of a batch of `DECODED` as texts for people."""
    return [_field(batch, column) for column in columns]


def _field(batch: pa.RecordBatch, column: Column) -> pa.Array:
    if column is DETAIL:
        return _details(batch)
    if column.kind is Kind.TIME:
        return as_times(batch[column.name])
    if column.kind is Kind.NUMBER:
        return _as_text(batch[column.name])
    return _as_text(batch[column.name], _SPECIAL[column.kind], partial(cell, kind=column.kind))


def plain_page(
    pages: Iterable[Fields], columns: Sequence[Column], *, headers: bool, at_once: bool
) -> Iterator[str | memoryview]:
    """Yield aligned text; columns become wider if later rows need it.

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
        pads = [*widths[:-1], widths[-1] if is_right[-1] else 0]  # nothing after the last text
        padded = [_pad(*column) for column in zip(fields, pads, is_right, strict=True)]
        yield _join_lines(padded, "  ", unknown=UNKNOWN)
    if headers:
        yield _head(titles, widths, is_right)


def markup_page(
    form: str, pages: Iterable[Fields], columns: Sequence[Column], *, headers: bool, at_once: bool
) -> Iterator[str]:
    """Yield tables of a document, page by page, to limit memory.

    With `at_once` no row waits for others; rows that come together form a table.
    """
    gap = ""
    for fields in _slices(pages) if at_once else _together(_slices(pages)):
        yield gap
        yield from markup_table(form, columns, _rows(fields), headers=headers)
        gap = "\n"
    if not gap:
        yield from markup_table(form, columns, [], headers=headers)


def delimited_batch(form: Delimited, batch: pa.RecordBatch) -> memoryview:
    """Return the rows of an Arrow batch of texts, dictionaries of texts, and integers, as UTF-8."""
    columns = [_as_text(column, form.special, form.escape) for column in batch.columns]
    return _join_lines(columns, form.separator, unknown=form.unknown)


def terminal_page(
    pages: Iterable[Fields], columns: Sequence[Column], *, headers: bool
) -> Iterator[str]:
    """Yield tables for a terminal."""
    return rich_table(columns, chain.from_iterable(map(_rows, _slices(pages))), headers=headers)


def _rows(fields: Fields) -> Iterable[Row]:
    return zip(*(pc.fill_null(field, UNKNOWN).to_pylist() for field in fields), strict=True)


def _slices(pages: Iterable[Fields]) -> Iterator[Fields]:
    for fields in pages:
        for start in range(0, len(fields[0]), PAGE):
            yield [field.slice(start, PAGE) for field in fields]


def _together(pages: Iterable[Fields]) -> Iterator[Fields]:
    """Combine short pages, so that the widths of columns suit many rows."""
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
    """Return a line with what the other columns of a table do not contain; null if nothing."""
    transaction_status = _as_text(batch["transaction"])
    is_undecided = pc.is_in(transaction_status, pa.array(sorted(NOT_COMMITTED), _TEXT))
    json = batch["value_json"].cast(_TEXT)
    metadata = _as_text(batch["metadata"], _SPECIAL[Kind.TEXT], visible)
    is_tombstone = pc.and_(pc.is_null(batch["value_version"]), pc.is_null(json))
    parts = (
        pc.if_else(is_undecided, _joined(transaction_status, _text(" transaction")), None),
        pc.if_else(is_tombstone, _text("tombstone"), None),
        pc.if_else(pc.equal(metadata, ""), None, _joined(_text("metadata="), metadata)),
        _escape_where(pc.is_valid(json), json, _summary),
        _joined(_text("expires "), as_times(batch["expire_timestamp_ms"])),
    )
    spaced = [pc.fill_null(_joined(_text(" "), part), "") for part in parts]
    details = pc.utf8_slice_codeunits(_joined(*spaced), 1)
    return _shorten(pc.if_else(pc.equal(details, ""), None, details), MAX_DETAIL)


def _joined(*parts: pa.Array) -> pa.Array:
    """Concatenate texts; null if any is null (to skip nulls, Arrow drops rows)."""
    return pc.binary_join_element_wise(*parts, _text(""))


def _summary(json: str) -> str:
    """Return a one-line summary of a value that has no columns of its own."""
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


def _as_text(
    column: pa.Array, special: str = "", escape: Callable[[str], str] | None = None
) -> pa.Array:
    """Return texts, dictionaries of texts, or numbers as texts; null stays null.

    Args:
        column: column of any of these types.
        special: regular expression (RE2) that finds the texts to escape.
        escape: returns the escaped text.
    """
    if pa.types.is_dictionary(column.type):
        return _as_text(column.dictionary, special, escape).take(column.indices)
    texts = column.cast(_TEXT)
    if escape is None or pa.types.is_integer(column.type):
        return texts
    return _escape_where(pc.match_substring_regex(texts, special), texts, escape)


def _escape_where(mask: pa.Array, texts: pa.Array, escape: Callable[[str], str]) -> pa.Array:
    """Replace the texts that a mask selects."""
    mask = pc.fill_null(mask, False)
    special = texts.filter(mask)
    if len(special) == 0:
        return texts
    return pc.replace_with_mask(texts, mask, pa.array(map(escape, special.to_pylist()), _TEXT))


def as_times(column: pa.Array) -> pa.Array:
    """Return epoch milliseconds as `shown_time` does."""
    first, last = _TIMES_MS
    is_time = pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))
    instants = pc.if_else(is_time, column, None).cast(pa.timestamp("ms", "UTC"))
    times = pc.binary_replace_slice(instants.cast(_TEXT), start=10, stop=11, replacement="T")
    if not shows_utc():
        times = _as_local(times)
    if pc.all(is_time, min_count=0).as_py():
        return times
    numbers = pc.binary_join_element_wise(column.cast(_TEXT), _text("ms"), _text(" "))
    return pc.coalesce(times, numbers)


def _as_local(times: pa.Array, length: int = 16) -> pa.Array:
    """Return times in UTC as local times; each minute is converted once.

    Offsets of past centuries have seconds, and change within a minute: then each second is.
    """
    units = pc.utf8_slice_codeunits(times, 0, length).dictionary_encode()
    instants = (datetime.fromisoformat(f"{unit}Z") for unit in units.dictionary.to_pylist())
    local = [shown_time(int(instant.timestamp()) * 1000) for instant in instants]
    if length == 16 and any(len(time) > 29 for time in local):
        return _as_local(times, 19)
    heads = pa.array([time[:length] for time in local], _TEXT).take(units.indices)
    zones = pa.array([time[23:] for time in local], _TEXT).take(units.indices)
    rest = pc.utf8_slice_codeunits(times, length, 23)
    return pc.binary_join_element_wise(heads, rest, zones, _text(""))


def _shorten(texts: pa.Array, length: int) -> pa.Array:
    """Return texts in which longer ones are cut and end in an ellipsis."""
    is_long = pc.greater(pc.utf8_length(texts), length)
    return _escape_where(is_long, texts, lambda long: f"{long[: length - 1]}…")


def _text(value: str) -> pa.Scalar:
    """Return a text that can be combined with columns of texts."""
    return pa.scalar(value, _TEXT)


def _join_lines(columns: Sequence[pa.Array], separator: str, *, unknown: str) -> memoryview:
    """Return rows as lines in UTF-8: the fields with the separator between them."""
    if len(columns[0]) == 0:
        return memoryview(b"")
    rows = pc.binary_join_element_wise(
        *columns, _text(separator), null_handling="replace", null_replacement=unknown
    )
    lines = pc.binary_join_element_wise(rows, _text("\n"), _text(""))
    _, offsets, data = lines.buffers()
    return memoryview(data)[: memoryview(offsets).cast("q")[len(lines)]]
