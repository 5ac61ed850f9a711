"""Rule for the size of a classic group's record, which brokers limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgroup.model.group import Group, GroupState
from kgroup.operation.check.look import Evidence, finding_of
from kgroup.operation.check.rule import Finding, Rule, Severity
from kgroup.operation.record_limit import (
    SMALL_RECORD,
    codec_name,
    compared_size,
    is_worth_a_warning,
)
from kgroup.protocol.record.group_record import group_record_size

_MEMBER_SIZE = 1000
"""Bytes that a member takes at most, usually, without metadata and assignment: ids and host."""


def record_bytes(group: Group) -> int | None:
    """Return the size of the group's next record; None if it is unknown, or surely small.

    During a rebalance it is computed from the last record, if all current members stay and are like
    the previous ones: the coordinator does not return the metadata of members that are joining.
    """
    before = group.last_stable
    if before is not None:
        if before.record_bytes is None or not before.members:
            return None
        return before.record_bytes * len(group.members) // len(before.members)
    sent = sum((each.metadata_bytes or 0) + (each.assignment_bytes or 0) for each in group.members)
    if sent + _MEMBER_SIZE * len(group.members) <= SMALL_RECORD:
        return None
    size = group_record_size(group)
    return None if size is None else size.total


def codec_of(group: Group, codecs: Mapping[int, str]) -> str | None:
    """Return how the coordinator compresses its records, one of `CODECS`; None if unknown.

    Args:
        group: the group.
        codecs: `offsets.topic.compression.codec` by broker id.
    """
    return codec_name(codecs.get(group.coordinator.id)) if group.coordinator else None


def check_group_record(group: Group, evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding if the group's record has at least half the size of the limit."""
    limit = evidence.record_limit
    size = None if limit is None else record_bytes(group)
    if size is None or limit is None or not is_worth_a_warning(size, limit):
        return
    codec = codec_of(group, evidence.record_codecs)
    if codec not in (None, "none"):  # the size after compression is unknown
        return
    compared = compared_size(size, limit)
    count = len(group.members)
    before = group.last_stable
    # While members join, some of those that are counted may be gone.
    is_final = before is None or group.state is GroupState.COMPLETING_REBALANCE
    sizes = group_record_size(group)
    if sizes is not None:
        largest, part = max((sizes.metadata, "subscriptions"), (sizes.assignments, "assignments"))
        reason = (
            f"The record of the group has {size:,} bytes, {compared}; {largest:,} of them are the "
            f"{part} of {count} member{'' if count == 1 else 's'}."
        )
    else:
        assert before is not None
        reason = (
            f"The last record of the group, with {len(before.members)} members, has "
            f"{before.record_bytes:,} bytes; with the {count} current members it would have about "
            f"{size:,}, {compared}."
        )
    is_too_large = size > limit and codec is not None and is_final
    if is_too_large:
        reason += f" The {'next' if before is None else 'current'} rebalance cannot complete."
    elif codec is None:
        reason += " It may be smaller: whether brokers compress it is unknown."
    yield finding_of(
        Rule.LARGE_GROUP_RECORD,
        reason,
        group.group_id,
        severity=Severity.ERROR if is_too_large else None,
        record_bytes=size,
        record_limit_bytes=limit,
    )
