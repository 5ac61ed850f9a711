"""Files that appear under their name when they are whole."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE, S_IWUSR

from kgroup.errors import InputError, UsageError

__all__ = ["atomic_file"]

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors in which the system does not name the file: a full disk, a quota, a limit, a bad disk."""


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of `path` when the context ends well.

    A file that exists is replaced then, by one with its permissions, and kept as it was otherwise.
    A link is followed.

    Raises:
        UsageError: `path` is something else than a file (a device, say).
        InputError: there can be no file of that name.
        OSError: it cannot be written to the end; the error has its name.
    """
    name, path = path, path.resolve()
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        raise UsageError(
            f"{name}: expected a file, or the name of a new one; found a folder, a device or a pipe"
        )
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.touch()
        if path.exists():  # who may not read the one need not be let read the other
            unfinished.chmod(S_IMODE(path.stat().st_mode) | S_IWUSR)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}", path=str(name)) from None
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _OF_WRITING and error.filename is None:
            raise OSError(error.errno, error.strerror, str(name)) from None
        raise
