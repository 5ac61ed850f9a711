"""Find what there is to read: segments of `__consumer_offsets`, and whose they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from kgroup.columnar.input_size import can_compile
from kgroup.errors import InputError, ProblemKind, UsageError
from kgroup.history.input.cut import LARGEST_INDEX, cut_by_index, cut_by_lengths
from kgroup.history.input.location import FileRange
from kgroup.history.input.remote import RemoteFiles, first_line, is_uri
from kgroup.history.input.split import Split
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.segment import Segment, left_out_notes
from kgroup.source.log.folder import META_PROPERTIES, read_pairs, read_topic_names
from kgroup.source.log.segment_file import find_segments

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

    @property
    def order(self) -> tuple[str, int, str, int, str]:
        """What to sort by: cluster, partition, replica, base offset."""
        base = -1 if self.base_offset is None else self.base_offset
        return self.cluster, self.offsets_partition, self.replica, base, self.path

    def read(self, position: int, size: int) -> bytes:
        """Read bytes; fewer at its end.

        Raises:
            OSError: it cannot be read.
        """
        path = Path(self.path)
        if self.uri is not None:
            return RemoteFiles(self.uri).read(path, position, size)
        with path.open("rb") as file:
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
                self.base_offset,
            )
            for first, last in pairwise([*begins, self.size])
        ]

    def _cut(self, start: int, parts: int) -> list[int]:
        if start == 0 and parts == 1:
            return [start]
        path = Path(self.path)
        with path.open("rb") if self.uri is None else RemoteFiles(self.uri).open(path) as file:
            begins = cut_by_index(
                file, self._index(), self.base_offset or 0, start, self.size, parts
            )
        is_worse = len(begins) < parts or begins[0] < start
        if is_worse and self.uri is None and can_compile():
            other = cut_by_lengths(path, start, self.size, parts)
            begins = max(begins, other, key=lambda begins: (len(begins), begins[0]))
        return begins

    def _index(self) -> bytes:
        """Give what the offset index holds; nothing where there is none."""
        index = replace(self, path=str(Path(self.path).with_suffix(".index")))
        try:
            return index.read(0, LARGEST_INDEX)
        except OSError:
            return b""


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


def find_sources(locations: Sequence[str], cluster: str | None = None) -> Sources:
    """Find segments.

    Args:
        locations: segment files, folders of them, log directories; paths, or URIs of pyarrow's file
            systems.
        cluster: name of their cluster; by default the id in each log directory's
            ``meta.properties``.

    Raises:
        InputError: a location does not exist or holds no segment, or it does not tell its cluster;
            no file system can be reached.
        UsageError: one name for what belongs to several clusters.
        OSError: a location cannot be read, and nothing else is there.
    """
    problems = ProblemLog()
    left_out: list[tuple[str, Segment]] = []
    found: list[tuple[_Directory, Segment]] = []
    for files, segment in _find(locations, problems):
        path = segment.path.absolute() if files is None else segment.path
        directory = _Directory(files, path.parent.parent)
        name = directory.name(segment.path)
        if not segment.is_loaded:
            left_out.append((name, segment))
        elif segment.partition is None:
            problems.add(_of_no_partition(segment, name))
        else:
            found.append((directory, segment))
    names = _clusters(dict.fromkeys(directory for directory, _ in found), cluster)
    topic_names: dict[str, dict[str, str]] = {}
    for directory, name in names.items():
        topic_names.setdefault(name, {}).update(directory.topic_names())
    segments = (_source(segment, directory, names[directory]) for directory, segment in found)
    return Sources(
        tuple(sorted(segments, key=lambda segment: segment.order)),
        topic_names,
        problems.problems(),
        tuple(left_out_notes(left_out)),
    )


@dataclass(frozen=True, slots=True)
class _Directory:
    """A log directory, in a remote file system or (None) here."""

    files: RemoteFiles | None
    path: Path

    def name(self, path: Path) -> str:
        """Give what to call a file, or the directory, in messages and tables, which are UTF-8."""
        text = str(path) if self.files is None else self.files.name(path)
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")

    def cluster_id(self) -> str | None:
        path = self.path / META_PROPERTIES
        found = read_pairs(path, "=") if self.files is None else self.files.read_pairs(path, "=")
        return found.get("cluster.id") or None

    def topic_names(self) -> dict[str, str]:
        if self.files is None:
            return read_topic_names([self.path])
        return self.files.read_topic_names(self.path)


def _find(
    locations: Iterable[str], problems: ProblemLog
) -> Iterator[tuple[RemoteFiles | None, Segment]]:
    """Yield segments, each with the file system that it is in if that is a remote one."""
    local: list[Path] = []
    seen: set[str] = set()
    error: InputError | None = None
    for location in dict.fromkeys(locations):
        files = RemoteFiles(location) if is_uri(location) else None
        if files is None:
            local.append(Path(location))
        elif files.is_local:
            local.append(files.path)
        else:
            try:
                for segment in files.find():
                    if (name := files.name(segment.path)) not in seen:
                        seen.add(name)
                        yield files, segment
            except OSError as problem:
                reason = first_line(problem)
                error = InputError(f"{files.shown}: cannot be read: {reason}", path=files.shown)
                problems.add(
                    Problem(
                        ProblemKind.UNREADABLE, f"It cannot be read: {reason}", path=files.shown
                    )
                )
    if local:
        for segment in find_segments(local, on_problem=problems.add):
            yield None, segment
    elif not seen and error is not None:
        raise error


def _clusters(directories: Iterable[_Directory], cluster: str | None) -> dict[_Directory, str]:
    """Name the cluster of each log directory."""
    ids = {directory: directory.cluster_id() for directory in directories}
    if cluster is None:
        names = {directory: found for directory, found in ids.items() if found is not None}
        for directory in ids.keys() - names.keys():
            name = directory.name(directory.path)
            raise InputError(
                f"{name}: expected a {META_PROPERTIES} with a cluster.id, found none; name the "
                "cluster with --cluster NAME",
                path=name,
            )
        return names
    if len(several := sorted({found for found in ids.values() if found is not None})) > 1:
        raise UsageError(
            f"--cluster gives one name to the logs of different clusters, {', '.join(several)}; "
            "read one cluster at a time, or leave it out"
        )
    return dict.fromkeys(ids, cluster)


def _source(segment: Segment, directory: _Directory, cluster: str) -> SegmentSource:
    assert segment.partition is not None
    files, path = directory.files, segment.path
    folder = Path(os.path.realpath(path.parent)) if files is None else path.parent
    return SegmentSource(
        cluster,
        segment.partition,
        segment.base_offset,
        str(path.absolute() if files is None else path),
        segment.size,
        directory.name(path),
        directory.name(folder),
        None if files is None else files.uri,
    )


def _of_no_partition(segment: Segment, name: str) -> Problem:
    return Problem(
        ProblemKind.UNKNOWN_PARTITION,
        "Expected a segment in a folder named __consumer_offsets-N, which tells its partition, "
        f"found it in {segment.path.absolute().parent.name!r}.",
        path=name,
    )
