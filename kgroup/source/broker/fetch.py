"""Fetch: raw batches of partitions from their leaders.

Requests up to version 12 name topics, and the response has the message format of the log: before
version 2 (Kafka 0.9 and older) format 0, before version 4 (0.10) at most format 1.

The bytes of a partition are complete batches, except that the last may be truncated; before version
3 the first may be too, and a larger size must be requested. The first batch may start before the
requested offset. The bytes are unverified: a broker does not check them before sending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any

from kafka.protocol.consumer.fetch import FetchRequest

from kgroup.model.cluster import TopicPartition
from kgroup.model.record import known
from kgroup.protocol.batch.batch import LOG_OVERHEAD, Damage
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient

_BY_TOPIC_NAME = 12
_ISOLATION = 4
"""First version with isolation levels; earlier versions have no transactions."""
_HEAD = Struct(">q i 4x b 6x i")
"""Base offset, length and magic of a batch, and the last offset delta if the magic is 2."""
_LEAST_LENGTH = 14
"""Bytes after the length field of the shortest possible message (v0)."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Response of a leader for one partition.

    Attributes:
        code: error code, or 0.
        data: batches (see the module); empty at the log end offset.
        end: high watermark, or with `committed` the last stable offset; None if unknown.
        aborted: with `committed`, producer id and first offset of each aborted transaction with
            records in `data`.
    """

    code: int
    data: bytes = b""
    end: int | None = None
    aborted: frozenset[tuple[int, int]] = frozenset()


async def fetch(
    client: BrokerClient,
    leader: int,
    offsets: Mapping[TopicPartition, int],
    size: int,
    *,
    wait_ms: int = 0,
    committed: bool = False,
) -> dict[TopicPartition, Fetched]:
    """Fetch up to `size` bytes of each of a leader's partitions; with `committed`, read committed.

    From version 3 the first batch is complete even if it is larger. If there are no records, the
    leader waits for `wait_ms`.

    Raises:
        BrokerError: the leader does not answer, or omits a partition.
    """
    version = await client.version(leader, FetchRequest, _BY_TOPIC_NAME) or 0
    topic_of = FetchRequest.FetchTopic
    topics: dict[str, list[Any]] = {}
    for (topic, number), offset in offsets.items():
        wanted = topic_of.FetchPartition(
            version=version, partition=number, fetch_offset=offset, partition_max_bytes=size
        )
        topics.setdefault(topic, []).append(wanted)
    knows_isolation = version >= _ISOLATION
    answer = await client.ask(
        leader,
        FetchRequest,
        highest=version,
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        topics=[topic_of(version=version, topic=t, partitions=p) for t, p in topics.items()],
        **({"isolation_level": int(committed)} if knows_isolation else {}),
    )
    if version >= 7 and answer.error_code:
        return dict.fromkeys(offsets, Fetched(int(answer.error_code)))
    fetched = {
        (response.topic, partition.partition_index): Fetched(
            int(partition.error_code),
            bytes(partition.records or b""),
            known(
                partition.last_stable_offset
                if committed and knows_isolation
                else partition.high_watermark
            ),
            frozenset(
                (aborted.producer_id, aborted.first_offset)
                for aborted in (committed and knows_isolation and partition.aborted_transactions)
                or ()
            ),
        )
        for response in answer.responses
        for partition in response.partitions
    }
    return only_asked(fetched, offsets, "Fetch", leader)


def sound_part(
    fetched: Fetched, at: int, until: int | None = None, *, is_all: bool = False
) -> tuple[int, int]:
    """Return how many of the fetched bytes to keep, and the next offset to fetch.

    Batches are followed by their length, as a broker does; damage inside them is kept for the
    reader to find. If the first batch cannot be followed, damage is kept that has a sound batch
    after it.

    Args:
        fetched: result of a fetch from offset `at`.
        at: fetch offset.
        until: offset from which on no batch is wanted; None: all are.
        is_all: whether no larger fetch is possible, so that a batch which claims to be longer than
            the bytes is damaged.

    Returns:
        Bytes and offset; 0 and `at` if there is no complete, or no trusted, batch.
    """
    data, size, offset = fetched.data, 0, at
    while len(data) - size >= _HEAD.size and (until is None or offset < until):
        last, length, magic, delta = _HEAD.unpack_from(data, size)
        end = size + LOG_OVERHEAD + length
        if length < _LEAST_LENGTH or not 0 <= magic <= 2 or end > len(data):
            break
        if magic == 2:
            last += delta
        if last < offset or (fetched.end is not None and last >= fetched.end):
            break
        size, offset = end, last + 1
    if size == 0:
        for batch in read_batches(data, final=is_all):
            if not isinstance(batch, Damage) and batch.last_offset >= offset:
                size, offset = batch.position + batch.size, batch.last_offset + 1
    return size, offset
