"""KafkaJS: the leader assigns all partitions of its own topics to all members in turn.

It does not read subscriptions: members get partitions of topics to which they do not subscribe and
do not read them, and topics that the leader does not subscribe to are not assigned. There is no
state, no rack and no static member. Partitions are in the order of the Metadata response.

Source: `src/consumer/assigners/roundRobinAssigner/index.js`, `src/consumer/consumerGroup.js` and
`subscribe` in `src/consumer/index.js` of kafkajs 2.2.4 and 1.12.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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


def _assign(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as versions since 1.13.0 do; see `ClassicAssignor`."""
    circle = _in_turn(members)
    dealt = [
        (name, number)
        for name in topics_of_leader(members, topics)
        for number in topics[name].as_listed
    ]
    return {member_id: dealt[at :: len(circle)] for at, member_id in enumerate(circle)}


def _assign_by_topic(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as earlier versions do: partition 0 of each topic to the first member."""
    circle = _in_turn(members)
    assignment: Assignment = {member_id: [] for member_id in circle}
    for name in topics_of_leader(members, topics):
        for number in topics[name].as_listed:
            assignment[circle[number % len(circle)]].append((name, number))
    return assignment


def _in_turn(members: Sequence[Subscriber]) -> list[str]:
    return sorted((member.member_id for member in members), key=utf16)


def topics_of_leader(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> list[str]:
    """Return the topics that are assigned; an unknown leader is taken to be the first member.

    Raises:
        AssignorError: a topic does not exist. The leader refreshes its metadata, and a broker that
            does not create topics automatically returns an error.
    """
    leader = next((member for member in members if member.leads), members[0])
    if not topics.keys() >= set(leader.topics):
        message = "This server does not host this topic-partition"
        raise AssignorError("KafkaJSProtocolError", message)
    return list(leader.topics)


def as_keys(names: Iterable[str]) -> list[str]:
    """Return names in the key order of a JavaScript object: numbers, then insertion order."""
    keys = dict.fromkeys(names)
    return sorted(keys, key=lambda name: (not _is_index(name), int(name) if _is_index(name) else 0))


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdigit() and name == str(int(name)) and int(name) < 2**32 - 1


def _as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    return [Subscriber(member.member_id, tuple(as_keys(member.topics))) for member in members]


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    """Return whether the leader and the order of topics are known or do not matter."""
    if len(members) > 1 and not all(
        topics[name].is_listing_known for name in topics_of_leader(members, topics)
    ):
        return False
    return (
        any(member.leads for member in members) or len({member.topics for member in members}) == 1
    )


KAFKAJS = ClientLibrary(
    name="kafkajs",
    strategies={
        "2.2.4": {"RoundRobinAssigner": _assign},
        "1.12.0": {"RoundRobinAssigner": _assign_by_topic},
    },
    as_sent=_as_sent,
    client_id="kafkajs",
    is_determined=_is_determined,
    since={"2.2.4": "1.13.0", "1.12.0": "1.4.0"},
)
