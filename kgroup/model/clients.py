"""What people call the members of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kgroup.model.group import Group, Member


class Clients:
    """What members are called: client id and host, or the member id where these are not unique."""

    def __init__(self, group: Group) -> None:
        self._members = {member.member_id: member for member in all_members(group)}
        self._uses = Counter(map(_client, self._members.values()))

    def are_unique(self) -> bool:
        """Return whether no two members have the same client id and host."""
        return set(self._uses.values()) <= {1} and _NAMELESS not in self._uses

    def name(self, member_id: str | None) -> str | None:
        """Return the client id of a member, its host if it has none, or the member id."""
        member = self._members.get(member_id or "")
        if member is None or not self._is_unique(member):
            return member_id
        return member.client_id or host_of(member)

    def host(self, member_id: str | None) -> str | None:
        """Return the host of a member, unless that is what it is called."""
        member = self._members.get(member_id or "")
        is_named = member is None or bool(member.client_id) or not self._is_unique(member)
        return host_of(member) if member and is_named else None

    def label(self, member_id: str | None) -> str:
        """Return what a member is called, with its host: ``billing-pod-3 at 10.0.3.7``."""
        host = self.host(member_id)
        return f"{self.name(member_id)} at {host}" if host else f"{self.name(member_id)}"

    def _is_unique(self, member: Member) -> bool:
        return _client(member) != _NAMELESS and self._uses[_client(member)] == 1


_NAMELESS = (None, None)


def _client(member: Member) -> tuple[str | None, str | None]:
    return (member.client_id or None, host_of(member) or None)


def host_of(member: Member) -> str | None:
    """Return the host of a member, without the slash that Java puts before an address."""
    return member.client_host and member.client_host.removeprefix("/")


def all_members(group: Group) -> Iterator[Member]:
    """Yield the members, and those before the rebalance in progress that are no longer there."""
    yield from group.members
    here = {member.member_id for member in group.members}
    for member in group.last_stable.members if group.last_stable else ():
        if member.member_id not in here:
            yield member
