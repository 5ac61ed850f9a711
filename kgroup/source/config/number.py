"""Whole numbers as people write them, of any length, within the limits of Java's."""

from __future__ import annotations

MOST_INT = (1 << 31) - 1
MOST_LONG = (1 << 63) - 1


def whole_number(text: str, most: int) -> int | None:
    """Read a decimal number from 0 to `most`; None for any other text.

    Python's own `int` refuses texts of more than some thousand digits by an error of its own.
    """
    digits = text.lstrip("0") or text[-1:]
    if not text.isdecimal() or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None
