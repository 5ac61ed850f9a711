"""What aiokafka says of groups: `python main.py < specs > answers`, one a line.

Members encode their subscriptions by the library's assignors; the leader decodes them, assigns, and
what it would send is decoded again. Sets are walked in the order of their elements.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from types import SimpleNamespace
from typing import Any

ASSIGNORS = "aiokafka.coordinator.assignors."
cluster: Any = import_module("aiokafka.cluster")
protocol: Any = import_module("aiokafka.coordinator.protocol")
sticky: Any = import_module(ASSIGNORS + "sticky.sticky_assignor")
movements: Any = import_module(ASSIGNORS + "sticky.partition_movements")
STRATEGIES = {
    "range": import_module(ASSIGNORS + "range").RangePartitionAssignor,
    "roundrobin": import_module(ASSIGNORS + "roundrobin").RoundRobinPartitionAssignor,
    "sticky": sticky.StickyPartitionAssignor,
}


class InOrder(set[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))

    def intersection(self, *others: Any) -> InOrder:
        return InOrder(super().intersection(*others))

    def pop(self) -> Any:
        first = next(iter(self))
        self.remove(first)
        return first


def subscription_of(member: dict[str, Any], assignor: Any) -> bytes:
    """Return the bytes that a member sends."""
    if assignor is sticky.StickyPartitionAssignor:
        assignor.member_assignment = None
        assignor.generation = assignor.DEFAULT_GENERATION_ID
        if member.get("owned") is not None:
            by_topic = groupby(member["owned"], key=lambda at: at[0])
            rows = [(topic, [number for _, number in own]) for topic, own in by_topic]
            given = protocol.ConsumerProtocolMemberAssignment(0, rows, b"")
            assignor.on_assignment(given)
            generation = member.get("generation")
            assignor.on_generation_assignment(-1 if generation is None else generation)
    said = assignor.metadata(member["topics"])  # which old versions keep by a weak reference
    return bytes(said.encode())


def answer(spec: dict[str, Any]) -> dict[str, Any]:
    assignor = STRATEGIES[spec["strategy"]]
    subscribed = {topic for member in spec["members"] for topic in member["topics"]}
    topics = [
        (0, name, False, [(0, number, 1, [1], [1]) for number in range(topic["partitions"])])
        for name, topic in spec["topics"].items()
        if name in subscribed
    ]
    known = cluster.ClusterMetadata()
    known.update_metadata(
        SimpleNamespace(
            API_VERSION=1, brokers=[(1, "localhost", 9092, None)], controller_id=1, topics=topics
        )
    )
    try:
        members = {
            member["member_id"]: protocol.ConsumerProtocolMemberMetadata.decode(
                subscription_of(member, assignor)
            )
            for member in spec["members"]
        }
        assigned = assignor.assign(known, members)
        return {
            "id": spec["id"],
            "assignment": {each: listed(given.encode()) for each, given in assigned.items()},
        }
    except Exception as error:
        return {"id": spec["id"], "error": {"type": type(error).__name__, "message": str(error)}}


def listed(assignment: bytes) -> list[list[Any]]:
    decoded = protocol.ConsumerProtocolMemberAssignment.decode(assignment)
    return [list(partition) for partition in decoded.partitions()]


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    movements.set = sticky.set = InOrder
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
