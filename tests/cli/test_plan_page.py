"""The worked examples of docs/plan.md write what stands there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from kgroup.operation.plan.plan import MigrationTarget
from tests.cli.command_line import Cli
from tests.cli.plan_page import EXAMPLE, PAGE, WIDTH, plain

TEXT = PAGE.read_text("utf-8")
EXAMPLES = [*EXAMPLE.finditer(TEXT)]


@pytest.mark.parametrize("example", EXAMPLES, ids=[match[1] for match in EXAMPLES])
def test_an_example_writes_what_stands_below_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, example: re.Match[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    shown = plain(cli(*shlex.split(example[1])).out)
    expected = f"```console\n$ kgroup {example[1]}\n{shown}```\n"
    assert example[0] == expected, "run: python -m tests.cli.plan_page"


def test_each_target_has_an_example() -> None:
    words = [shlex.split(match[1]) for match in EXAMPLES]
    assert {word[1] for word in words} >= {str(target) for target in MigrationTarget}
