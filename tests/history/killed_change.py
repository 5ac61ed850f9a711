"""Changes of a warehouse that are killed at any of their steps, each in a process of its own.

    python -m tests.history.killed_change NAME SOURCE ROOT FOLDER COUNT SEED

Prints the number of steps of the change, then a line for each copy of the warehouse in FOLDER: at
which step it was killed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kgroup.errors import UnknownGroupError
from kgroup.history.build import retention
from kgroup.history.build.build import Build
from kgroup.history.input.segment_source import find_sources
from kgroup.history.warehouse import delta_log, table_file, warehouse
from kgroup.pandas_import import leave_out_pandas

BEFORE_MS = 1 << 62
"""A time after all records."""

GROUP = "order-service"

STEPS: tuple[tuple[Any, str], ...] = (
    (os, "fsync"),
    (delta_log.DeltaLog, "commit"),
    (table_file._File, "write"),
    (table_file._File, "close"),
    (pq, "write_table"),
    (Path, "unlink"),
    (Path, "write_bytes"),
    (Path, "rmdir"),
)
"""What changes something on disk."""


def build(source: str, root: Path) -> None:
    """Build what is new of a log; converts a warehouse of the older format."""
    with warehouse.write_warehouse(root) as writer:
        made = Build(writer)
        made.read(find_sources([source], "c").segments)
        made.commit()


def expire(source: str, root: Path) -> None:
    """Remove all that has ended."""
    with warehouse.write_warehouse(root) as writer:
        retention.expire(writer, BEFORE_MS)


def delete(source: str, root: Path) -> None:
    """Remove a group, if it is there."""
    with suppress(UnknownGroupError), warehouse.write_warehouse(root) as writer:
        retention.delete_groups(writer, [GROUP])


def vacuum(source: str, root: Path) -> None:
    """Remove all replaced files."""
    with warehouse.write_warehouse(root) as writer:
        writer.vacuum(0)


CHANGES: dict[str, Callable[[str, Path], None]] = {
    each.__name__: each for each in (build, expire, delete, vacuum)
}


def _counted(on_step: Callable[[bool], None]) -> None:
    """Have a function called before and after each step."""

    def watch(place: Any, name: str) -> None:
        function = getattr(place, name)

        def step(*args: Any, **options: Any) -> Any:
            on_step(False)
            result = function(*args, **options)
            on_step(True)
            return result

        setattr(place, name, step)

    for place, name in STEPS:
        watch(place, name)


def _in_child(work: Callable[[], None]) -> int:
    """Do something in a process of its own; return its exit status."""
    # Forked while there is no thread yet: a start of Python costs more than a build.
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(name: str, source: str, root: str, folder: str, count: str, seed: str) -> None:
    """See the module."""
    leave_out_pandas()  # as the command does
    import_module("pyarrow.acero")  # else each process would load it
    total = Path(folder, "steps")

    def count_steps() -> None:
        steps = 0

        def on_step(is_done: bool) -> None:
            nonlocal steps
            steps += 1

        copy = Path(folder, "counted")
        shutil.copytree(root, copy)
        _counted(on_step)
        CHANGES[name](source, copy)
        with total.open("w") as file:
            file.write(str(steps))

    assert _in_child(count_steps) == 0
    steps = int(total.read_text())
    print(steps, flush=True)
    chosen = sorted(random.Random(seed).sample(range(steps), min(int(count), steps)))
    for last in chosen:
        copy = Path(folder, f"killed-{last}")
        shutil.copytree(root, copy)

        def change(last: int = last, copy: Path = copy) -> None:
            step = -1

            def on_step(is_done: bool) -> None:
                nonlocal step
                step += 1
                if step == last:
                    os.kill(os.getpid(), signal.SIGKILL)

            _counted(on_step)
            CHANGES[name](source, copy)

        print(copy.name, _in_child(change), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
