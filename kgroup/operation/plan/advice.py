"""Recommend migrations for a group, with the costs that the simulator forecasts.

The comparison uses an event that every group repeats: a rolling restart, before and after the
migration. For ZooKeeper consumers it is the migration itself, without and with the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from kgroup.errors import InputError, NotFoundError, named_group
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.problem import Problem
from kgroup.operation.assign.group import when_rebalancing
from kgroup.operation.plan.assignor import CLASSES
from kgroup.operation.plan.consumer_protocol import ProtocolChange, conditions
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    ProgramBehavior,
    forecast,
    rolling_restart,
    stopped_group,
)
from kgroup.operation.plan.kafka_offsets import plan_kafka_offsets
from kgroup.operation.plan.new_consumer import plan_new_consumer
from kgroup.operation.plan.plan import (
    Compared,
    Forecast,
    MigrationTarget,
    Plan,
    Precondition,
    Verdict,
)
from kgroup.operation.plan.running_group import RunningGroup, read_running
from kgroup.operation.plan.static_membership import plan_static_membership, seconds
from kgroup.operation.plan.zookeeper_group import read_old
from kgroup.operation.printed_command import kgroup_command
from kgroup.operation.report import Report
from kgroup.operation.select_groups import select_groups
from kgroup.simulation.client.config import COOPERATIVE_STICKY
from kgroup.simulation.scenario.scenario import MemberPlan, Scenario
from kgroup.source.base import GroupSource, Question

_ENOUGH = 0.9
"""Differences of less than a tenth count neither for nor against a migration.

A migration has costs and risks that the forecast does not have.
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A migration target for a group, with its benefit.

    Attributes:
        target: migration target.
        goal: choice within the target, such as an assignor; None if there is no choice.
        why: benefit of the migration.
        against: costs that increase according to the forecasts; None if none does, so that the
            migration is recommended.
        command: command that plans the migration.
        now: forecast without the migration; None if nothing is simulated.
        then: forecast with the migration; None if nothing is simulated.
    """

    target: MigrationTarget
    goal: str | None
    why: str
    against: str | None
    command: str
    now: Compared | None = None
    then: Compared | None = None


@dataclass(frozen=True, slots=True)
class GroupAdvice:
    """Recommendations for a group.

    Attributes:
        group_id: group id.
        type: group type.
        state: group state; None if unknown.
        assignor: current assignor of the group; None if unknown.
        members: number of members.
        summary: recommendation, as a sentence.
        proposals: a target whose migration is unfinished, then recommended targets, then targets
            whose forecast is worse; empty if no target has a benefit.
        reasons: why other targets have no benefit, or are not possible now.
    """

    group_id: str
    type: GroupType
    state: GroupState | None
    assignor: str | None
    members: int
    summary: str
    proposals: tuple[Proposal, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedTarget:
    """An available migration target.

    Attributes:
        target: name of the target.
        meaning: description of the target, as a sentence.
        command: command that plans the migration.
    """

    target: MigrationTarget
    meaning: str
    command: str


_ARGUMENTS: Mapping[MigrationTarget, str] = {
    MigrationTarget.ASSIGNOR: "STRATEGY GROUP...",
    MigrationTarget.PARTITIONS: "TOPIC=N [GROUP...]",
    MigrationTarget.EXTERNAL_OFFSETS: "GROUP... --sql URL",
}


def every_target() -> Report[ListedTarget]:
    """Return all migration targets."""
    return Report(
        tuple(
            ListedTarget(
                target,
                target.sentence,
                f"kgroup plan {target} {_ARGUMENTS.get(target, 'GROUP...')}",
            )
            for target in MigrationTarget
        )
    )


def advise(
    source: GroupSource,
    group_ids: Collection[str],
    behavior: ProgramBehavior,
    *,
    options: Sequence[str] = (),
    zookeeper: str | None = None,
) -> Report[GroupAdvice]:
    """Recommend migration targets for groups.

    Args:
        source: source of groups.
        group_ids: group ids; empty for all groups.
        behavior: behavior of the groups' applications.
        options: options of a command that plans for the same source, as typed.
        zookeeper: address of ZooKeeper; None if the source is not a live ZooKeeper.

    Returns:
        A row for each group, even without recommendation; groups that do not exist are problems.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    question = Question(offsets=False, log_budget=0, commit_times=False)
    reading, missing = select_groups(source, group_ids, question)
    rows: list[GroupAdvice] = []
    problems: list[Problem] = [*missing, *reading.problems]
    for group_id, group in reading.image.groups.items():
        row = GroupAdvice(group_id, group.type, group.state, group.assignor, len(group.members), "")
        try:
            if group.type is GroupType.ZOOKEEPER:
                advice = _Advisor(source, options, behavior).of_old(row, zookeeper)
            else:
                advice = _Advisor(source, options, behavior).of(row, group)
        except NotFoundError as error:  # deleted in the meantime
            problems.append(Problem(error.kind, str(error), group_id=group_id))
            continue
        except InputError as error:
            reason = str(error).removeprefix(f"{named_group(group_id)}: ")
            advice = replace(row, summary=f"Nothing can be planned: {reason}.")
        rows.append(advice)
    return Report(tuple(rows), tuple(problems), reading.notes)


def judge_strategy(
    source: GroupSource, group_id: str, behavior: ProgramBehavior, *, options: Sequence[str] = ()
) -> Proposal | str | None:
    """Return whether a group benefits from cooperative-sticky, as `advise` does.

    Returns:
        The target, with `Proposal.against` if its forecast is worse; or the reason why it has no
        benefit; or None if the group is in a rebalance or has no strategy to change.

    Raises:
        NotFoundError: the group does not exist.
        InputError: the group cannot be simulated.
    """
    running = read_running(source, group_id, behavior)
    if running.rests.verdict is Verdict.REFUTED or running.is_stopped:
        return None
    advisor = _Advisor(source, options, behavior)
    return next(advisor.cooperative(running, advisor.now(running)), None)


@dataclass(frozen=True, slots=True)
class _Advisor:
    """Parameters shared by all groups of a command."""

    source: GroupSource
    options: Sequence[str]
    behavior: ProgramBehavior

    def of(self, row: GroupAdvice, group: Group) -> GroupAdvice:
        """Return the recommendations for a group with a coordinator."""
        if group.type not in (GroupType.CLASSIC, GroupType.CONSUMER):
            return replace(
                row, summary=f"No migration target applies to groups of type {group.type}."
            )
        if group.protocol_type not in (None, "", "consumer"):
            text = f"No migration target applies to groups of protocol type {group.protocol_type}."
            return replace(row, summary=text)
        if not group.members:
            return replace(
                row,
                summary="The group has no members, so no migration has a benefit: configure its "
                "applications before they start.",
            )
        running = read_running(self.source, group.group_id, self.behavior)
        if running.rests.verdict is Verdict.REFUTED:
            count = f"{len(group.members)} member{'' if len(group.members) == 1 else 's'}"
            text = f"A rebalance is in progress (state {group.state}, {count})"
            return replace(row, summary=f"{text}: {when_rebalancing(group)}.")
        now = self.now(running)
        outcomes = (
            *self.cooperative(running, now),
            *self._consumer_protocol(running, now),
            *self._static(running),
        )
        return _summed(row, outcomes, self._unfinished(running.group, outcomes))

    def _unfinished(
        self, group: Group, outcomes: Sequence[Proposal | str]
    ) -> tuple[MigrationTarget, str] | None:
        """Return a target that only some members have reached, and what to do first."""
        old = sum(bool(member.uses_classic_protocol) for member in group.members)
        static = sum(member.instance_id is not None for member in group.members)
        if group.type is GroupType.CONSUMER and old:
            target, what = MigrationTarget.CONSUMER_PROTOCOL, "the consumer protocol"
            found = f"{old} of {len(group.members)} members use the classic protocol"
        elif 0 < static < len(group.members):
            target, what = MigrationTarget.STATIC_MEMBERSHIP, "static membership"
            found = f"{static} of {len(group.members)} members are static"
        else:
            return None
        begun = f"The migration to {what} is unfinished: {found}."
        if any(isinstance(outcome, Proposal) and outcome.target is target for outcome in outcomes):
            command = self._command(group.group_id, target)
            return target, f"{begun} First finish it: {command}, or go back (--back)."
        back = kgroup_command(f"plan {target}", (group.group_id,), ("--back", *self.options))
        return target, f"{begun} Finishing it is not recommended; to go back: {back}."

    def now(self, running: RunningGroup) -> Compared:
        """Simulate a rolling restart of the unchanged group."""
        restart = _restarted(running.scenario, running.scenario.members, self.behavior)
        return Compared("a rolling restart as the group is", restart)

    def cooperative(self, running: RunningGroup, now: Compared) -> Iterator[Proposal | str]:
        """Yield a proposal if cooperative-sticky shortens partition stops, else the reason."""
        strategy = running.group.assignor
        if running.group.type is not GroupType.CLASSIC:
            return
        if running.library is not None and COOPERATIVE_STICKY not in running.facts.strategies:
            yield (
                f"{MigrationTarget.ASSIGNOR} {COOPERATIVE_STICKY}: {running.library} does not have "
                "it."
            )
            return
        if strategy not in CLASSES:
            return
        if strategy == COOPERATIVE_STICKY:
            yield f"{MigrationTarget.ASSIGNOR} {strategy}: the group already uses it."
            return
        plans = {
            name: replace(plan, config=replace(plan.config, strategies=(COOPERATIVE_STICKY,)))
            for name, plan in running.scenario.members.items()
        }
        then = Compared(
            f"a rolling restart with {COOPERATIVE_STICKY}",
            self._restarted_later(running.scenario, plans),
        )
        if _stops_as_long(now, then):
            yield f"{MigrationTarget.ASSIGNOR} {COOPERATIVE_STICKY}: {_stops_and_moves(now, then)}."
            return
        yield Proposal(
            MigrationTarget.ASSIGNOR,
            COOPERATIVE_STICKY,
            f"With {strategy}, all members revoke everything in each rebalance; with "
            f"{COOPERATIVE_STICKY}, only partitions that move stop. {_in_all(now, then)}".rstrip(),
            _against(now, then),
            self._command(running.group.group_id, MigrationTarget.ASSIGNOR, COOPERATIVE_STICKY),
            now,
            then,
        )

    def _consumer_protocol(self, running: RunningGroup, now: Compared) -> Iterator[Proposal | str]:
        target = MigrationTarget.CONSUMER_PROTOCOL
        change = ProtocolChange(running, False, bool(running.connectors), None, running.library)
        if not change.moved:
            yield f"{target}: every member already uses it."
            return
        preconditions = tuple(conditions(change, None))
        if refuted := _refuted(preconditions):
            yield f"{target}: {refuted}"
            return
        then = Compared(
            "a rolling restart with the consumer protocol",
            self._restarted_later(change.running.scenario, change.plans(tuple(running.by_name))),
        )
        if not (change.is_begun or _against(now, then) or _saves(now, then)):
            yield f"{target}: not worth a migration: {_stops_and_moves(now, then)}."
            return
        unknown = [
            precondition.code
            for precondition in preconditions
            if precondition.verdict is Verdict.UNKNOWN
        ]
        begun = ", and some members already use it" if change.is_begun else ""
        yield Proposal(
            target,
            None,
            f"The coordinator assigns, and no member waits for all others to rejoin{begun}. "
            f"{_in_all(now, then)}"
            + (f"Check first: {', '.join(unknown)}." if unknown else "All preconditions hold."),
            _with_heartbeats(_against(now, then), change.running.scenario),
            self._command(running.group.group_id, target),
            now,
            then,
        )

    def _static(self, running: RunningGroup) -> Iterator[Proposal | str]:
        target = MigrationTarget.STATIC_MEMBERSHIP
        plan = plan_static_membership(running, self.behavior)
        if refuted := _refuted(plan.preconditions):
            yield f"{target}: {refuted}"
            return
        if plan.naive is None:
            yield f"{target}: every member is already static."
            return
        restart = plan.steps[-1].forecast
        assert restart is not None
        now = Compared("a rolling restart as the group is", plan.naive.forecast)
        then = Compared("a rolling restart with static members", restart)
        if (restart.rebalances, restart.moved) >= (now.forecast.rebalances, now.forecast.moved):
            yield f"{target}: a rolling restart would move no fewer partitions than now."
            return
        yield Proposal(
            target,
            None,
            "Dynamic members leave when they are restarted, and others take over their "
            "partitions. Static members keep their partitions, which wait for them: a rolling "
            f"restart would move {restart.moved} partitions, instead of {now.forecast.moved} now. "
            f"{_in_all(now, then)}".rstrip(),
            _against(now, then),
            self._command(running.group.group_id, target),
            now,
            then,
        )

    def of_old(self, row: GroupAdvice, address: str | None) -> GroupAdvice:
        """Return the recommendations for a group of ZooKeeper consumers."""
        old = read_old(self.source, row.group_id, {}, address)
        proposals: list[Proposal | str] = []
        for plan, why in (
            (
                plan_new_consumer(old, self.behavior),
                "Kafka 4.0 and later have no ZooKeeper; with the Java consumer, the group has a "
                "coordinator, and its commits are in Kafka.",
            ),
            (
                plan_kafka_offsets(old, self.behavior),
                "Commits to Kafka take load off ZooKeeper, and a new consumer finds them there.",
            ),
        ):
            if refuted := _refuted(plan.preconditions):
                proposals.append(f"{plan.target}: {refuted}")
            elif not plan.steps:
                proposals.append(f"{plan.target}: {plan.summary}")
            else:
                command = self._command(row.group_id, plan.target)
                other = "" if plan.naive is None else f" Without the plan: {plan.naive.text}."
                why = f"{why} {plan.summary}{other}"
                proposals.append(Proposal(plan.target, None, why, None, command, *_of_plan(plan)))
        return _summed(row, proposals)

    def _restarted_later(self, scenario: Scenario, plans: Mapping[str, MemberPlan]) -> Forecast:
        """Simulate a rolling restart of members that already have the new configuration."""
        then = replace(scenario, members=plans)
        moves = [
            stopped_group(NOT_PLANNED, scenario, plans, self.behavior),
            rolling_restart(NOT_PLANNED, then, plans, self.behavior),
        ]
        cost = forecast(scenario, moves, self.behavior)[0][-1].forecast
        assert cost is not None
        return cost

    def _command(self, group_id: str, *words: str) -> str:
        return kgroup_command(" ".join(("plan", *words)), (group_id,), self.options)


def _restarted(
    scenario: Scenario, plans: Mapping[str, MemberPlan], behavior: ProgramBehavior
) -> Forecast:
    return forecast(scenario, [rolling_restart(NOT_PLANNED, scenario, plans, behavior)], behavior)[
        1
    ]


def _saves(now: Compared, then: Compared) -> bool:
    """Return whether any cost falls by more than a tenth."""
    costs = attrgetter("stopped_ms", "moved", "read_again", "skipped")
    pairs = zip(costs(now.forecast), costs(then.forecast), strict=True)
    return any(after < _ENOUGH * before for before, after in pairs)


def _stops_as_long(now: Compared, then: Compared) -> bool:
    return then.forecast.stopped_ms > _ENOUGH * now.forecast.stopped_ms


def _stops(now: Compared, then: Compared) -> str:
    return (
        "a rolling restart would stop partitions for "
        f"{seconds(then.forecast.stopped_ms)} in total, instead of "
        f"{seconds(now.forecast.stopped_ms)} now"
    )


def _stops_and_moves(now: Compared, then: Compared) -> str:
    return (
        f"{_stops(now, then)}; partitions would change owners {then.forecast.moved} times, instead "
        f"of {now.forecast.moved} times now"
    )


def _in_all(now: Compared, then: Compared) -> str:
    """Return differences that are no benefit, but too small to count against the migration."""
    differences = ""
    if _stops_as_long(now, then) and not _against(now, then):
        differences = f"{_stops(now, then).capitalize()}. "
        if then.forecast.stopped_ms > now.forecast.stopped_ms:
            differences = f"Recommended although {_stops(now, then)}: the difference is small. "
    again, was = then.forecast.read_again, now.forecast.read_again
    return differences + (
        f"A rolling restart would read {again} records again, instead of {was} now. "
        * (again > was)
    )


def _against(now: Compared, then: Compared) -> str | None:
    """Return which costs increase by more than a tenth, with both numbers."""
    before, after = now.forecast, then.forecast
    differences = [_stops(now, then)] if before.stopped_ms < _ENOUGH * after.stopped_ms else []
    if before.skipped < _ENOUGH * after.skipped:
        differences.append(
            f"it would skip {after.skipped} records, instead of {before.skipped} now"
        )
    return "; ".join(differences) or None


def _with_heartbeats(against: str | None, scenario: Scenario) -> str | None:
    """Add to the costs of the consumer protocol that heartbeats are less frequent, if they are."""
    then_ms = scenario.consumer_settings.heartbeat_interval_ms
    configs = (plan.config for plan in scenario.members.values())
    now_ms = [each.heartbeat_interval_ms for each in configs if each.group_protocol == "classic"]
    if against is None or not now_ms or then_ms <= max(now_ms):
        return against
    return (
        f"{against}; new assignments wait for heartbeats, simulated every {seconds(then_ms)} "
        f"(group.consumer.heartbeat.interval.ms) instead of {seconds(max(now_ms))}"
    )


def _of_plan(plan: Plan) -> tuple[Compared | None, Compared | None]:
    if plan.naive is None or plan.forecast is None:
        return None, None
    return Compared("without the plan", plan.naive.forecast), Compared("the plan", plan.forecast)


def _refuted(preconditions: Sequence[Precondition]) -> str | None:
    """Return the refuted precondition, and what to do."""
    for precondition in preconditions:
        if precondition.verdict is Verdict.REFUTED:
            found = "" if precondition.found is None else f" Found: {precondition.found}."
            return f"not now. {precondition.text}{found} {precondition.check or ''}".rstrip()
    return None


def _summed(
    row: GroupAdvice,
    outcomes: Sequence[Proposal | str],
    unfinished: tuple[MigrationTarget, str] | None = None,
) -> GroupAdvice:
    proposals = tuple(proposal for proposal in outcomes if isinstance(proposal, Proposal))
    reasons = tuple(outcome for outcome in outcomes if isinstance(outcome, str))
    begun, what_first = unfinished or (None, "")
    first = tuple(proposal for proposal in proposals if proposal.target is begun)
    later = [proposal for proposal in proposals if proposal.target is not begun]
    sound = tuple(proposal for proposal in later if proposal.against is None)
    others = tuple(proposal for proposal in later if proposal.against is not None)
    names = ", ".join(proposal.target for proposal in sound)
    summary = f"Recommended: {names}." if sound else "No migration is recommended now."
    if unfinished:
        summary = f"{what_first} After that: {names}." if sound else what_first
    if others:
        targets = "; ".join(f"{proposal.target} ({proposal.against})" for proposal in others)
        summary += f" Worse according to the forecast: {targets}."
    return replace(row, summary=summary, proposals=(*first, *sound, *others), reasons=reasons)
