"""Connect's assignors against Kafka's own `WorkerCoordinator`, over random histories."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kgroup.assignor.connect import (
    CONNECTOR,
    EAGER,
    LeaderMemory,
    WorkerAssignment,
    after_join,
    as_sent,
    assign_eager,
    assign_incremental,
    configured_items,
)
from kgroup.model.cluster import TopicPartition
from tests.broker.maven import compile_java, run_java
from tests.examples import in_depth

HISTORIES = in_depth(2_000, 300)
ROUNDS = 14
PROTOCOLS = ("sessioned", "compatible", EAGER)


def random_history(seed: int) -> dict[str, Any]:
    """Return a history: workers join, leave, miss assignments; connectors come, change and go."""
    random = Random(seed)
    words = ("connect-{}:8083-", "w{}-", "é{}-", "")
    word = random.choice(words)

    def new_id() -> str:
        uuid = f"{random.getrandbits(128):032x}"
        return f"{word.format(random.randint(1, 40))}{uuid}"

    workers = [new_id() for _ in range(random.randint(1, 6))]
    connectors = {
        f"{random.choice('abc')}{random.randint(0, 99)}": random.randint(0, 6)
        for _ in range(random.randint(0, 6))
    }
    leader = random.choice(workers)
    now_ms, gone, rounds = 1_000_000, [new_id()], []
    max_delay_ms = random.choice((0, 1, 39, 1000, 60_000, 300_000, 300_000, 300_000))
    for _ in range(ROUNDS):
        rounds.append(
            {
                "now_ms": now_ms,
                "connectors": dict(connectors),
                "workers": list(workers),
                "leader": leader,
                "late": [worker for worker in workers if random.random() < 0.04],
            }
        )
        now_ms += random.choice((0, 0, 1, 40, 1600, max_delay_ms // 2, max_delay_ms))
        what = random.random()
        if what < 0.25:
            workers.append(new_id())
        elif what < 0.35 and random.random() < 0.5:
            workers.append(gone.pop(0))  # a worker that comes back with its id and its memory
            gone = gone or [new_id()]
        elif what < 0.6 and len(workers) > 1:
            gone.append(workers.pop(random.randrange(len(workers))))
        elif what < 0.7:
            connectors[f"{random.choice('abc')}{random.randint(0, 99)}"] = random.randint(0, 9)
        elif what < 0.75 and connectors:
            del connectors[random.choice(list(connectors))]
        elif what < 0.8 and connectors:
            connectors[random.choice(list(connectors))] = random.randint(0, 12)
        if leader not in workers or random.random() < 0.03:
            leader = random.choice(workers)
        if random.random() < 0.1:
            random.shuffle(workers)
    protocol = random.choice((*PROTOCOLS[:2], *PROTOCOLS))
    return {"protocol": protocol, "max_delay_ms": max_delay_ms, "rounds": rounds}


def play(history: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each worker is told and runs after each round, like `ConnectOracle`."""
    owned: dict[str, tuple[TopicPartition, ...]] = {}
    memories: dict[str, tuple[int, LeaderMemory]] = {}
    completed: dict[str, int] = {}
    answer = []
    for generation, round_ in enumerate(history["rounds"], 1):
        configured = configured_items(round_["connectors"])
        workers = {worker: as_sent(owned.get(worker, ())) for worker in round_["workers"]}
        if history["protocol"] == EAGER:
            dealt = assign_eager(workers, configured)
            told = {worker: WorkerAssignment(items) for worker, items in dealt.items()}
            delay_ms = 0
        else:
            leader = round_["leader"]
            last, memory = memories.get(leader, (-1, LeaderMemory()))
            if last != completed.get(leader, -1):
                memory = replace(memory, assigned=frozenset())
            told, memory = assign_incremental(
                workers, configured, memory, round_["now_ms"], history["max_delay_ms"]
            )
            memories[leader] = generation, memory
            delay_ms = memory.delay_ms
        row: dict[str, Any] = {}
        for worker, assignment in told.items():
            if worker not in round_["late"]:
                completed[worker] = generation
                kept = () if history["protocol"] == EAGER else owned.get(worker, ())
                owned[worker] = after_join(kept, assignment)
            row[worker] = {
                "delay_ms": delay_ms,
                "started": listed(as_sent(assignment.started)),
                "revoked": sorted(map(list, assignment.revoked)),
                "runs": listed(as_sent(owned.get(worker, ()))),
            }
        answer.append(row)
    return answer


def listed(items: tuple[TopicPartition, ...]) -> list[list[Any]]:
    """Return connectors, then tasks."""
    return [list(each) for each in sorted(items, key=lambda item: item[1] != CONNECTOR)]


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_random_histories(version: str) -> None:
    histories = [random_history(seed) for seed in range(HISTORIES)]
    source = Path(__file__).parent / "java" / "ConnectOracle.java"
    done = run_java(
        version,
        "org.apache.kafka.connect.runtime.distributed.ConnectOracle",
        [],
        input="".join(json.dumps(history) + "\n" for history in histories).encode(),
        classes=compile_java([source], version),
        jvm=["-Dkgroup.log=OFF"],
        timeout=1800,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for answer in answers:
        for row in answer:
            for told in row.values():
                told["revoked"].sort()
    differences = [
        (seed, at)
        for seed, (history, answer) in enumerate(zip(histories, answers, strict=True))
        for at, (ours, theirs) in enumerate(zip(play(history), answer, strict=True))
        if ours != theirs
    ]
    assert differences == []
    revoked, delayed = (
        sum(any(told[name] for told in row.values()) for answer in answers for row in answer)
        for name in ("revoked", "delay_ms")
    )
    assert min(revoked, delayed) > HISTORIES / 3  # rounds that show something
    print(f"{version}: {len(histories)} histories, {revoked} rounds revoke, {delayed} have a delay")
