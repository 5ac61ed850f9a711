"""Rules for group membership and assignments."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kgroup.assignor.client_facts import FACTS, ON_ERROR
from kgroup.model.client_library import Certainty
from kgroup.model.clients import Clients, host_of
from kgroup.model.group import EAGER_STRATEGIES, Group, GroupState, GroupType, Member
from kgroup.model.instant import shown_time
from kgroup.model.log_range import GONE, OffsetMark
from kgroup.operation.check.group_record import check_group_record
from kgroup.operation.check.look import Evidence, Look, about_offset, ago, finding_of, length
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.operation.check.shared_group import Reader, applications
from kgroup.operation.describe import GroupDescription, OffsetDescription
from kgroup.operation.report import first_names

_OF_PARTITIONS = (GroupType.CLASSIC, GroupType.CONSUMER)
_REBALANCING = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)
_STREAMS = "stream"
"""The assignor of Kafka Streams in the classic protocol (`StreamsPartitionAssignor.name`)."""
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
_LEFT_FOR_NOW = -2
"""Epoch of a static member that left and may come back (KIP-848)."""


def check_membership(description: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about a group, except those about its committed offsets."""
    group = description.group
    clients = Clients(group)
    yield from (*_reader(description, evidence),) or _nobody_reads(description)
    yield from _rebalance(group, clients, evidence)
    yield from _shared_instance_ids(group, evidence)
    yield from _missing_static_members(group, evidence)
    yield from _delayed_tasks(group, evidence)
    yield from _gone_partitions(description, clients)
    yield from _missing_topics(group, evidence)
    yield from check_group_record(group, evidence)
    if group.type in _OF_PARTITIONS and group.state is GroupState.STABLE:
        yield from _no_owner(description)
        yield from _shares(group, clients, evidence)
        yield from _applications(group)
        yield from _protocols(group, clients)
        yield from _clients(group, clients)
        yield from _session_timeouts(group, clients)


def _reader(description: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about commits of a consumer that uses assign() and is not a member.

    With two looks, its commits have moved forward in between. With one look, they are recent: made
    after the last member left, for coordinators accept no such commit before, or, if that time is
    unknown, at most one minute old.
    """
    group = description.group
    if group.state is not GroupState.EMPTY:
        return
    earlier = evidence.before and evidence.before.groups.get(group.group_id)
    before = {(row.topic, row.partition): row for row in earlier.offsets} if earlier else {}
    for offset in description.offsets:
        committed = offset.committed_offset
        was = before.get((offset.topic, offset.partition))
        if committed is None or was is None or was.committed_offset is None:
            continue
        if committed > was.committed_offset and earlier and earlier.group.state is GroupState.EMPTY:
            yield about_offset(
                Rule.READER_WITHOUT_MEMBERSHIP,
                f"{offset.topic}-{offset.partition}: the committed offset advanced from "
                f"{was.committed_offset} to {committed}, although the group had no members.",
                group,
                offset,
                Basis.LOOKS,
            )
            return
    if not evidence.now.is_clock:
        return
    newest = max(description.offsets, key=lambda row: row.commit_timestamp_ms or 0, default=None)
    if newest is None or newest.commit_timestamp_ms is None:
        return
    then_ms, now_ms = newest.commit_timestamp_ms, evidence.now.time_ms
    most_ms = evidence.limits.stuck_ms
    since_ms = group.state_timestamp_ms
    if since_ms is not None:
        if then_ms <= since_ms:
            return
        most_ms = evidence.limits.old_commit_ms
    if now_ms - then_ms <= most_ms:
        finding = about_offset(
            Rule.READER_WITHOUT_MEMBERSHIP,
            f"{newest.topic}-{newest.partition}: offset {newest.committed_offset} was committed "
            f"{ago(then_ms, now_ms)}, although the group has no members: by an application "
            "that uses assign(), or by an offset reset; a second look shows which.",
            group,
            newest,
            Basis.LOG,
        )
        # If it was a reset, nobody reads the records that are waiting.
        yield replace(finding, severity=Severity.WARNING) if description.waiting else finding


def _nobody_reads(description: GroupDescription) -> Iterator[Finding]:
    waiting = description.waiting
    if description.group.state is GroupState.EMPTY and waiting:
        last = max((o.commit_timestamp_ms or 0 for o in description.offsets), default=0) or None
        yield finding_of(
            Rule.NOBODY_READS,
            f"Up to {waiting} record{'' if waiting == 1 else 's'} waiting, and no active member.",
            description.group.group_id,
            since_ms=last,
        )


def _no_owner(description: GroupDescription) -> Iterator[Finding]:
    topics = subscribed(description.group)
    for offset in description.offsets:
        if offset.mark is OffsetMark.NO_OWNER and offset.topic in topics:
            yield finding_of(
                Rule.NO_OWNER,
                f"No member owns {offset.topic}-{offset.partition}, although members subscribe "
                "to the topic.",
                description.group.group_id,
                topic=offset.topic,
                partition=offset.partition,
                offset=offset.committed_offset,
                log_start_offset=offset.log_start_offset,
                log_end_offset=offset.log_end_offset,
            )


def subscribed(group: Group) -> frozenset[str]:
    """Return the topics that members subscribe to by name."""
    return frozenset(topic for member in group.members for topic in member.subscribed_topics)


def _missing_topics(group: Group, evidence: Evidence) -> Iterator[Finding]:
    known = evidence.cluster.topics if evidence.cluster else {}
    for topic in sorted(subscribed(group)):
        if topic in known and known[topic].error == _UNKNOWN_TOPIC:
            yield finding_of(
                Rule.NO_TOPIC,
                f"Members subscribe to {topic}, which does not exist.",
                group.group_id,
                topic=topic,
            )


def _gone_partitions(description: GroupDescription, clients: Clients) -> Iterator[Finding]:
    """Yield findings about members that own partitions which do not exist."""
    gone: dict[tuple[str, str], list[OffsetDescription]] = defaultdict(list)
    for offset in description.offsets:
        if offset.member_id is not None and offset.topic is not None and offset.mark in GONE:
            gone[offset.member_id, offset.topic].append(offset)
    for (member_id, topic), offsets in gone.items():
        names = first_names([f"{topic}-{offset.partition}" for offset in offsets])
        has = f"{topic} does not exist"
        if offsets[0].mark is OffsetMark.PARTITION_GONE:
            has = f"{topic} has no such partition{'' if len(offsets) == 1 else 's'}"
        yield finding_of(
            Rule.PARTITION_GONE,
            f"{clients.label(member_id)} owns {names}; {has}.",
            description.group.group_id,
            topic=topic,
            partition=offsets[0].partition if len(offsets) == 1 else None,
            member_id=member_id,
        )


def _shares(group: Group, clients: Clients, evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about uneven assignments among members with the same subscription."""
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
        if group.assignor == _STREAMS:
            yield from _streams_shares(group, clients, members)
            continue
        if total < len(members):
            names = [*map(clients.label, idle)]
            yield _too_many_members(group, len(members), ("member", "partition"), total, names)
            continue
        if idle:
            yield _about_members(
                Rule.IDLE_MEMBER,
                f"{_counted(idle, clients, 'no partitions')}; {len(members)} members share "
                f"{total}.",
                group,
                idle,
            )
        least, most = min(counts.values()), max(counts.values())
        if least and most > least * evidence.limits.uneven and most - least > 1:
            heavy = next(name for name, count in counts.items() if count == most)
            light = next(name for name, count in counts.items() if count == least)
            yield finding_of(
                Rule.UNEVEN_LOAD,
                f"{clients.label(heavy)} has {most} partitions, but {clients.label(light)} has "
                f"{least}; both subscribe to {first_names(sorted(topics))}.",
                group.group_id,
                member_id=heavy,
            )


def _about_members(
    code: Rule, reason: str, group: Group, member_ids: Sequence[str], basis: Basis = Basis.LOOK
) -> Finding:
    return finding_of(
        code,
        reason,
        group.group_id,
        basis=basis,
        member_id=member_ids[0] if len(member_ids) == 1 else None,
        member_ids=tuple(member_ids),
    )


def _counted(member_ids: Sequence[str], clients: Clients, what: str) -> str:
    """Return who has something: "web-1 at 10.0.0.4 has ...", or "5 members (...) have ..."."""
    names = _labels(member_ids, clients)
    count = len(member_ids)
    return f"{names} has {what}" if count == 1 else f"{count} members ({names}) have {what}"


def _too_many_members(
    group: Group, count: int, nouns: tuple[str, str], total: int, idle: Sequence[str]
) -> Finding:
    """Return a finding that members or threads outnumber the partitions or tasks."""
    who, what = nouns
    return finding_of(
        Rule.TOO_MANY_MEMBERS,
        f"{count} {who}s share {total} {what}{'' if total == 1 else 's'}: {len(idle)} idle "
        f"({first_names(idle)}).",
        group.group_id,
    )


def _streams_shares(group: Group, clients: Clients, members: Sequence[Member]) -> Iterator[Finding]:
    """Yield findings about Kafka Streams threads without tasks; standby and warm-up tasks count.

    Standby tasks become active in the probing rebalance that the assignor schedules. Therefore,
    unevenly distributed active tasks are not a finding.
    """
    tasks = {member.member_id: _streams_tasks(member) for member in members}
    known = {name: counts for name, counts in tasks.items() if counts is not None}
    idle = [name for name, (active, standby) in known.items() if not active and not standby]
    if len(known) < len(members) or not idle:
        return
    total = sum(active for active, _ in known.values())
    if total < len(members):
        names = [*map(clients.label, idle)]
        yield _too_many_members(group, len(members), ("thread", "active task"), total, names)
        return
    if idle:
        yield replace(
            _about_members(
                Rule.IDLE_MEMBER,
                f"{_counted(idle, clients, 'no active or standby task')}; {len(members)} threads "
                f"share {total} active tasks.",
                group,
                idle,
            ),
            advice="Look in that instance's log: a thread that has just joined gets tasks in the "
            "next rebalance.",
        )


def _streams_tasks(member: Member) -> tuple[int, int] | None:
    """Return the number of active and standby tasks of a thread, from its assignment."""
    data = member.assignment_user_data
    if not isinstance(data, Mapping) or "activeTasks" not in data:
        return None
    return len(data["activeTasks"]), len(data.get("standbyTasks") or ())


def _applications(group: Group) -> Iterator[Finding]:
    if group.assignor == _STREAMS:
        return
    parts = applications(
        Reader(
            member.client_id,
            host_of(member),
            frozenset(member.subscription.topics or ())
            if member.subscription is not None and member.subscription.regex is None
            else None,
        )
        for member in group.members
    )
    if parts:
        yield finding_of(
            Rule.SHARED_GROUP_ID,
            f"Members subscribe to disjoint topics and run apart: {'; '.join(parts)}.",
            group.group_id,
        )


def _protocols(group: Group, clients: Clients) -> Iterator[Finding]:
    old = [member for member in group.members if member.uses_classic_protocol]
    if old and len(old) < len(group.members):
        yield finding_of(
            Rule.MIXED_PROTOCOLS,
            f"{len(old)} of {len(group.members)} members use the classic protocol: "
            f"{first_names([clients.label(member.member_id) for member in old])}.",
            group.group_id,
        )
    static = [member for member in group.members if member.instance_id is not None]
    leaving = [member for member in static if _leaves_if_static(member)]
    if leaving:
        libraries = sorted({member.client_library or "" for member in leaving})
        alike = [
            member.member_id
            for member in static
            if member.client_library is None
            and not {*libraries}.isdisjoint(member.client_library_candidates or ())
        ]
        may_be = f" Maybe also: {_labels(alike, clients)}." if alike else ""
        yield finding_of(
            Rule.LEAVING_STATIC_MEMBERS,
            f"Members of {first_names(libraries)} leave when they close, also if they are static; "
            "partitions move when these restart: "
            f"{_labels([member.member_id for member in leaving], clients)}.{may_be}",
            group.group_id,
        )
    dynamic = [member.member_id for member in group.members if member.instance_id is None]
    if 0 < len(dynamic) < len(group.members) and any(map(_could_be_static, group.members)):
        yield finding_of(
            Rule.MIXED_MEMBERSHIP,
            f"{len(group.members) - len(dynamic)} of {len(group.members)} members are static; "
            f"partitions move when these restart: {_labels(dynamic, clients)}.",
            group.group_id,
        )
    asked = Counter(member.assignor for member in group.members if member.assignor)
    if len(asked) > 1:
        named = ", ".join(f"{count} for {name}" for name, count in sorted(asked.items()))
        yield finding_of(
            Rule.MIXED_ASSIGNORS,
            f"Members request different assignors, {named}; the coordinator uses {group.assignor}.",
            group.group_id,
            basis=Basis.LOG,
        )
    if (
        group.type is GroupType.CLASSIC
        and group.assignor in EAGER_STRATEGIES
        and len(group.members) > 1
    ):
        yield finding_of(
            Rule.EAGER_STRATEGY,
            f"The assignor {group.assignor} is eager: "
            f"{'both' if len(group.members) == 2 else f'all {len(group.members)}'} members stop "
            "reading in each rebalance.",
            group.group_id,
        )


def _clients(group: Group, clients: Clients) -> Iterator[Finding]:
    """Yield findings about different client libraries or versions among classic members."""
    libraries = Counter(member.client_library for member in group.members if member.client_library)
    if len(libraries) > 1:
        named = ", ".join(f"{count} with {name}" for name, count in sorted(libraries.items()))
        certain = {member.client_library_certainty for member in group.members} - {None}
        inferred = ", inferred from client ids" if Certainty.INFERRED in certain else ""
        yield finding_of(
            Rule.MIXED_CLIENTS,
            f"Members use different client libraries: {named}{inferred}.",
            group.group_id,
        )
    elif libraries.total() == len(group.members):
        # Since some version, every library sends owned partitions (version 1 of the message).
        subscriptions = {member.member_id: member.subscription for member in group.members}
        old = [
            name
            for name, subscription in subscriptions.items()
            if subscription and subscription.owned is None
        ]
        if old and len(old) < len(group.members):
            yield finding_of(
                Rule.MIXED_CLIENTS,
                f"{len(old)} of {len(group.members)} members with {next(iter(libraries))} have "
                f"an older version, which does not send owned partitions: "
                f"{first_names(old, clients.label)}.",
                group.group_id,
                severity=Severity.INFO,
            )


def _session_timeouts(group: Group, clients: Clients) -> Iterator[Finding]:
    by_timeouts: dict[tuple[int, int], list[str]] = defaultdict(list)
    for member in group.members:
        session, poll = member.session_timeout_ms, member.rebalance_timeout_ms
        if session is not None and poll is not None and session > poll:
            by_timeouts[session, poll].append(member.member_id)
    for (session, poll), names in by_timeouts.items():
        what = f"a session timeout of {session} ms, longer than the poll interval of {poll} ms"
        reason = f"{_counted(names, clients, what)}."
        yield _about_members(Rule.SESSION_TIMEOUT, reason, group, names, Basis.LOG)


def _rebalance(group: Group, clients: Clients, evidence: Evidence) -> Iterator[Finding]:
    now, before = evidence.now, evidence.before
    awaited = _awaited(group, clients) if group.state in _REBALANCING else None
    description = before and before.groups.get(group.group_id)
    in_progress = finding_of(
        Rule.LONG_REBALANCE,
        f"A rebalance is in progress. {awaited} A look "
        f"{length(evidence.limits.rebalance_ms)} later shows whether it ends.",
        group.group_id,
        severity=Severity.INFO,
    )
    if not description or not before:
        if awaited is not None:
            yield in_progress
        return
    earlier = description.group
    was, now_is = _epoch(earlier), _epoch(group)
    seconds = (now.time_ms - before.time_ms) / 1000
    if was is not None and now_is is not None and now_is - was > 1:
        yield finding_of(
            Rule.LONG_REBALANCE,
            f"{now_is - was} rebalances within {seconds:.0f} s.",
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
            f"The group was {earlier.state}, and {seconds:.0f} s later it is {group.state}; no "
            f"rebalance was completed in between.{'' if awaited is None else f' {awaited}'}",
            group.group_id,
            basis=Basis.LOOKS,
            since_ms=before.time_ms,
        )
    elif awaited is not None:
        yield in_progress


def _awaited(group: Group, clients: Clients) -> str | None:
    """Return which members a rebalance waits for, as a sentence; None if that is unknown.

    The coordinator of a classic group does not tell who has rejoined: only members of the previous
    generation have to.
    """
    if group.group_epoch is not None:
        late = [
            member.member_id
            for member in group.members
            if member.member_epoch is not None and member.member_epoch < group.group_epoch
        ]
        return f"Not yet in epoch {group.group_epoch}: {_labels(late, clients)}." if late else None
    if group.state is not GroupState.PREPARING_REBALANCE or group.last_stable is None:
        return None
    here = {member.member_id for member in group.members}
    members = [member for member in group.last_stable.members if member.member_id in here]
    if not members:
        return None
    names = _labels([member.member_id for member in members], clients)
    longest_ms = max(member.rebalance_timeout_ms or 0 for member in members)
    limit = f", for at most {length(longest_ms)} (rebalance timeout)" if longest_ms else ""
    if len(members) == 1:
        return f"The coordinator waits for {names} to rejoin{limit}."
    return f"The coordinator waits for some of these members to rejoin{limit}: {names}."


def _labels(member_ids: Sequence[str], clients: Clients) -> str:
    return first_names([clients.label(member_id) for member_id in member_ids])


def _epoch(group: Group) -> int | None:
    return group.generation_id if group.group_epoch is None else group.group_epoch


def replaced_members(before: Look, after: Look) -> Mapping[tuple[str, str], tuple[str, str]]:
    """Return the static members that were replaced without a rebalance.

    Returns:
        Member ids before and after, by group id and `group.instance.id`.
    """
    return {
        (group_id, instance_id): (old, new)
        for group_id, now in after.groups.items()
        if (earlier := before.groups.get(group_id)) is not None
        and _epoch(earlier.group) == _epoch(now.group)
        for instance_id, new in _static(now.group).items()
        if (old := _static(earlier.group).get(instance_id)) is not None and old != new
    }


def _could_be_static(member: Member) -> bool:
    """Return whether a member is dynamic, though its library may have static members."""
    library = ON_ERROR.get(member.client_library or "")
    can_be = (library is None or library.fenced is not None) and not _leaves_if_static(member)
    return member.instance_id is None and can_be


def _leaves_if_static(member: Member) -> bool:
    """Return whether a member is known to leave when it closes, even if it is static."""
    facts = FACTS.get(member.client_library or "")
    return facts is not None and facts.static_leaves


def _static(group: Group) -> dict[str, str]:
    return {member.instance_id: member.member_id for member in group.members if member.instance_id}


def fenced_process(group: Group, instance_id: str) -> str:
    """Return what a replaced process does in the static member's library, as a sentence.

    "" if the library is unknown.
    """
    for member in group.members:
        name = member.client_library
        if name is None or name not in ON_ERROR or member.instance_id != instance_id:
            continue
        if fenced := ON_ERROR[name].fenced:
            is_certain = member.client_library_certainty is Certainty.CERTAIN
            return (
                f" The replaced process, in {name}{'' if is_certain else ' (inferred)'}: {fenced}."
            )
    return ""


def _shared_instance_ids(group: Group, evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about static members replaced in both intervals, in one generation."""
    before, between, now = evidence.before, evidence.between, evidence.now
    if before is None or between is None:
        return
    first, second = replaced_members(before, between), replaced_members(between, now)
    for (group_id, instance_id), (_, new) in second.items():
        if group_id != group.group_id or (group_id, instance_id) not in first:
            continue
        old, middle = first[group_id, instance_id]
        ids = ", then ".join((old, middle, new))
        member = next(member for member in group.members if member.member_id == new)
        seconds = (now.time_ms - before.time_ms) / 1000
        epoch = _epoch(group)
        within = "" if epoch is None else f" in generation {epoch}"
        yield finding_of(
            Rule.SHARED_INSTANCE_ID,
            f"{instance_id} had the member ids {ids} within {seconds:.0f} s{within}; the "
            f"last member runs on {host_of(member) or 'an unknown host'}."
            f"{fenced_process(group, instance_id)}",
            group.group_id,
            basis=Basis.LOOKS,
            member_id=new,
        )


def _missing_static_members(group: Group, evidence: Evidence) -> Iterator[Finding]:
    present = {member.instance_id for member in group.members}
    for member in group.members:
        if member.instance_id is not None and member.member_epoch == _LEFT_FOR_NOW:
            yield finding_of(
                Rule.MISSING_STATIC_MEMBER,
                f"{member.instance_id} has left, and may return until its session expires.",
                group.group_id,
                member_id=member.member_id,
            )
    earlier = evidence.before and evidence.before.groups.get(group.group_id)
    for member in earlier.group.members if earlier else ():
        if member.instance_id is not None and member.instance_id not in present:
            yield finding_of(
                Rule.MISSING_STATIC_MEMBER,
                f"{member.instance_id} was a member in the first look, but no longer is.",
                group.group_id,
                basis=Basis.LOOKS,
                member_id=member.member_id,
            )


def _delayed_tasks(group: Group, evidence: Evidence) -> Iterator[Finding]:
    delay_ms, since_ms = group.connect_delay_ms, group.state_timestamp_ms
    if delay_ms is None:
        return
    when = f"until {length(delay_ms)} after the last rebalance"
    if since_ms is not None:
        left_ms = since_ms + delay_ms - evidence.now.time_ms
        left = f" ({length(left_ms)} left)" if left_ms > 0 else ""
        when = f"until {shown_time(since_ms + delay_ms)}{left}"
    yield finding_of(
        Rule.DELAYED_TASKS,
        f"The leader delays a part of the assignment {when}: what lost workers ran, or what it "
        f"moves to even out the load; the group has {len(group.members)} "
        f"worker{'' if len(group.members) == 1 else 's'}.",
        group.group_id,
        since_ms=since_ms,
        timeout_ms=delay_ms,
    )
