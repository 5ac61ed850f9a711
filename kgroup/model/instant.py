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


def rfc3339(epoch_ms: int) -> str:
    """Return epoch milliseconds as a time in UTC; outside of the calendar as a number."""
    try:
        time = datetime.fromtimestamp(epoch_ms // 1000, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"
    return f"{time.isoformat()}.{epoch_ms % 1000:03}Z"


def duration_ms(text: str) -> int | None:
    """Return a duration such as ``2h``, ``1d12h``, ``90s``, ``500ms`` in milliseconds, or None."""
    text = text.strip()
    if not _DURATION.fullmatch(text):
        return None
    return sum(int(n) * _UNITS[unit] for n, unit in _DURATION_PART.findall(text))
