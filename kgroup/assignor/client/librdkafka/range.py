"""Range: of each topic, every member gets a run of neighbouring partitions.

Source: `rd_kafka_range_assignor_assign_cb` of librdkafka 2.16, with racks (KIP-881), and of 2.1.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from kgroup.assignor.base import Assignment, Subscriber, Topic
from kgroup.assignor.client.librdkafka.group import (
    EligibleTopic,
    eligible_topics,
    in_order,
    need_racks,
    read,
)


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does since 2.2.0, see `ClassicAssignor`."""
    assignment: Assignment = {member.member_id: [] for member in members}
    states = [_TopicState(topic) for topic in eligible_topics(read(members), topics)]
    states.sort(key=_TopicState.kind)
    for _, group in groupby(states, key=_TopicState.kind):
        alike = list(group)
        if len(alike) > 1:
            _assign_together(alike, assignment)
        elif need_racks([alike[0].topic]):
            alike[0].assign_ranges(assignment, by_rack=True)
    for state in states:
        state.assign_ranges(assignment, by_rack=False)
    return assignment


def assign_before_racks(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader did before 2.2.0."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in eligible_topics(read(members), topics):
        _TopicState(topic).assign_ranges(assignment, by_rack=False)
    return assignment


class _TopicState:
    """A topic while it is being assigned."""

    def __init__(self, topic: EligibleTopic) -> None:
        self.topic = topic
        self.members = in_order(topic.members)
        self._free = dict.fromkeys(range(topic.partitions))
        self._taken = {member.member_id: 0 for member in self.members}
        self._quota, self._extras = divmod(topic.partitions, len(self.members))

    def kind(self) -> tuple[list[str], int]:
        """Give what topics have in common that are assigned together, and a sort key."""
        return [member.member_id for member in self.members], self.topic.partitions

    def room(self, member: Subscriber) -> int:
        """Give how many more partitions a member may get."""
        return max(0, self._quota + (self._extras > 0) - self._taken[member.member_id])

    def matches(self, member: Subscriber, partition: int) -> bool:
        """Tell whether a partition has a replica in the member's rack."""
        return member.rack in self.topic.racks[partition]

    def take(self, member: Subscriber, partition: int, assignment: Assignment) -> None:
        """Give a free partition to a member; each above the quota counts as an extra one."""
        assignment[member.member_id].append((self.topic.name, partition))
        del self._free[partition]
        self._taken[member.member_id] += 1
        if self._taken[member.member_id] > self._quota:
            self._extras -= 1

    def assign_ranges(self, assignment: Assignment, *, by_rack: bool) -> None:
        """Give every member the next free partitions, or those that are in its rack."""
        for member in self.members:
            fitting = [
                partition
                for partition in self._free
                if not by_rack or not member.rack or self.matches(member, partition)
            ]
            for partition in fitting[: self.room(member)]:
                self.take(member, partition, assignment)


def _assign_together(states: Sequence[_TopicState], assignment: Assignment) -> None:
    """Give each partition of all these topics to the first member with room that is in its rack.

    Other than in Java a member without a rack gets none here.
    """
    if not any(racks for state in states for racks in state.topic.racks):
        return
    for partition in range(states[0].topic.partitions):
        for member in states[0].members:
            if all(state.matches(member, partition) and state.room(member) for state in states):
                for state in states:
                    state.take(member, partition, assignment)
                break
