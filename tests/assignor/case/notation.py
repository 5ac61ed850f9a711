"""Groups and assignments in a notation that people read.

orders 0-2 5, payments 0     partitions, in this order
orders 6, payments 3 ab b    topics with their numbers of partitions; then, if racks are known,
                             those of the replicas of partition 0, 1, ..., a letter each, and
                             from the first again for the partitions that follow
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from kgroup.assignor.base import AssignorError
from kgroup.assignor.strategy import assign, assign_threads
from kgroup.assignor.zookeeper import thread_name
from kgroup.operation.assign.spec import read_spec

_ANSWERS = Path(__file__).parent / "answer"

Answer = dict[str, str] | str
"""Partitions of each member, or of each thread that has some; or the exception of an assignor."""


@dataclass(frozen=True)
class Assignor:
    protocol: str
    strategy: str
    kafka_version: str

    def __str__(self) -> str:
        return f"{self.protocol}-{self.strategy}-{self.kafka_version}"

    @property
    def answers(self) -> Path:
        """Where the recorded answers of Kafka are."""
        return _ANSWERS / f"{self}.json"


@dataclass(frozen=True)
class Case:
    """A group before its next assignment, whatever the assignor.

    Attributes:
        topics: as a spec has them.
        members: likewise, in the order in which they are listed.
        topic_ids: of topics, where they matter: a low number, which is its own hash.
    """

    topics: Mapping[str, Any]
    members: Sequence[Mapping[str, Any]]
    topic_ids: Mapping[str, int] = field(default_factory=dict)

    def spec(self, assignor: Assignor) -> dict[str, Any]:
        """Give the group as `kgroup assign --spec` takes it, and Kafka's assignors in a JVM."""
        spec: dict[str, Any] = {
            "protocol": assignor.protocol,
            "strategy": assignor.strategy,
            "kafka_version": assignor.kafka_version,
            "topics": self.topics,
        }
        if assignor.protocol == "zookeeper":
            one_thread = [dict.fromkeys(each["topics"], 1) for each in self.members]
            return spec | {
                "members": [
                    {"member_id": each["member_id"], "streams": each.get("streams", threads)}
                    for each, threads in zip(self.members, one_thread, strict=True)
                ]
            }
        spec["members"] = list(self.members)
        if assignor.protocol in ("consumer", "share"):
            owned = (topic for each in self.members for topic, _ in each.get("owned") or ())
            names = dict.fromkeys([*self.topics, *owned])
            spec["topic_ids"] = {name: _topic_id(self.topic_ids.get(name, name)) for name in names}
        return spec


def case(topics: str, *members: Mapping[str, Any], ids: Mapping[str, int] | None = None) -> Case:
    """Make a case; `topics` in the notation."""
    return Case({name: _topic(*words) for name, *words in _parts(topics)}, members, ids or {})


def member(
    member_id: str,
    topics: str = "",
    owned: str | None = None,
    generation: int | None = None,
    *,
    streams: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Make a member.

    Args:
        member_id: given by the coordinator.
        topics: that it subscribes to.
        owned: partitions.
        generation: in which they were.
        streams: topics with their numbers of threads, of a ZooKeeper consumer.
        fields: others of a spec.
    """
    spec: dict[str, Any] = {"member_id": member_id, "topics": topics.split(), **fields}
    if streams is not None:
        spec["streams"] = {name: int(count) for name, count in _parts(streams)}
    if owned is not None:
        spec["owned"] = [
            [name, number] for name, *runs in _parts(owned) for run in runs for number in _run(run)
        ]
    if generation is not None:
        spec["generation"] = generation
    return spec


def written(partitions: Iterable[tuple[str, int] | list[Any]]) -> str:
    """Write partitions in the notation, in their order."""
    topics = groupby(partitions, key=itemgetter(0))
    return ", ".join(f"{name} {_runs([number for _, number in own])}" for name, own in topics)


def answer_of(spoken: Mapping[str, Any]) -> Answer:
    """Write what an oracle says, or `assigned`, in the notation."""
    if "error" in spoken:
        error = spoken["error"]
        return str(AssignorError(error["type"], error["message"] or ""))
    return {name: written(partitions) for name, partitions in spoken["assignment"].items()}


def assigned(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Assign with kgroup; say it as an oracle does."""
    group = read_spec(spec)
    try:
        if group.protocol == "zookeeper":
            threads = assign_threads(group)
            assignment = {
                thread_name(thread): partitions
                for thread, partitions in threads.items()
                if partitions
            }
        else:
            assignment = assign(group)
    except AssignorError as error:
        return {"error": {"type": error.type, "message": error.message or None}}
    return {
        "assignment": {
            name: [list(partition) for partition in partitions]
            for name, partitions in assignment.items()
        }
    }


def _parts(text: str) -> list[list[str]]:
    return [part.split() for part in text.split(",") if part.strip()]


def _topic(count: str, *racks: str) -> dict[str, Any]:
    topic: dict[str, Any] = {"partitions": int(count)}
    if racks:
        topic["racks"] = [list(racks[number % len(racks)]) for number in range(int(count))]
    return topic


def _run(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _runs(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _topic_id(name: str | int) -> str:
    if isinstance(name, int):
        topic_id = name.to_bytes(16, "big")
    else:
        topic_id = hashlib.md5(name.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
