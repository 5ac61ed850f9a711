"""A classic consumer, whose coordinator, network and program are the test.

What is expected is what `AbstractCoordinator` and `ConsumerCoordinator` of kafka-clients 4.3.1 do.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest

from kgroup.assignor.member_spec import MemberSpec
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientState, ConsumerConfig
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.message import (
    CommitAnswer,
    CommittedPartition,
    HeartbeatAnswer,
    JoinAnswer,
    JoinedMember,
    JoinGroup,
    SyncAnswer,
)
from kgroup.simulation.subscription import encode_assignment, encode_subscription
from tests.simulation.classic_host import CONFIG, ClassicHost, orders

STABLE, COMPLETING = ClientState.STABLE, ClientState.COMPLETING_REBALANCE
PREPARING, UNJOINED = ClientState.PREPARING_REBALANCE, ClientState.UNJOINED
OUT = ("commit failed", ErrorCode.UNKNOWN_MEMBER_ID)
DISCONNECTED = ErrorCode.NETWORK_EXCEPTION
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
    assert here.told == [OUT, ("lost", orders(0))]
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


def test_topics_are_looked_for_once_at_a_time() -> None:
    """`DefaultMetadataUpdater.hasFetchInProgress`; the next time `metadata.max.age.ms` later."""
    here = ClassicHost()
    here.client.poll()
    here.client.poll()
    here.run()
    assert here.lookups == 1
    here.run(CONFIG.metadata_max_age_ms)
    assert here.lookups == 2


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
    assert here.told == [OUT, ("lost", orders(0))]
    request, _ = here.take("JoinGroup")
    assert request.member_id == ""


# --- JoinGroup and SyncGroup --------------------------------------------------------------------


class Sequel(NamedTuple):
    """What an answer leads to.

    Attributes:
        next: the request that follows, or what the program is told: "thrown", "assigned".
        is_late: whether it follows after `retry.backoff.ms`, or at once.
        member_id: of the consumer then.
        generation_id: likewise.
        searches: whether the coordinator is looked for before (`markCoordinatorUnknown`).
    """

    next: str
    is_late: bool
    member_id: str
    generation_id: int
    searches: bool = False


def joining(forgotten: str = "") -> ClassicHost:
    """Bring a consumer that owns nothing to where JoinGroup of m in generation 1 waits.

    What is forgotten meanwhile, as a heartbeat of before was refused: "generation" or "member".
    """
    config = replace(CONFIG, enable_auto_commit=False, metadata_max_age_ms=5_000)
    here = ClassicHost(config).stable()
    prepare(here)
    forget(here, forgotten)
    return here


def forget(here: ClassicHost, forgotten: str) -> None:
    if forgotten:
        here.client.reset_state(keeps_id=forgotten == "generation")


def sequel(here: ClassicHost, name: str, answer: object) -> Sequel:
    """Answer a request, and return what follows."""
    _, on_answer = here.take(name)
    searches, coordinator = here.searches, here.client.coordinator
    on_answer(answer)
    member_id, generation_id = here.client.member_id, here.client.generation_id
    found = follows(here)
    is_late = not found
    if is_late:
        here.run(CONFIG.retry_backoff_ms + 5)
        found = follows(here)
    assert coordinator == here.client.coordinator == 1
    return Sequel(found, is_late, member_id, generation_id, here.searches > searches)


def follows(here: ClassicHost) -> str:
    if here.failure is not None:
        return "thrown"
    if here.told:
        return here.told[-1][0]
    return here.waiting[0] if here.waiting else ""


def same(next_: str, member_id: str = "m", generation_id: int = 1) -> Sequel:
    return Sequel(next_, False, member_id, generation_id)


def late(member_id: str = "m", generation_id: int = 1, *, searches: bool = False) -> Sequel:
    return Sequel("JoinGroup", True, member_id, generation_id, searches)


JOIN_ANSWERS = [
    # JoinGroupResponseHandler.handle, and then joinGroupIfNeeded
    ("", ErrorCode.NONE, same("SyncGroup", "m", 2)),
    ("", ErrorCode.MEMBER_ID_REQUIRED, same("JoinGroup", "new", -1)),
    ("", ErrorCode.UNKNOWN_MEMBER_ID, same("JoinGroup", "", -1)),
    ("", ErrorCode.REBALANCE_IN_PROGRESS, same("JoinGroup")),
    ("", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, late()),
    ("", ErrorCode.COORDINATOR_NOT_AVAILABLE, late(searches=True)),
    ("", ErrorCode.NOT_COORDINATOR, late(searches=True)),
    ("", DISCONNECTED, late(searches=True)),
    ("", ErrorCode.FENCED_INSTANCE_ID, same("thrown")),
    ("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, same("thrown")),
    ("", ErrorCode.INVALID_SESSION_TIMEOUT, same("thrown")),
    ("", ErrorCode.GROUP_MAX_SIZE_REACHED, same("thrown")),
    ("", ErrorCode.UNSUPPORTED_VERSION, same("thrown")),
    # state != PREPARING_REBALANCE: UnjoinedGroupException, which may pass
    ("generation", ErrorCode.NONE, late("m", -1)),
    ("member", ErrorCode.NONE, late("", -1)),
    # only if generationUnchanged()
    ("generation", ErrorCode.UNKNOWN_MEMBER_ID, same("JoinGroup", "m", -1)),
    ("generation", ErrorCode.MEMBER_ID_REQUIRED, same("JoinGroup", "new", -1)),
    ("generation", ErrorCode.REBALANCE_IN_PROGRESS, same("JoinGroup", "m", -1)),
    ("member", ErrorCode.NOT_COORDINATOR, late("", -1, searches=True)),
    ("member", ErrorCode.FENCED_INSTANCE_ID, same("thrown", "", -1)),
]


@pytest.mark.parametrize(("forgotten", "code", "expected"), JOIN_ANSWERS)
def test_answers_to_join_group(forgotten: str, code: ErrorCode, expected: Sequel) -> None:
    here = joining(forgotten)
    answer = {
        ErrorCode.NONE: JoinAnswer(code, "m", 2, "consumer", "range", "other"),
        ErrorCode.MEMBER_ID_REQUIRED: JoinAnswer(code, "new"),
        DISCONNECTED: None,
    }.get(code, JoinAnswer(code, "m"))
    assert sequel(here, "JoinGroup", answer) == expected
    if expected.next == "JoinGroup":
        request, _ = here.take("JoinGroup")
        assert request.member_id == expected.member_id
        assert here.state() is PREPARING
    elif expected.next == "SyncGroup":
        request, _ = here.take("SyncGroup")
        assert (request.member_id, request.generation_id) == ("m", 2)
        assert (request.protocol, request.assignments) == ("range", {})
        assert here.state() is COMPLETING
    else:
        assert here.failure == code.name


SYNC_ANSWERS = [
    # SyncGroupResponseHandler.handle, and then joinGroupIfNeeded
    ("", ErrorCode.NONE, same("assigned", "m", 2)),
    ("", ErrorCode.REBALANCE_IN_PROGRESS, same("JoinGroup", "m", 2)),
    ("", ErrorCode.UNKNOWN_MEMBER_ID, same("JoinGroup", "", -1)),
    ("", ErrorCode.ILLEGAL_GENERATION, same("JoinGroup", "m", -1)),
    ("", ErrorCode.COORDINATOR_NOT_AVAILABLE, late("m", 2, searches=True)),
    ("", ErrorCode.NOT_COORDINATOR, late("m", 2, searches=True)),
    ("", DISCONNECTED, late("m", 2, searches=True)),
    ("", ErrorCode.FENCED_INSTANCE_ID, same("thrown", "m", 2)),
    ("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, same("thrown", "m", 2)),
    # hasGenerationReset: ILLEGAL_GENERATION "to let it retry immediately"
    ("generation", ErrorCode.NONE, same("JoinGroup", "m", -1)),
    ("member", ErrorCode.NONE, same("JoinGroup", "", -1)),
    # only if generationUnchanged()
    ("generation", ErrorCode.UNKNOWN_MEMBER_ID, same("JoinGroup", "m", -1)),
    ("generation", ErrorCode.ILLEGAL_GENERATION, same("JoinGroup", "m", -1)),
    ("member", ErrorCode.REBALANCE_IN_PROGRESS, same("JoinGroup", "", -1)),
    ("member", ErrorCode.NOT_COORDINATOR, late("", -1, searches=True)),
    ("member", ErrorCode.FENCED_INSTANCE_ID, same("thrown", "", -1)),
]


@pytest.mark.parametrize(("forgotten", "code", "expected"), SYNC_ANSWERS)
def test_answers_to_sync_group(forgotten: str, code: ErrorCode, expected: Sequel) -> None:
    here = joining()
    here.join(2)
    forget(here, forgotten)
    answer: SyncAnswer | None = SyncAnswer(code)
    if code is ErrorCode.NONE:
        answer = SyncAnswer(code, encode_assignment(orders(3), 3))
    elif code is DISCONNECTED:
        answer = None
    assert sequel(here, "SyncGroup", answer) == expected
    if expected.next == "assigned":
        assert here.told == [("assigned", orders(3))]
        assert (here.client.owned, here.state()) == (orders(3), STABLE)
        assert here.client.is_settled
    elif expected.next == "JoinGroup":
        assert here.take("JoinGroup")[0].member_id == expected.member_id
    else:
        assert here.failure == code.name


# --- commits ------------------------------------------------------------------------------------


def with_commit(state: ClientState, *, is_same: bool) -> ClassicHost:
    """Bring a consumer into a state, while a commit of generation 1 waits for its answer.

    Args:
        state: which; unjoined it knows its id.
        is_same: whether that is the generation in which the consumer is now, 2 if not.
    """
    here = ClassicHost(replace(COOPERATIVE, enable_auto_commit=False)).stable(*orders(0))
    here.client.commit(OFFSETS)
    if is_same and state is not STABLE:
        here.client.request_rejoin()
        here.poll()
    if state is UNJOINED:
        here.client.reset_state(keeps_id=True)
    elif not is_same:
        here.client.request_rejoin()
        here.poll()
        here.join(2)
        here.poll()
        if state is not COMPLETING:
            here.sync(*orders(0))
            here.poll()
        if state is PREPARING:
            here.client.request_rejoin()
            here.poll()
    assert here.state() is state
    return here


SITUATIONS = [
    (STABLE, True),
    (PREPARING, True),
    (STABLE, False),
    (PREPARING, False),
    (COMPLETING, False),
    (UNJOINED, False),
]
COMMIT_ERRORS = [
    ErrorCode.NONE,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    DISCONNECTED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
]


@pytest.mark.parametrize(("situation", "code"), [*product(SITUATIONS, COMMIT_ERRORS)])
def test_answers_to_commits(situation: tuple[ClientState, bool], code: ErrorCode) -> None:
    """`OffsetCommitResponseHandler.handle`."""
    state, is_same = situation
    here = with_commit(state, is_same=is_same)
    client, generation_id = here.client, here.client.generation_id
    request, on_answer = here.take("OffsetCommit")
    on_answer(None if code is DISCONNECTED else CommitAnswer(dict.fromkeys(request.offsets, code)))
    elsewhere = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, DISCONNECTED)
    assert client.coordinator == (None if code in elsewhere else 1)
    is_old = not is_same and state is PREPARING  # the consumer "has already participated another"
    forgets = code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION) and not is_old
    assert here.state() is (UNJOINED if forgets else state)
    assert client.generation_id == (-1 if forgets else generation_id)
    is_nobody = forgets and code is ErrorCode.UNKNOWN_MEMBER_ID
    assert client.member_id == ("" if is_nobody else "m")
    if state is STABLE:
        assert client.is_settled is not (forgets or code is ErrorCode.REBALANCE_IN_PROGRESS)
    here.poll()
    is_thrown = code is ErrorCode.FENCED_INSTANCE_ID and is_same
    assert here.failure == (code.name if is_thrown else None)
    if forgets:
        assert here.told[-1] == ("lost", orders(0))


def test_who_commits_learns_how_it_ended() -> None:
    for code in COMMIT_ERRORS:
        here = ClassicHost().stable(*orders(0))
        codes = committed(here)
        request, on_answer = here.take("OffsetCommit")
        assert (request.generation_id, request.member_id) == (1, "m")
        on_answer(None if code is DISCONNECTED else CommitAnswer({("orders", 0): code}))
        assert codes == [code]


# --- onJoinPrepare, onJoinComplete, onLeavePrepare ----------------------------------------------


def prepare(here: ClassicHost) -> None:
    here.client.request_rejoin()
    here.poll()


def test_before_it_joins_it_commits_until_that_succeeds() -> None:
    here = ClassicHost().stable(*orders(0, 1))
    prepare(here)
    for code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        here.commit(code)
        assert here.waiting == []
        here.run(CONFIG.retry_backoff_ms)
    assert here.told == []
    here.commit(ErrorCode.NONE)
    assert here.told == [("revoked", orders(0, 1))]
    assert here.waiting == ["JoinGroup"]


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE])
def test_before_it_joins_it_tries_once_what_cannot_be_committed(code: ErrorCode) -> None:
    here = ClassicHost().stable(*orders(0))
    prepare(here)
    here.commit(code)
    assert (here.told, here.waiting) == ([("revoked", orders(0))], ["JoinGroup"])


def test_before_it_joins_it_tries_to_commit_for_the_rebalance_timeout() -> None:
    here = ClassicHost(replace(CONFIG, max_poll_interval_ms=1_000)).stable(*orders(0))
    begin_ms = here.clock.now_ms
    prepare(here)
    for _ in range(20):
        if "OffsetCommit" not in here.waiting:
            break
        here.commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        here.run(CONFIG.retry_backoff_ms)
    assert here.clock.now_ms - begin_ms in range(1_000, 1_250)
    assert here.told == [("revoked", orders(0))]
    assert "JoinGroup" in here.waiting


@pytest.mark.parametrize(("early_ms", "tries_again"), [(1, True), (0, False)])
def test_without_coordinator_it_gives_up_in_time_and_joins_when_there_is_one(
    early_ms: int, tries_again: bool
) -> None:
    """`Timer.isExpired`: "currentTimeMs >= deadlineMs"; `sendJoinGroupRequest` fails at first."""
    here = ClassicHost(replace(CONFIG, max_poll_interval_ms=1_000)).stable(*orders(0))
    until_ms = here.clock.now_ms + 1_000
    prepare(here)
    here.clock.run(until_ms - early_ms)
    here.commit(ErrorCode.NOT_COORDINATOR)
    assert here.told == ([] if tries_again else [("revoked", orders(0))])
    assert "JoinGroup" not in here.waiting
    here.run(CONFIG.retry_backoff_ms)
    assert ("OffsetCommit" in here.waiting, "JoinGroup" in here.waiting) == (
        tries_again,
        not tries_again,
    )


@pytest.mark.parametrize(
    ("config", "forgotten", "told", "member_id"),
    [
        (CONFIG, "", [("revoked", orders(0, 1))], "m"),
        (CONFIG, "generation", [("lost", orders(0, 1))], "m"),
        (CONFIG, "member", [("lost", orders(0, 1))], ""),
        (COOPERATIVE, "", [], "m"),
        (COOPERATIVE, "generation", [("lost", orders(0, 1))], "m"),
        (COOPERATIVE, "member", [("lost", orders(0, 1))], ""),
    ],
)
def test_what_it_gives_up_before_it_joins(
    config: ConsumerConfig, forgotten: str, told: list[object], member_id: str
) -> None:
    here = ClassicHost(replace(config, enable_auto_commit=False)).stable(*orders(0, 1))
    forget(here, forgotten)
    prepare(here)
    assert here.told == told
    request, _ = here.take("JoinGroup")
    assert request.member_id == member_id


def test_a_cooperative_consumer_gives_up_topics_that_it_does_not_subscribe_to_any_more() -> None:
    config = replace(COOPERATIVE, topics=(), pattern=lambda _: True, enable_auto_commit=False)
    here = ClassicHost(config).stable(("orders", 0), ("payments", 0))  # which is gone
    prepare(here)
    assert here.told == [("revoked", (("payments", 0),))]
    assert here.client.owned == orders(0)
    assert here.client.owns_each((("payments", 0), *orders(0))) == [False, True]
    assert here.waiting == ["JoinGroup"]


def test_an_assignment_of_topics_that_it_does_not_subscribe_to_is_not_taken() -> None:
    here = joining()
    here.join(2)
    here.sync(("payments", 0), ("orders", 0))
    assert (here.told, here.client.owned) == ([], ())
    assert here.waiting == ["JoinGroup"]


def leader_answer(topics: tuple[str, ...]) -> JoinAnswer:
    """Make a consumer the leader of a group with another member."""
    members = tuple(
        JoinedMember(each, None, encode_subscription(MemberSpec(each, subscribed), "range"))
        for each, subscribed in (("m", ("orders",)), ("other", topics))
    )
    return JoinAnswer(ErrorCode.NONE, "m", 2, "consumer", "range", "m", members)


def test_a_leader_assigns_to_all_and_watches_their_topics() -> None:
    here = joining()
    here.topics = TopicImage([*here.topics, KnownTopic("payments", "A" * 21 + "g", 2)])
    here.answer("JoinGroup", leader_answer(("payments",)))
    sync = SyncAnswer(ErrorCode.NONE, encode_assignment(orders(*range(6)), 3))
    assert here.answer("SyncGroup", sync).assignments == {
        "m": encode_assignment(orders(*range(6)), 3),
        "other": encode_assignment([("payments", 0), ("payments", 1)], 3),
    }
    here.run(5_000)
    here.poll()
    assert here.client.is_settled
    orders_topic = next(topic for topic in here.topics if topic.name == "orders")
    here.topics = TopicImage([orders_topic, KnownTopic("payments", "A" * 21 + "g", 3)])
    here.run(5_000)
    here.poll()
    assert here.told[-1] == ("revoked", orders(*range(6)))
    assert "JoinGroup" in here.waiting


def test_who_does_not_lead_does_not_watch_topics() -> None:
    here = joining()
    here.join(2)
    here.sync(*orders(0))
    here.topics = TopicImage([KnownTopic("orders", "A" * 21 + "Q", 7)])
    here.run(5_000)
    here.poll()
    assert here.client.is_settled


@pytest.mark.parametrize(
    ("state", "told", "leaves"),
    [(STABLE, "revoked", True), (PREPARING, "lost", True), (UNJOINED, "lost", False)],
)
def test_who_closes_gives_up_and_leaves(state: ClientState, told: str, leaves: bool) -> None:
    """`onLeavePrepare`, `maybeLeaveGroup`."""
    here = ClassicHost(replace(COOPERATIVE, enable_auto_commit=False)).stable(*orders(0))
    if state is PREPARING:
        prepare(here)
    elif state is UNJOINED:
        here.client.reset_state(keeps_id=True)
    assert here.state() is state
    here.client.close()
    assert here.told == [(told, orders(0))]
    assert ("LeaveGroup" in here.waiting) is leaves
    if leaves:
        (member,) = here.take("LeaveGroup")[0].members
        assert member.member_id == "m"


def test_who_is_static_or_knows_no_coordinator_closes_without_leaving() -> None:
    static = ClassicHost(replace(CONFIG, instance_id="i")).stable(*orders(0))
    lost = ClassicHost().stable(*orders(0))
    lost.client.coordinator = None
    for here in (static, lost):
        here.client.close()
        assert (here.told, here.waiting) == ([("revoked", orders(0))], [])


def test_what_it_says_when_it_joins() -> None:
    here = ClassicHost(replace(CONFIG, instance_id="i", session_timeout_ms=9_000)).stable()
    prepare(here)
    request = here.join(2)
    assert isinstance(request, JoinGroup)
    assert (request.member_id, request.instance_id) == ("m", "i")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (9_000, 300_000)
    assert [protocol.name for protocol in request.protocols] == ["range"]


# ---- the heartbeat thread of a classic consumer: what each answer does, in each state


UNCOMMITTED = replace(
    CONFIG,
    strategies=("cooperative-sticky",),
    enable_auto_commit=False,
    session_timeout_ms=10_000,
    heartbeat_interval_ms=3_000,
)
STABLE, COMPLETING = ClientState.STABLE, ClientState.COMPLETING_REBALANCE
PREPARING, UNJOINED = ClientState.PREPARING_REBALANCE, ClientState.UNJOINED


def with_heartbeat(state: ClientState, *, is_same: bool) -> ClassicHost:
    """Bring a consumer into a state, while a heartbeat waits for its answer.

    Args:
        state: which.
        is_same: whether the heartbeat is of the generation in which the consumer is now, 2 if not.
    """
    here = ClassicHost(UNCOMMITTED).stable(*orders(0))
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
