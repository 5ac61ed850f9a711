"""Whether a client can join a group: Kafka's rules, on groups that are written down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.errors import UnfitError, UsageError
from kgroup.model.group import Broker, Group, GroupState, GroupType, PastGeneration
from kgroup.operation.client_join import ClientJoin, client_join
from kgroup.operation.plan.plan import Verdict
from tests.operation.plan.fake_cluster import FakeCluster, group_of
from tests.operation.sources import FakeSource

POLICY = "group.consumer.migration.policy"
INCONSISTENT = "INCONSISTENT_GROUP_PROTOCOL"


def asked(group: Group, client: str, **settings: str) -> ClientJoin:
    """Ask of a group on a broker with these settings."""
    cluster = FakeCluster(
        replace(group, coordinator=Broker(1, "kafka-1", 9092)),
        topics={"t": 6},
        settings={1: {name.replace("_", "."): value for name, value in settings.items()}},
    )
    (join,) = client_join(cluster, "g", client).data
    return join


def verdict(join: ClientJoin, code: str) -> Verdict:
    (found,) = (each.verdict for each in join.conditions if each.code == code)
    return found


def test_a_client_with_the_strategy_of_the_group_can_join() -> None:
    join = asked(group_of("ab", strategy="range", library="kafka-clients"), "librdkafka")
    assert (join.can_join, join.answer, join.strategies) == (True, None, ("range", "roundrobin"))
    assert join.then is not None
    assert join.then.first.assignment is not None
    assert sorted(map(len, join.then.first.assignment.values())) == [2, 2, 2]
    # The vote may change only to what both list.
    assert any("unless all members also list roundrobin" in text for text in join.consequences)


def test_a_join_has_the_strategy_that_is_said_to_stay() -> None:
    """Whatever members chose before: the client lists nothing else."""
    now = group_of("abc", strategy="range", library="kafka-clients")
    a, b, c = (member.member_id for member in now.members)
    past = tuple(
        PastGeneration(number, strategy, members)
        for number, strategy, members in (
            (6, "sticky", (a, b, "x")),
            (5, "sticky", (a, "y")),
            (4, "sticky", (b,)),
            (3, "", ()),  # as an edited snapshot may have it
            (2, "", (c,)),
        )
    )
    join = asked(replace(now, past_generations=past), "java:range")
    assert "The strategy stays range: the client lists no other one." in join.consequences
    assert join.then == asked(now, "java:range").then
    assert join.then is not None


def test_a_client_without_a_common_strategy_is_refused() -> None:
    """Members of librdkafka cannot list eager strategies with the cooperative one."""
    group = group_of("ab", strategy="cooperative-sticky", library="librdkafka")
    join = asked(group, "kafka-python:range")
    assert (join.can_join, join.answer, join.then) == (False, INCONSISTENT, None)
    assert join.consequences == (
        "If it joins, then poll() raises an exception, which ends the application unless it is "
        "handled.",
    )
    # Java's members may list range, too: nobody shows it.
    java = asked(group_of("ab", strategy="cooperative-sticky", library="kafka-clients"), "sarama")
    assert (java.can_join, java.answer, java.then) == (None, None, None)
    assert verdict(java, "common-strategy") is Verdict.UNKNOWN
    kafkajs = asked(group_of("ab", strategy="range", library="kafka-clients"), "kafkajs")
    assert (kafkajs.can_join, kafkajs.answer) == (False, INCONSISTENT)
    unknown = asked(group_of("ab", strategy="range"), "kafkajs")
    assert unknown.can_join is None
    streams = asked(group_of("ab", strategy="stream"), "java")
    assert (streams.can_join, streams.answer) == (False, INCONSISTENT)


def test_members_of_java_that_keep_their_partitions_list_no_eager_strategy() -> None:
    """Source: the constructor of `ConsumerCoordinator`, which chooses the rebalance protocol."""
    group = group_of("ab", strategy="cooperative-sticky", library="kafka-clients")
    keeping = tuple(
        replace(member, subscription=replace(member.subscription, owned=member.assignment))
        for member in group.members
        if member.subscription is not None
    )
    join = asked(replace(group, members=keeping), "java:range")
    assert (join.can_join, join.answer) == (False, INCONSISTENT)
    (found,) = (each.found for each in join.conditions if each.code == "common-strategy")
    assert found is not None
    assert "keeps its partitions in rebalances, so it lists only cooperative-sticky" in found
    both = asked(replace(group, members=keeping), "java:range,cooperative-sticky")
    assert both.can_join
    assert any("members cannot list another one" in text for text in both.consequences)
    # They gave up their partitions twice, so they also list another strategy.
    ids = tuple(member.member_id for member in group.members)
    past = tuple(PastGeneration(at, "cooperative-sticky", ids, unclaimed=ids) for at in (6, 5, 4))
    gave_up = asked(replace(group, past_generations=past), "java:range")
    assert gave_up.can_join is None


def test_another_library_as_leader_is_foretold() -> None:
    """kafka-go reads no subscription of version 3, and Java none of kafka-go's."""
    join = asked(group_of("ab", strategy="range", library="franz-go"), "kafka-go")
    assert join.can_join
    assert any("assigns as franz-go does" in text for text in join.consequences)
    (later,) = [text for text in join.consequences if "its assignor fails with wrapErr" in text]
    assert later.endswith(
        "it leaves the group, and joins again as a new member after JoinGroupBackoff (5 s)."
    )
    same = asked(group_of("ab", strategy="range", library="kafka-clients"), "java")
    assert not any("leads later" in text for text in same.consequences)
    fails = asked(group_of("ab", strategy="range", library="kafka-clients"), "kafka-go")
    assert fails.can_join
    assert any(" stays leader, and its assignor fails" in text for text in fails.consequences)


def test_what_is_unknown_of_a_group_names_no_option_of_dry_runs() -> None:
    """--may-join does not combine with them."""
    group = group_of("ab", strategy="range")
    notes = client_join(FakeSource(group), "g", "java").notes
    assert any("how many partitions" in note for note in notes)
    assert not any("--partitions" in note for note in notes)


def test_a_group_of_another_protocol_type_is_closed() -> None:
    untold = replace(group_of("ab", strategy="range"), protocol_type=None)
    join = asked(untold, "java")
    assert (join.can_join, verdict(join, "protocol-type")) == (None, Verdict.UNKNOWN)
    connect = replace(group_of("ab", strategy="sessioned"), protocol_type="connect")
    assert asked(connect, "java").answer == INCONSISTENT
    share = group_of("ab", type_=GroupType.SHARE)
    assert asked(share, "java").answer == INCONSISTENT
    assert asked(share, "java:consumer").answer == "GROUP_ID_NOT_FOUND"
    zookeeper = group_of("ab", type_=GroupType.ZOOKEEPER)
    with pytest.raises(UnfitError, match="registered in ZooKeeper"):
        asked(zookeeper, "java")


@pytest.mark.parametrize(
    ("type_", "client", "policy", "can_join", "answer"),
    [
        (GroupType.CLASSIC, "java:consumer", "bidirectional", True, None),
        (GroupType.CLASSIC, "java:consumer", "upgrade", True, None),
        (GroupType.CLASSIC, "java:consumer", "downgrade", False, "GROUP_ID_NOT_FOUND"),
        (GroupType.CONSUMER, "java", "upgrade", True, None),
        (GroupType.CONSUMER, "java", "disabled", False, INCONSISTENT),
        (GroupType.CONSUMER, "java:consumer", "disabled", True, None),
        (GroupType.CLASSIC, "sarama:consumer", "bidirectional", False, None),
        (GroupType.CLASSIC, "java@3.9:consumer", "bidirectional", False, None),
    ],
)
def test_the_migration_policy_decides_on_the_other_protocol(
    type_: GroupType, client: str, policy: str, can_join: bool, answer: str | None
) -> None:
    group = with_protocol(group_of("ab", strategy="range", type_=type_), classic=False)
    join = asked(group, client, group_consumer_migration_policy=policy)
    assert (join.can_join, join.answer) == (can_join, answer)


def with_protocol(group: Group, *, classic: bool | None) -> Group:
    """Say of all members whether they use the classic protocol."""
    members = tuple(replace(each, uses_classic_protocol=classic) for each in group.members)
    return replace(group, members=members)


@pytest.mark.parametrize("classic", [True, None])
def test_no_api_returns_what_classic_members_of_a_consumer_group_list(classic: bool | None) -> None:
    group = with_protocol(
        group_of("ab", strategy="range", type_=GroupType.CONSUMER), classic=classic
    )
    policy = {"group_consumer_migration_policy": "bidirectional"}
    join = asked(group, "java:roundrobin", **policy)
    assert (join.can_join, verdict(join, "common-strategy")) == (None, Verdict.UNKNOWN)
    first, second = group.members
    # One list is enough for a refusal, not for an admission.
    partly = (replace(first, uses_classic_protocol=True, classic_protocols=("range",)), second)
    group = replace(group, members=partly)
    assert asked(group, "java:range", **policy).can_join is None
    refused = asked(group, "java:roundrobin", **policy)
    assert (refused.can_join, refused.answer) == (False, INCONSISTENT)


@pytest.mark.parametrize(
    ("client", "can_join"),
    [("java@4:consumer", True), ("java@v4.0:consumer", True), ("java@3:consumer", False)],
)
def test_a_short_version_is_the_first_of_its_line(client: str, can_join: bool) -> None:
    group = group_of("ab", strategy="range", type_=GroupType.CONSUMER)
    assert asked(group, client).can_join == can_join


def test_a_policy_that_nobody_tells() -> None:
    join = asked(group_of("ab", strategy="range"), "java:consumer")
    assert (join.can_join, verdict(join, "migration-policy")) == (None, Verdict.UNKNOWN)


def test_limits_of_brokers() -> None:
    group = group_of("ab", strategy="range")
    full = asked(group, "java", group_max_size="2")
    assert (full.can_join, full.answer) == (False, "GROUP_MAX_SIZE_REACHED")
    short = asked(
        group, "sarama", group_min_session_timeout_ms="12000", group_max_session_timeout_ms="60000"
    )
    assert (short.can_join, short.answer) == (False, "INVALID_SESSION_TIMEOUT")


def test_a_group_without_members_takes_any_client() -> None:
    group = replace(group_of(""), state=GroupState.EMPTY, assignor=None)
    join = asked(group, "kafkajs")
    assert (join.can_join, join.then) == (True, None)
    limits = {"group_min_session_timeout_ms": "60000", "group_max_session_timeout_ms": "90000"}
    short = asked(group, "kafkajs", **limits)
    assert (short.can_join, short.answer) == (False, "INVALID_SESSION_TIMEOUT")
    # Without members, a group of the consumer protocol becomes a classic one.
    old = replace(group_of("", type_=GroupType.CONSUMER), state=GroupState.EMPTY)
    assert asked(old, "kafkajs", group_consumer_max_size="0", group_max_size="1").can_join


def test_a_client_that_cannot_be_configured_so() -> None:
    group = group_of("ab", strategy="range")
    mixed = asked(group, "librdkafka:range,cooperative-sticky")
    assert (mixed.can_join, verdict(mixed, "mixed-strategies")) == (False, Verdict.REFUTED)
    old = asked(group, "java@2.3:cooperative-sticky,range")
    assert (old.can_join, verdict(old, "client-strategies")) == (False, Verdict.REFUTED)
    for client, message in (
        ("pulsar", "expected one of kafka-clients"),
        ("java:rnage", "did you mean 'range'"),
        ("java:", "strategies behind the colon"),
    ):
        with pytest.raises(UsageError, match=f"--may-join: .*{message}"):
            asked(group, client)
