"""Sticky and cooperative-sticky: as even as can be, and then as little moved as can be.

Every member names what it owned and in which generation. Where all members subscribe to the same
topics, one pass gives each its share (`sticky_equal`); else partitions are moved until nothing gets
more even (`sticky_general`).

Source: `AbstractStickyAssignor`, `StickyAssignor` and `CooperativeStickyAssignor` of kafka-clients
4.3.1, as of an assignor that has not assigned before: a leader's own remembers the highest
generation that it has seen, which a later one is not below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgroup.assignor import sticky_equal, sticky_general
from kgroup.assignor.base import (
    Assignment,
    Subscriber,
    Topic,
    TopicPartition,
    in_hash_order,
    with_metadata,
)
from kgroup.assignor.sticky_claim import Claim, Claims

__all__ = ["assign", "assign_cooperative"]


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader of an eager group does, by what the members' user data remembers.

    Args:
        members: in the order of the JoinGroup response.
        topics: of the cluster.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    assignment, _ = _assign(members, topics, _remembered)
    return assignment


def assign_cooperative(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader of a cooperative group does.

    A partition that changes hands is in nobody's list: its owner gives it up, and the rebalance
    that follows gives it to its new one.

    Args:
        members: in the order of the JoinGroup response.
        topics: of the cluster.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    assignment, transfers = _assign(members, topics, _owned)
    if transfers is None:
        transfers = _transfers(members, assignment)
    for partition, member_id in transfers.items():
        if partition in assignment[member_id]:
            assignment[member_id].remove(partition)
    return assignment


def _remembered(member: Subscriber) -> Claim:
    return Claim(member.remembered or (), member.remembered_generation)


def _owned(member: Subscriber) -> Claim:
    generation = member.generation
    return Claim(member.owned, member.remembered_generation if generation is None else generation)


def _assign(
    members: Sequence[Subscriber],
    topics: Mapping[str, Topic],
    claim: Callable[[Subscriber], Claim],
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """Assign; give also what changes hands, if that is known."""
    members = in_hash_order(members)
    known = {name: topics[name] for name in with_metadata(members, topics)}
    claims = Claims(members, [claim(member) for member in members], known)
    if _subscribe_equally(members):
        return sticky_equal.assign(members, known, claims)
    return sticky_general.assign(members, known, claims), None


def _subscribe_equally(members: Sequence[Subscriber]) -> bool:
    """Compare every subscription with the first that is not empty, the empty ones before it aside.

    Source: `AbstractStickyAssignor.allSubscriptionsEqual`.
    """
    first: frozenset[str] = frozenset()
    for member in members:
        if not first:
            first = frozenset(member.topics)
        elif len(member.topics) != len(first) or not first.issuperset(member.topics):
            return False
    return True


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
