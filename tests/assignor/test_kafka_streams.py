"""What several versions of Kafka Streams assign to groups of which they assign some differently."""

from __future__ import annotations

import json
import lzma
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor import kafka_streams, sticky_tasks
from kgroup.assignor.kafka_streams import (
    STREAMS_VERSIONS,
    ApplicationTasks,
    StreamsSettings,
    StreamsTask,
    StreamThread,
)

RECORDED = Path(__file__).parents[1] / "data" / "kafka-streams-versions.jsonl.xz"


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(RECORDED.read_bytes()).splitlines()]


@pytest.mark.parametrize("version", STREAMS_VERSIONS)
def test_answers_of_kafka(version: str) -> None:
    rows = recorded()
    assert len(rows) >= 40
    for row in rows:
        group, answer = row["group"], row["answers"][version]
        threads = {
            own["member_id"]: StreamThread(
                own["process_id"],
                [(topic, number) for topic, number in own["owned"]],
                {StreamsTask(*task): offset for *task, offset in own["offset_sums"]},
            )
            for own in group["threads"]
        }
        topology = ApplicationTasks(
            {
                StreamsTask(subtopology, number): [(topic, at) for topic, at in partitions]
                for subtopology, number, partitions, _ in group["tasks"]
            },
            {StreamsTask(*task): end for *task, _, end in group["tasks"] if end is not None},
        )
        settings = StreamsSettings(
            group["standby_replicas"], group["acceptable_lag"], group["warmup_replicas"]
        )
        assign = sticky_tasks.assign if group["is_sticky"] else kafka_streams.assign
        assigned, is_probing = assign(threads, topology, settings, version)
        assert is_probing == answer["is_probing"]
        assert {
            name: {
                "active": [list(task) for task in own.active],
                "standby": [list(task) for task in sorted(own.standby)],
                "next": "at once" if own.waiting else "none",
            }
            for name, own in assigned.items()
        } == {
            name: {"active": sorted(own["active"]), "standby": own["standby"], "next": own["next"]}
            for name, own in answer["threads"].items()
        }


def test_the_versions_differ() -> None:
    """The rows would not notice a mistake otherwise."""
    for one, other in pairwise(STREAMS_VERSIONS):
        assert sum(row["answers"][one] != row["answers"][other] for row in recorded()) >= 15
