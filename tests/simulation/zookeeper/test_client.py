"""A client of ZooKeeper: what it hears, and what is heard of it."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.simulation.clock import Clock, Process
from kgroup.simulation.zookeeper.client import Client
from kgroup.simulation.zookeeper.server import Watched
from kgroup.simulation.zookeeper.thread import Lock, Routine, Thread, sleep
from tests.simulation.zookeeper.world import World


def listener(told: list[str], name: str) -> Callable[[], Routine[None]]:
    def listen() -> Routine[None]:
        told.append(name)
        return
        yield

    return listen


def listening(world: World, told: list[str], timeout_ms: int = 6_000) -> tuple[Process, Client]:
    """Begin a client that listens to the topics."""
    process = Process(world.clock)
    client = Client(process, "a", world.cluster, timeout_ms, listener(told, "new session"))
    path = "/brokers/topics"
    Thread(process, client.subscribe(Watched.CHILDREN, path, listener(told, "topics")))
    return process, client


def test_a_new_session_tells_all_listeners_once() -> None:
    """`fireAllEvents`, behind the new session; events of the one before went with it."""
    world = World()
    told: list[str] = []
    process, client = listening(world, told)
    world.run(1_000)
    process.pause()
    client.cut()
    world.cluster.set_partitions({"new": 1})
    world.run(20_000)
    assert client.has_expired
    process.resume()
    client.heal()
    world.run(1_000)
    assert told == ["new session", "topics"]


def test_requests_count_as_heard() -> None:
    """`touchSession`; pings come each third of the timeout, here at 0, 3 and 6 seconds."""
    for asks, expired_ms in ((False, 14_000), (True, 16_000)):
        world = World()
        process, client = listening(world, [], 9_000)
        world.run(5_500)
        if asks:
            Thread(process, client.write("/x", ""))
        world.run(100)
        client.cut()
        world.run(20_000)
        (expired,) = world.events("session expired")
        assert expired.time_ms == expired_ms


# ---- threads of a simulated process


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
