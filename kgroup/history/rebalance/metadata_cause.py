"""Causes of a classic group's rebalance in what its members state, and what assignments schedule.

Kafka Streams schedules rebalances by an assignment's `nextRebalanceMs` (KIP-441), Kafka Connect by
its `delay`, while the tasks of a lost worker wait for its return (KIP-415). Workers of Connect also
rejoin after they have stopped what an assignment revokes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from kgroup.history.rebalance.cause import about, member_name
from kgroup.history.rebalance.group_version import GroupVersion, MemberVersion
from kgroup.history.rebalance.member_metadata import OPAQUE, MemberMetadata
from kgroup.history.rebalance.rebalance import Cause, CauseCertainty, CauseKind, Participant
from kgroup.model.instant import rfc3339
from kgroup.operation.report import first_names

_SOON_MS = 10_000
"""Maximum time from when a member has to rejoin until all have, if nothing holds them up."""
_SKEW_MS = 5000
"""How far the clock of a Streams instance may be ahead of the coordinator's."""
_CERTAIN, _INFERRED = CauseCertainty.CERTAIN, CauseCertainty.INFERRED
_Both = tuple[Participant, MemberMetadata, MemberMetadata]


def metadata_causes(
    before: GroupVersion, after: GroupVersion, known: Sequence[Cause]
) -> tuple[Cause, ...]:
    """Return the causes of a rebalance in the metadata of members that stayed.

    Args:
        before: the group after the previous rebalance.
        after: the group after this rebalance.
        known: causes that are known otherwise.

    Returns:
        Causes; those that the previous assignment led to are first.
    """
    stayed = [
        (member.who, old.metadata, member.metadata)
        for name, member in after.members.items()
        if (old := before.members.get(name)) and old.metadata and member.metadata
    ]
    others = {cause.kind for cause in known} - {CauseKind.COORDINATOR_MOVED}
    causes = [*_scheduled(before, after, stayed, is_alone=others <= {CauseKind.FOLLOW_UP})]
    causes += _revoked(before, stayed)
    is_alone = not others and not causes
    causes += _config_offset(stayed, is_alone=is_alone)
    if is_alone and before.protocol == after.protocol:
        causes += _user_data(stayed)
    if before.generation is None or after.generation != before.generation + 1:
        return tuple(replace(cause, certainty=_INFERRED) for cause in causes)
    return tuple(causes)


def _scheduled(
    before: GroupVersion, after: GroupVersion, stayed: Collection[_Both], *, is_alone: bool
) -> Iterator[Cause]:
    rejoins = [(old.rejoin_ms, who) for who, old, _ in stayed if old.rejoin_ms is not None]
    delay_ms = max((old.delay_ms for _, old, _ in stayed), default=0)
    joined_ms = after.joined_ms or after.time_ms
    if joined_ms is None or before.time_ms is None or not (rejoins or delay_ms):
        return
    if rejoins:
        due_ms, who = min(rejoins, key=lambda each: each[0])
        if due_ms:
            when = f"{rfc3339(due_ms)} (nextRebalanceMs {due_ms})"
            how = f"scheduled a rebalance by {member_name(who)} for {when}"
        else:
            due_ms = before.time_ms
            how = f"had {member_name(who)} rejoin at once (nextRebalanceMs 0)"
    else:
        due_ms = before.time_ms + delay_ms
        how = f"left what lost workers ran unassigned for {delay_ms} ms (delay)"
        running = frozenset[str]().union(*(new.running for _, _, new in stayed))
        idle = frozenset[str]().union(*_assigned(after.members.values())) - running
        if idle:
            how += f"; meanwhile these did not run: {first_names(sorted(idle))}"
    late_ms = joined_ms - due_ms
    if late_ms < 0 and not (is_alone and rejoins and late_ms >= -_SKEW_MS):
        return
    yield Cause(
        CauseKind.SCHEDULED,
        _CERTAIN if is_alone and 0 <= late_ms <= _SOON_MS else _INFERRED,
        f"the assignment of generation {before.generation} {how}; all members had rejoined "
        f"{(joined_ms - before.time_ms) / 1000:.1f} s after that assignment",
    )


def _assigned(members: Collection[MemberVersion]) -> Iterator[frozenset[str]]:
    return (member.metadata.assigned for member in members if member.metadata)


def _revoked(before: GroupVersion, stayed: Collection[_Both]) -> Iterator[Cause]:
    revoked = frozenset[str]().union(*(old.revoked for _, old, _ in stayed))
    if revoked:
        yield Cause(
            CauseKind.FOLLOW_UP,
            _INFERRED,
            f"generation {before.generation} revoked connectors and tasks, whose workers then "
            f"rejoin: {first_names(sorted(revoked))}",
        )


def _config_offset(stayed: Collection[_Both], *, is_alone: bool) -> Iterator[Cause]:
    changed = [
        (who, old, new)
        for who, old, new in stayed
        if None not in (old.config_offset, new.config_offset)
        and old.config_offset != new.config_offset
    ]
    if not changed:
        return
    # A worker also reads the config topic as far as an assignment needs.
    is_new = any(new.config_offset != old.assigned_config_offset for _, old, new in changed)
    certainty = _CERTAIN if is_alone and is_new else _INFERRED
    names = first_names([who.client_id or who.member_id for who, _, _ in changed])
    start = min(old.config_offset or 0 for _, old, _ in changed)
    end = max(new.config_offset or 0 for _, _, new in changed)
    evidence = f"the config offset of {names} changed from {start} to {end}"
    if certainty is _CERTAIN:  # otherwise perhaps only the key of the workers' requests
        evidence += ": connectors or their tasks were created, changed or deleted"
    if len(changed) == 1:
        yield about(changed[0][0], CauseKind.METADATA_CHANGED, certainty, evidence)
    else:
        yield Cause(CauseKind.METADATA_CHANGED, certainty, evidence)


def _user_data(stayed: Collection[_Both]) -> Iterator[Cause]:
    changed = [(who, old, new) for who, old, new in stayed if old.stated != new.stated]
    if len(changed) == len(stayed) > 1 and any(OPAQUE in new.stated for _, _, new in changed):
        return  # it may well change whenever a member rejoins
    for who, old, new in changed:
        yield about(
            who,
            CauseKind.METADATA_CHANGED,
            _INFERRED,
            f"member {member_name(who)} changed its metadata: {_changes(old, new)}",
        )


def _changes(old: MemberMetadata, new: MemberMetadata) -> str:
    fields = [
        name
        for name in dict.fromkeys([*old.stated, *new.stated])
        if old.stated.get(name) != new.stated.get(name)
    ]
    return ", ".join(
        name if name == OPAQUE else f"{name} from {_shown(old, name)} to {_shown(new, name)}"
        for name in fields
    )


def _shown(metadata: MemberMetadata, name: str) -> Any:
    return metadata.stated.get(name, "nothing")
