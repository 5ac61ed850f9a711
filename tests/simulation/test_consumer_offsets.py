"""Offsets of consumer groups: who may commit, fetch and delete them, and how they end.

Sources: `OffsetMetadataManager`, `ConsumerGroup` and `GroupCoordinatorShard` of 4.3.1.
"""

from __future__ import annotations

from typing import Any

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.consumer.message import LEAVE_EPOCH, DescribeConsumerGroup
from kgroup.simulation.message import (
    CommittedPartition,
    DeleteGroup,
    DescribeGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from kgroup.simulation.rules import BrokerSettings
from tests.simulation.consumer_world import GROUP, image
from tests.simulation.mixed_world import join_group
from tests.simulation.world import Sim, beat, join, sim

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
