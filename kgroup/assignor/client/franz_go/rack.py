"""The racks of partitions, as a leader of franz-go 1.21 knows them: those of their own leaders.

Source: `groupConsumer.buildPartitionRacks` (group_balancer.go) of franz-go 1.21.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import Subscriber, Topic

_Racks = Mapping[str, Sequence[str | None]]


def known_racks(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> _Racks:
    """Give the rack of each partition by topic, of the topics to which the leader subscribes.

    The first member stands for a leader that is not known.
    """
    leader = next((member for member in members if member.leads), members[0])
    return _known_to(leader.topics, topics)


def is_same_for_any_leader(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> bool:
    """Tell whether it is known who leads, or does not matter, as all know the same racks."""
    if any(member.leads for member in members) or not any(member.rack for member in members):
        return True
    first, *others = {member.topics for member in members}
    return all(_known_to(own, topics).keys() == _known_to(first, topics).keys() for own in others)


def _known_to(own: Sequence[str], topics: Mapping[str, Topic]) -> _Racks:
    racks = {name: topics[name].leader_racks for name in own if name in topics}
    return {name: each for name, each in racks.items() if each is not None}
