"""What the recording does by raw requests: set-up, and clients that no library would let be."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from struct import pack
from typing import Any

from tests.broker.maven import version_tuple
from tests.record.wire import Wire, WireError
from tests.waiting import until

GROUPS = tuple(map(str, range(100)))
"""Ids of which each partition of `__consumer_offsets` has one, of up to 50 partitions."""


def await_coordinator(wire: Wire) -> None:
    """Wait until `__consumer_offsets` exists, and all coordinators have loaded it."""
    with ExitStack() as stack:
        wires: dict[str, Wire] = {}

        def is_loaded(group: str) -> bool:
            place = wire.call("FindCoordinator", 0, key=group)
            if place["error_code"]:
                return False
            address = f"{place['host']}:{place['port']}"
            if address not in wires:
                wires[address] = stack.enter_context(Wire(wire.version, address))
            if version_tuple(wire.version) < (0, 9):
                return True
            (found,) = wires[address].call("DescribeGroups", groups=[group])["groups"]
            return found["error_code"] not in COORDINATOR_NOT_READY

        for group in GROUPS:
            until(partial(is_loaded, group))
    time.sleep(1)  # coordinators hear of new topics a little later than who answers Metadata


def create_topics(wire: Wire, topics: Mapping[str, int], **config: str) -> None:
    """Create topics with one replica, given their numbers of partitions (brokers since 0.10.1).

    Returns once the broker that is asked knows a leader of each partition.
    """
    answer = wire.call(
        "CreateTopics",
        timeout_ms=30_000,
        topics=[
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in config.items()],
            }
            for name, partitions in topics.items()
        ],
    )
    _check("CreateTopics", *answer["topics"])

    def led() -> bool:
        known = {
            topic["name"]: topic["partitions"]
            for topic in wire.call("Metadata", topics=None)["topics"]
        }
        return all(
            sum(partition["leader_id"] >= 0 for partition in known.get(name, ())) == partitions
            for name, partitions in topics.items()
        )

    until(led)


def configure_group(wire: Wire, group: str, **config: str) -> None:
    """Set dynamic configuration of a group (brokers since 4.0); option names have `_` for `.`."""
    _configure(wire, 32, group, config)


def configure_topic(wire: Wire, topic: str, **config: str) -> None:
    """Set configuration of a topic (brokers since 2.3); option names have `_` for `.`."""
    _configure(wire, 2, topic, config)


def _configure(wire: Wire, resource_type: int, name: str, config: Mapping[str, str]) -> None:
    """Set configuration, and wait until the broker that is asked knows it."""
    rows = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": value}
        for key, value in config.items()
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": rows}
    answer = wire.call("IncrementalAlterConfigs", resources=[resource], validate_only=False)
    _check(f"IncrementalAlterConfigs {name!r}", *answer["responses"])
    wanted = {row["name"]: row["value"] for row in rows}
    asked = {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}

    def is_known() -> bool:
        (found,) = wire.call("DescribeConfigs", resources=[asked])["results"]
        return wanted.items() <= {row["name"]: row["value"] for row in found["configs"]}.items()

    until(is_known)


def commit(
    wire: Wire,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    metadata: str | None = "",
    version: int | None = None,
    member: tuple[str, int] = ("", -1),
    **more: Any,
) -> None:
    """Commit offsets of (topic, partition); `version` chooses what the request can carry.

    `more` sets further fields: `retention_time_ms` (request versions 2 to 4), or, for each
    partition, `commit_timestamp` (version 1) and `committed_leader_epoch` (version 6 and later).
    """
    whole = {key: more.pop(key) for key in ("retention_time_ms",) if key in more}
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_metadata": metadata,
                **more,
            }
        )
    for attempt in range(600):
        answer = wire.call(
            "OffsetCommit",
            version,
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[{"name": name, "partitions": rows} for name, rows in topics.items()],
            **whole,
        )
        results = [row for topic in answer["topics"] for row in topic["partitions"]]
        if attempt == 599 or not {row["error_code"] for row in results} & BROKER_NOT_READY:
            break
        time.sleep(0.2)
    _check(f"OffsetCommit {group!r}", *results)


def commit_each(version: str, bootstrap: str, group: str, offsets: Sequence[int]) -> None:
    """Commit one offset of orders-0 after the other, each by a request of its own."""
    with Wire(version, bootstrap) as wire:
        for offset in offsets:
            commit(wire, group, {("orders", 0): offset})


COORDINATOR_NOT_READY = {14, 15, 16}
"""Codes: loading, no (or not yet) coordinator."""
BROKER_NOT_READY = {3, *COORDINATOR_NOT_READY}
"""Codes of a broker that has just started, of an unknown topic too."""


class RawMember:
    """A member of a classic group that sits on one connection, with any bytes as metadata."""

    def __init__(self, version: str, bootstrap: str, client_id: str) -> None:
        self.bootstrap = bootstrap
        self.wire = Wire(version, bootstrap, client_id)
        self.member_id = ""
        self.generation = -1

    def close(self) -> None:
        """Close the connection; the member stays in its group until its session times out."""
        self.wire.close()


def knock(member: RawMember, group: str, protocols: Mapping[str, bytes]) -> None:
    """Ask to join a group that has other members, and wait only until it rebalances."""
    fields = _join_fields(member.wire.version, group, protocols, "consumer", None)
    member_id = ""
    if version_tuple(member.wire.version) >= (2, 2):  # gives an id first, and waits then
        member_id = member.wire.call("JoinGroup", **fields, member_id="")["member_id"]
    member.wire.send("JoinGroup", **fields, member_id=member_id)
    with Wire(member.wire.version, member.bootstrap) as wire:

        def rebalances() -> bool:
            (found,) = wire.call("DescribeGroups", groups=[group])["groups"]
            is_known = member_id in {each["member_id"] for each in found["members"]}
            return found["group_state"] == "PreparingRebalance" and (is_known or not member_id)

        until(rebalances)


def join(
    member: RawMember,
    group: str,
    protocols: Mapping[str, bytes],
    assignments: Mapping[str, bytes] | bytes,
    *,
    protocol_type: str = "consumer",
    instance_id: str | None = None,
    before_sync: Callable[[], object] = lambda: None,
) -> None:
    """Join a group as its leader, perhaps again, and assign (bytes: to itself)."""
    fields = _join_fields(member.wire.version, group, protocols, protocol_type, instance_id)
    answer = member.wire.call("JoinGroup", **fields, member_id=member.member_id)
    if answer["error_code"] == 79:  # MEMBER_ID_REQUIRED: join again with the id given
        answer = member.wire.call("JoinGroup", **fields, member_id=answer["member_id"])
    _check(f"JoinGroup {group!r}", answer)
    member.member_id = answer["member_id"]
    member.generation = answer["generation_id"]
    before_sync()
    if isinstance(assignments, bytes):
        assignments = {member.member_id: assignments}
    synced = member.wire.call(
        "SyncGroup",
        group_id=group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocol_name=answer["protocol_name"],
        assignments=[{"member_id": key, "assignment": data} for key, data in assignments.items()],
    )
    _check(f"SyncGroup {group!r}", synced)


def _join_fields(
    version: str,
    group: str,
    protocols: Mapping[str, bytes],
    protocol_type: str,
    instance_id: str | None,
) -> dict[str, Any]:
    # The longest that brokers allow by default: a raw member never sends a heartbeat, and shall
    # outlive the recording or the test.
    timeout_ms = 1_800_000 if version_tuple(version) >= (2, 3) else 300_000
    return {
        "group_id": group,
        "session_timeout_ms": timeout_ms,
        "rebalance_timeout_ms": timeout_ms,
        "protocol_type": protocol_type,
        "protocols": [{"name": name, "metadata": data} for name, data in protocols.items()],
        "group_instance_id": instance_id,
    }


def consumer_protocol(topics: Sequence[str], partition: int | None = None) -> bytes:
    """Write a subscription to topics, or the assignment of a partition of each; version 0."""
    data = pack(">hi", 0, len(topics))
    for topic in topics:
        data += pack(f">h{len(topic)}s", len(topic), topic.encode())
        data += b"" if partition is None else pack(">ii", 1, partition)
    return data + pack(">i", -1)


def await_expired(
    wire: Wire, group: str, topic: str, partition: int, *, seconds: float = 60
) -> None:
    """Wait until the broker has dropped a committed offset."""
    deadline = time.monotonic() + seconds
    asked = [{"name": topic, "partition_indexes": [partition]}]
    while time.monotonic() < deadline:
        answer = wire.call("OffsetFetch", 1, group_id=group, topics=asked)
        if answer["topics"][0]["partitions"][0]["committed_offset"] < 0:
            return
        time.sleep(0.2)
    raise WireError(f"the offset of {group!r} has not expired within {seconds:g} s")


def delete_groups(wire: Wire, *groups: str) -> None:
    """Delete empty groups (brokers since 1.1)."""
    answer = wire.call("DeleteGroups", groups_names=list(groups))
    _check("DeleteGroups", *answer["results"])


def delete_offsets(wire: Wire, group: str, partitions: Sequence[tuple[str, int]]) -> None:
    """Delete committed offsets of a group (brokers since 2.4)."""
    answer = wire.call(
        "OffsetDelete",
        group_id=group,
        topics=[
            {"name": topic, "partitions": [{"partition_index": partition}]}
            for topic, partition in partitions
        ],
    )
    _check("OffsetDelete", answer)
    for topic in answer["topics"]:
        _check(f"OffsetDelete {group!r}", *topic["partitions"])


def add_offsets_to_transaction(
    wire: Wire, transactional_id: str, group: str, *, commit: bool
) -> None:
    """Take a group's partition into a transaction, commit no offset, end it: only a marker.

    Old request versions only, those before transactions of version 2.
    """
    init = wire.call(
        "InitProducerId", 0, transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    _check("InitProducerId", init)
    producer = {key: init[key] for key in ("producer_id", "producer_epoch")}
    added = wire.call(
        "AddOffsetsToTxn", 0, transactional_id=transactional_id, group_id=group, **producer
    )
    _check("AddOffsetsToTxn", added)
    ended = wire.call("EndTxn", 0, transactional_id=transactional_id, committed=commit, **producer)
    _check("EndTxn", ended)


def _check(what: str, *answers: Mapping[str, Any]) -> None:
    for answer in answers:
        if answer["error_code"]:
            raise WireError(f"{what}: {dict(answer)}")
