"""Sticky of kafka-clients 1.1.1: one algorithm for all groups, without generations and racks.

A partition that two members claim stays assigned to both.

Source: `StickyAssignor` of kafka-clients 1.1.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    Subscriber,
    TopicMetadata,
    in_hash_order,
    with_metadata,
)
from kgroup.assignor.java.java_hash import hash_order, map_order, topic_partition_hash
from kgroup.assignor.sticky.general import Builder, LiteralBuilder
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import string_hash


def assign(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Return the leader's assignment; see `ClassicAssignor`."""
    members = in_hash_order(members)
    failure = next((member.failure for member in members if member.failure is not None), None)
    if failure is not None:
        raise AssignorError("SchemaException", failure)
    known = {
        name: TopicMetadata(topics[name].partitions) for name in with_metadata(members, topics)
    }
    if any(topic not in known for member in members for topic in member.topics):
        raise AssignorError(
            "NullPointerException",
            'Cannot invoke "java.lang.Integer.intValue()" because the return value of '
            '"java.util.Map.get(Object)" is null',
        )
    remember = [member for member in members if member.remembered is not None]
    by_id = {member.member_id: member for member in [*remember, *members]}
    owned = {member_id: by_id[member_id].remembered or () for member_id in hash_order(by_id)}
    claims = Counter(
        partition
        for member in members
        for partition in member.remembered or ()
        if partition[0] in member.topics
    )
    is_sound = all(count == 1 for count in claims.values()) and all(
        len(set(member.topics)) == len(member.topics) for member in members
    )
    builder = _Builder if is_sound else _LiteralBuilder
    return builder(members, known, owned, {}).build_anew(is_fresh=not remember)


class _Builder(Builder):
    def build_anew(self, *, is_fresh: bool) -> Assignment:
        """Return the assignment.

        Args:
            is_fresh: no member has user data.
        """
        every = (
            self._every() if is_fresh or not self._subscribe_alike() else self._from_the_fullest()
        )
        kept = Counter(self._keep_owned())
        free: list[TopicPartition] = []
        for partition in every:
            if kept[partition]:
                kept[partition] -= 1
            else:
                free.append(partition)
        self._balance(every, free, revokes=True)  # Kafka moves in one pass only
        return {self._ids[at]: self._assigned[at] for at in self._hash_order}

    def _keep_owned(self) -> list[TopicPartition]:
        for at, claimed in enumerate(self._assigned):
            self._assigned[at] = [
                (topic, number)
                for topic, number in claimed
                if topic in self._topics and number < self._topics[topic].partitions
            ]
        return super()._keep_owned()

    def _subscribe_alike(self) -> bool:
        """Return whether all members have the same subscription.

        Source: `StickyAssignor.areSubscriptionsIdentical`.
        """
        if not self._topics:
            raise AssignorError("NoSuchElementException")
        return (
            len({frozenset(consumers) for consumers in self._consumers.values()}) == 1
            and len({frozenset(topics) for topics in self._subscribed}) == 1
        )

    def _from_the_fullest(self) -> list[TopicPartition]:
        """Return partitions taken repeatedly from the largest claim, then all others."""
        left = [
            [p for p in claimed if p[0] in self._topics and p[1] < self._topics[p[0]].partitions]
            for claimed in self._assigned
        ]
        every: list[TopicPartition] = []
        # members by size: the last id of the largest size gives one and moves down one size
        sizes: dict[int, list[int]] = {}
        for at, own in enumerate(left):
            sizes.setdefault(len(own), []).append(at)
        given = [0] * len(left)
        for size in range(max(sizes), 0, -1):
            at_size = sorted(sizes.get(size, []))
            for at in reversed(at_size):
                every.append(left[at][given[at]])
                given[at] += 1
            sizes.setdefault(size - 1, []).extend(at_size)
        hashes = {topic: string_hash(topic) for topic in self._topics}
        in_order = map_order(
            [(name, p) for name, topic in self._topics.items() for p in range(topic.partitions)],
            lambda partition: topic_partition_hash(hashes[partition[0]], partition[1]),
        )
        partitions = set(every)
        return every + [partition for partition in in_order if partition not in partitions]


class _LiteralBuilder(_Builder, LiteralBuilder):
    _slack = 0
