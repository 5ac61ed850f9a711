"""Files that appear under their name when they are whole."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgroup.errors import InputError, UsageError

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of `path` when the context ends well.

    A file that exists is replaced then, and kept as it was otherwise. A link is followed.

    Raises:
        UsageError: `path` is something else than a file (a device, say).
        InputError: there can be no file of that name.
    """
    name, path = path, path.resolve()
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        raise UsageError(
            f"{name}: expected a file, or the name of a new one; found a folder, a device or a pipe"
        )
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.touch()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}", path=str(name)) from None
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
