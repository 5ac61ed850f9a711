"""A broker that answers as a test tells it, over a real socket, and remembers what it was asked."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafka.protocol.admin.acl import DescribeAclsRequest
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.group import (
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kgroup.source.broker.group_api import DESCRIBE_BY_TYPE, describe_share_offsets_request

HOST = "127.0.0.1"
Fields = dict[str, Any]
Handler = Callable[[Any], "Fields | None"]
Asked = tuple[str, int, Any]
"""Name of an API, version, the request."""

_REQUESTS = {
    request.API_KEY: request
    for request in (
        *(ApiVersionsRequest, FetchRequest, FindCoordinatorRequest, ListGroupsRequest),
        *(ListOffsetsRequest, MetadataRequest, OffsetFetchRequest),
        *(OffsetCommitRequest, OffsetDeleteRequest, DeleteGroupsRequest, LeaveGroupRequest),
        *(SaslAuthenticateRequest, SaslHandshakeRequest, DescribeGroupsRequest),
        *(DescribeLogDirsRequest, DescribeAclsRequest),
        *(api.request for api in DESCRIBE_BY_TYPE.values()),
        describe_share_offsets_request(),
    )
}


class FakeBroker:
    """One broker.

    Attributes:
        port: where it listens.
        handlers: by name of the API, the fields of the answer to a request; None closes the
            connection instead.
        newest: by name of the API, the newest version that it says it has; what has a handler and
            is not here has version 0.
        asked: what it was asked, without ApiVersions.
        is_silent_on_versions: whether it never answers ApiVersions, as 0.9 does not.
        is_closed_on_versions: whether it closes the connection, as 0.8 does.
        damage: what becomes of an answer's bytes, behind its size and correlation id; by the name
            of the API.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.handlers: dict[str, Handler] = {}
        self.newest: dict[str, int] = {}
        self.asked: list[Asked] = []
        self.is_silent_on_versions = False
        self.is_closed_on_versions = False
        self.damage: Callable[[str, bytes], bytes] = lambda _, body: body
        self._listener = listener
        self._connections: list[socket.socket] = []

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def names(self) -> list[str]:
        """Names of the APIs that were used, in order."""
        return [name for name, _, _ in self.asked]

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._talk, args=[connection], daemon=True).start()

    def close(self) -> None:
        for waited_on in (self._listener, *self._connections):
            with suppress(OSError):
                waited_on.shutdown(socket.SHUT_RDWR)  # else the thread that waits there stays
            waited_on.close()

    def _talk(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, EOFError):
            while True:
                (size,) = struct.unpack(">i", _exactly(connection, 4))
                data = _exactly(connection, size)
                key, version, correlation = struct.unpack_from(">hhi", data)
                if key == ApiVersionsRequest.API_KEY and self.is_silent_on_versions:
                    continue
                answer = self._answer(key, version, data)
                if answer is None:
                    return
                answer.with_header(correlation_id=correlation)
                encoded = bytes(answer.encode(header=True, framed=True))
                body = self.damage(_name(key), encoded[8:])
                connection.sendall(struct.pack(">i", 4 + len(body)) + encoded[4:8] + body)

    def _answer(self, key: int, version: int, data: bytes) -> Any:
        if key not in _REQUESTS:
            return None
        name = _name(key)
        if name == "ApiVersions" and self.is_closed_on_versions:
            return None
        request = _REQUESTS[key].decode(data, version=version, header=True)
        kind = request.header.get_response_class()[None]
        if name == "ApiVersions":
            return build_message(kind, self._versions(), version)
        self.asked.append((name, version, request))
        handler = self.handlers.get(name)
        fields = handler(request) if handler else None
        return None if fields is None else build_message(kind, fields, version)

    def _versions(self) -> Fields:
        return {
            "error_code": 0,
            "api_keys": [
                {
                    "api_key": key,
                    "min_version": 0,
                    "max_version": 3 if name == "ApiVersions" else self.newest.get(name, 0),
                }
                for name, key in ((_name(key), key) for key in _REQUESTS)
                if name in self.handlers or name == "ApiVersions"
            ],
        }


@contextmanager
def fake_broker() -> Iterator[FakeBroker]:
    """Run a broker that answers nothing but ApiVersions until it gets handlers."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        broker = FakeBroker(listener)
        thread = threading.Thread(target=broker.serve, daemon=True)
        thread.start()
        try:
            yield broker
        finally:
            broker.close()
            thread.join()


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _name(key: int) -> str:
    name: str = _REQUESTS[key].__name__
    return name.removesuffix("Request")


def build_message(kind: Any, fields: Mapping[str, Any], version: int) -> Any:
    """Build a message of a class of kafka-python from nested dictionaries."""
    values = {}
    for name, value in fields.items():
        part = kind.fields[name]
        if value is not None and part.is_struct_array():
            value = [build_message(part.data_class, each, version) for each in value]
        elif value is not None and part.is_struct():
            value = build_message(part.data_class, value, version)
        values[name] = value
    return kind(version=version, **values)
