"""Dry runs of Kafka Streams on the classic protocol: a rebalance, and what makes it uncertain.

What a thread sends in the next rebalance follows from its assignment: the partitions it owns, and
that it runs its active tasks. How far its client is with other state is not in any request: only
the offsets that it sent in the last rebalance are. Where the answer depends on that, a dry run is
repeated with other values, and a warning says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from kgroup.assignor.base import Assignment
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.kafka_streams import (
    LATEST_OFFSET,
    ApplicationTasks,
    StreamsApplication,
    StreamsTask,
    StreamThread,
    ThreadTasks,
)
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assignor_of
from kgroup.errors import UsageError
from kgroup.model.cluster import TopicPartition

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

_OTHERWISE = "otherwise, the result is different"
_FAR = 1 << 40
_SOON = 100_000
"""Number of records that a client restores within seconds, or before its next heartbeat."""
_AT_ONCE = 10_000
"""Number of records that a client may restore before it rejoins at once."""
_ROOM = 1_000
"""Lag that a client that keeps up may have for a moment."""
_SEEDS = (2, 3, 4, 5, 6, 7)


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


def as_item(task: StreamsTask) -> TopicPartition:
    """Return a task as dry runs name it: subtopology, partition."""
    return str(task.subtopology), task.partition


def as_task(item: TopicPartition) -> StreamsTask:
    """Return the task that dry runs name as subtopology and partition."""
    return StreamsTask(int(item[0]), item[1])


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
    waiting = tuple(sorted(as_item(task) for own in threads.values() for task in own.waiting))
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
    active = {name: list(map(as_item, own.active)) for name, own in threads.items()}
    standby = {name: tuple(map(as_item, sorted(own.standby))) for name, own in threads.items()}
    return active, standby, rebalance


def application_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield what makes the result of a rebalance uncertain."""
    application = spec.application
    assert application is not None
    settings, known = application.settings, application.known_settings
    expected = _run(spec, _Guess())

    def differs(*guesses: _Guess) -> bool:
        return any(_run(spec, guess) != expected for guess in guesses)

    for version in application.versions[1:]:
        client = spec.computed_as._replace(version=version)
        if _lasting(_run(replace(spec, client=client), _Guess())) != _lasting(expected):
            yield (
                f"The leader's version is unknown, and {version} assigns differently from "
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
            "How many records the changelogs have is unknown. A client without the state of a task "
            f"is assumed to lag by more than {_ACCEPTABLE}; {_OTHERWISE}."
        )
    if application.unsure_states and differs(_Guess(is_behind=True)):
        yield (
            "Whether clients have caught up with the state that they keep, as standby tasks or on "
            f"disk, is unknown. This is assumed; {_OTHERWISE}."
        )
    if any(0 in own.values() for own in application.states.values()) and differs(
        _Guess(is_quick=True)
    ):
        yield (
            "New standby tasks are assumed not to catch up before the rebalances that follow at "
            f"once; {_OTHERWISE}."
        )
    if application.unsure_stateful and differs(_Guess(is_stateful=False)):
        names = ", ".join(map(str, sorted(application.unsure_stateful)))
        yield (
            f"Whether subtopologies {names} have state with a changelog is unknown. This is "
            f"assumed; {_OTHERWISE}."
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


def probing_note(spec: GroupSpec) -> str:
    """Return a note on the time of probing rebalances; empty if that is known."""
    application = spec.application
    if application is None or _PROBING in application.known_settings:
        return ""
    return (
        f"{_PROBING} is unknown; {application.settings.probing_ms} is assumed, Kafka's default; "
        f"--streams-config {_PROBING}=MS says otherwise"
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
    states, unsure = _states(spec, spec.departed)
    by_process: dict[str, list[MemberSpec]] = defaultdict(list)
    for member in spec.members:
        by_process[member.process_id or ""].append(member)
    threads: dict[str, StreamThread] = {}
    for process, members in by_process.items():
        sums: dict[str, dict[StreamsTask, int]] = {member.member_id: {} for member in members}
        keeper = {
            task: member.member_id for member in members for task in map(as_task, member.standby)
        }
        runs = {task for member in members for task in map(as_task, member.owned or ())}
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
            active = [as_task(item) for item in member.owned or ()]
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


def _lasting(result: tuple[dict[str, ThreadTasks], bool]) -> tuple[dict[str, ThreadTasks], bool]:
    """Leave out standby tasks that threads only have until they get the task itself."""
    threads, is_probing = result
    return {
        member_id: replace(own, standby=own.standby.difference(own.waiting))
        for member_id, own in threads.items()
    }, is_probing


def _states(
    spec: GroupSpec, members: Iterable[MemberSpec]
) -> tuple[dict[str, dict[StreamsTask, int | None]], set[tuple[str, StreamsTask]]]:
    """Return state besides active tasks by process, and the unsure; with all tasks of some members.

    How far behind a client is that was away is unknown.
    """
    application = spec.application
    assert application is not None
    states = {process: {**own} for process, own in application.states.items()}
    for member in members:
        own = states.setdefault(member.process_id or "", {})
        for task in _all_tasks(member):
            if task.subtopology in application.stateful:
                own.setdefault(task, None)
    return states, set(application.unsure_states)


def _all_tasks(member: MemberSpec) -> Iterator[StreamsTask]:
    return map(as_task, (*(member.owned or ()), *member.standby))


def _after(
    spec: GroupSpec, threads: Mapping[str, ThreadTasks], *, is_at_once: bool
) -> StreamsApplication:
    """Return the application before the next rebalance.

    A new standby task has nothing yet if that comes at once; a probing rebalance finds it caught
    up, if its interval is long enough.
    """
    application = spec.application
    assert application is not None
    states, unsure = _states(spec, (*spec.departed, *spec.members))
    finders = {
        **application.finders,
        **{(m.process_id or "", task): m.member_id for m in spec.members for task in _all_tasks(m)},
    }
    moved, hurried = set(), set()
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
        if given.waiting or not {*map(as_task, member.owned or ())}.issubset(given.active):
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
