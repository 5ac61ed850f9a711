"""Groups of a live cluster, requested from its brokers; reading changes nothing.

Each group is known to one broker, its coordinator: the leader of its partition of
`__consumer_offsets`. All brokers are therefore asked for their groups at once, or, for named
groups, any broker for their coordinators; then each coordinator for its groups, many in one
request. If a group's coordinator moves meanwhile, it is looked up and queried again, with growing
pauses. A broker's failure becomes a `Problem`, returned with the groups of the other brokers.

Two requests can create topics: Metadata that names a topic (see `BrokerClient.metadata`), and
FindCoordinator if `__consumer_offsets` is missing; so that topic is looked up first. Without it,
brokers are only asked for their lists of groups, and for coordinators only if there is a group: see
`list_hidden_groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kgroup import __version__
from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import ClusterView, Partition, Placement, Topic, TopicPartition
from kgroup.model.group import Group, GroupType, Image
from kgroup.model.log_range import EpochPosition, LogReading, NextReading, Position
from kgroup.model.offset import CommittedOffset, OffsetChange, StoreName, split_commits
from kgroup.model.offsets_partition import OFFSETS_TOPIC, TRANSACTION_TOPIC, offsets_partition
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.base import (
    DEFAULT_LOG_BUDGET,
    EVERYTHING,
    BrokerFeatures,
    Capability,
    CoordinatorAnswer,
    GroupSource,
    OffsetReading,
    Question,
    Reading,
    SettingReading,
    known_changelogs,
)
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient, P, T
from kgroup.source.broker.coordinator import (
    CoordinatedGroup,
    CoordinatorRefusal,
    Coordinators,
    find_coordinators,
    is_missing,
    partition_of,
)
from kgroup.source.broker.error_code import error_name, what_it_needs
from kgroup.source.broker.group_api import DESCRIBE_BY_TYPE
from kgroup.source.broker.group_list import list_groups, list_hidden_groups
from kgroup.source.broker.group_reader import GroupReader, OffsetFetcher
from kgroup.source.broker.visibility import (
    HIDDEN_GROUPS,
    LeftOut,
    find_left_out,
    lists_every_group,
    shows_every_topic,
    topics_read,
)
from kgroup.source.deadline import Deadline

if TYPE_CHECKING:
    from kgroup.source.broker.live_log import LiveLog
    from kgroup.source.broker.offsets_log import LogMemory


_OLD = (
    "Brokers of Kafka 0.8 do not report members, which are in ZooKeeper: members, states and "
    "commits to ZooKeeper are unknown."
)
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class LiveCluster(GroupSource):
    """A source of groups and a store of their committed offsets; a context manager."""

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
    keeps_metadata = True
    keeps_leader_epochs = True

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        timeout_s: float = 10.0,
        of_silence: bool = False,
        deadline: Deadline | None = None,
        **options: Any,
    ) -> None:
        """Create the source, without a connection; see `BrokerClient`.

        Args:
            bootstrap: see `BrokerClient`.
            timeout_s: time limit, in seconds, for everything done with this object from the first
                request until `renew`; with `of_silence`, for the time in which no broker answers.
            of_silence: see `timeout_s`.
            deadline: used instead of `timeout_s`, to share the limit with another server.
            options: see `BrokerClient`.
        """
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._of_silence = of_silence
        self._deadline = deadline
        self._options = options
        self._client: BrokerClient | None = None
        self._memory: LogMemory | None = None

    def __enter__(self) -> LiveCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def renew(self, *, after_failure: bool = False) -> None:
        """Retry brokers that did not answer, or reconnect; see `GroupSource.renew`.

        From now on, only new records of `__consumer_offsets` are read. The timeout restarts.
        """
        if self._memory is None:
            from kgroup.source.broker.offsets_log import LogMemory

            self._memory = LogMemory()
        if self._deadline is not None:
            self._deadline.restart()
        if after_failure:
            self.close()
        if self._client is not None:
            self._client.forgive()

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Read groups from the brokers; see `GroupSource.read`.

        Raises:
            BrokerError: no bootstrap server answers.
        """
        client = self._connected()
        return client.run(_Inquiry(client, question, self._memory).read, group_ids)

    def log_ranges(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> LogReading:
        """Return log start and end offsets from the leaders; see `GroupSource.log_ranges`."""
        from kgroup.source.broker.topic_offset import read_log_ranges

        return self._ask(read_log_ranges, partitions, committed=committed)

    def offsets_at(self, partitions: Collection[TopicPartition], time_ms: int) -> LogReading:
        """Return offsets of a time from the leaders; see `GroupSource.offsets_at`."""
        from kgroup.source.broker.topic_offset import read_offsets_at

        return self._ask(read_offsets_at, partitions, time_ms)

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return partition sizes from the leaders; see `GroupSource.log_sizes`."""
        from kgroup.source.broker.topic_offset import read_log_sizes

        return self._ask(read_log_sizes, partitions)

    def epoch_ends(
        self, positions: Collection[EpochPosition]
    ) -> Mapping[EpochPosition, int | None]:
        """Return the ends of leader epochs from the leaders; see `GroupSource.epoch_ends`."""
        from kgroup.source.broker.topic_offset import read_epoch_ends

        return self._ask(read_epoch_ends, positions)

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        """Return next records from the leaders; see `GroupSource.next_records`."""
        from kgroup.source.broker.next_record import read_next_records

        return self._ask(read_next_records, positions, committed=committed)

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        """Return the coordinators of groups or transactional ids; see `GroupSource.placements`."""
        return self._ask(placements_of, keys, transactional=transactional)

    def coordinator_answers(
        self, coordinators: Mapping[str, int]
    ) -> Mapping[str, CoordinatorAnswer]:
        """Send each coordinator one DescribeGroups; see `GroupSource.coordinator_answers`."""
        return self._ask(answers_of, coordinators)

    def view(self, topics: Collection[str]) -> ClusterView:
        """Return the brokers and these topics; see `GroupSource.view`."""
        client = self._connected()
        view = client.run(client.metadata, topics)
        # Old brokers return all topics.
        selected = {name: view.topics[name] for name in sorted(topics) if name in view.topics}
        return replace(view, topics=selected)

    def features(self, broker_id: int) -> BrokerFeatures:
        """Return the APIs and features of a broker; see `GroupSource.features`."""
        return self._ask(read_features, broker_id)

    def unreachable(self) -> Mapping[int, Problem]:
        """Connect to all brokers at once; see `GroupSource.unreachable`."""
        return self._ask(find_unreachable)

    def topic_names(self) -> list[str]:
        """Return the names of all topics; see `GroupSource.topic_names`."""
        client = self._connected()
        return sorted(client.run(client.metadata, None).topics)

    def changelogs(self, applications: Collection[str]) -> dict[str, list[str]]:
        """Return the changelog topics of applications; see `GroupSource.changelogs`."""
        only_ids = Question(members=False, log_budget=0)
        return known_changelogs(
            applications, self.topic_names(), lambda: self.read(question=only_ids).image.groups
        )

    def broker_settings(self, names: Collection[str]) -> SettingReading:
        """Return settings of every broker; see `GroupSource.broker_settings`."""
        return self._ask(read_broker_settings, names)

    def topic_settings(self, topic: str, names: Collection[str]) -> Mapping[str, str]:
        """Return settings of a topic; see `GroupSource.topic_settings`."""
        return self._ask(read_topic_settings, topic, names)

    def group_settings(self, group_id: str, names: Collection[str]) -> Mapping[str, str]:
        """Return settings of a group (4.0 and later); see `GroupSource.group_settings`."""
        return self._ask(read_group_settings, group_id, names)

    def read_offsets(
        self,
        group_ids: Collection[str] | None = None,
        regex: Pattern | None = None,
        *,
        log_budget: int = 0,
    ) -> OffsetReading:
        """Read only committed offsets, from the coordinators; see `GroupSource.read_offsets`.

        With `log_budget` (bytes to read of each partition of `__consumer_offsets`), add what only
        records have: the time of each commit, its expiration, the topic id. Brokers before 0.10 do
        not list groups that only commit, and 0.8 lists none: name them.
        """
        return self._ask(read_offsets, group_ids, regex, log_budget=log_budget)

    # --- changes ---

    @property
    def store_name(self) -> StoreName:
        """The bootstrap servers, and the cluster id once known."""
        servers = self._bootstrap if isinstance(self._bootstrap, str) else ",".join(self._bootstrap)
        cluster_id = None if self._client is None else self._client.cluster_id
        return StoreName(f"the cluster {servers}", cluster_id)

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        """Commit and delete offsets; see `GroupSource.write_offsets`.

        A group's commits are sent in one request, which the coordinator writes atomically. More
        than 5,000 partitions, or 900,000 bytes of records, take several requests, and deletions
        another one, after the commits. An error between them leaves part of the changes, reported
        by partition. Errors that concern one partition are reported likewise: the group's other
        partitions are committed then.

        Deletions alone are sent also for groups with members: the broker rejects them for topics
        that members subscribe to. Kafka before 2.4 cannot delete single offsets.
        """
        from kgroup.source.broker.offset_writer import write_offsets

        return self._ask(write_offsets, changes, on_done)

    def divided(self, changes: Mapping[str, Sequence[OffsetChange]]) -> Mapping[str, int]:
        """Return the number of requests for each group that needs more than one.

        See `GroupSource.divided`.
        """
        from kgroup.source.broker.offset_writer import divided

        return divided(changes)

    def delete_groups(
        self, group_ids: Collection[str], on_done: Callable[[str], object] = lambda group_id: None
    ) -> tuple[Problem, ...]:
        """Delete groups of any type (Kafka 1.1 and later); see `GroupSource.delete_groups`."""
        from kgroup.source.broker.group_remover import delete_groups

        return self._ask(delete_groups, group_ids, on_done)

    def remove_members(
        self, group_id: str, members: Mapping[str, str | None], reason: str | None = None
    ) -> Mapping[str, Problem]:
        """Remove members from a group; see `GroupSource.remove_members`.

        A member that is still running rejoins immediately. Before 2.4, there is one request per
        member, without instance ids; the reason, for the broker's log, is sent to 3.2 and later.
        """
        from kgroup.source.broker.group_remover import remove_members

        return self._ask(remove_members, group_id, members, reason)

    # --- the log ---

    def offsets_log(
        self, folder: Path, on_progress: Callable[[LiveLog], None] = lambda log: None
    ) -> LiveLog:
        """Return the records of `__consumer_offsets`; see `LiveLog`."""
        from kgroup.source.broker.live_log import LiveLog

        return LiveLog(self._connected(), folder, on_progress)

    def _ask(
        self,
        main: Callable[Concatenate[BrokerClient, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function that takes the client; see `BrokerClient.run`."""
        client = self._connected()
        return client.run(main, client, *args, **kwargs)

    def _connected(self) -> BrokerClient:
        if self._client is None:
            if self._deadline is None:
                self._deadline = Deadline(self._timeout_s, of_silence=self._of_silence)
            self._client = BrokerClient(self._bootstrap, self._deadline, **self._options)
            self._client.run(self._client.connect)
        return self._client


class _Inquiry:
    """One call of `LiveCluster.read`."""

    def __init__(self, client: BrokerClient, question: Question, memory: LogMemory | None) -> None:
        self._client = client
        self._question = question
        self._memory = memory
        self._count: int | None = None

    async def read(self, group_ids: Collection[str] | None) -> Reading:
        """See `GroupSource.read`."""
        client, question = self._client, self._question
        view = await client.metadata([OFFSETS_TOPIC])
        topic = view.topics.get(OFFSETS_TOPIC)
        if is_missing(topic):
            self._coordinators = Coordinators(client, named=False)
            listed = await list_hidden_groups(client, self._coordinators)
            if not listed:
                problems = tuple(self._coordinators.problems)
                return Reading(_image(view, {}, None), problems, () if problems else (NOBODY,))
            coordinators = self._select(listed, group_ids)
        elif group_ids is not None and question.regex is None:
            self._coordinators = Coordinators(client, named=True)
            coordinators = await self._coordinators.find(group_ids)
        else:
            self._coordinators = Coordinators(client, named=False)
            coordinators = self._select(
                await list_groups(client, self._coordinators, question, topic), group_ids
            )
        self._count = len(topic.partitions) if topic and topic.partitions else None
        groups = {
            coordinator.group_id: self._listed(coordinator)
            for coordinator in coordinators
            if coordinator.is_listed
        }
        unknown = coordinators if question.members else await self._of_unknown_state(coordinators)
        if unknown:
            from kgroup.source.broker.group_reader import GroupReader

            reader = GroupReader(client, self._coordinators, self._count)
            offsets = question.members and question.offsets
            groups = await reader.read(unknown, groups, offsets=offsets)
        selected = {id_: group for id_, group in sorted(groups.items()) if self._is_wanted(group)}
        left_out = LeftOut()
        notes: list[str] = []
        if not is_missing(topic):  # the requests would create it
            named = group_ids is not None and question.regex is None
            left_out = await self._left_out(selected, named=named)
            notes += left_out.notes
            if not named and not await lists_every_group(client):
                notes.append(HIDDEN_GROUPS)
        if self._count is None:
            notes.append(_unknown_partitions(topic))
        elif question.members and question.log_budget:
            from kgroup.source.broker.offsets_log import read_details

            selected, more = await read_details(
                client,
                selected,
                question.log_budget,
                self._memory,
                commit_times=question.commit_times,
                last_commits=question.last_commits,
                preferences=question.preferences,
                generations=question.generations,
            )
            notes += more
        describes = (
            await client.any_version(DESCRIBE_BY_TYPE[GroupType.CLASSIC].request) is not None
        )
        if question.members and not describes:
            notes.append(_OLD)
        image = _image(view, selected, self._count)
        notes = [*self._coordinators.notes, *notes]
        problems = (*self._coordinators.problems, *left_out.problems)
        return Reading(image, problems, tuple(notes))

    async def _left_out(self, groups: Mapping[str, Group], *, named: bool) -> LeftOut:
        """Return which commits brokers have left out, if commits were requested."""
        question = self._question
        if not (question.members and question.offsets):
            return LeftOut()
        commits = {
            id_: {offset.topic for offset in group.offsets} | {at[0] for at in group.empty_commits}
            for id_, group in groups.items()
            if group.type is not GroupType.SHARE
        }
        read = {group_id: topics_read(groups[group_id]) for group_id in commits}
        budget = question.log_budget
        return await find_left_out(self._client, commits, read, named=named, log_budget=budget)

    def _select(
        self, coordinators: Iterable[CoordinatedGroup], group_ids: Collection[str] | None
    ) -> list[CoordinatedGroup]:
        """Return the groups that match the question, as far as a list says."""
        question = self._question
        names = None if group_ids is None else set(group_ids)
        return [
            coordinator
            for coordinator in coordinators
            if question.names(coordinator.group_id, names)
            if not question.types or coordinator.type is None or coordinator.type in question.types
            if not question.states
            or coordinator.state is None
            or coordinator.state in question.states
        ]

    def _is_wanted(self, group: Group) -> bool:
        """Return whether a group passes the filters, when all its facts are known."""
        question = self._question
        return (not question.types or group.type in question.types) and (
            not question.states or group.state in question.states
        )

    async def _of_unknown_state(
        self, coordinators: Iterable[CoordinatedGroup]
    ) -> list[CoordinatedGroup]:
        """Return the groups whose state or type an older broker's list does not contain.

        A group of unknown type is classic, unless the broker can describe other types.
        """
        if not self._question.state:
            return []
        unknown = {coordinator for coordinator in coordinators if coordinator.state is None}
        other = DESCRIBE_BY_TYPE[GroupType.CONSUMER].request
        for node in {coordinator.node for coordinator in coordinators if coordinator.type is None}:
            if node is not None and await self._client.version(node, other) is not None:
                unknown.update(
                    coordinator
                    for coordinator in coordinators
                    if coordinator.node == node and coordinator.type is None
                )
        return [coordinator for coordinator in coordinators if coordinator in unknown]

    def _listed(self, coordinator: CoordinatedGroup) -> Group:
        """Return a group with the facts of a list."""
        type_ = coordinator.type or GroupType.CLASSIC
        return Group(
            group_id=coordinator.group_id,
            type=type_,
            state=coordinator.state if coordinator.state in type_.states else None,
            protocol_type=coordinator.protocol_type,
            coordinator=self._client.broker(coordinator.node),
            offsets_partition=partition_of(coordinator.group_id, self._count),
        )


def _unknown_partitions(topic: Topic | None) -> str:
    """Return why the partitions of `__consumer_offsets` are unknown, and what is missing."""
    error = topic.error if topic is not None else None
    needs = f" ({what_it_needs(_TOPIC_DENIED)})" if error == error_name(_TOPIC_DENIED) else ""
    return (
        f"{OFFSETS_TOPIC}: the cluster returned {error or 'no partitions of it'}{needs}; groups' "
        "partitions of it, generations, leaders, timeouts and times of commits are unknown."
    )


def _image(view: ClusterView, groups: Mapping[str, Group], count: int | None) -> Image:
    return Image(groups=groups, cluster_id=view.cluster_id, offsets_partition_count=count)


async def placements_of(
    client: BrokerClient, keys: Collection[str], *, transactional: bool
) -> dict[str, Placement]:
    """Return coordinators, and the partitions that determine them; see `GroupSource`."""
    name = TRANSACTION_TOPIC if transactional else OFFSETS_TOPIC
    view = await client.metadata([name])
    topic = view.topics.get(name)
    if is_missing(topic):
        coordinators = Coordinators(client, named=False)
        if transactional or not await list_hidden_groups(client, coordinators):
            return {}
    answers = await find_coordinators(client, keys, transactional=transactional)
    brokers = client.brokers
    count = len(topic.partitions) if topic and topic.partitions else None
    placements = {}
    for key, answer in answers.items():
        partition: Partition | None = None
        if topic is not None and count is not None:
            partition = topic.partitions.get(offsets_partition(key, count))
        leader = partition.leader if partition else None
        placements[key] = Placement(
            partition_count=count,
            coordinator=brokers.get(answer) if isinstance(answer, int) else None,
            error=str(answer) if isinstance(answer, CoordinatorRefusal) else None,
            leader=None if leader is None else brokers.get(leader),
            replicas=partition.replicas if partition else None,
            isr=partition.isr if partition else None,
        )
    return placements


async def answers_of(
    client: BrokerClient, coordinators: Mapping[str, int]
) -> dict[str, CoordinatorAnswer]:
    """Send each coordinator one DescribeGroups; see `GroupSource.coordinator_answers`."""

    async def ask(node: int, group_ids: list[str]) -> tuple[float, dict[str, int]] | None:
        if await client.version(node, DescribeGroupsRequest) is None:
            return None
        start = monotonic()
        answer = await client.ask(node, DescribeGroupsRequest, groups=group_ids)
        time_ms = round(1000 * (monotonic() - start), 1)
        codes = {group.group_id: group.error_code for group in answer.groups}
        return time_ms, only_asked(codes, group_ids, "DescribeGroups", node)

    if not client.brokers.keys() >= set(coordinators.values()):
        await client.metadata(())
    by_node: dict[int, list[str]] = {}
    for group_id, node in coordinators.items():
        by_node.setdefault(node, []).append(group_id)
    results = await client.gather(ask(node, group_ids) for node, group_ids in by_node.items())
    answers = {}
    for (node, group_ids), result in zip(by_node.items(), results, strict=True):
        if result is None:
            continue
        for group_id in group_ids:
            time_ms = problem = None
            if isinstance(result, BrokerError):
                problem = Problem(result.kind, str(result), group_id=group_id, broker=node)
            else:
                time_ms, code = result[0], result[1][group_id]
                if code not in (0, ErrorCode.GROUP_ID_NOT_FOUND):
                    text = f"The coordinator answers, but with {CoordinatorRefusal(code)}."
                    kind = ProblemKind.DENIED if what_it_needs(code) else ProblemKind.NO_COORDINATOR
                    problem = Problem(kind, text, group_id=group_id, broker=node)
            answers[group_id] = CoordinatorAnswer(time_ms, problem)
    return answers


NOBODY = (
    f"The cluster has no topic {OFFSETS_TOPIC}, and no broker lists a group: the cluster has never "
    "had one."
)


async def read_offsets(
    client: BrokerClient,
    group_ids: Collection[str] | None,
    regex: Pattern | None,
    *,
    log_budget: int = 0,
) -> OffsetReading:
    """Read committed offsets; see `GroupSource.read_offsets`, `LiveCluster.read_offsets`.

    Raises:
        BrokerError: no broker answers.
    """
    view = await client.metadata([OFFSETS_TOPIC])
    topic = view.topics.get(OFFSETS_TOPIC)
    question = Question(regex=regex)
    if is_missing(topic):
        coordinators = Coordinators(client, named=False)
        listed = await list_hidden_groups(client, coordinators)
        if not listed and not coordinators.problems:
            return OffsetReading({}, notes=(NOBODY,))
        groups = [group for group in listed if question.names(group.group_id, group_ids)]
    elif group_ids is not None and regex is None:
        coordinators = Coordinators(client, named=True)
        groups = await coordinators.find(dict.fromkeys(group_ids))
    else:
        coordinators = Coordinators(client, named=False)
        listed = await list_groups(client, coordinators, question, topic)
        groups = [group for group in listed if question.names(group.group_id, group_ids)]
    groups = [group for group in groups if group.type is not GroupType.SHARE]
    by_group = await coordinators.ask(groups, OffsetFetcher(client).fetch)
    split = {group_id: split_commits(stored) for group_id, stored in sorted(by_group.items())}
    offsets = {group_id: commits for group_id, (commits, _) in split.items() if commits}
    empty = {group_id: ats for group_id, (_, ats) in split.items() if ats}
    notes = list(coordinators.notes)
    left_out = LeftOut()
    if not is_missing(topic):  # the requests would create it
        named = group_ids is not None and regex is None
        if not named and not await lists_every_group(client):
            notes.append(HIDDEN_GROUPS)
        if not await shows_every_topic(client):
            left_out = await _left_out(client, coordinators, groups, by_group, named=named)
            notes += left_out.notes
    if log_budget and topic is not None and topic.partitions:
        offsets, more = await _with_times(client, offsets, len(topic.partitions), log_budget)
        notes += more
    problems = (*coordinators.problems, *left_out.problems)
    return OffsetReading(
        offsets, problems, tuple(notes), empty_commits=empty, doubtful=left_out.doubtful
    )


async def _left_out(
    client: BrokerClient,
    coordinators: Coordinators,
    asked: Collection[CoordinatedGroup],
    committed: Mapping[str, Collection[CommittedOffset]],
    *,
    named: bool,
) -> LeftOut:
    """Return which commits of these groups brokers have left out."""
    reader = GroupReader(client, coordinators, None)
    groups = await coordinators.ask(asked, reader.describe) if named else {}
    exists = committed.keys() - {group_id for group_id, group in groups.items() if group is None}
    exists |= {group_id for group_id, commits in committed.items() if commits}
    return await find_left_out(
        client,
        {exist: {commit.topic for commit in committed[exist]} for exist in sorted(exists)},
        {group_id: topics_read(group) for group_id, group in groups.items() if group is not None},
        named=named,
        log_budget=DEFAULT_LOG_BUDGET,
    )


async def _with_times(
    client: BrokerClient,
    offsets: Mapping[str, tuple[CommittedOffset, ...]],
    partition_count: int,
    log_budget: int,
) -> tuple[dict[str, tuple[CommittedOffset, ...]], list[str]]:
    """Add the facts of commit records."""
    from kgroup.source.broker.offsets_log import read_details

    groups = {
        group_id: Group(  # no protocol type, so that GroupMetadata is not searched
            group_id=group_id,
            type=GroupType.CLASSIC,
            state=None,
            offsets=commits,
            offsets_partition=partition_of(group_id, partition_count),
        )
        for group_id, commits in offsets.items()
    }
    completed, notes = await read_details(client, groups, log_budget, None, commit_times=True)
    return {group_id: group.offsets for group_id, group in completed.items()}, notes


_FINALIZED = 3
"""First version of ApiVersions with finalized features (KIP-584)."""


async def read_features(client: BrokerClient, node: int) -> BrokerFeatures:
    """Return the APIs and features of a broker; see `GroupSource.features`.

    Raises:
        BrokerError: the broker does not answer.
    """
    if node not in client.brokers:
        await client.metadata(())
    version = await client.version(node, ApiVersionsRequest)
    if version is None:
        text = f"broker {node} has no ApiVersions API"
        raise BrokerError(ProblemKind.UNSUPPORTED, text, node)
    answer = await client.ask(
        node, ApiVersionsRequest, client_software_name="kgroup", client_software_version=__version__
    )
    if answer.error_code:
        name = error_name(answer.error_code)
        raise BrokerError(ProblemKind.UNUSABLE, f"broker {node} answered ApiVersions: {name}", node)
    apis = {key.api_key: key.max_version for key in answer.api_keys}
    levels = None
    if version >= _FINALIZED and answer.finalized_features_epoch >= 0:
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return BrokerFeatures(apis, levels)


async def find_unreachable(client: BrokerClient) -> dict[int, Problem]:
    """Connect to every broker; see `GroupSource.unreachable`.

    Raises:
        BrokerError: no broker answers.
    """
    brokers = list((await client.metadata(())).brokers)
    answers = await client.gather(client.version(broker, MetadataRequest) for broker in brokers)
    return {
        broker: Problem(answer.kind, str(answer), broker=broker)
        for broker, answer in zip(brokers, answers, strict=True)
        if isinstance(answer, BrokerError)
    }


_TOPIC, _BROKER, _GROUP = 2, 4, 32
"""Types of resources (`ConfigResource.Type`)."""
_WHAT = {_TOPIC: "topic", _BROKER: "broker", _GROUP: "group"}
_DENIED = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


async def read_broker_settings(client: BrokerClient, names: Collection[str]) -> SettingReading:
    """Return settings of every broker; see `GroupSource.broker_settings`."""
    await client.metadata([])
    brokers = list(client.brokers)
    answers = await client.gather(
        _read_settings(client, broker, _BROKER, str(broker), names) for broker in brokers
    )
    settings: dict[int, Mapping[str, str]] = {}
    problems = []
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, BrokerError):
            problems.append(Problem(answer.kind, str(answer), broker=broker))
        else:
            settings[broker] = answer
    return SettingReading(settings, tuple(problems))


async def read_group_settings(
    client: BrokerClient, group_id: str, names: Collection[str]
) -> Mapping[str, str]:
    """Return settings of a group from any broker; see `GroupSource.group_settings`."""
    await client.metadata([])
    return await _read_settings(client, None, _GROUP, group_id, names)


async def read_topic_settings(
    client: BrokerClient, topic: str, names: Collection[str]
) -> Mapping[str, str]:
    """Return settings of a topic from any broker; see `GroupSource.topic_settings`."""
    await client.metadata([])
    return await _read_settings(client, None, _TOPIC, topic, names)


async def _read_settings(
    client: BrokerClient, node: int | None, type_: int, name: str, keys: Collection[str]
) -> Mapping[str, str]:
    from kafka.protocol.admin.configs import DescribeConfigsRequest

    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=type_, resource_name=name, configuration_keys=sorted(keys)
    )
    if node is None:
        answer = await client.ask_any(DescribeConfigsRequest, resources=[resource])
    else:
        answer = await client.ask(node, DescribeConfigsRequest, resources=[resource])
    settings: dict[str, str] = {}
    for result in answer.results:
        if code := result.error_code:
            needs = what_it_needs(code, "DESCRIBE_CONFIGS")
            raise BrokerError(
                ProblemKind.DENIED if code in _DENIED else ProblemKind.UNUSABLE,
                f"settings of {_WHAT[type_]} {name} are not reported: {error_name(code)}"
                + (f" ({needs})" if needs else ""),
                node,
            )
        settings |= {
            config.name: config.value for config in result.configs if config.value is not None
        }
    return settings
