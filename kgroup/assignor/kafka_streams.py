"""The assignor of Kafka Streams on the classic protocol: which threads run which tasks.

The leader gives tasks to clients (processes) by `HighAvailabilityTaskAssignor` (KIP-441), then a
client's tasks to its threads, which are the members of the group. Active stateful tasks are
balanced regardless of their previous owners; but while their client is not caught up, they stay
with one that is, and the client gets a warm-up, which is a standby task. A probing rebalance then
checks whether warm-ups have caught up. An active task that another member still owns waits for the
rebalance after its revocation.

`sticky_tasks` has the sticky task assignor. Not covered: rack awareness
(`rack.aware.assignment.strategy` other than none), client tags (`rack.aware.assignment.tags`),
named topologies, and task assignors of users (`task.assignor.class`).

Source: `StreamsPartitionAssignor`, `HighAvailabilityTaskAssignor`, `TaskMovement` and `ClientState`
of kafka-streams 2.8.2 to 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from kgroup.assignor.java.java_hash import hash_order, map_order, utf16
from kgroup.assignor.java.priority_queue import PriorityQueue
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import java_int

LATEST_OFFSET = -2
"""Offset sum, and lag, of a task that a client runs as an active one."""

UNKNOWN_OFFSET_SUM = -3
"""Offset sum, and lag, of a task that members of other versions have."""

CLASSIC_STREAMS = "classic-streams"
"""Protocol of a spec whose members are threads of Kafka Streams with the classic protocol."""

STREAM = "stream"
"""Name of the strategy of such groups: `StreamsPartitionAssignor`, with its default assignor."""

STICKY_TASKS = "sticky"
"""Name of the same with the sticky task assignor."""

STREAMS_VERSIONS = ("4.3.1", "3.4.1", "3.2.3", "3.1.2", "2.8.2")
"""Versions, newest first, each of which stands for others.

They are 3.5.2 and later, 3.3.0 to 3.5.1, 3.2, 3.0 and 3.1, and 2.6 to 2.8.
"""

_NEWEST, _OLDEST = STREAMS_VERSIONS[0], STREAMS_VERSIONS[-1]
_IN_HEAP_ORDER = STREAMS_VERSIONS[2:]
_ONLY_TO_CAUGHT_UP = STREAMS_VERSIONS[3:]

_SIGN = 1 << 63


class StreamsTask(NamedTuple):
    """A task: a subtopology on one partition number."""

    subtopology: int
    partition: int


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """Settings of the application that decide over an assignment, with Kafka's defaults.

    Attributes:
        standby_replicas: `num.standby.replicas`.
        acceptable_lag: `acceptable.recovery.lag`.
        warmup_replicas: `max.warmup.replicas`.
        probing_ms: `probing.rebalance.interval.ms`.
    """

    standby_replicas: int = 0
    acceptable_lag: int = 10_000
    warmup_replicas: int = 2
    probing_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class StreamThread:
    """A member: a thread of a client, as its subscription describes it.

    Attributes:
        process_id: id of the client, a UUID.
        owned: partitions of its active tasks.
        offset_sums: sum of the offsets of each stateful task of which the client has state, as
            far as this thread reports it.
    """

    process_id: str
    owned: Collection[TopicPartition] = ()
    offset_sums: Mapping[StreamsTask, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApplicationTasks:
    """The tasks of an application.

    Attributes:
        tasks: source partitions of each task.
        end_offset_sums: stateful tasks, with the sum of the log end offsets of their changelogs.
    """

    tasks: Mapping[StreamsTask, Collection[TopicPartition]]
    end_offset_sums: Mapping[StreamsTask, int]


@dataclass(frozen=True, slots=True)
class StreamsApplication:
    """What else a dry run knows of an application.

    Attributes:
        tasks: source partitions of each task.
        stateful: subtopologies with changelogs.
        unsure_stateful: those of them that may have none.
        end_offset_sums: sum of the log end offsets of a task's changelogs, where known.
        states: by process id: tasks that it does not run as active ones, but has state of, as a
            standby or on disk, with the sum of the offsets; None for one near the end.
        unsure_states: process ids and tasks whose state may be far behind, or gone.
        finders: by process id and task: the thread that likely reports state that is only on disk.
        unsure_finders: process ids and standby tasks that have moved to another thread of their
            client, so that either may report them if the next rebalance comes at once; likely
            both do.
        hurried: members that rejoin at once, since they wait for active tasks or have revoked some;
            others rejoin with their next heartbeat.
        is_idle: whether all records have been processed, so that standby tasks that have caught up
            lag by none.
        versions: the `STREAMS_VERSIONS` that the leader may have by what it sends, newest first;
            none if the user chose one.
        has_tags: whether threads send client tags.
        settings: settings of the leader.
        known_settings: names of the settings that the user gave, or that are evident.
        after_ms: time from the first rebalance of the dry run to the next one.
    """

    tasks: Mapping[StreamsTask, tuple[TopicPartition, ...]]
    stateful: frozenset[int]
    unsure_stateful: frozenset[int] = frozenset()
    end_offset_sums: Mapping[StreamsTask, int] = field(default_factory=dict)
    states: Mapping[str, Mapping[StreamsTask, int | None]] = field(default_factory=dict)
    unsure_states: frozenset[tuple[str, StreamsTask]] = frozenset()
    finders: Mapping[tuple[str, StreamsTask], str] = field(default_factory=dict)
    unsure_finders: frozenset[tuple[str, StreamsTask]] = frozenset()
    hurried: frozenset[str] = frozenset()
    is_idle: bool = False
    versions: tuple[str, ...] = ()
    has_tags: bool = False
    settings: StreamsSettings = StreamsSettings()
    known_settings: frozenset[str] = frozenset()
    after_ms: int = 0

    def renamed(self, names: Mapping[str, str]) -> StreamsApplication:
        """Return the application with other ids of members and processes."""

        def name(old: str) -> str:
            return names.get(old, old)

        return replace(
            self,
            states={name(process): own for process, own in self.states.items()},
            unsure_states=frozenset((name(process), task) for process, task in self.unsure_states),
            finders={(name(at), task): name(own) for (at, task), own in self.finders.items()},
            unsure_finders=frozenset((name(at), task) for at, task in self.unsure_finders),
            hurried=frozenset(map(name, self.hurried)),
        )


@dataclass(frozen=True, slots=True)
class ThreadTasks:
    """What the leader assigns to a thread.

    Attributes:
        active: active tasks to run now.
        standby: standby tasks, including warm-ups.
        waiting: active tasks that another member must revoke first; the thread rejoins at once.
    """

    active: tuple[StreamsTask, ...]
    standby: frozenset[StreamsTask]
    waiting: tuple[StreamsTask, ...] = ()


@dataclass(slots=True, eq=False)
class StreamsClient:
    """A client during an assignment.

    Attributes:
        threads: its threads, sorted.
        owners: the thread that owns a partition of an active task.
        offset_sums: what its threads report.
        lags: lag by stateful task.
        active: active tasks that it gets.
        standby: standby tasks that it gets.
        rank: a sort key in the order of `UUID.compareTo`, which compares signed halves.
        hash_code: `UUID.hashCode`.
    """

    process_id: str
    threads: list[str] = field(default_factory=list)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    offset_sums: dict[StreamsTask, int] = field(default_factory=dict)
    lags: dict[StreamsTask, int] = field(default_factory=dict)
    active: set[StreamsTask] = field(default_factory=set)
    standby: set[StreamsTask] = field(default_factory=set)
    rank: bytes = field(init=False)
    hash_code: int = field(init=False)

    def __post_init__(self) -> None:
        """Set `rank` and `hash_code`."""
        number = UUID(self.process_id).int
        self.rank = (number ^ (_SIGN << 64 | _SIGN)).to_bytes(16, "big")
        halves = number >> 64 ^ number & (1 << 64) - 1
        self.hash_code = java_int(halves >> 32 ^ halves & 0xFFFFFFFF)

    @property
    def count(self) -> int:
        """The number of tasks that it gets."""
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        """The number of tasks that it gets for each thread."""
        return self.count / len(self.threads)

    def has(self, task: StreamsTask) -> bool:
        """Return whether it gets a task, as an active or as a standby one."""
        return task in self.active or task in self.standby

    def swap_with(self, other: StreamsClient, task: StreamsTask) -> None:
        """Take over an active task whose standby the client has, and leave the standby."""
        self.standby.remove(task)
        self.active.add(task)
        other.active.remove(task)
        other.standby.add(task)


def _load(client: StreamsClient) -> tuple[float, bytes]:
    return (len(client.active) + len(client.standby)) / len(client.threads), client.rank


class _ClientQueue:
    """Clients by load, of which those that meet a condition are polled.

    Source: `ConstrainedPrioritySet`.
    """

    def __init__(
        self,
        clients: Iterable[StreamsClient],
        allows: Callable[[StreamsClient, StreamsTask], bool] = lambda client, task: True,
        load: Callable[[StreamsClient], tuple[float, bytes]] = _load,
    ) -> None:
        self._allows = allows
        self._queue = PriorityQueue[StreamsClient]((), load)
        self._queued: set[StreamsClient] = set()
        self.offer(*clients)

    def offer(self, *clients: StreamsClient) -> None:
        """Queue clients anew, by their current load."""
        for client in clients:
            if client in self._queued:
                self._queue.remove(client)
            self._queued.add(client)
            self._queue.offer(client)

    def poll(
        self, task: StreamsTask, also: Callable[[StreamsClient], bool] = lambda client: True
    ) -> StreamsClient | None:
        """Take the first client that meets the conditions; None if there is none."""
        others: list[StreamsClient] = []
        first = None
        while first is None and len(self._queue):
            client = self._queue.poll()
            self._queued.remove(client)
            if self._allows(client, task) and also(client):
                first = client
            else:
                others.append(client)
        self.offer(*client_hash_order(others))
        return first


def client_hash_order(
    clients: Iterable[StreamsClient], capacity: int | None = None
) -> list[StreamsClient]:
    """Return distinct clients in the order of a HashSet; see `map_order`."""
    return map_order(list(clients), attrgetter("hash_code"), capacity, order=attrgetter("rank"))


def assign(
    threads: Mapping[str, StreamThread],
    topology: ApplicationTasks,
    settings: StreamsSettings,
    version: str = _NEWEST,
) -> tuple[dict[str, ThreadTasks], bool]:
    """Assign tasks to threads.

    Args:
        threads: the threads by member id.
        topology: the tasks.
        settings: the leader's settings.
        version: the leader's version, one of `STREAMS_VERSIONS`.

    Returns:
        The tasks of each thread by member id, and whether a probing rebalance is needed.
    """
    return assign_with(
        lambda clients: _assign_to_clients(clients, topology, settings, version),
        threads,
        topology,
        version,
    )


def assign_with(
    to_clients: Callable[[Sequence[StreamsClient]], bool],
    threads: Mapping[str, StreamThread],
    topology: ApplicationTasks,
    version: str,
) -> tuple[dict[str, ThreadTasks], bool]:
    """Assign tasks to threads; see `assign`.

    Args:
        to_clients: gives tasks to clients, which are sorted by process id, and returns whether a
            probing rebalance is needed.
        threads: the threads by member id.
        topology: the tasks.
        version: the leader's version.
    """
    clients = _clients(threads, topology)
    is_probing = to_clients(clients)
    partition_owners = {partition for thread in threads.values() for partition in thread.owned}
    assigned: dict[str, ThreadTasks] = {}
    for client in clients:
        for member_id, (active, standby) in _assign_to_threads(client, threads, version).items():
            assigned[member_id] = _without_waiting(
                member_id, client, active, standby, topology, partition_owners, version
            )
    return {member_id: assigned[member_id] for member_id in threads}, is_probing


def _clients(
    threads: Mapping[str, StreamThread], topology: ApplicationTasks
) -> list[StreamsClient]:
    """Return the clients with their lags, sorted by process id."""
    clients: dict[str, StreamsClient] = {}
    for member_id in hash_order(threads):
        thread = threads[member_id]
        client = clients.setdefault(thread.process_id, StreamsClient(thread.process_id))
        client.threads.append(member_id)
        client.owners.update(dict.fromkeys(thread.owned, member_id))
        client.offset_sums.update(thread.offset_sums)
    for client in clients.values():
        client.threads.sort(key=utf16)
        for task, end in topology.end_offset_sums.items():
            own = client.offset_sums.get(task, 0)
            if own in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
                client.lags[task] = own
            else:  # state beyond the end of the log is corrupted
                client.lags[task] = end if end < own else end - own
    return sorted(clients.values(), key=lambda client: client.rank)


def _assign_to_clients(
    clients: Sequence[StreamsClient],
    topology: ApplicationTasks,
    settings: StreamsSettings,
    version: str,
) -> bool:
    """Assign tasks to clients; return whether a probing rebalance is needed.

    Source: `HighAvailabilityTaskAssignor`.
    """
    stateful = sorted(topology.end_offset_sums)
    for at, task in enumerate(stateful):
        clients[at % len(clients)].active.add(task)
    _balance(clients, lambda client: client.active)
    if settings.standby_replicas:
        by_load = _ClientQueue(clients, lambda client, task: not client.has(task))
        for task in stateful:
            for _ in range(settings.standby_replicas):
                taker = by_load.poll(task)
                if taker is None:
                    break
                taker.standby.add(task)
                by_load.offer(taker)
        _balance(clients, lambda client: client.standby)
    movement = _Movement(clients, stateful, settings, version)
    moves = movement.move_active()
    moves += movement.move_standbys()
    by_active_load = _ClientQueue(
        clients, load=lambda client: (len(client.active) / len(client.threads), client.rank)
    )
    for task in sorted(topology.tasks.keys() - topology.end_offset_sums.keys()):
        taker = by_active_load.poll(task)
        assert taker is not None
        taker.active.add(task)
        by_active_load.offer(taker)
    return moves > 0


def _balance(
    clients: Sequence[StreamsClient], tasks_of: Callable[[StreamsClient], set[StreamsTask]]
) -> None:
    """Move tasks of one kind until the clients have equal loads, as far as possible."""
    has_moved = True
    while has_moved:
        has_moved = False
        for source in clients:
            for destination in clients:
                if source is destination:
                    continue
                for task in sorted(tasks_of(source)):
                    if not _improves(source, destination):
                        break
                    if not destination.has(task):
                        tasks_of(source).remove(task)
                        tasks_of(destination).add(task)
                        has_moved = True


def _improves(source: StreamsClient, destination: StreamsClient) -> bool:
    skew = source.load - destination.load
    if skew <= 0:
        return False
    then = (source.count - 1) / len(source.threads) - (destination.count + 1) / len(
        destination.threads
    )
    return 0 <= then < skew


class _Movement:
    """Moves tasks from clients that are not caught up to those that are.

    Source: `TaskMovement`.
    """

    def __init__(
        self,
        clients: Sequence[StreamsClient],
        stateful: Iterable[StreamsTask],
        settings: StreamsSettings,
        version: str,
    ) -> None:
        self.clients = clients
        self.version = version
        self.caught_up = {
            task: {
                client.process_id
                for client in clients
                if client.lags[task] == LATEST_OFFSET
                or 0 <= client.lags[task] <= settings.acceptable_lag
            }
            for task in stateful
        }
        self.by_lag = {
            task: [client for _, _, client in sorted((c.lags[task], c.rank, c) for c in clients)]
            for task in self.caught_up
        }
        self.warmups_left = settings.warmup_replicas
        self.warmups: set[tuple[str, StreamsTask]] = set()

    def move_active(self) -> int:
        """Move active tasks; return the number of movements."""
        movements = self._movements(lambda client: client.active)
        by_load = self._by_load()
        count = len(movements)
        for task, destination in self._in_order(movements):
            source = by_load.poll(task, lambda client, task=task: task in client.standby)  # type: ignore[misc]
            source = source or by_load.poll(task)
            if source is None:  # it exists: the movement was planned because of it
                source = self._most_caught_up(task, destination, lambda client: True)
            assert source is not None
            if task in source.standby:
                source.swap_with(destination, task)
            else:
                source.active.add(task)
                destination.active.remove(task)
                if self._may_warm_up():
                    destination.standby.add(task)
                    self.warmups.add((destination.process_id, task))
            by_load.offer(source, destination)
        return count

    def move_standbys(self) -> int:
        """Move standby tasks except warm-ups; return the number of movements."""
        movements = self._movements(lambda client: client.standby)
        by_load = self._by_load()
        count = 0
        for task, destination in self._in_order(movements):

            def is_free(client: StreamsClient, task: StreamsTask = task) -> bool:
                return not client.has(task)

            source = by_load.poll(task, is_free)
            if self.version not in _ONLY_TO_CAUGHT_UP:
                source = source or self._most_caught_up(task, destination, is_free)
            if source is None:
                continue
            source.standby.add(task)
            if not self._may_warm_up():
                destination.standby.remove(task)
            by_load.offer(source, destination)
            count += 1
        return count

    def _movements(
        self, tasks_of: Callable[[StreamsClient], set[StreamsTask]]
    ) -> PriorityQueue[tuple[StreamsTask, StreamsClient]]:
        """Return tasks of clients that are behind, while another client is less so."""
        queue = PriorityQueue[tuple[StreamsTask, StreamsClient]](
            (), lambda movement: (len(self.caught_up[movement[0]]), movement[0])
        )
        for client in self.clients:
            for task in sorted(tasks_of(client)):
                if (client.process_id, task) in self.warmups:
                    continue
                is_behind = client.process_id not in self.caught_up[task]
                has_better = self.by_lag[task][0].lags[task] < client.lags[task]
                if self.version in _ONLY_TO_CAUGHT_UP:
                    has_better = bool(self.caught_up[task])
                if is_behind and has_better:
                    queue.offer((task, client))
        return queue

    def _in_order(
        self, movements: PriorityQueue[tuple[StreamsTask, StreamsClient]]
    ) -> Iterator[tuple[StreamsTask, StreamsClient]]:
        if self.version in _IN_HEAP_ORDER:
            yield from movements
            return
        while len(movements):
            yield movements.poll()

    def _by_load(self) -> _ClientQueue:
        return _ClientQueue(
            self.clients, lambda client, task: client.process_id in self.caught_up[task]
        )

    def _most_caught_up(
        self, task: StreamsTask, destination: StreamsClient, allows: Callable[[StreamsClient], bool]
    ) -> StreamsClient | None:
        for client in self.by_lag[task]:
            if client is destination:
                return None
            if allows(client):
                return client
        return None

    def _may_warm_up(self) -> bool:
        self.warmups_left -= 1
        return self.warmups_left >= 0


def _task_hash(task: StreamsTask) -> int:
    """Return `TaskId.hashCode` without a named topology."""
    return java_int(31 * (31 * (31 + task.subtopology) + task.partition))


def _hash_of_2_8(task: StreamsTask) -> int:
    """Return `TaskId.hashCode` of 2.8 and earlier."""
    return (task.subtopology << 32 | task.partition) % 0xFFFFFFFF


def _task_order(task: StreamsTask) -> bytes:
    return task.subtopology.to_bytes(8, "big") + task.partition.to_bytes(8, "big")


def _assign_to_threads(
    client: StreamsClient, threads: Mapping[str, StreamThread], version: str
) -> dict[str, tuple[list[StreamsTask], list[StreamsTask]]]:
    """Return active and standby tasks of each thread of a client.

    Up to 3.1, standby tasks are spread regardless of the active ones.
    """
    loads = dict.fromkeys(client.threads, 0)
    previous = {
        member_id: sorted(
            (task for task in threads[member_id].offset_sums if task in client.lags),
            key=lambda task: (client.lags[task], task),
        )
        for member_id in client.threads
    }
    stateful = [task for task in sorted(client.active) if task in client.lags]
    stateless = [task for task in sorted(client.active) if task not in client.lags]
    active = _spread(task_hash_order(stateful, version), previous, loads)
    if version in _ONLY_TO_CAUGHT_UP:
        least = len(stateful) // len(loads)
        short = [name for name in loads if loads[name] == least and len(stateful) % len(loads)]
        others: dict[str, list[StreamsTask]] = {name: [] for name in loads}
        for task, name in zip(stateless, chain(short, cycle(loads)), strict=False):
            others[name].append(task)
        loads = dict.fromkeys(loads, 0)
    standby = _spread(sorted(client.standby), previous, loads)
    if version not in _ONLY_TO_CAUGHT_UP:
        others = _spread(task_hash_order(stateless, version), {name: [] for name in loads}, loads)
    return {
        member_id: (active[member_id] + others[member_id], standby[member_id])
        for member_id in client.threads
    }


def task_hash_order(
    tasks: Sequence[StreamsTask], version: str, capacity: int | None = None
) -> list[StreamsTask]:
    """Return distinct tasks in the order of a HashSet; see `map_order`."""
    code = _hash_of_2_8 if version == _OLDEST else _task_hash
    return map_order(tasks, code, capacity, order=_task_order)


def _spread(
    tasks: Sequence[StreamsTask],
    previous: Mapping[str, Sequence[StreamsTask]],
    loads: dict[str, int],
) -> dict[str, list[StreamsTask]]:
    """Spread tasks over threads, which keep previous ones up to the mean; add to their loads.

    Source: `StreamsPartitionAssignor.assignTasksToThreads`.
    """
    given: dict[str, list[StreamsTask]] = {member_id: [] for member_id in previous}
    if not tasks:
        return given
    least = (len(tasks) + sum(loads.values())) // len(given)
    left = PriorityQueue(tasks, lambda task: task)
    unassigned = set(tasks)
    skipped: dict[StreamsTask, str] = {}
    to_fill: list[str] = []
    for member_id, own in given.items():
        for task in previous[member_id]:
            if task in unassigned:
                if len(own) < least - loads[member_id]:
                    own.append(task)
                    left.remove(task)
                    unassigned.remove(task)
                else:
                    skipped[task] = member_id
        if len(own) < least - loads[member_id]:
            to_fill.append(member_id)
    while to_fill:
        member_id = to_fill.pop(0)
        given[member_id].append(left.poll())
        if len(given[member_id]) + loads[member_id] < least:
            to_fill.append(member_id)
    unassigned = set(left)
    to_fill = [name for name, own in given.items() if len(own) + loads[name] == least]
    for task, member_id in sorted(skipped.items()):
        if member_id in to_fill and task in unassigned:
            given[member_id].append(task)
            left.remove(task)
            unassigned.remove(task)
            to_fill.remove(member_id)
    for task, member_id in zip(left, to_fill, strict=False):
        given[member_id].append(task)
    for member_id, own in given.items():
        loads[member_id] += len(own)
    return given


def _without_waiting(
    member_id: str,
    client: StreamsClient,
    active: Iterable[StreamsTask],
    standby: Iterable[StreamsTask],
    topology: ApplicationTasks,
    owned: Collection[TopicPartition],
    version: str,
) -> ThreadTasks:
    """Take out active tasks that another member must revoke first.

    If the client had a standby of such a task, the thread keeps it until then. Up to 3.5.1, it gets
    a standby of every such task that has state.
    """
    now: list[StreamsTask] = []
    waiting: list[StreamsTask] = []
    for task in active:
        is_owned = any(
            partition in owned and client.owners.get(partition) != member_id
            for partition in topology.tasks[task]
        )
        (waiting if is_owned else now).append(task)
    kept = {
        task
        for task in waiting
        if task in client.lags
        and (
            version != _NEWEST
            or (
                client.offset_sums.get(task, LATEST_OFFSET) != LATEST_OFFSET
                and not any(partition in client.owners for partition in topology.tasks[task])
            )
        )
    }
    return ThreadTasks(tuple(sorted(now)), frozenset({*standby, *kept}), tuple(sorted(waiting)))
