"""Hypothesis strategies for logs of `__consumer_offsets`: every kind of batch, and damage."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from kgroup.protocol.message.schema import versions
from kgroup.protocol.record.coordinator_record import KEY_TYPES, encode_key, encode_value
from tests.columnar.log_writer import (
    CODECS,
    LOG_APPEND,
    TRANSACTIONAL,
    Plain,
    batch,
    marker,
    message_set,
)
from tests.columnar.random_member import PROTOCOLS, assignment, subscription
from tests.operation.log_files import commit_key
from tests.protocol.message.random_message import message

_NAMES = st.sampled_from(["g", "group-1", "grüppe", "", "a" * 40, 'quo"te\n', "tab\t\x01"])
_TOPICS = st.sampled_from(["t", "orders.eu", "tëst"])
_TYPES = [name for name in KEY_TYPES.values() if name != "ShareGroupPartitionMetadata"]


@st.composite
def _commits(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """A key from a few, so that keys come again, and any value of an offset commit."""
    key = commit_key(draw(_NAMES), draw(_TOPICS), draw(st.integers(0, 2)))
    if draw(st.booleans()):
        key = b"\0\0" + key[2:]
    version = draw(st.integers(0, 4))
    data = draw(message("coordinator/OffsetCommitValue", version))
    value = encode_value("OffsetCommit", version, data)
    return key, draw(st.sampled_from([value, value, value, value, None]))


@st.composite
def _groups(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """A classic group with what its members really say and are given."""
    version = draw(st.integers(0, 4))
    data = draw(message("coordinator/GroupMetadataValue", version))
    kind = data["protocolType"] = draw(st.sampled_from(["consumer", "consumer", "connect", "odd"]))
    protocol = data["protocol"] = draw(st.sampled_from(PROTOCOLS))
    random = Random(draw(st.integers(0, 2**64 - 1)))
    for member in data["members"]:
        member["subscription"] = subscription(random, kind, protocol)
        member["assignment"] = assignment(random, kind, protocol)
    return (
        encode_key("GroupMetadata", {"group": draw(_NAMES)}),
        encode_value("GroupMetadata", version, data),
    )


@st.composite
def _others(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """A record of any type, well formed."""
    name = draw(st.sampled_from(_TYPES))
    key = encode_key(
        name, draw(message(f"coordinator/{name}Key", versions(f"coordinator/{name}Key")[0]))
    )
    known = versions(f"coordinator/{name}Value")
    version = draw(st.integers(known[0], known[-1]))
    value = encode_value(name, version, draw(message(f"coordinator/{name}Value", version)))
    return key, draw(st.sampled_from([value, value, None]))


@st.composite
def _malformed(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """Bytes that do not fit: cut off, with something behind, changed, of unknown types."""
    key, value = draw(st.one_of(_commits(), _groups(), _others()))
    parts: list[bytes | None] = [key, value]
    for index, part in enumerate(parts):
        if part is None:
            continue
        change = draw(st.integers(0, 5))
        at = draw(st.integers(0, max(len(part) - 1, 0)))
        if change == 0:
            parts[index] = part[:at]
        elif change == 1:
            parts[index] = part + draw(st.binary(min_size=1, max_size=3))
        elif change == 2:
            parts[index] = part[:at] + draw(st.binary(min_size=1, max_size=1)) + part[at + 1 :]
        elif change == 3:
            parts[index] = draw(st.none() | st.binary(max_size=8))
    return parts[0], parts[1]


pairs = st.one_of(_commits(), _commits(), _commits(), _groups(), _others(), _malformed())
"""Key and value of one record."""


@st.composite
def _batch(draw: st.DrawFn, offset: int) -> tuple[bytes, int]:
    """One batch that begins at an offset, and where the next one may begin."""
    kind = draw(st.integers(0, 9))
    producer_id = draw(st.integers(1, 2))
    if kind == 0:
        return marker(offset, producer_id, draw(st.integers(0, 7))), offset + 1
    records = []
    time = draw(st.sampled_from([-1, 1000, 1_700_000_000_000]))
    for key, value in draw(st.lists(pairs, min_size=1, max_size=6)):
        records.append(Plain(offset, time, key, value))
        offset += draw(st.sampled_from([1, 1, 1, 7]))
        time += draw(st.sampled_from([0, 1, 300])) if time >= 0 else 0
    if kind == 1:
        magic = draw(st.integers(0, 1))
        codec = draw(st.sampled_from(CODECS[:4]))
        return message_set(records, magic=magic, codec=codec), offset
    flags = draw(st.sampled_from([0, 0, 0, LOG_APPEND, TRANSACTIONAL]))
    transactional = flags == TRANSACTIONAL
    made = batch(
        records,
        codec=draw(st.sampled_from(["none", "none", *CODECS])),
        leader_epoch=draw(st.sampled_from([0, 0, 5, -1])),
        producer_id=producer_id if transactional or draw(st.integers(0, 9)) == 0 else -1,
        producer_epoch=draw(st.sampled_from([-1, 0, 3])),
        flags=flags,
    )
    if draw(st.integers(0, 30)) == 0:  # the checksum is right, the count is not
        count = len(records) + draw(st.sampled_from([-1, 1]))
        made = batch(records, codec=draw(st.sampled_from(CODECS)), count=count)
    return made, offset


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A log, in one of three with damage."""
    parts = []
    offset = draw(st.sampled_from([0, 42, 2**40]))
    for _ in range(draw(st.integers(0, 12))):
        made, offset = draw(_batch(offset))
        parts.append(made)
    log = bytearray(b"".join(parts))
    if log and draw(st.integers(0, 2)) == 0:
        at = draw(st.integers(0, len(log) - 1))
        size = draw(st.integers(1, 80))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            del log[at:]
        elif kind == 1:
            log[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == 2:
            del log[at : at + size]
        elif kind == 3:
            log[at : at + size] = bytes(len(log[at : at + size]))
        else:
            log[at:at] = draw(st.binary(min_size=size, max_size=size))
    return bytes(log)
