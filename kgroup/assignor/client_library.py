"""A consumer client library: the subscriptions it sends and the assignors it brings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kgroup.assignor.base import ClassicAssignor, Subscriber, TopicMetadata
from kgroup.assignor.client_facts import FACTS
from kgroup.assignor.member_spec import MemberSpec, Software

IsDetermined = Callable[[ClassicAssignor, Sequence[Subscriber], Mapping[str, TopicMetadata]], bool]

IsSameWithout = Callable[
    [ClassicAssignor, Sequence[Subscriber], Mapping[str, TopicMetadata], Collection[str]], bool
]
"""Like `IsDetermined`, with the names of the topics that the leader knows at first."""


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A client library and its assignors for classic groups.

    Attributes:
        name: name of the library.
        strategies: assignors by the names that members send, by library version, newest first; the
            first assignor is the library's default. Each version was compared with the library
            and stands for all later ones up to the next listed.
        as_sent: returns subscriptions as a leader reads them from members that use this library;
            takes the members, the name of the strategy and the version.
        client_id: default `client.id`, with `{group}`, `{version}`, and `{word}` for an unknown
            part.
        is_determined: returns whether the input determines the assignment, without chance or
            unknown facts; None: always.
        is_same_without: returns whether the result is the same if the leader first assigns only
            the topics it knows, and all topics in the next rebalance; None: leaders fetch
            metadata of all topics first.
        draws_topic_order: each member sends its topics in a random order, fixed at its start.
        since: earliest version with the same behaviour, by version, if it is not the version
            itself.
        version_by_rack: version whose leaders are rack-aware; later ones only with an option that
            the protocol does not show. None: there is no such option.
        assignors_by_rack: assignors that use the racks of partition leaders.
        on_short: type and message of the exception that leaders of a version throw on subscriptions
            that are too short (`Subscriber.is_short`); None: they ignore the members, who get
            nothing. Leaders of other versions read them.
        inexact: strategies of which some versions assign some groups differently from the compared
            version that stands for them: each time the first of these versions, and the first
            after them.
    """

    name: str
    strategies: Mapping[str, Mapping[str, ClassicAssignor]]
    as_sent: Callable[[Sequence[MemberSpec], str, str], list[Subscriber]]
    client_id: str
    is_determined: IsDetermined | None = None
    is_same_without: IsSameWithout | None = None
    draws_topic_order: bool = False
    since: Mapping[str, str] = field(default_factory=dict)
    version_by_rack: str | None = None
    assignors_by_rack: Collection[ClassicAssignor] = ()
    on_short: Mapping[str, tuple[str, str] | None] = field(default_factory=dict)
    inexact: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @property
    def versions(self) -> tuple[str, ...]:
        """Versions whose behaviour is known, newest first."""
        return tuple(self.strategies)

    @property
    def newest(self) -> Software:
        """The library in the newest version whose behaviour is known."""
        return Software(self.name, self.versions[0])

    @property
    def earliest(self) -> str:
        """The earliest version whose behaviour is known."""
        oldest = self.versions[-1]
        return self.since.get(oldest, oldest)

    def version_of(self, version: str) -> str | None:
        """Return the known version that stands for a version; None if it is older than all.

        Raises:
            ValueError: the text is not a version.
        """
        at = _numbers(version)
        since = (_numbers(self.since.get(known, known)) for known in self.versions)
        return next((k for k, begin in zip(self.versions, since, strict=True) if begin <= at), None)

    def is_later(self, version: str) -> bool:
        """Return whether a version is later than the newest one whose behaviour is known."""
        return _numbers(version) > _numbers(self.versions[0])

    def may_differ(self, version: str, strategy: str) -> bool:
        """Return whether a version may assign differently from the one that stands for it."""
        at = _numbers(version)
        return any(
            _numbers(begin) <= at < _numbers(end) for begin, end in self.inexact.get(strategy, ())
        )

    def has_static_members(self, version: str) -> bool:
        """Return whether members of a version may be static (KIP-345)."""
        since = FACTS[self.name].static_since
        return since is not None and _numbers(version) >= _numbers(since)

    def default_strategies(self, version: str) -> tuple[str, ...]:
        """Return what members of a version list by default, in order of preference."""
        facts = FACTS[self.name]
        since = facts.cooperative_by_default_since
        is_old = since is not None and _numbers(version) < _numbers(since)
        return facts.default_strategies[: 1 if is_old else None]

    def has_consumer_protocol(self, version: str) -> bool:
        """Return whether a version supports the consumer protocol (KIP-848) in production."""
        since = FACTS[self.name].consumer_since
        return since is not None and _numbers(version) >= _numbers(since)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.removeprefix("v").split(".")
    if not all(part.isascii() and part.isdecimal() for part in parts):  # int() takes -1 and 3_7
        raise ValueError(version)
    numbers = list(map(int, parts))
    return tuple(numbers + [0] * (3 - len(numbers)))
