"""Dry runs of several rebalances: what follows of itself, all strategies, a rolling restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from kgroup.assignor.base import TopicPartition
from kgroup.assignor.spec import GroupSpec, MemberSpec
from kgroup.assignor.strategy import computed_as, has_static_members, strategies
from kgroup.operation.assign import unknown_id
from kgroup.operation.assign.outcome import AssignFailure, AssignPlan, after
from kgroup.operation.assign.unknown_id import dry_run_as
from kgroup.operation.assign.what_if import comes_back, leaves

_MOST_REBALANCES = 10
_RESTLESS = (
    f"The group may never come to rest: after {_MOST_REBALANCES} more rebalances members still "
    "give up partitions, and join again."
)
_MANY_RESTARTS = "in a restart of so many members and partitions"
_RACING = (
    "The group may get another assignment than this one: where a member gives up partitions and "
    "joins again before another one has taken its part of the rebalance before, it ends otherwise."
)


@dataclass(frozen=True, slots=True)
class Run:
    """A rebalance and those that follow of themselves, until nothing is left to move.

    Attributes:
        first: the rebalance.
        following: those after it; only cooperative ones need any.
        what: why it happens, in a rolling restart.
        what_of_whom: the same with the id of the member, where others have its client id too.
        rank: of its strategy among those that were compared, 1 is the best; None: none were.
    """

    first: AssignPlan
    following: tuple[AssignPlan, ...] = ()
    what: str | None = None
    what_of_whom: str | None = None
    rank: int | None = None

    @property
    def plans(self) -> tuple[AssignPlan, ...]:
        """All rebalances, in order."""
        return self.first, *self.following

    @property
    def last(self) -> AssignPlan:
        """The one after which all is settled."""
        return self.plans[-1]

    @property
    def error(self) -> AssignFailure | None:
        """Why Kafka's own assignor does not come to an end; None where it does."""
        return self.last.error


@dataclass(frozen=True, slots=True)
class Bounce:
    """A rolling restart of a whole group; more attributes as in `AssignPlan`.

    Attributes:
        dynamic: members that leave when they stop and are new when they start.
        static: members that come back as who they were, within their session timeout: no rebalance
            happens (KIP-345, KIP-848).
        runs: what dynamic members set off by leaving and coming back, in order.
        can_be_static: whether all members could be static ones. Then the whole restart would need
            no rebalance, and move nothing.
    """

    id: str | None
    protocol: str
    strategy: str
    computed_as: str
    dynamic: int
    static: int
    runs: tuple[Run, ...]
    can_be_static: bool

    @property
    def plans(self) -> tuple[AssignPlan, ...]:
        """All rebalances, in order."""
        return tuple(plan for run in self.runs for plan in run.plans)

    @property
    def moves(self) -> int:
        """How often a partition is taken from a member."""
        return sum(len(plan.moves) for plan in self.plans)

    @property
    def error(self) -> AssignFailure | None:
        """Why Kafka's own assignor does not come to an end; None where it does."""
        return self.runs[-1].error if self.runs else None


def settled(spec: GroupSpec, *, alone: bool = False) -> Run:
    """Assign a group until nothing is left to move, or once only if `alone`.

    What depends on unknown ids of members is marked.
    """
    most = 0 if alone else _MOST_REBALANCES
    run, _ = _settle(spec, most=most)
    if unknown_id.is_small(spec) and run.error is None and 0 < len(run.following) < most:
        end = _shares(run)
        if any(_shares(other) != end for other in _races(spec, run.first)):
            *following, last = run.following
            last = replace(last, warnings=(*last.warnings, _RACING))
            run = replace(run, following=(*following, last))
    if not any(member.unknown_id for member in spec.members):
        return run
    if unknown_id.is_small(spec):
        tries = [_settle(spec, most=most, seed=seed)[0].plans for seed in unknown_id.SEEDS]
        return _with_plans(run, unknown_id.mark(run.plans, tries))
    return _with_plans(run, unknown_id.unmarked(run.plans))


def _with_plans(run: Run, plans: Sequence[AssignPlan]) -> Run:
    return replace(run, first=plans[0], following=tuple(plans[1:]))


def _races(spec: GroupSpec, first: AssignPlan) -> Iterator[Run]:
    """Give what follows where one member that gets another part has not taken it in time.

    It joins again with what it had, as a leader of the first members that give up something calls
    all for the next rebalance. The first few such members are tried.
    """
    assert first.assignment is not None
    joined = after(spec, first)
    giving = {move.from_member for move in first.moves}.intersection(first.assignment)
    late = [
        member
        for member in spec.members
        if giving - {member.member_id}
        and set(member.owned or ()) != set(first.assignment[member.member_id])
    ]
    for member in islice(late, unknown_id.TRIES):
        members = tuple(
            member if each.member_id == member.member_id else each for each in joined.members
        )
        yield _settle(replace(joined, members=members))[0]


def _shares(run: Run) -> dict[str, frozenset[TopicPartition]] | None:
    """Give what each member has in the end, in no order; None where the run fails."""
    if run.last.assignment is None:
        return None
    return {member_id: frozenset(own) for member_id, own in run.last.assignment.items()}


def compared(spec: GroupSpec) -> list[Run]:
    """Assign a group with every strategy of its protocol; the least moves, then balance, first."""
    runs = [
        settled(replace(spec, strategy=name))
        for name in strategies(spec.protocol, computed_as(spec))
    ]

    def cost(run: Run) -> tuple[bool, int, float]:
        balance = run.last.balance
        return balance is None, len(run.first.moves), balance.deviation if balance else 0.0

    return [replace(run, rank=rank) for rank, run in enumerate(sorted(runs, key=cost), 1)]


def bounced(spec: GroupSpec) -> Bounce:
    """Restart every member in turn: it leaves, and comes back.

    With a static member that is no rebalance, if it is back within its session timeout
    (`GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin`). What depends on the new
    ids of members is marked.
    """
    runs = _bounce(spec)
    if unknown_id.is_small_restart(spec):
        tries = [_bounce(spec, seed) for seed in unknown_id.SEEDS]
        for at, run in enumerate(runs):
            others = [other[at].plans if at < len(other) else () for other in tries]
            runs[at] = _with_plans(run, unknown_id.mark(run.plans, others))
    static = len(spec.members) - len(_dynamic(spec))
    return Bounce(
        spec.id,
        spec.protocol,
        spec.strategy,
        str(computed_as(spec)),
        len(spec.members) - static,
        static,
        tuple(runs),
        has_static_members(spec.protocol, computed_as(spec)),
    )


def _dynamic(spec: GroupSpec) -> list[MemberSpec]:
    """Give the members that are new when they come back; some libraries have no static ones."""
    leads = computed_as(spec)
    return [
        member
        for member in spec.members
        if member.instance_id is None
        or not has_static_members(spec.protocol, member.client or leads)
    ]


def _bounce(spec: GroupSpec, seed: int = 0) -> list[Run]:
    """Give what each member sets off; where that is too much to try other ids, marked as such."""
    is_small = unknown_id.is_small_restart(spec)
    is_unknown = False
    called = Counter(member.client_id for member in spec.members)
    runs: list[Run] = []
    for member in _dynamic(spec):
        member = next(each for each in spec.members if each.member_id == member.member_id)
        for change, what in ((leaves, "leaves"), (comes_back, "comes back")):
            spec = change(spec, member)
            if not spec.members:  # it was the only one
                continue
            name = member.client_id or member.member_id
            whose = member.member_id if called[member.client_id] > 1 else name
            run, spec = _settle(spec, seed=seed)
            run = replace(run, what=f"{name} {what}", what_of_whom=f"{whose} {what}")
            is_unknown = is_unknown or any(each.unknown_id for each in spec.members)
            if is_unknown and not is_small:
                run = _with_plans(run, unknown_id.unmarked(run.plans, _MANY_RESTARTS))
            runs.append(run)
            if run.error is not None:
                return runs
            spec = after(spec, run.last)
    return runs


def _settle(
    spec: GroupSpec, *, most: int = _MOST_REBALANCES, seed: int = 0
) -> tuple[Run, GroupSpec]:
    """Give the run, with so many following rebalances at most, and the group before the last one.

    A rebalance follows where members have to give up partitions while they go on with others: they
    join again then (`ConsumerCoordinator.onJoinComplete`).
    """
    first = plan = dry_run_as(spec, seed)
    following: list[AssignPlan] = []
    while plan.assignment is not None:
        revoked = any(move.from_member in plan.assignment for move in plan.moves)
        if plan.rebalance != "cooperative" or not revoked:
            break
        if len(following) == most:
            if following:
                following[-1] = replace(plan, warnings=(*plan.warnings, _RESTLESS))
            break
        spec = after(spec, plan)
        plan = dry_run_as(spec, seed)
        following.append(plan)
    return Run(first, tuple(following)), spec
