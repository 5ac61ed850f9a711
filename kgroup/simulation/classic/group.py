"""A classic group in the coordinator's memory: members, protocols, generation, state.

`coordinator` decides which request is allowed in which state.

Source: `GroupMetadata` and `MemberMetadata` of Kafka 1.1.1, 2.8.2 and 3.9.2, `ClassicGroup` and
`ClassicGroupMember` of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

from kgroup.assignor.java.java_hash import JavaHashMap, spread, utf16
from kgroup.assignor.java.scala_hash import champ_order, immutable_order, mutable_bucket
from kgroup.described_enum import DescribedEnum
from kgroup.model.group import GroupState
from kgroup.model.offsets_partition import java_int, string_hash
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.consumer_protocol import decode_subscription
from kgroup.simulation.clock import Timer
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.message import (
    CONSUMER,
    DescribeAnswer,
    DescribedMember,
    JoinedMember,
    JoinGroup,
    Protocol,
    SyncGroup,
)
from kgroup.simulation.rules import (
    JAVA,
    RETENTION_WHEN_EMPTY,
    SAME_CHECKS,
    SCALA_2_13,
    STATIC_MEMBERS,
    UNREAD_TOPICS_EXPIRE,
    Version,
)


class MemberTable(Interface):
    """Member ids in the iteration order of a broker's hash table.

    The order decides which member becomes leader after the leader leaves, in which order the leader
    receives the members, and which protocol wins a tie. Tables grow and never shrink, so the order
    depends on the history of the group.

    Source: `GroupMetadata.members`, a `scala.collection.mutable.HashMap`, of Scala 2.11 and 2.12 up
    to Kafka 2.5 and of Scala 2.13 up to 3.9; `ClassicGroup.members`, a `java.util.HashMap`, since
    4.0.
    """

    def put(self, name: str) -> None:
        """Add a name; no effect if it is present."""

    def remove(self, name: str) -> None:
        """Remove a name that is present."""

    def __iter__(self) -> Iterator[str]: ...


class _JavaTable:
    def __init__(self) -> None:
        self._map: JavaHashMap[str] = JavaHashMap()

    def put(self, name: str) -> None:
        self._map.put(name, string_hash(name), utf16(name))

    def remove(self, name: str) -> None:
        self._map.remove(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._map)


class _ScalaTable:
    """A chained hash table; subclasses implement what differs between versions of Scala."""

    def __init__(self) -> None:
        self._size = 16
        self._buckets: dict[int, list[str]] = {}
        self._count = 0

    def remove(self, name: str) -> None:
        index = self._bucket(name)
        self._buckets[index].remove(name)
        if not self._buckets[index]:
            del self._buckets[index]
        self._count -= 1

    def _bucket(self, name: str) -> int:
        raise NotImplementedError


class _Scala211Table(_ScalaTable):
    """A table that iterates from the last bucket; new entries go to the front of their bucket."""

    def put(self, name: str) -> None:
        if name in self._buckets.get(self._bucket(name), ()):
            return
        self._buckets.setdefault(self._bucket(name), []).insert(0, name)
        self._count += 1
        if self._count > self._size * 3 // 4:
            names = list(self)
            self._size *= 2
            self._buckets = {}
            for listed in names:
                self._buckets.setdefault(self._bucket(listed), []).insert(0, listed)

    def __iter__(self) -> Iterator[str]:
        for _, chain in sorted(self._buckets.items(), reverse=True):
            yield from chain

    def _bucket(self, name: str) -> int:
        return mutable_bucket(name, self._size)


class _Scala213Table(_ScalaTable):
    """A table that iterates from the first bucket; each bucket is sorted by hash."""

    def put(self, name: str) -> None:
        if name in self._buckets.get(self._bucket(name), ()):
            return
        self._count += 1
        if self._count >= self._size * 3 // 4:
            names = list(self)
            self._size *= 2
            self._buckets = {}
            for listed in names:
                self._add(listed)
        self._add(name)

    def _add(self, name: str) -> None:
        chain = self._buckets.setdefault(self._bucket(name), [])
        chain.append(name)
        chain.sort(key=lambda key: java_int(spread(string_hash(key))))  # stable sort

    def __iter__(self) -> Iterator[str]:
        for _, chain in sorted(self._buckets.items()):
            yield from chain

    def _bucket(self, name: str) -> int:
        return spread(string_hash(name)) & (self._size - 1)


def member_table(version: Version) -> MemberTable:
    """Return an empty table of the kind that brokers of this version use for members."""
    if version >= JAVA:
        return _JavaTable()
    return _Scala213Table() if version >= SCALA_2_13 else _Scala211Table()


def leader_order(names: Sequence[str], version: Version) -> list[str]:
    """Return members in the order in which the leader receives them.

    Before 2.3, brokers copied them to a second table, and from there to an immutable map.

    Args:
        names: member ids in the order of the member table.
        version: version of the broker.
    """
    if version >= STATIC_MEMBERS:
        return list(names)
    again = _Scala211Table()
    for name in names:
        again.put(name)
    in_order = list(again)
    return immutable_order(in_order, [string_hash(name) for name in in_order])


def winner(votes: Iterable[str], version: Version) -> str:
    """Return the name with the most votes; the first in the broker's table order wins a tie.

    Source: `selectProtocol` of `GroupMetadata` and `ClassicGroup`.
    """
    counts = Counter(votes)
    table = member_table(version)
    for name in counts:
        table.put(name)
    names = list(table)
    if version < JAVA:
        order: Callable[[Sequence[str], Sequence[int]], list[str]] = (
            champ_order if version >= SCALA_2_13 else immutable_order
        )
        names = order(names, [string_hash(name) for name in names])
    return max(names, key=counts.__getitem__)


class RebalanceCause(DescribedEnum):
    """Reasons for a rebalance or for removing a member."""

    MEMBER_JOINED = ("member joined", "A new member joined the group.")
    MEMBER_CHANGED = ("member changed", "A member rejoined with another subscription.")
    LEADER_JOINED = ("leader joined again", "The leader rejoined to request a rebalance.")
    STATIC_MEMBER_CAME_BACK = (
        "static member came back",
        "A static member rejoined and changed the strategy, or rejoined while members were "
        "joining.",
    )
    MEMBER_LEFT = ("member left", "A member left the group, or an administrator removed it.")
    SESSION_EXPIRED = (
        "session expired",
        "The coordinator heard nothing from a member for its session timeout: the member crashed, "
        "or was paused.",
    )
    NOT_JOINED = ("not joined in time", "A member did not rejoin within the rebalance timeout.")
    NOT_SYNCED = ("not synced in time", "A member joined, but did not ask for its assignment.")
    NOT_REVOKED = (
        "not revoked in time",
        "A member of a consumer group did not revoke partitions within its rebalance timeout.",
    )
    TOPICS_CHANGED = (
        "topics changed",
        "A topic that a consumer group subscribes to was created, got partitions, or was deleted.",
    )
    RECORD_TOO_LARGE = (
        "record too large",
        "The record of a classic group exceeds `message.max.bytes`: the members receive an error "
        "instead of their assignment.",
    )
    TOO_MANY_MEMBERS = (
        "too many members",
        ("The coordinator loaded a group that exceeds the maximum group size."),
    )


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member of a classic group.

    Attributes:
        protocols: supported protocols, in order of preference.
        assignment: assignment from the leader; b"" before it.
        awaiting_join: unanswered JoinGroup request, if any.
        awaiting_sync: unanswered SyncGroup request, if any.
        is_new: the member has never been in a generation.
        session: timer that removes the member when its session times out.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    awaiting_join: JoinGroup | None = None
    awaiting_sync: SyncGroup | None = None
    is_new: bool = False
    session: Timer | None = None

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for a protocol that it supports."""
        return next(
            supported.metadata for supported in self.protocols if supported.name == protocol
        )

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the member's most preferred protocol among the candidates."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)


class Watch(Interface):
    """An observer of a group's changes."""

    def moved(self, group: ClassicGroup, cause: RebalanceCause | None) -> None:
        """Handle a new state of the group; `cause` is set if a rebalance began."""

    def removed(self, group: ClassicGroup, member_id: str, cause: RebalanceCause) -> None:
        """Handle the removal of a member."""


class ClassicGroup:
    """A classic group.

    Args:
        group_id: id of the group.
        version: version of the broker.
        now_ms: time of creation, in ms.
        watch: observer of the group's changes.

    Attributes:
        state: current state; `state_timestamp_ms` is when it began.
        leader_id: the member that assigns: the first to join, and after it leaves, the first in the
            order of the coordinator's table.
        pending_joins: member ids given out to clients that have not joined with them, and the
            timers that drop them.
        pending_syncs: members of this generation that have not synced.
        is_initial: the last rebalance began in an empty group, with the initial delay.
        has_new_member: a member joined during that delay, which extends it.
        subscribed_topics: topics of the consumers of this generation; None if unknown.
        record_bytes: size of the last record with members, as a batch, written or too large.
        joining: number of members that have joined and wait for the others.
        join: timer that ends the join phase; `sync`: the same for the sync phase.
    """

    def __init__(self, group_id: str, version: Version, now_ms: int, watch: Watch) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms: int | None = now_ms
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.pending_joins: dict[str, Timer] = {}
        self.pending_syncs: set[str] = set()
        self.has_new_member = False
        self.is_initial = False
        self.subscribed_topics: frozenset[str] | None = None
        self.record_bytes: int | None = None
        self.joining = 0
        self.join: Timer | None = None
        self.sync: Timer | None = None
        self._version = version
        self._watch = watch
        self._members: dict[str, ClassicMember] = {}
        self._statics: dict[str, str] = {}
        self._supported: Counter[str] = Counter()
        self._order = member_table(version)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._members[member_id]

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> list[ClassicMember]:
        """All members, in the order of the coordinator's table."""
        return [self._members[member_id] for member_id in self._order]

    @property
    def has_all_joined(self) -> bool:
        """Whether no member is awaited any more."""
        return not self.pending_joins and self.joining == len(self._members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long to wait for members, in ms: the longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def static_id(self, instance_id: str | None) -> str | None:
        """Return the member id of a static member; None if the instance is unknown."""
        return None if instance_id is None else self._statics.get(instance_id)

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one sets the protocol type and becomes leader."""
        if not self._members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._put(member)
        self._supported.update(protocol.name for protocol in member.protocols)
        if member.instance_id is not None:
            self._statics[member.instance_id] = member.member_id
        self.forget_pending(member.member_id)

    def remove(self, member_id: str, cause: RebalanceCause) -> None:
        """Remove a member if it exists; if it was leader, another member becomes leader."""
        if (member := self._members.pop(member_id, None)) is not None:
            self._watch.removed(self, member_id, cause)
            self._order.remove(member_id)
            self._supported.subtract(protocol.name for protocol in member.protocols)
            if member.instance_id is not None:
                self._statics.pop(member.instance_id, None)
            if member.session is not None:
                member.session.cancel()
            self.joining -= member.awaiting_join is not None
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._order), None)
        self.pending_syncs.discard(member_id)
        if self._version >= SAME_CHECKS:
            self.forget_pending(member_id)

    def await_join(self, member: ClassicMember, request: JoinGroup | None) -> JoinGroup | None:
        """Set or clear a member's waiting JoinGroup; return the previous one, still unanswered."""
        before, member.awaiting_join = member.awaiting_join, request
        self.joining += (request is not None) - (before is not None)
        return before

    def forget_pending(self, member_id: str) -> None:
        """Drop a member id that was given out and has not joined."""
        if (timer := self.pending_joins.pop(member_id, None)) is not None:
            timer.cancel()

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Change the id of a returning static member; it stays leader if it was."""
        assert member.instance_id is not None
        old_id = member.member_id
        del self._members[old_id]
        self._order.remove(old_id)
        member.member_id = member_id
        self._put(member)
        if self.leader_id == old_id:
            self.leader_id = member_id
        self._statics[member.instance_id] = member_id

    def update(self, member: ClassicMember, protocols: tuple[Protocol, ...]) -> None:
        """Replace the protocols that a member supports."""
        self._supported.subtract(protocol.name for protocol in member.protocols)
        member.protocols = protocols
        self._supported.update(protocol.name for protocol in protocols)

    def supports(self, protocol_type: str, protocols: Sequence[Protocol]) -> bool:
        """Return whether a member with these protocols may join the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self._supported[protocol.name] == len(self._members) for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol that wins the vote among those that all members support."""
        common = frozenset(
            name for name, count in self._supported.items() if count == len(self._members)
        )
        return winner((member.vote(common) for member in self.members), self._version)

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, or elect one that has; return whether there is one."""
        if self.leader_id is None:
            return False
        if self._members[self.leader_id].awaiting_join is None:
            joined = (
                member.member_id for member in self.members if member.awaiting_join is not None
            )
            if (leader_id := next(joined, None)) is None:
                return False
            self.leader_id = leader_id
        return True

    def become(self, state: GroupState, now_ms: int, cause: RebalanceCause | None = None) -> None:
        """Move to another state; the transition must be valid."""
        self.state = self.state.to(state)
        self.state_timestamp_ms = now_ms
        self._watch.moved(self, cause)

    def begin_generation(self, now_ms: int) -> None:
        """Start the next generation with the current members."""
        self.generation_id += 1
        self.protocol = self.select_protocol() if self._members else None
        following = GroupState.COMPLETING_REBALANCE if self._members else GroupState.EMPTY
        self.subscribed_topics = self._read_topics()
        self.become(following, now_ms)
        self.pending_syncs.clear()

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return the members as the leader receives them."""
        assert self.protocol is not None
        members = map(self._members.__getitem__, leader_order(list(self._order), self._version))
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in members
        )

    def describe(self) -> DescribeAnswer:
        """Return the answer to DescribeGroups (Kafka: `summary`, `describe`)."""
        is_stable = self.state is GroupState.STABLE
        protocol = (self.protocol or "") if is_stable else ""
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol) if is_stable else b"",
                member.assignment if is_stable or self._version >= JAVA else b"",
            )
            for member in self.members
        )
        return DescribeAnswer(
            ErrorCode.NONE, self.state, self.protocol_type or "", protocol, members
        )

    def record(self, assignments: Mapping[str, bytes]) -> Data:
        """Return the value of the group's record, with the members' assignments."""
        since_ms = self.state_timestamp_ms
        return {
            "protocolType": self.protocol_type or "",
            "generation": self.generation_id,
            "protocol": self.protocol,
            "leader": self.leader_id,
            "currentStateTimestamp": -1 if since_ms is None else since_ms,
            "members": [
                {
                    "memberId": member.member_id,
                    "groupInstanceId": member.instance_id,
                    "clientId": member.client_id,
                    "clientHost": member.client_host,
                    "rebalanceTimeout": member.rebalance_timeout_ms,
                    "sessionTimeout": member.session_timeout_ms,
                    "subscription": member.metadata(self.protocol) if self.protocol else b"",
                    "assignment": assignments.get(member.member_id, b""),
                }
                for member in self.members
            ],
        }

    @classmethod
    def load(
        cls, group_id: str, version: Version, value: Data, now_ms: int, watch: Watch
    ) -> ClassicGroup:
        """Return the group of a record, without pending requests (Kafka: `loadGroup`)."""
        group = cls(group_id, version, now_ms, watch)
        since_ms = value["currentStateTimestamp"]
        group.state = GroupState.STABLE if value["members"] else GroupState.EMPTY
        group.state_timestamp_ms = None if since_ms == -1 else since_ms
        group.protocol_type = value["protocolType"] or None
        group.protocol = value["protocol"]
        group.generation_id = value["generation"]
        group.leader_id = value["leader"]
        for stored in value["members"]:
            member = ClassicMember(
                stored["memberId"],
                stored["groupInstanceId"],
                stored["clientId"],
                stored["clientHost"],
                stored["sessionTimeout"],
                stored["rebalanceTimeout"],
                value["protocolType"],
                (Protocol(value["protocol"], stored["subscription"]),),
                stored["assignment"],
            )
            group.add(member)
        group.subscribed_topics = group._read_topics()
        return group

    def retained_since_ms(self, topic: str, commit_ms: int | None) -> int | None:
        """Return when the retention of a commit began, in ms; None if it has not begun.

        Kafka: `removeExpiredOffsets`, `offsetExpirationCondition`.
        """
        if self._version < RETENTION_WHEN_EMPTY or self.protocol_type is None:
            return commit_ms
        if self.state is GroupState.EMPTY:
            return commit_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        is_unread = self.subscribed_topics is not None and not self.reads(topic)
        if self._version >= UNREAD_TOPICS_EXPIRE and self.state is GroupState.STABLE and is_unread:
            return commit_ms
        return None

    def reads(self, topic: str) -> bool:
        """Return whether members of the group may read a topic (Kafka: `isSubscribedToTopic`).

        Before 4.0, an empty group reads no topic, whatever its protocol type.
        """
        if self.state is GroupState.EMPTY and self._version < JAVA:
            return False
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def _read_topics(self) -> frozenset[str] | None:
        """Kafka: `computeSubscribedTopics`."""
        if self.protocol_type != CONSUMER:
            return None
        protocol = self.protocol or ""
        subscriptions = [
            decode_subscription(member.metadata(protocol)) for member in self._members.values()
        ]
        if any("topics" not in subscription for subscription in subscriptions):
            return None
        return frozenset(
            topic for subscription in subscriptions for topic in subscription["topics"]
        )

    def _put(self, member: ClassicMember) -> None:
        self._members[member.member_id] = member
        self._order.put(member.member_id)
