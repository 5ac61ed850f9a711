"""The pictures that README.md shows: `python -m tests.cli.pictures [HOST:PORT]`.

The session is generated and tested. With a cluster, the screen of `kgroup top` and the report are
taken again: they show the current time, and what a browser draws.
"""

from __future__ import annotations

import asyncio
import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kgroup.cli.output.top_screen import TopApp
from kgroup.operation.top import Top
from kgroup.render.top import TopScreen
from kgroup.source.broker.source import LiveCluster
from tests.cli.console_examples import on_a_terminal

DOCS = Path(__file__).parents[2] / "docs"
SESSION, TOP, REPORT = DOCS / "session.svg", DOCS / "top.svg", DOCS / "report.png"
MOST_LINES = 30
_WIDTH = 116
_COMMANDS = (
    "kgroup why billing --sample",
    "kgroup assign billing --remove-member billing-2 --sample "
    "--columns topic,partition,from_member,to_member,lag",
)
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def session() -> str:
    """Return the picture of a terminal on which the commands were typed."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    lines: list[Text] = []
    for command in _COMMANDS:
        written = on_a_terminal(shlex.split(command)[1:], width=_WIDTH, coloured=True)
        lines += [Text(f"$ {command}", style="bold")]
        lines += [*Text.from_ansi(written.replace("\r", "").rstrip()).split("\n"), Text()]
    assert len(lines) - 1 <= MOST_LINES, len(lines)
    console.print(*lines[:-1], sep="\n")
    return _FONTS.sub("", console.export_svg(title="kgroup", unique_id="kgroup"))


def write_top(bootstrap: str, refreshes: int) -> None:
    """Write the screen of `kgroup top` after this many refreshes, a second apart."""
    with LiveCluster(bootstrap, of_silence=True) as source:
        app = TopApp(
            TopScreen("-b kafka-1:9092", 1),
            Top(source),
            lambda failed: source.renew(after_failure=failed),
        )

        async def run() -> str:
            async with app.run_test(size=(_WIDTH, 19)) as pilot:
                await pilot.pause(refreshes)
                return app.export_screenshot(title="kgroup top")

        try:
            TOP.write_text(_FONTS.sub("", asyncio.run(run())), "utf-8")
        finally:
            app.reader.stop()


def write_report() -> None:
    """Write what a browser (chromium) shows of the report of a group of the sample."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "billing.html"
        command = ("history", "report", "--sample", "billing", "--html", str(page))
        subprocess.run([sys.executable, "-m", "kgroup", *command], check=True)
        subprocess.run(
            [
                *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu"),
                f"--user-data-dir={folder}/profile",
                *("--hide-scrollbars", "--window-size=1200,960"),
                f"--screenshot={REPORT}",
                page.as_uri(),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )


if __name__ == "__main__":
    SESSION.write_text(session(), "utf-8")
    if sys.argv[1:]:
        write_report()
        write_top(sys.argv[1], refreshes=20)
