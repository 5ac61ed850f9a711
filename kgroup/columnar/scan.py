"""Results of a scan of a part of a log: kinds of batches, and transaction markers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.transaction import markers_in


class BatchKind(NamedTuple):
    """Kind of batch: a name of `batch.CODECS` or "unknown", and the message format."""

    compression: str
    magic: int


class Marker(NamedTuple):
    """The end of a transaction.

    Attributes:
        producer_id: producer of the transaction.
        offset: offset of the marker.
        is_commit: whether the transaction was committed; else it was aborted.
        last_offset: last offset of the marker's batch.
        time_ms: time of the marker's batch; None if it has none.
    """

    producer_id: int
    offset: int
    is_commit: bool
    last_offset: int
    time_ms: int | None


@dataclass(slots=True)
class Scan:
    """Results of a scan of a part of a log.

    Attributes:
        batches: number of batches of each kind.
        bytes: number of bytes of each kind.
        markers: ends of transactions, in order.
    """

    batches: Counter[BatchKind] = field(default_factory=Counter)
    bytes: Counter[BatchKind] = field(default_factory=Counter)
    markers: list[Marker] = field(default_factory=list)

    def add(self, batch: RecordBatch) -> None:
        """Count a batch, and add the markers in it."""
        if batch.producer_id is not None:
            for offset, is_commit in markers_in(batch):
                self.markers.append(
                    Marker(
                        batch.producer_id,
                        offset,
                        is_commit,
                        batch.last_offset,
                        batch.max_timestamp_ms,
                    )
                )
        kind = BatchKind(batch.compression, batch.magic)
        self.batches[kind] += 1
        self.bytes[kind] += batch.size
