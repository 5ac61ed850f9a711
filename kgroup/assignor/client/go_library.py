"""What client libraries for Go have in common: maps that are walked in a random order.

An assignor that walks over a map takes a `MapOrder`, so that it returns one of the answers that the
library may return: in ascending order of the keys, unless the caller passes another order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from kgroup.assignor.base import Assignment, Subscriber, TopicPartition


def takers_by_topic(members: Sequence[Subscriber]) -> Mapping[str, Sequence[Subscriber]]:
    """Return the members that name each topic; who names it twice is there twice."""
    takers: dict[str, list[Subscriber]] = defaultdict(list)
    for member in members:
        for topic in member.topics:
            takers[topic].append(member)
    return takers


_SHUFFLES = 8

_Key = TypeVar("_Key", bound=Any)


class MapOrder(Protocol):
    """Gives the keys of a map as a loop over it meets them."""

    def __call__(self, keys: Iterable[_Key], /) -> list[_Key]:
        """Give every key once."""
        ...


def ascending(keys: Iterable[_Key], /) -> list[_Key]:
    """Return the lowest key first; texts go by their UTF-8 bytes."""
    return sorted(keys)


def descending(keys: Iterable[_Key], /) -> list[_Key]:
    """Return the highest key first."""
    return sorted(keys, reverse=True)


def shuffled(draw: Random) -> MapOrder:
    """Return an order that is another one for each loop, as in Go."""

    def order(keys: Iterable[_Key], /) -> list[_Key]:
        mixed = sorted(keys)
        draw.shuffle(mixed)
        return mixed

    return order


def is_same_in_any_order(assign: Callable[[MapOrder], Assignment]) -> bool:
    """Return whether members get the same whatever order maps are walked in, by a few of them."""
    partitions = _owners(assign(ascending))
    orders = [descending, *(shuffled(Random(number)) for number in range(_SHUFFLES))]
    return all(_owners(assign(order)) == partitions for order in orders)


def _owners(assignment: Assignment) -> dict[str, set[TopicPartition]]:
    return {member_id: set(own) for member_id, own in assignment.items()}
