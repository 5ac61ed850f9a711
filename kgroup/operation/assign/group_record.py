"""Size of the record that the coordinator would write after a dry run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kgroup.assignor.group_spec import GroupSpec
from kgroup.model.cluster import TopicPartition
from kgroup.operation.record_limit import (
    SMALL_RECORD,
    compresses_records,
    read_record_limit,
    record_notes,
    with_record_limit,
)
from kgroup.protocol.record.group_record import DEFAULT_LIMIT, member_in_record, record_size
from kgroup.simulation.rules import BrokerSettings
from kgroup.simulation.subscription import encode_assignment, encode_subscription
from kgroup.source.base import GroupSource

_MEMBER_SIZE = 1000
_PARTITION_SIZE = 8
"""Bytes that a member and a partition take at most, usually, apart from names of topics."""


def assigned_record_bytes(
    spec: GroupSpec, assignment: Mapping[str, Sequence[TopicPartition]]
) -> int | None:
    """Return the approximate size of a classic group's record with this assignment.

    Subscriptions are encoded as Java's consumer does. None if there is no such record, or if it is
    surely small.
    """
    if spec.protocol != "classic":
        return None
    sizes: dict[tuple[str, ...], int] = {}
    most = 0
    for member in spec.members:
        partitions = (*(member.owned or ()), *assignment.get(member.member_id, ()))
        if member.topics not in sizes:
            sizes[member.topics] = _names_size(member.topics)
        topics = {topic for topic, _ in partitions}
        # Owned partitions may be sent twice: by the consumer, and by a sticky assignor.
        most += _MEMBER_SIZE + sizes[member.topics] + 2 * _names_size(topics)
        most += 2 * _PARTITION_SIZE * len(partitions)
    if most <= SMALL_RECORD:
        return None
    leader_id = spec.leader_id or spec.members[0].member_id
    value = {
        "protocolType": "consumer",
        "generation": 0,
        "protocol": spec.strategy,
        "leader": leader_id,
        "currentStateTimestamp": 0,
        "members": [
            member_in_record(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.host,
                encode_subscription(member, spec.strategy),
                encode_assignment(assignment.get(member.member_id, ()), member.version),
            )
            for member in spec.members
        ],
    }
    return record_size(spec.id or "", value).total


def accepted_record_bytes(spec: GroupSpec) -> int:
    """Return the approximate size of the record that brokers accepted for a group; 0 if small."""
    owned = {member.member_id: member.owned or () for member in spec.members}
    return assigned_record_bytes(spec, owned) or 0


def assigned_record_notes(
    source: GroupSource | None, size: int, accepted: int = 0
) -> tuple[str, ...]:
    """Return a note on a record that would be near the limit of the source's brokers.

    Args:
        source: source of the group; None for a group from a file.
        size: size of the future record.
        accepted: size of the current record.
    """
    if size <= SMALL_RECORD:
        return ()
    limit = None if source is None else read_record_limit(source)
    if limit is None and accepted > DEFAULT_LIMIT:  # the limit is not the default
        return ()
    settings = with_record_limit(BrokerSettings(is_limit_assumed=True), limit, None)
    if source is not None and record_notes(size, settings):
        settings = with_record_limit(settings, limit, compresses_records(source))
    return record_notes(size, settings)


def _names_size(topics: Collection[str]) -> int:
    return sum(8 + len(topic) for topic in topics)
