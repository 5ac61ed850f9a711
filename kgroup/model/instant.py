"""Instants and durations as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

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


_zone: tzinfo | None = UTC
"""Zone of the times that people are shown; None: the local zone."""


def show_local_time(*, is_local: bool) -> None:
    """Set whether `shown_time` returns local times, or UTC (the default)."""
    global _zone
    _zone = None if is_local else UTC


def shows_utc() -> bool:
    """Return whether `shown_time` returns times in UTC."""
    return _zone is UTC


def shown_time(epoch_ms: int) -> str:
    """Return epoch milliseconds as a time with its UTC offset, for people; see `rfc3339`."""
    return _time_text(epoch_ms, _zone)


def shown_clock(epoch_ms: int) -> str:
    """Return the time of day with the name of its zone, for times of about now."""
    return datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone(_zone).strftime("%H:%M:%S %Z")


def rfc3339(epoch_ms: int) -> str:
    """Return epoch milliseconds as a time in UTC; outside of the calendar as a number."""
    return _time_text(epoch_ms, UTC)


def _time_text(epoch_ms: int, zone: tzinfo | None) -> str:
    try:
        time = datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms" if zone is UTC else _time_text(epoch_ms, UTC)
    text = time.replace(microsecond=epoch_ms % 1000 * 1000).isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


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
