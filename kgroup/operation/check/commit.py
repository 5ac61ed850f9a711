"""Rules for committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kgroup.model.clients import Clients
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.log_range import GONE, OffsetMark
from kgroup.operation.check.look import Evidence, about_offset, ago, finding_of, length
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.operation.describe import (
    GroupDescription,
    OffsetDescription,
    ShareOffsetDescription,
    records_waiting,
)
from kgroup.operation.report import first_names

_OUT_OF_RANGE: Mapping[OffsetMark | None, Rule] = {
    OffsetMark.PAST_END: Rule.PAST_END,
    OffsetMark.BEFORE_START: Rule.BEFORE_START,
}
_EXPIRING = (GroupType.CLASSIC, GroupType.CONSUMER, GroupType.STREAMS)


def check_commits(description: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about the committed offsets of a group, partition by partition."""
    group = description.group
    clients = Clients(group)
    earlier = evidence.before and evidence.before.groups.get(group.group_id)
    before = {(row.topic, row.partition): row for row in earlier.offsets} if earlier else {}
    for offset in description.offsets:
        if offset.committed_offset is None:
            continue
        if offset.mark in GONE:
            yield _gone(group, offset)
            continue
        yield from _range(group, offset)
        yield from _diverged(group, offset, evidence)
        at = (offset.topic or "", offset.partition)
        earlier_offset = before.get(at)
        if earlier_offset is not None:
            yield from _backward(group, offset, earlier_offset, evidence)
        opened = tuple(_open(group, offset, evidence))
        yield from opened
        if opened and offset.committed_offset == evidence.now.stable_ends[at]:
            continue  # a read-committed consumer waits for the end of the transaction
        if earlier_offset is not None:
            yield from _still(group, clients, offset, earlier_offset, evidence)
        yield from _old(group, clients, offset, evidence)
    yield from _never_committed(description, clients, evidence)
    yield from check_lag(description, evidence)
    yield from _expiry(description, evidence)
    yield from _outside(description)
    yield from _pending(group, evidence)


def _gone(group: Group, offset: OffsetDescription) -> Finding:
    what = "topic" if offset.mark is OffsetMark.TOPIC_GONE else "partition"
    return about_offset(
        Rule.TOPIC_GONE,
        f"{offset.topic}-{offset.partition} has the committed offset "
        f"{offset.committed_offset}, but the {what} does not exist.",
        group,
        offset,
    )


def _range(group: Group, offset: OffsetDescription) -> Iterator[Finding]:
    """Yield a finding about a commit outside the log, with the effect of `auto.offset.reset`."""
    committed = offset.committed_offset
    start, end = offset.log_start_offset, offset.log_end_offset
    code = _OUT_OF_RANGE.get(offset.mark)
    if committed is not None and end is not None and code is not None:
        place = f"{offset.topic}-{offset.partition}"
        text = out_of_range(code, place, committed, start, end, ("earliest", "latest"))
        yield about_offset(code, text, group, offset)


def _diverged(group: Group, offset: OffsetDescription, evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding about a commit beyond the end of its leader epoch (KIP-320).

    Kafka: `SubscriptionState.maybeCompleteValidation`.
    """
    committed, epoch = offset.committed_offset, offset.leader_epoch
    if offset.topic is None or committed is None or epoch is None:
        return
    position = (offset.topic, offset.partition, epoch)
    if position not in evidence.now.epoch_ends:
        return
    end = evidence.now.epoch_ends[position]
    if end is None:
        effect = "the log has no such epoch: a consumer that starts follows auto.offset.reset"
    elif end < committed:
        effect = (
            f"that epoch ends at {end}: a consumer that starts resumes at {end}, "
            f"{committed - end} offsets before its commit"
        )
    else:
        return
    text = (
        f"{offset.topic}-{offset.partition}: the committed offset is {committed}, of leader epoch "
        f"{epoch}, but {effect}."
    )
    yield about_offset(Rule.DIVERGED_COMMIT, text, group, offset)


def out_of_range(
    code: Rule, place: str, committed: int, start: int | None, end: int, resets: tuple[str, str]
) -> str:
    """Return the effect of a commit outside the log on a consumer that starts there.

    Args:
        code: `Rule.PAST_END` or `Rule.BEFORE_START`.
        place: the partition.
        committed: committed offset.
        start: log start offset; None if unknown, as for a copied partition folder.
        end: log end offset.
        resets: the values of `auto.offset.reset` for log start and log end.
    """
    if code is Rule.PAST_END:
        what = f"the log end offset of {place} is {end}"
        first = f"reads all of its {_records(end - (start or 0))} again"
        if start == end:
            return (
                f"The committed offset is {committed}, but {what}, and it has no records. "
                f"With auto.offset.reset={resets[0]} or {resets[1]}, a consumer that starts goes "
                f"to {end} and reads only new records."
            )
        last = "reads only new records"
    else:
        what = f"the log start offset of {place} is {start}"
        first = f"misses {_records((start or 0) - committed)}"
        last = f"skips {end - (start or 0)} more"
    if start is None:
        return (
            f"The committed offset is {committed}, but {what}. A consumer that starts with "
            f"auto.offset.reset={resets[0]} reads the whole log again; with {resets[1]}, "
            f"the default, it goes to {end} and {last}."
        )
    return (
        f"The committed offset is {committed}, but {what}. A consumer that starts with "
        f"auto.offset.reset={resets[0]} goes to {start} and {first}; with {resets[1]}, "
        f"the default, it goes to {end} and {last}."
    )


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _backward(
    group: Group, offset: OffsetDescription, before: OffsetDescription, evidence: Evidence
) -> Iterator[Finding]:
    was, committed = before.committed_offset, offset.committed_offset
    if was is not None and committed is not None and committed < was:
        text = (
            f"{offset.topic}-{offset.partition}: the committed offset went back from {was} "
            f"to {committed} within {_between(evidence)}."
        )
        yield about_offset(Rule.BACKWARD_COMMIT, text, group, offset, Basis.LOOKS)


def _never_committed(
    description: GroupDescription, clients: Clients, evidence: Evidence
) -> Iterator[Finding]:
    """Yield findings about partitions with an owner and records, but without a commit.

    This can be normal: a consumer that started at the log end offset commits only after it has read
    something. Therefore one look yields a single info for all such partitions, if they have been
    owned for some time. It is a finding for each partition whose log has grown between two looks
    that are far enough apart.
    """
    group = description.group
    if group.group_id in evidence.now.unread:
        return
    still = []
    for offset in description.offsets:
        start, end = offset.log_start_offset or 0, offset.log_end_offset
        if offset.committed_offset is not None or offset.member_id is None:
            continue
        if end is None or end <= start:
            continue
        grown = _growth(group, offset, evidence)
        if grown is None:
            still.append(offset)
            continue
        text = (
            f"{offset.topic}-{offset.partition}: nothing is committed, but the log has "
            f"grown by {_records(grown)} within {_between(evidence)}; its owner is "
            f"{clients.label(offset.member_id)}."
        )
        yield about_offset(Rule.NEVER_COMMITTED, text, group, offset, Basis.LOOKS)
    since_ms, now_ms = group.state_timestamp_ms, evidence.now.time_ms
    if still and since_ms is not None and now_ms - since_ms >= evidence.limits.stuck_ms:
        names = first_names([f"{offset.topic}-{offset.partition}" for offset in still])
        text = f"Nothing is committed for {names}, although they have owners and records."
        yield finding_of(Rule.NEVER_COMMITTED, text, group.group_id, severity=Severity.INFO)


def _growth(group: Group, offset: OffsetDescription, evidence: Evidence) -> int | None:
    """Return the records written since the first look; None if none, unknown, or too early."""
    earlier = evidence.before and evidence.before.groups.get(group.group_id)
    if not earlier or _between_ms(evidence) < evidence.limits.stuck_ms:
        return None
    for was in earlier.offsets:
        is_same = (was.topic, was.partition) == (offset.topic, offset.partition)
        is_known = was.member_id is not None and was.log_end_offset is not None
        if is_same and is_known and was.committed_offset is None:
            return ((offset.log_end_offset or 0) - (was.log_end_offset or 0)) or None
    return None


def check_lag(description: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about lag and time lag above their thresholds."""
    most, most_ms = evidence.limits.lag, evidence.limits.time_lag_ms
    rows: list[OffsetDescription | ShareOffsetDescription] = [
        *description.offsets,
        *(description.share_offsets or ()),
    ]
    group_id, waiting = description.group.group_id, description.waiting
    if most is not None and waiting > most:
        text = f"Up to {_records(waiting)} waiting (limit {most:.0f})"
        worst = max(rows, key=records_waiting, default=None)
        if worst is not None:
            text += f", {records_waiting(worst)} of them in {_place(worst, description.group)}"
        yield finding_of(Rule.LAG, f"{text}.", group_id)
    late = max(rows, key=lambda row: row.time_lag_ms or 0, default=None)
    if most_ms is not None and late is not None and (late.time_lag_ms or 0) > most_ms:
        text = (
            f"The next record of {_place(late, description.group)} has been waiting for "
            f"{length(late.time_lag_ms or 0)} (limit {length(most_ms)})."
        )
        yield finding_of(Rule.TIME_LAG, text, group_id, since_ms=late.next_timestamp_ms)


def _place(row: OffsetDescription | ShareOffsetDescription, group: Group) -> str:
    """Return the name of a partition with its owner."""
    owner = (
        f", owned by {Clients(group).label(row.member_id)}"
        if isinstance(row, OffsetDescription) and row.member_id is not None
        else ""
    )
    return f"{row.topic}-{row.partition}{owner}"


def _still(
    group: Group,
    clients: Clients,
    offset: OffsetDescription,
    before: OffsetDescription,
    evidence: Evidence,
) -> Iterator[Finding]:
    """Yield findings about offsets that did not change between two looks far enough apart."""
    if _between_ms(evidence) < evidence.limits.stuck_ms:
        return
    place, since = f"{offset.topic}-{offset.partition}", _between(evidence)
    grew = (offset.log_end_offset or 0) > (before.log_end_offset or 0)
    committed = offset.committed_offset
    is_behind = before.waiting and offset.waiting and grew
    if offset.member_id and before.committed_offset == committed and is_behind:
        text = (
            f"{place}: the committed offset is still {committed} after {since}, but the lag "
            f"has grown from {before.lag} to {offset.lag}; its owner is "
            f"{clients.label(offset.member_id)}."
        )
        yield about_offset(Rule.STUCK_PARTITION, text, group, offset, Basis.LOOKS)


def _open(group: Group, offset: OffsetDescription, evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding about a transaction that is open for long, or in two looks."""
    at, now, before = (offset.topic or "", offset.partition), evidence.now, evidence.before
    stable = now.stable_ends.get(at)
    if stable is None:
        return
    since_ms = now.open_since.get(at)
    what = (
        f"and the log end offset is {offset.log_end_offset}: consumers with "
        "isolation.level=read_committed wait."
    )
    if since_ms is not None and now.time_ms - since_ms > evidence.limits.transaction_ms:
        text = (
            f"{offset.topic}-{offset.partition}: a transaction began {ago(since_ms, now.time_ms)} "
            f"and is still open. The last stable offset is {stable}, {what}"
        )
        finding = about_offset(Rule.OPEN_TRANSACTION, text, group, offset, Basis.LOOK)
        yield replace(finding, since_ms=since_ms)
    elif (
        before is not None
        and before.stable_ends.get(at) == stable
        and _between_ms(evidence) >= evidence.limits.stuck_ms
    ):
        text = (
            f"{offset.topic}-{offset.partition}: the last stable offset is still {stable} after "
            f"{_between(evidence)}, {what}"
        )
        yield about_offset(Rule.OPEN_TRANSACTION, text, group, offset, Basis.LOOKS)


def _between_ms(evidence: Evidence) -> int:
    return evidence.now.time_ms - (evidence.before or evidence.now).time_ms


def _between(evidence: Evidence) -> str:
    return f"{_between_ms(evidence) / 1000:.0f} s"


def _old(
    group: Group, clients: Clients, offset: OffsetDescription, evidence: Evidence
) -> Iterator[Finding]:
    then_ms, now_ms = offset.commit_timestamp_ms, evidence.now.time_ms
    if (
        offset.waiting
        and offset.member_id is not None
        and then_ms is not None
        and now_ms - then_ms > evidence.limits.old_commit_ms
    ):
        text = (
            f"{offset.topic}-{offset.partition}: the last commit was "
            f"{ago(then_ms, now_ms)}, with up to {_records(offset.waiting)} waiting; its "
            f"owner is {clients.label(offset.member_id)}."
        )
        yield about_offset(Rule.OLD_COMMIT, text, group, offset, Basis.LOG)


def _pending(group: Group, evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about this group's pending commits in long open transactions."""
    now_ms = evidence.now.time_ms
    for pending in group.pending_offsets:
        then_ms = pending.commit_timestamp_ms
        if then_ms is not None and now_ms - then_ms > evidence.limits.transaction_ms:
            what = "no offset" if pending.committed_offset is None else pending.committed_offset
            yield finding_of(
                Rule.OPEN_TRANSACTION,
                f"{pending.topic}-{pending.partition}: {what} was committed "
                f"{ago(then_ms, now_ms)} in a transaction of producer {pending.producer_id} that "
                "is still open.",
                group.group_id,
                basis=Basis.LOG,
                topic=pending.topic,
                partition=pending.partition,
                offset=pending.committed_offset,
                since_ms=then_ms,
            )


def needs_retention(groups: Iterable[GroupDescription]) -> bool:
    """Return whether the expiration of commits depends on `offsets.retention.minutes`."""
    return any(
        offset.committed_offset is not None and offset.expire_timestamp_ms is None
        for description in groups
        if _may_expire(description.group)
        for offset in description.offsets
    )


def _may_expire(group: Group) -> bool:
    return group.state is GroupState.EMPTY and group.type in _EXPIRING


def _expiry(description: GroupDescription, evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding if commits of a group without members expire soon.

    The retention starts when the group became empty or, if that is unknown, at each commit.

    Source: `OffsetExpirationConditionImpl`, `ClassicGroup.offsetExpirationCondition` of 4.3.1.
    """
    group = description.group
    if not _may_expire(group):
        return
    now_ms, most_ms = evidence.now.time_ms, evidence.limits.expiring_ms
    ends = []
    for offset in description.offsets:
        if offset.committed_offset is None:
            continue
        end_ms = offset.expire_timestamp_ms
        if end_ms is None and evidence.retention_ms is not None:
            base_ms = group.state_timestamp_ms or offset.commit_timestamp_ms
            end_ms = None if base_ms is None else base_ms + evidence.retention_ms
        if end_ms is not None and end_ms - now_ms < most_ms:
            ends.append((end_ms, offset))
    if not ends:
        return
    first_ms, _ = min(ends, key=lambda end: end[0])
    hours = max(0, first_ms - now_ms) / 3_600_000
    yield finding_of(
        Rule.EXPIRING_OFFSET,
        f"{len(ends)} committed offset{'' if len(ends) == 1 else 's'} of the group will "
        "expire, the " + ("first at any moment." if not hours else f"first in {hours:.1f} hours."),
        group.group_id,
        basis=Basis.LOG,
        since_ms=group.state_timestamp_ms,
    )


def _outside(description: GroupDescription) -> Iterator[Finding]:
    """Yield findings about commits after the last rebalance for topics without subscribers."""
    group = description.group
    if group.state is not GroupState.STABLE or group.state_timestamp_ms is None:
        return
    if any(
        member.subscription is None or member.subscription.topics is None
        for member in group.members
    ):
        return
    subscribed = {topic for member in group.members for topic in member.subscribed_topics}
    for offset in description.offsets:
        then_ms = offset.commit_timestamp_ms
        if then_ms is None or offset.committed_offset is None or offset.member_id is not None:
            continue
        if offset.topic not in subscribed and then_ms > group.state_timestamp_ms:
            text = (
                f"{offset.topic}-{offset.partition}: {offset.committed_offset} was committed "
                "after the last rebalance, but no member subscribes to the topic."
            )
            yield about_offset(Rule.OUTSIDE_COMMIT, text, group, offset, Basis.LOG)
