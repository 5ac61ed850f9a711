"""franz-go: odd groups, what its members send, and what is left to chance."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from kgroup.assignor.base import Subscriber, TopicMetadata
from kgroup.assignor.client.franz_go import FRANZ_GO
from kgroup.assignor.client.franz_go_sticky import Balancer, StealGraph_1_18, Sticky
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.outcome import AssignPlan, dry_run
from kgroup.operation.assign.spec import read_spec
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from tests.assignor.case.notation import answer_of, assigned, case, member, written
from tests.assignor.client.answers import Model
from tests.assignor.client.franz_go_case import CASES, FRANZ_GO_MODELS, answers, spec_of
from tests.assignor.client.members import TOPICS, recorded


@pytest.mark.parametrize("model", FRANZ_GO_MODELS, ids=str)
def test_odd_groups(model: Model) -> None:
    assert {name: answer_of(assigned(spec_of(model, name))) for name in CASES} == answers(model)


def partitions(topics: Sequence[Any] | None) -> tuple[TopicPartition, ...]:
    return tuple(
        (topic["topic"], number) for topic in topics or () for number in topic["partitions"]
    )


ROWS = recorded("franz-go")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "{version}-{strategy}-{round}".format(**row))
def test_members_send(row: dict[str, Any]) -> None:
    strategy = row["strategy"]
    same = ("version", "strategy", "member_id")
    before = [each for each in ROWS if each["round"] < row["round"]]
    owned = [
        partitions(decode_assignment(b64decode(each["assignment"]))["assignedPartitions"])
        for each in before
        if all(each[name] == row[name] for name in same)
    ]
    spec = MemberSpec(
        row["member_id"],
        tuple(TOPICS),
        rack=row["rack"],
        owned=owned[0] if owned else None,
        generation=1 if owned else None,
    )
    (subscriber,) = FRANZ_GO.as_sent([spec], strategy, row["version"])
    is_sticky = "sticky" in strategy  # both have the user data of Java's sticky assignor
    sent = decode_subscription(b64decode(row["subscription"]), "sticky" if is_sticky else "range")
    assert list(subscriber.topics) == sent["topics"]
    assert subscriber.owned == partitions(sent.get("ownedPartitions"))
    assert subscriber.rack == sent.get("rackId")
    assert subscriber.generation == (sent.get("generationId") if owned else None)
    assert bool(subscriber.owned) == (strategy == "cooperative-sticky" and bool(owned))
    if is_sticky:
        assert subscriber.remembered == partitions(sent["userData"]["previousAssignment"])
        assert subscriber.remembered_generation == sent["userData"].get("generation")
    else:
        assert sent["userData"] is subscriber.remembered is None


def test_only_newer_members_send_their_rack() -> None:
    spec = MemberSpec("a", ("t",), rack="r")
    racks = [
        subscriber.rack
        for version in FRANZ_GO.versions
        for subscriber in FRANZ_GO.as_sent([spec], "range", version)
    ]
    assert racks == ["r", "r", None, None]


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_the_leader_knows_racks_of_its_own_topics(strategy: str) -> None:
    model = Model("franz-go", "1.21.0", strategy)
    both, one = (f"who leads knows the racks of {what}" for what in ("both topics", "one topic"))
    unknown = read_spec(spec_of(model, both))
    answered = answers(model)
    assert answered[both] != answered[one]
    for leader_id, name in ((None, both), ("m", both), ("o", one)):
        plan = dry_run(replace(unknown, leader_id=leader_id))
        assert plan.assignment is not None
        assert {each: written(own) for each, own in plan.assignment.items()} == answered[name]
        assert is_certain(plan) == (strategy == "range" and leader_id is not None)


def is_certain(plan: AssignPlan) -> bool:
    return not any("determine what" in warning for warning in plan.warnings)


def test_it_does_not_matter_who_leads_where_all_know_the_same_racks() -> None:
    spec = read_spec(
        spec_of(Model("franz-go", "1.21.0", "range"), "who leads knows the racks of both topics")
    )
    assert not is_certain(dry_run(spec))
    assert is_certain(dry_run(replace(spec, topics={**spec.topics, "u": TopicMetadata(4)})))
    without = tuple(replace(each, rack=None) for each in spec.members)
    assert is_certain(dry_run(replace(spec, members=without)))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_an_empty_rack_as_librdkafka_sends_it_is_none(strategy: str) -> None:
    """By `rangeBalancer.Balance` and `initRacks` of franz-go 1.21.2."""
    model = Model("franz-go", "1.21.0", strategy)
    name = "nobody is in one rack, and in another there is more than a share"
    spec = spec_of(model, name)
    *others, without_rack = spec["members"]
    spec["members"] = [*others, without_rack | {"client": "librdkafka"}]
    assert answer_of(assigned(spec)) == answers(model)[name]


@pytest.mark.parametrize(
    ("version", "live"),
    [
        # of 1.22.3, with brokers of 3.9.2 and 4.3.1
        (
            "1.22.0",
            {"counter": "Mole 0, ant 3, zoo 0", "kgo": "Mole 1, zoo 1-2", "till": "ant 0-2"},
        ),
        # of 1.18.1, which walked over the topics in an order that comes seldom
        (
            "1.18.0",
            {"counter": "Mole 1, zoo 0 2", "kgo": "Mole 0, ant 2, zoo 1", "till": "ant 0-1 3"},
        ),
    ],
)
def test_what_live_groups_got_is_one_of_what_may_come_out(
    version: str, live: dict[str, str]
) -> None:
    asked = case(
        "zoo 3, ant 4, Mole 2",
        member("counter", "zoo ant Mole", instance_id="counter"),
        member("kgo", "zoo ant Mole", "", 2),
        member("till", "ant", "", 2),
    )
    spec = {
        "strategy": "sticky",
        "client": f"franz-go@{version}",
        "topics": asked.topics,
        "members": list(asked.members),
    }
    group = read_spec(spec)
    sticky = FRANZ_GO.strategies[version]["sticky"]
    assert isinstance(sticky, Sticky)
    sent = FRANZ_GO.as_sent(group.members, "sticky", version)
    outcomes = [
        answer_of({"assignment": outcome}) for outcome in sticky.outcomes(sent, group.topics)
    ]
    assert live in outcomes
    assert outcomes[0] == answer_of(assigned(spec))
    assert not sticky.is_determined(sent, group.topics)
    one_topic = {"ant": group.topics["ant"]}
    assert sticky.is_determined(sent, one_topic)


@pytest.mark.parametrize("sizes", [*permutations((2, 3, 4, 5, 6))], ids=str)
def test_who_has_most_gives_though_others_have_what_the_taker_had_before(
    sizes: Sequence[int],
) -> None:
    """By `findSteal` of 1.18: these two are visited first, but have too few to give anything."""
    had = [2, 0, 0, *sizes]
    members = []
    for at, size in enumerate(had):
        first = sum(had[:at])
        claimed = tuple(("t", first + number) for number in range(size))
        members.append(Subscriber(f"m{at}", ("t",), remembered=claimed, remembered_generation=4))
    plan = Balancer(members, {"t": TopicMetadata(sum(had))}, list, cooperative=False)
    graph = StealGraph_1_18(plan)
    for partition, taker in ((0, 1), (1, 2)):
        plan.given[0].remove(partition)
        plan.given[taker].append(partition)
        graph.move(partition, taker)
    most = had.index(6)
    assert graph.find(0) == [(most, 0, sum(had[:most]))]
