"""What is said of an assignor; whose answers are right is tested by `test_case`."""

from __future__ import annotations

import pytest

from kgroup.assignor.group_spec import CLIENTS, GroupSpec
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.strategy import assign, assignor_of, strategies
from kgroup.errors import UnknownStrategyError


@pytest.mark.parametrize(
    ("protocol", "client", "expected"),
    [
        ("classic", None, "kafka-clients 4.3.1"),
        ("classic", Software("kafka-clients", "1.1.1"), "kafka-clients 1.1.1"),
        ("consumer", None, "group-coordinator 4.3.1"),
        ("share", None, "group-coordinator 4.3.1"),
        ("zookeeper", None, "kafka 0.8.2.2"),
    ],
)
def test_the_software_that_is_imitated(
    protocol: str, client: Software | None, expected: str
) -> None:
    assert str(GroupSpec("range", (), {}, protocol, client).computed_as) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (("2.3.1", "3.3.2"), "kafka-clients 3.3.2"),
        (("3.3.2", "2.3.1", None), "kafka-clients 3.3.2"),
        (("4.3.1", "2.3.1"), "kafka-clients 4.3.1"),
    ],
)
def test_an_unknown_leader_is_as_new_as_a_member(
    known: tuple[str | None, ...], expected: str
) -> None:
    members = tuple(
        MemberSpec(f"m{n}", ("t",), client=Software("kafka-clients", v) if v else None)
        for n, v in enumerate(known)
    )
    assert str(GroupSpec("range", members, {}).computed_as) == expected


def test_members_of_aiokafka_may_lead_as_what_it_assigns_like() -> None:
    like = Software("kafka-python", "2.2.21")
    members = (MemberSpec("a", ("t",), may_be=frozenset({"aiokafka"})),)
    assert GroupSpec("sticky", members, {}, leader_client=like).computed_as == like


@pytest.mark.parametrize(
    ("strategy", "may_be", "expected"),
    [
        (
            "sticky",
            ("kafka-clients kafka-python", "kafka-clients kafka-python sarama"),
            "kafka-python",
        ),
        ("range", ("kafka-clients kafka-python", "kafka-clients kafka-python"), "kafka-clients"),
        ("sticky", ("kafka-clients franz-go", "kafka-clients"), "kafka-clients"),
        ("roundrobin", ("ruby-kafka sarama", "franz-go ruby-kafka sarama"), "sarama"),
        ("roundrobin", ("franz-go ruby-kafka sarama",), "sarama"),
        ("roundrobin", ("franz-go", "sarama"), "franz-go"),
    ],
)
def test_an_unknown_leader_has_the_library_that_most_members_may_have(
    strategy: str, may_be: tuple[str, ...], expected: str
) -> None:
    """Neither Java's sends what kafka-python may send since 2.4, nor franz-go what Sarama may."""
    members = tuple(
        MemberSpec(f"m{n}", ("t",), may_be=frozenset(names.split()))
        for n, names in enumerate(may_be)
    )
    assert GroupSpec(strategy, members, {}).computed_as.name == expected


@pytest.mark.parametrize(
    ("protocol", "strategy", "expected"),
    [
        ("classic", "sticky", False),
        ("classic", "cooperative-sticky", True),
        ("consumer", "range", True),
        ("share", "simple", True),
        ("zookeeper", "range", False),
    ],
)
def test_who_keeps_what_it_owns_meanwhile(protocol: str, strategy: str, expected: bool) -> None:
    assert GroupSpec(strategy, (), {}, protocol).is_cooperative == expected


@pytest.mark.parametrize(
    ("protocol", "client"),
    [
        ("consumer", None),
        ("share", None),
        ("zookeeper", None),
        *(
            ("classic", Software(library.name, v))
            for library in CLIENTS.values()
            for v in library.versions
        ),
    ],
)
def test_a_strategy_that_is_not_there_is_told_with_those_that_are(
    protocol: str, client: Software | None
) -> None:
    software = GroupSpec("", (), {}, protocol, client).computed_as
    known = ", ".join(strategies(protocol, client))
    text = f"group g: expected a strategy of {software} ({known}), found 'mystery'"
    with pytest.raises(UnknownStrategyError) as caught:
        assignor_of(protocol, "mystery", client, group_id="g")
    assert str(caught.value) == text
    with pytest.raises(UnknownStrategyError) as caught:
        assign(GroupSpec("mystery", (MemberSpec("m", ("t",)),), {}, protocol, client, id="g"))
    assert str(caught.value) == text


def test_the_default_comes_first() -> None:
    """As `partition.assignment.strategy` and `group.consumer.assignors` list them."""
    assert strategies("classic")[0] == "range"
    assert strategies("consumer")[0] == "uniform"
    assert strategies("zookeeper")[0] == "range"
