"""What is said of consumer groups in `consumer_answers` is what they do, and brokers did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

import pytest

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.consumer.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ConsumerGroupHeartbeat,
    DescribeConsumerGroup,
    numbers_of,
)
from kgroup.simulation.message import (
    CommittedPartition,
    DeleteGroup,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings
from tests.simulation.consumer_answers import BEAT_EPOCH, FOLLOWS, REFUSALS
from tests.simulation.recorded_play import Step, replayed
from tests.simulation.world import GROUP, MixedWorld, beat, image, join, join_group, sim

FOO = {("foo", 0): CommittedPartition(7)}

WITNESSES: list[tuple[Any, ErrorCode]] = [
    (beat("A", LEAVE_EPOCH, instance_id="i"), ErrorCode.FENCED_INSTANCE_ID),
    (beat("A", LEAVE_EPOCH, assignor="none"), ErrorCode.UNSUPPORTED_ASSIGNOR),
    (beat(" ", LEAVE_EPOCH), ErrorCode.INVALID_REQUEST),
    (beat("A", PAUSE_EPOCH, instance_id="z"), ErrorCode.UNKNOWN_MEMBER_ID),
    (beat("A", PAUSE_EPOCH, instance_id="z", assignor="none"), ErrorCode.UNSUPPORTED_ASSIGNOR),
    (LeaveGroup(GROUP, (LeavingMember("A", "i"),)), ErrorCode.FENCED_INSTANCE_ID),
    (join_group("Z", instance_id="z"), ErrorCode.UNKNOWN_MEMBER_ID),
]
"""What was not recorded: requests to a group of A, and B with the instance i."""

TO_EMPTY: list[tuple[Any, ErrorCode]] = [
    (join("A"), ErrorCode.NONE),
    (beat("A", 1), ErrorCode.UNKNOWN_MEMBER_ID),
    (beat("A", LEAVE_EPOCH), ErrorCode.UNKNOWN_MEMBER_ID),
    (beat("A", PAUSE_EPOCH, instance_id="i"), ErrorCode.UNKNOWN_MEMBER_ID),
    (join_group(""), ErrorCode.MEMBER_ID_REQUIRED),
    (SyncGroup(GROUP, 1, "A", version=3), ErrorCode.UNKNOWN_MEMBER_ID),
    (Heartbeat(GROUP, 1, "A"), ErrorCode.UNKNOWN_MEMBER_ID),
    (LeaveGroup(GROUP, (LeavingMember("A"),)), ErrorCode.UNKNOWN_MEMBER_ID),
    (OffsetCommit(GROUP, FOO), ErrorCode.NONE),
    (OffsetCommit(GROUP, FOO, 1, "A"), ErrorCode.UNKNOWN_MEMBER_ID),
    (OffsetFetch(GROUP), ErrorCode.NONE),
    (OffsetFetch(GROUP, member_id="A", member_epoch=1), ErrorCode.UNKNOWN_MEMBER_ID),
    (OffsetDelete(GROUP, (("foo", 0),)), ErrorCode.NONE),
    (DeleteGroup(GROUP), ErrorCode.NONE),
]


def kind_of(request: Any) -> type | int:
    """Return under which key a request is in the table."""
    if isinstance(request, ConsumerGroupHeartbeat):
        return max(PAUSE_EPOCH, min(request.member_epoch, BEAT_EPOCH))
    return type(request)


def state_of(described: Any) -> GroupState:
    """Return a consumer group's state; Dead where there is none."""
    return GroupState(described[0][0]) if isinstance(described[0], tuple) else GroupState.DEAD


@cache
def recorded() -> list[Step]:
    return list(replayed())


def recorded_errors() -> Mapping[type | int, set[ErrorCode]]:
    """Return what a broker answered to requests of groups with members."""
    found: dict[type | int, set[ErrorCode]] = defaultdict(set)
    for step in recorded():
        if state_of(step.before) in (GroupState.DEAD, GroupState.EMPTY):
            continue
        for place, answer in step.act["answers"]:
            if place == max(each for each, _ in step.act["answers"]):
                found[kind_of(step.request)] |= errors_of(answer)
    return found


def errors_of(answer: Mapping[str, Any]) -> set[ErrorCode]:
    """Return the errors of an answer as it is in a file."""
    names = {answer.get("error", "NONE")}
    names |= {each for _, each in answer.get("errors", {}).get("pairs", ())}
    if answer["type"] == "LeaveAnswer":
        names |= {code for _, code in answer["members"]}
    return {ErrorCode[name] for name in names}


def test_refusals_are_those_of_brokers() -> None:
    witnessed = recorded_errors()
    for request, code in WITNESSES:
        made = sim()
        made.ask(join("A"))
        made.ask(join("B", instance_id="i"))
        assert error_of(made.ask(request)) is code, request
        witnessed[kind_of(request)].add(code)
    assert {each: codes - {ErrorCode.NONE} for each, codes in witnessed.items()} == {
        each: set(codes) for each, codes in REFUSALS.items()
    }


def error_of(answer: Any) -> ErrorCode:
    """Return the error of an answer, the first of several."""
    if hasattr(answer, "errors"):
        return next((code for code in answer.errors.values() if code), ErrorCode.NONE)
    if answer.error or not hasattr(answer, "members") or hasattr(answer, "generation_id"):
        return ErrorCode(answer.error)
    return next((code for _, code in answer.members), ErrorCode.NONE)


@pytest.mark.parametrize(("request_", "code"), TO_EMPTY)
def test_an_empty_group_knows_no_member(request_: Any, code: ErrorCode) -> None:
    made = sim()
    made.ask(join("Z"))
    made.ask(beat("Z", LEAVE_EPOCH))
    assert made.ask(DescribeConsumerGroup(GROUP)).state is GroupState.EMPTY
    assert error_of(made.ask(request_)) is code


def test_no_group_has_other_states_after_each_other() -> None:
    """As a broker's groups had, and those of random members have."""
    played = {(state_of(step.before), state_of(step.state)) for step in recorded()}
    allowed = {(before, after) for before, states in FOLLOWS.items() for after in states}
    assert {each for each in played if each[0] is not each[1]} <= allowed
    seen = {
        transition
        for seed in range(150)
        for transition in transitions(seed)
        if transition[0] is not transition[1]
    }
    assert seen == allowed


def transitions(seed: int) -> set[tuple[GroupState, GroupState]]:
    """Let random members of both protocols come and go; return the states before and after."""
    draw = Random(seed)
    settings = ConsumerSettings(assignment_interval_ms=draw.choice([0, 1_000]))
    world = MixedWorld(settings, image({"foo": 4}), BrokerSettings(initial_rebalance_delay_ms=0))
    world.clock.run(1_000)
    seen = set()
    for _ in range(draw.randint(5, 40)):
        before = group_state(world)
        act(world, draw)
        world.clock.run(world.clock.now_ms)
        seen.add((before, group_state(world)))
    return seen


def group_state(world: MixedWorld) -> GroupState:
    group = world.coordinator.groups.get(GROUP)
    return GroupState.DEAD if group is None else group.state


def act(world: MixedWorld, draw: Random) -> None:
    """Do something to the group."""
    name = draw.choice("ABC")
    group = world.coordinator.groups.get(GROUP)
    member = None if group is None else group.members.get(name)
    kind = draw.random()
    if kind < 0.1:
        world.clock.run(world.clock.now_ms + draw.choice([500, 2_000, 50_000]))
    elif kind < 0.2:
        world.coordinator.update_topics(image({"foo": draw.randint(4, 9)}))
    elif kind < 0.25:
        world.ask(DeleteGroup(GROUP))
    elif kind < 0.3:
        world.join_classic("", new="X", instance_id="x")
    elif member is None:
        said: dict[str, Any] = draw.choice([{"topics": ("foo",)}, {"topics": ()}, {"regex": "f.*"}])
        world.send(
            group_id=GROUP,
            member_id=name,
            member_epoch=JOIN_EPOCH,
            rebalance_timeout_ms=60_000,
            owned={},
            **said,
        )
    elif kind < 0.5:
        world.beat(name, LEAVE_EPOCH)
    else:
        owned = numbers_of(member.assigned) if draw.random() < 0.7 else None
        world.send(group_id=GROUP, member_id=name, member_epoch=member.epoch, owned=owned)
