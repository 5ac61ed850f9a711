"""The order of members and of what they get, which is the same for all strategies.

Source: `joinMemberLess`, `BalancePlan.IntoSyncAssignment` (group_balancer.go) of franz-go 1.22.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kgroup.assignor.base import Assignment, Subscriber, Topic, TopicPartition


def in_turn(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Sort members: static ones first, by instance id, then the others by member id."""
    return sorted(
        members,
        key=lambda member: (
            member.instance_id is None,
            member.member_id if member.instance_id is None else member.instance_id,
        ),
    )


def subscribed(members: Iterable[Subscriber], topics: Mapping[str, Topic]) -> list[str]:
    """Give the topics that members subscribe to and that exist, in the order in which they come."""
    subscriptions = dict.fromkeys(member.topics for member in members)
    names = dict.fromkeys(name for own in subscriptions for name in own)
    return [name for name in names if name in topics and topics[name].partitions]


def as_listed(given: Mapping[str, Iterable[TopicPartition]]) -> Assignment:
    """Put what each member gets in the order of the message: by topic, then by partition."""
    return {member_id: sorted(partitions) for member_id, partitions in given.items()}
