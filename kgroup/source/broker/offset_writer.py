"""Write committed offsets: compare and set, group by group, many groups concurrently.

For each hundred groups of a coordinator the writer reads members and offsets, refuses groups that
differ from the plan, and commits the others with one request each. Kafka has no API that compares
and sets, so another client may commit in the milliseconds between the read and the commit. The
writer therefore reads everything back, and reports what differs.

When a coordinator moves it refuses the request; the writer then finds the new one, and reads and
compares again. It does the same after a connection broke before the answer: what the group has
then shows whether the commit was written, so that no commit is written twice.

OffsetCommit and OffsetDelete are each sent once. A commit is that of an administrator: of no member
and no generation, as Kafka's own tools commit (`KafkaAdminClient.alterConsumerGroupOffsets`), which
coordinators take while a group has no members. The coordinator writes the offsets of one request as
one batch: all of them, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetDeleteRequest
from msgspec import Struct
from msgspec.structs import replace

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.member_name import first_members
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import no_string
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient, Window
from kgroup.source.broker.connection import BROKEN
from kgroup.source.broker.coordinator import CoordinatedGroup, CoordinatorRefusal, Coordinators
from kgroup.source.broker.error_code import COORDINATOR_MOVES
from kgroup.source.broker.group_change import (
    NOT_BEGUN,
    OF_PARTITIONS,
    Outcome,
    change_groups,
    refused,
    sentence,
    with_unknown_end,
)
from kgroup.source.broker.group_reader import GroupReader, OffsetFetcher
from kgroup.source.offset_change import by_partition, conflict, place_of, remaining, unwritten

PARTITIONS_PER_REQUEST = 5000
RECORDS_PER_REQUEST = 900_000
"""Bytes of records per request: the batch must not exceed max.message.bytes of the topic,
1,048,588.
"""
_RECORD = 80
"""Maximum bytes of a commit's record, without names and metadata."""
_HIGHEST = 7
"""Newest version of OffsetCommit whose partitions have no tagged fields; encoding empty ones takes
half of the time of a request. Versions 8 and 9 add nothing to commits without a member (9
returns other errors to members of consumer groups, KIP-848), and 10 has ids in place of names.
"""
_NO_GENERATION = -1
_NOW = -1
"""Commit time that stands for the broker's current time; version 1 only."""


class _Partition(Struct, gc=False):
    """Fields of a partition for kafka-python, whose own class takes twenty times as long to create.

    It is not a tuple: kafka-python reads fields of tuples by position, regardless of the version.
    """

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str
    commit_timestamp: int = _NOW


def requests_of(
    group_id: str, offsets: Iterable[CommittedOffset]
) -> Iterator[list[CommittedOffset]]:
    """Yield a group's offsets in parts that fit into one request; usually there is one part."""
    part: list[CommittedOffset] = []
    size = 0
    for offset in offsets:
        text = f"{group_id}{offset.topic}{offset.metadata or ''}"
        more = _RECORD + len(text if text.isascii() else text.encode("utf-8", "replace"))
        if part and (len(part) == PARTITIONS_PER_REQUEST or size + more > RECORDS_PER_REQUEST):
            yield part
            part, size = [], 0
        part.append(offset)
        size += more
    if part:
        yield part


async def commit_offsets(
    client: BrokerClient, node: int, group_id: str, offsets: Collection[CommittedOffset]
) -> dict[TopicPartition, int]:
    """Commit to a coordinator; return the error code of each partition, 0 on success.

    Leader epochs are sent from version 6 (Kafka 2.1). No retention time is requested, which
    versions 2 to 4 could: the broker's own setting applies.

    Raises:
        BrokerError: the coordinator does not answer.
    """
    version = await client.version(node, OffsetCommitRequest, _HIGHEST)
    topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[str, list[_Partition]] = {}
    for offset in offsets:
        epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
        partition = _Partition(
            offset.partition, offset.committed_offset, epoch, offset.metadata or ""
        )
        topics.setdefault(offset.topic, []).append(partition)
    answer = await client.ask_once(
        node,
        OffsetCommitRequest,
        highest=_HIGHEST,
        group_id=group_id,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=[topic_of(version=version, name=name, partitions=of) for name, of in topics.items()],
    )
    partitions = [(offset.topic, offset.partition) for offset in offsets]
    return only_asked(_codes(answer), partitions, "OffsetCommit", node)


async def delete_offsets(
    client: BrokerClient, node: int, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Delete offsets (Kafka 2.4 and later); return the error code of each partition.

    Raises:
        BrokerError: the coordinator does not answer, or lacks the API.
    """
    topic_of = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition_of = topic_of.OffsetDeleteRequestPartition
    topics: dict[str, list[Any]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition_of(partition_index=partition))
    answer = await client.ask_once(
        node,
        OffsetDeleteRequest,
        group_id=group_id,
        topics=[topic_of(name=name, partitions=of) for name, of in topics.items()],
    )
    if answer.error_code:
        return dict.fromkeys(partitions, answer.error_code)
    return only_asked(_codes(answer), partitions, "OffsetDelete", node)


def _codes(answer: Any) -> dict[TopicPartition, int]:
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }


_SIDE_BY_SIDE = 2
"""Concurrent requests, of a hundred groups each: one is read while the other is written, and the
time between a group's read and its commit stays short.
"""
_NOT_YET = COORDINATOR_MOVES | {ErrorCode.REQUEST_TIMED_OUT}
_CANNOT_DELETE = (
    "Kafka before 2.4 cannot delete offsets of single partitions: delete the whole group and write "
    "the rest again, or commit an offset there."
)

Offsets = Sequence[CommittedOffset]


async def write_offsets(
    client: BrokerClient,
    changes: Mapping[str, Sequence[OffsetChange]],
    on_done: Callable[[str], object],
) -> tuple[Problem, ...]:
    """Write offsets; see `GroupSource.write_offsets`.

    Raises:
        BrokerError: no broker answers; nothing was changed.
    """
    wanted = {group_id: of_group for group_id, of_group in changes.items() if of_group}
    if not wanted:
        return ()
    await client.metadata([])
    writer = _Writer(client, wanted, on_done)
    problems = await change_groups(client, wanted, writer.write, writer.unsettled)
    return (*problems, *await _read_back(client, wanted, problems))


async def _read_back(
    client: BrokerClient,
    changes: Mapping[str, Sequence[OffsetChange]],
    problems: Collection[Problem],
) -> tuple[Problem, ...]:
    """Read the offsets back; return problems for those that were replaced or are unknown."""
    failed = {(problem.group_id, problem.topic, problem.partition) for problem in problems}
    written = {
        group_id: [change for change in of_group if (group_id, *place_of(change)) not in failed]
        for group_id, of_group in changes.items()
        if (group_id, None, None) not in failed
    }
    coordinators = Coordinators(client, named=True)
    reason = "no broker answers"
    offsets: Mapping[str, Offsets] = {}
    try:
        named = await coordinators.find([group_id for group_id, rest in written.items() if rest])
        offsets = await coordinators.ask(named, OffsetFetcher(client).fetch)
    except BrokerError as error:
        reason = str(error)
    reasons = {problem.group_id: problem.reason for problem in coordinators.problems}
    different = []
    for group_id, of_group in written.items():
        if of_group and group_id not in offsets:
            text = f"It was written, and could not be read back: {reasons.get(group_id, reason)}"
            kind = ProblemKind.UNKNOWN_END
            different.append(Problem(kind, f"{text.removesuffix('.')}.", group_id=group_id))
            continue
        now = {place_of(offset): offset for offset in offsets.get(group_id, ())}
        for change in remaining(of_group, now):
            topic, partition = place_of(change)
            found_instead = replace(change, before=change.after).conflict(
                now.get((topic, partition))
            )
            text = f"{found_instead}; it was written, and another process committed after that."
            kind = ProblemKind.OVERWRITTEN
            different.append(Problem(kind, text, group_id, topic=topic, partition=partition))
    return tuple(different)


def divided(changes: Mapping[str, Sequence[OffsetChange]]) -> dict[str, int]:
    """Return the number of requests for each group that needs more than one.

    See `GroupSource.divided`.
    """
    counts = {}
    for group_id, of_group in changes.items():
        commits = [change.after for change in of_group if change.after is not None]
        count = sum(1 for _ in requests_of(group_id, commits)) + (len(commits) < len(of_group))
        if count > 1:
            counts[group_id] = count
    return counts


class _Writer:
    """Writes groups whose coordinators are known.

    Attributes:
        unsettled: groups for which a request was sent that may have succeeded, or has partly
            succeeded, and whose result is not known yet.
    """

    def __init__(
        self,
        client: BrokerClient,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object],
    ) -> None:
        self.unsettled: set[str] = set()
        self._client = client
        self._changes = changes
        self._on_done = on_done
        self._was_sent: set[str] = set()
        self._reader = GroupReader(client, Coordinators(client, named=True), None)
        self._fetcher = OffsetFetcher(client)
        self._window = Window(_SIDE_BY_SIDE)

    async def write(
        self, node: int, coordinators: list[CoordinatedGroup]
    ) -> dict[str, Outcome | CoordinatorRefusal]:
        """Write some groups of one coordinator; see `Change`."""
        async with self._window:
            described, fetched = await self._read(node, coordinators)
            deletes = await self._client.version(node, OffsetDeleteRequest) is not None
            results: dict[str, Outcome | CoordinatorRefusal] = {}
            ready: dict[str, list[OffsetChange]] = {}
            for group_id in (coordinator.group_id for coordinator in coordinators):
                group, offsets = described[group_id], fetched[group_id]
                if isinstance(group, CoordinatorRefusal):
                    results[group_id] = group
                    continue
                if isinstance(offsets, CoordinatorRefusal):
                    results[group_id] = offsets
                    continue
                verdict = self._verdict(group_id, group, offsets, deletes)
                if isinstance(verdict, Outcome):
                    results[group_id] = verdict
                else:
                    ready[group_id] = verdict
            written = await self._client.gather_all(
                self._write(node, group_id, rest) for group_id, rest in ready.items()
            )
            results.update(zip(ready, written, strict=True))
        return results

    async def _read(
        self, node: int, coordinators: list[CoordinatedGroup]
    ) -> tuple[
        Mapping[str, Group | CoordinatorRefusal | None], Mapping[str, Offsets | CoordinatorRefusal]
    ]:
        """Read members and offsets concurrently."""
        describing = self._client.start(self._reader.describe(node, coordinators))
        try:
            fetched = await self._fetcher.fetch(node, coordinators)
        finally:
            described = await describing
        return described, fetched

    def _verdict(
        self, group_id: str, group: Group | None, offsets: Offsets, deletes: bool
    ) -> Outcome | list[OffsetChange]:
        """Return the changes of a group that remain to be made, or why there are none."""
        changes = self._changes[group_id]
        rest, changed = list(changes), None
        was_sent = group_id in self._was_sent
        if was_sent or [change.before for change in changes] != list(offsets):
            now = {place_of(offset): offset for offset in offsets}
            if was_sent:
                rest = remaining(changes, now)
            changed = conflict(rest, now)
        obstacle = self._obstacle(group, rest, deletes)
        if not rest:
            self._on_done(group_id)
            return Outcome()
        if obstacle is None:
            if changed is None:
                return [change for change in rest if change.after or change.before]
            obstacle = ProblemKind.CHANGED, changed
        return Outcome(unwritten(*obstacle, group_id, rest, changes))

    def _obstacle(
        self, group: Group | None, changes: Collection[OffsetChange], deletes: bool
    ) -> tuple[ProblemKind, str] | None:
        """Return why a group cannot be changed at all; None if it can."""
        if group is not None and group.type is GroupType.SHARE:
            text = "It is a share group, which commits no offsets."
            return ProblemKind.UNSUPPORTED, text
        if not deletes and any(change.before and not change.after for change in changes):
            return ProblemKind.UNSUPPORTED, _CANNOT_DELETE
        # The broker decides by partition whether offsets may be deleted while there are members.
        commits = any(change.after for change in changes)
        if group is None or not commits:
            return None
        if group.members or group.state not in (GroupState.EMPTY, GroupState.DEAD, None):
            count = len(group.members)
            members = f": {first_members(group.members)}" if count else ""
            text = (
                f"The group is {group.state}, with {count} member{'' if count == 1 else 's'}"
                f"{members}; only members may commit: stop or remove them first."
            )
            return ProblemKind.ACTIVE, text
        return None

    async def _write(
        self, node: int, group_id: str, changes: list[OffsetChange]
    ) -> Outcome | CoordinatorRefusal:
        """Send the changes of one group, in as few requests as possible, one after the other."""
        commits = [change.after for change in changes if change.after is not None]
        problems = list(_unsendable(group_id, commits))
        if problems:
            left_out = {(problem.topic, problem.partition) for problem in problems}
            commits = [commit for commit in commits if place_of(commit) not in left_out]
        deletions = [place_of(change) for change in changes if change.after is None]
        done: set[TopicPartition] = set()
        self._was_sent.add(group_id)

        def rest(problem: Problem) -> Outcome:
            """Return the changes that were not made, by partition if others were."""
            if not (done or problems or group_id in self.unsettled):
                return Outcome((problem,))
            answered = done | {(problem.topic, problem.partition) for problem in problems}
            left = [at for at in map(place_of, changes) if at not in answered]
            return Outcome((*problems, *by_partition(problem.kind, problem.reason, group_id, left)))

        def ended(code: int, operation: str) -> Outcome | CoordinatorRefusal:
            """Return the result of an error that concerns the whole group."""
            if code not in _NOT_YET:
                kind, reason = refused(code, operation)
                return rest(Problem(kind, reason, group_id=group_id))
            if done or code != NOT_BEGUN:
                self.unsettled.add(group_id)
            moves = code in COORDINATOR_MOVES
            return CoordinatorRefusal(code if moves else ErrorCode.COORDINATOR_NOT_AVAILABLE)

        try:
            for part in requests_of(group_id, commits):
                codes = await commit_offsets(self._client, node, group_id, part)
                end = _problems(group_id, codes, "READ", problems, done)
                if end is not None:
                    return ended(end, "READ")
            if deletions:
                codes = await delete_offsets(self._client, node, group_id, deletions)
                end = _problems(group_id, codes, "READ", problems, done)
                if end is not None:
                    return ended(end, "DELETE")
        except BrokerError as error:
            if error.kind in BROKEN:
                if done or error.was_sent:
                    self.unsettled.add(group_id)
                return CoordinatorRefusal(ErrorCode.NETWORK_EXCEPTION, str(error))
            problem = Problem(error.kind, f"{sentence(error)}.", group_id, broker=error.broker_id)
            return rest(with_unknown_end(problem) if error.was_sent else problem)
        if not problems:
            self._on_done(group_id)
        return Outcome(tuple(problems))


def _unsendable(group_id: str, commits: Offsets) -> Iterator[Problem]:
    """Yield problems of commits that cannot be encoded; the group's other commits are sent."""
    texts = {commit.topic for commit in commits}.union(commit.metadata or "" for commit in commits)
    reasons = {text: reason for text in texts if (reason := no_string(text)) is not None}
    for offset in commits if reasons else ():
        for what, text in (("topic", offset.topic), ("metadata", offset.metadata or "")):
            if text in reasons:
                yield Problem(
                    ProblemKind.UNSUPPORTED,
                    f"The {what} cannot be sent: {reasons[text]}.",
                    group_id=group_id,
                    topic=offset.topic,
                    partition=offset.partition,
                )
                break


def _problems(
    group_id: str,
    codes: Mapping[TopicPartition, int],
    operation: str,
    problems: list[Problem],
    done: set[TopicPartition],
) -> int | None:
    """Evaluate a response; return the error code that concerns the whole group, None if none."""
    failed = {at: code for at, code in codes.items() if code}
    done.update(codes)
    done.difference_update(failed)
    for (topic, partition), code in failed.items():
        if code in OF_PARTITIONS:
            kind, reason = refused(code, operation)
            problems.append(
                Problem(kind, reason, group_id=group_id, topic=topic, partition=partition)
            )
    return next((code for code in failed.values() if code not in OF_PARTITIONS), None)
