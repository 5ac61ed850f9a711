"""Committed offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct

from kgroup.described_enum import DescribedEnum
from kgroup.model.instant import shown_time
from kgroup.redaction import redact
from kgroup.value_class import value_class

NO_OFFSET = -1
"""Answer of OffsetFetch without a committed offset; some clients also commit it."""


class CommitStore(DescribedEnum):
    """Where ZooKeeper consumers have committed an offset."""

    ZOOKEEPER = (
        "zookeeper",
        "The offset is in ZooKeeper; Kafka has none or a smaller one, or is unknown.",
    )
    KAFKA = ("kafka", "The offset is in Kafka; ZooKeeper has none or a smaller one.")
    BOTH = ("both", "ZooKeeper and Kafka have the same offset.")


@value_class
class CommittedOffset(Struct, frozen=True, gc=False):
    """The position that a group committed for a partition of a user's topic.

    Attributes:
        topic: topic name.
        partition: partition number.
        committed_offset: offset of the next record to read.
        leader_epoch: leader epoch of the last record read; None before value version 3, or if the
            client did not send it.
        metadata: text that the client stored with the offset; often empty.
        commit_timestamp_ms: when the coordinator received the commit; zookeeper: when the node was
            written.
        expire_timestamp_ms: when the commit expires; only for a commit with its own retention
            (value version 1); otherwise the brokers' retention applies, which the log does not
            contain.
        topic_id: topic id; only if the record contains it (value version 4, Kafka 4.1 and later).
        log_offset: offset of the commit record in `__consumer_offsets`; None if the source is not a
            log.
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
    """A commit in files and in `kgroup offsets show`.

    Attributes:
        group_id: group id.
        topic, partition, leader_epoch, metadata, commit_timestamp_ms: as in `CommittedOffset`.
        committed_offset: offset of the next record to read; None in a backup if nothing was
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
    """A store of offsets, as named in questions, notes and files saved from it.

    Attributes:
        where: servers, or database and table; for people, without secrets.
        cluster_id: cluster id; base64url, as Kafka prints it; None if the store is not a cluster,
            or if unknown.
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
    """A change of a partition's committed offset.

    Attributes:
        before: committed offset when the change was planned; None if there was none.
        after: new committed offset; None to delete it.
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
            expected = f"a commit of {shown_time(before.commit_timestamp_ms or 0)}"
            found = shown_time(now.commit_timestamp_ms or 0)
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
    """A commit in an open transaction: not visible until the transaction is committed.

    Attributes:
        topic, partition, leader_epoch, metadata, commit_timestamp_ms, log_offset: as in
            `CommittedOffset`.
        committed_offset: offset that takes effect when the transaction commits; None if it is
            negative, which means no offset.
        producer_id: id of the producer with the open transaction.
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
    """Progress of a share group in a partition.

    The share coordinator keeps the fields after `state` in `__share_group_state`; they are None if
    that could not be read.

    Attributes:
        topic_id: topic id; base64url, as Kafka prints it.
        topic: topic name; None if unknown.
        partition: partition number; None for a topic that is being deleted from the group.
        state: state of the partition that the group coordinator recorded: `initialized`,
            `initializing` or `deleting`; None if it recorded none (Kafka 4.0).
        start_offset: share-partition start offset, the first that the group has not finished; also
            None until the group has started.
        leader_epoch: leader epoch of the partition, as known to the share coordinator.
        state_epoch: group epoch in which the partition was last initialized.
        delivery_complete_count: number of records from `start_offset` on that are already finished;
            None before Kafka 4.2.
        lag: number of records that the group has not finished; as the broker counts them (Kafka 4.2
            and later); None if the source is a log.
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
