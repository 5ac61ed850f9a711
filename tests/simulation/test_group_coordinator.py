"""What a broker does with requests of groups of both protocols while it leads, loads, or does not.

Sources: `GroupCoordinatorService` and `CoordinatorRuntime` of 4.3.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.message import LEAVE_EPOCH, DescribeConsumerGroup
from kgroup.simulation.group_coordinator import GroupCoordinatorShard
from kgroup.simulation.message import CommittedPartition, Heartbeat, OffsetCommit, OffsetFetch
from kgroup.simulation.rules import Version
from tests.simulation.consumer_world import GROUP, image
from tests.simulation.mixed_world import join_group
from tests.simulation.world import Sim, beat, join, sim

FOO = {("foo", 0): CommittedPartition(7)}


def fail_over(made: Sim) -> None:
    """Have another broker, which knew nothing, go on from the log."""
    made.coordinator.resign()
    made.coordinator = GroupCoordinatorShard(made.coordinator._settings, made)
    made.coordinator.update_topics(image({"foo": 6}))
    made.coordinator.elect(made.log, 0)
    made.clock.run(made.clock.now_ms)


@pytest.mark.parametrize("version", [(1, 1, 1), (3, 9, 2)])
@pytest.mark.parametrize("request_", [join("A"), DescribeConsumerGroup(GROUP)])
def test_brokers_before_4_0_know_no_consumer_groups(version: Version, request_: Any) -> None:
    assert sim(version).ask(request_).error is ErrorCode.UNSUPPORTED_VERSION


def test_who_does_not_lead_or_still_loads_sends_members_away() -> None:
    """`throwIfConsumerGroupHeartbeatRequestIsInvalid` comes first."""
    made = sim()
    made.coordinator.resign()
    assert made.ask(join("A")).error is ErrorCode.NOT_COORDINATOR
    assert made.ask(DescribeConsumerGroup(GROUP)).error is ErrorCode.NOT_COORDINATOR
    assert made.ask(join("A", assignor="none")).error is ErrorCode.UNSUPPORTED_ASSIGNOR
    made.coordinator.elect(made.log, 100)
    assert made.ask(join("A")).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert made.ask(join(" ")).error is ErrorCode.INVALID_REQUEST
    assert made.ask(Heartbeat(GROUP, 2, "A")).error is ErrorCode.NONE
    made.clock.run(100)
    assert made.ask(join("A")).member_epoch == 2


def test_a_group_is_found_whatever_its_protocol() -> None:
    made = sim()
    assert made.coordinator.group(GROUP) is None
    made.ask(OffsetCommit(GROUP, FOO))
    assert isinstance(made.coordinator.group(GROUP), ClassicGroup)
    made.ask(join("A"))
    group = made.coordinator.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    assert (group.state, group.generation_id, list(group.members)) == (GroupState.STABLE, 2, ["A"])


def test_an_empty_group_goes_on_from_its_epoch() -> None:
    """`consumerGroupFenceMembers` raises it; the world learns of the last member, too."""
    made = sim()
    made.ask(join("A"))
    made.ask(beat("A", LEAVE_EPOCH))
    assert made.removals == [("A", RebalanceCause.MEMBER_LEFT)]
    group = made.coordinator.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    assert (group.state, group.epoch) == (GroupState.EMPTY, 3)
    assert made.ask(join("B")).member_epoch == 4


def test_who_waits_for_others_is_told_that_the_broker_does_not_lead_any_more() -> None:
    made = sim()
    waiting = join_group("", instance_id="i")
    made.coordinator.handle(waiting)
    assert made.take() == []
    made.coordinator.resign()
    ((asked, answer),) = made.take()
    assert (asked, answer.error) == (waiting, ErrorCode.NOT_COORDINATOR)
    assert made.clock.next_ms is None


def test_a_group_without_members_and_offsets_is_removed_an_interval_after_it_is_loaded() -> None:
    """`scheduleGroupMetadataExpiration`."""
    made = sim()
    made.ask(join("A"))
    made.ask(beat("A", LEAVE_EPOCH))
    fail_over(made)
    made.clock.run(599_999)
    assert made.coordinator.group(GROUP) is not None
    made.clock.run(600_000)
    assert made.coordinator.group(GROUP) is None
    assert list(made.log) == []


def test_another_broker_goes_on_with_groups_of_both_protocols() -> None:
    """Members keep their epochs and partitions, and what was committed stays."""
    made = sim()
    made.ask(join("A", instance_id="i"))
    made.ask(OffsetCommit(GROUP, FOO, 2, "A"))
    joined = made.ask(join_group("", instance_id="j"))
    assert joined.generation_id == 3
    made.ask(OffsetCommit("simple", FOO))
    before = made.ask(DescribeConsumerGroup(GROUP))
    fail_over(made)
    assert made.ask(DescribeConsumerGroup(GROUP)) == before
    assert [member.speaks_classic for member in before.members].count(True) == 1
    assert isinstance(made.coordinator.group("simple"), ClassicGroup)
    fetched = made.ask(OffsetFetch(GROUP, member_id="A", member_epoch=2))
    assert fetched.offsets[("foo", 0)].committed_offset == 7
    assert made.ask(beat("A", 2)).member_epoch == 2
    made.clock.run(45_000)  # the session of A and of C
    assert made.ask(DescribeConsumerGroup(GROUP)).state is GroupState.EMPTY


def test_readers_of_the_log_see_what_classic_members_say() -> None:
    """As `Delta` wants it: the metadata of their protocols decoded."""
    made = sim()
    made.ask(join("A"))
    made.ask(join_group("", instance_id="j", owned=(1, 2)))
    (member,) = (each for each in made.log.groups()[GROUP].members if each.uses_classic_protocol)
    assert member.subscription is not None
    assert [partition.partition for partition in member.subscription.owned or ()] == [1, 2]


def test_topics_that_are_added_reach_every_broker() -> None:
    made = sim()
    made.ask(join("A"))
    made.coordinator.update_topics(image({"foo": 8}))
    assert len(made.ask(beat("A", 2)).assignment) == 8
    made.coordinator.resign()
    made.coordinator.update_topics(image({"foo": 9}))
    made.coordinator.elect(made.log, 0)
    made.clock.run(made.clock.now_ms)
    assert len(made.ask(beat("A", 3)).assignment) == 9
