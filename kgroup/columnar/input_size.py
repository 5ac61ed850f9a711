"""Decide whether to use compiled code: for input so large that it is faster, including loading it.

If compiled code is not available (the extra `fast` is missing or broken), the reference decoder
reads large input too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kgroup.errors import install_advice
from kgroup.kernel.compiled import are_kept, is_installed, is_loaded, why_unusable
from kgroup.protocol.batch.batch import LOG_OVERHEAD
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange

LARGE = 8 << 20
"""Minimum bytes of files if the code must be compiled first."""
_LARGE_IF_KEPT = 1 << 20
"""Minimum bytes of files if the code is in the cache: decoding these without it takes as long."""
_LARGE_IF_LOADED = 1 << 15
"""Minimum bytes of files if the code is already loaded."""
_MANY = 1 << 16
"""Minimum records in the headers of a smaller file: compressed, there may be a million."""
_SMALLEST_BATCH = 26
_missed: list[str] = []
"""Reasons why compiled code was wanted and not available."""


def can_compile() -> bool:
    """Return whether compiled code is available for large input; if not, record the reason."""
    why = why_unusable() if is_installed() else install_advice("fast")
    if why is not None:
        _missed.append(why)
    return why is None


def why_missed() -> str | None:
    """Return why large input was read without compiled code; None if none was."""
    return _missed[-1] if _missed else None


def is_large(paths: Iterable[Path], part: ByteRange = WHOLE) -> bool:
    """Return whether files, or a part of each, are large in total and code is available.

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
    """Return whether compiled code is available, and faster for files of this size."""
    return _of_size(size) or False


def _of_size(size: int) -> bool | None:
    """Return whether code is available for files of this size; None if they are small."""
    if size >= LARGE or (size >= _LARGE_IF_LOADED and is_loaded()):
        return can_compile()
    if size >= _LARGE_IF_KEPT and is_installed() and are_kept():
        return True
    return None


def _data_size(path: Path, part: ByteRange) -> int:
    """Return the size of a part, or the allocated size if the file is almost entirely a hole.

    Brokers create such files (`log.preallocate`). Compressing file systems also allocate few
    blocks, for any file.
    """
    stat = path.stat()
    size, allocated = part.size_in(stat.st_size), 512 * getattr(stat, "st_blocks", 1 << 62)
    return allocated if allocated < size // 32 else size


def _has_many(path: Path, start: int, size: int) -> bool:
    """Return whether the batch headers at the start of a part claim many records."""
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
