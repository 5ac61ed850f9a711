"""The record that a consumer reads next in each partition, by Fetch from the committed offset.

A few kilobytes per partition are requested, of many partitions in one request. A broker sends
complete batches, starting with the one that contains the offset. It sends nothing of a partition
whose first batch is larger than the limit, except (since Kafka 0.10.1) for the first partition with
data. Partitions without data are therefore requested again with a larger limit, in the end each one
alone.

Not every offset has a record that a consumer sees: compaction leaves gaps, transactions leave
markers, and read-committed consumers do not get records of aborted transactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from kgroup.model.cluster import TopicPartition
from kgroup.model.log_range import NextReading, NextRecord, Position
from kgroup.model.problem import Problem
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.coordinator_record import decode_control
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.fetch import fetch
from kgroup.source.broker.leader import LeaderAnswers, ask_leaders

PARTITIONS_PER_REQUEST = 500
"""Few enough that the first response has at most 10 MB."""
SIZES = (20 << 10, 320 << 10)
"""Bytes per partition, in requests for many partitions; a batch has at most 16 KiB by default."""
LARGEST = 64 << 20
_SHUT = "its records, and so their times, may not be read (READ on the topic)."


async def read_next_records(
    client: BrokerClient, positions: Collection[Position], *, committed: bool
) -> NextReading:
    """Return the first record at or after these positions; see `GroupSource.next_records`.

    Raises:
        BrokerError: no broker answers.
    """
    records: dict[Position, NextRecord] = {}
    problems: dict[Problem, None] = {}
    layers = _layers(positions)
    for layer, answers in zip(
        layers,
        await client.gather_all(_read_layer(client, layer, committed) for layer in layers),
        strict=True,
    ):
        records.update(((*at, layer[at]), record) for at, record in answers.found.items())
        failures = answers.failures(
            "The next record of {} cannot be read: {}.", "the times of records"
        )
        problems |= dict.fromkeys((*answers.mark_problems(_SHUT), *failures))
    return NextReading(records, tuple(problems))


def _layers(positions: Collection[Position]) -> list[dict[TopicPartition, int]]:
    """Divide positions so that each part contains a partition once, as a request must."""
    layers: list[dict[TopicPartition, int]] = []
    seen: Counter[TopicPartition] = Counter()
    for topic, partition, offset in sorted(set(positions)):
        at = (topic, partition)
        if seen[at] == len(layers):
            layers.append({})
        layers[seen[at]][at] = offset
        seen[at] += 1
    return layers


async def _read_layer(
    client: BrokerClient, offsets: Mapping[TopicPartition, int], committed: bool
) -> LeaderAnswers[NextRecord]:
    async def ask(
        leader: int, ats: list[TopicPartition]
    ) -> Mapping[TopicPartition, NextRecord | int]:
        search = _Search(client, leader, {at: offsets[at] for at in ats}, committed)
        return await search.run()

    return await ask_leaders(client, offsets, ask, partitions_per_request=PARTITIONS_PER_REQUEST)


class _Search:
    """Finds the next records of partitions that one broker leads."""

    def __init__(
        self, client: BrokerClient, leader: int, offsets: dict[TopicPartition, int], committed: bool
    ) -> None:
        self._client = client
        self._leader = leader
        self._offsets = offsets
        self._committed = committed
        self._results: dict[TopicPartition, NextRecord | int] = {}

    async def run(self) -> Mapping[TopicPartition, NextRecord | int]:
        waiting = list(self._offsets)
        for size in SIZES:
            while waiting:
                empty, further = await self._round(waiting, size)
                # Retry empty partitions with a larger limit once no other has offsets left to scan.
                if not further:
                    waiting = empty
                    break
                waiting = further + empty
        for at in waiting:
            size = SIZES[-1]
            while at not in self._results:
                empty, further = await self._round([at], size)
                size = SIZES[-1] if further else 8 * size
                if empty and size > LARGEST:
                    self._results[at] = ErrorCode.CORRUPT_MESSAGE
        return self._results

    async def _round(
        self, ats: list[TopicPartition], size: int
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Fetch once; return the partitions without a batch, and those without a record."""
        empty, further = [], []
        offsets = {at: self._offsets[at] for at in ats}
        answers = await fetch(self._client, self._leader, offsets, size, committed=self._committed)
        for at, answer in answers.items():
            if answer.code:
                self._results[at] = answer.code
                continue
            start = self._offsets[at]
            record, reached = _first_record(answer.data, start, answer.aborted)
            end = answer.end or 0
            if record is not None:
                self._results[at] = NextRecord(record.offset, record.timestamp_ms)
            elif reached >= end:
                self._results[at] = NextRecord()
            elif reached > start:
                self._offsets[at] = reached
                further.append(at)
            else:
                empty.append(at)
        return empty, further


def _first_record(
    data: bytes, start: int, aborted: Iterable[tuple[int, int]]
) -> tuple[Record | None, int]:
    """Return the first record at or after an offset that a consumer sees.

    Returns:
        The record or None, and the offset before which there certainly is none.
    """
    open_ones = sorted(((first, producer) for producer, first in aborted), reverse=True)
    aborting: set[int | None] = set()
    reached = start
    for batch in read_batches(data, final=False):
        if isinstance(batch, Damage):
            return None, reached
        while open_ones and open_ones[-1][0] <= batch.last_offset:
            aborting.add(open_ones.pop()[1])
        if batch.is_control:
            if batch.producer_id in aborting and _is_abort(batch):
                aborting.discard(batch.producer_id)
        elif batch.last_offset >= start and not (
            batch.is_transactional and batch.producer_id in aborting
        ):
            for record in read_records(batch):
                if isinstance(record, Damage):
                    return None, reached
                if record.offset >= start:
                    return record, record.offset
        reached = max(reached, batch.last_offset + 1)
    return None, reached


def _is_abort(batch: RecordBatch) -> bool:
    record = next(read_records(batch), None)
    return isinstance(record, Record) and decode_control(record.key, record.value)[0] == (
        "ControlAbort"
    )
