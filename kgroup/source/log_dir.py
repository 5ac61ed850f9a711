"""Groups from a broker's log directory, or any folder of `__consumer_offsets` segments.

The state is what a coordinator has when it has loaded the partitions: see `kgroup.model.delta`.
Files are only read. What beyond the records is known comes from the files that brokers keep beside
them: names of topics from ``partition.metadata`` (Kafka 2.8 and later), the cluster and the broker
from ``meta.properties``, and the ends of users' partitions from their own segments. Such an end is
the end of this replica's log at the time of the copy: neither a high watermark nor the leader's.

How many partitions `__consumer_offsets` has is known only if all of them are there: that is
believed where several folders are numbered without a gap and each group lies in the one that its
name gives for that many.

Where several folders hold the same partition (replicas of several brokers), the one whose log ends
last is read. Where two partitions hold the same group (the topic's partition count was changed),
the one that changed last wins.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.image import Image
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.record import DecodedRecord
from kgroup.model.segment import Segment
from kgroup.operation.locate import offsets_partition
from kgroup.protocol.batch import Damage, RecordBatch
from kgroup.protocol.coordinator_record import decode_control, decode_record
from kgroup.protocol.record_batch import read_file_batches, read_records
from kgroup.source.base import Capability, Reading
from kgroup.source.log_end import log_end
from kgroup.source.segment_file import find_segments, partition_of

__all__ = ["LogDir", "find_segments", "read_segment"]


class LogDir:
    """A source of groups; implements `GroupSource`."""

    capabilities = frozenset(
        {
            Capability.GENERATION,
            Capability.PENDING_OFFSETS,
            Capability.COMMIT_TIMESTAMPS,
            Capability.LOG_END_OFFSETS,
        }
    )

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)

    def read(self, group_ids: Collection[str] | None = None) -> Reading:
        """Replay every partition found; see `GroupSource.read`."""
        segments = find_segments(self._paths)
        notes = [
            f"{segment.path} left out. {segment.reason}"
            for segment in segments
            if not segment.is_loaded
        ]
        logs = list(_choose_replicas(segments, notes))
        damage = ProblemLog()
        deltas = [_replay(log, damage) for log in logs]
        directories = self._directories()
        topic_names = _topic_names(directories)
        for delta in deltas:
            topic_names = {**delta.topic_names, **topic_names}
        cluster_ids, broker_ids = _identities(directories, notes)
        groups = _merge(deltas, topic_names, notes)
        return Reading(
            Image(
                groups={
                    group_id: groups[group_id]
                    for group_id in sorted(groups)
                    if group_ids is None or group_id in group_ids
                },
                topic_names=topic_names,
                cluster_id=cluster_ids[0] if len(cluster_ids) == 1 else None,
                broker_ids=broker_ids,
                offsets_partition_count=_partition_count(logs, groups),
            ),
            problems=(
                *damage.problems(),
                *(problem for delta in deltas for problem in delta.problems()),
            ),
            notes=tuple(notes),
        )

    def log_end_offsets(
        self, partitions: Collection[tuple[str, int]]
    ) -> Mapping[tuple[str, int], int]:
        """Look for the partitions' own segments; see `GroupSource.log_end_offsets`."""
        ends: dict[tuple[str, int], int] = {}
        for directory in self._directories():
            for topic, partition in partitions:
                folder = directory / f"{topic}-{partition}"
                if folder.is_dir() and (end := _folder_end(folder)) is not None:
                    ends[topic, partition] = max(end, ends.get((topic, partition), 0))
        return ends

    def _directories(self) -> list[Path]:
        """Log directories that the paths are, or lie in; each once."""
        directories = {}
        for path in self._paths:
            folder = path.absolute() if path.is_dir() else path.absolute().parent
            if partition_of(folder) is not None:
                folder = folder.parent
            directories[folder.resolve()] = folder
        return list(directories.values())


def _choose_replicas(segments: Iterable[Segment], notes: list[str]) -> Iterator[list[Segment]]:
    """Yield the segments to read, one list for each log."""
    logs: dict[int | Path, list[list[Segment]]] = {}
    for (partition, folder), log in groupby(
        (segment for segment in segments if segment.is_loaded),
        key=lambda segment: (segment.partition, segment.path.parent),
    ):
        logs.setdefault(folder if partition is None else partition, []).append(list(log))
    for replicas in logs.values():
        chosen = max(replicas, key=_end) if len(replicas) > 1 else replicas[0]
        yield chosen
        for other in replicas:
            if other is not chosen:
                notes.append(
                    f"{other[0].path.parent} left out: it ends at offset {_end(other)}, and "
                    f"{chosen[0].path.parent}, which holds the same partition, at {_end(chosen)}."
                )


def _end(log: Sequence[Segment]) -> int:
    try:
        return log_end(log[-1].path, log[-1].base_offset or 0)
    except OSError:
        return -1


def _partition_count(logs: Iterable[list[Segment]], groups: Mapping[str, Group]) -> int | None:
    partitions = {log[0].partition for log in logs}
    count = len(partitions)
    is_whole = partitions == set(range(count)) and all(
        group.offsets_partition == offsets_partition(group_id, count)
        for group_id, group in groups.items()
    )
    return count if count > 1 and groups and is_whole else None


def _replay(segments: Iterable[Segment], damage: ProblemLog) -> Delta:
    delta: Delta | None = None
    for segment in segments:
        delta = delta or Delta(segment.partition)
        try:
            for record in read_segment(segment, damage):
                delta.replay(record)
        except OSError as error:
            damage.add(
                Problem(
                    "unreadable",
                    f"The file cannot be read: {error.strerror or error}.",
                    path=str(segment.path),
                    offsets_partition=segment.partition,
                )
            )
    return delta or Delta()


def read_segment(segment: Segment, damage: ProblemLog) -> Iterator[DecodedRecord]:
    """Decode a segment's records in order, for `Delta`: transactional ones are all "open".

    What cannot be read goes to `damage`.

    Raises:
        OSError: the file cannot be read.
    """
    with segment.path.open("rb") as file:
        for batch in read_file_batches(file):
            if isinstance(batch, Damage):
                damage.add(_problem(batch, segment))
                continue
            for record in _read_batch(batch, segment.partition):
                if isinstance(record, Damage):
                    damage.add(_problem(record, segment))
                else:
                    yield record


def _read_batch(batch: RecordBatch, partition: int | None) -> Iterator[DecodedRecord | Damage]:
    decode = decode_control if batch.is_control else decode_record
    # Whether a marker follows is seen when it comes, as it is for a coordinator.
    transaction = "open" if batch.is_transactional and not batch.is_control else None
    for record in read_records(batch):
        if isinstance(record, Damage):
            yield record
            continue
        kind, key, value = decode(record.key, record.value)
        yield DecodedRecord(
            partition,
            record.offset,
            record.timestamp_ms,
            batch.timestamp_type,
            batch.leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            transaction,
            kind,
            key,
            value,
        )


def _problem(damage: Damage, segment: Segment) -> Problem:
    return Problem(
        damage.kind,
        damage.reason,
        path=str(segment.path),
        position=damage.position,
        offsets_partition=segment.partition,
    )


def _merge(
    deltas: Iterable[Delta], topic_names: Mapping[str, str], notes: list[str]
) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    owners: dict[str, Delta] = {}
    for delta in deltas:
        for group_id, group in delta.groups(topic_names).items():
            other = owners.get(group_id)
            if other is None or delta.changed_ms(group_id) > other.changed_ms(group_id):
                groups[group_id], owners[group_id] = group, delta
            if other is not None:
                notes.append(
                    f"Group {group_id!r} found in partitions {other.offsets_partition} and "
                    f"{delta.offsets_partition}; that of partition "
                    f"{owners[group_id].offsets_partition} changed last and was taken. The number "
                    "of partitions may have been changed."
                )
    return groups


def _topic_names(directories: Iterable[Path]) -> dict[str, str]:
    """Read topics' ids from one ``partition.metadata`` of each topic."""
    names: dict[str, str] = {}
    seen: set[str] = set()
    for directory in directories:
        for folder in sorted(directory.iterdir()):
            topic, dash, number = folder.name.rpartition("-")
            if not dash or not number.isdecimal() or topic in seen:
                continue
            topic_id = _properties(folder / "partition.metadata", ":").get("topic_id")
            if topic_id is not None:
                seen.add(topic)
                names[topic_id] = topic
    return names


def _identities(
    directories: Iterable[Path], notes: list[str]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Read the ids of clusters and brokers from each ``meta.properties``."""
    clusters, brokers = set(), set()
    for directory in directories:
        found = _properties(directory / "meta.properties", "=")
        if "cluster.id" in found:
            clusters.add(found["cluster.id"])
        broker_id = found.get("node.id", found.get("broker.id", ""))
        if broker_id.isdecimal():
            brokers.add(int(broker_id))
    if len(clusters) > 1:
        notes.append(f"The folders belong to different clusters: {', '.join(sorted(clusters))}.")
    return tuple(sorted(clusters)), tuple(sorted(brokers))


def _properties(path: Path, separator: str) -> dict[str, str]:
    """Read the lines ``name<separator>value`` of a small file; none where it cannot be read."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition(separator) for line in lines if not line.startswith("#"))
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _folder_end(folder: Path) -> int | None:
    """Return where the log in a partition's folder ends; None where there is no segment."""
    last = max(folder.glob("[0-9]*.log"), default=None)
    if last is None or not last.stem.isdecimal():
        return None
    try:
        return log_end(last, int(last.stem))
    except OSError:
        return None
