"""Requests to a broker as they stand on the wire, for what no ordinary client sends.

The message classes are kafka-python's. What it lacks (KIP-848, share and streams groups) is read
from the message definitions inside the broker's own kafka-clients jar. A message is built from
nested dictionaries and comes back as such, with snake-case names, bytes as bytes.
"""

from __future__ import annotations

import base64
import importlib
import socket
import struct
import sys
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka.protocol.api_message import ApiMessage

from tests.broker.maven import CACHE, kafka_jars, made_once, version_tuple
from tests.source.fake_broker import build_message

_MODULES = (
    "kafka.protocol.admin.configs",
    "kafka.protocol.admin.groups",
    "kafka.protocol.admin.topics",
    "kafka.protocol.consumer.fetch",
    "kafka.protocol.consumer.group",
    "kafka.protocol.consumer.offsets",
    "kafka.protocol.metadata",
    "kafka.protocol.producer.transaction",
)

_BEFORE_API_VERSIONS = {"OffsetCommit": (2, 1), "OffsetFetch": (1, 1)}
"""Newest request version of 0.9.0.1 and of 0.8.2.2; all others are 0 there."""

_BY_TOPIC_NAME = {"OffsetCommit": 9, "OffsetFetch": 9}
"""Newest version that names topics; later ones give their ids."""


class WireError(AssertionError):
    """The broker answered with an error code."""


class Wire:
    """One connection to one broker of a known version."""

    def __init__(self, version: str, bootstrap: str, client_id: str = "kgroup-record") -> None:
        host, _, port = bootstrap.rpartition(":")
        self.version = version
        self._client_id = client_id
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._correlation = 0
        self._newest: dict[int, int] = {}
        if version_tuple(version) >= (0, 10):
            for api in self.call("ApiVersions", 0)["api_keys"]:
                self._newest[api["api_key"]] = api["max_version"]

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what was asked for stays done."""
        self._socket.close()

    def call(self, api: str, version: int | None = None, **fields: Any) -> dict[str, Any]:
        """Send one request and wait for its answer.

        `version` is the request's; None takes the newest that broker and message class share.
        """
        self.send(api, version, **fields)
        return self.receive()

    def send(self, api: str, version: int | None = None, **fields: Any) -> None:
        """Send a request; `receive` gets the answer."""
        request_class = message_class(self.version, f"{api}Request")
        if version is None:
            version = self._newest_version(api, request_class)
        request = build_message(request_class, fields, version)
        self._correlation += 1
        request.with_header(correlation_id=self._correlation, client_id=self._client_id)
        self._socket.sendall(bytes(request.encode(version=version, header=True, framed=True)))
        self._awaited = message_class(self.version, f"{api}Response"), version

    def receive(self) -> dict[str, Any]:
        """Wait for the answer to the last `send`."""
        (size,) = struct.unpack(">i", self._exactly(4))
        response_class, version = self._awaited
        answer = response_class.decode(self._exactly(size), version=version, header=True)
        plain: dict[str, Any] = answer.to_dict(json=False)
        return plain

    def _newest_version(self, api: str, request_class: Any) -> int:
        number = version_tuple(self.version)
        if number < (0, 10):
            return _BEFORE_API_VERSIONS.get(api, (0, 0))[number < (0, 9)]
        newest: int = min(self._newest[request_class.API_KEY], request_class.max_version)
        return min(newest, _BY_TOPIC_NAME.get(api, newest))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise WireError("the broker closed the connection")
            data += part
        return data


def jsonable(value: Any) -> Any:
    """Bytes as base64, uuids as Kafka writes them; dictionaries and lists throughout."""
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value


_CLASSES: dict[tuple[str, str], Any] = {}


def message_class(version: str, name: str) -> Any:
    """Return a message's class by its name in Kafka, kafka-python's own where it has one."""
    for module in _MODULES:
        if hasattr(importlib.import_module(module), name):
            return getattr(importlib.import_module(module), name)
    if (version, name) not in _CLASSES:
        package = _message_package(version)
        _CLASSES[version, name] = type(ApiMessage)(name, (ApiMessage,), {}, load_json=package)
    return _CLASSES[version, name]


def _message_package(version: str) -> str:
    """Make a package of the message definitions of one Kafka version, from its jar."""
    package = f"kafka_messages_{version.replace('.', '_')}"
    folder = CACHE / "messages" / package
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    jar = next(jar for jar in kafka_jars(version) if jar.name.startswith("kafka-clients-"))

    def unpack_into(target: Path) -> None:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.startswith("common/message/") and entry.endswith(".json"):
                    (target / Path(entry).name).write_bytes(archive.read(entry))
        (target / "__init__.py").touch()

    folder.parent.mkdir(parents=True, exist_ok=True)
    made_once(folder, unpack_into, "messages-lock")
    importlib.invalidate_caches()
    return package
