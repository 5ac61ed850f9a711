"""Virtual time: what is to happen when, and nothing happens between."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field


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
