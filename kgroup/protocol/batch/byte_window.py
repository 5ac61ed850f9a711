"""A source of bytes of any size, of which a part is in memory."""

from typing import BinaryIO

__all__ = ["ByteWindow"]


class ByteWindow:
    """The part of a source that is in memory: all of a buffer, or what was read of a file.

    Positions are absolute. `data` is replaced, never changed, so views of it stay right.

    Attributes:
        data: the bytes in memory.
        base: position of their first.
        end: position behind their last.
    """

    __slots__ = ("_chunk_size", "_file", "_kept", "base", "data", "end")

    def __init__(
        self, data: memoryview, base: int, file: BinaryIO | None = None, chunk_size: int = 0
    ) -> None:
        self.data = data
        self.base = self._kept = base
        self.end = base + len(data)
        self._file = file
        self._chunk_size = chunk_size

    def has(self, position: int, size: int) -> bool:
        """Whether the source has `size` bytes at `position`; reads on for them if need be."""
        if position + size <= self.end:
            return True
        if self._file is not None:
            self._read_on(position + size - self.end)
        return position + size <= self.end

    def _read_on(self, missing: int) -> None:
        kept = self.data[self._kept - self.base :]
        # as much as is kept at least, so that each byte is copied a few times at most
        wanted = max(missing, self._chunk_size, len(kept))
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

    def release(self, position: int) -> None:
        """Promise that nothing before `position` will be asked for."""
        self._kept = position

    def view(self, position: int, size: int) -> memoryview:
        """Give `size` bytes at `position`, or fewer at the end of what is in memory."""
        return self.data[position - self.base : position - self.base + size]
