"""Decoded records as JSON lines.

A line is the output of `orjson` for a `DecodedRecord`. If compiled code is loaded, because
there is much to decode, it writes the same text directly from the columns, with templates:
one for each kind of rows, that is for whole offset commits of one value version, for
tombstones, and for all other records. A template lists what the text of a row consists of:
texts, and columns. See `kernel.row`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from kgroup.columnar.schema import COMMIT_TYPES, records
from kgroup.kernel.compiled import is_loaded
from kgroup.kernel.memory import PADDING
from kgroup.kernel.row_state import RowState, TemplateColumn

_Array = np.ndarray[Any, Any]
Memory: TypeAlias = list[_Array]
"""Unused memory blocks: the system clears new memory, which takes as long as filling it."""

BLOCK_SIZE = 64 << 20

# Kinds of rows, in addition to the value versions of offset commits
_WITH_TOPIC_ID = 64  # added to the version
_TOMBSTONE = 128
_OTHER = 129

_PLAIN_BLOCK_SIZE = 1 << 20
_NULLS = {"committed_leader_epoch": "-1", "expire_timestamp_ms": "-1"}
"""Text for null in columns where it is not "null"."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A column in a template.

    Attributes:
        column: integers, a dictionary of strings, or strings with JSON.
        null: text for null; up to 8 bytes.
    """

    column: pa.Array
    null: str = "null"


Template: TypeAlias = Sequence[str | Cells]


def json_lines(batch: pa.RecordBatch, free: Memory | None = None) -> Iterator[bytes | memoryview]:
    """Yield the rows of a `DECODED` batch as UTF-8 text, one JSON object and newline per row.

    The text comes in blocks of whole lines; a block is valid until the next one is requested.

    Args:
        batch: rows.
        free: memory to write to; blocks are returned to it once they have been read.
    """
    if not is_loaded():
        return _plain_lines(batch)
    return _compiled_lines(batch, [] if free is None else free)


def _plain_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    block = bytearray()
    for record in records(batch):
        block += orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        if len(block) >= _PLAIN_BLOCK_SIZE:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _compiled_lines(batch: pa.RecordBatch, free: Memory) -> Iterator[memoryview]:
    kinds = _kinds(batch)
    columns = {name: Cells(batch[name], _NULLS.get(name, "null")) for name in batch.schema.names}
    present = np.flatnonzero(np.bincount(kinds)).tolist()
    return _row_blocks(kinds, {kind: _template(kind, columns) for kind in present}, free)


def _kinds(batch: pa.RecordBatch) -> _Array:
    """Return the kind of each row: value version of an offset commit, or one of the kinds above."""
    import pyarrow.compute as pc

    kinds: _Array = pc.fill_null(batch["value_version"], _TOMBSTONE).to_numpy().astype(np.uint8)
    kinds[_is_valid(batch["topic_id"])] += _WITH_TOPIC_ID
    is_commit = np.array(
        [name in COMMIT_TYPES for name in batch["type"].dictionary.to_pylist()], bool
    )
    has_json = _is_valid(batch["key_json"]) | _is_valid(batch["value_json"])
    kinds[has_json | ~is_commit[batch["type"].indices]] = _OTHER
    return kinds


def _is_valid(column: pa.Array) -> _Array:
    mask: _Array = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _template(kind: int, columns: Mapping[str, Cells]) -> Template:
    head: Template = [
        '{"partition":', columns["partition"],
        ',"offset":', columns["offset"],
        ',"timestamp_ms":', columns["timestamp_ms"],
        ',"timestamp_type":', columns["timestamp_type"],
        ',"leader_epoch":', columns["leader_epoch"],
        ',"producer_id":', columns["producer_id"],
        ',"producer_epoch":', columns["producer_epoch"],
        ',"transaction":', columns["transaction"],
        ',"type":', columns["type"],
    ]  # fmt: skip
    if kind == _OTHER:
        return [
            *head,
            ',"key":', columns["key_json"],
            ',"value":', columns["value_json"],
            "}\n",
        ]  # fmt: skip
    key: Template = [
        ',"key":{"type":', columns["key_type"],
        ',"data":{"group":', columns["group"],
        ',"topic":', columns["topic"],
        ',"partition":', columns["topic_partition"],
        '}},"value":',
    ]  # fmt: skip
    if kind == _TOMBSTONE:
        return [*head, *key, "null}\n"]
    version = kind % _WITH_TOPIC_ID
    value: list[str | Cells] = [
        f'{{"version":{version},"data":{{"offset":',
        columns["committed_offset"],
    ]
    if version >= 3:
        value += [',"leaderEpoch":', columns["committed_leader_epoch"]]
    value += [',"metadata":', columns["metadata"]]
    value += [',"commitTimestamp":', columns["commit_timestamp_ms"]]
    if version == 1:
        value += [',"expireTimestamp":', columns["expire_timestamp_ms"]]
    if kind >= _WITH_TOPIC_ID:
        value += [',"topicId":', columns["topic_id"]]
    return [*head, *key, *value, "}}}\n"]


def _row_blocks(
    kinds: _Array, templates: Mapping[int, Template], free: Memory
) -> Iterator[memoryview]:
    """Yield the text of rows, block by block; a block is valid until the next one is requested.

    Args:
        kinds: kind of each row (uint8).
        templates: templates by kind.
        free: memory to use; blocks are returned to it.
    """
    from kgroup.kernel.entry import write_rows

    columns: dict[Cells, str | TemplateColumn] = {}
    state = RowState(kinds, {kind: _merged(own, columns) for kind, own in templates.items()})
    needed = BLOCK_SIZE
    while not state.is_done:
        block = _block(free, needed)
        size, needed = write_rows(state, block)
        needed = max(needed, BLOCK_SIZE)
        if size:
            yield block.data[:size]
        if len(block) == BLOCK_SIZE + PADDING:
            free.append(block)


def _block(free: Memory, size: int) -> _Array:
    if size == BLOCK_SIZE and free:
        return free.pop()
    return np.empty(size + PADDING, np.uint8)


def _merged(
    template: Template, columns: dict[Cells, str | TemplateColumn]
) -> list[bytes | TemplateColumn]:
    """Join adjacent texts of a template; columns with only one value become texts, too."""
    pieces: list[bytes | TemplateColumn] = []
    for piece in template:
        if isinstance(piece, Cells) and piece not in columns:
            text = _constant(piece)
            columns[piece] = _column(piece) if text is None else text
        column = piece if isinstance(piece, str) else columns[piece]
        if isinstance(column, TemplateColumn):
            pieces.append(column)
        elif pieces and isinstance(pieces[-1], bytes):
            pieces[-1] += column.encode()
        else:
            pieces.append(column.encode())
    return pieces


def _column(cells: Cells) -> TemplateColumn:
    from kgroup.kernel.entry import quote

    numbers = column = cells.column
    ends = text = None
    if pa.types.is_dictionary(column.type):
        numbers = column.indices
        ends, text = quote(*_texts(column.dictionary, padding=PADDING))
    elif pa.types.is_string(column.type):
        ends, text = _texts(column)
    bitmap, data = numbers.buffers()[:2]
    has_numbers = pa.types.is_integer(numbers.type)
    return TemplateColumn(
        cells.null.encode(),
        _part(data, numbers.type.to_pandas_dtype(), numbers) if has_numbers else None,
        ends,
        text,
        np.frombuffer(bitmap, np.uint8) if numbers.null_count else None,
        numbers.offset,
    )


def _constant(cells: Cells) -> str | None:
    import pyarrow.compute as pc

    column = cells.column
    if column.null_count == len(column):
        return cells.null
    if column.null_count == 0 and not pa.types.is_string(column.type):
        numbers = column.indices if pa.types.is_dictionary(column.type) else column
        extremes = pc.min_max(numbers)
        if extremes["min"].equals(extremes["max"]):
            return orjson.dumps(column[0].as_py()).decode()
    return None


def _texts(strings: pa.StringArray, padding: int = 0) -> tuple[_Array, _Array]:
    """Return the start of the first string with the end of each, and all of them, padded."""
    _, offsets, text = strings.buffers()
    ends = _part(offsets, np.int32, strings, more=1)
    if not padding:
        return ends, np.frombuffer(text, np.uint8)
    padded = np.zeros(int(ends[-1]) + padding, np.uint8)
    padded[:-padding] = np.frombuffer(text or b"", np.uint8)[: int(ends[-1])]
    return ends, padded


def _part(buffer: pa.Buffer, kind: type[np.generic], column: pa.Array, more: int = 0) -> _Array:
    """Return the part of a buffer that a column uses, which may be a part of a longer column."""
    return np.frombuffer(buffer, kind)[column.offset : column.offset + len(column) + more]
