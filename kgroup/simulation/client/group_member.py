"""A consumer in a classic group: identity, coordinator, commits, leaving, and heartbeats.

Each error has its handler in a table.

Source: `AbstractCoordinator`, its `HeartbeatThread`, `Heartbeat` and `ConsumerCoordinator` of
kafka-clients 4.3.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientState, ConsumerConfig, Host
from kgroup.simulation.clock import Timer
from kgroup.simulation.message import (
    NO_GENERATION,
    CommitAnswer,
    CommittedPartition,
    Heartbeat,
    HeartbeatAnswer,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
)

_NOT_JOINED = (ClientState.UNJOINED, ClientState.PREPARING_REBALANCE)


class HeartbeatClient(Protocol):
    """The part of the consumer that the heartbeat thread and the application thread share."""

    state: ClientState
    member_id: str
    generation_id: int
    coordinator: int | None
    is_closed: bool

    @property
    def poll_expires_ms(self) -> int | None:
        """Deadline of the next poll(), in ms; None during poll()."""
        ...

    def find_coordinator(self) -> None:
        """Look up the coordinator."""

    def request_rejoin(self) -> None:
        """Rejoin in the next poll()."""

    def leave_group(self) -> None:
        """Leave the group and reset the generation."""

    def reset_state(self, *, keeps_id: bool = False) -> None:
        """Reset the generation."""

    def fail_later(self, reason: str) -> None:
        """Make the next poll() throw."""


class HeartbeatThread:
    """The heartbeat thread, which sleeps while the consumer is in no generation.

    Args:
        config: configuration of the consumer.
        host: environment of the consumer.
        member: the consumer.
    """

    def __init__(self, config: ConsumerConfig, host: Host, member: HeartbeatClient) -> None:
        self._config = config
        self._host = host
        self._clock = host.clock
        self._member = member
        self._round: Timer | None = None
        self._due_ms = 0
        self._session_ends_ms = 0
        self._failures = 0
        self._is_fenced = False
        """Whether the consumer reads on, without heartbeats."""

    def enable(self, first_ms: int | None = None) -> None:
        """Start with new timeouts; the first heartbeat follows after a delay."""
        delay_ms = self._config.heartbeat_interval_ms if first_ms is None else first_ms
        self._is_fenced = False
        self._due_ms = self._clock.now_ms + delay_ms
        self.reset_session()
        self._schedule(delay_ms)

    def reset_session(self) -> None:
        """Restart the session timeout."""
        self._session_ends_ms = self._clock.now_ms + self._config.session_timeout_ms

    def _schedule(self, delay_ms: int | None = None) -> None:
        if self._round is not None:
            self._round.cancel()
        if delay_ms is None:
            due_ms = min(self._due_ms, self._session_ends_ms)
            if (expires_ms := self._member.poll_expires_ms) is not None:
                due_ms = min(due_ms, expires_ms)
            delay_ms = due_ms - self._clock.now_ms
        self._round = self._host.after(delay_ms, self._run)

    def _run(self) -> None:
        """Run one round."""
        member, now_ms = self._member, self._clock.now_ms
        if member.is_closed or member.state in _NOT_JOINED or self._is_fenced:
            return
        if member.coordinator is None:
            member.find_coordinator()
            self._schedule(self._config.retry_backoff_ms)
        elif now_ms >= self._session_ends_ms:
            member.coordinator = None
            self._schedule(0)
        elif (expires_ms := member.poll_expires_ms) is not None and now_ms >= expires_ms:
            member.leave_group()  # max.poll.interval.ms exceeded
        else:
            if now_ms >= self._due_ms:
                self._due_ms = now_ms + self._config.heartbeat_interval_ms
                self._send(member.coordinator)
            self._schedule()

    def _send(self, coordinator: int) -> None:
        member = self._member
        generation = (member.generation_id, member.member_id)
        request = Heartbeat(self._config.group_id, *generation, self._config.sent_instance_id)

        def on_answer(answer: HeartbeatAnswer | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error
            is_same = generation == (member.generation_id, member.member_id)
            ON_HEARTBEAT[code](self, code, is_same)

        self._host.send(coordinator, request, on_answer)

    def _received(self, code: ErrorCode, is_same: bool) -> None:
        """Continue, with a new session timeout."""
        self._failures = 0
        self.reset_session()

    def _rebalancing(self, code: ErrorCode, is_same: bool) -> None:
        """Rejoin in the next poll(), unless the consumer is already joining."""
        self._received(code, is_same)
        if self._member.state is ClientState.STABLE:
            self._member.request_rejoin()

    def _elsewhere(self, code: ErrorCode, is_same: bool) -> None:
        """Look up the coordinator, and retry after an increasing backoff."""
        self._member.coordinator = None
        self._due_ms = self._clock.now_ms + self._config.backoff_ms(self._failures)
        self._failures += 1
        self._schedule()

    def _unknown(self, code: ErrorCode, is_same: bool) -> None:
        """Rejoin in the next poll(), as a new member unless only the generation was wrong."""
        if is_same:
            self._member.reset_state(keeps_id=self._config.keeps_id(code, "Heartbeat"))
        else:
            self._received(code, is_same)

    def _fenced(self, code: ErrorCode, is_same: bool) -> None:
        """Fail: the next poll() throws, because another consumer has the same instance id."""
        if is_same and "Heartbeat" not in self._config.on_error.fenced_by:
            self._is_fenced = True
            return
        self._unknown(code, is_same)
        if is_same:
            self._member.fail_later(code.name)


ON_HEARTBEAT: Mapping[ErrorCode, Callable[[HeartbeatThread, ErrorCode, bool], None]] = {
    ErrorCode.NONE: HeartbeatThread._received,
    ErrorCode.NETWORK_EXCEPTION: HeartbeatThread._elsewhere,
    ErrorCode.REBALANCE_IN_PROGRESS: HeartbeatThread._rebalancing,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: HeartbeatThread._elsewhere,
    ErrorCode.NOT_COORDINATOR: HeartbeatThread._elsewhere,
    ErrorCode.ILLEGAL_GENERATION: HeartbeatThread._unknown,
    ErrorCode.UNKNOWN_MEMBER_ID: HeartbeatThread._unknown,
    ErrorCode.FENCED_INSTANCE_ID: HeartbeatThread._fenced,
}
"""The handler of each answer; if the generation has changed since the request, an error of the old
generation only proves that the coordinator is alive.
"""


class GroupMember(ABC):
    """The membership of a consumer, as its coordinator knows it.

    Args:
        config: configuration of the consumer.
        host: environment of the consumer.

    Attributes:
        config: configuration of the consumer.
        state: current state.
        member_id: member id; "" if it has none.
        generation_id: current generation; -1 if in none.
        coordinator: broker id of the coordinator; None if unknown.
        is_closed: the consumer is closed.
    """

    def __init__(self, config: ConsumerConfig, host: Host) -> None:
        self.config = config
        self.state = ClientState.UNJOINED
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.coordinator: int | None = None
        self.is_closed = False
        self._host = host
        self._clock = host.clock
        self._protocol: str | None = None
        self._failure: str | None = None
        self._rejoin_needed = True
        self._needs_prepare = True
        self._joins_ms = 0
        """Time of the next JoinGroup, in ms."""
        self._is_looking = False
        self._heartbeat = HeartbeatThread(config, host, self)

    @property
    @abstractmethod
    def poll_expires_ms(self) -> int | None:
        """Deadline of the next poll(), in ms; None during poll()."""

    @abstractmethod
    def _continue(self) -> None:
        """Continue a blocked poll()."""

    @property
    def _generation(self) -> tuple[int, str]:
        """Generation and member id of a request, to recognize answers about an old generation."""
        return self.generation_id, self.member_id

    def find_coordinator(self) -> None:
        """Look up the coordinator, then continue poll()."""
        if not self._is_looking:
            self._is_looking = True
            self._host.find_coordinator(self.config.group_id, self._coordinator_found)

    def _coordinator_found(self, broker: int | None) -> None:
        self._is_looking = False
        if broker is None:
            self._host.after(self.config.retry_backoff_ms, self._continue)
            return
        self.coordinator = broker
        self._heartbeat.reset_session()
        self._continue()

    def request_rejoin(self) -> None:
        """Rejoin in the next poll()."""
        self._rejoin_needed = True

    def fail_later(self, reason: str) -> None:
        """Make the next poll() throw."""
        self._failure = reason

    def reset_state(self, *, keeps_id: bool = False) -> None:
        """Reset the generation (`resetStateOnResponseError`)."""
        self.state = ClientState.UNJOINED
        self.generation_id = NO_GENERATION
        self._protocol = None
        if not keeps_id:
            self.member_id = ""
            self._joins_ms = self._clock.now_ms + self.config.on_error.removed_ms
        self._rejoin_needed = True
        self._needs_prepare = True

    def leave_group(self) -> None:
        """Kafka: `maybeLeaveGroup`."""
        has_joined = self.member_id and self.state is not ClientState.UNJOINED
        if self.config.leaves and self.coordinator is not None and has_joined:
            request = LeaveGroup(self.config.group_id, (LeavingMember(self.member_id),))
            self._host.send(self.coordinator, request, lambda answer: None)
        self.reset_state()

    def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedPartition],
        on_done: Callable[[ErrorCode], None] = lambda code: None,
        generation_id: int | None = None,
    ) -> None:
        """Commit offsets; fail at once unless the consumer is in a stable generation.

        Args:
            offsets: offsets by partition, at least one.
            on_done: called with the result.
            generation_id: generation to send instead of the consumer's own.
        """
        if self.coordinator is None:
            self.find_coordinator()
            on_done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if generation_id is None and self.state is not ClientState.STABLE:  # generationIfStable
            is_out = self.state is ClientState.UNJOINED
            on_done(ErrorCode.UNKNOWN_MEMBER_ID if is_out else ErrorCode.REBALANCE_IN_PROGRESS)
            return
        generation = self._generation
        request = OffsetCommit(
            self.config.group_id,
            offsets,
            self.generation_id if generation_id is None else generation_id,
            self.member_id,
            self.config.sent_instance_id,
        )

        def on_answer(answer: CommitAnswer | None) -> None:
            if answer is None:
                self.coordinator = None
                on_done(ErrorCode.NETWORK_EXCEPTION)
                return
            code = answer.first_error
            is_same = generation == self._generation
            if (handle := ON_COMMIT.get(code)) is not None:
                handle(self, code, is_same)
            on_done(code)

        self._host.send(self.coordinator, request, on_answer)

    def _commit_elsewhere(self, code: ErrorCode, is_same: bool) -> None:
        """Look up the coordinator."""
        self.coordinator = None

    def _commit_fenced(self, code: ErrorCode, is_same: bool) -> None:
        """Fail: the next poll() throws."""
        if is_same and "OffsetCommit" in self.config.on_error.fenced_by:
            self.fail_later(code.name)

    def _commit_rebalancing(self, code: ErrorCode, is_same: bool) -> None:
        """Rejoin in the next poll()."""
        self._rejoin_needed = True

    def _commit_unknown(self, code: ErrorCode, is_same: bool) -> None:
        """Rejoin in the next poll(), unless the consumer is already joining."""
        if is_same or self.state is not ClientState.PREPARING_REBALANCE:
            self.reset_state(keeps_id=self.config.keeps_id(code, "OffsetCommit"))


ON_COMMIT: Mapping[ErrorCode, Callable[[GroupMember, ErrorCode, bool], None]] = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: GroupMember._commit_elsewhere,
    ErrorCode.NOT_COORDINATOR: GroupMember._commit_elsewhere,
    ErrorCode.REBALANCE_IN_PROGRESS: GroupMember._commit_rebalancing,
    ErrorCode.FENCED_INSTANCE_ID: GroupMember._commit_fenced,
    ErrorCode.UNKNOWN_MEMBER_ID: GroupMember._commit_unknown,
    ErrorCode.ILLEGAL_GENERATION: GroupMember._commit_unknown,
}
"""The handler of each error of OffsetCommit; other errors are passed to the application."""
