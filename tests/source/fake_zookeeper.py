"""A ZooKeeper server that has the nodes of a tree and behaves as a test tells it.

What real ones do is tested in `tests/broker/test_live_zookeeper.py`; this one can break off in the
middle and insist on having many questions at once.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kgroup.model.zookeeper import Stat, ZookeeperTree

Operation = tuple[Any, ...]
"""("create", path, data), ("delete", path, version) or ("set", path, data, version)."""

HOST = "127.0.0.1"
GET_DATA, GET_ACL, GET_CHILDREN, MULTI, AUTH, CLOSE = 4, 6, 12, 14, 100, -11
CREATE, DELETE, SET_DATA = 1, 2, 5
EVERYTHING = 31
"""All permissions of an ACL."""
NO_NODE, NO_AUTH, AUTH_FAILED = -101, -102, -115


class FakeZookeeper:
    """What is asked and how it is answered.

    Attributes:
        tree: the nodes.
        denied: paths that need `secret`.
        secret: ``user:password`` that is accepted.
        waits_for: gives no answer before so many requests are there.
        notices: sends a notification, which nobody asked for, before each answer.
        wrong_xid: answers as if to another request.
        breaks_after: closes each of the first connections after so many answers; one a connection.
        transacts: gives the error code of each operation of a transaction, all 0 where it is done;
            None breaks the connection in the place of an answer. No node is changed by it.
        opcodes: of all requests.
        asked: opcode and path of those about nodes.
        sessions: how many were opened.
    """

    def __init__(self, tree: ZookeeperTree) -> None:
        self.tree = tree
        self.denied: Collection[str] = ()
        self.secret: str | None = None
        self.waits_for = 1
        self.notices = False
        self.wrong_xid = False
        self.breaks_after: list[int] = []
        self.transacts: Callable[[list[Operation]], Sequence[int] | None] = lambda _: None
        self.opcodes: list[int] = []
        self.asked: list[tuple[int, str]] = []
        self.sessions = 0
        self._children: dict[str, list[str]] = {path: [] for path in tree.nodes}
        for path in tree.nodes:
            above, _, name = path.rpartition("/")
            if name:
                self._children.setdefault(above or "/", []).append(name)
        self._listener = socket.create_server((HOST, 0))
        self._open: list[socket.socket] = []
        self._closed = threading.Event()

    @property
    def connect(self) -> str:
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            limit = self.breaks_after.pop(0) if self.breaks_after else None
            threading.Thread(target=self._talk, args=(connection, limit), daemon=True).start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def await_close(self) -> None:
        """Wait until a client has ended its session."""
        assert self._closed.wait(60)

    def _talk(self, connection: socket.socket, limit: int | None) -> None:
        is_known = False
        # or each answer behind the first waits until the client's kernel has confirmed it: 40 ms
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError), connection.makefile("rb") as frames:
            message = frames.read(struct.unpack(">i", frames.read(4))[0])
            self.sessions += 1
            assert struct.unpack_from(">iqiq", message)[:2] == (0, 0)
            connection.sendall(_frame(struct.pack(">iiqi", 0, 30000, 7, 16) + b"\0" * 17))
            waiting: list[bytes] = []
            while len(head := frames.read(4)) == 4:
                waiting.append(frames.read(struct.unpack(">i", head)[0]))
                if len(waiting) < self.waits_for and struct.unpack_from(">ii", waiting[-1])[1] > 0:
                    continue
                for request in waiting:
                    if limit == 0:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    xid, opcode = struct.unpack_from(">ii", request)
                    self.opcodes.append(opcode)
                    if opcode == AUTH:
                        is_known = self.secret is not None and self.secret.encode() in request
                        error, body = (0 if is_known else AUTH_FAILED), b""
                    elif opcode == CLOSE:
                        self._closed.set()
                        return
                    elif opcode == MULTI:
                        codes = self.transacts(list(_operations(request[8:])))
                        if codes is None:
                            connection.shutdown(socket.SHUT_RDWR)
                            return
                        error, body = 0, _results(request[8:], codes)
                    elif opcode == GET_ACL:
                        acl = (
                            struct.pack(">ii", 1, EVERYTHING) + _frame(b"world") + _frame(b"anyone")
                        )
                        error, body = 0, acl + _stat(Stat())
                    else:
                        path = request[12:-1].decode()
                        self.asked.append((opcode, path))
                        error, body = self._answer(opcode, path, is_known)
                    if self.notices:
                        connection.sendall(_frame(struct.pack(">iqi", -1, 1, 0) + bytes(12)))
                    xid += self.wrong_xid
                    connection.sendall(_frame(struct.pack(">iqi", xid, 1, error) + body))
                    limit = None if limit is None else limit - 1
                waiting.clear()

    def _answer(self, opcode: int, path: str, is_known: bool) -> tuple[int, bytes]:
        node = self.tree.nodes.get(path)
        if node is None:
            return NO_NODE, b""
        if path in self.denied and not is_known:
            return NO_AUTH, b""
        stat = _stat(node.stat)
        if opcode == GET_DATA:
            return 0, (struct.pack(">i", -1) if node.data is None else _frame(node.data)) + stat
        assert opcode == GET_CHILDREN
        names = self._children[path]
        listed = b"".join(_frame(name.encode()) for name in names)
        return 0, struct.pack(">i", len(names)) + listed + stat


@contextmanager
def fake_zookeeper(tree: ZookeeperTree) -> Iterator[FakeZookeeper]:
    server = FakeZookeeper(tree)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.stop()


def _operations(body: bytes) -> Iterator[Operation]:
    """Read the operations of a transaction; see `kgroup.source.zookeeper.writer`."""
    position = 0

    def text() -> bytes | None:
        nonlocal position
        (size,) = struct.unpack_from(">i", body, position)
        position += 4 + max(size, 0)
        return None if size < 0 else body[position - size : position]

    def number() -> int:
        nonlocal position
        position += 4
        return int(struct.unpack_from(">i", body, position - 4)[0])

    while True:
        opcode, is_end, _ = struct.unpack_from(">ibi", body, position)
        position += 9
        if is_end:
            return
        path = (text() or b"").decode()
        if opcode == DELETE:
            yield "delete", path, number()
        elif opcode == SET_DATA:
            yield "set", path, text(), number()
        else:
            assert opcode == CREATE
            yield "create", path, text()
            for _ in range(number()):
                number(), text(), text()
            number()


def _results(body: bytes, codes: Sequence[int]) -> bytes:
    """Answer a transaction: results where all was done, else the error of each operation."""
    kinds = {"create": CREATE, "delete": DELETE, "set": SET_DATA}
    answer = b""
    for (name, path, *_), code in zip(_operations(body), codes, strict=True):
        if any(codes):
            answer += struct.pack(">ibii", -1, 0, code, code)
            continue
        answer += struct.pack(">ibi", kinds[name], 0, 0)
        answer += {"create": _frame(path.encode()), "delete": b"", "set": _stat(Stat())}[name]
    return answer + struct.pack(">ibi", -1, 1, -1)


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _stat(stat: Stat) -> bytes:
    owner = int(stat.ephemeral_owner or "0", 16)
    return struct.pack(
        ">qqqqiiiQiiq",
        *(1, 1, stat.ctime_ms or 0, stat.mtime_ms or 0, stat.version or 0, stat.cversion or 0, 0),
        *(owner, 0, stat.children or 0, 1),
    )
