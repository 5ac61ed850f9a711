"""Recognize members that look like several applications with one group id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from kgroup.operation.report import first_names


@dataclass(frozen=True, slots=True)
class Reader:
    """A member of a group, and what it subscribes to.

    Attributes:
        client_id: client id; None if it has none.
        client_host: address as seen by the broker.
        topics: subscribed topics; None if they are not known, or chosen by a regular expression.
    """

    client_id: str | None
    client_host: str | None
    topics: frozenset[str] | None


def applications(readers: Iterable[Reader]) -> list[str]:
    """Return the applications that a group seems to have, if there are several.

    Their members subscribe to disjoint topics and run apart: no client id, without numbers, or no
    host of theirs is the same. One application with several subscriptions usually has all of them
    in each process.

    Returns:
        The topics and members of each, as in ``orders (2: shop-1 at /10.0.0.1, ...)``; empty if it
        is one application, or a subscription is not known.
    """
    parts = _by_topics(readers)
    if len(parts) < 2 or not all(_is_apart(one, other) for one, other in combinations(parts, 2)):
        return []
    return [
        f"{first_names(sorted(part.topics))} ({len(part.readers)}: {_clients(part)})"
        for part in sorted(parts, key=lambda part: sorted(part.topics))
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """Members that have topics in common, directly or by others."""

    topics: set[str]
    readers: list[Reader]


def _by_topics(readers: Iterable[Reader]) -> list[_Part]:
    """Divide members into parts without common topics; none if a subscription is not known."""
    parts: list[_Part] = []
    for reader in readers:
        if not reader.topics:
            return []
        whole = _Part(set(reader.topics), [reader])
        for part in [part for part in parts if not part.topics.isdisjoint(whole.topics)]:
            parts.remove(part)
            part.topics.update(whole.topics)
            part.readers.extend(whole.readers)
            whole = part
        parts.append(whole)
    return parts


def _is_apart(one: _Part, other: _Part) -> bool:
    stems = [
        {re.sub(r"\d+", "", reader.client_id or "") for reader in part.readers}
        for part in (one, other)
    ]
    hosts = [{reader.client_host for reader in part.readers} for part in (one, other)]
    return stems[0].isdisjoint(stems[1]) or hosts[0].isdisjoint(hosts[1])


def _clients(part: _Part) -> str:
    names = {f"{reader.client_id} at {reader.client_host}" for reader in part.readers}
    return first_names(sorted(names))
