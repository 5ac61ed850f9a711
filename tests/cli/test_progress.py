from __future__ import annotations

import io
import sys

import pytest

from kgroup.cli.command import decode_offsets
from kgroup.cli.main import status_of
from kgroup.cli.output import described, progress
from kgroup.cli.output.progress import ProgressLine
from kgroup.columnar.log_reader import FileLogs, LogReader


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put standard error on a terminal, standard output in a pipe, and wait for nothing."""
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    monkeypatch.setattr(progress, "is_terminal", lambda: False)
    return stderr


def run() -> LogReader:
    log = LogReader(FileLogs([]))
    log.file_count, log.files_read, log.rows_read = 3, 2, 1_234_567
    return log


def test_a_line_that_is_written_over_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    shown = ProgressLine(writes_rows=True)
    shown.show_rows(run())
    assert terminal.getvalue() == "\r\x1b[Kfile 2 of 3, 1,234,567 records"
    shown.clear()
    assert terminal.getvalue().endswith("records\r\x1b[K")
    before = terminal.getvalue()
    shown.clear()
    assert terminal.getvalue() == before


@pytest.mark.parametrize(
    ("done", "size", "text"),
    [
        (0, 700, "read 0 of 700 bytes"),
        (2048, 10_300, "read 2 of 10 KiB"),
        (3 << 20, 5 << 30, "read 3 of 5,120 MiB"),
    ],
)
def test_bytes_of_large_and_small_inputs(
    monkeypatch: pytest.MonkeyPatch, done: int, size: int, text: str
) -> None:
    terminal = on_terminal(monkeypatch)
    ProgressLine(writes_rows=True).show_bytes(done, size)
    assert terminal.getvalue() == f"\r\x1b[K{text}"


def test_nothing_for_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(progress, "FIRST_S", 1000.0)
    shown = ProgressLine(writes_rows=True)
    shown.show_rows(run())
    shown.clear()
    assert terminal.getvalue() == ""


def test_nothing_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    shown = ProgressLine(writes_rows=True)
    shown.show_rows(run())
    shown.on_compile()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("writes_rows", "is_shown"), [(True, False), (False, True)])
def test_nothing_between_rows_on_the_same_terminal(
    monkeypatch: pytest.MonkeyPatch, writes_rows: bool, is_shown: bool
) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    ProgressLine(writes_rows=writes_rows).show_rows(run())
    assert (terminal.getvalue() != "") is is_shown


@pytest.mark.parametrize(("words", "is_shown"), [((), True), (("--watch", "1"), False)])
def test_nothing_between_the_rounds_of_a_watch(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], is_shown: bool
) -> None:
    terminal = on_terminal(monkeypatch)

    def wait(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(described._Lines, "wait", wait)
    status_of(["describe", "--sample", "order-service", *words])
    assert ("KiB" in terminal.getvalue()) is is_shown


def test_the_first_compilation_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    ProgressLine(writes_rows=True).on_compile()
    assert terminal.getvalue() == (
        "kgroup: compiling the decoder for large inputs; this happens once\n"
    )


def test_a_simulation_tells_how_much_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member polls twice a second, which takes some seconds of processor for each day."""
    terminal = on_terminal(monkeypatch)
    text = 'duration = "1h"\n[topics]\nt = 1\n[[member]]\nname = "a"\ntopics = ["t"]\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert status_of(["simulate", "-", "--runs", "2"]) == 0
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[1:8] == [
        *(f"simulated {number} min of 2 h" for number in range(10, 60, 10)),
        "simulated 1 h of 2 h",
        "simulated 1 h 10 min of 2 h",
    ]
    assert lines[-2:] == ["simulated 2 h of 2 h", ""]


def test_the_line_is_gone_before_counts_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    before: list[str] = []
    monkeypatch.setattr(decode_offsets, "show", lambda *_: before.append(terminal.getvalue()))
    assert status_of(["decode-offsets", "--sample", "--stats"]) == 0
    (text,) = before
    assert "records" in text
    assert text.endswith("\r\x1b[K")
