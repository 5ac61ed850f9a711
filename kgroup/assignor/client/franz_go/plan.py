"""Who has which partitions while franz-go balances a sticky group.

Members and partitions are numbers here, as in franz-go: its choices depend on the order of both.

Source: `newBalancer`, `parseMemberMetadata`, `topicPotentials`, `dropUnwantedPartitions`
(internal/sticky/sticky.go) of franz-go 1.18.0 and 1.22.3; `initRacks` of 1.21.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.franz_go.order import as_listed, in_turn, subscribed
from kgroup.assignor.client.franz_go.rack import known_racks

Key = TypeVar("Key", str, int)


class KeyOrder(Protocol):
    """Orders the keys of a map, which come in the order in which it was filled.

    Go draws an order anew whenever it walks over a map.
    """

    def __call__(self, keys: Iterable[Key], /) -> list[Key]:
        """Give the keys, each once."""


class Plan:
    """A group with what its members have so far.

    Args:
        members: of the group.
        topics: of the cluster.
        key_order: of names of topics.
        cooperative: whether members claim what they own now, not what they remember.
        by_rack: whether racks count.

    Attributes:
        members: in turn.
        partitions: of all topics that are subscribed and exist, topic by topic.
        topic_of: of each partition, the index of its topic.
        racks: of each partition, that of its leader; None where it is not known or does not count.
        wanted: of each member, the topics that it subscribes to, by their indices, sorted.
        subscribers: of each topic, in turn.
        given: of each member its partitions; later choices depend on their order.
        unwanted: of each member the partitions that it claims and does not subscribe to any more.
        owner: of each partition the member that has it; None where nobody has.
        original: of each partition the member that had it before; None where nobody had.
        stale: by partition that two members claim, the one with the older claim, or the later one
            in turn.
    """

    def __init__(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, Topic],
        key_order: KeyOrder,
        *,
        cooperative: bool,
        by_rack: bool = False,
    ) -> None:
        self.members = in_turn(members)
        racks = known_racks(members, topics) if by_rack else {}
        names = key_order(subscribed(self.members, topics))
        self.partitions: list[TopicPartition] = []
        self.topic_of: list[int] = []
        self.racks: list[str | None] = []
        for index, name in enumerate(names):
            count = topics[name].partitions
            self.partitions += [(name, partition) for partition in range(count)]
            self.topic_of += [index] * count
            self.racks += racks.get(name, [None] * count)
        indices = {name: index for index, name in enumerate(names)}
        self.wanted = [
            sorted({indices[name] for name in member.topics if name in indices})
            for member in self.members
        ]
        self.subscribers: list[list[int]] = [[] for _ in names]
        for number, wanted in enumerate(self.wanted):
            for topic in wanted:
                self.subscribers[topic].append(number)
        self.given: list[list[int]] = [[] for _ in self.members]
        self.unwanted: list[list[int]] = [[] for _ in self.members]
        self.owner: list[int | None] = [None] * len(self.partitions)
        self.stale: dict[int, int] = {}
        self._believe([_claim(member, cooperative=cooperative) for member in self.members])
        self.original = list(self.owner)

    @property
    def is_uniform(self) -> bool:
        """Whether all members subscribe to all topics."""
        return all(len(those) == len(self.members) for those in self.subscribers)

    @property
    def free(self) -> Iterator[int]:
        """The partitions that nobody has, while they are dealt."""
        return (partition for partition, owner in enumerate(self.owner) if owner is None)

    @property
    def assignment(self) -> Assignment:
        """What each member gets."""
        return as_listed(
            {
                member.member_id: [self.partitions[partition] for partition in given]
                for member, given in zip(self.members, self.given, strict=True)
            }
        )

    def in_racks(self, members: Iterable[int]) -> dict[str | None, list[int]]:
        """Give those of some members that have a rack, by rack."""
        found: dict[str | None, list[int]] = {}
        for member in members:
            if rack := self.members[member].rack:
                found.setdefault(rack, []).append(member)
        return found

    def give(self, partition: int, member: int) -> None:
        """Give a partition that nobody has."""
        self.given[member].append(partition)
        self.owner[partition] = member

    def _believe(self, claims: Sequence[tuple[Sequence[TopicPartition], int]]) -> None:
        """Let members have what they claim, as far as they still subscribe to it.

        Of several claims the one of the highest generation counts, and the next highest is kept:
        it may be of the same generation, and then the member that comes first in turn has it.
        """
        numbers = {partition: number for number, partition in enumerate(self.partitions)}
        newest: dict[int, tuple[int, int]] = {}
        older: dict[int, tuple[int, int]] = {}
        for member, (claimed, generation) in enumerate(claims):
            for name in claimed:
                partition = numbers.get(name)
                if partition is None:
                    continue
                claim = generation, member
                if partition not in newest:
                    newest[partition] = claim
                elif generation > newest[partition][0]:
                    older[partition], newest[partition] = newest[partition], claim
                elif partition not in older or generation > older[partition][0]:
                    older[partition] = claim
        self.stale = {partition: older[partition][1] for partition in sorted(older)}
        wanted = [frozenset(topics) for topics in self.wanted]
        for partition in sorted(newest):
            _, member = newest[partition]
            if self.topic_of[partition] in wanted[member]:
                self.give(partition, member)
            else:
                self.unwanted[member].append(partition)


def _claim(member: Subscriber, *, cooperative: bool) -> tuple[Sequence[TopicPartition], int]:
    """Give what a member says that it owned, and in which generation."""
    if cooperative and member.generation is not None and member.generation >= 0:
        return member.owned, member.generation
    return member.remembered or (), max(member.remembered_generation or 0, 0)


def panic(message: str) -> AssignorError:
    """Make the error with which the leader's whole program ends."""
    return AssignorError("panic", f"runtime error: {message}")


def swap_remove(items: list[int], item: int) -> None:
    """Put the last one in the place of one; where that is not there, in the place of the first."""
    if not items:
        raise panic("index out of range [-1]")
    at = items.index(item) if item in items else 0
    items[at] = items[-1]
    items.pop()
