"""Builds of one warehouse by several processes, which commit at the same time.

    python -m tests.history.rival_builds WAREHOUSE SOURCE...

Each process builds one SOURCE. They wait for each other before they commit; a line for each source
tells whether it was committed.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.synchronize import Barrier

from kgroup.errors import BusyError
from kgroup.history.build.build import Build
from kgroup.history.input.segment_source import find_sources
from kgroup.history.warehouse import warehouse
from kgroup.history.warehouse.store import location_of


def build(place: str, source: str, together: Barrier) -> None:
    """Build a source, and print how it ended."""
    commit = warehouse.WarehouseWriter._commit_tables

    def commit_together(writer: warehouse.WarehouseWriter, *args: object) -> object:
        if together.parties:
            together.wait(300)
            warehouse.WarehouseWriter._commit_tables = commit  # type: ignore[method-assign]
        return commit(writer, *args)  # type: ignore[arg-type]

    warehouse.WarehouseWriter._commit_tables = commit_together  # type: ignore[method-assign,assignment]
    try:
        with warehouse.write_warehouse(location_of(place)) as writer:
            made = Build(writer)
            made.read(find_sources([source], "c").segments)
            made.commit()
        print(f"{source} committed", flush=True)
    except BusyError as error:
        print(f"{source} {error}", flush=True)


def main(place: str, *sources: str) -> None:
    """See the module."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(len(sources))
    processes = [
        context.Process(target=build, args=(place, source, together)) for source in sources
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
