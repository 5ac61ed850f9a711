"""A proxy before brokers that sees every request of a client, and what the requests allow.

    with RecordingProxy([server.port]) as proxy:
        client(bootstrap_servers=proxy.bootstrap)
    proxy.requests

Each broker has a port of the proxy. Answers name brokers as host and port, which Kafka writes as
a string and an int32; wherever one of the real ones stands so in an answer, the proxy's port
takes the place of its port. So a client that was given a port of the proxy never learns a real one.
Nothing else is changed.

A frame on the wire is int32 size, then the message. A request begins with int16 api key, int16
version, int32 correlation id, nullable string client id.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread
from typing import Any

from kafka.protocol.admin.acl import DescribeAclsRequest
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.consumer.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest

from kgroup.model.group import GroupType
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.group_api import DESCRIBE_BY_TYPE, describe_share_offsets_request
from tests.broker.maven import version_tuple
from tests.broker.process import HOST


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it stood on the wire.

    Attributes:
        port: of the broker that it went to.
        api_key: number of the API.
        version: of the request.
        client_id: as the client calls itself.
        message: all of it, from the api key on.
    """

    port: int
    api_key: int
    version: int
    client_id: str | None
    message: bytes

    @classmethod
    def read(cls, port: int, message: bytes) -> Request:
        """Read the head of a request."""
        api_key, version, _, length = struct.unpack_from(">hhih", message)
        client_id = None if length < 0 else message[10 : 10 + length].decode()
        return cls(port, api_key, version, client_id, message)


_ERROR_SINCE: Mapping[int, tuple[int, int]] = {
    JoinGroupRequest.API_KEY: (2, 6),
    SyncGroupRequest.API_KEY: (1, 4),
    HeartbeatRequest.API_KEY: (1, 4),
}
"""By api key, the versions since which throttle time and tags precede the error of an answer."""


class RecordingProxy:
    """A context manager that passes on what comes and goes, and keeps the requests.

    Attributes:
        requests: all so far, in the order in which they came.
        before: by api key, what is called before a request is passed on; OSError in it breaks the
            connection instead.
        errors: by api key (those of `_ERROR_SINCE`), the errors of the next answers, in order.
    """

    def __init__(self, ports: Iterable[int]) -> None:
        self.requests: list[Request] = []
        self.before: dict[int, Callable[[Request], object]] = {}
        self.errors: dict[int, list[ErrorCode]] = {}
        self._listeners = {port: socket.create_server((HOST, 0)) for port in ports}
        host = HOST.encode()
        self._changes = [
            (host + struct.pack(">i", port), host + struct.pack(">i", self.port(port)))
            for port in self._listeners
        ]
        self._open: list[socket.socket] = []
        self._lock = Lock()

    def port(self, port: int) -> int:
        """Return the port of the proxy for that of a broker."""
        number: int = self._listeners[port].getsockname()[1]
        return number

    @property
    def bootstrap(self) -> str:
        """`host:port` of the first broker."""
        return f"{HOST}:{self.port(next(iter(self._listeners)))}"

    def __enter__(self) -> RecordingProxy:
        for port, listener in self._listeners.items():
            Thread(target=self._accept, args=(port, listener), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, port: int, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((HOST, port), timeout=10)
            except OSError:  # the broker is down: so is its port here
                client.close()
                continue
            server.settimeout(None)
            self._open += (client, server)
            asked: dict[bytes, Request] = {}
            self._start(client, server, partial(self._asked, port, asked))
            self._start(server, client, partial(self._answered, asked))

    def _start(
        self, source: socket.socket, target: socket.socket, passed: Callable[[bytes], bytes]
    ) -> None:
        Thread(target=_pump, args=(source, target, passed), daemon=True).start()

    def _asked(self, port: int, asked: dict[bytes, Request], message: bytes) -> bytes:
        request = asked[message[4:8]] = Request.read(port, message)
        with self._lock:
            self.requests.append(request)
        if request.api_key in self.before:
            self.before[request.api_key](request)
        return message

    def _answered(self, asked: dict[bytes, Request], message: bytes) -> bytes:
        request = asked.pop(message[:4], None)
        if request is not None and (errors := self.errors.get(request.api_key)):
            throttled, tagged = _ERROR_SINCE[request.api_key]
            at = 4 + (request.version >= tagged) + 4 * (request.version >= throttled)
            message = message[:at] + struct.pack(">h", errors.pop(0)) + message[at + 2 :]
        for real, shown in self._changes:
            message = message.replace(real, shown)
        return message


def _pump(source: socket.socket, target: socket.socket, passed: Callable[[bytes], bytes]) -> None:
    """Pass on whole frames until an end closes; then close the other."""
    with suppress(OSError), source.makefile("rb") as frames:
        while len(head := frames.read(4)) == 4:
            (size,) = struct.unpack(">i", head)
            message = frames.read(size)
            if len(message) < size:
                break
            target.sendall(head + passed(message))
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class _Read:
    """A request that reads.

    Attributes:
        kind: its class.
        since: Kafka version whose brokers are first sent it.
        flaw: tells what is wrong with one, None where nothing is; no check without.
    """

    kind: Any
    since: str
    flaw: Callable[[Any, int], str | None] | None = None


def _metadata_flaw(request: Any, version: int) -> str | None:
    """A request that names a topic creates it, unless version 4 or later forbids that."""
    if version >= 4 and request.allow_auto_topic_creation:
        return "lets topics be created"
    if version < 4 and request.topics:
        return f"names topics {[topic.name for topic in request.topics]}"
    return None


def _fetch_flaw(request: Any, version: int) -> str | None:
    """A follower's position moves the high watermark; a session takes the place of another's."""
    replica = request.replica_id if version < 15 else request.replica_state.replica_id
    if replica != -1:
        return f"is of replica {replica}"
    if version >= 7 and (request.session_id, request.session_epoch) != (0, -1):
        return "begins a session"
    return None


def _replica_flaw(request: Any, version: int) -> str | None:
    return None if request.replica_id == -1 else f"is of replica {request.replica_id}"


_READS: Mapping[int, _Read] = {
    read.kind.API_KEY: read
    for read in (
        _Read(ApiVersionsRequest, "0.8.2"),  # brokers before 0.10 close the connection
        _Read(MetadataRequest, "0.8.2", _metadata_flaw),
        _Read(FindCoordinatorRequest, "0.8.2"),  # where the topic exists: else it creates it
        _Read(OffsetFetchRequest, "0.8.2"),
        _Read(ListOffsetsRequest, "0.8.2", _replica_flaw),
        _Read(FetchRequest, "0.8.2", _fetch_flaw),
        _Read(OffsetForLeaderEpochRequest, "2.3", _replica_flaw),
        _Read(ListGroupsRequest, "0.8.2"),  # brokers before 0.9 close the connection
        _Read(DescribeGroupsRequest, "0.9"),
        _Read(DescribeAclsRequest, "0.11"),
        _Read(DescribeConfigsRequest, "0.11"),
        _Read(DescribeLogDirsRequest, "1.0"),
        _Read(DESCRIBE_BY_TYPE[GroupType.CONSUMER].request, "3.7"),
        _Read(DESCRIBE_BY_TYPE[GroupType.SHARE].request, "4.0"),
        _Read(DESCRIBE_BY_TYPE[GroupType.STREAMS].request, "4.1"),
        _Read(describe_share_offsets_request(), "4.1"),
    )
}
"""Everything that what only reads may send, by api key."""

WRITES: Mapping[int, tuple[Any, Callable[[Any], list[str]]]] = {
    kind.API_KEY: (kind, groups)
    for kind, groups in (
        (OffsetCommitRequest, lambda request: [request.group_id]),
        (OffsetDeleteRequest, lambda request: [request.group_id]),
        (DeleteGroupsRequest, lambda request: request.groups_names),
        (LeaveGroupRequest, lambda request: [request.group_id]),
    )
}
"""Everything that changes something, by api key, with the groups that a request names.

None of it is for a command that was not told to change anything.
"""


def groups_written(requests: Iterable[Request]) -> dict[str, set[str]]:
    """Tell which groups requests change, by the name of the API; others change none."""
    found: dict[str, set[str]] = {}
    for request in requests:
        if request.api_key in WRITES:
            kind, groups = WRITES[request.api_key]
            sent = kind.decode(request.message, version=request.version, header=True)
            name = kind.__name__.removesuffix("Request")
            found.setdefault(name, set()).update(groups(sent))
    return found


def why_not_harmless(request: Request, version: str) -> str | None:
    """Say what a request to a broker of some version might change; None where it only reads."""
    read = _READS.get(request.api_key)
    if read is None or version_tuple(version) < version_tuple(read.since):
        return f"API {request.api_key} is not one that reads from Kafka {version}"
    sent = read.kind.decode(request.message, version=request.version, header=True)
    flaw = read.flaw(sent, request.version) if read.flaw is not None else None
    return None if flaw is None else f"{read.kind.__name__} version {request.version} {flaw}"
