"""Replay records of one partition of `__consumer_offsets` into groups, as a coordinator loads them.

After Kafka's `GroupMetadataManager.replay` and `OffsetMetadataManager.replay` (4.3.1),
which for logs of older brokers yield the same groups as their
`GroupMetadataManager.doLoadGroupsAndOffsets`:

- Only tombstones remove values. Nothing expires while a log is loaded, whatever its age.
- Commits of a transaction wait for the marker of their producer. A commit of that
transaction whose record is older than the newest commit of the partition is dropped.
- A group that only has offsets is a "simple" group: classic, Empty, no protocol.
- A group changes its type after tombstones have removed the records of the old type.
Records of another type without preceding tombstones are reported as problems, and applied.

One difference: a group with neither a record nor an offset does not exist here, while a
running broker may list it until its next clean-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from kgroup.errors import ProblemKind
from kgroup.model.group import Group, GroupType
from kgroup.model.group_log import EFFECTS, NAMING_RECORDS, GroupLog, recorded_names
from kgroup.model.offset import CommittedOffset, PendingOffset
from kgroup.model.problem import Problem, ReplayProblems
from kgroup.model.record import DecodedRecord, known

Data = Mapping[str, Any]

_Key = tuple[str, str, int]
"""Group id, topic and partition."""

_MARKERS = ("ControlCommit", "ControlAbort")
_ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
_Handler = Callable[["Delta", DecodedRecord, Data, Data | None], None]


class Producer(NamedTuple):
    """The producer whose transaction a commit belongs to."""

    id: int | None
    epoch: int | None


class Delta:
    """The groups of one partition of `__consumer_offsets`, record after record.

    Apply records in log order, then call `groups`. A compacted log is enough, and yields the
    same groups: the newest record of each key, without those of aborted transactions, and all
    records of open transactions, with the tombstones of their keys.

    Bytes of members are decoded objects: subscription and assignment in GroupMetadata, and the
    metadata of each of a consumer's `classicMemberMetadata`, if they could be decoded.
    """

    def __init__(self, offsets_partition: int | None = None) -> None:
        self.offsets_partition = offsets_partition
        self.topic_names: dict[str, str] = {}
        self._logs: dict[str, GroupLog] = {}
        # By producer id; then by group, topic and partition: the offset and the producer's epoch.
        self._pending: dict[int | None, dict[_Key, tuple[CommittedOffset, int | None]]] = {}
        # The inverse: producers with pending offsets of a partition.
        self._waiting: dict[_Key, set[int | None]] = {}
        self._problems = ReplayProblems(offsets_partition=offsets_partition)

    def replay(self, record: DecodedRecord) -> None:
        """Apply a record; a record that cannot be applied becomes a problem, not an exception.

        If `record.transaction` is not None, an offset waits for the marker, so a reader that has
        not looked ahead may pass "open" for all of them.
        """
        if record.type in _MARKERS:  # the type suffices; Kafka does not read their values either
            self._end_transaction(record, committed=record.type == "ControlCommit")
            return
        if self._problems.can_replay(record, _HANDLERS):
            assert record.key is not None
            value = record.value["data"] if record.value else None
            _HANDLERS[record.type](self, record, record.key["data"], value)

    def commit(
        self,
        group_id: str,
        topic: str,
        partition: int,
        committed_offset: int,
        leader_epoch: int | None,
        metadata: str | None,
        commit_timestamp_ms: int | None,
        expire_timestamp_ms: int | None,
        topic_id: str | None,
        log_offset: int,
        *,
        pending: Producer | None = None,
    ) -> None:
        """Apply an offset commit as stored in its record: None, -1 and the zero id are unknown.

        With `pending` it waits for the end of that producer's transaction.
        """
        offset = CommittedOffset(
            topic,
            partition,
            committed_offset,
            known(leader_epoch),
            metadata,
            known(commit_timestamp_ms),
            known(expire_timestamp_ms),
            None if topic_id == _ZERO_UUID else topic_id,
            log_offset,
        )
        log = self._log(group_id, offset.commit_timestamp_ms)
        if offset.topic_id is not None:
            self.topic_names[offset.topic_id] = topic
        if pending is None:
            log.offsets[topic, partition] = offset
        else:
            key = (group_id, topic, partition)
            self._pending.setdefault(pending.id, {})[key] = (offset, pending.epoch)
            self._waiting.setdefault(key, set()).add(pending.id)

    def remove_offset(self, group_id: str, topic: str, partition: int) -> None:
        """Apply the tombstone of an offset commit, in open transactions, too."""
        if log := self._logs.get(group_id):
            log.offsets.pop((topic, partition), None)
        key = (group_id, topic, partition)
        for producer_id in self._waiting.pop(key, ()):
            del self._pending[producer_id][key]

    def groups(self, topic_names: Mapping[str, str] | None = None) -> dict[str, Group]:
        """Return the groups as of the records replayed so far: groups by id, sorted.

        `topic_names` maps topic ids to names, in addition to the names in the records.
        """
        return {group.group_id: group for group, _ in self._interpret(topic_names, self._logs.get)}

    def drain(self, topic_names: Mapping[str, str]) -> Iterator[tuple[Group, int]]:
        """Yield groups like `groups`, and forget each one, so that millions fit into memory.

        The second value is the time of the last record with a value that changed the group; 0 if
        unknown.
        """
        return self._interpret(topic_names, self._logs.pop)

    def _interpret(
        self, topic_names: Mapping[str, str] | None, take: Callable[[str], GroupLog | None]
    ) -> Iterator[tuple[Group, int]]:
        names = {**self.topic_names, **(topic_names or {})}
        pending = self._pending_offsets()
        for group_id in sorted(self._logs):
            log = take(group_id)
            if log is not None and (log.type is not None or log.offsets or group_id in pending):
                yield (
                    log.group(names, pending.get(group_id, ()), self.offsets_partition),
                    log.changed_ms,
                )

    def problems(self) -> tuple[Problem, ...]:
        """Return what could not be replayed: unknown records by type, then the others in order."""
        return self._problems.problems()

    def _pending_offsets(self) -> dict[str, list[PendingOffset]]:
        """Return the commits of open transactions, by group."""
        pending: dict[str, list[PendingOffset]] = {}
        for producer_id, offsets in self._pending.items():
            for (group_id, _, _), (offset, producer_epoch) in offsets.items():
                pending.setdefault(group_id, []).append(
                    PendingOffset(
                        offset.topic,
                        offset.partition,
                        None if offset.committed_offset < 0 else offset.committed_offset,
                        offset.leader_epoch,
                        offset.metadata,
                        offset.commit_timestamp_ms,
                        producer_id,
                        producer_epoch,
                        offset.log_offset,
                    )
                )
        return pending

    def _log(self, group_id: str, changed_ms: int | None) -> GroupLog:
        log = self._logs.get(group_id)
        if log is None:
            log = self._logs[group_id] = GroupLog(group_id)
        log.changed_ms = max(log.changed_ms, changed_ms or 0)
        return log

    def _offset_commit(self, record: DecodedRecord, key: Data, value: Data | None) -> None:
        group_id, topic, partition = key["group"], key["topic"], key["partition"]
        if value is None:
            self.remove_offset(group_id, topic, partition)
            return
        is_open = record.transaction is not None
        self.commit(
            group_id,
            topic,
            partition,
            value["offset"],
            value.get("leaderEpoch"),
            value["metadata"],
            value["commitTimestamp"],
            value.get("expireTimestamp"),
            value.get("topicId"),
            record.offset,
            pending=Producer(record.producer_id, record.producer_epoch) if is_open else None,
        )

    def _end_transaction(self, record: DecodedRecord, *, committed: bool) -> None:
        ended = self._pending.pop(record.producer_id, {})
        for key in ended:
            self._waiting[key].discard(record.producer_id)
        if not committed:
            return
        for (group_id, topic, partition), (offset, _) in ended.items():
            offsets = self._log(group_id, record.timestamp_ms).offsets
            current = offsets.get((topic, partition))
            # A plain commit between the transaction's record and its marker wins.
            if current is None or cast("int", offset.log_offset) > cast("int", current.log_offset):
                offsets[topic, partition] = offset

    def _group_record(self, record: DecodedRecord, key: Data, value: Data | None) -> None:
        effect = EFFECTS[record.type]
        is_classic = effect.group_type is GroupType.CLASSIC
        group_id = key["group" if is_classic else "groupId"]
        name = None if effect.key_field is None else key[effect.key_field]
        if value is None:
            if log := self._logs.get(group_id):
                log.apply(effect, name, None)
            return
        log = self._log(group_id, record.timestamp_ms)
        if not is_classic and log.type is not effect.group_type and not log.is_simple:
            self._problems.add(
                ProblemKind.INCONSISTENT,
                record,
                f"{record.type} of group {group_id!r} found while it is a {log.type} group "
                "without a tombstone between; the later record was believed.",
                group_id,
            )
        log.apply(effect, name, value)
        if record.type.endswith(NAMING_RECORDS):
            self.topic_names |= recorded_names(value)


_HANDLERS: Mapping[str, _Handler] = {
    "OffsetCommit": Delta._offset_commit,
    "LegacyOffsetCommit": Delta._offset_commit,
    **dict.fromkeys(EFFECTS, Delta._group_record),
}
