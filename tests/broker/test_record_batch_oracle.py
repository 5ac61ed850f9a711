"""Kafka's own writers and readers against ours: random batches, and random damage to them."""

from __future__ import annotations

import gzip
import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from tests.broker.maven import compile_java, run_java
from tests.examples import in_depth

JAVA = Path(__file__).parent / "java"
VERSION = "4.3.1"
THOUSAND = in_depth(1000, 300)
"""What counts for a thousand: fewer in `make test`."""
Line = dict[str, Any]

TIMESTAMP_TYPES = {"NoTimestampType": None, "CreateTime": "create", "LogAppendTime": "log_append"}


@pytest.fixture(scope="module")
def classes() -> Path:
    return compile_java([JAVA / "RandomBatches.java"], VERSION)


def dump(classes: Path, cases: Path) -> Iterator[list[Line]]:
    """What Kafka's reader sees in each case: its batches, and how it ended."""
    out = cases.with_suffix(".jsonl")
    run_java(VERSION, "RandomBatches", ["dump", str(cases), str(out)], classes=classes)
    lines: list[Line] = []
    with out.open() as file:
        for text in file:
            lines.append(json.loads(text))
            if "end" in lines[-1]:
                yield lines
                lines = []


def read_cases(path: Path) -> list[bytes]:
    data = path.read_bytes()
    cases = []
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        cases.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return cases


def write_cases(path: Path, cases: list[bytes]) -> None:
    path.write_bytes(b"".join(struct.pack(">i", len(case)) + case for case in cases))


def unknown(number: int) -> int | None:
    """Kafka's -1 as ours."""
    return None if number == -1 else number


def check_header(batch: RecordBatch, line: Line) -> None:
    """Compare every field that Kafka's reader shows with ours."""
    is_v2 = line["magic"] == 2
    ours = (
        batch.size,
        batch.magic,
        batch.base_offset,
        batch.last_offset,
        batch.compression,
        batch.timestamp_type,
        batch.max_timestamp_ms,
        batch.base_timestamp_ms,
        batch.delete_horizon_ms,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        batch.is_control,
        batch.record_count,
    )
    theirs = (
        line["size"],
        line["magic"],
        line.get("base_offset"),
        line["last_offset"],
        line["compression"],
        TIMESTAMP_TYPES[line["timestamp_type"]],
        unknown(line["max_timestamp"]),
        unknown(line.get("base_timestamp", -1)),
        line.get("delete_horizon"),
        unknown(line["leader_epoch"]),
        unknown(line["producer_id"]),
        unknown(line["producer_epoch"]),
        unknown(line["base_sequence"]),
        line["is_transactional"],
        line["is_control"],
        line["count"] if is_v2 else (1 if line["compression"] == "none" else None),
    )
    assert ours == theirs


def plain(record: Record) -> list[Any]:
    """Our record in the form of Kafka's line."""
    return [
        record.offset,
        -1 if record.timestamp_ms is None else record.timestamp_ms,
        None if record.key is None else record.key.hex(),
        None if record.value is None else record.value.hex(),
        [
            [key.encode().hex(), None if value is None else value.hex()]
            for key, value in record.headers
        ],
    ]


def check_sound(case: bytes, lines: list[Line]) -> int:
    """Compare a case that nobody damaged; give the number of its batches."""
    batches = list(read_batches(case))
    assert lines[-1] == {"end": len(case), "error": None}
    assert len(batches) == len(lines) - 1
    for batch, line in zip(batches, lines, strict=False):
        assert isinstance(batch, RecordBatch), batch
        assert batch.position == line["position"]
        check_header(batch, line)
        assert line["error"] is None
        records = []
        for record in read_records(batch):
            assert isinstance(record, Record), record
            records.append([*plain(record), True])
        assert records == line["records"]
    return len(batches)


def test_reads_what_kafka_reads(classes: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    run_java(
        VERSION, "RandomBatches", ["write", "3", str(6 * THOUSAND), str(cases)], classes=classes
    )
    batches = [
        check_sound(case, lines)
        for case, lines in zip(read_cases(cases), dump(classes, cases), strict=True)
    ]
    assert sum(batches) >= 5 * THOUSAND


@pytest.mark.parametrize("version", ["0.8.2.2", "0.9.0.1"])
def test_reads_what_old_kafka_wrote(version: str, classes: Path, tmp_path: Path) -> None:
    old_classes = compile_java([JAVA / "OldBatches.java"], version)
    cases = tmp_path / "cases"
    run_java(version, "OldBatches", ["5", "300", str(cases)], classes=old_classes)
    codecs = set()
    for case, lines in zip(read_cases(cases), dump(classes, cases), strict=True):
        check_sound(case, lines)
        codecs.add(lines[0]["compression"])
    assert codecs == {"none", "gzip", "snappy", "lz4"}


def mutated(rng: random.Random, case: bytes) -> bytes:
    """The case with a little damage to one of its batches, often with a checksum that hides it."""
    batches = [batch for batch in read_batches(case) if isinstance(batch, RecordBatch)]
    batch = rng.choice(batches)
    data = bytearray(batch.data)
    if batch.compression == "gzip" and rng.random() < 0.5:
        head = 61 if batch.magic == 2 else (26, 34)[batch.magic]
        inside = bytearray(gzip.decompress(data[head:]))
        scratch(rng, inside)
        data[head:] = gzip.compress(inside)
        if batch.magic < 2:
            struct.pack_into(">i", data, head - 4, len(data) - head)
        hide(data)
    else:
        scratch(rng, data)
        if rng.random() < 0.7:
            hide(data)
    whole = case[: batch.position] + data + case[batch.position + batch.size :]
    return whole[: rng.randrange(len(whole))] if rng.random() < 0.1 else whole


def scratch(rng: random.Random, data: bytearray) -> None:
    """Change, remove or insert some bytes, most often near the start."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not data:
            return
        kind = rng.randrange(8)
        at = rng.randrange(min(len(data), rng.choice((20, 80, len(data)))))
        if kind < 3:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 6:
            data[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 6:
            del data[at : at + rng.randrange(16)]
        else:
            data[at:at] = rng.randbytes(rng.randrange(16))


def hide(data: bytearray) -> None:
    """Give a batch the length and the checksum that its bytes should have."""
    if len(data) < 26:
        return
    struct.pack_into(">i", data, 8, len(data) - 12)
    if data[16] == 2:
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    else:
        struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))


def check_damaged(case: bytes, lines: list[Line]) -> tuple[int, int]:
    """Compare a damaged case; give the numbers of refused and of accepted batches.

    What Kafka's reader refuses we must report as damage. What it takes we must read alike; where
    it is silent about bytes that it leaves out we may report these, after the same records.
    """
    found = list(read_batches(case))
    position = 0
    for item in found:
        assert item.position == position
        position += item.size
    assert position == len(case)
    batches = {item.position: item for item in found if isinstance(item, RecordBatch)}
    refused = accepted = 0
    is_framed = True  # behind a wrong checksum Kafka's reader follows a length that may be wrong
    for line in lines[:-1]:
        start = line["position"]
        batch = batches.get(start)
        if "invalid" in line:
            assert batch is None
            if is_framed:
                assert is_in_damage(start, found)
            is_framed = False
            refused += 1
            continue
        if batch is None:
            # Kafka's reader looks at nothing but the checksum; these it cannot use either
            (offset,) = struct.unpack_from(">q", case, start)
            assert (
                offset < 0
                or line.get("last_offset", -1) < 0
                or (line["size"] < 34 and line.get("magic") != 0)
            ), line
            refused += 1
            continue
        items = list(read_records(batch))
        damages = [item for item in items if isinstance(item, Damage)]
        records = [plain(item) for item in items if isinstance(item, Record)]
        if "unreadable" in line:
            assert damages
            assert not records
            refused += 1
            continue
        check_header(batch, line)
        valid = [record[:-1] for record in line["records"] if record[-1]]
        if line["error"] is not None or len(valid) < len(line["records"]):
            assert damages, line
            refused += 1
        else:
            accepted += 1
            if not any("unknown header flags" in damage.reason for damage in damages):
                assert records == valid
            assert not damages or is_silent(batch, damages), damages
    if is_framed and lines[-1]["end"] < len(case):
        assert is_in_damage(lines[-1]["end"], found)
    return refused, accepted


def is_in_damage(position: int, found: list[RecordBatch | Damage]) -> bool:
    return any(
        isinstance(item, Damage) and item.position <= position < item.position + item.size
        for item in found
    )


def is_silent(batch: RecordBatch, damages: list[Damage]) -> bool:
    """Whether the damage is one that Kafka's reader passes over without a word."""
    if batch.compression == "gzip" and "unknown header flags" in damages[0].reason:
        return True  # RFC 1952 wants an error where reserved flags are set; Java gives none
    if batch.magic == 2:
        return batch.record_count == 0  # bytes behind a count of 0
    return [damage.kind for damage in damages] == ["bad-record"]  # a message set's cut end


def test_damage_is_refused_where_kafka_refuses(classes: Path, tmp_path: Path) -> None:
    rng = random.Random(11)
    sound = tmp_path / "sound"
    run_java(
        VERSION, "RandomBatches", ["write", "7", str(3 * THOUSAND), str(sound)], classes=classes
    )
    cases = [
        mutated(rng, case) for case in read_cases(sound) if 0 < len(case) < 20_000 for _ in range(4)
    ]
    damaged = tmp_path / "damaged"
    write_cases(damaged, cases)
    refused = accepted = 0
    for case, lines in zip(cases, dump(classes, damaged), strict=True):
        counts = check_damaged(case, lines)
        refused += counts[0]
        accepted += counts[1]
    assert refused > 5 * THOUSAND
    assert accepted > THOUSAND
