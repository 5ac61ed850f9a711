"""What coordinators tell of groups: state and members by the describe APIs, and offsets.

Everything is asked for at once, many groups in one request: OffsetFetch does not wait for the
describe APIs.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from kafka.protocol.consumer.group import OffsetFetchRequest

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.offset import CommittedOffset, ShareOffset
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import Coordinators, GroupCoordinator, Refusal, partition_of
from kgroup.source.broker.group_api import (
    DESCRIBE_BY_TYPE,
    describe_share_offsets_request,
    share_offsets,
)

__all__ = ["GroupReader"]

_BY_TOPIC_NAME = 9
"""Newest version of OffsetFetch that names topics; the next gives ids, of topics that exist."""
_NO_SUCH_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
"""The latter where groups of a type are switched off."""


class GroupReader:
    """Reads groups whose coordinators are known; what goes wrong is kept by `coordinators`."""

    def __init__(
        self, client: BrokerClient, coordinators: Coordinators, partition_count: int | None
    ) -> None:
        self._client = client
        self._coordinators = coordinators
        self._partition_count = partition_count
        self._every_partition: list[Any] | None = None

    async def read(
        self,
        coordinators: Collection[GroupCoordinator],
        listed: Mapping[str, Group],
        *,
        offsets: bool,
    ) -> dict[str, Group]:
        """Ask for the members of groups and, if so wanted, their offsets; give those that exist.

        What lists have told of groups stays where a coordinator tells nothing, and for groups that
        are not among `coordinators`.

        Raises:
            BrokerError: no broker answers.
        """
        asked = [each for each in coordinators if offsets and each.type != GroupType.SHARE]
        both: list[Any] = [
            self._coordinators.ask(coordinators, self._describe),
            self._coordinators.ask(asked, self._fetch_offsets),
        ]
        described, committed = await self._client.gather_all(both)
        groups = dict(listed)
        for each in coordinators:
            group_id = each.group_id
            group = described.get(group_id)
            commits = committed.get(group_id) or ()
            if group_id not in described:
                group = listed.get(group_id)
            elif group is None and commits:
                group = await self._simple_group(each)
            if group is None:
                groups.pop(group_id, None)
            else:
                partition = partition_of(group_id, self._partition_count)
                groups[group_id] = replace(group, offsets=commits, offsets_partition=partition)
        share = [
            replace(each, type=GroupType.SHARE)
            for each in coordinators
            if offsets and each.group_id in groups and groups[each.group_id].type is GroupType.SHARE
        ]
        started = await self._coordinators.ask(share, self._fetch_share_offsets)
        for group_id, rows in started.items():
            groups[group_id] = replace(groups[group_id], share_offsets=rows)
        return groups

    async def _simple_group(self, coordinator: GroupCoordinator) -> Group:
        """Make a group that only commits: brokers before 0.10 neither list nor describe those.

        In 0.8, which describes none, members are known to ZooKeeper only: the state is unknown.
        """
        request = DESCRIBE_BY_TYPE[GroupType.CLASSIC].request
        describes = await self._client.version(coordinator.node, request) is not None
        return Group(
            group_id=coordinator.group_id,
            type=GroupType.CLASSIC,
            state=GroupState.EMPTY if describes else None,
            coordinator=self._client.brokers.get(coordinator.node),
        )

    async def _describe(
        self, node: int, coordinators: list[GroupCoordinator]
    ) -> dict[str, "Group | Refusal | None"]:
        """Ask one coordinator about groups; None for those that do not exist.

        A group whose type is not known is asked for in every way that the broker has.
        """
        coordinator = self._client.brokers.get(node)
        by_type: dict[GroupType, list[str]] = {}
        for each in coordinators:
            for kind in DESCRIBE_BY_TYPE if each.type is None else (each.type,):
                by_type.setdefault(kind, []).append(each.group_id)
        kinds = [
            kind
            for kind in by_type
            if await self._client.version(node, DESCRIBE_BY_TYPE[kind].request) is not None
        ]
        found: dict[str, Group | Refusal | None] = {each.group_id: None for each in coordinators}
        apis = [(DESCRIBE_BY_TYPE[kind], by_type[kind]) for kind in kinds]
        answers = await self._client.gather_all(
            self._client.ask(node, api.request, **api.fields(ids)) for api, ids in apis
        )
        for (api, group_ids), answer in zip(apis, answers, strict=True):
            answered = {each.group_id: each for each in answer.groups}
            for described in only_asked(answered, group_ids, api.name, node).values():
                code = described.error_code
                if code in _NO_SUCH_GROUP or (code and found[described.group_id] is not None):
                    continue
                if code:
                    found[described.group_id] = Refusal(code, described.error_message)
                elif described.group_state != GroupState.DEAD:
                    found[described.group_id] = api.group(described, coordinator)
        return found

    # --- what they have committed ---

    async def _fetch_offsets(
        self, node: int, coordinators: list[GroupCoordinator]
    ) -> dict[str, "tuple[CommittedOffset, ...] | Refusal"]:
        client = self._client
        version = await client.version(node, OffsetFetchRequest, _BY_TOPIC_NAME)
        group_ids = [each.group_id for each in coordinators]
        if version is not None and version >= 8:
            group = OffsetFetchRequest.OffsetFetchRequestGroup
            answer = await client.ask(
                node,
                OffsetFetchRequest,
                highest=_BY_TOPIC_NAME,
                groups=[group(version=version, group_id=each, topics=None) for each in group_ids],
            )
            offsets = {each.group_id: _offsets(each) for each in answer.groups}
            return only_asked(offsets, group_ids, "OffsetFetch", node)
        topics = None if version is not None and version >= 2 else await self._all_partitions()
        answers = await client.gather_all(
            client.ask(
                node, OffsetFetchRequest, highest=_BY_TOPIC_NAME, group_id=each, topics=topics
            )
            for each in group_ids
        )
        return dict(zip(group_ids, map(_offsets, answers), strict=True))

    async def _all_partitions(self) -> list[Any]:
        """Name every partition of the cluster: before 0.10.2 offsets are asked for one by one."""
        if self._every_partition is None:
            view = await self._client.metadata(None)
            topic = OffsetFetchRequest.OffsetFetchRequestTopic
            self._every_partition = [
                topic(name=each.name, partition_indexes=sorted(each.partitions))
                for each in view.topics.values()
                if each.partitions
            ]
        return self._every_partition

    async def _fetch_share_offsets(
        self, node: int, coordinators: list[GroupCoordinator]
    ) -> dict[str, "tuple[ShareOffset, ...] | Refusal"]:
        request = describe_share_offsets_request()
        if await self._client.version(node, request) is None:
            return {}
        group = request.DescribeShareGroupOffsetsRequestGroup
        answer = await self._client.ask(
            node,
            request,
            groups=[group(group_id=each.group_id, topics=None) for each in coordinators],
        )
        offsets = {
            each.group_id: Refusal(each.error_code, each.error_message)
            if each.error_code
            else share_offsets(each)
            for each in answer.groups
        }
        group_ids = [each.group_id for each in coordinators]
        return only_asked(offsets, group_ids, "DescribeShareGroupOffsets", node)


def _offsets(answer: Any) -> "tuple[CommittedOffset, ...] | Refusal":
    """Read one group's part of the answer to OffsetFetch."""
    if answer.error_code:
        return Refusal(answer.error_code)
    offsets = []
    for topic in answer.topics:
        name = topic.name
        for each in topic.partitions:
            if each.committed_offset >= 0:
                epoch = each.committed_leader_epoch
                offsets.append(
                    CommittedOffset(
                        name,
                        each.partition_index,
                        each.committed_offset,
                        None if epoch < 0 else epoch,
                        each.metadata,
                    )
                )
            elif each.error_code not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):  # none, says 0.8
                return Refusal(each.error_code)
    offsets.sort(key=lambda offset: (offset.topic, offset.partition))
    return tuple(offsets)
