"""The rules of ownership, one by one: what a record gives, and what takes it away again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kgroup.history.ownership.ownership import NEEDED, OwnershipState, derive
from kgroup.history.warehouse.table import TABLES
from kgroup.model.record import DecodedRecord
from tests.history.brute_force import facts_of_record
from tests.model.records import TOPIC_ID, classic, classic_member, consumer_member, record

Row = dict[str, Any]
A, B = "a", "b"
NEW_ID = "B" * 22
"""Of the topic `orders`, when it has been deleted and made again."""
MEMBER_A = {"groupId": "g", "memberId": A}


def at(time_ms: int | None, *written: DecodedRecord) -> list[DecodedRecord]:
    """Records that a coordinator wrote at once."""
    return [replace(each, timestamp_ms=time_ms) for each in written]


def derived(*parts: Iterable[DecodedRecord]) -> list[Row]:
    """The rows that records make, part after part; offsets count from 0."""
    owned, rows, offset = OwnershipState.none(), list[Row](), 0
    for part in parts:
        found: dict[str, list[Row]] = {name: [] for name in NEEDED}
        for each in part:
            for name, row in facts_of_record(replace(each, offset=offset)):
                if name in found:
                    found[name].append({key: row[key] for key in NEEDED[name]})
            offset += 1
        tables = {
            name: pa.Table.from_pylist(
                rows, schema=pa.schema([TABLES[name].schema.field(key) for key in NEEDED[name]])
            )
            for name, rows in found.items()
        }
        step = derive(0, owned, tables, {TOPIC_ID: "orders", NEW_ID: "orders"})
        rows += step.closed.to_pylist()
        owned = step.now
    rows += owned.open.to_pylist()
    return rows


def short(rows: list[Row]) -> set[tuple[Any, ...]]:
    """Member, partition, offsets from and to, and how it ended."""
    return {
        (
            *(row["member_id"], row["partition"]),
            *(row["from_log_offset"], row["to_log_offset"], row["ended_by"]),
        )
        for row in rows
    }


def group(generation: int, **members: Iterable[int]) -> DecodedRecord:
    """A generation of a classic group, with partitions by member."""
    made = [classic_member(name, partitions=owned) for name, owned in members.items()]
    return classic("g", made, generation=generation)


def gone(kind: str) -> DecodedRecord:
    return record(f"ConsumerGroup{kind}", MEMBER_A, None)


def test_classic_group() -> None:
    rows = derived(
        at(1, group(1, a=[0, 1, 2, 3])),
        at(2, group(2, a=[0, 1], b=[2])),
        at(3, group(3, a=[0], b=[2, 1])),
        at(4, group(4, a=[1, 2, 0])),
        at(5, record("GroupMetadata", {"group": "g"}, None)),
    )
    assert short(rows) == {
        (A, 0, 0, 4, "deleted"),
        (A, 1, 0, 2, "moved"),
        (A, 2, 0, 1, "moved"),
        (A, 3, 0, 1, "released"),
        (B, 2, 1, 3, "gone"),
        (B, 1, 2, 3, "gone"),
        (A, 1, 3, 4, "deleted"),
        (A, 2, 3, 4, "deleted"),
    }
    first = next(row for row in rows if row["partition"] == 0)
    assert (first["generation_id"], first["from_ms"], first["to_ms"]) == (1, 1, 5)
    assert (first["group_type"], first["topic"], first["client_id"]) == (
        "classic",
        "orders",
        "client",
    )


def test_what_cannot_be_read_is_not_claimed() -> None:
    odd = classic_member(A, assignment={"raw": "AAEC", "error": "no such thing"})
    rows = derived(at(1, group(1, a=[0, 1])), at(2, classic("g", [odd])), at(3, group(3, a=[0])))
    assert short(rows) == {(A, 0, 0, 1, None), (A, 1, 0, 1, None), (A, 0, 2, None, None)}
    assert {row["to_ms"] for row in rows} == {2, None}


def test_other_protocols_own_no_partitions() -> None:
    worker = classic_member(A, assignment={"raw": "AAEC"}, subscription={"raw": "AAEC"})
    assert derived(at(1, classic("g", [worker], protocolType="connect"))) == []


def test_partitions_to_revoke_are_owned_until_they_are_given_up() -> None:
    rows = derived(
        at(1, *consumer_member("g", A, epoch=1, partitions=[0, 1])),
        at(2, *consumer_member("g", A, epoch=1, partitions=[0], revoked=[1], state=1)),
        at(3, *consumer_member("g", A, epoch=2, partitions=[0])),
        at(4, *consumer_member("g", B, epoch=2, partitions=[1])),
        at(5, *(gone(kind) for kind in ("CurrentMemberAssignment", "MemberMetadata"))),
    )
    assert short(rows) == {(A, 1, 2, 8, "released"), (B, 1, 11, None, None), (A, 0, 2, 12, "gone")}
    assert {(row["topic"], row["topic_id"]) for row in rows} == {("orders", TOPIC_ID)}


def test_members_are_known_from_an_earlier_part() -> None:
    described, _, current = consumer_member("g", A, epoch=1, instanceId="pod-1")
    _, _, more = consumer_member("g", A, epoch=2, partitions=[0])
    rows = derived(at(1, described, current), at(2, classic("other", [])), at(3, more))
    assert [(row["instance_id"], row["generation_id"]) for row in rows] == [("pod-1", 2)]


def test_a_member_that_left_is_not_known_any_more() -> None:
    described, _, current = consumer_member("g", A, epoch=1, instanceId="pod-1")
    _, _, more = consumer_member("g", A, epoch=2, partitions=[0])
    parts = [at(1, described, current), at(2, gone("MemberMetadata")), at(3, more)]
    for rows in (derived(*parts), derived([each for part in parts for each in part])):
        assert [row["instance_id"] for row in rows] == [None]


def upgrade(time_ms: int | None) -> list[list[DecodedRecord]]:
    members = consumer_member("g", A, epoch=2, partitions=[0]) + consumer_member("g", B, epoch=2)
    return [
        at(time_ms and time_ms - 1, group(1, a=[0], b=[1])),
        at(time_ms, record("GroupMetadata", {"group": "g"}, None), *members),
    ]


def test_ownership_outlasts_a_conversion() -> None:
    tombstones = [
        record("ConsumerGroupCurrentMemberAssignment", MEMBER_A, None),
        record("ConsumerGroupMetadata", {"groupId": "g"}, None),
    ]
    rows = derived(*upgrade(7), at(8, *tombstones, group(3, a=[0])))
    assert short(rows) == {(A, 0, 0, None, None), (B, 1, 0, 1, "released")}
    (kept,) = (row for row in rows if row["member_id"] == A)
    assert (kept["group_type"], kept["generation_id"], kept["topic_id"]) == ("classic", 1, TOPIC_ID)


def test_without_times_nothing_tells_that_it_was_a_conversion() -> None:
    assert short(derived(*upgrade(None))) == {
        (A, 0, 0, 1, "deleted"),
        (B, 1, 0, 1, "deleted"),
        (A, 0, 4, None, None),
    }


def test_tombstone_of_another_type_says_nothing() -> None:
    foreign = record("ShareGroupCurrentMemberAssignment", MEMBER_A, None)
    rows = derived(at(1, *consumer_member("g", A, epoch=1, partitions=[0])), at(2, foreign))
    assert short(rows) == {(A, 0, 2, None, None)}


def test_classic_tombstone_removes_a_group_of_any_type() -> None:
    """As in the coordinator: `GroupMetadataManager.replay(GroupMetadataKey, ...)`."""
    tombstone = record("GroupMetadata", {"group": "g"}, None)
    rows = derived(at(1, *consumer_member("g", A, epoch=1, partitions=[0])), at(2, tombstone))
    assert short(rows) == {(A, 0, 2, 3, "deleted")}


def test_member_that_stays_without_its_assignment() -> None:
    start = consumer_member("g", A, epoch=1, partitions=[0])
    rows = derived(at(1, *start), at(2, gone("CurrentMemberAssignment")))
    assert short(rows) == {(A, 0, 2, 3, "released")}


def test_conversion_whose_tombstones_are_lost() -> None:
    before, (_, *members) = upgrade(7)
    assert short(derived(before, members)) == {(A, 0, 0, None, None), (B, 1, 0, 1, "released")}


def test_topic_that_was_made_again() -> None:
    """Another topic of the same name: nobody else has the old one's partition."""
    first = consumer_member("g", A, epoch=1, partitions=[0])
    value = {
        "memberEpoch": 2,
        "previousMemberEpoch": 1,
        "state": 0,
        "assignedPartitions": [{"topicId": NEW_ID, "partitions": [0]}],
        "partitionsPendingRevocation": [],
    }
    again = record("ConsumerGroupCurrentMemberAssignment", MEMBER_A, value)
    rows = derived(at(1, *first), at(2, again))
    assert short(rows) == {(A, 0, 2, 3, "released"), (A, 0, 3, None, None)}
    assert [row["topic_id"] for row in rows] == [TOPIC_ID, NEW_ID]


def test_several_owners_at_once() -> None:
    def has(member_id: str, partitions: list[int]) -> DecodedRecord:
        topics = [{"topicId": TOPIC_ID, "partitions": partitions}]
        value = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0}
        key = {"groupId": "g", "memberId": member_id}
        return record(
            "ShareGroupCurrentMemberAssignment", key, {**value, "assignedPartitions": topics}
        )

    rows = derived(at(1, has(A, [0, 1]), has(B, [0])), at(2, has(A, [1])))
    assert short(rows) == {(A, 0, 0, 2, "released"), (A, 1, 0, None, None), (B, 0, 1, None, None)}
