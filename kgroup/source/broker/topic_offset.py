"""Log start and end offsets of users' partitions, requested from their leaders.

Each leader is asked for all of its partitions at once, with concurrent requests for start and end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.consumer.offsets import ListOffsetsRequest

from kgroup.model.cluster import TopicPartition, numbers_by_topic
from kgroup.model.log_range import EpochPosition, LogRange, LogReading, OffsetMark
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.leader import LeaderAnswers, ask_leaders

PARTITIONS_PER_REQUEST = 5000
_LATEST, _EARLIEST, _EARLIEST_LOCAL = -1, -2, -4
_TELLS_LOCAL = 8
"""First version of ListOffsets that returns the start of the log on the broker's disks."""
_FOR_CONSUMERS = 3
"""First version of OffsetForLeaderEpoch that requires only DESCRIBE of the topic (Kafka 2.3)."""
_TELLS_UNREPLICATED = 5
"""First version of ListOffsets with OFFSET_NOT_AVAILABLE: Kafka 2.2 (KIP-207)."""


async def read_log_ranges(
    client: BrokerClient, partitions: Collection[TopicPartition], *, committed: bool
) -> LogReading:
    """Return the log ranges of partitions; see `GroupSource.log_ranges`.

    Raises:
        BrokerError: no broker answers.
    """
    if not partitions:
        return LogReading({})

    answers = await ask_log_ranges(client, partitions, committed=committed)
    ranges = dict(answers.found)
    ranges.update((at, LogRange(mark=mark)) for at, mark in answers.marks.items())
    ranges.update((at, LogRange(mark=OffsetMark.NO_ANSWER)) for at in answers.unanswered)
    failures = answers.failures("The leader of {} returned {}.", "the ends of partitions")
    return LogReading(ranges, (*failures, *answers.mark_problems()))


async def ask_log_ranges(
    client: BrokerClient, partitions: Collection[TopicPartition], *, committed: bool
) -> LeaderAnswers[LogRange]:
    """Return the leaders' answers for the log ranges of partitions.

    Raises:
        BrokerError: no broker answers.
    """

    async def ask(leader: int, ats: list[TopicPartition]) -> dict[TopicPartition, LogRange | int]:
        asked = [(_EARLIEST, False), (_LATEST, committed), *[(_LATEST, False)] * committed]
        starts, ends, *log_ends = await client.gather_all(
            _offsets(client, leader, ats, which, stable) for which, stable in asked
        )
        offsets: dict[TopicPartition, LogRange | int] = {}
        for at in ats:
            log_end = log_ends[0][at] if log_ends else (0, None)
            code = starts[at][0] or ends[at][0] or log_end[0]
            offsets[at] = code or LogRange(starts[at][1], ends[at][1], log_end=log_end[1])
        return offsets

    return await ask_leaders(client, partitions, ask, partitions_per_request=PARTITIONS_PER_REQUEST)


async def ask_offsets_at(
    client: BrokerClient, partitions: Collection[TopicPartition], time_ms: int
) -> LeaderAnswers[LogRange]:
    """Return, by partition, the range that starts at the first record of a time, 0 or later.

    The start is unknown if there is no such record; 0 if the broker or the message format is so old
    that the log has no timestamps.

    Raises:
        BrokerError: no broker answers.
    """
    return await _ask_times(client, partitions, time_ms, LogRange(0))


async def read_offsets_at(
    client: BrokerClient, partitions: Collection[TopicPartition], time_ms: int
) -> LogReading:
    """Return the offsets of the first records of a time; see `GroupSource.offsets_at`.

    Raises:
        BrokerError: no broker answers.
    """
    untimed = int(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    answers = await _ask_times(client, partitions, time_ms, untimed)
    failures = answers.failures("The leader of {} returned {}.", "the times of partitions")
    return LogReading(answers.found, (*failures, *answers.mark_problems()))


async def _ask_times(
    client: BrokerClient,
    partitions: Collection[TopicPartition],
    time_ms: int,
    untimed: LogRange | int,
) -> LeaderAnswers[LogRange]:
    """Return the first records of a time; `untimed` is the result for logs without timestamps.

    No record has a negative timestamp; ListOffsets gives negative times other meanings (-1: the
    end).
    """
    time_ms = max(time_ms, 0)

    async def ask(leader: int, ats: list[TopicPartition]) -> dict[TopicPartition, LogRange | int]:
        if not await client.version(leader, ListOffsetsRequest):
            return dict.fromkeys(ats, untimed)
        offsets = await _offsets(client, leader, ats, time_ms, False)
        return {
            at: (
                untimed
                if code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
                else code or LogRange(offset)
            )
            for at, (code, offset) in offsets.items()
        }

    return await ask_leaders(client, partitions, ask, partitions_per_request=PARTITIONS_PER_REQUEST)


async def read_log_sizes(
    client: BrokerClient, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return the bytes of partitions on their leaders; see `GroupSource.log_sizes`.

    Partitions with segments in remote storage (KIP-405) are left out: brokers return only the bytes
    on their disks.

    Raises:
        BrokerError: no broker answers.
    """
    from kafka.protocol.admin.cluster import DescribeLogDirsRequest

    async def ask(leader: int, ats: list[TopicPartition]) -> dict[TopicPartition, tuple[int] | int]:
        if await client.version(leader, DescribeLogDirsRequest) is None:
            return {}
        topic_of = DescribeLogDirsRequest.DescribableLogDirTopic
        numbers = numbers_by_topic(ats)
        topics = [topic_of(topic=name, partitions=own) for name, own in numbers.items()]
        answer = await client.ask(leader, DescribeLogDirsRequest, topics=topics)
        remote = await _partly_remote(client, leader, ats)
        return {
            at: (partition.partition_size,)
            for folder in answer.results
            for topic in folder.topics
            for partition in topic.partitions
            if not partition.is_future_key
            if (at := (topic.name, partition.partition_index)) not in remote
        }

    size = PARTITIONS_PER_REQUEST
    answers = await ask_leaders(client, partitions, ask, partitions_per_request=size)
    return {at: size for at, (size,) in answers.found.items()}


async def read_epoch_ends(
    client: BrokerClient, positions: Collection[EpochPosition]
) -> Mapping[EpochPosition, int | None]:
    """Return where leader epochs end; see `GroupSource.epoch_ends`.

    Raises:
        BrokerError: no broker answers.
    """
    epochs: dict[TopicPartition, list[int]] = {}
    for topic, partition, epoch in positions:
        epochs.setdefault((topic, partition), []).append(epoch)
    ends: dict[EpochPosition, int | None] = {}
    while epochs:  # a request has one epoch of a partition
        ends.update(await _epoch_ends(client, {at: of.pop() for at, of in epochs.items()}))
        epochs = {at: of for at, of in epochs.items() if of}
    return ends


async def _epoch_ends(
    client: BrokerClient, epochs: Mapping[TopicPartition, int]
) -> dict[EpochPosition, int | None]:
    from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest

    topic_of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition_of = topic_of.OffsetForLeaderPartition

    async def ask(
        leader: int, ats: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[int | None] | int]:
        if (await client.version(leader, OffsetForLeaderEpochRequest) or 0) < _FOR_CONSUMERS:
            return {}
        topics: dict[str, list[Any]] = {}
        for topic, partition in ats:
            epoch = epochs[topic, partition]
            topics.setdefault(topic, []).append(
                partition_of(partition=partition, current_leader_epoch=-1, leader_epoch=epoch)
            )
        answer = await client.ask(
            leader,
            OffsetForLeaderEpochRequest,
            replica_id=-1,
            topics=[topic_of(topic=name, partitions=of) for name, of in topics.items()],
        )
        return {
            (topic.topic, each.partition): each.error_code
            or (None if each.leader_epoch < 0 or each.end_offset < 0 else each.end_offset,)
            for topic in answer.topics
            for each in topic.partitions
        }

    size = PARTITIONS_PER_REQUEST
    answers = await ask_leaders(client, epochs, ask, partitions_per_request=size)
    return {(*at, epochs[at]): end for at, (end,) in answers.found.items()}


async def ask_unreplicated(
    client: BrokerClient, leader: int, ats: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the partitions that a new leader does not know to be replicated, with error codes.

    Until it does, a coordinator on the broker answers without their last records. Brokers before
    2.2 do not report this; their coordinators do not wait.

    Returns:
        Error codes: OFFSET_NOT_AVAILABLE, or why the broker did not check.

    Raises:
        BrokerError: the broker does not answer.
    """
    version = await client.version(leader, ListOffsetsRequest)
    if version is None or version < _TELLS_UNREPLICATED:
        return {}
    ends = await _offsets(client, leader, ats, _LATEST, False)
    return {at: code for at, (code, _) in ends.items() if code}


async def _partly_remote(
    client: BrokerClient, leader: int, ats: list[TopicPartition]
) -> frozenset[TopicPartition]:
    """Return the partitions whose log starts before the part on the leader's disks."""
    if (await client.version(leader, ListOffsetsRequest) or 0) < _TELLS_LOCAL:
        return frozenset()
    starts, local_starts = await client.gather_all(
        _offsets(client, leader, ats, which, False) for which in (_EARLIEST, _EARLIEST_LOCAL)
    )
    return frozenset(at for at in ats if starts[at] != local_starts[at])


async def _offsets(
    client: BrokerClient, leader: int, ats: Collection[TopicPartition], which: int, committed: bool
) -> dict[TopicPartition, tuple[int, int | None]]:
    """Return error code and offset by partition, from one leader; `which` is an end or a time."""
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
    offsets = {
        (topic.name, partition.partition_index): (partition.error_code, _offset(partition, version))
        for topic in answer.topics
        for partition in topic.partitions
    }
    return only_asked(offsets, ats, "ListOffsets", leader)


def _offset(partition: Any, version: int | None) -> int | None:
    if version == 0:
        return partition.old_style_offsets[0] if partition.old_style_offsets else None
    return partition.offset if partition.offset >= 0 else None
