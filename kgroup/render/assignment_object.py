"""The JSON objects of dry runs: what rows of `assign` are, as types and as values."""

from __future__ import annotations

from typing import TypedDict

from kgroup.assignor.base import TopicPartition
from kgroup.assignor.zookeeper import thread_name
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


class OwnershipObject(TypedDict):
    """Who has a partition of ZooKeeper consumers, and who should by the algorithm."""

    topic: str
    partition: int
    owner: str | None
    given: str | None
    is_as_given: bool


class PlanObject(TypedDict):
    """A rebalance."""

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
    """A rebalance, with those that follow of themselves inside."""

    what: str
    following: list[PlanObject]


class StaticObject(TypedDict):
    """What a rolling restart costs where all members are static."""

    rebalances: int
    moves: int


class BounceObject(TypedDict):
    """A rolling restart."""

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
