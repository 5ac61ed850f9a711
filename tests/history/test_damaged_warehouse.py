"""Files of a warehouse that are not what a build wrote, and every question asked of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.cli.command import history
from kgroup.errors import InputError
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.table_file import OWN
from kgroup.history.warehouse.warehouse import LARGEST, read_warehouse
from tests.cli.command_line import Cli
from tests.history.damaged_warehouse import DAMAGES, LOG_DIR, QUESTIONS, check_every_question
from tests.history.recorded import Built
from tests.history.warehouse_files import write_rows


def test_every_question_is_asked() -> None:
    assert set(QUESTIONS) == set(history.command.commands) - {"build", "stream"}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_question_names_a_damaged_file(
    recorded_warehouse: Built, cli: Cli, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    check_every_question(recorded_warehouse(LOG_DIR), cli, tmp_path, damage, "duckdb")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_behind_a_whole_one_is_named(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    rows = [{"time_ms": day * 86_400_000, "group_id": f"g{day}"} for day in (0, 1)]
    files = write_rows(tmp_path, {"offset_commits": rows})
    damage(files["offset_commits"][1])
    with pytest.raises(InputError) as caught, DuckEngine(files) as engine:
        engine.query("SELECT * FROM offset_commits")
    assert str(files["offset_commits"][1]) in str(caught.value)


@pytest.mark.parametrize("kind", ["builds", "state", "coverage"])
def test_a_file_that_is_too_large_is_not_read(
    recorded_warehouse: Built, tmp_path: Path, kind: str
) -> None:
    """In a folder that somebody else wrote a manifest may be of any size."""
    root = tmp_path / "warehouse"
    shutil.copytree(recorded_warehouse(LOG_DIR), root)
    files = sorted((root / OWN / kind).iterdir())
    for file in files:
        with file.open("r+b") as opened:
            opened.truncate(LARGEST + 1)
    with pytest.raises(InputError, match=f"at most {LARGEST:,} bytes, found") as exception_info:
        _read_all(root)
    assert any(str(file) in str(exception_info.value) for file in files)


def _read_all(root: Path) -> None:
    with read_warehouse(root) as warehouse:
        for cluster in warehouse.clusters:
            for partition in warehouse.state(cluster).partitions:
                warehouse.coverage(cluster, partition)
