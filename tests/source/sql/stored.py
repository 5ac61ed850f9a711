"""Tables that tests look into without kgroup, and changes that they ask for."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from kgroup.model.offset import CommittedOffset, OffsetChange

Key = tuple[str, int]


def query(file: Path, statement: str = "SELECT * FROM t_offset ORDER BY 1, 2, 3") -> list[Any]:
    """Ask SQLite itself."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


def execute(file: Path, *statements: str) -> None:
    """Tell SQLite itself."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def change(topic: str, partition: int, before: int | None, after: int | None) -> OffsetChange:
    """Change one offset into another; None: nothing."""
    return OffsetChange(
        topic,
        partition,
        None if before is None else CommittedOffset(topic, partition, before),
        None if after is None else CommittedOffset(topic, partition, after),
    )


def new(offsets: Mapping[Key, int]) -> list[OffsetChange]:
    """Store offsets where nothing is."""
    return [change(*key, None, offset) for key, offset in offsets.items()]
