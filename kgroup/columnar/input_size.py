"""Whether compiled code is to be used: for what is so large that it is faster, loading included.

Where it cannot be had (the extra `fast` is missing, or broken), the reference decoder reads what is
large, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kgroup.kernel.compiled import are_kept, is_installed, is_loaded, why_unusable
from kgroup.protocol.batch.batch import LOG_OVERHEAD
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange

LARGE = 8 << 20
"""Bytes of files, where the code has to be compiled first."""
_LARGE_IF_KEPT = 1 << 20
"""Bytes of files, where it has to be loaded only: decoding so many without it takes as long."""
_LARGE_IF_LOADED = 1 << 15
"""Bytes of files, where it is loaded already."""
_MANY = 1 << 16
"""Records that the headers in a smaller file claim: compressed ones may be a million."""
_SMALLEST_BATCH = 26
_missed: list[str] = []
"""Not empty once compiled code was wanted, and could not be had: why."""


def can_compile() -> bool:
    """Return whether compiled code can be had for something large; where not, keep in mind why."""
    why = why_unusable() if is_installed() else "pip install 'kgroup[fast]'"
    if why is not None:
        _missed.append(why)
    return why is None


def why_missed() -> str | None:
    """Say why something large was read without compiled code; None where nothing was."""
    return _missed[-1] if _missed else None


def is_large(paths: Iterable[Path], part: ByteRange = WHOLE) -> bool:
    """Whether files of batches, or a part of each, are large together, and code can be had.

    Raises:
        OSError: a file cannot be read.
    """
    paths = list(paths)
    sizes = [_data_size(path, part) for path in paths]
    if (answer := _of_size(sum(sizes))) is not None:
        return answer
    starts = zip(paths, sizes, strict=True)
    return any(_has_many(path, part.start, size) for path, size in starts) and can_compile()


def pays(size: int) -> bool:
    """Whether compiled code is faster for so many bytes of files, and can be had."""
    return _of_size(size) or False


def _of_size(size: int) -> bool | None:
    """Say whether code can be had for so many bytes; None where they are few."""
    if size >= LARGE or (size >= _LARGE_IF_LOADED and is_loaded()):
        return can_compile()
    if size >= _LARGE_IF_KEPT and is_installed() and are_kept():
        return True
    return None


def _data_size(path: Path, part: ByteRange) -> int:
    """Return the bytes of a part that are not in holes, of a file that is hardly more than a hole.

    Brokers allocate such files (`log.preallocate`). A file system that compresses has few blocks
    of others, too.
    """
    stat = path.stat()
    size, allocated = part.size_in(stat.st_size), 512 * getattr(stat, "st_blocks", 1 << 62)
    return allocated if allocated < size // 32 else size


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
