"""`kgroup completion`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr

import click

from kgroup.cli.option.common import examples
from kgroup.cli.output.context import warn, write
from kgroup.cli.shell.command_line import TypedLine, read_bash, read_fish_word
from kgroup.cli.shell.script import SHELLS, script
from kgroup.cli.shell.suggestion import PART
from kgroup.errors import ExitStatus

_OF_BASH = ("the line up to the cursor", "$COMP_WORDBREAKS")
"""What its script hands over."""


@click.command(
    "completion",
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
    help="Put it where the shell finds it, unless it is there: a line in ~/.bashrc or ~/.zshrc, a "
    "file for fish.  [default: the shell of $SHELL]",
)
@click.option(
    "--force", is_flag=True, help="Replace a file for fish that kgroup did not write (--install)."
)
def command(shell: str | None, typed: Sequence[str], installs: bool, force: bool) -> ExitStatus:
    """Print the script that completes command lines in a shell.

    In bash: source <(kgroup completion bash), in zsh the same after compinit; for fish and zsh
    there are also folders of such scripts; --install does what is needed. Completed are commands,
    options and their values, and ids of the groups, members and topics that the source on the
    command line has, or $KGROUP_BOOTSTRAP_SERVER. No source is waited for longer than a second, or
    $KGROUP_COMPLETION_TIMEOUT.
    """
    if installs and shell is None:
        shell = os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        found = f"; $SHELL is {shell}" if shell else ""
        raise click.UsageError(f"which shell? Name one of {', '.join(SHELLS)}{found}")
    if force and not installs:
        raise click.UsageError("--force is for --install; leave it out")
    if typed and (installs or (shell == "bash" and len(typed) != len(_OF_BASH))):
        raise click.UsageError(f"Got unexpected extra argument ({typed[0]})")
    if installs:
        from kgroup.cli.shell.install import install

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
    """Yield the lines for the script; see `kgroup.cli.shell.script`.

    Args:
        shell: of `SHELLS`.
        typed: what its script hands over: for bash see `_OF_BASH`, for the others the words
            behind the program.
    """
    from click.shell_completion import ShellComplete

    from kgroup.cli.main import COMMANDS, kgroup

    if shell == "bash":
        line = read_bash(typed[0], typed[1])
    else:
        current = read_fish_word(typed[-1]) if shell == "fish" else typed[-1]
        line = TypedLine(("kgroup", *typed[:-1]), current, "", "")
    if len(line.words) > 1 and line.words[1] not in COMMANDS and line.words[1][:1] != "-":
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
