"""A library of which a consumer is made: what its members send, and how it assigns as leader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kgroup.assignor.base import ClassicAssignor, Subscriber, TopicMetadata
from kgroup.assignor.member_spec import MemberSpec

IsDetermined = Callable[[ClassicAssignor, Sequence[Subscriber], Mapping[str, TopicMetadata]], bool]

IsSameWithout = Callable[
    [ClassicAssignor, Sequence[Subscriber], Mapping[str, TopicMetadata], Collection[str]], bool
]
"""As `IsDetermined`, with the names of the topics that the leader knows before it assigns."""


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A library with the strategies of classic groups that it brings.

    Attributes:
        name: of the library, as its users call it.
        strategies: by version of the library, the newest first, its assignors by the names that
            its members send; the first is the one that it takes where none is set. A version is
            one that was compared; it stands for those after it too, up to the next.
        as_sent: gives what a leader reads in the subscriptions of members of this library, from
            the members, the name of the strategy and the version.
        client_id: that a member has where its application names none; `{group}`, `{version}` and,
            for what nobody knows, `{word}` stand in it.
        is_determined: tells whether what an assignor is given determines its answer, and not chance
            or what is not known; None: it always does.
        is_same_without: tells whether a group comes to the same if its leader assigns first what it
            knows of the cluster, and all only in the next rebalance; None: leaders ask first.
        draws_topic_order: whether a member names topics in an order that is drawn when it starts.
        since: by version the earliest that comes near to it, where that is not the version itself.
        static_since: the version from which on members may be static; None: none has that.
        version_by_rack: the one whose leaders go by racks; those of later ones do so only with an
            option, which nothing tells. None: there is no such option.
        assignors_by_rack: those that go by the racks of partitions' leaders.
    """

    name: str
    strategies: Mapping[str, Mapping[str, ClassicAssignor]]
    as_sent: Callable[[Sequence[MemberSpec], str, str], list[Subscriber]]
    client_id: str
    is_determined: IsDetermined | None = None
    is_same_without: IsSameWithout | None = None
    draws_topic_order: bool = False
    since: Mapping[str, str] = field(default_factory=dict)
    static_since: str | None = None
    version_by_rack: str | None = None
    assignors_by_rack: Collection[ClassicAssignor] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """Those whose behaviour is known, the newest first."""
        return tuple(self.strategies)

    @property
    def earliest(self) -> str:
        """The earliest version whose behaviour is known."""
        oldest = self.versions[-1]
        return self.since.get(oldest, oldest)

    def version_of(self, version: str) -> str | None:
        """Give the known version that comes nearest to a version; None: it is older than all.

        Raises:
            ValueError: it is no version.
        """
        at = _numbers(version)
        since = (_numbers(self.since.get(known, known)) for known in self.versions)
        return next((k for k, begin in zip(self.versions, since, strict=True) if begin <= at), None)

    def is_later(self, version: str) -> bool:
        """Return whether a version is later than all whose behaviour is known."""
        return _numbers(version) > _numbers(self.versions[0])

    def has_static_members(self, version: str) -> bool:
        """Return whether members of a version may be static (KIP-345)."""
        since = self.static_since
        return since is not None and _numbers(version) >= _numbers(since)


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in version.removeprefix("v").split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))
