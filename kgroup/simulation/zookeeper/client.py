"""A ZooKeeper client as Kafka's consumer uses it.

It repeats requests after a lost connection, opens a new session after the old one expires, and
calls listeners one after another in a separate thread.

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
"""A routine that runs after a change; other events wait until it ends."""


class Client:
    """A connection to ZooKeeper, with one session after another.

    Args:
        process: the process that owns the client.
        name: name of the process in the timeline.
        cluster: the simulated cluster.
        timeout_ms: `zookeeper.session.timeout.ms`.
        on_new_session: listener that runs when a new session replaces an expired one.
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
        """Requests to send after the connection is restored."""
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
        """Lose the connection; the server's session timeout starts."""
        self._is_cut = True
        self._server.silent(self._session)

    def heal(self) -> None:
        """Restore the connection, with a new session if the old one has expired."""
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
        """Whether the session has expired."""
        return not self._session.is_alive

    def close(self) -> None:
        """Close the session; if the connection is lost, the session expires instead."""
        if not self._is_cut:
            self._server.close(self._session)

    # --- events ---------------------------------------------------------------------------------

    def subscribe(self, what: Watched, path: str, listener: Listener) -> Routine[None]:
        """Subscribe a listener to changes, and set the watches."""
        self._listeners[what, path] = listener
        yield from self.exists(path)
        if what is Watched.CHILDREN:
            yield from self.children(path)

    def listen(self, what: Watched, path: str, listener: Listener) -> None:
        """Subscribe a listener without requests, as if set up before the start."""
        self._listeners[what, path] = listener
        self._watch(Watched.DATA, path)
        self._watch(what, path)

    def hold(self, path: str, data: str) -> None:
        """Create an ephemeral node without a request, as if created before the start."""
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
        """Run the listeners of events, one after another."""
        while True:
            while not self._events:
                yield self._has_events.wait
            yield from self._events.popleft()()

    # --- requests -------------------------------------------------------------------------------

    def _ask(self, name: str, act: Callable[[], _T]) -> Routine[_T]:
        """Send a request and return the answer."""
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
        """Return whether a node exists; watch it if it has a listener."""

        def act() -> bool:
            if {(Watched.DATA, path), (Watched.CHILDREN, path)} & self._listeners.keys():
                self._watch(Watched.DATA, path)
            return self._server.exists(path)

        return (yield from self._ask("exists", act))

    def children(self, path: str) -> Routine[list[str]]:
        """Return the names of a node's children, empty if it does not exist; watch it likewise."""

        def act() -> list[str]:
            if not self._server.exists(path):
                return []
            if (Watched.CHILDREN, path) in self._listeners:
                self._watch(Watched.CHILDREN, path)
            return self._server.children(path)

        return (yield from self._ask("getChildren", act))

    def brokers(self) -> Routine[list[str]]:
        """Return the ids of all brokers (`ZkUtils.getAllBrokersInCluster`)."""
        broker_ids = []
        for name in sorted((yield from self.children(BROKERS))):
            if (yield from self.read(f"{BROKERS}/{name}")) is not None:
                broker_ids.append(name)
        return broker_ids

    def read(self, path: str) -> Routine[str | None]:
        """Return a node's data, None if it does not exist; watch it likewise."""

        def act() -> str | None:
            if not self._server.exists(path):
                return None
            if (Watched.DATA, path) in self._listeners:
                self._watch(Watched.DATA, path)
            return self._server.read(path)

        return (yield from self._ask("getData", act))

    def create_ephemeral(self, path: str, data: str) -> Routine[None]:
        """Create an ephemeral node.

        Raises:
            NodeExistsError: the node exists.
        """
        yield from self._ask("create", lambda: self._server.create(path, data, self._session))

    def write(self, path: str, data: str) -> Routine[None]:
        """Write a node's data; create the node if it does not exist."""
        yield from self._ask("setData", lambda: self._server.write(path, data))

    def delete(self, path: str) -> Routine[None]:
        """Delete a node; no effect if it does not exist."""

        def act() -> None:
            if self._server.exists(path):
                self._server.delete(path)

        yield from self._ask("delete", act)
