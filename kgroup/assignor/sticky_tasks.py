"""The sticky task assignor of Kafka Streams on the classic protocol, which knows no lags.

Active tasks stay with clients that had them, as far as no client gets more than its share, else
they go to clients that had a standby of them, else to those with the least load for each thread.
There are no warm-ups and no probing rebalances. It was the default before 2.6, and is chosen by
`internal.task.assignor.class` since then.

Source: `LegacyStickyTaskAssignor` of kafka-streams 2.8.2 to 4.3.1 (`StickyTaskAssignor` before
3.8; that of the public `task.assignor.class` gives standby tasks in a random order).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kgroup.assignor.java.java_hash import hash_order
from kgroup.assignor.kafka_streams import (
    LATEST_OFFSET,
    STREAMS_VERSIONS,
    ApplicationTasks,
    StreamsClient,
    StreamsSettings,
    StreamsTask,
    StreamThread,
    ThreadTasks,
    assign_with,
    client_hash_order,
    task_hash_order,
)


def assign(
    threads: Mapping[str, StreamThread],
    topology: ApplicationTasks,
    settings: StreamsSettings,
    version: str = STREAMS_VERSIONS[0],
) -> tuple[dict[str, ThreadTasks], bool]:
    """Assign tasks to threads; see `kafka_streams.assign`."""

    def to_clients(clients: Sequence[StreamsClient]) -> bool:
        by_id = {client.process_id: client for client in clients}
        seen = dict.fromkeys(threads[name].process_id for name in hash_order(threads))
        in_order = client_hash_order(client_hash_order(by_id[process_id] for process_id in seen))
        assigning = _Assigning(in_order, topology, version)
        assigning.assign_active()
        assigning.assign_standby(settings.standby_replicas)
        return False

    return assign_with(to_clients, threads, topology, version)


def _copy_capacity(size: int) -> int:
    """Return the capacity of a HashSet that copies a collection."""
    return max(int(size / 0.75) + 1, 16)


class _Assigning:
    """One run of the assignor."""

    def __init__(
        self, clients: Sequence[StreamsClient], topology: ApplicationTasks, version: str
    ) -> None:
        self._version = version
        self._clients = clients
        self._tasks = self._hash_order(list(topology.tasks))
        self._stateful = self._hash_order(list(topology.end_offset_sums))
        self._pairs: set[frozenset[StreamsTask]] = set()
        self._most_pairs = len(self._tasks) * (len(self._tasks) - 1) // 2
        task_of = {at: task for task, own in topology.tasks.items() for at in own}
        puts: list[StreamsTask] = []
        self._had_active: dict[StreamsTask, StreamsClient] = {}
        had_standby: dict[StreamsTask, list[StreamsClient]] = {}
        for client in clients:
            active = {task_of[at] for at in client.owners if at in task_of}
            sums = client.offset_sums
            active.update(task for task, offset in sums.items() if offset == LATEST_OFFSET)
            puts += sorted(active)
            self._had_active.update(dict.fromkeys(active, client))
            for task in sums.keys() - active:
                had_standby.setdefault(task, []).append(client)
        self._previous = self._hash_order(puts)
        self._had_standby = {task: client_hash_order(own) for task, own in had_standby.items()}

    def _hash_order(
        self, tasks: Sequence[StreamsTask], capacity: int | None = None
    ) -> list[StreamsTask]:
        return task_hash_order(tasks, self._version, capacity)

    def assign_active(self) -> None:
        share = len(self._tasks) // sum(len(client.threads) for client in self._clients)

        def has_room(client: StreamsClient) -> bool:
            return len(client.active) < len(client.threads) * share

        left = dict.fromkeys(self._hash_order(self._tasks, _copy_capacity(len(self._tasks))))
        for task in self._previous:
            if task in left and has_room(self._had_active[task]):
                self._add(self._had_active[task], task)
                del left[task]
        for task in list(left):
            taker = next(filter(has_room, self._had_standby.get(task, ())), None)
            if taker is not None:
                self._add(taker, task)
                del left[task]
        for task in sorted(left):
            self._add(self._best(task, self._clients), task)

    def assign_standby(self, replicas: int) -> None:
        for task in self._stateful:
            for _ in range(replicas):
                free = client_hash_order(client for client in self._clients if not client.has(task))
                if not free:
                    break
                self._add(self._best(task, free), task, is_active=False)

    def _add(self, client: StreamsClient, task: StreamsTask, *, is_active: bool = True) -> None:
        self._pairs.update(frozenset((task, other)) for other in client.active | client.standby)
        (client.active if is_active else client.standby).add(task)

    def _best(self, task: StreamsTask, among: Sequence[StreamsClient]) -> StreamsClient:
        if len(among) == 1:
            return among[0]
        previous = self._had_active.get(task)
        if previous is None or previous not in among:
            previous = self._standby_holder(task, among)
        if previous is not None and self._is_overloaded(previous):
            previous = self._standby_holder(task, among)
            if previous is not None and self._is_overloaded(previous):
                previous = None
        if previous is None:
            previous = self._least_loaded(task, among)
        assert previous is not None
        return previous

    def _standby_holder(
        self, task: StreamsTask, among: Collection[StreamsClient]
    ) -> StreamsClient | None:
        had = self._had_standby.get(task, [])
        copied = client_hash_order(had, _copy_capacity(len(had)))
        return self._least_loaded(task, [client for client in copied if client in among])

    def _is_overloaded(self, client: StreamsClient) -> bool:
        return client.count >= len(client.threads) and any(
            _has_more_room(other, client) for other in self._clients
        )

    def _least_loaded(
        self, task: StreamsTask, among: Iterable[StreamsClient]
    ) -> StreamsClient | None:
        """Return the client with the least load; one where the task meets others, if any."""
        least: StreamsClient | None = None
        of_new_pairs: StreamsClient | None = None
        for client in among:
            if not client.count:
                return client
            if least is None or _has_more_room(client, least):
                least = client
            if (
                of_new_pairs is None or _has_more_room(client, of_new_pairs)
            ) and self._has_new_pair(task, client):
                of_new_pairs = client
        return of_new_pairs or least

    def _has_new_pair(self, task: StreamsTask, client: StreamsClient) -> bool:
        return len(self._pairs) != self._most_pairs and any(
            frozenset((task, other)) not in self._pairs for other in client.active | client.standby
        )


def _has_more_room(client: StreamsClient, other: StreamsClient) -> bool:
    return (client.load, -len(client.threads)) < (other.load, -len(other.threads))
