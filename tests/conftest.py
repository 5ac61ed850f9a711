"""Settings of all tests: property tests try the same cases every time, and watch no clock."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kgroup.redaction import forget_secrets
from tests.examples import examples

if TYPE_CHECKING:
    from kgroup.history.sql.engine import DuckEngine
    from tests.cli.command_line import Cli
    from tests.history.recorded import Ask, Built

settings.register_profile("kgroup", deadline=None, derandomize=True, max_examples=examples(15, 60))
settings.load_profile("kgroup")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let garbage collections pass over thousands of tests, which stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_power_cut() -> Iterator[None]:
    """What is written need not reach the disk: a test that loses power there is none."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True)
def _no_secrets() -> None:
    """A test knows its own secrets only."""
    forget_secrets()


@pytest.fixture(scope="session")
def recorded_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Gives the warehouse of a recorded log, of cluster "c"; each is built once."""
    from tests.history.builds import build

    @cache
    def built(directory: Path) -> Path:
        root = tmp_path_factory.mktemp("recorded") / "warehouse"
        build(root, directory)
        return root

    return built


@pytest.fixture(scope="session")
def recorded_engine(recorded_warehouse: Built) -> Iterator[Ask]:
    """Gives the engine of such a warehouse; each is opened once."""
    from tests.history.recorded import open_engine

    with ExitStack() as stack:

        @cache
        def opened(directory: Path) -> DuckEngine:
            return stack.enter_context(open_engine(recorded_warehouse(directory)))

        yield opened


@pytest.fixture
def cli(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Cli:
    """Runs a command line in this process, through the error boundary, without any default.

    A JSON document that it writes has to be as its schema says.
    """
    from kgroup.cli.main import status_of
    from tests.cli.command_line import Result
    from tests.cli.json_schemas import check_document

    for name in ("BOOTSTRAP_SERVER", "PROFILE", "WAREHOUSE"):
        monkeypatch.delenv(f"KGROUP_{name}", raising=False)
    # The user's file may have a profile; some tests write a file of their own here.
    monkeypatch.setenv("KGROUP_CONFIG", str(tmp_path / "no-such-folder" / "config.toml"))
    monkeypatch.setenv("KGROUP_COMPLETION_TIMEOUT", "60")  # on a busy machine, too

    def run(*args: object) -> Result:
        capfdbinary.readouterr()
        status = status_of([str(arg) for arg in args])
        out, err = capfdbinary.readouterr()
        if "json" in args and out:
            check_document(out)
        return Result(status, out.decode(), err.decode())

    return run
