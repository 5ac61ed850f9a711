"""Requests to the leaders of users' partitions.

Leaders come from cached metadata, which are requested if missing; each leader is queried for all of
its partitions at once. Partitions whose leader has moved are looked up and requested again, with
growing pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import Topic, TopicPartition
from kgroup.model.log_range import OffsetMark
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import Backoff, BrokerClient
from kgroup.source.broker.connection import BROKEN
from kgroup.source.broker.error_code import LEADER_MOVES, error_name

T = TypeVar("T")

_MARKS: Mapping[int, OffsetMark] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: OffsetMark.TOPIC_GONE,
    ErrorCode.INVALID_TOPIC_EXCEPTION: OffsetMark.TOPIC_GONE,  # a name that no topic can have
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: OffsetMark.NOT_AUTHORIZED,
}
_MARKS_BY_NAME = {error_name(code): mark for code, mark in _MARKS.items()}


@dataclass(frozen=True, slots=True)
class LeaderAnswers(Generic[T]):
    """Results of partitions; each partition is in one of the three mappings.

    Attributes:
        found: results.
        marks: why there is no leader, topic or partition to query.
        unanswered: error codes, or errors of the leader.
    """

    found: Mapping[TopicPartition, T]
    marks: Mapping[TopicPartition, OffsetMark]
    unanswered: Mapping[TopicPartition, BrokerError | int]

    def mark_problems(self, shut: str = OffsetMark.NOT_AUTHORIZED.sentence) -> Iterator[Problem]:
        """Yield one problem per partition without a leader, and per unauthorized topic.

        `shut` is the sentence about an unauthorized topic.
        """
        topics = set()
        for (topic, partition), mark in sorted(self.marks.items()):
            if mark is OffsetMark.NOT_AUTHORIZED and topic not in topics:
                topics.add(topic)
                yield Problem(ProblemKind(mark), f"{topic}: {shut}", topic=topic)
            elif mark is OffsetMark.NO_LEADER:
                text = f"{topic}-{partition}: {mark.sentence}"
                yield Problem(ProblemKind(mark), text, topic=topic, partition=partition)

    def failures(self, refused: str, missing: str) -> Iterator[Problem]:
        """Yield problems of `unanswered`: one per partition with an error code, or per broker.

        Args:
            refused: sentence with placeholders for the partition and the name of its error.
            missing: what is missing for the partitions that a failed broker leads.
        """
        topics = set()
        for (topic, partition), reason in sorted(self.unanswered.items()):
            if not isinstance(reason, BrokerError):
                text = refused.format(f"{topic}-{partition}", error_name(reason))
                yield Problem(ProblemKind.DENIED, text, topic=topic, partition=partition)
            elif reason.broker_id not in topics:
                topics.add(reason.broker_id)
                text = f"{reason}; {missing} that it leads are missing."
                yield Problem(reason.kind, text[:1].upper() + text[1:], broker=reason.broker_id)


async def ask_leaders(
    client: BrokerClient,
    partitions: Collection[TopicPartition],
    ask: Callable[
        [int, list[TopicPartition]], Coroutine[Any, Any, Mapping[TopicPartition, T | int]]
    ],
    *,
    partitions_per_request: int,
) -> LeaderAnswers[T]:
    """Query the leader of each partition.

    `ask` queries one broker about at most `partitions_per_request` of its partitions, and returns
    results or error codes.

    Raises:
        BrokerError: no broker answers.
    """
    results: dict[TopicPartition, T] = {}
    marks: dict[TopicPartition, OffsetMark] = {}
    reasons: dict[TopicPartition, BrokerError | int] = {}
    waiting = set(partitions)
    backoff = Backoff(client, in_step=True)
    topics = await client.topics({topic for topic, _ in waiting})
    while waiting:
        by_leader: dict[int, list[TopicPartition]] = {}
        for at in sorted(waiting):
            leader = _leader(topics, at)
            if isinstance(leader, OffsetMark):
                marks[at] = leader
            else:
                by_leader.setdefault(leader, []).append(at)
        waiting = set()
        parts = [
            (leader, ats[start : start + partitions_per_request])
            for leader, ats in by_leader.items()
            for start in range(0, len(ats), partitions_per_request)
        ]
        answers = await client.gather(ask(*part) for part in parts)
        for (_, ats), answer in zip(parts, answers, strict=True):
            if isinstance(answer, BrokerError):
                reasons.update((at, answer) for at in ats)
                if answer.kind in BROKEN:
                    waiting.update(ats)
                continue
            for at, result in answer.items():
                if not isinstance(result, int):
                    results[at] = result
                elif result in _MARKS:
                    marks[at] = _MARKS[result]
                else:
                    reasons[at] = result
                    if result in LEADER_MOVES:
                        waiting.add(at)
        if waiting:
            topic, partition = min(waiting)
            what = f"the leader of {topic}-{partition}"
            if not await backoff.wait(what, leaves_time=bool(results)):
                break
            topics = (await client.metadata({topic for topic, _ in waiting})).topics
    unanswered = {at: why for at, why in reasons.items() if at not in results and at not in marks}
    return LeaderAnswers(results, marks, unanswered)


def _leader(topics: Mapping[str, Topic], at: TopicPartition) -> int | OffsetMark:
    topic = topics.get(at[0])
    if topic is None:
        return OffsetMark.TOPIC_GONE
    if topic.error is not None and not topic.partitions:
        return _MARKS_BY_NAME.get(topic.error, OffsetMark.NO_LEADER)
    partition = topic.partitions.get(at[1])
    if partition is None:
        return OffsetMark.PARTITION_GONE
    return OffsetMark.NO_LEADER if partition.leader is None else partition.leader
