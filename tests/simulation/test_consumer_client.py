"""A consumer of the consumer protocol, whose coordinator is the test.

What is expected is what `AbstractMembershipManager`, `ConsumerMembershipManager` and
`AbstractHeartbeatRequestManager` of kafka-clients 4.3.1 do.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kgroup.model.cluster import TopicPartition, numbers_by_topic
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ConsumerConfig, Joined
from kgroup.simulation.client.consumer_membership import ConsumerClient
from kgroup.simulation.client.consumer_membership import ConsumerClientState as State
from kgroup.simulation.consumer.message import (
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    NumbersByTopic,
    common,
    numbers_of,
    without,
)
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.message import CommitAnswer, OffsetCommit
from tests.simulation.scripted_host import ScriptedHost

ORDERS, PAYMENTS = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
CONFIG = ConsumerConfig(
    "g", "c", ("orders",), group_protocol="consumer", max_poll_interval_ms=60_000
)
INTERVAL_MS = 5_000


class Coordinator(ScriptedHost):
    """What is around a consumer of the consumer protocol."""

    client: ConsumerClient
    settles_ms = 10

    def __init__(self, config: ConsumerConfig = CONFIG, *, has_listener: bool = False) -> None:
        super().__init__(
            TopicImage([KnownTopic("orders", ORDERS, 6), KnownTopic("payments", PAYMENTS, 2)])
        )
        self.has_listener = has_listener
        self.client = ConsumerClient(config, self, self)

    def new_uuid(self) -> str:
        return "member"

    def polled(self, *, is_active: bool) -> None:
        """The test polls."""

    def pausing(self, partitions: tuple[TopicPartition, ...]) -> None:
        if partitions:
            self.told.append(("pausing", partitions))

    def heartbeat(self) -> ConsumerGroupHeartbeat:
        """Return the one heartbeat that waits for an answer."""
        (request,) = [each for each, _ in self.sent if isinstance(each, ConsumerGroupHeartbeat)]
        return request

    def answer(self, answer: object) -> None:
        """Answer the request that waits longest."""
        _, on_answer = self.sent.pop(0)
        on_answer(answer)
        self.run()

    def assign(self, epoch: int, *numbers: int, topic_id: str = ORDERS) -> None:
        """Answer a heartbeat."""
        self.beat(epoch, {topic_id: frozenset(numbers)} if numbers else {})

    def beat(self, epoch: int, assignment: NumbersByTopic | None = None) -> None:
        answer = ConsumerHeartbeatAnswer(ErrorCode.NONE, "member", epoch, INTERVAL_MS, assignment)
        assert isinstance(self.sent[0][0], ConsumerGroupHeartbeat)
        self.answer(answer)

    def refuse(self, code: ErrorCode) -> None:
        self.answer(ConsumerHeartbeatAnswer(code))

    def joined(self, *numbers: int) -> Coordinator:
        """Bring the client to where it owns partitions, in epoch 1, and has said so."""
        self.poll()
        self.assign(1, *numbers)
        self.beat(1)
        assert self.client.state is State.STABLE
        assert not self.sent
        self.told.clear()
        return self


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(("orders", number) for number in numbers)


def owned(*numbers: int) -> dict[str, frozenset[int]]:
    return {ORDERS: frozenset(numbers)}


def test_partitions_by_topic_are_sets_of_partitions() -> None:
    random = Random(5)
    both = [(topic, number) for topic in (ORDERS, PAYMENTS) for number in range(3)]
    for _ in range(200):
        some, others = ({*random.sample(both, random.randint(0, 6))} for _ in range(2))
        of_some, of_others = (numbers_of(numbers_by_topic(each)) for each in (some, others))
        assert common(of_some, of_others) == numbers_of(numbers_by_topic(some & others))
        assert without(of_some, of_others) == numbers_of(numbers_by_topic(some - others))


def test_it_joins_with_everything_and_says_what_it_took() -> None:
    here = Coordinator()
    here.poll()
    first = here.heartbeat()
    assert (first.member_id, first.member_epoch, first.topics) == ("member", 0, ("orders",))
    assert first.is_full
    here.assign(1, 0, 1)
    assert here.told == [("assigned", orders(0, 1))]
    acknowledged = here.heartbeat()  # at once, not when the next one is due
    assert (acknowledged.member_epoch, acknowledged.owned) == (1, owned(0, 1))
    assert (acknowledged.topics, acknowledged.rebalance_timeout_ms) == (None, None)
    assert here.client.state is State.STABLE
    here.beat(1)
    assert not here.sent
    here.run(INTERVAL_MS)
    assert (here.heartbeat().owned, here.heartbeat().topics) == (None, None)


def test_woken_up_it_takes_nothing_before_the_next_poll() -> None:
    """`wakeup()` lets a poll() that waits throw."""
    here = Coordinator()
    here.poll()
    here.client.wakeup()
    here.assign(1, 0, 1)
    assert here.told == []
    here.poll()
    assert here.told == [("assigned", orders(0, 1))]


def test_what_it_gives_up_is_committed_first_and_not_read_meanwhile() -> None:
    here = Coordinator().joined(0, 1)
    here.run(INTERVAL_MS)
    here.assign(1, 0)
    assert not here.sent  # it reads, and waits for poll()
    here.poll()
    assert here.told == [("pausing", orders(1))]
    ((commit, _),) = here.sent
    assert isinstance(commit, OffsetCommit)
    assert (commit.generation_id, set(commit.offsets)) == (1, set(orders(0, 1)))
    here.answer(CommitAnswer(dict.fromkeys(orders(0, 1), ErrorCode.NONE)))
    assert here.told == [("pausing", orders(1)), ("revoked", orders(1))]
    assert not here.sent  # the rest is for the next poll()
    here.poll()
    assert here.heartbeat().owned == owned(0)


def test_a_listener_is_asked_in_poll() -> None:
    here = Coordinator(replace(CONFIG, enable_auto_commit=False), has_listener=True).joined(0, 1)
    here.run(INTERVAL_MS)
    here.assign(1, 0)
    here.poll()
    assert here.told == [("pausing", orders(1))]
    here.poll()
    assert here.told[1:] == [("revoked", orders(1))]
    here.poll()
    assert here.heartbeat().owned == owned(0)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_fenced_it_loses_all_and_joins_anew(code: ErrorCode) -> None:
    here = Coordinator().joined(0, 1)
    here.run(INTERVAL_MS)
    here.refuse(code)
    assert here.told == [("pausing", orders(0, 1)), ("lost", orders(0, 1))]
    again = here.heartbeat()
    assert (again.member_epoch, again.owned, again.is_full) == (0, {}, True)


def test_fenced_while_it_commits_it_forgets_what_it_was_about_to_do() -> None:
    here = Coordinator().joined(0, 1)
    here.run(INTERVAL_MS)
    here.assign(1, 0)
    here.run(INTERVAL_MS)
    here.client.poll()
    here.run()
    (beat, _), (commit, _) = here.sent
    assert isinstance(beat, ConsumerGroupHeartbeat)
    assert isinstance(commit, OffsetCommit)
    here.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    (_, _), (join, on_join) = here.sent
    assert isinstance(join, ConsumerGroupHeartbeat)
    here.sent.pop()
    answer = ConsumerHeartbeatAnswer(ErrorCode.NONE, "member", 2, INTERVAL_MS, owned(3))
    on_join(answer)  # told what to own before its commit is answered
    here.told.clear()
    here.answer(CommitAnswer(dict.fromkeys(orders(0, 1), ErrorCode.UNKNOWN_MEMBER_ID)))
    assert here.told == []  # nothing of the old assignment
    here.poll()
    assert here.told == [("assigned", orders(3))]
    assert here.heartbeat().owned == owned(3)


def test_a_pattern_finds_a_topic_and_says_so_when_the_next_heartbeat_is_due() -> None:
    config = replace(CONFIG, topics=(), pattern=lambda name: name != "payments")
    here = Coordinator(replace(config, metadata_max_age_ms=1_000))
    here.poll()
    assert not here.sent  # which topics there are is not known yet
    here.poll()
    assert here.heartbeat().topics == ("orders",)
    here.assign(1, 0)
    here.beat(1)
    here.topics = TopicImage([*here.topics, KnownTopic("refunds", "AAAAAAAAAAAAAAAAAAAAAw", 1)])
    here.run(1_500)
    assert not here.sent
    here.run(INTERVAL_MS)
    assert here.heartbeat().topics == ("orders", "refunds")


def test_a_topic_that_it_does_not_know_is_looked_for() -> None:
    here = Coordinator(replace(CONFIG, enable_auto_commit=False))
    here.poll()
    new = "AAAAAAAAAAAAAAAAAAAAAw"
    here.topics = TopicImage([*here.topics, KnownTopic("refunds", new, 1)])
    here.beat(1, {ORDERS: frozenset({0}), new: frozenset({0})})
    assert here.client.owned == orders(0)  # what it knows, it takes
    assert here.client.owns_each((("refunds", 0), *orders(0, 1))) == [False, True, False]
    assert here.heartbeat().owned == owned(0)
    here.beat(1)
    here.poll()
    here.poll()
    assert here.client.owned == (("orders", 0), ("refunds", 0))
    assert here.heartbeat().owned == {ORDERS: frozenset({0}), new: frozenset({0})}


REGEX_CONFIG = replace(CONFIG, topics=(), regex=".*", enable_auto_commit=False)


def test_with_a_regex_it_asks_which_topic_it_was_told_of_and_owns_nothing_meanwhile() -> None:
    here = Coordinator(REGEX_CONFIG)
    here.poll()
    here.assign(1, 0, 1)
    assert here.heartbeat().owned == {}
    assert here.client.owned == orders(0, 1)  # with the answer, as poll() waits
    here.beat(1)
    assert here.heartbeat().owned == owned(0, 1)
    assert here.client.state is State.STABLE


def test_with_a_regex_it_says_of_each_assignment_that_it_does_not_know_the_topic() -> None:
    here = Coordinator(REGEX_CONFIG)
    here.poll()
    here.assign(1)
    assert here.heartbeat().owned == {}
    here.assign(1, 0)
    assert here.heartbeat().owned == {}
    here.beat(1)
    assert here.heartbeat().owned == owned(0)


def test_with_a_regex_it_keeps_what_it_owns_while_it_asks_for_another_topic() -> None:
    here = Coordinator(REGEX_CONFIG)
    here.poll()
    here.assign(1, 0)
    here.beat(1)
    here.beat(1)
    here.run(INTERVAL_MS)
    both = owned(0) | {PAYMENTS: frozenset({1})}
    here.beat(2, both)
    here.poll()
    assert (here.heartbeat().member_epoch, here.heartbeat().owned) == (2, owned(0))
    here.beat(2)
    here.poll()
    assert not here.sent  # it reads, and takes the rest in the next poll()
    here.poll()
    assert here.heartbeat().owned == both


def test_with_a_regex_it_still_knows_a_topic_when_it_joins_anew() -> None:
    here = Coordinator(REGEX_CONFIG)
    here.poll()
    here.assign(1, 0)
    here.beat(1)
    here.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    assert here.heartbeat().member_epoch == 0
    here.assign(2, 1)
    here.poll()
    assert here.heartbeat().owned == owned(1)


def test_with_a_regex_it_goes_on_with_the_topics_that_it_owns() -> None:
    here = Coordinator(REGEX_CONFIG)
    here.client.resume(Joined("member", 3, "", orders(0), (), None, 0), 1)
    here.poll()
    here.beat(4, owned(0, 1) | {PAYMENTS: frozenset({1})})
    here.poll()
    here.poll()
    assert here.heartbeat().owned == owned(0, 1)


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_too_slow_it_leaves_and_joins_at_the_next_poll(instance_id: str, epoch: int) -> None:
    here = Coordinator(replace(CONFIG, instance_id=instance_id)).joined(0)
    while here.clock.now_ms < 54_000:
        here.run(INTERVAL_MS)
        here.beat(1)
    here.run(60_000 - here.clock.now_ms)
    assert (here.heartbeat().member_epoch, here.heartbeat().topics) == (epoch, None)
    assert here.client.state is State.STALE
    assert here.told == [("pausing", orders(0)), ("lost", orders(0))]
    here.sent.clear()
    here.run(120_000)
    assert not here.sent
    here.poll()
    assert here.heartbeat().member_epoch == 0


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_elsewhere_it_asks_who_coordinates_and_says_everything_at_once(code: ErrorCode) -> None:
    here = Coordinator().joined(0)
    here.run(INTERVAL_MS)
    searches = here.searches
    here.refuse(code)
    assert here.searches == searches + 1
    again = here.heartbeat()
    assert (again.member_epoch, again.owned, again.topics) == (1, owned(0), ("orders",))
    assert here.client.state is State.STABLE


def test_while_the_coordinator_loads_it_backs_off_longer_each_time() -> None:
    here = Coordinator().joined(0)
    here.run(INTERVAL_MS)
    for backoff_ms in (100, 200, 400, 800, 1_000, 1_000):
        here.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        here.run(backoff_ms - 15)
        assert not here.sent
        here.run(10)
        assert here.heartbeat().owned == owned(0)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_other_errors_end_it_in_poll(code: ErrorCode) -> None:
    here = Coordinator().joined(0)
    here.run(INTERVAL_MS)
    here.refuse(code)
    assert here.failure is None
    here.poll()
    assert here.failure == code.name
    assert ("lost", orders(0)) in here.told
    here.run(120_000)
    assert not here.sent


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_closed_it_leaves(instance_id: str, epoch: int) -> None:
    here = Coordinator(replace(CONFIG, instance_id=instance_id)).joined(0)
    here.client.close()
    assert here.told == [("revoked", orders(0))]
    last = here.heartbeat()
    assert last.member_epoch == epoch
    assert (last.topics, last.regex, last.owned) == ((), None, {})  # has unsubscribed
    assert here.client.state is State.UNSUBSCRIBED
    here.sent.clear()
    here.run(60_000)
    assert not here.sent


def test_closed_it_takes_its_regex_back() -> None:
    here = Coordinator(replace(CONFIG, topics=(), regex="ord.*"))
    here.poll()
    assert (here.heartbeat().topics, here.heartbeat().regex) == ((), "ord.*")
    here.beat(1, {})
    assert here.heartbeat().regex is None
    here.beat(1)
    here.client.close()
    last = here.heartbeat()
    assert (last.member_epoch, last.topics, last.regex) == (-1, None, "")


def test_a_commit_of_an_older_epoch_is_tried_again() -> None:
    here = Coordinator().joined(0, 1)
    here.run(INTERVAL_MS)
    here.assign(1, 0)
    here.poll()
    here.answer(CommitAnswer(dict.fromkeys(orders(0, 1), ErrorCode.STALE_MEMBER_EPOCH)))
    assert ("revoked", orders(1)) not in here.told
    here.run(CONFIG.retry_backoff_ms)
    here.answer(CommitAnswer(dict.fromkeys(orders(0, 1), ErrorCode.NONE)))
    assert ("revoked", orders(1)) in here.told


@pytest.mark.parametrize(("early_ms", "told"), [(1, []), (0, [("revoked", orders(1))])])
def test_a_commit_is_tried_again_for_the_rebalance_timeout(early_ms: int, told: object) -> None:
    """`TimedRequestState.isExpired`: "currentTimeMs >= deadlineMs"."""
    here = Coordinator().joined(0, 1)
    here.run(INTERVAL_MS)
    here.assign(1, 0)
    until_ms = here.clock.now_ms + CONFIG.max_poll_interval_ms
    here.poll()
    here.told.clear()
    here.run(1_000)
    here.poll()  # or it would be too slow, too
    here.clock.run(until_ms - early_ms)
    here.answer(CommitAnswer(dict.fromkeys(orders(0, 1), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))
    assert here.told == told


def test_a_commit_without_coordinator_fails_and_one_is_looked_for() -> None:
    """`CoordinatorRequestManager.poll`, whenever it knows none."""
    here = Coordinator().joined(0)
    here.client.coordinator = None
    searches = here.searches
    codes: list[ErrorCode] = []
    here.client.commit(here.positions(), codes.append)
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert here.searches == searches + 1
