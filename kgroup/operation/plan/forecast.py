"""Forecast the costs of plan steps: simulate them with the group's own members."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from random import Random

from kgroup.model.cluster import TopicPartition
from kgroup.model.group import GroupState
from kgroup.operation.plan.plan import Expected, Forecast, PlanStep
from kgroup.simulation.scenario.play import PartEnd, ScenarioPart, play_parts
from kgroup.simulation.scenario.scenario import (
    Action,
    KeptIn,
    MemberPlan,
    Scenario,
    Step,
    ZookeeperMemberPlan,
)
from kgroup.simulation.timeline import Event, History, SimulatedRebalance, Simulation, Span

BEGIN_MS = 1_000
"""Start of the first step."""
OFTEN_MS = 300_000
"""Assumed time between two looks for new partitions, for members that never look by default."""
_SPARE_MS = 5_000
_COPY_MS = 2_000
"""Duration of a command that copies offsets."""
_MOST_ROUNDS = 20
_COURSES = 8
_SMALL = 1_000
"""Largest members times partitions for which a simulation takes some tenths of a second."""
_WITHOUT_GENERATION = (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
"""States in which a classic group that was empty has no new generation yet."""
_VARIES = 0.2
"""Largest relative reduction of a member's poll interval."""


@dataclass(frozen=True, slots=True)
class ProgramBehavior:
    """Behavior of a group's applications, which no source reports.

    Attributes:
        poll_ms: time between calls of poll(); for ZooKeeper consumers, processing time of a fetch.
        restart_ms: time from the end of a process to its next start.
        seed: seed of the simulation.
        at_once: number of members to restart at a time; None: one, or in a group of more than
            twenty members a twentieth of them, as is common, and fast to simulate.
    """

    poll_ms: int = 500
    restart_ms: int = 5_000
    seed: int = 0
    at_once: int | None = None

    def restarted_at_once(self, members: int) -> int:
        """Return the number of members to restart at a time."""
        return self.at_once or -(-members // _MOST_ROUNDS)


USUAL = ProgramBehavior()

NOT_PLANNED = PlanStep(0, "", expected=Expected())
"""Step of an alternative that is simulated for comparison, and not part of the plan."""


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step of a plan, with the scenario steps that simulate it.

    Attributes:
        step: plan step, without number and forecast.
        steps: scenario steps, sorted by time from the start of the plan step.
        duration_ms: estimated time until the group is stable again.
    """

    step: PlanStep
    steps: tuple[Step, ...]
    duration_ms: int


def rolling_restart(
    step: PlanStep,
    scenario: Scenario,
    plans: Mapping[str, MemberPlan | ZookeeperMemberPlan],
    behavior: ProgramBehavior,
) -> PlayedStep:
    """Restart members one by one, or several at a time, each time when the group is stable."""
    pause_ms = behavior.restart_ms + rest_ms(scenario, behavior)
    at_once = behavior.restarted_at_once(len(plans))
    steps = tuple(
        Step(number // at_once * pause_ms, Action.RESTART, name, behavior.restart_ms, plan)
        for number, (name, plan) in enumerate(plans.items())
    )
    return PlayedStep(step, steps, -(-len(steps) // at_once) * pause_ms)


def removing_restart(
    step: PlanStep, scenario: Scenario, plans: Mapping[str, MemberPlan], behavior: ProgramBehavior
) -> PlayedStep:
    """Restart members as `rolling_restart` does, and remove each one while it is stopped."""
    move = rolling_restart(step, scenario, plans, behavior)
    later_ms = min(BEGIN_MS, behavior.restart_ms // 2)
    removals = [Step(step.at_ms + later_ms, Action.REMOVE, step.member) for step in move.steps]
    steps = sorted((*move.steps, *removals), key=lambda step: step.at_ms)
    return replace(move, steps=tuple(steps))


def topic_grows(
    step: PlanStep, scenario: Scenario, topic: str, count: int, behavior: ProgramBehavior
) -> PlayedStep:
    """Add partitions to a topic, and wait until the group has detected them."""
    ages = [
        plan.config.metadata_max_age_ms or OFTEN_MS
        for plan in scenario.members.values()
        if plan.config.group_protocol == "classic"
    ]
    steps = (Step(0, Action.ADD_PARTITIONS, topic=topic, count=count),)
    return PlayedStep(step, steps, max(ages, default=0) + 2 * rest_ms(scenario, behavior))


def how_to_restart(behavior: ProgramBehavior, members: int) -> str:
    """Return instructions for a rolling restart."""
    at_once = behavior.restarted_at_once(members)
    what = "one member" if at_once == 1 else f"{at_once} members at a time"
    return f"Restart {what}, wait until the group is stable, then continue with the next."


def stopped_group(
    step: PlanStep, scenario: Scenario, plans: Mapping[str, MemberPlan], behavior: ProgramBehavior
) -> PlayedStep:
    """Stop all members at once, and start them with their plans when the group is empty.

    Static members do not leave; the group is empty when their sessions have expired.
    """
    away_ms = _away_ms(scenario, behavior)
    steps = tuple(Step(0, Action.RESTART, name, away_ms, plan) for name, plan in plans.items())
    return PlayedStep(step, steps, away_ms + rest_ms(scenario, behavior))


def stopped_members(step: PlanStep, scenario: Scenario, behavior: ProgramBehavior) -> PlayedStep:
    """Stop all members at once, and wait until the group is empty."""
    steps = tuple(Step(0, Action.STOP, name) for name in scenario.members)
    return PlayedStep(step, steps, _away_ms(scenario, behavior))


def started_group(
    step: PlanStep, scenario: Scenario, plans: Mapping[str, MemberPlan], behavior: ProgramBehavior
) -> PlayedStep:
    """Start stopped members with their plans."""
    steps = tuple(Step(0, Action.START, name, plan=plan) for name, plan in plans.items())
    return PlayedStep(step, steps, rest_ms(scenario, behavior))


def copied_offsets(step: PlanStep, to: KeptIn | None) -> PlayedStep:
    """Copy offsets to Kafka or an external store; None: a copy that no member uses yet."""
    steps = () if to is None else (Step(0, Action.COPY_OFFSETS, to=to),)
    return PlayedStep(step, steps, _COPY_MS)


def _away_ms(scenario: Scenario, behavior: ProgramBehavior) -> int:
    sessions = [
        plan.config.session_timeout_ms
        for plan in scenario.members.values()
        if plan.config.instance_id is not None
    ]
    return max([behavior.restart_ms, *(session + _SPARE_MS for session in sessions)])


def rest_ms(scenario: Scenario, behavior: ProgramBehavior) -> int:
    """Return the time until a group is stable: several heartbeat intervals.

    For ZooKeeper consumers: several retries to claim partitions that others still own.
    """
    rounds = [connector.config.rebalance_backoff_ms for connector in scenario.connectors.values()]
    rounds += [
        plan.config.heartbeat_interval_ms
        if plan.config.group_protocol == "classic"
        else scenario.consumer_settings.heartbeat_interval_ms
        for plan in scenario.members.values()
    ]
    return _SPARE_MS + 4 * (max(rounds, default=0) + behavior.poll_ms)


def forecast(
    scenario: Scenario, moves: Sequence[PlayedStep], behavior: ProgramBehavior
) -> tuple[tuple[PlanStep, ...], Forecast]:
    """Simulate plan steps one after another.

    The number of records read again depends on the time since the last commit when a partition
    moves, which is random. Therefore, small groups are simulated several times, and the largest
    number is used. Groups that become large because a topic gets partitions are simulated once.

    Args:
        scenario: current state of the group.
        moves: steps, at least one.
        behavior: behavior of the group's applications.

    Returns:
        The numbered steps with their forecasts, and the total.
    """
    count = len(scenario.members) + len(scenario.connectors)
    topics = dict(scenario.topics)
    topics |= {step.topic: step.count for move in moves for step in move.steps if step.topic}
    size = count * sum(topics.values())
    courses = max(1, min(_COURSES, _SMALL // max(size, 1)))
    steps, totals = zip(
        *(
            _played(scenario, moves, replace(behavior, seed=behavior.seed + n))
            for n in range(courses)
        ),
        strict=True,
    )
    measured = tuple(
        replace(step, forecast=_most_read_again([other.forecast for other in others]))
        for step, *others in zip(steps[0], *steps, strict=True)
    )
    return measured, _most_read_again(totals)


def _most_read_again(courses: Sequence[Forecast]) -> Forecast:
    """Return the first forecast, with the largest `read_again` of all."""
    return replace(courses[0], read_again=max(course.read_again for course in courses))


def _played(
    scenario: Scenario, moves: Sequence[PlayedStep], behavior: ProgramBehavior
) -> tuple[tuple[PlanStep, ...], Forecast]:
    paced_scenario = paced(scenario, behavior)
    parts = [
        ScenarioPart(tuple(_put(step, behavior) for step in move.steps), move.duration_ms)
        for move in moves
    ]
    members = {name: _varied(name, plan, behavior) for name, plan in paced_scenario.members.items()}
    timeline, (begin, *ends) = play_parts(
        replace(paced_scenario, members=members, steps=()),
        behavior.seed,
        [ScenarioPart((), BEGIN_MS), *parts],
        scenario.settles_ms,
    )
    first: int | None = 0 if scenario.start is None else scenario.start.generation_id
    if scenario.connectors:
        first = None
    last = ends[-1]
    course = Course(
        timeline.owners.histories,
        timeline.events,
        timeline.rebalances,
        last.end_ms,
        is_at_rest=last.is_at_rest,
        record_bytes=last.record_bytes,
    )
    steps = tuple(
        replace(move.step, number=number, forecast=_measured(course, before, after, first))
        for number, (move, before, after) in enumerate(
            zip(moves, [begin, *ends], ends, strict=False), 1
        )
    )
    return steps, _measured(course, begin, last, first)


def paced(scenario: Scenario, behavior: ProgramBehavior) -> Scenario:
    """Return the scenario with the applications' poll interval."""
    busy_ms = behavior.poll_ms
    return replace(
        scenario,
        members={
            name: replace(plan, processing_ms=busy_ms) for name, plan in scenario.members.items()
        },
        connectors={
            name: replace(plan, processing_ms=busy_ms) for name, plan in scenario.connectors.items()
        },
    )


def beginning_at(scenario: Scenario, reset: str) -> Scenario:
    """Return the scenario with an `auto.offset.reset` for all members."""
    members = {
        name: replace(plan, auto_offset_reset=reset) for name, plan in scenario.members.items()
    }
    return replace(scenario, members=members)


def _put(step: Step, behavior: ProgramBehavior) -> Step:
    plan = step.plan
    if plan is None:
        return step
    if isinstance(plan, MemberPlan):
        return replace(step, plan=_varied(step.member or "", plan, behavior))
    return replace(step, plan=replace(plan, processing_ms=behavior.poll_ms))


def _varied(name: str, plan: MemberPlan, behavior: ProgramBehavior) -> MemberPlan:
    """Return the member's plan with a slightly shorter, random poll interval.

    All members that join a generation start at the same time. With equal intervals they would call
    poll() simultaneously forever. Whether this is before or after their heartbeats, which
    determines how long partitions stop, would depend on the ratio of the two intervals.
    """
    busy_ms = behavior.poll_ms
    if busy_ms < plan.config.max_poll_interval_ms:  # otherwise it exceeds the limit; keep that
        busy_ms = round(busy_ms * Random(f"{behavior.seed} {name}").uniform(1 - _VARIES, 1))
    return replace(plan, processing_ms=busy_ms)


def _measured(
    course: Course, before: PartEnd, after: PartEnd, generation_id: int | None
) -> Forecast:
    """Return the costs between two times.

    Args:
        course: the simulation, which covers both times.
        before: the first time.
        after: the second time.
        generation_id: initial generation; None for ZooKeeper consumers, which have none.
    """
    begin_ms, end_ms = before.end_ms, after.end_ms
    if generation_id is None:
        count = sum(begin_ms <= at_ms < end_ms for at_ms in course.rebalances_ms)
    else:
        first, last = (
            _generations(course.events[: end.events], generation_id) for end in (before, after)
        )
        count = last - first
    again, skipped = after.read_again - before.read_again, after.skipped - before.skipped
    cost = course.costs(begin_ms, end_ms, count, again, skipped)
    return replace(cost, is_at_rest=after.is_at_rest, record_bytes=after.record_bytes)


class Course:
    """The course of a simulation, to measure its parts.

    Args:
        histories: the partitions.
        events: the events.
        rebalances: the rebalances.
        end_ms: end of the simulation.
        is_at_rest, record_bytes: as in `Simulation`.

    Attributes:
        events: the events.
        rebalances_ms: begins of the rebalances.
    """

    def __init__(
        self,
        histories: Iterable[History],
        events: Sequence[Event],
        rebalances: Iterable[SimulatedRebalance],
        end_ms: int,
        *,
        is_at_rest: bool,
        record_bytes: int | None,
    ) -> None:
        self.events = events
        self.rebalances_ms = [rebalance.begin_ms for rebalance in rebalances]
        self._end = is_at_rest, record_bytes
        self._moves: list[tuple[int, int]] = []
        """Time of each change of owners, and the number of partitions."""
        self._stops: list[tuple[int, list[tuple[int, int]]]] = []
        """Number of partitions, and begin and end of each time for which they stop."""
        self._changes: list[tuple[int, int, str]] = []
        """Time of each change of what members own, the number of partitions, and the member."""
        for history in histories:
            owned, count = sorted(_ended(history.owned, end_ms)), history.partitions
            self._moves += (
                (after[0], count) for before, after in pairwise(owned) if before[2] != after[2]
            )
            self._stops.append((count, [*_stops(owned, _ended(history.still, end_ms), end_ms)]))
            for begin_ms, until_ms, owner in history.owned:
                self._changes.append((begin_ms, count, owner))
                if until_ms is not None:
                    self._changes.append((until_ms, -count, owner))
        self._changes.sort()

    @classmethod
    def of(cls, simulation: Simulation) -> Course:
        """Return the course of a simulation."""
        owned: dict[TopicPartition, list[Span]] = defaultdict(list)
        still: dict[TopicPartition, list[Span]] = defaultdict(list)
        for ownership in simulation.ownerships:
            at, span = (
                (ownership.topic, ownership.partition),
                (ownership.begin_ms, ownership.end_ms),
            )
            owned[at].append((*span, ownership.owner))
        for stop in simulation.standstills:
            still[stop.topic, stop.partition].append((stop.begin_ms, stop.end_ms, stop.owner))
        return cls(
            (History(1, spans, still[partition]) for partition, spans in owned.items()),
            simulation.events,
            simulation.rebalances,
            simulation.end_ms,
            is_at_rest=simulation.is_at_rest,
            record_bytes=simulation.record_bytes,
        )

    def costs(
        self, begin_ms: int, end_ms: int, rebalances: int, read_again: int, skipped: int
    ) -> Forecast:
        """Return the costs between two times, with the counts that are given."""
        stops = [
            (count, [until_ms - at_ms for at_ms, until_ms in times if begin_ms <= at_ms < end_ms])
            for count, times in self._stops
        ]
        failed: dict[str, str] = {}
        refused: dict[str, str] = {}
        for event in self.events:
            if not begin_ms <= event.time_ms < end_ms:
                continue
            if event.event == "failed":
                failed[event.actor] = event.answer or ""
            elif event.event == "retries":
                refused[event.actor] = event.answer or ""
            elif (event.event, event.error) == ("SyncGroup", None) and event.answer != "waits":
                refused.pop(event.actor, None)
        return Forecast(
            rebalances,
            sum(count for at_ms, count in self._moves if begin_ms <= at_ms < end_ms),
            sum(count for count, stopped_ms in stops if stopped_ms),
            max((lasted_ms for _, stopped_ms in stops for lasted_ms in stopped_ms), default=None),
            sum(count * sum(stopped_ms) for count, stopped_ms in stops),
            self._most(begin_ms, end_ms),
            read_again,
            skipped,
            failed | refused,
            *self._end,
        )

    def _most(self, begin_ms: int, end_ms: int) -> int:
        """Return the largest number of partitions that one member owns at a time."""
        owned: Counter[str] = Counter()
        first = bisect_right(self._changes, begin_ms, key=itemgetter(0))
        for _, change, owner in self._changes[:first]:
            owned[owner] += change
        most = max(owned.values(), default=0)
        for at_ms, change, owner in self._changes[first:]:
            if at_ms >= end_ms:
                break
            owned[owner] += change
            most = max(most, owned[owner])
        return most


def _ended(spans: Iterable[Span], end_ms: int) -> Iterator[tuple[int, int, str]]:
    """Yield spans, of which those that last end at the end of the simulation."""
    for begin_ms, until_ms, owner in spans:
        yield begin_ms, end_ms if until_ms is None else until_ms, owner


def _stops(
    owned: Iterable[tuple[int, int, str]], still: Iterable[tuple[int, int, str]], end_ms: int
) -> Iterator[tuple[int, int]]:
    """Yield the intervals in which a partition is not read, after it was read before."""
    still_of: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for since_ms, until_ms, owner in still:
        still_of[owner].append((since_ms, until_ms))
    read: list[tuple[int, int]] = []
    for begin_ms, until_ms, owner in owned:
        at_ms = begin_ms
        for since_ms, resumed_ms in still_of.get(owner, ()):
            if begin_ms <= since_ms < until_ms:
                read.append((at_ms, since_ms))
                at_ms = resumed_ms
        read.append((at_ms, until_ms))
    read.sort()
    last_ms = read[0][1] if read else end_ms
    for begin_ms, until_ms in read[1:]:
        if begin_ms > last_ms:
            yield last_ms, begin_ms
        last_ms = max(last_ms, until_ms)
    if last_ms < end_ms:
        yield last_ms, end_ms


def _generations(events: Iterable[Event], first: int) -> int:
    """Return the number of generations or epochs after the first one.

    They restart when a group replaces an empty one of the other protocol, possibly with the number
    of the last generation or epoch of that one.
    """
    count, last, was_empty = 0, first, False
    for event in events:
        if (generation := event.generation_id) is None:
            continue
        is_new = generation < last or (was_empty and event.state not in _WITHOUT_GENERATION)
        count += generation - last if generation > last else min(generation, is_new)
        last, was_empty = generation, event.state is GroupState.EMPTY
    return count
