from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member, Membership
from kgroup.model.log_range import OffsetMark
from kgroup.operation.describe import GroupDescription, OffsetDescription, describe
from kgroup.operation.watch import Change, ChangeKind
from kgroup.render.cell import Kind, cell
from kgroup.render.form import page_text
from kgroup.render.group import (
    connect_sheet,
    last_stable_sheet,
    members_sheet,
    offsets_sheet,
    pending_sheet,
    share_sheet,
    topology_sheet,
)
from kgroup.render.group_page import SECTIONS, description_page
from kgroup.render.sheet import Sheet
from tests.examples import examples
from tests.field_log import groups_of
from tests.operation.sources import FakeSource
from tests.render.random_report import RandomReport

RECORDED_MS = 1_700_000_000_004


def page(group: GroupDescription, now_ms: int, changes: Sequence[Change] = ()) -> list[str]:
    parts = description_page([group], sections=SECTIONS, now_ms=now_ms, changes=changes)
    return "".join(page_text(parts)).splitlines()


@pytest.mark.parametrize(
    ("protocol_type", "assignor", "shown"),
    [
        ("consumer", "range", ["consumer, assignor range"]),
        ("share", None, ["share"]),
        (None, "range", ["assignor range"]),
        (None, None, []),
    ],
)
def test_an_assignor_that_is_not_known_is_not_told(
    protocol_type: str | None, assignor: str | None, shown: list[str]
) -> None:
    group = Group(
        "g", GroupType.CLASSIC, GroupState.EMPTY, protocol_type=protocol_type, assignor=assignor
    )
    (row,) = describe(FakeSource(group)).data
    facts = [line.split(maxsplit=1) for line in page(row, 0) if line]
    assert [text for name, text in facts if name == "protocol"] == shown


def rebalancing(before: Membership | None) -> GroupDescription:
    group = Group(
        "g",
        GroupType.CLASSIC,
        GroupState.PREPARING_REBALANCE,
        members=(Member("new"),),
        last_stable=before,
    )
    (row,) = describe(FakeSource(group)).data
    return row


def test_the_last_stable_membership_has_its_age_and_its_members() -> None:
    before = Membership(7, "old-1", "range", RECORDED_MS, (Member("old-1"), Member("old-2")))
    lines = page(rebalancing(before), RECORDED_MS + 200_500)
    (fact,) = [line for line in lines if line.startswith("last stable")]
    assert fact.split(maxsplit=2)[2] == (
        "generation 7, recorded 3 min 20 s ago, at 2023-11-14T22:13:20.004Z: 2 members, "
        "assignor range, leader old-1"
    )
    at = lines.index("Members of generation 7, the last one")
    assert lines[at + 1 : at + 4] == ["member_id", "old-1", "old-2"]
    assert lines.index("new") < at


def test_what_is_not_known_of_it_is_not_told() -> None:
    lines = page(rebalancing(Membership(None, None, None, None, ())), RECORDED_MS)
    (fact,) = [line for line in lines if line.startswith("last stable")]
    assert fact.endswith("generation unknown, recorded at an unknown time: no members")
    assert not [line for line in lines if line.startswith("Members of")]
    assert not [line for line in page(rebalancing(None), 0) if line.startswith("last stable")]


def members(*members: Member) -> list[str]:
    group = Group("g", GroupType.CONSUMER, GroupState.RECONCILING, members=members)
    (row,) = describe(FakeSource(group)).data
    lines = page(row, 0)
    return lines[next(at for at, line in enumerate(lines) if line.startswith("Members")) :]


def test_workers_of_connect_run_connectors_and_tasks() -> None:
    """What a worker says that it has, when it joins the next time, is what was shown."""
    shown: dict[object, tuple[object, object]] = {}
    delays, compared = {}, 0
    for group in groups_of("connect-delay"):
        (description,) = describe(FakeSource(group)).data
        sheet = connect_sheet(description.group)
        for member in group.members:
            told = (member.protocol_metadata or {}).get("allocation")
            if told is not None and member.member_id in shown:
                work = {each["connector"]: each["tasks"] for each in told["assignment"]}
                connectors = [name for name in sorted(work) if -1 in work[name]]
                tasks = [f"{name} 0" for name in sorted(work) if 0 in work[name]]
                assert shown[member.member_id] == (
                    ", ".join(connectors) or None,
                    "; ".join(tasks) or None,
                )
                compared += 1
        rows = list(sheet.rows)
        shown = {member_id: (connectors, tasks) for member_id, connectors, tasks, _ in rows}
        delays[group.generation_id] = {delay_ms for *_, delay_ms in rows}
    assert compared > 15
    assert delays[12] == {None}
    assert delays[13] == {60_000}


def test_a_page_shows_what_workers_of_connect_run() -> None:
    before = next(group for group in groups_of("connect-delay") if group.generation_id == 12)
    (row,) = describe(FakeSource(before)).data
    lines = page(row, 0)
    at = lines.index("Connectors and tasks")
    assert [line.split(None, 1)[1].split("  ") for line in lines[at + 2 : at + 4]] == [
        ["src2, src3", "src2 0; src3 0"],
        ["src1, src4", "src1 0; src4 0"],
    ]
    assert "Connectors and tasks" not in members(Member("a"))


ORDERS = tuple(AssignedPartition(None, "orders", number) for number in (0, 1))


def test_members_that_shall_own_what_nobody_owns_yet() -> None:
    title, head, *rows = members(
        Member("a", target_assignment=ORDERS[:1]), Member("b", target_assignment=ORDERS[1:])
    )
    assert title == "Members"
    assert head.split() == ["member_id", "target_assignment"]
    assert [row.split() for row in rows] == [["a", "orders", "0"], ["b", "orders", "1"]]


def test_a_target_that_is_reached_is_said_in_the_title() -> None:
    title, head, *_ = members(Member("a", assignment=ORDERS, target_assignment=ORDERS))
    assert title == "Members (all: target assignment reached)"
    assert head.split() == ["member_id", "assignment"]


def test_what_has_changed_is_shown_as_it_would_be_else() -> None:
    """A commit falls before the log, and a target is reached: columns come and go with that."""
    report = RandomReport(Random(0))
    offset = replace(report.one(OffsetDescription), topic="orders", log_start_offset=10, mark=None)
    group = report.one(GroupDescription)
    group = replace(
        group,
        group=replace(
            group.group, members=(Member("a", assignment=ORDERS, target_assignment=ORDERS),)
        ),
        offsets=(
            replace(offset, partition=0, mark=OffsetMark.BEFORE_START),
            replace(offset, partition=1),
        ),
    )
    found = (
        Change(0, group.group.group_id, ChangeKind.MARK, topic="orders", partition=0),
        Change(0, group.group.group_id, ChangeKind.ASSIGNMENT, member_id="a"),
    )
    shown = page(group, 0, found)
    assert sum(line.count("*") for line in shown) == len(found)
    assert [line.replace("*", " ").split() for line in shown] == [
        line.split() for line in page(group, 0)
    ]
    assert any("log_start_offset" in line.split() for line in shown)
    assert "Members (all: target assignment reached)" in shown


NOT_SHOWN = {"group_id", "topic_id", "log_start_offset", "next_timestamp_ms"}
"""Columns with rules of their own."""


def told(title: str, sheet: Sheet, lines: Sequence[str]) -> None:
    """See that all columns of a part that say something are in its table, or in its title."""
    rows = list(sheet.rows)
    if not rows:
        assert not [line for line in lines if line.partition(" (all: ")[0] == title]
        return
    at = next(at for at, line in enumerate(lines) if line.partition(" (all: ")[0] == title)
    head, common = lines[at + 1].split(), lines[at].partition(" (all: ")[2]
    values = dict(
        zip((column.name for column in sheet.columns), zip(*rows, strict=True), strict=True)
    )
    for column in sheet.columns:
        own = values[column.name]
        blank = {None} if column.kind is Kind.NAME else {None, ""}
        if column.name in NOT_SHOWN or blank.issuperset(own):
            continue
        is_reached = column.name == "target_assignment" and own == values["assignment"]
        if is_reached and "target assignment reached" in common:
            continue
        said = f", {column.title} {cell(own[0], column.kind)}"
        if len({*own}) == 1 and said in f", {common}":  # "lag 1" is not said by "time_lag 1 ms"
            assert len(rows) > 1
            assert column.title not in head
        else:
            assert column.title in head


@pytest.mark.parametrize("seed", range(examples(60)))
def test_what_all_rows_know_is_told(seed: int) -> None:
    group = RandomReport(Random(seed)).one(GroupDescription)
    lines = page(group, 0)
    told("Members", members_sheet([group]), lines)
    told("Offsets", offsets_sheet([group]), lines)
    told("Offsets of open transactions, not visible yet", pending_sheet(group.group), lines)
    told("Share offsets", share_sheet(group), lines)
    told("Topology", topology_sheet(group.group), lines)
    before = [at for at, line in enumerate(lines) if line.startswith("Members of generation")]
    assert bool(before) == bool(list(last_stable_sheet(group.group).rows))
