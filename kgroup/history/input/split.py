"""A split: a part of one partition of `__consumer_offsets` that one task reads by itself.

Decoding reads local files. What is elsewhere is copied into a temporary one first, by whoever reads
the split, and only as much of it as the split has.
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
from kgroup.history.input.remote import RemoteFiles
from kgroup.protocol.batch.batch import Damage
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange
from kgroup.source.config.client_config import ClientConfig

if TYPE_CHECKING:
    from kgroup.source.broker.live_log import LiveLog


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

    @contextmanager
    def local(self, offsets_partition: int) -> Iterator[tuple[Path, ByteRange]]:
        """Give it as a part of a local file, which is there for as long as the context lasts.

        Raises:
            InputError: there is no such file system.
            OSError: it cannot be read, or not copied.
        """
        part = ByteRange(self.start, self.end)
        if self.uri is None:
            yield Path(self.path), part
            return
        with RemoteFiles(self.uri).copied(Path(self.path), self.start, self.end) as copy:
            yield copy, part

    def wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return those rows that are part of it: all that were read."""
        return batch


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of a live partition, fetched from its leader.

    Attributes:
        start: first offset.
        end: offset behind the last.
        config: how to connect, also for whoever reads it: files that it names must be there, too.
        timeout_s: seconds without an answer from any broker after which it is given up.
    """

    start: int
    end: int
    config: ClientConfig
    timeout_s: float = 30.0

    @contextmanager
    def local(self, offsets_partition: int) -> Iterator[tuple[Path, ByteRange]]:
        """Fetch it into a local file, which is there for as long as the context lasts.

        Raises:
            OSError: the file cannot be written.
            BrokerError: the cluster cannot be asked; at the end of the context, where it gave a
                part only.
            InputError: a file of the configuration cannot be read.
        """
        with opened(self.config, self.timeout_s) as topic:
            copied = topic.client.run(topic.copy, offsets_partition, self.start, self.end)
            (segment,) = copied.log.segments
            yield segment.path, WHOLE
            if copied.problem is not None:
                raise copied.problem

    def wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return those rows that are part of it: a batch that was fetched may have others."""
        import pyarrow.compute as pc

        offsets = batch["offset"]
        return batch.filter(
            pc.and_(pc.greater_equal(offsets, self.start), pc.less(offsets, self.end))
        )


@contextmanager
def opened(config: ClientConfig, timeout_s: float) -> Iterator[LiveLog]:
    """Yield the live topic, and a folder for copies, for as long as the context lasts.

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
