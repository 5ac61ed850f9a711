"""How much of a log is read in which way."""

from __future__ import annotations

from pathlib import Path

from kgroup.columnar import log_chunk


def cut(path: Path) -> list[log_chunk.Chunk]:
    with path.open("rb", buffering=0) as file:
        return list(iter(log_chunk.Cutter(file).next, None))
