"""What users may call a member, and which member a name means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgroup.errors import NotFoundError, UsageError, near_names
from kgroup.model.group import Member


@dataclass(frozen=True, slots=True)
class MemberName:
    """The names of a member.

    Attributes:
        member_id, instance_id, client_id, host: as in `Member`.
        others: further names, such as the one in a scenario, or `consumer.id` on ZooKeeper.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    others: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Client id and host; the member id if there is no client id."""
        host = f" at {self.host.lstrip('/')}" if self.host else ""
        return f"{self.client_id or self.member_id}{host}"

    def __str__(self) -> str:
        """Return client id, host and member id, as far as known."""
        return f"{self.label} ({self.member_id})" if self.client_id else self.label

    @property
    def texts(self) -> Iterable[str]:
        """All names, without the host."""
        texts = self.member_id, self.instance_id, self.client_id, *self.others
        return (text for text in texts if text)

    def begins_with(self, text: str) -> bool:
        """Return whether the member id begins with a text that goes beyond the client id.

        Member ids begin with the client id, the instance id, or the group and host (ZooKeeper):
        web-1 is no abbreviation of web-10-8f3c.
        """
        group_id = self.member_id.partition(f"_{self.host}-")[0]
        stems = self.instance_id, self.client_id, f"{group_id}_{self.host}"
        known = max(
            (len(stem) for stem in stems if stem and self.member_id.startswith(stem)), default=0
        )
        return self.member_id.startswith(text) and len(text) > known


def name_of(member: Member) -> MemberName:
    """Return the names of a member of a group."""
    return MemberName(member.member_id, member.instance_id, member.client_id, member.client_host)


def first_members(members: Iterable[Member]) -> str:
    """Return the labels of the first ten members, and the number of the others."""
    return _first([name_of(member).label for member in members])


def _first(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - 10} more" if len(texts) > 10 else ""
    return ", ".join(texts[:10]) + more


def called(text: str, members: Sequence[MemberName]) -> Sequence[MemberName]:
    """Return the members that a text means; several if it is ambiguous.

    A member id comes first, then an instance id, which is unique as well; then client ids, hosts
    and other names; then the beginning of a member id, see `MemberName.begins_with`.
    """
    if not text:
        return []
    host = text.lstrip("/")
    return (
        [member for member in members if member.member_id == text]
        or [member for member in members if member.instance_id == text]
        or [
            member
            for member in members
            if text in (member.client_id, *member.others)
            or (member.host is not None and member.host.lstrip("/") == host)
        ]
        or [member for member in members if member.begins_with(text)]
    )


def find_member(text: str, members: Sequence[MemberName], group: str) -> MemberName:
    """Return the member that a text means; see `called`.

    Args:
        text: a name, as typed.
        members: the members of the group.
        group: the group, for messages.

    Raises:
        UsageError: it means several members.
        NotFoundError: it means none.
    """
    found = called(text, members)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{group}: {text!r} means {len(found)} members; name one by its member id: "
            f"{_first([*map(str, found)])}"
        )
    begun = [str(member) for member in members if any(n.startswith(text) for n in member.texts)]
    if text and begun:
        raise NotFoundError(
            f"{group} has no member {text!r}: the start of a member id must be longer than the "
            f"client id. {len(begun)} {'begins' if len(begun) == 1 else 'begin'} with it: "
            f"{_first(begun)}"
        )
    known = _first([*map(str, members)]) or "none"
    similar = near_names(text, dict.fromkeys(name for member in members for name in member.texts))
    raise NotFoundError(f"{group} has no member {text!r}{similar or f'; it has: {known}'}")
