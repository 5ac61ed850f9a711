"""Who has taken a step: the members that are there, beside those that were there before.

A cluster does not tell when a member has come, nor how it is configured; but one that was restarted
has another id, a static one too (`ClassicGroup.replaceStaticMember`). So who has another id has
taken the step, one that has crashed and is back among them: nothing else can be known of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from kgroup.operation.plan.plan import Plan, PlannedMember, PlanStep

_Members = tuple[PlannedMember, ...]
_BY: tuple[Callable[[PlannedMember], object], ...] = (
    lambda each: each.instance_id,
    lambda each: each.client_id and (each.client_id, each.client_host),
    lambda each: each.client_id,
)
"""By what a member is known again that has another id: what tells most comes first."""


@dataclass(frozen=True, slots=True)
class Turnover:
    """Whom a step is to restart, and what became of them.

    Attributes:
        before: the members that it is to restart, as they were.
        missing: those of them that are still there.
        new_count: how many are there that were not there before.
        new: who may be one of these: just they, where it can be told.
        gone_count: how many are not back.
        gone: likewise.
    """

    before: _Members
    missing: _Members
    new_count: int
    new: _Members
    gone_count: int
    gone: _Members

    @property
    def known_new(self) -> _Members:
        """Who was not there before, where it can be told."""
        return self.new if len(self.new) == self.new_count else ()


def turnover(plan: Plan, step: PlanStep, there: _Members) -> Turnover:
    """Compare the members that are there with those before a step.

    Who was there when a step before was verified, its check has noted.
    """
    earlier = [each for each in plan.steps if each.number < step.number and each.seen is not None]
    seen = [each.seen for each in earlier if each.seen and shares(each, step)]
    planned = (each for each in plan.members if not step.restarted or each.name in step.restarted)
    met = step.met or ()
    before = (*(seen[-1] if seen else planned), *met)
    known = (*(earlier[-1].seen or () if earlier else plan.members), *met)
    ids = {each.member_id for each in there}
    ids_before = {each.member_id for each in (*known, *before)}
    new = tuple(each for each in there if each.member_id not in ids_before)
    gone = tuple(each for each in known if each.member_id not in ids)
    missing = tuple(each for each in before if each.member_id in ids)
    if earlier and not earlier[-1].seen:  # the group was empty: whoever is there was started since
        return Turnover(before, missing, 0, (), 0, ())
    new, gone = _unpaired(new, gone)
    more = len(new) - len(gone)
    return Turnover(
        before,
        missing,
        max(more, 0),
        new if more > 0 else (),
        max(-more, 0),
        gone if more < 0 else (),
    )


def _unpaired(new: _Members, gone: _Members) -> tuple[_Members, _Members]:
    """Leave out those that have come back with another id, as far as they are known again.

    Where more have come of a name than have gone, nobody tells which of them is back.
    """
    for name in _BY:
        come, left = (Counter(map(name, each)) for each in (new, gone))
        pairs = Counter({each: come[each] for each in left if each and come[each] <= left[each]})
        new = tuple(each for each in new if name(each) not in pairs)
        rest = []
        for each in gone:
            if pairs[name(each)] > 0:
                pairs[name(each)] -= 1
            else:
                rest.append(each)
        gone = tuple(rest)
    return new, gone


def shares(earlier: PlanStep, step: PlanStep) -> bool:
    """Tell whether an earlier step has restarted members that a step is to restart again."""
    return not step.restarted or not set(step.restarted).isdisjoint(earlier.restarted)


def is_shown(plan: Plan, step: PlanStep) -> bool:
    """Tell whether the group shows of every member, whenever it came, that it has taken a step.

    A type that the group did not have before does, and a strategy shows that every member supports
    it, which is what is to be done where a later step takes away the others.
    """
    expected = step.expected
    if expected.instance_ids is not None or expected.protocol is not None:
        return True
    earlier = [each.expected for each in plan.steps if each.number < step.number]
    later = [each.expected.assignor for each in plan.steps if each.number > step.number]
    is_new_type = expected.type not in (None, plan.type, *(each.type for each in earlier))
    is_new = expected.assignor not in (None, plan.assignor, *(each.assignor for each in earlier))
    return is_new_type or (is_new and expected.assignor in later)
