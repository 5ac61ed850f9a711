"""Cooperative-sticky of librdkafka, and how all its assignors read members and topics.

It follows the algorithm of Java's sticky assignor of 2.4, with bugs of its own. Owned partitions
come from the subscription, not from user data. Strings are compared as UTF-8 bytes, which gives
Python's order.

Source: `rd_kafka_cgrp_handle_JoinGroup`, `rd_kafka_group_MemberMetadata_consumer_read`,
`rd_kafka_cooperative_protocol_adjust_assignment` (rdkafka_cgrp.c),
`rd_kafka_member_subscriptions_map`, `rd_kafka_group_member_cmp`,
`rd_kafka_use_rack_aware_assignment` (rdkafka_assignor.c), `rd_kafka_sticky_assignor_assign_cb`,
`prepopulateCurrentAssignments` and `PartitionMovements_*` (rdkafka_sticky_assignor.c) of librdkafka
2.16, 2.6.0 and 2.1.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, TopicMetadata, uses_racks
from kgroup.assignor.client.load import Loads
from kgroup.assignor.java.scala_hash import champ_order
from kgroup.assignor.sticky.claim import or_no_generation
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import string_hash

_MOST_TOPICS = 10_000
_SMALL_SET = 4


@dataclass(frozen=True, slots=True)
class EligibleTopic:
    """A topic and the members that subscribe to it.

    Attributes:
        name: topic name.
        partitions: number of partitions; 0 if the topic does not exist.
        racks: racks of the replicas, by partition, where known.
        members: in the order of the JoinGroup response.
    """

    name: str
    partitions: int
    racks: tuple[frozenset[str], ...]
    members: tuple[Subscriber, ...]


def crash(signal: str, reason: str) -> AssignorError:
    """Return the error of a leader whose process is killed by a signal."""
    return AssignorError(signal, f"the leader's process ends: {reason}")


def read(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Return the members whose subscriptions the leader reads; the others get nothing."""
    return [member for member in members if 0 < len(member.topics) <= _MOST_TOPICS]


def eligible_topics(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> list[EligibleTopic]:
    """Return the topics in the order of the Metadata response to the leader's request."""
    asked = list(dict.fromkeys(name for member in members for name in member.topics))
    eligible = []
    subscribers: dict[str, dict[str, Subscriber]] = {name: {} for name in asked}
    for member in members:
        for name in member.topics:
            subscribers[name][member.member_id] = member
    for name in _as_broker_answers(asked):
        topic = topics.get(name, TopicMetadata(0))
        racks = tuple(map(topic.racks_of, range(topic.partitions)))
        own = tuple(subscribers[name].values())
        eligible.append(EligibleTopic(name, topic.partitions, racks, own))
    return eligible


def _as_broker_answers(names: Sequence[str]) -> list[str]:
    """Return names in the order of a broker's response: it puts requested topics in a Scala set.

    Source: `KafkaApis.handleTopicMetadataRequest` of Kafka 2.6 and later, on Scala 2.13.
    """
    if len(names) <= _SMALL_SET:
        return list(names)
    return champ_order(names, [*map(string_hash, names)])


def in_order(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Return members sorted: two static ones by instance id, any other two by member id.

    With members of both kinds this is not an ordering, and the result depends on how the C library
    sorts: glibc merges two sorted halves.
    """
    if len(members) < 2:
        return list(members)
    half = len(members) // 2
    first, second = in_order(members[:half]), in_order(members[half:])
    merged = []
    while first and second:
        merged.append((second if _is_behind(first[0], second[0]) else first).pop(0))
    return merged + first + second


def _is_behind(member: Subscriber, other: Subscriber) -> bool:
    if member.instance_id is not None and other.instance_id is not None:
        return member.instance_id > other.instance_id
    return member.member_id > other.member_id


def need_racks(topics: Sequence[EligibleTopic]) -> bool:
    """Return whether the assignment of these topics is rack-aware."""
    racks = frozenset(member.rack for topic in topics for member in topic.members if member.rack)
    return uses_racks(racks, [racks for topic in topics for racks in topic.racks])


@dataclass
class _Claims:
    """The initial state of the assignor.

    If members claim a partition in several generations, the attributes contradict each other, and
    some moves go wrong: a partition may get two owners.

    Attributes:
        assigned: accepted claims, by member id.
        owner: last member of the JoinGroup response that claims a partition, by partition.
        earlier: member with the claim before the accepted one, by partition.
    """

    assigned: Assignment
    owner: dict[TopicPartition, str]
    earlier: dict[TopicPartition, str]


def claims(members: Sequence[Subscriber]) -> _Claims:
    """Return the claims with the highest generation; two with the same one are both dropped."""
    claims = _nothing(members)
    for partition, own in reversed(_by_partition(members).items()):
        own.sort(key=_generation)
        if len({*map(_generation, own)}) < len(own):
            del claims.owner[partition]
            continue
        claims.assigned[own[-1].member_id].append(partition)
        if len(own) > 1:
            claims.earlier[partition] = own[-2].member_id
    return claims


def claims_before_2_2(members: Sequence[Subscriber]) -> _Claims:
    """Return the first claims in the order of the JoinGroup response; generations are ignored."""
    claims = _nothing(members)
    for partition, own in reversed(_by_partition(members).items()):
        claims.assigned[own[0].member_id].append(partition)
        if len(own) > 1:
            claims.earlier[partition] = own[1].member_id
    return claims


def _nothing(members: Sequence[Subscriber]) -> _Claims:
    owner = {partition: member.member_id for member in members for partition in member.owned}
    return _Claims({member.member_id: [] for member in members}, owner, {})


def _by_partition(members: Sequence[Subscriber]) -> dict[TopicPartition, list[Subscriber]]:
    by_partition: dict[TopicPartition, list[Subscriber]] = {}
    for member in members:
        for partition in member.owned:
            by_partition.setdefault(partition, []).append(member)
    return by_partition


def _generation(member: Subscriber) -> int:
    return or_no_generation(member.generation)


_Pair = tuple[str, str]


class _Movements:
    """The moves so far; avoids that two partitions of a topic change places.

    librdkafka reads freed memory here. If the result depends on its content, the process crashes:
    with glibc since 2.32, the content is no valid address.
    """

    def __init__(self) -> None:
        self._pair: dict[TopicPartition, _Pair] = {}
        """The last pair of members of each partition, also of one that moved back."""
        self._moved: dict[str, dict[_Pair, _Moved]] = {}

    def instead(self, partition: TopicPartition, owner: str, to: str) -> TopicPartition:
        """Return the partition to move: one that moved the opposite way, if there is any."""
        pairs = self._moved.get(partition[0], {})
        if partition in self._pair and self._pair[partition][1] != owner:
            raise crash("SIGABRT", f"{partition} was moved back and is to be moved again")
        back = _find(pairs, (to, owner))
        return partition if back is None else back.partitions[0]

    def add(self, partition: TopicPartition, owner: str, to: str) -> TopicPartition:
        """Record a move; several moves of a partition become one, from its first owner.

        Returns the partition that moves: if several were moved between two members and one moves
        back, it is the next of these.
        """
        pairs = self._moved.setdefault(partition[0], {})
        if partition not in self._pair:
            self._note(pairs, partition, (owner, to))
            return partition
        pair = self._pair[partition]
        moved = _find(pairs, pair)
        if moved is None:
            raise crash("SIGABRT", f"{partition} was moved back and is to be moved again")
        if partition in moved.partitions:
            moved.partitions.remove(partition)
        if not moved.partitions:
            del pairs[pair]
        if pair[1] != owner:
            raise crash("SIGABRT", f"{partition} was moved back and is to be moved again")
        if pair[0] != to:
            moved.is_dangling |= moved.first == partition
            self._note(pairs, partition, (pair[0], to))
            return partition
        if not moved.partitions:
            raise _undefined()
        return moved.partitions[0]

    def _note(self, pairs: dict[_Pair, _Moved], partition: TopicPartition, pair: _Pair) -> None:
        self._pair[partition] = pair
        moved = _find(pairs, pair)
        if moved is None:
            pairs[pair] = _Moved(partition)
        else:
            moved.partitions.append(partition)


class _Moved:
    """Partitions that moved between two members.

    Attributes:
        first: the first of them; the key of the map points to its pair of members.
        partitions: all of them.
        is_dangling: whether that pair has been freed.
    """

    def __init__(self, partition: TopicPartition) -> None:
        self.first = partition
        self.partitions = [partition]
        self.is_dangling = False


def _find(pairs: dict[_Pair, _Moved], pair: _Pair) -> _Moved | None:
    moved = pairs.get(pair)
    if moved is not None and moved.is_dangling:
        raise _undefined()
    return moved


def _undefined() -> AssignorError:
    return crash("SIGSEGV", "it reads memory that it has given back")


_RACK_FROM = 3
_OWNED_FROM = 1


def assign_sticky(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as leaders of 2.6.1 and later do; see `ClassicAssignor`."""
    return _assign(members, topics, _Balance, claims)


def assign_sticky_before_2_6_1(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as leaders of 2.2.0 to 2.6.0 do, which may take an uneven group for balanced."""
    return _assign(members, topics, _SkippingBalance, claims)


def assign_sticky_before_2_2(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as leaders of 1.7.0 to 2.1.1 do: without racks and generations."""
    return _assign(members, topics, _SkippingBalance, claims_before_2_2, uses_racks=False)


def _assign(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    balance: type[_Balance],
    read_claims: Callable[[Sequence[Subscriber]], _Claims],
    *,
    uses_racks: bool = True,
) -> Assignment:
    readable = read(members)
    if not readable:
        raise crash("SIGSEGV", "it can read no member's subscription")
    eligible = eligible_topics(readable, topics)
    uses_racks = uses_racks and need_racks(eligible)
    if uses_racks and any(
        member.version < _RACK_FROM for topic in eligible for member in topic.members
    ):
        raise crash("SIGSEGV", "racks matter, and a member's subscription has no place for one")
    assigned = balance(readable, eligible, read_claims(readable), uses_racks=uses_racks).assign()
    if any(member.version < _OWNED_FROM for member in readable):
        raise crash("SIGSEGV", "a member's subscription has no place for what it owns")
    return {member.member_id: [] for member in members} | _without_transfers(readable, assigned)


def _without_transfers(members: Sequence[Subscriber], assigned: Assignment) -> Assignment:
    """Remove partitions that another member still owns, and return owned ones that nobody got.

    The partitions that a member keeps come first, then those that were free.
    """
    by_id = {member.member_id: member for member in members}
    owner = _holders({member.member_id: member.owned for member in members})
    taker = _holders(assigned)
    partitions: Assignment = {member.member_id: [] for member in members}
    for partition, member_id in taker.items():
        if partition in owner and _is_same(by_id[member_id], by_id[owner[partition]]):
            partitions[owner[partition]].append(partition)
    for partition, member_id in taker.items():
        if partition not in owner:
            partitions[member_id].append(partition)
    for partition, member_id in owner.items():
        if partition not in taker:
            partitions[member_id].append(partition)
    return partitions


def _holders(held: Mapping[str, Iterable[TopicPartition]]) -> dict[TopicPartition, str]:
    """Return the last member that holds each partition, in the order of first appearance."""
    return {partition: member_id for member_id, own in held.items() for partition in own}


def _is_same(member: Subscriber, other: Subscriber) -> bool:
    """Return whether `rd_kafka_group_member_cmp` finds two members equal."""
    if member.instance_id is not None and other.instance_id is not None:
        return member.instance_id == other.instance_id
    return member.member_id == other.member_id


class _Balance:
    """State of the group during balancing.

    The hash maps of librdkafka iterate from the last inserted key to the first.
    """

    _checks_often = False
    """Whether the test for balance before each partition may end otherwise than it should."""

    def __init__(
        self,
        members: Sequence[Subscriber],
        eligible: Sequence[EligibleTopic],
        claims: _Claims,
        *,
        uses_racks: bool,
    ) -> None:
        self._ids = [member.member_id for member in members]
        self._eligible = eligible
        self._subscribed = {member.member_id: frozenset(member.topics) for member in members}
        self._takers = {
            topic.name: dict.fromkeys(member.member_id for member in topic.members)
            for topic in eligible
        }
        self._partitions = [
            (topic.name, number) for topic in eligible for number in range(topic.partitions)
        ]
        self._topics = {
            own: [topic for topic in eligible if topic.name in own]
            for own in set(self._subscribed.values())
        }
        self._possible = {
            own: sum(topic.partitions for topic in topics) for own, topics in self._topics.items()
        }
        self._racks = {
            (topic.name, number): topic.racks[number] if uses_racks else None
            for topic in eligible
            for number in range(topic.partitions)
        }
        self._rack = {
            member.member_id: member.rack
            for topic in (eligible if uses_racks else ())
            for member in topic.members
        }
        self._assigned = claims.assigned
        self._owner = claims.owner
        self._earlier = claims.earlier
        self._movements = _Movements()
        self._holder: dict[TopicPartition, str] = {}
        """First of the members that take part which owns the partition, by partition."""
        self._is_even: bool | None = None
        self._largest: dict[str, int] = {}
        """Largest load of the members that own partitions of a topic; valid until a move."""
        self._is_sound = False
        """Whether the attributes agree, so that a partition that can move proves imbalance."""

    def assign(self) -> Assignment:
        """Assign as if all partitions could move at once."""
        in_turn = self._sort_partitions()
        kept, is_revoking = self._keep_what_fits()
        free = [partition for partition in in_turn if partition not in kept]
        self._loads = Loads(self._assigned, self._takers)
        is_initial = not any(self._assigned.values())
        left = free
        if self._rack:
            left = [partition for partition in free if not self._give(partition, by_rack=True)]
        for partition in left:
            self._give(partition, by_rack=False)
        in_turn = [partition for partition in in_turn if len(self._takers[partition[0]]) > 1]
        free = [partition for partition in free if len(self._takers[partition[0]]) > 1]
        fixed = self._set_aside()
        self._loads = Loads(self._assigned, self._takers)
        before = {member_id: list(own) for member_id, own in self._assigned.items()}
        for member_id, own in reversed(self._assigned.items()):
            self._holder.update(dict.fromkeys(own, member_id))
        self._is_sound = self._agree()
        if not is_revoking and free:
            self._reassign(free)
        if self._reassign(in_turn) and not is_initial and _score(self._assigned) >= _score(before):
            self._assigned = before
        return {member_id: (self._assigned | fixed)[member_id] for member_id in self._ids}

    def _sort_partitions(self) -> list[TopicPartition]:
        """Return partitions in the order in which they move, and sort each member's own."""
        by_takers = sorted(
            self._partitions, key=lambda partition: (len(self._takers[partition[0]]), partition)
        )
        eligible = {topic.name for topic in self._eligible if topic.partitions}
        if len({own & eligible for own in self._subscribed.values()}) > 1:
            return by_takers
        left = {}
        for member_id, own in self._assigned.items():
            own.sort()
            existing = [partition for partition in own if partition in self._racks]
            # what another member had before goes first
            left[member_id] = sorted(existing, key=lambda partition: partition not in self._earlier)
        sizes = defaultdict(list)
        for member_id, own in left.items():
            sizes[len(own)].append(member_id)
        in_turn: list[TopicPartition] = []
        for size in range(max(sizes), 0, -1):
            for member_id in sorted(sizes[size], reverse=True):
                in_turn.append(left[member_id].pop(0))
                sizes[size - 1].append(member_id)
        if not in_turn:
            return by_takers
        partitions = set(in_turn)
        return in_turn + [
            partition for partition in reversed(self._partitions) if partition not in partitions
        ]

    def _keep_what_fits(self) -> tuple[set[TopicPartition], bool]:
        """Remove from members the partitions that they cannot keep.

        Returns the partitions that are kept, and whether an existing partition was removed.
        """
        kept: set[TopicPartition] = set()
        is_revoking = False
        for member_id, own in self._assigned.items():
            fitting = []
            for partition in own:
                if partition not in self._racks:
                    self._owner.pop(partition, None)
                elif partition[0] not in self._subscribed[member_id] or self._is_elsewhere(
                    member_id, partition
                ):
                    is_revoking = True
                else:
                    fitting.append(partition)
            kept.update(fitting)
            self._assigned[member_id] = fitting
        return kept, is_revoking

    def _is_elsewhere(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether racks count and a partition has no replica in the member's rack."""
        racks = self._racks[partition]
        if racks is None:
            return False
        rack = self._rack.get(member_id)
        return rack is not None and rack not in racks

    def _give(self, partition: TopicPartition, *, by_rack: bool) -> bool:
        """Assign a partition to the first member that can take it, in its rack if `by_rack`."""
        to = self._loads.least(partition[0])
        if by_rack:
            takers = self._takers[partition[0]]
            to = next(
                (
                    member_id
                    for member_id in self._loads.in_order()
                    if member_id in takers and not self._is_elsewhere(member_id, partition)
                ),
                None,
            )
        if to is None:
            return False
        self._assigned[to].append(partition)
        self._owner[partition] = to
        self._loads.set(to, len(self._assigned[to]))
        return True

    def _set_aside(self) -> Assignment:
        """Remove members that can neither get nor lose a partition, with their partitions."""
        fixed = {
            member_id: self._assigned[member_id]
            for member_id in self._ids
            if len(self._assigned[member_id]) >= self._most(member_id)
            and all(len(self._takers.get(topic, ())) < 2 for topic, _ in self._assigned[member_id])
        }
        for member_id in fixed:
            del self._assigned[member_id]
        return fixed

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions repeatedly until the balance no longer improves."""
        has_moved = False
        goes_on = True
        while goes_on:
            goes_on = False
            for partition in partitions:
                if (self._checks_often or not self._is_sound) and self._balanced():
                    break
                to = self._better(partition)
                if to is None:
                    continue
                if partition in self._earlier and self._balanced():
                    break
                self._move(partition, to)
                goes_on = has_moved = True
        return has_moved

    def _agree(self) -> bool:
        """Return whether `_is_sound` holds before the first move.

        Each partition has one owner, and members that could take or had it before take part.
        """
        return (
            sum(map(len, self._assigned.values())) == len(self._holder)
            and all(self._owner.get(partition) == at for partition, at in self._holder.items())
            and self._assigned.keys() >= set(self._earlier.values())
            and all(
                self._assigned.keys() >= self._takers[topic.name].keys()
                and all((topic.name, number) in self._holder for number in range(topic.partitions))
                for topic in self._eligible
                if topic.partitions
                and (len(topic.members) > 1 or topic.members[0].member_id in self._assigned)
            )
        )

    def _better(self, partition: TopicPartition) -> str | None:
        """Return the member to which a partition moves; None if it stays."""
        owner = self._owner[partition]
        count = self._size(owner)
        earlier = self._earlier.get(partition)
        if earlier is not None and count > self._size(earlier) + 1:
            return earlier
        if not self._is_sound and not any(
            other != owner and count > self._size(other) + 1 for other in self._takers[partition[0]]
        ):
            return None
        least = self._loads.least(partition[0])
        return None if least is None or count <= len(self._assigned[least]) + 1 else least

    def _move(self, partition: TopicPartition, to: str) -> None:
        moved = self._movements.instead(partition, self._owner[partition], to)
        owner = self._owner[moved]
        moved = self._movements.add(moved, owner, to)
        self._size(owner)
        self._assigned[to].append(moved)
        if moved in self._assigned[owner]:
            self._assigned[owner].remove(moved)
        else:
            self._is_sound = False
        self._is_sound &= to in self._takers[moved[0]]
        self._owner[moved] = to
        self._holder[moved] = (
            to
            if self._is_sound
            else next(member_id for member_id, own in self._assigned.items() if moved in own)
        )
        for member_id in (owner, to):
            self._loads.set(member_id, len(self._assigned[member_id]))
        self._is_even = None
        self._largest.clear()

    def _size(self, member_id: str) -> int:
        if member_id not in self._assigned:
            raise crash("SIGSEGV", f"{member_id} is claimed to own what it cannot have")
        return len(self._assigned[member_id])

    def _balanced(self) -> bool:
        if self._is_even is None:
            self._is_even = self._find_whether_balanced()
        return self._is_even

    def _find_whether_balanced(self) -> bool:
        if not self._assigned:
            raise crash("SIGSEGV", "no member is left that takes part")
        return self._loads.are_even or not self._can_gain()

    def _can_gain(self) -> bool:
        """Return whether a member could take a partition from one that has more."""
        return any(map(self._gains, self._loads.in_order()))

    def _gains(self, member_id: str) -> bool:
        count = len(self._assigned[member_id])
        if count == self._most(member_id):
            return False
        topics = self._topics[self._subscribed[member_id]]
        if self._is_sound:
            return any(count < self._most_of_owners(topic) for topic in topics)
        own = set(self._assigned[member_id])
        for topic in topics:
            for number in range(topic.partitions):
                partition = topic.name, number
                if partition not in own:
                    if partition not in self._holder:
                        raise crash("SIGSEGV", f"{partition} has no owner that takes part")
                    if count < len(self._assigned[self._holder[partition]]):
                        return True
        return False

    def _most_of_owners(self, topic: EligibleTopic) -> int:
        if topic.name not in self._largest:
            owners = {self._holder[topic.name, number] for number in range(topic.partitions)}
            self._largest[topic.name] = max((len(self._assigned[at]) for at in owners), default=0)
        return self._largest[topic.name]

    def _most(self, member_id: str) -> int:
        return self._possible[self._subscribed[member_id]]


class _SkippingBalance(_Balance):
    _checks_often = True

    def _can_gain(self) -> bool:
        """Return whether a member can get more; some members are skipped after one that can.

        The C code counts members and the partitions of each with the same variable.
        """
        at = 0
        seen = set()
        members = list(self._loads.in_order())
        while at < len(members):
            member_id = members[at]
            if self._gains(member_id):
                return True
            if len(self._assigned[member_id]) != self._most(member_id):
                if at in seen:
                    raise AssignorError("EndlessLoop", "the leader goes on forever")
                seen.add(at)
                at = self._most(member_id)
            at += 1
        return False


def _score(assigned: Assignment) -> int:
    """Return the sum of load differences over all pairs of members."""
    sizes = sorted(map(len, assigned.values()))
    return sum(size * (2 * at - len(sizes) + 1) for at, size in enumerate(sizes))
