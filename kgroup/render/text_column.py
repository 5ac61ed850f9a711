"""Arrow columns as columns of text, and these as lines: no Python object for a value.

Python sees a text only if it needs escapes, and a text of a dictionary only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()
"""Large, since a batch may hold more than 2 GiB of text."""

_TIMES_MS = (-62_135_596_800_000, 253_402_300_799_999)
"""Years 1 to 9999, which RFC 3339 can tell."""


def as_text(
    column: pa.Array, special: str = "", escape: Callable[[str], str] | None = None
) -> pa.Array:
    """Make texts of texts, dictionaries of texts, or numbers; null stays null.

    Args:
        column: of any of these types.
        special: regular expression (RE2) that finds the texts to be escaped.
        escape: makes one of these into what is to be written.
    """
    if pa.types.is_dictionary(column.type):
        return as_text(column.dictionary, special, escape).take(column.indices)
    texts = column.cast(TEXT)
    if escape is None or pa.types.is_integer(column.type):
        return texts
    return escape_where(pc.match_substring_regex(texts, special), texts, escape)


def escape_where(mask: pa.Array, texts: pa.Array, escape: Callable[[str], str]) -> pa.Array:
    """Replace the texts that a mask chooses."""
    mask = pc.fill_null(mask, False)
    found = texts.filter(mask)
    if len(found) == 0:
        return texts
    return pc.replace_with_mask(texts, mask, pa.array(map(escape, found.to_pylist()), TEXT))


def as_times(column: pa.Array) -> pa.Array:
    """Write epoch milliseconds as RFC 3339; what no calendar holds as a number with its unit."""
    first, last = _TIMES_MS
    is_time = pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))
    instants = pc.if_else(is_time, column, None).cast(pa.timestamp("ms", "UTC"))
    times = pc.binary_replace_slice(instants.cast(TEXT), start=10, stop=11, replacement="T")
    if pc.all(is_time, min_count=0).as_py():
        return times
    numbers = pc.binary_join_element_wise(column.cast(TEXT), text("ms"), text(" "))
    return pc.coalesce(times, numbers)


def shorten(texts: pa.Array, length: int) -> pa.Array:
    """Cut longer texts so that they end in an ellipsis."""
    is_long = pc.greater(pc.utf8_length(texts), length)
    return escape_where(is_long, texts, lambda long: f"{long[: length - 1]}…")


def text(value: str) -> pa.Scalar:
    """Make a text that goes with columns of texts."""
    return pa.scalar(value, TEXT)


def join_lines(columns: Sequence[pa.Array], separator: str, *, unknown: str) -> memoryview:
    """Write rows as lines in UTF-8: the fields with the separator between them."""
    if len(columns[0]) == 0:
        return memoryview(b"")
    rows = pc.binary_join_element_wise(
        *columns, text(separator), null_handling="replace", null_replacement=unknown
    )
    lines = pc.binary_join_element_wise(rows, text("\n"), text(""))
    _, offsets, data = lines.buffers()
    return memoryview(data)[: memoryview(offsets).cast("q")[len(lines)]]
