"""Dry runs of streams groups (KIP-1071): the group as it was read, and its next target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kgroup.assignor.base import Assignment, TopicMetadata
from kgroup.assignor.group_spec import GroupSpec, StreamsTasks
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.server.streams import StreamsMember, StreamsTopology, assign
from kgroup.errors import UnfitError
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupState, Task, TaskAssignment
from kgroup.operation.assign.connect import MOST_TASKS
from kgroup.source.base import GroupSource

_T = TypeVar("_T")

STREAMS = "streams"
STANDBY_SETTING = "streams.num.standby.replicas"
"""Setting of a group: number of standby tasks of each stateful task."""


def streams_spec(
    source: GroupSource,
    group: Group,
    order: tuple[str, ...],
    strategy: str | None,
    asked: Software | None,
) -> GroupSpec:
    """Return the spec of a streams group.

    Args:
        source: source of the group, which may know its configuration.
        group: the group.
        order: member ids in the coordinator's order.
        strategy: requested assignor.
        asked: requested version of the coordinator.

    Raises:
        UnfitError: the group has no members, its topology is unknown or not ready, or it has a
            task of an impossible number.
    """
    if not group.members or group.topology is None or group.state is GroupState.NOT_READY:
        raise UnfitError.of_group(
            group.group_id,
            f"expected members and a topology whose topics exist, found {len(group.members)} "
            f"members (state {group.state}); the coordinator assigns no tasks now",
        )
    members = tuple(
        MemberSpec(
            member.member_id,
            (),
            instance_id=member.instance_id,
            client_id=member.client_id,
            rack=member.rack_id,
            host=member.client_host,
            owned=_items((member.target_tasks or TaskAssignment()).active),
            standby=_items((member.target_tasks or TaskAssignment()).standby),
            process_id=member.process_id or member.member_id,
        )
        for member in group.members
    )
    counts = Counter[str]()
    for member_id, (name, number) in (
        (spec.member_id, item) for spec in members for item in (*(spec.owned or ()), *spec.standby)
    ):
        if not 0 <= number < MOST_TASKS:
            raise UnfitError.of_group(
                group.group_id,
                f"expected tasks from 0 to {MOST_TASKS - 1}, found {number} of subtopology {name} "
                f"with member {member_id}",
            )
        counts[name] = max(counts[name], number + 1)
    stateful = frozenset(
        topology.subtopology_id
        for topology in group.topology.subtopologies
        if topology.state_changelog_topics
    )
    spec = GroupSpec(
        strategy or group.assignor or "sticky",
        members,
        {name: TopicMetadata(count) for name, count in counts.items()},
        STREAMS,
        asked,
        id=group.group_id,
        member_order=order,
    )
    spec = with_standbys(spec, stateful, None)
    if source.can(GroupSource.group_settings):
        setting = source.group_settings(group.group_id, [STANDBY_SETTING]).get(STANDBY_SETTING, "")
        if setting.isdecimal():
            spec = with_standbys(spec, stateful, int(setting))
    return spec


def with_standbys(spec: GroupSpec, stateful: frozenset[str], replicas: int | None) -> GroupSpec:
    """Set the subtopologies with standby tasks, and their number; None for as many as there are."""
    standbys = Counter(item for member in spec.members for item in member.standby)
    found = max(standbys.values(), default=0)
    processes = len({member.process_id for member in spec.members})
    # A task has fewer standbys than replicas if every process has it.
    is_assumed = replicas is None and bool(stateful) and found >= processes - 1
    return replace(
        spec, streams=StreamsTasks(stateful, found if replicas is None else replicas, is_assumed)
    )


def assign_tasks(spec: GroupSpec) -> tuple[Assignment, Mapping[str, tuple[TopicPartition, ...]]]:
    """Return active and standby tasks by member, after members left, then joined.

    The coordinator assigns at the first heartbeat after members have left, and when one has joined;
    but not again within `streams.assignment.interval.ms`, while more threads of its process join.
    """
    return _assigned_in_turn(spec, _steps(spec))


def streams_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield what makes the result uncertain."""
    streams = spec.streams
    assert streams is not None
    processes = len({_process(spec, member.member_id) for member in spec.members})
    if streams.is_assumed and processes > streams.standby_replicas + 1:
        yield (
            f"{STANDBY_SETTING} is unknown; {streams.standby_replicas} is assumed, the number of "
            "standby tasks that each task has now. More would not fit: each process already has "
            "one copy. --standbys says otherwise."
        )


def _steps(spec: GroupSpec) -> list[list[str]]:
    """Return the ids of the members at each assignment."""
    now = [member.member_id for member in spec.members if member.owned is not None]
    processes: dict[str, list[str]] = {}
    for member_id in _new(spec):
        processes.setdefault(_process(spec, member_id), []).append(member_id)
    steps = [now] if spec.departed or not processes else []
    for threads in processes.values():
        steps += [[*now, threads[0]]] * (len(threads) > 1)
        now = [*now, *threads]
        steps.append(now)
    return steps


def other_tasks(
    spec: GroupSpec,
) -> Iterator[tuple[Assignment, Mapping[str, tuple[TopicPartition, ...]]]]:
    """Yield active and standby tasks if members leave and join in other steps."""
    return (_assigned_in_turn(spec, steps) for steps in _other_joins(spec))


def _other_joins(spec: GroupSpec) -> Iterator[Sequence[Sequence[str]]]:
    new = _new(spec)
    now = [member.member_id for member in spec.members if member.owned is not None]
    gone = [member.member_id for member in spec.departed]
    processes = {_process(spec, member_id) for member_id in new}
    if len(processes) > (not gone):
        yield [[*now, *new]]
    one_by_one = [[*now, *new[: number + 1]] for number in range(len(new))]
    if len(processes) > 1:
        yield [*([now] if gone else ()), *one_by_one]
    for left in leaving_apart(tuple(now), tuple(gone)):
        yield [*left, *one_by_one]


def leaving_apart(stays: tuple[_T, ...], gone: tuple[_T, ...]) -> Iterator[list[tuple[_T, ...]]]:
    """Yield members at each assignment if those that leave do not leave between two heartbeats.

    They leave one by one, or in two parts, of which the first has up to three.
    """
    for order in (gone, gone[::-1]) if len(gone) > 1 else ():
        steps = [(*stays, *order[number:]) for number in range(1, len(order) + 1)]
        yield steps
        yield from ([step, stays] for step in steps[: min(3, len(order) - 1)])


def _states(spec: GroupSpec) -> dict[str, StreamsMember]:
    """Return members, before members left or joined, in the coordinator's order."""
    new = set(_new(spec))
    before = {
        member.member_id: StreamsMember(
            member.process_id or member.member_id, member.owned or (), member.standby
        )
        for member in (*spec.members, *spec.departed)
        if member.member_id not in new
    }
    ranks = {member_id: rank for rank, member_id in enumerate(spec.member_order)}
    return dict(sorted(before.items(), key=lambda item: ranks.get(item[0], len(ranks))))


def _assigned_in_turn(
    spec: GroupSpec, steps: Sequence[Sequence[str]]
) -> tuple[Assignment, Mapping[str, tuple[TopicPartition, ...]]]:
    states = _states(spec)
    for ids in filter(None, steps):
        staying = {name: state for name, state in states.items() if name in ids}
        joining = {name: StreamsMember(_process(spec, name)) for name in ids if name not in states}
        states = _assigned(spec, staying | joining)
    ids = [member.member_id for member in spec.members]
    return (
        {name: list(states[name].active) for name in ids},
        {name: tuple(states[name].standby) for name in ids},
    )


def _new(spec: GroupSpec) -> list[str]:
    return [member.member_id for member in spec.members if member.owned is None]


def _process(spec: GroupSpec, member_id: str) -> str:
    member = next(member for member in spec.members if member.member_id == member_id)
    return member.process_id or member_id


def _assigned(spec: GroupSpec, states: Mapping[str, StreamsMember]) -> dict[str, StreamsMember]:
    assert spec.streams is not None
    topology = StreamsTopology(
        {name: metadata.partitions for name, metadata in spec.topics.items()},
        spec.streams.stateful,
        spec.streams.standby_replicas,
    )
    active, standby = assign(states, topology)
    return {
        name: StreamsMember(state.process_id, active[name], standby[name])
        for name, state in states.items()
    }


def _items(tasks: tuple[Task, ...]) -> tuple[TopicPartition, ...]:
    return tuple((task.subtopology_id, task.partition) for task in tasks)
