"""Every assignor on its named cases: the answers are those of Kafka that `record` records."""

from __future__ import annotations

import json

import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assign
from kgroup.operation.assign.spec import read_spec
from tests.assignor.case.notation import Assignor, answer_of, assigned, case, member
from tests.assignor.case.table import CASES, UNSOUND
from tests.assignor.invariant import broken

RECORDED = {assignor: json.loads(assignor.answers.read_text("utf-8")) for assignor in CASES}


@pytest.mark.parametrize("assignor", CASES, ids=str)
def test_every_case_is_recorded(assignor: Assignor) -> None:
    assert list(RECORDED[assignor]) == list(CASES[assignor])


@pytest.mark.parametrize(
    ("assignor", "name"),
    [(assignor, name) for assignor, cases in CASES.items() for name in cases],
    ids=str,
)
def test_answers_as_kafka(assignor: Assignor, name: str) -> None:
    answer = answer_of(assigned(CASES[assignor][name].spec(assignor)))
    assert answer == RECORDED[assignor].get(name)


@pytest.mark.parametrize("assignor", CASES, ids=str)
def test_invariants_hold_unless_kafka_breaks_them(assignor: Assignor) -> None:
    found = {}
    for name, named in CASES[assignor].items():
        if not isinstance(RECORDED[assignor].get(name), str):  # an error
            spec = read_spec(named.spec(assignor))
            found[name] = " ".join(broken(spec, assign(spec)))
    unsound = {name: invariants for name, invariants in found.items() if invariants}
    assert unsound == UNSOUND.get(str(assignor), {})


def test_who_has_the_one_extra_partition_waits_for_no_more() -> None:
    """By hand after `RangeAssignor.assignCoPartitionedWithRackMatching` of kafka-clients 4.3.1.

    Ash takes 0 and 1, which are in its rack; 2 is too, but Ash may take no more.
    """
    asked = case(
        "orders 3 ab ab a, payments 3 ab ab a",
        member("ash", "orders payments", rack="a"),
        member("birch", "orders payments", rack="b"),
    )
    assert answer_of(assigned(asked.spec(Assignor("classic", "range", "4.3.1")))) == {
        "ash": "orders 0-1, payments 0-1",
        "birch": "orders 2, payments 2",
    }


def test_a_partition_that_moves_twice_has_come_from_its_first_owner() -> None:
    """`PartitionMovements`: were it noted as its second owner's, moves would go on for ever."""
    asked = case(
        "t0 5, t1 9, t2 9, t3 9",
        member("m0", "t0", "", 4),
        member("m1", "t3 t2 t1 t0", "t1 1-2, t1 4-5", 4),
        member("m2", "t2 t0 t1", "t2 0-8", 3),
        member("m3", "t3 t0", "t0 0-4, t3 0-8", 4),
        member("m4", "t0 t1", "t1 0-3, t1 6-8", 4),
        member("m5", "t3 t2", "", 3),
    )
    spec = read_spec(asked.spec(Assignor("classic", "sticky", "4.3.1")))
    assert broken(spec, assign(spec)) == []


IDS = (
    "cooperative-sticky-1-f751a49e-4a7e-4a73-9fe8-a4897c004b1b",
    "cooperative-sticky-2-dddc6432-b42a-4945-8465-8d7029f89d48",
    "cooperative-sticky-3-ed213353-3df2-499d-906e-49ef63c2c179",
    "cooperative-sticky-4-85ea7f7c-940f-4c5e-97d5-0e49a08bb7f0",
    "cooperative-sticky-5-f78122f6-9727-4290-af62-390a1dad171f",
)
"""The third and the fourth share a bucket."""

OWNED = (
    (("a", 0), ("a", 1), ("b", 0)),
    (("a", 3), ("a", 5), ("b", 2), ("b", 4)),
    (("a", 4), ("b", 3), ("b", 5)),
    (("a", 2), ("a", 6), ("b", 1)),
    (),
)


@pytest.mark.parametrize(
    ("order", "numbers"),
    [
        ((), (3, 3, 3, 2, 0)),
        ((2, 3), (3, 3, 3, 2, 0)),
        # what Java consumers of 3.9.2 did on a broker of 3.9.2, which listed the fourth first
        ((3, 2), (3, 3, 2, 3, 0)),
    ],
)
def test_who_keeps_one_more(order: tuple[int, ...], numbers: tuple[int, ...]) -> None:
    spec = GroupSpec(
        "cooperative-sticky",
        tuple(
            MemberSpec(member_id, ("a", "b"), owned=owned, generation=5)
            for member_id, owned in zip(IDS, OWNED, strict=True)
        ),
        {"a": TopicMetadata(7), "b": TopicMetadata(6)},
        member_order=tuple(IDS[at] for at in order),
    )
    assignment = assign(spec)
    assert tuple(len(assignment[member_id]) for member_id in IDS) == numbers


@pytest.mark.parametrize(
    ("order", "grown"),
    [
        ("abc", "c"),
        # what a coordinator of 4.3.1 did, which lists them so
        ("cba", "a"),
    ],
)
def test_who_gets_one_more_of_the_coordinator(order: str, grown: str) -> None:
    """The first and the third share a bucket; the last with room takes what is left over."""
    ids = {
        "a": "6P--7vusRimm629W5LlC8Q",
        "b": "TMAYZqKnRy-2OuGZZS8SkA",
        "c": "pib0AIjOT8SIPMorXjuKKQ",
    }
    owned = {
        "a": [("b28", partition) for partition in range(5)],
        "b": [("a", 0), ("a", 1), ("a", 2), ("b28", 5), ("b28", 6)],
        "c": [("a", partition) for partition in range(3, 7)],
    }
    spec = GroupSpec(
        "uniform",
        tuple(MemberSpec(ids[m], ("a", "b28"), owned=tuple(owned[m])) for m in "abc"),
        {"a": TopicMetadata(7), "b28": TopicMetadata(9)},
        "consumer",
        topic_ids={"a": bytes(15) + b"\1", "b28": bytes(15) + b"\2"},
        member_order=tuple(ids[m] for m in order),
    )
    assignment = assign(spec)
    assert {m: len(assignment[ids[m]]) for m in "abc"} == {"a": 5, "b": 5, "c": 5} | {grown: 6}
