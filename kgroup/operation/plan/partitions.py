"""Add partitions to a topic: effects on the groups that read it.

Source: `BuiltInPartitioner.partitionForKey` (murmur2 of the key, modulo the number of partitions),
`AutoOffsetResetStrategy` of Kafka 4.0 (`auto.offset.reset`); `ConsumerCoordinator` (the leader of a
classic group checks its topics at every metadata refresh), `GroupMetadataManager` (a coordinator of
consumer groups checks when the cluster's metadata change), `OffsetFetcher` (a partition without a
commit starts where `auto.offset.reset` says).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import lcm
from shlex import quote
from typing import NamedTuple

from kgroup.assignor.client_facts import FACTS
from kgroup.errors import NotFoundError, UnfitError, UsageError, near_names
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.group import Group, GroupType
from kgroup.model.offsets_partition import INTERNAL_TOPICS
from kgroup.operation.plan.connect import OVERRIDE
from kgroup.operation.plan.coordinator import kafka_tool, kgroup_on
from kgroup.operation.plan.forecast import (
    BEGIN_MS,
    NOT_PLANNED,
    OFTEN_MS,
    ProgramBehavior,
    beginning_at,
    forecast,
    how_to_restart,
    rolling_restart,
    stopped_group,
    topic_grows,
)
from kgroup.operation.plan.plan import (
    Expected,
    Forecast,
    MigrationTarget,
    NaiveWay,
    Plan,
    PlanStep,
    Precondition,
    SettingChange,
    Verdict,
)
from kgroup.operation.plan.running_group import RunningGroup, plan_each, plan_of
from kgroup.operation.plan.stop import how_to_start, how_to_stop
from kgroup.operation.report import Report, first_names
from kgroup.simulation.scenario.scenario import Scenario
from kgroup.source.base import GroupSource, Question

RESET = "auto.offset.reset"
_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_MAX_AGE = FACTS[KAFKA_CLIENTS].refresh_setting
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
_QUESTION = Question(log_budget=0, commit_times=False)
_JUST_MS = 50
"""Time in which heartbeats that were just sent have been answered."""


def reset_duration_ms(reset: str) -> int | None:
    """Return the duration of a reset `by_duration`, in milliseconds; None for other resets.

    Args:
        reset: `auto.offset.reset`: earliest, latest, none or by_duration:PnDTnHnMn.nS.

    Raises:
        ValueError: the reset is invalid.
    """
    if reset in ("earliest", "latest", "none"):
        return None
    match = _DURATION.fullmatch(reset.removeprefix(_BY_DURATION))
    if not reset.startswith(_BY_DURATION) or match is None or not any(match.groups()):
        raise ValueError(
            f"expected earliest, latest, none or by_duration:PnDTnHnMn.nS, found {reset!r}"
        )
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups()[:4])
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole_s * 1_000 + int((match[5] or "").ljust(3, "0")[:3])


def changed_keys(before: int, after: int) -> float:
    """Return the fraction of keys that the default partitioner maps to another partition.

    Of the residue classes modulo the least common multiple of both numbers, as many keep their
    partition as the smaller number says.
    """
    return 1 - min(before, after) / lcm(before, after)


@dataclass(frozen=True, slots=True)
class PartitionIncrease:
    """An increase of the number of partitions of a topic.

    Attributes:
        topic: the topic.
        before: current number of partitions, reported or derived from a group.
        count: new number of partitions.
        is_reported: whether the cluster reports the current number; otherwise it is derived from
            assigned or committed partitions.
        max_age_ms: how often members look for new partitions, given by the user; None: unknown.
    """

    topic: str
    before: int
    count: int
    is_reported: bool
    max_age_ms: int | None = None

    @property
    def target(self) -> str:
        """The argument of the command."""
        return f"{self.topic}={self.count}"


def _preconditions(
    running: RunningGroup,
    increase: PartitionIncrease,
    reset: str | None,
    *,
    is_restarted: bool = False,
) -> tuple[Precondition, ...]:
    """Return the preconditions to add partitions to a topic that the group reads.

    Args:
        running: the group.
        increase: the new partitions.
        reset: the members' `auto.offset.reset`; None if unknown.
        is_restarted: whether members are restarted with another reset.
    """
    conditions = [running.rests, _more(running, increase)]
    if increase.count <= increase.before:
        return tuple(conditions)
    conditions.append(_keys(increase))
    if running.is_stopped:
        return tuple(conditions)
    conditions += [_joined(running, increase), _reset(running, reset)]
    if running.group.type is GroupType.CLASSIC and running.facts.refresh_ms is None:
        conditions.append(_looks(running, increase))
    if is_restarted:
        conditions.append(_commits(running))
    return tuple(conditions)


def _more(running: RunningGroup, increase: PartitionIncrease) -> Precondition:
    topic, before, count = increase.topic, increase.before, increase.count
    text = f"{topic} has fewer than {count} partitions."
    if count == before:
        text = f"{topic} has {count} partitions."
    if count < before:
        return Precondition(
            "more-partitions",
            text,
            Verdict.REFUTED,
            str(before),
            "The number of partitions cannot be reduced: create another topic, and copy "
            "the records.",
        )
    if increase.is_reported:
        return Precondition("more-partitions", text, Verdict.VERIFIED, str(before))
    known = "known from commits" if running.is_stopped else "assigned"
    return Precondition(
        "more-partitions",
        text,
        Verdict.UNKNOWN,
        f"{before} are {known}, and this source does not know if there are more",
        kafka_tool(
            running.group.coordinator, "kafka-topics", "--describe", "--topic", quote(topic)
        ),
    )


def _keys(increase: PartitionIncrease) -> Precondition:
    topic, before, count = increase.topic, increase.before, increase.count
    part = changed_keys(before, count)
    return Precondition(
        "keys",
        "Nobody depends on all records of a key being in one partition, or on their order.",
        Verdict.UNKNOWN,
        f"with the default partitioner (murmur2 of the key, modulo {before}, then {count}) "
        f"{100 * part:.3g} % of the keys go to another partition; existing records stay",
        "Check whether records have keys, and whether members keep state or order by key. If so, "
        "stop the producers, wait until the lag is 0, add the partitions, and start them: no "
        f"record overtakes another. A compacted {topic} keeps the last old value of each such key "
        "in its old partition.",
    )


def _joined(running: RunningGroup, increase: PartitionIncrease) -> Precondition:
    topic, before = increase.topic, increase.before
    text = (
        f"No other topic is joined with {topic} by key: such topics need the same "
        "number of partitions."
    )
    others = {name: n for name, n in running.scenario.topics.items() if name != topic}
    if not others:
        return Precondition("joined", text, Verdict.VERIFIED, "the group reads no other topic")
    alike = [name for name, n in others.items() if n == before]
    if not alike:
        counts = ", ".join(f"{name} has {n}" for name, n in others.items())
        return Precondition("joined", text, Verdict.VERIFIED, f"{counts}, and {topic} {before}")
    return Precondition(
        "joined",
        text,
        Verdict.UNKNOWN,
        f"also with {before} partitions: {first_names(alike)}",
        f"Check whether a member joins records of {topic} with theirs; if so, give them as many.",
    )


def _reset(running: RunningGroup, reset: str | None) -> Precondition:
    text = f"Members' {running.facts.reset_setting} is known: a new partition has no commit."
    if reset is not None:
        option = f"--auto-offset-reset {reset}"
        return Precondition("auto-offset-reset", text, Verdict.VERIFIED, option)
    if running.connectors:
        return Precondition(
            "auto-offset-reset",
            text,
            Verdict.UNKNOWN,
            "Kafka Connect sets earliest for tasks of a sink connector unless configured otherwise",
            f"Check consumer.{RESET} of the workers and {OVERRIDE}{RESET} of the connector, "
            "and give it with --auto-offset-reset.",
        )
    default = "" if running.library is None else f" (by default {running.facts.reset})"
    return Precondition(
        "auto-offset-reset",
        text,
        Verdict.UNKNOWN,
        f"no cluster reports it{default}; the forecasts before step 1 and without the plan assume "
        "latest",
        f"Check {running.facts.reset_setting} of each member, and give it with "
        "--auto-offset-reset.",
    )


def _looks(running: RunningGroup, increase: PartitionIncrease) -> Precondition:
    """Return the precondition that members look for new partitions, which is not the default."""
    text = "Members look for new partitions."
    name = running.facts.refresh_setting
    if increase.max_age_ms is not None:
        return Precondition("refresh", text, Verdict.VERIFIED, "given with --metadata-max-age")
    return Precondition(
        "refresh",
        text,
        Verdict.UNKNOWN,
        f"{running.library} never looks by default" if name else f"{running.library} never looks",
        f"Set {name} in each application before, and give the interval with --metadata-max-age; or "
        f"restart every member when {increase.topic} has {increase.count} partitions."
        if name
        else f"Restart every member when {increase.topic} has {increase.count} partitions.",
    )


def _commits(running: RunningGroup) -> Precondition:
    text = (
        "Every partition that the group reads has a committed offset: others would be "
        "read from the start, too."
    )
    committed = {(offset.topic, offset.partition) for offset in running.group.offsets}
    lacking = [
        f"{topic}-{number}"
        for topic, count in running.scenario.topics.items()
        for number in range(count)
        if (topic, number) not in committed
    ]
    if not lacking:
        return Precondition("commits", text, Verdict.VERIFIED, f"{len(committed)} commits")
    return Precondition(
        "commits",
        text,
        Verdict.UNKNOWN,
        f"none of {first_names(lacking)}; the program may keep offsets elsewhere",
        "Wait until members have committed, and plan again; or look whether these partitions have "
        "records that were read and would be read again.",
    )


def plan_partitions(
    source: GroupSource,
    topic: str,
    count: int,
    group_ids: tuple[str, ...],
    behavior: ProgramBehavior,
    *,
    reset: str | None = None,
    max_age_ms: int | None = None,
    zookeeper: GroupSource | None = None,
) -> Report[Plan]:
    """Return plans to add partitions to a topic, for the groups that read it.

    Args:
        source: source of groups.
        topic: the topic.
        count: new number of partitions.
        group_ids: group ids; empty for all groups with members that read the topic.
        behavior: behavior of the groups' applications.
        reset: the members' `auto.offset.reset`, as for `reset_duration_ms`; None if unknown.
        max_age_ms: how often members look for new partitions; None: the default of their library.
        zookeeper: second source, of groups of ZooKeeper consumers; None without.

    Returns:
        A plan for each group; groups without a plan are problems.

    Raises:
        NotFoundError: the topic does not exist, as far as the source knows.
        UsageError: the topic is internal.
        BrokerError: no broker answers.
    """
    if topic in INTERNAL_TOPICS:
        raise UsageError(
            f"expected a topic of programs, found {topic}: which of its partitions keeps a group, "
            "or a transaction, hangs on how many there are; with more, those that are there would "
            "be looked for elsewhere"
        )
    reported = _reported_count(source, topic)
    notes: tuple[str, ...] = ()
    stopped: tuple[Group, ...] = ()
    if not group_ids:
        readers = _readers(source, topic, zookeeper)
        if reported is None and not (readers.group_ids or readers.old):
            raise NotFoundError(
                f"topic {topic}: expected groups that read it, found none"
                f"{_similar_topics(source, topic)}"
            )
        group_ids, stopped = readers.group_ids, readers.stopped
        notes = tuple(_remarks(readers, topic))

    def plan(running: RunningGroup) -> Plan:
        increase = replace(_increase(running, topic, count, reported), max_age_ms=max_age_ms)
        age_ms = max_age_ms or running.facts.refresh_ms or OFTEN_MS
        running = replace(running, scenario=_aged(running.scenario, age_ms))
        if running.is_stopped:
            return _plan_stopped(running, increase, reset)
        return _plan(running, increase, reset, behavior)

    report = plan_each(
        source,
        group_ids,
        plan,
        behavior,
        lambda scenario: _as_configured(scenario, reset, behavior),
    )
    if stopped and (not report.data or any(plan.steps for plan in report.data)):
        notes = (_note_on_stopped(stopped, topic, reported, count), *notes)
    return replace(report, notes=(*notes, *report.notes))


def _reported_count(source: GroupSource, topic: str) -> int | None:
    """Return the number of partitions of a topic; None if the source does not know topics."""
    if not source.can(GroupSource.view):
        return None
    view = source.view([topic]).topics.get(topic)
    if view is None or not view.partitions:
        if view is None or view.error in (None, _UNKNOWN_TOPIC):
            raise NotFoundError(
                f"topic {topic}: The topic does not exist{_similar_topics(source, topic) or '.'}"
            )
        raise NotFoundError(f"topic {topic}: expected its partitions, found {view.error}")
    return len(view.partitions)


def _similar_topics(source: GroupSource, topic: str) -> str:
    """Return a suggestion of topics that groups read or have committed."""
    groups = source.read(None, _QUESTION).image.groups.values()
    read = {offset.topic for group in groups for offset in group.offsets}
    for member in (member for group in groups for member in group.members):
        read.update(member.subscribed_topics)
        read.update(owned.topic for owned in member.assignment or () if owned.topic is not None)
    return near_names(topic, sorted(read))


class _Readers(NamedTuple):
    """Groups that read a topic.

    Attributes:
        group_ids: groups with members that read it.
        stopped: groups without members, but with commits for it.
        old: groups of ZooKeeper consumers.
        problems: what could not be read.
    """

    group_ids: tuple[str, ...]
    stopped: tuple[Group, ...]
    old: tuple[str, ...]
    problems: tuple[str, ...]


def _readers(source: GroupSource, topic: str, zookeeper: GroupSource | None) -> _Readers:
    reading = source.read(None, _QUESTION)
    groups = [*reading.image.groups.values()]
    if zookeeper is not None:
        groups += zookeeper.read(None, _QUESTION).image.groups.values()
    old = [group for group in groups if group.type is GroupType.ZOOKEEPER]
    groups = [group for group in groups if group.type is not GroupType.ZOOKEEPER]
    return _Readers(
        tuple(group.group_id for group in groups if _is_read(group, topic)),
        tuple(
            group
            for group in groups
            if not group.members and topic in {offset.topic for offset in group.offsets}
        ),
        tuple(group.group_id for group in old if _is_read(group, topic)),
        tuple(problem.reason for problem in reading.problems),
    )


def _remarks(readers: _Readers, topic: str) -> Iterator[str]:
    if not (readers.group_ids or readers.old):
        yield f"no group has members that read {topic}"
    if readers.old:
        yield (
            f"{first_names(readers.old)} read {topic} with ZooKeeper consumers, which "
            "see new partitions at once, and skip records written there before they have "
            "rebalanced, unless they have auto.offset.reset=smallest"
        )
    yield from readers.problems


def _note_on_stopped(
    stopped: tuple[Group, ...], topic: str, reported: int | None, count: int
) -> str:
    """Return a note on what to do for groups without members before they start."""
    known = 1 + max(
        offset.partition for group in stopped for offset in group.offsets if offset.topic == topic
    )
    before = reported or min(known, count - 1)
    increase = PartitionIncrease(topic, before, count, reported is not None)
    group = stopped[0] if len(stopped) == 1 else replace(stopped[0], group_id="GROUP")
    return (
        f"groups without members have commits for {topic}, but none for new partitions: "
        f"{first_names([group.group_id for group in stopped])}; run when these exist, and "
        f"before members return, {_begin_at_first(group, increase)} makes them start at the "
        "first record"
    )


def _is_read(group: Group, topic: str) -> bool:
    return any(
        topic in member.subscribed_topics
        or topic in {owned.topic for owned in member.assignment or ()}
        for member in group.members
    )


def _increase(
    running: RunningGroup, topic: str, count: int, reported: int | None
) -> PartitionIncrease:
    """Return the increase from the current number of partitions, as far as a group knows it.

    Raises:
        UnfitError: the group does not read the topic; a stopped group has no commits for it.
    """
    group, topics = running.group, running.scenario.topics
    if running.is_stopped:
        committed = [offset.partition for offset in group.offsets if offset.topic == topic]
        if not committed:
            raise UnfitError.of_group(
                group.group_id,
                f"expected members that read {topic}, or commits of it, found neither",
            )
        before = reported or max(committed) + 1
    elif not (before := topics.get(topic, 0)):
        raise UnfitError.of_group(
            group.group_id,
            f"expected members that read {topic}, found "
            f"{first_names(sorted(topics)) or 'none that read a topic'}"
            f"{near_names(topic, sorted(topics))}",
        )
    return PartitionIncrease(topic, before, count, reported is not None)


def _plan(
    running: RunningGroup, increase: PartitionIncrease, reset: str | None, behavior: ProgramBehavior
) -> Plan:
    """Return the plan for a group with members.

    Raises:
        InputError: the group cannot be simulated.
    """
    scenario = running.scenario
    known_reset = reset
    if running.connectors:
        reset = reset or "earliest"  # default of Connect
    is_restarted = not _begins_at_first(reset, scenario, behavior)
    plan = _plan_of(running, increase, known_reset, is_restarted=is_restarted)
    if increase.before == increase.count:
        return replace(plan, summary=_reached(running.group, increase))
    if plan.is_refuted:
        return plan.refused()
    topic, count = increase.topic, increase.count
    moves = [topic_grows(_grow(running, increase), scenario, topic, count, behavior)]
    if is_restarted:
        plans = beginning_at(scenario, "earliest").members
        step = _restart(running, increase, reset, behavior)
        restart = stopped_group if running.connectors else rolling_restart
        moves.insert(0, restart(step, scenario, plans, behavior))
    steps, total = forecast(scenario, moves, behavior)
    naive = None
    if is_restarted and reset != "none":
        name = running.facts.reset_setting
        text = f"Step {len(moves)} only, with {name}=latest, at the worst time"
        if reset not in (None, "latest"):
            text += f"; {reset} skips fewer records: not those written in that time"
        naive = NaiveWay(text, _at_worst(scenario, increase, behavior))
    return plan.carried_out(
        f"{topic} gets {count - increase.before} more partitions. "
        + (
            _unknown_reset(running)
            if reset is None
            else _SUMMARIES.get(reset) or _of_a_time(reset, is_restarted=is_restarted)
        ),
        steps,
        total,
        naive,
    )


def _plan_of(
    running: RunningGroup,
    increase: PartitionIncrease,
    reset: str | None,
    *,
    is_restarted: bool = False,
) -> Plan:
    """Return the plan without steps; its preconditions say whether there will be any."""
    conditions = _preconditions(running, increase, reset, is_restarted=is_restarted)
    return plan_of(running.group, MigrationTarget.PARTITIONS, increase.target, conditions)


def _reached(group: Group, increase: PartitionIncrease) -> str:
    """Return a summary that the topic has its partitions; the group may not own them yet."""
    topic, count = increase.topic, increase.count
    if not increase.is_reported:
        return (
            f"Nothing to do if {topic} has {count} partitions: that many are known, and "
            "this source does not report whether there are more."
        )
    text = f"Nothing to do: {topic} has {count} partitions"
    owned = {at.partition for m in group.members for at in m.assignment or () if at.topic == topic}
    if len(owned) == count or not group.members:
        return f"{text}."
    is_classic = group.type is GroupType.CLASSIC
    when = f"when its leader has looked ({_MAX_AGE})" if is_classic else "with its next heartbeats"
    return f"{text}. The group owns {len(owned)} of them so far, and gets the others {when}."


def _plan_stopped(running: RunningGroup, increase: PartitionIncrease, reset: str | None) -> Plan:
    """Return the plan for a stopped group with commits for the topic."""
    group, topic, count = running.group, increase.topic, increase.count
    plan = _plan_of(running, increase, reset)
    if increase.before == count:
        return replace(plan, summary=_reached(group, increase))
    if plan.is_refuted:
        return plan.refused()
    step = replace(
        _grow(running, increase),
        number=1,
        title=f"Give {topic} {count} partitions, once for all groups, and start the members",
        actions=("Run the commands below before the first member starts.",),
        see=(f"{kgroup_on(group, 'describe')} shows owners of all {count} partitions.",),
        expected=Expected(members=1, partitions={topic: count}),
    )
    if reset != "earliest":
        command = _begin_at_first(group, increase)
        step = replace(step, commands=(*step.commands, command))
    return plan.carried_out(
        "The group is stopped, so no restart is needed: members start new partitions "
        "at their first record.",
        (step,),
    )


_SUMMARIES = {
    "earliest": "Members start them at their first record, and skip nothing.",
    "latest": "Members would silently skip records written there before they own the partitions: "
    "they must start at the first record.",
    "none": "Members would fail with NoOffsetForPartitionException as soon as they own them: they "
    "must start at the first record.",
}


def _unknown_reset(running: RunningGroup) -> str:
    facts = running.facts
    default = "the default" if facts.reset == "latest" else f"{facts.reset} is the default"
    return (
        f"With {facts.reset_setting}=latest, {default}, members would silently skip records "
        "written there before they own the partitions: they must start at the first record. If all "
        "members already do, give --auto-offset-reset earliest: then step 1 is not needed."
    )


def _of_a_time(reset: str, *, is_restarted: bool) -> str:
    if is_restarted:
        return (
            f"With {reset}, members would skip records written there before that time, because "
            "they may own the partitions only later: they must start at the first record."
        )
    return (
        f"With {reset}, members start before the first record there: they skip nothing, unless "
        "they own the partitions only after that time."
    )


def _begins_at_first(reset: str | None, scenario: Scenario, behavior: ProgramBehavior) -> bool:
    """Return whether members will read new partitions from their first record."""
    since_ms = None if reset is None else reset_duration_ms(reset)
    if since_ms is None:
        return reset == "earliest"
    return since_ms >= topic_grows(NOT_PLANNED, scenario, "", 0, behavior).duration_ms


def _at_worst(
    scenario: Scenario, increase: PartitionIncrease, behavior: ProgramBehavior
) -> Forecast:
    """Simulate the addition of partitions at the worst time.

    Members with the consumer protocol receive new partitions with a heartbeat response: the worst
    time is just after a heartbeat of all members. The leader of a classic group detects them when
    it refreshes its metadata: the simulation starts just after a refresh.
    """
    start = scenario.start
    if start is not None and start.is_consumer_group:
        start = replace(start, first_beat_ms=BEGIN_MS - _JUST_MS)
    move = topic_grows(NOT_PLANNED, scenario, increase.topic, increase.count, behavior)
    return forecast(replace(scenario, start=start), [move], behavior)[1]


# --- steps ----------------------------------------------------------------------------------------


def _aged(scenario: Scenario, max_age_ms: int) -> Scenario:
    """Return the scenario in which members refresh their metadata in such intervals."""
    aged = {
        name: replace(plan, config=replace(plan.config, metadata_max_age_ms=max_age_ms))
        for name, plan in scenario.members.items()
    }
    return replace(scenario, members=aged)


def _as_configured(scenario: Scenario, reset: str | None, behavior: ProgramBehavior) -> Scenario:
    """Return the scenario with the members' reset; if unknown, latest, and earliest for Connect.

    The reset none, which stops members, is simulated as latest: nothing is read again.
    """
    if reset is None and all(plan.config.library is None for plan in scenario.members.values()):
        return scenario
    simulated = "earliest" if _begins_at_first(reset, scenario, behavior) else "latest"
    return beginning_at(scenario, simulated)


def _restart(
    running: RunningGroup, increase: PartitionIncrease, reset: str | None, behavior: ProgramBehavior
) -> PlanStep:
    members = tuple(running.scenario.members)
    how: tuple[str, ...] = (how_to_restart(behavior, len(members)),)
    if running.connectors:
        how = (*how_to_stop(running.group), *how_to_start(running.group))
    name, first = running.facts.reset_setting, running.facts.reset_to_first
    return PlanStep(
        0,
        f"Restart every member with {name}={first}",
        members,
        (SettingChange(None, name, reset, first),),
        (
            *how,
            f"If the group may stop for a while, do this instead: stop it, take step 2, "
            f"run {_begin_at_first(running.group, increase)}, and start it.",
        ),
        see=(
            f"{kgroup_on(running.group, 'describe')} shows every member with a new member id "
            "(--members --columns member_id), and the lag unchanged: committed offsets take "
            "precedence over this setting.",
        ),
        back="Restart the members with their previous settings.",
        expected=Expected(is_restarted=True, members=len(running.by_name)),
    )


def _begin_at_first(group: Group, increase: PartitionIncrease) -> str:
    """Return the command that resets new partitions of a stopped group to their first record."""
    numbers = range(increase.before, increase.count)
    new = f"{increase.topic}:{','.join(map(str, numbers))}"
    options = ("--topic", new, "--uncommitted", "--to-earliest", "--execute")
    return kgroup_on(group, "offsets reset", *options)


def _grow(running: RunningGroup, increase: PartitionIncrease) -> PlanStep:
    topic, count = increase.topic, increase.count
    leader = next(
        (
            name
            for name, member in running.by_name.items()
            if member.member_id == running.group.leader_id
        ),
        None,
    )
    if running.group.type is GroupType.CLASSIC:
        ages_ms = [
            member.config.metadata_max_age_ms or 0 for member in running.scenario.members.values()
        ]
        who = "The group's leader" + ("" if leader is None else f" ({leader})")
        facts = running.facts
        if facts.refresh_ms is None and increase.max_age_ms is None:
            by_default = f" by default ({facts.refresh_setting})" if facts.refresh_setting else ""
            seen = (
                f"{running.library} never looks for new partitions{by_default}: no member reads "
                "them until one restarts. The forecast assumes that members look every "
                f"{max(ages_ms, default=0) / 1000:g} s."
            )
        else:
            seen = (
                f"{who} looks for new partitions every {max(ages_ms, default=0) / 1000:g} s "
                f"({facts.refresh_setting}); until then, no member reads them. Then all members "
                "rejoin."
            )
    else:
        seen = (
            "The coordinator sees the new partitions at once, and assigns them with the members' "
            "next heartbeats."
        )
    return PlanStep(
        0,
        f"Give {topic} {count} partitions, once for all groups",
        commands=(
            kafka_tool(
                running.group.coordinator,
                "kafka-topics",
                *("--alter", "--topic", quote(topic), "--partitions", str(count)),
            ),
        ),
        see=(
            seen,
            f"{kgroup_on(running.group, 'describe')} shows owners of all {count} partitions.",
            f"Producers also use them only after a metadata refresh (their own {_MAX_AGE}).",
        ),
        back="There is no way back: the number of partitions cannot be reduced. Stop here "
        "while a precondition is in doubt.",
        expected=Expected(members=len(running.by_name), partitions={topic: count}),
    )
