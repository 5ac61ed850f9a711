"""A column of a Parquet row group, encoded so that little has to be done for each value.

Where compiled code is loaded, because there is much to write, it encodes (`kernel.page_kernel`):

    integers of a narrow range, and texts   a dictionary, and runs of indices
    other integers of 64 bits               DELTA_BINARY_PACKED
    JSON texts                              DELTA_LENGTH_BYTE_ARRAY, compressed

Else all is plain and compressed.

The page of a column, in Parquet's format: which rows are not null, as runs of bits; the values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kgroup.columnar.recycled import recycled
from kgroup.kernel.compiled import kernels, loaded
from kgroup.kernel.memory import PADDING
from kgroup.render.record.thrift import Value, binary, i32, i64, sequence, struct, varint, zigzag

__all__ = ["ColumnChunk", "encode", "schema_element"]

_Array = np.ndarray[Any, Any]

# of Parquet's format
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
_OPTIONAL = 1
_UTF8, _INT_16 = 0, 16
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _RLE, _DELTA, _DELTA_LENGTH, _RLE_DICTIONARY = 0, 3, 5, 6, 8
_UNCOMPRESSED, _SNAPPY = 0, 1

_BLOCK = 128
_MINIBLOCKS = 4
_NARROW = 256
"""Integers between the smallest and the largest that make a dictionary."""


@dataclass(slots=True)
class ColumnChunk:
    """A column as it is written.

    Attributes:
        name: of the column.
        type: of Parquet's.
        rows: how many there are.
        nulls: how many of them are null.
        limits: smallest and largest integer; None for texts, and where all is null.
        encodings: that occur.
        codec: of the data page.
        parts: bytes, one after another.
        dictionary_size: bytes of the dictionary's page, which comes first; 0: there is none.
        unpacked_size: bytes that it would take without compression.
    """

    name: str
    type: int
    rows: int
    nulls: int
    limits: tuple[int, int] | None = None
    encodings: tuple[int, ...] = (_PLAIN, _RLE)
    codec: int = _UNCOMPRESSED
    parts: list[bytes | memoryview] = field(default_factory=list)
    dictionary_size: int = 0
    unpacked_size: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes in the file."""
        return sum(map(len, self.parts))

    def metadata(self, position: int) -> Value:
        """Give what the file's footer says about it, if it is written at this position."""
        statistics = {3: i64(self.nulls)}
        if self.limits is not None:
            width = 4 if self.type == _INT32 else 8
            low, high = (limit.to_bytes(width, "little", signed=True) for limit in self.limits)
            statistics |= {5: binary(high), 6: binary(low)}
        fields = {
            1: i32(self.type),
            2: sequence([i32(encoding) for encoding in self.encodings]),
            3: sequence([binary(self.name)]),
            4: i32(self.codec),
            5: i64(self.rows),
            6: i64(self.unpacked_size),
            7: i64(self.size),
            9: i64(position + self.dictionary_size),
        }
        if self.dictionary_size:
            fields[11] = i64(position)
        fields[12] = struct(statistics)
        return struct({2: i64(position), 3: struct(fields)})


def schema_element(column: pa.Field) -> Value:
    """Give what the file's footer says about the type of a column."""
    kind = _physical_type(column.type)
    fields = {1: i32(kind), 3: i32(_OPTIONAL), 4: binary(column.name)}
    if kind == _BYTE_ARRAY:
        fields[6] = i32(_UTF8)
    elif pa.types.is_int16(column.type):
        fields[6] = i32(_INT_16)
    return struct(fields)


def encode(name: str, column: pa.Array) -> ColumnChunk:
    """Encode a column of integers, texts, or a dictionary of texts."""
    chunk = ColumnChunk(name, _physical_type(column.type), len(column), column.null_count)
    if chunk.nulls == chunk.rows:
        _add_page(chunk, column, _PLAIN, [])
    elif loaded() is None:
        _add_plain(chunk, column)
    elif pa.types.is_dictionary(column.type):
        _add_dictionary(chunk, _plain_texts(column.dictionary), len(column.dictionary))
        indices = _runs(_present(column.indices), 0, len(column.dictionary))
        _add_page(chunk, column, _RLE_DICTIONARY, indices)
    elif pa.types.is_integer(column.type):
        _add_integers(chunk, _present(column), column)
    else:
        chunk.codec = _SNAPPY
        _add_page(chunk, column, _DELTA_LENGTH, _texts(column))
    return chunk


def _physical_type(kind: pa.DataType) -> int:
    if not pa.types.is_integer(kind):
        return _BYTE_ARRAY
    return _INT64 if kind.bit_width == 64 else _INT32


def _add_plain(chunk: ColumnChunk, column: pa.Array) -> None:
    chunk.codec = _SNAPPY
    present = column.drop_null()
    if chunk.type == _BYTE_ARRAY:
        texts = present.cast(pa.string()).cast(pa.binary()).to_pylist()
        values = memoryview(b"".join(len(text).to_bytes(4, "little") + text for text in texts))
    else:
        numbers = present.to_numpy()
        chunk.limits = int(numbers.min()), int(numbers.max())
        values = _plain_numbers(chunk, numbers)
    _add_page(chunk, column, _PLAIN, [values])


def _add_integers(chunk: ColumnChunk, numbers: _Array, column: pa.Array) -> None:
    low, high = chunk.limits = int(numbers.min()), int(numbers.max())
    if high - low < _NARROW:
        values = low + np.arange(high - low + 1)
        _add_dictionary(chunk, _plain_numbers(chunk, values), len(values))
        _add_page(chunk, column, _RLE_DICTIONARY, _runs(numbers, low, len(values)))
    elif chunk.type == _INT32:
        _add_page(chunk, column, _PLAIN, [_plain_numbers(chunk, numbers)])
    else:
        _add_page(chunk, column, _DELTA, _differences(numbers))


def _plain_numbers(chunk: ColumnChunk, numbers: _Array) -> memoryview:
    return numbers.astype(np.int32 if chunk.type == _INT32 else np.int64).view(np.uint8).data


def _add_dictionary(chunk: ColumnChunk, values: memoryview, count: int) -> None:
    details = struct({1: i32(count), 2: i32(_PLAIN)})
    size = i32(len(values))
    head = struct({1: i32(_DICTIONARY_PAGE), 2: size, 3: size, 7: details}).data
    chunk.parts += [head, values]
    chunk.dictionary_size = chunk.unpacked_size = len(head) + len(values)


def _add_page(
    chunk: ColumnChunk, column: pa.Array, encoding: int, values: list[bytes | memoryview]
) -> None:
    parts = [*_levels(column), *values]
    size = sum(map(len, parts))
    if chunk.codec == _SNAPPY:
        parts = [varint(size), *map(_snappy_body, [b"".join(parts[:-1]), parts[-1]])]
    details = {1: i32(chunk.rows), 2: i32(encoding), 3: i32(_RLE), 4: i32(_RLE)}
    packed = sum(map(len, parts))
    fields = {1: i32(_DATA_PAGE), 2: i32(size), 3: i32(packed), 5: struct(details)}
    head = struct(fields).data
    chunk.parts += [head, *parts]
    chunk.unpacked_size += len(head) + size
    if encoding not in chunk.encodings:
        chunk.encodings += (encoding,)


def _snappy_body(part: bytes | memoryview) -> memoryview:
    """Compress; leave out the size (varint) at the front: bodies make one stream together."""
    compressed = pa.compress(part, "snappy")
    packed = memoryview(compressed)[: compressed.size]  # it tells the size before it shrank
    return packed[len(varint(len(part))) :]


def _levels(column: pa.Array) -> list[bytes | memoryview]:
    """Say which rows are not null."""
    if column.null_count in (0, len(column)):
        run = _run(0 if column.null_count else 1, len(column))
    else:
        bits = column.buffers()[0]
        bitmap = np.frombuffer(bits, np.uint8)
        if column.offset:
            known = np.unpackbits(bitmap, bitorder="little")[column.offset :]
            bitmap = np.packbits(known[: len(column)], bitorder="little")
        groups = (len(column) + 7) // 8
        run = [varint(groups << 1 | 1), bitmap[:groups].data]
    return [sum(map(len, run)).to_bytes(4, "little"), *run]


def _run(value: int, count: int) -> list[bytes | memoryview]:
    """Write one value of up to 8 bits many times."""
    return [varint(count << 1), bytes([value])]


def _present(column: pa.Array) -> _Array:
    """Give the numbers of the rows that are not null."""
    numbers = np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype())
    numbers = numbers[column.offset : column.offset + len(column)]
    return _pick(numbers, column) if column.null_count else numbers


def _pick(numbers: _Array, column: pa.Array) -> _Array:
    """Give the numbers that belong to the rows of a column that are not null."""
    width = numbers.itemsize
    picked = recycled(numbers.nbytes + PADDING)
    count = kernels().pick(
        numbers.ctypes.data,
        width,
        column.buffers()[0].address,
        column.offset,
        len(numbers),
        picked.ctypes.data,
    )
    return picked[: count * width].view(numbers.dtype)


def _runs(numbers: _Array, low: int, values: int) -> list[bytes | memoryview]:
    """Write what numbers are more than `low`: a byte, how many bits one takes, and `pack_runs`.

    `values` is how many different numbers there may be.
    """
    count = len(numbers)
    if values == 1:
        return [bytes([8]), *_run(0, count)]
    width = 1 if values <= 1 << 8 else 2 if values <= 1 << 16 else 4
    out = recycled(width * (count + 8) + count // 8 + 2 * PADDING)
    start = out.ctypes.data
    end = kernels().pack_runs(numbers.ctypes.data, numbers.itemsize, low, count, start, width)
    return [bytes([8 * width]), out[: end - start].data]


def _differences(numbers: _Array) -> list[bytes | memoryview]:
    """Write words as what each is more than the one before.

    head     numbers in a block (128), miniblocks in a block (4), how many numbers there are, the
             first one
    blocks   see `pack_differences`
    """
    count = len(numbers)
    head = varint(_BLOCK) + varint(_MINIBLOCKS) + varint(count) + zigzag(int(numbers[0]))
    out = recycled(9 * (count + _BLOCK) + PADDING)
    start = out.ctypes.data
    end = kernels().pack_differences(numbers.ctypes.data, count, start)
    return [head, out[: end - start].data]


def _texts(column: pa.Array) -> list[bytes | memoryview]:
    """Write the lengths of texts as their differences, then all texts."""
    ends = _ends(column)
    starts, ends = ends[:-1], ends[1:]
    if column.null_count:
        starts, ends = _pick(starts, column), _pick(ends, column)
        if (starts[1:] != ends[:-1]).any():
            return _texts(column.drop_null())  # there is something behind null
    text = np.frombuffer(column.buffers()[2] or b"", np.uint8)[starts[0] : ends[-1]]
    return [*_differences((ends - starts).astype(np.int64)), text.data]


def _plain_texts(texts: pa.Array) -> memoryview:
    """Write texts, none of them null, each behind its size (int32)."""
    ends = _ends(texts)
    text = texts.buffers()[2]
    out = recycled(4 * len(texts) + int(ends[-1] - ends[0]))
    address = 0 if text is None else text.address
    kernels().join_texts(ends.ctypes.data, address, len(texts), out.ctypes.data)
    return out.data


def _ends(texts: pa.Array) -> _Array:
    ends = np.frombuffer(texts.buffers()[1], np.int32)
    return ends[texts.offset : texts.offset + len(texts) + 1]
