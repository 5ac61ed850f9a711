"""Commits of whole consumers, kept as positions until somebody reads them.

A group with many partitions commits far more often than anybody reads its commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any
from weakref import WeakValueDictionary

from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import CommittedOffset
from kgroup.simulation.partition_logs import PartitionLogs, Positions


@dataclass(frozen=True, slots=True)
class PositionCommit:
    """A consumer's commit of its positions.

    Attributes:
        positions: the positions.
        commit_ms: time of the commit.
        expire_ms: when the commit expires; None: by the brokers' retention.
        log_offset: offset of its first record in the coordinator's log.
    """

    positions: Positions
    commit_ms: int
    expire_ms: int | None
    log_offset: int

    @property
    def offsets(self) -> Iterator[CommittedOffset]:
        """The committed offset of each partition."""
        positions = self.positions
        return map(
            CommittedOffset,
            map(itemgetter(0), positions),
            map(itemgetter(1), positions),
            positions.offsets(positions.begins),
            repeat(None),
            repeat(""),
            repeat(self.commit_ms),
            repeat(self.expire_ms),
        )


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Place:
    """The last commit of a consumer that reads the same partitions as before.

    Attributes:
        commit: the commit.
        is_whole: whether it is the last commit of all its partitions.
    """

    commit: PositionCommit
    is_whole: bool = False


class PositionCommits:
    """The last commit of each partition, by row of the `PartitionLogs`.

    Args:
        group_id: the group.
        logs: the partitions.
    """

    def __init__(self, group_id: str, logs: PartitionLogs) -> None:
        self.group_id = group_id
        self._logs = logs
        self._by_row: list[_Place | None] = []
        self._places: WeakValueDictionary[int, _Place] = WeakValueDictionary()

    @property
    def topics(self) -> set[str]:
        """Names of the topics with a commit."""
        places = zip(self._logs.partitions, self._by_row, strict=False)
        return {topic for (topic, _), place in places if place is not None}

    def add(self, commit: PositionCommit) -> None:
        """Add a commit, which replaces former ones of its partitions."""
        begins = commit.positions.begins
        if (place := self._places.get(id(begins))) is None:
            place = self._places[id(begins)] = _Place(commit)
        place.commit = commit
        if not place.is_whole:
            by_row = self._of_all_rows()
            for other in {*map(by_row.__getitem__, begins)}:
                if other is not None:
                    other.is_whole = False
            for row in begins:
                by_row[row] = place
            place.is_whole = True

    def _of_all_rows(self) -> list[_Place | None]:
        """Return the place of each row; None without a commit."""
        self._by_row += [None] * (len(self._logs.partitions) - len(self._by_row))
        return self._by_row

    def of(self, partitions: tuple[TopicPartition, ...]) -> list[int | None]:
        """Return the committed position in each partition; None if there is none."""
        rows = self._logs.rows(partitions)
        chosen: dict[_Place, list[int]] = {}
        for found, run in groupby(rows, self._of_all_rows().__getitem__):
            if found is not None:
                chosen.setdefault(found, []).extend(run)
        positions: dict[int, int] = {}
        for place, some in chosen.items():
            positions.update(zip(some, place.commit.positions.offsets(some), strict=True))
        return [*map(positions.get, rows)]

    def __iter__(self) -> Iterator[tuple[int, CommittedOffset]]:
        """Yield each committed offset, with the log offset of its record."""
        for place in dict.fromkeys(filter(None, self._by_row)):
            commit = place.commit
            offsets = enumerate(commit.offsets, commit.log_offset)
            for row, at_and_offset in zip(commit.positions.begins, offsets, strict=True):
                if self._by_row[row] is place:
                    yield at_and_offset


def commit_record(
    group_id: str, offset: CommittedOffset
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return key and value of the record of a commit."""
    epoch, expire_ms = offset.leader_epoch, offset.expire_timestamp_ms
    value = {
        "offset": offset.committed_offset,
        "leaderEpoch": -1 if epoch is None else epoch,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp_ms,
        "expireTimestamp": -1 if expire_ms is None else expire_ms,
    }
    return commit_key(group_id, (offset.topic, offset.partition)), value


def commit_key(group_id: str, partition: TopicPartition) -> Mapping[str, Any]:
    """Return the key of the record of a commit."""
    return {"group": group_id, "topic": partition[0], "partition": partition[1]}
