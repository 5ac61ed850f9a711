"""Share groups' states: snapshots, updates, tombstones, and how they complete a group."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.offset import ShareOffset
from kgroup.model.record import DecodedRecord
from kgroup.model.share_state import ShareStateLog, with_share_states
from tests.model.records import TOPIC_ID, record

GONE_ID = "C" * 22


def key(partition: int, group: str = "s", topic_id: str = TOPIC_ID) -> dict[str, Any]:
    return {"groupId": group, "topicId": topic_id, "partition": partition}


def snapshot(partition: int, start: int, *, topic_id: str = TOPIC_ID, **more: Any) -> DecodedRecord:
    value = {
        "snapshotEpoch": 0,
        "stateEpoch": 1,
        "leaderEpoch": 0,
        "startOffset": start,
        "createTimestamp": 1,
        "writeTimestamp": 1,
        "stateBatches": [],
    }
    return record("ShareSnapshot", key(partition, topic_id=topic_id), {**value, **more})


def update(partition: int, start: int, **more: Any) -> DecodedRecord:
    value = {"snapshotEpoch": 0, "leaderEpoch": 0, "startOffset": start, "stateBatches": []}
    return record("ShareUpdate", key(partition), {**value, **more})


def states(*records: DecodedRecord) -> list[tuple[int | None, ...]]:
    """Partition, start offset, leader and state epoch and count of what is left of group s."""
    log = ShareStateLog()
    for each in records:
        log.replay(each)
    assert log.problems() == ()
    group = with_share_states(share_group(), log.states.get("s", {}), {})
    return [
        (o.partition, o.start_offset, o.leader_epoch, o.state_epoch, o.delivery_complete_count)
        for o in group.share_offsets or ()
    ]


def share_group(*offsets: ShareOffset) -> Group:
    return Group("s", GroupType.SHARE, GroupState.EMPTY, share_offsets=offsets)


def test_snapshot_is_the_whole_state() -> None:
    first = snapshot(0, 5, deliveryCompleteCount=3, leaderEpoch=2)
    assert states(first) == [(0, 5, 2, 1, 3)]
    assert states(first, snapshot(0, 2, stateEpoch=4)) == [(0, 2, 0, 4, None)]
    assert states(first, snapshot(1, 7)) == [(0, 5, 2, 1, 3), (1, 7, 0, 1, None)]


def test_not_begun_is_unknown() -> None:
    assert states(snapshot(0, -1)) == [(0, None, 0, 1, None)]


def test_update_changes_what_it_says() -> None:
    """`ShareCoordinatorShard.merge`: -1 leaves offset and leader epoch, the count is replaced."""
    first = snapshot(0, 5, leaderEpoch=2, deliveryCompleteCount=3)
    assert states(first, update(0, 9, leaderEpoch=3, deliveryCompleteCount=1)) == [(0, 9, 3, 1, 1)]
    assert states(first, update(0, -1, leaderEpoch=3)) == [(0, 5, 3, 1, None)]
    assert states(first, update(0, 9, leaderEpoch=-1)) == [(0, 9, 2, 1, None)]
    assert states(first, update(0, 9), update(0, -1, deliveryCompleteCount=4)) == [(0, 9, 0, 1, 4)]


def test_update_whose_snapshot_is_lost() -> None:
    assert states(update(0, 9)) == [(0, 9, 0, None, None)]


def test_tombstone_of_the_snapshot_removes_both() -> None:
    gone = record("ShareSnapshot", key(0), None)
    assert states(snapshot(0, 5), update(0, 9), snapshot(1, 6), gone) == [(1, 6, 0, 1, None)]
    assert states(gone) == []
    assert states(snapshot(0, 5), record("ShareUpdate", key(0), None)) == [(0, 5, 0, 1, None)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (
            record("Unknown", None, None),
            "1 record without a key left out, the first at offset {0}.",
        ),
        (
            DecodedRecord(
                0, 7, 0, "create", 0, None, None, None, "Unknown", {"type": 2, "raw": ""}, None
            ),
            "1 record of the unknown key type 2 left out, the first at offset {0}.",
        ),
        (
            DecodedRecord(
                0,
                7,
                0,
                "create",
                0,
                None,
                None,
                None,
                "ShareUpdate",
                {"type": 1, "data": key(0)},
                {"version": 0, "data": None, "raw": "", "error": "cut"},
            ),
            "ShareUpdate record left out: cut.",
        ),
    ],
)
def test_what_cannot_be_replayed(bad: DecodedRecord, reason: str) -> None:
    log = ShareStateLog("folder")
    log.replay(snapshot(0, 5))
    log.replay(bad)
    (problem,) = log.problems()
    assert problem.reason == reason.format(bad.offset)
    assert (problem.path, problem.offset, problem.offsets_partition) == ("folder", bad.offset, None)
    assert log.states["s"][TOPIC_ID, 0]["startOffset"] == 5


def test_group_is_completed_partition_by_partition() -> None:
    log = ShareStateLog()
    for each in (snapshot(0, 5), snapshot(2, 6), snapshot(0, 1, topic_id=GONE_ID)):
        log.replay(each)
    group = share_group(
        ShareOffset(TOPIC_ID, "orders", 0, "initialized"),
        ShareOffset(TOPIC_ID, "orders", 1, "initializing"),
        ShareOffset(GONE_ID, None, None, "deleting"),
    )
    assert with_share_states(group, log.states["s"], {TOPIC_ID: "orders"}).share_offsets == (
        ShareOffset(TOPIC_ID, "orders", 0, "initialized", 5, 0, 1),
        ShareOffset(TOPIC_ID, "orders", 1, "initializing"),
        ShareOffset(TOPIC_ID, "orders", 2, None, 6, 0, 1),
        ShareOffset(GONE_ID, None, 0, "deleting", 1, 0, 1),
    )
    assert with_share_states(group, {}, {}) == group


def test_groups_of_other_types_have_no_share_offsets() -> None:
    group = Group("s", GroupType.CLASSIC, GroupState.EMPTY)
    log = ShareStateLog()
    log.replay(snapshot(0, 5))
    assert with_share_states(group, log.states["s"], {}) == group
