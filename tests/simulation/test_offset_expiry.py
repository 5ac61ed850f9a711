"""When offsets expire: `OffsetExpirationConditionImpl` of 4.3.1, `removeExpiredOffsets` before."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kgroup.assignor.member_spec import MemberSpec
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.message import (
    CommittedPartition,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    Protocol,
)
from kgroup.simulation.rules import Version
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import CoordinatorStage
from kgroup.simulation.subscription import encode_subscription
from tests.simulation.classic_table import GROUP, NEW, OLD, VERSIONS, Table, make_join, stable

RETENTION_MS = 100


def table_of(version: Version) -> Table:
    """Make a coordinator that looks every millisecond."""
    return Table(version, offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=1)


@pytest.mark.parametrize(("version", "more_ms"), [(OLD, 1), ((2, 1), 0), ((3, 9, 2), 0), (NEW, 0)])
def test_of_nobody_it_expires_a_retention_after_the_commit(version: Version, more_ms: int) -> None:
    """`now - commitTimestamp >= retention`; before 2.1 `expireTimestamp < now`."""
    table = table_of(version)
    table.clock.run(50)
    assert table.commit(-1) is ErrorCode.NONE
    table.clock.run(50 + RETENTION_MS + more_ms - 1)
    assert table.committed() == 7
    table.clock.run(50 + RETENTION_MS + more_ms)
    assert table.committed() is None


@pytest.mark.parametrize("version", [(2, 1), *VERSIONS[1:]])
def test_of_a_group_it_expires_a_retention_after_the_last_member(version: Version) -> None:
    table = table_of(version)
    a = stable(table)
    table.commit(a.generation_id, a.member_id)
    table.clock.run(500)
    assert table.committed() == 7
    table.ask(LeaveGroup(GROUP, (LeavingMember(a.member_id),)))
    table.clock.run(500 + RETENTION_MS - 1)
    assert table.committed() == 7
    table.clock.run(500 + RETENTION_MS)
    assert table.committed() is None


@pytest.mark.parametrize(("version", "is_kept"), [((2, 7), True), ((2, 8), False)])
def test_of_a_topic_that_a_stable_group_does_not_read(version: Version, is_kept: bool) -> None:
    """`removeExpiredOffsets`: "if subscribedTopics.isDefined && is(Stable)", since 2.8."""
    table = table_of(version)
    subscription = encode_subscription(MemberSpec("a", ("u",)), "range")
    request = replace(make_join("a"), protocols=(Protocol("range", subscription),))
    request = replace(request, member_id=table.ask(request).member_id)
    table.send(request)
    table.clock.run(0)
    a = table.join_answer(request)
    assert table.commit(a.generation_id, a.member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    table.sync(a)
    assert table.commit(a.generation_id, a.member_id) is ErrorCode.NONE
    table.clock.run(RETENTION_MS)
    assert (table.committed() is not None) is is_kept


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retention_that_a_request_asks_for(version: Version) -> None:
    """Versions 2 to 4 of OffsetCommit; since 2.1 it does not run while the group has members."""
    table = table_of(version)
    a = stable(table)
    offsets = {("t", 0): CommittedPartition(7, retention_ms=50)}
    table.ask(OffsetCommit(GROUP, offsets, a.generation_id, a.member_id, version=4))
    now_ms = table.clock.now_ms
    table.clock.run(now_ms + 51)
    assert table.committed() == (None if version == OLD else 7)
    table.ask(LeaveGroup(GROUP, (LeavingMember(a.member_id),)))
    table.clock.run(now_ms + 52)
    assert table.committed() is None


def moved(version: str, moved_at: str) -> CoordinatorStage:
    """Have a group that is empty after 10 s, with a retention of 20 s, and another coordinator."""
    return CoordinatorStage(
        read_scenario(
            f"""
            version = "{version}"
            [topics]
            t = 1
            [brokers]
            offsets.retention.ms = "20s"
            offsets.retention.check.interval.ms = "1m"
            [[member]]
            name = "m"
            topics = "t"
            start = 0
            [[step]]
            at = "10s"
            do = "stop"
            member = "m"
            [[step]]
            at = "{moved_at}"
            do = "move_coordinator"
            """,
            "s.toml",
        ),
        Random(0),
    )


@pytest.mark.parametrize(
    ("version", "expires_ms"),
    [("1.1.1", 60_000), ("3.9.2", 60_000), ("4.0", 35_000 + 200 + 60_000)],
)
def test_a_broker_looks_at_its_own_times(version: str, expires_ms: int) -> None:
    """Not when it loads: before 4.0 since it was started, later since the partition was loaded."""
    here = moved(version, "35s")
    here.clock.run(36_000)
    assert any(record.type == "OffsetCommit" for record in here.cluster.log)
    here.clock.run(expires_ms - 1)
    assert any(record.type == "OffsetCommit" for record in here.cluster.log)
    here.clock.run(expires_ms)
    assert not any(record.type == "OffsetCommit" for record in here.cluster.log)


def test_a_broker_that_comes_back_looks_since_then() -> None:
    here = moved("3.9.2", "11s")  # to broker 2
    here.clock.run(15_000)
    here.cluster.stop_broker(1, 0)
    here.cluster.start_broker(1)
    here.cluster.move_coordinator(1)
    here.clock.run(15_000 + 60_000 - 1)
    assert any(record.type == "OffsetCommit" for record in here.cluster.log)
    here.clock.run(15_000 + 60_000)
    assert not any(record.type == "OffsetCommit" for record in here.cluster.log)
