"""Dry runs of several rebalances: what follows of itself, all strategies, a rolling restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kgroup.assignor.spec import GroupSpec
from kgroup.assignor.strategy import strategies
from kgroup.operation.assign import AssignPlan, after, dry_run
from kgroup.operation.what_if import comes_back, leaves

__all__ = ["Run", "bounced", "compared", "settled"]

_MOST_REBALANCES = 10


@dataclass(frozen=True, slots=True)
class Run:
    """A rebalance and those that follow of themselves, until nothing is left to move.

    Attributes:
        first: the rebalance.
        following: those after it; only cooperative ones need any.
        what: why it happens, in a rolling restart.
    """

    first: AssignPlan
    following: tuple[AssignPlan, ...] = ()
    what: str | None = None

    @property
    def last(self) -> AssignPlan:
        """The one after which all is settled."""
        return self.following[-1] if self.following else self.first


def settled(spec: GroupSpec, *, alone: bool = False) -> Run:
    """Assign a group until nothing is left to move, or once only if `alone`."""
    return Run(dry_run(spec)) if alone else _settle(spec, None)[0]


def compared(spec: GroupSpec) -> list[Run]:
    """Assign a group with every strategy of its protocol; the least moves, then balance, first."""
    runs = [
        settled(replace(spec, strategy=name))
        for name in strategies(spec.protocol, spec.kafka_version)
    ]

    def rank(run: Run) -> tuple[bool, int, float]:
        balance = run.last.balance
        return balance is None, len(run.first.moves), balance.deviation if balance else 0.0

    return sorted(runs, key=rank)


def bounced(spec: GroupSpec) -> Iterator[Run]:
    """Yield the rebalances of a rolling restart: each member leaves, and comes back a new one.

    A static member comes back within its session timeout: there is no rebalance.
    """
    for member in spec.members:
        if member.instance_id is not None:
            continue
        name = member.client_id or member.member_id
        if len(spec.members) > 1:
            run, spec = _settle(leaves(spec, member), f"{name} leaves")
            yield run
            if run.last.error is not None:
                return
        else:
            spec = leaves(spec, member)
        run, spec = _settle(comes_back(spec, member), f"{name} comes back")
        yield run
        if run.last.error is not None:
            return


def _settle(spec: GroupSpec, what: str | None) -> tuple[Run, GroupSpec]:
    """Give the run, and the group as it is then."""
    first = plan = dry_run(spec)
    following: list[AssignPlan] = []
    while plan.assignment is not None:
        spec = after(spec, plan)
        if plan.rebalance != "cooperative" or not plan.moves or len(following) == _MOST_REBALANCES:
            break
        plan = dry_run(spec)
        following.append(plan)
    return Run(first, tuple(following), what), spec
