"""Range and round robin.

Source: `rangeBalancer.Balance` and `roundRobinBalancer.Balance` (group_balancer.go) of franz-go
1.18.0 and 1.22.3. Range minds racks only with the option `BalanceRacks`, which is new in 1.22.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from kgroup.assignor.base import Assignment, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.franz_go.order import as_listed, in_turn, subscribed

__all__ = ["assign_range", "assign_round_robin"]


def assign_range(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Give every member a run of each topic's partitions."""
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    takers: dict[str, list[str]] = {name: [] for name in subscribed(members, topics)}
    for member in in_turn(members):
        for name in member.topics:
            if name in takers:
                takers[name].append(member.member_id)
    for name, consumers in takers.items():
        quota, extras = divmod(topics[name].partitions, len(consumers))
        start = 0
        for at, member_id in enumerate(consumers):
            end = start + quota + (at < extras)
            given[member_id] += [(name, partition) for partition in range(start, end)]
            start = end
    return as_listed(given)


def assign_round_robin(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Deal all partitions to the members in turn, past those who do not subscribe."""
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    circle = cycle([(frozenset(each.topics), given[each.member_id]) for each in in_turn(members)])
    for name in sorted(subscribed(members, topics)):
        for partition in range(topics[name].partitions):
            next(own for wanted, own in circle if name in wanted).append((name, partition))
    return as_listed(given)
