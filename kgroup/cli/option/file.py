"""Files on the command line: input files and standard input, and options for an output file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from kgroup.atomic_file import FileKind, check_output, output_file
from kgroup.cli.option.common import Decorator, OutputPath, options_into
from kgroup.cli.output.context import naming, warn
from kgroup.errors import InputError
from kgroup.limited_input import read_limited

STDIN = Path("-")
LARGEST = 1 << 27
"""Maximum size in bytes of a file that is read at once; specs of 1,000,000 members have 100 MB."""


def standard_input() -> BinaryIO:
    """Return standard input; print a note if it is a terminal."""
    if sys.stdin.isatty():
        warn("note: reading standard input from the terminal; end it with Ctrl-D")
    return sys.stdin.buffer


def read_whole(path: Path) -> bytes:
    """Return the contents of a file, or of standard input (``-``).

    Raises:
        InputError: the file cannot be read, or is larger than `LARGEST` bytes.
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
    """Yield the files to read, and a function that returns the name of a file for messages.

    Standard input (``-``) is copied to a temporary file, because a log is read more than once: the
    marker of a transaction follows its records.
    """
    if STDIN not in paths:
        yield list(paths), str
        return
    if sys.stdin.isatty():
        raise click.UsageError("standard input is a terminal; pipe or redirect a segment into it")
    from tempfile import TemporaryDirectory, gettempdir

    with TemporaryDirectory(prefix="kgroup-") as folder:
        copy = Path(folder) / "stdin"
        copying = naming(f"a copy of standard input in {gettempdir()} (TMPDIR)")
        with copying, copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        files = [copy if path == STDIN else path for path in paths]
        yield files, lambda path: "-" if path == copy else str(path)


_STDOUT = tuple(map(Path, ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")))


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file to write.

    Attributes:
        path: path as typed.
        kind: kind of the file; it may replace an existing file of this kind.
        force: `--force`; it may replace any file.
    """

    path: Path
    kind: FileKind
    force: bool

    @property
    def is_stdout(self) -> bool:
        """Whether the file is standard output."""
        return self.path in _STDOUT

    @contextmanager
    def open(self, *, durable: bool = True) -> Iterator[BinaryIO]:
        """Yield the file for writing; see `kgroup.atomic_file.output_file`."""
        with output_file(self.path, self.kind, force=self.force, durable=durable) as file:
            yield file


def output_file_option(
    *names: str, kind: FileKind, text: str, required: bool = True, stdout: bool = False
) -> Decorator:
    """Add an option for an output file, and `--force`; the command takes ``target``.

    The command fails at the start if it may not replace the file.

    Args:
        names: names of the option.
        kind: kind of the file.
        text: help text of the option.
        required: whether the option is required; otherwise, ``target`` is None without it.
        stdout: whether ``-`` means standard output; otherwise it is rejected.
    """

    def target(output_path: Path | None, force: bool) -> OutputFile | None:
        if output_path is None:
            if force:
                raise click.UsageError(f"--force requires {names[-1]} FILE")
            return None
        file = OutputFile(output_path, kind, force)
        if output_path == Path("-") and not stdout:
            raise click.UsageError(f"{names[-1]} needs the name of a file, not - (standard output)")
        if not (stdout and file.is_stdout):
            check_output(output_path, kind, force=force)
        return file

    return options_into(
        "target",
        target,
        click.option(
            *names, "output_path", metavar="FILE", type=OutputPath(), required=required, help=text
        ),
        click.option(
            "--force",
            is_flag=True,
            help="Replace an existing output file even if kgroup did not write it. An input file "
            "of the command is never replaced.",
        ),
    )
