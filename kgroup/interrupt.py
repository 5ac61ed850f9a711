"""Signals that come while something runs that loses what their handlers raise, or holds them up."""

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
    """Yield a list of what the handlers of SIGINT, SIGTERM and SIGHUP raise, instead of raising it.

    kafka-python's loop takes whatever is raised inside one of its tasks for that task's own error,
    so that Ctrl-C would now and then end a task instead of the program. Who asks for the list looks
    into it as soon as it can.

    Args:
        wake: called with each signal, so that an event loop does not wait any longer.
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
    if current_thread() is main_thread():  # no other gets signals, or may say what to do with them
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
    """Do something that is long in a library, and wait for it so that signals are heeded at once.

    Their handlers run in the main thread, and not before a call of a library returns there; what
    they raise inside LLVM's calls of Python functions is lost. So another thread does the work. It
    goes on with it where a signal ends the wait.
    """
    from concurrent.futures import ThreadPoolExecutor  # who only keeps signals needs none

    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result()
    finally:
        pool.shutdown(wait=False)
