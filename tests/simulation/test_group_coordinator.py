"""What a broker does with requests of groups of both protocols while it leads, loads, or does not.

Sources: `GroupCoordinatorService` and `CoordinatorRuntime` of 4.3.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.consumer_protocol import decode_assignment, encode_assignment
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.message import (
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    DescribeConsumerGroup,
    numbers_of,
)
from kgroup.simulation.group_coordinator import GroupCoordinatorShard
from kgroup.simulation.message import (
    CommittedPartition,
    DeleteGroup,
    Heartbeat,
    JoinAnswer,
    LeaveAnswer,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings, MigrationPolicy, Version
from tests.simulation.world import GROUP, MixedWorld, Sim, beat, foo, image, join, join_group, sim

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
    assert made.ask(beat("A", 2)).assignment == foo(*range(8))
    made.coordinator.resign()
    made.coordinator.update_topics(image({"foo": 9}))
    made.coordinator.elect(made.log, 0)
    made.clock.run(made.clock.now_ms)
    assert made.ask(beat("A", 3)).assignment == foo(*range(9))


# ---- groups that change their protocol online, and members of both protocols in one group


def mixed(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> MixedWorld:
    settings = ConsumerSettings(
        assignors=("range", "uniform"), assignment_interval_ms=0, migration_policy=policy
    )
    classic = BrokerSettings(initial_rebalance_delay_ms=0)
    return MixedWorld(settings, image({"foo": 6}), classic)


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    topics = [{"topic": "foo", "partitions": list(partitions)}]
    return encode_assignment({"version": 1, "assignedPartitions": topics, "userData": user_data})


def partitions(answer: SyncAnswer) -> list[int]:
    topics = decode_assignment(answer.assignment)["assignedPartitions"]
    return sorted(number for topic in topics for number in topic["partitions"])


def classic_group(world: MixedWorld, given: bytes, **more: Any) -> None:
    """Make a stable group of one member, C, that has something."""
    world.join_classic("", new="C", **more)
    world.join_classic("C", **more)
    world.sync("C", 1, assignments={"C": given})
    assert world.classic.state is GroupState.STABLE


def test_a_classic_group_is_upgraded_when_a_member_joins_with_the_consumer_protocol() -> None:
    """`convertToConsumerGroup`: every member keeps what it has, at the generation as epoch."""
    world = mixed()
    classic_group(world, assignment(0, 1, 2, 3, 4, 5))
    joined = world.join("A")
    assert (joined.error, joined.member_epoch, joined.assignment) == (ErrorCode.NONE, 2, foo())
    assert GROUP not in world.coordinator.classic.groups
    member = world.group.members["C"]
    assert (member.epoch, numbers_of(member.assigned)) == (1, foo(0, 1, 2, 3, 4, 5))
    assert member.classic is not None
    seen = {each.member_id: each.uses_classic_protocol for each in world.replayed().members}
    assert seen == {"A": False, "C": True}


def test_a_classic_member_gives_up_partitions_by_joining_again() -> None:
    """`classicGroupJoinToConsumerGroup`, `...Sync...`, `...Heartbeat...`."""
    world = mixed()
    classic_group(world, assignment(0, 1, 2, 3, 4, 5))
    world.join("A")
    assert world.beat_classic("C", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    told = world.join_classic("C", owned=(0, 1, 2, 3, 4, 5))
    assert (told.error, told.generation_id, told.protocol) == (ErrorCode.NONE, 1, "range")
    assert (told.leader_id, told.members) == ("", ())  # nobody leads: the coordinator assigns
    assert partitions(world.sync("C", 1)) == [3, 4, 5]  # of A and C, C comes last
    assert world.beat_classic("C", 1) is ErrorCode.REBALANCE_IN_PROGRESS  # it has to say so
    done = world.join_classic("C", owned=(3, 4, 5))
    assert done.generation_id == 2
    assert world.beat_classic("C", 1) is ErrorCode.ILLEGAL_GENERATION
    assert partitions(world.sync("C", 2)) == [3, 4, 5]
    assert world.beat_classic("C", 2) is ErrorCode.NONE
    assert world.beat("A", 2).assignment == foo(0, 1, 2)
    assert world.state() is GroupState.STABLE


def test_a_classic_member_joins_again_when_what_it_waits_for_is_free() -> None:
    """`classicGroupHeartbeatToConsumerGroup`: partitions pending assignment are free."""
    world = mixed()
    world.join("A")
    assert world.join_classic("C").generation_id == 3
    assert partitions(world.sync("C", 3)) == []
    world.beat("A", 2)
    assert world.beat_classic("C", 3) is ErrorCode.NONE  # all are A's still
    world.beat("A", 2, owned=(0, 1, 2))
    assert world.beat_classic("C", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    world.join_classic("C")
    assert partitions(world.sync("C", 3)) == [3, 4, 5]


def test_a_classic_member_that_syncs_too_late_joins_again() -> None:
    """`throwIfRebalanceInProgress`: a new rebalance was triggered meanwhile."""
    world = mixed()
    world.join("A")
    world.join_classic("C")
    world.join_classic("D")
    assert world.sync("C", 3).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_may_come_back_with_the_consumer_protocol_without_having_left() -> None:
    """`getOrMaybeSubscribeStaticConsumerGroupMember`: classic members do not say that they go."""
    world = mixed()
    world.join("A")
    world.join_classic("", new="C", instance_id="i")
    assert world.join("C2", instance_id="i").error is ErrorCode.NONE
    assert set(world.group.members) == {"A", "C2"}
    code = world.sync("C", 3, instance_id="i").error
    assert code is ErrorCode.FENCED_INSTANCE_ID


def test_who_waits_in_a_rebalance_joins_again_when_the_group_is_upgraded() -> None:
    """`convertToConsumerGroup`: awaiting consumers are told of another rebalance."""
    world = mixed()
    classic_group(world, assignment(0))
    world.join_classic("", new="D")
    assert world.join_classic("D") is None  # it waits for C
    world.join("A")
    _, answer = world.pairs[-1]
    assert isinstance(answer, JoinAnswer)
    assert (answer.error, answer.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, "D")
    assert set(world.group.members) == {"A", "C", "D"}


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [
        (MigrationPolicy.DISABLED, False, False),
        (MigrationPolicy.UPGRADE, True, False),
        (MigrationPolicy.DOWNGRADE, False, True),
        (MigrationPolicy.BIDIRECTIONAL, True, True),
    ],
)
def test_policies(policy: MigrationPolicy, upgrades: bool, downgrades: bool) -> None:
    """`group.consumer.migration.policy`."""
    world = mixed(policy)
    classic_group(world, assignment(0))
    code = world.join("A").error
    assert code is (ErrorCode.NONE if upgrades else ErrorCode.GROUP_ID_NOT_FOUND)
    other = mixed(policy)
    other.join("A")
    joined = other.join_classic("C")
    if policy is MigrationPolicy.DISABLED:
        assert joined.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    assert joined.error is ErrorCode.NONE
    other.beat("A", LEAVE_EPOCH)
    assert (GROUP in other.coordinator.classic.groups) == downgrades
    assert (GROUP in other.coordinator.groups) != downgrades


@pytest.mark.parametrize(
    ("given", "more"),
    [
        (assignment(0, user_data=b"x"), {}),  # user data of a custom assignor would be lost
        (b"\x00", {}),  # malformed
        (assignment(0), {"protocol_type": "connect"}),
    ],
)
def test_what_cannot_be_upgraded(given: bytes, more: dict[str, Any]) -> None:
    """`validateOnlineUpgrade`, `ConsumerGroup.fromClassicGroup`."""
    world = mixed()
    classic_group(world, given, **more)
    assert world.join("A").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.classic.state is GroupState.STABLE


def test_an_empty_group_makes_way_for_the_other_protocol() -> None:
    """`maybeDeleteEmptyClassicGroup`, `maybeDeleteEmptyConsumerGroup`."""
    world = mixed(MigrationPolicy.DISABLED)
    classic_group(world, assignment(0))
    world.ask(LeaveGroup(GROUP, (LeavingMember("C"),)))
    assert world.join("A").error is ErrorCode.NONE
    assert GROUP not in world.coordinator.classic.groups
    world.beat("A", LEAVE_EPOCH)
    assert world.ask(SyncGroup(GROUP, 1, "C", version=3)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join_classic("", new="D").error is ErrorCode.MEMBER_ID_REQUIRED
    assert GROUP not in world.coordinator.groups
    assert world.classic.state is GroupState.EMPTY


def test_an_empty_group_is_gone_when_somebody_unknown_joins_with_the_classic_protocol() -> None:
    """A broker of 4.3.1 does that: the group that comes next begins at its first epoch."""
    world = mixed()
    world.join("A")
    world.beat("A", LEAVE_EPOCH)
    written = len(world.records)
    assert world.join_classic("nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(world.records) == written
    assert world.join("B").member_epoch == 2


def test_the_group_is_downgraded_when_the_last_member_with_the_consumer_protocol_leaves() -> None:
    """`convertToClassicGroup`: the classic group begins with a rebalance."""
    world = mixed()
    world.join("A")
    world.join_classic("C")
    world.join_classic("D")
    world.beat("A", LEAVE_EPOCH)
    group = world.classic
    assert (group.state, group.generation_id) == (GroupState.PREPARING_REBALANCE, 4)
    assert world.removals == [("A", RebalanceCause.MEMBER_LEFT)]
    assert world.causes[-1] is RebalanceCause.MEMBER_LEFT
    assert (group.protocol_type, group.protocol) == ("consumer", "range")
    assert [member.member_id for member in group.members] == ["C", "D"]
    assert partitions(SyncAnswer(ErrorCode.NONE, group["C"].assignment)) == [2, 3]
    world.join_classic("C")
    joined = world.join_classic("D")
    assert (joined.error, joined.generation_id) == (ErrorCode.NONE, 5)


def test_the_group_is_downgraded_when_its_session_ends() -> None:
    world = mixed()
    world.join("A")
    world.join_classic("C", session_timeout_ms=60_000)
    world.sync("C", 3)
    world.clock.run(45_000)
    assert [member.member_id for member in world.classic.members] == ["C"]
    assert world.removals == [("A", RebalanceCause.SESSION_EXPIRED)]
    assert world.causes[-1] is RebalanceCause.SESSION_EXPIRED


def test_a_static_member_that_comes_back_with_the_classic_protocol_downgrades_the_group() -> None:
    """`validateOnlineDowngradeWithReplacedMember`: with the same subscription, no rebalance."""
    world = mixed()
    world.join("A", instance_id="i")
    world.join_classic("C")
    answer = world.beat("A", 2, instance_id="i")
    assert answer.assignment == foo(0, 1, 2)
    world.beat("A", 2, instance_id="i", owned=(0, 1, 2))
    world.beat("A", PAUSE_EPOCH, instance_id="i")
    back = world.join_classic("", new="A2", instance_id="i")
    assert (back.error, back.member_id, back.generation_id) == (ErrorCode.NONE, "A2", 3)
    assert world.removals == []
    assert world.classic.state is GroupState.STABLE
    assert partitions(world.sync("A2", 3, instance_id="i")) == [0, 1, 2]
    assert partitions(world.sync("C", 3)) == [3, 4, 5]


def test_a_member_that_does_not_join_or_sync_in_time_is_removed() -> None:
    """`scheduleConsumerGroupJoinTimeoutIfAbsent`, `scheduleConsumerGroupSyncTimeout`."""
    world = mixed()
    world.join("A")
    world.join_classic("C", session_timeout_ms=300_000)  # it does not sync
    world.join_classic("D", session_timeout_ms=300_000)
    world.sync("D", 4)
    world.clock.run(30_000)
    world.beat("A", 2)
    world.clock.run(59_999)
    assert "C" in world.group.members
    world.beat("A", 2, owned=(0, 1))
    world.clock.run(60_000)
    assert set(world.group.members) == {"A", "D"}
    assert world.beat("A", 4).member_epoch == 5
    assert world.beat_classic("D", 4) is ErrorCode.REBALANCE_IN_PROGRESS
    for now_ms in (90_000, 119_999):
        world.clock.run(now_ms)
        world.beat("A", 5)
        assert world.beat_classic("D", 4) is ErrorCode.REBALANCE_IN_PROGRESS  # it does not join
    world.clock.run(120_000)
    assert set(world.group.members) == {"A"}
    assert world.removals == [("C", RebalanceCause.NOT_SYNCED), ("D", RebalanceCause.NOT_JOINED)]
    assert world.causes[-2:] == [RebalanceCause.NOT_SYNCED, RebalanceCause.NOT_JOINED]


def test_a_classic_member_that_falls_silent_is_removed() -> None:
    """`convertToConsumerGroup` begins its session, which has the length that it asked for."""
    world = mixed()
    classic_group(world, assignment(0, 1, 2, 3, 4, 5), session_timeout_ms=20_000)
    world.clock.run(5_000)
    world.join("A")
    world.clock.run(24_999)
    assert set(world.group.members) == {"A", "C"}
    world.clock.run(25_000)
    assert set(world.group.members) == {"A"}
    assert world.removals == [("C", RebalanceCause.SESSION_EXPIRED)]


def test_a_classic_member_keeps_the_session_that_it_asked_for() -> None:
    """`scheduleConsumerGroupSessionTimeout` in `classicGroupHeartbeatToConsumerGroup`."""
    world = mixed()
    classic_group(world, assignment(0, 1, 2, 3, 4, 5), session_timeout_ms=20_000)
    world.join("A")
    world.clock.run(15_000)
    world.beat_classic("C", 1)
    world.clock.run(34_999)
    assert "C" in world.group.members
    world.clock.run(35_000)
    assert set(world.group.members) == {"A"}


def test_who_has_joined_again_is_not_expected_to() -> None:
    """`cancelConsumerGroupJoinTimeout`."""
    world = mixed()
    classic_group(world, assignment(0, 1, 2, 3, 4, 5), session_timeout_ms=300_000)
    world.join("A")
    assert world.beat_classic("C", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    world.clock.run(30_000)
    world.beat("A", 2)
    epoch = world.join_classic("C", session_timeout_ms=300_000).generation_id
    world.sync("C", epoch)
    world.clock.run(59_999)
    world.beat("A", 2)
    world.clock.run(60_000)
    assert set(world.group.members) == {"A", "C"}


def test_who_has_left_is_expected_to_do_nothing() -> None:
    """`consumerGroupFenceMember` cancels all timers: it may come back under its id."""
    world = mixed()
    classic_group(world, assignment(0, 1, 2, 3, 4, 5), session_timeout_ms=300_000)
    world.join("A")
    assert world.beat_classic("C", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    world.clock.run(5_000)
    world.ask(LeaveGroup(GROUP, (LeavingMember("C"),)))
    world.clock.run(30_000)
    assert world.join("C").error is ErrorCode.NONE
    world.clock.run(60_000)
    assert "C" in world.group.members


def test_a_group_that_is_too_large_for_a_classic_one_is_not_downgraded() -> None:
    """`validateOnlineDowngradeWithFencedMembers`: `group.max.size`."""
    world = MixedWorld(
        ConsumerSettings(assignors=("range",), assignment_interval_ms=0),
        image({"foo": 6}),
        BrokerSettings(initial_rebalance_delay_ms=0, max_size=1),
    )
    world.join("A")
    world.join_classic("C")
    world.join_classic("D")
    world.beat("A", LEAVE_EPOCH)
    assert set(world.group.members) == {"C", "D"}
    world.ask(LeaveGroup(GROUP, (LeavingMember("D"),), version=3))
    assert [member.member_id for member in world.classic.members] == ["C"]


def test_a_group_that_is_downgraded_keeps_what_members_subscribe_to() -> None:
    """Offsets of these topics cannot be deleted (`computeSubscribedTopics`)."""
    world = mixed()
    world.join("A")
    world.join_classic("C")
    world.beat("A", LEAVE_EPOCH)
    assert world.classic.subscribed_topics == frozenset({"foo"})


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"names": ("other",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_not_join(more: dict[str, Any], code: ErrorCode) -> None:
    world = mixed()
    world.join("A")
    world.join_classic("C")
    assert world.join_classic("D", **more).error is code


def test_classic_requests_of_members_that_speak_the_other_protocol() -> None:
    """`throwIfMemberDoesNotUseClassicProtocol`; anybody may be removed by LeaveGroup."""
    world = mixed()
    world.join("A", instance_id="i")
    assert world.beat_classic("A", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("A", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    left = world.ask(LeaveGroup(GROUP, (LeavingMember("", "i"), LeavingMember("Z"))))
    assert isinstance(left, LeaveAnswer)
    assert [code for _, code in left.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.state() is GroupState.EMPTY


def test_a_group_is_deleted_when_it_is_empty() -> None:
    """`validateDeleteGroup`; its tombstones remove everything."""
    world = mixed()
    assert world.ask(DeleteGroup(GROUP)).error is ErrorCode.GROUP_ID_NOT_FOUND
    world.join("A")
    assert world.ask(DeleteGroup(GROUP)).error is ErrorCode.NON_EMPTY_GROUP
    world.beat("A", LEAVE_EPOCH)
    assert world.ask(DeleteGroup(GROUP)).error is ErrorCode.NONE
    assert world.coordinator.groups == {}
    other = mixed()
    for record in world.records:
        other.coordinator.replay(record)
    assert other.coordinator.groups == {}


def test_a_static_member_that_comes_back_while_it_waits_is_not_new_any_more() -> None:
    """`ClassicGroup.replaceStaticMember` of 4.3.1 makes another member, which is not new."""
    world = mixed()
    classic_group(world, assignment(0), session_timeout_ms=60_000)
    for new in ("E", "E2"):
        world.join_classic("", new=new, instance_id="i", session_timeout_ms=6_000)
    world.clock.run(20_000)
    assert "E2" in world.classic
