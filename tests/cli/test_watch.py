"""`kgroup describe --watch` and `kgroup list --watch`, as processes: in a pipe, on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kgroup.operation.watch import ChangeKind
from kgroup.source.base import Question
from tests.cli.command_line import Cli
from tests.cli.fake_cluster import FakeCluster
from tests.columnar.log_writer import batch
from tests.default_signals import default_signals
from tests.operation.log_files import commit
from tests.waiting import until

PROGRAM = [sys.executable, "-m", "kgroup"]
COMMAND = [*PROGRAM, "describe"]
SAMPLE = Path(__file__).parents[2] / "kgroup/sample/log-dir"
TIMEOUT_S = 60
SEGMENT = "00000000000000000000.log"


@dataclass(frozen=True)
class Log:
    """A copy of the group "order-service" in the sample, to which commits can be added."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "__consumer_offsets-6"

    def commit(self, partition: int, offset: int) -> None:
        with (self.folder / SEGMENT).open("ab") as file:
            at = 1_000_000 + offset
            record = commit(
                at, "order-service", topic="orders", partition=partition, committed=offset
            )
            file.write(batch([record]))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path / "log")
    log.folder.mkdir(parents=True)
    shutil.copy(SAMPLE / log.folder.name / SEGMENT, log.folder / SEGMENT)
    return log


@dataclass
class Piped:
    """A watch that writes JSON lines."""

    process: subprocess.Popen[str]

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def error(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()


@pytest.fixture
def piped(log: Log) -> Iterator[Piped]:
    process = subprocess.Popen(
        [*COMMAND, "--log-dir", str(log.root), "order-service", "--watch", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )
    yield Piped(process)
    process.kill()
    process.communicate()


FIELDS = [
    *("time_ms", "group_id", "change", "member_id", "topic", "partition", "topic_id"),
    *("before", "after"),
]


@pytest.mark.slow
def test_a_pipe_gets_a_line_for_each_change(log: Log, piped: Piped, cli: Cli) -> None:
    first = piped.line()
    assert list(first) == FIELDS
    assert (first["group_id"], first["change"]) == ("order-service", "group-found")
    described = cli("describe", "--log-dir", log.root, "order-service", "-o", "jsonl")
    assert first["after"] == json.loads(described.out)
    old = {(o["topic"], o["partition"]): o for o in first["after"]["offsets"]}["orders", 1]
    began_ms = time.time_ns() // 1_000_000
    log.commit(1, 4711)
    change = piped.line()
    assert list(change) == FIELDS
    assert began_ms <= change.pop("time_ms") <= time.time_ns() // 1_000_000
    change.pop("topic_id")
    assert change == {
        "group_id": "order-service",
        "change": "committed-offset",
        "member_id": None,
        "topic": "orders",
        "partition": 1,
        "before": old["committed_offset"],
        "after": 4711,
    }
    piped.process.send_signal(signal.SIGINT)
    assert piped.process.wait(TIMEOUT_S) == 130
    assert piped.process.communicate() == ("", "")


def test_names_are_asked_for_once_for_a_group_that_is_not_there(
    cli: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = iter(range(3))

    def renew(*, after_failure: bool) -> None:
        if next(rounds, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "renew", renew, raising=False)
    watch = cli("describe", "--bootstrap-server", "kafka:9092", "life", "--watch", "0.001")
    assert watch.status == 130
    assert "The group does not exist; did you mean 'live'?" in watch.err
    questions = [question for question in cluster.asked if isinstance(question, Question)]
    assert [question.members for question in questions] == [True, False, True, True, True]


@pytest.mark.slow
def test_a_round_that_fails_is_told_and_passed_over(log: Log, piped: Piped) -> None:
    assert piped.line()["change"] == "group-found"
    away = log.root.with_name("away")
    log.root.rename(away)
    error = piped.error()
    away.rename(log.root)
    over = "kgroup: note: no more errors\n"
    assert error != over
    while error != over:  # a round that had begun may have met another error than the next one
        assert re.fullmatch(r"kgroup: \S.*\n", error)
        error = piped.error()
    log.commit(1, 4711)
    assert piped.line()["change"] == "committed-offset"


def test_a_first_round_that_fails_ends_it(cli: Cli, tmp_path: Path) -> None:
    result = cli("describe", "--log-dir", tmp_path / "nowhere", "g", "--watch", "1")
    assert (result.status, result.out) == (1, "")


@pytest.mark.slow
def test_a_reader_that_has_gone_ends_it(piped: Piped) -> None:
    """Though nothing changes, and so nothing is written."""
    assert piped.line()["change"] == "group-found"
    assert piped.process.stdout is not None
    piped.process.stdout.close()
    assert piped.process.wait(TIMEOUT_S) == 141


@pytest.mark.slow
def test_a_group_that_is_not_there_yet(log: Log) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--log-dir", str(log.root), "later", "--watch", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    piped = Piped(process)
    try:
        assert "group 'later': not-found: The group does not exist; " in piped.error()
        with (log.folder / SEGMENT).open("ab") as file:
            file.write(batch([commit(1_000_000, "later")]))
        found = piped.line()
        assert (found["group_id"], found["change"]) == ("later", "group-found")
    finally:
        process.kill()
        process.communicate()


class Terminal:
    """A watch on a terminal, and all that it wrote so far."""

    def __init__(self, *args: str, lines: int = 60, columns: int = 150) -> None:
        self._parent, child = pty.openpty()
        termios.tcsetwinsize(child, (lines, columns))
        os.set_blocking(self._parent, False)
        environment = {**os.environ, "TERM": "xterm"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [*PROGRAM, *args],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            preexec_fn=default_signals,
        )
        os.close(child)
        self.text = ""

    def read(self) -> str:
        while True:
            try:
                part = os.read(self._parent, 1 << 16)
            except OSError:  # nothing there, or the other side is closed
                return self.text
            if not part:
                return self.text
            self.text += part.decode()

    def pages(self) -> list[list[str]]:
        """Whole pages so far, as lines without colours."""
        found = re.findall(r"\x1b\[\?2026h\x1b\[H(.*?)\x1b\[J\x1b\[\?2026l", self.read(), re.DOTALL)
        return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", page).split("\r\n") for page in found]

    def page_with(self, text: str) -> list[str]:
        """Wait for a page that has this text."""
        found: list[str] = until(
            lambda: next((p for p in reversed(self.pages()) if text in "\n".join(p)), None)
        )
        return found

    def end(self) -> str:
        """Press Ctrl-C, and give what is on the ordinary screen then."""
        self.process.send_signal(signal.SIGINT)
        until(lambda: (self.read(), self.process.poll() is not None)[1])
        return self.read().rpartition("\x1b[?1049l")[2].replace("\r\n", "\n")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._parent)


@pytest.fixture
def terminal(log: Log) -> Iterator[Callable[..., Terminal]]:
    opened = []

    def start(*args: str, **size: int) -> Terminal:
        opened.append(
            Terminal(
                *("describe", "--log-dir", str(log.root), "order-service", "--watch", "0.1"),
                *args,
                **size,
            )
        )
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.mark.slow
def test_a_terminal_is_redrawn_with_what_changed_marked(
    log: Log, terminal: Callable[..., Terminal]
) -> None:
    watch = terminal("--offsets")
    page = watch.page_with("order-service  Stable")
    assert page[0].endswith("every 0.1 s; * has changed since the last")
    assert not any("*" in line for line in page[1:])
    log.commit(1, 4711)
    marked = watch.page_with("*4711")
    (row,) = [line for line in marked if "*4711" in line]
    assert row.split()[0] == "1"
    assert "\x1b[1;7m*4711\x1b[0m" in watch.text
    # It is a change for one round only.
    until(lambda: "*4711" not in "\n".join(watch.pages()[-1]))
    assert " 4711 " in "\n".join(watch.pages()[-1])
    left = watch.end()
    assert watch.process.returncode == 130
    assert re.search("order-service.*  .*Stable", left)
    assert "4711" in left
    assert "Traceback" not in left
    assert watch.text.startswith("\x1b[?1049h")
    assert watch.text.count("\x1b[?1049h") == watch.text.count("\x1b[?1049l") == 1
    assert watch.text.rindex("\x1b[?25h") > watch.text.rindex("\x1b[?25l")
    # Nothing is ever cleared before it is drawn over: that would flicker.
    assert "\x1b[2J" not in watch.text


@pytest.mark.slow
def test_a_page_longer_than_the_terminal_is_cut_and_left_whole(
    terminal: Callable[..., Terminal],
) -> None:
    watch = terminal(lines=12)
    page = watch.page_with("more lines")
    assert len(page) == 12
    assert page[-1].startswith("… ")
    assert "\nPartitions" not in "\n".join(page)
    assert "\nPartitions" in re.sub(r"\x1b\[[0-9;]*m", "", watch.end())


@pytest.mark.slow
def test_errors_are_shown_above_the_groups(log: Log, terminal: Callable[..., Terminal]) -> None:
    watch = terminal("--state")
    watch.page_with("order-service  Stable")
    away = log.root.with_name("away")
    log.root.rename(away)
    page = watch.page_with("\n! ")
    assert any(line.startswith("order-service  Stable") for line in page)
    away.rename(log.root)
    until(lambda: not any(line.startswith("! ") for line in watch.pages()[-1]))


@pytest.mark.slow
def test_a_list_on_a_terminal_keeps_its_groups_while_reading_fails(log: Log) -> None:
    watch = Terminal("list", "--log-dir", str(log.root), "--watch", "0.1")
    try:
        page = watch.page_with("order-service")
        assert page[0].endswith("every 0.1 s")
        away = log.root.with_name("away")
        log.root.rename(away)
        page = watch.page_with("\n! ")
        assert any(line.startswith("order-service") for line in page)
        away.rename(log.root)
        until(lambda: not any(line.startswith("! ") for line in watch.pages()[-1]))
        assert "order-service" in watch.end()
        assert watch.process.returncode == 130
    finally:
        watch.close()


@pytest.mark.slow
def test_a_list_in_a_pipe_is_written_at_each_refresh(log: Log) -> None:
    words = ["--log-dir", str(log.root), "--regex", "order-.*", "--watch", "0.1"]
    process = subprocess.Popen([*PROGRAM, "list", *words], stdout=subprocess.PIPE, text=True)
    try:
        piped = Piped(process)
        first = piped.line()
        assert (first["group_id"], piped.line()["group_id"]) == ("order-service", "order-service")
        log.commit(77, 4711)
        until(lambda: piped.line()["unknown_count"] == first["unknown_count"] + 1)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_lines_on_a_terminal_where_they_are_asked_for(terminal: Callable[..., Terminal]) -> None:
    watch = terminal("-o", "jsonl")
    until(lambda: '"change":"group-found"' in watch.read())
    assert "\x1b" not in watch.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--watch", "0"], "greater than 0"),
        (["--watch", "-1"], "greater than 0"),
        (["--watch", "nan"], "greater than 0"),
        (["--watch", "inf"], "greater than 0"),
        (["--watch", "soon"], "--watch"),
        (["--watch", "1", "-o", "json"], "leave out other formats"),
        (["--watch", "1", "-o", "csv"], "leave out other formats"),
        (["--watch", "1", "--columns", "lag"], "and --columns"),
        (["--watch", "1", "--time-lag"], "from a cluster"),
    ],
)
def test_wrong_usage(cli: Cli, options: list[str], message: str) -> None:
    result = cli("describe", "--sample", "--all", *options)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_every_kind_of_change_has_a_sentence() -> None:
    assert all(kind.sentence.endswith(".") for kind in ChangeKind)
