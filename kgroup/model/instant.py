"""Instants and durations as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

_UNITS: Mapping[str, int] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DURATION = re.compile(r"(?:\d{1,400}(?:ms|[smhdw]))+")
_DURATION_PART = re.compile(r"(\d+)(ms|[smhdw])")
_ISO_DURATION = re.compile(
    r"P(?=.)(?:(\d{1,18})W)?(?:(\d{1,18})D)?"
    r"(?:T(?=.)(?:(\d{1,18})H)?(?:(\d{1,18})M)?(?:(\d{1,18})(?:\.(\d{1,3}))?S)?)?"
)


def rfc3339(epoch_ms: int) -> str:
    """Return epoch milliseconds as a time in UTC; outside of the calendar as a number."""
    try:
        time = datetime.fromtimestamp(epoch_ms // 1000, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"
    return f"{time.isoformat()}.{epoch_ms % 1000:03}Z"


def duration_ms(text: str) -> int | None:
    """Return a duration in milliseconds; None if the text is no duration.

    Args:
        text: ``2h``, ``1d12h``, ``90s``, ``500ms``, or ISO 8601 without years and months:
            ``PT2H``, ``P1DT12H``.
    """
    text = text.strip()
    if _DURATION.fullmatch(text):
        return sum(int(n) * _UNITS[unit] for n, unit in _DURATION_PART.findall(text))
    if (match := _ISO_DURATION.fullmatch(text)) is None:
        return None
    *counts, fraction = match.groups(default="0")
    return sum(
        int(count) * _UNITS[unit] for count, unit in zip(counts, "wdhms", strict=True)
    ) + int(fraction.ljust(3, "0"))
