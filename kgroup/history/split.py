"""A split: a stretch of one partition of `__consumer_offsets` that one task reads by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kgroup.protocol.batch import Damage
from kgroup.protocol.byte_range import ByteRange
from kgroup.protocol.columnar import decode_chunks

__all__ = ["FileRange", "OffsetRange", "Split", "read_split"]


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a segment; a batch begins at `start`, and at `end` if the file has more.

    Attributes:
        path: of the file, absolute; a remote one's in its file system.
        start: byte position of the first.
        end: byte position behind the last.
        uri: of a place in the file system of pyarrow that the file is in; None: a local file.
            It may hold a password.
    """

    path: str
    start: int
    end: int
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of a live partition, fetched from its leader.

    Attributes:
        start: first offset.
        end: offset behind the last.
        settings: of the client: Kafka's own keys and their values; they may hold a password.
    """

    start: int
    end: int
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads.

    Attributes:
        cluster: name of the cluster.
        offsets_partition: the partition.
        place: where its records are.
        name: what to call the file, or the live partition, in messages.
        replica: what tells copies of one partition apart: the folder, or the live cluster.
        base_offset: offset that the segment is named after, or the first of the range; None where
            the file's name tells none.
    """

    cluster: str
    offsets_partition: int
    place: FileRange | OffsetRange
    name: str
    replica: str
    base_offset: int | None

    @property
    def size(self) -> int | None:
        """Bytes to read; None where it is not known."""
        return self.place.end - self.place.start if isinstance(self.place, FileRange) else None


def read_split(
    split: Split, *, announce: Callable[[], None] | None = None
) -> Iterator[pa.RecordBatch | Damage]:
    """Yield the records as batches of `column_schema.DECODED` in the log's order, and the damage.

    All work is done in the caller's thread. A record of a transaction whose marker is not in the
    split is open. Positions of damage are those in the segment.

    Args:
        split: to read.
        announce: called before code is compiled, see `columnar.decode_chunks`.

    Raises:
        OSError: the file cannot be read.
        BrokerError: the partition's leader cannot be asked.
    """
    place = split.place
    if isinstance(place, OffsetRange) or place.uri is not None:
        raise NotImplementedError
    yield from decode_chunks(
        Path(place.path),
        part=ByteRange(place.start, place.end),
        partition=split.offsets_partition,
        workers=1,
        announce=announce,
    )
