"""What members claim to own, and who is believed.

Source: `prepopulateCurrentAssignments` (rdkafka_sticky_assignor.c) of librdkafka 2.16 and 2.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgroup.assignor.base import Assignment, Subscriber, TopicPartition
from kgroup.assignor.sticky.claim import or_no_generation


@dataclass
class Claims:
    """What the assignor begins with.

    Where members claim a partition in several generations these contradict each other, and some
    moves go wrong then: a partition may get two owners.

    Attributes:
        assigned: what each member is believed to own, by its id.
        owner: by partition, the last member of the JoinGroup response that claims it.
        earlier: by partition, the member with the claim before the one that is believed.
    """

    assigned: Assignment
    owner: dict[TopicPartition, str]
    earlier: dict[TopicPartition, str]


def claims(members: Sequence[Subscriber]) -> Claims:
    """Believe the claim of the highest generation; where two have the same one, none at all."""
    found = _nothing(members)
    for partition, own in reversed(_by_partition(members).items()):
        own.sort(key=_generation)
        if len({*map(_generation, own)}) < len(own):
            del found.owner[partition]
            continue
        found.assigned[own[-1].member_id].append(partition)
        if len(own) > 1:
            found.earlier[partition] = own[-2].member_id
    return found


def claims_before_2_2(members: Sequence[Subscriber]) -> Claims:
    """Believe the first claim in the JoinGroup response; generations are not read."""
    found = _nothing(members)
    for partition, own in reversed(_by_partition(members).items()):
        found.assigned[own[0].member_id].append(partition)
        if len(own) > 1:
            found.earlier[partition] = own[1].member_id
    return found


def _nothing(members: Sequence[Subscriber]) -> Claims:
    owner = {partition: member.member_id for member in members for partition in member.owned}
    return Claims({member.member_id: [] for member in members}, owner, {})


def _by_partition(members: Sequence[Subscriber]) -> dict[TopicPartition, list[Subscriber]]:
    by_partition: dict[TopicPartition, list[Subscriber]] = {}
    for member in members:
        for partition in member.owned:
            by_partition.setdefault(partition, []).append(member)
    return by_partition


def _generation(member: Subscriber) -> int:
    return or_no_generation(member.generation)
