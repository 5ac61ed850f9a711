"""Every example in a help text or a page that needs no server and no file is run.

Those that need a server are parsed.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND, context_of, split_line

ROOT = Path(__file__).parents[2]


def help_examples(name: str) -> list[str]:
    lines = (EVERY_COMMAND[name].epilog or "").splitlines()
    return [line.strip() for line in lines if "kgroup " in line]


def page_examples() -> list[str]:
    folders = (ROOT / "docs", ROOT / "docs" / "howto")
    pages = [ROOT / "README.md", *(page for folder in folders for page in folder.glob("*.md"))]
    lines = [line for page in pages for line in page.read_text("utf-8").splitlines()]
    _, _, tour = pages[0].read_text("utf-8").partition("## Ten questions, ten commands")
    answers: list[str] = re.findall("`(kgroup [^`]+)`", tour.partition("\n## ")[0])
    return [line.strip() for line in lines if re.match(r" {4,}kgroup [a-z]", line)] + answers


def needs_server(line: str) -> bool:
    options = {"-b", "--bootstrap-server", "--command-config", "-X", "-C", "--zookeeper"}
    return not options.isdisjoint(line.split())


def can_run(line: str) -> bool:
    alone = "--sample" in line or line.startswith(
        (
            "kgroup coordinator",
            "kgroup decode-offsets --key",
            "kgroup completion",
            "kgroup doctor",
            "kgroup simulate",
            "kgroup offsets copy sample",
            "kgroup offsets diff sample",
        )
    )
    alone = alone and not needs_server(line) and "--install" not in line
    alone = alone and not set("|$<>…") & set(line) and "..." not in line
    alone = alone and (not line.startswith("kgroup top") or "--refreshes" in line)  # ends
    return alone and "--log-dir" not in line and ".toml" not in line


EXAMPLES = sorted(
    {line for name in EVERY_COMMAND for line in help_examples(name)} | {*page_examples()}
)


@pytest.mark.parametrize("line", [line for line in EXAMPLES if can_run(line)])
def test_example(cli: Cli, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write there
    program, *args = shlex.split(line, comments=True)
    assert program == "kgroup"
    result = cli(*args)
    # The sample has groups that are not as they should, and not two that are the same; its brokers
    # of 0.8 coordinate no groups.
    finds = line.startswith(("kgroup check", "kgroup offsets diff", "kgroup plan new-consumer"))
    assert result.status == (5 if finds else 0), result.err
    assert len(result.out.splitlines()) >= 2 or "--no-headers" in args


@pytest.mark.parametrize("line", [line for line in EXAMPLES if not can_run(line)])
def test_other_examples_use_options_that_exist(line: str) -> None:
    (words,) = re.findall(r"kgroup [^|$<>]+", line)
    name, args = split_line(shlex.split(words, comments=True)[1:])
    known = {option for parameter in EVERY_COMMAND[name].params for option in parameter.opts}
    options = {arg.partition("=")[0] for arg in args}
    assert {option for option in options if re.match(r"--?[A-Za-z]", option)} <= known


@pytest.mark.parametrize("line", [line for line in EXAMPLES if needs_server(line)])
def test_examples_with_a_server_parse(line: str) -> None:
    line = re.sub(r" 03:12\b", " 2026-11-29T03:12:00Z", line)  # today it may be later than now
    (words,) = re.findall(r"kgroup [^|$<>]+", line)
    name, args = split_line(shlex.split(words, comments=True)[1:])
    with EVERY_COMMAND[name].make_context(name, args, context_of(name)) as context:
        assert context.args == []


@pytest.mark.parametrize("name", ["list", "describe", "coordinator"])
def test_examples_show_how_to_ask_a_cluster(name: str) -> None:
    assert any(map(needs_server, help_examples(name)))


@pytest.mark.parametrize(
    # Questions to a warehouse are run in test_history; what reads the user's files, elsewhere.
    "name",
    [
        name
        for name in EVERY_COMMAND
        if not name.startswith("history ") or name == "history build"
        if name not in ("offsets import", "plan apply", "plan verify")
        if not name.startswith("profile ")
    ],
)
def test_every_command_has_an_example_that_runs(name: str) -> None:
    assert any(map(can_run, help_examples(name)))
