"""The JSON objects of dry runs: what rows of `assign` are, as types and as values."""

from __future__ import annotations

from typing import TypedDict

from kgroup.assignor.zookeeper import thread_name
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.dry_run import Bounce, Run
from kgroup.operation.assign.outcome import AssignFailure, AssignPlan, Balance, MemberOutcome, Move
from kgroup.operation.assign.zookeeper import Overlap, PartitionOwner

MoveObject = TypedDict(
    "MoveObject",
    {
        "topic": str,
        "partition": int,
        "from": str,
        "to": str | None,
        "lag": int | None,
        "depends_on_id": bool | None,
        "from_thread": str | None,
        "to_thread": str | None,
    },
)
MoveObject.__doc__ = """A partition that changes hands.

Attributes:
    topic: name of the topic.
    partition: partition of that topic.
    from: id of the member that had it; it may have left.
    to: id of the member that gets it; None where it is only revoked for now, or for good.
    lag: records that the new owner has to catch up with; None where that is not known.
    depends_on_id: whether it depends on the unknown id of a new member; None where it was not found
        out.
    from_thread: zookeeper: id of the thread that had it; None where that is not known, and of
        others.
    to_thread: zookeeper: id of the thread that gets it; likewise.
"""


class OwnershipObject(TypedDict):
    """Who has a partition of ZooKeeper consumers, and who should by the algorithm.

    Attributes:
        topic: name of the topic.
        partition: partition of that topic.
        owner: thread that owns it now; its id, or that of the consumer where the thread is not
            known; None where nobody does.
        given: thread that the algorithm gives it to; its id, or that of the first consumer where
            several take it; None where nobody gets it.
        is_as_given: whether the two are the same; as far as the owner is known.
    """

    topic: str
    partition: int
    owner: str | None
    given: str | None
    is_as_given: bool


class PlanObject(TypedDict):
    """A rebalance of a group.

    Attributes:
        id: id of the group; None where a spec has none.
        protocol: `classic`, `consumer`, `share` or `zookeeper`.
        strategy: strategy by which it is assigned.
        computed_as: what is imitated, with its version; as in `kafka-clients 4.3.1`.
        rebalance: `eager`, `cooperative` or `incremental`; every member gives up everything, or
            only what moves, or the coordinator moves member by member.
        leader_id: id of the member that assigns; None where the coordinator does, or it is not
            known.
        error: exception that the assignor itself throws, or what becomes of the leader's process;
            then there is no assignment, and the exit status is 4; else None.
        assignment: partitions by member id; `[topic, partition]` pairs in the assignor's order;
            None where the assignor fails.
        members: members before and after; in the assignor's order; none where the assignor fails.
        moves: partitions that change hands; by topic and partition; None where the assignor fails.
        kept: partitions that stay; None where the assignor fails.
        balance: how even the assignment is; None where the assignor fails.
        rack_local: partitions with a member in a rack of their replicas; None where no racks are
            known.
        lag_moved: sum of the known lags of what moves; in records; None where none is known.
        warnings: what is unsound or uncertain in the answer; in sentences.
        threads: zookeeper: partitions by thread id; `[topic, partition]` pairs, idle threads too;
            None of others.
        owners: zookeeper: who owns each partition now, and who should; None of others.
        overlaps: zookeeper: sets of consumers whose topics overlap; None of others.
    """

    id: str | None
    protocol: str
    strategy: str
    computed_as: str
    rebalance: str
    leader_id: str | None
    error: AssignFailure | None
    assignment: dict[str, tuple[TopicPartition, ...]] | None
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


class RunObject(PlanObject, total=False):
    """A rebalance of a group, with those that follow of themselves inside.

    Attributes:
        what: why the rebalance happens; in `steps` of `--bounce`; absent elsewhere.
        following: rebalances that follow of themselves; with `--settle`, `--compare` and
            `--bounce`; absent where none does.
    """

    what: str
    following: list[PlanObject]


class StaticObject(TypedDict):
    """What a rolling restart costs where all members are static.

    Attributes:
        rebalances: number of rebalances there would be: 0.
        moves: how often a partition would be taken from a member: 0.
    """

    rebalances: int
    moves: int


class BounceObject(TypedDict):
    """A rolling restart of a group.

    Attributes:
        id, protocol, strategy, computed_as: as in `PlanObject`.
        error: exception that the assignor throws, where the restart ends early; else None.
        dynamic_members: members that leave when they stop, and are new when they start.
        static_members: members with an instance id, of libraries that have static members; they
            cause no rebalance.
        rebalances: number of rebalances in the whole restart.
        moves: how often a partition is taken from a member in the whole restart.
        with_static_members: what it would cost if all members were static; None where groups have
            no such members (share groups, ZooKeeper consumers, libraries and versions without them,
            as `kafka-clients 1.1.1`).
        steps: what each member sets off; in order.
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
    """Make the object of a run or of a rolling restart."""
    return run_object(row) if isinstance(row, Run) else _bounce_object(row)


def run_object(run: Run) -> RunObject:
    """Make the object of a rebalance and those that follow."""
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
        "assignment": None if plan.assignment is None else {**plan.assignment},
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
    }


def lag_moved(plan: AssignPlan) -> int | None:
    """Sum up the known lags of what moves; None where none is known."""
    known = [move.lag for move in plan.moves if move.lag is not None]
    return sum(known) if known else None


def move_object(move: Move) -> MoveObject:
    """Make the object of a partition that changes hands."""
    return {
        "topic": move.topic,
        "partition": move.partition,
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
