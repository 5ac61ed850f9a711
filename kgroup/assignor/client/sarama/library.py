"""Sarama: what its members send, and the assignors of its versions.

Source: `consumerGroup.joinGroupRequest`, `subscriptionMetadata` and `ownedPartitions` of
Sarama 1.61.1 (github.com/IBM/sarama; up to 1.38 github.com/Shopify/sarama).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import ClassicAssignor, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.map_order import is_same_in_any_order
from kgroup.assignor.client.sarama import range as range_assignor
from kgroup.assignor.client.sarama import round_robin, sticky
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.spec import MemberSpec

_OWNED_FROM = 1
_GENERATION_FROM = 2


def as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    """Give what the leader reads in the subscriptions of members made of Sarama.

    Topics are in the order in which the program names them. A sticky member sends back the user
    data of its last assignment; the cooperative one what it owns and the generation. No member
    sends its rack. A version of the message above 0 is sent since there is a cooperative strategy.
    """
    goes_on = "cooperative-sticky" in SARAMA.strategies[version]
    return [_as_sent(member, strategy, goes_on=goes_on) for member in members]


def _as_sent(member: MemberSpec, strategy: str, *, goes_on: bool) -> Subscriber:
    owned: tuple[TopicPartition, ...] = ()
    generation = remembered_generation = None
    remembered = None
    if strategy == "sticky" and member.owned is not None:
        remembered, remembered_generation = member.owned, member.generation
    elif strategy == "cooperative-sticky":
        remembered_generation = member.generation
        if member.version >= _OWNED_FROM:
            owned = tuple(sorted(member.owned or ()))
        if member.version >= _GENERATION_FROM:
            generation = member.subscription_generation
            if generation is None:
                generation = member.generation
    if member.user_data is not None:
        remembered = member.user_data.owned
        remembered_generation = member.user_data.generation
    return Subscriber(
        member_id=member.member_id,
        topics=member.topics,
        instance_id=member.instance_id,
        owned=owned,
        generation=generation,
        remembered=remembered,
        remembered_generation=remembered_generation,
        goes_on=goes_on and member.version >= _OWNED_FROM,
    )


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, Topic]
) -> bool:
    by_chance = next((each for each in _BY_CHANCE if each is assignor), None)
    return by_chance is None or is_same_in_any_order(
        lambda order: by_chance(members, topics, order)
    )


_BY_CHANCE = (sticky.assign, sticky.assign_cooperative)
_EAGER = {"range": range_assignor.assign, "roundrobin": round_robin.assign, "sticky": sticky.assign}

SARAMA = ClientLibrary(
    name="sarama",
    strategies={
        "1.61.1": {**_EAGER, "cooperative-sticky": sticky.assign_cooperative},
        "1.47.0": _EAGER,
        "1.30.0": {**_EAGER, "range": range_assignor.assign_1_28},
    },
    as_sent=as_sent,
    client_id="sarama",
    is_determined=_is_determined,
    since={"1.61.1": "1.60.1", "1.47.0": "1.35.0", "1.30.0": "1.28.0"},
    static_since="1.34.0",
)
