"""Decoded records and their counts in every format except JSON lines (`jsonl`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kgroup.operation.decode import Count
from kgroup.render.cell import Column, Kind, columns_of
from kgroup.render.delimited import Delimited, delimited, delimited_table
from kgroup.render.form import OBJECTS, SEPARATED, Block
from kgroup.render.sheet import Part, Sheet, Title, apart, choose

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")


RECORD_COLUMNS = (
    Column("partition", Kind.NUMBER, "partition of __consumer_offsets"),
    Column("offset", Kind.NUMBER, "offset of the record in that partition"),
    Column("timestamp_ms", Kind.TIME, "timestamp of the record"),
    Column("timestamp_type", Kind.TEXT, "create or log_append"),
    Column("leader_epoch", Kind.NUMBER, "epoch of the leader that appended the batch"),
    Column("producer_id", Kind.NUMBER, "id of the idempotent or transactional producer"),
    Column("producer_epoch", Kind.NUMBER, "epoch of that producer"),
    Column("transaction", Kind.TEXT, "committed, aborted or open; unknown outside transactions"),
    Column("type", Kind.TEXT, "record type: the schema's name without Key and Value"),
    Column("key_type", Kind.NUMBER, "number of the record type, with which the key begins"),
    Column("group", Kind.NAME, "id of the group that the record is about"),
    Column("topic", Kind.TEXT, "offset commits: name of the topic"),
    Column("topic_partition", Kind.NUMBER, "offset commits: partition of the topic"),
    Column("value_version", Kind.NUMBER, "version of the value; unknown for a tombstone"),
    Column("committed_offset", Kind.NUMBER, "offset commits: committed offset"),
    Column("committed_leader_epoch", Kind.NUMBER, "offset commits: leader epoch, if stored"),
    Column("metadata", Kind.TEXT, "offset commits: text that the client stored with the offset"),
    Column("commit_timestamp_ms", Kind.TIME, "offset commits: time of the commit"),
    Column("expire_timestamp_ms", Kind.TIME, "offset commits: time of expiration, if stored"),
    Column("topic_id", Kind.TEXT, "offset commits: id of the topic, if stored"),
    Column("key_json", Kind.TEXT, "key as in json, if the other columns do not have all of it"),
    Column("value_json", Kind.TEXT, "value as in json, if the other columns do not have all of it"),
)
"""Columns of csv, tsv and Parquet."""

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
"""Columns that tables show by default, except the last one, `DETAIL`."""


class RecordBatches(Protocol):
    """Batches of `DECODED`, returned as the results of a function, possibly from threads."""

    def __call__(self, function: Callable[[pa.RecordBatch], T], /) -> Iterator[T]:
        """Yield the function's results in order."""
        ...


def record_text(
    rows: RecordBatches,
    form: str,
    names: Sequence[str],
    *,
    headers: bool,
    terminal: bool,
    at_once: bool = False,
    errors: Callable[[], Iterable[object]],
) -> Iterator[str | bytes | memoryview]:
    """Yield records in any format.

    Args:
        rows: records to write.
        form: one of `FORMS`.
        names: names of columns, in order; empty for the default columns of the format.
        headers: whether to write a line with the names of the columns.
        terminal: whether the output is a terminal.
        at_once: whether each row of a table is written at once, not aligned with later rows.
        errors: returns the errors, for json; called after the last row.

    Raises:
        UsageError: no column has this name.
    """
    if form in OBJECTS:
        return iter(OBJECTS[form]("decode-offsets", _json_blocks(rows), _late(errors)))
    if form in SEPARATED:
        return _delimited(rows, delimited(form, terminal=terminal), names, headers)
    return _page(rows, form, names, headers, terminal, at_once)


def _json_blocks(rows: RecordBatches) -> Iterator[Block]:
    from kgroup.render.jsonl import json_lines

    free: list[Any] = []

    def begin(batch: pa.RecordBatch) -> Iterator[Block]:
        """Write the first block when the batch has been decoded, others when they are requested."""
        blocks = json_lines(batch, free)
        return chain([*islice(blocks, 1)], blocks)

    for blocks in rows(begin):
        yield from blocks


def _late(errors: Callable[[], Iterable[object]]) -> Iterator[object]:
    yield from errors()


def _delimited(
    rows: RecordBatches, style: Delimited, names: Sequence[str], headers: bool
) -> Iterator[str | memoryview]:
    from kgroup.render.record_table import delimited_batch

    indices = choose(RECORD_COLUMNS, names) if names else range(len(RECORD_COLUMNS))
    columns = [RECORD_COLUMNS[index] for index in indices]
    chosen = [column.name for column in columns]
    yield from delimited_table(style, columns, [], headers=headers)
    yield from rows(lambda batch: delimited_batch(style, batch.select(chosen)))


def _page(
    rows: RecordBatches,
    form: str,
    names: Sequence[str],
    headers: bool,
    terminal: bool,
    at_once: bool,
) -> Iterator[str | memoryview]:
    from kgroup.render import record_table

    known = (*RECORD_COLUMNS, record_table.DETAIL)
    indices = choose(known, names or [*_PAGE_NAMES, record_table.DETAIL.name])
    columns = [known[index] for index in indices]
    pages = rows(lambda batch: record_table.page_fields(batch, columns))
    if form != "table":
        return record_table.markup_page(form, pages, columns, headers=headers, at_once=at_once)
    if (
        terminal and not at_once
    ):  # fitted to many rows at a time, so that none would appear for a long time
        return record_table.terminal_page(pages, columns, headers=headers)
    return record_table.plain_page(pages, columns, headers=headers, at_once=at_once)


MAX_ROWS = 100
"""Maximum number of groups, or other counted things, in a table; csv, tsv and json have all."""

STATS_COLUMNS = columns_of(
    "kgroup.operation.decode.Count",
    Column("by", Kind.TEXT),
    Column("name", Kind.NAME),
    Column("version", Kind.NUMBER),
    Column("count", Kind.NUMBER),
    Column("bytes", Kind.NUMBER),
)
_TITLES = {
    "type": "Records by type and version of the value",
    "transaction": "Records in transactions",
    "group": "Records by group",
    "batch": "Batches by compression and message format",
    "damage": "Damage",
}


def stats_page(counts: Sequence[Count]) -> Iterator[Part]:
    """Yield a table for each counted thing."""
    return apart(_counted(by, list(own)) for by, own in groupby(counts, lambda count: count.by))


def _counted(by: str, counts: Sequence[Count]) -> Iterator[Part]:
    most = f" (the first {MAX_ROWS} of {len(counts)})" if len(counts) > MAX_ROWS else ""
    yield Title(f"{_TITLES[by]}{most}")
    sheet = Sheet.of(STATS_COLUMNS, counts[:MAX_ROWS]).without_blank()
    yield sheet.select([column.name for column in sheet.columns if column.name != "by"])
