"""The classic groups of a broker: what anybody may ask of them, how they end, how they are loaded.

Source: `GroupCoordinator` and `GroupMetadataManager` of Kafka 1.1.1, 2.8.2 and 3.9.2,
`GroupCoordinatorShard` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation import rules
from kgroup.simulation.classic.group import Cause, ClassicGroup
from kgroup.simulation.classic.rebalance import ClassicRebalance, World
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.message import (
    CONSUMER,
    DeleteAnswer,
    DeleteGroup,
    DescribeAnswer,
    DescribeGroup,
    ListAnswer,
    ListGroups,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
)
from kgroup.simulation.offset_manager import OffsetManager
from kgroup.simulation.rules import Settings


class ClassicGroups:
    """The classic groups of a broker.

    Args:
        settings: of the broker.
        world: what is around it.

    Attributes:
        groups: by id; a group that is gone is not there.
        offsets: that they have committed.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetManager(settings, world.clock, world.append)
        self._settings = settings
        self._version = settings.version
        self._world = world
        self._clock = world.clock
        self._rebalance = ClassicRebalance(settings, world)

    def describe_group(self, request: DescribeGroup) -> None:
        """Tell a group's state and members; one that is not there is Dead."""
        group = self.groups.get(request.group_id)
        if group is not None:
            answer = group.describe()
        else:
            answer = DescribeAnswer(ErrorCode.NONE, GroupState.DEAD)
        self._world.answer(request, answer)

    def list_groups(self, request: ListGroups) -> None:
        """Tell which groups there are, sorted."""
        self._world.answer(request, ListAnswer(ErrorCode.NONE, tuple(sorted(self.listed()))))

    def listed(self) -> list[tuple[str, str, GroupState]]:
        """Return id, protocol type and state of all groups."""
        found = self.groups.values()
        return [(each.group_id, each.protocol_type or "", each.state) for each in found]

    def delete_group(self, request: DeleteGroup) -> None:
        """Remove a group that has no members."""
        group = self.groups.get(request.group_id)
        code = ErrorCode.NONE
        if group is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY:
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            self.offsets.delete_all(group.group_id)
            self._remove_group(group)
        self._world.answer(request, DeleteAnswer(code))

    def add_group(self, group_id: str) -> ClassicGroup:
        """Make a group that is not there."""
        group = ClassicGroup(group_id, self._version, self._clock.now_ms, self._world)
        self.groups[group_id] = group
        return group

    def _remove_group(self, group: ClassicGroup) -> None:
        """Remove an empty group; before 4.0 only one that had a generation has a record."""
        group.become(GroupState.DEAD, self._clock.now_ms)
        del self.groups[group.group_id]
        if group.generation_id > 0 or self._version >= rules.JAVA:
            self._world.append("GroupMetadata", {"group": group.group_id}, None)

    def load(self, key: Data, value: Data) -> None:
        """Take a group from its record; what its members were about to do is lost."""
        group_id = key["group"]
        self.groups[group_id] = ClassicGroup.load(
            group_id, self._version, value, self._clock.now_ms, self._world
        )

    def loaded(self, others: Collection[str] = ()) -> None:
        """Begin: members have a whole session to be heard of (Kafka: `onGroupLoaded`).

        Args:
            others: ids of groups that speak another protocol.
        """
        for group_id in self.offsets.group_ids():
            if group_id not in self.groups and group_id not in others:
                self.add_group(group_id)
        for group in self.groups.values():
            self._world.moved(group, None)
            for member in group.members:
                self._rebalance.expect(group, member)
            if self._version >= rules.MEMBER_ID_REQUIRED and len(group) > self._settings.max_size:
                self._rebalance.maybe_prepare(group, Cause.TOO_MANY_MEMBERS)

    def unload(self) -> None:
        """End: who waits is told to look for another coordinator (Kafka: `onGroupUnloaded`)."""
        for group in self.groups.values():
            self._rebalance.abandon(group)
            group.become(GroupState.DEAD, self._clock.now_ms)
        self.groups.clear()

    def interrupt(self, group: ClassicGroup) -> None:
        """Have members that wait for others join again: the group is to speak another protocol."""
        self._rebalance.interrupt(group, ErrorCode.REBALANCE_IN_PROGRESS)

    def give_up(self, group_id: str) -> None:
        """Forget a group: it speaks another protocol now."""
        if (group := self.groups.pop(group_id, None)) is not None:
            self._rebalance.abandon(group)

    def take_over(self, group: ClassicGroup, cause: Cause | None) -> None:
        """Take a group that has spoken another protocol; it rebalances if there is a cause."""
        self.groups[group.group_id] = group
        for member in group.members:
            self._rebalance.expect(group, member)
        if cause is not None:
            self._rebalance.prepare(group, cause)

    def offset_fetch(self, request: OffsetFetch) -> None:
        """Tell what is committed, whatever the group's state."""
        self._world.answer(request, self.offsets.fetch(request))

    def offset_delete(self, request: OffsetDelete) -> None:
        """Remove offsets of topics that nobody reads."""
        group = self.groups.get(request.group_id)
        if group is None:
            self._world.answer(request, OffsetDeleteAnswer(ErrorCode.GROUP_ID_NOT_FOUND))
        elif group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            self._world.answer(request, OffsetDeleteAnswer(ErrorCode.NON_EMPTY_GROUP))
        else:
            answer = self.offsets.delete_unread(group, request)
            if self._version < rules.JAVA:
                self._remove_if_idle(group)
            self._world.answer(request, answer)

    def expire_offsets(self) -> None:
        """Remove offsets whose retention is over, and groups that have nothing left."""
        for group in list(self.groups.values()):
            self.offsets.expire(group)
            self._remove_if_idle(group)

    def _remove_if_idle(self, group: ClassicGroup) -> None:
        if group.state is GroupState.EMPTY and not self.offsets.of(group.group_id):
            self._remove_group(group)
