"""Decoded records as JSON lines, written by Arrow's kernels: no Python object per record.

The rows of a batch that are of one kind (whole offset commits of one value version, tombstones,
and everything else) share a template; the lines of each kind are joined from its columns, and then
put back into the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.protocol.column_schema import COMMIT_TYPES

__all__ = ["json_lines"]

_ROWS = 1 << 16
"""Rows joined at once: their text, a few hundred bytes a row, stays small beside the batch."""

_TOMBSTONE = -1
_OTHER = -2

_HEAD = (
    "partition",
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "transaction",
    "type",
)


def json_lines(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Yield the rows of a `DECODED` batch as UTF-8 text, one JSON object and newline a row.

    A line is what `orjson.dumps` makes of the row's `DecodedRecord`.
    """
    escaped = pa.RecordBatch.from_arrays(
        [_escaped(column) for column in batch.columns], names=batch.schema.names
    )
    for start in range(0, len(escaped), _ROWS):
        lines = _lines(escaped.slice(start, _ROWS))
        _, offsets, text = lines.buffers()
        first, last = (
            int.from_bytes(offsets[4 * at : 4 * at + 4].to_pybytes(), "little")
            for at in (lines.offset, lines.offset + len(lines))
        )
        yield text.slice(first, last - first)


def _lines(batch: pa.RecordBatch) -> pa.Array:
    version = pc.coalesce(batch["value_version"], pa.scalar(_TOMBSTONE, pa.int16()))
    is_commit = pc.is_in(batch["type"].cast(pa.string()), _COMMIT_NAMES)
    is_whole = pc.and_(
        is_commit, pc.and_(batch["key_json"].is_null(), batch["value_json"].is_null())
    )
    kind = pc.if_else(is_whole, version, pa.scalar(_OTHER, pa.int16()))
    kinds = kind.unique().to_pylist()
    if len(kinds) == 1:
        return _lines_of_kind(batch, kinds[0])
    masks = [pc.equal(kind, one) for one in kinds]
    lines = [
        _lines_of_kind(batch.filter(mask), one) for mask, one in zip(masks, kinds, strict=True)
    ]
    rows = pa.concat_arrays([pc.indices_nonzero(mask) for mask in masks])
    return pa.concat_arrays(lines).take(pc.sort_indices(rows))


def _lines_of_kind(batch: pa.RecordBatch, kind: int) -> pa.Array:
    pieces: list[Any] = []
    for name in _HEAD:
        pieces += [f',"{name}":' if pieces else f'{{"{name}":', _text(batch[name])]
    if kind == _OTHER:
        pieces += [',"key":', _text(batch["key_json"]), ',"value":', _text(batch["value_json"])]
    else:
        pieces += [',"key":{"type":', _text(batch["key_type"])]
        pieces += [',"data":{"group":', _text(batch["group"]), ',"topic":', _text(batch["topic"])]
        pieces += [',"partition":', _text(batch["topic_partition"]), '}},"value":']
        pieces += ["null"] if kind == _TOMBSTONE else _commit_value(batch, kind)
    return _joined([*pieces, "}\n"], len(batch))


def _commit_value(batch: pa.RecordBatch, version: int) -> list[Any]:
    pieces = [f'{{"version":{version},"data":{{"offset":', _text(batch["committed_offset"])]
    if version >= 3:
        pieces += [',"leaderEpoch":', _text(batch["committed_leader_epoch"], "-1")]
    pieces += [',"metadata":', _text(batch["metadata"])]
    pieces += [',"commitTimestamp":', _text(batch["commit_timestamp_ms"])]
    if version == 1:
        pieces += [',"expireTimestamp":', _text(batch["expire_timestamp_ms"], "-1")]
    if batch["topic_id"].null_count < len(batch):
        topic_id = pc.binary_join_element_wise(
            ',"topicId":', batch["topic_id"].cast(pa.string()), ""
        )
        pieces.append(_text(topic_id, ""))
    return [*pieces, "}}"]


def _text(column: pa.Array, null: str = "null") -> Any:
    """Give the column as strings, or one string where all its rows are equal."""
    if column.null_count == len(column):
        return null
    if column.null_count == 0:
        if pa.types.is_dictionary(column.type) or pa.types.is_integer(column.type):
            values = column.indices if pa.types.is_dictionary(column.type) else column
            extremes = pc.min_max(values)
            if extremes["min"].as_py() == extremes["max"].as_py():
                return str(column[0].as_py())
        return column.cast(pa.string())
    return pc.coalesce(column.cast(pa.string()), null)


def _joined(pieces: Sequence[Any], rows: int) -> pa.Array:
    merged: list[Any] = []
    for piece in pieces:
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1:
        return pa.repeat(merged[0], rows)
    return pc.binary_join_element_wise(*merged, "")


def _escaped(column: pa.Array) -> pa.Array:
    """Give a dictionary column with its values as JSON texts, any other as it is."""
    if not pa.types.is_dictionary(column.type):
        return column
    values = [orjson.dumps(value).decode() for value in column.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(column.indices, pa.array(values, pa.string()))


_COMMIT_NAMES = pa.array([orjson.dumps(name).decode() for name in COMMIT_TYPES])
