"""Make few files of many: every build leaves some, however little is new.

Files of one table and day that are about as large are merged when there are many of them. So a row
is written anew about as many times as there are sizes, each eight times the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from kgroup.history.build.task import Job
from kgroup.history.warehouse.fact_file import WrittenFile
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import row_groups

MANY = 12
"""Files that are merged."""

LARGE = 2 << 20
"""Bytes of a file that stays as it is."""

_SMALL = 1 << 15
"""Bytes up to which files are about as large."""


@dataclass(frozen=True, slots=True)
class MergeTask(Job):
    """Files of a cluster to be merged: of one table and day, all open or none."""

    files: tuple[WrittenFile, ...]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.files)


def merge_tasks(
    warehouse: str, cluster: str, build: int, files: Iterable[WrittenFile]
) -> Iterator[MergeTask]:
    """Find files of a cluster that are to be merged."""
    alike: dict[tuple[PurePath, bool, int], list[WrittenFile]] = {}
    for file in files:
        if file.size < LARGE:
            order = (max(file.size, _SMALL).bit_length() - 1) // 3
            alike.setdefault((PurePath(file.path).parent, file.is_open, order), []).append(file)
    for found in alike.values():
        if len(found) >= MANY:
            yield MergeTask(warehouse, cluster, build, tuple(found))


def run_merge(task: MergeTask) -> tuple[MergeTask, tuple[WrittenFile, ...]]:
    """Merge files; give the task, and what was written.

    Raises:
        OSError: a file cannot be written.
        InputError: a file of the warehouse cannot be read.
    """
    with task.facts() as writer:
        for file in task.files:
            path = Path(task.warehouse, file.path)
            for rows in row_groups(path, TABLES[file.table].schema):
                writer.add({file.table: rows}, is_open=file.is_open)
        return task, writer.finish()
