"""The record of a simulation: events, partition owners and readers, and totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kgroup.model.cluster import TopicPartition
from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.clock import Clock
from kgroup.simulation.partition_logs import PartitionLogs


@dataclass(frozen=True, slots=True)
class Ownership:
    """The time for which a member owned a partition.

    Attributes:
        topic: topic name.
        partition: partition number.
        owner: member that owned the partition.
        begin_ms: start of the ownership; relative to the start of the simulation.
        end_ms: end of the ownership; None if the member still owned the partition at the end.
    """

    topic: str
    partition: int
    owner: str
    begin_ms: int
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class Standstill:
    """The time for which a member owned a partition without reading it.

    The owner was paused or too busy, or the partition was not readable.

    Attributes:
        topic, partition: as in `Ownership`.
        owner: member that owned the partition without reading it.
        begin_ms: start of the standstill; relative to the start of the simulation.
        end_ms: end of the standstill; None if it lasted to the end of the simulation.
    """

    topic: str
    partition: int
    owner: str
    begin_ms: int
    end_ms: int | None


@dataclass(slots=True)
class _Owner:
    """When an owner got a partition, and since when it does not read it (None if it does)."""

    begin_ms: int
    is_still: bool = False
    still_ms: int | None = None


class GapTotal:
    """The total time for which partitions lack an owner or a reader.

    Args:
        clock: the clock of the simulation.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms: dict[TopicPartition, int] = {}
        self._total_ms: dict[TopicPartition, int] = {}
        self._longest_ms: dict[TopicPartition, int] = {}

    def note(self, partition: TopicPartition, *, is_without: bool) -> None:
        """Start or end a gap of a partition, if that is a change."""
        if is_without is (partition in self._since_ms):
            return
        if is_without:
            self._since_ms[partition] = self._clock.now_ms
        else:
            self._longest_ms[partition] = self.longest_ms(partition) or 0
            self._total_ms[partition] = self.total_ms(partition)
            del self._since_ms[partition]

    def total_ms(self, partition: TopicPartition) -> int:
        """Return the total length of a partition's gaps, in ms."""
        return self._total_ms.get(partition, 0) + self._lasts_ms(partition)

    def longest_ms(self, partition: TopicPartition) -> int | None:
        """Return the longest gap, in ms, since the first gap ended; None if none has."""
        longest_ms = self._longest_ms.get(partition)
        return None if longest_ms is None else max(longest_ms, self._lasts_ms(partition))

    def _lasts_ms(self, partition: TopicPartition) -> int:
        return self._clock.now_ms - self._since_ms.get(partition, self._clock.now_ms)


class Owners:
    """All partitions with their owners.

    Args:
        clock: the clock of the simulation.

    Attributes:
        unowned: time for which partitions have no owner.
        unread: time for which partitions have no reader: no owner, only paused or busy owners, or
            the partition is not readable.
    """

    def __init__(self, clock: Clock) -> None:
        self.unowned = GapTotal(clock)
        self.unread = GapTotal(clock)
        self._clock = clock
        self._owners: dict[TopicPartition, dict[str, _Owner]] = {}
        self._ownerships: list[Ownership] = []
        self._standstills: list[Standstill] = []
        self._is_held = False

    def __iter__(self) -> Iterator[TopicPartition]:
        """Yield the partitions, sorted."""
        return iter(sorted(self._owners))

    def exists(self, partition: TopicPartition) -> None:
        """Add a partition without an owner."""
        self._owners[partition] = {}
        self._changed(partition)

    def begin(self, owner: str, partitions: Iterable[TopicPartition]) -> None:
        """Record that a member owns and reads partitions from now on."""
        for partition in partitions:
            state = self._owners[partition].setdefault(owner, _Owner(self._clock.now_ms))
            self._note(partition, owner, state)
            self._changed(partition)

    def end(self, owner: str, partitions: Iterable[TopicPartition]) -> None:
        """Record that a member does not own partitions any more."""
        now_ms = self._clock.now_ms
        for partition in partitions:
            state = self._owners[partition].pop(owner)
            if state.still_ms is not None:
                self._standstills.append(Standstill(*partition, owner, state.still_ms, now_ms))
            self._ownerships.append(Ownership(*partition, owner, state.begin_ms, now_ms))
            self._changed(partition)

    def stand(self, owner: str, partitions: Iterable[TopicPartition], *, is_still: bool) -> None:
        """Record whether a member is idle, for those of the partitions that it owns."""
        for partition in partitions:
            if (state := self._owners[partition].get(owner)) is not None:
                state.is_still = is_still
                self._note(partition, owner, state)

    def hold(self, *, is_held: bool) -> None:
        """Record whether all partitions are unreadable from now on."""
        self._is_held = is_held
        for partition, owners in self._owners.items():
            for owner, state in owners.items():
                self._note(partition, owner, state)

    def _note(self, partition: TopicPartition, owner: str, state: _Owner) -> None:
        """Record that an owner stopped or resumed reading, if that changed."""
        now_ms, is_still = self._clock.now_ms, state.is_still or self._is_held
        if is_still is (state.still_ms is not None):
            return
        if state.still_ms is not None:
            self._standstills.append(Standstill(*partition, owner, state.still_ms, now_ms))
        state.still_ms = now_ms if is_still else None
        self._changed(partition)

    def _changed(self, partition: TopicPartition) -> None:
        owners = self._owners[partition]
        self.unowned.note(partition, is_without=not owners)
        is_unread = all(owner.still_ms is not None for owner in owners.values())
        self.unread.note(partition, is_without=is_unread)

    @property
    def ownerships(self) -> tuple[Ownership, ...]:
        """All ownerships until now, ended ones first in the order of their ends."""
        return (
            *self._ownerships,
            *(
                Ownership(*partition, owner, state.begin_ms, None)
                for partition, owners in self._owners.items()
                for owner, state in owners.items()
            ),
        )

    @property
    def standstills(self) -> tuple[Standstill, ...]:
        """All standstills until now, in the same order."""
        return (
            *self._standstills,
            *(
                Standstill(*partition, owner, state.still_ms, None)
                for partition, owners in self._owners.items()
                for owner, state in owners.items()
                if state.still_ms is not None
            ),
        )


_RESTING = (GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD)
"""States of a group without a rebalance in progress."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the simulation.

    Attributes:
        time_ms: time of the event; relative to the start of the simulation.
        actor: who acted or received the answer; a member, `coordinator`, `operator`, `broker
            1`.
        event: request, by Kafka's name, or a word for another event.
        answer: result, for people; `waits` for a request that is answered later.
        error: error in the answer, by Kafka's name; None without an error.
        state: state of the group after the event; None if there is no group, or no coordinator
            knows it.
        generation_id: generation of the group after the event, or epoch of a consumer group;
            None if there is no group, or no coordinator knows it.
        partitions: partitions that the event concerns; pairs of topic and number; None if it
            concerns none.
    """

    time_ms: int
    actor: str
    event: str
    answer: str | None = None
    error: str | None = None
    state: GroupState | None = None
    generation_id: int | None = None
    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class SimulatedRebalance:
    """A rebalance, from its first sign until the group was stable or empty.

    Attributes:
        begin_ms: start of the rebalance; relative to the start of the simulation.
        end_ms: when the group was stable or empty; None if the rebalance had not ended.
        cause: first cause; `simulate.md` lists the causes.
        generation_id: resulting generation; None if the rebalance had not ended.
    """

    begin_ms: int
    end_ms: int | None
    cause: str
    generation_id: int | None


@dataclass(frozen=True, slots=True)
class Transition:
    """Number of transitions between two states.

    Attributes:
        before: state before the transition; None if the group did not exist, or no coordinator
            knew it.
        after: state after the transition.
        count: number of such transitions.
    """

    before: GroupState | None
    after: GroupState
    count: int


@dataclass(frozen=True, slots=True)
class PartitionTotal:
    """Totals of a partition.

    Attributes:
        topic: topic name.
        partition: partition number.
        unowned_ms: total time without an owner; since the partition was created.
        unread_ms: total time without a reader; without an owner, or with no owner that was
            reading.
        longest_unowned_ms: longest time without an owner; after the first owner; None if the
            partition never had one.
        longest_unread_ms: longest time without a reader; after the first reader; None if the
            partition never had one.
        read_again: number of records read more than once; because the commit was older, or two
            members read at the same time.
        skipped: number of records before the last one read that no member read; because the
            commit was newer or missing.
    """

    topic: str
    partition: int
    unowned_ms: int
    unread_ms: int
    longest_unowned_ms: int | None
    longest_unread_ms: int | None
    read_again: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation.

    Attributes:
        title: title of the scenario; None if it has none.
        about: what the scenario shows; None if it does not say.
        seed: seed of the random numbers.
        end_ms: end of the simulation; relative to its start.
        is_at_rest: whether every member was reading its partitions at the end, with no
            rebalance in progress.
        events: events; in order.
        ownerships: owners of each partition over time; in the order of their ends.
        standstills: periods in which an owner did not read a partition; in the order of their
            ends.
        rebalances: rebalances of the group; in order.
        state_ms: total time of the group in each state; by state.
        transitions: state transitions of the group; in the order in which they first occurred.
        partitions: totals of each partition; by topic and number.
        refused_commits: number of refused commits; by error.
        requests: number of answered requests; by Kafka's name.
        limits: what a real cluster does and the simulation does not; in sentences.
        record_bytes: size of the largest record of the group in `__consumer_offsets`, with all
            members, as a batch without compression; None without a completed join of classic
            members.
    """

    title: str | None
    about: str | None
    seed: int
    end_ms: int
    is_at_rest: bool
    events: tuple[Event, ...]
    ownerships: tuple[Ownership, ...]
    standstills: tuple[Standstill, ...]
    rebalances: tuple[SimulatedRebalance, ...]
    state_ms: Mapping[str, int]
    transitions: tuple[Transition, ...]
    partitions: tuple[PartitionTotal, ...]
    refused_commits: Mapping[str, int]
    requests: Mapping[str, int]
    limits: tuple[str, ...] = ()
    record_bytes: int | None = None


class Timeline:
    """Recorder of a simulation.

    Args:
        clock: the clock of the simulation.
        logs: the partitions, which know what was read.

    Attributes:
        events: events in order.
        owners: owners of all partitions.
    """

    def __init__(self, clock: Clock, logs: PartitionLogs) -> None:
        self.events: list[Event] = []
        self.owners = Owners(clock)
        self._clock = clock
        self._logs = logs
        self._rebalances: list[SimulatedRebalance] = []
        self._requests: Counter[str] = Counter()
        self._refused_commits: Counter[str] = Counter()
        self._record_bytes: int | None = None
        self._state_ms: Counter[str] = Counter()
        self._transitions: Counter[tuple[GroupState | None, GroupState]] = Counter()
        self._state: GroupState | None = None
        self._state_since_ms = 0

    def answered(self, request: str, refused_commit: ErrorCode | None = None) -> None:
        """Count an answered request."""
        self._requests[request] += 1
        if refused_commit:
            self._refused_commits[refused_commit.name] += 1

    def moved(self, state: GroupState, generation_id: int, cause: str | None) -> None:
        """Record a new state of the group, and the cause if a rebalance begins."""
        self._count_state()
        is_over = not self._rebalances or self._rebalances[-1].end_ms is not None
        if state is not self._state:
            self._transitions[self._state, state] += 1
        self._state = state
        if cause is not None and is_over:
            self.rebalance_begins(cause)
        if state in _RESTING:
            self.rebalance_ends(generation_id)

    def gone(self) -> None:
        """Record that no broker knows the group any more."""
        self._count_state()
        self._state = None

    def rebalance_begins(self, cause: str) -> None:
        """Record the start of a rebalance."""
        self._rebalances.append(SimulatedRebalance(self._clock.now_ms, None, cause, None))

    def rebalance_ends(self, generation_id: int | None) -> None:
        """Record the end of the current rebalance, if there is one."""
        if self._rebalances and self._rebalances[-1].end_ms is None:
            self._rebalances[-1] = replace(
                self._rebalances[-1], end_ms=self._clock.now_ms, generation_id=generation_id
            )

    def note_record(self, size: int | None) -> None:
        """Record the size of a group's record, if it is known."""
        if size is not None:
            self._record_bytes = max(size, self._record_bytes or 0)

    def _count_state(self) -> None:
        if self._state is not None:
            self._state_ms[self._state] += self._clock.now_ms - self._state_since_ms
        self._state_since_ms = self._clock.now_ms

    def end(
        self, title: str | None, about: str | None, seed: int, *, is_at_rest: bool = False
    ) -> Simulation:
        """Return the result; intervals still open are counted until now."""
        self._count_state()
        owners = self.owners
        return Simulation(
            title,
            about,
            seed,
            self._clock.now_ms,
            is_at_rest,
            tuple(self.events),
            owners.ownerships,
            owners.standstills,
            tuple(self._rebalances),
            dict(sorted(self._state_ms.items())),
            tuple(Transition(*between, n) for between, n in self._transitions.items()),
            tuple(
                PartitionTotal(
                    *partition,
                    owners.unowned.total_ms(partition),
                    owners.unread.total_ms(partition),
                    owners.unowned.longest_ms(partition),
                    owners.unread.longest_ms(partition),
                    *self._logs.again_and_skipped(partition),
                )
                for partition in owners
            ),
            dict(sorted(self._refused_commits.items())),
            dict(sorted(self._requests.items())),
            record_bytes=self._record_bytes,
        )
