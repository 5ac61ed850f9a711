"""What of a source's group goes into a dry run, and what is refused."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor.member_spec import Software
from kgroup.errors import InputError, NotFoundError, UnknownStrategyError, UsageError
from kgroup.model.cluster import ClusterView, Partition, Placement, Topic
from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Membership,
    Subscription,
)
from kgroup.operation.assign.client import assumptions, software
from kgroup.operation.assign.dry_run import AssignRequest, Bounce, Run, assign_group
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.outcome import dry_run
from kgroup.operation.assign.what_if import AddedMembers, Changes, changed
from kgroup.operation.report import Report
from kgroup.source.log.source import LogDir
from tests.operation.sources import FakeSource

RECORDED = Path(__file__).parents[1] / "data" / "kafka-4.3.1"
DESCRIBED = json.loads((RECORDED / "manifest.json").read_text())["answers"]["described"]


def member(name: str, *partitions: int, topics: tuple[str, ...] | None = ("t",)) -> Member:
    return Member(
        member_id=name,
        client_id=name,
        subscription=Subscription(topics),
        assignment=tuple(AssignedPartition(None, "t", number) for number in partitions),
    )


def group(*members: Member, state: GroupState = GroupState.STABLE) -> Group:
    return Group(
        group_id="g",
        type=GroupType.CLASSIC,
        state=state,
        protocol_type="consumer",
        assignor="sticky",
        generation_id=8,
        leader_id="b",
        members=members,
    )


@pytest.mark.parametrize(
    "name", ["raw-bad-owned", "raw-bad-version", "raw-empty", "raw-new-version", "raw-one-byte"]
)
def test_recorded_bytes_that_are_no_subscription_are_told_by_their_size(name: str) -> None:
    """The broker's own answer says how many bytes there are."""
    answer = DESCRIBED[name]["answer"] if "answer" in DESCRIBED[name] else DESCRIBED[name]
    (sent,) = answer["members"]
    size = len(b64decode(sent["member_metadata"] or ""))
    with pytest.raises(InputError) as caught:
        read_group(LogDir([RECORDED]), name)
    unit = "byte" if size == 1 else "bytes"
    assert f"{sent['member_id']} ({size} {unit})" in str(caught.value)
    assert f"of protocol {answer['protocol_data']}, from 1 of 1 members" in str(caught.value)


def test_another_protocol_type_is_told_by_its_name_and_size() -> None:
    with pytest.raises(InputError, match=r"found 'workers' \(protocol mystery\).* \(30 bytes\)"):
        read_group(LogDir([RECORDED]), "raw-workers")


def test_subscriptions_of_a_custom_assignor_go_with_a_chosen_strategy() -> None:
    lack = r"raw-trailing: expected a strategy of kafka-clients 4.3.1 \(.*\), found 'mystery'"
    with pytest.raises(UnknownStrategyError, match=lack):
        read_group(LogDir([RECORDED]), "raw-trailing")
    read = read_group(LogDir([RECORDED]), "raw-trailing", strategy="range")
    assert read.data[0].strategy == "range"


def test_a_named_library_without_the_groups_strategy_is_wrong_usage() -> None:
    """As in a spec, and as a leader of that library (`--leader`) is."""
    of_java = group(member("a", 0))
    lack = r"expected a strategy of kafkajs 2.2.4 \(RoundRobinAssigner\), found 'sticky'\. Choose"
    with pytest.raises(UsageError, match=lack):
        read_group(FakeSource(of_java), "g", client=software("kafkajs"))


def test_one_member_that_cannot_be_read_is_named_among_the_others() -> None:
    odd = replace(member("odd"), subscription=None, protocol_metadata={"raw": "AAAAAA=="})
    with pytest.raises(InputError, match=r"from 1 of 3 members: odd \(4 bytes\)\. kgroup does"):
        read_group(FakeSource(group(member("a", 0), member("b", 1), odd)), "g")


def test_topics_of_a_regex_that_only_the_coordinator_resolved() -> None:
    """A cluster does not tell what it found for a regular expression; assignments show it."""

    def consumer(name: str, subscription: Subscription, *owned: str) -> Member:
        partitions = tuple(AssignedPartition(None, topic, 0) for topic in owned)
        return Member(
            member_id=name,
            client_id=name,
            subscription=subscription,
            assignment=partitions,
            target_assignment=partitions,
        )

    given = Group(
        group_id="g",
        type=GroupType.CONSUMER,
        state=GroupState.STABLE,
        protocol_type="consumer",
        assignor="uniform",
        members=(
            consumer("a", Subscription((), regex="orders|pay.*"), "orders", "payments"),
            consumer("b", Subscription(("returns",), regex="orders|pay.*"), "paypal", "returns"),
            consumer("c", Subscription(("repayments",)), "repayments"),
            consumer("d", Subscription(None, regex="(")),
        ),
    )
    read = read_group(FakeSource(given), "g")
    assert {spec.member_id: spec.topics for spec in read.data[0].members} == {
        "a": ("orders", "payments", "paypal"),
        "b": ("returns", "orders", "payments", "paypal"),
        "c": ("repayments",),
        "d": (),
    }
    unknown = ("orders", "payments", "paypal", "repayments", "returns")
    assert [note for note in read.notes if note.startswith("the id of topic")] == [
        f"the id of topic {topic} is unknown; the order may be different" for topic in unknown
    ]
    told = replace(given, resolved_regexes={"orders|pay.*": ("payroll",)})
    assert read_group(FakeSource(told), "g").data[0].members[0].topics == ("payroll",)


def test_a_rebalance_in_flight_takes_the_members_before_it() -> None:
    """A live cluster describes members of a rebalance without what they sent."""
    joining = replace(member("c"), subscription=None, assignment=None)
    stable = Membership(7, "a", "sticky", None, (member("a", 0), member("b", 1)))
    given = replace(group(joining, state=GroupState.PREPARING_REBALANCE), last_stable=stable)
    read = read_group(FakeSource(given), "g")
    assert [spec.member_id for spec in read.data[0].members] == ["a", "b"]
    assert [spec.generation for spec in read.data[0].members] == [7, 7]
    assert [spec.owned for spec in read.data[0].members] == [(("t", 0),), (("t", 1),)]
    assert (read.data[0].leader_id, read.data[0].strategy) == ("a", "sticky")
    (note,) = [note for note in read.notes if "rebalance" in note]
    assert note == (
        "g is in a rebalance (PreparingRebalance); the members and the assignment "
        "before it, of generation 7, are used"
    )


def test_a_rebalance_in_flight_of_unknown_members_is_said() -> None:
    joining = replace(member("c"), subscription=None, assignment=None)
    given = replace(
        group(joining, state=GroupState.COMPLETING_REBALANCE), assignor=None, leader_id=None
    )
    with pytest.raises(InputError) as raised:
        read_group(FakeSource(given), "g")
    assert str(raised.value).endswith(
        "g is in a rebalance (CompletingRebalance), and this source does not know its members "
        "before it; kgroup check g shows what rebalances the group; try again when it is complete"
    )


def test_the_leader_is_that_of_the_group() -> None:
    read = read_group(FakeSource(group(member("a", 0), member("b", 1))), "g")
    assert read.data[0].leader_id == "b"


@pytest.mark.parametrize(
    ("candidates", "leader_id", "expected"),
    [
        (("kafka-clients", "kafka-go"), "b", "kafka-clients 4.3.1"),
        (("kafka-go", "librdkafka"), "b", "librdkafka 2.16.0"),
        (("kafka-go", "kafka-python"), "gone", "librdkafka 2.16.0"),
    ],
)
def test_a_leader_whose_bytes_rule_out_the_others_library_is_of_an_unknown_one(
    candidates: tuple[str, ...], leader_id: str, expected: str
) -> None:
    """kafka-go deals two of three partitions to the last member."""
    leader = replace(member("b", 0, 1, 2), client_library_candidates=candidates)
    other = replace(member("a"), client_library="librdkafka", instance_id="a")
    given = replace(group(other, leader), assignor="range", leader_id=leader_id)
    (spec,) = read_group(FakeSource(given), "g").data
    plan = dry_run(spec)
    assert plan.computed_as == expected
    assert plan.warnings[0].startswith(
        f"The client library of the leader is unknown. Computed as {expected}; "
    )
    assert "kafka-go" in plan.warnings[0].partition(" would assign differently")[0]


def test_a_member_of_java_is_of_the_version_that_its_bytes_show() -> None:
    """Of cooperative members, those of 2.4 to 2.8.0 send no generation."""
    of_java = [
        replace(
            each,
            client_library="kafka-clients",
            subscription=Subscription(("t",), owned=(), version=1),
        )
        for each in (member("a", 0, 1), member("b", 2))
    ]
    given = replace(group(*of_java), assignor="cooperative-sticky")
    (spec,) = read_group(FakeSource(given), "g").data
    assert str(spec.computed_as) == "kafka-clients 2.8.0"
    assert [each.version for each in spec.members] == [1, 1]
    (asked,) = read_group(FakeSource(given), "g", client=software("java@2.4.1")).data
    assert {asked.client_of(each).version for each in asked.members} == {"2.5.0"}


def test_an_old_library_without_the_strategy_is_refused_with_what_has_it() -> None:
    """Java's members that send version 0 have no cooperative-sticky; those of today have it."""
    of_java = replace(
        member("b", 0), client_library="kafka-clients", subscription=Subscription(("t",), version=0)
    )
    source = FakeSource(replace(group(of_java), assignor="range"))
    message = r"2\.3\.1: range, .* --strategy, or --client java for the newest version$"
    with pytest.raises(UsageError, match=message):
        read_group(source, "g", strategy="cooperative-sticky")
    with pytest.raises(UsageError, match=r"Choose one with --strategy$"):
        read_group(source, "g", strategy="rang")


class Listing(FakeSource):
    """Brokers list the partitions of t in an order of their own."""

    def view(self, topics: Collection[str]) -> ClusterView:
        partitions = {number: Partition(1, (1,), (1,)) for number in (1, 2, 0)}
        return ClusterView("c", 1, {}, {"t": Topic("t", None, partitions)})

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        raise NotImplementedError


class InRacks(Listing):
    """Brokers 1 and 2 are in racks a and b, and lead in t."""

    def view(self, topics: Collection[str]) -> ClusterView:
        partitions = {at: Partition(2 - at, (1, 2), (1, 2)) for at in (0, 1)}
        brokers = {1: Broker(1, "one", 9092, "a"), 2: Broker(2, "two", 9092, "b")}
        return ClusterView("c", 1, brokers, {"t": Topic("t", None, partitions)})


def test_partitions_are_dealt_in_the_order_in_which_brokers_list_them() -> None:
    given = replace(group(member("a"), member("b")), assignor="RoundRobinAssigner", leader_id="a")
    read = read_group(Listing(given), "g", client=Software("kafkajs", "2.2.4"))
    assert dry_run(read.data[0]).assignment == {"a": (("t", 1), ("t", 0)), "b": (("t", 2),)}


@pytest.mark.parametrize("strategy", [None, "range", "roundrobin"])
def test_the_leaders_library_is_that_which_assigned_by_the_groups_own_strategy(
    strategy: str | None,
) -> None:
    """Java's range gave a two partitions, and kafka-go's roundrobin would give it the same."""
    leader = replace(member("b", 2), client_library_candidates=("kafka-clients", "kafka-go"))
    given = replace(group(member("a", 0, 1), leader), assignor="range")
    (spec,) = read_group(Listing(given), "g", strategy=strategy).data
    assert spec.leader is not None
    assert spec.leader.may_be == frozenset({"kafka-clients"})
    assert spec.strategy == (strategy or "range")


@pytest.mark.parametrize("library", ["ruby-kafka", "kafka-node", None])
def test_members_with_the_client_id_of_a_library_that_is_not_imitated_use_it(
    library: str | None,
) -> None:
    """Recorded of ruby-kafka: `describe` named it, and the dry run was wrong without a warning."""
    among = tuple(filter(None, ("ruby-kafka", library, "sarama")))
    members = [
        replace(member(name, *own), client_library=library, client_library_candidates=among)
        for name, own in (("a", (0, 1)), ("b", (2,)))
    ]
    given = replace(group(*members), assignor="roundrobin")
    (spec,) = read_group(Listing(given), "g").data
    joined = changed(spec, Changes(add=[AddedMembers()]))
    grown = changed(spec, Changes(partitions=[("t", 5)]))
    seen = [" ".join(dry_run(each).warnings) for each in (joined, grown)]
    is_other = library == "ruby-kafka"  # kafka-node deals by id, as Java does
    assert ("probably uses ruby-kafka, which is not imitated" in seen[0]) == is_other
    assert (f"the leader may use {library}, and when" in seen[1]) == bool(library)
    # Without that sign, ruby-kafka is passed over; but here, only it would have assigned that.
    assert ("no library that is imitated" in seen[0]) == (library != "ruby-kafka")
    assert not any("not to use ruby-kafka" in text for text in assumptions(spec))


@pytest.mark.parametrize(
    ("strategy", "candidates", "timeouts", "library"),
    [
        ("roundrobin", ("franz-go", "sarama"), (45_000, 60_000), "franz-go"),
        ("roundrobin", ("franz-go", "sarama"), (10_000, 60_000), "sarama"),
        ("roundrobin", ("franz-go", "sarama"), (20_000, 60_000), None),
        ("roundrobin", ("franz-go", "sarama"), (None, None), None),
        ("range", ("kafka-clients", "librdkafka"), (45_000, 300_000), None),
        ("sticky", ("aiokafka", "kafka-clients", "kafka-python"), (10_000, 10_000), "aiokafka"),
        ("sticky", ("kafka-clients", "kafka-python"), (45_000, 300_000), "kafka-python"),
    ],
)
def test_default_timeouts_tell_libraries_apart_that_send_the_same(
    strategy: str,
    candidates: tuple[str, ...],
    timeouts: tuple[int | None, int | None],
    library: str | None,
) -> None:
    """Defaults: of each library's documentation, and recorded in tests/data/rounds."""
    of_either = replace(
        member("b", 0),
        client_library_candidates=candidates,
        session_timeout_ms=timeouts[0],
        rebalance_timeout_ms=timeouts[1],
    )
    source = FakeSource(replace(group(of_either), assignor=strategy))
    (only,) = read_group(source, "g").data[0].members
    expected = {"aiokafka": "kafka-python"}.get(library or "", library)
    assert (only.client and only.client.name) == expected
    assert only.is_client_inferred == (library is not None)
    is_old = strategy == "sticky"  # what Java's sent before its timeouts were such
    assert only.may_be == frozenset(candidates) - ({"kafka-clients"} if is_old else set())


def test_members_of_kafka_go_get_what_brokers_of_their_racks_lead() -> None:
    def of_rack(name: str, user_data: str) -> Member:
        return replace(member(name), subscription=Subscription(("t",), user_data=user_data))

    given = group(of_rack("a", "YQ=="), of_rack("b", "Yg=="))
    source = InRacks(replace(given, assignor="rack-affinity"))
    read = read_group(source, "g", client=Software("kafka-go", "0.4.51"))
    assert dry_run(read.data[0]).assignment == {"a": (("t", 1),), "b": (("t", 0),)}


def test_groups_without_members_and_groups_that_are_not_there() -> None:
    with pytest.raises(InputError, match=r"expected members that subscribe, found none"):
        read_group(FakeSource(group(state=GroupState.EMPTY)), "g")
    with pytest.raises(NotFoundError, match="group 'h': "):
        read_group(FakeSource(group()), "h")


def joined_empty(
    *added: AddedMembers, type_: GroupType = GroupType.CLASSIC, asked: str | None = None
) -> Report[Run | Bounce]:
    """Let members join a group that has none."""
    empty = replace(group(state=GroupState.EMPTY), type=type_, assignor=None, leader_id=None)
    changes = Changes(add=added, partitions=[("t", 4)])
    return assign_group(FakeSource(empty), "g", AssignRequest(strategy=asked, changes=changes))


@pytest.mark.parametrize(
    ("of_new", "asked", "strategy", "software"),
    [
        ({}, "range", "range", "kafka-clients 4.3.1"),
        ({"library": "franz-go"}, None, "cooperative-sticky", "franz-go 1.22.0"),  # its default
        ({"strategies": ("sticky", "range")}, None, "sticky", "kafka-clients 4.3.1"),
    ],
)
def test_members_that_join_an_empty_group(
    of_new: dict[str, Any], asked: str | None, strategy: str, software: str
) -> None:
    """Their lists decide, or those of their library; Java's is assumed."""
    report = joined_empty(AddedMembers(2, topics=("t",), **of_new), asked=asked)
    (run,) = report.data
    (plan,) = run.plans
    assert (plan.strategy, plan.computed_as) == (strategy, software)
    assert plan.assignment is not None
    assert [len(partitions) for partitions in plan.assignment.values()] == [2, 2]
    is_assumed = "new members are taken to use kafka-clients 4.3.1" in " ".join(report.notes)
    assert is_assumed is ("library" not in of_new)
    assert not any("vote on it again" in note or "is assumed" in note for note in report.notes)


def test_members_of_an_empty_consumer_group_decide_on_its_assignor() -> None:
    added = AddedMembers(2, topics=("t",), strategies=("range",))
    (run,) = joined_empty(added, type_=GroupType.CONSUMER).data
    (plan,) = run.plans
    assert plan.strategy == "range"
    assert not any("assignor may change" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    "added", [AddedMembers(topics=("t",)), AddedMembers(strategies=("range",))]
)
def test_an_empty_group_needs_the_topics_and_the_strategy_of_new_members(
    added: AddedMembers,
) -> None:
    message = "--add-member topics=TOPIC with --strategy computes what new members get; --spec "
    with pytest.raises(InputError, match=message):
        joined_empty(added)
