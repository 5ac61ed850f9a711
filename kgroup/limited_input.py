"""Files that are read as a whole: what is too large or endless is refused before it is held."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from kgroup.errors import InputError

_FIRST = 1 << 16
_WITH_NUL = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")
"""How gzip and UTF-16 begin."""


def read_limited(file: BinaryIO, most: int, advice: str, *, is_text: bool = True) -> bytes:
    """Read all of a text, or of what gzip made of one, or of any file.

    Args:
        file: read from where it stands, perhaps a pipe or a device that never ends.
        most: bytes.
        advice: what to do about one that is larger.
        is_text: whether a NUL byte shows that it is the wrong file.

    Raises:
        InputError: it is larger, or no text; the message does not name it.
    """
    size = _size(file)
    if size is not None and size > most:
        raise InputError(f"expected at most {most:,} bytes, found {size:,}; {advice}")
    data = file.read(min(_FIRST, most + 1))
    if is_text and b"\0" in data and not data.startswith(_WITH_NUL):
        raise InputError("expected text, found a NUL byte; is it the right file?")
    if len(data) >= _FIRST:  # else it is all, and a terminal would be read again
        data += file.read(most + 1 - len(data))
    if len(data) > most:
        raise InputError(f"expected at most {most:,} bytes, found more; {advice}")
    return data


def _size(file: BinaryIO) -> int | None:
    """Return the size of a file that has one."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # no file of the system's
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
