"""Write output files privately and atomically, without replacing files of other programs.

A file is written under a temporary name in its folder, readable by its owner only, and renamed
when it is complete. It replaces an existing file only if that one is empty, or if its contents
show that kgroup wrote it and that it is of the same kind; any other file needs `--force`. A file
that the command reads is never replaced.
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
"""Files that the command reads, and folders in which it reads files; see `check_output`.

Code that parses an input's name adds it: option types, readers of settings, SQLite.
"""

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors for which the system names no file: disk full, quota, size limit, I/O error."""
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links."""
_BUFFER = 1 << 20
_HEAD = 1 << 16
"""Bytes at the start of a file (Parquet: at its end) that identify its kind."""
_GZIP = b"\x1f\x8b"

PARQUET_MARK = ("kgroup.command", "decode-offsets")
"""Key and value in the metadata of a Parquet file that kgroup writes."""


class FileKind(Enum):
    """Kinds of files that kgroup writes: the name used in messages, and how such a file begins."""

    SNAPSHOT = "a snapshot", rb'\s*\{\s*"command"\s*:\s*"snapshot"'
    OFFSETS = (
        "a JSON file of offsets",
        rb'\s*\{\s*(?:"command"\s*:\s*"offsets show"|"group_id":"(?:[^"\\]|\\.)*",'
        rb'"topic":"(?:[^"\\]|\\.)*","partition":\d+,"committed_offset":(?:\d+|null),'
        rb'"leader_epoch":)',
    )
    RECORDS = "a Parquet file of decoded records", b"PAR1"
    COMPLETION = "a completion script", b"# Completion of kgroup"
    METRICS = "a file of build metrics", b"# HELP kgroup_build_"
    PAGE = "a history page", rb'<!DOCTYPE html>(?s:.){0,200}<meta name="generator" content="kgroup '

    def __init__(self, words: str, head: bytes) -> None:
        self.words = words
        self._head = head

    def is_kind_of(self, path: Path) -> bool:
        """Return whether kgroup wrote a file of this kind, judging by its contents.

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
    """Decompress the start of gzip data; return b"" if it is damaged."""
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
    """Yield a temporary file that is renamed to `path` when the context ends without an error.

    An existing file is replaced if `check_output` allows it; the new file keeps its permissions. If
    anything fails, the old file stays. Symbolic links are followed.

    Args:
        path: path of the file.
        kind: kind of the file; None if the caller has read the file and rewrites it with additions.
        force: see `check_output`.
        durable: sync the file to disk before it is renamed.

    Raises:
        UsageError: `path` is not a regular file (a device, for example), or is an input.
        InputError: no file of that name can exist, or the existing one must not be replaced.
        OSError: the file cannot be written completely; the error has its name.
    """
    before = check_output(path, kind, force=force)
    with _unfinished(path) as (file, unfinished, target):
        if before is not None:  # who could not read the old file must not read the new one
            os.fchmod(file.fileno(), S_IMODE(before.st_mode) | S_IWUSR)
        yield file
        file.flush()
        if durable:
            os.fsync(file.fileno())
        # Another process may have created a file of that name meanwhile.
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
    """Yield a temporary file that is renamed to `path` once it is complete and synced to disk.

    Raises:
        FileExistsError: the name exists.
        InputError: no file of that name can exist.
        OSError: the file cannot be written completely; the error has its name.
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
    """Check that a file may be written; return the status of the file to be replaced, if any.

    Files in `INPUTS` are never replaced. A file below a folder in `INPUTS`, under any name, is
    replaced only if kgroup wrote it.

    Args:
        path: path of the file.
        kind: kind of file that may be replaced if kgroup wrote it; None for any file.
        force: whether other files may be replaced too.

    Raises:
        UsageError: the path is not a regular file, or it is an input.
        InputError: another program wrote the file, or no file of that name can exist.
    """
    status = _status(path)
    if status is None:
        return None
    if not S_ISREG(status.st_mode):  # os.replace would replace a device by a file
        raise UsageError(
            f"{path}: expected a file, or the name of a new one; found a folder, a device or a pipe"
        )
    if kind is None:
        return status
    if _is_file(status, 0) or any(_is_file(status, input_file) for input_file in INPUTS):
        raise UsageError(f"{path}: this command reads that file; name another one to be written")
    with suppress(OSError):  # an unreadable file counts as not written by kgroup
        if kind.is_kind_of(path):
            return status
    for folder in INPUTS:
        if _holds(folder, status):
            raise UsageError(
                f"{path}: the file lies in {folder}, which this command reads; name another one "
                "to be written"
            )
    if status.st_size and not force:
        raise InputError(
            f"{path}: expected no file, or {kind.words} that kgroup wrote; found another file. "
            "Name another one, or replace it by --force",
            path=str(path),
        )
    return status


def _is_file(file: os.stat_result, path: Path | int) -> bool:
    """Return whether a path or an open file is this file, under whatever name."""
    with suppress(OSError, ValueError):
        return os.path.samestat(file, os.stat(path))
    return False


def _holds(folder: Path, file: os.stat_result) -> bool:
    """Return whether a folder contains a file at any depth, also through symbolic links."""
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
    """Create a temporary file next to `path`; it is removed at the end unless it was renamed.

    Yields:
        The file, its name, and the target name.
    """
    unfinished = ""
    try:
        try:
            target = os.path.realpath(path)
            # A short name: the target's own name may already have the maximum length.
            unfinished = os.path.join(os.path.dirname(target), f".kgroup-{os.urandom(8).hex()}.tmp")
            number = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except (OSError, ValueError) as error:
            raise _impossible(path, error) from None
        with open(number, "r+b", buffering=_BUFFER) as file:
            os.fchmod(number, 0o600)  # the umask may have removed even the owner's permissions
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
    """Rename a complete file to a name that must not exist yet.

    Raises:
        FileExistsError: the name exists.
    """
    try:
        os.link(unfinished, target)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        # A process killed between the next two calls leaves an empty file.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(unfinished, target)


def _status(path: Path, *, follow_symlinks: bool = True) -> os.stat_result | None:
    """Return the status of a file; None if it does not exist.

    Raises:
        InputError: no file of that name can exist.
    """
    try:
        return os.stat(path, follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _impossible(path, error) from None


def _impossible(path: Path, error: OSError | ValueError) -> InputError:
    """Return the error for a name that no file, or no file in this folder, can have."""
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError(f"{path}: {reason or error}", path=str(path))
