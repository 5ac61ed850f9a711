"""kafka-go by Segment: subscriptions and assignors.

A member sends its topics in the order of the application and remembers nothing. The leader takes
partitions in the order of the Metadata response.

Source: `RangeGroupBalancer`, `RoundRobinGroupBalancer`, `RackAffinityGroupBalancer` and
`ConsumerGroup.assignTopicPartitions` of kafka-go 0.4.51, the same since 0.3.6. `Conn` has changed
in 0.4.36: before, topics that exist are assigned even if another one is missing.
"""

from __future__ import annotations

from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    ClassicAssignor,
    Subscriber,
    TopicMetadata,
)
from kgroup.assignor.client.go_library import (
    MapOrder,
    ascending,
    is_same_in_any_order,
    takers_by_topic,
)
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.member_spec import MemberSpec

_BY_RACK = "rack-affinity"

_TopicAssignor = Callable[[Sequence[Subscriber], TopicMetadata], Mapping[str, Sequence[int]]]


def as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    """Return the members' subscriptions as the leader reads them.

    Only rack-affinity sends a rack: its name is the user data.
    """
    return [
        Subscriber(
            member_id=member.member_id,
            topics=member.topics,
            rack=member.rack if strategy == _BY_RACK else None,
            is_short=True,
        )
        for member in members
    ]


def rack_in_user_data(strategy: str | None, user_data: object) -> str | None:
    """Return the rack that a member sends.

    Args:
        strategy: strategy of the group.
        user_data: user data of the subscription, in base64.
    """
    if strategy != _BY_RACK or not isinstance(user_data, str):
        return None
    return b64decode(user_data).decode("utf-8", "replace") or None


def assign_range(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`. Bounds of ranges are rounded down."""

    def runs(takers: Sequence[Subscriber], topic: TopicMetadata) -> dict[str, list[int]]:
        given: dict[str, list[int]] = {member.member_id: [] for member in takers}
        for at, member in enumerate(sorted(takers, key=lambda member: member.member_id)):
            first, end = (number * topic.partitions // len(takers) for number in (at, at + 1))
            given[member.member_id] += topic.as_listed[first:end]
        return given

    return _by_topic(members, topics, runs)


def assign_round_robin(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as the leader does; the partitions of each topic start with the first member."""

    def dealt(takers: Sequence[Subscriber], topic: TopicMetadata) -> dict[str, list[int]]:
        given: dict[str, list[int]] = {member.member_id: [] for member in takers}
        for at, member in enumerate(sorted(takers, key=lambda member: member.member_id)):
            given[member.member_id] += topic.as_listed[at :: len(takers)]
        return given

    return _by_topic(members, topics, dealt)


def assign_by_rack(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata], order: MapOrder = ascending
) -> Assignment:
    """Assign as the leader does: partitions whose leader is in the member's rack, if that is even.

    The order of racks is random. It matters if the partitions left over fit into several racks,
    and if several racks have partitions left for others.
    """
    return _by_topic(
        members, topics, lambda takers, topic: _assign_topic_by_rack(takers, topic, order)
    )


def _assign_topic_by_rack(
    takers: Sequence[Subscriber], topic: TopicMetadata, order: MapOrder
) -> dict[str, list[int]]:
    """Assign one topic. Source: `RackAffinityGroupBalancer.assignTopic`."""
    partitions_in: dict[str, list[int]] = defaultdict(list)
    racks = topic.leader_racks or (None,) * topic.partitions
    for number in topic.as_listed:
        partitions_in[racks[number] or ""].append(number)
    takers_in: dict[str, list[str]] = defaultdict(list)
    for member in takers:
        takers_in[member.rack or ""].append(member.member_id)
    target, more = divmod(topic.partitions, len(takers))
    given: dict[str, list[int]] = {member.member_id: [] for member in takers}
    left: dict[str, list[int]] = {}
    for rack in order(partitions_in):
        partitions, local = partitions_in[rack], takers_in[rack]
        quota = min(len(partitions) // len(local), target) if local else 0
        for at, member_id in enumerate(local):
            given[member_id] += partitions[at * quota : (at + 1) * quota]
        partitions = partitions[len(local) * quota :]
        extra = min(len(partitions), len(local))
        if quota == target:
            extra = min(extra, more)
            more -= extra
        for member_id, number in zip(local, partitions[:extra], strict=False):
            given[member_id].append(number)
        left[rack] = partitions[extra:]
    remaining = [number for rack in order(left) for number in left[rack]]
    for member in takers:
        missing = target - len(given[member.member_id])
        if missing >= 0 and more:
            missing += 1
            more -= 1
        given[member.member_id] += remaining[: max(0, missing)]
        del remaining[: max(0, missing)]
    return given


def _by_topic(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata], assign: _TopicAssignor
) -> Assignment:
    """Assign each topic separately; a message has topics in random order, here they are sorted.

    Raises:
        AssignorError: a subscription has fields after the user data, as Java's does since 2.4.
    """
    for member in members:
        if member.goes_on:
            raise AssignorError(
                "wrapError", f"unable to read metadata for member, {member.member_id}: %!w(<nil>)"
            )
    assignment: Assignment = {member.member_id: [] for member in members}
    takers = takers_by_topic(members)
    if takers.keys() <= topics.keys():  # else the brokers tell nothing of the other topics either
        for name in sorted(takers):
            for member_id, numbers in assign(takers[name], topics[name]).items():
                assignment[member_id] += [(name, number) for number in numbers]
    return assignment


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    """Return whether no random map order matters and the order of shared topics is known."""
    if any(
        len(takers) > 1 and name in topics and not topics[name].is_listing_known
        for name, takers in takers_by_topic(members).items()
    ):
        return False
    if assignor is _RACK_AWARE[1]:
        members = _without_missing(members, topics)
    return assignor not in _RACK_AWARE or is_same_in_any_order(
        lambda order: assign_by_rack(members, topics, order)
    )


def _without_missing(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> list[Subscriber]:
    return [
        replace(member, topics=tuple(filter(topics.__contains__, member.topics)))
        for member in members
    ]


def _before_0_4_36(assign: ClassicAssignor) -> ClassicAssignor:
    """Return an assignor for leaders that assign the other topics if one does not exist."""
    return lambda members, topics: assign(_without_missing(members, topics), topics)


_STRATEGIES = {"range": assign_range, "roundrobin": assign_round_robin, _BY_RACK: assign_by_rack}
_STRATEGIES_0_3_6 = {name: _before_0_4_36(assign) for name, assign in _STRATEGIES.items()}
_RACK_AWARE = (assign_by_rack, _STRATEGIES_0_3_6[_BY_RACK])

KAFKA_GO = ClientLibrary(
    name="kafka-go",
    strategies={"0.4.51": _STRATEGIES, "0.4.35": _STRATEGIES_0_3_6},
    as_sent=as_sent,
    client_id="{word}@{word} (github.com/segmentio/kafka-go)",
    is_determined=_is_determined,
    since={"0.4.51": "0.4.38", "0.4.35": "0.3.6"},
    assignors_by_rack=_RACK_AWARE,
    inexact=dict.fromkeys(_STRATEGIES, (("0.4.36", "0.4.38"),)),
)
