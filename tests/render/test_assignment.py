"""Dry runs as objects for programs, as rows and as pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import bounced, compared, settled
from kgroup.operation.assign.outcome import AssignPlan, after, dry_run
from kgroup.operation.assign.spec import read_spec
from kgroup.operation.assign.what_if import AddedMembers
from kgroup.render.assignment import bounces_page, bounces_sheet, compared_page, grid_page
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
    assert foreign == "warning      Assigned to members that do not subscribe to the topic: u-1."
    assert chance.startswith("warning      The actual assignment may be different: ")
    java = compared(read_spec(spec_of(UNLIKE)))
    page = "".join(page_text(compared_page([*kafkajs, *java])))
    assert "\ng  warning      Assigned to members that do not subscribe" in page
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
    nobody = "Not assigned, although members subscribe: u-0, u-1."
    assert f"warning   rebalance 2: {nobody}\n" in page
    assert page.count("The actual assignment may be different") == 1
    many = replace(bounce, runs=tuple(replace(bounce.runs[0], first=plan) for plan in warning(12)))
    page = "".join(page_text(bounces_page([many])))
    assert "warning   rebalance 10: w9\nwarning   and 2 more, which -o json shows\n" in page


def warning(number: int) -> list[AssignPlan]:
    plan = AssignPlan(None, "classic", "range", "kafka-clients 4.3.1", "eager")
    return [replace(plan, warnings=(f"w{at}",)) for at in range(number)]


def group(members: Iterable[str], strategy: str = "sticky", **topics: int) -> GroupSpec:
    """A group that has been assigned once."""
    spec = GroupSpec(
        strategy,
        tuple(MemberSpec(name, tuple(topics), client_id=f"{name}-client") for name in members),
        {name: TopicMetadata(count) for name, count in topics.items()},
    )
    return after(spec, dry_run(spec))


def drawn(plan: AssignPlan, width: int = 80) -> list[str]:
    text = "".join(page_text(grid_page(plan, width)))
    assert "\x1b" not in text
    return text.splitlines()


def counted(lines: list[str]) -> Counter[str]:
    """Count the marks of cells; heads, blank lines and the legend aside."""
    rows = [match[1] for line in lines if (match := re.fullmatch(r"\S.*?  +([=+.* -]+)", line))]
    return Counter("".join(rows))


def test_a_small_group() -> None:
    plan = dry_run(what_if.remove_member(group("abc", t=6), "a"))
    assert drawn(plan) == [
        "                 t",
        "                 0",
        "b-client         +=..=.",
        "c-client         ..=+.=",
        "a-client (left)  -..-..",
        "",
        "= keeps   + gets   - gives up   . not its own",
    ]


def test_two_hundred_partitions_fit_eighty_columns() -> None:
    plan = dry_run(what_if.add_members(group("abcd", orders=200), AddedMembers(2)))
    lines = drawn(plan)
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.strip() == "orders"]) == 3
    heads = [line.split() for line in lines if re.fullmatch(r"[ \d]+", line)]
    assert [int(number) for head in heads for number in head] == list(range(0, 200, 10))
    marks = counted(lines)
    assert (marks["="], marks["-"]) == (plan.kept, len(plan.moves))
    assert marks["+"] == len(plan.moves)


@pytest.mark.parametrize("width", [30, 80, 200])
def test_every_partition_is_drawn_where_it_is(width: int) -> None:
    plan = dry_run(what_if.remove_member(group("abcde", t=37, u=5, v=64), "c"))
    lines = drawn(plan, width)
    assert max(map(len, lines[:-2])) <= width
    found: dict[tuple[str, int], set[tuple[str, str]]] = {}
    blocks = "\n".join(lines).split("\n\n")[:-1]
    for block in blocks:
        titles, ruler, *rows = block.splitlines()
        starts = [(match.start(), match[0]) for match in re.finditer(r"\S+", titles)]
        for start, topic in starts:
            first = int(ruler[start:].split()[0])
            for row in rows:
                for at, mark in enumerate(re.match(r"[=+.-]*", row[start:])[0]):  # type: ignore[index]
                    if mark != ".":
                        found.setdefault((topic, first + at), set()).add((row[0], mark))
    assert plan.assignment is not None
    for member, partitions in plan.assignment.items():
        for partition in partitions:
            kept = partition in plan.before[member]
            assert (member, "=" if kept else "+") in found.pop(partition)
    assert not found


def test_members_of_one_client_are_told_apart() -> None:
    names = [f"consumer-payments-1-{at:08x}-0000-4000-8000-0000000000ff" for at in (10, 11, 12)]
    spec = GroupSpec(
        "range", tuple(MemberSpec(name, ("t",)) for name in names), {"t": TopicMetadata(3)}
    )
    labels = [line.partition("  ")[0] for line in drawn(dry_run(spec))[2:5]]
    assert len(set(labels)) == 3
    assert max(map(len, labels)) <= 24


def test_a_member_that_comes_back_is_drawn_twice() -> None:
    plan = settled(what_if.restart_member(group("ab", "range", t=4), "a")).first
    assert drawn(plan)[2:5] == [
        "b-client         ..==",
        "a-client         ++..",
        "a-client (left)  --..",
    ]


def test_what_depends_on_an_unknown_id_has_a_sign() -> None:
    plan = settled(what_if.add_members(group("ab", t=6), AddedMembers(2))).first
    lines = drawn(plan)
    labels = [line.split("  ")[0] for line in lines[2:6]]
    assert labels == ["a-client", "b-client", "new-1 ?", "new-2 ?"]
    assert lines[-1].endswith("? depends on what is not known of new members")


def test_hundreds_of_members_fold_into_those_that_change() -> None:
    names = [f"m{number:03}" for number in range(300)]
    spec = group(names, "cooperative-sticky", t=600, u=600)
    plan = dry_run(what_if.remove_member(spec, "m007"))
    lines = drawn(plan)
    assert len(lines) < 60
    assert counted(lines)["+"] == counted(lines)["-"] == len(plan.moves) == 4
    assert sum("others" in line for line in lines) >= 1
    assert re.search(r"^\d+ partitions around which nothing moves are not drawn$", lines[-1])


def test_many_members_that_all_change_share_a_line() -> None:
    names = [f"m{number:03}" for number in range(90)]
    plan = dry_run(what_if.forget(group(names, "range", t=90)))
    (others, *_) = [line for line in drawn(plan, 200) if line.startswith("50 others")]
    assert counted([others]) == {".": 40, "+": 50}


def test_thousands_of_partitions_leave_out_what_stays() -> None:
    plan = dry_run(what_if.remove_member(group("abc", "range", t=3, u=30_000), "c"))
    lines = drawn(plan)
    assert lines[-1].endswith("more partitions are not drawn; -o json has all")
    assert len(lines) < 400


def test_topics_stand_side_by_side_as_far_as_there_is_room() -> None:
    topics = {f"topic-{at}": 4 for at in range(12)}
    plan = dry_run(group("ab", "sticky", **topics))
    heads = [line.split() for line in drawn(plan) if "topic-" in line]
    assert len(heads) == 2
    assert sorted(name for head in heads for name in head) == sorted(
        f"topic-{at}" for at in range(12)
    )


def test_colours_are_an_addition() -> None:
    plan = dry_run(what_if.remove_member(group("abc", t=6), "a"))
    coloured = "".join(page_text(grid_page(plan, 80), terminal=True))
    assert "\x1b[1;32m+" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert plain == "".join(page_text(grid_page(plan, 80)))


def test_names_that_could_harm_a_terminal_are_escaped() -> None:
    spec = GroupSpec("range", (MemberSpec("a\x1b[2J", ("t\n",)),), {"t\n": TopicMetadata(1)})
    lines = drawn(dry_run(spec))
    assert lines[0].split() == ["t\\n"]
    assert lines[2] == "a\\x1b[2J  +"
