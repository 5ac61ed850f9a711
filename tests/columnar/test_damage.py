"""Damage between batches: it is named, and what stands around it is read."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.protocol.batch import batch_v2, message_set, record_batch
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.byte_window import ByteWindow
from kgroup.protocol.batch.record_batch import read_batches, read_file_batches, read_records
from tests.columnar import log_writer as log
from tests.columnar.log_walk import (
    FIRST,
    FOURTH,
    SECOND,
    THIRD,
    damages,
    flipped,
    only,
    walk,
    with_length,
)
from tests.columnar.log_writer import Plain
from tests.examples import examples, some_of

# ---- damage between batches

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
    assert [bytes(cast("RecordBatch", item).data) for item in (first, *rest)] == [
        FIRST,
        follower,
        FIRST,
    ]


@pytest.mark.slow
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
    for place in some_of(range(8 * len(batch)), 7):
        at, bit = divmod(place, 8)
        items = walk(FIRST + flipped(batch, at, bit) + THIRD)
        assert isinstance(items[-1], RecordBatch)
        assert bytes(items[-1].data) == THIRD
        if at not in UNCHECKED[magic] or (at == 0 and bit == 7):
            assert damages(items)[0][:2] == (len(FIRST), len(batch))
            assert len(items) == 3
        else:
            assert damages(items) == []
            shift = cast("RecordBatch", items[1]).last_offset - only(batch).last_offset
            read = [
                cast("Record", record) for record in read_records(cast("RecordBatch", items[1]))
            ]
            assert [
                Record(r.offset - shift, r.timestamp_ms, r.key, r.value, r.headers) for r in read
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
            for record in read_records(item, max_uncompressed=100_000):
                if isinstance(record, Damage):
                    assert item.position <= record.position
                    assert record.position + record.size <= item.position + item.size
                else:
                    assert isinstance(record, Record)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(list(PATTERNS), 2))
def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held of a file does not grow with it, whatever its headers claim."""
    held = []
    has = ByteWindow.has

    def look(window: ByteWindow, position: int, size: int) -> bool:
        before = window.data
        found = has(window, position, size)
        if window.data is not before:
            held.append(len(window.data))
        return found

    monkeypatch.setattr(ByteWindow, "has", look)
    size = examples(2, 3) << 20
    file = Endless(size, PATTERNS[name])
    position = 0
    for item in read_file_batches(
        cast("BinaryIO", file), chunk_size=1 << 16, max_batch_size=1 << 19
    ):
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
    plausible = record_batch.plausible_headers

    def count_and_look(data: memoryview, count: int, max_length: int) -> list[int]:
        nonlocal looked_through
        looked_through += count
        return plausible(data, count, max_length)

    monkeypatch.setattr(record_batch, "plausible_headers", count_and_look)
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
