"""A broker on which real consumers form groups, as a test wants them to be."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kgroup.assignor.java.scala_hash import champ_order
from kgroup.model.offsets_partition import string_hash
from tests.assignor.client.oracle.librdkafka.wire import (
    API_VERSIONS,
    VERSIONS,
    Reader,
    array,
    bytes_,
    text,
    versions_answer,
)

_HOST = "127.0.0.1"
_ID = 1
_RACKS = {"a": 11, "b": 12, "c": 13, "d": 14}
"""Brokers of which only the racks matter; the broker itself has none."""
_NOWHERE = "the-broker-of-rack-{}.invalid"
"""Long, because the room that librdkafka makes for an answer grows with that, and must do."""
_NAMES = {key: name for name, (key, _) in VERSIONS.items()}
_REBALANCE_IN_PROGRESS = 27
_UNKNOWN_TOPIC = 3


@dataclass(frozen=True)
class Join:
    """What a member sends when it joins.

    Attributes:
        client: its client id.
        member_id: that it has been given; empty before.
        instance_id: its instance id, of a static member.
        protocols: its subscriptions, by name of the assignor.
    """

    client: str
    member_id: str
    instance_id: str | None
    protocols: Mapping[str, bytes]


@dataclass(frozen=True)
class Joined:
    """What a member is told then.

    Attributes:
        generation: of the group.
        strategy: that was chosen.
        leader_id: who assigns.
        member_id: the member's.
        members: id, instance id and subscription of each; of the leader only.
    """

    generation: int
    strategy: str
    leader_id: str
    member_id: str
    members: Sequence[tuple[str, str | None, bytes]] = ()


class Group(Protocol):
    """What happens in a group."""

    def topic(self, name: str) -> Mapping[str, Any] | None:
        """Give a topic as a spec has it; None where there is none."""

    async def join(self, join: Join) -> Joined:
        """Wait until a member may go on."""

    async def sync(self, member_id: str, assignments: Mapping[str, bytes]) -> bytes | int:
        """Take what the leader assigns; give what the member gets, or the number of an error."""

    def is_rebalancing(self, member_id: str) -> bool:
        """Return whether a member that sends a heartbeat is to join again."""


class Broker:
    """The only broker, coordinator of all groups.

    Args:
        groups: by client id of the members, the group in which each is.

    Attributes:
        address: where it listens.
    """

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups
        self.address = ""
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to listen."""
        server = await asyncio.start_server(self._talk, _HOST, 0, backlog=4096)
        self._port = server.sockets[0].getsockname()[1]
        self.address = f"{_HOST}:{self._port}"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = Reader(await reader.readexactly(size))
                key, version, correlation = (request.number(size) for size in (2, 2, 4))
                client = request.text() or ""
                if key == API_VERSIONS:
                    _send(writer, correlation, versions_answer(version))
                    continue
                # some wait for others, and one behind them may not
                task = asyncio.create_task(
                    self._serve(writer, correlation, _NAMES[key], version, client, request)
                )
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def _serve(
        self,
        writer: asyncio.StreamWriter,
        correlation: int,
        name: str,
        version: int,
        client: str,
        request: Reader,
    ) -> None:
        group = self._groups[client]
        if name == "Metadata":
            answer = self._metadata(version, group, request)
        elif name == "FindCoordinator":
            answer = struct.pack(">hi", 0, _ID) + text(_HOST) + struct.pack(">i", self._port)
        elif name == "JoinGroup":
            answer = await _join(group, client, request)
        elif name == "SyncGroup":
            answer = await _sync(group, request)
        elif name == "Heartbeat":
            _, _, member_id = request.text(), request.number(4), request.text()
            is_rebalancing = group.is_rebalancing(member_id or "")
            answer = struct.pack(">ih", 0, _REBALANCE_IN_PROGRESS if is_rebalancing else 0)
        elif name == "OffsetFetch":
            answer = _offsets(request)
        elif name == "LeaveGroup":
            answer = struct.pack(">ih", 0, 0)
        else:
            return  # no record ever comes, so nobody has to be told so
        _send(writer, correlation, answer)

    def _metadata(self, version: int, group: Group, request: Reader) -> bytes:
        asked = [name for name in request.array(request.text) if name is not None]
        brokers = [
            (_ID, _HOST, None),
            *((number, _NOWHERE.format(rack), rack) for rack, number in _RACKS.items()),
        ]
        return b"".join(
            [
                struct.pack(">i", 0) if version >= 3 else b"",
                array(
                    brokers,
                    lambda broker: (
                        struct.pack(">i", broker[0])
                        + text(broker[1])
                        + struct.pack(">i", self._port)
                        + (text(broker[2]) if version >= 1 else b"")
                    ),
                ),
                text(None) if version >= 2 else b"",
                struct.pack(">i", _ID) if version >= 1 else b"",
                array(
                    _as_broker_orders(list(dict.fromkeys(asked))),
                    lambda name: _topic(version, name, group.topic(name)),
                ),
            ]
        )


def _send(writer: asyncio.StreamWriter, correlation: int, answer: bytes) -> None:
    if not writer.is_closing():
        writer.write(struct.pack(">ii", 4 + len(answer), correlation) + answer)


def _as_broker_orders(names: Sequence[str]) -> list[str]:
    """Order topics as `KafkaApis.handleTopicMetadataRequest` does: they are put in a Scala set."""
    return list(names) if len(names) <= 4 else champ_order(names, [*map(string_hash, names)])


def _topic(version: int, name: str, topic: Mapping[str, Any] | None) -> bytes:
    head = struct.pack(">h", 0 if topic else _UNKNOWN_TOPIC) + text(name)
    if version >= 1:
        head += b"\0"  # not internal
    topic = topic or {"partitions": 0}
    racks = topic.get("racks") or [[]] * topic["partitions"]
    replicas = [[_RACKS[rack] for rack in own] or [_ID] for own in racks]
    return head + array(
        enumerate(replicas),
        lambda each: struct.pack(">hii", 0, each[0], _ID) + 2 * array(each[1], _number),
    )


def _number(value: int) -> bytes:
    return struct.pack(">i", value)


async def _join(group: Group, client: str, request: Reader) -> bytes:
    _, _, _, member_id = request.text(), request.number(4), request.number(4), request.text()
    instance_id, _ = request.text(), request.text()
    protocols = request.array(lambda: (request.text() or "", request.bytes_()))
    joined = await group.join(Join(client, member_id or "", instance_id, dict(protocols)))
    return b"".join(
        [
            struct.pack(">ihi", 0, 0, joined.generation),
            *map(text, (joined.strategy, joined.leader_id, joined.member_id)),
            array(joined.members, lambda each: text(each[0]) + text(each[1]) + bytes_(each[2])),
        ]
    )


async def _sync(group: Group, request: Reader) -> bytes:
    _, _, member_id, _ = request.text(), request.number(4), request.text(), request.text()
    assignments = request.array(lambda: (request.text() or "", request.bytes_()))
    given = await group.sync(member_id or "", dict(assignments))
    if isinstance(given, int):
        return struct.pack(">ih", 0, given) + bytes_(b"")
    return struct.pack(">ih", 0, 0) + bytes_(given)


def _offsets(request: Reader) -> bytes:
    request.text()
    topics = request.array(lambda: (request.text(), request.array(lambda: request.number(4))))
    return array(
        topics,
        lambda topic: (
            text(topic[0])
            + array(topic[1], lambda number: struct.pack(">iq", number, 0) + text("") + b"\0\0")
        ),
    )
