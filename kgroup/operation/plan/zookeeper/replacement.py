"""What it costs to replace consumers on ZooKeeper by Java's.

These are two groups that know nothing of each other: each is played on a simulator of its own, and
partitions see both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kgroup.assignor.base import TopicPartition
from kgroup.operation.plan.forecast import Habits, costs, rest_ms
from kgroup.operation.plan.plan import Forecast
from kgroup.simulation.client.config import ClientConfig
from kgroup.simulation.owners import Ownership, Standstill
from kgroup.simulation.scenario.play import play
from kgroup.simulation.scenario.scenario import (
    Action,
    ConnectorPlan,
    MemberPlan,
    Scenario,
    Start,
    Step,
)
from kgroup.simulation.timeline import Simulation

_Span = TypeVar("_Span", Ownership, Standstill)

_BEGIN_MS = 1_000
_JOINED_MS = 30_000
"""How long new consumers have until all have joined and read."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The cost of a group that is stopped and started as another one.

    Attributes:
        stop: of the old consumers; their partitions stand still until new ones read them.
        start: of the new ones.
        total: of both.
    """

    stop: Forecast
    start: Forecast
    total: Forecast


def new_members(scenario: Scenario, strategy: str) -> Mapping[str, Mapping[str, MemberPlan]]:
    """Give each old consumer's new ones, by name: one for each of its threads.

    The first thread of a topic goes with the first of each other topic, and so on: a thread may
    have read a topic of its own, a consumer reads all that it subscribes to.
    """
    found: dict[str, Mapping[str, MemberPlan]] = {}
    for name, plan in scenario.connectors.items():
        streams = plan.config.registration.streams(scenario.topics)
        found[name] = {
            (key := f"{name}-{number}"): MemberPlan(
                ClientConfig(
                    scenario.group_id,
                    key,
                    tuple(sorted(topic for topic, count in streams.items() if count > number)),
                    strategies=(strategy,),
                    enable_auto_commit=plan.config.auto_commit,
                ),
                auto_offset_reset="earliest" if plan.config.reset == "smallest" else "latest",
            )
            for number in range(max(streams.values(), default=0))
        }
    return found


def replaced(
    scenario: Scenario, members: Mapping[str, Mapping[str, MemberPlan]], habits: Habits
) -> Replacement:
    """Stop all old consumers at once, and start all new ones where the old ones have committed.

    From the end of the last old one until the first new one starts it takes as long as a restart.
    """
    old = _stopped(scenario, dict.fromkeys(members, _BEGIN_MS), _BEGIN_MS + _JOINED_MS, habits)
    ends = [each.end_ms for each in old.ownerships if each.end_ms is not None]
    start_ms = max(ends, default=_BEGIN_MS) + habits.restart_ms
    begins = {key: (0, plan) for plans in members.values() for key, plan in plans.items()}
    new = _started(scenario, begins, _JOINED_MS, habits, is_copied=True)
    whole = _together(old, new, start_ms)
    of_old, of_new = _counted(old), _counted(new)
    of_both = (sum(each) for each in zip(of_old, of_new, strict=True))
    return Replacement(
        costs(whole, _BEGIN_MS, start_ms, *of_old),
        costs(whole, start_ms, whole.end_ms, *of_new),
        costs(whole, _BEGIN_MS, whole.end_ms, *of_both),
    )


def replaced_one_by_one(
    scenario: Scenario, members: Mapping[str, Mapping[str, MemberPlan]], habits: Habits, before: int
) -> Forecast:
    """Replace old consumers one after another, without a copy of what they have committed.

    From the first new one until the last old one each record is read by both groups. Where the last
    old one goes before the first new one comes, what comes in between is read by nobody.

    Args:
        scenario: the old group.
        members: the new consumers of each old one.
        habits: of all.
        before: records that are there and that the old ones have read.
    """
    pause_ms = habits.restart_ms + rest_ms(scenario, habits)
    stops = {name: _BEGIN_MS + number * pause_ms for number, name in enumerate(members)}
    end_ms = _BEGIN_MS + len(members) * pause_ms + _JOINED_MS
    old = _stopped(scenario, stops, end_ms, habits)
    begins = {
        key: (stops[name] + habits.restart_ms, plan)
        for name, plans in members.items()
        for key, plan in plans.items()
    }
    new = _started(scenario, begins, end_ms, habits, is_copied=False)
    whole = _together(old, new, 0)
    again = int(_both_ms(old.ownerships, new.ownerships, end_ms) * scenario.rate / 1000)
    skipped = int(_neither_ms(old.ownerships, new.ownerships) * scenario.rate / 1000)
    if any(plan.auto_offset_reset == "earliest" for _, plan in begins.values()):
        again, skipped = again + before, 0
    rebalances = _counted(old)[0] + _counted(new)[0]
    return costs(whole, _BEGIN_MS, end_ms, rebalances, again, skipped)


def _stopped(
    scenario: Scenario, stops: Mapping[str, int], end_ms: int, habits: Habits
) -> Simulation:
    steps = tuple(Step(at_ms, Action.STOP, name) for name, at_ms in stops.items())
    connectors: dict[str, ConnectorPlan] = {
        name: replace(plan, processing_ms=habits.poll_ms)
        for name, plan in scenario.connectors.items()
    }
    there = replace(scenario, connectors=connectors, steps=steps, duration_ms=end_ms)
    return play(there, habits.seed)


def _started(
    scenario: Scenario,
    begins: Mapping[str, tuple[int, MemberPlan]],
    end_ms: int,
    habits: Habits,
    *,
    is_copied: bool,
) -> Simulation:
    """Play new consumers of an empty group."""
    there = scenario.start
    assert there is not None
    strategy = next(iter(begins.values()))[1].config.strategies[0] if begins else ""
    offsets = there.offsets if is_copied else {}
    return play(
        replace(
            scenario,
            connectors={},
            members={
                name: replace(plan, processing_ms=habits.poll_ms)
                for name, (_, plan) in begins.items()
            },
            steps=tuple(Step(at_ms, Action.START, name) for name, (at_ms, _) in begins.items()),
            duration_ms=end_ms,
            start=Start(0, strategy, "", {}, offsets, there.ends),
        ),
        habits.seed,
    )


def _counted(played: Simulation) -> tuple[int, int, int]:
    """Return how many rebalances there were, and records that were read again or skipped.

    Those of the new group are generations, those of the old one have none.
    """
    generations = max((each.generation_id or 0 for each in played.events), default=0)
    return (
        generations or len(played.rebalances),
        sum(each.read_again for each in played.partitions),
        sum(each.skipped for each in played.partitions),
    )


def _together(old: Simulation, new: Simulation, later_ms: int) -> Simulation:
    """Make one simulation of two, of which the second begins later."""
    end_ms = max(old.end_ms, new.end_ms + later_ms)
    return replace(
        old,
        end_ms=end_ms,
        is_at_rest=old.is_at_rest and new.is_at_rest,
        events=(
            *old.events,
            *(replace(each, time_ms=each.time_ms + later_ms) for each in new.events),
        ),
        ownerships=(*old.ownerships, *(_later(each, later_ms) for each in new.ownerships)),
        standstills=(*old.standstills, *(_later(each, later_ms) for each in new.standstills)),
    )


def _later(found: _Span, later_ms: int) -> _Span:
    end_ms = None if found.end_ms is None else found.end_ms + later_ms
    return replace(found, begin_ms=found.begin_ms + later_ms, end_ms=end_ms)


def _both_ms(old: Sequence[Ownership], new: Sequence[Ownership], end_ms: int) -> int:
    """Tell for how long partitions were read by both groups, all together."""
    spans: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for each in new:
        spans[each.topic, each.partition].append((each.begin_ms, each.end_ms or end_ms))
    return sum(
        max(0, min(each.end_ms or end_ms, until_ms) - max(each.begin_ms, since_ms))
        for each in old
        for since_ms, until_ms in spans[each.topic, each.partition]
    )


def _neither_ms(old: Sequence[Ownership], new: Sequence[Ownership]) -> int:
    """Tell how long it was from the last that old ones read to the first that new ones do."""
    begins: dict[TopicPartition, int] = {}
    for each in new:
        at = each.topic, each.partition
        begins[at] = min(each.begin_ms, begins.get(at, each.begin_ms))
    ends: dict[TopicPartition, int] = {}
    for each in old:
        at = each.topic, each.partition
        if each.end_ms is not None:
            ends[at] = max(each.end_ms, ends.get(at, 0))
    return sum(max(0, begins[at] - end_ms) for at, end_ms in ends.items() if at in begins)
