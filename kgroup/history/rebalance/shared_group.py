"""Recognize members that look like several applications with one group id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from kgroup.history.sql.question import Row
from kgroup.operation.report import first_names


def sharing_note(group_id: str, members: Iterable[Row]) -> str | None:
    """Return a note if members subscribe to disjoint topics and run apart.

    Members run apart if no client id, without numbers, or no host of theirs is the same. One
    application with several subscriptions usually has all of them in each process.

    Args:
        group_id: the group.
        members: rows of `members` of one generation or epoch.
    """
    parts = _by_topics(members)
    if len(parts) < 2 or not all(_is_apart(one, other) for one, other in combinations(parts, 2)):
        return None
    described = "; ".join(
        f"{first_names(sorted(part.topics))} ({len(part.members)}: {_clients(part)})"
        for part in sorted(parts, key=lambda part: sorted(part.topics))
    )
    return (
        f"Members of group {group_id!r} subscribe to disjoint topics and run apart: {described}. "
        "If these are two applications, give each its own group id."
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Members that have topics in common, directly or by others."""

    topics: set[str]
    members: list[Row]


def _by_topics(members: Iterable[Row]) -> list[_Part]:
    """Divide members into parts without common topics; none if a subscription is not known."""
    parts: list[_Part] = []
    for member in members:
        if not member["subscribed_topics"] or member["subscribed_regex"]:
            return []
        whole = _Part(set(member["subscribed_topics"]), [member])
        for part in [part for part in parts if not part.topics.isdisjoint(whole.topics)]:
            parts.remove(part)
            part.topics.update(whole.topics)
            part.members.extend(whole.members)
            whole = part
        parts.append(whole)
    return parts


def _is_apart(one: _Part, other: _Part) -> bool:
    stems = [
        {re.sub(r"\d+", "", row["client_id"] or "") for row in part.members}
        for part in (one, other)
    ]
    hosts = [{row["client_host"] for row in part.members} for part in (one, other)]
    return stems[0].isdisjoint(stems[1]) or hosts[0].isdisjoint(hosts[1])


def _clients(part: _Part) -> str:
    names = {f"{member['client_id']} at {member['client_host']}" for member in part.members}
    return first_names(sorted(names))
