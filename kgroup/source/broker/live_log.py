"""The live `__consumer_offsets` as logs to decode: partition by partition, from each one's leader.

What is fetched goes into temporary files, and these through the same reading as the segments of a
log directory. A file is removed when the next one is asked for, so that memory is bounded whatever
the topic's size, and disk by a few partitions of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.log_range import LogRange
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.model.segment import Log, Segment, SegmentStatus
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import Backoff, BrokerClient
from kgroup.source.broker.connection.connection_error import BROKEN
from kgroup.source.broker.coordinator import is_missing
from kgroup.source.broker.error_code import LEADER_MOVES, error_name
from kgroup.source.broker.fetch import Fetched, fetch, sound_part
from kgroup.source.broker.leader import LeaderAnswers
from kgroup.source.broker.topic_offset import ask_log_ranges, ask_offsets_at

FETCH_SIZE = 4 << 20
LARGEST_FETCH = 64 << 20
AT_ONCE = 8
"""Partitions that are fetched side by side."""
_PASSING = BROKEN | {ProblemKind.MOVING}
"""Kinds of errors that are over when the partition has a leader again."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin in each partition; the latest of these.

    Attributes:
        offset: first that is wanted; None: the first that there is.
        time_ms: records before it are not wanted; a few of them may come all the same.
        at_end: whether nothing is wanted that is there already.
    """

    offset: int | None = None
    time_ms: int | None = None
    at_end: bool = False

    @property
    def is_sought(self) -> bool:
        """Whether anything is passed over."""
        return self != Start()


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """What was copied of a partition.

    Attributes:
        log: the copy.
        next: offset that follows it.
        problem: why it ends before it should.
    """

    log: Log
    next: int
    problem: BrokerError | None = None

    def remove(self) -> None:
        """Remove the copy."""
        for segment in self.log.segments:
            segment.path.unlink(missing_ok=True)


class LiveLog:
    """The topic, as one cluster has it.

    Attributes:
        client: connected.
        leaders: partition -> id of the broker that leads it, None where there is none now; empty
            where the cluster has no such topic.
        bytes_copied: so far.
    """

    def __init__(
        self,
        client: BrokerClient,
        folder: Path,
        on_progress: Callable[[LiveLog], None] = lambda log: None,
    ) -> None:
        """Ask where the partitions are; copies go into the folder.

        Raises:
            BrokerError: no broker answers, or the topic may not be described.
        """
        self.client = client
        self.leaders: Mapping[int, int | None] = {}
        self.bytes_copied = 0
        self._folder = folder
        self._on_progress = on_progress
        client.run(self.refresh)

    async def refresh(self) -> None:
        """Ask who leads the partitions now.

        Raises:
            BrokerError: no broker answers, or the topic may not be described.
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
        self, numbers: Collection[int], start: Start, *, committed: bool = False
    ) -> tuple[dict[int, tuple[int, int]], dict[int, BrokerError]]:
        """Find where to begin in partitions, and where they end; or why that is not known.

        Raises:
            BrokerError: no broker answers.
        """
        ats = {(OFFSETS_TOPIC, number) for number in numbers}
        ranges = await ask_log_ranges(self.client, ats, committed=committed)
        errors = self._errors(ranges)
        begins: Mapping[tuple[str, int], LogRange] = {}
        if start.time_ms is not None and start.time_ms >= 0:
            answers = await ask_offsets_at(self.client, ranges.found, start.time_ms)
            begins = answers.found
            errors |= self._errors(answers)
        found: dict[int, tuple[int, int]] = {}
        for at, within in ranges.found.items():
            first, end = within.start or 0, within.end or 0
            begin = end if start.at_end else max(first, start.offset or 0)
            if at in begins:
                sought = begins[at].start
                begin = max(begin, end if sought is None else sought)
            if at[1] not in errors:
                found[at[1]] = (min(begin, end), end)
        return dict(sorted(found.items())), errors

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
        self, number: int, start: int, end: int, *, committed: bool = False
    ) -> FetchedRange:
        """Copy the records of a partition from an offset to another; the last batch is whole.

        With `committed` only decided records; `end` is the last stable offset then, at most.
        """
        at, size = start, FETCH_SIZE
        leader = self.leaders.get(number)
        aborted: set[tuple[int, int]] = set()
        problem: BrokerError | None = None
        path = self._folder / f"{number}-{start}"
        with path.open("wb", buffering=0) as file:
            while at < end:
                try:
                    leader, found = await self._fetch(number, at, size, committed)
                except BrokerError as error:
                    problem = error
                    break
                if not found.data:
                    break  # compaction has taken the last records
                kept, following = sound_part(found, at, is_all=size >= LARGEST_FETCH)
                if kept == 0 and size < LARGEST_FETCH:
                    size *= 4
                    continue
                if kept == 0:
                    text = f"what follows offset {at - 1} is no batch that can be trusted"
                    problem = BrokerError(ProblemKind.UNUSABLE, text, leader)
                    kept, following = len(found.data), end
                file.write(memoryview(found.data)[:kept])
                aborted |= found.aborted
                self.bytes_copied += kept
                self._on_progress(self)
                at, size = following, FETCH_SIZE
        segment = Segment(
            path, number, start, SegmentStatus.LIVE, path.stat().st_size, broker=leader
        )
        log = Log((segment,), frozenset(aborted) if committed else None)
        return FetchedRange(log, at if problem else max(at, end), problem)

    async def _fetch(self, number: int, at: int, size: int, committed: bool) -> tuple[int, Fetched]:
        """Ask the leader of a partition, whoever that is by now; give its id and the answer.

        Raises:
            BrokerError: it does not answer, or with an error.
        """
        key = (OFFSETS_TOPIC, number)
        backoff = Backoff(self.client)
        while True:
            leader = self.leaders.get(number)
            try:
                if leader is None:
                    raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, None)
                found = await fetch(self.client, leader, {key: at}, size, committed=committed)
                if not found[key].code:
                    return leader, found[key]
                raise refusal(found[key].code, leader)
            except BrokerError as error:
                if error.kind not in _PASSING or not await backoff.wait(
                    f"the leader of {OFFSETS_TOPIC}-{number}"
                ):
                    raise
            await self.refresh()


class LiveLogs:
    """Some partitions of the topic as they are now; implements `Logs`."""

    def __init__(
        self, topic: LiveLog, numbers: Sequence[int], start: Start, end: int | None = None
    ) -> None:
        """Ask nothing yet; by default a partition is read to its end."""
        self.log_count = self.file_count = len(numbers)
        self.is_sought = start.is_sought
        self._topic = topic
        self._numbers = numbers
        self._start = start
        self._end = end

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield a log for each partition, and, at the end, what is missing."""
        client = self._topic.client
        try:
            found, errors = client.run(self._topic.ranges_from, self._numbers, self._start)
        except BrokerError as error:
            found, errors = {}, dict.fromkeys(self._numbers, error)
        numbers = list(found)
        for first in range(0, len(numbers), AT_ONCE):
            part = numbers[first : first + AT_ONCE]
            copies = client.run(client.gather, (self._copy(n, *found[n]) for n in part))
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
    """Make an error of the code that stood in the place of a partition's records."""
    name = error_name(code)
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:  # which every broker would say
        return BrokerError(
            ProblemKind.DENIED, f"{OFFSETS_TOPIC} may not be read: {name}; it needs READ on it"
        )
    who = "there is no leader:" if leader is None else f"broker {leader} says"
    return BrokerError(
        ProblemKind.MOVING if code in LEADER_MOVES else ProblemKind.DENIED, f"{who} {name}", leader
    )


def problems_of(errors: Mapping[int, BrokerError]) -> Iterator[Problem]:
    """Tell which partitions are missing, once for each reason."""
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
    """Name partitions: "partition 3 of __consumer_offsets"."""
    what = "partition" if len(numbers) == 1 else "partitions"
    return f"{what} {', '.join(map(str, numbers))} of {OFFSETS_TOPIC}"
