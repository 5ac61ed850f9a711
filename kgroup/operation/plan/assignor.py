"""Plan the change of the client-side strategy, without stopping the group if possible.

Source: `ConsumerCoordinator` of kafka-clients 4.3.1 (a consumer that lists an eager strategy uses
the eager protocol, whatever the group selected), `ClassicGroup.selectProtocol` (selects, among the
strategies that all members support, the one with most votes; each member votes for the first one in
its list), KIP-429; of librdkafka, `rd_kafka_assignors_init`, which rejects lists with both kinds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from kgroup.assignor.client_facts import FACTS
from kgroup.errors import NotFoundError, UnfitError, UsageError, near_names
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.group import GroupType
from kgroup.operation.plan.connect import settable, tasks_one_by_one
from kgroup.operation.plan.coordinator import kgroup_on
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    PlayedStep,
    ProgramBehavior,
    forecast,
    how_to_restart,
    rolling_restart,
    stopped_group,
)
from kgroup.operation.plan.plan import (
    Expected,
    MigrationTarget,
    NaiveWay,
    Plan,
    PlanStep,
    Precondition,
    SettingChange,
    Verdict,
)
from kgroup.operation.plan.running_group import RunningGroup, plan_each, plan_of
from kgroup.operation.plan.stop import how_to_start, how_to_stop, removal, started_with
from kgroup.operation.report import Report, first_names
from kgroup.simulation.client.config import COOPERATIVE_STICKY
from kgroup.simulation.scenario.scenario import MemberPlan, Scenario
from kgroup.source.base import GroupSource

STRATEGY = FACTS[KAFKA_CLIENTS].strategy_setting
CLASSES = FACTS[KAFKA_CLIENTS].strategies
"""Class names of strategies, by their protocol names."""

_ASSIGNING = "a classic group, whose members assign"

_Lists = Mapping[str, tuple[str, ...]]
"""Strategies that members support, by member name, in order of preference."""


def strategy_named(text: str) -> str:
    """Return the name of a strategy, given by name or class.

    Raises:
        UsageError: the strategy is unknown.
    """
    by_class = {class_: name for name, class_ in CLASSES.items()}
    name = by_class.get(text, text)
    if name not in CLASSES:
        raise UsageError(
            f"expected a strategy ({', '.join(CLASSES)}) or its class, found {text!r}"
            f"{near_names(text, [*CLASSES, *by_class])}"
        )
    return name


def plan_assignors(
    source: GroupSource,
    group_ids: Collection[str],
    strategy: str,
    settings: _Lists,
    behavior: ProgramBehavior,
    library: str | None = None,
) -> Report[Plan]:
    """Return a plan for each group, with the settings that apply to its members.

    Arguments as for `plan_assignor`.

    Raises:
        NotFoundError: a setting is for a member that no group has.
    """
    groups: dict[str, list[str]] = {text: [] for text in settings if text}
    known_names: dict[str, None] = {}

    def make(running: RunningGroup) -> Plan:
        known_names.update(dict.fromkeys(text for name in running.names for text in name.texts))
        own = {text: names for text, names in settings.items() if not text or running.has(text)}
        for text in own.keys() & groups.keys():
            groups[text].append(running.group.group_id)
        return plan_assignor(running, strategy, own, behavior, library)

    report = plan_each(source, group_ids, make, behavior, expected=_ASSIGNING)
    unused = [text for text, called in groups.items() if not called]
    if unused and report.data:
        raise NotFoundError(
            f"--settings: expected members of {first_names([*dict.fromkeys(group_ids)])}, found "
            f"none that is called {first_names([repr(text) for text in unused])}"
            f"{near_names(unused[0], known_names)}"
        )
    if len(group_ids) == 1:
        return report
    notes = (f"--settings of {text} is of {first_names(called)}" for text, called in groups.items())
    return replace(report, notes=(*report.notes, *notes))


def plan_assignor(
    running: RunningGroup,
    strategy: str,
    settings: _Lists,
    behavior: ProgramBehavior,
    library: str | None = None,
) -> Plan:
    """Return a plan to change the strategy of a group.

    Args:
        running: the group.
        strategy: new strategy.
        settings: strategies that members support, as given by the user; "" stands for all other
            members. Members without an entry support only the group's strategy.
        behavior: behavior of the group's applications.
        library: client library of all members; None to identify it from the members.

    Raises:
        InputError: the group is not a classic group.
        NotFoundError: a setting is for a member that does not exist.
    """
    group = running.group
    if group.type is not GroupType.CLASSIC:
        raise UnfitError.of_group(
            group.group_id, f"expected {_ASSIGNING}, found one of type {group.type}"
        )
    if running.is_stopped:
        return _start(running, strategy, library)
    found = f"--client {library}" if library else "what members sent identifies their library"
    library = library or running.library
    assert running.scenario.start is not None
    now = running.scenario.start.protocol
    settings = _by_name(running, settings)
    lists = {name: settings.get(name, (now,)) for name in running.by_name}
    preconditions = [running.rests, _common(running, now, lists)]
    is_mixed = COOPERATIVE_STICKY in (strategy, now) and strategy != now
    is_connect = bool(running.connectors)
    stops = is_connect or (is_mixed and library is not None and not FACTS[library].mixes)
    preconditions += (
        settable(running.connectors) if is_connect else [_known(running, now, settings, library)]
    )
    if is_mixed and not is_connect:
        preconditions.append(_mixed_lists(library, found))
    if library is None:
        preconditions += running.library_condition(
            strategy, lambda facts: strategy in facts.strategies
        )
    if strategy == COOPERATIVE_STICKY:
        if library is None or FACTS[library].cooperative_since:
            preconditions.append(_version(running, library))
        if now != strategy:
            preconditions.append(one_by_one(now, running.connectors))
    if library not in (None, KAFKA_CLIENTS):
        preconditions.append(_known_strategies(library, strategy, lists))
    scenario = _supporting(running.scenario, lists)
    plan = replace(plan_of(group, MigrationTarget.ASSIGNOR, strategy, preconditions), assignor=now)
    if plan.is_refuted:
        return plan.refused()
    if set(lists.values()) == {(strategy,)}:
        return replace(plan, summary=_reached(running, strategy, settings))
    change = _Change(running, scenario, strategy, behavior, library)
    moves = [change.stopped(lists)] if stops else change.bounces(lists)
    steps, total = forecast(scenario, moves, behavior)
    count = "one rolling restart" if len(moves) == 1 else f"{len(moves)} rolling restarts"
    return plan.carried_out(
        f"From {now} to {strategy} " + ("with the group stopped." if stops else f"in {count}."),
        steps,
        total,
        None
        if is_connect or (len(moves) == 1 and not stops)
        else _naive(scenario, lists, strategy, behavior),
    )


def _reached(running: RunningGroup, strategy: str, settings: _Lists) -> str:
    """Return a summary that the strategy is in use; other listed ones need a restart."""
    if settings.keys() >= running.by_name.keys():
        return f"Nothing to do: every member supports {strategy} only."
    return (
        f"Nothing to do if every member supports {strategy} only: the group already "
        "uses it. If members list other assignors too, as after the first of two "
        f"restarts, give --settings {strategy},OTHER: then only the last restart is planned."
    )


def _start(running: RunningGroup, strategy: str, library: str | None) -> Plan:
    """Return a plan for a stopped group, whose members determine the strategy when they start."""
    group = running.group
    preconditions = [running.rests]
    if strategy == COOPERATIVE_STICKY and (library is None or FACTS[library].cooperative_since):
        preconditions.append(_version(running, library))
    if library not in (None, KAFKA_CLIENTS):
        preconditions.append(_known_strategies(library, strategy, {}))
    plan = plan_of(group, MigrationTarget.ASSIGNOR, strategy, preconditions)
    if plan.is_refuted:
        return plan.refused()
    step = started_with(
        f"{strategy} only",
        (strategies_set(None, None, (strategy,), library),),
        (f"{kgroup_on(group, 'describe')} shows the assignor {strategy}.",),
        Expected(GroupType.CLASSIC, strategy, members=1),
    )
    return plan.carried_out("The group is stopped, so no restart is needed.", (step,))


def _by_name(running: RunningGroup, settings: _Lists) -> _Lists:
    named = {running.named(text): names for text, names in settings.items() if text}
    others = dict.fromkeys(running.by_name, settings[""]) if "" in settings else {}
    return {**others, **named}


def _common(running: RunningGroup, now: str, lists: _Lists) -> Precondition:
    text = f"Every member supports {now}, which the group uses."
    without = [name for name, names in lists.items() if now not in names]
    if without:
        return Precondition(
            "common-strategy",
            text,
            Verdict.REFUTED,
            f"not listed for {', '.join(without)}",
            "Every member of a group must support its assignor (INCONSISTENT_GROUP_PROTOCOL): "
            "check --settings.",
        )
    found = f"the group has generation {running.group.generation_id or 'unknown'}, with {now}"
    return Precondition("common-strategy", text, Verdict.VERIFIED, found)


def _known(running: RunningGroup, now: str, settings: _Lists, library: str | None) -> Precondition:
    text = "The other assignors that members support are known."
    left = [name for name in running.by_name if name not in settings]
    if not left:
        return Precondition("supported-strategies", text, Verdict.VERIFIED, "given with --settings")
    return Precondition(
        "supported-strategies",
        text,
        Verdict.UNKNOWN,
        f"a cluster reports only {now}, which the group uses; the plan assumes that "
        "there are no others"
        + ("" if len(left) == len(running.by_name) else f" of {', '.join(left)}"),
        f"Check {FACTS[library or KAFKA_CLIENTS].strategy_setting} of each member, and give what "
        "differs: --settings "
        "MEMBER=range,sticky. A member that supports more assignors may need one "
        "restart less.",
    )


def _without_mix() -> str:
    return " and ".join(name for name, facts in FACTS.items() if not facts.mixes)


def _mixed_lists(library: str | None, found: str) -> Precondition:
    text = "Clients accept a list with an eager and the cooperative assignor."
    if library is not None and not FACTS[library].mixes:
        return Precondition(
            "mixed-strategies",
            f"The whole group is stopped and started, in one step: {library} rejects a list with "
            "an eager and the cooperative assignor.",
            Verdict.VERIFIED,
            found,
        )
    if library is not None:
        return Precondition("mixed-strategies", text, Verdict.VERIFIED, found)
    return Precondition(
        "mixed-strategies",
        text,
        Verdict.UNKNOWN,
        "the library of some members cannot be identified by what they sent",
        f"Java consumers do; {_without_mix()} do not: --client LIBRARY plans for them.",
    )


def one_by_one(strategy: str, connectors: tuple[str, ...]) -> Precondition:
    """Return the precondition that applications handle incremental assignment.

    Args:
        strategy: the group's current strategy, which may be eager.
        connectors: sink connectors of Kafka Connect whose tasks are the members.
    """
    if connectors:
        return tasks_one_by_one()
    return Precondition(
        "listeners",
        "The application's ConsumerRebalanceListener (librdkafka: rebalance callback, "
        "which must assign incrementally) handles incremental assignment: it receives "
        "only added or revoked partitions, not the whole assignment in each rebalance.",
        Verdict.UNKNOWN,
        f"with {strategy}, members revoke everything in each rebalance",
        "Check what the applications do in onPartitionsAssigned and onPartitionsRevoked.",
    )


def _version(running: RunningGroup, library: str | None) -> Precondition:
    facts = FACTS[library or KAFKA_CLIENTS]
    name = "Java" if library in (None, KAFKA_CLIENTS) else library
    text = f"Clients support cooperative-sticky: {name} {facts.cooperative_since} or later."
    old = [
        name
        for name, member in running.by_name.items()
        if member.subscription is not None and member.subscription.owned is None
    ]
    check = f"Check the version of {library or KAFKA_CLIENTS} in each application."
    if running.is_stopped:
        return Precondition("client-version", text, Verdict.UNKNOWN, None, check)
    if not old:
        if library != KAFKA_CLIENTS:  # others send owned partitions, but lack it
            found = "members do not send their version"
            return Precondition("client-version", text, Verdict.UNKNOWN, found, check)
        found = "subscriptions contain owned partitions, as they do since 2.4"
        return Precondition("client-version", text, Verdict.VERIFIED, found)
    verdict = Verdict.REFUTED if library == KAFKA_CLIENTS else Verdict.UNKNOWN
    found = "subscriptions without owned partitions, as Java before 2.4 sends them, from "
    found += ", ".join(old)
    return Precondition("client-version", text, verdict, found, check)


def _known_strategies(library: str, strategy: str, lists: _Lists) -> Precondition:
    known = FACTS[library].strategies
    text = f"{library} has the assignors that members list: {', '.join(known)}."
    listed = sorted({strategy, *(name for names in lists.values() for name in names)})
    without = [name for name in listed if name not in known]
    if not without:
        found = ", ".join(listed)
        return Precondition("known-strategies", text, Verdict.VERIFIED, found)
    return Precondition(
        "known-strategies",
        text,
        Verdict.REFUTED,
        f"it does not have {', '.join(without)}",
        "Choose another assignor, or give --client LIBRARY if members use another library.",
    )


def _supporting(scenario: Scenario, lists: _Lists) -> Scenario:
    """Return the scenario in which members support the given strategies."""
    members = {
        name: _listing(plan, lists.get(name, plan.config.strategies))
        for name, plan in scenario.members.items()
    }
    return replace(scenario, members=members)


def _listing(plan: MemberPlan, names: tuple[str, ...]) -> MemberPlan:
    return replace(plan, config=replace(plan.config, strategies=names))


@dataclass(frozen=True, slots=True)
class _Change:
    """Steps to change a group's strategy; their arguments are the lists that members support."""

    running: RunningGroup
    scenario: Scenario
    strategy: str
    behavior: ProgramBehavior
    library: str | None

    def bounces(self, lists: _Lists) -> list[PlayedStep]:
        """Restart members one by one; twice if some do not support the new strategy yet."""
        moves, strategy = [], self.strategy
        if not all(strategy in names for names in lists.values()):
            both = {
                name: (strategy, *(name for name in names if name != strategy))
                for name, names in lists.items()
            }
            title = f"Restart every member with {strategy} listed before its current assignors"
            seen = f"When the last member has returned, the group uses {strategy}; not before."
            moves.append(self._rolling(self._restart(lists, both, title, seen), both))
            lists = both
        alone = dict.fromkeys(lists, (strategy,))
        title = f"Restart every member with {strategy} only"
        seen = f"The group uses {strategy}."
        if strategy == COOPERATIVE_STICKY:
            seen = (
                "From now on, members continue to read partitions that do not move during a "
                "rebalance."
            )
        elif moves:
            title += f", when convenient: the group already uses {strategy}"
        return [*moves, self._rolling(self._restart(lists, alone, title, seen), alone)]

    def stopped(self, lists: _Lists) -> PlayedStep:
        """Stop all members, then start them with the new strategy."""
        alone = dict.fromkeys(lists, (self.strategy,))
        title = f"Stop the whole group, and start it with {self.strategy}"
        step = replace(
            self._restart(lists, alone, title, f"The group uses {self.strategy}."),
            restarted=tuple(lists),
            actions=(*how_to_stop(self.running.group), *how_to_start(self.running.group)),
            commands=removal(self.running.group),
            back="Stop the group again, and start it with the previous list.",
        )
        plans = {name: _listing(self.scenario.members[name], alone[name]) for name in lists}
        return stopped_group(step, self.scenario, plans, self.behavior)

    def _rolling(self, step: PlanStep, after: _Lists) -> PlayedStep:
        plans = {
            name: _listing(self.scenario.members[name], after[name]) for name in step.restarted
        }
        return rolling_restart(step, self.scenario, plans, self.behavior)

    def _restart(self, before: _Lists, after: _Lists, title: str, seen: str) -> PlanStep:
        by_name, strategy = self.running.by_name, self.strategy
        restarted = tuple(name for name in before if before[name] != after[name])
        leaves = any(not by_name[name].instance_id for name in restarted)
        what = "it leaves the group and what it has read" if leaves else "what it has read"
        return PlanStep(
            0,
            title,
            restarted,
            _settings(before, after, self.library),
            (
                how_to_restart(self.behavior, len(restarted)),
                f"Shut it down cleanly, so that {what} is committed.",
            ),
            see=(
                seen,
                f"{kgroup_on(self.running.group, 'describe')} shows the assignor {strategy}, "
                "and every restarted member with a new member id (--members --columns member_id).",
            ),
            back="Restart the members one by one with the previous list.",
            expected=Expected(GroupType.CLASSIC, strategy, is_restarted=True, members=len(by_name)),
        )


def _naive(scenario: Scenario, lists: _Lists, strategy: str, behavior: ProgramBehavior) -> NaiveWay:
    """Simulate a single rolling restart with the new strategy only."""
    plans = {name: _listing(scenario.members[name], (strategy,)) for name in lists}
    _, cost = forecast(
        scenario, [rolling_restart(NOT_PLANNED, scenario, plans, behavior)], behavior
    )
    return NaiveWay(f"One rolling restart, with {strategy} only", cost)


def _settings(before: _Lists, after: _Lists, library: str | None) -> tuple[SettingChange, ...]:
    """Return the changed settings; one entry for all members if they are equal."""

    def setting(
        member: str | None, was: tuple[str, ...], becomes: tuple[str, ...]
    ) -> SettingChange:
        return strategies_set(member, was, becomes, library)

    changes = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    if len(set(changes.values())) == 1 and len(changes) == len(before):
        return (setting(None, *next(iter(changes.values()))),)
    return tuple(setting(name, was, becomes) for name, (was, becomes) in changes.items())


def strategies_set(
    member: str | None,
    was: tuple[str, ...] | None,
    becomes: tuple[str, ...] | None,
    library: str | None,
) -> SettingChange:
    """Return the change of a library's setting for strategies; of Java's if it is unknown."""
    facts = FACTS[library or KAFKA_CLIENTS]
    texts = (None if names is None else facts.configured(names) for names in (was, becomes))
    return SettingChange(member, facts.strategy_setting, *texts)
