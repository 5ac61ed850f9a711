"""Read whole files up to a size limit, without holding a larger or endless one in memory."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from kgroup.errors import InputError

_FIRST = 1 << 16
_WITH_NUL = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")
"""First bytes of gzip and UTF-16 data, which may contain NUL bytes."""


def read_limited(file: BinaryIO, most: int, advice: str, *, is_text: bool = True) -> bytes:
    """Read all of a text file, a gzipped text file, or any file.

    Args:
        file: read from its current position; may be a pipe or an endless device.
        most: size limit, in bytes.
        advice: what to do about a larger file.
        is_text: whether a NUL byte is an error.

    Raises:
        InputError: the file is too large or not text; the message does not name the file.
    """
    size = _size(file)
    if size is not None and size > most:
        raise InputError(f"expected at most {most:,} bytes, found {size:,}; {advice}")
    data = file.read(min(_FIRST, most + 1))
    if is_text and b"\0" in data and not data.startswith(_WITH_NUL):
        raise InputError("expected text, found a NUL byte; is it the right file?")
    if len(data) >= _FIRST:  # a shorter read was complete; reading a terminal again would block
        data += file.read(most + 1 - len(data))
    if len(data) > most:
        raise InputError(f"expected at most {most:,} bytes, found more; {advice}")
    return data


def _size(file: BinaryIO) -> int | None:
    """Return the size of a regular file; None for other files."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # not a file of the operating system
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
