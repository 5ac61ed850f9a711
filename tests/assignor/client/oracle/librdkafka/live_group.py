"""A group of real consumers of librdkafka, all of whose rebalances are seen."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from tests.assignor.client.oracle.librdkafka.broker import Broker, Join, Joined
from tests.assignor.client.oracle.librdkafka.native import Consumer


class LiveGroup:
    """Consumers that come and go as they are told, with the member ids that they are told.

    Args:
        library: of which they are.
        broker: to which they connect.
        clients: that the broker knows, to which each is added by its client id.
        name: of the group.
        strategy: of all members.

    Attributes:
        topics: as a spec has them.
        generation: of the group.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        broker: Broker,
        clients: dict[str, LiveGroup],
        name: str,
        strategy: str,
    ) -> None:
        self.topics: Mapping[str, Any] = {}
        self._library = library
        self._broker = broker
        self._clients = clients
        self._name = name
        self._strategy = strategy
        self._numbers = count()
        self._consumers: dict[str, Consumer] = {}
        self._member_ids: dict[str, str] = {}
        self.generation = 0
        self._joins: dict[str, tuple[Join, asyncio.Future[Joined]]] = {}
        self._settled: set[str] = set()
        """Who has sent a heartbeat since it was assigned to."""
        self._is_rebalancing = False
        self._assigned: asyncio.Future[Mapping[str, bytes]] | None = None
        self._changed = asyncio.Event()

    def add(self, member: Mapping[str, Any]) -> None:
        """Let a consumer join, with the settings of a member of a spec."""
        client = f"{self._name}-{next(self._numbers)}"
        self._clients[client] = self
        self._member_ids[client] = member["member_id"]
        settings = {
            "bootstrap.servers": self._broker.address,
            "client.id": client,
            "group.id": self._name,
            "partition.assignment.strategy": self._strategy,
            "heartbeat.interval.ms": "20",
            "max.poll.interval.ms": "86400000",
            "log_level": "0",
        }
        if member.get("instance_id"):
            settings["group.instance.id"] = member["instance_id"]
        if member.get("rack"):
            settings["client.rack"] = member["rack"]
        consumer = Consumer(self._library, settings)
        consumer.subscribe(member["topics"])
        self._consumers[member["member_id"]] = consumer

    def subscribe(self, member_id: str, topics: Sequence[str]) -> None:
        """Let a member subscribe to other topics."""
        self._consumers[member_id].subscribe(topics)

    async def remove(self, member_id: str) -> None:
        """Let a member be gone, when it has read its assignment: 2.1.1 ends before that."""
        while member_id not in self._joins.keys() | self._settled:
            self._changed.clear()
            await self._changed.wait()
        consumer = self._consumers.pop(member_id)
        _, waiting = self._joins.pop(member_id, (None, None))
        if waiting is not None:
            waiting.cancel()
        await asyncio.to_thread(consumer.destroy)

    async def gather(self, order: Sequence[str]) -> dict[str, bytes]:
        """Wait until all members have joined; give their subscriptions, by their ids.

        Args:
            order: of the members, in which the leader is told of them.
        """
        self._is_rebalancing = True
        while not self._joins.keys() >= set(order):
            self._changed.clear()
            await self._changed.wait()
        self._is_rebalancing = False
        self.generation += 1
        self._joins = {member_id: self._joins[member_id] for member_id in order}
        return {each: join.protocols[self._strategy] for each, (join, _) in self._joins.items()}

    async def assign(self) -> Mapping[str, bytes]:
        """Let those who have joined go on; give what their leader assigns, by their ids."""
        self._assigned = asyncio.get_running_loop().create_future()
        members = [
            (each, join.instance_id, join.protocols[self._strategy])
            for each, (join, _) in self._joins.items()
        ]
        leader, _, _ = members[self.generation % len(members)]
        for member_id, (_, waiting) in self._joins.items():
            told = members if member_id == leader else ()
            waiting.set_result(Joined(self.generation, self._strategy, leader, member_id, told))
        self._joins = {}
        self._settled.clear()
        return await self._assigned

    def topic(self, name: str) -> Mapping[str, Any] | None:
        topic: Mapping[str, Any] | None = self.topics.get(name)
        return topic

    async def join(self, join: Join) -> Joined:
        member_id = self._member_ids[join.client]
        waiting: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        self._joins[member_id] = join, waiting
        self._changed.set()
        return await waiting

    async def sync(self, member_id: str, assignments: Mapping[str, bytes]) -> bytes | int:
        assert self._assigned is not None
        if assignments:
            self._assigned.set_result(assignments)
        return (await asyncio.shield(self._assigned)).get(member_id, b"")

    def is_rebalancing(self, member_id: str) -> bool:
        self._settled.add(member_id)
        self._changed.set()
        return self._is_rebalancing and member_id not in self._joins
