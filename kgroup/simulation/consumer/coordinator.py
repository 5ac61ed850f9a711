"""The coordinator of consumer groups (KIP-848): what each heartbeat does.

`TABLE` says what a heartbeat does by the epoch that it names; what it does to a member that has
partitions to give up or to get stands in `target_assignment`, and what is refused in `validation`.
A handler looks at the group as it is and returns records; they are appended and replayed, and only
that changes the group. One that refuses a heartbeat has changed nothing.

Source: the methods `consumerGroup...`, `maybeUpdateRegularExpressions` and
`handleRegularExpressionsResult` of `GroupMetadataManager`, and `TopicRegexResolver`, of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple
from typing import Protocol as Interface

from kgroup.assignor.base import AssignorError
from kgroup.model.group import MemberState
from kgroup.model.pattern import parse_regex
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.classic.group import RebalanceCause
from kgroup.simulation.clock import Clock, Timer
from kgroup.simulation.consumer import record as record_of
from kgroup.simulation.consumer import validation
from kgroup.simulation.consumer.group import ConsumerGroup, ResolvedRegex
from kgroup.simulation.consumer.member import ConsumerMember, Data
from kgroup.simulation.consumer.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    IdPartition,
)
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.consumer.target_assignment import TABLE as RECONCILE
from kgroup.simulation.consumer.target_assignment import Reconciliation, target_assignments
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import RequestRefused
from kgroup.simulation.rules import ConsumerSettings


class TimerKind(Enum):
    """What a member is to do in time."""

    SESSION = "be heard of"
    REBALANCE = "give up partitions"
    JOIN = "join again (of those that speak the classic protocol)"
    SYNC = "sync (likewise)"


class MemberTimers:
    """One timer of each kind for each member, by their ids: they outlive the members."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[tuple[TimerKind, str, str], Timer] = {}

    def start(
        self,
        kind: TimerKind,
        group_id: str,
        member_id: str,
        delay_ms: int,
        action: Callable[[], None],
        *,
        anew: bool = True,
    ) -> None:
        """Have something happen; what was to happen does not, unless it is not to begin anew."""
        key = (kind, group_id, member_id)
        if key in self._timers:
            if not anew:
                return
            self._timers[key].cancel()

        def end() -> None:
            del self._timers[key]
            action()

        self._timers[key] = self._clock.after(delay_ms, end)

    def cancel(self, kind: TimerKind, group_id: str, member_id: str) -> None:
        """See that it does not happen."""
        if (timer := self._timers.pop((kind, group_id, member_id), None)) is not None:
            timer.cancel()

    def cancel_all(self, group_id: str, member_id: str) -> None:
        """See that nothing happens to a member that is removed (`cancelTimers`)."""
        for kind in TimerKind:
            self.cancel(kind, group_id, member_id)

    def clear(self) -> None:
        """See that nothing happens at all."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


_MIN_INTERVAL_MS = 10_000
"""How long expressions are not looked at again (`REGEX_BATCH_REFRESH_MIN_INTERVAL_MS`)."""


def is_regex_recent(group: ConsumerGroup, now_ms: int) -> bool:
    """Return whether the expressions of a group were looked at just now."""
    last = _last(group)
    return last is not None and now_ms <= last.timestamp_ms + _MIN_INTERVAL_MS


def is_regex_stale(
    group: ConsumerGroup,
    regexes: frozenset[str],
    new_topics_version: int,
    now_ms: int,
    refresh_interval_ms: int,
) -> bool:
    """Return whether the expressions of a group are to be looked at again.

    Args:
        group: as it was before a member's heartbeat.
        regexes: that its members subscribe to now.
        new_topics_version: of the topics of the cluster when one was made last.
        now_ms: the present.
        refresh_interval_ms: `group.consumer.regex.refresh.interval.ms`.
    """
    last = _last(group)
    return (
        last is None
        or len(regexes) != len(group.regexes)
        or last.version < new_topics_version
        or now_ms > last.timestamp_ms + refresh_interval_ms
    )


def resolved_regex(
    group: ConsumerGroup, regexes: frozenset[str], topics: TopicImage, version: int, now_ms: int
) -> list[GroupRecord]:
    """Record the topics of expressions, and a new epoch if there are others than before.

    Args:
        group: whose members may have left their expressions meanwhile.
        regexes: to look for.
        topics: that exist.
        version: of these.
        now_ms: the present.
    """
    group_id = group.group_id
    records: list[GroupRecord] = []
    rises = False
    counts = group.subscriptions.copy()
    for regex in sorted(regexes & group.subscriptions.regexes.keys()):
        matches = parse_regex(regex).fullmatch
        found = frozenset(topic.name for topic in topics if matches(topic.name))
        before = group.regexes.get(regex)
        known = frozenset[str]() if before is None else before.topics
        if found != known:
            rises = True
            counts.match(known, -1)
            counts.match(found, 1)
        resolved_now = ResolvedRegex(found, version, now_ms)
        records.append(record_of.regular_expression(group_id, regex, resolved_now))
    metadata_hash = topics.hash_of(counts.topics)
    if rises or metadata_hash != group.metadata_hash:
        records.append(record_of.group_epoch(group_id, group.epoch + 1, metadata_hash))
    return records


def _last(group: ConsumerGroup) -> ResolvedRegex | None:
    """Return any expression that was looked at: they are looked at together."""
    return next(iter(group.regexes.values()), None)


METADATA_REFRESH_INTERVAL_MS = 2**31 - 1
RETRY_MS = 500

_CAUSES = {
    TimerKind.SESSION: RebalanceCause.SESSION_EXPIRED,
    TimerKind.REBALANCE: RebalanceCause.NOT_REVOKED,
    TimerKind.JOIN: RebalanceCause.NOT_JOINED,
    TimerKind.SYNC: RebalanceCause.NOT_SYNCED,
}
"""Why a member is removed that does not do something in time."""

Outcome = tuple[list[GroupRecord], ConsumerHeartbeatAnswer]
Owned = frozenset[IdPartition] | None


class ConsumerRuntime(Interface):
    """Where answers and records go, and where ids come from."""

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    def answer(self, request: ConsumerGroupHeartbeat, answer: ConsumerHeartbeatAnswer) -> None:
        """Answer a heartbeat."""

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        """Write a record, or a tombstone."""

    def new_uuid(self) -> str:
        """Make an id that nobody has, in Kafka's base64url text."""
        ...

    def moved(self, group: ConsumerGroup, cause: RebalanceCause | None) -> None:
        """Learn that a group has another state or epoch, and why where the epoch has risen."""

    def removed(self, group: ConsumerGroup, member_id: str, cause: RebalanceCause) -> None:
        """Learn that a member is about to be removed."""


class RegexChange(Enum):
    """What a heartbeat does to the expression that its member subscribes to."""

    NONE = "none"
    UNRESOLVED = "another one, whose topics are still to be found"
    RESOLVED = "another one, whose topics are known, or none any more"


class Subscribed(NamedTuple):
    """The group's epoch, and whether all its members subscribe to the same."""

    epoch: int
    is_homogeneous: bool


class MemberTarget(NamedTuple):
    """What a member shall have, and the epoch of the group for which that is."""

    epoch: int
    target: Collection[IdPartition]


class ConsumerCoordinator:
    """The consumer groups of a broker.

    Args:
        settings: of the broker.
        runtime: where answers and records go.
        topics: of the cluster.

    Attributes:
        groups: by id; a group that is gone is not there.
        topics: of the cluster, as it was told last.
    """

    def __init__(
        self, settings: ConsumerSettings, runtime: ConsumerRuntime, topics: TopicImage | None = None
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._settings = settings
        self._runtime = runtime
        self._clock = runtime.clock
        self.topics = topics or TopicImage()
        self._topics_version = 0
        self._new_topics_version = 0
        self._timers = MemberTimers(runtime.clock)
        self._resolving: dict[str, Timer] = {}

    def heartbeat(self, request: ConsumerGroupHeartbeat) -> None:
        """Take a member in, keep it, or let it go (`consumerGroupHeartbeat`)."""
        try:
            validation.check_request(request, self._settings.assignors)
            records, answer = TABLE[min(request.member_epoch, JOIN_EPOCH + 1)](self, request)
        except RequestRefused as refusal:
            records, answer = [], ConsumerHeartbeatAnswer(refusal.code)
        self._apply(records)
        self._runtime.answer(request, answer)

    def update_topics(self, topics: TopicImage) -> None:
        """Take note of topics that were made, changed or deleted (`onMetadataUpdate`)."""
        changed = topics.changed_since(self.topics)
        self._topics_version += 1
        if topics.has_new_since(self.topics):
            self._new_topics_version = self._topics_version
        self.topics = topics
        for group in self.groups.values():
            if not changed.isdisjoint(group.subscriptions.topics):
                group.refresh_ms = 0

    # --- records --------------------------------------------------------------------------------

    def replay(self, record: GroupRecord) -> None:
        """Apply a record: one that was just written, or one of a log that is loaded."""
        group_id = record.key["groupId"]
        if group_id not in self.groups:
            if record.value is None:
                return
            self.groups[group_id] = ConsumerGroup(group_id)
        if record.type == "ConsumerGroupMetadata" and record.value is None:
            del self.groups[group_id]
        else:
            self.groups[group_id].replay(record)

    def on_loaded(self) -> None:
        """Begin to expect the members of all groups, when their records were replayed.

        Whatever topics expressions match was found before: they are looked at again.
        """
        found = (
            regex.version for group in self.groups.values() for regex in group.regexes.values()
        )
        self._topics_version = self._new_topics_version = 1 + max(found, default=0)
        for group in self.groups.values():
            self._runtime.moved(group, None)
            for member in group.members.values():
                self._expect(group.group_id, member.member_id)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._expect_revocation(group.group_id, member)

    def on_unloaded(self) -> None:
        """Forget all groups: another coordinator has them."""
        for timer in self._resolving.values():
            timer.cancel()
        self._resolving.clear()
        self._timers.clear()
        self.groups.clear()

    def _apply(self, records: Sequence[GroupRecord], expired: RebalanceCause | None = None) -> None:
        """Write records and do what they say; say why, where a member's time has run out."""
        if not records:
            return
        group_id = records[-1].key.get("groupId", "")  # none of a group that became classic
        group = self.groups.get(group_id)
        before = None if group is None else (group.state, group.epoch)
        cause = _cause(group, records) if expired is None else expired
        for record in records:
            self._runtime.append(*record)
            self.replay(record)
        group = self.groups.get(group_id)
        if group is not None and (group.state, group.epoch) != before:
            has_risen = before is None or before[1] != group.epoch
            self._runtime.moved(group, cause if has_risen else None)

    # --- join and beat --------------------------------------------------------------------------

    def _join(self, request: ConsumerGroupHeartbeat) -> Outcome:
        """Take a member in, or again, whatever it has missed; a static one in another's place."""
        records: list[GroupRecord] = []
        group = self._group_to_join(request.group_id, records)
        validation.check_size(group, request.member_id, self._settings.max_size)
        member_id = request.member_id or self._runtime.new_uuid()
        member = group.members.get(member_id) or ConsumerMember(member_id)
        if request.instance_id is not None:
            static = validation.static_member(group, request.instance_id)
            if static is not None:
                if static.classic is None and static.epoch != PAUSE_EPOCH:
                    raise RequestRefused(ErrorCode.UNRELEASED_INSTANCE_ID)
                member = self._replace_member(group, static, member_id, records)
        return self._update(group, member, request, records)

    def _group_to_join(self, group_id: str, records: list[GroupRecord]) -> ConsumerGroup:
        """Return a group, a new one if there is none (`getOrMaybeCreateConsumerGroup`).

        Records that make it one go first.
        """
        group = self.groups.get(group_id)
        return ConsumerGroup(group_id) if group is None else group

    def _replace_member(
        self, group: ConsumerGroup, old: ConsumerMember, member_id: str, records: list[GroupRecord]
    ) -> ConsumerMember:
        """Put a static member that has come back in the place of itself, with what it had."""
        group_id = group.group_id
        new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        target = group.targets.get(old.member_id, ())
        records += [
            *record_of.gone_member(group_id, old.member_id),
            record_of.member_metadata(group_id, new),
            record_of.target_assignment(group_id, member_id, target),
            record_of.current_assignment(group_id, new),
        ]
        return new

    def _beat(self, request: ConsumerGroupHeartbeat) -> Outcome:
        """Keep a member, and tell it what to give up and what to take."""
        group = validation.known_group(self.groups, request.group_id)
        validation.check_size(group, request.member_id, self._settings.max_size)
        member = validation.own_member(group, request)
        validation.check_epoch(member, request)
        return self._update(group, member, request, [])

    def _update(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        request: ConsumerGroupHeartbeat,
        records: list[GroupRecord],
    ) -> Outcome:
        """Note what the member says, assign anew if that changes something, and reconcile it."""
        updated = member.said(request)
        subscribed, is_new = self._note_member(group, member, updated, records)
        goal = self._update_target(group, member, updated, subscribed, records)
        reconciled = self._reconcile(group, updated, goal, is_new, request.owned, records)
        self._expect(group.group_id, updated.member_id)
        is_told = (
            request.member_epoch == JOIN_EPOCH
            or request.is_full
            or (reconciled is not member and reconciled.assigned != member.assigned)
        )
        return records, ConsumerHeartbeatAnswer(
            ErrorCode.NONE,
            reconciled.member_id,
            reconciled.epoch,
            self._settings.heartbeat_interval_ms,
            frozenset(reconciled.assigned) if is_told else None,
        )

    def _note_member(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[GroupRecord],
    ) -> tuple[Subscribed, bool]:
        """Write what a member says; tell the epoch then, and whether its subscription is new.

        The epoch does not rise for an expression before its topics are known.
        """
        if updated is not member and updated != member:
            records.append(record_of.member_metadata(group.group_id, updated))
        regex_change = self._update_regex(group, member, updated, records)
        changes_topics = updated.topics != member.topics
        is_new = changes_topics or regex_change is not RegexChange.NONE
        rises = changes_topics or regex_change is RegexChange.RESOLVED
        if rises or self._clock.now_ms >= group.refresh_ms:
            return self._update_subscriptions(group, member, updated, rises, records), is_new
        return Subscribed(group.epoch, group.is_homogeneous), is_new

    def _reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        goal: MemberTarget,
        is_new: bool,
        owned: Owned,
        records: list[GroupRecord],
    ) -> ConsumerMember:
        """Bring a member nearer to what it shall have (`maybeReconcile`)."""
        epoch, target = goal
        if not is_new and member.is_reconciled_to(epoch):
            return member
        way = Reconciliation(
            epoch, target, self.topics, group.topics_of(member), is_new, owned, group.is_held
        )
        reconciled = RECONCILE[member.state](member, way)
        if reconciled != member:
            records.append(record_of.current_assignment(group.group_id, reconciled))
            if member.classic is None:
                self._note_revocation(group.group_id, reconciled)
        return reconciled

    def _update_subscriptions(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        rises: bool,
        records: list[GroupRecord],
    ) -> Subscribed:
        """Begin an epoch if it must rise, or if topics have changed.

        Kafka: `updateSubscriptionMetadata`.
        """
        counts = group.subscriptions_with(member, updated)
        metadata_hash = self.topics.hash_of(counts.topics)
        is_static = updated.instance_id in group.statics
        is_new = updated.member_id not in group.members and not is_static
        epoch = group.epoch
        if rises or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(record_of.group_epoch(group.group_id, epoch, metadata_hash))
        group.refresh_ms = self._clock.now_ms + METADATA_REFRESH_INTERVAL_MS
        return Subscribed(epoch, counts.is_homogeneous(len(group.members) + is_new))

    def _update_target(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        subscribed: Subscribed,
        records: list[GroupRecord],
    ) -> MemberTarget:
        """Assign anew if the group's epoch has risen, but not too often (KIP-1263).

        Kafka: `maybeUpdateTargetAssignment`.
        """
        now_ms, assigned_ms = self._clock.now_ms, group.assignment_timestamp_ms
        interval_ms = self._settings.assignment_interval_ms
        is_early = assigned_ms and interval_ms and now_ms < assigned_ms + interval_ms
        if group.assignment_epoch >= subscribed.epoch or is_early:
            return MemberTarget(group.assignment_epoch, group.target_of(updated))
        assignor = group.preferred_assignor(member, updated) or self._settings.assignors[0]
        try:
            targets = target_assignments(
                group, updated, self.topics, assignor, is_homogeneous=subscribed.is_homogeneous
            )
        except AssignorError:
            raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        for member_id, target in targets.items():
            before = group.targets.get(member_id)
            if before is None or frozenset(before) != frozenset(target):
                records.append(record_of.target_assignment(group.group_id, member_id, target))
        epoch = subscribed.epoch
        records.append(record_of.assignment_epoch(group.group_id, epoch, now_ms))
        return MemberTarget(epoch, targets[updated.member_id])

    # --- regular expressions --------------------------------------------------------------------

    def _update_regex(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[GroupRecord],
    ) -> RegexChange:
        """Note another expression, and have those of the group looked at if that is due.

        Kafka: `maybeUpdateRegularExpressions`.
        """
        old, new, counts = member.regex, updated.regex, group.subscriptions.regexes
        change = RegexChange.NONE
        is_first = False
        if old != new:
            change = RegexChange.UNRESOLVED
            if old and counts[old] == 1:
                records.append(record_of.regular_expression(group.group_id, old, None))
            if new and not counts[new]:
                validation.check_regex(new)
                is_first = True
            elif (not new and old) or new in group.regexes:
                change = RegexChange.RESOLVED
        if is_first or counts:
            regexes = group.subscriptions_with(member, updated).regexes.keys()
            self._maybe_resolve(group, frozenset(regexes), is_new=is_first)
        return change

    def _maybe_resolve(
        self, group: ConsumerGroup, regexes: frozenset[str], *, is_new: bool
    ) -> None:
        """Look for the topics of all expressions, in a moment, if that is due."""
        if not regexes or group.group_id in self._resolving:
            return
        interval_ms = self._settings.regex_refresh_interval_ms
        is_stale = is_new or is_regex_stale(
            group, regexes, self._new_topics_version, self._clock.now_ms, interval_ms
        )
        if is_stale and not is_regex_recent(group, self._clock.now_ms):
            group_id = group.group_id
            self._resolving[group_id] = self._clock.after(
                0, lambda: self._resolve(group_id, regexes)
            )

    def _resolve(self, group_id: str, regexes: frozenset[str]) -> None:
        """Find the topics of expressions; the epoch rises if there are others than before."""
        del self._resolving[group_id]
        if (group := self.groups.get(group_id)) is None:
            return
        now_ms = self._clock.now_ms
        records = resolved_regex(group, regexes, self.topics, self._topics_version, now_ms)
        if any(record.type == "ConsumerGroupMetadata" for record in records):
            group.refresh_ms = now_ms + METADATA_REFRESH_INTERVAL_MS
        self._apply(records)

    # --- leave ----------------------------------------------------------------------------------

    def _leave(self, request: ConsumerGroupHeartbeat) -> Outcome:
        """Remove a member."""
        group = validation.known_group(self.groups, request.group_id)
        member = validation.own_member(group, request)
        records = self._let_go(group, [member], RebalanceCause.MEMBER_LEFT)
        return records, _farewell(request, request.member_id)

    def _pause(self, request: ConsumerGroupHeartbeat) -> Outcome:
        """Keep what a static member has until it is back, at most for the rest of its session."""
        group = validation.known_group(self.groups, request.group_id)
        member = validation.own_member(group, request)
        paused = replace(
            member, epoch=PAUSE_EPOCH, revoking={}, assigned=dict.fromkeys(member.assigned, 0)
        )
        record = record_of.current_assignment(group.group_id, paused)
        return [record], _farewell(request, member.member_id)

    def _let_go(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], cause: RebalanceCause
    ) -> list[GroupRecord]:
        """Remove members, if that may be, and tell why."""
        records = self._fence(group, members, cause)
        for member in members:
            self._runtime.removed(group, member.member_id, cause)
        return records

    def _fence(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], cause: RebalanceCause
    ) -> list[GroupRecord]:
        """Remove members, and begin an epoch (`consumerGroupFenceMembers`)."""
        del cause  # which counts where the group goes to another protocol
        group_id = group.group_id
        records: list[GroupRecord] = []
        for member in members:
            records += record_of.gone_member(group_id, member.member_id)
        leaving = [member.regex for member in members if member.regex]
        unused = [
            regex
            for regex in dict.fromkeys(leaving)
            if group.subscriptions.regexes[regex] == leaving.count(regex)
        ]
        records += [record_of.regular_expression(group_id, regex, None) for regex in unused]
        counts = group.subscriptions_without(members, unused)
        metadata_hash = self.topics.hash_of(counts.topics)
        records.append(record_of.group_epoch(group_id, group.epoch + 1, metadata_hash))
        for member in members:
            self._timers.cancel_all(group_id, member.member_id)
        return records

    # --- what time does -------------------------------------------------------------------------

    def _expect(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """Remove the member if it is not heard of in its session."""
        timeout_ms = self._settings.session_timeout_ms if timeout_ms is None else timeout_ms
        self._timers.start(
            TimerKind.SESSION,
            group_id,
            member_id,
            timeout_ms,
            lambda: self._expire(TimerKind.SESSION, group_id, member_id),
        )

    def _note_revocation(self, group_id: str, member: ConsumerMember) -> None:
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._expect_revocation(group_id, member)
        else:
            self._timers.cancel(TimerKind.REBALANCE, group_id, member.member_id)

    def _expect_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Remove the member if it does not come out of its epoch in its rebalance timeout."""
        self._timers.start(
            TimerKind.REBALANCE,
            group_id,
            member.member_id,
            member.rebalance_timeout_ms,
            lambda: self._expire(TimerKind.REBALANCE, group_id, member.member_id, member.epoch),
        )

    def _expire(
        self, kind: TimerKind, group_id: str, member_id: str, epoch: int | None = None
    ) -> None:
        """Remove a member, if it is there (and in this epoch still)."""
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or epoch not in (None, member.epoch):
            return
        try:
            self._apply(self._let_go(group, [member], _CAUSES[kind]), _CAUSES[kind])
        except RequestRefused:  # it cannot be, and is tried again (`CoordinatorTimerImpl`)
            self._timers.start(
                kind,
                group_id,
                member_id,
                RETRY_MS,
                lambda: self._expire(kind, group_id, member_id, epoch),
            )


def _cause(group: ConsumerGroup | None, records: Iterable[GroupRecord]) -> RebalanceCause:
    """Say what records are written for, where nobody's time has run out."""
    cause = RebalanceCause.TOPICS_CHANGED
    for record in records:
        if record.type == "ConsumerGroupMemberMetadata":
            if record.value is None:
                cause = RebalanceCause.MEMBER_LEFT
            elif group is None or record.key["memberId"] not in group.members:
                return RebalanceCause.MEMBER_JOINED
            else:
                cause = RebalanceCause.MEMBER_CHANGED
    return cause


def _farewell(request: ConsumerGroupHeartbeat, member_id: str) -> ConsumerHeartbeatAnswer:
    return ConsumerHeartbeatAnswer(ErrorCode.NONE, member_id, request.member_epoch)


TABLE: Mapping[int, Callable[[ConsumerCoordinator, ConsumerGroupHeartbeat], Outcome]] = {
    PAUSE_EPOCH: ConsumerCoordinator._pause,
    LEAVE_EPOCH: ConsumerCoordinator._leave,
    JOIN_EPOCH: ConsumerCoordinator._join,
    JOIN_EPOCH + 1: ConsumerCoordinator._beat,
}
"""What a heartbeat does by the epoch that it names; by any epoch above 0 the same."""
