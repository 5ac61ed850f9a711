"""Files named on the command line, standard input among them."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import click

from kgroup.cli.output.context import naming

__all__ = ["STDIN", "input_files"]

STDIN = Path("-")


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
