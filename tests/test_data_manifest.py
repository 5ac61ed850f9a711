"""The recorded data are whole, small, and hold what they are there for.

The bytes are walked here by a few lines of their own, so that no reader of the project vouches
for its own test data.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
SAMPLE = ROOT / "kgroup" / "sample"
NAMES = sorted(path.parent.name for path in DATA.glob("*/manifest.json"))

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

SCENARIOS = {
    # name: (message formats, codecs of batches with records)
    "sample": ({2}, {"none"}),
    "kafka-0.8.2.2-none": ({0}, {"none"}),
    "kafka-0.8.2.2-gzip": ({0}, {"gzip"}),
    "kafka-0.8.2.2-snappy": ({0}, {"snappy"}),
    "kafka-0.8.2.2-lz4": ({0}, {"lz4"}),
    "kafka-0.9.0.1": ({0}, {"none"}),
    "kafka-0.10.2.2": ({1}, {"none"}),
    "kafka-0.10.2.2-gzip": ({1}, {"gzip"}),
    "kafka-0.10.2.2-snappy": ({1}, {"snappy"}),
    "kafka-0.10.2.2-lz4": ({1}, {"lz4"}),
    "kafka-0.11.0.3": ({2}, {"none"}),
    "kafka-1.1.1": ({2}, {"none"}),
    "kafka-2.8.2": ({2}, {"none"}),
    "kafka-2.8.2-zstd": ({2}, {"zstd"}),
    "kafka-3.9.2": ({2}, {"none"}),
    "kafka-4.0.0": ({2}, {"none"}),
    "kafka-4.1.1": ({2}, {"none"}),
    "kafka-4.3.1": ({2}, {"none"}),
    "kafka-4.3.1-gzip": ({2}, {"gzip"}),
    "kafka-4.3.1-snappy": ({2}, {"snappy"}),
    "kafka-4.3.1-lz4": ({2}, {"lz4"}),
    "kafka-4.3.1-zstd": ({2}, {"zstd"}),
    "append-time-0.10.2.2-none": ({1}, {"none"}),
    "append-time-0.10.2.2-lz4": ({1}, {"lz4"}),
    "append-time-4.3.1-none": ({2}, {"none"}),
    "append-time-4.3.1-lz4": ({2}, {"lz4"}),
    "compacted-0.10.2.2-gzip": ({1}, {"gzip"}),
    "compacted-3.9.2": ({2}, {"none"}),
    "compacted-4.3.1": ({2}, {"none"}),
    "connect-4.3.1": ({2}, {"none"}),
    "streams-2.8.2": ({2}, {"none"}),
    "streams-3.9.2": ({2}, {"none"}),
    "upgraded-0.8-to-2.8": ({0, 1, 2}, {"none"}),
}

TREES = (
    "sample-zookeeper",
    "zookeeper-0.8.0",
    "zookeeper-0.8.0-beta1",
    "zookeeper-0.8.1.1",
    "zookeeper-0.8.2.2",
)
"""Scenarios that keep what ZooKeeper holds and no log directory."""

RECORDS: dict[str, set[tuple[int, int | None]]] = {
    "kafka-0.8.2.2-none": {(0, 0), (0, None)},
    "kafka-0.9.0.1": {(1, 1), (2, 0), (1, None), (2, None)},
    "upgraded-0.8-to-2.8": {(0, 0), *((1, n) for n in (1, 2, 3)), *((2, n) for n in range(4))},
    "kafka-4.0.0": {(key, 0) for key in range(3, 15)},
    "kafka-4.1.1": {(1, 4), *((key, 0) for key in (15, 16, 17, 19, 20, 21, 22, 23))},
    "kafka-4.3.1": {
        *((1, version) for version in (1, 4, None)),
        *((2, version) for version in (3, None)),
        *((key, None) for key in range(3, 24) if key not in (9, 18)),
        *((key, 0) for key in range(3, 24) if key not in (4, 9, 18)),
    },
}
"""Key type and value version (None: a tombstone) that a scenario must hold; some hold more."""


class Batch(NamedTuple):
    """Just enough of a batch: format, attributes, number of records, where it is."""

    magic: int
    attributes: int
    records: int
    offsets: tuple[int, int]
    body: bytes

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x20)


@cache
def manifest(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / name / "manifest.json").read_text("utf-8"))
    return content


def root(name: str) -> Path:
    inside: str = manifest(name)["root"]
    return ROOT / inside


def batches(segment: Path) -> Iterator[Batch]:
    data = segment.read_bytes()
    position = 0
    while position < len(data):
        offset, size = struct.unpack_from(">qi", data, position)
        end = position + 12 + size
        assert end <= len(data), segment
        magic = data[position + 16]
        if magic == 2:
            (attributes, delta) = struct.unpack_from(">hi", data, position + 21)
            (count,) = struct.unpack_from(">i", data, position + 57)
            body = data[position + 61 : end]
            yield Batch(magic, attributes, count, (offset, offset + delta), body)
        else:
            yield Batch(magic, data[position + 17], 1, (offset, offset), data[position + 18 : end])
        position = end


def segments(name: str) -> list[Path]:
    return sorted(root(name).glob("__consumer_offsets-*/*.log"))


def all_batches(name: str) -> list[Batch]:
    return list(chain.from_iterable(map(batches, segments(name))))


def records(batch: Batch) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and values of a batch that is not compressed."""
    if batch.magic < 2:
        start = 8 if batch.magic else 0
        key, start = _sized(batch.body, start)
        value, _ = _sized(batch.body, start)
        assert key is not None
        yield key, value
        return
    position = 0
    for _ in range(batch.records):
        size, position = _varint(batch.body, position)
        end, position = position + size, position + 1
        for _ in ("timestamp", "offset"):
            _, position = _varint(batch.body, position)
        size, position = _varint(batch.body, position)
        key, position = batch.body[position : position + size], position + size
        size, position = _varint(batch.body, position)
        yield key, None if size < 0 else batch.body[position : position + size]
        position = end


def _sized(body: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", body, position)
    position += 4
    return (None, position) if size < 0 else (body[position : position + size], position + size)


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position


def test_every_scenario_is_there() -> None:
    assert sorted([*SCENARIOS, *TREES, "damaged"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_files_are_those_that_were_recorded(name: str) -> None:
    listed = manifest(name)["files"]
    paths = {
        path.relative_to(root(name)).as_posix(): path
        for path in root(name).rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert paths.keys() == listed.keys()
    for file, path in paths.items():
        data = path.read_bytes()
        entry = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        assert entry == listed[file], file


def test_data_are_small() -> None:
    sizes = {path: path.stat().st_size for path in DATA.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 3_800_000
    assert max(size for path, size in sizes.items() if path.suffix == ".log") < 64_000
    assert sum(path.stat().st_size for path in (SAMPLE / "log-dir").rglob("*.*")) < 300_000


def test_data_do_not_tell_where_they_were_made() -> None:
    for path in chain(DATA.rglob("*"), (SAMPLE / "log-dir").rglob("*")):
        if path.is_file():
            assert b"kgroup-record-" not in path.read_bytes(), path


@pytest.mark.parametrize("name", SCENARIOS)
def test_formats_and_codecs(name: str) -> None:
    magics, codecs = SCENARIOS[name]
    found = all_batches(name)
    assert {batch.magic for batch in found} == magics
    assert {batch.codec for batch in found if not batch.is_control and batch.records} == codecs


@pytest.mark.parametrize("name", RECORDS)
def test_types_and_versions(name: str) -> None:
    found = Counter(
        (
            int.from_bytes(key[:2], "big"),
            None if value is None else int.from_bytes(value[:2], "big"),
        )
        for batch in all_batches(name)
        if not batch.is_control
        for key, value in records(batch)
    )
    assert not RECORDS[name] - set(found)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith("append-time")])
def test_log_append_time(name: str) -> None:
    assert all(batch.attributes & 0x08 for batch in all_batches(name))


@pytest.mark.parametrize("name", ["kafka-0.11.0.3", "kafka-1.1.1", "kafka-2.8.2", "kafka-4.3.1"])
def test_transactions(name: str) -> None:
    found = all_batches(name)
    markers = Counter(
        int.from_bytes(key[2:4], "big")
        for batch in found
        if batch.is_control
        for key, _ in records(batch)
    )
    assert markers[0] >= 2, "aborted: the transaction with records and the one without"
    assert markers[1] >= 5, "committed"
    # Four of these have a marker; ledger-open's second, marker-only's two are without pendant.
    data = [batch for batch in found if batch.attributes & 0x10 and not batch.is_control]
    assert len(data) == 6
    assert sum(markers.values()) == len(data) - 1 + 2


def test_upgraded_partition_holds_every_format() -> None:
    by_segment = [
        {batch.magic for batch in batches(path)} for path in segments("upgraded-0.8-to-2.8")
    ]
    assert {0, 1, 2} in by_segment


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith("compacted")])
def test_compaction_left_gaps(name: str) -> None:
    gaps = 0
    for path in segments(name):
        ends = [batch.offsets for batch in batches(path)]
        assert ends == sorted(ends)
        gaps += sum(after[0] > before[1] + 1 for before, after in pairwise(ends))
    assert gaps >= 3


def test_compaction_left_horizons_lone_markers_and_empty_batches() -> None:
    for name in ("compacted-3.9.2", "compacted-4.3.1"):
        found = all_batches(name)
        assert any(batch.attributes & 0x40 for batch in found), "delete horizon"
        alone = sum(after.is_control and before.is_control for before, after in pairwise(found))
        assert alone >= 2
    empty = [batch for batch in all_batches("compacted-3.9.2") if batch.records == 0]
    assert empty
    assert all(batch.attributes & 0x10 for batch in empty)


def test_leftovers_of_the_cleaner() -> None:
    compacted = root("compacted-4.3.1")
    assert list(compacted.glob("__consumer_offsets-*/*.log.deleted"))
    for state, ending in [("cleaned", "cleaned"), ("swap", "swap"), ("swap-half", "swap")]:
        assert list(compacted.glob(f"leftovers/{state}/__consumer_offsets-0/*.log.{ending}"))
    assert list(compacted.glob("leftovers/swap-half/*/*.log.deleted"))


def test_groups_of_every_kind_answered() -> None:
    described = {name: manifest(name)["answers"]["described"] for name in SCENARIOS}
    kafka = described["kafka-4.3.1"]
    states = {name: group["group_state"] for name, group in kafka.items()}
    assert {group["api"] for group in kafka.values()} == {
        "DescribeGroups",
        "ConsumerGroupDescribe",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
    }
    assert set(states.values()) >= {"Stable", "Empty", "PreparingRebalance", "Reconciling"}
    protocols = {group.get("protocol_data") for group in kafka.values()}
    assert protocols >= {"range", "roundrobin", "sticky", "cooperative-sticky"}
    half_way = kafka["pricing-upgrading"]["members"]
    assert {member["member_type"] for member in half_way} == {0, 1}
    static = [*kafka["payments-static"]["members"], *kafka["warehouse-static"]["members"]]
    assert all(member.get("group_instance_id") or member.get("instance_id") for member in static)
    assert {member["rack_id"] for member in kafka["fulfilment"]["members"]} == {"rack-1", "rack-2"}
    connect = {
        (group["protocol_type"], group["protocol_data"])
        for group in described["connect-4.3.1"].values()
    }
    assert connect >= {("connect", name) for name in ("default", "compatible", "sessioned")}
    for name in ("streams-2.8.2", "streams-3.9.2"):
        assert described[name]["order-totals-classic"]["protocol_data"] == "stream"
    odd = "".join(kafka)
    assert "" in kafka
    assert all(letter in odd for letter in ("\n", "\x00", ":", "г", "🛒"))


def test_damaged_copies_account_for_every_record() -> None:
    damaged = manifest("damaged")
    prefixes = {name.rsplit("-", 1)[0] for name in damaged["cases"]}
    assert any(prefix.startswith("v0") for prefix in prefixes)
    for name, case in damaged["cases"].items():
        source = (DATA / case["source"]).read_bytes()
        copy = (root("damaged") / case["file"]).read_bytes()
        assert copy != source, name
        at = case["position"]
        assert copy[:at] == source[:at]
        assert copy[at : at + 1] != source[at : at + 1], name
        parts = [set(case[part]) for part in ("lost", "uncertain", "survive")]
        whole = set.union(*parts)
        assert sum(map(len, parts)) == len(whole), name
        others = [other for other in damaged["cases"].values() if other["source"] == case["source"]]
        assert all(
            whole == {*other["lost"], *other["uncertain"], *other["survive"]} for other in others
        ), name
        assert case["change"]
