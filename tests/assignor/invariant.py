"""What holds of every assignment that is sound, whichever assignor made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assign, assign_threads
from kgroup.model.cluster import TopicPartition


def broken(spec: GroupSpec, assignment: Assignment) -> list[str]:
    """Name the invariants that an assignment breaks."""
    holds: Mapping[str, Callable[[GroupSpec, Assignment], bool]] = {
        "exists": _exists,
        "subscribed": _subscribed,
        "once": _once,
        "even": _even,
        "sticky": _sticky,
    }
    return [name for name, check in holds.items() if not check(spec, assignment)]


def _exists(spec: GroupSpec, assignment: Assignment) -> bool:
    """Nothing is assigned that does not exist."""
    return set(_every(assignment)) <= set(_partitions(spec, list(spec.topics)))


def _subscribed(spec: GroupSpec, assignment: Assignment) -> bool:
    """Nobody gets what he does not subscribe to."""
    return all(
        topic in member.topics
        for member in spec.members
        for topic, _ in assignment[member.member_id]
    )


def _once(spec: GroupSpec, assignment: Assignment) -> bool:
    """Every partition that somebody subscribes to has one member.

    Those of a share group have one or more; what a cooperative one takes from its owner has none
    yet.
    """
    wanted = Counter(_partitions(spec, list(_subscribers(spec))))
    if spec.protocol == "share":
        return all(len(set(own)) == len(own) for own in assignment.values()) and (
            set(_every(assignment)) >= set(wanted)
        )
    given = Counter(partition for partition in _every(assignment) if partition in wanted)
    if spec.strategy == "cooperative-sticky":
        return given <= wanted and (wanted - given).keys() <= {
            partition for member in spec.members for partition in member.owned or ()
        }
    return given == wanted


def _even(spec: GroupSpec, assignment: Assignment) -> bool:
    """Nobody has two more than another who could have one of them, as far as the strategy goes.

    Range goes from topic to topic; where subscriptions differ, so does the share group's, and round
    robin does not promise anything.
    """
    if spec.protocol == "zookeeper":
        return _even_threads(spec)
    subscribers = _subscribers(spec)
    if spec.strategy == "range" or (spec.strategy == "simple" and not _alike(spec)):
        return all(
            _differ_by_one(
                [sum(name == topic for name, _ in assignment[member]) for member in members]
            )
            for topic, members in subscribers.items()
        )
    if spec.strategy in ("roundrobin", "simple"):
        return not _alike(spec) or _differ_by_one(list(map(len, assignment.values())))
    if spec.strategy == "cooperative-sticky":
        assignment = _again(spec, assignment)
    return all(
        len(own) <= len(assignment[other]) + 1
        for own in assignment.values()
        for topic in {topic for topic, _ in own}
        for other in subscribers.get(topic, ())
    )


def _even_threads(spec: GroupSpec) -> bool:
    threads = assign_threads(spec)
    if spec.strategy == "roundrobin":
        return _differ_by_one(list(map(len, threads.values())))
    return all(
        _differ_by_one(
            [
                sum(name == topic for name, _ in threads[member.member_id, number])
                for member in spec.members
                if topic in member.topics
                for number in range(member.streams_of(topic))
            ]
        )
        for topic in _subscribers(spec)
    )


def _sticky(spec: GroupSpec, assignment: Assignment) -> bool:
    """Members keep what they have, and the next rebalance leaves everything as it is.

    Where racks or claims of others do not stand against it, all who subscribe alike keep what they
    have up to their share. What a cooperative group takes from one is given to another in the next
    rebalance.
    """
    if spec.protocol == "zookeeper" or spec.strategy in ("range", "roundrobin"):
        return True
    before = {member.member_id: _held(spec, member) for member in spec.members}
    has_racks = any(member.rack for member in spec.members)
    if spec.protocol != "share" and _alike(spec) and not has_racks and _apart(before.values()):
        share = len(list(_partitions(spec, list(_subscribers(spec))))) // len(spec.members)
        for member_id, held in before.items():
            if len(held.intersection(assignment[member_id])) < min(len(held), share):
                return False
    try:
        again = _again(spec, assignment)
    except AssignorError:
        return False
    if spec.strategy == "cooperative-sticky":
        return all(set(own) <= set(again[member_id]) for member_id, own in assignment.items())
    return all(set(own) == set(again[member_id]) for member_id, own in assignment.items())


def _held(spec: GroupSpec, member: MemberSpec) -> set[TopicPartition]:
    """Return what a member says that it owns, of what it could."""
    claimed = member.owned
    if spec.strategy == "sticky" and member.user_data is not None:
        claimed = member.user_data.owned
    could = set(_partitions(spec, [topic for topic in member.topics if topic in spec.topics]))
    return could.intersection(claimed or ())


def _apart(sets: Collection[set[TopicPartition]]) -> bool:
    return len(set[TopicPartition]().union(*sets)) == sum(map(len, sets))


def _alike(spec: GroupSpec) -> bool:
    return len({frozenset(member.topics) for member in spec.members}) == 1


def _again(spec: GroupSpec, assignment: Assignment) -> Assignment:
    """Assign once more, to members who own what they were assigned."""
    generation = max(member.generation or 0 for member in spec.members) + 1

    def after(member: MemberSpec) -> MemberSpec:
        own = tuple(assignment[member.member_id])
        return replace(
            member, owned=own, generation=generation, user_data=None, subscription_generation=None
        )

    return assign(replace(spec, members=tuple(map(after, spec.members))))


def _differ_by_one(counts: Sequence[int]) -> bool:
    return max(counts, default=0) - min(counts, default=0) <= 1


def _subscribers(spec: GroupSpec) -> dict[str, list[str]]:
    """Give the members that subscribe to each topic that exists."""
    return {
        topic: members
        for topic in spec.topics
        if (members := [member.member_id for member in spec.members if topic in member.topics])
    }


def _partitions(spec: GroupSpec, topics: Sequence[str]) -> Iterator[TopicPartition]:
    return ((topic, p) for topic in topics for p in range(spec.topics[topic].partitions))


def _every(assignment: Assignment) -> Iterator[TopicPartition]:
    return chain.from_iterable(assignment.values())
