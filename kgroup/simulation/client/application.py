"""An application with a consumer: it polls, processes and commits; it may be paused, crash or stop.

It keeps up with its partitions: each poll() returns all available records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import compress, repeat
from operator import itemgetter
from typing import Any

from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import (
    ELSEWHERE,
    POLL_MS,
    RETRIABLE,
    Application,
    ConsumerConfig,
    Host,
    Joined,
)
from kgroup.simulation.client.consumer_membership import ConsumerClient
from kgroup.simulation.client.membership import ClassicClient
from kgroup.simulation.clock import Process
from kgroup.simulation.cluster import SimulatedCluster
from kgroup.simulation.consumer.message import AnyRequest as Request
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.message import FetchAnswer, OffsetFetch
from kgroup.simulation.partition_logs import Positions

_CLOSE_MS = 30_000
"""Timeout of close(), in ms (`CloseOptions`)."""
_NEVER_MS = sys.maxsize
"""Start time of partitions that are not being read any more."""


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """Settings of an application.

    Attributes:
        processing_ms: time from one poll() to the next, after a poll() that returned records.
        auto_offset_reset: "latest" or "earliest": where to start without a committed offset.
        store: external store of offsets, to which the application seeks; None for Kafka only.
        takes_later: seek to the committed offset in Kafka where it is later than the store's.
    """

    processing_ms: int = 500
    auto_offset_reset: str = "latest"
    store: dict[TopicPartition, int] | None = None
    takes_later: bool = False


class Consumer(Process):
    """A running application with a consumer.

    Args:
        name: name in the timeline.
        config: configuration of the consumer.
        settings: settings of the application.
        cluster: the simulated cluster.
        poison: slow records: offset and extra processing time in ms, by partition.
        joined: membership at the start; None if it has not joined.
    """

    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        settings: ApplicationSettings,
        cluster: SimulatedCluster,
        poison: Mapping[TopicPartition, tuple[int, int]],
        joined: Joined | None = None,
    ) -> None:
        super().__init__(cluster.clock)
        self.name = name
        self._config = config
        self._settings = settings
        self._cluster = cluster
        self._logs = cluster.logs
        self._owners = cluster.timeline.owners
        self._poison = poison
        self._is_stopping = False
        self._busy_until_ms = 0
        self._is_late = False
        """Whether processing takes longer than usual."""
        self._is_still = False
        """Whether its partitions are recorded as not being read."""
        self._commits = 0
        """Number of the operator's commits that are not answered."""
        self._begins: dict[int, tuple[int, int]] = {}
        """Start offset and start time of each row of the logs that is being read; replaced on
        changes.
        """
        self._began_ms = self._read_ms = 0
        self._commit_due_ms = 0
        self.client = _CLIENTS[config.group_protocol](config, self, self)
        if joined is not None:
            self.client.resume(joined, cluster.coordinator)
            self.assigned(joined.owned)
        self.client.poll()

    # --- operator actions -------------------------------------------------------------------------

    def crash(self) -> None:
        """End the application without closing the consumer."""
        self._stop_reading(self.client.owned)
        self.end()

    def stop(self) -> None:
        """Shut down: commit, revoke, leave."""
        if not self._is_stopping:
            self._is_stopping = True
            self.client.wakeup()
            self._commit_and_close(0, self.clock.now_ms + _CLOSE_MS)

    def _commit_and_close(self, attempts: int, until_ms: int) -> None:
        """Commit, with retries until the timeout, then close."""
        rest_ms = until_ms - self.clock.now_ms
        offsets = self.positions() if self._config.enable_auto_commit else {}

        def committed(code: ErrorCode) -> None:
            if code in RETRIABLE:
                delay_ms = min(self._config.backoff_ms(attempts), rest_ms)
                self.after(delay_ms, lambda: self._commit_and_close(attempts + 1, until_ms))
            else:
                self._close()

        if offsets and rest_ms > 0:
            self.client.commit(offsets, committed)
        else:
            self._close()

    def _close(self) -> None:
        if self.is_running:
            self.client.close()
            self.end()

    @property
    def is_settled(self) -> bool:
        """Whether the consumer reads all its partitions, is stable, and knows its coordinator."""
        is_reading = len(self._begins) == len(self.client.owned) and not self._is_late
        knows = self.client.coordinator == self._cluster.coordinator
        is_asking = self._is_stopping or self._commits
        return self.client.is_settled and is_reading and knows and not is_asking

    def process(self, duration_ms: int) -> None:
        """Process the records of the last poll() for this time; heartbeats continue."""
        self._busy_until_ms = max(self._busy_until_ms, self.clock.now_ms + duration_ms)
        self._is_late = True
        self.standing_changed()

    def standing_changed(self) -> None:
        """Record whether the partitions that it owns are not being read."""
        was_still, self._is_still = self._is_still, self.is_paused or self._is_late
        if was_still or self._is_still:
            rows = self._logs.rows(self.client.owned)
            self._owners.stand(self.name, rows, is_still=self._is_still)

    def commit(self, generation_id: int | None = None) -> None:
        """Commit the current positions, even if the member has been removed."""
        offsets = self.positions()
        if not offsets:
            self._cluster.note(self.name, "commit", "reads nothing")
            return
        is_sent = False

        def on_done(code: ErrorCode) -> None:
            self._commits -= 1
            if code is ErrorCode.NONE:
                self._cluster.note(self.name, "committed", partitions=tuple(offsets))
            elif not is_sent:
                self._cluster.note(self.name, "commit", "not sent", code.name)

        self._commits += 1
        self.client.commit(offsets, on_done, generation_id)
        is_sent = True

    # --- the client's host ------------------------------------------------------------------------

    @property
    def topics(self) -> TopicImage:
        """All topics of the cluster."""
        return self._cluster.topics

    def new_uuid(self) -> str:
        """Return a new unique id."""
        return self._cluster.new_uuid()

    def send(self, broker: int, request: Request, on_answer: Callable[[Any], None]) -> None:
        """Send a request to a broker."""
        self._cluster.send(
            self.name, broker, request, lambda answer: self.run(lambda: on_answer(answer))
        )

    def find_coordinator(self, group_id: str, on_found: Callable[[int | None], None]) -> None:
        """Look up the group's coordinator."""
        self._cluster.find_coordinator(lambda broker: self.run(lambda: on_found(broker)))

    def metadata(self, on_known: Callable[[TopicImage], None]) -> None:
        """Request metadata of all topics."""
        self._cluster.metadata(lambda topics: self.run(lambda: on_known(topics)))

    # --- the client's application -----------------------------------------------------------------

    def polled(self, *, is_active: bool) -> None:
        """Auto-commit if it is due, take the next records, and process them."""
        now_ms, settings = self.clock.now_ms, self._settings
        if settings.store is not None:
            self._store(self._begins)
        is_active = is_active and self._config.enable_auto_commit
        if is_active and now_ms >= self._commit_due_ms:
            self._commit_due_ms = now_ms + self._config.auto_commit_interval_ms
            if offsets := self.positions():
                self.client.commit(offsets, self._committed)
        if self._is_late and now_ms >= self._busy_until_ms:
            self._is_late = False
            self.standing_changed()
        if self._poison and (slow_ms := self._poison_ms(now_ms)):
            self.process(settings.processing_ms + slow_ms)
        busy_ms = settings.processing_ms
        if all(self._logs.end_offset(row, now_ms) <= self.position(row) for row in self._begins):
            busy_ms = min(busy_ms, POLL_MS)  # poll() returned no records
        self._read_ms = now_ms
        self.after(busy_ms, self._poll_again)

    def _poison_ms(self, now_ms: int) -> int:
        """Return the extra processing time of the next records, in ms."""
        slow_ms = 0
        for partition, (offset, busy_ms) in self._poison.items():
            row = self._logs.row(partition)
            if row in self._begins and (
                self.position(row) <= offset < self._logs.end_offset(row, now_ms)
            ):
                slow_ms += busy_ms
                detail = f"busy for {busy_ms / 1000:,g} s"
                self._cluster.note(self.name, "poison", detail, partitions=(partition,))
        return slow_ms

    def position(self, row: int) -> int:
        """Return the position in a partition that it reads."""
        return self._logs.position(row, *self._begins[row], self._read_ms)

    def _store(self, rows: Iterable[int]) -> None:
        assert self._settings.store is not None
        for row in rows:
            if row in self._begins:
                self._settings.store[self._logs.partitions[row]] = self.position(row)

    def _poll_again(self) -> None:
        if self._is_stopping:
            return
        if (rest_ms := self._busy_until_ms - self.clock.now_ms) > 0:
            self.after(rest_ms, self._poll_again)
        else:
            self.client.poll()

    @property
    def has_listener(self) -> bool:
        """Whether a listener stores offsets when partitions are revoked or lost."""
        return self._settings.store is not None

    def pausing(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop fetching from partitions."""
        paused = {
            row: (self.position(row), _NEVER_MS)
            for row in self._logs.rows(partitions)
            if row in self._begins
        }
        if paused:
            self._begins = {**self._begins, **paused}
            self._began_ms = _NEVER_MS

    def revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop reading partitions, and store the positions."""
        self._cluster.note(self.name, "revoked", partitions=partitions)
        if self._settings.store is not None:
            self._store(self._logs.rows(partitions))
        if self._settings.takes_later:  # it commits processed records before each poll()
            here = {
                partition: at
                for partition, at in self.positions().items()
                if partition in partitions
            }
            self.client.commit(here, self._committed)
        self._stop_reading(partitions)

    def commit_failed(self, code: ErrorCode) -> None:
        """Record an auto-commit that was not sent because the consumer left its group."""
        self._cluster.note(self.name, "auto-commit", "not sent", code.name)

    def lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop reading partitions that other members may already read."""
        self._cluster.note(self.name, "lost", partitions=partitions)
        self._stop_reading(partitions)

    def _stop_reading(self, partitions: tuple[TopicPartition, ...]) -> None:
        rows = self._logs.rows(partitions)
        reading = [*filter(self._begins.__contains__, rows)]
        offsets = self.positions().offsets(reading)
        self._logs.end_all(reading, self.position, offsets)
        if len(reading) == len(self._begins):
            self._begins, self._began_ms = {}, 0
        else:
            self._begins = {**self._begins}
            for row in reading:
                del self._begins[row]
            self._began_ms = max(map(itemgetter(1), self._begins.values()))
        self._owners.end(self.name, rows)

    def assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Start to read partitions, at the stored or committed offset."""
        self._commit_due_ms = self.clock.now_ms + self._config.auto_commit_interval_ms
        if not partitions:
            return
        self._cluster.note(self.name, "assigned", partitions=partitions)
        self._owners.begin(self.name, self._logs.rows(partitions))
        self.standing_changed()
        store = self._settings.store or {}
        if self._settings.takes_later or not store:
            self._fetch(partitions)
            return
        stored = tuple(filter(store.__contains__, partitions))
        self._seek(stored, [*map(store.__getitem__, stored)])
        if others := tuple(partition for partition in partitions if partition not in store):
            self._fetch(others)

    def _fetch(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Fetch committed offsets, with retries until an answer arrives."""

        def on_answer(answer: FetchAnswer | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error
            if code in ELSEWHERE:
                client.coordinator = None
            if answer is None or code is not ErrorCode.NONE:
                self.after(self._config.retry_backoff_ms, lambda: self._fetch(partitions))
            else:
                offsets = answer.committed(partitions)
                if store := self._settings.store:
                    offsets = [
                        offset if stored is None else max(stored, offset or 0)
                        for offset, stored in zip(offsets, map(store.get, partitions), strict=True)
                    ]
                self._seek(partitions, offsets)

        client = self.client
        if client.coordinator is None:
            client.find_coordinator()
            self.after(self._config.retry_backoff_ms, lambda: self._fetch(partitions))
        else:
            request = OffsetFetch(self._config.group_id, partitions)
            self.send(client.coordinator, request, on_answer)

    def _seek(self, partitions: tuple[TopicPartition, ...], offsets: Iterable[int | None]) -> None:
        """Start to read those of the partitions that it owns, at the given offsets."""
        now_ms = self.clock.now_ms
        if not all(owned := self.client.owns_each(partitions)):
            partitions, offsets = tuple(compress(partitions, owned)), compress(offsets, owned)
        rows, reset = self._logs.rows(partitions), self._settings.auto_offset_reset
        begins = self._logs.begin_all(rows, offsets, reset, self.position)
        starts = zip(begins.values(), repeat(now_ms))
        self._begins = self._begins | dict(zip(begins, starts, strict=True))
        self._began_ms = max(self._began_ms, now_ms)

    def positions(self) -> Positions:
        """Return the positions to commit."""
        return Positions(self._begins, self._read_ms, self._logs, self._began_ms)

    def failed(self, reason: str) -> None:
        """End the application after an exception of the consumer."""
        self._cluster.note(self.name, "failed", reason)
        self.crash()

    def retried(self, reason: str) -> None:
        """Record an error after which the client joins again by itself."""
        self._cluster.note(self.name, "retries", reason)

    def _committed(self, code: ErrorCode) -> None:
        """Retry soon after a retriable error (`autoCommitOffsetsAsync`)."""
        if code in RETRIABLE:
            self._commit_due_ms = self.clock.now_ms + self._config.retry_backoff_ms


_CLIENTS: Mapping[
    str, Callable[[ConsumerConfig, Host, Application], ConsumerClient | ClassicClient]
]
_CLIENTS = {"classic": ClassicClient, "consumer": ConsumerClient}
"""Client classes by `group.protocol`."""
