"""The live `__consumer_offsets` as logs to decode, partition by partition, read from the leaders.

Fetched bytes are written to temporary files, which are then read like the segments of a log
directory. A file is removed when the next one is requested, so that memory is bounded regardless of
the topic's size, and disk space by a few of its partitions.

`FollowedLogs` follows the topic without end. A Fetch request that waits for data detects partitions
that have grown; each is copied up to its current end, like a partition that is read once
(`LiveLogs`), and so are the records that exist at the start.

With isolation level read_committed, a partition ends at its last stable offset, as for a consumer.

A partition without a leader is retried until it has one. Following fails when no broker has
answered within the timeout of the client's deadline; a broker without new records still answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.log_range import LogRange
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.model.segment import Log, Segment, SegmentStatus
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import FIRST_BACKOFF_S, LAST_BACKOFF_S, Backoff, BrokerClient
from kgroup.source.broker.connection import BROKEN
from kgroup.source.broker.coordinator import is_missing
from kgroup.source.broker.error_code import LEADER_MOVES, error_name
from kgroup.source.broker.fetch import Fetched, fetch, sound_part
from kgroup.source.broker.leader import LeaderAnswers
from kgroup.source.broker.topic_offset import ask_log_ranges, ask_offsets_at

FETCH_SIZE = 4 << 20
LARGEST_FETCH = 64 << 20
AT_ONCE = 8
"""Number of partitions that are fetched concurrently."""
_PASSING = BROKEN | {ProblemKind.MOVING}
"""Kinds of errors that end when the partition has a leader again."""


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where to start in each partition: the latest of these positions.

    Attributes:
        offset: first offset to read; None for the log start offset.
        time_ms: timestamp from which to read, in epoch milliseconds; a few earlier records may be
            read.
        at_end: whether to skip all existing records.
    """

    offset: int | None = None
    time_ms: int | None = None
    at_end: bool = False

    @property
    def is_sought(self) -> bool:
        """Whether any records are skipped."""
        return self != StartPosition()


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """Copy of part of a partition.

    Attributes:
        log: the copy.
        next: offset after the copy.
        problem: why the copy ends early; None if it does not.
    """

    log: Log
    next: int
    problem: BrokerError | None = None

    def remove(self) -> None:
        """Remove the copy."""
        for segment in self.log.segments:
            segment.path.unlink(missing_ok=True)


class LiveLog:
    """The topic `__consumer_offsets` of one cluster.

    Attributes:
        client: connected client.
        leaders: id of the leader, by partition; None if there is none; empty if the cluster has no
            such topic.
        bytes_copied: bytes of the batches read so far.
    """

    def __init__(
        self,
        client: BrokerClient,
        folder: Path,
        on_progress: Callable[[LiveLog], None] = lambda log: None,
    ) -> None:
        """Request the partitions' leaders; copies are written to the folder.

        Raises:
            BrokerError: no broker answers, or the user may not describe the topic.
        """
        self.client = client
        self.leaders: Mapping[int, int | None] = {}
        self.bytes_copied = 0
        self._folder = folder
        self._on_progress = on_progress
        client.run(self.refresh)

    async def refresh(self) -> None:
        """Refresh the partitions' leaders.

        Raises:
            BrokerError: no broker answers, or the user may not describe the topic.
        """
        topic = (await self.client.metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
        if topic is None or is_missing(topic):
            self.leaders = dict.fromkeys(self.leaders)
        elif topic.partitions:
            self.leaders = {
                number: topic.partitions[number].leader for number in sorted(topic.partitions)
            }
        elif topic.error == error_name(ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            text = f"{OFFSETS_TOPIC} may not be described ({topic.error}); it needs DESCRIBE on it"
            raise BrokerError(ProblemKind.DENIED, text)

    async def ranges_from(
        self, numbers: Collection[int], start: StartPosition, *, committed: bool = False
    ) -> tuple[dict[int, tuple[int, int]], dict[int, BrokerError]]:
        """Return start and end offset by partition, and the errors of the other partitions.

        Raises:
            BrokerError: no broker answers.
        """
        ats = {(OFFSETS_TOPIC, number) for number in numbers}
        ranges = await ask_log_ranges(self.client, ats, committed=committed)
        errors = self._errors(ranges)
        begins: Mapping[TopicPartition, LogRange] = {}
        if start.time_ms is not None and start.time_ms >= 0:
            answers = await ask_offsets_at(self.client, ranges.found, start.time_ms)
            begins = answers.found
            errors |= self._errors(answers)
        log_ranges: dict[int, tuple[int, int]] = {}
        for at, within in ranges.found.items():
            first, end = within.start or 0, within.end or 0
            begin = end if start.at_end else max(first, start.offset or 0)
            if at in begins:
                sought = begins[at].start
                begin = max(begin, end if sought is None else sought)
            if at[1] not in errors:
                log_ranges[at[1]] = (min(begin, end), end)
        return dict(sorted(log_ranges.items())), errors

    def _errors(self, answers: LeaderAnswers[LogRange]) -> dict[int, BrokerError]:
        errors = {
            number: BrokerError(ProblemKind(mark), mark.sentence)
            for (_, number), mark in answers.marks.items()
        }
        for (_, number), reason in answers.unanswered.items():
            errors[number] = (
                reason
                if isinstance(reason, BrokerError)
                else refusal(reason, self.leaders.get(number))
            )
        return errors

    async def copy(
        self,
        number: int,
        start: int,
        end: int,
        *,
        committed: bool = False,
        group_id: str | None = None,
    ) -> FetchedRange:
        """Copy the records of a partition between two offsets; the last batch is complete.

        With `committed`, read committed; `end` must then not exceed the last stable offset. With
        `group_id`, leave out batches without records of the group (`entry.select_group`); compiled
        code must be loaded, as that may take longer than a broker's timeout.
        """
        at, size = start, FETCH_SIZE
        leader = self.leaders.get(number)
        aborted: set[tuple[int, int]] = set()
        problem: BrokerError | None = None
        path = self._folder / f"{number}-{start}"
        with path.open("wb", buffering=0) as file:
            while at < end:
                try:
                    leader, fetched = await self._fetch(number, at, size, committed)
                except BrokerError as error:
                    problem = error
                    break
                if not fetched.data:
                    break  # compaction has removed the last records
                copied, kept, following = _of_group(fetched, at, end, group_id)
                if kept == 0:
                    kept, following = sound_part(fetched, at, end, is_all=size >= LARGEST_FETCH)
                    if kept == 0 and size < LARGEST_FETCH:
                        size *= 4
                        continue
                    if kept == 0:
                        text = f"what follows offset {at - 1} is no batch that can be trusted"
                        problem = BrokerError(ProblemKind.UNUSABLE, text, leader)
                        kept, following = len(fetched.data), end
                    copied = memoryview(fetched.data)[:kept]
                file.write(copied)
                aborted |= fetched.aborted
                self.bytes_copied += kept
                self._on_progress(self)
                at, size = following, FETCH_SIZE
        segment = Segment(
            path, number, start, SegmentStatus.LIVE, path.stat().st_size, broker=leader
        )
        log = Log((segment,), frozenset(aborted) if committed else None)
        return FetchedRange(log, at if problem else max(at, end), problem)

    async def _fetch(self, number: int, at: int, size: int, committed: bool) -> tuple[int, Fetched]:
        """Fetch from the current leader of a partition; return its id and the response.

        Raises:
            BrokerError: the leader does not answer, or returns an error.
        """
        key = (OFFSETS_TOPIC, number)
        backoff = Backoff(self.client)
        while True:
            leader = self.leaders.get(number)
            try:
                if leader is None:
                    raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, None)
                fetcheds = await fetch(self.client, leader, {key: at}, size, committed=committed)
                if not fetcheds[key].code:
                    return leader, fetcheds[key]
                raise refusal(fetcheds[key].code, leader)
            except BrokerError as error:
                if error.kind not in _PASSING or not await backoff.wait(
                    f"the leader of {OFFSETS_TOPIC}-{number}"
                ):
                    raise
            await self.refresh()


def _of_group(
    fetched: Fetched, at: int, until: int, group_id: str | None
) -> tuple[memoryview, int, int]:
    """Return the batches of a group, the bytes that they are selected from, and the next offset."""
    if group_id is None:
        return memoryview(b""), 0, at
    from kgroup.kernel import entry

    name = group_id.encode()
    prefixed = len(name).to_bytes(2, "big") + name
    return entry.select_group(fetched.data, at, until, fetched.end, prefixed)


class LiveLogs:
    """The current records of some partitions of the topic; implements `Logs`."""

    def __init__(
        self, topic: LiveLog, numbers: Sequence[int], start: StartPosition, end: int | None = None
    ) -> None:
        """Create the logs, without sending a request; by default a partition is read to its end."""
        self.log_count = self.file_count = len(numbers)
        self.is_sought = start.is_sought
        self._topic = topic
        self._numbers = numbers
        self._start = start
        self._end = end

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield a log for each partition, and at the end the problems."""
        client = self._topic.client
        try:
            log_ranges, errors = client.run(self._topic.ranges_from, self._numbers, self._start)
        except BrokerError as error:
            log_ranges, errors = {}, dict.fromkeys(self._numbers, error)
        numbers = list(log_ranges)
        for first in range(0, len(numbers), AT_ONCE):
            part = numbers[first : first + AT_ONCE]
            copies = client.run(client.gather, (self._copy(n, *log_ranges[n]) for n in part))
            for number, copied in zip(part, copies, strict=True):
                if isinstance(copied, BrokerError):
                    errors[number] = copied
                    continue
                yield copied.log
                copied.remove()
                if copied.problem is not None:
                    errors[number] = copied.problem
        yield from problems_of(errors)

    async def _copy(self, number: int, start: int, end: int) -> FetchedRange:
        return await self._topic.copy(
            number, start, end if self._end is None else min(self._end, end)
        )


def refusal(code: int, leader: int | None) -> BrokerError:
    """Return the error for an error code of a partition."""
    name = error_name(code)
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:  # every broker would return it
        return BrokerError(
            ProblemKind.DENIED, f"{OFFSETS_TOPIC} may not be read: {name}; it needs READ on it"
        )
    who = "there is no leader:" if leader is None else f"broker {leader} returned"
    return BrokerError(
        ProblemKind.MOVING if code in LEADER_MOVES else ProblemKind.DENIED, f"{who} {name}", leader
    )


def problems_of(errors: Mapping[int, BrokerError]) -> Iterator[Problem]:
    """Yield a problem per reason that lists the missing partitions."""
    by_reason: dict[str, list[int]] = {}
    for number, error in sorted(errors.items()):
        by_reason.setdefault(str(error), []).append(number)
    for reason, numbers in by_reason.items():
        error = errors[numbers[0]]
        yield Problem(
            ProblemKind.NO_LEADER if error.kind is ProblemKind.MOVING else error.kind,
            f"{reason[:1].upper()}{reason[1:].removesuffix('.')}; {partition_list(numbers)} "
            f"{'is' if len(numbers) == 1 else 'are'} missing, or not read to the end.",
            offsets_partition=numbers[0] if len(numbers) == 1 else None,
            broker=error.broker_id,
        )


def partition_list(numbers: Sequence[int]) -> str:
    """Return a list of partitions: "partition 3 of __consumer_offsets"."""
    what = "partition" if len(numbers) == 1 else "partitions"
    return f"{what} {', '.join(map(str, numbers))} of {OFFSETS_TOPIC}"


WAIT_MS = 500
"""Milliseconds that a broker delays a response without new records."""
PAUSE_S = 1.0
"""Seconds between reads after which earlier responses are discarded; writing to a full pipe may
block.
"""
PROBE_SIZE = 1
"""Bytes to fetch: only the end of the log matters."""


class FollowedLogs:
    """Some partitions of the topic, followed without end; implements `Logs`."""

    def __init__(
        self,
        topic: LiveLog,
        numbers: Sequence[int],
        start: StartPosition,
        *,
        committed: bool,
        on_note: Callable[[str], None],
        pulse: Callable[[], None],
    ) -> None:
        """Create the logs, without a request.

        With `committed`, read committed. `on_note` is called with messages for users about brokers
        that fail and recover, `pulse` repeatedly while there are no new records.
        """
        self.log_count = self.file_count = len(numbers)
        self.is_sought = True
        self._topic = topic
        self._client = topic.client
        self._committed = committed
        self._on_note = on_note
        self._pulse = pulse
        self._starts = dict.fromkeys(numbers, start)
        self._next: dict[int, int] = {}  # partition -> next offset, if it was started
        self._grown: dict[int, int] = {}  # partition -> new end, oldest first
        self._lost: set[int] = set()  # partitions that cannot be read now
        self._asked: dict[int, tuple[Any, dict[int, int]]] = {}  # leader -> response, offsets
        self._search: Any = None
        self._pause_s = 0.0
        self._reason: BrokerError | None = None  # why the last lookup of leaders failed
        self._is_over = False
        # A broker that does not answer must leave time for the others.
        self._client.deadline.patience_s = self._client.deadline.timeout_s / 3

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield a log for each range by which a partition has grown.

        Raises:
            BrokerError: no broker has answered for too long, or the user may not read the topic.
        """
        try:
            while fetched := self._client.run(self._fetch_next):
                asleep = monotonic()
                yield fetched.log
                fetched.remove()
                if monotonic() - asleep > PAUSE_S:
                    self._client.run(self._forget)
        finally:
            self._is_over = True

    async def _fetch_next(self) -> FetchedRange | None:
        """Wait for the next range; return None when the iteration has ended."""
        while not self._is_over:
            while self._grown:
                number = next(iter(self._grown))
                start, end = self._next[number], self._grown.pop(number)
                fetched = await self._topic.copy(number, start, end, committed=self._committed)
                self._next[number] = fetched.next
                if fetched.problem is not None:
                    self._lose([number], str(fetched.problem))
                if fetched.next > start:
                    return fetched
                fetched.remove()
            await self._listen()
        return None

    async def _listen(self) -> None:
        """Send requests to brokers, wait, and process the responses that have arrived."""
        self._pulse()
        if self._search is None and self._waiting:
            self._search = self._client.start(self._find())
        for leader, offsets in self._by_leader().items():
            if leader not in self._asked:
                self._asked[leader] = (self._client.start(self._probe(leader, offsets)), offsets)
        futures = [future for future, _ in self._asked.values()]
        await self._client.first([*futures, *([self._search] if self._search else [])])
        if self._is_over:
            return
        if self._search is not None and self._search.is_done:
            search, self._search = self._search, None
            if search.exception is not None:
                raise search.exception
        for leader, (future, offsets) in list(self._asked.items()):
            if future.is_done:
                del self._asked[leader]
                if isinstance(future.exception, BrokerError):
                    self._lose(offsets, str(future.exception))
                elif future.exception is not None:
                    raise future.exception
                else:
                    for number, fetched in future.value.items():
                        self._hear(leader, number, fetched)

    @property
    def _waiting(self) -> list[int]:
        """The partitions whose leader or start must be looked up."""
        leaders = self._topic.leaders
        return [
            n
            for n in self._starts
            if n in self._lost or n not in self._next or leaders.get(n) is None
        ]

    def _by_leader(self) -> dict[int, dict[int, int]]:
        """Return the offsets to request from each leader."""
        by_leader: dict[int, dict[int, int]] = {}
        for number, offset in self._next.items():
            leader = self._topic.leaders.get(number)
            if leader is not None and number not in self._lost:
                by_leader.setdefault(leader, {})[number] = offset
        return by_leader

    async def _probe(self, leader: int, offsets: dict[int, int]) -> dict[int, Fetched]:
        fetcheds = await fetch(
            self._client,
            leader,
            {(OFFSETS_TOPIC, number): offset for number, offset in offsets.items()},
            PROBE_SIZE,
            wait_ms=min(WAIT_MS, int(500 * self._client.deadline.patience_s)),
            committed=self._committed,
        )
        return {number: fetched for (_, number), fetched in fetcheds.items()}

    def _hear(self, leader: int, number: int, fetched: Fetched) -> None:
        """Process a broker's response for a partition."""
        if fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = self._next.pop(number)
            self._starts[number] = StartPosition(offset)
            self._lose([number], f"offset {offset} no longer exists")
        elif fetched.code:
            error = refusal(fetched.code, leader)
            if error.kind is ProblemKind.DENIED:
                raise error
            self._lose([number], str(error))
        elif fetched.end is not None and fetched.end > self._next[number]:
            self._grown[number] = fetched.end

    def _lose(self, numbers: Iterable[int], reason: str) -> None:
        """Mark partitions as unreadable for now."""
        news = [number for number in numbers if number not in self._lost]
        self._lost.update(news)
        if news:
            self._on_note(f"{partition_list(news)}: {reason.removesuffix('.')}; trying again")

    async def _find(self) -> None:
        """Look up leaders and start offsets once, after a pause if this is a retry.

        Raises:
            BrokerError: no broker has answered for too long, or access is denied.
        """
        deadline = self._client.deadline
        if self._pause_s:
            await self._client.sleep(min(self._pause_s, deadline.timeout_s / 4))
        try:
            await self._topic.refresh()
            self._reason = None
            self._client.forgive()
            await self._begin(self._waiting)
        except BrokerError as error:
            if error.kind is ProblemKind.DENIED:
                raise
            if deadline.left_s <= 0:
                # an attempt that started shortly before the limit fails only because of it
                reason = self._reason or error
                text = (
                    f"no broker has answered for {deadline.timeout_s:g} s; the last reason: "
                    f"{reason}"
                )
                raise BrokerError(ProblemKind.SILENT, text) from None
            self._reason = error
            self._client.forgive()
        is_found = not self._waiting
        self._pause_s = 0 if is_found else min(2 * self._pause_s or FIRST_BACKOFF_S, LAST_BACKOFF_S)

    async def _begin(self, numbers: Sequence[int]) -> None:
        """Start, or resume, the partitions whose leaders answer."""
        for start in dict.fromkeys(self._starts[number] for number in numbers):
            log_ranges, errors = await self._topic.ranges_from(
                [number for number in numbers if self._starts[number] == start],
                start,
                committed=self._committed,
            )
            for reason in dict.fromkeys(map(str, errors.values())):
                self._lose([n for n, error in errors.items() if str(error) == reason], reason)
            for number, (begin, _) in log_ranges.items():
                self._next.setdefault(number, begin)
            if back := sorted(self._lost & log_ranges.keys()):
                self._lost.difference_update(back)
                self._on_note(f"{partition_list(back)} can be read again")

    async def _forget(self) -> None:
        """After a pause, discard earlier requests, which may have timed out meanwhile."""
        for future, _ in self._asked.values():
            with suppress(BrokerError):
                await future
        self._asked.clear()
        self._client.forgive()
