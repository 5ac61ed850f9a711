"""The live `__consumer_offsets` topic, and its splits.

For a question, the ends of partitions are copied at once (`recent_live`). Fetch reads forwards from
an offset, and offsets say nothing about bytes, as compaction leaves gaps. So the copy is made in
windows of offsets, the last one first; the bytes of a window decide the offsets of the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from kgroup.columnar.input_size import pays
from kgroup.errors import BrokerError, InputError
from kgroup.history.input.split import CopiedRange, OffsetRange, Split, opened
from kgroup.history.sql.question import LogEnd
from kgroup.kernel.compiled import load
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import INTERNAL_TOPICS, OFFSETS_TOPIC, offsets_partition
from kgroup.model.problem import Problem
from kgroup.model.record import known
from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches
from kgroup.source.broker.live_log import LiveLog, StartPosition, problems_of
from kgroup.source.broker.topic_offset import ask_log_ranges
from kgroup.source.config.client_config import ClientConfig

MOST_OFFSETS = 1 << 20
"""Maximum number of offsets of a split: a few hundred megabytes without compaction."""


@dataclass(frozen=True, slots=True)
class LiveSource:
    """The `__consumer_offsets` topic of a live cluster at one time.

    Attributes:
        cluster: name of the cluster in the warehouse.
        ranges: log start offset and log end offset by partition; partitions without a leader
            are missing.
        topic_names: names of existing topics, by topic id.
        problems: why partitions are missing.
        config: connection configuration.
        copies: ranges that were already copied, by partition.
        log_ends: log ends of users' topics, requested before `ranges`, so that these have all
            commits up to then; empty if they were not requested.
    """

    cluster: str
    ranges: Mapping[int, tuple[int, int]]
    topic_names: Mapping[str, str]
    problems: tuple[Problem, ...]
    config: ClientConfig
    copies: Mapping[int, Sequence[CopiedRange]] = field(default_factory=dict)
    log_ends: Sequence[LogEnd] = ()

    def splits(
        self,
        starts: Mapping[int, int] | None = None,
        ends: Mapping[int, int] | None = None,
        most_offsets: int = MOST_OFFSETS,
    ) -> list[Split]:
        """Return splits that cover the partitions.

        Args:
            starts: first offsets to read, by partition; by default the log start offsets.
            ends: offsets at which to stop, by partition; by default the log end offsets.
            most_offsets: maximum number of offsets of a split.
        """
        splits = []
        for partition, (first, last) in sorted(self.ranges.items()):
            start = max(first, (starts or {}).get(partition, first))
            end = (ends or {}).get(partition, last)
            name = f"{OFFSETS_TOPIC}-{partition}"
            for copy in self.copies.get(partition, ()):
                place: CopiedRange | OffsetRange = replace(copy, start=max(copy.start, start))
                if place.start < place.end:
                    splits.append(Split(self.cluster, partition, place, name, place.start))
            while start < end and partition not in self.copies:
                stop = min(end, start + most_offsets)
                place = OffsetRange(start, stop, self.config)
                splits.append(Split(self.cluster, partition, place, name, start))
                start = stop
        return splits


FIRST_WINDOW = 100_000
"""Number of offsets of the first window that `recent_live` copies."""

LEAST_WINDOW = 1000
"""Minimum number of offsets of the other windows."""

WINDOW_BYTES = 64 << 20
"""Aim for their bytes."""

LEAST_BYTES = 64
"""Approximate minimum bytes of a commit."""

ALWAYS_BYTES = 64 << 20
"""Bytes that are copied even if their records are older than asked for: they show what the group
was before, and take a fraction of a second.
"""


@dataclass(frozen=True, slots=True)
class RecentPart:
    """The end of a partition.

    Attributes:
        number: the partition.
        start: first offset of the copy.
        end: offset after the copy.
        first: offset from which there are records to copy.
        size: bytes of the records from `start` on.
        is_cut: whether the budget ended the copy, and not the wanted time or `first`.
        start_ms: time of the first records of the copy that have one; None if none has.
    """

    number: int
    start: int
    end: int
    first: int
    size: int
    is_cut: bool
    start_ms: int | None

    @property
    def is_whole(self) -> bool:
        """Whether no older record was left out."""
        return self.start <= self.first


@dataclass(frozen=True, slots=True)
class RecentLog:
    """The ends of some partitions.

    Attributes:
        source: the copies, as a source with these partitions.
        parts: partitions that have a leader; none if the cluster has no topic
            `__consumer_offsets`.
        log_ends: requests the log ends of partitions of users' topics.
    """

    source: LiveSource
    parts: Sequence[RecentPart]
    log_ends: Callable[[Collection[TopicPartition]], Sequence[LogEnd]]


def ask_live(
    config: ClientConfig,
    cluster: str | None = None,
    timeout_s: float = 10.0,
    *,
    unnamed: str | None = None,
    with_log_ends: bool = False,
) -> LiveSource:
    """Ask a cluster for the log ranges of its `__consumer_offsets`.

    Args:
        config: how to connect.
        cluster: name for the cluster; by default its cluster id.
        timeout_s: give up after this many seconds without an answer from any broker.
        unnamed: name of a cluster without an id; None: that is an error.
        with_log_ends: also request the log ends of all users' topics.

    Raises:
        BrokerError: no broker answers, or the topic may not be described.
        InputError: the cluster has no id (before Kafka 0.10.1), or a file of the configuration
            cannot be read.
    """
    with opened(config, timeout_s) as topic:
        numbers = list(topic.leaders)
        return _ask(topic, config, cluster, numbers, unnamed, with_log_ends=with_log_ends)


def _ask(
    topic: LiveLog,
    config: ClientConfig,
    cluster: str | None,
    numbers: Sequence[int],
    unnamed: str | None = None,
    *,
    with_log_ends: bool = False,
) -> LiveSource:
    client = topic.client
    view = client.run(client.metadata, None)
    name = cluster or view.cluster_id or unnamed
    if name is None:
        raise InputError(
            f"the cluster at {', '.join(config.bootstrap_servers)} has no id (Kafka before "
            "0.10.1 has none); name the cluster with --cluster NAME"
        )
    log_ends: Sequence[LogEnd] = ()
    if with_log_ends:
        log_ends = _log_ends(
            topic,
            [
                (topic_name, number)
                for topic_name, each in view.topics.items()
                if topic_name not in INTERNAL_TOPICS
                for number in each.partitions
            ],
        )
    log_ranges, errors = client.run(topic.ranges_from, numbers, StartPosition())
    names = {
        topic.topic_id: topic.name for topic in view.topics.values() if topic.topic_id is not None
    }
    problems = tuple(problems_of(errors))
    return LiveSource(name, log_ranges, names, problems, config, log_ends=log_ends)


def _log_ends(topic: LiveLog, partitions: Collection[TopicPartition]) -> list[LogEnd]:
    """Return the log ends of partitions whose leaders answer."""
    time_ms = time.time_ns() // 1_000_000
    answers = topic.client.run(ask_log_ranges, topic.client, partitions, committed=False)
    return [
        LogEnd(*at, log.start, log.end, time_ms)
        for at, log in sorted(answers.found.items())
        if log.end is not None
    ]


@contextmanager
def recent_live(
    config: ClientConfig,
    group_id: str | None,
    *,
    since_ms: int | None,
    budget: int,
    ends: Mapping[int, int] | None = None,
    only_group: bool = False,
    known_end: Callable[[str, int, int], int] = lambda cluster, number, first: first,
    cluster: str | None = None,
    unnamed: str | None = None,
    timeout_s: float = 10.0,
) -> Iterator[RecentLog]:
    """Copy the end of a group's partition, or of all; copies exist while the context lasts.

    Args:
        config: how to connect.
        group_id: the group; None: all groups, so that the partitions share the budget.
        since_ms: time from which records are wanted; None for all. `ALWAYS_BYTES` are copied in
            any case.
        budget: maximum bytes, approximately: no window begins above it.
        ends: partitions to copy, and the offset at which to end in each; None for the log end.
        only_group: leave out most records of other groups, if that saves time; see
            `LiveLog.copy`.
        known_end: called with the cluster, the partition and the log start offset; returns the
            offset up to which the records are known.
        cluster: see `ask_live`.
        unnamed: see `ask_live`.
        timeout_s: see `ask_live`.

    Raises:
        BrokerError: see `ask_live`.
        InputError: see `ask_live`.
    """
    with opened(config, timeout_s) as topic:
        numbers = list(topic.leaders)
        if ends is not None:
            numbers = sorted(ends)
        elif group_id is not None and numbers:
            numbers = [offsets_partition(group_id, len(numbers))]
        source = _ask(topic, config, cluster, numbers, unnamed)
        sought: Mapping[int, tuple[int, int]] = {}
        if since_ms is not None and source.ranges:
            position = StartPosition(time_ms=since_ms)
            sought, _ = topic.client.run(topic.ranges_from, numbers, position)
        wanted = []
        for number, (log_start, log_end) in source.ranges.items():
            end = log_end if ends is None else min(log_end, ends[number])
            first = min(known_end(source.cluster, number, log_start), end)
            since = None if since_ms is None else sought.get(number, (first, end))[0]
            wanted.append(_Wanted(number, first, end, since))
        parts, copies = [], {}
        problems: dict[int, BrokerError] = {}
        left, always = budget, ALWAYS_BYTES // max(len(wanted), 1)
        # what short partitions leave of their share of the budget, longer ones get
        for index, each in enumerate(sorted(wanted, key=lambda wanted: wanted.count)):
            share = left // (len(wanted) - index)
            selected = group_id if only_group else None
            part, copies[each.number], problem = _copy(
                topic, each, share, always, selected, is_shared=len(wanted) > 1
            )
            parts.append(part)
            left = max(left - part.size, 0)
            if problem is not None:
                problems[each.number] = problem
        parts.sort(key=lambda part: part.number)
        source = replace(
            source,
            ranges={part.number: (part.start, part.end) for part in parts},
            problems=(*source.problems, *problems_of(problems)),
            copies=copies,
        )
        yield RecentLog(source, parts, partial(_log_ends, topic))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Offsets of a partition: there are records from `first` on, wanted are those from `since`."""

    number: int
    first: int
    end: int
    since: int | None

    @property
    def count(self) -> int:
        return self.end - max(self.first, self.since or 0)


def _copy(
    topic: LiveLog,
    wanted: _Wanted,
    budget: int,
    always: int,
    group_id: str | None,
    *,
    is_shared: bool,
) -> tuple[RecentPart, list[CopiedRange], BrokerError | None]:
    """Copy the end of a partition, window by window, one at least; say also why it ends early.

    Args:
        topic: the topic.
        wanted: partition and offsets.
        budget: maximum bytes, approximately.
        always: bytes to copy even if they are before the wanted offsets.
        group_id: leave out most records of other groups; None: copy all.
        is_shared: whether the budget is a share of one for several partitions.
    """
    number, first, since = wanted.number, wanted.first, wanted.since
    copies: list[CopiedRange] = []
    at, size, problem = wanted.end, 0, None
    # the size of records is unknown: what the first window takes too much, others lack
    width = (
        LEAST_WINDOW if is_shared else min(FIRST_WINDOW, max(budget // LEAST_BYTES, LEAST_WINDOW))
    )
    while at > first and problem is None and (size < budget or not copies):
        if since is not None and at <= since and size >= always:
            break
        low, before = max(first, at - width), topic.bytes_copied
        is_selected = group_id is not None and pays(size or width * LEAST_BYTES)
        if is_selected:
            load()  # not in the event loop, where it would count as a broker's silence
        selected = group_id if is_selected else None
        copied = topic.client.run(topic.copy, number, low, at, group_id=selected)
        (segment,) = copied.log.segments
        copies.insert(0, CopiedRange(str(segment.path), low, at))
        problem = copied.problem
        window = topic.bytes_copied - before
        size += window
        at = low
        aims = [WINDOW_BYTES, max(budget - size, 0)]
        if since is not None:  # not much more than is wanted
            aims.append(max(always - size, (at - since) * window // width))
        width = min(max(width * min(aims) // max(window, 1), LEAST_WINDOW), 8 * width)
    is_cut = at > first and size >= budget and (since is None or at > since)
    times = filter(None, map(_first_time_ms, copies))
    start_ms = next(times, None)
    part = RecentPart(number, at, wanted.end, first, size, is_cut, start_ms)
    return part, copies, problem


def _first_time_ms(copy: CopiedRange) -> int | None:
    """Return the time of the first batch of which the copy has all records."""
    with open(copy.path, "rb") as file:
        for batch in read_file_batches(file):
            if isinstance(batch, RecordBatch):
                first = batch.last_offset if batch.base_offset is None else batch.base_offset
                if first >= copy.start:
                    return known(batch.max_timestamp_ms)
    return None
