"""`kgroup top` in a real terminal: tmux shows what stands on the screen."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from tests.broker.servers import Broker
from tests.cli.command_line import Cli
from tests.waiting import until

SCREEN_AND_STATUS = "{} -m kgroup top {} --interval 0.5 2>{}; echo ended with $?; cat"


class Terminal:
    """A tmux server of its own, with one window that runs `kgroup top`."""

    def __init__(
        self, folder: Path, width: int, height: int, source: str, **environment: str
    ) -> None:
        self.errors = folder / "errors"
        self._tmux = ["tmux", "-S", str(folder / "socket"), "-f", os.devnull]
        script = SCREEN_AND_STATUS.format(sys.executable, source, self.errors)
        words = [f"{name}={value}" for name, value in environment.items()]
        command = shlex.join(["env", "-u", "NO_COLOR", *words, "sh", "-c", script])
        self._run("new-session", "-d", "-x", str(width), "-y", str(height), command)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._run("resize-window", "-x", str(width), "-y", str(height))

    def lines(self, *, styled: bool = False) -> list[str]:
        text = self._run("capture-pane", "-p", *(["-e"] if styled else []))
        return [line.rstrip() for line in text.splitlines()]

    def until(self, is_so: Callable[[list[str]], bool]) -> list[str]:
        """Wait for a screen, and return its lines."""

        def look() -> list[str] | None:
            lines = self.lines()
            return lines if is_so(lines) else None

        return until(look)

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to kgroup."""
        (shell,) = self._run("display", "-p", "#{pane_pid}").split()
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(children[0]), number)

    def close(self) -> None:
        self._run("kill-server")


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(
        width: int = 80, height: int = 24, source: str = "--sample", **environment: str
    ) -> Terminal:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        opened.append(Terminal(folder, width, height, source, **environment))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def rows(lines: list[str]) -> list[str]:
    """Return the group ids on the screen, in order."""
    return [line[2:].split()[0] for line in lines[3:-1] if line.strip()]


def is_list(lines: list[str]) -> bool:
    return len(lines) > 3 and lines[2].lstrip().startswith("GROUP") and bool(rows(lines))


def test_the_screen_has_the_groups_and_obeys_keys(terminal: Open, cli: Cli) -> None:
    described = json.loads(cli("describe", "--sample", "--all", "-o", "json").out)["data"]
    lags = {each["group_id"]: each["total_lag"] for each in described}
    known = sorted(
        (group for group in lags if lags[group] is not None), key=lambda g: (-lags[g], g)
    )
    top = terminal(width=120, COLUMNS="70")  # the terminal's size counts
    lines = top.until(is_list)
    assert len(lines) == 24
    assert rows(lines)[: len(known)] == known
    shown = {line[2:].split()[0]: line[2:].split()[1] for line in lines[3 : 3 + len(known)]}
    assert {group: int(lag.replace(",", "")) for group, lag in shown.items()} == {
        group: lags[group] for group in known
    }
    assert f"{len(lags)} groups, lag {sum(filter(None, lags.values())):,}" in lines[0]
    assert lines[3].startswith("> ")
    top.press("n")
    assert rows(top.until(lambda at: at[1] == "sorted by name")) == sorted(lags)
    top.press("/", "ship")
    found = {group for group in lags if "ship" in group}
    assert set(rows(top.until(lambda at: at[1] == "/ship_"))) == found
    top.press("Escape")
    top.until(lambda at: len(rows(at)) == len(lags))
    top.press("l")
    top.until(lambda at: at[1] == "sorted by lag")
    top.press("Enter")
    members = {
        member["client_id"] for each in described if each["group_id"] == known[0]
        for member in each["members"]
    }  # fmt: skip
    lines = top.until(lambda at: f"MEMBERS ({len(members)})" in at)
    assert lines[2] == known[0]
    assert all(any(name in line for line in lines) for name in members)
    top.resize(40, 10)
    lines = top.until(lambda at: len(at) == 10 and at[2] == known[0])
    assert max(map(len, lines)) <= 40
    top.press("Escape")
    top.until(is_list)
    top.press("q")
    assert "ended with 0" in top.until(lambda at: any("ended" in line for line in at))
    assert top.errors.read_text() == ""


def test_members_that_rebalance(terminal: Open, orders_broker: Broker) -> None:
    """One consumer has all partitions; a second joins, so that the group rebalances."""
    with ExitStack() as stack:
        consumers: list[KafkaConsumer] = []

        def join() -> None:
            consumer = KafkaConsumer(
                "orders",
                bootstrap_servers=orders_broker.bootstrap,
                group_id="watched-by-top",
                client_id=f"watched-{len(consumers)}",
                enable_auto_commit=False,
                heartbeat_interval_ms=300,
                metadata_max_age_ms=1_000,  # it may join before it knows the topic
            )
            stack.callback(consumer.close)
            consumers.append(consumer)
            until(
                lambda: (
                    [each.poll(100) for each in consumers] and all(owned()) and sum(owned()) == 3
                )
            )

        def owned() -> list[int]:
            return [len(each.assignment()) for each in consumers]

        def cells(lines: list[str]) -> dict[str, str]:
            """Return the cells of the group's line, by their columns' heads."""
            line = next((line for line in lines if "watched-by-top" in line), None)
            if line is None or not is_list(lines):
                return {}
            starts = [*re.finditer(r"\S+", lines[2])]
            return {each[0]: line[: each.end()].split()[-1] for each in starts[1:7]}

        join()
        top = terminal(120, source=f"-b {orders_broker.bootstrap} --regex watched.*")
        top.until(lambda at: cells(at).get("MEM") == "1")
        join()
        assert sorted(owned()) == [1, 2]
        top.until(lambda at: cells(at).get("MEM") == "2" and "≥1" in cells(at).get("REB", ""))
        top.press("Enter")
        lines = top.until(lambda at: "MEMBERS (2)" in at)
        assert all(any(f"watched-{number}" in line for line in lines) for number in range(2))
        top.press("q")
        assert "ended with 0" in top.until(lambda at: any("ended" in line for line in at))
        assert top.errors.read_text() == ""


def test_without_colours(terminal: Open) -> None:
    """Not one; bold, dim and reverse video stay."""
    plain, coloured = terminal(NO_COLOR="1"), terminal()
    lines = plain.until(is_list)
    assert rows(coloured.until(is_list)) == rows(lines)
    styles = {
        int(number)
        for line in plain.lines(styled=True)
        for part in line.split("\x1b[")[1:]
        for number in part.partition("m")[0].split(";")
        if number.isdigit()
    }
    assert styles & {1, 2, 7}
    assert not styles & {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}
    assert any("\x1b[3" in line for line in coloured.lines(styled=True))


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_it_and_gives_the_terminal_back(
    terminal: Open, number: signal.Signals, status: int
) -> None:
    top = terminal()
    top.until(is_list)
    top.kill(number)
    lines = top.until(lambda at: any("ended" in line for line in at))
    assert f"ended with {status}" in lines  # on the ordinary screen, where `cat` echoes again
    assert not any("Traceback" in line for line in lines)
    top.press("echo", "Enter")
    top.until(lambda at: at.count("echo") == 2)
    assert top.errors.read_text() == ""


def test_a_terminal_without_utf_8_gets_bars_of_ascii(terminal: Open) -> None:
    lines = terminal(width=120, LC_ALL="C", LANG="C").until(is_list)
    assert "TREND" in lines[2]
    assert all(line.isascii() for line in lines)
    assert re.search(r" #+ ", lines[3])  # the lag stays: a bar of full height at each refresh


def test_a_dumb_terminal_gets_lines(terminal: Open) -> None:
    top = terminal(width=400, TERM="dumb")
    lines = top.until(lambda at: any(line.startswith('{"group_id"') for line in at))
    assert "\x1b" not in "".join(lines)
