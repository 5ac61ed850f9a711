"""The JSON objects of dry runs: types and values of the rows of `assign`."""

from __future__ import annotations

from typing import TypedDict

from kgroup.assignor.connect import CONNECTOR, as_sent
from kgroup.assignor.zookeeper import thread_name
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.dry_run import Bounce, Run
from kgroup.operation.assign.outcome import AssignFailure, AssignPlan, Balance, MemberOutcome, Move
from kgroup.operation.assign.zookeeper import Overlap, PartitionOwner

MoveObject = TypedDict(
    "MoveObject",
    {
        "topic": str,
        "partition": int | None,
        "from": str,
        "to": str | None,
        "lag": int | None,
        "depends_on_id": bool | None,
        "from_thread": str | None,
        "to_thread": str | None,
    },
)
MoveObject.__doc__ = """A partition whose owner changes.

Attributes:
    topic: topic name; of Connect the name of a connector, of Streams the id of a subtopology.
    partition: partition number; of Connect a task number, None for the connector itself.
    from: member id of the previous owner; the member may have left.
    to: member id of the new owner; None if the partition is only revoked, for now or for good.
    lag: lag of the partition, which the new owner has to catch up; in records; None if unknown.
    depends_on_id: whether the move depends on ids, or the order of topics, of new members; None if
        not checked.
    from_thread: id of the ZooKeeper consumer's thread that owned the partition; None if unknown,
        and for other groups.
    to_thread: id of the ZooKeeper consumer's thread that gets the partition; None if unknown, and
        for other groups.
"""


class OwnershipObject(TypedDict):
    """Owner of a partition of ZooKeeper consumers, and the owner that the algorithm computes.

    Attributes:
        topic: topic name.
        partition: partition number.
        owner: id of the thread that owns the partition now; consumer id if the thread is
            unknown; None without an owner.
        given: id of the thread to which the algorithm assigns the partition; id of the first
            consumer if several claim it; None if no thread gets it.
        is_as_given: whether the current owner is the computed one; as far as the owner is
            known.
    """

    topic: str
    partition: int
    owner: str | None
    given: str | None
    is_as_given: bool


class ConnectObject(TypedDict):
    """What a rebalance of Connect's workers leaves to do.

    Attributes:
        after_ms: time from the first rebalance to this one; in milliseconds.
        delay_ms: time to the next rebalance, which the leader schedules; in milliseconds; 0 if it
            schedules none.
        waiting: connectors and tasks that no worker runs until the next rebalance;
            `[connector, task]` pairs, the task of a connector itself is null.
    """

    after_ms: int
    delay_ms: int
    waiting: list[tuple[str, int | None]]


class StreamsObject(TypedDict):
    """What a rebalance of Streams threads with the classic protocol leaves to do.

    Attributes:
        after_ms: time from the first rebalance to this one; in milliseconds.
        delay_ms: time to the probing rebalance, which checks whether warm-up tasks have caught up;
            in milliseconds; 0 if none is scheduled.
        is_at_once: whether the next rebalance follows at once, in which active tasks go to other
            threads that have been revoked.
        waiting: active tasks that run nowhere until the next rebalance; `[subtopology, partition]`
            pairs.
    """

    after_ms: int
    delay_ms: int
    is_at_once: bool
    waiting: tuple[TopicPartition, ...]


class PlanObject(TypedDict):
    """A rebalance of a group.

    Attributes:
        id: group id; None if the spec has none.
        protocol: `classic`, `consumer`, `share`, `streams`, `classic-streams`, `connect` or
            `zookeeper`.
        strategy: assignment strategy.
        computed_as: library and version whose assignor is simulated; such as `kafka-clients
            4.3.1`.
        rebalance: `eager`, `cooperative` or `incremental`; eager: every member revokes all its
            partitions; cooperative: only the partitions that move; incremental: the coordinator
            moves partitions member by member.
        leader_id: member id of the leader, which computes the assignment; None if the
            coordinator computes it, or if the leader is unknown.
        error: exception of the assignor, or what happens to the leader's process; there is no
            assignment then, and the exit status is 4; None without an error.
        assignment: partitions by member id; `[topic, partition]` pairs in the assignor's order;
            of Connect `[connector, task]` pairs, where the task of a connector itself is null; None
            if the assignor fails.
        members: members before and after the rebalance; in the assignor's order; empty if the
            assignor fails.
        moves: partitions whose owner changes; by topic and partition; None if the assignor
            fails.
        kept: number of partitions that keep their owner; None if the assignor fails.
        balance: how even the assignment is; None if the assignor fails.
        rack_local: number of partitions whose member is in a rack of their replicas; None if
            racks are unknown.
        lag_moved: total of the known lags of partitions that move; in records; None if no lag
            is known.
        warnings: what is wrong or uncertain in the result; in sentences.
        threads: partitions by thread id of ZooKeeper consumers; `[topic, partition]` pairs,
            including idle threads; None for other groups.
        owners: current and computed owner of each partition of ZooKeeper consumers; None for
            other groups.
        overlaps: sets of ZooKeeper consumers whose topics overlap; None for other groups.
        connect: what a rebalance of Connect's workers leaves to do; None for other groups.
        standby: standby tasks of a streams group by member id, where `assignment` has the active
            ones; `[subtopology, partition]` pairs; None for other groups.
        streams: what a rebalance of Streams threads with the classic protocol leaves to do; None
            for other groups.
    """

    id: str | None
    protocol: str
    strategy: str
    computed_as: str
    rebalance: str
    leader_id: str | None
    error: AssignFailure | None
    assignment: dict[str, tuple[tuple[str, int | None], ...]] | None
    members: tuple[MemberOutcome, ...]
    moves: list[MoveObject] | None
    kept: int | None
    balance: Balance | None
    rack_local: int | None
    lag_moved: int | None
    warnings: tuple[str, ...]
    threads: dict[str, tuple[TopicPartition, ...]] | None
    owners: list[OwnershipObject] | None
    overlaps: tuple[Overlap, ...] | None
    connect: ConnectObject | None
    standby: dict[str, tuple[TopicPartition, ...]] | None
    streams: StreamsObject | None


class RunObject(PlanObject, total=False):
    """A rebalance of a group, and its follow-up rebalances.

    Attributes:
        what: cause of the rebalance; in `steps` of `--bounce`; absent elsewhere.
        following: follow-up rebalances; with `--settle`, `--compare` and `--bounce`; absent if
            there are none.
    """

    what: str
    following: list[PlanObject]


class StaticObject(TypedDict):
    """Cost of a rolling restart if all members are static.

    Attributes:
        rebalances: number of rebalances: 0.
        moves: number of times that a partition changes its owner: 0.
    """

    rebalances: int
    moves: int


class BounceObject(TypedDict):
    """A rolling restart of a group.

    Attributes:
        id, protocol, strategy, computed_as: as in `PlanObject`.
        error: exception of the assignor that ends the restart early; else None.
        dynamic_members: number of members that leave when they stop, and join as new members
            when they start.
        static_members: number of members with an instance id, of libraries with static
            membership; they cause no rebalance.
        rebalances: number of rebalances in the whole restart.
        moves: number of times that a partition changes its owner in the whole restart.
        with_static_members: cost of the restart if all members were static; None for groups
            without static membership (share groups, ZooKeeper consumers, libraries and versions
            without it, such as `kafka-clients 1.1.1`).
        steps: rebalances that each member causes; in order.
    """

    id: str | None
    protocol: str
    strategy: str
    computed_as: str
    error: AssignFailure | None
    dynamic_members: int
    static_members: int
    rebalances: int
    moves: int
    with_static_members: StaticObject | None
    steps: list[RunObject]


def assign_object(row: Run | Bounce) -> RunObject | BounceObject:
    """Return the object of a run or of a rolling restart."""
    return run_object(row) if isinstance(row, Run) else _bounce_object(row)


def run_object(run: Run) -> RunObject:
    """Return the object of a rebalance and its follow-up rebalances."""
    made = RunObject(**_plan_object(run.first))  # type: ignore[typeddict-item]  # may be absent
    if run.what is not None:
        made["what"] = run.what
    if run.following:
        made["following"] = [_plan_object(plan) for plan in run.following]
    return made


def _bounce_object(bounce: Bounce) -> BounceObject:
    return {
        "id": bounce.id,
        "protocol": bounce.protocol,
        "strategy": bounce.strategy,
        "computed_as": bounce.computed_as,
        "error": bounce.error,
        "dynamic_members": bounce.dynamic,
        "static_members": bounce.static,
        "rebalances": len(bounce.plans),
        "moves": bounce.moves,
        "with_static_members": {"rebalances": 0, "moves": 0} if bounce.can_be_static else None,
        "steps": [run_object(run) for run in bounce.runs],
    }


def _plan_object(plan: AssignPlan) -> PlanObject:
    threads, owners = plan.threads, plan.owners
    return {
        "id": plan.id,
        "protocol": plan.protocol,
        "strategy": plan.strategy,
        "computed_as": plan.computed_as,
        "rebalance": plan.rebalance,
        "leader_id": plan.leader_id,
        "error": plan.error,
        "assignment": None if plan.assignment is None else _assignment(plan),
        "members": plan.members,
        "moves": None if plan.assignment is None else [move_object(move) for move in plan.moves],
        "kept": plan.kept,
        "balance": plan.balance,
        "rack_local": plan.rack_local,
        "lag_moved": lag_moved(plan),
        "warnings": plan.warnings,
        "threads": None
        if threads is None
        else {thread_name(partition): partitions for partition, partitions in threads.items()},
        "owners": None if owners is None else [_ownership(owner) for owner in owners],
        "overlaps": plan.overlaps,
        "connect": None
        if plan.connect is None
        else {
            "after_ms": plan.connect.after_ms,
            "delay_ms": plan.connect.delay_ms,
            "waiting": [(name, task_number(task)) for name, task in plan.connect.waiting],
        },
        "standby": None if plan.standby is None else {**plan.standby},
        "streams": None
        if plan.streams is None
        else {
            "after_ms": plan.streams.after_ms,
            "delay_ms": plan.streams.delay_ms,
            "is_at_once": plan.streams.is_at_once,
            "waiting": plan.streams.waiting,
        },
    }


def _assignment(plan: AssignPlan) -> dict[str, tuple[tuple[str, int | None], ...]]:
    assignment = plan.assignment or {}
    if plan.connect is None:
        return {**assignment}
    return {
        worker: tuple((name, task_number(task)) for name, task in as_sent(items))
        for worker, items in assignment.items()
    }


def task_number(task: int) -> int | None:
    """Return the number of a task or partition; None for a connector itself."""
    return None if task == CONNECTOR else task


def lag_moved(plan: AssignPlan) -> int | None:
    """Return the total of the known lags of partitions that move; None if no lag is known."""
    known = [move.lag for move in plan.moves if move.lag is not None]
    return sum(known) if known else None


def move_object(move: Move) -> MoveObject:
    """Return the object of a partition whose owner changes."""
    return {
        "topic": move.topic,
        "partition": task_number(move.partition),
        "from": move.from_member,
        "to": move.to_member,
        "lag": move.lag,
        "depends_on_id": move.depends_on_id,
        "from_thread": _thread(move.from_member, move.from_thread),
        "to_thread": _thread(move.to_member, move.to_thread),
    }


def _thread(member_id: str | None, number: int | None) -> str | None:
    return None if member_id is None or number is None else thread_name((member_id, number))


def _ownership(partition: PartitionOwner) -> OwnershipObject:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "owner": None if partition.owner is None else _owner_name(*partition.owner),
        "given": None if partition.given is None else thread_name(partition.given),
        "is_as_given": partition.is_as_given,
    }


def _owner_name(member_id: str, number: int | None) -> str:
    return member_id if number is None else thread_name((member_id, number))
