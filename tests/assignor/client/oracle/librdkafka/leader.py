"""Leaders of librdkafka, each of which assigns for one group after the other."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.assignor.client.oracle.librdkafka.broker import Broker, Join, Joined
from tests.assignor.client.oracle.librdkafka.message import assigned_in, sent_in, subscription
from tests.assignor.client.oracle.librdkafka.native import Consumer, load

ENDLESS = 3
"""Status with which the process ends when a leader goes on forever."""
_FAILED = 4
_LEADERS = 25
"""At a time. Those of old versions join but once a second; where one ends, each is asked alone."""
_LEADER = "leader"
_OWN_TOPIC = "the-leader-subscribes-to-this"
_UNKNOWN_MEMBER = 25
_PATIENCE_S = 120


def lead(library: Path, strategy: str, specs: Sequence[dict[str, Any]], output: int) -> NoReturn:
    """Let leaders assign, and end the process.

    It ends by a signal when a leader does, and with a status when one goes on forever.

    Args:
        library: the file of librdkafka.
        strategy: of all groups.
        specs: the groups.
        output: a file descriptor; `{"begun": id}` is written there and then the answer, a line
            each. What was begun and has no answer may be why the process ends.
    """
    try:
        asyncio.run(_lead(library, strategy, deque(specs), output))
    finally:
        os._exit(_FAILED)


class _Leader:
    """A group with one member, the leader; the others are only spoken of."""

    def __init__(self, specs: deque[dict[str, Any]], output: int) -> None:
        self._specs = specs
        self._output = output
        self._spec: dict[str, Any] | None = None
        self._generation = 0

    @property
    def is_busy(self) -> bool:
        return self._spec is not None

    def topic(self, name: str) -> Mapping[str, Any] | None:
        if name == _OWN_TOPIC:
            return {"partitions": 1}
        topic: Mapping[str, Any] | None = (self._spec or {"topics": {}})["topics"].get(name)
        return topic

    async def join(self, join: Join) -> Joined:
        if not self._specs:
            await asyncio.Event().wait()
        self._spec = spec = self._specs.popleft()
        self._say({"begun": spec["id"]})
        self._generation += 1
        members = [
            (subscriber.member_id, subscriber.instance_id, subscription(subscriber))
            for subscriber in sent_in(spec)
        ]
        asyncio.get_running_loop().call_later(_PATIENCE_S, self._lose_patience, spec)
        return Joined(self._generation, spec["strategy"], _LEADER, _LEADER, members)

    async def sync(self, member_id: str, assignments: Mapping[str, bytes]) -> bytes | int:
        assert self._spec is not None
        assignment: dict[str, list[list[Any]]] = {
            member["member_id"]: [] for member in self._spec["members"]
        }
        for each, raw in assignments.items():
            assignment[each] = assigned_in(raw)
        self._say({"id": self._spec["id"], "assignment": assignment})
        self._spec = None
        return _UNKNOWN_MEMBER  # after which newer versions join again at once

    def is_rebalancing(self, member_id: str) -> bool:
        return False

    def _say(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(self._output, data) :]

    def _lose_patience(self, spec: Mapping[str, Any]) -> None:
        if self._spec is spec:
            os._exit(ENDLESS)


async def _lead(
    library: Path, strategy: str, specs: deque[dict[str, Any]], output: int
) -> NoReturn:
    loaded = load(library)
    leaders = {f"leader-{at}": _Leader(specs, output) for at in range(min(_LEADERS, len(specs)))}
    broker = Broker(leaders)
    await broker.start()
    for client in leaders:
        Consumer(
            loaded,
            {
                "bootstrap.servers": broker.address,
                "client.id": client,
                "group.id": client,
                "partition.assignment.strategy": strategy,
                "log_level": "0",
            },
        ).subscribe([_OWN_TOPIC])
    while any(leader.is_busy for leader in leaders.values()) or specs:
        await asyncio.sleep(0.005)
    os._exit(0)  # with all those threads
