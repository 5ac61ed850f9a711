"""Read a group of Kafka Streams on the classic protocol: its tasks, their state, and its settings.

All of it is in what the threads sent and were assigned, and in the topics of the application.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from kgroup.assignor.base import TopicMetadata, java_order
from kgroup.assignor.group_spec import GroupSpec, newest
from kgroup.assignor.kafka_streams import (
    CLASSIC_STREAMS,
    STREAM,
    STREAMS_VERSIONS,
    StreamsApplication,
    StreamsSettings,
    StreamsTask,
)
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.errors import UnfitError
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, Member
from kgroup.model.log_range import LogRange
from kgroup.operation.assign.classic_streams import STANDBYS, as_item, assign_application
from kgroup.operation.assign.connect import MOST_TASKS, part
from kgroup.operation.report import first_names
from kgroup.source.base import GroupSource

_FIRST_WITH_LAGS = 7
"""First version of user data with offsets: Kafka Streams 2.6."""
_OF_3_0, _OF_3_2 = 10, 11
"""Versions of user data of Kafka Streams 3.0 and 3.1, and of 3.2 and later."""
_CHANGELOG = "-changelog"
_REPARTITION = "-repartition"


def classic_streams_spec(
    source: GroupSource,
    group: Group,
    strategy: str | None,
    asked: Software | None,
    notes: list[str],
) -> GroupSpec:
    """Return the spec of a classic group of Streams threads, and add notes.

    Args:
        source: source of the group, which may know topics.
        group: the group, after a complete rebalance.
        strategy: requested strategy.
        asked: requested version of Kafka Streams.
        notes: notes, to which assumptions are added.

    Raises:
        UnfitError: the group has no members, or their user data is missing or of another kind.
    """
    if not group.members:
        raise UnfitError.of_group(
            group.group_id,
            f"expected threads of Kafka Streams, found no members (state {group.state})",
        )
    read = [_Read(group, member) for member in group.members]
    tasks = _tasks(source, group, read)
    sums = {own.member.member_id: own.sums() for own in read}
    has_state = {task.subtopology for own in sums.values() for task in own}
    has_state |= {task.subtopology for own in read for task in own.standby}
    without = {
        task.subtopology
        for own in read
        for task in own.owned_before(tasks)
        if task not in sums[own.member.member_id]
    } - has_state
    unsure = {task.subtopology for task in tasks} - has_state - without
    changelogs = _changelogs(source, group, tasks, has_state, unsure)
    if changelogs:
        has_state |= set(changelogs.values())
        unsure = set()
    copies = Counter(task for own in read for task in own.standby)
    if min((copies[task] for task in tasks if task.subtopology in has_state), default=0):
        unsure = set()  # with state, their tasks would have standby tasks, too
    stateful = frozenset(has_state | unsure)
    changelogs_of = {
        task: [
            (name, task.partition) for name, own in changelogs.items() if own == task.subtopology
        ]
        for task in tasks
    }
    partitions = {at for own in (*tasks.values(), *changelogs_of.values()) for at in own}
    can_read = source.can(GroupSource.log_ranges)
    ranges = source.log_ranges(partitions).ranges if can_read else {}
    states, unsure_states = _states_now(group, read, sums)
    members = tuple(own.spec() for own in read)
    versions = _versions(group, read)
    settings, known = _settings(group, read, tasks, stateful)
    counts = Counter[str]()
    for subtopology, number in tasks:
        counts[str(subtopology)] = max(counts[str(subtopology)], number + 1)
    spec = GroupSpec(
        strategy or STREAM,
        members,
        {name: TopicMetadata(count) for name, count in sorted(counts.items())},
        CLASSIC_STREAMS,
        asked or newest(CLASSIC_STREAMS)._replace(version=versions[0]),
        id=group.group_id,
        leader_id=group.leader_id,
        application=StreamsApplication(
            tasks,
            stateful,
            frozenset(unsure),
            _ends(changelogs_of, ranges),
            states,
            unsure_states,
            {
                (own.process_id, task): own.member.member_id
                for own in read
                for task in sums[own.member.member_id]
            },
            hurried=frozenset(
                own.member.member_id
                for own in read
                if own.next_ms == 0 or own.owned_before(tasks).difference(own.active)
            ),
            is_idle=_is_idle(group, tasks, ranges),
            versions=versions if asked is None else (),
            has_tags=any(own.subscribed.get("clientTags") for own in read),
            settings=settings,
            known_settings=known,
        ),
    )
    notes += _notes(spec, group, read)
    return spec


class _Read:
    """A member with its decoded user data.

    Raises:
        UnfitError: the user data is missing, or of another kind.
    """

    def __init__(self, group: Group, member: Member) -> None:
        self.group, self.member = group, member
        subscribed = member.subscription.user_data if member.subscription else None
        given = member.assignment_user_data
        self.subscribed = self._mapping(subscribed, "subscription", "processId")
        self.given = self._mapping(given, "assignment", "activeTasks")
        self.version = self._int(self.subscribed, "version")
        if self.version < _FIRST_WITH_LAGS:
            raise self._unfit(
                f"user data of version {_FIRST_WITH_LAGS} or later (Kafka Streams 2.6), found "
                f"{self.version}; StickyTaskAssignor of earlier versions is not imitated"
            )
        try:
            self.process_id = str(
                UUID(bytes=urlsafe_b64decode(self.subscribed["processId"] + "=="))
            )
        except (TypeError, ValueError):
            raise self._unfit("a process id") from None
        partitions = sorted(
            ((each.topic or "", each.partition) for each in member.assignment or ()), key=java_order
        )
        active = [self._task(each) for each in self._list(self.given, "activeTasks")]
        if len(active) != len(partitions):
            raise self._unfit(
                f"a task for each of its {len(partitions)} partitions, found {len(active)}"
            )
        self.partitions = dict(zip(partitions, active, strict=True))
        self.active = tuple(sorted(set(active)))
        self.standby = {
            self._task(each): tuple(
                (str(part(at, "topic")), self._int(at, "partition"))
                for at in self._list(each, "topicPartitions")
            )
            for each in self._list(self.given, "standbyTasks")
        }
        next_ms = self.given.get("nextRebalanceMs")
        self.next_ms = next_ms if isinstance(next_ms, int) else None

    def sums(self) -> dict[StreamsTask, int]:
        """Return the offset sums that the thread sent in the last rebalance."""
        sums = {}
        for each in self._list(self.subscribed, "taskOffsetSums"):
            if "partitionToOffsetSum" in each:  # up to version 9
                for at in self._list(each, "partitionToOffsetSum"):
                    task = StreamsTask(self._int(each, "topicGroupId"), self._int(at, "partition"))
                    sums[task] = self._int(at, "offsetSum")
            else:
                sums[self._task(each)] = self._int(each, "offsetSum")
        return sums

    def owned_before(
        self, tasks: Mapping[StreamsTask, Sequence[TopicPartition]]
    ) -> set[StreamsTask]:
        """Return the active tasks that the thread had before the last rebalance."""
        owned = self.member.subscription.owned if self.member.subscription else None
        partitions = {(each.topic or "", each.partition) for each in owned or ()}
        return {task for task, own in tasks.items() if not partitions.isdisjoint(own)}

    def spec(self) -> MemberSpec:
        member = self.member
        return MemberSpec(
            member.member_id,
            (),
            instance_id=member.instance_id,
            client_id=member.client_id,
            rack=member.rack_id,
            host=member.client_host,
            owned=tuple(map(as_item, self.active)),
            generation=self.group.generation_id,
            standby=tuple(map(as_item, sorted(self.standby))),
            process_id=self.process_id,
        )

    def _unfit(self, expected: str) -> UnfitError:
        return UnfitError.of_group(
            self.group.group_id, f"expected {expected}, of Streams thread {self.member.member_id}"
        )

    def _mapping(self, data: Any, of: str, name: str) -> Mapping[str, Any]:
        if not isinstance(data, Mapping) or name not in data:
            raise self._unfit(f"the user data of its {of}, found none that can be read")
        return data

    def _list(self, data: Any, name: str) -> Sequence[Any]:
        rows = part(data, name)
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            raise self._unfit(f"a list of {name}")
        return rows

    def _int(self, data: Any, name: str) -> int:
        number = part(data, name)
        if type(number) is not int:
            raise self._unfit(f"a number as {name}")
        return number

    def _task(self, data: Any) -> StreamsTask:
        if part(data, "namedTopology"):
            raise self._unfit("no named topologies, which are not imitated")
        task = StreamsTask(self._int(data, "topicGroupId"), self._int(data, "partition"))
        if not (0 <= task.subtopology < MOST_TASKS and 0 <= task.partition < MOST_TASKS):
            raise self._unfit(f"a task, found {task.subtopology}_{task.partition}")
        return task


def _tasks(
    source: GroupSource, group: Group, read: Sequence[_Read]
) -> dict[StreamsTask, tuple[TopicPartition, ...]]:
    """Return the tasks with their partitions, including those that wait for their revocation.

    Raises:
        UnfitError: a topic has an impossible number of partitions; or see `_lost_subtopology`.
    """
    found: dict[StreamsTask, set[TopicPartition]] = defaultdict(set)
    for own in read:
        for partition, task in own.partitions.items():
            found[task].add(partition)
        for task, partitions in own.standby.items():
            found[task].update(partitions)
    topics: dict[int, set[str]] = defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    for task, own_partitions in found.items():
        for topic, number in own_partitions:
            topics[task.subtopology].add(topic)
            counts[topic] = max(counts[topic], number + 1)
    for own in read:
        subscription = own.member.subscription
        for each in (subscription.owned or ()) if subscription else ():
            counts[each.topic or ""] = max(counts[each.topic or ""], each.partition + 1)
    subscribed = {
        topic
        for own in read
        for topic in (own.member.subscription.topics or () if own.member.subscription else ())
    }
    lost = subscribed.difference(*topics.values())
    if lost:
        topics[_lost_subtopology(group, topics, lost)] = lost
    if source.can(GroupSource.view):
        view = source.view(counts.keys() | subscribed)
        counts.update({name: len(topic.partitions) for name, topic in view.topics.items()})
    for subtopology, names in topics.items():
        count = max(counts[name] for name in names)
        if count > MOST_TASKS:
            raise UnfitError.of_group(
                group.group_id,
                f"expected up to {MOST_TASKS} partitions of {first_names(sorted(names))}, found "
                f"{count}",
            )
        for number in range(count):
            at = {(name, number) for name in names if number < counts[name]}
            found.setdefault(StreamsTask(subtopology, number), at)
    return {task: tuple(sorted(found[task], key=java_order)) for task in sorted(found)}


def _lost_subtopology(group: Group, topics: Mapping[int, object], lost: Collection[str]) -> int:
    """Return the subtopology of the only topic of which no task is assigned now.

    Raises:
        UnfitError: there are several such topics, or several subtopologies without tasks.
    """
    missing = [number for number in range(max(topics, default=-1) + 1) if number not in topics]
    if len(lost) == 1 and len(missing) < 2:
        return missing[0] if missing else len(topics)
    raise UnfitError.of_group(
        group.group_id,
        "expected an assignment of all subscribed topics, found no task of "
        f"{first_names(sorted(lost))}, and their subtopologies are unknown. Try again when the "
        "rebalance is complete",
    )


def _changelogs(
    source: GroupSource,
    group: Group,
    tasks: Mapping[StreamsTask, Sequence[TopicPartition]],
    has_state: Collection[int],
    unsure: Collection[int],
) -> dict[str, int]:
    """Return the changelog topics with their subtopology; none if some are unclear.

    The changelog of a store has the name of the repartition topic that is read into it, and a
    partition for each task of its subtopology.
    """
    reads = {topic: task.subtopology for task, own in tasks.items() for topic, _ in own}
    names = source.changelogs([group.group_id])[group.group_id]
    topics = source.view(names).topics if names and source.can(GroupSource.view) else {}
    counts = Counter(task.subtopology for task in tasks)
    known: dict[str, int] = {}
    unclear: dict[str, set[int]] = {}
    for name in names:
        count = len(topics[name].partitions) or None if name in topics else None
        fitting = {own for own in (*has_state, *unsure) if count in (None, counts[own])}
        subtopology = reads.get(name.removesuffix(_CHANGELOG) + _REPARTITION)
        if subtopology is not None or len(fitting) == 1:
            known[name] = fitting.pop() if subtopology is None else subtopology
        else:
            unclear[name] = fitting
    if len(unclear) == 1:  # it belongs to the only one that has state and no other changelog
        ((name, fitting),) = unclear.items()
        without = fitting.intersection(has_state).difference(known.values())
        if len(without) == 1:
            return known | {name: without.pop()}
    return {} if unclear else known


def _ends(
    changelogs: Mapping[StreamsTask, Sequence[TopicPartition]],
    ranges: Mapping[TopicPartition, LogRange],
) -> dict[StreamsTask, int]:
    """Return the sums of the log end offsets of changelogs of each task, where known."""
    ends = {}
    for task, partitions in changelogs.items():
        logs = [ranges.get(at, LogRange()) for at in partitions]
        own = [log.log_end or log.end for log in logs]
        if own and None not in own:
            ends[task] = sum(end for end in own if end is not None)
    return ends


def _is_idle(
    group: Group,
    tasks: Mapping[StreamsTask, Sequence[TopicPartition]],
    ranges: Mapping[TopicPartition, LogRange],
) -> bool:
    """Return whether the application is known to have processed all records of its topics."""
    committed = {(own.topic, own.partition): own.committed_offset for own in group.offsets}
    return all(
        ranges.get(at, LogRange()).waiting(committed.get(at, 0)) == 0
        for own in tasks.values()
        for at in own
    )


def _states_now(
    group: Group, read: Sequence[_Read], sums: Mapping[str, Mapping[StreamsTask, int]]
) -> tuple[dict[str, dict[StreamsTask, int | None]], frozenset[tuple[str, StreamsTask]]]:
    """Return state besides active tasks by process, and what of it is unsure.

    A standby task that the client reported before is taken to have caught up, unless a probing
    rebalance is scheduled, which means that one has not. If the next rebalance comes at once, one
    that is new has nothing yet.
    """
    is_probing = group.probing_ms is not None
    is_at_once = any(own.next_ms == 0 for own in read)
    states: dict[str, dict[StreamsTask, int | None]] = defaultdict(dict)
    unsure = set()
    runs: dict[str, set[StreamsTask]] = defaultdict(set)
    reported: dict[str, dict[StreamsTask, int]] = defaultdict(dict)
    for own in read:
        runs[own.process_id].update(own.active)
        reported[own.process_id].update(sums[own.member.member_id])
        states[own.process_id].update(dict.fromkeys(own.standby))
    for process, standbys in states.items():
        for task in standbys:
            if is_at_once and task not in reported[process]:
                standbys[task] = 0
            elif is_probing or task not in reported[process]:
                unsure.add((process, task))
        for task, offset in reported[process].items():
            if task not in runs[process] and task not in standbys:
                standbys[task] = None if offset < 0 else offset
                unsure.add((process, task))
    return dict(states), frozenset(unsure)


def _settings(
    group: Group,
    read: Sequence[_Read],
    tasks: Mapping[StreamsTask, object],
    stateful: frozenset[int],
) -> tuple[StreamsSettings, frozenset[str]]:
    """Return the settings as far as evident, and the names of those that are.

    A warm-up is a standby task, too, of the tasks that wait for a probing rebalance. If only some
    tasks have one more, the others have their standby tasks alone.
    """
    copies = Counter(task for own in read for task in own.standby)
    of = [copies[task] for task in tasks if task.subtopology in stateful]
    replicas = min(of, default=0)
    processes = len({own.process_id for own in read})
    is_whole = group.probing_ms is None or replicas < max(of, default=0)
    is_known = bool(of) and replicas < processes - 1 and is_whole
    return StreamsSettings(replicas), frozenset([STANDBYS] if is_known else [])


def _versions(group: Group, read: Sequence[_Read]) -> tuple[str, ...]:
    """Return the versions that the leader may have by what it sends, newest first.

    Before 3.4, it does not send the generation of the partitions that it owns; without partitions,
    it may have any version from 3.2 on. 3.4.0 to 3.5.1 send what later ones send.
    """
    leaders = [own for own in read if own.member.member_id == group.leader_id] or read
    oldest = min(own.version for own in leaders)
    if oldest < _OF_3_2:
        return STREAMS_VERSIONS[3:4] if oldest == _OF_3_0 else STREAMS_VERSIONS[4:]
    sent = [own.member.subscription for own in leaders]
    dated = {each.generation_id is not None for each in sent if each and each.owned}
    if not dated:
        return STREAMS_VERSIONS[:3]
    return STREAMS_VERSIONS[1:3] if False in dated else STREAMS_VERSIONS[:2]


def _notes(spec: GroupSpec, group: Group, read: Sequence[_Read]) -> Iterator[str]:
    if all(member.rack for member in spec.members):
        yield (
            "the threads have racks; rack.aware.assignment.strategy is taken to be none, the "
            "default"
        )
    if any(own.next_ms == 0 for own in read):
        yield f"{group.group_id} rebalances again at once, to move tasks that members have revoked"
    elif group.probing_ms is None and spec.strategy == STREAM:
        active, standby, rebalance = assign_application(spec)
        is_other = any(
            set(member.owned or ()) != set(active[member.member_id])
            or set(member.standby) != set(standby[member.member_id])
            for member in spec.members
        )
        if rebalance.is_at_once or rebalance.delay_ms or is_other:
            yield (
                f"the last assignment of {group.group_id} is not what HighAvailabilityTaskAssignor "
                "would assign now: lags or settings differ from what is assumed, or the task "
                "assignor is another one (--strategy sticky)"
            )
