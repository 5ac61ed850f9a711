"""Committed offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct

from kgroup.described_enum import DescribedEnum
from kgroup.model.instant import rfc3339
from kgroup.redaction import redact
from kgroup.value_class import value_class

NO_OFFSET = -1
"""Answer of OffsetFetch without a committed offset; some clients also commit it."""


class CommitStore(DescribedEnum):
    """Where ZooKeeper consumers have committed."""

    ZOOKEEPER = (
        "zookeeper",
        "The offset is in ZooKeeper; Kafka has none or a smaller one, or is not known.",
    )
    KAFKA = ("kafka", "The offset is in Kafka; ZooKeeper has none or a smaller one.")
    BOTH = ("both", "Both have the same offset.")


@value_class
class CommittedOffset(Struct, frozen=True, gc=False):
    """The position that a group committed for a partition of a user's topic.

    Attributes:
        topic: name of the topic.
        partition: partition of that topic.
        committed_offset: offset of the next record to read.
        leader_epoch: epoch of the last record read; None before value version 3, or where the
            client did not tell it.
        metadata: text that the client stored with the offset; often empty.
        commit_timestamp_ms: when the coordinator took the commit; zookeeper: when its node was
            written.
        expire_timestamp_ms: when the commit expires; only of one with a retention of its own (value
            version 1); else retention decides, which is not in the log.
        topic_id: id of the topic; where the record carries it (value version 4, Kafka 4.1 and
            later).
        log_offset: offset of the commit's record in `__consumer_offsets`; None where the source is
            no log.
    """

    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_timestamp_ms: int | None = None
    expire_timestamp_ms: int | None = None
    topic_id: str | None = None
    log_offset: int | None = None


def split_commits(
    commits: Iterable[CommittedOffset],
) -> tuple[tuple[CommittedOffset, ...], tuple[tuple[str, int], ...]]:
    """Separate committed offsets from partitions for which a negative number was committed.

    Brokers store any number; clients interpret a negative one as no offset, because OffsetFetch
    returns -1 if nothing is committed.
    """
    offsets, empty = [], []
    for commit in commits:
        if commit.committed_offset >= 0:
            offsets.append(commit)
        else:
            empty.append((commit.topic, commit.partition))
    return tuple(offsets), tuple(empty)


@value_class
class StoredOffset(Struct, frozen=True, gc=False):
    """A commit as files and `kgroup offsets show` have it.

    Attributes:
        group_id: id of the group.
        topic, partition, leader_epoch, metadata, commit_timestamp_ms: as in `CommittedOffset`.
        committed_offset: offset of the next record to read; None in a backup: nothing was
            committed.
    """

    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StoreName:
    """A store of offsets, as questions, notes and files saved from it call it.

    Attributes:
        where: servers, or database and table; for people: without secrets.
        cluster_id: id of the cluster; base64url, as Kafka prints it; None where it is no cluster,
            or does not tell.
    """

    where: str
    cluster_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", redact(self.where))

    def __str__(self) -> str:
        return self.where if self.cluster_id is None else f"{self.where} (id {self.cluster_id})"

    def is_other(self, name: StoreName) -> bool:
        """Return whether that is another store; clusters are compared by id if both are known."""
        if self.cluster_id is None or name.cluster_id is None:
            return self.where != name.where
        return self.cluster_id != name.cluster_id


@value_class
class OffsetChange(Struct, frozen=True, gc=False):
    """What shall be committed for one partition.

    Attributes:
        before: what was committed when that was decided; None: nothing.
        after: what shall be; None: nothing.
    """

    topic: str
    partition: int
    before: CommittedOffset | None
    after: CommittedOffset | None

    def conflict(self, now: CommittedOffset | None) -> str | None:
        """Return how the current commit differs from `before`; None if it does not.

        Both were returned by the store, so all values are compared: the offset, the leader epoch,
        the metadata, and the time of the commit if both have it.
        """
        before = self.before
        if before is None or now is None or before.committed_offset != now.committed_offset:
            if before is now:
                return None
            expected, found = _said(before), _said(now)
        elif (before.metadata or "") != (now.metadata or ""):
            expected, found = f"metadata {before.metadata or ''!r}", repr(now.metadata or "")
        elif before.leader_epoch != now.leader_epoch:
            expected = f"leader epoch {_number(before.leader_epoch)}"
            found = _number(now.leader_epoch)
        elif _differ(before.commit_timestamp_ms, now.commit_timestamp_ms):
            expected = f"a commit of {rfc3339(before.commit_timestamp_ms or 0)}"
            found = rfc3339(now.commit_timestamp_ms or 0)
        else:
            return None
        return f"{self.topic}-{self.partition}: expected {expected}, found {found}"

    def is_done(self, now: CommittedOffset | None) -> bool:
        """Return whether the committed offset equals the planned one; see `is_same`."""
        return is_same(now, self.after)


def is_same(now: CommittedOffset | None, after: CommittedOffset | None) -> bool:
    """Return whether committing `after` would change nothing of the current commit.

    Metadata and leader epoch that `after` does not specify are not compared, and an unknown
    current epoch counts as equal: brokers before 2.1 store none.
    """
    if now is None or after is None:
        return now is after
    return (
        now.committed_offset == after.committed_offset
        and (after.metadata is None or (now.metadata or "") == after.metadata)
        and not _differ(now.leader_epoch, after.leader_epoch)
    )


def _said(offset: CommittedOffset | None) -> str:
    return "no offset" if offset is None else f"offset {offset.committed_offset}"


def _number(number: int | None) -> str:
    return "none" if number is None else str(number)


def _differ(first: object, other: object) -> bool:
    return first is not None and other is not None and first != other


@dataclass(frozen=True, slots=True)
class PendingOffset:
    """A commit of a transaction that has no marker yet: not visible until it is committed.

    Attributes:
        topic, partition, leader_epoch, metadata, commit_timestamp_ms, log_offset: as in
            `CommittedOffset`.
        committed_offset: offset that counts when the transaction commits; None where it is
            negative, which stands for no offset.
        producer_id: producer whose transaction is open.
        producer_epoch: epoch of that producer.
    """

    topic: str
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp_ms: int | None
    producer_id: int | None
    producer_epoch: int | None
    log_offset: int | None


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """How far a share group has come in a partition.

    What follows `state` is kept by the share coordinator, in `__share_group_state`; None where that
    could not be read.

    Attributes:
        topic_id: id of the topic; base64url, as Kafka prints it.
        topic: name of the topic; None where nothing tells it.
        partition: partition of that topic; None for a topic that is being deleted from the group.
        state: `initialized`, `initializing` or `deleting`; as the group's coordinator noted; None
            where it noted nothing (Kafka 4.0).
        start_offset: first offset that the group has not finished; None too while it has not begun.
        leader_epoch: epoch of the partition's leader; as the share coordinator knows it.
        state_epoch: group epoch in which the partition was initialized last.
        delivery_complete_count: records from `start_offset` on that are finished already; None
            before Kafka 4.2.
        lag: records that the group has not finished; as the broker counts them (Kafka 4.2 and
            later); None where the source is a log.
    """

    topic_id: str
    topic: str | None
    partition: int | None
    state: str | None = None
    start_offset: int | None = None
    leader_epoch: int | None = None
    state_epoch: int | None = None
    delivery_complete_count: int | None = None
    lag: int | None = None

    @property
    def sort_key(self) -> tuple[bool, str, str, int]:
        """Sort key of reports: name and id of the topic, a topic before its partitions."""
        partition = -1 if self.partition is None else self.partition
        return (self.topic is None, self.topic or "", self.topic_id, partition)
