"""Groups whose members speak both protocols, in a broker and in the simulated coordinator.

Answers, described groups and records are the same, under each `group.consumer.migration.policy`.

Declared differences, beside those of `test_simulation_consumer_oracle`:
- of several members that one LeaveGroup removes, the tombstones come in another order;
- when somebody joins an empty consumer group with an id by the classic protocol, the broker removes
  the group without a record and describes it until it writes another one: that is not played.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kgroup.simulation.consumer.settings import MigrationPolicy
from tests.broker.consumer_play import TOPICS
from tests.broker.group_records import compare_records
from tests.broker.mixed_play import MIXED_BROKER_SETTINGS, MixedPlay
from tests.broker.servers import Broker, broker
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire

PLAYS = 60
LONG_PLAYS = 24
OTHER_PLAYS = 20


@contextmanager
def policy_broker(policy: MigrationPolicy, work: Path) -> Iterator[Broker]:
    config = {**MIXED_BROKER_SETTINGS, "group.consumer.migration.policy": policy.value}
    with broker("4.3.1", work, config=config) as running:
        with Wire(running.version, running.bootstrap) as wire:
            create_topics(wire, TOPICS)
            await_coordinator(wire)
        yield running


def test_groups_go_from_one_protocol_to_the_other(tmp_path: Path) -> None:
    with policy_broker(MigrationPolicy.BIDIRECTIONAL, tmp_path) as server:
        plays = [MixedPlay(server.bootstrap, seed) for seed in range(PLAYS)]
        for play in plays:
            play.run()
            assert not play.differences, play.story
        slow = [MixedPlay(server.bootstrap, PLAYS + seed, waits=True) for seed in range(LONG_PLAYS)]
        with ThreadPoolExecutor(LONG_PLAYS) as pool:
            list(pool.map(MixedPlay.run, slow))
        for play in slow:
            assert not play.differences, play.story
        compare_records(server.log_dir, plays + slow)
        records = [record for play in plays for record in play.sim.records]
        assert {"GroupMetadata", "ConsumerGroupMetadata"} <= {
            record.type for record in records if record.value is None
        }


@pytest.mark.parametrize("policy", sorted(set(MigrationPolicy) - {MigrationPolicy.BIDIRECTIONAL}))
def test_other_policies(policy: MigrationPolicy, tmp_path: Path) -> None:
    with policy_broker(policy, tmp_path) as server:
        plays = [
            MixedPlay(server.bootstrap, seed, policy=policy)
            for seed in range(500, 500 + OTHER_PLAYS)
        ]
        for play in plays:
            play.run()
            assert not play.differences, play.story
        compare_records(server.log_dir, plays)
