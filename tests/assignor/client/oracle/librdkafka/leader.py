"""Lets leaders of librdkafka assign, each for one group after the other.

    python -m tests.assignor.client.oracle.librdkafka.leader LIBRARY STRATEGY < specs > answers

Reads specs and writes, a line each, `{"begun": id}` and then the answer. Ends by a signal when a
leader does, and with status 3 when one goes on forever; what was begun and has no answer is why.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgroup.assignor.client.librdkafka.library import LIBRDKAFKA
from kgroup.operation.assign.spec import read_spec
from tests.assignor.client.oracle.librdkafka.ask import ENDLESS
from tests.assignor.client.oracle.librdkafka.broker import Broker, Join, Joined
from tests.assignor.client.oracle.librdkafka.message import assigned_in, subscription
from tests.assignor.client.oracle.librdkafka.native import Consumer, load

__all__ = ["main"]

_LEADERS = 100
_LEADER = "leader"
_OWN_TOPIC = "the-leader-subscribes-to-this"
_UNKNOWN_MEMBER = 25
_PATIENCE_S = 120


class _Leader:
    """A group with one member, the leader; the others are only spoken of."""

    def __init__(self, specs: deque[dict[str, Any]]) -> None:
        self._specs = specs
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
        _say({"begun": spec["id"]})
        self._generation += 1
        group = read_spec(spec)
        assert group.client is not None
        sent = LIBRDKAFKA.as_sent(group.members_as_sent, group.strategy, group.client.version)
        members = [(each.member_id, each.instance_id, subscription(each)) for each in sent]
        asyncio.get_running_loop().call_later(_PATIENCE_S, self._lose_patience, spec)
        return Joined(self._generation, spec["strategy"], _LEADER, _LEADER, members)

    async def sync(self, member_id: str, assignments: Mapping[str, bytes]) -> bytes | int:
        assert self._spec is not None
        assignment: dict[str, list[list[Any]]] = {
            member["member_id"]: [] for member in self._spec["members"]
        }
        for each, raw in assignments.items():
            assignment[each] = assigned_in(raw)
        _say({"id": self._spec["id"], "assignment": assignment})
        self._spec = None
        return _UNKNOWN_MEMBER  # after which newer versions join again at once

    def is_rebalancing(self, member_id: str) -> bool:
        return False

    def _lose_patience(self, spec: Mapping[str, Any]) -> None:
        if self._spec is spec:
            sys.stdout.flush()
            os._exit(ENDLESS)


def _say(line: Mapping[str, Any]) -> None:
    print(json.dumps(line), flush=True)


async def _lead(library: Path, strategy: str, specs: deque[dict[str, Any]]) -> None:
    loaded = load(library)
    leaders = {f"leader-{at}": _Leader(specs) for at in range(min(_LEADERS, len(specs)))}
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
        await asyncio.sleep(0.05)
    os._exit(0)  # with all those threads


def main() -> None:
    """Ask."""
    library, strategy = sys.argv[1:]
    asyncio.run(_lead(Path(library), strategy, deque(json.loads(line) for line in sys.stdin)))


if __name__ == "__main__":
    main()
