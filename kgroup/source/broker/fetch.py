"""Fetch: raw batches of partitions, as their leaders have them.

Requests up to version 12 name topics and are answered in the message format of the log: before
version 2 (Kafka 0.9 and older) that is 0, before version 4 (0.10) at most 1.

The bytes of a partition are whole batches but for the last, which may be cut off; before version 3
the first may be too, and more bytes must be asked for. The first one may begin before the offset.
Nobody has looked at them: a broker does not check what it sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any

from kafka.protocol.consumer.fetch import FetchRequest

from kgroup.model.record import known
from kgroup.protocol.batch.batch import LOG_OVERHEAD, Damage
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.leader import At

_BY_TOPIC_NAME = 12
_ISOLATION = 4
"""First version that knows isolation levels; before, there are no transactions."""
_HEAD = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_HEAD_SIZE = 27
_LEAST_LENGTH = 14
"""Bytes that the shortest message of all, of v0, has behind its length."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a leader gave of one partition.

    Attributes:
        code: error code, or 0.
        data: see above; empty at the end of the log.
        end: where it ends: the high watermark, or, for readers of committed records, the last
            stable offset; None where that is not told.
        aborted: for readers of committed records, producer id and first offset of each aborted
            transaction that has records among these.
    """

    code: int
    data: bytes = b""
    end: int | None = None
    aborted: frozenset[tuple[int, int]] = frozenset()


async def fetch(
    client: BrokerClient,
    leader: int,
    offsets: Mapping[At, int],
    size: int,
    *,
    wait_ms: int = 0,
    committed: bool = False,
) -> dict[At, Fetched]:
    """Fetch so many bytes of each of a leader's partitions; with `committed` decided records only.

    From version 3 on the first batch comes whole all the same. Where there is nothing the leader
    waits for `wait_ms`.

    Raises:
        BrokerError: the leader cannot be asked, or leaves a partition out.
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


def sound_part(fetched: Fetched, at: int, *, is_all: bool = False) -> tuple[int, int]:
    """Tell how many of the bytes that were fetched can be kept, and where to fetch next.

    What is kept ends with a batch that is followed as a broker follows it: by its length; damage
    inside is kept for the reader to find. Where that is no way, damage is kept that has a sound
    batch behind it.

    Args:
        fetched: from `at` on.
        at: offset.
        is_all: whether no more bytes can be had at once, so that a batch which claims to be longer
            than they are lies.

    Returns:
        Bytes and offset; 0 and `at` where there is no whole batch, or none that can be trusted.
    """
    data, size, offset = fetched.data, 0, at
    while len(data) - size >= _HEAD_SIZE:
        last, length, _, magic = _HEAD.unpack_from(data, size)
        end = size + LOG_OVERHEAD + length
        if length < _LEAST_LENGTH or not 0 <= magic <= 2 or end > len(data):
            break
        if magic == 2:
            last += _LAST_OFFSET_DELTA.unpack_from(data, size + 23)[0]
        if last < offset or (fetched.end is not None and last >= fetched.end):
            break
        size, offset = end, last + 1
    if size == 0:
        for batch in read_batches(data, final=is_all):
            if not isinstance(batch, Damage) and batch.last_offset >= offset:
                size, offset = batch.position + batch.size, batch.last_offset + 1
    return size, offset
