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

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from kgroup.errors import BrokerError
from kgroup.model.cluster import ClusterView, Partition, Topic
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.image import Image
from kgroup.model.log_range import LogReading
from kgroup.model.offset import CommittedOffset, ShareOffset
from kgroup.model.placement import Placement
from kgroup.model.problem import Problem
from kgroup.operation.locate import offsets_partition
from kgroup.source.base import EVERYTHING, Capability, Question, Reading
from kgroup.source.broker_client import Backoff, BrokerClient, Deadline, error_name
from kgroup.source.group_api import (
    DESCRIBE_BY_TYPE,
    describe_share_offsets_request,
    group_state,
    group_type,
    share_offsets,
)
from kgroup.source.topic_offset import read_log_ranges

__all__ = ["Cluster"]

T = TypeVar("T")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
GROUPS_PER_REQUEST = 100
"""Few enough for the broker to work on the next request while one answer is decoded."""
_BY_TOPIC_NAME = 9
"""Newest version of OffsetFetch that names topics; the next gives ids, of topics that exist."""
_NO_SUCH_GROUP = frozenset({35, 69})
"""UNSUPPORTED_VERSION, where groups of a type are switched off, and GROUP_ID_NOT_FOUND."""
_UNKNOWN_TOPIC_OR_PARTITION = 3
_MOVING = frozenset({13, 14, 15, 16})
"""NETWORK_EXCEPTION, COORDINATOR_LOAD_IN_PROGRESS, _NOT_AVAILABLE, NOT_COORDINATOR."""
_BROKEN = frozenset({"disconnected", "unreachable", "throttled"})


@dataclass(frozen=True, slots=True)
class _Home:
    """A group that is to be asked for: its coordinator, and what a list told of it."""

    group_id: str
    node: int
    type: GroupType | None = None
    state: GroupState | None = None
    protocol_type: str | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    """An error code in the place of a group's answer."""

    code: int
    message: str | None = None

    @property
    def text(self) -> str:
        name = error_name(self.code)
        return f"{name}: {self.message}" if self.message else name


class Cluster:
    """A source of groups; implements `GroupSource`. A context manager."""

    capabilities = frozenset(
        {
            Capability.COORDINATOR,
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
        return client.run(_place(client, keys, transactional=transactional))

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
        self._problems: list[Problem] = []
        self._blamed: set[int | None] = set()

    async def read(self, group_ids: Collection[str] | None) -> Reading:
        client, question = self._client, self._question
        view = await client.metadata([OFFSETS_TOPIC])
        topic = view.topics.get(OFFSETS_TOPIC)
        if _is_missing(topic):
            return Reading(
                _image(view, {}, None),
                notes=(f"The cluster has no topic {OFFSETS_TOPIC}: nobody ever used a group.",),
            )
        if group_ids is not None and question.regex is None:
            homes = await self._find(group_ids)
        else:
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
        return Reading(_image(view, found, count), problems=tuple(self._problems))

    # --- which groups there are, and where ---

    async def _list(self, view: ClusterView) -> list[_Home]:
        """Ask every broker which groups it has."""
        lists = await self._client.gather(self._list_of(node) for node in view.brokers)
        for answer in lists:
            if isinstance(answer, BrokerError):
                self._blame(answer, "the groups that it coordinates are missing")
        return list(chain.from_iterable(homes for homes in lists if isinstance(homes, list)))

    async def _list_of(self, node: int) -> list[_Home]:
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
            if answer.error_code not in _MOVING or not await backoff.wait():
                text = f"broker {node} does not list its groups: {error_name(answer.error_code)}"
                raise BrokerError("denied", text, node)
        return [
            _Home(
                listed.group_id,
                node,
                group_type(listed.group_type),
                group_state(listed.group_state),
                listed.protocol_type or None,
            )
            for listed in answer.groups
        ]

    def _select(self, homes: Iterable[_Home], group_ids: Collection[str] | None) -> list[_Home]:
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

    async def _find(self, group_ids: Collection[str]) -> list[_Home]:
        """Ask for the coordinators of groups."""
        found = await find_coordinators(self._client, group_ids)
        for group_id, answer in found.items():
            if isinstance(answer, str):
                self._problems.append(
                    Problem("no-coordinator", f"No coordinator: {answer}.", group_id=group_id)
                )
        return [
            _Home(group_id, answer) for group_id, answer in found.items() if isinstance(answer, int)
        ]

    # --- what they are ---

    def _listed(self, home: _Home) -> Group:
        """Make a group of what a list tells."""
        return Group(
            group_id=home.group_id,
            type=home.type or GroupType.CLASSIC,
            state=home.state,
            protocol_type=home.protocol_type,
            coordinator=self._client.brokers.get(home.node),
        )

    async def _describe_all(self, homes: list[_Home]) -> dict[str, Group]:
        """Ask for members and offsets of all these groups."""
        wants_offsets = self._question.offsets
        with_offsets = [home for home in homes if wants_offsets and home.type != GroupType.SHARE]
        described, committed = await self._both(
            self._ask_coordinators(homes, self._describe),
            self._ask_coordinators(with_offsets, self._fetch_offsets),
        )
        groups: dict[str, Group] = {}
        for home in homes:
            group = described.get(home.group_id)
            offsets = committed.get(home.group_id) or ()
            if group is None and offsets and home.group_id in described:
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
        started = await self._ask_coordinators(share, self._fetch_share_offsets)
        for group_id, rows in started.items():
            groups[group_id] = replace(groups[group_id], share_offsets=rows)
        return groups

    async def _both(self, first: Any, second: Any) -> Any:
        results = await self._client.gather([first, second])
        for result in results:
            if isinstance(result, BrokerError):
                raise result
        return results

    async def _simple_group(self, home: _Home) -> Group:
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

    async def _ask_coordinators(
        self,
        homes: Iterable[_Home],
        ask: Callable[[int, list[_Home]], Awaitable[Mapping[str, "T | _Refusal"]]],
    ) -> dict[str, T]:
        """Ask each group's coordinator; groups that have moved are looked for and asked again."""
        answers: dict[str, T] = {}
        waiting = {home.group_id: home for home in homes}
        backoff = Backoff(self._client)
        while waiting:
            batches = list(_batches(waiting.values()))
            results = await self._client.gather(_call(ask, node, part) for node, part in batches)
            moved: dict[str, BrokerError | _Refusal] = {}
            for (_, part), result in zip(batches, results, strict=True):
                if isinstance(result, BrokerError):
                    if result.kind in _BROKEN:
                        moved.update((home.group_id, result) for home in part)
                    else:
                        self._blame(result, "groups that it coordinates are missing")
                    continue
                for group_id, answer in result.items():
                    if not isinstance(answer, _Refusal):
                        answers[group_id] = answer
                    elif answer.code in _MOVING:
                        moved[group_id] = answer
                    else:
                        self._refused(group_id, answer)
            if not moved:
                break
            if not await backoff.wait():
                for group_id, reason in moved.items():
                    if isinstance(reason, BrokerError):
                        self._blame(reason, "groups that it coordinates are missing")
                    else:
                        self._refused(group_id, reason)
                break
            waiting = {
                home.group_id: replace(waiting[home.group_id], node=home.node)
                for home in await self._find(list(moved))
            }
        return answers

    async def _describe(
        self, node: int, homes: list[_Home]
    ) -> dict[str, "Group | _Refusal | None"]:
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
        found: dict[str, Group | _Refusal | None] = {home.group_id: None for home in homes}
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
                    found[described.group_id] = _Refusal(
                        described.error_code, described.error_message
                    )
                elif described.group_state != GroupState.DEAD:
                    group = DESCRIBE_BY_TYPE[kind].group(described, coordinator)
                    found[described.group_id] = group
        return found

    # --- what they have committed ---

    async def _fetch_offsets(
        self, node: int, homes: list[_Home]
    ) -> dict[str, "tuple[CommittedOffset, ...] | _Refusal"]:
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
        found: dict[str, tuple[CommittedOffset, ...] | _Refusal] = {}
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

    _every_partition: list[Any] | None = None

    async def _fetch_share_offsets(
        self, node: int, homes: list[_Home]
    ) -> dict[str, "tuple[ShareOffset, ...] | _Refusal"]:
        request = describe_share_offsets_request()
        if await self._client.version(node, request) is None:
            return {}
        group = request.DescribeShareGroupOffsetsRequestGroup
        answer = await self._client.ask(
            node, request, groups=[group(group_id=home.group_id, topics=None) for home in homes]
        )
        return {
            each.group_id: _Refusal(each.error_code, each.error_message)
            if each.error_code
            else share_offsets(each)
            for each in answer.groups
        }

    # --- what went wrong ---

    def _blame(self, error: BrokerError, consequence: str) -> None:
        """Keep a problem with a broker, once."""
        if error.broker_id not in self._blamed:
            self._blamed.add(error.broker_id)
            self._problems.append(
                Problem(error.kind, f"{_sentence(error)}; {consequence}.", broker=error.broker_id)
            )

    def _refused(self, group_id: str, refusal: _Refusal) -> None:
        problem = Problem("denied", f"The coordinator says {refusal.text}.", group_id=group_id)
        if problem not in self._problems:
            self._problems.append(problem)


async def find_coordinators(
    client: BrokerClient, keys: Collection[str], *, transactional: bool = False
) -> dict[str, int | str]:
    """Ask for the coordinators of groups, or of transactional ids.

    The topic where they are kept must exist, for this creates it.

    Returns:
        Broker ids by key; the reason, where there is no coordinator.

    Raises:
        BrokerError: no broker answers.
    """
    found: dict[str, int | str] = {}
    missing = list(dict.fromkeys(keys))
    backoff = Backoff(client)
    while missing:
        for key, (code, node) in (await _ask_for(client, missing, transactional)).items():
            found[key] = error_name(code) if code else node
            if code not in _MOVING:
                missing.remove(key)
        # A coordinator that has just come may be a broker that nobody has named yet.
        if any(node not in client.brokers for node in found.values() if isinstance(node, int)):
            await client.metadata([])
        if not missing or not await backoff.wait():
            break
    return found


async def _ask_for(
    client: BrokerClient, keys: list[str], transactional: bool
) -> dict[str, tuple[int, int]]:
    """Return error code and broker id for each key."""
    version = await client.any_version(FindCoordinatorRequest)
    kind = {"key_type": int(transactional)} if version else {}
    if version is not None and version >= 4:
        answer = await client.ask_any(FindCoordinatorRequest, coordinator_keys=keys, **kind)
        return {each.key: (each.error_code, each.node_id) for each in answer.coordinators}
    answers = await client.gather(
        client.ask_any(FindCoordinatorRequest, key=key, **kind) for key in keys
    )
    found = {}
    for key, answer in zip(keys, answers, strict=True):
        if isinstance(answer, BrokerError):
            raise answer
        found[key] = (answer.error_code, answer.node_id)
    return found


async def _place(
    client: BrokerClient, keys: Collection[str], *, transactional: bool
) -> dict[str, Placement]:
    name = TRANSACTION_TOPIC if transactional else OFFSETS_TOPIC
    view = await client.metadata([name])
    topic = view.topics.get(name)
    if _is_missing(topic):
        return {}
    found = await find_coordinators(client, keys, transactional=transactional)
    brokers = client.brokers
    count = len(topic.partitions) if topic and topic.partitions else None
    placements = {}
    for key, answer in found.items():
        number = offsets_partition(key, count) if count else None
        place: Partition | None = None
        if topic is not None and number is not None:
            place = topic.partitions.get(number)
        placements[key] = Placement(
            partition_count=count,
            coordinator=brokers.get(answer) if isinstance(answer, int) else None,
            error=answer if isinstance(answer, str) else None,
            leader=brokers.get(place.leader) if place and place.leader is not None else None,
            replicas=place.replicas if place else None,
            isr=place.isr if place else None,
        )
    return placements


def _is_missing(topic: Topic | None) -> bool:
    """Tell whether a topic surely does not exist."""
    return topic is None or topic.error == error_name(_UNKNOWN_TOPIC_OR_PARTITION)


def _image(view: ClusterView, groups: Mapping[str, Group], count: int | None) -> Image:
    return Image(groups=groups, cluster_id=view.cluster_id, offsets_partition_count=count)


def _batches(homes: Iterable[_Home]) -> Iterator[tuple[int, list[_Home]]]:
    """Divide groups by coordinator, and what one has to tell into requests."""
    by_node: dict[int, list[_Home]] = {}
    for home in homes:
        by_node.setdefault(home.node, []).append(home)
    for node, part in by_node.items():
        for start in range(0, len(part), GROUPS_PER_REQUEST):
            yield node, part[start : start + GROUPS_PER_REQUEST]


async def _call(ask: Callable[[int, list[_Home]], Awaitable[T]], node: int, part: list[_Home]) -> T:
    return await ask(node, part)


def _offsets(answer: Any) -> "tuple[CommittedOffset, ...] | _Refusal":
    """Read one group's part of the answer to OffsetFetch."""
    if answer.error_code:
        return _Refusal(answer.error_code)
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
                return _Refusal(each.error_code)
    offsets.sort(key=lambda offset: (offset.topic, offset.partition))
    return tuple(offsets)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
