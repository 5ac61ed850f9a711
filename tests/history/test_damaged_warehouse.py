"""Files of a warehouse that are not what a build wrote, and every question asked of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.cli.command.history import COMMANDS
from kgroup.errors import InputError
from kgroup.history.sql.engine import DuckEngine
from tests.cli.conftest import Cli, cli
from tests.history.damaged_warehouse import DAMAGES, LOG_DIR, QUESTIONS, check_every_question
from tests.history.recorded import Built
from tests.history.warehouse_files import write_rows

__all__ = ["cli"]


def test_every_question_is_asked() -> None:
    assert set(QUESTIONS) == set(COMMANDS) - {"build", "stream"}


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
