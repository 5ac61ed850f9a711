"""`kgroup top`: its screen by Textual's pilot, and its JSON lines in a pipe."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from kgroup.cli.output.top_screen import TopApp
from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member
from kgroup.model.offset import CommittedOffset
from kgroup.operation.top import FollowedGroup, Top
from kgroup.render.top import TopScreen
from kgroup.source.base import EVERYTHING, Question, Reading
from tests.cli.command_line import Cli, Result
from tests.cli.fake_cluster import FakeCluster
from tests.default_signals import default_signals
from tests.operation.sources import FakeSource
from tests.waiting import PATIENCE_S

ENDS = {("orders", n): 100 for n in range(4)}
_SHORT_S, _LONG_S = 0.02, 3600.0


class Cluster(FakeSource):
    """Groups that are 10, 20 and 30 records behind; it can go away.

    Attributes:
        error: raised by each reading.
        renewed: arguments of `renew`.
    """

    def __init__(self) -> None:
        super().__init__(ends=ENDS)
        self.error: Exception | None = None
        self.renewed: list[bool] = []
        for n, name in enumerate(("apples", "pears", "plums"), 1):
            self.put(name, 10 * n)

    def put(self, name: str, lag: int, *owned: int) -> None:
        """Let a group have a lag, and members that each own a partition."""
        self.replace(
            Group(
                name,
                GroupType.CLASSIC,
                GroupState.STABLE if owned else GroupState.EMPTY,
                members=tuple(
                    Member(
                        f"{name}-{n}-id",
                        client_id=f"{name}-{n}",
                        assignment=(AssignedPartition(None, "orders", n),),
                    )
                    for n in owned
                ),
                offsets=(CommittedOffset("orders", 0, 100 - lag),),
            )
        )

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        if self.error is not None:
            raise self.error
        return super().read(group_ids, question)

    def renew(self, *, after_failure: bool = False) -> None:
        self.renewed.append(after_failure)


class Screen:
    """The application in a test, its cluster, and what can be seen."""

    def __init__(self, app: TopApp, pilot: Pilot[Any], cluster: Cluster) -> None:
        self.app, self.pilot, self.cluster = app, pilot, cluster

    @property
    def lines(self) -> list[str]:
        """What Textual has drawn."""
        width, height = self.app.size
        strips = self.app.screen._compositor.render_strips()
        assert len(strips) == height
        assert all(strip.cell_length == width for strip in strips)
        return [strip.text.rstrip() for strip in strips]

    @property
    def names(self) -> list[str]:
        """First words of the rows; the one at the cursor has a >."""
        rows = [line for line in self.lines[3:-1] if line]
        return [f"{row[0].strip()}{row.split()[1 if row[0] == '>' else 0]}" for row in rows]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, is_so: Callable[[Screen], object]) -> None:
        for _ in range(int(PATIENCE_S / 0.05)):
            await self.pilot.pause()
            if is_so(self):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("\n".join(self.lines))


def play(
    story: Callable[[Screen], Awaitable[None]],
    *,
    size: tuple[int, int] = (80, 24),
    interval_s: float = _LONG_S,
    cluster: Cluster | None = None,
) -> TopApp:
    """Run the application, and a story once the groups are there."""
    source = cluster or Cluster()
    top = TopScreen("-b kafka-1:9092", interval_s)
    app = TopApp(top, Top(source), lambda failed: source.renew(after_failure=failed))

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            screen = Screen(app, pilot, source)
            await screen.until(lambda seen: seen.app.top.read_ms or seen.app._exit)
            await story(screen)

    try:
        asyncio.run(run())
    finally:
        app.reader.stop()
    return app


def test_the_groups_worst_first() -> None:
    async def story(screen: Screen) -> None:
        assert screen.names == [">plums", "pears", "apples"]
        assert "3 groups, lag 60" in screen.lines[0]
        assert screen.lines[23].startswith("Enter open")

    play(story)


def test_keys_sort() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("n")
        assert screen.names == [">apples", "pears", "plums"]
        assert screen.lines[1] == "sorted by name"
        await screen.press("R")
        assert screen.names == [">plums", "pears", "apples"]
        await screen.press(">")
        assert screen.lines[1] == "sorted by lag"
        await screen.press("<")
        assert screen.lines[1] == "sorted by name"
        for key, name in (("g", "growth"), ("t", "time-lag"), ("s", "state")):
            await screen.press(key)
            assert screen.lines[1] == f"sorted by {name}"
        for key, name in (("m", "members"), ("r", "rebalances"), ("l", "lag")):
            await screen.press(key)
            assert screen.lines[1] == f"sorted by {name}"

    play(story)


def test_a_filter_is_typed() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("/", "p", "l")
        assert screen.names == [">plums", "apples"]
        assert screen.lines[1] == "/pl_"
        await screen.press("u", "q")  # no command while it is typed
        assert "no group matches" in screen.lines[3]
        await screen.press("backspace", "enter")
        assert screen.names == [">plums"]
        assert screen.lines[1] == "filter /plu (Esc clears it)"
        await screen.press("escape")
        assert screen.names == [">plums", "pears", "apples"]

    play(story)


def test_the_cursor_moves_and_stays_with_its_group() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("down")
        assert screen.names == ["plums", ">pears", "apples"]
        screen.cluster.put("apples", 99)
        await screen.until(lambda seen: seen.names == ["apples", "plums", ">pears"])
        await screen.press("home")
        assert screen.names[0] == ">apples"
        await screen.press("end")
        assert screen.names[2] == ">pears"

    play(story, interval_s=_SHORT_S)


def test_a_group_is_opened() -> None:
    async def story(screen: Screen) -> None:
        screen.cluster.put("plums", 30, 0, 1)
        await screen.press("enter")
        await screen.until(lambda seen: "MEMBERS (2)" in seen.lines)
        assert screen.lines[2] == "plums"
        assert "  orders-0       70  100   30       -  plums-0" in screen.lines
        await screen.press("escape")
        assert screen.names == [">plums", "pears", "apples"]

    play(story)


def test_an_open_group_has_its_rebalances() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("enter")
        await screen.until(lambda seen: "  none" in seen.lines)
        screen.cluster.put("plums", 30, 0)
        await screen.until(lambda seen: "joined: plums-0" in "\n".join(seen.lines))
        assert any("at least 1; joined: plums-0; 1 partition moved" in at for at in screen.lines)
        await screen.press("escape")
        await screen.until(lambda seen: "≥1" in seen.lines[3])

    play(story, interval_s=_SHORT_S)


def test_pause_and_go_on() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("space")
        assert screen.lines[1].startswith("PAUSED since ")
        screen.cluster.put("apples", 99)
        reads = len(screen.cluster.renewed)
        await screen.press("down", "up")
        await asyncio.sleep(10 * _SHORT_S)
        assert len(screen.cluster.renewed) <= reads + 1  # the one that was under way
        read_ms = screen.app.top.read_ms
        await screen.press("space")
        await screen.until(lambda seen: seen.app.top.read_ms != read_ms)
        await screen.until(lambda seen: seen.names == [">apples", "plums", "pears"])
        assert "PAUSED" not in screen.lines[1]

    play(story, interval_s=_SHORT_S)


def test_a_cluster_goes_away_and_comes_back() -> None:
    async def story(screen: Screen) -> None:
        screen.cluster.error = BrokerError(ProblemKind.UNREACHABLE, "kafka-1:9092 is away")
        await screen.until(lambda seen: seen.lines[1].startswith("! stale since "))
        assert screen.lines[1].endswith("kafka-1:9092 is away")
        assert screen.names == [">plums", "pears", "apples"]  # as they were
        await screen.press("n")  # keys work
        assert screen.names == [">apples", "pears", "plums"]
        await screen.until(lambda seen: True in seen.cluster.renewed)
        screen.cluster.error = None
        screen.cluster.put("apples", 99)
        await screen.until(lambda seen: seen.lines[1] == "sorted by name")
        assert "99" in screen.lines[3]

    play(story, interval_s=_SHORT_S)


def test_a_first_refresh_that_fails_ends_it() -> None:
    cluster = Cluster()
    cluster.error = BrokerError(ProblemKind.UNREACHABLE, "kafka-1:9092 is away")

    async def story(screen: Screen) -> None:
        return

    assert play(story, cluster=cluster).return_value is cluster.error


def test_a_bug_ends_it() -> None:
    """An error ends the screen, which would otherwise freeze."""

    async def story(screen: Screen) -> None:
        screen.cluster.error = TypeError("a bug")
        await screen.until(lambda seen: seen.app._exit)

    assert isinstance(play(story, interval_s=_SHORT_S).return_value, TypeError)


def test_help() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("?")
        assert "pause; once more: go on" in "\n".join(screen.lines)
        await screen.press("escape")
        assert screen.names == [">plums", "pears", "apples"]

    play(story)


def test_quit() -> None:
    for key in ("q", "ctrl+c"):

        async def story(screen: Screen, key: str = key) -> None:
            await screen.press(key)

        assert play(story).return_value is None


def test_resize() -> None:
    async def story(screen: Screen) -> None:
        for size in ((200, 50), (20, 5), (1, 1), (80, 24)):
            await screen.pilot.resize_terminal(*size)
            await screen.until(lambda seen: bool(seen.lines))
            assert tuple(screen.app.size) == size
        assert screen.names == [">plums", "pears", "apples"]

    play(story)


def test_keys_do_not_wait_for_a_reading() -> None:
    """The source is in the middle of a reading that never ends; the keys work."""
    import threading

    class Stuck(Cluster):
        def __init__(self) -> None:
            super().__init__()
            self.is_stuck = threading.Event()
            self.goes_on = threading.Event()
            self.count = 0

        def read(
            self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
        ) -> Reading:
            self.count += 1
            if self.count > 1:
                self.is_stuck.set()
                self.goes_on.wait()
            return super().read(group_ids, question)

    cluster = Stuck()

    async def story(screen: Screen) -> None:
        await screen.until(lambda seen: cluster.is_stuck.is_set())
        await screen.press("n")
        assert screen.names == [">apples", "pears", "plums"]
        await screen.press("q")

    try:
        play(story, interval_s=_SHORT_S, cluster=cluster)
    finally:
        cluster.goes_on.set()


# --- the command ---

COMMAND = [sys.executable, "-m", "kgroup", "top", "--sample", "--interval", "0.05"]


@pytest.fixture
def piped() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_signals,
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_pipe_gets_a_line_for_each_group_and_refresh(
    piped: subprocess.Popen[str], cli: Cli
) -> None:
    described = json.loads(cli("describe", "--sample", "--all", "-o", "json").out)["data"]
    lags = {each["group_id"]: each["total_lag"] for each in described}
    assert piped.stdout is not None
    first, second = (
        [json.loads(piped.stdout.readline()) for _ in lags] for _ in ("first", "second")
    )
    for lines in (first, second):
        assert {line["group_id"]: line["total_lag"] for line in lines} == lags
        assert all(list(line) == list(FollowedGroup.__dataclass_fields__) for line in lines)
        assert len({line["time_ms"] for line in lines}) == 1
    assert {line["growth_per_s"] for line in first} == {None}
    assert {line["growth_per_s"] for line in second} == {0.0, None}
    assert first[0]["time_ms"] < second[0]["time_ms"]
    piped.stdout.close()
    assert piped.wait(PATIENCE_S) == 141


def test_filters_and_sources_are_checked(cli: Cli, tmp_path: Path) -> None:
    assert cli("top").status == 2
    assert "--snapshot" in cli("top", "--snapshot", tmp_path / "s.json").err
    result = cli("top", "--log-dir", tmp_path / "nowhere")
    assert (result.status, result.out) == (1, "")


def test_a_number_of_refreshes(cli: Cli) -> None:
    words = ("top", "--sample", "--interval", "0.01", "--state", "Stable", "--topic", "orders")
    result = cli(*words, "--refreshes", 2)
    names = [json.loads(line)["group_id"] for line in result.out.splitlines()]
    listed = cli("list", "--sample", "--state", "Stable", "--topic", "orders", "-o", "jsonl").out
    assert names == [json.loads(line)["group_id"] for line in listed.splitlines()] * 2
    assert (result.status, len(names) > 2) == (0, True)


def test_later_refreshes_may_fail(
    cli: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []

    def renew(*, after_failure: bool) -> None:
        calls.append(after_failure)
        cluster.error = BrokerError(ProblemKind.UNREACHABLE, "away") if len(calls) == 1 else None

    monkeypatch.setattr(cluster, "renew", renew, raising=False)
    words = ("top", "-b", "kafka:9092", "--interval", "0.01", "--refreshes")
    result = cli(*words, 3)
    assert (result.status, len(result.out.splitlines()), calls) == (0, 2, [False, True])
    assert "unreachable: away" in result.err
    assert "no more errors" in result.err
    calls.clear()
    assert cli(*words, 2).status == 4  # partly done: the first refresh was written


def as_on_a_terminal(cli: Cli, patch: pytest.MonkeyPatch, *words: object) -> Result:
    """Run a command line as if standard input and output were a terminal."""
    patch.setenv("TERM", "xterm")
    patch.setattr(sys.stdout, "isatty", lambda: True)
    patch.setattr(sys.stdin, "isatty", lambda: True)
    return cli(*words)


def test_a_screen_needs_a_terminal(cli: Cli) -> None:
    result = cli("top", "--sample", "-o", "screen")
    assert result.status == 2
    assert "choose -o jsonl" in result.err


def test_a_number_of_refreshes_is_for_lines(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    result = as_on_a_terminal(cli, monkeypatch, "top", "--sample", "-o", "screen", "-n", 2)
    assert (result.status, "--refreshes is for JSON lines" in result.err) == (2, True)


def test_without_textual(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = as_on_a_terminal(cli, monkeypatch, "top", "--sample", "-o", "screen")
    assert result.status == 1
    assert "install the extra [top] (docs/install.md)" in result.err
