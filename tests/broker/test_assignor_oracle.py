"""Assignors of classic groups, against those of kafka-clients 4.3.1."""

import base64
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor.base import AssignorError, Topic
from kgroup.assignor.classic import CLASSIC_ASSIGNORS
from kgroup.assignor.subscription import Joining, UserData, as_sent
from kgroup.protocol.consumer_protocol import decode_subscription
from tests.assignor.random_group import RandomGroup
from tests.broker import maven

pytestmark = pytest.mark.broker

KAFKA = "4.3.1"
CASES = 2000
ROUNDS = 5


@pytest.mark.parametrize("strategy", CLASSIC_ASSIGNORS)
def test_random_groups(strategy: str) -> None:
    specs, ours = [], []
    for seed in range(CASES // ROUNDS):
        group = RandomGroup(seed, strategy)
        for _ in range(ROUNDS):
            specs.append(group.spec)
            ours.append(_assign(group.spec))
            group.go_on(ours[-1].get("assignment"))
    source = Path(__file__).parent / "java" / "AssignorOracle.java"
    classes = maven.compile_java([source], KAFKA)
    main = "org.apache.kafka.clients.consumer.AssignorOracle"
    lines = "".join(json.dumps(spec) + "\n" for spec in specs)
    done = maven.run_java(
        KAFKA,
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
    print(f"{strategy}: {len(specs)} cases, {errors} errors, {len(differences)} differences")
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
    try:
        assignment = CLASSIC_ASSIGNORS[strategy](members, topics)
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
        user_data=_user_data(member["user_data"], strategy) if "user_data" in member else None,
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
