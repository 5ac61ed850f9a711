"""What a member of a classic group sends when it joins, as Kafka's Java client does.

Source: `ConsumerCoordinator.metadata`, `ConsumerProtocol.serializeSubscription`,
`StickyAssignor.subscriptionUserData`, `CooperativeStickyAssignor.subscriptionUserData` of
kafka-clients 4.3.1; `StickyAssignor.subscription` of 1.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.assignor.base import Subscriber, TopicPartition, java_order
from kgroup.assignor.java_hash import hash_order, utf16
from kgroup.assignor.spec import MemberSpec, UserData
from kgroup.assignor.sticky_claim import NO_GENERATION

__all__ = ["as_sent", "as_sent_1_1"]

_OWNED_FROM = 1
_GENERATION_FROM = 2
_RACK_FROM = 3


def as_sent(member: MemberSpec, strategy: str) -> Subscriber:
    """Give what the leader reads in the subscription that a member sends.

    Args:
        member: that joins.
        strategy: name of the assignor; only cooperative-sticky keeps its partitions meanwhile.
    """
    is_cooperative = strategy == "cooperative-sticky"
    generation = member.generation
    if member.subscription_generation is not None:
        generation = member.subscription_generation
    if member.version < _GENERATION_FROM or generation is None or generation < 0:
        generation = None
    keeps = is_cooperative and member.version >= _OWNED_FROM
    user_data = member.user_data
    if user_data is None:
        user_data = _user_data(member, strategy)
    return Subscriber(
        member_id=member.member_id,
        topics=tuple(sorted(member.topics, key=utf16)),
        instance_id=member.instance_id,
        rack=member.rack or None if member.version >= _RACK_FROM else None,
        owned=tuple(sorted(member.owned or (), key=java_order)) if keeps else (),
        generation=generation,
        remembered=user_data.owned,
        remembered_generation=user_data.generation,
    )


def as_sent_1_1(member: MemberSpec, strategy: str) -> Subscriber:
    """Give what the leader reads in the subscription that a member of version 1.1.1 sends.

    Its topics are in the order of a HashSet, which is taken from the member as it is.
    """
    user_data = member.user_data or UserData()
    if member.user_data is None and strategy == "sticky" and member.owned is not None:
        user_data = UserData(_by_topic(member.owned, prepend=False))
    return Subscriber(member.member_id, member.topics, remembered=user_data.owned)


def _user_data(member: MemberSpec, strategy: str) -> UserData:
    generation = NO_GENERATION if member.generation is None else member.generation
    if strategy == "cooperative-sticky":
        return UserData(generation=generation)
    if strategy == "sticky" and (member.owned is not None or member.generation is not None):
        return UserData(_by_topic(member.owned or ()), generation)
    return UserData()


def _by_topic(
    partitions: Sequence[TopicPartition], *, prepend: bool = True
) -> tuple[TopicPartition, ...]:
    """Order partitions as Kafka's `CollectionUtils` does: by a HashMap of topics."""
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition[0], []).append(partition)
    calls = list(by_topic)
    if calls and (partitions[-1][0] != calls[-1] or len(by_topic[calls[-1]]) > 1):
        calls.append(calls[-1])  # one for a topic that is there makes a full table grow
    order = hash_order(calls, prepend=prepend)
    return tuple(partition for topic in order for partition in by_topic[topic])
