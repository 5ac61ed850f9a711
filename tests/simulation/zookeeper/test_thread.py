"""Threads of a simulated process."""

from __future__ import annotations

from kgroup.simulation.clock import Clock, Process
from kgroup.simulation.zookeeper.thread import Lock, Routine, Thread, sleep


def test_what_is_there_at_once_is_not_waited_for() -> None:
    """However often: a fetcher may find room in a thousand queues, one after another."""
    process = Process(Clock())
    lock = Lock()
    told = []

    def run() -> Routine[None]:
        for _ in range(10_000):
            yield lock.acquire
            lock.release()
        told.append(process.clock.now_ms)
        yield sleep(process, 5)
        told.append(process.clock.now_ms)

    Thread(process, run())
    process.clock.run(100)
    assert told == [0, 5]
