"""A classic consumer, whose coordinator, network and program are the test.

What is expected is what `AbstractCoordinator` and `ConsumerCoordinator` of kafka-clients 4.3.1 do.
"""

from __future__ import annotations

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientState
from kgroup.simulation.message import CommittedPartition
from tests.simulation.classic_host import ClassicHost, orders

OFFSETS = {("orders", 0): CommittedPartition(7)}


def committed(here: ClassicHost, generation_id: int | None = None) -> list[ErrorCode]:
    """Commit, and return how that ended, as far as it has."""
    codes: list[ErrorCode] = []
    here.client.commit(OFFSETS, codes.append, generation_id)
    return codes


# --- commits: `ConsumerCoordinator.sendOffsetCommitRequest`, `OffsetCommitResponseHandler` ------


def test_a_commit_outside_of_a_stable_generation_is_not_sent() -> None:
    here = ClassicHost()
    here.poll()
    assert here.state() is ClientState.PREPARING_REBALANCE
    assert committed(here) == [ErrorCode.REBALANCE_IN_PROGRESS]
    here.join()
    assert here.state() is ClientState.COMPLETING_REBALANCE
    assert committed(here) == [ErrorCode.REBALANCE_IN_PROGRESS]
    here.client.reset_state()
    assert committed(here) == [ErrorCode.UNKNOWN_MEMBER_ID]  # CommitFailedException
    assert here.waiting == ["SyncGroup"]
    assert committed(here, generation_id=1) == []  # as somebody claims to be in one
    assert here.waiting == ["SyncGroup", "OffsetCommit"]


def test_before_it_joins_again_it_commits_only_in_a_stable_generation() -> None:
    here = ClassicHost().stable(*orders(0))
    here.client.reset_state()  # its heartbeat was refused
    here.poll()
    assert here.told == [("lost", orders(0))]
    assert here.waiting == ["JoinGroup"]
