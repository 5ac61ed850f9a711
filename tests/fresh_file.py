"""Files that tests write again and again."""

from pathlib import Path

__all__ = ["write_fresh"]


def write_fresh(path: Path, data: bytes) -> None:
    """Write a file that may be there.

    In its place comes another one: ext4 puts on the disk at once what is overwritten, which takes
    milliseconds.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(data)
