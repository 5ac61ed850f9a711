"""A client that joins a group: its library, the strategies that it lists, and who has them, too.

Source: `ClassicGroup.supportsProtocols`: the coordinator of a classic group accepts a member that
lists a strategy that all members list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kgroup.assignor.client_facts import FACTS
from kgroup.assignor.group_spec import CLIENTS
from kgroup.assignor.member_spec import Software
from kgroup.assignor.strategy import strategies
from kgroup.errors import near_names
from kgroup.operation.assign.client import software, version_of
from kgroup.simulation.client.config import COOPERATIVE_STICKY

CONSUMER_PROTOCOL = "consumer"
"""Stands for the consumer protocol where a client's strategies are named."""


@dataclass(frozen=True, slots=True)
class JoiningClient:
    """A consumer that may join a group.

    Attributes:
        library: name of its client library.
        version: version of the library that the user named; None: the newest.
        software: the implemented version that stands for it.
        strategies: strategies that it lists, in order of preference; empty with the consumer
            protocol, where the coordinator assigns.
        is_default: whether these are the library's default.
    """

    library: str
    version: str | None
    software: Software
    strategies: tuple[str, ...]
    is_default: bool = False

    @property
    def name(self) -> str:
        """The name of the library, with the version that the user named; see `software`."""
        return f"{self.library}@{self.version}" if self.version else self.library

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether it uses the consumer protocol (KIP-848)."""
        return not self.strategies

    @property
    def lacking(self) -> list[str]:
        """Strategies in its list that the library does not have."""
        known = strategies("classic", self.software)
        return [name for name in self.strategies if name not in known]

    @property
    def refuses_mix(self) -> bool:
        """Whether the library refuses to list the cooperative strategy with eager ones."""
        is_mixed = COOPERATIVE_STICKY in self.strategies and len(self.strategies) > 1
        return is_mixed and not FACTS[self.library].mixes

    def __str__(self) -> str:
        return f"{self.library} {self.version}" if self.version else self.library


def joining_client(text: str) -> JoiningClient:
    """Parse a client: ``LIBRARY[@VERSION][:strategy,...]``.

    Raises:
        ValueError: the library or version is not implemented, or a strategy is unknown; the
            message continues "expected".
    """
    name, colon, listed = text.partition(":")
    if listed == CONSUMER_PROTOCOL:
        of = software(name)
        return JoiningClient(of.name, version_of(name), of, ())
    names = tuple(filter(None, listed.split(",")))
    if colon and not names:
        software(name)
        raise ValueError(f"strategies behind the colon, found {text!r}")
    return client_that_lists(name, names, CONSUMER_PROTOCOL)


def client_that_lists(name: str, names: Sequence[str], *others: str) -> JoiningClient:
    """Return a client of the classic protocol.

    Args:
        name: its library, as in `software`.
        names: strategies that it lists; none for its default ones.
        others: words that are allowed in place of strategies, for the message.

    Raises:
        ValueError: see `joining_client`.
    """
    of, version = software(name), version_of(name)
    if not names:
        defaults = CLIENTS[of.name].default_strategies(version or of.version)
        return JoiningClient(of.name, version, of, defaults, is_default=True)
    known = dict.fromkeys(each for library in FACTS.values() for each in library.strategies)
    if unknown := [each for each in names if each not in known]:
        or_others = "".join(f" or {word!r} behind the colon" for word in others)
        raise ValueError(
            f"strategies ({', '.join(known)}){or_others}, found {unknown[0]!r}"
            f"{near_names(unknown[0], (*known, *others))}"
        )
    return JoiningClient(of.name, version, of, tuple(dict.fromkeys(names)))


def can_list(name: str, library: str | None) -> str:
    """Return how a sentence about what a member of a library may list begins."""
    return f"{name} uses {library}, which without assignors of its own can list"


def no_common_strategy(
    now: str, members: Iterable[tuple[str, Collection[str] | None]], listed: Collection[str]
) -> str | None:
    """Return why no strategy of a list is one that all members list; None if one is, or may be.

    Args:
        now: strategy of the group, which all of them list.
        members: how a sentence about each begins, and what it may list; None if that is unknown.
        listed: the list.
    """
    common = frozenset(listed)
    for who, may_list in members:
        common &= common if may_list is None else frozenset(may_list)
        if may_list is not None and not common:
            return f"the group uses {now}; {who} only {', '.join(sorted(may_list))}"
    return None
