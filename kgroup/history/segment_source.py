"""Find what there is to read: segments of `__consumer_offsets`, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kgroup.errors import InputError, UsageError
from kgroup.history.cut import cut_by_index, cut_by_lengths
from kgroup.history.split import FileRange, Split
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.segment import Segment
from kgroup.source.log_folder import META_PROPERTIES, read_pairs, read_topic_names
from kgroup.source.segment_file import find_segments

__all__ = ["SegmentSource", "Sources", "find_sources"]

SPLIT_SIZE = 128 << 20
"""Bytes of a split."""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A segment file that can be read.

    Attributes:
        cluster: name of its cluster.
        offsets_partition: the partition of `__consumer_offsets`.
        base_offset: offset that it is named after; None where its name tells none.
        path: see `FileRange`.
        size: bytes that it had when it was found.
        name: what to call it in messages.
        replica: its folder, which tells copies of one partition apart.
        uri: see `FileRange`.
    """

    cluster: str
    offsets_partition: int
    base_offset: int | None
    path: str
    size: int
    name: str
    replica: str
    uri: str | None = None

    def read(self, position: int, size: int) -> bytes:
        """Read bytes; fewer at its end.

        Raises:
            OSError: it cannot be read.
        """
        with Path(self.path).open("rb") as file:
            file.seek(position)
            return file.read(size)

    def splits(self, start: int = 0, split_size: int = SPLIT_SIZE) -> list[Split]:
        """Cut it into parts that are read by different tasks.

        Args:
            start: what stands before was read already. Where no batch begins there, as when one was
                just being written, the first split begins before.
            split_size: bytes of a split, about; what cannot be cut is one split.

        Raises:
            OSError: it cannot be read.
        """
        if start >= self.size:
            return []
        begins = self._cut(start, -(-(self.size - start) // split_size))
        return [
            Split(
                self.cluster,
                self.offsets_partition,
                FileRange(self.path, first, last, self.uri),
                self.name,
                self.replica,
                self.base_offset,
            )
            for first, last in pairwise([*begins, self.size])
        ]

    def _cut(self, start: int, parts: int) -> list[int]:
        begins = [start]
        if start == 0 and parts == 1:
            return begins
        path = Path(self.path)
        with path.open("rb") as file:
            index = path.with_suffix(".index")
            if self.base_offset is not None and index.exists():
                entries = index.read_bytes()
                begins = cut_by_index(file, entries, self.base_offset, start, self.size, parts)
        if len(begins) < parts:
            other = cut_by_lengths(path, start, self.size, parts)
            begins = max(begins, other, key=lambda begins: (len(begins), begins[0]))
        return begins


@dataclass(frozen=True, slots=True)
class Sources:
    """What was found.

    Attributes:
        segments: sorted by cluster, partition, replica and base offset.
        topic_names: of each cluster, names of users' topics by id, those that are known.
        problems: what cannot be read.
        notes: what was left out, for people.
    """

    segments: tuple[SegmentSource, ...]
    topic_names: Mapping[str, Mapping[str, str]]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def find_sources(places: Sequence[str], cluster: str | None = None) -> Sources:
    """Find segments.

    Args:
        places: segment files, folders of them, log directories.
        cluster: name of their cluster; by default the id in each log directory's
            ``meta.properties``.

    Raises:
        InputError: a place does not exist or holds no segment, or it does not tell its cluster.
        UsageError: one name for what belongs to several clusters.
        OSError: a place cannot be read, and nothing else is there.
    """
    problems = ProblemLog()
    notes: list[str] = []
    found = []
    for segment in find_segments([Path(place) for place in places], tell=problems.add):
        if not segment.is_loaded:
            notes.append(f"{segment.path} left out. {segment.reason}")
        elif segment.partition is None:
            problems.add(_of_no_partition(segment))
        else:
            found.append((segment, segment.path.absolute().parent.parent))
    directories = {directory: None for _, directory in found}
    names = _clusters(directories, cluster)
    topic_names: dict[str, dict[str, str]] = {}
    for directory in directories:
        topic_names.setdefault(names[directory], {}).update(read_topic_names([directory]))
    segments = [_source(segment, names[directory]) for segment, directory in found]
    return Sources(
        tuple(sorted(segments, key=_order)), topic_names, problems.problems(), tuple(notes)
    )


def _clusters(directories: Iterable[Path], cluster: str | None) -> dict[Path, str]:
    """Name the cluster of each log directory."""
    ids = {
        directory: read_pairs(directory / META_PROPERTIES, "=").get("cluster.id") or None
        for directory in directories
    }
    if cluster is None:
        names = {directory: found for directory, found in ids.items() if found is not None}
        for directory in ids.keys() - names.keys():
            raise InputError(
                f"{directory}: expected a {META_PROPERTIES} with a cluster.id, found none; name "
                "the cluster with --cluster NAME",
                path=str(directory),
            )
        return names
    if len(several := sorted({found for found in ids.values() if found is not None})) > 1:
        raise UsageError(
            f"--cluster gives one name to the logs of different clusters, {', '.join(several)}; "
            "read one cluster at a time, or leave it out"
        )
    return dict.fromkeys(ids, cluster)


def _source(segment: Segment, cluster: str) -> SegmentSource:
    assert segment.partition is not None
    path = segment.path.absolute()
    return SegmentSource(
        cluster,
        segment.partition,
        segment.base_offset,
        str(path),
        segment.size,
        str(segment.path),
        str(path.parent.resolve()),
    )


def _of_no_partition(segment: Segment) -> Problem:
    return Problem(
        "unknown-partition",
        "Expected a segment in a folder named __consumer_offsets-N, which tells its partition, "
        f"found it in {segment.path.absolute().parent.name!r}.",
        path=str(segment.path),
    )


def _order(segment: SegmentSource) -> tuple[str, int, str, int, str]:
    return (
        segment.cluster,
        segment.offsets_partition,
        segment.replica,
        segment.base_offset or 0,
        segment.path,
    )
