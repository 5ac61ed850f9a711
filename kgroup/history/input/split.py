"""A split: a part of one partition of `__consumer_offsets` that one task reads on its own.

Only local files can be decoded. The reader of a split first copies other data into a temporary
file, and only the part that belongs to the split.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from kgroup.columnar.segment import decode_chunks
from kgroup.columnar.segment_check import is_allocated_ahead
from kgroup.history.remote import RemoteFiles
from kgroup.protocol.batch.batch import Damage
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange
from kgroup.source.config.client_config import ClientConfig

if TYPE_CHECKING:
    from kgroup.source.broker.live_log import LiveLog


@dataclass(frozen=True, slots=True)
class FileRange:
    """A byte range of a segment; a batch begins at `start`, and at `end` if the file goes on.

    Attributes:
        path: absolute path of the file in its file system.
        start: position of the first byte.
        end: position after the last byte.
        uri: location of the file for pyarrow's file systems; None for a local file. It may
            contain a password.
    """

    path: str
    start: int
    end: int
    uri: str | None = None

    @contextmanager
    def local(self, offsets_partition: int) -> Iterator[tuple[Path, ByteRange]]:
        """Yield the range as a part of a local file that exists while the context lasts.

        Raises:
            InputError: the file system does not exist.
            OSError: the file cannot be read or copied.
        """
        part = ByteRange(self.start, self.end)
        if self.uri is None:
            yield Path(self.path), part
            return
        with RemoteFiles(self.uri).copied(Path(self.path), self.start, self.end) as copy:
            yield copy, part

    def wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that belong to the range: all of them."""
        return batch


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of a live partition, fetched from its leader.

    Attributes:
        start: first offset.
        end: offset after the last record.
        config: connection configuration; the files that it names must exist on the machine that
            reads.
        timeout_s: seconds without an answer from any broker after which the read fails.
    """

    start: int
    end: int
    config: ClientConfig
    timeout_s: float = 30.0

    @contextmanager
    def local(self, offsets_partition: int) -> Iterator[tuple[Path, ByteRange]]:
        """Fetch the records into a local file that exists while the context lasts.

        Raises:
            OSError: the file cannot be written.
            BrokerError: the cluster cannot be asked; raised at the end of the context if only a
                part was fetched.
            InputError: a file of the configuration cannot be read.
        """
        with opened(self.config, self.timeout_s) as topic:
            copied = topic.client.run(topic.copy, offsets_partition, self.start, self.end)
            (segment,) = copied.log.segments
            yield segment.path, WHOLE
            if copied.problem is not None:
                raise copied.problem

    def wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that belong to the range; fetched batches may have others."""
        return _between(batch, self.start, self.end)


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """Records of a live partition that were already copied into a local file.

    Attributes:
        path: the copy.
        start: first offset.
        end: offset after the last record.
    """

    path: str
    start: int
    end: int

    @contextmanager
    def local(self, offsets_partition: int) -> Iterator[tuple[Path, ByteRange]]:
        """Yield the copy."""
        yield Path(self.path), WHOLE

    def wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that belong to the range; copied batches may have others."""
        return _between(batch, self.start, self.end)


def _between(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    import pyarrow.compute as pc

    offsets = batch["offset"]
    return batch.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)))


@contextmanager
def opened(config: ClientConfig, timeout_s: float) -> Iterator[LiveLog]:
    """Yield the live topic, with a folder for copies, while the context lasts.

    Raises:
        BrokerError: no broker answers, or the topic may not be described.
        InputError: a file of the configuration cannot be read.
    """
    from kgroup.source.broker.source import LiveCluster

    options = config.kafka_options()
    servers = options.pop("bootstrap_servers")
    with (
        LiveCluster(servers, timeout_s=timeout_s, of_silence=True, **options) as cluster,
        TemporaryDirectory(prefix="kgroup-") as folder,
    ):
        yield cluster.offsets_log(Path(folder))


@dataclass(frozen=True, slots=True)
class Split:
    """The part of a partition that one task reads.

    Attributes:
        cluster: name of the cluster in the warehouse.
        offsets_partition: partition of `__consumer_offsets`.
        location: where the records are.
        name: name of the file or live partition for messages.
        base_offset: base offset of the segment, or first offset of the range; None if the file
            name has none.
    """

    cluster: str
    offsets_partition: int
    location: FileRange | OffsetRange | CopiedRange
    name: str
    base_offset: int | None

    @property
    def size(self) -> int | None:
        """Number of bytes to read; None if unknown."""
        place = self.location
        return place.end - place.start if isinstance(place, FileRange) else None


def read_split(split: Split, *, compiled: bool | None = None) -> Iterator[pa.RecordBatch | Damage]:
    """Yield the records as batches of `columnar.schema.DECODED`, in log order, and the damage.

    All work is done in the caller's thread. Records of a transaction count as open if its marker is
    not in the split. Positions of damage are positions in the segment; for a live partition they
    are meaningless.

    Args:
        split: split to read.
        compiled: whether to use compiled code; by default if there is much to read.

    Raises:
        OSError: the file cannot be read, or a copy cannot be written.
        BrokerError: the partition's leader cannot be asked, or only a part was fetched.
        InputError: a file of the client configuration cannot be read.
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
