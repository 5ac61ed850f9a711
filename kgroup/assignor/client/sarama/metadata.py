"""What a leader made of Sarama reads of topics before it assigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, Topic, TopicPartition


def partition_counts(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> dict[str, int]:
    """Give the number of partitions of each subscribed topic.

    Source: `consumerGroup.balance` of Sarama 1.61.1.

    Raises:
        AssignorError: one does not exist: then the leader assigns nothing at all.
    """
    counts = {}
    for name in sorted({topic for member in members for topic in member.topics}):
        if name not in topics or not topics[name].partitions:
            raise AssignorError(
                "KError",
                "kafka server: Request was for a topic or partition that does not exist on this "
                "broker",
            )
        counts[name] = topics[name].partitions
    return counts


def by_topic(
    members: Sequence[Subscriber], plan: Mapping[str, Sequence[TopicPartition]]
) -> Assignment:
    """Give each member its part of a plan, topic by topic.

    A message has the topics in the random order of a map; here they are sorted. Of one topic the
    partitions keep the order in which they were planned.
    """
    return {
        member.member_id: sorted(plan.get(member.member_id, ()), key=lambda partition: partition[0])
        for member in members
    }
