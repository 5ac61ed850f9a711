"""Instants as text."""

from datetime import UTC, datetime

__all__ = ["rfc3339"]


def rfc3339(epoch_ms: int) -> str:
    """Write epoch milliseconds as a time in UTC; what no calendar holds stays a number."""
    try:
        time = datetime.fromtimestamp(epoch_ms // 1000, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"
    return f"{time.isoformat()}.{epoch_ms % 1000:03}Z"
