"""`kgroup history stream`, as far as that needs neither Spark nor a cluster."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from errno import ENOSPC
from pathlib import Path

import pytest

from kgroup.history.input import live_source
from kgroup.history.input.live_source import LiveSource
from kgroup.source.config.client_config import ClientConfig
from kgroup.spark import session, stream
from tests.cli.command_line import Cli


def test_a_full_disk_leaves_the_batches_before(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(ENOSPC, "", str(tmp_path / "part"))

    def ask(config: ClientConfig, cluster: str | None, timeout_s: float) -> LiveSource:
        return LiveSource("c", {}, {}, (), config)

    monkeypatch.setattr(live_source, "ask_live", ask)
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(stream, "stream_history", fail)
    result = cli("history", "stream", "-b", "127.0.0.1:9", "--to", tmp_path)
    assert (result.status, result.out) == (1, "")
    assert f"{tmp_path}/part: No space left on device. The tables have the records" in result.err
    assert "unchanged" not in result.err


def test_without_pyspark_it_is_said_how_to_get_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "kgroup.spark.stream", None)  # which imports it
    result = cli("history", "stream", "-b", "127.0.0.1:9", "--to", tmp_path / "w")
    assert (result.status, result.out) == (1, "")
    assert "pip install 'kgroup[spark]'" in result.err
    assert not (tmp_path / "w").exists()


def test_a_cluster_is_asked_before_spark_starts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*args: object, **options: object) -> None:
        raise AssertionError("Spark has started")

    monkeypatch.setattr(session, "spark_session", start)
    result = cli("history", "stream", "-b", "127.0.0.1:9", "--to", tmp_path / "w")
    assert (result.status, result.out) == (1, "")
    assert "127.0.0.1:9" in result.err
    assert not (tmp_path / "w").exists()
