"""The files that kgroup writes: private, whole when they get their name, in nobody else's place.

A file is written under a temporary name in its folder, with permissions for its owner alone, and
gets its name at the end. It replaces a file only where that one is empty, or was written by kgroup
and is of the same kind, which its contents tell; any other file needs `--force`. What the command
reads is never replaced.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from stat import S_IMODE, S_ISREG, S_IWUSR
from typing import BinaryIO

from kgroup.errors import InputError, UsageError

INPUTS: list[Path] = []
"""Files that the command reads, and folders in which it does; see `check_output`.

Whoever takes the name of an input adds it: the types of options, readers of settings, SQLite.
"""

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors in which the system does not name the file: a full disk, a quota, a limit, a bad disk."""
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems that have no hard links."""
_BUFFER = 1 << 20
_HEAD = 1 << 16
"""Bytes at the start of a file (Parquet: at its end) that identify its kind."""
_GZIP = b"\x1f\x8b"

PARQUET_MARK = ("kgroup.command", "decode-offsets")
"""Key and value in the metadata of a Parquet file that kgroup writes."""


class FileKind(Enum):
    """What a file of kgroup holds, as messages call it, and how such a file begins."""

    SNAPSHOT = "a snapshot", rb'\s*\{\s*"command"\s*:\s*"snapshot"'
    OFFSETS = (
        "a JSON file of offsets",
        rb'\s*\{\s*(?:"command"\s*:\s*"offsets show"|"group_id":"(?:[^"\\]|\\.)*",'
        rb'"topic":"(?:[^"\\]|\\.)*","partition":\d+,"committed_offset":(?:\d+|null),'
        rb'"leader_epoch":)',
    )
    RECORDS = "a Parquet file of decoded records", b"PAR1"
    COMPLETION = "a completion script", b"# Completion of kgroup"
    PAGE = "a history page", rb'<!DOCTYPE html>(?s:.){0,200}<meta name="generator" content="kgroup '

    def __init__(self, words: str, head: bytes) -> None:
        self.words = words
        self._head = head

    def is_kind_of(self, path: Path) -> bool:
        """Tell by its contents whether kgroup wrote a file, and of this kind.

        Raises:
            OSError: the file cannot be read.
        """
        with path.open("rb") as file:
            head = file.read(_HEAD)
            file.seek(-min(file.seek(0, os.SEEK_END), _HEAD), os.SEEK_END)
            tail = file.read() if self is FileKind.RECORDS else b""
        if self is FileKind.SNAPSHOT and head.startswith(_GZIP):
            head = _unpacked(head)
        return re.match(self._head, head) is not None and (
            self is not FileKind.RECORDS or _PARQUET_METADATA in tail
        )


def _unpacked(head: bytes) -> bytes:
    """Decompress the start of gzip data; return nothing if it is damaged."""
    import zlib

    try:
        return zlib.decompressobj(31).decompress(head, _HEAD)
    except zlib.error:
        return b""


_PARQUET_METADATA = b"".join(bytes([0x18, len(text)]) + text.encode() for text in PARQUET_MARK)
"""A `KeyValue` of Parquet's footer in Thrift's compact protocol: two fields of type binary."""


@contextmanager
def output_file(
    path: Path, kind: FileKind | None, *, force: bool = False, durable: bool = True
) -> Iterator[BinaryIO]:
    """Give a file to write to, which gets the name `path` when the context ends well.

    A file that exists is replaced then, as far as `check_output` allows it, by one with its
    permissions, and is kept as it was if anything fails. A link is followed.

    Args:
        path: of the file.
        kind: of it; None: the caller has read it, and writes it anew with something added.
        force: as of `check_output`.
        durable: whether it is on the disk before it has its name.

    Raises:
        UsageError: `path` is something else than a file (a device, say), or must not be replaced.
        InputError: there can be no file of that name, or it must not be replaced.
        OSError: the file cannot be written to the end; the error has its name.
    """
    before = check_output(path, kind, force=force)
    with _unfinished(path) as (file, unfinished, target):
        if before is not None:  # who may not read the one need not be let read the other
            os.fchmod(file.fileno(), S_IMODE(before.st_mode) | S_IWUSR)
        yield file
        file.flush()
        if durable:
            os.fsync(file.fileno())
        # Another process may have made a file of that name meanwhile.
        if check_output(path, kind, force=force) is not None:
            os.replace(unfinished, target)
            return
        try:
            _name(unfinished, target)
        except FileExistsError:
            raise InputError(
                f"{path}: expected no file, as there was none; another process has made one",
                path=str(path),
            ) from None


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which gets the name `path` when it is whole, and on the disk.

    Raises:
        FileExistsError: there is something of that name.
        InputError: there can be no file of that name.
        OSError: the file cannot be written to the end; the error has its name.
    """
    if _status(path, follow_symlinks=False) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with _unfinished(path) as (file, unfinished, target):
        yield file
        file.flush()
        os.fsync(file.fileno())
        _name(unfinished, target)
        folder = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_output(path: Path, kind: FileKind | None, *, force: bool) -> os.stat_result | None:
    """Make sure that a file may be written; return the status of the one to be replaced.

    Files of `INPUTS` are never replaced; of a file below its folders, whatever it is called there,
    kgroup must have written it.

    Args:
        path: of the file.
        kind: of it; files of this kind that kgroup wrote may be replaced. None: any file.
        force: whether other files may be replaced too.

    Raises:
        UsageError: there is no regular file, or an input.
        InputError: there is a file of somebody else, or there can be no such file.
    """
    found = _status(path)
    if found is None:
        return None
    if not S_ISREG(found.st_mode):  # a device would be replaced by a file
        raise UsageError(
            f"{path}: expected a file, or the name of a new one; found a folder, a device or a pipe"
        )
    if kind is None:
        return found
    if _is_file(found, 0) or any(_is_file(found, each) for each in INPUTS):
        raise UsageError(f"{path}: this command reads that file; name another one to be written")
    with suppress(OSError):  # what cannot be read is another's
        if kind.is_kind_of(path):
            return found
    for folder in INPUTS:
        if _holds(folder, found):
            raise UsageError(
                f"{path}: the file lies in {folder}, which this command reads; name another one "
                "to be written"
            )
    if found.st_size and not force:
        raise InputError(
            f"{path}: expected no file, or {kind.words} that kgroup wrote; found another file. "
            "Name another one, or replace it by --force",
            path=str(path),
        )
    return found


def _is_file(file: os.stat_result, path: Path | int) -> bool:
    """Return whether a path, or an open file, is this one, whatever the path is called."""
    with suppress(OSError, ValueError):
        return os.path.samestat(file, os.stat(path))
    return False


def _holds(folder: Path, file: os.stat_result) -> bool:
    """Return whether a file lies anywhere below a folder, be it by a link."""
    seen: set[tuple[int, int]] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        with suppress(OSError):
            status = os.stat(parent)
            if (status.st_dev, status.st_ino) in seen:
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
        if any(_is_file(file, Path(parent, name)) for name in names):
            return True
    return False


@contextmanager
def _unfinished(path: Path) -> Iterator[tuple[BinaryIO, str, str]]:
    """Make a file beside `path`, which is gone at the end unless it has another name by then.

    Yields:
        The file, its name, and the name that it shall get.
    """
    unfinished = ""
    try:
        try:
            target = os.path.realpath(path)
            # Short: the file's own name may be as long as names can be.
            unfinished = os.path.join(os.path.dirname(target), f".kgroup-{os.urandom(8).hex()}.tmp")
            number = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except (OSError, ValueError) as error:
            raise _impossible(path, error) from None
        with open(number, "r+b", buffering=_BUFFER) as file:
            os.fchmod(number, 0o600)  # an umask may have taken away even this
            yield file, unfinished, target
    except OSError as error:
        is_unnamed = error.filename is None and error.errno in _OF_WRITING
        if is_unnamed or error.filename == unfinished:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        with suppress(OSError):
            os.unlink(unfinished)


def _name(unfinished: str, target: str) -> None:
    """Give a file a name that nothing else has; at no time is anything of that name not whole.

    Raises:
        FileExistsError: something has it.
    """
    try:
        os.link(unfinished, target)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        # Here a process that is killed between these two lines leaves an empty file.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(unfinished, target)


def _status(path: Path, *, follow_symlinks: bool = True) -> os.stat_result | None:
    """Return the status of a file, None where there is none.

    Raises:
        InputError: there can be none.
    """
    try:
        return os.stat(path, follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _impossible(path, error) from None


def _impossible(path: Path, error: OSError | ValueError) -> InputError:
    """Make the error of a name that no file can have, or none in this folder."""
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError(f"{path}: {reason or error}", path=str(path))
