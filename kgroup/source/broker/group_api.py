"""Conversion of brokers' responses about groups to the model.

Each describe API has a function that converts one group of its response to a `Group`, without
offsets. Responses are kafka-python's message objects, with Kafka's field names in snake case.
kafka-python lacks the APIs of consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071);
their message classes are generated from Kafka's own definitions, in ``schema/api``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.api_message import ApiMessage

from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Subscription,
    Subtopology,
    Task,
    TaskAssignment,
    Topology,
    server_text,
)
from kgroup.model.offset import ShareOffset
from kgroup.protocol.message.primitives import uuid_text

_SCHEMAS = "kgroup.schema.api"
_CLASSIC_MEMBER_TYPE = 0


@cache
def _message(name: str) -> Any:
    """Create the kafka-python class of a message that it lacks; responses are found by API key.

    The cache keeps the classes alive: kafka-python holds only weak references to response classes.
    """
    kind = type(ApiMessage)(name, (ApiMessage,), {}, load_json=_SCHEMAS)
    if name.endswith("Request"):
        _message(f"{name.removesuffix('Request')}Response")
    return kind


def describe_share_offsets_request() -> Any:
    """Return the request class for the offsets of share groups (Kafka 4.1 and later)."""
    return _message("DescribeShareGroupOffsetsRequest")


@dataclass(frozen=True, slots=True)
class DescribeApi:
    """The API that describes groups of one type.

    Attributes:
        name: Kafka's name of the API.
        field: request field for the group ids.
        group: converts one group of the response to a `Group`.
    """

    name: str
    field: str
    group: Callable[[Any, Broker | None], Group]

    @property
    def request(self) -> Any:
        """The request class, created on first use."""
        if self.name == "DescribeGroups":
            return DescribeGroupsRequest
        return _message(f"{self.name}Request")

    def fields(self, group_ids: list[str]) -> dict[str, Any]:
        """Return the fields of a request."""
        return {self.field: group_ids}


def group_state(text: str | None, type_: GroupType | None) -> GroupState | None:
    """Return the state from ListGroups or a describe API.

    None if it is empty, new, or not a state of groups of this type (if known).
    """
    if text == "AwaitingSync":  # CompletingRebalance, before Kafka 1.1
        text = GroupState.COMPLETING_REBALANCE
    states = frozenset(GroupState) if type_ is None else type_.states
    return GroupState(text) if text and text in states else None


def group_type(text: str | None) -> GroupType | None:
    """Return the type from ListGroups; None if it is empty or new."""
    try:
        return GroupType(text.lower()) if text else None
    except ValueError:
        return None


# --- classic -------------------------------------------------------------------------------------


def _classic_group(answer: Any, coordinator: Broker | None) -> Group:
    """Convert DescribeGroups: state, protocol, members with their bytes, but no generation."""
    from kgroup.model.client_library import leading_library
    from kgroup.model.group_log import classic_members
    from kgroup.protocol.record.coordinator_record import decode_members

    is_stable = answer.group_state == GroupState.STABLE  # else, members have no metadata
    data = {
        "protocolType": answer.protocol_type,
        "protocol": answer.protocol_data,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "sessionTimeout": None,
                "subscription": bytes(member.member_metadata),
                "assignment": bytes(member.member_assignment),
                "metadataBytes": len(member.member_metadata) if is_stable else None,
                "assignmentBytes": len(member.member_assignment) if is_stable else None,
            }
            for member in answer.members
        ],
    }
    decode_members(data)
    return Group(
        group_id=answer.group_id,
        type=GroupType.CLASSIC,
        state=group_state(answer.group_state, GroupType.CLASSIC),
        protocol_type=answer.protocol_type or None,
        assignor=answer.protocol_data or None,
        coordinator=coordinator,
        members=classic_members(answer.group_id, data),
        leader_library=leading_library(data["protocol"], data["members"]),
        member_order=tuple(str(member.member_id) for member in answer.members),
    )


# --- consumer (KIP-848) and share (KIP-932) ------------------------------------------------------


def _consumer_group(answer: Any, coordinator: Broker | None) -> Group:
    """Convert ConsumerGroupDescribe."""
    return Group(
        **_common(answer, GroupType.CONSUMER, coordinator),
        assignor=answer.assignor_name or None,
        members=tuple(
            Member(
                **_common_of_member(member),
                instance_id=member.instance_id,
                subscription=Subscription(
                    tuple(sorted(member.subscribed_topic_names)),
                    member.subscribed_topic_regex or None,
                ),
                assignment=_partitions(member.assignment),
                target_assignment=_partitions(member.target_assignment),
                uses_classic_protocol=(
                    None
                    if _known(member.member_type) is None
                    else member.member_type == _CLASSIC_MEMBER_TYPE
                ),
            )
            for member in _by_id(answer.members)
        ),
    )


def _share_group(answer: Any, coordinator: Broker | None) -> Group:
    """Convert ShareGroupDescribe."""
    return Group(
        **_common(answer, GroupType.SHARE, coordinator),
        assignor=answer.assignor_name or None,
        members=tuple(
            Member(
                **_common_of_member(member),
                subscription=Subscription(tuple(sorted(member.subscribed_topic_names))),
                assignment=_partitions(member.assignment),
            )
            for member in _by_id(answer.members)
        ),
        share_offsets=(),
    )


def share_offsets(answer: Any) -> tuple[ShareOffset, ...]:
    """Convert one group of DescribeShareGroupOffsets; partitions with errors are left out."""
    return tuple(
        ShareOffset(
            topic_id=uuid_text(topic.topic_id.bytes),
            topic=topic.topic_name or None,
            partition=partition.partition_index,
            start_offset=_known(partition.start_offset),
            leader_epoch=_known(partition.leader_epoch),
            lag=_known(partition.lag),
        )
        for topic in sorted(answer.topics, key=lambda topic: str(topic.topic_name))
        for partition in sorted(
            topic.partitions, key=lambda partition: int(partition.partition_index)
        )
        if not partition.error_code
    )


def _partitions(assignment: Any) -> tuple[AssignedPartition, ...]:
    return tuple(
        AssignedPartition(uuid_text(topic.topic_id.bytes), topic.topic_name or None, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


# --- streams (KIP-1071) --------------------------------------------------------------------------


def _streams_group(answer: Any, coordinator: Broker | None) -> Group:
    """Convert StreamsGroupDescribe."""
    return Group(
        **_common(answer, GroupType.STREAMS, coordinator),
        topology=_topology(answer.topology) if answer.topology is not None else None,
        members=tuple(
            Member(
                **_common_of_member(member),
                instance_id=member.instance_id,
                tasks=_tasks(member.assignment),
                target_tasks=_tasks(member.target_assignment),
                topology_epoch=member.topology_epoch,
                process_id=member.process_id,
                user_endpoint=(
                    server_text(member.user_endpoint.host, member.user_endpoint.port)
                    if member.user_endpoint is not None
                    else None
                ),
                client_tags={tag.key: tag.value for tag in member.client_tags},
            )
            for member in _by_id(answer.members)
        ),
    )


def _tasks(assignment: Any) -> TaskAssignment:
    kinds = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return TaskAssignment(
        *(
            tuple(
                sorted(
                    Task(task_ids.subtopology_id, n)
                    for task_ids in kind
                    for n in task_ids.partitions
                )
            )
            for kind in kinds
        )
    )


def _topology(answer: Any) -> Topology:
    return Topology(
        epoch=answer.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=tuple(subtopology.source_topics),
                source_topic_regex=(),  # resolved to topics in the response
                repartition_source_topics=tuple(
                    topic.name for topic in subtopology.repartition_source_topics
                ),
                repartition_sink_topics=tuple(subtopology.repartition_sink_topics),
                state_changelog_topics=tuple(
                    topic.name for topic in subtopology.state_changelog_topics
                ),
            )
            for subtopology in sorted(
                answer.subtopologies or (), key=lambda subtopology: str(subtopology.subtopology_id)
            )
        ),
    )


# --- common --------------------------------------------------------------------------------------


def _common(answer: Any, type_: GroupType, coordinator: Broker | None) -> dict[str, Any]:
    """Return the fields that the responses share for all group types with epochs."""
    return {
        "group_id": answer.group_id,
        "type": type_,
        "state": group_state(answer.group_state, type_),
        "protocol_type": type_.value,
        "group_epoch": _known(answer.group_epoch),
        "assignment_epoch": _known(answer.assignment_epoch),
        "coordinator": coordinator,
        "member_order": tuple(str(member.member_id) for member in answer.members),
    }


def _common_of_member(member: Any) -> dict[str, Any]:
    names = ("member_id", "client_id", "client_host", "rack_id", "member_epoch")
    return {name: getattr(member, name) for name in names}


def _by_id(members: Iterable[Any]) -> list[Any]:
    return sorted(members, key=lambda member: str(member.member_id))


def _known(number: int | None) -> int | None:
    """Return the number; None for -1, Kafka's value for unknown."""
    return None if number is None or number < 0 else number


DESCRIBE_BY_TYPE: Mapping[GroupType, DescribeApi] = {
    GroupType.CLASSIC: DescribeApi("DescribeGroups", "groups", _classic_group),
    GroupType.CONSUMER: DescribeApi("ConsumerGroupDescribe", "group_ids", _consumer_group),
    GroupType.SHARE: DescribeApi("ShareGroupDescribe", "group_ids", _share_group),
    GroupType.STREAMS: DescribeApi("StreamsGroupDescribe", "group_ids", _streams_group),
}
"""The describe APIs, in the order in which they are tried for a group of unknown type."""
