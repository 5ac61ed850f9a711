"""Real interactive shells on a terminal of their own, to press the tab key in.

A key of each shell writes the words of the edited line, as the shell itself reads them, to a file.
Keys are worked on one after another, so what stands there is what the tab key has made of the line.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from tests.broker.process import ServerError

DEADLINE_S = 90.0
DUMP = "\x0f"  # Ctrl-O
CLEAR = "\x15"  # Ctrl-U

_BASH = r"""
bind 'set bell-style none'; bind 'set enable-bracketed-paste off'
words_of_line() {{
    eval "words=($READLINE_LINE)"
    printf '%s\0' "${{words[@]}}" > '{out}.new'; mv '{out}.new' '{out}'
}}
bind -x '"\C-o": words_of_line'
source '{script}'
"""
_ZSH = r"""
autoload -Uz compinit; compinit -u -D; unsetopt beep; unset zle_bracketed_paste
words_of_line() {{
    eval "words=($BUFFER)"; printf '%s\0' "${{words[@]}}" > '{out}.new'; mv '{out}.new' '{out}'
}}
zle -N words_of_line; bindkey '^O' words_of_line; bindkey '^U' kill-whole-line
source '{script}'
"""
_FISH = r"""
function fish_prompt; end
function words_of_line
    eval set -l words (commandline)
    printf '%s\0' $words > '{out}.new'; mv '{out}.new' '{out}'
end
bind \co words_of_line; bind \cu 'commandline ""'
source '{script}'
"""

SHELLS: Mapping[str, tuple[list[str], str, str]] = {
    "bash": (["bash", "--noprofile", "--rcfile"], _BASH, "kgroup.bash"),
    "zsh": (["zsh", "-f", "-i"], _ZSH, "_kgroup"),
    "fish": (["fish", "--no-config", "--init-command"], _FISH, "kgroup.fish"),
}
"""Command, set-up and file of the completion, by name of the shell."""


class Shell:
    """One interactive shell."""

    def __init__(self, terminal: int, out: Path) -> None:
        self.said = b""
        self._terminal = terminal
        self._out = out

    def press(self, keys: str) -> list[str]:
        """Type into an empty line, and give the words that then stand there."""
        self._out.unlink(missing_ok=True)
        self._send(CLEAR + keys + DUMP)
        deadline = monotonic() + DEADLINE_S
        while not self._out.exists():
            self.read()
            if monotonic() > deadline:
                raise ServerError(f"the shell does not answer\n{self.said[-4000:].decode()}")
        return self._out.read_text("utf-8").split("\0")[:-1]

    def tab(self, line: str) -> list[str]:
        """Type a line and the tab key."""
        return self.press(f"{line}\t")

    def run(self, line: str) -> None:
        """Run a command in the shell."""
        self._send(f"{line}\r")

    def read(self) -> None:
        """Take what the shell shows, if only to let it go on."""
        if select.select([self._terminal], [], [], 0.05)[0]:
            self.said += os.read(self._terminal, 1 << 16)

    def _send(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())


@contextmanager
def shell(name: str, script: Path, work: Path, env: Mapping[str, str]) -> Iterator[Shell]:
    """Start a shell with a completion script, and wait until it edits lines."""
    if shutil.which(name) is None:
        raise ServerError(f"the tests of completion need {name}: 'make shells' installs it")
    work.mkdir(parents=True, exist_ok=True)
    command, setup, _ = SHELLS[name]
    out = work / "words"
    rc = work / "rc"
    rc.write_text(setup.format(out=out, script=script), "utf-8")
    command = command + {"bash": [str(rc), "-i"], "zsh": [], "fish": [f"source '{rc}'"]}[name]
    ours, theirs = pty.openpty()
    environment = {
        "TERM": "dumb" if name != "fish" else "xterm",
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "INPUTRC": "/dev/null",
        **env,
    }
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=work,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    try:
        opened = Shell(ours, out)
        if name == "zsh":
            opened.run(f"source '{rc}'")
        deadline = monotonic() + DEADLINE_S
        while True:  # what is typed before the first prompt may get lost
            out.unlink(missing_ok=True)
            opened._send(f"{CLEAR}ready{DUMP}")
            sleep(0.2)
            opened.read()
            if out.exists() and out.read_text("utf-8") == "ready\0":
                break
            if monotonic() > deadline:
                raise ServerError(f"{name} does not start\n{opened.said.decode()}")
        # What was typed above in vain may still be read: this comes last.
        opened._send(f"{CLEAR}steady{DUMP}")
        while out.read_text("utf-8") != "steady\0":
            opened.read()
            if monotonic() > deadline:
                raise ServerError(f"{name} does not rest\n{opened.said.decode()}")
        yield opened
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
