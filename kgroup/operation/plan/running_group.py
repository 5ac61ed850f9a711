"""A group to plan for: its description, its brokers, and a scenario that starts from its state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kgroup.assignor.client_facts import FACTS, ClientFacts
from kgroup.errors import ExitStatus, InputError, NotFoundError, UnfitError, named_group
from kgroup.model.client_library import KAFKA_CLIENTS, Certainty
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.member_name import MemberName, called, find_member, name_of
from kgroup.model.problem import Problem
from kgroup.operation.assign.connect import CONNECT
from kgroup.operation.assign.group import find_group, protocol_of
from kgroup.operation.group_scenario import assumptions, member_names, scenario_of
from kgroup.operation.plan.connect import shared_settings, sink_connectors
from kgroup.operation.plan.coordinator import NO_BROKERS, Brokers, kgroup_on, read_brokers
from kgroup.operation.plan.forecast import USUAL, ProgramBehavior, beginning_at, paced
from kgroup.operation.plan.plan import MigrationTarget, Plan, PlannedMember, Precondition, Verdict
from kgroup.operation.record_limit import record_notes
from kgroup.operation.report import Report, first_names
from kgroup.simulation.scenario.scenario import InitialGroup, Scenario
from kgroup.source.base import GroupSource

_CONSUMERS: Final = "a classic or consumer group"


@dataclass(frozen=True, slots=True)
class RunningGroup:
    """A group with members, or a stopped group.

    Attributes:
        group: the group as the source knows it.
        scenario: scenario that starts from its current state and has no steps; without members, if
            the group is stopped.
        problems: what could not be read.
        notes: assumptions for values that the source does not know.
        assumed: assumptions of a forecast.
        brokers: brokers of its cluster; the scenario uses their settings as far as known.
    """

    group: Group
    scenario: Scenario
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    brokers: Brokers = NO_BROKERS

    def report(self, plan: Plan, source: GroupSource) -> Report[Plan]:
        """Return the report of a plan, with the cluster id and the forecast's assumptions."""
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
        size = made.forecast.record_bytes if made.forecast else None
        limited = record_notes(size, self.scenario.settings)
        return Report((made,), self.problems, (*self.notes, *limited))

    @property
    def by_name(self) -> Mapping[str, Member]:
        """The members, by their names in the scenario."""
        assert self.scenario.start is not None
        known = {member.member_id: member for member in self.group.members}
        return {
            name: known[member.member_id]
            for name, member in self.scenario.start.members.items()
            if member.member_id in known
        }

    @property
    def connectors(self) -> tuple[str, ...]:
        """The connectors of Kafka Connect whose tasks are members, with shared settings."""
        return sink_connectors(self.group.members)

    @property
    def library(self) -> str | None:
        """Client library of all members; None if unknown.

        It is certain for one member at least, and what the others sent does not rule it out.
        """
        members = self.group.members
        certain = {
            member.client_library
            for member in members
            if member.client_library_certainty is Certainty.CERTAIN
        }
        names = [
            name
            for name in FACTS
            if certain == {name}
            and all(
                name == member.client_library
                or (
                    member.client_library is None
                    and name in (member.client_library_candidates or ())
                )
                for member in members
            )
        ]
        return names[0] if names else None

    @property
    def facts(self) -> ClientFacts:
        """Facts of the members' library; of Java's if it is unknown."""
        return FACTS[self.library or KAFKA_CLIENTS]

    @property
    def other_libraries(self) -> frozenset[str]:
        """Libraries that members may use, if none is certain and Java's is ruled out for some."""
        if self.library is not None:
            return frozenset()
        return frozenset(
            name
            for member in self.group.members
            if member.client_library_candidates
            and KAFKA_CLIENTS not in member.client_library_candidates
            for name in member.client_library_candidates
        )

    def library_condition(
        self, what: str, has: Callable[[ClientFacts], bool]
    ) -> Iterator[Precondition]:
        """Yield whether the libraries that members may use have something, if they are not Java's.

        Args:
            what: what they must have.
            has: whether a library has it.
        """
        names = self.other_libraries
        if not names:
            return
        lacking = sorted(name for name in names if name in FACTS and not has(FACTS[name]))
        is_refuted = len(lacking) == len(names)
        found = f"members use {' or '.join(sorted(names))}"
        if lacking:
            found += f"; without {what}: {', '.join(lacking)}"
        yield Precondition(
            "client-library",
            f"The members' client library has {what}.",
            Verdict.REFUTED if is_refuted else Verdict.UNKNOWN,
            found,
            "Give --client LIBRARY, where the command has it: settings and abilities are otherwise "
            "those of kafka-clients.",
        )

    @property
    def is_stopped(self) -> bool:
        """Whether the group has no members; then there is nothing to simulate."""
        return not self.group.members

    @property
    def rests(self) -> Precondition:
        """The precondition that the group is stable or stopped."""
        state, type_ = self.group.state, self.group.type
        if self.is_stopped:
            text = "The group has no members: configure its applications before they start."
            return Precondition("stopped", text, Verdict.VERIFIED, f"state {state}")
        text = "The group is stable: no rebalance is in progress."
        check = (
            f"Wait until {kgroup_on(self.group, 'describe')} shows Stable. If it does not, "
            f"{kgroup_on(self.group, 'check')} shows what rebalances the group."
        )
        if state is None:
            return Precondition("stable", text, Verdict.UNKNOWN, None, check)
        is_stable = state is GroupState.STABLE
        found = f"state {state}" + (f" of a group of type {type_}" if type_ else "")
        verdict = Verdict.VERIFIED if is_stable else Verdict.REFUTED
        return Precondition("stable", text, verdict, found, None if is_stable else check)

    @property
    def names(self) -> Mapping[MemberName, str]:
        """The names of the members in the scenario, by all their names."""
        return {
            replace(name_of(member), others=(name,)): name for name, member in self.by_name.items()
        }

    def has(self, text: str) -> bool:
        """Return whether a member has this name; see `named`."""
        return bool(called(text, [*self.names]))

    def named(self, text: str) -> str:
        """Return the name in the scenario of the member that a text means.

        Raises:
            UsageError: it means several members.
            NotFoundError: it means none.
        """
        names = self.names
        return names[find_member(text, [*names], named_group(self.group.group_id))]


def plan_of(
    group: Group,
    target: MigrationTarget,
    goal: str | None,
    preconditions: Iterable[Precondition],
    summary: str = "",
) -> Plan:
    """Return a plan without steps for a group."""
    members = planned_members(group.members)
    kind = group.type, group.assignor
    return Plan(group.group_id, target, goal, summary, *kind, members, tuple(preconditions))


def planned_members(members: Sequence[Member]) -> tuple[PlannedMember, ...]:
    """Return the members for a plan, with their names in scenarios."""
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
    behavior: ProgramBehavior = USUAL,
    configured: Callable[[Scenario], Scenario] = lambda scenario: scenario,
    expected: str = _CONSUMERS,
) -> RunningGroup:
    """Read a group whose members are consumers with a coordinator, to plan for it.

    Args:
        source: source of groups.
        group_id: group id.
        behavior: behavior of the group's applications.
        configured: adds settings to the scenario that the user gives and no source knows.
        expected: required kind of group, for the error.

    Raises:
        NotFoundError: the group does not exist.
        InputError: the group is of another kind, its members' subscriptions are unknown, or it
            cannot be simulated.
    """
    reading, group = find_group(source, group_id)
    if group.type not in (GroupType.CLASSIC, GroupType.CONSUMER):
        raise UnfitError.of_group(group_id, f"expected {expected}, found one of type {group.type}")
    if group.protocol_type == CONNECT:
        raise UnfitError.of_group(
            group_id,
            f"expected {expected}, found {CONNECT!r}: no plan applies to workers of Kafka "
            "Connect, which are never static (group.instance.id is a setting of consumers) and "
            "have assignors of their own (connect.protocol)",
        )
    brokers = read_brokers(source, group)
    if _is_stopped(group):
        start = InitialGroup(1, group.assignor or "", "", {}, {}, {})
        empty = Scenario(group_id, {}, {}, (), 0, start=start)
        return RunningGroup(group, empty, brokers=brokers)
    report = scenario_of(source, reading, group)
    scenario = brokers.simulated(report.data[0])
    if sink_connectors(group.members):  # default of Connect
        scenario = beginning_at(scenario, "earliest")
    scenario = paced(configured(scenario), behavior)
    late = tuple(_late(scenario, behavior))
    assumed = (*assumptions(scenario), _restarts(scenario, behavior), *late)
    running = RunningGroup(group, scenario, report.errors, report.notes, assumed, brokers)
    return replace(running, notes=(*report.notes, *_other_libraries(running), *late))


def _other_libraries(running: RunningGroup) -> Iterator[str]:
    """Yield a note if members' settings are unknown, and their library cannot be Java's."""
    if candidates := running.other_libraries:
        yield (
            f"members do not use kafka-clients, but {' or '.join(sorted(candidates))}, which is "
            "not certain; without --client, settings and abilities are those of kafka-clients"
        )


def _is_stopped(group: Group) -> bool:
    """Return whether a group without members is a group of consumers.

    Raises:
        InputError: the group is of another kind.
    """
    protocol_of(group)
    return group.state is GroupState.EMPTY and not group.members


def _restarts(scenario: Scenario, behavior: ProgramBehavior) -> str:
    at_once = behavior.restarted_at_once(len(scenario.members or scenario.connectors))
    return (
        f"a restart takes {behavior.restart_ms / 1000:g} s, of {at_once} "
        f"{'member' if at_once == 1 else 'members'} at a time; seed {behavior.seed}"
    )


def _late(scenario: Scenario, behavior: ProgramBehavior) -> Iterator[str]:
    """Yield a note if the poll interval is so long that the group would never be stable."""
    allowed = {
        name: plan.config.max_poll_interval_ms
        for name, plan in scenario.members.items()
        if plan.config.leaves_if_late
    }
    late = [name for name, most_ms in allowed.items() if most_ms <= behavior.poll_ms]
    if late:
        yield (
            f"with {behavior.poll_ms} ms from one poll() to the next, and max.poll.interval.ms "
            f"{min(allowed[name] for name in late)}, these leave the group again and again, which "
            f"the forecast is of: {first_names(late)}; look at --poll-interval"
        )


def plan_each(
    source: GroupSource,
    group_ids: Collection[str],
    make: Callable[[RunningGroup], Plan],
    behavior: ProgramBehavior = USUAL,
    configured: Callable[[Scenario], Scenario] = lambda scenario: scenario,
    expected: str = _CONSUMERS,
) -> Report[Plan]:
    """Return a plan for each group, read as by `read_running`; see `plan_all`."""

    def plan(group_id: str) -> Report[Plan]:
        running = read_running(source, group_id, behavior, configured, expected)
        return running.report(make(running), source)

    return plan_all(group_ids, plan)


def plan_all(group_ids: Collection[str], plan: Callable[[str], Report[Plan]]) -> Report[Plan]:
    """Return a plan for each group.

    Returns:
        The plans. Groups without a plan are problems; notes name their groups, unless they apply to
        all. If every group has a plan, the verdict is `PROBLEM` if any of them cannot be executed.
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
            reason = reason.removeprefix(f"group {group_id!r}: {error.kind}: ")
            problems.append(Problem(error.kind, reason, group_id=group_id))
            all_planned = False
            continue
        plans += report.data
        problems += report.errors
        for note in report.notes:
            notes.setdefault(note, []).append(group_id)
    is_sound = all(plan.is_sound for plan in plans)
    verdict = ExitStatus.PROBLEM if all_planned and not is_sound else None
    all_notes = (
        note if len(groups) == len(names) else f"{first_names(groups)}: {note}"
        for note, groups in notes.items()
    )
    return Report(tuple(plans), tuple(problems), tuple(all_notes), verdict)
