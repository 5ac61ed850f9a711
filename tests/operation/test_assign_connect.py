"""Dry runs of Connect clusters: what a recorded cluster did, and what-ifs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.errors import InputError, NotFoundError, UnfitError, UsageError
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group
from kgroup.operation.assign.connect import connect_spec
from kgroup.operation.assign.dry_run import bounced, settled
from kgroup.operation.assign.outcome import AssignPlan
from kgroup.operation.assign.spec import SpecError, read_spec
from kgroup.operation.assign.what_if import AddedMembers, Changes, changed
from tests.field_log import groups_of

DELAY_MS = 60_000
Shares = Mapping[str, set[TopicPartition]]


def recorded() -> Mapping[int | None, Group]:
    """Return a recorded cluster with `sessioned`, by generation."""
    return {group.generation_id: group for group in groups_of("connect-delay")}


def spec_of(group: Group) -> GroupSpec:
    assert group.state_timestamp_ms is not None
    return connect_spec(group, None, None, group.state_timestamp_ms)


def recorded_shares(group: Group) -> Shares:
    """Return what each worker of a recorded generation runs: what it kept, and what it got."""
    shares = {}
    for member in group.members:
        told, had = member.protocol_assignment, member.protocol_metadata["allocation"]
        revoked, started = _items(told["revoked"]), _items(told["assignment"])
        shares[member.member_id] = (_items((had or {}).get("assignment")) - revoked) | started
    return shares


def _items(rows: list[dict[str, Any]] | None) -> set[TopicPartition]:
    return {(row["connector"], task) for row in rows or () for task in row["tasks"]}


def shares(plan: AssignPlan) -> Shares:
    assert plan.assignment is not None
    return {worker: set(items) for worker, items in plan.assignment.items()}


def with_worker(spec: GroupSpec, member_id: str) -> GroupSpec:
    return replace(spec, members=(*spec.members, MemberSpec(member_id, ())))


def test_the_leader_leaves() -> None:
    """The next leader remembers nothing: what its predecessor ran does not wait."""
    groups = recorded()
    spec = spec_of(groups[9])
    run = settled(changed(spec, Changes(remove=["worker-2"])))
    assert spec.leader_id is not None
    assert spec.leader_id.startswith("worker-2")
    assert shares(run.first) == recorded_shares(groups[10])
    assert not run.following
    assert run.first.connect is not None
    assert (run.first.connect.delay_ms, run.first.connect.waiting) == (0, ())


@pytest.mark.parametrize("alone", [True, False])
def test_a_worker_joins_after_the_leader_has_left(*, alone: bool) -> None:
    """The next leader gives all to who is there; in a single rebalance, it gives out the rest."""
    groups = recorded()
    joins = AddedMembers(client_id="worker-2")
    spec = changed(spec_of(groups[9]), Changes(remove=["worker-2"], add=[joins]))
    run = settled(spec, alone=alone)
    ends = settled(spec).last
    new = {m.member_id for m in groups[11].members} - {m.member_id for m in groups[10].members}
    found = {"new-1" if m in new else m: own for m, own in recorded_shares(groups[12]).items()}
    assert shares(ends) != found
    (warning,) = run.last.warnings
    assert warning.endswith(
        "If the others have rejoined before a new worker joins, there are several."
    )
    # Without a new leader, what has no worker waits until the end of the delay in any case.
    changes = Changes(remove=["worker-2"], add=[joins], max_delay_ms=DELAY_MS)
    other = changed(spec_of(groups[12]), changes)
    assert other.leader_id is not None
    assert not settled(other, alone=alone).last.warnings


def test_a_worker_joins() -> None:
    """What the other one has too much of is revoked, and given out in the next rebalance."""
    groups = recorded()
    (new,) = {m.member_id for m in groups[11].members} - {m.member_id for m in groups[10].members}
    run = settled(with_worker(spec_of(groups[10]), new))
    first, second = run.plans
    assert shares(first) == recorded_shares(groups[11])
    assert shares(second) == recorded_shares(groups[12])
    assert first.connect is not None
    assert set(first.connect.waiting) == {("src4", -1), ("src4", 0), ("src1", -1), ("src1", 0)}
    assert first.connect.is_at_once


def test_the_rebalance_after_a_revocation() -> None:
    groups = recorded()
    run = settled(changed(spec_of(groups[11]), Changes()))
    assert shares(run.first) == recorded_shares(groups[12])


def test_a_worker_leaves() -> None:
    """What it ran waits for the delay."""
    groups = recorded()
    (left,) = {m.member_id for m in groups[12].members} - {m.member_id for m in groups[13].members}
    run = settled(changed(spec_of(groups[12]), Changes(remove=[left], max_delay_ms=DELAY_MS)))
    first, second = run.plans
    assert shares(first) == recorded_shares(groups[13])
    assert shares(second) == recorded_shares(groups[14])
    assert first.connect is not None
    assert first.connect.delay_ms == groups[13].connect_delay_ms == DELAY_MS
    assert set(first.connect.waiting) == {("src4", -1), ("src4", 0), ("src1", -1), ("src1", 0)}
    assert second.connect is not None
    assert second.connect.after_ms == DELAY_MS
    assert first.warnings == ()
    (warning,) = settled(changed(spec_of(groups[12]), Changes(remove=[left]))).first.warnings
    assert "300000 ms is assumed" in warning


def test_a_delay_in_progress() -> None:
    """What waits is unknown, unless it is named; a worker that comes back gets it."""
    groups = recorded()
    spec = spec_of(groups[13])
    (warning,) = settled(changed(spec, Changes())).first.warnings
    assert warning.startswith("A delay is in progress: ")
    named = Changes(connectors=[("src1", 1), ("src4", 1)])
    run = settled(changed(spec, named))
    assert run.first.warnings == ()
    assert shares(run.first) == recorded_shares(groups[14])
    assert run.first.connect is not None
    assert run.first.connect.after_ms == DELAY_MS
    back = settled(with_worker(changed(replace(spec), replace(named, remove=[])), "back"))
    assert shares(back.last)["back"] == {("src4", -1), ("src4", 0), ("src1", -1), ("src1", 0)}


def test_connectors_are_created_and_deleted() -> None:
    """A worker that starts a connector defines its tasks, which the next rebalance gives out."""
    spec = spec_of(recorded()[12])
    first, second = settled(changed(spec, Changes(connectors=[("new", 4)]))).plans
    names = [{name for _, name in items} for items in (_of(first, "new"), _of(second, "new"))]
    assert names == [{-1}, {-1, 0, 1, 2, 3}]
    assert [len(_of(first, "new")), len(_of(second, "new"))] == [1, 5]
    grown = settled(changed(spec, Changes(connectors=[("src1", 3)])))
    assert {task for _, task in _of(grown.first, "src1")} == {-1, 0, 1, 2}
    dropped = settled(changed(spec, Changes(drop_connectors=["src1"])))
    assert not _of(dropped.first, "src1")
    assert len(dropped.plans) > 1  # workers stop it, and join again
    with pytest.raises(NotFoundError, match="no connector src9"):
        changed(spec, Changes(drop_connectors=["src9"]))


def _of(plan: AssignPlan, connector: str) -> list[tuple[str, int]]:
    return [
        (worker, task)
        for worker, items in (plan.assignment or {}).items()
        for name, task in items
        if name == connector
    ]


def test_what_ifs_of_other_groups() -> None:
    spec = spec_of(recorded()[12])
    for changes, message in (
        (Changes(partitions=[("src1", 2)]), "see --connector"),
        (Changes(subscribe=[("worker-1", ["src1"])]), "see --connector"),
        (Changes(add=[AddedMembers(topics=("a",))]), "have no topics="),
        (Changes(add=[AddedMembers(instance_id="a")]), "have no instance="),
    ):
        with pytest.raises(UsageError, match=message):
            changed(spec, changes)
    classic = read_spec({"topics": {}, "members": [{"member_id": "m", "topics": []}]})
    for changes in (Changes(connectors=[("a", 1)]), Changes(max_delay_ms=0)):
        with pytest.raises(UsageError, match="classic groups have no connectors"):
            changed(classic, changes)


def cluster(**fields: Any) -> GroupSpec:
    return read_spec(
        {
            "protocol": "connect",
            "connectors": {"src": 4},
            "leader": "w1",
            "max_delay_ms": 1000,
            "members": [
                {"member_id": "w1", "owned": [["src", None], ["src", 0], ["src", 1]]},
                {"member_id": "w2", "owned": [["src", 2], ["src", 3]]},
            ],
        }
        | fields
    )


def test_specs() -> None:
    run = settled(changed(cluster(), Changes(restart=["w2"])))
    without, back, last = run.plans
    assert without.connect is not None
    assert back.connect is not None
    assert last.connect is not None
    assert list(shares(without)) == ["w1"]
    assert without.connect.is_awaiting
    assert without.connect.waiting == back.connect.waiting == (("src", 2), ("src", 3))
    assert (back.connect.after_ms, last.connect.after_ms) == (0, 1000)
    assert shares(last)["new-1"] == {("src", 2), ("src", 3)}
    alone = settled(changed(cluster(), Changes(remove=["w1"], restart=["w2"])))
    assert list(shares(alone.first)) == ["new-1"]
    at_once = settled(changed(cluster(max_delay_ms=0), Changes(remove=["w2"])))
    assert shares(at_once.first) == {"w1": {("src", task) for task in range(-1, 4)}}
    left = settled(changed(cluster(delay_left_ms=300, connectors={"src": 5}), Changes()))
    assert left.first.connect is not None
    assert left.first.connect.after_ms == 300
    assert ("src", 4) in set().union(*shares(left.first).values())
    eager = settled(changed(cluster(strategy="default"), Changes(remove=["w2"])))
    assert shares(eager.first) == {"w1": {("src", task) for task in range(-1, 4)}}
    assert (eager.first.rebalance, eager.following) == ("eager", ())


def test_a_leader_that_is_unknown() -> None:
    spec = cluster(leader=None)
    (warning,) = settled(changed(spec, Changes(remove=["w2"]))).first.warnings
    assert warning.startswith("The leader is unknown.")
    known = settled(changed(spec, Changes(remove=["w2"], leader="w1")))
    assert known.first.warnings == ()
    assert len(known.plans) == 2


def test_a_rolling_restart() -> None:
    """A worker is back before the delay ends; so it runs what it ran, but for the leader."""
    bounce = bounced(cluster())
    assert [run.what for run in bounce.runs] == [
        *("w1 leaves", "w1 comes back", "w2 leaves", "w2 comes back")
    ]
    leaves, back = bounce.runs[2:]
    assert leaves.first.connect is not None
    assert back.first.connect is not None
    assert leaves.first.connect.waiting == back.first.connect.waiting != ()
    assert back.first.connect.after_ms == leaves.first.connect.after_ms
    assert back.last.connect is not None
    assert back.last.connect.after_ms == leaves.first.connect.after_ms + 1000
    assert not bounce.can_be_static


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"members": []}, "members: expected at least one worker"),
        ({"leader": "w9"}, "leader: no member has the id 'w9'"),
        ({"topics": {}}, "topics: unknown"),
        ({"connectors": {"src": -1}}, "connectors.src: expected an integer"),
        ({"strategy": "range"}, "strategy: expected one of sessioned, compatible, default"),
        ({"members": [{"member_id": "w1", "owned": [["src"]]}]}, r"members\[0\].owned\[0\]: exp"),
        ({"members": [{"member_id": "w1", "owned": [["src", -1]]}]}, r"owned\[0\]\[1\]: exp"),
        ({"members": [{"member_id": "w1"}, {"member_id": "w1"}]}, r"members\[1\].member_id"),
    ],
)
def test_specs_that_are_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        cluster(**fields)


def test_groups_that_cannot_be_read() -> None:
    group = recorded()[12]
    with pytest.raises(UnfitError, match="expected workers, found none"):
        spec_of(replace(group, members=()))
    unread = replace(group.members[0], protocol_assignment={"raw": ""})
    with pytest.raises(InputError, match=f"assignment of worker {unread.member_id}, found none"):
        spec_of(replace(group, members=(unread,)))
    told = group.members[0].protocol_assignment
    many = told | {"assignment": [{"connector": "src", "tasks": [1 << 30]}]}
    large = replace(group.members[0], protocol_assignment=many)
    with pytest.raises(UnfitError, match="expected tasks up to 99999"):
        spec_of(replace(group, members=(large,)))


@pytest.mark.parametrize(
    "changes",
    [
        {"assignment": ["src"]},
        {"assignment": [{}]},
        {"assignment": [{"connector": None, "tasks": [0]}]},
        {"assignment": [{"connector": "src", "tasks": ["0"]}]},
        {"assignment": [{"connector": "src", "tasks": 1}]},
        {"revoked": True},
        {"delay": "60000"},
        {"leader": {}},
    ],
)
def test_work_of_an_edited_snapshot(changes: dict[str, Any]) -> None:
    group = recorded()[12]
    for before in group.members:
        edited = replace(before, protocol_assignment=before.protocol_assignment | changes)
        with pytest.raises(InputError, match=f"assignment of worker {edited.member_id}, found"):
            spec_of(replace(group, members=(edited,)))
