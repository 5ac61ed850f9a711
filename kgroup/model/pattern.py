"""What names are matched by."""

from __future__ import annotations

from typing import Protocol


class Pattern(Protocol):
    """A regular expression that was compiled: `re.Pattern`, or one of RE2."""

    @property
    def pattern(self) -> str:
        """What it was compiled from."""
        ...

    def fullmatch(self, text: str, /) -> object | None:
        """Match a whole text; None where it does not match."""
        ...


def parse_regex(text: str) -> Pattern:
    """Compile a regular expression, with RE2: its time is in proportion to what it reads.

    Raises:
        ValueError: it is none.
    """
    import re2

    options = re2.Options()
    options.dot_nl = True  # a group id may have line breaks
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) else "it is no UTF-8"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(
            f"{text!r} is no regular expression: {reason} (RE2's syntax: without look-around and "
            "back-references)"
        ) from None
    return pattern
