"""What a dry run tells of an assignment: moves, balance, what is unsound, what follows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.errors import NotFoundError, UsageError
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import (
    AssignRequest,
    assign_specs,
    bounced,
    compared,
    random_ids,
    settled,
)
from kgroup.operation.assign.outcome import AssignPlan, Move, after, dry_run
from kgroup.operation.assign.spec import SpecError, read_spec, read_specs
from kgroup.operation.assign.what_if import AddedMembers, Changes
from tests.assignor.random_group import RandomGroup
from tests.examples import examples


def group(strategy: str = "cooperative-sticky", **changes: Any) -> GroupSpec:
    spec: dict[str, Any] = {
        "strategy": strategy,
        "topics": {"t": {"partitions": 4}},
        "members": [
            {"member_id": "a", "topics": ["t"], "owned": [["t", 0], ["t", 1]], "generation": 3},
            {"member_id": "b", "topics": ["t"], "owned": [["t", 2], ["t", 3]], "generation": 3},
        ],
    }
    return read_spec(spec | changes)


def owners(plan: AssignPlan) -> dict[tuple[str, int], str]:
    assert plan.assignment is not None
    return {
        partition: member_id
        for member_id, partitions in plan.assignment.items()
        for partition in partitions
    }


def test_nothing_moves_where_nothing_changed() -> None:
    plan = dry_run(group())
    assert (plan.moves, plan.kept, plan.warnings) == ((), 4, ())
    assert plan.balance is not None
    assert (plan.balance.minimum, plan.balance.maximum, plan.balance.deviation) == (2, 2, 0.0)
    assert plan.computed_as == "kafka-clients 4.3.1"


def test_a_cooperative_move_takes_two_rebalances() -> None:
    spec = what_if.add_members(group(), AddedMembers())
    run = settled(spec)
    assert run.first.rebalance == "cooperative"
    (given_up,) = run.first.moves
    assert given_up.to_member is None
    plans = [plan for plan in run.following if plan.assignment and plan.assignment["new-1"]]
    assert plans[0] is run.following[0]
    assert run.last.moves == ()
    assert len(owners(run.last)) == 4
    assert owners(run.last)[given_up.topic, given_up.partition] == "new-1"


def test_an_eager_move_takes_one() -> None:
    run = settled(what_if.add_members(group("sticky"), AddedMembers()))
    assert run.following == ()
    (move,) = run.first.moves
    assert move.to_member == "new-1"


def test_what_a_departed_member_had_moves_from_it() -> None:
    plan = dry_run(what_if.remove_member(group("sticky"), "a"))
    assert plan.moves == (Move("t", 0, "a", "b"), Move("t", 1, "a", "b"))
    assert [member.member_id for member in plan.members] == ["b"]


def test_a_topic_that_is_gone_is_taken_away_for_good() -> None:
    plan = dry_run(what_if.drop_topic(group("range"), "t"))
    assert {move.to_member for move in plan.moves} == {None}
    assert plan.assignment == {"a": (), "b": ()}
    assert plan.balance is not None
    assert plan.balance.idle_members == ("a", "b")


def test_changes_add_up() -> None:
    changes = what_if.Changes(
        partitions=[("t", 6)], add_topics=[("u", 3)], subscribe=[("b", ["u"])], fresh=True
    )
    plan = dry_run(what_if.changed(group("range"), changes))
    assert plan.kept == 0
    assert plan.assignment is not None
    assert Counter(topic for topic, _ in plan.assignment["a"]) == {"t": 6, "u": 2}
    assert Counter(topic for topic, _ in plan.assignment["b"]) == {"u": 1}
    assert plan.balance is not None
    assert [(topic.topic, topic.minimum, topic.maximum) for topic in plan.balance.topics] == [
        ("t", 6, 6),
        ("u", 1, 2),
    ]


def test_names_of_members() -> None:
    spec = what_if.add_members(group(), AddedMembers(2, "c", "i", "r", ("t",)))
    assert [m.instance_id for m in spec.members] == [None, None, "i-1", "i-2"]
    assert what_if.remove_member(spec, "i-2").members == spec.members[:3]
    with pytest.raises(UsageError, match="several members have client id c"):
        what_if.remove_member(spec, "c")
    with pytest.raises(NotFoundError, match="no member x; there are: a, b"):
        what_if.restart_member(group(), "x")


def test_an_unsound_answer_is_called_so() -> None:
    """A subscription to nothing before the others: Kafka gives that member partitions too."""
    members = [{"member_id": name, "topics": ["t"]} for name in "bc"]
    spec = group("sticky", members=[{"member_id": "a", "topics": []}, *members])
    (warning,) = dry_run(spec).warnings
    assert warning.startswith("Given to members that do not subscribe to the topic: t-")


def test_an_exception_of_kafkas_own_assignor_is_foretold() -> None:
    """A topic that was made anew with fewer partitions than the member claims to have.

    As in the comparison with Java (`tests/broker/test_assignor_oracle.py`), which has such cases.
    """
    owned = [["t", 1], ["t", 3], ["t", 5]]
    member = {"member_id": "a", "topics": ["t"], "owned": owned, "generation": 2}
    plan = dry_run(group("sticky", members=[member], topics={"t": {"partitions": 2}}))
    assert plan.error is not None
    assert plan.error.type == "IllegalStateException"
    assert plan.error.message == "No more unfilled consumers to be assigned."
    assert plan.warnings[0].startswith("The group's leader fails with IllegalStateException: No ")
    assert plan.assignment is None


def test_all_strategies_are_ranked_by_moves() -> None:
    runs = compared(group())
    assert {run.first.strategy for run in runs} == {
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
    }
    moves = [len(run.first.moves) for run in runs]
    assert moves == sorted(moves)
    assert moves[0] == 0


def test_a_rolling_restart_moves_nothing_where_members_are_static() -> None:
    members = [
        {"member_id": name, "instance_id": name, "topics": ["t"], "owned": [["t", at]]}
        for at, name in enumerate("ab")
    ]
    bounce = bounced(group(members=members))
    assert (bounce.dynamic, bounce.static, bounce.runs, bounce.moves) == (0, 2, (), 0)


@pytest.mark.parametrize(
    ("client", "static"),
    [("kafka-go", 0), ("kafkajs", 0), ("kafka-python@2.0.2", 0), ("kafka-python", 2)],
)
def test_an_instance_id_counts_only_where_there_are_static_members(
    client: str, static: int
) -> None:
    """Neither kafka-go nor KafkaJS sends `group.instance.id`; kafka-python does since 2.3."""
    members = [
        {"member_id": name, "instance_id": f"i{name}", "client_id": "c", "topics": ["t"]}
        for name in "ab"
    ]
    strategy = "RoundRobinAssigner" if client == "kafkajs" else "range"
    spec = group(strategy, client=client, members=members)
    bounce = bounced(spec)
    assert (bounce.dynamic, bounce.static, bounce.can_be_static) == (2 - static, static, static > 0)
    assert len(bounce.runs) == 2 * bounce.dynamic
    back = random_ids(what_if.restart_member(spec, "a"), 0)["new-1"]
    assert back.startswith("ia-" if static else "c-")


def test_no_two_members_have_one_instance_id() -> None:
    """A coordinator maps each to one member (`ClassicGroup.staticMembers`)."""
    members = [{"member_id": name, "topics": ["t"], "instance_id": "i-2"} for name in "ab"]
    with pytest.raises(
        SpecError, match=r"members\[1\]\.instance_id: 'i-2' is that of members\[0\]"
    ):
        group(members=members)
    spec = group(members=members[:1])
    for added in (AddedMembers(instance_id="i-2"), AddedMembers(2, instance_id="i")):
        with pytest.raises(UsageError, match="has a member with instance id i-2 already"):
            what_if.add_members(spec, added)
    left = what_if.remove_member(spec, "i-2")
    joined = what_if.add_members(left, AddedMembers(2, instance_id="i"))
    assert [member.instance_id for member in joined.members] == ["i-1", "i-2"]


def test_a_rolling_restart_ends_with_new_members_and_all_partitions() -> None:
    bounce = bounced(group("sticky"))
    runs = bounce.runs
    assert [run.what for run in runs] == ["a leaves", "a comes back", "b leaves", "b comes back"]
    assert set(owners(runs[-1].last).values()) <= {"new-1", "new-2"}
    assert len(owners(runs[-1].last)) == 4
    assert (bounce.dynamic, bounce.static, bounce.can_be_static) == (2, 0, True)
    assert bounce.moves == sum(len(plan.moves) for run in runs for plan in run.plans)


def test_a_rolling_restart_starts_each_step_from_the_one_before() -> None:
    """All that the last member has moves, and it is more than what it had at first."""
    runs = bounced(group("sticky")).runs
    (left,) = [run.first for run in runs if run.what == "b leaves"]
    before = next(owners(run.last) for run in runs if run.what == "a comes back")
    assert {(m.topic, m.partition) for m in left.moves} == {
        partition for partition, owner in before.items() if owner == "b"
    }


@pytest.mark.parametrize(
    ("client_id", "is_noted"),
    [
        ("sarama", True),
        ("sarama@1.47", True),
        ("librdkafka", False),
        ("kgo", False),
        ("pay", False),
    ],
)
def test_a_client_id_that_is_the_name_of_another_library_is_noted(
    client_id: str, *, is_noted: bool
) -> None:
    text = b"""{"client": "librdkafka", "topics": {"t": {"partitions": 4}},
        "members": [{"member_id": "a", "topics": ["t"]}]}"""
    request = AssignRequest(changes=Changes(add=[AddedMembers(client_id=client_id)]))
    noted = f"client={client_id} is taken as a client id; who has it counts as a member of librdkaf"
    assert [noted in note for note in assign_specs(text, "-", request).notes] == [True] * is_noted
    there = text.replace(b'"a",', b'"a", "client_id": "%s",' % client_id.encode())
    assert assign_specs(there, "-", request).notes == ()


def test_share_groups_and_old_versions_have_no_static_members() -> None:
    members = [{"member_id": "a", "topics": ["t"]}]
    assert not bounced(group("simple", protocol="share", members=members)).can_be_static
    assert not bounced(group("range", kafka_version="1.1.1")).can_be_static


def test_a_rebalance_follows_only_where_a_member_that_stays_gives_up_something() -> None:
    spec = what_if.remove_member(group(), "a")
    run = settled(spec)
    assert (len(run.first.moves), run.following) == (2, ())


def test_a_group_that_never_comes_to_rest_is_said_to_be_one() -> None:
    """Real groups of librdkafka went on like this one, where no replica is in b's rack."""
    racks = [["d", "a"], ["b", "d"], ["d", "a"], ["b", "a"], ["a", "d"], ["b", "d"], ["a", "c"]]
    owned = [["t", number] for number in (1, 3, 5, 4, 2, 6)]
    common = {"topics": ["t"], "generation": 9}
    members = [
        {"member_id": "a", "rack": "b", "owned": owned[:4], **common},
        {"member_id": "b", "rack": "elsewhere", "owned": owned[4:], **common},
    ]
    topics = {"t": {"partitions": 7, "racks": racks}}
    run = settled(group(topics=topics, members=members, client="librdkafka@2.16.0"))
    assert len(run.following) == 10
    assert "never come to rest" in run.last.warnings[-1]
    assert not any("rest" in warning for plan in run.plans[:-1] for warning in plan.warnings)


@pytest.mark.parametrize(("topics", "races"), [(["ant"], True), (["Mole", "ant", "zoo"], False)])
def test_it_is_told_where_it_matters_who_joins_again_first(topics: list[str], races: bool) -> None:
    """A real group of kafka-python ended in two other ways, as lee or joe came late."""
    own = {
        "lee": [("Mole", 1), ("ant", 3), ("zoo", 0), ("zoo", 1), ("zoo", 3), ("zoo", 5)],
        "joe": [("Mole", 0), ("ant", 0), ("ant", 1), ("ant", 2), ("zoo", 2), ("zoo", 4)],
    }
    sizes = {"Mole": {"partitions": 2}, "ant": {"partitions": 4}, "zoo": {"partitions": 6}}
    members: list[dict[str, Any]] = [
        {"member_id": name, "topics": list(sizes), "owned": [*map(list, owned)], "generation": 5}
        for name, owned in own.items()
    ]
    members.append({"member_id": "mae", "topics": topics})
    run = settled(group(topics=sizes, members=members, client="kafka-python@3.0.12"))
    assert len(run.following) == 1
    assert [
        any("joins again before another" in warning for warning in plan.warnings)
        for plan in run.plans
    ] == [False, races]


def test_the_library_that_fails_is_named() -> None:
    members = [{"member_id": "a", "topics": []}]
    plan = dry_run(group(members=members, client="librdkafka@2.16.0"))
    assert plan.error is not None
    assert plan.error.type == "SIGSEGV"
    assert "fails with SIGSEGV: the leader's process ends: it can read no" in plan.warnings[0]
    assert "librdkafka's own assignor" in plan.warnings[0]


def test_partitions_that_are_lost_for_good_are_told() -> None:
    """A leader made of kafka-go assigns nothing while one subscribed topic does not exist."""
    members = [
        {"member_id": "a", "topics": ["t", "u"], "owned": [["t", 0], ["t", 1]]},
        {"member_id": "b", "topics": ["t"], "owned": [["t", 2]]},
    ]
    topics = {"t": {"partitions": 3}}
    spec = group("range", members=members, topics=topics, client="kafka-go")
    *_, warning = dry_run(spec).warnings
    assert warning == "Given to nobody, though there are members that subscribe: t-0, t-1, t-2."
    assert warning in dry_run(what_if.remove_member(spec, "b")).warnings
    cooperative = what_if.add_members(group(), AddedMembers())
    assert not any("nobody" in warning for warning in dry_run(cooperative).warnings)


def test_a_failure_that_depends_on_who_leads_is_no_certain_one() -> None:
    """A leader made of KafkaJS deals its own topics alone (`topicsSubscribed`)."""
    members = [{"member_id": "a", "topics": ["t", "u"]}, {"member_id": "b", "topics": ["t"]}]
    spec = group("RoundRobinAssigner", members=members, client="kafkajs")
    plan = dry_run(spec)
    assert plan.error is not None
    assert plan.error.type == "KafkaJSProtocolError"
    (warning,) = plan.warnings
    assert warning.startswith(
        "It is not known who leads. The first member, which is taken, fails w"
    )
    assert warning.endswith("; another one would not. --leader ID computes with one.")
    (warning,) = dry_run(what_if.lead(spec, "a")).warnings
    assert warning.startswith("The group's leader fails with KafkaJSProtocolError: ")
    assert dry_run(what_if.lead(spec, "b")).error is None


@pytest.mark.parametrize("seed", range(examples(12)))
@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_moves_are_what_lies_between_two_assignments(strategy: str, seed: int) -> None:
    random = RandomGroup(seed, strategy)
    before = dry_run(read_spec(random.spec))
    if before.assignment is None or before.warnings:
        return
    spec = what_if.add_members(after(read_spec(random.spec), before), AddedMembers())
    plan = dry_run(spec)
    assert plan.assignment is not None
    old, new = owners(before), owners(plan)
    moved = {p: (old[p], new.get(p)) for p in old if new.get(p) != old[p]}
    assert {(m.topic, m.partition): (m.from_member, m.to_member) for m in plan.moves} == moved
    assert plan.kept == len(old) - len(moved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topics": 5}, "topics: expected an object, found 5"),
        ({"topics": {"t": {"partitions": -1}}}, "topics.t.partitions: expected an integer from 0"),
        ({"topics": {"t": {"partitions": 2, "racks": [["a"]]}}}, "topics.t.racks: expected the"),
        (
            {"topics": {"t": {"partitions": 2, "leader_racks": ["a"]}}},
            "topics.t.leader_racks: expected the racks of 2 partitions, found 1",
        ),
        ({"members": []}, "members: expected at least one member, found none"),
        ({"members": [{"member_id": "a"}]}, "members[0].topics: expected a list, found nothing"),
        ({"members": [{"topics": []}]}, "members[0].member_id: expected a text, found nothing"),
        (
            {"members": [{"member_id": "a", "topics": [], "owned": [["t", 0], ["t"]]}]},
            "members[0].owned[1]: expected [topic, partition], found ['t']",
        ),
        (
            {"members": [{"member_id": "a", "topics": [], "owned": [["t", True]]}]},
            "members[0].owned[0][1]: expected an integer from 0 to 2147483647, found True",
        ),
        (
            {"members": [{"member_id": "a", "topics": [], "owned": [["t", 0], ["t", -1]]}]},
            "members[0].owned[1][1]: expected an integer from 0 to 2147483647, found -1",
        ),
        (
            {"members": [{"member_id": "a", "topics": ["t", "u", "t"]}]},
            "members[0].topics: 't' stands there twice",
        ),
        (
            {"members": [{"member_id": "a", "topics": []}, {"member_id": "a", "topics": []}]},
            "members[1].member_id: 'a' is that of members[0] already",
        ),
        ({"members": [{"member_id": "a", "topics": [], "x": 1}]}, "members[0].x: unknown; the"),
        (
            {"topics": {"t": {"partitions": 2, "listed": [1, 1]}}},
            "topics.t.listed: expected each of 2 partitions once, found [1, 1]",
        ),
        ({"strategy": "uniform"}, "strategy: expected one of range, roundrobin, sticky"),
        ({"strategy": ["range"]}, "strategy: expected one of range, roundrobin, sticky"),
        (
            {"strategy": "RoundRobinAssigner"},
            "strategy: expected one of range, roundrobin, sticky, cooperative-sticky, found "
            "'RoundRobinAssigner'; it is one of client: kafkajs",
        ),
        ({"protocol": "share", "strategy": "range"}, "strategy: expected one of simple, found"),
        ({"topic_ids": {"t": "x"}}, "topic_ids.t: expected a topic id of 22 characters, found 'x'"),
        (
            {"members": [{"member_id": "a", "topics": [], "user_data": "?"}]},
            "members[0].user_data: expected base64, found '?'",
        ),
    ],
)
def test_a_bad_spec_is_told_by_the_path_of_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        group(**change)
    assert str(caught.value).startswith(message)


def test_one_bad_line_does_not_spoil_the_others() -> None:
    good = b'{"id": "%d", "topics": {}, "members": [{"member_id": "a", "topics": []}]}'
    text = b"\n".join([good % 1, b'{"topics": {', b"", b'{"members": 7}', good % 5])
    specs = read_specs(text, "f")
    assert [spec.id for spec in specs.data] == ["1", "5"]
    reasons = [error.reason for error in specs.errors]
    assert reasons[0].startswith("line 2: expected JSON, found ")
    assert reasons[1] == "line 4: topics: expected an object, found nothing."


def test_members_that_subscribe_alike_share_one_list_and_others_do_not() -> None:
    members = [
        {"member_id": name, "topics": topics}
        for name, topics in (("a", ["t", "u"]), ("b", ["t"]), ("c", ["t", "u"]), ("d", ["u", "t"]))
    ]
    read = group("range", members=members).members
    assert [member.topics for member in read] == [("t", "u"), ("t",), ("t", "u"), ("u", "t")]
    assert read[0].topics is read[2].topics


def test_a_topic_counts_once_in_a_subscription() -> None:
    spec = what_if.subscribe(group(), "a", ["t", "t"])
    spec = what_if.add_members(spec, AddedMembers(topics=("t", "t")))
    assert {member.topics for member in spec.members} == {("t",)}


def test_a_leader_that_leaves_leads_no_more() -> None:
    spec = what_if.lead(group(), "a")
    assert what_if.remove_member(spec, "b").leader_id == "a"
    assert what_if.remove_member(spec, "a").leader_id is None
    assert what_if.restart_member(spec, "a").leader_id is None


def test_a_leader_that_is_restarted_is_told_by_its_new_id() -> None:
    changes = Changes(restart=["a", "b"], leader="b")
    with pytest.raises(
        NotFoundError, match=r"--leader: b was restarted .*, new-2; --leader new-2 "
    ):
        what_if.changed(group(), changes)
    assert what_if.changed(group(), replace(changes, leader="new-2")).leader_id == "new-2"


def test_only_members_of_classic_groups_lead() -> None:
    with pytest.raises(NotFoundError, match="no member x; there are: a, b"):
        what_if.lead(group(), "x")
    members = [{"member_id": "a", "topics": ["t"]}]
    with pytest.raises(UsageError, match="consumer groups do not assign, their coordinator does"):
        what_if.lead(group("uniform", protocol="consumer", members=members), "a")
