"""kafka-python against the one that is installed: odd groups, and what is left to chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kgroup.assignor.base import AssignorError
from kgroup.assignor.client.kafka_python import KAFKA_PYTHON
from kgroup.assignor.client.kafka_python_sticky import StickyAssignor
from kgroup.operation.assign.outcome import after as after_rebalance
from kgroup.operation.assign.outcome import dry_run
from kgroup.operation.assign.spec import read_spec
from kgroup.operation.assign.what_if import AddedMembers, add_members, leaves
from tests.assignor.case.notation import Case, answer_of, assigned, case, member
from tests.assignor.client.oracle.kafka_python import run
from tests.examples import examples

VERSION = "3.0.12"
STRATEGIES = KAFKA_PYTHON.strategies[VERSION]
HASH_SEEDS = (0, 1, 2)
CASES = {
    "nobody-subscribes": case("t 2", member("a"), member("b")),
    "one-subscribes-to-nothing": case("t 3", member("a"), member("b", "t"), member("c", "t")),
    "topic-is-missing": case("t 3", member("a", "t gone"), member("b", "t", "gone 0, t 1", 4)),
    "no-partitions": case("t 0, u 2", member("a", "t u"), member("b", "t u")),
    "order-of-topics": case(
        "b 3, a 2, é 1", member("x", "b a é"), member("y", "a b é"), member("z", "é b")
    ),
    "claimed-twice": case(
        "t 4", member("a", "t", "t 0-2", 4), member("b", "t", "t 1-3", 4), member("c", "t")
    ),
    "claimed-in-generation-0": case(
        "t 3", member("a", "t", "t 0-2", 0), member("b", "t", "t 0-2", 0), member("c", "t")
    ),
    "claimed-in-two-generations": case(
        "t 3", member("a", "t", "t 0-1", 4), member("b", "t", "t 0-2", 5), member("c", "t")
    ),
    "claimed-once-by-who-takes-no-part": case(
        "t 5", member("a", "t", "t 0-2", 4), member("b", "t", "t 3-4", 4), member("c", "", "t 0", 3)
    ),
    "even-as-claimed-once-by-who-takes-no-part": case(
        "t 4", member("a", "t", "t 0-1", 4), member("b", "t", "t 2-3", 4), member("c", "", "t 0", 3)
    ),
    "no-longer-subscribed": case(
        "t 3, u 3", member("a", "t", "t 0-2, u 0-2", 4), member("b", "t u", "", 4)
    ),
    "static-between-others": case(
        "t 5", member("z", "t"), member("a", "t", instance_id="i"), member("b", "t")
    ),
    "static-first": case(
        "t 5",
        member("b", "t", instance_id="j"),
        member("c", "t", instance_id="i"),
        member("a", "t"),
    ),
    "turn-of-who-does-not-subscribe": case("t 2, u 2", member("a", "t u"), member("b", "u")),
    "partition-is-gone": case("t 2", member("a", "t", "t 0-5", 4), member("b", "t")),
}


# read of a group on a broker, and what it did in two rebalances when lee left and mae led: first
# it was without zoo and Mole
LEFT = case(
    "zoo 6, ant 7, Mole 2",
    member("lee", "zoo ant Mole", "zoo 3-5, ant 5", 9),
    member("ned", "zoo ant Mole", "Mole 0-1, zoo 2", 9),
    member("ida", "zoo ant Mole", "ant 0 4, zoo 0-1", 9, instance_id="ida"),
    member("mae", "ant", "ant 1-3 6", 9),
)
LED_BY_MAE = {
    "ned": "Mole 1, ant 6, zoo 1 3 5",
    "ida": "Mole 0, ant 4, zoo 0 2 4",
    "mae": "ant 0-3 5",
}


def spec_of(strategy: str, asked: Case) -> dict[str, Any]:
    return {
        "id": "",
        "strategy": strategy,
        "client": f"kafka-python@{VERSION}",
        "topics": asked.topics,
        "members": list(asked.members),
    }


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_odd_groups(strategy: str) -> None:
    specs = [spec_of(strategy, each) for each in CASES.values()]
    told = run(None, strategy, specs, "-in-order")
    ours = [answer_of(assigned(spec)) for spec in specs]
    assert dict(zip(CASES, ours, strict=True)) == {
        name: answer_of(answer) for name, answer in zip(CASES, told, strict=True)
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claimed-once-by-who-takes-no-part", {"a": "t 0-2", "b": "t 3-4", "c": ""}),
        ("even-as-claimed-once-by-who-takes-no-part", {"a": "t 0-1", "b": "t 2-3", "c": ""}),
    ],
)
def test_a_group_that_is_even_looks_for_no_earlier_owner(
    name: str, expected: Mapping[str, str]
) -> None:
    """The library answers so in `test_odd_groups`; where it looks, it raises KeyError."""
    assert answer_of(assigned(spec_of("sticky", CASES[name]))) == expected


def contested(seed: int) -> dict[str, Any]:
    """A group in which many claim the same partitions, in different generations."""
    draw = random.Random(seed)
    topics = {f"t{at}": draw.randint(1, 6) for at in range(draw.randint(1, 3))}
    every = [[name, number] for name, count in topics.items() for number in range(count)]
    is_alike = draw.random() < 0.6
    generations = draw.choice([[5], [4, 5], [-1, 0, 1, 2], [3, 4, 5, 6]])
    members = []
    for at in range(draw.randint(2, 5)):
        names = (
            list(topics) if is_alike else draw.sample(list(topics), draw.randint(1, len(topics)))
        )
        owned = draw.sample(every, draw.randint(0, len(every)))
        members.append(
            {
                "member_id": f"m{draw.randint(0, 999)}-{at}",
                "topics": names,
                "owned": owned,
                "generation": draw.choice(generations),
            }
        )
    return {
        "id": str(seed),
        "strategy": "sticky",
        "client": f"kafka-python@{VERSION}",
        "topics": {name: {"partitions": count} for name, count in topics.items()},
        "members": members,
    }


def ways(spec: Mapping[str, Any]) -> Sequence[object] | None:
    """Return all that kgroup says the library may answer."""
    group = read_spec(spec)
    assignor = STRATEGIES["sticky"]
    assert isinstance(assignor, StickyAssignor)
    subscribers = KAFKA_PYTHON.as_sent(group.members, "sticky", VERSION)
    try:
        outcomes = assignor.outcomes(subscribers, group.topics)
    except AssignorError:
        return None
    if outcomes is None:
        return None
    return [answer_of({"assignment": outcome}) for outcome in outcomes]


@pytest.mark.slow
def test_the_answer_is_one_of_those_that_chance_allows() -> None:
    specs = [contested(seed) for seed in range(examples(40))]
    answers = [run(None, "sticky", specs, hash_seed=seed) for seed in HASH_SEEDS]
    varied = 0
    for spec, *told in zip(specs, *answers, strict=True):
        texts = [answer_of(each) for each in told]
        allowed = ways(spec)
        if allowed is None:
            continue
        assert all(text in allowed for text in texts), spec
        warnings = dry_run(read_spec(spec)).warnings
        assert any("not determine" in warning for warning in warnings) == (len(allowed) > 1)
        varied += any(text != texts[0] for text in texts)
    assert varied  # chance was at work


def after(spec: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group whose members took what they were given."""
    given = answer["assignment"]
    took = {"generation": 10}
    members = [each | {"owned": given[each["member_id"]]} | took for each in spec["members"]]
    return {**spec, "members": members}


def led_by_one_that_knows(
    names: Sequence[Sequence[str]], specs: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Let the library assign some topics only, and then all to the members that took that.

    Args:
        names: of the topics that are known, for each spec.
        specs: of sticky groups.
    """
    poor = [
        {**spec, "topics": {name: spec["topics"][name] for name in known}}
        for spec, known in zip(specs, names, strict=True)
    ]
    first = run(None, "sticky", poor, "-in-order")
    again = [after(spec, told) for spec, told in zip(specs, first, strict=True)]
    return [answer_of(each) for each in run(None, "sticky", again, "-in-order")]


def is_determined(spec: Mapping[str, Any], leader_id: str | None = None) -> bool:
    """Return whether a dry run says nothing of chance when the first member leaves."""
    group = replace(read_spec(spec), leader_id=leader_id)
    warnings = dry_run(leaves(group, group.members[0])).warnings
    return not any("not determine" in warning for warning in warnings)


def test_a_new_leader_assigns_first_what_it_knows() -> None:
    spec = spec_of("sticky", LEFT)
    left = {**spec, "members": spec["members"][1:]}
    (end,) = led_by_one_that_knows([["ant"]], [left])
    assert end == LED_BY_MAE
    assert end != answer_of(assigned(left))
    for strategy in ("sticky", "cooperative-sticky"):
        spec = spec_of(strategy, LEFT)
        assert not is_determined(spec)
        assert is_determined(spec, "ned")  # led so far, and knows all
        assert not is_determined(spec, "lee")
    assert is_determined(spec_of("range", LEFT))


def test_a_new_leader_that_is_known_knows_only_its_own_topics_at_first() -> None:
    group = replace(read_spec(spec_of("sticky", LEFT)), leader_id="lee")
    for leader_id, is_open in (("mae", True), ("ned", False)):
        order = dict.fromkeys((leader_id, "lee", "mae", "ned", "ida"))
        left = leaves(replace(group, member_order=tuple(order)), group.members[0])
        assert left.leader_id == leader_id
        found = [warning for warning in dry_run(left).warnings if "not determine" in warning]
        assert bool(found) == is_open
        assert all("has not been the leader may not know all topics" in each for each in found)
        plan = dry_run(after_rebalance(left, dry_run(left)))
        assert not any("not determine" in warning for warning in plan.warnings)


def test_a_leader_assigns_a_topic_that_nobody_had_in_the_next_rebalance() -> None:
    spec = spec_of(
        "sticky", case("t 6, new 2", member("a", "t", "t 0-2", 4), member("b", "t", "t 3-5", 4))
    )
    group = read_spec(spec)
    for topics, is_same in ((("t",), True), (("new",), True), (("new", "t"), False)):
        joined = add_members(group, AddedMembers(topics=topics))
        new = member(joined.members[-1].member_id, " ".join(topics))
        with_it = {**spec, "members": [*spec["members"], new]}
        (at_once,) = run(None, "sticky", [with_it], "-in-order")
        (end,) = led_by_one_that_knows([["t"]], [with_it])
        assert (end == answer_of(at_once)) == is_same
        found = [warning for warning in dry_run(joined).warnings if "not determine" in warning]
        assert bool(found) != is_same
        assert all("has not been the leader may not know all topics" in each for each in found)


@pytest.mark.slow
def test_it_is_told_where_a_new_leader_may_make_a_difference() -> None:
    specs = []
    for seed in range(examples(60)):
        spec = contested(seed)
        owned = [
            [name, at] for name, each in spec["topics"].items() for at in range(each["partitions"])
        ]
        members = [
            {**each, "owned": owned[at :: len(spec["members"])], "generation": 4}
            for at, each in enumerate(spec["members"])
        ]
        specs.append({**spec, "members": members})
    left = [{**spec, "members": spec["members"][1:]} for spec in specs]
    leaders = max(len(spec["members"]) for spec in left)
    at_once = [answer_of(each) for each in run(None, "sticky", left, "-in-order")]
    ends = [
        led_by_one_that_knows(
            [spec["members"][at % len(spec["members"])]["topics"] for spec in left], left
        )
        for at in range(leaders)
    ]
    same = [all(end == told for end in ways) for told, *ways in zip(at_once, *ends, strict=True)]
    assert {True, False} == set(same)
    assert [is_determined(spec) for spec in specs] == same
