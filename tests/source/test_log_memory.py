"""Rounds of a watch read only what is new of `__consumer_offsets`; brokers are made up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kgroup.source.broker.source import LiveCluster
from tests.columnar.log_writer import batch
from tests.operation.log_files import commit as commit_record
from tests.source.broker_answers import committed, coordinator, ends, metadata, topic
from tests.source.fake_broker import FakeBroker, fake_broker

GROUP_DENIED = 29


class Offsets:
    """The only partition of `__consumer_offsets`, and what OffsetFetch says of the group "g".

    Attributes:
        batches: first offset and bytes of each.
        answers: committed offsets of orders-0 and orders-1.
        error: that Fetch gives.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.answers = {0: 0, 1: 0}
        self.error = 0

    @property
    def end(self) -> int:
        return len(self.batches)

    def commit(self, partition: int, offset: int) -> None:
        """Write a commit at time 1000 + its place in the log."""
        at = self.end
        record = commit_record(
            at, "g", topic="orders", partition=partition, committed=offset, time_ms=1000 + at
        )
        self.batches.append((at, batch([record])))
        self.answers[partition] = offset

    def fetch(self, request: Any) -> dict[str, Any]:
        start = request.topics[0].partitions[0].fetch_offset
        data = b"".join(content for at, content in self.batches if at >= start)
        row = {
            "partition_index": 0,
            "error_code": self.error,
            "high_watermark": self.end,
            "records": b"" if self.error else data,
        }
        return {"responses": [{"topic": "__consumer_offsets", "partitions": [row]}]}


@pytest.fixture
def log() -> Offsets:
    log = Offsets()
    log.commit(0, 3)
    for _ in range(5):
        log.commit(1, 7)
    return log


@pytest.fixture
def broker(log: Offsets) -> Iterator[FakeBroker]:
    with fake_broker() as fake:
        fake.newest = {"Metadata": 4, "OffsetFetch": 5, "ListOffsets": 1, "FindCoordinator": 1}
        fake.newest["Fetch"] = 4
        fake.handlers = {
            "Metadata": metadata(fake, topic("__consumer_offsets", 1)),
            "FindCoordinator": lambda _: coordinator(fake),
            "DescribeGroups": lambda _: {
                "groups": [
                    {
                        "error_code": 0,
                        "group_id": "g",
                        "group_state": "Empty",
                        "protocol_type": "",
                        "protocol_data": "",
                        "members": [],
                    }
                ]
            },
            "OffsetFetch": lambda _: committed(
                *(("orders", number, offset) for number, offset in log.answers.items())
            ),
            "ListOffsets": lambda request: ends(request, 0, log.end),
            "Fetch": log.fetch,
        }
        yield fake


def times(source: LiveCluster) -> list[int | None]:
    return [offset.commit_timestamp_ms for offset in source.read(["g"]).image.groups["g"].offsets]


def fetched(broker: FakeBroker) -> list[int]:
    """Offsets from which was fetched since the last call."""
    found = [
        request.topics[0].partitions[0].fetch_offset
        for name, _, request in broker.asked
        if name == "Fetch"
    ]
    broker.asked.clear()
    return found


@pytest.mark.slow
def test_only_what_is_new_is_read(broker: FakeBroker, log: Offsets) -> None:
    with LiveCluster(broker.bootstrap) as source:
        assert times(source) == [1000, 1005]
        source.renew()
        assert times(source) == [1000, 1005]
        assert fetched(broker) == [0, 0]
        source.renew()
        assert times(source) == [1000, 1005]
        assert fetched(broker) == []  # nothing is new
        log.commit(1, 8)
        log.commit(1, 9)
        source.renew()
        assert times(source) == [1000, 1007]
        assert fetched(broker) == [6]
        log.commit(1, 9)  # the same offset once more, later
        source.renew()
        assert times(source) == [1000, 1008]
        assert fetched(broker) == [8]


def test_without_another_round_everything_is_read(broker: FakeBroker) -> None:
    with LiveCluster(broker.bootstrap) as source:
        assert times(source) == times(source) == [1000, 1005]
    assert fetched(broker) == [0, 0]


def test_what_is_remembered_holds_only_for_the_offset_it_was_found_for(
    broker: FakeBroker, log: Offsets
) -> None:
    with LiveCluster(broker.bootstrap) as source:
        source.renew()
        assert times(source) == [1000, 1005]
        log.answers[0] = 99  # of which the log has nothing
        source.renew()
        assert times(source) == [None, 1005]


@pytest.mark.parametrize("trouble", ["error", "cut off"])
def test_after_trouble_everything_is_read(broker: FakeBroker, log: Offsets, trouble: str) -> None:
    with LiveCluster(broker.bootstrap) as source:
        source.renew()
        assert times(source) == [1000, 1005]
        if trouble == "error":
            log.commit(1, 7)
            log.error = GROUP_DENIED
            source.renew()
            assert times(source) == [None, None]
            log.error = 0
        else:
            del log.batches[-1]
        fetched(broker)
        source.renew()
        assert times(source) == [1000, 1000 + log.end - 1]
        assert fetched(broker) == [0]


def test_connections_are_made_anew_after_a_failed_round(broker: FakeBroker) -> None:
    with LiveCluster(broker.bootstrap) as source:
        source.renew()
        assert times(source) == [1000, 1005]
        source.renew(after_failure=True)
        fetched(broker)
        assert times(source) == [1000, 1005]
        assert fetched(broker) == []
