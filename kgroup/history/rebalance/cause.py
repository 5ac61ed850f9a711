"""Causes of rebalances, from the differences between two versions of a group."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kgroup.history.rebalance.group_version import GroupVersion, MemberVersion
from kgroup.history.rebalance.rebalance import Cause, CauseCertainty, CauseKind, Participant
from kgroup.model.cluster import TopicPartition
from kgroup.operation.report import first_names
from kgroup.value_class import value_class


@value_class
class Recreation(Struct, frozen=True, gc=False):
    """A topic that was deleted and created again: commits had one topic id, then another.

    Attributes:
        before_id: previous topic id.
        topic_id: new topic id.
        last_offset: log offset of the last commit with the previous one.
        first_offset: log offset of the first commit with the new one.
        until_ms: time of the last commit with the previous one.
        since_ms: time of the first commit with the new one.
    """

    topic: str
    before_id: str
    topic_id: str
    last_offset: int
    first_offset: int
    until_ms: int | None
    since_ms: int | None


@value_class
class CommitPace(Struct, frozen=True, gc=False):
    """The last commits and the rate of commits of some partitions.

    Attributes:
        last_ms: time of the last commit; None if there is none.
        pace_ms: average time between commits, in the partition with the most commits; None if there
            are too few.
        others_last_ms: time of the last commit of another partition; None if there is none.
    """

    last_ms: int | None
    pace_ms: int | None
    others_last_ms: int | None


@value_class
class CommitSpans(Struct, frozen=True, gc=False):
    """Commits of each partition between two rebalance records of a group, as columns.

    Attributes:
        marks: log offset of the first of these records, ascending; -1 if there is none.
        topics: topic of each span.
        partitions: partition of each span.
        counts: number of commits.
        first_ms: time of the first commit.
        last_ms: time of the last commit.
    """

    marks: Sequence[int] = ()
    topics: Sequence[str] = ()
    partitions: Sequence[int] = ()
    counts: Sequence[int] = ()
    first_ms: Sequence[int | None] = ()
    last_ms: Sequence[int | None] = ()


class Commits:
    """The commits of a group in one partition of `__consumer_offsets`.

    Args:
        spans: commits of all its partitions.
        recreations: topics that were deleted and created again.
    """

    def __init__(self, spans: CommitSpans, recreations: Sequence[Recreation] = ()) -> None:
        self._recreations = recreations
        self._spans = spans
        self._last_by = _running(spans.last_ms, max, _later)
        self._first_from = _running(spans.first_ms[::-1], min, _earlier)[::-1]

    def recreations(self, start: int, end: int) -> list[Recreation]:
        """Return the topics that may have been created again between two records.

        Args:
            start: log offset of the first record.
            end: log offset of the second record.
        """
        return [
            each
            for each in self._recreations
            if min(each.last_offset, each.first_offset) <= end and each.first_offset >= start
        ]

    def gap_ms(self, mark: int) -> int | None:
        """Return the time without commits around a record.

        Args:
            mark: log offset of the record.
        """
        marks = self._spans.marks
        index = bisect_left(marks, mark)
        if index == 0 or index == len(marks):
            return None
        before, behind = self._last_by[index - 1], self._first_from[index]
        return None if before is None or behind is None else max(0, behind - before)

    def between(self, start: int, end: int, partitions: Collection[TopicPartition]) -> CommitPace:
        """Return the last commits between two records, and the rate of commits.

        Args:
            start: log offset of the first record.
            end: log offset of the second record.
            partitions: the partitions in question, by topic and number.
        """
        spans = self._spans
        often: int | None = None
        own_ms, others_ms = list[int](), list[int]()
        for at in range(bisect_left(spans.marks, start), bisect_left(spans.marks, end)):
            last_ms = spans.last_ms[at]
            if last_ms is None:
                continue
            if (spans.topics[at], spans.partitions[at]) in partitions:
                own_ms.append(last_ms)
                often = at if often is None or spans.counts[at] > spans.counts[often] else often
            else:
                others_ms.append(last_ms)
        pace_ms = None
        if often is not None and (count := spans.counts[often]) > 2:
            first_ms, last_ms = spans.first_ms[often], spans.last_ms[often]
            if first_ms is not None and last_ms is not None:
                pace_ms = (last_ms - first_ms) // (count - 1)
        return CommitPace(max(own_ms, default=None), pace_ms, max(others_ms, default=None))


def _running(
    times: Sequence[int | None],
    known: Callable[[int, int], int],
    any_of: Callable[[int | None, int | None], int | None],
) -> Sequence[int | None]:
    """Return the result of a function up to each time; `known` is quicker without unknown ones."""
    function: Callable[[Any, Any], Any] = any_of if None in times else known
    return list(accumulate(times, function))


def _later(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def _earlier(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)


EPOCH_SESSION_MS = 45_000
"""Default session timeout of consumer, share and streams groups
(`group.consumer.session.timeout.ms`); the log does not have the actual value.
"""

EPOCH_HEARTBEAT_MS = 15_000
"""Default of the longest heartbeat interval of these groups
(`group.consumer.max.heartbeat.interval.ms`). Only heartbeats keep their members, so the last commit
may come that much later than the last heartbeat; members with the classic protocol are kept by
commits too.
"""

_MOST_REJOIN_MS = 5000
"""Maximum time for the other members to rejoin: a heartbeat interval (3 s by default) and a
margin.
"""

REPEATEDLY = 3
"""Number of times that a static member is replaced within a time, from which it is odd."""
_FIGHT_MS = 30_000
"""Time in which two processes replace each other so often; processes restart more slowly."""

_Process = tuple[str | None, str | None]
"""Client id and host."""

_CERTAIN, _INFERRED = CauseCertainty.CERTAIN, CauseCertainty.INFERRED


@value_class
class LateLeave(Struct, frozen=True, gc=False):
    """How a member left after its rebalance timeout had passed since its assignment.

    Attributes:
        alive_ms: time until the group went on without the member: from its assignment; in a group
            with epochs, from its last sign of life.
        timeout_ms: rebalance timeout; for a consumer, `max.poll.interval.ms`.
        doubt: what explains the time as well; None if nothing does.
    """

    alive_ms: int
    timeout_ms: int
    doubt: str | None


@value_class
class Gone(Struct, frozen=True, gc=False):
    """A member that left.

    Attributes:
        since_ms: since when; None if unknown.
        log_offset: offset of the record of the rebalance that removed the member.
        cause: cause of that rebalance as long as the member has not returned; None if the group was
            deleted with the member.
        late: how it left, if its rebalance timeout had passed since its assignment.
    """

    who: Participant
    since_ms: int | None
    log_offset: int = -1
    cause: Cause | None = None
    late: LateLeave | None = None


class Departed:
    """Members that left, to recognize those that return.

    Attributes:
        explained: causes of earlier rebalances that are known since their members returned, by log
            offset.
    """

    def __init__(self) -> None:
        self._gone: dict[tuple[str, str], list[Gone]] = {}
        self._were_late: set[_Process] = set()
        self._newcomers: dict[_Process, list[tuple[Participant, int]]] = {}
        self._handed_over: dict[str, list[int | None]] = {}
        self.explained: dict[int, list[Cause]] = {}

    def add(self, gone: Gone, *, is_back: bool = False) -> None:
        """Add a member that left, unless it is back already."""
        if not is_back and (identity := _identity(gone.who)) is not None:
            self._gone.setdefault(identity, []).append(gone)
        if gone.late is not None:
            self._were_late.add(_process(gone.who))

    def explain(self, gone: Gone, cause: Cause) -> None:
        """Correct the cause of the rebalance that removed a member."""
        self.explained.setdefault(gone.log_offset, []).append(cause)

    def welcome(self, who: Participant, time_ms: int | None) -> None:
        """Add a member that joined a group with epochs, perhaps before its earlier self expired."""
        if time_ms is not None and who.client_id:
            self._newcomers.setdefault(_process(who), []).append((who, time_ms))

    def follower(self, old: MemberVersion, here: Collection[str]) -> Participant | None:
        """Return and forget the member that took the place of one that gave no sign since.

        Args:
            old: the member that is gone.
            here: ids of the members that are left.
        """
        newcomers = self._newcomers.get(_process(old.who), [])
        newcomers[:] = [each for each in newcomers if each[0].member_id in here]
        for index, (who, joined_ms) in enumerate(newcomers):
            is_other = who.member_id != old.who.member_id
            is_alike = who.instance_id == old.who.instance_id
            if is_other and is_alike and joined_ms > (old.seen_ms or joined_ms):
                return newcomers.pop(index)[0]
        return None

    def hand_over(self, instance_id: str, time_ms: int | None) -> int:
        """Record that a static member was replaced; return how often it was shortly before."""
        times = self._handed_over.setdefault(instance_id, [])
        times.append(time_ms)
        return sum((elapsed_ms(since_ms, time_ms) or 0) <= _FIGHT_MS for since_ms in times)

    def was_late(self, who: Participant) -> bool:
        """Return whether a member with this client id and host left late before."""
        return _process(who) in self._were_late

    def take(self, who: Participant, *, is_only: bool) -> Gone | None:
        """Return and forget the earlier member that came back as this one.

        Args:
            who: the new member.
            is_only: whether no other member has the same client id; then the host may differ.
        """
        identity = _identity(who)
        gone = self._gone.get(identity, []) if identity is not None else []
        for index in range(len(gone) - 1, -1, -1):
            is_same_host = who.client_host == gone[index].who.client_host
            if who.instance_id is not None or is_only or is_same_host:
                return gone.pop(index)
        return None


def _process(who: Participant) -> _Process:
    return who.client_id, who.client_host


def _identity(who: Participant) -> tuple[str, str] | None:
    """Return what identifies a member under a new id: its instance id, or else its client id.

    None if nothing does.
    """
    if who.instance_id is not None:
        return "instance", who.instance_id
    return ("client", who.client_id) if who.client_id else None


def elapsed_ms(since_ms: int | None, until_ms: int | None) -> int | None:
    """Return the time elapsed; None if a time is unknown, or the clock went backward."""
    if since_ms is None or until_ms is None or until_ms < since_ms:
        return None
    return until_ms - since_ms


def causes_of(
    before: GroupVersion, after: GroupVersion, departed: Departed, commits: Commits
) -> tuple[Cause, ...]:
    """Return the causes of a rebalance.

    Args:
        before: the group after the previous rebalance.
        after: the group after this rebalance.
        departed: members that left earlier; updated.
        commits: commits of the group.

    Returns:
        Causes, those of members first; empty if the log shows none.
    """
    came = [after.members[name] for name in after.members if name not in before.members]
    went = [before.members[name] for name in before.members if name not in after.members]
    causes = [
        *_came_and_went(before, after, came, went, departed, commits),
        *_subscriptions(before, after),
    ]
    if before.protocol and after.protocol and before.protocol != after.protocol:
        voters = [f"{member_name(member.who)} joined" for member in came]
        voters += [f"{member_name(member.who)} left" for member in went]
        reason = f" when {first_names(voters)}" if voters else ""
        causes.append(
            Cause(
                CauseKind.STRATEGY_CHANGED,
                _INFERRED if causes else _CERTAIN,
                f"the strategy changed from {before.protocol} to {after.protocol}{reason}",
            )
        )
    old, new = before.leader_epoch, after.leader_epoch
    if old is not None and new is not None and old < new:
        causes.append(
            Cause(
                CauseKind.COORDINATOR_MOVED,
                _INFERRED,
                f"the leader epoch of the group's partition of __consumer_offsets grew from {old} "
                f"to {new}",
            )
        )
    missing = 0
    if before.generation is not None and after.generation is not None:
        missing = after.generation - before.generation - 1
    if missing > 0:
        return tuple(replace(cause, certainty=_INFERRED) for cause in causes)
    return tuple(causes)


def _came_and_went(
    before: GroupVersion,
    after: GroupVersion,
    came: Sequence[MemberVersion],
    went: Sequence[MemberVersion],
    departed: Departed,
    commits: Commits,
) -> Iterator[Cause]:
    names = Counter(member.who.client_id for member in after.members.values())
    restarts, joins = list[Cause](), list[Cause]()
    gone_by_id = {
        old.who.member_id: _departure(old, before, after, departed, commits) for old in went
    }
    now = Departed()
    for gone_now in gone_by_id.values():
        now.add(gone_now)
    back, replaced = set[str](), set[str]()
    for new in came:
        who, is_only = new.who, names[new.who.client_id] == 1
        gone = now.take(who, is_only=is_only)
        is_replacement = gone is not None
        gone = gone or departed.take(who, is_only=is_only)
        if gone is None:
            joins.append(
                about(who, CauseKind.JOINED, _CERTAIN, f"member {member_name(who)} joined")
            )
            if not after.is_classic:
                departed.welcome(who, after.time_ms)
            continue
        back.add(gone.who.member_id)
        away_ms = None if is_replacement else elapsed_ms(gone.since_ms, after.time_ms)
        away = "" if away_ms is None else f" {away_ms / 1000:.1f} s"
        late = gone.late
        if who.member_id == gone.who.member_id and gone.cause is not None:
            departed.explain(gone, _of_running_process(gone, gone.cause, away))
            joins.append(about(who, CauseKind.JOINED, _CERTAIN, _same_id(who, away)))
        elif late is None or not after.is_classic or who.client_host != gone.who.client_host:
            how = "replaced" if is_replacement else f"returned{away} after it left as"
            restart = _restart(who, gone.who, how)
            if is_replacement and who.instance_id is not None:
                count = departed.hand_over(who.instance_id, after.time_ms)
                restart = restart if count < REPEATEDLY else _used_twice(restart, count)
            restarts.append(restart)
            replaced.add(gone.who.member_id)
        elif late.doubt or (
            is_replacement and _may_have_crashed_first(gone.who, late, before, after, commits)
        ):
            doubt = late.doubt or "crashed"
            joins.append(
                about(who, CauseKind.JOINED, _CERTAIN, _one_of_both(who, gone.who, late, doubt))
            )
        else:
            how = f"returned{away} after {gone.who.member_id} polled too late"
            if is_replacement:
                how = f"replaced {gone.who.member_id}, which polled too late"
                replaced.add(gone.who.member_id)
            else:
                ending = f", and returned as {who.member_id}{away} later"
                departed.explain(gone, _polled_late(gone, late, ending))
            restarts.append(_late_return(who, gone.who, late, how))
    yield from restarts
    yield from joins
    for name, gone_now in gone_by_id.items():
        follower = None
        if not after.is_classic and name not in back:
            follower = departed.follower(before.members[name], after.members)
        departed.add(gone_now, is_back=name in back or follower is not None)
        if follower is not None:
            yield _restart(follower, gone_now.who, "had joined before the group lost")
        elif name not in replaced and gone_now.cause is not None:
            yield gone_now.cause


def _late_leave(
    old: MemberVersion, before: GroupVersion, after: GroupVersion, departed: Departed, life: _Life
) -> LateLeave | None:
    """Return how a member left if its rebalance timeout had passed since its assignment.

    A consumer that does not poll within `max.poll.interval.ms` leaves, and joins again under
    another id when it polls next. That is not a restart, and static membership does not prevent it
    (static members do not leave; the coordinator removes them later). The others take up to a
    heartbeat interval to rejoin.
    """
    timeout_ms, session_ms = old.rebalance_timeout_ms, old.session_timeout_ms
    if not before.is_classic:  # who commits polls
        if not timeout_ms or life.silent_ms is None or life.silent_ms < timeout_ms:
            return None
        return LateLeave(life.silent_ms, timeout_ms, doubt=None)
    alive_ms = elapsed_ms(before.time_ms, life.end_ms)
    if not timeout_ms or alive_ms is None:
        return None
    is_next = before.generation is None or after.generation == before.generation + 1
    margin_ms = min(timeout_ms // 3, _MOST_REJOIN_MS)
    if old.who.instance_id is not None or not is_next:
        return None
    if not timeout_ms <= alive_ms <= timeout_ms + margin_ms:
        return None
    silent_ms = elapsed_ms(life.own.last_ms or before.time_ms, life.end_ms) or 0
    doubt = None
    if not session_ms or 0 <= silent_ms - session_ms <= margin_ms:
        doubt = "crashed"  # at its last sign of life
    elif silent_ms < timeout_ms // 2 and not departed.was_late(old.who):
        doubt = "was restarted"  # who commits may well poll; once it may be chance
    return LateLeave(alive_ms, timeout_ms, doubt)


def _may_have_crashed_first(
    old: Participant, late: LateLeave, before: GroupVersion, after: GroupVersion, commits: Commits
) -> bool:
    """Return whether a member that was replaced may have crashed right after its assignment.

    If it restarted at once, the group waited for the old member to rejoin until its rebalance
    timeout expired. The others do not commit then; they do if the group waited for nobody.
    """
    member = before.members[old.member_id]
    if before.time_ms is None or (member.session_timeout_ms or 0) <= late.timeout_ms:
        return False  # the session timeout would have expired first
    owned = {(task.topic, task.partition) for task in member.owned or () if task.topic is not None}
    last_ms = commits.between(before.log_offset, after.log_offset, owned).others_last_ms
    return last_ms is None or last_ms < before.time_ms + late.timeout_ms


def _polled_late(gone: Gone, late: LateLeave, ending: str) -> Cause:
    assert gone.cause is not None
    who = f"member {member_name(gone.who)} at {gone.who.client_host}"
    return replace(
        gone.cause,
        kind=CauseKind.POLLED_LATE,
        certainty=_INFERRED,
        evidence=f"{who} polled too late: {_expiry(late)}{ending}",
        timeout_ms=late.timeout_ms,
    )


def _same_id(who: Participant, away: str) -> str:
    return f"member {member_name(who)} returned{away} after it left, under the same member id"


def _of_running_process(gone: Gone, cause: Cause, away: str) -> Cause:
    """Return why a member left that returned under its own id, which its process made up.

    So it was not restarted (KIP-848, KIP-1082).
    """
    process = f"it returned{away} later under the same member id, so its process was not restarted"
    if (late := gone.late) is not None:
        evidence = (
            f"polled too late, or its session expired: it left {late.alive_ms / 1000:.1f} s after "
            f"its last sign of life, when its rebalance timeout (max.poll.interval.ms) of "
            f"{late.timeout_ms} ms had passed, and {process}"
        )
        cause = replace(cause, kind=CauseKind.POLLED_LATE, timeout_ms=late.timeout_ms)
    else:
        evidence = f"expired, or unsubscribed for a time: {process}"
        cause = replace(cause, kind=CauseKind.EXPIRED)
    evidence = f"member {member_name(gone.who)} at {gone.who.client_host} {evidence}"
    return replace(cause, certainty=_INFERRED, evidence=evidence)


def _late_return(who: Participant, old: Participant, late: LateLeave, how: str) -> Cause:
    return about(
        who,
        CauseKind.POLLED_LATE,
        _INFERRED,
        f"member {member_name(who)} {how}: {_expiry(late)}; same client id {who.client_id} and "
        f"host {who.client_host}",
        before_member_id=old.member_id,
        timeout_ms=late.timeout_ms,
    )


def _expiry(late: LateLeave) -> str:
    return (
        f"it left {late.alive_ms / 1000:.1f} s after its assignment, when its rebalance timeout "
        f"(max.poll.interval.ms) of {late.timeout_ms} ms had passed"
    )


def _one_of_both(who: Participant, old: Participant, late: LateLeave, doubt: str) -> str:
    return (
        f"member {member_name(who)} joined, with the client id and host of {old.member_id}, which "
        f"either polled too late (its rebalance timeout is {late.timeout_ms} ms) or {doubt}"
    )


def _restart(who: Participant, old: Participant, how: str) -> Cause:
    certain = who.instance_id is not None and who.instance_id == old.instance_id
    same = f"instance id {who.instance_id}" if certain else f"client id {who.client_id}"
    host = f" and host {who.client_host}" if who.client_host == old.client_host else ""
    return about(
        who,
        CauseKind.RESTARTED,
        _CERTAIN if certain else _INFERRED,
        f"member {member_name(who)} {how} {old.member_id}: same {same}{'' if certain else host}",
        before_member_id=old.member_id,
    )


def _used_twice(restart: Cause, count: int) -> Cause:
    return replace(
        restart,
        kind=CauseKind.INSTANCE_ID_USED_TWICE,
        certainty=_INFERRED,
        evidence=f"{restart.evidence}, which was taken over {count} times within "
        f"{_FIGHT_MS // 1000} s: two processes use it",
    )


@value_class
class _Life(Struct, frozen=True, gc=False):
    """Signs of life of a member that left, and its timeouts.

    Attributes:
        timeout_ms: time without a sign of life after which the member expires.
        limit: how certain that time is, in words.
        end_ms: when the group went on without the member; None if unknown.
        joined_ms: when the member had certainly joined, for a classic group.
        seen_ms: time of its last sign of life.
        silent_ms: time from then to `end_ms`.
        unheard_ms: how much longer the coordinator may not have heard of the member.
        own: commits of its partitions.
        working_ms: until when the others certainly worked and did not wait for the member to
            rejoin.
    """

    timeout_ms: int
    limit: str
    end_ms: int | None
    joined_ms: int | None
    seen_ms: int | None
    silent_ms: int | None
    unheard_ms: int
    own: CommitPace
    working_ms: int | None


def _life_of(
    old: MemberVersion, before: GroupVersion, after: GroupVersion, commits: Commits
) -> _Life:
    end_ms = after.joined_ms or after.time_ms
    timeout_ms, limit = old.timeout_ms, "its timeout is"
    if timeout_ms is None:
        timeout_ms = min(EPOCH_SESSION_MS, old.rebalance_timeout_ms or EPOCH_SESSION_MS)
        limit = "the default timeout is"
    joined_ms = before.joined_ms if before.is_classic else None
    owned = {(task.topic, task.partition) for task in old.owned or () if task.topic is not None}
    own = commits.between(before.log_offset, after.log_offset, owned)
    sign_ms = (joined_ms or before.time_ms) if old.seen_ms is None else old.seen_ms
    seen_ms = max((each for each in (sign_ms, own.last_ms) if each is not None), default=None)
    return _Life(
        timeout_ms=timeout_ms,
        limit=limit,
        end_ms=end_ms,
        joined_ms=joined_ms,
        seen_ms=seen_ms,
        silent_ms=None if seen_ms is None or end_ms is None else max(0, end_ms - seen_ms),
        unheard_ms=EPOCH_HEARTBEAT_MS if old.timeout_ms is None else 0,
        own=own,
        # Others may have taken long to join, so only silence while they worked counts.
        working_ms=own.others_last_ms if after.members else end_ms,
    )


def _departure(
    old: MemberVersion,
    before: GroupVersion,
    after: GroupVersion,
    departed: Departed,
    commits: Commits,
) -> Gone:
    """Return how a member left, according to its signs of life and its timeouts."""
    life = _life_of(old, before, after, commits)
    kind, certainty, evidence = _how_it_went(old, life)
    late = _late_leave(old, before, after, departed, life)
    if late is not None and before.is_classic:
        evidence += (
            f"; or it polled too late: its rebalance timeout (max.poll.interval.ms) of "
            f"{late.timeout_ms} ms had passed since its assignment"
        )
    cause = about(
        old.who,
        kind,
        certainty,
        evidence,
        last_seen_ms=life.seen_ms,
        silent_ms=life.silent_ms,
        timeout_ms=life.timeout_ms,
    )
    return Gone(old.who, after.time_ms, after.log_offset, cause, late)


def _how_it_went(old: MemberVersion, life: _Life) -> tuple[CauseKind, CauseCertainty, str]:
    name, timeout_ms, limit, own = member_name(old.who), life.timeout_ms, life.limit, life.own
    if old.is_away:
        away = "left temporarily (epoch -2) and did not return in time"
        return CauseKind.EXPIRED, _INFERRED, f"static member {name} {away}"
    if life.end_ms is None:
        return CauseKind.GONE, _INFERRED, f"member {name} left or expired"
    if life.joined_ms is not None:
        alive_ms = life.end_ms - life.joined_ms
        if 0 <= alive_ms < timeout_ms:
            return (
                CauseKind.LEFT,
                _CERTAIN,
                f"member {name} left: it had joined {alive_ms} ms earlier and cannot expire in "
                f"less than {timeout_ms} ms",
            )
    if life.silent_ms is not None and life.silent_ms + life.unheard_ms < timeout_ms:
        return (
            CauseKind.LEFT,
            _INFERRED,
            f"member {name} left: its last sign of life was {life.silent_ms} ms before the "
            f"rebalance; {limit} {timeout_ms} ms",
        )
    if own.last_ms is not None and life.working_ms is not None and own.pace_ms is not None:
        silence_ms = life.working_ms - own.last_ms
        if silence_ms >= timeout_ms and own.pace_ms * 3 <= timeout_ms:
            return (
                CauseKind.EXPIRED,
                _INFERRED,
                f"member {name} expired: its partitions were committed every {own.pace_ms} ms, "
                f"then not for {silence_ms} ms; {limit} {timeout_ms} ms",
            )
    if old.who.instance_id is not None:
        still = "static members do not leave when they are closed"
        return CauseKind.EXPIRED, _INFERRED, f"static member {name} expired: {still}"
    unseen_ms = timeout_ms - life.unheard_ms
    unseen = f": no sign of life in the last {unseen_ms} ms" if unseen_ms > 0 else ""
    return CauseKind.GONE, _INFERRED, f"member {name} left or expired{unseen}"


def _subscriptions(before: GroupVersion, after: GroupVersion) -> Iterator[Cause]:
    for name, new in after.members.items():
        old = before.members.get(name)
        if old is None or old.topics is None or new.topics is None:
            continue
        if (old.topics, old.regex) != (new.topics, new.regex):
            yield about(
                new.who,
                CauseKind.SUBSCRIPTION_CHANGED,
                _CERTAIN,
                f"member {member_name(new.who)} changed its subscription from {_topics(old)} to "
                f"{_topics(new)}",
            )
    if before.topology is not None and after.topology not in (None, before.topology):
        yield Cause(
            CauseKind.SUBSCRIPTION_CHANGED,
            _CERTAIN,
            f"the topology epoch of the group changed from {before.topology} to {after.topology}",
        )


def _topics(member: MemberVersion) -> str:
    texts = sorted(member.topics or ())
    if member.regex:
        texts.append(f"/{member.regex}/")
    return ", ".join(texts) or "nothing"


def member_name(who: Participant) -> str:
    """Return the name of a member for people."""
    if who.instance_id is not None:
        return f"{who.member_id} (instance {who.instance_id})"
    if who.client_id and who.client_id not in who.member_id:
        return f"{who.member_id} (client {who.client_id})"
    return who.member_id


def about(
    who: Participant, kind: CauseKind, certainty: CauseCertainty, evidence: str, **more: Any
) -> Cause:
    """Return a cause that concerns a member."""
    identity = who.member_id, who.instance_id, who.client_id, who.client_host
    return Cause(kind, certainty, evidence, *identity, **more)
