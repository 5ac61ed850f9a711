"""Record batches: message format v2 (0.11 and later, KIP-98).

    base offset         int64
    length              int32     number of bytes that follow
    leader epoch        int32     written by the leader, not covered by the checksum
    magic               int8      2
    crc                 uint32    CRC-32C of everything from attributes to the end
    attributes          int16     bits 0-2 codec, 3 log-append time, 4 transactional, 5 control,
                                  6 the base timestamp is the delete horizon
    last offset delta   int32     kept by compaction
    base timestamp      int64
    max timestamp       int64     the append time if bit 3 is set
    producer id         int64
    producer epoch      int16
    base sequence       int32
    record count        int32     0 if compaction removed all records
    records             compressed as a whole, without the fields above

    record: length varint | attributes int8 | timestamp delta varlong | offset delta varint |
            key varint size (-1: null) and bytes | value (same as key) | header count varint |
            (key varint size and UTF-8 | value varint size (-1: null) and bytes)*

Varints are zig-zag encoded. See `DefaultRecordBatch` and `DefaultRecord`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial

import google_crc32c

from kgroup.errors import ProblemKind
from kgroup.protocol.batch.batch import CODECS, MOST_RECORDS, Damage, Effort, Record, RecordBatch
from kgroup.protocol.batch.compression import CompressionError, decompress_in
from kgroup.protocol.message.primitives import java_long

HEADER_SIZE = 61
MIN_LENGTH = 49
"""Smallest value of the length field: a batch without records."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_MIN_RECORD_SIZE = 7
_MOST_HEADERS = 1 << 16
"""Maximum headers per record; coordinators write none. As objects, empty ones take 100 times the
bytes.
"""
_INT64_MAX = (1 << 63) - 1


def batch_size(key_size: int, value_size: int) -> int:
    """Return the size of a batch with one record, without headers and compression."""
    # Attributes, both deltas (0) and the number of headers (0) have one byte each.
    size = 4 + sum(_varint_size(length) + length for length in (key_size, value_size))
    return HEADER_SIZE + _varint_size(size) + size


def _varint_size(value: int) -> int:
    """Return the size of a varint that is not negative; 7 bits per byte, after zig-zag."""
    return max((2 * value).bit_length() + 6, 7) // 7


def is_plausible_header(header: memoryview) -> bool:
    """Return whether the fields of a header are consistent; the checksum is not verified."""
    base_offset, length, epoch, _magic, _crc, attributes, last_delta, *others, count = (
        _HEADER.unpack_from(header)
    )
    codec = attributes & 0x07
    return bool(
        base_offset >= 0
        and 0 <= attributes < 0x80
        and codec < len(CODECS)
        and last_delta >= 0
        and 0 <= count <= last_delta + 1
        and (length >= MIN_LENGTH + count * _MIN_RECORD_SIZE or codec)
        and min(epoch, *others) >= -1
    )


def has_right_crc(data: memoryview) -> bool:
    """Return whether the checksum of a complete batch is correct."""
    right: int = google_crc32c.value(bytes(data[21:]))
    return right == int.from_bytes(data[17:21], "big")


def decode_batch(data: memoryview, position: int, effort: Effort) -> RecordBatch:
    """Decode the batch in `data`, which is complete and has a correct checksum."""
    base_offset, _, leader_epoch, magic, _, attributes, last_delta, *others = _HEADER.unpack_from(
        data
    )
    base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count = others
    codec = attributes & 0x07
    return RecordBatch(
        position=position,
        size=len(data),
        magic=magic,
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        compression=CODECS[codec] if codec < len(CODECS) else "unknown",
        timestamp_type="log_append" if attributes & 0x08 else "create",
        base_timestamp_ms=None if base_timestamp == -1 else base_timestamp,
        max_timestamp_ms=None if max_timestamp == -1 else max_timestamp,
        delete_horizon_ms=base_timestamp if attributes & 0x40 else None,
        leader_epoch=None if leader_epoch == -1 else leader_epoch,
        producer_id=None if producer_id == -1 else producer_id,
        producer_epoch=None if producer_epoch == -1 else producer_epoch,
        base_sequence=None if base_sequence == -1 else base_sequence,
        is_transactional=bool(attributes & 0x10),
        is_control=bool(attributes & 0x20),
        record_count=count,
        data=data,
        effort=effort,
    )


class _BadRecordError(ValueError):
    """The fields of a record contradict its length; the message says how."""


def _varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Decode the zig-zag number at `position`; return it and the position after it.

    Kafka's reader does the same: overlong encodings are accepted up to the number of bytes that
    `bits` (32 or 64) need, and excess bits are dropped.
    """
    value = 0
    for shift in range(0, bits + 6, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= (1 << bits) - 1
            return (value >> 1) ^ -(value & 1), position
    raise _BadRecordError(
        f"Expected a variable-length number of at most {(bits + 6) // 7} bytes, found a longer one."
    )


def read_batch_records(batch: RecordBatch, max_uncompressed: int) -> Iterator[Record | Damage]:
    """Yield the records of a batch, then the damage in the rest of it, if any."""
    count = batch.record_count
    assert count is not None
    data = batch.data[HEADER_SIZE:]
    is_compressed = batch.compression != "none"
    whole = partial(Damage, batch.position, batch.size)
    if count > MOST_RECORDS:
        reason = f"Expected at most {MOST_RECORDS} records in a batch, found that it has {count}."
        yield whole(ProblemKind.TOO_LARGE, reason)
        return
    if count == 0 and not data and batch.compression != "unknown":
        return
    try:
        records = decompress_in(batch, data, max_uncompressed) if is_compressed else bytes(data)
    except CompressionError as error:
        yield whole(error.kind, str(error))
        return

    position = 0
    flaw = f"Expected a count of records, found {count}." if count < 0 else None
    base_offset = batch.base_offset or 0
    base_timestamp, max_timestamp = _HEADER.unpack_from(batch.data)[7:9]
    append_time = max_timestamp if batch.timestamp_type == "log_append" else None
    for number in range(1, count + 1):
        try:
            record, position = _decode_record(
                records, position, base_offset, base_timestamp, append_time
            )
        except _BadRecordError as error:
            flaw = f"In record {number} of {count}: {error}"
            break
        except IndexError:
            reason = "Expected a whole record, found that the data end in its middle."
            flaw = f"In record {number} of {count}: {reason}"
            break
        yield record
    if flaw is None and position < len(records):
        flaw = f"Expected {count} records, found {len(records) - position} bytes after them."
    if flaw is not None and is_compressed:
        flaw = f"{flaw} This is at byte {position} of {len(records)} decompressed ones."
        yield whole(ProblemKind.BAD_RECORD, flaw)
    elif flaw is not None:
        start = HEADER_SIZE + position
        size = batch.size - start
        yield Damage(batch.position + start, size, ProblemKind.BAD_RECORD, flaw)


def _decode_record(
    data: bytes, position: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[Record, int]:
    """Decode the record at `position`; return it and the position after it.

    Numbers of one byte, which are nearly all of them, are decoded inline.

    Raises:
        _BadRecordError: the fields contradict the record's length.
        IndexError: the data end before the record does.
    """
    length = data[position]
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
        position += 1
    else:
        length, position = _varint(data, position, 32)
    end = position + length
    if length < 0 or end > len(data):
        raise _BadRecordError(f"Expected {length} bytes of a record, found {len(data) - position}.")
    position += 1  # attributes: none are defined

    number = data[position]
    if number < 0x80:
        timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
        position += 1
    else:
        number, position = _varint(data, position, 64)
        timestamp = base_timestamp + number
    if append_time is not None:
        timestamp = append_time

    number = data[position]
    if number < 0x80:
        offset = base_offset + ((number >> 1) ^ -(number & 1))
        position += 1
    else:
        number, position = _varint(data, position, 32)
        offset = base_offset + number

    key, position = _bytes(data, position)
    value, position = _bytes(data, position)
    if data[position] == 0:
        headers: tuple[tuple[str, bytes | None], ...] = ()
        position += 1
    else:
        headers, position = _decode_headers(data, position, end)
    if position != end:
        raise _BadRecordError(
            f"Expected a record of {length} bytes, found that its fields take"
            f" {length + position - end}."
        )
    if not -_INT64_MAX <= timestamp <= _INT64_MAX or offset > _INT64_MAX:
        timestamp = java_long(timestamp)
        offset = java_long(offset)
    return Record(offset, None if timestamp == -1 else timestamp, key, value, headers), end


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Decode a size and that many bytes (None if negative); return them and the next position."""
    number = data[position]
    if number < 0x80:
        size = (number >> 1) ^ -(number & 1)
        position += 1
    else:
        size, position = _varint(data, position, 32)
    return (None, position) if size < 0 else (data[position : position + size], position + size)


def _decode_headers(
    data: bytes, position: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = _varint(data, position, 32)
    if not 0 <= count <= end - position:
        raise _BadRecordError(f"Expected a number of headers that fits, found {count}.")
    if count > _MOST_HEADERS:
        raise _BadRecordError(f"Expected at most {_MOST_HEADERS} headers, found {count}.")
    headers = []
    for _ in range(count):
        size, position = _varint(data, position, 32)
        if size < 0:
            raise _BadRecordError(f"Expected a header's key, found a size of {size}.")
        key = data[position : position + size].decode("utf-8", "replace")
        position += size
        size, position = _varint(data, position, 32)
        value = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        headers.append((key, value))
    return tuple(headers), position
