"""Sticky and cooperative-sticky of kafka-clients before 3.0.

- 0.11.0 to 2.2: one algorithm for all groups, without generations. A partition that two members
  claim stays assigned to both.
- 2.3: the latest of several claims counts.
- 2.4.0 to 2.5.0: at first only partitions move that nobody owned. Cooperative members send no
  generation.
- 2.5.1 to 2.8.2: an algorithm of its own for members with equal subscriptions. Otherwise a leader
  reads user data twice, where the second time yields nothing: members that come before the first
  one with another subscription own nothing then.
- 2.8.1 and 2.8.2: of a partition that two members claim in one generation, both claims are void.
  Before, both members keep it.

Source: `StickyAssignor` of kafka-clients 1.1.1 and 2.3.1; `AbstractStickyAssignor` of 2.4.0 to
2.8.2.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    Subscriber,
    TopicMetadata,
    in_hash_order,
    with_metadata,
)
from kgroup.assignor.java.java_hash import hash_order, map_order, topic_partition_hash, utf16
from kgroup.assignor.sticky.claim import (
    NO_GENERATION,
    Claim,
    Claims,
    Release,
    generation_read,
    or_no_generation,
)
from kgroup.assignor.sticky.general import Builder, LiteralBuilder
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import string_hash

_Memory = tuple[Sequence[TopicPartition], int | None]
"""Partitions that a member claims, and their generation; None if it sends none."""


def assign(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    *,
    release: Release,
    is_cooperative: bool,
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """Return the assignment of 2.3 to 2.8, and the new owners of partitions that change theirs.

    Args:
        members: members in hash order.
        topics: existing subscribed topics, in the order of `partitionsPerTopic`.
        release: release of the leader.
        is_cooperative: whether members claim the partitions in their subscription.

    Returns:
        the assignment, and the new owners; None if unknown.
    """
    sends_generation = not is_cooperative or release >= Release.DISPUTED
    named_by = generation_read if is_cooperative else attrgetter("remembered_generation")
    memories: list[_Memory] = [
        (
            member.owned if is_cooperative else member.remembered or (),
            named_by(member) if sends_generation else None,
        )
        for member in members
    ]
    if release >= Release.EQUAL:
        unequal = _first_unequal(members)
        if unequal is None:
            claims = [Claim(owned, or_no_generation(named)) for owned, named in memories]
            return _assign_equally(topics, Claims(members, claims, topics, release=release))
        memories[:unequal] = [
            (member.owned, None if named is None else member.generation_again)
            if is_cooperative
            else ((), None)
            for member, (_, named) in zip(members, memories[:unequal], strict=False)
        ]
    owned, earlier = _by_generation(members, memories)
    subscribed = {member.member_id: frozenset(member.topics) for member in members}
    is_sound = all(
        topic in subscribed[owner] for (topic, _), (owner, _) in earlier.items()
    ) and all(len(subscribed[member.member_id]) == len(member.topics) for member in members)
    builder = (_Builder if is_sound else _LiteralBuilder)(members, topics, owned, earlier)
    return builder.build_of(release), None


def _first_unequal(members: Sequence[Subscriber]) -> int | None:
    """Return the index of the first member whose topics differ from those of the ones before.

    Source: `AbstractStickyAssignor.allSubscriptionsEqual`, which skips empty ones at first.
    """
    first: frozenset[str] = frozenset()
    for at, member in enumerate(members):
        if not first:
            first = frozenset(member.topics)
        elif len(member.topics) != len(first) or not first.issuperset(member.topics):
            return at
    return None


def _by_generation(
    members: Sequence[Subscriber], memories: Sequence[_Memory]
) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, tuple[str, int]]]:
    """Return the partitions of each member that owned them last, and the owners before.

    Source: `AbstractStickyAssignor.prepopulateCurrentAssignments`.
    """
    owners: dict[TopicPartition, dict[int, str]] = {}
    for member, (claimed, generation) in zip(members, memories, strict=True):
        for partition in claimed:
            by_generation = owners.setdefault(partition, {})
            if generation is None:
                by_generation[NO_GENERATION] = member.member_id
            else:
                by_generation.setdefault(generation, member.member_id)
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    earlier: dict[TopicPartition, tuple[str, int]] = {}
    for partition in _hash_order(list(owners)):
        by_generation = owners[partition]
        last, *before = sorted(by_generation, reverse=True)
        owned[by_generation[last]].append(partition)
        if before:
            earlier[partition] = by_generation[before[0]], before[0]
    return owned, earlier


def _hash_order(partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return partitions in the order of a HashMap."""
    hashes = {topic: string_hash(topic) for topic, _ in partitions}
    return map_order(
        partitions, lambda partition: topic_partition_hash(hashes[partition[0]], partition[1])
    )


def _assign_equally(
    topics: Mapping[str, TopicMetadata], claims: Claims
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Return the assignment of members with equal subscriptions; see `assign`.

    Each keeps its partitions up to the largest share. The others go to members below the smallest
    share. If there are too few, these get the first partitions of members with the largest share.

    Source: `AbstractStickyAssignor.constrainedAssign` of 2.5.1 to 2.8.2.
    """
    total = sum(topic.partitions for topic in topics.values())
    least, rest = divmod(total, len(claims.owned))
    most = least + (rest > 0)
    assignment: Assignment = {}
    moving = set(claims.disputed)  # these change their owner, if they get one
    below: list[str] = []
    at_least: deque[str] = deque()
    at_most: deque[str] = deque()
    for member_id, owned in claims.owned.items():
        assignment[member_id] = owned[:most]
        moving.update(owned[most:])
        if len(owned) < least:
            below.append(member_id)
            continue
        if len(assignment[member_id]) == least:
            at_least.append(member_id)
        if len(assignment[member_id]) == most:
            at_most.append(member_id)
    kept = set(chain.from_iterable(assignment.values()))
    free = deque(
        (topic, number)
        for topic in sorted(topics, key=utf16)
        for number in range(topics[topic].partitions)
        if (topic, number) not in kept
    )
    transfers: dict[TopicPartition, str] = {}

    def give(member_id: str) -> None:
        partition = free.popleft()
        assignment[member_id].append(partition)
        if partition in moving:
            transfers[partition] = member_id

    below.sort(key=utf16)
    while below and free:
        for member_id in below[: len(free)]:
            give(member_id)
            if len(assignment[member_id]) == least:
                at_least.append(member_id)
        below = [member_id for member_id in below if len(assignment[member_id]) != least]
    for member_id in below:
        while len(assignment[member_id]) < least:
            if not at_most:
                raise AssignorError(
                    "IllegalStateException",
                    "Some consumers are under capacity but all partitions have been assigned",
                )
            partition = assignment[at_most.popleft()].pop(0)
            assignment[member_id].append(partition)
            transfers[partition] = member_id
        at_least.append(member_id)
    while free:
        if not at_least:
            raise AssignorError(
                "IllegalStateException",
                "Some partitions are unassigned but all consumers are at maximum capacity",
            )
        give(at_least.popleft())
    return assignment, transfers


def assign_1_1(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Return the leader's assignment in 1.1.1; see `ClassicAssignor`."""
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
    return builder(members, known, owned, {}).build_before_3(
        by_topic=not remember, in_one_pass=True
    )


class _Builder(Builder):
    def build_of(self, release: Release) -> Assignment:
        """Return the assignment of 2.3 or later."""
        return self.build_before_3(
            by_topic=release >= Release.EQUAL or not any(self._assigned) or not self._topics,
            in_one_pass=release < Release.COOPERATIVE,
        )

    def build_before_3(self, *, by_topic: bool, in_one_pass: bool) -> Assignment:
        """Return the assignment.

        Args:
            by_topic: partitions move in the order of their topics, even if all members subscribe
                to the same.
            in_one_pass: any partition may move at once, not at first only those that were free.
        """
        for at, claimed in enumerate(self._assigned):
            self._assigned[at] = [
                (topic, number)
                for topic, number in claimed
                if topic in self._topics and number < self._topics[topic].partitions
            ]
        claimed_count = sum(map(len, self._assigned))
        every = self._every() if by_topic or not self._subscribe_alike() else self._by_size()
        kept = Counter(self._keep_owned())
        revokes = in_one_pass or kept.total() < claimed_count
        free: list[TopicPartition] = []
        for partition in every:
            if kept[partition]:
                kept[partition] -= 1
            else:
                free.append(partition)
        self._balance(every, free, revokes=revokes)
        return {self._ids[at]: self._assigned[at] for at in self._hash_order}

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

    def _by_size(self) -> list[TopicPartition]:
        """Return partitions taken repeatedly from the largest claim, then all others.

        A claim yields first what another member owned before.
        """
        before = {partition: at for at, partition in enumerate(_hash_order(list(self._earlier)))}
        left = [
            sorted(claimed, key=lambda partition: before.get(partition, len(before)))
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
        partitions = set(every)
        in_order = _hash_order(
            [(name, p) for name, topic in self._topics.items() for p in range(topic.partitions)]
        )
        return every + [partition for partition in in_order if partition not in partitions]


class _LiteralBuilder(_Builder, LiteralBuilder):
    _slack = 0

    def _most(self, at: int) -> int:
        return Builder._most(self, at)
