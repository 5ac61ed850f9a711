"""Which targets make sense for a group, and what they would save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.model.group import Broker, GroupState, GroupType
from kgroup.operation.plan.advice import GroupAdvice, Proposal, advise, every_target
from kgroup.operation.plan.assignor import plan_assignor
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.plan import MigrationTarget
from kgroup.operation.printed_command import connected_by
from kgroup.source.base import GroupSource
from tests.operation.plan.fake_cluster import (
    FakeCluster,
    classic_group,
    consumer_group,
    group_of,
    member,
    running,
)
from tests.operation.plan.old_tree import GROUP, IDS, source, stopped
from tests.operation.sources import FakeSource
from tests.recorded_tree import recorded_tree


def advised(found: GroupSource, group_id: str = "g", *options: str) -> GroupAdvice:
    (row,) = advise(
        found, [group_id], ProgramBehavior(), options=options, zookeeper="zk-1:2181"
    ).data
    return row


def proposed(row: GroupAdvice) -> dict[MigrationTarget, Proposal]:
    return {proposal.target: proposal for proposal in row.proposals}


def test_an_eager_group_stops_less_with_cooperative_sticky() -> None:
    row = advised(FakeSource(group_of("abcdefghijklmnopqrst", each=5)), "g", "--sample")
    proposal = proposed(row)[MigrationTarget.ASSIGNOR]
    assert proposal.goal == "cooperative-sticky"
    assert proposal.command == "kgroup plan assignor cooperative-sticky g --sample"
    assert proposal.now is not None
    assert proposal.then is not None
    # Twenty members leave and come back, and all hundred partitions stop each time, until the last
    # member has come to poll(); later only what the one that is away had, and what moves to it when
    # it is back.
    now, then = proposal.now.forecast, proposal.then.forecast
    assert (now.rebalances, now.stopped) == (40, 100)
    assert then.moved < now.moved
    assert then.stopped_ms < 0.9 * now.stopped_ms
    assert row.summary.startswith("Recommended: assignor, ")


def test_an_eager_group_that_would_stop_no_less() -> None:
    """Of few members the one that is away has most, and nobody takes it over at once."""
    row = advised(FakeSource(group_of("ab", each=1)))
    assert MigrationTarget.ASSIGNOR not in proposed(row)
    (why,) = [
        reason for reason in row.reasons if reason.startswith("assignor cooperative-sticky: ")
    ]
    assert "would stop partitions for" in why


def test_what_is_compared_is_a_rolling_restart() -> None:
    group = group_of()
    (proposal, *_) = advised(FakeSource(group)).proposals
    assert proposal.now is not None
    told = {"": ("range", "sticky")}
    (step,) = plan_assignor(running(group), "range", told, ProgramBehavior()).steps
    assert proposal.now.forecast == step.forecast


def test_a_cooperative_group_is_told_that_it_is_one() -> None:
    row = advised(FakeSource(group_of(strategy="cooperative-sticky")))
    assert MigrationTarget.ASSIGNOR not in proposed(row)
    assert "assignor cooperative-sticky: the group already uses it." in row.reasons


def test_dynamic_members_move_nothing_when_they_are_static() -> None:
    proposal = proposed(advised(FakeSource(group_of())))[MigrationTarget.STATIC_MEMBERSHIP]
    assert proposal.now is not None
    assert proposal.then is not None
    assert (proposal.now.forecast.rebalances, proposal.then.forecast.rebalances) == (6, 0)
    assert proposal.then.forecast.moved == 0
    static = advised(FakeSource(group_of(static=True)))
    assert MigrationTarget.STATIC_MEMBERSHIP not in proposed(static)
    assert "static-membership: every member is already static." in static.reasons


def test_a_group_for_the_consumer_protocol() -> None:
    group = classic_group(*(member(n, partitions=[("orders", n)]) for n in range(3)))
    row = advised(FakeSource(group), "billing")
    proposal = proposed(row)[MigrationTarget.CONSUMER_PROTOCOL]
    assert proposal.command == "kgroup plan consumer-protocol billing"
    assert "Check first: broker-support, migration-policy" in proposal.why


def test_the_consumer_protocol_is_not_worth_a_migration_that_saves_nothing() -> None:
    """Static members come back without a rebalance, and wait for their own restart only."""
    static = advised(FakeSource(group_of(static=True)))
    assert MigrationTarget.CONSUMER_PROTOCOL not in proposed(static)
    (why,) = [reason for reason in static.reasons if reason.startswith("consumer-protocol: ")]
    assert why.startswith(
        "consumer-protocol: not worth a migration: a rolling restart would stop partitions for "
    )
    assert why.endswith("; partitions would change owners 0 times, instead of 0 times now.")
    assert static.summary.startswith("No migration is recommended now.")


def test_brokers_that_do_not_let_a_group_go() -> None:
    group = classic_group(*(member(n, partitions=[("orders", n)]) for n in range(3)))
    group = replace(group, coordinator=Broker(1, "kafka-1", 9092))
    cluster = FakeCluster(group, settings={1: {"group.consumer.migration.policy": "disabled"}})
    row = advised(cluster, "billing")
    assert MigrationTarget.CONSUMER_PROTOCOL not in proposed(row)
    (why,) = [reason for reason in row.reasons if reason.startswith("consumer-protocol: ")]
    assert "disabled" in why


def test_a_group_of_the_consumer_protocol_speaks_it() -> None:
    members = [member(n, partitions=[("orders", n)]) for n in range(2)]
    row = advised(FakeSource(consumer_group(*members, assignor="uniform")), "billing")
    assert MigrationTarget.ASSIGNOR not in proposed(row)


def test_an_unfinished_migration_comes_first() -> None:
    members = [
        replace(member(n, partitions=[("orders", n)]), uses_classic_protocol=n > 0)
        for n in range(3)
    ]
    row = advised(FakeSource(consumer_group(*members, assignor="uniform")), "billing", "--sample")
    assert row.summary.startswith(
        "The migration to the consumer protocol is unfinished: 2 of 3 members use the classic "
        "protocol. First finish it: kgroup plan consumer-protocol billing --sample, or go back "
        "(--back)."
    )
    assert "Recommended" not in row.summary
    assert row.proposals[0].target is MigrationTarget.CONSUMER_PROTOCOL


def test_members_of_which_some_are_static_come_first() -> None:
    dynamic = group_of("abc")
    members = (*group_of("a", static=True).members, *dynamic.members[1:])
    row = advised(FakeSource(replace(dynamic, members=members)), "g", "--sample")
    assert row.summary.startswith(
        "The migration to static membership is unfinished: 1 of 3 members are static. First finish "
        "it: kgroup plan static-membership g --sample, or go back (--back). "
    )
    assert row.proposals[0].target is MigrationTarget.STATIC_MEMBERSHIP


def test_members_that_cannot_be_static_are_not_to_become_it() -> None:
    """Members of kafka-go are never static: the plan to finish the migration is refused."""
    dynamic = [
        replace(one, client_library_candidates=("kafka-go",))
        for one in group_of("abc", "roundrobin", library="kafka-go").members[1:]
    ]
    members = (*group_of("a", "roundrobin", static=True).members, *dynamic)
    row = advised(FakeSource(replace(group_of("abc", "roundrobin"), members=members)), "g", "-q")
    assert row.summary.startswith(
        "The migration to static membership is unfinished: 1 of 3 members are static. Finishing it "
        "is not recommended; to go back: kgroup plan static-membership g --back -q."
    )
    without = "without static members that stay when they close: kafka-go"
    assert [reason for reason in row.reasons if without in reason]


def test_fewer_heartbeats_are_a_cost_of_the_consumer_protocol() -> None:
    """Kafka's default is 5 s; classic members send one every third of a short session timeout."""
    members = [member(n, partitions=[("orders", n)], session_timeout_ms=6_000) for n in range(3)]
    proposal = proposed(advised(FakeSource(classic_group(*members)), "billing"))[
        MigrationTarget.CONSUMER_PROTOCOL
    ]
    assert proposal.against is not None
    assert proposal.against.endswith(
        "; new assignments wait for heartbeats, simulated every 5 s "
        "(group.consumer.heartbeat.interval.ms) instead of 2 s"
    )


def test_nothing_makes_sense() -> None:
    empty = advised(FakeSource(group_of("", state=GroupState.EMPTY)))
    assert empty.proposals == ()
    assert empty.summary.startswith("The group has no members")
    share = advised(FakeSource(group_of("", type_=GroupType.SHARE)))
    assert share.summary == "No migration target applies to groups of type share."
    rebalancing = group_of(state=GroupState.PREPARING_REBALANCE)
    with connected_by(words=("-b", "kafka-1:9092")):
        busy = advised(FakeSource(rebalancing))
    assert busy.proposals == ()
    count = len(rebalancing.members)
    assert busy.summary == (
        f"A rebalance is in progress (state PreparingRebalance, {count} members): kgroup check "
        f"{rebalancing.group_id} -b kafka-1:9092 shows what rebalances the group; try again when "
        "it is complete."
    )
    with connected_by(words=("-b", "kafka-1:9092")):
        check = running(rebalancing).rests.check
    assert check == (
        f"Wait until kgroup describe {rebalancing.group_id} -b kafka-1:9092 shows Stable. If it "
        f"does not, kgroup check {rebalancing.group_id} -b kafka-1:9092 shows what rebalances the "
        "group."
    )


def test_groups_on_zookeeper_can_leave_it() -> None:
    row = advised(source(recorded_tree()), GROUP, "--zookeeper", "zk-1:2181")
    proposal = proposed(row)[MigrationTarget.KAFKA_OFFSETS]
    assert proposal.command == f"kgroup plan kafka-offsets {GROUP} --zookeeper zk-1:2181"
    # The recorded brokers are of 0.8, where Java's consumer finds no coordinator.
    assert any(reason.startswith("new-consumer: not now.") for reason in row.reasons)
    gone = proposed(advised(source(stopped(*IDS)), GROUP))[MigrationTarget.KAFKA_OFFSETS]
    assert "no restart is needed" in gone.why
    assert gone.then is None


def test_groups_that_are_not_there() -> None:
    report = advise(FakeSource(group_of()), ["g", "nosuch"], ProgramBehavior())
    assert [advice.group_id for advice in report.data] == ["g"]
    assert [error.group_id for error in report.errors] == ["nosuch"]


def test_names_with_dashes_stand_behind_the_options() -> None:
    row = advised(FakeSource(replace(group_of(), group_id="-x")), "-x", "--sample")
    assert row.proposals
    assert all(proposal.command.endswith(" --sample -- -x") for proposal in row.proposals)


def test_every_target_is_listed() -> None:
    assert [target.target for target in every_target().data] == list(MigrationTarget)


def test_what_the_numbers_speak_against_does_not_make_sense() -> None:
    """Of two members the one that stays takes over at once; static, it waits for each restart."""
    group = group_of("ab", each=2)
    row = advised(FakeSource(group))
    proposal = proposed(row)[MigrationTarget.STATIC_MEMBERSHIP]
    assert proposal.now is not None
    assert proposal.then is not None
    # A restart takes five seconds, and each of four partitions waits for its member once.
    assert proposal.then.forecast.stopped_ms >= 4 * 5_000 > 2 * proposal.now.forecast.stopped_ms
    assert proposal.against is not None
    for compared in (proposal.now, proposal.then):
        assert f"{compared.forecast.stopped_ms / 1000:g} s" in proposal.against
    sense, _, against = row.summary.partition("Worse according to the forecast: ")
    assert "static-membership" not in sense
    assert f"static-membership ({proposal.against})" in against


def test_what_makes_sense_comes_first_and_stops_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.operation.plan.forecast._COURSES", 2)
    for names, each in (("ab", 2), ("abc", 2), ("abcdefghijkl", 5)):
        for strategy in ("range", "cooperative-sticky"):
            proposals = advised(FakeSource(group_of(names, strategy, each=each))).proposals
            assert proposals
            is_sound = [found.against is None for found in proposals]
            assert is_sound == sorted(is_sound, reverse=True)
            for proposal in proposals:
                assert proposal.now is not None
                assert proposal.then is not None
                now, then = proposal.now.forecast, proposal.then.forecast
                worse = 0.9 * then.stopped_ms > now.stopped_ms or then.skipped > now.skipped
                assert (then.read_again > now.read_again) is (
                    " records again, instead" in proposal.why
                )
                assert (proposal.against is None) is not worse
