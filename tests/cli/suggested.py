"""What completion suggests for a line."""

from __future__ import annotations

import shlex

from tests.cli.command_line import Cli

BREAKS = " \t\n\"'@><=;|&(:"
"""$COMP_WORDBREAKS of bash."""


def suggested(cli: Cli, line: str, shell: str = "zsh") -> tuple[str, list[str]]:
    """Return the kind, and the words or what bash is to type."""
    if shell == "bash":
        result = cli("completion", "bash", "--", line, BREAKS)
    else:
        words = shlex.split(line)[1:] + ([""] if line.endswith(" ") else [])
        result = cli("completion", shell, "--", *words)
    assert (result.status, result.err) == (0, "")
    kind, *words = result.out.splitlines() or [""]
    return kind, [word.split("\t")[0] for word in words]
