"""Commits that are kept as positions, against the same commits made one partition at a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kgroup.model.cluster import TopicPartition
from kgroup.model.record import DecodedRecord
from kgroup.simulation.clock import Clock
from kgroup.simulation.offset_manager import OffsetManager
from kgroup.simulation.partition_logs import PartitionLogs, Positions
from kgroup.simulation.position_commit import PositionCommit, PositionCommits
from kgroup.simulation.scenario.play import CoordinatorStage
from kgroup.simulation.scenario.scenario import Scenario
from kgroup.simulation.timeline import Simulation
from tests.examples import examples
from tests.simulation.random_scenario import random_scenario


def played(scenario: Scenario, seed: int, looks: int) -> tuple[list[DecodedRecord], Simulation]:
    """Play a scenario, and read the log several times meanwhile; return all that was read."""
    stage = CoordinatorStage(scenario, Random(seed))
    cluster, records = stage.cluster, list[DecodedRecord]()
    for look in range(looks):
        cluster.clock.run(scenario.duration_ms * (look + 1) // looks)
        records += cluster.log
    return records, cluster.timeline.end(None, None, seed)


def test_the_last_commit_of_a_partition_counts() -> None:
    """Also where consumers commit in turn for the same partitions, and for others in between."""
    random = Random(7)
    for _ in range(examples(200, 800)):
        logs = PartitionLogs(Clock(), 0)
        partitions = [("t", number) for number in range(random.randint(1, 6))]
        rows = logs.create(partitions)
        consumers: list[dict[int, tuple[int, int]]] = [{} for _ in range(3)]
        commits, kept, end = PositionCommits("g", logs), dict[TopicPartition, tuple[int, int]](), 0
        for at_ms in range(random.randint(1, 12)):
            number = random.randrange(3)
            if not consumers[number] or random.random() < 0.3:
                some = random.sample(rows, random.randint(1, len(rows)))
                consumers[number] = {row: (random.randrange(99), 0) for row in some}
            positions = Positions(consumers[number], 0, logs, 0)
            commits.add(PositionCommit(positions, at_ms, None, end))
            for partition, committed in positions.items():
                kept[partition] = (end, committed.offset)
                end += 1
            known = [None if at not in kept else kept[at][1] for at in partitions]
            assert commits.of(tuple(partitions)) == known
        taken = {(o.topic, o.partition): (at, o.committed_offset) for at, o in commits}
        assert taken == kept


@pytest.mark.slow
@pytest.mark.parametrize("first", range(4))
def test_kept_positions_are_the_commits(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = OffsetManager.commit
    read = 0
    for seed in range(first, examples(48, 96), 4):
        scenario = random_scenario(seed)
        if seed % 2:  # commits expire
            settings = replace(
                scenario.settings,
                offsets_retention_ms=60_000,
                offsets_retention_check_interval_ms=7_000,
            )
            scenario = replace(scenario, settings=settings)
        kept = played(scenario, seed, 1 + seed % 3)
        with monkeypatch.context() as patched:
            patched.setattr(
                OffsetManager,
                "commit",
                lambda manager, request: commit(
                    manager, replace(request, offsets=dict(request.offsets))
                ),
            )
            single = played(scenario, seed, 1 + seed % 3)
        assert kept == single, seed
        read += sum(record.type == "OffsetCommit" for record in kept[0])
    assert read > 50
