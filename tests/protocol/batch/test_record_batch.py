"""Batches and messages of every format, their records, and damage inside them."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.errors import ProblemKind
from kgroup.protocol.batch import batch as limits
from kgroup.protocol.batch import batch_v2, message_set
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import (
    plausible_headers,
    read_batches,
    read_file_batches,
    read_records,
)
from tests.columnar import log_writer as log
from tests.columnar.log_walk import SECOND, THIRD, as_record, only, records, walk, with_length
from tests.columnar.log_writer import Plain

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


@pytest.mark.parametrize("size", [0, 1, 49, 50, 63, 64, 8_100, 8_191, 8_192, 1 << 20, 3 << 20])
def test_size_of_a_batch_with_one_record(size: int) -> None:
    """Around the sizes where a varint gets longer."""
    data = log.batch([Plain(7, 1000, b"key", bytes(size))])
    assert batch_v2.batch_size(3, size) == len(data)
    assert batch_v2.batch_size(size, 3) == len(data)


@given(plains(), st.sampled_from([0, 1]), st.sampled_from(log.CODECS[:4]))
def test_reads_message_sets(written: list[Plain], magic: int, codec: str) -> None:
    data = log.message_set(written, magic=magic, codec=codec)
    assert records(data) == [as_record(plain, magic=magic) for plain in written]


def test_limits_are_those_that_are_documented() -> None:
    """As docs/reference/problems.md says of `too-large`."""
    assert limits.MAX_BATCH_SIZE == limits.MAX_UNCOMPRESSED == 67_108_864
    assert (limits.MOST_RECORDS, limits.MOST_TIMES) == (1_048_576, 100)
    assert limits.MOST_INFLATED == 134_217_728


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


@pytest.mark.parametrize("codec", log.CODECS)
def test_attributes_are_bits_of_their_own(codec: str) -> None:
    """As the protocol guide has them: codec 0 to 2, timestamp, transaction, control, horizon."""
    bits = (0x08, 0x10, 0x20, 0x40)
    for absent in bits:
        batch = only(log.batch([*TWO], codec=codec, flags=sum(bits) - absent))
        is_append = batch.timestamp_type == "log_append"
        has_horizon = batch.delete_horizon_ms is not None
        said = (is_append, batch.is_transactional, batch.is_control, has_horizon)
        assert said == tuple(bit != absent for bit in bits)
        assert batch.compression == codec


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
    assert [cast("Record", record).timestamp_ms for record in read_records(batch)] == [5000, 5000]


def test_delete_horizon_is_the_base_timestamp() -> None:
    data = log.batch([Plain(0, 10), Plain(1, 20)], flags=log.DELETE_HORIZON, base_timestamp=90_000)
    batch = only(data)
    assert batch.delete_horizon_ms == batch.base_timestamp_ms == 90_000
    assert [cast("Record", record).timestamp_ms for record in read_records(batch)] == [10, 20]


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
    assert [cast("RecordBatch", item).magic for item in walk(data)] == [0, 0, 0, 1, 2]


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
    assert [cast("Record", record).offset for record in records(data)] == [10, 13]


def test_wrapper_offset_zero_means_offsets_inside_are_absolute() -> None:
    # what some versions of librdkafka produced
    inside = log.message(0, b"a", None) + log.message(1, b"b", None)
    data = log.message(0, None, log.compress("snappy", inside), attributes=2)
    assert [cast("Record", record).offset for record in records(data)] == [0, 1]


def test_log_append_time_of_a_wrapper_overrides_those_inside() -> None:
    written = [Plain(5, 100, b"a"), Plain(6, 101, b"b")]
    data = log.message_set(written, magic=1, codec="lz4", flags=log.LOG_APPEND, timestamp=9000)
    assert [cast("Record", record).timestamp_ms for record in records(data)] == [9000, 9000]


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
    body = log.varint(7) + b"\x00\x00\x00\x01\x01" + b"\x80\x00"  # no headers, as 80 00
    assert records(log.batch([Plain(0, 0)], body=body)) == [Record(0, 0, None, None, ())]


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
    "length longer than its fields": (
        log.varint(ONE_SIZE) + plain_body(TWO[0])[1:] + b"\x00" + plain_body(TWO[1]),
        2,
        0,
        f"Expected a record of {ONE_SIZE} bytes, found that its fields take {ONE_SIZE - 1}.",
    ),
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
    "more headers than memory": (
        log.varint(131_088) + b"\x00\x00\x00\x01\x01" + log.varint(65_537) + bytes(131_080),
        1,
        0,
        "at most 65536 headers, found 65537",
    ),
    "header without key": (log.varint(8) + b"\x00\x00\x00\x01\x01\x02\x01\x01", 1, 0, "size of -1"),
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
        assert f"found {'unknown' if magic == 2 else f'codec {codec}'}." in damage.reason


@pytest.mark.parametrize("codec", log.CODECS[1:])
def test_damaged_compression_is_the_whole_batch(codec: str) -> None:
    data = log.batch([*TWO], codec=codec, body=b"\x01\x02\x03nothing that was compressed")
    (damage,) = read_records(only(data))
    assert damage == Damage(
        0, len(data), ProblemKind.BAD_COMPRESSION, cast("Damage", damage).reason
    )


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
    "no message": (GOOD + LAST + LAST[:12], [8, 9], "found 0 left"),
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


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_that_is_cut_is_told_from_one_whose_header_is(magic: int) -> None:
    """Magic, by which batches are told apart, is the 17th byte of every format."""
    plain = [Plain(7, 1000, b"k", b"v")]
    data = log.batch(plain) if magic == 2 else log.message_set(plain, magic=magic)
    for size, words in (
        (16, "a batch header, found only 16 bytes"),
        (17, f"a batch of {len(data)} bytes, found 17 to the end"),
    ):
        (damage,) = read_batches(data[:size])
        assert isinstance(damage, Damage)
        assert (damage.kind, damage.reason) == (ProblemKind.TORN_TAIL, f"Expected {words}.")


class CountingFile(FileIO):
    """Counts the bytes that are read of a file."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:  # as of a file that is not buffered
        data = super().read(size)
        self.count += len(data or b"")
        return data


def test_a_preallocated_file_is_hardly_read(tmp_path: Path) -> None:
    """100 MiB with a batch at the start; the rest is a hole (`log.preallocate`)."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(THIRD)
    os.truncate(path, 100 << 20)
    with CountingFile(path) as file:
        first, rest = read_file_batches(cast("BinaryIO", file))
        assert file.count <= 1 << 17
    assert isinstance(first, RecordBatch)
    assert isinstance(rest, Damage)
    assert (rest.position, rest.size) == (len(THIRD), (100 << 20) - len(THIRD))
    assert rest.is_unwritten


# ---- where a batch may begin behind damage: what may stand in the fields of Kafka's headers


_LEAST = 61 - 12  # Kafka's `DefaultRecordBatch`: the header alone, behind offset and length
_MOST = 1 << 20


_FIELDS: dict[str, int] = {
    "offset": 5,
    "length": _LEAST,
    "epoch": 0,
    "magic": 2,
    "crc": 1,
    "attributes": 0,
    "last_delta": 9,
    "base_time": 1,
    "max_time": 1,
    "producer": -1,
    "producer_epoch": -1,
    "sequence": -1,
    "count": 10,
}


def header_v2(**fields: int) -> memoryview:
    return memoryview(struct.pack(">qiibIhiqqqhii", *(_FIELDS | fields).values()))


def message(
    key_size: int,
    value_size: int | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    offset: int = 5,
    length: int = 0,
) -> bytes:
    """A message whose sizes need not be true; without the value's if that is None."""
    sizes = struct.pack(">i", key_size) + bytes(max(key_size, 0))
    if value_size is not None:
        sizes += struct.pack(">i", value_size) + bytes(max(value_size, 0))
    body = struct.pack(">Ibb", 1, magic, attributes) + (bytes(8) if magic else b"") + sizes
    return struct.pack(">qi", offset, length or len(body)) + body


@pytest.mark.parametrize("most", [1 << 20, (1 << 25) - 1, 1 << 25, (1 << 31) - 1])
def test_a_batch_of_any_length_up_to_the_limit_may_begin(most: int) -> None:
    for length in {_LEAST, 1 << 16, 1 << 20, (1 << 24) - 1, 1 << 24, most - 1, most, most + 1}:
        if length < 1 << 31:
            data = memoryview(b"\xff" * 7 + bytes(header_v2(length=length)))
            expected = [7] if length <= most else []
            assert plausible_headers(data, 8, most) == expected, length
    assert plausible_headers(header_v2(length=_LEAST - 1), 1, most) == []


@pytest.mark.parametrize(
    ("name", "may_be", "cannot_be"),
    [
        ("offset", (0, (1 << 63) - 1), (-1, -(1 << 63))),
        ("last_delta", (0, (1 << 31) - 1), (-1, -(1 << 31))),
        ("count", (0, (1 << 31) - 1), (-1, -(1 << 31))),
        ("attributes", (0, 0x7F), (0x80, 0x100, -1, -(1 << 15))),  # there are seven
    ],
)
def test_numbers_of_a_batch_are_none_that_no_log_has(
    name: str, may_be: Sequence[int], cannot_be: Sequence[int]
) -> None:
    for value in (*may_be, *cannot_be):
        found = plausible_headers(header_v2(**{name: value}), 1, _MOST)
        assert found == ([0] if value in may_be else []), value


@pytest.mark.parametrize("magic", [0, 1])
def test_key_and_value_of_a_message_fill_it(magic: int) -> None:
    least = (14, 22)[magic]
    for key_size, value_size, length, may_be in (
        (-1, -1, least, True),
        (-1, -1, least - 1, False),
        (-1, -1, least + 1, False),
        (-2, -1, least, False),
        (-1, -2, least, False),
        (0, 0, least, True),
        (3, 4, least + 7, True),
        (3, 4, least + 6, False),
        (3, 4, least + 8, False),
        (3, None, least + 3, True),  # the bytes end before the value's size
        (3, None, least + 1000, True),
        (3, None, least + 2, False),
    ):
        header = memoryview(message(key_size, value_size, magic=magic, length=length))
        assert (plausible_headers(header, 1, _MOST) == [0]) == may_be, (key_size, value_size)
    cut = memoryview(message(99, None, magic=magic, length=least)[: (22, 30)[magic] - 1])
    assert plausible_headers(cut, 1, _MOST) == [0]  # before the key's size ends
    for attributes, may_be in ((0x0F, True), (0x10, False), (-128, False)):
        header = memoryview(message(-1, -1, magic=magic, attributes=attributes))
        assert (plausible_headers(header, 1, _MOST) == [0]) == may_be, attributes


@pytest.mark.parametrize("magic", [0, 1])
def test_fields_of_a_message_that_fit_each_other(magic: int) -> None:
    """Codecs are none, gzip, snappy and lz4; the append time is a bit of v1."""
    least, size = (14, 22)[magic], (22, 30)[magic]

    def value_at(key_size: int = -1, **fields: int) -> int | None:
        header = message(key_size, None, magic=magic, **{"length": least, **fields})
        return message_set.value_position(memoryview(header)[:size])

    assert (value_at(), value_at(0), value_at(offset=0)) == (size, size, size)
    assert value_at(7, length=least + 7) == size + 7
    assert value_at(8, length=least + 7) is None
    assert value_at(-2) is None
    assert value_at(offset=-1) is None
    taken = [each for each in range(32) if value_at(attributes=each) is not None]
    assert taken == [*range(4), *(range(8, 12) if magic else ())]


@pytest.mark.parametrize(
    ("may_be", "cannot_be"),
    [
        ({"offset": 0}, {"offset": -1}),
        ({"length": _LEAST + 70}, {"length": _LEAST + 69}),
        ({"length": _LEAST, "attributes": 1}, {"length": _LEAST, "attributes": 8}),
        ({"length": _LEAST, "count": 0}, {"count": -1}),
        ({"last_delta": 0, "count": 1}, {"last_delta": 0, "count": 2}),
        ({"last_delta": 0, "count": 0}, {"last_delta": -1, "count": 0}),
        *(
            ({name: -1}, {name: -2})  # -1: not known
            for name in (
                *("epoch", "base_time", "max_time"),
                *("producer", "producer_epoch", "sequence"),
            )
        ),
    ],
)
def test_fields_of_a_batch_that_fit_each_other(
    may_be: dict[str, int], cannot_be: dict[str, int]
) -> None:
    """A record takes seven bytes at least, if it is not compressed."""
    long = {"length": _LEAST + 70}
    assert batch_v2.is_plausible_header(header_v2(**long | may_be))
    assert not batch_v2.is_plausible_header(header_v2(**long | cannot_be))


def test_attributes_of_a_batch_name_one_of_five_codecs() -> None:
    taken = [
        each
        for each in range(-1, 256)
        if batch_v2.is_plausible_header(header_v2(length=_LEAST + 70, attributes=each))
    ]
    assert taken == [each for each in range(128) if each % 8 < 5]
