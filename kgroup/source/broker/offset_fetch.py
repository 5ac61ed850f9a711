"""What groups have committed, asked of their coordinators: nothing else is, where only that counts.

Many groups go into one request, and answers are read while brokers work on the next.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from kafka.protocol.consumer.group import OffsetFetchRequest

from kgroup.model.offset import CommittedOffset
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import GroupCoordinator, Refusal

_BY_TOPIC_NAME = 9
"""Newest version of OffsetFetch that names topics; the next gives ids, of topics that exist."""


class OffsetFetcher:
    """Fetches offsets; before 0.10.2 it remembers which partitions there are to ask for."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client
        self._every_partition: list[Any] | None = None

    async def fetch(
        self, node: int, coordinators: list[GroupCoordinator]
    ) -> dict[str, tuple[CommittedOffset, ...] | Refusal]:
        """Ask one coordinator what groups have stored, sorted by topic and partition.

        Offsets may be negative; see `split_commits`.
        """
        client = self._client
        version = await client.version(node, OffsetFetchRequest, _BY_TOPIC_NAME)
        group_ids = [each.group_id for each in coordinators]
        if version is not None and version >= 8:
            group = OffsetFetchRequest.OffsetFetchRequestGroup
            answer = await client.ask(
                node,
                OffsetFetchRequest,
                highest=_BY_TOPIC_NAME,
                groups=[group(version=version, group_id=each, topics=None) for each in group_ids],
            )
            offsets = {each.group_id: _offsets(each, stored_only=True) for each in answer.groups}
            return only_asked(offsets, group_ids, "OffsetFetch", node)
        topics = None if version is not None and version >= 2 else await self._all_partitions()
        answers = await client.gather_all(
            client.ask(
                node, OffsetFetchRequest, highest=_BY_TOPIC_NAME, group_id=each, topics=topics
            )
            for each in group_ids
        )
        return {
            group_id: _offsets(each, stored_only=topics is None)
            for group_id, each in zip(group_ids, answers, strict=True)
        }

    async def _all_partitions(self) -> list[Any]:
        """Name every partition of the cluster: before 0.10.2 offsets are asked for one by one."""
        if self._every_partition is None:
            view = await self._client.metadata(None)
            topic = OffsetFetchRequest.OffsetFetchRequestTopic
            self._every_partition = [
                topic(name=each.name, partition_indexes=sorted(each.partitions))
                for each in view.topics.values()
                if each.partitions
            ]
        return self._every_partition


def _offsets(answer: Any, *, stored_only: bool) -> tuple[CommittedOffset, ...] | Refusal:
    """Read one group's part of the answer to OffsetFetch.

    Args:
        answer: where `committed_offset` is -1, nothing is stored, or -1 is;
        stored_only: it is the latter: the answer has no partition that was asked for by name.
    """
    if answer.error_code:
        return Refusal(answer.error_code)
    offsets = []
    for topic in sorted(answer.topics, key=attrgetter("name")):
        name = topic.name
        for each in sorted(topic.partitions, key=attrgetter("partition_index")):
            if each.committed_offset >= 0 or (stored_only and not each.error_code):
                epoch = each.committed_leader_epoch
                offsets.append(
                    CommittedOffset(
                        name,
                        each.partition_index,
                        each.committed_offset,
                        None if epoch < 0 else epoch,
                        each.metadata,
                    )
                )
            elif each.error_code not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):  # none, says 0.8
                return Refusal(each.error_code)
    return tuple(offsets)
