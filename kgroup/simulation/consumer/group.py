"""A consumer group (KIP-848) in the coordinator's memory, which equals the state of its records.

The group changes only through `replay`, with records that `coordinator` writes or loads.

Source: `ConsumerGroup`, `ModernGroup` and the methods `replay` of `GroupMetadataManager` of 4.3.1;
`TimelineHashMap`, `SnapshottableHashTable` and `BaseHashTable` of kafka-server-common 4.3.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, filterfalse
from typing import NamedTuple, TypeAlias

from kgroup.assignor.server.server import preferred_assignor
from kgroup.model.group import GroupState, MemberState
from kgroup.model.group_log import MEMBER_STATES
from kgroup.model.offsets_partition import string_hash
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.consumer.member import ConsumerMember, Data, Held, SubscriptionCount
from kgroup.simulation.consumer.message import (
    LEAVE_EPOCH,
    ConsumerDescribeAnswer,
    ConsumerDescribedMember,
    IdPartition,
)
from kgroup.simulation.consumer.record import GroupRecord, held_partitions
from kgroup.simulation.consumer.topic_image import TopicImage

_FACTOR = -7046029254386353131
_MOST_NAMES = 0.75


class TimelineTable:
    """Names in the order of a `TimelineHashMap`, where coordinators since 4.0 keep members.

    The order decides ties between members in an assignment, because the coordinator copies the
    members to a `HashMap` in this order. Slots are chosen by Fibonacci hashing. The table
    doubles when 0.75 times the new number of entries exceeds its size. Within a slot, the newest
    entry comes first.
    """

    def __init__(self) -> None:
        self._size = 2
        self._slots: dict[int, list[str]] = {}
        self._count = 0

    def put(self, name: str) -> None:
        """Add a name; a present name keeps its place, but the table may still grow."""
        if (self._count + 1) * _MOST_NAMES > self._size:
            self._grow()
        slot = self._slots.setdefault(self._slot(name), [])
        if name not in slot:
            slot.append(name)
            self._count += 1

    def remove(self, name: str) -> None:
        """Remove a name that is present."""
        index = self._slot(name)
        self._slots[index].remove(name)
        if not self._slots[index]:
            del self._slots[index]
        self._count -= 1

    def __iter__(self) -> Iterator[str]:
        for _, slot in sorted(self._slots.items()):
            yield from reversed(slot)

    def _grow(self) -> None:
        slots = [slot for _, slot in sorted(self._slots.items())]
        self._size *= 2
        self._slots = {}
        for slot in slots:
            for name in slot:
                self._slots.setdefault(self._slot(name), []).append(name)

    def _slot(self, name: str) -> int:
        bits = self._size.bit_length() - 1
        return (string_hash(name) * _FACTOR & (1 << 64) - 1) >> 64 - bits


ID_IN_COMMIT = 9
"""Lowest version of OffsetCommit for members that use the consumer protocol."""

_FIRST_EPOCH = 1

TargetAssignment: TypeAlias = Mapping[str, Sequence[int]]
"""Numbers of the partitions of a target assignment by topic id, in the order of the assignor; each
occurs once.
"""


class ResolvedRegex(NamedTuple):
    """Topics that a regular expression matches, with their version and the time of resolution."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    """A consumer group.

    Attributes:
        epoch: raised when members, subscriptions or topics change.
        assignment_epoch: epoch of the target assignment, which is out of date if below `epoch`.
        assignment_timestamp_ms: time of the target assignment; 0 if unknown.
        metadata_hash: hash of the subscribed topics at the start of `epoch`.
        members: members by id.
        targets: target assignment by member id.
        statics: member ids by instance id.
        regexes: resolved regular expressions of the members.
        subscriptions: number of members per topic and regular expression.
        is_homogeneous: all members had the same subscription when a member last changed.
        refresh_ms: time at which the topics are checked again even if nothing changes.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.assignment_epoch = _FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, TargetAssignment] = {}
        self.statics: dict[str, str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.subscriptions = SubscriptionCount()
        self.is_homogeneous = True
        self.refresh_ms = 0
        self._assignors: Counter[str | None] = Counter()
        self._held: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._stable: Counter[int] = Counter()  # number of stable members by epoch
        self._order = TimelineTable()

    def __len__(self) -> int:
        return len(self.members)

    @property
    def member_order(self) -> list[str]:
        """Ids of all members, in the order of the coordinator's table."""
        return list(self._order)

    @property
    def generation_id(self) -> int:
        """The epoch, under the name that classic groups use."""
        return self.epoch

    @property
    def state(self) -> GroupState:
        """State of the group (`maybeUpdateGroupState`)."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        is_stable = self._stable[self.assignment_epoch] == len(self.members)
        return GroupState.STABLE if is_stable else GroupState.RECONCILING

    def target_of(self, member: ConsumerMember) -> TargetAssignment:
        """Return a member's current target assignment.

        A static member has the target of its instance, which may belong to an earlier member id.
        """
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.statics.get(member.instance_id)
        return {} if member_id is None else self.targets.get(member_id, {})

    def is_held(self, topic_id: str, number: int) -> bool:
        """Return whether a member owns a partition or has not revoked it yet."""
        return self._held[topic_id].get(number, -1) != -1

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics of a member's subscription, including matches of its expression."""
        resolved = self.regexes.get(member.regex)
        return member.topics if resolved is None else member.topics | resolved.topics

    def preferred_assignor(
        self, old: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str | None:
        """Return the assignor that most members prefer, with one member replaced."""
        counts = self._assignors.copy()
        if old is not None and old.assignor is not None:
            counts[old.assignor] -= 1
        return preferred_assignor(counts, None if new is None else new.assignor)

    def subscriptions_with(self, old: ConsumerMember, new: ConsumerMember) -> SubscriptionCount:
        """Return the subscription counts with one member replaced."""
        counts = self.subscriptions.copy()
        if old.regex != new.regex and counts.regexes[old.regex] == 1:
            counts.match(self._matched(old.regex), -1)
        counts.replace(old, new)
        return counts

    def subscriptions_without(
        self, members: Iterable[ConsumerMember], regexes: Iterable[str]
    ) -> SubscriptionCount:
        """Return the subscription counts without some members and regular expressions."""
        counts = self.subscriptions.copy()
        for member in members:
            counts.replace(member, None)
        for regex in regexes:
            counts.match(self._matched(regex), -1)
        return counts

    def commit_error(
        self,
        member_id: str,
        member_epoch: int,
        partitions: Iterable[IdPartition],
        version: int = ID_IN_COMMIT,
    ) -> ErrorCode | None:
        """Return the error that refuses a commit as a whole, if any (`validateOffsetCommit`).

        A member may commit with an older epoch for partitions that it has owned since that epoch or
        longer (KIP-1251).

        Args:
            member_id: "" for a client outside the group.
            member_epoch: -1 for a client outside the group.
            partitions: partitions by topic id.
            version: version of the OffsetCommit.
        """
        if member_epoch < 0 and not self.members:
            return None
        if (member := self.members.get(member_id)) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and version < ID_IN_COMMIT:
            return ErrorCode.UNSUPPORTED_VERSION
        if member_epoch == member.epoch:
            return None
        since = (member.held_since(topic_id, number) for topic_id, number in partitions)
        is_known = all(epoch is not None and epoch <= member_epoch for epoch in since)
        return None if is_known and member_epoch < member.epoch else _stale(member)

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """Return the error that refuses an OffsetFetch, if any (`validateOffsetFetch`)."""
        if member_id is None and member_epoch < 0:
            return None
        member = None if member_id is None else self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if member_epoch == member.epoch else _stale(member)

    def reads(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic (`isSubscribedToTopic`)."""
        return topic in self.subscriptions.topics

    def retained_since_ms(self, topic: str, commit_ms: int | None) -> int | None:
        """Return when the retention of a commit began, in ms; None if it has not begun.

        Kafka: `cleanupExpiredOffsets`, `offsetExpirationCondition`.
        """
        return None if self.reads(topic) else commit_ms

    def describe(self, assignor: str, topics: TopicImage) -> ConsumerDescribeAnswer:
        """Return the answer to ConsumerGroupDescribe (`asDescribedGroup`).

        Args:
            assignor: the broker's default assignor.
            topics: existing topics; partitions of others are left out.
        """

        def told(*partitions: Mapping[str, Iterable[int]]) -> frozenset[IdPartition]:
            return frozenset(
                (topic_id, number)
                for numbers_by_topic in partitions
                for topic_id, numbers in numbers_by_topic.items()
                if topics.name_of(topic_id) is not None
                for number in numbers
            )

        members = tuple(
            ConsumerDescribedMember(
                member.member_id,
                member.instance_id,
                member.rack_id,
                member.epoch,
                member.client_id,
                member.client_host,
                member.topics,
                member.regex,
                told(member.assigned, member.revoking),
                told(self.targets.get(member.member_id, {})),
                member.classic is not None,
            )
            for member in map(self.members.__getitem__, self.member_order)
        )
        return ConsumerDescribeAnswer(
            ErrorCode.NONE,
            self.state,
            self.epoch,
            self.assignment_epoch,
            self.preferred_assignor() or assignor,
            members,
        )

    def update_member(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        self._put(self.members.get(member.member_id), member)

    # --- replay -----------------------------------------------------------------------------------

    def replay(self, record: GroupRecord) -> None:
        """Apply a record of the group, except the group's tombstone."""
        REPLAY[record.type](self, record.key, record.value)

    def _replay_epoch(self, _: Data, value: Data | None) -> None:
        if value is not None:
            self.epoch = value["epoch"]
            self.metadata_hash = value.get("metadataHash", 0)

    def _replay_member(self, key: Data, value: Data | None) -> None:
        member_id = key["memberId"]
        old = self.members.get(member_id)
        if value is None:
            self._put(old, None)
            return
        self._put(
            old,
            replace(
                old or ConsumerMember(member_id),
                instance_id=value["instanceId"],
                rack_id=value["rackId"],
                client_id=value["clientId"],
                client_host=value["clientHost"],
                topics=frozenset(value["subscribedTopicNames"]),
                topic_order=tuple(value["subscribedTopicNames"]),
                regex=value["subscribedTopicRegex"] or "",
                rebalance_timeout_ms=value["rebalanceTimeoutMs"],
                assignor=value["serverAssignor"],
                classic=value.get("classicMemberMetadata"),
            ),
        )

    def _replay_target(self, key: Data, value: Data | None) -> None:
        if value is None:
            self.targets.pop(key["memberId"], None)
        else:
            self.targets[key["memberId"]] = {
                topic["topicId"]: topic["partitions"] for topic in value["topicPartitions"]
            }

    def _replay_assignment_epoch(self, _: Data, value: Data | None) -> None:
        self.assignment_epoch = -1 if value is None else value["assignmentEpoch"]
        self.assignment_timestamp_ms = (value or {}).get("assignmentTimestamp", 0)

    def _replay_current(self, key: Data, value: Data | None) -> None:
        member_id = key["memberId"]
        old = self.members.get(member_id)
        if value is not None:
            epoch = value["memberEpoch"]
            new = replace(
                old or ConsumerMember(member_id),
                epoch=epoch,
                previous_epoch=value["previousMemberEpoch"],
                state=MEMBER_STATES[value["state"]],
                assigned=held_partitions(value["assignedPartitions"], epoch),
                revoking=held_partitions(value["partitionsPendingRevocation"], epoch),
            )
            self._put(old, new)
        elif old is not None:
            gone = LEAVE_EPOCH
            self._put(old, replace(old, epoch=gone, previous_epoch=gone, assigned={}, revoking={}))

    def _replay_regex(self, key: Data, value: Data | None) -> None:
        regex = key["regularExpression"]
        self.subscriptions.match(self._matched(regex), -1)
        self.regexes.pop(regex, None)
        if value is not None:
            topics = frozenset(value["topics"])
            self.regexes[regex] = ResolvedRegex(topics, value["version"], value["timestamp"])
            self.subscriptions.match(topics, 1)

    def _replay_nothing(self, _: Data, __: Data | None) -> None:
        """Ignore a record type that is no longer written (before 4.1)."""

    def _put(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Replace a member by its new version; remove it if there is none."""
        if old is not None:
            self._release(old.assigned, {} if new is None else new.assigned, old.epoch)
            self._release(old.revoking, {}, old.epoch)
            self._stable[old.epoch] -= old.state is MemberState.STABLE
            if old.assignor is not None:
                self._assignors[old.assignor] -= 1
        if old is not None and new is None:
            del self.members[old.member_id]
            self._order.remove(old.member_id)
            if old.instance_id is not None:
                self.statics.pop(old.instance_id, None)
        if new is not None:
            self.members[new.member_id] = new
            self._order.put(new.member_id)
            for topic_id, numbers in chain(new.assigned.items(), new.revoking.items()):
                self._held[topic_id].update(dict.fromkeys(numbers, new.epoch))
            self._stable[new.epoch] += new.state is MemberState.STABLE
            if new.assignor is not None:
                self._assignors[new.assignor] += 1
            if new.instance_id is not None:
                self.statics[new.instance_id] = new.member_id
        self.subscriptions.replace(old, new)
        self.is_homogeneous = self.subscriptions.is_homogeneous(len(self.members))

    def _release(self, held: Held, kept: Held, epoch: int) -> None:
        for topic_id, numbers in held.items():
            epochs = self._held[topic_id]
            for number in filterfalse(kept.get(topic_id, {}).__contains__, numbers):
                if epochs.get(number) == epoch:
                    del epochs[number]

    def _matched(self, regex: str) -> frozenset[str]:
        resolved = self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics


def _stale(member: ConsumerMember) -> ErrorCode:
    speaks_classic = member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if speaks_classic else ErrorCode.STALE_MEMBER_EPOCH


REPLAY: Mapping[str, Callable[[ConsumerGroup, Data, Data | None], None]] = {
    "ConsumerGroupMetadata": ConsumerGroup._replay_epoch,
    "ConsumerGroupPartitionMetadata": ConsumerGroup._replay_nothing,
    "ConsumerGroupMemberMetadata": ConsumerGroup._replay_member,
    "ConsumerGroupTargetAssignmentMetadata": ConsumerGroup._replay_assignment_epoch,
    "ConsumerGroupTargetAssignmentMember": ConsumerGroup._replay_target,
    "ConsumerGroupCurrentMemberAssignment": ConsumerGroup._replay_current,
    "ConsumerGroupRegularExpression": ConsumerGroup._replay_regex,
}
"""The method that applies each type of record."""
