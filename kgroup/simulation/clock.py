"""A virtual clock, and processes that run on it."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field


class Process:
    """A running program.

    Args:
        clock: the clock of the simulation.

    Attributes:
        is_running: the program has not ended.
        is_paused: the program is paused, with all its threads.
        paused_until_ms: end of the pause unless `resume` is called before.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.is_running = True
        self.is_paused = False
        self.paused_until_ms = 0
        self._deferred: list[Callable[[], None]] = []
        self._successors: list[Callable[[], None]] = []

    def end(self) -> None:
        """End the program."""
        self.is_running = False
        for action in self._successors:
            action()

    def when_ended(self, action: Callable[[], None]) -> None:
        """Run an action when the program ends, or now if it has ended."""
        if self.is_running:
            self._successors.append(action)
        else:
            action()

    def pause(self, duration_ms: int | None = None) -> None:
        """Pause the program with all threads, as a long garbage collection does.

        Of overlapping pauses, the one that ends last counts; a pause without a duration has no end.
        """
        until_ms = sys.maxsize if duration_ms is None else self.clock.now_ms + duration_ms
        self.paused_until_ms = max(self.paused_until_ms, until_ms)
        self.is_paused = True
        self.standing_changed()

    def resume(self) -> None:
        """Resume the program, and run the actions that were deferred during the pause."""
        self.is_paused, self.paused_until_ms = False, 0
        self.standing_changed()
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            self.run(action)

    def standing_changed(self) -> None:
        """Record which partitions are not being read because the program is paused or too busy."""

    def run(self, action: Callable[[], None]) -> None:
        """Run an action now, after the current pause, or not at all if the program has ended."""
        if self.is_paused:
            self._deferred.append(action)
        elif self.is_running:
            action()

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Run an action after a delay."""
        return self.clock.after(delay_ms, lambda: self.run(action))


@dataclass(slots=True, eq=False)
class Timer:
    """An action that runs once at a given time.

    Attributes:
        due_ms: time of the action.
        action: the action; None after it ran or was cancelled.
    """

    due_ms: int
    action: Callable[[], None] | None

    def cancel(self) -> None:
        """Cancel the action; no effect if it has run."""
        self.action = None


@dataclass(slots=True)
class Clock:
    """A clock in milliseconds that runs scheduled actions.

    Actions of the same time run in the order in which they were scheduled.

    Attributes:
        now_ms: current time.
    """

    now_ms: int = 0
    _queue: list[tuple[int, int, Timer]] = field(default_factory=list)
    _count: int = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Schedule an action; a negative delay counts as 0."""
        timer = Timer(self.now_ms + max(delay_ms, 0), action)
        self._count += 1
        heapq.heappush(self._queue, (timer.due_ms, self._count, timer))
        return timer

    @property
    def next_ms(self) -> int | None:
        """Time of the next action; None if no action is scheduled."""
        while self._queue and self._queue[0][2].action is None:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def step(self) -> bool:
        """Run the next action; return whether there was one."""
        if (due_ms := self.next_ms) is None:
            return False
        self.now_ms = due_ms
        timer = heapq.heappop(self._queue)[2]
        action, timer.action = timer.action, None
        assert action is not None
        action()
        return True

    def run(self, until_ms: int) -> None:
        """Run all actions due until a time, and set the clock to that time."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            due_ms, _, timer = heapq.heappop(queue)
            if (action := timer.action) is not None:
                self.now_ms, timer.action = due_ms, None
                action()
        self.now_ms = max(self.now_ms, until_ms)
