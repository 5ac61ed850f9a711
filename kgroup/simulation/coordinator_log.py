"""The partition of `__consumer_offsets` that a coordinator writes and its successor loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeAlias

from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.record import DecodedRecord
from kgroup.protocol.record.coordinator_record import (
    KEY_TYPES,
    decode_members,
    decode_subscriptions,
)
from kgroup.simulation.position_commit import PositionCommits, commit_record

Data: TypeAlias = Mapping[str, Any]


_COMMIT = "OffsetCommit"
_OFFSET = itemgetter(0)
_KEY_NUMBERS = {name: number for number, name in KEY_TYPES.items()}


class CoordinatorLog:
    """Records after compaction: the newest of each key, in log order.

    Values have Kafka's field names; metadata and assignments of classic members stay bytes. Value
    versions are not stored, because nothing depends on them.

    Attributes:
        end_offset: log end offset.
        commits: commits of each group whose records are not made yet; they are newer than the
            records, and the offset manager adds to them.
    """

    def __init__(self) -> None:
        self.end_offset = 0
        self._records: dict[tuple[object, ...], tuple[int, int, str, Data, Data]] = {}
        self.commits: dict[str, PositionCommits] = {}

    def _in_order(self) -> list[tuple[int, int, str, Data, Data]]:
        return sorted(self._records.values(), key=_OFFSET)

    def contents(self) -> Iterator[tuple[str, Data, Data]]:
        """Yield type, key and value of each record, in log order, without those of `commits`."""
        return (record[2:] for record in self._in_order())

    def __iter__(self) -> Iterator[DecodedRecord]:
        self._make_records()
        for offset, now_ms, type_, key, value in self._in_order():
            yield DecodedRecord(
                partition=None,
                offset=offset,
                timestamp_ms=now_ms,
                timestamp_type="create",
                leader_epoch=None,
                producer_id=None,
                producer_epoch=None,
                transaction=None,
                type=type_,
                key={"type": _KEY_NUMBERS[type_], "data": key},
                value={"version": None, "data": value},
            )

    def append(self, type_: str, key: Data, value: Data | None, now_ms: int) -> None:
        """Append a record; without a value it is a tombstone, which is removed at once."""
        if self.commits and type_ == _COMMIT:
            self._make_records()
        place = (type_, *key.values())
        self._records.pop(place, None)
        if value is not None:
            self._records[place] = (self.end_offset, now_ms, type_, key, value)
        self.end_offset += 1

    def append_positions(self, commits: PositionCommits, count: int) -> int:
        """Append a number of records, which are made of the commits when they are read.

        Returns:
            The offset of the first one.
        """
        before = self.commits.get(commits.group_id)
        if before is not None and before is not commits:
            self._make_records()
        self.commits[commits.group_id] = commits
        first, self.end_offset = self.end_offset, self.end_offset + count
        return first

    def _make_records(self) -> None:
        groups, self.commits = self.commits, {}
        for group_id, commits in groups.items():
            for log_offset, offset in commits:
                key, value = commit_record(group_id, offset)
                record = (log_offset, value["commitTimestamp"], _COMMIT, key, value)
                self._records[_COMMIT, *key.values()] = record

    def groups(self) -> dict[str, Group]:
        """Return the groups as a reader of the log decodes them."""
        delta = Delta()
        for record in self:
            delta.replay(replace(record, value=_with_members_decoded(record)))
        return delta.groups()


def _with_members_decoded(record: DecodedRecord) -> Data | None:
    """Return a record's value with subscriptions and assignments decoded."""
    value = deepcopy(record.value)
    if value is not None and record.type == "GroupMetadata":
        decode_members(value["data"])
    decode_subscriptions(record.type, value)
    return value
