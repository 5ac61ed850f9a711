"""The heartbeats of a consumer of the consumer protocol: when one is due, and what it says.

Source: `AbstractHeartbeatRequestManager`, `ConsumerHeartbeatRequestManager` and
`HeartbeatRequestState` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, TypeAlias

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientConfig, Host
from kgroup.simulation.clock import Timer
from kgroup.simulation.consumer.message import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    IdPartition,
)

_Said: TypeAlias = tuple[tuple[str, ...] | None, str | None, tuple[int, frozenset[IdPartition]]]


class Sender(Protocol):
    """What heartbeats need to know of their consumer, and tell it."""

    member_id: str
    epoch: int
    topics: tuple[str, ...] | None
    regex: str | None
    coordinator: int | None
    is_closed: bool

    @property
    def owns(self) -> tuple[int, frozenset[IdPartition]]:
        """What it owns, with a number that changes with it."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether it is in no group."""
        ...

    @property
    def is_urgent(self) -> bool:
        """Whether it has something to say that does not wait for the next heartbeat's time."""
        ...

    def find_coordinator(self) -> None:
        """Look for the coordinator, and wake the heartbeats then."""

    def sent(self) -> None:
        """Note that a heartbeat goes out that says all this."""

    def told(self, epoch: int, assignment: frozenset[IdPartition] | None) -> None:
        """Take what an answer says."""

    def expire(self) -> None:
        """Be about to leave, as poll() was not called in time."""

    def fenced(self) -> None:
        """Give up everything, and join anew."""

    def failed(self, reason: str) -> None:
        """Give up everything; the next poll() throws."""


class ConsumerHeartbeats:
    """Sends heartbeats while the consumer is in a group.

    Args:
        config: of the consumer.
        host: what is around it.
        sender: the consumer.
    """

    def __init__(self, config: ClientConfig, host: Host, sender: Sender) -> None:
        self._config = config
        self._host = host
        self._clock = host.clock
        self._sender = sender
        self._round: Timer | None = None
        self._is_in_flight = False
        self._interval_ms = 0
        self._due_ms = 0
        self._failures = 0
        self._poll_ends_ms = self._clock.now_ms + config.max_poll_interval_ms
        self._said: _Said | None = None
        """What was said last, and is not said again; None: everything is to be said."""

    def resume(self, delay_ms: int) -> None:
        """Begin in the middle: the next heartbeat is due after a while."""
        self._due_ms = self._clock.now_ms + delay_ms
        self._said = (self._sender.topics, self._sender.regex, self._sender.owns)
        self.wake()

    def polled(self) -> None:
        """Note that poll() was called."""
        self._poll_ends_ms = self._clock.now_ms + self._config.max_poll_interval_ms

    def wake(self) -> None:
        """Send a heartbeat if one is due now, and see when the next one is."""
        self._schedule(self._clock.now_ms)

    def leave(self) -> None:
        """Say that the consumer leaves, if the coordinator is known, whatever is answered."""
        if self._sender.coordinator is not None:
            self._send(self._sender.coordinator, is_answer_taken=False)

    def _schedule(self, at_ms: int) -> None:
        if self._round is not None:
            self._round.cancel()
        self._round = self._host.after(at_ms - self._clock.now_ms, self._run)

    def _run(self) -> None:
        """One round (`poll`)."""
        sender, now_ms = self._sender, self._clock.now_ms
        if sender.is_closed:
            return
        if sender.coordinator is None:
            sender.find_coordinator()
            return
        if sender.is_silent:
            return
        if now_ms >= self._poll_ends_ms:
            sender.expire()
            self._send(sender.coordinator, is_answer_taken=False)
            self._reset()
            return
        if not self._is_in_flight and (sender.is_urgent or now_ms >= self._due_ms):
            self._send(sender.coordinator, is_answer_taken=True)
        due_ms = self._poll_ends_ms
        self._schedule(due_ms if self._is_in_flight else min(due_ms, self._due_ms))

    def _send(self, coordinator: int, *, is_answer_taken: bool) -> None:
        request = self._next()
        self._due_ms = self._clock.now_ms + self._interval_ms
        self._is_in_flight = is_answer_taken
        self._sender.sent()
        on_answer = self._on_answer if is_answer_taken else lambda answer: None
        self._host.send(coordinator, request, on_answer)

    def _next(self) -> ConsumerGroupHeartbeat:
        """Make a heartbeat that says what has changed since the last one, or all that there is."""
        sender, config = self._sender, self._config
        is_joining = sender.epoch == JOIN_EPOCH
        full = ConsumerGroupHeartbeat(
            config.group_id,
            sender.member_id,
            sender.epoch,
            config.instance_id,
            config.rack if is_joining else None,
            config.max_poll_interval_ms,
            sender.topics or (),
            sender.regex,
            config.remote_assignor,
            sender.owns[1],
            config.client_id,
            "/127.0.0.1",
        )
        said, self._said = self._said, (sender.topics, sender.regex, sender.owns)
        if said is None or is_joining:
            return full
        topics, regex, owns = said
        return replace(
            full,
            rebalance_timeout_ms=None,
            topics=None if sender.topics == topics else full.topics,
            regex=None if sender.regex == regex else sender.regex or "",
            assignor=None,
            owned=None if sender.owns == owns else full.owned,
        )

    def _on_answer(self, answer: ConsumerHeartbeatAnswer | None) -> None:
        self._is_in_flight = False
        if answer is not None and answer.error is ErrorCode.NONE:
            self._failures = 0
            if self._interval_ms != answer.heartbeat_interval_ms:
                self._interval_ms = answer.heartbeat_interval_ms
                self._due_ms = self._clock.now_ms + self._interval_ms
            self._sender.told(answer.member_epoch, answer.assignment)
        else:
            self._said = None
            self._due_ms = self._clock.now_ms + self._config.backoff_ms(self._failures)
            self._failures += 1
            code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error
            ON_CONSUMER_HEARTBEAT.get(code, ConsumerHeartbeats._failed)(self, code)
        self.wake()

    def _reset(self) -> None:
        self._said = None
        self._failures = self._due_ms = 0
        self._is_in_flight = False

    def _disconnected(self, code: ErrorCode) -> None:
        """Look for the coordinator, and try again after a while."""
        self._sender.coordinator = None

    def _elsewhere(self, code: ErrorCode) -> None:
        """Look for the coordinator, and try again as soon as it is found."""
        self._sender.coordinator = None
        self._reset()

    def _later(self, code: ErrorCode) -> None:
        """Try again after a while; at once while the consumer joins."""

    def _fenced(self, code: ErrorCode) -> None:
        """Give up all partitions as lost, and join anew."""
        self._reset()
        self._sender.fenced()

    def _failed(self, code: ErrorCode) -> None:
        """Give up: the next poll() throws."""
        self._sender.failed(code.name)


ON_CONSUMER_HEARTBEAT: Mapping[ErrorCode, Callable[[ConsumerHeartbeats, ErrorCode], None]] = {
    ErrorCode.NETWORK_EXCEPTION: ConsumerHeartbeats._disconnected,
    ErrorCode.NOT_COORDINATOR: ConsumerHeartbeats._elsewhere,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ConsumerHeartbeats._elsewhere,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ConsumerHeartbeats._later,
    ErrorCode.FENCED_MEMBER_EPOCH: ConsumerHeartbeats._fenced,
    ErrorCode.UNKNOWN_MEMBER_ID: ConsumerHeartbeats._fenced,
}
"""What a consumer does with each error of a heartbeat; any other one makes poll() throw."""
