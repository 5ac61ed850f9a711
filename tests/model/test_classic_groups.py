"""Classic groups, and conversions between the classic and the consumer protocol."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.group import AssignedPartition, GroupState, GroupType, Subscription
from kgroup.model.group_log import past_generation
from kgroup.model.record import DecodedRecord
from tests.model.records import (
    NOW_MS,
    classic,
    classic_member,
    commit,
    consumer_member,
    epochs,
    groups,
    record,
    replay,
)


def classic_tombstone(group: str) -> DecodedRecord:
    return record("GroupMetadata", {"group": group}, None)


def consumer_tombstones(group: str, *member_ids: str) -> list[DecodedRecord]:
    """What a coordinator writes when it turns a consumer group into a classic one."""
    members = [{"groupId": group, "memberId": member_id} for member_id in member_ids]
    return [
        *(record("ConsumerGroupCurrentMemberAssignment", key, None) for key in members),
        *(record("ConsumerGroupTargetAssignmentMember", key, None) for key in members),
        record("ConsumerGroupTargetAssignmentMetadata", {"groupId": group}, None),
        *(record("ConsumerGroupMemberMetadata", key, None) for key in members),
        record("ConsumerGroupMetadata", {"groupId": group}, None),
    ]


def test_members_mean_stable() -> None:
    group = groups(
        classic(
            "g",
            [classic_member("b", partitions=[2, 0]), classic_member("a", partitions=[1])],
            generation=7,
        )
    )["g"]
    assert group.type is GroupType.CLASSIC
    assert group.state is GroupState.STABLE
    assert group.protocol_type == "consumer"
    assert group.assignor == "range"
    assert group.generation_id == 7
    assert group.leader_id == "b"
    assert group.state_timestamp_ms == NOW_MS
    assert (group.group_epoch, group.assignment_epoch, group.coordinator) == (None, None, None)
    assert [member.member_id for member in group.members] == ["a", "b"]
    assert group.members[1].assignment == (
        AssignedPartition(None, "orders", 2),
        AssignedPartition(None, "orders", 0),
    )
    assert group.members[1].target_assignment is None
    assert group.members[1].session_timeout_ms == 45_000
    assert group.members[1].rebalance_timeout_ms == 300_000
    assert group.members[1].member_epoch is None


def test_no_members_mean_empty() -> None:
    group = groups(classic("g", generation=3))["g"]
    assert (group.state, group.generation_id) == (GroupState.EMPTY, 3)
    assert (group.assignor, group.leader_id, group.members) == (None, None, ())


def test_newest_record_counts() -> None:
    first = classic("g", [classic_member("a"), classic_member("b")])
    assert [
        member.member_id
        for member in groups(first, classic("g", [classic_member("b")], generation=2))["g"].members
    ] == ["b"]


def test_tombstone_removes_the_group() -> None:
    assert groups(classic("g", [classic_member("a")]), classic_tombstone("g")) == {}


def test_the_new_coordinators_first_record_has_no_protocol_type() -> None:
    """4.x writes an empty group of generation 0 before the first rebalance is complete."""
    group = groups(classic("g", generation=0, protocolType=""))["g"]
    assert (group.state, group.protocol_type, group.generation_id) == (GroupState.EMPTY, None, 0)


def test_record_versions_before_timestamps_and_rebalance_timeouts() -> None:
    """Version 0 has neither; coordinators then let the session timeout bound rebalances."""
    member = {
        name: value
        for name, value in classic_member("a").items()
        if name not in ("rebalanceTimeout", "groupInstanceId")
    }
    value = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "a",
        "members": [member],
    }
    group = groups(record("GroupMetadata", {"group": "g"}, value))["g"]
    assert group.state_timestamp_ms is None
    assert group.members[0].rebalance_timeout_ms == 45_000
    assert group.members[0].instance_id is None


def test_minus_one_is_unknown() -> None:
    member = classic_member("a", rebalanceTimeout=-1)
    group = groups(classic("g", [member], currentStateTimestamp=-1))["g"]
    assert group.state_timestamp_ms is None
    assert group.members[0].rebalance_timeout_ms == 45_000


def test_subscription_with_everything() -> None:
    said = {
        "version": 3,
        "topics": ["orders", "audit"],
        "userData": {"generation": 4},
        "ownedPartitions": [{"topic": "orders", "partitions": [3, 1]}],
        "generationId": 4,
        "rackId": "r1",
    }
    member = groups(
        classic("g", [classic_member("a", subscription=said, groupInstanceId="static-1")])
    )["g"].members[0]
    assert member.subscription == Subscription(
        topics=("orders", "audit"),
        owned=(AssignedPartition(None, "orders", 3), AssignedPartition(None, "orders", 1)),
        generation_id=4,
        user_data={"generation": 4},
        version=3,
    )
    assert (member.rack_id, member.instance_id) == ("r1", "static-1")


def test_subscription_version_0_tells_nothing_of_owned_partitions() -> None:
    said = {"version": 0, "topics": ["orders"], "userData": ""}
    member = groups(classic("g", [classic_member("a", subscription=said)]))["g"].members[0]
    assert member.subscription == Subscription(topics=("orders",), version=0)


@pytest.mark.parametrize(
    ("decoded", "shown"),
    [
        ({"raw": "AAEC", "error": "too short"}, {"raw": "AAEC", "error": "too short"}),
        ({"raw": ""}, None),
    ],
)
def test_bytes_that_are_no_subscription_are_kept(decoded: Any, shown: Any) -> None:
    member = groups(
        classic(
            "g",
            [classic_member("a", subscription=decoded, assignment={"raw": "fw==", "error": ""})],
        )
    )["g"].members[0]
    assert (member.subscription, member.protocol_metadata) == (None, shown)
    assert (member.assignment, member.protocol_assignment) == (None, {"raw": "fw==", "error": ""})


def test_no_assignment_bytes_mean_that_a_consumer_owns_nothing() -> None:
    member = groups(classic("g", [classic_member("a", assignment={"raw": ""})]))["g"].members[0]
    assert (member.assignment, member.protocol_assignment) == ((), None)


@pytest.mark.parametrize(("decoded", "kept"), [(None, None), ("", None), ("aGk=", "aGk=")])
def test_what_an_assignor_added_to_an_assignment_is_kept(
    decoded: str | None, kept: str | None
) -> None:
    given = {"version": 1, "assignedPartitions": [], "userData": decoded}
    member = groups(classic("g", [classic_member("a", assignment=given)]))["g"].members[0]
    assert (member.assignment, member.assignment_user_data) == ((), kept)


def test_other_protocol_types_keep_their_own_words() -> None:
    worker = classic_member(
        "w", subscription={"version": 1, "url": "http://w"}, assignment={"connectors": []}
    )
    group = groups(classic("g", [worker], protocolType="connect", protocol="sessioned"))["g"]
    assert (group.protocol_type, group.assignor) == ("connect", "sessioned")
    member = group.members[0]
    assert (member.subscription, member.assignment) == (None, None)
    assert member.protocol_metadata == {"version": 1, "url": "http://w"}
    assert member.protocol_assignment == {"connectors": []}


def test_online_upgrade_to_the_consumer_protocol() -> None:
    group = groups(
        commit("g", 0, 5),
        classic("g", [classic_member("a")]),
        classic_tombstone("g"),
        epochs("g", group_epoch=2, assignment_epoch=2),
        consumer_member("g", "a", epoch=2, partitions=[0]),
    )["g"]
    assert (group.type, group.state) == (GroupType.CONSUMER, GroupState.STABLE)
    assert group.generation_id is None
    assert [offset.committed_offset for offset in group.offsets] == [5]


def test_downgrade_to_the_classic_protocol() -> None:
    group = groups(
        epochs("g", group_epoch=2, assignment_epoch=2),
        consumer_member("g", "a", epoch=2),
        consumer_tombstones("g", "a"),
        classic("g", [classic_member("b")], generation=2),
    )["g"]
    assert (group.type, group.group_epoch, group.generation_id) == (GroupType.CLASSIC, None, 2)
    assert [member.member_id for member in group.members] == ["b"]


def test_deleted_consumer_group_is_gone() -> None:
    records = epochs("g", group_epoch=2, assignment_epoch=2)
    assert groups(records, consumer_member("g", "a", epoch=2), consumer_tombstones("g", "a")) == {}


def test_tombstone_of_a_classic_group_removes_one_of_any_type() -> None:
    """Kafka: `GroupMetadataManager.replay(GroupMetadataKey, null)` removes what has the id."""
    records = epochs("g", group_epoch=2, assignment_epoch=2)
    assert groups(records, consumer_member("g", "a", epoch=2), classic_tombstone("g")) == {}


def test_tombstones_of_another_type_change_nothing() -> None:
    """Compaction may keep tombstones of the group's former life longer than their values."""
    before = groups(classic("g", [classic_member("a")]))
    assert groups(classic("g", [classic_member("a")]), consumer_tombstones("g", "a")) == before


def test_offsets_before_the_group_do_not_make_it_inconsistent() -> None:
    group = groups(commit("g", 0, 5), epochs("g", group_epoch=1, assignment_epoch=1))["g"]
    assert (group.type, group.state) == (GroupType.CONSUMER, GroupState.EMPTY)


def test_an_empty_group_without_protocol_type_may_change_its_type() -> None:
    """Kafka's coordinators replace such a group without a tombstone too."""
    group = groups(
        classic("g", generation=0, protocolType=""), epochs("g", group_epoch=1, assignment_epoch=1)
    )["g"]
    assert group.type is GroupType.CONSUMER


def test_another_type_without_a_tombstone_is_reported_and_believed() -> None:
    last = epochs("g", group_epoch=9, assignment_epoch=9)
    delta = replay(classic("g", [classic_member("a")]), last)
    assert delta.groups()["g"].group_epoch == 9
    (problem,) = delta.problems()
    assert (problem.kind, problem.group_id, problem.offset) == ("inconsistent", "g", last[0].offset)
    assert "classic" in problem.reason


@pytest.mark.parametrize(
    ("sent", "is_unclaimed"),
    [
        ({"version": 3, "generationId": 4, "userData": {"generation": 4}}, True),
        ({"version": 3, "generationId": -1, "userData": {"generation": -1}}, False),
        ({"version": 1, "userData": {"generation": 4}}, True),  # Java before 3.5
        ({"version": 1, "userData": {"generation": -1}}, False),
        ({"version": 1, "userData": None}, False),
        ({"version": 1, "userData": {"generation": 2, "trailing": "AAAAAg=="}}, False),
        ({"version": 1, "userData": {"previousAssignment": [], "generation": 4}}, False),
    ],
)
def test_who_was_in_a_generation_before_and_claims_nothing(
    sent: dict[str, object], is_unclaimed: bool
) -> None:
    """The message has a generation since version 2, the user data of cooperative-sticky alone."""
    subscription = {"topics": ["t"], "ownedPartitions": [], **sent}
    members = [{"memberId": "m", "subscription": subscription, "assignment": None}]
    data = {"generation": 5, "protocol": "cooperative-sticky", "members": members}
    assert past_generation(data).unclaimed == ("m",) * is_unclaimed
