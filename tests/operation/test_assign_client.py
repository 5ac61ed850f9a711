"""Whose assignor a dry run imitates, and how sure that is said to be."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor.base import Subscriber, TopicMetadata
from kgroup.assignor.client.java import versions_before_3_4
from kgroup.assignor.client.lesser_known import LESSER_KNOWN
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.strategy import as_sent, assign
from kgroup.errors import NotFoundError, UsageError
from kgroup.operation.assign.client import assumptions, fitting, software
from kgroup.operation.assign.dry_run import (
    AssignRequest,
    Bounce,
    Mode,
    assign_specs,
    bounced,
    settled,
)
from kgroup.operation.assign.outcome import after, dry_run
from kgroup.operation.assign.spec import SpecError, as_asked, read_spec, read_specs
from kgroup.operation.assign.what_if import (
    AddedMembers,
    Changes,
    changed,
    lead,
    leaves,
    set_partitions,
)
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from tests.assignor.case.notation import written

RECORDED = Path(__file__).parents[1] / "data" / "clients" / "live-members.jsonl.gz"
OLD = Software("kafka-clients", "1.1.1")
NEW = Software("kafka-clients", "4.3.1")
FRANZ_GO = Software("franz-go", "1.22.0")


def member(name: str, client: Software | None, **more: Any) -> MemberSpec:
    return MemberSpec(name, ("t",), client=client, **more)


def group(*members: MemberSpec, **more: Any) -> GroupSpec:
    return GroupSpec("sticky", members, {"t": TopicMetadata(2)}, **more)


@pytest.mark.parametrize(
    ("clients", "leader_id", "expected"),
    [
        ((OLD, NEW), "0", OLD),
        ((OLD, NEW), "1", NEW),
        ((OLD, OLD), None, OLD),
        ((OLD, None), None, OLD),
        ((OLD, None), "1", OLD),  # of which nothing is known but what the others are
        ((OLD, NEW), None, NEW),
        ((None, None), None, NEW),
    ],
)
def test_the_library_of_the_leader_is_imitated(
    clients: tuple[Software | None, ...], leader_id: str | None, expected: Software
) -> None:
    members = (member(str(at), client) for at, client in enumerate(clients))
    spec = group(*members, leader_id=leader_id)
    assert dry_run(spec).computed_as == str(expected)
    assert dry_run(replace(spec, client=OLD)).computed_as == str(OLD)  # if that is asked for


def test_each_member_writes_as_its_own_library() -> None:
    """Version 1.1.1 names no generation, so that it is believed less than one that does."""
    both = (("t", 0), ("t", 1))
    first = member("a", NEW, owned=both, generation=3)
    later = member("b", NEW, owned=both, generation=7)

    def owner(*members: MemberSpec) -> str | None:
        plan = dry_run(group(*members, client=NEW))
        assert plan.assignment is not None
        return next(name for name, partitions in plan.assignment.items() if ("t", 0) in partitions)

    assert owner(first, later) == "b"
    assert owner(first, replace(later, client=OLD)) == "a"


def warned(*members: MemberSpec, **more: Any) -> tuple[str, ...]:
    return dry_run(group(*members, **more)).warnings


def test_a_known_leader_needs_no_warning() -> None:
    assert warned(member("a", NEW), member("b", None), leader_id="a") == ()
    assert warned(member("a", NEW), member("b", NEW)) == ()
    assert warned(member("a", None), client=NEW) == ()


def in_between(**of_leader: Any) -> GroupSpec:
    """Return a group that kafka-python assigns differently.

    It gives nothing to those before a static member that stands between others.
    """
    members = (
        member("a", None, **of_leader),
        member("b", None, instance_id="y"),
        member("c", None),
    )
    topics = {"t": TopicMetadata(3)}
    return replace(group(*members), strategy="range", leader_id="a", topics=topics)


def test_it_is_said_if_a_member_may_have_the_library_of_another_one() -> None:
    """Java's leader does not read what kafka-python's members say that they own.

    Recorded: a member of kafka-python that joined last sends no such data yet, as Java's before
    2.4 does, and had no partition of those it owned in the next rebalance.
    """
    python = Software("kafka-python", "3.0.12")
    old = {"generation": 3, "may_be": frozenset({"kafka-clients", "kafka-python"})}
    leads = member("a", NEW, owned=(("t", 0),), generation=3)
    unknown = member("c", None, owned=(("t", 1),), **old)
    new = member("b", NEW, unknown_id=True)
    (text,) = warned(leads, unknown, member("d", python), new, leader_id="a")
    assert text == (
        "The actual assignment may be different: the client library of c is unknown, and may be "
        "kafka-python."
    )
    assert warned(leads, unknown, member("d", NEW), new, leader_id="a") == (text,)
    other = replace(unknown, may_be=frozenset({"kafka-clients", "franz-go"}))
    assert warned(leads, other, member("d", python), new, leader_id="a") == ()
    known = replace(unknown, client=NEW)
    assert warned(leads, known, member("d", python), new, leader_id="a") == ()
    likely = replace(unknown, client=python, is_client_inferred=True)
    assert warned(leads, likely, new, leader_id="a") == (
        text.replace("kafka-python", "kafka-clients 4.3.1"),
    )
    of_python = member("a", Software("kafka-python", "2.2.21"), owned=(("t", 0),), generation=3)
    assert warned(of_python, unknown, new, leader_id="a") == (), "members are like their leader"


def test_a_leader_that_is_known_by_signs_only_is_named_if_that_matters() -> None:
    may_be = frozenset({"kafka-clients", "kafka-python"})
    (text,) = dry_run(in_between(may_be=may_be)).warnings
    assert text == (
        "The client library of the leader is unknown. Computed as kafka-clients 4.3.1; "
        "kafka-python would assign differently; --client LIBRARY chooses one."
    )
    spec = in_between(may_be=may_be)
    likely = replace(spec.members[0], client=NEW, is_client_inferred=True)
    (text,) = dry_run(replace(spec, members=(likely, *spec.members[1:]))).warnings
    assert text == (
        "The leader probably uses kafka-clients; kafka-python would assign differently; "
        "--client LIBRARY chooses one."
    )
    # two partitions for two members, which no library divides otherwise
    assert warned(member("a", NEW, is_client_inferred=True), member("b", NEW), leader_id="a") == ()
    assert warned(member("a", NEW), member("b", None)) == ()


@pytest.mark.parametrize(
    ("may_be", "leads", "expected"),
    [
        ({"kafka-clients", "franz-go"}, "kafka-clients 4.3.1", None),
        ({"franz-go"}, "franz-go 1.22.0", None),
        (
            {"franz-go", "kafka-python"},
            "franz-go 1.22.0",
            "kafka-python would assign differently; --client LIBRARY chooses one.",
        ),
        ({"sarama", "aiokafka"}, "sarama 1.61.1", None),  # both ignore instance ids
        ({"kafka-clients", "kafka-node"}, "kafka-clients 4.3.1", None),  # whose range is Java's
        ({"kafka-node"}, "kafka-clients 4.3.1", None),
        ({"kafka-clients", "ruby-kafka"}, "kafka-clients 4.3.1", None),  # a note
        (
            {"franz-go", "kafka-python", "ruby-kafka"},
            "franz-go 1.22.0",
            "kafka-python would assign differently; --client LIBRARY chooses one; it may use "
            "ruby-kafka, which is not imitated.",
        ),
    ],
)
def test_only_libraries_that_the_leaders_bytes_allow_are_named(
    may_be: set[str], leads: str, expected: str | None
) -> None:
    spec = in_between(may_be=frozenset(may_be))
    plan = dry_run(spec)
    assert plan.computed_as == leads
    warning = f"The client library of the leader is unknown. Computed as {leads}; {expected}"
    assert plan.warnings == (() if expected is None else (warning,))
    notes = [text for text in assumptions(spec) if "taken not to use ruby-kafka" in text]
    assert len(notes) == (may_be == {"kafka-clients", "ruby-kafka"})


def test_a_leader_that_may_assign_at_random_is_named() -> None:
    """Sarama deals free partitions in the order of a Go map, at times as Java's assignors do."""
    may_be = frozenset({"kafka-clients", "sarama"})
    alike = 0
    for free in combinations(range(6), 2):
        kept = [("t", number) for number in range(6) if number not in free]
        members = tuple(
            MemberSpec(name, ("t",), owned=tuple(owned), generation=1, may_be=may_be)
            for name, owned in (("a", kept[:2]), ("b", kept[2:]))
        )
        spec = GroupSpec("cooperative-sticky", members, {"t": TopicMetadata(6)}, leader_id="a")
        plan = dry_run(spec)
        assert any("sarama would assign differently" in text for text in plan.warnings)
        of_sarama = dry_run(replace(spec, client=software("sarama")))
        alike += of_sarama.assignment == plan.assignment
    assert alike > 0


def test_the_library_of_a_leader_that_left_is_used_again() -> None:
    """Go's libraries give the last of two members the longer run of three partitions."""
    go, java = software("kafka-go"), frozenset({"kafka-clients", "kafka-go"})
    left = member("l", go)
    spec = group(left, member("a", None, may_be=java), member("b", None), leader_id="l")
    spec = replace(spec, strategy="range", topics={"t": TopicMetadata(3)})
    plan = dry_run(leaves(spec, left))
    assert (plan.computed_as, plan.assignment) == (str(go), GO_RUNS)
    assert plan.warnings == (
        "The new leader probably uses kafka-go, like the one before; kafka-clients, librdkafka, "
        "franz-go, sarama and kafka-python would assign differently; --client LIBRARY chooses one.",
    )
    by_assignments = replace(spec, members=spec.members[1:], leader_id=None, leader_client=go)
    assert dry_run(by_assignments).warnings == (), "the leader is unknown, but not its library"
    ruled_out = member("a", None, may_be=frozenset({"kafka-clients"}))
    plan = dry_run(replace(leaves(spec, left), members=(ruled_out,)))
    assert plan.computed_as == str(NEW)


def test_the_first_member_of_the_coordinator_leads_when_the_leader_has_left() -> None:
    members = (member("a", None), member("b", NEW), member("l", OLD))
    spec = group(*members, leader_id="l", member_order=("l", "b", "a"))
    assert leaves(spec, members[2]).leader_id == "b"
    assert leaves(spec, members[0]).leader_id == "l"
    new = member("new-1", None, unknown_id=True)
    assert leaves(replace(spec, members=(*members, new)), members[2]).leader_id is None
    assert leaves(replace(spec, member_order=()), members[2]).leader_id is None
    for order in (("joining", "l", "b", "a"), ("l", "a")):  # a rebalance has begun
        assert leaves(replace(spec, member_order=order), members[2]).leader_id is None


@pytest.mark.parametrize(
    ("changes", "leader_id"),
    [
        (Changes(remove=("l",)), "b"),
        (Changes(remove=("l", "b")), "a"),
        (Changes(remove=("a",), restart=("b",)), "l"),
        # Recorded: a member that joined before the leader was removed led the group.
        (Changes(restart=("l",)), None),
        (Changes(remove=("l",), add=(AddedMembers(),)), None),
    ],
)
def test_who_leads_is_unknown_if_a_new_member_may(changes: Changes, leader_id: str | None) -> None:
    members = (member("a", NEW), member("b", NEW), member("l", NEW))
    spec = group(*members, leader_id="l", member_order=("l", "b", "a"))
    assert changed(spec, changes).leader_id == leader_id


def test_the_only_member_that_is_left_leads() -> None:
    spec = lead(group(member("a", None), member("b", None, unknown_id=True)), "a")
    assert leaves(spec, spec.members[0]).leader_id == "b"
    assert leaves(spec, spec.members[1]).leader_id == "a"
    assert leaves(replace(spec, member_order=("c", "a")), spec.members[0]).leader_id is None


def test_a_group_of_one_library_needs_no_warning_when_its_leader_has_left() -> None:
    go = software("kafka-go")
    possible = frozenset({"kafka-clients", "kafka-go"})
    left = member("l", go, may_be=frozenset({"kafka-go"}))
    others = (member("a", None, may_be=possible), member("b", None, may_be=possible))
    spec = group(left, *others, leader_id="l", member_order=("l", "a", "b"))
    spec = replace(spec, strategy="range", topics={"t": TopicMetadata(3)})
    plan = dry_run(leaves(spec, left))
    assert (plan.computed_as, plan.assignment, plan.warnings) == (str(go), GO_RUNS, ())
    (note,) = assumptions(leaves(spec, left))
    assert note.startswith("the other members are taken to use kafka-go,")
    assert [*assumptions(spec)] == []
    likely = replace(left, is_client_inferred=True)
    assert [*assumptions(leaves(replace(spec, members=(likely, *others)), likely))] == []
    (warning,) = dry_run(leaves(replace(spec, members=(likely, *others)), likely)).warnings
    assert warning.startswith("The new leader probably uses kafka-go, like the one before;")
    java = replace(others[1], may_be=frozenset({"kafka-clients"}))
    assert dry_run(leaves(replace(spec, members=(left, others[0], java)), left)).warnings != ()


def test_a_vote_that_no_request_shows_is_stated() -> None:
    java = software("kafka-clients")
    spec = group(member("a", java), member("b", java), member("c", java), has_votes=False)
    spec = replace(spec, strategy="sticky", topics={"t": TopicMetadata(3)})
    (note,) = assumptions(changed(spec, Changes(remove=["a"])))
    assert note.startswith("the strategy is taken to stay sticky: members vote")
    (note,) = assumptions(changed(spec, Changes(add=[AddedMembers()])))
    assert note.startswith("the strategy is taken to stay sticky, and new members to list what")
    assert [*assumptions(spec)] == []
    asked = replace(spec, has_votes=None)
    assert [*assumptions(changed(asked, Changes(remove=["a"])))] == []
    ranged = changed(replace(spec, strategy="range"), Changes(remove=["a"]))
    (warning,) = dry_run(ranged).warnings
    assert warning.startswith("The strategy may change")
    assert [*assumptions(ranged)] == []


def dealt(*ids: str) -> dict[str, list[tuple[str, int]]]:
    """Return three partitions of t and two of u, dealt in turn."""
    dealt: dict[str, list[tuple[str, int]]] = {name: [] for name in ids}
    for at, partition in enumerate([("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1)]):
        dealt[ids[at % len(ids)]].append(partition)
    return dealt


@pytest.mark.parametrize(
    ("owned", "possible"),
    [
        (dealt("a", "b", "c"), {"kafka-node", "sarama"}),  # by id
        (dealt("c", "a", "b"), {"kafka-node", "sarama", "ruby-kafka"}),  # by ruby-kafka
        (dealt("b", "a", "c"), {"kafka-node", "sarama", "ruby-kafka"}),  # by no known leader
    ],
)
def test_a_leader_assigns_as_before(
    owned: dict[str, list[tuple[str, int]]], possible: set[str]
) -> None:
    all_three = frozenset({"kafka-node", "sarama", "ruby-kafka"})
    members = [
        MemberSpec(name, ("t", "u"), owned=tuple(own), may_be=all_three)
        for name, own in sorted(owned.items())
    ]
    topics = {"t": TopicMetadata(3), "u": TopicMetadata(2)}
    spec = GroupSpec("roundrobin", tuple(members), topics, leader_id="b")
    spec = fitting(replace(spec, member_order=("c", "a", "b")))
    assert spec.leader is not None
    assert spec.leader.may_be == frozenset(possible)
    assert [m.may_be for m in spec.members if m is not spec.leader] == [all_three, all_three]


def test_members_of_other_libraries_are_no_warning_where_the_leader_is_known() -> None:
    sarama = member("b", Software("sarama", "1.61.1"))
    assert warned(member("a", NEW), sarama, leader_id="a") == ()


@pytest.mark.parametrize(
    ("library", "changes", "warning"),
    [
        ("kafkajs", Changes(add_topics=[("new", 2)]), "No rebalance follows"),
        ("@platformatic/kafka", Changes(partitions=[("t", 4)]), "No rebalance follows"),
        ("kafka-python", Changes(drop_topics=["t"]), "No rebalance may follow"),
        (
            "kafkajs",
            Changes(add_topics=[("new", 2)], subscribe=[("b", ["t"])]),
            "No rebalance may follow",
        ),
        (
            "@platformatic/kafka",
            Changes(partitions=[("t", 4)], add_topics=[("new", 2)]),
            "No rebalance may follow",
        ),
        (
            "kafka-python",
            Changes(drop_topics=["t"], subscribe=[("b", ["u"])]),
            "The actual assignment may be different: members of kafka-python may not join again",
        ),
        (
            "kafkajs",
            Changes(add_topics=[("new", 2)], drop_topics=["t"]),
            "The group's leader fails with KafkaJSProtocolError",
        ),
    ],
)
def test_no_rebalance_is_foretold_only_if_nothing_else_causes_one(
    library: str, changes: Changes, warning: str
) -> None:
    client = software(library)
    members = [
        MemberSpec(name, ("t", "u"), client=client, owned=(("t", at), ("u", at)))
        for at, name in enumerate("ab")
    ]
    topics = {"t": TopicMetadata(2), "u": TopicMetadata(2)}
    strategy = "RoundRobinAssigner" if library == "kafkajs" else "roundrobin"
    spec = GroupSpec(strategy, tuple(members), topics, leader_id="a", has_votes=False)
    plan = dry_run(changed(spec, changes))
    assert [text for text in plan.warnings if text.startswith(warning)]
    keeps = {member.member_id: member.owned for member in members}
    assert (plan.assignment == keeps) == (warning == "No rebalance follows")


@pytest.mark.parametrize(
    ("may_be", "has_one_timeout", "keeps"),
    [
        ({"aiokafka"}, None, True),
        ({"aiokafka", "kafka-python"}, True, True),
        ({"aiokafka", "kafka-python"}, False, False),
        ({"aiokafka", "kafka-python"}, None, False),
        ({"kafka-python"}, True, False),
    ],
)
def test_a_leader_of_aiokafka_keeps_a_deleted_topic_and_one_of_kafka_python_may(
    may_be: set[str], has_one_timeout: bool | None, keeps: bool
) -> None:
    """Recorded: a commit of aiokafka has no timeout, that of kafka-python has that of poll()."""
    leader = MemberSpec(
        "a",
        ("t", "u"),
        client=software("kafka-python"),
        owned=(("t", 0), ("u", 0)),
        may_be=frozenset(may_be),
        has_one_timeout=has_one_timeout,
    )
    topics = {"t": TopicMetadata(1), "u": TopicMetadata(1)}
    spec = GroupSpec("range", (leader,), topics, leader_id="a", has_votes=False)
    plan = dry_run(changed(spec, Changes(drop_topics=["t"])))
    assert plan.assignment == {"a": leader.owned if keeps else (("u", 0),)}
    (warning,) = (text for text in plan.warnings if text.startswith("No rebalance"))
    begin = "No rebalance follows: members of aiokafka"
    assert warning.startswith(begin if keeps else "No rebalance may follow: members of kafka-pyth")


@pytest.mark.parametrize(
    ("leads", "library", "owned", "warning"),
    [
        ("kafka-python", "kafka-python", "u", "members of kafka-python may not be able to join"),
        ("kafka-clients", "kafka-python", "u", "members of kafka-python may not be able to join"),
        ("kafka-clients", "kafka-python", "t", None),
        ("kafka-clients", "sarama", "t", "members of sarama may not be able to join"),
        ("kafka-clients", "sarama", None, "new members of sarama do not join"),
        ("kafka-clients", "librdkafka", "u", None),
        ("franz-go", "kafka-go", "t", "members of kafka-go with WatchPartitionChanges"),
        ("franz-go", "kafka-go", None, "members of kafka-go with WatchPartitionChanges"),
        ("franz-go", "franz-go", "t", None),
    ],
)
def test_members_may_not_join_while_a_topic_of_theirs_does_not_exist(
    leads: str, library: str, owned: str | None, warning: str | None
) -> None:
    """Recorded; only members of kafka-python that own a deleted topic fail, as they commit."""
    claims = None if owned is None else ((owned, 1),)
    a = MemberSpec("a", ("t", "u"), client=software(leads), owned=(("t", 0),))
    b = MemberSpec("b", ("t", "u"), client=software(library), owned=claims)
    topics = {"t": TopicMetadata(2), "u": TopicMetadata(2)}
    spec = GroupSpec("range", (a, b), topics, leader_id="a", has_votes=False)
    plan = dry_run(changed(spec, Changes(drop_topics=["u"])))
    found = [text for text in plan.warnings if "join" in text and "does not exist" in text]
    assert [text for text in found if (warning or "") in text] == found
    assert bool(found) == (warning is not None)
    assert not any(text.startswith("No rebalance follows") for text in plan.warnings)


def test_a_rebalance_may_follow_if_the_leader_may_be_of_another_library() -> None:
    go = software("@platformatic/kafka")
    may_be = frozenset({"@platformatic/kafka", "sarama"})
    leader = member("a", None, may_be=may_be, owned=(("t", 0),))
    other = member("b", go, owned=(("t", 1),))
    spec = replace(group(leader, other, leader_id="a", has_votes=False), strategy="roundrobin")
    plan = dry_run(set_partitions(spec, "t", 4))
    assert plan.computed_as == str(go)
    assert any(text.startswith("No rebalance may follow") for text in plan.warnings)


@pytest.mark.parametrize("other", ["sarama", "kafka-clients"])
def test_a_leader_that_may_be_of_sarama_may_not_keep_deleted_topics(other: str) -> None:
    """Sarama still sent such bytes of sticky when Java and librdkafka had stopped."""
    leader = member("a", None, may_be=frozenset({"kafka-python", other}), owned=(("t", 0),))
    known = member("b", software("kafka-python"), owned=(("t", 1),))
    spec = group(leader, known, leader_id="a", has_votes=False)
    plan = dry_run(changed(spec, Changes(drop_topics=["t"])))
    assert any(text.startswith("No rebalance may follow") for text in plan.warnings)
    assert any("the leader may use sarama" in text for text in plan.warnings) == (other == "sarama")


def test_a_deleted_topic_stays_known_if_only_the_member_that_leaves_owned_it() -> None:
    """Recorded: franz-go's next leader did not notice the deletion, and assigned the topic."""
    members = [
        MemberSpec(name, ("gone", "t"), client=FRANZ_GO, owned=owned)
        for name, owned in (("a", (("gone", 0), ("t", 0))), ("b", (("t", 1),)), ("c", ()))
    ]
    spec = GroupSpec(
        "range", tuple(members), {"t": TopicMetadata(2)}, leader_id="a", member_order=("b", "c")
    )
    plan = dry_run(changed(spec, Changes(remove=["a"])))
    assert plan.leader_id == "b"
    assert plan.assignment == {"b": (("gone", 0), ("t", 0)), "c": (("t", 1),)}


def test_a_static_member_of_franz_go_that_restarts_forgets_deleted_topics() -> None:
    """Recorded: a leader restarted, and the group gave up the partitions."""
    members = [
        MemberSpec(name, ("t",), client=FRANZ_GO, owned=(("gone", at), ("t", at)), instance_id=name)
        for at, name in enumerate("ab")
    ]
    spec = GroupSpec("range", tuple(members), {"t": TopicMetadata(2)}, leader_id="a")
    warning = "members of franz-go that restart no longer know deleted topics (gone)"
    restarted = dry_run(changed(spec, Changes(restart=["a"])))
    assert any(warning in text for text in restarted.warnings)
    removed = dry_run(changed(spec, Changes(remove=["b"])))
    assert not any(warning in text for text in removed.warnings)


def test_members_of_franz_go_that_all_restart_give_up_deleted_topics() -> None:
    """Recorded: after a rolling restart, nobody owned the deleted topic."""
    members = [
        MemberSpec(name, ("gone", "t"), client=FRANZ_GO, owned=(("gone", at), ("t", at)))
        for at, name in enumerate("abc")
    ]
    spec = GroupSpec("range", tuple(members), {"t": TopicMetadata(3)}, leader_id="a")
    runs = bounced(spec).runs
    may_forget = "members of franz-go that restart no longer know deleted topics (gone)"
    one_is_back, all_are_back = runs[1].last, runs[-1].last
    assert any(may_forget in text for text in one_is_back.warnings)
    assert not any(may_forget in text for text in all_are_back.warnings)
    assert all_are_back.assignment is not None
    owned = sorted(at for own in all_are_back.assignment.values() for at in own)
    assert owned == [("t", 0), ("t", 1), ("t", 2)]


def test_no_assignor_runs_where_no_rebalance_follows() -> None:
    """The leader of KafkaJS fails if a topic of its own is gone, but it does not assign."""
    client = software("kafkajs")
    members = [
        MemberSpec(name, ("t", "gone"), client=client, owned=(("t", at),))
        for at, name in enumerate("ab")
    ]
    spec = GroupSpec(
        "RoundRobinAssigner",
        tuple(members),
        {"t": TopicMetadata(2)},
        leader_id="a",
        has_votes=False,
    )
    plan = dry_run(changed(spec, Changes(add_topics=[("new", 2)])))
    assert plan.assignment == {member.member_id: member.owned for member in members}


def test_racks_that_may_count_are_told() -> None:
    """By `rangeBalancer.Balance` of franz-go 1.21.2: who is in the rack of a partition gets it."""
    members = (member("a", FRANZ_GO, rack="a"), member("b", FRANZ_GO, rack="b"))
    topics = {"t": TopicMetadata(2, leader_racks=("b", "a"))}
    spec = GroupSpec("range", members, topics, leader_id="a")
    plan = dry_run(spec)
    assert plan.assignment == {"a": (("t", 0),), "b": (("t", 1),)}
    (text,) = plan.warnings
    assert "racks count if the leader uses franz-go 1.21.0, or a later version" in text
    assert text.endswith("--client franz-go@1.21.0 takes racks into account.")
    by_rack = dry_run(replace(spec, client=software("franz-go@1.21.2")))
    assert by_rack.assignment == {"a": (("t", 1),), "b": (("t", 0),)}
    assert by_rack.warnings == ()
    assert dry_run(replace(spec, strategy="roundrobin")).warnings == ()
    assert dry_run(replace(spec, topics={"t": TopicMetadata(2)})).warnings == ()
    assert dry_run(replace(spec, client=software("franz-go@1.20"))).warnings == ()


@pytest.mark.parametrize(
    ("client", "strategy", "goes_by_racks"),
    [
        ("kafka-go", "rack-affinity", True),
        ("kafka-go", "range", False),
        ("franz-go@1.21", "range", True),
        ("franz-go@1.21", "cooperative-sticky", True),
        ("franz-go@1.21", "roundrobin", False),
        ("franz-go@1.18", "range", False),
        ("java", "range", False),  # goes by those of replicas
    ],
)
def test_partitions_whose_leaders_are_in_no_known_rack_are_told(
    client: str, strategy: str, goes_by_racks: bool
) -> None:
    """Which strategies go by them: docs/assign.md, after the sources of both libraries."""
    members = tuple(member(name, None, rack=name) for name in "ab")
    known = TopicMetadata(2, leader_racks=("b", "a"))
    imitated = software(client)
    spec = GroupSpec(strategy, members, {"t": known, "u": TopicMetadata(9)}, client=imitated)
    assert dry_run(spec).warnings == ()
    grown = replace(set_partitions(spec, "t", 3), grown_topics={})
    unknown = replace(spec, topics={"t": TopicMetadata(2)})
    for each, named in (grown, "t-2"), (unknown, "t-0, t-1"):
        assert dry_run(each).warnings == goes_by_racks * (
            f"{strategy} of {imitated.name} uses the racks of partition leaders, which are unknown "
            f"for {named}: these count as in no rack. Give them with leader_racks in a spec.",
        )
    without = replace(grown, members=tuple(replace(each, rack=None) for each in members))
    assert not any("uses the racks" in warning for warning in dry_run(without).warnings)


@pytest.mark.parametrize(
    ("client", "strategy", "others", "grows", "cause"),
    [
        ("kafkajs", "RoundRobinAssigner", "u", False, "the leader is unknown (name it with --lead"),
        ("kafkajs", "RoundRobinAssigner", "tu", True, "the order in which brokers will list new "),
        (
            "kafkajs",
            "RoundRobinAssigner",
            "u",
            True,
            "the leader is unknown (name it with --leader ID), and so is the order in which",
        ),
        ("kafka-go", "range", "tu", True, "the order in which brokers will list new "),
        (
            "franz-go@1.21",
            "range",
            "u",
            False,
            "the leader is unknown (name it with --leader ID) (",
        ),
        ("sarama", "sticky", "tu", False, "the result may be random (docs/assign.md, sarama)."),
    ],
)
def test_why_an_answer_is_not_determined_is_told(
    client: str, strategy: str, others: str, grows: bool, cause: str
) -> None:
    """The causes are those that docs/assign.md has for each library."""
    topic = {"partitions": 2, "listed": [1, 0], "leader_racks": ["r", "s"]}
    spec = read_spec(
        {
            "client": client,
            "strategy": strategy,
            "topics": {"t": topic, "u": topic},
            "members": [
                {"member_id": name, "topics": list(topics), "rack": "r"}
                for name, topics in (("a", "tu"), ("b", others))
            ],
        }
    )
    warnings = dry_run(set_partitions(spec, "t", 3) if grows else spec).warnings
    (found,) = (text for text in warnings if "does not determine what" in text)
    assert found.partition(" assigns, because ")[2].startswith(cause)


def spec_line(**fields: Any) -> bytes:
    members = [{"member_id": "a", "topics": ["t"]}]
    return json.dumps({"topics": {"t": {"partitions": 1}}, "members": members, **fields}).encode()


def test_specs_name_the_library_of_the_group_and_of_members() -> None:
    fields = {"topics": {"t": {"partitions": 1}}, "client": "kafka-clients@1.1.1"}
    members = [{"member_id": "a", "topics": ["t"], "client": "java"}]
    spec = read_spec({**fields, "members": members})
    assert (spec.client, spec.members[0].client) == (OLD, NEW)
    assert dry_run(spec).warnings == ()
    with pytest.raises(SpecError, match="client: only in classic groups, and in place of kafka_v"):
        read_spec({**fields, "members": members, "kafka_version": "1.1.1"})
    with pytest.raises(SpecError, match="client: only in classic groups"):
        read_spec({**fields, "members": members, "protocol": "consumer"})
    members[0]["client"] = "kafka-client"
    with pytest.raises(SpecError, match=r"members\[0\].client: expected one of kafka-clients"):
        read_spec({**fields, "members": members})
    (error,) = read_specs(spec_line(client="zarama"), "f").errors
    assert error.reason.endswith("found 'zarama'; did you mean 'sarama'?")


GO_RUNS = {"a": (("t", 0),), "b": (("t", 1), ("t", 2))}
"""By `RangeGroupBalancer` of kafka-go, which rounds limits down; Java's gives a the longer run."""
JAVA_RUNS = {"a": (("t", 0), ("t", 1)), "b": (("t", 2),)}


def of_libraries(*clients: str | None, **more: Any) -> GroupSpec:
    members = [
        {"member_id": name, "topics": ["t"], "client": client}
        for name, client in zip("ab", clients, strict=True)
    ]
    return read_spec({"topics": {"t": {"partitions": 3}}, "members": members, **more})


@pytest.mark.parametrize("other", ["kafka-python", "kafka-python@2.3.3", "java", "franz-go"])
def test_a_sticky_leader_of_sarama_fails_with_user_data_of_kafka_python(other: str) -> None:
    """Asked of `NewBalanceStrategySticky().Plan`, with what members send first and then."""
    spec = lead(replace(of_libraries("sarama", other), strategy="sticky"), "a")
    joined = [replace(each, owned=(("t", at),)) for at, each in enumerate(spec.members)]
    is_python = other.startswith("kafka-python")
    assert (dry_run(spec).assignment is None) == is_python
    again = dry_run(replace(spec, members=tuple(joined)))
    assert (again.assignment is None) == (other == "kafka-python")


@pytest.mark.parametrize(
    ("leads", "fails"),
    [
        ("java", True),
        ("java@2.8.2", True),
        ("java@2.3.1", False),
        ("kafka-python", True),
        ("kafka-python@2.3.3", False),
        ("sarama", False),
        ("franz-go", False),
    ],
)
def test_some_leaders_fail_with_the_short_subscriptions_of_kafka_go(
    leads: str, *, fails: bool
) -> None:
    """Recorded with real leaders, except Java's 2.3, which reads no owned partitions."""
    plan = dry_run(lead(of_libraries(leads, "kafka-go"), "a"))
    assert (plan.assignment is None) == fails
    if not fails:
        assert plan.assignment is not None
        assert all(plan.assignment.values())


def test_a_leader_of_librdkafka_ignores_members_of_kafka_go() -> None:
    """Recorded with 2.16 and 2.6: the group is stable, and the member got empty bytes."""
    plan = dry_run(lead(of_libraries("librdkafka", "kafka-go"), "a"))
    assert plan.assignment == {"a": (("t", 0), ("t", 1), ("t", 2)), "b": ()}
    assert any("cannot read the subscriptions of b," in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("topics", "client", "warns"),
    [(["t", "gone"], None, True), (["t"], None, False), (["t", "gone"], "kafka-go@0.4.51", False)],
)
def test_older_versions_of_kafka_go_assign_although_a_topic_is_missing(
    topics: list[str], client: str | None, warns: bool
) -> None:
    members = [{"member_id": name, "topics": topics, "client": "kafka-go"} for name in "ab"]
    more = {} if client is None else {"client": client}
    plan = dry_run(read_spec({"topics": {"t": {"partitions": 3}}, "members": members, **more}))
    assert any("kafka-go before 0.4.36" in warning for warning in plan.warnings) == warns


def test_the_library_of_a_specs_leader_assigns() -> None:
    spec = of_libraries("kafka-go", "java")
    of_go, of_java = (dry_run(lead(spec, name)) for name in "ab")
    assert (of_go.computed_as, of_go.assignment) == ("kafka-go 0.4.51", None)
    assert of_go.error is not None
    assert of_go.error.type == "wrapError"  # Java's subscription goes on behind the user data
    assert (of_java.computed_as, of_java.assignment) == (str(NEW), None)
    assert of_java.error is not None
    assert of_java.error.type == "SchemaException"  # kafka-go's is too short for its version
    of_others = of_libraries("kafka-go", "sarama")
    assert "The client library of the leader is unknown" in dry_run(of_others).warnings[0]


def test_the_library_of_all_members_of_a_spec_assigns() -> None:
    plan = dry_run(of_libraries("kafka-go", "kafka-go"))
    assert (plan.computed_as, plan.assignment, plan.warnings) == ("kafka-go 0.4.51", GO_RUNS, ())
    kafkajs = of_libraries("kafkajs@1.12", "kafkajs@1.12")
    assert (kafkajs.strategy, dry_run(kafkajs).computed_as) == (
        "RoundRobinAssigner",
        "kafkajs 1.12.0",
    )
    assert dry_run(of_libraries(None, None)).warnings == ()


def test_a_group_and_its_leader_of_different_libraries_are_told() -> None:
    spec = lead(of_libraries("kafka-go", "kafka-go", client="java@2.3.1"), "a")
    plan = dry_run(spec)
    old = "kafka-clients 2.3.1"
    assert (plan.computed_as, plan.assignment) == (old, JAVA_RUNS)
    assert plan.warnings == (f"The leader uses kafka-go; computed as {old}, as requested.",)
    spec = lead(of_libraries("sarama@1.30", "sarama", client="sarama"), "a")
    assert dry_run(spec).warnings[0].startswith("The leader uses sarama 1.30.0; computed as sara")
    # where a member names no version, the group may
    assert dry_run(lead(replace(spec, client=software("sarama@1.47")), "b")).warnings == ()


def test_a_leader_without_the_strategy_is_refused() -> None:
    spec = of_libraries("kafkajs", "java")
    with pytest.raises(UsageError, match=r"--leader: no strategy 'range' for a leader of kafkajs"):
        lead(spec, "a")
    assert dry_run(leaves(spec, spec.members[1])).computed_as == str(NEW)


def test_another_library_is_asked_for() -> None:
    spec = group(member("a", None))
    assert as_asked(spec, None, None, OLD).client == OLD
    assert as_asked(spec, None, "1.1.1", None).client == OLD
    with pytest.raises(UsageError, match=r"no strategy 'cooperative-sticky' .* kafka-clients 1.1"):
        as_asked(spec, "cooperative-sticky", None, OLD)
    share = replace(spec, protocol="share", strategy="simple")
    with pytest.raises(UsageError, match="not assigned by a client library, but by group-coord"):
        as_asked(share, None, None, OLD)


def test_a_version_later_than_what_was_compared_is_told_once() -> None:
    lines = b"\n".join(
        spec_line(client=name) for name in ("Sarama@2", "sarama@v2", "sarama@1.61.1")
    )
    note = "sarama {} is newer than the versions that were tested; it is treated as sarama 1.61.1"
    assert read_specs(lines, "f").notes == (note.format("2"), note.format("v2"))
    for client, expected in (("sarama@1.62", (note.format("1.62"),)), ("sarama@1.61", ())):
        request = AssignRequest(Mode.COMPARE, client=client)
        assert assign_specs(spec_line(), "f", request).notes == expected
    members = [{"member_id": name, "topics": [], "client": "java@5"} for name in "ab"]
    (text,) = read_specs(json.dumps({"topics": {}, "members": members}).encode(), "f").notes
    assert text == (
        "kafka-clients 5 is newer than the versions that were tested; it is treated as "
        "kafka-clients 4.3.1"
    )


@pytest.mark.parametrize(
    ("client", "asked", "expected"),
    [
        (
            None,
            None,
            "range",
        ),  # RangeAssignor, the first of the default partition.assignment.strategy
        ("franz-go", None, "cooperative-sticky"),  # kgo.Balancers: by default CooperativeSticky
        ("franz-go", "librdkafka", "range"),  # its default is "range,roundrobin"
        (None, "kafkajs", "RoundRobinAssigner"),  # of which it has no other
        ("kafkajs", "kafka-go", "range"),  # ConsumerGroupConfig.GroupBalancers: Range, RoundRobin
    ],
)
def test_a_spec_without_a_strategy_takes_the_default_of_the_library_that_assigns(
    client: str | None, asked: str | None, expected: str
) -> None:
    (spec,) = read_specs(
        spec_line(client=client), "f", client=software(asked) if asked else None
    ).data
    assert spec.strategy == expected


def test_a_strategy_of_the_library_that_is_asked_for_may_stand_in_a_spec() -> None:
    line = spec_line(strategy="RoundRobinAssigner")
    (error,) = read_specs(line, "f").errors
    assert error.reason.startswith("strategy: expected one of range, roundrobin, sticky")
    (spec,) = read_specs(line, "f", client=software("kafkajs")).data
    assert str(spec.client) == "kafkajs 2.2.4"


def test_a_group_that_does_not_have_what_is_asked_for_is_named() -> None:
    lines = b"\n".join(spec_line(strategy=name) for name in ("sticky", "range"))
    read = read_specs(lines, "f", client=software("kafka-go"))
    assert [spec.strategy for spec in read.data] == ["range"]
    (error,) = read.errors
    assert error.reason == (
        "line 1: no strategy 'sticky' for classic groups of kafka-go 0.4.51; there are: range, "
        "roundrobin, rack-affinity."
    )
    with pytest.raises(UsageError, match=r"^line 1: no strategy 'rang' for classic groups of kafk"):
        read_specs(lines, "f", strategy="rang")
    with pytest.raises(UsageError, match=r"^no strategy 'rang' for classic groups of kafka-client"):
        read_specs(spec_line(), "f", strategy="rang")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka-clients", NEW),
        ("java", NEW),
        ("kafka-clients@4.3.1", NEW),
        ("kafka-clients@5.0", NEW),
        ("kafka-clients@3.7.1", NEW),
        ("kafka-clients@3.7.0", Software("kafka-clients", "3.7.0")),
        ("kafka-clients@3.4.1", Software("kafka-clients", "3.4.1")),
        ("kafka-clients@3.4", Software("kafka-clients", "3.3.2")),
        ("kafka-clients@3.0", Software("kafka-clients", "3.3.2")),
        ("kafka-clients@2.8.1", Software("kafka-clients", "2.8.2")),
        ("kafka-clients@2.8", Software("kafka-clients", "2.8.0")),
        ("java@2.5.1", Software("kafka-clients", "2.8.0")),
        ("java@2.5", Software("kafka-clients", "2.5.0")),
        ("java@2.3", Software("kafka-clients", "2.3.1")),
        ("java@2.2", Software("kafka-clients", "2.2.2")),
        ("java@2.0.1", OLD),
        ("Kafka-Clients", NEW),
        ("KGO", FRANZ_GO),  # the package of franz-go
        # by their release notes confluent-kafka 2.6.0 of Python and Go brings librdkafka 2.6.0
        ("Confluent-Kafka@2.6.0", Software("librdkafka", "2.6.0")),
    ],
)
def test_versions_behave_as_the_newest_known_before(text: str, expected: Software) -> None:
    assert software(text) == expected


@pytest.mark.parametrize(
    ("client", "strategy", "is_warned"),
    [
        ("java@2.3.1", "sticky", False),
        ("java@2.8.2", "cooperative-sticky", False),
        ("java@3.0", "sticky", False),
        ("java", "sticky", False),
        ("sarama@1.40", "sticky", False),
        ("franz-go@1.15.0", "cooperative-sticky", False),
        ("franz-go@1.15.1", "cooperative-sticky", True),
        ("franz-go@1.15.1", "sticky", False),
        ("franz-go@1.21.3", "cooperative-sticky", False),
        ("franz-go@1.21.7", "cooperative-sticky", True),
        ("kafka-go@0.4.37", "range", True),
        ("kafka-go@0.4.38", "range", False),
    ],
)
def test_versions_that_another_one_does_not_quite_stand_for(
    client: str, strategy: str, is_warned: bool
) -> None:
    for line, request in (
        (spec_line(strategy=strategy), AssignRequest(client=client)),
        (spec_line(strategy=strategy, client=client), AssignRequest()),
    ):
        (run,) = assign_specs(line, "f", request).data
        told = [text for text in run.plans[0].warnings if "some groups differently" in text]
        assert [client.partition("@")[2] in text for text in told] == [True] * is_warned


@pytest.mark.parametrize(
    ("client", "static"),
    [
        ("java@2.2.2", 0),
        ("java@2.3.1", 2),
        ("sarama@1.33.0", 0),
        ("sarama@1.34.0", 2),
        ("@platformatic/kafka@1.35.0", 0),  # they leave when they close: recorded
    ],
)
def test_the_version_that_is_named_decides_whether_members_are_static(
    client: str, static: int
) -> None:
    """Java's consumers since 2.3, Sarama's since 1.34: a rolling restart moves nothing."""
    members = [{"member_id": name, "instance_id": name, "topics": ["t"]} for name in "ab"]
    for more, request in (
        ({}, AssignRequest(Mode.BOUNCE, client=client)),
        ({"client": client}, AssignRequest(Mode.BOUNCE)),
    ):
        (bounce,) = assign_specs(spec_line(members=members, **more), "f", request).data
        assert isinstance(bounce, Bounce)
        assert bounce.static == static
        assert bool(bounce.runs) == (not static)
        assert bounce.can_be_static == bool(static)
    old = AssignRequest(Mode.BOUNCE, kafka_version="1.1.1")
    (bounce,) = assign_specs(spec_line(members=members, client=client), "f", old).data
    assert isinstance(bounce, Bounce)
    assert bounce.static == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafka-client", "one of kafka-clients.*, found 'kafka-client'"),
        ("Librdkafk", "one of .*, found 'Librdkafk'; did you mean 'librdkafka'?"),
        ("franzgo", "found 'franzgo'; did you mean 'franz-go'?"),
        ("confluent", "found 'confluent'; did you mean 'confluent-kafka'?"),
        ("ruby", "one of .*, found 'ruby'$"),
        ("java@new", "a version after the @, like 4.3.1, found 'new'"),
        ("java@", "a version after the @, like 4.3.1, found ''"),
        ("java@-1", "a version after the @, like 4.3.1, found '-1'"),
        ("java@3_7", "a version after the @, like 4.3.1, found '3_7'"),
        ("java@0.9", "kafka-clients 0.11.0 or later, which is imitated, found 0.9"),
    ],
)
def test_unknown_libraries_and_versions_are_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        software(text)


@pytest.mark.parametrize(
    ("letters", "partitions", "other_topics", "is_known"),
    [
        ("123456789", 12, 1, False),
        ("123456789", 12, 9, True),  # no order of partitions matters then
        ("123456789", 1, 1, True),
        ("1", 12, 1, True),
        ("1bH~", 12, 1, True),
    ],
)
def test_partitions_with_equal_hash_codes_in_a_crowded_bucket(
    letters: str, partitions: int, other_topics: int, is_known: bool
) -> None:
    """Topics whose last but one characters are neighbours share the hash codes of partitions.

    By `String.hashCode` they are 31 apart, as those of two partitions by `TopicPartition.hashCode`.
    """
    names = tuple(f"t{letter}a" for letter in letters)
    members = (
        replace(member("a", NEW), topics=names),
        replace(member("b", NEW), topics=names[:other_topics]),
    )
    topics = {name: TopicMetadata(partitions) for name in names}
    spec = GroupSpec("cooperative-sticky", members, topics, leader_id="a")
    warnings = dry_run(spec).warnings
    assert any("does not determine what kafka-clients" in text for text in warnings) != is_known
    assert not [t for t in dry_run(replace(spec, strategy="range")).warnings if "determine" in t]


@pytest.mark.parametrize(
    ("client", "topic", "is_warned"),
    [
        ("kafka-go", "t", True),
        ("librdkafka", "t", False),
        ("librdkafka", "of-java", True),
        ("java", "of-java", False),
    ],
)
def test_partitions_that_nobody_may_notice(client: str, topic: str, is_warned: bool) -> None:
    leads = software(client)
    other = leads if client == "kafka-go" else NEW  # it cannot read what Java's consumer sends
    members = (
        member("a", leads, owned=()),
        MemberSpec("b", ("t", "of-java"), client=other, owned=()),
    )
    topics = {name: TopicMetadata(2) for name in ("t", "of-java")}
    spec = set_partitions(GroupSpec("range", members, topics, leader_id="a"), topic, 5)
    warnings = [text for text in dry_run(spec).warnings if text.startswith("No rebalance may")]
    assert bool(warnings) == is_warned
    assert "WatchPartitionChanges" in "".join(warnings) or client != "kafka-go"
    left = dry_run(changed(spec, Changes(remove=["b"])))  # the rebalance that follows has them
    assert not any(text.startswith("No rebalance") for text in left.warnings)


@pytest.mark.parametrize(
    ("library", "restarts", "is_warned"),
    [
        ("java", "a", True),
        ("sarama", "a", True),
        ("java", "b", False),  # the leader looks
        ("librdkafka", "a", False),  # every member looks
    ],
)
def test_a_static_leader_that_restarts_may_not_notice_what_changed_meanwhile(
    library: str, restarts: str, is_warned: bool
) -> None:
    """Recorded of kafka-clients, kafka-python and aiokafka: the generation stayed the same."""
    members = tuple(
        member(name, software(library), owned=(("t", at),), instance_id=name)
        for at, name in enumerate("abc")
    )
    spec = GroupSpec("range", members, {"t": TopicMetadata(3)}, leader_id="a")
    changes = Changes(partitions=[("t", 5)], restart=[restarts])
    warnings = dry_run(changed(spec, changes)).warnings
    assert any(text.startswith("No rebalance may follow") for text in warnings) == is_warned
    more = dry_run(changed(spec, replace(changes, remove=["c"])))
    assert not any(text.startswith("No rebalance") for text in more.warnings)


@pytest.mark.parametrize(
    ("library", "instance_id", "is_warned"),
    [
        ("kafka-python", "i", True),
        ("sarama", "i", True),
        ("java", "i", False),  # JoinGroup version 9 tells it (KIP-814)
        ("kafka-python", None, False),
    ],
)
def test_a_static_leader_may_not_know_that_it_leads(
    library: str, instance_id: str | None, is_warned: bool
) -> None:
    """Recorded of kafka-python: a round after the leader's restart, a topic grew unnoticed."""
    leads = software(library)
    leader = member("a", leads, owned=(("t", 0),), instance_id=instance_id)
    spec = group(leader, member("b", leads, owned=()), leader_id="a", has_votes=False)
    plan = dry_run(changed(spec, Changes(partitions=[("t", 4)])))
    assert any("has restarted since" in text for text in plan.warnings) == is_warned


def test_a_leader_that_assigned_otherwise_is_not_of_ruby_kafka() -> None:
    """Topics that members name in order are sorted already, and every sort leaves them so."""
    may_be = frozenset({"sarama", "ruby-kafka"})
    members = tuple(
        MemberSpec(name, ("t",), owned=owned, may_be=may_be)
        for name, owned in (("a", (("t", 0), ("t", 2))), ("b", (("t", 1), ("t", 3))))
    )
    spec = GroupSpec("roundrobin", members, {"t": TopicMetadata(4)}, leader_id="a")
    for order, names in (("ba", {"sarama"}), ("ab", {"sarama", "ruby-kafka"})):
        leader = fitting(replace(spec, member_order=tuple(order))).leader
        assert leader is not None
        assert leader.may_be == frozenset(names)


def test_leaders_of_kafka_ts_are_imitated() -> None:
    """Recorded: three rounds of a group of kafka-ts 1.5.0 on brokers of 3.9.2 and 4.3.1."""
    rounds: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines()):
        if line["library"] == "kafka-ts":
            rounds[line["broker"], line["round"]].append(line)
    assert len(rounds) == 6
    for (broker, _), lines in rounds.items():
        given = {
            line["member_id"]: [
                (own["topic"], number)
                for own in decode_assignment(b64decode(line["assignment"]), None)[
                    "assignedPartitions"
                ]
                for number in own["partitions"]
            ]
            for line in lines
        }
        (alone,) = rounds[broker, 1]  # gets partitions as the broker lists them
        dealt: dict[str, list[int]] = defaultdict(list)
        for own in decode_assignment(b64decode(alone["assignment"]), None)["assignedPartitions"]:
            dealt[own["topic"]] += own["partitions"]
        topics = {name: TopicMetadata(len(own), listed=tuple(own)) for name, own in dealt.items()}
        members = [
            Subscriber(
                line["member_id"],
                tuple(decode_subscription(b64decode(line["subscription"]), None)["topics"]),
                line["instance_id"],
                leads=line["is_leader"],
            )
            for line in lines
        ]
        assert LESSER_KNOWN["kafka-ts"](members, topics) == given


@pytest.mark.parametrize("certainty", ["certain", "inferred", "unknown"])
def test_a_leader_that_assigned_as_no_known_library_may_be_of_another(certainty: str) -> None:
    given = {"b": (("t", 0), ("t", 3)), "a": (("t", 1), ("t", 2))}
    known = dict[str, Any](client=software("java"), is_client_inferred=certainty == "inferred")
    known["may_be"] = None if certainty == "unknown" else frozenset({"kafka-clients"})
    known |= {"client": None} if certainty == "unknown" else {}
    members = tuple(MemberSpec(name, ("t",), owned=own, **known) for name, own in given.items())
    spec = GroupSpec("roundrobin", members, {"t": TopicMetadata(4)}, leader_id="a")

    def is_warned(spec: GroupSpec) -> bool:
        fitted = fitting(spec)
        return any("no library that is imitated" in text for text in dry_run(fitted).warnings)

    assert is_warned(spec)
    without_leader = changed(fitting(spec), Changes(remove=["a"]))
    assert any("no library that is imitated" in text for text in dry_run(without_leader).warnings)
    assert not is_warned(replace(spec, client=software("java")))  # as asked
    assert not is_warned(replace(spec, topics={"t": TopicMetadata(5)}))  # grown since
    assert not is_warned(replace(spec, topics={}))
    first, second = members
    by_id = [replace(m, owned=(("t", at), ("t", at + 2))) for at, m in ((1, first), (0, second))]
    assert not is_warned(replace(spec, members=tuple(by_id)))
    static = (replace(first, instance_id="i"), second)  # may have restarted with another id
    assert not is_warned(replace(spec, members=static))
    in_racks = replace(spec, members=(replace(first, rack="r"), second))
    assert is_warned(in_racks)  # no broker has a rack
    racks = TopicMetadata(4, racks=(frozenset({"r"}),) * 4)
    assert not is_warned(replace(in_racks, topics={"t": racks}))


def of_javascript(ids: str, **changes: Any) -> GroupSpec:
    """Return a group that KafkaJS or kafka-ts has assigned two topics, with ids of one letter."""
    may_be = frozenset({"kafkajs", "kafka-ts"})
    dealt = [("t", 0), ("t", 1), ("u", 0), ("u", 1), ("u", 2)]
    members = tuple(
        MemberSpec(name, ("t", "u"), owned=tuple(dealt[at :: len(ids)]), may_be=may_be)
        for at, name in enumerate(ids)
    )
    topics = {"t": TopicMetadata(2), "u": TopicMetadata(3)}
    spec = GroupSpec("RoundRobinAssigner", members, topics, leader_id=ids[0])
    return fitting(replace(spec, **changes))


@pytest.mark.parametrize(
    ("ids", "possible", "is_open"),
    [
        ("ab", {"kafka-ts", "kafkajs"}, False),  # assign alike
        ("Ba", {"kafkajs"}, False),  # capital letters first
        ("aB", {"kafka-ts", "kafkajs"}, True),  # in the order of the alphabet
    ],
)
def test_how_ids_are_sorted_tells_kafka_ts_from_kafkajs(
    ids: str, possible: set[str], is_open: bool
) -> None:
    spec = of_javascript(ids)
    assert spec.leader is not None
    assert spec.leader.may_be == frozenset(possible)
    warnings = dry_run(spec).warnings
    assert any("no library that is imitated" in w for w in warnings) == is_open


def test_a_group_whose_library_is_not_imitated_is_computed_as_one_with_its_strategy() -> None:
    members = (MemberSpec("a", ("t",), may_be=frozenset({"kafka-ts"})),)
    spec = GroupSpec("RoundRobinAssigner", members, {"t": TopicMetadata(1)}, leader_id="a")
    assert str(spec.computed_as) == "kafkajs 2.2.4"


def test_leaders_of_kafka_ts_do_not_know_what_nobody_owns() -> None:
    """They look at topics only when they start, and members at those of their own."""
    grown = of_javascript("ab", topics={"t": TopicMetadata(2), "u": TopicMetadata(4)})
    for spec in (grown, changed(grown, Changes(remove=["b"]))):
        assert any("it may use kafka-ts" in text for text in dry_run(spec).warnings)
    spec = of_javascript("ab")
    assert dry_run(spec).warnings == ()
    changes = Changes(partitions=[("u", 4)])
    assert any("may use kafka-ts, and when" in w for w in dry_run(changed(spec, changes)).warnings)
    a, b = spec.members
    other = replace(spec, members=(a, replace(b, topics=("u",), owned=(("u", 0),))))
    assert any("it may use kafka-ts" in text for text in dry_run(other).warnings)


def test_ruby_kafka_deals_partitions_as_brokers_list_them() -> None:
    """Recorded: three members of ruby-kafka 1.5.0, in the order of a coordinator of 3.9.2."""
    members = [Subscriber(name, ("ra", "rb")) for name in ("da", "5c", "de")]
    topics = {
        "ra": TopicMetadata(5, listed=(1, 3, 2, 0, 4)),
        "rb": TopicMetadata(3, listed=(1, 2, 0)),
    }
    assigned = LESSER_KNOWN["ruby-kafka"](members, topics)
    assert {name: sorted(own) for name, own in assigned.items()} == {
        "5c": [("ra", 3), ("ra", 4), ("rb", 0)],
        "da": [("ra", 0), ("ra", 1), ("rb", 2)],
        "de": [("ra", 2), ("rb", 1)],
    }


def test_members_of_sarama_remember_only_what_its_leaders_tell_them() -> None:
    """Recorded: with a leader of Java, such a member sent user data of length null."""
    java = member("a", software("java"), owned=(("t", 0), ("t", 1)), generation=3)
    go = member("b", software("sarama"), owned=(("t", 2), ("t", 3)), generation=3)
    topics = {"t": TopicMetadata(4)}
    for leader_id, remembered in (("a", None), ("b", (("t", 2), ("t", 3)))):
        spec = GroupSpec("sticky", (java, go), topics, leader_id=leader_id)
        rejoined = after(spec, dry_run(spec))
        sent = {each.member_id: each.remembered for each in as_sent(rejoined)}
        assert sent["b"] == remembered
        assert sent["a"] == (("t", 0), ("t", 1))


def test_members_of_unknown_library_are_not_taken_for_one_that_they_cannot_have() -> None:
    """Recorded: leaders of kafka-go failed on the subscription of a member of franz-go."""
    go = member("a", software("kafka-go"), owned=(("t", 0),))
    other = member("b", None, may_be=frozenset({"kafka-clients", "franz-go"}), owned=(("t", 1),))
    plan = dry_run(replace(group(go, other, leader_id="a"), strategy="range"))
    assert plan.error is not None
    assert plan.error.type == "wrapError"


def test_a_leader_of_franz_go_assigns_a_deleted_topic_that_librdkafka_leaves_out() -> None:
    """Recorded, also in later rounds; a leader that is new does not know the topic."""
    owned = (("gone", 0), ("t", 0))
    members = (
        MemberSpec("a", ("gone", "t"), client=FRANZ_GO, owned=owned),
        MemberSpec("b", ("t",), client=software("librdkafka"), owned=(("t", 1),)),
    )
    spec = GroupSpec("range", members, {"t": TopicMetadata(3)}, leader_id="a")
    assert dry_run(spec).assignment == {"a": (("gone", 0), ("t", 0), ("t", 1)), "b": (("t", 2),)}
    new = replace(spec, members=(replace(members[0], unknown_id=True), members[1]))
    assert dry_run(new).assignment == {"a": (("t", 0), ("t", 1)), "b": (("t", 2),)}


@pytest.mark.parametrize("inferred", [None, "kafka-python"])
def test_a_version_that_would_not_have_assigned_this_is_not_taken(inferred: str | None) -> None:
    """kafka-python 3 fails with the subscriptions of kafka-go."""
    own = tuple(("t", number) for number in range(4))
    may_be = frozenset({"kafka-python"} if inferred is None else {"kafka-python", "kafka-clients"})
    members = (
        member("a", software(inferred) if inferred else None, may_be=may_be, owned=own[:2]),
        member("b", software("kafka-go"), owned=own[2:]),
    )
    leader = replace(members[0], is_client_inferred=inferred is not None)
    spec = GroupSpec("range", (leader, members[1]), {"t": TopicMetadata(4)}, leader_id="a")
    assert str(fitting(spec).computed_as) == "kafka-python 2.3.3"


def of_librdkafka(*members: tuple[str, str, list[int]]) -> GroupSpec:
    """Members with the name, the topic and the partitions; of a live group, whose `a` leads."""
    rdkafka = software("librdkafka")
    read = tuple(
        MemberSpec(name, (topic,), client=rdkafka, owned=tuple((topic, n) for n in numbers))
        for name, topic, numbers in members
    )
    topics = {topic: TopicMetadata(6) for topic in "tu"}
    return GroupSpec("range", read, topics, leader_id="a", has_votes=False)


def told(spec: GroupSpec, words: str) -> str:
    """Return the warning with these words; empty if there is none."""
    return next((text for text in dry_run(spec).warnings if words in text), "")


def test_members_of_librdkafka_without_topics_lose_their_sessions() -> None:
    spec = of_librdkafka(
        ("a", "t", [0, 1, 2, 3, 4, 5]), ("b", "u", [0, 1, 2]), ("c", "u", [3, 4, 5])
    )
    dropped = changed(spec, Changes(drop_topics=["t"]))
    assert set(dry_run(dropped).assignment or ()) == {"b", "c"}
    assert "The rebalance waits until the sessions of a expire" in told(dropped, "sessions")
    moved = changed(spec, Changes(drop_topics=["t"], subscribe=[("a", ("u",))]))
    assert (dry_run(moved).assignment or {})["a"] == (("u", 0), ("u", 1))
    assert not told(moved, "sessions")
    with pytest.raises(NotFoundError, match="--leader: a does not join again, as none of its"):
        changed(spec, Changes(drop_topics=["t"], leader="a"))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_if_no_member_of_librdkafka_can_rejoin_nothing_changes(count: int) -> None:
    members = [(name, "t", [at * 2, at * 2 + 1]) for at, name in enumerate("abc"[:count])]
    spec = of_librdkafka(*members)
    plan = dry_run(changed(spec, Changes(drop_topics=["t"])))
    assert plan.assignment == {member.member_id: member.owned for member in spec.members}
    assert told(changed(spec, Changes(drop_topics=["t"])), "No rebalance follows until the session")


def test_a_member_that_leaves_does_not_wait_for_its_session() -> None:
    spec = of_librdkafka(("a", "u", [0, 1, 2]), ("b", "gone", [0]), ("c", "u", [3, 4, 5]))
    assert not told(changed(spec, Changes(remove=["b"])), "sessions")
    assert "sessions of b expire" in told(changed(spec, Changes(remove=["c"])), "sessions")


def test_a_new_member_of_librdkafka_waits_for_its_topic() -> None:
    spec = of_librdkafka(("a", "u", [0, 1, 2]), ("c", "u", [3, 4, 5]))
    new = AddedMembers(client_id="w", topics=("later",))
    words = "join when a topic exists"
    alone = told(changed(spec, Changes(add=[new])), words)
    assert alone.startswith("No rebalance may follow: ")
    assert alone.endswith(": w.")
    assert told(changed(spec, Changes(add=[new], remove=["c"])), words).startswith("Some may not")


def test_librdkafka_leaves_out_topics_that_franz_go_keeps() -> None:
    both = ("gone", "t")
    members = (
        MemberSpec("a", both, client=FRANZ_GO, owned=(("gone", 0), ("t", 0))),
        MemberSpec("b", both, client=FRANZ_GO, owned=(("gone", 1), ("t", 1))),
        MemberSpec("r", both, client=software("librdkafka"), owned=(("t", 2),)),
    )
    spec = GroupSpec("range", members, {"t": TopicMetadata(3)}, leader_id="a")
    plan = dry_run(changed(spec, Changes(remove=["b"])))
    assert plan.assignment is not None
    assert {topic for topic, _ in plan.assignment["r"]} == {"t"}


@pytest.mark.parametrize(
    ("client", "kept"),
    [("java@3.3.2", "first 0-3"), ("java@3.5.2", "first 0-3"), ("java", "first 0-1, second 0-1")],
)
def test_which_of_too_many_partitions_a_member_keeps(client: str, kept: str) -> None:
    """As the classes of 3.3.2, 3.5.2 and 4.3.1 answered: the first claimed, then the lowest."""
    both = ["first", "second"]
    owned = [[topic, number] for topic in both for number in range(4)]
    spec = {
        "strategy": "cooperative-sticky",
        "client": client,
        "topics": {topic: {"partitions": 4} for topic in both},
        "members": [
            {"member_id": "c1", "topics": both, "owned": owned, "generation": 3},
            {"member_id": "c2", "topics": both},
        ],
    }
    assignment = assign(read_spec(spec))
    assert written(sorted(assignment["c1"])) == kept
    assert assignment["c2"] == []


@pytest.mark.parametrize(
    ("version", "strategy", "topics", "user_data", "expected"),
    [
        (None, "sticky", ["a"], None, ""),
        (3, "sticky", ["a"], None, ""),  # of 3.4.0 and later
        (0, "range", ["a"], None, "2.3.1 2.2.2 1.1.1"),
        (0, "sticky", ["a"], {"previousAssignment": [], "generation": 3}, "2.3.1"),
        (0, "sticky", ["a"], {"previousAssignment": []}, "2.2.2 1.1.1"),
        (1, "range", ["first", "second"], None, "3.3.2 2.8.2 2.8.0 2.5.0"),
        # their order in a HashSet of Java; sorted since 2.8.1
        (1, "range", ["payments", "orders"], None, "2.8.0 2.5.0"),
        (1, "sticky", ["orders", "payments"], None, "3.3.2 2.8.2"),
        (1, "cooperative-sticky", ["a"], None, "2.8.0 2.5.0"),
        (1, "cooperative-sticky", ["a"], {"generation": -1}, "3.3.2 2.8.2"),
    ],
)
def test_what_a_subscription_shows_of_the_version_of_java(
    version: int | None, strategy: str, topics: list[str], user_data: Any, expected: str
) -> None:
    """By the sources of 1.1.1 to 3.4.0: `ConsumerProtocol` and the assignors' user data."""
    assert versions_before_3_4(version, strategy, topics, user_data) == tuple(expected.split())


def test_the_version_of_java_by_what_recorded_members_sent() -> None:
    lines = map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())
    found: dict[str, set[bool]] = {}
    for line in lines:
        if line["library"] == "kafka-clients":
            sent = decode_subscription(b64decode(line["subscription"]), line["strategy"])
            user_data = sent["userData"] or None
            versions = versions_before_3_4(
                sent["version"], line["strategy"], sent["topics"], user_data
            )
            version = software(f"java@{line['version']}").version
            found.setdefault(line["version"], set()).add(version in versions)
    assert found == {"1.1.1": {True}, "2.8.2": {True}, "3.9.2": {False}, "4.3.1": {False}}


@pytest.mark.parametrize("leader_id", ["c1", None])
@pytest.mark.parametrize(
    ("versions", "strategy", "named"),
    [
        ((), "cooperative-sticky", None),
        (("3.3.2", "2.8.2"), "cooperative-sticky", None),  # assign alike
        (("3.3.2", "2.8.2", "2.8.0", "2.5.0"), "range", None),
        (("3.3.2", "2.8.2", "2.8.0", "2.5.0"), "sticky", "2.5.0"),
    ],
)
def test_a_warning_says_if_another_version_that_may_lead_assigns_otherwise(
    leader_id: str | None, versions: tuple[str, ...], strategy: str, named: str | None
) -> None:
    """As the classes answered: up to 2.5.0, the first member gives second 2-3 and first 0-1."""
    both = ("first", "second")
    owned = tuple((topic, number) for topic in both for number in range(4))
    client = NEW._replace(version=versions[0]) if versions else NEW
    members = (
        MemberSpec("c1", both, owned=owned, generation=3, client=client, versions=versions),
        MemberSpec("c2", both, owned=(), client=client, versions=versions),
    )
    topics = dict.fromkeys(both, TopicMetadata(4))
    plan = dry_run(GroupSpec(strategy, members, topics, leader_id=leader_id))
    assert plan.computed_as == str(client)
    warnings = [text for text in plan.warnings if "by what it sends" in text]
    assert [f"kafka-clients {named}, by" in text for text in warnings] == [True] * bool(named)
    of_named = [member for member in members if named in member.versions]
    again = GroupSpec(strategy, members, topics, client=NEW._replace(version=named or NEW.version))
    assert all(again.client_of(member).version == named for member in of_named)


@pytest.mark.parametrize(
    ("version", "is_warned"), [("2.8.2", False), ("2.8.0", True), ("2.5.0", False)]
)
def test_what_is_kept_of_too_much_depends_on_what_cooperative_members_consumed(
    version: str, is_warned: bool
) -> None:
    """2.5.1 to 2.8.0 list partitions as `SubscriptionState.movePartitionToEnd` ordered them."""
    client = NEW._replace(version=version)
    members = (
        MemberSpec("c1", ("t",), owned=(("t", 0), ("t", 1)), generation=3, client=client),
        MemberSpec("c2", ("t",), owned=(), client=client),
    )
    for topics, is_open in (({"t": TopicMetadata(2)}, is_warned), ({"t": TopicMetadata(4)}, False)):
        plan = dry_run(GroupSpec("cooperative-sticky", members, topics))
        assert any("may be random" in text for text in plan.warnings) == is_open


def test_java_before_3_4_reads_the_number_of_topics_as_a_generation() -> None:
    """What broker 4.3.1 recorded of a leader of 3.3.2, when a new member joined.

    The first four bytes of the user data of librdkafka, which owned partitions of two topics, made
    its claims older than the leader's of generation 3: its partitions count as free.
    """
    java, librdkafka = software("java@3.3.2"), software("librdkafka")
    first = tuple(("a", at) for at in range(6))
    others = (("a", 6), ("a", 7), *(("b", at) for at in range(4)))
    leader_id = "hqe.1-1d7acacf-2b97-448a-bece-c445dd05bb8a"
    new_id = "zazblo0-2121bb92-bcd1-4f2b-a2ed-6f6993babd99"
    other_id = "ejsqd.12-9416c8b1-5de4-46fa-af2e-020a95c9158b"
    topics = "a", "b"
    spec = GroupSpec(
        "cooperative-sticky",
        (
            MemberSpec(leader_id, topics, client=java, version=1, owned=first, generation=3),
            MemberSpec(new_id, topics, client=java, version=1),
            MemberSpec(other_id, topics, client=librdkafka, owned=others, generation=3),
        ),
        {"a": TopicMetadata(8), "b": TopicMetadata(4)},
        leader_id=leader_id,
    )
    assignment = dry_run(spec).assignment
    assert assignment is not None
    assert {name: sorted(owned) for name, owned in assignment.items()} == {
        leader_id: [("a", 0), ("a", 1), ("a", 2), ("a", 3)],
        new_id: [("a", 7), ("b", 1), ("b", 3)],
        other_id: [("a", 6), ("b", 0), ("b", 2)],
    }


@pytest.mark.parametrize(
    ("library", "topics", "is_open"),
    [
        ("sarama", None, True),
        ("sarama", ("b", "a"), False),
        ("java", None, False),  # which sorts them
    ],
)
def test_applications_of_another_library_may_name_topics_in_another_order(
    library: str, topics: tuple[str, ...] | None, *, is_open: bool
) -> None:
    """Of two live groups, kafka-python's leader kept a in one and b in the other one.

    Its own members draw an order at random; Sarama's have the application's.
    """
    own = tuple((topic, at) for topic in "ab" for at in range(4))
    alone = MemberSpec("k-1", ("b", "a"), client=software("kafka-python"), owned=own, generation=3)
    counts = {topic: TopicMetadata(4) for topic in "ab"}
    spec = GroupSpec("sticky", (alone,), counts, leader_id="k-1")
    added = AddedMembers(client_id="s", library=library, strategies=("sticky",), topics=topics)
    plan = settled(changed(spec, Changes(add=[added]))).last
    assert [member.depends_on_id for member in plan.members] == [is_open] * 2
    what = "the order in which new members name their topics, which is unknown."
    assert any(warning.endswith(f" depends on {what}") for warning in plan.warnings) == is_open


@pytest.mark.parametrize(
    ("strategy", "number", "what"),
    [
        ("range", 1, "the ids of new members, which are unknown."),  # it sorts members and topics
        ("sticky", 1, "the order in which new members name their topics, which is unknown."),
        (
            "sticky",
            2,
            "the ids of new members and the order in which they name their topics, which are "
            "unknown.",
        ),
    ],
)
def test_what_depends_on_ids_and_what_on_the_order_of_topics(
    strategy: str, number: int, what: str
) -> None:
    own = tuple((topic, at) for topic in "ab" for at in range(4))
    alone = MemberSpec("k-1", ("b", "a"), client=software("kafka-python"), owned=own, generation=3)
    counts = {topic: TopicMetadata(4) for topic in "ab"}
    spec = GroupSpec(strategy, (alone,), counts, leader_id="k-1")
    added = AddedMembers(number, client_id="k")
    (warning,) = (
        warning
        for warning in settled(changed(spec, Changes(add=[added]))).last.warnings
        if warning.startswith("The result for ")
    )
    assert warning.endswith(f" depends on {what}")
