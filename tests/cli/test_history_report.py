"""`kgroup history report`: the file is written whole, or not at all."""

from __future__ import annotations

import builtins
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.history.recorded import Built


@pytest.fixture
def sample(recorded_warehouse: Built) -> Path:
    return recorded_warehouse(sample_log_dir())


@pytest.mark.slow
def test_without_plotly(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Path
) -> None:
    old = tmp_path / "page.html"
    old.write_text("old")
    load = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("plotly"):
            raise ImportError(name)
        return load(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    args = ("history", "report", "--warehouse", sample, "order-service")
    result = cli(*args, "--html", old, "--force")
    assert result.status == 1
    assert "pip install 'kgroup[history]'" in result.err
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.glob("*.html*")] == ["page.html"]


@pytest.mark.slow
def test_a_page_with_nothing_on_it_is_said_to_be_so(cli: Cli, tmp_path: Path, sample: Path) -> None:
    args = ("history", "report", "--warehouse", sample, "order-service")
    result = cli(*args, "--html", tmp_path / "page.html", "--until", "2020-01-01")
    assert result.status == 0
    assert "'order-service' neither rebalanced nor committed in that time" in result.err
    assert cli(*args, "--html", tmp_path / "page.html").err == ""


def test_unknown_group_makes_no_file(cli: Cli, tmp_path: Path, sample: Path) -> None:
    page = tmp_path / "page.html"
    result = cli("history", "report", "--warehouse", sample, "no-such-group", "--html", page)
    assert (result.status, page.exists()) == (3, False)
    assert "no-such-group" in result.err


@pytest.mark.slow
def test_a_page_needs_a_file_and_room_for_it(cli: Cli, tmp_path: Path, sample: Path) -> None:
    args = ("history", "report", "--warehouse", str(sample), "order-service", "--html")
    result = cli(*args, "-")
    assert result.status == 2
    assert "--html needs the name of a file" in result.err

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))

    page = tmp_path / "page.html"
    full = subprocess.run(
        [sys.executable, "-m", "kgroup", *args, page], capture_output=True, preexec_fn=limit
    )
    assert full.returncode == 1
    assert full.stderr.decode() == f"kgroup: error: {page}: File too large\n"
    assert not list(tmp_path.glob("*.html*"))
