"""A process: what it does later happens if it still runs then, and does not stand still."""

from __future__ import annotations

import sys
from collections.abc import Callable

from kgroup.simulation.clock import Clock, Timer


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
