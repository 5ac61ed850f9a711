"""Static membership: restarts within the session timeout move nothing; and the way back.

Source: KIP-345; `ClassicGroup.replaceStaticMember` and `ConsumerGroup` of Kafka 4.3 (a static
member that returns replaces its former self), `KafkaConsumer.close` (static members do not leave;
with the consumer protocol they announce their return by epoch -2), `GroupConfig`
(`consumer.session.timeout.ms`), `KafkaApis.handleJoinGroupRequest` of 2.3 (rejects static members
before `inter.broker.protocol.version` 2.3).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from shlex import quote
from string import Formatter

from kgroup.assignor.client_facts import FACTS, ON_ERROR
from kgroup.errors import UsageError
from kgroup.model.client_library import KAFKA_CLIENTS, LIBRDKAFKA
from kgroup.model.group import Group, Member
from kgroup.operation.plan.connect import own_settings
from kgroup.operation.plan.coordinator import (
    CONSUMER_SESSION,
    INTER_BROKER_VERSION,
    LEAST_SESSION,
    MOST_SESSION,
    Brokers,
    kgroup_on,
)
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    ProgramBehavior,
    forecast,
    how_to_restart,
    removing_restart,
    rolling_restart,
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
from kgroup.operation.plan.running_group import RunningGroup, plan_of
from kgroup.operation.report import first_names
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.scenario.scenario import MemberPlan, Scenario

FIELDS = ("client", "host", "number")
"""Fields of a template in braces: a member's `client.id`, its host, and its number from 1."""
_LONGEST = 249
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")
_TEMPLATES = ("{client}", "{client}-{host}", "{client}-{number}")
_WHY = {
    "{client}": "client ids, which are unique",
    "{client}-{host}": "client ids and hosts, because members share client ids",
    "{client}-{number}": "client ids and numbers, because members share client ids and hosts",
}


def proposed(
    members: Mapping[str, Member], template: str | None = None
) -> tuple[Mapping[str, str], str]:
    """Return an instance id for each member; existing instance ids are unchanged.

    Without a template, the first of these that is unique is used: client id, client id with host,
    client id with number. Illegal characters of client ids and hosts become "-".

    Args:
        members: members by name.
        template: format of the ids, such as "{client}-{host}".

    Returns:
        Instance ids by name, and a description of their parts; with a template, ids may be equal.

    Raises:
        UsageError: the template is invalid.
    """
    if template is not None:
        _check(template)
        return _made(members, template), f"--instance-id {template}"
    for candidate in _TEMPLATES:
        ids = _made(members, candidate)
        if len(set(ids.values())) == len(ids):
            break
    return ids, _WHY[candidate]


def why_unfit(ids: Mapping[str, str]) -> str | None:
    """Return why some ids are invalid or not unique; None if all are valid (`Topic.validate`)."""
    named: dict[str, list[str]] = {}
    for name, instance_id in ids.items():
        named.setdefault(instance_id, []).append(name)
    for instance_id, names in named.items():
        if len(names) > 1:
            return f"{instance_id!r} would be the id of {', '.join(names)}"
        if (
            not 0 < len(instance_id) <= _LONGEST
            or instance_id in (".", "..")
            or _ILLEGAL.search(instance_id)
        ):
            return (
                f"{instance_id!r} of {names[0]} is none: expected 1 to {_LONGEST} letters, digits, "
                "'.', '_' or '-'"
            )
    return None


def _check(template: str) -> None:
    expected = f"expected a text with {', '.join(f'{{{field}}}' for field in FIELDS)} in it"
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"--instance-id: {expected}, found {template!r}: {error}") from None
    for text, field, form, conversion in parts:
        plain = field in FIELDS and not form and not conversion
        if (field is not None and not plain) or _ILLEGAL.search(text):
            raise UsageError(
                f"--instance-id: {expected}, and else letters, digits, '.', '_' and '-', found "
                f"{template!r}"
            )


def _made(members: Mapping[str, Member], template: str) -> Mapping[str, str]:
    return {
        name: member.instance_id
        or template.format(
            client=_legal(member.client_id or "member"),
            host=_legal((member.client_host or "unknown").lstrip("/")),
            number=number,
        )
        for number, (name, member) in enumerate(members.items(), 1)
    }


def _legal(text: str) -> str:
    return _ILLEGAL.sub("-", text)


INSTANCE_ID = FACTS[KAFKA_CLIENTS].static_setting or ""
SESSION = "session.timeout.ms"
GROUP_SESSION = "consumer.session.timeout.ms"
_OF_CONSUMER_GROUPS = "group.consumer.max.session.timeout.ms"
_STATIC_SINCE = (2, 3)


def client_version(
    members: Mapping[str, Member], of_brokers: Collection[str], library: str | None
) -> Precondition:
    """Return the precondition that clients support static members.

    Members in `of_brokers` use the consumer protocol, and are new enough.
    """
    names = {KAFKA_CLIENTS: "Java", LIBRDKAFKA: LIBRDKAFKA} if library is None else {}
    shown = names or {library or "": "Java" if library == KAFKA_CLIENTS else library or ""}
    since = ", ".join(f"{name} {FACTS[of].static_since}" for of, name in shown.items())
    if library is not None and FACTS[library].static_since is None:
        return Precondition(
            "client-version",
            "Clients support static members.",
            Verdict.REFUTED,
            f"{library} has no static members",
        )
    if library is not None and FACTS[library].static_leaves:
        return Precondition(
            "client-version",
            "Static members do not leave when they close.",
            Verdict.REFUTED,
            f"those of {library} leave, as dynamic ones do, so partitions move in each restart",
        )
    text = f"Clients support static members: {since}, or later."
    unknown = [
        name
        for name, member in members.items()
        if member.instance_id is None
        and name not in of_brokers
        and (member.subscription is None or member.subscription.owned is None)
    ]
    if not unknown:
        found = (
            "members are static, use the consumer protocol, or send owned partitions (since 2.4)"
        )
        return Precondition("client-version", text, Verdict.VERIFIED, found)
    return Precondition(
        "client-version",
        text,
        Verdict.UNKNOWN,
        "subscriptions without owned partitions, as Java before 2.4 sends them, from "
        f"{first_names(unknown)}",
        "Check the client version in each application; older ones ignore "
        f"{INSTANCE_ID}, with a warning in their logs.",
    )


def broker_version(members: Mapping[str, Member], brokers: Brokers) -> Precondition:
    """Return the precondition that brokers support static members."""
    text = "Brokers support static members: 2.3 or later, also as inter.broker.protocol.version."
    if static := [name for name, member in members.items() if member.instance_id]:
        found = f"already static: {first_names(static)}"
        return Precondition("broker-version", text, Verdict.VERIFIED, found)
    check = (
        "Check the brokers' version, and inter.broker.protocol.version if they are older than 4.0."
    )
    versions = {
        broker: settings.get(INTER_BROKER_VERSION) for broker, settings in brokers.settings.items()
    }
    old = {
        broker: version
        for broker, version in versions.items()
        if version is not None and _version(version) < _STATIC_SINCE
    }
    if old:
        broker, version = next(iter(old.items()))
        found = f"inter.broker.protocol.version {version} of broker {broker}"
        return Precondition("broker-version", text, Verdict.REFUTED, found, check)
    # Brokers without this setting have version 4.0 or later.
    if versions and brokers.why is None:
        found = ", ".join(sorted({version or "4.0 or later" for version in versions.values()}))
        return Precondition("broker-version", text, Verdict.VERIFIED, found)
    return Precondition("broker-version", text, Verdict.UNKNOWN, brokers.why, check)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def unique_ids(ids: Mapping[str, str], made_of: str) -> Precondition:
    """Return the precondition that all instance ids are valid and unique."""
    text = "Every member gets a unique id."
    if unfit := why_unfit(ids):
        check = "Choose another --instance-id, with {client}, {host} or {number} in it."
        return Precondition("unique-ids", text, Verdict.REFUTED, unfit, check)
    return Precondition("unique-ids", text, Verdict.VERIFIED, f"made of {made_of}")


def lasting_ids(
    members: Mapping[str, Member], library: str | None, *, are_classic: bool = True
) -> Precondition:
    """Return the precondition that a process keeps its instance id when it restarts.

    With the consumer protocol, an instance id in use is refused to other members (KIP-848).
    """
    fenced = ON_ERROR[library or KAFKA_CLIENTS].fenced
    clash = "the newer one is refused (UNRELEASED_INSTANCE_ID)"
    if are_classic:
        clash = "the older one is fenced (FENCED_INSTANCE_ID)"
        clash += f", and {fenced}" if fenced else ""
    text = (
        "An application keeps its id over restarts, and no two applications have the "
        "same id at a time."
    )
    if all(member.instance_id for member in members.values()):
        found = "members are already static"
        return Precondition("lasting-ids", text, Verdict.VERIFIED, found)
    return Precondition(
        "lasting-ids",
        text,
        Verdict.UNKNOWN,
        "a group does not show how its applications are deployed",
        "Derive the id from where the application runs: the name of a StatefulSet's pod, of the "
        "host, or of the unit; never generate it at startup. Stop a member before its successor "
        f"starts: of two members with the same id, {clash}.",
    )


def restart_time(behavior: ProgramBehavior, *, is_measured: bool) -> Precondition:
    """Return the precondition that no restart takes longer than the plan assumes."""
    text = f"A restart takes at most {seconds(behavior.restart_ms)}."
    if is_measured:
        return Precondition("restart-time", text, Verdict.VERIFIED, "given with --restart-time")
    return Precondition(
        "restart-time",
        text,
        Verdict.UNKNOWN,
        "assumed",
        "Measure the longest one: from the stop of a member to its first poll(), including image "
        "pulls, warm-up and restores; give it with --restart-time.",
    )


def session_of_members(session_ms: int, brokers: Brokers, setting: str = SESSION) -> Precondition:
    """Return the precondition that brokers accept a session timeout (classic protocol)."""
    low, high = LEAST_SESSION, MOST_SESSION
    text = f"Brokers allow {setting}={session_ms}."
    least = max(brokers.numbers(low), default=None)
    most = min(brokers.numbers(high), default=None)
    check = f"{brokers.ask('session.timeout')} shows {low} and {high}."
    found = f"{low} {least}, {high} {most}"
    if least is None or most is None:
        return Precondition("session-timeout", text, Verdict.UNKNOWN, brokers.why, check)
    if least <= session_ms <= most:
        if brokers.why is None:
            return Precondition("session-timeout", text, Verdict.VERIFIED, found)
        return Precondition(
            "session-timeout", text, Verdict.UNKNOWN, f"{found}; {brokers.why}", check
        )
    return Precondition(
        "session-timeout",
        text,
        Verdict.REFUTED,
        found,
        f"Members would be refused (INVALID_SESSION_TIMEOUT). Raise {high} on every broker and "
        "restart it, or make the restart shorter.",
    )


def session_of_group(running: RunningGroup, needed_ms: int, brokers: Brokers) -> Precondition:
    """Return the precondition that brokers set the session timeout (consumer protocol)."""
    most_name, told_ms = _OF_CONSUMER_GROUPS, brokers.session_ms
    text = f"Brokers allow the group a session timeout of {seconds(needed_ms)}."
    most = min(brokers.numbers(most_name), default=None)
    entity = ("--entity-type", "groups", "--entity-name", quote(running.group.group_id))
    shown = brokers.tool("kafka-configs", "--describe", "--all", *entity)
    check = f"{shown} shows {GROUP_SESSION}; of brokers, {CONSUMER_SESSION} and {most_name}."
    if told_ms is None:
        why = brokers.group_why or brokers.why
        return Precondition("group-session-timeout", text, Verdict.UNKNOWN, why, check)
    found = f"{GROUP_SESSION} {told_ms}"
    if told_ms >= needed_ms:
        return Precondition("group-session-timeout", text, Verdict.VERIFIED, found)
    if most is None:
        return Precondition("group-session-timeout", text, Verdict.UNKNOWN, found, check)
    found = f"{found}, {most_name} {most}"
    if needed_ms <= most:
        return Precondition("group-session-timeout", text, Verdict.VERIFIED, found)
    return Precondition(
        "group-session-timeout",
        text,
        Verdict.REFUTED,
        found,
        f"Raise {most_name} on every broker and restart it, or make the restart shorter.",
    )


def seconds(length_ms: int) -> str:
    """Return a duration in seconds, with unit."""
    return f"{length_ms / 1000:g} s"


_DEFAULT_SESSION_MS = ConsumerConfig("", "").session_timeout_ms
_MARGIN = 2
"""Session timeout divided by restart time: for slow restarts, and the last heartbeat's age."""
_STEP_MS = 5_000


def plan_static_membership(
    running: RunningGroup,
    behavior: ProgramBehavior,
    *,
    template: str | None = None,
    is_measured: bool = False,
) -> Plan:
    """Return a plan to set `group.instance.id` for each member.

    Args:
        running: the group.
        behavior: behavior of the group's applications.
        template: format of instance ids, see `proposed`.
        is_measured: whether the restart time was measured.

    Raises:
        UsageError: the template is invalid.
    """
    if running.is_stopped:
        return _of_stopped(running, None)
    members, facts = running.by_name, running.facts
    ids, made_of = proposed(members, template)
    brokers = running.brokers
    if running.connectors:
        refused = (running.rests, own_settings(running.connectors))
        return plan_of(running.group, MigrationTarget.STATIC_MEMBERSHIP, None, refused).refused()
    needed_ms = -(-_MARGIN * behavior.restart_ms // _STEP_MS) * _STEP_MS
    sessions = {
        name: max(needed_ms, member.session_timeout_ms or facts.session_ms)
        for name, member in members.items()
        if running.scenario.members[name].config.group_protocol == "classic"
    }
    of_brokers = members.keys() - sessions.keys()
    told_ms = brokers.session_ms or _DEFAULT_SESSION_MS
    brokers_ms = max(needed_ms, told_ms)
    conditions = [
        running.rests,
        client_version(members, of_brokers, running.library),
        *running.library_condition(
            "static members that stay when they close",
            lambda facts: facts.static_since is not None and not facts.static_leaves,
        ),
        *([broker_version(members, brokers)] if sessions else []),
        unique_ids(ids, made_of),
        lasting_ids(members, running.library, are_classic=bool(sessions)),
        restart_time(behavior, is_measured=is_measured),
        *(
            [session_of_members(max(sessions.values()), brokers, facts.session_setting)]
            if sessions
            else []
        ),
        *([session_of_group(running, brokers_ms, brokers)] if of_brokers else []),
    ]
    plan = plan_of(running.group, MigrationTarget.STATIC_MEMBERSHIP, None, conditions)
    if plan.is_refuted:
        return plan.refused()
    settings = _settings(running, ids, sessions)
    grows = bool(of_brokers) and brokers_ms > told_ms
    away_ms = min([*sessions.values(), *([brokers_ms] if of_brokers else [])])
    if not settings and not grows:
        return replace(
            plan,
            summary="Nothing to do: every member is static, and returns before its session of "
            f"{seconds(away_ms)} expires.",
        )
    step = _make_static(running, settings, ids, behavior)
    if grows:
        longer = f"Have the brokers give the group a session timeout of {seconds(brokers_ms)}."
        command = brokers.configure(running.group.group_id, brokers_ms)
        step = replace(step, actions=(longer, *step.actions), commands=(command,))
    before = _with_session(running.scenario, told_ms)
    after = _with_session(running.scenario, brokers_ms)
    plans = {
        name: _static(plan, ids[name], sessions.get(name)) for name, plan in after.members.items()
    }
    moves = [
        rolling_restart(step, after, {name: plans[name] for name in step.restarted}, behavior),
        rolling_restart(_later(running, ids, away_ms, behavior), after, plans, behavior),
    ]
    steps, total = forecast(after, moves, behavior)
    as_now = rolling_restart(NOT_PLANNED, before, before.members, behavior)
    _, naive = forecast(before, [as_now], behavior)
    return plan.carried_out(
        "Every member gets its own instance id. From then on, a restart within "
        f"{seconds(away_ms)} moves no partitions, and a member's partitions wait for it: compare "
        "step 2 with a restart of the current members.",
        steps,
        total,
        NaiveWay("Each rolling restart of the current members", naive),
    )


def plan_dynamic_membership(running: RunningGroup, behavior: ProgramBehavior) -> Plan:
    """Return a plan to remove `group.instance.id` from each static member."""
    if running.is_stopped:
        return _of_stopped(running, "back")
    static = {
        name: member.instance_id for name, member in running.by_name.items() if member.instance_id
    }
    plan = plan_of(running.group, MigrationTarget.STATIC_MEMBERSHIP, "back", (running.rests,))
    if plan.is_refuted:
        return plan.refused()
    if not static:
        return replace(plan, summary="Nothing to do: no member is static.")
    scenario = running.scenario
    plans = {
        name: replace(
            scenario.members[name], config=replace(scenario.members[name].config, instance_id=None)
        )
        for name in static
    }
    step = PlanStep(
        0,
        "Restart every member without an instance id, and remove its old membership",
        tuple(static),
        tuple(
            SettingChange(name, _instance_id(running), instance_id, None)
            for name, instance_id in static.items()
        ),
        (
            "Shut a member down cleanly. It does not leave the group: its partitions are not read.",
            "Then remove it, only with its own command below, so that other members take over at "
            "once. There is a command for each member, in the order of the restarts: run while "
            "the member is still active, it would interrupt the member, which would then rejoin "
            "as it was.",
            f"Start it without {_instance_id(running)}. {how_to_restart(behavior, len(static))}",
        ),
        tuple(_remove(running.group, instance_id) for instance_id in static.values()),
        (
            f"{kgroup_on(running.group, 'describe')} shows no instance ids, and each member once.",
            "From now on, every restart takes two rebalances, and sessions may be shorter again.",
        ),
        f"Restart the members with their previous {_instance_id(running)}.",
        expected=Expected(is_restarted=True, members=len(running.by_name), instance_ids=()),
    )
    steps, total = forecast(scenario, [removing_restart(step, scenario, plans, behavior)], behavior)
    left = rolling_restart(NOT_PLANNED, scenario, plans, behavior)
    _, naive = forecast(scenario, [left], behavior)
    return plan.carried_out(
        "Members leave the group again when they stop, and others take over.",
        steps,
        total,
        NaiveWay("Restarts only: old memberships remain until their sessions expire", naive),
    )


def _of_stopped(running: RunningGroup, goal: str | None) -> Plan:
    """Return a plan without steps for a stopped group: its members have no names."""
    if goal is None:
        what = (
            f"give each of its applications its own {INSTANCE_ID} before it starts, and a "
            f"{SESSION} that is longer than a restart. Ids are proposed when the group has members"
        )
    else:
        what = f"remove {INSTANCE_ID} from the settings of its applications before they start"
    summary = f"The group is stopped, so no restart is needed: {what}."
    return plan_of(
        running.group, MigrationTarget.STATIC_MEMBERSHIP, goal, (running.rests,), summary
    )


def _instance_id(running: RunningGroup) -> str:
    """Return the setting for the instance id, as the members' library calls it."""
    return running.facts.static_setting or INSTANCE_ID


# --- steps ----------------------------------------------------------------------------------------


def _with_session(scenario: Scenario, session_ms: int) -> Scenario:
    """Return the scenario with a session timeout for members with the consumer protocol."""
    settings = replace(scenario.consumer_settings, session_timeout_ms=session_ms)
    return replace(scenario, consumer_settings=settings)


def _static(plan: MemberPlan, instance_id: str, session_ms: int | None) -> MemberPlan:
    config = replace(plan.config, instance_id=instance_id)
    if session_ms is not None:
        config = replace(config, session_timeout_ms=session_ms)
    return replace(plan, config=config)


def _settings(
    running: RunningGroup, ids: Mapping[str, str], sessions: Mapping[str, int]
) -> tuple[SettingChange, ...]:
    """Return the changed settings; one session timeout for all members if it is equal."""
    members, session = running.by_name, running.facts.session_setting
    changes = [
        SettingChange(name, _instance_id(running), None, ids[name])
        for name, member in members.items()
        if member.instance_id is None
    ]
    longer = {
        name: (members[name].session_timeout_ms, session_ms)
        for name, session_ms in sessions.items()
        if members[name].session_timeout_ms != session_ms
    }
    if len(longer) == len(members) and len(set(longer.values())) == 1:
        ((was, becomes),) = set(longer.values())
        changes.append(SettingChange(None, session, _text(was), str(becomes)))
    else:
        changes += [
            SettingChange(name, session, _text(was), str(becomes))
            for name, (was, becomes) in longer.items()
        ]
    return tuple(changes)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _make_static(
    running: RunningGroup,
    settings: tuple[SettingChange, ...],
    ids: Mapping[str, str],
    behavior: ProgramBehavior,
) -> PlanStep:
    changed = {setting.member for setting in settings}
    restarted = tuple(name for name in running.by_name if changed & {None, name})
    return PlanStep(
        0,
        "Restart every member with its own instance id",
        restarted,
        settings,
        (
            how_to_restart(behavior, len(restarted)),
            "Shut each one down cleanly before it is started again: it leaves the group.",
        ),
        see=(
            f"{kgroup_on(running.group, 'describe')} shows each member with its instance id, once.",
        ),
        back=f"Restart the members without {_instance_id(running)}: see "
        f"{_plan_back(running.group)}.",
        expected=_expected(running, ids),
    )


def _later(
    running: RunningGroup, ids: Mapping[str, str], session_ms: int, behavior: ProgramBehavior
) -> PlanStep:
    """Return the step that describes all later restarts."""
    was_ms = max(member.session_timeout_ms or 0 for member in running.by_name.values())
    before = f" instead of {seconds(was_ms)} now" if 0 < was_ms < session_ms else ""
    late = (
        f" A member that exceeds {running.facts.poll_setting} also keeps its partitions for that "
        "time."
        if running.facts.leaves_if_late
        else ""
    )
    return PlanStep(
        0,
        "Restart every member once more, with the next deployment: nothing moves",
        tuple(ids),
        (),
        (
            how_to_restart(behavior, len(ids)),
            f"Each one must return within {seconds(session_ms)}; otherwise its session expires, "
            "and the group rebalances as before.",
        ),
        see=(
            f"{kgroup_on(running.group, 'describe')} shows the same generation, or epoch, "
            "as before, and every member with a new member id (--members --columns member_id).",
            f"The session of a member that crashes expires after {seconds(session_ms)}{before}: "
            f"its partitions are not read until then.{late}",
            "A member that is stopped for good keeps its partitions for that time, unless it is "
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
