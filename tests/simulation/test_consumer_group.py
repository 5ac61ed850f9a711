"""The coordinator of consumer groups, by what Kafka says of it.

Sources are KIP-848 (proposal and comments in the code of 4.3.1); `CurrentAssignmentBuilder`,
`ConsumerGroup` and `GroupMetadataManager` stand for the comments there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from math import sqrt
from random import Random
from typing import Any

import pytest

from kgroup.model.cluster import partitions_of
from kgroup.model.group import GroupState, MemberState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.coordinator_record import decode_value, encode_value
from kgroup.simulation.classic.group import RebalanceCause
from kgroup.simulation.consumer.coordinator import ConsumerCoordinator
from kgroup.simulation.consumer.group import TimelineTable
from kgroup.simulation.consumer.member import ConsumerMember, SubscriptionCount
from kgroup.simulation.consumer.message import (
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ConsumerHeartbeatAnswer,
    NumbersByTopic,
    numbers_of,
)
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.consumer.target_assignment import TABLE
from kgroup.simulation.consumer.validation import RequestRefused
from kgroup.simulation.rules import ConsumerSettings
from tests.simulation.world import GROUP, ConsumerWorld, foo, image, topic_id

SIX = image({"foo": 6})
RANGE = ConsumerSettings(assignors=("range", "uniform"), assignment_interval_ms=0)


def world(settings: ConsumerSettings | None = None) -> ConsumerWorld:
    return ConsumerWorld(settings or RANGE, SIX)


def states(made: ConsumerWorld) -> dict[str, tuple[int, MemberState, NumbersByTopic]]:
    members = made.group.members.values()
    return {
        member.member_id: (member.epoch, member.state, numbers_of(member.assigned))
        for member in members
    }


# --- KIP-848, Rebalance Process: group epoch, target assignment, three phases ---------------------


def test_one_member_gets_all_at_once() -> None:
    """A first epoch is that of the group without members, so a first member comes to 2."""
    made = world()
    answer = made.join("A")
    assert (answer.error, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "A", 2)
    assert (answer.assignment, answer.heartbeat_interval_ms) == (foo(0, 1, 2, 3, 4, 5), 5_000)
    assert made.state() is GroupState.STABLE


def test_partitions_move_when_their_owner_has_given_them_up() -> None:
    """KIP-848: A has six partitions, B joins, then C; each is told only what is free."""
    made = world()
    made.join("A")
    joined = made.join("B")
    assert (joined.member_epoch, joined.assignment) == (3, foo())  # all are A's still
    assert made.state() is GroupState.RECONCILING
    answer = made.beat("A", 2)
    assert (answer.member_epoch, answer.assignment) == (
        2,
        foo(0, 1, 2),
    )  # not before it has revoked
    assert states(made)["A"][1] is MemberState.UNREVOKED_PARTITIONS
    assert made.beat("A", 2, owned=(0, 1, 2, 3)).member_epoch == 2  # one is not given up
    assert made.beat("B", 3).assignment is None
    done = made.beat("A", 2, owned=(0, 1, 2))
    assert (done.member_epoch, done.assignment) == (3, None)
    assert made.beat("B", 3).assignment == foo(3, 4, 5)
    assert made.state() is GroupState.STABLE

    assert made.join("C").member_epoch == 4
    assert made.beat("B", 3).assignment == foo(3)
    assert made.beat("A", 3).assignment == foo(0, 1)
    assert made.beat("B", 3, owned=(3,)).member_epoch == 4  # 2 is A's still
    assert states(made)["B"] == (4, MemberState.UNRELEASED_PARTITIONS, foo(3))
    assert made.beat("C", 4).assignment == foo(4, 5)
    assert made.beat("A", 3, owned=(0, 1)).member_epoch == 4
    assert made.beat("B", 4).assignment == foo(2, 3)
    assert made.state() is GroupState.STABLE
    assert {member_id: held for member_id, (_, _, held) in states(made).items()} == {
        "A": foo(0, 1),
        "B": foo(2, 3),
        "C": foo(4, 5),
    }


def test_uniform_moves_as_little_as_can_be() -> None:
    """KIP-848: the default assignor is sticky, so A keeps three of what it has."""
    made = world(ConsumerSettings(assignment_interval_ms=0))
    made.join("A")
    made.join("B")
    kept = made.beat("A", 2).assignment
    assert kept is not None
    (numbers,) = kept.values()
    assert len(numbers) == 3
    made.beat("A", 2, owned=numbers)
    assert made.beat("B", 3).assignment == foo(*{0, 1, 2, 3, 4, 5} - numbers)


def test_most_members_choose_the_assignor() -> None:
    """KIP-848: the coordinator takes the assignor that most members name, else its own first."""
    made = world()
    made.join("A", assignor="uniform")
    made.join("B", assignor="range")
    made.join("C", assignor="range")
    assert made.group.preferred_assignor() == "range"
    assert made.group.targets["A"] == {topic_id("foo"): [0, 1]}


def test_assigning_waits_for_the_interval() -> None:
    """KIP-1263: between two target assignments lies `group.consumer.assignment.interval.ms`."""
    made = world(ConsumerSettings(assignors=("range",)))
    made.clock.run(1)  # 0 would be a time that is not known
    made.join("A")
    made.clock.run(1_000)
    assert made.join("B").member_epoch == 2  # of the target assignment that there is
    assert made.state() is GroupState.ASSIGNING
    made.clock.run(1_001)
    assert made.beat("B", 2).member_epoch == 3
    assert made.group.assignment_epoch == 3


def test_every_state_of_a_member_has_its_way_on() -> None:
    consumers = {state for state in MemberState if not state.name.endswith("_TASKS")}
    assert set(TABLE) == consumers


# --- fencing and answers that are lost -----------------------------------------------------------


def test_a_member_that_missed_an_answer_may_name_the_epoch_before() -> None:
    """`throwIfConsumerGroupMemberEpochIsInvalid`: if what it owns is part of what it has."""
    made = world()
    made.join("A")
    made.join("B")
    made.beat("A", 2)
    made.beat("A", 2, owned=(0, 1, 2))  # this answer, epoch 3, is lost
    assert made.beat("A", 2, owned=(0, 1, 3)).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert made.beat("A", 2).error is ErrorCode.FENCED_MEMBER_EPOCH
    again = made.beat("A", 2, owned=(0, 1))
    assert (again.error, again.member_epoch) == (ErrorCode.NONE, 3)
    assert made.beat("A", 1, owned=(0, 1)).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_says_everything_is_told_everything() -> None:
    """`consumerGroupHeartbeat`: a full request is answered with the assignment as it is."""
    made = world()
    made.join("A")
    full = made.beat("A", 2, rebalance_timeout_ms=60_000, topics=("foo",), owned=())
    assert full.assignment == foo(0, 1, 2, 3, 4, 5)
    assert made.beat("A", 2, owned=()).assignment is None


def test_a_member_may_join_again_whatever_it_has_missed() -> None:
    """`throwIfConsumerGroupMemberEpochIsInvalid`: epoch 0 is always valid."""
    made = world()
    made.join("A")
    made.join("B")
    again = made.join("A")  # it owns nothing any more, so nothing is left to give up
    assert (again.member_epoch, again.assignment) == (3, foo(0, 1, 2))


@pytest.mark.parametrize(
    ("epoch", "fields", "code"),
    [
        (3, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {"member_id": "Z"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (2, {"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (LEAVE_EPOCH, {"member_id": "Z"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (2, {"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        (2, {"assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        (2, {"regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (2, {"group_id": " "}, ErrorCode.INVALID_REQUEST),
        (2, {"member_id": " "}, ErrorCode.INVALID_REQUEST),
        (2, {"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        (2, {"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        (PAUSE_EPOCH, {}, ErrorCode.INVALID_REQUEST),
        (-3, {}, ErrorCode.INVALID_REQUEST),
        (0, {"topics": ("foo",), "owned": {}}, ErrorCode.INVALID_REQUEST),
        (0, {"rebalance_timeout_ms": 1, "owned": {}}, ErrorCode.INVALID_REQUEST),
        (0, {"rebalance_timeout_ms": 1, "topics": ()}, ErrorCode.INVALID_REQUEST),
        (0, {"rebalance_timeout_ms": 1, "topics": (), "owned": foo(1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_changes_nothing(
    epoch: int, fields: dict[str, object], code: ErrorCode
) -> None:
    """`throwIfConsumerGroupHeartbeatRequestIsInvalid` and the like."""
    made = world()
    made.join("A")
    before = list(made.records)
    answer = made.send(**{"group_id": GROUP, "member_id": "A", "member_epoch": epoch, **fields})
    assert answer.error is code
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)
    assert made.records == before


def test_a_full_group_takes_nobody_new() -> None:
    """`throwIfConsumerGroupIsFull`: members may stay, and join again."""
    made = world(ConsumerSettings(max_size=1))
    made.join("A")
    assert made.join("B").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert made.join("A").error is ErrorCode.NONE


def test_who_has_no_id_is_given_one_in_version_0() -> None:
    """KIP-1082: since version 1 members choose their ids themselves."""
    made = world()
    made.next_id = "new"
    assert made.join("", version=0).member_id == "new"
    assert made.join("", version=1).error is ErrorCode.INVALID_REQUEST


# --- leaving, sessions, rebalance timeouts -------------------------------------------------------


def test_a_member_leaves_and_its_partitions_are_free() -> None:
    made = world()
    made.join("A")
    made.join("B")
    answer = made.beat("A", LEAVE_EPOCH)
    assert (answer.error, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, -1, None)
    assert made.state() is GroupState.ASSIGNING
    assert made.beat("B", 3).assignment == foo(0, 1, 2, 3, 4, 5)
    made.beat("B", LEAVE_EPOCH)
    assert made.state() is GroupState.EMPTY


def test_who_is_not_heard_of_is_removed_when_its_session_ends() -> None:
    """KIP-848: `group.consumer.session.timeout.ms`, 45 s; a refused heartbeat keeps nobody."""
    made = world()
    made.join("A")
    made.clock.run(40_000)
    made.beat("A", 2)
    made.clock.run(80_000)
    assert made.beat("A", 1).error is ErrorCode.FENCED_MEMBER_EPOCH
    made.clock.run(84_999)
    assert "A" in made.group.members
    made.clock.run(85_000)
    assert made.state() is GroupState.EMPTY
    assert made.removals == [("A", RebalanceCause.SESSION_EXPIRED)]
    assert made.group.epoch == 3


def test_who_does_not_revoke_in_its_rebalance_timeout_is_removed() -> None:
    """KIP-848: the member's rebalance timeout runs from when it is told to revoke."""
    made = world()
    made.join("A", rebalance_timeout_ms=10_000)
    made.join("B")
    made.clock.run(5_000)
    made.beat("A", 2)
    made.clock.run(14_999)
    made.beat("A", 2, owned=(0, 1, 2, 3, 4, 5))  # alive, but it does not give up
    assert "A" in made.group.members
    made.clock.run(15_000)
    assert "A" not in made.group.members
    assert made.removals == [("A", RebalanceCause.NOT_REVOKED)]
    assert made.beat("B", 3).assignment == foo(0, 1, 2, 3, 4, 5)


def test_who_revokes_in_time_stays() -> None:
    made = world()
    made.join("A", rebalance_timeout_ms=10_000)
    made.join("B")
    made.beat("A", 2)
    made.clock.run(9_999)
    made.beat("A", 2, owned=(0, 1, 2))
    made.clock.run(20_000)
    assert states(made)["A"] == (3, MemberState.STABLE, foo(0, 1, 2))


def test_a_session_that_cannot_be_ended_is_tried_again_unless_the_member_is_heard_of() -> None:
    """`CoordinatorTimerImpl` schedules it anew, in half a second, under the same key."""

    class Coordinator(ConsumerCoordinator):
        def _fence(self, *args: Any) -> list[GroupRecord]:
            if self._clock.now_ms <= 45_000:
                raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
            return super()._fence(*args)

    made = world()
    made.coordinator = Coordinator(RANGE, made, SIX)
    made.join("A")
    epoch = made.join("B").member_epoch
    made.clock.run(45_400)
    assert made.beat("B", epoch).error is ErrorCode.NONE
    made.clock.run(45_499)
    assert set(made.group.members) == {"A", "B"}
    made.clock.run(45_500)
    assert set(made.group.members) == {"B"}
    made.clock.run(90_399)
    assert set(made.group.members) == {"B"}


def test_who_revokes_at_the_same_epoch_in_time_stays() -> None:
    """There is no other target yet: the epoch does not tell that the timer is not needed."""
    settings = ConsumerSettings(assignment_interval_ms=60_000)
    made = ConsumerWorld(settings, image({"foo": 2, "bar": 2}))
    made.clock.run(1_000)
    joined = made.join("A", "foo", "bar", rebalance_timeout_ms=10_000)
    epoch = joined.member_epoch
    assert made.beat("A", epoch, topics=("foo",)).assignment == foo(0, 1)
    assert states(made)["A"] == (epoch, MemberState.UNREVOKED_PARTITIONS, foo(0, 1))
    made.beat("A", epoch, owned=(0, 1))
    assert states(made)["A"] == (epoch, MemberState.STABLE, foo(0, 1))
    made.clock.run(20_000)
    assert "A" in made.group.members


def test_who_leaves_for_a_while_revokes_nothing() -> None:
    """`scheduleConsumerGroupRebalanceTimeout` compares the epoch, which is another one then."""
    made = world()
    made.join("A", instance_id="i", rebalance_timeout_ms=10_000)
    made.join("B")
    made.beat("A", 2, instance_id="i")
    made.clock.run(5_000)
    made.beat("A", PAUSE_EPOCH, instance_id="i")
    made.clock.run(20_000)
    assert "A" in made.group.members


# --- static members ------------------------------------------------------------------------------


def test_a_static_member_comes_back_under_another_id_to_what_it_had() -> None:
    """KIP-848, Static Membership: it leaves with -2 and gives its assignment to the new one."""
    made = world()
    made.join("A", instance_id="i")
    made.join("B")
    made.beat("A", 2, instance_id="i")
    made.beat("A", 2, instance_id="i", owned=(0, 1, 2))
    made.beat("B", 3)
    left = made.beat("A", PAUSE_EPOCH, instance_id="i")
    assert (left.error, left.member_epoch) == (ErrorCode.NONE, PAUSE_EPOCH)
    assert made.state() is GroupState.RECONCILING
    assert made.group.members["A"].assigned == {topic_id("foo"): dict.fromkeys(range(3), 0)}
    epoch = made.group.epoch
    back = made.join("A2", instance_id="i")
    assert (back.member_epoch, back.assignment) == (3, foo(0, 1, 2))
    assert (made.group.epoch, set(made.group.members)) == (epoch, {"A2", "B"})
    assert made.removals == []
    assert made.beat("A", 3, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert made.beat("A", LEAVE_EPOCH, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_that_has_not_left_is_not_given_to_another() -> None:
    """`throwIfInstanceIdIsUnreleased`."""
    made = world()
    made.join("A", instance_id="i")
    assert made.join("A2", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert set(made.group.members) == {"A"}


def test_a_static_member_that_does_not_come_back_is_removed() -> None:
    """KIP-848: it is kicked out if it does not rejoin within the session timeout."""
    made = world()
    made.join("A", instance_id="i")
    made.clock.run(30_000)
    made.beat("A", PAUSE_EPOCH, instance_id="i")
    made.clock.run(45_000)  # its session runs from its last heartbeat
    assert made.state() is GroupState.EMPTY


# --- subscriptions and topics --------------------------------------------------------------------


def test_what_is_no_longer_subscribed_to_is_given_up_at_once() -> None:
    """`CurrentAssignmentBuilder.updateCurrentAssignment`."""
    made = ConsumerWorld(RANGE, image({"foo": 2, "bar": 1}))
    made.join("A", "foo", "bar")
    answer = made.beat("A", 2, topics=("bar",))
    assert (answer.member_epoch, answer.assignment) == (2, {topic_id("bar"): frozenset({0})})
    assert numbers_of(made.group.members["A"].revoking) == foo(0, 1)


def test_what_is_no_longer_subscribed_to_is_given_up_with_the_rest_of_its_topic() -> None:
    """`CurrentAssignmentBuilder.updateCurrentAssignment`, while a revocation is pending."""
    made = world()
    made.join("A")
    made.join("B")
    assert made.beat("A", 2).assignment == foo(0, 1, 2)
    assert made.beat("A", 2, topics=("bar",)).assignment == {}
    assert numbers_of(made.group.members["A"].revoking) == foo(0, 1, 2, 3, 4, 5)


def test_what_an_expression_matched_is_given_up_with_it() -> None:
    """`CurrentAssignmentBuilder`: while the next one is not resolved, it matches no topics."""
    made = world()
    made.join("A", topics=None, regex="foo")
    made.clock.run(0)
    made.beat("A", 1)
    answer = made.beat("A", 2, regex="bar")
    assert (answer.member_epoch, answer.assignment, made.group.epoch) == (2, {}, 2)
    assert states(made)["A"][1] is MemberState.UNREVOKED_PARTITIONS


def test_new_partitions_raise_the_epoch_with_the_next_heartbeat() -> None:
    """`onMetadataUpdate` has the group's topics looked at again."""
    made = world()
    made.join("A")
    made.beat("A", 2)
    made.coordinator.update_topics(image({"foo": 8}))
    assert made.group.epoch == 2
    answer = made.beat("A", 2)
    assert (answer.member_epoch, answer.assignment) == (3, foo(0, 1, 2, 3, 4, 5, 6, 7))


def test_a_topic_of_others_changes_nothing() -> None:
    made = world()
    made.join("A")
    made.coordinator.update_topics(image({"foo": 6, "bar": 1}))
    assert made.beat("A", 2).member_epoch == 2


def test_the_topics_of_an_expression_are_found_after_the_answer() -> None:
    """`maybeUpdateRegularExpressions`: resolved asynchronously; until then it matches nothing."""
    made = ConsumerWorld(RANGE, image({"foo": 1, "fool": 1, "bar": 1}))
    joined = made.join("A", topics=None, regex="fo+")
    assert (joined.member_epoch, joined.assignment) == (1, {})
    made.clock.run(0)
    assert made.group.regexes["fo+"].topics == {"foo"}  # all of the name is to match
    assert made.state() is GroupState.ASSIGNING
    assert made.beat("A", 1).assignment == foo(0)


def test_expressions_are_looked_at_again_when_topics_are_made_but_not_within_ten_seconds() -> None:
    """`REGEX_BATCH_REFRESH_MIN_INTERVAL_MS`."""
    made = ConsumerWorld(RANGE, image({"foo": 1}))
    made.join("A", topics=None, regex="foo.*")
    made.clock.run(0)
    made.beat("A", 1)
    made.coordinator.update_topics(image({"foo": 1, "foo2": 1}))
    made.clock.run(10_000)
    made.beat("A", 2)
    made.clock.run(10_001)
    assert made.group.epoch == 2
    made.beat("A", 2)
    made.clock.run(10_001)
    assert made.group.regexes["foo.*"].topics == {"foo", "foo2"}
    assert made.group.epoch == 3


def test_expressions_are_looked_at_again_when_they_are_old() -> None:
    """`group.consumer.regex.refresh.interval.ms`: what was deleted is noticed by nothing else."""
    settings = replace(RANGE, regex_refresh_interval_ms=60_000)
    made = ConsumerWorld(settings, image({"foo": 1, "foo2": 1}))
    made.join("A", topics=None, regex="foo.*")
    made.clock.run(0)
    made.coordinator.update_topics(image({"foo": 1}))
    for now_ms, topics in ((30_000, {"foo", "foo2"}), (60_000, {"foo", "foo2"}), (60_001, {"foo"})):
        made.clock.run(now_ms)
        made.beat("A", made.group.members["A"].epoch)
        made.clock.run(now_ms)
        assert made.group.regexes["foo.*"].topics == topics


def test_a_topic_that_is_deleted_is_given_up() -> None:
    """`onMetadataUpdate`: the group looks at its topics with the next heartbeat."""
    made = ConsumerWorld(RANGE, image({"foo": 2, "bar": 1}))
    assert made.join("A", "foo", "bar").assignment == {
        topic_id("foo"): frozenset({0, 1}),
        topic_id("bar"): frozenset({0}),
    }
    made.coordinator.update_topics(image({"foo": 2}))
    assert made.beat("A", 2).assignment == foo(0, 1)


def test_who_names_topics_beside_an_expression_subscribes_to_something_else() -> None:
    """`ConsumerGroup.subscriptionType`: homogeneous without names, and one expression a topic."""
    counts = SubscriptionCount()
    counts.replace(None, ConsumerMember("A", regex="foo"))
    counts.match(["foo"], 1)
    assert counts.is_homogeneous(1)
    counts.replace(None, ConsumerMember("B", topics=frozenset({"foo"}), regex="foo"))
    assert not counts.is_homogeneous(2)


def test_who_reads_nothing_is_assigned_as_the_others_after_an_expression_was_resolved() -> None:
    """Brokers of 4.3.1 do so (`test_simulation_mixed_oracle.py`, seed 503).

    Resolving put off the next look at the topics (`handleRegularExpressionsResult`), with which the
    group would have been seen not to subscribe alike any more.
    """
    made = ConsumerWorld(topics=image({"foo": 2}))
    made.join("A", topics=None, regex="foo")
    made.clock.run(0)
    made.join("B", topics=())
    assert sorted(made.group.targets) == ["A", "B"]
    assert sorted(target[topic_id("foo")][0] for target in made.group.targets.values()) == [0, 1]
    assert {len(target[topic_id("foo")]) for target in made.group.targets.values()} == {1}


def test_an_expression_goes_with_its_last_member() -> None:
    """`maybeDeleteResolvedRegularExpressions`."""
    made = ConsumerWorld(RANGE, SIX)
    made.join("A", topics=None, regex="foo")
    made.join("B", topics=None, regex="foo")
    made.clock.run(0)
    made.beat("A", LEAVE_EPOCH)
    assert "foo" in made.group.regexes
    made.beat("B", LEAVE_EPOCH)
    assert made.group.regexes == {}


# --- records -------------------------------------------------------------------------------------


def a_life() -> Iterator[ConsumerWorld]:
    """Yield a group again and again, at every step of an eventful life."""
    made = ConsumerWorld(RANGE, image({"foo": 6, "bar": 2}))
    steps: list[Callable[[], ConsumerHeartbeatAnswer | None]] = [
        partial(made.join, "A", instance_id="i", assignor="range"),
        partial(made.join, "B", topics=None, regex="bar|foo"),
        partial(made.clock.run, 1),
        partial(made.beat, "B", 2),
        partial(made.beat, "A", 2, instance_id="i"),
        partial(made.beat, "A", 2, instance_id="i", owned=(0, 1, 2)),
        partial(made.beat, "B", 3),
        partial(made.beat, "A", PAUSE_EPOCH, instance_id="i"),
        partial(made.join, "A2", instance_id="i"),
        partial(made.beat, "A2", 3, topics=("bar",)),
        partial(made.beat, "B", LEAVE_EPOCH),
        partial(made.clock.run, 60_000),
    ]
    for step in steps:
        answer = step()
        assert answer is None or answer.error is ErrorCode.NONE
        yield made


def test_replaying_the_records_gives_the_group_back() -> None:
    """Any reader of the log sees the group as its coordinator does."""
    for made in a_life():
        group, seen = made.group, made.replayed()
        assert (seen.group_epoch or 1, seen.state or group.state) == (group.epoch, group.state)
        assert {
            member.member_id: (
                member.member_epoch,
                member.previous_member_epoch,
                member.state,
                member.instance_id,
                {(part.topic_id, part.partition) for part in member.assignment or ()},
                {(part.topic_id, part.partition) for part in member.target_assignment or ()},
            )
            for member in seen.members
        } == {
            member.member_id: (
                member.epoch,
                member.previous_epoch,
                member.state,
                member.instance_id,
                {*partitions_of(chain(member.assigned.items(), member.revoking.items()))},
                {*partitions_of(group.targets.get(member.member_id, {}).items())},
            )
            for member in group.members.values()
        }
        assert seen.resolved_regexes == {
            regex: tuple(sorted(found.topics)) for regex, found in group.regexes.items()
        }


def test_records_are_such_as_brokers_write() -> None:
    made = list(a_life())[-1]
    for type_, _, value in made.records:
        if value is not None:
            decoded = decode_value(type_, encode_value(type_, 0, value))
            assert decoded == {"version": 0, "data": value}


def test_another_coordinator_goes_on_from_the_records() -> None:
    """`onLoaded` begins sessions anew, and rebalance timeouts where something is to be revoked."""
    made = world()
    made.join("A", rebalance_timeout_ms=10_000)
    made.join("B")
    made.beat("A", 2)
    other = world()
    for record in made.records:
        other.coordinator.replay(record)
    other.coordinator.on_loaded()
    assert other.group.members == made.group.members
    assert other.group.targets == made.group.targets
    other.clock.run(9_999)
    assert other.beat("B", 3).error is ErrorCode.NONE
    other.clock.run(10_000)
    assert set(other.group.members) == {"B"}
    other.clock.run(55_000)
    assert other.state() is GroupState.EMPTY
    other.coordinator.on_unloaded()
    assert other.coordinator.groups == {}
    assert other.clock.next_ms is None


def test_many_members() -> None:
    """Each partition has one owner when all have joined and beaten often enough."""
    made = ConsumerWorld(topics=image({"foo": 1_000}))
    names = [f"member-{number}" for number in range(20)]
    epochs = {name: made.join(name).member_epoch for name in names}
    for _ in range(4):
        for name in names:
            owned = made.group.members[name].assigned.get(topic_id("foo"), ())
            epochs[name] = made.beat(name, epochs[name], owned=owned).member_epoch
    assert made.state() is GroupState.STABLE
    held = [[*member.assigned[topic_id("foo")]] for member in made.group.members.values()]
    assert sorted(chain.from_iterable(held)) == [*range(1_000)]
    assert {*map(len, held)} == {50}


# ---- the order of a `TimelineHashMap`, by what is known of Fibonacci hashing


# Slots of a table of so many names: it grows before the one of which three quarters are more.
SLOTS = [2] * 3 + [4] * 3 + [8] * 5 + [16] * 11 + [32] * 5


def listed(names: list[str], slots: int) -> list[str]:
    """Order names of one letter, whose hash is its code.

    Slots are numbered by the part behind the point of that times the golden ratio; of those in one
    slot the last comes first.
    """
    found: list[list[str]] = [[] for _ in range(slots)]
    for name in names:
        found[int(ord(name) * (sqrt(5) - 1) / 2 % 1 * slots)].insert(0, name)
    return [name for slot in found for name in slot]


def test_names_are_in_the_order_of_their_slots() -> None:
    for seed in range(20):
        letters = [chr(ord("a") + number) for number in range(26)]
        Random(seed).shuffle(letters)
        table = TimelineTable()
        for count, letter in enumerate(letters, 1):
            table.put(letter)
            assert [*table] == listed(letters[:count], SLOTS[count])


def test_a_name_that_is_there_may_make_the_table_grow() -> None:
    """`hashAddIfAbsent` makes room before it looks."""
    for names in (["a", "b"], ["b", "a"]):
        table = TimelineTable()
        for name in [*names, "a"]:
            table.put(name)
        assert [*table] == listed(names, 4)


def test_names_that_are_gone_take_no_room() -> None:
    table = TimelineTable()
    for name in ("x", "y"):
        table.put(name)
    for name in ("x", "y"):
        table.remove(name)
    for name in ("b", "a"):
        table.put(name)
    assert [*table] == listed(["b", "a"], 2)
