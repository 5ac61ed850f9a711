"""Groups whose members speak both protocols, in a broker and in the simulated coordinator.

Every fifth request is about offsets, or deletes the group; in some sequences the broker restarts.
Answers, described groups and records are the same, under each `group.consumer.migration.policy`.

Declared differences, beside those of `test_simulation_consumer_oracle`:
- of several members that one LeaveGroup removes, the tombstones come in another order;
- when somebody joins an empty consumer group with an id by the classic protocol, the broker removes
  the group without a record and describes it until it writes another one: that is not played;
- when somebody commits to a group that is not there, and only what is too large to be kept, the
  broker makes the group without a record and does not describe it: that is not played either.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.message import CommitAnswer, DeleteAnswer, FetchAnswer, OffsetDeleteAnswer
from kgroup.simulation.rules import MigrationPolicy
from tests.broker.group_records import compare_records
from tests.broker.mixed_play import FAIL_OVER_SETTINGS, MixedPlay, fail_over_plays, policy_broker
from tests.broker.timed_play import run_prompt, run_timed
from tests.examples import in_depth

OF_MEMBERS = (
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)
PLAYS = in_depth(60, 30)
LONG_PLAYS = in_depth(24, 8)
OTHER_PLAYS = in_depth(20, 4)
FAIL_OVERS = in_depth(20, 5)

ANSWERED = {
    *((FetchAnswer, code) for code in (*OF_MEMBERS, ErrorCode.NONE)),
    *((CommitAnswer, code) for code in (*OF_MEMBERS, ErrorCode.NONE)),
    (CommitAnswer, ErrorCode.UNSUPPORTED_VERSION),
    (CommitAnswer, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    (OffsetDeleteAnswer, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    (OffsetDeleteAnswer, ErrorCode.NONE),
    (DeleteAnswer, ErrorCode.NON_EMPTY_GROUP),
    (DeleteAnswer, ErrorCode.NONE),
}
"""What requests about offsets, and such that delete groups, must have been answered with."""


def test_groups_go_from_one_protocol_to_the_other(tmp_path: Path) -> None:
    with policy_broker(MigrationPolicy.BIDIRECTIONAL, tmp_path) as server:
        plays = [run_prompt(MixedPlay(server.bootstrap, seed)) for seed in range(PLAYS)]
        for play in plays:
            assert not play.differences, play.story
        slow = [MixedPlay(server.bootstrap, PLAYS + seed, waits=True) for seed in range(LONG_PLAYS)]
        slow = run_timed(slow)
        for play in slow:
            assert not play.differences, play.story
        compare_records(server.log_dir, plays + slow)
        answered = set().union(*(play.answered for play in plays))
        assert answered >= ANSWERED
        records = [record for play in plays for record in play.sim.records]
        assert {"GroupMetadata", "ConsumerGroupMetadata"} <= {
            record.type for record in records if record.value is None
        }


@pytest.mark.parametrize("policy", sorted(set(MigrationPolicy) - {MigrationPolicy.BIDIRECTIONAL}))
def test_other_policies(policy: MigrationPolicy, tmp_path: Path) -> None:
    with policy_broker(policy, tmp_path) as server:
        plays = [
            run_prompt(MixedPlay(server.bootstrap, seed, policy=policy))
            for seed in range(500, 500 + OTHER_PLAYS)
        ]
        for play in plays:
            assert not play.differences, play.story
        compare_records(server.log_dir, plays)


def test_another_coordinator_loads_the_groups(tmp_path: Path) -> None:
    """The broker restarts in the middle of the sequences, and so does the state machine."""
    with policy_broker(MigrationPolicy.BIDIRECTIONAL, tmp_path, FAIL_OVER_SETTINGS) as server:
        plays = fail_over_plays(server, range(700, 700 + FAIL_OVERS))
        for play in plays:
            assert not play.differences, play.story
        compare_records(server.log_dir, plays)
