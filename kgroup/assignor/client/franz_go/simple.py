"""Range and round robin.

Source: `rangeBalancer.Balance` and `roundRobinBalancer.Balance` (group_balancer.go) of franz-go
1.18.0, 1.21.2 and 1.22.3. Racks count for range of 1.21; in 1.22 only with the option
`BalanceRacks`, which is new there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice

from kgroup.assignor.base import Assignment, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.franz_go.order import as_listed, in_turn, subscribed
from kgroup.assignor.client.franz_go.rack import known_racks


def assign_range(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Give every member a run of each topic's partitions."""
    return _assign_range(members, topics, {})


def assign_range_by_rack(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Likewise, but of its share every member first gets the partitions in its rack."""
    return _assign_range(members, topics, known_racks(members, topics))


def _assign_range(
    members: Sequence[Subscriber],
    topics: Mapping[str, Topic],
    racks: Mapping[str, Sequence[str | None]],
) -> Assignment:
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    takers: dict[str, list[Subscriber]] = {name: [] for name in subscribed(members, topics)}
    for member in in_turn(members):
        for name in member.topics:
            if name in takers:
                takers[name].append(member)
    for name, consumers in takers.items():
        quota, extras = divmod(topics[name].partitions, len(consumers))
        left = {(name, partition): None for partition in range(topics[name].partitions)}
        in_rack: dict[str, list[TopicPartition]] = {}
        for partition, rack in zip(left, racks.get(name, ()), strict=False):
            if rack:
                in_rack.setdefault(rack, []).append(partition)
        missing = []
        for at, member in enumerate(consumers):
            near = in_rack.get(member.rack or "", [])
            own = near[: quota + (at < extras)]
            del near[: len(own)]
            for partition in own:
                del left[partition]
            given[member.member_id] += own
            missing.append(quota + (at < extras) - len(own))
        rest = iter(left)
        for member, count in zip(consumers, missing, strict=True):
            given[member.member_id] += islice(rest, count)
    return as_listed(given)


def assign_round_robin(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Deal all partitions to the members in turn, past those who do not subscribe."""
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    circle = cycle([(frozenset(each.topics), given[each.member_id]) for each in in_turn(members)])
    for name in sorted(subscribed(members, topics)):
        for partition in range(topics[name].partitions):
            next(own for wanted, own in circle if name in wanted).append((name, partition))
    return as_listed(given)
