"""Dry runs of Kafka Connect clusters: the group as it was read, and a rebalance of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kgroup.assignor.base import Assignment, TopicMetadata
from kgroup.assignor.connect import (
    CONNECTOR,
    EAGER,
    ConnectCluster,
    LeaderMemory,
    WorkerAssignment,
    after_join,
    as_sent,
    assign_eager,
    assign_incremental,
    configured_items,
    java_sorted,
)
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.java_hash import hash_order
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.errors import InputError, UnfitError
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, Member
from kgroup.operation.report import first_names

CONNECT = "connect"
"""Protocol type of the workers' groups."""

MOST_TASKS = 100_000
"""Largest number of tasks of a connector; limits the memory use."""


@dataclass(frozen=True, slots=True)
class ConnectRebalance:
    """What a rebalance of a Connect cluster leaves to do.

    Attributes:
        after_ms: time from the first rebalance to this one.
        delay_ms: time to the next rebalance, which the leader schedules; 0 if it schedules none.
        waiting: connectors and tasks that no worker runs until the next rebalance.
        is_awaiting: whether the next rebalance comes when a worker that restarts is back.
        is_at_once: whether workers join again at once: what they revoked is given out then, or the
            tasks of new connectors.
        cluster: the cluster before the next rebalance.
    """

    after_ms: int
    delay_ms: int
    waiting: tuple[TopicPartition, ...]
    is_at_once: bool
    is_awaiting: bool
    cluster: ConnectCluster


def item_name(item: TopicPartition) -> str:
    """Return the name of a connector, or of a task, such as ``source-0``."""
    return item[0] if item[1] == CONNECTOR else f"{item[0]}-{item[1]}"


def assign_workers(spec: GroupSpec) -> tuple[Assignment, ConnectRebalance]:
    """Return what each worker runs after the next rebalance, in its own order, and what follows."""
    cluster = spec.connect
    assert cluster is not None
    memory = cluster.memory
    owned = {member.member_id: member.owned or () for member in spec.members_as_sent}
    configured = configured_items(
        {
            name: 0 if name in cluster.new_connectors else metadata.partitions
            for name, metadata in spec.topics.items()
        }
    )
    told: Mapping[str, WorkerAssignment] = {}
    if spec.strategy == EAGER:
        after = assign_eager(owned, configured)
        memory = LeaderMemory()
    else:
        sent = {worker: as_sent(items) for worker, items in owned.items()}
        told, memory = assign_incremental(
            sent, configured, memory, cluster.now_ms, cluster.max_delay_ms
        )
        after = {worker: after_join(items, told[worker]) for worker, items in owned.items()}
    running = {item for items in after.values() for item in items}
    revoked = frozenset(worker for worker, assignment in told.items() if assignment.revoked)
    new = frozenset(name for name in cluster.new_connectors if (name, CONNECTOR) in running)
    is_at_once = bool(revoked or new)
    rebalance = ConnectRebalance(
        cluster.now_ms - cluster.start_ms,
        memory.delay_ms,
        tuple(java_sorted(set(configured) - running)),
        is_at_once,
        bool(spec.returning) and not is_at_once,
        replace(
            cluster,
            memory=memory,
            now_ms=cluster.now_ms
            if is_at_once or spec.returning
            else max(cluster.now_ms, memory.scheduled_ms),
            new_connectors=cluster.new_connectors - new,
            reordered=cluster.reordered | revoked,
            has_memory=spec.strategy != EAGER,
            is_waiting_unknown=cluster.is_waiting_unknown and memory.delay_ms > 0,
        ),
    )
    return {worker: list(after[worker]) for worker in owned}, rebalance


def connect_warnings(spec: GroupSpec, rebalance: ConnectRebalance) -> Iterator[str]:
    """Yield what makes the result of a rebalance uncertain."""
    cluster = spec.connect
    assert cluster is not None
    memory, then = cluster.memory, rebalance.cluster.memory
    if spec.strategy == EAGER:
        return
    if cluster.is_waiting_unknown:
        yield (
            "A delay is in progress: what it keeps unassigned is unknown, except for what is "
            "shown as waiting. --connector NAME=TASKS names a connector that waits."
        )
    starts_delay = rebalance.delay_ms > 0 and memory.scheduled_ms == 0
    if starts_delay and cluster.is_delay_assumed and not then.has_revoked:
        yield (
            "The delay is the workers' scheduled.rebalance.max.delay.ms, which no request shows; "
            f"{cluster.max_delay_ms} ms is assumed. --max-delay says otherwise."
        )
    if starts_delay and then.has_revoked and cluster.has_memory:
        yield (
            "The delay is longer if the leader has postponed the balancing of the load before, "
            "which no request shows."
        )
    again = [
        member.member_id
        for member in spec.members
        if member.member_id in cluster.reordered
        and then.has_revoked
        and not then.revoked.isdisjoint(member.owned or ())
    ]
    if again:
        yield (
            f"Which connectors and tasks {first_names(again)} gives up is uncertain: it depends on "
            "the order in which the worker got them."
        )
    if spec.leader_id is None and cluster.has_memory and spec.departed:
        yield (
            "The leader is unknown. If it has left, the new leader reassigns what is lost at once, "
            "without a delay; --leader ID names it."
        )


def connect_spec(
    group: Group, strategy: str | None, asked: Software | None, now_ms: int
) -> GroupSpec:
    """Return the spec of a Connect cluster.

    Args:
        group: the group, after a complete rebalance.
        strategy: protocol to use instead of the group's own.
        asked: requested version of Connect.
        now_ms: time of the data, in epoch milliseconds.

    Raises:
        UnfitError: the group has no members.
        InputError: the metadata of a worker is unknown.
        UsageError: the strategy does not exist.
    """
    if not group.members:
        raise UnfitError.of_group(
            group.group_id,
            f"expected workers, found none (state {group.state}); --spec takes workers from a file",
        )
    for member in group.members:
        _check_worker(group, member)
    before = [_items(part(member.protocol_metadata, "allocation")) for member in group.members]
    given = [_given(member) for member in group.members]
    members = tuple(
        MemberSpec(
            member.member_id,
            (),
            client_id=member.client_id,
            host=member.client_host,
            owned=after_join(items, assignment),
            generation=group.generation_id,
        )
        for member, items, assignment in zip(group.members, before, given, strict=True)
    )
    told = [member.protocol_assignment for member in group.members]
    revoked = frozenset(item for assignment in given for item in assignment.revoked)
    running = frozenset(item for member in members for item in member.owned or ())
    delay_ms = max(each.get("delay") or 0 for each in told)
    ids = [member.member_id for member in members]
    since_ms = now_ms if group.state_timestamp_ms is None else group.state_timestamp_ms
    # A failed assignment (config mismatch) is none that the leader remembers.
    has_failed = any(each.get("error") for each in told)
    memory = LeaderMemory(
        frozenset() if has_failed else running,
        revoked,
        frozenset(ids),
        bool(revoked) and not delay_ms,
    )
    idle = [worker for worker, items in zip(ids, before, strict=True) if not items]
    leaders = {each.get("leader") for each in told} & set(ids)
    cluster = ConnectCluster(
        _during_delay(memory, idle, since_ms, delay_ms),
        max_delay_ms=delay_ms or ConnectCluster().max_delay_ms,
        start_ms=now_ms,
        now_ms=now_ms,
        reordered=frozenset(
            worker for worker, assignment in zip(ids, given, strict=True) if assignment.revoked
        ),
        has_memory=True,
        is_waiting_unknown=delay_ms > 0,
    )
    spec = GroupSpec(
        strategy or group.assignor or "",
        members,
        topics_of(running | revoked),
        CONNECT,
        asked,
        id=group.group_id,
        leader_id=leaders.pop() if len(leaders) == 1 else group.leader_id,
        member_order=group.member_order,
        connect=cluster,
    )
    return with_gaps_waiting(spec)


def _during_delay(
    memory: LeaderMemory, idle: Iterable[str], begin_ms: int, delay_ms: int
) -> LeaderMemory:
    """Return the memory in a delay, after which idle workers get what was lost; 0 for none."""
    if not delay_ms:
        return memory
    candidates = tuple(hash_order(hash_order(idle)))
    return replace(
        memory, candidates=candidates, scheduled_ms=begin_ms + delay_ms, delay_ms=delay_ms
    )


def connect_group(
    spec: GroupSpec, max_delay_ms: int | None, delay_left_ms: int | None
) -> GroupSpec:
    """Return a cluster whose leader has assigned what the workers run.

    Args:
        spec: workers and connectors.
        max_delay_ms: `scheduled.rebalance.max.delay.ms`; None if unknown.
        delay_left_ms: what is left of a delay in progress; None without one.
    """
    running = frozenset(item for member in spec.members for item in member.owned or ())
    cluster = ConnectCluster(has_memory=True)
    memory = LeaderMemory(running, members=frozenset(m.member_id for m in spec.members))
    idle = [member.member_id for member in spec.members if not member.owned]
    memory = _during_delay(memory, idle, cluster.now_ms, delay_left_ms or 0)
    cluster = replace(cluster, memory=memory)
    spec = with_gaps_waiting(replace(spec, connect=cluster))
    return spec if max_delay_ms is None else set_max_delay(spec, max_delay_ms)


def topics_of(items: Iterable[TopicPartition]) -> dict[str, TopicMetadata]:
    """Return connectors with their numbers of tasks."""
    tasks: dict[str, int] = {}
    for name, number in items:
        tasks[name] = max(tasks.get(name, 0), number + 1)
    return {name: TopicMetadata(count) for name, count in tasks.items()}


def with_gaps_waiting(spec: GroupSpec) -> GroupSpec:
    """Let what nobody runs wait, if a delay is in progress."""
    cluster = spec.connect
    assert cluster is not None
    if not cluster.memory.delay_ms:
        return spec
    counts = {name: metadata.partitions for name, metadata in spec.topics.items()}
    missing = frozenset(configured_items(counts)) - cluster.memory.revoked
    memory = replace(cluster.memory, assigned=cluster.memory.assigned | missing)
    return replace(spec, connect=replace(cluster, memory=memory))


def set_connector(spec: GroupSpec, name: str, tasks: int) -> GroupSpec:
    """Add a connector, or change its number of tasks; it is one that waits during a delay."""
    cluster = spec.connect
    assert cluster is not None
    is_new = name not in spec.topics and not cluster.memory.delay_ms
    cluster = replace(
        cluster,
        new_connectors=cluster.new_connectors | ({name} if is_new else set()),
        is_waiting_unknown=False,
    )
    topics = {**spec.topics, name: TopicMetadata(tasks)}
    return with_gaps_waiting(replace(spec, topics=topics, connect=cluster))


def set_max_delay(spec: GroupSpec, delay_ms: int) -> GroupSpec:
    """Set `scheduled.rebalance.max.delay.ms`."""
    assert spec.connect is not None
    cluster = replace(spec.connect, max_delay_ms=delay_ms, is_delay_assumed=False)
    return replace(spec, connect=cluster)


def at_end_of_delay(spec: GroupSpec) -> GroupSpec:
    """Let the next rebalance be the one at the end of a delay in progress, if there is one."""
    cluster = spec.connect
    assert cluster is not None
    now_ms = max(cluster.now_ms, cluster.memory.scheduled_ms)
    return replace(spec, connect=replace(cluster, now_ms=now_ms))


def during_delay(spec: GroupSpec, last: ConnectRebalance) -> GroupSpec:
    """Let the next rebalance come right after the last one, before the end of a delay."""
    assert spec.connect is not None
    now_ms = spec.connect.start_ms + last.after_ms
    return replace(spec, connect=replace(spec.connect, now_ms=now_ms))


def _check_worker(group: Group, member: Member) -> None:
    metadata, assignment = member.protocol_metadata, member.protocol_assignment
    for data, name in ((metadata, "configOffset"), (assignment, "assignment")):
        if not isinstance(data, Mapping) or name not in data or not _is_decoded(data):
            raise InputError.of_group(
                group.group_id,
                f"expected the metadata and assignment of worker {member.member_id}, found none "
                f"that can be read (state {group.state}). Try again when the rebalance is complete",
            )
    for each in (part(metadata, "allocation"), assignment):
        for number in (number for _, number in (*_items(each), *_items(each, "revoked"))):
            if not CONNECTOR <= number < MOST_TASKS:
                raise UnfitError.of_group(
                    group.group_id,
                    f"expected tasks up to {MOST_TASKS - 1}, found {number} with worker "
                    f"{member.member_id}",
                )


def _is_decoded(data: Mapping[str, Any]) -> bool:
    """Return whether fields have the types that decoders give them; snapshots may be edited."""
    works = [
        rows
        for each in (data, part(data, "allocation") or {})
        for name in ("assignment", "revoked")
        if (rows := part(each, name)) is not None
    ]
    return (
        isinstance(data.get("delay"), int | None)
        and isinstance(data.get("leader"), str | None)
        and all(isinstance(rows, list | tuple) and all(map(_is_row, rows)) for rows in works)
    )


def _is_row(row: Any) -> bool:
    tasks = part(row, "tasks") or []
    return (
        isinstance(part(row, "connector"), str)
        and isinstance(tasks, list | tuple)
        and all(type(number) is int for number in tasks)
    )


def part(data: Any, name: str) -> Any:
    """Return a field of decoded bytes; None if these are something else, or have no such field."""
    return data.get(name) if isinstance(data, Mapping) else None


def _given(member: Member) -> WorkerAssignment:
    told = member.protocol_assignment
    return WorkerAssignment(_items(told), frozenset(_items(told, "revoked")))


def _items(assignment: Any, name: str = "assignment") -> tuple[TopicPartition, ...]:
    """Return connectors and tasks in the order of a decoded assignment."""
    rows: Sequence[Any] = part(assignment, name) or ()
    return tuple((row["connector"], number) for row in rows for number in row["tasks"] or ())
