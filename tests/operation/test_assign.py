"""What a dry run tells of an assignment: moves, balance, what is unsound, what follows."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import zip_longest
from statistics import pstdev
from typing import Any

import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import ASSIGNS_LIKE, GroupSpec
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.server.server import preferred_assignor
from kgroup.errors import NotFoundError, UsageError
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member, Subscription
from kgroup.operation.assign import what_if
from kgroup.operation.assign.client import assumptions, software
from kgroup.operation.assign.dry_run import (
    AssignRequest,
    Run,
    assign_group,
    assign_specs,
    bounced,
    compared,
    settled,
)
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.outcome import AssignPlan, Move, after, dry_run
from kgroup.operation.assign.spec import SpecError, read_spec, read_specs
from kgroup.operation.assign.unknown_ids import dry_run_as, is_small, is_small_restart, random_ids
from kgroup.operation.assign.what_if import AddedMembers, Changes
from tests.assignor.random_group import RandomGroup
from tests.examples import examples
from tests.operation.plan.fake_cluster import FakeCluster


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
    assert what_if.changed(spec, Changes(remove=["i-2"])).members == spec.members[:3]
    with pytest.raises(UsageError, match="'c' means 2 members; name one by its member id: c"):
        what_if.changed(spec, Changes(remove=["c"]))
    with pytest.raises(NotFoundError, match="no member 'x'; it has: a, b"):
        what_if.changed(group(), Changes(restart=["x"]))


def test_an_unsound_answer_is_called_so() -> None:
    """A subscription to nothing before the others: Kafka gives that member partitions too."""
    members = [{"member_id": name, "topics": ["t"]} for name in "bc"]
    spec = group("sticky", members=[{"member_id": "a", "topics": []}, *members])
    (warning,) = dry_run(spec).warnings
    assert warning.startswith("Assigned to members that do not subscribe to the topic: t-")


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


def test_a_static_member_that_restarts_keeps_its_partitions() -> None:
    """Recorded: `kafka-clients cooperative-sticky, alike, static` in `tests/data/rounds`."""
    members: list[dict[str, Any]] = [
        {"member_id": name, "instance_id": name, "topics": ["t"], "owned": [["t", at]]}
        for at, name in enumerate("abcd")
    ]
    del members[3]["instance_id"]
    spec = group(members=members)
    back = what_if.changed(spec, Changes(restart=["a", "b"]))
    assert back == replace(spec, restarting=frozenset("ab"))
    assert settled(back).first.moves == ()
    assert [
        note.partition(" is a ")[0] for note in what_if.notes(spec, Changes(restart=["a"]))
    ] == ["--restart-member: a"]
    again = what_if.changed(spec, Changes(restart=["a", "d"]))
    assert [member.member_id for member in again.members] == ["a", "b", "c", "new-1"]
    assert [
        note.partition(" to be ")[0] for note in what_if.notes(spec, Changes(restart=["d"]))
    ] == ["--restart-member: members are taken"]
    eager = replace(spec, client=Software("kafka-go", "0.4.51"), strategy="range")
    assert what_if.changed(eager, Changes(restart=["a"])).members[-1].member_id == "new-1"


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


def test_members_of_aiokafka_may_be_static() -> None:
    """They have been since 0.10.0 (`CHANGES.rst`); their assignors are those of kafka-python 2."""
    like = ASSIGNS_LIKE["aiokafka"]
    members = tuple(
        MemberSpec(name, ("t",), f"i{name}", "c", owned=(("t", number),), client=like)
        for number, name in enumerate("ab")
    )
    spec = GroupSpec("range", members, {"t": TopicMetadata(2)}, leader_id="a")
    assert (bounced(spec).static, bounced(spec).can_be_static) == (2, True)
    asked = replace(spec, client=like, asked_version="2.2.21")
    assert (bounced(asked).static, bounced(asked).can_be_static) == (0, False)


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
    left = what_if.remove_member(spec, spec.members[0].member_id)
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
    noted = f"client={client_id} is taken as the client id of a member of librdkaf"
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
    assert "never become stable" in run.last.warnings[-1]
    assert not any("rest" in warning for plan in run.plans[:-1] for warning in plan.warnings)


@pytest.mark.parametrize(
    ("topics", "of_old", "races"),
    [
        (["ant"], "kafka-python@3.0.12", True),
        (["Mole", "ant", "zoo"], "kafka-python@3.0.12", False),
        (["ant"], "librdkafka", False),  # whose members ask for their assignment at once
    ],
)
def test_it_is_told_where_it_matters_who_joins_again_first(
    topics: list[str], of_old: str, races: bool
) -> None:
    """A real group of kafka-python ended in two other ways, as lee or joe came late."""
    own = {
        "lee": [("Mole", 1), ("ant", 3), ("zoo", 0), ("zoo", 1), ("zoo", 3), ("zoo", 5)],
        "joe": [("Mole", 0), ("ant", 0), ("ant", 1), ("ant", 2), ("zoo", 2), ("zoo", 4)],
    }
    sizes = {"Mole": {"partitions": 2}, "ant": {"partitions": 4}, "zoo": {"partitions": 6}}
    members: list[dict[str, Any]] = [
        {
            "member_id": name,
            "topics": list(sizes),
            "owned": [*map(list, owned)],
            "generation": 5,
            "client": of_old,
        }
        for name, owned in own.items()
    ]
    members.append({"member_id": "mae", "topics": topics})
    run = settled(group(topics=sizes, members=members, client="kafka-python@3.0.12"))
    assert len(run.following) == 1
    assert [
        any("rejoins before another" in warning for warning in plan.warnings) for plan in run.plans
    ] == [False, races]


@pytest.mark.parametrize(
    ("strategy", "low", "warns"),
    [
        ("sticky", "b", True),  # a gets all, and of these it keeps 0 and 1
        ("sticky", "a", False),
        ("range", "b", False),  # without memory
        ("cooperative-sticky", "b", False),  # not tried
    ],
)
def test_a_member_may_be_back_only_after_a_rebalance_without_it(
    strategy: str, low: str, warns: bool
) -> None:
    own = {"a": [["t", 2], ["t", 3]], "b": [["t", 2], ["t", 3]], low: [["t", 0], ["t", 1]]}
    members = [
        {"member_id": name, "topics": ["t"], "owned": owned, "generation": 3}
        for name, owned in own.items()
    ]
    spec = group(strategy, members=members)
    run = settled(what_if.restart_member(spec, "b"))
    warned = [text for text in run.last.warnings if "leave and join in a single rebalance" in text]
    assert len(warned) == warns
    left = settled(what_if.remove_member(spec, "b"))
    assert not any("single rebalance" in text for text in left.last.warnings)


_OWN_8 = {"a": [["t", at] for at in range(4)], "b": [["u", at] for at in range(4)]}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (Changes(add=[AddedMembers(client_id=name) for name in "xyz"]), "all new members join"),
        (Changes(add=[AddedMembers(client_id=name) for name in "xy"]), None),
        (Changes(remove=["a"], add=[AddedMembers(client_id="z")]), "members leave and join"),
        (Changes(restart=["a"]), None),  # a note
        (Changes(partitions=[("t", 9)], add=[AddedMembers()]), "topics change"),
        (Changes(partitions=[("t", 5), ("u", 9)]), "all topics change"),
        (Changes(partitions=[("t", 9)]), None),
    ],
)
def test_changes_may_cause_several_rebalances(changes: Changes, warning: str | None) -> None:
    """Rounds of `tests/data/rounds` with several changes ended like a rebalance after each."""
    sizes = {"t": {"partitions": 4}, "u": {"partitions": 4}}
    members = [
        {"member_id": name, "client_id": name, "topics": ["t", "u"], "owned": own, "generation": 3}
        for name, own in _OWN_8.items()
    ]
    expected = [warning] if warning else []
    for strategy in ("cooperative-sticky", "range"):
        spec = group(strategy, members=members, topics=sizes)
        warnings = settled(what_if.changed(spec, changes)).last.warnings
        found = [text for text in warnings if "in a single rebalance" in text]
        assert len(found) == len(expected) * (strategy != "range"), found
        assert all(each in text for each, text in zip(expected, found, strict=False))


@pytest.mark.parametrize("client", ["kafka-python", "java"])
def test_even_two_members_of_some_libraries_may_join_one_after_another(client: str) -> None:
    """Rounds of the second play did; two of other libraries, such as Java's, did not."""
    own = {"a": [["t", at] for at in (0, 2, 4, 6)], "b": [["t", at] for at in (1, 3, 5, 7)]}
    members = [
        {"member_id": name, "topics": ["t"], "owned": owned, "generation": 3, "client": client}
        for name, owned in own.items()
    ]
    spec = group("sticky", members=members, topics={"t": {"partitions": 8}}, client=client)
    new = Changes(add=[AddedMembers(client_id=name) for name in "xy"])
    warnings = settled(what_if.changed(spec, new)).last.warnings
    is_warned = any("all new members join in a single rebalance" in text for text in warnings)
    assert is_warned == (client == "kafka-python")


def test_a_static_member_that_restarts_claims_nothing_in_a_rebalance_meanwhile() -> None:
    """Recorded: the subscription that it sent in that rebalance had no owned partitions."""
    own = {"a": [["t", 1]], "b": [["t", 0], ["t", 2]], "c": [["t", 3]]}
    members = [
        {"member_id": n, "instance_id": n, "topics": ["t"], "owned": owned, "generation": 3}
        for n, owned in own.items()
    ]
    spec = group(members=members, topics={"t": {"partitions": 4}})
    run = settled(what_if.changed(spec, Changes(remove=["c"], restart=["b"])))
    assert any("static members that restart" in text for text in run.last.warnings)
    run = settled(what_if.changed(spec, Changes(remove=["c"])))
    assert not any("static members that restart" in text for text in run.last.warnings)


@pytest.mark.parametrize(
    ("client", "strategy", "topic", "warns"),
    [
        ("sarama", "sticky", "gone", True),
        ("sarama", "cooperative-sticky", "gone", True),
        ("java", "sticky", "gone", False),
        ("sarama", "range", "gone", False),  # without memory
        ("sarama", "sticky", "t", False),
    ],
)
def test_new_members_may_join_one_after_another_if_sarama_waits_for_a_topic(
    client: str, strategy: str, topic: str, warns: bool
) -> None:
    """Java's member a leads; leaders of Sarama cannot assign a topic that does not exist."""
    topics = list(dict.fromkeys(["t", topic]))
    members = [
        {
            "member_id": name,
            "topics": topics,
            "owned": [["t", number] for number in owned],
            "generation": 3,
            "client": client if name == "b" else "java",
        }
        for name, owned in {"a": (3, 5), "b": (0, 1, 2, 4), "c": ()}.items()
    ]
    spec = replace(group(strategy, members=members, topics={"t": {"partitions": 6}}), leader_id="a")
    run = settled(what_if.add_members(spec, AddedMembers(2)))
    assert any("in a single rebalance" in text for text in run.last.warnings) == warns


def test_a_new_member_is_not_called_like_one_that_has_left() -> None:
    spec = replace(group("range"), members=(MemberSpec("new-1", ("t",), owned=(("t", 0),)),))
    spec = what_if.changed(spec, Changes(remove=["new-1"], add=[AddedMembers()]))
    assert [member.member_id for member in spec.members] == ["new-2"]
    assert [(m.from_member, m.to_member) for m in dry_run(spec).moves] == [("new-1", "new-2")]


def test_other_steps_in_which_the_assignor_fails_are_a_warning() -> None:
    """The target assignment of c has a partition that is gone when only b has left."""
    own: dict[str, list[list[str | int]]] = {"a": [["t", 0]], "b": [], "c": [["t", 1]]}
    members = [{"member_id": name, "topics": ["t"], "owned": owned} for name, owned in own.items()]
    topics = {"t": {"partitions": 1}}
    spec = group("uniform", protocol="consumer", topics=topics, members=members)
    for name in ("b", "c"):
        spec = what_if.remove_member(spec, name)
    run = settled(spec)
    assert run.last.assignment == {"a": (("t", 0),)}
    assert any("heartbeats of others" in text for text in run.last.warnings)


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
    assert warning == "Not assigned, although members subscribe: t-0, t-1, t-2."
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
    assert warning.startswith("The leader is unknown. The first member, which is assumed, fails w")
    assert warning.endswith("; another one would not. --leader ID computes with one.")
    (warning,) = dry_run(what_if.lead(spec, "a")).warnings
    assert warning.startswith("The group's leader fails with KafkaJSProtocolError: ")
    assert "Then, the consumer crashes; if the error is retriable" in warning
    assert warning.endswith(
        "until another member leads: b would not fail. The leader must leave first; "
        "--remove-member a computes with that."
    )
    assert dry_run(what_if.remove_member(what_if.lead(spec, "a"), "a")).error is None
    assert dry_run(what_if.lead(spec, "b")).error is None


def test_a_leader_of_kafkajs_that_has_read_leaves_when_it_crashes() -> None:
    """`onCrash` disconnects, and `Runner.stop` leaves only if the runner is running."""
    members = [
        {"member_id": "a", "topics": ["t", "u"], "owned": [["t", 0]]},
        {"member_id": "b", "topics": ["t"], "owned": []},
    ]
    spec = group("RoundRobinAssigner", members=members, client="kafkajs")
    (warning,) = dry_run(what_if.lead(spec, "a")).warnings
    assert warning.endswith(
        "until another member leads: b would not fail. The leader leaves by itself; "
        "--remove-member a computes with that."
    )


def test_a_leader_of_kafka_go_leaves_when_its_assignor_fails() -> None:
    """It cannot read what librdkafka sends; `ConsumerGroup.run` leaves the group."""
    members = [
        {"member_id": "a", "topics": ["t"], "client": "kafka-go"},
        {"member_id": "b", "topics": ["t"], "client": "librdkafka"},
    ]
    spec = replace(group("range", members=members), client=None, leader_id="a")
    (warning, *_) = dry_run(spec).warnings
    assert warning.endswith(
        "Then, it leaves the group, and joins again as a new member after JoinGroupBackoff (5 s). "
        "The group is stuck until another member leads: b would not fail. The leader leaves by "
        "itself; --remove-member a computes with that."
    )


def test_no_other_leader_is_named_if_the_user_named_the_library() -> None:
    """A leader of kafka-python fails if subscriptions differ, one of kafka-clients would not."""
    members = [
        {"member_id": "a", "topics": ["t", "u"], "client": "kafka-python"},
        {"member_id": "b", "topics": ["u"], "client": "kafka-clients"},
    ]
    spec = group("roundrobin", members=members)
    (warning,) = dry_run(replace(spec, client=None, leader_id="a")).warnings
    assert "leads: b would not fail. The leader must leave first; --remove-member a" in warning
    (warning, *_) = dry_run(replace(spec, client=software("kafka-python"), leader_id="a")).warnings
    assert warning.endswith("until the members' subscriptions or claimed partitions change.")


def test_warnings_name_new_members_by_their_placeholders() -> None:
    """These name the member that leads then (`--leader`); its real id is not known yet."""
    members = [
        {"member_id": name, "topics": [*topics]} for name, topics in (("a", "tu"), ("b", "u"))
    ]
    members = [{**member, "client": "kafka-python"} for member in members]
    spec = replace(group("roundrobin", members=members), client=None, leader_id="a")
    added = AddedMembers(client_id="web", topics=("u",), library="java", strategies=("roundrobin",))
    joined = what_if.changed(spec, Changes(add=[added]))
    (warning, *_) = settled(joined).first.warnings
    assert "leads: new-1 would not fail. The leader must leave first; " in warning
    assert settled(what_if.lead(joined, "new-1")).error is None
    left = what_if.changed(spec, Changes(remove=["a"], add=[added]))
    assert settled(left).error is None


@pytest.mark.parametrize("is_told", [False, True])
def test_what_a_leader_does_that_may_be_of_aiokafka_after_its_assignor_failed(
    is_told: bool,
) -> None:
    """Its roundrobin, like that of kafka-python, fails with different subscriptions."""
    members = [{"member_id": "a", "topics": ["t", "u"]}, {"member_id": "b", "topics": ["u"]}]
    spec = group("roundrobin", members=members, client="kafka-python")
    names = ("kafka-python", "aiokafka") if is_told else ("kafka-python",)
    alike = tuple(replace(member, may_be=frozenset(names)) for member in spec.members)
    (warning,) = dry_run(replace(spec, members=alike, leader_id="a")).warnings
    assert "Then, poll() raises an exception, which ends the application" in warning
    assert (
        "(in aiokafka: getone() or getmany() raises KafkaError, which ends" in warning
    ) is is_told


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
            "members[0].topics: expected each topic once, found 't' twice",
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
    assert what_if.remove_member(spec, "a").leader_id == "b"
    assert what_if.changed(spec, Changes(restart=["a"])).leader_id is None


def test_a_leader_that_is_restarted_is_told_by_its_new_id() -> None:
    changes = Changes(restart=["a", "b"], leader="b")
    with pytest.raises(NotFoundError, match=r"--leader: b restarts and .*, new-2; --leader new-2 "):
        what_if.changed(group(), changes)
    with pytest.raises(NotFoundError, match=r"--subscribe: b restarts and .*; --subscribe new-1 "):
        what_if.changed(group(), Changes(restart=["b"], subscribe=[("b", ("t",))]))
    with pytest.raises(NotFoundError, match=r"--leader: b leaves \(--remove-member\)"):
        what_if.changed(group(), Changes(remove=["b"], leader="b"))
    assert what_if.changed(group(), replace(changes, leader="new-2")).leader_id == "new-2"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Changes(remove=["a", "a"]), "expected each member once, found a 2 times"),
        (Changes(restart=["a", "b", "a"]), "expected each member once, found a 2 times"),
        (Changes(remove=["a"], restart=["a"]), "expected each member once, found a 2 times"),
        (Changes(subscribe=[("a", ()), ("a", ())]), "expected each member once, found a"),
        (Changes(partitions=[("t", 1), ("t", 2)]), "expected each topic once, found t 2 times"),
        (Changes(drop_topics=["t"], partitions=[("t", 9)]), "expected each topic once, found t"),
        (Changes(drop_topics=["t"], add_topics=[("t", 9)]), "expected each topic once, found t"),
    ],
)
def test_a_change_counts_once(changes: Changes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        what_if.changed(group(), changes)


def test_a_member_that_restarts_is_named_as_it_was() -> None:
    with pytest.raises(NotFoundError, match="no member 'new-1'"):
        what_if.changed(group(), Changes(restart=["a", "new-1"]))


def test_fewer_partitions_are_those_of_another_topic() -> None:
    fewer, more = (Changes(partitions=[("t", number)]) for number in (1, 9))
    assert not list(what_if.notes(group(), more))
    (note,) = what_if.notes(group(), fewer)
    assert "Kafka does not reduce the number of partitions; computed as if t had been" in note


def test_only_members_of_classic_groups_lead() -> None:
    with pytest.raises(NotFoundError, match="no member 'x'; it has: a, b"):
        what_if.changed(group(), Changes(leader="x"))
    members = [{"member_id": "a", "topics": ["t"]}]
    with pytest.raises(
        UsageError, match="the coordinator assigns in consumer groups, not a member"
    ):
        what_if.lead(group("uniform", protocol="consumer", members=members), "a")


SEEDS = examples(12)
ROUNDS = 4


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(
    ("protocol", "strategy"),
    [
        ("classic", "range"),
        ("classic", "sticky"),
        ("classic", "cooperative-sticky"),
        ("consumer", "uniform"),
        ("share", "simple"),
    ],
)
def test_definitions(protocol: str, strategy: str, seed: int) -> None:
    group = RandomGroup(seed, strategy, protocol)
    for _ in range(ROUNDS):
        spec = read_spec(group.spec)
        if len(spec.members) > 1:
            spec = what_if.leaves(spec, spec.members[0])
        plan = dry_run(spec)
        if plan.assignment is not None:
            check_moves(spec, plan)
            check_balance(spec, plan)
            check_warnings(spec, plan)
            check_racks(spec, plan)
        left = {member.member_id: () for member in spec.departed}
        group.go_on(None if plan.assignment is None else {**plan.assignment, **left})


def check_moves(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    before = {m.member_id: set(m.owned or ()) for m in (*spec.members, *spec.departed)}
    after = {member_id: set(got) for member_id, got in plan.assignment.items()}
    expected = []
    for topic, number in sorted(
        set().union(*before.values()),
        key=lambda partition: (partition[0].encode("utf-16-be"), partition[1]),
    ):
        partition = topic, number
        givers = [m for m in before if partition in before[m] and partition not in after.get(m, ())]
        takers = [m for m in after if partition in after[m] and partition not in before[m]]
        expected += [
            (topic, number, giver, taker)
            for giver, taker in zip_longest(sorted(givers), sorted(takers))
            if giver is not None
        ]
    assert [(m.topic, m.partition, m.from_member, m.to_member) for m in plan.moves] == expected
    assert plan.kept == sum(len(after[m] & before[m]) for m in after)
    for member in plan.members:
        had, partitions = before[member.member_id], after[member.member_id]
        assert member.before == len(had)
        assert member.after == len(plan.assignment[member.member_id])
        assert member.kept == len(had & partitions)


def check_balance(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    assert plan.balance is not None
    counts = {m: len(partitions) for m, partitions in plan.assignment.items()}
    assert (plan.balance.minimum, plan.balance.maximum) == (
        min(counts.values()),
        max(counts.values()),
    )
    assert plan.balance.deviation == pytest.approx(pstdev(counts.values()), abs=0.0006)
    assert set(plan.balance.idle_members) == {m for m, count in counts.items() if not count}
    by_topic = {each.topic: each for each in plan.balance.topics}
    for topic in spec.topics:
        own = [
            sum(name == topic for name, _ in plan.assignment[member.member_id])
            for member in spec.members
            if topic in member.topics
        ]
        assert (topic in by_topic) == bool(own)
        if own:
            balance = by_topic[topic]
            assert (balance.minimum, balance.maximum) == (min(own), max(own))
            assert balance.deviation == pytest.approx(pstdev(own), abs=0.0006)


def check_warnings(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    existing = {(name, p) for name, topic in spec.topics.items() for p in range(topic.partitions)}
    owners = Counter(p for partitions in plan.assignment.values() for p in set(partitions))
    topics = {member.member_id: member.topics for member in spec.members}
    waiting = {
        (m.topic, m.partition)
        for m in plan.moves
        if m.to_member is None
        and m.from_member in plan.assignment
        and plan.rebalance == "cooperative"
    }
    expected: dict[str, set[TopicPartition]] = {
        "Assigned to more than one member at once": {
            p for p, count in owners.items() if count > 1 and spec.protocol != "share"
        },
        "Assigned to members, although these partitions do not exist": owners.keys() - existing,
        "Assigned to members that do not subscribe to the topic": {
            p
            for member_id, partitions in plan.assignment.items()
            for p in partitions
            if p in existing and p[0] not in topics[member_id]
        },
        "Not assigned, although members subscribe": {
            p
            for p in existing - owners.keys() - waiting
            if any(p[0] in names for names in topics.values())
        },
    }
    told = {}
    for warning in plan.warnings:
        if warning.startswith(("Assigned ", "Not assigned")):
            what, _, names = warning.removesuffix(".").partition(": ")
            told[what] = names
    assert told.keys() == {what for what, partitions in expected.items() if partitions}
    for what, names in told.items():
        first, _, more = names.partition(" and ")
        shown = set(first.split(", "))
        assert shown <= {f"{topic}-{number}" for topic, number in expected[what]}
        assert len(shown) + int(more.removesuffix(" more") or 0) == len(expected[what])


def check_racks(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    racks = {member.member_id: member.rack for member in spec.members if member.rack}
    has_racks = any(topic.racks for topic in spec.topics.values())
    local = [
        (topic, number)
        for member_id, partitions in plan.assignment.items()
        for topic, number in partitions
        if topic in spec.topics
        and number < spec.topics[topic].partitions
        and racks.get(member_id) in spec.topics[topic].racks_of(number)
    ]
    assert plan.rack_local == (len(local) if racks and has_racks else None)


UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def pair_of(strategy: str, *, protocol: str = "classic", partitions: int = 3) -> GroupSpec:
    """Two members in the middle of the alphabet, that own all."""
    owned = [["t", number] for number in range(partitions)]
    spec: dict[str, Any] = {
        "id": "g",
        "protocol": protocol,
        "strategy": strategy,
        "topics": {"t": {"partitions": partitions}},
        "members": [
            {"member_id": "m1", "topics": ["t"], "owned": owned[::2], "generation": 1},
            {"member_id": "m2", "topics": ["t"], "owned": owned[1::2], "generation": 1},
        ],
    }
    return read_spec(spec)


def unsure(plan: AssignPlan) -> dict[str, bool | None]:
    return {member.member_id: member.depends_on_id for member in plan.members}


def test_ids_have_the_shape_of_real_ones() -> None:
    def made(protocol: str, added: AddedMembers) -> str:
        strategy = {"classic": "range", "consumer": "uniform", "share": "simple"}[protocol]
        spec = what_if.add_members(pair_of(strategy, protocol=protocol), added)
        return random_ids(spec, 5)["new-1"]

    assert re.fullmatch(f"c-{UUID}", made("classic", AddedMembers(client_id="c")))
    static = AddedMembers(client_id="c", instance_id="i")
    assert re.fullmatch(f"i-{UUID}", made("classic", static))
    assert re.fullmatch(f"consumer-g-1-{UUID}", made("classic", AddedMembers()))
    for protocol in ("consumer", "share"):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", made(protocol, AddedMembers()))


@pytest.mark.parametrize(("client", "place"), [("a", 0), ("z", 2)])
def test_a_client_id_that_settles_the_order_settles_the_assignment(client: str, place: int) -> None:
    """Range goes by member id, and a client id comes first in it."""
    plan = settled(what_if.add_members(pair_of("range"), AddedMembers(client_id=client))).first
    assert plan.assignment is not None
    assert plan.assignment["new-1"] == (("t", place),)
    assert unsure(plan) == {"m1": False, "m2": False, "new-1": False}
    assert {move.depends_on_id for move in plan.moves} == {False}
    assert plan.warnings == ()


@pytest.mark.parametrize(
    ("client", "client_id"),
    [
        ("librdkafka", "rdkafka"),
        ("franz-go", "kgo"),
        ("sarama", "sarama"),
        ("kafka-go", r"[a-z]{8}@[a-z]{8} \(github\.com/segmentio/kafka-go\)"),
        ("kafka-python@2.2.21", r"kafka-python-2\.2\.21"),
        ("kafkajs", "kafkajs"),
    ],
)
def test_a_client_id_that_nobody_tells_is_the_default_one_of_the_library(
    client: str, client_id: str
) -> None:
    """Defaults from members of each library (`tests/data/clients`)."""
    strategy = "RoundRobinAssigner" if client == "kafkajs" else "range"
    read = read_spec(
        {
            "client": client,
            "strategy": strategy,
            "topics": {},
            "members": [{"member_id": "m", "topics": []}],
        }
    )
    spec = what_if.add_members(read, AddedMembers())
    assert re.fullmatch(f"{client_id}-{UUID}", random_ids(spec, 0)["new-1"])
    back = what_if.restart_member(read, "m")
    assert re.fullmatch(f"{client_id}-{UUID}", random_ids(back, 0)["new-1"])


def of_librdkafka(*client_ids: str) -> GroupSpec:
    """Members that are called so, the first of which leads, and more of Java."""
    spec = pair_of("range", partitions=8)
    members = [
        MemberSpec(f"{name}-{at}", ("t",), client_id=name, client=Software("librdkafka", "2.16.0"))
        for at, name in enumerate(client_ids)
    ]
    java = [
        MemberSpec(f"j-{at}", ("t",), client_id="j", client=Software("kafka-clients", "4.3.1"))
        for at in range(3)
    ]
    return replace(spec, client=None, leader_id=members[0].member_id, members=(*java, *members))


def test_a_new_member_is_called_as_most_of_the_leaders_library_are() -> None:
    spec = what_if.add_members(of_librdkafka("a", "pay", "pay"), AddedMembers())
    for seed in range(7):
        assert re.fullmatch(f"pay-{UUID}", random_ids(spec, seed)["new-1"])
    left = of_librdkafka("a", "pay", "pay")
    left = replace(left, members=(), departed=left.members, leader_client=left.members[-1].client)
    joined = what_if.add_members(left, AddedMembers())
    assert re.fullmatch(f"pay-{UUID}", random_ids(joined, 0)["new-1"])


def test_a_new_member_is_called_as_any_where_each_is_called_otherwise() -> None:
    spec = what_if.add_members(of_librdkafka("a", "pay"), AddedMembers())
    made = [random_ids(spec, seed)["new-1"] for seed in range(7)]
    assert made[0].startswith("a-")
    assert {name.partition("-")[0] for name in made} == {"a", "pay"}


def three_of_librdkafka(partitions: int = 8) -> GroupSpec:
    """Members of the default client id; range goes by the random rest of their ids."""
    share = partitions // 3 + 1
    members = [
        {
            "member_id": f"rdkafka-{digit}c1d2b7e-0000-4000-8000-00000000000{at}",
            "client_id": "rdkafka",
            "topics": ["t"],
            "owned": [["t", n] for n in range(share * at, min(share * (at + 1), partitions))],
        }
        for at, digit in enumerate("37b")
    ]
    topics = {"t": {"partitions": partitions}}
    spec = {"client": "librdkafka", "strategy": "range", "topics": topics}
    return read_spec(spec | {"members": members})


def test_where_a_new_member_of_librdkafka_comes_is_not_known() -> None:
    """It may come anywhere among three of the same client id."""
    plan = settled(what_if.add_members(three_of_librdkafka(), AddedMembers())).first
    assert unsure(plan)["new-1"] is True
    assert True in {move.depends_on_id for move in plan.moves}


def test_a_rolling_restart_marks_what_depends_on_the_new_ids() -> None:
    """Two members that stay know their places, as all ids are known; no later step does."""
    first, *later = bounced(three_of_librdkafka()).runs
    assert set(unsure(first.first).values()) == {False}
    assert {move.depends_on_id for move in first.first.moves} == {False}
    assert len(later) == 5
    for run in later:
        assert True in unsure(run.first).values()
        assert True in {move.depends_on_id for move in run.first.moves}
        assert "depends on the ids of new members" in run.first.warnings[-1]


def test_a_rolling_restart_by_ids_that_sort_as_before_depends_on_none() -> None:
    spec = three_of_librdkafka()
    members = tuple(replace(m, client_id=name) for m, name in zip(spec.members, "abc", strict=True))
    for run in bounced(replace(spec, members=members)).runs:
        assert set(unsure(run.first).values()) == {False}
        assert run.first.warnings == ()


def test_in_a_large_rolling_restart_it_is_not_found_out() -> None:
    assert is_small_restart(three_of_librdkafka(8_333))  # 6 rebalances, 49,998
    large = three_of_librdkafka(8_334)
    assert not is_small_restart(large)
    first, *later = bounced(large).runs
    assert {move.depends_on_id for move in first.first.moves} == {False}
    for run in later:
        assert set(unsure(run.first).values()) == {None}
        assert {move.depends_on_id for move in run.first.moves} == {None}
        assert "for a restart of this many members and partitions" in run.first.warnings[-1]


def test_ids_alone_decide_between_two_new_members_of_one_client() -> None:
    spec = what_if.add_members(pair_of("range", partitions=4), AddedMembers(2, client_id="z"))
    plan = settled(spec).first
    assert unsure(plan) == {"m1": False, "m2": False, "new-1": True, "new-2": True}
    assert [(move.partition, move.depends_on_id) for move in plan.moves] == [(2, True), (3, True)]
    assert plan.warnings[-1] == (
        "The result for 2 of 2 moves and for 2 of 4 members depends on the ids of new members, "
        "which are unknown."
    )


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_what_is_not_marked_comes_out_with_any_other_ids_too(strategy: str) -> None:
    """Random ids that were not tried give the rows without a mark, save for a rare one."""
    spec = what_if.add_members(pair_of(strategy, partitions=9), AddedMembers(3))
    plan = settled(spec, alone=True).first
    assert plan.assignment is not None
    sure = [member for member, depends in unsure(plan).items() if not depends]
    differing = set()
    for seed in range(1000, 1030):
        other = dry_run_as(spec, seed)
        assert other.assignment is not None
        assert {m: set(other.assignment[m]) for m in sure} == {
            m: set(plan.assignment[m]) for m in sure
        }
        differing |= {
            m
            for m, partitions in plan.assignment.items()
            if set(other.assignment[m]) != set(partitions)
        }
    assert differing == {member for member, depends in unsure(plan).items() if depends}


def test_known_ids_leave_nothing_unknown() -> None:
    plan = settled(what_if.remove_member(pair_of("sticky"), "m1")).first
    assert {move.depends_on_id for move in plan.moves} == {False}
    assert unsure(plan) == {"m2": False}


def test_rebalances_that_follow_are_marked_and_all_strategies_too() -> None:
    spec = what_if.add_members(pair_of("cooperative-sticky", partitions=8), AddedMembers(2))
    run = settled(spec)
    assert run.following
    assert unsure(run.following[0])["new-1"] is True
    assert all(unsure(each.first)["new-1"] is not None for each in compared(spec))


def test_very_large_groups_are_not_assigned_again() -> None:
    spec = what_if.add_members(pair_of("range", partitions=5_001), AddedMembers(2))
    plan = settled(spec).first
    assert set(unsure(plan).values()) == {None}
    assert {move.depends_on_id for move in plan.moves} == {None}
    assert (
        "above 5000 partitions or members, kgroup does not check which partitions depend"
        in plan.warnings[-1]
    )


def test_nor_are_groups_of_very_many_members() -> None:
    assert is_small(what_if.add_members(pair_of("range"), AddedMembers(4_998)))
    assert not is_small(what_if.add_members(pair_of("range"), AddedMembers(4_999)))


@pytest.mark.parametrize(("protocol", "strategy"), [("consumer", "range"), ("share", "simple")])
def test_nor_are_those_whose_coordinator_assigns_for_many_new_members(
    protocol: str, strategy: str
) -> None:
    spec = pair_of(strategy, protocol=protocol, partitions=500)
    assert is_small(what_if.add_members(spec, AddedMembers(200)))
    assert not is_small(what_if.add_members(spec, AddedMembers(201)))
    assert is_small(what_if.add_members(pair_of("range", partitions=500), AddedMembers(201)))


def test_very_many_new_members_are_not_marked_and_a_warning_says_so() -> None:
    spec = pair_of("simple", protocol="share", partitions=2_500)
    plan = settled(what_if.add_members(spec, AddedMembers(41))).first
    assert set(unsure(plan).values()) == {None}
    assert "for this many new members and partitions, kgroup does not" in plan.warnings[-1]


def test_many_members_join_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(spec: GroupSpec, *, warns: bool = True) -> AssignPlan:
        sizes.append(len(spec.members))
        return dry_run(spec, warns=warns)

    monkeypatch.setattr("kgroup.operation.assign.unknown_ids.dry_run", counted)
    spec = what_if.add_members(pair_of("sticky", partitions=200), AddedMembers(90))
    settled(spec, alone=True)
    steps = [*dict.fromkeys(size for size in sizes if size < 92)]
    assert (len(steps), steps[0], steps[-1]) == (19, 7, 88)


@pytest.mark.parametrize(
    ("protocol", "strategy"), [("classic", "cooperative-sticky"), ("share", "simple")]
)
def test_whether_a_group_is_assigned_again_changes_the_marks_only(
    protocol: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = what_if.add_members(pair_of(strategy, protocol=protocol), AddedMembers(20))
    marked = settled(spec).first
    monkeypatch.setattr("kgroup.operation.assign.unknown_ids.MOST_IDS", 21)
    unmarked = settled(spec).first
    assert None not in unsure(marked).values()
    assert set(unsure(unmarked).values()) == {None}
    assert unmarked.assignment == marked.assignment
    assert [move[:4] for move in unmarked.moves] == [move[:4] for move in marked.moves]
    assert (unmarked.kept, unmarked.balance) == (marked.kept, marked.balance)


def test_an_unknown_id_is_nowhere_in_a_plan() -> None:
    spec = what_if.lead(what_if.add_members(pair_of("sticky"), AddedMembers(9)), "new-2")
    plan = dry_run_as(spec, 3)
    assert re.search(UUID, repr(plan)) is None
    assert plan.leader_id == "new-2"
    assert plan.balance is not None
    assert len(plan.balance.idle_members) == 8
    assert len(set(random_ids(spec, 3).values())) == 9
    assert dry_run(spec).computed_as == plan.computed_as


def test_a_new_member_of_kafka_python_names_its_topics_in_any_order() -> None:
    """Its sticky assignor gives by that order; of a real group of 3.0.12 (`kim`, then `lee`)."""
    sizes = {"zoo": 3, "ant": 4, "Mole": 2}
    owned = [[topic, number] for topic, count in sizes.items() for number in range(count)]
    spec = read_spec(
        {
            "strategy": "sticky",
            "client": "kafka-python",
            "topics": {topic: {"partitions": count} for topic, count in sizes.items()},
            "members": [
                {"member_id": "kim-1", "topics": [*sizes], "owned": owned, "generation": 1}
            ],
        }
    )
    joined = what_if.add_members(spec, AddedMembers(client_id="lee"))
    assert unsure(settled(joined).first)["kim-1"] is True
    assert unsure(settled(replace(joined, client=None)).first)["kim-1"] is False


@pytest.mark.parametrize(
    ("protocol", "members", "added", "says"),
    [
        ("classic", 250, 0, "more than max.message.bytes of __consumer_offsets (1,048,588 by d"),
        ("classic", 90, 0, None),
        ("classic", 90, 20, "56% of max.message.bytes of __consumer_offsets (1,048,588 by defa"),
        ("classic", 90, 160, "more than max.message.bytes of __consumer_offsets (1,048,588 by d"),
        ("consumer", 250, 0, None),
    ],
)
def test_a_record_near_the_limit_of_brokers(
    protocol: str, members: int, added: int, says: str | None
) -> None:
    """A subscription to 100 topics with names of 50 characters has 5.2 kB."""
    names = [f"{'topic':_<47}{number:03}" for number in range(100)]
    spec = {
        "id": "big",
        "protocol": protocol,
        "strategy": "range",
        "topics": {name: {"partitions": 1} for name in names},
        "members": [{"member_id": f"m-{number:040}", "topics": names} for number in range(members)],
    }
    changes = Changes(add=(AddedMembers(added),)) if added else Changes()
    report = assign_specs(json.dumps(spec).encode(), "f", AssignRequest(changes=changes))
    notes = [note for note in report.notes if "max.message.bytes" in note]
    assert len(notes) == (says is not None)
    for note in notes:
        assert says is not None
        assert says in note


@pytest.mark.parametrize(
    ("members", "limit", "codec", "says"),
    [
        (150, None, "0", "of max.message.bytes of __consumer_offsets (1,048,588 by default)"),
        (150, "1048588", "0", "of max.message.bytes of __consumer_offsets (1,048,588): above"),
        (150, "1048588", None, "of max.message.bytes of __consumer_offsets (1,048,588): above"),
        (250, "1048588", None, "more than max.message.bytes of __consumer_offsets (1,048,588)"),
        (150, None, "1", None),
        (150, "1048588", "1", None),  # the compressed size is unknown
        (150, "8388608", "0", None),
        (250, "1048588", "0", "more than max.message.bytes of __consumer_offsets (1,048,588)"),
        (250, None, "0", None),  # accepted, so that the limit is not the default
    ],
)
def test_the_limit_of_records_is_that_of_the_cluster(
    members: int, limit: str | None, codec: str | None, says: str | None
) -> None:
    topics = tuple(f"{'t':_<48}{number:02}" for number in range(100))
    large = Group(
        "g",
        GroupType.CLASSIC,
        GroupState.STABLE,
        "consumer",
        "range",
        members=tuple(
            Member(f"wide-{number:040}", subscription=Subscription(topics), assignment=())
            for number in range(members)
        ),
    )
    cluster = FakeCluster(
        large,
        topics=dict.fromkeys(topics, 1),
        settings={1: {} if codec is None else {"offsets.topic.compression.codec": codec}},
        of_offsets_topic={} if limit is None else {"max.message.bytes": limit},
    )
    report = assign_group(cluster, "g", AssignRequest())
    notes = [note for note in report.notes if "max.message.bytes" in note]
    assert len(notes) == (says is not None)
    for note in notes:
        assert says is not None
        assert says in note
        may_compress = note.endswith(
            ", unless brokers compress it to less (offsets.topic.compression.codec is unknown)"
        )
        assert may_compress == (codec is None)


def test_new_members_of_a_consumer_group_may_vote_for_another_assignor() -> None:
    """One with another `group.remote.assignor` may decide; alone with it, it also wins a tie."""
    members = [{"member_id": name, "topics": ["t"]} for name in "abc"]
    topics = {"t": {"partitions": 2}}
    spec = read_spec({"protocol": "consumer", "topics": topics, "members": members})
    for votes, is_open in (
        ((None, None), True),
        (("uniform", None), True),
        (("uniform", "range"), True),
        (("uniform", "uniform", "range"), False),
        (("range", None), True),
        (("range", "range"), False),
    ):
        voting = replace(
            spec,
            strategy=preferred_assignor(Counter(votes)) or "uniform",
            has_votes=any(votes),
            members=tuple(
                replace(member, assignor=vote)
                for member, vote in zip(spec.members[: len(votes)], votes, strict=True)
            ),
        )
        joined = what_if.changed(voting, Changes(add=[AddedMembers()]))
        assert any("group.remote.assignor" in note for note in assumptions(joined)) == is_open
        assert not any(assumptions(voting))
        assert not any(assumptions(replace(joined, has_votes=None)))


def test_new_members_of_a_consumer_group_say_what_they_prefer() -> None:
    """The most votes win (`ConsumerGroup.computePreferredServerAssignor`)."""
    members = [{"member_id": name, "topics": ["t"]} for name in "ab"]
    spec = read_spec(
        {"protocol": "consumer", "topics": {"t": {"partitions": 5}}, "members": members}
    )
    for votes, count, wins in (
        (("uniform", "uniform"), 1, "uniform"),
        (("uniform", "uniform"), 3, "range"),
        (("uniform", None), 1, "range"),  # a new entry in the coordinator's table wins a tie
        (("range", None), 1, "range"),
    ):
        voting = replace(
            spec,
            strategy=preferred_assignor(Counter(votes)) or "",
            has_votes=True,
            members=tuple(
                replace(member, assignor=vote)
                for member, vote in zip(spec.members, votes, strict=True)
            ),
        )
        joined = what_if.changed(voting, Changes(add=[AddedMembers(count, strategies=("range",))]))
        assert joined.strategy == wins
        assert not any(assumptions(joined))
    unknown = replace(spec, strategy="uniform", has_votes=False)
    joined = what_if.changed(unknown, Changes(add=[AddedMembers(strategies=("range",))]))
    assert joined.strategy == "range"
    assert any("this source does not know" in text for text in dry_run(joined).warnings)
    sure = what_if.changed(unknown, Changes(add=[AddedMembers(strategies=("uniform",))]))
    assert not dry_run(sure).warnings
    for strategies in (("sticky",), ("range", "uniform")):
        with pytest.raises(UsageError, match="expected strategies=uniform or range"):
            what_if.add_members(spec, AddedMembers(strategies=strategies))


def voting_group(**votes: str | None) -> GroupSpec:
    """Return a consumer group whose members prefer these assignors."""
    members = [{"member_id": name, "topics": ["t"]} for name in votes]
    spec = read_spec(
        {"protocol": "consumer", "topics": {"t": {"partitions": 5}}, "members": members}
    )
    spec = replace(spec, has_votes=True, strategy=preferred_assignor(Counter(votes.values())) or "")
    named = (replace(member, assignor=votes[member.member_id]) for member in spec.members)
    return replace(spec, members=tuple(named))


def test_the_next_heartbeat_breaks_ties_of_votes() -> None:
    """The vote of the member that sends it is removed and added: alone with it, it comes first."""
    spec = voting_group(a="uniform", b="range", c="range", d=None)
    tie = what_if.changed(spec, Changes(remove=["c"]))
    assert any("the next heartbeat decides" in text for text in dry_run(tie).warnings)
    pairs = voting_group(a="uniform", b="range", c="range", d="uniform", e="uniform")
    for changes in (Changes(remove=["d"]), Changes(partitions=[("t", 7)])):
        assert not any("may change" in w for w in dry_run(what_if.changed(pairs, changes)).warnings)


def test_a_member_that_has_left_for_a_restart_does_not_vote() -> None:
    bounce = bounced(voting_group(a="range", b="range", c="uniform", d="uniform"))
    # Of two votes each, uniform is the first of the coordinator's table.
    assert [run.first.strategy for run in bounce.runs] == [
        *("uniform", "uniform"),
        *("uniform", "uniform"),
        *("range", "uniform"),
        *("range", "uniform"),
    ]
    unknown = replace(voting_group(a=None), strategy="uniform", has_votes=False)
    joined = what_if.changed(unknown, Changes(add=[AddedMembers(strategies=("range",))]))
    assert [(run.what_of_whom, run.first.strategy) for run in bounced(joined).runs] == [
        ("a leaves", "range"),
        ("a comes back", "range"),
        ("new-1 leaves", "uniform"),
        ("new-1 comes back", "range"),
    ]


def test_the_assignor_may_change_with_each_new_member() -> None:
    """The second of three is the first that ties the vote; the third wins it."""
    spec = voting_group(a="uniform", b="uniform")
    for count, wins in ((1, "uniform"), (2, "uniform"), (3, "range")):
        joined = what_if.changed(spec, Changes(add=[AddedMembers(count, strategies=("range",))]))
        assert joined.strategy == wins
        one_by_one = spec
        for _ in range(count):
            one_by_one = what_if.changed(
                one_by_one, Changes(add=[AddedMembers(strategies=("range",))])
            )
            plan = dry_run(one_by_one)
            one_by_one = after(one_by_one, plan)
        assert plan.assignment == dry_run(joined).assignment


def test_a_file_of_groups_does_not_say_which_assignor_other_members_prefer() -> None:
    spec = pair_of("uniform", protocol="consumer")
    spec = what_if.changed(spec, Changes(add=[AddedMembers(strategies=("range",))]))
    (warning,) = [text for text in dry_run(spec).warnings if "prefer range" in text]
    assert "Computed with uniform" in warning


def test_new_members_of_a_consumer_group_may_have_a_pattern() -> None:
    """Members with different patterns subscribe differently, even if the same topics match."""
    subscription = Subscription((), regex="t-.*")
    own = tuple(AssignedPartition(None, "t-1", at) for at in range(2))
    member = Member("a", subscription=subscription, assignment=own, target_assignment=own)
    group = Group("g", GroupType.CONSUMER, GroupState.STABLE, assignor="uniform", members=(member,))
    topics = {"t-1": 2, "t-12": 2, "u": 3}

    class Cluster(FakeCluster):
        def topic_names(self) -> list[str]:
            return sorted(topics)

    def joins(**added: Any) -> MemberSpec:
        request = AssignRequest(changes=Changes(add=[AddedMembers(**added)]))
        read = read_group(
            Cluster(group, topics=topics), "g", topics=request.changes.matching(lambda: topics)
        )
        return what_if.changed(read.data[0], request.changes).members[-1]

    assert (joins().regex, joins().topics) == ("t-.*", ("t-1",))
    assert (joins(regex="t-.*").matched, joins(topics=("t-1",)).regex) == (("t-1",), None)
    other = joins(regex="u|t-1{1}2", topics=("t-1",))
    assert (other.topics, other.matched) == (("t-1", "t-12", "u"), ("t-12", "u"))
    run = assign_group(
        Cluster(group, topics=topics),
        "g",
        AssignRequest(changes=Changes(add=[AddedMembers(regex="u")])),
    ).data[0]
    assert isinstance(run, Run)
    assert run.first.assignment is not None
    assert set(run.first.assignment["new-1"]) == {("u", 0), ("u", 1), ("u", 2)}
    unknown = Changes(add=[AddedMembers(regex="nothing")], partitions=[("nothing", 2)])
    assert joins(regex="nothing").topics == ()
    noted = assign_group(Cluster(group, topics=topics), "g", AssignRequest(changes=unknown))
    assert any("no known topic matches regex=nothing" in note for note in noted.notes)
    (with_counts,) = noted.data
    assert isinstance(with_counts, Run)
    assert with_counts.first.assignment is not None
    assert set(with_counts.first.assignment["new-1"]) == {("nothing", 0), ("nothing", 1)}
    with pytest.raises(UsageError, match=r"regex=: '\('"):
        joins(regex="(")
    with pytest.raises(UsageError, match="members of classic groups have no regex="):
        what_if.add_members(pair_of("range"), AddedMembers(regex="t"))
    with pytest.raises(UsageError, match="members of consumer groups have no library="):
        what_if.add_members(pair_of("range", protocol="consumer"), AddedMembers(library="java"))


def test_a_member_of_the_consumer_protocol_makes_a_classic_group_a_consumer_group() -> None:
    """Uniform: four partitions of three members, of which each keeps what it can."""
    owned = {"a": [("t", 0), ("t", 1)], "b": [("t", 2), ("t", 3)]}
    members = [
        {"member_id": name, "topics": ["t"], "owned": [*map(list, own)]}
        for name, own in owned.items()
    ]
    spec = read_spec({"strategy": "range", "topics": {"t": {"partitions": 4}}, "members": members})
    joined = what_if.changed(spec, Changes(add=[AddedMembers(protocol="consumer")]))
    assert (joined.protocol, joined.strategy, joined.leader) == ("consumer", "uniform", None)
    plan = settled(joined).last
    assert plan.assignment is not None
    assert sorted(map(len, plan.assignment.values())) == [1, 1, 2]
    assert all(set(plan.assignment[name]) <= set(own) for name, own in owned.items())
    assert not any("becomes a classic group" in warning for warning in plan.warnings)
    ranged = AddedMembers(2, protocol="consumer", strategies=("range",), regex="t.*")
    assert what_if.changed(spec, Changes(add=[ranged])).strategy == "range"
    for other, message in (
        (AddedMembers(protocol="classic"), "expected protocol=consumer, found classic"),
        (AddedMembers(protocol="consumer", library="java"), "consumer groups have no library="),
    ):
        with pytest.raises(UsageError, match=message):
            what_if.add_members(spec, other)


def test_a_consumer_group_without_its_own_members_becomes_a_classic_group() -> None:
    members = tuple(
        MemberSpec(name, ("t",), owned=(("t", at),), is_classic=name != "c")
        for at, name in enumerate("abc")
    )
    topics = {"t": TopicMetadata(3)}
    spec = GroupSpec("uniform", members, topics, protocol="consumer", topic_ids={"t": b"t" * 16})
    for gone, is_warned in (("c", True), ("b", False)):
        plan = settled(what_if.changed(spec, Changes(remove=[gone]))).first
        assert any("becomes a classic group" in text for text in plan.warnings) is is_warned
