"""Decoded records as JSON lines.

A line is what `orjson` makes of a `DecodedRecord`. Where compiled code is loaded, because there is
much to decode, it writes the same straight from the columns, after templates: one for each kind of
rows, which are whole offset commits of one value version, tombstones, and all other records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from kgroup.columnar.schema import COMMIT_TYPES, records
from kgroup.kernel.compiled import is_loaded

if TYPE_CHECKING:
    from kgroup.render.row_text import Cells, Memory, Template


_Array = np.ndarray[Any, Any]

# Kinds of rows, beside the versions of an offset commit's value
_WITH_TOPIC_ID = 64  # added to the version
_TOMBSTONE = 128
_OTHER = 129

_BLOCK_SIZE = 1 << 20


def json_lines(batch: pa.RecordBatch, free: Memory | None = None) -> Iterator[bytes | memoryview]:
    """Yield the rows of a `DECODED` batch as UTF-8 text, one JSON object and newline a row.

    The text comes in blocks of whole lines; a block holds until the next one is asked for.

    Args:
        batch: rows.
        free: memory to write to, and to give back when it was read.
    """
    if not is_loaded():
        return _plain_lines(batch)
    return _compiled_lines(batch, [] if free is None else free)


def _plain_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    block = bytearray()
    for record in records(batch):
        block += orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        if len(block) >= _BLOCK_SIZE:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _compiled_lines(batch: pa.RecordBatch, free: Memory) -> Iterator[memoryview]:
    from kgroup.render.row_text import Cells, row_blocks

    kinds = _kinds(batch)
    columns = {name: Cells(batch[name], _NULLS.get(name, "null")) for name in batch.schema.names}
    found = np.flatnonzero(np.bincount(kinds)).tolist()
    return row_blocks(kinds, {kind: _template(kind, columns) for kind in found}, free)


def _kinds(batch: pa.RecordBatch) -> _Array:
    """Tell the kind of each row: the version of an offset commit's value, or one of the above."""
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


_NULLS = {"committed_leader_epoch": "-1", "expire_timestamp_ms": "-1"}
"""What stands for null, where it is not "null"."""
