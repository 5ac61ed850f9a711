"""The coordinator of consumer groups against a broker: random heartbeats, played to both.

Every answer is the same, and after each the group that ConsumerGroupDescribe tells of; so are the
records that the broker has written, one by one.

Declared differences:
- the texts of errors, and the order of members, topics and partitions, are not simulated;
- `metadataHash` is another hash of the same: only whether it changes is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.consumer_play import BROKER_SETTINGS, TOPICS, ConsumerPlay
from tests.broker.group_records import compare_records
from tests.broker.servers import Broker, broker
from tests.broker.timed_play import run_prompt, run_timed
from tests.examples import in_depth
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire

PLAYS = in_depth(100, 25)
LONG_PLAYS = in_depth(24, 8)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker("4.3.1", tmp_path_factory.mktemp("consumer"), config=BROKER_SETTINGS) as running:
        with Wire(running.version, running.bootstrap) as wire:
            create_topics(wire, TOPICS)
            await_coordinator(wire)
        yield running


def test_answers_states_and_records_of_random_heartbeats(server: Broker) -> None:
    """One in five makes, grows and deletes a topic meanwhile."""
    plays = [
        ConsumerPlay(server.bootstrap, seed, changes_topics=seed % 5 == 0) for seed in range(PLAYS)
    ]
    plays = [run_prompt(play) for play in plays]
    for play in plays:
        assert not play.differences, play.story
    compare_records(server.log_dir, plays)


def test_what_time_does(server: Broker) -> None:
    """Sessions end, rebalances take too long, expressions are looked at again; side by side."""
    plays = [ConsumerPlay(server.bootstrap, PLAYS + seed, waits=True) for seed in range(LONG_PLAYS)]
    plays = run_timed(plays)
    for play in plays:
        assert not play.differences, play.story
    compare_records(server.log_dir, plays)
