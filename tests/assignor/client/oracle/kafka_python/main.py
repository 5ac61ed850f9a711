"""What kafka-python says of groups: `python main.py [-in-order] < specs > answers`, one a line.

Runs with any version from 2.0.2 on in its path, without kgroup. Each member encodes its
subscription by the library's assignor, from what it was assigned before; the library's coordinator
decodes all, assigns as leader, and what it would send is decoded again. `topics` are in the order
in which a member names them; the library's own is that of a set.

With `-in-order` the sticky assignor walks over sets in the order of their elements, not of hashes,
which Python draws anew for each process. With `-bytes` what members and the leader send is written
in base64.
"""

from __future__ import annotations

import base64
import json
import logging
import signal
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky import partition_movements, sticky_assignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.version import __version__

VERSION = tuple(int(number) for number in __version__.split("."))
ASSIGNORS = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]
if VERSION >= (3,):
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as MemberAssignment
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as MemberMetadata

    ASSIGNORS.append(CooperativeStickyAssignor)
else:
    from kafka.coordinator import protocol
    from kafka.protocol.metadata import MetadataResponse

    suffix = "_v0" if hasattr(protocol, "ConsumerProtocolMemberMetadata_v0") else ""
    MemberAssignment = getattr(protocol, "ConsumerProtocolMemberAssignment" + suffix)
    MemberMetadata = getattr(protocol, "ConsumerProtocolMemberMetadata" + suffix)

COORDINATOR = MagicMock()
SECONDS = 20  # after which a group is said to take for ever


class InOrder(set[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))

    def intersection(self, *others: Any) -> InOrder:
        return InOrder(super().intersection(*others))

    def pop(self) -> Any:
        first = next(iter(self))
        self.remove(first)
        return first


def assignor_of(strategy: str) -> Any:
    """Return what a consumer has in its configuration: a class, or since 3.0 an object."""
    assignor = next(each for each in ASSIGNORS if each.name == strategy)
    return assignor() if VERSION >= (3,) else assignor


def cluster_of(spec: dict[str, Any]) -> ClusterMetadata:
    """Return a cluster's metadata with the topics to which somebody subscribes."""
    subscribed = {topic for member in spec["members"] for topic in member["topics"]}
    counts = {n: each["partitions"] for n, each in spec["topics"].items() if n in subscribed}
    cluster = ClusterMetadata()
    cluster.update_metadata(metadata_3(counts) if VERSION >= (3,) else metadata_2(counts))
    return cluster


def metadata_2(counts: dict[str, int]) -> Any:
    topics = [
        (0, name, False, [(0, number, 1, [1], [1]) for number in range(count)])
        for name, count in counts.items()
    ]
    return MetadataResponse[1]([(1, "localhost", 9092, None)], 1, topics)


def metadata_3(counts: dict[str, int]) -> SimpleNamespace:
    return SimpleNamespace(
        API_VERSION=1,
        brokers=[(1, "localhost", 9092, None)],
        controller_id=1,
        topics=[
            SimpleNamespace(
                name=name,
                is_internal=False,
                error_code=0,
                topic_id=None,
                partitions=[
                    SimpleNamespace(partition_index=number, leader_id=1, leader_epoch=-1)
                    for number in range(count)
                ],
            )
            for name, count in counts.items()
        ],
    )


def subscription_of(member: dict[str, Any], strategy: str) -> bytes:
    """Return the bytes that a member sends."""
    assignor = assignor_of(strategy)
    if VERSION < (3,) and strategy == "sticky":
        assignor.member_assignment = None
        assignor.generation = assignor.DEFAULT_GENERATION_ID
    if member.get("owned") is not None:
        by_topic: list[
            tuple[str, list[int]]
        ] = []  # as the message has it: what stands together is together
        for topic, partition in member["owned"]:
            if not by_topic or by_topic[-1][0] != topic:
                by_topic.append((topic, []))
            by_topic[-1][1].append(partition)
        received = MemberAssignment(0, by_topic, b"")
        assignment = MemberAssignment.decode(received.encode())
        generation = member.get("generation")
        generation = -1 if generation is None else generation
        if VERSION >= (3,):
            assignor.on_assignment(assignment, generation)
        else:
            assignor.on_assignment(assignment)
            if strategy == "sticky":
                assignor.on_generation_assignment(generation)
    metadata = assignor.metadata(member["topics"])
    if member.get("user_data") is not None and strategy == "sticky":
        metadata = MemberMetadata(0, member["topics"], base64.b64decode(member["user_data"]))
    return bytes(metadata.encode())


def assign(spec: dict[str, Any]) -> dict[str, bytes]:
    """Give the bytes that the leader sends to each member."""
    strategy = spec["strategy"]
    members: list[Any] = []
    for member in spec["members"]:
        sent, instance_id = subscription_of(member, strategy), member.get("instance_id")
        if VERSION >= (2, 3):
            members.append(
                SimpleNamespace(
                    member_id=member["member_id"],
                    group_instance_id=instance_id,
                    metadata_bytes=sent,
                    metadata=sent,
                )
            )
        else:
            members.append((member["member_id"], sent))
    COORDINATOR._lookup_assignor = assignor_of
    COORDINATOR._cluster = cluster_of(spec)
    assigned = ConsumerCoordinator._perform_assignment(COORDINATOR, "", strategy, members)
    return {member_id: assignment.encode() for member_id, assignment in assigned.items()}


def answer(spec: dict[str, Any], *, with_bytes: bool) -> dict[str, Any]:
    try:
        signal.alarm(SECONDS)
        sent = assign(spec)
        said: dict[str, Any] = {"assignment": {each: listed(raw) for each, raw in sent.items()}}
        if with_bytes:
            said["subscriptions"] = {
                member["member_id"]: in_base64(subscription_of(member, spec["strategy"]))
                for member in spec["members"]
            }
            said["assignments"] = {each: in_base64(raw) for each, raw in sent.items()}
    except Exception as error:
        said = {"error": {"type": type(error).__name__, "message": str(error)}}
    finally:
        signal.alarm(0)
    return {"id": spec["id"], **said}


def listed(assignment: bytes) -> list[list[Any]]:
    return [list(partition) for partition in MemberAssignment.decode(assignment).partitions()]


def in_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _give_up(signum: int, frame: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _give_up)
    if "-in-order" in sys.argv:
        partition_movements.set = sticky_assignor.set = InOrder
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), with_bytes="-bytes" in sys.argv)), flush=True)
