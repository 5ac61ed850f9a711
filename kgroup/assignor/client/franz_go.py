"""franz-go for Go (package kgo): subscriptions, range and round robin, by version.

Range is rack-aware in 1.21; in 1.22 only with the new option `BalanceRacks`.

Source: `groupConsumer.joinGroupProtocols` and `revoke` (consumer_group.go), `simpleMemberMetadata`,
`stickyBalancer.JoinGroupMetadata`, `rangeBalancer.Balance` and `roundRobinBalancer.Balance`
(group_balancer.go) of franz-go 1.14.0, 1.18.0, 1.21.2 and 1.22.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice

from kgroup.assignor.base import Assignment, ClassicAssignor, Subscriber, TopicMetadata
from kgroup.assignor.client.franz_go_sticky import (
    COOPERATIVE,
    COOPERATIVE_1_14,
    COOPERATIVE_1_18,
    COOPERATIVE_1_21,
    STICKY,
    STICKY_1_14,
    STICKY_1_18,
    STICKY_1_21,
    Sticky,
    as_listed,
    in_turn,
    is_same_for_any_leader,
    known_racks,
    subscribed,
)
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.member_spec import MemberSpec, UserData
from kgroup.model.cluster import TopicPartition

_WITHOUT_RACKS = ("1.18.0", "1.14.0")
_WITHOUT_GENERATION = ("1.14.0",)


def as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    """Return the members' subscriptions as the leader reads them.

    The message has version 3; up to 1.14.0, version 1 with cooperative-sticky and version 0 with
    other strategies. Go compares strings by code points, as Python does.

    Args:
        members: members that join.
        strategy: name of the assignor. Only members with cooperative-sticky report the partitions
            they own. Other members revoke and forget all partitions before they rejoin, so the user
            data of sticky has no partitions.
        version: version of franz-go.
    """
    return [_member_as_sent(member, strategy, version) for member in members]


def _member_as_sent(member: MemberSpec, strategy: str, version: str) -> Subscriber:
    generation = member.generation
    if member.subscription_generation is not None:
        generation = member.subscription_generation
    if generation is not None and (generation < 0 or version in _WITHOUT_GENERATION):
        generation = None
    owned = tuple(sorted(member.owned or ())) if strategy == "cooperative-sticky" else ()
    user_data = member.user_data
    if user_data is None:
        is_sticky = strategy in ("sticky", "cooperative-sticky")
        user_data = UserData(owned, member.generation) if is_sticky else UserData()
    return Subscriber(
        member_id=member.member_id,
        topics=tuple(sorted(member.topics)),
        instance_id=member.instance_id,
        rack=None if version in _WITHOUT_RACKS else member.rack or None,
        owned=owned,
        generation=generation,
        remembered=user_data.owned,
        remembered_generation=user_data.generation,
        goes_on=version != "1.14.0" or strategy == "cooperative-sticky",
    )


def assign_range(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign consecutive partitions of each topic to every member."""
    return _assign_range(members, topics, {})


def assign_range_by_rack(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign ranges as `assign_range` does, but partitions in the member's rack first."""
    return _assign_range(members, topics, known_racks(members, topics))


def _assign_range(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    racks: Mapping[str, Sequence[str | None]],
) -> Assignment:
    partitions: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    takers: dict[str, list[Subscriber]] = {name: [] for name in subscribed(members, topics)}
    for member in in_turn(members):
        for name in member.topics:
            if name in takers:
                takers[name].append(member)
    for name, consumers in takers.items():
        quota, extras = divmod(topics[name].partitions, len(consumers))
        left = {(name, partition): None for partition in range(topics[name].partitions)}
        in_rack: dict[str, list[TopicPartition]] = {}
        for partition, rack in zip(left, racks.get(name, ()), strict=False):
            if rack:
                in_rack.setdefault(rack, []).append(partition)
        missing = []
        for at, member in enumerate(consumers):
            near = in_rack.get(member.rack or "", [])
            own = near[: quota + (at < extras)]
            del near[: len(own)]
            for partition in own:
                del left[partition]
            partitions[member.member_id] += own
            missing.append(quota + (at < extras) - len(own))
        rest = iter(left)
        for member, count in zip(consumers, missing, strict=True):
            partitions[member.member_id] += islice(rest, count)
    return as_listed(partitions)


def assign_round_robin(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign all partitions to the members in turn; skip members that do not subscribe."""
    partitions: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    circle = cycle(
        [
            (frozenset(subscriber.topics), partitions[subscriber.member_id])
            for subscriber in in_turn(members)
        ]
    )
    for name in sorted(subscribed(members, topics)):
        for partition in range(topics[name].partitions):
            next(own for wanted, own in circle if name in wanted).append((name, partition))
    return as_listed(partitions)


_MOST_PARTITIONS = 5000
"""Above this number, `is_determined` does not try other orders, which takes up to 32 runs."""


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    by_rack = assignor.by_rack if isinstance(assignor, Sticky) else assignor is assign_range_by_rack
    if by_rack and not is_same_for_any_leader(members, topics):
        return False
    if not isinstance(assignor, Sticky):
        return True
    if sum(topic.partitions for topic in topics.values()) > _MOST_PARTITIONS:
        return False
    return assignor.is_determined(members, topics)


FRANZ_GO = ClientLibrary(
    name="franz-go",
    strategies={
        "1.22.0": {
            "cooperative-sticky": COOPERATIVE,
            "sticky": STICKY,
            "range": assign_range,
            "roundrobin": assign_round_robin,
        },
        "1.21.0": {
            "cooperative-sticky": COOPERATIVE_1_21,
            "sticky": STICKY_1_21,
            "range": assign_range_by_rack,
            "roundrobin": assign_round_robin,
        },
        "1.18.0": {
            "cooperative-sticky": COOPERATIVE_1_18,
            "sticky": STICKY_1_18,
            "range": assign_range,
            "roundrobin": assign_round_robin,
        },
        "1.14.0": {
            "cooperative-sticky": COOPERATIVE_1_14,
            "sticky": STICKY_1_14,
            "range": assign_range,
            "roundrobin": assign_round_robin,
        },
    },
    as_sent=as_sent,
    client_id="kgo",
    is_determined=_is_determined,
    since={"1.18.0": "1.15.2", "1.14.0": "1.5.0"},
    inexact={"cooperative-sticky": (("1.15.1", "1.15.2"), ("1.21.4", "1.22.0"))},
    version_by_rack="1.21.0",
    assignors_by_rack=(COOPERATIVE_1_21, STICKY_1_21, assign_range_by_rack),
)
