"""Dry runs of Kafka Streams on the classic protocol: the group as it was read, and a rebalance.

What a thread sends in the next rebalance follows from its assignment: the partitions it owns, and
that it runs its active tasks. How far its client is with other state is not in any request: only
the offsets that it sent in the last rebalance are. Where the answer depends on that, a dry run is
repeated with other values, and a warning says so.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from uuid import UUID

from kgroup.assignor.base import Assignment, TopicMetadata, java_order
from kgroup.assignor.group_spec import GroupSpec, newest
from kgroup.assignor.kafka_streams import (
    CLASSIC_STREAMS,
    LATEST_OFFSET,
    STREAM,
    STREAMS_VERSIONS,
    ApplicationTasks,
    StreamsApplication,
    StreamsSettings,
    StreamsTask,
    StreamThread,
    ThreadTasks,
)
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.strategy import assignor_of
from kgroup.errors import UnfitError, UsageError, named_group
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, Member
from kgroup.model.log_range import LogRange
from kgroup.operation.assign.connect import MOST_TASKS
from kgroup.operation.report import first_names
from kgroup.source.base import GroupSource

NEW_PROCESS = "new-process-"
"""Prefix of placeholders for ids of new clients."""

STANDBYS = "num.standby.replicas"
_ACCEPTABLE = "acceptable.recovery.lag"
_WARMUPS = "max.warmup.replicas"
_PROBING = "probing.rebalance.interval.ms"
SETTINGS: Mapping[str, tuple[str, int]] = {
    STANDBYS: ("standby_replicas", 0),
    _ACCEPTABLE: ("acceptable_lag", 0),
    _WARMUPS: ("warmup_replicas", 1),
    _PROBING: ("probing_ms", 60_000),
}
"""Settings of an application, with their field of `StreamsSettings` and their least value."""

_FIRST_WITH_LAGS = 7
"""First version of user data with offsets: Kafka Streams 2.6."""
_FIRST_IMITATED = 11
"""Version of user data of Kafka Streams 3.2 and later."""
_FAR = 1 << 40
_SOON = 100_000
"""Number of records that a client restores within seconds, or before its next heartbeat."""
_AT_ONCE = 10_000
"""Number of records that a client may restore before it rejoins at once."""
_ROOM = 1_000
"""Lag that a client that keeps up may have for a moment."""
_SEEDS = (2, 3, 4, 5, 6, 7)
_CHANGELOG = "-changelog"
_REPARTITION = "-repartition"


@dataclass(frozen=True, slots=True)
class StreamsRebalance:
    """What a rebalance of classic Streams leaves to do.

    Attributes:
        after_ms: time from the first rebalance to this one.
        delay_ms: time to the probing rebalance; 0 if none is scheduled.
        is_at_once: whether members rejoin at once, to get active tasks that others have revoked.
        waiting: active tasks that run nowhere until then.
        application: the application before the next rebalance.
    """

    after_ms: int
    delay_ms: int
    is_at_once: bool
    waiting: tuple[TopicPartition, ...]
    application: StreamsApplication


@dataclass(frozen=True, slots=True)
class _Guess:
    """Values for what is unknown.

    Attributes:
        end: sum of the log end offsets of a task's changelogs, where unknown.
        is_behind: whether unsure states are farther behind than is acceptable.
        is_quick: whether new standby tasks catch up before a rebalance that follows at once.
        is_stateful: whether subtopologies that may have no changelog have one.
        seed: 0 for the likely thread that finds what is only on disk, and no lags. Half of it is
            the number of that thread; if it is odd, it is the seed of small lags.
    """

    end: int = _FAR
    is_behind: bool = False
    is_quick: bool = False
    is_stateful: bool = True
    seed: int = 0


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
        raise UnfitError(
            f"{named_group(group.group_id)}: expected threads of Kafka Streams, found no members "
            f"(state {group.state})",
            group_id=group.group_id,
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
        asked or newest(CLASSIC_STREAMS)._replace(version=(versions or STREAMS_VERSIONS)[0]),
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
            versions=versions if asked is None else None,
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
                (str(self._part(at, "topic")), self._int(at, "partition"))
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
            owned=tuple(map(_item, self.active)),
            generation=self.group.generation_id,
            standby=tuple(map(_item, sorted(self.standby))),
            process_id=self.process_id,
        )

    def _unfit(self, expected: str) -> UnfitError:
        return UnfitError(
            f"{named_group(self.group.group_id)}: expected {expected}, of Streams thread "
            f"{self.member.member_id}",
            group_id=self.group.group_id,
        )

    def _mapping(self, data: Any, of: str, name: str) -> Mapping[str, Any]:
        if not isinstance(data, Mapping) or name not in data:
            raise self._unfit(f"the user data of its {of}, found none that can be read")
        return data

    def _part(self, data: Any, name: str) -> Any:
        return data.get(name) if isinstance(data, Mapping) else None

    def _list(self, data: Any, name: str) -> Sequence[Any]:
        rows = self._part(data, name)
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            raise self._unfit(f"a list of {name}")
        return rows

    def _int(self, data: Any, name: str) -> int:
        number = self._part(data, name)
        if type(number) is not int:
            raise self._unfit(f"a number as {name}")
        return number

    def _task(self, data: Any) -> StreamsTask:
        if self._part(data, "namedTopology"):
            raise self._unfit("no named topologies, which are not imitated")
        task = StreamsTask(self._int(data, "topicGroupId"), self._int(data, "partition"))
        if not (0 <= task.subtopology < MOST_TASKS and 0 <= task.partition < MOST_TASKS):
            raise self._unfit(f"a task, found {task.subtopology}_{task.partition}")
        return task


def _item(task: StreamsTask) -> TopicPartition:
    return str(task.subtopology), task.partition


def _of_item(item: TopicPartition) -> StreamsTask:
    return StreamsTask(int(item[0]), item[1])


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
            raise UnfitError(
                f"{named_group(group.group_id)}: expected up to {MOST_TASKS} partitions of "
                f"{first_names(sorted(names))}, found {count}",
                group_id=group.group_id,
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
    raise UnfitError(
        f"{named_group(group.group_id)}: expected an assignment of all subscribed topics, found no "
        f"task of {first_names(sorted(lost))}, and their subtopologies are unknown. Try again when "
        "the rebalance is complete",
        group_id=group.group_id,
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

    A warm-up is a standby task, too, but there are only a few.
    """
    copies = Counter(task for own in read for task in own.standby)
    of = [copies[task] for task in tasks if task.subtopology in stateful]
    replicas = min(of, default=0)
    processes = len({own.process_id for own in read})
    is_known = bool(of) and replicas < processes - 1 and group.probing_ms is None
    return StreamsSettings(replicas), frozenset([STANDBYS] if is_known else [])


def _versions(group: Group, read: Sequence[_Read]) -> tuple[str, ...]:
    """Return the versions that the leader may have by what it sends, newest first.

    Before 3.4, it does not send the generation of the partitions that it owns. 3.4.0 to 3.5.1 send
    what later ones send; they only differ in standby tasks for the time of one rebalance.
    """
    leaders = [own for own in read if own.member.member_id == group.leader_id] or read
    if min(own.version for own in leaders) < _FIRST_IMITATED:
        return ()
    sent = [own.member.subscription for own in leaders]
    is_older = any(each and each.owned and each.generation_id is None for each in sent)
    return STREAMS_VERSIONS[1:] if is_older else STREAMS_VERSIONS[:1]


def _notes(spec: GroupSpec, group: Group, read: Sequence[_Read]) -> Iterator[str]:
    if all(member.rack for member in spec.members):
        yield (
            "the threads have racks; rack.aware.assignment.strategy is taken to be none, the "
            "default"
        )
    if any(own.next_ms == 0 for own in read):
        yield f"{group.group_id} rebalances again at once, to move tasks that members have revoked"
    elif group.probing_ms is None and spec.strategy == STREAM:
        threads, is_probing = _run(spec, _Guess())
        now = {own.member.member_id: (set(own.active), set(own.standby)) for own in read}
        then = {
            name: ({*own.active, *own.waiting}, set(own.standby)) for name, own in threads.items()
        }
        if is_probing or now != then:
            yield (
                f"the last assignment of {group.group_id} is not what HighAvailabilityTaskAssignor "
                "would assign now: lags or settings differ from what is assumed, or the task "
                "assignor is another one (--strategy sticky)"
            )


def set_streams_settings(spec: GroupSpec, values: Mapping[str, int]) -> GroupSpec:
    """Set settings of the application by their names.

    Raises:
        UsageError: a value is too small.
    """
    application = spec.application
    assert application is not None
    settings = application.settings
    for name, value in values.items():
        field, least = SETTINGS[name]
        if value < least:
            raise UsageError(f"{name}: expected at least {least}, found {value}")
        settings = replace(settings, **{field: value})
    known = application.known_settings.union(values)
    return replace(spec, application=replace(application, settings=settings, known_settings=known))


def assign_application(
    spec: GroupSpec,
) -> tuple[Assignment, Mapping[str, tuple[TopicPartition, ...]], StreamsRebalance]:
    """Return active and standby tasks by member, and what the rebalance leaves to do."""
    application = spec.application
    assert application is not None
    threads, is_probing = _run(spec, _Guess())
    waiting = tuple(sorted(_item(task) for own in threads.values() for task in own.waiting))
    delay_ms = application.settings.probing_ms if is_probing and not waiting else 0
    rebalance = StreamsRebalance(
        application.after_ms,
        delay_ms,
        bool(waiting),
        waiting,
        replace(
            _after(spec, threads, is_at_once=bool(waiting)),
            after_ms=application.after_ms + delay_ms,
        ),
    )
    active = {name: list(map(_item, own.active)) for name, own in threads.items()}
    standby = {name: tuple(map(_item, sorted(own.standby))) for name, own in threads.items()}
    return active, standby, rebalance


def application_warnings(spec: GroupSpec, rebalance: StreamsRebalance) -> Iterator[str]:
    """Yield what makes the result of a rebalance uncertain."""
    application = spec.application
    assert application is not None
    settings, known = application.settings, application.known_settings
    expected = _run(spec, _Guess())

    def differs(*guesses: _Guess, of: GroupSpec = spec) -> bool:
        return any(_run(of, guess) != expected for guess in guesses)

    versions = application.versions
    if versions == ():
        yield (
            "The leader uses Kafka Streams before 3.2, which assigns otherwise in many groups than "
            f"{spec.computed_as}."
        )
    for version in (versions or ())[1:]:
        client = spec.computed_as._replace(version=version)
        if differs(_Guess(), of=replace(spec, client=client)):
            yield (
                f"The leader's version is unknown, and {version} assigns otherwise than "
                f"{spec.computed_as}; --kafka-version {version} computes with it."
            )
    if application.has_tags and (settings.standby_replicas or STANDBYS not in known):
        yield (
            "The clients have tags. If rack.aware.assignment.tags is set, standby tasks are "
            "elsewhere, and may cause other moves."
        )
    stateful = [task for task in application.tasks if task.subtopology in application.stateful]
    processes = len({member.process_id for member in spec.members})
    if STANDBYS not in known and stateful and processes > settings.standby_replicas + 1:
        yield (
            f"{STANDBYS} is unknown. {settings.standby_replicas} is assumed, as many as there are; "
            "--standbys says otherwise."
        )
    if any(task not in application.end_offset_sums for task in stateful) and differs(_Guess(0)):
        yield (
            "How many records the changelogs have is unknown. It is assumed that a client without "
            f"the state of a task lags by more than {_ACCEPTABLE}, and the result is another one "
            "if not."
        )
    if application.unsure_states and differs(_Guess(is_behind=True)):
        yield (
            "Whether clients have caught up with the state that they keep, as standby tasks or on "
            "disk, is unknown. It is assumed, and the result is another one if not."
        )
    if any(0 in own.values() for own in application.states.values()) and differs(
        _Guess(is_quick=True)
    ):
        yield (
            "It is assumed that new standby tasks do not catch up before the rebalances that "
            "follow at once. The result is another one if they do."
        )
    if application.unsure_stateful and differs(_Guess(is_stateful=False)):
        names = ", ".join(map(str, sorted(application.unsure_stateful)))
        yield (
            f"Whether subtopologies {names} have state with a changelog is unknown. It is assumed, "
            "and the result is another one if not."
        )
    if differs(*(_Guess(seed=seed) for seed in _SEEDS)):
        yield (
            "Which threads of a client keep which tasks depends on small lags, or on what its "
            "threads find on disk, which is unknown."
        )
    if _WARMUPS not in known and any(
        _run(set_streams_settings(spec, {_WARMUPS: number}), _Guess()) != expected
        for number in (1, settings.warmup_replicas + 1)
    ):
        yield (
            f"{_WARMUPS} is unknown. {settings.warmup_replicas} is assumed, Kafka's default; "
            f"--streams-config {_WARMUPS}=N says otherwise."
        )
    if rebalance.delay_ms and _PROBING not in known:
        yield (
            f"{_PROBING} is unknown. {settings.probing_ms} is assumed, Kafka's default; "
            f"--streams-config {_PROBING}=MS says otherwise."
        )


def _run(spec: GroupSpec, guess: _Guess) -> tuple[dict[str, ThreadTasks], bool]:
    """Run the assignor with guessed values."""
    application = spec.application
    assert application is not None
    stateful = application.stateful - (set() if guess.is_stateful else application.unsure_stateful)
    ends = {
        task: application.end_offset_sums.get(task, guess.end)
        for task in application.tasks
        if task.subtopology in stateful
    }
    acceptable = application.settings.acceptable_lag
    random = Random(guess.seed)
    states, unsure = _states(spec)
    by_process: dict[str, list[MemberSpec]] = defaultdict(list)
    for member in spec.members:
        by_process[member.process_id or ""].append(member)
    threads: dict[str, StreamThread] = {}
    for process, members in by_process.items():
        sums: dict[str, dict[StreamsTask, int]] = {member.member_id: {} for member in members}
        keeper = {
            task: member.member_id for member in members for task in map(_of_item, member.standby)
        }
        runs = {task for member in members for task in map(_of_item, member.owned or ())}
        # A new thread looks at the disk before the others hear of the rebalance.
        first = next((member for member in members if member.owned is None), members[0])
        if guess.seed:
            first = members[guess.seed // 2 % len(members)]
        for task, offset in sorted(states.get(process, {}).items()):
            if task not in ends or task in runs:
                continue
            end = ends[task]
            size = application.end_offset_sums.get(task)
            catches_up = acceptable >= _ROOM and size is not None and size <= acceptable + _SOON
            if guess.is_behind and (process, task) in unsure and not catches_up:
                offset = max(0, end - acceptable - 1)
            elif offset == 0 and guess.is_quick and task in keeper:
                soon = _AT_ONCE if keeper[task] in application.hurried else _SOON
                offset = end if (size or 0) <= acceptable + soon else 0
            elif offset is None or (offset and task not in application.end_offset_sums):
                has_lag = guess.seed % 2 and not (application.is_idle and task in keeper)
                offset = end - (random.randint(0, min(acceptable, end)) if has_lag else 0)
            is_sure = task in keeper and (process, task) not in application.unsure_finders
            finder = keeper[task] if is_sure else application.finders.get((process, task), "")
            if task in keeper and not is_sure and not guess.seed:
                sums[keeper[task]][task] = offset
            if finder not in sums or (guess.seed and not is_sure):
                finder = first.member_id
            sums[finder][task] = offset
        for member in members:
            active = [_of_item(item) for item in member.owned or ()]
            own_sums = sums[member.member_id]
            own_sums.update({task: LATEST_OFFSET for task in active if task in ends})
            partitions = [at for task in active for at in application.tasks.get(task, ())]
            threads[member.member_id] = StreamThread(process, tuple(partitions), own_sums)
    assign = assignor_of(spec.protocol, spec.strategy)
    topology = ApplicationTasks(application.tasks, ends)
    result: tuple[dict[str, ThreadTasks], bool] = assign(
        threads, topology, application.settings, spec.computed_as.version
    )
    return result


def _states(
    spec: GroupSpec,
) -> tuple[dict[str, dict[StreamsTask, int | None]], set[tuple[str, StreamsTask]]]:
    """Return state besides active tasks by process, also that of threads that left; and the unsure.

    Whoever comes back has been away: how far behind it is then is not known.
    """
    application = spec.application
    assert application is not None
    states = {process: {**own} for process, own in application.states.items()}
    unsure = set(application.unsure_states)
    for member in spec.departed:
        process = member.process_id or ""
        own = states.setdefault(process, {})
        for task in map(_of_item, (*(member.owned or ()), *member.standby)):
            if task.subtopology in application.stateful:
                own.setdefault(task, None)
    return states, unsure


def _after(
    spec: GroupSpec, threads: Mapping[str, ThreadTasks], *, is_at_once: bool
) -> StreamsApplication:
    """Return the application before the next rebalance.

    A new standby task has nothing yet if that comes at once; a probing rebalance finds it caught
    up, if its interval is long enough.
    """
    application = spec.application
    assert application is not None
    states, unsure = _states(spec)
    finders = {**application.finders}
    moved = set()
    hurried = set()
    for member in spec.members:
        process = member.process_id or ""
        own = states.setdefault(process, {})
        for task in map(_of_item, (*(member.owned or ()), *member.standby)):
            finders[process, task] = member.member_id
            if task.subtopology in application.stateful:
                own.setdefault(task, None)
    for member in spec.members:
        process = member.process_id or ""
        own = states[process]
        for task in threads[member.member_id].standby:
            if task not in own:
                own[task] = 0
            elif finders.get((process, task), member.member_id) != member.member_id:
                moved.add((process, task))
            if own[task] == 0 and not is_at_once:
                own[task] = None
                unsure.add((process, task))
    for member in spec.members:
        given = threads[member.member_id]
        for task in given.active:
            states[member.process_id or ""].pop(task, None)
        if given.waiting or not {*map(_of_item, member.owned or ())}.issubset(given.active):
            hurried.add(member.member_id)
    return replace(
        application,
        states=states,
        unsure_states=frozenset(
            (process, task) for process, task in unsure if task in states.get(process, ())
        ),
        finders=finders,
        unsure_finders=frozenset(moved if is_at_once else ()),
        hurried=frozenset(hurried),
    )
