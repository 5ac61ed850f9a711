"""Facts about groups that only the records of the live `__consumer_offsets` have.

No API returns a classic group's generation, leader and timeouts, the times of commits, or the
assignors that members of a consumer group prefer. They are in the group's own partition of
`__consumer_offsets`. The partition is read backwards from its end, until each group's newest
GroupMetadata or ConsumerGroupMemberMetadata and the record of each of its commits were found, or
the budget of bytes is used up.

Fetch reads forwards from an offset. So the log is read in windows of offsets, the last one first;
compaction leaves gaps, so the size of a window is estimated from the previous one.

Nothing is committed and no group is joined.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any

from kgroup.errors import BrokerError
from kgroup.model.cluster import Topic, TopicPartition
from kgroup.model.group import Group, GroupState, GroupType, Membership, PastGeneration
from kgroup.model.group_log import classic_members, past_generation
from kgroup.model.log_range import LogRange
from kgroup.model.offset import CommittedOffset
from kgroup.model.offsets_partition import OFFSETS_TOPIC, offsets_partition
from kgroup.model.record import known
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.batch_v2 import batch_size
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.coordinator_record import decode_record
from kgroup.source.broker.client import Backoff, BrokerClient
from kgroup.source.broker.error_code import LEADER_MOVES, error_name
from kgroup.source.broker.fetch import Fetched, fetch
from kgroup.source.broker.topic_offset import read_log_ranges

FETCH_SIZE = 1 << 20
LARGEST_FETCH = 64 << 20
FIRST_WINDOW = 1000
WINDOW_SIZE = 4 << 20
"""Target size of a window in bytes, once there is a window to estimate from."""
_GROUP_METADATA = 2
_MEMBER_METADATA = 5
_KEY_PREFIX = Struct(">hH")
_LENGTH = Struct(">H")
_MANY = 50
"""Number of groups above which every record is decoded, instead of searching batches for group
ids, and no earlier generations are searched.
"""
_MOST_GENERATIONS = 200
"""Maximum number of earlier generations of a group."""
MOST_IDS = 10_000
"""Number of member ids in them after which no more are searched."""
PAST_BUDGET = 4 << 20
"""Bytes to read back for earlier generations, once everything else was found."""
_COOPERATIVE = "cooperative-sticky"
_STREAM = "stream"
_NO_ID = "A" * 22
_OVER_BUDGET = "more bytes would have to be read back than allowed"
_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)

Data = Mapping[str, Any]
_Commit = tuple[int | None, int | None, str | None]  # commit time, expiration time, topic id
_Metadata = tuple[Data | None, int | None, int]  # value, timestamp, size as a batch


class _Trace:
    """The facts to find for one group, and those found.

    Attributes:
        group: the group as the brokers describe it.
        committed: offsets whose records are searched, by topic and partition.
        metadata: the newest GroupMetadata: data (None for a tombstone), timestamp and size of the
            record; None until found.
        commits: facts from commit records that the API does not return, by topic and partition.
        voters: members of a consumer group whose preferred assignors are searched.
        assignors: those that were found; None for a member that prefers none.
        last_only: see `Question.last_commits`.
        generations: see `Question.generations`.
        past: earlier generations of a classic group, newest first.
        has_past: whether no more of them are searched.
    """

    def __init__(
        self,
        group: Group,
        *,
        commit_times: bool,
        last_only: bool = False,
        preferences: bool = False,
        past: bool = False,
        generations: bool = False,
    ) -> None:
        self.group = group
        self.generations = generations
        is_voted = preferences and group.type is GroupType.CONSUMER
        self.voters = frozenset(m.member_id for m in group.members if is_voted)
        self.assignors: dict[str, str | None] = {}
        self.last_only = last_only
        sought = group.offsets if commit_times else ()
        self.committed = {(o.topic, o.partition): o.committed_offset for o in sought}
        self.metadata: _Metadata | None = None
        self.commits: dict[TopicPartition, _Commit] = {}
        self.past: list[PastGeneration] = []
        is_voted = group.type is GroupType.CLASSIC and group.protocol_type == "consumer"
        self.has_past = not (past and is_voted and group.members)

    @property
    def is_whole(self) -> bool:
        """Whether everything was found; a group that only commits has no metadata."""
        group = self.group
        if self.voters - self.assignors.keys():
            return False
        has_metadata = group.type is GroupType.CLASSIC and group.protocol_type is not None
        if self.last_only:  # a state that was not met before the commit is older
            is_needed = has_metadata and group.state is GroupState.EMPTY and not self.committed
            return bool(self.commits or not self.committed) and (
                self.metadata is not None or not is_needed
            )
        return len(self.commits) == len(self.committed) and (
            self.metadata is not None or not has_metadata
        )

    @property
    def is_done(self) -> bool:
        """Whether everything was found, and all earlier generations that may matter."""
        return self.is_whole and self.has_past

    def take_metadata(self, data: Data | None, time_ms: int | None, size: int) -> None:
        """Keep the newest GroupMetadata, and what earlier ones say of the vote on the strategy."""
        if self.metadata is None:
            self.metadata = data, time_ms, size
            strategy = data["protocol"] if data else None
            is_used = strategy == _COOPERATIVE or (self.generations and strategy != _STREAM)
            self.has_past = self.has_past or not data or not is_used
            return
        newest, _, _ = self.metadata
        if newest is None or self.has_past:
            return
        last = self.past[-1].generation_id if self.past else newest["generation"]
        if data and data["generation"] == last:  # written again when a static member returned
            return
        present = {member["memberId"] for member in newest["members"]}
        if (
            data
            and data["protocol"]
            and not present.isdisjoint(member["memberId"] for member in data["members"])
        ):
            self.past.append(past_generation(data))
            ids = sum(len(each.members) for each in self.past)
            self.has_past = len(self.past) == _MOST_GENERATIONS or ids >= MOST_IDS
        else:  # the present members have joined since
            self.has_past = True

    def accepts(self, at: tuple[str, int], offset: int, *, transactional: bool) -> bool:
        """Return whether the record of a commit tells the time of what is committed.

        For the last commit, one that is newer than the coordinator's answer counts too; in a
        transaction it may have been aborted.
        """
        committed = self.committed.get(at)
        return committed == offset or (
            self.last_only and committed is not None and not transactional
        )

    def completed(self) -> Group:
        """Return the group with the facts that were found."""
        group = self.group
        if self.commits:
            group = replace(group, offsets=tuple(map(self._completed_offset, group.offsets)))
        if self.voters and not self.voters - self.assignors.keys():
            members = group.members
            return replace(
                group,
                members=tuple(replace(m, assignor=self.assignors[m.member_id]) for m in members),
            )
        data, time_ms, size = self.metadata or (None, None, None)
        if data is None or data["protocolType"] != group.protocol_type:
            return group
        past = tuple(self.past)
        recorded = {member.member_id: member for member in classic_members(group.group_id, data)}
        if group.state in _REBALANCING:
            before = Membership(
                generation_id=data["generation"],
                leader_id=data["leader"],
                assignor=data["protocol"],
                recorded_ms=time_ms,
                members=tuple(recorded.values()),
                record_bytes=size,
            )
            return replace(group, last_stable=before, past_generations=past)
        if {
            member.member_id for member in group.members
        } != recorded.keys():  # another generation than the response
            return group
        return replace(
            group,
            generation_id=data["generation"],
            leader_id=data["leader"],
            leader_library=None,
            past_generations=past,
            state_timestamp_ms=known(data.get("currentStateTimestamp")),
            members=tuple(
                replace(
                    member,
                    session_timeout_ms=recorded[member.member_id].session_timeout_ms,
                    rebalance_timeout_ms=recorded[member.member_id].rebalance_timeout_ms,
                    client_library=recorded[member.member_id].client_library,
                    client_library_certainty=recorded[member.member_id].client_library_certainty,
                    client_library_evidence=recorded[member.member_id].client_library_evidence,
                    client_library_candidates=recorded[member.member_id].client_library_candidates,
                )
                for member in group.members
            ),
        )

    def _completed_offset(self, offset: CommittedOffset) -> CommittedOffset:
        commit = self.commits.get((offset.topic, offset.partition))
        if commit is None:
            return offset
        time_ms, expire_ms, topic_id = commit
        return replace(
            offset, commit_timestamp_ms=time_ms, expire_timestamp_ms=expire_ms, topic_id=topic_id
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """Facts found in a partition of `__consumer_offsets` up to an offset, by group id."""

    end: int
    reason: str | None
    metadata: Mapping[str, _Metadata | None]
    commits: Mapping[str, Mapping[TopicPartition, tuple[int, _Commit]]]


class LogMemory:
    """Caches facts, so that the next round of a watch reads only new records."""

    def __init__(self) -> None:
        self._found: dict[int, _Found] = {}

    def news_from(self, number: int, traces: Iterable[_Trace], end: int) -> int:
        """Return the offset up to which a partition has been searched for all of these groups."""
        cached = self._found.get(number)
        if cached is None or cached.end > end:  # the log was truncated
            return 0
        is_known = all(
            trace.group.group_id in cached.metadata and not trace.voters and trace.has_past
            for trace in traces
        )
        return cached.end if is_known else 0

    def complete(self, number: int, traces: Iterable[_Trace]) -> str | None:
        """Add cached facts to the groups, except those for which newer records were found.

        Returns:
            Why the search that found them ended too early; None if nothing is missing.
        """
        cached = self._found.get(number)
        if cached is None:
            return None
        for trace in traces:
            group_id = trace.group.group_id
            trace.metadata = trace.metadata or cached.metadata.get(group_id)
            for at, (offset, commit) in cached.commits.get(group_id, {}).items():
                if trace.accepts(at, offset, transactional=False):
                    trace.commits.setdefault(at, commit)
        return None if all(trace.is_whole for trace in traces) else cached.reason

    def keep(
        self, number: int, traces: Iterable[_Trace], end: int, reason: str | None = None
    ) -> None:
        """Cache the facts found up to an offset, and why older ones were not searched."""
        self._found[number] = _Found(
            end,
            reason,
            {trace.group.group_id: trace.metadata for trace in traces},
            {
                trace.group.group_id: {
                    at: (trace.committed[at], commit) for at, commit in trace.commits.items()
                }
                for trace in traces
            },
        )

    def forget(self, number: int) -> None:
        """Drop the cache of a partition that was not read completely."""
        self._found.pop(number, None)


async def read_committed_topics(
    client: BrokerClient, group_ids: Collection[str], budget: int
) -> dict[str, frozenset[str]]:
    """Return the topics that have commit records, by group.

    Groups are left out if their partition of `__consumer_offsets` cannot be read completely, or is
    larger than the budget.
    """
    topic = (await client.topics([OFFSETS_TOPIC])).get(OFFSETS_TOPIC)
    if topic is None or not topic.partitions:
        return {}
    by_partition: dict[int, list[str]] = {}
    for group_id in group_ids:
        number = offsets_partition(group_id, len(topic.partitions))
        by_partition.setdefault(number, []).append(group_id)
    ats = {(OFFSETS_TOPIC, number) for number in by_partition}
    ranges = (await read_log_ranges(client, ats, committed=False)).ranges
    topics = await client.topics([OFFSETS_TOPIC])
    logs = [
        _Log(
            number, (), client, _leader(topics, number), ranges[OFFSETS_TOPIC, number], LogMemory()
        )
        for number in by_partition
    ]
    results = await client.gather(
        log.committed_topics(by_partition[log.number], budget) for log in logs
    )
    return {
        group_id: names
        for result in results
        if not isinstance(result, BrokerError)
        for group_id, names in result.items()
    }


async def read_details(
    client: BrokerClient,
    groups: Mapping[str, Group],
    budget: int,
    memory: LogMemory | None = None,
    *,
    commit_times: bool = True,
    last_commits: bool = False,
    preferences: bool = False,
    generations: bool = False,
) -> tuple[dict[str, Group], list[str]]:
    """Return the groups with facts from their partitions of `__consumer_offsets`, and notes.

    The budget is the number of bytes to read of each partition: if it is too small, some facts stay
    unknown. The notes say what could not be read or found.
    """
    by_partition: dict[int, list[_Trace]] = {}
    for group in groups.values():
        trace = _Trace(
            group,
            commit_times=commit_times,
            last_only=last_commits,
            preferences=preferences,
            past=preferences and len(groups) <= _MANY,
            generations=generations,
        )
        if group.offsets_partition is not None and not trace.is_done:
            by_partition.setdefault(group.offsets_partition, []).append(trace)
    if not by_partition:
        return dict(groups), []
    numbers = sorted(by_partition)
    ranges = await read_log_ranges(
        client, {(OFFSETS_TOPIC, number) for number in numbers}, committed=False
    )
    # Only now: leaders may have been refreshed meanwhile.
    topics = await client.topics([OFFSETS_TOPIC])
    logs = [
        _Log(
            number,
            by_partition[number],
            client,
            _leader(topics, number),
            ranges.ranges[OFFSETS_TOPIC, number],
            LogMemory() if memory is None else memory,
        )
        for number in numbers
    ]
    results = await client.gather(log.search(budget) for log in logs)
    completed = dict(groups)
    unread: dict[str, list[int]] = {}
    for log, result in zip(logs, results, strict=True):
        reason = str(result) if isinstance(result, BrokerError) else result
        if reason is not None:
            unread.setdefault(reason, []).append(log.number)
        for trace in log.traces:
            completed[trace.group.group_id] = trace.completed()
    notes = []
    for reason, partitions in unread.items():
        missing = "generations, leaders, timeouts and times of commits may be missing"
        if last_commits:
            traces = [trace for number in partitions for trace in by_partition[number]]
            count = sum(bool(trace.committed and not trace.commits) for trace in traces)
            if not count:
                continue
            plural = "" if count == 1 else "s"
            missing = f"the time of the last commit is unknown for {count} group{plural}"
        places = ", ".join(map(str, partitions))
        notes.append(f"{OFFSETS_TOPIC}-{places}: {reason}; {missing}.")
    return completed, notes


@dataclass
class _Log:
    """One partition of `__consumer_offsets`, and the groups to search in it."""

    number: int
    traces: Sequence[_Trace]
    _client: BrokerClient
    _leader: int | None
    _range: LogRange
    _memory: LogMemory

    def __post_init__(self) -> None:
        self._wanted = {
            trace.group.group_id.encode("utf-8", "replace"): trace for trace in self.traces
        }
        self._pattern = _pattern(self._wanted)

    async def search(self, budget: int) -> str | None:
        """Search new records, and cache the result; return why the search was incomplete, if so.

        Raises:
            BrokerError: the leader does not answer.
        """
        start, end = self._range.start, self._range.end
        if start is None or end is None:
            return "it has no leader" if self._range.mark is None else self._range.mark.value
        news = self._memory.news_from(self.number, self.traces, end)
        if not news:
            self._memory.forget(self.number)
        reason = await self._search_back(max(start, news), end, budget)
        if reason is not None:
            self._memory.forget(self.number)  # what lies between was not read
        if reason in (None, _OVER_BUDGET):
            reason = self._memory.complete(self.number, self.traces) or reason
            self._memory.keep(self.number, self.traces, end, reason)
        return reason

    async def _search_back(self, start: int, end: int, budget: int) -> str | None:
        """Read windows backwards from the end, until all is found; return why not, if so.

        If only earlier generations are missing, which have no end, that is no reason.
        """
        span, high, spare = FIRST_WINDOW, end, PAST_BUDGET
        while high > start:
            low = max(start, high - span)
            is_whole = all(trace.is_whole for trace in self.traces)
            if is_whole and (spare <= 0 or not self._has_time()):
                return None
            try:
                batches, size, code = await self._window(low, high, retries=not is_whole)
            except BrokerError:
                if is_whole:
                    return None
                raise
            if code:
                if is_whole:
                    return None
                is_denied = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                needs = " (it needs READ on the topic)" if is_denied else ""
                return f"its leader returned {error_name(code)}{needs}"
            self._take(
                [each for each in batches if each.base_offset is None or each.base_offset < high]
            )
            if all(trace.is_done for trace in self.traces):
                return None
            budget -= size
            spare -= size if is_whole else 0
            if budget <= 0:
                is_whole = all(trace.is_whole for trace in self.traces)
                return None if is_whole else _OVER_BUDGET
            guess = min(WINDOW_SIZE, max(spare, 0)) * (high - low) // max(size, 1)
            high, span = low, max(FIRST_WINDOW, min(4 * span, guess))
        return None

    def _has_time(self) -> bool:
        """Return whether time is left for other requests if the leader does not answer."""
        deadline = self._client.deadline
        return deadline.left_s > 1.5 * deadline.patience_s

    async def committed_topics(
        self, group_ids: Collection[str], budget: int
    ) -> dict[str, frozenset[str]]:
        """Read the whole partition; return the topics of commits by group, or nothing.

        Raises:
            BrokerError: the leader does not answer.
        """
        low, end = self._range.start, self._range.end
        if low is None or end is None:
            return {}
        wanted = {group_id.encode(): group_id for group_id in group_ids}
        partitions: dict[str, set[TopicPartition]] = {group_id: set() for group_id in group_ids}
        span = FIRST_WINDOW
        while low < end:
            high = min(end, low + span)
            batches, size, code = await self._window(low, high)
            budget -= size
            if code or budget < 0:
                return {}
            for record in (record for batch in batches for record in _keyed(batch)):
                kind, length = _KEY_PREFIX.unpack_from(record.key or b"")
                name = wanted.get((record.key or b"")[4 : 4 + length])
                if name is None or not 0 <= kind < _GROUP_METADATA:
                    continue
                _, key, _ = decode_record(record.key, None)
                if key is not None and key["data"] is not None:
                    at = (key["data"]["topic"], key["data"]["partition"])
                    (partitions[name].discard if record.value is None else partitions[name].add)(at)
            span = max(FIRST_WINDOW, min(4 * span, WINDOW_SIZE * (high - low) // max(size, 1)))
            low = high
        return {name: frozenset(topic for topic, _ in ats) for name, ats in partitions.items()}

    async def _window(
        self, low: int, high: int, *, retries: bool = True
    ) -> tuple[list[RecordBatch], int, int]:
        """Return the batches of an offset range, the bytes fetched, and an error code or 0.

        With `retries`, wait for a leader that moves.
        """
        batches: list[RecordBatch] = []
        size, fetch_size = 0, FETCH_SIZE
        backoff = Backoff(self._client)
        while low < high:
            if self._leader is None:
                fetched = Fetched(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                key = (OFFSETS_TOPIC, self.number)
                fetched = (await fetch(self._client, self._leader, {key: low}, fetch_size))[key]
            code, data = fetched.code, fetched.data
            what = f"the leader of {OFFSETS_TOPIC}-{self.number}"
            if code in LEADER_MOVES and retries and await backoff.wait(what, leaves_time=True):
                view = await self._client.metadata([OFFSETS_TOPIC])
                self._leader = _leader(view.topics, self.number)
                continue
            if code:
                return batches, size, code
            size += len(data)
            at = low
            for batch in read_batches(data, final=False):
                if not isinstance(batch, Damage) and batch.last_offset >= at:
                    batches.append(batch)
                    at = batch.last_offset + 1
            if at == low:  # the first batch exceeds the fetch size, or there is none
                if not data or fetch_size >= LARGEST_FETCH:
                    break
                fetch_size *= 4
            low = at
        return batches, size, 0

    def _take(self, batches: Sequence[RecordBatch]) -> None:
        """Store the facts of the batches, newest first, unless newer ones are known."""
        for batch in reversed(batches):
            if batch.is_control or (
                batch.compression == "none"
                and self._pattern is not None
                and self._pattern.search(batch.data) is None
            ):
                continue
            for record in reversed(list(_keyed(batch))):
                assert record.key is not None
                kind, length = _KEY_PREFIX.unpack_from(record.key)
                group_id = record.key[4 : 4 + length]
                is_read = 0 <= kind <= _GROUP_METADATA or kind == _MEMBER_METADATA
                trace = self._wanted.get(group_id) if is_read else None
                if trace is None or trace.is_done:
                    continue
                _, key, value = decode_record(record.key, record.value)
                data = value["data"] if value else None
                if kind == _MEMBER_METADATA:
                    member_id = key["data"]["memberId"] if key and key["data"] else None
                    if data is not None and member_id in trace.voters:
                        trace.assignors.setdefault(member_id, data["serverAssignor"])
                elif kind == _GROUP_METADATA:
                    size = batch_size(len(record.key), len(record.value or b""))
                    trace.take_metadata(data, record.timestamp_ms, size)
                elif key is not None and key["data"] is not None and data is not None:
                    at = (key["data"]["topic"], key["data"]["partition"])
                    if trace.accepts(at, data["offset"], transactional=batch.is_transactional):
                        topic_id = data.get("topicId")
                        commit = (
                            known(data["commitTimestamp"]),
                            known(data.get("expireTimestamp")),
                            None if topic_id == _NO_ID else topic_id,
                        )
                        trace.commits.setdefault(at, commit)


def _keyed(batch: RecordBatch) -> Iterator[Record]:
    """Yield the records of a batch whose key has at least 4 bytes."""
    if not batch.is_control:
        for record in read_records(batch):
            if not isinstance(record, Damage) and record.key is not None and len(record.key) >= 4:
                yield record


def _leader(topics: Mapping[str, Topic], number: int) -> int | None:
    topic = topics.get(OFFSETS_TOPIC)
    partition = topic.partitions.get(number) if topic else None
    return partition.leader if partition else None


def _pattern(group_ids: Collection[bytes]) -> re.Pattern[bytes] | None:
    """Return a pattern for the keys of groups in a batch's bytes; None if there are too many."""
    if len(group_ids) > _MANY:
        return None
    names = (re.escape(_LENGTH.pack(len(name)) + name) for name in group_ids)
    return re.compile(rb"\0[\0-\2\5](?:%s)" % b"|".join(names), re.DOTALL)
