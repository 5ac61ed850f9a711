"""A group as plans need it: its description, its brokers, and a scenario that continues from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kgroup.errors import ExitStatus, InputError, NotFoundError, UnfitError, named_group
from kgroup.model.client_library import KAFKA_CLIENTS, LIBRDKAFKA, Certainty
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.problem import Problem
from kgroup.operation.assign.group import find_group, protocol_of
from kgroup.operation.group_scenario import assumptions, member_names, scenario_of
from kgroup.operation.plan.connect import shared_settings, sink_connectors
from kgroup.operation.plan.coordinator import NO_BROKERS, Brokers, kgroup_on, read_brokers
from kgroup.operation.plan.forecast import USUAL, ProgramBehavior, beginning_at, paced
from kgroup.operation.plan.plan import MigrationTarget, Plan, PlannedMember, Precondition, Verdict
from kgroup.operation.report import Report, first_names
from kgroup.simulation.scenario.scenario import InitialGroup, Scenario
from kgroup.source.base import GroupSource

_LIBRARIES: Final = {KAFKA_CLIENTS: "java", LIBRDKAFKA: LIBRDKAFKA}
"""Client libraries that plans know apart, and what `--client` calls each."""
_CONSUMERS: Final = "a classic or consumer group"


@dataclass(frozen=True, slots=True)
class RunningGroup:
    """A group with members, or one that is stopped.

    Attributes:
        group: as the source knows it.
        scenario: in which it is as it is, and nothing happens; without anybody, where it is
            stopped.
        problems: what could not be read.
        notes: what was taken in the place of what the source does not know.
        assumed: what a forecast assumes.
        brokers: of its cluster, which have the scenario's settings as far as they tell them.
    """

    group: Group
    scenario: Scenario
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    brokers: Brokers = NO_BROKERS

    def report(self, plan: Plan, source: GroupSource) -> Report[Plan]:
        """Give a plan for it with its cluster, and with what its forecast goes by if it has one."""
        name = source.store_name
        steps = plan.steps
        if self.connectors:
            steps = tuple(replace(step, settings=shared_settings(step.settings)) for step in steps)
        made = replace(
            plan,
            steps=steps,
            cluster_id=None if name is None else name.cluster_id,
            assumed=(plan.assumed or self.assumed) if steps else (),
        )
        return Report((made,), self.problems, self.notes)

    @property
    def by_name(self) -> Mapping[str, Member]:
        """The members, by the names that the scenario has for them."""
        assert self.scenario.start is not None
        known = {member.member_id: member for member in self.group.members}
        return {
            name: known[member.member_id]
            for name, member in self.scenario.start.members.items()
            if member.member_id in known
        }

    @property
    def connectors(self) -> tuple[str, ...]:
        """The connectors of Kafka Connect whose tasks its members are: their settings are one."""
        return sink_connectors(self.group.members)

    @property
    def library(self) -> str | None:
        """What plans call the library of all members, where what they sent tells it for certain."""
        told = {
            (member.client_library, member.client_library_certainty)
            for member in self.group.members
        }
        names = [name for name in _LIBRARIES if told == {(name, Certainty.CERTAIN)}]
        return _LIBRARIES[names[0]] if names else None

    @property
    def is_stopped(self) -> bool:
        """Whether nobody is in it: then there is nothing to simulate."""
        return not self.group.members

    @property
    def rests(self) -> Precondition:
        """That no rebalance goes on, or that the group is stopped."""
        state, type_ = self.group.state, self.group.type
        if self.is_stopped:
            text = "Nobody is in the group: how its programs are configured counts at their start."
            return Precondition("stopped", text, Verdict.VERIFIED, f"state {state}")
        text = "The group is stable: no rebalance goes on."
        check = f"Wait until {kgroup_on(self.group, 'describe')} shows Stable."
        if state is None:
            return Precondition("stable", text, Verdict.UNKNOWN, None, check)
        is_stable = state is GroupState.STABLE
        found = f"state {state}" + (f" of a group of type {type_}" if type_ else "")
        verdict = Verdict.VERIFIED if is_stable else Verdict.REFUTED
        return Precondition("stable", text, verdict, found, None if is_stable else check)

    @property
    def names(self) -> Sequence[str]:
        """All that members are called by; see `named`."""
        told = [
            (name, member.instance_id, member.client_id, member.member_id)
            for name, member in self.by_name.items()
        ]
        return [text for texts in told for text in texts if text]

    def has(self, text: str) -> bool:
        """Return whether a member is called so; see `named`."""
        return bool(self._called(text))

    def _called(self, text: str) -> Sequence[str]:
        return [
            name
            for name, member in self.by_name.items()
            if text in (name, member.member_id, member.instance_id, member.client_id)
        ]

    def named(self, text: str) -> str:
        """Find a member's name by its name, member id, client id or instance id.

        Raises:
            NotFoundError: no member, or several, are called so.
        """
        found = self._called(text)
        if len(found) == 1:
            return found[0]
        what = f"{len(found)} that are called {text!r}" if found else repr(text)
        raise NotFoundError(
            f"{named_group(self.group.group_id)}: expected one member "
            f"({first_names(list(self.by_name))}), found {what}",
            group_id=self.group.group_id,
        )


def plan_of(
    group: Group,
    target: MigrationTarget,
    goal: str | None,
    preconditions: Iterable[Precondition],
    summary: str = "",
) -> Plan:
    """Make a plan without steps for a group as it is."""
    members = planned_members(group.members)
    kind = group.type, group.assignor
    return Plan(group.group_id, target, goal, summary, *kind, members, tuple(preconditions))


def planned_members(members: Sequence[Member]) -> tuple[PlannedMember, ...]:
    """Note who members are, by the names that scenarios have for them."""
    names = member_names(members)
    return tuple(
        PlannedMember(
            names[member.member_id],
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
        )
        for member in members
    )


def read_running(
    source: GroupSource,
    group_id: str,
    habits: ProgramBehavior = USUAL,
    configured: Callable[[Scenario], Scenario] = lambda scenario: scenario,
    expected: str = _CONSUMERS,
) -> RunningGroup:
    """Read a group that is to be moved, and whose members are consumers with a coordinator.

    Args:
        source: of groups.
        group_id: of one.
        habits: of its programs.
        configured: gives members in the scenario what somebody says of them and no source knows.
        expected: what the group is to be, for the error.

    Raises:
        NotFoundError: there is no such group.
        InputError: it is another group, nobody knows what its members do, or it cannot be
            simulated.
    """
    reading, group = find_group(source, group_id)
    if group.type not in (GroupType.CLASSIC, GroupType.CONSUMER):
        raise UnfitError(
            f"{named_group(group_id)}: expected {expected}, found one of type {group.type}",
            group_id=group_id,
        )
    brokers = read_brokers(source, group)
    if _is_stopped(group):
        start = InitialGroup(1, group.assignor or "", "", {}, {}, {})
        empty = Scenario(group_id, {}, {}, (), 0, start=start)
        return RunningGroup(group, empty, brokers=brokers)
    report = scenario_of(source, reading, group)
    scenario = brokers.simulated(report.data[0])
    if sink_connectors(group.members):  # Connect sets it, where nobody says otherwise
        scenario = beginning_at(scenario, "earliest")
    scenario = paced(configured(scenario), habits)
    late = tuple(_late(scenario, habits))
    assumed = (*assumptions(scenario), _restarts(scenario, habits), *late)
    return RunningGroup(group, scenario, report.errors, (*report.notes, *late), assumed, brokers)


def _is_stopped(found: Group) -> bool:
    """Return whether nobody is in a group whose members, if it had any, were consumers.

    Raises:
        InputError: they were others.
    """
    protocol_of(found)
    return found.state is GroupState.EMPTY and not found.members


def _restarts(scenario: Scenario, habits: ProgramBehavior) -> str:
    at_once = habits.restarted_at_once(len(scenario.members or scenario.connectors))
    return (
        f"a restart takes {habits.restart_ms / 1000:g} s, of {at_once} "
        f"{'member' if at_once == 1 else 'members'} at a time; seed {habits.seed}"
    )


def _late(scenario: Scenario, habits: ProgramBehavior) -> Iterator[str]:
    """Tell that members are said to be so slow that their group would never rest."""
    allowed = {name: plan.config.max_poll_interval_ms for name, plan in scenario.members.items()}
    late = [name for name, most_ms in allowed.items() if most_ms <= habits.poll_ms]
    if late:
        yield (
            f"with {habits.poll_ms} ms from one poll() to the next, and max.poll.interval.ms "
            f"{min(allowed[name] for name in late)}, these leave the group again and again, which "
            f"the forecast is of: {first_names(late)}; look at --poll-interval"
        )


def plan_each(
    source: GroupSource,
    group_ids: Collection[str],
    make: Callable[[RunningGroup], Plan],
    habits: ProgramBehavior = USUAL,
    configured: Callable[[Scenario], Scenario] = lambda scenario: scenario,
    expected: str = _CONSUMERS,
) -> Report[Plan]:
    """Plan for each of these groups, which are read as `read_running` does; see `plan_all`."""

    def plan(group_id: str) -> Report[Plan]:
        running = read_running(source, group_id, habits, configured, expected)
        return running.report(make(running), source)

    return plan_all(group_ids, plan)


def plan_all(group_ids: Collection[str], plan: Callable[[str], Report[Plan]]) -> Report[Plan]:
    """Make plans, each for a group.

    Returns:
        The plans; groups for which there is none are problems, and notes name theirs where they are
        not of all. Where each has a plan, the verdict is a problem if one cannot be carried out so.
    """
    plans: list[Plan] = []
    problems: list[Problem] = []
    notes: dict[str, list[str]] = {}
    all_planned = True
    names = dict.fromkeys(group_ids)
    for group_id in names:
        try:
            report = plan(group_id)
        except (NotFoundError, InputError) as error:
            reason = str(error).removeprefix(f"{named_group(group_id)}: ")
            problems.append(Problem(error.kind, reason, group_id=group_id))
            all_planned = False
            continue
        plans += report.data
        problems += report.errors
        for note in report.notes:
            notes.setdefault(note, []).append(group_id)
    is_sound = all(each.is_sound for each in plans)
    verdict = ExitStatus.PROBLEM if all_planned and not is_sound else None
    told = (
        note if len(groups) == len(names) else f"{first_names(groups)}: {note}"
        for note, groups in notes.items()
    )
    return Report(tuple(plans), tuple(problems), tuple(told), verdict)
