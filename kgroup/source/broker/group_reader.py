"""Read groups from their coordinators: state and members (describe APIs), and committed offsets.

All requests are sent at once, each for many groups: OffsetFetch does not wait for the describe
APIs, and responses are decoded while brokers process the next request. `OffsetFetcher` reads only
committed offsets.
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
"""Newest version of OffsetFetch with topic names; the next has ids, which only existing topics
have.
"""


class OffsetFetcher:
    """Fetches committed offsets; for brokers before 0.10.2 it caches the list of all partitions."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client
        self._every_partition: list[Any] | None = None

    async def fetch(
        self, node: int, coordinators: list[CoordinatedGroup]
    ) -> dict[str, tuple[CommittedOffset, ...] | CoordinatorRefusal]:
        """Fetch the offsets of groups from one coordinator, sorted by topic and partition.

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
                groups=[
                    group(version=version, group_id=group_id, topics=None) for group_id in group_ids
                ],
            )
            offsets = {group.group_id: _offsets(group, stored_only=True) for group in answer.groups}
            return only_asked(offsets, group_ids, "OffsetFetch", node)
        topics = None if version is not None and version >= 2 else await self._all_partitions()
        answers = await client.gather_all(
            client.ask(
                node, OffsetFetchRequest, highest=_BY_TOPIC_NAME, group_id=group_id, topics=topics
            )
            for group_id in group_ids
        )
        return {
            group_id: _offsets(answer, stored_only=topics is None)
            for group_id, answer in zip(group_ids, answers, strict=True)
        }

    async def _all_partitions(self) -> list[Any]:
        """Return every partition of the cluster: before 0.10.2, requests must name partitions."""
        if self._every_partition is None:
            view = await self._client.metadata(None)
            topic = OffsetFetchRequest.OffsetFetchRequestTopic
            self._every_partition = [
                topic(name=described.name, partition_indexes=sorted(described.partitions))
                for described in view.topics.values()
                if described.partitions
            ]
        return self._every_partition


def _offsets(answer: Any, *, stored_only: bool) -> tuple[CommittedOffset, ...] | CoordinatorRefusal:
    """Return one group's offsets from a response to OffsetFetch.

    Args:
        answer: the group's part; `committed_offset` -1 means that nothing is stored, or that -1 is.
        stored_only: the response has only stored offsets (no partitions were named), so -1 is
            stored.
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
            ):  # 0.8's code for no commit
                return CoordinatorRefusal(partition.error_code)
    return tuple(offsets)


_Named = TypeVar("_Named", AssignedPartition, ShareOffset)
_NO_SUCH_GROUP = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_GROUP_ID,
)
"""Codes for a group that does not exist. UNSUPPORTED_VERSION: groups of this type are disabled.
INVALID_GROUP_ID: no group of this type can have the id; only a classic group's id may be empty.
"""


class GroupReader:
    """Reads groups whose coordinators are known; `coordinators` collects problems."""

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
        """Read members and, if requested, offsets of groups; return the groups that exist.

        Facts from lists are kept if a coordinator returns nothing, and for groups that are not
        among `coordinators`. Classic groups that a list calls empty are not described: there is
        nothing more to know of them.

        Raises:
            BrokerError: no broker answers.
        """
        asked = [
            coordinator
            for coordinator in coordinators
            if offsets and coordinator.type != GroupType.SHARE
        ]
        with_members = [coordinator for coordinator in coordinators if not _is_empty(coordinator)]
        both: list[Any] = [
            self._coordinators.ask(with_members, self.describe),
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
            replace(coordinator, type=GroupType.SHARE)
            for coordinator in coordinators
            if offsets
            and coordinator.group_id in groups
            and groups[coordinator.group_id].type is GroupType.SHARE
        ]
        started = await self._coordinators.ask(share, self._fetch_share_offsets)
        for group_id, rows in started.items():
            groups[group_id] = replace(groups[group_id], share_offsets=rows)
        return await self._named(groups)

    async def _named(self, groups: dict[str, Group]) -> dict[str, Group]:
        """Add topic names where a coordinator returned only ids, as franz-go's kfake does."""
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
        """Return a group that only commits, which brokers before 0.10 neither list nor describe.

        Brokers of 0.8 describe no groups, and only ZooKeeper knows their members: the state is
        unknown.
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
        """Describe groups at one coordinator; None for those that do not exist.

        For a group of unknown type, all describe APIs of the broker are tried.
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
        by_id: dict[str, Group | CoordinatorRefusal | None] = {
            coordinator.group_id: None for coordinator in coordinators
        }
        apis = [(DESCRIBE_BY_TYPE[kind], by_type[kind]) for kind in kinds]
        answers = await self._client.gather_all(
            self._client.ask(node, api.request, **api.fields(ids)) for api, ids in apis
        )
        for (api, group_ids), answer in zip(apis, answers, strict=True):
            answered = {group.group_id: group for group in answer.groups}
            for described in only_asked(answered, group_ids, api.name, node).values():
                code = described.error_code
                if code in _NO_SUCH_GROUP or (code and by_id[described.group_id] is not None):
                    continue
                if code:
                    by_id[described.group_id] = CoordinatorRefusal(code, described.error_message)
                elif described.group_state != GroupState.DEAD:
                    by_id[described.group_id] = api.group(described, coordinator)
        return by_id

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
            group.group_id: CoordinatorRefusal(group.error_code, group.error_message)
            if group.error_code
            else share_offsets(group)
            for group in answer.groups
        }
        group_ids = [coordinator.group_id for coordinator in coordinators]
        return only_asked(offsets, group_ids, "DescribeShareGroupOffsets", node)


def _is_empty(coordinator: CoordinatedGroup) -> bool:
    """Return whether a list calls it a classic group without members (Kafka 3.8 and later)."""
    return (
        coordinator.is_listed
        and coordinator.type is GroupType.CLASSIC
        and coordinator.state is GroupState.EMPTY
    )


def _topics_of(group: Group) -> Iterator[AssignedPartition | ShareOffset]:
    for member in group.members:
        yield from member.assignment or ()
        yield from member.target_assignment or ()
    yield from group.share_offsets or ()
