"""Who owned a partition: compared with a replay of all records up to each instant."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from kgroup.errors import NotFoundError
from kgroup.history.query.owner import owners
from kgroup.history.query.past_group import PastGroups
from kgroup.history.sql.engine import DuckEngine
from tests.examples import examples
from tests.history.past_log import LOGS, expected_groups
from tests.history.random_history import RandomHistory
from tests.history.recorded import Ask, engine_of_log, log_of, time_of

pytestmark = pytest.mark.slow

Owned = dict[tuple[str, int], set[tuple[str, str]]]


def replayed(directory: Path, at_ms: int, names: dict[str, str]) -> Owned:
    """Give groups and members by topic and partition, as coordinators had them."""
    found: Owned = defaultdict(set)
    for group_id, group in expected_groups(log_of(directory), at_ms, names).items():
        for member in group.members:
            for partition in member.assignment or ():
                topic = partition.topic or partition.topic_id
                assert topic is not None
                found[topic, partition.partition].add((group_id, member.member_id))
    return found


def check(engine: DuckEngine, directory: Path) -> None:
    log = log_of(directory)
    times = sorted({time_of(record) or 0 for records in log.values() for record in records} - {0})
    names = dict(PastGroups(engine, "c", times[-1]).read().image.topic_names)
    step = max(1, len(times) // examples(2, 24))
    partitions = sorted(replayed(directory, times[-1], names))[: examples(3, 6)]
    for at_ms in times[step // 2 :: step]:
        expected = replayed(directory, at_ms, names)
        for topic, partition in partitions:
            try:
                rows = owners(engine, topic, partition, at_ms, at_ms).data
            except NotFoundError:
                rows = ()
            found = {
                (row.group_id, row.member_id)
                for row in rows
                if row.status == "owned" and row.group_type != "streams"
            }
            assert found == expected.get((topic, partition), set())


@pytest.mark.parametrize("name", ["log-dir", "kafka-2.8.2"])
def test_recorded_owners(name: str, recorded_engine: Ask) -> None:
    directory = next(path for path in LOGS if path.name == name)
    check(recorded_engine(directory), directory)


@pytest.mark.parametrize("seed", range(examples(1)))
def test_random_owners(seed: int, tmp_path: Path) -> None:
    RandomHistory(seed).write(tmp_path / "log")
    with engine_of_log(tmp_path / "log", tmp_path / "w") as engine:
        check(engine, tmp_path / "log")
