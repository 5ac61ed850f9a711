"""The coordinator of one partition of `__consumer_offsets`, for groups of both protocols.

A classic group of consumers is upgraded when a member joins with the consumer protocol. A
consumer group is downgraded when its last member of that protocol leaves or rejoins with the
classic protocol (KIP-848, `group.consumer.migration.policy`).

Source: `GroupCoordinatorShard` of Kafka 1.1.1, 2.8.2 and 3.9.2; `GroupCoordinatorService`,
`CoordinatorRuntime` and `GroupMetadataManager` (`convertToConsumerGroup`, `convertToClassicGroup`,
`validateOnlineUpgrade`, `validateOnlineDowngrade...`) of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any
from typing import Protocol as Interface

from kgroup.described_enum import DescribedEnum
from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation import rules
from kgroup.simulation.classic.coordinator import REQUESTS, ClassicCoordinator
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.classic.rebalance import ClassicRuntime
from kgroup.simulation.clock import Timer
from kgroup.simulation.consumer import record as record_of
from kgroup.simulation.consumer.classic_member import (
    ClassicMemberRuntime,
    ClassicMembers,
    as_classic_group,
    as_consumer_group,
)
from kgroup.simulation.consumer.coordinator import MemberTarget
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.message import (
    AnyAnswer,
    AnyRequest,
    ConsumerDescribeAnswer,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribeConsumerGroup,
    NumbersByTopic,
)
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import RequestRefused, check_request
from kgroup.simulation.coordinator_log import CoordinatorLog
from kgroup.simulation.message import (
    CONSUMER,
    CommitAnswer,
    DeleteAnswer,
    DeleteGroup,
    DescribeAnswer,
    DescribeGroup,
    FetchAnswer,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    ListAnswer,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    Request,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings, MigrationPolicy


class CoordinatorRuntime(ClassicMemberRuntime, ClassicRuntime, Interface):
    """Takes answers and records, and generates ids."""

    def moved(self, group: ClassicGroup | ConsumerGroup, cause: RebalanceCause | None) -> None:
        """Handle a new state of a group, or a new epoch of a consumer group."""

    def removed(
        self, group: ClassicGroup | ConsumerGroup, member_id: str, cause: RebalanceCause
    ) -> None:
        """Handle the removal of a member, which has happened or is about to."""


class MixedCoordinator(ClassicMembers):
    """The groups of a broker of 4.0 or later.

    Args:
        settings: settings of the broker for classic groups.
        consumer: settings of the broker for consumer groups.
        runtime: takes answers and records.
        topics: topics of the cluster.

    Attributes:
        classic: the classic groups; consumer groups are in `groups`.
    """

    _runtime: CoordinatorRuntime

    def __init__(
        self,
        settings: BrokerSettings,
        consumer: ConsumerSettings,
        runtime: CoordinatorRuntime,
        topics: TopicImage | None = None,
    ) -> None:
        super().__init__(consumer, runtime, topics)
        self.classic = ClassicCoordinator(settings, runtime)
        self._classic_settings = settings
        self._made: dict[str, tuple[ClassicGroup, RebalanceCause | None]] = {}

    def handle(self, request: AnyRequest) -> None:
        """Handle a request; the answer goes to the runtime, now or later."""
        if isinstance(request, ConsumerGroupHeartbeat):
            self.heartbeat(request)
        elif isinstance(request, DescribeConsumerGroup):
            self.describe_group(request)
        elif isinstance(request, ListGroups):
            self.list_groups(request)
        elif (group := self._group_for(request)) is None:
            self.classic.handle(request)
        else:
            TABLE[type(request)][group.state](self, group, request)

    def _group_for(self, request: Request) -> ConsumerGroup | None:
        """Return the consumer group of a request; None if it goes to the classic groups."""
        if isinstance(request, DescribeGroup | ListGroups):
            return None
        if isinstance(request, JoinGroup) and not self.classic.has_fit_session(request):
            return None
        if isinstance(request, SyncGroup) and request.is_incomplete:
            return None
        return self.groups.get(request.group_id)

    def replay(self, record: GroupRecord) -> None:
        """Apply a record of a group of either protocol, or a loaded commit."""
        if record.type == "OffsetCommit":
            self.classic.offsets.replay(record.key, record.value)
            return
        if record.type != "GroupMetadata":
            super().replay(record)
            return
        group_id = record.key["group"]
        if record.value is None:
            self.classic.give_up(group_id)
        elif group_id in self._made:
            self.classic.take_over(*self._made.pop(group_id))
        else:
            self.classic.load(record.key, record.value)

    def on_loaded(self) -> None:
        """Start the session timeouts of members of both protocols."""
        super().on_loaded()
        self.classic.loaded(self.groups)

    def on_unloaded(self) -> None:
        """Drop all groups, and answer waiting members with NOT_COORDINATOR."""
        super().on_unloaded()
        self.classic.unload()

    # --- classic members ------------------------------------------------------------------------

    def _join_empty(self, group: ConsumerGroup, request: JoinGroup) -> None:
        """Replace the empty group by a classic group."""
        if request.member_id:  # Kafka writes no tombstones for a refused join
            del self.groups[group.group_id]
        else:
            self._remove(group)
        self.classic.join_group(request)

    def _join_classic(self, group: ConsumerGroup, request: JoinGroup) -> None:
        """Add or update the member if the migration policy allows it."""
        if self._settings.migration_policy is MigrationPolicy.DISABLED:
            self._runtime.answer(request, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        else:
            self.join_member(group, request)

    # --- offsets --------------------------------------------------------------------------------

    def _commit(self, group: ConsumerGroup, request: OffsetCommit) -> None:
        """Commit for a member in its epoch, or for partitions that it has owned since then."""
        offsets = self.classic.offsets
        code = group.commit_error(
            request.member_id,
            request.generation_id,
            (  # looked at only if the epoch is an older one
                (topic.topic_id if (topic := self.topics.get(name)) else "", number)
                for (name, number), committed in request.offsets.items()
                if not offsets.is_too_large(committed)
            ),
            request.version,
        )
        refused = None if code is None else dict.fromkeys(request.offsets, code)
        self._runtime.answer(request, CommitAnswer(refused or offsets.commit(request)))

    def _commit_empty(self, group: ConsumerGroup, request: OffsetCommit) -> None:
        """Accept commits without an epoch."""
        self._commit(group, request)

    def _fetch(self, group: ConsumerGroup, request: OffsetFetch) -> None:
        """Return committed offsets; a request with a member id must have the member's epoch."""
        code = group.fetch_error(request.member_id, request.member_epoch)
        answer = FetchAnswer(code) if code else self.classic.offsets.fetch(request)
        self._runtime.answer(request, answer)

    def _delete_offsets(self, group: ConsumerGroup, request: OffsetDelete) -> None:
        """Remove committed offsets of topics to which no member subscribes."""
        self._runtime.answer(request, self.classic.offsets.delete_unread(group, request))

    # --- admin requests -------------------------------------------------------------------------

    def describe_group(self, request: DescribeConsumerGroup) -> None:
        """Answer with a consumer group's state and members (`consumerGroupDescribe`)."""
        if (group := self.groups.get(request.group_id)) is None:
            answer = ConsumerDescribeAnswer(ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            answer = group.describe(self._settings.assignors[0], self.topics)
        self._runtime.answer(request, answer)

    def list_groups(self, request: ListGroups) -> None:
        """Answer with all groups, sorted (`listGroups`)."""
        listed = [(group.group_id, CONSUMER, group.state) for group in self.groups.values()]
        groups = sorted([*listed, *self.classic.listed()])
        self._runtime.answer(request, ListAnswer(ErrorCode.NONE, tuple(groups)))

    def _delete_empty(self, group: ConsumerGroup, request: DeleteGroup) -> None:
        """Remove the group and its offsets."""
        self.classic.offsets.delete_all(group.group_id)
        self._remove(group)
        self._runtime.answer(request, DeleteAnswer(ErrorCode.NONE))

    def _delete(self, group: ConsumerGroup, request: DeleteGroup) -> None:
        """Refuse the request: the group has members."""
        self._runtime.answer(request, DeleteAnswer(ErrorCode.NON_EMPTY_GROUP))

    def _remove(self, group: ConsumerGroup) -> None:
        self._apply(record_of.group_tombstones(group.group_id, (), group.regexes))

    def expire_offsets(self) -> None:
        """Remove expired offsets, and empty groups without offsets.

        Kafka: `cleanupGroupMetadata`.
        """
        self.classic.expire_offsets()
        for group in list(self.groups.values()):
            self.classic.offsets.expire(group)
            if not group.members and not self.classic.offsets.of(group.group_id):
                self._remove(group)

    # --- upgrade --------------------------------------------------------------------------------

    def _group_to_join(self, group_id: str, records: list[GroupRecord]) -> ConsumerGroup:
        group = self.classic.groups.get(group_id)
        if group is None:
            return super()._group_to_join(group_id, records)
        if group.state is GroupState.EMPTY:
            records.append(GroupRecord("GroupMetadata", {"group": group_id}, None))
            return ConsumerGroup(group_id)
        if (
            not self._settings.migration_policy.upgrades
            or group.protocol_type != CONSUMER
            or len(group) > self._settings.max_size
        ):
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
        self.classic.interrupt(group)
        made = as_consumer_group(group, self.topics, records)
        for member in group.members:
            self._expect(group_id, member.member_id, member.session_timeout_ms)
        return made

    # --- downgrade ------------------------------------------------------------------------------

    def _fence(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], cause: RebalanceCause
    ) -> list[GroupRecord]:
        leaving = {member.member_id for member in members}
        staying = [member for name, member in group.members.items() if name not in leaving]
        if not staying or not self._can_downgrade(staying):
            return super()._fence(group, members, cause)
        return self._downgrade(group, leaving, None, cause)

    def _settle(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        instance_id: str | None,
        owned: NumbersByTopic,
        records: list[GroupRecord],
    ) -> ConsumerMember:
        static = group.members.get(group.statics.get(instance_id or "", ""))
        others = [member for member in group.members.values() if member is not static]
        if static is None or static.classic is not None or not self._can_downgrade(others, 1):
            return super()._settle(group, member, updated, instance_id, owned, records)
        subscribed, is_new = self._note_member(group, member, updated, records)
        rebalances = group.assignment_epoch < subscribed.epoch
        if not rebalances:
            goal = MemberTarget(group.assignment_epoch, group.target_of(updated))
            updated = self._reconcile(group, updated, goal, is_new, owned, records)
        cause = RebalanceCause.STATIC_MEMBER_CAME_BACK if rebalances else None
        records += self._downgrade(group, (), updated, cause)
        return updated

    def _can_downgrade(self, others: Collection[ConsumerMember], more: int = 0) -> bool:
        """Return whether all others use the classic protocol and may form a classic group."""
        return (
            all(member.classic is not None for member in others)
            and self._settings.migration_policy.downgrades
            and len(others) + more <= self._classic_settings.max_size
        )

    def _downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[str],
        joining: ConsumerMember | None,
        cause: RebalanceCause | None,
    ) -> list[GroupRecord]:
        """Return records that turn a consumer group into a classic one; a cause rebalances it."""
        made = as_classic_group(
            group,
            leaving,
            joining,
            self.topics,
            self._classic_settings.version,
            self._clock.now_ms,
            self._runtime,
        )
        self._made[group.group_id] = made, cause
        names = group.member_order
        if joining is not None:
            replaced = group.statics[joining.instance_id or ""]
            names = [joining.member_id if name == replaced else name for name in names]
        assignments = {member.member_id: member.assignment for member in made.members}
        return [
            *record_of.group_tombstones(group.group_id, names, group.regexes),
            GroupRecord("GroupMetadata", {"group": group.group_id}, made.record(assignments)),
        ]


_WITH_MEMBERS = (GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.STABLE)
_ALL = (GroupState.EMPTY, *_WITH_MEMBERS)

Handler = Callable[[MixedCoordinator, ConsumerGroup, Any], None]

TABLE: Mapping[type, Mapping[GroupState, Handler]] = {
    JoinGroup: {
        GroupState.EMPTY: MixedCoordinator._join_empty,
        **dict.fromkeys(_WITH_MEMBERS, MixedCoordinator._join_classic),
    },
    SyncGroup: dict.fromkeys(_ALL, MixedCoordinator.sync_member),
    Heartbeat: dict.fromkeys(_ALL, MixedCoordinator.beat_member),
    LeaveGroup: dict.fromkeys(_ALL, MixedCoordinator.leave_members),
    OffsetCommit: {
        GroupState.EMPTY: MixedCoordinator._commit_empty,
        **dict.fromkeys(_WITH_MEMBERS, MixedCoordinator._commit),
    },
    OffsetFetch: dict.fromkeys(_ALL, MixedCoordinator._fetch),
    OffsetDelete: dict.fromkeys(_ALL, MixedCoordinator._delete_offsets),
    DeleteGroup: {
        GroupState.EMPTY: MixedCoordinator._delete_empty,
        **dict.fromkeys(_WITH_MEMBERS, MixedCoordinator._delete),
    },
}
"""The handler of each request to a consumer group in each state; requests for other groups go to
the classic coordinator. ConsumerGroupHeartbeat is handled by its epoch, in `consumer.coordinator`.
"""


class CoordinatorState(DescribedEnum):
    """Whether a broker serves the groups of a partition."""

    RESIGNED = (
        "resigned",
        ("Another broker leads the partition: clients must look for the new coordinator."),
    )
    LOADING = ("loading", "The broker is loading the partition: clients must retry.")
    ACTIVE = ("active", "The broker has loaded the groups and serves them.")


class GroupCoordinatorShard:
    """The coordinator of a partition in each of its states.

    Args:
        settings: settings of the broker.
        runtime: takes answers and records.
        consumer: settings for consumer groups, for brokers of 4.0 and later.
        topics: topics of the cluster, for consumer groups.

    Attributes:
        state: initially `resigned`.
        classic: the classic groups, and the committed offsets of all groups.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        runtime: CoordinatorRuntime,
        consumer: ConsumerSettings | None = None,
        topics: TopicImage | None = None,
    ) -> None:
        self.state = CoordinatorState.RESIGNED
        self._settings = settings
        self._consumer = consumer or ConsumerSettings()
        self._runtime = runtime
        self._topics = topics or TopicImage()
        self._timer: Timer | None = None
        self._expiry: Timer | None = None
        self._begin()
        self.start()

    def start(self) -> None:
        """Start the expiration of offsets, when the broker starts.

        Before 4.0 a broker looks for expired offsets at its start and at every interval, whatever
        it leads (`GroupMetadataManager.startup`); later versions do so for each partition, first
        one interval after loading it.
        """
        if self._settings.version < rules.JAVA:
            self._expire_after(0)

    def _begin(self) -> None:
        """Drop all groups."""
        self._mixed: MixedCoordinator | None = None
        if self._settings.version >= rules.JAVA:
            self._mixed = MixedCoordinator(
                self._settings, self._consumer, self._runtime, self._topics
            )
            self.classic = self._mixed.classic
        else:
            self.classic = ClassicCoordinator(self._settings, self._runtime)

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return a group of either protocol; None if it does not exist."""
        group = None if self._mixed is None else self._mixed.groups.get(group_id)
        return self.classic.groups.get(group_id) if group is None else group

    def update_topics(self, topics: TopicImage) -> None:
        """Handle created, changed and deleted topics, in every state."""
        self._topics = topics
        if self._mixed is not None:
            self._mixed.update_topics(topics)

    def elect(self, log: CoordinatorLog, load_ms: int) -> None:
        """Start to lead the partition; its groups are available after loading.

        Kafka: `loadGroupsForPartition`.
        """
        self.state = CoordinatorState.LOADING
        self._timer = self._runtime.clock.after(load_ms, lambda: self._load(log))

    def _load(self, log: CoordinatorLog) -> None:
        for type_, key, value in log.contents():
            if self._mixed is None:
                _LOADS[type_](self.classic, key, value)
            else:
                self._mixed.replay(GroupRecord(type_, key, value))
        self.classic.offsets.load(log.commits)
        self.state = CoordinatorState.ACTIVE
        if self._mixed is None:
            self.classic.loaded()
        else:
            self._mixed.on_loaded()
            self._expire_after(self._settings.offsets_retention_check_interval_ms)

    def _expire_after(self, delay_ms: int) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._runtime.clock.after(delay_ms, self._expire)

    def _expire(self) -> None:
        if self.state is CoordinatorState.ACTIVE:
            (self._mixed or self.classic).expire_offsets()
        self._expire_after(self._settings.offsets_retention_check_interval_ms)

    def resign(self) -> None:
        """Stop leading the partition; joins and syncs in progress are lost."""
        if self._timer is not None:
            self._timer.cancel()
        if self._mixed is not None and self._expiry is not None:
            self._expiry.cancel()
        self.state = CoordinatorState.RESIGNED
        if self._mixed is None:
            self.classic.unload()
        else:
            self._mixed.on_unloaded()
        self._begin()

    def handle(self, request: AnyRequest) -> None:
        """Handle a request; the answer goes to the runtime, now or later."""
        refusal = _REFUSALS[type(request)]
        if (code := self._refuse(request)) is not None:
            self._runtime.answer(request, refusal(request, code))
        else:
            (self._mixed or self.classic).handle(request)

    def _refuse(self, request: AnyRequest) -> ErrorCode | None:
        """Return an error for a request that the broker does not support or cannot answer now."""
        if self._mixed is None and type(request) not in REQUESTS:
            return ErrorCode.UNSUPPORTED_VERSION
        if self.state is CoordinatorState.ACTIVE:
            return None
        if isinstance(request, ConsumerGroupHeartbeat):
            try:
                check_request(request, self._consumer.assignors)
            except RequestRefused as refusal:
                return refusal.code
        if self.state is CoordinatorState.RESIGNED:
            return ErrorCode.NOT_COORDINATOR
        return self._while_loading(request)

    def _while_loading(self, request: AnyRequest) -> ErrorCode:
        """Return the answer while loading: retry; for members, no error, or rejoin."""
        version = self._settings.version
        if isinstance(request, Heartbeat):
            return ErrorCode.NONE
        if isinstance(request, SyncGroup) and version < rules.SYNC_WHILE_LOADING:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(request, SyncGroup) and version < rules.JAVA:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


_REFUSALS: Mapping[type, Callable[[Any, ErrorCode], AnyAnswer]] = {
    JoinGroup: lambda request, code: JoinAnswer(code, request.member_id),
    SyncGroup: lambda _, code: SyncAnswer(code),
    Heartbeat: lambda _, code: HeartbeatAnswer(code),
    LeaveGroup: lambda _, code: LeaveAnswer(code),
    OffsetCommit: lambda request, code: CommitAnswer(dict.fromkeys(request.offsets, code)),
    OffsetFetch: lambda _, code: FetchAnswer(code),
    OffsetDelete: lambda _, code: OffsetDeleteAnswer(code),
    DescribeGroup: lambda _, code: DescribeAnswer(code),
    ListGroups: lambda _, code: ListAnswer(code),
    DeleteGroup: lambda _, code: DeleteAnswer(code),
    ConsumerGroupHeartbeat: lambda _, code: ConsumerHeartbeatAnswer(code),
    DescribeConsumerGroup: lambda _, code: ConsumerDescribeAnswer(code),
}
"""The answer that refuses each type of request."""

_LOADS: Mapping[str, Callable[[ClassicCoordinator, Any, Any], None]] = {
    "GroupMetadata": ClassicCoordinator.load,
    "OffsetCommit": lambda classic, key, value: classic.offsets.replay(key, value),
}
"""The method that loads each type of record, before 4.0."""
