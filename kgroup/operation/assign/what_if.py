"""What-if changes of a group, each applied to its spec."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.client_facts import FACTS, ON_ERROR
from kgroup.assignor.group_spec import CLIENTS, GroupSpec
from kgroup.assignor.kafka_streams import CLASSIC_STREAMS
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.server.server import PREFERENCE
from kgroup.assignor.strategy import strategies
from kgroup.errors import NotFoundError, UsageError, named_group
from kgroup.model.client_library import LIBRDKAFKA
from kgroup.model.cluster import TopicPartition
from kgroup.model.member_name import MemberName, called, find_member
from kgroup.model.pattern import Pattern, parse_regex
from kgroup.operation.assign.classic_streams import NEW_PROCESS, STANDBYS, set_streams_settings
from kgroup.operation.assign.client import later_note
from kgroup.operation.assign.connect import CONNECT, at_end_of_delay, set_connector, set_max_delay
from kgroup.operation.assign.group import as_consumer_group
from kgroup.operation.assign.joining_client import (
    JoiningClient,
    can_list,
    client_that_lists,
    no_common_strategy,
)
from kgroup.operation.assign.spec import check_strategy, made_up_topic_id
from kgroup.operation.assign.streams import STREAMS, with_standbys
from kgroup.operation.assign.topic_change import unable_to_join, unable_to_rejoin
from kgroup.operation.assign.vote import (
    INCONSISTENT,
    KEEPERS,
    after_vote,
    assignor_of,
    last_joined,
    may_list,
)
from kgroup.operation.report import first_names
from kgroup.protocol.zookeeper.node import consumer_host
from kgroup.simulation.client.config import COOPERATIVE_STICKY

NEW_MEMBER = "new-"
"""Prefix of placeholders for member ids that the coordinator will choose."""


@dataclass(frozen=True, slots=True)
class AddedMembers:
    """Members that join.

    Attributes:
        instance_id: instance id of static members; with several members, a number is appended.
        topics: subscribed topics; None: the topics that most members subscribe to.
        host: host of ZooKeeper consumers; their ids begin with it.
        streams: number of threads per topic of ZooKeeper consumers; None: as for a consumer with
            the same topics, or else one.
        strategies: strategies that members of classic groups list, in order of preference; None:
            unknown, or the default ones of `library`. In consumer groups, `group.remote.assignor`.
        library: client library of members of classic groups, as in `software`; None: the leader's.
        regex: pattern of topics in consumer groups (`SubscribedTopicRegex`), with `topics` if any.
        protocol: `consumer` for members that join a classic group with the consumer protocol, so
            that it becomes a consumer group; None: that of the group.
    """

    count: int = 1
    client_id: str | None = None
    instance_id: str | None = None
    rack: str | None = None
    topics: tuple[str, ...] | None = None
    host: str | None = None
    streams: int | None = None
    strategies: tuple[str, ...] | None = None
    library: str | None = None
    regex: str | None = None
    protocol: str | None = None


_BASIC = ("client_id", "instance_id", "rack", "topics")
_ATTRIBUTES: Mapping[str, Sequence[str]] = {
    "classic": (*_BASIC, "strategies", "library"),
    "consumer": (*_BASIC, "strategies", "regex", "protocol"),
    "share": _BASIC,
    STREAMS: ("client_id", "rack"),
    CLASSIC_STREAMS: ("client_id", "instance_id", "rack"),
    CONNECT: ("client_id",),
    "zookeeper": ("topics", "host", "streams"),
}
"""Attributes that new members may have, by protocol."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a group, in the order in which they are applied.

    Attributes:
        drop_topics: topics to delete.
        add_topics: topics to create, with their numbers of partitions.
        partitions: topics whose number of partitions changes.
        drop_connectors: Connect: connectors to delete.
        connectors: Connect: connectors with their numbers of tasks; new ones, or ones that change.
        max_delay_ms: Connect: `scheduled.rebalance.max.delay.ms` of the workers; None: unknown.
        standbys: Streams: `streams.num.standby.replicas`, or with the classic protocol
            `num.standby.replicas`; None: as it is, or unknown.
        streams_config: Streams with the classic protocol: other settings, by name.
        remove: members that leave, by any name that `find_member` knows.
        restart: members that leave and rejoin.
        add: members that join.
        subscribe: members whose subscription changes.
        leader: member that runs the assignor; None: unchanged.
        fresh: whether members have no previous assignment.
    """

    drop_topics: Sequence[str] = ()
    add_topics: Sequence[tuple[str, int]] = ()
    partitions: Sequence[TopicPartition] = ()
    drop_connectors: Sequence[str] = ()
    connectors: Sequence[tuple[str, int]] = ()
    max_delay_ms: int | None = None
    standbys: int | None = None
    streams_config: Sequence[tuple[str, int]] = ()
    remove: Sequence[str] = ()
    restart: Sequence[str] = ()
    add: Sequence[AddedMembers] = ()
    subscribe: Sequence[tuple[str, Sequence[str]]] = ()
    leader: str | None = None
    fresh: bool = False

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics to which members will subscribe, in addition to their current ones."""
        joined = (topics for _, topics in self.subscribe)
        return frozenset[str]().union(*joined, *(added.topics or () for added in self.add))

    def matching(self, names: Callable[[], Collection[str]]) -> frozenset[str]:
        """Return those of all topic names that match patterns of new members.

        Raises:
            UsageError: one is no regular expression.
        """
        patterns = [_pattern(added.regex) for added in self.add if added.regex is not None]
        known = names() if patterns else ()
        return frozenset(name for name in known if any(p.fullmatch(name) for p in patterns))


def changed(spec: GroupSpec, changes: Changes) -> GroupSpec:
    """Return the spec with all changes.

    Raises:
        NotFoundError: a member or topic does not exist.
        UsageError: several members have a name, or no member is left.
    """
    _check_protocol(spec, changes)
    counted = [topic for topic, _ in (*changes.add_topics, *changes.partitions)]
    changing = [*changes.drop_topics, *counted]
    _check_once(changing, "topic", "--drop-topic, --add-topic or --partitions")
    connectors = [*changes.drop_connectors, *(name for name, _ in changes.connectors)]
    _check_once(connectors, "connector", "--connector or --drop-connector")
    _check_once([name for name, _ in changes.streams_config], "setting", "--streams-config")
    as_it_is = _with_tasks(spec, changes)
    removed = [_find(as_it_is, name).member_id for name in changes.remove]
    restarting = [_find(as_it_is, name).member_id for name in changes.restart]
    _check_once(removed + restarting, "member", "--remove-member or --restart-member")
    spec = _with_topics(as_it_is, changes)
    spec, restarted = _with_members(spec, changes, removed, restarting)
    if changes.subscribe:
        names = [name for name, _ in changes.subscribe]
        subscribing = [_find_now("--subscribe", name, as_it_is, spec, restarted) for name in names]
        _check_once(subscribing, "member", "--subscribe")
        for member_id, (_, topics) in zip(subscribing, changes.subscribe, strict=True):
            spec = subscribe(spec, member_id, topics)
    if spec.members != as_it_is.members or changes.drop_topics:
        spec = _without_expiring(spec)
    spec = _voted(spec, changes, as_it_is, restarted)
    if not spec.members:  # all that is left of a Connect cluster restarts
        spec = replace(spec, members=spec.returning, returning=())
    if not spec.members:
        raise UsageError(
            "no member is left to assign to; omit a --remove-member. Without members, nothing of "
            "the group is read or run until one joins"
        )
    if changes.leader is not None:
        spec = lead(spec, _find_now("--leader", changes.leader, as_it_is, spec, restarted))
    if changes.fresh:
        spec = forget(spec)
    is_as_it_is = spec == as_it_is and not changes.drop_connectors
    return at_end_of_delay(spec) if spec.protocol == CONNECT and is_as_it_is else spec


def _with_tasks(spec: GroupSpec, changes: Changes) -> GroupSpec:
    """Return the spec with changes of connectors, standby tasks and settings of Streams."""
    if changes.standbys is not None and spec.streams is not None:
        spec = with_standbys(spec, spec.streams.stateful, changes.standbys)
    if spec.application is not None:
        settings = {**dict(changes.streams_config)}
        if changes.standbys is not None:
            settings[STANDBYS] = changes.standbys
        spec = set_streams_settings(spec, settings)
    if changes.max_delay_ms is not None:
        spec = set_max_delay(spec, changes.max_delay_ms)
    for name in changes.drop_connectors:
        spec = drop_connector(spec, name)
    for name, tasks in changes.connectors:
        spec = set_connector(spec, name, tasks)
    return spec


def _with_topics(spec: GroupSpec, changes: Changes) -> GroupSpec:
    """Return the spec with changes of topics.

    Raises:
        NotFoundError: a topic does not exist.
    """
    for topic in changes.drop_topics:
        spec = drop_topic(spec, topic)
    for topic, number in changes.add_topics:
        spec = add_topic(spec, topic, number)
    matching = changes.matching(lambda: [topic for topic, _ in changes.partitions])
    for topic, number in changes.partitions:
        subscribed = changes.subscribed_topics.union(*(m.topics for m in spec.members))
        known = matching.union(subscribed, spec.topics)
        if topic not in known:  # maybe misspelled
            raise NotFoundError(
                f"--partitions: {_has_no_topic(spec, topic)}. --add-topic adds one that is new"
            )
        spec = set_partitions(spec, topic, number)
    return spec


def _with_members(
    spec: GroupSpec, changes: Changes, removed: Sequence[str], restarting: Sequence[str]
) -> tuple[GroupSpec, Mapping[str, str]]:
    """Return the spec after members left, restarted and joined; and new ids by the former ones."""
    for member_id in removed:
        spec = remove_member(spec, member_id)
    restarted: dict[str, str] = {}
    for member_id in restarting:
        if is_static(spec, _with_id(spec, member_id)):
            spec = replace(spec, restarting=spec.restarting | {member_id})
            continue
        spec = restart_member(spec, member_id)
        restarted[member_id] = (*spec.members, *spec.returning)[-1].member_id
    for added in changes.add:
        spec = add_members(spec, added)
    return spec, restarted


def _without_expiring(spec: GroupSpec) -> GroupSpec:
    """Let members leave that cannot rejoin, unless none can join: then, nothing happens."""
    unable = unable_to_rejoin(spec)
    if len(unable) + len(unable_to_join(spec)) == len(spec.members):
        return spec
    for member in unable:
        spec = leaves(spec, member)
    return replace(spec, expiring=frozenset(member.member_id for member in unable))


def _voted(
    spec: GroupSpec, changes: Changes, before: GroupSpec, restarted: Mapping[str, str]
) -> GroupSpec:
    """Return the spec with the strategy and the leader that follow from other members."""
    if changes.remove:
        spec = replace(spec, have_left=True)
    if spec.protocol == "classic" and spec.has_votes is False and spec.members != before.members:
        spec = after_vote(spec, before, restarted)
    is_consumer = spec.protocol == "consumer" and spec.has_votes is not None
    prefer = is_consumer and spec.strategy == PREFERENCE[0] and any(map(_preferred, changes.add))
    if (spec.has_votes or prefer) and (changes.remove or changes.restart or changes.add):
        spec = replace(spec, strategy=assignor_of(spec.members, last_joined(spec.members)))
    is_elected = spec.protocol == "classic" and spec.leader_id != before.leader_id
    if is_elected and any(member.unknown_id for member in spec.members):
        # A new member may have joined before the leader has left, and be the first one.
        spec = replace(spec, leader_id=None)
    return spec


def _check_protocol(spec: GroupSpec, changes: Changes) -> None:
    """Raise a UsageError for what-ifs that do not exist in the group."""
    of_topics = changes.drop_topics or changes.add_topics or changes.partitions or changes.subscribe
    if spec.protocol == CONNECT and of_topics:
        raise UsageError(
            "Connect's workers run connectors and tasks: omit --partitions, --add-topic, "
            "--drop-topic and --subscribe; see --connector and --drop-connector"
        )
    of_streams = (STREAMS, CLASSIC_STREAMS)
    if spec.protocol in of_streams and of_topics:
        raise UsageError(
            "changes of topics are not imitated in streams groups: omit --partitions, --add-topic, "
            "--drop-topic and --subscribe"
        )
    if spec.protocol != CLASSIC_STREAMS and changes.streams_config:
        raise UsageError(
            f"members of {spec.protocol} groups have no settings of Kafka Streams: omit "
            "--streams-config"
        )
    if spec.protocol not in of_streams and changes.standbys is not None:
        raise UsageError(f"{spec.protocol} groups have no standby tasks: omit --standbys")
    of_connectors = (
        changes.drop_connectors or changes.connectors or changes.max_delay_ms is not None
    )
    if spec.protocol != CONNECT and of_connectors:
        sinks = {sink for member in spec.members if (sink := _sink_connector(member.client_id))}
        whose = (
            f"{named_group(spec.id)} has the consumers of the sink connector {', '.join(sinks)}; "
            "connectors belong to the group of the workers (their group.id): name that group, or "
            if spec.id is not None and len(sinks) == 1
            else f"{spec.protocol} groups have no connectors: "
        )
        raise UsageError(f"{whose}omit --connector, --drop-connector and --max-delay")


def _sink_connector(client_id: str | None) -> str | None:
    """Return the sink connector whose task has a consumer with this client id; None if none has."""
    task = re.fullmatch(r"connector-consumer-(.+)-\d+", client_id or "")
    return None if task is None else task[1]


def _check_once(names: Sequence[str], what: str, options: str) -> None:
    """Refuse what is named twice: only the last one would count, or none."""
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"{options}: expected each {what} once, found {name} {times} times")


def _find_now(
    option: str, name: str, before: GroupSpec, spec: GroupSpec, restarted: Mapping[str, str]
) -> str:
    """Return the id of a member; the error names those that have left or restarted.

    Args:
        option: the option with the name, for errors.
        name: what the user calls the member.
        before: the group before members left and restarted.
        spec: the group.
        restarted: new ids of members that restarted, by their old ones.
    """
    try:
        return _find(spec, name).member_id
    except NotFoundError:
        was = called(name, [_name(before, member) for member in before.members])
        if len(was) != 1:
            raise
    new_id = restarted.get(was[0].member_id)
    if was[0].member_id in spec.expiring:
        raise NotFoundError(
            f"{option}: {name} does not join again, as none of its topics exists; --subscribe "
            "names others"
        )
    if new_id is None:
        raise NotFoundError(f"{option}: {name} leaves (--remove-member)")
    raise NotFoundError(
        f"{option}: {name} restarts and is a new member, {new_id}; {option} {new_id} names it"
    )


def notes(spec: GroupSpec, changes: Changes) -> Iterator[str]:
    """Yield notes on restarts of static members and of clients with state, and on client ids.

    Client ids matter that are new and name a library.
    """
    leads = spec.computed_as.name
    if changes.restart and spec.application is not None and spec.application.stateful:
        yield (
            "--restart-member: a client restarts with its state directory. If that is lost, or all "
            "its stores are in memory, it is a new client: --remove-member with --add-member"
        )
    is_cooperative = (spec.protocol, spec.strategy) == ("classic", "cooperative-sticky")
    static = [name for name in changes.restart if is_static(spec, _find(spec, name))]
    if is_cooperative and len(static) < len(changes.restart):
        yield (
            "--restart-member: members are taken to be back before the others have rejoined; "
            "otherwise there are two rebalances, which mostly end with other partitions"
        )
    for name in static:
        yield (
            f"--restart-member: {name} is a static member. It returns within its session "
            "timeout, without a rebalance; --remove-member lets it leave"
        )
    fewer = [name for name, number in changes.partitions if _partitions(spec, name) > number]
    if fewer:
        yield (
            "--partitions: Kafka does not reduce the number of partitions; computed as if "
            f"{first_names(fewer)} had been deleted and created again"
        )
    for regex in dict.fromkeys(added.regex for added in changes.add):
        if regex is not None and not _matching(spec, regex):
            yield (
                f"--add-member: no known topic matches regex={regex}; regex= takes the rest of the "
                "option, so it must come last"
            )
    if spec.protocol == "classic" and any(added.protocol for added in changes.add):
        yield (
            "--add-member: the group becomes a consumer group if the brokers allow that "
            "(group.consumer.migration.policy); --may-join kafka-clients:consumer says what is "
            "known about it"
        )
        unknown = sorted(spec.topics.keys() - spec.topic_ids.keys())
        if unknown:
            yield f"the ids of {first_names(unknown)} are unknown; the order may be different"
    for library in dict.fromkeys(added.library for added in changes.add):
        if library is not None and (later := later_note(library)) is not None:
            yield later
    for client_id in dict.fromkeys(added.client_id or "" for added in changes.add):
        library = client_id.partition("@")[0]
        is_there = client_id in {member.client_id for member in spec.members}
        is_there |= any(a.library for a in changes.add if a.client_id == client_id)
        if spec.protocol == "classic" and library in CLIENTS.keys() - {leads} and not is_there:
            yield (
                f"--add-member: client={client_id} is taken as the client id of a member of "
                f"{leads}; library={library} names the library"
            )


def add_members(spec: GroupSpec, added: AddedMembers) -> GroupSpec:
    """Add new members to the group.

    Raises:
        UsageError: an attribute does not exist in this type of group, or an instance id is in use.
    """
    if added.protocol is not None:
        spec = _joined_by(spec, added.protocol)
    for name in (field.name for field in fields(added) if field.name != "count"):
        if getattr(added, name) is not None and name not in _ATTRIBUTES[spec.protocol]:
            raise UsageError(
                f"--add-member: members of {spec.protocol} groups have no {name.partition('_')[0]}="
            )
    client = _joining_client(spec, added)
    topics = added.topics
    regex, matched = added.regex, tuple[str, ...]()
    if regex is not None:
        matched = _matching(spec, regex)
        topics = (*(topics or ()), *matched)
    is_assumed = False
    if topics is None:
        known = spec.members or spec.departed
        topics = Counter(member.topics for member in known).most_common(1)[0][0]
        is_assumed = len({(frozenset(member.topics), member.regex) for member in known}) > 1
    alike = (m.streams for m in (*spec.members, *spec.departed) if m.topics == topics)
    streams = next(alike, {})
    if added.streams is not None:
        streams = dict.fromkeys(topics, added.streams)
    topics = tuple(dict.fromkeys(topics))
    suffixes = [""] if added.count == 1 else [f"-{number + 1}" for number in range(added.count)]
    static = {member.instance_id for member in spec.members}
    for suffix in suffixes:
        if added.instance_id is not None and added.instance_id + suffix in static:
            raise UsageError(
                f"--add-member: {_called(spec)} has a member with instance id "
                f"{added.instance_id + suffix} already, and a coordinator keeps only one; name "
                "another, or let that one leave (--remove-member)"
            )
    by_regex = {(member.regex, member.matched) for member in spec.members}
    if len(by_regex) == 1 and added.topics is None and regex is None:
        regex, matched = by_regex.pop()
    give_up = bool(spec.members) and all(member.keeps is False for member in spec.members)
    keeps = False if give_up else None
    if client is not None and client.library in KEEPERS:
        keeps = client.strategies == (COOPERATIVE_STICKY,)
    named = None if added.library is None else client
    libraries = {spec.client_of(member).name for member in (*spec.members, *spec.departed)}
    is_foreign = named is not None and named.library not in libraries
    process_id = None
    if spec.protocol in (STREAMS, CLASSIC_STREAMS):  # the threads of one new instance
        taken = {member.process_id for member in (*spec.members, *spec.departed)}
        process_id = next(name for at in count(1) if (name := f"{NEW_PROCESS}{at}") not in taken)
    joined = (
        MemberSpec(
            member_id,
            topics,
            instance_id=added.instance_id and added.instance_id + suffix,
            client_id=added.client_id,
            rack=added.rack,
            unknown_id=True,
            host=added.host,
            streams=streams,
            process_id=process_id,
            regex=regex,
            matched=matched,
            is_subscription_assumed=is_assumed,
            is_order_assumed=is_foreign and added.topics is None,
            assignor=_preferred(added) if spec.protocol == "consumer" else None,
            client=None if named is None else named.software,
            may_be=None if named is None else frozenset({named.library}),
            lists=None if client is None else client.strategies,
            keeps=keeps,
        )
        for member_id, suffix in zip(_new_ids(spec), suffixes, strict=False)
    )
    return replace(spec, members=(*spec.members, *joined))


def _joined_by(spec: GroupSpec, protocol: str) -> GroupSpec:
    """Return the group that a member with a protocol joins; a classic one becomes another."""
    if protocol != "consumer":
        raise UsageError(f"--add-member: expected protocol=consumer, found {protocol}")
    return as_consumer_group(spec) if spec.protocol == "classic" else spec


def _preferred(added: AddedMembers) -> str | None:
    """Return `group.remote.assignor` of new members of a consumer group."""
    if added.strategies is None:
        return None
    if len(added.strategies) != 1 or added.strategies[0] not in PREFERENCE:
        raise UsageError(
            f"--add-member: expected strategies={' or '.join(PREFERENCE)} of members of a consumer "
            f"group (group.remote.assignor), found {'+'.join(added.strategies)}"
        )
    return added.strategies[0]


def _partitions(spec: GroupSpec, topic: str) -> int:
    return spec.topics[topic].partitions if topic in spec.topics else 0


def _matching(spec: GroupSpec, regex: str) -> tuple[str, ...]:
    """Return the topics that the coordinator resolves a pattern to."""
    known = next((member.matched for member in spec.members if member.regex == regex), None)
    if known is not None:
        return known
    pattern = _pattern(regex)
    return tuple(sorted(name for name in spec.topics if pattern.fullmatch(name) is not None))


def _pattern(regex: str) -> Pattern:
    try:
        return parse_regex(regex)
    except ValueError as error:
        raise UsageError(f"--add-member: regex=: {error}") from None


def _joining_client(spec: GroupSpec, added: AddedMembers) -> JoiningClient | None:
    """Return the client that joins a classic group; None if its list is unknown.

    Raises:
        UsageError: there is no such client, or the coordinator refuses it.
    """
    if spec.protocol != "classic" or (added.library is None and added.strategies is None):
        return None
    leads = spec.computed_as
    library = added.library or f"{leads.name}@{leads.version}"
    try:
        client = client_that_lists(library, added.strategies or ())
    except ValueError as error:
        raise UsageError(f"--add-member: expected {error}") from None
    why = None
    if client.lacking:
        known = ", ".join(strategies("classic", client.software))
        why = f"{client} does not have {', '.join(client.lacking)}; choose from {known}"
    elif client.refuses_mix:
        why = (
            f"{client} does not start with eager strategies and {COOPERATIVE_STICKY}; list only one"
            " kind"
        )
    if why is not None:
        other = "" if added.library else ", or name another library (library=)"
        raise UsageError(f"--add-member: {why}{other}")
    if spec.has_votes is None:
        if spec.strategy not in client.strategies:
            raise UsageError(
                f"--add-member: expected a list with the strategy of the group, {spec.strategy}, "
                f"found {'+'.join(client.strategies)}; --strategy computes with another one"
            )
        return client
    members = ((begin(spec, member), may_list(member, spec.strategy)) for member in spec.members)
    refusal = no_common_strategy(spec.strategy, members, client.strategies)
    if refusal is not None:
        raise UsageError(
            f"--add-member: the coordinator refuses a member that lists only "
            f"{', '.join(client.strategies)} ({INCONSISTENT}): {refusal}. Then, "
            f"{ON_ERROR[client.library].refused}. List a strategy that all members list "
            "(strategies=A+B)"
        )
    return client


def begin(spec: GroupSpec, member: MemberSpec) -> str:
    """Return how a sentence about what a member may list begins."""
    if member.lists is not None:
        return f"{member.member_id} lists"
    name, library = _name(spec, member).label, spec.client_of(member).name
    if member.keeps and library in KEEPERS:
        return f"{name} keeps its partitions in rebalances, so it lists"
    return can_list(name, library)


def remove_member(spec: GroupSpec, member_id: str) -> GroupSpec:
    """Remove a member."""
    return leaves(spec, _with_id(spec, member_id))


def is_static(spec: GroupSpec, member: MemberSpec) -> bool:
    """Return whether a member keeps its partitions in a restart, which causes no rebalance."""
    return member.instance_id is not None and can_stay(spec, spec.client_of(member))


def can_stay(spec: GroupSpec, client: Software) -> bool:
    """Return whether static members that use a library do not leave when they close."""
    leaves = spec.protocol == "classic" and FACTS[client.name].static_leaves
    return spec.may_be_static(client) and not leaves


def restart_member(spec: GroupSpec, member_id: str) -> GroupSpec:
    """Remove a member and let it rejoin in the same rebalance; a worker of Connect in the next."""
    member = _with_id(spec, member_id)
    back = comes_back(leaves(spec, member), member)
    if spec.protocol != CONNECT:
        return back
    *members, worker = back.members
    return replace(back, members=tuple(members), returning=(*spec.returning, worker))


def set_partitions(spec: GroupSpec, topic: str, number: int) -> GroupSpec:
    """Set a topic's number of partitions; the racks of new partitions are unknown."""
    old = spec.topics.get(topic)
    racks = leaders = None
    if old is not None:
        more = max(0, number - old.partitions)
        if old.racks is not None:
            racks = old.racks[:number] + (frozenset[str](),) * more
        if old.leader_racks is not None:
            leaders = old.leader_racks[:number] + (None,) * more
        if more:
            spec = replace(spec, grown_topics={topic: old, **spec.grown_topics})
    return _with_topic(
        spec, topic, replace(_new_topic(spec, number), racks=racks, leader_racks=leaders)
    )


def add_topic(spec: GroupSpec, topic: str, number: int) -> GroupSpec:
    """Create a topic to which all members subscribe."""
    if topic in spec.topics:
        raise UsageError(f"--add-topic: topic {topic} already exists; see --partitions")
    members = (
        replace(
            member,
            topics=(*(t for t in member.topics if t != topic), topic),
            matched=(*member.matched, topic) if member.regex is not None else (),
        )
        for member in spec.members
    )
    spec = replace(spec, members=tuple(members), new_topics=spec.new_topics | {topic})
    return _with_topic(spec, topic, _new_topic(spec, number))


def drop_topic(spec: GroupSpec, topic: str) -> GroupSpec:
    """Delete a topic; librdkafka leaves topics that do not exist out of its subscription."""
    if topic not in spec.topics:
        raise NotFoundError(f"--drop-topic: {_has_no_topic(spec, topic)}")
    members = (
        replace(member, topics=tuple(name for name in member.topics if name != topic))
        if spec.protocol == "classic" and spec.client_of(member).name == LIBRDKAFKA
        else member
        for member in spec.members
    )
    topics = {name: metadata for name, metadata in spec.topics.items() if name != topic}
    dropped = spec.dropped_topics | {topic}
    return replace(spec, members=tuple(members), topics=topics, dropped_topics=dropped)


def drop_connector(spec: GroupSpec, name: str) -> GroupSpec:
    """Delete a connector."""
    if name not in spec.topics:
        known = first_names(sorted(spec.topics)) or "none"
        raise NotFoundError(
            f"--drop-connector: {_called(spec)} has no connector {name}; it has: {known}"
        )
    return replace(spec, topics={n: t for n, t in spec.topics.items() if n != name})


def subscribe(spec: GroupSpec, member_id: str, topics: Sequence[str]) -> GroupSpec:
    """Change the subscription of a member."""
    changed_member = _with_id(spec, member_id)
    members = (
        replace(member, topics=tuple(dict.fromkeys(topics)), regex=None, matched=())
        if member is changed_member
        else member
        for member in spec.members
    )
    is_other = set(topics) != set(changed_member.topics)
    return replace(spec, members=tuple(members), have_subscribed=spec.have_subscribed or is_other)


def forget(spec: GroupSpec) -> GroupSpec:
    """Remove all previous assignments, as if the group had been empty for some time."""
    return replace(
        spec,
        members=tuple(map(forgetful, spec.members)),
        connect=spec.connect and spec.connect.with_new_leader(),
        application=spec.application and replace(spec.application, states={}),
    )


def lead(spec: GroupSpec, member_id: str) -> GroupSpec:
    """Set the member that runs the assignor.

    Only its library matters; with members of the same library, the result is the same. One
    exception is state of Java's sticky assignors: the leader keeps the highest generation that it
    has seen (`AbstractStickyAssignor.maxGeneration`), which no request reports. In a running group
    it is not higher than the generations that members claim.

    Raises:
        UsageError: the members of this type of group do not run the assignor, or the member's
            library lacks the strategy.
    """
    if spec.protocol == "zookeeper":
        raise UsageError(
            "--leader: every consumer of a zookeeper group assigns for itself; omit --leader"
        )
    if spec.protocol not in ("classic", CONNECT, CLASSIC_STREAMS):
        raise UsageError(
            f"--leader: the coordinator assigns in {spec.protocol} groups, not a member; "
            "omit --leader"
        )
    if spec.connect is not None and spec.leader_id not in (None, member_id):
        spec = replace(spec, connect=spec.connect.with_new_leader())
    spec = replace(spec, leader_id=member_id)
    check_strategy(spec, f"--leader: no strategy {spec.strategy!r} for a leader")
    return spec


def leaves(spec: GroupSpec, member: MemberSpec) -> GroupSpec:
    """Remove a member; if it is the leader, the next one is likely of its library.

    Not if no other member writes its subscription in that version of the message.
    """
    members = tuple(other for other in spec.members if other.member_id != member.member_id)
    if spec.leader_id is None and not member.is_led:  # it may have led
        members = tuple(replace(other, is_led=False) for other in members)
    spec = replace(spec, members=members, departed=(*spec.departed, member))
    if spec.leader_id != member.member_id:
        return spec
    versions = {other.version for other in members if not other.unknown_id}
    is_alone = bool(versions) and member.version not in versions
    return replace(
        spec,
        leader_id=_next_leader(spec),
        is_leader_new=True,
        leader_client=None if is_alone else member.client or spec.leader_client,
        connect=spec.connect and spec.connect.with_new_leader(),
    )


def _next_leader(spec: GroupSpec) -> str | None:
    """Return the member that leads when the leader has left: the only or the coordinator's first.

    It lists members in the order of a hash table, which does not change when one is removed. New
    members have unknown places in it; so have those of a rebalance in progress, if the members
    before it are used (`ClassicGroup.remove`).
    """
    gone = {member.member_id for member in spec.departed}
    order = [member_id for member_id in spec.member_order if member_id not in gone]
    here = {member.member_id for member in spec.members}
    if spec.protocol != "classic" or not here.issuperset(order):
        return None
    if len(here) == 1:
        return here.pop()
    return order[0] if order and len(order) == len(here) else None


def comes_back(spec: GroupSpec, member: MemberSpec) -> GroupSpec:
    """Let a member that has left rejoin, with a new id and without previous assignment.

    A ZooKeeper consumer with a configured `consumer.id` keeps its id.
    """
    host = member.host
    if spec.protocol == "zookeeper" and not member.unknown_id:
        host = consumer_host(spec.id or "", member.member_id)
        if host is None:
            return replace(spec, members=(*spec.members, forgetful(member)))
    back = replace(
        forgetful(member),
        member_id=next(_new_ids(spec)),
        unknown_id=True,
        host=host,
        is_led=bool(spec.members) and not spec.departed,
    )
    return replace(spec, members=(*spec.members, back))


def forgetful(member: MemberSpec) -> MemberSpec:
    """Return a member without previous assignment."""
    return replace(
        member,
        owned=None,
        generation=None,
        subscription_generation=None,
        user_data=None,
        threads={},
        standby=(),
    )


def _new_topic(spec: GroupSpec, number: int) -> TopicMetadata:
    """Return a topic; its partition order is unknown if brokers do not list by number."""
    by_number = all(
        topic.listed is None or topic.listed == tuple(range(topic.partitions))
        for topic in spec.topics.values()
    )
    return TopicMetadata(number, is_listing_known=by_number)


def _with_topic(spec: GroupSpec, name: str, topic: TopicMetadata) -> GroupSpec:
    ids = {**spec.topic_ids}
    if spec.has_topic_ids:
        ids.setdefault(name, made_up_topic_id(name))
    return replace(spec, topics={**spec.topics, name: topic}, topic_ids=ids)


def _new_ids(spec: GroupSpec) -> Iterator[str]:
    """Yield member ids that no member has, nor one that has left or returns later."""
    taken = {member.member_id for member in (*spec.members, *spec.returning, *spec.departed)}
    return (name for at in count(1) if (name := f"{NEW_MEMBER}{at}") not in taken)


def _has_no_topic(spec: GroupSpec, topic: str) -> str:
    topics = first_names(sorted(spec.topics)) or "none"
    return f"{_called(spec)} has no topic {topic}; it has: {topics}"


def _called(spec: GroupSpec) -> str:
    return "the group" if spec.id is None else named_group(spec.id)


def _name(spec: GroupSpec, member: MemberSpec) -> MemberName:
    """Return the names of a member; those of a ZooKeeper consumer are parts of its id."""
    member_id = member.member_id
    if spec.protocol == "zookeeper" and spec.id is not None:
        name = member_id.removeprefix(f"{spec.id}_")
        return MemberName(member_id, host=consumer_host(spec.id, member_id), others=(name,))
    return MemberName(member_id, member.instance_id, member.client_id, member.host)


def _with_id(spec: GroupSpec, member_id: str) -> MemberSpec:
    return next(member for member in spec.members if member.member_id == member_id)


def _find(spec: GroupSpec, text: str) -> MemberSpec:
    """Return the member that a text means."""
    names = [_name(spec, member) for member in spec.members]
    return spec.members[names.index(find_member(text, names, _called(spec)))]
