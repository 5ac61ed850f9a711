"""ZooKeeper consumers among which partitions can change hands."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.spec import GroupSpec


@dataclass(frozen=True, slots=True)
class Overlap:
    """Consumers of a group whose topics overlap, directly or through others; both are sorted."""

    members: tuple[str, ...]
    topics: tuple[str, ...]


def overlaps(spec: GroupSpec) -> tuple[Overlap, ...]:
    """Part a group by topics, sorted by member id; who subscribes to nothing stands alone."""
    found: list[tuple[set[str], set[str]]] = []
    for member in spec.members:
        members, topics = {member.member_id}, set(member.topics)
        apart = []
        for other in found:
            if topics.isdisjoint(other[1]):
                apart.append(other)
            else:
                members |= other[0]
                topics |= other[1]
        found = [*apart, (members, topics)]
    made = (
        Overlap(tuple(sorted(members, key=utf16)), tuple(sorted(topics, key=utf16)))
        for members, topics in found
    )
    return tuple(sorted(made, key=lambda overlap: utf16(overlap.members[0])))
