"""Copies of recorded segments, damaged on purpose, and what each damage must cost.

What must be lost follows from the layout that Kafka's dump tool tells, and from the place of the
damage: a batch of which any byte that its checksum covers is gone or changed is lost, every other
batch is not. Random choices come from one seed.

A batch of message format v2, the positions used below:
    0 base offset (8), 8 length (4), 12 leader epoch (4), 16 magic (1), 17 CRC-32C (4) of all that
    follows: 21 attributes (2) … 57 number of records (4), 61 records
A message of v0 and v1:
    0 offset (8), 8 length (4), 12 CRC-32 (4) of all that follows: 16 magic (1), 17 attributes (1),
    v1 only: timestamp (8), then key and value with their lengths
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import google_crc32c

from tests.record.layout import Batch, layout
from tests.record.recording import DATA, Recording

SEED = 20240229

SOURCES = {
    "v2": "append-time-4.3.1-none/__consumer_offsets-0",
    "v2-gzip": "kafka-4.3.1-gzip/__consumer_offsets-0",
    "v2-zstd": "kafka-4.3.1-zstd/__consumer_offsets-0",
    "v1": "append-time-0.10.2.2-none/__consumer_offsets-0",
    "v1-lz4": "kafka-0.10.2.2-lz4/__consumer_offsets-0",
    "v0": "kafka-0.8.2.2-none/__consumer_offsets-0",
    "v0-snappy": "kafka-0.8.2.2-snappy/__consumer_offsets-0",
}
"""What is damaged, by the prefix of the cases' names: message format and codec."""

SEGMENT = f"{0:020}.log"


@dataclass(frozen=True, slots=True)
class Case:
    """A damaged copy.

    Attributes:
        data: the bytes of the copy.
        change: one sentence: which byte was changed, and how.
        lost: batches of which no record may be read.
        uncertain: batches whose checksum is right though their records are not: what can be read
            of them may be read.
    """

    data: bytes
    change: str
    lost: tuple[Batch, ...] = ()
    uncertain: tuple[Batch, ...] = ()


Damager = Callable[[bytes, list[Batch], random.Random], Case]


def record_damaged(recording: Recording) -> None:
    """Make every damaged copy; the manifest has, for each, offsets lost and surviving."""
    recording.note(seed=SEED, layout="kafka-dump-log --deep-iteration of 4.3.1")
    cases: dict[str, dict[str, Any]] = {}
    for prefix, source in SOURCES.items():
        segment = DATA / source / SEGMENT
        data, batches = segment.read_bytes(), layout(segment)
        for name, damager in DAMAGERS.items():
            if name in ONLY_V2 and batches[0].magic != 2:
                continue
            if name in ONLY_COMPRESSED and "-" not in prefix:
                continue
            case = damager(data, batches, random.Random(f"{SEED} {prefix} {name}"))
            path = f"{prefix}-{name}/__consumer_offsets-0/{SEGMENT}"
            target = recording.kept / path
            target.parent.mkdir(parents=True)
            target.write_bytes(case.data)
            touched = {*case.lost, *case.uncertain}
            cases[f"{prefix}-{name}"] = {
                "file": path,
                "source": f"{source}/{SEGMENT}",
                "change": case.change,
                "position": _first_change(data, case.data),
                "lost": _offsets(case.lost),
                "uncertain": _offsets(case.uncertain),
                "survive": _offsets(batch for batch in batches if batch not in touched),
            }
    recording.did(f"made {len(cases)} damaged copies of {len(SOURCES)} recorded segments")
    recording.note(cases=cases)


def _first_change(source: bytes, copy: bytes) -> int:
    """Byte position from which on a copy is another; a checksum made right counts."""
    for position, (before, after) in enumerate(zip(source, copy, strict=False)):
        if before != after:
            return position
    return min(len(source), len(copy))


def _offsets(batches: Any) -> list[int]:
    return [offset for batch in batches for offset in batch.offsets]


def _middle(batches: list[Batch]) -> Batch:
    return batches[len(batches) // 2]


def _put(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


def cut_at_header(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    last = batches[-1]
    cut = last.position + 10
    return Case(data[:cut], f"cut at byte {cut}, inside the last batch's length", (last,))


def cut_after_length(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    last = batches[-1]
    cut = last.position + 12
    return Case(data[:cut], f"cut at byte {cut}, behind the last batch's length", (last,))


def cut_in_body(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    middle = _middle(batches)
    cut = middle.position + middle.size * 3 // 4
    lost = tuple(batch for batch in batches if batch.end > cut)
    return Case(data[:cut], f"cut at byte {cut}, in the middle of a batch", lost)


def one_byte_short(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    return Case(data[:-1], "the last byte is gone", (batches[-1],))


def zeros_at_end(data: bytes, _: list[Batch], __: random.Random) -> Case:
    return Case(data + bytes(1000), "1000 bytes of zeros behind the last batch")


def garbage_at_end(data: bytes, _: list[Batch], dice: random.Random) -> Case:
    garbage = dice.randbytes(777)
    return Case(data + garbage, "777 random bytes behind the last batch")


def half_batch_at_end(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    first = batches[0]
    half = data[first.position : first.position + first.size // 2]
    return Case(data + half, "half of the first batch again behind the last")


def garbage_at_start(data: bytes, batches: list[Batch], dice: random.Random) -> Case:
    size = min(40, batches[0].size)
    change = f"the first {size} bytes overwritten with random ones"
    return Case(_put(data, 0, dice.randbytes(size)), change, (batches[0],))


def flipped_bit_in_body(data: bytes, batches: list[Batch], dice: random.Random) -> Case:
    batch = _middle(batches)
    first = batch.position + (61 if batch.magic == 2 else 34)
    position = dice.randrange(first, batch.end)
    bit = 1 << dice.randrange(8)
    flipped = _put(data, position, bytes([data[position] ^ bit]))
    return Case(flipped, f"bit {bit:#x} of byte {position} flipped, in the body", (batch,))


def flipped_bit_in_crc(data: bytes, batches: list[Batch], dice: random.Random) -> Case:
    batch = _middle(batches)
    position = batch.position + (17 if batch.magic == 2 else 12) + dice.randrange(4)
    bit = 1 << dice.randrange(8)
    flipped = _put(data, position, bytes([data[position] ^ bit]))
    change = f"bit {bit:#x} of byte {position} flipped, in the checksum"
    return Case(flipped, change, (batch,))


def two_batches_damaged(data: bytes, batches: list[Batch], dice: random.Random) -> Case:
    first, second = batches[1], batches[-2]
    for batch in (first, second):
        position = batch.end - 1 - dice.randrange(8)
        data = _put(data, position, bytes([data[position] ^ 0xFF]))
    change = "a byte near the end of the second batch and of the last but one inverted"
    return Case(data, change, tuple(dict.fromkeys((first, second))))


def hole_of_zeros(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    batch, following = _middle(batches), batches[len(batches) // 2 + 1]
    start, end = batch.position + batch.size // 2, following.position + following.size // 2
    change = f"bytes {start} to {end} are zeros: the half of a batch and the half of the next"
    return Case(_put(data, start, bytes(end - start)), change, (batch, following))


def whole_batch_of_zeros(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    batch = _middle(batches)
    change = f"bytes {batch.position} to {batch.end}, exactly a batch, are zeros"
    return Case(_put(data, batch.position, bytes(batch.size)), change, (batch,))


def missing_piece(data: bytes, batches: list[Batch], _: random.Random) -> Case:
    batch, following = _middle(batches), batches[len(batches) // 2 + 1]
    # Not half and half: the halves of two commits with equal metadata would make a sound one.
    start, end = batch.position + batch.size // 2, following.position + following.size // 2 + 3
    change = f"bytes {start} to {end} of the source are missing, what follows moved up"
    return Case(data[:start] + data[end:], change, (batch, following))


def _length(number: int, what: str) -> Damager:
    def damager(data: bytes, batches: list[Batch], _: random.Random) -> Case:
        batch = _middle(batches)
        position = batch.position + 8
        new = number if what != "longer" else batch.size - 12 + number
        change = f"the length at byte {position} says {new}, not {batch.size - 12}"
        return Case(_put(data, position, struct.pack(">i", new)), change, (batch,))

    return damager


def _magic(number: int) -> Damager:
    def damager(data: bytes, batches: list[Batch], _: random.Random) -> Case:
        batch = _middle(batches)
        position = batch.position + 16
        change = f"the magic at byte {position} says {number}, not {batch.magic}"
        return Case(_put(data, position, struct.pack(">b", number)), change, (batch,))

    return damager


def _resealed(data: bytes, batch: Batch, position: int, new: bytes) -> bytes:
    """Change bytes inside a batch and make its checksum right again."""
    data = _put(data, position, new)
    if batch.magic == 2:
        checksum = google_crc32c.value(data[batch.position + 21 : batch.end])
        return _put(data, batch.position + 17, struct.pack(">I", checksum))
    checksum = zlib.crc32(data[batch.position + 16 : batch.end])
    return _put(data, batch.position + 12, struct.pack(">I", checksum))


def bad_compression(data: bytes, batches: list[Batch], dice: random.Random) -> Case:
    batch = _middle(batches)
    quarter = batch.size // 4
    position = batch.end - quarter - 8
    changed = _resealed(data, batch, position, dice.randbytes(quarter))
    change = f"{quarter} compressed bytes at {position} are random, the checksum is right"
    return Case(changed, change, (), (batch,))


def record_count(number: int) -> Damager:
    def damager(data: bytes, batches: list[Batch], _: random.Random) -> Case:
        batch = _middle(batches)
        position = batch.position + 57
        (old,) = struct.unpack_from(">i", data, position)
        new = number if number > 1 else old + number
        changed = _resealed(data, batch, position, struct.pack(">i", new))
        change = f"the record count at byte {position} says {new}, not {old}; right checksum"
        return Case(changed, change, (), (batch,))

    return damager


DAMAGERS: dict[str, Damager] = {
    "cut-at-header": cut_at_header,
    "cut-after-length": cut_after_length,
    "cut-in-body": cut_in_body,
    "one-byte-short": one_byte_short,
    "zeros-at-end": zeros_at_end,
    "garbage-at-end": garbage_at_end,
    "half-batch-at-end": half_batch_at_end,
    "garbage-at-start": garbage_at_start,
    "flipped-bit-in-body": flipped_bit_in_body,
    "flipped-bit-in-crc": flipped_bit_in_crc,
    "two-batches-damaged": two_batches_damaged,
    "hole-of-zeros": hole_of_zeros,
    "whole-batch-of-zeros": whole_batch_of_zeros,
    "missing-piece": missing_piece,
    "length-longer": _length(7, "longer"),
    "length-shorter": _length(-7, "longer"),
    "length-huge": _length(2**31 - 1, "huge"),
    "length-negative": _length(-1, "negative"),
    "length-zero": _length(0, "zero"),
    "magic-3": _magic(3),
    "magic-negative": _magic(-1),
    "bad-compression": bad_compression,
    "record-count-too-high": record_count(1),
    "record-count-too-low": record_count(-1),
    "record-count-huge": record_count(2**31 - 1),
}

ONLY_V2 = {"record-count-too-high", "record-count-too-low", "record-count-huge"}
ONLY_COMPRESSED = {"bad-compression"}
