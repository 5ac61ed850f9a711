"""The coordinator of groups of both protocols, and how a group goes from one to the other online.

A classic group of consumers is upgraded when a member joins it with the consumer protocol; a
consumer group is downgraded when its last member that speaks that protocol leaves, or comes back
with the classic one (KIP-848, `group.consumer.migration.policy`).

Source: `GroupMetadataManager` of 4.3.1: `convertToConsumerGroup`, `convertToClassicGroup`,
`validateOnlineUpgrade`, `validateOnlineDowngrade...`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any
from typing import Protocol as Interface

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.classic import rebalance as classic_rebalance
from kgroup.simulation.classic.coordinator import ClassicCoordinator
from kgroup.simulation.classic.group import Cause, ClassicGroup
from kgroup.simulation.consumer import classic_member
from kgroup.simulation.consumer import record as record_of
from kgroup.simulation.consumer.classic_member import CONSUMER, ClassicMembers
from kgroup.simulation.consumer.conversion import as_classic_group, as_consumer_group
from kgroup.simulation.consumer.coordinator import Goal
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.message import (
    AnyRequest,
    ConsumerDescribeAnswer,
    ConsumerHeartbeat,
    DescribeConsumerGroup,
    IdPartition,
)
from kgroup.simulation.consumer.record import Record
from kgroup.simulation.consumer.settings import ConsumerSettings, MigrationPolicy
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import Refusal
from kgroup.simulation.message import (
    CommitAnswer,
    DeleteAnswer,
    DeleteGroup,
    DescribeGroup,
    FetchAnswer,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    ListAnswer,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from kgroup.simulation.rules import Settings

__all__ = ["TABLE", "MixedCoordinator", "World"]


class World(classic_member.World, classic_rebalance.World, Interface):
    """Where answers and records go, and where ids come from."""

    def moved(self, group: ClassicGroup | ConsumerGroup, cause: Cause | None) -> None:
        """Learn that a group has come to another state, or a consumer group to another epoch."""

    def removed(self, group: ClassicGroup | ConsumerGroup, member_id: str, cause: Cause) -> None:
        """Learn that a member was removed."""


class MixedCoordinator(ClassicMembers):
    """The groups of a broker of 4.0 or later.

    Args:
        settings: of the broker, for classic groups.
        consumer: likewise for consumer groups.
        world: what is around it.
        topics: of the cluster.

    Attributes:
        classic: the classic groups; those of the consumer protocol are in `groups`.
    """

    _world: World

    def __init__(
        self,
        settings: Settings,
        consumer: ConsumerSettings,
        world: World,
        topics: TopicImage | None = None,
    ) -> None:
        super().__init__(consumer, world, topics)
        self.classic = ClassicCoordinator(settings, world)
        self._classic_settings = settings
        self._made: dict[str, tuple[ClassicGroup, Cause | None]] = {}

    def handle(self, request: AnyRequest) -> None:
        """Take a request; it is answered now or later, through the world."""
        TABLE[type(request)](self, request)

    def replay(self, record: Record) -> None:
        """Apply a record of a group of either protocol, or of an offset that is loaded."""
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
        """Begin to expect the members of groups of both protocols."""
        super().on_loaded()
        self.classic.loaded(self.groups)

    def on_unloaded(self) -> None:
        """Forget all groups; who waits is told to look for another coordinator."""
        super().on_unloaded()
        self.classic.unload()

    # --- which group a request is for -----------------------------------------------------------

    def join_group(self, request: JoinGroup) -> None:
        """Take a member in (`classicGroupJoin`); a consumer group without members makes way."""
        settings, timeout_ms = self._classic_settings, request.session_timeout_ms
        group = self.groups.get(request.group_id)
        is_fit = settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms
        if group is None or not is_fit:
            self.classic.join_group(request)
        elif not group.members:
            if request.member_id:  # Kafka writes no tombstones where nobody joins
                del self.groups[request.group_id]
            else:
                self._apply(record_of.group_tombstones(group.group_id, (), group.regexes))
            self.classic.join_group(request)
        elif self._settings.migration_policy is MigrationPolicy.DISABLED:
            self._world.answer(request, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        else:
            self.join_member(request)

    def sync_group(self, request: SyncGroup) -> None:
        """Tell a member what it has (`classicGroupSync`)."""
        group = self.groups.get(request.group_id)
        is_bare = request.version >= 5 and None in (request.protocol_type, request.protocol)
        if group is None or is_bare:
            self.classic.sync_group(request)
        else:
            self.sync_member(request)

    def classic_heartbeat(self, request: Heartbeat) -> None:
        """Keep a member (`classicGroupHeartbeat`)."""
        if request.group_id in self.groups:
            self.beat_member(request)
        elif request.group_id in self.classic.groups or not request.group_id:
            self.classic.heartbeat(request)
        else:
            self._world.answer(request, HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID))

    def leave_group(self, request: LeaveGroup) -> None:
        """Remove members (`classicGroupLeave`)."""
        if request.group_id in self.groups:
            self.leave_members(request)
        else:
            self.classic.leave_group(request)

    # --- offsets, and what anybody may ask ------------------------------------------------------

    def offset_commit(self, request: OffsetCommit) -> None:
        """Keep offsets, of a member or of somebody who is in no group (`commitOffset`)."""
        if (group := self.groups.get(request.group_id)) is None:
            self.classic.offset_commit(request)
            return
        offsets = self.classic.offsets
        code = group.commit_error(
            request.member_id,
            request.generation_id,
            [
                (topic.topic_id if (topic := self.topics.get(name)) else "", number)
                for (name, number), committed in request.offsets.items()
                if not offsets.is_too_large(committed)
            ],
            instance_id=request.instance_id,
            version=request.version,
        )
        refused = None if code is None else dict.fromkeys(request.offsets, code)
        self._world.answer(request, CommitAnswer(refused or offsets.commit(request)))

    def offset_fetch(self, request: OffsetFetch) -> None:
        """Tell what is committed (`fetchOffsets`); who names a member must be it."""
        group = self.groups.get(request.group_id)
        code = group and group.fetch_error(request.member_id, request.member_epoch)
        answer = FetchAnswer(code) if code else self.classic.offsets.fetch(request)
        self._world.answer(request, answer)

    def offset_delete(self, request: OffsetDelete) -> None:
        """Remove offsets of topics that nobody reads (`deleteOffsets`)."""
        if (group := self.groups.get(request.group_id)) is None:
            self.classic.offset_delete(request)
        else:
            self._world.answer(request, self.classic.offsets.delete_unread(group, request))

    def describe_group(self, request: DescribeGroup) -> None:
        """Tell a classic group's state and members; any other is Dead (`describeGroups`)."""
        self.classic.describe_group(request)

    def describe_consumer_group(self, request: DescribeConsumerGroup) -> None:
        """Tell a consumer group's state and members (`consumerGroupDescribe`)."""
        if (group := self.groups.get(request.group_id)) is None:
            answer = ConsumerDescribeAnswer(ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            answer = group.describe(self._settings.assignors[0], self.topics)
        self._world.answer(request, answer)

    def list_groups(self, request: ListGroups) -> None:
        """Tell which groups there are, sorted (`listGroups`)."""
        found = [(each.group_id, CONSUMER, each.state) for each in self.groups.values()]
        groups = sorted([*found, *self.classic.listed()])
        self._world.answer(request, ListAnswer(ErrorCode.NONE, tuple(groups)))

    def delete_group(self, request: DeleteGroup) -> None:
        """Remove a group that has no members, and its offsets (`deleteGroups`)."""
        if (group := self.groups.get(request.group_id)) is None:
            self.classic.delete_group(request)
        elif group.members:
            self._world.answer(request, DeleteAnswer(ErrorCode.NON_EMPTY_GROUP))
        else:
            self.classic.offsets.delete_all(group.group_id)
            self._apply(record_of.group_tombstones(group.group_id, (), group.regexes))
            self._world.answer(request, DeleteAnswer(ErrorCode.NONE))

    def expire_offsets(self) -> None:
        """Remove offsets whose retention is over, and groups that have nothing left.

        Kafka: `cleanupGroupMetadata`.
        """
        self.classic.expire_offsets()
        for group in list(self.groups.values()):
            self.classic.offsets.expire(group)
            if not group.members and not self.classic.offsets.of(group.group_id):
                self._apply(record_of.group_tombstones(group.group_id, (), group.regexes))

    # --- upgrade --------------------------------------------------------------------------------

    def _group_to_join(self, group_id: str, records: list[Record]) -> ConsumerGroup:
        group = self.classic.groups.get(group_id)
        if group is None:
            return super()._group_to_join(group_id, records)
        if group.state is GroupState.EMPTY:
            records.append(Record("GroupMetadata", {"group": group_id}, None))
            return ConsumerGroup(group_id)
        if (
            not self._settings.migration_policy.upgrades
            or group.protocol_type != CONSUMER
            or len(group) > self._settings.max_size
        ):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        self.classic.interrupt(group)
        made = as_consumer_group(group, self.topics, records)
        for member in group.members:
            self._expect(group_id, member.member_id, member.session_timeout_ms)
        return made

    # --- downgrade ------------------------------------------------------------------------------

    def _fence(self, group: ConsumerGroup, members: Collection[ConsumerMember]) -> list[Record]:
        leaving = {member.member_id for member in members}
        staying = [each for name, each in group.members.items() if name not in leaving]
        if not staying or not self._can_downgrade(staying):
            return super()._fence(group, members)
        return self._downgrade(group, leaving, None, Cause.MEMBER_LEFT)

    def _settle(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        instance_id: str | None,
        owned: frozenset[IdPartition],
        records: list[Record],
    ) -> ConsumerMember:
        static = group.members.get(group.statics.get(instance_id or "", ""))
        others = [each for each in group.members.values() if each is not static]
        if static is None or static.classic is not None or not self._can_downgrade(others, 1):
            return super()._settle(group, member, updated, instance_id, owned, records)
        subscribed, is_new = self._note_member(
            group, member, updated, records, waits_for_regex=False
        )
        rebalances = group.assignment_epoch < subscribed.epoch
        if not rebalances:
            goal = Goal(group.assignment_epoch, group.target_of(updated))
            updated = self._reconcile(group, updated, goal, is_new, owned, records)
        cause = Cause.STATIC_MEMBER_CAME_BACK if rebalances else None
        records += self._downgrade(group, (), updated, cause)
        return updated

    def _can_downgrade(self, others: Collection[ConsumerMember], more: int = 0) -> bool:
        """Tell whether all others speak the classic protocol, and may be a classic group."""
        return (
            all(each.classic is not None for each in others)
            and self._settings.migration_policy.downgrades
            and len(others) + more <= self._classic_settings.max_size
        )

    def _downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[str],
        joining: ConsumerMember | None,
        cause: Cause | None,
    ) -> list[Record]:
        """Make a classic group in the place of a consumer group; it rebalances for a cause."""
        made = as_classic_group(
            group,
            leaving,
            joining,
            self.topics,
            self._classic_settings.version,
            self._clock.now_ms,
            self._world,
        )
        self._made[group.group_id] = made, cause
        names = group.member_order
        if joining is not None:
            replaced = group.statics[joining.instance_id or ""]
            names = [joining.member_id if name == replaced else name for name in names]
        assignments = {each.member_id: each.assignment for each in made.members}
        return [
            *record_of.group_tombstones(group.group_id, names, group.regexes),
            Record("GroupMetadata", {"group": group.group_id}, made.record(assignments)),
        ]


TABLE: Mapping[type, Callable[[MixedCoordinator, Any], None]] = {
    ConsumerHeartbeat: MixedCoordinator.heartbeat,
    JoinGroup: MixedCoordinator.join_group,
    SyncGroup: MixedCoordinator.sync_group,
    Heartbeat: MixedCoordinator.classic_heartbeat,
    LeaveGroup: MixedCoordinator.leave_group,
    OffsetCommit: MixedCoordinator.offset_commit,
    OffsetFetch: MixedCoordinator.offset_fetch,
    OffsetDelete: MixedCoordinator.offset_delete,
    DescribeGroup: MixedCoordinator.describe_group,
    DescribeConsumerGroup: MixedCoordinator.describe_consumer_group,
    ListGroups: MixedCoordinator.list_groups,
    DeleteGroup: MixedCoordinator.delete_group,
}
"""What handles each request."""
