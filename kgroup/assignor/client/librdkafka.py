"""librdkafka (C, C++, Python, .NET, Rust, PHP, Node): subscriptions, range and round robin.

Source: `rd_kafka_range_assignor_assign_cb` of librdkafka 2.16, with racks (KIP-881), and of 2.1.1;
`rd_kafka_roundrobin_assignor_assign_cb` of 2.16, the same since 1.5.0. Subscriptions:
`rd_kafka_consumer_protocol_member_metadata_new` (rdkafka_assignor.c),
`rd_kafka_sticky_assignor_get_metadata` (rdkafka_sticky_assignor.c) and
`rd_kafka_cgrp_group_assignment_set`, `rd_kafka_cgrp_modify_subscription` (rdkafka_cgrp.c) of
librdkafka 2.16 and 2.1.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from kgroup.assignor.base import Assignment, ClassicAssignor, Subscriber, TopicMetadata
from kgroup.assignor.client.librdkafka_sticky import (
    EligibleTopic,
    assign_sticky,
    assign_sticky_before_2_2,
    assign_sticky_before_2_6_1,
    eligible_topics,
    in_order,
    need_racks,
    read,
)
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.member_spec import MemberSpec, UserData
from kgroup.assignor.sticky.claim import or_no_generation

_GENERATION_FROM = 2
_RACK_FROM = 3


def as_sent(members: Sequence[MemberSpec], strategy: str) -> list[Subscriber]:
    """Return subscriptions of 2.2.0 and later (version 3 of the message) as the leader reads them.

    A member revokes partitions of topics that it no longer subscribes to before it joins; the user
    data of cooperative-sticky, which no leader of librdkafka reads, still contains them. A member
    without a rack sends an empty one, which a leader of librdkafka does not treat as none.
    """
    return [_member_as_sent(member, strategy, version=3) for member in members]


def as_sent_before_2_2(members: Sequence[MemberSpec], strategy: str) -> list[Subscriber]:
    """Return subscriptions before 2.2.0 (version 1 of the message) as the leader reads them."""
    return [_member_as_sent(member, strategy, version=1) for member in members]


def _member_as_sent(member: MemberSpec, strategy: str, version: int) -> Subscriber:
    is_sticky = strategy == "cooperative-sticky"
    generation: int | None = None
    if version >= _GENERATION_FROM:
        generation = member.subscription_generation
        if generation is None:
            generation = or_no_generation(member.generation if is_sticky else None)
    user_data = member.user_data
    if user_data is None:
        has_data = is_sticky and member.owned is not None
        user_data = UserData(member.owned, member.generation) if has_data else UserData()
    wanted = frozenset(member.topics)
    kept = [partition for partition in member.owned or () if is_sticky and partition[0] in wanted]
    return Subscriber(
        member_id=member.member_id,
        topics=tuple(sorted(member.topics)),
        instance_id=member.instance_id,
        rack=(member.rack or "") if version >= _RACK_FROM else None,
        owned=tuple(sorted(kept)),
        generation=generation,
        remembered=user_data.owned,
        remembered_generation=user_data.generation,
        version=version,
        goes_on=version > 0,
    )


def assign_range(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as leaders of 2.2.0 and later do; see `ClassicAssignor`."""
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


def assign_range_before_racks(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as leaders before 2.2.0 do."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in eligible_topics(read(members), topics):
        _TopicState(topic).assign_ranges(assignment, by_rack=False)
    return assignment


class _TopicState:
    """A topic during the assignment."""

    def __init__(self, topic: EligibleTopic) -> None:
        self.topic = topic
        self.members = in_order(topic.members)
        self._free = dict.fromkeys(range(topic.partitions))
        self._taken = {member.member_id: 0 for member in self.members}
        self._quota, self._extras = divmod(topic.partitions, len(self.members))

    def kind(self) -> tuple[list[str], int]:
        """Return a key that is equal for topics that are assigned together, and that sorts them."""
        return [member.member_id for member in self.members], self.topic.partitions

    def room(self, member: Subscriber) -> int:
        """Return the number of partitions that a member may still get."""
        return max(0, self._quota + (self._extras > 0) - self._taken[member.member_id])

    def matches(self, member: Subscriber, partition: int) -> bool:
        """Return whether a partition has a replica in the member's rack."""
        return member.rack in self.topic.racks[partition]

    def take(self, member: Subscriber, partition: int, assignment: Assignment) -> None:
        """Assign a free partition to a member; each above the quota uses up an extra one."""
        assignment[member.member_id].append((self.topic.name, partition))
        del self._free[partition]
        self._taken[member.member_id] += 1
        if self._taken[member.member_id] > self._quota:
            self._extras -= 1

    def assign_ranges(self, assignment: Assignment, *, by_rack: bool) -> None:
        """Assign the next free partitions to every member, or only those in its rack."""
        for member in self.members:
            fitting = [
                partition
                for partition in self._free
                if not by_rack or not member.rack or self.matches(member, partition)
            ]
            for partition in fitting[: self.room(member)]:
                self.take(member, partition, assignment)


def _assign_together(states: Sequence[_TopicState], assignment: Assignment) -> None:
    """Assign each partition number of all topics to the first member with room in its rack.

    Unlike in Java, a member without a rack gets none here.
    """
    if not any(racks for state in states for racks in state.topic.racks):
        return
    for partition in range(states[0].topic.partitions):
        for member in states[0].members:
            if all(state.matches(member, partition) and state.room(member) for state in states):
                for state in states:
                    state.take(member, partition, assignment)
                break


def assign_round_robin(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`."""
    assignment: Assignment = {member.member_id: [] for member in members}
    readable = read(members)
    circle = in_order(readable)
    turn = -1
    for topic in sorted(eligible_topics(readable, topics), key=attrgetter("name")):
        for partition in range(topic.partitions):
            turn = (turn + 1) % len(circle)
            while topic.name not in circle[turn].topics:
                turn = (turn + 1) % len(circle)
            assignment[circle[turn].member_id].append((topic.name, partition))
    return assignment


_BEFORE_RACKS = "2.1.1"


def _as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    sent = as_sent_before_2_2 if version == _BEFORE_RACKS else as_sent
    return sent(members, strategy)


def _strategies(range_: ClassicAssignor, sticky_: ClassicAssignor) -> dict[str, ClassicAssignor]:
    return {"range": range_, "roundrobin": assign_round_robin, "cooperative-sticky": sticky_}


LIBRDKAFKA = ClientLibrary(
    name="librdkafka",
    strategies={
        "2.16.0": _strategies(assign_range, assign_sticky),
        "2.6.0": _strategies(assign_range, assign_sticky_before_2_6_1),
        _BEFORE_RACKS: _strategies(assign_range_before_racks, assign_sticky_before_2_2),
    },
    as_sent=_as_sent,
    client_id="rdkafka",
    since={"2.16.0": "2.6.1", "2.6.0": "2.2.0", _BEFORE_RACKS: "1.7.0"},
    on_short={"2.16.0": None, "2.6.0": None, _BEFORE_RACKS: None},
)
