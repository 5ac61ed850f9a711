"""Sticky and cooperative-sticky: as even as can be, and then as little moved as can be.

Every member names what it owned and in which generation. Where all members subscribe to the same
topics, one pass gives each its share (`equal`); else partitions are moved until nothing gets
more even (`general`).

Source: `AbstractStickyAssignor`, `StickyAssignor` and `CooperativeStickyAssignor` of kafka-clients
4.3.1, as of an assignor that has not assigned before: a leader's own remembers the highest
generation that it has seen, which a later one is not below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile

from kgroup.assignor.base import (
    Assignment,
    Subscriber,
    Topic,
    TopicPartition,
    in_hash_order,
    with_metadata,
)
from kgroup.assignor.sticky import equal
from kgroup.assignor.sticky.claim import Claim, Claims, or_no_generation


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign by what the members' user data remembers, see `ClassicAssignor`."""
    assignment, _ = _assign(members, topics, _remembered)
    return assignment


def assign_cooperative(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader of a cooperative group does, see `ClassicAssignor`.

    A partition that changes hands is in nobody's list: its owner gives it up, and the rebalance
    that follows gives it to its new one.
    """
    assignment, transfers = _assign(members, topics, _owned)
    if transfers is None:
        transfers = _transfers(members, assignment)
    given_up: dict[str, set[TopicPartition]] = defaultdict(set)
    for partition, member_id in transfers.items():
        given_up[member_id].add(partition)
    for member_id, partitions in given_up.items():
        assignment[member_id] = _without_once(assignment[member_id], partitions)
    return assignment


def _without_once(
    assigned: Sequence[TopicPartition], given_up: set[TopicPartition]
) -> list[TopicPartition]:
    """Take each partition out of a list once; in an unsound one it may stand twice."""
    kept = []
    for partition in assigned:
        if partition in given_up:
            given_up.remove(partition)
        else:
            kept.append(partition)
    return kept


def _remembered(member: Subscriber) -> Claim:
    return Claim(member.remembered or (), or_no_generation(member.remembered_generation))


def _owned(member: Subscriber) -> Claim:
    named = member.remembered_generation if member.generation is None else member.generation
    return Claim(member.owned, or_no_generation(named))


def _assign(
    members: Sequence[Subscriber], topics: Mapping[str, Topic], claim: Callable[[Subscriber], Claim]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """Assign; give also what changes hands, if that is known."""
    members = in_hash_order(members)
    known = {name: topics[name] for name in with_metadata(members, topics)}
    claims = Claims(members, [claim(member) for member in members], known)
    if _subscribe_equally(members):
        return equal.assign(members, known, claims)
    from kgroup.assignor.sticky import general  # which needs numpy

    return general.assign(members, known, claims), None


def _subscribe_equally(members: Sequence[Subscriber]) -> bool:
    """Compare every subscription with the first that is not empty, the empty ones before it aside.

    Source: `AbstractStickyAssignor.allSubscriptionsEqual`.
    """
    rest = dropwhile(lambda member: not member.topics, members)
    subscriptions = list(dict.fromkeys(member.topics for member in rest))
    first = frozenset(subscriptions[0] if subscriptions else ())
    return all(len(own) == len(first) and first.issuperset(own) for own in subscriptions[1:])


def _transfers(members: Sequence[Subscriber], assignment: Assignment) -> dict[TopicPartition, str]:
    """Give what was assigned to one member and revoked from another.

    Source: `CooperativeStickyAssignor.computePartitionsTransferringOwnership`.
    """
    owned = {member.member_id: member.owned for member in members}
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, assigned in assignment.items():
        before = set(owned[member_id])
        added.update((partition, member_id) for partition in assigned if partition not in before)
        revoked |= before.difference(assigned)
    return {partition: to for partition, to in added.items() if partition in revoked}
