"""Whether an input is so large that compiled code is faster, its loading included."""

from collections.abc import Iterable
from pathlib import Path

from kgroup.kernel.compiled import are_kept, is_loaded
from kgroup.protocol.batch.batch import LOG_OVERHEAD
from kgroup.protocol.batch.byte_range import WHOLE, ByteRange

__all__ = ["LARGE", "is_large"]

LARGE = 8 << 20
"""Bytes of files, where the code has to be compiled first."""
_LARGE_IF_KEPT = 1 << 20
"""Bytes of files, where it has to be loaded only: decoding so many without it takes as long."""
_LARGE_IF_LOADED = 1 << 15
"""Bytes of files, where it is loaded already."""
_MANY = 1 << 16
"""Records that the headers in a smaller file claim: compressed ones may be a million."""
_SMALLEST_BATCH = 26


def is_large(paths: Iterable[Path], part: ByteRange = WHOLE) -> bool:
    """Whether files of batches, or a part of each, are large together.

    Raises:
        OSError: a file cannot be read.
    """
    paths = list(paths)
    sizes = [part.size_in(path.stat().st_size) for path in paths]
    size = sum(sizes)
    if size >= LARGE or (size >= _LARGE_IF_LOADED and is_loaded()):
        return True
    if size >= _LARGE_IF_KEPT and are_kept():
        return True
    return any(_has_many(path, part.start, size) for path, size in zip(paths, sizes, strict=True))


def _has_many(path: Path, start: int, size: int) -> bool:
    """Whether the sound beginning of a part of a file claims to have many records."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(size)
    position = records = 0
    while position + _SMALLEST_BATCH <= len(data) and records < _MANY:
        batch_size = LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + 12], "big")
        if batch_size < _SMALLEST_BATCH or position + batch_size > len(data):
            break
        if data[position + 16] == 2:
            count = int.from_bytes(data[position + 57 : position + 61], "big", signed=True)
            records += max(count, 0)
        position += batch_size
    return records >= _MANY
