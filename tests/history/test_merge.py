"""Which files are merged, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kgroup.history.build.build import LARGE, MANY, merge_tasks, run_merge
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, read_rows

DAY = "tombstones/cluster=c/date=2026-01-01"


def file(number: int, *, folder: str = DAY, size: int = 5000, is_open: bool = False) -> WrittenFile:
    path = f"{folder}/1-{number}-{is_open}.parquet"
    return WrittenFile(folder.partition("/")[0], "c", path, 1, size, is_open, {7: (number, number)})


def merged(files: Sequence[WrittenFile]) -> list[list[WrittenFile]]:
    return [list(task.files) for task in merge_tasks("w", "c", 9, files)]


@pytest.mark.parametrize("is_open", [False, True])
def test_open_rows_and_others_stay_apart(is_open: bool) -> None:
    """A later build replaces files with open rows as a whole, once their markers have come."""
    some = [file(number, is_open=is_open) for number in range(MANY)]
    others = [file(number, is_open=not is_open) for number in range(MANY - 1)]
    assert merged([*others, *some]) == [some]
    assert merged([*others, *some[1:]]) == []


def test_files_of_other_days_and_tables_stay_apart() -> None:
    folders = (DAY, DAY[:-1] + "2", DAY.replace("tombstones", "transactions"))
    files = [[file(number, folder=folder) for number in range(MANY)] for folder in folders]
    assert merged([each for some in files for each in some]) == files
    assert merged([each for some in files for each in some[1:]]) == []


def test_files_of_other_sizes_stay_apart() -> None:
    """So that a row is not written anew with each build."""
    small = [file(number, size=1000 * number) for number in range(1, MANY)]
    assert merged([*small, file(0, size=LARGE // 2)]) == []
    assert merged([*small, file(0, size=30_000)]) == [[*small, file(0, size=30_000)]]
    varied = [file(number, size=20_000 * number) for number in range(1, MANY + 1)]
    assert merged(varied) == [varied]
    assert merged([file(number, size=LARGE) for number in range(2 * MANY)]) == []
    assert len(merged([file(number, size=LARGE - 1) for number in range(2 * MANY)])) == 1


@pytest.mark.parametrize("is_open", [False, True])
def test_all_rows_are_in_the_new_file(tmp_path: Path, is_open: bool) -> None:
    schema = TABLES["tombstones"].schema
    files: list[WrittenFile] = []
    for number in range(MANY):
        row = dict.fromkeys(schema.names) | {"offsets_partition": number % 3, "log_offset": number}
        with FactWriter(tmp_path, "c", 1) as writer:
            writer.add(
                {"tombstones": schema.empty_table().from_pylist([row], schema)}, is_open=is_open
            )
            files += writer.finish()
    (task,) = merge_tasks(str(tmp_path), "c", 2, files)
    given, (found,) = run_merge(task)
    assert given is task
    assert (found.table, found.rows, found.is_open) == ("tombstones", MANY, is_open)
    assert found.offsets == {number: (number, MANY - 3 + number) for number in range(3)}
    offsets = read_rows(tmp_path, found)["log_offset"].to_pylist()
    assert sorted(offsets) == list(range(MANY))
    assert Path(found.path).name.startswith("2-")
