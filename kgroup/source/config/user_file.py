"""Small files that settings name: key stores, tokens, secrets, kgroup's own configuration."""

from __future__ import annotations

from pathlib import Path

from kgroup.atomic_file import INPUTS
from kgroup.errors import InputError, KgroupError, UsageError

LARGEST_FILE = 1 << 20
"""Maximum bytes of a settings file, key store or token; a trust store of all CAs has 250,000."""


def user_path(text: str, where: str) -> Path:
    """Return the path of a text, with ``~`` and ``~user`` expanded as by a shell.

    Args:
        text: the path.
        where: where it was set, to start a message with.

    Raises:
        UsageError: the user does not exist, or no file can have this name.
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


def read_user_file(path: Path, where: str, absent: KgroupError | None = None) -> bytes:
    """Read a whole file that should be small.

    Args:
        path: the file; may be a device without an end.
        where: start of a message.
        absent: error for a missing file, instead of the operating system's.

    Raises:
        InputError: the file cannot be read, or is larger than `LARGEST_FILE`.
        KgroupError: `absent`.
    """
    INPUTS.append(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        if absent is not None and isinstance(error, FileNotFoundError):
            raise absent from None
        raise InputError(f"{where}: cannot read it: {error.strerror}", path=str(path)) from None
    if len(data) > LARGEST_FILE:
        raise InputError(
            f"{where}: expected at most {LARGEST_FILE} bytes, found more; is it the right file?",
            path=str(path),
        )
    return data
