"""Range: every member gets consecutive partitions of each topic.

Source: `RangeAssignor` of kafka-clients 4.3.1, with racks (KIP-881).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice, repeat

from kgroup.assignor.base import (
    Assignment,
    Subscriber,
    TopicMetadata,
    by_member_info,
    consumers_by_topic,
    in_hash_order,
    java_order,
    uses_racks,
    with_metadata,
)
from kgroup.assignor.java.java_hash import hash_order, utf16
from kgroup.model.cluster import TopicPartition


def assign(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as the newest clients do; see `ClassicAssignor`."""
    members = in_hash_order(members)
    return _assign(members, by_member_info(members), with_metadata(members, topics), topics)


def assign_before_racks(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as kafka-clients 2.1.0 to 3.4.1 do: without racks."""
    members = [replace(member, rack=None) for member in in_hash_order(members)]
    subscriptions = dict.fromkeys(member.topics for member in members)
    calls = [topic for own in subscriptions for topic in own]
    last = [topic for member in members for topic in member.topics[-1:]][-1:]
    names = hash_order(
        [*calls, *last] if len(subscriptions) < len(members) else calls, prepend=True
    )
    in_turn = by_member_info(members)
    return _assign(members, in_turn, [name for name in names if name in topics], topics)


def assign_1_1(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as kafka-clients 1.1.1 does: without racks and static members."""
    members = in_hash_order(members)
    in_turn = sorted(members, key=lambda member: utf16(member.member_id))
    subscriptions = dict.fromkeys(member.topics for member in members)
    names = hash_order(topic for own in subscriptions for topic in own)
    return _assign(members, in_turn, [name for name in names if name in topics], topics)


def _assign(
    members: Sequence[Subscriber],
    in_turn: Sequence[Subscriber],
    names: Sequence[str],
    topics: Mapping[str, TopicMetadata],
) -> Assignment:
    consumers = consumers_by_topic([member.topics for member in in_turn], names)
    assignment: Assignment = {member.member_id: [] for member in members}
    if any(member.rack for member in members):
        states = [
            _TopicState(name, topics[name], [in_turn[at] for at in indices])
            for name, indices in consumers.items()
        ]
        if any(state.needs_racks for state in states):
            _assign_by_rack(states, assignment)
            return assignment
    _assign_ranges(consumers, topics, [assignment[member.member_id] for member in in_turn])
    return assignment


def _assign_ranges(
    consumers: Mapping[str, Sequence[int]],
    topics: Mapping[str, TopicMetadata],
    given: Sequence[list[TopicPartition]],
) -> None:
    """Append its partitions of each topic to every member's list.

    Adjacent topics with the same consumers and the same number of partitions are assigned
    together: a member gets the same partition numbers of all of them.

    Args:
        consumers: indices of members, by topic; the first ones get the extra partitions.
        topics: topics of the cluster.
        given: partitions of each member, by index.
    """

    def shape(name: str) -> tuple[int, int]:
        return id(consumers[name]), topics[name].partitions

    for (_, count), alike in groupby(consumers, key=shape):
        names = list(alike)
        lists = [[*zip(repeat(name), range(count))] for name in names]
        columns = list(zip(*lists, strict=True)) if count < len(names) else []
        indices = consumers[names[0]]
        quota, extras = divmod(count, len(indices))
        start = 0
        for turn, at in enumerate(indices[:count]):
            end = start + quota + (turn < extras)
            runs = (
                zip(*columns[start:end], strict=True) if columns else (p[start:end] for p in lists)
            )
            given[at] += chain.from_iterable(runs)
            start = end


class _TopicState:
    """A topic during a rack-aware assignment."""

    def __init__(self, name: str, topic: TopicMetadata, consumers: list[Subscriber]) -> None:
        self.consumers = consumers
        self.partitions: list[TopicPartition] = [(name, p) for p in range(topic.partitions)]
        self._is_free = [True] * topic.partitions
        self._taken = dict.fromkeys((consumer.member_id for consumer in consumers), 0)
        self._quota, self._extras = divmod(topic.partitions, len(consumers))
        racks = frozenset(consumer.rack for consumer in consumers if consumer.rack)
        self.racks = [topic.racks_of(p) for p in range(topic.partitions)] if racks else []
        self.needs_racks = uses_racks(racks, self.racks)

    def room(self, member_id: str) -> int:
        """Return the number of partitions that a member may still get."""
        return max(0, self._quota + (self._extras > 0) - self._taken[member_id])

    def take(self, member_id: str, partitions: Sequence[int], assignment: Assignment) -> None:
        """Assign free partitions to a member; together they use up at most one extra partition."""
        assignment[member_id] += [self.partitions[partition] for partition in partitions]
        for partition in partitions:
            self._is_free[partition] = False
        self._taken[member_id] += len(partitions)
        if self._taken[member_id] > self._quota:
            self._extras -= 1

    def assign_ranges(self, assignment: Assignment) -> None:
        """Assign the next free partitions to every member that has room."""
        free = [p for p, is_free in enumerate(self._is_free) if is_free]
        start = 0
        for consumer in self.consumers:
            if start >= len(free):
                break
            end = start + self.room(consumer.member_id)
            if end > start:
                self.take(consumer.member_id, free[start:end], assignment)
                start = end

    def assign_ranges_by_rack(self, assignment: Assignment) -> None:
        """Assign only partitions with a replica in the member's rack."""
        # all candidates before `start` are taken
        start: dict[str | None, int] = defaultdict(int)
        candidates: dict[str | None, list[int]] = {}
        for consumer in self.consumers:
            rack = consumer.rack
            if rack not in candidates:
                candidates[rack] = [
                    p for p, racks in enumerate(self.racks) if _matches(rack, racks)
                ]
            own = candidates[rack]
            while start[rack] < len(own) and not self._is_free[own[start[rack]]]:
                start[rack] += 1
            free = (own[at] for at in range(start[rack], len(own)) if self._is_free[own[at]])
            if chosen := list(islice(free, self.room(consumer.member_id))):
                self.take(consumer.member_id, chosen, assignment)


def _assign_by_rack(states: Sequence[_TopicState], assignment: Assignment) -> None:
    """Assign partitions with a replica in the member's rack, then the rest without racks.

    Topics with the same subscribers and the same number of partitions are co-partitioned: a
    member gets the same partition numbers of all of them.
    """
    groups: dict[tuple[frozenset[str], int], list[_TopicState]] = defaultdict(list)
    for state in states:
        members = frozenset(consumer.member_id for consumer in state.consumers)
        groups[members, len(state.racks)].append(state)
    for group in groups.values():
        if len(group) > 1:
            _assign_together(group, assignment)
        elif group[0].needs_racks:
            group[0].assign_ranges_by_rack(assignment)
    for state in states:
        state.assign_ranges(assignment)
    for partitions in assignment.values():
        partitions.sort(key=java_order)


def _assign_together(states: Sequence[_TopicState], assignment: Assignment) -> None:
    """Assign each partition number of all topics to the first member with room that matches."""
    # members by rack, in order; a member without room never gets room again
    waiting: dict[str | None, list[tuple[int, str]]] = defaultdict(list)
    for index, consumer in enumerate(states[0].consumers):
        waiting[consumer.rack].append((index, consumer.member_id))
    for queue in waiting.values():
        queue.reverse()
    for partition in range(len(states[0].racks)):
        first: tuple[int, str] | None = None
        for rack, queue in waiting.items():
            if all(_matches(rack, state.racks[partition]) for state in states):
                while queue and not states[0].room(queue[-1][1]):
                    queue.pop()
                if queue and (first is None or queue[-1] < first):
                    first = queue[-1]
        if first is not None:
            for state in states:
                state.take(first[1], [partition], assignment)


def _matches(rack: str | None, racks: frozenset[str]) -> bool:
    return not rack or rack in racks
