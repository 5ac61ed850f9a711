"""Long tables on a terminal, which `$PAGER` shows."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kgroup.cli.output.context import write
from kgroup.cli.output.pager import write_paged
from tests.columnar.log_writer import batch
from tests.operation.log_files import Log, commit

MARKING = "sed s/^/paged:/"
ROWS = [f"\x1b[36mrow {number}\x1b[0m\n" for number in range(24)]


def terminal(lines: int) -> tuple[int, int]:
    """Open a pseudo-terminal; return its two ends."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
    return parent, child


def shown(monkeypatch: pytest.MonkeyPatch, pager: str, lines: int = 24) -> str:
    """Write the rows to a terminal; return what it gets."""
    parent, child = terminal(lines)
    with monkeypatch.context() as patch, open(child, "w") as out:
        patch.setenv("PAGER", pager)
        patch.setattr(sys, "stdout", out)
        assert write_paged(ROWS, write)
        out.flush()
        text = os.read(parent, 1 << 16).decode().replace("\r\n", "\n")
    os.close(parent)
    return text


def test_the_pager_shows_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert shown(monkeypatch, MARKING) == "".join(f"paged:{row}" for row in ROWS)
    assert shown(monkeypatch, MARKING, lines=25) == "".join(ROWS)
    monkeypatch.setenv("TERM", "dumb")
    assert shown(monkeypatch, MARKING) == "".join(ROWS)


@pytest.mark.parametrize("pager", ["", "cat", "no-such-pager -R", "less '"])
def test_without_a_pager(monkeypatch: pytest.MonkeyPatch, pager: str) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert shown(monkeypatch, pager) == "".join(ROWS)


def test_an_interrupt_is_the_pager_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert shown(monkeypatch, "sh -c 'kill -INT $PPID; head -n 1'") == ROWS[0]


@pytest.mark.parametrize(
    ("options", "is_quit"), [((), True), (("--no-pager",), False), (("-o", "tsv"), False)]
)
def test_quitting_is_no_error(tmp_path: Path, options: tuple[str, ...], is_quit: bool) -> None:
    """A name that was not found yet may be in the rest, which is not read."""
    log = Log(tmp_path)
    log.add(0, batch([commit(at, "g", topic=f"{at}-{'t' * 200}") for at in range(1000)]))
    parent, child = terminal(24)
    command = [sys.executable, "-m", "kgroup", "decode-offsets", str(tmp_path)]
    with open(child, "w") as out:
        process = subprocess.Popen(
            [*command, "--group", "g", "--group", "h", *options],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "PAGER": "head -n 1"},
        )
    while True:
        try:
            if not os.read(parent, 1 << 16):
                break
        except OSError:  # the terminal has no writer any more
            break
    _, errors = process.communicate()
    os.close(parent)
    assert process.returncode == (0 if is_quit else 4)
    assert (b"There is no record about the group" in errors) is not is_quit
    assert b"Traceback" not in errors
