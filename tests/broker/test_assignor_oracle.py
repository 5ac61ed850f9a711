"""Assignors against Kafka's own: clients of 1.1.1 to 4.3.1, coordinator of 4.3.1, 0.8.2.2."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pytest

from kgroup.assignor.client.java import JAVA
from kgroup.assignor.member_spec import NEWEST
from tests.assignor.case.notation import Assignor, assigned
from tests.assignor.case.table import ASSIGNORS
from tests.assignor.random_group import rebalances
from tests.assignor.record import as_text, ask_kafka
from tests.broker.assignor_oracle import ask
from tests.examples import in_depth

CASES = int(os.environ.get("KGROUP_ORACLE_CASES") or 500)  # make oracle: 20,000


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=str)
def test_random_groups(assignor: Assignor) -> None:
    cases = min(CASES, in_depth(5000, 250)) if assignor.protocol == "zookeeper" else CASES
    every = (rebalances(assignor, seed) for seed in range(cases // 5))
    specs, ours = zip(*chain.from_iterable(every), strict=True)
    _check(str(assignor), specs, ours, assignor.protocol, assignor.kafka_version)


@pytest.mark.parametrize(
    ("release", "version"),
    [
        *(("3.7.1", NEWEST), ("3.5.0", "3.7.0"), ("3.4.0", "3.3.2"), ("3.0.0", "3.3.2")),
        *(("2.8.1", "2.8.2"), ("2.5.1", "2.8.0"), ("2.4.0", "2.5.0"), ("2.3.0", "2.3.1")),
        *(("2.1.0", "2.2.2"), ("2.0.1", "1.1.1"), ("0.11.0.0", "1.1.1")),
    ],
)
def test_first_and_last_releases_that_a_version_stands_for(release: str, version: str) -> None:
    assert JAVA.version_of(release) == version
    every = (
        rebalances(Assignor("classic", strategy, version), seed)
        for strategy in JAVA.strategies[version]
        for seed in range(in_depth(400, 80))
    )
    specs, ours = zip(*chain.from_iterable(every), strict=True)
    _check(f"all strategies of {version}, {release}", specs, ours, "classic", release)


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=str)
def test_what_is_recorded_is_what_kafka_answers(assignor: Assignor) -> None:
    assert assignor.answers.read_text("utf-8") == as_text(ask_kafka(assignor))


@pytest.mark.parametrize(("protocol", "strategy"), [("consumer", "uniform"), ("share", "simple")])
def test_partitions_that_crowd_buckets(protocol: str, strategy: str) -> None:
    """Every 64th partition is in one bucket of a table of 64, which is a tree then.

    The topic ids are so far apart that no two partitions have the same hash code: a tree orders
    those by their identity (`HashMap.tieBreakOrder`), so that Kafka's own answer differs from one
    process to the next.
    """
    specs, ours = [], []
    for seed in range(in_depth(40, 15)):
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
                "topic_ids": {"t0": "AAAAAAAAAAAAAAAAAAAAAQ", "t1": "AAAAAAAAAAAAAAAAAAAQAA"},
                "members": members,
            }
            specs.append(spec)
            ours.append(assigned(spec))
            owned = ours[-1]["assignment"]
            members = [member | {"owned": owned[member["member_id"]]} for member in members]
            for _ in range(draw.randint(0, 4)):
                members.remove(draw.choice(members))
            for at in range(draw.randint(0, 4)):
                members.append({"member_id": f"new-{turn}-{at}", "topics": list(topics)})
    _check(f"{protocol} {strategy}, crowded", specs, ours, protocol)


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
        ours.append(assigned(spec))
        owned = ours[-1].get("assignment", {})  # else an error
        return [member | {"owned": owned.get(member["member_id"], [])} for member in members]

    for seed in range(in_depth(300, 100)):
        draw = random.Random(seed)
        sizes = {f"t{at}": draw.randint(1, 6) for at in range(draw.randint(1, 3))}
        members = [{"member_id": f"m{at}", "topics": [*sizes]} for at in range(draw.randint(2, 12))]
        for turn in range(4):
            members = rebalance(sizes, members)
            sizes = {name: size + draw.choice([0, 1, 2, 5]) for name, size in sizes.items()}
            members = draw.sample(members, draw.randint(1, len(members)))
            members += [{"member_id": f"{turn}-{at}", "topics": [*sizes]} for at in range(2)]
    # where a table is full just then, its last key is there already
    for seed in range(in_depth(400, 130)):
        draw = random.Random(seed)
        before, after = draw.choice([(7, 4), (13, 10), (25, 21)])
        members = [{"member_id": f"m{at}", "topics": ["t"]} for at in range(draw.randint(2, after))]
        members = rebalance({"t": before}, members)
        stay = [member for member in members if any(n >= after for _, n in member["owned"])]
        stay += draw.sample(members, draw.randint(1, len(members)))
        members = [member for member in members if member in stay]
        members += [{"member_id": f"n{at}", "topics": ["t"]} for at in range(draw.randint(1, 3))]
        rebalance({"t": after}, members)
    _check("share simple, other sizes", specs, ours, "share")


def _check(
    what: str,
    specs: Sequence[dict[str, Any]],
    ours: Sequence[dict[str, Any]],
    protocol: str,
    kafka: str = NEWEST,
) -> None:
    answers = ask(specs, protocol, kafka)
    differences = [
        (spec, answer, own)
        for spec, answer, own in zip(specs, answers, ours, strict=True)
        if answer != {"id": spec["id"], **own}
    ]
    errors = sum("error" in answer for answer in answers)
    counts = f"{len(specs)} cases, {errors} errors, {len(differences)} differences"
    print(f"{what}: {counts}")
    assert not differences, min(differences, key=lambda each: len(str(each)))
