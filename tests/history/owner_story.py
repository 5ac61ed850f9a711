"""Intervals of ownership, made by hand."""

from __future__ import annotations

from typing import Any

T = 1_700_000_000_000


def interval(
    member: str, begin: int | None, end: int | None, by: str | None = None, **more: Any
) -> dict[str, Any]:
    """Own orders-3 in group g, from so many seconds behind T to so many."""
    offsets = {
        "from_log_offset": 1000 if begin is None else begin,
        "to_log_offset": None if end is None and by is None else end or 2000,
    }
    return {
        "offsets_partition": 7,
        "group_id": "g",
        "group_type": "classic",
        "topic": "orders",
        "partition": 3,
        "member_id": member,
        "client_id": f"client of {member}",
        "client_host": "/10.0.0.1",
        "from_ms": None if begin is None else T + begin * 1000,
        "to_ms": None if end is None else T + end * 1000,
        "ended_by": by,
        **offsets,
        **more,
    }


def generation(second: int, group: str = "g") -> dict[str, Any]:
    return {
        "offsets_partition": 7,
        "log_offset": second,
        "time_ms": T + second * 1000,
        "group_id": group,
    }


STORY = [
    interval("a", 10, 20, "moved", generation_id=1),
    interval("b", 20, 30, "gone", generation_id=2),
    interval("c", 40, 50, "released", generation_id=4),
    interval("c", 60, 70, "deleted", generation_id=6),
]
