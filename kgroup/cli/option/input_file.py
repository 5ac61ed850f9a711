"""Files named on the command line, standard input among them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import BinaryIO

import click

from kgroup.cli.output.context import naming, warn
from kgroup.errors import InputError
from kgroup.limited_input import read_limited

STDIN = Path("-")
LARGEST = 1 << 27
"""Bytes of a file that is read as a whole; specs of a million members have some 100 million."""


def standard_input() -> BinaryIO:
    """Give standard input; where somebody is to type it, tell."""
    if sys.stdin.isatty():
        warn("note: reading from the terminal, up to Ctrl-D")
    return sys.stdin.buffer


def read_whole(path: Path) -> bytes:
    """Read a file, or standard input (``-``), as a whole.

    Raises:
        InputError: it cannot be read, or is larger than `LARGEST` bytes.
    """
    try:
        with nullcontext(standard_input()) if path == STDIN else path.open("rb") as file:
            return read_limited(file, LARGEST, "split it")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", path=str(path)) from None
    except InputError as error:
        raise InputError(f"{path}: {error}", path=str(path)) from None


@contextmanager
def input_files(paths: Sequence[Path]) -> Iterator[tuple[list[Path], Callable[[Path], str]]]:
    """Give the files to read, and a function that says what to call each of them.

    Standard input (``-``) is copied to a temporary file, since a log is read more than once: what
    became of a transaction stands behind its records.
    """
    if STDIN not in paths:
        yield list(paths), str
        return
    if sys.stdin.isatty():
        raise click.UsageError("standard input is a terminal; pipe or redirect a segment into it")
    with TemporaryDirectory(prefix="kgroup-") as folder:
        copy = Path(folder) / "stdin"
        copying = naming(f"a copy of standard input in {gettempdir()} (TMPDIR)")
        with copying, copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        files = [copy if path == STDIN else path for path in paths]
        yield files, lambda path: "-" if path == copy else str(path)
