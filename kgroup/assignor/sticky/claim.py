"""Claims of members of a sticky group to earlier partitions, and their verification.

Source: `AbstractStickyAssignor.allSubscriptionsEqual` and `RackInfo` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kgroup.assignor.base import Subscriber, TopicMetadata, uses_racks
from kgroup.assignor.java.java_hash import hash_order
from kgroup.model.cluster import TopicPartition

NO_GENERATION = -1


def generation_read(member: Subscriber) -> int | None:
    """Return the generation that cooperative-sticky of Java reads in the user data of a member.

    It takes the first four bytes (`CooperativeStickyAssignor.memberData`). In those of librdkafka
    and franz-go, a list of topics and partitions, these are the number of topics.
    """
    if not member.remembered:  # with partitions, it is such a list
        return member.remembered_generation
    return len({topic for topic, _ in member.remembered})


def or_no_generation(generation: int | None) -> int:
    """Return the generation, or -1 if it is None."""
    return NO_GENERATION if generation is None else generation


class Release(IntEnum):
    """Releases of kafka-clients since which its sticky assignors do something else.

    Source: `StickyAssignor` of 2.3.1, `AbstractStickyAssignor` and `ConstrainedAssignmentBuilder`
    of 2.4.0 to 4.3.1.
    """

    DATED = 230
    """2.3.0: members name the generation of their claims, and the latest one counts."""
    COOPERATIVE = 240
    """2.4.0: cooperative-sticky; at first only partitions move that nobody owned."""
    EQUAL = 251
    """2.5.1: equal subscriptions have an algorithm of their own."""
    DISPUTED = 281
    """2.8.1: of two claims in one generation, none counts; cooperative members name it."""
    GENERAL = 300
    """3.0.0: only claims of the highest generation count."""
    EVERY_GENERATION = 341
    """3.4.1: of two claims, that of the higher generation counts."""
    BY_RACK = 350
    """3.5.0: racks count (KIP-881)."""
    SORTED = 371
    """3.7.1: members keep the lowest partitions, and racks give nobody one too many."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Partitions that a member claims, and the generation in which it owned them."""

    partitions: Sequence[TopicPartition]
    generation: int


class Claims:
    """The claims of all members.

    Args:
        members: members in hash order.
        claims: claims of the members.
        topics: existing subscribed topics.
        release: release of the leader.

    Attributes:
        owned: accepted claims of each member, within `topics`.
        disputed: partitions that two members claim in the same generation.
        earlier: by partition, the member that owned it in the latest generation before the highest
            one, and that generation.
    """

    def __init__(
        self,
        members: Sequence[Subscriber],
        claims: Sequence[Claim],
        topics: Collection[str],
        *,
        release: Release,
    ) -> None:
        self._release = release
        self.disputed: set[TopicPartition] = set()
        by_member = {
            member.member_id: [
                partition for partition in claim.partitions if partition[0] in topics
            ]
            for member, claim in zip(members, claims, strict=True)
        }
        if release < Release.EVERY_GENERATION:
            by_member = self._of_the_highest(members, claims, topics)
        elif len(set().union(*by_member.values())) < sum(map(len, by_member.values())):
            by_member = self._believed(members, claims, topics)
        self.owned = {member_id: by_member[member_id] for member_id in hash_order(by_member)}
        self.earlier = _earlier(members, claims)

    def _of_the_highest(
        self, members: Sequence[Subscriber], claims: Sequence[Claim], topics: Collection[str]
    ) -> dict[str, list[TopicPartition]]:
        """Return the claims of the members with the highest generation; the others claim nothing.

        Of a partition claimed by several, nobody keeps any.
        """
        highest = max([NO_GENERATION, *(claim.generation for claim in claims)])
        by_member = {
            member.member_id: [
                partition for partition in claim.partitions if partition[0] in topics
            ]
            if claim.generation >= highest
            else []
            for member, claim in zip(members, claims, strict=True)
        }
        if self._release < Release.DISPUTED:
            return by_member
        owner: dict[TopicPartition, str] = {}
        for member_id, claimed in by_member.items():
            by_member[member_id] = owned = []
            for partition in claimed:
                if partition not in owner:
                    owned.append(partition)
                else:
                    self.disputed.add(partition)
                    if partition in by_member[owner[partition]]:
                        by_member[owner[partition]].remove(partition)
                owner[partition] = member_id
        return by_member

    def _believed(
        self, members: Sequence[Subscriber], claims: Sequence[Claim], topics: Collection[str]
    ) -> dict[str, list[TopicPartition]]:
        """Return the accepted claims of each member when a partition is claimed twice."""
        by_member: dict[str, list[TopicPartition]] = {}
        # generations of the subscriptions, not of the user data
        generations = {
            subscriber.member_id: or_no_generation(subscriber.generation) for subscriber in members
        }
        owner: dict[TopicPartition, str] = {}
        for member, claim in zip(members, claims, strict=True):
            by_member[member.member_id] = owned = []
            for partition in claim.partitions:
                if partition[0] not in topics:
                    continue
                other = owner.get(partition)
                if other is None:
                    owned.append(partition)
                    owner[partition] = member.member_id
                    continue
                if claim.generation < generations[other]:
                    if self._release < Release.BY_RACK:
                        owner[partition] = member.member_id
                    continue
                if claim.generation == generations[other]:
                    self.disputed.add(partition)
                else:
                    owned.append(partition)
                if partition in by_member[other]:
                    by_member[other].remove(partition)
                owner[partition] = member.member_id
        return by_member


def _earlier(
    members: Sequence[Subscriber], claims: Sequence[Claim]
) -> dict[TopicPartition, tuple[str, int]]:
    """Return earlier owners of partitions.

    Source: `GeneralAssignmentBuilder.prepopulateCurrentAssignments`.
    """
    highest = max([NO_GENERATION, *(claim.generation for claim in claims)])
    earlier: dict[TopicPartition, tuple[str, int]] = {}
    for member, claim in zip(members, claims, strict=True):
        if claim.generation >= highest:
            continue
        for partition in claim.partitions:
            if partition not in earlier or claim.generation > earlier[partition][1]:
                earlier[partition] = member.member_id, claim.generation
    return earlier


class Racks:
    """Racks of members and replicas (KIP-881).

    Attributes:
        matter: whether the assignor prefers members in the racks of a partition's replicas.
    """

    def __init__(self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> None:
        self._of_member = {member.member_id: member.rack for member in members if member.rack}
        self._members_in = Counter(self._of_member.values())
        self._topics = topics
        self.matter = bool(self._of_member) and uses_racks(
            frozenset(self._members_in),
            [topic.racks_of(p) for topic in topics.values() for p in range(topic.partitions)],
        )

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether racks matter and the member's rack has no replica of the partition."""
        rack = self._of_member.get(member_id) if self.matter else None
        return rack is not None and rack not in self.of(partition)

    def rack(self, member_id: str) -> str | None:
        """Return the rack of a member; None if it has none."""
        return self._of_member.get(member_id)

    def of(self, partition: TopicPartition) -> frozenset[str]:
        """Return the racks of a partition's replicas; empty if it does not exist."""
        topic = self._topics.get(partition[0])
        if topic is None or partition[1] >= topic.partitions:
            return frozenset()
        return topic.racks_of(partition[1])

    def by_members(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return partitions sorted by the number of members in their racks, if there are racks.

        The sort takes place even if racks do not matter.
        """
        if not self._of_member:
            return partitions
        count = {
            racks: sum(self._members_in[rack] for rack in racks)
            for racks in {self.of(partition) for partition in partitions}
        }
        return sorted(partitions, key=lambda partition: count[self.of(partition)])
