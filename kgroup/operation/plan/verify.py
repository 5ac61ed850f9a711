"""Verify a step of a plan: compare the group with the expected result of the step.

A cluster does not report when a member joined, or how it is configured. However, a member that was
restarted has another id, even if it is static (`ClassicGroup.replaceStaticMember`). Therefore, a
member with another id counts as done, even if it crashed and rejoined with its old configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from kgroup.described_enum import DescribedEnum
from kgroup.errors import ExitStatus, InputError, UsageError, shown_id
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.offset import CommitStore
from kgroup.model.problem import Problem
from kgroup.operation.plan.offset_copy import compare_copied
from kgroup.operation.plan.plan import (
    Expected,
    OffsetCopy,
    Plan,
    PlannedMember,
    PlanStep,
    chosen_steps,
)
from kgroup.operation.plan.running_group import planned_members
from kgroup.operation.report import Report, first_names
from kgroup.operation.select_groups import select_groups
from kgroup.operation.zookeeper.commit import kafka_offsets
from kgroup.source.base import GroupSource, KafkaOffsets, Question

_Members = tuple[PlannedMember, ...]
_BY: tuple[Callable[[PlannedMember], object], ...] = (
    lambda member: member.instance_id,
    lambda member: member.client_id and (member.client_id, member.client_host),
    lambda member: member.client_id,
)
"""Keys that identify a member whose id has changed, the most specific first."""


@dataclass(frozen=True, slots=True)
class Turnover:
    """Members that a step restarts, compared with the current members.

    Attributes:
        before: members to restart, as they were before the step.
        missing: those that have not been restarted.
        new_count: number of members that joined since.
        new: members that may have joined since; exactly these, if they can be identified.
        gone_count: number of members that have not returned.
        gone: members that may not have returned; exactly these, if they can be identified.
    """

    before: _Members
    missing: _Members
    new_count: int
    new: _Members
    gone_count: int
    gone: _Members

    @property
    def known_new(self) -> _Members:
        """New members, if they can be distinguished from restarted ones."""
        return self.new if len(self.new) == self.new_count else ()


def turnover(plan: Plan, step: PlanStep, present: _Members) -> Turnover:
    """Compare the present members with those before a step.

    The check of an earlier step has recorded the members of that time.
    """
    earlier = [
        other for other in plan.steps if other.number < step.number and other.seen is not None
    ]
    seen = [other.seen for other in earlier if other.seen and shares(other, step)]
    planned = (
        member for member in plan.members if not step.restarted or member.name in step.restarted
    )
    met = step.met or ()
    before = (*(seen[-1] if seen else planned), *met)
    known = (*(earlier[-1].seen or () if earlier else plan.members), *met)
    ids = {member.member_id for member in present}
    ids_before = {member.member_id for member in (*known, *before)}
    new = tuple(member for member in present if member.member_id not in ids_before)
    gone = tuple(member for member in known if member.member_id not in ids)
    missing = tuple(member for member in before if member.member_id in ids)
    if earlier and not earlier[-1].seen:  # the group was empty: all members are new
        return Turnover(before, missing, 0, (), 0, ())
    new, gone = _unpaired(new, gone)
    more = len(new) - len(gone)
    return Turnover(
        before,
        missing,
        max(more, 0),
        new if more > 0 else (),
        max(-more, 0),
        gone if more < 0 else (),
    )


def _unpaired(new: _Members, gone: _Members) -> tuple[_Members, _Members]:
    """Return the members that are new or gone, without those that returned with another id.

    If more members of a name have joined than left, it is unknown which of them returned.
    """
    for name in _BY:
        come, left = (Counter(map(name, members)) for members in (new, gone))
        pairs = Counter(
            {client: come[client] for client in left if client and come[client] <= left[client]}
        )
        new = tuple(member for member in new if name(member) not in pairs)
        rest = []
        for member in gone:
            if pairs[name(member)] > 0:
                pairs[name(member)] -= 1
            else:
                rest.append(member)
        gone = tuple(rest)
    return new, gone


def shares(earlier: PlanStep, step: PlanStep) -> bool:
    """Return whether an earlier step restarted members that this step restarts again."""
    return not step.restarted or not set(step.restarted).isdisjoint(earlier.restarted)


def is_shown(plan: Plan, step: PlanStep) -> bool:
    """Return whether the group's state proves that every member has taken a step.

    A group type that the group did not have before proves it. A new strategy proves that every
    member supports it, which is sufficient if a later step removes the other strategies.
    """
    expected = step.expected
    if expected.instance_ids is not None or expected.protocol is not None:
        return True
    earlier = [other.expected for other in plan.steps if other.number < step.number]
    later = [other.expected.assignor for other in plan.steps if other.number > step.number]
    is_new_type = expected.type not in (None, plan.type, *(other.type for other in earlier))
    is_new = expected.assignor not in (None, plan.assignor, *(other.assignor for other in earlier))
    return is_new_type or (is_new and expected.assignor in later)


OpenStores = Callable[
    [OffsetCopy, tuple[str, ...]], AbstractContextManager[tuple[GroupSource, GroupSource]]
]
"""Opens the two stores between which offsets of groups are copied."""

Commits = Mapping[TopicPartition, int]


class StepProgress(DescribedEnum):
    """Progress of a step, or of one of its conditions."""

    DONE = ("done", "All conditions hold.")
    HALF_DONE = ("half-done", "Some members have taken the step, or the group is not stable yet.")
    NOT_BEGUN = ("not-begun", "Nothing of the step has been done.")
    WRONG = ("wrong", "The step was taken, but the group is not in the expected state.")


_HALF = StepProgress.HALF_DONE


@dataclass(frozen=True, slots=True)
class StepCondition:
    """An expected condition of a step.

    Attributes:
        text: expected condition, as a sentence.
        progress: progress of the condition.
        found: actual state; None if unknown.
    """

    text: str
    progress: StepProgress
    found: str | None


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """Current state of a group.

    Attributes:
        group: the group.
        kafka: its commits to Kafka; None if unknown.
        counts: number of partitions by topic, if needed and known.
        turnover: comparison of its members with those before the step.
        left: names of the members that have not taken the step.
    """

    group: Group
    kafka: Commits | None
    counts: Mapping[str, int]
    turnover: Turnover
    left: tuple[str, ...]


def conditions(plan: Plan, step: PlanStep, seen: ObservedGroup) -> Iterator[StepCondition]:
    """Compare a group with the expected conditions."""
    expected, group = step.expected, seen.group
    if expected.is_restarted:
        yield _restarted(plan, seen)
        if seen.turnover.new_count and not is_shown(plan, step):
            yield _new(seen.turnover)
    if expected.members is not None:
        yield _counted(expected, seen)
    if expected.type is not None:
        yield _same("type", expected.type, group.type)
    if expected.protocol is not None and group.type is GroupType.CONSUMER:
        yield _spoken(expected.protocol, group)
    if expected.assignor is not None:
        yield _same("strategy", expected.assignor, group.assignor)
    if expected.instance_ids is not None:
        yield _instances(expected.instance_ids, group)
    if expected.topics:
        yield _subscribed(expected.topics, group)
    if expected.commits is not None:
        yield _committed(expected, group, seen.kafka)
    if expected.state is GroupState.EMPTY:
        yield _stopped(plan, group, seen.left)
    else:
        is_there = group.state is expected.state
        yield StepCondition(
            "The group is stable.",
            StepProgress.DONE if is_there else StepProgress.HALF_DONE,
            None if group.state is None else str(group.state),
        )
    yield from _owned(expected, group, seen.counts)
    yield from _unverified(plan, step)


def _restarted(plan: Plan, seen: ObservedGroup) -> StepCondition:
    total, count = len(seen.turnover.before), len(seen.group.members)
    progress, found = StepProgress.DONE, "every member has a new id"
    if seen.left:
        begun = len(seen.left) < total or count < len(plan.members)
        progress = StepProgress.HALF_DONE if begun else StepProgress.NOT_BEGUN
        found = f"not yet: {', '.join(seen.left)}"
    elif not count:
        progress, found = StepProgress.HALF_DONE, "no member is there"
    text = f"All {total} members were restarted." if total != 1 else "The member was restarted."
    return StepCondition(text, progress, found)


def _new(turnover: Turnover) -> StepCondition:
    """Return the condition that members which joined since have the configuration of the step."""
    names = first_names([member.name for member in turnover.new])
    if turnover.known_new:
        found = f"joined since, configuration unknown: {names}; restart them with the others, too"
    else:
        count = turnover.new_count
        found = f"{count} of these joined since, configuration unknown: {names}; plan again"
    return StepCondition(
        "Members that joined since have the configuration of this step.", _HALF, found
    )


def _counted(expected: Expected, seen: ObservedGroup) -> StepCondition:
    assert expected.members is not None
    count = len(seen.group.members)
    text = f"{expected.members} member" + ("" if expected.members == 1 else "s")
    fewer = _HALF if count or expected.is_restarted else StepProgress.NOT_BEGUN
    found, turnover = str(count), seen.turnover
    if expected.is_restarted and count and turnover.gone_count:
        names = first_names([member.name for member in turnover.gone])
        of = "" if len(turnover.gone) == turnover.gone_count else f"{turnover.gone_count} of "
        found += f"; not back: {of}{names}; if they are gone for good, plan again"
    progress = StepProgress.DONE if count >= expected.members else fewer
    return StepCondition(f"The group has {text} or more.", progress, found)


def _unverified(plan: Plan, step: PlanStep) -> Iterator[StepCondition]:
    """Yield a condition if an earlier step was not verified: this one may be incomplete."""
    if not step.expected.is_restarted or step.expected.commits is not None:
        return
    earlier = [
        other
        for other in plan.steps
        if other.number < step.number and other.expected.is_restarted and shares(other, step)
    ]
    if earlier and earlier[-1].seen is None:
        yield StepCondition(
            f"Step {earlier[-1].number} was verified when it was done.",
            StepProgress.HALF_DONE,
            "no: members that were restarted for it cannot be distinguished from "
            f"those of step {step.number}; plan again to see what is left",
        )


def _stopped(plan: Plan, group: Group, missing: Sequence[str]) -> StepCondition:
    owned = len(group.stray_owners or ())
    text = "The group has no member, and no partition has an owner."
    if not missing:
        progress = StepProgress.HALF_DONE if owned else StepProgress.DONE
        return StepCondition(text, progress, f"{owned} owned" if owned else "none")
    before = {member.name for member in plan.members}
    progress = StepProgress.NOT_BEGUN if before <= set(missing) else StepProgress.HALF_DONE
    return StepCondition(text, progress, f"there: {first_names(missing)}")


def _subscribed(topics: Collection[str], group: Group) -> StepCondition:
    subscriptions = [
        member.subscription for member in group.members if member.subscription is not None
    ]
    subscribed = {topic for subscription in subscriptions for topic in subscription.topics or ()}
    left = sorted(set(topics) - subscribed)
    return StepCondition(
        f"Members subscribe to {first_names(sorted(topics))}.",
        StepProgress.HALF_DONE if left else StepProgress.DONE,
        f"no member subscribes to {first_names(left)}" if left else "to all of them",
    )


def _committed(expected: Expected, group: Group, kafka: Commits | None) -> StepCondition:
    """Compare the commits in both stores; of a group with members, for owned partitions only.

    A running consumer commits only partitions that it owns. If member ids do not show restarts, the
    commits of each owner must.
    """
    is_both = expected.commits is CommitStore.BOTH
    text = (
        "Kafka has the same commits as ZooKeeper."
        if is_both
        else "Commits go to Kafka only, which is ahead of ZooKeeper."
    )
    if kafka is None:
        return StepCondition(text, StepProgress.HALF_DONE, None)
    owned = {
        member.member_id: {(at.topic or "", at.partition) for at in member.assignment or ()}
        for member in group.members
    }
    zookeeper = {
        (offset.topic, offset.partition): offset.committed_offset for offset in group.offsets
    }
    committed = zookeeper.keys() | kafka.keys()
    ats = committed & (set().union(*owned.values()) or zookeeper.keys())
    ahead = {at for at in ats if kafka.get(at, -1) > zookeeper.get(at, -1)}
    behind = {at for at in ats if kafka.get(at, -1) < zookeeper.get(at, -1)}
    shown = ats - behind if is_both else ahead
    silent = [id_ for id_, theirs in owned.items() if theirs and theirs.isdisjoint(shown)]
    if not ats:
        found = "nothing is committed yet"
    elif ahead or behind:
        found = (
            f"of {len(ats)} partitions Kafka is ahead for {len(ahead)}, and behind for "
            f"{len(behind)}"
        )
    else:
        found = f"the same for {len(ats)} partitions"
    is_done = bool(ats) and not behind and bool(ahead) is not is_both
    if is_done and silent and not expected.is_restarted:
        is_done = False
        found += f"; no such commit yet of {first_names(silent)}"
    if is_done:
        return StepCondition(text, StepProgress.DONE, found)
    is_begun = expected.is_restarted or not ats.isdisjoint(kafka)
    return StepCondition(
        text, StepProgress.HALF_DONE if is_begun else StepProgress.NOT_BEGUN, found
    )


def _spoken(protocol: str, group: Group) -> StepCondition:
    """Return the condition that all members of a consumer group use the consumer protocol.

    Brokers before 4.0 do not report the protocol (ConsumerGroupDescribe of version 0).
    """
    classic = [member for member in group.members if member.uses_classic_protocol]
    names = ", ".join(
        member.instance_id or member.client_id or member.member_id for member in classic
    )
    is_known = all(member.uses_classic_protocol is not None for member in group.members)
    found = f"not yet: {names}" if classic else "every one does" if is_known else None
    progress = StepProgress.DONE if is_known and not classic else StepProgress.HALF_DONE
    return StepCondition(f"All members use the {protocol} protocol.", progress, found)


def copied(copy: OffsetCopy, group_id: str, open_stores: OpenStores | None) -> StepCondition:
    """Compare the stores of a copy; a table or file that does not exist has no offsets."""
    what = "the same in" if copy.is_last else "something in"
    text = f"Each partition that {copy.origin} has an offset of has {what} {copy.goal}."
    if open_stores is None:
        return StepCondition(text, StepProgress.HALF_DONE, None)
    try:
        with open_stores(copy, (group_id,)) as (origin, goal):
            comparison = compare_copied(origin, goal, copy, group_id)
    except InputError as error:
        return StepCondition(text, StepProgress.NOT_BEGUN, str(error))
    if comparison.problems:
        return StepCondition(text, StepProgress.HALF_DONE, str(comparison.problems[0].reason))
    open_ = (*comparison.missing, *(comparison.different if copy.is_last else ()))
    if not open_:
        return StepCondition(text, StepProgress.DONE, f"{comparison.partitions} partitions")
    names = first_names([f"{topic}-{partition}" for topic, partition in sorted(open_)])
    begun = StepProgress.HALF_DONE if len(open_) < comparison.partitions else StepProgress.NOT_BEGUN
    return StepCondition(text, begun, f"not yet of {names}")


def _same(what: str, expected: str, found: str | None) -> StepCondition:
    progress = StepProgress.DONE if expected == found else StepProgress.WRONG
    if found is None:  # during a rebalance
        progress = StepProgress.HALF_DONE
    return StepCondition(f"The group's {what} is {expected}.", progress, found)


def _owned(expected: Expected, group: Group, counts: Mapping[str, int]) -> Iterator[StepCondition]:
    """Compare the partition counts of topics, and the partitions that the group owns."""
    owned = {
        (partition.topic, partition.partition)
        for m in group.members
        for partition in m.assignment or ()
    }
    for topic, count in expected.partitions.items():
        if topic in counts:
            is_done = counts[topic] >= count
            yield StepCondition(
                f"{topic} has {count} partitions.",
                StepProgress.DONE if is_done else StepProgress.NOT_BEGUN,
                str(counts[topic]),
            )
        free = [number for number in range(count) if (topic, number) not in owned]
        yield StepCondition(
            f"The group owns all partitions of {topic}.",
            StepProgress.HALF_DONE if free else StepProgress.DONE,
            f"not yet: {first_names(free)}" if free else str(count),
        )


def _instances(expected: Sequence[str], group: Group) -> StepCondition:
    """Compare the members' instance ids with the expected ones."""
    present = {member.instance_id for member in group.members if member.instance_id is not None}
    dynamic = [
        member.client_id or member.member_id for member in group.members if not member.instance_id
    ]
    if not expected:
        return StepCondition(
            "No member has an instance id.",
            StepProgress.WRONG if present else StepProgress.DONE,
            first_names(sorted(present)) or "none",
        )
    missing = [instance_id for instance_id in expected if instance_id not in present]
    found = [
        *([f"missing: {first_names(missing)}"] if missing else []),
        *([f"without one: {first_names(dynamic)}"] if dynamic else []),
    ]
    return StepCondition(
        "Every member has an instance id, as planned.",
        StepProgress.WRONG if found else StepProgress.DONE,
        "; ".join(found) or first_names(sorted(present)),
    )


@dataclass(frozen=True, slots=True)
class StepCheck:
    """Progress of a group in a step.

    Attributes:
        group_id: group id.
        step: number of the step.
        title: what the step does.
        progress: progress of the step: `done`, `half-done`, `not-begun` or `wrong`.
        missing: members that have not taken the step; by their names in the plan.
        new: members that joined since; if they can be identified.
        conditions: expected conditions, with the actual state.
        members: current members.
    """

    group_id: str
    step: int
    title: str
    progress: StepProgress
    missing: tuple[str, ...]
    new: tuple[str, ...]
    conditions: tuple[StepCondition, ...]
    members: tuple[PlannedMember, ...]


def verify_step(
    source: GroupSource,
    plans: Sequence[Plan],
    number: int,
    group_ids: Collection[str] = (),
    *,
    open_stores: OpenStores | None = None,
) -> Report[StepCheck]:
    """Verify a step of plans for several groups.

    Args:
        source: source of groups.
        plans: saved plans.
        number: number of the step.
        group_ids: groups to verify; empty for all groups of the plans.
        open_stores: opens the stores of a step that copies offsets; None if not available.

    Returns:
        A check for each group; groups that do not exist are problems. The verdict is `PROBLEM` if
        the step is not done.

    Raises:
        UsageError: no plan has the step, or is for a named group; or the step must be verified in
            another source.
        BrokerError: no broker answers.
    """
    chosen, notes = chosen_steps(plans, number, group_ids)
    steps = {plan.group_id: step for plan, step in chosen}
    for step in steps.values():
        _check_source(source, step)
    _check_cluster(source, [plan for plan, _ in chosen])
    # Read Kafka before ZooKeeper: consumers with dual commit write to ZooKeeper last.
    asked = [group_id for group_id, step in steps.items() if step.expected.commits]
    kafka = kafka_offsets(source, asked)
    counts = _partition_counts(source, steps.values())
    question = Question(offsets=bool(asked), log_budget=0, commit_times=False)
    reading, missing = select_groups(source, list(steps), question)
    gone = _gone(chosen, missing, reading.problems)
    groups = {**reading.image.groups, **gone}
    checks = tuple(
        _check(
            plan, step, groups[plan.group_id], _of_group(kafka, plan.group_id), counts, open_stores
        )
        for plan, step in chosen
        if plan.group_id in groups
    )
    missing = tuple(problem for problem in missing if problem.group_id not in gone)
    problems = (*missing, *reading.problems, *kafka.problems)
    is_done = all(check.progress is StepProgress.DONE for check in checks)
    verdict = None if problems or is_done else ExitStatus.PROBLEM
    return Report(checks, problems, (*reading.notes, *notes), verdict)


def _gone(
    chosen: Iterable[tuple[Plan, PlanStep]], missing: Iterable[Problem], others: Iterable[Problem]
) -> Mapping[str, Group]:
    """Return expected empty groups that do not exist: without commits, an empty group disappears.

    Empty if the missing groups may be in what could not be read.
    """
    if any(problem.group_id is None for problem in others):
        return {}
    names = {problem.group_id for problem in missing}
    return {
        plan.group_id: Group(plan.group_id, plan.type, GroupState.EMPTY)
        for plan, step in chosen
        if plan.group_id in names and step.expected.state is GroupState.EMPTY
        if plan.type is not None
    }


def _check_cluster(source: GroupSource, plans: Iterable[Plan]) -> None:
    """Check the cluster id; another cluster may have a group with the same name."""
    name = source.store_name
    if name is None:
        return
    for plan in plans:
        if None not in (plan.cluster_id, name.cluster_id) and plan.cluster_id != name.cluster_id:
            raise UsageError(
                f"the plan for {shown_id(plan.group_id)} was made for the cluster with the id "
                f"{plan.cluster_id}, found {name}"
            )


def _check_source(source: GroupSource, step: PlanStep) -> None:
    """Check that the source is of the right kind: ZooKeeper or Kafka."""
    if step.expected.type is None:
        return
    is_there = step.expected.type is GroupType.ZOOKEEPER
    if is_there and not source.can(GroupSource.subtree):
        raise UsageError(
            f"step {step.number} is verified in ZooKeeper: expected --zookeeper HOST:PORT/CHROOT"
        )
    if source.can(GroupSource.subtree) and not is_there:
        raise UsageError(
            f"step {step.number} is verified with the brokers: expected --bootstrap-server "
            "HOST:PORT, found ZooKeeper"
        )


def _of_group(kafka: KafkaOffsets, group_id: str) -> Commits | None:
    """Return the commits of a group to Kafka; None if unknown."""
    if kafka.offsets is None:
        return None
    return {at[1:]: offset for at, offset in kafka.offsets.items() if at[0] == group_id}


def with_members_seen(plan: Plan, check: StepCheck) -> Plan:
    """Record the members when a step is done, as the next step must replace them.

    They are recorded only once: later members may have taken the next step, which would then look
    undone. Before the step is done, members that joined since are recorded: they must be restarted,
    too.
    """
    came = tuple(member for member in check.members if member.name in check.new)

    def noted(step: PlanStep) -> PlanStep:
        if step.number != check.step or step.seen is not None:
            return step
        if check.progress is StepProgress.DONE:
            return replace(step, seen=check.members)
        if came and not is_shown(plan, step):
            return replace(step, met=(*(step.met or ()), *came))
        return step

    return replace(plan, steps=tuple(map(noted, plan.steps)))


def _partition_counts(source: GroupSource, steps: Iterable[PlanStep]) -> Mapping[str, int]:
    """Return the number of partitions of the expected topics, if the source knows it."""
    topics = {topic for step in steps for topic in step.expected.partitions}
    if not topics or not source.can(GroupSource.view):
        return {}
    return {name: len(topic.partitions) for name, topic in source.view(topics).topics.items()}


def _check(
    plan: Plan,
    step: PlanStep,
    group: Group,
    kafka: Commits | None,
    counts: Mapping[str, int],
    open_stores: OpenStores | None,
) -> StepCheck:
    present = planned_members(group.members)
    members = turnover(plan, step, present)
    missing: tuple[str, ...] = ()
    if step.expected.is_restarted:
        missing = tuple(member.name for member in members.missing)
    elif step.expected.state is GroupState.EMPTY:
        names = {member.member_id: member.name for member in plan.members}
        missing = tuple(sorted(names.get(member.member_id, member.member_id) for member in present))
    checks = tuple(conditions(plan, step, ObservedGroup(group, kafka, counts, members, missing)))
    if (
        step.copies is not None and step.expected.commits is None
    ):  # otherwise, `commits` checks the same
        checks += (copied(step.copies, plan.group_id, open_stores),)
    progress = _whole([condition.progress for condition in checks], missing)
    if progress is not StepProgress.WRONG:  # wrong conditions may still change
        checks = tuple(
            replace(condition, progress=progress)
            if condition.progress is StepProgress.WRONG
            else condition
            for condition in checks
        )
    new = tuple(member.name for member in members.known_new) if step.expected.is_restarted else ()
    return StepCheck(
        plan.group_id, step.number, step.title, progress, missing, new, checks, present
    )


def _whole(states: Sequence[StepProgress], missing: Sequence[str]) -> StepProgress:
    """Return the progress of a step; a wrong condition may still change if members are missing."""
    if all(progress is StepProgress.DONE for progress in states):
        return StepProgress.DONE
    if StepProgress.NOT_BEGUN in states:
        return StepProgress.NOT_BEGUN
    if missing or StepProgress.HALF_DONE in states:
        return StepProgress.HALF_DONE
    return StepProgress.WRONG
