"""What cooperative-sticky takes out of an assignment: what another member has yet to give up.

Source: `BalancePlan.AdjustCooperative` (group_balancer.go) of franz-go 1.18.0 and 1.22.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import Assignment, Subscriber, TopicPartition
from kgroup.assignor.sticky.claim import NO_GENERATION, or_no_generation


def without_moves(
    assignment: Assignment, members: Sequence[Subscriber], *, older_claims_count: bool
) -> Assignment:
    """Take away what a member is newly given while another one owns it.

    Args:
        assignment: of all members.
        members: in turn; the last one counts to whom a partition is newly given.
        older_claims_count: whether a member owns what another one claims in a later generation.
    """
    latest: dict[TopicPartition, int] = {}
    for member in members:
        generation = or_no_generation(member.generation)
        for partition in member.owned:
            latest[partition] = max(generation, latest.get(partition, NO_GENERATION))
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member in members:
        given = assignment[member.member_id]
        revoked.update(set(member.owned).difference(given))
        owned = {
            partition
            for partition in member.owned
            if older_claims_count or or_no_generation(member.generation) >= latest[partition]
        }
        added.update((partition, member.member_id) for partition in given if partition not in owned)
    return _left(assignment, {each: added[each] for each in revoked if each in added})


def _left(assignment: Assignment, taken: Mapping[TopicPartition, str]) -> Assignment:
    return {
        member_id: [each for each in given if taken.get(each) != member_id]
        for member_id, given in assignment.items()
    }
