"""Who owns which partition from when to when, and who reads what is theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kgroup.simulation.clock import Clock
from kgroup.simulation.message import TopicPartition


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who owned a partition, from when to when; None: to the end."""

    topic: str
    partition: int
    owner: str
    begin_ms: int
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class Standstill:
    """Who owned a partition and did not read it; None: to the end.

    The owner stood still, or the partition's brokers did.
    """

    topic: str
    partition: int
    owner: str
    begin_ms: int
    end_ms: int | None


@dataclass(slots=True)
class _Owner:
    """Since when somebody owns a partition, and since when it does not read it; None: it does."""

    begin_ms: int
    is_still: bool = False
    still_ms: int | None = None


class Lack:
    """How long partitions are without something.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms: dict[TopicPartition, int] = {}
        self._total_ms: dict[TopicPartition, int] = {}
        self._longest_ms: dict[TopicPartition, int] = {}

    def note(self, partition: TopicPartition, *, is_without: bool) -> None:
        """Note whether a partition is without it from now on."""
        if is_without is (partition in self._since_ms):
            return
        if is_without:
            self._since_ms[partition] = self._clock.now_ms
        else:
            self._longest_ms[partition] = self.longest_ms(partition) or 0
            self._total_ms[partition] = self.total_ms(partition)
            del self._since_ms[partition]

    def total_ms(self, partition: TopicPartition) -> int:
        """Return how long a partition has been without it until now."""
        return self._total_ms.get(partition, 0) + self._lasts_ms(partition)

    def longest_ms(self, partition: TopicPartition) -> int | None:
        """Return how long at a time since it had it first; None: it never had it."""
        longest_ms = self._longest_ms.get(partition)
        return None if longest_ms is None else max(longest_ms, self._lasts_ms(partition))

    def _lasts_ms(self, partition: TopicPartition) -> int:
        return self._clock.now_ms - self._since_ms.get(partition, self._clock.now_ms)


class Owners:
    """All partitions with their owners.

    Args:
        clock: the time.

    Attributes:
        unowned: how long partitions have no owner.
        unread: how long nobody reads them: they have no owner, all owners are paused, or the
            partitions cannot be read.
    """

    def __init__(self, clock: Clock) -> None:
        self.unowned = Lack(clock)
        self.unread = Lack(clock)
        self._clock = clock
        self._owners: dict[TopicPartition, dict[str, _Owner]] = {}
        self._ownerships: list[Ownership] = []
        self._standstills: list[Standstill] = []
        self._is_held = False

    def __iter__(self) -> Iterator[TopicPartition]:
        """Return the partitions, sorted."""
        return iter(sorted(self._owners))

    def exists(self, partition: TopicPartition) -> None:
        """Note a partition that nobody owns yet."""
        self._owners[partition] = {}
        self._changed(partition)

    def begin(self, owner: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that somebody begins to own partitions, and to read them."""
        for partition in partitions:
            found = self._owners[partition].setdefault(owner, _Owner(self._clock.now_ms))
            self._note(partition, owner, found)
            self._changed(partition)

    def end(self, owner: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that somebody owns partitions no more."""
        now_ms = self._clock.now_ms
        for partition in partitions:
            found = self._owners[partition].pop(owner)
            if found.still_ms is not None:
                self._standstills.append(Standstill(*partition, owner, found.still_ms, now_ms))
            self._ownerships.append(Ownership(*partition, owner, found.begin_ms, now_ms))
            self._changed(partition)

    def stand(self, owner: str, partitions: Iterable[TopicPartition], *, is_still: bool) -> None:
        """Note whether somebody stands still, with those of partitions that it owns."""
        for partition in partitions:
            if (found := self._owners[partition].get(owner)) is not None:
                found.is_still = is_still
                self._note(partition, owner, found)

    def hold(self, *, is_held: bool) -> None:
        """Note whether no partition can be read from now on."""
        self._is_held = is_held
        for partition, owners in self._owners.items():
            for owner, found in owners.items():
                self._note(partition, owner, found)

    def _note(self, partition: TopicPartition, owner: str, found: _Owner) -> None:
        """Note when an owner stops to read, and when it goes on."""
        now_ms, is_still = self._clock.now_ms, found.is_still or self._is_held
        if is_still is (found.still_ms is not None):
            return
        if found.still_ms is not None:
            self._standstills.append(Standstill(*partition, owner, found.still_ms, now_ms))
        found.still_ms = now_ms if is_still else None
        self._changed(partition)

    def _changed(self, partition: TopicPartition) -> None:
        owners = self._owners[partition]
        self.unowned.note(partition, is_without=not owners)
        is_unread = all(each.still_ms is not None for each in owners.values())
        self.unread.note(partition, is_without=is_unread)

    @property
    def ownerships(self) -> tuple[Ownership, ...]:
        """Who owned what until now, in the order of their ends."""
        return (
            *self._ownerships,
            *(
                Ownership(*partition, owner, found.begin_ms, None)
                for partition, owners in self._owners.items()
                for owner, found in owners.items()
            ),
        )

    @property
    def standstills(self) -> tuple[Standstill, ...]:
        """Who stood still until now, likewise."""
        return (
            *self._standstills,
            *(
                Standstill(*partition, owner, found.still_ms, None)
                for partition, owners in self._owners.items()
                for owner, found in owners.items()
                if found.still_ms is not None
            ),
        )
