"""A proxy before ZooKeeper that sees every request of a client.

    with ZookeeperProxy(zookeeper.port) as proxy:
        client(hosts=proxy.connect)
    proxy.opcodes

A frame on the wire is int32 size, then the message. The first one of a connection opens a session
and has no opcode; a later one begins with int32 xid, int32 opcode.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Thread

from tests.broker.process import HOST

READS = {4: "getData", 12: "getChildren2", 100: "auth", -11: "closeSession"}
"""Opcodes that what only reads may send: none changes a node (`org.apache.zookeeper.ZooDefs`)."""

WRITES = {1: "create", 2: "delete", 5: "setData", 14: "multi"}
"""Opcodes that change nodes; none is for a command that was not told to change anything."""
READS_OF_WRITERS = {6: "getACL"}
"""What those ask besides who write: what ACL a new node shall have."""


class ZookeeperProxy:
    """A context manager that passes on what comes and goes.

    Attributes:
        opcodes: of all requests so far.
        writes: those requests of them that change nodes, from the xid on.
        watches: requests that asked for a watch, by path.
        sessions: how many were opened.
        before: what is called before a request of an opcode is passed on.
    """

    def __init__(self, port: int) -> None:
        self.opcodes: list[int] = []
        self.writes: list[bytes] = []
        self.watches: list[bytes] = []
        self.sessions = 0
        self.before: dict[int, Callable[[], object]] = {}
        self._port = port
        self._listener = socket.create_server((HOST, 0))
        self._open: list[socket.socket] = []

    @property
    def connect(self) -> str:
        """`host:port` of the proxy."""
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> ZookeeperProxy:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_connections()

    def break_connections(self) -> None:
        """Close all that are open."""
        for end in list(self._open):  # whoever comes again meanwhile may stay
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((HOST, self._port), timeout=10)
            server.settimeout(None)
            self._open += (client, server)
            Thread(target=self._requests, args=(client, server), daemon=True).start()
            Thread(target=self._answers, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        is_first = True
        with suppress(OSError), client.makefile("rb") as frames:
            while len(head := frames.read(4)) == 4:
                message = frames.read(struct.unpack(">i", head)[0])
                if is_first:
                    self.sessions += 1
                else:
                    self._note(message)
                is_first = False
                server.sendall(head + message)
        _shut(client, server)

    def _note(self, message: bytes) -> None:
        _, opcode = struct.unpack_from(">ii", message)
        self.opcodes.append(opcode)
        if opcode in WRITES:
            self.writes.append(message)
        self.before.get(opcode, lambda: None)()
        if opcode in (4, 12) and message[-1]:  # string path, bool watch
            self.watches.append(message[12:-1])

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
        _shut(client, server)


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def groups_written(writes: Iterable[bytes]) -> set[str]:
    """Tell which groups requests change nodes of; a path elsewhere is given whole.

    A request is int32 xid, int32 opcode, fields. A multi has int32 opcode, byte done, int32 error
    before the fields of each operation, and ends with one that is done.
    """
    groups = set()
    for message in writes:
        _, opcode = struct.unpack_from(">ii", message)
        for path in _paths(message[8:]) if WRITES[opcode] == "multi" else [_text(message, 8)[0]]:
            _, is_consumers, name = path.partition("/consumers/")
            groups.add(name.partition("/")[0] if is_consumers else path)
    return groups


def _paths(operations: bytes) -> Iterator[str]:
    """Name the nodes of a multi's operations."""
    at = 0
    while True:
        opcode, is_done, _ = struct.unpack_from(">ibi", operations, at)
        if is_done:
            return
        path, at = _text(operations, at + 9)
        yield path
        name = WRITES.get(opcode)
        if name in ("create", "setData"):
            _, at = _text(operations, at)  # the data
        if name == "create":
            (count,) = struct.unpack_from(">i", operations, at)
            at += 4
            for _ in range(count):
                _, at = _text(operations, at + 4)  # scheme, behind what is permitted
                _, at = _text(operations, at)  # id
        at += 4  # flags or version


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Read an int32 length, -1 for none, and so many bytes; return where they end."""
    (length,) = struct.unpack_from(">i", data, at)
    end = at + 4 + max(length, 0)
    return data[at + 4 : end].decode(), end
