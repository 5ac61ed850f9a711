"""The rebalance of classic groups: the join phase, the sync phase, and the timeouts.

Source: `GroupCoordinator` of Kafka 1.1.1, 2.8.2 and 3.9.2, and `GroupMetadataManager` of 4.3.1.
`rules` has the version in which each difference appeared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol as Interface

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.group_record import MemberInRecord, record_size
from kgroup.simulation import rules
from kgroup.simulation.classic.group import ClassicGroup, ClassicMember, RebalanceCause, Watch
from kgroup.simulation.clock import Clock
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.message import Answer, JoinAnswer, JoinGroup, Request, SyncAnswer
from kgroup.simulation.position_commit import PositionCommits
from kgroup.simulation.rules import BrokerSettings

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member waits for the others, in ms (`NewMemberJoinTimeoutMs`)."""


class ClassicRuntime(Watch, Interface):
    """Takes answers and records, and generates ids."""

    @property
    def clock(self) -> Clock:
        """The clock of the simulation."""
        ...

    def answer(self, request: Request, answer: Answer) -> None:
        """Answer a request."""

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        """Write a record; without a value, a tombstone for the key."""

    def append_positions(self, commits: PositionCommits, count: int) -> int:
        """Write records that are made of the commits when they are read; return their offset."""
        ...

    def new_member_id(self, prefix: str) -> str:
        """Return a new unique id: the prefix, a hyphen and a UUID."""
        ...


class ClassicRebalance:
    """Moves groups from one generation to the next.

    Args:
        settings: settings of the broker.
        runtime: takes answers and records.
    """

    def __init__(self, settings: BrokerSettings, runtime: ClassicRuntime) -> None:
        self._settings = settings
        self._version = settings.version
        self._runtime = runtime
        self._clock = runtime.clock

    # --- the rebalance --------------------------------------------------------------------------

    def maybe_prepare(self, group: ClassicGroup, cause: RebalanceCause) -> None:
        """Start a rebalance unless the group is already preparing one."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            self.prepare(group, cause)

    def prepare(self, group: ClassicGroup, cause: RebalanceCause) -> None:
        """Wait for all members to rejoin; a group that was empty waits for the initial delay."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.propagate(group, {}, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._note_synced(group)
        group.is_initial = group.state is GroupState.EMPTY
        group.become(GroupState.PREPARING_REBALANCE, self._clock.now_ms, cause)
        if group.is_initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._wait_initially(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.has_all_joined:
            self._complete_join(group)
        else:
            self._wait_for_joins(group)

    def _wait_initially(self, group: ClassicGroup, delay_ms: int, rest_ms: int) -> None:
        """Wait for more members, longer if some join (Kafka: `InitialDelayedJoin`)."""

        def end() -> None:
            if group.has_new_member and rest_ms:
                group.has_new_member = False
                longer_ms = min(self._settings.initial_rebalance_delay_ms, rest_ms)
                self._wait_initially(group, longer_ms, max(rest_ms - delay_ms, 0))
            else:
                self._complete_join(group)

        group.join = self._clock.after(delay_ms, end)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        timeout_ms = group.rebalance_timeout_ms
        group.join = self._clock.after(timeout_ms, lambda: self._complete_join(group))

    def maybe_complete_join(self, group: ClassicGroup, *, initially: bool = False) -> None:
        """End the join phase if all members have joined.

        Args:
            group: group in any state.
            initially: also end the initial delay of a group that was empty.
        """
        waits = group.state is GroupState.PREPARING_REBALANCE
        if waits and group.has_all_joined and (initially or not group.is_initial):
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """Start the next generation without members that have not joined (Kafka: `onCompleteJoin`).

        Static members stay. If the leader has not joined, another member becomes leader; if no
        member has joined, wait for all of them once more.
        """
        if group.join is not None:
            group.join.cancel()
        has_static = self._version >= rules.STATIC_MEMBERS
        for member in group.members:
            if member.awaiting_join is None and not (has_static and member.instance_id is not None):
                if self._version < rules.SESSION_ENDS:
                    member.session = None
                group.remove(member.member_id, RebalanceCause.NOT_JOINED)
        if has_static and len(group) and not group.elect_joined_leader():
            self._wait_for_joins(group)
            return
        group.begin_generation(self._clock.now_ms)
        if group.state is GroupState.EMPTY:
            self.write(group, {})
            return
        for member in group.members:
            if (join := group.await_join(member, None)) is not None:
                self.welcome(group, member, join)
            self.expect(group, member)
            member.is_new = False
        if self._version >= rules.PENDING_SYNC:
            group.pending_syncs.update(member.member_id for member in group.members)
            generation_id = group.generation_id
            group.sync = self._clock.after(
                group.rebalance_timeout_ms, lambda: self._expire_syncs(group, generation_id)
            )

    def propagate(
        self, group: ClassicGroup, assignments: Mapping[str, bytes], code: ErrorCode
    ) -> None:
        """Answer the members that wait for their assignment (Kafka: `propagateAssignment`)."""
        is_sound = code is ErrorCode.NONE
        for member in group.members:
            member.assignment = assignments.get(member.member_id, b"")
            if (sync := member.awaiting_sync) is not None:
                member.awaiting_sync = None
                answer = SyncAnswer(
                    code,
                    member.assignment,
                    group.protocol_type if is_sound else None,
                    group.protocol if is_sound else None,
                )
                self._runtime.answer(sync, answer)
                self.expect(group, member)

    def note_sync(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Stop waiting for this member's SyncGroup."""
        group.pending_syncs.discard(member.member_id)
        self._note_synced(group)

    def _note_synced(self, group: ClassicGroup) -> None:
        if not group.pending_syncs and group.sync is not None:
            group.sync.cancel()
            group.sync = None

    # --- timeouts -------------------------------------------------------------------------------

    def expect(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """Restart the timer that removes the member, by default after its session timeout.

        Kafka: `completeAndScheduleNextHeartbeatExpiration`.
        """
        if member.session is not None:
            member.session.cancel()
        member.session = self._clock.after(
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
            lambda: self._expire_session(group, member),
        )

    def _expire_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member that timed out; a member that waits stays, unless it is new."""
        waits = member.awaiting_join is not None or member.awaiting_sync is not None
        if waits and not member.is_new:
            return
        self.remove(group, member, RebalanceCause.SESSION_EXPIRED)
        if group.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group, initially=self._version >= rules.JAVA)
        elif group.state not in (GroupState.EMPTY, GroupState.DEAD):
            self.prepare(group, RebalanceCause.SESSION_EXPIRED)

    def expire_pending_join(self, group: ClassicGroup, member_id: str) -> None:
        """Drop a member id that was given out and has not joined in time."""
        group.forget_pending(member_id)
        self.maybe_complete_join(group, initially=self._version >= rules.JAVA)

    def _expire_syncs(self, group: ClassicGroup, generation_id: int) -> None:
        """Remove members that joined but did not sync in time (Kafka: `onExpirePendingSync`)."""
        if group.generation_id == generation_id and group.pending_syncs:
            for member_id in list(group.pending_syncs):
                group.remove(member_id, RebalanceCause.NOT_SYNCED)
            self.prepare(group, RebalanceCause.NOT_SYNCED)

    # --- members and records --------------------------------------------------------------------

    def fits(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> bool:
        """Compute the size of the group's record; return whether the broker accepts it."""
        members = [
            MemberInRecord(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                len(member.metadata(group.protocol)) if group.protocol else 0,
                len(assignments.get(member.member_id, b"")),
            )
            for member in group.members
        ]
        group.record_bytes = record_size(
            group.group_id, group.protocol_type, group.protocol, group.leader_id, members
        ).total
        return group.record_bytes <= self._settings.message_max_size

    def write(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Write the group's record."""
        self._runtime.append("GroupMetadata", {"group": group.group_id}, group.record(assignments))

    def interrupt(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Answer waiting JoinGroup and SyncGroup requests with an error."""
        for member in group.members:
            if (join := group.await_join(member, None)) is not None:
                self.refuse_join(join, member.member_id, code)
            if (sync := member.awaiting_sync) is not None:
                member.awaiting_sync = None
                self._runtime.answer(sync, SyncAnswer(code))

    def abandon(self, group: ClassicGroup) -> None:
        """Cancel all timers of a group, and answer waiting members with NOT_COORDINATOR."""
        for timer in (group.join, group.sync, *group.pending_joins.values()):
            if timer is not None:
                timer.cancel()
        for member in group.members:
            if member.session is not None:
                member.session.cancel()
        self.interrupt(group, ErrorCode.NOT_COORDINATOR)

    def welcome(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroup,
        *,
        leads: bool | None = None,
        leader_id: str | None = None,
        skips: bool = False,
    ) -> None:
        """Answer a member with its generation; the leader also receives all members."""
        if leads is None:
            leads = group.leader_id == member.member_id
        answer = JoinAnswer(
            ErrorCode.NONE,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol,
            leader_id or group.leader_id or "",
            group.joined_members() if leads else (),
            skips,
        )
        self._runtime.answer(request, answer)

    def refuse_join(self, request: JoinGroup, member_id: str, code: ErrorCode) -> None:
        """Answer a JoinGroup with an error."""
        first = 0 if self._version < rules.MEMBER_ID_REQUIRED else -1
        self._runtime.answer(request, JoinAnswer(code, member_id, first))

    def remove(self, group: ClassicGroup, member: ClassicMember, cause: RebalanceCause) -> None:
        """Remove a member, and answer its waiting JoinGroup with an error."""
        join = group.await_join(member, None)
        if join is not None and self._version >= rules.MEMBER_ID_REQUIRED:
            self.refuse_join(join, "", ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id, cause)
