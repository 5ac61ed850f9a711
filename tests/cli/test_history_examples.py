"""Every example of a question, in the help and in docs/history.md, is run on the sample."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.cli.command import history
from kgroup.cli.main import status_of
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.examples import some_of
from tests.history.builds import build

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text("utf-8")
ASKING = PAGE.split("## Asking\n")[1].split("\n## ")[0]
QUESTIONS = (
    *(
        "owner",
        "timeline",
        "commits",
        "rebalances",
        "storms",
        "report",
        "stale",
        "lag",
        "as-of",
        "show",
    ),
    "sql",
)


def help_lines() -> Iterator[str]:
    for name in QUESTIONS:
        epilog = history.command.commands[name].epilog or ""
        yield from (line.strip() for line in epilog.splitlines() if "kgroup " in line)


LINES = sorted({*help_lines(), *re.findall(r"^kgroup .*", ASKING, re.MULTILINE)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    build(folder / "warehouse", sample_log_dir(), cluster="prod")
    assert status_of(["snapshot", "--sample", "--all", "-f", str(folder / "snapshot.json")]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("line", some_of(LINES, 3))
def test_example(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(folder)
    program, *args = shlex.split(line.replace(" billing", " order-service"))
    assert program == "kgroup"
    result = cli(*args)
    assert result.status == 0, result.err
    says_why = result.err.startswith("kgroup: note: ")  # in the place of a table without rows
    assert result.out or says_why or args[0] == "snapshot" or args[1] == "report"


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_in_the_page(name: str) -> None:
    assert f"### {name}\n" in ASKING
    assert any(line.startswith(f"kgroup history {name} ") for line in LINES)
