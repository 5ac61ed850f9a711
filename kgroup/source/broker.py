"""Groups of a live cluster, asked of its brokers; nothing but questions is sent.

Each group is known to one broker, its coordinator: the leader of its partition of
`__consumer_offsets`. So all brokers are asked at once which groups they have, or, for groups that
were named, any broker for their coordinators; then each coordinator for its groups, many in one
request. A group whose coordinator moves meanwhile is looked for and asked for again, with growing
pauses. What a broker could not tell is a `Problem` beside the groups that the others told.

Two questions create topics if one is careless: Metadata that names a topic (see
`BrokerClient.metadata`), and FindCoordinator where `__consumer_offsets` is missing; so that topic
is looked for first. Without it there are no groups.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest

from kgroup.errors import BrokerError
from kgroup.model.cluster import ClusterView
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.image import Image
from kgroup.model.log_range import LogReading
from kgroup.model.offset import CommittedOffset, ShareOffset
from kgroup.model.placement import Placement
from kgroup.operation.locate import offsets_partition
from kgroup.source.base import EVERYTHING, Capability, Question, Reading
from kgroup.source.broker_client import Backoff, BrokerClient, Deadline
from kgroup.source.coordinator import (
    MOVING,
    OFFSETS_TOPIC,
    Coordinators,
    Home,
    Refusal,
    is_missing,
    place,
)
from kgroup.source.group_api import (
    DESCRIBE_BY_TYPE,
    describe_share_offsets_request,
    group_state,
    group_type,
    share_offsets,
)
from kgroup.source.offsets_log import read_details
from kgroup.source.topic_offset import read_log_ranges

__all__ = ["Cluster"]

_BY_TOPIC_NAME = 9
"""Newest version of OffsetFetch that names topics; the next gives ids, of topics that exist."""
_NO_SUCH_GROUP = frozenset({35, 69})
"""UNSUPPORTED_VERSION, where groups of a type are switched off, and GROUP_ID_NOT_FOUND."""
_UNKNOWN_TOPIC_OR_PARTITION = 3


class Cluster:
    """A source of groups; implements `GroupSource`. A context manager."""

    capabilities = frozenset(
        {
            Capability.COMMIT_TIMESTAMPS,
            Capability.COORDINATOR,
            Capability.GENERATION,
            Capability.LAST_STABLE_OFFSETS,
            Capability.LOG_END_OFFSETS,
            Capability.LOG_START_OFFSETS,
            Capability.REBALANCE_IN_FLIGHT,
            Capability.SHARE_START_OFFSETS,
        }
    )

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        timeout_s: float = 10.0,
        of_silence: bool = False,
        **options: Any,
    ) -> None:
        """Connect to nothing yet.

        Args:
            bootstrap: "host:port", several separated by commas or in a list.
            timeout_s: bounds everything that is done with this object, or
            of_silence: the time in which no broker answers.
            options: kafka-python's own (`security_protocol`, `ssl_cafile`, …).
        """
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._of_silence = of_silence
        self._options = options
        self._client: BrokerClient | None = None
        self._view: ClusterView | None = None

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def renew(self) -> None:
        """Begin another round, of a watch say: give brokers that were silent another chance."""
        if self._client is not None:
            self._client.forgive()

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Ask the brokers; see `GroupSource.read`.

        Raises:
            BrokerError: no bootstrap server answers.
        """
        client = self._connected()
        return client.run(_Inquiry(client, question).read(group_ids))

    def log_ranges(
        self, partitions: Collection[tuple[str, int]], *, committed: bool = False
    ) -> LogReading:
        """Ask the leaders; see `GroupSource.log_ranges`."""
        client = self._connected()
        return client.run(read_log_ranges(client, partitions, committed=committed))

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        """Find the coordinators of groups, which need not exist, or of transactional ids."""
        client = self._connected()
        return client.run(place(client, keys, transactional=transactional))

    def _connected(self) -> BrokerClient:
        if self._client is None:
            deadline = Deadline(self._timeout_s, of_silence=self._of_silence)
            self._client = BrokerClient(self._bootstrap, deadline, **self._options)
            self._client.run(self._client.connect())
        return self._client


class _Inquiry:
    """One `Cluster.read`, with the problems that it meets."""

    def __init__(self, client: BrokerClient, question: Question) -> None:
        self._client = client
        self._question = question
        self._every_partition: list[Any] | None = None

    async def read(self, group_ids: Collection[str] | None) -> Reading:
        """See `GroupSource.read`."""
        client, question = self._client, self._question
        view = await client.metadata([OFFSETS_TOPIC])
        topic = view.topics.get(OFFSETS_TOPIC)
        if is_missing(topic):
            return Reading(
                _image(view, {}, None),
                notes=(f"The cluster has no topic {OFFSETS_TOPIC}: nobody ever used a group.",),
            )
        if group_ids is not None and question.regex is None:
            self._coordinators = Coordinators(client, named=True)
            homes = await self._coordinators.find(group_ids)
        else:
            self._coordinators = Coordinators(client, named=False)
            homes = self._select(await self._list(view), group_ids)
        count = len(topic.partitions) if topic and topic.partitions else None
        if question.members:
            groups = await self._describe_all(homes)
        else:
            groups = {home.group_id: self._listed(home) for home in homes}
        found = {
            group_id: replace(group, offsets_partition=offsets_partition(group_id, count))
            if count
            else group
            for group_id, group in sorted(groups.items())
            if self._is_wanted(group)
        }
        notes: list[str] = []
        if question.members and question.log_budget:
            found, notes = await read_details(client, found, question.log_budget)
        return Reading(_image(view, found, count), tuple(self._coordinators.problems), tuple(notes))

    # --- which groups there are, and where ---

    async def _list(self, view: ClusterView) -> list[Home]:
        """Ask every broker which groups it has."""
        lists = await self._client.gather(self._list_of(node) for node in view.brokers)
        for answer in lists:
            if isinstance(answer, BrokerError):
                self._coordinators.blame(answer)
        return list(chain.from_iterable(homes for homes in lists if isinstance(homes, list)))

    async def _list_of(self, node: int) -> list[Home]:
        client, question = self._client, self._question
        version = await client.version(node, ListGroupsRequest)
        if version is None:
            text = f"broker {node} is of Kafka 0.8, which cannot list groups: name them"
            raise BrokerError("unsupported", text, node)
        fields: dict[str, Any] = {}
        if version >= 4:
            fields["states_filter"] = sorted(question.states)
        if version >= 5:
            fields["types_filter"] = sorted(question.types)
        backoff = Backoff(client)
        while True:
            answer = await client.ask(node, ListGroupsRequest, **fields)
            if not answer.error_code:
                break
            if answer.error_code not in MOVING or not await backoff.wait():
                text = f"broker {node} does not list its groups: {Refusal(answer.error_code)}"
                raise BrokerError("denied", text, node)
        return [
            Home(
                listed.group_id,
                node,
                True,
                group_type(listed.group_type),
                group_state(listed.group_state),
                listed.protocol_type or None,
            )
            for listed in answer.groups
        ]

    def _select(self, homes: Iterable[Home], group_ids: Collection[str] | None) -> list[Home]:
        """Take the groups that were asked for, as far as a list tells."""
        question = self._question
        names = None if group_ids is None else set(group_ids)
        return [
            home
            for home in homes
            if question.names(home.group_id, names)
            if not question.types or home.type is None or home.type in question.types
            if not question.states or home.state is None or home.state in question.states
        ]

    def _is_wanted(self, group: Group) -> bool:
        """Tell whether a group passes the filters, now that all is known."""
        question = self._question
        return (not question.types or group.type in question.types) and (
            not question.states or group.state in question.states
        )

    # --- what they are ---

    def _listed(self, home: Home) -> Group:
        """Make a group of what a list tells."""
        return Group(
            group_id=home.group_id,
            type=home.type or GroupType.CLASSIC,
            state=home.state,
            protocol_type=home.protocol_type,
            coordinator=self._client.brokers.get(home.node),
        )

    async def _describe_all(self, homes: list[Home]) -> dict[str, Group]:
        """Ask for members and offsets of all these groups."""
        wants_offsets = self._question.offsets
        with_offsets = [home for home in homes if wants_offsets and home.type != GroupType.SHARE]
        described, committed = await self._both(
            self._coordinators.ask(homes, self._describe),
            self._coordinators.ask(with_offsets, self._fetch_offsets),
        )
        groups: dict[str, Group] = {}
        for home in homes:
            group = described.get(home.group_id)
            offsets = committed.get(home.group_id) or ()
            if home.group_id not in described and home.is_listed:
                group = self._listed(home)
            elif group is None and offsets and home.group_id in described:
                group = await self._simple_group(home)
            if group is not None:
                groups[home.group_id] = replace(group, offsets=offsets) if offsets else group
        share = [
            replace(home, type=GroupType.SHARE)
            for home in homes
            if wants_offsets
            and home.group_id in groups
            and groups[home.group_id].type is GroupType.SHARE
        ]
        started = await self._coordinators.ask(share, self._fetch_share_offsets)
        for group_id, rows in started.items():
            groups[group_id] = replace(groups[group_id], share_offsets=rows)
        return groups

    async def _both(self, first: Any, second: Any) -> Any:
        results = await self._client.gather([first, second])
        for result in results:
            if isinstance(result, BrokerError):
                raise result
        return results

    async def _simple_group(self, home: Home) -> Group:
        """Make a group that only commits: brokers before 0.10 neither list nor describe those.

        In 0.8, which describes none, members are known to ZooKeeper only: the state is unknown.
        """
        request = DESCRIBE_BY_TYPE[GroupType.CLASSIC].request
        describes = await self._client.version(home.node, request) is not None
        return Group(
            group_id=home.group_id,
            type=GroupType.CLASSIC,
            state=GroupState.EMPTY if describes else None,
            coordinator=self._client.brokers.get(home.node),
        )

    async def _describe(self, node: int, homes: list[Home]) -> dict[str, "Group | Refusal | None"]:
        """Ask one coordinator about groups; None for those that do not exist.

        A group whose type is not known is asked for in every way that the broker has.
        """
        coordinator = self._client.brokers.get(node)
        by_type: dict[GroupType, list[str]] = {}
        for home in homes:
            for kind in DESCRIBE_BY_TYPE if home.type is None else (home.type,):
                by_type.setdefault(kind, []).append(home.group_id)
        kinds = [
            kind
            for kind in by_type
            if await self._client.version(node, DESCRIBE_BY_TYPE[kind].request) is not None
        ]
        found: dict[str, Group | Refusal | None] = {home.group_id: None for home in homes}
        for kind, answer in zip(
            kinds,
            await self._client.gather(
                self._client.ask(
                    node,
                    DESCRIBE_BY_TYPE[kind].request,
                    **DESCRIBE_BY_TYPE[kind].fields(by_type[kind]),
                )
                for kind in kinds
            ),
            strict=True,
        ):
            if isinstance(answer, BrokerError):
                raise answer
            for described in answer.groups:
                if found[described.group_id] is not None and described.error_code:
                    continue
                if described.error_code in _NO_SUCH_GROUP:
                    continue
                if described.error_code:
                    found[described.group_id] = Refusal(
                        described.error_code, described.error_message
                    )
                elif described.group_state != GroupState.DEAD:
                    group = DESCRIBE_BY_TYPE[kind].group(described, coordinator)
                    found[described.group_id] = group
        return found

    # --- what they have committed ---

    async def _fetch_offsets(
        self, node: int, homes: list[Home]
    ) -> dict[str, "tuple[CommittedOffset, ...] | Refusal"]:
        client = self._client
        version = await client.version(node, OffsetFetchRequest, _BY_TOPIC_NAME)
        group_ids = [home.group_id for home in homes]
        if version is not None and version >= 8:
            group = OffsetFetchRequest.OffsetFetchRequestGroup
            answer = await client.ask(
                node,
                OffsetFetchRequest,
                highest=_BY_TOPIC_NAME,
                groups=[group(version=version, group_id=each, topics=None) for each in group_ids],
            )
            return {each.group_id: _offsets(each) for each in answer.groups}
        topics = None if version is not None and version >= 2 else await self._all_partitions()
        answers = await client.gather(
            client.ask(
                node, OffsetFetchRequest, highest=_BY_TOPIC_NAME, group_id=each, topics=topics
            )
            for each in group_ids
        )
        found: dict[str, tuple[CommittedOffset, ...] | Refusal] = {}
        for group_id, answer in zip(group_ids, answers, strict=True):
            if isinstance(answer, BrokerError):
                raise answer
            found[group_id] = _offsets(answer)
        return found

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
        self, node: int, homes: list[Home]
    ) -> dict[str, "tuple[ShareOffset, ...] | Refusal"]:
        request = describe_share_offsets_request()
        if await self._client.version(node, request) is None:
            return {}
        group = request.DescribeShareGroupOffsetsRequestGroup
        answer = await self._client.ask(
            node, request, groups=[group(group_id=home.group_id, topics=None) for home in homes]
        )
        return {
            each.group_id: Refusal(each.error_code, each.error_message)
            if each.error_code
            else share_offsets(each)
            for each in answer.groups
        }


def _image(view: ClusterView, groups: Mapping[str, Group], count: int | None) -> Image:
    return Image(groups=groups, cluster_id=view.cluster_id, offsets_partition_count=count)


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
            elif each.error_code not in (0, _UNKNOWN_TOPIC_OR_PARTITION):  # 3: none, says 0.8
                return Refusal(each.error_code)
    offsets.sort(key=lambda offset: (offset.topic, offset.partition))
    return tuple(offsets)
