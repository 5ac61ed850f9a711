"""Assignments drawn as members and partitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import settled
from kgroup.operation.assign.outcome import AssignPlan, after, dry_run
from kgroup.operation.assign.what_if import AddedMembers
from kgroup.render.assignment import grid_page
from kgroup.render.form import page_text


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
    assert lines[-1].endswith("? depends on an id that is not known")


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
