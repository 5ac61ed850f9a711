"""A classic consumer, whose coordinator, network and program are the test.

What is expected is what `AbstractCoordinator` and `ConsumerCoordinator` of kafka-clients 4.3.1 do.
"""

from __future__ import annotations

from dataclasses import replace

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientState
from kgroup.simulation.message import CommittedPartition
from tests.simulation.classic_host import CONFIG, ClassicHost, orders

COOPERATIVE = replace(CONFIG, strategies=("cooperative-sticky",))
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


# --- poll(): `ClassicKafkaConsumer.poll`, `ConsumerCoordinator.poll(timer, false)` --------------


def test_a_cooperative_consumer_reads_on_while_it_joins() -> None:
    here = ClassicHost(COOPERATIVE).stable(*orders(0, 1))
    here.client.request_rejoin()
    here.poll()
    assert (here.waiting, here.polls) == (["OffsetCommit"], [True, False])
    here.commit(ErrorCode.NONE)
    assert here.waiting == []  # poll() goes on with it
    here.poll()
    assert (here.waiting, here.polls) == (["JoinGroup"], [True, False, False])
    here.join(2)
    assert here.state() is ClientState.PREPARING_REBALANCE
    here.poll()
    assert (here.waiting, here.polls) == (["SyncGroup"], [True, False, False, False])
    here.sync(*orders(0))  # which the heartbeat thread takes
    assert here.state() is ClientState.STABLE
    assert (here.told, here.client.is_settled) == ([], False)
    here.poll()
    assert here.told == [("revoked", orders(1)), ("assigned", ())]
    assert here.waiting == ["OffsetCommit"]  # it joins again
    assert here.polls[-1] is False


def test_an_eager_consumer_has_nothing_to_read_while_it_joins() -> None:
    here = ClassicHost().stable(*orders(0, 1))
    here.client.request_rejoin()
    here.poll()
    assert here.waiting == ["OffsetCommit"]
    here.commit(ErrorCode.NONE)
    assert (here.told, here.waiting) == ([("revoked", orders(0, 1))], ["JoinGroup"])
    here.join(2)
    assert here.polls == [True]
    here.sync(*orders(2))
    assert here.told[1:] == [("assigned", orders(2))]
    assert here.polls == [True, True]


def test_without_coordinator_it_reads_on_when_the_timeout_of_poll_is_over() -> None:
    here = ClassicHost().stable(*orders(0))
    here.client.coordinator = here.broker = None
    here.poll()
    here.run(90)
    assert here.polls == [True]
    here.run(10)
    assert here.polls == [True, False]
    here.broker = 1
    here.poll()
    assert here.polls == [True, False, True]  # it is found in time


def test_who_was_removed_between_sync_group_and_poll_joins_as_a_new_member() -> None:
    here = ClassicHost(COOPERATIVE).stable(*orders(0))
    here.client.request_rejoin()
    here.poll()
    here.commit(ErrorCode.NONE)
    here.poll()
    here.join(2)
    here.poll()
    here.sync(*orders(0))
    here.client.reset_state(keeps_id=True)  # joinGroupIfNeeded: "modified by heartbeat thread"
    here.poll()
    assert here.told == [("lost", orders(0))]
    request, _ = here.take("JoinGroup")
    assert request.member_id == ""
