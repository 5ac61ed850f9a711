"""Threads of a simulated process: generators that yield what they wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kgroup.simulation.clock import Process

_T = TypeVar("_T")

Wait = Callable[[Callable[[Any], None]], None]
"""A function that starts an operation, and calls back with its value or the exception to raise."""

Routine = Generator[Wait, Any, _T]
"""The code of a thread: it yields a `Wait`, and receives its value."""


class Thread:
    """A started thread.

    Args:
        process: the process; the thread runs while the process is running.
        routine: the code of the thread.
    """

    def __init__(self, process: Process, routine: Routine[None]) -> None:
        self._process = process
        self._routine = routine
        self._is_stopped = False
        process.after(0, lambda: self._go_on(None))

    def stop(self) -> None:
        """Stop the thread where it waits."""
        self._is_stopped = True

    def _go_on(self, value: object) -> None:
        """Run the thread until it has to wait."""
        over = [value]
        while over and not self._is_stopped:
            value = over.pop()
            try:
                if isinstance(value, Exception):
                    wait = self._routine.throw(value)
                else:
                    wait = self._routine.send(value)
            except StopIteration:
                return
            over = self._begin(wait)

    def _begin(self, wait: Wait) -> list[Any]:
        """Start to wait; return the value if it is already available."""
        over: list[Any] = []
        has_begun = False

        def end(value: object) -> None:
            if has_begun:
                self._process.run(lambda: self._go_on(value))
            else:
                over.append(value)

        wait(end)
        has_begun = True
        return over


class Lock:
    """A fair lock: the thread that has waited longest gets it next."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[Callable[[Any], None]] = deque()

    def acquire(self, on_held: Callable[[Any], None]) -> None:
        """Acquire the lock: a `Wait`."""
        if self._is_held:
            self._waiting.append(on_held)
        else:
            self._is_held = True
            on_held(None)

    def release(self) -> None:
        """Release the lock, to the next waiting thread."""
        if self._waiting:
            self._waiting.popleft()(None)
        else:
            self._is_held = False


class ConditionVariable:
    """A condition variable.

    Args:
        lock: lock of the waiting threads, released while they wait.
    """

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock
        self._waiting: list[Callable[[Any], None]] = []

    def wait(self, on_signal: Callable[[Any], None]) -> None:
        """Wait for the next signal: a `Wait`."""
        self._waiting.append(on_signal)
        if self._lock is not None:
            self._lock.release()

    def signal(self) -> None:
        """Wake all waiting threads; with a lock they continue one after another."""
        waiting, self._waiting = self._waiting, []
        for on_signal in waiting:
            if self._lock is None:
                on_signal(None)
            else:
                self._lock.acquire(on_signal)


def sleep(process: Process, duration_ms: int) -> Wait:
    """Wait for this duration."""

    def begin(on_awake: Callable[[Any], None]) -> None:
        process.after(duration_ms, lambda: on_awake(None))

    return begin
