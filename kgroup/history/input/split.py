"""A split: a part of one partition of `__consumer_offsets` that one task reads by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kgroup.columnar.segment import decode_chunks
from kgroup.columnar.segment_check import is_allocated_ahead
from kgroup.history.input.location import FileRange, OffsetRange
from kgroup.protocol.batch.batch import Damage


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads.

    Attributes:
        cluster: name of the cluster.
        offsets_partition: the partition.
        location: where its records are.
        name: what to call the file, or the live partition, in messages.
        base_offset: offset that the segment is named after, or the first of the range; None where
            the file's name tells none.
    """

    cluster: str
    offsets_partition: int
    location: FileRange | OffsetRange
    name: str
    base_offset: int | None

    @property
    def size(self) -> int | None:
        """Bytes to read; None where it is not known."""
        place = self.location
        return place.end - place.start if isinstance(place, FileRange) else None


def read_split(split: Split, *, compiled: bool | None = None) -> Iterator[pa.RecordBatch | Damage]:
    """Yield the records as batches of `columnar.schema.DECODED` in the log's order, and the damage.

    All work is done in the caller's thread. A record of a transaction whose marker is not in the
    split is open. Positions of damage are those in the segment; of a live partition they say
    nothing.

    Args:
        split: to read.
        compiled: whether to use compiled code; by default where there is much to read.

    Raises:
        OSError: the file cannot be read, or a copy not be written.
        BrokerError: the partition's leader cannot be asked, or gave a part only.
        InputError: a file of the client's configuration cannot be read.
    """
    partition = split.offsets_partition
    with split.location.local(partition) as (path, part):
        for item in decode_chunks(
            path, part=part, partition=partition, workers=1, compiled=compiled
        ):
            if not isinstance(item, Damage):
                yield split.location.wanted(item)
            elif not is_allocated_ahead(item, path):
                yield item
