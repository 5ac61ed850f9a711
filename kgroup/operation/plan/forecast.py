"""What steps of a plan cost a group: the simulator plays them with the group's own members."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from kgroup.assignor.base import TopicPartition
from kgroup.model.group import GroupState
from kgroup.operation.plan.plan import Expected, Forecast, PlanStep
from kgroup.simulation.scenario.play import ScenarioPart, play_parts
from kgroup.simulation.scenario.scenario import (
    Action,
    KeptIn,
    MemberPlan,
    Scenario,
    Step,
    ZookeeperMemberPlan,
)
from kgroup.simulation.timeline import Simulation

BEGIN_MS = 1_000
"""When the first of the moves begins."""
_SPARE_MS = 5_000
_COPY_MS = 2_000
"""That a command takes which copies offsets."""
_MOST_ROUNDS = 20
_COURSES = 8
_SMALL = 1_000
"""Members times partitions of a group that takes some tenths of a second to be played."""
_WITHOUT_GENERATION = (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
"""States in which a classic group that was empty has no other generation yet."""
_VARIES = 0.2
"""By which part of it the time from one poll() to the next is shorter in a member, at most."""


@dataclass(frozen=True, slots=True)
class ProgramBehavior:
    """What no source tells of a group's programs.

    Attributes:
        poll_ms: from one poll() to the next; on ZooKeeper what a fetch keeps a stream busy.
        restart_ms: from the end of a program to its next start.
        seed: of what chance decides.
        at_once: how many members are restarted at a time; None: one, or of a group of more than
            twenty so many that there are twenty rounds, which is what people do, and can be played.
    """

    poll_ms: int = 500
    restart_ms: int = 5_000
    seed: int = 0
    at_once: int | None = None

    def restarted_at_once(self, members: int) -> int:
        """Return how many of so many members are restarted at a time."""
        return self.at_once or -(-members // _MOST_ROUNDS)


USUAL = ProgramBehavior()

NOT_PLANNED = PlanStep(0, "", expected=Expected())
"""The step of a way that is only played: nobody takes it, and nothing of it is told."""


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step of a plan, and what is played for it.

    Attributes:
        step: without number and forecast.
        steps: what happens, in order of time from its begin.
        duration_ms: until the group rests again, as far as that can be said before.
    """

    step: PlanStep
    steps: tuple[Step, ...]
    duration_ms: int


def rolling_restart(
    step: PlanStep,
    scenario: Scenario,
    plans: Mapping[str, MemberPlan | ZookeeperMemberPlan],
    habits: ProgramBehavior,
) -> PlayedStep:
    """Restart members one after another, or some at a time, when the group rests again."""
    pause_ms = habits.restart_ms + rest_ms(scenario, habits)
    at_once = habits.restarted_at_once(len(plans))
    steps = tuple(
        Step(number // at_once * pause_ms, Action.RESTART, name, habits.restart_ms, plan)
        for number, (name, plan) in enumerate(plans.items())
    )
    return PlayedStep(step, steps, -(-len(steps) // at_once) * pause_ms)


def removing_restart(
    step: PlanStep, scenario: Scenario, plans: Mapping[str, MemberPlan], habits: ProgramBehavior
) -> PlayedStep:
    """Restart members likewise; while each is away somebody removes it, as it does not leave."""
    move = rolling_restart(step, scenario, plans, habits)
    later_ms = min(BEGIN_MS, habits.restart_ms // 2)
    removals = [Step(each.at_ms + later_ms, Action.REMOVE, each.member) for each in move.steps]
    steps = sorted((*move.steps, *removals), key=lambda each: each.at_ms)
    return replace(move, steps=tuple(steps))


def topic_grows(
    step: PlanStep, scenario: Scenario, topic: str, count: int, habits: ProgramBehavior
) -> PlayedStep:
    """Give a topic more partitions, and wait until whoever looks for them has."""
    ages = [
        plan.config.metadata_max_age_ms
        for plan in scenario.members.values()
        if plan.config.group_protocol == "classic"
    ]
    steps = (Step(0, Action.ADD_PARTITIONS, topic=topic, count=count),)
    return PlayedStep(step, steps, max(ages, default=0) + 2 * rest_ms(scenario, habits))


def how_to_restart(habits: ProgramBehavior, members: int) -> str:
    """Say how a rolling restart goes on."""
    at_once = habits.restarted_at_once(members)
    what = "one member" if at_once == 1 else f"{at_once} members at a time"
    return f"Restart {what}, wait until the group is stable, then go on with the next."


def stopped_group(
    step: PlanStep, scenario: Scenario, plans: Mapping[str, MemberPlan], habits: ProgramBehavior
) -> PlayedStep:
    """Stop members all at once, and start them, each with its plan, when the group is empty.

    Static members do not leave: it is empty when their sessions have expired.
    """
    away_ms = _away_ms(scenario, habits)
    steps = tuple(Step(0, Action.RESTART, name, away_ms, plan) for name, plan in plans.items())
    return PlayedStep(step, steps, away_ms + rest_ms(scenario, habits))


def stopped_members(step: PlanStep, scenario: Scenario, habits: ProgramBehavior) -> PlayedStep:
    """Stop members all at once, and wait until the group is empty."""
    steps = tuple(Step(0, Action.STOP, name) for name in scenario.members)
    return PlayedStep(step, steps, _away_ms(scenario, habits))


def started_group(
    step: PlanStep, scenario: Scenario, plans: Mapping[str, MemberPlan], habits: ProgramBehavior
) -> PlayedStep:
    """Start members that are stopped, each with its plan."""
    steps = tuple(Step(0, Action.START, name, plan=plan) for name, plan in plans.items())
    return PlayedStep(step, steps, rest_ms(scenario, habits))


def copied_offsets(step: PlanStep, to: KeptIn | None) -> PlayedStep:
    """Copy offsets between Kafka and an external store; None: for nobody to go by them."""
    steps = () if to is None else (Step(0, Action.COPY_OFFSETS, to=to),)
    return PlayedStep(step, steps, _COPY_MS)


def _away_ms(scenario: Scenario, habits: ProgramBehavior) -> int:
    sessions = [
        plan.config.session_timeout_ms
        for plan in scenario.members.values()
        if plan.config.instance_id is not None
    ]
    return max([habits.restart_ms, *(session + _SPARE_MS for session in sessions)])


def rest_ms(scenario: Scenario, habits: ProgramBehavior) -> int:
    """How long it takes until a group rests: some rounds in which each member is heard of once.

    On ZooKeeper, in which each tries once more to get what others still own.
    """
    rounds = [connector.config.rebalance_backoff_ms for connector in scenario.connectors.values()]
    rounds += [
        plan.config.heartbeat_interval_ms
        if plan.config.group_protocol == "classic"
        else scenario.consumer_settings.heartbeat_interval_ms
        for plan in scenario.members.values()
    ]
    return _SPARE_MS + 4 * (max(rounds, default=0) + habits.poll_ms)


def forecast(
    scenario: Scenario, moves: Sequence[PlayedStep], habits: ProgramBehavior
) -> tuple[tuple[PlanStep, ...], Forecast]:
    """Play moves one after another.

    Chance decides how much of what was read is not committed yet when a partition moves. So small
    groups are played several times, and what is read again is the most that came of it. Those that
    become large, as a topic gets partitions, are not.

    Args:
        scenario: the group as it is.
        moves: at least one.
        habits: of its programs.

    Returns:
        The steps with their numbers and what each costs, and what all cost together.
    """
    count = len(scenario.members) + len(scenario.connectors)
    topics = dict(scenario.topics)
    topics |= {step.topic: step.count for move in moves for step in move.steps if step.topic}
    size = count * sum(topics.values())
    courses = max(1, min(_COURSES, _SMALL // max(size, 1)))
    steps, totals = zip(
        *(_played(scenario, moves, replace(habits, seed=habits.seed + n)) for n in range(courses)),
        strict=True,
    )
    found = tuple(
        replace(step, forecast=_most_read_again([other.forecast for other in others]))
        for step, *others in zip(steps[0], *steps, strict=True)
    )
    return found, _most_read_again(totals)


def _most_read_again(courses: Sequence[Forecast]) -> Forecast:
    """Return the first, with the most records that are read again in any."""
    return replace(courses[0], read_again=max(course.read_again for course in courses))


def _played(
    scenario: Scenario, moves: Sequence[PlayedStep], habits: ProgramBehavior
) -> tuple[tuple[PlanStep, ...], Forecast]:
    paced_scenario = paced(scenario, habits)
    parts = [
        ScenarioPart(tuple(_put(step, habits) for step in move.steps), move.duration_ms)
        for move in moves
    ]
    members = {name: _varied(name, plan, habits) for name, plan in paced_scenario.members.items()}
    begin, *ends = play_parts(
        replace(paced_scenario, members=members, steps=()),
        habits.seed,
        [ScenarioPart((), BEGIN_MS), *parts],
        scenario.settles_ms,
    )
    first: int | None = 0 if scenario.start is None else scenario.start.generation_id
    if scenario.connectors:
        first = None
    played = ends[-1]
    steps = tuple(
        replace(move.step, number=number, forecast=_measured(played, before, after, first))
        for number, (move, before, after) in enumerate(
            zip(moves, [begin, *ends], ends, strict=False), 1
        )
    )
    return steps, _measured(played, begin, played, first)


def paced(scenario: Scenario, habits: ProgramBehavior) -> Scenario:
    """Let members take as long from one poll() to the next as their programs do."""
    busy_ms = habits.poll_ms
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
    """Give members an `auto.offset.reset`."""
    members = {
        name: replace(plan, auto_offset_reset=reset) for name, plan in scenario.members.items()
    }
    return replace(scenario, members=members)


def _put(step: Step, habits: ProgramBehavior) -> Step:
    plan = step.plan
    if plan is None:
        return step
    if isinstance(plan, MemberPlan):
        return replace(step, plan=_varied(step.member or "", plan, habits))
    return replace(step, plan=replace(plan, processing_ms=habits.poll_ms))


def _varied(name: str, plan: MemberPlan, habits: ProgramBehavior) -> MemberPlan:
    """Let a member take a little shorter from one poll() to the next than is said, as others do.

    All that join a generation begin at once. If each took just as long as the others they would
    come to poll() together for ever, and whether before or after their heartbeats, which decides
    how long partitions stop, would hang on how often the one time goes into the other.
    """
    busy_ms = habits.poll_ms
    if busy_ms < plan.config.max_poll_interval_ms:  # else it is late, which is not to be hidden
        busy_ms = round(busy_ms * Random(f"{habits.seed} {name}").uniform(1 - _VARIES, 1))
    return replace(plan, processing_ms=busy_ms)


def _measured(
    played: Simulation, before: Simulation, after: Simulation, generation_id: int | None
) -> Forecast:
    """Measure what happened between two times.

    Args:
        played: has both.
        before: ends at the first.
        after: ends at the second.
        generation_id: with which all begin; None: on ZooKeeper there are none.
    """
    begin_ms, end_ms = before.end_ms, after.end_ms
    if generation_id is None:
        count = sum(begin_ms <= rebalance.begin_ms < end_ms for rebalance in played.rebalances)
    else:
        count = _generations(after, generation_id) - _generations(before, generation_id)
    again, skipped = (
        sum(getattr(partition, name) for partition in after.partitions)
        - sum(getattr(partition, name) for partition in before.partitions)
        for name in ("read_again", "skipped")
    )
    found = costs(played, begin_ms, end_ms, count, again, skipped)
    return replace(found, is_at_rest=after.is_at_rest)


def costs(
    played: Simulation, begin_ms: int, end_ms: int, rebalances: int, read_again: int, skipped: int
) -> Forecast:
    """Measure what became of partitions and programs between two times, beside what is counted."""
    stops = [
        (partition, until_ms - since_ms)
        for partition, since_ms, until_ms in _stops(played)
        if begin_ms <= since_ms < end_ms
    ]
    failed = {
        event.actor: event.answer or ""
        for event in played.events
        if event.event == "failed" and begin_ms <= event.time_ms < end_ms
    }
    return Forecast(
        rebalances,
        sum(begin_ms <= at_ms < end_ms for at_ms in _moves(played)),
        len({partition for partition, _ in stops}),
        max((stopped_ms for _, stopped_ms in stops), default=None),
        sum(stopped_ms for _, stopped_ms in stops),
        _most(played, begin_ms, end_ms),
        read_again,
        skipped,
        failed,
        played.is_at_rest,
    )


def _generations(played: Simulation, first: int) -> int:
    """Count the generations, or epochs, after the first.

    They begin anew where a group takes the place of an empty one of the other protocol, perhaps
    with the number at which that one ended.
    """
    count, last, was_empty = 0, first, False
    for event in played.events:
        if (found := event.generation_id) is None:
            continue
        is_new = found < last or (was_empty and event.state not in _WITHOUT_GENERATION)
        count += found - last if found > last else min(found, is_new)
        last, was_empty = found, event.state is GroupState.EMPTY
    return count


def _intervals(played: Simulation) -> Mapping[TopicPartition, list[tuple[int, int, str]]]:
    """Tell from when to when each partition was owned by whom, sorted by their begins."""
    found: dict[TopicPartition, list[tuple[int, int, str]]] = defaultdict(list)
    for ownership in played.ownerships:
        end_ms = played.end_ms if ownership.end_ms is None else ownership.end_ms
        found[ownership.topic, ownership.partition].append(
            (ownership.begin_ms, end_ms, ownership.owner)
        )
    for intervals in found.values():
        intervals.sort()
    return found


def _moves(played: Simulation) -> Iterator[int]:
    """Tell when partitions got another owner than they had before."""
    for intervals in _intervals(played).values():
        for before, after in pairwise(intervals):
            if before[2] != after[2]:
                yield after[0]


def _stops(played: Simulation) -> Iterator[tuple[TopicPartition, int, int]]:
    """Tell from when to when a partition was read by nobody that had been read."""
    still: dict[tuple[str, int, str], list[tuple[int, int]]] = defaultdict(list)
    for standstill in played.standstills:
        end_ms = played.end_ms if standstill.end_ms is None else standstill.end_ms
        still[standstill.topic, standstill.partition, standstill.owner].append(
            (standstill.begin_ms, end_ms)
        )
    for partition, intervals in _intervals(played).items():
        read: list[tuple[int, int]] = []
        for begin_ms, end_ms, owner in intervals:
            at_ms = begin_ms
            for since_ms, until_ms in still.get((*partition, owner), ()):
                if begin_ms <= since_ms < end_ms:
                    read.append((at_ms, since_ms))
                    at_ms = until_ms
            read.append((at_ms, end_ms))
        read.sort()
        last_ms = read[0][1]
        for begin_ms, end_ms in read[1:]:
            if begin_ms > last_ms:
                yield partition, last_ms, begin_ms
            last_ms = max(last_ms, end_ms)
        if last_ms < played.end_ms:
            yield partition, last_ms, played.end_ms


def _most(played: Simulation, begin_ms: int, end_ms: int) -> int:
    """Return how many partitions one member had at a time at most."""
    changes: list[tuple[int, int, str]] = []
    for ownership in played.ownerships:
        changes.append((ownership.begin_ms, 1, ownership.owner))
        if ownership.end_ms is not None:
            changes.append((ownership.end_ms, -1, ownership.owner))
    changes.sort()
    begins = [at_ms for at_ms, _, _ in changes]
    owned: Counter[str] = Counter()
    first = bisect_right(begins, begin_ms)
    for _, change, owner in changes[:first]:
        owned[owner] += change
    most = max(owned.values(), default=0)
    for at_ms, change, owner in changes[first:]:
        if at_ms >= end_ms:
            break
        owned[owner] += change
        most = max(most, owned[owner])
    return most
