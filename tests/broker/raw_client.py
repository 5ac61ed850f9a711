"""Requests of group members as bytes on a connection of their own; no consumer."""

from __future__ import annotations

import io
import select
import socket
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from kgroup.model.offset import CommittedOffset
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.message import (
    Answer,
    CommitAnswer,
    DeleteAnswer,
    DeleteGroup,
    FetchAnswer,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinedMember,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    Request,
    SyncAnswer,
    SyncGroup,
)

_GROUPS_IN_FETCH = 8
"""The first version of OffsetFetch that asks for several groups."""

_RESPONSES: dict[type, Any] = {
    ApiVersionsRequest: ApiVersionsResponse,
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    DescribeGroupsRequest: DescribeGroupsResponse,
    ListGroupsRequest: ListGroupsResponse,
    DeleteGroupsRequest: DeleteGroupsResponse,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    OffsetDeleteRequest: OffsetDeleteResponse,
}

_LONG_S = 120.0
"""For a connection, and for its first answer."""


class RawClient:
    """One connection, which the broker has taken in: else another's requests may come before.

    Args:
        address: host and port.
        client_id: that it says.
    """

    def __init__(self, address: str, client_id: str) -> None:
        host, port = address.split(":")
        self.client_id = client_id
        self._socket = socket.create_connection((host, int(port)), timeout=_LONG_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poll = select.poll()  # `select` knows the first 1,024 files of a process only
        self._poll.register(self._socket, select.POLLIN)
        self._number = 0
        self._received = b""
        self.waiting: dict[int, tuple[Any, int]] = {}
        """Kind and version of each request that has no answer."""
        self.send(ApiVersionsRequest(version=0), 0)
        assert self.receive(_LONG_S) is not None

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Any, version: int) -> int:
        """Send a request; return its number."""
        self._number += 1
        message.with_header(self._number, self.client_id)
        self._socket.sendall(bytes(message.encode(version=version, header=True, framed=True)))
        self.waiting[self._number] = (_RESPONSES[type(message)], version)
        return self._number

    def receive(self, timeout_s: float) -> tuple[int, Any] | None:
        """Return number and answer of a request, if one comes in time."""
        while (whole := self._whole()) is None:
            if not self._poll.poll(timeout_s * 1000):
                return None
            data = self._socket.recv(1 << 16)
            assert data, "the broker has closed the connection"
            self._received += data
        number = struct.unpack_from(">i", whole)[0]
        response, version = self.waiting.pop(number)
        return number, response.decode(io.BytesIO(whole), version=version, header=True)

    def _whole(self) -> bytes | None:
        if len(self._received) < 4:
            return None
        size = struct.unpack_from(">i", self._received)[0]
        if len(self._received) < 4 + size:
            return None
        whole, self._received = self._received[4 : 4 + size], self._received[4 + size :]
        return whole


def to_wire(request: Request, version: int) -> Any:
    """Make the message of a request, as far as its version has the fields."""
    if isinstance(request, JoinGroup):
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=request.group_id,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            protocol_type=request.protocol_type,
            protocols=[protocol(name=p.name, metadata=p.metadata) for p in request.protocols],
            version=version,
        )
    if isinstance(request, SyncGroup):
        assignment = SyncGroupRequest.SyncGroupRequestAssignment
        return SyncGroupRequest(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol,
            assignments=[
                assignment(member_id=each, assignment=data)
                for each, data in request.assignments.items()
            ],
            version=version,
        )
    if isinstance(request, Heartbeat):
        return HeartbeatRequest(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            version=version,
        )
    if isinstance(request, DeleteGroup):
        return DeleteGroupsRequest(groups_names=[request.group_id], version=version)
    if isinstance(request, OffsetCommit | OffsetFetch | OffsetDelete):
        return _offsets_to_wire(request, version)
    assert isinstance(request, LeaveGroup)
    member = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=request.group_id,
        member_id=request.members[0].member_id,
        members=[
            member(member_id=each.member_id, group_instance_id=each.instance_id)
            for each in request.members
        ],
        version=version,
    )


def _offsets_to_wire(request: OffsetCommit | OffsetFetch | OffsetDelete, version: int) -> Any:
    if isinstance(request, OffsetCommit):
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = topic.OffsetCommitRequestPartition
        retention_ms = next(iter(request.offsets.values())).retention_ms
        return OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            retention_time_ms=-1 if retention_ms is None else retention_ms,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        partition(
                            partition_index=number,
                            committed_offset=each.offset,
                            committed_leader_epoch=-1
                            if each.leader_epoch is None
                            else each.leader_epoch,
                            committed_metadata=each.metadata,
                        )
                    ],
                )
                for (name, number), each in request.offsets.items()
            ],
            version=version,
        )
    by_topic: dict[str, list[int]] = {}
    for name, number in request.partitions or ():
        by_topic.setdefault(name, []).append(number)
    if isinstance(request, OffsetFetch):
        return _fetch_to_wire(request, by_topic, version)
    deleted = OffsetDeleteRequest.OffsetDeleteRequestTopic
    return OffsetDeleteRequest(
        group_id=request.group_id,
        topics=[
            deleted(
                name=name,
                partitions=[
                    deleted.OffsetDeleteRequestPartition(partition_index=number)
                    for number in numbers
                ],
            )
            for name, numbers in by_topic.items()
        ],
        version=version,
    )


def _fetch_to_wire(request: OffsetFetch, by_topic: Mapping[str, list[int]], version: int) -> Any:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = (
        OffsetFetchRequest.OffsetFetchRequestTopic
        if version < _GROUPS_IN_FETCH
        else group.OffsetFetchRequestTopics
    )
    topics = [topic(name=name, partition_indexes=each) for name, each in by_topic.items()]
    asked = None if request.partitions is None else topics
    if version < _GROUPS_IN_FETCH:
        return OffsetFetchRequest(
            group_id=request.group_id, topics=asked, require_stable=False, version=version
        )
    return OffsetFetchRequest(
        groups=[
            group(
                group_id=request.group_id,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                topics=asked,
            )
        ],
        require_stable=False,
        version=version,
    )


def _offsets_from_wire(request: Request, response: Any, version: int) -> Answer:
    if isinstance(request, OffsetFetch) and version >= _GROUPS_IN_FETCH:
        (response,) = response.groups
    parts = [
        ((topic.name, partition.partition_index), partition)
        for topic in response.topics
        for partition in topic.partitions
    ]
    if isinstance(request, OffsetFetch):
        code = ErrorCode(response.error_code if version >= 2 else 0)
        assert not any(each.error_code for _, each in parts if code is ErrorCode.NONE)
        offsets = {
            partition: CommittedOffset(
                *partition,
                each.committed_offset,
                None
                if version < 5 or each.committed_leader_epoch == -1
                else each.committed_leader_epoch,
                each.metadata,
            )
            for partition, each in parts
            if each.committed_offset != -1
        }
        return FetchAnswer(code, offsets)
    errors = {partition: ErrorCode(each.error_code) for partition, each in parts}
    if isinstance(request, OffsetCommit):
        return CommitAnswer(errors)
    return OffsetDeleteAnswer(ErrorCode(response.error_code), errors)


def from_wire(request: Request, response: Any, version: int) -> Answer:
    """Read an answer; what a version does not have is as the simulation leaves it then."""
    if isinstance(request, OffsetCommit | OffsetFetch | OffsetDelete):
        return _offsets_from_wire(request, response, version)
    if isinstance(request, DeleteGroup):
        return DeleteAnswer(ErrorCode(response.results[0].error_code))
    code = ErrorCode(response.error_code)
    if isinstance(request, JoinGroup):
        return JoinAnswer(
            code,
            response.member_id,
            response.generation_id,
            (response.protocol_type if version >= 7 else None) or None,
            response.protocol_name or None,
            response.leader,
            tuple(
                JoinedMember(
                    member.member_id,
                    member.group_instance_id if version >= 5 else None,
                    bytes(member.metadata),
                )
                for member in response.members
            ),
            bool(response.skip_assignment) if version >= 9 else False,
        )
    if isinstance(request, SyncGroup):
        return SyncAnswer(
            code,
            bytes(response.assignment),
            (response.protocol_type if version >= 5 else None) or None,
            (response.protocol_name if version >= 5 else None) or None,
        )
    if isinstance(request, Heartbeat):
        return HeartbeatAnswer(code)
    members = response.members if version >= 3 else ()
    return LeaveAnswer(
        code,
        tuple(
            (
                LeavingMember(member.member_id, member.group_instance_id),
                ErrorCode(member.error_code),
            )
            for member in members
        ),
    )


def as_version_has_it(answer: Answer, version: int) -> Answer:
    """Leave out of a simulated answer what an answer of this version does not say."""
    if isinstance(answer, FetchAnswer):
        offsets = {
            partition: replace(
                offset,
                leader_epoch=offset.leader_epoch if version >= 5 else None,
                commit_timestamp_ms=None,
                expire_timestamp_ms=None,
            )
            for partition, offset in answer.offsets.items()
        }
        return replace(answer, offsets=offsets)
    if isinstance(answer, JoinAnswer):
        return replace(
            answer,
            protocol_type=answer.protocol_type if version >= 7 else None,
            members=tuple(
                member if version >= 5 else replace(member, instance_id=None)
                for member in answer.members
            ),
        )
    if isinstance(answer, SyncAnswer) and version < 5:
        return replace(answer, protocol_type=None, protocol=None)
    if isinstance(answer, LeaveAnswer) and version < 3:
        code = answer.error
        if code is ErrorCode.NONE and answer.members:
            code = answer.members[0][1]
        return LeaveAnswer(code)
    return answer
