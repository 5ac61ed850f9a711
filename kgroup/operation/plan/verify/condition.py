"""What a step was to bring about, and how much of it is to be seen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kgroup.assignor.base import TopicPartition
from kgroup.errors import InputError
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.offset import CommitStore
from kgroup.operation.offsets.read import AnyStore
from kgroup.operation.plan.copy import compare_copied
from kgroup.operation.plan.plan import Expected, OffsetCopy, Plan, PlanStep
from kgroup.operation.plan.verify.member import Turnover, is_shown, shares
from kgroup.operation.report import first_names
from kgroup.word import Word

OpenStores = Callable[
    [OffsetCopy, tuple[str, ...]], AbstractContextManager[tuple[AnyStore, AnyStore]]
]
"""Gives the two stores between which offsets of groups are copied."""

Commits = Mapping[TopicPartition, int]


class Progress(Word):
    """How far a step, or something that it was to do, has come."""

    DONE = ("done", "All is as it should be.")
    HALF_DONE = ("half-done", "Some members have taken the step, or the group does not rest yet.")
    NOT_BEGUN = ("not-begun", "Nothing of it is to be seen.")
    WRONG = ("wrong", "The step was taken, and the group is not as it should be.")


_HALF = Progress.HALF_DONE


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the things that a step was to bring about.

    Attributes:
        text: what should be.
        found: what is; None where nobody tells.
    """

    text: str
    progress: Progress
    found: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a source tells of a group.

    Attributes:
        group: as it is.
        kafka: what it has committed to Kafka; None where nobody tells.
        counts: of partitions, by topic, where that matters and the source knows it.
        turnover: of its members, and
        left: names of those that have not taken the step.
    """

    group: Group
    kafka: Commits | None
    counts: Mapping[str, int]
    turnover: Turnover
    left: tuple[str, ...]


def conditions(plan: Plan, step: PlanStep, seen: Seen) -> Iterator[Condition]:
    """Compare a group with what is expected of it."""
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
        yield Condition(
            "The group is stable.",
            Progress.DONE if is_there else Progress.HALF_DONE,
            None if group.state is None else str(group.state),
        )
    yield from _owned(expected, group, seen.counts)
    yield from _unverified(plan, step)


def _restarted(plan: Plan, seen: Seen) -> Condition:
    total, count = len(seen.turnover.before), len(seen.group.members)
    progress, found = Progress.DONE, "every one has another id"
    if seen.left:
        begun = len(seen.left) < total or count < len(plan.members)
        progress = Progress.HALF_DONE if begun else Progress.NOT_BEGUN
        found = f"not yet: {', '.join(seen.left)}"
    elif not count:
        progress, found = Progress.HALF_DONE, "nobody is there"
    text = f"All {total} members were restarted." if total != 1 else "The member was restarted."
    return Condition(text, progress, found)


def _new(turnover: Turnover) -> Condition:
    """Say of members that came meanwhile that nobody knows how they were started."""
    names = first_names([each.name for each in turnover.new])
    if turnover.known_new:
        found = f"came since, nobody tells how: {names}; restart them with the others, too"
    else:
        found = f"{turnover.new_count} of these came since, nobody tells how: {names}; plan anew"
    return Condition("Members that came since were started as the step says.", _HALF, found)


def _counted(expected: Expected, seen: Seen) -> Condition:
    assert expected.members is not None
    count = len(seen.group.members)
    text = f"{expected.members} member" + ("" if expected.members == 1 else "s")
    fewer = _HALF if count or expected.is_restarted else Progress.NOT_BEGUN
    found, turnover = str(count), seen.turnover
    if expected.is_restarted and count and turnover.gone_count:
        names = first_names([each.name for each in turnover.gone])
        of = "" if len(turnover.gone) == turnover.gone_count else f"{turnover.gone_count} of "
        found += f"; not back: {of}{names}; where that is for good, plan anew"
    progress = Progress.DONE if count >= expected.members else fewer
    return Condition(f"The group has {text} or more.", progress, found)


def _unverified(plan: Plan, step: PlanStep) -> Iterator[Condition]:
    """Tell that a step may seem done and not be: the ids of one before were never noted."""
    if not step.expected.is_restarted or step.expected.commits is not None:
        return
    earlier = [
        each
        for each in plan.steps
        if each.number < step.number and each.expected.is_restarted and shares(each, step)
    ]
    if earlier and earlier[-1].seen is None:
        yield Condition(
            f"Step {earlier[-1].number} was verified when it was done.",
            Progress.HALF_DONE,
            f"no: members that were restarted for it cannot be told from those of step "
            f"{step.number}; plan anew to see what is left",
        )


def _stopped(plan: Plan, group: Group, missing: Sequence[str]) -> Condition:
    owned = len(group.stray_owners or ())
    text = "No member is there, and nobody owns a partition."
    if not missing:
        progress = Progress.HALF_DONE if owned else Progress.DONE
        return Condition(text, progress, f"{owned} owned" if owned else "nobody")
    before = {each.name for each in plan.members}
    progress = Progress.NOT_BEGUN if before <= set(missing) else Progress.HALF_DONE
    return Condition(text, progress, f"there: {first_names(missing)}")


def _subscribed(topics: Collection[str], group: Group) -> Condition:
    told = [each.subscription for each in group.members if each.subscription is not None]
    there = {topic for each in told for topic in each.topics or ()}
    left = sorted(set(topics) - there)
    return Condition(
        f"Members subscribe to {first_names(sorted(topics))}.",
        Progress.HALF_DONE if left else Progress.DONE,
        f"nobody to {first_names(left)}" if left else "all of them",
    )


def _committed(expected: Expected, group: Group, kafka: Commits | None) -> Condition:
    """Compare stores; where there are members, for the partitions that they own.

    A running consumer commits what it owns, and nothing else. Where ids do not tell who was
    restarted, commits of each owner have to.
    """
    is_both = expected.commits is CommitStore.BOTH
    text = (
        "Kafka has the commits that ZooKeeper has."
        if is_both
        else "Commits go to Kafka alone, which is ahead of ZooKeeper."
    )
    if kafka is None:
        return Condition(text, Progress.HALF_DONE, None)
    owned = {
        each.member_id: {(at.topic or "", at.partition) for at in each.assignment or ()}
        for each in group.members
    }
    zookeeper = {(each.topic, each.partition): each.committed_offset for each in group.offsets}
    there = zookeeper.keys() | kafka.keys()
    ats = there & (set().union(*owned.values()) or zookeeper.keys())
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
        return Condition(text, Progress.DONE, found)
    is_begun = expected.is_restarted or not ats.isdisjoint(kafka)
    return Condition(text, Progress.HALF_DONE if is_begun else Progress.NOT_BEGUN, found)


def _spoken(protocol: str, group: Group) -> Condition:
    """Tell whether all members of a consumer group speak the consumer protocol.

    Brokers before 4.0 do not tell who does (ConsumerGroupDescribe of version 0).
    """
    classic = [each for each in group.members if each.uses_classic_protocol]
    names = ", ".join(each.instance_id or each.client_id or each.member_id for each in classic)
    is_known = all(each.uses_classic_protocol is not None for each in group.members)
    found = f"not yet: {names}" if classic else "every one does" if is_known else None
    progress = Progress.DONE if is_known and not classic else Progress.HALF_DONE
    return Condition(f"All members speak the {protocol} protocol.", progress, found)


def copied(copy: OffsetCopy, group_id: str, open_stores: OpenStores | None) -> Condition:
    """Compare the stores; a missing table or file has nothing yet."""
    what = "the same in" if copy.is_last else "something in"
    text = f"Each partition that {copy.origin} has an offset of has {what} {copy.goal}."
    if open_stores is None:
        return Condition(text, Progress.HALF_DONE, None)
    try:
        with open_stores(copy, (group_id,)) as (origin, goal):
            found = compare_copied(origin, goal, copy, group_id)
    except InputError as error:
        return Condition(text, Progress.NOT_BEGUN, str(error))
    if found.problems:
        return Condition(text, Progress.HALF_DONE, str(found.problems[0].reason))
    open_ = (*found.missing, *(found.different if copy.is_last else ()))
    if not open_:
        return Condition(text, Progress.DONE, f"{found.partitions} partitions")
    names = first_names([f"{topic}-{partition}" for topic, partition in sorted(open_)])
    begun = Progress.HALF_DONE if len(open_) < found.partitions else Progress.NOT_BEGUN
    return Condition(text, begun, f"not yet of {names}")


def _same(what: str, expected: str, found: str | None) -> Condition:
    progress = Progress.DONE if expected == found else Progress.WRONG
    if found is None:  # as long as a rebalance goes on
        progress = Progress.HALF_DONE
    return Condition(f"The group's {what} is {expected}.", progress, found)


def _owned(expected: Expected, group: Group, counts: Mapping[str, int]) -> Iterator[Condition]:
    """Compare topics' partitions, and what of them the group owns."""
    owned = {(each.topic, each.partition) for m in group.members for each in m.assignment or ()}
    for topic, count in expected.partitions.items():
        if topic in counts:
            is_done = counts[topic] >= count
            yield Condition(
                f"{topic} has {count} partitions.",
                Progress.DONE if is_done else Progress.NOT_BEGUN,
                str(counts[topic]),
            )
        free = [number for number in range(count) if (topic, number) not in owned]
        yield Condition(
            f"The group owns all partitions of {topic}.",
            Progress.HALF_DONE if free else Progress.DONE,
            f"not yet: {first_names(free)}" if free else str(count),
        )


def _instances(expected: Sequence[str], group: Group) -> Condition:
    """Compare the members' instance ids: whoever was restarted has its own."""
    there = {each.instance_id for each in group.members if each.instance_id is not None}
    dynamic = [each.client_id or each.member_id for each in group.members if not each.instance_id]
    if not expected:
        return Condition(
            "No member has an instance id.",
            Progress.WRONG if there else Progress.DONE,
            first_names(sorted(there)) or "none",
        )
    missing = [each for each in expected if each not in there]
    found = [
        *([f"missing: {first_names(missing)}"] if missing else []),
        *([f"without one: {first_names(dynamic)}"] if dynamic else []),
    ]
    return Condition(
        "Every member has an instance id, as planned.",
        Progress.WRONG if found else Progress.DONE,
        "; ".join(found) or first_names(sorted(there)),
    )
