"""The coordinator's assignor of streams groups (KIP-1071): active and standby tasks.

Tasks stay where they are, as far as no member gets more than its share; an active task may go to a
member that had it as standby; the rest goes to the least loaded process, and there to the least
loaded member. Racks, client tags and lags play no part, and there are no warm-up tasks.

Source: `StickyTaskAssignor` and `ProcessState` of group-coordinator 4.3.1; ties are decided by
Java's `HashMap` and `PriorityQueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgroup.assignor.java.java_hash import hash_order, utf16
from kgroup.assignor.java.priority_queue import PriorityQueue
from kgroup.model.cluster import TopicPartition


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member, and its tasks in the current target assignment.

    Attributes:
        process_id: id of its process; members of one process are its threads.
        active: active tasks, by subtopology and partition.
        standby: standby tasks.
    """

    process_id: str
    active: Collection[TopicPartition] = ()
    standby: Collection[TopicPartition] = ()


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """The subtopologies of a streams group.

    Attributes:
        tasks: number of tasks by subtopology.
        stateful: subtopologies with changelog topics, whose tasks have standbys.
        standby_replicas: `streams.num.standby.replicas` of the group.
    """

    tasks: Mapping[str, int]
    stateful: frozenset[str] = frozenset()
    standby_replicas: int = 0


@dataclass(slots=True)
class _Process:
    """A process: its members' numbers of tasks, and what has been assigned to it."""

    counts: dict[str, int] = field(default_factory=dict)
    tasks: set[TopicPartition] = field(default_factory=set)
    total: int = 0
    queue: PriorityQueue[list[Any]] | None = None

    @property
    def load(self) -> float:
        return self.total / len(self.counts)


class _Assigning:
    """One run of the assignor."""

    def __init__(self, members: Mapping[str, StreamsMember], topology: StreamsTopology) -> None:
        self._members = members
        self._replicas = topology.standby_replicas
        self.active: dict[str, list[TopicPartition]] = {name: [] for name in members}
        self.standby: dict[str, list[TopicPartition]] = {name: [] for name in members}
        walked = hash_order(members)
        self._processes: dict[str, _Process] = {}
        processes = hash_order([members[name].process_id for name in walked], len(members))
        for process_id in processes:
            self._processes[process_id] = _Process()
        self._had_active: dict[TopicPartition, str] = {}
        self._had_standby: dict[TopicPartition, list[str]] = {}
        for name in walked:
            member = members[name]
            self._processes[member.process_id].counts[name] = 0
            self._had_active.update(dict.fromkeys(member.active, name))
            for task in member.standby:
                self._had_standby.setdefault(task, []).append(name)
        self._active_left = sum(topology.tasks.values())
        self._left = self._active_left + self._replicas * sum(
            number for name, number in topology.tasks.items() if name in topology.stateful
        )
        self._takers = self._active_takers = len(members)
        self._share = _per_member(self._left, self._takers)
        self._active_share = _per_member(self._active_left, self._active_takers)

    def _process(self, name: str) -> _Process:
        return self._processes[self._members[name].process_id]

    def _count(self, name: str) -> int:
        return self._process(name).counts[name]

    def _add(self, name: str, task: TopicPartition, *, is_active: bool) -> None:
        process = self._process(name)
        process.total += 1
        process.tasks.add(task)
        process.counts[name] += 1
        (self.active if is_active else self.standby)[name].append(task)
        count = process.counts[name]
        if is_active and count == self._active_share:
            self._active_takers -= 1
            self._active_left -= count
            self._active_share = _per_member(self._active_left, self._active_takers)
        if count == self._share:
            self._takers -= 1
            self._left -= count
            self._share = _per_member(self._left, self._takers)

    def _add_to(self, name: str, task: TopicPartition, *, is_active: bool) -> None:
        self._process(name).queue = None
        self._add(name, task, is_active=is_active)

    def _add_to_least_loaded(
        self, process: _Process, task: TopicPartition, *, is_active: bool
    ) -> None:
        if len(process.counts) == 1:
            self._add(next(iter(process.counts)), task, is_active=is_active)
            return
        if process.queue is None:
            process.queue = PriorityQueue((), lambda entry: entry[1])
            for name in hash_order(process.counts):
                process.queue.offer([name, process.counts[name]])
        entry = process.queue.poll()
        name = str(entry[0])
        self._add(name, task, is_active=is_active)
        entry[1] = process.counts[name]
        process.queue.offer(entry)

    def _least_loaded(self, names: Sequence[str], task: TopicPartition | None) -> str | None:
        """Return a member that had a standby task; None if its process has the task already."""
        if not names:
            return None
        first = chosen = names[0]
        load, count = self._process(first).load, self._count(first)
        for name in names[1:]:
            process = self._process(name)
            is_free = task is None or task not in process.tasks
            if process.load < load and is_free and self._count(name) < count:
                chosen, load, count = name, process.load, self._count(name)
        # Kafka looks at the first one's process, whichever was chosen.
        return chosen if task is None or task not in self._process(first).tasks else None

    def assign_active(self, tasks: list[TopicPartition]) -> None:
        tasks = sorted(tasks, key=lambda task: (task[1], utf16(task[0])))
        owners: tuple[Callable[[TopicPartition], str | None], ...] = (
            self._had_active.get,
            lambda task: self._least_loaded(self._had_standby.get(task, ()), None),
        )
        for owner in owners:
            left = []
            for task in tasks:
                name = owner(task)
                if name is not None and self._count(name) < self._active_share:
                    self._add_to(name, task, is_active=True)
                else:
                    left.append(task)
            tasks = left
        queue = self._by_load()
        for task in sorted(tasks, key=lambda task: (utf16(task[0]), task[1])):
            process = queue.poll()
            self._add_to_least_loaded(process, task, is_active=True)
            queue.offer(process)

    def assign_standby(self, tasks: list[TopicPartition]) -> None:
        left: list[tuple[TopicPartition, int]] = []
        for task in sorted(tasks, key=lambda task: (task[1], utf16(task[0])), reverse=True):
            for done in range(self._replicas):
                if not self._keep_standby(task):
                    left.append((task, self._replicas - done))
                    break
        left.sort(key=lambda each: (utf16(each[0][0]), each[0][1]), reverse=True)
        queue = self._by_load()
        for task, replicas in left:
            for _ in range(replicas):
                if not self._add_standby(queue, task):
                    break

    def _keep_standby(self, task: TopicPartition) -> bool:
        had = self._had_active.get(task)
        if had is None or task in self._process(had).tasks or self._count(had) >= self._share:
            had = self._least_loaded(self._had_standby.get(task, ()), task)
            if had is None or self._count(had) >= self._share:
                return False
        self._add_to(had, task, is_active=False)
        return True

    def _add_standby(self, queue: PriorityQueue[_Process], task: TopicPartition) -> bool:
        polled = []
        while len(queue):
            polled.append(queue.poll())
            if task not in polled[-1].tasks:
                self._add_to_least_loaded(polled[-1], task, is_active=False)
                break
        else:
            polled.reverse()
            for process in polled:
                queue.offer(process)
            return False
        for process in reversed(polled):
            queue.offer(process)
        return True

    def _by_load(self) -> PriorityQueue[_Process]:
        queue = PriorityQueue[_Process]((), lambda process: process.load)
        for process in self._processes.values():
            queue.offer(process)
        return queue


def _per_member(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0


def assign(
    members: Mapping[str, StreamsMember], topology: StreamsTopology
) -> tuple[dict[str, list[TopicPartition]], dict[str, list[TopicPartition]]]:
    """Assign tasks.

    Args:
        members: members by id, in the order of the coordinator.
        topology: their topology.

    Returns:
        Active and standby tasks by member, both sorted.
    """
    assigning = _Assigning(members, topology)
    tasks = [(name, number) for name, count in topology.tasks.items() for number in range(count)]
    assigning.assign_active(tasks)
    if topology.standby_replicas > 0:
        assigning.assign_standby([task for task in tasks if task[0] in topology.stateful])
    return tuple(  # type: ignore[return-value]
        {name: sorted(own) for name, own in of.items()}
        for of in (assigning.active, assigning.standby)
    )
