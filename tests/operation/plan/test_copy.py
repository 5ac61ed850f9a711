"""Steps that copy offsets: what is copied, of which groups, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from kgroup.errors import ExitStatus, InputError, UsageError
from kgroup.model.group import GroupState, GroupType
from kgroup.operation.offsets.plan import Result, carry_out
from kgroup.operation.plan.offset_copy import copy_of_step, plan_copy
from kgroup.operation.plan.plan import (
    Expected,
    MigrationTarget,
    OffsetCopy,
    Plan,
    PlannedMember,
    PlanStep,
    chosen_steps,
)
from kgroup.operation.plan.verify import StepProgress, verify_step
from tests.operation.offset_stores import At, Cluster, Store

COPY = OffsetCopy("kafka", "sql")
FIRST = replace(COPY, is_last=False, creates_table=True)
OFFSETS = {("orders", 0): 10, ("orders", 1): 20}


def plan_with(copies: OffsetCopy | None, group_id: str = "g") -> Plan:
    members = (PlannedMember("a", "m-0", None, "a", "/h"), PlannedMember("b", "m-1", None, "b", ""))
    is_stopped = copies is None or copies.is_last
    expected = Expected(state=GroupState.EMPTY if is_stopped else GroupState.STABLE)
    step = PlanStep(1, "A step", actions=("Stop it.",), copies=copies, expected=expected)
    return Plan(
        group_id,
        MigrationTarget.ASSIGNOR,
        None,
        "",
        GroupType.CLASSIC,
        "range",
        members,
        (),
        (step,),
    )


def check(
    members: int, stored: Mapping[At, int] | None, copies: OffsetCopy | None = COPY
) -> tuple[StepProgress, list[StepProgress], ExitStatus]:
    """Look at a group with so many members, beside a store with these offsets; None: there is none.

    The plan was made when the group had two members.
    """
    cluster = Cluster({"g": OFFSETS}, {}, {"g": members})

    @contextmanager
    def stores(copy: OffsetCopy, group_ids: tuple[str, ...]) -> Iterator[tuple[Cluster, Store]]:
        assert group_ids == ("g",)
        if stored is None:
            raise InputError("t_offset: no such table")
        yield cluster, Store({copy.new_id or "g": stored} if stored else {})

    report = verify_step(cluster, [plan_with(copies)], 1, open_stores=stores)
    (found,) = report.data
    return (
        found.progress,
        [condition.progress for condition in found.conditions],
        report.exit_status,
    )


def test_commands_do_what_is_planned() -> None:
    assert COPY.command("a b", "k-1:9092") == (
        "kgroup offsets copy kafka sql --group 'a b' -b k-1:9092 --execute"
    )
    copy = OffsetCopy("kafka", "sql:x.db", "new", "app.t", ("generation=gen",), creates_table=True)
    same = (
        "kafka sql:x.db --group g -b HOST:PORT --as new --sql-table app.t "
        "--sql-column generation=gen"
    )
    assert copy.command("g", "HOST:PORT") == f"kgroup offsets copy {same} --create-table --execute"
    assert copy.comparison("g", "HOST:PORT") == f"kgroup offsets diff {same}"


def test_a_stopped_group_is_copied_as_it_is() -> None:
    cluster, table = Cluster({"g": OFFSETS}, {}), Store({"g": {("orders", 0): 99}})
    plan = plan_copy(cluster, table, COPY, ["g"])
    assert [(row.target_offset, row.read_again) for row in plan.rows] == [(10, 89), (20, None)]
    assert carry_out(table, plan).exit_status is ExitStatus.DONE
    assert [offset.committed_offset for offset in table.offsets["g"]] == [10, 20]


def test_a_group_that_runs_is_not_copied_for_the_last_time() -> None:
    cluster, table = Cluster({"g": OFFSETS, "h": OFFSETS}, {}, {"g": 1}), Store({})
    plan = plan_copy(cluster, table, COPY, ["g", "h"], ("a note",))
    assert [(row.group_id, row.result) for row in plan.rows[::2]] == [
        ("g", Result.REFUSED),
        ("h", Result.PLANNED),
    ]
    assert [(problem.kind, problem.group_id) for problem in plan.problems] == [("active", "g")]
    assert (list(plan.changes), plan.notes) == (["h"], ("a note",))
    first = plan_copy(cluster, table, FIRST, ["g"])
    assert (list(first.changes), first.problems) == (["g"], ())


def test_that_a_group_runs_is_told_once() -> None:
    cluster = Cluster({"g": OFFSETS}, {}, {"g": 1})
    plan = plan_copy(Store({"g": {("orders", 0): 5}}), cluster, COPY, ["g"])
    assert [problem.kind for problem in plan.problems] == ["active"]
    assert [row.result for row in plan.rows] == [Result.REFUSED]
    same = plan_copy(cluster, cluster, COPY, ["g"])
    assert [problem.kind for problem in same.problems] == ["active"]


def test_the_step_of_several_groups_is_copied_together() -> None:
    plans = [plan_with(COPY), plan_with(None, "h"), plan_with(COPY, "i")]
    copy = copy_of_step(plans, 1)
    assert (copy.copy, copy.group_ids) == (COPY, ("g", "i"))
    assert copy.notes == (
        "step 1 for h copies no offsets, which is all that can be applied; do it by hand: A step. "
        "Stop it.",
    )
    assert copy_of_step(plans, 1, ["h"]).copy is None
    plans[2] = plan_with(replace(COPY, table="t"), "i")
    with pytest.raises(UsageError, match="name one of g, i"):
        copy_of_step(plans, 1)
    assert copy_of_step(plans, 1, ["i"]).group_ids == ("i",)
    renamed = replace(COPY, new_id="new")
    with pytest.raises(UsageError, match="name one of g, h"):
        copy_of_step([plan_with(renamed), plan_with(renamed, "h")], 1)


def test_a_step_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match="--step of at most 1, the last step of the plan, found 2"):
        chosen_steps([plan_with(COPY)], 2)
    with pytest.raises(UsageError, match="no plan for x; there are plans for g"):
        chosen_steps([plan_with(COPY)], 1, ["x"])
    with pytest.raises(InputError, match="expected a plan of a group"):
        chosen_steps([], 1)


@pytest.mark.parametrize(
    ("members", "stored", "progress"),
    [
        (2, None, "not-begun"),
        (2, OFFSETS, "not-begun"),  # they may be the same by chance
        (0, None, "not-begun"),
        (0, {}, "not-begun"),
        (0, {("orders", 0): 9, ("orders", 1): 19}, "not-begun"),
        (0, {("orders", 0): 10}, "half-done"),
        (0, {**OFFSETS, ("orders", 1): 21}, "half-done"),
        (1, OFFSETS, "half-done"),
        (0, OFFSETS, "done"),
        (0, {**OFFSETS, ("other", 0): 1}, "done"),
    ],
)
def test_the_last_copy_is_done_when_both_have_the_same(
    members: int, stored: Mapping[At, int] | None, progress: str
) -> None:
    found, _, status = check(members, stored)
    assert found == progress
    assert status is (ExitStatus.DONE if progress == "done" else ExitStatus.PROBLEM)


@pytest.mark.parametrize(
    ("stored", "progress"),
    [
        (None, "not-begun"),
        ({}, "not-begun"),
        ({("orders", 1): 1}, "half-done"),
        ({("orders", 0): 1, ("orders", 1): 1}, "done"),
    ],
)
def test_the_first_copy_is_done_when_there_is_something_of_each_partition(
    stored: Mapping[At, int] | None, progress: str
) -> None:
    for copies in (FIRST, replace(FIRST, new_id="new")):
        assert check(2, stored, copies)[:2] == (progress, ["done", progress])


@pytest.mark.parametrize(("members", "progress"), [(2, "not-begun"), (1, "half-done"), (0, "done")])
def test_a_group_is_stopped_when_it_has_no_members(members: int, progress: str) -> None:
    assert check(members, None, None)[:2] == (progress, [progress])
