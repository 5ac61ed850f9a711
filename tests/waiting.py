"""Waits of tests: over as soon as what they wait for is there, and long on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")

PATIENCE_S = 180.0
"""Nothing that comes at all takes longer, sessions that run out and JVMs that start among it."""


def until(look: Callable[[], _T | None], *, every_s: float = 0.1) -> _T:
    """Look again and again until there is something that is true, and give it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing but {found!r} for {PATIENCE_S:g} s"
        time.sleep(every_s)
    return found


def until_steady(look: Callable[[], object], *, times: int = 10, every_s: float = 0.2) -> None:
    """Look again and again until something has been true so many times in a row."""
    seen = 0

    def is_steady() -> bool:
        nonlocal seen
        seen = seen + 1 if look() else 0
        return seen >= times

    until(is_steady, every_s=every_s)


def until_asleep(pid: int) -> None:
    """Wait until a process waits for something (Linux; a moment elsewhere).

    Python loses sight of a signal that comes just before a call that blocks.
    """
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        time.sleep(0.5)
        return
    until_steady(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", every_s=0.05)
