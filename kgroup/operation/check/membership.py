"""What is wrong with who is in a group, and with what each member has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kgroup.model.client.library import Certainty
from kgroup.model.group import GroupState, GroupType, Member
from kgroup.model.log_range import OffsetMark
from kgroup.operation.check.look import Evidence, finding_of
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.operation.description import GroupDescription
from kgroup.operation.report import first_names

__all__ = ["check_membership", "subscribed"]

_OF_PARTITIONS = (GroupType.CLASSIC, GroupType.CONSUMER)
_REBALANCING = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)
_EAGER = ("range", "roundrobin", "sticky")
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
_LEFT_FOR_NOW = -2
"""Epoch of a static member that may come back (KIP-848)."""


def check_membership(group: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    """Judge one group; what it has committed is judged elsewhere."""
    yield from _nobody_reads(group)
    yield from _rebalance(group, evidence)
    yield from _missing_static_members(group, evidence)
    yield from _missing_topics(group, evidence)
    if group.type in _OF_PARTITIONS and group.state is GroupState.STABLE:
        yield from _no_owner(group)
        yield from _shares(group, evidence)
        yield from _protocols(group)
        yield from _clients(group)
        yield from _session_timeouts(group)


def _nobody_reads(group: GroupDescription) -> Iterator[Finding]:
    waiting = group.waiting
    if group.state is GroupState.EMPTY and waiting:
        last = max((o.commit_timestamp_ms or 0 for o in group.offsets), default=0) or None
        yield finding_of(
            Rule.NOBODY_READS,
            f"Up to {waiting} record{'' if waiting == 1 else 's'} wait, and the group has no "
            "members.",
            group.group_id,
            since_ms=last,
        )


def _no_owner(group: GroupDescription) -> Iterator[Finding]:
    for offset in group.offsets:
        if offset.mark is OffsetMark.NO_OWNER and offset.topic in subscribed(group):
            yield finding_of(
                Rule.NO_OWNER,
                f"Nobody owns {offset.topic}-{offset.partition}, to which members subscribe.",
                group.group_id,
                topic=offset.topic,
                partition=offset.partition,
                offset=offset.committed_offset,
                log_start_offset=offset.log_start_offset,
                log_end_offset=offset.log_end_offset,
            )


def subscribed(group: GroupDescription) -> frozenset[str]:
    """Give the topics to which members subscribe by name."""
    return frozenset(topic for member in group.members for topic in member.subscribed_topics)


def _missing_topics(group: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    known = evidence.cluster.topics if evidence.cluster else {}
    for topic in sorted(subscribed(group)):
        if topic in known and known[topic].error == _UNKNOWN_TOPIC:
            yield finding_of(
                Rule.NO_TOPIC,
                f"Members subscribe to {topic}, which does not exist.",
                group.group_id,
                topic=topic,
            )


def _shares(group: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    """Compare how many partitions members have, among those that subscribe alike."""
    alike: dict[frozenset[str], list[Member]] = defaultdict(list)
    for member in group.members:
        subscription = member.subscription
        if subscription is not None and member.assignment is not None:
            regex = () if subscription.regex is None else (subscription.regex,)
            alike[frozenset(subscription.topics or regex)].append(member)
    for topics, members in alike.items():
        counts = {member.member_id: len(member.assignment or ()) for member in members}
        total, idle = sum(counts.values()), [name for name, count in counts.items() if not count]
        if not topics or not total:
            continue
        if total < len(members):
            yield finding_of(
                Rule.TOO_MANY_MEMBERS,
                f"{len(members)} members share {total} partition{'' if total == 1 else 's'}: "
                f"{len(idle)} have none ({first_names(idle)}).",
                group.group_id,
            )
            continue
        for name in idle:
            yield finding_of(
                Rule.IDLE_MEMBER,
                f"{name} has no partitions, of {total} for {len(members)} members.",
                group.group_id,
                member_id=name,
            )
        least, most = min(counts.values()), max(counts.values())
        if least and most > least * evidence.limits.uneven and most - least > 1:
            heavy = next(name for name, count in counts.items() if count == most)
            light = next(name for name, count in counts.items() if count == least)
            yield finding_of(
                Rule.UNEVEN_LOAD,
                f"{heavy} has {most} partitions, and {light} has {least}; both subscribe to "
                f"{first_names(sorted(topics))}.",
                group.group_id,
                member_id=heavy,
            )


def _protocols(group: GroupDescription) -> Iterator[Finding]:
    old = [member for member in group.members if member.uses_classic_protocol]
    if old and len(old) < len(group.members):
        yield finding_of(
            Rule.MIXED_PROTOCOLS,
            f"{len(old)} of {len(group.members)} members speak the classic protocol: "
            f"{first_names([member.member_id for member in old])}.",
            group.group_id,
        )
    asked = Counter(member.assignor for member in group.members if member.assignor)
    if len(asked) > 1:
        named = ", ".join(f"{count} for {name}" for name, count in sorted(asked.items()))
        yield finding_of(
            Rule.MIXED_ASSIGNORS,
            f"Members ask for different assignors, {named}; it is {group.assignor}.",
            group.group_id,
            basis=Basis.LOG,
        )
    if group.type is GroupType.CLASSIC and group.assignor in _EAGER and len(group.members) > 1:
        yield finding_of(
            Rule.EAGER_STRATEGY,
            f"The strategy is {group.assignor}: in a rebalance all {len(group.members)} members "
            "stop.",
            group.group_id,
        )


def _clients(group: GroupDescription) -> Iterator[Finding]:
    """Compare the libraries of classic members, and what tells versions of one library apart."""
    libraries = Counter(each.client_library for each in group.members if each.client_library)
    if len(libraries) > 1:
        named = ", ".join(f"{count} of {name}" for name, count in sorted(libraries.items()))
        certain = {each.client_library_certainty for each in group.members} - {None}
        inferred = ", as far as client ids tell" if Certainty.INFERRED in certain else ""
        yield finding_of(Rule.MIXED_CLIENTS, f"Members are {named}{inferred}.", group.group_id)
    elif libraries.total() == len(group.members):
        # every library writes what is owned from some version on (version 1 of the message)
        subscriptions = {each.member_id: each.subscription for each in group.members}
        old = [name for name, said in subscriptions.items() if said and said.owned is None]
        if old and len(old) < len(group.members):
            yield finding_of(
                Rule.MIXED_CLIENTS,
                f"{len(old)} of {len(group.members)} members of {next(iter(libraries))} are of an "
                f"older version, which does not say what it owns: {first_names(old)}.",
                group.group_id,
                severity=Severity.INFO,
            )


def _session_timeouts(group: GroupDescription) -> Iterator[Finding]:
    for member in group.members:
        session, poll = member.session_timeout_ms, member.rebalance_timeout_ms
        if session is not None and poll is not None and session > poll:
            yield finding_of(
                Rule.SESSION_TIMEOUT,
                f"{member.member_id} has a session timeout of {session} ms, longer than its poll "
                f"interval of {poll} ms.",
                group.group_id,
                basis=Basis.LOG,
                member_id=member.member_id,
            )


def _rebalance(group: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    now, before = evidence.now, evidence.before
    earlier = before and before.groups.get(group.group_id)
    if not earlier or not before:
        return
    was, now_is = _epoch(earlier), _epoch(group)
    seconds = (now.time_ms - before.time_ms) / 1000
    if was is not None and now_is is not None and now_is - was > 1:
        yield finding_of(
            Rule.LONG_REBALANCE,
            f"{now_is - was} rebalances came within {seconds:.0f} s.",
            group.group_id,
            basis=Basis.LOOKS,
        )
    elif (
        group.state in _REBALANCING
        and earlier.state in _REBALANCING
        and was == now_is
        and now.time_ms - before.time_ms >= evidence.limits.rebalance_ms
    ):
        yield finding_of(
            Rule.LONG_REBALANCE,
            f"The group was {earlier.state}, and {seconds:.0f} s later it is {group.state}, "
            "with no generation between.",
            group.group_id,
            basis=Basis.LOOKS,
            since_ms=before.time_ms,
        )


def _epoch(group: GroupDescription) -> int | None:
    return group.generation_id if group.group_epoch is None else group.group_epoch


def _missing_static_members(group: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    there = {member.instance_id for member in group.members}
    for member in group.members:
        if member.instance_id is not None and member.member_epoch == _LEFT_FOR_NOW:
            yield finding_of(
                Rule.MISSING_STATIC_MEMBER,
                f"{member.instance_id} has left, and may come back until its session expires.",
                group.group_id,
                member_id=member.member_id,
            )
    earlier = evidence.before and evidence.before.groups.get(group.group_id)
    for member in earlier.members if earlier else ():
        if member.instance_id is not None and member.instance_id not in there:
            yield finding_of(
                Rule.MISSING_STATIC_MEMBER,
                f"{member.instance_id} was a member in the first look, and is none any more.",
                group.group_id,
                basis=Basis.LOOKS,
                member_id=member.member_id,
            )
