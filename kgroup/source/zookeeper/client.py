"""Reads of ZooKeeper with hundreds of requests in flight on one connection.

It uses kazoo's messages and host parsing, but not its client, which waits for each response on
another thread and would need minutes for reads that take seconds here, and which can write.

    frame     int32 length, body
    request   int32 xid, int32 opcode, fields
    response  int32 xid, int64 zxid, int32 error, fields

Responses arrive in the order of the requests. The opcodes sent: getData, getChildren2, auth,
closeSession; and the request that opens a session, which has no opcode.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.group import server_text
from kgroup.model.zookeeper import Stat
from kgroup.source.deadline import Deadline
from kgroup.source.zookeeper.address import ZookeeperAddress

_WINDOW = 256
"""Requests in flight; ZooKeeper stops reading from clients at 1000 (globalOutstandingLimit)."""
_SESSION_MS = 30_000
_LARGEST = 64 << 20
"""Maximum bytes of a response; a list of a million children has about 20 million."""
_NO_NODE, _NO_AUTH, _BAD_ARGUMENTS, _AUTH_FAILED = -101, -102, -8, -115
_AUTH_XID = -4
_NOTIFICATION_XID = -1
_HEADER = struct.Struct(">iqi")


@dataclass(frozen=True, slots=True)
class Content:
    """Contents of a node."""

    data: bytes | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class Children:
    """Names of a node's children, sorted."""

    names: tuple[str, ...]
    stat: Stat


class _Denied:
    """A node that the client is not authorized to read."""


DENIED = _Denied()


class ServerError(Exception):
    """Why a server cannot be used; `kind` as in `BrokerError`."""

    def __init__(self, kind: ProblemKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class ZookeeperClient:
    """One session at a time, with any server that answers.

    Attributes:
        deadline: limits all waiting.
    """

    def __init__(
        self,
        address: ZookeeperAddress,
        deadline: Deadline,
        *,
        context: ssl.SSLContext | None = None,
        digest: str | None = None,
    ) -> None:
        """Create a client that is not connected yet.

        Args:
            address: address of ZooKeeper.
            deadline: time limit.
            context: SSL context for TLS.
            digest: ``user:password`` for ZooKeeper's scheme "digest".
        """
        self.address = address
        self.deadline = deadline
        self._context = context
        self._digest = digest
        self._link: Link | None = None
        self._next = 0

    def close(self) -> None:
        """End the session."""
        if self._link is not None:
            self._link.end()
            self._link = None

    def contents(self, paths: Iterable[str]) -> list[Content | _Denied | None]:
        """Read nodes, in the order given; None for nodes that do not exist.

        Raises:
            BrokerError: no server answers.
        """
        from kazoo.protocol.serialization import GetData

        def content(answer: tuple[bytes | None, Any]) -> Content:
            return Content(answer[0], _stat(answer[1]))

        return self._ask(GetData, list(paths), content)

    def children(self, paths: Iterable[str]) -> list[Children | _Denied | None]:
        """Read the names of nodes' children, in the order given; errors as for `contents`."""
        from kazoo.protocol.serialization import GetChildren2

        def names(answer: tuple[list[str], Any]) -> Children:
            return Children(tuple(sorted(answer[0])), _stat(answer[1]))

        return self._ask(GetChildren2, list(paths), names)

    def _ask(self, request: Any, paths: Sequence[str], result: Any) -> list[Any]:
        """Send a request for each path; resend unanswered ones over another connection."""
        answers: list[Any] = [None] * len(paths)
        waiting, flying = deque(range(len(paths))), deque[int]()
        losses = 0
        while waiting or flying:
            link = self.connected()
            try:
                if waiting and len(flying) <= _WINDOW // 2:
                    numbers = [waiting.popleft() for _ in range(min(len(waiting), _WINDOW))]
                    flying.extend(numbers)
                    link.send([request(self.full_path(paths[number]), False) for number in numbers])
                error, body = link.answer()
                answers[flying[0]] = self._result(error, body, request, result, link)
                flying.popleft()
                losses = 0
                self.deadline.heard()
            except ServerError as trouble:
                waiting.extendleft(reversed(flying))
                flying.clear()
                self.drop()
                losses += 1
                if losses > len(self.address.servers) or not self.deadline.left_s:
                    raise self.error([trouble]) from None
        return answers

    def _result(self, error: int, body: bytes, request: Any, result: Any, link: Link) -> Any:
        if error in (_NO_NODE, _BAD_ARGUMENTS):  # an invalid path cannot exist
            return None
        if error == _NO_AUTH:
            return DENIED
        if error:
            raise ServerError(ProblemKind.UNUSABLE, f"{link.who} answers with error {error}")
        try:
            return result(request.deserialize(body, _HEADER.size))
        except (struct.error, UnicodeDecodeError, IndexError):
            raise ServerError(
                ProblemKind.UNUSABLE, f"{link.who} gives an answer that cannot be read"
            ) from None

    def full_path(self, path: str) -> str:
        """Return a path with the chroot."""
        return f"{self.address.chroot}{path}".rstrip("/") or "/"

    def connected(self) -> Link:
        """Return the open connection, or connect to the first server that answers.

        Raises:
            BrokerError: no server answers.
        """
        if self._link is not None:
            return self._link
        troubles = []
        servers = self.address.servers
        for _ in servers:
            host, port = servers[self._next % len(servers)]
            try:
                self._link = Link(host, port, self.deadline, self._context, self._digest)
            except ServerError as trouble:
                troubles.append(trouble)
                self._next += 1
            else:
                return self._link
            if not self.deadline.left_s:
                break
        raise self.error(troubles)

    def drop(self) -> None:
        """Close the connection; the next one uses the next server."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._next += 1

    def error(self, troubles: Sequence[ServerError]) -> BrokerError:
        """Return one error for the failures of all servers."""
        return BrokerError(troubles[0].kind, "; ".join(map(str, troubles)))


class Link:
    """A session on one connection.

    Attributes:
        who: the server, to start a message with.
    """

    def __init__(
        self,
        host: str,
        port: int,
        deadline: Deadline,
        context: ssl.SSLContext | None,
        digest: str | None,
    ) -> None:
        """Connect, open a session, and authenticate.

        Raises:
            ServerError: one of these fails.
        """
        from kazoo.protocol.serialization import Auth, Connect

        self.who = f"ZooKeeper {server_text(host, port)}"
        self._deadline = deadline
        self._xid = 0
        self._buffer = bytearray()
        self._start = 0
        self._is_encrypted = context is not None
        self._socket = self._connect(host, port, context)
        try:
            self._write(_frame(Connect(0, 0, _SESSION_MS, 0, b"\0" * 16, True).serialize()))
            self._read()
            self._due: deque[int] = deque()
            if digest is not None:
                user = "".join(digest)  # joining returns the text of a `Secret`
                body = (
                    struct.pack(">ii", _AUTH_XID, Auth.type) + Auth(0, "digest", user).serialize()
                )
                self._due.append(_AUTH_XID)
                self._write(_frame(body))
                error, _ = self.answer()
                if error:
                    what = "refuses the digest" if error == _AUTH_FAILED else f"answers {error}"
                    raise ServerError(ProblemKind.REFUSED, f"{self.who} {what} (zookeeper.digest)")
        except BaseException:
            self.close()
            raise

    def send(self, requests: Iterable[Any]) -> None:
        """Send several requests at once."""
        frames = bytearray()
        for request in requests:
            self._xid = self._xid % 0x7FFFFFFF + 1
            self._due.append(self._xid)
            frames += _frame(struct.pack(">ii", self._xid, request.type) + request.serialize())
        self._write(frames)

    def answer(self) -> tuple[int, bytes]:
        """Wait for the next response; return its error and its bytes."""
        while True:
            body = self._read()
            if len(body) < _HEADER.size:
                raise self._strange()
            xid, _, error = _HEADER.unpack_from(body)
            if xid == _NOTIFICATION_XID:
                continue
            if not self._due or xid != self._due.popleft():
                raise self._strange()
            return error, body

    def end(self) -> None:
        """Close the session, so that the server does not keep it until it times out."""
        from kazoo.protocol.serialization import Close

        with suppress(ServerError):
            self._write(_frame(struct.pack(">ii", self._xid + 1, Close.type)))
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _connect(
        self, host: str, port: int, context: ssl.SSLContext | None
    ) -> socket.socket | ssl.SSLSocket:
        try:
            plain = socket.create_connection((host, port), self._patience())
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None:
                return plain
            try:
                return context.wrap_socket(plain, server_hostname=host)
            except BaseException:
                plain.close()
                raise
        except OSError as error:
            raise self._trouble(error) from None
        except UnicodeError:  # invalid host name, such as one with two dots in a row
            raise self._trouble(socket.gaierror()) from None

    def _write(self, frames: bytes | bytearray) -> None:
        try:
            self._socket.settimeout(self._patience())
            self._socket.sendall(frames)
        except OSError as error:
            raise self._trouble(error) from None

    def _read(self) -> bytes:
        """Return the body of the next frame."""
        self._fill(4)
        (size,) = struct.unpack_from(">i", self._buffer, self._start)
        if not 0 <= size <= _LARGEST:
            raise self._strange()
        self._fill(4 + size)
        begin = self._start + 4
        self._start = begin + size
        return bytes(memoryview(self._buffer)[begin : self._start])

    def _fill(self, size: int) -> None:
        """Receive until the buffer has at least `size` unread bytes."""
        while len(self._buffer) - self._start < size:
            if self._start:
                del self._buffer[: self._start]
                self._start = 0
            try:
                self._socket.settimeout(self._patience())
                data = self._socket.recv(1 << 18)
            except OSError as error:
                raise self._trouble(error) from None
            if not data:
                raise ServerError(ProblemKind.DISCONNECTED, f"{self.who} closes the connection")
            self._buffer += data

    def _patience(self) -> float:
        left = min(self._deadline.patience_s, self._deadline.left_s)
        if left <= 0:
            raise TimeoutError
        return left

    def _trouble(self, error: OSError) -> ServerError:
        if isinstance(error, socket.gaierror):
            return ServerError(ProblemKind.UNREACHABLE, f"{self.who}: the name cannot be resolved")
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"shows a certificate that is not trusted: {error.verify_message}"
            return ServerError(ProblemKind.REFUSED, f"{self.who} {reason}")
        if isinstance(error, ssl.SSLError):
            reason = (error.reason or "TLS failed").replace("_", " ").lower()
            return ServerError(ProblemKind.REFUSED, f"{self.who} does not agree on TLS: {reason}")
        if isinstance(error, TimeoutError):
            limit = f"{self._deadline.timeout_s:g} s (--timeout)"
            return ServerError(
                ProblemKind.SILENT, f"{self.who} gave no answer within its part of {limit}"
            )
        if isinstance(error, ConnectionRefusedError):
            return ServerError(
                ProblemKind.UNREACHABLE, f"{self.who} cannot be reached: connection refused"
            )
        if isinstance(error, (ConnectionResetError, BrokenPipeError)):
            return ServerError(ProblemKind.DISCONNECTED, f"{self.who} closes the connection")
        reason = (error.strerror or str(error)).lower()
        return ServerError(ProblemKind.UNREACHABLE, f"{self.who} cannot be reached: {reason}")

    def _strange(self) -> ServerError:
        hint = "" if self._is_encrypted else "; perhaps it wants TLS (zookeeper.ssl.client.enable)"
        return ServerError(
            ProblemKind.UNUSABLE,
            f"{self.who} answers with something else than ZooKeeper's protocol{hint}",
        )


def _frame(body: bytes | bytearray) -> bytes:
    return struct.pack(">i", len(body)) + body


def _stat(stat: Any) -> Stat:
    session = f"{stat.ephemeralOwner & (1 << 64) - 1:#x}" if stat.ephemeralOwner else None
    return Stat(
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=session,
        children=stat.numChildren,
    )
