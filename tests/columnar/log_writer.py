"""A small writer of logs, from the format's description alone: no code of the reader is used."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import cramjam
import google_crc32c

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass
class Plain:
    """A record to write."""

    offset: int
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def varint(number: int) -> bytes:
    """Zig-zag, seven bits a byte."""
    number = (number << 1) ^ (number >> 63)
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def compress(codec: str, data: bytes) -> bytes:
    if codec == "gzip":
        return gzip.compress(data, mtime=0)
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == "lz4":
        return lz4_frame(data)
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data))
    return data


LZ4_HEADER = bytes.fromhex("04224d18604082")  # independent blocks of 64 KiB; 0x82 is its checksum
BROKEN_LZ4_HEADER = bytes.fromhex("04224d1860401a")  # as 0.8 and 0.9 write it


def lz4_frame(data: bytes, header: bytes = LZ4_HEADER) -> bytes:
    out = bytearray(header)
    for start in range(0, len(data), 1 << 16):
        plain = data[start : start + (1 << 16)]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += struct.pack("<I", len(block)) + block
        else:
            out += struct.pack("<I", 1 << 31 | len(plain)) + plain
    return bytes(out) + bytes(4)


def record(plain: Plain, base_offset: int = 0, base_timestamp: int = 0) -> bytes:
    body = (
        b"\x00"
        + varint(plain.timestamp - base_timestamp)
        + varint(plain.offset - base_offset)
        + sized(plain.key)
        + sized(plain.value)
        + varint(len(plain.headers))
        + b"".join(sized(key.encode()) + sized(value) for key, value in plain.headers)
    )
    return varint(len(body)) + body


def batch(
    records: Sequence[Plain],
    *,
    codec: str = "none",
    base_offset: int | None = None,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    flags: int = 0,
    count: int | None = None,
    body: bytes | None = None,
) -> bytes:
    """A batch v2; `flags` is added to the attributes, `body` replaces the records."""
    first = records[0] if records else Plain(0)
    base = first.offset if base_offset is None else base_offset
    start = first.timestamp if base_timestamp is None else base_timestamp
    if body is None:
        body = compress(codec, b"".join(record(plain, base, start) for plain in records))
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base if records else 0
    if max_timestamp is None:
        max_timestamp = max((plain.timestamp for plain in records), default=-1)
    checked = (
        struct.pack(
            ">hiqqqhii",
            CODECS.index(codec) | flags,
            last_offset_delta,
            start,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records) if count is None else count,
        )
        + body
    )
    crc = google_crc32c.value(checked)
    return struct.pack(">qiibI", base, 9 + len(checked), leader_epoch, 2, crc) + checked


LOG_APPEND, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


def marker(offset: int, producer_id: int, kind: int, epoch: int = 0) -> bytes:
    """A transaction's marker: kind 0 aborts, 1 commits."""
    key = struct.pack(">hh", 0, kind)
    plain = Plain(offset, 1000, key, struct.pack(">hi", 0, 5))
    return batch(
        [plain], producer_id=producer_id, producer_epoch=epoch, flags=TRANSACTIONAL | CONTROL
    )


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = -1,
) -> bytes:
    """A message v0 or v1."""
    checked = struct.pack(">bb", magic, attributes)
    if magic == 1:
        checked += struct.pack(">q", timestamp)
    for part in (key, value):
        checked += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    crc = zlib.crc32(checked)
    return struct.pack(">qiI", offset, 4 + len(checked), crc) + checked


def message_set(
    records: Sequence[Plain], *, magic: int, codec: str = "none", flags: int = 0, timestamp: int = 0
) -> bytes:
    """Messages one after another, or inside one that is compressed as a broker writes it."""
    is_relative = magic == 1 and codec != "none"
    first = records[0].offset if is_relative else 0
    inside = b"".join(
        message(
            plain.offset - first, plain.key, plain.value, magic=magic, timestamp=plain.timestamp
        )
        for plain in records
    )
    if codec == "none":
        return inside
    return message(
        records[-1].offset,
        None,
        compress(codec, inside),
        magic=magic,
        attributes=CODECS.index(codec) | flags,
        timestamp=timestamp,
    )
