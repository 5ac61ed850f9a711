"""Size of the record that the coordinator would write after a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.cluster import TopicPartition
from kgroup.operation.record_limit import (
    SMALL_RECORD,
    compresses_records,
    read_record_limit,
    record_notes,
    with_record_limit,
)
from kgroup.protocol.record.group_record import DEFAULT_LIMIT, MemberInRecord, record_size
from kgroup.simulation.rules import BrokerSettings
from kgroup.simulation.subscription import encode_subscription
from kgroup.source.base import GroupSource

_ASSIGNMENT_SIZE = 2 + 4 + 4
"""Bytes of an assignment without partitions: version, number of topics, no user data."""


def assigned_record_bytes(
    spec: GroupSpec, assignment: Mapping[str, Sequence[TopicPartition]]
) -> int | None:
    """Return the approximate size of a classic group's record with this assignment.

    Subscriptions are those of Java's consumer. None if there is no such record, as for a name in a
    spec that is too long for Kafka's messages.
    """
    if spec.protocol != "classic" or not spec.members:
        return None
    try:
        return _record_bytes(spec, assignment)
    except ValueError:
        return None


def _record_bytes(spec: GroupSpec, assignment: Mapping[str, Sequence[TopicPartition]]) -> int:
    sizes: dict[Hashable, int] = {}
    members = []
    for member in spec.members:
        user_data = member.user_data
        # What members with the same topics have in common: all but the partitions.
        alike = MemberSpec(
            "",
            member.topics,
            rack=member.rack,
            owned=member.owned and (),
            generation=member.generation,
            version=member.version,
            subscription_generation=member.subscription_generation,
            user_data=user_data and replace(user_data, owned=user_data.owned and ()),
        )
        key = (
            *(alike.topics, alike.rack, alike.owned, alike.generation),
            *(alike.version, alike.subscription_generation, alike.user_data),
        )
        if key not in sizes:
            sizes[key] = len(encode_subscription(alike, spec.strategy))
        members.append(
            MemberInRecord(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.host,
                sizes[key] + _owned_size(member, spec.strategy),
                _ASSIGNMENT_SIZE + _partitions_size(assignment.get(member.member_id, ())),
            )
        )
    leader_id = spec.leader_id or spec.members[0].member_id
    return record_size(spec.id or "", "consumer", spec.strategy, leader_id, members).total


def accepted_record_bytes(spec: GroupSpec) -> int:
    """Return the approximate size of the record that brokers accepted for a group; 0 if none."""
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


def _owned_size(member: MemberSpec, strategy: str) -> int:
    """Return the bytes of a member's partitions in its subscription, or in its user data."""
    remembered = member.owned if strategy == "sticky" else ()
    if member.user_data is not None:
        remembered = member.user_data.owned
    is_sent = strategy == "cooperative-sticky" and member.version > 0
    owned = member.owned if is_sent else ()
    return _partitions_size(owned or ()) + _partitions_size(remembered or ())


def _partitions_size(partitions: Iterable[TopicPartition]) -> int:
    """Return the bytes of partitions by topic, without the number of topics."""
    by_topic = Counter(map(itemgetter(0), partitions))
    return sum(2 + len(topic) + 4 + 4 * number for topic, number in by_topic.items())
