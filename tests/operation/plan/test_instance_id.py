"""What static members are called: Kafka's rules are spelled out, ids are counted by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kgroup.errors import UsageError
from kgroup.model.group import Member
from kgroup.operation.plan.static_membership import proposed, why_unfit


def members(*clients: tuple[str | None, str | None]) -> Mapping[str, Member]:
    return {
        f"m{number}": Member(f"id-{number}", client_id=client, client_host=host)
        for number, (client, host) in enumerate(clients, 1)
    }


PROPOSALS = [
    ([("a", "/10.0.0.1"), ("b", "/10.0.0.1")], ["a", "b"]),
    ([("c", "/10.0.0.1"), ("c", "/10.0.0.2")], ["c-10.0.0.1", "c-10.0.0.2"]),
    ([("c", "/10.0.0.1"), ("c", "/10.0.0.1"), ("d", "/10.0.0.1")], ["c-1", "c-2", "d-3"]),
    ([("pay/in", "/fd00::1"), ("pay/in", "/fd00::2")], ["pay-in-fd00--1", "pay-in-fd00--2"]),
    ([(None, None), ("", "/10.0.0.1")], ["member-unknown", "member-10.0.0.1"]),
]


@pytest.mark.parametrize(("clients", "expected"), PROPOSALS)
def test_the_shortest_name_that_tells_members_apart_is_proposed(
    clients: list[tuple[str | None, str | None]], expected: list[str]
) -> None:
    ids, _ = proposed(members(*clients))
    assert list(ids.values()) == expected
    assert why_unfit(ids) is None


def test_who_has_an_id_keeps_it_and_nobody_else_gets_it() -> None:
    found = dict(members(("a", "/h1"), ("a-2", "/h1")))
    found["m3"] = Member("id-3", instance_id="a", client_id="x", client_host="/h1")
    ids, _ = proposed(found)
    assert ids == {"m1": "a-h1", "m2": "a-2-h1", "m3": "a"}


def test_a_template_is_taken_as_it_is() -> None:
    ids, made_of = proposed(members(("a", "/h1"), ("b", "/h2")), "eu.{host}_{number}-{client}")
    assert list(ids.values()) == ["eu.h1_1-a", "eu.h2_2-b"]
    assert made_of == "--instance-id eu.{host}_{number}-{client}"
    alike, _ = proposed(members(("a", "/h1"), ("b", "/h2")), "worker")
    assert why_unfit(alike) == "'worker' would be the id of m1, m2"


@pytest.mark.parametrize(
    "template", ["{pod}", "{}", "{0}", "{client", "a b", "{client!r}", "{number:03}", "{client.x}"]
)
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match=r"expected a text with \{client\}, \{host\}, \{number\}"):
        proposed(members(("a", "/h1")), template)


@pytest.mark.parametrize("unfit", ["", ".", "..", "a" * 250, "a b", "ä"])
def test_what_kafka_does_not_take_is_unfit(unfit: str) -> None:
    assert why_unfit({"m1": unfit}) is not None
    assert why_unfit({"m1": "a" * 249}) is None
