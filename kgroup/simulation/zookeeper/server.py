"""A ZooKeeper ensemble: nodes, sessions and watches.

Source: `DataTree`, `SessionTrackerImpl` and `ZooKeeperServer` of ZooKeeper 3.4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from kgroup.assignor.java.java_hash import hash_order
from kgroup.simulation.clock import Clock, Timer

_CHILDREN_CAPACITY = 8
"""Initial capacity of the hash set with the names of a node's children (`DataNode`)."""


class NoNodeError(Exception):
    """The node does not exist."""


class NodeExistsError(Exception):
    """The node already exists."""


class Watched(Enum):
    """Kinds of watches."""

    DATA = auto()
    CHILDREN = auto()


@dataclass(slots=True, eq=False)
class Session:
    """A client's session.

    Attributes:
        timeout_ms: session timeout, in ms.
        begun_ms: start of the session.
        heard_ms: time of the last request; the client also pings three times per timeout.
        on_change: called with the path of a watched node that has changed.
        is_alive: the session has neither expired nor been closed.
    """

    timeout_ms: int
    begun_ms: int
    heard_ms: int
    on_change: Callable[[Watched, str], None]
    is_alive: bool = True
    expiry: Timer | None = None


@dataclass(slots=True)
class _Node:
    data: str
    owner: Session | None
    children: dict[str, None] = field(default_factory=dict)


class Server:
    """All nodes below Kafka's chroot, by path.

    Args:
        clock: the clock of the simulation.
        tick_ms: `tickTime`: session timeouts are 2 to 20 ticks, and sessions expire on a tick.
        on_expired: called when a session expires.
    """

    def __init__(self, clock: Clock, tick_ms: int, on_expired: Callable[[Session], None]) -> None:
        self._clock = clock
        self._tick_ms = tick_ms
        self._on_expired = on_expired
        self._nodes: dict[str, _Node] = {"": _Node("", None)}
        self._watches: dict[tuple[Watched, str], dict[Session, None]] = {}

    # --- sessions -------------------------------------------------------------------------------

    def connect(self, timeout_ms: int, on_change: Callable[[Watched, str], None]) -> Session:
        """Start a session, with the timeout limited to what the server allows."""
        now_ms = self._clock.now_ms
        allowed_ms = min(max(timeout_ms, 2 * self._tick_ms), 20 * self._tick_ms)
        return Session(allowed_ms, now_ms, now_ms, on_change)

    def heard(self, session: Session) -> None:
        """Cancel the expiration of a session: the client is connected."""
        session.heard_ms = self._clock.now_ms
        if session.expiry is not None:
            session.expiry.cancel()
            session.expiry = None

    def silent(self, session: Session) -> None:
        """Schedule the expiration of a session: the client is disconnected."""
        if session.expiry is not None or not session.is_alive:
            return
        now_ms, ping_ms = self._clock.now_ms, max(session.timeout_ms // 3, 1)
        pinged_ms = now_ms - (now_ms - session.begun_ms) % ping_ms
        due_ms = max(session.heard_ms, pinged_ms) + session.timeout_ms
        due_ms = (due_ms // self._tick_ms + 1) * self._tick_ms
        session.expiry = self._clock.after(due_ms - now_ms, lambda: self._expire(session))

    def _expire(self, session: Session) -> None:
        self._on_expired(session)
        self.close(session)

    def close(self, session: Session) -> None:
        """End a session and delete its ephemeral nodes, in the order of their creation."""
        session.is_alive = False
        if session.expiry is not None:
            session.expiry.cancel()
        for watching in self._watches.values():
            watching.pop(session, None)
        for path in [path for path, node in self._nodes.items() if node.owner is session]:
            self.delete(path)

    # --- nodes ----------------------------------------------------------------------------------

    def create(self, path: str, data: str, owner: Session | None = None) -> None:
        """Create a node and its missing parents.

        Args:
            path: path with a leading slash.
            data: data of the node.
            owner: session of an ephemeral node; None for a persistent one.

        Raises:
            NodeExistsError: the node exists.
        """
        if path in self._nodes:
            raise NodeExistsError(path)
        parent, _, name = path.rpartition("/")
        if parent not in self._nodes:
            self.create(parent, "")
        self._nodes[path] = _Node(data, owner)
        self._nodes[parent].children[name] = None
        self._changed(Watched.DATA, path)
        self._changed(Watched.CHILDREN, parent)

    def delete(self, path: str) -> None:
        """Delete a node.

        Raises:
            NoNodeError: the node does not exist.
        """
        self.read(path)
        del self._nodes[path]
        parent, _, name = path.rpartition("/")
        del self._nodes[parent].children[name]
        self._changed(Watched.DATA, path)
        self._changed(Watched.CHILDREN, path)
        self._changed(Watched.CHILDREN, parent)

    def write(self, path: str, data: str) -> None:
        """Write a node's data; create the node if it does not exist."""
        if path not in self._nodes:
            self.create(path, data)
            return
        self._nodes[path].data = data
        self._changed(Watched.DATA, path)

    def read(self, path: str) -> str:
        """Return a node's data.

        Raises:
            NoNodeError: the node does not exist.
        """
        if path not in self._nodes:
            raise NoNodeError(path)
        return self._nodes[path].data

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, in the order of the server's hash set.

        Raises:
            NoNodeError: the node does not exist.
        """
        self.read(path)
        return hash_order(self._nodes[path].children, _CHILDREN_CAPACITY)

    def exists(self, path: str) -> bool:
        """Return whether a node exists."""
        return path in self._nodes

    def watch(self, what: Watched, path: str, session: Session) -> None:
        """Set a one-time watch of a node."""
        if session.is_alive:
            self._watches.setdefault((what, path), {})[session] = None

    def _changed(self, what: Watched, path: str) -> None:
        for session in self._watches.pop((what, path), ()):
            session.on_change(what, path)
