"""The assignor of Kafka Streams on the classic protocol against Kafka's own, over histories.

`python -m tests.broker.test_kafka_streams_oracle` records again what several versions assign to
small groups of which they assign some differently (`tests/assignor/test_kafka_streams.py`).
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kgroup.assignor import kafka_streams, sticky_tasks
from kgroup.assignor.kafka_streams import (
    LATEST_OFFSET,
    STREAMS_VERSIONS,
    ApplicationTasks,
    StreamsSettings,
    StreamsTask,
    StreamThread,
    ThreadTasks,
)
from tests.broker.maven import compile_java, run_java
from tests.examples import in_depth

HISTORIES = in_depth(2_000, 200)
_OLDER = {
    "2.6.3": "2.8.2",
    "2.8.2": "2.8.2",
    "3.1.2": "3.1.2",
    "3.2.3": "3.2.3",
    "3.3.2": "3.4.1",
    "3.4.1": "3.4.1",
    "3.5.2": "4.3.1",
    "3.7.2": "4.3.1",
}
VERSIONS = in_depth(_OLDER, {}) | {"3.9.2": "4.3.1", "4.3.1": "4.3.1"}
"""Versions of Kafka's classes, with the one that stands for them."""
RECORDED = Path(__file__).parents[1] / "data" / "kafka-streams-versions.jsonl.xz"
_Tasks = dict[StreamsTask, list[tuple[str, int]]]


def random_history(
    seed: int, *, is_sticky: bool, version: str = STREAMS_VERSIONS[0]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield groups and their assignments: clients join, leave, restart, and catch up."""
    random = Random(seed)
    tasks: _Tasks = {}
    stateful: set[StreamsTask] = set()
    for subtopology in range(random.choice((1, 2, 3, 11))):
        topics = [f"{name}-{subtopology}" for name in "ab"[: random.choice((1, 1, 2))]]
        is_stateful = random.random() < 0.6
        for number in range(random.choice((1, 3, 8, 20))):
            tasks[task := StreamsTask(subtopology, number)] = [(topic, number) for topic in topics]
            if is_stateful:
                stateful.add(task)
    ends = {task: random.choice((0, 500, 20_000, 1_000_000)) for task in sorted(stateful)}
    settings = StreamsSettings(
        random.choice((0, 0, 1, 2)),
        random.choice((0, 10_000, 10_000, 2**63 - 1)),
        random.choice((1, 2, 3)),
    )

    def new_id() -> str:
        return str(UUID(int=random.getrandbits(128), version=4))

    clients: dict[str, list[str]] = {}

    def join(process_id: str) -> None:
        count = random.choice((1, 1, 2, 4))
        clients[process_id] = [f"app-{random.randint(1, 9)}-{new_id()}" for _ in range(count)]

    for _ in range(random.choice((1, 2, 5, 12))):
        join(new_id())
    owned: dict[str, ThreadTasks] = {}
    disks: dict[str, dict[StreamsTask, int]] = {}
    for _ in range(8):
        for task in ends:
            ends[task] += random.choice((0, 0, 100, 15_000))
        threads = {
            member_id: _thread(process_id, members, member_id, owned, disks, tasks, stateful)
            for process_id, members in clients.items()
            for member_id in members
        }
        assign = sticky_tasks.assign if is_sticky else kafka_streams.assign
        topology = ApplicationTasks(tasks, dict(ends))
        assigned, is_probing = assign(threads, topology, settings, version)
        yield (
            {
                "tasks": [[*task, own, ends.get(task)] for task, own in tasks.items()],
                "threads": [
                    {
                        "member_id": member_id,
                        "process_id": thread.process_id,
                        "owned": list(thread.owned),
                        "offset_sums": [[*task, own] for task, own in thread.offset_sums.items()],
                    }
                    for member_id, thread in threads.items()
                ],
                "is_sticky": is_sticky,
                "standby_replicas": settings.standby_replicas,
                "acceptable_lag": settings.acceptable_lag,
                "warmup_replicas": settings.warmup_replicas,
                "leader_process": random.choice(list(clients)),
            },
            {"is_probing": is_probing, "threads": assigned},
        )
        owned = assigned
        for process_id, members in clients.items():
            disk = disks.setdefault(process_id, {})
            for task in [
                t for name in members for t in (*owned[name].active, *owned[name].standby)
            ]:
                if task in stateful:
                    behind = random.choice((0, 0, 50, 12_000))
                    disk[task] = max(disk.get(task, 0), ends[task] - behind)
        what = random.random()
        if what < 0.3:
            join(new_id())
        elif what < 0.5 and len(clients) > 1:
            del clients[random.choice(list(clients))]
        elif what < 0.7:
            join(random.choice(list(clients)))
        elif what < 0.8:
            members = clients[random.choice(list(clients))]
            members.append(f"app-1-{new_id()}")
        elif what < 0.85:
            settings = StreamsSettings(
                random.choice((0, 1, 2)), settings.acceptable_lag, settings.warmup_replicas
            )


def _thread(
    process_id: str,
    members: list[str],
    member_id: str,
    owned: dict[str, ThreadTasks],
    disks: dict[str, dict[StreamsTask, int]],
    tasks: _Tasks,
    stateful: set[StreamsTask],
) -> StreamThread:
    """Return what a thread sends: its first one also what is only on the client's disk."""
    own = owned.get(member_id, ThreadTasks((), frozenset()))
    disk = disks.get(process_id, {})
    sums = {task: disk[task] for task in sorted(own.standby) if task in disk}
    if member_id == members[0]:
        used = {
            task
            for name in members
            if name in owned
            for task in (*owned[name].active, *owned[name].standby)
        }
        sums |= {task: offset for task, offset in disk.items() if task not in used}
    sums |= {task: LATEST_OFFSET for task in own.active if task in stateful}
    partitions = sorted(partition for task in own.active for partition in tasks[task])
    return StreamThread(process_id, tuple(partitions), sums)


def answers_of(version: str, specs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the classes of a version assign."""
    done = run_java(
        version,
        "org.apache.kafka.streams.processor.internals.KafkaStreamsOracle",
        [],
        input="".join(json.dumps(spec) + "\n" for spec in specs).encode(),
        classes=compile_java(
            [Path(__file__).parent / "java" / "KafkaStreamsOracle.java"], version, "streams"
        ),
        jvm=["-Dkgroup.log=OFF"],
        artifacts="streams",
        timeout=1800,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("is_sticky", [False, True])
@pytest.mark.parametrize(("version", "imitated"), VERSIONS.items())
def test_random_histories(version: str, imitated: str, is_sticky: bool) -> None:
    cases = [
        case
        for seed in range(HISTORIES)
        for case in random_history(seed, is_sticky=is_sticky, version=imitated)
    ]
    answers = answers_of(version, (spec for spec, _ in cases))
    differences = []
    for (spec, ours), theirs in zip(cases, answers, strict=True):
        assigned: dict[str, ThreadTasks] = ours["threads"]
        told = theirs["threads"]
        expected = {name: _as_told(told[name]) for name in told}
        same = expected == {name: (own.active, own.standby) for name, own in assigned.items()}
        same = same and all(own["partitions"] == sorted(own["partitions"]) for own in told.values())
        waiting = {name for name, own in assigned.items() if own.waiting}
        at_once = {name for name, own in told.items() if own["next"] == "at once"}
        if not same or waiting != at_once or ours["is_probing"] != theirs["is_probing"]:
            differences.append((spec, ours, theirs))
    print(f"{len(cases)} groups, {len(differences)} differences")
    assert not differences, min(differences, key=lambda each: len(str(each)))
    probing = sum(answer["is_probing"] for answer in answers)
    assert probing == 0 if is_sticky else probing > len(cases) / 10
    assert sum(bool(own.standby) for _, ours in cases for own in ours["threads"].values()) > len(
        cases
    )
    assert sum(bool(own.waiting) for _, ours in cases for own in ours["threads"].values()) > len(
        cases
    )


def _as_told(own: dict[str, Any]) -> tuple[tuple[StreamsTask, ...], frozenset[StreamsTask]]:
    return (
        tuple(sorted(StreamsTask(*task) for task in own["active"])),
        frozenset(StreamsTask(*task) for task in own["standby"]),
    )


def _record() -> None:
    specs = [
        spec
        for is_sticky in (False, True)
        for seed in range(150)
        for spec, _ in random_history(seed, is_sticky=is_sticky)
    ]
    answers = {version: answers_of(version, specs) for version in STREAMS_VERSIONS}
    rows = [
        {"group": spec, "answers": {version: answers[version][at] for version in STREAMS_VERSIONS}}
        for at, spec in enumerate(specs)
    ]
    kinds: dict[tuple[bool, ...], list[str]] = {}
    for row in rows:
        kind = tuple(one == other for one, other in pairwise(row["answers"].values()))
        kinds.setdefault(kind, []).append(json.dumps(row, separators=(",", ":")) + "\n")
    differing = (lines for kind, lines in kinds.items() if not all(kind))
    data = "".join(line for lines in differing for line in sorted(lines, key=len)[:15])
    RECORDED.write_bytes(lzma.compress(data.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    _record()
