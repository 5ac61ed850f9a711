"""A client of ZooKeeper as Kafka's consumer uses it.

It asks again what a broken connection has cut off, connects anew when its session has expired, and
tells listeners one after another, in a thread of its own, what has changed.

Source: `org.I0Itec.zkclient.ZkClient` 0.3, and `kafka.utils.ZkUtils` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from kgroup.simulation.clock import Process
from kgroup.simulation.zookeeper.cluster import BROKERS, ZookeeperCluster
from kgroup.simulation.zookeeper.server import NodeExistsError, NoNodeError, Session, Watched
from kgroup.simulation.zookeeper.thread import ConditionVariable, Routine, Thread

_T = TypeVar("_T")
Listener = Callable[[], Routine[None]]
"""What is done when something has changed; other events wait until it is over."""


class Client:
    """A connection to ZooKeeper, with sessions one after another.

    Args:
        process: whose it is.
        name: of the process, in the timeline.
        cluster: around it.
        timeout_ms: `zookeeper.session.timeout.ms`.
        on_new_session: what is done when a session has expired and another one has begun.
    """

    def __init__(
        self,
        process: Process,
        name: str,
        cluster: ZookeeperCluster,
        timeout_ms: int,
        on_new_session: Listener,
    ) -> None:
        self._process = process
        self._name = name
        self._cluster = cluster
        self._server = cluster.server
        self._timeout_ms = timeout_ms
        self._on_new_session = on_new_session
        self._is_cut = False
        self._offline: list[Callable[[], None]] = []
        """What is sent when the connection is there again."""
        self._listeners: dict[tuple[Watched, str], Listener] = {}
        self._events: deque[Listener] = deque()
        self._has_events = ConditionVariable()
        self._session = self._connect()
        Thread(process, self._tell())

    # --- the session ----------------------------------------------------------------------------

    def _connect(self) -> Session:
        session = self._server.connect(self._timeout_ms, self._on_change)
        self._cluster.names[session] = self._name
        return session

    def cut(self) -> None:
        """Lose the connection; the server misses the client from now on."""
        self._is_cut = True
        self._server.silent(self._session)

    def heal(self) -> None:
        """Have it again; with the same session, or, where that has expired, with another."""
        self._is_cut = False
        if self.has_expired:
            self._session = self._connect()
            self._events.append(self._on_new_session)
            for at in self._listeners:
                self._fire(at)
        self._server.heard(self._session)
        offline, self._offline = self._offline, []
        for send in offline:
            send()

    @property
    def has_expired(self) -> bool:
        """Whether it must connect anew."""
        return not self._session.is_alive

    def close(self) -> None:
        """End the session; it expires where the server cannot be told."""
        if not self._is_cut:
            self._server.close(self._session)

    # --- events ---------------------------------------------------------------------------------

    def subscribe(self, what: Watched, path: str, listener: Listener) -> Routine[None]:
        """Tell a listener from now on when something has changed."""
        self._listeners[what, path] = listener
        yield from self.exists(path)
        if what is Watched.CHILDREN:
            yield from self.children(path)

    def listen(self, what: Watched, path: str, listener: Listener) -> None:
        """Be a client that has asked for that before."""
        self._listeners[what, path] = listener
        self._watch(Watched.DATA, path)
        self._watch(what, path)

    def hold(self, path: str, data: str) -> None:
        """Be a client that has created a node before, which goes with its session."""
        self._server.create(path, data, self._session)

    def _on_change(self, what: Watched, path: str) -> None:
        session = self._session

        def arrive() -> None:
            if self._session is session and session.is_alive:
                self._fire((what, path))

        if (what, path) in self._listeners or (Watched.CHILDREN, path) in self._listeners:
            self._process.after(self._cluster.delay(), arrive)

    def _fire(self, at: tuple[Watched, str]) -> None:
        what, path = at
        if at not in self._listeners:
            what = Watched.CHILDREN
        listener = self._listeners[what, path]

        def event() -> Routine[None]:
            yield from self.exists(path)  # sets the watch again
            if what is Watched.CHILDREN:
                yield from self.children(path)
            else:
                yield from self.read(path)
            yield from listener()

        self._events.append(event)
        self._has_events.signal()

    def _tell(self) -> Routine[None]:
        """Run what listeners do, one after another."""
        while True:
            while not self._events:
                yield self._has_events.wait
            yield from self._events.popleft()()

    # --- requests -------------------------------------------------------------------------------

    def _ask(self, name: str, act: Callable[[], _T]) -> Routine[_T]:
        """Send a request and wait for the answer."""
        answer: _T = yield lambda on_answer: self._send(name, act, on_answer)
        return answer

    def _send(self, name: str, act: Callable[[], object], on_answer: Callable[[Any], None]) -> None:
        def again() -> None:
            self._send(name, act, on_answer)

        def arrive() -> None:
            if self._is_cut or not self._session.is_alive:
                self._offline.append(again)
                return
            self._server.heard(self._session)
            self._cluster.timeline.answered(name)
            try:
                answer = act()
            except (NoNodeError, NodeExistsError) as error:
                answer = error
            self._cluster.clock.after(self._cluster.delay(), lambda: on_answer(answer))

        if self._is_cut:
            self._offline.append(again)
        else:
            self._cluster.clock.after(self._cluster.delay(), arrive)

    def _watch(self, what: Watched, path: str) -> None:
        self._server.watch(what, path, self._session)

    def exists(self, path: str) -> Routine[bool]:
        """Return whether there is a node; watch it if anybody listens."""

        def act() -> bool:
            if {(Watched.DATA, path), (Watched.CHILDREN, path)} & self._listeners.keys():
                self._watch(Watched.DATA, path)
            return self._server.exists(path)

        return (yield from self._ask("exists", act))

    def children(self, path: str) -> Routine[list[str]]:
        """Return the names of a node's children, none where it is not there; watch likewise."""

        def act() -> list[str]:
            if not self._server.exists(path):
                return []
            if (Watched.CHILDREN, path) in self._listeners:
                self._watch(Watched.CHILDREN, path)
            return self._server.children(path)

        return (yield from self._ask("getChildren", act))

    def brokers(self) -> Routine[list[str]]:
        """Read which brokers there are (`ZkUtils.getAllBrokersInCluster`)."""
        found = []
        for name in sorted((yield from self.children(BROKERS))):
            if (yield from self.read(f"{BROKERS}/{name}")) is not None:
                found.append(name)
        return found

    def read(self, path: str) -> Routine[str | None]:
        """Return a node's data, None where it is not there; watch likewise."""

        def act() -> str | None:
            if not self._server.exists(path):
                return None
            if (Watched.DATA, path) in self._listeners:
                self._watch(Watched.DATA, path)
            return self._server.read(path)

        return (yield from self._ask("getData", act))

    def create_ephemeral(self, path: str, data: str) -> Routine[None]:
        """Create a node that goes with the session.

        Raises:
            NodeExistsError: it is there.
        """
        yield from self._ask("create", lambda: self._server.create(path, data, self._session))

    def write(self, path: str, data: str) -> Routine[None]:
        """Write a node's data; create it where it is not there."""
        yield from self._ask("setData", lambda: self._server.write(path, data))

    def delete(self, path: str) -> Routine[None]:
        """Delete a node; one that is gone is no error."""

        def act() -> None:
            if self._server.exists(path):
                self._server.delete(path)

        yield from self._ask("delete", act)
