"""Random histories of groups of librdkafka, foretold and then lived through.

    python -m tests.assignor.client.oracle.librdkafka.histories VERSION STRATEGY HISTORIES

Tells how many rebalances there were, how many were foretold wrong, and the first of these. A
history ends before a rebalance in which, as it is foretold, the leader's process ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from kgroup.protocol.record.consumer_protocol import decode_subscription
from tests.assignor.case.notation import answer_of, assigned
from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.librdkafka.ask import library
from tests.assignor.client.oracle.librdkafka.broker import Broker
from tests.assignor.client.oracle.librdkafka.live_group import LiveGroup
from tests.assignor.client.oracle.librdkafka.message import assigned_in, sent_in, subscription
from tests.assignor.client.oracle.librdkafka.native import load
from tests.assignor.random_group import RandomGroup

_ROUNDS = 5
_MOST_REBALANCES = 8
"""After a change: where racks matter some groups never become stable."""
_MOST_MEMBERS = 12
_AT_ONCE = 10


async def live(model: Model, seeds: range) -> tuple[int, list[str]]:
    """Live through histories; give how many rebalances there were, and what differed."""
    groups: dict[str, LiveGroup] = {}
    broker = Broker(groups)
    await broker.start()
    loaded = load(library(model.version))
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(seed: int) -> _History:
        async with room:
            group = LiveGroup(loaded, broker, groups, f"group-{seed}", model.strategy)
            history = _History(model, group)
            await history.live(seed)
            return history

    lived = await asyncio.gather(*map(one, seeds))
    differences = [difference for history in lived for difference in history.differences]
    return sum(history.rebalances for history in lived), differences


class _History:
    """What kgroup knows of a group, beside the group itself.

    Attributes:
        rebalances: how many there were.
        differences: what was foretold wrong.
    """

    def __init__(self, model: Model, group: LiveGroup) -> None:
        self.rebalances = 0
        self.differences: list[str] = []
        self._model = model
        self._group = group
        self._members: dict[str, dict[str, Any]] = {}
        self._owned: dict[str, list[list[Any]]] = {}

    async def live(self, seed: int) -> None:
        """Live through a history."""
        random = RandomGroup(seed, self._model.strategy)
        for _ in range(_ROUNDS):
            spec = random.spec
            if not _can_live(spec):
                break
            _set_racks(spec, are_used=seed % 2 == 0)
            await self._change(spec)
            for _ in range(_MOST_REBALANCES):
                goes_on = await self._rebalance(spec)
                if not goes_on:
                    break
            if goes_on is None:
                break
            random.go_on({member: self._owned[member] for member in self._members})
        for member_id in self._members:
            await self._group.remove(member_id)

    async def _change(self, spec: Mapping[str, Any]) -> None:
        """Let members come, go and subscribe as in a spec."""
        self._group.topics = spec["topics"]
        wanted = {member["member_id"]: member for member in spec["members"]}
        for member_id in self._members.keys() - wanted.keys():
            await self._group.remove(member_id)
        for member_id, member in wanted.items():
            if member_id not in self._members:
                self._group.add(member)
            elif member["topics"] != self._members[member_id]["topics"]:
                self._group.subscribe(member_id, member["topics"])
        self._members = wanted

    async def _rebalance(self, spec: Mapping[str, Any]) -> bool | None:
        """Foretell a rebalance and look at it.

        Returns whether another one follows; None where the leader's process is to end.
        """
        sent = await self._group.gather(list(self._members))
        topics = {each: decode_subscription(raw)["topics"] for each, raw in sent.items()}
        told = {
            **spec,
            "client": f"{self._model.library}@{self._model.version}",
            "members": [self._as_joined(topic, topics[topic]) for topic in topics],
        }
        written = {subscriber.member_id: subscription(subscriber) for subscriber in sent_in(told)}
        if written != sent:
            self.differences.append(f"{told}\nwritten: {written}\nsent: {sent}")
        foretold = assigned(told)
        if "error" in foretold:
            return None
        given = await self._group.assign()
        self.rebalances += 1
        gets = {topic: assigned_in(given.get(topic, b"")) for topic in topics}
        if answer_of(foretold) != answer_of({"assignment": gets}):
            self.differences.append(f"{told}\nforetold: {foretold}\nassigned: {gets}")
        loses = any(
            [partition for partition in self._owned.get(each, ()) if partition not in got]
            for each, got in gets.items()
        )
        self._owned = gets
        is_late = any(
            set(topics[each]) != set(member["topics"]) for each, member in self._members.items()
        )
        return is_late or (loses and self._model.strategy == "cooperative-sticky")

    def _as_joined(self, member_id: str, topics: list[str]) -> dict[str, Any]:
        member = {
            name: value
            for name, value in self._members[member_id].items()
            if name in ("member_id", "instance_id", "rack")
        }
        member["topics"] = topics
        if member_id in self._owned:
            member |= {"owned": self._owned[member_id], "generation": self._group.generation - 1}
        return member


def _can_live(spec: Mapping[str, Any]) -> bool:
    """Return whether consumers can be such a group.

    They send no topic that does not exist, join for no topic at all never, and are too many
    threads in large groups.
    """
    topics = {name for name, topic in spec["topics"].items() if topic["partitions"]}
    return len(spec["members"]) <= _MOST_MEMBERS and all(
        member["topics"] and topics.issuperset(member["topics"]) for member in spec["members"]
    )


def _set_racks(spec: Mapping[str, Any], *, are_used: bool) -> None:
    """Give all members racks, or topics none.

    A leader that has none itself keeps addresses of topics' racks that it has given back, and may
    read there when it joins again.
    """
    if are_used:
        for member in spec["members"]:
            member["rack"] = member.get("rack") or "elsewhere"
    else:
        for topic in spec["topics"].values():
            topic.pop("racks", None)


def main() -> None:
    """Live through histories."""
    version, strategy, histories = sys.argv[1:]
    model = Model("librdkafka", version, strategy)
    rebalances, differences = asyncio.run(live(model, range(int(histories))))
    print(*differences[:3], sep="\n")
    print(
        f"{model}: {histories} histories, {rebalances} rebalances, {len(differences)} differences"
    )
    sys.stdout.flush()
    os._exit(min(1, len(differences)))  # with all those threads


if __name__ == "__main__":
    main()
