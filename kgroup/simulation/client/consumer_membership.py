"""The consumer protocol on the client (KIP-848): heartbeats, revocation and assignment.

The answer to a heartbeat has the target assignment. The consumer revokes partitions in poll(),
after a commit; when it has the new assignment, it acknowledges it with a heartbeat at once. The
states are Java's (`MemberState`); `FOLLOWS` has all transitions.

The model of poll(): it returns at once while the consumer owns partitions, and blocks while it
owns none. Callbacks of the application's listener wait for the next poll().

A consumer with a broker-side regex does not know all topics. It requests metadata of the topic ids
in its assignment. Until it knows their names, it reports ownership of the other partitions only.

Source: `ConsumerMembershipManager`, `AbstractMembershipManager`, `CommitRequestManager`,
`ConsumerMetadata`, `AbstractHeartbeatRequestManager`, `ConsumerHeartbeatRequestManager` and
`HeartbeatRequestState` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeAlias

from kgroup.described_enum import DescribedEnum
from kgroup.model.cluster import TopicPartition, numbers_by_topic
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import (
    ELSEWHERE,
    RETRIABLE,
    Application,
    ConsumerConfig,
    Host,
    Joined,
)
from kgroup.simulation.clock import Timer
from kgroup.simulation.consumer.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    NumbersByTopic,
    common,
    numbers_of,
    without,
)
from kgroup.simulation.consumer.topic_image import TopicImage, in_order, named
from kgroup.simulation.message import NO_GENERATION, CommitAnswer, CommittedPartition, OffsetCommit

_Said: TypeAlias = tuple[tuple[str, ...] | None, str | None, tuple[int, NumbersByTopic]]


class Sender(Protocol):
    """The consumer, as its heartbeats see it."""

    member_id: str
    epoch: int
    topics: tuple[str, ...] | None
    regex: str | None
    coordinator: int | None
    is_closed: bool

    @property
    def owns(self) -> tuple[int, NumbersByTopic]:
        """A number that changes with the owned partitions, and the partitions."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether the consumer is in no group."""
        ...

    @property
    def is_urgent(self) -> bool:
        """Whether a heartbeat must be sent before the next one is due."""
        ...

    def find_coordinator(self) -> None:
        """Look up the coordinator, then send a heartbeat if one is due."""

    def sent(self) -> None:
        """Handle the sending of a heartbeat with the current state."""

    def told(self, epoch: int, assignment: NumbersByTopic | None) -> None:
        """Handle a successful answer."""

    def expire(self) -> None:
        """Prepare to leave: poll() was not called in time."""

    def fenced(self) -> None:
        """Drop all partitions and rejoin."""

    def failed(self, reason: str) -> None:
        """Drop all partitions; the next poll() throws."""


class ConsumerHeartbeats:
    """Sender of heartbeats while the consumer is in a group.

    Args:
        config: configuration of the consumer.
        host: environment of the consumer.
        sender: the consumer.
    """

    def __init__(self, config: ConsumerConfig, host: Host, sender: Sender) -> None:
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
        """Fields of the last heartbeat, which are not repeated; None to send all fields."""

    def resume(self, delay_ms: int) -> None:
        """Start in an existing membership, with the next heartbeat after a delay."""
        self._due_ms = self._clock.now_ms + delay_ms
        self._said = (self._sender.topics, self._sender.regex, self._sender.owns)
        self.wake()

    def polled(self) -> None:
        """Restart the timeout `max.poll.interval.ms`."""
        self._poll_ends_ms = self._clock.now_ms + self._config.max_poll_interval_ms

    def wake(self) -> None:
        """Send a heartbeat if one is due, and schedule the next one."""
        self._schedule(self._clock.now_ms)

    def leave(self) -> None:
        """Send a leave heartbeat if the coordinator is known; ignore the answer."""
        if self._sender.coordinator is not None:
            self._send(self._sender.coordinator, is_answer_taken=False)

    def _schedule(self, at_ms: int) -> None:
        if self._round is not None:
            self._round.cancel()
        self._round = self._host.after(at_ms - self._clock.now_ms, self._run)

    def _run(self) -> None:
        """Run one round (`poll`)."""
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
        """Return a heartbeat with the changed fields, or with all fields."""
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
        previous, self._said = self._said, (sender.topics, sender.regex, sender.owns)
        if previous is None or is_joining:
            return full
        topics, regex, owns = previous
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
        """Look up the coordinator, and retry after a backoff."""
        self._sender.coordinator = None

    def _elsewhere(self, code: ErrorCode) -> None:
        """Look up the coordinator, and retry as soon as it is known."""
        self._sender.coordinator = None
        self._reset()

    def _later(self, code: ErrorCode) -> None:
        """Retry after a backoff, or at once while joining."""

    def _fenced(self, code: ErrorCode) -> None:
        """Drop all partitions as lost, and rejoin."""
        self._reset()
        self._sender.fenced()

    def _failed(self, code: ErrorCode) -> None:
        """Fail: the next poll() throws."""
        self._sender.failed(code.name)


ON_CONSUMER_HEARTBEAT: Mapping[ErrorCode, Callable[[ConsumerHeartbeats, ErrorCode], None]] = {
    ErrorCode.NETWORK_EXCEPTION: ConsumerHeartbeats._disconnected,
    ErrorCode.NOT_COORDINATOR: ConsumerHeartbeats._elsewhere,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ConsumerHeartbeats._elsewhere,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ConsumerHeartbeats._later,
    ErrorCode.FENCED_MEMBER_EPOCH: ConsumerHeartbeats._fenced,
    ErrorCode.UNKNOWN_MEMBER_ID: ConsumerHeartbeats._fenced,
}
"""The handler of each error of a heartbeat; other errors make poll() throw."""


class ConsumerClientState(DescribedEnum):
    """State of a consumer in a group of the consumer protocol (`MemberState`)."""

    UNSUBSCRIBED = ("unsubscribed", "The consumer is in no group.")
    JOINING = ("joining", "The consumer sends heartbeats to join the group.")
    RECONCILING = (
        "reconciling",
        ("The consumer is revoking and adding partitions to reach its assignment."),
    )
    ACKNOWLEDGING = (
        "acknowledging",
        ("The consumer owns its assignment, and will acknowledge it with the next heartbeat."),
    )
    STABLE = ("stable", "The consumer owns its assignment, and has acknowledged it.")
    FENCED = (
        "fenced",
        ("The coordinator fenced the consumer, which gives up all partitions and rejoins."),
    )
    PREPARE_LEAVING = ("prepare leaving", "The consumer gives up all partitions before it leaves.")
    LEAVING = ("leaving", "The consumer will leave the group with the next heartbeat.")
    STALE = (
        "stale",
        ("The consumer left, as poll() was not called in time; the next poll() rejoins."),
    )
    FATAL = ("fatal", "The consumer cannot continue: poll() throws.")


_S = ConsumerClientState
FOLLOWS: Mapping[ConsumerClientState, frozenset[ConsumerClientState]] = {
    _S.UNSUBSCRIBED: frozenset({_S.JOINING}),
    _S.JOINING: frozenset({_S.RECONCILING, _S.STABLE, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.RECONCILING: frozenset(
        {_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}
    ),
    _S.ACKNOWLEDGING: frozenset(
        {_S.RECONCILING, _S.STABLE, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}
    ),
    _S.STABLE: frozenset({_S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.FENCED: frozenset({_S.JOINING}),
    _S.PREPARE_LEAVING: frozenset({_S.LEAVING}),
    _S.LEAVING: frozenset({_S.UNSUBSCRIBED, _S.STALE}),
    _S.STALE: frozenset({_S.JOINING}),
    _S.FATAL: frozenset(),
}
"""Valid next states of each state."""

_TAKES_ASSIGNMENTS = (_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE)
_ABSENT = (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE, _S.FATAL)
"""States in which the consumer is in no group and sends no heartbeats."""
_URGENT = (_S.JOINING, _S.ACKNOWLEDGING, _S.LEAVING)


class Assignment(NamedTuple):
    """A target or current assignment; `epoch` counts targets of this client (`LocalAssignment`)."""

    epoch: int
    partitions: NumbersByTopic


_NOTHING_YET = Assignment(-1, {})


class ConsumerClient:
    """Membership of a consumer in a group of the consumer protocol.

    Args:
        config: configuration of the consumer.
        host: environment of the consumer.
        application: the application.

    Attributes:
        config: configuration of the consumer.
        state: current state.
        member_id: id that the client has chosen.
        epoch: epoch of the last answer, or the epoch for joining or leaving.
        topics: subscribed topic names, in the order in which they are sent.
        regex: regular expression of the subscription; None if there is none.
        coordinator: broker id of the coordinator; None if unknown.
        is_closed: the consumer is closed.
    """

    def __init__(self, config: ConsumerConfig, host: Host, application: Application) -> None:
        self.state = ConsumerClientState.UNSUBSCRIBED
        self._owned: NumbersByTopic = {}
        """Owned partitions, by topic name."""
        self.member_id = host.new_uuid()
        self.epoch = JOIN_EPOCH
        self.topics: tuple[str, ...] | None = None if config.pattern else config.topics
        self.regex = config.regex
        self._current = _NOTHING_YET
        self.coordinator: int | None = None
        self.is_closed = False
        self.config = config
        self._host = host
        self._clock = host.clock
        self._application = application
        self._target = _NOTHING_YET
        self._is_reconciling = False
        self._has_rejoined = False
        self._events: list[Callable[[], None]] = []
        """Actions that wait for the next poll()."""
        self._waits = False
        """Whether poll() is blocked, without records to return."""
        self._polls_first = True
        self._metadata = TopicImage()
        self._assigned_ids: frozenset[str] = frozenset()
        """Topic ids of the last target assignment."""
        self._is_looking = False
        self._heartbeats = ConsumerHeartbeats(config, host, self)

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """Owned partitions, sorted."""
        return in_order(self._owned)

    def owns_each(self, partitions: tuple[TopicPartition, ...]) -> Sequence[bool]:
        """Return for each of the partitions whether the consumer owns it."""
        return [number in self._owned.get(topic, ()) for topic, number in partitions]

    @property
    def is_settled(self) -> bool:
        """Whether the consumer owns its target assignment and has acknowledged it."""
        return self.state is ConsumerClientState.STABLE

    @property
    def owns(self) -> tuple[int, NumbersByTopic]:
        """A number that changes with the owned partitions, and the partitions."""
        return self._current

    @property
    def is_silent(self) -> bool:
        """Whether the consumer is in no group."""
        return self.state in _ABSENT

    @property
    def is_urgent(self) -> bool:
        """Whether a heartbeat must be sent before the next one is due."""
        return self.state in _URGENT

    def resume(self, joined: Joined, coordinator: int | None) -> None:
        """Start in an existing epoch, with partitions to revoke if there are any."""
        self.coordinator = coordinator
        is_done = not joined.revoking
        self.state = ConsumerClientState.STABLE if is_done else ConsumerClientState.RECONCILING
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        self._owned = numbers_of(numbers_by_topic(joined.owned))
        self.topics = joined.topics
        ids = {topic.name: topic.topic_id for topic in self._host.topics}
        kept = without(self._owned, numbers_of(numbers_by_topic(joined.revoking)))
        self._current = Assignment(0, {ids[name]: some for name, some in self._owned.items()})
        self._target = self._current
        if not is_done:
            self._target = Assignment(1, {ids[name]: some for name, some in kept.items()})
        self._assigned_ids = frozenset(self._current.partitions)
        self._metadata = self._answered(self._host.topics, self._assigned_ids)
        self._heartbeats.resume(joined.heartbeat_ms)

    # --- poll -----------------------------------------------------------------------------------

    def poll(self) -> None:
        """Run waiting actions, start to reconcile, and return (`AsyncPollEvent`)."""
        self._waits = False
        while self._events:
            events, self._events = self._events, []
            for event in events:
                event()
            if self._owned:
                break
        self._waits = not self._owned
        if self.is_closed:
            return
        if self._polls_first:
            self._polls_first = False
            self._refresh()
        self._reconcile()
        if self.state is ConsumerClientState.UNSUBSCRIBED and self.topics is not None:
            self.join()
        self._heartbeats.polled()
        if self.state is ConsumerClientState.STALE:
            self.join()
        self._application.polled(is_active=True)

    def wakeup(self) -> None:
        """Make a blocked poll() return."""
        self._waits = False

    def _in_poll(self, event: Callable[[], None]) -> None:
        """Run an action now if poll() is blocked, else in the next poll()."""
        if self._waits:
            event()
        else:
            self._events.append(event)

    def _listener(self, event: Callable[[], None]) -> None:
        """Run an action that calls the application's listener: in poll() if there is a listener."""
        if self._application.has_listener:
            self._in_poll(event)
        else:
            event()

    def _refresh(self) -> None:
        """Refresh metadata every `metadata.max.age.ms`."""
        if not self.is_closed:
            self._look_for_topics()
            if (age_ms := self.config.metadata_max_age_ms) is not None:
                self._host.after(age_ms, self._refresh)

    def _look_for_topics(self) -> None:
        """Request metadata (`newMetadataRequestBuilder`)."""
        asked = self._assigned_ids
        self._host.metadata(lambda topics: self._know_topics(self._answered(topics, asked)))

    def _answered(self, topics: TopicImage, asked: frozenset[str]) -> TopicImage:
        """Return the topics in the metadata: all, or with a regex those with requested ids."""
        if self.config.regex is None:
            return topics
        return TopicImage(topic for topic in topics if topic.topic_id in asked)

    def _know_topics(self, topics: TopicImage) -> None:
        self._metadata = topics
        if self.config.regex is not None and self._waits:
            self._reconcile()
        if (matches := self.config.pattern) is not None:
            self.topics = tuple(sorted(filter(matches, (topic.name for topic in topics))))

    def find_coordinator(self) -> None:
        """Look up the coordinator, then send a heartbeat if one is due."""
        if not self._is_looking:
            self._is_looking = True
            self._host.find_coordinator(self.config.group_id, self._coordinator_found)

    def _coordinator_found(self, broker: int | None) -> None:
        self._is_looking = False
        self.coordinator = broker
        if broker is not None:
            self._heartbeats.wake()
        elif not self.is_closed:
            self._host.after(self.config.retry_backoff_ms, self.find_coordinator)

    # --- states ---------------------------------------------------------------------------------

    def _go(self, state: ConsumerClientState) -> None:
        assert state in FOLLOWS[self.state], (self.state, state)
        self.state = state

    def join(self) -> None:
        """Join the group with the next heartbeat (`transitionToJoining`)."""
        self._has_rejoined = self._is_reconciling
        self.epoch = JOIN_EPOCH
        self._target = _NOTHING_YET
        self._go(ConsumerClientState.JOINING)
        self._heartbeats.wake()

    def fenced(self) -> None:
        """Drop all partitions and rejoin (`transitionToFenced`)."""
        if self.state in _ABSENT:
            return
        self._go(ConsumerClientState.FENCED)
        self.epoch = JOIN_EPOCH
        self._application.pausing(self.owned)
        self._listener(self._lose)

    def failed(self, reason: str) -> None:
        """Drop all partitions; the next poll() throws (`transitionToFatal`)."""
        if self.state in _ABSENT:
            return
        self._go(ConsumerClientState.FATAL)
        self._in_poll(lambda: self._fail(reason))

    def _fail(self, reason: str) -> None:
        self._lose()
        self.is_closed = True
        self._application.failed(reason)

    def _lose(self) -> None:
        lost = self.owned
        self._owned = {}
        self._current = self._target = _NOTHING_YET
        if lost:
            self._application.lost(lost)
        if self.state is ConsumerClientState.FENCED:
            self.join()

    def expire(self) -> None:
        """Prepare to leave: poll() was not called in time."""
        self._prepare_to_leave()

    def _prepare_to_leave(self) -> None:
        self._go(ConsumerClientState.PREPARE_LEAVING)
        self.epoch = LEAVE_EPOCH if self.config.leaves else PAUSE_EPOCH
        self._current = _NOTHING_YET
        self._go(ConsumerClientState.LEAVING)

    def sent(self) -> None:
        """Change the state when a heartbeat is sent (`onHeartbeatRequestGenerated`)."""
        if self.state is ConsumerClientState.ACKNOWLEDGING:
            is_done = self._current == self._target
            self._go(ConsumerClientState.STABLE if is_done else ConsumerClientState.RECONCILING)
        elif self.state is ConsumerClientState.LEAVING and self.is_closed:
            self._go(ConsumerClientState.UNSUBSCRIBED)
        elif self.state is ConsumerClientState.LEAVING:
            self._go(ConsumerClientState.STALE)
            self._application.pausing(self.owned)
            self._listener(self._lose)

    def close(self) -> None:
        """Drop all partitions, unsubscribe and leave (`leaveGroupOnClose`).

        A static member may return within its session timeout.
        """
        self.is_closed = True
        self.topics, self.regex = (), None
        owned = self.owned
        self._owned = {}
        if owned and self.epoch > JOIN_EPOCH:
            self._application.revoked(owned)
        elif owned:
            self._application.lost(owned)
        if self.state not in _ABSENT:
            self._prepare_to_leave()
            self._heartbeats.leave()

    # --- answers to heartbeats --------------------------------------------------------------------

    def told(self, epoch: int, assignment: NumbersByTopic | None) -> None:
        """Handle the epoch and target assignment of an answer (`onHeartbeatSuccess`)."""
        if self.state not in _TAKES_ASSIGNMENTS or epoch < 0:
            return
        self.epoch = epoch
        if assignment is None:
            return
        if self._target == _NOTHING_YET or assignment != self._target.partitions:
            self._target = Assignment(self._target.epoch + 1, assignment)
            self._assigned_ids = frozenset(assignment)
        if self._current != self._target:
            self._go(ConsumerClientState.RECONCILING)
            if self._waits:
                self._reconcile()
        elif self.state in (ConsumerClientState.RECONCILING, ConsumerClientState.JOINING):
            self._go(ConsumerClientState.STABLE)

    # --- reconciliation -------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Start to reconcile with the target assignment (`maybeReconcile`)."""
        is_due = self.state is ConsumerClientState.RECONCILING and self._current != self._target
        if not is_due or self._is_reconciling:
            return
        known, ids = self._target.partitions, self._assigned_ids
        if unknown := {topic_id for topic_id in ids if self._metadata.name_of(topic_id) is None}:
            self._look_for_topics()
            known = {topic_id: some for topic_id, some in known.items() if topic_id not in unknown}
        assignment = Assignment(self._target.epoch, known)
        if self._current != _NOTHING_YET and known == self._current.partitions:
            self._acknowledge(assignment)
            return
        new = named(self._metadata, known)
        revoked = without(self._owned, new)
        self._is_reconciling, self._has_rejoined = True, False
        self._application.pausing(in_order(revoked))
        until_ms = self._clock.now_ms + self.config.max_poll_interval_ms
        self._commit_before(until_ms, lambda: self._revoke(assignment, new, revoked))

    def _commit_before(self, until_ms: int, then: Callable[[], None]) -> None:
        """Auto-commit if enabled, with retries until a deadline; then continue."""

        def committed(code: ErrorCode) -> None:
            is_stale = code is ErrorCode.STALE_MEMBER_EPOCH and self.epoch > JOIN_EPOCH
            if (code in RETRIABLE or is_stale) and self._clock.now_ms < until_ms:
                delay_ms = self.config.retry_backoff_ms
                self._host.after(delay_ms, lambda: self._commit_before(until_ms, then))
            else:
                then()

        offsets = self._application.positions() if self.config.enable_auto_commit else {}
        if offsets:
            self.commit(offsets, committed)
        else:
            then()

    def _aborts(self) -> bool:
        """Return whether the current reconciliation must stop (`maybeAbortReconciliation`)."""
        if self.state is ConsumerClientState.RECONCILING and not self._has_rejoined:
            return False
        self._is_reconciling = self._has_rejoined = False
        return True

    def _revoke(self, assignment: Assignment, new: NumbersByTopic, revoked: NumbersByTopic) -> None:
        def revoke() -> None:
            still_owned = common(revoked, self._owned)
            self._owned = without(self._owned, revoked)
            self._application.revoked(in_order(still_owned))
            if not self._aborts():
                self._in_poll(lambda: self._assign(assignment, new))

        if self._aborts():
            return
        if revoked:
            self._listener(revoke)
        else:
            self._in_poll(lambda: self._assign(assignment, new))

    def _assign(self, assignment: Assignment, new: NumbersByTopic) -> None:
        if self._aborts():
            return
        added = without(new, self._owned)
        self._owned = new
        self._application.assigned(in_order(added))
        self._waits = self._waits and not new
        self._is_reconciling = False
        self._acknowledge(assignment)

    def _acknowledge(self, assignment: Assignment) -> None:
        self._current = assignment
        self._go(ConsumerClientState.ACKNOWLEDGING)
        self._heartbeats.wake()

    # --- commits --------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedPartition],
        on_done: Callable[[ErrorCode], None] = lambda code: None,
        generation_id: int | None = None,
    ) -> None:
        """Commit offsets.

        Args:
            offsets: offsets by partition, at least one.
            on_done: called with the result.
            generation_id: epoch to send instead of the consumer's own.
        """
        if self.coordinator is None:
            self.find_coordinator()
            on_done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        own_epoch = self.epoch if self.epoch > JOIN_EPOCH else NO_GENERATION
        request = OffsetCommit(
            self.config.group_id,
            offsets,
            own_epoch if generation_id is None else generation_id,
            self.member_id,
            self.config.instance_id,
        )

        def on_answer(answer: CommitAnswer | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION
            if answer is not None:
                code = answer.first_error
            if code in ELSEWHERE:
                self.coordinator = None
                self.find_coordinator()
            on_done(code)

        self._host.send(self.coordinator, request, on_answer)
