"""From the classic protocol to the consumer protocol (KIP-848) and back, while the group reads on.

A classic group becomes a consumer group when the first member joins that speaks the consumer
protocol, and members of both live in it side by side. It becomes a classic group again when the
last such member leaves, or comes back with the classic protocol (`GroupMetadataManager` of 4.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kgroup.model.group import GroupType
from kgroup.operation.plan.assignor import strategy_named
from kgroup.operation.plan.coordinator import CONSUMER_SESSION, MIGRATION_POLICY, kgroup_on
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    Habits,
    Move,
    forecast,
    how_to_restart,
    rolling_restart,
    stopped_group,
)
from kgroup.operation.plan.plan import Expected, NaiveWay, Plan, PlanStep, Target
from kgroup.operation.plan.precondition.consumer_protocol import conditions
from kgroup.operation.plan.protocol_change import ProtocolChange
from kgroup.operation.plan.running import RunningGroup, plan_of
from kgroup.operation.plan.stop import how_to_start, how_to_stop, removal, started_with
from kgroup.simulation.consumer.settings import MigrationPolicy

_IN_ORDER = "Let it stop in order, so that what it has read is committed."


def plan_consumer_protocol(
    running: RunningGroup,
    habits: Habits,
    *,
    back: bool = False,
    assignor: str | None = None,
    stops: bool = False,
    library: str | None = None,
    version: tuple[int, ...] | None = None,
) -> Plan:
    """Plan the way to the consumer protocol.

    Args:
        running: the group.
        habits: of the group's programs.
        back: to the classic protocol instead.
        assignor: that the group shall have: a server-side one, with `back` a strategy of members;
            None: the nearest one.
        stops: whether the group is stopped meanwhile.
        library: of all members' clients, "java" or "librdkafka"; None where nobody says it: then
            what members sent tells it, or nothing does.
        version: that they will have; likewise.

    Raises:
        UsageError: there is no such strategy.
    """
    if back and assignor is not None:
        assignor = strategy_named(assignor)
    group = running.group
    library = library or running.library
    stops = stops or bool(running.connectors)  # whose settings, and restarts, are one
    change = ProtocolChange(running, back, stops, assignor, library)
    plan = plan_of(
        *(group, Target.CONSUMER_PROTOCOL, "back" if back else None, (running.rests,)),
        f"Nothing is to be done: every member speaks the {change.protocol} protocol.",
    )
    if not (change.moved or running.is_stopped):
        return plan
    plan = replace(plan, preconditions=tuple(conditions(change, version)))
    if plan.is_refuted:
        return plan.refused()
    if running.is_stopped:
        summary = "The group is stopped, so that no restart is needed."
        return plan.carried_out(summary, (_start(change),))
    steps, total = forecast(change.running.scenario, _moves(change, habits), habits)
    return plan.carried_out(
        _summary(change), steps, total, None if stops else _naive(change, habits)
    )


def _start(change: ProtocolChange) -> PlanStep:
    assignor = change.assignor or (None if change.back else change.default)
    type_ = GroupType.CLASSIC if change.back else GroupType.CONSUMER
    return started_with(
        f"the {change.protocol} protocol",
        tuple(replace(each, before=None) for each in change.settings(())),
        (f"{kgroup_on(change.group, 'describe')} shows the type {change.protocol}.",),
        Expected(type_, assignor, members=1, protocol=None if change.back else "consumer"),
    )


def _summary(change: ProtocolChange) -> str:
    way = "with the group stopped" if change.stops else "in one rolling restart"
    others = len(change.running.by_name) - len(change.moved)
    if others and not change.stops:
        way += f" of {len(change.moved)} of {len(change.running.by_name)} members"
    return f"To the {change.protocol} protocol {way}."


def _moves(change: ProtocolChange, habits: Habits) -> list[Move]:
    if change.stops:
        return [_stopped(change, habits)]
    if change.back:
        return [_rolling(change, _back_step(change, habits), habits)]
    if change.is_begun or len(change.moved) == 1:
        return [_rolling(change, _others_step(change, change.moved, habits), habits)]
    first, others = change.moved[:1], change.moved[1:]
    return [
        _rolling(change, _first_step(change, first, habits), habits),
        _rolling(change, _others_step(change, others, habits), habits),
    ]


def _rolling(change: ProtocolChange, step: PlanStep, habits: Habits) -> Move:
    return rolling_restart(step, change.running.scenario, change.plans(step.restarted), habits)


def _step(
    change: ProtocolChange, names: Sequence[str], title: str, see: Sequence[str], habits: Habits
) -> PlanStep:
    count = len(change.running.by_name)
    if change.back:
        expected = Expected(GroupType.CLASSIC, change.assignor, is_restarted=True, members=count)
    else:
        assignor = change.assignor or change.default
        expected = Expected(
            GroupType.CONSUMER, assignor, is_restarted=True, members=count, protocol="consumer"
        )
    return PlanStep(
        0,
        title,
        tuple(names),
        tuple(change.settings(names)),
        (*([how_to_restart(habits, len(names))] if len(names) > 1 else []), _IN_ORDER),
        see=tuple(see),
        back=_way_back(change),
        expected=expected,
    )


def _way_back(change: ProtocolChange) -> str:
    """Say how to go back, for which the policy is to let groups go the other way, too."""
    policy = change.brokers.policy
    stopped = "stop all members, and start them with the settings that they had before"
    if change.back:
        text = "Restart the members one after another with the settings that they had before."
        needed, may = MigrationPolicy.UPGRADE, policy is not None and policy.upgrades
        other = (
            "members that come back to a classic group are answered GROUP_ID_NOT_FOUND: once it "
            f"is one, {stopped}"
        )
    else:
        text = (
            "Restart the members that were restarted with the settings that they had before: when "
            "the last of them stops the group is a classic group again."
        )
        needed, may = MigrationPolicy.DOWNGRADE, policy is not None and policy.downgrades
        other = f"the group stays a consumer group: {stopped}"
    if may:
        return text
    if policy is None:
        return f"{text} Where {MIGRATION_POLICY} is not {needed} or bidirectional, {other}."
    return f"As {MIGRATION_POLICY} is {policy}, {other}."


def _first_step(change: ProtocolChange, names: Sequence[str], habits: Habits) -> PlanStep:
    """Restart one member alone: it makes the group a consumer group, and shows whether it may."""
    if change.is_eager:
        others = (
            "stop to read for a moment each time, as their strategy may be eager: they give up "
            "everything and get it back at once"
        )
    else:
        others = "read on what is not moved"
    step = _step(
        change,
        names,
        "Restart one member with the consumer protocol",
        (
            _is_consumer_group(change),
            "Members that still speak the classic protocol are told to join again whenever "
            f"something changes for them, and wait for nobody; they {others}.",
        ),
        habits,
    )
    return replace(
        step,
        actions=(
            "Any member would do; `kgroup plan verify` looks for this one.",
            *step.actions,
            *change.about_session,
        ),
        commands=change.session_commands,
        expected=replace(step.expected, protocol=None),
    )


def _is_consumer_group(change: ProtocolChange) -> str:
    assignor = change.assignor or change.default
    shown = f" and the assignor {assignor}" if assignor else ""
    return (
        "When the first is back the group is a consumer group: its generation goes on as the "
        "group's epoch, and the broker assigns in the leader's place. "
        f"{kgroup_on(change.group, 'describe')} shows the type consumer{shown}."
    )


def _others_step(change: ProtocolChange, names: Sequence[str], habits: Habits) -> PlanStep:
    see = [
        "Each member that is back is told by heartbeats what to give up and what to take, and "
        "reads on meanwhile.",
        f"{kgroup_on(change.group, 'describe', '-o', 'json')} has uses_classic_protocol: false for "
        "every member.",
    ]
    if any(change.running.by_name[each].instance_id for each in names):
        session_ms = change.brokers.number(CONSUMER_SESSION)
        see.append(
            "A static member that stops keeps its partitions until it is back, at most for the "
            f"session timeout of the broker ({CONSUMER_SESSION}"
            + (f", {session_ms} ms)." if session_ms is not None else ").")
        )
    if len(names) < len(change.running.by_name):
        return _step(
            change, names, "Restart the other members with the consumer protocol", see, habits
        )
    see.insert(0, _is_consumer_group(change))
    step = _step(change, names, "Restart every member with the consumer protocol", see, habits)
    return replace(
        step, actions=(*step.actions, *change.about_session), commands=change.session_commands
    )


def _back_step(change: ProtocolChange, habits: Habits) -> PlanStep:
    names = change.moved
    title = "Restart every member with the classic protocol"
    if len(names) < len(change.running.by_name):
        title = "Restart the members that speak the consumer protocol with the classic one"
    return _step(
        change,
        names,
        title,
        (
            "The group stays a consumer group, with members of both protocols, until the last one "
            "that speaks the consumer protocol stops or, if it is static, is back.",
            "Then it is a classic group whose generation goes on from the epoch, and a member "
            "assigns: from now on a rebalance is for all members.",
            f"{kgroup_on(change.group, 'describe')} shows the type classic and the strategy "
            f"{change.assignor}.",
        ),
        habits,
    )


def _stopped(change: ProtocolChange, habits: Habits) -> Move:
    names = tuple(change.running.by_name)
    step = _step(
        change,
        names,
        f"Stop the whole group, and start it with the {change.protocol} protocol",
        (f"{kgroup_on(change.group, 'describe')} shows the type {change.protocol}.",),
        habits,
    )
    step = replace(
        step,
        actions=(*how_to_stop(change.group), *how_to_start(change.group), *change.about_session),
        commands=(*removal(change.group), *change.session_commands),
        back="Stop the group again, and start it with the settings that it had before.",
    )
    return stopped_group(step, change.running.scenario, change.plans(names), habits)


def _naive(change: ProtocolChange, habits: Habits) -> NaiveWay:
    """Play what comes of stopping the group."""
    plans = change.plans(tuple(change.running.by_name))
    move = stopped_group(NOT_PLANNED, change.running.scenario, plans, habits)
    _, found = forecast(change.running.scenario, [move], habits)
    return NaiveWay("The whole group is stopped and started", found)
