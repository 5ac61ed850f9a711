"""A consumer's heartbeat thread: it keeps the session alive, and watches over poll().

Source: `AbstractCoordinator.HeartbeatThread` and `Heartbeat` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientConfig, ClientState, Host
from kgroup.simulation.clock import Timer
from kgroup.simulation.message import Heartbeat, HeartbeatAnswer

_NOT_JOINED = (ClientState.UNJOINED, ClientState.PREPARING_REBALANCE)


class Membership(Protocol):
    """What the thread needs of the consumer, which it shares with the application's thread."""

    state: ClientState
    member_id: str
    generation_id: int
    coordinator: int | None
    is_closed: bool

    @property
    def poll_expires_ms(self) -> int | None:
        """When poll() has to be called again; None while it is being called."""
        ...

    def find_coordinator(self) -> None:
        """Look for the coordinator."""

    def request_rejoin(self) -> None:
        """Join again at the next poll()."""

    def leave_group(self) -> None:
        """Leave, and be in no generation any more."""

    def reset_state(self, *, keeps_id: bool = False) -> None:
        """Be in no generation any more."""

    def fail_later(self, reason: str) -> None:
        """Make the next poll() throw."""


class HeartbeatThread:
    """The thread, which sleeps while its consumer is in no generation.

    Args:
        config: of the consumer.
        host: what is around it.
        member: the consumer.
    """

    def __init__(self, config: ClientConfig, host: Host, member: Membership) -> None:
        self._config = config
        self._host = host
        self._clock = host.clock
        self._member = member
        self._round: Timer | None = None
        self._due_ms = 0
        self._session_ends_ms = 0
        self._failures = 0

    def enable(self, first_ms: int | None = None) -> None:
        """Begin, with all timeouts anew, and the first heartbeat after a while."""
        delay_ms = self._config.heartbeat_interval_ms if first_ms is None else first_ms
        self._due_ms = self._clock.now_ms + delay_ms
        self.reset_session()
        self._schedule(delay_ms)

    def reset_session(self) -> None:
        """Give the coordinator a whole session to answer."""
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
        """One round."""
        member, now_ms = self._member, self._clock.now_ms
        if member.is_closed or member.state in _NOT_JOINED:
            return
        if member.coordinator is None:
            member.find_coordinator()
            self._schedule(self._config.retry_backoff_ms)
        elif now_ms >= self._session_ends_ms:
            member.coordinator = None
            self._schedule(0)
        elif (expires_ms := member.poll_expires_ms) is not None and now_ms >= expires_ms:
            member.leave_group()  # the application is too slow
        else:
            if now_ms >= self._due_ms:
                self._due_ms = now_ms + self._config.heartbeat_interval_ms
                self._send(member.coordinator)
            self._schedule()

    def _send(self, coordinator: int) -> None:
        member = self._member
        generation = (member.generation_id, member.member_id)
        request = Heartbeat(self._config.group_id, *generation, self._config.instance_id)

        def on_answer(answer: HeartbeatAnswer | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error
            is_same = generation == (member.generation_id, member.member_id)
            ON_HEARTBEAT[code](self, code, is_same)

        self._host.send(coordinator, request, on_answer)

    def _received(self, code: ErrorCode, is_same: bool) -> None:
        """Go on: the session has begun anew."""
        self._failures = 0
        self.reset_session()

    def _rebalancing(self, code: ErrorCode, is_same: bool) -> None:
        """Join again at the next poll(), unless the consumer is joining already."""
        self._received(code, is_same)
        if self._member.state is ClientState.STABLE:
            self._member.request_rejoin()

    def _elsewhere(self, code: ErrorCode, is_same: bool) -> None:
        """Look for the coordinator, and try again after a while, each time a longer one."""
        self._member.coordinator = None
        self._due_ms = self._clock.now_ms + self._config.backoff_ms(self._failures)
        self._failures += 1
        self._schedule()

    def _unknown(self, code: ErrorCode, is_same: bool) -> None:
        """Join again at the next poll(): as a new member, unless only the generation was wrong."""
        if is_same:
            self._member.reset_state(keeps_id=code is ErrorCode.ILLEGAL_GENERATION)
        else:
            self._received(code, is_same)

    def _fenced(self, code: ErrorCode, is_same: bool) -> None:
        """Give up: the next poll() throws, as another consumer has taken the instance's place."""
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
"""What the thread does with each answer; is the generation another one since, errors of the old one
show only that the coordinator lives."""
