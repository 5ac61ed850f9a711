"""kafka-python: its assignors by version, and what its consumers send.

Source: `ConsumerCoordinator.group_protocols` of kafka-python and `metadata` of its assignors. A
consumer names its topics in the order of a set, which Python draws anew for each process
(cooperative-sticky: sorted); so that order is taken from the member as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from kgroup.assignor.base import AssignorError, ClassicAssignor, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.kafka_python import range as range_assignor
from kgroup.assignor.client.kafka_python import round_robin
from kgroup.assignor.client.kafka_python.sticky import StickyAssignor
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.spec import MemberSpec, UserData
from kgroup.assignor.sticky.claim import or_no_generation

_2_0_0: dict[str, ClassicAssignor] = {
    "range": range_assignor.assign_before_2_3,
    "roundrobin": round_robin.assign_before_2_3,
    "sticky": StickyAssignor(is_cooperative=False, reads_version=False, undoes_moves=False),
}
_2_3_0: dict[str, ClassicAssignor] = {
    "range": range_assignor.assign,
    "roundrobin": round_robin.assign,
    "sticky": _2_0_0["sticky"],
}
_3_0_0: dict[str, ClassicAssignor] = {
    **_2_3_0,
    "sticky": StickyAssignor(is_cooperative=False, reads_version=True, undoes_moves=False),
    "cooperative-sticky": StickyAssignor(
        is_cooperative=True, reads_version=True, undoes_moves=False
    ),
}
_3_0_12: dict[str, ClassicAssignor] = {
    **_2_3_0,
    "sticky": StickyAssignor(is_cooperative=False, reads_version=True, undoes_moves=True),
    "cooperative-sticky": StickyAssignor(
        is_cooperative=True, reads_version=True, undoes_moves=True
    ),
}


_NO_SECOND_JOIN = "2.0.2"
"""The version whose sticky member fails when it joins again, for it cannot write its user data."""


def _as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    if strategy == "cooperative-sticky":
        return [_cooperative(member) for member in members]
    return [_eager(member, strategy, version) for member in members]


def _eager(member: MemberSpec, strategy: str, version: str) -> Subscriber:
    user_data = member.user_data or UserData()
    in_python = None
    if member.user_data is None and strategy == "sticky" and member.owned is not None:
        if version == _NO_SECOND_JOIN:
            raise AssignorError("TypeError", "object of type 'dict_itemiterator' has no len()")
        owned = tuple(chain.from_iterable(_by_topic(member.owned)))
        generation = or_no_generation(member.generation)
        if version.startswith("3."):
            in_python = owned, generation
        else:
            user_data = UserData(owned, generation)
    return Subscriber(
        member.member_id,
        member.topics,
        member.instance_id,
        remembered=user_data.owned,
        remembered_generation=user_data.generation,
        remembered_in_python=in_python,
    )


def _cooperative(member: MemberSpec) -> Subscriber:
    return Subscriber(
        member.member_id,
        tuple(sorted(member.topics)),
        member.instance_id,
        owned=tuple(
            partition for group in _by_topic(member.owned or ()) for partition in sorted(group)
        ),
        goes_on=True,
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> list[list[TopicPartition]]:
    """Group partitions by topic, in the order in which topics are first named."""
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition[0], []).append(partition)
    return list(groups.values())


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, Topic]
) -> bool:
    return not isinstance(assignor, StickyAssignor) or assignor.is_determined(members, topics)


def _is_same_without(
    assignor: ClassicAssignor,
    members: Sequence[Subscriber],
    topics: Mapping[str, Topic],
    known: Collection[str],
) -> bool:
    """See `ClientLibrary`; only sticky assignors read what the first of the two rebalances gave.

    Source: `ConsumerCoordinator._perform_assignment`, which asks for metadata and does not wait.
    """
    return not isinstance(assignor, StickyAssignor) or assignor.is_same_without(
        members, topics, known
    )


KAFKA_PYTHON = ClientLibrary(
    name="kafka-python",
    strategies={
        "3.0.12": _3_0_12,
        "3.0.11": _3_0_0,
        "2.3.3": _2_3_0,
        "2.2.21": _2_0_0,
        _NO_SECOND_JOIN: _2_0_0,
    },
    as_sent=_as_sent,
    client_id="kafka-python-{version}",
    is_determined=_is_determined,
    is_same_without=_is_same_without,
    draws_topic_order=True,
    since={"3.0.11": "3.0.0", "2.3.3": "2.3.0", "2.2.21": "2.0.3", _NO_SECOND_JOIN: "2.0.0"},
    static_since="2.3.0",
)
