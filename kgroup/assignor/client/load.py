"""Numbers of partitions of members, for assignors that give to the least loaded subscriber."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sized

_FIRST = 16
"""Members that are looked at in order, before all subscribers of a topic are compared."""


class Loads:
    """Members in the order of their numbers of partitions, then of their ids.

    Args:
        assigned: partitions of the members that take part.
        takers: members that can take partitions of a topic, by topic; others count for nothing.
    """

    def __init__(self, assigned: Mapping[str, Sized], takers: Mapping[str, Iterable[str]]) -> None:
        self._ids = sorted(assigned)
        self._number = {member_id: at for at, member_id in enumerate(self._ids)}
        # the number of partitions, and behind it the number of the member: a single comparison
        self._rank = [
            len(assigned[member_id]) * len(self._ids) + at for member_id, at in self._number.items()
        ]
        self._in_order = sorted(self._rank)
        self._takers = {
            topic: frozenset(self._number[at] for at in members if at in self._number)
            for topic, members in takers.items()
        }
        self._least: dict[str, str | None] = {}
        """By topic; valid until a load changes."""

    def in_order(self) -> Iterator[str]:
        """Yield the members, least loaded first."""
        return (self._ids[rank % len(self._ids)] for rank in self._in_order)

    @property
    def are_even(self) -> bool:
        """Whether no member has two partitions more than another."""
        least, most = (self._in_order[at] // len(self._ids) for at in (0, -1))
        return least >= most - 1

    def least(self, topic: str) -> str | None:
        """Return the least loaded member that can take partitions of a topic; None if none can."""
        if topic not in self._least:
            self._least[topic] = self._find_least(topic)
        return self._least[topic]

    def _find_least(self, topic: str) -> str | None:
        takers = self._takers[topic]
        for rank in self._in_order[:_FIRST]:
            if rank % len(self._ids) in takers:
                break
        else:
            rank = min(map(self._rank.__getitem__, takers), default=-1)
        return None if rank < 0 else self._ids[rank % len(self._ids)]

    def set(self, member_id: str, load: int) -> None:
        """Set the number of partitions of a member."""
        at = self._number[member_id]
        del self._in_order[bisect_left(self._in_order, self._rank[at])]
        self._rank[at] = load * len(self._ids) + at
        insort(self._in_order, self._rank[at])
        self._least.clear()
