"""Which engine is asked, as far as no JVM is needed to find out."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.history.recorded import Built


@pytest.fixture(scope="module")
def warehouse(recorded_warehouse: Built) -> str:
    return str(recorded_warehouse(sample_log_dir()))


ASKED = ("history", "sql", "SELECT COUNT(*) AS n FROM transactions", "-o", "csv")


def test_without_any_engine_both_extras_are_named(
    cli: Cli, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in ("duckdb", "pyspark") else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    result = cli(*ASKED, "--warehouse", warehouse)
    assert (result.status, result.out) == (1, "")
    assert "kgroup[history]" in result.err
    assert "kgroup[spark]" in result.err


@pytest.mark.parametrize("option", [("--master", "local[1]"), ("--spark-conf", "spark.x=1")])
def test_settings_of_spark_are_not_for_duckdb(
    cli: Cli, warehouse: str, option: tuple[str, str]
) -> None:
    result = cli(*ASKED, "--warehouse", warehouse, "--engine", "duckdb", *option)
    assert (result.status, result.out) == (2, "")
    assert "--master and --spark-conf require --engine spark" in result.err


def test_a_setting_of_spark_asks_for_spark(
    cli: Cli, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.spark.session.is_installed", lambda: False)
    assert cli(*ASKED, "--warehouse", warehouse).out == "n\n3\n"
    result = cli(*ASKED, "--warehouse", warehouse, "--spark-conf", "spark.x=1")
    assert (result.status, result.out) == (1, "")
    assert "pip install 'kgroup[spark]'" in result.err


@pytest.mark.parametrize("setting", ["=1", "spark.x"])
def test_a_setting_has_a_name_and_a_value(cli: Cli, warehouse: str, setting: str) -> None:
    result = cli(*ASKED, "--warehouse", warehouse, "--spark-conf", setting)
    assert (result.status, result.out) == (2, "")
    assert f"expected NAME=VALUE, found '{setting}'" in result.err
