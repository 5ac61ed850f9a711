"""`kgroup completion`.

The scripts in `kgroup/cli/shell` contain no words of kgroup's own: on every tab key they run
``kgroup completion SHELL -- …`` with the words typed so far. It prints the kind of the suggestions,
then one suggestion per line:

    file, dir   paths, which the shell completes itself; no more lines follow
    plain       whole words
    part        words that may continue, so that no space follows them

bash receives quoted text. zsh and fish quote by themselves; they receive the plain words, each with
a tab and its explanation if there is one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from kgroup.atomic_file import FileKind, check_output, output_file
from kgroup.cli.command_group import Command
from kgroup.cli.option.common import examples
from kgroup.cli.output.context import warn, write
from kgroup.cli.shell.suggestion import PART
from kgroup.errors import ExitStatus, InputError

_NEEDS_BACKSLASH = re.compile(r"[^\w@%+=:,./-]")
_NEEDS_BACKSLASH_IN_QUOTES = re.compile(r'["$`\\]')


@dataclass(frozen=True, slots=True)
class TypedLine:
    """The typed words, without quotes and backslashes.

    Attributes:
        words: words before the one with the cursor; the first is the program.
        current: word with the cursor, up to the cursor; may be empty.
        kept: prefix of `current` that bash keeps: characters like : and = end a word, and bash
            replaces only the text after the last of them.
        quote: quote that is open at the cursor, or "".
    """

    words: tuple[str, ...]
    current: str
    kept: str
    quote: str

    def replacement(self, word: str) -> str | None:
        """Return the quoted text after the prefix that bash keeps; None if the prefix differs."""
        if not word.startswith(self.kept):
            return None
        rest = word[len(self.kept) :]
        if self.quote == "'":
            return rest.replace("'", "'\\''")
        if self.quote:
            return _NEEDS_BACKSLASH_IN_QUOTES.sub(r"\\\g<0>", rest)
        return _NEEDS_BACKSLASH.sub(r"\\\g<0>", rest)


def read_bash(line: str, breaks: str) -> TypedLine:
    """Parse a line by bash's quoting rules.

    Args:
        line: line up to the cursor.
        breaks: characters at which readline ends words: ``$COMP_WORDBREAKS``.
    """
    words: list[str] = []
    word = kept = kept_before = quote = ""
    is_word = is_escaped = False
    for char in line:
        if is_escaped:
            literal = quote and char not in '"$`\\'  # in quotes, a backslash escapes only these
            word += f"\\{char}" if literal else char
            is_escaped = False
        elif char == "\\" and quote != "'":
            is_word = is_escaped = True
        elif char == quote:
            quote, kept = "", kept_before
        elif quote:
            word += char
        elif char in "'\"":
            quote, is_word = char, True
            kept_before, kept = kept, word
        elif char.isspace():
            if is_word:
                words.append(word)
            word = kept = ""
            is_word = False
        else:
            word += char
            is_word = True
            if char in breaks:
                kept = word
    return TypedLine(tuple(words), word, kept, quote)


def read_fish_word(word: str) -> str:
    """Return a fish word without quotes and backslashes; fish has escapes in single quotes, too."""
    text = quote = ""
    is_escaped = False
    for char in word:
        if is_escaped:
            escapes = {"'": "'\\", '"': '"$\\'}.get(quote)
            text += char if escapes is None or char in escapes else f"\\{char}"
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        else:
            text += char
    return text


_FILES = {"bash": "kgroup.bash", "zsh": "_kgroup", "fish": "kgroup.fish"}
SHELLS = tuple(_FILES)


def script(shell: str) -> str:
    """Return the script for one of `SHELLS`."""
    return (Path(__file__).parents[1] / "shell" / _FILES[shell]).read_text("utf-8")


_COMMAND = "source <(kgroup completion {})"
_IF_INSTALLED = "if command -v kgroup > /dev/null; then {}; fi"
"""Prevents errors in new shells if kgroup is not installed."""
_ZSH_SYSTEM = "(( $+functions[compdef] )) || { autoload -Uz compinit; compinit }; "
"""Initializes zsh completion if it is not active yet."""


def install(shell: str, *, force: bool = False) -> str:
    """Install completion if it is missing; return a message.

    bash and zsh get a line at the end of the startup file of interactive shells, fish gets its own
    file.

    Args:
        shell: one of `SHELLS`.
        force: whether to replace fish's file if kgroup did not write it.

    Raises:
        InputError: the file exists and was not written by kgroup, or there is no home folder.
        OSError: the file cannot be read or written.
    """
    if shell == "fish":
        return _install_file(
            _folder("XDG_CONFIG_HOME", ".config") / "fish/completions/kgroup.fish", force=force
        )
    if shell == "zsh":
        return _add_line(_folder("ZDOTDIR", "") / ".zshrc", shell, _ZSH_SYSTEM)
    return _add_line(_home() / ".bashrc", shell)


def _folder(variable: str, default: str) -> Path:
    """Return the folder in an environment variable, or a default in the home folder."""
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
        return f"completion is already installed in {path}; nothing was changed"
    line = _IF_INSTALLED.format(before + command)
    path.parent.mkdir(parents=True, exist_ok=True)
    end = "\n" if text and not text.endswith(b"\n") else ""
    try:
        with path.open("ab") as file:
            file.write(f"{end}{line}\n".encode())
    except OSError as error:  # for example, the disk is full
        with suppress(OSError):
            os.truncate(path, len(text))
        raise OSError(error.errno, error.strerror, str(path)) from error
    return f"added a line to {path}; new shells complete kgroup, this one after: {command}"


def _install_file(path: Path, *, force: bool) -> str:
    wanted = script("fish").encode()
    if check_output(path, FileKind.COMPLETION, force=force) and path.read_bytes() == wanted:
        return f"completion is already installed in {path}; nothing was changed"
    path.parent.mkdir(parents=True, exist_ok=True)
    with output_file(path, FileKind.COMPLETION, force=force) as file:
        file.write(wanted)
    return f"wrote {path}; fish completes kgroup from now on"


_BASH_ARGUMENTS = ("the line up to the cursor", "$COMP_WORDBREAKS")
"""Arguments of the bash script."""


@click.command(
    "completion",
    cls=Command,
    epilog=examples(
        "kgroup completion --install",
        "kgroup completion bash",
        "kgroup completion zsh > ~/.zsh/completions/_kgroup",
        "kgroup completion fish > ~/.config/fish/completions/kgroup.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.argument("typed", nargs=-1, type=click.UNPROCESSED, metavar="")
@click.option(
    "--install",
    "installs",
    is_flag=True,
    help="Install completion, unless it is installed: a line in ~/.bashrc or ~/.zshrc, or a file "
    "for fish.  [default: the shell of $SHELL]",
)
@click.option(
    "--force",
    is_flag=True,
    help="With --install: replace a file for fish that kgroup did not write.",
)
def command(shell: str | None, typed: Sequence[str], installs: bool, force: bool) -> ExitStatus:
    """Print or install the completion script of a shell.

    To try it in bash, run: source <(kgroup completion bash); in zsh, the same after compinit.
    --install sets it up for all new shells. Completes commands, options and their values, and ids
    of groups, members and topics from the source on the command line, or from
    $KGROUP_BOOTSTRAP_SERVER. Waits for a source at most one second, or $KGROUP_COMPLETION_TIMEOUT
    seconds.
    """
    if installs and shell is None:
        shell = os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        variable = f"; $SHELL is {shell}" if shell else ""
        raise click.UsageError(f"no shell given: name one of {', '.join(SHELLS)}{variable}")
    if force and not installs:
        raise click.UsageError("--force requires --install")
    if typed and (installs or (shell == "bash" and len(typed) != len(_BASH_ARGUMENTS))):
        raise click.UsageError(f"Got unexpected extra argument ({typed[0]})")
    if installs:
        warn(install(shell, force=force))
        return ExitStatus.DONE
    if not typed:
        write([script(shell)])
        return ExitStatus.DONE
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        lines = list(_answer(shell, typed))
    write(f"{line}\n" for line in lines)
    return ExitStatus.DONE


def _answer(shell: str, typed: Sequence[str]) -> Iterator[str]:
    """Yield the output lines, as described in the module docstring.

    Args:
        shell: one of `SHELLS`.
        typed: arguments of the script: for bash see `_BASH_ARGUMENTS`, for others the words after
            the program.
    """
    from click.shell_completion import ShellComplete

    from kgroup.cli.main import ALIASES, COMMANDS, kgroup

    if shell == "bash":
        line = read_bash(typed[0], typed[1])
    else:
        current = read_fish_word(typed[-1]) if shell == "fish" else typed[-1]
        line = TypedLine(("kgroup", *typed[:-1]), current, "", "")
    names = (*COMMANDS, *ALIASES)
    if len(line.words) > 1 and line.words[1] not in names and line.words[1][:1] != "-":
        return
    words = list(line.words[1:])
    completer = ShellComplete(kgroup, {"obj": tuple(words)}, "kgroup", "")
    items = completer.get_completions(words, line.current)
    kinds = {item.type for item in items}
    if kinds & {"file", "dir"}:
        yield "file" if "file" in kinds else "dir"
        return
    yield PART if PART in kinds else "plain"
    option, equals, _ = line.current.partition("=")
    before = f"{option}{equals}" if equals and option.startswith("-") else ""
    for item in items:
        word = f"{before}{item.value}"
        if shell == "bash":
            replacement = line.replacement(word)
            if replacement is not None:
                yield replacement
        else:
            yield f"{word}\t{item.help}" if item.help else word
