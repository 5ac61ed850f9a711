"""Follow the live `__consumer_offsets`: its records as they come, for ever.

Each broker is asked, by a Fetch that it may keep for a while, which of its partitions have grown.
One that has is then copied to its present end, like a partition that is read once (`live_log`). So
the first range of a partition, with all that is there already, is read as a whole too.

Who reads committed records only is told of none whose transaction is not decided, as a consumer
is: a partition ends before the first such record.

A partition whose leader is gone is looked for until it has one. Waiting ends when no broker at all
has answered anything for the time that the client's deadline gives, whether they are silent or hang
up; that nothing new comes is no silence, for brokers answer all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.model.segment import Log
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import FIRST_BACKOFF_S, LAST_BACKOFF_S
from kgroup.source.broker.fetch import Fetched, fetch
from kgroup.source.broker.live_log import FetchedRange, LiveLog, Start, partition_list, refusal

WAIT_MS = 500
"""How long a broker keeps a request where there is nothing new."""
PAUSE_S = 1.0
"""Nobody listened for so long while rows were written, into a pipe that is full perhaps."""
PROBE_SIZE = 1
"""Bytes that are asked for: it is where the log ends that is wanted."""


class FollowedLogs:
    """Some partitions of the topic, and what they become; implements `Logs`, without an end."""

    def __init__(
        self,
        topic: LiveLog,
        numbers: Sequence[int],
        start: Start,
        *,
        committed: bool,
        on_note: Callable[[str], None],
        pulse: Callable[[], None],
    ) -> None:
        """Ask nothing yet.

        With `committed` only decided records are wanted. `on_note` is called with what a user
        should know of brokers that go and come, `pulse` now and then while nothing comes.
        """
        self.log_count = self.file_count = len(numbers)
        self.is_sought = True
        self._topic = topic
        self._client = topic.client
        self._committed = committed
        self._on_note = on_note
        self._pulse = pulse
        self._starts = dict.fromkeys(numbers, start)
        self._next: dict[int, int] = {}  # partition -> offset to go on at, where it is begun
        self._grown: dict[int, int] = {}  # partition -> where it ends, in the order of the news
        self._lost: set[int] = set()  # partitions that cannot be read now
        self._asked: dict[int, tuple[Any, dict[int, int]]] = {}  # leader -> answer to come, of what
        self._search: Any = None
        self._pause_s = 0.0
        self._reason: BrokerError | None = None  # why the last look for leaders failed
        self._is_over = False
        # A silent broker must leave time to hear others.
        self._client.deadline.patience_s = self._client.deadline.timeout_s / 3

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield a log for each range by which a partition has grown.

        Raises:
            BrokerError: no broker has answered for too long, or the topic may not be read.
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
        """Wait for the next range; None where all is over, and connections are being closed."""
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
        """Ask brokers for news, and take in what has come."""
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
                    for number, found in future.value.items():
                        self._hear(leader, number, found)

    @property
    def _waiting(self) -> list[int]:
        """Partitions that are to be looked for."""
        leaders = self._topic.leaders
        return [
            n
            for n in self._starts
            if n in self._lost or n not in self._next or leaders.get(n) is None
        ]

    def _by_leader(self) -> dict[int, dict[int, int]]:
        """Put together what each broker is to be asked for."""
        by_leader: dict[int, dict[int, int]] = {}
        for number, offset in self._next.items():
            leader = self._topic.leaders.get(number)
            if leader is not None and number not in self._lost:
                by_leader.setdefault(leader, {})[number] = offset
        return by_leader

    async def _probe(self, leader: int, offsets: dict[int, int]) -> dict[int, Fetched]:
        found = await fetch(
            self._client,
            leader,
            {(OFFSETS_TOPIC, number): offset for number, offset in offsets.items()},
            PROBE_SIZE,
            wait_ms=min(WAIT_MS, int(500 * self._client.deadline.patience_s)),
            committed=self._committed,
        )
        return {number: fetched for (_, number), fetched in found.items()}

    def _hear(self, leader: int, number: int, found: Fetched) -> None:
        """Take in what a broker says of a partition."""
        if found.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = self._next.pop(number)
            self._starts[number] = Start(offset)
            self._lose([number], f"there is no offset {offset} any more")
        elif found.code:
            error = refusal(found.code, leader)
            if error.kind is ProblemKind.DENIED:
                raise error
            self._lose([number], str(error))
        elif found.end is not None and found.end > self._next[number]:
            self._grown[number] = found.end

    def _lose(self, numbers: Iterable[int], reason: str) -> None:
        """Take note that partitions cannot be read now."""
        news = [number for number in numbers if number not in self._lost]
        self._lost.update(news)
        if news:
            self._on_note(f"{partition_list(news)}: {reason.removesuffix('.')}; trying again")

    async def _find(self) -> None:
        """Look once for leaders, and for where to begin; after a pause, if again.

        Raises:
            BrokerError: no broker has answered for too long, or one says no.
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
                # an attempt that began when the time was nearly over only tells that it was
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
        """Begin, or go on, in those of the partitions whose leaders answer."""
        for start in dict.fromkeys(self._starts[number] for number in numbers):
            found, errors = await self._topic.ranges_from(
                [number for number in numbers if self._starts[number] == start],
                start,
                committed=self._committed,
            )
            for reason in dict.fromkeys(map(str, errors.values())):
                self._lose([n for n, error in errors.items() if str(error) == reason], reason)
            for number, (begin, _) in found.items():
                self._next.setdefault(number, begin)
            if back := sorted(self._lost & found.keys()):
                self._lost.difference_update(back)
                self._on_note(f"{partition_list(back)} can be read again")

    async def _forget(self) -> None:
        """After a pause: forget what was asked before it, for time may have run out meanwhile."""
        for future, _ in self._asked.values():
            with suppress(BrokerError):
                await future
        self._asked.clear()
        self._client.forgive()
