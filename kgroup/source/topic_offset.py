"""Where the partitions of users' topics begin and end, asked of their leaders.

Metadata says who leads which partition; each leader is asked for all of its partitions at once, for
the first and for the last offset side by side. Partitions that have moved meanwhile are looked for
and asked for again.
"""

from collections.abc import Collection, Iterable
from typing import Any

from kafka.protocol.consumer.offsets import ListOffsetsRequest

from kgroup.errors import BrokerError
from kgroup.model.cluster import ClusterView
from kgroup.model.log_range import LogRange, LogReading, OffsetMark
from kgroup.model.problem import Problem
from kgroup.source.broker_client import Backoff, BrokerClient, error_name

__all__ = ["MOVING", "read_log_ranges"]

At = tuple[str, int]

PARTITIONS_PER_REQUEST = 5000
_LATEST, _EARLIEST = -1, -2
MOVING = frozenset({5, 6, 7, 9, 13, 74, 75, 76, 78})
"""LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, …: the partition has, or gets, another leader."""
_BROKEN = frozenset({"disconnected", "unreachable", "throttled"})
_MARKS = {
    3: OffsetMark.TOPIC_GONE,
    17: OffsetMark.TOPIC_GONE,  # a name that no topic can have
    29: OffsetMark.NOT_AUTHORIZED,
}
_MARKS_BY_NAME = {error_name(code): mark for code, mark in _MARKS.items()}


async def read_log_ranges(
    client: BrokerClient, partitions: Collection[At], *, committed: bool
) -> LogReading:
    """Ask for the ranges of partitions; see `GroupSource.log_ranges`.

    Raises:
        BrokerError: no broker answers.
    """
    if not partitions:
        return LogReading({})
    ranges: dict[At, LogRange] = {}
    reasons: dict[At, BrokerError | int] = {}
    waiting = set(partitions)
    backoff = Backoff(client)
    while waiting:
        view = await client.metadata({topic for topic, _ in waiting})
        by_leader: dict[int, list[At]] = {}
        for at in sorted(waiting):
            leader = _leader(view, at)
            if isinstance(leader, OffsetMark):
                ranges[at] = LogRange(mark=leader)
            else:
                by_leader.setdefault(leader, []).append(at)
        waiting = set()
        parts = [
            (leader, ats[start : start + PARTITIONS_PER_REQUEST])
            for leader, ats in by_leader.items()
            for start in range(0, len(ats), PARTITIONS_PER_REQUEST)
        ]
        answers = await client.gather(_range_of(client, *part, committed) for part in parts)
        for (_, ats), answer in zip(parts, answers, strict=True):
            if isinstance(answer, BrokerError):
                reasons.update((at, answer) for at in ats)
                if answer.kind in _BROKEN:
                    waiting.update(ats)
                continue
            for at, found in answer.items():
                if isinstance(found, LogRange):
                    ranges[at] = found
                    reasons.pop(at, None)
                elif found in _MARKS:
                    ranges[at] = LogRange(mark=_MARKS[found])
                else:
                    reasons[at] = found
                    if found in MOVING:
                        waiting.add(at)
        if waiting and not await backoff.wait():
            break
    unanswered = {at: reason for at, reason in reasons.items() if at not in ranges}
    ranges.update((at, LogRange(mark=OffsetMark.NO_ANSWER)) for at in unanswered)
    return LogReading(ranges, tuple(_problems(ranges, unanswered)))


def _leader(view: ClusterView, at: At) -> int | OffsetMark:
    topic = view.topics.get(at[0])
    if topic is None:
        return OffsetMark.TOPIC_GONE
    if topic.error is not None and not topic.partitions:
        return _MARKS_BY_NAME.get(topic.error, OffsetMark.NO_LEADER)
    partition = topic.partitions.get(at[1])
    if partition is None:
        return OffsetMark.PARTITION_GONE
    return OffsetMark.NO_LEADER if partition.leader is None else partition.leader


async def _range_of(
    client: BrokerClient, leader: int, ats: list[At], committed: bool
) -> dict[At, LogRange | int]:
    """Ask one leader for both ends; an error code stands where it gave one."""
    starts, ends = await client.gather(
        _offsets(client, leader, ats, which, committed) for which in (_EARLIEST, _LATEST)
    )
    if isinstance(starts, BrokerError):
        raise starts
    if isinstance(ends, BrokerError):
        raise ends
    ranges: dict[At, LogRange | int] = {}
    for at in ats:
        (code, start), (other_code, end) = starts[at], ends[at]
        ranges[at] = code or other_code or LogRange(start, end)
    return ranges


async def _offsets(
    client: BrokerClient, leader: int, ats: list[At], which: int, committed: bool
) -> dict[At, tuple[int, int | None]]:
    """Ask one leader for one end of partitions: error code and offset."""
    version = await client.version(leader, ListOffsetsRequest)
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    partition_of = topic_of.ListOffsetsPartition
    topics: dict[str, list[Any]] = {}
    for topic, partition in ats:
        topics.setdefault(topic, []).append(
            partition_of(version=version, partition_index=partition, timestamp=which)
        )
    isolation = {"isolation_level": int(committed)} if (version or 0) >= 2 else {}
    answer = await client.ask(
        leader,
        ListOffsetsRequest,
        highest=version,
        topics=[topic_of(version=version, name=name, partitions=of) for name, of in topics.items()],
        **isolation,
    )
    return {
        (topic.name, each.partition_index): (each.error_code, _offset(each, version))
        for topic in answer.topics
        for each in topic.partitions
    }


def _offset(partition: Any, version: int | None) -> int | None:
    if version == 0:
        return partition.old_style_offsets[0] if partition.old_style_offsets else None
    return partition.offset if partition.offset >= 0 else None


def _problems(
    ranges: dict[At, LogRange], unanswered: dict[At, BrokerError | int]
) -> Iterable[Problem]:
    """Tell of partitions that should have an answer; of a broker or a topic that is shut once."""
    told: set[object] = set()
    for (topic, partition), reason in sorted(unanswered.items()):
        if isinstance(reason, BrokerError):
            if reason.broker_id in told:
                continue
            told.add(reason.broker_id)
            text = f"{reason}; the ends of partitions that it leads are missing."
            yield Problem(reason.kind, text[:1].upper() + text[1:], broker=reason.broker_id)
        else:
            text = f"The leader of {topic}-{partition} says {error_name(reason)}."
            yield Problem("denied", text, topic=topic, partition=partition)
    for (topic, partition), found in sorted(ranges.items(), key=lambda item: item[0]):
        if found.mark is OffsetMark.NOT_AUTHORIZED and topic not in told:
            told.add(topic)
            yield Problem(found.mark.value, f"{topic}: {found.mark.sentence}", topic=topic)
        elif found.mark is OffsetMark.NO_LEADER:
            text = f"{topic}-{partition}: {found.mark.sentence}"
            yield Problem(found.mark.value, text, topic=topic, partition=partition)
