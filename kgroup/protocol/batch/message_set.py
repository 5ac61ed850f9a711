"""Message sets: message formats v0 (until 0.9) and v1 (0.10).

    offset          int64
    size            int32     number of bytes that follow
    crc             uint32    CRC-32 (zlib's polynomial) of everything from magic to the end
    magic           int8      0 or 1
    attributes      int8      bits 0-2 codec, bit 3 log-append time (v1)
    timestamp       int64     v1 only
    key             int32 size (-1: null) and bytes
    value           same as key

A compressed message (the wrapper) has a message set as its value. Its own offset is the offset of
the last inner message. Inner offsets are absolute in v0; in v1 they are relative to the first
message that the producer wrote (KIP-31), also where compaction left gaps. A wrapper with log-append
time overrides the inner timestamps (KIP-32). See `AbstractLegacyRecordBatch` and `LegacyRecord`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import partial

from kgroup.errors import ProblemKind
from kgroup.protocol.batch.batch import (
    CODECS,
    LOG_OVERHEAD,
    MOST_RECORDS,
    Damage,
    Effort,
    Record,
    RecordBatch,
)
from kgroup.protocol.batch.compression import CompressionError, decompress_in
from kgroup.protocol.message.primitives import java_long

MIN_LENGTHS = (14, 22)
"""Smallest value of the size field of a message v0 and v1: no key, no value."""

HEADER_SIZES = (22, 30)
"""Bytes of a message v0 and v1 up to and including the key's size."""

_PREFIX = struct.Struct(">qiIBB")
_HEADER = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")
_INT32 = struct.Struct(">i")


def value_position(header: memoryview) -> int | None:
    """Return the position of the value's size in a message; None if the fields are not a message's.

    `header` has the length in `HEADER_SIZES`; its length field must be in range.
    """
    offset, length, _crc, magic, attributes = _PREFIX.unpack_from(header)
    key_size: int = _INT32.unpack_from(header, len(header) - 4)[0]
    if (
        offset < 0
        or attributes > (0x0F if magic else 0x07)
        or attributes & 0x07 > 3
        or not -1 <= key_size <= length - MIN_LENGTHS[magic]
    ):
        return None
    return len(header) + max(key_size, 0)


def has_right_crc(data: memoryview) -> bool:
    """Return whether the checksum of a complete message is correct."""
    return zlib.crc32(data[16:]) == int.from_bytes(data[12:16], "big")


def decode_message(data: memoryview, position: int, effort: Effort) -> RecordBatch:
    """Decode the outer message in `data`, which is complete and has a correct checksum."""
    offset, _size, _crc, magic, attributes = _PREFIX.unpack_from(data)
    codec = attributes & 0x07
    (timestamp,) = _TIMESTAMP.unpack_from(data, 18) if magic == 1 else (-1,)
    timestamp_type = "log_append" if attributes & 0x08 else "create"
    return RecordBatch(
        position=position,
        size=len(data),
        magic=magic,
        base_offset=None if codec else offset,
        last_offset=offset,
        compression=CODECS[codec] if codec < len(CODECS) else "unknown",
        timestamp_type=timestamp_type if magic == 1 else None,
        max_timestamp_ms=None if timestamp == -1 else timestamp,
        record_count=None if codec else 1,
        data=data,
        effort=effort,
    )


class _BadMessageError(ValueError):
    """The fields of a message contradict its size; the message of the error says how."""

    kind = ProblemKind.BAD_RECORD


def _decode_record(data: bytes, offset: int) -> Record:
    """Decode the uncompressed message in `data`, which starts at the offset field."""
    magic = data[16]
    key_at = HEADER_SIZES[magic] - 4
    if len(data) < key_at + 8:
        raise _BadMessageError(
            f"Expected a message v{magic} of at least {key_at + 8 - LOG_OVERHEAD} bytes,"
            f" found {len(data) - LOG_OVERHEAD}."
        )
    (timestamp,) = _TIMESTAMP.unpack_from(data, 18) if magic == 1 else (-1,)
    (key_size,) = _INT32.unpack_from(data, key_at)
    key_end = key_at + 4 + max(key_size, 0)
    if key_end + 4 > len(data):
        raise _BadMessageError(
            f"Expected a key of {key_size} bytes and a value, found {len(data) - key_at - 4} bytes."
        )
    (value_size,) = _INT32.unpack_from(data, key_end)
    value_at = key_end + 4
    if value_size > len(data) - value_at:
        raise _BadMessageError(
            f"Expected a value of {value_size} bytes, found {len(data) - value_at}."
        )
    return Record(
        offset,
        None if timestamp == -1 else timestamp,
        None if key_size < 0 else data[key_at + 4 : key_end],
        None if value_size < 0 else data[value_at : value_at + value_size],
        (),
    )


def read_messages(batch: RecordBatch, max_uncompressed: int) -> Iterator[Record | Damage]:
    """Yield the record of a message, or the records inside a compressed message."""
    damage = partial(Damage, batch.position, batch.size)
    try:
        record = _decode_record(bytes(batch.data), batch.last_offset)
        if batch.compression == "none":
            yield record
            return
        inside = _decompress(batch, record.value, max_uncompressed)
        shift = _offset_shift(batch, inside)
    except (_BadMessageError, CompressionError) as error:
        yield damage(error.kind, str(error))
        return
    try:
        for stored, start, end in _messages(inside):
            message = inside[start:end]
            offset = java_long(stored + shift)
            try:
                record = _decode_inner(message, offset)
            except _BadMessageError as error:
                yield damage(error.kind, f"In the message at offset {offset}: {error}")
                continue
            if batch.timestamp_type == "log_append" and message[16] == 1:
                record = Record(offset, batch.max_timestamp_ms, record.key, record.value, ())
            yield record
    except _BadMessageError as error:
        yield damage(error.kind, str(error))


def _decompress(batch: RecordBatch, data: bytes | None, max_uncompressed: int) -> bytes:
    """Return the message set that is the value of a compressed message."""
    if batch.compression not in ("gzip", "snappy", "lz4"):
        codec = batch.data[17] & 0x07
        raise CompressionError(
            ProblemKind.BAD_COMPRESSION,
            f"Expected gzip, snappy or lz4 in a message v{batch.magic}, found codec {codec}.",
        )
    if data is None:
        raise _BadMessageError("Expected messages in a compressed message, found null.")
    return decompress_in(batch, data, max_uncompressed)


def _offset_shift(batch: RecordBatch, inside: bytes) -> int:
    """Return the number to add to the offsets inside a compressed message."""
    last: int | None = None
    try:
        for stored, _, _ in _messages(inside):
            last = stored
    except _BadMessageError:
        if last is None:
            raise
    if last is None:
        raise _BadMessageError("Expected messages in a compressed one, found none.")
    # old versions of librdkafka wrote 0 as every wrapper's offset; inner offsets are then absolute
    if batch.magic == 0 or batch.last_offset == 0:
        return 0
    if batch.last_offset < last:
        raise _BadMessageError(
            f"Expected the offset {batch.last_offset} of a compressed message to be at least"
            f" that of the last message inside, found {last} there."
        )
    return batch.last_offset - last


def _decode_inner(message: bytes, offset: int) -> Record:
    magic, attributes = message[16], message[17]
    if magic > 1:
        raise _BadMessageError(f"Expected message format 0 or 1, found {magic}.")
    if attributes & 0x07:
        raise _BadMessageError("Expected a message that is not compressed once more, found one.")
    if not has_right_crc(memoryview(message)):
        raise _BadMessageError("Expected the checksum of its bytes, found another.")
    return _decode_record(message, offset)


def _messages(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield stored offset, start and end of each complete message in a message set.

    Raises `_BadMessageError` if the rest is not a message, CompressionError if there are too many.
    """
    start = 0
    for _ in range(MOST_RECORDS):
        left = len(data) - start - LOG_OVERHEAD
        if left < 0:
            if start == len(data):
                return
            raise _BadMessageError(
                f"Expected a message header of 12 bytes, found {left + LOG_OVERHEAD}."
            )
        offset, size = _HEADER.unpack_from(data, start)
        if size < MIN_LENGTHS[0]:
            raise _BadMessageError(
                f"Expected a message of at least 14 bytes, found a size of {size}."
            )
        if size > left:
            raise _BadMessageError(f"Expected a message of {size} bytes, found {left} left.")
        end = start + LOG_OVERHEAD + size
        yield offset, start, end
        start = end
    if start < len(data):
        reason = f"Expected at most {MOST_RECORDS} messages in a compressed one, found more."
        raise CompressionError(ProblemKind.BAD_RECORD, reason)
