"""A library of which a consumer is made: what its members send, and how it assigns as leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.assignor.base import ClassicAssignor, Subscriber
from kgroup.assignor.spec import MemberSpec

__all__ = ["ClientLibrary"]


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A library with the strategies of classic groups that it brings.

    Attributes:
        name: of the library, as its users call it.
        strategies: by version of the library, the newest first, its assignors by the names that
            its members send; the first is the one that it takes where none is set. A version
            stands for all later ones up to the next that is named.
        as_sent: gives what a leader reads in the subscriptions of members of this library, from
            the members, the name of the strategy and the version.
    """

    name: str
    strategies: Mapping[str, Mapping[str, ClassicAssignor]]
    as_sent: Callable[[Sequence[MemberSpec], str, str], list[Subscriber]]

    @property
    def versions(self) -> tuple[str, ...]:
        """Those whose behaviour is known, the newest first."""
        return tuple(self.strategies)
