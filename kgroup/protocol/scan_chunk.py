"""What the batches of one chunk say, with compiled code."""

from __future__ import annotations

import numpy as np

from kgroup.protocol.batch import CODECS, MAX_BATCH_SIZE
from kgroup.protocol.batch_scan import BatchKind, Scan
from kgroup.protocol.batch_v2 import decode_batch
from kgroup.protocol.compiled import kernels
from kgroup.protocol.log_chunk import Chunk

__all__ = ["scan_chunk"]

_KINDS = 8 * 3
_CONTROLS = 1 << 12


def scan_chunk(chunk: Chunk) -> tuple[Scan, int | None]:
    """Scan a chunk; give what was found, and where a batch is not in order, None if all are."""
    start = chunk.data.ctypes.data
    at, end = start, start + chunk.size
    counts = np.zeros((_KINDS, 2), np.int64)
    controls = np.zeros(1 + _CONTROLS, np.int64)
    markers = Scan()
    while at < end:
        controls[0] = 0
        at = kernels().scan(
            at, end, MAX_BATCH_SIZE, counts.ctypes.data, controls.ctypes.data, _CONTROLS
        )
        found = int(controls[0])
        for position in (controls[1 : 1 + found] - start).tolist():
            size = 12 + int.from_bytes(chunk.data[position + 8 : position + 12].tobytes(), "big")
            data = chunk.data.data[position : position + size]
            markers.add(decode_batch(data, chunk.position + position, chunk.inflation))
        if found < _CONTROLS:
            break
    scan = Scan(markers=markers.markers)
    for number, (batches, size) in enumerate(counts.tolist()):
        if batches:
            codec = number % 8
            kind = BatchKind(CODECS[codec] if codec < len(CODECS) else "unknown", number // 8)
            scan.batches[kind] += batches
            scan.bytes[kind] += size
    return scan, None if at == end else chunk.position + at - start
