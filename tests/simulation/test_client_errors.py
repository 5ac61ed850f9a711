"""What a classic consumer of each client library does after errors; see `client_facts`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.assignor.client_facts import FACTS, ON_ERROR
from kgroup.assignor.group_spec import ASSIGNS_LIKE, CLIENTS
from kgroup.assignor.member_spec import MemberSpec
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.message import (
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinedMember,
    JoinGroup,
    SyncAnswer,
)
from kgroup.simulation.subscription import encode_subscription
from tests.simulation.classic_host import CONFIG, ClassicHost, orders

REFUSED = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
FENCED = ErrorCode.FENCED_INSTANCE_ID


def config_of(library: str) -> ConsumerConfig:
    strategy = "RoundRobinAssigner" if library == "kafkajs" else "roundrobin"
    software = ASSIGNS_LIKE.get(library) or CLIENTS[library].newest
    reacts_as = library if library in ASSIGNS_LIKE else None
    return replace(CONFIG, library=software, reacts_as=reacts_as, strategies=(strategy,))


def member_of(library: str) -> ClassicHost:
    """Return a member that owns a partition."""
    return ClassicHost(config_of(library)).stable(*orders(0))


def joining(library: str) -> ClassicHost:
    """Return a member whose JoinGroup waits for its answer."""
    here = ClassicHost(replace(config_of(library), enable_auto_commit=False)).stable(*orders(0))
    here.client.request_rejoin()
    here.poll()
    here.told.clear()
    assert here.waiting == ["JoinGroup"]
    return here


def wait_ms(here: ClassicHost, name: str) -> int:
    """Return the time until the member sends a request; at most a minute."""
    begin_ms = here.clock.now_ms
    while name not in here.waiting and here.clock.now_ms < begin_ms + 60_000:
        here.run(5)
    return here.clock.now_ms - begin_ms


def test_static_members_alone_can_be_fenced() -> None:
    assert {name for name, facts in FACTS.items() if facts.static_since is None} == {
        name for name in FACTS if ON_ERROR[name].fenced is None
    }


@pytest.mark.parametrize(
    ("library", "waits_ms"),
    [
        ("librdkafka", (1_000, 1_000, 1_000)),
        ("franz-go", (250, 500, 1_000, 2_000, 4_000, 5_000, 5_000)),
        ("kafka-go", (5_000, 5_000)),
        *((name, ()) for name in ("sarama", "kafka-python", "kafkajs", "@platformatic/kafka")),
        ("aiokafka", ()),
    ],
)
def test_a_refused_member_joins_again_if_its_library_retries(
    library: str, waits_ms: tuple[int, ...]
) -> None:
    here = joining(library)
    for expected_ms in waits_ms:
        here.answer("JoinGroup", JoinAnswer(REFUSED, "m"))
        assert expected_ms - 10 <= wait_ms(here, "JoinGroup") <= expected_ms + 10
        assert here.failure is None
        request, _ = here.sent[0]
        assert isinstance(request, JoinGroup)
        assert request.member_id == ("" if library == "kafka-go" else "m")
    if waits_ms:
        assert here.retries == [REFUSED.name] * len(waits_ms)
        here.answer("JoinGroup", JoinAnswer(FENCED, "m"))
        assert here.failure == FENCED.name
    else:
        here.answer("JoinGroup", JoinAnswer(REFUSED, "m"))
        assert here.failure == REFUSED.name


def test_the_backoff_begins_again_after_an_assignment() -> None:
    here = joining("franz-go")
    for _ in range(3):
        here.answer("JoinGroup", JoinAnswer(REFUSED, "m"))
        wait_ms(here, "JoinGroup")
    here.join(2)
    here.sync(*orders(0))
    here.client.request_rejoin()
    here.poll()
    here.answer("JoinGroup", JoinAnswer(REFUSED, "m"))
    assert 240 <= wait_ms(here, "JoinGroup") <= 260


@pytest.mark.parametrize(
    ("library", "leaves", "waits_ms", "member_id"),
    [("librdkafka", False, 1_000, "m"), ("kafka-go", True, 5_000, ""), ("sarama", False, None, "")],
)
def test_a_refused_assignment(
    library: str, leaves: bool, waits_ms: int | None, member_id: str
) -> None:
    """As when the group's record is too large: an unknown server error of SyncGroup."""
    here = joining(library)
    here.join(2)
    here.answer("SyncGroup", SyncAnswer(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert ("LeaveGroup" in here.waiting) == leaves
    if waits_ms is None:
        assert here.failure == "UNKNOWN_SERVER_ERROR"
        return
    assert waits_ms - 10 <= wait_ms(here, "JoinGroup") <= waits_ms + 10
    request, _ = here.take("JoinGroup")
    assert request.member_id == member_id


def test_a_removed_member_of_kafka_go_stops_reading_and_joins_five_seconds_later() -> None:
    for library, expected_ms in (("kafka-go", 5_000), ("franz-go", 250), ("kafka-python", 0)):
        here = member_of(library)
        wait_ms(here, "Heartbeat")
        here.answer("Heartbeat", HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        here.poll()
        assert here.told[-1] == ("lost", orders(0))
        assert expected_ms - 15 <= wait_ms(here, "JoinGroup") <= expected_ms + 15
        assert here.take("JoinGroup")[0].member_id == ""


def test_a_leader_of_kafka_go_that_cannot_read_a_subscription_leaves() -> None:
    here = joining("kafka-go")
    java = MemberSpec("java", ("orders",))
    members = (
        JoinedMember(
            "m", None, encode_subscription(MemberSpec("m", ("orders",)), "roundrobin", KAFKA_GO)
        ),
        JoinedMember("java", None, encode_subscription(java, "roundrobin")),
    )
    leads = JoinAnswer(ErrorCode.NONE, "m", 2, "consumer", "roundrobin", "m", members)
    here.answer("JoinGroup", leads)
    assert here.waiting == ["LeaveGroup"]
    assert [reason.partition(":")[0] for reason in here.retries] == ["wrapError"]
    assert 4_990 <= wait_ms(here, "JoinGroup") <= 5_010
    assert here.take("JoinGroup")[0].member_id == ""


KAFKA_GO = CLIENTS["kafka-go"].newest


@pytest.mark.parametrize(
    ("library", "reads_on", "is_ended_by_commit"),
    [
        ("librdkafka", False, True),
        ("sarama", False, True),
        ("kafka-python", True, True),
        ("@platformatic/kafka", True, False),
    ],
)
def test_a_fenced_member(library: str, reads_on: bool, is_ended_by_commit: bool) -> None:
    here = member_of(library)
    wait_ms(here, "Heartbeat")
    here.answer("Heartbeat", HeartbeatAnswer(FENCED))
    here.poll()
    assert here.failure == (None if reads_on else FENCED.name)
    if reads_on:
        assert (here.told, here.client.owned) == ([], orders(0))
        here.run(30_000)
        assert "Heartbeat" not in here.waiting
    other = member_of(library)
    other.client.commit(other.positions())
    other.commit(FENCED)
    other.poll()
    assert other.failure == (FENCED.name if is_ended_by_commit else None)


@pytest.mark.parametrize(
    ("library", "after_heartbeat", "after_sync"),
    [
        ("kafka-python", "m", "m"),
        *((name, "m", "") for name in ("sarama", "kafka-go")),
        ("aiokafka", "", ""),
    ],
)
def test_a_member_of_an_old_generation(library: str, after_heartbeat: str, after_sync: str) -> None:
    old = ErrorCode.ILLEGAL_GENERATION
    here = ClassicHost(replace(config_of(library), enable_auto_commit=False)).stable(*orders(0))
    wait_ms(here, "Heartbeat")
    here.answer("Heartbeat", HeartbeatAnswer(old))
    here.poll()
    assert here.join(2).member_id == after_heartbeat
    here.answer("SyncGroup", SyncAnswer(old))
    wait_ms(here, "JoinGroup")
    assert here.take("JoinGroup")[0].member_id == after_sync


def test_a_fenced_member_of_aiokafka_takes_its_instance_id_back() -> None:
    config = replace(config_of("aiokafka"), instance_id="pod-1")
    here = ClassicHost(config).stable(*orders(0))
    here.client.commit(here.positions())
    assert here.take("OffsetCommit")[0].instance_id is None
    wait_ms(here, "Heartbeat")
    request: Heartbeat = here.answer("Heartbeat", HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
    assert request.instance_id is None
    here.poll()
    join = here.take("JoinGroup")[0]
    assert (join.member_id, join.instance_id, here.failure) == ("", "pod-1", None)


@pytest.mark.parametrize(
    ("library", "leaves"),
    [("kafka-clients", False), ("kafka-python", False), ("@platformatic/kafka", True)],
)
def test_who_is_static_and_closes(library: str, leaves: bool) -> None:
    here = ClassicHost(replace(config_of(library), instance_id="pod-1")).stable(*orders(0))
    here.client.close()
    assert ("LeaveGroup" in here.waiting) is leaves
