"""Decompression of record batches, bounded: no input makes it use more memory than its limit.

Framing of the data by codec (number in the attributes):

    1 gzip    RFC 1952 members, one after another
    2 snappy  a raw block, or snappy-java's stream:
              82 "SNAPPY" 00 | version int32 | compatible int32 | (size int32 | raw block)*
    3 lz4     one LZ4 frame of independent blocks:
              04224d18 | FLG | BD | content size u64? | HC | (size u32le | block | XXH32?)* |
              00000000 | XXH32?
              In message format v0, clients and brokers included the magic number in the hash.
              HC is therefore wrong by the frame format's rules and is not checked (KIP-57).
    4 zstd    frames, one after another; the content size may be missing

Input is accepted if Kafka's own reader accepts it; its treatment of trailing bytes depends on the
codec.
"""

from __future__ import annotations

import struct
import zlib
from types import ModuleType

import cramjam

from kgroup.errors import ProblemKind
from kgroup.protocol.batch.batch import MAX_UNCOMPRESSED, RecordBatch

_GZIP_MEMBER = b"\x1f\x8b\x08"
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_SIZE = 16
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_END = b"\x00\x00\x00\x00"
_LZ4_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50
_ZSTD_BLOCK_SIZE = 1 << 17


class CompressionError(ValueError):
    """Data that are invalid for their codec, or larger than the limit."""

    def __init__(self, kind: ProblemKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class UndecidedError(Exception):
    """Whether a batch may be decompressed this far is unknown; see `Effort.is_known`."""


def decompress(
    codec: str, data: memoryview | bytes, *, magic: int = 2, limit: int = MAX_UNCOMPRESSED
) -> bytes:
    """Return the uncompressed `data`.

    Args:
        codec: "gzip", "snappy", "lz4" or "zstd".
        data: the compressed part of one batch.
        magic: message format of the batch: in v0, the header checksum of lz4 is not verified.
        limit: maximum number of uncompressed bytes.

    Raises:
        CompressionError: the data are damaged, the codec is unknown, or the limit is exceeded.
    """
    data = memoryview(data)
    if codec == "gzip":
        return _gunzip(data, limit)
    if codec == "snappy":
        return _unsnappy(data, limit)
    if codec == "lz4":
        return _unlz4(data, limit, check_header=magic > 0)
    if codec == "zstd":
        # zstd-jni's stream, which Kafka uses, treats no bytes as an empty stream
        return _into(cramjam.zstd, "zstd", data, _zstd_bound(data, limit), limit) if data else b""
    raise CompressionError(
        ProblemKind.BAD_COMPRESSION, f"Expected a known compression codec, found {codec}."
    )


def decompress_in(batch: RecordBatch, data: memoryview | bytes, limit: int) -> bytes:
    """Return the uncompressed data of a batch, within the limits of its log; see `Effort`.

    Args:
        batch: the batch that contains the data.
        data: data compressed with the batch's codec.
        limit: maximum number of uncompressed bytes, regardless of `Effort`.

    Raises:
        CompressionError: see `decompress`.
        UndecidedError: the batch is inflated, and the uncompressed sizes of the preceding batches
            are unknown.
    """
    limit = min(limit, batch.effort.limit(batch.size))
    try:
        records = decompress(batch.compression, data, magic=batch.magic, limit=limit)
    except CompressionError as error:
        if error.kind is ProblemKind.TOO_LARGE:
            if not batch.effort.is_known:
                raise UndecidedError from None
            batch.effort.note(batch.size, limit)
        raise
    batch.effort.note(batch.size, len(records))
    return records


def _too_large(codec: str, limit: int) -> CompressionError:
    return CompressionError(
        ProblemKind.TOO_LARGE,
        f"Expected at most {limit} bytes of records, found more behind {codec}.",
    )


def _bad(codec: str, found: object) -> CompressionError:
    return CompressionError(ProblemKind.BAD_COMPRESSION, f"Expected {codec} data, found: {found}.")


def _gunzip(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    rest: bytes | memoryview = data
    while True:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise _bad("gzip", error) from None
        size += len(part)
        if size > limit:
            raise _too_large("gzip", limit)
        if not member.eof:
            raise _bad("gzip", "its end is missing")
        parts.append(part)
        rest = member.unused_data
        # like Java's GZIPInputStream: trailing bytes that are not a gzip member are ignored
        if not rest.startswith(_GZIP_MEMBER):
            return b"".join(parts)


def _unsnappy(data: memoryview, limit: int) -> bytes:
    blocks = _snappy_blocks(data)
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        size = sum(sizes)
        if size > limit:
            raise _too_large("snappy", limit)
        out = bytearray(size)
        target = memoryview(out)
        start = 0
        for block, length in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, target[start : start + length])
            start += length
    except cramjam.DecompressionError as error:
        raise _bad("snappy", error) from None
    return bytes(out)


def _snappy_blocks(data: memoryview) -> list[memoryview]:
    """Return the raw blocks of a snappy-java stream, or the data as the only block."""
    if len(data) < _SNAPPY_HEADER_SIZE or data[:8] != _SNAPPY_MAGIC:
        return [data]
    blocks = []
    position = _SNAPPY_HEADER_SIZE
    while position + 4 <= len(data):
        if data[position : position + 8] == _SNAPPY_MAGIC:  # concatenated streams
            position += _SNAPPY_HEADER_SIZE
            continue
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise _bad("snappy", f"a block of {size} bytes where {len(data) - position} are left")
        blocks.append(data[position : position + size])
        position += size
    return blocks


def _unlz4(data: memoryview, limit: int, *, check_header: bool) -> bytes:
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise _bad("lz4", f"no frame header in {bytes(data[:7]).hex() or 'no bytes'}")
    flags = data[4]
    block_size = _LZ4_BLOCK_SIZES.get(data[5] >> 4)
    if flags & 0b1110_0011 != 0b0110_0000 or block_size is None or data[5] & 0x8F:
        raise _bad("lz4", f"an unsupported frame descriptor {bytes(data[4:6]).hex()}")
    start = 15 if flags & 0x08 else 7
    if len(data) < start:
        raise _bad("lz4", "its header is cut off")
    if check_header and (_xxh32_short(bytes(data[4 : start - 1])) >> 8) & 0xFF != data[start - 1]:
        raise _bad("lz4", "a wrong header checksum")
    has_block_checksums = bool(flags & 0x10)

    position = start
    bound = 0
    while True:
        if position + 4 > len(data):
            raise _bad("lz4", "its end mark is missing")
        word = int.from_bytes(data[position : position + 4], "little")
        size = word & 0x7FFF_FFFF
        if size == 0:
            break
        if size > block_size:
            raise _bad("lz4", f"a block of {size} bytes where {block_size} are allowed")
        bound += size if word >> 31 else block_size
        position += 4 + size + (4 if has_block_checksums else 0)

    # Build a new header: valid by the format's rules, without the content size and hash, which
    # Kafka's reader does not check either.
    descriptor = bytes((0x70 if has_block_checksums else 0x60, data[5]))
    checksum = (_xxh32_short(descriptor) >> 8) & 0xFF
    frame = b"".join((_LZ4_MAGIC, descriptor, bytes((checksum,)), data[start:position], _LZ4_END))
    return _into(cramjam.lz4, "lz4", frame, bound, limit)


def _xxh32_short(data: bytes) -> int:
    """Return the XXH32 hash with seed 0 of fewer than 16 bytes, such as a frame header."""
    mask = 0xFFFF_FFFF
    value = 0x165667B1 + len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = value + word * 0xC2B2AE3D & mask
        value = (value << 17 | value >> 15) * 0x27D4EB2F & mask
    for byte in data[whole:]:
        value = value + byte * 0x165667B1 & mask
        value = (value << 11 | value >> 21) * 0x9E3779B1 & mask
    value = (value ^ value >> 15) * 0x85EBCA77 & mask
    value = (value ^ value >> 13) * 0xC2B2AE3D & mask
    return value ^ value >> 16


def _zstd_bound(data: memoryview, limit: int) -> int:
    """Return an upper bound of the content size of the frames, from frame and block headers alone.

    Counting stops when the limit is exceeded.

        frame: magic u32le | descriptor | window? | dictionary id? | content size? | block* | XXH64?
        block: u24le = last:1, type:2 (raw, one byte repeated, compressed), size:21 | data

    A truncated frame ends the sum: the library reports what is wrong with it.
    """
    bound = 0
    position = 0
    end = len(data)
    while position + 5 <= end and bound <= limit:
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & 0xFFFF_FFF0 == _ZSTD_SKIPPABLE:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            break
        descriptor = data[position + 4]
        is_single = descriptor >> 5 & 1
        position += 5 + (1 - is_single) + (0, 1, 2, 4)[descriptor & 3]
        position += (is_single, 2, 4, 8)[descriptor >> 6]
        is_last = 0
        while not is_last and position + 3 <= end and bound <= limit:
            block = int.from_bytes(data[position : position + 3], "little")
            is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
            bound += _ZSTD_BLOCK_SIZE if kind == 2 else size
            position += 3 + (1 if kind == 1 else size)
        position += 4 if descriptor & 4 else 0
    return bound


def _into(
    module: ModuleType, codec: str, data: bytes | memoryview, bound: int, limit: int
) -> bytes:
    """Decompress into a buffer of at most `limit` bytes, which the library never exceeds."""
    out = bytearray(min(bound, limit))
    try:
        size = module.decompress_into(data, out)
    except cramjam.DecompressionError as error:
        if bound > limit and "whole buffer" in str(error):
            raise _too_large(codec, limit) from None
        raise _bad(codec, error) from None
    return bytes(memoryview(out)[:size])
