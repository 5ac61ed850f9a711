"""The coordinator of classic groups: the effect of each request in each group state.

`TABLE` has a handler for each request and state. Checks that do not depend on the state are in the
handlers' callers, which are named after Kafka's requests. A handler changes the group, answers
requests (also earlier ones of waiting members) and writes the group's record. Timers and the
steps of a rebalance are in `rebalance`.

Source: `GroupCoordinator` and `GroupMetadataManager` of Kafka 1.1.1, 2.8.2 and 3.9.2;
`GroupCoordinatorShard` and the methods `classicGroup...` of `GroupMetadataManager` of 4.3.1.
`rules` has the version in which each difference appeared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation import rules
from kgroup.simulation.classic.group import ClassicGroup, ClassicMember, RebalanceCause
from kgroup.simulation.classic.rebalance import (
    NEW_MEMBER_TIMEOUT_MS,
    ClassicRebalance,
    ClassicRuntime,
)
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.message import (
    CONSUMER,
    CommitAnswer,
    DeleteAnswer,
    DeleteGroup,
    DescribeAnswer,
    DescribeGroup,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    LeavingMember,
    ListAnswer,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.offset_manager import OffsetManager
from kgroup.simulation.rules import BrokerSettings


class ClassicGroups:
    """The classic groups of a broker, and the requests that need no member.

    Args:
        settings: settings of the broker.
        runtime: takes answers and records.

    Attributes:
        groups: groups by id; removed groups are absent.
        offsets: committed offsets of the groups.
    """

    def __init__(self, settings: BrokerSettings, runtime: ClassicRuntime) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetManager(settings, runtime)
        self._settings = settings
        self._version = settings.version
        self._runtime = runtime
        self._clock = runtime.clock
        self._rebalance = ClassicRebalance(settings, runtime)

    def describe_group(self, request: DescribeGroup) -> None:
        """Answer with the group's state and members; a group that does not exist is Dead."""
        group = self.groups.get(request.group_id)
        if group is not None:
            answer = group.describe()
        else:
            answer = DescribeAnswer(ErrorCode.NONE, GroupState.DEAD)
        self._runtime.answer(request, answer)

    def list_groups(self, request: ListGroups) -> None:
        """Answer with all groups, sorted."""
        self._runtime.answer(request, ListAnswer(ErrorCode.NONE, tuple(sorted(self.listed()))))

    def listed(self) -> list[tuple[str, str, GroupState]]:
        """Return id, protocol type and state of all groups."""
        groups = self.groups.values()
        return [(group.group_id, group.protocol_type or "", group.state) for group in groups]

    def delete_group(self, request: DeleteGroup) -> None:
        """Remove a group without members."""
        group = self.groups.get(request.group_id)
        code = ErrorCode.NONE
        if group is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY:
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            self.offsets.delete_all(group.group_id)
            self._remove_group(group)
        self._runtime.answer(request, DeleteAnswer(code))

    def add_group(self, group_id: str) -> ClassicGroup:
        """Create a group that does not exist yet."""
        group = ClassicGroup(group_id, self._version, self._clock.now_ms, self._runtime)
        self.groups[group_id] = group
        return group

    def _remove_group(self, group: ClassicGroup) -> None:
        """Remove an empty group.

        Before 4.0, only a group that had a generation has a record, and gets a tombstone.
        """
        group.become(GroupState.DEAD, self._clock.now_ms)
        del self.groups[group.group_id]
        if group.generation_id > 0 or self._version >= rules.JAVA:
            self._runtime.append("GroupMetadata", {"group": group.group_id}, None)

    def load(self, key: Data, value: Data) -> None:
        """Load a group from its record; joins and syncs in progress are lost."""
        group_id = key["group"]
        self.groups[group_id] = ClassicGroup.load(
            group_id, self._version, value, self._clock.now_ms, self._runtime
        )

    def loaded(self, others: Collection[str] = ()) -> None:
        """Start to coordinate; every member gets a full session timeout (Kafka: `onGroupLoaded`).

        Args:
            others: ids of groups of other protocols.
        """
        for group_id in self.offsets.group_ids():
            if group_id not in self.groups and group_id not in others:
                self.add_group(group_id)
        for group in self.groups.values():
            self._runtime.moved(group, None)
            for member in group.members:
                self._rebalance.expect(group, member)
            if self._version >= rules.MEMBER_ID_REQUIRED and len(group) > self._settings.max_size:
                self._rebalance.maybe_prepare(group, RebalanceCause.TOO_MANY_MEMBERS)

    def unload(self) -> None:
        """Stop coordinating: answer waiting members with NOT_COORDINATOR.

        Kafka: `onGroupUnloaded`.
        """
        for group in self.groups.values():
            self._rebalance.abandon(group)
            group.become(GroupState.DEAD, self._clock.now_ms)
        self.groups.clear()

    def interrupt(self, group: ClassicGroup) -> None:
        """Make waiting members rejoin, before the group is upgraded to another protocol."""
        self._rebalance.interrupt(group, ErrorCode.REBALANCE_IN_PROGRESS)

    def give_up(self, group_id: str) -> None:
        """Drop a group that uses another protocol now."""
        if (group := self.groups.pop(group_id, None)) is not None:
            self._rebalance.abandon(group)

    def take_over(self, group: ClassicGroup, cause: RebalanceCause | None) -> None:
        """Add a group converted from another protocol; rebalance it if there is a cause."""
        self.groups[group.group_id] = group
        for member in group.members:
            self._rebalance.expect(group, member)
        if cause is not None:
            self._rebalance.prepare(group, cause)

    def offset_fetch(self, request: OffsetFetch) -> None:
        """Answer with committed offsets, in any state of the group."""
        self._runtime.answer(request, self.offsets.fetch(request))

    def offset_delete(self, request: OffsetDelete) -> None:
        """Remove committed offsets of topics to which no member subscribes."""
        group = self.groups.get(request.group_id)
        if group is None:
            self._runtime.answer(request, OffsetDeleteAnswer(ErrorCode.GROUP_ID_NOT_FOUND))
        elif group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            self._runtime.answer(request, OffsetDeleteAnswer(ErrorCode.NON_EMPTY_GROUP))
        else:
            answer = self.offsets.delete_unread(group, request)
            if self._version < rules.JAVA:
                self._remove_if_idle(group)
            self._runtime.answer(request, answer)

    def expire_offsets(self) -> None:
        """Remove expired offsets, and empty groups without offsets."""
        for group in list(self.groups.values()):
            self.offsets.expire(group)
            self._remove_if_idle(group)

    def _remove_if_idle(self, group: ClassicGroup) -> None:
        if group.state is GroupState.EMPTY and not self.offsets.of(group.group_id):
            self._remove_group(group)


class ClassicCoordinator(ClassicGroups):
    """The requests of members of classic groups, and commits."""

    def handle(self, request: Any) -> None:
        """Handle a request; the answer goes to the runtime, now or later."""
        REQUESTS[type(request)](self, request)

    # --- checks in every state ------------------------------------------------------------------

    def join_group(self, request: JoinGroup) -> None:
        """Add a member to the next generation."""
        member_id = request.member_id
        if not request.group_id:
            self._rebalance.refuse_join(request, member_id, ErrorCode.INVALID_GROUP_ID)
            return
        if not self.has_fit_session(request):
            self._rebalance.refuse_join(request, member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
            return
        group = self.groups.get(request.group_id)
        if group is None and member_id:
            self._rebalance.refuse_join(request, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        if group is None:
            group = self.add_group(request.group_id)
            if self._version >= rules.JAVA:
                self._rebalance.write(group, {})
        if not self._accepts(group, member_id):
            group.remove(member_id, RebalanceCause.TOO_MANY_MEMBERS)
            self._rebalance.refuse_join(request, "", ErrorCode.GROUP_MAX_SIZE_REACHED)
            if self._version >= rules.JAVA:
                return  # even if the group waits for this member only
        elif not group.supports(request.protocol_type, request.protocols):
            self._rebalance.refuse_join(request, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not member_id:
            self._join_new(group, request)
        elif member_id in group.pending_joins and request.instance_id is not None:
            self._rebalance.refuse_join(
                request, "", ErrorCode.UNKNOWN_SERVER_ERROR
            )  # Kafka throws this error
        elif member_id in group.pending_joins:
            self._add(group, request, member_id)
        elif (code := self._no_member(group, member_id, request.instance_id, joins=True)) is None:
            TABLE[JoinGroup][group.state](self, group, group[member_id], request)
        else:
            self._rebalance.refuse_join(request, member_id, code)
        self._rebalance.maybe_complete_join(group)

    def has_fit_session(self, request: JoinGroup) -> bool:
        """Return whether the requested session timeout is within the broker's limits."""
        low, high = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        return low <= request.session_timeout_ms <= high

    def sync_group(self, request: SyncGroup) -> None:
        """Answer with the member's assignment once the leader has sent it."""
        if (code := self._cannot_sync(request)) is not None:
            self._runtime.answer(request, SyncAnswer(code))
            return
        group = self.groups[request.group_id]
        TABLE[SyncGroup][group.state](self, group, group[request.member_id], request)

    def _cannot_sync(self, request: SyncGroup) -> ErrorCode | None:
        if request.is_incomplete:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if (code := self._no_group(request.group_id)) is not None:
            return code
        group = self.groups[request.group_id]
        code = self._no_member(group, request.member_id, request.instance_id)
        if code is not None:
            return code
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, group.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol not in (None, group.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def heartbeat(self, request: Heartbeat) -> None:
        """Restart a member's session timeout, and answer whether it must rejoin."""
        code = self._no_group(request.group_id)
        if code is None:
            group = self.groups[request.group_id]
            code = self._no_member(group, request.member_id, request.instance_id)
            is_old = request.generation_id != group.generation_id
            if self._version < rules.STATIC_MEMBERS:
                is_old &= group.state is not GroupState.COMPLETING_REBALANCE
            if code is None and is_old:
                code = ErrorCode.ILLEGAL_GENERATION
            if code is None:
                code = TABLE[Heartbeat][group.state](self, group, group[request.member_id])
        self._runtime.answer(request, HeartbeatAnswer(code))

    def leave_group(self, request: LeaveGroup) -> None:
        """Remove members."""
        if not request.group_id and self._version >= rules.MEMBER_ID_REQUIRED:
            self._runtime.answer(request, LeaveAnswer(ErrorCode.INVALID_GROUP_ID))
            return
        group = self.groups.get(request.group_id)
        results = [(member, self._leave(group, member)) for member in request.members]
        has_left = any(code is ErrorCode.NONE for _, code in results)
        if group is not None and has_left and self._version >= rules.JAVA:
            TABLE[LeaveGroup][group.state](self, group)
        self._runtime.answer(request, LeaveAnswer(ErrorCode.NONE, tuple(results)))

    def _leave(self, group: ClassicGroup | None, leaving: LeavingMember) -> ErrorCode:
        """Remove one member and return NONE, or return the error."""
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = leaving.member_id, leaving.instance_id
        known_id = group.static_id(instance_id)
        if self._version < rules.SAME_CHECKS:
            if member_id and known_id not in (None, member_id):
                return ErrorCode.FENCED_INSTANCE_ID
            if known_id is not None:
                member_id = known_id
        elif not member_id:
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known_id
        if member_id in group.pending_joins:
            group.forget_pending(member_id)
            if self._version < rules.JAVA:
                self._rebalance.maybe_complete_join(group)
            return ErrorCode.NONE
        if (code := self._no_member(group, member_id, leaving.instance_id)) is not None:
            return code
        self._rebalance.remove(group, group[member_id], RebalanceCause.MEMBER_LEFT)
        if self._version < rules.JAVA:  # 4.0 and later remove all members first
            TABLE[LeaveGroup][group.state](self, group)
        return ErrorCode.NONE

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Kafka: `acceptJoiningMember`."""
        if self._version < rules.MEMBER_ID_REQUIRED or group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            waits = member_id in group and group[member_id].awaiting_join is not None
            return waits or group.joining < self._settings.max_size
        return member_id in group or len(group) < self._settings.max_size

    def _no_group(self, group_id: str) -> ErrorCode | None:
        if not group_id and self._version >= rules.MEMBER_ID_REQUIRED:
            return ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(group_id)
        if group is None or (group.state is GroupState.EMPTY and self._version >= rules.JAVA):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None

    def _no_member(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, *, joins: bool = False
    ) -> ErrorCode | None:
        """Kafka: `validateCurrentMember`, `isStaticMemberFenced`."""
        if instance_id is not None:
            known_id = group.static_id(instance_id)
            if known_id is None and (joins or self._version >= rules.SAME_CHECKS):
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known_id not in (None, member_id):
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in group else ErrorCode.UNKNOWN_MEMBER_ID

    # --- JoinGroup ------------------------------------------------------------------------------

    def _join_new(self, group: ClassicGroup, request: JoinGroup) -> None:
        """Kafka: `doUnknownJoinGroup`, `classicGroupJoinNewMember`."""
        member_id = self._runtime.new_member_id(request.instance_id or request.client_id)
        if (old_id := group.static_id(request.instance_id)) is not None:
            self._replace(group, group[old_id], request, member_id)
        elif (
            self._version >= rules.MEMBER_ID_REQUIRED
            and request.version >= 4
            and request.instance_id is None
        ):
            group.pending_joins[member_id] = self._clock.after(
                request.session_timeout_ms,
                lambda: self._rebalance.expire_pending_join(group, member_id),
            )
            self._rebalance.refuse_join(request, member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(group, request, member_id)

    def _join_again(self, group: ClassicGroup, member: ClassicMember, request: JoinGroup) -> None:
        """Update the member's subscription and wait for the other members."""
        self._update(group, member, request)
        is_leader = group.leader_id == member.member_id
        cause = RebalanceCause.LEADER_JOINED if is_leader else RebalanceCause.MEMBER_CHANGED
        self._rebalance.maybe_prepare(group, cause)

    def _join_before_sync(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroup
    ) -> None:
        """Repeat the answer to an unchanged member, which may have missed it; else rebalance."""
        if member.protocols == request.protocols:
            self._rebalance.welcome(group, member, request)
        else:
            self._join_again(group, member, request)

    def _join_stable(self, group: ClassicGroup, member: ClassicMember, request: JoinGroup) -> None:
        """Start a rebalance if the leader joins or the subscription changed."""
        if group.leader_id == member.member_id or member.protocols != request.protocols:
            self._join_again(group, member, request)
        else:
            self._rebalance.welcome(group, member, request, leads=False)

    def _add(self, group: ClassicGroup, request: JoinGroup, member_id: str) -> None:
        """Kafka: `addMemberAndRebalance`."""
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocol_type,
            request.protocols,
            is_new=self._version >= rules.MEMBER_ID_REQUIRED,
        )
        if group.state is GroupState.PREPARING_REBALANCE and (
            group.is_initial if self._version >= rules.JAVA else group.generation_id == 0
        ):
            group.has_new_member = True
        group.add(member)
        group.await_join(member, request)
        if member.is_new:
            self._rebalance.expect(group, member, NEW_MEMBER_TIMEOUT_MS)
        self._rebalance.maybe_prepare(group, RebalanceCause.MEMBER_JOINED)

    def _update(self, group: ClassicGroup, member: ClassicMember, request: JoinGroup) -> None:
        """Kafka: `GroupMetadata.updateMember`."""
        group.update(member, request.protocols)
        if self._version >= rules.NEW_TIMEOUTS:
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
            member.session_timeout_ms = request.session_timeout_ms
        group.await_join(member, request)

    def _replace(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroup, member_id: str
    ) -> None:
        """Give a returning static member a new id (Kafka: `updateStaticMemberAndRebalance`)."""
        leader_id = group.leader_id
        self._fence(group, member)
        group.rename(member, member_id)
        member.is_new &= self._version < rules.JAVA  # 4.0 creates a new object
        self._rebalance.expect(group, member)
        self._update(group, member, request)
        is_stable = group.state is GroupState.STABLE
        changes = is_stable and group.protocol != group.select_protocol()
        if changes or group.state is GroupState.COMPLETING_REBALANCE:
            self._rebalance.prepare(group, RebalanceCause.STATIC_MEMBER_CAME_BACK)
        elif group.state is GroupState.STABLE:
            self._rebalance.write(
                group, {member.member_id: member.assignment for member in group.members}
            )
            group.await_join(member, None)
            if self._version >= rules.SKIPPED_ASSIGNMENT and request.version >= 9:
                self._rebalance.welcome(group, member, request, skips=group.leader_id == member_id)
            else:  # send its old id as leader, so that it does not assign
                self._rebalance.welcome(group, member, request, leads=False, leader_id=leader_id)

    def _fence(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Answer waiting requests of the static member's old id with FENCED_INSTANCE_ID."""
        code = ErrorCode.FENCED_INSTANCE_ID
        if (join := group.await_join(member, None)) is not None:
            self._rebalance.refuse_join(join, member.member_id, code)
        if (sync := member.awaiting_sync) is not None:
            member.awaiting_sync = None
            self._runtime.answer(sync, SyncAnswer(code))

    # --- SyncGroup, Heartbeat, LeaveGroup -------------------------------------------------------

    def _sync_too_early(
        self, group: ClassicGroup, member: ClassicMember, request: SyncGroup
    ) -> None:
        """Tell the member to rejoin."""
        self._runtime.answer(request, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))

    def _sync(self, group: ClassicGroup, member: ClassicMember, request: SyncGroup) -> None:
        """Wait for the leader; the leader's assignments make the group stable.

        If the record is too large, all members fail, and the next rebalance begins.
        """
        member.awaiting_sync = request
        self._rebalance.note_sync(group, member)
        if group.leader_id == member.member_id:
            assignments = {
                member.member_id: request.assignments.get(member.member_id, b"")
                for member in group.members
            }
            if not self._rebalance.fits(group, assignments):
                self._rebalance.propagate(group, {}, ErrorCode.UNKNOWN_SERVER_ERROR)
                self._rebalance.maybe_prepare(group, RebalanceCause.RECORD_TOO_LARGE)
                return
            self._rebalance.write(group, assignments)
            group.become(GroupState.STABLE, self._clock.now_ms)
            self._rebalance.propagate(group, assignments, ErrorCode.NONE)

    def _sync_stable(self, group: ClassicGroup, member: ClassicMember, request: SyncGroup) -> None:
        """Return the assignment that the leader sent earlier."""
        self._rebalance.note_sync(group, member)
        answer = SyncAnswer(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)
        self._runtime.answer(request, answer)
        if self._version < rules.JAVA:
            self._rebalance.expect(group, member)

    def _beat(self, group: ClassicGroup, member: ClassicMember) -> ErrorCode:
        """Answer without an error."""
        self._rebalance.expect(group, member)
        return ErrorCode.NONE

    def _beat_before_sync(self, group: ClassicGroup, member: ClassicMember) -> ErrorCode:
        """Answer without an error; before 2.6: tell the member to rejoin."""
        if self._version >= rules.LIVELY_HEARTBEAT:
            return self._beat(group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _beat_while_joining(self, group: ClassicGroup, member: ClassicMember) -> ErrorCode:
        """Tell the member to rejoin."""
        self._rebalance.expect(group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _leave_empty(self, group: ClassicGroup) -> None:
        """Drop the pending member id; nothing else changes."""

    def _leave_while_joining(self, group: ClassicGroup) -> None:
        """Wait for one member less."""
        self._rebalance.maybe_complete_join(group)

    def _leave_generation(self, group: ClassicGroup) -> None:
        """Start a rebalance."""
        self._rebalance.maybe_prepare(group, RebalanceCause.MEMBER_LEFT)

    # --- offsets --------------------------------------------------------------------------------

    def offset_commit(self, request: OffsetCommit) -> None:
        """Commit offsets of a member, or of a client outside the group."""
        group = self.groups.get(request.group_id)
        if group is not None:
            code = TABLE[OffsetCommit][group.state](self, group, request)
        elif request.generation_id < 0:
            self.add_group(request.group_id)
            code = ErrorCode.NONE
        else:
            is_new = self._version >= rules.JAVA and request.version >= 9
            code = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        if code is ErrorCode.NONE:
            errors = self.offsets.commit(request)
        else:
            errors = dict.fromkeys(request.offsets, code)
        self._runtime.answer(request, CommitAnswer(errors))

    def _commit_empty(self, group: ClassicGroup, request: OffsetCommit) -> ErrorCode:
        """Accept commits without a generation; refuse others."""
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def _commit(self, group: ClassicGroup, request: OffsetCommit) -> ErrorCode:
        """Accept commits of members of the current generation, and restart the session timeout."""
        code = self._check_committer(group, request)
        if code is ErrorCode.NONE:
            self._rebalance.expect(group, group[request.member_id])
        return code

    def _commit_before_sync(self, group: ClassicGroup, request: OffsetCommit) -> ErrorCode:
        """Refuse the commit: the member does not have its assignment yet."""
        code = self._check_committer(group, request)
        is_checked = self._version >= rules.SUBSCRIPTION_KNOWN
        if code is ErrorCode.NONE or not (is_checked or code is ErrorCode.FENCED_INSTANCE_ID):
            return ErrorCode.REBALANCE_IN_PROGRESS
        return code

    def _check_committer(self, group: ClassicGroup, request: OffsetCommit) -> ErrorCode:
        code = self._no_member(group, request.member_id, request.instance_id)
        if code is None and request.generation_id != group.generation_id:
            code = ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE if code is None else code


TABLE: Mapping[type, Mapping[GroupState, Callable[..., Any]]] = {
    JoinGroup: {
        GroupState.PREPARING_REBALANCE: ClassicCoordinator._join_again,
        GroupState.COMPLETING_REBALANCE: ClassicCoordinator._join_before_sync,
        GroupState.STABLE: ClassicCoordinator._join_stable,
    },
    SyncGroup: {
        GroupState.PREPARING_REBALANCE: ClassicCoordinator._sync_too_early,
        GroupState.COMPLETING_REBALANCE: ClassicCoordinator._sync,
        GroupState.STABLE: ClassicCoordinator._sync_stable,
    },
    Heartbeat: {
        GroupState.PREPARING_REBALANCE: ClassicCoordinator._beat_while_joining,
        GroupState.COMPLETING_REBALANCE: ClassicCoordinator._beat_before_sync,
        GroupState.STABLE: ClassicCoordinator._beat,
    },
    LeaveGroup: {
        GroupState.EMPTY: ClassicCoordinator._leave_empty,
        GroupState.PREPARING_REBALANCE: ClassicCoordinator._leave_while_joining,
        GroupState.COMPLETING_REBALANCE: ClassicCoordinator._leave_generation,
        GroupState.STABLE: ClassicCoordinator._leave_generation,
    },
    OffsetCommit: {
        GroupState.EMPTY: ClassicCoordinator._commit_empty,
        GroupState.PREPARING_REBALANCE: ClassicCoordinator._commit,
        GroupState.COMPLETING_REBALANCE: ClassicCoordinator._commit_before_sync,
        GroupState.STABLE: ClassicCoordinator._commit,
    },
}
"""The handler of each member request in each state; an empty group has no members."""

REQUESTS: Mapping[type, Callable[[ClassicCoordinator, Any], None]] = {
    JoinGroup: ClassicCoordinator.join_group,
    SyncGroup: ClassicCoordinator.sync_group,
    Heartbeat: ClassicCoordinator.heartbeat,
    LeaveGroup: ClassicCoordinator.leave_group,
    OffsetCommit: ClassicCoordinator.offset_commit,
    OffsetFetch: ClassicCoordinator.offset_fetch,
    OffsetDelete: ClassicCoordinator.offset_delete,
    DescribeGroup: ClassicCoordinator.describe_group,
    ListGroups: ClassicCoordinator.list_groups,
    DeleteGroup: ClassicCoordinator.delete_group,
}
"""Handler of each request, by class of the request."""
