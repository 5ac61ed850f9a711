"""The classic protocol on the client: join, assign as leader, revoke, and take partitions.

poll() runs one step after another; where Java's poll() blocks, an answer or a timer continues it
here. While the consumer owns partitions, poll() does not wait for the join, and waits for the
coordinator only up to its timeout. Later answers wait for the next poll(). Each error has its
handler in a table.

Source: `AbstractCoordinator` and `ConsumerCoordinator` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from kgroup.assignor.base import Assignment, AssignorError, TopicMetadata
from kgroup.assignor.client_facts import Retry
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assignor_of
from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation import message
from kgroup.simulation.client.config import (
    COOPERATIVE_STICKY,
    POLL_MS,
    RETRIABLE,
    Application,
    ClientState,
    ConsumerConfig,
    Host,
    Joined,
)
from kgroup.simulation.client.group_member import GroupMember
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.message import (
    CONSUMER,
    NO_GENERATION,
    JoinAnswer,
    JoinGroup,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.subscription import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    sorted_assignment,
)


def subscribed_topics(answer: JoinAnswer) -> frozenset[str]:
    """Return the topics to which any member subscribes.

    Raises:
        AssignorError: a subscription cannot be decoded.
    """
    strategy = answer.protocol or ""
    subscribers = (decode_subscription(member, strategy) for member in answer.members)
    return frozenset(topic for subscriber in subscribers for topic in subscriber.topics)


def assignments(
    answer: JoinAnswer, partitions: Mapping[str, int], config: ConsumerConfig
) -> Mapping[str, bytes]:
    """Return the encoded assignments that the leader sends, by member id.

    Args:
        answer: JoinGroup answer with the subscriptions of all members.
        partitions: number of partitions by topic.
        config: configuration of the leader.

    Raises:
        AssignorError: the assignor fails.
        UnknownStrategyError: the leader's library has no such strategy.
    """
    strategy = answer.protocol or ""
    topics = {name: TopicMetadata(count) for name, count in partitions.items()}
    subscribers = [
        replace(decode_subscription(member, strategy), leads=member.member_id == answer.leader_id)
        for member in answer.members
    ]
    software = config.assigns_as(strategy)
    assignor = assignor_of("classic", strategy, software, group_id=config.group_id)
    assignment: Assignment = assignor(subscribers, topics)
    version = config.subscription_version
    return {name: encode_assignment(partitions, version) for name, partitions in assignment.items()}


class ClassicClient(GroupMember):
    """Membership of a consumer in a group of the classic protocol.

    Args:
        config: configuration of the consumer.
        host: environment of the consumer.
        application: the application.

    Attributes:
        owned: partitions, sorted.
    """

    def __init__(self, config: ConsumerConfig, host: Host, application: Application) -> None:
        super().__init__(config, host)
        self.owned: tuple[TopicPartition, ...] = ()
        self._application = application
        topics = config.topics if config.library is not None else sorted(config.topics)
        self._topics: tuple[str, ...] = () if config.pattern else tuple(topics)
        self._metadata: Mapping[str, int] | None = None
        self._is_refreshing = False
        # poll()
        self._is_polling = False
        self._events: list[Callable[[], None]] = []
        """Actions that wait for the next poll()."""
        self._is_preparing = False
        """Whether the consumer waits for an answer before it revokes partitions."""
        self._is_asking = False
        """Whether that answer is the metadata of all topics."""
        self._is_joining = False
        """Whether the consumer waits for a generation or its assignment (`joinFuture`)."""
        self._prepared_by_ms: int | None = None
        """Deadline of the commit before joining, in ms; None if there is no such commit."""
        self._polled_ms = self._clock.now_ms
        self._joined_topics: tuple[str, ...] | None = None
        self._assigned_for: Mapping[str, int | None] | None = None
        self._group_topics: frozenset[str] = frozenset()
        self._leads_already = False
        self._refusals = 0
        """JoinGroup and SyncGroup refused since the last assignment."""
        self._remembered: dict[str, tuple[tuple[TopicPartition, ...], int]] = {}

    @property
    def is_settled(self) -> bool:
        """Whether the consumer has its assignment and does not need to rejoin."""
        is_stable = self.state is ClientState.STABLE and not self._is_joining
        return is_stable and not self._rejoin_needed

    def resume(self, joined: Joined, coordinator: int | None) -> None:
        """Start in an existing generation."""
        self.state, self.coordinator = ClientState.STABLE, coordinator
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        self.owned, self._protocol = joined.owned, joined.strategy
        self._remembered[joined.strategy] = (joined.owned, joined.generation_id)
        topics = joined.topics if self.config.library is not None else sorted(joined.topics)
        self._joined_topics, self._rejoin_needed = tuple(topics), False
        self._leads_already = joined.group_topics is not None
        self._group_topics = joined.group_topics or frozenset()
        self._heartbeat.enable(joined.heartbeat_ms)

    # --- poll -----------------------------------------------------------------------------------

    def poll(self) -> None:
        """Run the membership; return to the application when there may be records."""
        self._polled_ms = self._clock.now_ms
        self._is_polling = True
        events, self._events = self._events, []
        for event in events:
            event()
        if self.coordinator is None:
            self._host.after(POLL_MS, self._continue)
        self._continue()

    def wakeup(self) -> None:
        """Make a blocked poll() return."""
        self._is_polling = False

    def _in_poll(self, event: Callable[[], None]) -> None:
        """Run an action that Java runs in poll(): now, or in the next one."""
        if self._is_polling:
            event()
        else:
            self._events.append(event)

    def _continue(self) -> None:
        """Continue poll() until it blocks (`ConsumerCoordinator.poll`)."""
        if not self._is_polling or self.is_closed:
            return
        if self._failure is not None:
            self._fail(self._failure)
        elif self._metadata is None:
            self._refresh()
        elif self.coordinator is None:
            self.find_coordinator()
        elif self._must_rejoin():
            self._join_if_needed()
        else:
            self._return(is_active=True)
        if self._is_polling and not self.is_closed and self._returns:
            self._return(is_active=False)

    @property
    def _returns(self) -> bool:
        """Whether poll() returns now: it owns partitions, and no pending step blocks it."""
        revokes_all = self._prepared_by_ms is not None and not self.config.is_cooperative
        waits = self.coordinator is None or self._metadata is None or self._is_asking
        is_over = self._clock.now_ms >= self._polled_ms + POLL_MS
        return bool(self.owned) and not revokes_all and (is_over or not waits)

    def _return(self, *, is_active: bool) -> None:
        self._is_polling = False
        self._polled_ms = self._clock.now_ms
        self._application.polled(is_active=is_active)

    def _refresh(self) -> None:
        """Refresh metadata every `metadata.max.age.ms`."""
        if not self.is_closed and not self._is_refreshing:
            self._is_refreshing = True
            self._host.metadata(self._refreshed)

    def _refreshed(self, topics: TopicImage) -> None:
        self._is_refreshing = False
        self._know_topics(topics)
        if self._leads_already:
            self._leads_already, self._assigned_for = False, self._snapshot()
        if (age_ms := self.config.metadata_max_age_ms) is not None:
            self._host.after(age_ms, self._refresh)
        self._continue()

    def _know_topics(self, topics: TopicImage) -> None:
        self._metadata = {topic.name: topic.partitions for topic in topics}
        if (matches := self.config.pattern) is not None:
            self._topics = tuple(sorted(filter(matches, self._metadata)))

    def _must_rejoin(self) -> bool:
        """Return whether to rejoin (`rejoinNeededOrPending`).

        Only the member that computed the assignment watches the topics of the group.
        """
        changed = self._assigned_for is not None and self._assigned_for != self._snapshot()
        moved = self._joined_topics is not None and self._joined_topics != self._topics
        if changed or moved:
            self._rejoin_needed = True
        return self._rejoin_needed

    def _snapshot(self) -> Mapping[str, int | None]:
        assert self._metadata is not None
        return {topic: self._metadata.get(topic) for topic in self._group_topics}

    @property
    def poll_expires_ms(self) -> int | None:
        """Deadline of the next poll(), in ms; None during poll()."""
        if self._is_polling or not self.config.leaves_if_late:
            return None
        return self._polled_ms + self.config.max_poll_interval_ms

    def _fail(self, reason: str) -> None:
        self.is_closed = True
        self._application.failed(reason)

    def _fail_or_retry(self, reason: str, delay_ms: int | None) -> None:
        """Fail, or join again after a delay, as the client library does."""
        if delay_ms is None:
            self._fail(reason)
            return
        retry = self.config.on_error.retry
        if retry is not Retry.SAME:
            if self.owned:
                owned, self.owned = self.owned, ()
                self._application.lost(owned)
            has_joined = self.state is ClientState.COMPLETING_REBALANCE
            if has_joined and retry.leaves(was_assigned=bool(self._remembered)):
                self.leave_group()
            self.reset_state(keeps_id=retry is Retry.LOST)
            if retry is not Retry.LOST:
                self._remembered.clear()
        self._application.retried(reason)
        self._joins_ms = self._clock.now_ms + delay_ms
        self._join_again()

    def _refused(self, code: ErrorCode) -> None:
        """Fail, or retry after a backoff; clients that another one has fenced do not retry."""
        errors = self.config.on_error
        delay_ms = None if code is ErrorCode.FENCED_INSTANCE_ID else errors.refused_ms
        if delay_ms is not None:
            delay_ms = min(delay_ms * 2**self._refusals, errors.refused_most_ms)
        self._refusals += 1
        self._fail_or_retry(code.name, delay_ms)

    # --- JoinGroup ------------------------------------------------------------------------------

    def _join_if_needed(self) -> None:
        """Run the next step of joining, unless one waits for an answer (`joinGroupIfNeeded`)."""
        if self._is_preparing:
            return
        if not self._needs_prepare:
            self._send_join_group()
            return
        self._is_preparing = True
        if self.config.pattern is None:
            self._on_join_prepare()
        else:
            self._is_asking = True
            self._host.metadata(self._prepare_with)

    def _prepare_with(self, topics: TopicImage) -> None:
        self._is_asking = False
        self._know_topics(topics)
        self._in_poll(self._on_join_prepare)

    def _on_join_prepare(self) -> None:
        """Commit, then revoke partitions."""
        self._needs_prepare = False
        if self._prepared_by_ms is None:
            self._prepared_by_ms = self._clock.now_ms + self.config.max_poll_interval_ms
        until_ms = self._prepared_by_ms

        def committed(code: ErrorCode) -> None:
            if code in RETRIABLE and self._clock.now_ms < until_ms:
                self._is_preparing, self._needs_prepare = False, True
                self._host.after(self.config.retry_backoff_ms, self._continue)
            else:
                if code is not ErrorCode.NONE and self.state is ClientState.UNJOINED:
                    self._application.commit_failed(code)
                self._revoke_and_join()

        offsets = self._application.positions() if self.config.enable_auto_commit else {}
        if offsets:
            self.commit(offsets, lambda code: self._in_poll(lambda: committed(code)))
        else:
            self._revoke_and_join()

    def _revoke_and_join(self) -> None:
        self._is_preparing, self._prepared_by_ms = False, None
        owned = self.owned
        if self.generation_id == NO_GENERATION or not self.member_id:
            self.owned = ()
            if owned:
                self._application.lost(owned)
        else:
            self.owned, revoked = (), owned
            if self.config.is_cooperative:
                self.owned = tuple(at for at in owned if at[0] in self._topics)
                revoked = tuple(at for at in owned if at[0] not in self._topics)
            if revoked:
                self._application.revoked(revoked)
        self._assigned_for = None
        if not self.is_closed:
            self._send_join_group()

    def _send_join_group(self) -> None:
        if self._is_joining:
            return
        if (delay_ms := self._joins_ms - self._clock.now_ms) > 0:
            self._host.after(delay_ms, self._continue)
            return
        self._is_joining = True
        self.state = ClientState.PREPARING_REBALANCE
        if self.coordinator is None:
            self._join_again(self.config.retry_backoff_ms)
            return
        config = self.config
        self._joined_topics = self._topics
        request = JoinGroup(
            config.group_id,
            self.member_id,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            CONSUMER,
            tuple(
                message.Protocol(
                    strategy, encode_subscription(self._spec(strategy), strategy, config.library)
                )
                for strategy in config.strategies
            ),
            config.instance_id,
            config.client_id,
            "/127.0.0.1",
            config.join_version,
        )
        generation = self._generation

        def on_answer(answer: JoinAnswer | None) -> None:
            is_same = generation == self._generation
            if answer is None:
                self._elsewhere()
            else:
                ON_JOIN.get(answer.error, ClassicClient._join_failed)(self, answer, is_same)

        self._host.send(
            self.coordinator, request, lambda answer: self._in_poll(lambda: on_answer(answer))
        )

    def _spec(self, strategy: str) -> MemberSpec:
        """Return the member's subscription for a strategy."""
        remembered = self._remembered.get(strategy)
        generation = None if remembered is None else remembered[1]
        owned = None if remembered is None else remembered[0]
        return MemberSpec(
            self.member_id,
            self._topics,
            self.config.instance_id,
            self.config.client_id,
            self.config.rack,
            self.owned if strategy == COOPERATIVE_STICKY else owned,
            generation,
            version=self.config.subscription_version,
            subscription_generation=self.generation_id,
        )

    def _join_again(self, delay_ms: int = 0) -> None:
        """Start another attempt to join, now or after a delay."""
        self._is_joining = False
        self._rejoin_needed = True
        if delay_ms:
            self._host.after(delay_ms, self._continue)
        else:
            self._continue()

    def _elsewhere(self) -> None:
        self.coordinator = None
        self._join_again(self.config.retry_backoff_ms)

    def _joined(self, answer: JoinAnswer, is_same: bool) -> None:
        """Take the generation; as leader, compute and send the assignments."""
        if self.state is not ClientState.PREPARING_REBALANCE:  # UnjoinedGroupException
            self._join_again(self.config.retry_backoff_ms)
            return
        self.state = ClientState.COMPLETING_REBALANCE
        self.generation_id, self.member_id = answer.generation_id, answer.member_id
        self._protocol = answer.protocol
        self._heartbeat.enable()
        if answer.leader_id != answer.member_id:
            self._send_sync_group({})
            return
        try:
            self._group_topics = subscribed_topics(answer)
        except AssignorError as error:
            self._fail_or_retry(str(error), self.config.on_error.assignor_failed_ms)
            return
        assert self._metadata is not None
        if self._group_topics <= set(self._topics):
            self._on_join_leader(answer, self._metadata)
        else:
            self._host.metadata(lambda topics: self._learn_and_lead(answer, topics))

    def _learn_and_lead(self, answer: JoinAnswer, topics: TopicImage) -> None:
        self._know_topics(topics)
        assert self._metadata is not None
        self._on_join_leader(answer, self._metadata)

    def _on_join_leader(self, answer: JoinAnswer, metadata: Mapping[str, int]) -> None:
        """Compute the assignments of all members."""
        self._assigned_for = self._snapshot()
        if answer.skip_assignment:
            self._send_sync_group({})
            return
        try:
            encoded = assignments(answer, metadata, self.config)
        except AssignorError as error:
            self._fail_or_retry(str(error), self.config.on_error.assignor_failed_ms)
        else:
            self._send_sync_group(encoded)

    def _take_member_id(self, answer: JoinAnswer, is_same: bool) -> None:
        """Rejoin with the member id from the answer."""
        self.generation_id, self.member_id = NO_GENERATION, answer.member_id
        self._join_again()

    def _join_unknown(self, answer: JoinAnswer, is_same: bool) -> None:
        """Rejoin as a new member."""
        if is_same:
            self.reset_state()
        self._join_again()

    def _join_elsewhere(self, answer: JoinAnswer, is_same: bool) -> None:
        """Look up the coordinator, then rejoin."""
        self._elsewhere()

    def _join_later(self, answer: JoinAnswer, is_same: bool) -> None:
        """Rejoin after a backoff."""
        self._join_again(self.config.retry_backoff_ms)

    def _join_now(self, answer: JoinAnswer, is_same: bool) -> None:
        """Rejoin."""
        self._join_again()

    def _join_failed(self, answer: JoinAnswer, is_same: bool) -> None:
        """Fail: poll() throws; some other client libraries retry."""
        self._refused(answer.error)

    # --- SyncGroup ------------------------------------------------------------------------------

    def _send_sync_group(self, assignments: Mapping[str, bytes]) -> None:
        if self.coordinator is None:
            self._join_again(self.config.retry_backoff_ms)
            return
        request = SyncGroup(
            self.config.group_id,
            self.generation_id,
            self.member_id,
            assignments,
            self.config.instance_id,
            CONSUMER,
            self._protocol,
        )
        generation = self._generation

        def on_answer(answer: SyncAnswer | None) -> None:
            is_same = generation == self._generation
            if answer is None:
                self._elsewhere()
            else:
                ON_SYNC.get(answer.error, ClassicClient._sync_failed)(self, answer, is_same)

        self._host.send(self.coordinator, request, on_answer)

    def _synced(self, answer: SyncAnswer, is_same: bool) -> None:
        """Take the assignment, unless the consumer was removed in the meantime."""
        if self.state is not ClientState.COMPLETING_REBALANCE:
            self._join_again()
            return
        self.state = ClientState.STABLE
        self._rejoin_needed = False
        self._refusals = 0
        self._in_poll(lambda: self._on_join_complete(answer))

    def _sync_unknown(self, answer: SyncAnswer, is_same: bool) -> None:
        """Rejoin, as a new member unless only the generation was wrong."""
        if is_same:
            self.reset_state(keeps_id=self.config.keeps_id(answer.error, "SyncGroup"))
        self._join_again()

    def _sync_again(self, answer: SyncAnswer, is_same: bool) -> None:
        """Rejoin: another rebalance has begun."""
        self._join_again()

    def _sync_elsewhere(self, answer: SyncAnswer, is_same: bool) -> None:
        """Look up the coordinator, then rejoin."""
        self._elsewhere()

    def _sync_failed(self, answer: SyncAnswer, is_same: bool) -> None:
        """Fail: poll() throws; some other client libraries retry."""
        self._refused(answer.error)

    def _on_join_complete(self, answer: SyncAnswer) -> None:
        """Revoke old partitions and take new ones; rejoin if any were revoked."""
        if self.state is not ClientState.STABLE:  # the heartbeat thread left the group, or failed
            self.reset_state()
            self._join_again()
            return
        assigned = decode_assignment(answer.assignment)
        if assigned is None:
            self._fail("IllegalStateException: the assignment has too few bytes")
            return
        if self.config.pattern is None and {*map(itemgetter(0), assigned)} - {*self._topics}:
            self._needs_prepare = True
            self._join_again()
            return
        before, self.owned = self.owned, sorted_assignment(answer.assignment)
        assert self._protocol is not None
        self._remembered[self._protocol] = (assigned, self.generation_id)
        had, now = set(before), set(assigned) if before else ()
        if revoked := tuple(partition for partition in before if partition not in now):
            self._rejoin_needed = True
            self._application.revoked(revoked)
        self._is_joining = False
        self._needs_prepare = True
        new = tuple(at for at in self.owned if at not in had) if had else self.owned
        self._application.assigned(new)
        self._continue()

    def owns_each(self, partitions: tuple[TopicPartition, ...]) -> Sequence[bool]:
        """Return for each of the partitions whether the consumer owns it."""
        if partitions == self.owned:
            return [True] * len(partitions)
        return [*map(set(self.owned).__contains__, partitions)]

    def close(self) -> None:
        """Drop all partitions and leave; a static member stays in its group (`close`)."""
        self.is_closed = True
        owned, self.owned = self.owned, ()
        if owned:
            if self.state is ClientState.STABLE and self.generation_id != NO_GENERATION:
                self._application.revoked(owned)
            else:
                self._application.lost(owned)
        self.leave_group()


ON_JOIN: Mapping[ErrorCode, Callable[[ClassicClient, JoinAnswer, bool], None]] = {
    ErrorCode.NONE: ClassicClient._joined,
    ErrorCode.MEMBER_ID_REQUIRED: ClassicClient._take_member_id,
    ErrorCode.UNKNOWN_MEMBER_ID: ClassicClient._join_unknown,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ClassicClient._join_later,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ClassicClient._join_elsewhere,
    ErrorCode.NOT_COORDINATOR: ClassicClient._join_elsewhere,
    ErrorCode.REBALANCE_IN_PROGRESS: ClassicClient._join_now,
}
"""The handler of each answer to JoinGroup; after other errors, poll() throws in Java."""

ON_SYNC: Mapping[ErrorCode, Callable[[ClassicClient, SyncAnswer, bool], None]] = {
    ErrorCode.NONE: ClassicClient._synced,
    ErrorCode.UNKNOWN_MEMBER_ID: ClassicClient._sync_unknown,
    ErrorCode.ILLEGAL_GENERATION: ClassicClient._sync_unknown,
    ErrorCode.REBALANCE_IN_PROGRESS: ClassicClient._sync_again,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ClassicClient._sync_elsewhere,
    ErrorCode.NOT_COORDINATOR: ClassicClient._sync_elsewhere,
}
"""The handler of each answer to SyncGroup; after other errors, poll() throws in Java."""
