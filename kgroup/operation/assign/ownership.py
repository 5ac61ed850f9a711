"""Who owns each partition of ZooKeeper consumers, and who should by the algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.assignor.base import TopicPartition, java_order
from kgroup.assignor.spec import GroupSpec
from kgroup.assignor.zookeeper import ThreadAssignment, ThreadId


@dataclass(frozen=True, slots=True)
class Ownership:
    """One partition.

    Attributes:
        owner: the consumer that has it, and the number of its thread, None where that is not
            known; None: nobody.
        given: the thread that the algorithm gives it to; None: nobody. Where several consumers
            take it, the first of them.
    """

    topic: str
    partition: int
    owner: tuple[str, int | None] | None
    given: ThreadId | None

    @property
    def is_as_given(self) -> bool:
        """Tell whether the owner is the one that the algorithm gives, as far as it is known."""
        if self.owner is None or self.given is None:
            return self.owner == self.given
        return self.owner[0] == self.given[0] and self.owner[1] in (None, self.given[1])


def ownership(spec: GroupSpec, threads: ThreadAssignment) -> tuple[Ownership, ...]:
    """Tell of each partition that is owned or given, by topic and number.

    Args:
        spec: of a group of ZooKeeper consumers.
        threads: who gets what.
    """
    owners: dict[TopicPartition, tuple[str, int | None]] = {
        partition: (member.member_id, member.threads.get(partition))
        for member in (*spec.members, *spec.departed)
        for partition in member.owned or ()
    }
    given: dict[TopicPartition, ThreadId] = {}
    for thread, partitions in threads.items():
        for partition in partitions:
            given.setdefault(partition, thread)
    return tuple(
        Ownership(*partition, owners.get(partition), given.get(partition))
        for partition in sorted(owners.keys() | given.keys(), key=java_order)
    )
