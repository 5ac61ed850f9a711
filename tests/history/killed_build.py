"""Builds that are killed, each in a process of its own.

    python -m tests.history.killed_build SOURCE FOLDER NAME...

FOLDER, which may be in an object store, has a warehouse for each NAME, which is one of `STAGES`;
SOURCE is built into it until this stage is reached.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kgroup.history.build import build, derivation, task
from kgroup.history.input.segment_source import find_sources
from kgroup.history.warehouse import delta_log, table_file, warehouse
from kgroup.history.warehouse.store import location_of
from kgroup.pandas_import import leave_out_pandas

STAGES: Mapping[str, tuple[Any, str, int, bool]] = {
    "warehouse-read": (warehouse.WarehouseWriter, "__init__", 1, True),
    "file-begun": (table_file._File, "write", 3, True),
    "file-written": (table_file._File, "close", 3, True),
    "records-read": (task, "facts_of", 1, True),
    "tasks-done": (build.Build, "read", 1, True),
    "settled": (build, "resolve_transactions", 1, True),
    "derived": (derivation, "run_derivation", 1, True),
    "assignments-written": (build, "derive_assignments", 1, True),
    "coverage-written": (warehouse, "_write", 2, True),
    "synced": (warehouse, "sync", 1, True),
    "no-table": (delta_log.DeltaLog, "commit", 1, False),
    "some-tables": (delta_log.DeltaLog, "commit", 3, True),
    "all-tables": (warehouse.WarehouseWriter, "_commit_tables", 1, True),
    "state-written": (warehouse.WarehouseWriter, "_write_state", 2, True),
    "state-committed": (warehouse.WarehouseWriter, "_commit_state", 1, True),
    "committed": (warehouse.WarehouseWriter, "commit", 1, True),
}
"""What is called, for which time, and whether the process is killed behind that or before."""

COMMITTED = ("state-committed", "committed")
"""Stages behind the commit point."""


def kill_at(place: Any, name: str, times: int, behind: bool) -> None:
    """Have this process killed when a function is called for the so manieth time."""
    function: Callable[..., Any] = getattr(place, name)
    count = 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == times and not behind:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **options)
        if count == times:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(place, name, counted)


def main(source: str, folder: str, *stages: str) -> None:
    """See the module."""
    leave_out_pandas()  # as the command does
    import_module("pyarrow.acero")  # else each process would load it
    for name in stages:
        # Forked while there is no thread yet: a start of Python costs more than a build.
        pid = os.fork()
        if pid == 0:
            kill_at(*STAGES[name])
            with warehouse.write_warehouse(location_of(folder) / name) as writer:
                made = build.Build(writer)
                made.read(find_sources([source], "c").segments)
                made.commit()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(name, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
