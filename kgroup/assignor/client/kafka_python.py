"""kafka-python: subscriptions, range and round robin, and its assignors by version.

A consumer sends its topics in the order of a Python set, which is random for each process
(cooperative-sticky: sorted); so the order is taken from the member.

Source: `ConsumerCoordinator.group_protocols` and `metadata` of the assignors; range, round robin:
`kafka/coordinator/assignors/range.py` and `roundrobin.py` of kafka-python 3.0.12 and 2.2.21, which
differ in the order of members (static members first, since 2.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, cycle, groupby

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    ClassicAssignor,
    Subscriber,
    TopicMetadata,
)
from kgroup.assignor.client.kafka_python_sticky import StickyAssignor
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.member_spec import MemberSpec, UserData
from kgroup.assignor.sticky.claim import or_no_generation
from kgroup.model.cluster import TopicPartition

Turn = Callable[[Sequence[Subscriber]], list[Subscriber]]
"""Orders members; some may be lost."""


def by_id(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Return members sorted as versions before 2.3 do."""
    return sorted(members, key=lambda member: member.member_id)


def static_first(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Return members sorted, static ones first, without those that the library loses.

    The library groups adjacent members that are static, or are not, and keeps only the last group
    of each kind: members before a group of the other kind may get nothing.
    """
    last = {static: list(group) for static, group in groupby(members, key=_is_static)}
    return sorted(
        last.get(True, []), key=lambda member: (member.instance_id or "", member.member_id)
    ) + by_id(last.get(False, []))


def _is_static(member: Subscriber) -> bool:
    return member.instance_id is not None


def assign_range(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`."""
    return _assign_range(members, topics, static_first)


def assign_range_before_2_3(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as leaders before 2.3 do, which ignore static membership."""
    return _assign_range(members, topics, by_id)


def _assign_range(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata], turn: Turn
) -> Assignment:
    assignment: Assignment = {member.member_id: [] for member in members}
    subscribed = {topic for member in members for topic in member.topics}
    for name in sorted(subscribed.intersection(topics)):
        # who names a topic twice counts twice, and keeps the second run only
        takers = turn([member for member in members for topic in member.topics if topic == name])
        quota, extras = divmod(topics[name].partitions, len(takers))
        runs, start = {}, 0
        for at, member in enumerate(takers):
            end = start + quota + (at < extras)
            runs[member.member_id] = range(start, end)
            start = end
        for member_id, run in runs.items():
            assignment[member_id] += [(name, partition) for partition in run]
    return assignment


def assign_round_robin(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`.

    Raises:
        AssignorError: it is the turn of a member that does not subscribe to the partition's topic.
            The library intends to skip the member, but looks up the next one by a wrong key.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    turns = cycle(static_first(members))
    for partition in _subscribed_partitions(members, topics):
        member = next(turns)
        if partition[0] not in member.topics:
            following = next(turns)
            raise AssignorError("KeyError", repr((following.instance_id, following.member_id)))
        assignment[member.member_id].append(partition)
    return assignment


def assign_round_robin_before_2_3(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as leaders before 2.3 do: static membership is ignored, and turns are skipped."""
    assignment: Assignment = {member.member_id: [] for member in members}
    turns = cycle(by_id(members))
    for partition in _subscribed_partitions(members, topics):
        taker = next(member for member in turns if partition[0] in member.topics)
        assignment[taker.member_id].append(partition)
    return assignment


def _subscribed_partitions(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Iterator[TopicPartition]:
    subscribed = {topic for member in members for topic in member.topics}
    for name in sorted(subscribed.intersection(topics)):
        for partition in range(topics[name].partitions):
            yield name, partition


_2_0_0: dict[str, ClassicAssignor] = {
    "range": assign_range_before_2_3,
    "roundrobin": assign_round_robin_before_2_3,
    "sticky": StickyAssignor(is_cooperative=False, reads_version=False, undoes_moves=False),
}
_2_3_0: dict[str, ClassicAssignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
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
"""Version whose sticky members fail to rejoin, because they cannot serialize their user data."""


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
        is_empty=in_python is None and not user_data.owned,
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
    """Return partitions grouped by topic, in the order in which topics first appear."""
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition[0], []).append(partition)
    return list(groups.values())


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    return not isinstance(assignor, StickyAssignor) or assignor.is_determined(members, topics)


def _is_same_without(
    assignor: ClassicAssignor,
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    known: Collection[str],
) -> bool:
    """See `ClientLibrary`; only sticky assignors use the result of the first of two rebalances.

    Source: `ConsumerCoordinator._perform_assignment`, which requests metadata and does not wait.
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
    on_short=dict.fromkeys(("3.0.12", "3.0.11"), ("error", "unpack requires a buffer of 4 bytes")),
    since={"3.0.11": "3.0.0", "2.3.3": "2.3.0", "2.2.21": "2.0.3"},
)
