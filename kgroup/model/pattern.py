"""Patterns for names."""

from __future__ import annotations

from typing import Protocol


class Pattern(Protocol):
    """A compiled regular expression: `re.Pattern`, or one of RE2."""

    @property
    def pattern(self) -> str:
        """The source of the regular expression."""
        ...

    def fullmatch(self, text: str, /) -> object | None:
        """Match a whole text; return None if it does not match."""
        ...


def parse_regex(text: str) -> Pattern:
    """Compile a regular expression with RE2, which matches in linear time.

    Raises:
        ValueError: the text is not a valid regular expression.
    """
    import re2

    options = re2.Options()
    options.dot_nl = True  # a group id may contain line breaks
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
