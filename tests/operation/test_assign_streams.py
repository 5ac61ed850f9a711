"""Dry runs of streams groups: recorded ones, and what-ifs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.errors import UnfitError, UsageError
from kgroup.model.group import Task, TaskAssignment
from kgroup.operation.assign.dry_run import AssignRequest, Run, assign_group, bounced, settled
from kgroup.operation.assign.group import find_group, read_group
from kgroup.operation.assign.outcome import AssignPlan
from kgroup.operation.assign.spec import SpecError, read_spec
from kgroup.operation.assign.streams import STANDBY_SETTING, streams_spec
from kgroup.operation.assign.what_if import AddedMembers, Changes, changed
from kgroup.source.base import GroupSource
from kgroup.source.log.source import LogDir

RECORDED = Path(__file__).parents[1] / "data" / "kafka-4.3.1"
GROUP = "order-totals-streams"


def first(changes: Changes | None = None) -> AssignPlan:
    request = AssignRequest(changes=changes or Changes())
    (run,) = assign_group(LogDir([RECORDED]), GROUP, request).data
    assert isinstance(run, Run)
    return run.first


def test_the_target_that_the_coordinator_has_computed() -> None:
    """Computed once more it is the same."""
    _, group = find_group(LogDir([RECORDED]), GROUP)
    plan = first()
    assert plan.assignment is not None
    assert plan.standby is not None
    assert (plan.protocol, plan.strategy, plan.rebalance) == ("streams", "sticky", "incremental")
    for member in group.members:
        assert member.target_tasks is not None
        for kind, tasks in (("active", plan.assignment), ("standby", plan.standby)):
            has = [
                (task.subtopology_id, task.partition) for task in getattr(member.target_tasks, kind)
            ]
            assert sorted(tasks[member.member_id]) == has
    assert (plan.moves, plan.warnings) == ((), ())


def group(**fields: Any) -> GroupSpec:
    return read_spec(
        {
            "protocol": "streams",
            "subtopologies": {"0": {"tasks": 4, "stateful": True}},
            "standby_replicas": 1,
            "members": [
                {
                    "member_id": "m1",
                    "process_id": "p1",
                    "active": [["0", 0], ["0", 1]],
                    "standby": [["0", 2], ["0", 3]],
                },
                {
                    "member_id": "m2",
                    "process_id": "p2",
                    "active": [["0", 2], ["0", 3]],
                    "standby": [["0", 0], ["0", 1]],
                },
            ],
        }
        | fields
    )


def test_what_if() -> None:
    left = settled(changed(group(), Changes(remove=["m2"]))).first
    assert left.assignment == {"m1": tuple(("0", number) for number in range(4))}
    assert left.standby == {"m1": ()}, "one process has no standby of its own tasks"
    joined = settled(changed(group(), Changes(add=[AddedMembers()]))).first
    assert joined.assignment is not None
    assert joined.standby is not None
    assert sorted(map(len, joined.assignment.values())) == [1, 1, 2]
    tasks = [task for own in joined.standby.values() for task in own]
    assert sorted(tasks) == [("0", number) for number in range(4)]
    assert all(
        set(joined.assignment[name]).isdisjoint(joined.standby[name]) for name in joined.standby
    )
    none = settled(changed(group(), Changes(standbys=0))).first
    assert none.standby == {"m1": (), "m2": ()}


def test_a_restart() -> None:
    """The member has left before it is back: the others have had its tasks."""
    run = settled(changed(group(), Changes(restart=["m2"])))
    assert run.first.assignment is not None
    assert run.first.warnings == ()
    assert {name: len(own) for name, own in run.first.assignment.items()} == {"m1": 2, "new-1": 2}
    bounce = bounced(group())
    assert [len(run.first.moves) for run in bounce.runs] == [2, 2, 2, 2]
    assert not bounce.can_be_static


def test_several_changes() -> None:
    """The coordinator assigns when all have left: the two that stay get every other task.

    If it assigned in between, they would get two of the first three; so a warning says.
    """
    tasks = [["0", number] for number in range(12)]
    members = [{"member_id": f"m{at}", "active": tasks[at * 3 : at * 3 + 3]} for at in range(4)]
    spec = group(subtopologies={"0": {"tasks": 12}}, standby_replicas=0, members=members)
    run = settled(changed(spec, Changes(remove=["m0", "m1"])))
    assert run.first.assignment is not None
    assert {tuple(number for _, number in own) for own in run.first.assignment.values()} == {
        (0, 2, 4, 6, 7, 8),
        (1, 3, 5, 9, 10, 11),
    }
    assert [text[:35] for text in run.last.warnings] == ["The actual assignment may be differ"]
    assert settled(changed(spec, Changes(remove=["m0"]))).last.warnings == ()


def test_added_members_are_the_threads_of_one_instance() -> None:
    spec = changed(group(), Changes(add=[AddedMembers(2), AddedMembers()]))
    processes = [member.process_id for member in spec.members]
    assert processes[:2] == ["p1", "p2"]
    assert processes[2] == processes[3]
    assert len(set(processes)) == 4


def test_standby_tasks_whose_number_is_unknown() -> None:
    """Two processes have no room for a second standby task."""
    spec = group(standby_replicas=None)
    assert settled(changed(spec, Changes())).first.warnings == ()
    joined = Changes(add=[AddedMembers()])
    (warning, *_) = settled(changed(spec, joined)).first.warnings
    assert warning.startswith(f"{STANDBY_SETTING} is unknown")
    known = settled(changed(spec, replace(joined, standbys=1))).first
    assert not any(STANDBY_SETTING in text for text in known.warnings)


def test_the_number_of_standby_tasks_comes_from_the_cluster() -> None:
    class Cluster(GroupSource):
        def group_settings(self, group_id: str, names: object) -> dict[str, str]:
            assert (group_id, names) == (GROUP, [STANDBY_SETTING])
            return {STANDBY_SETTING: "2"}

    _, group = find_group(LogDir([RECORDED]), GROUP)
    spec = streams_spec(Cluster(), group, (), None, None)
    assert spec.streams is not None
    assert (spec.streams.standby_replicas, spec.streams.is_assumed) == (2, False)


def test_what_streams_groups_do_not_have() -> None:
    spec = group()
    for changes, message in (
        (Changes(partitions=[("0", 8)]), "not imitated in streams groups"),
        (Changes(connectors=[("0", 8)]), "streams groups have no connectors"),
        (Changes(add=[AddedMembers(instance_id="a")]), "have no instance="),
        (Changes(leader="m1"), "the coordinator assigns in streams groups"),
    ):
        with pytest.raises(UsageError, match=message):
            changed(spec, changes)
    classic = read_spec({"topics": {}, "members": [{"member_id": "m", "topics": []}]})
    with pytest.raises(UsageError, match="classic groups have no standby tasks"):
        changed(classic, Changes(standbys=1))
    with pytest.raises(UsageError, match="no strategy 'range'"):
        read_group(LogDir([RECORDED]), GROUP, strategy="range")
    _, read = find_group(LogDir([RECORDED]), GROUP)
    with pytest.raises(UnfitError, match="assigns no tasks now"):
        streams_spec(GroupSource(), replace(read, topology=None), (), None, None)


@pytest.mark.parametrize("kind", ["active", "standby"])
def test_a_task_of_an_impossible_number(kind: str) -> None:
    """A snapshot may have any number; one task for each smaller number would fill the memory."""
    _, read = find_group(LogDir([RECORDED]), GROUP)
    member, *others = read.members
    tasks = TaskAssignment(**{kind: (Task("0", 2**31 - 1),)})
    members = (replace(member, target_tasks=tasks), *others)
    with pytest.raises(UnfitError, match="expected tasks from 0 to 99999, found 2147483647"):
        streams_spec(GroupSource(), replace(read, members=members), (), None, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"members": []}, "members: expected at least one member"),
        ({"topics": {}}, "topics: unknown"),
        ({"subtopologies": None}, "subtopologies: expected an object"),
        ({"subtopologies": {"0": {"tasks": -1}}}, r"subtopologies.0.tasks: expected an integer"),
        ({"subtopologies": {"0": {"tasks": 1, "stateful": 2}}}, "stateful: expected true or false"),
        ({"standby_replicas": 101}, "standby_replicas: expected an integer"),
        ({"members": [{"member_id": "a", "active": [["0"]]}]}, r"members\[0\].active\[0\]: exp"),
    ],
)
def test_specs_that_are_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        group(**fields)
