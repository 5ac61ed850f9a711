"""Files that a person names in a setting: how the name becomes a path, and how much is read."""

from __future__ import annotations

from pathlib import Path

from kgroup.atomic_file import INPUTS
from kgroup.errors import InputError, UsageError

LARGEST_FILE = 1 << 20
"""Bytes of a settings file, key store or token; a trust store of all authorities has 250,000."""


def user_path(text: str, where: str) -> Path:
    """Make a path of what was written, with ``~`` and ``~user`` as a shell takes them.

    Args:
        text: the path.
        where: where it was written, to begin a message with.

    Raises:
        UsageError: there is no such user, or no file can have this name.
    """
    if "\0" in text:
        raise UsageError(f"{where}: expected a path, found a NUL character in it")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = text.partition("/")[0]
        raise UsageError(
            f"{where}: expected the home folder of a user, found none for {user}; write it in full"
        ) from None


def read_user_file(path: Path, where: str, absent: str = "") -> bytes:
    """Read a whole file that cannot be large.

    Args:
        path: the file, perhaps a device that never ends.
        where: to begin a message with.
        absent: what to say of a file that is not there, instead of what the system says.

    Raises:
        InputError: it cannot be read, or holds more than `LARGEST_FILE`.
    """
    INPUTS.append(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        is_absent = isinstance(error, FileNotFoundError)
        why = (absent if is_absent else "") or f"cannot read it: {error.strerror}"
        raise InputError(f"{where}: {why}", path=str(path)) from None
    if len(data) > LARGEST_FILE:
        raise InputError(
            f"{where}: expected at most {LARGEST_FILE} bytes, found more; is it the right file?",
            path=str(path),
        )
    return data
