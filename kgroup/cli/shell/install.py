"""Put the completion of kgroup where a shell finds it: `kgroup completion --install`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kgroup.atomic_file import FileKind, check_output, output_file
from kgroup.cli.shell.script import script
from kgroup.errors import InputError

_COMMAND = "source <(kgroup completion {})"
_WHERE_IT_IS = "if command -v kgroup > /dev/null; then {}; fi"
"""A shell that starts where there is no kgroup, any more or yet, has nothing to warn of."""
_ZSH_SYSTEM = "(( $+functions[compdef] )) || { autoload -Uz compinit; compinit }; "
"""zsh knows no completions at all before somebody asks for them."""


def install(shell: str, *, force: bool = False) -> str:
    """Write what is not there yet; tell what was done.

    bash and zsh get a line at the end of the file that each interactive shell reads, fish gets a
    file of its own.

    Args:
        shell: of `SHELLS`.
        force: whether fish's file may replace one that kgroup did not make.

    Raises:
        InputError: a file of that name is there that kgroup has not made, or no home folder is.
        OSError: it cannot be read or written.
    """
    if shell == "fish":
        return _install_file(
            _folder("XDG_CONFIG_HOME", ".config") / "fish/completions/kgroup.fish", force=force
        )
    if shell == "zsh":
        return _add_line(_folder("ZDOTDIR", "") / ".zshrc", shell, _ZSH_SYSTEM)
    return _add_line(_home() / ".bashrc", shell)


def _folder(variable: str, default: str) -> Path:
    """Give the folder that the environment names, or one in the user's own."""
    return Path(os.environ.get(variable) or _home() / default)


def _home() -> Path:
    if not (home := Path.home()).is_dir():
        raise InputError(f"{home}: expected your home folder ($HOME), found none", path=str(home))
    return home


def _add_line(path: Path, shell: str, before: str = "") -> str:
    command = _COMMAND.format(shell)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        text = b""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines()]
    if any(command in line and not line.startswith("#") for line in lines):
        return f"{path} has it already; nothing was changed"
    line = _WHERE_IT_IS.format(before + command)
    path.parent.mkdir(parents=True, exist_ok=True)
    end = "\n" if text and not text.endswith(b"\n") else ""
    try:
        with path.open("ab") as file:
            file.write(f"{end}{line}\n".encode())
    except OSError as error:  # a disk that is full in the middle of the line
        with suppress(OSError):
            os.truncate(path, len(text))
        raise OSError(error.errno, error.strerror, str(path)) from error
    return f"a line was added to {path}; new shells complete kgroup, this one after: {command}"


def _install_file(path: Path, *, force: bool) -> str:
    wanted = script("fish").encode()
    if check_output(path, FileKind.COMPLETION, force=force) and path.read_bytes() == wanted:
        return f"{path} has it already; nothing was changed"
    path.parent.mkdir(parents=True, exist_ok=True)
    with output_file(path, FileKind.COMPLETION, force=force) as file:
        file.write(wanted)
    return f"{path} was written; fish completes kgroup from now on"
