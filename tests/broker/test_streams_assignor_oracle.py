"""The coordinator's assignor of streams groups against Kafka's own, over random histories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from kgroup.assignor.server.streams import StreamsMember, StreamsTopology, assign
from tests.broker.maven import compile_java, run_java
from tests.examples import in_depth

HISTORIES = in_depth(2_000, 300)
VERSION = "4.3.1"


def random_history(seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield groups and their assignments: members join and leave, topics grow, claims are wrong."""
    random = Random(seed)
    ids = (f"{random.getrandbits(128):032x}" for _ in iter(int, 1))
    processes = [next(ids) for _ in range(random.randint(1, 9))]
    tasks = {str(at): random.randint(1, 12) for at in range(random.choice((1, 2, 3, 12)))}
    stateful = sorted(name for name in tasks if random.random() < 0.6)
    replicas = random.choice((0, 0, 1, 1, 2, 3))

    def member() -> dict[str, Any]:
        own = {"member_id": next(ids), "process_id": random.choice(processes)}
        return own | {"active": [], "standby": []}

    members = [member() for _ in range(random.randint(1, random.choice((3, 8, 20))))]
    for _ in range(8):
        spec = {
            "members": members,
            "tasks": dict(tasks),
            "stateful": stateful,
            "standby_replicas": replicas,
        }
        topology = StreamsTopology(dict(tasks), frozenset(stateful), replicas)
        active, standby = assign(
            {
                own["member_id"]: StreamsMember(
                    own["process_id"],
                    [(name, number) for name, number in own["active"]],
                    [(name, number) for name, number in own["standby"]],
                )
                for own in members
            },
            topology,
        )
        yield (
            spec,
            {
                name: [[list(t) for t in active[name]], [list(t) for t in standby[name]]]
                for name in active
            },
        )
        members = [
            own
            | {
                "active": [list(task) for task in active[own["member_id"]]],
                "standby": [list(task) for task in standby[own["member_id"]]],
            }
            for own in members
        ]
        what = random.random()
        if what < 0.4:
            members += [member() for _ in range(random.choice((1, 1, 2, 5)))]
        elif what < 0.75 and len(members) > 1:
            del members[random.randrange(len(members))]
        elif what < 0.85:
            name = random.choice(list(tasks))
            tasks[name] = random.randint(1, 12)
        elif what < 0.9:
            replicas = random.choice((0, 1, 2))
        elif what < 0.95:
            processes.append(next(ids))
        if random.random() < 0.1:
            random.shuffle(members)


def test_random_histories() -> None:
    cases = [case for seed in range(HISTORIES) for case in random_history(seed)]
    done = run_java(
        VERSION,
        "kgroup.StreamsAssignorOracle",
        [],
        input="".join(json.dumps(spec) + "\n" for spec, _ in cases).encode(),
        classes=compile_java(
            [Path(__file__).parent / "java" / "StreamsAssignorOracle.java"], VERSION
        ),
        jvm=["-Dkgroup.log=OFF"],
        timeout=1800,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    differences = [
        (at, spec)
        for at, ((spec, ours), theirs) in enumerate(zip(cases, answers, strict=True))
        if ours != theirs
    ]
    print(f"{len(cases)} groups, {len(differences)} differences")
    assert not differences, min(differences, key=lambda each: len(str(each)))
    with_standbys = sum(any(own[1] for own in answer.values()) for answer in answers)
    assert with_standbys > len(cases) / 4
