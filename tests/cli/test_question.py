"""What --execute asks on a terminal, and what becomes of each answer."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgroup.source.sql.store import SqlOffsetStore
from tests.source.sql.stored import new, query
from tests.waiting import until_asleep

pytestmark = pytest.mark.slow

TIMEOUT_S = 60
RESET = ["offsets", "reset", "--sql", "o.db", "g", "--shift-by", "2", "--allow-skip"]
QUESTION = "Change 1 offset of 1 group in sqlite:///"
UNDO = "; to undo this: kgroup offsets import kgroup-offsets-"
LEFT = "kgroup: error: aborted: not confirmed; nothing was changed\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table, in which a group has committed 5."""
    store = SqlOffsetStore(str(tmp_path / "o.db"))
    store.create_table()
    store.write_offsets({"g": new({("t", 0): 5})})
    return tmp_path


@dataclass
class Terminal:
    """A process whose standard input and errors are a terminal."""

    process: subprocess.Popen[bytes]
    number: int
    seen: str = ""

    def until(self, text: str) -> None:
        """Wait until it has written this."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), self.seen

    def type(self, keys: str) -> None:
        os.write(self.number, keys.encode())

    def end(self) -> tuple[int, str, str]:
        """Give its status, its standard output, and what the terminal showed."""
        while self._read():
            pass
        out, _ = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out.decode(), self.seen

    def _read(self) -> bool:
        try:
            part = os.read(self.number, 1 << 16)
        except OSError:  # the other side is closed
            return False
        self.seen += part.decode().replace("\r\n", "\n")
        return bool(part)


@contextmanager
def on_terminal(folder: Path, *arguments: str, errors: Path | None = None) -> Iterator[Terminal]:
    """Run kgroup on a terminal that is its own; its standard output is a pipe.

    Args:
        folder: to run in.
        arguments: of kgroup.
        errors: file in the place of the terminal, for standard error.
    """
    parent, child = pty.openpty()
    stderr = child if errors is None else os.open(errors, os.O_WRONLY | os.O_CREAT)
    process = subprocess.Popen(
        [sys.executable, "-m", "kgroup", *arguments],
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=folder,
        env={**os.environ, "TERM": "dumb", "PYTHONPATH": str(Path(__file__).parents[2])},
        preexec_fn=_take_terminal,
    )
    for number in {child, stderr}:
        os.close(number)
    try:
        yield Terminal(process, parent)
    finally:
        process.kill()
        process.wait()
        os.close(parent)


def _take_terminal() -> None:
    """Be who the terminal's Ctrl-C is for."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def committed(folder: Path) -> int:
    ((*_, offset),) = query(folder / "o.db")
    assert isinstance(offset, int)
    return offset


def backups(folder: Path) -> list[Path]:
    return list(folder.glob("kgroup-offsets-*.json"))


@pytest.mark.parametrize("answer", ["y\n", " YES\n"])
def test_yes_does_it(folder: Path, answer: str) -> None:
    with on_terminal(folder, *RESET, "--execute", "-o", "csv") as terminal:
        terminal.until(
            f"{QUESTION}{folder}/o.db, table t_offset (2 records skipped, 0 read again)? [y/N] "
        )
        assert "planned" in terminal.seen, "what is asked about is shown"
        assert (committed(folder), backups(folder)) == (5, [])
        terminal.type(answer)
        status, out, _ = terminal.end()
    assert status == 0
    assert out.startswith("group_id,"), "standard output has nothing but data"
    assert ",done" in out
    assert committed(folder) == 7
    assert len(backups(folder)) == 1


@pytest.mark.parametrize("answer", ["n\n", "\n", "yess\n", "\xff\n", "\x04"])
def test_anything_else_leaves_all(folder: Path, answer: str) -> None:
    """The last is Ctrl-D: the end of the input."""
    with on_terminal(folder, *RESET, "--execute") as terminal:
        terminal.until("[y/N] ")
        terminal.type(answer)
        status, out, seen = terminal.end()
    assert (status, out) == (1, "")
    assert seen.endswith("\n" + LEFT)
    assert (committed(folder), backups(folder)) == (5, [])


def test_what_was_typed_before_the_question_is_no_answer(folder: Path) -> None:
    """The rest of pasted lines, say."""
    with on_terminal(folder, *RESET, "--execute") as terminal:
        terminal.type("y\ny\n")
        terminal.until("[y/N] ")
        terminal.type("n\n")
        status, out, seen = terminal.end()
    assert (status, out) == (1, "")
    assert seen.endswith("\n" + LEFT)
    assert committed(folder) == 5


def test_no_is_an_error_in_a_document(folder: Path) -> None:
    with on_terminal(folder, *RESET, "--execute", "-o", "json") as terminal:
        terminal.until("[y/N] ")
        terminal.type("n\n")
        status, out, _ = terminal.end()
    assert status == 1
    assert '"data":[],"errors":[\n{' in out
    assert "nothing was changed" in out


def test_ctrl_c_leaves_all(folder: Path) -> None:
    with on_terminal(folder, *RESET, "--execute") as terminal:
        terminal.until("[y/N] ")
        until_asleep(terminal.process.pid)
        terminal.type("\x03")
        status, out, seen = terminal.end()
    assert (status, out) == (130, "")
    assert seen.endswith("\nkgroup: aborted: not confirmed; nothing was changed\n")
    assert "Abort" not in seen
    assert (committed(folder), backups(folder)) == (5, [])


def test_nobody_waits_for_an_answer_to_what_is_not_seen(folder: Path) -> None:
    with on_terminal(folder, *RESET, "--execute", errors=folder / "errors") as terminal:
        status, out, seen = terminal.end()
    assert (status, out, seen) == (2, "", "")
    assert (
        "asks for confirmation on standard error, which is not a terminal"
        in (folder / "errors").read_text()
    )
    assert (committed(folder), backups(folder)) == (5, [])
    with on_terminal(folder, *RESET, "--execute", "--yes", errors=folder / "errors") as terminal:
        assert terminal.end()[0] == 0
    assert committed(folder) == 7


def test_who_is_sure_is_not_asked(folder: Path) -> None:
    with on_terminal(folder, *RESET, "--execute", "--yes") as terminal:
        status, _, seen = terminal.end()
    assert (status, committed(folder)) == (0, 7)
    assert "[y/N]" not in seen
    assert UNDO in seen


SKIP = "Skip 2 unread records in 1 partition: t-0 (2)? [y/N] "
PLAIN = [word for word in RESET if word != "--allow-skip"]


@pytest.mark.parametrize(("answer", "left"), [("y\n", 7), ("n\n", 5)])
def test_skipping_is_asked_about_separately(folder: Path, answer: str, left: int) -> None:
    with on_terminal(folder, *PLAIN, "--execute") as terminal:
        terminal.until("(2 records skipped, 0 read again)? [y/N] ")
        assert terminal.seen.startswith("Skips 2 unread records in 1 partition: t-0 (2)\n")
        assert SKIP not in terminal.seen
        terminal.type("y\n")
        terminal.until(SKIP)
        assert (committed(folder), backups(folder)) == (5, [])
        terminal.type(answer)
        status, _, seen = terminal.end()
    assert (status, committed(folder)) == ((0, 7) if left == 7 else (1, 5))
    assert seen.endswith(LEFT) == (left == 5)


def test_who_is_sure_does_not_skip_by_that(folder: Path) -> None:
    with on_terminal(folder, *PLAIN, "--execute", "--yes") as terminal:
        status, out, seen = terminal.end()
    assert (status, out, committed(folder), backups(folder)) == (2, "", 5, [])
    assert "--execute would skip 2 unread records in 1 partition: t-0 (2); nothing was ch" in seen


def test_reading_again_is_asked_about_once(folder: Path) -> None:
    with on_terminal(folder, *PLAIN[:-1], "-2", "--execute") as terminal:
        terminal.until("[y/N] ")
        terminal.type("y\n")
        status, _, seen = terminal.end()
    assert (status, committed(folder), seen.count("[y/N]")) == (0, 3, 1)


def test_nothing_to_do_is_not_asked_about(folder: Path) -> None:
    with on_terminal(folder, *RESET[:-2], "0", "--execute") as terminal:
        status, out, seen = terminal.end()
    assert status == 0
    assert "unchanged" in out
    assert "[y/N]" not in seen
    assert backups(folder) == []


@pytest.mark.parametrize("closed", ["<&-", "</dev/null", "2>&- <&-", "| cat"])
def test_without_a_terminal_there_is_no_question(folder: Path, closed: str) -> None:
    command = " ".join([sys.executable, "-m", "kgroup", *RESET, "--execute", "-o", "csv"])
    pipe = "echo n | " if closed == "| cat" else ""
    done = subprocess.run(
        ["sh", "-c", f"{pipe}{command} {closed}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, ",done" in done.stdout) == (0, True), done.stderr
    assert "[y/N]" not in done.stderr
    assert committed(folder) == 7


def test_the_name_of_a_group_does_not_drive_the_terminal(folder: Path) -> None:
    """`members remove` asks with the name; nobody can be asked for here, so the asking is."""
    program = (
        "from kgroup.cli.option.execution import Execution\n"
        "Execution(True, False, None).ask((), lambda: 'Remove \\x1b[2J?')\n"
    )
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=child, stderr=child, stdout=subprocess.PIPE
    )
    os.close(child)
    terminal = Terminal(process, parent)
    terminal.until("[y/N] ")
    terminal.type("y\n")
    status, _, seen = terminal.end()
    os.close(parent)
    assert status == 0
    assert "Remove \\x1b[2J? [y/N] " in seen


def test_backups_of_one_second_have_names_of_their_own(folder: Path) -> None:
    command = [sys.executable, "-m", "kgroup", *RESET, "--execute", "--yes"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    count = 3
    for _ in range(count):
        subprocess.run(command, cwd=folder, check=True, env=environment, capture_output=True)
    assert committed(folder) == 5 + 2 * count
    assert len(backups(folder)) == count
