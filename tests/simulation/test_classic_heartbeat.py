"""The heartbeat thread of a classic consumer: what each answer does, in each state.

What is expected is what `HeartbeatResponseHandler`, `HeartbeatThread.run` and `Heartbeat` of
kafka-clients 4.3.1 do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientState
from kgroup.simulation.message import HeartbeatAnswer
from tests.simulation.classic_host import CONFIG, ClassicHost, orders

COOPERATIVE = replace(
    CONFIG,
    strategies=("cooperative-sticky",),
    enable_auto_commit=False,
    session_timeout_ms=10_000,
    heartbeat_interval_ms=3_000,
)
STABLE, COMPLETING = ClientState.STABLE, ClientState.COMPLETING_REBALANCE
PREPARING, UNJOINED = ClientState.PREPARING_REBALANCE, ClientState.UNJOINED
DISCONNECTED = ErrorCode.NETWORK_EXCEPTION


def with_heartbeat(state: ClientState, *, is_same: bool) -> ClassicHost:
    """Bring a consumer into a state, while a heartbeat waits for its answer.

    Args:
        state: which.
        is_same: whether the heartbeat is of the generation in which the consumer is now, 2 if not.
    """
    here = ClassicHost(COOPERATIVE).stable(*orders(0))
    here.run(1_000)
    if is_same and state is COMPLETING:
        here.answer("Heartbeat", HeartbeatAnswer(ErrorCode.NONE))
    if not is_same or state is COMPLETING:
        rejoin(here)
        here.join(2)
        here.poll()
    if not is_same and state is not COMPLETING:
        here.sync(*orders(0))
        here.poll()
    if state is PREPARING:
        rejoin(here)
    if is_same and state is COMPLETING:
        here.run(3_000)
    assert here.state() is state
    assert here.waiting.count("Heartbeat") == 1
    return here


def rejoin(here: ClassicHost) -> None:
    here.client.request_rejoin()
    here.poll()
    assert "JoinGroup" in here.waiting


class Effect(NamedTuple):
    """What an answer does.

    Attributes:
        lives: whether the session begins anew (`receiveHeartbeat`).
        searches: whether the coordinator is forgotten (`markCoordinatorUnknown`).
        forgets: "generation", "member", or "" (`resetStateOnResponseError`).
        rejoins: whether it wants to join again (`requestRejoin`).
        throws: whether the next poll() throws.
    """

    lives: bool = False
    searches: bool = False
    forgets: str = ""
    rejoins: bool = False
    throws: bool = False


ALIVE, ELSEWHERE = Effect(lives=True), Effect(searches=True)


def expected(code: ErrorCode, state: ClientState, *, is_same: bool) -> Effect:
    """Return what `HeartbeatResponseHandler.handle` does."""
    if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, DISCONNECTED):
        return ELSEWHERE
    if code is ErrorCode.REBALANCE_IN_PROGRESS:
        return ALIVE._replace(rejoins=state is STABLE)
    if code is ErrorCode.NONE or not is_same:  # generationUnchanged()
        return ALIVE
    forgets = "generation" if code is ErrorCode.ILLEGAL_GENERATION else "member"
    return Effect(forgets=forgets, rejoins=True, throws=code is ErrorCode.FENCED_INSTANCE_ID)


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("state", [STABLE, COMPLETING, PREPARING])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        DISCONNECTED,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ],
)
def test_answers(code: ErrorCode, state: ClientState, is_same: bool) -> None:
    here = with_heartbeat(state, is_same=is_same)
    effect = expected(code, state, is_same=is_same)
    client, generation_id = here.client, here.client.generation_id
    _, on_answer = here.take("Heartbeat")
    answered_ms = here.clock.now_ms
    on_answer(None if code is DISCONNECTED else HeartbeatAnswer(code))
    assert client.coordinator == (None if effect.searches else 1)
    assert here.state() is (UNJOINED if effect.forgets else state)
    assert client.generation_id == (-1 if effect.forgets else generation_id)
    assert client.member_id == ("" if effect.forgets == "member" else "m")
    if state is STABLE:
        assert client.is_settled is not effect.rejoins
    if state in (STABLE, COMPLETING) and not effect.forgets:
        searches = here.searches
        while here.searches == searches:
            here.run(1)
        # found anew at once, or when the session is over in which nothing more is answered
        is_late = here.clock.now_ms >= answered_ms + 10_000
        assert is_late is effect.lives
    here.poll()
    assert here.failure == (code.name if effect.throws else None)


def test_a_consumer_that_was_forgotten_loses_its_partitions_and_joins() -> None:
    for code, member_id in ((ErrorCode.ILLEGAL_GENERATION, "m"), (ErrorCode.UNKNOWN_MEMBER_ID, "")):
        here = with_heartbeat(STABLE, is_same=True)
        here.answer("Heartbeat", HeartbeatAnswer(code))
        assert here.told == []
        here.poll()
        assert here.told == [("lost", orders(0))]
        assert here.take("JoinGroup")[0].member_id == member_id


def test_heartbeats_that_fail_are_repeated_after_longer_and_longer_times() -> None:
    here = with_heartbeat(STABLE, is_same=True)
    for backoff_ms in (100, 200, 400, 800, 1_000, 1_000, 0, 100):  # Heartbeat.failHeartbeat
        if not backoff_ms:  # receiveHeartbeat: from the first one again
            here.answer("Heartbeat", HeartbeatAnswer(ErrorCode.NONE))
            here.run(3_000)
            continue
        here.answer("Heartbeat", HeartbeatAnswer(ErrorCode.NOT_COORDINATOR))
        failed_ms = here.clock.now_ms - 5
        while not here.waiting:
            here.run(1)
        assert failed_ms + backoff_ms <= here.clock.now_ms <= failed_ms + backoff_ms + 101


def test_poll_in_time_keeps_it_in_the_group() -> None:
    here = ClassicHost(replace(CONFIG, max_poll_interval_ms=5_000)).stable(*orders(0))
    here.run(4_000)
    here.poll()
    here.run(4_990)
    assert "LeaveGroup" not in here.waiting
    here.run(10)
    assert "LeaveGroup" in here.waiting
    assert (here.state(), here.client.member_id, here.told) == (UNJOINED, "", [])
    here.poll()
    assert here.told == [("commit failed", ErrorCode.UNKNOWN_MEMBER_ID), ("lost", orders(0))]


def test_who_waits_in_poll_is_not_too_slow() -> None:
    here = ClassicHost(replace(CONFIG, max_poll_interval_ms=5_000)).stable()
    here.client.request_rejoin()
    here.poll()
    here.join(2)
    here.run(20_000)  # for its assignment
    assert "LeaveGroup" not in here.waiting
    assert here.state() is COMPLETING
