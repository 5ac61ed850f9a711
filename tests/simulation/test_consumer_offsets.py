"""Offsets of consumer groups: who may commit, fetch and delete them, and how they end.

Sources: `OffsetMetadataManager`, `ConsumerGroup` and `GroupCoordinatorShard` of 4.3.1.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.consumer.message import LEAVE_EPOCH, DescribeConsumerGroup
from kgroup.simulation.message import (
    CommittedPartition,
    DeleteGroup,
    DescribeGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Protocol,
)
from kgroup.simulation.rules import BrokerSettings, Version
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import CoordinatorStage
from kgroup.simulation.subscription import encode_subscription
from tests.simulation.classic_table import NEW, OLD, VERSIONS, Table, make_join, stable
from tests.simulation.world import GROUP, Sim, beat, foo, image, join, join_group, sim

DAY_MS = 24 * 60 * 60 * 1000


def commit(
    made: Sim, epoch: int, member_id: str, *partitions: int, topic: str = "foo", **more: Any
) -> ErrorCode:
    """Commit; all partitions have the same answer."""
    metadata = more.pop("metadata", "")
    offsets = {
        (topic, partition): CommittedPartition(7, metadata) for partition in partitions or (0,)
    }
    answer = made.ask(OffsetCommit(GROUP, offsets, epoch, member_id, **more))
    (code,) = set(answer.errors.values())
    return ErrorCode(code)


def fetch(made: Sim, member_id: str | None = None, epoch: int = -1) -> Any:
    return made.ask(OffsetFetch(GROUP, member_id=member_id, member_epoch=epoch))


def fetched(made: Sim) -> set[tuple[str, int]]:
    return set(fetch(made).offsets)


def two_members() -> Sim:
    """A is at epoch 3, and has 0, 1 and 2 of foo since epoch 2; B is to have the others."""
    made = sim()
    made.ask(join("A", assignor="range"))
    made.clock.run(2_000)
    made.ask(join("B"))
    told = made.ask(beat("A", 2))
    made.ask(beat("A", 2, owned=told.assignment))
    return made


def test_members_commit_in_their_epoch_or_since_they_have_the_partition() -> None:
    """KIP-1251; one partition that is refused has all refused."""
    made = two_members()
    assert commit(made, 3, "A", 0, 5) is ErrorCode.NONE
    assert commit(made, 2, "A", 0, 1) is ErrorCode.NONE
    assert commit(made, 2, "A", 0, 5) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(made, 1, "A", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(made, 4, "A", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(made, 3, "Z", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(made, 3, "A", 0, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert fetched(made) == {("foo", 0), ("foo", 1), ("foo", 5)}


def test_members_commit_for_what_they_are_to_give_up() -> None:
    """KIP-1251: with an older epoch too, as long as they have not given it up."""
    made = two_members()
    made.clock.run(4_000)
    made.ask(join("C"))
    told = made.ask(beat("A", 3))
    assert (told.member_epoch, told.assignment) == (3, foo(0, 1))
    assert commit(made, 2, "A", 2) is ErrorCode.NONE
    made.ask(beat("A", 3, owned=told.assignment))
    assert commit(made, 2, "A", 2) is ErrorCode.STALE_MEMBER_EPOCH


def test_what_is_too_large_is_not_looked_at_further() -> None:
    """`commitOffset`: the epoch of a partition counts only where its metadata may be kept."""
    made = two_members()
    large = "m" * 4_097
    assert commit(made, 2, "A", 5, metadata=large) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(made, 2, "Z", 5, metadata=large) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetched(made) == set()
    assert commit(made, 2, "A", 0, metadata=large[1:]) is ErrorCode.NONE


def test_outsiders_commit_only_while_the_group_is_empty() -> None:
    made = two_members()
    assert commit(made, -1, "") is ErrorCode.UNKNOWN_MEMBER_ID
    made.ask(beat("A", LEAVE_EPOCH))
    made.ask(beat("B", LEAVE_EPOCH))
    assert commit(made, -1, "") is ErrorCode.NONE
    assert commit(made, 3, "A") is ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_members_are_fenced_by_their_generation() -> None:
    """`validateMemberEpoch`: they may use old versions of the request."""
    made = sim()
    made.ask(join("A"))
    joined = made.ask(join_group("", instance_id="i"))
    generation = joined.generation_id
    assert commit(made, generation, "C", version=5) is ErrorCode.NONE
    assert commit(made, generation + 1, "C", version=5) is ErrorCode.ILLEGAL_GENERATION
    assert fetch(made, "C", generation - 1).error is ErrorCode.ILLEGAL_GENERATION


def test_who_names_a_member_to_fetch_must_be_it() -> None:
    made = two_members()
    commit(made, 3, "A", 0)
    assert fetch(made, "A", 2).error is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(made, "Z", 3).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert set(fetch(made, "A", 3).offsets) == {("foo", 0)}
    assert set(fetch(made).offsets) == {("foo", 0)}


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    made = two_members()
    made.coordinator.update_topics(image({"foo": 6, "bar": 1}))
    commit(made, 3, "A", 0)
    commit(made, 3, "A", 0, topic="bar")
    answer = made.ask(OffsetDelete(GROUP, (("foo", 0), ("bar", 0), ("bar", 9))))
    assert answer.errors == {
        ("foo", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("bar", 0): ErrorCode.NONE,
        ("bar", 9): ErrorCode.NONE,
    }
    assert fetched(made) == {("foo", 0)}


def test_offsets_outlive_a_change_of_the_protocol() -> None:
    """A group that only commits makes way for members, and their group for classic ones."""
    made = sim()
    commit(made, -1, "")
    made.ask(join("A"))
    assert fetched(made) == {("foo", 0)}
    made.ask(beat("A", LEAVE_EPOCH))
    made.ask(join_group(""))
    assert made.ask(DescribeGroup(GROUP)).state is GroupState.EMPTY
    assert fetched(made) == {("foo", 0)}


def test_groups_of_both_protocols_are_listed() -> None:
    made = two_members()
    made.ask(OffsetCommit("a", {("foo", 0): CommittedPartition(7)}))
    assert made.ask(ListGroups()).groups == (
        ("a", "", GroupState.EMPTY),
        (GROUP, "consumer", GroupState.RECONCILING),
    )
    assert made.ask(DescribeGroup(GROUP)).state is GroupState.DEAD
    assert made.ask(DescribeConsumerGroup("a")).error is ErrorCode.GROUP_ID_NOT_FOUND
    described = made.ask(DescribeConsumerGroup(GROUP))
    assert (described.state, described.epoch) == (GroupState.RECONCILING, 3)
    assert {member.member_id: member.epoch for member in described.members} == {"A": 3, "B": 3}


def test_a_deleted_group_takes_its_offsets_with_it() -> None:
    """`deleteGroups`: the tombstones of offsets come first."""
    made = two_members()
    commit(made, 3, "A", 0)
    assert made.ask(DeleteGroup(GROUP)).error is ErrorCode.NON_EMPTY_GROUP
    made.ask(beat("A", LEAVE_EPOCH))
    made.ask(beat("B", LEAVE_EPOCH))
    made.written.clear()
    assert made.ask(DeleteGroup(GROUP)).error is ErrorCode.NONE
    types = [type_ for type_, _, value in made.written if value is None]
    assert (types[0], types[-1]) == ("OffsetCommit", "ConsumerGroupMetadata")
    assert list(made.log) == []
    assert made.coordinator.group(GROUP) is None


def test_offsets_of_topics_that_nobody_reads_expire_and_then_the_group() -> None:
    """`cleanupGroupMetadata`: of a consumer group the retention runs since the commit."""
    made = Sim(BrokerSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS))
    made.coordinator.update_topics(image({"foo": 6, "bar": 1}))
    made.ask(join("A", topics=("foo",)))
    commit(made, 2, "A", 0)
    commit(made, 2, "A", 0, topic="bar")
    while made.clock.now_ms < DAY_MS + 20 * 60_000:
        made.clock.run(made.clock.now_ms + 40_000)
        assert made.ask(beat("A", 2)).error is ErrorCode.NONE
    assert fetched(made) == {("foo", 0)}
    made.ask(beat("A", LEAVE_EPOCH))
    made.clock.run(made.clock.now_ms + 10 * 60_000)
    assert made.coordinator.group(GROUP) is None
    assert list(made.log) == []


# ---- when offsets expire: `OffsetExpirationConditionImpl` of 4.3.1, `removeExpiredOffsets` before


RETENTION_MS = 100


def table_of(version: Version) -> Table:
    """Make a coordinator that looks every millisecond."""
    return Table(version, offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=1)


@pytest.mark.parametrize(("version", "more_ms"), [(OLD, 1), ((2, 1), 0), ((3, 9, 2), 0), (NEW, 0)])
def test_of_nobody_it_expires_a_retention_after_the_commit(version: Version, more_ms: int) -> None:
    """`now - commitTimestamp >= retention`; before 2.1 `expireTimestamp < now`."""
    table = table_of(version)
    table.clock.run(50)
    assert table.commit(-1) is ErrorCode.NONE
    table.clock.run(50 + RETENTION_MS + more_ms - 1)
    assert table.committed() == 7
    table.clock.run(50 + RETENTION_MS + more_ms)
    assert table.committed() is None


@pytest.mark.parametrize("version", [(2, 1), *VERSIONS[1:]])
def test_of_a_group_it_expires_a_retention_after_the_last_member(version: Version) -> None:
    table = table_of(version)
    a = stable(table)
    table.commit(a.generation_id, a.member_id)
    table.clock.run(500)
    assert table.committed() == 7
    table.ask(LeaveGroup(GROUP, (LeavingMember(a.member_id),)))
    table.clock.run(500 + RETENTION_MS - 1)
    assert table.committed() == 7
    table.clock.run(500 + RETENTION_MS)
    assert table.committed() is None


@pytest.mark.parametrize(("version", "is_kept"), [((2, 7), True), ((2, 8), False)])
def test_of_a_topic_that_a_stable_group_does_not_read(version: Version, is_kept: bool) -> None:
    """`removeExpiredOffsets`: "if subscribedTopics.isDefined && is(Stable)", since 2.8."""
    table = table_of(version)
    subscription = encode_subscription(MemberSpec("a", ("u",)), "range")
    request = replace(make_join("a"), protocols=(Protocol("range", subscription),))
    request = replace(request, member_id=table.ask(request).member_id)
    table.send(request)
    table.clock.run(0)
    a = table.join_answer(request)
    assert table.commit(a.generation_id, a.member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    table.sync(a)
    assert table.commit(a.generation_id, a.member_id) is ErrorCode.NONE
    table.clock.run(RETENTION_MS)
    assert (table.committed() is not None) is is_kept


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retention_that_a_request_asks_for(version: Version) -> None:
    """Versions 2 to 4 of OffsetCommit; since 2.1 it does not run while the group has members."""
    table = table_of(version)
    a = stable(table)
    offsets = {("t", 0): CommittedPartition(7, retention_ms=50)}
    table.ask(OffsetCommit(GROUP, offsets, a.generation_id, a.member_id, version=4))
    now_ms = table.clock.now_ms
    table.clock.run(now_ms + 51)
    assert table.committed() == (None if version == OLD else 7)
    table.ask(LeaveGroup(GROUP, (LeavingMember(a.member_id),)))
    table.clock.run(now_ms + 52)
    assert table.committed() is None


def moved(version: str, moved_at: str) -> CoordinatorStage:
    """Have a group that is empty after 10 s, with a retention of 20 s, and another coordinator."""
    return CoordinatorStage(
        read_scenario(
            f"""
            version = "{version}"
            [topics]
            t = 1
            [brokers]
            offsets.retention.ms = "20s"
            offsets.retention.check.interval.ms = "1m"
            [[member]]
            name = "m"
            topics = "t"
            start = 0
            [[step]]
            at = "10s"
            do = "stop"
            member = "m"
            [[step]]
            at = "{moved_at}"
            do = "move_coordinator"
            """,
            "s.toml",
        ),
        Random(0),
    )


@pytest.mark.parametrize(
    ("version", "expires_ms"),
    [("1.1.1", 60_000), ("3.9.2", 60_000), ("4.0", 35_000 + 200 + 60_000)],
)
def test_a_broker_looks_at_its_own_times(version: str, expires_ms: int) -> None:
    """Not when it loads: before 4.0 since it was started, later since the partition was loaded."""
    here = moved(version, "35s")
    here.clock.run(36_000)
    assert any(record.type == "OffsetCommit" for record in here.cluster.log)
    here.clock.run(expires_ms - 1)
    assert any(record.type == "OffsetCommit" for record in here.cluster.log)
    here.clock.run(expires_ms)
    assert not any(record.type == "OffsetCommit" for record in here.cluster.log)


def test_a_broker_that_comes_back_looks_since_then() -> None:
    here = moved("3.9.2", "11s")  # to broker 2
    here.clock.run(15_000)
    here.cluster.stop_broker(1, 0)
    here.cluster.start_broker(1)
    here.cluster.move_coordinator(1)
    here.clock.run(15_000 + 60_000 - 1)
    assert any(record.type == "OffsetCommit" for record in here.cluster.log)
    here.clock.run(15_000 + 60_000)
    assert not any(record.type == "OffsetCommit" for record in here.cluster.log)
