"""Whether an input is so large that compiled code is faster, its loading included."""

from collections.abc import Iterable
from pathlib import Path

from kgroup.protocol.batch import LOG_OVERHEAD

__all__ = ["is_large"]

_LARGE = 8 << 20
"""Bytes of files."""
_MANY = 1 << 16
"""Records that the headers in a smaller file claim: compressed ones may be a million."""
_SMALLEST_BATCH = 26


def is_large(paths: Iterable[Path]) -> bool:
    """Whether files of batches are large together.

    Raises:
        OSError: a file cannot be read.
    """
    paths = list(paths)
    size = sum(path.stat().st_size for path in paths)
    return size >= _LARGE or any(_has_many(path) for path in paths)


def _has_many(path: Path) -> bool:
    """Whether the sound beginning of a file claims to have many records."""
    with path.open("rb") as file:
        data = file.read(_LARGE)
    position = records = 0
    while position + _SMALLEST_BATCH <= len(data) and records < _MANY:
        size = LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + 12], "big")
        if size < _SMALLEST_BATCH or position + size > len(data):
            break
        if data[position + 16] == 2:
            count = int.from_bytes(data[position + 57 : position + 61], "big", signed=True)
            records += max(count, 0)
        position += size
    return records >= _MANY
