"""Where records of `__consumer_offsets` come from: files, standard input, or a live cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kgroup.cli.option.connection import Connection
from kgroup.cli.option.input_file import input_files
from kgroup.cli.option.record_filter import RecordFilter
from kgroup.cli.output.context import check_reader, warn, warn_notes
from kgroup.errors import InputError

if TYPE_CHECKING:
    from kgroup.columnar.log_reader import Logs
    from kgroup.model.problem import Problem
    from kgroup.model.segment import Segment
    from kgroup.source.broker.live_log import LiveLog


@contextmanager
def file_records(
    inputs: Sequence[Path], include: Sequence[str], partitions: Sequence[int]
) -> Iterator[tuple[list[Segment], list[Problem], Callable[[Path], str]]]:
    """Find the segments to be read, what cannot be, and a function that gives each file a name.

    What is left out is told.

    Args:
        inputs: files, folders, `-`.
        include: statuses of segments that a broker would remove.
        partitions: that are wanted; none: all.

    Raises:
        InputError: there is nothing to read.
    """
    with input_files(inputs) as (found, name):
        segments, unread = _segments(found, include, partitions)
        yield segments, unread, name


def _segments(
    inputs: Sequence[Path], include: Sequence[str], partitions: Sequence[int]
) -> tuple[list[Segment], list[Problem]]:
    from kgroup.model.segment import SegmentStatus, left_out_notes
    from kgroup.source.log.segment_file import find_segments
    from kgroup.source.log.source import without_replicas

    problems: list[Problem] = []
    statuses = {SegmentStatus(word) for word in include}
    segments = find_segments(inputs, include=statuses, on_problem=problems.append)
    if partitions:
        there = sorted({s.partition for s in segments if s.partition is not None})
        segments = [segment for segment in segments if segment.partition in partitions]
        if not segments:
            raise InputError(
                f"no segment of partition {_list(partitions)} of __consumer_offsets found; there "
                f"are segments of {_list(there) or 'no partition that is known'}"
            )
    notes = left_out_notes((str(segment.path), segment) for segment in segments)
    segments = without_replicas(segments, notes)
    warn_notes(notes)
    return segments, problems


@dataclass(frozen=True, slots=True)
class LiveChoice:
    """What of a cluster's `__consumer_offsets` is wanted.

    Attributes:
        partitions: by number; none: those of the groups, if they are named.
        wanted: which records.
        last_offset: where to stop.
        follow: whether to go on for ever; without a place to begin at, with what comes.
    """

    partitions: Sequence[int]
    wanted: RecordFilter
    last_offset: int | None
    follow: bool


@contextmanager
def live_records(
    connection: Connection, choice: LiveChoice, on_progress: Callable[[LiveLog], None]
) -> Iterator[tuple[Sequence[Segment] | Logs, list[Problem], Callable[[Path], str]]]:
    """Give the logs of a cluster; none, and a note, where it has no such topic.

    As `file_records` does, but that no file has a name that means anything.

    Args:
        connection: to the cluster.
        choice: what is wanted.
        on_progress: called while records are fetched.

    Raises:
        BrokerError: the cluster does not answer, or the topic may not be described.
        InputError: none of the partitions that were named is there.
    """
    with (
        connection.open(of_silence=True) as cluster,
        TemporaryDirectory(prefix="kgroup-") as folder,
    ):
        topic = cluster.offsets_log(Path(folder), on_progress)
        if not topic.leaders:
            warn("note: The cluster shows no topic __consumer_offsets: there is nothing to decode.")
            yield [], [], str
            return
        from kgroup.source.broker.live_log import FollowedLogs, LiveLogs, Start

        numbers = _numbers(choice, list(topic.leaders))
        start = Start(choice.wanted.from_offset, choice.wanted.since)
        if not choice.follow:
            end = None if choice.last_offset is None else choice.last_offset + 1
            yield LiveLogs(topic, numbers, start, end), [], str
            return
        logs = FollowedLogs(
            topic,
            numbers,
            start if start.is_sought else Start(at_end=True),
            committed=choice.wanted.is_committed,
            on_note=lambda text: warn(f"note: {text}"),
            pulse=check_reader,
        )
        yield logs, [], str


def _numbers(choice: LiveChoice, there: Sequence[int]) -> list[int]:
    """Choose partitions: all records about a group stand in one, that of its coordinator."""
    from kgroup.model.offsets_partition import offsets_partition

    if choice.partitions:
        numbers = [number for number in there if number in choice.partitions]
        if not numbers:
            raise InputError(
                f"__consumer_offsets has no partition {_list(choice.partitions)}; it has "
                f"{there[0]} to {there[-1]}"
            )
        return numbers
    groups = () if choice.wanted.regex else choice.wanted.groups
    if groups:
        return sorted({offsets_partition(group, len(there)) for group in groups})
    return list(there)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
