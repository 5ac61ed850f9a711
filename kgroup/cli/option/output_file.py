"""Options that name a file to write, and which files they replace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO

import click

from kgroup.atomic_file import FileKind, check_output, output_file
from kgroup.cli.option.common import OutputPath, add_options

_STDOUT = tuple(map(Path, ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")))


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file to write.

    Attributes:
        path: as it was typed.
        kind: of the file, and of those that it may replace.
        force: `--force`: it may replace others too.
    """

    path: Path
    kind: FileKind
    force: bool

    @property
    def is_stdout(self) -> bool:
        """Whether standard output is meant."""
        return self.path in _STDOUT

    @contextmanager
    def open(self, *, durable: bool = True) -> Iterator[BinaryIO]:
        """Give the file to write to; see `kgroup.atomic_file.output_file`."""
        with output_file(self.path, self.kind, force=self.force, durable=durable) as file:
            yield file


def output_file_option(
    *names: str, kind: FileKind, text: str, required: bool = True, stdout: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option that names a file to write, and `--force`; the command takes ``target``.

    The command does not begin where it could not replace the file.

    Args:
        names: of the option.
        kind: of the file.
        text: help of the option.
        required: whether it is wrong usage to leave it out; ``target`` is None without it.
        stdout: whether - is standard output; otherwise it is refused.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_file(*, output_path: Path | None, force: bool, **rest: Any) -> Any:
            if output_path is None:
                if force:
                    raise click.UsageError(f"--force is for {names[-1]}; leave it out")
                return command(target=None, **rest)
            target = OutputFile(output_path, kind, force)
            if output_path == Path("-") and not stdout:
                raise click.UsageError(
                    f"{names[-1]} needs the name of a file, not - (standard output)"
                )
            if not (stdout and target.is_stdout):
                check_output(output_path, kind, force=force)
            return command(target=target, **rest)

        return add_options(
            with_file,
            click.option(
                *names,
                "output_path",
                metavar="FILE",
                type=OutputPath(),
                required=required,
                help=text,
            ),
            click.option(
                "--force",
                is_flag=True,
                help="Replace a file that kgroup did not write. A file that the command reads is "
                "never replaced.",
            ),
        )

    return decorate
