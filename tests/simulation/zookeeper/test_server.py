"""Nodes, sessions and watches, as ZooKeeper's documentation and 3.4's sources say."""

from __future__ import annotations

import pytest

from kgroup.simulation.clock import Clock
from kgroup.simulation.zookeeper.server import (
    NodeExistsError,
    NoNodeError,
    Server,
    Session,
    Watched,
)

TICK_MS = 2_000


class Watcher:
    def __init__(self) -> None:
        self.seen: list[tuple[Watched, str]] = []

    def __call__(self, what: Watched, path: str) -> None:
        self.seen.append((what, path))


def served(tick_ms: int = TICK_MS) -> tuple[Server, Clock, list[tuple[int, Session]]]:
    clock = Clock()
    expired: list[tuple[int, Session]] = []
    server = Server(clock, tick_ms, lambda session: expired.append((clock.now_ms, session)))
    return server, clock, expired


def test_nodes() -> None:
    server, _, _ = served()
    server.create("/a/b", "text")
    assert server.children("/a") == ["b"]
    assert server.read("/a/b") == "text"
    assert server.read("/a") == ""
    with pytest.raises(NodeExistsError):
        server.create("/a/b", "")
    server.write("/a/b", "other")
    server.write("/a/c", "new")
    assert {name: server.read(f"/a/{name}") for name in server.children("/a")} == {
        "b": "other",
        "c": "new",
    }
    server.delete("/a/b")
    assert not server.exists("/a/b")
    for missing in (server.read, server.delete, server.children):
        with pytest.raises(NoNodeError):
            missing("/a/b")


def test_children_come_in_the_order_of_javas_hash_set() -> None:
    """Hash codes are those of Java's strings; "Aa" and "BB" have the same."""
    server, _, _ = served()
    for name in ("2", "BB", "10", "Aa"):
        server.create(f"/x/{name}", "")
    buckets = {"10": 1567 ^ 1567 >> 16, "2": 50, "BB": 2112, "Aa": 2112}
    order = server.children("/x")
    assert [buckets[name] % 8 for name in order] == sorted(
        bucket % 8 for bucket in buckets.values()
    )
    assert order.index("BB") < order.index("Aa")


def test_ephemeral_nodes_go_with_the_session() -> None:
    server, clock, expired = served()
    session = server.connect(6_000, Watcher())
    server.create("/ids/c", "", session)
    server.create("/stays", "")
    server.close(session)
    assert not server.exists("/ids/c")
    assert server.exists("/ids")
    assert server.exists("/stays")
    server.silent(silent := server.connect(6_000, Watcher()))
    server.close(silent)
    clock.run(60_000)
    assert expired == []


@pytest.mark.parametrize(
    ("asked_ms", "silent_ms", "expired_ms"),
    [
        (6_000, 0, 8_000),  # at the first tick behind its timeout
        (6_000, 3_999, 10_000),  # the last ping was at 2,000: 8,000 is not behind it
        (6_000, 4_000, 12_000),
        (1_000, 0, 6_000),  # at least two ticks
        (100_000, 0, 42_000),  # at most twenty
    ],
)
def test_sessions_expire_on_a_tick(asked_ms: int, silent_ms: int, expired_ms: int) -> None:
    """`SessionTrackerImpl.roundToInterval` counts to the end of the tick; pings come each third."""
    server, clock, expired = served()
    session = server.connect(asked_ms, Watcher())
    clock.after(silent_ms, lambda: server.silent(session))
    clock.run(100_000)
    assert [(at, each is session) for at, each in expired] == [(expired_ms, True)]
    assert not session.is_alive


def test_a_session_of_a_millisecond_or_two() -> None:
    """Its third is less than the clock tells apart: it is pinged without a pause."""
    server, clock, expired = served(tick_ms=1)
    session = server.connect(1, Watcher())
    clock.after(10, lambda: server.silent(session))
    clock.run(100)
    assert expired == [(13, session)]  # the first tick behind two milliseconds


def test_who_is_heard_in_time_stays() -> None:
    server, clock, expired = served()
    session = server.connect(6_000, Watcher())
    server.silent(session)
    clock.run(7_999)
    server.heard(session)
    clock.run(100_000)
    assert expired == []
    server.silent(session)
    clock.run(200_000)
    assert len(expired) == 1


def test_who_is_silent_twice_expires_once_or_not_at_all() -> None:
    server, clock, expired = served()
    session = server.connect(6_000, Watcher())
    server.silent(session)
    clock.run(1_000)
    server.silent(session)
    server.heard(session)
    clock.run(100_000)
    assert expired == []
    server.close(session)
    server.silent(session)
    clock.run(200_000)
    assert expired == []


def test_watches_tell_once() -> None:
    server, _, _ = served()
    watcher = Watcher()
    session = server.connect(6_000, watcher)
    server.create("/a", "")
    server.watch(Watched.CHILDREN, "/a", session)
    server.create("/a/b", "")
    server.create("/a/c", "")
    assert watcher.seen == [(Watched.CHILDREN, "/a")]
    server.watch(Watched.CHILDREN, "/a", session)
    server.write("/a/b", "new")  # which changes no name
    assert len(watcher.seen) == 1
    server.delete("/a/b")
    assert len(watcher.seen) == 2
    server.watch(Watched.DATA, "/a", session)
    server.watch(Watched.DATA, "/new", session)
    server.write("/a", "x")
    server.create("/new", "")
    assert watcher.seen[2:] == [(Watched.DATA, "/a"), (Watched.DATA, "/new")]
    server.watch(Watched.CHILDREN, "/a/c", session)
    server.delete("/a/c")
    assert watcher.seen[4:] == [(Watched.CHILDREN, "/a/c")]  # the node's own, as it is gone


def test_watches_end_with_the_session() -> None:
    server, _, _ = served()
    watcher = Watcher()
    session = server.connect(6_000, watcher)
    server.create("/a", "")
    server.watch(Watched.CHILDREN, "/a", session)
    server.close(session)
    server.create("/a/b", "")
    server.watch(Watched.CHILDREN, "/a", session)
    server.create("/a/c", "")
    assert watcher.seen == []
