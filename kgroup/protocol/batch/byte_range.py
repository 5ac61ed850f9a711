"""A part of a file of batches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The batches of a file that begin at `start` or behind it, and before `end`.

    Whoever cuts a file must cut where a batch begins. Bytes behind the end are looked at to judge
    damage in front of it, so that the parts of a file say the same as the whole.

    Attributes:
        start: byte position of the first batch.
        end: byte position of the first batch that is not part of it; None: there is none.
    """

    start: int = 0
    end: int | None = None

    def has(self, position: int) -> bool:
        """Tell whether what begins at a position behind the start is part of it."""
        return self.end is None or position < self.end

    def size_in(self, file_size: int) -> int:
        """Give how many bytes of a file of this size it has."""
        end = file_size if self.end is None else min(self.end, file_size)
        return max(end - self.start, 0)


WHOLE = ByteRange()
"""All of a file."""
