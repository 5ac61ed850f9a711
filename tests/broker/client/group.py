"""Consumers of one library that share a topic."""

from __future__ import annotations

from pathlib import Path

from tests.broker.client.member import LibraryMember
from tests.waiting import until


class LibraryGroup:
    """A group of them.

    Args:
        library: of all members.
        bootstrap: where the broker is.
        group: their group.
        topic: that they read, and
        partitions: that it has.
        log: file for what the library says.
    """

    def __init__(
        self, library: str, bootstrap: str, group: str, topic: str, partitions: int, log: Path
    ) -> None:
        self._library = library
        self._bootstrap = bootstrap
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._log = log
        self._members: list[LibraryMember] = []

    def start(self, names: list[str], strategy: str) -> None:
        """Start consumers with these client ids, and wait until all own all partitions."""
        where = (self._library, self._bootstrap, self._group, [self._topic], strategy, self._log)
        self._members += [LibraryMember(*where, client_id=name) for name in names]
        until(lambda: sum(len(member.owned or ()) for member in self._members) == self._partitions)

    def stop_all(self) -> None:
        """Stop all consumers in order."""
        for member in self._members:
            member.stop()
        self._members.clear()
