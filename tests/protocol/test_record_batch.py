"""Logs of every message format, sound and damaged, through the one reader."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, cast

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.protocol import batch_search, batch_v2, message_set
from kgroup.protocol.byte_window import ByteWindow
from kgroup.protocol.record_batch import (
    Damage,
    Record,
    RecordBatch,
    read_batches,
    read_file_batches,
    read_records,
)
from tests.protocol import log_writer as log
from tests.protocol.log_writer import Plain

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


# ---- what is written is read

payloads = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=300)


@st.composite
def plains(draw: st.DrawFn) -> list[Plain]:
    """Records in the order of their offsets, with gaps."""
    offset = draw(st.integers(0, 1 << 40))
    written = []
    for _ in range(draw(st.integers(1, 6))):
        written.append(
            Plain(
                offset,
                draw(st.just(-1) | st.integers(0, 1 << 44)),
                draw(payloads),
                draw(payloads),
                draw(st.lists(st.tuples(st.text(max_size=9), payloads), max_size=2)),
            )
        )
        offset += draw(st.integers(1, 1 << 20))
    return written


@given(plains(), st.sampled_from(log.CODECS))
def test_reads_batches_v2(written: list[Plain], codec: str) -> None:
    data = log.batch(written, codec=codec)
    batch = only(data)
    assert (batch.magic, batch.compression) == (2, codec)
    assert (batch.base_offset, batch.last_offset) == (written[0].offset, written[-1].offset)
    assert batch.record_count == len(written)
    assert list(read_records(batch)) == [as_record(plain) for plain in written]


@given(plains(), st.sampled_from([0, 1]), st.sampled_from(log.CODECS[:4]))
def test_reads_message_sets(written: list[Plain], magic: int, codec: str) -> None:
    data = log.message_set(written, magic=magic, codec=codec)
    assert records(data) == [as_record(plain, magic=magic) for plain in written]


def test_header_of_v2() -> None:
    data = log.batch(
        [Plain(7, 1000, b"k", b"v"), Plain(9, 1005)],
        leader_epoch=4,
        producer_id=11,
        producer_epoch=2,
        base_sequence=30,
        flags=log.TRANSACTIONAL,
    )
    batch = next(iter(read_batches(data, base_position=500)))
    assert batch == RecordBatch(
        position=500,
        size=len(data),
        magic=2,
        base_offset=7,
        last_offset=9,
        compression="none",
        timestamp_type="create",
        base_timestamp_ms=1000,
        max_timestamp_ms=1005,
        delete_horizon_ms=None,
        leader_epoch=4,
        producer_id=11,
        producer_epoch=2,
        base_sequence=30,
        is_transactional=True,
        is_control=False,
        record_count=2,
        data=memoryview(data),
    )


def test_unknown_is_none() -> None:
    batch = only(log.batch([Plain(7)], leader_epoch=-1))
    assert batch.base_timestamp_ms is None
    assert batch.max_timestamp_ms is None
    assert batch.leader_epoch is None
    assert batch.producer_id is None
    assert batch.producer_epoch is None
    assert batch.base_sequence is None
    assert list(read_records(batch)) == [Record(7, None, None, None, ())]


def test_log_append_time_of_v2_is_the_largest_timestamp() -> None:
    data = log.batch([Plain(0, 10), Plain(1, 20)], flags=log.LOG_APPEND, max_timestamp=5000)
    batch = only(data)
    assert batch.timestamp_type == "log_append"
    assert [cast(Record, record).timestamp_ms for record in read_records(batch)] == [5000, 5000]


def test_delete_horizon_is_the_base_timestamp() -> None:
    data = log.batch([Plain(0, 10), Plain(1, 20)], flags=log.DELETE_HORIZON, base_timestamp=90_000)
    batch = only(data)
    assert batch.delete_horizon_ms == batch.base_timestamp_ms == 90_000
    assert [cast(Record, record).timestamp_ms for record in read_records(batch)] == [10, 20]


def test_batch_that_compaction_emptied() -> None:
    data = log.batch([], base_offset=40, last_offset_delta=9, producer_id=3, producer_epoch=0)
    batch = only(data)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (40, 49, 0)
    assert list(read_records(batch)) == []


def test_control_batch() -> None:
    batch = only(log.marker(12, producer_id=5, kind=1, epoch=3))
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch) == (5, 3)


def test_one_log_of_all_formats() -> None:
    written = [Plain(offset, -1, b"k%d" % offset, b"v") for offset in range(12)]
    data = (
        log.message_set(written[:2], magic=0)
        + log.message_set(written[2:5], magic=0, codec="gzip")
        + log.message_set(written[5:8], magic=1, codec="snappy")
        + log.batch(written[8:], codec="zstd")
    )
    assert records(data) == [as_record(plain) for plain in written]
    assert [cast(RecordBatch, item).magic for item in walk(data)] == [0, 0, 0, 1, 2]


def test_outer_message() -> None:
    data = log.message_set([Plain(3), Plain(4)], magic=1, codec="gzip", timestamp=77)
    batch = only(data)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (None, 4, None)
    assert (batch.timestamp_type, batch.max_timestamp_ms) == ("create", 77)
    plain = only(log.message(3, b"k", b"v", magic=0))
    assert (plain.base_offset, plain.last_offset, plain.record_count) == (3, 3, 1)
    assert (plain.timestamp_type, plain.max_timestamp_ms) == (None, None)


def test_compaction_leaves_gaps_inside_a_wrapper() -> None:
    # 10 and 13 of 10..14 are left: inside they are 0 and 3, and the wrapper has the last one's
    inside = log.message(0, b"a", None) + log.message(3, b"b", None)
    data = log.message(13, None, log.compress("gzip", inside), attributes=1)
    assert [cast(Record, record).offset for record in records(data)] == [10, 13]


def test_wrapper_offset_zero_means_offsets_inside_are_absolute() -> None:
    # what some versions of librdkafka produced
    inside = log.message(0, b"a", None) + log.message(1, b"b", None)
    data = log.message(0, None, log.compress("snappy", inside), attributes=2)
    assert [cast(Record, record).offset for record in records(data)] == [0, 1]


def test_log_append_time_of_a_wrapper_overrides_those_inside() -> None:
    written = [Plain(5, 100, b"a"), Plain(6, 101, b"b")]
    data = log.message_set(written, magic=1, codec="lz4", flags=log.LOG_APPEND, timestamp=9000)
    assert [cast(Record, record).timestamp_ms for record in records(data)] == [9000, 9000]


def test_message_without_timestamp_inside_a_wrapper_with_one() -> None:
    inside = log.message(5, b"a", None, magic=0)
    data = log.message(
        5, None, log.compress("gzip", inside), attributes=1 | log.LOG_APPEND, timestamp=9
    )
    assert records(data) == [Record(5, None, b"a", None, ())]


def test_old_lz4_header_in_v0_only() -> None:
    inside = log.message(5, b"a", None, magic=0)
    broken = log.lz4_frame(inside, log.BROKEN_LZ4_HEADER)
    assert records(log.message(5, None, broken, magic=0, attributes=3)) == [
        Record(5, None, b"a", None, ())
    ]
    (damage,) = records(log.message(5, None, broken, magic=1, attributes=3))
    assert isinstance(damage, Damage)
    assert damage.kind == "bad-compression"


def test_timestamps_wrap_like_javas_long() -> None:
    """Kafka's reader adds without a check; columns of int64 depend on the result being one."""
    body = log.record(Plain(0, 10), 0, 0)
    data = log.batch([Plain(0)], base_timestamp=(1 << 63) - 5, body=body)
    assert records(data) == [Record(0, -(1 << 63) + 5, None, None, ())]


def test_varints_may_be_longer_than_they_need() -> None:
    # length 6, then the key's null as ff ff ff ff 0f instead of 01: what Kafka's reader takes
    body = log.varint(10) + b"\x00\x00\x00" + b"\xff\xff\xff\xff\x0f" + b"\x01\x00"
    key_size = -(1 << 31)  # all 32 bits set, zig-zag: as negative as can be, so null
    assert key_size < 0
    assert records(log.batch([Plain(0, 0)], body=body)) == [Record(0, 0, None, None, ())]


# ---- damage between batches

FIRST = log.batch([Plain(0, 1000, b"first", b"1" * 50), Plain(1, 1000, b"x", None)])
SECOND = log.batch([Plain(2, 1001, b"second", b"2" * 50)])
THIRD = log.batch([Plain(3, 1002, b"third", b"3" * 50)])
FOURTH = log.message(4, b"fourth", b"4" * 50, timestamp=1003)


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + struct.pack(">i", length) + batch[12:]


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


GARBAGE = random.Random(1).randbytes(3000)

DAMAGED = {
    # name: (what stands between FIRST and THIRD, damaged bytes of it, kind, words of the reason)
    "wrong checksum": (flipped(SECOND, 80), len(SECOND), "bad-crc", "checksum"),
    "two of them": (flipped(SECOND, 80) + flipped(FOURTH, 40), None, "bad-crc", "checksum"),
    "length too large": (with_length(SECOND, len(SECOND) - 2), None, "bad-length", "next batch"),
    "length too small": (with_length(SECOND, 55), None, "bad-crc", "67 bytes"),
    "length far too large": (with_length(SECOND, 60_000_000), None, "bad-length", "60000012"),
    "length above the limit": (with_length(SECOND, 1 << 30), None, "bad-length", "1073741824"),
    "length negative": (with_length(SECOND, -9), None, "bad-length", "-9"),
    "length zero": (with_length(SECOND, 0), None, "bad-length", "at least 49"),
    "length over the next batch": (
        with_length(SECOND, len(SECOND) + len(THIRD) - 12),
        None,
        "bad-length",
        "next batch begins",
    ),
    "unknown magic": (SECOND[:16] + b"\x03" + SECOND[17:], None, "bad-magic", "found 3"),
    "negative magic": (SECOND[:16] + b"\xff" + SECOND[17:], None, "bad-magic", "found 255"),
    "garbage": (GARBAGE, None, "garbage", "other bytes"),
    "hole": (bytes(5000), None, "zeros", "5000 zero bytes"),
    "hole in a batch": (SECOND[:70] + bytes(300), None, "bad-crc", "checksum"),
    "zeros, then garbage": (bytes(40) + GARBAGE, None, "garbage", "40 zero bytes, then others"),
    "few zeros": (bytes(3), None, "bad-", ""),
    "half a batch": (SECOND[:60], None, "bad-", ""),
    "header only": (SECOND[:17], None, "bad-", ""),
    "one byte": (b"\x55", None, "", ""),
    "negative offset": (b"\xff" + SECOND[1:], None, "bad-offset", "found -"),
    "offset too large": (
        struct.pack(">q", (1 << 63) - 1) + FIRST[8:],
        None,
        "bad-offset",
        "9223372036854775807",
    ),
    "message v1 too short": (
        struct.pack(">qiIbb", 2, 10, 0, 1, 0) + bytes(4),
        None,
        "bad-length",
        "at least 22",
    ),
}


@pytest.mark.parametrize("follower", [THIRD, FOURTH], ids=["v2", "v1"])
@pytest.mark.parametrize("name", DAMAGED)
def test_reading_goes_on_behind_damage(name: str, follower: bytes) -> None:
    middle, size, kind, words = DAMAGED[name]
    data = FIRST + middle + follower + FIRST
    items = walk(data)
    first, damage, *rest = items
    assert isinstance(damage, Damage)
    assert (damage.position, damage.size) == (len(FIRST), size or len(middle))
    assert damage.kind.startswith(kind)
    assert words in damage.reason
    assert damage.reason.startswith("Expected ")
    assert damage.reason.endswith(".")
    assert [bytes(cast(RecordBatch, item).data) for item in (first, *rest)] == [
        FIRST,
        follower,
        FIRST,
    ]


@pytest.mark.parametrize(
    "follower",
    [THIRD, FOURTH, log.message(9, None, b"v"), log.message(9, None, b"v", magic=0)],
    ids=["v2", "v1", "v1 without key", "v0 without key"],
)
@pytest.mark.parametrize("gap", [bytes(40), b"\x55" * 40], ids=["hole", "garbage"])
def test_chunks_may_end_anywhere_in_damage(gap: bytes, follower: bytes) -> None:
    for size in (1, 5, 20, 40):
        data = gap[:size] + follower
        for chunk_size in range(1, len(data)):
            damage, batch = read_file_batches(io.BytesIO(data), chunk_size=chunk_size)
            assert (damage.position, damage.size) == (0, size)
            assert isinstance(batch, RecordBatch)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_large_message_behind_damage(magic: int) -> None:
    """Its value begins behind what is searched at once."""
    data = GARBAGE + log.message(9, bytes(500_000), b"v", magic=magic)
    assert damages(list(read_batches(data))) == [(0, len(GARBAGE), "garbage")]


def test_zeros_to_the_end_are_one_damage() -> None:
    # a segment is preallocated, and the machine stopped
    for size in (1, 16, 17, 18, 61, 5000, 3_000_000):
        data = FIRST + SECOND + bytes(size)
        items = list(read_batches(data))
        assert damages(items) == [(len(FIRST + SECOND), size, "zeros")]
        assert items == list(read_file_batches(io.BytesIO(data), chunk_size=100_000))
    assert damages(walk(bytes(70))) == [(0, 70, "zeros")]


@pytest.mark.parametrize("last", [SECOND, FOURTH, log.message(9, b"k", b"v", magic=0)])
def test_cut_at_every_byte(last: bytes) -> None:
    for size in range(1, len(last)):
        items = walk(FIRST + last[:size])
        kind = "torn-tail" if any(last[:size]) else "zeros"
        assert damages(items) == [(len(FIRST), size, kind)]
        assert isinstance(items[0], RecordBatch)
    assert damages(walk(FIRST + last)) == []


def test_cut_in_the_middle_of_a_file_that_goes_on() -> None:
    last = log.batch([Plain(2, 1001, b"k", b"v", [("ends", b"with this")])])
    for size in range(1, len(last)):
        items = walk(FIRST + last[:size] + THIRD)
        assert damages(items)[0][:2] == (len(FIRST), size)
        assert len(items) == 3


UNCHECKED = {0: range(8), 1: range(8), 2: (*range(8), *range(12, 16))}
"""Bytes of a batch that its checksum does not cover, and that no other field depends on."""


@pytest.mark.parametrize(
    "batch", [log.message(2, b"k", b"v" * 9, magic=0), FOURTH, SECOND], ids=["v0", "v1", "v2"]
)
def test_every_flipped_bit_is_noticed_or_harmless(batch: bytes) -> None:
    magic = batch[16]
    whole = list(read_records(only(batch)))
    for at in range(len(batch)):
        for bit in range(8):
            items = walk(FIRST + flipped(batch, at, bit) + THIRD)
            assert isinstance(items[-1], RecordBatch)
            assert bytes(items[-1].data) == THIRD
            if at not in UNCHECKED[magic] or (at == 0 and bit == 7):
                assert damages(items)[0][:2] == (len(FIRST), len(batch))
                assert len(items) == 3
            else:
                assert damages(items) == []
                shift = cast(RecordBatch, items[1]).last_offset - only(batch).last_offset
                read = [
                    cast(Record, record) for record in read_records(cast(RecordBatch, items[1]))
                ]
                assert [
                    Record(r.offset - shift, r.timestamp_ms, r.key, r.value, r.headers)
                    for r in read
                ] == whole


def test_a_batch_inside_a_record_is_no_batch() -> None:
    """Anyone may commit metadata that look like a batch; damage must not bring them to light."""
    holder = log.batch([Plain(1, 1000, b"k", b"before" + SECOND + b"after")])
    data = FIRST + flipped(holder, len(holder) - 2) + THIRD
    assert damages(walk(data)) == [(len(FIRST), len(holder), "bad-crc")]
    at_the_end = FIRST + flipped(holder, len(holder) - 2)
    assert damages(walk(at_the_end)) == [(len(FIRST), len(holder), "bad-crc")]
    # a batch that ends with the record, and not with the batch around it, is none either
    tail = log.batch([Plain(1, 1000, b"k", b"before" + SECOND)])
    assert damages(walk(FIRST + flipped(tail, 70) + THIRD)) == [(len(FIRST), len(tail), "bad-crc")]


def test_offsets_may_go_backwards() -> None:
    assert damages(walk(THIRD + FIRST + SECOND)) == []


def test_a_batch_above_the_limit_is_damage() -> None:
    big = log.batch([Plain(2, 0, None, bytes(5000))])
    items = walk(FIRST + big + THIRD, max_batch_size=4096)
    assert damages(items) == [(len(FIRST), len(big), "bad-length")]
    assert damages(walk(FIRST + big + THIRD, max_batch_size=len(big))) == []


def test_part_of_a_source() -> None:
    """A fetch response ends with part of a batch: that is no damage."""
    for size in range(len(SECOND)):
        items = list(read_batches(FIRST + SECOND[:size], final=False))
        assert [item.size for item in items] == [len(FIRST)]
    damaged = list(read_batches(FIRST + GARBAGE + SECOND + THIRD[:30], final=False))
    assert [(type(item).__name__, item.size) for item in damaged] == [
        ("RecordBatch", len(FIRST)),
        ("Damage", len(GARBAGE)),
        ("RecordBatch", len(SECOND)),
    ]


@pytest.mark.parametrize("size", range(0, len(THIRD), 7))
def test_part_of_a_source_ends_in_damage(size: int) -> None:
    """What is cut off behind damage is neither read nor called damage, wherever the cut is."""
    data = FIRST + GARBAGE + THIRD[:size]
    items = list(read_batches(data, final=False))
    end = items[-1].position + items[-1].size
    assert isinstance(items[-1], Damage)
    assert min(len(FIRST + GARBAGE), len(data) - 61) <= end <= len(FIRST + GARBAGE)


def test_empty() -> None:
    assert walk(b"") == []


# ---- damage inside batches whose checksum is right


def plain_body(*plain: Plain) -> bytes:
    return b"".join(log.record(one) for one in plain)


TWO = (Plain(0, 0, b"k", b"v" * 20), Plain(1, 0, b"l", b"w" * 20))
ONE_SIZE = len(plain_body(TWO[0]))
WRONG_BODIES = {
    # name: (body, count, whole records, words of the reason)
    "count too small": (plain_body(*TWO), 1, 1, f"found {ONE_SIZE} bytes after them"),
    "count too large": (plain_body(*TWO), 3, 2, "record 3 of 3"),
    "count zero": (plain_body(*TWO), 0, 0, "Expected 0 records"),
    "count negative": (plain_body(*TWO), -1, 0, "found -1"),
    "no records": (b"", 2, 0, "record 1 of 2"),
    "cut": (plain_body(*TWO)[:-3], 2, 1, "record 2 of 2"),
    "length too large": (
        plain_body(TWO[0]) + b"\x7e" + plain_body(TWO[1])[1:],
        2,
        1,
        "Expected 63 bytes of",
    ),
    "length too small": (plain_body(TWO[0]) + b"\x20" + plain_body(TWO[1])[1:], 2, 1, "16 bytes"),
    "length negative": (
        plain_body(TWO[0]) + b"\x03" + plain_body(TWO[1])[1:],
        2,
        1,
        "Expected -2 bytes of",
    ),
    "over-long number": (b"\x80" * 6 + plain_body(*TWO), 2, 0, "at most 5 bytes"),
    "over-long timestamp": (log.varint(30) + b"\x00" + b"\x80" * 29, 1, 0, "at most 10 bytes"),
    "cut number": (b"\x80", 1, 0, "end in its middle"),
    "key too long": (log.varint(8) + b"\x00\x00\x00" + b"\x7e" + b"abcd", 1, 0, "end in its"),
    "negative headers": (log.varint(6) + b"\x00\x00\x00\x01\x01\x01", 1, 0, "found -1"),
    "too many headers": (log.varint(6) + b"\x00\x00\x00\x01\x01\x7e", 1, 0, "found 63"),
    "header without key": (
        log.varint(8) + b"\x00\x00\x00\x01\x01\x02\x01\x01",
        1,
        0,
        "size of -1",
    ),
}


@pytest.mark.parametrize("codec", log.CODECS)
@pytest.mark.parametrize("name", WRONG_BODIES)
def test_records_that_contradict_their_batch(name: str, codec: str) -> None:
    body, count, whole, words = WRONG_BODIES[name]
    data = log.batch(
        [*TWO], codec=codec, count=count, last_offset_delta=9, body=log.compress(codec, body)
    )
    if codec == "zstd" and not body:
        assert bytes(data[61:])  # an empty frame, not nothing
    (batch,) = list(read_batches(THIRD + data))[1:]
    assert isinstance(batch, RecordBatch)
    *read, damage = read_records(batch)
    assert read == [as_record(plain) for plain in TWO[:whole]]
    assert isinstance(damage, Damage)
    assert damage.kind == "bad-record"
    assert words in damage.reason
    if codec == "none":
        # exactly the bytes from the first one that was not understood
        at = len(THIRD) + 61 + whole * ONE_SIZE
        assert (damage.position, damage.size) == (at, len(THIRD) + len(data) - at)
    else:
        assert (damage.position, damage.size) == (len(THIRD), len(data))
        assert f"byte {whole * ONE_SIZE} of {len(body)}" in damage.reason


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_unknown_codecs(magic: int) -> None:
    codecs = range(5, 8) if magic == 2 else range(4, 8)
    for codec in codecs:
        if magic == 2:
            data = log.batch([Plain(0)], flags=codec)
        else:
            data = log.message(0, None, b"v", magic=magic, attributes=codec)
        batch = only(data)
        assert batch.compression == ("zstd" if codec == 4 else "unknown")
        (damage,) = read_records(batch)
        assert isinstance(damage, Damage)
        assert damage.kind == "bad-compression"


@pytest.mark.parametrize("codec", log.CODECS[1:])
def test_damaged_compression_is_the_whole_batch(codec: str) -> None:
    data = log.batch([*TWO], codec=codec, body=b"\x01\x02\x03nothing that was compressed")
    (damage,) = read_records(only(data))
    assert damage == Damage(0, len(data), "bad-compression", cast(Damage, damage).reason)


@pytest.mark.parametrize("codec", log.CODECS[1:])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_bombs(codec: str, magic: int) -> None:
    written = [Plain(0, -1, b"k", bytes(100_000))]
    if magic < 2 and codec == "zstd":
        return  # refused whatever its size
    data = (
        log.batch(written, codec=codec)
        if magic == 2
        else log.message_set(written, magic=magic, codec=codec)
    )
    (damage,) = read_records(only(data), max_uncompressed=100_000)
    assert isinstance(damage, Damage)
    assert (damage.position, damage.size, damage.kind) == (0, len(data), "too-large")
    assert list(read_records(only(data), max_uncompressed=101_000)) == [
        as_record(written[0], magic=magic)
    ]


def wrapper(inside: bytes, *, magic: int = 1, offset: int = 9) -> bytes:
    return log.message(offset, None, log.compress("gzip", inside), magic=magic, attributes=1)


GOOD = log.message(8, b"k", b"v")
LAST = log.message(9, b"l", b"w")
WRONG_INSIDE = {
    # name: (what is inside, offsets that are read, words of the reason)
    "nothing": (b"", [], "found none"),
    "wrong checksum": (GOOD[:-1] + b"!" + LAST, [9], "offset 8"),
    "compressed again": (wrapper(GOOD) + LAST, [9], "compressed once more"),
    "format 2": (SECOND + LAST, [9], "format 0 or 1"),
    "cut header": (GOOD + LAST + LAST[:7], [8, 9], "header of 12 bytes, found 7"),
    "cut message": (GOOD + LAST + LAST[:20], [8, 9], "found 8 left"),
    "short length": (GOOD + LAST + with_length(LAST, 5), [8, 9], "size of 5"),
    "only a cut one": (GOOD[:20], [], "found 8 left"),
}


@pytest.mark.parametrize("name", WRONG_INSIDE)
def test_messages_that_contradict_their_wrapper(name: str) -> None:
    inside, offsets, words = WRONG_INSIDE[name]
    data = wrapper(inside)
    items = list(read_records(only(data)))
    assert [item.offset for item in items if isinstance(item, Record)] == offsets
    (damage,) = [item for item in items if isinstance(item, Damage)]
    assert (damage.position, damage.size, damage.kind) == (0, len(data), "bad-record")
    assert words in damage.reason


def test_wrapper_offset_below_those_inside() -> None:
    (damage,) = read_records(only(wrapper(LAST, offset=5)))
    assert isinstance(damage, Damage)
    assert "Expected the offset 5" in damage.reason


def test_wrapper_without_value() -> None:
    (damage,) = read_records(only(log.message(3, b"k", None, attributes=1)))
    assert isinstance(damage, Damage)
    assert "found null" in damage.reason


def raw_message(checked: bytes) -> bytes:
    return struct.pack(">qiI", 3, 4 + len(checked), zlib.crc32(checked)) + checked


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (struct.pack(">i", 500) + bytes(8), "a key of 500 bytes"),
        (struct.pack(">ii", -1, 500) + bytes(8), "a value of 500 bytes, found 8"),
        (struct.pack(">i", 5) + b"abcde", "a key of 5 bytes and a value"),
    ],
)
@pytest.mark.parametrize("magic", [0, 1])
def test_message_fields_that_contradict_its_size(magic: int, rest: bytes, words: str) -> None:
    head = struct.pack(">bb", magic, 0) + (bytes(8) if magic else b"")
    (damage,) = read_records(only(raw_message(head + rest)))
    assert isinstance(damage, Damage)
    assert damage.kind == "bad-record"
    assert words in damage.reason


# ---- any bytes


def sample_log(rng: random.Random) -> bytes:
    """A few batches of all kinds."""
    parts = []
    offset = 0
    for _ in range(rng.randrange(1, 7)):
        written = []
        for _ in range(rng.randrange(1, 4)):
            written.append(Plain(offset, 1000, rng.randbytes(rng.randrange(9)), b"v" * 30))
            offset += rng.randrange(1, 5)
        magic = rng.randrange(3)
        codec = rng.choice(log.CODECS[: 5 if magic == 2 else 4])
        if magic == 2:
            parts.append(log.batch(written, codec=codec))
        else:
            parts.append(log.message_set(written, magic=magic, codec=codec))
    return b"".join(parts)


def read_all(data: bytes) -> None:
    for item in walk(data):
        if isinstance(item, RecordBatch):
            for found in read_records(item, max_uncompressed=100_000):
                if isinstance(found, Damage):
                    assert item.position <= found.position
                    assert found.position + found.size <= item.position + item.size
                else:
                    assert isinstance(found, Record)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    read_all(data)


@given(st.lists(st.sampled_from([b"\x00", b"\x01", b"\x02", b"\xff", b"\x10"]), max_size=300))
def test_any_bytes_of_few_values(data: list[bytes]) -> None:
    read_all(b"".join(data))


@given(st.randoms(use_true_random=False), st.data())
def test_any_damage_to_a_log(rng: random.Random, draw: st.DataObject) -> None:
    data = bytearray(sample_log(rng))
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(data)))
        kind = draw.draw(st.sampled_from(["set", "insert", "delete", "zero", "cut", "hide"]))
        size = draw.draw(st.integers(1, 40))
        if kind == "set" and at < len(data):
            data[at] = draw.draw(st.integers(0, 255))
        elif kind == "insert":
            data[at:at] = draw.draw(st.binary(max_size=40))
        elif kind == "delete":
            del data[at : at + size]
        elif kind == "zero":
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif kind == "cut":
            del data[at:]
        elif kind == "hide" and len(data) > 61 and data[16] == 2:
            (length,) = struct.unpack_from(">i", data, 8)
            if 49 <= length <= len(data) - 12:
                crc = google_crc32c.value(bytes(data[21 : 12 + length]))
                struct.pack_into(">I", data, 17, crc)
    read_all(bytes(data))


@given(st.randoms(use_true_random=False), st.integers(0, 2000), st.integers(0, 300))
def test_what_stands_around_damage_is_read(rng: random.Random, at: int, size: int) -> None:
    """Random bytes in place of some bytes cost the batches that they touch, and no other."""
    sound = sample_log(rng)
    at %= len(sound)
    noise = rng.randbytes(min(size, len(sound) - at))
    data = sound[:at] + noise + sound[at + len(noise) :]
    for item in read_batches(sound):
        end = item.position + item.size
        if end <= at or item.position >= at + len(noise):
            assert item in list(read_batches(data)), item


# ---- bounded work and memory


class Endless(io.RawIOBase):
    """A file of so many bytes that are made as they are read."""

    def __init__(self, size: int, pattern: bytes) -> None:
        self._size = size
        self._at = 0
        self._period = len(pattern)
        self._block = pattern * (2 + (1 << 20) // len(pattern))

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        start = self._at % self._period
        part = self._block[start : start + min(size, self._size - self._at)]
        self._at += len(part)
        return part


PATTERNS = {
    "zeros": bytes(16),
    "ones": b"\x01",
    "twos": b"\x02",
    "text": b"neither a batch nor a record, ",
    "headers that claim 400 KB": with_length(FIRST, 400_000)[:61],
    "batches with a wrong checksum": flipped(FIRST, 70),
    "whole batches": FIRST + SECOND,
    "messages that claim 400 KB": log.message(5, None, b"")[:8]
    + struct.pack(">iIbbqii", 400_000, 0, 1, 0, 7, -1, 400_000 - 22),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held of a file does not grow with it, whatever its headers claim."""
    held = []
    read_on = ByteWindow._read_on

    def read_on_and_look(window: ByteWindow, missing: int) -> None:
        read_on(window, missing)
        held.append(len(window.data))

    monkeypatch.setattr(ByteWindow, "_read_on", read_on_and_look)
    size = 5 << 20
    file = Endless(size, PATTERNS[name])
    position = 0
    for item in read_file_batches(cast(BinaryIO, file), chunk_size=1 << 16, max_batch_size=1 << 19):
        position += item.size
        assert isinstance(item, Damage) or name == "whole batches"
    assert position == size
    assert len(held) > 2
    piece = 1 << 18  # that is searched at once
    assert max(held) <= 2 * ((1 << 19) + piece + (1 << 16))
    assert sum(held) <= 8 * size  # nor is it copied again for each step


def counted_crcs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes over which checksums are made from now on."""
    sizes: list[int] = []

    for module in (batch_v2, message_set):
        right = module.has_right_crc

        def count(data: memoryview, right: Any = right) -> bool:
            sizes.append(len(data))
            return bool(right(data))

        monkeypatch.setattr(module, "has_right_crc", count)
    return sizes


def hostile(step: int, length: int) -> Iterator[bytes]:
    """Headers that are plausible, one close behind the other, each claiming many bytes."""
    for offset in range(300):
        header = bytearray(log.batch([Plain(offset, 1000, b"k", b"v")])[:61])
        struct.pack_into(">i", header, 8, length)
        yield bytes(header) + bytes(max(0, step - 61))


def test_checksum_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every header claims the next 200 KB: without a bound that is 300 times 200 KB."""
    data = b"".join(hostile(64, 200_000)) + random.Random(5).randbytes(300_000)
    sizes = counted_crcs(monkeypatch)
    limit = 250_000
    (damage,) = read_batches(data, max_batch_size=limit)
    assert isinstance(damage, Damage)
    assert "passed over" in damage.reason
    assert sum(sizes) <= 4 * limit + 8 * len(data)
    assert sum(size > 100_000 for size in sizes) > 3  # it did try


def test_every_byte_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each of many small batches is damaged by itself."""
    looked_through = 0
    plausible = batch_search._plausible

    def count_and_look(data: memoryview, count: int, max_length: int) -> list[int]:
        nonlocal looked_through
        looked_through += count
        return plausible(data, count, max_length)

    monkeypatch.setattr(batch_search, "_plausible", count_and_look)
    data = (FIRST + flipped(SECOND, 80)) * 500
    assert len(list(read_batches(data))) == 1000
    assert looked_through <= len(data)


def test_work_bound_does_not_cost_sound_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(hostile(64, 200_000)) + random.Random(5).randbytes(300_000) + FIRST + SECOND
    items = list(read_batches(data, max_batch_size=250_000))
    assert [type(item) for item in items] == [Damage, RecordBatch, RecordBatch]
    sizes = counted_crcs(monkeypatch)
    sound = FIRST * 50
    assert len(list(read_batches(sound))) == 50
    assert sum(sizes) == len(sound)  # a sound file is summed once
