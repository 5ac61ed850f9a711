"""A log of known batches, and its index."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.columnar.log_writer import batch
from tests.operation.log_files import commit

BASE = 5000
BATCHES = [
    batch([commit(BASE + 3 * n + i, f"group-{n % 7}", metadata="m" * (n % 50)) for i in range(3)])
    for n in range(400)
]
"""About 100 KB of a log, three records a batch."""

STARTS = [sum(map(len, BATCHES[:n])) for n in range(len(BATCHES))]


def index_of(batches: Sequence[bytes], interval: int = 1000) -> bytes:
    """As Kafka writes it: an entry before an append when so many bytes came since the last one."""
    entries = []
    position = since = 0
    for data in batches:
        if since > interval:
            first, last_delta = struct.unpack_from(">q15xi", data)
            entries.append(struct.pack(">ii", first + last_delta - BASE, position))
            since = 0
        position += len(data)
        since += len(data)
    return b"".join(entries)
