"""Answers of a fake broker, and the cluster that asks it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.source.fake_broker import HOST, FakeBroker, fake_broker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with answering_broker() as fake:
        yield fake


@contextmanager
def answering_broker() -> Iterator[FakeBroker]:
    """A broker of Kafka 2.3 or so, with the group "g" of one member, which committed orders-0."""
    with fake_broker() as fake:
        fake.handlers = {
            "Metadata": metadata(fake, offsets(), orders()),
            "ListGroups": lambda _: {
                "error_code": 0,
                "groups": [{"group_id": "g", "protocol_type": "consumer"}],
            },
            "FindCoordinator": lambda _: coordinator(fake),
            "DescribeGroups": lambda request: {"groups": list(map(described, request.groups))},
            "OffsetFetch": lambda _: committed(("orders", 0, 7)),
            "ListOffsets": lambda request: ends(request, 3, 9),
        }
        fake.newest = {"Metadata": 4, "OffsetFetch": 5, "ListOffsets": 1, "FindCoordinator": 1}
        yield fake


def metadata(fake: FakeBroker, *topics: dict[str, Any]) -> Any:
    brokers = [{"node_id": 1, "host": HOST, "port": fake.port, "rack": None}]
    return lambda _: {
        "brokers": brokers,
        "cluster_id": "fake",
        "controller_id": 1,
        "topics": list(topics),
    }


def topic(name: str, *leaders: int, error: int = 0) -> dict[str, Any]:
    partitions = [
        {
            "error_code": 0,
            "partition_index": number,
            "leader_id": leader,
            "replica_nodes": [1],
            "isr_nodes": [1],
        }
        for number, leader in enumerate(leaders)
    ]
    return {"error_code": error, "name": name, "is_internal": False, "partitions": partitions}


def offsets() -> dict[str, Any]:
    return topic("__consumer_offsets", 1, 1, 1)


def orders() -> dict[str, Any]:
    return topic("orders", 1, -1)


def coordinator(fake: FakeBroker, error: int = 0) -> dict[str, Any]:
    return {
        "error_code": error,
        "error_message": None,
        "node_id": -1 if error else 1,
        "host": HOST,
        "port": fake.port,
    }


def described(group_id: str, state: str = "Stable", error: int = 0) -> dict[str, Any]:
    member = {
        "member_id": "m",
        "client_id": "c",
        "client_host": "/h",
        "member_metadata": b"",
        "member_assignment": b"",
    }
    return {
        "error_code": error,
        "group_id": group_id,
        "group_state": "" if error else state,
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [member] if state == "Stable" and not error else [],
    }


def committed(*rows: tuple[str, int, int], error: int = 0) -> dict[str, Any]:
    return {
        "error_code": error,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "metadata": "",
                        "error_code": 0,
                    }
                ],
            }
            for name, partition, offset in rows
        ],
    }


def ends(request: Any, start: int, end: int, error: int = 0) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": error,
                        "timestamp": -1,
                        "offset": end if partition.timestamp == -1 else start,
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
