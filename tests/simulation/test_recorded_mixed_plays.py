"""What a broker answered to random requests of both protocols, against the state machine.

`tests/broker/test_simulation_mixed_oracle.py` plays more of them to live brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.coordinator_log import CoordinatorLog
from kgroup.simulation.rules import MigrationPolicy
from tests.broker.mixed_play import CLASSIC, mixed_settings
from tests.broker.play_file import encode
from tests.simulation.recorded_play import Step, replayed
from tests.simulation.world import MixedWorld


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
            next_one.replay(GroupRecord(each.type, each.key["data"], each.value["data"]))
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
            assert {member.member_id: member.member_epoch for member in seen.members} == {
                member.member_id: member.epoch for member in group.members.values()
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
