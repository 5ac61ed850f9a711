"""Ask the leaders of users' partitions.

Metadata says who leads which partition, and is asked for where it is not known yet; each leader is
asked for all of its partitions at once. Partitions that have moved meanwhile are looked for and
asked for again, with growing pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import Topic
from kgroup.model.log_range import OffsetMark
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import Backoff, BrokerClient
from kgroup.source.broker.connection import BROKEN
from kgroup.source.broker.error_code import LEADER_MOVES, error_name

T = TypeVar("T")
At = tuple[str, int]
"""Topic and partition."""

_MARKS: Mapping[int, OffsetMark] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: OffsetMark.TOPIC_GONE,
    ErrorCode.INVALID_TOPIC_EXCEPTION: OffsetMark.TOPIC_GONE,  # a name that no topic can have
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: OffsetMark.NOT_AUTHORIZED,
}
_MARKS_BY_NAME = {error_name(code): mark for code, mark in _MARKS.items()}


@dataclass(frozen=True, slots=True)
class LeaderAnswers(Generic[T]):
    """What was found out about each partition; each is in one of the three.

    Attributes:
        found: answers.
        marks: why there is nobody to ask, or nothing to ask for.
        unanswered: error codes, or what is the matter with the leader.
    """

    found: Mapping[At, T]
    marks: Mapping[At, OffsetMark]
    unanswered: Mapping[At, BrokerError | int]

    def mark_problems(self, shut: str = OffsetMark.NOT_AUTHORIZED.sentence) -> Iterator[Problem]:
        """Tell of partitions without a leader; once of a topic that is shut, in these words."""
        told = set()
        for (topic, partition), mark in sorted(self.marks.items()):
            if mark is OffsetMark.NOT_AUTHORIZED and topic not in told:
                told.add(topic)
                yield Problem(ProblemKind(mark), f"{topic}: {shut}", topic=topic)
            elif mark is OffsetMark.NO_LEADER:
                text = f"{topic}-{partition}: {mark.sentence}"
                yield Problem(ProblemKind(mark), text, topic=topic, partition=partition)

    def failures(self, refused: str, missing: str) -> Iterator[Problem]:
        """Tell of what was not answered: of each partition's error code, of a broker only once.

        Args:
            refused: sentence with places for the partition and the name of its error.
            missing: of the partitions that a broker leads.
        """
        told = set()
        for (topic, partition), reason in sorted(self.unanswered.items()):
            if not isinstance(reason, BrokerError):
                text = refused.format(f"{topic}-{partition}", error_name(reason))
                yield Problem(ProblemKind.DENIED, text, topic=topic, partition=partition)
            elif reason.broker_id not in told:
                told.add(reason.broker_id)
                text = f"{reason}; {missing} that it leads are missing."
                yield Problem(reason.kind, text[:1].upper() + text[1:], broker=reason.broker_id)


async def ask_leaders(
    client: BrokerClient,
    partitions: Collection[At],
    ask: Callable[[int, list[At]], Coroutine[Any, Any, Mapping[At, T | int]]],
    *,
    partitions_per_request: int,
) -> LeaderAnswers[T]:
    """Ask the leader of each partition.

    `ask` asks one broker about some of its partitions, so many at most at a time, and gives answers
    or error codes.

    Raises:
        BrokerError: no broker answers.
    """
    found: dict[At, T] = {}
    marks: dict[At, OffsetMark] = {}
    reasons: dict[At, BrokerError | int] = {}
    waiting = set(partitions)
    backoff = Backoff(client, in_step=True)
    topics = await client.topics({topic for topic, _ in waiting})
    while waiting:
        by_leader: dict[int, list[At]] = {}
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
                    found[at] = result
                elif result in _MARKS:
                    marks[at] = _MARKS[result]
                else:
                    reasons[at] = result
                    if result in LEADER_MOVES:
                        waiting.add(at)
        if waiting:
            topic, partition = min(waiting)
            what = f"the leader of {topic}-{partition}"
            if not await backoff.wait(what, leaves_time=bool(found)):
                break
            topics = (await client.metadata({topic for topic, _ in waiting})).topics
    unanswered = {at: why for at, why in reasons.items() if at not in found and at not in marks}
    return LeaderAnswers(found, marks, unanswered)


def _leader(topics: Mapping[str, Topic], at: At) -> int | OffsetMark:
    topic = topics.get(at[0])
    if topic is None:
        return OffsetMark.TOPIC_GONE
    if topic.error is not None and not topic.partitions:
        return _MARKS_BY_NAME.get(topic.error, OffsetMark.NO_LEADER)
    partition = topic.partitions.get(at[1])
    if partition is None:
        return OffsetMark.PARTITION_GONE
    return OffsetMark.NO_LEADER if partition.leader is None else partition.leader
