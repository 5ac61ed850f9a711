"""Assignors against those of kafka-clients and group-coordinator 4.3.1."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor.base import AssignorError
from kgroup.assignor.strategy import assign, strategies
from kgroup.operation.assign_spec import read_spec
from tests.assignor.random_group import RandomGroup
from tests.broker import maven

pytestmark = pytest.mark.broker

KAFKA = "4.3.1"
OLD = "1.1.1"
CASES = int(os.environ.get("KGROUP_ORACLE_CASES") or 2000)  # make oracle: 20,000
ROUNDS = 5


@pytest.mark.parametrize("strategy", strategies("classic"))
def test_random_classic_groups(strategy: str) -> None:
    main = "org.apache.kafka.clients.consumer.AssignorOracle"
    _compare("classic", strategy, main)


@pytest.mark.parametrize("strategy", strategies("classic", OLD))
def test_random_classic_groups_of_1_1(strategy: str) -> None:
    main = "org.apache.kafka.clients.consumer.OldAssignorOracle"
    _compare("classic", strategy, main, OLD)


@pytest.mark.parametrize(
    ("protocol", "strategy"), [("consumer", "uniform"), ("consumer", "range"), ("share", "simple")]
)
def test_random_groups_of_the_coordinator(protocol: str, strategy: str) -> None:
    _compare(protocol, strategy, "kgroup.ServerAssignorOracle")


def _compare(protocol: str, strategy: str, main: str, kafka: str = KAFKA) -> None:
    specs, ours = [], []
    for seed in range(CASES // ROUNDS):
        hashes_partitions = strategy == "simple" or (strategy == "sticky" and kafka != KAFKA)
        group = RandomGroup(seed, strategy, protocol, hashes_partitions=hashes_partitions)
        for _ in range(ROUNDS):
            spec = group.spec | {"kafka_version": kafka}
            if kafka == OLD:  # which fails on user data that it cannot read
                for member in spec["members"]:
                    member.pop("user_data", None)
            specs.append(spec)
            ours.append(_assign(spec))
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
        timeout=3600,
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
    try:
        assignment = assign(read_spec(spec))
    except AssignorError as error:
        return {"error": {"type": error.type, "message": error.message or None}}
    return {
        "assignment": {
            member: [list(partition) for partition in partitions]
            for member, partitions in assignment.items()
        }
    }
