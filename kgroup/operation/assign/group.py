"""Prepare a group from a source for a dry run of its next assignment."""

from __future__ import annotations

import time
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.client.java import versions_before_3_4
from kgroup.assignor.client.kafka_go import rack_in_user_data
from kgroup.assignor.client.lesser_known import LESSER_KNOWN
from kgroup.assignor.client.sarama import told_nothing
from kgroup.assignor.client_facts import FACTS
from kgroup.assignor.group_spec import ASSIGNS_LIKE, CLIENTS, GroupSpec
from kgroup.assignor.kafka_streams import CLASSIC_STREAMS, STREAM
from kgroup.assignor.member_spec import NEWEST_VERSION, MemberSpec, Software
from kgroup.assignor.server.server import PREFERENCE
from kgroup.assignor.strategy import assignor_of, strategies
from kgroup.errors import (
    InputError,
    NotFoundError,
    UnfitError,
    UnknownStrategyError,
    UsageError,
    named_group,
)
from kgroup.model.client_library import (
    AIOKAFKA,
    FRANZ_GO,
    KAFKA_CLIENTS,
    KAFKA_PYTHON,
    SARAMA,
    Certainty,
)
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.log_range import LogRange
from kgroup.model.pattern import parse_regex
from kgroup.model.problem import Problem
from kgroup.operation.assign.classic_streams_group import classic_streams_spec
from kgroup.operation.assign.client import asked_software, fitting
from kgroup.operation.assign.connect import CONNECT, connect_spec
from kgroup.operation.assign.spec import MOST_PARTITIONS, with_topic_ids
from kgroup.operation.assign.streams import STREAMS, streams_spec
from kgroup.operation.assign.vote import with_keeping
from kgroup.operation.assign.zookeeper import (
    check_registrations,
    departed_consumers,
    registered_consumer,
    with_fitting_strategy,
)
from kgroup.operation.printed_command import Reach, kgroup_command, reaching
from kgroup.operation.report import Report, first_names
from kgroup.operation.select_groups import select_groups
from kgroup.operation.zookeeper.commit import with_kafka_commits
from kgroup.simulation.consumer.group import TimelineTable
from kgroup.source.base import GroupSource, Question, Reading


class Advice(NamedTuple):
    """Advice for messages about unknown values: options of the command."""

    partitions: str = "; --partitions TOPIC=N says otherwise"
    strategy: str = ". Choose one with --strategy"
    members: str = "; --spec takes members from a file"
    subscriptions: str = "; --spec takes it from a file"
    joining: str = "; --add-member topics=TOPIC with --strategy computes what new members get"


_ADVICE = Advice()
NO_ADVICE = Advice("", "", "", "", "")

_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def read_group(
    source: GroupSource,
    group_id: str,
    *,
    strategy: str | None = None,
    kafka_version: str | None = None,
    client: Software | None = None,
    topics: Collection[str] = (),
    generations: bool = False,
    may_be_empty: bool = False,
) -> Report[GroupSpec]:
    """Read a group, and the subscriptions that its members would send in the next rebalance.

    Args:
        source: source of groups.
        group_id: group id.
        strategy: name of an assignor; None: the group's own; for ZooKeeper consumers, the one that
            matches the current owners, or else range.
        kafka_version: Kafka version of the assignor; None: the newest for this type of group.
        client: client library of the leader of a classic group; None: as identified from the
            members.
        topics: additional topics that members will subscribe to.
        generations: see `Question`.
        may_be_empty: whether a group without members is enough, as new ones will join.

    Returns:
        The group; errors are what could not be read and may matter, notes are assumptions.

    Raises:
        NotFoundError: the group does not exist.
        InputError: the subscriptions of the members, or the strategy of the group, are unknown.
        UsageError: the requested strategy does not exist for this type of group, or the requested
            software does not have the group's strategy.
    """
    reading, group = find_group(source, group_id, generations=generations)
    protocol = _task_protocol(group)
    if protocol is not None:
        asked = _asked(protocol, kafka_version, client)
        return _read_tasks(source, reading, group, protocol, strategy, asked)
    return group_spec(
        source,
        reading,
        group,
        strategy=strategy,
        kafka_version=kafka_version,
        client=client,
        topics=topics,
        may_be_empty=may_be_empty,
    )


def _task_protocol(group: Group) -> str | None:
    """Return the protocol by which members get tasks; None if they get partitions."""
    if group.type is GroupType.STREAMS:
        return STREAMS
    if group.type is GroupType.CLASSIC and group.assignor == STREAM:
        return CLASSIC_STREAMS
    return CONNECT if group.protocol_type == CONNECT else None


def _asked(protocol: str, kafka_version: str | None, client: Software | None) -> Software | None:
    try:
        return asked_software(protocol, kafka_version, client)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _read_tasks(
    source: GroupSource,
    reading: Reading,
    group: Group,
    protocol: str,
    strategy: str | None,
    asked: Software | None,
) -> Report[GroupSpec]:
    """Read a group of Kafka Connect or Kafka Streams, whose members get tasks."""
    notes = list(reading.notes)
    if protocol == STREAMS:
        spec = streams_spec(source, group, _walked(group.members, STREAMS), strategy, asked)
    elif protocol == CLASSIC_STREAMS:
        group = before_rebalance(group, notes)
        spec = classic_streams_spec(source, group, strategy, asked, notes)
    else:
        group = before_rebalance(group, notes)
        now_ms = group.state_timestamp_ms if source.is_log else source.data_time_ms
        spec = connect_spec(
            group, strategy, asked, time.time_ns() // 1_000_000 if now_ms is None else now_ms
        )
    return Report((_with_strategy(spec, strategy, notes, _ADVICE),), reading.problems, tuple(notes))


def find_group(
    source: GroupSource, group_id: str, *, generations: bool = False
) -> tuple[Reading, Group]:
    """Read a group; see `Question` for `generations`.

    Returns:
        The reading and the group.

    Raises:
        NotFoundError: the group does not exist.
        InputError: the group cannot be read.
    """
    question = Question(commit_times=False, preferences=True, generations=generations)
    reading, missing = select_groups(source, [group_id], question)
    group = reading.image.groups.get(group_id)
    if group is not None:
        return reading, group
    if missing:
        text = f"group {group_id!r}: {missing[0].kind}: {missing[0].reason}"
        raise NotFoundError(text, group_id=group_id)
    raise InputError.of_group(group_id, reading.problems[0].reason)


def group_spec(
    source: GroupSource,
    reading: Reading,
    group: Group,
    *,
    strategy: str | None = None,
    kafka_version: str | None = None,
    client: Software | None = None,
    topics: Collection[str] = (),
    advice: Advice = _ADVICE,
    may_be_empty: bool = False,
) -> Report[GroupSpec]:
    """Return the spec of a group that was read before; otherwise like `read_group`.

    `advice` has the options to mention in messages, if the command is not `kgroup assign`.
    """
    group_id = group.group_id
    notes = list(reading.notes)
    group = before_rebalance(group, notes)
    protocol = protocol_of(group)
    can_begin = protocol != "zookeeper"
    if not group.members and not (may_be_empty and can_begin):
        raise UnfitError.of_group(
            group_id,
            "expected members that subscribe, found none (state "
            f"{_known(group.state)}){advice.joining * can_begin}{advice.members}",
        )
    if protocol == "zookeeper":
        check_registrations(group, reading.problems)
    _check_subscriptions(group, advice)
    asked = _asked(protocol, kafka_version, client)
    resolved = _resolved(group)
    members = tuple(_member(member, group, protocol, resolved) for member in group.members)
    if group.assignor == "sticky":
        members = tuple(_by_memory(group, members))
    past = tuple(each for each in group.past_generations if each.members and each.assignor)
    members = with_keeping(replace(group, past_generations=past), members)
    known, ids = _topics(source, members, topics, notes, advice.partitions)
    for topic_id, name in reading.image.topic_names.items():
        ids.setdefault(name, urlsafe_b64decode(topic_id + "=="))
    is_known = any(member.assignor for member in group.members)
    is_known |= protocol == "consumer" and not group.members
    spec = GroupSpec(
        strategy or group.assignor or "",
        members,
        known,
        protocol,
        asked,
        ids,
        group_id,
        departed_consumers(group),
        group.leader_id,
        group.member_order or _walked(group.members, protocol),
        leader_client=_newest(group.leader_library),
        has_votes=None if strategy else is_known,
        past_generations=past,
    )
    if spec.has_topic_ids:
        spec = with_topic_ids(spec)
        notes += (
            f"the id of topic {name} is unknown; the order may be different"
            for name in sorted(spec.topic_ids.keys() - ids.keys())
        )
    spec = _with_strategy(spec, strategy, notes, advice)
    # The leader has assigned by the group's own strategy, whichever is asked for.
    fitted = fitting(replace(spec, strategy=group.assignor or spec.strategy))
    spec = replace(fitted, strategy=spec.strategy)
    lags, problems = _lags(source, group, notes)
    return Report((replace(spec, lags=lags),), (*reading.problems, *problems), tuple(notes))


def _walked(members: Iterable[Member | MemberSpec], protocol: str) -> tuple[str, ...]:
    """Return members in the coordinator's order, for a group that it has not listed."""
    table = TimelineTable()
    if protocol in ("consumer", "share", STREAMS):
        for member in members:
            table.put(member.member_id)
    return tuple(table)


def as_consumer_group(spec: GroupSpec) -> GroupSpec:
    """Return the consumer group that a classic group becomes when a member joins with KIP-848.

    The others continue with the classic protocol, and prefer no assignor of the coordinator.

    Source: `ConsumerGroup.fromClassicGroup` of Kafka 4.3.1.
    """
    return with_topic_ids(
        replace(
            spec,
            protocol="consumer",
            strategy=PREFERENCE[0],
            members=tuple(map(_of_classic_protocol, spec.members)),
            departed=tuple(map(_of_classic_protocol, spec.departed)),
            client=None,
            leader_id=None,
            leader_client=None,
            member_order=_walked(spec.members, "consumer"),
            has_votes=True,
            past_generations=(),
        )
    )


def _of_classic_protocol(member: MemberSpec) -> MemberSpec:
    """Return a member of a classic group as the coordinator of a consumer group knows it."""
    return MemberSpec(
        member.member_id,
        member.topics,
        instance_id=member.instance_id,
        client_id=member.client_id,
        rack=member.rack,
        owned=member.owned,
        generation=member.generation,
        unknown_id=member.unknown_id,
        host=member.host,
        is_classic=True,
    )


def before_rebalance(group: Group, notes: list[str]) -> Group:
    """Return the group before its current rebalance, if known."""
    before = group.last_stable
    if before is None:
        return group
    notes.append(
        f"{group.group_id} is in a rebalance ({group.state}); the members and the "
        f"assignment before it, of generation {_known(before.generation_id)}, are used"
    )
    return replace(
        group,
        members=before.members,
        assignor=before.assignor,
        generation_id=before.generation_id,
        leader_id=before.leader_id,
    )


def _with_strategy(
    spec: GroupSpec, asked: str | None, notes: list[str], advice: Advice
) -> GroupSpec:
    """Set the strategy: the requested one, the group's own, or the library's default.

    The strategy of ZooKeeper consumers is not stored; the one that matches the current owners is
    chosen.
    """
    client = spec.computed_as
    names = strategies(spec.protocol, client)
    if asked and asked not in names:
        newest = CLIENTS[client.name].newest if spec.protocol == "classic" else client
        has_newest = advice.strategy and asked in strategies(spec.protocol, newest)
        name = "java" if client.name == KAFKA_CLIENTS else client.name
        raise UsageError(
            f"no strategy {asked!r}; known for {spec.protocol} groups of {client}: "
            f"{', '.join(names)}{advice.strategy}"
            + f", or --client {name} for the newest version"
            * bool(has_newest)
        )
    if spec.protocol == "zookeeper":
        spec, note = with_fitting_strategy(spec, asked)
        notes.append(note)
        return spec
    if not spec.strategy and not spec.members:
        return replace(spec, strategy=names[0])  # new members vote
    if not spec.strategy:
        unless = ", unless new members prefer another one" * (spec.protocol == "consumer")
        notes.append(f"the group's assignor is unknown; {names[0]} is assumed{unless}")
        return replace(spec, strategy=names[0])
    group_id, remark = spec.id, advice.strategy
    try:
        assignor_of(spec.protocol, spec.strategy, client, group_id=group_id, remark=remark)
    except UnknownStrategyError as error:
        if spec.client is None:
            raise
        raise UsageError(str(error)) from None  # the user named the software
    return spec


def _lags(
    source: GroupSource, group: Group, notes: list[str]
) -> tuple[Mapping[TopicPartition, int], tuple[Problem, ...]]:
    """Return the lag of partitions as far as known, and problems."""
    committing = with_kafka_commits(source, [group])
    (group,) = committing.groups
    ends = source.log_ranges([(offset.topic, offset.partition) for offset in group.offsets])
    lags, unknown = {}, LogRange()
    for offset in group.offsets:
        log = ends.ranges.get((offset.topic, offset.partition), unknown)
        waiting = log.waiting(offset.committed_offset)
        if waiting is not None:
            lags[offset.topic, offset.partition] = waiting
    notes += committing.notes
    return lags, (*committing.problems, *ends.problems)


def protocol_of(group: Group) -> str:
    """Return the protocol by which members of a group get their partitions.

    Raises:
        InputError: members do not assign partitions, or the assignor is not implemented.
    """
    if group.type is GroupType.CLASSIC and group.protocol_type not in (None, "", "consumer"):
        raise UnfitError.of_group(
            group.group_id,
            f"expected members of protocol type 'consumer', found {group.protocol_type!r} "
            f"(protocol {_known(group.assignor)}); these assign no partitions. Its members sent: "
            f"{_sizes(group.members)}",
        )
    if group.type is GroupType.STREAMS:
        raise UnfitError(
            f"{named_group(group.group_id)} is a streams group; its tasks are not assigned here",
            group_id=group.group_id,
        )
    return str(group.type)


def when_rebalancing(group: Group) -> str:
    """Return what to do about a group whose rebalance is in progress, or follows another one."""
    command = kgroup_command("check", (group.group_id,), reaching(Reach.SOURCE))
    return f"{command} shows what rebalances the group; try again when it is complete"


def _check_subscriptions(group: Group, advice: Advice) -> None:
    """Check that the subscriptions of all members are known.

    Raises:
        InputError: a subscription cannot be decoded; the message has the members and sizes.
    """
    unread = [
        member
        for member in group.members
        if member.subscription is None
        or (member.subscription.topics is None and member.subscription.regex is None)
    ]
    if not unread:
        return
    if group.state in _REBALANCING:
        raise InputError(
            f"{named_group(group.group_id)} is in a rebalance ({group.state}), and this "
            f"source does not know its members before it; {when_rebalancing(group)}",
            group_id=group.group_id,
        )
    raise InputError.of_group(
        group.group_id,
        "expected subscriptions of the consumer protocol, found other bytes, of protocol "
        f"{_known(group.assignor)}, from {len(unread)} of {len(group.members)} members: "
        f"{_sizes(unread)}. kgroup does not guess what they subscribe to{advice.subscriptions}",
    )


def _sizes(members: Sequence[Member]) -> str:
    """Return the names of members, with the size of the bytes that they sent."""
    return first_names(
        members, lambda member: f"{member.member_id} ({_size(member.protocol_metadata)})"
    )


def _size(metadata: object) -> str:
    if metadata is None:
        return "0 bytes"
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if not isinstance(raw, str):
        return "kgroup describe shows it"
    size = len(b64decode(raw))
    return "1 byte" if size == 1 else f"{size} bytes"


def _known(value: object) -> object:
    return "unknown" if value is None else value


def _resolved(group: Group) -> Mapping[str, Sequence[str]]:
    """Return the topics that match each regular expression.

    A cluster does not report the topics to which its coordinator resolved them. Therefore, the
    topics of assigned partitions are matched (as a whole, with RE2, as in KIP-848).
    """
    if group.resolved_regexes is not None:
        return group.resolved_regexes
    regexes = {m.subscription.regex for m in group.members if m.subscription is not None}
    names = {
        partition.topic
        for member in group.members
        for partition in (*(member.target_assignment or ()), *(member.assignment or ()))
        if partition.topic is not None
    }
    resolved: dict[str, Sequence[str]] = {}
    for regex in filter(None, regexes):
        try:
            pattern = parse_regex(regex)
        except ValueError:  # the coordinator rejects such members
            continue
        resolved[regex] = sorted(name for name in names if pattern.fullmatch(name) is not None)
    return resolved


def _member(
    member: Member, group: Group, protocol: str, resolved: Mapping[str, Sequence[str]]
) -> MemberSpec:
    if protocol == "zookeeper":
        return registered_consumer(member)
    subscription = member.subscription
    assert subscription is not None  # ensured by _check_subscriptions
    matched = resolved.get(subscription.regex or "", ())
    owned = member.assignment if protocol == "classic" else member.target_assignment
    if owned is None:
        owned = member.assignment
    for partition in owned or ():
        if not 0 <= partition.partition < MOST_PARTITIONS:  # clients may send any number
            raise UnfitError.of_group(
                group.group_id,
                f"expected partitions from 0 to {MOST_PARTITIONS - 1}, found "
                f"{partition.partition} of {partition.topic} with member {member.member_id}",
            )
    timeouts = (member.session_timeout_ms, member.rebalance_timeout_ms)
    client, versions = _newest(member.client_library), tuple[str, ...]()
    if protocol == "classic" and client is not None and client.name == KAFKA_CLIENTS:
        versions = versions_before_3_4(
            subscription.version, group.assignor, subscription.topics or (), subscription.user_data
        )
        client = client._replace(version=versions[0]) if versions else client
    is_inferred, may_be = member.client_library_certainty is Certainty.INFERRED, _may_be(member)
    if protocol == "classic" and client is None and may_be is not None:
        likely = _by_timeouts(member, group.assignor, may_be)
        if likely is not None:
            client, is_inferred, may_be = _newest(likely[0]), True, likely[1]
    return MemberSpec(
        member_id=member.member_id,
        topics=tuple(dict.fromkeys([*(subscription.topics or ()), *matched])),
        assignor=member.assignor,
        regex=subscription.regex or None,
        matched=tuple(matched),
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        rack=member.rack_id or rack_in_user_data(group.assignor, subscription.user_data),
        owned=tuple(
            (partition.topic or partition.topic_id or "", partition.partition)
            for partition in owned or ()
        ),
        generation=group.generation_id,
        version=NEWEST_VERSION if subscription.version is None else subscription.version,
        user_data=told_nothing(
            client.name if client is not None else "",
            group.assignor,
            by_sarama=bool(member.assignment_user_data),
        ),
        client=client,
        versions=versions,
        is_client_inferred=is_inferred,
        may_be=may_be,
        is_classic=member.uses_classic_protocol is True,
        has_one_timeout=None if None in timeouts else timeouts[0] == timeouts[1],
    )


def _by_memory(group: Group, members: Sequence[MemberSpec]) -> Iterator[MemberSpec]:
    """Yield the members of a group with `sticky`, and what their user data say of their library.

    If the leader may be of kafka-python, those with user data that 3.0 neither writes nor reads are
    taken to be of 2.3. Sarama's members return the user data of their assignment, which are empty
    if kafka-python or aiokafka wrote it; members of others would have sent what they had before.
    Members of franz-go forget what they had, Java's do not.
    """
    leader = next((each for each in members if each.member_id == group.leader_id), None)
    leaders = {KAFKA_PYTHON, AIOKAFKA}.intersection((leader and leader.may_be) or ())
    past = next(iter(group.past_generations), None)
    is_before = past is not None and past.generation_id + 1 == group.generation_id
    had = {*past.members}.difference(past.idle) if past is not None and is_before else set()
    nothing: object = {"previousAssignment": [], "generation": past and past.generation_id}
    either = frozenset({FRANZ_GO, KAFKA_CLIENTS})
    for spec, member in zip(members, group.members, strict=True):
        said = None if member.subscription is None else member.subscription.user_data
        is_open = spec.client is None and KAFKA_PYTHON in (spec.may_be or ())
        is_read = isinstance(said, Mapping) and "previousAssignment" in said
        if is_open and is_read and KAFKA_PYTHON in leaders:
            old = Software(KAFKA_PYTHON, "2.3.3")
            yield replace(spec, client=old, is_client_inferred=True)
        elif is_open and not said and spec.member_id in had and leaders and spec is not leader:
            yield replace(
                spec,
                client=CLIENTS[SARAMA].newest,
                is_client_inferred=True,
                may_be=frozenset({SARAMA}),
                user_data=told_nothing(SARAMA, "sticky", by_sarama=False),
            )
        elif spec.may_be == either and spec.member_id in had and said == nothing:
            yield replace(spec, client=CLIENTS[FRANZ_GO].newest, may_be=frozenset({FRANZ_GO}))
        else:
            yield spec


def _by_timeouts(
    member: Member, strategy: str | None, may_be: frozenset[str]
) -> tuple[str, frozenset[str]] | None:
    """Return the library that a member of a classic group likely has, and those that it may have.

    It is the one whose default timeouts it has, if that is a single one. The others that send such
    bytes stay possible, but not Java's with what kafka-python sends with `sticky`: it stopped to
    send that in 2.4, when its session timeout was 10 s.
    """
    said = None if member.subscription is None else member.subscription.user_data
    if strategy == "sticky" and KAFKA_PYTHON in may_be:
        # kafka-python 3 sends nothing that Java's can read, and 2 has no timeouts of its own.
        is_read = isinstance(said, Mapping) and "previousAssignment" in said
        may_be -= {KAFKA_CLIENTS, KAFKA_PYTHON} if is_read else {KAFKA_CLIENTS}
    timeouts = (member.session_timeout_ms, member.rebalance_timeout_ms)
    names = [
        name
        for name in FACTS.keys() & may_be
        if (FACTS[name].session_ms, FACTS[name].rebalance_ms or FACTS[name].poll_ms) == timeouts
    ]
    return (names[0], may_be) if len(names) == 1 else None


def _may_be(member: Member) -> frozenset[str] | None:
    """Return the libraries that may have written a subscription; None if that is unknown.

    A default client id decides for one that is not imitated.
    """
    names = {member.client_library, *(member.client_library_candidates or ())}
    names = names & LESSER_KNOWN.keys() & {member.client_library} or names
    return frozenset(name for name in names if name is not None) or None


def _newest(library: str | None) -> Software | None:
    """Return the newest version of an implemented library, as members do not send their version."""
    client = CLIENTS.get(library or "")
    return ASSIGNS_LIKE.get(library or "") if client is None else client.newest


def _topics(
    source: GroupSource,
    members: Iterable[MemberSpec],
    more: Iterable[str],
    notes: list[str],
    hint: str,
) -> tuple[dict[str, TopicMetadata], dict[str, bytes]]:
    """Return partition counts and racks of topics, and topic ids."""
    known = {topic for member in members for topic, _ in member.owned or ()}
    names = known.union(more, *(member.topics for member in members))
    if not source.can(GroupSource.view):
        counts: dict[str, int] = {}
        for member in members:
            for topic, number in member.owned or ():
                counts[topic] = max(counts.get(topic, 0), number + 1)
        notes.append(
            "this source does not know how many partitions topics have; only assigned "
            f"partitions are used{hint}"
        )
        return {name: TopicMetadata(count) for name, count in counts.items()}, {}
    view = source.view(names)
    racks: dict[int | None, str | None] = {
        broker.id: broker.rack for broker in view.brokers.values()
    }
    topics: dict[str, TopicMetadata] = {}
    ids: dict[str, bytes] = {}
    for name, topic_view in view.topics.items():
        if topic_view.topic_id:
            ids[name] = urlsafe_b64decode(topic_view.topic_id + "==")
        if topic_view.partitions:
            every = [topic_view.partitions[number] for number in sorted(topic_view.partitions)]
            listed = tuple(topic_view.partitions)
            in_order = tuple(range(len(every)))
            topics[name] = TopicMetadata(len(every), listed=None if listed == in_order else listed)
            if any(racks.values()):
                topics[name] = replace(
                    topics[name],
                    racks=tuple(
                        frozenset(filter(None, map(racks.get, own.replicas))) for own in every
                    ),
                    leader_racks=tuple(racks.get(own.leader) for own in every),
                )
    return topics, ids
