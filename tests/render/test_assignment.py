"""Dry runs as objects for programs, as rows and as pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import bounced, compared, settled
from kgroup.operation.assign.outcome import AssignPlan
from kgroup.operation.assign.spec import read_spec
from kgroup.render.assignment import bounces_page, bounces_sheet, compared_page
from kgroup.render.assignment_object import run_object
from kgroup.render.form import page_text

UNLIKE = (("m1", ["t", "u"]), ("m2", ["t"]))


def test_the_lag_of_what_moves_from_a_member_that_has_left() -> None:
    members = [
        {"member_id": name, "topics": ["t"], "owned": [["t", number]], "generation": 1}
        for number, name in enumerate("abc")
    ]
    spec = read_spec({"strategy": "sticky", "topics": {"t": {"partitions": 3}}, "members": members})
    spec = what_if.changed(spec, what_if.Changes(remove=["a"], leader="b"))
    row = run_object(settled(replace(spec, lags={("t", 0): 7, ("t", 1): 100})))
    (move,) = row["moves"] or []
    assert (move["partition"], move["from"], move["lag"]) == (0, "a", 7)
    assert row["lag_moved"] == 7
    assert row["leader_id"] == "b"
    unknown = run_object(settled(spec))
    (move,) = unknown["moves"] or []
    assert (move["lag"], unknown["lag_moved"]) == (None, None)


def test_rows_of_a_rolling_restart_tell_members_of_one_client_id_apart() -> None:
    members = [
        {"member_id": f"{client}-{at}", "client_id": client, "topics": ["t"]}
        for at, client in enumerate(("rdkafka", "pay", "rdkafka"))
    ]
    spec = read_spec({"topics": {"t": {"partitions": 3}}, "members": members})
    bounce = bounced(spec)

    def steps(*names: str) -> list[str]:
        return [f"{name} {what}" for name in names for what in ("leaves", "comes back")]

    sheet = bounces_sheet([bounce])
    at = [column.name for column in sheet.columns].index("what")
    assert [row[at] for row in sheet.rows] == steps("rdkafka-0", "pay", "rdkafka-2")
    objects = [run_object(run) for run in bounce.runs]
    assert [each["what"] for each in objects] == steps("rdkafka", "pay", "rdkafka")


def spec_of(members: Sequence[tuple[str, Sequence[str]]], **more: Any) -> dict[str, Any]:
    return {
        "topics": {"t": {"partitions": 2}, "u": {"partitions": 2}},
        "members": [{"member_id": name, "topics": topics} for name, topics in members],
    } | more


def test_a_comparison_tells_the_library_and_each_warning_once() -> None:
    """KafkaJS deals the leader's topics to all in turn: t-0, t-1, u-0, u-1 of m1's to m1 and m2."""
    kafkajs = compared(read_spec(spec_of(UNLIKE, id="g", client="kafkajs")))
    page = "".join(page_text(compared_page(kafkajs)))
    table, facts = page.split("\n\n")
    assert table.startswith("rank  strategy ")
    computed, foreign, chance = facts.splitlines()
    assert computed == "computed as  kafkajs 2.2.4"
    assert foreign == "warning      Given to members that do not subscribe to the topic: u-1."
    assert chance.startswith("warning      The group may get another assignment than this one: ")
    java = compared(read_spec(spec_of(UNLIKE)))
    page = "".join(page_text(compared_page([*kafkajs, *java])))
    assert "\ng  warning      Given to members that do not subscribe" in page
    assert "4.3.1" not in page


def test_warnings_of_some_strategies_are_told_with_their_names() -> None:
    """What a leader of kafka-python 2.3 cannot assign is roundrobin among unlike members."""
    runs = compared(read_spec(spec_of(UNLIKE, client="kafka-python@2.3.3")))
    assert {run.first.strategy: run.error and run.error.type for run in runs} == {
        "range": None,
        "sticky": None,
        "roundrobin": "KeyError",
    }
    page = "".join(page_text(compared_page(runs)))
    assert page.count("warning      roundrobin: The group's leader fails with KeyError") == 1


def test_a_rolling_restart_tells_each_warning_with_its_rebalances() -> None:
    """When m1 has left, its topic u is nobody's; m2 leads then, which does not know it."""
    bounce = bounced(read_spec(spec_of(UNLIKE, client="kafkajs")))
    page = "".join(page_text(bounces_page([bounce])))
    nobody = "Given to nobody, though there are members that subscribe: u-0, u-1."
    assert f"warning   rebalance 2: {nobody}\n" in page
    assert page.count("The group may get another assignment") == 1
    many = replace(bounce, runs=tuple(replace(bounce.runs[0], first=plan) for plan in warning(12)))
    page = "".join(page_text(bounces_page([many])))
    assert "warning   rebalance 10: w9\nwarning   and 2 more, which -o json shows\n" in page


def warning(number: int) -> list[AssignPlan]:
    plan = AssignPlan(None, "classic", "range", "kafka-clients 4.3.1", "eager")
    return [replace(plan, warnings=(f"w{at}",)) for at in range(number)]
