"""The next assignment of a group: moves and balance."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from math import sqrt
from operator import itemgetter
from typing import NamedTuple

from msgspec import structs

from kgroup.assignor.base import Assignment, AssignorError, java_order
from kgroup.assignor.client.sarama import told_nothing
from kgroup.assignor.client_facts import ON_ERROR
from kgroup.assignor.group_spec import ASSIGNS_LIKE, GroupSpec
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.kafka_streams import CLASSIC_STREAMS
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assign, assign_threads, by_member
from kgroup.assignor.zookeeper import ThreadAssignment, ThreadId
from kgroup.model.client_library import KAFKA_CLIENTS, SARAMA
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.classic_streams import (
    StreamsRebalance,
    application_warnings,
    assign_application,
)
from kgroup.operation.assign.client import (
    able_leader,
    chance_warnings,
    is_failure_open,
    leader_warnings,
    member_warnings,
    version_warnings,
    vote_warnings,
)
from kgroup.operation.assign.connect import ConnectRebalance, assign_workers, connect_warnings
from kgroup.operation.assign.streams import (
    assign_tasks,
    leaving_apart,
    other_tasks,
    streams_warnings,
)
from kgroup.operation.assign.topic_change import keeps_assignment, topic_warnings, with_kept_topics
from kgroup.operation.assign.vote import assignor_of, last_joined
from kgroup.operation.assign.zookeeper import Overlap, PartitionOwner, overlaps, ownership
from kgroup.operation.report import first_names
from kgroup.simulation.client.config import COOPERATIVE_STICKY


class Move(NamedTuple):
    """A partition that its owner loses; there may be a million of them.

    Attributes:
        from_member: previous owner; it may have left the group.
        to_member: new owner; None if the partition is only revoked for now, or is not assigned.
        depends_on_id: whether the move depends on ids, or the order of topics, of new members; None
            if not checked.
        from_thread: thread number of the previous owner, for ZooKeeper consumers; None if unknown.
        to_thread: thread number of the new owner, for ZooKeeper consumers.
        lag: number of records that the new owner has to catch up on; None if unknown.
    """

    topic: str
    partition: int
    from_member: str
    to_member: str | None
    depends_on_id: bool | None = False
    from_thread: int | None = None
    to_thread: int | None = None
    lag: int | None = None


def find_moves(
    before: Mapping[str, set[TopicPartition]],
    after: Mapping[str, Collection[TopicPartition]],
    lost: Mapping[str, set[TopicPartition]],
) -> tuple[Move, ...]:
    """Return the moves between members, by topic and partition.

    Args:
        before: previous partitions by member, including members that have left.
        after: new partitions by member.
        lost: partitions that each member loses.
    """
    if not any(lost.values()):
        return ()
    gained = {
        member_id: set(partitions).difference(before[member_id])
        for member_id, partitions in after.items()
    }
    givers, takers = _owners(lost), _owners(gained)
    if givers is None or takers is None:
        return _moves_of_shared(lost, gained)
    return tuple(
        Move(topic, number, members[number], gets.get(number))
        for topic, members in sorted(givers.items(), key=lambda item: utf16(item[0]))
        for gets in [takers.get(topic, {})]
        for number in sorted(members)
    )


def _owners(
    partitions: Mapping[str, set[TopicPartition]],
) -> Mapping[str, Mapping[int, str]] | None:
    """Return the owner of each partition by topic and number; None if any has several owners."""
    owners: dict[str, dict[int, str]] = defaultdict(dict)
    for member_id, own in partitions.items():
        for topic, number in own:
            owners[topic][number] = member_id
    is_shared = sum(map(len, owners.values())) < sum(map(len, partitions.values()))
    return None if is_shared else owners


def _moves_of_shared(
    lost: Mapping[str, set[TopicPartition]], gained: Mapping[str, set[TopicPartition]]
) -> tuple[Move, ...]:
    givers: dict[TopicPartition, list[str]] = defaultdict(list)
    for member_id, partitions in lost.items():
        for partition in partitions:
            givers[partition].append(member_id)
    takers: dict[TopicPartition, list[str]] = defaultdict(list)
    for member_id, partitions in gained.items():
        for partition in givers.keys() & partitions:
            takers[partition].append(member_id)
    return tuple(
        Move(*partition, giver, taker)
        for partition in sorted(givers, key=java_order)
        for giver, taker in zip_longest(sorted(givers[partition]), sorted(takers[partition]))
        if giver is not None
    )


def with_threads(
    moves: Sequence[Move], members: Iterable[MemberSpec], threads: ThreadAssignment
) -> tuple[Move, ...]:
    """Add the threads of ZooKeeper consumers, and moves between threads of the same consumer.

    Args:
        moves: moves between consumers.
        members: all members, including those that have left.
        threads: new partitions by thread.
    """
    had = {
        (member.member_id, partition): number
        for member in members
        for partition, number in member.threads.items()
    }
    gets = {
        (member_id, partition): number
        for (member_id, number), partitions in threads.items()
        for partition in partitions
    }
    inside = [
        Move(*partition, member_id, member_id)
        for (member_id, partition), number in gets.items()
        if had.get((member_id, partition), number) != number
    ]
    return tuple(
        move._replace(
            from_thread=had.get((move.from_member, (move.topic, move.partition))),
            to_thread=gets.get((move.to_member or "", (move.topic, move.partition))),
        )
        for move in sorted(
            [*moves, *inside], key=lambda move: java_order((move.topic, move.partition))
        )
    )


def with_lags(moves: tuple[Move, ...], lags: Mapping[TopicPartition, int]) -> tuple[Move, ...]:
    """Add the lag to the moves, as far as known."""
    if not lags:
        return moves
    return tuple(move._replace(lag=lags.get((move.topic, move.partition))) for move in moves)


@dataclass(frozen=True, slots=True)
class TopicBalance:
    """Balance of a topic's partitions over its subscribers.

    Attributes:
        topic: topic name.
        minimum: smallest number of partitions that a subscriber gets.
        maximum: largest number of partitions that a subscriber gets.
        deviation: standard deviation over the subscribers of the topic.
    """

    topic: str
    minimum: int
    maximum: int
    deviation: float


@dataclass(frozen=True, slots=True)
class Balance:
    """Balance of an assignment.

    Attributes:
        minimum: smallest number of partitions that a member gets.
        maximum: largest number of partitions that a member gets.
        deviation: standard deviation over the members.
        idle_members: member ids of members without partitions; sorted.
        topics: balance by topic.
    """

    minimum: int
    maximum: int
    deviation: float
    idle_members: tuple[str, ...]
    topics: tuple[TopicBalance, ...]


@dataclass(frozen=True, slots=True)
class AssignFailure:
    """An exception or crash of the assignor; every attempt to rebalance fails.

    Attributes:
        type: name of the exception, or of what happens to the process; such as
            `NullPointerException`, `SIGSEGV` or `EndlessLoop`.
        message: message of the exception, or the cause; None if there is none.
    """

    type: str
    message: str | None

    def __str__(self) -> str:
        """Return the type and, if there is one, the message."""
        return ": ".join(filter(None, (self.type, self.message)))


@dataclass(frozen=True, slots=True)
class MemberOutcome:
    """Assignment of a member before and after the rebalance.

    Attributes:
        member_id: member id; for an added member, a placeholder that begins with `new-`.
        instance_id: `group.instance.id` of a static member; else None.
        client_id: `client.id` that the client sent; None if unknown.
        rack: `client.rack`; None if not set, or unknown.
        before: number of partitions before the rebalance.
        after: number of partitions after the rebalance.
        kept: number of partitions that the member keeps.
        depends_on_id: whether the member's partitions depend on ids, or the order of topics, of new
            members; None if not checked.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    rack: str | None
    before: int
    after: int
    kept: int
    depends_on_id: bool | None = False


@dataclass(frozen=True, slots=True)
class AssignPlan:
    """Result of a dry run.

    Attributes:
        id: group id, or id of the spec.
        protocol: "classic", "consumer", "share", "streams", "classic-streams", "connect" or
            "zookeeper".
        computed_as: implemented software: for a classic group, the client library of the leader, as
            far as known.
        rebalance: "eager" (all members stop), "cooperative" (only partitions that move stop) or
            "incremental" (the coordinator reconciles each member).
        leader_id: member that runs the assignor; None if the coordinator does, or it is unknown.
        error: failure of the assignor; there is no assignment then.
        departed: members that have left since the previous assignment.
        before: previous partitions by member, including members that have left.
        assignment: new partitions by member, in the assignor's order.
        members: all members, in the order of the assignment.
        moves: partitions that change their owner, by topic and partition.
        kept: number of partitions that keep their owner.
        rack_local: number of partitions with a replica in their owner's rack; None if no racks are
            known.
        warnings: faults and uncertainties of the result, as sentences.
        threads: partitions by thread, including idle ones; None except for ZooKeeper consumers.
        owners: current and computed owners; None except for ZooKeeper consumers.
        overlaps: ZooKeeper consumers that can claim each other's partitions; None for other groups.
        connect: what a rebalance of Connect's workers leaves to do; None for other groups.
        standby: Streams: standby tasks by member, where `assignment` has the active ones; None for
            other groups.
        streams: what a rebalance of classic Streams leaves to do; None for other groups.
    """

    id: str | None
    protocol: str
    strategy: str
    computed_as: str
    rebalance: str
    leader_id: str | None = None
    error: AssignFailure | None = None
    departed: tuple[MemberSpec, ...] = ()
    before: Mapping[str, Collection[TopicPartition]] = field(default_factory=dict)
    assignment: Mapping[str, tuple[TopicPartition, ...]] | None = None
    members: tuple[MemberOutcome, ...] = ()
    moves: tuple[Move, ...] = ()
    kept: int | None = None
    balance: Balance | None = None
    rack_local: int | None = None
    warnings: tuple[str, ...] = ()
    threads: Mapping[ThreadId, tuple[TopicPartition, ...]] | None = None
    owners: tuple[PartitionOwner, ...] | None = None
    overlaps: tuple[Overlap, ...] | None = None
    connect: ConnectRebalance | None = None
    standby: Mapping[str, tuple[TopicPartition, ...]] | None = None
    streams: StreamsRebalance | None = None


def dry_run(spec: GroupSpec, *, warns: bool = True) -> AssignPlan:
    """Run the assignor of a group, and compare the result with the current assignment.

    Args:
        spec: the group.
        warns: whether to add warnings; some of them require many more runs of the assignor.
    """
    by_members = ("classic", "connect", CLASSIC_STREAMS)
    cooperative = "cooperative" if spec.protocol in by_members else "incremental"
    plan = AssignPlan(
        id=spec.id,
        protocol=spec.protocol,
        strategy=spec.strategy,
        computed_as=str(spec.computed_as),
        rebalance=cooperative if spec.is_cooperative else "eager",
        leader_id=spec.leader_id,
        departed=spec.departed,
        overlaps=overlaps(spec) if spec.protocol == "zookeeper" else None,
    )
    threads: ThreadAssignment | None = None
    own_warnings: Iterator[str] | None = None  # of protocols whose members get tasks
    try:
        if spec.protocol == "zookeeper":
            threads = assign_threads(spec)
            assignment = by_member(spec, threads)
        elif spec.protocol == "connect":
            assignment, rebalance = assign_workers(spec)
            plan = replace(plan, connect=rebalance)
            own_warnings = connect_warnings(spec, rebalance)
        elif spec.protocol == "streams":
            assignment, standby = assign_tasks(spec)
            plan = replace(plan, standby=standby)
            own_warnings = streams_warnings(spec)
        elif spec.protocol == CLASSIC_STREAMS:
            assignment, standby, streams = assign_application(spec)
            plan = replace(plan, standby=standby, streams=streams)
            own_warnings = application_warnings(spec)
        else:
            assignment = _assigned(spec)
    except AssignorError as error:
        failure = AssignFailure(error.type, error.message or None)
        warnings = (_failure_warning(spec, error), *leader_warnings(spec)) if warns else ()
        return replace(plan, error=failure, warnings=warnings)
    members = (*spec.members, *spec.departed)
    before = {member.member_id: set(member.owned or ()) for member in members}
    lost = {name: had.difference(assignment.get(name, ())) for name, had in before.items()}
    moves = find_moves(before, assignment, lost)
    kept = {member_id: len(before[member_id]) - len(lost[member_id]) for member_id in assignment}
    by_topic = {
        name: Counter(map(itemgetter(0), partitions)) for name, partitions in assignment.items()
    }
    by_id = {member.member_id: member for member in spec.members}
    staying = sum(kept.values())
    if threads is not None:
        moves = with_threads(moves, members, threads)
        staying -= sum(move.from_member == move.to_member for move in moves)
        given = {thread: tuple(partitions) for thread, partitions in threads.items()}
        plan = replace(plan, threads=given, owners=ownership(spec, threads))
    return replace(
        plan,
        before=before,
        assignment=_as_tuples(assignment),
        members=tuple(
            MemberOutcome(
                member_id,
                member.instance_id,
                member.client_id,
                member.rack,
                len(before[member_id]),
                len(partitions),
                kept[member_id],
            )
            for member_id, partitions in assignment.items()
            for member in [by_id[member_id]]
        ),
        moves=with_lags(moves, spec.lags),
        kept=staying,
        balance=_balance(spec, assignment, by_topic),
        rack_local=_rack_local(spec, assignment),
        warnings=(
            *(own_warnings or _warnings(spec, assignment, by_topic, moves)),
            *chance_warnings(spec),
            *leader_warnings(spec),
            *member_warnings(spec),
            *version_warnings(spec),
            *vote_warnings(spec),
            *topic_warnings(spec),
        )
        if warns
        else (),
    )


def _assigned(spec: GroupSpec) -> Assignment:
    """Return the assignment; if the coordinator assigns, members leave, then join one by one.

    It assigns when it gets the first heartbeat after members have left, and with each member that
    joins (`GroupMetadataManager.consumerGroupHeartbeat`, `shareGroupHeartbeat`), but not again
    within `group.consumer.assignment.interval.ms`.
    """
    if keeps_assignment(spec):
        return {member.member_id: list(member.owned or ()) for member in spec.members}
    new = joining(spec)
    if not spec.has_topic_ids or len(new) + bool(spec.departed) < 2:
        return assign(with_kept_topics(spec))
    return _assigned_in_turn(spec, [*([staying(spec)] if spec.departed else ()), *joined(spec)])


def other_plans(spec: GroupSpec) -> Iterator[AssignPlan]:
    """Yield plans of a coordinator's group whose members leave and join in other steps.

    They only have the assignment, and standby tasks; if the assignor fails, not even these.
    """
    plan = AssignPlan(spec.id, spec.protocol, spec.strategy, str(spec.computed_as), "")
    if spec.protocol == "streams":
        for active, standby in other_tasks(spec):
            yield replace(plan, assignment=_as_tuples(active), standby=standby)
    for groups in _other_heartbeats(spec):
        try:
            yield replace(plan, assignment=_as_tuples(_assigned_in_turn(spec, groups)))
        except AssignorError:
            yield plan


def _as_tuples(assignment: Assignment) -> dict[str, tuple[TopicPartition, ...]]:
    return {member_id: tuple(partitions) for member_id, partitions in assignment.items()}


def _other_heartbeats(spec: GroupSpec) -> Iterator[Sequence[tuple[MemberSpec, ...]]]:
    """Yield the members at each assignment if heartbeats arrive in another order."""
    if not spec.has_topic_ids:
        return
    gone, stays, new = spec.departed, staying(spec), joining(spec)
    if gone and new:
        yield [spec.members]
    if len(new) > 1:
        left = [stays] if gone else []
        if gone:
            yield [stays, spec.members]
        for first in {new[0].topics: new[0], new[-1].topics: new[-1]}.values():
            yield [*left, (*stays, first), spec.members]
    for left in leaving_apart(stays, gone):
        yield [*left, *joined(spec)]


def joining(spec: GroupSpec) -> tuple[MemberSpec, ...]:
    """Return the new members of a group, which have no assignment yet."""
    return tuple(member for member in spec.members if member.unknown_id and member.owned is None)


def staying(spec: GroupSpec) -> tuple[MemberSpec, ...]:
    """Return the members of a group that are not new."""
    new = {member.member_id for member in joining(spec)}
    return tuple(member for member in spec.members if member.member_id not in new)


def joined(spec: GroupSpec) -> list[tuple[MemberSpec, ...]]:
    """Return the members of a group after each one that joins."""
    stays, new = staying(spec), joining(spec)
    return [(*stays, *new[:number]) for number in range(1, len(new) + 1)]


def _assigned_in_turn(spec: GroupSpec, groups: Iterable[tuple[MemberSpec, ...]]) -> Assignment:
    """Return the assignment to the last members after that to all before."""
    assignment: Assignment = {}
    last: dict[str, MemberSpec] = {}  # most members keep their partitions; replacing takes time
    for members in filter(None, groups):
        for member in members:
            known = last.get(member.member_id, member)
            owned = tuple(assignment.get(member.member_id, member.owned or ()))
            last[member.member_id] = (
                known if known.owned == owned else structs.replace(known, owned=owned)
            )
        now = tuple(last[member.member_id] for member in members)
        strategy = assignor_of(members, last_joined(members)) if spec.has_votes else spec.strategy
        assignment = assign(replace(spec, members=now, strategy=strategy))
    return assignment


def after(spec: GroupSpec, plan: AssignPlan) -> GroupSpec:
    """Return the group after its members have adopted the assignment."""
    assert plan.assignment is not None
    threads: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for (member_id, number), partitions in (plan.threads or {}).items():
        threads[member_id].update(dict.fromkeys(partitions, number))
    generation = 1 + max(
        (member.generation for member in spec.members if member.generation is not None), default=0
    )
    is_told = spec.computed_as.name == SARAMA
    returning = spec.returning if plan.connect and plan.connect.is_awaiting else ()
    here = {member.member_id for member in spec.members}
    return replace(
        spec,
        member_order=tuple(member_id for member_id in spec.member_order if member_id in here),
        departed=(),
        returning=() if returning else spec.returning,
        have_left=False,
        may_win=None,
        is_leader_new=False,
        have_subscribed=False,
        new_topics=frozenset(),
        grown_topics={},
        restarting=frozenset(),
        expiring=frozenset(),
        connect=None if plan.connect is None else plan.connect.cluster,
        application=None if plan.streams is None else plan.streams.application,
        members=tuple(
            structs.replace(
                member,
                owned=plan.assignment[member.member_id],
                standby=(plan.standby or {}).get(member.member_id, ()),
                generation=generation,
                subscription_generation=None,
                user_data=told_nothing(
                    spec.client_of(member).name, spec.strategy, by_sarama=is_told
                ),
                threads=threads[member.member_id],
                keeps=member.keeps if spec.strategy == COOPERATIVE_STICKY else None,
            )
            for member in spec.members
        )
        + returning,
    )


def _balance(
    spec: GroupSpec, assignment: Assignment, by_topic: Mapping[str, Counter[str]]
) -> Balance:
    counts = [len(partitions) for partitions in assignment.values()]
    subscribers: Counter[str] = Counter()
    for topics, members in Counter(member.topics for member in spec.members).items():
        subscribers.update(dict.fromkeys(topics, members))
    # Per topic: number of subscribers by number of partitions; first, only those with any.
    shares: dict[str, dict[int, int]] = {topic: {} for topic in spec.topics if topic in subscribers}
    every = Counter(
        chain.from_iterable(
            _of_topics(by_topic[member.member_id], member.topics).items() for member in spec.members
        )
    )
    for (topic, count), members in every.items():
        if topic in shares:
            shares[topic][count] = members
    for topic, of_topic in shares.items():
        idle = subscribers[topic] - sum(of_topic.values())
        if idle:
            of_topic[0] = idle
    return Balance(
        min(counts),
        max(counts),
        _deviation(Counter(counts)),
        tuple(
            sorted(
                (member_id for member_id, partitions in assignment.items() if not partitions),
                key=utf16,
            )
        ),
        tuple(
            TopicBalance(topic, min(shares[topic]), max(shares[topic]), _deviation(shares[topic]))
            for topic in sorted(shares, key=utf16)
        ),
    )


def _of_topics(counts: Mapping[str, int], topics: Collection[str]) -> Mapping[str, int]:
    """Return the counts of the given topics only."""
    if counts.keys() <= set(topics):
        return counts
    return {name: counts[name] for name in topics if name in counts}


def _deviation(shares: Mapping[int, int]) -> float:
    """Return the standard deviation of numbers, given with their frequencies."""
    total = sum(shares.values())
    mean = sum(number * times for number, times in shares.items()) / total
    squares = sum((number - mean) ** 2 * times for number, times in shares.items())
    return round(sqrt(squares / total), 3)


def _rack_local(spec: GroupSpec, assignment: Assignment) -> int | None:
    racks = {member.member_id: member.rack for member in spec.members if member.rack}
    if not racks or not any(topic.racks for topic in spec.topics.values()):
        return None
    return sum(
        racks[member_id] in spec.topics[topic].racks_of(number)
        for member_id, partitions in assignment.items()
        if member_id in racks
        for topic, number in partitions
        if topic in spec.topics and number < spec.topics[topic].partitions
    )


def _failure_warning(spec: GroupSpec, error: AssignorError) -> str:
    if spec.protocol == "zookeeper":
        return (
            f"Every consumer fails with {error.type}: Kafka's own assignor cannot assign "
            "this. Each consumer releases its partitions, tries again "
            "rebalance.max.retries times, and stops consuming; no partition has an owner "
            "until the registrations change."
        )
    who = "The group's leader" if spec.protocol == "classic" else "The coordinator"
    library = spec.computed_as.name
    whose = "Kafka" if spec.protocol != "classic" or library == KAFKA_CLIENTS else library
    if is_failure_open(spec):
        return (
            "The leader is unknown. The first member, which is assumed, fails with "
            f"{error}; another one would not. --leader ID computes with one."
        )
    fails = f"{who} fails with {error}: {whose}'s own assignor cannot assign this."
    until = "until the members' subscriptions or claimed partitions change."
    if spec.protocol != "classic":
        return f"{fails} The group is stuck {until}"
    then = ON_ERROR[library].assignor_failed
    leader = spec.leader
    for name, like in ASSIGNS_LIKE.items():
        if like.name == library and leader is not None and name in (leader.may_be or ()):
            then += f" (in {name}: {ON_ERROR[name].assignor_failed})"
    if able := able_leader(spec):
        option = f"--remove-member {leader.member_id}" if leader and not leader.unknown_id else ""
        was_assigned = leader is not None and leader.owned is not None
        leaves = ON_ERROR[library].retry.leaves(was_assigned=was_assigned)
        until = (
            f"until another member leads: {able} would not fail. The leader "
            f"{'leaves by itself' if leaves else 'must leave first'}; "
            f"{option or '--leader'} computes with that."
        )
    return f"{fails} Then, {then}. The group is stuck {until}"


def _warnings(
    spec: GroupSpec,
    assignment: Assignment,
    by_topic: Mapping[str, Counter[str]],
    moves: Sequence[Move],
) -> Iterator[str]:
    """Yield warnings about faults of the assignor's result."""
    counts = {name: topic.partitions for name, topic in spec.topics.items()}
    is_given = {name: bytearray(count) for name, count in counts.items()}
    missing: set[TopicPartition] = set()
    for partition in chain.from_iterable(assignment.values()):
        try:
            is_given[partition[0]][partition[1]] = True
        except (KeyError, IndexError):
            missing.add(partition)
    subscribed = {topics: frozenset(topics) for topics in {m.topics for m in spec.members}}
    foreign = [
        partition
        for member in spec.members
        if not by_topic[member.member_id].keys() <= subscribed[member.topics]
        for partition in set(assignment[member.member_id]) - missing
        if partition[0] not in subscribed[member.topics]
    ]
    distinct = sum(len(flags) - flags.count(0) for flags in is_given.values()) + len(missing)
    if spec.protocol != "share" and distinct < sum(map(len, assignment.values())):
        times = Counter(chain.from_iterable(map(set, assignment.values())))
        twice = [partition for partition, members in times.items() if members > 1]
        if twice:
            yield f"Assigned to more than one member at once: {_named(twice)}."
        if twice and spec.protocol == "zookeeper":
            yield (
                "Only one consumer can own such a partition in ZooKeeper. The others release "
                "their partitions, try again rebalance.max.retries times, and stop consuming."
            )
    if missing:
        yield f"Assigned to members, although these partitions do not exist: {_named(missing)}."
    if foreign:
        yield f"Assigned to members that do not subscribe to the topic: {_named(foreign)}."
    wanted = frozenset[str]().union(*subscribed.values())
    nobody = [
        (name, number)
        for name in wanted & counts.keys()
        if is_given[name].count(0)
        for number, flag in enumerate(is_given[name])
        if not flag
    ]
    if nobody and spec.protocol == "classic" and spec.is_cooperative:
        waiting = {  # assigned in the follow-up rebalance after their revocation
            (move.topic, move.partition)
            for move in moves
            if move.to_member is None and move.from_member in assignment
        }
        nobody = [partition for partition in nobody if partition not in waiting]
    absent = sorted(wanted - counts.keys() - spec.dropped_topics, key=utf16)
    if absent:
        yield (
            f"Subscribed topics without known partitions: {first_names(absent)}. They are "
            "treated as topics that do not exist; --partitions TOPIC=N says otherwise."
        )
    if nobody:
        yield f"Not assigned, although members subscribe: {_named(nobody)}."
    if any(member.is_subscription_assumed for member in spec.members):
        yield (
            "The actual assignment may be different: members subscribe differently, and those that "
            "join are taken to have the most common subscription; topics= says otherwise."
        )


def _named(partitions: Iterable[TopicPartition]) -> str:
    """Return the first partitions, and the number of the others."""
    return first_names(sorted(partitions, key=java_order), lambda at: f"{at[0]}-{at[1]}")
