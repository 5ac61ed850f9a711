"""Static members: a restart within the session moves nothing; and back to dynamic ones.

Source: KIP-345; `ClassicGroup.replaceStaticMember` and `ConsumerGroup` of Kafka 4.3 (a static
member that comes back takes the place of what it was), `KafkaConsumer.close` (static members do not
leave; of the consumer protocol they say that they will be back, with epoch -2), `GroupConfig`
(`consumer.session.timeout.ms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kgroup.model.group import Group, Member
from kgroup.operation.plan.connect import own_settings
from kgroup.operation.plan.coordinator import kgroup_on
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    Habits,
    forecast,
    how_to_restart,
    removing_restart,
    rolling_restart,
)
from kgroup.operation.plan.instance_id import proposed
from kgroup.operation.plan.plan import Expected, NaiveWay, Plan, PlanStep, Setting, Target
from kgroup.operation.plan.precondition.static_membership import (
    INSTANCE_ID,
    SESSION,
    broker_version,
    client_version,
    lasting_ids,
    restart_time,
    seconds,
    session_of_group,
    session_of_members,
    unique_ids,
)
from kgroup.operation.plan.running import RunningGroup, plan_of
from kgroup.simulation.client.config import ClientConfig
from kgroup.simulation.scenario.scenario import MemberPlan, Scenario

_DEFAULT_SESSION_MS = ClientConfig("", "").session_timeout_ms
_MARGIN = 2
"""How much longer than a restart a session is to be: a slow day, and the last heartbeat before."""
_STEP_MS = 5_000


def plan_static_membership(
    running: RunningGroup, habits: Habits, *, template: str | None = None, is_measured: bool = False
) -> Plan:
    """Plan to give each member a `group.instance.id`.

    Args:
        running: the group.
        habits: of the group's programs.
        template: of instance ids, as `proposed` takes it.
        is_measured: whether the time of a restart was measured.

    Raises:
        UsageError: the template is none.
    """
    if running.is_stopped:
        return _of_stopped(running, None)
    members = running.by_name
    ids, made_of = proposed(members, template)
    brokers = running.brokers
    needed_ms = -(-_MARGIN * habits.restart_ms // _STEP_MS) * _STEP_MS
    sessions = {
        name: max(needed_ms, each.session_timeout_ms or _DEFAULT_SESSION_MS)
        for name, each in members.items()
        if running.scenario.members[name].config.group_protocol == "classic"
    }
    of_brokers = members.keys() - sessions.keys()
    told_ms = brokers.session_ms or _DEFAULT_SESSION_MS
    brokers_ms = max(needed_ms, told_ms)
    conditions = [
        running.rests,
        *own_settings(running.connectors),
        client_version(members, of_brokers),
        *([broker_version(members, brokers)] if sessions else []),
        unique_ids(ids, made_of),
        lasting_ids(members),
        restart_time(habits, is_measured=is_measured),
        *([session_of_members(max(sessions.values()), brokers)] if sessions else []),
        *([session_of_group(running, brokers_ms, brokers)] if of_brokers else []),
    ]
    plan = plan_of(running.group, Target.STATIC_MEMBERSHIP, None, conditions)
    if plan.is_refuted:
        return plan.refused()
    settings = _settings(members, ids, sessions)
    grows = bool(of_brokers) and brokers_ms > told_ms
    away_ms = min([*sessions.values(), *([brokers_ms] if of_brokers else [])])
    if not settings and not grows:
        return replace(
            plan,
            summary="Nothing is to be done: every member is static, and back before its session "
            f"of {seconds(away_ms)} ends.",
        )
    step = _make_static(running, settings, ids, habits)
    if grows:
        longer = f"Let the brokers give the group a session of {seconds(brokers_ms)}."
        command = brokers.configure(running.group.group_id, brokers_ms)
        step = replace(step, actions=(longer, *step.actions), commands=(command,))
    before = _with_session(running.scenario, told_ms)
    after = _with_session(running.scenario, brokers_ms)
    plans = {
        name: _static(each, ids[name], sessions.get(name)) for name, each in after.members.items()
    }
    moves = [
        rolling_restart(step, after, {name: plans[name] for name in step.restarted}, habits),
        rolling_restart(_later(running, ids, away_ms, habits), after, plans, habits),
    ]
    steps, total = forecast(after, moves, habits)
    as_now = rolling_restart(NOT_PLANNED, before, before.members, habits)
    _, naive = forecast(before, [as_now], habits)
    return plan.carried_out(
        "Every member gets a name of its own. From then on a restart within "
        f"{seconds(away_ms)} moves nothing, and what a member reads waits for it: compare step "
        "2 with a restart as members are now.",
        steps,
        total,
        NaiveWay("Each rolling restart, as members are now", naive),
    )


def plan_dynamic_membership(running: RunningGroup, habits: Habits) -> Plan:
    """Plan to take `group.instance.id` from each member that has one."""
    if running.is_stopped:
        return _of_stopped(running, "back")
    static = {name: each.instance_id for name, each in running.by_name.items() if each.instance_id}
    plan = plan_of(running.group, Target.STATIC_MEMBERSHIP, "back", (running.rests,))
    if plan.is_refuted:
        return plan.refused()
    if not static:
        return replace(plan, summary="Nothing is to be done: no member is static.")
    scenario = running.scenario
    plans = {
        name: replace(
            scenario.members[name], config=replace(scenario.members[name].config, instance_id=None)
        )
        for name in static
    }
    step = PlanStep(
        0,
        "Restart every member without an instance id, and remove what it was",
        tuple(static),
        tuple(Setting(name, INSTANCE_ID, each, None) for name, each in static.items()),
        (
            "Stop a member in order. It does not leave the group: what it owned is read by nobody.",
            "Then remove it, by its own command below and by no other, so that other members take "
            "over at once. The commands are in the order of the restarts, one for each: run while "
            "its member is still there, it would stop what that reads, and the member would come "
            "back as it was.",
            f"Start it without {INSTANCE_ID}. {how_to_restart(habits, len(static))}",
        ),
        tuple(_remove(running.group, each) for each in static.values()),
        (
            f"{kgroup_on(running.group, 'describe')} shows no instance ids, and each member once.",
            "From now on every restart is two rebalances, and a session may be shorter again.",
        ),
        f"Restart the members with the {INSTANCE_ID} that they had.",
        expected=Expected(is_restarted=True, members=len(running.by_name), instance_ids=()),
    )
    steps, total = forecast(scenario, [removing_restart(step, scenario, plans, habits)], habits)
    left = rolling_restart(NOT_PLANNED, scenario, plans, habits)
    _, naive = forecast(scenario, [left], habits)
    return plan.carried_out(
        "Members leave again when they stop, and others take over.",
        steps,
        total,
        NaiveWay("Restarts alone: what each was stays until its session is over", naive),
    )


def _of_stopped(running: RunningGroup, goal: str | None) -> Plan:
    """Say what is to be done while nobody is there to have a name."""
    if goal is None:
        what = (
            f"give each of its programs a {INSTANCE_ID} of its own before it starts, and a "
            f"{SESSION} that is longer than a restart. Names are proposed when members are there"
        )
    else:
        what = f"take {INSTANCE_ID} out of the settings of its programs before they start"
    summary = f"The group is stopped, so that no restart is needed: {what}."
    return plan_of(running.group, Target.STATIC_MEMBERSHIP, goal, (running.rests,), summary)


# --- steps ----------------------------------------------------------------------------------------


def _with_session(scenario: Scenario, session_ms: int) -> Scenario:
    """Let the brokers give members of the consumer protocol a session."""
    settings = replace(scenario.consumer_settings, session_timeout_ms=session_ms)
    return replace(scenario, consumer_settings=settings)


def _static(plan: MemberPlan, instance_id: str, session_ms: int | None) -> MemberPlan:
    config = replace(plan.config, instance_id=instance_id)
    if session_ms is not None:
        config = replace(config, session_timeout_ms=session_ms)
    return replace(plan, config=config)


def _settings(
    members: Mapping[str, Member], ids: Mapping[str, str], sessions: Mapping[str, int]
) -> tuple[Setting, ...]:
    """Say what changes: a session once for all members where it is the same."""
    found = [
        Setting(name, INSTANCE_ID, None, ids[name])
        for name, each in members.items()
        if each.instance_id is None
    ]
    longer = {
        name: (members[name].session_timeout_ms, session_ms)
        for name, session_ms in sessions.items()
        if members[name].session_timeout_ms != session_ms
    }
    if len(longer) == len(members) and len(set(longer.values())) == 1:
        ((was, becomes),) = set(longer.values())
        found.append(Setting(None, SESSION, _text(was), str(becomes)))
    else:
        found += [
            Setting(name, SESSION, _text(was), str(becomes))
            for name, (was, becomes) in longer.items()
        ]
    return tuple(found)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _make_static(
    running: RunningGroup, settings: tuple[Setting, ...], ids: Mapping[str, str], habits: Habits
) -> PlanStep:
    changed = {setting.member for setting in settings}
    restarted = tuple(name for name in running.by_name if changed & {None, name})
    return PlanStep(
        0,
        "Restart every member with an instance id of its own",
        restarted,
        settings,
        (
            how_to_restart(habits, len(restarted)),
            "Stop each in order before it is started anew: it leaves, and its place is free.",
        ),
        see=(
            f"{kgroup_on(running.group, 'describe')} shows each member with its instance id, once.",
        ),
        back=f"Restart the members without {INSTANCE_ID}: {_plan_back(running.group)} says how.",
        expected=_expected(running, ids),
    )


def _later(
    running: RunningGroup, ids: Mapping[str, str], session_ms: int, habits: Habits
) -> PlanStep:
    """Describe what every restart is from then on."""
    was_ms = max(each.session_timeout_ms or 0 for each in running.by_name.values())
    before = f", and not after {seconds(was_ms)} as now" if 0 < was_ms < session_ms else ""
    return PlanStep(
        0,
        "Restart every member once more, with the next deployment: nothing moves",
        tuple(ids),
        (),
        (
            how_to_restart(habits, len(ids)),
            f"Each must be back within {seconds(session_ms)}; else it is missed, and rebalances "
            "come as before.",
        ),
        see=(
            f"{kgroup_on(running.group, 'describe')} shows the generation, or epoch, that it "
            "showed before, and every member with another member id.",
            f"A member that crashes is missed after {seconds(session_ms)}{before}: nobody reads "
            "its partitions until then. One that is late with poll() (max.poll.interval.ms) keeps "
            "them for so long too.",
            "A member that is taken away for good keeps its partitions for so long, unless it is "
            f"removed: {_remove(running.group, 'ID')}",
        ),
        back=_plan_back(running.group),
        expected=_expected(running, ids),
    )


def _expected(running: RunningGroup, ids: Mapping[str, str]) -> Expected:
    return Expected(
        is_restarted=True, members=len(running.by_name), instance_ids=tuple(ids.values())
    )


def _remove(group: Group, instance_id: str) -> str:
    return kgroup_on(group, "members remove", "--instance", instance_id, "--execute")


def _plan_back(group: Group) -> str:
    return kgroup_on(group, "plan static-membership", "--back")
