"""The two requests that change committed offsets, OffsetCommit and OffsetDelete, each sent once.

A commit is that of an administrator: of no member and no generation, as Kafka's own tools commit
(`KafkaAdminClient.alterConsumerGroupOffsets`), which coordinators take while a group has no
members. The coordinator writes the offsets of one request as one batch: all of them, or none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetDeleteRequest
from msgspec import Struct

from kgroup.model.offset import CommittedOffset
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.offset_change import At

PARTITIONS_PER_REQUEST = 5000
RECORDS_PER_REQUEST = 900_000
"""Bytes of records: the batch has to fit into max.message.bytes of the topic, 1,048,588."""
_RECORD = 80
"""Bytes of a commit's record, at most, beside names and metadata."""
_HIGHEST = 7
"""Newest version of OffsetCommit whose partitions carry no tagged fields: empty ones take half of
the time of a request. Versions 8 and 9 say nothing more about commits of no member (9 tells members
of consumer groups other errors, KIP-848), and 10 gives ids in the place of names."""
_NO_GENERATION = -1
_NOW = -1
"""Time of a commit that the broker shall note; version 1 only."""


class _Partition(Struct, gc=False):
    """What kafka-python writes of a partition; its own class takes twenty times as long to make.

    No tuple: of those kafka-python takes fields by their place, whichever the version has.
    """

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str
    commit_timestamp: int = _NOW


def requests_of(
    group_id: str, offsets: Iterable[CommittedOffset]
) -> Iterator[list[CommittedOffset]]:
    """Divide offsets of a group into what one request may have: mostly there is one."""
    part: list[CommittedOffset] = []
    size = 0
    for offset in offsets:
        text = f"{group_id}{offset.topic}{offset.metadata or ''}"
        more = _RECORD + len(text if text.isascii() else text.encode("utf-8", "replace"))
        if part and (len(part) == PARTITIONS_PER_REQUEST or size + more > RECORDS_PER_REQUEST):
            yield part
            part, size = [], 0
        part.append(offset)
        size += more
    if part:
        yield part


async def commit_offsets(
    client: BrokerClient, node: int, group_id: str, offsets: Collection[CommittedOffset]
) -> dict[At, int]:
    """Commit to a coordinator; return the error code of each partition, 0 where it was done.

    Leader epochs go along from version 6 on (Kafka 2.1). No retention is asked for, which versions
    2 to 4 could: the broker's own counts.

    Raises:
        BrokerError: there is no answer.
    """
    version = await client.version(node, OffsetCommitRequest, _HIGHEST)
    topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[str, list[_Partition]] = {}
    for each in offsets:
        epoch = -1 if each.leader_epoch is None else each.leader_epoch
        partition = _Partition(each.partition, each.committed_offset, epoch, each.metadata or "")
        topics.setdefault(each.topic, []).append(partition)
    answer = await client.ask_once(
        node,
        OffsetCommitRequest,
        highest=_HIGHEST,
        group_id=group_id,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=[topic_of(version=version, name=name, partitions=of) for name, of in topics.items()],
    )
    asked = [(each.topic, each.partition) for each in offsets]
    return only_asked(_codes(answer), asked, "OffsetCommit", node)


async def delete_offsets(
    client: BrokerClient, node: int, group_id: str, partitions: Collection[At]
) -> dict[At, int]:
    """Delete offsets likewise (Kafka 2.4 and later).

    Raises:
        BrokerError: there is no answer, or no such API.
    """
    topic_of = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition_of = topic_of.OffsetDeleteRequestPartition
    topics: dict[str, list[Any]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition_of(partition_index=partition))
    answer = await client.ask_once(
        node,
        OffsetDeleteRequest,
        group_id=group_id,
        topics=[topic_of(name=name, partitions=of) for name, of in topics.items()],
    )
    if answer.error_code:
        return dict.fromkeys(partitions, answer.error_code)
    return only_asked(_codes(answer), partitions, "OffsetDelete", node)


def _codes(answer: Any) -> dict[At, int]:
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
