"""What a broker answered to random requests of both protocols, against the state machine.

`tests/broker/test_simulation_mixed_oracle.py` plays more of them to live brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.record import Record
from kgroup.simulation.consumer.settings import MigrationPolicy
from kgroup.simulation.coordinator_log import CoordinatorLog
from tests.broker.mixed_play import CLASSIC, expected_mixed_state, mixed_settings, plain
from tests.broker.play_file import encode, read_mixed_plays, request_of
from tests.broker.raw_client import as_version_has_it
from tests.simulation.mixed_world import MixedWorld


class Step(NamedTuple):
    """An act, with what the state machine says to it.

    Attributes:
        before: the group before it, as it is described.
        request: that was sent; None where the coordinator was loaded.
        answers: place and answer of each request that was answered, in the order of places.
        state: of the group after it, as it is described.
        sim: in which it was played.
    """

    act: dict[str, Any]
    before: Any
    request: Any
    answers: list[Any]
    state: Any
    sim: MixedWorld
    group_id: str


def replayed() -> Iterator[Step]:
    """Play each recorded play again."""
    settings = mixed_settings(MigrationPolicy.BIDIRECTIONAL, fails_over=True)
    for topics, acts in read_mixed_plays():
        sim = MixedWorld(settings, topics, CLASSIC)
        requests = [request_of(act) for act in acts]
        group_id = next(each.group_id for each in requests if each is not None)
        places: dict[int, tuple[int, int]] = {}
        for act, request in zip(acts, requests, strict=True):
            before = expected_mixed_state(sim, group_id)
            sim.next_id = act["new_id"]
            if act["fails_over"]:
                sim.fail_over(act["now_ms"])
                sim.pairs.clear()  # whose connections were closed
            else:
                places[id(request)] = (len(places), act["version"])
                sim.clock.run(act["now_ms"])
                sim.coordinator.handle(request)
                sim.clock.run(act["now_ms"])
            told = [[places[id(request)][0], encode(each)] for each in sim.answers]
            for asked, answer in sim.pairs:
                place, version = places[id(asked)]
                told.append([place, encode(plain(as_version_has_it(answer, version)))])
            sim.answers, sim.pairs = [], []
            state = expected_mixed_state(sim, group_id)
            yield Step(act, before, request, sorted(told, key=itemgetter(0)), state, sim, group_id)


def test_answers_and_states() -> None:
    count = 0
    for step in replayed():
        assert step.answers == sorted(step.act["answers"], key=itemgetter(0)), step.act
        assert encode(step.state) == step.act["state"], step.act
        count += len(step.answers)
    assert count > 500


def test_records_give_the_durable_state() -> None:
    """What compaction leaves of them is enough, for the next coordinator and any reader."""
    settings = mixed_settings(MigrationPolicy.BIDIRECTIONAL, fails_over=True)
    compared = 0
    for step in replayed_every(7):
        log = CoordinatorLog()
        for record in step.sim.records:
            log.append(*record, 0)
        coordinator, group_id = step.sim.coordinator, step.group_id
        next_one = MixedWorld(settings, coordinator.topics, CLASSIC).coordinator
        for each in log:
            assert each.key is not None
            assert each.value is not None
            next_one.replay(Record(each.type, each.key["data"], each.value["data"]))
        next_one.on_loaded()
        assert next_one.classic.offsets.of(group_id) == coordinator.classic.offsets.of(group_id)
        assert next_one.groups.keys() == coordinator.groups.keys()
        assert next_one.classic.groups.keys() == coordinator.classic.groups.keys()
        if (group := coordinator.groups.get(group_id)) is not None:
            compared += 1
            assert durable(next_one.groups[group_id]) == durable(group)
            seen = log.groups()[group_id]
            told = (seen.group_epoch or 1, seen.state or group.state)  # the first is not recorded
            assert told == (group.epoch, group.state)
            assert {each.member_id: each.member_epoch for each in seen.members} == {
                each.member_id: each.epoch for each in group.members.values()
            }
    assert compared > 50


def replayed_every(steps: int) -> Iterator[Step]:
    """Give some of the steps, before their world goes on."""
    for number, step in enumerate(replayed()):
        if number % steps == 0:
            yield step


def durable(group: ConsumerGroup) -> Any:
    """Return what records tell of a group.

    Not the order of its tables, and not the instances that members have given up, which Kafka
    remembers as long as it has the records.
    """
    return (
        group.epoch,
        group.assignment_epoch,
        group.assignment_timestamp_ms,
        group.metadata_hash,
        group.members,
        group.targets,
        group.regexes,
        group.state,
        group.is_homogeneous,
        group.subscriptions.topics,
        group.preferred_assignor(),
    )
