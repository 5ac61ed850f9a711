"""Groups from a broker's log directory, or any folder of `__consumer_offsets` segments.

The state is that of a coordinator that has loaded the partitions: see `kgroup.model.delta`. Files
are only read. Facts that are not in the records come from other files of the broker: the progress
of share groups from the partitions of `__share_group_state`, topic names from
``partition.metadata`` (Kafka 2.8 and later), the cluster and the broker from ``meta.properties``,
and the log ranges of users' partitions from their own segments and, for the start, from
``log-start-offset-checkpoint``. A range is the one with which a broker that starts on these files
loads this replica's log: its end is neither a high watermark nor the leader's log end offset. The
start is unknown if there is no checkpoint next to the partition's folder.

The partition count of `__consumer_offsets` is known only if all partitions are there. That is
assumed if several folders are numbered without a gap, and each group is in the partition that its
id has with that count.

If several folders contain the same partition (replicas of several brokers), the one with the
highest log end offset is read. If two partitions contain the same group (the topic's partition
count was changed), the one that changed last is used.

Of a partition of `__consumer_offsets`, only the records that compaction would keep are decoded and
replayed (`replay_groups`): the last record of each key, with transactions resolved by their
markers. A coordinator that loads the log after compaction gets the same records, and the groups are
the same. A small log is read once, keeping the last records; the keys of a large log are first
searched with compiled code (`last_record`), and then its last records are decoded
(`columnar.segment`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroup.columnar.log_reader import FileLogs, LogReader
from kgroup.columnar.segment_check import is_allocated_ahead
from kgroup.errors import ProblemKind
from kgroup.model.cluster import TopicPartition, is_topic_name
from kgroup.model.delta import Delta, Producer
from kgroup.model.group import Group, GroupType, Image
from kgroup.model.log_range import LogRange, LogReading
from kgroup.model.offsets_partition import SHARE_STATE_TOPIC, offsets_partition
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.record import DecodedRecord, TransactionStatus
from kgroup.model.segment import Log, Segment
from kgroup.model.share_state import ShareStateLog, ShareStates, with_share_states
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches, read_records
from kgroup.protocol.record import share_state_record
from kgroup.protocol.record.coordinator_record import (
    decode_control,
    decode_record,
    decode_subscriptions,
)
from kgroup.source.base import EVERYTHING, Capability, GroupSource, Question, Reading
from kgroup.source.log.folder import (
    LOG_STARTS,
    META_PROPERTIES,
    has_checkpoints,
    read_log_starts,
    read_pairs,
    read_topic_names,
)
from kgroup.source.log.segment_file import (
    choose_logs,
    find_segments,
    find_topic_segments,
    log_end,
    partition_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.columnar.batch_key import KeyedRecord


_CAPABILITIES = frozenset(
    {
        Capability.GENERATION,
        Capability.PENDING_OFFSETS,
        Capability.COMMIT_TIMESTAMPS,
        Capability.LOG_END_OFFSETS,
        Capability.RECORDS,
    }
)

_SEGMENT_NAME = re.compile(r"[0-9]{1,20}\.log")
_LOADED_NAME = re.compile(r"[0-9]{1,20}\.log(?:\.swap)?")
"""Segments that a broker loads, including those of a finished compaction."""

_Offsets = Mapping[TopicPartition, int]
"""Offsets by topic and partition."""

_LONGEST_ID = 10
"""Maximum digits of a broker id, an int32."""


class LogDir(GroupSource):
    """The groups in a broker's log directories."""

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        on_compile: Callable[[], None] | None = None,
        on_progress: Callable[[int, int], None] = lambda done, size: None,
    ) -> None:
        """Create a source of log directories, partition folders, or segments.

        `on_compile` is called before code is compiled, see `columnar.segment.decode_chunks`, and
        `on_progress` with the bytes of `__consumer_offsets` read so far and in total.
        """
        self._paths = tuple(paths)
        self._on_compile = on_compile
        self._on_progress = on_progress

    @property
    def is_log(self) -> bool:
        """Whether it is a log: always."""
        return True

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Facts that these folders contain; see `GroupSource.capabilities`."""
        known = set(_CAPABILITIES)
        directories = self._directories()
        if find_topic_segments(directories, SHARE_STATE_TOPIC, lambda problem: None):
            known.add(Capability.SHARE_START_OFFSETS)
        if any(map(has_checkpoints, directories)):
            known.add(Capability.LOG_START_OFFSETS)
        return frozenset(known)

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Replay all partitions found; see `GroupSource.read`."""
        notes: list[str] = []
        damage = ProblemLog()
        logs = choose_logs(find_segments(self._paths, on_problem=damage.add), notes)
        deltas = self._replay(logs, damage, notes)
        directories = self._directories()
        topic_names = read_topic_names(directories)
        for delta in deltas:
            topic_names = {**delta.topic_names, **topic_names}
        cluster_ids, broker_ids = _identities(directories, notes)
        groups = _merge(deltas, topic_names, notes)
        partition_count = _partition_count(logs, groups)
        groups = {
            group_id: groups[group_id]
            for group_id in sorted(groups)
            if question.names(group_id, group_ids)
        }
        problems = [problem for delta in deltas for problem in delta.problems()]
        if any(group.type is GroupType.SHARE for group in groups.values()):
            share_logs = _replay_share_state(directories, damage, notes)
            groups = _with_share_states(groups, share_logs, topic_names)
            problems += [problem for log in share_logs for problem in log.problems()]
        return Reading(
            Image(
                groups=groups,
                topic_names=topic_names,
                cluster_id=cluster_ids[0] if len(cluster_ids) == 1 else None,
                broker_ids=broker_ids,
                offsets_partition_count=partition_count,
            ),
            problems=(*damage.problems(), *problems),
            notes=tuple(notes),
        )

    def _replay(
        self, logs: Sequence[Sequence[Segment]], damage: ProblemLog, notes: list[str]
    ) -> list[Delta]:
        sizes = [sum(segment.size for segment in log) for log in logs]
        deltas = []
        done = 0
        for log, size in zip(logs, sizes, strict=True):

            def on_progress(read: int, done: int = done) -> None:
                self._on_progress(done + read, sum(sizes))

            deltas.append(Delta(log[0].partition))
            notes += replay_groups(
                log, deltas[-1], damage, on_compile=self._on_compile, on_progress=on_progress
            )
            done += size
            on_progress(size)
        return deltas

    def log_ranges(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> LogReading:
        """Return the ranges of the partitions in these folders; see `GroupSource.log_ranges`.

        Of replicas in several folders, the range with the highest log end offset is returned. Open
        transactions are not considered.
        """
        ranges: dict[TopicPartition, LogRange] = {}
        problems = ProblemLog()
        for directory in self._directories():
            starts = cache(partial(_log_starts, directory, problems))
            for topic, partition in partitions:
                if not is_topic_name(topic):
                    continue
                folder = directory / f"{topic}-{partition}"
                at = topic, partition
                try:
                    log = _folder_range(folder, starts, at)
                except OSError as error:
                    reason = f"Its log end offset is unknown: {error.strerror or error}."
                    problems.add(
                        Problem(
                            ProblemKind.UNREADABLE,
                            reason,
                            path=str(folder),
                            topic=topic,
                            partition=partition,
                        )
                    )
                    continue
                if log is not None:
                    ranges[at] = max(log, ranges.get(at, log), key=_progress)
        return LogReading(ranges, problems.problems())

    def _directories(self) -> list[Path]:
        """Return the log directories that the paths are, or are in, each once."""
        directories = {}
        for path in self._paths:
            folder = path.absolute() if path.is_dir() else path.absolute().parent
            if partition_of(folder) is not None:
                folder = folder.parent
            directories[os.path.realpath(folder)] = folder  # Path.resolve raises for symlink loops
        return list(directories.values())


def _partition_count(logs: Iterable[list[Segment]], groups: Mapping[str, Group]) -> int | None:
    partitions = {log[0].partition for log in logs}
    count = len(partitions)
    is_whole = partitions == set(range(count)) and all(
        group.offsets_partition == offsets_partition(group_id, count)
        for group_id, group in groups.items()
    )
    return count if count > 1 and groups and is_whole else None


def _merge(
    deltas: Collection[Delta], topic_names: Mapping[str, str], notes: list[str]
) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    changed: dict[str, int] = {}
    for delta in deltas:
        for group, changed_ms in delta.drain(topic_names):
            group_id = group.group_id
            other = groups.get(group_id)
            if other is None or changed_ms > changed[group_id]:
                groups[group_id] = group
                if len(deltas) > 1:
                    changed[group_id] = changed_ms
            if other is not None:
                notes.append(
                    f"Group {group_id!r} found in partitions {other.offsets_partition} and "
                    f"{delta.offsets_partition}; that of partition "
                    f"{groups[group_id].offsets_partition} changed last and was taken. The number "
                    "of partitions may have been changed."
                )
    return groups


def _replay_share_state(
    directories: Iterable[Path], damage: ProblemLog, notes: list[str]
) -> list[ShareStateLog]:
    share_logs = []
    segments = find_topic_segments(directories, SHARE_STATE_TOPIC, damage.add)
    for log in choose_logs(segments, notes):
        share_logs.append(ShareStateLog(str(log[0].path.parent)))
        for segment in log:
            try:
                for record in read_segment(segment, damage, share_state_record.decode_record):
                    share_logs[-1].replay(record)
            except OSError as error:
                reason = f"The file cannot be read: {error.strerror or error}."
                damage.add(Problem(ProblemKind.UNREADABLE, reason, path=str(segment.path)))
    return share_logs


def _with_share_states(
    groups: Mapping[str, Group], logs: Iterable[ShareStateLog], topic_names: Mapping[str, str]
) -> dict[str, Group]:
    states: dict[str, ShareStates] = {}
    for log in logs:
        for group_id, states_of_group in log.states.items():
            states.setdefault(group_id, {}).update(states_of_group)
    return {
        group_id: with_share_states(group, states.get(group_id, {}), topic_names)
        for group_id, group in groups.items()
    }


def _identities(
    directories: Iterable[Path], notes: list[str]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the ids of clusters and brokers in all ``meta.properties``."""
    clusters, brokers = set(), set()
    for directory in directories:
        pairs = read_pairs(directory / META_PROPERTIES, "=")
        if "cluster.id" in pairs:
            clusters.add(pairs["cluster.id"])
        broker_id = pairs.get("node.id", pairs.get("broker.id", ""))
        if broker_id.isdecimal() and len(broker_id) <= _LONGEST_ID:
            brokers.add(int(broker_id))
    if len(clusters) > 1:
        notes.append(f"The folders belong to different clusters: {', '.join(sorted(clusters))}.")
    return tuple(sorted(clusters)), tuple(sorted(brokers))


def _log_starts(directory: Path, problems: ProblemLog) -> _Offsets | None:
    """Return the checkpoint of log start offsets; None if log start offsets are unknown."""
    if not has_checkpoints(directory):
        return None
    try:
        return read_log_starts(directory)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
    path = str(directory / LOG_STARTS)
    reason = f"Log start offsets are unknown: {why}."
    problems.add(Problem(ProblemKind.UNREADABLE, reason, path=path))
    return None


def _folder_range(
    folder: Path, starts: Callable[[], _Offsets | None], at: TopicPartition
) -> LogRange | None:
    """Return the range of the log in a partition's folder; None if it has no segment.

    As in Kafka's `LogLoader`, the log starts at its checkpoint if that is after the base of the
    first segment, and is emptied if the checkpoint is after its end. A checkpoint before the first
    segment means that the first records are in remote storage, or that segments were removed after
    it was written: the start is unknown.

    Raises:
        OSError: the folder, or its last segment, cannot be read.
    """
    if not folder.is_dir():
        return None
    names = os.listdir(folder)
    segments = [name for name in names if _SEGMENT_NAME.fullmatch(name)]
    if not segments:
        return None
    last = max(segments)
    end = log_end(folder / last, int(last.removesuffix(".log")))
    checkpoint = starts()
    if checkpoint is None:
        return LogRange(end=end)
    base = min(int(name.partition(".")[0]) for name in names if _LOADED_NAME.fullmatch(name))
    start = checkpoint.get(at, base)
    return LogRange(start, max(start, end)) if start >= base else LogRange(end=end)


def _progress(log: LogRange) -> tuple[int, int]:
    """Return a sort key of replicas: end, then start, because log start offsets only increase."""
    return (log.end or 0, -1 if log.start is None else log.start)


_Decoded = dict[str, Any] | None

Decode = Callable[[bytes | None, bytes | None], tuple[str, _Decoded, _Decoded]]
"""Decodes the bytes of a record to type, key and value, such as `decode_group_record`."""

_COMMIT_COLUMNS = (
    "group",
    "topic",
    "topic_partition",
    "committed_offset",
    "committed_leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "offset",
    "value_version",
    "transaction",
    "producer_id",
    "producer_epoch",
)
"""Columns of `columnar.schema.DECODED`: arguments of `Delta.commit`, then those that select the
call.
"""


def decode_group_record(key: bytes | None, value: bytes | None) -> tuple[str, _Decoded, _Decoded]:
    """Decode a record of `__consumer_offsets` for `Delta`.

    This is `decode_record`, and in addition to Kafka's tools it decodes the subscriptions of
    consumers that still use the classic protocol in a consumer group.
    """
    kind, decoded_key, decoded = decode_record(key, value)
    decode_subscriptions(kind, decoded)
    return kind, decoded_key, decoded


def replay_groups(
    log: Iterable[Segment],
    target: Delta,
    damage: ProblemLog,
    *,
    compiled: bool | None = None,
    on_compile: Callable[[], None] | None = None,
    on_progress: Callable[[int], None] = lambda size: None,
) -> tuple[str, ...]:
    """Replay the records of a log that compaction would keep to `target`; add problems to `damage`.

    The log is the segments of one partition of `__consumer_offsets`, in order. By default, compiled
    code is used for a large log; `on_compile` is called before code is compiled, see
    `columnar.segment.decode_chunks`, and `on_progress` repeatedly with the bytes read so far.

    Returns:
        Notes, see `LogReader.notes`.
    """
    reader = LogReader(
        FileLogs([Log(tuple(log))]),
        last_only=True,
        for_replay=True,
        compiled=compiled,
        on_compile=on_compile,
        on_search=on_progress,
        on_problem=damage.add,
    )
    partition = target.offsets_partition
    kept: pa.RecordBatch | Sequence[KeyedRecord]
    for kept in reader.map(lambda rows: rows, lambda records: records):
        if isinstance(kept, tuple):
            for _, _, is_open, batch, record in kept:
                decoded = _decoded(partition, batch, record, decode_group_record, is_open=is_open)
                target.replay(decoded)
        else:
            _replay_columns(kept, target)
    return reader.notes


def read_segment(
    segment: Segment, damage: ProblemLog, decode: Decode = decode_group_record
) -> Iterator[DecodedRecord]:
    """Yield a segment's decoded records in order, for `Delta`: transactional ones are all "open".

    Problems are added to `damage`; `decode` decodes the topic's records.

    Raises:
        OSError: the file cannot be read.
    """
    with segment.path.open("rb") as file:
        for batch in read_file_batches(file):
            if isinstance(batch, Damage):
                if not is_allocated_ahead(batch, segment.path):
                    damage.add(_problem(batch, segment))
                continue
            # As for a coordinator, a transaction is open until its marker is read.
            is_open = batch.is_transactional and not batch.is_control
            decode_it = decode_control if batch.is_control else decode
            for record in read_records(batch):
                if isinstance(record, Damage):
                    damage.add(_problem(record, segment))
                else:
                    yield _decoded(segment.partition, batch, record, decode_it, is_open=is_open)


def _problem(damage: Damage, segment: Segment) -> Problem:
    return Problem(damage.kind, damage.reason, path=str(segment.path), position=damage.position)


def _decoded(
    partition: int | None, batch: RecordBatch, record: Record, decode: Decode, *, is_open: bool
) -> DecodedRecord:
    kind, key, value = decode(record.key, record.value)
    return DecodedRecord(
        partition,
        record.offset,
        record.timestamp_ms,
        batch.timestamp_type,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        TransactionStatus.OPEN if is_open else None,
        kind,
        key,
        value,
    )


def _replay_columns(rows: pa.RecordBatch, target: Delta) -> None:
    """Replay rows of `columnar.schema.DECODED`: commits directly, the others as records."""
    import pyarrow as pa

    from kgroup.columnar.schema import COMMIT_TYPES, records

    types = _cells(rows["type"])
    is_other = rows["key_json"].is_valid().to_pylist()
    is_commit = [
        kind in COMMIT_TYPES and not other for kind, other in zip(types, is_other, strict=True)
    ]
    others = records(rows.filter(pa.array([not plain for plain in is_commit], pa.bool_())))
    columns = zip(*(_cells(rows[name]) for name in _COMMIT_COLUMNS), strict=True)
    for is_plain, cells in zip(is_commit, columns, strict=True):
        *commit, version, transaction, producer_id, producer_epoch = cells
        is_open = transaction == TransactionStatus.OPEN
        if not is_plain:
            record = next(others)
            decode_subscriptions(record.type, record.value)
            target.replay(record if is_open else replace(record, transaction=None))
        elif version is None:
            target.remove_offset(*commit[:3])
        else:
            pending = Producer(producer_id, producer_epoch) if is_open else None
            target.commit(*commit, pending=pending)


def _cells(column: pa.Array) -> list[Any]:
    """Return a column's values; rows share the strings of a dictionary."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        cells: list[Any] = column.to_pylist()
        return cells
    texts = column.dictionary.to_pylist()
    return [None if index is None else texts[index] for index in column.indices.to_pylist()]
