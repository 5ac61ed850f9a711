"""Scan the batches of a log without their records: kinds, sizes, and transaction markers.

A small log is read by the reference reader and a large one by compiled code (`kernel.log`), with
the same result: only valid batches are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.columnar.input_size import is_large
from kgroup.columnar.scan import BatchKind, Marker, Scan
from kgroup.protocol.batch.batch import CODECS, Damage, RecordBatch
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange
from kgroup.protocol.batch.record_batch import read_file_batches
from kgroup.protocol.batch.transaction import TransactionIndex

if TYPE_CHECKING:
    from kgroup.columnar.log_chunk import Chunk


def scan_batches(
    path: Path,
    *,
    part: ByteRange = WHOLE,
    compiled: bool | None = None,
    workers: int | None = None,
    on_compile: Callable[[], None] | None = None,
) -> Iterator[Scan]:
    """Yield a scan of each piece of a segment; damage is skipped.

    Args:
        path: the segment.
        part: range to scan.
        compiled: whether to use compiled code; by default if the part is large.
        workers: see `columnar.segment.decode_chunks`.
        on_compile: called before code is compiled.

    Raises:
        OSError: the file cannot be read.
    """
    if compiled is None:
        compiled = is_large([path], part)
    if compiled:
        from kgroup.columnar.chunk_reader import read_chunks

        chunks = read_chunks(
            path, _scan_chunk, _scanned, part=part, workers=workers, on_compile=on_compile
        )
        yield from (scan for scan in chunks if isinstance(scan, Scan))
        return
    with path.open("rb", buffering=0) as file:
        file.seek(part.start)
        for scan in _scanned(read_file_batches(file, part=part)):
            if isinstance(scan, Scan):
                yield scan


def _scanned(items: Iterable[RecordBatch | Damage]) -> Iterator[Scan | Damage]:
    """Scan batches with the reference reader; damage is yielded when it is found."""
    scan = Scan()
    for item in items:
        if isinstance(item, Damage):
            yield item
        else:
            scan.add(item)
    if scan.batches:
        yield scan


def _scan_chunk(chunk: Chunk) -> tuple[list[Scan], int | None]:
    """Scan a chunk with compiled code; return also the position of an invalid batch, if any."""
    import numpy as np

    from kgroup.columnar.log_chunk import ChunkWalk
    from kgroup.kernel import entry, memory

    counts = np.zeros((memory.KINDS, 2), np.int64)
    walk = ChunkWalk(chunk, entry.scan)
    walk.state.count_in(counts)
    scan = Scan()
    for _ in walk.steps():
        if not walk.read_bad_batch(scan.add):
            break
    for number, (batches, size) in enumerate(counts.tolist()):
        if batches:
            codec = number % 8
            kind = BatchKind(CODECS[codec] if codec < len(CODECS) else "unknown", number // 8)
            scan.batches[kind] += batches
            scan.bytes[kind] += size
    return [scan], walk.stop


def scan_transactions(
    paths: Sequence[Path],
    index: TransactionIndex | None = None,
    *,
    counts: Callable[[Marker], bool] = lambda marker: True,
    part: ByteRange = WHOLE,
    compiled: bool | None = None,
    workers: int | None = None,
    on_compile: Callable[[], None] | None = None,
) -> TransactionIndex:
    """Return the markers of one partition from its segments.

    Args:
        paths: the segments.
        index: index to add the markers to; by default a new one.
        counts: whether to add a marker; by default all are added.
        part: range of each segment to scan.
        compiled: see `scan_batches`.
        workers: likewise.
        on_compile: likewise.

    Raises:
        OSError: a file cannot be read.
    """
    index = TransactionIndex() if index is None else index
    for path in paths:
        for scan in scan_batches(
            path, part=part, compiled=compiled, workers=workers, on_compile=on_compile
        ):
            for marker in scan.markers:
                if counts(marker):
                    index.add_marker(marker.producer_id, marker.offset, marker.is_commit)
    return index
