"""Read groups from their coordinators: state and members (describe APIs), and committed offsets.

All requests are sent at once, each for many groups: OffsetFetch does not wait for the describe
APIs, and answers are read while brokers work on the next request. `OffsetFetcher` reads committed
offsets alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeVar

from kafka.protocol.consumer.group import OffsetFetchRequest

from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType
from kgroup.model.offset import CommittedOffset, ShareOffset, split_commits
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import (
    CoordinatedGroup,
    CoordinatorRefusal,
    Coordinators,
    partition_of,
)
from kgroup.source.broker.group_api import (
    DESCRIBE_BY_TYPE,
    describe_share_offsets_request,
    share_offsets,
)

_BY_TOPIC_NAME = 9
"""Newest version of OffsetFetch that names topics; the next gives ids, of topics that exist."""


class OffsetFetcher:
    """Fetches offsets; before 0.10.2 it remembers which partitions there are to ask for."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client
        self._every_partition: list[Any] | None = None

    async def fetch(
        self, node: int, coordinators: list[CoordinatedGroup]
    ) -> dict[str, tuple[CommittedOffset, ...] | CoordinatorRefusal]:
        """Ask one coordinator what groups have stored, sorted by topic and partition.

        Offsets may be negative; see `split_commits`.
        """
        client = self._client
        version = await client.version(node, OffsetFetchRequest, _BY_TOPIC_NAME)
        group_ids = [coordinator.group_id for coordinator in coordinators]
        if version is not None and version >= 8:
            group = OffsetFetchRequest.OffsetFetchRequestGroup
            answer = await client.ask(
                node,
                OffsetFetchRequest,
                highest=_BY_TOPIC_NAME,
                groups=[group(version=version, group_id=each, topics=None) for each in group_ids],
            )
            offsets = {each.group_id: _offsets(each, stored_only=True) for each in answer.groups}
            return only_asked(offsets, group_ids, "OffsetFetch", node)
        topics = None if version is not None and version >= 2 else await self._all_partitions()
        answers = await client.gather_all(
            client.ask(
                node, OffsetFetchRequest, highest=_BY_TOPIC_NAME, group_id=each, topics=topics
            )
            for each in group_ids
        )
        return {
            group_id: _offsets(each, stored_only=topics is None)
            for group_id, each in zip(group_ids, answers, strict=True)
        }

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


def _offsets(answer: Any, *, stored_only: bool) -> tuple[CommittedOffset, ...] | CoordinatorRefusal:
    """Read one group's part of the answer to OffsetFetch.

    Args:
        answer: where `committed_offset` is -1, nothing is stored, or -1 is;
        stored_only: it is the latter: the answer has no partition that was asked for by name.
    """
    if answer.error_code:
        return CoordinatorRefusal(answer.error_code)
    offsets = []
    for topic in sorted(answer.topics, key=attrgetter("name")):
        name = topic.name
        for partition in sorted(topic.partitions, key=attrgetter("partition_index")):
            if partition.committed_offset >= 0 or (stored_only and not partition.error_code):
                epoch = partition.committed_leader_epoch
                offsets.append(
                    CommittedOffset(
                        name,
                        partition.partition_index,
                        partition.committed_offset,
                        None if epoch < 0 else epoch,
                        partition.metadata,
                    )
                )
            elif partition.error_code not in (
                0,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ):  # none, says 0.8
                return CoordinatorRefusal(partition.error_code)
    return tuple(offsets)


_Named = TypeVar("_Named", AssignedPartition, ShareOffset)
_NO_SUCH_GROUP = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_GROUP_ID,
)
"""The second where groups of a type are switched off, the third where none can have the id: only a
classic group can have an empty one."""


class GroupReader:
    """Reads groups whose coordinators are known; what goes wrong is kept by `coordinators`."""

    def __init__(
        self, client: BrokerClient, coordinators: Coordinators, partition_count: int | None
    ) -> None:
        self._client = client
        self._coordinators = coordinators
        self._partition_count = partition_count
        self._fetcher = OffsetFetcher(client)

    async def read(
        self,
        coordinators: Collection[CoordinatedGroup],
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
        asked = [
            coordinator
            for coordinator in coordinators
            if offsets and coordinator.type != GroupType.SHARE
        ]
        both: list[Any] = [
            self._coordinators.ask(coordinators, self.describe),
            self._coordinators.ask(asked, self._fetcher.fetch),
        ]
        described, committed = await self._client.gather_all(both)
        groups = dict(listed)
        for coordinator in coordinators:
            group_id = coordinator.group_id
            group = described.get(group_id)
            commits = committed.get(group_id) or ()
            if group_id not in described:
                group = listed.get(group_id)
            elif group is None and commits:
                group = await self._simple_group(coordinator)
            if group is None:
                groups.pop(group_id, None)
            else:
                partition = partition_of(group_id, self._partition_count)
                stored, empty = split_commits(commits)
                groups[group_id] = replace(
                    group, offsets=stored, empty_commits=empty, offsets_partition=partition
                )
        share = [
            replace(each, type=GroupType.SHARE)
            for each in coordinators
            if offsets and each.group_id in groups and groups[each.group_id].type is GroupType.SHARE
        ]
        started = await self._coordinators.ask(share, self._fetch_share_offsets)
        for group_id, rows in started.items():
            groups[group_id] = replace(groups[group_id], share_offsets=rows)
        return await self._named(groups)

    async def _named(self, groups: dict[str, Group]) -> dict[str, Group]:
        """Name the topics that a coordinator told by id alone, as franz-go's kfake does."""
        if not any(at.topic is None for group in groups.values() for at in _topics_of(group)):
            return groups
        view = await self._client.metadata(None)
        names = {topic.topic_id: topic.name for topic in view.topics.values()}

        def name(parts: tuple[_Named, ...] | None) -> tuple[_Named, ...] | None:
            if parts is None:
                return None
            return tuple(replace(at, topic=at.topic or names.get(at.topic_id)) for at in parts)

        return {
            group_id: replace(
                group,
                members=tuple(
                    replace(
                        member,
                        assignment=name(member.assignment),
                        target_assignment=name(member.target_assignment),
                    )
                    for member in group.members
                ),
                share_offsets=name(group.share_offsets),
            )
            for group_id, group in groups.items()
        }

    async def _simple_group(self, coordinator: CoordinatedGroup) -> Group:
        """Make a group that only commits: brokers before 0.10 neither list nor describe those.

        In 0.8, which describes none, members are known to ZooKeeper only: the state is unknown.
        """
        request = DESCRIBE_BY_TYPE[GroupType.CLASSIC].request
        describes = await self._client.any_version(request) is not None
        return Group(
            group_id=coordinator.group_id,
            type=GroupType.CLASSIC,
            state=GroupState.EMPTY if describes else None,
            coordinator=self._client.broker(coordinator.node),
        )

    async def describe(
        self, node: int, coordinators: list[CoordinatedGroup]
    ) -> dict[str, Group | CoordinatorRefusal | None]:
        """Ask one coordinator about groups; None for those that do not exist.

        A group whose type is not known is asked for in every way that the broker has.
        """
        coordinator = self._client.brokers.get(node)
        by_type: dict[GroupType, list[str]] = {}
        for group in coordinators:
            for kind in DESCRIBE_BY_TYPE if group.type is None else (group.type,):
                by_type.setdefault(kind, []).append(group.group_id)
        kinds = [
            kind
            for kind in by_type
            if await self._client.version(node, DESCRIBE_BY_TYPE[kind].request) is not None
        ]
        found: dict[str, Group | CoordinatorRefusal | None] = {
            each.group_id: None for each in coordinators
        }
        apis = [(DESCRIBE_BY_TYPE[kind], by_type[kind]) for kind in kinds]
        answers = await self._client.gather_all(
            self._client.ask(node, api.request, **api.fields(ids)) for api, ids in apis
        )
        for (api, group_ids), answer in zip(apis, answers, strict=True):
            answered = {group.group_id: group for group in answer.groups}
            for described in only_asked(answered, group_ids, api.name, node).values():
                code = described.error_code
                if code in _NO_SUCH_GROUP or (code and found[described.group_id] is not None):
                    continue
                if code:
                    found[described.group_id] = CoordinatorRefusal(code, described.error_message)
                elif described.group_state != GroupState.DEAD:
                    found[described.group_id] = api.group(described, coordinator)
        return found

    async def _fetch_share_offsets(
        self, node: int, coordinators: list[CoordinatedGroup]
    ) -> dict[str, tuple[ShareOffset, ...] | CoordinatorRefusal]:
        request = describe_share_offsets_request()
        if await self._client.version(node, request) is None:
            return {}
        group = request.DescribeShareGroupOffsetsRequestGroup
        answer = await self._client.ask(
            node,
            request,
            groups=[
                group(group_id=coordinator.group_id, topics=None) for coordinator in coordinators
            ],
        )
        offsets = {
            each.group_id: CoordinatorRefusal(each.error_code, each.error_message)
            if each.error_code
            else share_offsets(each)
            for each in answer.groups
        }
        group_ids = [coordinator.group_id for coordinator in coordinators]
        return only_asked(offsets, group_ids, "DescribeShareGroupOffsets", node)


def _topics_of(group: Group) -> Iterator[AssignedPartition | ShareOffset]:
    for member in group.members:
        yield from member.assignment or ()
        yield from member.target_assignment or ()
    yield from group.share_offsets or ()
