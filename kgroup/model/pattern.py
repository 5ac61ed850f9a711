"""What names are matched by."""

from typing import Protocol

__all__ = ["Pattern"]


class Pattern(Protocol):
    """A regular expression that was compiled: `re.Pattern`, or one of RE2."""

    @property
    def pattern(self) -> str:
        """What it was compiled from."""
        ...

    def fullmatch(self, text: str, /) -> object | None:
        """Match a whole text; None where it does not match."""
        ...
