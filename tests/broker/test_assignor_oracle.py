"""Assignors against those of kafka-clients and group-coordinator 4.3.1."""

import base64
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor import server_range, simple, uniform
from kgroup.assignor.base import Assignment, AssignorError, Topic
from kgroup.assignor.classic import CLASSIC_ASSIGNORS, CLASSIC_ASSIGNORS_1_1
from kgroup.assignor.server import ServerMember, ServerTopic
from kgroup.assignor.subscription import Joining, UserData, as_sent, as_sent_1_1
from kgroup.protocol.consumer_protocol import decode_subscription
from tests.assignor.random_group import RandomGroup
from tests.broker import maven

pytestmark = pytest.mark.broker

KAFKA = "4.3.1"
SERVER_ASSIGNORS = {
    ("consumer", "uniform"): uniform.assign,
    ("consumer", "range"): server_range.assign,
    ("share", "simple"): simple.assign,
}
CASES = 2000
ROUNDS = 5


@pytest.mark.parametrize("strategy", CLASSIC_ASSIGNORS)
def test_random_classic_groups(strategy: str) -> None:
    main = "org.apache.kafka.clients.consumer.AssignorOracle"
    _compare("classic", strategy, main)


@pytest.mark.parametrize("strategy", CLASSIC_ASSIGNORS_1_1)
def test_random_classic_groups_of_1_1(strategy: str) -> None:
    main = "org.apache.kafka.clients.consumer.OldAssignorOracle"
    _compare("classic", strategy, main, "1.1.1")


@pytest.mark.parametrize(
    ("protocol", "strategy"), [("consumer", "uniform"), ("consumer", "range"), ("share", "simple")]
)
def test_random_groups_of_the_coordinator(protocol: str, strategy: str) -> None:
    _compare(protocol, strategy, "kgroup.ServerAssignorOracle")


def _compare(protocol: str, strategy: str, main: str, kafka: str = KAFKA) -> None:
    assign = _assign if protocol == "classic" else _assign_by_server
    if kafka != KAFKA:
        assign = _assign_1_1
    specs, ours = [], []
    for seed in range(CASES // ROUNDS):
        hashes_partitions = strategy == "simple" or (strategy == "sticky" and kafka != KAFKA)
        group = RandomGroup(seed, strategy, protocol, hashes_partitions=hashes_partitions)
        for _ in range(ROUNDS):
            specs.append(group.spec)
            ours.append(assign(group.spec))
            group.go_on(ours[-1].get("assignment"))
    source = Path(__file__).parent / "java" / f"{main.rpartition('.')[2]}.java"
    classes = maven.compile_java([source], kafka)
    lines = "".join(json.dumps(spec) + "\n" for spec in specs)
    done = maven.run_java(
        kafka,
        main,
        [],
        input=lines.encode(),
        classes=classes,
        heap="512m",
        jvm=["-Dkgroup.log=OFF"],
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    differences = [
        (spec, answer, own)
        for spec, answer, own in zip(specs, answers, ours, strict=True)
        if answer != {"id": spec["id"], **own}
    ]
    errors = sum("error" in answer for answer in answers)
    counts = f"{len(specs)} cases, {errors} errors, {len(differences)} differences"
    print(f"{protocol} {strategy} {kafka}: {counts}")
    assert not differences, min(differences, key=lambda each: len(str(each)))


def _assign(spec: Mapping[str, Any]) -> dict[str, Any]:
    topics = {
        name: Topic(
            topic["partitions"],
            tuple(map(frozenset, topic["racks"])) if "racks" in topic else None,
        )
        for name, topic in spec["topics"].items()
    }
    strategy = spec["strategy"]
    members = [as_sent(_joining(member, strategy), strategy) for member in spec["members"]]
    return _answer(lambda: CLASSIC_ASSIGNORS[strategy](members, topics))


def _assign_1_1(spec: Mapping[str, Any]) -> dict[str, Any]:
    topics = {name: Topic(topic["partitions"]) for name, topic in spec["topics"].items()}
    strategy = spec["strategy"]
    members = [
        as_sent_1_1(_joining(member | {"user_data": None}, strategy), strategy)
        for member in spec["members"]
    ]
    return _answer(lambda: CLASSIC_ASSIGNORS_1_1[strategy](members, topics))


def _assign_by_server(spec: Mapping[str, Any]) -> dict[str, Any]:
    ids = {
        name: base64.urlsafe_b64decode(topic_id + "==")
        for name, topic_id in spec["topic_ids"].items()
    }
    topics = {
        name: ServerTopic(ids[name], topic["partitions"]) for name, topic in spec["topics"].items()
    }
    members = [
        ServerMember(
            member["member_id"],
            tuple(member["topics"]),
            member.get("instance_id"),
            tuple((ids[topic], partition) for topic, partition in member.get("owned", ())),
        )
        for member in spec["members"]
    ]
    names = {topic_id: name for name, topic_id in ids.items()}
    assign = SERVER_ASSIGNORS[spec["protocol"], spec["strategy"]]
    return _answer(
        lambda: {
            member: [(names[topic_id], partition) for topic_id, partition in partitions]
            for member, partitions in assign(members, topics).items()
        }
    )


def _answer(assign: Callable[[], Assignment]) -> dict[str, Any]:
    try:
        assignment = assign()
    except AssignorError as error:
        return {"error": {"type": error.type, "message": error.message or None}}
    return {
        "assignment": {
            member: [list(partition) for partition in partitions]
            for member, partitions in assignment.items()
        }
    }


def _joining(member: Mapping[str, Any], strategy: str) -> Joining:
    return Joining(
        member_id=member["member_id"],
        topics=tuple(member["topics"]),
        instance_id=member.get("instance_id"),
        rack=member.get("rack"),
        owned=tuple((t, p) for t, p in member["owned"]) if "owned" in member else None,
        generation=member.get("generation"),
        version=member.get("protocol_version", 3),
        subscription_generation=member.get("subscription_generation"),
        user_data=_user_data(member["user_data"], strategy) if member.get("user_data") else None,
    )


def _user_data(text: str, strategy: str) -> UserData:
    raw = base64.b64decode(text)
    if not raw:
        return UserData(generation=None if strategy == "sticky" else -1)
    message = struct.pack(">hii", 0, 0, len(raw)) + raw
    data = decode_subscription(message, strategy)["userData"]
    if not isinstance(data, dict) or "error" in data:
        return UserData(generation=-1)
    return UserData(
        tuple(
            (topic["topic"], partition)
            for topic in data.get("previousAssignment", ())
            for partition in topic["partitions"]
        ),
        data.get("generation"),
    )
