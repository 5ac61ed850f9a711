"""The records of a consumer group: type, key, and value (None for a tombstone).

Keys and values have Kafka's field names, like decoded records.

Source: `GroupCoordinatorRecordHelpers` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kgroup.model.group_log import MEMBER_STATES, since_epochs
from kgroup.simulation.consumer.member import ConsumerMember, Data, Held

_STATE_NUMBERS = {state: number for number, state in MEMBER_STATES.items()}


class GroupRecord(NamedTuple):
    """A record."""

    type: str
    key: Data
    value: Data | None


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """Return the record of a new group epoch, with the hash of the subscribed topics."""
    value: dict[str, Any] = {"epoch": epoch}
    if metadata_hash:
        value["metadataHash"] = metadata_hash
    return GroupRecord("ConsumerGroupMetadata", {"groupId": group_id}, value)


def member_metadata(group_id: str, member: ConsumerMember) -> GroupRecord:
    """Return the record of a member's metadata and subscription."""
    value: dict[str, Any] = {
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": sorted(member.topics),
        "subscribedTopicRegex": member.regex,
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "serverAssignor": member.assignor,
        "classicMemberMetadata": member.classic,
    }
    return GroupRecord(
        "ConsumerGroupMemberMetadata", _member_key(group_id, member.member_id), value
    )


def target_assignment(
    group_id: str, member_id: str, target: Mapping[str, Iterable[int]]
) -> GroupRecord:
    """Return the record of a member's target assignment, of numbers by topic id."""
    value = {
        "topicPartitions": [
            {"topicId": topic_id, "partitions": [*numbers]} for topic_id, numbers in target.items()
        ]
    }
    key = _member_key(group_id, member_id)
    return GroupRecord("ConsumerGroupTargetAssignmentMember", key, value)


def assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """Return the record of the target assignment's epoch and time."""
    value = {"assignmentEpoch": epoch}
    if timestamp_ms:
        value["assignmentTimestamp"] = timestamp_ms
    return GroupRecord("ConsumerGroupTargetAssignmentMetadata", {"groupId": group_id}, value)


def current_assignment(group_id: str, member: ConsumerMember) -> GroupRecord:
    """Return the record of a member's epoch, state and partitions."""
    value = {
        "memberEpoch": member.epoch,
        "previousMemberEpoch": member.previous_epoch,
        "state": _STATE_NUMBERS[member.state],
        "assignedPartitions": _with_epochs(member.assigned),
        "partitionsPendingRevocation": _with_epochs(member.revoking),
    }
    key = _member_key(group_id, member.member_id)
    return GroupRecord("ConsumerGroupCurrentMemberAssignment", key, value)


def gone_member(group_id: str, member_id: str) -> list[GroupRecord]:
    """Return the tombstones of a member, in Kafka's order (`removeMember`)."""
    key = _member_key(group_id, member_id)
    return [
        GroupRecord("ConsumerGroupCurrentMemberAssignment", key, None),
        GroupRecord("ConsumerGroupTargetAssignmentMember", key, None),
        GroupRecord("ConsumerGroupMemberMetadata", key, None),
    ]


def regular_expression(
    group_id: str, regex: str, resolved: tuple[frozenset[str], int, int] | None
) -> GroupRecord:
    """Return the record of a resolved regular expression, or its tombstone.

    Args:
        group_id: id of the group.
        regex: the regular expression.
        resolved: matching topic names, version of the cluster's topics, and time in ms; None for
            the tombstone.
    """
    key = {"groupId": group_id, "regularExpression": regex}
    if resolved is None:
        return GroupRecord("ConsumerGroupRegularExpression", key, None)
    topics, version, timestamp_ms = resolved
    value = {"topics": sorted(topics), "version": version, "timestamp": timestamp_ms}
    return GroupRecord("ConsumerGroupRegularExpression", key, value)


def group_tombstones(
    group_id: str, member_ids: Iterable[str], regexes: Iterable[str]
) -> list[GroupRecord]:
    """Return the tombstones of a group (`ConsumerGroup.createGroupTombstoneRecords`)."""
    names, key = list(member_ids), {"groupId": group_id}
    of_members = [gone_member(group_id, name) for name in names]
    return [
        *(current for current, _, _ in of_members),
        *(target for _, target, _ in of_members),
        GroupRecord("ConsumerGroupTargetAssignmentMetadata", key, None),
        *(metadata for _, _, metadata in of_members),
        *(regular_expression(group_id, regex, None) for regex in regexes),
        GroupRecord("ConsumerGroupPartitionMetadata", key, None),
        GroupRecord("ConsumerGroupMetadata", key, None),
    ]


def held_partitions(topics: Iterable[Data], member_epoch: int) -> Held:
    """Return the partitions of a record with the epochs in which the member got them.

    Before 4.3 the epochs were not recorded (`Utils.assignmentFromTopicPartitions`).
    """
    unknown = max(member_epoch, 0)
    return {
        topic["topicId"]: dict(zip(topic["partitions"], since_epochs(topic, unknown), strict=True))
        for topic in topics
    }


def _member_key(group_id: str, member_id: str) -> Data:
    return {"groupId": group_id, "memberId": member_id}


def _with_epochs(held: Held) -> list[Data]:
    return [
        {"topicId": topic_id, "partitions": [*epochs], "assignmentEpochs": [*epochs.values()]}
        for topic_id, epochs in held.items()
    ]
