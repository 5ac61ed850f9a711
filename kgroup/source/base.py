"""The interface of a group source, the question it is asked, and the answers it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kgroup.errors import UsageError
from kgroup.model.cluster import ClusterView, Placement, TopicPartition
from kgroup.model.group import GroupState, GroupType, Image
from kgroup.model.log_range import EpochPosition, LogReading, NextReading, Position
from kgroup.model.offset import CommittedOffset, OffsetChange, StoreName
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import ZookeeperTree, ZookeeperView


class Capability(StrEnum):
    """Facts that a source can report; without one, the fields concerned are None or empty."""

    GENERATION = "generation"
    """Classic groups: generation, leader, members' timeouts, time of the last rebalance."""
    PENDING_OFFSETS = "pending-offsets"
    """Offsets committed in transactions that are still open."""
    COMMIT_TIMESTAMPS = "commit-timestamps"
    """The time of each commit."""
    REBALANCE_IN_FLIGHT = "rebalance-in-flight"
    """States of a classic group that leave no record: PreparingRebalance, CompletingRebalance."""
    COORDINATOR = "coordinator"
    """The broker that coordinates each group, and what only that broker reports: the assignor
    that its configuration chose, and the lag of share groups."""
    LOG_END_OFFSETS = "log-end-offsets"
    """Log end offsets of users' topics; some partitions may be missing."""
    LOG_START_OFFSETS = "log-start-offsets"
    """Log start offsets, with the same limit."""
    LAST_STABLE_OFFSETS = "last-stable-offsets"
    """Last stable offsets, where read-committed consumers stop."""
    SHARE_START_OFFSETS = "share-start-offsets"
    """Start offsets of share groups."""
    RECORDS = "records"
    """Facts that only records have: the log position of each commit; for members of the newer
    protocols, timeouts, states, partitions to revoke and the time since they own the others;
    resolved regular expressions; target assignments and partition states of share groups."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of a source to one `Question`.

    Attributes:
        image: the groups.
        problems: what could not be read.
        notes: assumptions and choices, for people.
        zookeeper: the nodes that the groups were read from; None for other sources.
        view: the decoded contents of these nodes.
    """

    image: Image
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    zookeeper: ZookeeperTree | None = None
    view: ZookeeperView | None = field(default=None, compare=False)


DEFAULT_LOG_BUDGET = 32 << 20


@dataclass(frozen=True, slots=True)
class Question:
    """What the caller needs; a source may return more where that costs nothing.

    Attributes:
        regex: also groups whose whole id matches; without ids, only these.
        states: only groups in one of these states; a group of unknown state may be left out.
        types: only groups of one of these types.
        state: state and type are needed, even where a list of groups does not contain them.
        members: members are needed, and the other facts that only describing a group returns.
        offsets: offsets are needed; ignored without `members`.
        log_budget: bytes to read from each partition of `__consumer_offsets` of a live cluster, for
            what no API returns: generation, leader and timeouts of classic groups, times of
            commits, and `preferences`; 0 if they are not needed.
        commit_times: times of commits are needed; they are the most expensive part.
        last_commits: of each group only the time of its last commit is needed, and of an empty
            classic group the time of its last state.
        preferences: of members of consumer groups, the assignors that they prefer are needed; of
            classic groups with cooperative-sticky, earlier generations.
        generations: with `preferences`, also earlier generations of classic groups with other
            strategies, which show what members list.
        nodes: for ZooKeeper: all nodes of the groups and of the cluster are needed, also those
            without a field in `Group`: partition states, topic configurations, the controller,
            and administrators' requests.
    """

    regex: Pattern | None = None
    states: frozenset[GroupState] = frozenset()
    types: frozenset[GroupType] = frozenset()
    state: bool = True
    members: bool = True
    offsets: bool = True
    log_budget: int = DEFAULT_LOG_BUDGET
    commit_times: bool = True
    last_commits: bool = False
    preferences: bool = False
    generations: bool = False
    nodes: bool = False

    def names(self, group_id: str, group_ids: Collection[str] | None) -> bool:
        """Return whether the question covers a group: its id is listed or matches the regex."""
        if group_ids is None and self.regex is None:
            return True
        return (group_ids is not None and group_id in group_ids) or (
            self.regex is not None and self.regex.fullmatch(group_id) is not None
        )


EVERYTHING = Question()


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """How a group's coordinator answered a request about the group.

    Attributes:
        time_ms: milliseconds until its answer, without connecting; None if there was none.
        problem: why there was no answer, or the error in it; None without.
    """

    time_ms: float | None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class KafkaOffsets:
    """Offsets that groups of ZooKeeper consumers have committed to Kafka.

    Attributes:
        offsets: by group, topic and partition; None if unknown.
        problems: what could not be read.
        members: number of members of the Kafka group with the same id, by id, where known.
    """

    offsets: Mapping[tuple[str, str, int], int] | None
    problems: tuple[Problem, ...] = ()
    members: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingReading:
    """Configuration values of brokers.

    Attributes:
        brokers: values as text, by broker id and by Kafka's name of the setting, for each broker
            that answered. A setting that a broker's version does not have is left out.
        problems: why the other brokers did not answer.
    """

    brokers: Mapping[int, Mapping[str, str]]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerFeatures:
    """APIs and features of a broker.

    Attributes:
        apis: newest supported version of each API, by API key.
        levels: levels of finalized features, by name (KIP-584); None if the broker reports none.
    """

    apis: Mapping[int, int]
    levels: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class OffsetReading:
    """Committed offsets read from a store.

    Attributes:
        offsets: by group, sorted by topic and partition; groups without offsets are left out.
        problems: what could not be read.
        notes: assumptions and choices, for people.
        absent: partitions without a commit when a backup was written, by group.
        saved_from: for a file, the store that it was saved from; None if the file does not say.
        empty_commits: partitions with a negative committed offset, by group, as in `Group`.
        doubtful: groups whose commits may be incomplete, because the user may not describe all
            topics; there may be no problem for them.
    """

    offsets: Mapping[str, tuple[CommittedOffset, ...]]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    absent: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    saved_from: StoreName | None = None
    empty_commits: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    doubtful: frozenset[str] = frozenset()


def is_changelog(topic: str, application: str) -> bool:
    """Return whether a topic has the name of a changelog of a Kafka Streams application.

    Stores without a name of their own have one that begins with KSTREAM or KTABLE: what precedes it
    belongs to the id of another application.
    """
    store = topic.removeprefix(f"{application}-")
    is_foreign = "-KSTREAM-" in store or "-KTABLE-" in store
    return store != topic and topic.endswith("-changelog") and not is_foreign


def known_changelogs(
    applications: Iterable[str], topics: Iterable[str], group_ids: Callable[[], Iterable[str]]
) -> dict[str, list[str]]:
    """Return which topics are changelogs of Kafka Streams applications.

    Args:
        applications: ids of applications.
        topics: names of topics.
        group_ids: called at most once, if needed: ids of groups.

    Returns:
        The names by application, sorted; none if some may be those of another application, whose
        longer id begins with this one.
    """
    of_stores = sorted(topic for topic in topics if topic.endswith("-changelog"))
    all_ids: Iterable[str] | None = None
    known = {}
    for application in applications:
        names = [topic for topic in of_stores if is_changelog(topic, application)]
        begin = f"{application}-"
        if any("-" in name.removeprefix(begin).removesuffix("-changelog") for name in names):
            all_ids = group_ids() if all_ids is None else all_ids
            others = tuple(f"{name}-" for name in all_ids if name.startswith(begin))
            names = [] if any(name.startswith(others) for name in names) else names
        known[application] = names
    return known


class GroupSource:
    """A source of groups or of their committed offsets.

    A source overrides the methods that it supports. `can` returns whether it supports one, and
    `capabilities` which facts its answers contain. A method that it does not support raises a
    UsageError that names the sources that do.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Facts that this source can report."""
        return frozenset()

    @property
    def data_time_ms(self) -> int | None:
        """Time of the data in epoch milliseconds; None for a source that is read as it is now."""
        return None

    @property
    def is_log(self) -> bool:
        """Whether it is a log, or a snapshot of one: its newest record may be older than a copy."""
        return False

    def can(self, method: Callable[..., object]) -> bool:
        """Return whether this source supports a method of `GroupSource`."""
        return getattr(type(self), method.__name__) is not method

    def _unsupported(self, what: str, takes: str) -> UsageError:
        return UsageError(f"this source does not support {what}; that takes {takes}")

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Read the groups with these ids, or all groups; ids that do not exist are left out.

        Raises:
            InputError: there is nothing to read groups from.
            BrokerError: no broker answers.
        """
        raise self._unsupported("reading groups", "a cluster, its files, ZooKeeper or a snapshot")

    def log_ranges(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> LogReading:
        """Return log start and end offsets of these partitions, where the source knows them.

        With `committed` a range ends at the last stable offset.
        """
        raise self._unsupported("log end offsets", "a cluster, its files, ZooKeeper or a snapshot")

    def renew(self, *, after_failure: bool = False) -> None:
        """Prepare the next round of a watch; `after_failure` drops all state."""

    def view(self, topics: Collection[str]) -> ClusterView:
        """Return the brokers, and these topics with their partitions. No topic is created.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("brokers and topics", "a cluster, ZooKeeper, or a snapshot of one")

    def epoch_ends(
        self, positions: Collection[EpochPosition]
    ) -> Mapping[EpochPosition, int | None]:
        """Return where leader epochs end: the offset after their last record, in today's log.

        A consumer asks for it before it resumes from a commit with a leader epoch (KIP-320).

        Returns:
            The end by topic, partition and leader epoch; None if the log has no such epoch. What is
            not known is left out.

        Raises:
            BrokerError: no broker answers.
        """
        return {}

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        """Return the coordinators of groups or transactional ids, by key; they need not exist.

        The result is empty if the cluster has no topic for them yet.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("coordinators", "a cluster, ZooKeeper, or a snapshot of one")

    def coordinator_answers(
        self, coordinators: Mapping[str, int]
    ) -> Mapping[str, CoordinatorAnswer]:
        """Ask coordinators about groups, which need not exist; return their answers, by group id.

        A broker that has no request to describe groups (0.8) is left out.

        Args:
            coordinators: broker id of the coordinator, by group id.
        """
        raise self._unsupported("asking coordinators", "a live cluster (--bootstrap-server)")

    def topic_names(self) -> Collection[str]:
        """Return the names of all topics, sorted. No topic is created.

        Raises:
            BrokerError: no broker answers.
        """
        groups = self.read(question=Question(log_budget=0)).image.groups
        return sorted({topic for group in groups.values() for topic in group.topics})

    def changelogs(self, applications: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the changelog topics of Kafka Streams applications, by id, as far as known.

        Raises:
            BrokerError: no broker answers.
        """
        return dict.fromkeys(applications, ())

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        """Return the first record at or after each of these positions.

        With `committed`, the first one that a read-committed consumer gets.
        """
        raise self._unsupported("reading records", "a live cluster (--bootstrap-server)")

    def offsets_at(self, partitions: Collection[TopicPartition], time_ms: int) -> LogReading:
        """Return ranges that start at the first record of a time or later, in epoch milliseconds.

        The start is None if there is no such record. Partitions whose log has no timestamps are
        left out, with a problem.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("offsets of a time", "a live cluster (--bootstrap-server)")

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the size in bytes of these partitions on their leaders, where it is complete.

        A partition with segments in remote storage is left out.

        Raises:
            BrokerError: no broker answers.
        """
        return {}

    def broker_settings(self, names: Collection[str]) -> SettingReading:
        """Return these settings of every broker.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("configurations of brokers", "a live cluster (--bootstrap-server)")

    def topic_settings(self, topic: str, names: Collection[str]) -> Mapping[str, str]:
        """Return these settings of a topic, including defaults.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("configurations of topics", "a live cluster (--bootstrap-server)")

    def group_settings(self, group_id: str, names: Collection[str]) -> Mapping[str, str]:
        """Return these settings of a group, including defaults; the group need not exist.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("configurations of groups", "a live cluster (--bootstrap-server)")

    def features(self, broker_id: int) -> BrokerFeatures:
        """Return the APIs and features of a broker.

        Raises:
            BrokerError: the broker does not answer.
        """
        raise self._unsupported("features of brokers", "a live cluster (--bootstrap-server)")

    def unreachable(self) -> Mapping[int, Problem]:
        """Connect to every broker; return the problem of each that cannot be reached, by id.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("connecting to brokers", "a live cluster (--bootstrap-server)")

    def kafka_offsets(self, group_ids: Collection[str]) -> KafkaOffsets:
        """Return the offsets committed to Kafka by groups with these ids."""
        return KafkaOffsets(None)

    def subtree(self, path: str, depth: int | None = None) -> ZookeeperTree:
        """Read a node and its descendants down to a depth, if they exist; others may be included.

        Raises:
            BrokerError: ZooKeeper does not answer.
        """
        raise self._unsupported(
            "nodes of ZooKeeper", "--zookeeper HOST:PORT/CHROOT, or a snapshot of it"
        )

    # --- committed offsets and changes ---

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        """Read the committed offsets of groups with these ids or a matching id.

        Without both, of all groups.

        Raises:
            InputError: there is nothing to read offsets from.
            BrokerError: no server answers.
        """
        raise self._unsupported("reading offsets alone", "a cluster, ZooKeeper, a table or a file")

    @property
    def store_name(self) -> StoreName | None:
        """The name of the store that can be changed; None if there is none. Sends no request."""
        return None

    @property
    def keeps_metadata(self) -> bool:
        """Whether the store keeps metadata with an offset; if not, none may be passed."""
        return True

    @property
    def keeps_leader_epochs(self) -> bool:
        """Whether the store keeps leader epochs; older servers may still drop them."""
        return True

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        """Change committed offsets, by group; where the store can, all of a group or none.

        A group is not changed if it has members, or if an offset differs from
        `OffsetChange.before` by now. `on_done` is called with each group that was written
        completely, perhaps more than once, so that an interrupted caller knows them.

        Returns:
            The changes that were not made, with reasons; problems of a whole group have no topic.
            With a problem of kind "unknown-end" it is unknown whether the change was made.

        Raises:
            BrokerError: no server answers and nothing was changed; or (`was_sent`) it is unknown
                whether everything was changed, or nothing.
        """
        raise self._unsupported("changes of offsets", "a cluster, ZooKeeper or a table")

    def divided(self, changes: Mapping[str, Sequence[OffsetChange]]) -> Mapping[str, int]:
        """Return the number of requests of each group that needs several. Sends no request."""
        return {}

    def delete_groups(
        self, group_ids: Collection[str], on_done: Callable[[str], object] = lambda group_id: None
    ) -> tuple[Problem, ...]:
        """Delete groups without members, and their committed offsets.

        Returns:
            A problem for each group that was not deleted, also for a group that exists again
            when the result is verified; "unknown-end" as in `write_offsets`.

        Raises:
            BrokerError: as in `write_offsets`.
        """
        raise self._unsupported("deleting groups", "a cluster or ZooKeeper")

    def remove_members(
        self, group_id: str, members: Mapping[str, str | None], reason: str | None = None
    ) -> Mapping[str, Problem]:
        """Remove members by member id, mapped to `group.instance.id` (None: a dynamic member).

        A static member that another one has replaced is gone already; its successor stays.

        Returns:
            A problem for each member that was not removed, by member id; with kind "unknown-end"
            it is unknown whether the member was removed.

        Raises:
            BrokerError: no broker answers; no member was removed.
        """
        raise self._unsupported("removing members", "a live cluster (--bootstrap-server)")


class OffsetTable(GroupSource, ABC):
    """A table in which applications store offsets together with their results."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Database and table, for people, without secrets."""

    @property
    @abstractmethod
    def fences(self) -> bool:
        """Whether a generation column fences writers that have lost a partition."""

    @abstractmethod
    def has_table(self) -> bool:
        """Return whether the table exists.

        Raises:
            InputError: the table exists and cannot be written.
            BrokerError: the server does not answer.
        """
