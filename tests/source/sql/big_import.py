"""An import that is still at work when it says so, to be killed there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kgroup.model.offset import OffsetChange
from kgroup.source.sql.store import SqlOffsetStore
from tests.source.sql.stored import new


def import_of(groups: int, partitions: int = 1) -> dict[str, Sequence[OffsetChange]]:
    """Return an import of new groups, `g0` and so on, whose offsets are their numbers."""
    offsets = {number: {("t", p): number for p in range(partitions)} for number in range(groups)}
    return {f"g{number}": new(offsets[number]) for number in range(groups)}


def write_slowly(url: str, groups: int = 1000) -> None:
    """Write; print "half" when rows are inserted and the transaction is still open, and wait."""
    from sqlalchemy import Engine, event

    @event.listens_for(Engine, "after_cursor_execute")
    def halt(
        connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
    ) -> None:
        if statement.lstrip().upper().startswith("INSERT"):
            print("half", flush=True)
            time.sleep(600)

    SqlOffsetStore(url, timeout_s=60).write_offsets(import_of(groups))
