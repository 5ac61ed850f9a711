"""Assignors against Kafka's own: clients of 4.3.1 and 1.1.1, coordinator of 4.3.1, 0.8.2.2."""

import json
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kgroup.assignor.base import AssignorError
from kgroup.assignor.strategy import assign, assign_threads, strategies
from kgroup.assignor.zookeeper import thread_name
from kgroup.operation.assign.spec import read_spec
from tests.assignor.random_group import RandomGroup
from tests.broker import maven

KAFKA = "4.3.1"
OLD = "1.1.1"
OLDEST = "0.8.2.2"
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


@pytest.mark.parametrize("strategy", strategies("zookeeper"))
def test_random_groups_of_the_zookeeper_consumer(strategy: str) -> None:
    _compare("zookeeper", strategy, "kgroup.ZookeeperAssignorOracle", OLDEST)


@pytest.mark.parametrize(("protocol", "strategy"), [("consumer", "uniform"), ("share", "simple")])
def test_partitions_that_crowd_buckets(protocol: str, strategy: str) -> None:
    """Every 64th partition is in one bucket of a table of 64, which is a tree then."""
    specs, ours = [], []
    for seed in range(40):
        draw = random.Random(seed)
        topics = {f"t{at}": {"partitions": draw.randint(600, 1000)} for at in range(2)}
        step = draw.choice([32, 64, 128])
        members = [
            {
                "member_id": f"m{at}",
                "topics": list(topics),
                "owned": [
                    [name, partition]
                    for name in topics
                    for partition in range(at, topics[name]["partitions"], step)
                ],
            }
            for at in range(step)
        ]
        for turn in range(4):
            spec = {
                "id": f"{seed} {turn}",
                "protocol": protocol,
                "strategy": strategy,
                "topics": topics,
                "topic_ids": {"t0": "AAAAAAAAAAAAAAAAAAAAAQ", "t1": "AAAAAAAAAAAAAAAAAAAAAg"},
                "members": members,
            }
            specs.append(spec)
            ours.append(_assign(spec))
            owned = ours[-1]["assignment"]
            members = [each | {"owned": owned[each["member_id"]]} for each in members]
            for _ in range(draw.randint(0, 4)):
                members.remove(draw.choice(members))
            for at in range(draw.randint(0, 4)):
                members.append({"member_id": f"new-{turn}-{at}", "topics": list(topics)})
    _check(f"{protocol} {strategy}, crowded", specs, ours, "kgroup.ServerAssignorOracle")


def test_share_groups_whose_topics_grow_and_shrink() -> None:
    """Fewer members share a partition then, and some have partitions that there are no more."""
    specs: list[dict[str, Any]] = []
    ours: list[dict[str, Any]] = []
    members: list[dict[str, Any]]

    def rebalance(sizes: Mapping[str, int], members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        spec = {
            "id": str(len(specs)),
            "protocol": "share",
            "strategy": "simple",
            "topics": {name: {"partitions": size} for name, size in sizes.items()},
            "topic_ids": {name: f"{at:021}A" for at, name in enumerate(sizes)},
            "members": members,
        }
        specs.append(spec)
        ours.append(_assign(spec))
        owned = ours[-1].get("assignment", {})  # else an error
        return [each | {"owned": owned.get(each["member_id"], [])} for each in members]

    for seed in range(300):
        draw = random.Random(seed)
        sizes = {f"t{at}": draw.randint(1, 6) for at in range(draw.randint(1, 3))}
        members = [{"member_id": f"m{at}", "topics": [*sizes]} for at in range(draw.randint(2, 12))]
        for turn in range(4):
            members = rebalance(sizes, members)
            sizes = {name: size + draw.choice([0, 1, 2, 5]) for name, size in sizes.items()}
            members = draw.sample(members, draw.randint(1, len(members)))
            members += [{"member_id": f"{turn}-{at}", "topics": [*sizes]} for at in range(2)]
    # where a table is full just then, its last key is there already
    for seed in range(400):
        draw = random.Random(seed)
        before, after = draw.choice([(7, 4), (13, 10), (25, 21)])
        members = [{"member_id": f"m{at}", "topics": ["t"]} for at in range(draw.randint(2, after))]
        members = rebalance({"t": before}, members)
        stay = [each for each in members if any(n >= after for _, n in each["owned"])]
        stay += draw.sample(members, draw.randint(1, len(members)))
        members = [each for each in members if each in stay]
        members += [{"member_id": f"n{at}", "topics": ["t"]} for at in range(draw.randint(1, 3))]
        rebalance({"t": after}, members)
    _check("share simple, other sizes", specs, ours, "kgroup.ServerAssignorOracle")


def _compare(protocol: str, strategy: str, main: str, kafka: str = KAFKA) -> None:
    specs, ours = [], []
    cases = min(CASES, 5000) if protocol == "zookeeper" else CASES
    for seed in range(cases // ROUNDS):
        hashes_partitions = strategy == "simple" or (strategy == "sticky" and kafka != KAFKA)
        group = RandomGroup(seed, strategy, protocol, hashes_partitions=hashes_partitions)
        for _ in range(ROUNDS):
            spec = group.spec | {"kafka_version": kafka}
            specs.append(spec)
            ours.append(_assign(spec))
            has_memory = protocol != "zookeeper"
            group.go_on(ours[-1].get("assignment") if has_memory else None)
    _check(f"{protocol} {strategy} {kafka}", specs, ours, main, kafka)


def _check(
    what: str,
    specs: Sequence[dict[str, Any]],
    ours: Sequence[dict[str, Any]],
    main: str,
    kafka: str = KAFKA,
) -> None:
    classes = maven.compile_oracle(main, kafka)
    lines = "".join(json.dumps(spec) + "\n" for spec in specs)
    done = maven.run_java(
        kafka,
        main,
        [],
        input=lines.encode(),
        classes=classes,
        heap="512m",
        jvm=[
            "-Dkgroup.log=OFF",
            "-XX:TieredStopAtLevel=4",
            "-XX:-OmitStackTraceInFastThrow",  # which leaves messages out too, after many errors
            # where Kafka itself runs on Java 8, which has no such messages
            f"-XX:{'-' if kafka == OLDEST else '+'}ShowCodeDetailsInExceptionMessages",
        ],
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
    print(f"{what}: {counts}")
    assert not differences, min(differences, key=lambda each: len(str(each)))


def _assign(spec: Mapping[str, Any]) -> dict[str, Any]:
    try:
        group = read_spec(spec)
        if group.protocol == "zookeeper":
            threads = assign_threads(group)
            assignment = {thread_name(thread): got for thread, got in threads.items() if got}
        else:
            assignment = assign(group)
    except AssignorError as error:
        return {"error": {"type": error.type, "message": error.message or None}}
    return {
        "assignment": {
            member: [list(partition) for partition in partitions]
            for member, partitions in assignment.items()
        }
    }
