"""Scan the batches of one chunk with compiled code."""

from __future__ import annotations

import numpy as np

from kgroup.columnar.log_chunk import Chunk, ChunkWalk
from kgroup.columnar.scan import BatchKind, Scan
from kgroup.kernel import entry, memory
from kgroup.protocol.batch.batch import CODECS


def scan_chunk(chunk: Chunk) -> tuple[list[Scan], int | None]:
    """Scan a chunk; return the scan, and the position of an invalid batch, if any."""
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
