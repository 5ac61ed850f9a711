"""Kafka Connect's assignors: which worker runs which connectors and tasks.

With `connect.protocol` eager (protocol name "default") every worker stops everything in each
rebalance, and the leader deals connectors, then tasks, in turn. With `compatible` and `sessioned`
(KIP-415) workers keep what they run: the leader gives out what nobody runs, and revokes what a
worker has too much of, which it gives out in the next rebalance. What a lost worker ran waits for
`scheduled.rebalance.max.delay.ms`, and then goes to the workers that came empty-handed meanwhile.

The leader remembers its last assignment (`LeaderMemory`); a new leader does not.

Source: `EagerAssignor`, `IncrementalCooperativeAssignor` and `WorkerCoordinator` of connect-runtime
3.6 to 4.3.1; up to 3.5 `maxDelay == 0` was no case of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import log

from kgroup.assignor.java.java_hash import hash_order, utf16
from kgroup.model.cluster import TopicPartition

CONNECTOR = -1
"""Number of the connector itself, in place of that of a task, as in Connect's messages."""

EAGER = "default"
"""Name of the eager protocol in group requests."""

DEFAULT_MAX_DELAY_MS = 300_000
"""Default of `scheduled.rebalance.max.delay.ms`."""

_BACKOFF_BASE = 40


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What the leader remembers of its last assignment; the default is a worker that never led.

    Attributes:
        assigned: what it had assigned, without what it revoked, and with what was lost.
        revoked: what it revoked.
        members: workers of that assignment.
        has_revoked: whether it revoked something to balance the load.
        successive: number of successive rebalances that were to balance the load.
        candidates: workers that get what was lost, in order.
        scheduled_ms: end of the delay; 0 without a delay.
        delay_ms: delay of the last assignment.
    """

    assigned: frozenset[TopicPartition] = frozenset()
    revoked: frozenset[TopicPartition] = frozenset()
    members: frozenset[str] = frozenset()
    has_revoked: bool = False
    successive: int = 0
    candidates: tuple[str, ...] = ()
    scheduled_ms: int = 0
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """What the leader tells a worker.

    Attributes:
        started: connectors and tasks to start, in the order of the message.
        revoked: connectors and tasks to stop; then the worker joins again.
    """

    started: tuple[TopicPartition, ...]
    revoked: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True)
class _Load:
    """Connectors and tasks of a worker during an assignment, in order."""

    worker: str
    connectors: dict[TopicPartition, None]
    tasks: dict[TopicPartition, None]

    def remove(self, items: Iterable[TopicPartition]) -> None:
        for item in items:
            self.connectors.pop(item, None)
            self.tasks.pop(item, None)

    def add(self, item: TopicPartition) -> None:
        (self.connectors if item[1] == CONNECTOR else self.tasks)[item] = None

    @property
    def items(self) -> list[TopicPartition]:
        return [*self.connectors, *self.tasks]


def java_sorted(items: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return connectors, then tasks, each in the order of a TreeSet."""
    return sorted(items, key=lambda item: (item[1] != CONNECTOR, utf16(item[0]), item[1]))


def as_sent(items: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return connectors and tasks in the order in which a message has them.

    Source: `ConnectProtocol.Assignment.asMap`: connectors come in the order of a HashSet; each
    has its tasks behind it, and then come tasks of other connectors.
    """
    names = [name for name, number in items if number == CONNECTOR]
    capacity = max(int(len(names) / 0.75) + 1, 16)
    by_name: dict[str, list[int]] = {name: [CONNECTOR] for name in hash_order(names, capacity)}
    for name, number in items:
        if number != CONNECTOR:
            by_name.setdefault(name, []).append(number)
    return tuple((name, number) for name, numbers in by_name.items() for number in numbers)


def after_join(
    owned: Sequence[TopicPartition], assignment: WorkerAssignment
) -> tuple[TopicPartition, ...]:
    """Return what a worker runs after a cooperative rebalance, in its own order.

    Its next message has it `as_sent`, from which this order cannot be told.

    Source: `WorkerCoordinator.onJoinComplete`.

    Args:
        owned: what the worker ran, in its own order.
        assignment: what the leader told it.
    """
    kept = [item for item in owned if item not in assignment.revoked]
    return (*as_sent(assignment.started), *kept)


def configured_items(connectors: Mapping[str, int]) -> list[TopicPartition]:
    """Return connectors and their tasks; a connector has its number of tasks."""
    return [
        *((name, CONNECTOR) for name in connectors),
        *((name, number) for name, tasks in connectors.items() for number in range(tasks)),
    ]


def assign_eager(
    workers: Iterable[str], configured: Iterable[TopicPartition]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Deal connectors, then tasks, to the sorted workers in turn."""
    names = sorted(workers, key=utf16)
    given: dict[str, list[TopicPartition]] = {name: [] for name in names}
    for name, item in zip(cycle(names), java_sorted(configured), strict=False):
        given[name].append(item)
    return {name: as_sent(items) for name, items in given.items()}


def assign_incremental(
    workers: Mapping[str, Sequence[TopicPartition]],
    configured: Collection[TopicPartition],
    memory: LeaderMemory,
    now_ms: int,
    max_delay_ms: int,
) -> tuple[dict[str, WorkerAssignment], LeaderMemory]:
    """Assign as the leader does with `compatible` and `sessioned`.

    Args:
        workers: what each worker runs, in the order of its message; workers in the order of the
            JoinGroup response.
        configured: all connectors and tasks.
        memory: the leader's memory of its last assignment; without `assigned` if that was not the
            last one of the group.
        now_ms: the leader's clock.
        max_delay_ms: the leader's `scheduled.rebalance.max.delay.ms`.

    Returns:
        What each worker is told, and what the leader remembers.
    """
    order = hash_order(hash_order(workers))
    active = {item for items in workers.values() for item in items}
    previous = memory.assigned
    if not memory.revoked.isdisjoint(active):
        previous = frozenset(active)
    deleted = previous.difference(configured)
    counts = Counter(item for items in workers.values() for item in set(items))
    duplicated = {item for item, times in counts.items() if times > 1}
    lost = java_sorted(previous - active - deleted)
    created = java_sorted(set(configured) - previous - active)
    revoked = {
        worker: {item for item in items if item in deleted or item in duplicated}
        for worker, items in workers.items()
    }
    loads = [_load(worker, workers[worker]) for worker in order]
    for load in loads:
        load.remove(revoked[load.worker])
    memory, reassigned = _handle_lost(memory, lost, loads, now_ms, max_delay_ms)
    delay_ms, scheduled_ms = memory.delay_ms, memory.scheduled_ms
    has_revoked, successive = memory.has_revoked, memory.successive
    if delay_ms:
        has_revoked = False
    elif unbalanced := _unbalanced(loads, configured):
        if has_revoked:
            successive += 1
            delay_ms = backoff_ms(successive, max_delay_ms)
            scheduled_ms = now_ms + delay_ms if delay_ms else scheduled_ms
        if not delay_ms:
            has_revoked = True
            for load in loads:
                revoked[load.worker].update(unbalanced.get(load.worker, ()))
                load.remove(unbalanced.get(load.worker, ()))
    elif has_revoked:
        has_revoked, successive = False, 0
    given = list(dict.fromkeys([*created, *reassigned]))
    _deal([item for item in given if item[1] == CONNECTOR], loads, lambda load: load.connectors)
    _deal([item for item in given if item[1] != CONNECTOR], loads, lambda load: load.tasks)
    told = {}
    for load in loads:
        current = {item for item in workers[load.worker] if item not in deleted}
        started = tuple(item for item in load.items if item not in current)
        told[load.worker] = WorkerAssignment(started, frozenset(revoked[load.worker]))
    all_revoked = frozenset(item for items in revoked.values() for item in items)
    running = frozenset(item for load in loads for item in load.items)
    return told, replace(
        memory,
        assigned=(running - all_revoked) | frozenset(lost),
        revoked=all_revoked,
        members=frozenset(workers),
        has_revoked=has_revoked,
        successive=successive,
        scheduled_ms=scheduled_ms,
        delay_ms=delay_ms,
    )


def _load(worker: str, items: Sequence[TopicPartition]) -> _Load:
    load = _Load(worker, {}, {})
    for item in items:
        load.add(item)
    return load


def _handle_lost(
    memory: LeaderMemory,
    lost: Sequence[TopicPartition],
    loads: Sequence[_Load],
    now_ms: int,
    max_delay_ms: int,
) -> tuple[LeaderMemory, Sequence[TopicPartition]]:
    """Give what was lost to candidates, or let it wait.

    Returns:
        The memory, and what anybody may get.
    """
    without_delay = replace(memory, candidates=(), scheduled_ms=0, delay_ms=0)
    if not lost and not memory.has_revoked:
        return without_delay, ()
    is_complete = memory.members <= {load.worker for load in loads}
    if max_delay_ms == 0 or (memory.scheduled_ms <= 0 and is_complete):
        return memory, lost
    if 0 < memory.scheduled_ms <= now_ms:
        by_worker = {load.worker: load for load in loads}
        takers = [by_worker[worker] for worker in memory.candidates if worker in by_worker]
        if takers:
            connectors = [item for item in lost if item[1] == CONNECTOR]
            for items in (connectors, lost[len(connectors) :]):
                for taker, item in zip(cycle(takers), items, strict=False):
                    taker.add(item)
        return replace(without_delay, has_revoked=False), () if takers else lost
    empty = hash_order([load.worker for load in loads if not load.items])
    candidates = tuple(dict.fromkeys([*memory.candidates, *empty]))
    delay_ms = max_delay_ms
    if now_ms < memory.scheduled_ms:
        delay_ms = min(memory.scheduled_ms - now_ms, max_delay_ms)
    return replace(
        memory, candidates=candidates, delay_ms=delay_ms, scheduled_ms=now_ms + delay_ms
    ), ()


def _unbalanced(
    loads: Sequence[_Load], configured: Collection[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """Return what each worker has too much of; empty if the loads are balanced."""
    if not configured or not any(load.items for load in loads):
        return {}
    connectors = sum(number == CONNECTOR for _, number in configured)
    revoked: dict[str, list[TopicPartition]] = {}
    for total, own in (
        (connectors, [(load.worker, [*load.connectors]) for load in loads]),
        (len(configured) - connectors, [(load.worker, [*load.tasks]) for load in loads]),
    ):
        least, extras = divmod(total, len(loads))
        sizes = Counter(len(items) for _, items in own)
        if sizes[least + 1] == extras and sizes[least] + sizes[least + 1] == len(loads):
            continue
        for worker, items in own:
            if len(items) <= least:
                continue
            most = least + 1 if extras > 0 else least
            extras -= 1
            if len(items) > most:
                revoked.setdefault(worker, []).extend(items[: len(items) - most])
    return revoked


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """Return the delay of load balancing after a number of successive attempts.

    Source: `ExponentialBackoff` with an initial interval of 1 ms and without jitter.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    most = log(max_delay_ms) / log(_BACKOFF_BASE)
    return min(int(_BACKOFF_BASE ** min(attempts, most)), max_delay_ms)


def _deal(
    items: Sequence[TopicPartition],
    loads: list[_Load],
    of: Callable[[_Load], dict[TopicPartition, None]],
) -> None:
    """Give items in turn to the workers that have the fewest of their kind."""
    loads.sort(key=lambda load: (len(of(load)), utf16(load.worker)))
    left = iter(items)
    item = next(left, None)
    while item is not None:
        least = len(of(loads[0]))
        for load in [load for load in loads if len(of(load)) <= least]:
            if item is None:
                break
            load.add(item)
            item = next(left, None)


@dataclass(frozen=True, slots=True)
class ConnectCluster:
    """What a Connect cluster has besides workers and connectors, on a clock of its own.

    Attributes:
        memory: the leader's memory.
        max_delay_ms: the leader's `scheduled.rebalance.max.delay.ms`.
        is_delay_assumed: whether `max_delay_ms` is unknown.
        start_ms: time at which the dry run begins.
        now_ms: time of the next rebalance.
        new_connectors: connectors without tasks yet: a worker that starts one defines them.
        reordered: workers of which it is unknown which of their connectors and tasks come first.
        has_memory: whether the leader remembers rebalances that the dry run did not play.
        is_waiting_unknown: whether the delay in progress may keep more unassigned than is known.
    """

    memory: LeaderMemory = LeaderMemory()
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS
    is_delay_assumed: bool = True
    start_ms: int = 1
    now_ms: int = 1
    new_connectors: frozenset[str] = frozenset()
    reordered: frozenset[str] = frozenset()
    has_memory: bool = False
    is_waiting_unknown: bool = False

    def with_new_leader(self) -> ConnectCluster:
        """Return the cluster with a leader that has not led before."""
        return replace(self, memory=LeaderMemory(), has_memory=False, is_waiting_unknown=False)

    def renamed(self, names: Mapping[str, str]) -> ConnectCluster:
        """Return the cluster with other member ids."""

        def name(worker: str) -> str:
            return names.get(worker, worker)

        memory = replace(
            self.memory,
            members=frozenset(map(name, self.memory.members)),
            candidates=tuple(map(name, self.memory.candidates)),
        )
        return replace(self, memory=memory, reordered=frozenset(map(name, self.reordered)))
