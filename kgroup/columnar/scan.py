"""What a part of a log holds, without its records: kinds of batches, and transactions' markers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.transaction import markers_in


class BatchKind(NamedTuple):
    """What batches are told apart by: a name of `batch.CODECS` or "unknown", and the format."""

    compression: str
    magic: int


class Marker(NamedTuple):
    """The end of a transaction.

    Attributes:
        producer_id: of the transaction's producer.
        offset: of the marker.
        is_commit: whether it was committed, else aborted.
        last_offset: of the marker's batch.
        time_ms: of the marker's batch; None where it has none.
    """

    producer_id: int
    offset: int
    is_commit: bool
    last_offset: int
    time_ms: int | None


@dataclass(slots=True)
class Scan:
    """What was found in a part of a log.

    Attributes:
        batches: how many there are of each kind.
        bytes: that they take.
        markers: ends of transactions, in order.
    """

    batches: Counter[BatchKind] = field(default_factory=Counter)
    bytes: Counter[BatchKind] = field(default_factory=Counter)
    markers: list[Marker] = field(default_factory=list)

    def add(self, batch: RecordBatch) -> None:
        """Count a batch, and take the markers in it."""
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
