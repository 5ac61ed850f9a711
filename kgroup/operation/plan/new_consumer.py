"""Migrate from the ZooKeeper consumer to the Java consumer of 0.9 and later.

The two groups do not see each other: the old one uses members and commits in ZooKeeper, the new one
those of its coordinator. Therefore, a rolling migration is not possible: the old group stops,
commits that are not in Kafka are copied, and the new group starts. Each group is simulated
separately, and both read the same partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TypeVar

from kgroup.model.cluster import TopicPartition
from kgroup.model.group import GroupState, GroupType
from kgroup.model.offset import CommitStore
from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.operation.group_scenario import assumptions
from kgroup.operation.plan.assignor import CLASSES
from kgroup.operation.plan.forecast import Course, ProgramBehavior, rest_ms
from kgroup.operation.plan.plan import (
    Expected,
    Forecast,
    MigrationTarget,
    NaiveWay,
    Plan,
    PlanStep,
    Precondition,
    Verdict,
)
from kgroup.operation.plan.running_group import plan_of
from kgroup.operation.plan.zookeeper_group import OldGroup, java_settings
from kgroup.operation.report import first_names
from kgroup.protocol.zookeeper.topic_filter import filter_regex
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.scenario.play import play
from kgroup.simulation.scenario.scenario import (
    Action,
    InitialGroup,
    MemberPlan,
    Scenario,
    Step,
    ZookeeperMemberPlan,
)
from kgroup.simulation.timeline import Ownership, Simulation, Standstill
from kgroup.simulation.zookeeper.config import Registration

_Span = TypeVar("_Span", Ownership, Standstill)

_BEGIN_MS = 1_000
_JOINED_MS = 30_000
"""Time for all new consumers to join and read."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Costs of replacing a group by another one.

    Attributes:
        stop: costs of stopping the old consumers; partitions are not read until the new ones start.
        start: costs of starting the new consumers.
        total: costs of both.
    """

    stop: Forecast
    start: Forecast
    total: Forecast


def new_members(scenario: Scenario, strategy: str) -> Mapping[str, Mapping[str, MemberPlan]]:
    """Return the new consumers of each old one, by name: one for each of its threads.

    The first new consumer subscribes to all topics with at least one thread, the second to those
    with at least two, and so on. A thread may have read a single topic; a consumer reads all topics
    that it subscribes to.
    """
    plans: dict[str, Mapping[str, MemberPlan]] = {}
    for name, plan in scenario.connectors.items():
        streams = plan.config.registration.streams(scenario.topics)
        plans[name] = {
            (key := f"{name}-{number}"): MemberPlan(
                ConsumerConfig(
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
    return plans


def replaced(
    scenario: Scenario, members: Mapping[str, Mapping[str, MemberPlan]], behavior: ProgramBehavior
) -> Replacement:
    """Stop all old consumers at once, and start all new ones at the commits of the old ones.

    The time from the end of the last old consumer to the start of the first new one is that of a
    restart.
    """
    old = _stopped(scenario, dict.fromkeys(members, _BEGIN_MS), _BEGIN_MS + _JOINED_MS, behavior)
    ends = [ownership.end_ms for ownership in old.ownerships if ownership.end_ms is not None]
    start_ms = max(ends, default=_BEGIN_MS) + behavior.restart_ms
    begins = {key: (0, plan) for plans in members.values() for key, plan in plans.items()}
    new = _started(scenario, begins, _JOINED_MS, behavior, is_copied=True)
    whole = _together(old, new, start_ms)
    course = Course.of(whole)
    of_old, of_new = _counted(old), _counted(new)
    of_both = (sum(counts) for counts in zip(of_old, of_new, strict=True))
    return Replacement(
        course.costs(_BEGIN_MS, start_ms, *of_old),
        course.costs(start_ms, whole.end_ms, *of_new),
        course.costs(_BEGIN_MS, whole.end_ms, *of_both),
    )


def replaced_one_by_one(
    scenario: Scenario,
    members: Mapping[str, Mapping[str, MemberPlan]],
    behavior: ProgramBehavior,
    before: int,
) -> Forecast:
    """Replace old consumers one by one, without copying their commits.

    Between the start of the first new consumer and the end of the last old one, both groups read
    each record. If the last old consumer stops before the first new one starts, records in between
    are skipped.

    Args:
        scenario: the old group.
        members: new consumers of each old one.
        behavior: behavior of all applications.
        before: number of available records that the old consumers have read.
    """
    pause_ms = behavior.restart_ms + rest_ms(scenario, behavior)
    stops = {name: _BEGIN_MS + number * pause_ms for number, name in enumerate(members)}
    end_ms = _BEGIN_MS + len(members) * pause_ms + _JOINED_MS
    old = _stopped(scenario, stops, end_ms, behavior)
    begins = {
        key: (stops[name] + behavior.restart_ms, plan)
        for name, plans in members.items()
        for key, plan in plans.items()
    }
    new = _started(scenario, begins, end_ms, behavior, is_copied=False)
    whole = _together(old, new, 0)
    again = int(_both_ms(old.ownerships, new.ownerships, end_ms) * scenario.rate / 1000)
    skipped = int(_neither_ms(old.ownerships, new.ownerships) * scenario.rate / 1000)
    if any(plan.auto_offset_reset == "earliest" for _, plan in begins.values()):
        again, skipped = again + before, 0
    rebalances = _counted(old)[0] + _counted(new)[0]
    return Course.of(whole).costs(_BEGIN_MS, end_ms, rebalances, again, skipped)


def _stopped(
    scenario: Scenario, stops: Mapping[str, int], end_ms: int, behavior: ProgramBehavior
) -> Simulation:
    steps = tuple(Step(at_ms, Action.STOP, name) for name, at_ms in stops.items())
    connectors: dict[str, ZookeeperMemberPlan] = {
        name: replace(plan, processing_ms=behavior.poll_ms)
        for name, plan in scenario.connectors.items()
    }
    simulated = replace(scenario, connectors=connectors, steps=steps, duration_ms=end_ms)
    return play(simulated, behavior.seed)


def _started(
    scenario: Scenario,
    begins: Mapping[str, tuple[int, MemberPlan]],
    end_ms: int,
    behavior: ProgramBehavior,
    *,
    is_copied: bool,
) -> Simulation:
    """Simulate new consumers of an empty group."""
    start = scenario.start
    assert start is not None
    strategy = next(iter(begins.values()))[1].config.strategies[0] if begins else ""
    offsets = start.offsets if is_copied else {}
    return play(
        replace(
            scenario,
            connectors={},
            members={
                name: replace(plan, processing_ms=behavior.poll_ms)
                for name, (_, plan) in begins.items()
            },
            steps=tuple(Step(at_ms, Action.START, name) for name, (at_ms, _) in begins.items()),
            duration_ms=end_ms,
            start=InitialGroup(0, strategy, "", {}, offsets, start.ends),
        ),
        behavior.seed,
    )


def _counted(played: Simulation) -> tuple[int, int, int]:
    """Return the numbers of rebalances, of records read again, and of skipped records.

    Rebalances of the new group are its generations; the old group has none.
    """
    generations = max((event.generation_id or 0 for event in played.events), default=0)
    return (
        generations or len(played.rebalances),
        sum(partition.read_again for partition in played.partitions),
        sum(partition.skipped for partition in played.partitions),
    )


def _together(old: Simulation, new: Simulation, later_ms: int) -> Simulation:
    """Merge two simulations, of which the second starts later."""
    end_ms = max(old.end_ms, new.end_ms + later_ms)
    return replace(
        old,
        end_ms=end_ms,
        is_at_rest=old.is_at_rest and new.is_at_rest,
        events=(
            *old.events,
            *(replace(event, time_ms=event.time_ms + later_ms) for event in new.events),
        ),
        ownerships=(
            *old.ownerships,
            *(_later(ownership, later_ms) for ownership in new.ownerships),
        ),
        standstills=(
            *old.standstills,
            *(_later(standstill, later_ms) for standstill in new.standstills),
        ),
    )


def _later(span: _Span, later_ms: int) -> _Span:
    end_ms = None if span.end_ms is None else span.end_ms + later_ms
    return replace(span, begin_ms=span.begin_ms + later_ms, end_ms=end_ms)


def _both_ms(old: Sequence[Ownership], new: Sequence[Ownership], end_ms: int) -> int:
    """Return the time in which both groups read a partition, summed over partitions."""
    spans: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for ownership in new:
        spans[ownership.topic, ownership.partition].append(
            (ownership.begin_ms, ownership.end_ms or end_ms)
        )
    return sum(
        max(0, min(ownership.end_ms or end_ms, until_ms) - max(ownership.begin_ms, since_ms))
        for ownership in old
        for since_ms, until_ms in spans[ownership.topic, ownership.partition]
    )


def _neither_ms(old: Sequence[Ownership], new: Sequence[Ownership]) -> int:
    """Return the time in which no group reads a partition, summed over partitions."""
    begins: dict[TopicPartition, int] = {}
    for ownership in new:
        at = ownership.topic, ownership.partition
        begins[at] = min(ownership.begin_ms, begins.get(at, ownership.begin_ms))
    ends: dict[TopicPartition, int] = {}
    for ownership in old:
        at = ownership.topic, ownership.partition
        if ownership.end_ms is not None:
            ends[at] = max(ownership.end_ms, ends.get(at, 0))
    return sum(max(0, begins[at] - end_ms) for at, end_ms in ends.items() if at in begins)


_Members = Mapping[str, Mapping[str, MemberPlan]]


def plan_new_consumer(old: OldGroup, behavior: ProgramBehavior) -> Plan:
    """Return a plan to replace ZooKeeper consumers by Java consumers.

    For a stopped group, the plan starts at the second step.
    """
    plan = plan_of(old.group, MigrationTarget.NEW_CONSUMER, None, _preconditions(old))
    if old.running is None and old.kafka_members:
        text = f"Nothing to do: the group has {_count(old.kafka_members)} in Kafka, and "
        summary = f"{text}none in ZooKeeper."
        return replace(plan, summary=summary, preconditions=(_alone(old),))
    if plan.is_refuted:
        return plan.refused()
    scenario = None if old.running is None else old.running.scenario
    strategy = "range"
    if scenario is not None and scenario.start is not None:
        strategy = scenario.start.protocol
    members = {} if scenario is None else new_members(scenario, strategy)
    steps = [_start(old, members, strategy)]
    if not _is_copied(old):
        steps.insert(0, copy_step(old))
    summary = "The group was stopped: its commits go to Kafka, and new consumers start there."
    if scenario is None:
        return replace(plan, summary=summary, steps=_numbered(steps))
    cost = replaced(scenario, members, behavior)
    steps[-1] = replace(steps[-1], forecast=cost.start)
    steps.insert(0, replace(_stop(old), forecast=cost.stop))
    naive = replaced_one_by_one(scenario, members, behavior, _read_before(old))
    return replace(
        plan,
        summary="The whole group stops, its commits go to Kafka, and new consumers start there.",
        steps=_numbered(steps),
        forecast=cost.total,
        assumed=_assumed(scenario),
        naive=NaiveWay(
            "A rolling restart that replaces each old consumer by new ones while the others run",
            naive,
        ),
    )


def _assumed(scenario: Scenario) -> tuple[str, ...]:
    """Return the assumptions of the forecast, for both kinds of consumers."""
    version = ".".join(map(str, scenario.settings.version))
    _, *others = assumptions(scenario)
    return (
        "the old consumers are played as in Kafka 0.8.2, the new ones and their coordinator as in "
        f"Kafka {version}",
        *others,
    )


def _numbered(steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    return tuple(replace(step, number=number) for number, step in enumerate(steps, 1))


def _count(members: int) -> str:
    return "one member" if members == 1 else f"{members} members"


def _is_copied(old: OldGroup) -> bool:
    """Return whether Kafka has all commits, or will have them when the members have stopped."""
    return old.storage[0] is not CommitStore.ZOOKEEPER or (old.running is None and old.is_same)


def _read_before(old: OldGroup) -> int:
    """Return the number of records in the log that the group has read."""
    return sum(
        max(0, offset.committed_offset - start)
        for offset in old.group.offsets
        if (log_range := old.ranges.get((offset.topic, offset.partition))) is not None
        if (start := log_range.start) is not None
    )


def _lag(old: OldGroup) -> int:
    """Return the number of records that the group has not read, as far as known."""
    return sum(
        log_range.waiting(offset.committed_offset) or 0
        for offset in old.group.offsets
        if (log_range := old.ranges.get((offset.topic, offset.partition))) is not None
    )


# --- preconditions ------------------------------------------------------------------------------


def _preconditions(old: OldGroup) -> list[Precondition]:
    return [
        old.brokers_since(
            9,
            "Brokers coordinate groups: they are of 0.9 or later.",
            "Upgrade the brokers first, to 0.9 or later, and up to 3.x: those of 4.0 have no "
            "ZooKeeper, and no longer know the requests of the old consumers.",
        ),
        _client_version(),
        _alone(old),
        _storage(old),
        _committed(old),
    ]


def _client_version() -> Precondition:
    return Precondition(
        "client-version",
        "Brokers support the requests of the new consumers.",
        Verdict.UNKNOWN,
        "their version of kafka-clients is unknown",
        "kafka-clients 0.9 to 0.10.1 need brokers that are at least as new; 0.10.2 to "
        "3.9 support brokers from 0.10.0 on, 4.0 and later from 2.1 on.",
    )


def _alone(old: OldGroup) -> Precondition:
    text = "No new consumer uses the group id yet."
    group_id, places = quote(old.group.group_id), old.places
    if old.kafka_members is None:
        check = f"kgroup describe {group_id} {places.in_kafka} shows members, where there are any."
        return Precondition("alone", text, Verdict.UNKNOWN, None, check)
    if not old.kafka_members:
        found = "Kafka's coordinators have no member of it"
        return Precondition("alone", text, Verdict.VERIFIED, found)
    found = f"the group of this id in Kafka has {_count(old.kafka_members)}"
    if old.running is None:
        return Precondition("alone", "No old consumer is left.", Verdict.VERIFIED, found)
    return Precondition(
        "alone",
        text,
        Verdict.REFUTED,
        f"{found}, and {_count(len(old.group.members))} in ZooKeeper: both read every record",
        "Stop either the new ones, and plan again, or the old ones.",
    )


def _storage(old: OldGroup) -> Precondition:
    """Return the precondition that the store of commits is known; others are outdated."""
    _, precondition = old.storage
    if precondition.verdict is Verdict.VERIFIED or not old.kafka:
        return precondition
    if old.running is None and old.is_same:
        told = "the group is stopped, and both stores have the same"
        return replace(precondition, verdict=Verdict.VERIFIED, found=told, check=None)
    told = (precondition.found or "").partition(";")[0]
    return replace(precondition, verdict=Verdict.REFUTED, found=told)


def _committed(old: OldGroup) -> Precondition:
    text = "All partitions have committed offsets: new consumers start there."
    owned = {
        (at.topic, at.partition)
        for member in old.group.members
        for at in member.assignment or ()
        if at.topic is not None
    }
    left = sorted(owned - old.zookeeper.keys() - (old.kafka or {}).keys())
    if not left:
        number = len(old.zookeeper.keys() | (old.kafka or {}).keys())
        found = f"{number} {'has' if number == 1 else 'have'} one"
        return Precondition("committed", text, Verdict.VERIFIED, found)
    names = first_names([f"{topic}-{number}" for topic, number in left])
    return Precondition(
        "committed",
        text,
        Verdict.UNKNOWN,
        f"none yet: {names}",
        "Members may commit them when they stop. Without one, auto.offset.reset determines where "
        f"new consumers start: see kgroup check {quote(old.group.group_id)} "
        f"{old.places.in_zookeeper}.",
    )


# --- steps --------------------------------------------------------------------------------------


def _stop(old: OldGroup) -> PlanStep:
    group_id, where = quote(old.group.group_id), old.places.in_zookeeper
    names = first_names([member.name for member in old.planned_members])
    is_both = old.storage[0] is CommitStore.BOTH
    compare = old.places.offsets("diff", "zookeeper", "kafka", old.group.group_id)
    return PlanStep(
        0,
        "Stop all old consumers",
        actions=(
            f"Stop all members: {names}.",
            "Shut each one down cleanly (ConsumerConnector.shutdown), so that what it has read is "
            "committed; with auto.commit.enable=false, have it commit before.",
            "One that crashes remains registered until its session expires "
            "(zookeeper.session.timeout.ms).",
        ),
        commands=(compare,) if is_both else (),
        see=(
            f"kgroup describe {group_id} {where} shows it Empty.",
            f"kgroup zk owners {group_id} {where} shows no owners.",
        ),
        back="Start the old consumers again: they resume at their committed offsets.",
        expected=Expected(
            GroupType.ZOOKEEPER,
            state=GroupState.EMPTY,
            commits=CommitStore.BOTH if is_both else None,
        ),
    )


def copy_step(old: OldGroup) -> PlanStep:
    """Return the step that copies the commits of a stopped group."""
    places, group_id = old.places, old.group.group_id
    missed = (
        f"auto.offset.reset=latest would skip {_lag(old):,} records, and those written meanwhile"
    )
    again = f"earliest would read {_read_before(old):,} again"
    return PlanStep(
        0,
        "Copy the commits from ZooKeeper to Kafka",
        actions=(
            "Check what would be copied (without --execute), then copy it.",
            f"Without a copy, {missed}; {again} (in partitions whose log is known).",
        ),
        commands=(
            places.offsets("copy", "zookeeper", "kafka", group_id),
            places.offsets("diff", "zookeeper", "kafka", group_id),
        ),
        see=("The comparison shows no partition, and ends with status 0.",),
        back="Nothing to roll back: the old consumers start at the offsets in ZooKeeper.",
        expected=Expected(GroupType.ZOOKEEPER, state=GroupState.EMPTY, commits=CommitStore.BOTH),
        copies=places.copy,
    )


def _start(old: OldGroup, members: _Members, strategy: str) -> PlanStep:
    places, group_id = old.places, quote(old.group.group_id)
    topics = {
        topic
        for plans in members.values()
        for plan in plans.values()
        for topic in plan.config.topics
    }
    count = sum(len(plans) for plans in members.values())
    back = places.offsets("copy", "kafka", "zookeeper", old.group.group_id)
    return PlanStep(
        0,
        "Start new consumers",
        settings=java_settings(old.group.group_id, places.kafka, CLASSES[strategy], old.settings),
        actions=(
            *_programs(old, members),
            "A thread that has waited for records with consumer.timeout.ms gives that time to "
            "poll(), which returns no records in the place of ConsumerTimeoutException.",
            "Start all of them.",
        ),
        see=(
            f"kgroup describe {group_id} {places.in_kafka} shows it Stable"
            + (f", with {_count(count)}." if count else "."),
            f"kgroup plan verify looks for this step at the brokers: {places.in_kafka}",
        ),
        back=f"Stop the new consumers, {back}, and start the old ones.",
        expected=Expected(
            GroupType.CLASSIC, strategy, members=max(count, 1), topics=tuple(sorted(topics))
        ),
    )


def _programs(old: OldGroup, members: _Members) -> list[str]:
    """Return the changes of the applications, once for members with the same change."""
    running = old.running
    if running is None:
        return [
            "A consumer with N streams becomes N consumers, each with a thread of its own: "
            "KafkaConsumer is not for several threads."
        ]
    by_topics: dict[str, list[str]] = {}
    start = running.scenario.start
    assert start is not None
    for name, plan in running.scenario.connectors.items():
        text = _program(plan.config.registration, members[name])
        by_topics.setdefault(text, []).append(start.members[name].member_id)
    return [f"{first_names(names)}: {text}" for text, names in by_topics.items()]


def _program(registration: Registration, plans: Mapping[str, MemberPlan]) -> str:
    count = len(plans)
    own_thread = "each with a thread of its own, " if count > 1 else ""
    many = f"{count} consumers, {own_thread}" if count != 1 else "one consumer, "
    text = ", ".join(f"{name}:{streams}" for name, streams in registration.subscription.items())
    if registration.is_static:
        named = [", ".join(plan.config.topics) for plan in plans.values()]
        calls = (
            f"subscribe({named[0]})"
            if len(set(named)) == 1
            else "; ".join(f"subscribe({topics})" for topics in named)
        )
        return f"createMessageStreams({text}) becomes {many}{calls}."
    ((text, streams),) = registration.subscription.items()
    regex = filter_regex(text)
    is_white = registration.pattern is SubscriptionPattern.WHITE_LIST
    word = "Whitelist" if is_white else "Blacklist"
    pattern = regex if is_white else f"(?!(?:{regex})$).+"
    many = f"{streams} consumers, each with a thread of its own, " if streams > 1 else many
    return (
        f"createMessageStreamsByFilter({word}({text}), {streams}) becomes {many}"
        f"subscribe(Pattern) with {pattern}; new topics are seen after metadata.max.age.ms."
    )
