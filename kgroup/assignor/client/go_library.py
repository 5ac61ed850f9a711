"""Parts shared by the client libraries for Go, which iterate over maps in random order.

An assignor that iterates over a map takes a `MapOrder`, so that it returns one of the possible
results: in ascending order of the keys, unless the caller passes another order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from kgroup.assignor.base import Assignment, Subscriber
from kgroup.model.cluster import TopicPartition


def takers_by_topic(members: Sequence[Subscriber]) -> Mapping[str, Sequence[Subscriber]]:
    """Return the members that list each topic; a member that lists it twice appears twice."""
    takers: dict[str, list[Subscriber]] = defaultdict(list)
    for member in members:
        for topic in member.topics:
            takers[topic].append(member)
    return takers


_SHUFFLES = 8

_Key = TypeVar("_Key", bound=Any)


class MapOrder(Protocol):
    """Returns the keys of a map in the order in which a loop meets them."""

    def __call__(self, keys: Iterable[_Key], /) -> list[_Key]:
        """Return every key once."""
        ...


def ascending(keys: Iterable[_Key], /) -> list[_Key]:
    """Return the keys in ascending order; strings by their UTF-8 bytes."""
    return sorted(keys)


def descending(keys: Iterable[_Key], /) -> list[_Key]:
    """Return the keys in descending order."""
    return sorted(keys, reverse=True)


def shuffled(draw: Random) -> MapOrder:
    """Return an order that is random for each loop, as in Go."""

    def order(keys: Iterable[_Key], /) -> list[_Key]:
        mixed = sorted(keys)
        draw.shuffle(mixed)
        return mixed

    return order


def is_same_in_any_order(assign: Callable[[MapOrder], Assignment]) -> bool:
    """Return whether some different orders of maps all give the same result."""
    partitions = _owners(assign(ascending))
    orders = [descending, *(shuffled(Random(number)) for number in range(_SHUFFLES))]
    return all(_owners(assign(order)) == partitions for order in orders)


def _owners(assignment: Assignment) -> dict[str, set[TopicPartition]]:
    return {member_id: set(own) for member_id, own in assignment.items()}
