"""Handle signals during code that swallows or delays what their handlers raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGHUP, SIGINT, SIGTERM, getsignal, signal
from threading import current_thread, main_thread
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def kept_signals(wake: Callable[[], None] = lambda: None) -> Iterator[list[BaseException]]:
    """Yield a list that collects the exceptions of SIGINT, SIGTERM and SIGHUP handlers.

    The exceptions are not raised: kafka-python's loop takes an exception raised inside one of its
    tasks for that task's own error, so Ctrl-C would sometimes end a task instead of the program.
    The caller must check the list as soon as it can.

    Args:
        wake: called after each signal, to stop an event loop from waiting.
    """
    kept: list[BaseException] = []

    def keep(handler: Handler) -> Handler:
        def keep_error(signum: int, frame: FrameType | None) -> None:
            try:
                handler(signum, frame)
            except BaseException as error:
                kept.append(error)
                wake()

        return keep_error

    before: dict[int, Handler] = {}
    if current_thread() is main_thread():  # only the main thread gets signals and may set handlers
        for signum in (SIGINT, SIGTERM, SIGHUP):
            handler = getsignal(signum)
            if callable(handler):
                before[signum] = handler
                signal(signum, keep(handler))
    try:
        yield kept
    finally:
        for number, handler in before.items():
            signal(number, handler)


def interruptible(work: Callable[[], T]) -> T:
    """Run long library code in another thread and wait for it, so that signals are handled at once.

    Signal handlers run in the main thread, and only after a library call returns there; exceptions
    raised inside LLVM's calls of Python functions are lost. If a signal ends the wait, the other
    thread continues its work.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow import, not needed by kept_signals

    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result()
    finally:
        pool.shutdown(wait=False)
