"""Virtual time, and processes that run on it: what happens when, and nothing happens between."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field


class Process:
    """A running program.

    Args:
        clock: the time.

    Attributes:
        is_running: until it has ended.
        is_paused: whether it stands still, with all threads.
        paused_until_ms: how long at least, if nobody resumes it.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.is_running = True
        self.is_paused = False
        self.paused_until_ms = 0
        self._deferred: list[Callable[[], None]] = []
        self._successors: list[Callable[[], None]] = []

    def end(self) -> None:
        """Run no more."""
        self.is_running = False
        for action in self._successors:
            action()

    def when_ended(self, action: Callable[[], None]) -> None:
        """Do something as soon as the program has ended."""
        if self.is_running:
            self._successors.append(action)
        else:
            action()

    def pause(self, duration_ms: int | None = None) -> None:
        """Stand still, with all threads: a long garbage collection, a suspended machine.

        Of pauses that overlap the one counts that ends last; without a duration it has no end.
        """
        until_ms = sys.maxsize if duration_ms is None else self.clock.now_ms + duration_ms
        self.paused_until_ms = max(self.paused_until_ms, until_ms)
        self.is_paused = True
        self.standing_changed()

    def resume(self) -> None:
        """Go on, and first do what would have been done meanwhile."""
        self.is_paused, self.paused_until_ms = False, 0
        self.standing_changed()
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            self.run(action)

    def standing_changed(self) -> None:
        """Tell which partitions are not read now, as the program stands still or is too busy."""

    def run(self, action: Callable[[], None]) -> None:
        """Do something now; behind a pause, and not at all where the program has ended."""
        if self.is_paused:
            self._deferred.append(action)
        elif self.is_running:
            action()

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Do something later."""
        return self.clock.after(delay_ms, lambda: self.run(action))


@dataclass(slots=True, eq=False)
class Timer:
    """Something that is to happen once.

    Attributes:
        due_ms: when.
        action: what; None when it has happened, or was cancelled.
    """

    due_ms: int
    action: Callable[[], None] | None

    def cancel(self) -> None:
        """See that it does not happen; too late is no error."""
        self.action = None


@dataclass(slots=True)
class Clock:
    """Milliseconds of a world in which only what was scheduled happens.

    At one time it happens in the order in which it was scheduled.

    Attributes:
        now_ms: the present.
    """

    now_ms: int = 0
    _queue: list[tuple[int, int, Timer]] = field(default_factory=list)
    _count: int = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Schedule something; what would be in the past happens next."""
        timer = Timer(self.now_ms + max(delay_ms, 0), action)
        self._count += 1
        heapq.heappush(self._queue, (timer.due_ms, self._count, timer))
        return timer

    @property
    def next_ms(self) -> int | None:
        """When something happens next; None: nothing is to happen."""
        while self._queue and self._queue[0][2].action is None:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def step(self) -> bool:
        """Let the next thing happen; tell whether there was one."""
        if (due_ms := self.next_ms) is None:
            return False
        self.now_ms = due_ms
        timer = heapq.heappop(self._queue)[2]
        action, timer.action = timer.action, None
        assert action is not None
        action()
        return True

    def run(self, until_ms: int) -> None:
        """Let everything happen that is due until then, and let it be then."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            due_ms, _, timer = heapq.heappop(queue)
            if (action := timer.action) is not None:
                self.now_ms, timer.action = due_ms, None
                action()
        self.now_ms = max(self.now_ms, until_ms)
