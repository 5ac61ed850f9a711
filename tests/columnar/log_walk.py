"""Small logs, and reading them while checking that every byte is there once."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_file_batches, read_records
from tests.columnar import log_writer as log
from tests.columnar.log_writer import Plain

Item = RecordBatch | Damage


def walk(data: bytes, **options: Any) -> list[Item]:
    """What is read of `data`, after checking that every byte is there once, by either way."""
    items = list(read_batches(data, **options))
    position = 0
    for item in items:
        assert item.position == position
        assert item.size > 0
        position += item.size
    assert position == len(data)
    for before, after in pairwise(items):
        assert not (isinstance(before, Damage) and isinstance(after, Damage))
    for chunk_size in (1, 1000):
        assert list(read_file_batches(io.BytesIO(data), chunk_size=chunk_size, **options)) == items
    return items


def damages(items: Sequence[Item]) -> list[tuple[int, int, str]]:
    return [(item.position, item.size, item.kind) for item in items if isinstance(item, Damage)]


def records(data: bytes) -> list[Record | Damage]:
    """Everything in a log that has no damage between its batches."""
    found: list[Record | Damage] = []
    for item in walk(data):
        assert isinstance(item, RecordBatch), item
        found += read_records(item)
    return found


def only(data: bytes) -> RecordBatch:
    (item,) = walk(data)
    assert isinstance(item, RecordBatch)
    return item


def as_record(plain: Plain, *, magic: int = 2) -> Record:
    return Record(
        plain.offset,
        None if magic == 0 or plain.timestamp == -1 else plain.timestamp,
        plain.key,
        plain.value,
        tuple(plain.headers) if magic == 2 else (),
    )


FIRST = log.batch([Plain(0, 1000, b"first", b"1" * 50), Plain(1, 1000, b"x", None)])
SECOND = log.batch([Plain(2, 1001, b"second", b"2" * 50)])
THIRD = log.batch([Plain(3, 1002, b"third", b"3" * 50)])
FOURTH = log.message(4, b"fourth", b"4" * 50, timestamp=1003)


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + struct.pack(">i", length) + batch[12:]


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
