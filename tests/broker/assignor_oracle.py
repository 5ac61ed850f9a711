"""Kafka's own assignors, and Java's maps, asked in a JVM."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgroup.assignor.base import Subscriber
from kgroup.assignor.client.java import JAVA
from kgroup.assignor.member_spec import NEWEST
from kgroup.assignor.sticky.claim import or_no_generation
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.spec import read_spec
from tests.assignor.case.hash_map import MapCase
from tests.broker import maven
from tests.examples import in_depth

_COMPILED_AGAINST = "3.9.2"
"""Version whose classes the program knows that asks earlier clients."""
_COMPILED_FIRST = "1.1.1"
"""Likewise for the first clients, which have other interfaces."""

_CLASSIC = "org.apache.kafka.clients.consumer."


def main_class(protocol: str, kafka_version: str) -> str:
    """Name the Java program that asks the assignors of a protocol."""
    if protocol == "classic":
        return f"{_CLASSIC}{'OldAssignorOracle' if kafka_version < '2.4' else 'AssignorOracle'}"
    program = "ZookeeperAssignorOracle" if protocol == "zookeeper" else "ServerAssignorOracle"
    return f"kgroup.{program}"


def ask(
    specs: Sequence[Mapping[str, Any]], protocol: str, kafka_version: str
) -> list[dict[str, Any]]:
    """Give for each spec the `assignment`, or the `error` that the assignor throws."""
    first = None
    main = main_class(protocol, kafka_version)
    if protocol == "classic" and "2.4" <= kafka_version < NEWEST:
        first = maven.client_jar(kafka_version)
        main, kafka_version = f"{_CLASSIC}ClientAssignorOracle", _COMPILED_AGAINST
        specs = [_with_bytes(spec) for spec in specs]
    elif protocol == "classic" and kafka_version < "2.4" and kafka_version != _COMPILED_FIRST:
        first = maven.client_jar(kafka_version)
        kafka_version = _COMPILED_FIRST
        specs = [_with_bytes(spec) for spec in specs]
    done = maven.run_java(
        kafka_version,
        main,
        [],
        input="".join(json.dumps(spec) + "\n" for spec in specs).encode(),
        classes=maven.compile_oracle(main, kafka_version),
        heap="512m",
        jvm=[
            "-Dkgroup.log=OFF",
            f"-XX:TieredStopAtLevel={in_depth(4, 1)}",
            "-XX:-OmitStackTraceInFastThrow",  # which leaves messages out too, after many errors
            # where Kafka itself runs on Java 8, which has no such messages
            f"-XX:{'-' if protocol == 'zookeeper' else '+'}ShowCodeDetailsInExceptionMessages",
        ],
        timeout=3600,
        # Keys with one hash are in a tree in the order of their identity hash codes, which depend
        # on how classes are loaded.
        archive=None,
        first=first,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _with_bytes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec whose members have subscriptions and user data as bytes, as kgroup says."""
    group = read_spec(spec)
    sent = JAVA.as_sent(group.members_as_sent, group.strategy, group.computed_as.version)
    by_id = {subscriber.member_id: subscriber for subscriber in sent}
    members = []
    for member in spec["members"]:
        subscriber = by_id[member["member_id"]]
        user_data = base64.b64decode(member["user_data"]) if "user_data" in member else None
        if user_data is None:
            user_data = _user_data(subscriber, group.strategy)
        message = _subscription(subscriber, user_data)
        fields = {"bytes": base64.b64encode(message).decode()}
        if user_data is not None:
            fields["user_data"] = base64.b64encode(user_data).decode()
        members.append({**member, **fields})
    return {**spec, "members": members}


def _user_data(member: Subscriber, strategy: str) -> bytes | None:
    generation = struct.pack(">i", or_no_generation(member.remembered_generation))
    if strategy == "cooperative-sticky":
        return None if member.remembered_generation is None else generation
    if strategy == "sticky" and member.remembered is not None:
        return _partitions(member.remembered) + generation
    return None


def _subscription(member: Subscriber, user_data: bytes | None) -> bytes:
    """Encode a subscription.

    Layout: version int16, topics, user data as bytes with an int32 length (-1: null); from version
    1 on owned partitions, from 2 on generation int32, from 3 on rack as a nullable string.
    """
    message = struct.pack(">hi", member.version, len(member.topics))
    message += b"".join(map(_text, member.topics))
    message += struct.pack(">i", -1 if user_data is None else len(user_data)) + (user_data or b"")
    if member.version >= 1:
        message += _partitions(member.owned)
    if member.version >= 2:
        message += struct.pack(">i", or_no_generation(member.generation))
    if member.version >= 3:
        message += struct.pack(">h", -1) if member.rack is None else _text(member.rack)
    return message


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return struct.pack(">i", len(by_topic)) + b"".join(
        _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in by_topic.items()
    )


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def ask_hash_order(cases: Iterable[MapCase]) -> list[list[str]]:
    """Return the keys of each map as Java's HashMap iterates over them."""
    kafka = "4.3.1"  # for its JSON library
    classes = maven.compile_java([Path(__file__).parent / "java" / "HashOrder.java"], kafka)
    lines = (json.dumps({"capacity": case.capacity, "steps": case.steps}) for case in cases)
    text = "".join(f"{line}\n" for line in lines)
    done = maven.run_java(kafka, "kgroup.HashOrder", [], input=text.encode(), classes=classes)
    return [json.loads(line) for line in done.stdout.splitlines()]
