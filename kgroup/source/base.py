"""What sources of groups are asked, and say that they know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kgroup.errors import UsageError
from kgroup.model.cluster import ClusterView, Placement
from kgroup.model.group import GroupState, GroupType, Image
from kgroup.model.log_range import LogReading, NextReading, Position
from kgroup.model.offset import CommittedOffset, OffsetChange, StoreName
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import ZookeeperTree, ZookeeperView


class Capability(StrEnum):
    """What a source knows; without it, the fields concerned are None or empty."""

    GENERATION = "generation"
    """Of classic groups: generation, leader, members' timeouts, time of the last rebalance."""
    PENDING_OFFSETS = "pending-offsets"
    """Commits of open transactions."""
    COMMIT_TIMESTAMPS = "commit-timestamps"
    """When each offset was committed."""
    REBALANCE_IN_FLIGHT = "rebalance-in-flight"
    """The states that a classic group passes through without a record."""
    COORDINATOR = "coordinator"
    """Which broker runs each group, and what that one alone tells: the assignor that its
    configuration chose, how far share groups are behind."""
    TOPIC_IDS = "topic-ids"
    """Ids of topics in assignments that name them."""
    LOG_END_OFFSETS = "log-end-offsets"
    """Where the partitions of users' topics end; perhaps not of all."""
    LOG_START_OFFSETS = "log-start-offsets"
    """Where they begin; likewise."""
    LAST_STABLE_OFFSETS = "last-stable-offsets"
    """Where they end for readers of committed records only."""
    SHARE_START_OFFSETS = "share-start-offsets"
    """How far share groups have come."""
    RECORDS = "records"
    """What only records tell: where each commit lies in the log; of members that are not classic
    timeouts, states, what they must give up and since when they own the rest; resolved regular
    expressions; target assignments of share groups and the states of their partitions."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source said when it was asked once.

    Attributes:
        image: the groups.
        problems: what could not be read.
        notes: what was assumed or chosen, for people.
        zookeeper: of ZooKeeper: the nodes that the groups were read from, and
        view: what these say.
    """

    image: Image
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    zookeeper: ZookeeperTree | None = None
    view: ZookeeperView | None = field(default=None, compare=False)


DEFAULT_LOG_BUDGET = 32 << 20


@dataclass(frozen=True, slots=True)
class Question:
    """What the asker needs to know; a source for which it is no more work may say more.

    Attributes:
        regex: also the groups whose whole id matches; where no ids are given, these only.
        states: only groups in any of these; a group whose state is unknown may be left out.
        types: only groups of any of these.
        state: whether state and type matter where a list of groups does not tell them.
        members: whether members matter, and what else is known only of a group that is described.
        offsets: whether offsets matter; without `members` they do not.
        log_budget: bytes of each partition of `__consumer_offsets` that a live cluster may be asked
            for, to know what no API tells: generation, leader and timeouts of classic groups,
            times of commits; 0 where they do not matter.
        commit_times: whether it matters when offsets were committed; it takes longest to find out.
        nodes: of ZooKeeper: whether all its nodes matter that have to do with the groups or are the
            cluster's, also those that no `Group` tells of: states of partitions, configurations of
            topics, the controller, what an administrator asked for.
    """

    regex: Pattern | None = None
    states: frozenset[GroupState] = frozenset()
    types: frozenset[GroupType] = frozenset()
    state: bool = True
    members: bool = True
    offsets: bool = True
    log_budget: int = DEFAULT_LOG_BUDGET
    commit_times: bool = True
    nodes: bool = False

    def names(self, group_id: str, group_ids: Collection[str] | None) -> bool:
        """Return whether a group is one that is asked for, among these ids or by the regex."""
        if group_ids is None and self.regex is None:
            return True
        return (group_ids is not None and group_id in group_ids) or (
            self.regex is not None and self.regex.fullmatch(group_id) is not None
        )


EVERYTHING = Question()


@dataclass(frozen=True, slots=True)
class KafkaOffsets:
    """What groups of ZooKeeper consumers have committed to Kafka.

    Attributes:
        offsets: by group, topic and partition; None where they are not known.
        problems: what could not be read.
        members: how many groups of the same ids have in Kafka, by id, as far as it is known.
    """

    offsets: Mapping[tuple[str, str, int], int] | None
    problems: tuple[Problem, ...] = ()
    members: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingReading:
    """What brokers are configured with.

    Attributes:
        brokers: values as texts, by broker and by Kafka's name; of those that told. What a broker
            does not know, as it is too old or too new for it, is left out.
        problems: why others did not.
    """

    brokers: Mapping[int, Mapping[str, str]]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerFeatures:
    """What a broker can do.

    Attributes:
        apis: newest version of each API that it has, by Kafka's number.
        levels: of finalized features, by name (KIP-584); None where it tells of none.
    """

    apis: Mapping[int, int]
    levels: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class OffsetReading:
    """What a store of offsets said.

    Attributes:
        offsets: by group, sorted by topic and partition; groups without any are left out.
        problems: what could not be read.
        notes: what was assumed or chosen, for people.
        absent: topics and partitions, by group, for which nothing was committed, as a backup says.
        saved_from: of a file: the store that it was saved from; None where it does not say.
        empty_commits: by group, as in `Group`: partitions with a negative number for an offset.
        doubtful: groups of which commits may be missing, for topics that the user may not describe;
            no problem need say so.
    """

    offsets: Mapping[str, tuple[CommittedOffset, ...]]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    absent: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    saved_from: StoreName | None = None
    empty_commits: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    doubtful: frozenset[str] = frozenset()


class GroupSource:
    """Where groups, or the offsets that they have committed, come from.

    A source overrides what it serves; `can` tells that, and `capabilities` how much its answers
    contain. What it does not serve and cannot do without ends in one error, which says what would.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this source knows."""
        return frozenset()

    def can(self, method: Callable[..., object]) -> bool:
        """Return whether this source serves a method of `GroupSource`."""
        return getattr(type(self), method.__name__) is not method

    def _unsupported(self, what: str, takes: str) -> UsageError:
        return UsageError(f"this source does not support {what}; that takes {takes}")

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Read the groups of these ids, or all, as far as the question goes: those that exist.

        Raises:
            InputError: where there is nothing to read groups from.
            BrokerError: where no broker answers.
        """
        raise self._unsupported("reading groups", "a cluster, its files, ZooKeeper or a snapshot")

    def log_ranges(
        self, partitions: Collection[tuple[str, int]], *, committed: bool = False
    ) -> LogReading:
        """Tell where these partitions, by topic and number, begin and end: those that it knows.

        With `committed` they end before the first record of a transaction that is still open.
        """
        raise self._unsupported("log end offsets", "a cluster, its files, ZooKeeper or a snapshot")

    def renew(self, *, anew: bool = False) -> None:
        """Prepare another round of a watch; `anew` keeps nothing, because the last one failed."""

    def view(self, topics: Collection[str]) -> ClusterView:
        """Tell the brokers, and these topics with their partitions; none is created by it.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("brokers and topics", "a cluster, ZooKeeper, or a snapshot of one")

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        """Find the coordinators of groups, which need not exist, or of transactional ids, by key.

        There are none at all where the cluster has no topic for them yet.

        Raises:
            BrokerError: where no broker answers.
        """
        raise self._unsupported("coordinators", "a cluster, ZooKeeper, or a snapshot of one")

    def topic_names(self) -> Collection[str]:
        """Name all topics, sorted; none is created by it.

        Raises:
            BrokerError: no broker answers.
        """
        groups = self.read(question=Question(log_budget=0)).image.groups
        return sorted({topic for group in groups.values() for topic in group.topics})

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        """Find the first record at or behind each of these positions.

        With `committed`, the first one that readers of committed records get.
        """
        raise self._unsupported("reading records", "a live cluster (--bootstrap-server)")

    def offsets_at(self, partitions: Collection[tuple[str, int]], time_ms: int) -> LogReading:
        """Find the first record of a time or later, by epoch milliseconds: each range begins there.

        Its start is None where there is no such record; partitions whose log tells no times are
        left out, with a problem.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("offsets of a time", "a live cluster (--bootstrap-server)")

    def log_sizes(self, partitions: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """Tell the bytes of these partitions at their leaders: of those of which all are told.

        A partition that is partly in remote storage is left out.

        Raises:
            BrokerError: no broker answers.
        """
        return {}

    def broker_settings(self, names: Collection[str]) -> SettingReading:
        """Tell these settings of every broker.

        Raises:
            BrokerError: no broker answers.
        """
        raise self._unsupported("configurations of brokers", "a live cluster (--bootstrap-server)")

    def topic_settings(self, topic: str, names: Collection[str]) -> Mapping[str, str]:
        """Tell these settings of a topic, those that hold by default included.

        Raises:
            BrokerError: nobody tells.
        """
        raise self._unsupported("configurations of topics", "a live cluster (--bootstrap-server)")

    def group_settings(self, group_id: str, names: Collection[str]) -> Mapping[str, str]:
        """Tell these settings of a group, those that hold by default included; it need not exist.

        Raises:
            BrokerError: nobody tells.
        """
        raise self._unsupported("configurations of groups", "a live cluster (--bootstrap-server)")

    def features(self, broker_id: int) -> BrokerFeatures:
        """Ask a broker what it can do.

        Raises:
            BrokerError: it cannot be asked.
        """
        raise self._unsupported("features of brokers", "a live cluster (--bootstrap-server)")

    def unreachable(self) -> Mapping[int, Problem]:
        """Connect to every broker; tell by id why not, of those to which it cannot be.

        Raises:
            BrokerError: nobody tells which brokers there are.
        """
        raise self._unsupported("connecting to brokers", "a live cluster (--bootstrap-server)")

    def kafka_offsets(self, group_ids: Collection[str]) -> KafkaOffsets:
        """Tell the commits in Kafka of groups of these ids."""
        return KafkaOffsets(None)

    def subtree(self, path: str, depth: int | None = None) -> ZookeeperTree:
        """Read a node and those below it, down to a depth, if they exist; perhaps others too.

        Raises:
            BrokerError: ZooKeeper cannot be asked.
        """
        raise self._unsupported(
            "nodes of ZooKeeper", "--zookeeper HOST:PORT/CHROOT, or a snapshot of it"
        )

    # --- committed offsets, and what changes something ---

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        """Read what is committed by groups of these ids, and by those whose whole id matches.

        Where neither is given, by all groups.

        Raises:
            InputError: there is nothing to read offsets from.
            BrokerError: nobody answers.
        """
        raise self._unsupported("reading offsets alone", "a cluster, ZooKeeper, a table or a file")

    @property
    def store_name(self) -> StoreName | None:
        """What to call what can be changed; nothing is asked for that. None: nothing can be."""
        return None

    @property
    def keeps_metadata(self) -> bool:
        """Whether metadata can be stored with an offset; else none shall be."""
        return True

    @property
    def keeps_leader_epochs(self) -> bool:
        """Likewise epochs of leaders, though not every server may know them."""
        return True

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        """Change what is committed, by group: all changes of a group or none, as far as one can.

        Nothing is changed of a group for which something else than `OffsetChange.before` is
        committed by now, or that has members. `on_done` is called with each group that was written
        as a whole, perhaps more than once, for those who interrupt this.

        Returns:
            What was not done, and why: problems of a whole group have no topic. All else was. Of
            what has a problem of kind "unknown-end" it is not known whether it was done.

        Raises:
            BrokerError: nobody answers, before anything was changed; or (`was_sent`) it is not
                known whether all was changed, or nothing.
        """
        raise self._unsupported("changes of offsets", "a cluster, ZooKeeper or a table")

    def divided(self, changes: Mapping[str, Sequence[OffsetChange]]) -> Mapping[str, int]:
        """Count the requests of groups that take more than one; nothing is asked for that."""
        return {}

    def delete_groups(
        self, group_ids: Collection[str], on_done: Callable[[str], object] = lambda group_id: None
    ) -> tuple[Problem, ...]:
        """Delete groups with all that is committed; only those without members.

        Returns:
            What was not done, and why, each with its group; likewise. A group that exists again
            when it is looked for in the end is among them.

        Raises:
            BrokerError: likewise.
        """
        raise self._unsupported("deleting groups", "a cluster or ZooKeeper")

    def remove_members(
        self, group_id: str, members: Mapping[str, str | None], reason: str | None = None
    ) -> Mapping[str, Problem]:
        """Remove members, each by its id and `group.instance.id`, None of dynamic members.

        A static member whose place another one has taken is not there any more: the other stays.

        Returns:
            Why a member was not removed, by its id; all others were. Of those with a problem of
            kind "unknown-end" that is not known.

        Raises:
            BrokerError: nobody answers; no member was removed.
        """
        raise self._unsupported("removing members", "a live cluster (--bootstrap-server)")


class OffsetTable(GroupSource, ABC):
    """A table in which applications keep offsets beside their results."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Database and table, for people: without secrets."""

    @property
    @abstractmethod
    def fences(self) -> bool:
        """Whether it has a column for the generation, which keeps out who has lost a partition."""

    @abstractmethod
    def has_table(self) -> bool:
        """Return whether it is there; it must be fit to be written then.

        Raises:
            InputError: it is there, and is not.
            BrokerError: nobody answers.
        """
