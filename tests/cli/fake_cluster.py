"""A cluster that keeps what it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from kgroup.model.cluster import ClusterView, Partition, Placement, Topic
from kgroup.model.group import Broker, Group, GroupState, GroupType, Image
from kgroup.model.log_range import LogReading
from kgroup.model.offset import StoreName
from kgroup.model.problem import Problem
from kgroup.source.base import EVERYTHING, Capability, GroupSource, Question, Reading

BROKER = Broker(7, "kafka-7", 9092)
GROUP = Group("live", GroupType.CLASSIC, state=GroupState.EMPTY, coordinator=BROKER)


class FakeCluster(GroupSource):
    """Stands in for `kgroup.source.broker.source.LiveCluster`; keeps its arguments and calls.

    Attributes:
        made: arguments, by name, of each that was made.
        asked: what they were asked for.
        closed: how many were closed.
        problems: given with each reading.
        error: raised instead.
    """

    capabilities = frozenset(Capability)

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.asked: list[Any] = []
        self.closed = 0
        self.problems: tuple[Problem, ...] = ()
        self.error: Exception | None = None

    def __call__(self, bootstrap: list[str], **options: Any) -> FakeCluster:
        self.made.append({"bootstrap": bootstrap, **options})
        return self

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        self.asked.append(question)
        if self.error is not None:
            raise self.error
        is_asked = question.names(GROUP.group_id, group_ids)
        return Reading(Image({GROUP.group_id: GROUP} if is_asked else {}), self.problems)

    def log_ranges(
        self, partitions: Collection[tuple[str, int]], *, committed: bool = False
    ) -> LogReading:
        self.asked.append(committed)
        return LogReading({})

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        self.asked.append(list(keys))
        if self.error is not None:
            raise self.error
        return {key: Placement(5, BROKER, None, BROKER, (7, 8), (7,)) for key in keys}

    @property
    def store_name(self) -> StoreName:
        return StoreName("kafka-7:9092", "c")

    def unreachable(self) -> Mapping[int, Problem]:
        return {}

    def view(self, topics: Collection[str]) -> ClusterView:
        self.asked.append(set(topics))
        partitions = {number: Partition(BROKER.id, (7, 8), (7,)) for number in range(5)}
        topic = Topic("__consumer_offsets", None, partitions)
        return ClusterView("c", BROKER.id, {BROKER.id: BROKER}, {topic.name: topic})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr("kgroup.source.broker.source.LiveCluster", fake)
    return fake
