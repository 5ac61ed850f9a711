"""@platformatic/kafka: the leader deals the partitions of its own topics to all members in turn.

It does not read subscriptions: members get partitions of topics to which they do not subscribe, and
topics that the leader does not subscribe to are not assigned. The leader's topics are sorted since
its look for metadata sorts them in place (1.18.0); members are in the order of the JoinGroup
response. There is no state and no rack.

Source: `src/clients/consumer/partitions-assigners.ts`, `#performSyncGroup` and `#createAssignments`
in `consumer.ts`, and `#performMetadata` in `src/clients/base/base.ts` of 1.35.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    ClassicAssignor,
    Subscriber,
    TopicMetadata,
)
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model import client_library

_SHORT = frozenset({client_library.PLATFORMATIC, client_library.KAFKA_GO})
"""Libraries that may have written a subscription that is too short for its version."""


def _assign(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as the leader does; an unknown leader is taken to be the first member.

    Raises:
        AssignorError: a topic of a member does not exist.
    """
    leader = next((member for member in members if member.leads), members[0])
    for subscribed in (leader.topics, {topic for member in members for topic in member.topics}):
        missing = set(subscribed) - topics.keys()
        if missing:
            raise AssignorError("UserError", f"Unknown topic {min(missing, key=utf16)}.")
    dealt = [
        (name, number)
        for name in sorted(set(leader.topics), key=utf16)
        for number in range(topics[name].partitions)
    ]
    return {member.member_id: dealt[at :: len(members)] for at, member in enumerate(members)}


def _as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    return [
        Subscriber(
            member.member_id,
            member.topics,
            is_short=(member.may_be or _SHORT) <= _SHORT,  # until 2.11
        )
        for member in members
    ]


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    """Return whether the leader is known or does not matter."""
    return (
        any(member.leads for member in members)
        or len({frozenset(member.topics) for member in members}) == 1
    )


PLATFORMATIC = ClientLibrary(
    name=client_library.PLATFORMATIC,
    strategies={"1.35.0": {"roundrobin": _assign}},
    as_sent=_as_sent,
    client_id="{word}",
    is_determined=_is_determined,
    since={"1.35.0": "1.31.0"},
)
