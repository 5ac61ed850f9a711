"""Files that tests write again and again."""

from __future__ import annotations

from pathlib import Path


def write_fresh(path: Path, data: bytes) -> None:
    """Write a file that may be there.

    In its place comes another one: ext4 puts on the disk at once what is overwritten, which takes
    milliseconds.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(data)
