"""Decoded records in every form but JSON lines (`jsonl`): columns, and a line to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from kgroup.render.cell import Column, Kind, rfc3339
from kgroup.render.delimited import CSV, TSV, Delimited, delimited_batch, delimited_table
from kgroup.render.document import document
from kgroup.render.sheet import Sheet, choose, sheet_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PAGE_COLUMNS", "RECORD_COLUMNS", "Rows", "record_text"]

T = TypeVar("T")

SLICE = 1000
"""Rows that are objects at one time."""

MAX_DETAIL = 160
"""Characters of a record's contents in a table; csv, tsv and json have all of it."""

RECORD_COLUMNS = (
    Column("partition", Kind.NUMBER, "partition of __consumer_offsets"),
    Column("offset", Kind.NUMBER, "of the record in that partition"),
    Column("timestamp_ms", Kind.TIME, "of the record"),
    Column("timestamp_type", Kind.TEXT, "create or log_append"),
    Column("leader_epoch", Kind.NUMBER, "of the partition's leader that appended it"),
    Column("producer_id", Kind.NUMBER, "of an idempotent or transactional producer"),
    Column("producer_epoch", Kind.NUMBER, "likewise"),
    Column("transaction", Kind.TEXT, "committed, aborted or open; unknown outside transactions"),
    Column("type", Kind.TEXT, "record type: the schema's name without Key and Value"),
    Column("key_type", Kind.NUMBER, "number of the type, with which the key begins"),
    Column("group", Kind.NAME, "id of the group that the record is about"),
    Column("topic", Kind.TEXT, "of an offset commit"),
    Column("topic_partition", Kind.NUMBER, "of an offset commit: partition of that topic"),
    Column("value_version", Kind.NUMBER, "version of the value; unknown for a tombstone"),
    Column("committed_offset", Kind.NUMBER, "of an offset commit"),
    Column("committed_leader_epoch", Kind.NUMBER, "of an offset commit, where it is stored"),
    Column("metadata", Kind.TEXT, "of an offset commit: text that the client stored with it"),
    Column("commit_timestamp_ms", Kind.TIME, "of an offset commit"),
    Column("expire_timestamp_ms", Kind.TIME, "of an offset commit, where it is stored"),
    Column("topic_id", Kind.TEXT, "of an offset commit, where it is stored"),
    Column("key_json", Kind.TEXT, "the key as in json, unless the columns before say all"),
    Column("value_json", Kind.TEXT, "the value as in json, unless the columns before say all"),
)
"""The columns of csv, tsv and Parquet; there the last two are followed by the raw bytes."""

_DETAIL = Column("detail", Kind.TEXT, "table and markdown only: what else there is to say")
_PAGE_NAMES = (
    "partition",
    "offset",
    "timestamp_ms",
    "type",
    "group",
    "topic",
    "topic_partition",
    "committed_offset",
)
PAGE_COLUMNS = (*RECORD_COLUMNS, _DETAIL)
"""The columns of table and markdown."""


class Rows(Protocol):
    """Batches of `DECODED`, given as what a function makes of each, perhaps in threads."""

    def __call__(self, function: Callable[[pa.RecordBatch], T], /) -> Iterator[T]:
        """Yield the function's results in order."""
        ...


def record_text(
    rows: Rows,
    form: str,
    names: Sequence[str],
    *,
    headers: bool,
    terminal: bool,
    errors: Callable[[], Iterable[object]],
) -> Iterator[str | bytes | memoryview]:
    """Write records in any form.

    Args:
        rows: to write.
        form: table, json, jsonl, csv, tsv or markdown.
        names: of columns, in order; empty: those that the form has by default.
        headers: whether there is a line with the names of the columns.
        terminal: whether a table is for a terminal.
        errors: what went wrong, for json; asked when the rows are at their end.

    Raises:
        UsageError: a name that no column has.
    """
    if form == "jsonl":
        return _json_blocks(rows)
    if form == "json":
        return document("decode-offsets", _json_blocks(rows), _late(errors))
    if form in ("csv", "tsv"):
        return _delimited(rows, CSV if form == "csv" else TSV, names, headers)
    return _page(rows, form, names, headers, terminal)


def _json_blocks(rows: Rows) -> Iterator[memoryview]:
    from kgroup.render.jsonl import json_lines

    for blocks in rows(lambda batch: [memoryview(block) for block in json_lines(batch)]):
        yield from blocks


def _late(errors: Callable[[], Iterable[object]]) -> Iterator[object]:
    yield from errors()


def _delimited(
    rows: Rows, style: Delimited, names: Sequence[str], headers: bool
) -> Iterator[str | memoryview]:
    indices = choose(RECORD_COLUMNS, names) if names else range(len(RECORD_COLUMNS))
    columns = [RECORD_COLUMNS[index] for index in indices]
    chosen = [column.name for column in columns]
    yield from delimited_table(style, columns, [], headers=headers)
    yield from rows(lambda batch: delimited_batch(style, batch.select(chosen)))


def _page(
    rows: Rows, form: str, names: Sequence[str], headers: bool, terminal: bool
) -> Iterator[str]:
    chosen = choose(PAGE_COLUMNS, names or [*_PAGE_NAMES, _DETAIL.name])
    columns = tuple(PAGE_COLUMNS[index] for index in chosen)
    batches = rows(lambda batch: batch)
    sheet = Sheet(columns, (_cells(row, columns) for b in batches for row in _objects(b)))
    return sheet_text(sheet, form, headers=headers, terminal=terminal)


def _objects(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield rows as objects, a part of the batch at a time."""
    for start in range(0, batch.num_rows, SLICE):
        yield from batch.slice(start, SLICE).to_pylist()


def _cells(row: dict[str, Any], columns: Sequence[Column]) -> list[object]:
    return [_detail(row) if column is _DETAIL else row[column.name] for column in columns]


def _detail(row: Mapping[str, Any]) -> str:
    """Say in a line what the typed columns of a row do not."""
    parts = (
        [] if row["transaction"] in (None, "committed") else [f"{row['transaction']} transaction"]
    )
    if row["value_json"] is not None:
        parts += _summary(orjson.loads(row["value_json"]))
    elif row["value_version"] is None:
        parts.append("tombstone")
    elif row["metadata"]:
        parts.append(f"metadata={row['metadata']}")
    if row["expire_timestamp_ms"] is not None:
        parts.append(f"expires {rfc3339(row['expire_timestamp_ms'])}")
    text = " ".join(parts)
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"


def _summary(value: Mapping[str, Any]) -> list[str]:
    data = value.get("data")
    if data is None:
        return [f"version {value.get('version')} not decoded: {value.get('error', 'unknown')}"]
    return [
        f"{name}[{len(field)}]" if isinstance(field, list | dict) else f"{name}={field}"
        for name, field in data.items()
        if field is not None
    ]
