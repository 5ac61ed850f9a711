"""A consumer in a classic group: who it is there and who coordinates; how it commits and leaves.

Each error of an answer has its handler in a table.

Source: `AbstractCoordinator` and `ConsumerCoordinator` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from kgroup.assignor.base import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientConfig, ClientState, Host
from kgroup.simulation.client.heartbeat import HeartbeatThread
from kgroup.simulation.message import (
    NO_GENERATION,
    CommitAnswer,
    CommittedPartition,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
)


class GroupMember(ABC):
    """A consumer, as far as its coordinator knows it.

    Args:
        config: of the consumer.
        host: what is around it.

    Attributes:
        config: of the consumer.
        state: where it stands.
        member_id: "" where it has none.
        generation_id: that it is in; -1: in none.
        coordinator: the broker that is taken for it; None: it is not known.
        is_closed: whether the consumer has ended.
    """

    def __init__(self, config: ClientConfig, host: Host) -> None:
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
        self._is_looking = False
        self._heartbeat = HeartbeatThread(config, host, self)

    @property
    @abstractmethod
    def poll_expires_ms(self) -> int | None:
        """When poll() has to be called again; None while it is being called."""

    @abstractmethod
    def _continue(self) -> None:
        """Go on with poll()."""

    @property
    def _generation(self) -> tuple[int, str]:
        """What an answer is about: errors of another one may be about what is over."""
        return self.generation_id, self.member_id

    def find_coordinator(self) -> None:
        """Look for the coordinator, and go on with poll() when it is found."""
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
        """Join again at the next poll()."""
        self._rejoin_needed = True

    def fail_later(self, reason: str) -> None:
        """Make the next poll() throw."""
        self._failure = reason

    def reset_state(self, *, keeps_id: bool = False) -> None:
        """Be in no generation any more (`resetStateOnResponseError`)."""
        self.state = ClientState.UNJOINED
        self.generation_id = NO_GENERATION
        self._protocol = None
        if not keeps_id:
            self.member_id = ""
        self._rejoin_needed = True
        self._needs_prepare = True

    def leave_group(self) -> None:
        """Kafka: `maybeLeaveGroup`."""
        has_joined = self.member_id and self.state is not ClientState.UNJOINED
        if self.config.instance_id is None and self.coordinator is not None and has_joined:
            request = LeaveGroup(self.config.group_id, (LeavingMember(self.member_id),))
            self._host.send(self.coordinator, request, lambda answer: None)
        self.reset_state()

    def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedPartition],
        on_done: Callable[[ErrorCode], None] = lambda code: None,
        generation_id: int | None = None,
    ) -> None:
        """Commit offsets; while the consumer is in no stable generation that fails at once.

        Args:
            offsets: at least one.
            on_done: is told how it ended.
            generation_id: to be said instead of the consumer's own.
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
            self.config.instance_id,
        )

        def on_answer(answer: CommitAnswer | None) -> None:
            if answer is None:
                self.coordinator = None
                on_done(ErrorCode.NETWORK_EXCEPTION)
                return
            code = next((code for code in answer.errors.values() if code), ErrorCode.NONE)
            is_same = generation == self._generation
            if (handle := ON_COMMIT.get(code)) is not None:
                handle(self, code, is_same)
            on_done(code)

        self._host.send(self.coordinator, request, on_answer)

    def _commit_elsewhere(self, code: ErrorCode, is_same: bool) -> None:
        """Look for the coordinator."""
        self.coordinator = None

    def _commit_fenced(self, code: ErrorCode, is_same: bool) -> None:
        """Give up: the next poll() throws."""
        if is_same:
            self.fail_later(code.name)

    def _commit_rebalancing(self, code: ErrorCode, is_same: bool) -> None:
        """Join again at the next poll()."""
        self._rejoin_needed = True

    def _commit_unknown(self, code: ErrorCode, is_same: bool) -> None:
        """Join again at the next poll(), unless the consumer is joining already."""
        if is_same or self.state is not ClientState.PREPARING_REBALANCE:
            self.reset_state(keeps_id=code is ErrorCode.ILLEGAL_GENERATION)


ON_COMMIT: Mapping[ErrorCode, Callable[[GroupMember, ErrorCode, bool], None]] = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: GroupMember._commit_elsewhere,
    ErrorCode.NOT_COORDINATOR: GroupMember._commit_elsewhere,
    ErrorCode.REBALANCE_IN_PROGRESS: GroupMember._commit_rebalancing,
    ErrorCode.FENCED_INSTANCE_ID: GroupMember._commit_fenced,
    ErrorCode.UNKNOWN_MEMBER_ID: GroupMember._commit_unknown,
    ErrorCode.ILLEGAL_GENERATION: GroupMember._commit_unknown,
}
"""What a consumer does with each answer to OffsetCommit; of any other one the program is told."""
