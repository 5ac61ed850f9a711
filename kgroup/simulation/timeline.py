"""The record of a simulation: events, partition owners and readers, and totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import TypeAlias

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
        cells: cell of each row, as in `Owners`.
    """

    def __init__(self, clock: Clock, cells: Mapping[int, int]) -> None:
        self._clock = clock
        self._cells = cells
        self._since_ms: dict[int, int] = {}
        self._total_ms: dict[int, int] = {}
        self._longest_ms: dict[int, int] = {}

    def note(self, cell: int, *, is_without: bool) -> None:
        """Start or end a gap of a cell's partitions, if that is a change."""
        if is_without is (cell in self._since_ms):
            return
        if is_without:
            self._since_ms[cell] = self._clock.now_ms
        else:
            lasted_ms = self._lasts_ms(cell)
            longest_ms = max(self._longest_ms[cell], lasted_ms) if self._had(cell) else 0
            self._longest_ms[cell] = longest_ms
            self._total_ms[cell] = self._total_ms.get(cell, 0) + lasted_ms
            del self._since_ms[cell]

    def split(self, cell: int, part: int) -> None:
        """Let the partitions of a new cell have the gaps of the cell in which they were."""
        for times in (self._since_ms, self._total_ms, self._longest_ms):
            if cell in times:
                times[part] = times[cell]

    def total_ms(self, row: int) -> int:
        """Return the total length of a partition's gaps, in ms."""
        cell = self._cells[row]
        return self._total_ms.get(cell, 0) + self._lasts_ms(cell)

    def longest_ms(self, row: int) -> int | None:
        """Return the longest gap, in ms, since the first gap ended; None if none has."""
        cell = self._cells[row]
        return max(self._longest_ms[cell], self._lasts_ms(cell)) if self._had(cell) else None

    def _had(self, cell: int) -> bool:
        """Return whether the first gap has ended."""
        return cell in self._longest_ms

    def _lasts_ms(self, cell: int) -> int:
        return self._clock.now_ms - self._since_ms.get(cell, self._clock.now_ms)


Span: TypeAlias = tuple[int, int | None, str]
"""Begin, end (None if it lasts) and owner of an ownership or a standstill."""


@dataclass(frozen=True, slots=True)
class History:
    """The history of partitions that always had the same owners.

    Attributes:
        partitions: number of partitions.
        owned: ownerships.
        still: standstills.
    """

    partitions: int
    owned: Sequence[Span]
    still: Sequence[Span]


class _Cell:
    """Partitions that have had the same owners at all times.

    Attributes:
        rows: the partitions.
        owners: their owners now.
        owned, still: ownerships and standstills that have ended.
    """

    def __init__(self, rows: set[int]) -> None:
        self.rows = rows
        self.owners: dict[str, _Owner] = {}
        self.owned: list[Span] = []
        self.still: list[Span] = []

    def split(self, rows: set[int]) -> _Cell:
        """Move some partitions to a new cell, with the history of this one."""
        part = _Cell(rows)
        self.rows -= rows
        part.owners = {owner: replace(state) for owner, state in self.owners.items()}
        part.owned, part.still = self.owned.copy(), self.still.copy()
        return part

    @property
    def history(self) -> History:
        """The history until now."""
        lasting = [(state.begin_ms, None, owner) for owner, state in self.owners.items()]
        still = [
            (state.still_ms, None, owner)
            for owner, state in self.owners.items()
            if state.still_ms is not None
        ]
        return History(len(self.rows), (*self.owned, *lasting), (*self.still, *still))


@dataclass(frozen=True, slots=True)
class _Spans:
    """Ownerships, or standstills, of one owner that ended at the same time.

    Attributes:
        owner: the owner.
        rows: the partitions, in order.
        begin_ms: their begin; by row if they differ.
        end_ms: their end.
    """

    owner: str
    rows: tuple[int, ...]
    begin_ms: int | Mapping[int, int]
    end_ms: int


class Owners:
    """All partitions with their owners.

    Partitions that have had the same owners at all times form a cell, and are recorded together:
    a group may have a hundred thousand partitions, which members get and lose by the thousand.

    Args:
        clock: the clock of the simulation.
        partitions: the partition of each row, as in `PartitionLogs`.

    Attributes:
        unowned: time for which partitions have no owner.
        unread: time for which partitions have no reader: no owner, only paused or busy owners, or
            the partition is not readable.
    """

    def __init__(self, clock: Clock, partitions: Sequence[TopicPartition]) -> None:
        self._clock = clock
        self._partitions = partitions
        self._cell_of: dict[int, int] = {}
        self.unowned = GapTotal(clock, self._cell_of)
        self.unread = GapTotal(clock, self._cell_of)
        self._cells: list[_Cell] = []
        self._ownerships: list[_Spans] = []
        self._standstills: list[_Spans] = []
        self._is_held = False

    def __iter__(self) -> Iterator[int]:
        """Yield the rows, sorted by partition."""
        return iter(sorted(self._cell_of, key=self._partitions.__getitem__))

    def exist(self, rows: Collection[int]) -> None:
        """Add partitions without an owner."""
        if not rows:
            return
        self._cell_of.update(dict.fromkeys(rows, len(self._cells)))
        self._cells.append(_Cell(set(rows)))
        self._changed(len(self._cells) - 1)

    def _covering(self, rows: Collection[int]) -> list[int]:
        """Return the cells of exactly these partitions, which are split as needed."""
        cells, chosen = [], None
        for cell, count in Counter(map(self._cell_of.__getitem__, rows)).items():
            if count == len(self._cells[cell].rows):
                cells.append(cell)
                continue
            chosen = chosen or set(rows)
            part = self._cells[cell].split(self._cells[cell].rows & chosen)
            number = len(self._cells)
            self._cells.append(part)
            self._cell_of.update(dict.fromkeys(part.rows, number))
            self.unowned.split(cell, number)
            self.unread.split(cell, number)
            cells.append(number)
        return cells

    def begin(self, owner: str, rows: Collection[int]) -> None:
        """Record that a member owns and reads partitions from now on."""
        for cell in self._covering(rows):
            state = self._cells[cell].owners.setdefault(owner, _Owner(self._clock.now_ms))
            self._note(cell, owner, state)
            self._changed(cell)

    def end(self, owner: str, rows: Collection[int]) -> None:
        """Record that a member does not own partitions any more."""
        now_ms, begins_ms, still_ms = self._clock.now_ms, dict[int, int](), dict[int, int]()
        covering = list[int]()
        if len(rows) > len(self._cells):
            covering = [number for number, cell in enumerate(self._cells) if owner in cell.owners]
        if sum(len(self._cells[cell].rows) for cell in covering) != len(rows):
            covering = self._covering(rows)
        for cell in covering:
            state = self._cells[cell].owners.pop(owner)
            if state.still_ms is not None:
                still_ms[cell] = state.still_ms
                self._cells[cell].still.append((state.still_ms, now_ms, owner))
            begins_ms[cell] = state.begin_ms
            self._cells[cell].owned.append((state.begin_ms, now_ms, owner))
            self._changed(cell)
        self._standstills += self._ended(owner, rows, still_ms)
        self._ownerships += self._ended(owner, rows, begins_ms)

    def stand(self, owner: str, rows: Collection[int], *, is_still: bool) -> None:
        """Record whether a member is idle, for those of the partitions that it owns."""
        still_ms = {}
        for cell in self._covering(rows):
            if (state := self._cells[cell].owners.get(owner)) is not None:
                state.is_still = is_still
                if (since_ms := self._note(cell, owner, state)) is not None:
                    still_ms[cell] = since_ms
        self._standstills += self._ended(owner, rows, still_ms)

    def hold(self, *, is_held: bool) -> None:
        """Record whether all partitions are unreadable from now on."""
        self._is_held = is_held
        now_ms, ended = self._clock.now_ms, dict[int, list[tuple[str, int]]]()
        for number, cell in enumerate(self._cells):
            for owner, state in cell.owners.items():
                if (since_ms := self._note(number, owner, state)) is not None:
                    ended.setdefault(number, []).append((owner, since_ms))
        self._standstills += (
            _Spans(owner, (row,), since_ms, now_ms)
            for row, number in self._cell_of.items()
            for owner, since_ms in ended.get(number, ())
        )

    def _ended(
        self, owner: str, rows: Collection[int], begins_ms: Mapping[int, int]
    ) -> Iterator[_Spans]:
        """Yield the spans that end now; `begins_ms` has the cells whose partitions have one."""
        if not begins_ms:
            return
        cells, count = self._cell_of, sum(len(self._cells[cell].rows) for cell in begins_ms)
        if count < len(rows):
            rows = [row for row in rows if cells[row] in begins_ms]
        first, *others = set(begins_ms.values())
        begins = {row: begins_ms[cells[row]] for row in rows} if others else first
        yield _Spans(owner, tuple(rows), begins, self._clock.now_ms)

    def _note(self, cell: int, owner: str, state: _Owner) -> int | None:
        """Record that an owner stopped or resumed reading, if that changed.

        Returns:
            When the standstill that has ended began.
        """
        now_ms, since_ms = self._clock.now_ms, state.still_ms
        is_still = state.is_still or self._is_held
        if is_still is (since_ms is not None):
            return None
        if since_ms is not None:
            self._cells[cell].still.append((since_ms, now_ms, owner))
        state.still_ms = now_ms if is_still else None
        self._changed(cell)
        return since_ms

    def _changed(self, cell: int) -> None:
        owners = self._cells[cell].owners
        self.unowned.note(cell, is_without=not owners)
        is_unread = all(owner.still_ms is not None for owner in owners.values())
        self.unread.note(cell, is_without=is_unread)

    @property
    def histories(self) -> Iterator[History]:
        """The history of each cell until now."""
        return (cell.history for cell in self._cells)

    def _named(self, spans: Iterable[_Spans]) -> Iterator[tuple[str, int, str, int, int]]:
        """Yield topic, partition, owner, begin and end of each."""
        for some in spans:
            begin_ms = some.begin_ms
            for row in some.rows:
                begin = begin_ms if isinstance(begin_ms, int) else begin_ms[row]
                yield *self._partitions[row], some.owner, begin, some.end_ms

    @property
    def ownerships(self) -> tuple[Ownership, ...]:
        """All ownerships until now, ended ones first in the order of their ends."""
        return (
            *starmap(Ownership, self._named(self._ownerships)),
            *(
                Ownership(*self._partitions[row], owner, state.begin_ms, None)
                for row, cell in self._cell_of.items()
                for owner, state in self._cells[cell].owners.items()
            ),
        )

    @property
    def standstills(self) -> tuple[Standstill, ...]:
        """All standstills until now, in the same order."""
        return (
            *starmap(Standstill, self._named(self._standstills)),
            *(
                Standstill(*self._partitions[row], owner, state.still_ms, None)
                for row, cell in self._cell_of.items()
                for owner, state in self._cells[cell].owners.items()
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
        lists_assigned: whether events of consumer groups list assigned partitions: a member's are
            sorted twice per rebalance.
        owners: owners of all partitions.
        rebalances: rebalances in order.
        record_bytes: as in `Simulation`, until now.
    """

    def __init__(self, clock: Clock, logs: PartitionLogs) -> None:
        self.events: list[Event] = []
        self.lists_assigned = True
        self.owners = Owners(clock, logs.partitions)
        self._clock = clock
        self._logs = logs
        self.rebalances: list[SimulatedRebalance] = []
        self._requests: Counter[str] = Counter()
        self._refused_commits: Counter[str] = Counter()
        self.record_bytes: int | None = None
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
        is_over = not self.rebalances or self.rebalances[-1].end_ms is not None
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
        self.rebalances.append(SimulatedRebalance(self._clock.now_ms, None, cause, None))

    def rebalance_ends(self, generation_id: int | None) -> None:
        """Record the end of the current rebalance, if there is one."""
        if self.rebalances and self.rebalances[-1].end_ms is None:
            self.rebalances[-1] = replace(
                self.rebalances[-1], end_ms=self._clock.now_ms, generation_id=generation_id
            )

    def note_record(self, size: int | None) -> None:
        """Record the size of a group's record, if it is known."""
        if size is not None:
            self.record_bytes = max(size, self.record_bytes or 0)

    def again_and_skipped(self) -> tuple[int, int]:
        """Return the number of records read again, and skipped, until now, of all partitions."""
        counts = self._logs.again_and_skipped().values()
        return sum(again for again, _ in counts), sum(skipped for _, skipped in counts)

    def _count_state(self) -> None:
        if self._state is not None:
            self._state_ms[self._state] += self._clock.now_ms - self._state_since_ms
        self._state_since_ms = self._clock.now_ms

    def end(
        self, title: str | None, about: str | None, seed: int, *, is_at_rest: bool = False
    ) -> Simulation:
        """Return the result; intervals still open are counted until now."""
        self._count_state()
        owners, counts = self.owners, self._logs.again_and_skipped()
        return Simulation(
            title,
            about,
            seed,
            self._clock.now_ms,
            is_at_rest,
            tuple(self.events),
            owners.ownerships,
            owners.standstills,
            tuple(self.rebalances),
            dict(sorted(self._state_ms.items())),
            tuple(Transition(*between, n) for between, n in self._transitions.items()),
            tuple(
                PartitionTotal(
                    *self._logs.partitions[row],
                    owners.unowned.total_ms(row),
                    owners.unread.total_ms(row),
                    owners.unowned.longest_ms(row),
                    owners.unread.longest_ms(row),
                    *counts.get(row, (0, 0)),
                )
                for row in owners
            ),
            dict(sorted(self._refused_commits.items())),
            dict(sorted(self._requests.items())),
            record_bytes=self.record_bytes,
        )
