"""Decompression: every framing, wrong data, and bombs."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
import zlib
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.protocol.batch.compression import CompressionError, decompress
from tests.columnar import log_writer

DATA = b"the same again and again, " * 1000 + os.urandom(100)
SNAPPY_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def snappy_stream(data: bytes, block: int) -> bytes:
    """What snappy-java's SnappyOutputStream writes."""
    parts = [SNAPPY_HEADER]
    for start in range(0, len(data), block):
        raw = bytes(cramjam.snappy.compress_raw(data[start : start + block]))
        parts.append(struct.pack(">i", len(raw)) + raw)
    return b"".join(parts)


def lz4_with(descriptor: bytes, rest: bytes) -> bytes:
    """A frame with the header checksum that the library takes."""
    for checksum in range(256):
        frame = b"\x04\x22\x4d\x18" + descriptor + bytes([checksum]) + rest
        try:
            cramjam.lz4.decompress(frame)
        except cramjam.DecompressionError:
            continue
        return frame
    raise AssertionError("no header checksum fits")


# the library writes blocks that depend on each other, which Kafka does not take, with checksums
LIBRARY_LZ4 = bytes(cramjam.lz4.compress(DATA))

FRAMINGS = {
    "gzip": ("gzip", gzip.compress(DATA)),
    "gzip members": ("gzip", gzip.compress(DATA[:99]) + gzip.compress(DATA[99:])),
    "gzip, then padding": ("gzip", gzip.compress(DATA) + bytes(18)),
    "snappy raw": ("snappy", bytes(cramjam.snappy.compress_raw(DATA))),
    "snappy stream": ("snappy", snappy_stream(DATA, 1024)),
    "snappy streams": ("snappy", snappy_stream(DATA[:5000], 512) + snappy_stream(DATA[5000:], 512)),
    "snappy stream, then 3 bytes": ("snappy", snappy_stream(DATA, 9999) + b"abc"),
    "lz4": ("lz4", log_writer.lz4_frame(DATA)),
    "lz4 with its size": (
        "lz4",
        lz4_with(b"\x68\x40" + struct.pack("<Q", len(DATA)), log_writer.lz4_frame(DATA)[7:]),
    ),
    "lz4 with checksums": ("lz4", lz4_with(b"\x74\x40", LIBRARY_LZ4[7:])),
    "lz4, then padding": ("lz4", log_writer.lz4_frame(DATA) + bytes(9)),
    "zstd": ("zstd", bytes(cramjam.zstd.compress(DATA))),
    "zstd frames": (
        "zstd",
        b"".join(bytes(cramjam.zstd.compress(p)) for p in (DATA[:9], DATA[9:])),
    ),
    "zstd skippable": (
        "zstd",
        struct.pack("<II", 0x184D2A53, 3) + b"abc" + bytes(cramjam.zstd.compress(DATA)),
    ),
}


@pytest.mark.parametrize("name", FRAMINGS)
def test_every_framing(name: str) -> None:
    codec, data = FRAMINGS[name]
    assert decompress(codec, data) == DATA
    assert decompress(codec, memoryview(data), limit=len(DATA)) == DATA


@pytest.mark.parametrize("name", FRAMINGS)
def test_one_byte_more_than_the_limit(name: str) -> None:
    codec, data = FRAMINGS[name]
    with pytest.raises(CompressionError) as error:
        decompress(codec, data, limit=len(DATA) - 1)
    assert error.value.kind == "too-large"


def test_zstd_without_a_content_size() -> None:
    stream = cramjam.zstd.Compressor()
    stream.compress(DATA)
    data = bytes(stream.finish())
    assert data[4] >> 6 == 0  # no content size in the frame's header
    assert data[4] & 0x20 == 0
    assert decompress("zstd", data) == DATA


def test_lz4_block_checksum_is_checked() -> None:
    frame = bytearray(FRAMINGS["lz4 with checksums"][1])
    (size,) = struct.unpack_from("<I", frame, 7)
    frame[11 + size] ^= 1
    with pytest.raises(CompressionError, match="blockChecksum"):
        decompress("lz4", bytes(frame))


def test_lz4_of_old_brokers_has_another_header_checksum() -> None:
    frame = log_writer.lz4_frame(DATA, log_writer.BROKEN_LZ4_HEADER)
    assert decompress("lz4", frame, magic=0) == DATA
    with pytest.raises(CompressionError, match="header checksum"):
        decompress("lz4", frame, magic=1)


def test_lz4_uncompressed_block() -> None:
    block = struct.pack("<I", 1 << 31 | 5) + b"hello"
    assert decompress("lz4", log_writer.LZ4_HEADER + block + bytes(4)) == b"hello"


@pytest.mark.parametrize(("number", "most"), [(4, 65_536), (5, 262_144), (6, 2**20), (7, 2**22)])
def test_lz4_blocks_are_as_large_as_the_frame_allows(number: int, most: int) -> None:
    """The "Block Maximum Size" of lz4's frame format: 64 KB, 256 KB, 1 MB and 4 MB."""
    head = lz4_with(bytes([0x60, number << 4]), bytes(4))[:-4]
    block, more = (struct.pack("<I", 1 << 31 | size) + bytes(size + 4) for size in (most, most + 1))
    assert decompress("lz4", head + block) == bytes(most)
    with pytest.raises(CompressionError, match=f"{most + 1} bytes"):
        decompress("lz4", head + more)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("size", [0, 1, 3, 20, 70_000, 1_000_000])
def test_round_trip(codec: str, size: int) -> None:
    for data in (bytes(size), os.urandom(size)):
        assert decompress(codec, log_writer.compress(codec, data)) == data


WRONG = {
    "gzip: nothing": ("gzip", b"", "end is missing"),
    "gzip: no header": ("gzip", b"nothing of the kind", "header"),
    "gzip: wrong checksum": ("gzip", gzip.compress(DATA)[:-8] + bytes(8), "data check"),
    "snappy: nothing": ("snappy", b"", "snappy"),
    "snappy: block cut": ("snappy", snappy_stream(DATA, 1024)[:-1], "block of"),
    "snappy: wrong size": ("snappy", b"\x7f" + b"abc", "snappy"),
    "lz4: nothing": ("lz4", b"", "no frame header in no bytes"),
    "lz4: other magic": ("lz4", b"\x05" + log_writer.lz4_frame(DATA)[1:], "no frame header"),
    "lz4: dependent blocks": ("lz4", LIBRARY_LZ4, "frame descriptor 5440"),
    "lz4: no end mark": ("lz4", log_writer.lz4_frame(DATA)[:-4], "end mark"),
    "lz4: large block": ("lz4", log_writer.LZ4_HEADER + struct.pack("<I", 65537), "65537 bytes"),
    "zstd: other magic": ("zstd", b"nothing of the kind", "zstd"),
    "zstd: frame, then garbage": ("zstd", bytes(cramjam.zstd.compress(DATA)) + b"abcde", "zstd"),
    "none of these": ("unknown", b"", "known compression codec"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data(name: str) -> None:
    codec, data, text = WRONG[name]
    with pytest.raises(CompressionError, match=text) as error:
        decompress(codec, data)
    assert error.value.kind == "bad-compression"
    assert str(error.value).startswith("Expected")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_cut_at_every_byte(codec: str) -> None:
    data = log_writer.compress(codec, DATA[:3000])
    for size in range(len(data)):
        if size == 0 and codec == "zstd":
            assert decompress(codec, b"") == b""  # Kafka's reader takes no frame as no bytes
            continue
        with pytest.raises(CompressionError):
            decompress(codec, data[:size])


def bomb(codec: str, size: int) -> bytes:
    """As few bytes as the codec needs to stand for so many."""
    if codec == "gzip":
        stream = zlib.compressobj(9, wbits=31)
        return b"".join(stream.compress(bytes(1 << 20)) for _ in range(size >> 20)) + stream.flush()
    if codec == "snappy":
        # the size that a raw block claims is believed by no one
        return b"\x80\x80\x80\x80\x08" + b"\x00a"
    if codec == "lz4":
        block = bytes(cramjam.lz4.compress_block(bytes(1 << 22), store_size=False))
        part = struct.pack("<I", len(block)) + block
        return lz4_with(b"\x60\x70", bytes(4))[:-4] + part * (size >> 22) + bytes(4)
    # a frame of blocks that repeat one byte 128 KiB times
    block = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\x00"
    last = struct.pack("<I", (1 << 17) << 3 | 1 << 1 | 1)[:3] + b"\x00"
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + block * ((size >> 17) - 1) + last


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_bombs_are_bounded(codec: str) -> None:
    data = bomb(codec, 64 << 20)
    limit = 8 << 20
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError) as error:
            decompress(codec, data, limit=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.value.kind == "too-large"
    assert peak < 3 * limit


@pytest.mark.slow
def test_the_bombs_are_real() -> None:
    for codec in ("gzip", "lz4", "zstd"):
        assert decompress(codec, bomb(codec, 16 << 20)) == bytes(16 << 20)


@given(st.sampled_from(["gzip", "snappy", "lz4", "zstd"]), st.binary(max_size=200), st.data())
def test_any_bytes(codec: str, data: bytes, draw: st.DataObject) -> None:
    """Whatever the bytes are, there is a result within the limit, or the one error."""
    if draw.draw(st.booleans()):  # closer to real data
        real = bytearray(log_writer.compress(codec, data * 3))
        at = draw.draw(st.integers(0, len(real) - 1))
        real[at] = draw.draw(st.integers(0, 255))
        data = bytes(real)
    magic = draw.draw(st.integers(0, 2))
    with suppress(CompressionError):
        assert len(decompress(codec, data, magic=magic, limit=1000)) <= 1000
