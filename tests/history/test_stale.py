"""What expires when: each case is a group as KIP-211 speaks of it, and when its offset goes."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgroup.history.query.stale import StaleOffset, stale_offsets
from kgroup.history.sql.engine import DuckEngine
from tests.examples import examples
from tests.history.past_log import T, commit
from tests.history.random_history import RandomHistory
from tests.history.recorded import engine_of_log
from tests.history.warehouse_files import write_rows

HOUR = 3_600_000
WEEK = 168 * HOUR


def generation(topics: list[str] | None, state_ms: int, **more: Any) -> dict[str, Any]:
    """A GroupMetadata record; `topics` of its member, None for a group without members."""
    subscription = {"version": 0, "topics": topics, "userData": None}
    member = {
        "memberId": "m",
        "groupInstanceId": None,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 1000,
        "sessionTimeout": 1000,
        "subscription": subscription,
        "assignment": {
            "version": 0,
            "assignedPartitions": [{"topic": "orders", "partitions": [0]}],
            "userData": None,
        },
    }
    data = {
        "protocolType": "consumer",
        "generation": 4,
        "protocol": None if topics is None else "range",
        "leader": None if topics is None else "m",
        "currentStateTimestamp": state_ms,
        "members": [] if topics is None else [member],
        **more,
    }
    return {
        "offsets_partition": 7,
        "log_offset": 50,
        "time_ms": T + 50,
        "group_id": "g",
        "state_timestamp_ms": state_ms,
        "value_json": orjson.dumps({"version": 3, "data": data}).decode(),
    }


def metadata(kind: str, value: dict[str, Any], offset: int, member: str | None) -> dict[str, Any]:
    return {
        "offsets_partition": 7,
        "log_offset": offset,
        "time_ms": T + 50,
        "group_id": "g",
        "group_type": "consumer",
        "type": kind,
        "member_id": member,
        "value_json": orjson.dumps({"version": 0, "data": value}).decode(),
    }


def member(topics: list[str], regex: str | None) -> list[dict[str, Any]]:
    """A consumer group with one member."""
    value = {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "subscribedTopicNames": topics,
        "subscribedTopicRegex": regex,
        "rebalanceTimeoutMs": 1000,
        "serverAssignor": None,
    }
    return [
        metadata("ConsumerGroupMetadata", {"epoch": 3}, 40, None),
        metadata("ConsumerGroupMemberMetadata", value, 41, "m"),
    ]


def streams(topics: list[str], repartition: list[str]) -> list[dict[str, Any]]:
    """A streams group with one member, which reads these topics."""
    member: dict[str, Any] = {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeoutMs": 1000,
        "topologyEpoch": 1,
        "processId": "p",
        "userEndpoint": None,
        "clientTags": [],
    }
    part = {
        "subtopologyId": "0",
        "sourceTopics": topics,
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [
            {"name": name, "partitions": 0, "replicationFactor": 0, "topicConfigs": []}
            for name in repartition
        ],
        "copartitionGroups": [],
    }
    rows = [
        metadata("StreamsGroupMetadata", {"epoch": 3}, 40, None),
        metadata("StreamsGroupMemberMetadata", member, 41, "m"),
        metadata("StreamsGroupTopology", {"epoch": 1, "subtopologies": [part]}, 42, None),
    ]
    return [{**row, "group_type": "streams"} for row in rows]


def ask(folder: Path, rows: dict[str, Any], **more: Any) -> list[StaleOffset]:
    chosen = {"silent_ms": HOUR, "expiring_ms": HOUR, "retention_ms": WEEK, "at_ms": T + 2 * HOUR}
    with DuckEngine(write_rows(folder, rows)) as engine:
        return list(stale_offsets(engine, **(chosen | more)).data)


CASES: list[tuple[dict[str, Any], str, int | None]] = [
    ({}, "commit", T + 1 + WEEK),
    ({"group_generations": [generation(None, T + 30)]}, "empty", T + 30 + WEEK),
    ({"group_generations": [generation(None, -1)]}, "empty", T + 1 + WEEK),
    ({"group_generations": [generation(["orders"], T)]}, "subscribed", None),
    ({"group_generations": [generation(["others"], T)]}, "commit", T + 1 + WEEK),
    ({"group_generations": [generation(["orders"], T, protocolType="connect")]}, "members", None),
    ({"consumer_group_epochs": member(["orders"], None)}, "subscribed", None),
    ({"consumer_group_epochs": member(["others"], None)}, "commit", T + 1 + WEEK),
    ({"consumer_group_epochs": member([], "o.*")}, "unknown", None),
    ({"consumer_group_epochs": member([], None)[:1]}, "commit", T + 1 + WEEK),
    ({"consumer_group_epochs": streams(["orders"], [])}, "subscribed", None),
    ({"consumer_group_epochs": streams([], ["orders"])}, "subscribed", None),
    ({"consumer_group_epochs": streams(["others"], [])}, "commit", T + 1 + WEEK),
]
"""What is known of a group beside its commit; why its offset expires, and when."""


def test_when_an_offset_expires(tmp_path: Path) -> None:
    rows = defaultdict[str, list[dict[str, Any]]](list)
    for number, (known, _, _) in enumerate(CASES):
        for name, of_table in {"offset_commits": [commit(1, 10)], **known}.items():
            rows[name] += [row | {"group_id": f"g{number:02}"} for row in of_table]
    offsets = ask(tmp_path, rows)
    for number, (row, (known, by, expires)) in enumerate(zip(offsets, CASES, strict=True)):
        assert row.group_id == f"g{number:02}"
        assert (row.expires_by, row.expires_ms) == (by, expires), known
        assert (row.last_commit_ms, row.silent_ms) == (T + 1, 2 * HOUR - 1)
        assert row.committed_offset == 10


@pytest.mark.slow
def test_time_stored_with_the_offset_counts_unless_it_is_kept(tmp_path: Path) -> None:
    commits = [commit(1, 10, expire_timestamp_ms=T + 99)]
    (row,) = ask(tmp_path / "a", {"offset_commits": commits})
    assert (row.expires_by, row.expires_ms) == ("stored", T + 99)
    kept = {"offset_commits": commits, "group_generations": [generation(["orders"], T)]}
    (row,) = ask(tmp_path / "b", kept)
    assert (row.expires_by, row.expires_ms) == ("subscribed", None)
    assert row.member_id == "m"


def test_offset_of_an_open_transaction_is_kept(tmp_path: Path) -> None:
    commits = [commit(1, 10), commit(2, 20, transaction="open", producer_id=1, producer_epoch=0)]
    (row,) = ask(tmp_path, {"offset_commits": commits})
    assert (row.expires_by, row.expires_ms, row.committed_offset) == ("pending", None, 10)


@pytest.mark.slow
def test_which_are_told(tmp_path: Path) -> None:
    old, young = commit(1, 10), commit(2, 7, partition=1, commit_timestamp_ms=T + 2 * HOUR - 60_000)
    young["time_ms"] = T + 2 * HOUR - 60_000
    soon = young | {"partition": 2, "log_offset": 3, "expire_timestamp_ms": T + 3 * HOUR}
    gone = commit(4, 7, partition=3)
    tombstone = {
        **{name: gone[name] for name in ("offsets_partition", "group_id", "topic", "partition")},
        "log_offset": 5,
        "time_ms": T + 5,
        "type": "OffsetCommit",
    }
    rows = {"offset_commits": [old, young, soon, gone], "tombstones": [tombstone]}
    offsets = ask(tmp_path, rows)
    assert [row.partition for row in offsets] == [0, 2]
    assert {row.group_last_commit_ms for row in offsets} == {T + 2 * HOUR - 60_000}
    assert [row.partition for row in ask(tmp_path, rows, expiring_ms=0)] == [0]
    assert [row.partition for row in ask(tmp_path, rows, silent_ms=1)] == [0, 1, 2]
    assert [row.partition for row in ask(tmp_path, rows, silent_ms=3 * HOUR, expiring_ms=0)] == []


@pytest.mark.slow
def test_last_record_is_what_ages_are_counted_from(tmp_path: Path) -> None:
    rows = {"offset_commits": [commit(1, 10), commit(2, 7, topic="x", time_ms=T + 5 * HOUR)]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = stale_offsets(engine, silent_ms=HOUR, expiring_ms=0, retention_ms=WEEK)
        late = stale_offsets(
            engine, silent_ms=HOUR, expiring_ms=0, retention_ms=WEEK, at_ms=T + 9 * HOUR
        )
        early = stale_offsets(engine, silent_ms=HOUR, expiring_ms=0, retention_ms=WEEK, at_ms=T - 1)
    assert [(row.topic, row.silent_ms) for row in report.data] == [
        ("orders", 5 * HOUR - 1),
        ("x", 5 * HOUR - 2),
    ]
    assert report.notes == (
        "Cluster test as of its last known record, from 2023-11-15T03:13:20.000Z.",
    )
    assert "later records, if any, are unknown" in late.notes[0]
    assert (early.data, len(early.notes)) == ((), 2)
    assert "earlier records are unknown" in early.notes[0]


@pytest.mark.parametrize("seed", range(examples(3, 8)))
def test_groups_that_are_not_read_have_no_such_offset(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = RandomHistory(seed)
    history.write(tmp_path / "log")
    draw = random.Random(seed)
    monkeypatch.setattr("kgroup.history.sql.engine.FEW_JOBS", 1_000)  # in this process
    with engine_of_log(tmp_path / "log", tmp_path / "w") as engine:
        sql = "SELECT MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM offset_commits"
        (span,) = engine.query(sql).to_pylist()
        length = span["last_ms"] - span["first_ms"]

        def ask(at_ms: int, silent_ms: int, expiring_ms: int, retention_ms: int) -> Any:
            return stale_offsets(
                engine,
                silent_ms=silent_ms,
                expiring_ms=expiring_ms,
                retention_ms=retention_ms,
                at_ms=at_ms,
            ).data

        some = 0
        for _ in range(6):
            at_ms = span["first_ms"] + draw.randrange(length + 1)
            silent_ms, expiring_ms, retention_ms = (draw.randrange(1, length) for _ in range(3))
            expected = [
                row
                for row in ask(at_ms, -(1 << 62), expiring_ms, retention_ms)  # those of all groups
                if row.silent_ms >= silent_ms
                or (row.expires_ms is not None and row.expires_ms <= at_ms + expiring_ms)
            ]
            found = ask(at_ms, silent_ms, expiring_ms, retention_ms)
            assert list(found) == expected
            some += len(found)
            with monkeypatch.context() as patch:
                patch.setattr("kgroup.history.query.stale._MOST_GROUPS", 1)
                assert list(ask(at_ms, silent_ms, expiring_ms, retention_ms)) == expected
        assert some
