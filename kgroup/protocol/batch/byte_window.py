"""Parts of a file of batches: a range of byte positions, and the bytes that are in memory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from errno import ENXIO
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The batches of a file whose first byte is at or after `start` and before `end`.

    A file must be split at the start of a batch. To judge damage before `end`, bytes after it are
    read too, so that the parts of a file yield the same as the whole file.

    Attributes:
        start: byte position of the first batch.
        end: byte position of the first batch after the range; None for the end of the file.
    """

    start: int = 0
    end: int | None = None

    def has(self, position: int) -> bool:
        """Return whether an item at a position after `start` is in the range."""
        return self.end is None or position < self.end

    def size_in(self, file_size: int) -> int:
        """Return the number of bytes of the range in a file of this size."""
        end = file_size if self.end is None else min(self.end, file_size)
        return max(end - self.start, 0)


WHOLE = ByteRange()
"""The whole file."""


_NOT_ZERO = re.compile(rb"[^\0]")
_FIRST_READ = 1 << 16
"""Bytes of the first read from a file; a preallocated file may contain no more data."""
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)


class ByteWindow:
    """The part of a source that is in memory: a whole buffer, or what was read of a file.

    Positions are absolute. `data` is replaced, never modified, so views of it stay valid.

    Attributes:
        data: the bytes in memory.
        base: position of the first byte.
        end: position after the last byte.
    """

    __slots__ = ("_chunk_size", "_file", "_kept", "_next_size", "base", "data", "end")

    def __init__(
        self, data: memoryview, base: int, file: BinaryIO | None = None, chunk_size: int = 0
    ) -> None:
        self.data = data
        self.base = self._kept = base
        self.end = base + len(data)
        self._file = file
        self._chunk_size = chunk_size
        self._next_size = min(_FIRST_READ, chunk_size)

    def has(self, position: int, size: int) -> bool:
        """Return whether the source has `size` bytes at `position`; read them if necessary."""
        if position + size <= self.end:
            return True
        if self._file is not None:
            self._read_on(position + size - self.end)
        return position + size <= self.end

    def _read_on(self, missing: int) -> None:
        kept = self.data[self._kept - self.base :]
        # read at least as much as is kept, so that each byte is copied only a few times
        wanted = max(missing, self._next_size, len(kept))
        self._next_size = min(2 * self._next_size, self._chunk_size)
        parts: list[bytes | memoryview] = [kept]
        got = 0
        while got < missing and self._file is not None:
            part = self._file.read(wanted - got)
            if part:
                parts.append(part)
                got += len(part)
            else:
                self._file = None
        self.data = memoryview(b"".join(parts))
        self.base = self._kept
        self.end = self.base + len(self.data)

    def skip_zeros(self, position: int, kept: int) -> int:
        """Return the position of the next nonzero byte, or of the end of the source.

        Holes of a file are not read. The last `kept` bytes before the returned position stay in
        memory.
        """
        while self.has(position, 1):
            data = self.view(position, self.end - position).tobytes()
            if data != bytes(len(data)):
                match = _NOT_ZERO.search(data)
                assert match is not None
                return position + match.start()
            position = self.end
            self.release(max(self.base, position - kept))
            position = self._skip_hole(kept)
        return position

    def _skip_hole(self, kept: int) -> int:
        """Skip the hole of the file that starts at the end of the bytes in memory, if any."""
        file = self._file
        if file is None or _SEEK_DATA is None:
            return self.end
        try:
            if file.tell() != self.end:
                return self.end
            number = file.fileno()
        except OSError:  # not a file of the operating system
            return self.end
        try:
            behind = os.lseek(number, self.end, _SEEK_DATA)
        except OSError as error:
            behind = -1 if error.errno == ENXIO else self.end  # no data follows / not supported
        size = file.seek(0, os.SEEK_END)  # also discards the read buffer
        behind = size if behind < 0 else behind
        if behind - self.end <= kept:
            file.seek(self.end)
            return self.end
        file.seek(behind)
        self.data = memoryview(bytes(kept))
        self.base = self._kept = behind - kept
        self.end = behind
        return behind

    def release(self, position: int) -> None:
        """Allow the window to drop the bytes before `position`, which are no longer needed."""
        self._kept = position

    def view(self, position: int, size: int) -> memoryview:
        """Return `size` bytes at `position`, or fewer at the end of the bytes in memory."""
        return self.data[position - self.base : position - self.base + size]
