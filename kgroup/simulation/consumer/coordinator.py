"""The coordinator of consumer groups (KIP-848): the effect of each heartbeat.

`TABLE` has a handler for each kind of member epoch. `target_assignment` reconciles members with
their targets, and `validation` refuses invalid requests. A handler reads the group and returns
records; only replaying these records changes the group. A refused heartbeat changes nothing.

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
from kgroup.simulation.consumer.group import ConsumerGroup, ResolvedRegex, TargetAssignment
from kgroup.simulation.consumer.member import ConsumerMember, Data
from kgroup.simulation.consumer.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    NumbersByTopic,
    numbers_of,
)
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.consumer.target_assignment import TABLE as RECONCILE
from kgroup.simulation.consumer.target_assignment import (
    Reconciliation,
    is_moved,
    target_assignments,
)
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import RequestRefused
from kgroup.simulation.rules import ConsumerSettings


class TimerKind(Enum):
    """What a member must do before a timer expires."""

    SESSION = "send a heartbeat"
    REBALANCE = "revoke partitions"
    JOIN = "rejoin (members that use the classic protocol)"
    SYNC = "sync (members that use the classic protocol)"


class MemberTimers:
    """Timers of members, one per kind and member id; a timer may outlive its member."""

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
        """Start a timer; restart it if it is running, unless `anew` is False."""
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
        """Cancel a timer, if it is running."""
        if (timer := self._timers.pop((kind, group_id, member_id), None)) is not None:
            timer.cancel()

    def cancel_all(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a removed member (`cancelTimers`)."""
        for kind in TimerKind:
            self.cancel(kind, group_id, member_id)

    def clear(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


_MIN_INTERVAL_MS = 10_000
"""Minimum time between two resolutions (`REGEX_BATCH_REFRESH_MIN_INTERVAL_MS`)."""


def is_regex_recent(group: ConsumerGroup, now_ms: int) -> bool:
    """Return whether the group's regular expressions were resolved within the minimum interval."""
    last = _last(group)
    return last is not None and now_ms <= last.timestamp_ms + _MIN_INTERVAL_MS


def is_regex_stale(
    group: ConsumerGroup,
    regexes: frozenset[str],
    new_topics_version: int,
    now_ms: int,
    refresh_interval_ms: int,
) -> bool:
    """Return whether the group's regular expressions must be resolved again.

    Args:
        group: the group before the member's heartbeat.
        regexes: regular expressions of its members, with the heartbeat.
        new_topics_version: version of the cluster's topics when a topic was last created.
        now_ms: current time, in ms.
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
    """Return records of the resolved expressions, and of a new epoch if their topics changed.

    Args:
        group: the group; its members may have changed their expressions in the meantime.
        regexes: regular expressions to resolve.
        topics: existing topics.
        version: version of the topics.
        now_ms: current time, in ms.
    """
    group_id = group.group_id
    records: list[GroupRecord] = []
    rises = False
    counts = group.subscriptions.copy()
    for regex in sorted(regexes & group.subscriptions.regexes.keys()):
        matches = parse_regex(regex).fullmatch
        names = frozenset(topic.name for topic in topics if matches(topic.name))
        before = group.regexes.get(regex)
        known = frozenset[str]() if before is None else before.topics
        if names != known:
            rises = True
            counts.match(known, -1)
            counts.match(names, 1)
        resolved_now = ResolvedRegex(names, version, now_ms)
        records.append(record_of.regular_expression(group_id, regex, resolved_now))
    metadata_hash = topics.hash_of(counts.topics)
    if rises or metadata_hash != group.metadata_hash:
        records.append(record_of.group_epoch(group_id, group.epoch + 1, metadata_hash))
    return records


def _last(group: ConsumerGroup) -> ResolvedRegex | None:
    """Return any resolved expression: all are resolved at the same time."""
    return next(iter(group.regexes.values()), None)


METADATA_REFRESH_INTERVAL_MS = 2**31 - 1
RETRY_MS = 500

_CAUSES = {
    TimerKind.SESSION: RebalanceCause.SESSION_EXPIRED,
    TimerKind.REBALANCE: RebalanceCause.NOT_REVOKED,
    TimerKind.JOIN: RebalanceCause.NOT_JOINED,
    TimerKind.SYNC: RebalanceCause.NOT_SYNCED,
}
"""The cause of removing a member when a timer expires."""

Outcome = tuple[list[GroupRecord], ConsumerHeartbeatAnswer]


class ConsumerRuntime(Interface):
    """Takes answers and records, and generates ids."""

    @property
    def clock(self) -> Clock:
        """The clock of the simulation."""
        ...

    def answer(self, request: ConsumerGroupHeartbeat, answer: ConsumerHeartbeatAnswer) -> None:
        """Answer a heartbeat."""

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        """Write a record or a tombstone."""

    def new_uuid(self) -> str:
        """Return a new unique id (base64url)."""
        ...

    def moved(self, group: ConsumerGroup, cause: RebalanceCause | None) -> None:
        """Handle a new state or epoch of a group; `cause` is set if the epoch has risen."""

    def removed(self, group: ConsumerGroup, member_id: str, cause: RebalanceCause) -> None:
        """Handle a member that is about to be removed."""


class RegexChange(Enum):
    """The effect of a heartbeat on its member's regular expression."""

    NONE = "none"
    UNRESOLVED = "another one, whose topics are not resolved yet"
    RESOLVED = "another one, whose topics are known; or none any more"


class Subscribed(NamedTuple):
    """The group's epoch, and whether all its members have the same subscription."""

    epoch: int
    is_homogeneous: bool


class MemberTarget(NamedTuple):
    """A member's target assignment, and the epoch of that assignment."""

    epoch: int
    target: TargetAssignment


class ConsumerCoordinator:
    """The consumer groups of a broker.

    Args:
        settings: settings of the broker.
        runtime: takes answers and records.
        topics: topics of the cluster.

    Attributes:
        groups: groups by id; removed groups are absent.
        topics: topics of the cluster as of the last update.
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
        """Add, keep or remove a member (`consumerGroupHeartbeat`)."""
        try:
            validation.check_request(request, self._settings.assignors)
            records, answer = TABLE[min(request.member_epoch, JOIN_EPOCH + 1)](self, request)
        except RequestRefused as refusal:
            records, answer = [], ConsumerHeartbeatAnswer(refusal.code)
        self._apply(records)
        self._runtime.answer(request, answer)

    def update_topics(self, topics: TopicImage) -> None:
        """Handle created, changed and deleted topics (`onMetadataUpdate`)."""
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
        """Apply a record that was just written, or one of a log that is loaded."""
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
        """Start the timers of all members after loading.

        Regular expressions are resolved again, whatever topics the records have.
        """
        versions = (
            regex.version for group in self.groups.values() for regex in group.regexes.values()
        )
        self._topics_version = self._new_topics_version = 1 + max(versions, default=0)
        for group in self.groups.values():
            self._runtime.moved(group, None)
            for member in group.members.values():
                self._expect(group.group_id, member.member_id)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._expect_revocation(group.group_id, member)

    def on_unloaded(self) -> None:
        """Drop all groups; another coordinator has them."""
        for timer in self._resolving.values():
            timer.cancel()
        self._resolving.clear()
        self._timers.clear()
        self.groups.clear()

    def _apply(self, records: Sequence[GroupRecord], expired: RebalanceCause | None = None) -> None:
        """Write and replay records; `expired` is the cause if a timer expired."""
        if not records:
            return
        group_id = records[-1].key.get("groupId", "")  # absent after a downgrade
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
        """Add a new or rejoining member; a returning static member replaces its old self."""
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
        """Return a group, or a new one if it does not exist (`getOrMaybeCreateConsumerGroup`).

        Records that convert a group are appended to `records`.
        """
        group = self.groups.get(group_id)
        return ConsumerGroup(group_id) if group is None else group

    def _replace_member(
        self, group: ConsumerGroup, old: ConsumerMember, member_id: str, records: list[GroupRecord]
    ) -> ConsumerMember:
        """Give a returning static member's partitions and target to its new member id."""
        group_id = group.group_id
        new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        target = group.targets.get(old.member_id, {})
        records += [
            *record_of.gone_member(group_id, old.member_id),
            record_of.member_metadata(group_id, new),
            record_of.target_assignment(group_id, member_id, target),
            record_of.current_assignment(group_id, new),
        ]
        return new

    def _beat(self, request: ConsumerGroupHeartbeat) -> Outcome:
        """Keep the member, and answer which partitions it must revoke or may use."""
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
        """Update the member, compute a new target assignment if needed, and reconcile."""
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
            numbers_of(reconciled.assigned) if is_told else None,
        )

    def _note_member(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[GroupRecord],
    ) -> tuple[Subscribed, bool]:
        """Record the updated member; return the epoch, and whether the subscription is new.

        A new regular expression raises the epoch only after it is resolved.
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
        owned: NumbersByTopic | None,
        records: list[GroupRecord],
    ) -> ConsumerMember:
        """Reconcile a member with its target assignment (`maybeReconcile`)."""
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
        """Start a new epoch if `rises` is set or topics have changed.

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
        """Compute a target assignment if the epoch has risen, at most once per interval (KIP-1263).

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
            if before is None or is_moved(before, target):
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
        """Record a changed regular expression, and schedule the resolution if it is due.

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
        """Schedule the resolution of all expressions if it is due."""
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
        """Resolve regular expressions; raise the epoch if their topics changed."""
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
        """Remove the member."""
        group = validation.known_group(self.groups, request.group_id)
        member = validation.own_member(group, request)
        records = self._let_go(group, [member], RebalanceCause.MEMBER_LEFT)
        return records, _farewell(request, request.member_id)

    def _pause(self, request: ConsumerGroupHeartbeat) -> Outcome:
        """Keep a static member's partitions until it returns or its session times out."""
        group = validation.known_group(self.groups, request.group_id)
        member = validation.own_member(group, request)
        assigned = {
            topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned.items()
        }
        paused = replace(member, epoch=PAUSE_EPOCH, revoking={}, assigned=assigned)
        record = record_of.current_assignment(group.group_id, paused)
        return [record], _farewell(request, member.member_id)

    def _let_go(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], cause: RebalanceCause
    ) -> list[GroupRecord]:
        """Remove members unless the request is refused, and report the cause."""
        records = self._fence(group, members, cause)
        for member in members:
            self._runtime.removed(group, member.member_id, cause)
        return records

    def _fence(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], cause: RebalanceCause
    ) -> list[GroupRecord]:
        """Return records that remove members and raise the epoch (`consumerGroupFenceMembers`)."""
        del cause  # used in a downgrade
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

    # --- timeouts ---------------------------------------------------------------------------------

    def _expect(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """Restart the timer that removes the member after its session timeout."""
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
        """Remove the member if it does not leave its epoch within its rebalance timeout."""
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
        """Remove a member if it exists and, with `epoch`, is still in that epoch."""
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or epoch not in (None, member.epoch):
            return
        try:
            self._apply(self._let_go(group, [member], _CAUSES[kind]), _CAUSES[kind])
        except RequestRefused:  # try again later (`CoordinatorTimerImpl`)
            self._timers.start(
                kind,
                group_id,
                member_id,
                RETRY_MS,
                lambda: self._expire(kind, group_id, member_id, epoch),
            )


def _cause(group: ConsumerGroup | None, records: Iterable[GroupRecord]) -> RebalanceCause:
    """Return the cause of records that were not written for an expired timer."""
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
"""The handler of a heartbeat by its member epoch; all epochs above 0 have the same handler."""
